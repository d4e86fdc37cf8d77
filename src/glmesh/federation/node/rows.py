"""A node's own data, and what it says of its rows to its neighbours. Reads without scikit-learn.

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
from typing import IO, Any

import numpy as np
from scipy.sparse import csr_array

from glmesh.errors import InvalidData, InvalidInput, UnreadableFile
from glmesh.files import data_files as datasets
from glmesh.problem.node_data import NodeData
from glmesh.problem.spec import ProblemSpec
from glmesh.types import AnyArray, Vector

_SEGMENTS = 256  # digests of so many parts of the rows: with fewer rows a digest is about one row


@dataclass(frozen=True, eq=False)
class Samples:
    """X, y, and the names of the rows, if they have any."""

    X: AnyArray
    y: Vector
    ids: list[str] | None = None

    @property
    def m(self) -> int:
        """Number of rows."""
        return len(self.y)

    def node_data(self, spec: ProblemSpec, name: str) -> NodeData:
        """Return these samples as the data of one node of a problem."""
        return NodeData(spec, self.X, self.y, None, f" of {name}")

    def rows(self, *, labels: bool = True) -> dict[str, Any]:
        """What neighbours compare."""
        segments = np.array_split(np.arange(self.m), min(_SEGMENTS, max(self.m, 1)))
        names = [str(k) for k in range(self.m)] if self.ids is None else self.ids
        out: dict[str, Any] = {
            "count": self.m,
            "named": self.ids is not None,
            "ids": [_digest("\n".join(names[k] for k in part).encode()) for part in segments],
        }
        if labels:
            out["labels"] = [_digest(np.ascontiguousarray(self.y[part]).tobytes()) for part in segments]
        return out


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def misaligned(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """What differs between the rows of two nodes; None if nothing does."""
    m = ours["count"]
    if theirs.get("count") != m:
        return f"{m} rows here and {theirs.get('count')} there"
    if theirs.get("named") != ours["named"]:
        return f"rows have names {'here' if ours['named'] else 'there'} only"
    for key, what in (("ids", "names"), ("labels", "labels")):
        mine, other = ours.get(key), theirs.get(key)
        if mine is None or other == mine:
            continue
        if not isinstance(other, list) or len(other) != len(mine):
            return f"the {what} of rows are told in another way there"
        first = next(k for k, (a, b) in enumerate(zip(mine, other, strict=True)) if a != b)
        part = np.array_split(np.arange(m), len(mine))[first]
        where = f"row {part[0] + 1}" if len(part) == 1 else f"rows {part[0] + 1} to {part[-1] + 1}"
        return f"the {what} of {where} differ; sort both files alike"
    return None


def load(path: Path, *, target: str | None = None, ids: str | None = None) -> Samples:
    """Reads what `glmesh train` reads; `ids`: the column of a table, or the array of an .npz, with the rows' names."""
    kind = (path.with_suffix("") if path.suffix.lower() in datasets.DECOMPRESS else path).suffix.lower()
    if kind in (".csv", ".tsv"):
        if ids is None:
            return Samples(*datasets.load(path, target=target))
        return _table(path, "," if kind == ".csv" else "\t", target, ids)
    if kind == ".npz":
        X, y = datasets.load(path)
        if ids is None:
            return Samples(X, y)
        names = datasets.read_arrays(path, (ids,))[ids]
        if names.shape != (len(y),):
            raise UnreadableFile(
                f"{path}: {ids!r} has shape {names.shape}, expected one name for each of {len(y)} rows"
            )
        return Samples(X, y, [str(name) for name in names.tolist()])
    if ids is not None:
        raise InvalidInput(f"{path}: svmlight files have no names of rows; leave ids out, or use a .csv or .npz")
    return Samples(*_svmlight(path))


@contextmanager
def _text(path: Path) -> Iterator[IO[str]]:
    with datasets.opened(path) as stream:
        yield io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


def _table(path: Path, delimiter: str, target: str | None, ids: str) -> Samples:
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
    return Samples(np.delete(table, label, axis=1), table[:, label].copy(), names)


def _column(path: Path, header: Sequence[str], name: str) -> int:
    if name not in header:
        raise InvalidInput(f"{path}: no column {name!r}; there are {', '.join(header)}")
    return header.index(name)


def _svmlight(path: Path) -> tuple[csr_array, Vector]:
    """Lines of `label index:value ...` with ascending indices that count from 1, or from 0 if there is a 0."""
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
