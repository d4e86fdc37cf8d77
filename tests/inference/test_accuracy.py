"""What the certificate says of coefficients, standard errors, z values and the deviance holds at the exact optimum."""

from __future__ import annotations

import numpy as np
import pytest

from glmesh.functions.families import Binomial, Gamma, Gaussian, Poisson
from glmesh.inference import Inference
from glmesh.methods.totals.likelihood.statistics import inverse
from tests.cases import cases
from tests.inference.fits import Table


def drawn(rng, family):
    """A random table whose columns have other sizes, and the coefficients of its optimum."""
    X = rng.normal(size=(80, 3)) * 10.0 ** rng.uniform(-2, 2, 3) @ (np.eye(3) + 0.5 * np.triu(np.ones((3, 3)), 1))
    z = X @ (rng.normal(size=3) / np.abs(X).mean(axis=0)) * 0.3 + 0.2
    y = {
        "binomial": lambda: (rng.uniform(size=80) < 1 / (1 + np.exp(-z))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(z)).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(z)),
        "gaussian": lambda: z + rng.normal(size=80),
    }[family.name]()
    table = Table(family, X, y, weight=rng.uniform(0.5, 2.0, 80))
    start = np.append(np.zeros(3), family.predictor(np.array([max(y.mean(), 0.01)]))[0])
    return table, start


def concordance(table, coef):
    """R over all rows at coefficients, and lambda."""
    fitted = table.fitted(coef)
    _, gradient, hessian = table.curves(fitted.coef[None])[0]
    L = np.linalg.inv(np.linalg.cholesky(hessian))
    length = float(np.linalg.norm(L @ gradient))
    R = [node.likelihood.concordances(fitted.coef, L, 2 * length).max() for node in table.nodes(fitted)]
    return max(R)


@pytest.mark.parametrize("family", [Binomial(), Poisson(), Gamma(), Gaussian()], ids=lambda family: family.name)
def test_bounds_hold_and_are_near_the_truth(family):
    rng = np.random.default_rng(7)
    tightness = []
    for _ in range(cases(60)):
        table, start = drawn(rng, family)
        exact = table.newton(start, 40)
        spread = inverse(table.statistics(exact).hessian)
        coef = exact + 10.0 ** rng.uniform(-6, -1) * np.linalg.cholesky(spread) @ rng.normal(size=4)
        statistics = table.statistics(coef, concordance=concordance(table, coef))
        if np.isnan(statistics.distance):
            assert statistics.fitted.concordance * statistics.decrement > 0.5
            continue
        near, best = Inference(statistics).summary(), Inference(table.statistics(exact)).summary()
        off = np.abs(near.columns[:, 0] - best.columns[:, 0]) / near.columns[:, 1]
        assert (off <= np.roll(near.accuracy.coefficients, 1) * (1 + 1e-6)).all()
        assert (
            0
            <= near.statistics.deviance - best.statistics.deviance + 1e-12
            <= near.accuracy.deviance * (1 + 1e-6) + 1e-11
        )
        tightness.append((statistics.deviance - best.statistics.deviance + 1e-12) / (near.accuracy.deviance + 1e-12))
        ratio, f = best.columns[:, 1] / near.columns[:, 1], near.accuracy.standard_errors * (1 + 1e-9)
        assert (ratio <= f).all()
        assert (ratio >= 1 / f).all()
        low, high = near.accuracy.z_values(np.roll(near.columns[:, 2], -1))
        z = np.abs(np.roll(best.columns[:, 2], -1))
        assert (low <= z * (1 + 1e-9)).all()
        assert (z <= high * (1 + 1e-9)).all()
    assert np.median(tightness) > 0.5


def test_without_a_proof_nothing_is_claimed():
    rng = np.random.default_rng(1)
    table, start = drawn(rng, Poisson())
    coef = table.newton(start, 40)
    statistics = table.statistics(coef)
    assert np.isnan([statistics.distance, statistics.gap, statistics.hessian_error]).all()
    assert "no proof" in Inference(statistics).summary().proof
    stationary = Table(Gaussian(link="log"), table.X / 10, np.exp(table.y / 10))
    summary = Inference(stationary.statistics(stationary.newton(np.zeros(4), 30))).summary()
    assert summary.proof.startswith("a stationary point; no proof that it is the maximum")


def test_the_proof_is_rounded_upwards():
    rng = np.random.default_rng(2)
    table, start = drawn(rng, Poisson())
    exact = table.newton(start, 40)
    statistics = table.statistics(exact, concordance=1.0, decrement=2.4e-7)
    summary = Inference(statistics).summary()
    assert summary.accuracy.worst == pytest.approx(2.4e-7)
    assert summary.proof == "each coefficient is within 3e-07 standard errors of the exact estimate"
    assert "Each coefficient is within 3e-07 standard errors of the exact estimate." in str(summary)
