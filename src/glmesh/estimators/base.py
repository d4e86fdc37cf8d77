"""What all estimators share: the parameters of the network, validation, and what a fit leaves behind."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from glmesh.core.block import NetworkInfo
from glmesh.engine.agreement import digest, require_same, versions
from glmesh.engine.result import Result
from glmesh.engine.run import Run
from glmesh.engine.solve import process_group
from glmesh.errors import InvalidData, InvalidInput, Mismatch, UnsuitablePair
from glmesh.estimators.formulas import FormulaMixin
from glmesh.estimators.objective import Objective, TrainingData, number
from glmesh.estimators.shown import Shown
from glmesh.methods import Cola
from glmesh.network import topology
from glmesh.problem import Split
from glmesh.problem.named import (
    check_finite,
    check_known,
    check_rows,
    in_order,
    named_matrix,
    refuse_permuted,
    target_name,
)
from glmesh.types import Data, SampleMatrix, Vector
from glmesh.validation import one_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAY_DIFFER = ("n_jobs", "verbose", "random_state")  # parameters that ranks need not share; `solve` compares the seed
# options of `validate_data`: NaN and infinity are left to `check_finite`, which says where they are
MATRIX_CHECKS: dict[str, object] = {
    "accept_sparse": ("csr", "csc"),
    "dtype": np.float64,
    "ensure_all_finite": False,
}
_BY_FEATURES = (
    "fit_nodes takes parts as rows unless told otherwise: say split='features' if every part holds columns of its own "
    "of the same samples, in the same order."
)
RECORD_EVERY = 5  # [rounds] between measurements of the gap: one takes about as long as a round
REPORT_EVERY = 100  # [rounds] between lines of a verbose fit


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkEstimator(FormulaMixin, Shown, ABC):
    """Base class of all estimators, with scikit-learn's interface: `fit` learns by CoLA over a network of nodes.

    The fields are the parameters that all estimators have; each documents them for itself.
    """

    fit_intercept: bool = True
    n_nodes: int = 16
    topology: str | nx.Graph = "ring"
    split: str = "auto"
    tol: float = 1e-6
    max_rounds: int = 10_000
    max_iter: int | None = None
    local_passes: int | None = None
    stop: str = "gap"
    runtime: str = "simulation"
    random_state: object = None
    n_jobs: int | None = None
    verbose: int = 0

    # --- what subclasses say

    @abstractmethod
    def fit(self, X: Data, y: ArrayLike, sample_weight: ArrayLike | None = None, *, rows: str = "all") -> Self:
        """Learn from pooled X of shape (m, p) and y of shape (m,), dealt out over a simulated network; return self.

        sample_weight has shape (m,), None is 1 each. `rows` "all": every MPI rank has all rows; "own": each has rows of
        its own.
        """

    @abstractmethod
    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective that the estimator's parameters stand for on this data."""

    # --- validation

    def _validated(self, X: Data, y: ArrayLike, sample_weight: ArrayLike | None, **checks: object) -> TrainingData:
        """Check pooled X, y and weights as scikit-learn does; return them as TrainingData.

        Its split, who holds what, is the one that the parameter `split` asks for; "auto" is the cheaper one by the cost
        model. `checks` are options of scikit-learn's `validate_data`.
        """
        self._forget_design()
        named_matrix(X, "X")  # refuses text and missing values of a data frame by the name of the column
        check_known(y, "y")
        check_known(sample_weight, "sample_weight")
        for name, values in (("y", y), ("sample_weight", sample_weight)):
            refuse_permuted(X, values, name, "X")
        rows, targets = validate_data(self, X, y, **MATRIX_CHECKS, **checks)
        check_finite(rows, "X", None)
        self._target = target_name(y)
        weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        targets = targets.astype(np.float64) if checks.get("y_numeric") else targets
        rough = TrainingData([(rows, targets, weight)], pooled=True, split="features")
        split = self._objective(rough).choose(self.split, rows.shape[0], rows.shape[1], self.stop, self._network)
        return TrainingData(rough.parts, pooled=True, split=split, names=self._names)

    def _validated_parts(self, parts: Sequence[tuple[Data, ...]], *, numeric: bool) -> TrainingData:
        """Check data that is given node by node, (X, y) or (X, y, weights) each; return it as TrainingData.

        Its split, what a node holds, is the one that the parameter `split` asks for; "auto" is by samples. Columns of
        data frames go by name. `numeric`: y must be numbers, not labels.
        """
        self._forget_design()
        checked = _checked_parts(parts, numeric=numeric)
        objective = self._objective(TrainingData([data for data, _ in checked], pooled=False, split="features"))
        split = self._split_of_parts(objective)
        check_rows(parts, split)
        targets = [target_name(part[1]) for part in parts]
        ordered = in_order([(X, names) for (X, _, _), names in checked], targets, split)
        data = [(X, y, weight) for (X, _), ((_, y, weight), _) in zip(ordered, checked, strict=True)]
        self._know_features([X.shape[1] for X, _, _ in data], [names for _, names in ordered], split)
        self._target = targets[0] if all(targets) else ""
        names = self._names if self._names is None or len(self._names) == self.n_features_in_ else None
        return TrainingData(data, pooled=False, split=split, names=names)

    @property
    def _names(self) -> tuple[str, ...] | None:
        """Names of the features, as the last data had them; None: it had none."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(map(str, names))

    def _know_features(self, widths: list[int], names_of_parts: Sequence[Sequence[str] | None], split: Split) -> None:
        """Set n_features_in_ and, where columns have names, feature_names_in_, from what each part has.

        `widths` are the numbers of columns of the parts, `names_of_parts` the names of their columns; None: no names.
        Raise InvalidData if parts that are split by samples have different numbers of columns.
        """
        if split == "samples" and len(set(widths)) > 1:
            raise InvalidData(
                f"the parts have {', '.join(map(str, widths))} columns; split by samples all have the same features. "
                f"{_BY_FEATURES}"
            )
        self.n_features_in_ = sum(widths) if split == "features" else widths[0]
        names = [name for own in (names_of_parts if split == "features" else names_of_parts[:1]) for name in own or ()]
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _split_of_parts(self, objective: Objective) -> Split:
        """Return "samples" or "features", the split of data that nodes hold apart: as asked for; "auto" is samples.

        Raise UnsuitablePair, which says what to do, where loss and penalty do not allow that split.
        """
        reason = objective.splits(1, 1)["samples"]
        if self.split == "auto" and reason is not None:
            raise UnsuitablePair(f"{reason} {_BY_FEATURES}")
        return objective.choose("samples" if self.split == "auto" else self.split, 1, 1, self.stop)

    # --- fitting

    @contextmanager
    def _training(self, validated: Callable[[], TrainingData], rows: str = "all") -> Iterator[TrainingData]:
        """Return the context of a fit, whose value is the data; with runtime="mpi" all ranks fit, and fail, together.

        `validated` returns the checked data. `rows` "all": every rank has all rows, which are compared; "own": each
        rank has rows of its own.
        """
        one_of(rows, "rows", ("all", "own"))
        if rows == "own" and self.runtime == "simulation":
            raise InvalidInput("rows='own' is for the ranks of runtime='mpi'; one process has all rows: rows='all'")
        with process_group(self.runtime) as processes:  # type: ignore[arg-type]
            data = replace(validated(), processes=processes)
            if processes.size > 1:
                self._agree(data, rows)
            yield self._own(data) if rows == "own" else data

    @abstractmethod
    def _fit(self, data: TrainingData) -> Self:
        """Solve the problem on checked data, set the fitted attributes (coef_, intercept_, ...), and return self."""

    def _agree(self, data: TrainingData, rows: str) -> None:
        """Raise Mismatch unless all ranks have the same parameters and names of features.

        With rows="all" they must have the same rows too; with rows="own" no two ranks may.
        """
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in _MAY_DIFFER}
        names = getattr(self, "feature_names_in_", None)
        shapes = [X.shape for X, _, _ in data.parts]
        said = versions() | {"estimator": type(self).__name__, "rows": rows} | params
        said |= {"names of features": None if names is None else ", ".join(map(str, names))}
        if rows == "all":
            said |= {"X of shape": shapes[0] if len(shapes) == 1 else shapes, "data": data.parts}
        else:
            said |= {"features": shapes[0][1]}
        same = "pass the same X and y on all ranks, or say fit(..., rows='own') if each rank has rows of its own"
        require_same(data.processes, said, {"X of shape": same, "data": same})
        if rows == "own":
            held = data.processes.all_gather([digest(data.parts) if shapes[0][0] else str(data.processes.rank)])
            first = {one: rank for rank, one in reversed(list(enumerate(held)))}
            twice = [(first[one], rank) for rank, one in enumerate(held) if first[one] != rank]
            if twice:
                raise Mismatch(
                    f"rank {twice[0][1]} and rank {twice[0][0]} have the same rows, which rows='own' would count "
                    "twice; give each rank rows of its own, or say rows='all'"
                )

    def _own(self, data: TrainingData) -> TrainingData:
        """Return `data`, of which each process has rows of its own, with `split` and `deal` set, how to deal it out.

        The split is the one asked for; "auto" is the one that is cheaper for the rows of all processes together.
        """
        options = run_options(self, data)
        K = options["n_nodes"] if isinstance(self.topology, str) else len(self.topology)
        data = replace(data, deal={"n_nodes": K, "seed": options["seed"]}, split="features")
        X = data.parts[0][0]
        m = sum(data.processes.all_gather([int(X.shape[0])]))
        return replace(data, split=self._objective(data).choose(self.split, m, X.shape[1], self.stop, self._network))

    def _network(self) -> NetworkInfo:
        """Return constants of the network that pooled data is dealt out over, such as its diameter.

        They serve the cost model, which chooses between the splits.
        """
        size = self.n_nodes if isinstance(self.topology, str) else None
        return NetworkInfo.of_graph(topology.build(self.topology, size, 0), 0)

    def _start(self, shape: tuple[int, ...], turn: int = 0) -> Vector | None:
        """Return the variables, of this shape, with which an earlier fit of this estimator ended; None: begin at zero.

        `turn` is the number of the problem within a fit, which has one per class. It is None unless the parameter
        warm_start is set and the earlier fit had variables of this shape.
        """
        before = getattr(self, "_variables", []) if getattr(self, "warm_start", False) else []
        return before[turn] if turn < len(before) and before[turn].shape == shape else None

    def _report(self, run: Run) -> None:
        """Write round, objective and gap of a run to stderr every REPORT_EVERY rounds.

        `solve` calls it after each round.
        """
        if run.rounds % REPORT_EVERY == 0 and run.history:
            last = run.history[-1]
            sys.stderr.write(
                f"{type(self).__name__}: round {run.rounds}, objective {last['objective']:.6g}, gap {last['gap']:.2g}\n"
            )

    def _tell(self, results: Sequence[Result], split: Split) -> None:
        """Warn, with a ConvergenceWarning, of each result whose run did not converge.

        If the parameter verbose is set, a line on why each run stopped is written to stderr.
        """
        for result in results:
            if not result.reached:
                warnings.warn(result.message, ConvergenceWarning, stacklevel=4)
            if self.verbose:
                sys.stderr.write(f"{type(self).__name__}, split by {split}: {result.message}\n")

    def _coefficients(self, result: Result, objective: Objective) -> tuple[Vector, float | Vector]:
        """Return (coefficients, intercept) of a result: an array of shape (p,) and a float, or (C, p) and (C,).

        A penalised intercept is the result's last coefficient times `intercept_scaling`; the coefficient 1 of an offset
        is left out.
        """
        if result.problem.spec.offset:
            return result.coef[:-1].copy(), float(result.intercept)
        if objective.intercept == "penalised":
            return result.coef[:-1].copy(), objective.intercept_scaling * float(result.coef[-1])
        return result.coef.copy(), result.intercept

    # --- what a fit leaves behind

    def _scores(self, X: Data) -> Vector:
        """Return X w + b, the linear functions at the m samples X.

        Its shape is (m,) for a regressor; for a classifier it is (m, 1) with two classes, (m, n_classes) with more.
        """
        return np.asarray(self._samples(X) @ self.coef_.T + self.intercept_)

    def _samples(self, X: Data) -> SampleMatrix:
        """Return samples that a fitted estimator is asked about, shape (m, p), checked as scikit-learn does.

        After a fit by a formula a data frame has the columns that the formula names.
        """
        check_is_fitted(self)
        if (designed := self._designed(X)) is not None:
            return designed
        named_matrix(X, "X")
        checked: SampleMatrix = validate_data(self, X, **MATRIX_CHECKS, reset=False)
        check_finite(checked, "X", None)
        return checked

    def plot(self, path: str | PathLike[str] | None = None) -> Figure:
        """Draw objective, gap and consensus of the fit against rounds and bytes.

        Parameters
        ----------
        path : path-like or None, default None
            File to write the figure to (.png, .pdf or .svg); None: no file.

        Returns
        -------
        matplotlib.figure.Figure
            Six panels; a line per class where there are several.
        """
        from glmesh.plot import figures

        check_is_fitted(self)
        results = self.result_ if isinstance(self.result_, list) else [self.result_]
        histories = [
            result.history | {key: self._unit * result.history[key] for key in ("objective", "gap")}
            for result in results
        ]
        return figures.training(histories, path=path, title=type(self).__name__, tol=results[0].tol)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a file of plain arrays, as `glmesh train` does.

        Parameters
        ----------
        path : path-like
            File for `glmesh.load_model` and `glmesh predict`; one that exists is replaced.
        """
        from glmesh.estimators.export import save_model

        save_model(self, path)

    def to_sklearn(self) -> BaseEstimator:
        """Return a fitted estimator of scikit-learn's own class that makes the same predictions as this one."""
        from glmesh.estimators.export import to_sklearn

        return to_sklearn(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, object]:
        """Return the attributes to pickle, as a dict; results in it lack their training data, which is private."""
        state = dict(super().__getstate__())
        if "result_" in state:
            results = state["result_"]
            state["result_"] = (
                [r.without_data() for r in results] if isinstance(results, list) else results.without_data()
            )
        return state


