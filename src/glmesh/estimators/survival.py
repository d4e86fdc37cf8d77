"""Regression of survival times: Cox's proportional hazards, stratified by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from glmesh.engine.result import Result
from glmesh.engine.solve import solve
from glmesh.errors import InvalidData
from glmesh.estimators.base import NetworkEstimator, run_options
from glmesh.estimators.clusters import clustered, of_parts, of_rows
from glmesh.estimators.inference import InferenceMixin
from glmesh.estimators.objective import Objective, TrainingData, number
from glmesh.functions import Cox, Separable
from glmesh.functions.risk_sets import Ties
from glmesh.problem.named import check_known, refuse_permuted
from glmesh.types import Data, Vector


@dataclass(kw_only=True, eq=False, repr=False)
class CoxRegressor(InferenceMixin, NetworkEstimator):
    """Cox's proportional hazards over a network, stratified by site: every node has a baseline hazard of its own.

    The hazard of a row x of node k at time t is h_k(t) exp(x.w), for any function h_k. Rows are compared with those at
    risk at the same node only, so that no times and no risk sets leave a node. Minimises, over coefficients w ::

        -log(partial likelihood) + alpha penalty(w)

    as R's ``coxph(Surv(time, event) ~ x + strata(site), weights=...)`` does where alpha is 0.

    Parameters
    ----------
    ties : {"efron", "breslow"}, default "efron"
        What is done where several rows of a node have the event at the same time.
    penalty : {"l2", "l1", "elasticnet"} or Separable, default "l2"
        "l2" is half the squared norm; a `Separable` with a term per coefficient is for instance `NonNegative()` of
        `glmesh.functions`.
    alpha : float, default 0.0
        Factor of the penalty, >= 0.
    l1_ratio : float or None, default None
        Share of "l1" in "elasticnet"; None: 0.5 there. Refused with any other penalty.
    topology : str or networkx.Graph, default "ring"
        Connected communication graph; `glmesh topology list` prints the names.
    tol : float, default 1e-6
        With a penalty: stop when the duality gap is at most tol times the absolute value of the objective.
    tol_se : float, default 1e-6
        With alpha=0: the fit ends when each coefficient is proven to be within this many standard errors of the exact
        estimate.
    max_rounds : int, default 10_000
        Stop after as many rounds with a ConvergenceWarning.
    max_iter : int or None, default None
        scikit-learn's name of `max_rounds`, which it overrides; None: `max_rounds` counts.
    stop : {"gap", "certificate", "rounds"}, default "gap"
        "gap": the simulator measures the duality gap. "certificate": the nodes prove it by messages to neighbours.
        "rounds": do `max_rounds` rounds.
    runtime : {"simulation", "mpi"}, default "simulation"
        "mpi": the ranks of an MPI program host the nodes; every rank calls `fit` with the same rows.
    random_state : int, RandomState or None, default None
        Seed of the run; None: 0. The model does not depend on it.
    n_jobs : int or None, default None
        Number of threads; None: one per core if the data is large enough to be worth it.
    verbose : int, default 0
        Other than 0: write objective and gap to stderr every 100 rounds, and why the fit stopped.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients w, logarithms of hazard ratios. There is no intercept: it would cancel.
    hazard_ratios_ : array of shape (n_features,)
        exp(w): by what factor the hazard is larger where a feature is larger by one.
    fit_intercept : bool
        False: an intercept would cancel.
    n_nodes : int
        1, and not read: there are as many nodes as strata.
    split : str
        "samples": a node holds rows, with all features.
    local_passes : None
        Not read: nodes add up totals, and solve no problems of their own.
    strata_ : array of shape (n_strata,)
        Names of the strata as `fit` was given them, in the order of the nodes; numbers of the parts of `fit_nodes`.
    n_iter_ : int
        Rounds done.
    dual_gap_ : float
        Duality gap, in the scaling of the objective above.
    result_ : Result
        Status, history and estimates of the run.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Names of the features, if X had them.

    Examples
    --------
    >>> import numpy as np
    >>> import glmesh
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1))
    >>> time, event = rng.exponential(np.exp(-X[:, 0])), rng.random(200) < 0.7
    >>> hospital = np.repeat(["north", "south"], 100)
    >>> model = glmesh.CoxRegressor().fit(X, time, event, strata=hospital)
    >>> model.coef_.round(1), model.hazard_ratios_.round(1), model.strata_.tolist()
    (array([0.9]), array([2.5]), ['north', 'south'])
    """

    ties: Ties = "efron"
    penalty: str | Separable = "l2"
    alpha: float = 0.0
    l1_ratio: float | None = None
    tol_se: float = 1e-6
    fit_intercept: bool = field(default=False, init=False)
    n_nodes: int = field(default=1, init=False)  # there are as many nodes as strata
    split: str = field(default="samples", init=False)
    local_passes: int | None = field(default=None, init=False)

    def fit(  # type: ignore[override]
        self,
        X: Data,
        time: ArrayLike,
        event: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        strata: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Learn from pooled data; each stratum becomes a simulated node, because risk sets cannot be cut.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        time : array of shape (n_samples,)
            Time > 0 at which the event happened or the sample was censored; times are tied where they are equal.
        event : array of shape (n_samples,)
            Whether the event happened (True or 1), or the sample was censored (False or 0).
        sample_weight : array of shape (n_samples,) or None, default None
            Case weights >= 0 as those of R's coxph; None: 1.
        strata : array of shape (n_samples,) or None, default None
            Name of each sample's stratum, such as its site: a number or a text. Strata have baseline hazards of their
            own. None: all samples are one stratum with one baseline hazard, and there is one node.
        clusters : array of shape (n_samples,) or None, default None
            Labels of clusters of rows that may depend on each other, for standard errors of kind "cluster".

        Returns
        -------
        self
            The fitted estimator.
        """
        numbers = of_rows(clusters, time)
        with self._training(lambda: self._by_strata(X, time, event, sample_weight, strata)) as data:
            self._fit(data)
        of = np.zeros(1, dtype=np.int64) if strata is None else np.unique(np.asarray(strata), return_inverse=True)[1]
        each = [np.flatnonzero(of == k) if strata is not None else slice(None) for k in range(len(self.strata_))]
        self.result_: Result = clustered(self.result_, None if numbers is None else [numbers[own] for own in each])
        return self

    def fit_nodes(
        self, parts: Sequence[tuple[Data, ...]], *, clusters: Sequence[ArrayLike] | str | None = None
    ) -> Self:
        """Learn from data that each node keeps to itself; only messages to neighbours leave a node.

        Parameters
        ----------
        parts : sequence of (X_k, time_k, event_k) or (X_k, time_k, event_k, sample_weight_k)
            Samples of node k, which are one stratum, as in `fit`. Columns of data frames go by name: they are put in
            the order of the first part.
        clusters : sequence of arrays of shape (m_k,), "site" or None, default None
            Labels of clusters inside of each part, for standard errors of kind "cluster"; equal labels of two parts are
            two clusters. "site": the rows of each part are one cluster.

        Returns
        -------
        self
            The fitted estimator.
        """
        numbers = of_parts(clusters, parts)
        with self._training(lambda: self._of_nodes(parts)) as data:
            self._fit(replace(data, clusters=numbers))
        return self

    def predict(self, X: Data) -> Vector:
        """Return X w, the logarithm of each sample's hazard ratio to one of the same stratum whose features are all 0.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples,)
            Log hazard ratios; the larger, the sooner the event is expected.
        """
        return np.asarray(self._scores(X))

    @property
    def hazard_ratios_(self) -> Vector:
        """Return exp(w), shape (n_features,); infinite where that is too large a number."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.coef_))

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective: minus the log partial likelihood plus alpha times the penalty."""
        return Objective(Cox(self.ties), self.penalty, number(self.alpha, "alpha"), self.l1_ratio, intercept="none")

    def _by_strata(
        self, X: Data, time: ArrayLike, event: ArrayLike, sample_weight: ArrayLike | None, strata: ArrayLike | None
    ) -> TrainingData:
        """Check pooled data and return it as TrainingData with a part per stratum; set the attribute strata_."""
        y = signed_times(X, time, event, "")
        refuse_permuted(X, strata, "strata", "X")
        rows, y, weight = self._validated(X, y, sample_weight, y_numeric=True).parts[0]
        names, of = np.zeros(1, dtype=np.int64), np.zeros(len(y), dtype=np.int64)
        if strata is not None:
            check_known(strata, "strata")
            given = np.asarray(strata)
            if given.shape != y.shape:
                raise InvalidData(f"strata has shape {given.shape}; X has {len(y)} rows, and each needs one name")
            names, of = np.unique(given, return_inverse=True)
        self.strata_ = names
        each = [np.flatnonzero(of == k) for k in range(len(names))]
        parts = [(rows[own], y[own], weight[own]) for own in each]
        return TrainingData(parts, pooled=False, split="samples", names=self._names)

    def _of_nodes(self, parts: Sequence[tuple[Data, ...]]) -> TrainingData:
        """Check data that is given node by node and return it as TrainingData; set the attribute strata_."""
        signed: list[tuple[Data, ...]] = []
        for k, part in enumerate(parts):
            if not isinstance(part, tuple | list) or len(part) not in (3, 4):
                raise InvalidData(f"part {k} must be (X, time, event) or (X, time, event, sample_weight)")
            X, time, event, *weight = part
            signed.append((X, signed_times(X, time, event, f"part {k}: "), *weight))
        data = self._validated_parts(signed, numeric=True)
        self.strata_ = np.arange(len(data.parts))
        return data

    def _fit(self, data: TrainingData) -> Self:
        """Solve the problem on checked data, set the fitted attributes (coef_, hazard_ratios_, ...); return self."""
        objective = self._objective(data)
        report = self._report if self.verbose else None
        result = solve(data.problem(objective), callback=report, **run_options(self, data, objective))
        self._tell([result], data.split)
        self.result_ = result
        self.coef_, self.intercept_ = self._coefficients(result, objective)
        self.n_iter_ = max(result.rounds, 1)
        self.dual_gap_, self._unit = objective.unit * result.gap, objective.unit
        return self


