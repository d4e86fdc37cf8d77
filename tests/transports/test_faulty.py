import itertools
import json
import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh.errors import InvalidInput, InvalidNetwork, UnreadableFile
from glmesh.network.faults import Plan
from tests.cases import prop

RING = [(k, (k + 1) % 6) for k in range(6)]


def fault_plans(n_nodes: int, links: list[tuple[int, int]], until: int) -> st.SearchStrategy[dict]:
    """Plans that fit the network, keep a member in every round, and are quiet from round `until` >= 1 on."""
    node = st.integers(0, n_nodes - 1)
    models = st.sampled_from(["freeze", "reset"])
    chance = st.floats(0, 0.5)

    @st.composite
    def window(draw, required, optional=None):
        start = draw(st.integers(0, until - 1))
        entry = draw(st.fixed_dictionaries(required, optional=optional))
        return entry | {"from": start, "until": draw(st.integers(start + 1, until))}

    @st.composite
    def partition(draw):
        sides = draw(st.lists(st.integers(0, 2), min_size=n_nodes, max_size=n_nodes))
        groups = [[k for k in range(n_nodes) if sides[k] == side] for side in (1, 2)]
        return draw(window({"groups": st.just([group for group in groups if group] or [[0]])}))

    @st.composite
    def plan(draw):
        chances = dict.fromkeys(("dropout", "loss", "links", "duplicate", "delay"), chance)
        lag = st.floats(0, 2).map(lambda s: {"delay": s}) | st.floats(0, 1).map(lambda t: {"theta": t})
        tables = {
            "random": window({}, chances | {"model": models}),
            "down": window({"node": node}, {"model": models}),
            "partition": partition(),
            "straggler": st.builds(lambda entry, more: entry | more, window({"node": node}), lag),
        }
        if links:
            tables["link"] = window({"between": st.sampled_from(links).map(list)}, {"one_way": st.booleans()})
        plain = {key: draw(st.lists(entry, max_size=2)) for key, entry in tables.items()}
        movers = draw(st.permutations(range(n_nodes)))[: min(3, n_nodes - 1)]  # the others stay throughout
        joiners = movers[: draw(st.integers(0, min(2, len(movers))))]
        plain["join"] = [{"node": k, "round": draw(st.integers(0, until))} for k in joiners]
        graph = nx.empty_graph(n_nodes)
        graph.add_edges_from(links)
        free = [k for k in movers if k not in joiners and nx.is_connected(graph.subgraph(set(graph) - {k}))]
        leavers = free[: draw(st.integers(0, 1))]
        plain["leave"] = [{"node": k, "round": draw(st.integers(0, until)), "model": draw(models)} for k in leavers]
        plain["seed"] = draw(st.integers(0, 2**32))
        return {key: value for key, value in plain.items() if value != []}

    return plan()


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


# --- reading and writing --------------------------------------------------------------------------


@prop(500)
@given(fault_plans(6, RING, 20))
def test_dicts_and_files_give_the_same_plan_back(tmp_path_factory, plain):
    plan = Plan.of(plain)
    assert Plan.of(plan) is plan
    assert Plan.of(json.loads(json.dumps(plan.to_dict()))) == plan
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in plan.to_dict().items()))
    assert Plan.of(path) == Plan.of(str(path)) == plan
    plan.check(6, RING)
    assert plan.quiet_from() <= 20


@prop(300)
@given(st.integers(1, 4), st.data())
def test_the_strategy_makes_plans_for_the_smallest_networks(n, data):
    links = [(k, k + 1) for k in range(n - 1)]
    plan = Plan.of(data.draw(fault_plans(n, links, 1)))
    plan.check(n, links)
    assert plan.quiet_from() <= 1
    assert plan.members(1, n).any()


def test_defaults_are_not_written():
    assert Plan.of(None).to_dict() == Plan.of({}).to_dict() == {}
    plain = {
        "random": [{"dropout": 0.3, "model": "freeze", "from": 0}],
        "link": [{"between": [0, 1], "one_way": False}],
        "graphs": [[[0, 1]], []],
        "seed": 0,
    }
    short = {"random": [{"dropout": 0.3}], "link": [{"between": [0, 1]}], "graphs": [[[0, 1]], []]}
    assert Plan.of(plain).to_dict() == short


def test_a_plan_can_be_hashed_and_numpy_numbers_are_numbers():
    plan = Plan.of({"seed": np.int64(3), "random": [{"loss": np.float32(0.5), "until": np.uint8(9)}]})
    assert plan == Plan.of({"seed": 3, "random": [{"loss": 0.5, "until": 9}]})
    assert len({plan, Plan.of(plan.to_dict())}) == 1


