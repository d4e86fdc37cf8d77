"""A node's own data, and what it tells its neighbours of its rows. Reads files without scikit-learn.

Split by features all nodes hold the same samples, row by row. Each tells its neighbours digests of its row names and of
its labels, segment by segment: rows that are not aligned are found, and the first segment of them can be named.
"""

from __future__ import annotations

import csv
import hashlib
import io
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from scipy.sparse import csr_array

from glmesh.errors import InvalidData, InvalidInput, UnreadableFile
from glmesh.federation.wire.messages import JsonRecord
from glmesh.files import data_files as datasets
from glmesh.problem.node_data import NodeData
from glmesh.problem.spec import Model
from glmesh.types import AnyArray, Vector

_SEGMENTS = 256  # [digests] segments of the rows; up to 256 rows, a digest is about a single row


@dataclass(frozen=True)
class RowDigests(JsonRecord):
    """Digests of a node's row names and labels, one per segment of the rows."""

    count: int  # rows
    named: bool  # the rows have names; else their numbers stand for them
    ids: list[str]
    labels: list[str]

    def misaligned(self, other: RowDigests) -> str | None:
        """Return what differs from the rows of another node; None if nothing does."""
        if other.count != self.count:
            return f"{self.count} rows here and {other.count} there"
        if other.named != self.named:
            return f"rows have names {'here' if self.named else 'there'} only"
        for what, mine, theirs in (("names", self.ids, other.ids), ("labels", self.labels, other.labels)):
            if len(theirs) != len(mine):
                return f"the {what} of rows are told in another way there"
            first = next((k for k, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b), None)
            if first is not None:
                part = np.array_split(np.arange(self.count), len(mine))[first]
                where = f"row {part[0] + 1}" if len(part) == 1 else f"rows {part[0] + 1} to {part[-1] + 1}"
                return f"the {what} of {where} differ; sort both files alike"
        return None


@dataclass(frozen=True, eq=False)
class SiteTable:
    """Samples of one site: X, y and the names of the rows."""

    X: AnyArray  # (m, p)
    y: Vector  # (m,)
    ids: list[str] | None = None  # names of the rows; None: they have none

    @property
    def m(self) -> int:
        """Return the number of rows."""
        return len(self.y)

    def node_data(self, model: Model, name: str) -> NodeData:
        """Return the samples as the data of node `name` in a problem."""
        return NodeData(model, self.X, self.y, None, f" of {name}")

    def digests(self) -> RowDigests:
        """Return what neighbours compare, split by features."""
        segments = np.array_split(np.arange(self.m), min(_SEGMENTS, max(self.m, 1)))
        names = [str(k) for k in range(self.m)] if self.ids is None else self.ids
        return RowDigests(
            self.m,
            self.ids is not None,
            [_digest("\n".join(names[k] for k in part).encode()) for part in segments],
            [_digest(np.ascontiguousarray(self.y[part]).tobytes()) for part in segments],
        )


def _digest(content: bytes) -> str:
    """Return 8 bytes of BLAKE2b in hexadecimal."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def read_site_table(path: Path, *, target: str | None = None, ids: str | None = None) -> SiteTable:
    """Return the samples of a file that `glmesh train` reads too.

    `target` is the column of a table with the labels, None for the last; `ids` the column of a table or the array of
    an .npz with the names of the rows, None if they have none.
    """
    kind = (path.with_suffix("") if path.suffix.lower() in datasets.DECOMPRESS else path).suffix.lower()
    if kind in (".csv", ".tsv"):
        if ids is None:
            return SiteTable(*datasets.load(path, target=target))
        return _table(path, "," if kind == ".csv" else "\t", target, ids)
    if kind == ".npz":
        X, y = datasets.load(path)
        if ids is None:
            return SiteTable(X, y)
        names = datasets.read_arrays(path, (ids,))[ids]
        if names.shape != (len(y),):
            raise UnreadableFile(
                f"{path}: {ids!r} has shape {names.shape}, expected one name for each of {len(y)} rows"
            )
        return SiteTable(X, y, [str(name) for name in names.tolist()])
    if ids is not None:
        raise InvalidInput(f"{path}: svmlight files have no names of rows; leave ids out, or use a .csv or .npz")
    return SiteTable(*_svmlight(path))


@contextmanager
def _text(path: Path) -> Iterator[IO[str]]:
    """Open a file as UTF-8 text, decompressed."""
    with datasets.opened(path) as stream:
        yield io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


def _table(path: Path, delimiter: str, target: str | None, ids: str) -> SiteTable:
    """Read a table with a header and a column of row names."""
    with _text(path) as stream:
        try:
            header, *lines = [row for row in csv.reader(stream, delimiter=delimiter, strict=True) if row]
        except (csv.Error, ValueError) as error:
            raise UnreadableFile(f"{path}: cannot be read ({error}); expected a header and rows") from error
    header = [cell.strip() for cell in header]
    at, of = _column(path, header, ids), len(header) - 1 if target is None else _column(path, header, target)
    if target is None and at == of:
        of -= 1
    names, values = [row[at] for row in lines if len(row) == len(header)], []
    for number, row in enumerate(lines):
        try:
            if len(row) != len(header):
                raise ValueError(f"{len(row)} cells, expected {len(header)}")
            values.append([float(cell) for k, cell in enumerate(row) if k != at])
        except ValueError as error:
            raise UnreadableFile(f"{path}, line {number + 2}: {error}") from None
    if not values:
        raise UnreadableFile(f"{path}: holds no samples")
    if len(set(names)) < len(names):
        raise InvalidData(f"{path}: two rows have the name {next(n for n in names if names.count(n) > 1)!r}")
    table, label = np.array(values), of - (of > at)
    return SiteTable(np.delete(table, label, axis=1), table[:, label].copy(), names)


def _column(path: Path, header: Sequence[str], name: str) -> int:
    """Return the position of a column."""
    if name not in header:
        raise InvalidInput(f"{path}: no column {name!r}; there are {', '.join(header)}")
    return header.index(name)


def _svmlight(path: Path) -> tuple[csr_array, Vector]:
    """Read lines of `label index:value ...` with ascending indices that count from 1, or from 0 if there is a 0."""
    labels, values, indices, starts = array("d"), array("d"), array("q"), array("q", [0])
    number = 0
    with _text(path) as stream:
        try:
            for line in stream:
                number += 1
                label, *pairs = line.split("#", 1)[0].split() or [""]
                if not label:
                    continue
                last = -1
                for pair in pairs:
                    index, _, value = pair.partition(":")
                    if index == "qid":
                        continue
                    if int(index) <= last:
                        raise ValueError(f"index {index} after {last}; they must ascend")
                    last = int(index)
                    indices.append(last)
                    values.append(float(value))
                labels.append(float(label))
                starts.append(len(values))
        except (ValueError, OverflowError) as error:
            raise UnreadableFile(f"{path}, line {number}: expected 'label index:value ...' ({error})") from None
    if not labels:
        raise UnreadableFile(f"{path}: holds no samples, expected at least one")
    places = np.asarray(indices, dtype=np.int64)
    places -= int(places.min(initial=1) > 0)
    shape = (len(labels), int(places.max(initial=-1)) + 1)
    matrix = csr_array((np.asarray(values), places.astype(np.int32), np.asarray(starts, dtype=np.int32)), shape=shape)
    return matrix, np.asarray(labels)
