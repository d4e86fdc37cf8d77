"""Eigenvalues of mixing matrices, and bounds of them that are proven.

W has the eigenvalues 1 = λ_1 > λ_2 >= ... >= λ_K > -1. Small matrices (up to `DENSE_LIMIT` nodes) have all of them
computed; large ones have λ_2 and λ_K by Lanczos from a fixed start, so that every node computes the same bits.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from glmesh.network.topology import diameter

DENSE_LIMIT = 512  # [nodes] up to which all eigenvalues are computed, in less than 0.1 s
ROUNDING = 1e-12  # error of a dense eigenvalue: a few K eps, with ‖W‖ = 1 and K <= DENSE_LIMIT
_SLACK = 1e-3  # part of the gap that is given away, so that its proof does not sit on an eigenvalue
X = TypeVar("X", NDArray[np.float64], sp.csr_array)
_EPS = float(np.finfo(np.float64).eps)


def second_eigenvalue(matrix: sp.csr_array, dense_limit: int = DENSE_LIMIT) -> float:
    """Return λ_2, the second largest eigenvalue of the mixing matrix W; 0 for exact averaging, 1 if disconnected.

    For one node 0 too. Up to `dense_limit` nodes all eigenvalues are computed, beyond λ_2 by Lanczos' method.
    """
    n = matrix.shape[0]
    if is_averaging(matrix):
        return 0.0
    if _is_disconnected(matrix):
        return 1.0
    if n <= dense_limit:
        return float(np.linalg.eigvalsh(matrix.toarray())[-2])
    start = _start(n)
    try:
        return _lanczos(lambda x: matrix @ x, start)
    except splinalg.ArpackNoConvergence:
        return 1.0 - _smallest_laplacian(matrix, start)


def absolute_eigenvalue(matrix: sp.csr_array, lambda2: float, dense_limit: int = DENSE_LIMIT) -> float:
    """Return β = max(λ_2, -λ_K), the second largest absolute eigenvalue of the mixing matrix W; 0 for exact averaging.

    `lambda2` is λ_2. Up to `dense_limit` nodes eigenvalues are computed densely, beyond by Lanczos' method.
    """
    if is_averaging(matrix):
        return 0.0
    if 1.0 - 2.0 * matrix.diagonal().min() <= lambda2:  # Gershgorin: λ_K >= 2 min W_kk - 1
        return lambda2
    if matrix.shape[0] <= dense_limit:
        return max(lambda2, -float(np.linalg.eigvalsh(matrix.toarray())[0]))
    # W² is a mixing matrix too, and its second eigenvalue is β²
    return float(np.sqrt(second_eigenvalue(matrix @ matrix, dense_limit)))


def product_beta(factors: Sequence[sp.csr_array], dense_limit: int = DENSE_LIMIT) -> float:
    """Return σ_max(P - 11ᵀ/K) <= 1, a float, of the product P of the K x K mixing matrices `factors`.

    That largest singular value is the factor by which these exchanges in a row shrink the distance from the mean. Up to
    `dense_limit` nodes it is computed densely.
    """
    n = factors[0].shape[0]
    if n <= dense_limit:
        return float(np.linalg.norm(_apply(factors, np.eye(n)) - 1.0 / n, 2))
    # PᵀP is a mixing matrix too, and its second eigenvalue is β²
    there_and_back = [*factors, *reversed(factors)]
    start = _start(n)
    if np.linalg.norm(_apply(there_and_back, start)) <= ROUNDING * np.linalg.norm(start):
        return 0.0  # what takes a random vector to its mean takes all
    try:
        square = _lanczos(lambda x: _apply(there_and_back, x), start)
    except splinalg.ArpackNoConvergence:
        product = _apply(factors[1:], factors[0])
        square = 1.0 - _smallest_laplacian((product.T @ product).tocsr(), start)
    return float(np.sqrt(max(0.0, square)))


def laplacian_bound(matrix: sp.csr_array, dense_limit: int = DENSE_LIMIT) -> float:
    """Return an upper bound of 1 - λ_K, the largest eigenvalue of I - W for a K x K mixing matrix W.

    It is at most Gershgorin's 2 max(1 - W_kk), exact up to rounding for at most `dense_limit` nodes, up to a thousandth
    for more, and 0 where I - W = 0.
    """
    n, bound = matrix.shape[0], 2.0 * (1.0 - float(matrix.diagonal().min()))
    if bound <= 0.0:  # one node, or an exchange without messages
        return 0.0
    if is_averaging(matrix):
        return min(bound, 1.0 + ROUNDING)
    if n <= dense_limit:
        return min(bound, 1.0 - float(np.linalg.eigvalsh(matrix.toarray())[0]) + ROUNDING)
    laplacian = splinalg.LinearOperator((n, n), lambda x: x - matrix @ x, dtype=np.float64)
    try:
        # Lanczos finds the eigenvalue from below, by about its tolerance
        found = splinalg.eigsh(laplacian, 1, which="LA", v0=_start(n), ncv=min(32, n), maxiter=100, tol=0.1 * _SLACK)
    except splinalg.ArpackNoConvergence:
        return bound
    return min(bound, (1.0 + _SLACK) * float(found[0][0]))


def consensus_gap(matrix: sp.csr_array, lambda2: float, dense_limit: int = DENSE_LIMIT) -> float:
    """Return a proven lower bound of 1 - λ_2, about a thousandth below it; 0 for a disconnected graph.

    λ_2 is the second largest eigenvalue of the K x K mixing matrix W; `lambda2` is its value up to an error that need
    not be known: it is corrected by its proven error, and where the proof fails, 4 min W_kl / (K diameter) remains. Up
    to `dense_limit` nodes all eigenvalues are computed.
    """
    n = matrix.shape[0]
    if n == 1:
        return 1.0
    if _is_disconnected(matrix):
        return 0.0
    links = matrix.tocoo()
    least = 4.0 * float(links.data[links.row != links.col].min()) / n
    if n <= dense_limit or is_averaging(matrix):
        gap = 1.0 - lambda2 - ROUNDING
    else:
        gap = proven_gap(matrix, (1.0 - _SLACK) * (1.0 - lambda2))
    # Mohar's bound for the Laplacian of an unweighted graph, times the smallest weight
    return gap if gap >= least else max(gap, (1.0 - ROUNDING) * least / diameter(matrix))


def proven_gap(matrix: sp.csr_array, gap: float) -> float:
    """Return `gap` less rounding, if the second largest eigenvalue of the mixing matrix W is proven to be <= 1 - gap.

    Else 0. A Lanczos residual shows that *an* eigenvalue is near, not that none is above. Sylvester's law does: (1 -
    gap) I - W = L D Lᵀ has as many negative pivots as W has eigenvalues above 1 - gap, and one of them is λ_1 = 1. The
    factors are exact for a matrix that is off by a few r eps abs(L) abs(U), with r the longest row of L, and no
    eigenvalue moves by more than that.
    """
    try:
        factors = _factor(matrix, 1.0 - gap)
    except RuntimeError:  # exactly singular: 1 - gap is an eigenvalue
        return 0.0
    lower, upper = factors.L, factors.U
    if not np.array_equal(factors.perm_r, factors.perm_c) or np.sum(upper.diagonal() < 0.0) != 1:
        return 0.0
    size = (abs(lower) @ (abs(upper) @ np.ones(matrix.shape[0]))).max()
    return float(gap - 4.0 * _EPS * np.diff(upper.indptr).max() * size)


def is_averaging(matrix: sp.csr_array) -> bool:
    """Return whether the K x K matrix W is 11ᵀ/K up to rounding: an exchange makes all values their mean.

    All eigenvalues of W but the largest are then 0, as ‖W - 11ᵀ/K‖ bounds them.
    """
    n = matrix.shape[0]
    return bool(matrix.nnz == n * n and abs(matrix.data - 1.0 / n).reshape(n, n).sum(axis=1).max() <= ROUNDING)


def _is_disconnected(matrix: sp.csr_array) -> bool:
    """Return whether the graph whose edges are the nonzeros of a mixing matrix W is disconnected."""
    return bool(csgraph.connected_components(matrix, directed=False, return_labels=False) > 1)


def _apply(factors: Sequence[sp.csr_array], x: X) -> X:
    """Return the product of all factors times x, a vector of shape (n,) or a matrix, the first factor applied first."""
    for matrix in factors:
        x = matrix @ x
    return x


def _start(n: int) -> NDArray[np.float64]:
    """Return a fixed random vector of mean zero, shape (n,), from which Lanczos starts."""
    start = np.random.default_rng(0).standard_normal(n)
    start -= start.mean()
    return start


def _lanczos(apply: Callable[[NDArray[np.float64]], NDArray[np.float64]], start: NDArray[np.float64]) -> float:
    """Return the second largest eigenvalue of a mixing matrix W, given as x -> W x, by Lanczos' method from `start`.

    `start` has mean zero, shape (n,). Raise ArpackNoConvergence if the method does not converge. `apply` is that
    function.
    """
    n = len(start)
    # W - 2·11ᵀ/K has the eigenvalues of W, with -1, below all others, in the place of 1
    deflated = splinalg.LinearOperator((n, n), lambda x: apply(x) - 2.0 * x.mean(), dtype=np.float64)
    found = splinalg.eigsh(deflated, 1, which="LA", v0=start, ncv=min(32, n), maxiter=100, tol=1e-10)
    return float(found[0][0])


def _smallest_laplacian(matrix: sp.csr_array, start: NDArray[np.float64]) -> float:
    """Return 1 - λ_2, λ_2 the second largest eigenvalue of a mixing matrix W, by Lanczos on the inverse of I - W.

    `start` has mean zero, shape (n,). For graphs that mix slowly: those have small cuts, and so a cheap factorisation.
    """
    n = matrix.shape[0]
    # with x_0 = 0 the rest of (I - W) x = b is positive definite, and b has mean zero, so row 0 follows
    solve = _factor(matrix[1:, 1:], 1.0).solve

    def inverse(b: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the x of mean 0 with (I - W) x = b - mean(b), shape (n,), W being the n x n mixing matrix."""
        x: NDArray[np.float64] = np.concatenate(([0.0], solve(np.ravel(b)[1:] - b.mean())))
        x -= x.mean()
        return x

    operator = splinalg.LinearOperator((n, n), inverse, dtype=np.float64)
    return 1.0 / float(splinalg.eigsh(operator, 1, which="LA", v0=start, tol=1e-10)[0][0])


def _factor(matrix: sp.csr_array, shift: float) -> splinalg.SuperLU:
    """Return the sparse factors L and U of shift I - W, W the mixing matrix, without pivoting.

    The diagonal of U has the signs of D in shift I - W = L D Lᵀ.
    """
    shifted = (sp.diags_array(np.full(matrix.shape[0], shift)) - matrix).tocsc()
    return splinalg.splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
