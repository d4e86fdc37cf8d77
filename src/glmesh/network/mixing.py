"""Mixing matrices W: symmetric, doubly stochastic, and zero where two nodes are not neighbours.

One gossip step replaces v_k by Σ_l W_kl v_l. With the eigenvalues 1 = λ_1 > λ_2 >= ... >= λ_K > -1
and β = max(λ_2, -λ_K), it keeps the mean and shrinks the distance from it by β or better:
‖Wv - v̄‖ <= β ‖v - v̄‖. A node sees only v - Wv, and ‖v - v̄‖ <= ‖v - Wv‖ / (1 - λ_2); a stopping
certificate rests on that, so `consensus_gap` is proven to be at most 1 - λ_2.

Where the graph changes from exchange to exchange (`sequence`), no single W need connect all nodes;
`window_beta` is the β of several exchanges in a row.

With L the Laplacian of weights on the edges, W = I - L. Plain gossip is as fast as β; with momentum it is as fast as
λ_2(L)/λ_max(L), whatever the scale of L. `optimal` makes that ratio as large as the graph allows.
"""

from collections.abc import Collection

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csgraph

from glmesh.errors import InvalidNetwork
from glmesh.network import spectrum
from glmesh.network.families import positive_int
from glmesh.network.matrix import INDEX, Mixing, assemble, metropolis_weights
from glmesh.network.optimal_weights import GraphLaplacian
from glmesh.network.topology import adjacency, check_connected
from glmesh.network.varying import sequence, window_beta

__all__ = [
    "Mixing",
    "among",
    "best_constant",
    "check_support",
    "from_matrix",
    "metropolis",
    "optimal",
    "sequence",
    "uniform",
    "window_beta",
]

_OPTIMAL_NODES = 300  # `optimal` takes some 50 steps that cost (links)³ and (nodes)³: seconds up to here
_OPTIMAL_LINKS = 1024  # half of all pairs of 64 nodes


def metropolis(graph: nx.Graph) -> Mixing:
    """Return Metropolis weights: W_kl = 1 / (1 + max(d_k, d_l)) on the edges, d the degrees; rows sum to one.

    Nodes need the degrees of their neighbours only, and every connected graph has them.

    Parameters
    ----------
    graph : networkx.Graph
        Connected graph; also an adjacency matrix or whatever else `topology.build` reads.

    Returns
    -------
    Mixing
        W; node k is the k-th row.

    Raises
    ------
    InvalidNetwork
        The graph is directed, disconnected or has a self-loop.

    Examples
    --------
    >>> from glmesh import mixing, topology
    >>> mixing.metropolis(topology.path(3)).matrix.toarray().round(3).tolist()
    [[0.667, 0.333, 0.0], [0.333, 0.333, 0.333], [0.0, 0.333, 0.667]]
    """
    return metropolis_weights(adjacency(graph).tocoo())


def best_constant(graph: nx.Graph) -> Mixing:
    """Return one weight a on all edges: a = 2/(λ_2 + λ_max) of the Laplacian, or what the diagonal allows if less.

    Parameters
    ----------
    graph : networkx.Graph
        Connected graph; also an adjacency matrix or whatever else `topology.build` reads.

    Returns
    -------
    Mixing
        W with the least β of all constant weights without a negative diagonal entry.

    Raises
    ------
    InvalidNetwork
        The graph is directed, disconnected or has a self-loop.

    Examples
    --------
    >>> from glmesh import mixing, topology
    >>> ring = topology.ring(16)
    >>> round(mixing.metropolis(ring).beta, 4), round(mixing.best_constant(ring).beta, 4)
    (0.9493, 0.9267)
    """
    links = adjacency(graph).tocoo()
    most = np.bincount(links.row, minlength=links.shape[0]).max()
    plain = assemble(links.shape[0], links.row, links.col, np.full(links.nnz, 1.0 / (1.0 + most)))
    if spectrum.is_averaging(plain.matrix):
        return plain
    scale = _gossip_scale(1.0 - plain.lambda2, plain.top, most / (1.0 + most))
    return assemble(links.shape[0], links.row, links.col, np.full(links.nnz, scale / (1.0 + most)))


