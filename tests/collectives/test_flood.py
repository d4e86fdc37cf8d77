"""Totals at every node, by neighbour messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh import Problem, Run
from glmesh.collectives.flood import FloodGather, flood_max
from glmesh.collectives.totals import gather
from glmesh.collectives.tree import TreeGather
from glmesh.core.messages import Halo, Outbox, Rounds
from glmesh.network import mixing, topology
from glmesh.transports import LocalTransport
from tests.cases import SOAK, prop

TOPOLOGIES = ("ring", "path", "grid", "complete", "star", "erdos-renyi", "exponential")


def run_on(name: str, n_nodes: int, jobs: int = 1) -> Run:
    X = np.ones((3, 2))
    return Run(Problem.glm(X, np.ones(3)), topology=name, n_nodes=n_nodes, n_blocks=jobs)


@pytest.mark.parametrize("kind", [FloodGather, TreeGather])
@prop(100)
@given(st.sampled_from(TOPOLOGIES), st.integers(1, 24), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_every_node_gets_the_totals(kind: type, name: str, n_nodes: int, jobs: int, number: int) -> None:
    rows = np.random.default_rng(number).normal(size=(n_nodes, 4))
    run = run_on(name, n_nodes, min(jobs, n_nodes))
    gathers = [kind.of(block, rows[block.ids.astype(int)], [2]) for block in run.blocks]
    for _ in range(gathers[0].exchanges):
        halos = run.exchange.exchange([Outbox(scalars=g.outgoing()) for g in gathers])
        for g, block, halo in zip(gathers, run.blocks, halos, strict=True):
            g.incoming(block, halo)
    expected = rows.sum(axis=0)
    expected[2] = rows[:, 2].min()
    totals = [g.totals() for g in gathers]
    np.testing.assert_allclose(totals[0], expected, atol=1e-12)
    assert all(np.array_equal(t, totals[0]) for t in totals)
    run.close()


def test_a_flood_is_not_complete_an_exchange_too_early() -> None:
    run = run_on("path", 5)
    flood = FloodGather.of(run.blocks[0], np.ones((5, 1)), [])
    for _ in range(flood.exchanges - 1):
        flood.incoming(run.blocks[0], run.exchange.exchange([Outbox(scalars=flood.outgoing())])[0])
    assert flood.totals()[0] == -np.inf


def test_a_flood_sends_each_record_over_each_link_once() -> None:
    run = run_on("ring", 8)
    flood = FloodGather.of(run.blocks[0], np.ones((8, 3)), [])
    for _ in range(flood.exchanges):
        flood.incoming(run.blocks[0], run.exchange.exchange([Outbox(scalars=flood.outgoing())])[0])
    assert run.bytes <= 8 * 3 * 8 * 16  # 8 records of 3 numbers over 16 directed links


def test_many_nodes_use_a_tree_with_small_messages() -> None:
    run = run_on("torus", 400)
    tree = gather(run.blocks[0], np.ones((400, 3)), [])
    assert isinstance(tree, TreeGather)
    for _ in range(tree.exchanges):
        tree.incoming(run.blocks[0], run.exchange.exchange([Outbox(scalars=tree.outgoing())])[0])
    assert tree.totals().tolist() == [400.0] * 3
    assert run.bytes <= tree.exchanges * run.mixing.edges * 2 * 3 * 8


def test_a_certificate_of_300_nodes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 10))
    problem = Problem.glm(X, X @ rng.normal(size=10), alpha=100.0)
    run = Run(problem, topology="complete" if SOAK else "star", n_nodes=300, certify=True)
    best = problem.objective(np.linalg.solve(X.T @ X + 100.0 * np.eye(10), X.T @ problem.parts[0].y))
    for _ in range(60):
        next(run)
    assert run.certificate is not None
    assert run.measure().objective - best <= run.certificate.bound < np.inf


@prop(100)
@given(st.sampled_from(TOPOLOGIES), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_flood_max(name: str, n_nodes: int, number: int) -> None:
    values = np.random.default_rng(number).normal(size=(n_nodes, 3))
    graph = topology.build(name, n_nodes)
    transport = LocalTransport(mixing.metropolis(graph), [np.arange(n_nodes)])
    steps = flood_max(values, topology.diameter(graph))
    assert np.array_equal(drive(steps, transport), np.tile(values.max(axis=0), (n_nodes, 1)))


def drive(steps: Rounds, transport: LocalTransport) -> np.ndarray:
    """What a generator over one block returns."""
    halo: Halo | None = None
    while True:
        try:
            halo = transport.exchange([steps.send(halo)])[0]  # type: ignore[arg-type]
        except StopIteration as end:
            return end.value
