"""The simulator's transport under a fault plan, which decides what gets through."""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp

from glmesh.collectives.routed import FloodedTotal, RoutedTotal, TreeTotal
from glmesh.core import Mail
from glmesh.core.transport import Unfinished
from glmesh.network import Mixing, Network, Plan
from glmesh.transports.local import LocalTransport
from glmesh.types import Flags, Indices, Unsigned, Vector

# [times the exchanges of a total without faults] after which a round ends without the total, if messages get lost:
# with one in twenty lost, a total takes about twice the exchanges
PATIENCE = 8


@dataclass
class DelayedMail:
    """A message that a fault plan delays."""

    due: int  # number of the exchange in which it arrives
    mail: Mail


@dataclass
class OpenTotals:
    """Totals of a round that was not finished: those that were made are kept, and the last one is gone on with."""

    number: int = 0  # of the next total
    open: RoutedTotal | None = None  # that the last round ended without; None: it had all its totals
    done: list[Unsigned] = field(default_factory=list)  # totals that the unfinished round had made
    turn: int = 0  # totals that the present round has asked for
    members: list[int] = field(default_factory=list)  # that all these totals are of
    contributions: list[str] = field(default_factory=list)  # digests of those to each of these totals, in turn

    def begin_round(self, members: Flags) -> None:
        """Go on with the totals of the round before if it was not finished and had the same members, or begin anew."""
        listed = np.flatnonzero(members).tolist()
        if self.open is None or listed != self.members:
            self.members = listed
            self._give_up(0)
        self.turn = 0

    def kept(self, rows: Unsigned) -> Unsigned | None:
        """Return the next total that this round asks for, if the round was begun before and had made it, else None.

        `rows` are the contributions. If they are others than before, because rows or penalty have changed since, that
        total and those after it are given up.
        """
        at, digest = self.turn, blake2b(np.ascontiguousarray(rows).data, digest_size=12).hexdigest()
        self.turn += 1
        if at < len(self.contributions) and self.contributions[at] != digest:
            self._give_up(at)
        if at == len(self.contributions):
            self.contributions = [*self.contributions, digest]
        return self.done[at] if at < len(self.done) else None

    def _give_up(self, first: int) -> None:
        """Drop all totals from the `first` on; messages of one that was given up count for no other."""
        self.open, self.done, self.contributions = None, self.done[:first], self.contributions[:first]
        self.number += 1

    def close(self, total: Unsigned) -> Unsigned:
        """Keep a total that all members hold, until the round is over, and return it."""
        self.done, self.open, self.number = [*self.done, total], None, self.number + 1
        return total


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
        self.totals = OpenTotals()
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
        self.totals.begin_round(plan.members(round, self.n_nodes))

    def add(self, contributions: list[Unsigned]) -> Unsigned:
        """Return the sums over all members modulo 2^64, shape (N,), by messages that are sent until they arrive.

        Raise `Unfinished` if not all members hold the sums when the round ends.
        """
        if self.round is None or not self.plan.loses_messages:
            return super().add(contributions)
        return self._total(np.concatenate(contributions), largest=False)

    def maximise(self, numbers: list[Indices]) -> Indices:
        """Return the maxima over all members, shape (n,), by messages that are sent until they arrive.

        Raise `Unfinished` if not all members hold the maxima when the round ends.
        """
        if self.round is None or not self.plan.loses_messages:
            return super().maximise(numbers)
        return self._total(np.concatenate(numbers).view(np.uint64), largest=True).view(np.int64)

    def _total(self, rows: Unsigned, *, largest: bool) -> Unsigned:
        """Return the total of the members' rows, shape (K, N), found by messages, or kept from a round before."""
        kept = self.totals.kept(rows)
        if kept is not None:
            return kept
        assert self.round is not None
        members, up = self.plan.members(self.round, self.n_nodes), self.plan.up(self.round, self.n_nodes)
        total = self.totals.open or self._begin_total(rows, members, largest=largest)
        away = bool((members & ~up).any())
        limit = (1 if away else PATIENCE) * max(self.routes.exchanges(rows.shape[1]), 1)
        nothing = np.zeros(self.n_nodes)
        while not total.held_by(members):
            if limit == 0 or (away and total.complete_among(up)):
                self.totals.open = total
                raise Unfinished("a member is away, or messages get lost: the total is gone on with in the next round")
            total.incoming(self._deliver(nothing, total.outgoing(self.routes)), self.routes)
            limit -= 1
        return self.totals.close(total.result(int(np.flatnonzero(members)[0])))

    def _begin_total(self, rows: Unsigned, members: Flags, *, largest: bool) -> RoutedTotal:
        """Return a new total: along the tree if that is shorter, all are members and no link is gone for good."""
        numbers, number = rows.shape[1], self.totals.number
        stands = members.all() and not self.plan.graphs and not self.plan.gone(self.round or 0, self._place)
        if stands and not self.routes.floods(numbers):
            return TreeTotal.of(number, rows, self.routes, largest=largest)
        return FloodedTotal.of(number, rows, members, self.routes.diameter, largest=largest)

    def state(self) -> dict[str, object]:
        """Return all that changes from exchange to exchange, messages on their way included, for a checkpoint."""
        return super().state() | {
            "exchanges": self.exchanges,
            "delayed": self.delayed,
            "totals": self.totals,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` of another transport returned, messages on their way included."""
        super().restore(state)
        self.exchanges, self.delayed = state["exchanges"], state["delayed"]
        self.totals = state.get("totals") or OpenTotals()  # files of earlier releases have none

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
        arrived += self._due()
        self.delayed += [
            DelayedMail(self.exchanges + int(lateness[at]), one) for one, at in through if lateness[at] > 0
        ]
        return arrived

    def _due(self) -> list[Mail]:
        """Take the delayed messages out that are due in this exchange; return those whose link stands."""
        due = [delayed.mail for delayed in self.delayed if delayed.due <= self.exchanges]
        self.delayed = [delayed for delayed in self.delayed if delayed.due > self.exchanges]
        return [one for one in due if self._alive[self._place[one.sender, one.receiver]]]

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
