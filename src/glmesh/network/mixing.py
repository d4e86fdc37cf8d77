"""The mixing matrix W: symmetric, doubly stochastic, and zero where two nodes are not neighbours.

One gossip step replaces v_k by Σ_l W_kl v_l. With the eigenvalues 1 = λ_1 > λ_2 >= ... >= λ_K > -1
and β = max(λ_2, -λ_K), it keeps the mean and shrinks the distance from it by β or better:
‖Wv - v̄‖ <= β ‖v - v̄‖. A node sees only v - Wv, and ‖v - v̄‖ <= ‖v - Wv‖ / (1 - λ_2); a stopping
certificate rests on that, so `consensus_gap` is proven to be at most 1 - λ_2.

Where the graph changes from exchange to exchange (`sequence`), no single W need connect everybody;
`window_beta` is the β of several exchanges in a row.

With L the Laplacian of weights on the edges, W = I - L. Plain gossip is as fast as β; with momentum it is as fast as
λ_2(L)/λ_max(L), whatever the scale of L. `optimal` makes that ratio as large as the graph allows.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from glmesh.errors import InvalidNetwork
from glmesh.network.topology import adjacency, check_connected, diameter, positive_int
from glmesh.network.weights import Links

DENSE_LIMIT = 512  # nodes; up to here all eigenvalues take less than 0.1 s
ROUNDING = 1e-12  # error of a dense eigenvalue: a few K eps, with ‖W‖ = 1 and K <= DENSE_LIMIT
SLACK = 1e-3  # share of the gap given away, so that its proof does not sit on an eigenvalue
OPTIMAL_NODES = 300  # `optimal` takes some 50 steps that cost (links)³ and (nodes)³: seconds up to here
OPTIMAL_LINKS = 1024  # half of all pairs of 64 nodes
INDEX = np.int32  # one index type, whatever scipy would choose, so that kernels compile once
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Mixing:
    """W as a `csr_array` of float64 and int32: sorted rows, the diagonal always stored, no other zeros.

    Made by `metropolis`, `best_constant`, `optimal`, `uniform` or `from_matrix`, which vouch for it. Only one of a
    `sequence` may be disconnected: it has λ_2 = β = 1 and a consensus gap of 0.
    """

    matrix: sp.csr_array

    @property
    def n_nodes(self) -> int:
        """K, the number of nodes."""
        return int(self.matrix.shape[0])

    @property
    def degrees(self) -> NDArray[np.intp]:
        """Neighbours of each node, itself not counted."""
        counts: NDArray[np.intp] = np.diff(self.matrix.indptr).astype(np.intp)
        return counts - 1

    @property
    def edges(self) -> int:
        """Messages in a round: W_kl > 0 with k != l, so each link counts twice."""
        return int(self.matrix.nnz) - self.n_nodes

    @cached_property
    def lambda2(self) -> float:
        """λ_2, the second largest eigenvalue; 0 for one node."""
        return _second_eigenvalue(self.matrix)

    @cached_property
    def beta(self) -> float:
        """β = max(λ_2, -λ_K), the second largest absolute eigenvalue; 0 for one node."""
        return _beta(self.matrix, self.lambda2)

    @property
    def spectral_gap(self) -> float:
        """Spectral gap 1 - β of W."""
        return 1.0 - self.beta

    @cached_property
    def consensus_gap(self) -> float:
        """A proven lower bound of 1 - λ_2, about one part in a thousand below it."""
        return _consensus_gap(self.matrix, self.lambda2)

    @cached_property
    def top(self) -> float:
        """An upper bound of 1 - λ_K, the largest eigenvalue of I - W: exact up to rounding, or up to a thousandth."""
        return _top(self.matrix)


def metropolis(graph: nx.Graph) -> Mixing:
    """W_kl = 1 / (1 + max(d_k, d_l)) on the edges, the rest on the diagonal: local, and always valid."""
    return _metropolis(adjacency(graph).tocoo())


def best_constant(graph: nx.Graph) -> Mixing:
    """One weight a on all edges, a = 2/(λ_2 + λ_max) of the graph's Laplacian, or what the diagonal allows if less."""
    links = adjacency(graph).tocoo()
    most = np.bincount(links.row, minlength=links.shape[0]).max()
    plain = _assemble(links.shape[0], links.row, links.col, np.full(links.nnz, 1.0 / (1.0 + most)))
    if _is_averaging(plain.matrix):
        return plain
    scale = _gossip_scale(1.0 - plain.lambda2, plain.top, most / (1.0 + most))
    return _assemble(links.shape[0], links.row, links.col, np.full(links.nnz, scale / (1.0 + most)))


