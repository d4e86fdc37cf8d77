"""A prediction that several sites make together, where each holds coefficients of its own features only.

Every site computes its part X_k w_k; the parts are flooded from neighbour to neighbour until all sites have all, and
all add them up in the same order. No site sees another's features or coefficients.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np

from glmesh.core import Violation
from glmesh.errors import GlmeshError, InvalidInput
from glmesh.federation.config import Site, difference
from glmesh.federation.monitor.log import line_handler, node_log
from glmesh.federation.wire import (
    CONTROL,
    PREDICT,
    Flood,
    Hello,
    JsonRecord,
    Kind,
    Message,
    PeerLinks,
    pack_json,
    pack_vector,
    unexpected,
    unpack_vector,
)
from glmesh.files.model_files import Model
from glmesh.types import Matrix, SampleMatrix, Vector

_POLL = 0.2  # [s] longest sleep while waiting for messages
_LINGER = 10.0  # [s] that a site stays to pass on what others lack


def predict_together(
    path: str | PathLike[str], model: Model, X: SampleMatrix, *, seconds: float = 60.0
) -> tuple[Model, Matrix]:
    """Predict with the other sites of a federation that is split by features.

    Parameters
    ----------
    path : str or path
        Node file of this site.
    model : Model
        This site's coefficients.
    X : array of shape (m, p_k)
        This site's features of the samples; all sites predict the same samples in the same order.
    seconds : float, default 60
        Time to wait for the parts of all other sites.

    Returns
    -------
    tuple of Model and array of shape (m, 1)
        A model with one coefficient, and the decisions as its only feature; the same bits at all sites.

    Raises
    ------
    InvalidInput
        The federation is split by samples.
    GlmeshError
        Parts are missing after `seconds`.
    """
    site = Site.read(path)
    if site.federation.problem.split != "features":
        raise InvalidInput("split by samples every site has the whole model; predict without --node")
    about = AboutPart(site.me, float(model.intercept))
    own = PredictionPart(about, replace(model, intercept=0.0).decision(X))
    with node_log(site.file.name) as log:
        log.addHandler(line_handler())
        scores, intercept = _Prediction(site, own, log).run(seconds)
    return replace(model, coef=np.ones(1), intercept=intercept), scores[:, None]


@dataclass(frozen=True)
class AboutPart(JsonRecord):
    """JSON head of a PART message: the number of the site whose scores the message holds, and that site's intercept."""

    node: int  # whose part it is
    intercept: float  # of that node's model


@dataclass(frozen=True, eq=False)
class PredictionPart:
    """One site's summand of a joint prediction: the scores X_k w_k of all samples.

    X_k are the site's own features of the samples, w_k its coefficients.
    """

    about: AboutPart
    scores: Vector  # (m,) X_k w_k

    def pack(self) -> bytes:
        """Return the site's scores and intercept as the bytes of a PART message."""
        return pack_vector(self.about.to_json(), self.scores)

    @staticmethod
    def unpack(content: bytes | bytearray, n_nodes: int, n_rows: int) -> PredictionPart:
        """Return the PredictionPart in the bytes `content` of a PART message.

        Raise Violation unless its site's number is below `n_nodes` and it has `n_rows` scores.
        """
        info, scores = unpack_vector(content, n_rows)
        about = AboutPart.from_json(info)
        if not 0 <= about.node < n_nodes:
            raise unexpected("PART, node", f"a node from 0 to {n_nodes - 1}", about.node)
        return PredictionPart(about, scores)


class _Prediction:
    """One site's side of a joint prediction: links to its neighbours, and the scores that have come so far."""

    def __init__(self, site: Site, own: PredictionPart, log: logging.Logger) -> None:
        self._site, self._n_rows, self._n_nodes = site, len(own.scores), len(site.federation.members)
        hello = Hello(site.file.name, site.federation.entries(), PREDICT, n_rows=self._n_rows)
        self._links = PeerLinks(site, log, hello, self._check)
        self._parts: Flood[int, PredictionPart] = Flood(self._links.links, self._send)
        self._parts.keep(own.about.node, 0, own)
        self._finished: set[int] = set()  # neighbours that have all parts

    def _check(self, peer: int, hello: Hello) -> str | None:
        """Return why neighbour `peer`, which sent this HELLO, cannot predict with this site; None if it can."""
        if hello.purpose != PREDICT:
            return "does not predict"
        differs = difference(self._site.federation.entries(), hello.entries)
        if differs is not None:
            return f"has another configuration: {differs}"
        if hello.n_rows != self._n_rows:
            return f"predicts {hello.n_rows} rows, {self._n_rows} are predicted here"
        return None

    def _send(self, peer: int, parts: list[PredictionPart]) -> None:
        """Send the scores of one or more sites to the neighbour number `peer`, one PART message for each site."""
        for part in parts:
            self._links.send(peer, Kind.PART, part.pack())

    def run(self, seconds: float) -> tuple[Vector, float]:
        """Send this site's scores, collect those of all others, and pass them on; return (sum, intercept).

        The sum over sites has shape (m,), one score for each sample; the intercept is that of node 0's model.
        GlmeshError is raised if scores of a site are missing after `seconds`.
        """
        links = self._links
        links.start()
        links.allow(8 * self._n_rows + CONTROL)
        try:
            end = time.monotonic() + seconds
            while not self._is_complete():
                if time.monotonic() > end:
                    raise GlmeshError(self._missing())
                self._take(links.inbox.get(_POLL))
            links.send_to_all(Kind.BYE, pack_json({}))
            end = time.monotonic() + _LINGER
            while time.monotonic() < end and self._finished < set(links.links):
                self._take(links.inbox.get(_POLL))
            links.flush(1.0)
        finally:
            links.close()
        parts = [self._parts.entries[node][1] for node in range(self._n_nodes)]
        total = np.zeros(self._n_rows)
        for part in parts:
            total += part.scores
        return total, parts[0].about.intercept

    def _is_complete(self) -> bool:
        """Return whether the scores of all sites have come."""
        return len(self._parts.entries) == self._n_nodes

    def _missing(self) -> str:
        """Return a sentence that names the sites whose scores have not come, and why links are down."""
        members, links = self._site.federation.members, self._links.links.values()
        missing = [member.name for number, member in enumerate(members) if number not in self._parts.entries]
        whys = "".join(f"; {link.refused or f'{link.name}: {link.why}'}" for link in links if not link.up)
        return f"nothing came from {', '.join(missing)}; all sites predict at the same time{whys}"

    def _take(self, message: Message | None) -> None:
        """Act on a message: store and pass on scores, mark a neighbour that has all, greet one whose link came up.

        `message` None means that none has come, and nothing is done.
        """
        if message is None:
            return
        peer = message.peer
        try:
            if message.up:
                self._parts.greet(peer)
                if self._is_complete():
                    self._links.send(peer, Kind.BYE, pack_json({}))
            elif message.kind is Kind.BYE:
                self._finished.add(peer)
            elif message.kind is Kind.PART:
                part = PredictionPart.unpack(message.content, self._n_nodes, self._n_rows)
                if self._parts.keep(part.about.node, 0, part):
                    self._parts.spread([part.about.node], source=peer)
            elif message.kind is not None:
                raise Violation(f"a message of kind {message.kind.name} in a prediction")
        except Violation as error:
            self._links.drop(peer, str(error))
