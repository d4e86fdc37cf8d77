"""From what a caller asks for to a network that can carry a run, or a reason why not."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

import networkx as nx
from numpy.typing import ArrayLike

from glmesh.core import AnyMethod, Setup, Transport
from glmesh.engine.agreement import of_fields, of_problem, require_same
from glmesh.engine.driver import Driver
from glmesh.engine.result import Result, starting_point
from glmesh.errors import InvalidInput
from glmesh.methods import Cola
from glmesh.network import Mixing, Network, Plan
from glmesh.network import mixing as mixing_module
from glmesh.network import topology as topology_module
from glmesh.parallel import SINGLE_PROCESS, ProcessGroup, ThreadPool
from glmesh.problem import Problem
from glmesh.transports import FaultyTransport, LocalTransport
from glmesh.types import Data
from glmesh.validation import whole_number

DEFAULT_NODES = 16
# numbers touched in a round, below which a second thread costs more than it brings: benchmarks/reports/simulator.md
WORTH_A_THREAD = 200_000
# what would do where the data of ranks differ that must be the same
OWN_ROWS = "pass the same rows on all ranks; rows of each rank's own go through `scatter`, or fit(..., rows='own')"


@dataclass(frozen=True)
class RunOptions:
    """The keyword arguments of `Run` as the caller gave them; `Run` documents each."""

    method: AnyMethod | None = None
    topology: str | nx.Graph = "ring"
    n_nodes: int = DEFAULT_NODES
    mixing: str | Mixing | Data = "metropolis"
    partition: str | ArrayLike = "shuffled"
    seed: int = 0
    warm_start: Result | ArrayLike | None = None
    network: Network | None = None
    certify: bool = False
    tol: float | None = None
    faults: Plan | Mapping[str, object] | str | PathLike[str] | None = None
    n_jobs: int | None = None
    n_blocks: int = 1
    processes: ProcessGroup = SINGLE_PROCESS

    def said(self) -> dict[str, object]:
        """Return {name: value} of the options that must be the same at all processes: all but n_jobs and n_blocks."""
        mixing = self.mixing.matrix if isinstance(self.mixing, Mixing) else self.mixing
        return {
            "n_nodes": self.n_nodes,
            "topology": self.topology,
            "seed": self.seed,
            **of_fields("method", self.method),
            "mixing": mixing,
            "partition": self.partition,
            "warm_start": starting_point(self.warm_start),
            "network": self.network,
            "certify": self.certify,
            "tol": self.tol,
            "faults": None if self.faults is None else Plan.of(self.faults).to_dict(),
        }


def start(problem: Problem, options: RunOptions) -> Driver:
    """Check the options and make the network and its nodes; return the Driver of a run before round 0.

    The processes of a run first compare problem and options: Mismatch names the first difference. Raise InvalidInput
    for options that are wrong or do not go together.
    """
    require_same(options.processes, options.said() | of_problem(problem), {"data of shape": OWN_ROWS, "data": OWN_ROWS})
    method = Cola() if options.method is None else options.method
    if not callable(getattr(method, "prepare", None)) or not callable(getattr(method, "round", None)):
        raise InvalidInput(f"method must be a method such as Cola() or Nids(), got {options.method!r}")
    if options.network is not None and not isinstance(options.network, Network):
        raise InvalidInput(f"network must be a Network(...), got {options.network!r}")
    seed = whole_number(options.seed, "seed", 0, 2**63)
    mixing, diameter = network_of(problem, method, options, seed)
    plan, processes = Plan.of(options.faults), options.processes
    processes.refuse(network=options.network, plan=plan)
    n_blocks = min(whole_number(options.n_blocks, "n_blocks", 1), mixing.n_nodes)
    threads = ThreadPool(_n_threads(problem, mixing, method, options))
    links = sorted(topology_module.links_of(mixing.matrix))
    schedule: tuple[Mixing, ...] = (mixing,)
    if not plan.is_empty:
        mixing, schedule = schedule_of(plan, mixing, options.mixing)
    if plan.loses_messages:
        diameter = diameter_of(mixing, plan)
    setup = Setup(
        problem=problem,
        mixing=mixing,
        schedule=schedule,
        links=links,
        diameter=diameter,
        node_ids=processes.local_blocks(mixing.n_nodes, n_blocks),
        partition=options.partition,
        warm_start=options.warm_start,
        seed=seed,
        plan=plan,
        timing=options.network,
        certify=options.certify,
        tol=options.tol,
        threads=threads,
        processes=processes,
        transports=connect,
    )
    nodes = method.prepare(setup)
    return Driver(nodes)


def connect(setup: Setup, flows: bool) -> Transport:
    """Return the transport that moves messages between the nodes of a run.

    With several processes it sends between them; within one process it is a LocalTransport, or under a fault plan a
    FaultyTransport, which loses messages as planned. `flows`: the nodes gossip by flows, which needs a FaultyTransport;
    InvalidInput is raised if there are several processes.
    """
    ids = list(setup.node_ids)
    if setup.plan.is_empty and not flows:
        return setup.processes.exchange(setup.mixing, ids) or LocalTransport(setup.mixing, ids, setup.timing)
    if not setup.processes.simulates:
        raise InvalidInput("flow gossip is for networks that fail; with runtime='mpi' use gossip='auto'")
    return FaultyTransport(setup.mixing, ids, setup.timing, setup.plan, setup.schedule)


def _n_threads(problem: Problem, mixing: Mixing, method: AnyMethod, options: RunOptions) -> int:
    """Return the number of threads: `n_jobs` if given, else one per core, or 1 for small problems.

    It is at most the number of nodes. With several processes it is 1, unless `n_jobs` is given. Several linear
    predictors of a row touch its numbers as often, and so does a method that says how often a round does (`visits`).
    """
    if options.n_jobs is not None:
        return min(whole_number(options.n_jobs, "n_jobs", 1), mixing.n_nodes)
    if options.processes.size > 1:  # the ranks share the cores out among themselves
        return 1
    d = problem.parts[0].columns.d
    visits = getattr(method, "visits", None)
    times = problem.spec.loss.n_outputs * (1.0 if visits is None else visits(d))
    touched = times * sum(part.columns.nnz for part in problem.parts)
    work = touched + (mixing.edges + mixing.n_nodes) * d
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    return min(cores, mixing.n_nodes) if work > WORTH_A_THREAD else 1


def network_of(problem: Problem, method: AnyMethod, options: RunOptions, seed: int) -> tuple[Mixing, int]:
    """Return (mixing, diameter) of the network that the options ask for, before any fault.

    The mixing has the weights of the links; the diameter is an upper bound, in links. The number of nodes is `n_nodes`,
    unless the data is already held by nodes or the topology is a graph: then it is their number, and InvalidInput is
    raised if `n_nodes` differs from it. `seed` is that of random graphs.
    """
    n_nodes, topology = whole_number(options.n_nodes, "n_nodes", 1), options.topology
    if (spread := problem.n_nodes) is not None:
        if n_nodes not in (DEFAULT_NODES, spread):
            raise InvalidInput(f"the problem is on {spread} nodes, but n_nodes={n_nodes}")
        n_nodes = spread
    elif not isinstance(topology, str):
        topology = topology_module.build(topology, None, seed)
        if n_nodes not in (DEFAULT_NODES, len(topology)):
            raise InvalidInput(f"the graph has {len(topology)} nodes, but n_nodes={n_nodes}")
        n_nodes = len(topology)
    graph = topology_module.build(topology, n_nodes, seed)
    if getattr(method, "averages_exactly", False):
        if not isinstance(options.mixing, str):
            raise InvalidInput("Cocoa averages exactly; it takes no mixing matrix. Use Cola for one of your own.")
        return mixing_module.uniform(n_nodes), min(1, n_nodes - 1)
    chosen = _mixing_of(graph, options.mixing)
    if chosen.n_nodes != n_nodes:
        raise InvalidInput(f"the mixing matrix is for {chosen.n_nodes} nodes, the network has {n_nodes}")
    return chosen, topology_module.diameter(chosen.matrix)  # messages take the edges that carry a weight, no others


def _mixing_of(graph: nx.Graph, weights: str | Mixing | Data) -> Mixing:
    """Return the mixing of a graph: the one that is named by the text `weights`, or the caller's own Mixing or matrix.

    Raise InvalidInput for an unknown name, and for weights on links that the graph does not have.
    """
    if isinstance(weights, Mixing):
        if weights.n_nodes == len(graph):
            mixing_module.check_support(weights, graph)
        return weights
    if not isinstance(weights, str):
        return mixing_module.from_matrix(weights, graph)
    named = {
        "best-constant": mixing_module.best_constant,
        "optimal": mixing_module.optimal,
        "metropolis": mixing_module.metropolis,
    }
    if weights not in named:
        names = ", ".join(map(repr, named))
        raise InvalidInput(f"mixing must be {names}, a Mixing or a matrix, got {weights!r}")
    return named[weights](graph)


def schedule_of(plan: Plan, mixing: Mixing, given: str | Mixing | Data) -> tuple[Mixing, tuple[Mixing, ...]]:
    """Return (mixing, mixings): that of the union of all graphs, and a tuple of those that the exchanges take in turn.

    If the fault plan names no graphs that alternate, these are `mixing`, the network's own, and (mixing,). `given` is
    what the caller passed as mixing=: with graphs only "metropolis" will do. Raise InvalidInput for a plan that does
    not fit the network.
    """
    plan.check(mixing.n_nodes, topology_module.links_of(mixing.matrix))
    if not plan.graphs:
        return mixing, (mixing,)
    if not (isinstance(given, str) and given == "metropolis"):
        raise InvalidInput("graphs that change have Metropolis weights; leave mixing= away, or the plan's graphs")
    graphs = [nx.empty_graph(mixing.n_nodes) for _ in plan.graphs]
    for graph, edges in zip(graphs, plan.graphs, strict=True):
        graph.add_edges_from(edges)
    return mixing_module.metropolis(nx.compose_all(graphs)), tuple(mixing_module.sequence(graphs))


def diameter_of(mixing: Mixing, plan: Plan) -> int:
    """Return the largest diameter, in links, that the network has while members and links go as a fault plan says."""
    links = topology_module.links_of(mixing.matrix)
    largest = topology_module.diameter(mixing.matrix)  # before the first round everybody is there
    for round in plan.stages():
        members, gone = plan.members(round, mixing.n_nodes), plan.gone(round, links)
        if members.all() and not gone:  # that is the network itself
            continue
        left = mixing_module.among(mixing, members, gone)
        if left.consensus_gap > 0:
            largest = max(largest, topology_module.diameter(left.matrix))
    return largest
