"""Maximum likelihood on totals: the estimates of statsmodels, with a proof that holds, for every family and link."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import statsmodels.api as sm

from glmesh import Problem, Run, solve
from glmesh.engine.result import Status
from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.functions import Family, NegativeBinomial, Table, Tweedie, family_of
from glmesh.methods import Cola, MaximumLikelihood, ProximalNewton
from glmesh.methods.totals.likelihood.contribution import bound_of, levels
from glmesh.methods.totals.likelihood.rows import RowLikelihood
from glmesh.methods.totals.likelihood.state import LikelihoodQuery
from glmesh.methods.totals.scaled import ScaledPenalty
from tests.cases import cases

LINKS = sm.families.links
SHIFTED = np.array([0.0, 5.0, 1e-3, 2000.0])
SCALES = np.array([1.0, 10.0, 1e-3, 100.0])
FAMILIES = {
    ("gaussian", "identity"): sm.families.Gaussian(),
    ("gaussian", "log"): sm.families.Gaussian(LINKS.Log()),
    ("binomial", "logit"): sm.families.Binomial(),
    ("binomial", "probit"): sm.families.Binomial(LINKS.Probit()),
    ("binomial", "cloglog"): sm.families.Binomial(LINKS.CLogLog()),
    ("poisson", "log"): sm.families.Poisson(),
    ("gamma", "log"): sm.families.Gamma(LINKS.Log()),
    ("gamma", "inverse"): sm.families.Gamma(LINKS.InversePower()),
    ("inverse_gaussian", "1/mu^2"): sm.families.InverseGaussian(),
    ("inverse_gaussian", "log"): sm.families.InverseGaussian(LINKS.Log()),
    ("tweedie", "log"): sm.families.Tweedie(LINKS.Log(), 1.5),
    ("negative_binomial", "log"): sm.families.NegativeBinomial(alpha=0.5),
}


def family(name: str, link: str) -> Family:
    """Return the family, with the parameter that FAMILIES has for it."""
    own = {"tweedie": Tweedie(1.5), "negative_binomial": NegativeBinomial(2.0)}
    return own[name] if name in own else family_of(name, link)


def drawn(name: str, link: str, n: int = 240) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return (X, y, weights, offset) of raw columns, with a target of the family."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 4)) * SCALES + SHIFTED
    eta = 0.3 * X[:, 0] + 0.02 * X[:, 1] + 0.002 * (X[:, 3] - 2000) + 0.2
    offset = None if link in ("inverse", "1/mu^2") else 0.1 * rng.normal(size=n)
    weight = rng.integers(1, 4, n).astype(float)
    if name == "binomial":
        p = FAMILIES[name, link].link.inverse(eta)
        return X, rng.binomial(weight.astype(int), p) / weight, weight, offset
    mu = (2 + np.abs(eta)) ** {"inverse": -1.0, "1/mu^2": -0.5}[link] if offset is None else np.exp(eta)
    y = {
        "gaussian": lambda: (eta if link == "identity" else mu) + 0.3 * rng.normal(size=n),
        "poisson": lambda: rng.poisson(mu),
        "gamma": lambda: rng.gamma(5.0, mu / 5.0),
        "inverse_gaussian": lambda: rng.wald(mu, 50.0),
        "tweedie": lambda: rng.gamma(2.0, mu / 2.0) * (rng.random(n) < 0.8),
        "negative_binomial": lambda: rng.negative_binomial(2, 2 / (2 + mu)),
    }[name]()
    return X, np.asarray(y, dtype=float), weight, offset


def reference(name: str, link: str):
    """Return statsmodels' tight fit of `drawn`, intercept last."""
    X, y, weight, offset = drawn(name, link)
    model = sm.GLM(y, sm.add_constant(X, prepend=False), family=FAMILIES[name, link], offset=offset, var_weights=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(tol=1e-14, maxiter=300)


@pytest.mark.filterwarnings("ignore::statsmodels.tools.sm_exceptions.DomainWarning")
@pytest.mark.parametrize(("name", "link"), list(FAMILIES))
def test_every_family_and_link_has_the_estimates_of_statsmodels_and_a_proof_of_it(name: str, link: str) -> None:
    X, y, weight, offset = drawn(name, link)
    found = reference(name, link)
    for n_nodes in (1, 3, 16):
        problem = Problem.glm(
            X, y, family=family(name, link), alpha=0.0, fit_intercept=True, offset=offset, sample_weight=weight
        )
        result = solve(problem, n_nodes=n_nodes)
        coef = np.append(result.coef[:4], result.intercept)
        off = np.abs((coef - found.params) / found.bse).max()
        assert off < 1e-6
        assert result.objective == pytest.approx(found.deviance / 2, rel=1e-9)
        assert result.rounds <= 9  # and one total for the null model
        if family(name, link).convex:
            assert result.status is Status.CONVERGED
            assert result.standard_errors_off <= 1e-6
            assert off < result.standard_errors_off + 1e-8  # rounding of the reference
        else:
            assert result.status is Status.STATIONARY


def test_bits_are_the_same_for_any_number_of_threads_and_for_sparse_rows_the_estimates_are() -> None:
    X, y, weight, offset = drawn("poisson", "log")
    options = {"family": "poisson", "alpha": 0.0, "fit_intercept": True, "offset": offset, "sample_weight": weight}
    one, two = (solve(Problem.glm(X, y, **options), n_nodes=5, n_jobs=jobs) for jobs in (1, 2))
    assert one.coef.tobytes() == two.coef.tobytes()
    assert one.intercept == two.intercept
    sparse = solve(Problem.glm(sp.csr_array(X), y, **options), n_nodes=5)
    np.testing.assert_allclose(sparse.coef, one.coef, rtol=1e-9)


@pytest.mark.parametrize("penalty", ["l1", "l2", "elasticnet", "positive", "wide"])
def test_penalised_fits_are_proven_within_the_gap_and_meet_the_conditions_of_an_optimum(penalty: str) -> None:
    X, y, weight, _ = drawn("poisson", "log")
    X = (X - SHIFTED) / SCALES
    if penalty == "wide":
        X = np.hstack([X, np.random.default_rng(1).normal(size=(len(X), 300))])
    given = Table(lo=np.zeros(())) if penalty == "positive" else penalty if penalty != "wide" else "l1"
    problem = Problem.glm(X, y, family="poisson", penalty=given, alpha=30.0, fit_intercept=True, sample_weight=weight)
    result = solve(problem, n_nodes=3, tol=1e-12)
    assert result.status is Status.CONVERGED
    slopes = X.T @ (weight * (np.exp(X @ result.coef + result.intercept) - y))
    assert abs((weight * (np.exp(X @ result.coef + result.intercept) - y)).sum()) < 2e-3
    l1 = {"l2": 0.0, "elasticnet": 15.0, "positive": 0.0}.get(penalty, 30.0)
    l2 = {"l2": 30.0, "elasticnet": 15.0}.get(penalty, 0.0)
    slopes += l2 * result.coef
    moves = result.coef != 0
    np.testing.assert_allclose(slopes[moves], -l1 * np.sign(result.coef[moves]), atol=2e-3)
    if penalty == "positive":
        assert (result.coef >= 0).all()
        assert (slopes[~moves] >= -2e-3).all()
    else:
        assert (np.abs(slopes[~moves]) <= l1 + 2e-3).all()


def test_proofs_hold_where_columns_are_nearly_collinear_scales_wild_and_events_rare() -> None:
    for case in range(cases(200)):
        rng = np.random.default_rng(case)
        n, p = int(rng.integers(30, 200)), int(rng.integers(1, 6))
        X = rng.normal(size=(n, p))
        if p > 1 and rng.random() < 0.5:
            X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-4, -1) * X[:, -1]
        eta = X @ rng.normal(size=p) * 0.5 + rng.uniform(-2, 2)
        name = ("poisson", "binomial", "gamma")[case % 3]
        weight = 10.0 ** rng.uniform(-1, 1, n)
        y = {
            "poisson": rng.poisson(np.exp(np.clip(eta, -20, 4))),
            "binomial": rng.random(n) < 1 / (1 + np.exp(-eta)),
            "gamma": rng.gamma(2.0, np.exp(np.clip(eta, -20, 4))),
        }[name].astype(float)
        if name != "gamma" and (y.sum() < 5 or (name == "binomial" and y.sum() > n - 5)):
            continue
        scales = 10.0 ** rng.uniform(-5, 5, p)
        problem = Problem.glm(X * scales, y, family=name, alpha=0.0, fit_intercept=True, sample_weight=weight)
        result = solve(problem, n_nodes=3, max_rounds=60)
        if result.status is not Status.CONVERGED:
            continue
        one = family_of(name)
        w = np.append(result.coef * scales, result.intercept).astype(np.longdouble)
        rows = np.column_stack([X, np.ones(n)]).astype(np.longdouble)
        there = w.copy()
        for _ in range(3):  # more digits than the fit has
            z = rows @ there
            mu = np.exp(z) if name != "binomial" else 1 / (1 + np.exp(-z))
            slope = weight * (1 - y / mu if name == "gamma" else mu - y)
            bend = weight * {"poisson": mu, "gamma": y / mu, "binomial": mu * (1 - mu)}[name]
            H = (rows.T @ (bend[:, None] * rows)).astype(float)
            there = there - np.linalg.solve(H, (rows.T @ slope).astype(float))
        e = (w - there).astype(float)
        phi = 1.0 if one.dispersion else float((weight * (y / mu - 1) ** 2).sum() / (n - p - 1))
        assert np.sqrt(e @ H @ e / phi) <= result.standard_errors_off * (1 + 1e-6) + 1e-15, case


