"""A node at a glance, as plain data: what the history, the live view, `glmesh status` and Prometheus show."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from glmesh.federation.node.process import Node


def figures(node: Node) -> dict[str, Any]:
    """All of it; read from other threads too, so nothing here changes anything."""
    trainer, exchange, links = node.trainer, node.exchange, node.links.links
    out: dict[str, Any] = {
        "time": round(time.time(), 3),
        "node": node.site.file.name,
        "phase": node.phase,
        "seconds": round(time.time() - node.began, 3),
        "bytes_sent": sum(link.sent for link in links.values()),
        "bytes_received": sum(link.received for link in links.values()),
        "tol": node.federation.problem.tol,
        "neighbours": {link.name: _neighbour(node, peer) for peer, link in links.items()},
    }
    if trainer is not None and exchange is not None:
        certificate = trainer.certificate
        out |= {
            "round": trainer.state.round,
            "members": [node.name(k) for k in trainer.members],
            "certificate": None if certificate is None else _finite(certificate.relative),
            "certificate_round": None if certificate is None else certificate.round,
            "objective": _finite(trainer.state.objective),
            "missed": trainer.skipped,
            "communications": exchange.communications,
            "done": [node.name(k) for k in trainer.members if (node.board.get("done", k) or -1) >= 0],
        }
    return out


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _neighbour(node: Node, peer: int) -> dict[str, Any]:
    link = node.links.links[peer]
    out: dict[str, Any] = {"state": "up" if link.up else "down", "dropped": link.dropped}
    if not link.up:
        out["why"] = link.refused or link.why
    if node.exchange is not None:
        pace = node.exchange.paces[peer]
        out["state"] = "finished" if pace.finished else "silent" if link.up and pace.silent else out["state"]
        out |= {"deadline": round(pace.deadline, 3), "skipped": pace.skipped, "exchange": pace.newest}
    return out
