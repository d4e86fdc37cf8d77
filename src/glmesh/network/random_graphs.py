"""Random connected graphs; public as `glmesh.topology.random_regular` and `glmesh.topology.erdos_renyi`."""

import math
import random
from collections.abc import Callable

import networkx as nx
import numpy as np

from glmesh.errors import InvalidInput, InvalidNetwork
from glmesh.network.families import complete, positive_int, simple

_DRAWS = 100  # random graphs tried for a connected one; 2 ln n / n needs a second draw once in n times


def random_regular(n: int, degree: int = 3, seed: int = 0) -> nx.Graph:
    """A random connected graph with `degree` neighbours everywhere; complete if degree >= n - 1.

    Parameters
    ----------
    n : int
        Number of nodes.
    degree : int, default 3
        Neighbours of every node.
    seed : int, default 0
        Seed of the draws.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n or degree is no positive integer.
    InvalidNetwork
        No such graph is connected, or n * degree is odd.

    Examples
    --------
    >>> from glmesh import topology
    >>> {degree for _, degree in topology.random_regular(10, 3).degree}
    {3}
    """
    n, degree = positive_int(n), positive_int(degree, "degree")
    if degree >= n - 1:
        return complete(n)
    if n * degree % 2:
        raise InvalidNetwork(
            f"no graph has {degree} neighbours at each of {n} nodes, because {n} * {degree} is odd; "
            f"use degree {degree + 1} or an even number of nodes"
        )
    if degree == 1:
        raise InvalidNetwork(f"{n} nodes with one neighbour each cannot be connected; use degree 2 or more")
    if degree == 2:  # connected means one cycle, which pairing at random seldom finds
        order = np.array(random.Random(str(seed)).sample(range(n), n))
        return simple(n, order, np.roll(order, 1))
    # a dense draw by pairing rarely ends (minutes at n = 50, degree = 48); its sparse complement does
    dense = 2 * degree > n
    drawn = n - 1 - degree if dense else degree

    def draw(source: random.Random) -> nx.Graph:
        """Return a regular graph of the degree asked for, drawn with `source`; a dense one by its complement."""
        graph = nx.random_regular_graph(drawn, n, seed=source)
        return nx.complement(graph) if dense else graph

    return _first_connected(n, draw, seed, advice="raise the degree")


def erdos_renyi(n: int, probability: float | None = None, seed: int = 0) -> nx.Graph:
    """k ~ l with the given probability, independently, drawn until connected.

    Parameters
    ----------
    n : int
        Number of nodes.
    probability : float, optional
        Probability of an edge; None is 2 ln(n) / n, with which a second draw is needed once in n times.
    seed : int, default 0
        Seed of the draws.

    Returns
    -------
    networkx.Graph
        Connected graph on 0, ..., n - 1.

    Raises
    ------
    InvalidInput
        n is no positive integer, or the probability is not in [0, 1].
    InvalidNetwork
        None of 100 draws was connected.

    Examples
    --------
    >>> from glmesh import topology
    >>> len(topology.erdos_renyi(20, seed=1))
    20
    """
    n = positive_int(n)
    p = 2 * math.log(n) / n if probability is None else probability
    if not 0 <= p <= 1:
        raise InvalidInput(f"an edge probability lies between 0 and 1, got {p}")
    return _first_connected(
        n,
        lambda source: nx.fast_gnp_random_graph(n, p, seed=source),
        seed,
        advice=f"raise the probability of an edge, {p:.3g}, above ln(n) / n = {math.log(n) / n:.3g}",
    )


def _first_connected(n: int, draw: Callable[[random.Random], nx.Graph], seed: int, advice: str) -> nx.Graph:
    """Return the first connected graph that `draw` returns; each of at most `_DRAWS` calls has a random stream.

    `seed` seeds the streams. If no graph is connected, raise InvalidNetwork, whose message ends with `advice`. n is the
    number of nodes.
    """
    for attempt in range(_DRAWS):
        drawn = draw(random.Random(f"{seed}/{attempt}"))
        if nx.is_connected(drawn):
            graph = nx.empty_graph(n)  # networkx adds nodes in the order of their edges
            graph.add_edges_from(drawn.edges)
            return graph
    raise InvalidNetwork(f"none of {_DRAWS} random graphs on {n} nodes was connected; {advice}")
