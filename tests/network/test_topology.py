import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from glmesh.errors import InvalidInput, InvalidNetwork
from glmesh.network import topology

ANY_SIZE = [name for name in topology.names() if name != "hypercube" and "regular" not in name]
many = settings(deadline=None, max_examples=30)


def assert_sound(graph, n):
    assert list(graph) == list(range(n))
    assert all(type(node) is int for node in graph)
    assert type(graph) is nx.Graph
    assert nx.is_connected(graph)
    assert nx.number_of_selfloops(graph) == 0


def degrees(graph):
    return {degree for _, degree in graph.degree}


# --- the builders ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ANY_SIZE)
@pytest.mark.parametrize("n", [*range(1, 10), 12, 36, 97])
def test_every_name_builds_a_connected_simple_graph(name, n):
    assert_sound(topology.build(name, n), n)


@many
@given(st.sampled_from(ANY_SIZE), st.integers(1, 150), st.integers(0, 99))
def test_every_size_and_seed_builds(name, n, seed):
    graph = topology.build(name, n, seed)
    assert_sound(graph, n)
    assert nx.utils.graphs_equal(graph, topology.build(name, n, seed))


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("name", topology.names())
def test_one_node_is_alone_and_two_are_linked(name, n):
    graph = topology.build(name, n)
    assert_sound(graph, n)
    assert graph.number_of_edges() == n - 1


@many
@given(st.integers(1, 40), st.integers(1, 45))
def test_cycle_links_the_nearest_on_each_side(n, reach):
    graph = topology.cycle(n, reach)
    assert_sound(graph, n)
    for k in range(n):
        assert set(graph[k]) == {(k + r) % n for r in range(-reach, reach + 1)} - {k}


@many
@given(st.integers(1, 100))
def test_exponential_links_powers_of_two_on_each_side(n):
    graph = topology.exponential(n)
    powers = [2**j for j in range(7) if 2**j < n]
    for k in range(n):
        assert set(graph[k]) == {(k + sign * p) % n for p in powers for sign in (-1, 1)} - {k}


@pytest.mark.parametrize(("n", "rows", "cols"), [(12, 3, 4), (16, 4, 4), (8, 2, 4), (6, 2, 3), (4, 2, 2), (7, 1, 7)])
def test_grid_and_torus_are_as_square_as_they_can_be(n, rows, cols):
    def plain(periodic):
        reference = nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, cols, periodic=periodic))
        reference.remove_edges_from(list(nx.selfloop_edges(reference)))
        return reference

    assert nx.utils.edges_equal(topology.grid(n).edges, plain(False).edges)
    assert nx.utils.edges_equal(topology.torus(n).edges, plain(True).edges)


def test_plain_shapes():
    assert set(topology.path(4).edges) == {(0, 1), (1, 2), (2, 3)}
    assert set(topology.star(4).edges) == {(0, 1), (0, 2), (0, 3)}
    assert topology.complete(5).number_of_edges() == 10
    assert degrees(topology.ring(9)) == {2}
    assert degrees(topology.torus(4096)) == {4}
    assert nx.is_isomorphic(topology.hypercube(16), nx.hypercube_graph(4))


@pytest.mark.parametrize(
    ("n", "degree"), [(4, 3), (6, 4), (20, 3), (21, 4), (20, 2), (50, 48), (50, 25), (200, 2), (64, 3), (3, 2)]
)
def test_random_regular_is_regular(n, degree):
    graph = topology.random_regular(n, degree, seed=5)
    assert_sound(graph, n)
    assert degrees(graph) == {degree}


def test_random_regular_with_too_many_neighbours_is_complete():
    assert nx.utils.graphs_equal(topology.random_regular(5, 9), topology.complete(5))


@pytest.mark.parametrize("name", ["random-regular", "random-2-regular", "erdos-renyi"])
def test_the_seed_decides_a_random_graph(name):
    first, again, other = (topology.build(name, 30, seed) for seed in (1, 1, 2))
    assert nx.utils.graphs_equal(first, again)
    assert not nx.utils.graphs_equal(first, other)


def test_sparse_draws_are_repeated_until_connected():
    # near the threshold ln(n) / n most draws fall apart
    assert_sound(topology.erdos_renyi(60, 0.05, seed=3), 60)
    assert_sound(topology.erdos_renyi(5, 1.0), 5)


def test_names_carry_their_integer():
    assert nx.utils.graphs_equal(topology.build("5-cycle", 20), topology.cycle(20, 5))
    assert nx.utils.graphs_equal(topology.build("random-4-regular", 20, 7), topology.random_regular(20, 4, 7))
    assert nx.utils.graphs_equal(topology.build("random-regular", 20), topology.random_regular(20, 3))


# --- graphs of the user ---------------------------------------------------------------------------


def test_a_graph_is_relabelled_in_its_own_order():
    graph = topology.build(nx.Graph([("c", "a"), ("a", "b")]), 3)
    assert_sound(graph, 3)
    assert set(graph.edges) == {(0, 1), (1, 2)}