def optimal(graph: nx.Graph) -> Mixing:
    """Weights with the largest λ_2(L)/λ_max(L) of all on this graph, up to a thousandth; no edge is left without.

    A convex problem, which no node could solve on its own: for up to 300 nodes and 1,024 links. Where all edges are
    alike (a ring, a star, a hypercube), `best_constant` is optimal already.
    """
    linked = adjacency(graph)
    n, half = linked.shape[0], sp.triu(linked).tocoo()
    if half.nnz == n * (n - 1) // 2:
        return best_constant(graph)  # all with all: the ratio is 1
    if n > OPTIMAL_NODES or half.nnz > OPTIMAL_LINKS:
        raise InvalidNetwork(
            f"optimal weights are for up to {OPTIMAL_NODES} nodes and {OPTIMAL_LINKS} links, the graph has {n} and "
            f"{half.nnz}; mixing.best_constant(graph) or mixing.metropolis(graph) would do"
        )
    links = Links(n, half.row, half.col)
    local = metropolis(graph).matrix.toarray()[half.row, half.col]
    tried = [np.ones(half.nnz), local, links.best(local)]
    ratios = np.array([links.ratio(weights) for weights in tried])
    first = int(np.argmax(ratios >= (1.0 - ROUNDING) * ratios.max()))  # of those that are equally good
    if first == 0:
        return best_constant(graph)
    weights = tried[first]
    weights = weights * _gossip_scale(*links.ends(weights), links.degrees(weights).max())
    return _assemble(n, half.row, half.col, 2.0 * weights)  # twice, as each link is given once


def uniform(n: int) -> Mixing:
    """W = 11ᵀ/K: every node talks to all, and one step averages exactly."""
    n = positive_int(n, "n")
    cols, starts = np.tile(np.arange(n, dtype=INDEX), n), np.arange(0, n * n + 1, n, dtype=INDEX)
    return Mixing(sp.csr_array((np.full(n * n, 1.0 / n), cols, starts), shape=(n, n)))


def from_matrix(matrix: ArrayLike | sp.sparray, graph: nx.Graph | None = None, *, tol: float = 1e-10) -> Mixing:
    """W = (M + Mᵀ)/2 off the diagonal, the rest on it, for an M that is a mixing matrix up to `tol`.

    M, dense or sparse, must be square, finite, non-negative and symmetric, with rows that sum to one,
    a connected graph (within the edges of `graph`, if given), and β < 1. Entries up to `tol` are zeros.
    """
    given = _as_square(matrix)
    _check_entries(given, tol)
    rows, cols = given.row, given.col
    linked = (rows != cols) & (given.data > tol)
    mixing = _assemble(given.shape[0], rows[linked], cols[linked], given.data[linked])
    if graph is not None:
        check_support(mixing, graph)
    check_connected(mixing.matrix, range(mixing.n_nodes), what="graph of the mixing matrix")
    if given.diagonal().max() <= tol and mixing.n_nodes > 1 and _is_bipartite(mixing.matrix):
        raise InvalidNetwork(
            "the mixing matrix swaps the two halves of its graph forever (bipartite, zero diagonal: "
            "eigenvalue -1); mix it with the identity, (I + W)/2, or use mixing.metropolis(graph)"
        )
    return mixing


def sequence(graphs: Sequence[nx.Graph]) -> list[Mixing]:
    """Metropolis weights of each graph of a time-varying sequence, which repeats for ever.

    All are on the same nodes 0, ..., K-1, and weigh by their own degrees. Single graphs may be disconnected,
    even empty, but together they must connect everybody.
    """
    n = len(graphs[0]) if len(graphs) else 0
    if n == 0:
        raise InvalidNetwork("a sequence of graphs needs at least one graph, with at least one node")
    mixings = [_metropolis(_possibly_disconnected(graph, n, t)) for t, graph in enumerate(graphs)]
    _check_connects([mixing.matrix for mixing in mixings])
    return mixings


def among(mixing: Mixing, members: NDArray[np.bool_], gone: Collection[tuple[int, int]] = ()) -> Mixing:
    """W of the members alone, in ascending order, without some links: what is missing goes on the diagonals."""
    links = mixing.matrix.tocoo()
    place = np.cumsum(members) - 1
    inside = members[links.row] & members[links.col] & (links.row != links.col)
    if gone:
        inside &= [(min(a, b), max(a, b)) not in gone for a, b in zip(links.row, links.col, strict=True)]
    rows, cols = place[links.row[inside]], place[links.col[inside]]
    return _assemble(int(members.sum()), rows, cols, links.data[inside])


