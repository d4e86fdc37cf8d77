"""Columns of `train`'s file that are no features: time and event of a Cox model, its strata, and clusters of rows."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.contract import DataTable
from glmesh.contract.contract import doubled
from glmesh.contract.events import with_events
from glmesh.errors import InvalidData, InvalidInput
from glmesh.formulas import Formula, Frame
from glmesh.types import Indices


@dataclass(frozen=True)
class Beside:
    """Names of the columns beside features; empty where the user named none."""

    time: str = ""  # of the event or of censoring
    event: str = ""  # 1 where it happened, else 0
    strata: str = ""
    cluster: str = ""

    @staticmethod
    def of(options: Namespace, formula: Formula | None) -> Beside:
        """Return the columns that the options or Surv(time, event) name; raise InvalidInput for two that exclude."""
        made = Beside(*_times(options, formula), options.strata or "", options.cluster or "")
        if made.time and options.target not in (None, made.time):
            raise InvalidInput(
                f"--target {options.target} and --time {made.time} exclude each other; leave --target out"
            )
        made.check(() if formula is None else formula.variables)
        return made

    def check(self, used: Sequence[str]) -> None:
        """Raise InvalidInput if a column is named for two purposes; `used` are the columns of the formula."""
        named = (self.time, self.event, *{self.strata, self.cluster})
        if twice := doubled([one for one in named if one]):
            raise InvalidInput(f"time, event and strata or cluster are columns of their own, and {twice[0]!r} is two")
        if self.strata and self.strata in used:
            raise InvalidInput(f"--strata {self.strata} is a column of the formula, too; leave one of both out")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns among the features of a table; the time is its target."""
        return tuple(one for one in (self.event, self.strata, self.cluster) if one)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the columns that may hold text."""
        return tuple(one for one in (self.strata, self.cluster) if one)

    @property
    def options(self) -> list[str]:
        """Return the options that name columns, for messages."""
        both = (("--event", self.event), ("--strata", self.strata), ("--cluster", self.cluster))
        return [option for option, name in both if name]

    def without(self, table: DataTable) -> DataTable:
        """Return the table with its features alone; times are negative where the event did not happen."""
        if not self.names:
            return table
        Frame.of_table(table).require(self.names)
        if self.event:
            table = with_events(table, self.event)
        kept = [k for k, name in enumerate(table.columns) if name not in self.labels]
        return table.take(np.array(kept, dtype=np.int64), tuple(table.columns[k] for k in kept))

    def numbers(self, table: DataTable) -> tuple[Indices | None, Indices | None]:
        """Return the numbers from 0 of the strata and of the clusters of each row, each (m,); None: not named."""
        Frame.of_table(table).require(self.names)
        found = [_numbers(table, name) if name else None for name in (self.strata, self.cluster)]
        return found[0], found[1]


def _times(options: Namespace, formula: Formula | None) -> tuple[str, str]:
    """Return the names of the columns (time, event), each "" without one; raise InvalidInput if they are said twice."""
    named = options.time or "", options.event or ""
    if formula is None or not formula.survival:
        return named
    if named not in (("", ""), formula.survival):
        raise InvalidInput(f"--time and --event, and {formula.response} in the formula: leave the options out")
    time, event = formula.survival
    return time, event


def _numbers(table: DataTable, name: str) -> Indices:
    """Return a number from 0 for the cell of each row of a column, as it is written, in the order of texts, (m,).

    So 7 and 007 have two numbers.
    """
    if name not in table.cells:
        raise InvalidInput(f"{table.where}: {name!r} is the target, row names or weights, and no column of labels")
    cells = table.cells[name]
    if "" in cells:
        raise InvalidData(f"{table.where}, line {table.line(cells.index(''))}: column {name!r} has a missing value")
    return np.asarray(np.unique(cells, return_inverse=True)[1], dtype=np.int64)
