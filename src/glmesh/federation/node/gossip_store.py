"""Small statements about nodes (`GossipEntry`) that every node passes on until all have them."""

from collections.abc import Callable, Collection

from glmesh.federation.wire import COMPARED, FITS, OFFER, REFUSED, DataOffer, Flood, GossipEntry, unexpected

Key = tuple[str, int]  # (kind, node)


class GossipStore:
    """The newest statement that a node has heard of each kind about each node, which it passes on to its neighbours."""

    def __init__(self, n_nodes: int, peers: Collection[int], send: Callable[[int, dict[str, object]], None]) -> None:
        self._n_nodes = n_nodes

        def post(peer: int, entries: list[GossipEntry]) -> None:
            """Send statements to neighbour `peer`: each offer, which may be long, by itself, all others together."""
            offers = [[entry] for entry in entries if entry.offer is not None]
            for some in [*offers, [entry for entry in entries if entry.offer is None]]:
                if some:
                    send(peer, _message(some))

        self._flood: Flood[Key, GossipEntry] = Flood(peers, post)
        self.greet = self._flood.greet

    def publish(self, *entries: GossipEntry) -> None:
        """Store statements that this node makes, and send to all neighbours those that are new.

        A statement is new if its stamp is larger than that of the stored one.
        """
        self._flood.spread([(one.kind, one.node) for one in entries if self._keep(one)])

    def merge(self, message: dict[str, object], source: int | None = None) -> list[Key]:
        """Store those statements of a GOSSIP message that are new, and send them to all neighbours but `source`.

        Return their keys, a list of (kind, node). Violation is raised for a message that is malformed.
        """
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
        """Store a statement if it is newer, with a larger stamp, than the stored one; return whether it was stored."""
        return self._flood.keep((entry.kind, entry.node), entry.stamp, entry)

    def number(self, kind: str, node: int) -> int | None:
        """Return the number in the stored statement of this kind about node `node`; None if there is none."""
        found = self._flood.entries.get((kind, node))
        return None if found is None else found[1].number

    def knows(self, kind: str, node: int) -> bool:
        """Return whether a statement of this kind about node `node` is stored."""
        return (kind, node) in self._flood.entries

    def why(self, node: int) -> str:
        """Return why node `node` is refused, as text; "" if no stored statement says that it is."""
        found = self._flood.entries.get((REFUSED, node))
        return "" if found is None else found[1].why

    def stamp(self, kind: str, node: int) -> int:
        """Return the stamp, a counter, of the stored statement of this kind about node `node`; -1 if there is none."""
        return self._flood.stamp((kind, node))

    def compared(self) -> dict[int, dict[int, bool]]:
        """Return {node: {neighbour: whether the node found the neighbour's targets equal to its own}}.

        Neighbours that a node has not compared are missing.
        """
        return {node: entry.compared for node, entry in self._of(COMPARED).items()}

    def offers(self) -> dict[int, DataOffer]:
        """Return {node: what its site tells of its table} of the nodes whose offer has come."""
        return {node: entry.offer for node, entry in self._of(OFFER).items() if entry.offer is not None}

    def refused(self) -> dict[int, str]:
        """Return {node: why it cannot take part}.

        A node that has said that its table fits is left out, whatever others said.
        """
        known = self._of(FITS)
        return {node: entry.why for node, entry in self._of(REFUSED).items() if node not in known}

    def _of(self, kind: str) -> dict[int, GossipEntry]:
        """Return {node: stored statement} of one kind, with nodes ascending."""
        found = {node: entry for (one, node), (_, entry) in self._flood.entries.items() if one == kind}
        return dict(sorted(found.items()))

    def to_json(self) -> dict[str, object]:
        """Return all stored statements as the JSON object of a GOSSIP message, which `merge` reads."""
        return _message([entry for _, entry in self._flood.entries.values()])


def _message(entries: list[GossipEntry]) -> dict[str, object]:
    """Return the content of a GOSSIP message with these entries, a JSON object."""
    return {"entries": [entry.to_json() for entry in entries]}
