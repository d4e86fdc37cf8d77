"""A method on totals as a program between sites: what it yields becomes questions, what comes back its sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glmesh.contract.fitting import plain_number
from glmesh.core import Certificate
from glmesh.core.messages import AnyRounds
from glmesh.errors import InvalidInput, Mismatch, UnsuitablePair
from glmesh.federation.config import ProblemPart
from glmesh.federation.node.answer import Answer
from glmesh.federation.node.discretion import SiteDiscretion
from glmesh.federation.node.levels import DesignAgreement, SiteFrame
from glmesh.federation.node.moments import with_moments
from glmesh.federation.node.questions import NEAR, OTHER_POINT, Elsewhere, Questions, Steps
from glmesh.federation.node.rules import (
    RuleBook,
    check_folds,
    held_columns,
    level_counts,
    n_coefficients,
    rare_columns,
)
from glmesh.federation.totals import Beginning, Refusal, Unequal
from glmesh.federation.totals.masks import edges_below, largest_edges
from glmesh.federation.totals.views import drawn_start
from glmesh.methods import CrossValidation, MaximumLikelihood, Rows
from glmesh.methods.totals.choice import method_on_totals
from glmesh.methods.totals.cross_validation import rows_of_folds
from glmesh.methods.totals.likelihood.outputs import balanced_rows
from glmesh.methods.totals.likelihood.state import LikelihoodState
from glmesh.methods.totals.likelihood.statistics import term_names
from glmesh.methods.totals.nodes import OnTotals, Point
from glmesh.methods.totals.scaled import column_exponents, scales
from glmesh.methods.totals.state import HoldsModel
from glmesh.types import Vector

FAR = 5  # [points] that a site may refuse in a row as too far; design: shorter steps are tried that often


@dataclass(frozen=True, eq=False)
class FormulaColumns:
    """What makes a site's rows of a formula, once all sites have agreed on the levels of its categories."""

    table: SiteFrame  # the site's rows as the formula sees them
    rows: Callable[[DesignAgreement], Rows]  # with the design's columns; may raise Mismatch
    method: Callable[[int], OnTotals]  # for so many columns


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
    # is told (objective, relative gap, standard errors off) after each round
    seen: Callable[[float, float, float], None] = lambda objective, gap, off: None
    n_folds: int = 0  # that choose alpha; 0: there are none
    labels: tuple[str | float, ...] = ()  # of the classes, where a row has a linear predictor for each
    columns: FormulaColumns | None = None  # that a formula makes; None: those of `block`
    left_out: int | None = None  # rows of this site without a value, which are not in `block`; None: not told

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
    if part.family:
        return MaximumLikelihood(part.tol_se)
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
        self._discretion: SiteDiscretion | None = None  # what the site's rules hold back; None: the fit is no family's
        self._block = self._with_discretion(program.block, program.names)
        self._dropped: list[int] = []
        self._scale = np.ones(program.block.p + 1)
        self._columns, self._method = tuple(program.names), program.method
        self._width = int(program.block.X[0].shape[1])
        self._agreement: DesignAgreement | None = None
        self._left_out: tuple[int, int] | None = None
        self._checked = b""  # bytes of the last point of a family that was checked

    def run(self) -> Steps:
        """Yield the requests of a fit: common scales first, then rounds until the optimum is proven well enough.

        Return the bytes of its Answer.
        """
        program, beginning = self._program, self._beginning
        program.rules.check_data(self._block, changed=bool(beginning.start))
        if program.columns is not None:
            yield from self._design(program.columns)
        exponents = yield from self._survey()
        method, block = self._method, self._block
        self._scale = scales(exponents)
        drawn: Vector | None = None
        if beginning.start:
            drawn = drawn_start(beginning.start, block.p + 1) * self._scale[-1] / self._scale
        state = method.begin(block, drawn)
        method.rescale(state, exponents)
        rounds, certified = 0, False
        while rounds < program.max_totals and not certified and not getattr(state, "failure", ""):
            yield from self._round(method, block, state)
            rounds += 1
            proof = Certificate(rounds, state.gap, state.objective - state.gap, state.objective)
            certified = bool(np.isfinite(state.gap) and proof.relative <= program.tol)
            if (finished := method.finished(block, state)) is not None:
                certified = finished
            program.seen(state.objective, proof.relative, method.standard_errors_off(block, state))
        return self._answer(state, rounds, certified=certified).to_bytes()

    def _answer(self, state: HoldsModel, rounds: int, *, certified: bool) -> Answer:
        """Return the Answer of a fit that has ended after `rounds` rounds; dropped columns have the coefficient 0."""
        method, block, program = self._method, self._block, self._program
        rows = np.append(state.w, state.intercept).reshape(block.loss.n_outputs, -1)
        if len(rows) > 1:
            rows = balanced_rows(block.whole_penalty, rows)
        coef = np.zeros((len(rows), self._width))
        coef[:, [k for k in range(self._width) if k not in self._dropped]] = rows[:, :-1]
        statistics = method.statistics(state)
        if statistics is not None:
            classes = program.labels if len(rows) > 1 else ()
            names = term_names(block.names or (), [_spoken(one) for one in classes])
            statistics = replace(statistics, fitted=replace(statistics.fitted, names=names))
        return Answer(
            coef=coef if len(rows) > 1 else coef[0],
            intercept=rows[:, -1].copy() if len(rows) > 1 else float(rows[0, -1]),
            members=self._beginning.members,
            totals=rounds,
            objective=float(state.objective),
            gap=float(state.gap),
            off=method.standard_errors_off(block, state),
            certified=certified,
            failure="" if certified else getattr(state, "failure", ""),
            remark=method.remark(block, state),
            dropped=tuple(self._dropped),
            curve=getattr(state, "curve", None),
            statistics=statistics,
            design=None if self._agreement is None else self._agreement.design,
            said=() if self._agreement is None else self._agreement.said,
            left_out=self._left_out,
        )

    def _with_discretion(self, block: Rows, names: Sequence[str]) -> Rows:
        """Return the rows, for a family with the names of the columns and what the site's rules hold back."""
        if not block.loss.by_likelihood:
            return block
        self._discretion = SiteDiscretion(self._program.rules, bool(self._beginning.start))
        return replace(block, names=tuple(names), discretion=self._discretion)

    def _design(self, columns: FormulaColumns) -> Steps:
        """Agree on levels of categories and moments of numbers, and take the formula's columns for the table's.

        It is a generator: it yields requests. Refusal is raised for rare levels, and if the site's own rules forbid
        that it contributes with these columns.
        """
        program = self._program
        self._agreement = yield from columns.table.agree(
            self._beginning.members, lambda head, content: self._questions.ask(head, b"", content, 0)
        )
        assert self._agreement is not None
        self._agreement = yield from with_moments(self._agreement, self._questions, program.rules)
        assert self._agreement is not None
        try:
            block = columns.rows(self._agreement)
        except Mismatch as error:
            raise Refusal(str(error), public=f"refused by {columns.table.me}") from None
        self._columns = (*self._agreement.design.names, *columns.table.beside)
        self._block, self._width = self._with_discretion(block, self._columns), int(block.X[0].shape[1])
        self._scale = np.ones(block.p + 1)
        self._method = columns.method(block.p)
        program.rules.check_data(self._block, changed=bool(self._beginning.start))

    def _rows_in_all(self, n: float, left_out: int) -> tuple[int, int]:
        """Return (rows of all sites, those left out for missing values); n rows are in the fit."""
        before = n if self._agreement is None or self._agreement.n is None else self._agreement.n
        return int(before) + left_out, left_out

    def _survey(self) -> Steps:
        """Ask for the largest exponents of the columns, and for counts of rows, values and folds; drop rare columns.

        Return the exponents, the largest of all sites, shape (kept columns + 1,), the last for the intercept. It is a
        generator: it yields requests. Refusal is raised if all sites or a fold have too few rows, or if a column is
        rare and the federation refuses those.
        """
        program, block = self._program, self._block
        width = int(block.X[0].shape[1])
        exponents = column_exponents(block)[0, : width + 1]  # of each linear predictor they are the same
        n_rows = len(block.y[0])
        held_out = [float(len(rows)) for rows in rows_of_folds(n_rows, program.n_folds)]
        shows = [float(program.rules.shows_constant(block, scales(exponents), changed=bool(self._beginning.start)))]
        if self._discretion is None:
            shows = []
        gaps = [] if program.left_out is None else [float(program.left_out)]
        counts = np.concatenate([[float(n_rows)], held_out, shows, gaps, level_counts(block.X[0])])
        marks = edges_below(exponents)
        total = yield from self._questions.ask(
            {"survey": len(exponents)}, b"", np.concatenate([marks, counts.astype(np.uint64)]), len(marks)
        )
        found, sums = largest_edges(total[: len(marks)]), total[len(marks) :].astype(np.float64)
        program.rules.check_all(n_coefficients(block), sums[0])
        if held_out:
            check_folds(n_coefficients(block), sums[1 : 1 + len(held_out)], len(self._beginning.members))
        others = sums[1 + len(held_out) :]
        if self._discretion is not None:
            self._discretion.asks_cones = others[0] == 0.0
        if gaps:
            self._left_out = self._rows_in_all(sums[0], int(others[len(shows)]))
        self._dropped = rare_columns(others[len(shows) + len(gaps) :], sums[0])
        held = np.flatnonzero(held_columns(block))
        if self._dropped and (program.rare == "refuse" or np.isin(held, self._dropped).any()):
            names = ", ".join(self._columns[k] for k in self._dropped)
            why = f"few rows of all sites have one of the two values of {names}"
            raise Refusal(f"{why}; leave the columns out, or write rare = 'drop' into [problem]", public=why)
        if self._dropped:
            found = found[self._drop(block, width)]
        return np.tile(found, block.loss.n_outputs)

    def _drop(self, block: Rows, width: int) -> list[int]:
        """Leave the dropped columns out of the fit's rows; return the numbers of the others and, last, of the ones."""
        kept = [k for k in range(width) if k not in self._dropped]
        X = np.ascontiguousarray(block.X[0][:, kept]) if isinstance(block.X[0], np.ndarray) else block.X[0][:, kept]
        whole = [c * (width + 1) + k for c in range(block.loss.n_outputs) for k in (*kept, width)]
        names = None if block.names is None else tuple(block.names[k] for k in kept)
        self._block = replace(block, X=[X], penalty=block.penalty.take(np.array(whole[:-1])), names=names, _norms=None)
        return [*kept, width]

    def _round(self, method: OnTotals, block: Rows, state: HoldsModel) -> Steps:
        """Make one round of the method; it is a generator, which yields the round's requests."""
        for stage in method.stages(block, state):
            yield from self._stage(method, block, state, stage)

    def _stage(self, method: OnTotals, block: Rows, state: HoldsModel, begin: Callable[[], AnyRounds]) -> Steps:
        """Make the part of a round that `begin` returns; it is a generator, which yields its requests.

        If another site was first to ask, at another point, move there and make the part again.
        """
        self._check_point(method, block, state)
        steps = begin()
        request = next(steps, None)
        while request is not None:
            try:
                answer = yield from request.asked_of(self._questions)
                request = steps.send(answer)
            except StopIteration:
                return
            except Elsewhere as other:
                steps.close()
                if not method.take(state, other.at) <= NEAR:
                    raise Unequal(OTHER_POINT) from None
                self._check_point(method, block, state)
                steps = begin()
                request = next(steps, None)

    def _check_point(self, method: OnTotals, block: Rows, state: Any) -> None:
        """Raise Refusal if the site's rules forbid it to contribute at the point at which the method asks next.

        A family's step to such a point is refused as too long, FAR times in a row at most; the fit ends for a point
        that is no step away.
        """
        for rows, point in method.trials(block, state):
            at = np.append(point[0], point[1]).tobytes()
            if self._discretion is None:
                self._program.rules.check_point(rows, self._scale[: block.p + 1], point)
            elif at != self._checked:
                self._checked = at
                self._check_step(rows, state, point, self._discretion)

    def _check_step(self, rows: Rows, state: LikelihoodState, point: Point, discretion: SiteDiscretion) -> None:
        """Check the point of a family's next total; raise Refusal, or let the step be too long by `discretion`."""
        try:
            self._program.rules.check_point(rows, self._scale[: rows.p + 1], point)
        except Refusal:
            if state.query is None or not state.query.step.any() or discretion.far >= FAR:
                raise
            discretion.judge(too_far=True)
        else:
            discretion.judge(too_far=False)


def _spoken(label: str | float) -> str:
    """Return the label of a class as text, a whole number without a decimal point."""
    return label if isinstance(label, str) else plain_number(label)
