"""Regularisation paths, and the choice of the weight by cross-validation, without pooling any data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import check_X_y

from glmesh.engine.path import Path, solve_path
from glmesh.errors import InvalidInput
from glmesh.estimators.base import RECORD_EVERY, Data
from glmesh.estimators.regression import ElasticNet, Lasso, NetworkRegressor, net_objective
from glmesh.types import AnyArray, Indices, Matrix, Vector


def lasso_path(
    X: AnyArray, y: AnyArray, *, eps: float = 1e-3, alphas: AnyArray = 100, return_n_iter: bool = False, **params: Any
) -> Any:
    """(alphas, coefs, dual_gaps), and rounds if asked for: as `sklearn.linear_model.lasso_path`, over a network.

    The other parameters are those of `Lasso`. As in scikit-learn there is no intercept unless fit_intercept=True is
    given (coefficients are the same as with centred data then).
    """
    return _path(Lasso(**{"fit_intercept": False} | params), X, y, 1.0, eps, alphas, return_n_iter)


def enet_path(
    X: AnyArray,
    y: AnyArray,
    *,
    l1_ratio: float = 0.5,
    eps: float = 1e-3,
    alphas: AnyArray = 100,
    return_n_iter: bool = False,
    **params: Any,
) -> Any:
    """(alphas, coefs, dual_gaps), and rounds if asked for: as `sklearn.linear_model.enet_path`, over a network.

    The other parameters are those of `ElasticNet`. There is no intercept unless fit_intercept=True is given.
    """
    model = ElasticNet(**{"fit_intercept": False, "l1_ratio": l1_ratio} | params)
    return _path(model, X, y, l1_ratio, eps, alphas, return_n_iter)


def _path(
    model: Any, X: AnyArray, y: AnyArray, l1_ratio: float, eps: float, alphas: AnyArray, return_n_iter: bool
) -> Any:
    X, y = check_X_y(X, y, accept_sparse=("csr", "csc"), dtype=np.float64, y_numeric=True)
    rough = Data([(X, y.astype(np.float64), np.ones(len(y)))], pooled=True, split="features")
    split = net_objective(model, rough, 1.0, l1_ratio).choose(model.split, X.shape[0], X.shape[1], model.stop)
    data = Data(rough.parts, pooled=True, split=split)
    grid = alpha_grid(model, data, l1_ratio, eps, alphas)
    path = follow(model, data, l1_ratio, grid)
    gaps = np.array([result.gap / data.total_weight for result in path.results])
    found = grid, path.coefs, gaps
    return (*found, [result.rounds for result in path.results]) if return_n_iter else found


def follow(model: Any, data: Data, l1_ratio: float, grid: Vector) -> Path:
    """The path of an elastic net over the network."""
    objective = net_objective(model, data, 1.0, l1_ratio)
    return solve_path(
        data.problem(objective),
        data.total_weight * grid,
        tol=model.tol,
        max_rounds=model._limit(),
        stop=model.stop,
        record_every=RECORD_EVERY,
        **model._network(data),
    )


def alpha_grid(model: Any, data: Data, l1_ratio: float, eps: float, alphas: AnyArray) -> Vector:
    """From the smallest weight at which all coefficients are zero down to eps times that; or what was given, sorted."""
    if not isinstance(alphas, int | np.integer):
        grid = np.sort(np.asarray(alphas, dtype=np.float64))[::-1]
        if grid.ndim != 1 or not len(grid) or not (grid > 0).all():
            raise InvalidInput("alphas must be positive numbers, or how many there are to be")
        return grid
    if alphas < 1:
        raise InvalidInput(f"alphas must be at least 1, got {alphas}")
    if l1_ratio == 0:
        raise InvalidInput("with l1_ratio=0 no weight makes all coefficients zero: give alphas yourself")
    total = data.total_weight
    by_features = data.split == "features"
    parts = data.parts
    mean = 0.0
    if model.fit_intercept:
        holders = parts[:1] if by_features else parts
        mean = sum(float((w * y).sum()) for _, y, w in holders) / total
    pulls = [np.asarray(X.T @ (w * (y - mean))) for X, y, w in parts]
    pull = np.concatenate(pulls) if by_features else np.sum(pulls, axis=0)
    top = float(np.abs(pull).max()) / (total * l1_ratio)
    if top <= np.finfo(float).resolution:
        return np.full(int(alphas), np.finfo(float).resolution)
    return np.geomspace(top, top * eps, num=int(alphas))


class ElasticNetCV(NetworkRegressor):
    """`ElasticNet` with the weight alpha (and l1_ratio, if several are given) that predicts held-out samples best.

    Folds are made inside every node, so no node sees another's data. Split by samples each node puts its own rows into
    folds and tells the sum of its squared errors. Split by features all nodes leave out the same rows of their own
    columns; what they predict for those is one more sum of a number per row. precompute, copy_X and selection are
    accepted and mean nothing here. `mse_path_`, `alphas_`, `alpha_`, `l1_ratio_` are as in scikit-learn, and
    `communications_` counts those of all paths.
    """

    def __init__(
        self, *, l1_ratio: Any = 0.5, eps: float = 1e-3, alphas: AnyArray = 100, fit_intercept: bool = True,
        precompute: Any = "auto", max_iter: int | None = None, tol: float = 1e-6, cv: Any = None, copy_X: bool = True,
        verbose: int = 0, n_jobs: int | None = None, positive: bool = False, random_state: Any = None,
        selection: str = "cyclic", n_nodes: int = 16, topology: Any = "ring", split: str = "auto",
        max_rounds: int = 10_000, local_passes: int | None = None, stop: str = "gap", runtime: str = "simulation",
    ) -> None:  # fmt: skip
        self.l1_ratio = l1_ratio
        self.eps = eps
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.max_iter = max_iter
        self.tol = tol
        self.cv = cv
        self.copy_X = copy_X
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.positive = positive
        self.random_state = random_state
        self.selection = selection
        self.n_nodes = n_nodes
        self.topology = topology
        self.split = split
        self.max_rounds = max_rounds
        self.local_passes = local_passes
        self.stop = stop
        self.runtime = runtime

    def _objective(self, data: Data) -> Any:
        ratios = np.atleast_1d(self.l1_ratio)
        return net_objective(self, data, getattr(self, "alpha_", 1.0), getattr(self, "l1_ratio_", float(ratios.max())))

    def _fit(self, data: Data) -> Self:
        ratios = [float(ratio) for ratio in np.atleast_1d(self.l1_ratio)]
        grids = [alpha_grid(self, data, ratio, self.eps, self.alphas) for ratio in ratios]
        folds = list(self._folds(data))
        errors = np.empty((len(ratios), len(grids[0]), len(folds)))
        self.communications_ = 0
        for r, (ratio, grid) in enumerate(zip(ratios, grids, strict=True)):
            for f, (train, test) in enumerate(folds):
                path = follow(self, data.rows(train), ratio, grid)
                self.communications_ += path.communications
                errors[r, :, f] = _errors(data.rows(test), path)
        mean = errors.mean(axis=2)
        best, chosen = divmod(int(np.argmin(mean)), mean.shape[1])
        self.l1_ratio_, self.alpha_ = ratios[best], float(grids[best][chosen])
        self.mse_path_: AnyArray = errors[0] if len(ratios) == 1 else errors
        self.alphas_: AnyArray = grids[0] if len(ratios) == 1 else np.array(grids)
        super()._fit(data)
        del self._variables
        return self

    def fit(self, X: AnyArray, y: AnyArray, sample_weight: AnyArray = None) -> Self:
        """Learns from pooled data, dealt out over a simulated network."""
        self._forget()
        return super().fit(X, y, sample_weight)

    def fit_nodes(self, parts: Sequence[Any]) -> Self:
        """Learns from data that is apart, as `ElasticNet.fit_nodes`."""
        self._forget()
        return super().fit_nodes(parts)

    def _forget(self) -> None:
        for name in ("alpha_", "l1_ratio_"):
            if hasattr(self, name):
                delattr(self, name)

    def _folds(self, data: Data) -> Iterable[tuple[list[Indices], list[Indices]]]:
        """(rows to learn from, rows to test on) of every part, fold by fold."""
        X, y, _ = data.parts[0]
        if data.pooled or data.split == "features":
            for train, test in check_cv(self.cv).split(X, y):
                yield [train] * len(data.parts), [test] * len(data.parts)
            return
        n_folds = 5 if self.cv is None else self.cv
        if not isinstance(n_folds, int | np.integer) or n_folds < 2:
            raise InvalidInput(f"on data that is apart cv is a number of folds >= 2, got {self.cv!r}")
        tests = [_own_folds(len(y), int(n_folds)) for _, y, _ in data.parts]
        for f in range(n_folds):
            test = [own[f] for own in tests]
            yield [np.setdiff1d(np.arange(len(y)), t) for (_, y, _), t in zip(data.parts, test, strict=True)], test


def _own_folds(n: int, n_folds: int) -> list[Indices]:
    """As even as can be; a node with few samples has empty folds."""
    if n >= n_folds:
        return [test for _, test in KFold(n_folds).split(np.zeros(n))]
    return [np.arange(n)[f : f + 1] for f in range(n_folds)]


def _errors(data: Data, path: Path) -> Vector:
    """The weighted mean squared error of every solution of a path."""
    coefs: Matrix = path.coefs
    total = data.total_weight
    if data.split == "features":
        widths = np.cumsum([X.shape[1] for X, _, _ in data.parts])[:-1]
        shares = [X @ own for (X, _, _), own in zip(data.parts, np.split(coefs, widths), strict=True)]
        _, y, weight = data.parts[0]
        off = y[:, None] - np.sum(shares, axis=0) - path.intercepts
        return np.asarray((weight[:, None] * off**2).sum(axis=0) / total)
    sums = [(w[:, None] * (y[:, None] - X @ coefs - path.intercepts) ** 2).sum(axis=0) for X, y, w in data.parts]
    return np.asarray(np.sum(sums, axis=0) / total)


class LassoCV(ElasticNetCV):
    """`Lasso` with the weight alpha that predicts held-out samples best: `ElasticNetCV` with l1_ratio=1."""

    def __init__(
        self, *, eps: float = 1e-3, alphas: AnyArray = 100, fit_intercept: bool = True, precompute: Any = "auto",
        max_iter: int | None = None, tol: float = 1e-6, copy_X: bool = True, cv: Any = None, verbose: int = 0,
        n_jobs: int | None = None, positive: bool = False, random_state: Any = None, selection: str = "cyclic",
        n_nodes: int = 16, topology: Any = "ring", split: str = "auto", max_rounds: int = 10_000,
        local_passes: int | None = None, stop: str = "gap", runtime: str = "simulation",
    ) -> None:  # fmt: skip
        super().__init__(
            l1_ratio=1.0, eps=eps, alphas=alphas, fit_intercept=fit_intercept, precompute=precompute, max_iter=max_iter,
            tol=tol, cv=cv, copy_X=copy_X, verbose=verbose, n_jobs=n_jobs, positive=positive, random_state=random_state,
            selection=selection, n_nodes=n_nodes, topology=topology, split=split, max_rounds=max_rounds,
            local_passes=local_passes, stop=stop, runtime=runtime,
        )  # fmt: skip
