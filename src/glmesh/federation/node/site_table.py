"""A site's table as a formula needs it: the columns that it names, without rows with gaps, texts as numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from glmesh.contract import Column, Contract, DataTable
from glmesh.contract.fitting import listed
from glmesh.errors import Mismatch
from glmesh.federation.config import ProblemPart
from glmesh.federation.config.families import named_columns
from glmesh.federation.config.formulas import formula_of
from glmesh.formulas import Formula, Frame, Levels
from glmesh.formulas.frames import SITE, plain
from glmesh.formulas.tables import response_of, without_gaps
from glmesh.types import Vector

CATEGORY = "category"


def texts_wanted(part: ProblemPart) -> tuple[str, ...]:
    """Return the names of columns of which a site's table needs the texts: those of a formula, that of clusters."""
    named = formula_of(part.formula).candidates if part.formula else ()
    return (*named, part.cluster) if part.cluster and part.cluster not in named else named


def with_clusters(table: DataTable, part: ProblemPart) -> DataTable:
    """Return a site's table with the labels of its rows' clusters, if [problem] names their column.

    Labels are the cells as they are written: 7 and 007 are two. Without a formula, which says which columns are
    features, that column is none. Raise Mismatch for a table without the column.
    """
    if not part.cluster:
        return table
    names = table.names
    if names is None:
        raise Mismatch(
            f"{table.where}: has no header, and {part.cluster} must be found by name; give a table with names"
        )
    if names.count(part.cluster) != 1:
        what = "lacks" if part.cluster not in names else "has twice"
        raise Mismatch(
            f"{table.where}: {what} the column {part.cluster!r} (cluster), beside target, ids and weights; the file "
            f"has {listed(names)}; rename the column, or correct the name in the federation file"
        )
    table = replace(table, clusters=np.array(table.cells[part.cluster], dtype=np.str_))
    if part.formula:
        return table
    kept = [k for k, name in enumerate(names) if name != part.cluster]
    table = replace(table, text_columns=tuple(one for one in table.text_columns if one.name != part.cluster))
    return table.take(np.array(kept, dtype=np.int64), tuple(names[k] for k in kept))


def check_clusters(table: DataTable, part: ProblemPart) -> None:
    """Raise Mismatch if a row of the table has no label of a cluster, or if all rows have the same one."""
    labels = table.clusters
    if labels is None:
        return
    lacks = labels == ""
    if lacks.any():
        missing = "a missing value" if lacks.sum() == 1 else "missing values"
        raise Mismatch(
            f"{table.where}: column {part.cluster!r} (cluster) has {missing}; fill them in, each with a label of its "
            "own if the row depends on no other",
            private=f"the first is in line {table.line(int(np.argmax(lacks)))}",
        )
    if len(np.unique(labels)) < 2:
        raise Mismatch(
            f"{table.where}: column {part.cluster!r} (cluster) has one value in all rows, and a site as one cluster "
            "would show its sums to the others; name a column with more values, or leave cluster out"
        )


def trimmed(table: DataTable, part: ProblemPart, contract: Contract | None) -> DataTable:
    """Return a site's table with the columns that [problem] names, all without a formula, and rows without gaps.

    Without a formula, gaps are those in the columns of the contract, or in all columns if it is None.

    Rows with gaps stay if the federation refuses them, for what refuses them later. A response that is a function is
    computed. Mismatch names what the table lacks.
    """
    if not part.formula:
        used = None if contract is None or table.names is None else contract.names
        return without_gaps(table, used) if part.drops_gaps else table
    formula = formula_of(part.formula)
    if table.names is None:
        raise Mismatch(f"{table.where}: has no header, and the formula names columns; give a table with names")
    if SITE in formula.variables and SITE in table.names:
        raise Mismatch(
            f"{table.where}: has the column {SITE!r}, which stands for the member in the formula; rename the column"
        )
    beside = tuple(named_columns(part).values())
    wanted = (*(name for name in formula.variables if name != SITE), *beside)
    Frame.of_table(table).require((*wanted, *formula.targets))
    made = table.take(np.array([table.names.index(name) for name in wanted], dtype=np.int64), wanted)
    if part.drops_gaps:
        made = without_gaps(made, wanted)
    if not formula.target and not formula.survival:
        made = replace(made, y=response_of(formula, Frame.of_table(made)))
    _check_values(Frame.of_table(made, SITE), formula, drops_gaps=part.drops_gaps)
    return made


