"""Cox's regression, stratified by site, beside statsmodels and lifelines; and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from statsmodels.duration.hazard_regression import PHReg

import glmesh
from glmesh import CoxRegressor, Problem, Status, solve
from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.functions import Cox, NonNegative
from glmesh.methods import MaximumLikelihood
from glmesh.methods.totals.likelihood.cox import CoxLikelihood
from tests.cases import cases

SHIFTED = np.array([0.0, 5.0, 1e-3, 2000.0])
SCALES = np.array([1.0, 10.0, 1e-3, 100.0])
Part = tuple[np.ndarray, np.ndarray, np.ndarray]


def sites(K: int, seed: int = 3) -> list[Part]:
    """Return (X, time, event) of K unequal sites with raw columns, tied times and baseline hazards of their own."""
    rng, parts = np.random.default_rng(seed), []
    for k in range(K):
        X = rng.normal(size=(int(rng.integers(8, 120)) + 60 // K, 4)) * SCALES + SHIFTED
        eta = 0.4 * X[:, 0] + 0.03 * X[:, 1] + 0.003 * (X[:, 3] - 2000)
        death = np.ceil((5 + 10 * (k % 3)) * rng.exponential(size=len(X)) * np.exp(-eta))
        end = np.ceil(20 * rng.exponential(size=len(X)))
        parts.append((X, np.minimum(death, end), death <= end))
    return parts


def pooled(parts: list[Part]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (X, time, event, site) of all sites."""
    X, time, event = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return X, time, event, np.repeat(np.arange(len(parts)), [len(part[1]) for part in parts])


def reference(parts: list[Part], ties: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (coefficients, standard errors) of statsmodels' functions at their root, with raw columns."""
    X, time, event, site = pooled(parts)
    model = PHReg(time, (X - SHIFTED) / SCALES, status=event.astype(int), strata=site, ties=ties)
    w = np.zeros(4)
    for _ in range(12):
        w = w - np.linalg.solve(model.hessian(w), model.score(w))
    return w / SCALES, np.sqrt(np.diag(np.linalg.inv(-model.hessian(w)))) / SCALES


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("K", [1, 3, 16])
def test_estimates_are_those_of_statsmodels_with_a_stratum_for_each_site(K, ties):
    parts = sites(K)
    coef, errors = reference(parts, ties)
    X, time, event, site = pooled(parts)
    model = CoxRegressor(ties=ties)
    model.fit_nodes([(sp.csr_array(part[0]), *part[1:]) for part in parts] if K == 3 else parts)
    off = np.abs((model.coef_ - coef) / errors).max()
    assert off < 1e-6
    assert model.result_.status is Status.CONVERGED
    assert off < model.result_.standard_errors_off + 1e-10  # rounding of the reference
    assert model.n_iter_ <= 7
    assert len(model.result_.estimates) == K
    again = CoxRegressor(ties=ties).fit(X, time, event, strata=site)
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-9)
    np.testing.assert_array_equal(model.hazard_ratios_, np.exp(model.coef_))
    np.testing.assert_allclose(model.predict(X), X @ model.coef_, rtol=1e-13)


def test_pooled_rows_are_one_stratum_at_one_node_unless_strata_are_given():
    parts = sites(3)
    X, time, event, site = pooled(parts)
    whole, alone = CoxRegressor().fit(X, time, event), CoxRegressor().fit_nodes([(X, time, event)])
    np.testing.assert_array_equal(whole.coef_, alone.coef_)
    assert (len(whole.result_.estimates), whole.strata_.tolist()) == (1, [0])
    names = np.array(["west", "east", "north"])[site]
    named = CoxRegressor().fit(X, time, event, strata=names)
    assert named.strata_.tolist() == ["east", "north", "west"]
    assert len(named.result_.estimates) == 3
    np.testing.assert_allclose(named.coef_, CoxRegressor().fit_nodes(parts).coef_, rtol=1e-9)
    assert np.abs(named.coef_ - whole.coef_).max() > 1e-3


