"""The simulator's transport under a fault plan, which decides what gets through."""

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import scipy.sparse as sp

from glmesh.collectives.messages import Contribution
from glmesh.collectives.routed import FloodedTotal, RoutedTotal, TreeTotal
from glmesh.core import Mail
from glmesh.core.transport import Unfinished
from glmesh.network import Mixing, Network, Plan
from glmesh.transports.local import LocalTransport
from glmesh.types import Flags, Indices, Tree, Unsigned, Vector

# [times the exchanges of a total without faults] after which a round ends without the total, if messages get lost:
# with one in twenty lost, a total takes about twice the exchanges
PATIENCE = 8


@dataclass
class DelayedMail:
    """A message that a fault plan delays, with the number of the exchange in which it arrives (`due`)."""

    due: int  # number of the exchange in which the message arrives
    mail: Mail


@dataclass
class OpenTotals:
    """Totals, sums over all nodes, of a round that ended before every member held them all, to be gone on with later.

    Totals that were made are kept, and messages about the last one that had arrived still count.
    """

    number: int = 0  # number of the next total, which its messages carry
    open: RoutedTotal | None = None  # total that the last round ended without; None: it had all
    done: list[Contribution] = field(default_factory=list)  # totals that the unfinished round had made
    turn: int = 0  # totals that the present round has asked for
    members: list[int] = field(default_factory=list)  # ids of the nodes over which these totals go
    contributions: list[str] = field(default_factory=list)  # digest of all contributions to each total, in turn

    def begin_round(self, members: Flags) -> None:
        """Begin a round; `members` is a mask of shape (K,), True for nodes that take part in the run.

        Totals of the round before are kept if it was not finished and had the same members, else dropped. A total is a
        sum over all nodes.
        """
        listed = np.flatnonzero(members).tolist()
        if self.open is None or listed != self.members:
            self.members = listed
            self._give_up(0)
        self.turn = 0

    def kept(self, rows: Contribution) -> Contribution | None:
        """Return the next total that this round asks for, shape (N,), if an unfinished round had made it; else None.

        `rows` are the contributions of all K nodes to that total, shape (K, N). If they are others than in the
        unfinished round, because data or penalty have changed since, that total and those after it are dropped. A total
        is a sum over all nodes.
        """
        at, digest = self.turn, blake2b(np.ascontiguousarray(rows).data, digest_size=12).hexdigest()
        self.turn += 1
        if at < len(self.contributions) and self.contributions[at] != digest:
            self._give_up(at)
        if at == len(self.contributions):
            self.contributions = [*self.contributions, digest]
        return self.done[at] if at < len(self.done) else None

    def _give_up(self, first: int) -> None:
        """Drop all totals from number `first` of the round on; messages about them are ignored from now on.

        A total is a sum over all nodes.
        """
        self.open, self.done, self.contributions = None, self.done[:first], self.contributions[:first]
        self.number += 1

    def close(self, total: Contribution) -> Contribution:
        """Store a total, shape (N,), that all members hold, until the round is over, and return it.

        A total is a sum over all nodes.
        """
        self.done, self.open, self.number = [*self.done, total], None, self.number + 1
        return total