def _check_values(frame: Frame, formula: Formula, *, drops_gaps: bool) -> None:
    """Raise Mismatch for values of a site's columns that the formula's terms do not take.

    Unless rows with gaps are dropped, numbers are not looked at here: the check for gaps names what is missing.
    """
    if drops_gaps:
        for one in formula.factors.values():
            if one.role in ("number", "spline"):
                one.check(frame)  # refuses what is not finite, and what is outside of a spline
    Levels.of(frame, formula)  # refuses what is neither numbers nor text


def coded(table: DataTable, contract: Contract) -> DataTable:
    """Return the table with a number in place of each text of the contract's categories, NaN where it is missing.

    Equal texts have equal numbers at all sites, and they mean nothing else: rows are told apart by them. Raise Mismatch
    for a text that is none of the levels in the contract, if it has any.
    """
    categories = [one for one in contract.columns if one.kind == CATEGORY]
    if not categories or not isinstance(table.X, np.ndarray):
        return table
    frame = Frame.of_table(table, categories=[one.name for one in categories])
    X = table.X.copy()
    for one in categories:
        if one.name not in table.columns:
            continue
        values = frame.values(one.name)
        _check_levels(table, one, values)
        X[:, table.columns.index(one.name)] = _numbers([None if cell is None else str(cell) for cell in values])
    names = {one.name for one in categories}
    return replace(table, X=X, text_columns=tuple(one for one in table.text_columns if one.name not in names))


def _numbers(texts: list[str | None]) -> Vector:
    """Return a number below 2^48 for each text, a digest of it; NaN for None."""
    codes = {
        one: float(int.from_bytes(hashlib.blake2b(one.encode(), digest_size=6).digest(), "little"))
        for one in set(texts)
        if one is not None
    }
    return np.array([np.nan if one is None else codes[one] for one in texts])


def with_kinds(contract: Contract, table: DataTable) -> Contract:
    """Return the contract in which the columns that hold text in the table are categories."""
    texts = set(table.texts)
    columns = [replace(one, kind=CATEGORY) if one.name in texts else one for one in contract.columns]
    return replace(contract, columns=tuple(columns))


def with_levels(contract: Contract, table: DataTable, formula: Formula) -> Contract:
    """Return the contract with the levels of the table in its categories, sorted."""
    counts = Levels.of(Frame.of_table(table, SITE), formula).counts

    def levels(name: str) -> tuple[str | float, ...]:
        """Return the levels of a column; empty if it is no category."""
        return tuple(sorted(counts.get(name, ()), key=lambda one: (isinstance(one, str), one)))

    return replace(contract, columns=tuple(replace(one, levels=levels(one.name)) for one in contract.columns))


def _check_levels(table: DataTable, column: Column, values: Sequence[object]) -> None:
    """Raise Mismatch for a cell, one of `values`, that is none of the levels of a column of the contract.

    A column without levels in the contract takes any text.
    """
    known = {plain(level) for level in column.levels}
    wrong = next((k for k, cell in enumerate(values) if known and cell is not None and str(cell) not in known), None)
    if wrong is not None:
        raise Mismatch(
            f"{table.where}: column {column.name} has a level that is none of the contract's, "
            f"{listed([plain(level) for level in column.levels])}; correct the text, take the row out, or add the "
            "level to the federation file",
            private=f"line {table.line(wrong)} holds {values[wrong]!r:.60}",
        )
