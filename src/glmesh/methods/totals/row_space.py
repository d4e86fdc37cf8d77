"""Few rows and many coefficients with an L2 penalty: the optimum is a combination of rows, and few numbers say which.

    min_w sum_i loss_i(x_i.w + b) + sum_j l2_j/2 w_j^2,     w = B c,     columns of B a basis of the span of all rows

One total of random combinations of the rows tells everybody their span, and nobody's row. In coordinates c the problem
has as many coefficients as there are rows, all with the same L2 penalty, and another method on totals solves it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from glmesh.core import PerNode, Shared
from glmesh.core.messages import AnyRounds, Request
from glmesh.core.totals import Largest, Total
from glmesh.errors import UnsuitablePair
from glmesh.functions import Loss, Table
from glmesh.methods.totals.interior import InteriorPoint
from glmesh.methods.totals.interior_state import InteriorState
from glmesh.methods.totals.newton import ProximalNewton
from glmesh.methods.totals.newton_state import NewtonState
from glmesh.methods.totals.nodes import Curvature, OnTotals, TotalMethod
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import column_exponents, scales
from glmesh.methods.totals.traits import is_smooth
from glmesh.types import Matrix, SampleMatrix, Vector

EPSILON = 2.0**-50  # relative error of a prediction by coefficients w = B c, because they are rounded too
# [combinations] more than rows, because so many random vectors span the rows with a condition number of some tens
# (Halko, Martinsson and Tropp 2011, section 10, recommend some more than the rank)
SPARE = 4
MOST_NUMBERS = 2**22  # [numbers] of the total that tells the span, because that is 32 MB
FEWEST_COEFFICIENTS = 500  # [coefficients] up to which the span is not used, because a Hessian is short enough
CHUNK = 256  # [rows] that are compared with the basis at a time, because that is 15 MB for some thousand columns


@dataclass(frozen=True, eq=False)
class Basis:
    """A basis of the span of all rows, with coordinates c: coefficients are w = matrix c.

    In it the penalty is simple: sum_j l2_j w_j^2 = l2 sum c^2.
    """

    matrix: Matrix  # (p, r)
    metric: Vector  # (p,) l2_j / l2 of each coefficient, in whose norm the columns of `matrix` are orthonormal
    outside: float  # sum over rows of the squared norm of what the basis leaves of them, times a bound of theta^2
    size: float  # sum over rows of their norm times the largest slope, if that is bounded


@dataclass
class RowSpaceState:
    """What a block of nodes carries from round to round: the basis, and the state of the small problem's method."""

    w: Shared[Vector]  # (p,) coefficients of the best point whose objective is known
    intercept: Shared[float]
    visited: PerNode[Vector]  # (n_hosted,) nonzeros visited in the last round
    given: Shared[bool]  # whether w and the intercept are where to begin, not zero
    objective: Shared[float] = np.nan  # at w; NaN before it is known
    gap: Shared[float] = np.inf  # proven upper bound of objective - optimum
    failure: Shared[str] = ""  # why no more rounds are worth it, see `TotalState`
    basis: Shared[Basis | None] = None  # None before the first total
    inner: NewtonState | InteriorState | None = None  # of the small problem; None before the first total

    def begin(self, basis: Basis, inner: NewtonState | InteriorState, visited: Vector) -> None:
        """Go on with the small problem from the state `inner`; its total visited `visited` nonzeros at each node."""
        self.basis, self.inner, self.visited = basis, inner, visited

    def read_inner(self, l2: float) -> None:
        """Update coefficients, objective, gap and failure from the state of the small problem's method.

        `l2` is the largest L2 weight of the whole problem's coefficients.
        """
        inner, basis = self.inner, self.basis
        assert inner is not None
        assert basis is not None
        self.w, self.intercept = basis.matrix @ inner.w, inner.intercept
        self.objective, self.visited, self.failure = inner.objective, inner.visited, inner.failure
        length = np.sqrt((inner.w**2).sum())
        self.gap = inner.gap + 2.0 * basis.outside / l2 + EPSILON * basis.size * float(length)


