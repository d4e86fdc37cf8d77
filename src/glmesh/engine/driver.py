"""Rounds of a method over a simulated network."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import nullcontext
from os import PathLike
from typing import Any, Self, cast

import networkx as nx
import numpy as np

from glmesh.certificate.bound import Certifier
from glmesh.certificate.spectral import SpectralGaps
from glmesh.certificate.unreliable import AsyncCertifier
from glmesh.collectives.flood import flood_max
from glmesh.core.block import Block, NetworkInfo
from glmesh.core.messages import Halo, Outbox, Rounds
from glmesh.engine.events import Event
from glmesh.engine.membership import Elastic, HostedNodes
from glmesh.engine.observe import Overview
from glmesh.engine.result import Result
from glmesh.engine.setup import DEFAULT_NODES, check_plan, diameter_of, network_of, schedule_of, whole
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import Anchored
from glmesh.kernels.warm import warm_up
from glmesh.methods import Cola, Consensus
from glmesh.methods.cola import exact_sums as sums
from glmesh.methods.cola import newton
from glmesh.methods.cola.round import start_of
from glmesh.methods.consensus import step_search as hosting
from glmesh.methods.consensus.samples import Pool
from glmesh.network import topology as topology_module
from glmesh.network.faults import Plan
from glmesh.network.mixing import Mixing
from glmesh.parallel.processes import SINGLE_PROCESS, ProcessGroup
from glmesh.parallel.threads import ThreadPool
from glmesh.problem.partition import Partition
from glmesh.problem.partition import partition as make_partition
from glmesh.problem.problem import Problem
from glmesh.problem.shard import Shard
from glmesh.transports import FaultyExchange, LocalExchange, Network
from glmesh.types import AnyArray, Indices, Vector

_WORTH_A_THREAD = 200_000  # numbers touched in a round, below which a second thread costs more than it brings


class Simulation(Overview):
    """The nodes that this process hosts, in a simulation all, round by round; `glmesh.run.Run` says what is what."""

    def __init__(
        self,
        problem: Problem,
        *,
        method: Cola | Consensus | None = None,
        topology: Any = "ring",
        n_nodes: int = DEFAULT_NODES,
        mixing: Any = "metropolis",
        partition: str | AnyArray = "shuffled",
        seed: int = 0,
        warm_start: AnyArray = None,
        network: Network | None = None,
        certify: bool = False,
        tol: float | None = None,
        faults: Plan | Mapping[str, Any] | str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        n_blocks: int = 1,
        processes: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.problem, self.processes = problem, processes
        chosen = Cola() if method is None else method
        if not isinstance(chosen, Cola | Consensus):
            raise InvalidInput(f"method must be a method such as Cola() or Nids(), got {method!r}")
        self.method: Any = cast(Any, chosen)  # what only one kind of method has is asked of that kind only
        self.consensual = isinstance(chosen, Consensus)  # nodes hold samples, and copies of all coefficients
        if network is not None and not isinstance(network, Network):
            raise InvalidInput(f"network must be a Network(...), got {network!r}")
        self.seed = whole(seed, "seed", 0, 2**63)
        self.network, self.certify, self.tol = network, certify, tol
        self.mixing, diameter = network_of(problem, self.method, topology, n_nodes, mixing, self.seed)
        self.n_nodes = self.mixing.n_nodes
        plan = Plan.of(faults)
        processes.refuse(method=self.method, network=network, plan=plan)
        self.n_blocks = min(whole(n_blocks, "n_blocks", 1), self.n_nodes)
        self.threads = ThreadPool(self._n_jobs(n_jobs))
        self._begin()
        ids = processes.local_blocks(self.n_nodes, self.n_blocks)
        if self.consensual:
            hosting.refuse(self.method, problem, plan, certify=certify)
            warm_up()
            self._host_copies(ids, diameter, partition, warm_start)
            return
        self.partition = self._dealt(partition)
        self._metropolis = isinstance(mixing, str) and (mixing == "metropolis" or self.method.averages_exactly)
        self._links = sorted(topology_module.links_of(self.mixing.matrix))
        self.mixing, schedule = schedule_of(plan, self.mixing, mixing)
        if plan.loses_messages:
            diameter = diameter_of(self.mixing, plan)
        uses_flows = check_plan(plan, self.method, network, certify)
        if problem.model.split == "samples" and problem.model.fit_intercept and (certify or not plan.is_empty):
            raise InvalidInput(
                "split by samples a free intercept goes with a network that stands still and without certificates. "
                "Use split='features', or penalise the intercept: fit_intercept=False and a column of ones in X"
            )
        self.uses_flows = uses_flows
        warm_up()  # so that no round is timed with a compilation in it
        if plan.is_empty and not uses_flows:
            self.exchange = processes.exchange(self.mixing, ids) or LocalExchange(self.mixing, ids, network)
        else:
            self.exchange = FaultyExchange(self.mixing, ids, network, plan, schedule)
        self._info = self._make_info(diameter, schedule, certify=certify and not uses_flows)
        self._agreed = self._agree(ids, diameter)
        blocks = [self._block(b, part) for b, part in enumerate(ids)]
        self.hosted = HostedNodes(self.method, blocks, [], [])
        xs = self._warm_start(warm_start)
        members = plan.members(0, self.n_nodes).astype(np.int64) if uses_flows else None
        acceleration, reason = self.method.choose(reliable=uses_flows or not plan.loses_messages)
        if acceleration in ("sums", "newton") and uses_flows and certify:
            acceleration, reason = "momentum", "certificates under faults are not made with exact sums"
        common = {
            "cold": warm_start is None and not processes.any(any(start_of(block).any() for block in blocks)),
            "exact": self._exact(),
        }
        self.hosted.states = [
            self.method.init(block, x, members, acceleration, reason, **common)
            for block, x in zip(blocks, xs, strict=True)
        ]
        by_samples = problem.model.split == "samples"
        self.certifiers = []
        if certify and uses_flows:
            gaps = SpectralGaps(self.mixing, plan)
            fast = acceleration == "momentum"
            self.hosted.async_certifiers = [
                AsyncCertifier(block, by_samples=by_samples, gap_of=gaps, tol=tol, extrapolates=fast)
                for block in blocks
            ]
        elif certify:
            self.certifiers = [Certifier(block, by_samples=by_samples, tol=tol) for block in blocks]
        self.elastic = None
        if isinstance(self.exchange, FaultyExchange):
            self.elastic = Elastic(plan, self.hosted, self.exchange, self.events)
        if uses_flows:
            for node in np.flatnonzero(~plan.members(0, self.n_nodes)):
                self.hosted.clear(int(node))
                self.hosted.disturbed(int(node), 0, forget=True)
            self._drive([self.hosted.gossip(number).greet(block) for number, block in enumerate(blocks)])

    def _begin(self) -> None:
        self.rounds = 0
        self.history: list[dict[str, Any]] = []  # what `solve` noted along the way
        self.anchors: list[tuple[float, float]] = []  # of a free intercept: where it was held, and went
        self.events: list[Event] = []  # who joined and left, and whose data changed
        self._elapsed = 0.0
        self._measured = self._whole = None
        self._proof = None  # a certificate, and the state that it is about
        self._identity: dict[str, str] | None = None  # until the data changes

    def _host_copies(self, ids: list[Indices], diameter: int, how: Any, warm_start: Any) -> None:
        """Nodes that hold samples: what a method of consensus needs, and nothing of what only CoLA has."""
        pool = Pool.of(self.problem)
        self.partition = pool.deal(self.n_nodes, how, self.seed)
        self.exchange = LocalExchange(self.mixing, ids, self.network)
        self._info = self._make_info(diameter, (self.mixing,), certify=False)
        self.certifiers, self.elastic = [], None
        blocks: Any = [pool.host(part, self.partition, self._info, self.threads) for part in ids]
        constants = hosting.settle_constants(self.method, blocks)
        if self.method.step == "auto":
            graph = nx.empty_graph(self.n_nodes)
            graph.add_edges_from(sorted(topology_module.links_of(self.mixing.matrix)))

            def start(candidate: Consensus) -> Simulation:
                return Simulation(
                    self.problem,
                    method=candidate,
                    topology=graph,
                    n_nodes=self.n_nodes,
                    mixing=self.mixing,
                    partition=how,
                    seed=self.seed,
                    warm_start=warm_start,
                    n_jobs=self.threads.n_jobs,
                )

            self.method = hosting.best_of(self.method, constants, self._info, start)
        w = hosting.coefficients(warm_start, pool.columns.d)
        self.hosted = HostedNodes(self.method, blocks, [self.method.init(block, w) for block in blocks], [])

    def _make_info(self, diameter: int, schedule: tuple[Mixing, ...], *, certify: bool) -> NetworkInfo:
        clock = self.exchange.clock
        return NetworkInfo.of(
            self.mixing,
            diameter,
            self.seed,
            schedule=schedule,
            certify=certify,
            spectrum=self.method.needs_spectrum,
            speeds=None if clock is None else np.array(clock.speeds),
        )

    def _n_jobs(self, n_jobs: int | None) -> int:
        if n_jobs is not None:
            return min(whole(n_jobs, "n_jobs", 1), self.n_nodes)
        if self.processes.size > 1:  # the ranks share the cores out among themselves
            return 1
        parts = self.problem.parts
        d = parts[0].columns.d
        work = sum(part.columns.nnz for part in parts) + (self.mixing.edges + self.n_nodes) * d
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        return min(cores, self.n_nodes) if work > _WORTH_A_THREAD else 1

    def _dealt(self, how: str | AnyArray) -> Partition:
        """Who holds which columns."""
        if isinstance(self.problem, Shard):
            return self.problem.dealt
        return make_partition(self.problem, self.n_nodes, how, self.seed)

    def _agree(self, ids: list[Indices], diameter: int) -> Vector | None:
        """What nodes whose data is apart must know of each other, by neighbour messages; all come to know the same."""
        if self.problem.pooled:
            return None
        info = [np.stack([self.problem.parts[k].facts() for k in part]) for part in ids]
        return np.asarray(self._drive([flood_max(part, diameter) for part in info])[0][0])

    def _block(self, number: int, ids: Indices) -> Block:
        forms = [self.problem.node_form(int(k), self.partition.columns_of(k), self._agreed) for k in ids]
        return Block.of(
            ids, self._info, forms, lambda: self.exchange.allocate(number, forms[0].columns.d), self.threads
        )

    def _exact(self) -> str:
        """Which exact sums suit all nodes, if any."""
        for name, method in (("newton", newton), ("sums", sums)):
            if not self.processes.any(not all(method.suits(block) for block in self.blocks)):
                return name
            if self.method.acceleration == "newton":
                raise UnsuitablePair(
                    "acceleration='newton' needs nodes that hold samples, a smooth loss, a penalty that is a square "
                    f"and at most {newton.MOST_COEFFICIENTS} coefficients; acceleration='auto' finds what suits"
                )
        return ""

    def _warm_start(self, start: AnyArray) -> list[Any]:
        if start is None:
            return [None] * len(self.blocks)
        try:
            x = np.asarray(start.x if isinstance(start, Result) else start, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("warm_start is a Result, or variables in your order (Result.x)") from None
        if x.shape != (self.problem.n,) or not np.isfinite(x).all():
            raise InvalidInput(f"warm_start needs {self.problem.n} finite variables (Result.x), got shape {x.shape}")
        xs = self._by_block(x)
        if not np.isfinite([block.g.value(part) for block, part in zip(self.blocks, xs, strict=True)]).all():
            raise InvalidInput("warm_start is outside the bounds of this problem")
        return xs

    def _drive(self, generators: list[Any]) -> list[Any]:
        """Steps one generator per block in lock-step, exchanging what they yield; returns what they return."""
        send: list[Halo | None] = [None] * len(generators)
        returned: dict[int, Any] = {}
        while True:
            steps = [_step(generator, halo) for generator, halo in zip(generators, send, strict=True)]
            for number, (done, value) in enumerate(steps):
                if done and number not in returned:
                    returned[number] = value
            if len(returned) == len(generators):
                return [returned[number] for number in range(len(generators))]
            # a block that is done waits for the others: only where a sum failed do some need longer
            send = list(self.exchange.swap([Outbox() if done else rows for done, rows in steps]))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> int:
        """Does one round and returns the number of rounds done."""
        began = time.perf_counter()
        if self.elastic is not None:
            self.elastic.begin(self.rounds)
        rounds: list[Rounds] = [self.method.round(b, s) for b, s in zip(self.blocks, self.states, strict=True)]
        if self.certifiers:
            rounds = [self._attended(certifier, n, rounds[n]) for n, certifier in enumerate(self.certifiers)]
        if self.hosted.async_certifiers:
            rounds = [self._attended(one, n, rounds[n]) for n, one in enumerate(self.hosted.async_certifiers)]
        # too large a step of one's own is told by the measures, not by a warning in every round
        with np.errstate(over="ignore", invalid="ignore") if self.consensual else nullcontext():
            self._drive(rounds)
        if self.exchange.clock is not None:
            self.exchange.clock.compute(np.concatenate([state.visited for state in self.states]))
            if self.elastic is not None:
                self.exchange.clock.wait(self.elastic.plan.delays(self.rounds, self.n_nodes) * self.up)
        self.rounds += 1
        self._follow_intercept()
        self._elapsed += time.perf_counter() - began
        if self.hosted.async_certifiers:
            self._note_certificate()
        return self.rounds

    def _follow_intercept(self) -> None:
        """Newton's method solves for a free intercept, and everybody knows it: the anchor is where it is."""
        exact = None if self.consensual else self.states[0].sums
        if not isinstance(exact, newton.Newton) or exact.center is None:
            return
        if not isinstance(f := self.blocks[0].f, Anchored) or f.anchor == f.split(exact.center)[1]:
            return
        self.problem = self.problem.anchored(f.split(exact.center)[1])
        for number, block in enumerate(self.blocks):
            own = self.partition.columns_of(int(block.ids[0]))
            held, _ = self.problem.node_functions(int(block.ids[0]), own, self._agreed)
            self.hosted.blocks[number] = block.with_functions(held, block.terms)

    def _attended(self, certifier: Certifier | AsyncCertifier, number: int, rounds: Rounds) -> Rounds:
        """Return the round of a block with certificate records riding along."""
        block, state = self.blocks[number], self.states[number]
        return certifier.attend(rounds, state, lambda: self.method.scale(block, state))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the run's threads, and what its exchange holds."""
        self.threads.close()
        self.exchange.close()


def _step(generator: Any, halo: Halo | None) -> tuple[bool, Any]:
    try:
        return False, generator.send(halo)
    except StopIteration as end:
        return True, end.value
