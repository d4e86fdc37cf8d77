"""Last phase of a node whose sites hold columns of the same rows and make masked totals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from glmesh.core import Block
from glmesh.errors import Mismatch
from glmesh.federation.config import Federation, Site
from glmesh.federation.node.answer import Answer
from glmesh.federation.node.column_program import ColumnProgram, ColumnRules
from glmesh.federation.node.totalling import Totalling
from glmesh.federation.node.totals_store import Kept
from glmesh.federation.totals import Machine, Program
from glmesh.federation.totals.private import PrivateMachine
from glmesh.methods import Rows
from glmesh.methods.totals.likelihood.outputs import coefficient_table
from glmesh.problem import DataSummary, NodeData

_LACKS = (
    "the sites hold a model that was made of totals which a site has lost with its disk, and its coefficients with "
    "them; begin with a new federation file"
)


class ColumnTotalling(Totalling):
    """Last phase of a node that holds columns: it votes for what all know, and its model file has its own columns."""

    machine_kind: ClassVar[type[Machine]] = PrivateMachine
    machine: PrivateMachine
    _rules: ColumnRules

    @classmethod
    def rows_of(cls, federation: Federation, site: Site, data: NodeData, summary: DataSummary) -> Rows:
        """Return the site's columns as a table with a row per row of the data, with targets and weights."""
        spec = data.spec
        data.check(summary, site.me)
        stored = data.columns.to_scipy()
        X = np.ascontiguousarray(stored) if isinstance(stored, np.ndarray) else stored.tocsr()
        ids = np.array([site.me], dtype=np.uint64)
        info = federation.network_info()
        y, weight = data.targets(summary), data.weight
        return Rows(
            ids, info, [X], [y], [weight], spec.loss, coefficient_table(spec, int(X.shape[1])), spec.fit_intercept
        )

    @classmethod
    def rules_of(cls, federation: Federation, site: Site, block: Rows, kept: Kept) -> ColumnRules:
        """Return the site's rules; `kept` says what its last contribution was about."""
        return ColumnRules(
            site.rules,
            site.file.name,
            constant=True,
            may_change=False,
            rows_changed=kept.changed,
            members_changed=kept.members_changed,
            rare=federation.problem.rare,
        )

    def _program(self, max_rounds: int, seen: Callable[[float, float], None]) -> Program:
        """Return the program of this site's fit, which also keeps the site's coefficients.

        `seen(objective, gap)` is called after each round; `max_rounds` is the largest number of rounds.
        """
        part, site = self._federation.problem, self._site
        composite = self._own.data.compose(self._summary, site.me)
        d = composite.columns.d
        block = Block.of(np.array([site.me]), self._federation.network_info(), [composite], lambda: np.zeros((1, d)))
        names, told = self._fitted.table.columns, self.told(seen)
        self._columns = ColumnProgram(
            block,
            self._block,
            len(self.info.names),
            part.tol,
            max_rounds,
            self._rules,
            names,
            lambda objective, gap: told(objective, gap, np.nan),
        )
        return self._columns

    def _answer(self) -> Answer:
        """Return what all sites voted for, with this site's own coefficients."""
        model = self.machine.model
        answer = Answer.of_bytes(model)
        return replace(answer, coef=self._columns.own[model], dropped=self._columns.dropped)

    def _raise_refusals(self) -> None:
        """Raise Mismatch if this site or another refuses, or if totals that a model was made of are lost."""
        if self.machine.lacks_totals and not self.machine.agreement.refused:
            self.machine.refuse(_LACKS)
            self._pass_on()
            raise Mismatch(_LACKS)
        super()._raise_refusals()
