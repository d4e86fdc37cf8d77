"""The data of `train`: a file with the names that it has, or what each rank of a cluster reads of it."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glmesh.contract import Contract, DataTable, agree, fit
from glmesh.engine.scatter import load as load_part
from glmesh.errors import InvalidData, InvalidInput, Mismatch
from glmesh.files.data_files import is_table, read_table
from glmesh.parallel import ProcessGroup
from glmesh.types import Labels, SampleMatrix, Vector


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples of this process, in the order of the contract that the tables of all processes keep."""

    X: SampleMatrix  # (m, p)
    y: Vector  # (m,) targets; positions among the labels where these are texts
    said: Labels  # (m,) targets as the file has them
    weight: Vector | None = None  # (m,) sample weights; None: all are 1
    contract: Contract | None = None  # names, target and labels; None: the file is no table, and has no names
    remarks: tuple[str, ...] = ()  # for people: what was done to the file's columns


def read(options: Namespace, processes: ProcessGroup, *, classifies: bool) -> Rows:
    """Read DATA, or this rank's part of it; put its columns in the order that all ranks share, by name.

    What is missing, not finite or no number is refused with its line and column.
    """
    path = options.data.replace("{rank}", str(processes.rank)) if options.runtime == "mpi" else options.data
    if options.runtime == "mpi" and not (is_table(path) and path != options.data):
        for option in ("sample_weight", "ids"):
            if getattr(options, option) is not None:
                raise InvalidInput(
                    f"{path}: --{option.replace('_', '-')} names a column of a table; give one table for each rank, "
                    "with {rank} in its name"
                )
        X, y = load_part(options.data, processes, target=options.target)
        return Rows(X, y, y)
    table = read_table(
        path,
        target=options.target,
        ids=options.ids,
        weight=options.sample_weight,
        header=options.header,
        encoding=options.encoding,
    )
    _refuse_missing(table)
    if not is_table(path):
        y = np.asarray(table.y, dtype=np.float64)
        return Rows(table.X, y, y, table.weight)
    keys = {"ids": options.ids or "", "weight": options.sample_weight or ""}
    offer = Contract.like(table, classifies=classifies, **keys)
    contract = _agreed(offer, processes, classifies=classifies)
    fitted = fit(table, contract)
    assert table.y is not None  # as a target was asked for
    return Rows(
        fitted.table.X, fitted.y, table.y, table.weight, contract, tuple(fitted.remarks() + list(table.left_out))
    )


def _agreed(offer: Contract, processes: ProcessGroup, *, classifies: bool) -> Contract:
    """Return the contract that the tables of all ranks keep; Mismatch, at all ranks, names the rank that differs."""
    if processes.size == 1:
        return offer
    offers = {f"rank {rank}": one for rank, one in enumerate(processes.all_gather([offer]))}
    verdict = agree(offers, classifies=classifies)
    if verdict.contract is None:
        rank, what = min(verdict.culprits.items())
        raise Mismatch(f"{rank} {what}; give the files of all ranks the same columns, names and labels")
    return verdict.contract


def _refuse_missing(table: DataTable) -> None:
    """Raise InvalidData with line and column of the first value, target or weight that is missing or not finite."""
    what = "is missing or not a finite number; fill it in, or take the row out"
    stored = table.X.tocoo() if sp.issparse(table.X) else None
    if stored is not None:
        wrong = ~np.isfinite(stored.data)
        cells = list(zip(stored.row[wrong].tolist(), stored.col[wrong].tolist(), strict=True))
    else:
        numbers = ~np.isin(table.columns, table.texts)  # text is refused for what it is
        cells = [tuple(cell) for cell in np.argwhere(~np.isfinite(table.X) & numbers)[:1].tolist()]
    if cells:
        row, column = min(cells)
        name = f"column {table.names[column]!r}" if table.names else f"column {column}"
        raise InvalidData(f"{table.where}, line {table.line(row)}, {name}: the value {what}")
    y, weight = table.y, table.weight
    bad = table.missing_labels if y is None or y.dtype.kind != "f" else ~np.isfinite(y)
    if bad.any():
        name = f"target {table.target!r}" if table.target else "target"
        raise InvalidData(f"{table.where}, line {table.line(int(np.argmax(bad)))}, {name}: the value {what}")
    if weight is not None and not (np.isfinite(weight) & (weight >= 0)).all():
        row = int(np.argmin(np.isfinite(weight) & (weight >= 0)))
        raise InvalidData(f"{table.where}, line {table.line(row)}: expected a sample weight >= 0, got {weight[row]:g}")
