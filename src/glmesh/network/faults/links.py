"""Links of a fault plan: which are among others, and where they lead."""

from collections import defaultdict
from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import ArrayLike

from glmesh.types import Flags, Indices


def message_ends(senders: ArrayLike, receivers: ArrayLike) -> tuple[Indices, Indices]:
    """Return senders and receivers, broadcast against each other, as two int arrays of one shape."""
    source, target = np.broadcast_arrays(np.asarray(senders, dtype=np.int64), np.asarray(receivers, dtype=np.int64))
    return source, target


def among(low: Indices, high: Indices, links: Iterable[tuple[int, int]]) -> Flags:
    """Return an array of booleans, True where the pair (low[i], high[i]), low[i] < high[i], is one of `links`.

    The links are pairs of nodes, given in either order.
    """
    listed = np.sort(np.array(list(links), dtype=np.int64).reshape(-1, 2), axis=1)
    width = 1 + max(int(high.max(initial=0)), int(listed.max(initial=0)))
    return np.isin(low * width + high, listed[:, 0] * width + listed[:, 1])


def neighbours_of(links: Iterable[Collection[int]]) -> dict[int, set[int]]:
    """Return {node: set of its neighbours} for links given as pairs of nodes.

    A node without links has the empty set.
    """
    neighbours: dict[int, set[int]] = defaultdict(set)
    for a, b in links:
        neighbours[a].add(b)
        neighbours[b].add(a)
    return neighbours


def reachable(start: int, links: Iterable[Collection[int]]) -> set[int]:
    """Return the set of nodes that a path over the links connects with `start`, `start` itself included."""
    neighbours = neighbours_of(links)
    reached, fresh = {start}, {start}
    while fresh:
        fresh = {near for node in fresh for near in neighbours[node]} - reached
        reached |= fresh
    return reached
