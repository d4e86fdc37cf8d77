"""The totals at the end of a fit say the same for any number of nodes, and can be saved with the run."""

from __future__ import annotations

import numpy as np
import pytest

import glmesh
from glmesh import Problem, Status, solve
from glmesh.functions.families import Binomial, Gamma, Gaussian, Poisson
from glmesh.inference import Inference
from glmesh.methods import MaximumLikelihood
from tests.inference.fits import Table

RNG = np.random.default_rng(8)
X = RNG.normal(size=(90, 3))
Y = RNG.poisson(np.exp(X @ [0.4, -0.2, 0.1] + 0.3)).astype(float)


def problem(family, y, **options):
    return Problem.glm(X, y, family=family, **({"alpha": 0.0, "fit_intercept": True} | options))


@pytest.mark.parametrize("n_nodes", [1, 3, 16])
@pytest.mark.parametrize("family", [Poisson(), Gamma(), Binomial(link="probit"), Gaussian(link="log")], ids=repr)
def test_statistics_are_those_of_all_rows_at_the_final_point(family, n_nodes):
    y = {"gamma": Y + 1, "binomial": np.minimum(Y, 1), "gaussian": Y + 0.5}.get(family.name, Y)
    result = solve(problem(family, y), method=MaximumLikelihood(), n_nodes=n_nodes)
    assert result.status is (Status.CONVERGED if family.convex else Status.STATIONARY)
    ours, direct = result.statistics, Table(family, X, y).statistics(np.append(result.coef, result.intercept))
    for name in ("n", "loss", "pearson", "null_loss", "log_likelihood", "dispersion"):
        assert getattr(ours, name) == pytest.approx(getattr(direct, name), rel=1e-10), name
    for kind in ("model", "HC0", "HC1", "HC2", "HC3"):
        np.testing.assert_allclose(Inference(ours).vcov(kind), Inference(direct).vcov(kind), rtol=1e-8, atol=1e-14)
    if family.convex:
        off = result.standard_errors_off
        assert Inference(ours).summary().accuracy.worst == pytest.approx(off, rel=0.5, abs=1e-12)
        assert ours.gap <= 1e-6


def test_a_penalty_or_bounds_leave_no_statistics():
    assert solve(problem("poisson", Y, alpha=1.0), method=MaximumLikelihood(), n_nodes=2).statistics is None
    bounded = glmesh.functions.NonNegative()
    held = solve(problem("poisson", Y, penalty=bounded, alpha=1.0), method=MaximumLikelihood(), n_nodes=2)
    assert held.statistics is None


def test_a_run_that_was_saved_has_its_statistics(tmp_path):
    options = {"method": MaximumLikelihood(), "n_nodes": 3, "checkpoint": tmp_path / "run"}
    assert solve(problem("poisson", Y), max_rounds=2, **options).statistics is None
    first = solve(problem("poisson", Y), **options).statistics
    again = solve(problem("poisson", Y), **options).statistics
    direct = solve(problem("poisson", Y), method=MaximumLikelihood(), n_nodes=3).statistics
    for statistics in (first, again):
        np.testing.assert_array_equal(statistics.hessian, direct.hessian)
        np.testing.assert_array_equal(statistics.meats["HC3"], direct.meats["HC3"])
        assert (statistics.aic, statistics.distance) == (direct.aic, direct.distance)