TABLES = {
    "a list of tables, [[random]] in TOML, got {'loss': 0.1}": {"random": {"loss": 0.1}},
    "fault plan, down[1]: must be a table, got 3": {"down": [{"node": 0}, 3]},
    "fault plan: unknown key 'randm'; did you mean 'random'?": {"randm": []},
    "fault plan, random[0]: unknown key 'dropuot'; did you mean 'dropout'?": {"random": [{"dropuot": 0.1}]},
    "fault plan, straggler[0]: graphs belongs to the whole plan; in TOML, write it above the first table": {
        "straggler": [{"node": 0, "theta": 1, "graphs": []}]
    },
    "fault plan: seed must be a whole number >= 0, got -1": {"seed": -1},
    "fault plan: seed must be a whole number >= 0, got True": {"seed": True},
    "fault plan: seed must be a whole number >= 0, got 9223372036854775808": {"seed": 2**63},
    "fault plan, random[0]: dropout must be in [0, 1), got 1.5": {"random": [{"dropout": 1.5}]},
    "fault plan, random[1]: loss must be in [0, 1), got 1": {"random": [{}, {"loss": 1}]},
    "random[0]: links must be in [0, 1), got nan": {"random": [{"links": float("nan")}]},
    "random[0]: duplicate must be in [0, 1), got False": {"random": [{"duplicate": False}]},
    "random[0]: delay must be in [0, 1), got '0.1'": {"random": [{"delay": "0.1"}]},
    "random[0]: model must be 'freeze' or 'reset', got 'frozen'": {"random": [{"model": "frozen"}]},
    "random[0]: from must be less than until, got from 5 until 5": {"random": [{"from": 5, "until": 5}]},
    "random[0]: from must be a whole number >= 0, got 0.5": {"random": [{"from": 0.5}]},
    "random[0]: until must be a whole number >= 0, got None": {"random": [{"until": None}]},
    "down[0]: node is missing": {"down": [{"from": 3}]},
    "down[0]: node must be a whole number >= 0, got True": {"down": [{"node": True}]},
    "link[0]: between is missing": {"link": [{}]},
    "link[0]: between must be a list of two nodes, got 3": {"link": [{"between": 3}]},
    "link[0]: between must be a list of two different nodes, got [1, 1]": {"link": [{"between": [1, 1]}]},
    "link[0]: between must be a list of two different nodes, got [1, 2, 3]": {"link": [{"between": [1, 2, 3]}]},
    "link[0]: one_way must be True or False, got 1": {"link": [{"between": [0, 1], "one_way": 1}]},
    "partition[0]: groups must be a list of lists of nodes, none empty, got []": {"partition": [{"groups": []}]},
    "partition[0]: groups must be a list of lists of nodes, none empty, got 0": {"partition": [{"groups": [0]}]},
    "groups must be a list of lists of nodes, none empty, got [[0], []]": {"partition": [{"groups": [[0], []]}]},
    "partition[0]: groups must name each node once, got node 1 twice": {"partition": [{"groups": [[0, 1], [1]]}]},
    "join[0]: round is missing": {"join": [{"node": 1}]},
    "leave[0]: model must be 'freeze' or 'reset', got None": {"leave": [{"node": 1, "round": 2, "model": None}]},
    "straggler[0]: needs delay or theta, got neither": {"straggler": [{"node": 1}]},
    "straggler[0]: needs delay or theta, got both": {"straggler": [{"node": 1, "delay": 1, "theta": 0.5}]},
    "straggler[0]: from must be less than until": {"straggler": [{"node": 1, "delay": 1, "from": 2, "until": 1}]},
    "theta must be in [0, 1], got 1.1": {"straggler": [{"node": 1, "theta": 1.1}]},
    "delay must be a finite number of seconds >= 0, got inf": {"straggler": [{"node": 1, "delay": float("inf")}]},
    "fault plan: graphs must be a list with a list of links for each exchange, got 'ring'": {"graphs": "ring"},
    "fault plan: graphs must be a list of two nodes, got 0": {"graphs": [[0, 1]]},
    "fault plan: graphs must be a list of two different nodes, got [2, 2]": {"graphs": [[[2, 2]]]},
}


