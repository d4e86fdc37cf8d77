"""What a node on totals leaves on its disk: its memory of views and totals, and which data it was about."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from glmesh.core import Violation
from glmesh.errors import UnreadableFile
from glmesh.federation.config import Federation, Site
from glmesh.federation.totals.memory import FederationInfo, KeptTotal, MemberMemory
from glmesh.federation.totals.statements import Held, Record, Vote, built, plain
from glmesh.files.archive import write_atomically
from glmesh.methods import Rows
from glmesh.types import Indices, SampleMatrix, Unsigned

_BEAT = 1.0  # [s] between two signs of life: small against `gone_after`, large against a round trip


def row_digests(block: Rows, key: bytes) -> Unsigned:
    """Return 8 bytes of keyed BLAKE2b of each row, with its target and weight, as uint64, ascending, shape (m,).

    They stay at the site.
    """
    return np.sort(_digests(block, key))


def cluster_digests(block: Rows, key: bytes) -> Unsigned:
    """Return 8 bytes of keyed BLAKE2b of each cluster's targets and weights, as uint64, behind one number for all.

    The first number is of the rows of all clusters, with their columns; the others, ascending, depend on neither labels
    nor columns, which another federation file may choose. The shape is (1 + n,) for n clusters, (0,) if no clusters are
    named. They stay at the site.
    """
    if block.clusters is None:
        return np.zeros(0, dtype=np.uint64)
    _, which = np.unique(block.clusters[0], return_inverse=True)
    exact = _grouped(_digests(block, key), which, key)
    whole = _numbers([hashlib.blake2b(exact.tobytes(), key=key, digest_size=8).digest()])
    return np.concatenate([whole, _grouped(_digests(block, key, columns=False), which, key)])


def _grouped(rows: Unsigned, which: Indices, key: bytes) -> Unsigned:
    """Return a digest of the digests of the rows of each cluster, ascending; `which` has each row's cluster."""
    order = np.lexsort((rows, which))
    ends = np.flatnonzero(np.diff(which[order])) + 1
    groups = [one.astype("<u8").tobytes() for one in np.split(rows[order], ends)]
    return np.sort(_numbers([hashlib.blake2b(one, key=key, digest_size=8).digest() for one in groups]))


def clusters_between(before: Unsigned, now: Unsigned) -> int:
    """Return how few clusters a difference of two sums is about, given their `cluster_digests`; 0: about none.

    It is the number of clusters that are gone, or of those that are new, whichever is less, if there are any of both;
    at least 1 if only columns differ, because nobody can tell then how many rows changed beside them.
    """
    if np.array_equal(before[:1], now[:1]):
        return 0
    names, places = np.unique(np.concatenate([before[1:], now[1:]]), return_inverse=True)
    old = np.bincount(places[: len(before) - 1], minlength=len(names))
    new = np.bincount(places[len(before) - 1 :], minlength=len(names))
    sides = [int(np.maximum(old - new, 0).sum()), int(np.maximum(new - old, 0).sum())]
    return min((n for n in sides if n), default=1)


def _numbers(digests: list[bytes]) -> Unsigned:
    """Return digests of 8 bytes each as uint64."""
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _digests(block: Rows, key: bytes, *, columns: bool = True) -> Unsigned:
    """Return the digests of `row_digests` in the order of the rows; `columns` False: of targets and weights alone."""
    X: SampleMatrix = block.X[0]
    out = []
    for k, (y, weight) in enumerate(zip(block.y[0], block.weight[0], strict=True)):
        content = np.array([y, weight]).tobytes()
        if columns:
            content = (X[k] if isinstance(X, np.ndarray) else X[[k]].toarray()[0]).tobytes() + content
        out.append(hashlib.blake2b(content, key=key, digest_size=8).digest())
    return _numbers(out)


def rows_changed(before: Unsigned, now: Unsigned) -> int:
    """Return how many rows were added or removed between two files; `before` and `now` are their `row_digests`.

    A row that occurs several times counts as often.
    """
    names, counts = np.unique(np.concatenate([before, now]), return_inverse=True)
    old = np.bincount(counts[: len(before)], minlength=len(names))
    new = np.bincount(counts[len(before) :], minlength=len(names))
    return int(np.abs(new - old).sum())