def optimal(graph: nx.Graph) -> Mixing:
    """Return the weights with the largest λ_2(L)/λ_max(L) of all on this graph, up to a thousandth.

    A convex problem, which no node could solve on its own: for up to 300 nodes and 1,024 links. Where all edges are
    alike (a ring, a star, a hypercube), `best_constant` is optimal already. No edge is left without weight.

    Parameters
    ----------
    graph : networkx.Graph
        Connected graph; also an adjacency matrix or whatever else `topology.build` reads.

    Returns
    -------
    Mixing
        W = I - L, scaled to the least β.

    Raises
    ------
    InvalidNetwork
        The graph is too large, directed, disconnected or has a self-loop.

    Examples
    --------
    >>> from glmesh import mixing, topology
    >>> grid = topology.grid(9)
    >>> [round(make(grid).beta, 3) for make in (mixing.metropolis, mixing.best_constant, mixing.optimal)]
    [0.767, 0.75, 0.693]
    """
    linked = adjacency(graph)
    n, half = linked.shape[0], sp.triu(linked).tocoo()
    if half.nnz == n * (n - 1) // 2:
        return best_constant(graph)  # all with all: the ratio is 1
    if n > _OPTIMAL_NODES or half.nnz > _OPTIMAL_LINKS:
        raise InvalidNetwork(
            f"optimal weights are for up to {_OPTIMAL_NODES} nodes and {_OPTIMAL_LINKS} links, the graph has {n} and "
            f"{half.nnz}; mixing.best_constant(graph) or mixing.metropolis(graph) would do"
        )
    links = GraphLaplacian(n, half.row, half.col)
    local = metropolis(graph).matrix.toarray()[half.row, half.col]
    tried = [np.ones(half.nnz), local, links.best(local)]
    ratios = np.array([links.ratio(weights) for weights in tried])
    first = int(np.argmax(ratios >= (1.0 - spectrum.ROUNDING) * ratios.max()))  # of those that are equally good
    if first == 0:
        return best_constant(graph)
    weights = tried[first]
    weights = weights * _gossip_scale(*links.ends(weights), links.degrees(weights).max())
    return assemble(n, half.row, half.col, 2.0 * weights)  # twice, as each link is given once


