"""Times with their events: the two columns that a model of survival takes in place of one target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glmesh.contract.table import DataTable
from glmesh.errors import Mismatch
from glmesh.types import Flags, Vector


def with_events(table: DataTable, event: str) -> DataTable:
    """Return the table without the column `event`; its targets, times, are negative where that is 0.

    Raise Mismatch, with the line for the table's own user alone, for events other than 0 and 1 and for times <= 0.
    """
    names, y = table.columns, np.asarray(table.y, dtype=np.float64)
    at = names.index(event)
    happened = table.column(at)
    refuse(table, (happened != 0) & (happened != 1), happened, f"column {event!r} (event) must hold 0 and 1 only")
    refuse(table, ~(y > 0), y, f"column {table.target!r} (time) must be > 0 in every row")
    kept = np.array([k for k in range(len(names)) if k != at], dtype=np.int64)
    return replace(table.take(kept, tuple(names[k] for k in kept)), y=np.where(happened == 1, y, -y))


def refuse(table: DataTable, wrong: Flags, values: Vector, why: str) -> None:
    """Raise Mismatch, whose public text is `why`, if a row of the table is `wrong`; the site itself reads the line."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise Mismatch(f"{table.where}: {why}", private=f"line {table.line(row)} holds {values[row]:g}")
