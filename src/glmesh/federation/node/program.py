"""A method on totals as a program between sites: what it yields becomes questions, what comes back its sums."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glmesh.core import Certificate, Violation
from glmesh.core.totals import Largest, Total
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.federation.config import ProblemPart
from glmesh.federation.node.questions import NEAR, OTHER_POINT, Elsewhere, Questions, Steps
from glmesh.federation.node.rules import RuleBook, check_folds, level_counts, rare_columns
from glmesh.federation.totals import Beginning, Refusal, Unequal
from glmesh.federation.totals.masks import edges_below, largest_edges
from glmesh.federation.totals.views import drawn_start
from glmesh.methods import CrossValidation, Rows
from glmesh.methods.totals.choice import method_on_totals
from glmesh.methods.totals.cross_validation import Curve, rows_of_folds
from glmesh.methods.totals.nodes import HoldsModel, OnTotals
from glmesh.methods.totals.scaled import column_exponents, scales
from glmesh.types import Vector


@dataclass(frozen=True, eq=False)
class Answer:
    """Result of a fit on totals, with the same bits at all sites: the model, and what is proven of it."""

    coef: Vector  # (p,)
    intercept: float
    members: tuple[int, ...]  # whose rows are in it
    totals: int
    objective: float
    gap: float  # proven bound of objective - optimum; infinite: nothing is
    certified: bool
    failure: str  # a sentence if there is no optimum; empty otherwise
    dropped: tuple[int, ...] = ()  # columns without a coefficient, because few rows have one of their two values
    curve: Curve | None = None  # what the folds have found, with the weight that was chosen; None: there are no folds

    @property
    def certificate(self) -> Certificate:
        """Return what is proven as a Certificate: number of totals, gap, and the range [objective - gap, objective].

        The optimum is in that range.
        """
        return Certificate(self.totals, self.gap, self.objective - self.gap, self.objective)

    def to_bytes(self) -> bytes:
        """Return the answer as the bytes for which members vote: a line of JSON, then float64 (little-endian)."""
        head = {
            "members": self.members,
            "totals": self.totals,
            "certified": self.certified,
            "failure": self.failure,
            "dropped": self.dropped,
        }
        found = np.zeros(0)
        if self.curve is not None:
            head |= {"losses": self.curve.losses.shape, "chosen": self.curve.chosen}
            found = np.append(self.curve.weights, self.curve.losses)
        numbers = np.concatenate([found, [self.intercept, self.objective, self.gap], self.coef]).astype("<f8")
        return json.dumps(head).encode() + b"\n" + numbers.tobytes()

    @staticmethod
    def of_bytes(content: bytes) -> Answer:
        """Return the Answer that `to_bytes` made bytes of; raise Violation for bytes that it did not make."""
        try:
            head, _, rest = content.partition(b"\n")
            tree, numbers = json.loads(head), np.frombuffer(rest, dtype="<f8").astype(np.float64)
            curve = None
            if "losses" in tree:
                n_folds, n = (int(one) for one in tree["losses"])
                weights, losses, numbers = np.split(numbers, [n, n + n_folds * n])
                curve = Curve(weights, losses.reshape(n_folds, n), int(tree["chosen"]))
            return Answer(
                coef=numbers[3:],
                intercept=float(numbers[0]),
                members=tuple(int(one) for one in tree["members"]),
                totals=int(tree["totals"]),
                objective=float(numbers[1]),
                gap=float(numbers[2]),
                certified=bool(tree["certified"]),
                failure=str(tree["failure"]),
                dropped=tuple(int(one) for one in tree["dropped"]),
                curve=curve,
            )
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise Violation(f"a model of other sites that cannot be read ({error})") from None


@dataclass(eq=False)
class SiteProgram:
    """The program of one site: a method on its own rows, with the site's rules checked before every total.

    Called with a `Beginning`, it returns a generator, which yields questions, is sent sums, and returns the bytes of an
    `Answer`.
    """

    method: OnTotals
    block: Rows  # of this site alone
    n_nodes: int  # members of the federation
    tol: float  # relative gap to be proven
    max_totals: int
    rules: RuleBook
    names: Sequence[str]  # of the columns
    rare: str  # "refuse" or "drop"
    seen: Callable[[float, float], None] = lambda objective, gap: None  # is told of each round
    n_folds: int = 0  # that choose alpha; 0: there are none

    def __call__(self, beginning: Beginning) -> Steps:
        """Return the generator of one fit: it yields requests for totals, is sent sums, returns an Answer's bytes."""
        try:
            return (yield from _Fit(self, beginning).run())
        except InvalidInput as error:  # that follows from totals, so all sites raise it
            raise Refusal(str(error)) from error


def site_method(part: ProblemPart, p: int) -> OnTotals:
    """Return the method on totals of a federation's problem with p coefficients, with folds if they choose alpha.

    Raise UnsuitablePair if none suits that many coefficients.
    """
    spec = part.model()
    method = method_on_totals(spec.loss, spec.penalty_of(None), p)
    if method is None:
        raise UnsuitablePair(
            f"{p:,} coefficients are too many for totals with this loss and penalty: thousands take an L1 penalty, or "
            "a loss without kinks and an L2 penalty (alpha > 0); or write method = 'gossip' into [problem]"
        )
    return CrossValidation(method, part.cv, part.choose, tuple(map(float, part.alphas))) if part.cv else method


