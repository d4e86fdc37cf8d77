import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from glmesh.errors import InvalidInput, InvalidNetwork
from glmesh.network import mixing, spectrum, topology
from tests.cases import prop

ANY_SIZE = [name for name in topology.names() if name != "hypercube" and "regular" not in name]
many = settings(deadline=None, max_examples=30)


def dense(rows):
    return np.array(rows, dtype=float)


def eigenvalues(w):
    return np.linalg.eigvalsh(w.matrix.toarray())


@st.composite
def random_mixings(draw):
    """A metropolis matrix, moved towards or away from the identity, so that λ_K may dominate λ_2."""
    n = draw(st.integers(2, 40))
    w = mixing.metropolis(topology.build(draw(st.sampled_from(ANY_SIZE)), n)).matrix.toarray()
    most = w.diagonal().min()
    kept = draw(st.floats(0.05, 1.0))
    moved = (w - (1 - kept) * most * np.eye(n)) / (1 - (1 - kept) * most)
    return mixing.from_matrix(moved)


# --- what every mixing matrix obeys ---------------------------------------------------------------


@many
@given(st.sampled_from(ANY_SIZE), st.integers(1, 80), st.integers(0, 9))
def test_metropolis_is_symmetric_and_doubly_stochastic_on_the_graph(name, n, seed):
    graph = topology.build(name, n, seed)
    w = mixing.metropolis(graph)
    full = w.matrix.toarray()
    assert np.array_equal(full, full.T)
    assert (full >= 0).all()
    np.testing.assert_allclose(full.sum(axis=0), 1.0, rtol=0, atol=1e-14)
    links = full > 0
    np.fill_diagonal(links, False)
    assert np.array_equal(links, nx.to_numpy_array(graph) > 0)
    assert w.n_nodes == n
    assert np.array_equal(w.degrees, [degree for _, degree in graph.degree])
    assert w.edges == 2 * graph.number_of_edges()


def test_metropolis_weights():
    w = mixing.metropolis(topology.star(4)).matrix.toarray()
    np.testing.assert_allclose(w, dense([[1, 1, 1, 1], [1, 3, 0, 0], [1, 0, 3, 0], [1, 0, 0, 3]]) / 4)


@many
@given(random_mixings())
def test_eigenvalues_agree_with_all_of_them(w):
    spectrum = eigenvalues(w)
    beta = np.sort(np.abs(spectrum))[-2]
    assert w.lambda2 == pytest.approx(spectrum[-2], abs=1e-12)
    assert w.beta == pytest.approx(beta, abs=1e-12)
    assert w.spectral_gap == pytest.approx(1 - beta, abs=1e-12)


@many
@given(random_mixings())
def test_consensus_gap_is_a_tight_lower_bound(w):
    gap = 1 - eigenvalues(w)[-2]
    assert 0.99 * gap <= w.consensus_gap <= gap + 1e-15


@many
@given(random_mixings(), st.integers(0, 9))
def test_a_gossip_step_keeps_the_mean_and_contracts_as_promised(w, seed):
    v = np.random.default_rng(seed).standard_normal((w.n_nodes, 3))
    mixed = w.matrix @ v
    np.testing.assert_allclose(mixed.mean(axis=0), v.mean(axis=0), atol=1e-13)
    apart = np.linalg.norm(v - v.mean(axis=0))
    assert np.linalg.norm(mixed - v.mean(axis=0)) <= w.beta * apart + 1e-12
    assert w.consensus_gap * apart <= np.linalg.norm(v - mixed) + 1e-12


@pytest.mark.parametrize("make", [mixing.uniform, lambda n: mixing.metropolis(topology.complete(n))])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 60, 600])
def test_the_complete_graph_averages_exactly(make, n):
    w = make(n)
    np.testing.assert_allclose(w.matrix.toarray(), 1 / n, rtol=0, atol=1e-14)
    assert (w.lambda2, w.beta, w.spectral_gap) == (0.0, 0.0, 1.0)
    assert 1 - 1e-11 <= w.consensus_gap <= 1
    assert w.edges == n * (n - 1)
    assert (w.degrees == n - 1).all()


