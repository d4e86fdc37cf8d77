"""A node on one screen: rounds, gap, neighbours and their state, bytes, and how long it may take."""

from __future__ import annotations

import math
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

from glmesh.federation.monitor.status import figures
from glmesh.formatting import size

if TYPE_CHECKING:
    from glmesh.federation.node.process import Node

_EVERY = 0.5  # seconds


def screen(now: dict[str, Any], recent: list[str], began: tuple[float, float] | None, columns: int) -> str:
    """What is shown; `began`: (seconds, gap) of the first certificate, from which the rest is extrapolated."""
    gap = now.get("certificate")
    lines = [
        f"{now['node']}  {now['phase']}  round {now.get('round', 0):,}",
        "",
        f"  proven gap   {'none yet' if gap is None else f'{gap:.2e}'}   asked for {now.get('tol', 0):.0e}"
        f"   {left(now, began)}",
        f"  members      {', '.join(now.get('members', [])) or 'not known yet'}",
        f"  traffic      {size(now['bytes_sent'])} sent, {size(now['bytes_received'])} received",
        "",
    ]
    for name, neighbour in now["neighbours"].items():
        pace = (
            f"deadline {neighbour['deadline']:.1f} s, skipped {neighbour['skipped']}" if "deadline" in neighbour else ""
        )
        lines.append(f"  {name:<16} {neighbour['state']:<9} {neighbour.get('why', pace)}")
    lines += ["", *recent[-8:]]
    return "\n".join(line[:columns] for line in lines)


def left(now: dict[str, Any], began: tuple[float, float] | None) -> str:
    """An estimate of the seconds left: the gap is taken to fall by the same factor in the same time."""
    gap, tol = now.get("certificate"), now.get("tol", 0.0)
    if began is None or not gap or gap >= began[1] or gap <= tol:
        return ""
    rate = math.log(began[1] / gap) / max(now["seconds"] - began[0], 1e-9)
    return f"about {math.log(gap / tol) / rate:.0f} s left"


class View:
    """Draws the screen anew, until it is closed."""

    def __init__(self, node: Node, stream: TextIO) -> None:
        self._node, self._stream = node, stream
        self._began: tuple[float, float] | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="view", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(_EVERY):
            self._draw()

    def _draw(self) -> None:
        now = figures(self._node)
        if self._began is None and now.get("certificate"):
            self._began = now["seconds"], now["certificate"]
        columns = shutil.get_terminal_size().columns - 1
        text = screen(now, list(self._node.log.recent), self._began, columns)
        clock = time.strftime("%H:%M:%S")
        self._stream.write(f"\x1b[H\x1b[2J{text}\n{clock}\n")
        self._stream.flush()

    def close(self) -> None:
        """Draws once more and ends."""
        self._end.set()
        self._thread.join(2.0)
        self._draw()