@dataclass
class Kept:
    """Content of a node's file of totals: its memory of views and totals, and digests of the rows they are about.

    A view is a list of the members that make totals together.
    """

    memory: MemberMemory
    key: bytes  # of the rows' digests; random
    digests: Unsigned  # (m,) of the rows that the memory's pin names
    contributed: Unsigned  # those of the rows at the site's last contribution; none before the first
    start: int = 0  # [ms since 1970] of the last process; the next one is later, whatever the clock says
    changed: int = 0  # rows that differ from those of the last contribution
    released: int = 0  # numbers that the site has contributed to totals, of all fits; masks hide each of them
    members: tuple[str, ...] = ()  # names of the members at the site's last contribution; none before the first
    members_changed: bool = False  # whether the last contribution was to others than the members now
    # `cluster_digests` of the rows that the memory's pin names; none if no clusters are named
    clusters: Unsigned = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    # those of which the site has told the sum, each once, also in fits of other federation files
    partitions: list[Unsigned] = field(default_factory=list)
    # the memory holds a model in which this site has other rows, or other clusters of them, than it has now
    outdated: bool = False

    @property
    def clusters_changed(self) -> int:
        """Return `clusters_between` now and a sum told before; of several the least above 0, 0 if none changed."""
        if not len(self.clusters):
            return 0
        return min((n for one in self.partitions if (n := clusters_between(one, self.clusters))), default=0)

    def contribute(self, members: tuple[str, ...]) -> None:
        """Note that the rows of now were contributed, to these members."""
        self.contributed, self.members = self.digests, members

    def tell_clusters(self) -> None:
        """Note that the sum over the clusters of now is told."""
        self.remember([self.clusters] if len(self.clusters) else [])

    def remember(self, partitions: Sequence[Unsigned]) -> None:
        """Add partitions of which the sums were told to those that are known."""
        for new in partitions:
            if not any(np.array_equal(one, new) for one in self.partitions):
                self.partitions.append(new)