@pytest.mark.parametrize(
    "w",
    [
        mixing.uniform(5),
        mixing.metropolis(topology.torus(12)),
        mixing.metropolis(nx.Graph([("b", "a"), ("a", "c")])),
        mixing.from_matrix(sp.coo_array(dense([[0, 1, 1], [1, 0, 1], [1, 1, 0]]) / 2)),
    ],
)
def test_the_stored_form_is_sorted_and_holds_every_diagonal_entry(w):
    stored = w.matrix
    assert isinstance(stored, sp.csr_array)
    assert stored.dtype == np.float64
    assert stored.indices.dtype == stored.indptr.dtype == np.int32
    for k in range(w.n_nodes):
        row = stored.indices[stored.indptr[k] : stored.indptr[k + 1]]
        assert k in row
        assert (np.diff(row) > 0).all()


def test_a_mixing_is_frozen():
    with pytest.raises(AttributeError):
        mixing.uniform(2).matrix = None


# --- weights that mix faster than Metropolis' -------------------------------------------------------

BETTER = [mixing.best_constant, mixing.optimal]


def ratio(w):
    """λ_2/λ_max of I - W."""
    spectrum = eigenvalues(w)
    return (1 - spectrum[-2]) / (1 - spectrum[0])


@st.composite
def random_graphs(draw, most=20):
    """A random tree and some more edges, or one of the named graphs."""
    n, seed = draw(st.integers(1, most)), draw(st.integers(0, 2**32 - 1))
    if draw(st.booleans()):
        return topology.build(draw(st.sampled_from(ANY_SIZE)), n, seed)
    source = np.random.default_rng(seed)
    graph = nx.empty_graph(n)
    graph.add_edges_from((int(source.integers(k)), k) for k in range(1, n))
    graph.add_edges_from(e for e in nx.complete_graph(n).edges if source.random() < draw(st.floats(0, 0.5)))
    return graph


def best_ratio(graph):
    """The optimum as a semidefinite programme."""
    n, incidence = len(graph), nx.incidence_matrix(graph, oriented=True).toarray()
    weights, t = cp.Variable(incidence.shape[1], nonneg=True), cp.Variable()
    laplacian = incidence @ cp.diag(weights) @ incidence.T
    mean = np.full((n, n), 1 / n)
    limits = [laplacian + mean >> t * (np.eye(n) - mean), laplacian << np.eye(n)]
    loose = {"tol_gap_abs": 1e-6, "tol_gap_rel": 1e-6, "tol_feas": 1e-6}  # its own 1e-8 are not always reached
    cp.Problem(cp.Maximize(t), limits).solve(solver=cp.CLARABEL, **loose)
    return float(t.value)


@pytest.mark.parametrize("make", BETTER)
@prop(300)
@given(graph=random_graphs())
def test_better_weights_are_symmetric_and_doubly_stochastic_on_the_graph(make, graph):
    w = make(graph)
    full = w.matrix.toarray()
    assert np.array_equal(full, full.T)
    assert (full >= 0).all()
    np.testing.assert_allclose(full.sum(axis=0), 1.0, rtol=0, atol=1e-14)
    assert w.edges == 2 * graph.number_of_edges()
    assert 0 <= w.beta < 1
    again = mixing.from_matrix(w.matrix, graph)
    np.testing.assert_allclose(again.matrix.toarray(), full, rtol=0, atol=1e-14)


@prop(300)
@given(random_graphs())
def test_no_constant_that_the_diagonal_allows_is_better(graph):
    laplacian = nx.laplacian_matrix(graph).toarray()
    beta = mixing.best_constant(graph).beta
    for weight in np.linspace(0, 1 / max(1, laplacian.max()), 20):
        others = np.linalg.eigvalsh(np.eye(len(graph)) - weight * laplacian - 1 / len(graph))
        assert beta <= np.abs(others).max() + 1e-9