def _checked_parts(
    parts: Sequence[tuple[Data, ...]], *, numeric: bool
) -> list[tuple[tuple[SampleMatrix, Vector, Vector], tuple[str, ...] | None]]:
    """Return what `_checked_part` does of each node's data; raise InvalidData if there is no part, or no row."""
    if not hasattr(parts, "__len__") or not len(parts):
        what = "is empty" if hasattr(parts, "__len__") else f"is {parts!r:.40}, not a list"
        raise InvalidData(f"parts {what}: give one (X, y) per node")
    checked = [_checked_part(k, part, numeric=numeric) for k, part in enumerate(parts)]
    if not any(len(y) for (_, y, _), _ in checked):
        raise InvalidData(f"none of the {len(parts)} parts has a row; give at least one sample")
    return checked


def _checked_part(
    k: int, part: tuple[Data, ...], *, numeric: bool
) -> tuple[tuple[SampleMatrix, Vector, Vector], tuple[str, ...] | None]:
    """Check (X, y) or (X, y, weights) of node k; return ((X, y, weights), names of the columns of X).

    Shapes are (m_k, p_k), (m_k,) and (m_k,); weights are 1 if none are given, names None if X has none. Raise
    InvalidData for any other shape, missing values and negative weights.
    """
    if not isinstance(part, tuple | list) or len(part) not in (2, 3):
        raise InvalidData(f"part {k} must be (X, y) or (X, y, sample_weight)")
    X, y, *weights = part
    X, names = named_matrix(X, f"part {k}: X")
    check_known(y, f"part {k}: y")
    try:
        X = check_array(X, ensure_min_samples=0, **MATRIX_CHECKS)
        y = np.asarray(y, dtype=np.float64 if numeric else None)
        if y.shape != (X.shape[0],):
            raise ValueError(f"X has {X.shape[0]} rows, y has shape {y.shape}")
        given = weights[0] if weights else None
        weight = np.ones(len(y)) if given is None else np.asarray(given, dtype=np.float64)
        if weight.shape != y.shape:
            raise ValueError(f"X has {X.shape[0]} rows, sample_weight has shape {weight.shape}")
    except (TypeError, ValueError) as error:
        raise InvalidData(f"part {k}: {error}") from error
    check_finite(X, f"part {k}: X", names)
    check_known(weight, f"part {k}: sample_weight")
    if (weight < 0).any():
        raise InvalidData(f"part {k}: sample_weight is negative at row {int(np.argmax(weight < 0))}")
    return (X, y, weight), names


