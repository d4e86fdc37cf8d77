"""Regularisation paths: one run over the network for many weights of a penalty."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_X_y

from glmesh.engine.path import Path, solve_path, solve_paths
from glmesh.engine.result import Status
from glmesh.errors import InvalidInput
from glmesh.estimators.base import MATRIX_CHECKS, run_options
from glmesh.estimators.least_squares import ElasticNet, ElasticNetRegressor, Lasso, net_objective
from glmesh.estimators.objective import TrainingData
from glmesh.problem.named import check_finite, check_known, named_matrix
from glmesh.types import Data, Indices, Matrix, Vector

PathResult = tuple[Vector, Matrix, Vector] | tuple[Vector, Matrix, Vector, list[int]]


def lasso_path(
    X: Data, y: ArrayLike, *, eps: float = 1e-3, alphas: ArrayLike = 100, return_n_iter: bool = False, **params: Any
) -> PathResult:
    """Return the solutions of `Lasso` for many weights alpha, as `sklearn.linear_model.lasso_path`, over a network.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,)
        Targets.
    eps : float, default 1e-3
        Smallest weight divided by the largest, at which all coefficients become zero.
    alphas : int or array, default 100
        Number of weights, in geometric progression; or the weights themselves, > 0.
    return_n_iter : bool, default False
        Whether to return the rounds too.
    **params : dict
        Parameters of `Lasso`. As in scikit-learn there is no intercept unless fit_intercept=True is given.

    Returns
    -------
    alphas : array of shape (n_alphas,)
        Weights, descending.
    coefs : array of shape (n_features, n_alphas)
        Coefficients, a column per weight.
    dual_gaps : array of shape (n_alphas,)
        Duality gaps, in the scaling of the objective of `Lasso`.
    n_iters : list of int
        Rounds for each weight; with return_n_iter only.

    Raises
    ------
    InvalidInput
        A weight is not > 0, or a parameter is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> import glmesh
    >>> X, y = np.eye(3), np.array([3.0, -2.0, 0.5])
    >>> alphas, coefs, gaps = glmesh.lasso_path(X, y, alphas=[0.5, 1.0], n_nodes=2)
    >>> alphas
    array([1. , 0.5])
    >>> bool(np.allclose(coefs, [[0.0, 1.5], [0.0, -0.5], [0.0, 0.0]], atol=1e-2))
    True
    """
    return _path(Lasso(**{"fit_intercept": False} | params), X, y, eps, alphas, return_n_iter)


def enet_path(
    X: Data,
    y: ArrayLike,
    *,
    l1_ratio: float = 0.5,
    eps: float = 1e-3,
    alphas: ArrayLike = 100,
    return_n_iter: bool = False,
    **params: Any,
) -> PathResult:
    """Return the solutions of `ElasticNet` for many weights alpha, as `sklearn.linear_model.enet_path`, over a network.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_samples, n_features)
        Samples.
    y : array of shape (n_samples,)
        Targets.
    l1_ratio : float, default 0.5
        Share of the L1 penalty, between 0 and 1; with 0 `alphas` must be an array.
    eps : float, default 1e-3
        Smallest weight divided by the largest, at which all coefficients become zero.
    alphas : int or array, default 100
        Number of weights, in geometric progression; or the weights themselves, > 0.
    return_n_iter : bool, default False
        Whether to return the rounds too.
    **params : dict
        Parameters of `ElasticNet`. As in scikit-learn there is no intercept unless fit_intercept=True is given.

    Returns
    -------
    alphas : array of shape (n_alphas,)
        Weights, descending.
    coefs : array of shape (n_features, n_alphas)
        Coefficients, a column per weight.
    dual_gaps : array of shape (n_alphas,)
        Duality gaps, in the scaling of the objective of `ElasticNet`.
    n_iters : list of int
        Rounds for each weight; with return_n_iter only.

    Raises
    ------
    InvalidInput
        A weight is not > 0, or a parameter is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> import glmesh
    >>> X, y = np.eye(3), np.array([3.0, -2.0, 0.5])
    >>> alphas, coefs, gaps, rounds = glmesh.enet_path(X, y, l1_ratio=0.8, alphas=5, n_nodes=2, return_n_iter=True)
    >>> coefs.shape, len(rounds), bool((alphas[:-1] > alphas[1:]).all())
    ((3, 5), 5, True)
    """
    model = ElasticNet(**{"fit_intercept": False, "l1_ratio": l1_ratio} | params)
    return _path(model, X, y, eps, alphas, return_n_iter)


def _path(model: ElasticNet, X: Data, y: ArrayLike, eps: float, alphas: ArrayLike, return_n_iter: bool) -> PathResult:
    """Return (alphas, coefs, gaps) of fits for many weights alpha, and their rounds if `return_n_iter`.

    Shapes are (n_alphas,), (p, n_alphas), (n_alphas,) and (n_alphas,). The other parameters are those of `model`; `eps`
    and `alphas` are as in `lasso_path`.
    """
    X, names = named_matrix(X, "X")
    check_known(y, "y")
    rows, targets = check_X_y(X, y, **MATRIX_CHECKS, y_numeric=True)
    check_finite(rows, "X", names)
    rough = TrainingData([(rows, targets.astype(np.float64), np.ones(len(targets)))], pooled=True, split="features")
    objective = net_objective(model, rough, 1.0, model.l1_ratio)
    split = objective.choose(model.split, rows.shape[0], rows.shape[1], model.stop, model._network)
    data = TrainingData(rough.parts, pooled=True, split=split)
    grid = alpha_grid(model, data, model.l1_ratio, eps, alphas)
    path = elastic_net_path(model, data, model.l1_ratio, grid)
    gaps = np.array([result.gap / data.total_weight for result in path.results])
    found = grid, path.coefs, gaps
    return (*found, [result.rounds for result in path.results]) if return_n_iter else found


@dataclass(frozen=True)
class Models:
    """Elastic-net models on several subsets of the samples, for each subset a path: one model per weight alpha."""

    models: list[tuple[Matrix, Vector]]  # (coefficients (p, n_alphas), intercepts (n_alphas,)) of each path
    communications: int  # exchanges of all paths together
    unfinished: int  # fits that ended before the tolerance was reached


def elastic_net_paths(
    model: ElasticNetRegressor,
    data: TrainingData,
    grids: Sequence[tuple[float, Vector]],
    subsets: Sequence[list[Indices]],
) -> Models:
    """Return elastic-net models for each (l1_ratio, weights alpha) in `grids` and, within it, for each subset of rows.

    A subset is a list with the numbers of its rows in each part of the data. Split by samples, the numbers of all paths
    travel together, in the same sums over all nodes.
    """
    together = _paths_together(model, data, grids, subsets)
    if together is not None:
        return together
    found = [elastic_net_path(model, data.rows(rows), ratio, grid) for ratio, grid in grids for rows in subsets]
    converged = (Status.CONVERGED, Status.CERTIFIED)
    return Models(
        [(path.coefs, path.intercepts) for path in found],
        sum(path.communications for path in found),
        sum(result.status not in converged for path in found for result in path.results),
    )


def _paths_together(
    model: ElasticNetRegressor,
    data: TrainingData,
    grids: Sequence[tuple[float, Vector]],
    subsets: Sequence[list[Indices]],
) -> Models | None:
    """Return what `elastic_net_paths` does, computed by a method on totals; None if none suits.

    All paths travel in the same sums over all nodes; rows that are not in a subset have weight 0.
    """
    objectives = [net_objective(model, data, 1.0, ratio) for ratio, _ in grids]
    if data.deal is not None or any(data.method(one) is None for one in objectives):
        return None
    chosen = [data.only(rows) for rows in subsets]
    problems = [one for objective in objectives for one in data.problems(objective, chosen)[1:]]
    alphas = [one.total_weight * grid for _, grid in grids for one in chosen]
    options = run_options(model, data, objectives[0])
    for name in ("stop", "record_every"):
        del options[name]
    made = solve_paths(problems, alphas, **options)
    unfinished = sum(int((one.gap > model.tol * np.abs(one.objective)).sum()) for one in made.solutions)
    models = [(one.coefs.T, one.intercepts) for one in made.solutions]
    return Models(models, made.communications, unfinished)


def elastic_net_path(model: ElasticNetRegressor, data: TrainingData, l1_ratio: float, grid: Vector) -> Path:
    """Return the Path of the elastic net with one l1_ratio for the weights alpha in `grid`, shape (n_alphas,)."""
    objective = net_objective(model, data, 1.0, l1_ratio)
    return solve_path(data.problem(objective), data.total_weight * grid, **run_options(model, data, objective))


def alpha_grid(
    model: ElasticNetRegressor, data: TrainingData, l1_ratio: float, eps: float, alphas: ArrayLike
) -> Vector:
    """Return the weights alpha of a path, descending, shape (n_alphas,).

    An array `alphas` is returned sorted. If `alphas` is a number, there are that many in geometric progression, from
    the smallest weight at which all coefficients are zero down to eps times that weight.
    """
    if not isinstance(alphas, int | np.integer):
        grid = np.sort(np.asarray(alphas, dtype=np.float64))[::-1]
        if grid.ndim != 1 or not len(grid) or not (grid > 0).all():
            raise InvalidInput("alphas must be positive numbers, or how many there are to be")
        return grid
    if alphas < 1:
        raise InvalidInput(f"alphas must be at least 1, got {alphas}")
    if l1_ratio == 0:
        raise InvalidInput("with l1_ratio=0 no weight makes all coefficients zero: give alphas yourself")
    by_features, total = data.split == "features", data.total_weight
    mean = 0.0
    if model.fit_intercept:
        mean = sum(float((w * y).sum()) for _, y, w in (data.parts[:1] if by_features else data.parts)) / total
    slopes = [np.asarray(X.T @ (w * (y - mean))) for X, y, w in data.parts]
    slope = np.concatenate(slopes) if by_features else np.sum(slopes, axis=0)
    top = float(np.abs(slope).max()) / (total * l1_ratio)
    if top <= np.finfo(float).resolution:
        return np.full(int(alphas), np.finfo(float).resolution)
    return np.geomspace(top, top * eps, num=int(alphas))