@pytest.mark.parametrize("name", ["ring", "path", "grid", "torus", "star", "random-3-regular"])
@pytest.mark.parametrize("n", [4, 16, 36])
def test_the_best_constant_is_no_worse_than_metropolis(name, n):
    graph = topology.build(name, n)
    assert mixing.best_constant(graph).beta <= mixing.metropolis(graph).beta + 1e-9


@prop(300)
@given(random_graphs())
def test_optimal_weights_are_never_worse(graph):
    if len(graph) > 1:
        best = ratio(mixing.optimal(graph))
        assert best >= ratio(mixing.metropolis(graph)) - 1e-12
        assert best >= ratio(mixing.best_constant(graph)) - 1e-12


@prop(200)
@given(random_graphs(most=10).filter(lambda graph: len(graph) > 2))
def test_optimal_weights_agree_with_a_semidefinite_programme(graph):
    assert ratio(mixing.optimal(graph)) == pytest.approx(best_ratio(graph), rel=1e-3)


@pytest.mark.parametrize(
    ("graph", "gain"),
    [
        (topology.grid(16), 1.04),
        (topology.grid(64), 1.09),
        (nx.barbell_graph(6, 3), 1.25),
        (nx.lollipop_graph(8, 4), 1.1),
        (topology.random_regular(64, 3), 1.2),
        (topology.exponential(64), 1.3),
        (topology.erdos_renyi(40), 1.4),
    ],
)
def test_optimal_weights_are_better_where_edges_differ(graph, gain):
    best = mixing.optimal(graph)
    assert ratio(best) >= gain * ratio(mixing.metropolis(graph))
    assert best.beta < mixing.metropolis(graph).beta


@pytest.mark.parametrize("name", ["ring", "star", "hypercube", "complete"])
@pytest.mark.parametrize("n", [2, 4, 16])
def test_where_all_edges_are_alike_the_constant_is_optimal(name, n):
    graph = topology.build(name, n)
    best, constant = mixing.optimal(graph), mixing.best_constant(graph)
    assert np.array_equal(best.matrix.toarray(), constant.matrix.toarray())


@pytest.mark.parametrize("make", BETTER)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 60, 600])
def test_better_weights_average_exactly_on_the_complete_graph(make, n):
    w = make(topology.complete(n))
    np.testing.assert_allclose(w.matrix.toarray(), 1 / n, rtol=0, atol=1e-14)
    assert (w.lambda2, w.beta) == (0.0, 0.0)


@pytest.mark.parametrize("make", BETTER)
def test_better_weights_of_known_graphs(make):
    lowest = 2 - 2 * np.cos(2 * np.pi / 16)
    ring = make(topology.ring(16)).matrix
    assert ring[0, 1] == ring[0, 15] == pytest.approx(2 / (lowest + 4))
    star = make(topology.star(5)).matrix.toarray()  # 2/(1 + 5) would leave -1/3 on the hub
    np.testing.assert_allclose(star[0], [0, 0.25, 0.25, 0.25, 0.25], atol=1e-12)
    path = make(topology.path(16))
    assert ratio(path) == pytest.approx(np.tan(np.pi / 32) ** 2)


def test_the_best_constant_of_a_large_ring():
    n = 4096
    w = mixing.best_constant(topology.ring(n))
    assert w.matrix[0, 1] == pytest.approx(0.5, rel=2e-3)
    assert w.spectral_gap == pytest.approx(1 - np.cos(2 * np.pi / n), rel=2e-3)


@pytest.mark.parametrize(
    ("graph", "size"), [(topology.ring(301), "301 and 301"), (topology.cycle(200, 11), "200 and 2200")]
)
def test_optimal_weights_of_a_large_graph_are_refused(graph, size):
    with pytest.raises(InvalidNetwork) as caught:
        mixing.optimal(graph)
    assert f"the graph has {size}; mixing.best_constant(graph) or mixing.metropolis(graph)" in str(caught.value)