class TotalsStore:
    """The file with a node's memory of views (lists of members) and totals (sums over them), one file per federation.

    A crash while writing leaves the old file.
    """

    def __init__(self, site: Site, info: FederationInfo) -> None:
        self._federation_info = info
        self.path = site.state / f"totals-{site.federation.digest[:16]}"

    def load(self, block: Rows) -> Kept:
        """Return the content of the file for the rows that the site has now.

        If there is no file, the newest one of an earlier federation file in the folder says which rows the site has
        contributed, and where that fit began; else the memory is new. What was told of clusters is that of all files in
        the folder. If the rows, or their clusters, are not those of the file, the memory's pin, the random name of the
        data, is drawn anew; `changed` counts the rows that differ from those of the last contribution.
        """
        begun = not self.path.exists()
        kept = self._begun() if begun else self._read(self.path)
        for path in sorted(self.path.parent.glob("totals-*")):
            kept.remember(self._read(path).partitions)
        digests, clusters = row_digests(block, kept.key), cluster_digests(block, kept.key)
        kept.members_changed = bool(kept.members) and set(kept.members) != set(self._federation_info.names)
        kept.changed = rows_changed(kept.contributed, digests) if len(kept.contributed) else 0
        same = np.array_equal(digests, kept.digests) and (begun or np.array_equal(clusters[:1], kept.clusters[:1]))
        kept.outdated = bool(kept.memory.model) and not same
        if not kept.outdated:
            kept.memory.pin = kept.memory.pin if same else secrets.token_hex(16)
            kept.digests, kept.clusters = digests, clusters
        return kept

    def _begun(self) -> Kept:
        """Return a memory without views, with pin, record and rows of the newest other file in the folder, if any."""
        key, pin, record = secrets.token_bytes(16), secrets.token_hex(16), None
        digests = contributed = np.zeros(0, dtype=np.uint64)
        released, members = 0, tuple[str, ...]()
        others = sorted(self.path.parent.glob("totals-*"), key=lambda path: path.stat().st_mtime)
        if others:
            last = self._read(others[-1])
            key, pin, record = last.key, last.memory.pin, last.memory.record
            digests, contributed, released = last.digests, last.contributed, last.released
            members = last.members
        memory = MemberMemory(pin, self._federation_info.voters, record=record)
        return Kept(memory, key, digests, contributed, released=released, members=members)

    def save(self, kept: Kept) -> None:
        """Write a node's memory, its pin and the digests of its rows to the file."""
        memory = kept.memory
        blobs = [kept.key, kept.digests.astype("<u8").tobytes(), memory.model]
        for entry in memory.entries:
            blobs += [entry.request, entry.value.astype("<u8").tobytes()]
        groups = [kept.clusters, *kept.partitions]
        blobs += [one.astype("<u8").tobytes() for one in (kept.contributed, np.concatenate(groups))]
        head = {
            "pin": memory.pin,
            "start": kept.start,
            "released": kept.released,
            "members": list(kept.members),
            "clusters": [len(one) for one in groups],  # in the last blob, which files of earlier versions have not
            "voters": list(memory.voters),
            "promised": memory.promised,
            "record": None if memory.record is None else plain(memory.record),
            "held": None if memory.held is None else plain(memory.held),
            "vote": None if memory.vote is None else plain(memory.vote),
            "sizes": [len(one) for one in blobs],
        }
        content = json.dumps(head).encode() + b"\n" + b"".join(blobs)
        write_atomically(self.path, lambda stream: stream.write(content))

    def _read(self, path: Path) -> Kept:
        """Return the content of a file that `save` wrote; raise UnreadableFile if it is damaged."""
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            tree = json.loads(head)
            ends = np.cumsum([0, *tree["sizes"]]).tolist()
            if ends[-1] != len(body):
                raise ValueError("bytes are missing")
            blobs = [body[a:b] for a, b in pairwise(ends)]
            sizes = [int(n) for n in tree.get("clusters", [0])]
            groups = np.split(_numbers([blobs.pop()] if "clusters" in tree else []), np.cumsum(sizes)[:-1])
            last = blobs.pop() if len(blobs) % 2 == 0 else blobs[1]  # files of earlier versions have none
            numbers = [np.frombuffer(one, dtype="<u8").astype(np.uint64) for one in (blobs[1], *blobs[4::2])]
            memory = MemberMemory(
                pin=str(tree["pin"]),
                voters=tuple(int(one) for one in tree["voters"]),
                promised=int(tree["promised"]),
                record=None if tree["record"] is None else built(Record, tree["record"]),
                held=None if tree["held"] is None else built(Held, tree["held"]),
                entries=[KeptTotal(a, b) for a, b in zip(blobs[3::2], numbers[1:], strict=True)],
                vote=None if tree["vote"] is None else built(Vote, tree["vote"]),
                model=blobs[2],
            )
            contributed = np.frombuffer(last, dtype="<u8").astype(np.uint64)
            released = int(tree.get("released", 0))  # files of earlier versions have none
            start, members = int(tree["start"]), tuple(str(one) for one in tree.get("members", ()))
            return Kept(
                memory=memory,
                key=blobs[0],
                digests=numbers[0],
                contributed=contributed,
                start=start,
                released=released,
                members=members,
                clusters=groups[0],
                partitions=groups[1:],
            )
        except (ValueError, KeyError, TypeError, IndexError, Violation) as error:
            raise UnreadableFile(f"{path}: cannot be read ({error}); remove it, and the fit begins anew") from None


def federation_info(federation: Federation, site: Site) -> FederationInfo:
    """Return what the state machine of totals must know of the federation: names, neighbours, who is late, limits."""
    network, members = federation.network, federation.members
    return FederationInfo(
        federation=site.federation.digest,
        names=tuple(member.name for member in members),
        neighbours=tuple(tuple(federation.neighbours(k)) for k in range(len(members))),
        me=site.me,
        late=frozenset(k for k, member in enumerate(members) if member.late),
        without=federation.gone == "without",
        gone_after=network.gone_after,
        least=2 if network.reveal else 3,
        heartbeat=min(_BEAT, network.gone_after / 8.0),
    )
