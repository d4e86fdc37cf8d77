"""Weights of the elastic net chosen by cross-validation, with folds inside every node."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from glmesh.errors import InvalidInput
from glmesh.estimators.least_squares import ElasticNetRegressor, net_objective
from glmesh.estimators.objective import Objective, TrainingData
from glmesh.estimators.paths import alpha_grid, elastic_net_paths
from glmesh.methods.totals.cross_validation import rows_of_folds
from glmesh.types import Data, Indices, Matrix, Vector


@dataclass(kw_only=True, eq=False, repr=False)
class ElasticNetCV(ElasticNetRegressor):
    """`ElasticNet` with the alpha and l1_ratio that predict held-out samples best, as scikit-learn's ElasticNetCV.

    Folds are made inside every node, so no node sees another's data. Split by samples each node puts its own rows into
    folds and tells the sum of its squared errors. Split by features all nodes leave out the same rows of their own
    columns; their predictions for these rows are one more sum, of a number per row.

    Parameters
    ----------
    l1_ratio : float or list of float, default 0.5
        Share of the L1 penalty, between 0 and 1; of several the best is chosen.
    eps : float, default 1e-3
        Smallest weight divided by the largest, at which all coefficients become zero.
    alphas : int or array, default 100
        Number of weights to try, in geometric progression; or the weights themselves, > 0.
    cv : int, splitter, iterable or None, default None
        Folds, as in scikit-learn; None: 5. On samples that are apart it must be a number.
    fit_intercept : bool, default True
        Whether there is an intercept b; it is not penalised.
    precompute : bool or str, default "auto"
        Accepted as in scikit-learn, without effect.
    copy_X : bool, default True
        Accepted as in scikit-learn, without effect: X is never changed.
    positive : bool, default False
        Whether coefficients must be >= 0.
    selection : str, default "cyclic"
        Accepted as in scikit-learn, without effect.
    n_nodes : int, default 16
        K, the number of nodes that `fit` deals the data out to; `fit_nodes` has one node per part.
    topology : str or networkx.Graph, default "ring"
        Connected communication graph; `glmesh topology list` prints the names.
    split : {"auto", "samples", "features"}, default "auto"
        What a node holds. "auto": of the splits that loss and penalty allow, the one whose messages take less time by
        the cost model of `glmesh.methods.choice`, mostly "samples"; in `fit_nodes` always "samples".
    tol : float, default 1e-6
        Stop when the duality gap is at most tol times the absolute value of the objective.
    max_rounds : int, default 10_000
        Stop after as many rounds with a ConvergenceWarning.
    max_iter : int or None, default None
        scikit-learn's name of `max_rounds`, which it overrides; None: `max_rounds` counts.
    local_passes : int or None, default None
        Passes over its data that a node makes each round; None: 2. With an odd number there is no acceleration.
    stop : {"gap", "certificate", "rounds"}, default "gap"
        "gap": the simulator measures the duality gap. "certificate": the nodes prove it by messages to neighbours.
        "rounds": do `max_rounds` rounds.
    runtime : {"simulation", "mpi"}, default "simulation"
        "mpi": the ranks of an MPI program host the nodes; every rank calls `fit`, whose `rows` says with which rows.
    random_state : int, RandomState or None, default None
        Seed of the partition of pooled data; None: 0.
    n_jobs : int or None, default None
        Number of threads; None: one per core if the data is large enough to be worth it.
    verbose : int, default 0
        Other than 0: write objective and gap to stderr every 100 rounds, and why the fit stopped.

    Attributes
    ----------
    l1_ratio_ : float
        Share of the L1 penalty that was chosen.
    alpha_ : float
        Weight that was chosen.
    alphas_ : array of shape (n_alphas,) or (n_l1_ratios, n_alphas)
        Weights that were tried, descending.
    mse_path_ : array of shape (n_alphas, n_folds) or (n_l1_ratios, n_alphas, n_folds)
        Mean squared error on the held-out samples.
    communications_ : int
        Exchanges between neighbours of all paths together; where nodes hold rows all folds and weights travel in the
        same few totals.
    coef_ : array of shape (n_features,)
        Coefficients w.
    intercept_ : float
        Intercept b; 0.0 without.
    n_iter_ : int
        Rounds done.
    dual_gap_ : float
        Duality gap, in the scaling of the objective above.
    split_ : {"samples", "features"}
        What the nodes held.
    result_ : Result
        Status, history and estimates of the run.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Names of the features, if X had them.

    Examples
    --------
    >>> import glmesh
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = glmesh.ElasticNetCV(l1_ratio=[0.5, 0.9], alphas=[0.01, 1.0], cv=3, n_nodes=2, split="features")
    >>> model.fit(X, y).alpha_, model.l1_ratio_, model.mse_path_.shape
    (0.01, 0.9, (2, 2, 3))
    """

    l1_ratio: Any = 0.5
    eps: float = 1e-3
    alphas: ArrayLike = 100
    cv: object = None
    precompute: object = "auto"

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective of the elastic net with the alpha and l1_ratio that cross-validation chose.

        Before they are chosen it is that with alpha = 1 and the largest l1_ratio, which decides which splits are
        possible.
        """
        ratio = getattr(self, "l1_ratio_", float(np.max(self.l1_ratio)))
        return net_objective(self, data, getattr(self, "alpha_", 1.0), ratio)

    def _fit(self, data: TrainingData) -> Self:
        """Measure every (l1_ratio, alpha) by cross-validation, fit the best on all data, and return self."""
        ratios = [float(ratio) for ratio in np.atleast_1d(self.l1_ratio)]
        grids = [alpha_grid(self, data, ratio, self.eps, self.alphas) for ratio in ratios]
        folds = list(folds_of(data, self.cv))
        errors = np.empty((len(ratios), len(grids[0]), len(folds)))
        trains, tests = [train for train, _ in folds], [data.rows(test) for _, test in folds]
        found = elastic_net_paths(self, data, list(zip(ratios, grids, strict=True)), trains)
        for number, (coefs, intercepts) in enumerate(found.models):
            r, f = divmod(number, len(folds))
            errors[r, :, f] = _squared_errors(tests[f], coefs, intercepts)
        self.communications_ = found.communications
        if found.unfinished:
            warnings.warn(
                f"{found.unfinished} of {errors.size} fits of the cross-validation stopped before the tolerance was "
                "reached; raise max_rounds or relax tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        mean = errors.mean(axis=2)
        best, chosen = divmod(int(np.argmin(mean)), mean.shape[1])
        self.l1_ratio_, self.alpha_ = ratios[best], float(grids[best][chosen])
        self.mse_path_: Matrix = errors[0] if len(ratios) == 1 else errors
        self.alphas_: Matrix = grids[0] if len(ratios) == 1 else np.array(grids)
        super()._fit(data)
        del self._variables
        return self

    def fit(self, X: Data, y: ArrayLike, sample_weight: ArrayLike | None = None, *, rows: str = "all") -> Self:
        """Learn from pooled data, dealt out over a simulated network.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,)
            Targets.
        sample_weight : array of shape (n_samples,) or None, default None
            Factors >= 0 of the samples' losses; None: 1.
        rows : {"all"}, default "all"
            Every rank of runtime="mpi" passes all rows; folds are drawn from all of them.

        Returns
        -------
        self
            The fitted estimator.
        """
        if rows == "own":
            raise InvalidInput("folds are drawn from all rows, so cross-validation needs rows='all'")
        self._forget()
        return super().fit(X, y, sample_weight, rows=rows)

    def fit_nodes(self, parts: Sequence[tuple[Data, ...]]) -> Self:
        """Learn from data that each node keeps to itself; only messages to neighbours leave a node.

        Parameters
        ----------
        parts : sequence of (X_k, y_k) or (X_k, y_k, sample_weight_k)
            Data of node k, as for `ElasticNet.fit_nodes`. Split by samples `cv` is a number of folds.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._forget()
        return super().fit_nodes(parts)

    def _forget(self) -> None:
        """Drop alpha_ and l1_ratio_ of an earlier fit, which `_objective` would use."""
        for name in ("alpha_", "l1_ratio_"):
            if hasattr(self, name):
                delattr(self, name)


@dataclass(kw_only=True, eq=False, repr=False)
class LassoCV(ElasticNetCV):
    """`Lasso` with the alpha that predicts held-out samples best, as scikit-learn's LassoCV.

    Folds are made inside every node, so no node sees another's data. Split by samples each node puts its own rows into
    folds and tells the sum of its squared errors. Split by features all nodes leave out the same rows of their own
    columns; their predictions for these rows are one more sum, of a number per row.

    Parameters
    ----------
    eps : float, default 1e-3
        Smallest weight divided by the largest, at which all coefficients become zero.
    alphas : int or array, default 100
        Number of weights to try, in geometric progression; or the weights themselves, > 0.
    cv : int, splitter, iterable or None, default None
        Folds, as in scikit-learn; None: 5. On samples that are apart it must be a number.
    fit_intercept : bool, default True
        Whether there is an intercept b; it is not penalised.
    precompute : bool or str, default "auto"
        Accepted as in scikit-learn, without effect.
    copy_X : bool, default True
        Accepted as in scikit-learn, without effect: X is never changed.
    positive : bool, default False
        Whether coefficients must be >= 0.
    selection : str, default "cyclic"
        Accepted as in scikit-learn, without effect.
    n_nodes : int, default 16
        K, the number of nodes that `fit` deals the data out to; `fit_nodes` has one node per part.
    topology : str or networkx.Graph, default "ring"
        Connected communication graph; `glmesh topology list` prints the names.
    split : {"auto", "samples", "features"}, default "auto"
        What a node holds. "auto": of the splits that loss and penalty allow, the one whose messages take less time by
        the cost model of `glmesh.methods.choice`, mostly "samples"; in `fit_nodes` always "samples".
    tol : float, default 1e-6
        Stop when the duality gap is at most tol times the absolute value of the objective.
    max_rounds : int, default 10_000
        Stop after as many rounds with a ConvergenceWarning.
    max_iter : int or None, default None
        scikit-learn's name of `max_rounds`, which it overrides; None: `max_rounds` counts.
    local_passes : int or None, default None
        Passes over its data that a node makes each round; None: 2. With an odd number there is no acceleration.
    stop : {"gap", "certificate", "rounds"}, default "gap"
        "gap": the simulator measures the duality gap. "certificate": the nodes prove it by messages to neighbours.
        "rounds": do `max_rounds` rounds.
    runtime : {"simulation", "mpi"}, default "simulation"
        "mpi": the ranks of an MPI program host the nodes; every rank calls `fit`, whose `rows` says with which rows.
    random_state : int, RandomState or None, default None
        Seed of the partition of pooled data; None: 0.
    n_jobs : int or None, default None
        Number of threads; None: one per core if the data is large enough to be worth it.
    verbose : int, default 0
        Other than 0: write objective and gap to stderr every 100 rounds, and why the fit stopped.

    Attributes
    ----------
    l1_ratio : float
        1.0, always.
    l1_ratio_ : float
        1.0, always.
    alpha_ : float
        Weight that was chosen.
    alphas_ : array of shape (n_alphas,) or (n_l1_ratios, n_alphas)
        Weights that were tried, descending.
    mse_path_ : array of shape (n_alphas, n_folds) or (n_l1_ratios, n_alphas, n_folds)
        Mean squared error on the held-out samples.
    communications_ : int
        Exchanges between neighbours of all paths together; where nodes hold rows all folds and weights travel in the
        same few totals.
    coef_ : array of shape (n_features,)
        Coefficients w.
    intercept_ : float
        Intercept b; 0.0 without.
    n_iter_ : int
        Rounds done.
    dual_gap_ : float
        Duality gap, in the scaling of the objective above.
    split_ : {"samples", "features"}
        What the nodes held.
    result_ : Result
        Status, history and estimates of the run.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Names of the features, if X had them.

    Examples
    --------
    >>> import glmesh
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = glmesh.LassoCV(alphas=[0.1, 1.0, 10.0], cv=3, n_nodes=2, tol=1e-4).fit(X, y)
    >>> model.alpha_, model.mse_path_.shape
    (0.1, (3, 3))
    """

    l1_ratio: Any = field(default=1.0, init=False)


def folds_of(data: TrainingData, cv: object) -> Iterator[tuple[list[Indices], list[Indices]]]:
    """Yield (rows to learn from, rows to test on) for each fold.

    Either is a list with an array of row numbers per part, where a part is the data of one node, or all data if it is
    pooled. `cv` is as in scikit-learn (None: 5 folds); where nodes hold samples apart it must be a number of folds.
    """
    X, y, _ = data.parts[0]
    if data.pooled or data.split == "features":
        for train, test in check_cv(cv).split(X, y):
            yield [train] * len(data.parts), [test] * len(data.parts)
        return
    n_folds = 5 if cv is None else cv
    if not isinstance(n_folds, int | np.integer) or n_folds < 2:
        raise InvalidInput(f"on data that is apart cv is a number of folds >= 2, got {cv!r}")
    sizes = [len(y) for _, y, _ in data.parts]
    each = [rows_of_folds(size, int(n_folds)) for size in sizes]
    for tests in zip(*each, strict=True):
        yield [np.setdiff1d(np.arange(size), test) for size, test in zip(sizes, tests, strict=True)], list(tests)


def _squared_errors(data: TrainingData, coefs: Matrix, intercepts: Vector) -> Vector:
    """Return the weighted mean squared error of each of n models on the samples of `data`, shape (n,).

    `coefs` has a column per model, shape (p, n); `intercepts` has shape (n,).
    """
    total = data.total_weight
    if data.split == "features":
        widths = np.cumsum([X.shape[1] for X, _, _ in data.parts])[:-1]
        shares = [X @ own for (X, _, _), own in zip(data.parts, np.split(coefs, widths), strict=True)]
        _, y, weight = data.parts[0]
        errors = y[:, None] - np.sum(shares, axis=0) - intercepts
        return np.asarray((weight[:, None] * errors**2).sum(axis=0) / total)
    sums = [(w[:, None] * (y[:, None] - X @ coefs - intercepts) ** 2).sum(axis=0) for X, y, w in data.parts]
    return np.asarray(np.sum(sums, axis=0) / total)
