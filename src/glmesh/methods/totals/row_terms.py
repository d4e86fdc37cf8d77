"""Losses, slopes and curvatures of the rows at a trial point, and their sums over each node's rows.

A kernel makes them in one pass for losses whose dual is a table, and for the logistic loss; arrays do for others, and
for losses after shorter steps of the logistic loss, because numpy computes several exponentials at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.functions.separable import LOGISTIC_DUAL
from glmesh.kernels.logistic import logistic_rows
from glmesh.kernels.smooth import N_SUMS, RowSums, Wanted, smooth_rows
from glmesh.methods.totals.query import TRIALS, Query
from glmesh.methods.totals.rows import Rows
from glmesh.types import Matrix, Vector

EPSILON = 2.0**-52  # relative error of a product and a sum, because each is rounded by 2^-53


@dataclass(frozen=True, eq=False)
class RowTerms:
    """What a total is made of beside products with the rows; sums are over the rows of each hosted node."""

    slopes: Matrix  # (n, m) slopes of the losses at the trial point and, if it is asked for, a dual point
    bends: Vector | None  # (m,) curvatures there, or those of an upper bound; None: not asked for
    values: Matrix  # (n_hosted, n) losses at the trial point, and their slacks at the dual point
    rounding: Matrix  # (n_hosted, 2 n) by how much values and slopes may be wrong, see `SummedDualPoint`
    softened: Matrix | None  # (n_hosted, 2) losses as soft as at the query's point, and from now on; None: not soft
    trials: Matrix | None  # (n_hosted, n_trials) losses after shorter steps; None: not asked for

    def fields(self, cap: float) -> dict[str, Matrix]:
        """Return the fields of sums; a sum of losses above `cap`, or NaN, becomes twice the cap."""
        out = {"values": _capped(self.values, cap), "rounding": self.rounding}
        if self.softened is not None:
            out["softened"] = _capped(self.softened, cap)
        if self.trials is not None:
            out["trials"] = _capped(self.trials, cap)
        return out


def row_terms(block: Rows, query: Query, at: tuple[Vector, Vector], errors: Vector) -> RowTerms:
    """Return the terms of a query's trial point.

    `at` is (predictions at the query's point, their change by its step), `errors` by how much each prediction may be
    wrong, all of shape (m,).
    """
    known = block.dual.as_table() is not None or block.dual.kind == LOGISTIC_DUAL
    make = in_one_pass if known else by_arrays
    return make(block, query, at, errors)


def in_one_pass(block: Rows, query: Query, at: tuple[Vector, Vector], errors: Vector) -> RowTerms:
    """Return the terms of losses whose dual is a Table, or logistic, with the arguments of `row_terms`."""
    m, dual, logistic = int(block.starts[-1]), query.dual, block.dual.kind == LOGISTIC_DUAL
    lengths = TRIALS if query.trials and not logistic else TRIALS[:0]
    second = bool(len(query.columns) or query.cross)
    wanted = Wanted(
        query.softness,
        query.next_softness,
        query.shrink if dual else 0.0,
        query.damping,
        dual,
        query.stepped_majorant,
        second,
        query.majorant,
        query.moves,
    )
    sums = RowSums(np.empty((1 + dual, m)), np.empty(m if second else 0), np.zeros((block.size, N_SUMS + len(lengths))))
    rows, fill = (block.kernel_rows, block.curvatures), logistic_rows if logistic else smooth_rows

    def some(nodes: slice) -> None:
        """Compute the terms of some hosted nodes."""
        starts, scratch = block.starts[nodes.start : nodes.stop + 1], np.empty(sums.sums.shape[1])
        fill(wanted, rows, (*at, errors), (starts, lengths, scratch), sums._replace(sums=sums.sums[nodes]))

    list(block.threads.map(some, block.threads.spans(np.diff(block.starts))))
    part = sums.sums
    noise = EPSILON * np.sqrt(part[:, 5:7])
    rounding = [part[:, 4], noise[:, 0]] + [noise[:, 1], np.sqrt(part[:, 7])] * dual
    soft = max(query.softness, query.next_softness) > 1.0
    return RowTerms(
        sums.slopes,
        sums.bends if second else None,
        part[:, : 1 + dual],
        np.stack(rounding, axis=1),
        part[:, 2:4] if soft else None,
        _trials(block, query, at) if query.trials and logistic else part[:, N_SUMS:] if query.trials else None,
    )


def by_arrays(block: Rows, query: Query, at: tuple[Vector, Vector], errors: Vector) -> RowTerms:
    """Return the terms of any smooth loss, with the arguments of `row_terms`."""
    g, (z, q) = block.dual, at
    here, then = block.softened(query.softness), block.softened(query.next_softness)
    there = z + q if query.moves else z
    slopes = [-then.conjugate_subgradient(-there)]
    values = [g.conjugates(-there)]
    # the values are not those of the softened loss
    steep = slopes[0] if then is g else g.conjugate_subgradient(-there)
    rounding = [node_sums(block, _rounding(block, steep, errors)), _noise(block, slopes[0])]
    if query.dual:
        theta = _dual_point(block, query, z, q)
        slopes.append(theta)
        values.append(g.slacks(-theta, -there))
        rounding += [_noise(block, theta), np.sqrt(node_sums(block, (block.curvatures * errors) ** 2))]
    bends = softened = trials = None
    if len(query.columns) or query.cross:
        bends = then.conjugate_majorant(-there) if query.majorant else then.conjugate_curvature(-there)
    if max(query.softness, query.next_softness) > 1.0:
        softened = np.stack([node_sums(block, one.conjugates(-there)) for one in (here, then)], axis=1)
    if query.trials:
        trials = _trials(block, query, at)
    summed = np.stack([node_sums(block, one) for one in values], axis=1)
    return RowTerms(np.stack(slopes), bends, summed, np.stack(rounding, axis=1), softened, trials)


def _trials(block: Rows, query: Query, at: tuple[Vector, Vector]) -> Matrix:
    """Return the sums of losses after shorter steps over the rows of each node, shape (n_hosted, n_trials).

    `at` is that of `row_terms`.
    """
    (z, q), here = at, block.softened(query.softness)
    return np.stack([node_sums(block, here.conjugates(-(z + t * q))) for t in TRIALS], axis=1)


def node_sums(block: Rows, values: Vector) -> Vector:
    """Return the sum of `values`, one for each of the m hosted rows, over the rows of each node, shape (n_hosted,)."""
    return np.array([values[a:b].sum() for a, b in zip(block.starts[:-1], block.starts[1:], strict=True)])


def _capped(sums: Matrix, cap: float) -> Matrix:
    """Return sums of losses; one above `cap`, or NaN, becomes twice the cap."""
    return np.where(sums <= cap, sums, 2.0 * cap)


def _rounding(block: Rows, slopes: Vector, errors: Vector) -> Vector:
    """Return how far each row's loss may be wrong because its prediction is, shape (m,).

    A loss with slope t and an upper bound of curvature h changes by at most abs(t) e + h e^2/2 when its prediction
    changes by e; `slopes` and `errors` have t and e of each row.
    """
    return np.asarray((np.abs(slopes) + 0.5 * block.curvatures * errors) * errors)


def _noise(block: Rows, rows: Vector) -> Vector:
    """Return how far an entry of X_k^T v may be wrong by rounding, for each hosted node k, shape (n_hosted,).

    `rows` is v, one number for each of the m hosted rows. Scaled columns have norms of at most one, so the error is the
    norm of v times that of a product.
    """
    return EPSILON * np.sqrt(node_sums(block, rows**2))


def _dual_point(block: Rows, query: Query, z: Vector, q: Vector) -> Vector:
    """Return a dual point of the m hosted rows, shape (m,): the losses' slopes after the step, to first order.

    z are the predictions at the query's point, q their change by its step. Slopes outside of the losses' domain are
    moved into it, and all are multiplied by `query.shrink`. X^T of them is the gradient at the point plus the Hessian
    times the step, but for what the domain cuts off.
    """
    g = block.softened(query.softness)
    bend = g.conjugate_majorant(-z) if query.stepped_majorant else g.conjugate_curvature(-z)
    if query.damping:
        bend = bend + query.damping * g.conjugate_majorant(-z)
    lo, hi = block.kernel_rows[:, 3:].T  # which softening leaves as they are
    inside = np.clip(g.conjugate_subgradient(-z) - bend * q, lo, hi)
    return np.asarray(-query.shrink * inside)
