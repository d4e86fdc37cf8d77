"""JSON messages of a link as records; each refuses content that it cannot hold: where, what was expected, what came."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import UnionType
from typing import Self, get_args, get_origin, get_type_hints

from glmesh.contract.contract import doubled
from glmesh.core import Violation

TRAIN, PREDICT, ROWS, DISTINCT = "train", "predict", "rows", "distinct"  # purposes of a HELLO
# kinds of gossip entries
DONE, SUCCESSOR, MEMBERSHIP, OFFER, REFUSED = "done", "successor", "membership", "offer", "refused"
FITS, COMPARED = "fits", "compared"
_KINDS = (FITS, COMPARED, DONE, SUCCESSOR, MEMBERSHIP, OFFER, REFUSED)
WHY = 1000  # [characters] of the reason of a refusal; longer ones are cut
PRESUMED = "1?"  # index base of svmlight text that uses no 0, where nobody said that indices count from 1
_NAME = 1000  # [characters] longest name of a column, and longest label
_NUMBERS = 1 << 62  # rounds, exchanges and stamps are below this, so that they fit 64 bits with some to spare


def unexpected(where: str, expected: str, got: object) -> Violation:
    """Return (not raise) the Violation that says where a message is wrong, what was expected there and what came."""
    return Violation(f"{where}: expected {expected}, got {got!r:.80}")


class JsonRecord:
    """Base of dataclasses that cross a link as a JSON object, whose keys are the fields and whose types are theirs."""

    def to_json(self) -> dict[str, object]:
        """Return {name: value} of the record's fields, a dict that JSON can hold."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, tree: Mapping[str, object]) -> Self:
        """Return the record that `to_json` made this dict of.

        Raise Violation if a field is missing or of another type.
        """
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
    purpose: str = TRAIN  # or PREDICT, or ROWS or DISTINCT, for which two sites compare the names of their rows
    n_rows: int | None = None  # rows to be predicted or compared; None while training
    version: str = ""  # of glmesh at the sender, where both ends train; empty elsewhere


@dataclass(frozen=True)
class LinkRefusal(JsonRecord):
    """Message that tells a neighbour why the sender ends the stream."""

    why: str  # sentence for people


@dataclass(frozen=True)
class Ready(JsonRecord):
    """Message of a node that knows the length d of vectors, and sends them from exchange number `clock` on."""

    clock: int  # number of the exchange

    def __post_init__(self) -> None:
        if not 0 <= self.clock < _NUMBERS:
            raise unexpected("Ready, clock", "the number of an exchange", self.clock)


@dataclass(frozen=True)
class DataOffer(JsonRecord):
    """What a site tells all others of its table before the sites agree: names and kinds, never values of rows.

    Split by samples there are no names in it where the federation file has them. Split by features there are always
    names, since no two sites may have a column of one name.
    """

    target: str = ""  # name of the target; empty: it has none
    names: list[str] | None = None  # of the features, in the order of the file; None: the file has no header
    width: int = 0  # number of features
    booleans: list[int] = field(default_factory=list)  # positions of features that hold 0 and 1 only
    categories: list[int] = field(default_factory=list)  # positions of features that hold text, for a formula
    open: bool = False  # the table is sparse, and may lack features at its end
    labels: list[str | float] = field(default_factory=list)  # distinct labels of a classification, numbers or texts
    weight: str = ""  # name of the column with the sample weights; empty: none
    rows: int = 0  # number of rows, split by features; 0 split by samples
    ids: str = ""  # keyed digest of the whole column of row names, split by features; empty: rows have no names
    index_base: str = ""  # index of the first column of svmlight text, "0", "1" or PRESUMED; empty: another file
    # k with 2^(k-1) <= max abs(x) < 2^k by feature, None for a column of zeros; empty: not told
    scales: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = self.names or []
        texts = [self.target, self.weight, self.ids, *names]
        wrong = next((one for one in texts if not isinstance(one, str) or len(one) > _NAME), None)
        if wrong is not None:
            raise unexpected("offer", f"texts of at most {_NAME} characters as names", wrong)
        special = {one for one in (self.target, self.weight) if one}
        if doubled(names) or special & set(names):
            raise unexpected("offer, names", "distinct names, without the target's and the weight's", self.names)
        if not 0 <= self.width < _NUMBERS or not 0 <= self.rows < _NUMBERS or self.width < len(names):
            raise unexpected("offer, width and rows", "numbers >= 0, as many names as features", self.width)
        if self.index_base not in ("", "0", "1", PRESUMED):
            raise unexpected("offer, index_base", f"'', '0', '1' or {PRESUMED!r}", self.index_base)
        self._check_lists()

    def _check_lists(self) -> None:
        """Raise Violation for a label, boolean or scale of another type, or out of its range."""
        for label in self.labels:
            if not (_is_finite(label) or (isinstance(label, str) and len(label) <= _NAME)) or isinstance(label, bool):
                raise unexpected("offer, labels", "finite numbers and texts", label)
        for place in (*self.booleans, *self.categories):
            if type(place) is not int or not 0 <= place < self.width:
                raise unexpected("offer, booleans and categories", "positions of features", place)
        for scale in self.scales:
            if scale is not None and (type(scale) is not int or abs(scale) > 2000):
                raise unexpected("offer, scales", "powers of two of numbers", scale)


