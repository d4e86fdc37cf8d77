"""A fit of sites that hold columns of the same rows, as a program that asks for totals, and the rules of a site."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from glmesh.core import Block, Certificate
from glmesh.errors import InvalidInput
from glmesh.federation.node.answer import Answer
from glmesh.federation.node.questions import Questions, Steps
from glmesh.federation.node.rules import RuleBook, level_counts, rare_columns
from glmesh.federation.totals import Beginning, Refusal
from glmesh.federation.totals.views import drawn_start
from glmesh.linalg import Columns
from glmesh.methods import Rows
from glmesh.methods.columns.method import ColumnTotals
from glmesh.types import Vector


@dataclass(frozen=True)
class ColumnRules(RuleBook):
    """Rules of a site that holds columns; d/n and the spread of a Hessian say nothing of totals over columns.

    A total is one number per row, a combination of the columns of all sites. So what the totals of two sets of members,
    or of two files of one site, have in common and what not gives away columns, at whatever points they were made: a
    site contributes again only with the same file to the same members, unless its user allows it.
    """

    members_changed: bool = False  # whether the last contribution was to other members
    rare: str = "refuse"  # or "drop"

    def check_alone(self, block: Rows) -> None:
        """Raise Refusal for too few rows, of a class or at all, or if members or file are others than before."""
        rules, n = self.rules, len(block.y[0])
        if n < rules.least_rows:
            raise self._refuse(f"{n} rows, least_rows = {rules.least_rows}")
        counts = [int((block.y[0] == side).sum()) for side in (-1.0, 1.0)] if block.loss.classifies else []
        if any(0 < one < rules.least_class for one in counts):
            raise self._refuse(f"{min(counts)} rows of a class, least_class = {rules.least_class}")
        what = "members are" if self.members_changed else "rows of the data file are" if self.rows_changed else ""
        if what and not rules.small_changes:
            raise self._refuse(
                f"the {what} not those of this site's last contribution, and the difference of two sets of totals "
                "tells about columns that are in one of them. Write small_changes = true into [rules] if that may be"
            )

    def check_vectors(self, made: int) -> None:
        """Raise Refusal if `made` totals with a number per row are as many as this site allows in a fit."""
        most = self.rules.most_vectors
        if most and made >= most:
            raise self._refuse(f"{made} totals with a number per row are made, most_vectors = {most}")

    def left_out(self, rows: Rows, names: Sequence[str]) -> list[int]:
        """Return the site's two-valued columns with fewer than five rows of a value, to be left out, ascending.

        Raise Refusal if there are any and the federation refuses them.
        """
        found = rare_columns(level_counts(rows.X[0]), float(len(rows.y[0])))
        if found and self.rare != "drop":
            listed = ", ".join(names[k] for k in found)
            raise self._refuse(
                f"few rows have one of the two values of {listed}; leave the columns out, or write rare = 'drop' into "
                "[problem]"
            )
        return found


@dataclass(eq=False)
class ColumnProgram:
    """The program of a site that holds columns: called with a Beginning, it asks for totals, returns an Answer's bytes.

    The Answer is what all sites know of the model: members, intercept, objective, proof. The site's own coefficients
    are in `own`; they follow from the totals, so a program that is repeated on these comes to them again.
    """

    block: Block  # of this site alone
    rows: Rows  # the site's columns as a table, for rules
    n_nodes: int  # members of the federation
    tol: float  # relative gap to be proven
    max_totals: int
    rules: ColumnRules
    names: Sequence[str]  # of the columns
    seen: Callable[[float, float], None] = lambda objective, gap: None  # is told of each round
    own: dict[bytes, Vector] = field(default_factory=dict)  # coefficients (n_columns,) by the bytes of the Answer
    dropped: tuple[int, ...] = ()  # columns without a coefficient, because few rows have one of their two values

    def __call__(self, beginning: Beginning) -> Steps:
        """Return the generator of one fit: it yields requests for totals, is sent sums, returns an Answer's bytes."""
        try:
            return (yield from self._run(beginning))
        except InvalidInput as error:  # that follows from totals, so all sites raise it
            raise Refusal(str(error)) from error

    def _run(self, beginning: Beginning) -> Steps:
        """Yield the requests of a fit until the gap is proven; return the bytes of its Answer."""
        self.rules.check_alone(self.rows)
        self.dropped = tuple(self.rules.left_out(self.rows, self.names))
        block = without_columns(self.block, self.dropped)
        method = ColumnTotals(self.tol)
        state = method.start(block, self._start(block, beginning.start) if beginning.start else None)
        questions = Questions(beginning, self.n_nodes, lambda told: method.take(state, told))
        rounds, certified = 0, False
        while rounds < self.max_totals and not certified and not state.failure:
            self.rules.check_vectors(state.directions_told)
            steps = method.round(block, state)
            request = next(steps)
            while True:
                sums = yield from questions.sum(request)
                try:
                    request = steps.send(sums)
                except StopIteration:
                    break
            rounds += 1
            reached = Certificate(rounds, state.estimate, state.objective - state.estimate, state.objective)
            certified = bool(state.gap <= self.tol * abs(state.objective))
            self.seen(state.objective, reached.relative)
        answer = Answer(
            coef=np.zeros(0),
            intercept=float(state.intercept),
            members=beginning.members,
            totals=rounds,
            objective=float(state.objective),
            gap=float(state.gap),
            certified=certified,
            failure="" if certified else state.failure,
        ).to_bytes()
        self.own[answer] = state.x
        return answer

    def _start(self, block: Block, seed: str) -> Vector:
        """Return the coefficients at which this site begins after a change, shape (n_columns,), drawn from `seed`.

        They are this site's own, and such that its predictions spread by about one.
        """
        own = hashlib.sha256(f"{seed} {int(block.ids[0])}".encode()).hexdigest()
        size = block.columns.norms / np.sqrt(block.d)
        drawn = drawn_start(own, block.columns.n)
        start: Vector = np.divide(drawn, size, out=np.zeros(block.columns.n), where=size > 0)
        return np.asarray(start / np.sqrt(self.n_nodes))


def without_columns(block: Block, dropped: Sequence[int]) -> Block:
    """Return the block with zeros in place of the columns `dropped`, which have the coefficient 0 then."""
    if not len(dropped):
        return block
    columns = block.columns
    data = columns.data.copy()
    for k in dropped:
        data[int(columns.indptr[k]) : int(columns.indptr[k + 1])] = 0.0
    made = Columns(columns.d, columns.indptr, columns.indices, data, columns.dense)
    return replace(block, columns=made)
