"""Which accelerator runs, and when it is switched: rules that read only what all nodes share."""

from __future__ import annotations

import numpy as np
import pytest

from glmesh import Cola, Problem, Run
from glmesh.collectives.pipeline import TreeAggregate
from glmesh.methods.cola import choice
from glmesh.methods.cola.choice import AccelerationChoice
from glmesh.methods.cola.exact_sums import ExactSums
from glmesh.methods.cola.momentum import Nesterov
from glmesh.methods.cola.monitor import TreeMonitor
from glmesh.methods.cola.restarts import Decision, SharedPolicy


@pytest.fixture
def block():
    X = np.random.default_rng(0).normal(size=(20, 12))
    return Run(Problem.glm(X, X[:, 0], penalty="l1", alpha=1.0), n_nodes=6).blocks[0]


def test_sums_are_tried_after_the_exchanges_of_forty_sums(block):
    decides = AccelerationChoice.of(block, "sums")
    lead = choice.MOMENTUM_FIRST * decides.exchanges_per_sum
    switches = [decides.after_momentum(round, -float(round)) for round in range(1, lead + 1)]
    assert switches[:-1] == [None] * (lead - 1)
    assert switches[-1][0] == "sums"
    assert decides.progress == 1.0


def test_a_trial_that_wins_too_little_ends_and_the_next_comes_later(block):
    decides = AccelerationChoice.of(block, "sums")
    begin = decides.next_trial
    for round in range(1, begin + 1):
        decides.after_momentum(round, -float(round))
    slow = ExactSums(value=-float(begin))
    ends = [decides.after_sum(begin + i, slow) for i in range(1, choice.LONGEST_TRIAL + 1)]
    assert ends[:-1] == [None] * (choice.LONGEST_TRIAL - 1)
    assert ends[-1] == ("momentum", "exact sums were slower")
    assert decides.next_trial == begin + choice.LONGEST_TRIAL + choice.TRIAL_BACKOFF * begin


def test_sums_that_won_half_as_much_per_exchange_stay(block):
    decides = AccelerationChoice.of(block, "sums")
    begin = decides.next_trial
    for round in range(1, begin + 1):
        decides.after_momentum(round, -float(round))
    rounds = range(begin + 1, begin + 3 * choice.LONGEST_TRIAL)
    fast = ExactSums(value=-1e9)
    assert [decides.after_sum(round, fast) for round in rounds] == [None] * len(rounds)


def test_idle_and_broken_sums_give_way_to_momentum(block):
    decides = AccelerationChoice.of(block, "sums")
    decides.retarget(0)
    assert decides.after_momentum(0, np.nan)[0] == "sums"
    assert decides.after_sum(1, ExactSums(idle=choice.MOST_IDLE))[1] == "exact sums had nothing more to win"
    assert decides.after_momentum(10**6, 0.0) is None  # until the problem is another
    nothing = AccelerationChoice.of(block, "")
    assert nothing.after_momentum(10**6, 0.0) is None
    assert nothing.after_sum(1, ExactSums(idle=choice.MOST_IDLE)) is None  # asked for, so kept
    assert "missing" in nothing.after_sum(1, ExactSums(broken=True))[1]


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
