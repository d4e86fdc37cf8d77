"""The multinomial loss: formulas, extreme predictors, refusals."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.functions.softmax import Softmax
from tests.cases import cases

SIZES = (1e-3, 1.0, 30.0, 700.0)  # of predictors; exp(710) overflows


def _rows(seed):
    """Return (loss, classes y, predictors z) of some random rows, whose predictors are small or very large."""
    random = np.random.default_rng(seed)
    loss, m = Softmax(int(random.integers(2, 7))), 12
    z = random.choice(SIZES, size=(m, 1)) * random.normal(size=(m, loss.n_classes))
    return loss, random.integers(loss.n_classes, size=m).astype(float), z


def _exact(z):
    """Return (P, 1 - P, -log P) of the predictors of one row to 340 digits, as arrays of shape (C,)."""
    with localcontext(prec=340):
        powers = [(Decimal(one) - Decimal(z.max())).exp() for one in z.tolist()]
        P = [one / sum(powers) for one in powers]
        return np.array([[float(one), float(1 - one), float(-one.ln())] for one in P]).T


@pytest.mark.parametrize("seed", range(cases(100)))
def test_probabilities_losses_and_slopes_are_precise_to_the_last_digits(seed):
    loss, y, z = _rows(seed)
    P, rest = loss.probabilities(z)
    losses, slopes = loss.losses(y, z), loss.slopes(y, z)
    for i, one in enumerate(z):
        exact, others, logs = _exact(one)
        label = int(y[i])
        bound = 1e-13 + 4e-16 * np.ptp(one)  # the difference of two predictors is rounded
        np.testing.assert_allclose(P[i], exact, rtol=bound, atol=1e-300)
        np.testing.assert_allclose(rest[i], others, rtol=bound, atol=1e-300)
        np.testing.assert_allclose(losses[i], logs[label], rtol=bound, atol=1e-300)
        np.testing.assert_allclose(np.delete(slopes[i], label), np.delete(exact, label), rtol=bound, atol=1e-300)
        np.testing.assert_allclose(slopes[i, label], -others[label], rtol=bound, atol=1e-300)


def test_the_total_weighs_rows_and_the_log_likelihood_is_minus_it():
    loss, y, z = _rows(3)
    c = np.arange(len(y), dtype=float)
    assert np.isclose(loss.total(y, z, c), (c * loss.losses(y, z)).sum(), rtol=1e-14)
    assert np.isclose(loss.log_likelihoods(y, z, c, 1.0).sum(), -loss.total(y, z, c), rtol=1e-14)
    np.testing.assert_allclose(loss.mean(z).sum(axis=1), 1.0, rtol=1e-14)


def test_a_predictor_that_is_not_finite_has_an_infinite_loss():
    z = np.array([[0.0, np.inf, 0.0], [np.nan, 0.0, 0.0], [-np.inf, 0.0, 0.0], [0.0, 0.0, 0.0]])
    losses = Softmax(3).losses(np.zeros(4), z)
    assert np.isposinf(losses[:3]).all()
    assert np.isclose(losses[3], np.log(3))


@pytest.mark.parametrize("wrong", [3.0, -1.0, 0.5, np.nan, np.inf])
def test_targets_that_are_no_class_numbers_are_refused_with_their_row(wrong):
    loss = Softmax(3)
    loss.check(np.array([0.0, 1.0, 2.0]))
    with pytest.raises(InvalidData, match=r"y of node 4 holds .* at row 1, expected a class number 0, 1, \.\.\., 2"):
        loss.check(np.array([0.0, wrong]), " of node 4")


@pytest.mark.parametrize("wrong", [1, 0, 2.5, True])
def test_fewer_than_two_classes_are_refused(wrong):
    with pytest.raises(InvalidInput, match="n_classes must be a whole number >= 2"):
        Softmax(wrong)


def test_methods_that_need_a_dual_are_refused_with_what_would_do():
    loss = Softmax(3)
    assert loss.smooth(np.zeros(1), np.ones(1)) is None
    with pytest.raises(UnsuitablePair, match="MaximumLikelihood, split='samples'"):
        loss.dual(np.zeros(1), np.ones(1))