def variables_of(result: Result, objective: Objective) -> Vector:
    """Return the variables with which a fit ended, for a warm start, shape (n,).

    After a method on totals, which has no x, these are the coefficients and then the intercept, if it is free; of
    several classes that are fitted together a row for each.
    """
    if result.x is not None:
        return result.x
    if objective.intercept != "free":
        return result.coef
    return np.concatenate([result.coef, np.asarray(result.intercept)[..., None]], axis=-1)


def run_options(estimator: NetworkEstimator, data: TrainingData, objective: Objective | None = None) -> dict[str, Any]:
    """Return the keyword arguments of `solve` and `solve_path` that an estimator's parameters stand for, as a dict.

    If nodes hold samples and a method on totals suits `objective`, that is the method, and every round is recorded,
    because the gap comes with the total. `objective` None: CoLA is the method.
    """
    seed = estimator.random_state
    if seed is None:
        seed = 0
    elif not isinstance(seed, int | np.integer):
        seed = check_random_state(seed).randint(2**31 - 1)
    totals = None if objective is None or estimator.local_passes is not None else data.method(objective)
    if totals is not None and totals.stops_itself and hasattr(estimator, "tol_se"):
        totals = totals.within(number(estimator.tol_se, "tol_se", positive=True))
    return {
        "method": Cola(local_passes=estimator.local_passes) if totals is None else totals,
        "n_nodes": estimator.n_nodes if data.pooled else len(data.parts),
        "topology": estimator.topology,
        "tol": estimator.tol,
        "max_rounds": estimator.max_rounds if estimator.max_iter is None else estimator.max_iter,
        "stop": estimator.stop,
        "record_every": RECORD_EVERY if totals is None else 1,
        "seed": int(seed),
        "n_jobs": estimator.n_jobs,
        "runtime": estimator.runtime if data.processes.size == 1 else data.processes,
    }
