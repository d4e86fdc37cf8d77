"""A node's own data, and what it tells its neighbours of its rows.

Split by features all nodes hold the same samples, row by row. Each tells its neighbours digests of its row names and of
its labels, segment by segment: rows that are not aligned are found, and the first segment of them can be named.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glmesh.federation.wire import JsonRecord
from glmesh.files.data_files import is_table, load_named
from glmesh.problem import NodeData, ProblemSpec
from glmesh.types import SampleMatrix, Vector

_SEGMENTS = 256  # [digests] segments of the rows; up to 256 rows, a digest is about a single row


@dataclass(frozen=True)
class RowDigests(JsonRecord):
    """Digests of a node's row names and labels, one per segment of rows, by which neighbours compare their rows."""

    count: int  # number of rows
    named: bool  # the rows have names; else their numbers stand for them
    ids: list[str]  # digest of the names of each segment's rows
    labels: list[str]  # digest of the labels of each segment's rows

    def misaligned(self, other: RowDigests) -> str | None:
        """Return a text on the first rows that differ from another node's; None if names and labels agree."""
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
    """Samples of one site as its data file holds them: X, y and the names of the rows."""

    X: SampleMatrix  # (m, p)
    y: Vector  # (m,)
    ids: list[str] | None = None  # names of the rows; None: they have none

    @property
    def m(self) -> int:
        """Return m, the number of samples."""
        return len(self.y)

    def node_data(self, spec: ProblemSpec, name: str) -> NodeData:
        """Return the samples as a node's data in a problem of this specification; `name` stands in errors."""
        return NodeData(spec, self.X, self.y, None, f" of {name}")

    def digests(self) -> RowDigests:
        """Return the digests of row names and labels that neighbours compare where data is split by features."""
        segments = np.array_split(np.arange(self.m), min(_SEGMENTS, max(self.m, 1)))
        names = [str(k) for k in range(self.m)] if self.ids is None else self.ids
        return RowDigests(
            self.m,
            self.ids is not None,
            [_digest("\n".join(names[k] for k in part).encode()) for part in segments],
            [_digest(np.ascontiguousarray(self.y[part]).tobytes()) for part in segments],
        )


def _digest(content: bytes) -> str:
    """Return the BLAKE2b digest of some bytes, 8 bytes long, in hexadecimal."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def read_site_table(path: Path, *, target: str | None = None, ids: str | None = None) -> SiteTable:
    """Read the samples of a site from a data file of any format that `glmesh train` reads.

    `target` is the column of a table with the labels, None for the last; other formats ignore it. `ids` is the column
    of a table or the array of an .npz with the names of the rows, None if they have none.
    """
    return SiteTable(*load_named(path, target=target if is_table(path) else None, ids=ids))