def window_beta(mixings: Sequence[Mixing], window: int | None = None) -> float:
    """β over a window: the largest σ_max(W(t+B-1) ... W(t) - 11ᵀ/K) over all starts t of the repeated sequence.

    B = `window`, by default the length of the sequence. Any B exchanges in a row keep the mean and shrink the
    distance from it by β or better. A window in which somebody is not reached (β = 1) is refused.
    """
    matrices = [mixing.matrix for mixing in mixings]
    if len({matrix.shape for matrix in matrices}) != 1:
        sizes = ", ".join(str(mixing.n_nodes) for mixing in mixings) or "none"
        raise InvalidNetwork(f"a sequence needs mixing matrices on the same nodes; got sizes: {sizes}")
    period = len(matrices)
    window = period if window is None else positive_int(window, "window")
    _check_connects(matrices, window)
    return max(_product_beta(_window(matrices, t, window)) for t in range(period))


def _metropolis(links: sp.coo_array) -> Mixing:
    degree = np.bincount(links.row, minlength=links.shape[0])
    weights = 1.0 / (1.0 + np.maximum(degree[links.row], degree[links.col]))
    return _assemble(len(degree), links.row, links.col, weights)


def _gossip_scale(lowest: float, highest: float, degree: float) -> float:
    """s for which I - sL has the least β with no negative diagonal entry: λ_2 and λ_max of L, and its largest entry."""
    return min(2.0 / (lowest + highest), 1.0 / degree)


def _possibly_disconnected(graph: nx.Graph, n: int, t: int) -> sp.coo_array:
    """1 where k ~ l, else 0, of a simple graph on 0, ..., n - 1, whether connected or not; `t` is for messages."""
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
    """W(start), ..., W(start + window - 1) of the repeated sequence."""
    return [matrices[(start + s) % len(matrices)] for s in range(window)]


def _out_of_reach(matrices: Sequence[sp.csr_array]) -> int | None:
    """The first node that all graphs together do not connect with node 0."""
    links = [matrix.tocoo() for matrix in matrices]
    rows, cols = np.concatenate([link.row for link in links]), np.concatenate([link.col for link in links])
    _, piece = csgraph.connected_components(sp.coo_array((np.ones(len(rows)), (rows, cols)), shape=links[0].shape))
    return int(np.argmax(piece != piece[0])) or None


def _check_connects(matrices: Sequence[sp.csr_array], window: int | None = None) -> None:
    """Refuse a sequence that never connects everybody, or not within some `window` of the repeated one."""
    period = len(matrices)
    never = _out_of_reach(matrices)
    if never is not None:
        raise InvalidNetwork(
            f"no graph of the sequence ever connects node {never} with node 0, not even over several exchanges; "
            "add an edge between them to one of the graphs"
        )

    def first_cut(length: int) -> tuple[int, int] | None:
        """(start, a node that is not reached) of the first window of that length that falls apart."""
        reached = ((t, _out_of_reach(_window(matrices, t, length))) for t in range(period))
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


def _assemble(n: int, rows: NDArray[np.intp], cols: NDArray[np.intp], weights: NDArray[np.float64]) -> Mixing:
    """W with the given entries off the diagonal, made exactly symmetric, and 1 minus the rest on it."""
    half = sp.csr_array((weights / 2, (rows, cols)), shape=(n, n))
    links = (half + half.T).tocoo()
    own = np.maximum(0.0, 1.0 - np.bincount(links.row, links.data, minlength=n))
    k = np.arange(n)
    places = np.r_[links.row, k].astype(INDEX), np.r_[links.col, k].astype(INDEX)
    mixing = sp.csr_array((np.r_[links.data, own], places), shape=(n, n))
    mixing.sort_indices()
    return Mixing(mixing)


def _as_square(matrix: ArrayLike | sp.sparray) -> sp.coo_array:
    """The matrix as float64 triplets without duplicates, if it is square and not empty."""
    array: Any = matrix if sp.issparse(matrix) else np.asarray(matrix)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise InvalidNetwork(f"a mixing matrix is square, one row per node; got shape {array.shape}")
    square = sp.csr_array(array, dtype=np.float64)
    square.sum_duplicates()
    return square.tocoo()


def _check_entries(given: sp.coo_array, tol: float) -> None:
    """Finite, non-negative, symmetric, and with rows that sum to one."""
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


