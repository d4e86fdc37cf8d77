"""The simulator's transport under a fault plan, which decides what gets through."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glmesh.core import Mail
from glmesh.network import Mixing, Network, Plan
from glmesh.transports.local import LocalTransport
from glmesh.types import Flags, Indices, Vector


@dataclass
class DelayedMail:
    """A message that a fault plan delays."""

    due: int  # number of the exchange in which it arrives
    mail: Mail


class FaultyTransport(LocalTransport):
    """The simulator's transport under a fault plan: rows and mail cross only links that the plan leaves standing.

    Weights adapt at once and locally: a link that fails leaves its weight on the diagonals of both ends, so the mixing
    matrix of an exchange stays symmetric and doubly stochastic as long as links fail both ways. A message lost one way
    spoils that, and with it the mean of rows; push-flow gossip, which sends mail, repairs itself.
    """

    fails = True

    def __init__(
        self,
        mixing: Mixing,
        blocks: list[Indices],
        network: Network | None,
        plan: Plan,
        schedule: tuple[Mixing, ...],
    ) -> None:
        super().__init__(mixing, blocks, network)
        self.plan = plan
        self.round: int | None = None  # None: before the first, when nothing fails
        self.exchanges = 0
        self.delayed: list[DelayedMail] = []
        senders, receivers = self.links
        self._pairs = np.sort(np.stack([senders, receivers], axis=1), axis=1)
        self._place = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(senders, receivers, strict=True))}
        self._back = np.array([self._place[b, a] for a, b in self._place], dtype=np.int64)
        matrix = mixing.matrix.tocoo()
        self._off = np.flatnonzero(matrix.row != matrix.col)
        self._diagonal = np.flatnonzero(matrix.row == matrix.col)
        empty = np.zeros(0)  # a lone node has no links, of which scipy makes no array
        self._schedule = [np.asarray(one.matrix[receivers, senders]) if len(senders) else empty for one in schedule]
        self._graph: Vector = self._schedule[0]  # weights of the links in the last exchange
        self._alive: Flags = np.ones(len(senders), dtype=bool)  # links that stood between nodes that were up
        self._received: Flags = self._alive  # links whose message was not lost

    def begin_round(self, plan: Plan, round: int) -> None:
        """Begin round number `round`: exchanges from now on belong to it, and fail as this plan says."""
        self.plan, self.round = plan, round

    def state(self) -> dict[str, Any]:
        """Return all that changes from exchange to exchange, messages on their way included, for a checkpoint."""
        return super().state() | {"exchanges": self.exchanges, "delayed": self.delayed}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` of another transport returned, messages on their way included."""
        super().restore(state)
        self.exchanges, self.delayed = state["exchanges"], state["delayed"]

    def _deliver(self, row_sizes: Vector, mail: list[Mail]) -> list[Mail]:
        if self.round is None:
            return super()._deliver(row_sizes, mail)
        senders, receivers = self.links
        up = self.plan.up(self.round, self.mixing.n_nodes)
        self._graph = self._schedule[self.exchanges % len(self._schedule)]
        standing = self.plan.links_up(self.exchanges, self.round, self._pairs)
        self._alive = (self._graph > 0) & standing & up[senders] & up[receivers]
        lost = self.plan.lost(self.exchanges, self.round, senders, receivers)
        self._received = self._alive & ~lost
        places = [self._place[one.sender, one.receiver] for one in mail]
        sent = [one for one, at in zip(mail, places, strict=True) if self._alive[at]]
        alive = np.flatnonzero(self._alive)
        self._count(senders[alive], receivers[alive], row_sizes[senders[alive]], sent)
        arrived = self._arrivals(mail, places)
        self.exchanges += 1
        return arrived

    def _arrivals(self, mail: list[Mail], places: list[int]) -> list[Mail]:
        """Return the mail that arrives now: what is in time, then second copies, then what was delayed before.

        Late messages come last, which is hardest for receivers. `places` are the indices of each message's link.
        """
        assert self.round is not None
        senders, receivers = self.links
        lateness = self.plan.lateness(self.exchanges, self.round, senders, receivers)
        copies = self.plan.copies(self.exchanges, self.round, senders, receivers)
        through = [(one, at) for one, at in zip(mail, places, strict=True) if self._received[at]]
        arrived = [one for one, at in through if lateness[at] == 0]
        arrived += [one for one, at in through if lateness[at] == 0 and copies[at] > 1]
        due = [delayed.mail for delayed in self.delayed if delayed.due <= self.exchanges]
        arrived += [one for one in due if self._alive[self._place[one.sender, one.receiver]]]
        self.delayed = [delayed for delayed in self.delayed if delayed.due > self.exchanges]
        self.delayed += [
            DelayedMail(self.exchanges + int(lateness[at]), one) for one, at in through if lateness[at] > 0
        ]
        return arrived

    def _data(self, weights: Vector) -> Vector:
        """Return the entries of a mixing matrix, shape (nnz,), with these weights on the links.

        What is left of each row is on the diagonal.
        """
        n = self.mixing.n_nodes
        data = np.empty(self.mixing.matrix.nnz)
        data[self._off] = weights
        data[self._diagonal] = 1.0 - np.bincount(self.links[1], weights, minlength=n)
        return data

    def weights_now(self) -> list[Vector]:
        """Return each block's mixing weights in this exchange, in its halo's order; 0 for rows that did not arrive."""
        if self.round is None:
            return super().weights_now()
        data, pointers = self._data(self._graph * self._received), self.mixing.matrix.indptr
        return [data[pointers[ids[0]] : pointers[ids[-1] + 1]] for ids in self.blocks]

    @property
    def effective(self) -> sp.csr_array:
        """Mixing matrix of the last exchange, (K, K), made of the links that worked both ways.

        It is symmetric and doubly stochastic.
        """
        matrix = self.mixing.matrix
        data = self._data(self._graph * (self._received & self._received[self._back]))
        return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