@pytest.mark.parametrize("message", TABLES)
def test_plain_data_that_is_no_plan_is_refused(message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        Plan.of(TABLES[message])


def test_what_is_neither_data_nor_a_path_is_refused():
    with pytest.raises(InvalidInput, match="a fault plan is a dict or the path of a TOML file, got 3"):
        Plan.of(3)


def test_files_that_hold_no_plan_are_refused_by_name(tmp_path):
    path = tmp_path / "plan.toml"
    with pytest.raises(UnreadableFile, match=re.escape(f"{path}: no such file")):
        Plan.of(path)
    with pytest.raises(UnreadableFile, match=re.escape(f"{tmp_path}: cannot be read")):
        Plan.of(tmp_path)
    for damaged in (b"seed = ", b"\xff\xfe"):
        path.write_bytes(damaged)
        with pytest.raises(UnreadableFile, match=re.escape(f"{path}: not a TOML file")):
            Plan.of(path)
    path.write_text("[[down]]\nnode = -1\n")
    with pytest.raises(InvalidInput, match=re.escape(f"{path}: fault plan, down[0]: node must be")):
        Plan.of(path)


MISFITS = {
    "down[0]: there is no node 6; the nodes are 0 to 5": {"down": [{"node": 6}]},
    "partition[0]: there is no node 9": {"partition": [{"groups": [[0], [9]]}]},
    "straggler[1]: there is no node 7": {"straggler": [{"node": 0, "theta": 1}, {"node": 7, "theta": 1}]},
    "link[1]: nodes 0 and 3 are not linked; 0 is linked to 1, 5": {"link": [{"between": [1, 0]}, {"between": [0, 3]}]},
    "link[0]: there is no node 8": {"link": [{"between": [0, 8]}]},
    "graphs[1][0]: nodes 1 and 4 are not linked; 1 is linked to 0, 2": {"graphs": [[], [[1, 4]]]},
    "join[1]: node 1 joins twice, in rounds 2 and 3": {"join": [{"node": 1, "round": 2}, {"node": 1, "round": 3}]},
    "leave[1]: node 1 leaves twice, in rounds 2 and 2": {"leave": [{"node": 1, "round": 2}] * 2},
    "leave[0]: node 1 leaves in round 4, but joins in round 4; let it leave later": {
        "join": [{"node": 1, "round": 4}],
        "leave": [{"node": 1, "round": 4}],
    },
    "no node is a member in round 0": {"join": [{"node": k, "round": 1} for k in range(6)]},
    "no node is a member in round 9": {"leave": [{"node": k, "round": 4 + k} for k in range(6)]},
}


@pytest.mark.parametrize("message", MISFITS)
def test_plans_that_do_not_fit_the_network_are_refused(message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        Plan.of(MISFITS[message]).check(6, RING)


def test_graphs_must_reach_everybody_together():
    Plan.of({"graphs": [RING[:2], RING[2:5]]}).check(6, RING)
    with pytest.raises(InvalidNetwork, match="graphs: node 3 is never reached from node 0"):
        Plan.of({"graphs": [RING[:2], [[4, 3], [4, 5]]]}).check(6, RING)
    Plan.of({"graphs": [[]]}).check(1, [])


# --- members --------------------------------------------------------------------------------------


def test_nodes_join_and_leave_for_good():
    leave = {"node": 0, "round": 8, "model": "reset"}
    plan = Plan.of({"random": [{"dropout": 0.9}], "join": [{"node": 2, "round": 5}], "leave": [leave]})
    plan.check(4, [(0, 1), (1, 2), (2, 3)])
    assert plan.changes_members
    for round in range(20):
        members = plan.members(round, 4)
        assert members.tolist() == [round < 8, True, round >= 5, True]
        assert not (plan.up(round, 4) & ~members).any()
    assert all(Plan.of(plan.to_dict() | {"seed": seed}).up(5, 4)[2] for seed in range(50))
    with pytest.raises(InvalidInput, match=re.escape("fault plan, leave[1]: model must be")):
        Plan.of({"leave": [leave, leave | {"model": "stay"}]})
    with pytest.raises(InvalidInput, match=re.escape("fault plan, join[0]: round must be")):
        Plan.of({"join": [{"node": 1, "round": -3}]})


def test_a_node_that_is_down_is_away_even_when_it_joins():
    plan = Plan.of({"join": [{"node": 1, "round": 3}], "down": [{"node": 1, "from": 3, "until": 5}]})
    assert [plan.up(round, 2)[1] for round in range(7)] == [False] * 5 + [True] * 2


def test_a_reset_happens_once_at_the_start_of_an_absence_and_wins_over_a_freeze():
    plan = Plan.of(
        {
            "down": [
                {"node": 0, "from": 0, "until": 3, "model": "reset"},
                {"node": 1, "from": 2, "until": 6},
                {"node": 1, "from": 4, "until": 5, "model": "reset"},
                {"node": 2, "from": 1, "until": 4},
                {"node": 3, "from": 2, "until": 8, "model": "reset"},
            ],
            "leave": [{"node": 3, "round": 2, "model": "reset"}],
        }
    )
    resets = np.array([plan.resets(round, 4) for round in range(10)])
    assert list(zip(*np.nonzero(resets), strict=True)) == [(0, 0), (4, 1)]


def test_resets_by_chance_follow_the_absences():
    plan = Plan.of({"random": [{"dropout": 0.4, "model": "reset"}, {"dropout": 0.4, "from": 1000}]})
    up = np.array([plan.up(round, 50) for round in range(1000)])
    resets = np.array([plan.resets(round, 50) for round in range(1000)])
    np.testing.assert_array_equal(resets[1:], ~up[1:] & up[:-1])
    np.testing.assert_array_equal(resets[0], ~up[0])
    assert not Plan.of({"random": [{"dropout": 0.4}]}).resets(3, 50).any()


# --- chance ---------------------------------------------------------------------------------------


def assert_rate(struck, probability):
    """Within 5 standard deviations of what independent draws would give."""
    struck = np.asarray(struck, dtype=float)
    assert abs(struck.mean() - probability) < 5 * np.sqrt(probability * (1 - probability) / struck.size)


PHASE = {"dropout": 0.3, "loss": 0.05, "links": 0.1, "duplicate": 0.02, "delay": 0.06}
SENDERS, RECEIVERS = np.array(list(itertools.permutations(range(20), 2))).T


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_faults_come_as_often_as_asked(seed):
    plan = Plan.of({"seed": seed, "random": [PHASE]})
    when = range(200)
    assert_rate([~plan.up(t, 100) for t in when], 0.3)
    assert_rate([plan.lost(t, t, SENDERS, RECEIVERS) for t in when], 0.05)
    assert_rate([plan.copies(t, t, SENDERS, RECEIVERS) == 2 for t in when], 0.02)
    one_way = SENDERS < RECEIVERS
    pairs = np.stack([SENDERS[one_way], RECEIVERS[one_way]], axis=1)
    assert_rate([~plan.links_up(t, t, pairs) for t in when], 0.1)
    late = np.array([plan.lateness(t, t, SENDERS, RECEIVERS) for t in when])
    for exchanges in (1, 2, 3):
        assert_rate(late == exchanges, 0.02)
    assert late.max() == 3


def test_draws_are_unrelated_across_nodes_rounds_kinds_and_seeds():
    def absences(seed):
        plan = Plan.of({"seed": seed, "random": [{"dropout": 0.5, "loss": 0.5}]})
        return np.array([plan.up(round, 100) for round in range(400)]), plan

    up, plan = absences(0)
    other, _ = absences(1)
    lost = np.array([plan.lost(t, t, np.arange(100), np.arange(100)) for t in range(400)])
    for first, second in ((up[1:], up[:-1]), (up[:, 1:], up[:, :-1]), (up, other), (up, lost)):
        assert_rate(first == second, 0.5)
    there, back = plan.lost(3, 3, SENDERS, RECEIVERS), plan.lost(3, 3, RECEIVERS, SENDERS)
    assert_rate(there == back, 0.5)


def test_chances_too_small_to_divide_by_do_no_harm():
    plan = Plan.of({"random": [dict.fromkeys(PHASE, 5e-324)]})
    assert not plan.lateness(0, 0, SENDERS, RECEIVERS).any()
    assert plan.up(0, 50).all()


def test_overlapping_phases_combine_as_independent_events():
    plan = Plan.of({"random": [PHASE, PHASE | {"until": 300}, {"dropout": 0.9, "from": 300}]})
    assert_rate([~plan.up(t, 50) for t in range(300)], 1 - 0.7**2)
    assert_rate([plan.lost(t, t, SENDERS, RECEIVERS) for t in range(300)], 1 - 0.95**2)
    assert_rate([~plan.up(t, 50) for t in range(300, 600)], 1 - 0.7 * 0.1)


@prop(300)
@given(fault_plans(6, RING, 8), st.randoms(use_true_random=False))
def test_answers_do_not_depend_on_what_was_asked_before(plain, source):
    pairs = np.array(RING)
    a, b = pairs.T

    def answers(plan, t):
        nodes = [ask(t, 6).tolist() for ask in (plan.members, plan.up, plan.resets, plan.delays)]
        messages = [ask(2 * t + 1, t, a, b).tolist() for ask in (plan.lost, plan.copies, plan.lateness)]
        return [*nodes, *messages, plan.links_up(2 * t, t, pairs).tolist(), str(plan.theta(t, 6))]

    plan = Plan.of(plain)
    inorder = [answers(plan, t) for t in range(10)]
    order = source.sample(range(10), 10)
    again = Plan.of(plan.to_dict())
    assert {t: answers(again, t) for t in order} == dict(enumerate(inorder))
    for t in range(8, 10):
        assert plan.links_up(t, t, pairs).all()
        np.testing.assert_array_equal(plan.up(t, 6), plan.members(t, 6))
        assert not plan.lost(t, t, a, b).any()
        assert (plan.copies(t, t, a, b) == 1).all()
        assert not plan.lateness(t, t, a, b).any()
    for t in range(10):
        up = plan.links_up(t, t, pairs)
        np.testing.assert_array_equal(plan.links_up(t, t, pairs[:, ::-1]), up)
        np.testing.assert_array_equal([plan.links_up(t, t, [pair])[0] for pair in RING], up)
        np.testing.assert_array_equal([plan.lost(t, t, *pair) for pair in RING], plan.lost(t, t, a, b))


# --- links ----------------------------------------------------------------------------------------


def test_links_fail_one_or_both_ways():
    plan = Plan.of({"link": [{"between": [1, 0], "until": 3}, {"between": [2, 1], "one_way": True, "from": 2}]})
    for t in range(5):
        assert plan.links_up(9, t, [(0, 1), (1, 2), (1, 0)]).tolist() == [t >= 3, True, t >= 3]
        assert plan.lost(9, t, [0, 1, 2], [1, 2, 1]).tolist() == [False, False, t >= 2]


def test_partitions_cut_between_groups_and_the_rest():
    plan = Plan.of({"partition": [{"groups": [[0, 1], [2, 40]], "from": 1, "until": 2}]})
    pairs = [(0, 1), (1, 2), (3, 4), (4, 0), (2, 3)]
    assert plan.links_up(0, 0, pairs).all()
    assert plan.links_up(1, 1, pairs).tolist() == [True, False, True, False, False]
    assert plan.links_up(2, 2, pairs).all()
    assert plan.links_up(1, 1, np.empty((0, 2), dtype=int)).shape == (0,)


def test_graphs_take_turns_by_exchange():
    plan = Plan.of({"graphs": [[[1, 0]], [[1, 2], [3, 2]]]})
    for exchange in range(6):
        odd = bool(exchange % 2)
        assert plan.links_up(exchange, 0, [(0, 1), (2, 1), (2, 3), (3, 0)]).tolist() == [not odd, odd, odd, False]


def test_stragglers_add_seconds_and_keep_the_largest_theta():
    plan = Plan.of(
        {
            "straggler": [
                {"node": 0, "delay": 0.5},
                {"node": 0, "delay": 0.25, "from": 1, "until": 2},
                {"node": 1, "theta": 0.9, "until": 2},
                {"node": 1, "theta": 0.4},
            ]
        }
    )
    assert [plan.delays(t, 2).tolist() for t in range(3)] == [[0.5, 0], [0.75, 0], [0.5, 0]]
    np.testing.assert_array_equal([plan.theta(t, 2) for t in (1, 2)], [[np.nan, 0.9], [np.nan, 0.4]])


# --- what a plan is like --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "empty", "loses", "quiet"),
    [
        (None, True, False, 0),
        ({"seed": 3}, True, False, 0),
        ({"random": [{}]}, True, False, 0),
        ({"random": [{"delay": 0.1}]}, False, True, None),
        ({"random": [{"dropout": 0.1, "until": 30}, {}]}, False, True, 30),
        ({"down": [{"node": 0, "until": 4}, {"node": 1, "until": 2}]}, False, True, 4),
        ({"down": [{"node": 0, "until": 4}, {"node": 1}]}, False, True, None),
        ({"link": [{"between": [0, 1], "until": 5}]}, False, True, 5),
        ({"partition": [{"groups": [[0]], "until": 6}]}, False, True, 6),
        ({"join": [{"node": 0, "round": 7}], "link": [{"between": [0, 1], "until": 5}]}, False, True, 7),
        ({"leave": [{"node": 0, "round": 8}]}, False, True, 8),
        ({"straggler": [{"node": 0, "theta": 0.5, "until": 9}]}, False, False, 9),
        ({"graphs": [[[0, 1]]]}, False, True, None),
    ],
)
def test_a_plan_knows_its_faults_and_its_last_round(plain, empty, loses, quiet):
    plan = Plan.of(plain)
    assert (plan.is_empty, plan.loses_messages, plan.quiet_from()) == (empty, loses, quiet)
    assert plan.changes_members == bool(plain and ("join" in plain or "leave" in plain))
