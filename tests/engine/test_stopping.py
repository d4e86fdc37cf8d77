"""What ends a run: gap, certificate, callback, Ctrl-C, divergence and the last round."""

import os
import signal

import numpy as np
import pytest

from glmesh import Cola, Status, solve
from tests.scenes import PROBLEMS


def test_the_callback_stops_and_sees_the_run():
    rounds = []

    def callback(run):
        rounds.append(run.rounds)
        return run.rounds == 4

    result = solve(PROBLEMS["lasso"](), n_nodes=4, callback=callback, record_every=100)
    assert rounds == [1, 2, 3, 4]
    assert result.status is Status.STOPPED_BY_CALLBACK
    assert result.rounds == 4
    assert result.history["round"].tolist() == [0, 4]


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_returns_what_there_is(jobs):
    before = signal.getsignal(signal.SIGINT)

    def press(run):
        if run.rounds == 5:
            os.kill(os.getpid(), signal.SIGINT)

    result = solve(PROBLEMS["lasso"](), n_nodes=4, tol=0.0, max_rounds=10**9, callback=press, n_jobs=jobs)
    assert result.status is Status.INTERRUPTED
    assert 5 <= result.rounds <= 6
    assert np.isfinite(result.objective)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_is_an_exception_again():
    def press_twice(run):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        solve(PROBLEMS["lasso"](), n_nodes=4, callback=press_twice, tol=0.0)
    assert signal.getsignal(signal.SIGINT) is before


def test_too_small_a_sigma_ends_with_the_status_diverged():
    with np.errstate(all="ignore"):
        result = solve(
            PROBLEMS["lasso"](), method=Cola(sigma=0.05), n_nodes=8, tol=0.0, max_rounds=5000, n_jobs=1, record_every=10
        )
    assert result.status is Status.DIVERGED
    assert "raise sigma" in result.message


def test_every_status_is_a_sentence():
    for status in Status:
        assert str(status) == status.value
        assert status.value[0].isupper()
        assert status.value.endswith(".")
        assert len(status.value.split()) >= 4
    result = solve(PROBLEMS["lasso"](), n_nodes=4, max_rounds=2, tol=0.0)
    assert "2 rounds, 2 communications" in result.message
    assert "raise max_rounds" in result.message
    assert result.message in repr(result)