def test_nodes_that_are_numbered_already_keep_their_numbers():
    graph = topology.build(nx.Graph([(2, 0), (0, 1)]), None)
    assert_sound(graph, 3)
    assert set(graph.edges) == {(0, 1), (0, 2)}


def test_parallel_edges_count_once():
    graph = topology.build(nx.MultiGraph([("a", "b"), ("a", "b"), ("b", "c")]), 3)
    assert_sound(graph, 3)
    assert graph.number_of_edges() == 2


@pytest.mark.parametrize(
    "read", [nx.to_numpy_array, nx.to_scipy_sparse_array, nx.to_dict_of_lists, lambda graph: list(graph.edges)]
)
def test_an_adjacency_will_do(read):
    graph = topology.grid(6)
    assert nx.utils.graphs_equal(topology.build(read(graph), 6), graph)


# --- refusals -------------------------------------------------------------------------------------

LOOP = nx.Graph([("a", "b"), ("b", "b")])
TWO_PIECES = nx.Graph([(0, 1), (3, 7), (7, 9)])
LONELY = nx.Graph([("a", "b")])
LONELY.add_node("z")
SPLIT = nx.disjoint_union(nx.path_graph(2), nx.path_graph(15))


@pytest.mark.parametrize(
    ("graph", "n", "message"),
    [
        (nx.path_graph(4), 5, "the graph has 4 nodes, expected 5"),
        (nx.Graph(), None, "the graph has no nodes"),
        (LOOP, 2, "node b is linked to itself; remove the self-loop"),
        (nx.DiGraph([(0, 1)]), 2, "the graph is directed, but both ends of an edge talk; use graph.to_undirected()"),
        (np.array([[0, 1], [0, 0]]), 2, "the adjacency matrix has an edge from 0 to 1 but none back"),
        (sp.csr_array([[0, 0], [1, 0]]), 2, "the adjacency matrix has an edge from 1 to 0 but none back"),
        (
            TWO_PIECES,
            5,
            "the graph falls apart into 2 components; nodes 3, 7, 9 cannot reach node 0; add an edge between them",
        ),
        (LONELY, 3, "falls apart into 2 components; node z cannot reach node a; add"),
        (SPLIT, None, "nodes 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 5 more cannot reach node 0"),
        (7, None, "cannot read a graph from int; give a networkx graph, an adjacency matrix"),
    ],
)
def test_a_graph_that_cannot_carry_a_run_is_refused(graph, n, message):
    with pytest.raises(InvalidNetwork) as caught:
        topology.build(graph, n)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: topology.build("tours", 4), InvalidInput, "unknown topology 'tours'; did you mean 'torus'? Known: "),
        (lambda: topology.build("", 4), InvalidInput, ", ".join(topology.names())),
        (lambda: topology.build("ring", None), InvalidInput, "topology 'ring' needs a number of nodes"),
        (lambda: topology.build("ring", 0), InvalidInput, "n_nodes must be a positive integer, got 0"),
        (lambda: topology.build("ring", 4.0), InvalidInput, "n_nodes must be a positive integer, got 4.0"),
        (lambda: topology.build("0-cycle", 4), InvalidInput, "reach must be a positive integer, got 0"),
        (lambda: topology.random_regular(9, 0), InvalidInput, "degree must be a positive integer, got 0"),
        (lambda: topology.hypercube(12), InvalidNetwork, "got 12; the nearest are 8 and 16"),
        (lambda: topology.random_regular(7, 3), InvalidNetwork, "7 * 3 is odd; use degree 4 or an even number"),
        (lambda: topology.random_regular(6, 1), InvalidNetwork, "cannot be connected; use degree 2 or more"),
        (lambda: topology.erdos_renyi(30, 1.5), InvalidInput, "an edge probability lies between 0 and 1, got 1.5"),
        (
            lambda: topology.erdos_renyi(30, 0.001),
            InvalidNetwork,
            "none of 100 random graphs on 30 nodes was connected",
        ),
    ],
)
def test_an_impossible_request_says_what_would_do(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


# --- the diameter ---------------------------------------------------------------------------------


@many
@given(st.sampled_from(ANY_SIZE), st.integers(1, 60))
def test_diameter_is_exact_on_small_graphs(name, n):
    graph = topology.build(name, n)
    assert topology.diameter(graph) == nx.diameter(graph)
    assert topology.diameter(nx.to_scipy_sparse_array(graph)) == nx.diameter(graph)


def test_diameter_of_a_large_graph_is_an_upper_bound():
    assert topology.diameter(topology.torus(4096)) == 2 * 64
    assert topology.diameter(topology.path(4096)) == 2 * 4095
    assert topology.diameter(topology.star(1025)) == 2


def test_diameter_needs_a_connected_graph():
    with pytest.raises(InvalidNetwork, match="nodes 3, 7, 9 cannot reach node 0"):
        topology.diameter(TWO_PIECES)