def test_a_result_has_the_inference_of_its_fit_and_says_why_it_has_none() -> None:
    X, y, weight, offset = drawn("poisson", "log")
    options = {"family": "poisson", "fit_intercept": True, "offset": offset, "sample_weight": weight}
    result = solve(Problem.glm(X, y, alpha=0.0, **options), n_nodes=3)
    table = result.inference.summary().to_frame()
    theirs = reference("poisson", "log")
    np.testing.assert_allclose(table["std err"], np.roll(theirs.bse, 1), rtol=1e-6)
    assert list(table.index) == ["Intercept", "x0", "x1", "x2", "x3"]
    assert result.inference.conf_int(kind="profile").shape == (5, 2)
    for problem, why in (
        (Problem.glm(X, y, alpha=1.0, **options), "penalty"),
        (Problem.glm(X, y, split="samples"), "squared loss"),
    ):
        with pytest.raises(UnsuitablePair, match=why):
            _ = solve(problem, n_nodes=2).inference


def test_where_rounding_ends_a_fit_the_table_is_there_and_the_tolerance_that_would_do_is_said() -> None:
    X, y, _, _ = drawn("poisson", "log")
    near = np.column_stack([X, X[:, 0] + 1e-6 * np.sin(np.arange(len(X)))])
    problem = Problem.glm(near, y, family="poisson", alpha=0.0, fit_intercept=True)
    result = solve(problem, n_nodes=3)
    assert result.status is Status.STALLED
    assert result.statistics is not None
    said = float(result.message.split("tol_se=")[1].split()[0])
    assert 1e-6 < result.standard_errors_off <= said < 0.1
    assert "within" in result.inference.summary().proof
    assert solve(problem, n_nodes=3, method=MaximumLikelihood(tol_se=said)).status is Status.CONVERGED


