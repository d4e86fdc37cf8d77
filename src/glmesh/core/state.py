"""How a state declares itself, so that saving, regrouping and resuming need no list of classes.

A state is a dataclass. The annotation of a field says what it has entries for:

| annotation     | the field has                                                        |
|----------------|----------------------------------------------------------------------|
| `PerNode[T]`   | an entry (a row) for every node of the block                         |
| `PerColumn[T]` | an entry for every column of the block                               |
| `PerUnit[T]`   | an entry for every unit of the block, a column or a group of columns |
| `Shared[T]`    | one value, equal at all blocks                                       |
| `Summed[T]`    | one value per block; their sum is that of the run                    |
| `Largest[T]`   | one value per block; their maximum is that of the run                |

A field without one of these holds another state, or None. `merge` makes one state of those of several blocks and
`split` cuts one into several, so a run that was saved by some processes goes on in others.
"""

import copy
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import numpy as np

T = TypeVar("T")
S = TypeVar("S")

_NODE, _COLUMN, _UNIT = "node", "column", "unit"
_SHARED, _SUMMED, _LARGEST, _STATE = "shared", "summed", "largest", "state"

PerNode = Annotated[T, _NODE]
PerColumn = Annotated[T, _COLUMN]
PerUnit = Annotated[T, _UNIT]
Shared = Annotated[T, _SHARED]
Summed = Annotated[T, _SUMMED]
Largest = Annotated[T, _LARGEST]

Leaf = Callable[[str, list[Any]], Any]  # (kind of a field, its value at each block) -> value of the field


class Extent(NamedTuple):
    """Numbers of nodes, columns and units (columns or groups) of a block."""

    node: int  # number of nodes
    column: int  # number of columns
    unit: int  # number of units


def merge(states: list[S]) -> S:
    """Return the state of one large block from the states of several blocks of nodes, given in the order of nodes."""
    merged: S = states[0] if len(states) == 1 else _map(states, _merged)
    return merged


def split(state: S, extents: list[Extent]) -> list[S]:
    """Return the states of several blocks, cut from the state of one large block; the inverse of `merge`.

    extents[i] are the numbers of nodes, columns and units of block i, in the order of nodes.
    """
    if len(extents) == 1:
        return [state]
    ends = {kind: np.cumsum([getattr(extent, kind) for extent in extents]) for kind in Extent._fields}

    def cut(number: int) -> Leaf:
        """Return a function (kind, [value of a field in the large state]) -> its value for block `number`."""

        def piece(kind: str, values: list[Any]) -> Any:
            """Return the block's part of values[0], the value of a field in the state of one large block.

            `kind` says what the field has entries for: "node", "column", "unit", or what all blocks share.
            """
            value = values[0]
            if kind == _SUMMED:
                return value if number == 0 else type(value)(0)
            if kind in (_SHARED, _LARGEST):
                return copy.deepcopy(value)
            if value is None or len(value) == 0:
                return value
            end = int(ends[kind][number])
            part = value[end - getattr(extents[number], kind) : end]
            return part.copy() if isinstance(part, np.ndarray) else part

        return piece

    return [_map([state], cut(number)) for number in range(len(extents))]


def _merged(kind: str, values: list[Any]) -> Any:
    """Return the value of a field in the merged state, from the list of values that the field has at each block.

    `kind` says what the field has entries for: values of kind "node", "column" and "unit" are concatenated, "summed"
    added, "largest" maximised, "shared" taken from the first.
    """
    first = values[0]
    if kind == _SUMMED:
        return sum(values)
    if kind == _LARGEST:
        return max(values)
    if kind == _SHARED or first is None:
        return first
    return np.concatenate(values) if isinstance(first, np.ndarray) else [one for part in values for one in part]


def _map(states: list[Any], leaf: Leaf) -> Any:
    """Return a state each of whose fields is leaf(kind of the field, list of its values in `states`).

    None if any of the states is None: an accelerator that only some blocks have given up yet is given up by all.
    """
    if any(state is None for state in states):
        return None
    cls: type = type(states[0])
    made: Any = object.__new__(cls)
    for name, kind in _kinds(cls).items():
        values = [getattr(state, name) for state in states]
        object.__setattr__(made, name, _map(values, leaf) if kind == _STATE else leaf(kind, values))
    return made


@cache
def _kinds(cls: type) -> dict[str, str]:
    """Return the kind of every field of a state class ("node", "column", "shared", ...), by the field's name."""
    hints = get_type_hints(cls, include_extras=True)
    kinds = {}
    for one in fields(cls):
        marks = [mark for mark in getattr(hints[one.name], "__metadata__", ()) if isinstance(mark, str)]
        kinds[one.name] = marks[0] if marks else _STATE
    return kinds
