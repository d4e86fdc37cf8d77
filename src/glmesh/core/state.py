"""The state of several blocks as that of one, and back: so a run that was saved by some processes goes on in others.

`KINDS` says of every field what it has an entry for: a node, a column, a unit (a column or a group), or the block as a
whole. A field that is not listed is an error, not a guess.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from glmesh.core.block import Rest
from glmesh.gossip.averaging import MatrixGossip
from glmesh.gossip.flows import Ledger
from glmesh.methods.cola.exact_sums import Summation, Sums, Tree
from glmesh.methods.cola.momentum import Beat, Momentum, Rumour, Snapshot
from glmesh.methods.cola.newton import Newton
from glmesh.methods.cola.relaxation import Relaxation
from glmesh.methods.cola.round import ColaState
from glmesh.types import AnyArray

NODE, COLUMN, UNIT = "node", "column", "unit"  # an entry for each, in their order
SAME = "same"  # all blocks know the same
TOTAL = "total"  # a sum over all blocks
MOST = "most"  # the largest of all blocks counts for each
INSIDE = "inside"  # of parts that have kinds of their own


def _kinds(**names: str) -> dict[str, str]:
    return {name: kind for kind, listed in names.items() for name in listed.split()}


KINDS: dict[Any, dict[str, str]] = {
    ColaState: _kinds(
        node="w up asked theta visited", column="x", same="round story trial",
        inside="gossip memory rest momentum sums relaxation",
    ),
    MatrixGossip: _kinds(node="v spare believed before"),
    Ledger: _kinds(node="accounts u flows v believed before pushes", same="clock single"),
    Rest: _kinds(node="at room", total="skipped spared"),
    Momentum: _kinds(
        node="t cap theta last best first since views wait noisy stride heard", column="x", most="restarts falls",
        inside="news good pending",
    ),
    Beat: _kinds(node="own below totals depths"),
    Rumour: _kinds(node="stamps parts book booked settled restarts"),
    Snapshot: _kinds(node="v", column="x", same="round"),
    Sums: _kinds(column="d", same="v step value cautious reach idle broken", inside="before summation"),
    Newton: _kinds(same="v w step center value best idle careful patience broken", inside="summation"),
    Summation: _kinds(same="width", inside="tree"),
    Tree: _kinds(node="parents depths children"),
    Relaxation: _kinds(node="parts", same="sigma last since found", inside="beat"),
    # dictionaries and pairs, by where they are
    "memory": _kinds(node="r path", unit="wake"),  # of the local solver
    "before": _kinds(column="0", same="1"),  # (x, v) of exact sums
    "certifier": _kinds(node="v", column="x", same="latest _reach _heard _round", inside="_gather _pending"),
    "_pending": _kinds(node="1", column="0"),  # (x, v)
    "_gather": _kinds(node="_known _news _own _up _down _root _parents _n_children"),
    "witness": _kinds(node="memos last since reach"),
}  # fmt: skip


class Extent(NamedTuple):
    """How many nodes, columns and units a block has."""

    node: int
    column: int
    unit: int


def merge(parts: list[Any], name: str = "") -> Any:
    """One from those of all blocks, in the order of nodes."""
    return parts[0] if len(parts) == 1 else _map(name, parts, _merged)


def split(whole: Any, extents: list[Extent], name: str = "") -> list[Any]:
    """And back, for blocks of these extents."""
    if len(extents) == 1:
        return [whole]
    ends = {kind: np.cumsum([getattr(extent, kind) for extent in extents]) for kind in Extent._fields}

    def cut(number: int) -> Callable[[str, list[Any]], Any]:
        def piece(kind: str, values: list[Any]) -> Any:
            value = values[0]
            if kind == TOTAL:
                return value if number == 0 else type(value)(0)
            if kind in (SAME, MOST):
                return copy.deepcopy(value)
            if value is None or len(value) == 0:
                return value
            end = int(ends[kind][number])
            part = value[end - getattr(extents[number], kind) : end]
            return part.copy() if isinstance(part, np.ndarray) else part

        return piece

    return [_map(name, [whole], cut(number)) for number in range(len(extents))]


def _merged(kind: str, values: list[Any]) -> Any:
    first = values[0]
    if kind == TOTAL:
        return sum(values)
    if kind == MOST:
        return max(values)
    if kind == SAME or first is None:
        return first
    return np.concatenate(values) if isinstance(first, np.ndarray) else [one for part in values for one in part]


def _map(name: str, values: list[Any], leaf: Callable[[str, list[Any]], Any]) -> Any:
    """The same tree with other leaves."""
    first: AnyArray = values[0]
    if any(value is None for value in values):  # exact sums that only some have given up yet are given up by all
        return None
    kinds = KINDS[type(first)] if is_dataclass(first) else KINDS[name]

    def of(key: str, entries: list[Any]) -> Any:
        return _map(key, entries, leaf) if kinds[key] == INSIDE else leaf(kinds[key], entries)

    if is_dataclass(first):
        made = object.__new__(type(first))
        for one in fields(first):
            setattr(made, one.name, of(one.name, [getattr(value, one.name) for value in values]))
        return made
    if isinstance(first, tuple):
        return tuple(of(str(i), list(entries)) for i, entries in enumerate(zip(*values, strict=True)))
    return {key: of(key, [value[key] for value in values]) for key in first}
