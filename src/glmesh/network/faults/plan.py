"""Plan of what fails in a simulated network, and when.

Every answer depends on the plan, the round or exchange, and the node or link alone. Randomness is a hash of those, not
a stream, so a resumed run, or one that asks in another order, sees the same faults.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidInput, InvalidNetwork
from glmesh.network.faults.entries import (
    CHANCES,
    MODELS,
    Down,
    Join,
    Leave,
    LinkFailure,
    NetworkPartition,
    Random,
    Straggler,
    Window,
    graph_list,
    keyed,
    list_of,
    load_tables,
    plain,
    read_entry,
    refuse_unknown,
    stated,
    whole,
)
from glmesh.network.faults.links import among, message_ends, neighbours_of, reachable
from glmesh.types import Flags, Indices, Vector

_LATEST = 3  # [exchanges] longest delay of a message; docs/elasticity.md

_TABLES: dict[str, type[Any]] = {
    "random": Random,
    "down": Down,
    "link": LinkFailure,
    "partition": NetworkPartition,
    "join": Join,
    "leave": Leave,
    "straggler": Straggler,
}
_TOP = ("seed", *_TABLES, "graphs")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What fails in a simulated network, and when; call `check` before any question about a network.

    Parameters
    ----------
    seed : int, default 0
        Seed of the random faults.
    random : tuple of Random, default ()
        Faults by chance: dropout of nodes, loss, duplicates and delays of messages, failures of links.
    down : tuple of Down, default ()
        Nodes that are away during a window.
    link : tuple of LinkFailure, default ()
        Links that fail during a window, one way or both.
    partition : tuple of NetworkPartition, default ()
        Groups of nodes that are cut off from each other during a window.
    join : tuple of Join, default ()
        Nodes that are no members before a round.
    leave : tuple of Leave, default ()
        Nodes that are no members from a round on.
    straggler : tuple of Straggler, default ()
        Nodes that are slow or inaccurate during a window.
    graphs : tuple of tuples of (int, int), default ()
        Links of each exchange in turn, repeated for ever; empty: the graph does not change.

    Examples
    --------
    >>> from glmesh.network.faults import Plan
    >>> plan = Plan.of({"random": [{"loss": 0.1, "until": 50}], "leave": [{"node": 3, "round": 20}]})
    >>> plan.members(20, 5).tolist()
    [True, True, True, False, True]
    >>> plan.quiet_from()
    50
    """

    seed: int = 0
    random: tuple[Random, ...] = ()
    down: tuple[Down, ...] = ()
    link: tuple[LinkFailure, ...] = ()
    partition: tuple[NetworkPartition, ...] = ()
    join: tuple[Join, ...] = ()
    leave: tuple[Leave, ...] = ()
    straggler: tuple[Straggler, ...] = ()
    graphs: tuple[tuple[tuple[int, int], ...], ...] = ()

    @staticmethod
    def of(plan: "Plan | Mapping[str, Any] | str | os.PathLike[str] | None") -> "Plan":
        """Return a plan from plain data or a TOML file.

        Parameters
        ----------
        plan : Plan, mapping, path or None
            Tables of the plan, or the path of a TOML file with them; None is the plan in which nothing fails.

        Returns
        -------
        Plan
            The plan; a Plan is returned as it is.

        Raises
        ------
        InvalidInput
            A key or a value is wrong; the message says where, and what would do.
        UnreadableFile
            There is no such file, or it is no TOML.
        """
        if plan is None:
            return Plan()
        if isinstance(plan, Plan):
            return plan
        if isinstance(plan, Mapping):
            return _plan(plan)
        if not isinstance(plan, str | os.PathLike):
            raise InvalidInput(f"a fault plan is a dict or the path of a TOML file, got {plan!r}")
        data = load_tables(Path(plan))
        try:
            return _plan(data)
        except InvalidInput as error:
            raise InvalidInput(f"{plan}: {error}") from None

    def to_dict(self) -> dict[str, object]:
        """Return the plan as a dict of plain data, without fields that have their default; `Plan.of` reads it back."""
        return {key: plain(value) for key, value in stated(self).items()}

    @property
    def is_empty(self) -> bool:
        """Whether the plan is that in which nothing ever fails and no node is slow."""
        return not self.loses_messages and not self.straggler

    @property
    def loses_messages(self) -> bool:
        """Whether messages can be lost or members change: anything but slow nodes."""
        listed = self.down or self.link or self.partition or self.graphs or self.changes_members
        return bool(listed) or any(phase.strikes for phase in self.random)

    @property
    def changes_members(self) -> bool:
        """Whether a node joins or leaves."""
        return bool(self.join or self.leave)

    def quiet_from(self) -> int | None:
        """Return the first round from which on nothing fails, no node is slow and no member changes.

        None if something may fail for ever. A message that was delayed just before that round may still arrive after
        it.
        """
        windows = [*self._failures(), *self.straggler]
        ends = [window.end for window in windows if window.end is not None]
        if self.graphs or len(ends) < len(windows):
            return None
        return max([0, *ends, *(entry.round for entry in self.join + self.leave)])

    def is_calm(self, round: int) -> bool:
        """Return whether every member is up in this round, and every message between members arrives in time.

        A message that was delayed in an earlier round may still arrive.
        """
        return not self.graphs and not any(window.covers(round) for window in self._failures())

    def _failures(self) -> list[Window]:
        """Return all entries by which, while their windows last, nodes are away, links fail or messages are lost."""
        return [*(phase for phase in self.random if phase.strikes), *self.down, *self.link, *self.partition]

    def check(self, n_nodes: int, links: Collection[tuple[int, int]]) -> None:
        """Check that the plan fits a network.

        Parameters
        ----------
        n_nodes : int
            Number of nodes.
        links : collection of (int, int)
            Links of the network, in either order.

        Raises
        ------
        InvalidInput
            The plan names nodes or links that the network lacks, or leaves it without a member.
        InvalidNetwork
            The graphs of the plan, or the links that remain in the end, do not connect all members.
        """
        for place, node in self._named_nodes():
            if node >= n_nodes:
                raise InvalidInput(f"fault plan, {place}: there is no node {node}; the nodes are 0 to {n_nodes - 1}")
        neighbours = neighbours_of(links)
        for place, (a, b) in self._named_links():
            if b not in neighbours[a]:
                near = ", ".join(map(str, sorted(neighbours[a] - {a}))) or "no node"
                raise InvalidInput(f"fault plan, {place}: nodes {a} and {b} are not linked; {a} is linked to {near}")
        self._check_members(n_nodes)
        self._check_graphs(n_nodes)
        self._check_connected(n_nodes, {(min(link), max(link)) for link in links})

    def members(self, round: int, n_nodes: int) -> Flags:
        """Return a mask of shape (n_nodes,), true for each node that has joined and not left by this round."""
        members = np.ones(n_nodes, dtype=np.bool_)
        members[[entry.node for entry in self.join if round < entry.round]] = False
        members[[entry.node for entry in self.leave if round >= entry.round]] = False
        return members

    def up(self, round: int, n_nodes: int) -> Flags:
        """Return a mask of shape (n_nodes,), true for each member that is not away in this round.

        Random dropout spares a node in the round in which it joins.
        """
        return self.members(round, n_nodes) & ~self._away(round, n_nodes, MODELS)

    def presence(self, rounds: int, n_nodes: int) -> Vector:
        """Return an array of shape (rounds, n_nodes): 1 for members that are up, 0.5 for members away, 0 for others."""
        if not self.loses_messages:
            return np.ones((rounds, n_nodes))
        rows = [0.5 * self.members(t, n_nodes) + 0.5 * self.up(t, n_nodes) for t in range(rounds)]
        return np.array(rows).reshape(rounds, n_nodes)

    def resets(self, round: int, n_nodes: int) -> Flags:
        """Return a mask of shape (n_nodes,), true for each node whose absence with "reset" begins in this round.

        Those nodes lose their state.
        """
        away = self._away(round, n_nodes, ("reset",))
        return away if round == 0 else away & ~self._away(round - 1, n_nodes, ("reset",))

    def links_up(self, exchange: int, round: int, pairs: ArrayLike) -> Flags:
        """Return a mask with a flag per row (a, b) of `pairs`: false if the link carries nothing in this exchange.

        A link that fails one way only counts as up (`lost` tells its messages), and whether the nodes are up is not
        looked at. `round` is the number of the round that the exchange belongs to.
        """
        ends = np.sort(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), axis=1)
        low, high = ends[:, 0], ends[:, 1]
        up = np.ones(len(ends), dtype=np.bool_)
        if self.graphs:
            up &= among(low, high, self.graphs[exchange % len(self.graphs)])
        for phase, draw in self._draws("links", exchange, round, low, high):
            up &= draw >= phase.links
        up &= ~among(low, high, (e.between for e in self.link if not e.one_way and e.covers(round)))
        for entry in self.partition:
            if entry.covers(round):
                side = np.zeros(1 + max(int(ends.max(initial=0)), *map(max, entry.groups)), dtype=np.int64)
                for label, group in enumerate(entry.groups, start=1):
                    side[list(group)] = label
                up &= side[low] == side[high]
        return up

    def gone(self, round: int, links: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return the links, pairs (a, b) with a < b, that have failed for good by this round, one way or both."""
        failed = {tuple(sorted(entry.between)) for entry in self.link if entry.for_good(round)}
        sides = [entry.sides() for entry in self.partition if entry.for_good(round)]
        return {(a, b) for a, b in links if (a, b) in failed or any(side.get(a) != side.get(b) for side in sides)}

    def stages(self) -> list[int]:
        """Return the rounds at which members change or links fail for good, ascending from 0."""
        windows: list[Window] = [*self.link, *self.partition]
        starts = {window.start for window in windows if window.end is None}
        return sorted({0, *(entry.round for entry in self.join + self.leave), *starts})

    def lost(self, exchange: int, round: int, senders: ArrayLike, receivers: ArrayLike) -> Flags:
        """Return an array of booleans, True where the message senders[i] -> receivers[i] is lost on its way.

        `exchange` and `round` are the numbers, from 0, of the exchange and of its round. The reply to a message is a
        message of its own.
        """
        source, target = message_ends(senders, receivers)
        lost = np.zeros(source.shape, dtype=np.bool_)
        for phase, draw in self._draws("loss", exchange, round, source, target):
            lost |= draw < phase.loss
        for entry in self.link:
            if entry.one_way and entry.covers(round):
                lost |= (source == entry.between[0]) & (target == entry.between[1])
        return lost

    def copies(self, exchange: int, round: int, senders: ArrayLike, receivers: ArrayLike) -> Indices:
        """Return how many times, 1 or 2, each message senders[i] -> receivers[i] arrives, as an int array.

        `exchange` and `round` are the numbers, from 0, of the exchange and of its round. Whether the message is lost is
        not looked at.
        """
        source, target = message_ends(senders, receivers)
        copies = np.ones(source.shape, dtype=np.int64)
        for phase, draw in self._draws("duplicate", exchange, round, source, target):
            copies[draw < phase.duplicate] = 2
        return copies

    def lateness(self, exchange: int, round: int, senders: ArrayLike, receivers: ArrayLike) -> Indices:
        """Return by how many exchanges each message senders[i] -> receivers[i] is late, as an int array: 0, or 1 to 3.

        `exchange` and `round` are the numbers, from 0, of the exchange and of its round. Whether the message is lost is
        not looked at; 1, 2 and 3 have equal chances.
        """
        source, target = message_ends(senders, receivers)
        late = np.zeros(source.shape, dtype=np.int64)
        for phase, draw in self._draws("delay", exchange, round, source, target):
            share = np.minimum(draw, phase.delay) / phase.delay
            drawn = np.minimum(1 + np.floor(_LATEST * share), _LATEST).astype(np.int64)
            late = np.maximum(late, np.where(draw < phase.delay, drawn, 0))
        return late

    def theta(self, round: int, n_nodes: int) -> Vector:
        """Return the local accuracy at which each slow node stops its local solve in this round, shape (n_nodes,).

        It is the fraction, 0 to 1, of the possible decrease that is left: 1 makes no progress. If several entries of
        the plan name a node, the largest; NaN for nodes to which the plan gives no accuracy.
        """
        theta = np.full(n_nodes, np.nan)
        for entry in self.straggler:
            if entry.theta is not None and entry.covers(round):
                theta[entry.node] = np.fmax(theta[entry.node], entry.theta)
        return theta

    def delays(self, round: int, n_nodes: int) -> Vector:
        """Return the additional seconds that each node takes in this round, shape (n_nodes,); 0 for most nodes."""
        delays = np.zeros(n_nodes)
        for entry in self.straggler:
            if entry.delay is not None and entry.covers(round):
                delays[entry.node] += entry.delay
        return delays

    def _away(self, round: int, n_nodes: int, models: Collection[str]) -> Flags:
        """Return a mask of shape (n_nodes,), true for each member that is away by a cause whose model is in `models`.

        The models are "freeze" (the node keeps its state) and "reset" (the node loses its state). `round` is the number
        of the round.
        """
        away = np.zeros(n_nodes, dtype=np.bool_)
        for phase, draw in self._draws("dropout", round, round, np.arange(n_nodes)):
            if phase.model in models:
                away |= draw < phase.dropout
        away[[entry.node for entry in self.join if entry.round == round]] = False
        away[[entry.node for entry in self.down if entry.model in models and entry.covers(round)]] = True
        return away & self.members(round, n_nodes)

    def _draws(self, kind: str, when: int, round: int, *ids: Indices) -> Iterator[tuple[Random, Vector]]:
        """Yield (entry, numbers) for each entry of `Plan.random` whose window covers the round, for one kind of fault.

        `kind` names the fault, `when` is the number of the round or exchange. `numbers` are uniform in [0, 1), one per
        entry of the arrays `ids`: nodes, or the two ends of links or messages.
        """
        for index, phase in enumerate(self.random):
            if getattr(phase, kind) > 0 and phase.covers(round):
                yield phase, _uniform(self.seed, CHANCES.index(kind), index, when, *ids)

    def _named_nodes(self) -> Iterator[tuple[str, int]]:
        """Yield (place in the plan as text, id of the node) for every node that the plan names."""
        for key in ("down", "join", "leave", "straggler"):
            yield from ((f"{key}[{i}]", entry.node) for i, entry in enumerate(getattr(self, key)))
        for i, entry in enumerate(self.partition):
            yield from ((f"partition[{i}]", node) for group in entry.groups for node in group)
        yield from ((place, node) for place, link in self._named_links() for node in link)

    def _named_links(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield (place in the plan as text, (node, node)) for every link that the plan names."""
        yield from ((f"link[{i}]", entry.between) for i, entry in enumerate(self.link))
        yield from ((f"graphs[{i}][{j}]", link) for i, graph in enumerate(self.graphs) for j, link in enumerate(graph))

    def _check_members(self, n_nodes: int) -> None:
        """Raise InvalidInput if a node joins or leaves twice, leaves before it joins, or no member is left."""
        joined: dict[int, int] = {}
        left: dict[int, int] = {}
        for key, verb, rounds in (("join", "joins", joined), ("leave", "leaves", left)):
            for i, entry in enumerate(getattr(self, key)):
                if entry.node in rounds:
                    raise InvalidInput(
                        f"fault plan, {key}[{i}]: node {entry.node} {verb} twice, in rounds {rounds[entry.node]} and "
                        f"{entry.round}; a node {verb} once, and [[down]] is for one that comes back"
                    )
                rounds[entry.node] = entry.round
        for i, entry in enumerate(self.leave):
            if entry.round <= joined.get(entry.node, -1):
                raise InvalidInput(
                    f"fault plan, leave[{i}]: node {entry.node} leaves in round {entry.round}, but joins in round "
                    f"{joined[entry.node]}; let it leave later"
                )
        for round in sorted({0, *joined.values(), *left.values()}):
            if not self.members(round, n_nodes).any():
                raise InvalidInput(
                    f"fault plan: no node is a member in round {round}; let one join earlier or leave later"
                )

    def _check_graphs(self, n_nodes: int) -> None:
        """Raise InvalidNetwork if the union of all graphs of the plan does not connect the n_nodes nodes."""
        if not self.graphs:
            return
        if missing := set(range(n_nodes)) - reachable(0, {link for graph in self.graphs for link in graph}):
            raise InvalidNetwork(
                f"fault plan, graphs: node {min(missing)} is never reached from node 0, in all graphs together; "
                "add a link that leads there"
            )

    def _check_connected(self, n_nodes: int, links: set[tuple[int, int]]) -> None:
        """Raise InvalidNetwork if links that fail for good cut off a member in the end."""
        last = self.stages()[-1]
        members = set(np.flatnonzero(self.members(last, n_nodes)).tolist())
        if self.graphs:
            links = links & {(min(link), max(link)) for graph in self.graphs for link in graph}
        left = {link for link in links - self.gone(last, links) if members.issuperset(link)}
        start = min(members)
        apart = members - reachable(start, left)
        if apart:
            raise InvalidNetwork(
                f"fault plan: from round {last} on node {min(apart)} and node {start} are cut off from each other for "
                "good; give the link or partition an until, let another node leave, or add links to the topology"
            )


def _plan(data: Mapping[str, object]) -> Plan:
    """Return the Plan that plain data (a dict of tables) describes; raise InvalidInput that says where it is wrong."""
    refuse_unknown(data, _TOP, "fault plan")
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key in _TABLES:
            entries = keyed("fault plan", key, partial(list_of, wanted=f"a list of tables, [[{key}]] in TOML"), value)
            values[key] = tuple(read_entry(_TABLES[key], entry, f"{key}[{i}]") for i, entry in enumerate(entries))
        else:
            values[key] = keyed("fault plan", key, graph_list if key == "graphs" else whole, value)
    return Plan(**values)


def _uniform(*parts: int | Indices) -> Vector:
    """Return floats in [0, 1), a hash of each tuple of whole numbers in `parts`, broadcast to one shape.

    Equal tuples give equal numbers. The hash is splitmix64's finaliser, chained over the parts.
    """
    state = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            state = (state ^ np.asarray(part).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return np.asarray(state >> np.uint64(11), dtype=np.float64) * 2.0**-53
