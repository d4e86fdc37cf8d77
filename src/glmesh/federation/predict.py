"""A prediction that several sites make together, where each holds coefficients of its own features only.

Every site computes its X_k w_k; these vectors are passed on from neighbour to neighbour until all have all, and all
add them up in the same order. No site sees another's features or coefficients.
"""

from __future__ import annotations

import time
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from glmesh.errors import GlmeshError, InvalidInput
from glmesh.federation.config.federation import difference
from glmesh.federation.config.site import Site
from glmesh.federation.monitor.log import Log
from glmesh.federation.wire.frames import CONTROL, Kind, Violation, pack_json, pack_vector, unpack_vector
from glmesh.federation.wire.inbox import Message
from glmesh.federation.wire.links import Links
from glmesh.files.model_files import Model
from glmesh.types import AnyArray, Matrix, Vector

PURPOSE = "predict"
_LINGER = 10.0  # seconds that a site stays to pass on what others lack


def processes(path: str | PathLike[str], model: Model, X: AnyArray, *, seconds: float = 60.0) -> tuple[Model, Matrix]:
    """(a model of one coefficient, the decisions as its only feature), the same at all sites."""
    site = Site.read(path)
    if site.federation.problem.split != "features":
        raise InvalidInput("split by samples every site has the whole model; predict without --node")
    own = replace(model, intercept=0.0).decision(X)
    scores, intercept = _Prediction(site, own, float(model.intercept)).run(seconds)
    return replace(model, coef=np.ones(1), intercept=intercept), scores[:, None]


class _Prediction:
    """The parts that have come so far."""

    def __init__(self, site: Site, own: Vector, intercept: float) -> None:
        self.site, self.m = site, len(own)
        self.entries = site.federation.entries()
        self.parts: dict[int, tuple[Vector, float]] = {site.me: (own, intercept)}
        self.finished: set[int] = set()
        hello = {"purpose": PURPOSE, "entries": self.entries, "rows": self.m}
        self.links = Links(site, Log(site.file.name), hello, self._check)

    def _check(self, peer: int, hello: dict[str, Any]) -> str | None:
        if hello.get("purpose") != PURPOSE:
            return "does not predict"
        entries = hello.get("entries")
        differs = difference(self.entries, entries) if isinstance(entries, dict) else "nothing is told of it"
        if differs is not None:
            return f"has another configuration: {differs}"
        return (
            None if hello.get("rows") == self.m else f"predicts {hello.get('rows')} rows, {self.m} are predicted here"
        )

    def run(self, seconds: float) -> tuple[Vector, float]:
        self.links.start()
        self.links.allow(8 * self.m + CONTROL)
        members = range(len(self.site.federation.members))
        try:
            end = time.monotonic() + seconds
            while len(self.parts) < len(members):
                if time.monotonic() > end:
                    raise GlmeshError(self._missing())
                self._take(self.links.inbox.get(0.2))
            self._tell(Kind.BYE, pack_json({}))
            end = time.monotonic() + _LINGER
            while time.monotonic() < end and self.finished < set(self.links.links):
                self._take(self.links.inbox.get(0.2))
            self.links.flush(1.0)
        finally:
            self.links.close()
        total = np.zeros(self.m)
        for node in members:
            total += self.parts[node][0]
        return total, self.parts[0][1]

    def _missing(self) -> str:
        members, links = self.site.federation.members, self.links.links.values()
        missing = [member.name for number, member in enumerate(members) if number not in self.parts]
        whys = "".join(f"; {link.refused or f'{link.name}: {link.why}'}" for link in links if not link.up)
        return f"nothing came from {', '.join(missing)}; all sites predict at the same time{whys}"

    def _tell(self, kind: Kind, content: bytes, *, but: int | None = None) -> None:
        for peer in self.links.links:
            if peer != but:
                self.links.send(peer, kind, content)

    def _part(self, node: int) -> bytes:
        vector, intercept = self.parts[node]
        return pack_vector({"node": node, "intercept": intercept}, vector)

    def _take(self, message: Message | None) -> None:
        if message is None:
            return
        try:
            if message.up:
                for node in self.parts:
                    self.links.send(message.peer, Kind.PART, self._part(node))
                if len(self.parts) == len(self.site.federation.members):
                    self.links.send(message.peer, Kind.BYE, pack_json({}))
            elif message.kind is Kind.BYE:
                self.finished.add(message.peer)
            elif message.kind is Kind.PART:
                self._learn(message)
            elif message.kind is not None:
                raise Violation(f"a message of kind {message.kind.name} in a prediction")
        except Violation as error:
            self.links.drop(message.peer, str(error))

    def _learn(self, message: Message) -> None:
        info, vector = unpack_vector(message.content, self.m)
        node, intercept = info.get("node"), info.get("intercept")
        if type(node) is not int or not 0 <= node < len(self.site.federation.members):
            raise Violation("a part of nobody")
        if not isinstance(intercept, int | float):
            raise Violation("a part without intercept")
        if node not in self.parts:
            self.parts[node] = vector, float(intercept)
            self._tell(Kind.PART, self._part(node), but=message.peer)