class _Fit:
    """One fit of a SiteProgram: yields its requests for totals, and numbers them from 0."""

    def __init__(self, program: SiteProgram, beginning: Beginning) -> None:
        self._program, self._beginning = program, beginning
        self._questions = Questions(beginning, program.n_nodes)
        self._block, self._state = program.block, None
        self._dropped: list[int] = []
        self._scale = np.ones(program.block.p + 1)

    def run(self) -> Steps:
        """Yield the requests of a fit: common scales first, then rounds until the gap is proven.

        Return the bytes of its Answer.
        """
        program, beginning = self._program, self._beginning
        program.rules.check_data(self._block, changed=bool(beginning.start))
        exponents = yield from self._survey()
        method, block = program.method, self._block
        self._scale = scales(exponents)
        w: Vector | None = None
        intercept = 0.0
        if beginning.start:
            start = drawn_start(beginning.start, block.p + 1) * self._scale[-1] / self._scale
            w, intercept = start[:-1], float(start[-1]) if block.fit_intercept else 0.0
        state = method.start(block, w, intercept)
        method.rescale(state, exponents)
        rounds, certified = 0, False
        while rounds < program.max_totals and not certified and not getattr(state, "failure", ""):
            yield from self._round(method, block, state)
            rounds += 1
            proof = Certificate(rounds, state.gap, state.objective - state.gap, state.objective)
            certified = bool(np.isfinite(state.gap) and proof.relative <= program.tol)
            program.seen(state.objective, proof.relative)
        coef = np.zeros(program.block.p)
        coef[[k for k in range(program.block.p) if k not in self._dropped]] = state.w
        return Answer(
            coef=coef,
            intercept=float(state.intercept),
            members=beginning.members,
            totals=rounds,
            objective=float(state.objective),
            gap=float(state.gap),
            certified=certified,
            failure="" if certified else getattr(state, "failure", ""),
            dropped=tuple(self._dropped),
            curve=getattr(state, "curve", None),
        ).to_bytes()

    def _survey(self) -> Steps:
        """Ask for the largest exponents of the columns, and for counts of rows, values and folds; drop rare columns.

        Return the exponents, the largest of all sites, shape (kept columns + 1,), the last for the intercept. It is a
        generator: it yields requests. Refusal is raised if all sites or a fold have too few rows, or if a column is
        rare and the federation refuses those.
        """
        program, block = self._program, self._block
        exponents = column_exponents(block)[0]
        n_rows = len(block.y[0])
        held_out = [float(len(rows)) for rows in rows_of_folds(n_rows, program.n_folds)]
        counts = np.concatenate([[float(n_rows)], held_out, level_counts(block.X[0])])
        marks = edges_below(exponents)
        total = yield from self._questions.ask(
            {"survey": len(exponents)}, b"", np.concatenate([marks, counts.astype(np.uint64)]), len(marks)
        )
        found, sums = largest_edges(total[: len(marks)]), total[len(marks) :].astype(np.float64)
        program.rules.check_all(block.p + block.fit_intercept, sums[0])
        if held_out:
            check_folds(block.p + block.fit_intercept, sums[1 : 1 + len(held_out)], len(self._beginning.members))
        self._dropped = rare_columns(sums[1 + len(held_out) :], sums[0])
        if self._dropped and program.rare == "refuse":
            names = ", ".join(program.names[k] for k in self._dropped)
            why = f"few rows of all sites have one of the two values of {names}"
            raise Refusal(f"{why}; leave the columns out, or write rare = 'drop' into [problem]", public=why)
        if self._dropped:
            kept = [k for k in range(block.p) if k not in self._dropped]
            X = np.ascontiguousarray(block.X[0][:, kept]) if isinstance(block.X[0], np.ndarray) else block.X[0][:, kept]
            self._block = replace(block, X=[X], penalty=block.penalty.take(np.array(kept)), _norms=None)
            found = found[[*kept, block.p]]
        return found

    def _round(self, method: OnTotals, block: Rows, state: HoldsModel) -> Steps:
        """Make one round of the method; it is a generator, which yields the round's requests.

        If another site was first to ask, at another point, move there and make the round again.
        """
        self._check_point(method, block, state)
        steps = method.round(block, state)
        request = next(steps)
        while True:
            try:
                if isinstance(request, Largest):
                    answer: Any = yield from self._questions.largest(request.numbers[0])
                elif isinstance(request, Total):
                    answer = yield from self._questions.sum(request)
                request = steps.send(answer)
            except StopIteration:
                return
            except Elsewhere as other:
                steps.close()
                if not method.take(state, other.at) <= NEAR:
                    raise Unequal(OTHER_POINT) from None
                self._check_point(method, block, state)
                steps = method.round(block, state)
                request = next(steps)

    def _check_point(self, method: OnTotals, block: Rows, state: HoldsModel) -> None:
        """Raise Refusal if the site's rules forbid it to contribute at the point at which the method asks next."""
        for rows, point in method.trials(block, state):
            self._program.rules.check_point(rows, self._scale[: block.p + 1], point)
