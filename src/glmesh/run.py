"""A run: rounds of a method over a network, as an iterator."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from glmesh import checkpoint
from glmesh import topology as topology_module
from glmesh.block import Block, Facts, Halo, Rounds
from glmesh.certificate import Certificate, Certifier
from glmesh.elastic import Crew, Elastic
from glmesh.errors import InvalidInput
from glmesh.events import Event
from glmesh.exchange import FaultyExchange, LocalExchange, Network
from glmesh.faults import Plan
from glmesh.gather import flood_max
from glmesh.gossip.ledger import Ledger
from glmesh.kernels.warm import warm_up
from glmesh.measures import Measures, observe
from glmesh.methods import Cola
from glmesh.mixing import Mixing
from glmesh.partition import Partition
from glmesh.partition import partition as make_partition
from glmesh.problem import Form, Problem
from glmesh.result import Result
from glmesh.types import AnyArray, Flags, Indices, Matrix, Vector
from glmesh.wiring import DEFAULT_NODES, Gaps, check_plan, network_of, schedule_of, whole
from glmesh.witness import Witness

_WORTH_A_THREAD = 200_000  # numbers touched in a round, below which a second thread costs more than it brings


class Run:
    """A run in progress: `next(run)` (or a for loop) does a round; all state is plain arrays.

    problem: what to solve. method: `Cola(...)`. topology: a name or a networkx graph. n_nodes: K, for a named topology.
    mixing: the weights; Metropolis unless a matrix of your own. partition: "shuffled", "contiguous", "balanced" or
    your own. seed: of the partition, random graphs and local shuffles. warm_start: variables in the user's order, or a
    Result. network: a virtual clock. certify: let the nodes exchange certificate records. tol: the relative gap aimed
    at, so that nodes whose part is done may rest. faults: what fails and when (`glmesh.faults`), as a dict or a TOML
    file. n_jobs: threads (None: as many as cores if the problem is worth it); the result is the same bits for any.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        method: Cola | None = None,
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
    ) -> None:
        self.problem = problem
        self.method = Cola() if method is None else method
        if not isinstance(self.method, Cola):
            raise InvalidInput(f"method must be a method such as Cola(), got {method!r}")
        if network is not None and not isinstance(network, Network):
            raise InvalidInput(f"network must be a Network(...), got {network!r}")
        self.seed = whole(seed, "seed", 0, 2**63)
        self.network, self.certify, self.tol = network, certify, tol
        self.mixing, diameter = network_of(problem, self.method, topology, n_nodes, mixing, self.seed)
        self.n_nodes = self.mixing.n_nodes
        self.partition = make_partition(problem, self.n_nodes, partition, self.seed)
        self._metropolis = isinstance(mixing, str)
        plan = Plan.of(faults)
        schedule = schedule_of(plan, self.mixing, mixing)
        uses_ledger = check_plan(plan, self.method, network, certify)
        self.rounds = 0
        self.history: list[dict[str, Any]] = []  # what `solve` noted along the way
        self.events: list[Event] = []  # who joined and left, and whose data changed
        self._elapsed = 0.0
        self._measured: tuple[int, Measures] | None = None
        self._whole: tuple[bytes, Block] | None = None
        self._certificate: Certificate | None = None
        self._identity: dict[str, str] | None = None  # until the data changes
        warm_up()  # so that no round is timed with a compilation in it
        self.n_blocks = self._n_blocks(n_jobs)
        ids = [part for part in np.array_split(np.arange(self.n_nodes), self.n_blocks) if len(part)]
        if plan.is_empty and not uses_ledger:
            self.exchange: LocalExchange = LocalExchange(self.mixing, ids, network)
        else:
            self.exchange = FaultyExchange(self.mixing, ids, network, plan, schedule)
        self._pool = ThreadPoolExecutor(len(ids)) if len(ids) > 1 else None
        self._facts = self._make_facts(diameter, schedule, certify=certify and not uses_ledger)
        self._agreed = self._agree(ids, diameter)
        forms = self._forms()
        blocks = [self._block(b, part, forms) for b, part in enumerate(ids)]
        xs = self._warm_start(warm_start, blocks)
        members = plan.members(0, self.n_nodes).astype(np.int64) if uses_ledger else None
        states = [self.method.init(block, x, members) for block, x in zip(blocks, xs, strict=True)]
        by_samples = problem.model.split == "samples"
        self.certifiers: list[Certifier] = []
        witnesses: list[Witness] = []
        if certify and uses_ledger:
            gaps = Gaps(self.mixing)
            witnesses = [Witness(block, by_samples=by_samples, gap_of=gaps, tol=tol) for block in blocks]
        elif certify:
            self.certifiers = [Certifier(block, by_samples=by_samples, tol=tol) for block in blocks]
        self.crew = Crew(self.method, blocks, states, witnesses)
        self.elastic: Elastic | None = None
        if isinstance(self.exchange, FaultyExchange):
            self.elastic = Elastic(plan, self.crew, self.exchange, self.events)
        if uses_ledger:
            self._drive([self.crew.ledger(number).greet(block) for number, block in enumerate(blocks)])

    def _make_facts(self, diameter: int, schedule: tuple[Mixing, ...], *, certify: bool) -> Facts:
        parents, depth = topology_module.spanning_tree(self.mixing.matrix)
        speeds = None
        if self.exchange.clock is not None:
            speeds = np.array(self.exchange.clock.speeds)
        return Facts(
            self.n_nodes,
            diameter,
            parents,
            depth,
            self.mixing.consensus_gap if certify else np.nan,
            self.seed,
            self.mixing,
            schedule,
            speeds,
        )

    @property
    def blocks(self) -> list[Block]:
        """The nodes, a block per thread."""
        return self.crew.blocks

    @property
    def states(self) -> list[Any]:
        """The state of each block."""
        return self.crew.states

    def _n_blocks(self, n_jobs: int | None) -> int:
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
        return Block.of(ids, self._facts, own, lambda: self.exchange.allocate(number, own[0].columns.d))

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
        while True:
            if self._pool is None:
                steps = [_step(generators[0], send[0])]
            else:
                steps = list(self._pool.map(_step, generators, send))
            if all(done for done, _ in steps):
                return [value for _, value in steps]
            send = list(self.exchange.swap([rows for _, rows in steps]))

    def __iter__(self) -> Run:
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
        self._drive(rounds)
        if self.exchange.clock is not None:
            self.exchange.clock.compute(np.concatenate([state.visited for state in self.states]))
            if self.elastic is not None:
                self.exchange.clock.wait(self.elastic.plan.delays(self.rounds, self.n_nodes) * self.up)
        self.rounds += 1
        self._elapsed += time.perf_counter() - began
        self._certificate = self._known_to_all() or self._certificate
        return self.rounds

    def _certified(self, number: int, rounds: Rounds) -> Rounds:
        """A round whose first exchange carries certificate records along."""
        certifier, state = self.certifiers[number], self.states[number]
        rows = next(rounds)
        rows.scalars = certifier.outgoing()
        halo = yield rows
        q = self.method.curvature(self.blocks[number], state)
        certifier.incoming(halo, state.x, rows.vectors, state.round, q, state.rest)  # type: ignore[arg-type]
        while True:
            try:
                rows = rounds.send(halo)
            except StopIteration:
                return
            halo = yield rows

    def _witnessed(self, number: int, rounds: Rounds) -> Rounds:
        block, state = self.blocks[number], self.states[number]
        return self.crew.witnesses[number].attend(rounds, state, lambda: self.method.curvature(block, state))

    @property
    def x(self) -> Vector:
        """The variables, in the user's order (a copy)."""
        return np.asarray(self.partition.to_user(np.concatenate([state.x for state in self.states])))

    @property
    def estimates(self) -> Matrix:
        """Every node's v_k, a row each (a copy)."""
        return np.concatenate([state.v for state in self.states])

    @property
    def theta(self) -> Vector:
        """The local accuracy Theta_k reached in the last round (NaN where none was asked for)."""
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
        return sum(state.rest.skipped for state in self.states)

    @property
    def spared(self) -> float:
        """Nonzeros that those would have visited."""
        return float(sum(state.rest.spared for state in self.states))

    def measure(self) -> Measures:
        """O_A, H, gap and consensus of the present state: a bird's eye view, not part of the algorithm.

        The objective is that of all members, those included that are away; what nodes that left for good add to Ax
        stays as a constant, if it stays at all.
        """
        if self._measured is None or self._measured[0] != self.rounds:
            xs, vs = [s.x for s in self.states], [s.v for s in self.states]
            self._measured = self.rounds, self._observe(xs, vs)
        return self._measured[1]

    def _observe(self, xs: list[Vector], vs: list[Matrix]) -> Measures:
        by_samples = self.problem.model.split == "samples"
        members = self.members
        if self.elastic is None or (members.all() and not isinstance(self.states[0].gossip, Ledger)):
            return observe(self.blocks, xs, vs, by_samples=by_samples)
        # whatever K some nodes still believe in
        scales = [members.sum() / np.maximum(state.gossip.believed, 1.0) for state in self.states]
        rows = np.concatenate([v * scale[:, None] for v, scale in zip(vs, scales, strict=True)])[members]
        constant = self.elastic.constant
        if members.all():
            return observe(self.blocks, xs, [rows], by_samples=by_samples, constant=constant)
        block = self._members_block(members)
        x = np.concatenate([x[b.of_node(k)] for b, x in zip(self.blocks, xs, strict=True) for k in range(b.size)
                            if members[int(b.ids[k])]])  # fmt: skip
        return observe([block], [x], [rows], by_samples=by_samples, constant=constant)

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
        """The newest certificate that every node knows."""
        return self.certifiers[0].latest if self.certifiers else self._certificate

    def _known_to_all(self) -> Certificate | None:
        """What all members have concluded about one round, if it is about those who take part now and their data."""
        if not self.crew.witnesses:
            return None
        members, found = self.members, []
        for witness, state in zip(self.crew.witnesses, self.states, strict=True):
            for k, memo in enumerate(witness.last):
                if members[int(witness.block.ids[k])]:
                    if memo is None or memo.digest != state.gossip.accounts[k].digest:
                        return None
                    found.append(memo)
        if len({memo.round for memo in found}) > 1 or found[0].certificate is None:
            return None
        return found[0].certificate if len(found[0].certificate.members) == members.sum() else None

    def certified_state(self) -> tuple[Vector, Matrix]:
        """(x in the user's order, every v_k) that the newest certificate is about."""
        if self.certificate is None:
            raise InvalidInput("there is no certificate yet")
        parts = [(c.x, c.v) for c in self.certifiers]
        if self.crew.witnesses:
            parts = [self._certified_block(number) for number in range(len(self.blocks))]
        x = np.concatenate([x for x, _ in parts if x is not None])
        return np.asarray(self.partition.to_user(x)), np.concatenate([v for _, v in parts if v is not None])

    def _certified_block(self, number: int) -> tuple[Vector, Matrix]:
        block, state, witness = self.blocks[number], self.states[number], self.crew.witnesses[number]
        x, v = state.x.copy(), state.v.copy()
        assert self._certificate is not None
        for k, memo in enumerate(witness.last):
            if memo is not None and memo.round == self._certificate.round:
                x[block.of_node(k)] = memo.x
                v[k] = len(self._certificate.members) * memo.s
        return x, v

    def add_columns(
        self, node: int, X: AnyArray, y: AnyArray = None, *, sample_weight: AnyArray = None, penalty: Any = None
    ) -> Indices:
        """A node gets new data in mid-run; what was learned of the rest is kept. Returns the new columns' numbers.

        Split by features X has a row per sample and the new features as columns; split by samples it has the new
        samples as rows, and y their labels. `penalty` is that of new features, if the problem's has an entry per
        column. On pooled data new columns are numbered after all others, on data that is apart after the node's own.
        """
        node = whole(node, "node", 0, self.n_nodes)
        self._check_not_left([node])
        part = 0 if self.problem.pooled else node
        problem = self.problem.grown(part, X, y, sample_weight, penalty)
        more = problem.n - self.problem.n
        at = self.problem.n if self.problem.pooled else int(self.partition.starts[node + 1])
        origin = np.insert(np.arange(self.problem.n), at, np.full(more, -1))
        new = np.arange(at, at + more)
        self._change(problem, origin, new, [node], "add_columns")
        return new

    def remove_columns(self, columns: AnyArray) -> None:
        """Columns (features, or samples) go, by their numbers; those that stay are numbered anew, in the same order."""
        gone = np.unique(np.asarray(columns))
        if gone.ndim != 1 or gone.dtype.kind not in "iu" or not len(gone):
            raise InvalidInput(f"columns must be whole numbers, at least one; got {columns!r}")
        if gone[0] < 0 or gone[-1] >= self.problem.n:
            raise InvalidInput(
                f"there is no column {gone[0] if gone[0] < 0 else gone[-1]}; they are 0 to {self.problem.n - 1}"
            )
        nodes = [k for k in range(self.n_nodes) if np.isin(self.partition.columns_of(k), gone).any()]
        self._check_not_left(nodes)
        kept = np.setdiff1d(np.arange(self.problem.n), gone)
        problem = self.problem
        if problem.pooled:
            problem = problem.shrunk(0, kept)
        else:
            for k in nodes:
                own = np.sort(self.partition.columns_of(k))
                problem = problem.shrunk(k, np.flatnonzero(~np.isin(own, gone)))
        self._change(problem, kept, np.zeros(0, np.int64), nodes, "remove_columns")

    def _check_not_left(self, nodes: list[int]) -> None:
        left = {entry.node: entry.round for entry in self.faults.leave if entry.round < max(self.rounds, 1)}
        for node in nodes:
            if node in left:
                raise InvalidInput(f"node {node} left in round {left[node]}: nobody can change its data any more")

    def _change(self, problem: Problem, origin: Indices, new: Indices, nodes: list[int], kind: str) -> None:
        """From now on this is the problem; its column i was column origin[i] (-1: there was none)."""
        crew, held = self.crew, self.members
        before = [(crew.gap(k), crew.share(k)) for k in nodes]
        place = np.full(self.problem.n, -1)
        place[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
        lists = [place[self.partition.columns_of(k)] for k in range(self.n_nodes)]
        lists = [part[part >= 0] for part in lists]
        x = np.append(self.x, 0.0)[origin]
        self.partition = Partition.of_lists(lists)
        if len(new):
            lists[nodes[0]] = np.append(lists[nodes[0]], new)
        self.partition = make_partition(problem, self.n_nodes, lists if problem.pooled else "shuffled", self.seed)
        self.problem = problem
        forms = self._forms()
        self.crew.blocks = [self._block(b, block.ids.astype(np.int64), forms) for b, block in enumerate(crew.blocks)]
        for number, (block, state) in enumerate(zip(self.blocks, self.states, strict=True)):
            table = block.table
            state.x = np.clip(self._by_block(x, self.blocks)[number], table[:, 3], table[:, 4])
            state.memory = self.method.solver.prepare(block)
            if crew.witnesses:
                crew.witnesses[number].block = block
        by_samples = problem.model.split == "samples"
        watch = [Certifier(block, by_samples=by_samples, tol=self.tol) for block in self.blocks]
        self.certifiers = watch if self.certifiers else []
        self._whole = self._measured = self._certificate = self._identity = None
        for node, (gap, share) in zip(nodes, before, strict=True):
            number, k = crew.find(node)
            gossip = self.states[number].gossip
            change = crew.share(node) - share
            if isinstance(gossip, Ledger):
                if held[node]:
                    gossip.announce_change(self.blocks[number], k)
            else:
                gossip.v[k] += self.n_nodes * change
            crew.disturbed(node, self.rounds)
            self.events.append(Event(self.rounds, kind, node, gap, crew.gap(node), float(np.linalg.norm(change))))

    def save(self, path: str | PathLike[str], *, data: bool = True) -> None:
        """Writes the run to a file, whole or not at all, from which `Run.resume` goes on to the last bit alike.

        Without `data` the file is small, and the problem must be brought along when the run is resumed.
        """
        mixing = self.mixing.matrix
        own = checkpoint.own_classes(self.method, self.method.solver)
        if own:
            raise InvalidInput(
                f"{own[0]} is a class of your own, which a file cannot hold; go without a checkpoint, or keep run.x "
                "and start from it again (warm_start=x)"
            )
        setup = {
            "method": self.method,
            "mixing": None if self._metropolis else [mixing.indptr, mixing.indices, mixing.data],
            "links": sorted(topology_module.links_of(mixing)),
            "n_nodes": self.n_nodes,
            "partition": [self.partition.columns_of(k) for k in range(self.n_nodes)] if self.problem.pooled else None,
            "seed": self.seed,
            "network": self.network,
            "certify": self.certify,
            "tol": self.tol,
            "faults": self.faults.to_dict(),
            "n_jobs": self.n_blocks,
        }
        state = {
            "rounds": self.rounds,
            "elapsed": self._elapsed,
            "history": self.history,
            "events": self.events,
            "certificate": self._certificate,
            "states": self.states,
            "watchers": [watcher.state() for watcher in self._watchers],
            "exchange": self.exchange.state(),
            "frozen": {} if self.elastic is None else self.elastic.frozen,
            "agreed": self._agreed,
        }
        tree = checkpoint.problem_tree(self.problem) if data else None
        whole_run = {"identity": self.identity(), "setup": setup, "problem": tree, "state": state}
        checkpoint.write(path, whole_run)

    @staticmethod
    def resume(path: str | PathLike[str], problem: Problem | None = None) -> Run:
        """The run that `save` wrote, as it was; `problem` if the file does not hold the data."""
        tree = checkpoint.read(path)
        setup = tree["setup"]
        if problem is None and tree["problem"] is None:
            raise InvalidInput(f"{path} was saved without its data; give the problem: Run.resume(path, problem)")
        if problem is not None:
            _check_same({"problem": checkpoint.digest(checkpoint.problem_tree(problem))}, tree, path)
        graph = nx.empty_graph(setup["n_nodes"])
        graph.add_edges_from(setup["links"])
        mixing = setup["mixing"]
        if mixing is not None:
            indptr, indices, values = mixing
            mixing = Mixing(sp.csr_array((values, indices, indptr), shape=(len(graph), len(graph))))
        run = Run(
            checkpoint.problem_of(tree["problem"]) if problem is None else problem,
            method=setup["method"],
            topology=graph,
            n_nodes=setup["n_nodes"],
            mixing="metropolis" if mixing is None else mixing,
            partition="shuffled" if setup["partition"] is None else setup["partition"],
            seed=setup["seed"],
            network=setup["network"],
            certify=setup["certify"],
            tol=setup["tol"],
            faults=setup["faults"],
            n_jobs=setup["n_jobs"],
        )
        run._restore(tree, path)
        return run

    def restore(self, path: str | PathLike[str]) -> None:
        """Goes on from a file that another run with the same data and settings wrote."""
        self._restore(checkpoint.read(path), path)

    def _restore(self, tree: dict[str, Any], path: str | PathLike[str]) -> None:
        _check_same(self.identity(), tree, path)
        state = tree["state"]
        self._measured = None
        self.rounds, self._elapsed = state["rounds"], state["elapsed"]
        self.history[:], self.events[:] = state["history"], state["events"]
        self._certificate, self._agreed = state["certificate"], state["agreed"]
        self.exchange.restore(state["exchange"])
        for watcher, saved in zip(self._watchers, state["watchers"], strict=True):
            watcher.restore(saved)
        for number, saved in enumerate(state["states"]):
            own = self.states[number].gossip
            if not isinstance(own, Ledger):  # its arrays are shared with the exchange
                own.v[:], own.spare[:], saved.gossip = saved.gossip.v, saved.gossip.spare, own
            self.states[number] = saved
        if self.elastic is not None:
            self.elastic.frozen = state["frozen"]

    def identity(self) -> dict[str, str]:
        """Digests of all that the rounds to come depend on beside the state."""
        if self._identity is None:
            self._identity = self._digests()
        return self._identity

    def _digests(self) -> dict[str, str]:
        mixing = self.mixing.matrix
        parts = {
            "problem": checkpoint.problem_tree(self.problem),
            "method": self.method,
            "seed": self.seed,
            "network": [mixing.indptr, mixing.indices, mixing.data],
            "partition": [self.partition.order, self.partition.starts],
            "clock": self.network,
            "way to stop (certificate or not)": self.certify,
            "fault plan": self.faults.to_dict(),
            "number of threads": self.n_blocks,
        }
        return {key: checkpoint.digest(part) for key, part in parts.items()}

    @property
    def _watchers(self) -> list[Any]:
        return [*self.certifiers, *self.crew.witnesses]

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the run's threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _check_same(ours: dict[str, str], tree: dict[str, Any], path: str | PathLike[str]) -> None:
    """Refuses the file of another run, and names what differs."""
    for key, name in ours.items():
        if tree["identity"].get(key) != name:
            raise InvalidInput(
                f"{path} is a checkpoint of another run: its {key} differs. Name another file, or go on with the "
                f"{key} that it was made with (Run.resume takes all settings from the file)"
            )


def _step(generator: Any, halo: Halo | None) -> tuple[bool, Any]:
    try:
        return False, generator.send(halo)
    except StopIteration as end:
        return True, end.value
