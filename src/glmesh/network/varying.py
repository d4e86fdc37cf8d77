"""Mixing on graphs that change from exchange to exchange; public as `glmesh.mixing.sequence` and `window_beta`."""

from bisect import bisect_left
from collections.abc import Sequence

import networkx as nx
import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from glmesh.errors import InvalidNetwork
from glmesh.network import spectrum
from glmesh.network.families import positive_int
from glmesh.network.matrix import Mixing, metropolis_weights


def sequence(graphs: Sequence[nx.Graph]) -> list[Mixing]:
    """Return Metropolis weights of each graph of a time-varying sequence, which repeats for ever.

    Parameters
    ----------
    graphs : sequence of networkx.Graph
        Graphs on the same nodes 0, ..., K-1. Single ones may be disconnected, even empty, but together they must
        connect all nodes.

    Returns
    -------
    list of Mixing
        W of each exchange in turn, by the degrees of its own graph.

    Raises
    ------
    InvalidNetwork
        There is no graph, the nodes differ, or some node is never reached.

    Examples
    --------
    >>> import networkx as nx
    >>> from glmesh import mixing
    >>> even, odd = nx.empty_graph(4), nx.empty_graph(4)
    >>> even.add_edges_from([(0, 1), (2, 3)])
    >>> odd.add_edges_from([(1, 2), (3, 0)])
    >>> [W.beta for W in mixing.sequence([even, odd])]
    [1.0, 1.0]
    """
    n = len(graphs[0]) if len(graphs) else 0
    if n == 0:
        raise InvalidNetwork("a sequence of graphs needs at least one graph, with at least one node")
    mixings = [metropolis_weights(_possibly_disconnected(graph, n, t)) for t, graph in enumerate(graphs)]
    _check_connects([mixing.matrix for mixing in mixings])
    return mixings


def window_beta(mixings: Sequence[Mixing], window: int | None = None) -> float:
    """Return the largest σ_max(W(t+B-1) ... W(t) - 11ᵀ/K) over all starts t of the repeated sequence.

    Any B exchanges in a row keep the mean and shrink the distance from it by that β or better.

    Parameters
    ----------
    mixings : sequence of Mixing
        W of each exchange, as `sequence` makes them.
    window : int, optional
        B; by default the length of the sequence.

    Returns
    -------
    float
        β over a window.

    Raises
    ------
    InvalidNetwork
        The matrices differ in size, or some window does not connect all nodes (β = 1).

    Examples
    --------
    >>> import networkx as nx
    >>> from glmesh import mixing
    >>> even, odd = nx.empty_graph(4), nx.empty_graph(4)
    >>> even.add_edges_from([(0, 1), (2, 3)])
    >>> odd.add_edges_from([(1, 2), (3, 0)])
    >>> round(mixing.window_beta(mixing.sequence([even, odd])), 6)
    0.0
    """
    matrices = [mixing.matrix for mixing in mixings]
    if len({matrix.shape for matrix in matrices}) != 1:
        sizes = ", ".join(str(mixing.n_nodes) for mixing in mixings) or "none"
        raise InvalidNetwork(f"a sequence needs mixing matrices on the same nodes; got sizes: {sizes}")
    period = len(matrices)
    window = period if window is None else positive_int(window, "window")
    _check_connects(matrices, window)
    return max(spectrum.product_beta(_window(matrices, t, window)) for t in range(period))


def _possibly_disconnected(graph: nx.Graph, n: int, t: int) -> sp.coo_array:
    """Return the adjacency matrix of a simple graph on 0, ..., n - 1, connected or not; messages call it graph `t`."""
    if graph.is_directed():
        raise InvalidNetwork(f"graph {t} is directed, but both ends of an edge talk; use graph.to_undirected()")
    missing = [k for k in range(n) if k not in graph]
    if missing:
        raise InvalidNetwork(
            f"graph {t} of the sequence lacks node {missing[0]}; all need the same nodes 0 ... {n - 1}, "
            f"linked or not: graph.add_nodes_from(range({n}))"
        )
    if len(graph) != n:
        stray = next(node for node in graph if node not in range(n))
        raise InvalidNetwork(f"graph {t} of the sequence has a node {stray!r}; all need the same nodes 0 ... {n - 1}")
    links = nx.to_scipy_sparse_array(nx.Graph(graph), nodelist=range(n), dtype=np.float64, weight=None, format="coo")
    looped = links.row[links.row == links.col]
    if len(looped):
        raise InvalidNetwork(f"node {looped[0]} of graph {t} is linked to itself; remove the self-loop")
    return links


def _window(matrices: Sequence[sp.csr_array], start: int, window: int) -> list[sp.csr_array]:
    """Return the matrices W(start), ..., W(start + window - 1) of the sequence, which repeats for ever."""
    return [matrices[(start + s) % len(matrices)] for s in range(window)]


def _unreached_node(matrices: Sequence[sp.csr_array]) -> int | None:
    """Return the smallest node that the links of all matrices together do not connect with node 0.

    None if there is none.
    """
    links = [matrix.tocoo() for matrix in matrices]
    rows, cols = np.concatenate([link.row for link in links]), np.concatenate([link.col for link in links])
    _, piece = csgraph.connected_components(sp.coo_array((np.ones(len(rows)), (rows, cols)), shape=links[0].shape))
    return int(np.argmax(piece != piece[0])) or None


def _check_connects(matrices: Sequence[sp.csr_array], window: int | None = None) -> None:
    """Raise InvalidNetwork if the sequence does not connect all nodes, or not within each `window` of exchanges.

    `matrices` are mixing matrices, one per exchange, repeated for ever; None checks all of them together only.
    """
    period = len(matrices)
    never = _unreached_node(matrices)
    if never is not None:
        raise InvalidNetwork(
            f"no graph of the sequence ever connects node {never} with node 0, not even over several exchanges; "
            "add an edge between them to one of the graphs"
        )

    def first_cut(length: int) -> tuple[int, int] | None:
        """Return (start, node) of the first window of `length` exchanges that leaves node and node 0 unconnected.

        None if all windows connect all nodes.
        """
        reached = ((t, _unreached_node(_window(matrices, t, length))) for t in range(period))
        return next(((t, node) for t, node in reached if node is not None), None)

    if window is None or window >= period:
        return
    cut = first_cut(window)
    if cut is not None:
        enough = bisect_left(range(period), True, lo=window + 1, key=lambda length: first_cut(length) is None)
        raise InvalidNetwork(
            f"within {window} exchange{'s' * (window > 1)} the graphs do not connect everybody: nodes 0 and {cut[1]} "
            f"stay apart from exchange {cut[0]} on; use a window of at least {enough}"
        )
