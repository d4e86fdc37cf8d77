"""Communication graphs: connected and undirected, on the nodes 0, 1, ..., K-1.

Every builder returns a simple graph (no self-loop, no double edge) and works from n = 1 upwards.
`build` makes one from a name, a networkx graph or an adjacency, or says why it cannot.
"""

import re
from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csgraph

from glmesh.errors import InvalidInput, InvalidNetwork
from glmesh.network.families import (
    complete,
    cycle,
    exponential,
    grid,
    hypercube,
    path,
    positive_int,
    ring,
    simple,
    star,
    torus,
)
from glmesh.network.random_graphs import erdos_renyi, random_regular
from glmesh.validation import unknown

__all__ = [
    "adjacency",
    "build",
    "complete",
    "cycle",
    "diameter",
    "erdos_renyi",
    "exponential",
    "grid",
    "hypercube",
    "links_of",
    "names",
    "path",
    "random_regular",
    "ring",
    "spanning_tree",
    "star",
    "torus",
]

EXACT_DIAMETER = 1024  # [nodes] shortest paths between all pairs of more nodes would take seconds
_NAMED = 10  # nodes that a message lists before it says "and 37 more"


_FIXED: dict[str, Callable[[int], nx.Graph]] = {
    "ring": ring,
    "path": path,
    "grid": grid,
    "torus": torus,
    "complete": complete,
    "star": star,
    "hypercube": hypercube,
    "exponential": exponential,
}


def names() -> tuple[str, ...]:
    """Return the names that `build` knows; another integer may replace the one in a name.

    Returns
    -------
    tuple of str
        The names.

    Examples
    --------
    >>> from glmesh import topology
    >>> topology.names()[:3]
    ('ring', 'path', 'grid')
    """
    return (*_FIXED, "2-cycle", "3-cycle", "random-regular", "random-3-regular", "erdos-renyi")


def build(topology: object, n_nodes: int | None, seed: int = 0) -> nx.Graph:
    """Return a connected simple graph on 0, ..., n_nodes - 1 from a name, a graph or an adjacency.

    Parameters
    ----------
    topology : str, networkx.Graph, array, sparse array, dict or list of edges
        One of `names()`, a graph, a symmetric adjacency matrix, neighbours of each node, or edges. Nodes 0, ..., K-1
        keep their numbers; others are relabelled in the order of the graph. Parallel edges count once, and edge data
        is dropped.
    n_nodes : int or None
        Number of nodes. None takes a graph of any size; a name needs a number.
    seed : int, default 0
        Seed of the names that are drawn at random.

    Returns
    -------
    networkx.Graph
        The graph.

    Raises
    ------
    InvalidInput
        The name is unknown, or n_nodes is no positive integer.
    InvalidNetwork
        The graph is directed, disconnected, of another size, or has a self-loop.

    Examples
    --------
    >>> from glmesh import topology
    >>> sorted(topology.build("2-cycle", 6)[0])
    [1, 2, 4, 5]
    >>> sorted(topology.build([("a", "b"), ("b", "c")], None).edges)
    [(0, 1), (1, 2)]
    """
    if isinstance(topology, str):
        if n_nodes is None:
            raise InvalidInput(f"topology {topology!r} needs a number of nodes")
        return _by_name(topology, positive_int(n_nodes), seed)
    linked = sp.triu(adjacency(topology, n_nodes))
    return simple(linked.shape[0], linked.row, linked.col)