@many
@given(random_mixings())
def test_top_is_a_tight_upper_bound(w):
    top, bound = 1 - eigenvalues(w)[0], 2 * (1 - w.matrix.diagonal().min())
    assert top - 1e-14 <= w.top <= min(top + 2e-12, bound)


@pytest.mark.parametrize("name", topology.names())
@pytest.mark.parametrize("make", [mixing.metropolis, mixing.best_constant])
def test_top_by_lanczos_is_an_upper_bound(name, make):
    w = make(topology.build(name, 256))
    top, bound = 1 - eigenvalues(w)[0], 2 * (1 - w.matrix.diagonal().min())
    assert top - 1e-14 <= spectrum.laplacian_bound(w.matrix, dense_limit=0) <= min(1.0011 * top, bound)


def test_top_of_networks_with_little_to_say():
    assert mixing.uniform(1).top == 0.0
    assert mixing.metropolis(topology.path(2)).top == 1.0
    assert mixing.uniform(600).top == pytest.approx(1.0)
    silent, _ = mixing.sequence([nx.empty_graph(600), topology.ring(600)])
    assert silent.top == 0.0
    assert mixing.metropolis(topology.star(4096)).top == pytest.approx(1.0, rel=2e-3)


def test_top_without_convergence_is_the_free_bound(monkeypatch):
    def fails(*args, **kwargs):
        raise spectrum.splinalg.ArpackNoConvergence("none", np.zeros(0), np.zeros((0, 0)))

    matrix = mixing.metropolis(topology.star(600)).matrix
    monkeypatch.setattr(spectrum.splinalg, "eigsh", fails)
    assert spectrum.laplacian_bound(matrix) == pytest.approx(2 * 599 / 600)


# --- large networks: the sparse ways agree with the dense one --------------------------------------


@pytest.mark.parametrize("name", [name for name in topology.names() if name != "complete"])
def test_sparse_and_dense_spectra_agree(name):
    matrix = mixing.metropolis(topology.build(name, 128)).matrix
    lambda2, beta = (
        spectrum.second_eigenvalue(matrix),
        spectrum.absolute_eigenvalue(matrix, spectrum.second_eigenvalue(matrix)),
    )
    assert spectrum.second_eigenvalue(matrix, dense_limit=0) == pytest.approx(lambda2, abs=1e-9)
    assert spectrum.absolute_eigenvalue(matrix, lambda2, dense_limit=0) == pytest.approx(beta, abs=1e-9)
    assert 0.99 * (1 - lambda2) <= spectrum.consensus_gap(matrix, lambda2, dense_limit=0) <= 1 - lambda2


@many
@given(random_mixings().filter(lambda w: w.n_nodes > 3))
def test_sparse_and_dense_spectra_agree_on_small_graphs(w):
    gap = 1 - w.lambda2
    assert spectrum.second_eigenvalue(w.matrix, dense_limit=0) == pytest.approx(w.lambda2, abs=1e-9)
    # β is the root of an eigenvalue of W², so near zero half the digits are left
    assert spectrum.absolute_eigenvalue(w.matrix, w.lambda2, dense_limit=0) == pytest.approx(w.beta, abs=1e-5)
    assert 0.99 * gap <= spectrum.consensus_gap(w.matrix, w.lambda2, dense_limit=0) <= gap + 1e-15


@pytest.mark.parametrize(
    ("name", "gap"),
    [
        ("ring", 2 / 3 * (1 - np.cos(2 * np.pi / 4096))),
        ("path", 2 / 3 * (1 - np.cos(np.pi / 4096))),
        ("torus", 2 / 5 * (1 - np.cos(2 * np.pi / 64))),
        ("star", 1 / 4096),
    ],
)
def test_spectra_of_4096_nodes_agree_with_their_formulas(name, gap):
    w = mixing.metropolis(topology.build(name, 4096))
    assert 1 - w.lambda2 == pytest.approx(gap, rel=1e-5)
    assert w.spectral_gap == pytest.approx(gap, rel=1e-5)
    assert 0.99 * gap <= w.consensus_gap <= gap


