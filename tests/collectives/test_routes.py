"""Totals: the messages that carry them are those that are counted, and the bits depend on no route."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh import Network, mixing, topology
from glmesh.collectives import routes as routes_module
from glmesh.collectives.messages import Contribution, PartialTotal
from glmesh.collectives.routed import FloodedTotal, RoutedTotal, TreeTotal
from glmesh.collectives.routes import Routes
from glmesh.core import Layout, Outbox, Reader
from glmesh.core.messages import AnyRounds
from glmesh.core.totals import Largest, Total
from glmesh.core.transport import Unfinished, drive
from glmesh.errors import InvalidInput
from glmesh.network.faults import Plan
from glmesh.transports import FaultyTransport, LocalTransport
from tests.cases import prop
from tests.collectives.test_flood import TOPOLOGIES

SHORT, LONG = 5, 3000  # numbers of a contribution: flooded, or along the tree from six nodes on
CLOCK = Network(latency=0.01, bandwidth=1e4)


def local(name: str, n_nodes: int, n_blocks: int = 1, network: Network | None = None) -> LocalTransport:
    weights = mixing.metropolis(topology.build(name, n_nodes, 0))
    return LocalTransport(weights, np.array_split(np.arange(n_nodes), n_blocks), network)


def faulty(plan: Plan, name: str = "ring", n_nodes: int = 6) -> FaultyTransport:
    weights = mixing.metropolis(topology.build(name, n_nodes, 0))
    return FaultyTransport(weights, [np.arange(n_nodes)], None, plan, (weights,))


def routed(transport: LocalTransport, rows: Contribution, *, largest: bool) -> RoutedTotal:
    """The total by mail over a transport that loses nothing, at all nodes."""
    routes, everybody = transport.routes, np.ones(len(rows), dtype=bool)
    total: RoutedTotal = TreeTotal.of(1, rows, routes, largest=largest)
    if routes.floods(rows[0].nbytes):
        total = FloodedTotal.of(1, rows, everybody, routes.diameter, largest=largest, trees=True)
    while not total.held_by(everybody):
        mail = total.outgoing(routes)
        outboxes = [Outbox(mail=[one for one in mail if one.sender in ids]) for ids in transport.blocks]
        halos = transport.exchange(outboxes)
        total.incoming([one for halo in halos for one in halo.mail], routes)
    return total


@prop(60)
@given(
    st.sampled_from(TOPOLOGIES),
    st.integers(1, 20),
    st.sampled_from([SHORT, LONG]),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
)
def test_messages_between_neighbours_are_what_is_counted(
    name: str, n_nodes: int, numbers: int, n_blocks: int, largest: bool, timed: bool
) -> None:
    network = CLOCK if timed else None
    counts, sends = (local(name, n_nodes, min(n_blocks, n_nodes), network) for _ in range(2))
    rng = np.random.default_rng(n_nodes)
    rows: Contribution = rng.integers(0, 2**64, (n_nodes, numbers), dtype=np.uint64)
    if largest:
        rows = rng.integers(-(2**15), 2**15, (n_nodes, numbers), dtype=np.int16)
    parts = [rows[ids] for ids in counts.blocks]
    found: Any
    if largest:
        found = counts.maximise([part.astype(np.int64) for part in parts])
        assert np.array_equal(found, rows.max(axis=0))
    else:
        found = counts.add([part.view(np.uint64) for part in parts])
        assert found.tolist() == [sum(column) % 2**64 for column in rows.T.tolist()]
    total = routed(sends, rows, largest=largest)
    assert all(np.array_equal(total.result(k), found) for k in range(n_nodes))
    assert counts.traffic == sends.traffic
    if timed:
        assert counts.clock is not None
        assert sends.clock is not None
        np.testing.assert_allclose(counts.clock.times, sends.clock.times)


@pytest.mark.parametrize(
    ("name", "numbers", "exchanges", "messages"),
    [("ring", SHORT, 8, None), ("ring", LONG, 16, 30), ("complete", LONG, 1, 240), ("star", LONG, 2, 30)],
)
def test_known_numbers_of_exchanges_and_messages(name: str, numbers: int, exchanges: int, messages: int | None) -> None:
    routes = Routes(mixing.metropolis(topology.build(name, 16, 0)))
    assert routes.exchanges(8 * numbers) == exchanges
    if messages is not None:
        assert routes.bytes_of(8 * numbers).sum() == messages * (12 + 8 * numbers)


def test_flooding_on_a_path_passes_each_contribution_on_once():
    """On a path nothing meets itself, so K - 1 links carry all K contributions, each in one direction."""
    routes = Routes(mixing.metropolis(topology.path(7)))
    assert sum(int(leg.rows.sum()) for leg in routes.legs(1)) == 7 * 6


@prop(40)
@given(st.sampled_from(TOPOLOGIES), st.integers(1, 20))
def test_flooding_sends_every_contribution_to_every_other_node_once_by_a_shortest_way(name: str, n_nodes: int) -> None:
    """What a naive walk finds: K (K - 1) rows, each link of a way one nearer to the author."""
    graph = topology.build(name, n_nodes, 0)
    routes = Routes(mixing.metropolis(graph))
    assert sum(int(leg.rows.sum()) for leg in routes.legs(1)) == n_nodes * (n_nodes - 1)
    for author, away in nx.all_pairs_shortest_path_length(graph):
        for node, hops in away.items():
            way = [node]
            while way[-1] != author:
                assert routes.sources[author, way[-1]] in graph[way[-1]]
                way.append(int(routes.sources[author, way[-1]]))
            assert len(way) == hops + 1


@prop(40)
@given(st.sampled_from(TOPOLOGIES), st.integers(2, 20), st.sampled_from([1, 64, routes_module.MOST_ENTRIES]))
def test_neighbours_take_turns_as_in_a_naive_count(name: str, n_nodes: int, most: int) -> None:
    """At [i, j] is number (i + j) mod n of the n neighbours of j that are nearer to i, however many parts there are."""
    graph = topology.build(name, n_nodes, 0)
    away = dict(nx.all_pairs_shortest_path_length(graph))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes_module, "MOST_ENTRIES", most)
        sources = Routes(mixing.metropolis(graph)).sources
    for author in range(n_nodes):
        for node in range(n_nodes):
            nearer = sorted(one for one in graph[node] if away[author][one] < away[author][node])
            assert sources[author, node] == (nearer[(author + node) % len(nearer)] if nearer else -1)


def test_no_node_of_the_torus_sends_much_more_than_others():
    assert Routes(mixing.metropolis(topology.build("torus", 16, 0))).bytes_of(0).max() <= 21 * 4 + 8 * 16


def test_many_nodes_never_flood():
    routes = Routes(mixing.metropolis(topology.ring(topology.EXACT_DIAMETER + 1)))
    assert not routes.floods(1)


@pytest.mark.parametrize("wanted", [(), (3, 1)])
@pytest.mark.parametrize("rows", [{}, {4: [1, 2**64 - 1], 0: [7, 0]}])
def test_a_part_becomes_bytes_and_back(rows: dict[int, list[int]], wanted: tuple[int, ...]) -> None:
    check(PartialTotal(9, {node: np.array(row, np.uint64) for node, row in rows.items()}, wanted), 20, wanted)


def test_a_part_with_exponents_becomes_bytes_and_back():
    check(PartialTotal(9, {3: np.array([-1074, 1024, -2000], np.int16)}), 10, ())


def check(part: PartialTotal, length: int, wanted: tuple[int, ...]) -> None:
    """The part is what its bytes say, and is counted as so many bytes per contribution."""
    packed = part.pack(Layout(0, 0))
    back = PartialTotal.unpack(packed.head, packed.flags, Reader(b"".join(packed.body)), Layout(0, 0))
    assert (back.number, back.wanted, list(back.rows)) == (9, wanted, list(part.rows))
    for node, row in part.rows.items():
        assert np.array_equal(back.rows[node], row)
        assert back.rows[node].dtype == row.dtype
    assert part.nbytes == 8 + length * len(part.rows) + 4 * len(wanted)


def test_maxima_are_of_numbers_that_two_bytes_hold():
    Largest(np.array([[-(2**15), 2**15 - 1]]))
    with pytest.raises(InvalidInput, match="of 16 bits"):
        Largest(np.array([[0, 2**15]]))


# rounds that ask for totals


def fields(ids: Any) -> dict[str, Any]:
    values = np.random.default_rng(1).normal(size=(20, 4)) * 10.0 ** np.arange(-8, 12)[:, None]
    return {"sizes": values[ids], "count": np.ones((len(ids), 1))}


def asks(ids: Any) -> AnyRounds:
    first = yield Total(fields(ids))
    largest = yield Largest(np.asarray(ids)[:, None] * np.array([[1, -1]]))
    second = yield Total({"sizes": 3.0 * fields(ids)["sizes"]}, like=first)
    halo = yield Outbox(scalars=np.ones((len(ids), 1)))
    return first, largest, second, halo.scalars.shape


@pytest.mark.parametrize("name", ["ring", "star", "complete"])
def test_rounds_are_sent_the_same_bits_for_any_number_of_blocks(name: str) -> None:
    found = []
    for n_blocks in (1, 3, 20):
        transport = local(name, 20, n_blocks)
        for first, largest, second, scalars in drive(transport, [asks(ids) for ids in transport.blocks]):
            found.append([*first["sizes"], *first["count"], *largest, *second["sizes"]])
            assert scalars == (20, 1)
        communications = transport.traffic.communications
        assert communications == 1 + 4 * transport.routes.exchanges(8 * SHORT)  # sizes were known in the second total
    assert all(one == found[0] for one in found)
    np.testing.assert_allclose(found[0][:4], fields(np.arange(20))["sizes"].sum(axis=0), rtol=1e-12)
    assert found[0][4:7] == [20.0, 19, 0]


def test_blocks_that_ask_for_different_things_are_refused():
    def other(ids: Any) -> AnyRounds:
        yield Outbox()

    transport = local("ring", 4, 2)
    with pytest.raises(InvalidInput, match="same kind of request at once, got Outbox and Total"):
        drive(transport, [asks(transport.blocks[0]), other(transport.blocks[1])])


# under faults


@pytest.mark.parametrize("numbers", [SHORT, LONG])
@prop(20)
@given(st.sampled_from(["ring", "torus", "path"]), st.integers(0, 1000))
def test_lost_late_and_double_messages_only_take_more_exchanges(numbers: int, name: str, seed: int) -> None:
    plan = Plan.of({"seed": seed, "random": [{"loss": 0.2, "delay": 0.2, "duplicate": 0.2, "links": 0.1}]})
    transport, quiet = faulty(plan, name, 8), local(name, 8)
    rng = np.random.default_rng(seed)
    for round in range(3):
        rows = rng.integers(0, 2**64, (8, numbers), dtype=np.uint64)
        expected, found = quiet.add([rows]), None
        while found is None:
            transport.begin_round(plan, round)
            with contextlib.suppress(Unfinished):
                found = transport.add([rows])
        assert np.array_equal(found, expected)
    assert transport.traffic.communications > quiet.traffic.communications
    assert transport.traffic.bytes > quiet.traffic.bytes


@pytest.mark.parametrize("numbers", [SHORT, LONG])
def test_without_a_fault_in_sight_nothing_is_sent_twice(numbers):
    plan = Plan.of({"down": [{"node": 1, "from": 50, "until": 60}]})
    transport, quiet = faulty(plan), local("ring", 6)
    transport.begin_round(plan, 0)
    rows = np.arange(6 * numbers, dtype=np.uint64).reshape(6, numbers)
    assert np.array_equal(transport.add([rows]), quiet.add([rows]))
    assert transport.traffic == quiet.traffic


@pytest.mark.parametrize("numbers", [SHORT, LONG])
def test_a_total_waits_for_a_member_that_is_away(numbers):
    plan = Plan.of({"down": [{"node": 2, "from": 0, "until": 3}]})
    transport = faulty(plan)
    rows = np.arange(6 * numbers, dtype=np.uint64).reshape(6, numbers)
    sent = []
    for round in range(3):
        transport.begin_round(plan, round)
        with pytest.raises(Unfinished):
            transport.add([rows])
        sent.append(transport.traffic.bytes)
    transport.begin_round(plan, 3)
    assert np.array_equal(transport.add([rows]), rows.sum(axis=0))
    assert sent[2] - sent[1] <= sent[0]  # what has arrived is kept


def test_what_a_round_had_made_before_it_stopped_is_kept():
    plan = Plan.of({"down": [{"node": 2, "from": 1, "until": 2}]})
    transport = faulty(plan)
    ones = np.ones((6, SHORT), np.uint64)
    transport.begin_round(plan, 0)
    first = transport.add([ones])
    transport.totals.open = FloodedTotal.of(transport.totals.number, 2 * ones, np.ones(6, dtype=bool), 3)
    transport.begin_round(plan, 1)
    before = transport.traffic.bytes
    assert np.array_equal(transport.add([ones]), first)
    assert transport.traffic.bytes == before
    with pytest.raises(Unfinished):
        transport.add([2 * ones])
    transport.begin_round(plan, 2)
    assert np.array_equal(transport.add([ones]), first)
    assert np.array_equal(transport.add([2 * ones]), 2 * first)


def test_only_members_count():
    plan = Plan.of({"join": [{"node": 5, "round": 2}], "leave": [{"node": 1, "round": 1}]})
    transport = faulty(plan, "complete")
    rows = np.arange(6, dtype=np.uint64)[:, None]
    found: list[int] = []
    for round in range(3):
        transport.begin_round(plan, round)
        found += transport.add([rows]).tolist()
        assert transport.maximise([rows.view(np.int64)]).tolist() == [5 if round == 2 else 4]
    assert found == [10, 9, 14]


def test_a_transport_goes_on_with_an_open_total_from_its_state():
    plan = Plan.of({"down": [{"node": 2, "from": 0, "until": 1}], "random": [{"loss": 0.2, "delay": 0.3}]})
    rows = np.arange(6 * SHORT, dtype=np.uint64).reshape(6, SHORT)
    transports = [faulty(plan), faulty(plan)]
    transports[0].begin_round(plan, 0)
    with pytest.raises(Unfinished):
        transports[0].add([rows])
    transports[1].restore(copy.deepcopy(transports[0].state()))
    for one in transports:
        one.begin_round(plan, 1)
        assert np.array_equal(one.add([rows]), rows.sum(axis=0))
    assert transports[0].traffic == transports[1].traffic