def test_the_last_step_is_free_and_what_is_claimed_is_of_where_it_leads() -> None:
    X, y, weight, offset = drawn("binomial", "logit")
    problem = Problem.glm(X, y, family="binomial", alpha=0.0, fit_intercept=True, offset=offset, sample_weight=weight)
    found, spread = reference("binomial", "logit"), []
    for tol_se in (0.3, 1e-3):
        result = solve(problem, n_nodes=3, method=MaximumLikelihood(tol_se=tol_se))
        off = (np.append(result.coef[:4], result.intercept) - found.params) / found.bse
        spread.append(np.abs(off).max())
        assert spread[-1] <= result.standard_errors_off < 0.1 * tol_se
        assert result.objective - found.deviance / 2 <= result.gap
        assert result.statistics is not None
        assert result.statistics.distance == result.distance
    assert spread[0] > 1e-12


def test_dependent_columns_are_left_out_the_intercept_first() -> None:
    X, y, _, _ = drawn("poisson", "log")
    more = np.column_stack([np.full(len(X), 3.0), X, 2 * X[:, 0]])
    plain, doubled = (
        solve(Problem.glm(one, y, family="poisson", alpha=0.0, fit_intercept=True), n_nodes=3) for one in (X, more)
    )
    assert doubled.status is Status.CONVERGED
    np.testing.assert_allclose(doubled.coef[1:5], plain.coef, rtol=1e-6)
    assert doubled.coef[[0, 5]].tolist() == [0.0, 0.0]