def test_a_negative_eigenvalue_of_a_large_odd_ring_dominates():
    n = 1025
    w = mixing.from_matrix(nx.to_scipy_sparse_array(topology.ring(n)) / 2)
    assert w.lambda2 == pytest.approx(np.cos(2 * np.pi / n), abs=1e-9)
    assert w.spectral_gap == pytest.approx(1 - np.cos(np.pi / n), rel=1e-3)


def test_a_negative_second_eigenvalue_is_found():
    n = 40
    w = mixing.from_matrix((np.ones((n, n)) - np.eye(n)) / (n - 1))
    assert spectrum.second_eigenvalue(w.matrix, dense_limit=0) == pytest.approx(-1 / (n - 1))


@many
@given(random_mixings(), st.floats(1.001, 3.0))
def test_a_gap_that_is_too_large_is_never_proven(w, factor):
    gap = 1 - w.lambda2
    assert spectrum.proven_gap(w.matrix, factor * gap) <= gap


def test_a_gap_that_ends_on_an_eigenvalue_is_not_proven():
    w = mixing.metropolis(topology.hypercube(8))  # eigenvalues 1, 1/2, 0, -1/2
    assert spectrum.proven_gap(w.matrix, 1.0) == 0.0


def test_without_a_proof_the_free_bound_remains():
    w = mixing.metropolis(topology.ring(12))
    free = 4 * (1 / 3) / (12 * 6)
    wrong_lambda2 = w.lambda2 - 0.1
    assert spectrum.consensus_gap(w.matrix, wrong_lambda2, dense_limit=0) == pytest.approx(free)
    assert free <= w.consensus_gap


# --- matrices of the user -------------------------------------------------------------------------

GOOD = dense([[0.5, 0.3, 0.2], [0.3, 0.6, 0.1], [0.2, 0.1, 0.7]])


@pytest.mark.parametrize(
    "form", [np.asarray, np.ndarray.tolist, sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_array]
)
def test_a_good_matrix_is_kept(form):
    w = mixing.from_matrix(form(GOOD), graph=topology.complete(3))
    np.testing.assert_allclose(w.matrix.toarray(), GOOD, rtol=0, atol=1e-15)


def test_rounding_noise_is_removed():
    noisy = GOOD @ np.diag([1 + 1e-12, 1, 1])
    noisy = np.block([[noisy, np.full((3, 1), -1e-14)], [np.full((1, 3), 1e-14), np.ones((1, 1))]])
    noisy[2:, 2:] = dense([[0.4, 0.3], [0.3, 0.7]])
    w = mixing.from_matrix(noisy)
    full = w.matrix.toarray()
    assert np.array_equal(full, full.T)
    assert np.array_equal(w.degrees, [2, 2, 3, 1])
    np.testing.assert_allclose(full.sum(axis=1), 1.0, rtol=0, atol=1e-15)


def test_zeros_on_the_diagonal_are_stored_and_zeros_off_it_are_not():
    rows, cols = np.indices((4, 4)).reshape(2, -1)
    entries = dense([[0, 2, 1, 1], [2, 2, 0, 0], [1, 0, 0, 3], [1, 0, 3, 0]]) / 4
    every_place = sp.coo_array((entries.ravel(), (rows, cols)), shape=(4, 4))
    w = mixing.from_matrix(every_place)
    assert every_place.nnz == 16
    assert w.matrix.nnz == 12
    assert np.array_equal(w.degrees, [3, 1, 2, 2])


def test_one_node():
    w = mixing.from_matrix([[1.0]])
    assert (w.n_nodes, w.edges, w.lambda2, w.beta, w.consensus_gap) == (1, 0, 0.0, 0.0, 1.0)


def changed(*entries):
    matrix = GOOD.copy()
    for *place, value in entries:
        matrix[tuple(place)] = value
    return matrix


