"""A node at a glance, as plain data: what the history, the live view, `glmesh status` and Prometheus show."""

import math
import time

from glmesh.federation.monitor.history import Figures, NeighbourFigures, WaitingFigures
from glmesh.federation.node.neighbourhood import Waiting
from glmesh.federation.node.participant import Participant
from glmesh.federation.node.process import Node


def figures(node: Node) -> Figures:
    """Return a node's figures by name, as JSON can hold them: phase, round, proven gap, neighbours, bytes and more.

    Nothing is changed, so any thread may call it.
    """
    neighbourhood, participant = node.neighbourhood, node.participant
    links = neighbourhood.links.links
    out: Figures = {
        "time": round(time.time(), 3),
        "node": neighbourhood.site.file.name,
        "phase": neighbourhood.phase,
        "seconds": round(time.time() - neighbourhood.began, 3),
        "bytes_sent": sum(link.sent for link in links.values()),
        "bytes_received": sum(link.received for link in links.values()),
        "tol": neighbourhood.site.federation.problem.tol,
        "neighbours": {link.name: _neighbour(node, peer) for peer, link in links.items()},
        "waiting": None if neighbourhood.waiting is None else _waiting(neighbourhood.waiting),
        "refused": {neighbourhood.name(k): why for k, why in neighbourhood.gossip.refused().items()},
    }
    part = neighbourhood.site.federation.problem
    if part.is_unpenalised:
        out["tol_se"] = part.tol_se
    if node.totals is not None:
        out = {**out, **node.totals.figures}
    if participant is not None:
        out |= _of_gossip(participant)
    return out


def _of_gossip(participant: Participant) -> Figures:
    """Return the figures of a node that trains by gossip: its round, members, proof and exchanges."""
    trainer, name = participant.trainer, participant.neighbourhood.name
    certificate = trainer.certificate
    return {
        "round": trainer.state.round,
        "members": [name(k) for k in trainer.members],
        "without": [member.name for k, member in enumerate(trainer.federation.members) if k not in trainer.members],
        "certificate": None if certificate is None else _finite(certificate.relative),
        "certificate_round": None if certificate is None else certificate.round,
        "objective": _finite(trainer.state.objective),
        "missed": trainer.skipped,
        "communications": participant.exchange.communications,
        "done": [name(k) for k in trainer.members if participant.proven_round(k) >= 0],
    }


def _waiting(waiting: Waiting) -> WaitingFigures:
    """Return whom a node waits for, since when and until when [s since 1970], as JSON can hold it."""
    return {"names": waiting.names, "since": waiting.since, "until": waiting.until}


def _finite(value: float) -> float | None:
    """Return the value, or None where it is NaN or infinite, which JSON does not have."""
    return value if math.isfinite(value) else None


def _neighbour(node: Node, peer: int) -> NeighbourFigures:
    """Return the figures of neighbour number `peer`: state of its link, MAIL dropped, deadline [s] and misses."""
    link = node.neighbourhood.links.links[peer]
    out: NeighbourFigures = {"state": "up" if link.up else "down", "dropped": link.dropped}
    if not link.up:
        out["why"] = link.refused or link.why
    if node.participant is not None:
        timing = node.participant.timing[peer]
        out["state"] = "finished" if timing.finished else "silent" if link.up and timing.silent else out["state"]
        out |= {"deadline": round(timing.deadline, 3), "skipped": timing.skipped, "exchange": timing.newest}
    return out