def test_wrong_targets_splits_and_options_are_refused_by_name() -> None:
    X = np.ones((3, 1))
    with pytest.raises(InvalidData, match="poisson"):
        Problem.glm(X, [1.0, -2.0, 3.0], family="poisson")
    with pytest.raises(InvalidInput, match="either"):
        Problem.glm(X, [1, 2, 3], family="poisson", loss="squared")
    with pytest.raises(InvalidInput, match="link"):
        Problem.glm(X, [1, 2, 3], link="log")
    with pytest.raises(UnsuitablePair, match="rows"):
        Problem.glm(X, [1, 2, 3], family="poisson", split="features")
    with pytest.raises(InvalidInput, match="offset"):
        Problem.glm(X, [1, 2, 3], offset=[0, 0, 0])
    with pytest.raises(InvalidData, match="offset"):
        Problem.glm(X, [1, 2, 3], family="poisson", offset=[0, 0])
    problem = Problem.glm(X, [1, 2, 3], family="poisson")
    with pytest.raises(UnsuitablePair):
        solve(problem, method=Cola(acceleration="momentum"), n_nodes=2)
    with pytest.raises((UnsuitablePair, InvalidInput)):
        solve(problem, method=ProximalNewton(), n_nodes=2)
    with pytest.raises(UnsuitablePair, match="famil"):
        solve(Problem.glm(X, [1, 2, 3], split="samples"), method=MaximumLikelihood(), n_nodes=2)


def test_a_fit_goes_on_from_a_checkpoint_and_from_a_result(tmp_path) -> None:
    X, y, weight, offset = drawn("gamma", "log")
    options = {"family": "gamma", "alpha": 0.0, "fit_intercept": True, "offset": offset, "sample_weight": weight}
    problem = Problem.glm(X, y, **options)
    whole = solve(problem, n_nodes=3)
    file = tmp_path / "run"
    part = solve(problem, n_nodes=3, max_rounds=2, checkpoint=file)
    assert part.status is Status.OUT_OF_ROUNDS
    rest = solve(problem, n_nodes=3, checkpoint=file)
    assert rest.coef.tobytes() == whole.coef.tobytes()
    again = solve(problem, n_nodes=3, warm_start=whole)
    assert again.rounds <= 3
    np.testing.assert_allclose(again.coef, whole.coef, rtol=1e-7)


def test_nodes_agree_on_a_bound_of_the_largest_bend_that_is_at_most_a_quarter_of_an_octave_too_high(monkeypatch):
    problem = Problem.glm(np.arange(8.0)[:, None], np.arange(8.0), family="poisson", alpha=0.0, fit_intercept=True)
    run = Run(problem, method=MaximumLikelihood(), n_nodes=2)
    block = run.nodes.blocks[0]
    penalty = ScaledPenalty.of(block, np.ones(2))
    query = LikelihoodQuery(np.zeros(2), np.zeros(2), np.arange(2), inverse=np.eye(2))
    for largest in (1e-12, 0.02, 0.5, 1.0, 1.3, 2e5, 1e15):
        monkeypatch.setattr(RowLikelihood, "concordances", lambda *_, R=largest: np.array([0.0, R, 0.5 * R]))
        found = bound_of(int(levels(block, penalty, query).max()))
        assert found >= largest
        assert found <= 2.0**0.25 * max(largest, 2.0**-32) * (1.0 + 1e-9) or largest > 2.0**31
    for value, expected in ((0.0, 0.0), (np.inf, np.inf), (np.nan, np.inf)):
        monkeypatch.setattr(RowLikelihood, "concordances", lambda *_, R=value: np.array([0.0, R]))
        assert bound_of(int(levels(block, penalty, query).max())) == expected