SQUARE = nx.to_numpy_array(topology.ring(4)) / 2


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "a mixing matrix is square, one row per node; got shape (2, 3)"),
        (changed((1, 2, np.nan)), "mixing entry (1, 2) = nan is not a finite number"),
        (changed((2, 0, np.inf)), "mixing entry (2, 0) = inf is not a finite number"),
        (changed((0, 1, -0.1), (1, 0, -0.1)), "mixing entry (0, 1) = -0.1 is negative"),
        (changed((1, 0, 0.25)), "is not symmetric: entry (0, 1) is 0.3 but (1, 0) is 0.25; use mixing.metropolis"),
        (changed((2, 2, 0.67)), "mixing row 2 sums to 0.97, expected 1; use mixing.metropolis(graph)"),
        (changed((2, 2, 0.7 + 1e-9)), "mixing row 2 sums to 1.000000001, expected 1"),
        (
            np.kron(np.eye(2), np.full((2, 2), 0.5)),
            "the graph of the mixing matrix falls apart into 2 components; nodes 2, 3 cannot reach node 0",
        ),
        (SQUARE, "eigenvalue -1); mix it with the identity, (I + W)/2, or use mixing.metropolis(graph)"),
        (dense([[0, 1], [1, 0]]), "bipartite, zero diagonal"),
    ],
)
def test_a_bad_matrix_is_refused(form, matrix, message):
    with pytest.raises(InvalidNetwork) as caught:
        mixing.from_matrix(form(matrix))
    assert message in str(caught.value)


@pytest.mark.parametrize("matrix", [0.5, [1.0], np.empty((0, 0))])
def test_what_is_no_matrix_is_refused(matrix):
    with pytest.raises(InvalidNetwork, match="square, one row per node"):
        mixing.from_matrix(matrix)


def test_the_lazy_advice_works():
    assert mixing.from_matrix((np.eye(4) + SQUARE) / 2).beta == pytest.approx(0.5)


def test_an_entry_off_the_graph_is_named():
    with pytest.raises(InvalidNetwork) as caught:
        mixing.from_matrix(GOOD, graph=nx.path_graph(3))
    assert str(caught.value) == "mixing entry (0, 2) is 0.2, but the graph has no edge between 0 and 2"


def test_graph_and_matrix_must_have_one_size():
    with pytest.raises(InvalidNetwork, match="the graph has 4 nodes, expected 3"):
        mixing.from_matrix(GOOD, graph=nx.path_graph(4))


def test_an_unused_edge_is_no_fault():
    w = mixing.from_matrix(mixing.metropolis(topology.path(4)).matrix, graph=topology.complete(4))
    assert w.edges == 6


def test_metropolis_refuses_what_build_refuses():
    with pytest.raises(InvalidNetwork, match="the graph is directed"):
        mixing.metropolis(nx.DiGraph([(0, 1)]))


@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_uniform_needs_a_number_of_nodes(n):
    with pytest.raises(InvalidInput, match="n must be a positive integer, got"):
        mixing.uniform(n)


# --- graphs that change from exchange to exchange --------------------------------------------------


def on_nodes(n, edges):
    graph = nx.empty_graph(n)
    graph.add_edges_from(edges)
    return graph


def matchings_of_ring(n):
    """The even and the odd edges of a ring: each node talks to one neighbour, then to the other."""
    return [on_nodes(n, [(k, (k + 1) % n) for k in range(odd, n, 2)]) for odd in (0, 1)]


def one_edge_at_a_time(n):
    return [on_nodes(n, [(k, k + 1)]) for k in range(n - 1)]


@st.composite
def random_sequences(draw, most=12):
    """The edges of a connected graph dealt out over some exchanges, so that single graphs are seldom connected."""
    n, length = draw(st.integers(1, most)), draw(st.integers(1, 5))
    edges = list(topology.build(draw(st.sampled_from(ANY_SIZE)), n).edges)
    turns = draw(st.lists(st.integers(0, length - 1), min_size=len(edges), max_size=len(edges)))
    return [on_nodes(n, [e for e, turn in zip(edges, turns, strict=True) if turn == t]) for t in range(length)]


