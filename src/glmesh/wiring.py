"""From what a caller asks for to a network that can carry a run, or a reason why not."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from glmesh import mixing as mixing_module
from glmesh import topology as topology_module
from glmesh.errors import InvalidInput
from glmesh.exchange import Network
from glmesh.faults import Plan
from glmesh.methods import Cola
from glmesh.mixing import Mixing
from glmesh.problem import Problem
from glmesh.types import Indices

DEFAULT_NODES = 16


def network_of(
    problem: Problem, method: Cola, topology: Any, n_nodes: int, weights: Any, seed: int
) -> tuple[Mixing, int]:
    """(mixing, a bound of the diameter)."""
    n_nodes = whole(n_nodes, "n_nodes", 1)
    if not problem.pooled:
        if n_nodes not in (DEFAULT_NODES, len(problem.parts)):
            raise InvalidInput(f"the problem is on {len(problem.parts)} nodes, but n_nodes={n_nodes}")
        n_nodes = len(problem.parts)
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
        if weights != "metropolis":
            raise InvalidInput(f"mixing must be 'metropolis', a Mixing or a matrix, got {weights!r}")
        chosen = mixing_module.metropolis(graph)
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


class Gaps:
    """A lower bound of 1 - lambda_2 of the mixing among the members of a view; 0 if they are not connected."""

    def __init__(self, mixing: Mixing) -> None:
        self._mixing = mixing
        self._newest: tuple[bytes, float] = (b"", 0.0)

    def __call__(self, view: Indices) -> float:
        """For a view: odd entries are members."""
        members = (view & 1).astype(bool)
        key = members.tobytes()
        if self._newest[0] != key:
            mixing = self._mixing if members.all() else mixing_module.among(self._mixing, members)
            self._newest = key, mixing.consensus_gap
        return self._newest[1]


def check_plan(plan: Plan, method: Cola, network: Network | None, certify: bool) -> bool:
    """Refuses what does not go together; whether nodes keep ledgers."""
    uses_ledger = method.gossip == "ledger" or (method.gossip == "auto" and plan.loses_messages)
    if any(entry.delay for entry in plan.straggler) and network is None:
        raise InvalidInput("a straggler's delay needs a clock: give network=Network(...), or a theta instead")
    if not uses_ledger and plan.loses_messages:
        models = [entry.model for entry in plan.random] + [entry.model for entry in plan.down]
        if plan.changes_members or "reset" in models:
            raise InvalidInput("nodes that join, leave or are reset need gossip='ledger' (the default under faults)")
        if certify:
            raise InvalidInput("certificates under faults need gossip='ledger' (the default under faults)")
    return uses_ledger


def schedule_of(plan: Plan, mixing: Mixing, given: Any) -> tuple[Mixing, ...]:
    """The mixing of each exchange in turn, once the plan is known to fit the network."""
    plan.check(mixing.n_nodes, topology_module.links_of(mixing.matrix))
    if not plan.graphs:
        return (mixing,)
    if not isinstance(given, str):
        raise InvalidInput("graphs that change have Metropolis weights; leave mixing= away, or the plan's graphs")
    graphs = [nx.empty_graph(mixing.n_nodes) for _ in plan.graphs]
    for graph, edges in zip(graphs, plan.graphs, strict=True):
        graph.add_edges_from(edges)
    return tuple(mixing_module.sequence(graphs))
