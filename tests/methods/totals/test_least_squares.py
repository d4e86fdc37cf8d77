"""Least squares for many penalties and weightings at once: proven, in few totals, with the same bits however hosted."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet

from glmesh import Network, Problem, solve
from glmesh.engine.path import solve_path, solve_paths
from glmesh.engine.result import Status
from glmesh.functions import Table
from glmesh.methods import ProximalNewton
from tests.cases import cases

NEWTON = ProximalNewton()


def data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(X, y, weights) with raw scales, a constant and a doubled column, rows of weight zero; now and then p > m."""
    rng = np.random.default_rng(seed)
    m, p = int(rng.integers(8, 60)), int(rng.integers(2, 25))
    X = rng.normal(size=(m, p)) * 10.0 ** rng.integers(-4, 5, size=p) + 10.0 ** rng.integers(-2, 4, size=p)
    X[:, -1] = X[:, 0]
    if p > 3:
        X[:, 1] = 7.0
    y = (X - X.mean(axis=0)) @ (rng.normal(size=p) / X.std(axis=0).clip(1e-9)) + rng.normal(size=m) + 30.0
    weight = rng.uniform(0.1, 3.0, size=m) * (rng.random(m) > 0.2)
    weight[0] = 1.0
    return X, y, weight


def problem_of(seed: int, **options) -> tuple[Problem, np.ndarray]:
    """A problem, and weights of its penalty from the one that makes all coefficients zero down to a thousandth."""
    X, y, weight = data(seed)
    rng = np.random.default_rng(seed + 1000)
    free = bool(rng.integers(2))
    ratio = float(rng.choice([0.0, 0.3, 1.0]))
    lo = np.asarray(0.0 if rng.integers(2) else -np.inf)
    table = Table(l1=np.asarray(ratio), l2=np.asarray(1.0 - ratio), lo=lo)
    centre = np.average(y, weights=weight) if free else 0.0
    top = np.abs(X.T @ (weight * (y - centre))).max()
    given = {"penalty": table, "split": "samples", "fit_intercept": free, "sample_weight": weight}
    return Problem.glm(X, y, **given | options), np.geomspace(top, 1e-3 * top, 7)


@pytest.mark.parametrize("seed", range(cases(200)))
def test_no_gap_is_below_the_distance_to_the_optimum(seed):
    problem, alphas = problem_of(seed)
    path = solve_path(problem, alphas, method=NEWTON, n_nodes=3, tol=1e-7, max_rounds=8)
    for alpha, result in zip(alphas, path.results, strict=True):
        one = problem.with_alpha(float(alpha))
        assert result.objective == pytest.approx(one.objective(result.coef, result.intercept), rel=1e-9)
        reference = solve(one, method=NEWTON, n_nodes=3, tol=1e-12, max_rounds=12)
        rounding = 1e-12 * abs(result.objective)
        assert result.objective - reference.objective <= result.gap + rounding
        assert result.status is Status.CONVERGED


def test_coefficients_are_scikit_learns():
    X, y, _ = data(3)
    Z = (X - X.mean(axis=0)) / X.std(axis=0).clip(1e-9)
    options = {"penalty": "elasticnet", "l1_ratio": 0.5, "split": "samples", "fit_intercept": True}
    problem = Problem.glm(Z, y, **options)
    path = solve_path(problem, len(y) * np.array([1.0, 0.1]), method=NEWTON, n_nodes=4, tol=1e-12)
    for alpha, result in zip((1.0, 0.1), path.results, strict=True):
        other = ElasticNet(alpha=alpha, l1_ratio=0.5, tol=1e-14, max_iter=100_000).fit(Z, y)
        assert np.allclose(result.coef, other.coef_, atol=1e-6)
        assert result.intercept == pytest.approx(other.intercept_, abs=1e-6)


@pytest.mark.parametrize("topology", ["ring", "complete"])
def test_a_path_takes_the_same_exchanges_for_any_number_of_weights(topology):
    problem, alphas = problem_of(1)
    options = {"method": NEWTON, "n_nodes": 4, "topology": topology, "tol": 1e-6}
    few, many = (solve_path(problem, grid, **options) for grid in (alphas[:2], alphas))
    assert few.communications == many.communications
    assert many.communications <= 5 * (1 if topology == "complete" else 2)  # two totals, and three maxima for grains
    assert {result.rounds for result in many.results} == {2}


@pytest.mark.parametrize("more", [{"n_blocks": 3}, {"n_jobs": 2}, {"topology": "complete"}, {"network": Network()}])
def test_hosting_and_route_do_not_change_a_bit(more):
    problem, alphas = problem_of(5)
    options = {"method": NEWTON, "n_nodes": 5, "tol": 1e-9}
    one, other = solve_path(problem, alphas, **options), solve_path(problem, alphas, **options | more)
    assert np.array_equal(one.coefs, other.coefs)
    assert [result.gap for result in one.results] == [result.gap for result in other.results]


def test_sparse_rows_are_as_good_as_dense_ones():
    X, y, _ = data(9)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.5, 0.0, X)
    options = {"penalty": "l1", "split": "samples", "fit_intercept": True}
    both = [
        solve_path(Problem.glm(matrix, y, **options), [50.0, 5.0], method=NEWTON, n_nodes=3, tol=1e-10)
        for matrix in (X, sp.csr_array(X))
    ]
    for one, other in zip(both[0].results, both[1].results, strict=True):
        assert one.status is other.status is Status.CONVERGED
        assert one.objective == pytest.approx(other.objective, rel=1e-9)


def test_several_weightings_are_each_as_if_their_rows_were_alone():
    X, y, _ = data(4)
    mask = np.arange(len(y)) % 3 != 0
    options = {"penalty": "l1", "split": "samples", "fit_intercept": True}
    whole = Problem.glm(X, y, **options)
    alphas = np.array([20.0, 2.0])
    parts = [whole, whole.with_targets([y], [mask.astype(float)])]
    made = solve_paths(parts, [alphas, alphas], method=NEWTON, n_nodes=3, tol=1e-8)
    for found, rows in zip(made.solutions, (np.ones(len(y), bool), mask), strict=True):
        alone = solve_path(Problem.glm(X[rows], y[rows], **options), alphas, method=NEWTON, n_nodes=3, tol=1e-8)
        expected = [result.objective for result in alone.results]
        assert np.allclose(found.objective, expected, rtol=1e-7)
        assert (found.gap <= 1e-8 * found.objective).all()


def test_a_certificate_of_each_weight_is_known_to_all_nodes():
    problem, alphas = problem_of(2)
    path = solve_path(problem, alphas, method=NEWTON, n_nodes=3, tol=1e-6, stop="certificate")
    assert {result.status for result in path.results} == {Status.CERTIFIED}
    assert all(result.certificate.relative <= 1e-6 for result in path.results)


def test_what_cannot_be_proven_is_not_called_converged():
    problem, alphas = problem_of(2)
    path = solve_path(problem, alphas, method=NEWTON, n_nodes=3, tol=0.0)
    assert {result.status for result in path.results} == {Status.OUT_OF_ROUNDS}
    assert max(result.rounds for result in path.results) < 20  # rounding is all that is left
