"""The nodes of CoLA that this process hosts: columns, states, certificates, and what can be seen of them."""

from functools import partial
from typing import Any

import numpy as np

from glmesh.certificate import AsyncCertifier, Certifier, SpectralGaps, observe, product
from glmesh.collectives.flood import flood_max
from glmesh.core import Block, Certificate, HostedNodes, Measures, Rounds, Setup
from glmesh.errors import InvalidInput
from glmesh.functions import Anchored
from glmesh.kernels.warm import warm_up
from glmesh.methods.cola.blocks import Algorithm, ColaBlocks
from glmesh.methods.cola.state import ColaState
from glmesh.problem import CompositeObjective, DataSummary, Partition, Problem, Shard
from glmesh.problem.partition import partition as make_partition
from glmesh.types import Flags, Indices, Matrix, Vector


class ColaNodes(HostedNodes[Block, ColaState]):
    """Blocks of CoLA's nodes, with certificates if the run asks for them.

    The states are made by `Cola.prepare`, which chooses the acceleration.
    """

    method: Algorithm

    def __init__(self, method: Algorithm, setup: Setup, *, flows: bool) -> None:
        partition = _deal(setup)
        _refuse_free_intercept(setup)
        warm_up()  # so that no round is timed with a compilation in it
        super().__init__(setup, method, setup.connect(flows=flows), partition)
        self.uses_flows = flows
        self.summary = self._agree()
        self.blocks = [self.make_block(number, ids) for number, ids in enumerate(setup.node_ids)]
        self.certifiers: list[Certifier] = []
        self.by_id = ColaBlocks(method, self.blocks, self.states, [])
        self.proof: tuple[Certificate, Vector, Matrix] | None = None  # and the state that it is about
        self._of_members: tuple[bytes, Block] | None = None  # all members in one block, until some join or leave

    def _agree(self) -> DataSummary | None:
        """Return what nodes whose data is apart must know of each other, found by messages; None for pooled data."""
        if self.problem.pooled:
            return None
        own = [np.stack([self.problem.parts[k].summary().to_vector() for k in ids]) for ids in self.setup.node_ids]
        floods = [flood_max(part, self.setup.diameter) for part in own]
        return DataSummary.from_vector(self.setup.agree(self.transport, floods)[0][0])

    def make_block(self, number: int, ids: Indices) -> Block:
        """Return block `number` with the columns of these nodes, as the present partition deals them out."""
        composites = [self.problem.node_composite(int(k), self.partition.columns_of(k), self.summary) for k in ids]
        d = composites[0].columns.d
        return Block.of(
            ids, self.setup.info, composites, lambda: self.transport.allocate(number, d), self.setup.threads
        )

    def certify(self, *, extrapolates: bool) -> None:
        """Let nodes prove how good their model is; extrapolates: what they send is ahead of their state."""
        by_samples, tol = self.by_samples, self.setup.tol
        if self.uses_flows:
            gaps = SpectralGaps(self.setup.mixing, self.setup.plan)
            self.by_id.async_certifiers = [
                AsyncCertifier(block, by_samples=by_samples, gap_of=gaps, tol=tol, extrapolates=extrapolates)
                for block in self.blocks
            ]
        else:
            self.certifiers = [Certifier(block, by_samples=by_samples, tol=tol) for block in self.blocks]

    def greet(self) -> None:
        """Open every link of flow gossip, before round 0; nodes that join later start empty."""
        for node in np.flatnonzero(~self.setup.plan.members(0, self.setup.n_nodes)):
            self.by_id.clear(int(node))
            self.by_id.invalidate(int(node), 0, forget=True)
        greetings = [self.by_id.flow_gossip(number).greet(block) for number, block in enumerate(self.blocks)]
        self.setup.agree(self.transport, greetings)

    @property
    def by_samples(self) -> bool:
        """Whether nodes hold samples."""
        return self.problem.spec.split == "samples"

    # rounds

    def rounds(self, number: int) -> list[Rounds]:
        """Return the generators of round `number`, with certificate records that ride along."""
        rounds = super().rounds(number)
        watching = self.watchers
        if not watching:
            return rounds
        return [
            watch.attend(one, state, partial(self.method.scale, block, state))
            for watch, one, block, state in zip(watching, rounds, self.blocks, self.states, strict=True)
        ]

    def finish_round(self, number: int) -> None:
        """Let every block choose the next accelerator, follow a free intercept, note what all members have proven."""
        for block, state in zip(self.blocks, self.states, strict=True):
            state.finish_round(block)
        self._follow_intercept()
        if self.by_id.async_certifiers:
            self._note_certificate(self.members(number + 1))

    def _follow_intercept(self) -> None:
        """Hold the free intercept where Newton's method, which solves for it at all nodes alike, has it now."""
        center = self.states[0].coefficients
        if center is None or not isinstance(f := self.blocks[0].f, Anchored) or f.anchor == f.split(center)[1]:
            return
        self.problem = self.problem.anchored(f.split(center)[1])
        for number, block in enumerate(self.blocks):
            own = self.partition.columns_of(int(block.ids[0]))
            held, _ = self.problem.node_functions(int(block.ids[0]), own, self.summary)
            self.blocks[number] = block.with_functions(held, block.terms)

    # what can be seen

    def by_block(self, x: Vector) -> list[Vector]:
        """Return variables in the user's order as those of each block."""
        order, starts = self.partition.order, self.partition.starts
        return [x[order[starts[int(block.ids[0])] : starts[int(block.ids[-1]) + 1]]] for block in self.blocks]

    def product(self, x: Vector) -> Vector:
        """Return A x of variables in the user's order, shape (d,)."""
        return product(self.blocks, self.by_block(x), self.processes)

    @property
    def x(self) -> Vector:
        """The variables in the user's order, a copy."""
        return np.asarray(self.partition.to_user(self.processes.all_gather_rows([state.x for state in self.states])))

    @property
    def estimates(self) -> Matrix:
        """(K, d) every node's v_k, a copy."""
        return np.asarray(self.processes.all_gather_rows([state.v for state in self.states]))

    @property
    def visited(self) -> Vector:
        """(K,) nonzeros that each node visited in the last round."""
        return np.concatenate([state.visited for state in self.states])

    @property
    def story(self) -> list[tuple[int, str, str]]:
        """(round, acceleration from then on, why) of every choice so far."""
        return list(self.states[0].story)

    @property
    def theta(self) -> Vector:
        """(K,) local accuracy Theta_k of the last round, NaN where none was measured."""
        return np.asarray(self.processes.all_gather_rows([state.theta for state in self.states]))

    @property
    def up(self) -> Flags:
        """(K,) which nodes were there in the last round."""
        return np.asarray(self.processes.all_gather_rows([state.up for state in self.states]))

    @property
    def skipped(self) -> tuple[int, float]:
        """(Subproblems that were skipped because they had nothing to gain, nonzeros that those would have visited)."""
        each = self.processes.all_gather([(state.skipped, state.work_saved) for state in self.states])
        return sum(count for count, _ in each), float(sum(work for _, work in each))

    def data_of(self, k: int) -> list[object]:
        """Return [columns, labels, weights] of the k-th node of this process."""
        node = int(np.concatenate([block.ids for block in self.blocks])[k])
        data = self.problem.node_data(node, self.partition.columns_of(node))
        return [data.columns, data.y, data.weight]

    def measure(self, rounds: int) -> Measures:
        """Return O_A, H, gap and consensus of the state after so many rounds.

        The objective is that of all members, those included that are away; what nodes that left for good add to A x
        stays as a constant, if it stays at all.
        """
        xs, vs = [state.x for state in self.states], [state.v for state in self.states]
        if self.transport.fails:
            return self._observe_members(xs, vs, self.members(rounds))
        return observe(self.blocks, xs, vs, by_samples=self.by_samples, processes=self.processes)

    def objective_at(self, x: Vector, estimates: Matrix, rounds: int) -> float:
        """Return the user-level objective of other variables and estimates than the present ones."""
        vs = [estimates[block.ids.astype(np.int64)] for block in self.blocks]
        if self.transport.fails:
            return self._observe_members(self.by_block(x), vs, self.members(rounds)).objective
        found = observe(self.blocks, self.by_block(x), vs, by_samples=self.by_samples, processes=self.processes)
        return found.objective

    def _observe_members(self, xs: list[Vector], vs: list[Matrix], members: Flags) -> Measures:
        """Return the measures of the members alone, whatever K some nodes still believe in."""
        by_samples = self.by_samples
        scales = [members.sum() / np.maximum(state.gossip.members_seen, 1.0) for state in self.states]
        rows = np.concatenate([v * scale[:, None] for v, scale in zip(vs, scales, strict=True)])[members]
        constant = self.by_id.constant() if self.uses_flows else None
        if members.all():
            return observe(self.blocks, xs, [rows], by_samples=by_samples, constant=constant, conserved=False)
        block = self._block_of_members(members)
        x = np.concatenate(
            [x[b.of_node(k)] for b, x in zip(self.blocks, xs, strict=True) for k in range(b.size) if members[b.ids[k]]]
        )
        return observe([block], [x], [rows], by_samples=by_samples, constant=constant, conserved=False)

    def _block_of_members(self, members: Flags) -> Block:
        """Return all members in one block; it is kept until somebody joins or leaves."""
        key = members.tobytes()
        if self._of_members is None or self._of_members[0] != key:
            ids = np.flatnonzero(members)
            forms = [
                CompositeObjective(block.node_columns(k), block.f, block.terms[k])
                for block in self.blocks
                for k in range(block.size)
                if members[int(block.ids[k])]
            ]
            d = forms[0].columns.d
            self._of_members = key, Block.of(ids, self.setup.info, forms, lambda: np.zeros((len(ids), d)))
        return self._of_members[1]

    def coefficients(self, x: Vector, estimates: Matrix, members: Flags) -> tuple[Vector, float]:
        """Return (coefficients, intercept): the mean of the members' models, or x itself split by features."""
        if self.by_samples:
            f = self.problem.composite.f
            return self.problem.model_of(np.mean([f.gradient(row) for row in estimates[members]], axis=0))
        return self.problem.coefficients(x, self.product(x))

    # certificates

    @property
    def certificate(self) -> Certificate | None:
        """The newest certificate that every node knows, about the present members and data."""
        if self.certifiers:
            return self.certifiers[0].latest
        return None if self.proof is None else self.proof[0]

    def _note_certificate(self, members: Flags) -> None:
        """Keep what all members have concluded about one round, and their state of that round."""
        if self.proof is not None and not np.array_equal(np.flatnonzero(members), self.proof[0].members):
            self.proof = None
        snapshots = [last for certifier in self.by_id.async_certifiers for last in certifier.state.last]
        flows = [one for number in range(len(self.blocks)) for one in self.by_id.flow_gossip(number).node_flows]
        found = []
        for k in np.flatnonzero(members):
            snapshot = snapshots[k]
            if snapshot is None or snapshot.view.digest != flows[k].view.digest:
                return
            found.append(snapshot)
        rounds, certificate = {snapshot.round for snapshot in found}, found[0].certificate
        if len(rounds) > 1 or certificate is None or (self.proof and self.proof[0] == certificate):
            return
        self.proof = certificate, *self._state_of_snapshots(members, len(certificate.members))

    def _state_of_snapshots(self, members: Flags, n_members: int) -> tuple[Vector, Matrix]:
        """Return (x in the user's order, every v_k) of the members' last snapshots; who is no member stays as it is."""
        x, v = [state.x.copy() for state in self.states], [state.v.copy() for state in self.states]
        for number, (block, certifier) in enumerate(zip(self.blocks, self.by_id.async_certifiers, strict=True)):
            for k, snapshot in enumerate(certifier.state.last):
                if snapshot is not None and members[int(block.ids[k])]:
                    x[number][block.of_node(k)] = snapshot.x
                    v[number][k] = n_members * snapshot.s
        return np.asarray(self.partition.to_user(np.concatenate(x))), np.concatenate(v)

    def certified_state(self) -> tuple[Vector, Matrix]:
        """Return (x in the user's order, every v_k) that the newest certificate is about."""
        if self.certificate is None:
            raise InvalidInput("there is no certificate yet")
        if self.proof is not None:
            return self.proof[1], self.proof[2]
        states = [certifier.state for certifier in self.certifiers]
        x = self.processes.all_gather_rows([state.x for state in states if state.x is not None])
        v = self.processes.all_gather_rows([state.v for state in states if state.v is not None])
        return np.asarray(self.partition.to_user(x)), np.asarray(v)

    # saving and changes in mid-run

    @property
    def watchers(self) -> list[Certifier | AsyncCertifier]:
        """What makes certificates, one per block; empty without."""
        return [*self.certifiers, *self.by_id.async_certifiers]

    def restore(self, states: list[ColaState], watchers: list[Any]) -> None:
        """Take over the saved states of all blocks, and of what makes certificates."""
        for watcher, saved in zip(self.watchers, watchers, strict=True):
            watcher.state = saved
        for number, saved in enumerate(states):
            saved.gossip = self.states[number].gossip.restored(saved.gossip)
            self.states[number] = saved

    def restart(self) -> None:
        """Begin anew from the present variables and estimates, which somebody changed from outside."""
        for block, state in zip(self.blocks, self.states, strict=True):
            self.method.reset(block, state)
        self._forget()

    def retarget(self, problem: Problem) -> None:
        """Go on with other functions of the same kind on the same columns."""
        self.problem = problem
        for number, (block, state) in enumerate(zip(self.blocks, self.states, strict=True)):
            own = [problem.node_functions(int(k), self.partition.columns_of(int(k)), self.summary) for k in block.ids]
            self.blocks[number] = block = block.with_functions(own[0][0], [g for _, g in own])
            self.method.retarget(block, state)
            for watch in self.by_id.async_certifiers[number : number + 1]:
                for k in range(block.size):
                    watch.disturb(k, state.round)
        self._forget()

    def mark(self) -> list[tuple[Vector, Matrix]]:
        """Return copies of (x, v) of every block."""
        return [(state.x.copy(), state.v.copy()) for state in self.states]

    def go_ahead(self, before: list[tuple[Vector, Matrix]], step: float) -> None:
        """Set x to x + step (x - x before), but nothing crosses a kink or a bound; the estimates follow.

        Newton's method knows better where the next solution is, and flows are not extrapolated from outside.
        """
        if not np.isfinite(step) or self.uses_flows or self.states[0].solves_for_coefficients:
            return
        for block, state, (x, v) in zip(self.blocks, self.states, before, strict=True):
            ahead = state.x + step * (state.x - x)
            new = block.inside(ahead).copy()
            new[(block.table[:, 0] > 0) & (new * state.x <= 0)] = 0.0
            state.v[:] += step * (state.v - v)
            state.x = new
            for k in range(block.size):
                own = block.of_node(k)
                if (new[own] != ahead[own]).any():
                    state.gossip.move(block, k, new[own] - ahead[own])
        self.restart()

    def rehost(self, problem: Problem, partition: Partition, x: Vector) -> None:
        """Go on with other columns: nodes hold what the partition deals out, variables are x in the user's order."""
        self.problem, self.partition = problem, partition
        self.blocks[:] = [self.make_block(b, block.ids.astype(np.int64)) for b, block in enumerate(self.blocks)]
        for block, state, own in zip(self.blocks, self.states, self.by_block(x), strict=True):
            state.x = block.inside(own)
            self.method.reset(block, state)
        self._forget()

    def _forget(self) -> None:
        """Drop what was certified of another problem or another state."""
        self.certifiers = [Certifier(b, by_samples=self.by_samples, tol=self.setup.tol) for b in self.blocks
                           if self.certifiers]  # fmt: skip
        for block, watch in zip(self.blocks, self.by_id.async_certifiers, strict=False):
            watch.block = block
        self._of_members = self.proof = None

    def warm_start(self, start: object) -> list[Vector | None]:
        """Return the variables of each block that a run starts from; None: from zero."""
        if start is None:
            return [None] * len(self.blocks)
        try:
            x = np.asarray(getattr(start, "x", start), dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("warm_start is a Result, or variables in your order (Result.x)") from None
        if x.shape != (self.problem.n,) or not np.isfinite(x).all():
            raise InvalidInput(f"warm_start needs {self.problem.n} finite variables (Result.x), got shape {x.shape}")
        xs = self.by_block(x)
        if not np.isfinite([block.g.value(part) for block, part in zip(self.blocks, xs, strict=True)]).all():
            raise InvalidInput("warm_start is outside the bounds of this problem")
        return list(xs)


def _deal(setup: Setup) -> Partition:
    """Return who holds which columns."""
    if isinstance(setup.problem, Shard):
        return setup.problem.dealt
    return make_partition(setup.problem, setup.n_nodes, setup.partition, setup.seed)


def _refuse_free_intercept(setup: Setup) -> None:
    """Refuse a free intercept of nodes that hold samples where its anchor could not be moved by all at once."""
    model = setup.problem.spec
    if model.split == "samples" and model.fit_intercept and (setup.certify or not setup.plan.is_empty):
        raise InvalidInput(
            "split by samples a free intercept goes with a network that stands still and without certificates. "
            "Use split='features', or penalise the intercept: fit_intercept=False and a column of ones in X"
        )
