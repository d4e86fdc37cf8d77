"""The nodes of CoLA that this process hosts: columns, states, certificates, and what can be seen of them."""

from functools import partial
from typing import Any

import numpy as np

from glmesh.certificate import AsyncCertifier, Certifier, SpectralGaps, observe, product
from glmesh.collectives.agreement import agree_on_data
from glmesh.core import AnyNodes, Block, Certificate, HostedNodes, Measures, Rounds, Setup
from glmesh.core.state import Extent
from glmesh.errors import InvalidInput
from glmesh.kernels.warm import warm_up
from glmesh.methods.cola.blocks import Algorithm, ColaBlocks
from glmesh.methods.cola.state import ColaState
from glmesh.problem import CompositeObjective, Partition, Problem
from glmesh.problem.partition import partition as make_partition
from glmesh.types import Flags, Indices, Matrix, Tree, Vector


class ColaNodes(HostedNodes[Block, ColaState]):
    """The nodes of CoLA that this process hosts, in blocks, with certificates if the run asks for them.

    The states are made by `Cola.prepare`, which chooses the acceleration. A certificate is a proven upper bound of the
    suboptimality.
    """

    method: Algorithm

    def __init__(self, method: Algorithm, setup: Setup, *, flows: bool) -> None:
        """Make the blocks of nodes and the transport between them; `flows`: the transport may lose single messages."""
        partition = _deal(setup)
        _refuse_free_intercept(setup)
        warm_up()  # so that no round is timed with a compilation in it
        super().__init__(setup, method, setup.connect(flows=flows), partition)
        self.uses_flows = flows
        self.summary = agree_on_data(setup, self.transport)
        self.blocks = [self.make_block(number, ids) for number, ids in enumerate(setup.node_ids)]
        self.certifiers: list[Certifier] = []
        self.by_id = ColaBlocks(method, self.blocks, self.states, [])
        self.proof: tuple[Certificate, Vector, Matrix] | None = None  # and the state that it is about
        self._of_members: tuple[bytes, Block] | None = None  # all members in one block, until some join or leave

    def make_block(self, number: int, ids: Indices) -> Block:
        """Return block `number` of this process, with the columns that the partition gives to the nodes `ids`."""
        composites = [self.problem.node_composite(int(k), self.partition.columns_of(k), self.summary) for k in ids]
        d = composites[0].columns.d
        return Block.of(
            ids, self.setup.info, composites, lambda: self.transport.allocate(number, d), self.setup.threads
        )

    def certify(self, *, extrapolates: bool) -> None:
        """Make a certifier for every block of nodes, so that every node can prove an upper bound of the suboptimality.

        `extrapolates`: messages carry estimates of another point than the node's own x, as under momentum.
        """
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
        """Open every link of flow gossip by an exchange before round 0.

        Nodes that are to join later get the variables of a cold start: 0, or the nearest point inside the bounds of the
        penalty. Gossip averages the nodes' estimates with their neighbours'.
        """
        for node in np.flatnonzero(~self.setup.plan.members(0, self.setup.n_nodes)):
            self.by_id.clear(int(node))
            self.by_id.invalidate(int(node), 0, forget=True)
        greetings = [self.by_id.flow_gossip(number).greet(block) for number, block in enumerate(self.blocks)]
        self.setup.agree(self.transport, greetings)

    @property
    def by_samples(self) -> bool:
        """Return whether nodes hold samples (True) or features (False)."""
        return self.problem.spec.split == "samples"

    # rounds

    def rounds(self, number: int) -> list[Rounds]:
        """Return the generators of round `number`, one per block: each yields an Outbox and is sent a Halo.

        If the run makes certificates, their records are in the messages. A certificate is a proven upper bound of the
        suboptimality.
        """
        rounds = [self.method.round(block, state) for block, state in zip(self.blocks, self.states, strict=True)]
        watching = self.watchers
        if not watching:
            return rounds
        return [
            watch.attend(one, state, partial(self.method.scale, block, state))
            for watch, one, block, state in zip(watching, rounds, self.blocks, self.states, strict=True)
        ]

    def finish_round(self, number: int) -> None:
        """Conclude round `number`: count it at every block, and store a certificate that all members reached.

        A block whose exact sums lack a node's part, or win nothing any more, goes on with momentum. A certificate is a
        proven upper bound of the suboptimality.
        """
        for block, state in zip(self.blocks, self.states, strict=True):
            state.finish_round(block)
        if self.by_id.async_certifiers:
            self._note_certificate(self.members(number + 1))

    # what can be seen

    def by_block(self, x: Vector) -> list[Vector]:
        """Return the variables x, shape (n,) in the order of the user's columns, as one array per block of nodes."""
        order, starts = self.partition.order, self.partition.starts
        return [x[order[starts[int(block.ids[0])] : starts[int(block.ids[-1]) + 1]]] for block in self.blocks]

    def product(self, x: Vector) -> Vector:
        """Return Ax, shape (d,), of variables in the user's order, shape (n,).

        A is the data matrix, x are the variables of all nodes.
        """
        return product(self.blocks, self.by_block(x), self.processes)

    @property
    def x(self) -> Vector:
        """Return a copy of the variables of all nodes in the user's order, shape (n,)."""
        return np.asarray(self.partition.to_user(self.processes.all_gather_rows([state.x for state in self.states])))

    @property
    def estimates(self) -> Matrix:
        """Return a copy of every node's estimate v_k of Ax, shape (K, d).

        A is the data matrix, x are the variables of all nodes. K is the number of nodes.
        """
        return np.asarray(self.processes.all_gather_rows([state.v for state in self.states]))

    @property
    def visited(self) -> Vector:
        """Return the nonzeros that each node of this process visited in the last round, shape (n_hosted,)."""
        return np.concatenate([state.visited for state in self.states])

    @property
    def story(self) -> list[tuple[int, str, str]]:
        """Return a list of (round, accelerator from then on, reason), one for each choice of an accelerator so far."""
        return list(self.states[0].story)

    @property
    def theta(self) -> Vector:
        """Return the local accuracy of each node in the last round, shape (K,): the part of the possible decrease left.

        NaN where it was not measured. K is the number of nodes.
        """
        return np.asarray(self.processes.all_gather_rows([state.theta for state in self.states]))

    @property
    def up(self) -> Flags:
        """Return a mask of shape (K,), true for each node that took part in the last round.

        K is the number of nodes.
        """
        return np.asarray(self.processes.all_gather_rows([state.up for state in self.states]))

    @property
    def skipped(self) -> tuple[int, float]:
        """Return (number of subproblems that all nodes have skipped so far, nonzeros that those would have visited).

        Nodes skip a subproblem that provably has nothing to gain. A subproblem is a node's local minimisation over its
        own variables.
        """
        each = self.processes.all_gather([(state.skipped, state.work_saved) for state in self.states])
        return sum(count for count, _ in each), float(sum(work for _, work in each))

    def data_of(self, k: int) -> list[object]:
        """Return [columns, labels, sample weights] of the k-th node that this process hosts."""
        node = int(np.concatenate([block.ids for block in self.blocks])[k])
        data = self.problem.node_data(node, self.partition.columns_of(node))
        return [data.columns, data.y, data.weight]

    def measure(self, rounds: int) -> Measures:
        """Return the Measures (objective, duality gap, consensus violation) of the state after `rounds` rounds.

        The objective is that of all members, those included that are away. A_k x_k of a node that left for good is a
        constant in Ax if some member keeps it, else it is gone. A is the data matrix, x are the variables of all nodes.
        """
        xs, vs = [state.x for state in self.states], [state.v for state in self.states]
        if self.transport.fails:
            return self._observe_members(xs, vs, self.members(rounds))
        return observe(self.blocks, xs, vs, by_samples=self.by_samples, processes=self.processes)

    def objective_at(self, x: Vector | None, estimates: Matrix, rounds: int) -> float:
        """Return the objective of the user's problem at variables x, shape (n,), and estimates, shape (K, d).

        x is in the user's order. The objective is that of the nodes that are members after `rounds` rounds.
        """
        assert x is not None
        vs = [estimates[block.ids.astype(np.int64)] for block in self.blocks]
        if self.transport.fails:
            return self._observe_members(self.by_block(x), vs, self.members(rounds)).objective
        found = observe(self.blocks, self.by_block(x), vs, by_samples=self.by_samples, processes=self.processes)
        return found.objective

    def _observe_members(self, xs: list[Vector], vs: list[Matrix], members: Flags) -> Measures:
        """Return the Measures (objective, gap, consensus violation) of the members alone, a mask of shape (K,).

        `xs` and `vs` are the variables and the estimates of Ax of each block. Estimates are rescaled, because nodes may
        still count with another number of members. A is the data matrix, x are the variables of all nodes.
        """
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
        """Return one Block with the columns and functions of all members, a mask of shape (K,).

        The block is kept until the members change.
        """
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

    def coefficients(self, x: Vector | None, estimates: Matrix, members: Flags) -> tuple[Vector, float]:
        """Return (coefficients, intercept): the mean of the members' models split by samples, x split by features.

        x is in the user's order, estimates have shape (K, d), members is a mask of shape (K,).
        """
        if self.by_samples:
            f = self.problem.composite.f
            return self.problem.model_of(np.mean([f.gradient(row) for row in estimates[members]], axis=0))
        assert x is not None
        return self.problem.coefficients(x, self.product(x))

    # certificates

    @property
    def certificate(self) -> Certificate | None:
        """Return the newest certificate that all nodes know about the present members and data; None: none yet.

        A certificate is a proven upper bound of the suboptimality.
        """
        if self.certifiers:
            return self.certifiers[0].latest
        return None if self.proof is None else self.proof[0]

    def _note_certificate(self, members: Flags) -> None:
        """Set `proof` to (certificate, x, v) of the round that all members have certified.

        Here x are the variables and v the estimates of Ax, A the data matrix. `members` is a mask of shape (K,) over
        the K nodes. A certificate of other members is dropped. Nothing is set while members have snapshots of different
        rounds. A certificate is a proven upper bound of the suboptimality.
        """
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
        """Return (x, v), variables and estimates of all nodes, as the members' last snapshots have them.

        x has shape (n,) in the user's order; v estimates Ax, A the data matrix, at each of K nodes, shape (K, d). Nodes
        outside the mask `members`, shape (K,), have their present variables and estimates. A snapshot's estimate is
        `n_members` times the vector s that it holds.
        """
        x, v = [state.x.copy() for state in self.states], [state.v.copy() for state in self.states]
        for number, (block, certifier) in enumerate(zip(self.blocks, self.by_id.async_certifiers, strict=True)):
            for k, snapshot in enumerate(certifier.state.last):
                if snapshot is not None and members[int(block.ids[k])]:
                    x[number][block.of_node(k)] = snapshot.x
                    v[number][k] = n_members * snapshot.s
        return np.asarray(self.partition.to_user(np.concatenate(x))), np.concatenate(v)

    def certified_state(self) -> tuple[Vector, Matrix]:
        """Return (x, v), the variables and all nodes' estimates that the newest certificate is about.

        x has shape (n,) in the user's order; v estimates Ax, A the data matrix, at each of K nodes, shape (K, d). Raise
        InvalidInput if there is no certificate. A certificate is a proven upper bound of the suboptimality.
        """
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
        """Return the certifiers of this process, one per block; empty if the run makes no certificates."""
        return [*self.certifiers, *self.by_id.async_certifiers]

    def require_saving(self) -> None:
        """Do nothing: a run of CoLA's nodes can always be saved."""

    @property
    def extents(self) -> list[Extent]:
        """Return an Extent per block of nodes in this process: numbers of nodes, columns, and units.

        A unit is a column or a group of columns.
        """
        return [Extent(block.size, block.columns.n, len(block.units[2])) for block in self.blocks]

    @property
    def watching(self) -> list[object]:
        """Return the states of the certifiers of this process, one per block; empty without certificates."""
        return [watcher.state for watcher in self.watchers]

    def saved(self) -> dict[str, object]:
        """Return {"proof": (certificate, x, v) or None, "summary": DataSummary or None} for a checkpoint.

        The proof is the last certificate with the state that it is about; the summary is None for pooled data. A
        certificate is a proven upper bound of the suboptimality.
        """
        return {"proof": self.proof, "summary": self.summary}

    def restore(self, states: list[ColaState], watching: list[Any], saved: Tree) -> None:
        """Replace the states of all blocks and certifiers by those of a checkpoint.

        `saved` is what the method `saved` returned, with the entry "anchor": where a free intercept is held. `watching`
        are the states of the certifiers.
        """
        if saved["anchor"] != self.problem.spec.anchor:
            self.retarget(self.problem.anchored(saved["anchor"]))
        self.proof, self.summary = saved["proof"], saved["summary"]
        for watcher, seen in zip(self.watchers, watching, strict=True):
            watcher.state = seen
        for number, state in enumerate(states):
            state.gossip = self.states[number].gossip.restored(state.gossip)
            self.states[number] = state

    def restart(self) -> None:
        """Reset accelerators and local solvers, and drop certificates: x and estimates were changed from outside.

        A certificate is a proven upper bound of the suboptimality.
        """
        for block, state in zip(self.blocks, self.states, strict=True):
            self.method.reset(block, state)
        self._forget()

    def retarget(self, problem: Problem) -> None:
        """Replace the problem by one with other functions f and g, of the old classes, on the old columns.

        The variables and the estimates stay.
        """
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
        """Return a list with copies (variables x, estimates v of Ax) of every block's state, for a later `go_ahead`.

        A is the data matrix, x are the variables of all nodes.
        """
        return [(state.x.copy(), state.v.copy()) for state in self.states]

    def go_ahead(self, before: list[tuple[Vector, Matrix]], step: float) -> None:
        """Move every variable to x + step (x - x_before), but not across a kink or a bound; the estimates follow.

        `before` is the list of (x, v) per block that `mark` returned earlier. Does nothing with flow gossip, or if
        `step` is not finite.
        """
        if not np.isfinite(step) or self.uses_flows:
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
        """Replace the columns: nodes hold those that `partition` gives them, and x, shape (n,), are the new variables.

        x is in the user's order. Accelerators and local solvers begin anew.
        """
        self.problem, self.partition = problem, partition
        self.blocks[:] = [self.make_block(b, block.ids.astype(np.int64)) for b, block in enumerate(self.blocks)]
        for block, state, own in zip(self.blocks, self.states, self.by_block(x), strict=True):
            state.x = block.inside(own)
            self.method.reset(block, state)
        self._forget()

    def _forget(self) -> None:
        """Drop the certificate and the records under way, which are about an earlier state or problem.

        A certificate is a proven upper bound of the suboptimality.
        """
        self.certifiers = [Certifier(b, by_samples=self.by_samples, tol=self.setup.tol) for b in self.blocks
                           if self.certifiers]  # fmt: skip
        for block, watch in zip(self.blocks, self.by_id.async_certifiers, strict=False):
            watch.block = block
        self._of_members = self.proof = None

    def warm_start(self, start: object) -> list[Vector | None]:
        """Return the variables of each block, shape (n_columns,), to start from: those of a Result, or of an array.

        The array is in the user's order, shape (n,). A list of None, one per block, if `start` is None: a cold start. A
        Result of a method on totals has coefficients alone: split by samples the dual variables that belong to them are
        taken. Raise InvalidInput for variables of another shape or out of bounds. A cold start has all variables 0. A
        method on totals, such as Newton's, computes from sums over all nodes.
        """
        if start is None:
            return [None] * len(self.blocks)
        x = getattr(start, "x", start)
        if x is None:
            x = getattr(start, "coef", None)
            if self.by_samples:
                return list(self._duals_of(x, getattr(start, "intercept", 0.0)))
        try:
            x = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("warm_start is a Result, or variables in your order (Result.x)") from None
        if x.shape != (self.problem.n,) or not np.isfinite(x).all():
            raise InvalidInput(f"warm_start needs {self.problem.n} finite variables (Result.x), got shape {x.shape}")
        xs = self.by_block(x)
        if not np.isfinite([block.g.value(part) for block, part in zip(self.blocks, xs, strict=True)]).all():
            raise InvalidInput("warm_start is outside the bounds of this problem")
        return list(xs)

    def _duals_of(self, coef: object, intercept: float) -> list[Vector]:
        """Return the dual variables of each block's samples, shape (n_columns,), that belong to these coefficients.

        A dual variable is the slope of the sample's loss at its prediction; `coef` has shape (p,). `intercept` is added
        to the predictions.
        """
        w = np.asarray(coef, dtype=np.float64)
        p = self.blocks[0].d - int(self.problem.spec.fit_intercept)
        if w.shape != (p,) or not np.isfinite(w).all():
            raise InvalidInput(f"warm_start needs {p} finite coefficients (Result.coef), got shape {w.shape}")
        w = self.blocks[0].f.join(w, intercept)
        return [block.inside(block.g.conjugate_subgradient(-block.columns.transposed_dot(w))) for block in self.blocks]


def as_cola(nodes: AnyNodes) -> ColaNodes | None:
    """Return `nodes` if they are those of CoLA; None: they are another method's."""
    return nodes if isinstance(nodes, ColaNodes) else None


def _deal(setup: Setup) -> Partition:
    """Return the partition of the columns: as they were dealt out to processes, or as `setup.partition` says."""
    if setup.problem.dealt is not None:
        return setup.problem.dealt
    return make_partition(setup.problem, setup.n_nodes, setup.partition, setup.seed)


def _refuse_free_intercept(setup: Setup) -> None:
    """Raise InvalidInput for a free intercept split by samples with a fault plan or certificates.

    All nodes must move its anchor at once, which neither allows. A certificate is a proven upper bound of the
    suboptimality.
    """
    model = setup.problem.spec
    if model.split == "samples" and model.fit_intercept and (setup.certify or not setup.plan.is_empty):
        raise InvalidInput(
            "split by samples a free intercept goes with a network that stands still and without certificates. "
            "Use split='features', or penalise the intercept: fit_intercept=False and a column of ones in X"
        )
