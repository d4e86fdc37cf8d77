"""Cox's partial likelihood of a node's rows: against sums over every risk set one by one, and against statsmodels."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.sparse as sp

from glmesh.functions import Cox
from glmesh.methods.totals.likelihood import cox
from glmesh.methods.totals.likelihood.cox import CoxLikelihood
from tests.cases import cases

TIES = ("efron", "breslow")


@dataclass
class Rows:
    """Rows of one stratum."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    def likelihood(self, ties: str, sparse: bool = False) -> CoxLikelihood:
        X = sp.csr_array(self.X) if sparse else self.X
        return CoxLikelihood(Cox(ties), X, self.y, self.weight)


def random_rows(seed: int, m: int | None = None, p: int = 3, *, weighted: bool = True, ties: bool = True) -> Rows:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 60)) if m is None else m
    X = rng.normal(size=(m, p)) * (rng.random((m, p)) < 0.8) + rng.choice([0.0, 5.0])
    time = rng.integers(1, 12, m).astype(float) if ties else rng.permutation(m) + 0.5
    y = np.where(rng.random(m) < rng.uniform(0.2, 1.0), time, -time)
    weight = rng.uniform(0.2, 2.0, m) * (rng.random(m) < 0.9) if weighted else np.ones(m)
    return Rows(X, y, weight)


