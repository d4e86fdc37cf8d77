"""JSON messages of a link as records; each refuses content that it cannot hold: where, what was expected, what came."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from glmesh.core import Violation
from glmesh.problem import DataSummary

TRAIN, PREDICT = "train", "predict"  # purposes of a HELLO
SUMMARY, DONE, SUCCESSOR, MEMBERSHIP = "summary", "done", "successor", "membership"  # kinds of gossip entries
_KINDS = (SUMMARY, DONE, SUCCESSOR, MEMBERSHIP)
_NUMBERS = 1 << 62  # rounds, exchanges and stamps are below this, so that they fit 64 bits with some to spare


def unexpected(where: str, expected: str, got: object) -> Violation:
    """Return the Violation that says where a message is wrong, what was expected there and what came."""
    return Violation(f"{where}: expected {expected}, got {got!r:.80}")


class JsonRecord:
    """Base of dataclasses that cross a link as a JSON object with a key per field, of exactly the field's type."""

    def to_json(self) -> dict[str, object]:
        """Return the record as a dict that JSON can hold."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, tree: Mapping[str, object]) -> Self:
        """Return the record that `to_json` made a dict of; raise Violation if a field is missing or of another type."""
        values = {}
        for name, hint in get_type_hints(cls).items():
            kinds = [get_origin(one) or one for one in (get_args(hint) if isinstance(hint, UnionType) else (hint,))]
            values[name] = tree.get(name)
            if type(values[name]) not in kinds:
                raise unexpected(f"{cls.__name__}, {name}", f"a value of type {kinds[0].__name__}", values[name])
        return cls(**values)


@dataclass(frozen=True)
class Hello(JsonRecord):
    """First message from either end of a stream: name and settings, which both ends compare before anything else."""

    name: str  # of the sender; must be that in its certificate
    entries: dict[str, str]  # `Federation.entries` of the sender
    purpose: str = TRAIN  # or PREDICT
    n_rows: int | None = None  # rows to be predicted; None while training
    rows: dict[str, Any] | None = None  # digests of row names and labels (`RowDigests`); None split by samples


@dataclass(frozen=True)
class Refusal(JsonRecord):
    """Message that tells a neighbour why the sender ends the stream."""

    why: str  # sentence for people


@dataclass(frozen=True)
class Ready(JsonRecord):
    """Message of a node that knows the length d of vectors, and takes part from exchange `clock` on."""

    clock: int  # number of the exchange

    def __post_init__(self) -> None:
        if not 0 <= self.clock < _NUMBERS:
            raise unexpected("Ready, clock", "the number of an exchange", self.clock)


@dataclass(frozen=True)
class GossipEntry:
    """One statement about one node, which all nodes pass on; a larger stamp replaces a smaller one.

    | kind         | value                                                                          |
    |--------------|--------------------------------------------------------------------------------|
    | `summary`    | the numbers of `DataSummary.to_vector`; all nodes merge those of all members   |
    | `done`       | the round that the node holds a good enough certificate about; -1: none any more |
    | `successor`  | the neighbour that counts the node's share if the node never returns            |
    | `membership` | the node's counter in the membership view (odd: a member), after it was given up |
    """

    kind: str  # of the table above
    node: int  # whom the statement is about
    stamp: int  # grows with every new statement of this kind about this node
    number: int = -1  # value of all kinds but `summary`
    numbers: list[float] = field(default_factory=list)  # value of a `summary`

    def to_json(self) -> list[object]:
        """Return the entry as a list [kind, node, stamp, value]."""
        return [self.kind, self.node, self.stamp, self.numbers if self.kind == SUMMARY else self.number]

    @staticmethod
    def from_json(tree: object, where: str, n_nodes: int) -> GossipEntry:
        """Return the entry that `to_json` made a list of; raise Violation, which names `where`, unless node < n_nodes.

        Any other list is a Violation too.
        """
        if not isinstance(tree, list) or len(tree) != 4:
            raise unexpected(where, "[kind, node, stamp, value]", tree)
        kind, node, stamp, value = tree
        if kind not in _KINDS:
            raise unexpected(where, f"one of {', '.join(_KINDS)}", kind)
        if type(node) is not int or not 0 <= node < n_nodes:
            raise unexpected(where, f"a node from 0 to {n_nodes - 1}", node)
        if type(stamp) is not int or not 0 <= stamp < _NUMBERS:
            raise unexpected(f"{where}, stamp", "a number >= 0", stamp)
        about = f"{kind} of node {node}"
        if kind != SUMMARY:
            if type(value) is not int or not -1 <= value < _NUMBERS:
                raise unexpected(about, "a whole number >= -1", value)
            return GossipEntry(kind, node, stamp, value)
        if not isinstance(value, list) or len(value) != DataSummary.SIZE or not all(map(_is_finite, value)):
            raise unexpected(about, f"{DataSummary.SIZE} finite numbers", value)
        return GossipEntry(kind, node, stamp, numbers=[float(one) for one in value])


def _is_finite(value: object) -> bool:
    """Return whether a value is a finite number."""
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an int beyond the largest float
        return False