def uniform(n: int) -> Mixing:
    """Return W = 11ᵀ/K: every node talks to all others, and one step averages exactly.

    Parameters
    ----------
    n : int
        Number of nodes K.

    Returns
    -------
    Mixing
        W with β = 0.

    Raises
    ------
    InvalidInput
        n is no positive integer.

    Examples
    --------
    >>> from glmesh import mixing
    >>> mixing.uniform(2).matrix.toarray().tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    n = positive_int(n, "n")
    cols, starts = np.tile(np.arange(n, dtype=INDEX), n), np.arange(0, n * n + 1, n, dtype=INDEX)
    return Mixing(sp.csr_array((np.full(n * n, 1.0 / n), cols, starts), shape=(n, n)))


def from_matrix(matrix: ArrayLike | sp.sparray, graph: nx.Graph | None = None, *, tol: float = 1e-10) -> Mixing:
    """Return W = (M + Mᵀ)/2 off the diagonal, with rows that sum to one, for an M that is a mixing matrix up to `tol`.

    Parameters
    ----------
    matrix : array_like or sparse array of shape (K, K)
        M: finite, non-negative and symmetric, with rows that sum to one, a connected graph and β < 1.
    graph : networkx.Graph, optional
        Graph that the links of M must be edges of; None allows all links.
    tol : float, default 1e-10
        Error that is forgiven in each of these; smaller entries are zeros.

    Returns
    -------
    Mixing
        W, exactly symmetric.

    Raises
    ------
    InvalidNetwork
        M is no mixing matrix; the message names an entry, and a remedy.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import mixing
    >>> W = mixing.from_matrix(np.array([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]]))
    >>> W.degrees.tolist()
    [1, 2, 1]
    """
    given = _as_square(matrix)
    _check_entries(given, tol)
    rows, cols = given.row, given.col
    linked = (rows != cols) & (given.data > tol)
    mixing = assemble(given.shape[0], rows[linked], cols[linked], given.data[linked])
    if graph is not None:
        check_support(mixing, graph)
    check_connected(mixing.matrix, range(mixing.n_nodes), what="graph of the mixing matrix")
    if given.diagonal().max() <= tol and mixing.n_nodes > 1 and _is_bipartite(mixing.matrix):
        raise InvalidNetwork(
            "the mixing matrix swaps the two halves of its graph forever (bipartite, zero diagonal: "
            "eigenvalue -1); mix it with the identity, (I + W)/2, or use mixing.metropolis(graph)"
        )
    return mixing


def among(mixing: Mixing, members: NDArray[np.bool_], gone: Collection[tuple[int, int]] = ()) -> Mixing:
    """Return the Mixing of the members alone, in ascending order, without the links (a, b), a < b, in `gone`.

    `members` is a mask of shape (K,) over the K nodes of `mixing`. The weights of links that are missing are added to
    the diagonal entries of their two ends. The graph may be disconnected.
    """
    links = mixing.matrix.tocoo()
    place = np.cumsum(members) - 1
    inside = members[links.row] & members[links.col] & (links.row != links.col)
    if gone:
        inside &= [(min(a, b), max(a, b)) not in gone for a, b in zip(links.row, links.col, strict=True)]
    rows, cols = place[links.row[inside]], place[links.col[inside]]
    return assemble(int(members.sum()), rows, cols, links.data[inside])


def check_support(mixing: Mixing, graph: nx.Graph) -> None:
    """Raise InvalidNetwork if the mixing matrix W has W_kl > 0 for k and l that are no neighbours in the graph."""
    allowed = adjacency(graph, mixing.n_nodes)
    stray = (mixing.matrix - mixing.matrix * allowed).tocoo()
    for a, b, weight in zip(stray.row, stray.col, stray.data, strict=True):
        if a != b and weight > 0.0:
            raise InvalidNetwork(
                f"mixing entry ({a}, {b}) is {weight:.12g}, but the graph has no edge between {a} and {b}"
            )


def _gossip_scale(lowest: float, highest: float, degree: float) -> float:
    """Return the scale s, a float, for which W = I - s L has the least β and no negative diagonal entry.

    L is the weighted Laplacian of a graph and β the second largest absolute eigenvalue of W; `lowest` and `highest` are
    the second smallest and the largest eigenvalue of L, `degree` is the largest diagonal entry of L.
    """
    return min(2.0 / (lowest + highest), 1.0 / degree)


def _as_square(matrix: ArrayLike | sp.sparray) -> sp.coo_array:
    """Return a matrix of shape (K, K) as float64 triplets without duplicates.

    InvalidNetwork if it is empty or not square.
    """
    array = matrix if isinstance(matrix, sp.sparray | sp.spmatrix) else np.asarray(matrix)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise InvalidNetwork(f"a mixing matrix is square, one row per node; got shape {array.shape}")
    square = sp.csr_array(array, dtype=np.float64)
    square.sum_duplicates()
    return square.tocoo()


def _check_entries(given: sp.coo_array, tol: float) -> None:
    """Raise InvalidNetwork unless a matrix is, up to `tol`, non-negative and symmetric, with rows that sum to one.

    Entries must be finite.
    """
    for wrong, problem in (
        (~np.isfinite(given.data), "is not a finite number"),
        (given.data < -tol, "is negative; weights of an average are not"),
    ):
        if wrong.any():
            at = np.argmax(wrong)
            raise InvalidNetwork(f"mixing entry ({given.row[at]}, {given.col[at]}) = {given.data[at]:.12g} {problem}")
    skew = abs(given - given.T).tocoo()
    if skew.nnz and skew.data.max() > tol:
        at = np.argmax(skew.data)
        a, b = sorted((int(skew.row[at]), int(skew.col[at])))
        entries = given.tocsr()
        raise InvalidNetwork(
            f"the mixing matrix is not symmetric: entry ({a}, {b}) is {entries[a, b]:.12g} "
            f"but ({b}, {a}) is {entries[b, a]:.12g}; use mixing.metropolis(graph)"
        )
    sums = given.sum(axis=1)
    off = np.abs(sums - 1.0)
    if off.max() > tol:
        k = int(np.argmax(off))
        raise InvalidNetwork(f"mixing row {k} sums to {sums[k]:.12g}, expected 1; use mixing.metropolis(graph)")


def _is_bipartite(matrix: sp.csr_array) -> bool:
    """Return whether a connected graph, given by the nonzeros of a matrix, is bipartite: no cycle has odd length."""
    parity = csgraph.shortest_path(matrix, unweighted=True, indices=0) % 2
    links = matrix.tocoo()
    return bool(np.all((parity[links.row] != parity[links.col]) | (links.row == links.col)))
