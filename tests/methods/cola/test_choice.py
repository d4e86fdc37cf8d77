"""When exact sums give way to momentum, and how momentum restarts: rules that read only what all nodes share."""

from __future__ import annotations

import numpy as np
import pytest

from glmesh import Cola, Problem, Run
from glmesh.collectives.pipeline import TreeAggregate
from glmesh.methods.cola.choice import MOST_IDLE, Choice
from glmesh.methods.cola.momentum import Nesterov
from glmesh.methods.cola.monitor import TreeMonitor
from glmesh.methods.cola.restarts import Decision, SharedPolicy


@pytest.fixture
def block():
    X = np.random.default_rng(0).normal(size=(20, 12))
    return Run(Problem.glm(X, X[:, 0], penalty="l1", alpha=1.0), n_nodes=6).blocks[0]


def test_idle_sums_that_auto_chose_give_way_to_momentum_until_the_problem_is_another(block):
    states = {leaves: Cola().start(block, choice=Choice("sums", "", leaves=leaves)) for leaves in (True, False)}
    for state in states.values():
        state.exact.idle = MOST_IDLE - 1
        state.finish_round(block)
        assert state.exact is not None
        state.exact.idle = MOST_IDLE
        state.finish_round(block)
    assert states[True].exact is None
    assert states[True].story[-1] == (2, "momentum", "exact sums had nothing more to win")
    assert states[False].exact is not None  # asked for, so kept
    Cola().retarget(block, states[True])
    assert states[True].story[-1][1] == "sums"
    assert states[True].exact.idle == 0


def test_sums_that_lack_a_part_give_way_to_momentum_for_good(block):
    for leaves in (True, False):
        state = Cola().start(block, choice=Choice("sums", "", leaves=leaves))
        state.exact.broken = True
        state.finish_round(block)
        assert state.exact is None
        assert "missing" in state.story[-1][2]
        Cola().retarget(block, state)
        assert state.exact is None


def test_restarts_follow_h(block):
    policy = SharedPolicy(TreeMonitor(TreeAggregate.of(block)), stride=1e9)
    policy.begin_round(Run(Problem.glm(np.eye(6), np.ones(6)), n_nodes=6).states[0])
    seen = [policy.decide(h, round, round) for round, h in enumerate([10.0, 5.0, 5.1, 9.0])]
    assert seen == [Decision.KEEP, Decision.KEEP, Decision.RESTART, Decision.ROLLBACK]
    assert policy.best == 5.0


def test_nesterovs_sequence_is_bounded_after_a_rollback():
    sequence = Nesterov.of(2)
    for _ in range(20):
        sequence.step()
    t = sequence.t[0]
    sequence.follow(slice(None), Decision.ROLLBACK)
    assert (sequence.t == 1.0).all()
    assert (sequence.theta == 0.0).all()
    np.testing.assert_array_equal(sequence.cap, [t / 2, t / 2])
    for _ in range(50):
        sequence.step()
    np.testing.assert_array_equal(sequence.t, sequence.cap)


def test_the_old_name_of_flow_gossip_warns_and_means_the_same():
    with pytest.warns(DeprecationWarning, match="gossip='flows'"):
        old = Cola(gossip="ledger")
    assert old == Cola(gossip="flows")