@prop(300)
@given(random_sequences())
def test_a_sequence_weighs_each_graph_by_its_own_degrees(graphs):
    for graph, w in zip(graphs, mixing.sequence(graphs), strict=True):
        full, degree = w.matrix.toarray(), dict(graph.degree)
        assert np.array_equal(full, full.T)
        np.testing.assert_allclose(full.sum(axis=0), 1.0, rtol=0, atol=1e-14)
        assert w.edges == 2 * graph.number_of_edges()
        for a, b in graph.edges:
            assert full[a, b] == pytest.approx(1 / (1 + max(degree[a], degree[b])))


@prop(300)
@given(random_sequences(), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_every_window_contracts_as_promised(graphs, more, seed):
    mixings = mixing.sequence(graphs)
    n, window = mixings[0].n_nodes, len(mixings) + more
    beta = mixing.window_beta(mixings, window)
    assert 0 <= beta < 1
    for t in range(len(mixings)):
        v = np.random.default_rng(seed).standard_normal((n, 3))
        apart = np.linalg.norm(v - v.mean(axis=0))
        mixed = v
        for s in range(window):
            mixed = mixings[(t + s) % len(mixings)].matrix @ mixed
        np.testing.assert_allclose(mixed.mean(axis=0), v.mean(axis=0), atol=1e-13)
        assert np.linalg.norm(mixed - v.mean(axis=0)) <= beta * apart + 1e-12


@prop(300)
@given(random_sequences())
def test_a_longer_window_is_never_worse(graphs):
    mixings = mixing.sequence(graphs)
    betas = [mixing.window_beta(mixings, len(mixings) + more) for more in range(5)]
    assert betas[0] == mixing.window_beta(mixings)
    assert (np.diff(betas) <= 1e-12).all()


@prop(300)
@given(random_mixings(), st.integers(1, 4), st.integers(1, 4))
def test_a_constant_sequence_has_powers_of_beta(w, length, window):
    assert mixing.window_beta([w] * length, window) == pytest.approx(w.beta**window, abs=1e-12)
    assert mixing.window_beta([w] * length) == pytest.approx(w.beta**length, abs=1e-12)


@pytest.mark.parametrize("n", [4, 6, 50, 1024])
def test_two_matchings_of_a_ring_mix_although_neither_connects(n):
    mixings = mixing.sequence(matchings_of_ring(n))
    assert all(w.beta == w.lambda2 == 1.0 and w.consensus_gap == 0.0 for w in mixings)
    # averaging over pairs of one kind, then over the other, is a projection each: β is the cosine of their angle
    assert 1 - mixing.window_beta(mixings) == pytest.approx(1 - np.cos(2 * np.pi / n), rel=1e-6)


@pytest.mark.parametrize("n", [16, 1024])
def test_a_hypercube_taken_by_dimensions_averages_exactly(n):
    cube = topology.hypercube(n)
    graphs = [on_nodes(n, [e for e in cube.edges if e[0] ^ e[1] == 1 << j]) for j in range(n.bit_length() - 1)]
    assert mixing.window_beta(mixing.sequence(graphs)) == pytest.approx(0.0, abs=1e-14)


@prop(300)
@given(random_sequences().filter(lambda graphs: len(graphs[0]) > 3))
def test_sparse_and_dense_window_betas_agree(graphs):
    factors = [w.matrix for w in mixing.sequence(graphs)]
    # the root of an eigenvalue, so near zero half the digits are left
    assert spectrum.product_beta(factors, dense_limit=0) == pytest.approx(spectrum.product_beta(factors), abs=1e-5)


def test_a_sequence_that_mixes_slowly_takes_the_factorisation():
    n = 4096
    mixings = mixing.sequence(matchings_of_ring(n))
    assert 1 - mixing.window_beta(mixings) == pytest.approx(1 - np.cos(2 * np.pi / n), rel=1e-4)


def test_an_exchange_without_messages_changes_nothing():
    silent, ring = mixing.sequence([nx.empty_graph(600), topology.ring(600)])
    assert (silent.edges, silent.beta, silent.consensus_gap) == (0, 1.0, 0.0)
    assert mixing.window_beta([silent, ring]) == pytest.approx(ring.beta, abs=1e-12)


def test_parallel_edges_of_a_sequence_count_once():
    graph = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    (w,) = mixing.sequence([graph])
    assert np.array_equal(w.matrix.toarray(), mixing.metropolis(topology.path(3)).matrix.toarray())


@pytest.mark.parametrize(
    ("graphs", "window", "message"),
    [
        (
            one_edge_at_a_time(5),
            2,
            "within 2 exchanges the graphs do not connect everybody: nodes 0 and 3 stay apart from exchange 0 on; "
            "use a window of at least 4",
        ),
        (matchings_of_ring(4), 1, "within 1 exchange the graphs do not connect everybody: nodes 0 and 2 stay apart"),
        (matchings_of_ring(4) * 3, 1, "use a window of at least 2"),
        ([topology.ring(4), nx.empty_graph(4), nx.empty_graph(4)], 2, "nodes 0 and 1 stay apart from exchange 1 on"),
    ],
)
def test_a_window_in_which_somebody_is_not_reached_is_refused(graphs, window, message):
    mixings = mixing.sequence(graphs)
    with pytest.raises(InvalidNetwork) as caught:
        mixing.window_beta(mixings, window)
    assert message in str(caught.value)


@prop(300)
@given(random_sequences())
def test_the_advised_window_is_the_shortest_that_connects(graphs):
    mixings = mixing.sequence(graphs)

    def connects(window):
        unions = [[graphs[(t + s) % len(graphs)] for s in range(window)] for t in range(len(graphs))]
        return all(nx.is_connected(nx.compose_all(union)) for union in unions)

    shortest = next(window for window in range(1, len(graphs) + 1) if connects(window))
    assert mixing.window_beta(mixings, shortest) < 1
    for window in range(1, shortest):
        with pytest.raises(InvalidNetwork, match=f"use a window of at least {shortest}$"):
            mixing.window_beta(mixings, window)


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "needs at least one graph"),
        ([nx.Graph()], "needs at least one graph, with at least one node"),
        ([on_nodes(4, [(0, 1)]), on_nodes(4, [(1, 2)])], "no graph of the sequence ever connects node 3 with node 0"),
        (
            [topology.ring(4), nx.Graph([(0, 1)])],
            "graph 1 of the sequence lacks node 2; all need the same nodes 0 ... 3",
        ),
        ([topology.ring(4), topology.ring(5)], "graph 1 of the sequence has a node 4; all need the same nodes 0 ... 3"),
        ([nx.Graph([("a", "b")])], "graph 0 of the sequence lacks node 0"),
        ([topology.ring(2), nx.DiGraph([(0, 1)])], "graph 1 is directed"),
        ([on_nodes(2, [(0, 1), (1, 1)])], "node 1 of graph 0 is linked to itself"),
    ],
)
def test_a_bad_sequence_is_refused(graphs, message):
    with pytest.raises(InvalidNetwork) as caught:
        mixing.sequence(graphs)
    assert message in str(caught.value)


def test_a_bad_sequence_of_matrices_or_window_is_refused():
    apart = mixing.sequence(one_edge_at_a_time(4))[:2]
    with pytest.raises(InvalidNetwork, match="ever connects node 3 with node 0"):
        mixing.window_beta(apart, 100)
    with pytest.raises(InvalidNetwork, match="on the same nodes; got sizes: 2, 3"):
        mixing.window_beta([mixing.uniform(2), mixing.uniform(3)])
    with pytest.raises(InvalidNetwork, match="got sizes: none"):
        mixing.window_beta([])
    with pytest.raises(InvalidInput, match="window must be a positive integer, got 0"):
        mixing.window_beta([mixing.uniform(2)], 0)
