"""Totals: sums over all nodes of named fields of numbers, with the same bits for any grouping, order and route.

Contributions are rounded to whole multiples of a grain, a power of two for each field, and added modulo 2^64; such sums
are associative. A round that yields a `Total` is sent the `Sums`. Nothing but the sum is needed of any single
contribution, so contributions may be masked on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol, TypeVar

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.kernels.units import add_units, largest_bits
from glmesh.types import Indices, Matrix, Unsigned, Vector

LARGEST = 62  # [bits] of a sum: 63 would fit, one is left for what rounding adds
ROOM = 8  # [bits] by which a field may grow from one total to the next; design: fields grow by less, 54 bits are left
SMALLEST = -1022  # exponent of the smallest grain, by which numbers can be divided
MORE_ROOM = 20  # [bits] that are added to the grain of a field whose contributions did not fit
NOTHING = -2000  # exponent of a field without any number but 0, below that of every number

A = TypeVar("A")
Answered = TypeVar("Answered", covariant=True)
Grains = dict[str, int]  # exponent of the grain, a power of two, of each field
Add = Callable[[list[Unsigned]], Unsigned]  # (n_hosted, N) contributions of each block -> (N,) sums modulo 2^64
Maximise = Callable[[list[Indices]], Indices]  # (n_hosted, n) numbers of each block -> (n,) maxima over all nodes


@dataclass(frozen=True, eq=False)
class Sums(Mapping[str, Vector]):
    """Sums over all nodes of the fields of a `Total`, by name, equal in every bit at all nodes.

    Parameters
    ----------
    fields : dict of arrays
        Sum of each field, shape (size,).
    sizes : dict of float
        Sum over the nodes of the largest absolute entry of each field, from which the next total takes its grains.
    errors : dict of float, optional
        By how much an entry of each field may differ from the sum of what the nodes contributed, because of rounding.
    """

    fields: dict[str, Vector]
    sizes: dict[str, float]
    errors: dict[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Vector:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def sized_like(self, other: Sums, name: str) -> Sums:
        """Return the same sums with the size of the field `name` in `other`, so that the next grain follows that."""
        return replace(self, sizes=self.sizes | {name: other.sizes[name]})


class Answers(Protocol[Answered]):
    """Protocol of what answers requests for sums and maxima in a way of its own, as sites of a federation do."""

    def sum(self, total: Total) -> Answered:
        """Return the answer to a request for sums over all nodes."""

    def largest(self, numbers: Indices) -> Answered:
        """Return the answer to a request for maxima over all nodes; `numbers` are as those of `Largest`."""


@dataclass(frozen=True, eq=False)
class Total:
    """A request for sums over all nodes, which a round yields and is sent as `Sums`.

    Parameters
    ----------
    fields : mapping of arrays
        Contributions of the hosted nodes by name of the field, each of shape (n_hosted, size), finite.
    like : Sums, optional
        An earlier total with fields of about the same size, from which the grains are derived. Fields that it does not
        have, or that were zero in it, take one more exchange, in which nodes agree on the largest exponent.
    at : array of shape (n,), optional
        What the contributions are a function of beside each node's rows, equal at all nodes: real sites compare it.
    parts : sequence of Total, default ()
        Totals whose fields these are, in this order, so that nothing is computed twice; none: it stands for itself.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.core.totals import Total, add_up
    >>> halves = [Total({"count": np.array([[1.0]])}), Total({"count": np.array([[2.0], [4.0]])})]
    >>> sums = add_up(halves, 3, lambda rows: sum(one.sum(axis=0) for one in rows), lambda each: np.vstack(each).max(0))
    >>> sums["count"]
    array([7.])
    """

    fields: Mapping[str, Matrix]
    like: Sums | None = None
    at: Vector | None = None
    parts: Sequence[Total] = ()
    largest: Matrix = field(init=False)  # (n_fields, n_hosted) largest absolute entry of each field at each node

    def __post_init__(self) -> None:
        if self.parts:
            object.__setattr__(self, "largest", np.concatenate([part.largest for part in self.parts]))
            return
        bits = np.zeros((len(self.fields), self._n_hosted), dtype=np.int64)
        for own, rows in zip(bits, self.fields.values(), strict=True):
            largest_bits(_doubles(rows).view(np.int64), own)
        largest = bits.view(np.float64)
        if not np.isfinite(largest).all():
            wrong = next(name for name, own in zip(self.fields, largest, strict=True) if not np.isfinite(own).all())
            raise InvalidInput(f"field {wrong!r} of a total holds NaN or infinity")
        object.__setattr__(self, "largest", largest)

    @property
    def _n_hosted(self) -> int:
        """Number of nodes that the contributions are of."""
        return max([len(rows) for rows in self.fields.values()], default=0)

    @property
    def numbers(self) -> int:
        """Number of integers that a node contributes: per field its entries, its size, and whether it fits."""
        return sum(int(rows.shape[1]) + 2 for rows in self.fields.values())

    @property
    def unknown(self) -> list[str]:
        """Names of the fields of which no earlier total `like` says how large they are: absent or zero there.

        The power of two that such a field is rounded to multiples of, its grain, must be agreed on first. A total is a
        sum over all nodes.
        """
        sizes = {} if self.like is None else self.like.sizes
        return [name for name in self.fields if not sizes.get(name, 0.0) > 0.0]

    def asked_of(self, answers: Answers[A]) -> A:
        """Return the answer of `answers` to this request for sums."""
        return answers.sum(self)

    def exponents(self) -> Indices:
        """Return the binary exponent of each node's largest entry of each `unknown` field, (n_hosted, n_unknown).

        NOTHING (-2000) where all entries are zero.
        """
        unknown = set(self.unknown)
        largest = self.largest[[name in unknown for name in self.fields]].T
        return np.where(largest > 0, np.frexp(largest)[1], NOTHING).astype(np.int64)

    def encode(self, grains: Grains, n_nodes: int, *, apart: bool = True) -> Unsigned:
        """Return the contributions as integers to be added modulo 2^64, uint64 of shape (n_hosted, numbers).

        An entry becomes its multiple of 2^grains[name], rounded, where `name` is its field. A field of which an entry
        does not fit into 62 bits, divided by n_nodes, is sent as zeros; the last columns, one for each field, say 1 for
        those fields. Unless `apart`, the hosted nodes' integers are added up: the shape is (1, numbers).
        """
        limit = np.ldexp(1.0, LARGEST - (n_nodes - 1).bit_length())
        inverses = np.ldexp(1.0, [-grains[name] for name in self.fields])
        with np.errstate(over="ignore"):  # of what does not fit
            largest = self.largest * inverses[:, None]
        fits = largest <= limit
        sizes, misfits = np.ceil(np.where(fits, largest, 0.0)).astype(np.int64), (~fits).astype(np.int64)
        if not apart:
            sizes, misfits = sizes.sum(axis=1, keepdims=True), misfits.sum(axis=1, keepdims=True)
        out = np.zeros((sizes.shape[1], self.numbers), dtype=np.int64)
        at, ends = 0, []
        for own, inverse, rows in zip(fits, inverses, self.fields.values(), strict=True):
            add_units(_doubles(rows), inverse, own, np.uint64(at), out)
            at += rows.shape[1] + 1
            ends.append(at - 1)
        out[:, ends] = sizes.T
        out[:, at:] = misfits.T
        return out.view(np.uint64)

    def decode(self, grains: Grains, whole: Unsigned, n_nodes: int) -> Sums:
        """Return the Sums over `n_nodes` nodes from the added integers of `encode`, uint64 of shape (numbers,).

        An integer stands for its multiple of 2^grains[name], where `name` is its field. `whole` are these sums.
        """
        numbers = whole.view(np.int64).astype(np.float64)
        widths = [int(rows.shape[1]) + 1 for rows in self.fields.values()]
        units = np.ldexp(1.0, [grains[name] for name in self.fields])
        at, values, sizes, errors = 0, {}, {}, {}
        for name, width, grain in zip(self.fields, widths, units.tolist(), strict=True):
            own = numbers[at : at + width]
            own = own * grain if np.isfinite(grain) else np.ldexp(own, grains[name])
            values[name], sizes[name], errors[name] = own[:-1], float(own[-1]), n_nodes * 0.5 * grain
            at += width
        return Sums(values, sizes, errors)


def _doubles(rows: Matrix) -> Matrix:
    """Return contributions as float64 in one piece of memory, as kernels read them, without a copy if they are so."""
    return np.ascontiguousarray(rows, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Largest:
    """A request for maxima over all nodes, which a round yields and is sent as whole numbers of shape (n,).

    Parameters
    ----------
    numbers : array of int of shape (n_hosted, n)
        Whole numbers of the hosted nodes, such as exponents, from -2^15 to 2^15 - 1: messages have two bytes for each.
    """

    numbers: Indices

    def __post_init__(self) -> None:
        if (self.numbers != self.numbers.astype(np.int16)).any():
            raise InvalidInput("maxima over all nodes are of whole numbers of 16 bits, from -32,768 to 32,767")

    def asked_of(self, answers: Answers[A]) -> A:
        """Return the answer of `answers` to this request for maxima."""
        return answers.largest(self.numbers)


@dataclass(frozen=True, eq=False)
class Whole:
    """A request that `summation` yields: contributions as integers, to be added over all nodes modulo 2^64.

    An integer of a field stands for its multiple of 2^grains[field].
    """

    rows: list[Unsigned]  # (n_hosted, numbers) of each block, or (1, numbers) where its nodes' were added up
    grains: Grains
    misfits: int  # times that these fields did not fit before


def summation(
    totals: Sequence[Total], n_nodes: int, *, apart: bool = True
) -> Generator[Whole | list[Indices], Any, Sums]:
    """Return, by a generator, the Sums over all n_nodes nodes of what each contributes to a total.

    totals[i] has the contributions of block i of this process. It yields a list of exponents, one int array of shape
    (n_hosted, n) per block, and is sent their maxima over all nodes, shape (n,); or it yields a `Whole` and is sent the
    sums over all nodes modulo 2^64. If an entry of any node does not fit, all is sent once more, with fields that did
    not fit rounded to multiples 2^20 times as large. `apart` is that of `Total.encode`.
    """
    first = totals[0]
    grains: Grains = {}
    if first.unknown:
        found = yield [total.exponents() for total in totals]
        headroom = ROOM + (n_nodes - 1).bit_length() - LARGEST
        grains |= {name: int(exponent) + headroom for name, exponent in zip(first.unknown, found, strict=True)}
    if first.like is not None:
        known = {name: first.like.sizes[name] for name in first.fields if name not in grains}
        grains |= {name: int(np.frexp(size)[1]) + ROOM - LARGEST for name, size in known.items()}
    grains = {name: max(exponent, SMALLEST) for name, exponent in grains.items()}
    for misfits in count():
        whole = yield Whole([total.encode(grains, n_nodes, apart=apart) for total in totals], grains, misfits)
        short = whole[-len(first.fields) :] > 0
        if not short.any():
            break
        grains = grains | {
            name: grains[name] + MORE_ROOM for name, lacks in zip(first.fields, short, strict=True) if lacks
        }
    return first.decode(grains, whole, n_nodes)


def add_up(totals: Sequence[Total], n_nodes: int, add: Add, maximise: Maximise, *, apart: bool = False) -> Sums:
    """Return the Sums over all n_nodes nodes; totals[i] has the contributions of block i of this process.

    `add` returns the sums over all nodes modulo 2^64 of integers, `maximise` the maxima; both move data between nodes.
    If `apart`, `add` is given the integers of each node by themselves, because some may get lost; else those of a
    block's nodes are added up as they are made.
    """
    steps = summation(totals, n_nodes, apart=apart)
    answer: Unsigned | Indices | None = None
    while True:
        try:
            request = next(steps) if answer is None else steps.send(answer)
        except StopIteration as end:
            sums: Sums = end.value
            return sums
        answer = add(request.rows) if isinstance(request, Whole) else maximise(request)
