"""A node's own data, and what it says of its rows to its neighbours. Reads without scikit-learn.

Split by features all nodes hold the same samples, row by row. Each tells its neighbours digests of its row names and of
its labels, segment by segment: rows that are not aligned are found, and the first segment of them can be named.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glmesh.files.data_files import is_table, load_named
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
    """Read what `glmesh train` reads; `ids`: the column of a table, or the array of an .npz, with the rows' names."""
    return Samples(*load_named(path, target=target if is_table(path) else None, ids=ids))
