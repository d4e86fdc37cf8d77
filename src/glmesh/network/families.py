"""Families of graphs by formula; public as `glmesh.topology.ring` and so on."""

import math
from collections.abc import Iterable

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from glmesh.errors import InvalidNetwork
from glmesh.validation import whole_number


def ring(n: int) -> nx.Graph:
    """k ~ k + 1 mod n.

    Parameters
    ----------
    n : int
        Number of nodes.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n is no positive integer.

    Examples
    --------
    >>> from glmesh import topology
    >>> sorted(topology.ring(4).edges)
    [(0, 1), (0, 3), (1, 2), (2, 3)]
    """
    return _circulant(n, [1])


def cycle(n: int, reach: int) -> nx.Graph:
    """k ~ k + r mod n for r = 1, ..., reach: the ring with the `reach` nearest on each side.

    Parameters
    ----------
    n : int
        Number of nodes.
    reach : int
        Neighbours on each side.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n or reach is no positive integer.

    Examples
    --------
    >>> from glmesh import topology
    >>> sorted(topology.cycle(8, 2)[0])
    [1, 2, 6, 7]
    """
    n, reach = positive_int(n), positive_int(reach, "reach")
    return _circulant(n, range(1, min(reach, n // 2) + 1))


def exponential(n: int) -> nx.Graph:
    """k ~ k + 2^j mod n for every 2^j < n: about 2 log2(n) neighbours, diameter about log2(n) / 2.

    Parameters
    ----------
    n : int
        Number of nodes.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n is no positive integer.

    Examples
    --------
    >>> from glmesh import topology
    >>> sorted(topology.exponential(16)[0])
    [1, 2, 4, 8, 12, 14, 15]
    """
    n = positive_int(n)
    return _circulant(n, [1 << j for j in range((n - 1).bit_length())])


def path(n: int) -> nx.Graph:
    """k ~ k + 1 for k < n - 1.

    Parameters
    ----------
    n : int
        Number of nodes.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n is no positive integer.

    Examples
    --------
    >>> from glmesh import topology
    >>> sorted(topology.path(3).edges)
    [(0, 1), (1, 2)]
    """
    k = np.arange(positive_int(n))
    return simple(n, k[:-1], k[1:])


def grid(n: int) -> nx.Graph:
    """(r, c) ~ (r + 1, c) and (r, c + 1), on the most square rows x cols = n; a path if n is prime.

    Parameters
    ----------
    n : int
        Number of nodes.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n is no positive integer.

    Examples
    --------
    >>> from glmesh import topology
    >>> sorted(topology.grid(6)[0])
    [1, 3]
    """
    k = _most_square(n)
    return simple(n, np.r_[k[:-1].ravel(), k[:, :-1].ravel()], np.r_[k[1:].ravel(), k[:, 1:].ravel()])


def torus(n: int) -> nx.Graph:
    """(r, c) ~ (r + 1 mod rows, c) and (r, c + 1 mod cols), shaped like `grid`; a ring if n is prime.

    Parameters
    ----------
    n : int
        Number of nodes.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n is no positive integer.

    Examples
    --------
    >>> from glmesh import topology
    >>> sorted(topology.torus(9)[0])
    [1, 2, 3, 6]
    """
    k = _most_square(n)
    ahead = np.r_[np.roll(k, -1, axis=0).ravel(), np.roll(k, -1, axis=1).ravel()]
    return simple(n, np.tile(k.ravel(), 2), ahead)


def complete(n: int) -> nx.Graph:
    """k ~ l for all k != l.

    Parameters
    ----------
    n : int
        Number of nodes.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n is no positive integer.

    Examples
    --------
    >>> from glmesh import topology
    >>> topology.complete(5).number_of_edges()
    10
    """
    return simple(n, *np.triu_indices(positive_int(n), 1))


def star(n: int) -> nx.Graph:
    """0 ~ k for all k > 0.

    Parameters
    ----------
    n : int
        Number of nodes.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n is no positive integer.

    Examples
    --------
    >>> from glmesh import topology
    >>> sorted(topology.star(4).edges)
    [(0, 1), (0, 2), (0, 3)]
    """
    leaves = np.arange(1, positive_int(n))
    return simple(n, np.zeros_like(leaves), leaves)


def hypercube(n: int) -> nx.Graph:
    """k ~ k xor 2^j for every 2^j < n, with n a power of two.

    Parameters
    ----------
    n : int
        Number of nodes, a power of two.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n is no positive integer.
    InvalidNetwork
        n is no power of two.

    Examples
    --------
    >>> from glmesh import topology
    >>> sorted(topology.hypercube(8)[0])
    [1, 2, 4]
    """
    n = positive_int(n)
    below = 1 << (n.bit_length() - 1)
    if n != below:
        raise InvalidNetwork(
            f"a hypercube needs a power of two as its number of nodes, got {n}; the nearest are {below} and {2 * below}"
        )
    k = np.arange(n)[:, None]
    bits = 1 << np.arange(n.bit_length() - 1)
    return simple(n, k + 0 * bits, k ^ bits)


def positive_int(n: object, name: str = "n_nodes") -> int:
    """Return `n` as an int; raise InvalidInput, whose message calls it `name`, unless it is a positive integer."""
    return whole_number(n, name, 1, wanted="a positive integer")


def simple(n: int, tails: NDArray[np.intp], heads: NDArray[np.intp]) -> nx.Graph:
    """Return the graph on 0, ..., n - 1 with the edges tails[i] ~ heads[i].

    Repeated edges count once, self-loops not at all.
    """
    apart = tails != heads
    graph = nx.empty_graph(n)
    graph.add_edges_from(zip(tails[apart].tolist(), heads[apart].tolist(), strict=True))
    return graph


def _circulant(n: int, offsets: Iterable[int]) -> nx.Graph:
    """Return the graph on 0, ..., n - 1 with the edges k ~ k + offset mod n, for every k and every offset."""
    k = np.arange(positive_int(n))[:, None]
    steps = np.fromiter(offsets, dtype=np.intp)
    return simple(n, k + 0 * steps, (k + steps) % n)


def _most_square(n: int) -> NDArray[np.intp]:
    """Return an array of shape (rows, cols) with 0, ..., n - 1 row by row.

    rows is the largest divisor of n up to sqrt(n).
    """
    n = positive_int(n)
    rows = next(r for r in range(math.isqrt(n), 0, -1) if n % r == 0)
    return np.arange(n).reshape(rows, -1)
