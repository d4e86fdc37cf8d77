"""What ends a run: gap, certificate, callback, Ctrl-C, divergence and the last round."""

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest

from glmesh import Cola, Status, solve
from glmesh.engine.stopping import Certified, Diverged, RoundLimit, SmallGap, Wishes
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
    result = solve(PROBLEMS["lasso"](), n_nodes=4, max_rounds=2, tol=0.0, method=Cola(acceleration="momentum"))
    assert "2 rounds, 2 communications" in result.message
    assert "raise max_rounds" in result.message
    assert result.message in repr(result)


# --- the rules, on runs that are nothing but figures ------------------------------------------------------------


class Figures:
    """A run as far as a stopping rule looks at one."""

    def __init__(self, rounds=0, relative=None, wishes=((False, False),), primal=False):
        self.rounds, self.nodes = rounds, SimpleNamespace(primal=primal, finished=None)
        self.certificate = None if relative is None else SimpleNamespace(relative=relative)
        self.processes = SimpleNamespace(
            size=len(wishes), all_gather=lambda own: [*own, *wishes[1:]], hurry=lambda seconds=np.inf: None
        )


def test_a_run_diverges_where_h_is_not_finite():
    rule = Diverged()
    assert rule.check(Figures(), {"h": np.inf}) is rule.check(Figures(), {"h": np.nan}) is Status.DIVERGED
    assert rule.check(Figures(), {"h": 1e300}) is None
    assert rule.check(Figures(), None) is None  # a round without a record


def test_where_there_are_coefficients_alone_their_objective_counts():
    rule, run = Diverged(), Figures(primal=True)
    assert rule.check(run, {"h": np.nan, "objective": np.inf}) is Status.DIVERGED
    assert rule.check(run, {"h": np.nan, "objective": np.nan}) is None  # before the first total
    assert rule.check(run, {"h": np.nan, "objective": 1e300}) is None


@pytest.mark.parametrize(("gap", "status"), [(0.2, Status.CONVERGED), (0.21, None), (np.nan, None), (-1.0, "any")])
def test_a_small_gap_is_relative_to_the_size_of_the_objective(gap, status):
    found = SmallGap(0.1).check(Figures(), {"gap": gap, "objective": -2.0})
    assert found is (Status.CONVERGED if status == "any" else status)
    assert SmallGap(0.1).check(Figures(), None) is None


def test_only_a_certificate_that_is_good_enough_certifies():
    rule = Certified(1e-3)
    assert rule.check(Figures(relative=1e-3), None) is Status.CERTIFIED
    assert rule.check(Figures(relative=2e-3), {"gap": 0.0, "objective": 1.0}) is None
    assert rule.check(Figures(), None) is None


@pytest.mark.parametrize("status", [Status.ROUNDS_DONE, Status.OUT_OF_ROUNDS])
def test_the_last_round_ends_a_run_with_the_status_given(status):
    rule = RoundLimit(5, status)
    assert [rule.check(Figures(rounds), None) for rounds in (0, 4, 5, 6)] == [None, None, status, status]


def test_the_callback_of_a_single_process_is_obeyed_at_once():
    run = Figures()
    with Wishes(run, lambda run: run.rounds == 3) as wishes:
        assert wishes.ask(Figures(2)) is None
        assert wishes.ask(Figures(3)) is Status.STOPPED_BY_CALLBACK
        assert wishes.check(run, None) is Status.STOPPED_BY_CALLBACK


def test_processes_obey_the_wish_of_any_one_of_them_at_the_next_record():
    entry = {"h": 1.0}
    wished, interrupted = Figures(wishes=((False, False), (False, True))), Figures(wishes=((False,) * 2, (True, False)))
    with Wishes(wished, None) as wishes:
        assert wishes.ask(wished) is None
        assert wishes.check(wished, None) is None
        assert wishes.check(wished, entry) is Status.STOPPED_BY_CALLBACK
        assert wishes.check(interrupted, entry) is Status.INTERRUPTED


def test_signals_are_handled_as_before_once_a_run_has_ended():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    pair = Figures(wishes=((False, False),) * 2)
    with Wishes(pair, None) as wishes:
        os.kill(os.getpid(), signal.SIGTERM)
        assert wishes.check(pair, {"h": 1.0}) is Status.INTERRUPTED
        assert signal.getsignal(signal.SIGTERM) is before[signal.SIGTERM]  # the second signal ends the process
    assert {number: signal.getsignal(number) for number in before} == before
