"""Tables of a fault plan, and their readers of plain data: every field carries its reader in its type."""

import itertools
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_type_hints

from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.types import Tree
from glmesh.validation import number_in, one_of, unknown, whole_number

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
Entry = TypeVar("Entry", bound="DataclassInstance")

MODELS = ("freeze", "reset")  # a node that is away keeps its state, or loses it
CHANCES = ("dropout", "links", "loss", "duplicate", "delay")  # kinds of random faults; the position is part of the hash
_KEYS = {"start": "from", "end": "until"}  # fields whose name in a plan is no Python name


whole = partial(whole_number, most=2**63)  # the bits that the hash of a chance takes


def _real(wanted: str, allowed: Callable[[float], bool]) -> Callable[[object], float]:
    """Return a function that reads a value of a fault plan as a float, or raises InvalidInput unless allowed(number).

    The message of the error says what is `wanted`.
    """
    return partial(number_in, name="", wanted=wanted, allowed=allowed)


def _one_of(*known: T) -> Callable[[T], T]:
    """Return a function that returns its argument if that is one of the `known` values, else raises InvalidInput."""
    return partial(one_of, name="", known=known)


def list_of(value: object, wanted: str) -> list[object]:
    """Return a list or tuple as a list; raise InvalidInput, which says what is `wanted`, for anything else."""
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"must be {wanted}, got {value!r}")
    return list(value)


def _pair(value: object) -> tuple[int, int]:
    """Return a list of the ids of two different nodes as a tuple of ints; raise InvalidInput for anything else."""
    nodes = [whole(node) for node in list_of(value, "a list of two nodes")]
    if len(nodes) != 2 or nodes[0] == nodes[1]:
        raise InvalidInput(f"must be a list of two different nodes, got {value!r}")
    return nodes[0], nodes[1]


def _groups(value: object) -> tuple[tuple[int, ...], ...]:
    """Return a list of disjoint lists of node ids, none empty, as a tuple of tuples.

    Raise InvalidInput for anything else.
    """
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
    """Return the links of each exchange in turn, a tuple of (node, node) per exchange, from lists of lists.

    `value` is a list with a list of links, each a list of two nodes, for each exchange; InvalidInput for anything else.
    """
    wanted = "a list with a list of links for each exchange"
    return tuple(tuple(_pair(link) for link in list_of(graph, wanted)) for graph in list_of(value, wanted))