def signed_times(X: Data, time: object, event: object, where: str) -> Vector:
    """Return +time where the event happened and -time where it did not, shape (m,), the targets of `Cox`.

    `where` is put before names in messages. Raise InvalidData for a time that is not a finite number > 0, an event
    other than True, False, 1 and 0, and other lengths.
    """
    for name, values in (("time", time), ("event", event)):
        refuse_permuted(X, values, f"{where}{name}", f"{where}X")
        check_known(values, f"{where}{name}")
    try:
        times, happened = np.asarray(time, dtype=np.float64), np.asarray(event, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"{where}time and event must be numbers (event also True or False)") from None
    if times.ndim != 1 or times.shape != happened.shape:
        raise InvalidData(
            f"{where}time has shape {times.shape} and event {happened.shape}; each needs one per row of X"
        )
    if (wrong := ~(times > 0)).any():
        at = int(np.argmax(wrong))
        raise InvalidData(f"{where}time is {times[at]:g} at row {at}; it must be > 0, let times begin a little earlier")
    if (wrong := (happened != 0) & (happened != 1)).any():
        at = int(np.argmax(wrong))
        raise InvalidData(f"{where}event is {happened[at]:g} at row {at}; it must be True, False, 1 or 0")
    return np.where(happened == 1, times, -times)
