"""From what a caller asks for to a network that can carry a run, or a reason why not."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from glmesh.errors import InvalidInput
from glmesh.methods import Cola
from glmesh.network import mixing as mixing_module
from glmesh.network import topology as topology_module
from glmesh.network.faults import Plan
from glmesh.network.mixing import Mixing
from glmesh.problem.problem import Problem
from glmesh.problem.shard import Shard
from glmesh.transports import Network

DEFAULT_NODES = 16


def network_of(
    problem: Problem, method: Any, topology: Any, n_nodes: int, weights: Any, seed: int
) -> tuple[Mixing, int]:
    """(mixing, a bound of the diameter)."""
    n_nodes = whole(n_nodes, "n_nodes", 1)
    if isinstance(problem, Shard) or not problem.pooled:
        spread = problem.n_nodes if isinstance(problem, Shard) else len(problem.parts)
        if n_nodes not in (DEFAULT_NODES, spread):
            raise InvalidInput(f"the problem is on {spread} nodes, but n_nodes={n_nodes}")
        n_nodes = spread
    elif not isinstance(topology, str):
        topology = topology_module.build(topology, None, seed)
        given = len(topology)
        if n_nodes not in (DEFAULT_NODES, given):
            raise InvalidInput(f"the graph has {given} nodes, but n_nodes={n_nodes}")
        n_nodes = given
    graph = topology_module.build(topology, n_nodes, seed)
    if method.averages_exactly:
        if not isinstance(weights, str):
            raise InvalidInput("Cocoa averages exactly; it takes no mixing matrix. Use Cola for one of your own.")
        return mixing_module.uniform(n_nodes), min(1, n_nodes - 1)
    if isinstance(weights, Mixing):
        chosen = weights
        if chosen.n_nodes == n_nodes:
            mixing_module.check_support(chosen, graph)
    elif isinstance(weights, str):
        named = {
            "best-constant": mixing_module.best_constant,
            "optimal": mixing_module.optimal,
            "metropolis": mixing_module.metropolis,
        }
        if weights not in named:
            names = ", ".join(map(repr, named))
            raise InvalidInput(f"mixing must be {names}, a Mixing or a matrix, got {weights!r}")
        chosen = named[weights](graph)
    else:
        chosen = mixing_module.from_matrix(weights, graph)
    if chosen.n_nodes != n_nodes:
        raise InvalidInput(f"the mixing matrix is for {chosen.n_nodes} nodes, the network has {n_nodes}")
    return chosen, topology_module.diameter(chosen.matrix)  # messages take the edges that carry a weight, no others


def whole(value: Any, name: str, least: int, most: float = np.inf) -> int:
    """The value, if it is a whole number in this range."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value < most:
        raise InvalidInput(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)


def check_plan(plan: Plan, method: Cola, network: Network | None, certify: bool) -> bool:
    """Refuses what does not go together; whether nodes keep ledgers."""
    uses_flows = method.gossip == "ledger" or (method.gossip == "auto" and plan.loses_messages)
    if method.gossip == "chebyshev" and plan.loses_messages:
        raise InvalidInput("Chebyshev gossip is for networks that stand still; use gossip='auto' where things fail")
    if any(entry.delay for entry in plan.straggler) and network is None:
        raise InvalidInput("a straggler's delay needs a clock: give network=Network(...), or a theta instead")
    if not uses_flows and plan.loses_messages:
        if method.acceleration not in ("auto", "none"):
            raise InvalidInput("acceleration under faults needs gossip='ledger' (the default under faults)")
        models = [entry.model for entry in plan.random] + [entry.model for entry in plan.down]
        if plan.changes_members or "reset" in models:
            raise InvalidInput("nodes that join, leave or are reset need gossip='ledger' (the default under faults)")
        if certify:
            raise InvalidInput("certificates under faults need gossip='ledger' (the default under faults)")
    return uses_flows


def schedule_of(plan: Plan, mixing: Mixing, given: Any) -> tuple[Mixing, tuple[Mixing, ...]]:
    """(the mixing, that of each exchange in turn), once the plan is known to fit the network."""
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
    """An upper bound of the diameter, whoever of the plan's members are there and whichever links are left."""
    links = topology_module.links_of(mixing.matrix)
    largest = topology_module.diameter(mixing.matrix)  # before the first round everybody is there
    for round in plan.stages():
        left = mixing_module.among(mixing, plan.members(round, mixing.n_nodes), plan.gone(round, links))
        if left.consensus_gap > 0:
            largest = max(largest, topology_module.diameter(left.matrix))
    return largest