Whole = Annotated[int, whole]
Probability = Annotated[float, _real("in [0, 1)", lambda p: 0 <= p < 1)]
Accuracy = Annotated[float | None, _real("in [0, 1]", lambda theta: 0 <= theta <= 1)]
Seconds = Annotated[float | None, _real("a finite number of seconds >= 0", lambda s: 0 <= s < math.inf)]
FailureModel = Annotated[str, _one_of(*MODELS)]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Rounds `start`, ..., `end` - 1 during which an entry of a fault plan holds.

    None as end: all rounds from start on.
    """

    start: Whole = 0
    end: Annotated[int | None, whole] = None

    def __post_init__(self) -> None:
        if self.end is not None and self.start >= self.end:
            raise InvalidInput(f"from must be less than until, got from {self.start} until {self.end}")

    def covers(self, round: int) -> bool:
        """Return whether the round lies in the window."""
        return self.start <= round and (self.end is None or round < self.end)

    def for_good(self, round: int) -> bool:
        """Return whether the window has begun by this round, a number, and never ends."""
        return self.end is None and self.covers(round)


@dataclass(frozen=True, kw_only=True)
class Random(Window):
    """Random faults during a window of rounds, independent for each node and round, or each message and exchange.

    Probabilities: `dropout` that a node is away in a round, `loss` that a message is lost, `links` that a link carries
    nothing in an exchange, `duplicate` that a message arrives twice, `delay` that it arrives late. `model` says whether
    nodes that are away keep ("freeze") or lose ("reset") their state.
    """

    dropout: Probability = 0.0  # probability that a node is away in a round
    model: FailureModel = "freeze"  # whether those nodes keep or lose their state
    loss: Probability = 0.0  # probability that a message is lost
    links: Probability = 0.0  # probability that a link carries nothing in an exchange
    duplicate: Probability = 0.0  # probability that a message arrives twice
    delay: Probability = 0.0  # probability that a message arrives 1 to 3 exchanges late

    @property
    def strikes(self) -> bool:
        """Whether any of dropout, loss, links, duplicate and delay is positive, so that something can fail."""
        return any(getattr(self, kind) > 0 for kind in CHANCES)


@dataclass(frozen=True, kw_only=True)
class Down(Window):
    """A node that is away during a window of rounds, and keeps ("freeze") or loses ("reset") its state."""

    node: Whole
    model: FailureModel = "freeze"


@dataclass(frozen=True, kw_only=True)
class LinkFailure(Window):
    """A link between two nodes that carries no message during a window of rounds.

    With `one_way`, only the messages from the first node of `between` to the second are lost.
    """

    between: Annotated[tuple[int, int], _pair]
    one_way: Annotated[bool, _one_of(True, False)] = False


@dataclass(frozen=True, kw_only=True)
class NetworkPartition(Window):
    """Groups of node ids between which no message passes during a window of rounds.

    Nodes in no group form one more group.
    """

    groups: Annotated[tuple[tuple[int, ...], ...], _groups]

    def sides(self) -> dict[int, int]:
        """Return {node: number of its group, from 0}; nodes that are in no group are not keys."""
        return {node: number for number, group in enumerate(self.groups) for node in group}


@dataclass(frozen=True, kw_only=True)
class Join:
    """A node that is no member before `round`, and a member from then on."""

    node: Whole
    round: Whole


@dataclass(frozen=True, kw_only=True)
class Leave(Join):
    """A node that is no member from `round` on.

    With `model` "freeze" its share A_k x_k (its columns times its variables) stays in the sum over all nodes, with
    "reset" it is lost.
    """

    model: FailureModel = "freeze"


@dataclass(frozen=True, kw_only=True)
class Straggler(Window):
    """A node that takes `delay` seconds longer per round, or solves to local accuracy `theta` only, for a window."""

    node: Whole
    delay: Seconds = None  # [s] per round
    theta: Accuracy = None  # local accuracy Theta that the node reaches; 1: it makes no progress

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.delay is None) == (self.theta is None):
            raise InvalidInput(
                f"needs delay or theta, got {'neither' if self.delay is None else 'both; write two entries'}"
            )


def load_tables(path: Path) -> Tree:
    """Return the content of a TOML file as a dict; raise UnreadableFile if there is no file, or it is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnreadableFile(f"{path}: no such file; check the name and the folder") from None
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read ({error})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{path}: not a TOML file ({error})") from error


def read_entry(kind: type[Entry], data: object, at: str) -> Entry:
    """Return an object of class `kind` made from `data`, one table (a dict) of a fault plan.

    Raise InvalidInput, which names the place `at` in the plan, for an unknown or missing key or a wrong value.
    """
    place = f"fault plan, {at}"
    if not isinstance(data, Mapping):
        raise InvalidInput(f"{place}: must be a table, got {data!r}")
    hints = get_type_hints(kind, include_extras=True)
    names = {_KEYS.get(field.name, field.name): field for field in fields(kind)}
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
    """Return read(value); if that raises InvalidInput, raise one whose message begins with `place` and `key`.

    `place` says where in a fault plan the value stands, `key` is its key there.
    """
    try:
        return read(value)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {key} {error}") from None


def refuse_unknown(data: Mapping[str, object], known: Iterable[str], place: str) -> None:
    """Raise InvalidInput for the first key of `data` that is not in `known`; the message names a similar known key.

    `place` says where in a fault plan the data stand.
    """
    names = list(known)
    for key in data:
        if key in names:
            continue
        if key in ("seed", "graphs"):
            raise InvalidInput(f"{place}: {key} belongs to the whole plan; in TOML, write it above the first table")
        raise InvalidInput(f"{place}: {unknown('key', key, names)}")


def stated(entry: "DataclassInstance") -> dict[str, object]:
    """Return {key in a plan: value} for the fields of a dataclass whose values differ from their defaults."""
    stated = (field for field in fields(entry) if getattr(entry, field.name) != field.default)
    return {_KEYS.get(field.name, field.name): getattr(entry, field.name) for field in stated}


def plain(value: object) -> object:
    """Return a plan's entry as plain data: dataclasses as dicts of changed fields, tuples as lists, recursively."""
    if is_dataclass(value) and not isinstance(value, type):
        return {key: plain(inner) for key, inner in stated(value).items()}
    return [plain(item) for item in value] if isinstance(value, tuple) else value
