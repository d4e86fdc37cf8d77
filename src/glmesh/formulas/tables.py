"""Tables of files with the columns of a design in place of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glmesh.contract import Column, Contract, DataTable
from glmesh.errors import InvalidInput, Mismatch
from glmesh.formulas.design import Design
from glmesh.formulas.expressions import Factor
from glmesh.formulas.formula import Formula
from glmesh.formulas.frames import Frame
from glmesh.types import Flags, Vector


def response_of(formula: Formula, frame: Frame) -> Vector:
    """Return the values of a response that is a function, such as log(y), shape (m,)."""
    return Factor.parse(formula.response).numbers(frame)


def whole_rows(table: DataTable, frame: Frame, names: tuple[str, ...]) -> Flags:
    """Return flags, shape (m,), True for rows that lack no target, no weight and no value in the columns `names`."""
    whole = frame.complete(names)
    if table.y is not None:
        whole &= ~table.missing_labels
    return whole if table.weight is None else whole & ~np.isnan(table.weight)


def without_gaps(table: DataTable, names: tuple[str, ...] | None = None) -> DataTable:
    """Return the table without the rows that lack a value: in a column of `names`, all if None, target or weight.

    Raise Mismatch if no row is left.
    """
    frame = Frame.of_table(table)
    if names is None:
        whole = whole_rows(table, frame, ())
        if isinstance(table.X, np.ndarray):
            whole &= ~np.isnan(table.X[:, [k for k, one in enumerate(table.columns) if one not in table.texts]]).any(
                axis=1
            )
    else:
        whole = whole_rows(table, frame, names)
    if not whole.any():
        raise Mismatch(f"{table.where}: every row has a missing value in a column that is used; leave such columns out")
    return table.rows(whole)


def designed(table: DataTable, design: Design, frame: Frame, extra: tuple[str, ...] = ()) -> DataTable:
    """Return the table with the design's columns, and the columns `extra` behind them, in place of its features.

    `frame` is that of the table, whose rows have no gaps. Raise Mismatch for what does not fit the design.
    """
    frame.require(extra)
    columns = [design.matrix(frame), *(frame.numbers(name)[:, None] for name in extra)]
    both = set(extra) & {*design.names, *design.wanted}
    if both:
        raise InvalidInput(f"{min(both)!r} is a column of the formula, and cannot be an offset or an exposure, too")
    return replace(
        table,
        X=np.ascontiguousarray(np.hstack(columns)),
        names=(*design.names, *extra),
        text_columns=(),
        cells={},
        left_out=(),
    )


def raw_contract(design: Design, contract: Contract, extra: tuple[str, ...] = ()) -> Contract:
    """Return a contract whose columns are the variables of a design, and `extra`, in place of the design's columns."""
    columns = [Column(one.name, one.kind) for one in design.variables]
    return replace(contract, columns=(*columns, *map(Column, extra)))
