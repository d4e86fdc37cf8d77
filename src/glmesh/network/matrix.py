"""The class of mixing matrices, and how they are assembled from weights on links."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from glmesh.network import spectrum

INDEX = np.int32  # one index type, whatever scipy would choose, so that kernels compile once


@dataclass(frozen=True, eq=False)
class Mixing:
    """A mixing matrix W, shape (K, K), symmetric and doubly stochastic, with its eigenvalues λ_1 = 1 >= ... >= λ_K.

    Made by `metropolis`, `best_constant`, `optimal`, `uniform` or `from_matrix`, which vouch for W; or by `sequence`,
    of which a single one may be disconnected: it has λ_2 = β = 1 and a consensus gap of 0.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array of shape (K, K)
        W, of float64 with int32 indices: sorted rows, the diagonal always stored, no other zeros.

    Examples
    --------
    >>> from glmesh import mixing, topology
    >>> W = mixing.metropolis(topology.ring(4))
    >>> W.n_nodes, W.edges
    (4, 8)
    >>> round(W.beta, 6), round(W.spectral_gap, 6)
    (0.333333, 0.666667)
    """

    matrix: sp.csr_array

    @property
    def n_nodes(self) -> int:
        """Number of nodes K."""
        return int(self.matrix.shape[0])

    @property
    def degrees(self) -> NDArray[np.intp]:
        """Number of neighbours of each node, shape (K,); a node is no neighbour of itself."""
        counts: NDArray[np.intp] = np.diff(self.matrix.indptr).astype(np.intp)
        return counts - 1

    @property
    def edges(self) -> int:
        """Number of messages in an exchange, the directed links: W_kl > 0 with k != l, so each link counts twice."""
        return int(self.matrix.nnz) - self.n_nodes

    @cached_property
    def lambda2(self) -> float:
        """Second largest eigenvalue λ_2 of W; 0 for one node."""
        return spectrum.second_eigenvalue(self.matrix)

    @cached_property
    def beta(self) -> float:
        """Second largest absolute eigenvalue β = max(λ_2, -λ_K) of W; 0 for one node."""
        return spectrum.absolute_eigenvalue(self.matrix, self.lambda2)

    @property
    def spectral_gap(self) -> float:
        """Spectral gap 1 - β of W, in (0, 1] for a connected graph."""
        return 1.0 - self.beta

    @cached_property
    def consensus_gap(self) -> float:
        """Proven lower bound of 1 - λ_2, λ_2 the second largest eigenvalue of W; about a thousandth below it."""
        return spectrum.consensus_gap(self.matrix, self.lambda2)

    @cached_property
    def top(self) -> float:
        """Upper bound of 1 - λ_K, the largest eigenvalue of I - W, λ_K the smallest of W.

        The bound is exact up to rounding for few nodes, up to a thousandth for many.
        """
        return spectrum.laplacian_bound(self.matrix)


def assemble(n: int, rows: NDArray[np.intp], cols: NDArray[np.intp], weights: NDArray[np.float64]) -> Mixing:
    """Return the n x n Mixing matrix W with weights[i] at (rows[i], cols[i]), averaged with the transpose.

    W is exactly symmetric, and its diagonal is 1 minus the sums of the rows. A link that is given in one direction only
    counts half.
    """
    half = sp.csr_array((weights / 2, (rows, cols)), shape=(n, n))
    links = (half + half.T).tocoo()
    own = np.maximum(0.0, 1.0 - np.bincount(links.row, links.data, minlength=n))
    k = np.arange(n)
    places = np.r_[links.row, k].astype(INDEX), np.r_[links.col, k].astype(INDEX)
    mixing = sp.csr_array((np.r_[links.data, own], places), shape=(n, n))
    mixing.sort_indices()
    return Mixing(mixing)


def metropolis_weights(links: sp.coo_array) -> Mixing:
    """Return the Mixing with weight 1 / (1 + larger degree of both ends) on each link of an adjacency matrix.

    `links` has shape (K, K) for K nodes; the graph may be disconnected.
    """
    degree = np.bincount(links.row, minlength=links.shape[0])
    weights = 1.0 / (1.0 + np.maximum(degree[links.row], degree[links.col]))
    return assemble(len(degree), links.row, links.col, weights)
