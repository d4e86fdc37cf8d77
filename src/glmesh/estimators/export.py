"""Fitted estimators to and from model files, and as plain scikit-learn estimators."""

import json
from dataclasses import asdict
from os import PathLike

import numpy as np
from sklearn import linear_model, multiclass, preprocessing, svm
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from glmesh.contract import Column, Contract
from glmesh.errors import InvalidInput
from glmesh.estimators.base import NetworkEstimator
from glmesh.estimators.classification import GLMClassifier, LinearSVC
from glmesh.estimators.classifier import is_logistic
from glmesh.estimators.cross_validation import ElasticNetCV, LassoCV
from glmesh.estimators.families import GammaRegressor, PoissonRegressor, TweedieRegressor
from glmesh.estimators.least_squares import ElasticNet, Lasso, Ridge
from glmesh.estimators.logistic import LogisticRegression
from glmesh.estimators.objective import TrainingData
from glmesh.estimators.regression import GLMRegressor, LinearSVR
from glmesh.estimators.survival import CoxRegressor
from glmesh.files import model_files
from glmesh.formulas.tables import raw_contract
from glmesh.functions import Loss, Softmax
from glmesh.methods.totals.likelihood.statistics import FitStatistics
from glmesh.types import Array

_CLASSES: dict[str, type[NetworkEstimator]] = {
    kind.__name__: kind
    for kind in (
        *(Ridge, Lasso, ElasticNet, LassoCV, ElasticNetCV, LinearSVR, GLMRegressor),
        *(LogisticRegression, LinearSVC, GLMClassifier, PoissonRegressor, GammaRegressor, TweedieRegressor),
        CoxRegressor,
    )
}


_SHARED = (
    "alpha",
    "l1_ratio",
    "C",
    "fit_intercept",
    "epsilon",
    "power",
    "link",
)  # parameters that scikit-learn has too