def test_weights_and_strata_are_those_of_lifelines():
    from lifelines import CoxPHFitter

    X, time, event, site = pooled(sites(3))
    weight = np.random.default_rng(0).uniform(0.1, 3.0, len(time))
    frame = pd.DataFrame((X - SHIFTED) / SCALES, columns=list("abcd")).assign(t=time, e=event, s=site, w=weight)
    fit = CoxPHFitter().fit(frame, "t", "e", weights_col="w", strata="s", robust=True)
    model = CoxRegressor().fit(X, time, event, weight, strata=site)
    np.testing.assert_allclose(model.coef_ * SCALES, fit.params_, rtol=1e-5)
    with_zeros = CoxRegressor().fit_nodes([(X, time, event, weight * (site == 1)), (X[:0], time[:0], event[:0])])
    own = CoxRegressor().fit(*(one[site == 1] for one in (X, time, event, weight)))
    np.testing.assert_allclose(with_zeros.coef_, own.coef_, rtol=1e-9)


@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet", "positive"])
def test_penalised_fits_meet_the_conditions_of_an_optimum(penalty):
    X, time, event, site = pooled(sites(3))
    X = (X - SHIFTED) / SCALES * [1, -1, 1, 1]
    model = CoxRegressor(penalty=NonNegative() if penalty == "positive" else penalty, alpha=12.0, tol=1e-12)
    model.fit(X, time, event, strata=site)
    assert model.result_.status is Status.CONVERGED
    slopes = -PHReg(time, X, status=event.astype(int), strata=site, ties="efron").score(model.coef_)
    l1 = {"l1": 12.0, "elasticnet": 6.0}.get(penalty, 0.0)
    l2 = {"l2": 12.0, "elasticnet": 6.0}.get(penalty, 0.0)
    slopes, moves = slopes + l2 * model.coef_, model.coef_ != 0
    np.testing.assert_allclose(slopes[moves], -l1 * np.sign(model.coef_[moves]), atol=1e-3)
    assert (slopes[~moves] >= -l1).all()
    if penalty == "positive":
        assert model.coef_.min() == 0
    else:
        assert (np.abs(slopes[~moves]) <= l1).all()


@pytest.mark.parametrize("seed", range(cases(100)))
def test_a_fit_that_ends_early_is_as_near_to_the_optimum_as_it_proves(seed):
    rng = np.random.default_rng(seed)
    scales, parts = 10.0 ** rng.uniform(-5, 5, 3), []
    for _ in range(int(rng.integers(1, 4))):
        X = rng.normal(size=(int(rng.integers(15, 60)), 3)) ** int(rng.choice([1, 3]))
        time = np.ceil(10 * rng.exponential(np.exp(-X @ [0.5, -1.0, 0.0])))
        parts.append((X * scales, np.where(rng.random(len(X)) < 0.6, time, -time), rng.uniform(0.1, 3, len(X))))
    problem = Problem.from_nodes(parts, loss=Cox(str(rng.choice(["efron", "breslow"]))), alpha=0.0)
    early = solve(problem, method=MaximumLikelihood(tol_se=1.0))
    exact = solve(problem, method=MaximumLikelihood(tol_se=1e-8))
    assert early.status is exact.status is Status.CONVERGED
    H = sum(CoxLikelihood(problem.spec.loss, *part).information(np.append(early.coef, 0.0)) for part in parts)[:-1, :-1]
    e = early.coef - exact.coef
    assert np.sqrt(e @ H @ e) <= early.standard_errors_off * (1 + 1e-9) + 1e-8


def test_no_proof_is_made_where_there_is_no_optimum():
    X = np.random.default_rng(0).normal(size=(40, 2))
    time = 50.0 - np.argsort(np.argsort(X[:, 0]))  # who is at risk longest has the least X
    parts = [(X[:15], time[:15]), (X[15:], time[15:])]
    result = solve(Problem.from_nodes(parts, loss=Cox(), alpha=0.0), max_rounds=60)
    assert result.status not in (Status.CONVERGED, Status.CERTIFIED)
    assert not result.standard_errors_off < np.inf


def test_an_offset_is_added_to_log_hazard_ratios():
    parts = sites(3)
    X, time, event, site = pooled(parts)
    Z, offset = ((X - SHIFTED) / SCALES)[:, 1:], 0.5 * X[:, 0]
    model = PHReg(time, Z, status=event.astype(int), strata=site, ties="efron", offset=offset)
    y = np.where(event, time, -time)
    each = [(Z[site == k], y[site == k]) for k in range(3)]
    offsets = [offset[site == k] for k in range(3)]
    result = solve(Problem.from_nodes(each, loss=Cox(), alpha=0.0, offsets=offsets))
    w = np.zeros(3)
    for _ in range(12):
        w = w - np.linalg.solve(model.hessian(w), model.score(w))
    np.testing.assert_allclose(result.coef, [*w, 1.0], rtol=1e-7)


