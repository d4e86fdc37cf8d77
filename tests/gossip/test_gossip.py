"""Push-flow gossip: one pure state machine per end of a link, and gossip made of it."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh import Cola, Problem, Run
from glmesh.gossip.edge import NEVER, Edge, OfferOutcome
from glmesh.kernels.flow import add_flow, fingerprint
from tests.cases import cases, prop

WIDTH = 3


class Link:
    """Two ends, the messages between them, and an adversary's moves."""

    def __init__(self, seed: int, *, momentum: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.momentum = momentum
        self.ends = [self.fresh(0), self.fresh(1)]
        self.u = self.rng.normal(size=(2, WIDTH))
        self.on_the_way: list = []
        self.backups: list[list[Edge]] = [[copy.deepcopy(end)] for end in self.ends]
        self.seen: Counter = Counter()
        self.clock = 0

    def fresh(self, k: int) -> Edge:
        return Edge(k, 1 - k, np.zeros(WIDTH), drift=np.zeros(WIDTH if self.momentum else 0))

    def offer(self, k: int) -> None:
        s = self.u[k] + self.ends[k].flow
        if self.momentum:
            self.ends[k].advance(self.rng.random())
        self.on_the_way.append((1 - k, self.ends[k].offer(s, 1 / 3, self.clock)))

    def deliver(self, i: int, *, keep: bool = False) -> None:
        receiver, offer = self.on_the_way[i] if keep else self.on_the_way.pop(i)
        self.seen[self.ends[receiver].receive(offer)] += 1

    def exchange(self, *, lose_first: bool = False) -> None:
        """Both offer, and both hear it."""
        self.clock += 1
        self.offer(0)
        self.offer(1)
        if lose_first:
            del self.on_the_way[0]
        while self.on_the_way:
            self.deliver(0)

    def crash(self, k: int, backup: Edge | None) -> None:
        """The end restarts from a backup, or from nothing; only its incarnation is sure to be new."""
        life = self.ends[k].incarnation
        self.ends[k] = self.fresh(k) if backup is None else copy.deepcopy(backup)
        self.ends[k].restart(life + 1)

    def move(self, draw: np.ndarray) -> None:
        """One event of the adversary."""
        what, who, which = draw
        k, i = int(who < 0.5), int(which * len(self.on_the_way))
        if what < 0.10:
            self.clock += 1
        if what < 0.42:
            self.offer(k)
        elif what < 0.86 and self.on_the_way:
            self.deliver(i, keep=who > 0.8)
        elif what < 0.90 and self.on_the_way:
            del self.on_the_way[i]
        elif what < 0.95:
            self.u[k] = self.rng.normal(size=WIDTH)
        elif what < 0.96:
            self.backups[k] = [*self.backups[k][-3:], copy.deepcopy(self.ends[k])]
        elif what < 0.966:
            self.crash(k, self.backups[k][int(which * len(self.backups[k]))])
            self.seen["crash"] += 1
        elif what < 0.968:
            self.crash(k, None)
            self.seen["lost disk"] += 1
        elif what < 0.970:
            self.ends[k].drop()
            self.seen["drop"] += 1
        self.on_the_way = self.on_the_way[-20:]
        a, b = self.ends
        if a.version == b.version and a.digest == b.digest:
            assert np.array_equal(a.flow, -b.flow)
            assert not (a.drifts and b.drifts) or np.array_equal(a.drift, -b.drift)

    def heal(self) -> None:
        """From now on messages arrive, in any order and after those that were on the way."""
        self.rng.shuffle(self.on_the_way)
        while self.on_the_way:
            self.deliver(0)
        self.clock = max(self.clock, *(end.attempt for end in self.ends)) + 1
        for _ in range(6):
            self.clock += 1
            self.offer(0)
            self.offer(1)
            self.deliver(int(self.rng.integers(2)))
            self.deliver(0)

    def check(self) -> None:
        a, b = self.ends
        assert a.version == b.version != NEVER
        assert np.array_equal(a.flow, -b.flow)
        assert a.digest == b.digest


@prop(1000)
@given(seed=st.integers(0, 2**32 - 1), events=st.integers(0, 300), momentum=st.booleans())
def test_after_healing_both_ends_are_bitwise_antisymmetric_whatever_an_adversary_did(seed, events, momentum):
    link = Link(seed, momentum=momentum)
    for draw in link.rng.random((events, 3)):
        link.move(draw)
    link.heal()
    link.check()


def test_a_million_events_leave_no_drift_and_no_memory(record_property):
    """The soak: one link, one adversary, seeded; after every thousand events it heals and is looked at."""
    link, events = Link(20), cases(1_000_000)
    tracemalloc.start()
    sizes, drift = np.zeros(events // 1000), 0.0  # an array, so as not to measure the measuring
    for step, draws in enumerate(np.array_split(link.rng.random((events, 3)), events // 1000)):
        for draw in draws:
            link.move(draw)
        link.heal()
        link.check()
        s = [link.u[k] + link.ends[k].flow for k in range(2)]
        drift = max(drift, float(np.abs(s[0] + s[1] - link.u.sum(axis=0)).max()))
        sizes[step] = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert drift < 1e-12
    half = len(sizes) // 2
    assert max(sizes[half:]) < max(sizes[:half]) + 20_000
    assert len(pickle.dumps(link.ends)) < 3_000
    happened = [OfferOutcome.COMMITTED, OfferOutcome.ADOPTED, OfferOutcome.NOTHING, "crash", "lost disk", "drop"]
    assert all(link.seen[one] > 0 for one in happened)
    record_property("edge events", events)
    record_property("largest drift of the sum", f"{drift:.1e}")


def test_a_counter_alone_would_not_do():
    """A late message after an adoption: equal counters with different flows never come about."""
    link = Link(0)
    link.exchange()
    link.exchange()
    link.clock += 1
    link.offer(0)
    link.offer(1)
    _, late = copy.deepcopy(link.on_the_way[0])
    del link.on_the_way[0]  # 0 -> 1 is lost, 1 -> 0 arrives: a one-sided commit
    link.deliver(0)
    a, b = link.ends
    assert a.version > b.version
    assert not np.array_equal(a.flow, -b.flow)
    link.exchange()
    link.exchange()
    assert a.version == b.version
    assert np.array_equal(a.flow, -b.flow)
    assert b.receive(late) is OfferOutcome.NOTHING
    assert np.array_equal(a.flow, -b.flow)


def test_a_hello_carries_no_vector_and_a_lost_message_costs_one_flow():
    link = Link(1)
    link.offer(0)
    _, hello = link.on_the_way[0]
    assert hello.vector is None
    assert hello.nbytes == 64
    link.offer(1)
    link.deliver(0)
    link.deliver(0)
    flows = 0
    for lose in (False, True, False, False, False):
        link.exchange(lose_first=lose)
        flows += sum(end.made.flow is not None for end in link.ends)
    link.check()
    assert flows == 1


def test_offers_that_come_early_wait_for_their_attempt():
    """Between machines the two ends are never quite in step."""
    link = Link(2)
    for _ in range(2):  # hello
        link.offer(0)
        link.offer(1)
        link.deliver(0)
        link.deliver(0)
    before = link.ends[0].version
    for _ in range(5):
        link.offer(0)
        link.deliver(0)  # 1 has not made its offer yet
        link.offer(1)  # and the attempt is concluded at once when it does
        link.deliver(0)
    link.check()
    assert link.ends[0].version >= before + 5


def test_two_backups_of_one_version_and_different_flows_become_zero():
    a, b = Edge(0, 1, np.ones(WIDTH), version=7), Edge(1, 0, np.ones(WIDTH), version=7)
    for clock in range(8, 11):
        offers = a.offer(np.zeros(WIDTH), 0.5, clock), b.offer(np.zeros(WIDTH), 0.5, clock)
        outcomes = [b.receive(offers[0]), a.receive(offers[1])]
        if OfferOutcome.ZEROED in outcomes:
            break
    assert outcomes == [OfferOutcome.ZEROED] * 2
    assert not a.flow.any()
    assert not b.flow.any()
    assert a.version == b.version == clock


@prop(200)
@given(
    st.lists(st.tuples(*[st.floats(-1e300, 1e300)] * 4), max_size=20),
    *[st.floats(0, 1)] * 3,
    st.booleans(),
)
def test_kernels_equal_their_naive_twins_and_are_antisymmetric(rows, weight, coast, push, momentum):
    flow, drift, mine, theirs = np.array(rows, dtype=float).reshape(-1, 4).T.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        moved = weight * (theirs - mine)
        expected = flow + moved
        if momentum:
            moved = push * drift + moved
            expected = flow + coast * drift + moved
    forth, back = flow.copy(), -flow
    drifts = [drift.copy(), -drift] if momentum else [np.zeros(0), np.zeros(0)]
    add_flow(forth, drifts[0], mine, theirs, weight, coast, push)
    add_flow(back, drifts[1], theirs, mine, weight, coast, push)
    np.testing.assert_array_equal(forth, expected)
    np.testing.assert_array_equal(forth, -back)
    np.testing.assert_array_equal(drifts[0], -drifts[1])
    one, zero = np.uint64(1), np.uint64(0)
    assert fingerprint(forth.view(np.uint64), zero) == fingerprint(back.view(np.uint64), one)
    assert int(fingerprint(forth.view(np.uint64), zero)) == _twin(forth)
    if len(forth) and forth[0] == forth[0]:
        other = forth.copy()
        other[0] = np.nextafter(other[0], np.inf)
        assert fingerprint(forth.view(np.uint64), zero) != fingerprint(other.view(np.uint64), zero)


def _twin(flow: np.ndarray) -> int:
    def stir(digest: int, word: int) -> int:
        digest = (digest ^ word) * 0xFF51AFD7ED558CCD % 2**64
        return digest ^ digest >> 32

    lanes = [0x9E3779B97F4A7C15 + lane for lane in range(4)]
    whole = len(flow) - len(flow) % 4
    for j, value in enumerate(flow):
        lane = j % 4 if j < whole else 0
        lanes[lane] = stir(lanes[lane], int(np.float64(value).view(np.uint64)) if value != 0 else 0)
    return stir(stir(stir(lanes[0], lanes[1]), lanes[2]), lanes[3])


@pytest.mark.parametrize("topology", ["ring", "torus", "complete", "star", "erdos-renyi"])
@pytest.mark.parametrize(("split", "penalty"), [("features", "l1"), ("samples", "l2")])
def test_without_faults_flow_gossip_is_matrix_gossip(topology, split, penalty):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(30, 24)), rng.normal(size=30)
    problem = Problem.glm(X, y, penalty=penalty, alpha=2.0, split=split)
    runs = [
        Run(problem, topology=topology, n_nodes=9, method=Cola(gossip=gossip, gossip_steps=steps, gamma=gamma))
        for gossip, steps, gamma in (("matrix", 2, 0.7), ("flows", 2, 0.7))
    ]
    for _ in range(150):
        for run in runs:
            next(run)
        a, b = (run.estimates for run in runs)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(a).max())
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=1e-12 * np.abs(runs[0].x).max())


def test_flow_gossip_gives_the_same_bits_in_any_number_of_blocks():
    rng = np.random.default_rng(4)
    problem = Problem.glm(rng.normal(size=(30, 24)), rng.normal(size=30), penalty="l1", alpha=2.0)
    plan = {
        "random": [{"dropout": 0.2, "loss": 0.1, "duplicate": 0.1, "delay": 0.1}],
        "join": [{"node": 2, "round": 9}],
    }
    runs = [Run(problem, n_nodes=7, faults=plan, certify=True, tol=1e-6, n_blocks=jobs) for jobs in (1, 2, 3, 7)]
    for _ in range(120):
        for run in runs:
            next(run)
    for run in runs[1:]:
        assert run.x.tobytes() == runs[0].x.tobytes()
        assert run.estimates.tobytes() == runs[0].estimates.tobytes()
        assert (run.bytes, run.certificate, run.measure()) == (runs[0].bytes, runs[0].certificate, runs[0].measure())
        run.close()