@dataclass(frozen=True)
class GossipEntry:
    """One statement about one node, which all nodes pass on; a larger stamp replaces a smaller one.

    | kind         | value                                                                          |
    |--------------|--------------------------------------------------------------------------------|
    | `fits`       | 1: the table of the node keeps the contract                                      |
    | `compared`   | the neighbours whose targets it compared with its own, by features: the same or not |
    | `done`       | the round that the node holds a good enough certificate about; -1: none any more |
    | `successor`  | the neighbour that counts the node's share if the node never returns            |
    | `membership` | the node's counter in the membership view (odd: a member), after it was given up |
    | `offer`      | `DataOffer` of the node, from which all compute the contract                    |
    | `refused`    | why the node cannot take part, in words for everybody's eyes                    |
    """

    kind: str  # of the table above
    node: int  # whom the statement is about
    stamp: int  # grows with every new statement of this kind about this node
    number: int = -1  # value of `fits`, `done`, `successor` and `membership`
    compared: dict[int, bool] = field(default_factory=dict)  # value of a `compared`
    offer: DataOffer | None = None  # value of an `offer`
    why: str = ""  # value of a `refused`

    def to_json(self) -> list[object]:
        """Return the entry as a list [kind, node, stamp, value], which JSON can hold."""
        pairs = [[node, same] for node, same in sorted(self.compared.items())]
        value: object = {COMPARED: pairs, REFUSED: self.why}.get(self.kind, self.number)
        return [self.kind, self.node, self.stamp, self.offer.to_json() if self.offer is not None else value]

    @staticmethod
    def from_json(tree: object, where: str, n_nodes: int) -> GossipEntry:
        """Return the entry that `to_json` made a list of; raise Violation for any other list.

        The message of the Violation begins with `where`. A node's number must be in 0 ... n_nodes - 1.
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
        return GossipEntry(kind, node, stamp)._with_value(value, n_nodes)

    def _with_value(self, value: object, n_nodes: int) -> GossipEntry:
        """Return a copy of the entry with `value` in the field that its kind has.

        Raise Violation for a value of another type.
        """
        expected = "a whole number >= -1"
        if self.kind == OFFER:
            if isinstance(value, dict):
                return replace(self, offer=DataOffer.from_json(value))
            expected = "an object"
        elif self.kind == REFUSED:
            if isinstance(value, str) and len(value) <= WHY:
                return replace(self, why=value)
            expected = f"a text of at most {WHY} characters"
        elif self.kind == COMPARED:
            if isinstance(value, list) and all(_is_result(one, n_nodes) for one in value):
                return replace(self, compared=dict(value))
            expected = "pairs of a node and whether it has the same targets"
        elif type(value) is int and -1 <= value < _NUMBERS:
            return replace(self, number=value)
        raise unexpected(f"{self.kind} of node {self.node}", expected, value)


def _is_result(value: object, n_nodes: int) -> bool:
    """Return whether a value is a list [node, bool] with 0 <= node < n_nodes.

    It says of that node whether its targets are the same.
    """
    if not isinstance(value, list) or len(value) != 2:
        return False
    return type(value[0]) is int and 0 <= value[0] < n_nodes and type(value[1]) is bool


def _is_finite(value: object) -> bool:
    """Return whether a value is a number, not a bool, and finite."""
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an int beyond the largest float
        return False
