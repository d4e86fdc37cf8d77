"""Counts and extremes of many random problems: whether certificates hold, whether separation is told apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from glmesh import Problem, solve
from glmesh.engine.result import Status
from glmesh.functions import Softmax
from tests.methods.totals.likelihood.certificates import LOSSES, draw, judge
from tests.methods.totals.likelihood.pooled import CLASSES, COUNTS, SHARES, Case, separated
from tests.methods.totals.likelihood.pooled import draw as draw_separated

TOLERANCES = (1e-1, 1e-3, 1e-6)  # [standard errors] at which fits stop, one of them for each problem
ALLOWED = 1.0 + 1e-6  # ratio of truth to claim, because the truth is compared in double precision at the end
KNOWN = 1e-10  # [norm of the Hessian] distance below which tightness is that of rounding
FAMILIES = {SHARES: "binomial", COUNTS: "poisson"}


@dataclass
class Claims:
    """What became of the certificates of one loss."""

    n: int = 0
    ended: Counter[str] = field(default_factory=Counter)  # by status
    checked: int = 0
    wrong: list[str] = field(default_factory=list)
    worst: dict[str, float] = field(default_factory=dict)  # largest ratio of truth to claim, by what is claimed
    tightness: list[float] = field(default_factory=list)  # claimed distance / true one

    def add(self, name: str, number: int) -> None:
        """Fit problem `number` of a loss, and judge what is claimed of it."""
        rng = np.random.default_rng([list(LOSSES).index(name), number])
        case, tol = draw(name, rng), float(rng.choice(TOLERANCES))
        result = case.fit(tol)
        self.n += 1
        self.ended[result.status.name] += 1
        if result.statistics is None or not np.isfinite(result.distance):
            return
        found = judge(case, result)
        self.checked += 1
        for what, ratio in found.ratios.items():
            self.worst[what] = max(self.worst.get(what, 0.0), ratio)
            if not ratio <= ALLOWED:
                self.wrong.append(f"{name} {number}: {what} is {ratio:.9g} of what is claimed")
        if found.true > KNOWN:
            self.tightness.append(found.distance / found.true)


@dataclass
class Verdicts:
    """What became of fits of data that a linear program calls separated, or not."""

    n: int = 0
    separated: int = 0
    undecided: int = 0
    wrong: list[str] = field(default_factory=list)
    misnamed: list[str] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)  # rounds of the separated ones

    def add(self, targets: str, number: int) -> None:
        """Fit case `number` of a kind of targets without a penalty, and compare its end with the linear program."""
        case = draw_separated(np.random.default_rng([11, number]), targets)
        is_separated = separated(case)
        family = Softmax(case.q) if targets == CLASSES else FAMILIES[targets]  # a class may have no row
        problem = Problem.glm(case.X, case.y, family=family, alpha=0.0, fit_intercept=True)
        result = solve(problem, n_nodes=1 + number % 3, topology="complete")
        self.n += 1
        self.separated += is_separated
        wanted = Status.NO_OPTIMUM if is_separated else Status.CONVERGED
        if result.status in (Status.STALLED, Status.COLLINEAR):
            self.undecided += 1
        elif result.status is not wanted:
            self.wrong.append(f"{targets} {number}: {result.status.name}, expected {wanted.name}")
        elif is_separated:
            self.totals.append(result.rounds)
            names = named(result.remark)
            if names is not None and not separated(replace(case, X=case.X[:, names])):
                self.misnamed.append(f"{targets} {number}: {names} do not separate: {result.remark}")


def named(remark: str) -> list[int] | None:
    """The numbers of the columns that a sentence on separation names; None: it does not name them all."""
    found = re.search(r"no maximum: the (intercept|columns? (.*?)) separates? ", remark)
    assert found, remark
    if " others" in found[0]:
        return None
    return [int(name[1:]) for name in re.split(", | and ", found[2])] if found[2] else []


def claims(name: str, numbers: Iterable[int], so_far: Claims | None = None) -> Claims:
    """Judge problems of a loss, and return what became of them and of those before."""
    out = so_far or Claims()
    for number in numbers:
        out.add(name, number)
    return out


def verdicts(targets: str, numbers: Iterable[int]) -> Verdicts:
    """Fit cases of a kind of targets, and return what became of them."""
    out = Verdicts()
    for number in numbers:
        out.add(targets, number)
    return out


__all__ = ["ALLOWED", "LOSSES", "Case", "Claims", "Verdicts", "claims", "verdicts"]
