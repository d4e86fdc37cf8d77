"""The tables of a fault plan, and how they are read from plain data: every field carries its reader in its type."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from typing import Annotated, Any, TypeVar, get_type_hints

from glmesh.errors import InvalidInput
from glmesh.validation import number_in, one_of, unknown, whole_number

T = TypeVar("T")

MODELS = ("freeze", "reset")
CHANCES = ("dropout", "links", "loss", "duplicate", "delay")  # the position of a name is part of the hash
_KEYS = {"start": "from", "end": "until"}  # fields whose name in a plan is no Python name


whole = partial(whole_number, most=2**63)  # the bits that the hash of a chance takes


def _real(wanted: str, allowed: Callable[[float], bool]) -> Callable[[object], float]:
    return partial(number_in, name="", wanted=wanted, allowed=allowed)


def _one_of(*known: T) -> Callable[[T], T]:
    return partial(one_of, name="", known=known)


def list_of(value: object, wanted: str) -> list[object]:
    """The value as a list, if it is one."""
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"must be {wanted}, got {value!r}")
    return list(value)


def _pair(value: object) -> tuple[int, int]:
    nodes = [whole(node) for node in list_of(value, "a list of two nodes")]
    if len(nodes) != 2 or nodes[0] == nodes[1]:
        raise InvalidInput(f"must be a list of two different nodes, got {value!r}")
    return nodes[0], nodes[1]


def _groups(value: object) -> tuple[tuple[int, ...], ...]:
    wanted = "a list of lists of nodes, none empty"
    groups = tuple(tuple(whole(node) for node in list_of(group, wanted)) for group in list_of(value, wanted))
    if not groups or not all(groups):
        raise InvalidInput(f"must be {wanted}, got {value!r}")
    nodes = sorted(node for group in groups for node in group)
    for node, following in itertools.pairwise(nodes):
        if node == following:
            raise InvalidInput(f"must name each node once, got node {node} twice")
    return groups


def graph_list(value: object) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Links for each exchange in turn."""
    wanted = "a list with a list of links for each exchange"
    return tuple(tuple(_pair(link) for link in list_of(graph, wanted)) for graph in list_of(value, wanted))


Whole = Annotated[int, whole]
Probability = Annotated[float, _real("in [0, 1)", lambda p: 0 <= p < 1)]
Accuracy = Annotated[float | None, _real("in [0, 1]", lambda theta: 0 <= theta <= 1)]
Seconds = Annotated[float | None, _real("a finite number of seconds >= 0", lambda s: 0 <= s < math.inf)]
Model = Annotated[str, _one_of(*MODELS)]


@dataclass(frozen=True, kw_only=True)
class Window:
    """The rounds start, ..., end - 1; without an end, all from start on."""

    start: Whole = 0
    end: Annotated[int | None, whole] = None

    def __post_init__(self) -> None:
        if self.end is not None and self.start >= self.end:
            raise InvalidInput(f"from must be less than until, got from {self.start} until {self.end}")

    def covers(self, round: int) -> bool:
        """Whether the round lies in the window."""
        return self.start <= round and (self.end is None or round < self.end)


@dataclass(frozen=True, kw_only=True)
class Random(Window):
    """What fails by chance, independently for each node and round, or each link or message and exchange."""

    dropout: Probability = 0.0
    model: Model = "freeze"
    loss: Probability = 0.0
    links: Probability = 0.0
    duplicate: Probability = 0.0
    delay: Probability = 0.0

    @property
    def strikes(self) -> bool:
        """Whether anything can fail at all."""
        return any(getattr(self, kind) > 0 for kind in CHANCES)


@dataclass(frozen=True, kw_only=True)
class Down(Window):
    """A node that is away."""

    node: Whole
    model: Model = "freeze"


@dataclass(frozen=True, kw_only=True)
class Link(Window):
    """A link that fails; one way, only the messages from the first to the second are lost."""

    between: Annotated[tuple[int, int], _pair]
    one_way: Annotated[bool, _one_of(True, False)] = False


@dataclass(frozen=True, kw_only=True)
class NetworkPartition(Window):
    """Groups between which no message passes; the nodes in none of them form one more."""

    groups: Annotated[tuple[tuple[int, ...], ...], _groups]


@dataclass(frozen=True, kw_only=True)
class Join:
    """A node that is no member before this round."""

    node: Whole
    round: Whole


@dataclass(frozen=True, kw_only=True)
class Leave(Join):
    """A node that is no member from this round on; frozen variables stay counted as constants."""

    model: Model = "freeze"


@dataclass(frozen=True, kw_only=True)
class Straggler(Window):
    """A node that takes more seconds a round, or that solves its local problem less well."""

    node: Whole
    delay: Seconds = None
    theta: Accuracy = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.delay is None) == (self.theta is None):
            raise InvalidInput(
                f"needs delay or theta, got {'neither' if self.delay is None else 'both; write two entries'}"
            )


def read_entry(kind: type[T], data: object, at: str) -> T:
    """One table of a plan; its fields carry their readers in their types."""
    place = f"fault plan, {at}"
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{place}: must be a table, got {data!r}")
    hints = get_type_hints(kind, include_extras=True)
    names = {_KEYS.get(field.name, field.name): field for field in fields(kind)}  # type: ignore[arg-type]
    refuse_unknown(data, names, place)
    for key, field in names.items():
        if field.default is MISSING and key not in data:
            raise InvalidInput(f"{place}: {key} is missing")
    values = {}
    for key, value in data.items():
        name = names[key].name
        values[name] = keyed(place, key, hints[name].__metadata__[0], value)
    try:
        return kind(**values)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error}") from None


def keyed(place: str, key: str, read: Callable[[object], T], value: object) -> T:
    """Reads a value; an error says where it stands."""
    try:
        return read(value)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {key} {error}") from None


def refuse_unknown(data: Mapping[str, object], known: Iterable[str], place: str) -> None:
    """Refuses the first key that is not known, and names the nearest that is."""
    names = list(known)
    for key in data:
        if key in names:
            continue
        if key in ("seed", "graphs"):
            raise InvalidInput(f"{place}: {key} belongs to the whole plan; in TOML, write it above the first table")
        raise InvalidInput(f"{place}: {unknown('key', key, names)}")


def stated(entry: Any) -> dict[str, object]:
    """The fields of a dataclass that differ from their defaults, under their names in a plan."""
    stated = (field for field in fields(entry) if getattr(entry, field.name) != field.default)
    return {_KEYS.get(field.name, field.name): getattr(entry, field.name) for field in stated}


def plain(value: object) -> object:
    """Entries and tuples as plain data."""
    if is_dataclass(value):
        return {key: plain(inner) for key, inner in stated(value).items()}
    return [plain(item) for item in value] if isinstance(value, tuple) else value