@dataclass(frozen=True)
class RowSpace(TotalMethod[RowSpaceState]):
    """Method for less rows than coefficients, all of them with an L2 penalty and nothing else, and any loss.

    The first round is one total of p (m + 4) numbers for m rows of p coefficients; then Newton's method, or for losses
    with kinks the interior-point method, goes on with m + 4 coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, solve
    >>> from glmesh.methods import RowSpace
    >>> X = np.random.default_rng(0).normal(size=(12, 500))
    >>> wide = Problem.glm(X, X[:, 0], split="samples", fit_intercept=True)
    >>> result = solve(wide, method=RowSpace(), n_nodes=4, tol=1e-9)
    >>> result.status.name, result.rounds <= 4
    ('CONVERGED', True)
    """

    curvature: ClassVar[Curvature] = "rows"

    def start(self, block: Rows, w: Vector | None, intercept: float) -> RowSpaceState:
        """Return the state before round 0, at coefficients w, shape (p,), and an intercept; w None: at zero."""
        check_ridge(block, "RowSpace")
        given = w is not None
        w = np.zeros(block.p) if w is None else np.array(w, dtype=np.float64)
        return RowSpaceState(w, intercept if block.fit_intercept else 0.0, np.zeros(block.size), given)

    def retarget(self, block: Rows, state: RowSpaceState) -> None:
        """Change the state so that it goes on with another penalty, which `block` has already.

        It keeps the coordinates if the penalty is a multiple of the one before, and else begins anew.
        """
        check_ridge(block, "RowSpace")
        basis, inner = state.basis, state.inner
        if basis is None or inner is None or not np.array_equal(_metric(block), basis.metric):
            super().retarget(block, state)
            return
        _method(block.loss).retarget(_small(block, basis), inner)
        state.read_inner(float(block.penalty.l2.max()))

    def round(self, block: Rows, state: RowSpaceState) -> AnyRounds:
        """Make one round, which yields Totals and is sent their Sums.

        The first round finds the span of the rows, each other one is a round of the method that solves the small
        problem.
        """
        method = _method(block.loss)
        if state.basis is None:
            basis = yield from _span(block)
            start = basis.matrix.T @ (basis.metric * state.w) if state.given else None
            inner = method.start(_small(block, basis), start, state.intercept)
            state.begin(basis, inner, 2.0 * basis.matrix.shape[1] * block.nonzeros)
            return
        assert state.inner is not None
        yield from method.round(_small(block, state.basis), state.inner)
        state.read_inner(float(block.penalty.l2.max()))


def pays(n_rows: float, n_coefficients: int) -> bool:
    """Return whether m rows are so few that finding their span costs less than totals of p coefficients.

    L-BFGS takes dozens to hundreds of totals of p numbers, Newton's method about ten of p^2/2. A total is a sum over
    all nodes.
    """
    few = 2.0 * (n_rows + SPARE) <= n_coefficients
    return few and n_coefficients > FEWEST_COEFFICIENTS and n_coefficients * (n_rows + SPARE) <= MOST_NUMBERS


def check_ridge(block: Rows, name: str) -> None:
    """Raise UnsuitablePair unless every coefficient has an L2 penalty and nothing else.

    `name` is the method's, for the text.
    """
    if not is_ridge(block.penalty):
        raise UnsuitablePair(
            f"{name} is for an L2 penalty on every coefficient, without L1, bounds or a linear term; use "
            "ProximalNewton for a smooth loss, or Cola"
        )


def is_ridge(penalty: Table) -> bool:
    """Return whether every coefficient has an L2 penalty, and neither L1, nor a bound, nor a linear term."""
    bounded = (penalty.lo > -np.inf).any() or (penalty.hi < np.inf).any()
    return bool((penalty.l2 > 0).all() and not penalty.l1.any() and not penalty.linear.any() and not bounded)


def _method(loss: Loss) -> OnTotals:
    """Return the method for the small problem: Newton's for a smooth loss, interior points for one with kinks."""
    return ProximalNewton() if is_smooth(loss) else InteriorPoint()


def _metric(block: Rows) -> Vector:
    """Return l2_j of each coefficient divided by the largest of them, shape (p,)."""
    l2 = np.broadcast_to(block.penalty.l2, block.p)
    return np.asarray(l2 / l2.max())


def _small(block: Rows, basis: Basis) -> Rows:
    """Return a block's rows in coordinates of the basis, shape (m_k, r) each, with the penalty l2/2 sum c^2.

    They are kept in `block.reduced` for the next call.
    """
    kept = block.reduced
    if kept is None or kept[0] is not basis or kept[1] is not block.penalty:
        X = list(block.threads.map(lambda x: np.ascontiguousarray(x @ basis.matrix), block.X))
        l2 = Table(l2=np.asarray(block.penalty.l2.max()))
        small = Rows(block.ids, block.info, X, block.y, block.weight, block.loss, l2, block.fit_intercept)  # no threads
        block.reduced = kept = basis, block.penalty, small
    return kept[2]


# the span of the rows


