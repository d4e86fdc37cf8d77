"""Who talks to whom: connected undirected graphs on the nodes 0, 1, ..., K-1.

Every builder returns a simple graph (no self-loop, no double edge) and works from n = 1 upwards.
`build` turns a name, a networkx graph or an adjacency into such a graph, or says why it cannot.
"""

import math
import random
import re
from collections.abc import Callable, Iterable, Sequence

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csgraph

from glmesh.errors import InvalidInput, InvalidNetwork
from glmesh.validation import unknown, whole_number

DRAWS = 100  # random graphs tried for a connected one; 2 ln n / n needs a second draw once in n times
EXACT_DIAMETER = 1024  # all pairs of more nodes would take seconds
NAMED = 10  # nodes that a message lists before it says "and 37 more"


def ring(n: int) -> nx.Graph:
    """k ~ k + 1 mod n."""
    return _circulant(n, [1])


def cycle(n: int, reach: int) -> nx.Graph:
    """k ~ k + r mod n for r = 1, ..., reach: the ring with the `reach` nearest on each side."""
    n, reach = positive_int(n), positive_int(reach, "reach")
    return _circulant(n, range(1, min(reach, n // 2) + 1))


def exponential(n: int) -> nx.Graph:
    """k ~ k + 2^j mod n for every 2^j < n: about 2 log2(n) neighbours, diameter about log2(n) / 2."""
    n = positive_int(n)
    return _circulant(n, [1 << j for j in range((n - 1).bit_length())])


def path(n: int) -> nx.Graph:
    """k ~ k + 1 for k < n - 1."""
    k = np.arange(positive_int(n))
    return _simple(n, k[:-1], k[1:])


def grid(n: int) -> nx.Graph:
    """(r, c) ~ (r + 1, c) and (r, c + 1), on the most square rows x cols = n; a path if n is prime."""
    k = _most_square(n)
    return _simple(n, np.r_[k[:-1].ravel(), k[:, :-1].ravel()], np.r_[k[1:].ravel(), k[:, 1:].ravel()])


def torus(n: int) -> nx.Graph:
    """(r, c) ~ (r + 1 mod rows, c) and (r, c + 1 mod cols), shaped like `grid`; a ring if n is prime."""
    k = _most_square(n)
    ahead = np.r_[np.roll(k, -1, axis=0).ravel(), np.roll(k, -1, axis=1).ravel()]
    return _simple(n, np.tile(k.ravel(), 2), ahead)


def complete(n: int) -> nx.Graph:
    """k ~ l for all k != l."""
    return _simple(n, *np.triu_indices(positive_int(n), 1))


def star(n: int) -> nx.Graph:
    """0 ~ k for all k > 0."""
    leaves = np.arange(1, positive_int(n))
    return _simple(n, np.zeros_like(leaves), leaves)


def hypercube(n: int) -> nx.Graph:
    """k ~ k xor 2^j for every 2^j < n, with n a power of two."""
    n = positive_int(n)
    below = 1 << (n.bit_length() - 1)
    if n != below:
        raise InvalidNetwork(
            f"a hypercube needs a power of two as its number of nodes, got {n}; the nearest are {below} and {2 * below}"
        )
    k = np.arange(n)[:, None]
    bits = 1 << np.arange(n.bit_length() - 1)
    return _simple(n, k + 0 * bits, k ^ bits)


def random_regular(n: int, degree: int = 3, seed: int = 0) -> nx.Graph:
    """A random connected graph with `degree` neighbours everywhere; complete if degree >= n - 1."""
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
        return _simple(n, order, np.roll(order, 1))
    # a dense draw by pairing rarely ends (minutes at n = 50, degree = 48); its sparse complement does
    dense = 2 * degree > n
    drawn = n - 1 - degree if dense else degree

    def draw(source: random.Random) -> nx.Graph:
        graph = nx.random_regular_graph(drawn, n, seed=source)
        return nx.complement(graph) if dense else graph

    return _first_connected(n, draw, seed, advice="raise the degree")


def erdos_renyi(n: int, probability: float | None = None, seed: int = 0) -> nx.Graph:
    """k ~ l with the given probability, independently, drawn until connected; 2 ln(n) / n if None."""
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
    """Names that `build` knows; another integer may replace the one in a name."""
    return (*_FIXED, "2-cycle", "3-cycle", "random-regular", "random-3-regular", "erdos-renyi")


def build(topology: object, n_nodes: int | None, seed: int = 0) -> nx.Graph:
    """A connected simple graph on 0, ..., n_nodes - 1 from a name, a graph or an adjacency.

    A graph (networkx, a symmetric adjacency matrix, a dict of neighbours or a list of edges) whose
    nodes are 0, ..., K-1 keeps them; any other is relabelled in its own node order. Parallel edges
    count once and edge data is dropped. `n_nodes=None` takes any size; a name needs a number.
    """
    if isinstance(topology, str):
        if n_nodes is None:
            raise InvalidInput(f"topology {topology!r} needs a number of nodes")
        return _by_name(topology, positive_int(n_nodes), seed)
    linked = sp.triu(adjacency(topology, n_nodes))
    return _simple(linked.shape[0], linked.row, linked.col)


def adjacency(topology: object, n_nodes: int | None = None) -> sp.csr_array:
    """1 where k ~ l, else 0, of a graph that `build` accepts, with its numbers."""
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
    """The longest of all shortest paths, exact up to 1,024 nodes; beyond, the upper bound 2 max_k dist(0, k).

    `graph` is connected: a networkx graph, or a sparse matrix whose off-diagonal entries are the edges.
    """
    linked = graph if sp.issparse(graph) else adjacency(graph)
    if linked.shape[0] <= EXACT_DIAMETER:
        return int(csgraph.shortest_path(linked, unweighted=True).max())
    return 2 * int(csgraph.shortest_path(linked, unweighted=True, indices=0).max())


def spanning_tree(graph: nx.Graph | sp.csr_array) -> tuple[NDArray[np.int64], int]:
    """(every node's parent in a breadth-first tree from node 0, -1 at the root; the depth of that tree)."""
    linked = graph if sp.issparse(graph) else adjacency(graph)
    order, parents = csgraph.breadth_first_order(linked, 0, directed=False)
    parents = np.where(parents < 0, -1, parents).astype(np.int64)
    depth = np.zeros(len(parents), dtype=np.int64)
    for node in order[1:]:
        depth[node] = depth[parents[node]] + 1
    return parents, int(depth.max())


def links_of(matrix: sp.csr_array) -> set[tuple[int, int]]:
    """The pairs a < b that a symmetric matrix links."""
    links = matrix.tocoo()
    return {(int(a), int(b)) for a, b in zip(links.row, links.col, strict=True) if a < b}


def check_connected(linked: sp.csr_array, labels: Sequence[object], what: str = "graph") -> None:
    """Refuse a graph in several pieces, and name the nodes of one that is cut off from the first node."""
    pieces, piece = csgraph.connected_components(linked, directed=False)
    if pieces == 1:
        return
    apart = np.flatnonzero(piece == piece[np.argmax(piece != piece[0])])
    listed = ", ".join(str(labels[k]) for k in apart[:NAMED])
    more = f" and {len(apart) - NAMED} more" if len(apart) > NAMED else ""
    raise InvalidNetwork(
        f"the {what} falls apart into {pieces} components; node{'s' * (len(apart) > 1)} {listed}{more} "
        f"cannot reach node {labels[0]}; add an edge between them"
    )


def positive_int(n: object, name: str = "n_nodes") -> int:
    """Return `n` if it is an int >= 1."""
    return whole_number(n, name, 1, wanted="a positive integer")


def _by_name(name: str, n: int, seed: int) -> nx.Graph:
    if name in _FIXED:
        return _FIXED[name](n)
    if match := re.fullmatch(r"(\d+)-cycle", name):
        return cycle(n, int(match[1]))
    if match := re.fullmatch(r"random-(?:(\d+)-)?regular", name):
        return random_regular(n, int(match[1] or 3), seed)
    if name == "erdos-renyi":
        return erdos_renyi(n, seed=seed)
    raise InvalidInput(f"{unknown('topology', name, names())} (with any integer in k-cycle and random-k-regular)")


def _read(topology: object) -> nx.Graph:
    """Any networkx-readable object as a graph; a direction is refused, not forgotten."""
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


def _empty(n: int) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    return graph


def _simple(n: int, tails: NDArray[np.intp], heads: NDArray[np.intp]) -> nx.Graph:
    """The graph with edges tails[i] ~ heads[i], each once, self-loops left out."""
    apart = tails != heads
    graph = _empty(n)
    graph.add_edges_from(zip(tails[apart].tolist(), heads[apart].tolist(), strict=True))
    return graph


def _circulant(n: int, offsets: Iterable[int]) -> nx.Graph:
    k = np.arange(positive_int(n))[:, None]
    steps = np.fromiter(offsets, dtype=np.intp)
    return _simple(n, k + 0 * steps, (k + steps) % n)


def _most_square(n: int) -> NDArray[np.intp]:
    """0, ..., n - 1 as rows x cols, with rows the largest divisor of n up to its square root."""
    n = positive_int(n)
    rows = next(r for r in range(math.isqrt(n), 0, -1) if n % r == 0)
    return np.arange(n).reshape(rows, -1)


def _first_connected(n: int, draw: Callable[[random.Random], nx.Graph], seed: int, advice: str) -> nx.Graph:
    """The first connected graph among DRAWS, each from a stream of its own."""
    for attempt in range(DRAWS):
        drawn = draw(random.Random(f"{seed}/{attempt}"))
        if nx.is_connected(drawn):
            graph = _empty(n)  # networkx adds nodes in the order of their edges
            graph.add_edges_from(drawn.edges)
            return graph
    raise InvalidNetwork(f"none of {DRAWS} random graphs on {n} nodes was connected; {advice}")
