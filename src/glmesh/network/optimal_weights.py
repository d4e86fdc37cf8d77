"""Laplacians of weights on the links of a graph, and the weights with the largest ratio of eigenvalues."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

_CLOSE = 5e-4  # part of the best ratio that `GraphLaplacian.best` may miss; half of what `mixing.optimal` promises


@dataclass(frozen=True)
class GraphLaplacian:
    """The links of a connected graph of n > 2 nodes.

    Its methods take weights of shape (links,) and study their Laplacian L. L has minus the weight of link (k, l) at (k,
    l) and (l, k), and rows that sum to zero.
    """

    n: int  # number of nodes
    tails: NDArray[np.intp]  # (links,) one end of each link, which is given once
    heads: NDArray[np.intp]  # (links,) the other end

    @cached_property
    def incidence(self) -> NDArray[np.float64]:
        """Incidence matrix (n, links): 1 at the tail of a link, -1 at its head."""
        columns = np.arange(len(self.tails))
        incidence = np.zeros((self.n, len(columns)))
        incidence[self.tails, columns], incidence[self.heads, columns] = 1.0, -1.0
        return incidence

    def degrees(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the weights of each node's links, shape (n,), for weights of shape (links,)."""
        both = np.r_[self.tails, self.heads]
        return np.bincount(both, np.r_[weights, weights], minlength=self.n).astype(np.float64)

    def laplacian(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Laplacian of the weights, (n, n): minus a link's weight off the diagonal, rows that sum to 0."""
        matrix = np.diag(self.degrees(weights))
        matrix[self.tails, self.heads] = matrix[self.heads, self.tails] = -weights
        return matrix

    def ends(self, weights: NDArray[np.float64]) -> tuple[float, float]:
        """Return the second smallest and the largest eigenvalue of the Laplacian of the weights, shape (links,)."""
        spectrum = np.linalg.eigvalsh(self.laplacian(weights))
        return float(spectrum[1]), float(spectrum[-1])

    def ratio(self, weights: NDArray[np.float64]) -> float:
        """Return λ_2/λ_max in (0, 1], the second smallest over the largest eigenvalue of the weights' Laplacian.

        Gossip with momentum is faster where it is larger.
        """
        lowest, highest = self.ends(weights)
        return lowest / highest

    def best(self, weights: NDArray[np.float64], cap: int = 200) -> NDArray[np.float64]:
        """Return the weights, shape (links,), that maximise λ_2(L) subject to λ_max(L) <= 1, L their Laplacian.

        λ_2 is the second smallest eigenvalue, λ_max the largest; `weights` is where the search starts. At most `cap`
        Newton steps are made on the barrier -τt - log det(L - t) - log det(1 - L) - Σ log w, where t bounds λ_2 from
        below. Its minimum is within ν/τ of the optimum, with ν = 2(n - 1) + links, and far from zero weights: none is
        below about _CLOSE/(2ν).
        """
        lowest, highest = self.ends(weights)
        point = np.append(weights, lowest / 2.0) / (2.0 * highest)
        parameter = 2.0 * (self.n - 1) + len(weights)
        tau = parameter / point[-1]
        for _ in range(cap):
            gradient, hessian = self._derivatives(point, tau)
            try:
                step = linalg.cho_solve(linalg.cho_factor(hessian, overwrite_a=True), -gradient)
            except np.linalg.LinAlgError:
                break  # rounding is in the way
            slope = float(gradient @ step)
            if -slope > 0.1:
                length = self._step_length(point, step, slope, tau)
                if length == 0.0:
                    break
                point = point + length * step
            elif parameter <= tau * _CLOSE * point[-1]:
                break
            else:
                tau *= 10.0
        return point[:-1]

    def _slacks(self, point: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (L - t I, I - L), two arrays of shape (n, n), for point = (weights, t), shape (links + 1,).

        L is the Laplacian of the weights; on constant vectors, where L is zero, both arrays are made the identity.
        """
        laplacian, t, mean = self.laplacian(point[:-1]), point[-1], 1.0 / self.n
        return laplacian - t * np.eye(self.n) + (1.0 + t) * mean, np.eye(self.n) - laplacian

    def _barrier(self, point: NDArray[np.float64], tau: float) -> float:
        """Return -tau t - log det(L - t) - log det(1 - L) - sum log w, a float, for point = (w, t), shape (links + 1,).

        L is the Laplacian of the weights w, and determinants are those on vectors of mean zero. The value is infinite
        where a logarithm is not defined.
        """
        if point.min() <= 0.0:
            return np.inf
        try:
            roots = [np.linalg.cholesky(slack).diagonal() for slack in self._slacks(point)]
        except np.linalg.LinAlgError:
            return np.inf
        return float(-tau * point[-1] - 2.0 * np.log(roots).sum() - np.log(point[:-1]).sum())

    def _derivatives(self, point: NDArray[np.float64], tau: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the gradient, (links + 1,), and Hessian, (links + 1, links + 1), of `_barrier` at (weights, t).

        `tau` > 0 is the factor of t in the barrier.
        """
        weights, a = point[:-1], self.incidence
        below, above = (np.linalg.inv(slack) for slack in self._slacks(point))
        at_below, at_above = a.T @ (below @ a), a.T @ (above @ a)
        slopes = at_above.diagonal() - at_below.diagonal() - 1.0 / weights
        hessian = np.empty((len(point), len(point)))
        hessian[:-1, :-1] = at_below**2 + at_above**2
        hessian[np.diag_indices(len(weights))] += weights**-2
        hessian[:-1, -1] = hessian[-1, :-1] = -np.square(below @ a).sum(axis=0)
        hessian[-1, -1] = np.square(below).sum() - 1.0
        return np.append(slopes, below.trace() - 1.0 - tau), hessian

    def _step_length(self, point: NDArray[np.float64], step: NDArray[np.float64], slope: float, tau: float) -> float:
        """Return the first s of 1, 1/2, 1/4, ... for which `_barrier` falls enough from `point` to point + s step.

        Enough is a tenth of s times `slope`, the derivative of the barrier along `step`; both arrays have shape (links
        + 1,). Return 0 if none of 40 is enough. `tau` is the barrier's factor of t.
        """
        before = self._barrier(point, tau)
        lengths = (0.5**halvings for halvings in range(40))
        return next((s for s in lengths if self._barrier(point + s * step, tau) <= before + 0.1 * s * slope), 0.0)