@dataclass
class Naive:
    """Sums over each risk set by themselves, as the formulas are written, at one point."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    scores: np.ndarray


def naive(rows: Rows, w: np.ndarray, ties: str) -> Naive:
    m, p = rows.X.shape
    X, time, weight, z = rows.X, np.abs(rows.y), rows.weight, rows.X @ w
    r = weight * np.exp(z)
    out = Naive(0.0, np.zeros(p), np.zeros((p, p)), np.zeros((m, p)))
    for t in np.unique(time):
        dead = (rows.y > 0) & (time == t) & (weight > 0)
        d = dead.sum()
        for k in range(d if ties == "efron" else min(d, 1)):
            share, mass = (k / d, weight[dead].mean()) if ties == "efron" else (0.0, weight[dead].sum())
            c = (time >= t) * (1.0 - share * dead) * r
            S, of_events = c.sum(), weight * dead * mass / weight[dead].sum()
            mean = c @ X / S
            out.value += mass * np.log(S / weight[dead].mean()) - of_events @ z
            out.gradient += mass * mean - of_events @ X
            out.hessian += mass * (X - mean).T @ ((X - mean) * (c / S)[:, None])
            out.scores += (X - mean) * (mass * c / S - of_events)[:, None]
    return out


def points(seed: int, p: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.zeros(p), 0.3 * rng.normal(size=p), 2.0 * rng.normal(size=p)]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(cases(200)))
def test_value_gradient_hessian_and_scores_are_the_sums_over_every_risk_set(seed, ties, sparse, monkeypatch):
    monkeypatch.setattr(cox, "CHUNK", 1 + 20 * (seed % 3))  # so that there are several chunks
    rows = random_rows(seed)
    likelihood = rows.likelihood(ties, sparse)
    for w in points(seed, 3):
        expected, point = naive(rows, w, ties), np.append(w, 0.0)
        made = likelihood.derivatives(point)
        np.testing.assert_allclose(likelihood.values(point[None, :]), [expected.value], rtol=1e-12, atol=1e-10)
        np.testing.assert_allclose(made.gradient[:-1], expected.gradient, atol=1e-10)
        np.testing.assert_allclose(made.hessian[:-1, :-1], expected.hessian, atol=1e-10)
        np.testing.assert_allclose(likelihood.scores(point)[:, :-1], expected.scores, atol=1e-10)
        np.testing.assert_array_equal(likelihood.information(point), made.hessian)
        assert Cox(ties).total(rows.y, rows.X @ w, rows.weight) == pytest.approx(expected.value, rel=1e-12, abs=1e-10)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(cases(30)))
def test_sites_as_strata_agree_with_statsmodels(seed, ties):
    from statsmodels.duration.hazard_regression import PHReg

    sites = [random_rows(seed + 100 * k, 20 + 15 * k, weighted=False) for k in range(3)]
    X, y = np.concatenate([one.X for one in sites]), np.concatenate([one.y for one in sites])
    strata = np.repeat(np.arange(3), [len(one.y) for one in sites])
    model = PHReg(np.abs(y), X, status=(y > 0).astype(int), strata=strata, ties=ties)
    likelihoods = [one.likelihood(ties) for one in sites]
    for w in points(seed, 3):
        point = np.append(w, 0.0)
        made = [one.derivatives(point) for one in likelihoods]
        value = sum(one.values(point[None, :])[0] for one in likelihoods)
        assert value == pytest.approx(-model.loglike(w), rel=1e-11)
        gradient, hessian = sum(one.gradient for one in made)[:-1], sum(one.hessian for one in made)[:-1, :-1]
        np.testing.assert_allclose(gradient, -model.score(w), atol=1e-9)
        np.testing.assert_allclose(hessian, -model.hessian(w), atol=1e-9)


def test_weights_of_efron_and_the_optimum_are_those_of_lifelines():
    import pandas as pd
    from lifelines import CoxPHFitter

    rows = random_rows(5, 80)
    used = rows.weight > 0
    frame = pd.DataFrame(rows.X[used], columns=["a", "b", "c"]).assign(
        time=np.abs(rows.y[used]), event=rows.y[used] > 0, weight=rows.weight[used]
    )
    fit = CoxPHFitter().fit(frame, "time", "event", weights_col="weight", robust=True, fit_options={"precision": 1e-12})
    likelihood, point = rows.likelihood("efron"), np.append(fit.params_.to_numpy(), 0.0)
    constant = 0.0  # sum over times of W log(W/d), W the weight of the d rows that die then
    for t in np.unique(rows.y[(rows.y > 0) & used]):
        weight = rows.weight[(rows.y == t) & used]
        constant += weight.sum() * np.log(weight.mean())
    assert likelihood.values(point[None, :])[0] == pytest.approx(-fit.log_likelihood_ - constant, rel=1e-10)
    assert np.abs(likelihood.derivatives(point).gradient).max() < 1e-5


@pytest.mark.parametrize("ties", TIES)
def test_whole_weights_are_repeated_rows_where_no_deaths_are_tied_or_ties_are_breslows(ties):
    rows = random_rows(3, 30, ties=ties == "breslow")
    rows.weight = np.random.default_rng(3).integers(1, 4, 30).astype(float)
    times = rows.weight.astype(int)
    again = Rows(np.repeat(rows.X, times, axis=0), np.repeat(rows.y, times), np.ones(times.sum()))
    point = np.append(points(3, 3)[1], 0.0)
    made, expected = rows.likelihood(ties).derivatives(point), again.likelihood("breslow").derivatives(point)
    np.testing.assert_allclose(made.gradient, expected.gradient, atol=1e-10)
    np.testing.assert_allclose(made.hessian, expected.hessian, atol=1e-10)


@pytest.mark.parametrize("ties", TIES)
def test_order_of_rows_and_rows_of_weight_zero_do_not_matter(ties):
    rows = random_rows(8, 40)
    rows.weight[::7] = 0.0
    shuffle, point = np.random.default_rng(8).permutation(40), np.append(points(8, 3)[1], 0.0)
    expected = rows.likelihood(ties)
    other = Rows(rows.X[shuffle], rows.y[shuffle], rows.weight[shuffle]).likelihood(ties)
    kept = rows.weight > 0
    fewer = Rows(rows.X[kept], rows.y[kept], rows.weight[kept]).likelihood(ties)
    assert kept.sum() < 40
    for made in (other, fewer):
        np.testing.assert_allclose(made.derivatives(point).hessian, expected.derivatives(point).hessian, atol=1e-11)
    np.testing.assert_allclose(other.scores(point), expected.scores(point)[shuffle], atol=1e-11)
    assert (expected.scores(point)[~kept] == 0).all()


@pytest.mark.parametrize("y", [[-1.0, -2.0, -2.0], []])
def test_a_node_without_any_event_adds_nothing(y):
    rows = Rows(np.ones((len(y), 2)), np.array(y), np.ones(len(y)))
    likelihood, point = rows.likelihood("efron"), np.ones(3)
    made = likelihood.derivatives(point)
    assert likelihood.d == 3
    assert likelihood.values(np.ones((2, 3))).tolist() == [0.0, 0.0]
    assert not made.gradient.any()
    assert not made.hessian.any()
    assert likelihood.scores(point).shape == (len(y), 3)
    assert not likelihood.scores(point).any()
    assert not likelihood.concordances(point, np.eye(3), np.inf).any()
    assert likelihood.noise(point, np.ones(3)) == 0.0


@pytest.mark.parametrize("ties", TIES)
def test_a_single_event_is_a_choice_among_those_at_risk(ties):
    X = np.array([[0.0], [1.0], [3.0], [7.0]])
    rows = Rows(X, np.array([-1.0, 2.0, -2.0, -5.0]), np.ones(4))  # the first is no longer at risk
    likelihood, w = rows.likelihood(ties), 0.4
    share = np.exp(w * X[1:, 0])
    share /= share.sum()
    mean = share @ X[1:, 0]
    made = likelihood.derivatives(np.array([w, 0.0]))
    assert likelihood.values(np.array([[w, 0.0]]))[0] == pytest.approx(-np.log(share[0]), rel=1e-14)
    assert made.gradient[0] == pytest.approx(mean - 1.0, rel=1e-14)
    assert made.hessian[0, 0] == pytest.approx(share @ (X[1:, 0] - mean) ** 2, rel=1e-14)


@pytest.mark.parametrize("ties", TIES)
def test_the_last_event_alone_in_its_risk_set_says_nothing(ties):
    rows = Rows(np.array([[2.0], [5.0]]), np.array([-1.0, 3.0]), np.array([1.0, 2.5]))
    made = rows.likelihood(ties).derivatives(np.array([3.0, 0.0]))
    assert not made.gradient.any()
    assert not made.hessian.any()
    assert not rows.likelihood(ties).concordances(np.zeros(2), np.eye(2), 1.0).any()


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("size", [300.0, 3e4])
def test_log_hazard_ratios_of_hundreds_lose_no_digits(size, ties):
    rows = random_rows(2, 25, p=1)
    rows.X = np.round(4.0 * rows.X)
    w = np.round(size / np.ptp(rows.X))
    value, first, second = in_many_digits(rows, w, ties)
    likelihood, point = rows.likelihood(ties), np.array([w, 0.0])
    assert np.ptp(rows.X * w) > size / 2
    made = likelihood.derivatives(point)
    assert likelihood.values(point[None, :])[0] == pytest.approx(float(value), rel=1e-13)
    assert made.gradient[0] == pytest.approx(float(first), rel=1e-12)
    assert made.hessian[0, 0] == pytest.approx(float(second), rel=1e-15 * size)


def in_many_digits(rows: Rows, w: float, ties: str) -> tuple[Decimal, Decimal, Decimal]:
    """Value, first and second derivative of rows with one column, in 60 digits."""
    with localcontext(prec=60):
        X, time, weight = [Decimal(x) for x in rows.X[:, 0]], np.abs(rows.y), [Decimal(c) for c in rows.weight]
        r = [c * (x * Decimal(w)).exp() for c, x in zip(weight, X, strict=True)]
        value = first = second = Decimal(0)
        for t in np.unique(time):
            dead = [i for i in range(len(X)) if rows.y[i] == t and weight[i] > 0]
            mass, count = sum(weight[i] for i in dead), len(dead) if ties == "efron" else min(1, len(dead))
            for k in range(count):
                c = [(time[i] >= t) * r[i] * (1 - Decimal(k) / count * (i in dead)) for i in range(len(X))]
                S = sum(c)
                mean = sum(a * x for a, x in zip(c, X, strict=True)) / S
                value += mass / count * (S * len(dead) / mass).ln()
                first += mass / count * mean
                second += mass / count * sum(a * (x - mean) ** 2 for a, x in zip(c, X, strict=True)) / S
            value -= sum(weight[i] * X[i] * Decimal(w) for i in dead)
            first -= sum(weight[i] * X[i] for i in dead)
        return value, first, second


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(cases(100)))
def test_rounding_moves_the_gradient_by_less_than_the_noise(seed, ties):
    rng = np.random.default_rng(seed)
    rows = random_rows(seed, int(rng.integers(4, 60)), p=1)
    rows.X = np.round(64.0 * rows.X) / 64.0 + rng.choice([0.0, 2.0**10])
    w = np.round(rng.normal() * 32.0) / 16.0
    point, scale = np.array([w, 0.0]), np.array([2.0, 1.0])
    likelihood, first = rows.likelihood(ties), in_many_digits(rows, w, ties)[1]
    error = abs(float(Decimal(likelihood.derivatives(point).gradient[0]) - first)) / 2.0
    noise = likelihood.noise(point, scale)
    assert error <= noise
    assert noise <= 1e-15 * len(rows.y) ** 1.5 * (1.0 + 64.0 * np.abs(rows.X).max())


def test_columns_with_a_large_mean_lose_no_digits():
    rows, point = random_rows(4, 50, weighted=False), np.append(points(4, 3)[1], 0.0)
    moved = Rows(rows.X + 2.0**20, rows.y, rows.weight)  # nearly exact
    made, expected = moved.likelihood("efron").derivatives(point), rows.likelihood("efron").derivatives(point)
    np.testing.assert_allclose(made.hessian, expected.hessian, atol=1e-7)
    np.testing.assert_allclose(made.gradient, expected.gradient, atol=1e-7)


def test_a_point_where_predictions_overflow_has_an_infinite_value():
    rows = random_rows(1, 10)
    assert rows.likelihood("efron").values(np.array([[1e308, 1e308, -1e308, 0.0]])).tolist() == [np.inf]


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(cases(100)))
def test_third_derivatives_are_within_the_concordance_at_every_point(seed, ties):
    rng = np.random.default_rng(seed)
    rows = random_rows(seed, int(rng.integers(4, 30)), p=2)
    likelihood, at = rows.likelihood(ties), np.append(rng.normal(size=2), 0.0)
    L = np.linalg.cholesky(likelihood.derivatives(at).hessian + 1e-3 * np.eye(3))
    R = likelihood.concordances(at, np.linalg.inv(L), np.inf)
    assert ((R == 0) | (rows.y > 0)).all()
    for _ in range(10):
        p = np.linalg.solve(L.T, rng.normal(size=3))
        p /= np.linalg.norm(L.T @ p)
        point, h = at + rng.normal(size=3), 1e-4
        before, here, after = (p @ likelihood.derivatives(point + t * p).hessian @ p for t in (-h, 0.0, h))
        assert abs(after - before) / (2 * h) <= R.max() * here * (1 + 1e-6) + 1e-9


def test_the_concordance_is_nearly_reached_where_two_rows_are_far_apart():
    rows = Rows(np.array([[0.0], [1.0]]), np.array([1.0, -2.0]), np.ones(2))
    likelihood, h = rows.likelihood("efron"), 1e-3
    R = likelihood.concordances(np.zeros(2), np.eye(2), np.inf)
    assert R.tolist() == [1.0, 0.0]
    before, here, after = (likelihood.derivatives(np.array([w, 0.0])).hessian[0, 0] for w in (-9 - h, -9.0, -9 + h))
    assert (after - before) / (2 * h) / here > 0.99