def _span(block: Rows) -> Generator[Request, Any, Basis]:
    """Find a basis of the span of all nodes' rows, by one Total of random combinations of them; return it.

    It is a generator: it yields Totals and is sent their Sums. A row is divided by its norm before it is combined. What
    the basis leaves of a row in the L2 penalty's norm, which is rounding, is measured in a second, short total: the
    optimum of the whole problem is below that of the small one by at most norm(E^T theta)^2 / l2, where E is what is
    left of the rows and theta the losses' slopes at the optimum.
    """
    scale = scales((yield Largest(column_exponents(block))))[:-1]
    root = np.sqrt(_metric(block))
    sizes = [_norms(X, root) * (weight > 0) for X, weight in zip(block.X, block.weight, strict=True)]
    known = yield Total(
        _slope_bounds(block, np.concatenate(sizes)) | {"rows": np.array([[float((size > 0).sum())] for size in sizes])}
    )
    r = min(int(known["rows"][0]) + SPARE, block.p)
    mixed = np.empty((block.size, block.p, r))
    for k, size in enumerate(sizes):
        _combine(block, k, size, scale, mixed[k])
    sums = yield Total({"combined": mixed.reshape(block.size, -1)})
    del mixed
    span = sums["combined"].reshape(block.p, r) * (scale / root)[:, None]
    Q, _ = scipy.linalg.qr(span, mode="economic", check_finite=False)
    Q = np.ascontiguousarray(Q)  # as it is after a checkpoint, because bits of products depend on it
    left = np.array([[_left(X[size > 0], Q, root)] for X, size in zip(block.X, sizes, strict=True)])
    outside = float((yield Total({"left": left}))["left"][0])
    slopes = float(known["squares"][0] + 2.0 * known["curvature"][0] * known["loss"][0])
    return Basis(Q / root[:, None], _metric(block), outside * slopes, float(known["size"][0]))


def _norms(X: SampleMatrix, root: Vector) -> Vector:
    """Return the norm of each row of X after its entries are divided by `root`, shape (p,).

    The result has shape (m_k,).
    """
    if sp.issparse(X):
        return np.asarray(np.sqrt(X.power(2) @ root**-2))
    return np.asarray(np.sqrt(np.einsum("ij,ij,j->i", X, X, root**-2)))


def _combine(block: Rows, k: int, sizes: Vector, scale: Vector, out: Matrix) -> None:
    """Write r random combinations of the rows of the k-th hosted node, in scaled units, to `out`, shape (p, r).

    A row is divided by its size, from `sizes`, before. Rows of size 0, which are zero or have no weight, do not count.
    Columns are divided by `scale`, shape (p,), powers of two.
    """
    draw, X = np.random.default_rng([block.info.seed, int(block.ids[k])]), block.X[k]
    factors = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    mix = draw.standard_normal((len(sizes), out.shape[1])) * factors[:, None]
    if isinstance(X, np.ndarray):
        np.matmul((X / scale).T, mix, out=out)
    else:
        np.divide(X.T @ mix, scale[:, None], out=out)


def _left(X: SampleMatrix, Q: Matrix, root: Vector) -> float:
    """Return the sum of squares that the basis leaves of the rows of X: what is outside of the span of Q's columns.

    Rows are divided by `root`, shape (p,), before; Q has shape (p, r) and orthonormal columns.
    """
    found = 0.0
    for a in range(0, X.shape[0], CHUNK):
        part = (X[a : a + CHUNK].toarray() if sp.issparse(X) else X[a : a + CHUNK]) / root
        found += float(((part - (part @ Q) @ Q.T) ** 2).sum())
    return found


def _slope_bounds(block: Rows, sizes: Vector) -> dict[str, Matrix]:
    """Return fields for a total, {name: (n_hosted, 1)}, whose sums bound the sum of squared slopes at an optimum.

    They are the largest squares of slopes that are bounded, the largest curvature M of other losses, and all losses at
    zero: a slope's square is at most 2 M times the loss. "size" is the sum of bounded slopes times the rows' norms;
    `sizes` has these norms.
    """
    rows = block.dual.kernel_rows(block.starts[-1])
    bounded = np.asarray(np.isfinite(rows[:, 3:]).all(axis=1))
    squares = (np.where(bounded[:, None], rows[:, 3:], 0.0) ** 2).max(axis=1, initial=0.0)
    bends = np.divide(1.0, rows[:, 1], out=np.zeros(len(rows)), where=~bounded & (rows[:, 1] > 0))
    losses = block.dual.conjugates(np.zeros(len(rows)))
    spans = [slice(a, b) for a, b in zip(block.starts[:-1], block.starts[1:], strict=True)]
    return {
        "size": np.array([[(np.sqrt(squares[span]) * sizes[span]).sum()] for span in spans]),
        "squares": np.array([[squares[span].sum()] for span in spans]),
        "curvature": np.array([[bends[span].max(initial=0.0)] for span in spans]),
        "loss": np.array([[losses[span].sum()] for span in spans]),
    }
