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

from glmesh import hosting
from glmesh import topology as topology_module
from glmesh.block import Block, Facts, Halo, Rounds, Rows
from glmesh.certificate import Certificate, Certifier
from glmesh.elastic import Crew, Elastic
from glmesh.errors import InvalidInput
from glmesh.events import Event
from glmesh.exchange import FaultyExchange, LocalExchange, Network
from glmesh.faults import Plan
from glmesh.gather import flood_max
from glmesh.holder import Form
from glmesh.kernels.warm import warm_up
from glmesh.measures import Measures, observe
from glmesh.methods import Cola, Consensus
from glmesh.methods.cola import start_of
from glmesh.methods.sums import suits
from glmesh.mixing import Mixing
from glmesh.partition import partition as make_partition
from glmesh.problem import Problem
from glmesh.result import Result
from glmesh.samples import Pool, observe_copies
from glmesh.team import Team
from glmesh.types import AnyArray, Flags, Indices, Matrix, Vector
from glmesh.wiring import DEFAULT_NODES, Gaps, check_plan, diameter_of, network_of, schedule_of, whole
from glmesh.witness import Witness

_WORTH_A_THREAD = 200_000  # numbers touched in a round, below which a second thread costs more than it brings


class Simulation:
    """All nodes of a network in one process, round by round; `glmesh.run.Run` says what its arguments are."""

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
    ) -> None:
        self.problem = problem
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
        self.n_blocks = min(whole(n_blocks, "n_blocks", 1), self.n_nodes)
        self.team = Team(self._n_jobs(n_jobs))
        self._begin()
        ids = [part for part in np.array_split(np.arange(self.n_nodes), self.n_blocks) if len(part)]
        if self.consensual:
            hosting.refuse(self.method, problem, plan, certify=certify)
            warm_up()
            self._host_copies(ids, diameter, partition, warm_start)
            return
        self.partition = make_partition(problem, self.n_nodes, partition, self.seed)
        self._metropolis = isinstance(mixing, str) and (mixing == "metropolis" or self.method.averages_exactly)
        self._links = sorted(topology_module.links_of(self.mixing.matrix))
        self.mixing, schedule = schedule_of(plan, self.mixing, mixing)
        if plan.loses_messages:
            diameter = diameter_of(self.mixing, plan)
        uses_ledger = check_plan(plan, self.method, network, certify)
        if problem.model.split == "samples" and problem.model.fit_intercept and (certify or not plan.is_empty):
            raise InvalidInput(
                "split by samples a free intercept goes with a network that stands still and without certificates. "
                "Use split='features', or penalise the intercept: fit_intercept=False and a column of ones in X"
            )
        self.uses_ledger = uses_ledger
        warm_up()  # so that no round is timed with a compilation in it
        if plan.is_empty and not uses_ledger:
            self.exchange: LocalExchange = LocalExchange(self.mixing, ids, network)
        else:
            self.exchange = FaultyExchange(self.mixing, ids, network, plan, schedule)
        self._facts = self._make_facts(diameter, schedule, certify=certify and not uses_ledger)
        self._agreed = self._agree(ids, diameter)
        forms = self._forms()
        blocks = [self._block(b, part, forms) for b, part in enumerate(ids)]
        xs = self._warm_start(warm_start, blocks)
        members = plan.members(0, self.n_nodes).astype(np.int64) if uses_ledger else None
        acceleration, reason = self.method.choose(reliable=uses_ledger or not plan.loses_messages)
        if acceleration == "sums" and uses_ledger and certify:
            acceleration, reason = "momentum", "certificates under faults are not made with exact sums"
        common = {
            "cold": warm_start is None and not any(start_of(block).any() for block in blocks),
            "planes": all(suits(block) for block in blocks),
        }
        states = [
            self.method.init(block, x, members, acceleration, reason, **common)
            for block, x in zip(blocks, xs, strict=True)
        ]
        by_samples = problem.model.split == "samples"
        self.certifiers: list[Certifier] = []
        witnesses: list[Witness] = []
        if certify and uses_ledger:
            gaps = Gaps(self.mixing, plan)
            fast = acceleration == "momentum"
            witnesses = [
                Witness(block, by_samples=by_samples, gap_of=gaps, tol=tol, extrapolates=fast) for block in blocks
            ]
        elif certify:
            self.certifiers = [Certifier(block, by_samples=by_samples, tol=tol) for block in blocks]
        self.crew = Crew(self.method, blocks, states, witnesses)
        self.elastic: Elastic | None = None
        if isinstance(self.exchange, FaultyExchange):
            self.elastic = Elastic(plan, self.crew, self.exchange, self.events)
        if uses_ledger:
            for node in np.flatnonzero(~plan.members(0, self.n_nodes)):
                self.crew.clear(int(node))
                self.crew.disturbed(int(node), 0, forget=True)
            self._drive([self.crew.ledger(number).greet(block) for number, block in enumerate(blocks)])

    def _begin(self) -> None:
        self.rounds = 0
        self.history: list[dict[str, Any]] = []  # what `solve` noted along the way
        self.anchors: list[tuple[float, float]] = []  # of a free intercept: where it was held, and went
        self.events: list[Event] = []  # who joined and left, and whose data changed
        self._elapsed = 0.0
        self._measured: tuple[int, Measures] | None = None
        self._whole: tuple[bytes, Block] | None = None
        self._proof: tuple[Certificate, Vector, Matrix] | None = None  # and the state that it is about
        self._identity: dict[str, str] | None = None  # until the data changes

    def _host_copies(self, ids: list[Indices], diameter: int, how: Any, warm_start: Any) -> None:
        """Nodes that hold samples: what a method of consensus needs, and nothing of what only CoLA has."""
        pool = Pool.of(self.problem)
        self.partition = pool.deal(self.n_nodes, how, self.seed)
        self.exchange = LocalExchange(self.mixing, ids, self.network)
        self._facts = self._make_facts(diameter, (self.mixing,), certify=False)
        self.certifiers, self.elastic = [], None
        blocks: Any = [pool.hosted(part, self.partition, self._facts, self.team) for part in ids]
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
                    n_jobs=self.team.n_jobs,
                )

            self.method = hosting.best_of(self.method, constants, self._facts, start)
        w = hosting.coefficients(warm_start, pool.columns.d)
        self.crew = Crew(self.method, blocks, [self.method.init(block, w) for block in blocks], [])

    def _make_facts(self, diameter: int, schedule: tuple[Mixing, ...], *, certify: bool) -> Facts:
        clock = self.exchange.clock
        return Facts.of(
            self.mixing,
            diameter,
            self.seed,
            schedule=schedule,
            certify=certify,
            spectrum=self.method.needs_spectrum,
            speeds=None if clock is None else np.array(clock.speeds),
        )

    @property
    def blocks(self) -> list[Block]:
        """The nodes, side by side in one block, or in several (`n_blocks`)."""
        return self.crew.blocks

    @property
    def states(self) -> list[Any]:
        """The state of each block."""
        return self.crew.states

    def _n_jobs(self, n_jobs: int | None) -> int:
        if n_jobs is not None:
            return min(whole(n_jobs, "n_jobs", 1), self.n_nodes)
        parts = self.problem.parts
        d = parts[0].columns.d
        work = sum(part.columns.nnz for part in parts) + (self.mixing.edges + self.n_nodes) * d
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        return min(cores, self.n_nodes) if work > _WORTH_A_THREAD else 1

    def _agree(self, ids: list[Indices], diameter: int) -> Matrix | None:
        """What nodes whose data is apart must know of each other, found out by neighbour messages; a row per node."""
        if self.problem.pooled:
            return None
        facts = np.stack([part.facts() for part in self.problem.parts])
        return np.concatenate(self._drive([flood_max(facts[part], diameter) for part in ids]))

    def _forms(self) -> list[Form]:
        """Each node's form. Pooled data is dealt out; data that is apart is settled by what was agreed on."""
        if self._agreed is None:
            form, parts = self.problem.form, self.partition
            return [
                Form(form.columns.take(parts.columns_of(k)), form.f, form.g.take(parts.columns_of(k)))
                for k in range(self.n_nodes)
            ]
        forms = []
        for k, part in enumerate(self.problem.parts):
            form = part.settle(self._agreed[k], k)
            own = self.partition.columns_of(k)
            order = own - own.min(initial=self.problem.n)
            if not np.array_equal(order, np.arange(len(order))):
                form = Form(form.columns.take(order), form.f, form.g.take(order))
            forms.append(form)
        return forms

    def _block(self, number: int, ids: Indices, forms: list[Form]) -> Block:
        own = [forms[k] for k in ids]
        return Block.of(ids, self._facts, own, lambda: self.exchange.allocate(number, own[0].columns.d), self.team)

    def _warm_start(self, start: AnyArray, blocks: list[Block]) -> list[Vector | None]:
        if start is None:
            return [None] * len(blocks)
        try:
            x = np.asarray(start.x if isinstance(start, Result) else start, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("warm_start is a Result, or variables in your order (Result.x)") from None
        if x.shape != (self.problem.n,) or not np.isfinite(x).all():
            raise InvalidInput(f"warm_start needs {self.problem.n} finite variables (Result.x), got shape {x.shape}")
        if not np.isfinite(self.problem.form.g.value(x)):
            raise InvalidInput("warm_start is outside the bounds of this problem")
        return self._by_block(x, blocks)

    def _by_block(self, x: Vector, blocks: list[Block]) -> list[Any]:
        """Variables from the user's order to that of the blocks."""
        return np.split(x[self.partition.order], np.cumsum([block.columns.n for block in blocks])[:-1])

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
            send = list(self.exchange.swap([Rows() if done else rows for done, rows in steps]))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> int:
        """Does one round and returns the number of rounds done."""
        began = time.perf_counter()
        if self.elastic is not None:
            self.elastic.begin(self.rounds)
        rounds: list[Rounds] = [self.method.round(b, s) for b, s in zip(self.blocks, self.states, strict=True)]
        if self.certifiers:
            rounds = [self._certified(number, r) for number, r in enumerate(rounds)]
        if self.crew.witnesses:
            rounds = [self._witnessed(number, r) for number, r in enumerate(rounds)]
        # too large a step of one's own is told by the measures, not by a warning in every round
        with np.errstate(over="ignore", invalid="ignore") if self.consensual else nullcontext():
            self._drive(rounds)
        if self.exchange.clock is not None:
            self.exchange.clock.compute(np.concatenate([state.visited for state in self.states]))
            if self.elastic is not None:
                self.exchange.clock.wait(self.elastic.plan.delays(self.rounds, self.n_nodes) * self.up)
        self.rounds += 1
        self._elapsed += time.perf_counter() - began
        if self.crew.witnesses:
            self._note_certificate()
        return self.rounds

    def _certified(self, number: int, rounds: Rounds) -> Rounds:
        """A round whose exchanges carry certificate records along: the first, or each where a sum takes several."""
        certifier, state = self.certifiers[number], self.states[number]
        sums, halo, first = state.sums, None, True
        while True:
            try:
                rows = next(rounds) if halo is None else rounds.send(halo)
            except StopIteration:
                return
            if not first and sums is None:
                halo = yield rows
                continue
            width = 0 if rows.scalars is None else rows.scalars.shape[1]
            records = certifier.outgoing()
            if records is not None:
                rows.scalars = records if rows.scalars is None else np.hstack([rows.scalars, records])
            halo = yield rows
            q = self.method.scale(self.blocks[number], state)
            theirs = halo.of_scalars(slice(width, None))
            begin = rows.vectors is not None or (sums is not None and sums.v is not None)
            v = state.v if rows.vectors is None else rows.vectors
            certifier.incoming(theirs, state.x, v, state.round, q, state.rest, begin=begin)
            halo, first = halo.of_scalars(slice(width)), False

    def _witnessed(self, number: int, rounds: Rounds) -> Rounds:
        block, state = self.blocks[number], self.states[number]
        return self.crew.witnesses[number].attend(rounds, state, lambda: self.method.scale(block, state))

    @property
    def x(self) -> Vector:
        """The variables, in the user's order (a copy); with a method of consensus, the mean of all copies."""
        if self.consensual:
            return np.asarray(self.estimates.mean(axis=0))
        return np.asarray(self.partition.to_user(np.concatenate([state.x for state in self.states])))

    @property
    def estimates(self) -> Matrix:
        """Every node's v_k, or its copy of the coefficients, a row each (a copy)."""
        return np.concatenate([state.v for state in self.states])

    @property
    def story(self) -> list[tuple[int, str, str]]:
        """(round, acceleration from then on, why), as `Cola(acceleration=...)` chose."""
        return [] if self.consensual else list(self.states[0].story)

    @property
    def theta(self) -> Vector:
        """The local accuracy Theta_k reached in the last round (NaN where none was asked for)."""
        if self.consensual:
            return np.full(self.n_nodes, np.nan)
        return np.concatenate([state.theta for state in self.states])

    @property
    def communications(self) -> int:
        """Exchanges that a node waited for."""
        return self.exchange.traffic.communications

    @property
    def bytes(self) -> int:
        """Bytes sent over all directed edges."""
        return self.exchange.traffic.bytes

    @property
    def seconds(self) -> float:
        """Time of the rounds so far: on the virtual clock if there is a network, else on the wall."""
        return self.exchange.clock.seconds if self.exchange.clock is not None else self._elapsed

    @property
    def faults(self) -> Plan:
        """What fails and when."""
        return Plan() if self.elastic is None else self.elastic.plan

    @property
    def members(self) -> Flags:
        """Who took part in the last round (or will in the first)."""
        return self.faults.members(max(self.rounds - 1, 0), self.n_nodes)

    @property
    def up(self) -> Flags:
        """Who was there in the last round."""
        return np.concatenate([state.up for state in self.states])

    @property
    def skipped(self) -> int:
        """Subproblems not solved because their node was done."""
        return 0 if self.consensual else sum(state.rest.skipped for state in self.states)

    @property
    def spared(self) -> float:
        """Nonzeros that those would have visited."""
        return 0.0 if self.consensual else float(sum(state.rest.spared for state in self.states))

    def measure(self) -> Measures:
        """O_A, H, gap and consensus of the present state: a bird's eye view, not part of the algorithm.

        The objective is that of all members, those included that are away; what nodes that left for good add to Ax
        stays as a constant, if it stays at all.
        """
        if self.consensual and (self._measured is None or self._measured[0] != self.rounds):
            self._measured = self.rounds, observe_copies(self.problem, self.estimates)
        elif self._measured is None or self._measured[0] != self.rounds:
            xs, vs = [s.x for s in self.states], [s.v for s in self.states]
            self._measured = self.rounds, self._observe(xs, vs)
        return self._measured[1]

    def _observe(self, xs: list[Vector], vs: list[Matrix]) -> Measures:
        by_samples = self.problem.model.split == "samples"
        members = self.members
        if self.elastic is None:
            return observe(self.blocks, xs, vs, by_samples=by_samples)
        # whatever K some nodes still believe in
        scales = [members.sum() / np.maximum(state.gossip.believed, 1.0) for state in self.states]
        rows = np.concatenate([v * scale[:, None] for v, scale in zip(vs, scales, strict=True)])[members]
        constant = self.elastic.constant
        if members.all():
            return observe(self.blocks, xs, [rows], by_samples=by_samples, constant=constant, conserved=False)
        block = self._members_block(members)
        x = np.concatenate([x[b.of_node(k)] for b, x in zip(self.blocks, xs, strict=True) for k in range(b.size)
                            if members[int(b.ids[k])]])  # fmt: skip
        return observe([block], [x], [rows], by_samples=by_samples, constant=constant, conserved=False)

    def objective_at(self, x: Vector, estimates: Matrix) -> float:
        """The user-level objective of other variables and estimates than the present ones."""
        ends = np.cumsum([block.size for block in self.blocks])[:-1]
        return self._observe(self._by_block(x, self.blocks), np.split(estimates, ends)).objective

    def _members_block(self, members: Flags) -> Block:
        """All members in one block; kept until somebody joins or leaves."""
        key = members.tobytes()
        if self._whole is None or self._whole[0] != key:
            ids = np.flatnonzero(members)
            forms = [
                Form(block.node_columns(k), block.f, block.terms[k])
                for block in self.blocks
                for k in range(block.size)
                if members[int(block.ids[k])]
            ]
            self._whole = key, Block.of(ids, self._facts, forms, lambda: np.zeros((len(ids), forms[0].columns.d)))
        return self._whole[1]

    @property
    def certificate(self) -> Certificate | None:
        """The newest certificate that every node knows, about the present members and data."""
        if self.certifiers:
            return self.certifiers[0].latest
        return None if self._proof is None else self._proof[0]

    def _note_certificate(self) -> None:
        """Keeps what all members have concluded about one round, and their state of that round."""
        if self._proof is not None and not np.array_equal(np.flatnonzero(self.members), self._proof[0].members):
            self._proof = None
        memos = [memo for witness in self.crew.witnesses for memo in witness.last]
        accounts = [account for number in range(len(self.blocks)) for account in self.crew.ledger(number).accounts]
        found = [(memos[k], accounts[k]) for k in np.flatnonzero(self.members)]
        if any(memo is None or memo.digest != account.digest for memo, account in found):
            return
        rounds = {memo.round for memo, _ in found if memo is not None}
        certificate = found[0][0].certificate if found[0][0] is not None else None
        if len(rounds) > 1 or certificate is None or (self._proof and self._proof[0] == certificate):
            return
        x, v = [state.x.copy() for state in self.states], [state.v.copy() for state in self.states]
        for number, (block, witness) in enumerate(zip(self.blocks, self.crew.witnesses, strict=True)):
            for k, memo in enumerate(witness.last):
                if memo is not None and self.members[int(block.ids[k])]:
                    x[number][block.of_node(k)] = memo.x
                    v[number][k] = len(certificate.members) * memo.s
        self._proof = certificate, np.asarray(self.partition.to_user(np.concatenate(x))), np.concatenate(v)

    def certified_state(self) -> tuple[Vector, Matrix]:
        """(x in the user's order, every v_k) that the newest certificate is about."""
        if self.certificate is None:
            raise InvalidInput("there is no certificate yet")
        if self._proof is not None:
            return self._proof[1], self._proof[2]
        x = np.concatenate([certifier.x for certifier in self.certifiers if certifier.x is not None])
        v = np.concatenate([certifier.v for certifier in self.certifiers if certifier.v is not None])
        return np.asarray(self.partition.to_user(x)), v

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the run's threads."""
        self.team.close()


def _step(generator: Any, halo: Halo | None) -> tuple[bool, Any]:
    try:
        return False, generator.send(halo)
    except StopIteration as end:
        return True, end.value
