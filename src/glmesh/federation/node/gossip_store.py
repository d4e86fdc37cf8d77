"""Small statements about nodes (`GossipEntry`) that every node passes on until all have them."""

from collections.abc import Callable, Collection

from glmesh.federation.wire import SUMMARY, Flood, GossipEntry, unexpected
from glmesh.problem import DataSummary

Key = tuple[str, int]  # (kind, node)


class GossipStore:
    """What a node knows of all nodes, by (kind, node); what is news it sends to its neighbours."""

    def __init__(self, n_nodes: int, peers: Collection[int], send: Callable[[int, dict[str, object]], None]) -> None:
        self._n_nodes = n_nodes
        self._flood: Flood[Key, GossipEntry] = Flood(peers, lambda peer, entries: send(peer, _message(entries)))
        self.greet = self._flood.greet

    def publish(self, *entries: GossipEntry) -> None:
        """Keep statements of this node's own and send them to all neighbours."""
        self._flood.spread([(one.kind, one.node) for one in entries if self._keep(one)])

    def merge(self, message: dict[str, object], source: int | None = None) -> list[Key]:
        """Take over and pass on what is news in a neighbour's message; return the keys of that. Raise Violation."""
        entries = message.get("entries")
        if not isinstance(entries, list):
            raise unexpected("GOSSIP, entries", "a list", entries)
        read = [
            GossipEntry.from_json(one, f"GOSSIP entry {number}", self._n_nodes) for number, one in enumerate(entries)
        ]
        news = [(one.kind, one.node) for one in read if self._keep(one)]
        self._flood.spread(news, source)
        return news

    def _keep(self, entry: GossipEntry) -> bool:
        """Return whether an entry is newer than what is known, and keep it then."""
        return self._flood.keep((entry.kind, entry.node), entry.stamp, entry)

    def number(self, kind: str, node: int) -> int | None:
        """Return the number that is known of a kind (any but `summary`) about a node; None if none is."""
        found = self._flood.entries.get((kind, node))
        return None if found is None else found[1].number

    def stamp(self, kind: str, node: int) -> int:
        """Return the stamp of what is known; -1 if nothing is."""
        return self._flood.stamp((kind, node))

    def summary(self, nodes: Collection[int]) -> DataSummary | None:
        """Return the summary of the data of these nodes; None until those of all are known."""
        found = [self._flood.entries.get((SUMMARY, node)) for node in nodes]
        known = [DataSummary.from_vector(one[1].numbers) for one in found if one is not None]
        return DataSummary.merge(known) if len(known) == len(nodes) else None

    def to_json(self) -> dict[str, object]:
        """Return all entries as a message that `merge` takes."""
        return _message([entry for _, entry in self._flood.entries.values()])


def _message(entries: list[GossipEntry]) -> dict[str, object]:
    """Return the GOSSIP message with these entries."""
    return {"entries": [entry.to_json() for entry in entries]}