def adjacency(topology: object, n_nodes: int | None = None) -> sp.csr_array:
    """Return the adjacency matrix of a graph.

    Parameters
    ----------
    topology : networkx.Graph, array, sparse array, dict or list of edges
        Whatever `build` accepts, but a name.
    n_nodes : int, optional
        Number of nodes that the graph must have; None takes any.

    Returns
    -------
    scipy.sparse.csr_array of shape (K, K)
        1 where k ~ l, else 0, with the numbers that `build` gives the nodes.

    Raises
    ------
    InvalidNetwork
        The graph is empty, directed, disconnected, of another size, or has a self-loop.

    Examples
    --------
    >>> from glmesh import topology
    >>> topology.adjacency(topology.path(3)).toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    graph = _read(topology)
    n = len(graph)
    if n == 0:
        raise InvalidNetwork("the graph has no nodes")
    if n_nodes is not None and n != positive_int(n_nodes):
        raise InvalidNetwork(f"the graph has {n} nodes, expected {n_nodes}")
    labels = list(range(n)) if set(graph) == set(range(n)) else list(graph)
    index = {node: k for k, node in enumerate(labels)}
    rows = np.repeat([index[node] for node in graph], [len(near) for _, near in graph.adjacency()])
    cols = np.fromiter((index[other] for _, near in graph.adjacency() for other in near), dtype=np.intp)
    looped = rows[rows == cols]
    if len(looped):
        raise InvalidNetwork(f"node {labels[looped[0]]} is linked to itself; remove the self-loop")
    linked = sp.csr_array((np.ones(len(rows)), (rows, cols)), shape=(n, n))
    check_connected(linked, labels)
    return linked


def diameter(graph: nx.Graph | sp.csr_array) -> int:
    """Return the longest of all shortest paths, exact up to 1,024 nodes; beyond, the upper bound 2 max_k dist(0, k).

    Parameters
    ----------
    graph : networkx.Graph or scipy.sparse.csr_array
        Connected graph, or a sparse matrix whose off-diagonal entries are the edges.

    Returns
    -------
    int
        Number of links of that path.

    Examples
    --------
    >>> from glmesh import topology
    >>> topology.diameter(topology.ring(16))
    8
    """
    linked = graph if sp.issparse(graph) else adjacency(graph)
    if linked.shape[0] <= EXACT_DIAMETER:
        return int(csgraph.shortest_path(linked, unweighted=True).max())
    return 2 * int(csgraph.shortest_path(linked, unweighted=True, indices=0).max())


def spanning_tree(graph: nx.Graph | sp.csr_array) -> tuple[NDArray[np.int64], int]:
    """Return a breadth-first spanning tree from node 0.

    Parameters
    ----------
    graph : networkx.Graph or scipy.sparse.csr_array
        Connected graph, or a sparse matrix whose off-diagonal entries are the edges.

    Returns
    -------
    parents : array of int of shape (K,)
        Parent of each node; -1 at the root.
    depth : int
        Number of links from the root to the farthest node.

    Examples
    --------
    >>> from glmesh import topology
    >>> parents, depth = topology.spanning_tree(topology.path(4))
    >>> parents.tolist(), depth
    ([-1, 0, 1, 2], 3)
    """
    linked = graph if sp.issparse(graph) else adjacency(graph)
    order, parents = csgraph.breadth_first_order(linked, 0, directed=False)
    parents = np.where(parents < 0, -1, parents).astype(np.int64)
    depth = np.zeros(len(parents), dtype=np.int64)
    for node in order[1:]:
        depth[node] = depth[parents[node]] + 1
    return parents, int(depth.max())


def links_of(matrix: sp.csr_array) -> set[tuple[int, int]]:
    """Return the links of a symmetric matrix.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array
        Matrix whose off-diagonal entries are the links.

    Returns
    -------
    set of (int, int)
        The pairs a < b.

    Examples
    --------
    >>> from glmesh import mixing, topology
    >>> sorted(topology.links_of(mixing.metropolis(topology.path(3)).matrix))
    [(0, 1), (1, 2)]
    """
    links = matrix.tocoo()
    return {(int(a), int(b)) for a, b in zip(links.row, links.col, strict=True) if a < b}


def check_connected(linked: sp.csr_array, labels: Sequence[object], what: str = "graph") -> None:
    """Raise InvalidNetwork for a graph in several components; the message lists nodes that cannot reach the first one.

    `linked` is an adjacency matrix, `labels` are the names of its nodes in the message, `what` is that of the graph.
    """
    pieces, piece = csgraph.connected_components(linked, directed=False)
    if pieces == 1:
        return
    apart = np.flatnonzero(piece == piece[np.argmax(piece != piece[0])])
    listed = ", ".join(str(labels[k]) for k in apart[:_NAMED])
    more = f" and {len(apart) - _NAMED} more" if len(apart) > _NAMED else ""
    raise InvalidNetwork(
        f"the {what} falls apart into {pieces} components; node{'s' * (len(apart) > 1)} {listed}{more} "
        f"cannot reach node {labels[0]}; add an edge between them"
    )


def _by_name(name: str, n: int, seed: int) -> nx.Graph:
    """Return the graph on n nodes that is called `name`, one of `names()`; `seed` is used by the random ones."""
    if name in _FIXED:
        return _FIXED[name](n)
    if match := re.fullmatch(r"(\d+)-cycle", name):
        return cycle(n, int(match[1]))
    if match := re.fullmatch(r"random-(?:(\d+)-)?regular", name):
        return random_regular(n, int(match[1] or 3), seed)
    check_name(name)
    return erdos_renyi(n, seed=seed)


def check_name(name: str) -> None:
    """Raise InvalidInput unless `name` is one that `build` knows; whether it fits a number of nodes is not checked."""
    if name not in (*_FIXED, "erdos-renyi") and not re.fullmatch(r"\d+-cycle|random-(\d+-)?regular", name):
        raise InvalidInput(f"{unknown('topology', name, names())} (with any integer in k-cycle and random-k-regular)")


def _read(topology: object) -> nx.Graph:
    """Return the networkx graph of any object that networkx can convert; raise InvalidNetwork if that is directed."""
    if getattr(topology, "is_directed", bool)():
        raise InvalidNetwork("the graph is directed, but both ends of an edge talk; use graph.to_undirected()")
    if isinstance(topology, nx.Graph):
        return topology
    try:
        if isinstance(topology, np.ndarray) or sp.issparse(topology):
            graph = nx.to_networkx_graph(topology, create_using=nx.DiGraph)
            for a, b in graph.edges:
                if not graph.has_edge(b, a):
                    raise InvalidNetwork(f"the adjacency matrix has an edge from {a} to {b} but none back")
            return graph.to_undirected()
        return nx.to_networkx_graph(topology, create_using=nx.Graph)
    except (nx.NetworkXError, TypeError) as error:
        raise InvalidNetwork(
            f"cannot read a graph from {type(topology).__name__}; give a networkx graph, an adjacency "
            f"matrix, a list of edges or one of {', '.join(names())}"
        ) from error