def test_columns_of_data_frames_go_by_name():
    parts = sites(2)
    frames = [pd.DataFrame(X, columns=list("abcd")) for X, _, _ in parts]
    named = [(frames[0], *parts[0][1:]), (frames[1][list("dbca")], *parts[1][1:])]
    model = CoxRegressor().fit_nodes(named)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_allclose(model.coef_, CoxRegressor().fit_nodes(parts).coef_, rtol=1e-9)


def test_models_are_cloned_pickled_saved_and_loaded(tmp_path):
    X, time, event, _ = pooled(sites(2))
    model = CoxRegressor(ties="breslow", alpha=0.5).fit(X, time, event)
    assert clone(model).get_params() == model.get_params()
    assert not {"n_nodes", "split", "fit_intercept", "local_passes"} & set(model.get_params())
    model.save(tmp_path / "cox.npz")
    for again in (pickle.loads(pickle.dumps(model)), glmesh.load_model(tmp_path / "cox.npz")):
        assert type(again) is CoxRegressor
        assert again.ties == "breslow"
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.hazard_ratios_, model.hazard_ratios_)


X = np.arange(8.0).reshape(4, 2) ** 2
TIME, EVENT = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, True])


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: CoxRegressor().fit(X, [1, 0, 3, 4], EVENT), "time is 0 at row 1; it must be > 0"),
        (lambda: CoxRegressor().fit(X, [1, 2, 3, -4], EVENT), "time is -4 at row 3"),
        (lambda: CoxRegressor().fit(X, [1, np.nan, 3, 4], EVENT), "time holds NaN at row 1"),
        (lambda: CoxRegressor().fit(X, TIME, [1, 2, 0, 1]), "event is 2 at row 1; it must be True, False, 1 or 0"),
        (lambda: CoxRegressor().fit(X, TIME, EVENT[:3]), r"time has shape \(4,\) and event \(3,\)"),
        (lambda: CoxRegressor().fit(X, ["a"] * 4, EVENT), "time and event must be numbers"),
        (lambda: CoxRegressor().fit(X, TIME, [0, 0, 0, 0]), "the event happened nowhere"),
        (lambda: CoxRegressor().fit(X, TIME, EVENT, strata=["a", "b"]), r"strata has shape \(2,\); X has 4 rows"),
        (lambda: CoxRegressor().fit(X, TIME, EVENT, strata=["a", None, "b", "b"]), "strata holds NaN at row 1"),
        (lambda: CoxRegressor().fit_nodes([(X, TIME, EVENT), (X, TIME)]), "part 1 must be "),
        (lambda: CoxRegressor().fit_nodes([(X, TIME, EVENT), (X, TIME * 0, EVENT)]), "part 1: time is 0 at row 0"),
        (lambda: Problem.from_nodes([(X, TIME), (X, TIME * 0)], loss=Cox()).check(), "y of node 1 holds 0 at row 0"),
    ],
)
def test_data_that_is_no_survival_data_is_refused_by_its_place(fit, message):
    with pytest.raises(InvalidData, match=message):
        fit()


def test_rows_of_pandas_objects_in_another_order_are_refused():
    frame, time = pd.DataFrame(X), pd.Series(TIME, index=[3, 2, 1, 0])
    with pytest.raises(InvalidData, match="time has the rows of X in another order"):
        CoxRegressor().fit(frame, time, EVENT)


def test_what_cox_has_no_meaning_for_is_refused():
    y = np.where(EVENT, TIME, -TIME)
    with pytest.raises(UnsuitablePair, match=r"cannot be dealt out to 2 nodes. Use Problem.from_nodes"):
        solve(Problem.glm(X, y, loss=Cox(), alpha=0.0), n_nodes=2)
    with pytest.raises(UnsuitablePair, match="an intercept has no effect on the cox loss"):
        Problem.glm(X, y, loss=Cox(), fit_intercept=True)
    with pytest.raises(UnsuitablePair, match="split='samples'"):
        Problem.glm(X, y, loss=Cox(), split="features")
    with pytest.raises(InvalidInput, match="ties must be"):
        CoxRegressor(ties="exact").fit(X, TIME, EVENT)
