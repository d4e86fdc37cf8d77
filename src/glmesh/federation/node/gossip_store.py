"""Small facts that every node passes on to its neighbours until all have them; for each key the largest stamp counts.

| kind    | value                                                                    |
|---------|--------------------------------------------------------------------------|
| `facts` | the numbers of `DataSummary.to_vector`, of which all take the maximum    |
| `done`  | the round that the node holds a good enough certificate about, or -1     |
| `heir`  | the neighbour that would count the node's share, should it never return  |
| `count` | how often it joined and left, of those who were given up (odd: a member) |
"""

from __future__ import annotations

import math
from typing import Any

from glmesh.federation.wire.frames import Violation
from glmesh.problem.summary import DataSummary

_KINDS = ("facts", "done", "heir", "count")


class Board:
    """What a node knows; keys are (kind, node)."""

    def __init__(self, n_nodes: int, n_facts: int) -> None:
        self._n_nodes, self._n_facts = n_nodes, n_facts
        self.entries: dict[tuple[str, int], tuple[int, Any]] = {}

    def put(self, kind: str, node: int, stamp: int, value: Any) -> bool:
        """Whether this is news."""
        before = self.entries.get((kind, node))
        if before is not None and before[0] >= stamp:
            return False
        self.entries[kind, node] = stamp, value
        return True

    def get(self, kind: str, node: int) -> Any:
        """None if nothing is known."""
        return self.entries.get((kind, node), (0, None))[1]

    def stamp(self, kind: str, node: int) -> int:
        """Of what is known; -1 if nothing is."""
        return self.entries.get((kind, node), (-1, None))[0]

    def message(self, keys: list[tuple[str, int]] | None = None) -> dict[str, Any]:
        """All of it, or these entries, as plain data."""
        chosen = self.entries if keys is None else {key: self.entries[key] for key in keys}
        return {"entries": [[kind, node, stamp, value] for (kind, node), (stamp, value) in chosen.items()]}

    def merge(self, message: dict[str, Any]) -> list[tuple[str, int]]:
        """Takes what is news from a neighbour's message; its keys."""
        entries = message.get("entries")
        if not isinstance(entries, list):
            raise Violation("a board without entries")
        news = []
        for entry in entries:
            kind, node, stamp, value = self._checked(entry)
            if self.put(kind, node, stamp, value):
                news.append((kind, node))
        return news

    def _checked(self, entry: Any) -> tuple[str, int, int, Any]:
        if not isinstance(entry, list) or len(entry) != 4:
            raise Violation("an entry of a board that is none")
        kind, node, stamp, value = entry
        if kind not in _KINDS or type(node) is not int or not 0 <= node < self._n_nodes or type(stamp) is not int:
            raise Violation(f"an entry of a board about {kind!r} of {node!r}")
        if kind == "facts":
            good = isinstance(value, list) and len(value) == self._n_facts
            good = good and all(isinstance(one, int | float) and math.isfinite(one) for one in value)
        else:
            good = type(value) is int and -1 <= value < 1 << 62
        if not good or not 0 <= stamp < 1 << 62:
            raise Violation(f"{kind} that cannot be")
        return kind, node, stamp, value

    def summary(self, nodes: list[int]) -> DataSummary | None:
        """Return the summary of the data of these nodes, or None until all of theirs are known."""
        known = [self.get("facts", node) for node in nodes]
        if any(one is None for one in known):
            return None
        return DataSummary.merge([DataSummary.from_vector(one) for one in known])
