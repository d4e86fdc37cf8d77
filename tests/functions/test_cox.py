"""Cox's loss as a whole: what it refuses, and what it is where the formula is short."""

import numpy as np
import pytest

from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.functions import Cox


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, 0.0, -2.0], "y of node 2 holds 0 at row 1; the cox loss needs "),
        ([-0.0, 1.0], "holds -0 at row 0"),
        ([3.0, np.nan], "holds nan at row 1"),
        ([3.0, -np.inf], "holds -inf at row 1"),
    ],
)
def test_targets_that_are_no_times_are_refused_with_their_row(y, message):
    with pytest.raises(InvalidData, match=message):
        Cox().check(np.array(y), " of node 2")


def test_times_of_events_and_of_censoring_are_targets():
    Cox().check(np.array([1e-300, -1e-300, 5.0, -7.0]))


def test_unknown_ties_are_refused():
    with pytest.raises(InvalidInput, match=r"ties must be 'efron' or 'breslow', got 'efronn'; did you mean 'efron'\?"):
        Cox("efronn")


def test_methods_that_need_a_dual_are_refused_with_the_one_that_does_not():
    with pytest.raises(UnsuitablePair, match="MaximumLikelihood"):
        Cox().dual(np.ones(2), np.ones(2))
    assert Cox().smooth(np.ones(2), np.ones(2)) is None


@pytest.mark.parametrize(("ties", "expected"), [("breslow", 3 * np.log(4)), ("efron", np.log(4 * 3 * 2))])
def test_three_of_four_equal_rows_die_at_once(ties, expected):
    y = np.array([2.0, 2.0, -2.0, 2.0])
    assert Cox(ties).total(y, np.full(4, 0.7), np.ones(4)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_the_loss_grows_with_the_weights_and_is_never_negative(ties):
    y, z = np.array([2.0, 2.0, -2.0, 1.0, 7.0]), np.array([5.0, 1.0, -9.0, 2.0, 0.0])
    weight = np.array([1.0, 0.5, 2.0, 0.7, 1.0])
    whole = Cox(ties).total(y, z, weight)
    assert Cox(ties).total(y, z, 1e-6 * weight) == pytest.approx(1e-6 * whole, rel=1e-12)
    assert Cox(ties).total(y, 30.0 / np.abs(y), weight) >= 0


def test_targets_without_any_event_are_refused():
    with pytest.raises(InvalidData, match="the event happened nowhere"):
        Cox().check_range(-5.0, -1.0)
    Cox().check_range(-5.0, 1.0)


def test_a_log_hazard_ratio_that_is_not_finite_has_an_infinite_loss():
    assert Cox().total(np.array([1.0, 2.0]), np.array([0.0, np.nan]), np.ones(2)) == np.inf
