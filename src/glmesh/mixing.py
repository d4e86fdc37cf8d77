"""The mixing matrix W: symmetric, doubly stochastic, and zero where two nodes are not neighbours.

One gossip step replaces v_k by Σ_l W_kl v_l. With the eigenvalues 1 = λ_1 > λ_2 >= ... >= λ_K > -1
and β = max(λ_2, -λ_K), it keeps the mean and shrinks the distance from it by β or better:
‖Wv - v̄‖ <= β ‖v - v̄‖. A node sees only v - Wv, and ‖v - v̄‖ <= ‖v - Wv‖ / (1 - λ_2); a stopping
certificate rests on that, so `consensus_gap` is proven to be at most 1 - λ_2.
"""

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
from glmesh.topology import adjacency, check_connected, diameter, positive_int

DENSE_LIMIT = 512  # nodes; up to here all eigenvalues take less than 0.1 s
ROUNDING = 1e-12  # error of a dense eigenvalue: a few K eps, with ‖W‖ = 1 and K <= DENSE_LIMIT
SLACK = 1e-3  # share of the gap given away, so that its proof does not sit on an eigenvalue
INDEX = np.int32  # one index type, whatever scipy would choose, so that kernels compile once
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Mixing:
    """W as a `csr_array` of float64 and int32: sorted rows, the diagonal always stored, no other zeros.

    Made by `metropolis`, `uniform` or `from_matrix`, which vouch for it.
    """

    matrix: sp.csr_array

    @property
    def n_nodes(self) -> int:
        """K."""
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
        """1 - β."""
        return 1.0 - self.beta

    @cached_property
    def consensus_gap(self) -> float:
        """A proven lower bound of 1 - λ_2, about one part in a thousand below it."""
        return _consensus_gap(self.matrix, self.lambda2)


def metropolis(graph: nx.Graph) -> Mixing:
    """W_kl = 1 / (1 + max(d_k, d_l)) on the edges, the rest on the diagonal: local, and always valid."""
    links = adjacency(graph).tocoo()
    degree = np.bincount(links.row, minlength=links.shape[0])
    weights = 1.0 / (1.0 + np.maximum(degree[links.row], degree[links.col]))
    return _assemble(len(degree), links.row, links.col, weights)


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
    if n <= dense_limit:
        return float(np.linalg.eigvalsh(matrix.toarray())[-2])
    start = np.random.default_rng(0).standard_normal(n)
    start -= start.mean()
    try:
        # W - 2·11ᵀ/K has the eigenvalues of W, with -1, below all others, in the place of 1
        deflated = splinalg.LinearOperator((n, n), lambda x: matrix @ x - 2.0 * x.mean(), dtype=np.float64)
        found = splinalg.eigsh(deflated, 1, which="LA", v0=start, ncv=min(32, n), maxiter=100, tol=1e-10)
        return float(found[0][0])
    except splinalg.ArpackNoConvergence:
        return 1.0 - _smallest_laplacian(matrix, start)


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
    """max(λ_2, -λ_K)."""
    if _is_averaging(matrix):
        return 0.0
    if 1.0 - 2.0 * matrix.diagonal().min() <= lambda2:  # Gershgorin: λ_K >= 2 min W_kk - 1
        return lambda2
    if matrix.shape[0] <= dense_limit:
        return max(lambda2, -float(np.linalg.eigvalsh(matrix.toarray())[0]))
    # W² is a mixing matrix too, and its second eigenvalue is β²
    return float(np.sqrt(_second_eigenvalue(matrix @ matrix, dense_limit)))


def _consensus_gap(matrix: sp.csr_array, lambda2: float, dense_limit: int = DENSE_LIMIT) -> float:
    """A lower bound of 1 - λ_2: `lambda2` corrected by its proven error, or 4 min W_kl / (K diameter)."""
    n = matrix.shape[0]
    if n == 1:
        return 1.0
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