class FaultyTransport(LocalTransport):
    """The simulator's transport under a fault plan: messages cross only links that the plan leaves standing.

    Weights adapt at once and locally: a link that fails leaves its weight on the diagonals of both ends, so the mixing
    matrix of an exchange stays symmetric and doubly stochastic while links fail both ways. A message lost one way
    changes the mean of all rows; push-flow gossip, which sends mail, repairs that.
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
        """Begin round number `round`: its exchanges, from now on, fail as `plan` says."""
        self.plan, self.round = plan, round
        self.totals.begin_round(plan.members(round, self.n_nodes))

    def add(self, contributions: list[Unsigned]) -> Unsigned:
        """Return the sums over all members modulo 2^64, uint64 of shape (N,), of N integers per node.

        `contributions` has an array (n_hosted, N) per block of nodes. Messages are sent again until they arrive. Raise
        `Unfinished` if not all members hold the sums when the round ends.
        """
        if self.round is None or not self.plan.loses_messages:
            return super().add(contributions)
        return self._total(np.concatenate(contributions), largest=False).view(np.uint64)

    def maximise(self, numbers: list[Indices]) -> Indices:
        """Return the maxima over all members, shape (n,), of n integers per node.

        `numbers` has an array (n_hosted, n) per block of nodes. Messages are sent again until they arrive. Raise
        `Unfinished` if not all members hold the maxima when the round ends.
        """
        if self.round is None or not self.plan.loses_messages:
            return super().maximise(numbers)
        return self._total(np.concatenate(numbers).astype(np.int16), largest=True).astype(np.int64)

    def _total(self, rows: Contribution, *, largest: bool) -> Contribution:
        """Return the sums (if `largest`, maxima) over the members of the nodes' `rows`, (K, N), in shape (N,).

        Messages are sent until all members hold them; Unfinished is raised if they do not in this round.
        """
        kept = self.totals.kept(rows)
        if kept is not None:
            return kept
        assert self.round is not None
        members, up = self.plan.members(self.round, self.n_nodes), self.plan.up(self.round, self.n_nodes)
        total = self.totals.open or self._begin_total(rows, members, largest=largest)
        away = bool((members & ~up).any())
        limit = (1 if away else PATIENCE) * max(self.routes.exchanges(rows[0].nbytes), 1)
        nothing = np.zeros(self.n_nodes)
        while not total.held_by(members):
            if limit == 0 or (away and total.complete_among(up)):
                self.totals.open = total
                raise Unfinished("a member is away, or messages get lost: the total is gone on with in the next round")
            total.incoming(self._deliver(nothing, total.outgoing(self.routes)), self.routes)
            limit -= 1
        return self.totals.close(total.result(int(np.flatnonzero(members)[0])))

    def _begin_total(self, rows: Contribution, members: Flags, *, largest: bool) -> RoutedTotal:
        """Return a new RoutedTotal of `rows`, shape (K, N), over `members`, a mask of shape (K,).

        `largest`: maxima, not sums. It goes along the spanning tree if rows are too long to flood, all nodes are
        members and no link is gone for good; else by flooding, along trees in a round in which nothing fails.
        """
        number, round = self.totals.number, self.round or 0
        stands = bool(members.all()) and not self.plan.graphs and not self.plan.gone(round, self._place)
        if stands and not self.routes.floods(rows[0].nbytes):
            return TreeTotal.of(number, rows, self.routes, largest=largest)
        trees = stands and self.plan.is_calm(round)
        return FloodedTotal.of(number, rows, members, self.routes.diameter, largest=largest, trees=trees)

    def state(self) -> dict[str, object]:
        """Return a dict for a checkpoint: traffic, clock, exchanges made, delayed messages and unfinished totals.

        A total is a sum over all nodes.
        """
        return super().state() | {
            "exchanges": self.exchanges,
            "delayed": self.delayed,
            "totals": self.totals,
        }

    def restore(self, state: Tree) -> None:
        """Replace counters, clock, delayed messages and unfinished totals by those that `state` returned.

        A total is a sum over all nodes.
        """
        super().restore(state)
        self.exchanges, self.delayed = state["exchanges"], state["delayed"]
        self.totals = state.get("totals") or OpenTotals()  # files of earlier releases have none

    def _deliver(self, row_sizes: Vector, mail: list[Mail]) -> list[Mail]:
        """Return the messages that arrive in this exchange: sent now and not lost, or delayed until now; count bytes.

        `row_sizes` has the bytes of each node's rows. Outside of a round nothing fails.
        """
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
        """Return the messages that arrive in this exchange: those of `mail` in time, second copies, then delayed ones.

        Late messages come last, which is hardest for receivers. `places` has the index of each message's link.
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
        """Remove the delayed messages that are due in this exchange; return those whose link stands.

        The others are lost.
        """
        due = [delayed.mail for delayed in self.delayed if delayed.due <= self.exchanges]
        self.delayed = [delayed for delayed in self.delayed if delayed.due > self.exchanges]
        return [one for one in due if self._alive[self._place[one.sender, one.receiver]]]

    def _data(self, weights: Vector) -> Vector:
        """Return the stored entries of the mixing matrix, shape (nnz,), with `weights` on the directed links.

        `weights` has an entry per directed link; the diagonal is set so that each row sums to 1.
        """
        n = self.mixing.n_nodes
        data = np.empty(self.mixing.matrix.nnz)
        data[self._off] = weights
        data[self._diagonal] = 1.0 - np.bincount(self.links[1], weights, minlength=n)
        return data

    def weights_now(self) -> list[Vector]:
        """Return an array of mixing weights per block of nodes for this exchange, in the order of its Halo.

        A weight is 0 for a neighbour whose message did not arrive. A Halo is all that a block's nodes received in one
        exchange.
        """
        if self.round is None:
            return super().weights_now()
        data, pointers = self._data(self._graph * self._received), self.mixing.matrix.indptr
        return [data[pointers[ids[0]] : pointers[ids[-1] + 1]] for ids in self.blocks]

    @property
    def effective(self) -> sp.csr_array:
        """Mixing matrix of the last exchange, (K, K), of the links that worked both ways; the others have 0.

        The matrix is symmetric and doubly stochastic. K is the number of nodes.
        """
        matrix = self.mixing.matrix
        data = self._data(self._graph * (self._received & self._received[self._back]))
        return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
