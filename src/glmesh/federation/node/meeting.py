"""First phase of a node: meet the neighbours and gather what all members must know of each other's data."""

import logging

import numpy as np

from glmesh.core import Violation
from glmesh.errors import InvalidData
from glmesh.federation.config import Site, difference
from glmesh.federation.node.agreed import Agreed
from glmesh.federation.node.checkpoint import Store
from glmesh.federation.node.neighbourhood import Neighbourhood
from glmesh.federation.node.rows import RowDigests, read_site_table
from glmesh.federation.wire import SUMMARY, TRAIN, GossipEntry, Hello


class Meeting:
    """First phase of a node: it has read its own data, and gathers what it must know of all other members' data."""

    def __init__(self, site: Site, log: logging.Logger) -> None:
        self._site, self._federation = site, site.federation
        table = read_site_table(site.data, target=site.file.target or None, ids=site.file.ids or None)
        self._data = table.node_data(site.federation.problem.model(), site.file.name)
        self._rows = table.digests() if site.federation.problem.split == "features" else None
        rows = None if self._rows is None else self._rows.to_json()
        hello = Hello(site.file.name, site.federation.entries(), rows=rows)
        self.neighbourhood = Neighbourhood(site, log, hello, self._check)

    def _check(self, peer: int, hello: Hello) -> str | None:
        """Return why a neighbour that sent this HELLO cannot train with this node; None if it can."""
        if hello.purpose != TRAIN:
            return "does not train but predict"
        differs = difference(self._federation.entries(), hello.entries)
        if differs is not None:
            return f"has another configuration: {differs}"
        if self._rows is None:
            return None
        try:
            wrong = self._rows.misaligned(RowDigests.from_json(hello.rows or {}))
        except Violation as error:
            wrong = str(error)
        return None if wrong is None else f"its rows are not aligned with those of {self._site.file.name}: {wrong}"

    def run(self) -> Agreed | None:
        """Exchange data summaries until those of all members that are not late are known; return the next phase.

        None is returned if the node was stopped before. InvalidInput is raised if all neighbours refuse this node,
        InvalidData if a late node's data does not fit.
        """
        neighbourhood, me = self.neighbourhood, self._site.me
        gossip, own = neighbourhood.gossip, self._data.summary()
        store = Store(self._site, self._data)
        saved = store.load()
        neighbourhood.links.start()
        if saved is not None:
            gossip.merge(saved["gossip"])
        late = self._federation.members[me].late
        if not late:
            gossip.publish(GossipEntry(SUMMARY, me, 1, numbers=own.to_vector().tolist()))
        neighbourhood.phase = "meeting"
        needed = np.flatnonzero(self._federation.members_at_start).tolist()
        while (summary := gossip.summary(needed)) is None:
            if neighbourhood.stop.is_set():
                return None
            message = neighbourhood.next_message()
            if message is not None:
                neighbourhood.receive(message, lambda *_: None)
            neighbourhood.raise_if_refused()
        if late and not summary.admits(own):
            raise InvalidData(
                f"the data of {self._site.file.name} does not fit what the federation agreed on: "
                "it has more features, other rows, or other labels"
            )
        return Agreed(neighbourhood, self._data, summary, store, saved)
