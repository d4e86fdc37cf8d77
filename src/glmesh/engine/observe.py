"""What can be seen of a run from above: all nodes at once, those of other processes included.

Nodes know nothing of this. On a cluster everything here that takes other processes is asked by all of them together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glmesh.certificate.bound import Certificate, Certifier
from glmesh.certificate.measures import Measures, observe, product
from glmesh.core.block import Block, NetworkInfo
from glmesh.engine.membership import Elastic, HostedNodes
from glmesh.errors import InvalidInput
from glmesh.methods.consensus.samples import observe_copies
from glmesh.network.faults import Plan
from glmesh.parallel.processes import ProcessGroup
from glmesh.problem.node_data import CompositeObjective
from glmesh.problem.partition import Partition
from glmesh.problem.problem import Problem
from glmesh.transports import Transport
from glmesh.types import Flags, Matrix, Vector


class Overview:
    """The side of a run that only looks."""

    problem: Problem
    processes: ProcessGroup
    partition: Partition
    exchange: Transport
    hosted: HostedNodes
    elastic: Elastic | None
    certifiers: list[Certifier]
    consensual: bool
    n_nodes: int
    rounds: int
    _info: NetworkInfo
    _elapsed: float
    _measured: tuple[int, Measures] | None
    _whole: tuple[bytes, Block] | None
    _proof: tuple[Certificate, Vector, Matrix] | None

    @property
    def blocks(self) -> list[Block]:
        """The nodes of this process, side by side in one block, or in several (`n_blocks`)."""
        return self.hosted.blocks

    @property
    def states(self) -> list[Any]:
        """The state of each block."""
        return self.hosted.states

    def _by_block(self, x: Vector) -> list[Vector]:
        """Variables from the user's order to that of the blocks."""
        order, starts = self.partition.order, self.partition.starts
        return [x[order[starts[int(block.ids[0])] : starts[int(block.ids[-1]) + 1]]] for block in self.blocks]

    def product(self, x: Vector) -> Vector:
        """Ax, of variables in the user's order."""
        return product(self.blocks, self._by_block(x), self.processes)

    @property
    def x(self) -> Vector:
        """The variables, in the user's order (a copy); with a method of consensus, the mean of all copies."""
        if self.consensual:
            return np.asarray(self.estimates.mean(axis=0))
        return np.asarray(self.partition.to_user(self.processes.all_gather_rows([state.x for state in self.states])))

    @property
    def estimates(self) -> Matrix:
        """Every node's v_k, or its copy of the coefficients, a row each (a copy)."""
        return np.asarray(self.processes.all_gather_rows([state.v for state in self.states]))

    @property
    def story(self) -> list[tuple[int, str, str]]:
        """(round, acceleration from then on, why), as `Cola(acceleration=...)` chose."""
        return [] if self.consensual else list(self.states[0].story)

    @property
    def theta(self) -> Vector:
        """The local accuracy Theta_k reached in the last round (NaN where none was asked for)."""
        if self.consensual:
            return np.full(self.n_nodes, np.nan)
        return np.asarray(self.processes.all_gather_rows([state.theta for state in self.states]))

    @property
    def communications(self) -> int:
        """Exchanges that a node waited for."""
        return self.exchange.traffic.communications

    @property
    def bytes(self) -> int:
        """Bytes sent over all directed edges."""
        return sum(self.processes.all_gather([self.exchange.traffic.bytes]))

    @property
    def seconds(self) -> float:
        """Time of the rounds so far: on the virtual clock if there is a network, else on the wall."""
        clock = self.exchange.clock
        return max(self.processes.all_gather([self._elapsed])) if clock is None else clock.seconds

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
        return np.asarray(self.processes.all_gather_rows([state.up for state in self.states]))

    @property
    def skipped(self) -> int:
        """Subproblems not solved because their node was done."""
        return (
            0 if self.consensual else sum(self.processes.all_gather([state.screening.skipped for state in self.states]))
        )

    @property
    def spared(self) -> float:
        """Nonzeros that those would have visited."""
        if self.consensual:
            return 0.0
        return float(sum(self.processes.all_gather([state.screening.work_saved for state in self.states])))

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
            return observe(self.blocks, xs, vs, by_samples=by_samples, processes=self.processes)
        # whatever K some nodes still believe in
        scales = [members.sum() / np.maximum(state.gossip.members_seen, 1.0) for state in self.states]
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
        vs = [estimates[block.ids.astype(np.int64)] for block in self.blocks]
        return self._observe(self._by_block(x), vs).objective

    def _members_block(self, members: Flags) -> Block:
        """All members in one block; kept until somebody joins or leaves."""
        key = members.tobytes()
        if self._whole is None or self._whole[0] != key:
            ids = np.flatnonzero(members)
            forms = [
                CompositeObjective(block.node_columns(k), block.f, block.terms[k])
                for block in self.blocks
                for k in range(block.size)
                if members[int(block.ids[k])]
            ]
            self._whole = key, Block.of(ids, self._info, forms, lambda: np.zeros((len(ids), forms[0].columns.d)))
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
        snapshots = [
            snapshot for async_certifier in self.hosted.async_certifiers for snapshot in async_certifier.state.last
        ]
        node_flows = [
            own_flows for number in range(len(self.blocks)) for own_flows in self.hosted.gossip(number).node_flows
        ]
        found = [(snapshots[k], node_flows[k]) for k in np.flatnonzero(self.members)]
        if any(snapshot is None or snapshot.digest != own_flows.digest for snapshot, own_flows in found):
            return
        rounds = {snapshot.round for snapshot, _ in found if snapshot is not None}
        certificate = found[0][0].certificate if found[0][0] is not None else None
        if len(rounds) > 1 or certificate is None or (self._proof and self._proof[0] == certificate):
            return
        x, v = [state.x.copy() for state in self.states], [state.v.copy() for state in self.states]
        for number, (block, async_certifier) in enumerate(zip(self.blocks, self.hosted.async_certifiers, strict=True)):
            for k, snapshot in enumerate(async_certifier.state.last):
                if snapshot is not None and self.members[int(block.ids[k])]:
                    x[number][block.of_node(k)] = snapshot.x
                    v[number][k] = len(certificate.members) * snapshot.s
        self._proof = certificate, np.asarray(self.partition.to_user(np.concatenate(x))), np.concatenate(v)

    def certified_state(self) -> tuple[Vector, Matrix]:
        """(x in the user's order, every v_k) that the newest certificate is about."""
        if self.certificate is None:
            raise InvalidInput("there is no certificate yet")
        if self._proof is not None:
            return self._proof[1], self._proof[2]
        x = self.processes.all_gather_rows(
            [certifier.state.x for certifier in self.certifiers if certifier.state.x is not None]
        )
        v = self.processes.all_gather_rows(
            [certifier.state.v for certifier in self.certifiers if certifier.state.v is not None]
        )
        return np.asarray(self.partition.to_user(x)), np.asarray(v)
