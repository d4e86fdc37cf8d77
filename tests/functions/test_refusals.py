"""Functions of bad parameters are refused with a reason."""

import re

import numpy as np
import pytest

from glmesh.errors import InvalidInput
from glmesh.functions import (
    L1,
    L2,
    LOSSES,
    Box,
    ConjugateOf,
    ElasticNet,
    EpsilonInsensitiveLoss,
    GroupLasso,
    HingeLoss,
    Huber,
    HuberLoss,
    Logistic,
    LogisticDual,
    NonNegative,
    Profiled,
    QuantileLoss,
    SmoothedHingeLoss,
    Squared,
    SquaredEpsilonInsensitiveLoss,
    SquaredHinge,
    Table,
)
from tests.functions.checks import ONES

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L1(-1.0), "the penalty l1 must be finite and >= 0, got -1.0"),
        (lambda: L1([1.0, -2.0]), "the penalty l1 must be finite and >= 0, got -2.0"),
        (lambda: L2(-0.5), "the penalty l2 must be finite and >= 0, got -0.5"),
        (lambda: L2(INF), "the penalty l2 must be finite and >= 0, got inf"),
        (lambda: ElasticNet(1.0, -1.0), "the penalty l2 must be"),
        (lambda: L1(NAN), "l1 holds NaN"),
        (lambda: L2([1.0, NAN]), "l2 holds NaN"),
        (lambda: Box(NAN, 1.0), "lo holds NaN"),
        (lambda: Box(0.0, NAN), "hi holds NaN"),
        (lambda: Table(linear=np.array(NAN)), "linear holds NaN"),
        (lambda: Table(linear=np.array(INF)), "the linear term must be finite"),
        (lambda: Box(1.0, 0.0), "every lower bound must be at most its upper bound"),
        (lambda: Box([0.0, 2.0], [1.0, 1.0]), "every lower bound must be at most its upper bound"),
        (lambda: Box(INF, INF), "every lower bound must be at most its upper bound"),
        (lambda: Box(-INF, -INF), "every lower bound must be at most its upper bound"),
        (lambda: L1(np.ones((2, 2))), "l1 has 2 dimensions"),
        (lambda: ElasticNet(np.ones(2), np.ones(3)), "l2 has 3 entries but l1 has 2"),
        (lambda: L1(np.ones(2), hi=np.ones(3)), "hi has 3 entries but l1 has 2"),
        (lambda: L1(1.0).scaled(-1.0), "the penalty l1 must be finite and >= 0"),
        (lambda: L1(ONES).check_size(4), "the penalty's l1 has 3 entries for 4 columns"),
        (lambda: LogisticDual(ONES, ONES).check_size(2), "the logistic dual has 3 labels for 2 columns"),
        (lambda: LogisticDual(ONES, np.ones(2)), "one per target"),
        (lambda: LogisticDual(ONES, -ONES), "weights must be finite, >= 0"),
        (lambda: LogisticDual(ONES, NAN * ONES), "weights must be finite, >= 0"),
        (lambda: LogisticDual(0.5 * ONES, ONES), "labels must be -1 or 1"),
        (lambda: LogisticDual(ONES, ONES).scaled(2.0), "scaled through sample weights"),
        (lambda: GroupLasso(np.array([0.5, 1.0])), "groups must be one integer label per column"),
        (lambda: GroupLasso(np.array([[0, 1]])), "groups must be one integer label per column"),
        (lambda: GroupLasso(np.array([0, 1]), np.ones(3)), "3 group weights for 2 groups"),
        (lambda: GroupLasso(np.array([0, 1]), -np.ones(2)), "group weights must be finite and >= 0"),
        (lambda: GroupLasso(np.array([0, 1]), np.array(NAN)), "group weights must be finite and >= 0"),
        (lambda: GroupLasso(np.array([0, 1])).scaled(-2.0), "group weights must be finite and >= 0"),
        (lambda: GroupLasso(np.array([0, 1])).check_size(3), "GroupLasso has 2 group labels for 3 columns"),
        (lambda: GroupLasso(np.array([1, 0])).pieces(2), "columns must be ordered by group"),
        (lambda: Squared(ONES, np.ones(2)), "one per target"),
        (lambda: Squared(ONES, -ONES), "weights must be finite, >= 0"),
        (lambda: Logistic(ONES, NAN * ONES), "weights must be finite, >= 0"),
        (lambda: Huber(ONES, INF * ONES), "weights must be finite, >= 0"),
        (lambda: Squared(NAN * ONES), "targets must be finite"),
        (lambda: Squared(np.ones((2, 2))), "targets must be finite and in one dimension"),
        (lambda: Logistic(2 * ONES), "labels must be -1 or 1"),
        (lambda: Logistic(NAN * ONES), "labels must be -1 or 1"),
        (lambda: SquaredHinge(np.array([0.0, 1.0])), "labels must be -1 or 1"),
        (lambda: Huber(ONES, delta=0.0), "Huber needs a finite delta > 0, got 0.0"),
        (lambda: Huber(ONES, delta=NAN), "Huber needs a finite delta > 0"),
        (lambda: ConjugateOf(L1(1.0)), "smooth only if every column has l2 > 0"),
        (lambda: ConjugateOf(L2([1.0, 0.0])), "smooth only if every column has l2 > 0"),
        (lambda: ConjugateOf(L2([1.0, 0.0], lo=[0.0, 0.0], hi=[0.0, 1.0])), "smooth only if every column has l2 > 0"),
        (lambda: Profiled(Squared(ONES), np.ones(2)), "direction must be finite and have one number per row"),
        (lambda: Profiled(Squared(ONES), NAN * ONES), "direction must be finite and have one number per row"),
        (lambda: HuberLoss(0.0), "HuberLoss needs a finite delta > 0, got 0.0"),
        (lambda: HuberLoss(INF), "HuberLoss needs a finite delta > 0, got inf"),
        (lambda: HuberLoss(NAN), "HuberLoss needs a finite delta > 0, got nan"),
        (lambda: SmoothedHingeLoss(0.0), "SmoothedHingeLoss needs a finite width > 0 (0 is the hinge), got 0.0"),
        (lambda: SmoothedHingeLoss(INF), "SmoothedHingeLoss needs a finite width > 0"),
        (lambda: EpsilonInsensitiveLoss(-0.1), "EpsilonInsensitiveLoss needs a finite epsilon >= 0, got -0.1"),
        (lambda: EpsilonInsensitiveLoss(NAN), "EpsilonInsensitiveLoss needs a finite epsilon >= 0"),
        (lambda: EpsilonInsensitiveLoss(INF), "EpsilonInsensitiveLoss needs a finite epsilon >= 0"),
        (lambda: SquaredEpsilonInsensitiveLoss(-1.0), "SquaredEpsilonInsensitiveLoss needs a finite epsilon >= 0"),
        (lambda: QuantileLoss(0.0), "QuantileLoss needs 0 < quantile < 1, got 0.0"),
        (lambda: QuantileLoss(1.0), "QuantileLoss needs 0 < quantile < 1, got 1.0"),
        (lambda: QuantileLoss(NAN), "QuantileLoss needs 0 < quantile < 1"),
        (lambda: HingeLoss().dual(0.5 * ONES, ONES), "labels must be -1 or 1"),
    ],
)
def test_refused_with_a_reason(make, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        make()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("c", [-ONES, NAN * ONES, INF * ONES, np.ones(2)])
def test_duals_refuse_bad_weights(name, c):
    with pytest.raises(InvalidInput, match="weights must be finite, >= 0 and one per target"):
        LOSSES[name]().dual(ONES, c)


def test_functions_of_one_weight_fit_any_number_of_columns():
    for g in (L1(1.0), L2(1.0), ElasticNet(), Box(0.0, 1.0), NonNegative(), Table()):
        for n in (0, 1, 5):
            g.check_size(n)
            assert g.kernel_rows(n).shape == (n, 5)
    assert L2(np.ones(3)).take(np.array([], dtype=np.int64)).strong_convexity == np.inf
