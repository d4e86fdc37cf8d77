"""Standard errors of rows that depend on each other: statsmodels' clustered ones, for labels and for sites."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

import glmesh
from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair

RNG = np.random.default_rng(2)
X = RNG.normal(size=(240, 3)) * [1.0, 10.0, 0.1]
Y = RNG.poisson(np.exp(0.3 * X[:, 0] + 0.2)).astype(float)
LABELS = RNG.integers(0, 20, 240)
SITES = [np.arange(k, 240, 5) for k in range(5)]
TIGHT = {"tol": 1e-14, "maxiter": 100}


def clustered(y, X, labels, family):
    model = sm.GLM(y, sm.add_constant(X), family=family)
    return model.fit(cov_type="cluster", cov_kwds={"groups": labels}, **TIGHT)


@pytest.mark.parametrize("n_nodes", [1, 3, 16])
def test_labels_of_pooled_rows_are_those_of_statsmodels_whoever_holds_the_rows(n_nodes):
    names = np.array([f"ward {k}" for k in LABELS])
    model = glmesh.GLMRegressor(family="poisson", n_nodes=n_nodes).fit(X, Y, clusters=names)
    theirs = clustered(Y, X, LABELS, sm.families.Poisson())
    table = model.summary(vcov="cluster").to_frame()
    np.testing.assert_allclose(table["std err"], theirs.bse, rtol=1e-6)
    np.testing.assert_allclose(model.vcov("cluster"), theirs.cov_params(), rtol=1e-6, atol=1e-12)
    wald = theirs.wald_test(np.eye(4)[1:], scalar=True, use_f=False)
    assert model.wald_test(["x0", "x1", "x2"], vcov="cluster").statistic == pytest.approx(wald.statistic, rel=1e-6)


def test_sites_are_clusters_and_labels_are_those_of_their_site(tmp_path):
    parts = [(X[own], Y[own] + 1.0) for own in SITES]
    order = np.concatenate(SITES)
    gamma = sm.families.Gamma(sm.families.links.Log())
    by_site = glmesh.GLMRegressor(family="gamma").fit_nodes(parts, clusters="site")
    theirs = clustered(Y[order] + 1, X[order], np.arange(240) // 48, gamma)
    np.testing.assert_allclose(np.sqrt(np.diag(by_site.vcov("cluster"))), theirs.bse, rtol=1e-6)
    inside = glmesh.GLMRegressor(family="gamma").fit_nodes(parts, clusters=[LABELS[own] for own in SITES])
    theirs = clustered(Y[order] + 1, X[order], LABELS[order] + 100 * (np.arange(240) // 48), gamma)
    np.testing.assert_allclose(np.sqrt(np.diag(inside.vcov("cluster"))), theirs.bse, rtol=1e-6)
    inside.save(tmp_path / "model.npz")
    again = glmesh.load_model(tmp_path / "model.npz")
    assert str(again.summary(vcov="cluster")) == str(inside.summary(vcov="cluster"))
    with pytest.raises(InvalidInput, match="rank below the number of clusters"):
        glmesh.GLMRegressor(family="gamma").fit_nodes(parts[:3], clusters="site").wald_test(np.eye(4), vcov="cluster")


def test_clusters_of_cox_are_sums_of_what_phreg_says_of_rows_whatever_the_order_of_strata():
    time, event, strata = RNG.exponential(np.exp(-0.5 * X[:, 0])), RNG.random(240) < 0.7, RNG.integers(0, 3, 240)
    theirs = sm.PHReg(time, X, status=event * 1, ties="breslow").fit(method="newton", maxiter=100, tol=1e-14, disp=0)
    model = glmesh.CoxRegressor(ties="breslow").fit(X, time, event, clusters=LABELS)
    residuals = np.nan_to_num(theirs.score_residuals)  # NaN where a row is in no risk set of an event
    sums = np.stack([residuals[k == LABELS].sum(axis=0) for k in range(20)])
    factor = 20 / 19 * 239 / 237  # G / (G - 1) (n - 1) / (n - k)
    wanted = factor * theirs.cov_params() @ sums.T @ sums @ theirs.cov_params()
    np.testing.assert_allclose(model.vcov("cluster"), wanted, rtol=1e-6, atol=1e-9 * np.abs(wanted).max())
    own = [np.flatnonzero(strata == k) for k in range(3)]
    pooled = glmesh.CoxRegressor().fit(X, time, event, strata=strata, clusters=LABELS + 100 * strata)
    apart = glmesh.CoxRegressor().fit_nodes([(X[s], time[s], event[s]) for s in own], clusters=[LABELS[s] for s in own])
    np.testing.assert_allclose(pooled.vcov("cluster"), apart.vcov("cluster"), rtol=1e-9)


def test_labels_that_do_not_fit_are_refused_with_what_would_do():
    model = glmesh.GLMRegressor(family="poisson", n_nodes=2)
    with pytest.raises(InvalidData, match=r"clusters has shape \(3,\), expected \(240,\)"):
        model.fit(X, Y, clusters=LABELS[:3])
    with pytest.raises(InvalidInput, match="fit_nodes takes clusters='site'"):
        model.fit(X, Y, clusters="site")
    with pytest.raises(InvalidInput, match="expected 'site'"):
        model.fit_nodes([(X, Y)], clusters="patient")
    with pytest.raises(InvalidData, match="labels for 1 parts, and there are 2"):
        model.fit_nodes([(X[:100], Y[:100]), (X[100:], Y[100:])], clusters=[LABELS])
    with pytest.raises(UnsuitablePair, match="fit with clusters"):
        model.fit(X, Y).vcov("cluster")
    with pytest.raises(UnsuitablePair, match="at least 2 clusters"):
        model.fit(X, Y, clusters=np.zeros(240)).vcov("cluster")


def test_a_problem_takes_clusters_inside_of_the_data_of_nodes_only():
    parts = [(X[own], Y[own]) for own in SITES]
    apart = glmesh.Problem.from_nodes(parts, family="poisson", alpha=0.0)
    found = glmesh.solve(apart.with_clusters([LABELS[own] for own in SITES])).statistics
    assert found.clusters == sum(len(np.unique(LABELS[own])) for own in SITES)
    pooled = glmesh.Problem.glm(X, Y, family="poisson", alpha=0.0)
    with pytest.raises(InvalidInput, match=r"take Problem\.from_nodes"):
        pooled.with_clusters([LABELS])
    with pytest.raises(InvalidData, match="clusters of node 0 has shape"):
        apart.with_clusters([LABELS[own][:-1] for own in SITES])
    with pytest.raises(InvalidInput, match="new samples would have none"):
        apart.with_clusters([LABELS[own] for own in SITES]).grown(0, X[:2], Y[:2])
    kept = apart.with_clusters([LABELS[own] for own in SITES]).shrunk(0, np.array([3, 1]))
    numbers = np.unique(LABELS[SITES[0]], return_inverse=True)[1]
    np.testing.assert_array_equal(kept.parts[0].clusters, numbers[[3, 1]])


BEYOND = [2**53 + k for k in range(120)]  # of which float64 tells every other one apart


def test_labels_are_told_apart_as_they_are_given_beyond_what_float64_holds():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "y": Y, "id": np.repeat(BEYOND, 2)})
    for labels in (frame["id"], list(frame["id"]), frame["id"].astype(str), frame["id"].astype("Int64")):
        assert glmesh.GLMRegressor(family="poisson").fit(X, Y, clusters=labels).result_.statistics.clusters == 120
    for column in (frame["id"], [f"{k % 120:0{1 + k // 120}d}" for k in range(240)], [*["1"] * 120, *[1] * 120]):
        frame["id"] = column
        model = glmesh.GLMRegressor.from_formula("y ~ a", frame, family="poisson", clusters="id")
        assert model.result_.statistics.clusters == len(set(frame["id"]))
    frame["id"] = [None, *np.repeat(BEYOND, 2)[1:]]  # pandas makes floats of them
    with pytest.raises(InvalidData, match=r"float64 so large .* integers or texts"):
        glmesh.GLMRegressor.from_formula("y ~ a", frame.astype({"id": float}), family="poisson", clusters="id")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([np.nan, *range(39)], "NaN at row 0"),
        (["a", None, *["b"] * 38], "NaN at row 1"),
        ([np.nan, *["b"] * 39], "NaN at row 0"),
        ([[1, 2]] * 40, r"shape \(40, 2\)"),
        ([[1], *[[1, 2]] * 39], "holds a list"),
        ([1] * 39, r"shape \(39,\), expected \(40,\)"),
        (np.full(40, 1e17), "integers or texts"),
    ],
)
def test_labels_of_nodes_that_are_none_are_refused_by_name(labels, words):
    problem = glmesh.Problem.from_nodes([(X[:40], Y[:40]), (X[40:80], Y[40:80])], family="poisson", alpha=0.0)
    with pytest.raises(InvalidData, match=words):
        problem.with_clusters([labels, labels])


def test_clusters_are_in_a_saved_run(tmp_path):
    parts = [(X[own], Y[own]) for own in SITES]
    problem = glmesh.Problem.from_nodes(parts, family="poisson", alpha=0.0)
    problem = problem.with_clusters([[f"h{k // 4}" if k % 8 else k // 4 for k in range(48)] for _ in parts])
    run = glmesh.Run(problem, n_nodes=5)
    next(run)
    run.save(tmp_path / "run.ckpt")
    again = glmesh.Run.resume(tmp_path / "run.ckpt")
    for before, after in zip(problem.parts, again.problem.parts, strict=True):
        np.testing.assert_array_equal(before.clusters, after.clusters)
        assert len(np.unique(after.clusters)) == 18