def save_model(estimator: NetworkEstimator, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to a model file: coefficients, classes, and those parameters that JSON can hold."""
    check_is_fitted(estimator)
    p = estimator.coef_.shape[-1]
    one_sample = TrainingData([(np.zeros((1, p)), np.zeros(1), np.ones(1))], pooled=True, split="features")
    objective = estimator._objective(one_sample)
    params = {name: value for name, value in estimator.get_params(deep=False).items() if _plain(value)}
    loss = objective.loss if isinstance(objective.loss, str) else objective.loss.name
    if _are_together(estimator):
        loss = Softmax.name
    penalty = objective.penalty if isinstance(objective.penalty, str) else "custom"
    statistics = _statistics(estimator)
    estimated = None if statistics is None else statistics.fitted.family
    family = objective.loss if estimated is None else estimated
    several = estimator.coef_.ndim == 2 and len(estimator.coef_) > 1
    model_files.Model(
        coef=estimator.coef_ if several else np.ravel(estimator.coef_),
        intercept=estimator.intercept_ if several else float(np.ravel(estimator.intercept_)[0]),
        loss=loss,
        penalty=penalty,
        alpha=objective.alpha,
        l1_ratio=float(objective.l1_ratio or 0.0),
        classes=tuple(estimator.classes_.tolist()) if hasattr(estimator, "classes_") else None,
        info={
            "estimator": type(estimator).__name__,
            "params": json.dumps(params),
            **_parameters(family),
            **_rows(estimator),
        },
        contract=_contract(estimator),
        statistics=statistics,
        design=getattr(estimator, "design_", None),
    ).save(path)


def _statistics(estimator: NetworkEstimator) -> FitStatistics | None:
    """Return what totals said of an estimator's fit without a penalty; None: nothing."""
    result = getattr(estimator, "result_", None)
    return getattr(estimator, "_statistics", None) if result is None else getattr(result, "statistics", None)


def _are_together(estimator: NetworkEstimator) -> bool:
    """Return whether the classes of a fitted estimator were fitted together, by the multinomial loss."""
    return bool(getattr(estimator, "_are_together", False))


def _rows(estimator: NetworkEstimator) -> dict[str, int]:
    """Return how many rows a fit by a formula was given, and how many of these it left out; {} without a formula."""
    if not hasattr(estimator, "rows_"):
        return {}
    return {"rows": int(estimator.rows_), "rows_left_out": int(estimator.rows_left_out_)}


def _parameters(loss: Loss | str) -> dict[str, str | float]:
    """Return {name: value} of the link and the parameters of a family; empty for other losses."""
    family = None if isinstance(loss, str) else loss.as_family
    return {} if family is None else asdict(family)


def _contract(estimator: NetworkEstimator) -> Contract | None:
    """Return a Contract with the names of features, target and labels that a fitted estimator learned from.

    None: it learned from arrays without names.
    """
    if not hasattr(estimator, "feature_names_in_"):
        return None
    names = tuple(estimator.feature_names_in_.tolist())
    target = getattr(estimator, "_target", "")
    classes = getattr(estimator, "classes_", np.empty(0)).tolist()
    labels = tuple(one if isinstance(one, str) else float(one) for one in classes)
    made = Contract("" if target in names else target, tuple(map(Column, names)), labels)
    design = getattr(estimator, "design_", None)
    return made if design is None else raw_contract(design, made)


def _plain(value: object) -> bool:
    """Return whether JSON can hold a value: whether it is equal to itself after being written and read again."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def load_model(path: str | PathLike[str]) -> NetworkEstimator:
    """Return the fitted estimator that a file holds.

    Parameters
    ----------
    path : path-like
        File that `save` of an estimator, `glmesh train` or `glmesh node` wrote.

    Returns
    -------
    estimator
        Of the class that was saved; for other files a GLMRegressor or GLMClassifier. With the names of the features,
        if the file has them; without the history of the fit.

    Raises
    ------
    UnreadableFile
        The file is missing, damaged or not a model.
    InvalidInput
        The file holds one site's share of a model that is split by features.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import glmesh
    >>> X, y = np.eye(3), np.array([3.0, -2.0, 0.5])
    >>> model = glmesh.Ridge(n_nodes=2).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "ridge.npz")
    ...     again = glmesh.load_model(Path(folder) / "ridge.npz")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    model = model_files.load(path)
    if model.is_share:
        raise InvalidInput(
            f"{path}: holds the coefficients of one site's columns only, of a federation that is split by features; "
            "all sites predict together with `glmesh predict MODEL DATA --node NODE.toml`"
        )
    estimator = _unfitted(model)
    estimator.n_features_in_ = model.coef.shape[-1]
    if model.contract is not None and model.names is not None:
        estimator.feature_names_in_ = np.array(model.names, dtype=object)
        estimator._target = model.contract.target
    if model.classes is None:
        estimator.coef_, estimator.intercept_ = model.coef, float(model.intercept)
    else:
        estimator.classes_, estimator._together = np.array(model.classes), model.loss == Softmax.name
        estimator.coef_, estimator.intercept_ = np.atleast_2d(model.coef), np.atleast_1d(model.intercept)
    if model.statistics is not None:
        estimator._statistics = model.statistics
    if model.design is not None and not model.beside:
        estimator.design_ = model.design
    if "rows_left_out" in model.info:
        estimator.rows_, estimator.rows_left_out_ = int(model.info["rows"]), int(model.info["rows_left_out"])
    return estimator


def _unfitted(model: model_files.Model) -> NetworkEstimator:
    """Return an estimator that is not fitted yet, of the class and with the parameters that a model file names."""
    general: type[NetworkEstimator] = GLMRegressor if model.classes is None else GLMClassifier
    kind = _CLASSES.get(str(model.info.get("estimator")), general)
    params = json.loads(str(model.info.get("params", "{}")))
    if kind is general and "params" not in model.info:
        params = _general_parameters(model)
    elif kind is GLMRegressor and model.family is not None:
        params |= {"family": model.family, "link": None}
    if kind is LogisticRegression and model.loss != Softmax.name:  # older files do not say how classes were fitted
        params.setdefault("multi_class", "ovr" if model.coef.ndim == 2 else "multinomial")
    known = {name: value for name, value in params.items() if name in kind._get_param_names()}
    return kind(**known)