def check_support(mixing: Mixing, graph: nx.Graph) -> None:
    """W_kl > 0 only for neighbours k and l."""
    allowed = adjacency(graph, mixing.n_nodes)
    stray = (mixing.matrix - mixing.matrix * allowed).tocoo()
    for a, b, weight in zip(stray.row, stray.col, stray.data, strict=True):
        if a != b and weight > 0.0:
            raise InvalidNetwork(
                f"mixing entry ({a}, {b}) is {weight:.12g}, but the graph has no edge between {a} and {b}"
            )


def _is_bipartite(matrix: sp.csr_array) -> bool:
    """Whether every edge of a connected graph joins an even and an odd distance from node 0."""
    parity = csgraph.shortest_path(matrix, unweighted=True, indices=0) % 2
    links = matrix.tocoo()
    return bool(np.all((parity[links.row] != parity[links.col]) | (links.row == links.col)))


def _second_eigenvalue(matrix: sp.csr_array, dense_limit: int = DENSE_LIMIT) -> float:
    """λ_2: from all eigenvalues of a small matrix, by Lanczos from a fixed start on a large one."""
    n = matrix.shape[0]
    if _is_averaging(matrix):
        return 0.0
    if _falls_apart(matrix):
        return 1.0
    if n <= dense_limit:
        return float(np.linalg.eigvalsh(matrix.toarray())[-2])
    start = _start(n)
    try:
        return _lanczos(lambda x: matrix @ x, start)
    except splinalg.ArpackNoConvergence:
        return 1.0 - _smallest_laplacian(matrix, start)


def _product_beta(factors: Sequence[sp.csr_array], dense_limit: int = DENSE_LIMIT) -> float:
    """σ_max(P - 11ᵀ/K) of the product P of all factors, the first one applied first."""
    n = factors[0].shape[0]
    if n <= dense_limit:
        product = np.eye(n)
        for matrix in factors:
            product = matrix @ product
        return float(np.linalg.norm(product - 1.0 / n, 2))
    # PᵀP is a mixing matrix too, and its second eigenvalue is β²
    there_and_back = [*factors, *reversed(factors)]
    start = _start(n)
    if np.linalg.norm(_apply(there_and_back, start)) <= ROUNDING * np.linalg.norm(start):
        return 0.0  # what takes a random vector to its mean takes all
    try:
        square = _lanczos(lambda x: _apply(there_and_back, x), start)
    except splinalg.ArpackNoConvergence:
        product = factors[0]
        for matrix in factors[1:]:
            product = matrix @ product
        square = 1.0 - _smallest_laplacian((product.T @ product).tocsr(), start)
    return float(np.sqrt(max(0.0, square)))


def _apply(factors: Sequence[sp.csr_array], x: NDArray[np.float64]) -> NDArray[np.float64]:
    for matrix in factors:
        x = matrix @ x
    return x


def _start(n: int) -> NDArray[np.float64]:
    """A fixed random vector of mean zero."""
    start = np.random.default_rng(0).standard_normal(n)
    start -= start.mean()
    return start


def _lanczos(apply: Callable[[NDArray[np.float64]], NDArray[np.float64]], start: NDArray[np.float64]) -> float:
    """The second largest eigenvalue of a mixing matrix that is only applied."""
    n = len(start)
    # W - 2·11ᵀ/K has the eigenvalues of W, with -1, below all others, in the place of 1
    deflated = splinalg.LinearOperator((n, n), lambda x: apply(x) - 2.0 * x.mean(), dtype=np.float64)
    found = splinalg.eigsh(deflated, 1, which="LA", v0=start, ncv=min(32, n), maxiter=100, tol=1e-10)
    return float(found[0][0])


def _falls_apart(matrix: sp.csr_array) -> bool:
    """Whether the graph of W is disconnected."""
    return bool(csgraph.connected_components(matrix, directed=False, return_labels=False) > 1)


def _smallest_laplacian(matrix: sp.csr_array, start: NDArray[np.float64]) -> float:
    """1 - λ_2 as 1 / λ_max of the inverse of I - W on the vectors of mean zero.

    For graphs that mix slowly: those have small cuts, and so a cheap factorisation.
    """
    n = matrix.shape[0]
    # with x_0 = 0 the rest of (I - W) x = b is positive definite, and b has mean zero, so row 0 follows
    solve = _factor(matrix[1:, 1:], 1.0).solve

    def inverse(b: NDArray[np.float64]) -> NDArray[np.float64]:
        x: NDArray[np.float64] = np.concatenate(([0.0], solve(np.ravel(b)[1:] - b.mean())))
        x -= x.mean()
        return x

    operator = splinalg.LinearOperator((n, n), inverse, dtype=np.float64)
    return 1.0 / float(splinalg.eigsh(operator, 1, which="LA", v0=start, tol=1e-10)[0][0])


