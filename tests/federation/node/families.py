"""Sites of a family in one process, in lock-step, and the simulator's fit of the same rows on the same nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from glmesh import Problem, solve
from glmesh.contract import Contract, DataTable, fit
from glmesh.core import NetworkInfo
from glmesh.engine.result import Result
from glmesh.federation.config import ProblemPart
from glmesh.federation.config.site import SiteRules
from glmesh.federation.node.answer import Answer
from glmesh.federation.node.program import SiteProgram, site_method
from glmesh.federation.node.roles import spec_of, summary_of, with_roles
from glmesh.federation.node.rules import RuleBook, has_constant_curvature
from glmesh.federation.totals import Beginning
from glmesh.functions import Cox
from glmesh.methods import MaximumLikelihood, Rows
from glmesh.methods.totals.dealing import rows_of_part
from glmesh.methods.totals.likelihood.outputs import coefficient_table
from glmesh.network import mixing, topology
from glmesh.problem import NodeData
from glmesh.types import Matrix, Unsigned, Vector

NAMES = ("alice", "bob", "carol", "dora", "emil")


@dataclass
class Fit:
    """What sites in lock-step asked for and came to."""

    requests: list[bytes] = field(default_factory=list)
    totals: list[Unsigned] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)

    @property
    def answer(self) -> Answer:
        assert len(set(self.answers)) == 1
        return Answer.of_bytes(self.answers[0])


def tables(X: Matrix, y: Vector, cuts: Sequence[int], names: Sequence[str], target: str = "y") -> list[DataTable]:
    """The rows, dealt out to one more site than there are cuts."""
    spans = zip((0, *cuts), (*cuts, len(y)), strict=True)
    return [
        DataTable(name, np.ascontiguousarray(X[a:b], dtype=np.float64), tuple(names), y[a:b], target)
        for name, (a, b) in zip(NAMES, spans, strict=False)
    ]


def programs(parts: Sequence[DataTable], part: ProblemPart, **options: Any) -> list[SiteProgram]:
    """The programs of sites that hold these tables; `rules` are those of the first one, `may_change`, `names`."""
    contracts = [Contract.like(table, classifies=part.has_labels) for table in parts]
    labels = tuple(sorted({label for one in contracts for label in one.labels}))
    fitted = [with_roles(fit(table, contracts[0].with_labels(labels)), part) for table in parts]
    info = NetworkInfo.of(mixing.metropolis(topology.build("complete", len(parts), 0)), 1, 0)
    out = []
    for k, one in enumerate(fitted):
        data = NodeData(spec_of(part, one), one.table.X, one.y, one.table.weight, f" of {NAMES[k]}")
        X, y, weight = rows_of_part(data, summary_of(data, one.labels), k)
        table = coefficient_table(data.spec, X.shape[1])
        ids = np.array([k], np.uint64)
        block = Rows(ids, info, [X], [y], [weight], data.spec.loss, table, data.spec.fit_intercept)
        block = block if one.table.clusters is None else replace(block, clusters=[one.table.clusters])
        rules = options.get("rules", SiteRules()) if k == 0 else SiteRules()
        book = RuleBook(rules, NAMES[k], has_constant_curvature(block), options.get("may_change", False))
        checks = 1e-9, options.get("max_totals", 200), book, one.table.columns, options.get("rare", "refuse")
        out.append(SiteProgram(site_method(part, block.p), block, len(parts), *checks, labels=one.labels))
    return out


def together(sites: Sequence[SiteProgram], start: str = "") -> Fit:
    """Run sites in lock-step; a rule that refuses raises."""
    found = Fit()
    running = [one(Beginning(tuple(range(len(sites))), start, {})) for one in sites]
    asked = [next(one) for one in running]
    while True:
        assert len({one.request for one in asked}) == 1
        total = np.sum([one.content for one in asked], axis=0, dtype=np.uint64)
        found.requests.append(asked[0].request)
        found.totals.append(total)
        after = []
        for one in running:
            try:
                after.append(one.send(total))
            except StopIteration as end:
                found.answers.append(end.value)
        assert not after or not found.answers
        if found.answers:
            return found
        asked = after


def simulated(parts: Sequence[DataTable], part: ProblemPart) -> Result:
    """The simulator's fit: as many nodes as sites, with their rows."""
    sites = programs(parts, part)
    blocks = [one.block for one in sites]
    width = blocks[0].X[0].shape[1] - bool(part.held)
    rows = [(one.X[0][:, :width], one.y[0], one.weight[0]) for one in blocks]
    family: Any = Cox() if part.family == "cox" else blocks[0].loss
    options = {"family": family} if part.family != "cox" else {"loss": family}
    offsets = [one.X[0][:, -1] for one in blocks] if part.held else None
    ratio = part.l1_ratio if part.penalty == "elasticnet" else None
    problem = Problem.from_nodes(
        rows, split="samples", penalty=part.penalty, alpha=part.alpha, l1_ratio=ratio, offsets=offsets,
        fit_intercept=part.fit_intercept, **options,
    )  # fmt: skip
    if blocks[0].clusters is not None:
        problem = problem.with_clusters([labels for one in blocks for labels in one.clusters or []])
    method = MaximumLikelihood(part.tol_se)
    return solve(problem, method=method, topology="complete", tol=1e-9, stop="certificate", max_rounds=200)
