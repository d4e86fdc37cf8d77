"""Networks, mixings and options of a run: used as given, or refused with a reason before any work."""

import networkx as nx
import numpy as np
import pytest

from glmesh import Cocoa, Cola, Network, Run
from glmesh.errors import InvalidInput, InvalidNetwork
from glmesh.network import mixing, topology
from tests.scenes import PROBLEMS, advance


@pytest.mark.parametrize(
    "graph",
    [
        nx.path_graph(5),
        [(0, 1), (1, 2), (2, 3), (3, 4)],
        nx.to_numpy_array(nx.path_graph(5)),
        nx.to_scipy_sparse_array(nx.path_graph(5)),
        nx.to_dict_of_lists(nx.path_graph(5)),
    ],
    ids=["networkx", "edges", "matrix", "sparse", "dict"],
)
def test_a_graph_of_ones_own(graph):
    runs = [Run(PROBLEMS["lasso"](), topology=graph), Run(PROBLEMS["lasso"](), topology="path", n_nodes=5)]
    assert np.array_equal(advance(runs[0], 5).x, advance(runs[1], 5).x)


def test_weights_of_ones_own():
    graph = topology.ring(5)
    W = mixing.metropolis(graph)
    lazy = 0.5 * (np.eye(5) + W.matrix.toarray())
    same = [Run(PROBLEMS["lasso"](), topology=graph, mixing=m) for m in ("metropolis", W, W.matrix, W.matrix.toarray())]
    for run in same:
        np.testing.assert_allclose(advance(run, 5).x, same[0].x, rtol=1e-12, atol=1e-12)
    plain = [Run(PROBLEMS["lasso"](), topology=graph, mixing=m, method=Cola.printed()) for m in (W, lazy)]
    assert not np.allclose(advance(plain[0], 5).x, advance(plain[1], 5).x)


asymmetric = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])


BAD_RUNS = {
    "disconnected": ({"topology": nx.Graph([(0, 1), (2, 3)])}, InvalidNetwork, "2 components; nodes 2, 3 cannot reach"),
    "unknown_topology": ({"topology": "rign"}, InvalidInput, "did you mean 'ring'"),
    "no_topology": ({"topology": None}, InvalidNetwork, "cannot read a graph"),
    "directed": ({"topology": nx.DiGraph([(0, 1)])}, InvalidNetwork, "directed"),
    "graph_size": ({"topology": nx.path_graph(3), "n_nodes": 4}, InvalidInput, "the graph has 3 nodes, but n_nodes=4"),
    "no_nodes": ({"n_nodes": 0}, InvalidInput, "n_nodes must be a whole number >= 1, got 0"),
    "half_a_node": ({"n_nodes": 2.5}, InvalidInput, "n_nodes must be a whole number"),
    "asymmetric": ({"n_nodes": 3, "mixing": asymmetric}, InvalidNetwork, r"not symmetric: entry \(0, 1\) is 0.5 but"),
    "row_sum": ({"n_nodes": 3, "mixing": np.eye(3) * 0.5}, InvalidNetwork, "row 0 sums to 0.5, expected 1"),
    "negative_weight": (
        {"n_nodes": 2, "mixing": np.array([[1.5, -0.5], [-0.5, 1.5]])},
        InvalidNetwork,
        r"entry \(0, 1\) = -0.5 is negative",
    ),
    "no_such_edge": (
        {"n_nodes": 3, "topology": "path", "mixing": np.full((3, 3), 1 / 3)},
        InvalidNetwork,
        "the graph has no edge between 0 and 2",
    ),
    "identity": ({"n_nodes": 3, "mixing": np.eye(3)}, InvalidNetwork, "falls apart into 3 components"),
    "mixing_size": ({"n_nodes": 3, "mixing": mixing.uniform(4)}, InvalidInput, "for 4 nodes, the network has 3"),
    "mixing_name": ({"n_nodes": 3, "mixing": "best"}, InvalidInput, "'metropolis', a Mixing or a matrix, got 'best'"),
    "seed": ({"seed": -1}, InvalidInput, "seed must be a whole number >= 0, got -1"),
    "jobs": ({"n_jobs": 0}, InvalidInput, "n_jobs must be a whole number >= 1, got 0"),
    "clock": (
        {"n_nodes": 3, "network": Network(nonzeros_per_second=[1.0, 2.0])},
        InvalidInput,
        "nonzeros_per_second has 2 entries for 3 nodes",
    ),
    "passes": ({"n_nodes": 3, "method": Cola(local_passes=[1, 2])}, InvalidInput, "one for each of 3 nodes"),
    "theta": ({"n_nodes": 3, "method": Cola(local_accuracy=[0.1, 0.2])}, InvalidInput, "one for each of 3 nodes"),
}


@pytest.mark.parametrize("case", BAD_RUNS)
def test_bad_runs_are_refused(case):
    options, error, message = BAD_RUNS[case]
    with pytest.raises(error, match=message):
        Run(PROBLEMS["lasso"](), **options)


def test_a_mixing_must_fit_the_topology_and_cocoa_takes_none():
    problem = PROBLEMS["lasso"]()
    complete = mixing.metropolis(topology.complete(8))
    with pytest.raises(InvalidInput, match="no edge between"):
        Run(problem, topology="ring", n_nodes=8, mixing=complete)
    with pytest.raises(InvalidInput, match="no mixing matrix"):
        Run(problem, n_nodes=8, method=Cocoa(), mixing=complete)
    with pytest.raises(InvalidInput, match="nonsense"):
        Run(problem, topology="nonsense", n_nodes=8, method=Cocoa())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "cola"}, "method must be"),
        ({"network": 5}, "network must be"),
        ({"seed": 2**70}, "seed must be"),
        ({"warm_start": "a"}, "warm_start is"),
        ({"partition": None}, "partition"),
    ],
)
def test_options_of_the_wrong_kind(options, message):
    with pytest.raises(InvalidInput, match=message):
        Run(PROBLEMS["lasso"](), n_nodes=4, **options)