def _beta(matrix: sp.csr_array, lambda2: float, dense_limit: int = DENSE_LIMIT) -> float:
    """Return max(λ_2, -λ_K) of W."""
    if _is_averaging(matrix):
        return 0.0
    if 1.0 - 2.0 * matrix.diagonal().min() <= lambda2:  # Gershgorin: λ_K >= 2 min W_kk - 1
        return lambda2
    if matrix.shape[0] <= dense_limit:
        return max(lambda2, -float(np.linalg.eigvalsh(matrix.toarray())[0]))
    # W² is a mixing matrix too, and its second eigenvalue is β²
    return float(np.sqrt(_second_eigenvalue(matrix @ matrix, dense_limit)))


def _top(matrix: sp.csr_array, dense_limit: int = DENSE_LIMIT) -> float:
    """At least 1 - λ_K, and at most Gershgorin's 2 max(1 - W_kk)."""
    n, bound = matrix.shape[0], 2.0 * (1.0 - float(matrix.diagonal().min()))
    if bound <= 0.0:  # I - W = 0: one node, or an exchange without messages
        return 0.0
    if _is_averaging(matrix):
        return min(bound, 1.0 + ROUNDING)
    if n <= dense_limit:
        return min(bound, 1.0 - float(np.linalg.eigvalsh(matrix.toarray())[0]) + ROUNDING)
    rest = splinalg.LinearOperator((n, n), lambda x: x - matrix @ x, dtype=np.float64)
    try:
        # what Lanczos finds is from below, by about its tolerance
        found = splinalg.eigsh(rest, 1, which="LA", v0=_start(n), ncv=min(32, n), maxiter=100, tol=0.1 * SLACK)
    except splinalg.ArpackNoConvergence:
        return bound
    return min(bound, (1.0 + SLACK) * float(found[0][0]))


def _consensus_gap(matrix: sp.csr_array, lambda2: float, dense_limit: int = DENSE_LIMIT) -> float:
    """A lower bound of 1 - λ_2: `lambda2` corrected by its proven error, or 4 min W_kl / (K diameter)."""
    n = matrix.shape[0]
    if n == 1:
        return 1.0
    if _falls_apart(matrix):
        return 0.0
    links = matrix.tocoo()
    least = 4.0 * float(links.data[links.row != links.col].min()) / n
    if n <= dense_limit or _is_averaging(matrix):
        gap = 1.0 - lambda2 - ROUNDING
    else:
        gap = _proven_gap(matrix, (1.0 - SLACK) * (1.0 - lambda2))
    # Mohar's bound for the Laplacian of an unweighted graph, times the smallest weight
    return gap if gap >= least else max(gap, (1.0 - ROUNDING) * least / diameter(matrix))


def _proven_gap(matrix: sp.csr_array, gap: float) -> float:
    """`gap` less rounding, if λ_2 <= 1 - gap is proven; else 0.

    A Lanczos residual shows that *an* eigenvalue is near, not that none is above. Sylvester's law does:
    (1 - gap) I - W = L D Lᵀ has as many negative pivots as W has eigenvalues above 1 - gap, and one of
    them is λ_1 = 1. The factors are exact for a matrix that is off by a few r eps |L||U|, with r the
    longest row of L, and no eigenvalue moves by more than that.
    """
    try:
        factors = _factor(matrix, 1.0 - gap)
    except RuntimeError:  # exactly singular: 1 - gap is an eigenvalue
        return 0.0
    lower, upper = factors.L, factors.U
    if not np.array_equal(factors.perm_r, factors.perm_c) or np.sum(upper.diagonal() < 0.0) != 1:
        return 0.0
    size = (abs(lower) @ (abs(upper) @ np.ones(matrix.shape[0]))).max()
    return float(gap - 4.0 * EPS * np.diff(upper.indptr).max() * size)


def _factor(matrix: sp.csr_array, shift: float) -> splinalg.SuperLU:
    """shift I - W = L U without pivoting, so that the signs of U's diagonal are those of D in L D Lᵀ."""
    shifted = (sp.diags_array(np.full(matrix.shape[0], shift)) - matrix).tocsc()
    return splinalg.splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def _is_averaging(matrix: sp.csr_array) -> bool:
    """Whether W = 11ᵀ/K up to rounding; its other eigenvalues are 0, as ‖W - 11ᵀ/K‖ bounds them."""
    n = matrix.shape[0]
    return bool(matrix.nnz == n * n and abs(matrix.data - 1.0 / n).reshape(n, n).sum(axis=1).max() <= ROUNDING)