def _general_parameters(model: model_files.Model) -> dict[str, object]:
    """Return the parameters of a GLMRegressor or GLMClassifier for a model file that names no estimator."""
    chosen: dict[str, object] = {"loss": model.loss} if model.family is None else {"family": model.family}
    chosen = {"family": Softmax.name} if model.loss == Softmax.name else chosen
    params = chosen | {"alpha": model.alpha}
    if model.penalty in ("l1", "l2", "elasticnet"):
        params["penalty"] = model.penalty
    if model.penalty == "elasticnet":
        params["l1_ratio"] = model.l1_ratio
    return params


def to_sklearn(estimator: NetworkEstimator) -> BaseEstimator:
    """Return a fitted estimator of scikit-learn's own class that makes the same predictions as `estimator`."""
    check_is_fitted(estimator)
    name = type(estimator).__name__
    if isinstance(estimator, GLMRegressor) and estimator._family() is not None:
        raise InvalidInput(
            "scikit-learn has no estimator of a family and a link; take PoissonRegressor, or predict here"
        )
    if not hasattr(estimator, "classes_"):
        if name in ("LassoCV", "ElasticNetCV"):
            plain = linear_model.ElasticNet(alpha=estimator.alpha_, l1_ratio=estimator.l1_ratio_)
        else:
            plain = {
                "Ridge": linear_model.Ridge, "Lasso": linear_model.Lasso, "ElasticNet": linear_model.ElasticNet,
                "LinearSVR": svm.LinearSVR, "PoissonRegressor": linear_model.PoissonRegressor,
                "GammaRegressor": linear_model.GammaRegressor, "TweedieRegressor": linear_model.TweedieRegressor,
            }.get(name, linear_model.LinearRegression)()  # fmt: skip
        return _fitted(plain, estimator, estimator.coef_, estimator.intercept_)
    logistic, coef, intercept = is_logistic(estimator), estimator.coef_, estimator.intercept_
    if _are_together(estimator):
        if len(coef) == 2:  # scikit-learn has one linear function for two classes
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
    elif logistic and len(estimator.classes_) > 2:  # scikit-learn's own is multinomial
        whole = multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
        whole.label_binarizer_ = preprocessing.LabelBinarizer(sparse_output=True).fit(estimator.classes_)
        whole.estimators_ = [
            _fitted(linear_model.LogisticRegression(), estimator, coef[None], intercept[None], classes=np.array([0, 1]))
            for coef, intercept in zip(estimator.coef_, estimator.intercept_, strict=True)
        ]
        whole.n_features_in_ = estimator.n_features_in_
        vars(whole)["classes_"] = estimator.classes_  # a property of its own before scikit-learn 1.9
        return whole
    plain = linear_model.LogisticRegression() if logistic else svm.LinearSVC()
    return _fitted(plain, estimator, coef, intercept, classes=estimator.classes_)


def _fitted(
    plain: BaseEstimator,
    estimator: NetworkEstimator,
    coef: Array,
    intercept: Array | float,
    classes: Array | None = None,
) -> BaseEstimator:
    """Return `plain`, an estimator of scikit-learn's, as a fitted one with the parameters that `estimator` also has.

    `coef`, `intercept` and `classes` become coef_, intercept_ and classes_; `classes` None: a regressor, which has
    none.
    """
    theirs = plain._get_param_names()
    ours = estimator.get_params(deep=False)
    same = {name: ours[name] for name in _SHARED if name in ours}
    plain.set_params(**{name: value for name, value in same.items() if name in theirs and value is not None})
    fitted = {
        "coef_": coef.copy(),
        "intercept_": float(intercept) if np.ndim(intercept) == 0 else np.copy(intercept),
        "n_features_in_": estimator.n_features_in_,
        "n_iter_": getattr(estimator, "n_iter_", None),
    }
    if classes is not None:
        fitted["classes_"] = classes
    if hasattr(plain, "_get_loss"):  # a Poisson, gamma or Tweedie regressor predicts with it
        fitted["_base_loss"] = plain._get_loss()
    if hasattr(estimator, "feature_names_in_"):
        fitted["feature_names_in_"] = estimator.feature_names_in_
    for name, value in fitted.items():
        setattr(plain, name, value)
    return plain
