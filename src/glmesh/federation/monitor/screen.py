"""A node on one screen: rounds, gap, neighbours and their state, bytes, and how long it may take."""

import logging
import math
import shutil
import threading
import time
from collections.abc import Callable
from typing import TextIO

from glmesh.federation.monitor.history import Figures
from glmesh.federation.monitor.log import RecentLines
from glmesh.federation.node.fit_figures import ReleaseFigures
from glmesh.federation.node.neighbourhood import clock
from glmesh.federation.node.training import without_text
from glmesh.formatting import rounded_up, size

_EVERY = 0.5  # [s] between two drawings
_EVENTS = 8  # [lines] of the log below the figures


def screen(now: Figures, recent: list[str], began: tuple[float, float] | None, columns: int) -> str:
    """Return the live view of a node as text, with at most `columns` characters a line.

    `now` are the node's figures, `recent` the last lines of its log. `began` is (seconds, gap) of its first
    certificate, from which the time left is extrapolated; None before there is one.
    """
    what = "distance" if "tol_se" in now else "gap"
    wanted = f"{now['tol_se']:.0e} standard errors" if "tol_se" in now else f"{now.get('tol', 0):.0e}"
    lines = [
        f"{now['node']}  {now['phase']}  round {now.get('round', 0):,}",
        "",
        f"  {f'proven {what}':<12} {proof_text(now, '{:.2e}') or 'none yet'}   asked for {wanted}   {left(now, began)}",
        f"  members      {', '.join(now.get('members', [])) or 'not known yet'}",
        *_not_there(now),
        f"  traffic      {size(now['bytes_sent'])} sent, {size(now['bytes_received'])} received",
        *_of_totals(now),
        "",
    ]
    for name, neighbour in now["neighbours"].items():
        timing = (
            f"deadline {neighbour['deadline']:.1f} s, skipped {neighbour['skipped']}" if "deadline" in neighbour else ""
        )
        lines.append(f"  {name:<16} {neighbour['state']:<9} {neighbour.get('why', timing)}")
    lines += ["", *recent[-_EVENTS:]]
    return "\n".join(line[:columns] for line in lines)


def proof_text(now: Figures, gap: str) -> str:
    """Return words on what is proven: "within 3e-07 standard errors", or the relative gap put into `gap`; "": nothing.

    The former is for a family without a penalty.
    """
    off, proven = now.get("standard_errors"), now.get("certificate")
    if off is not None:
        return f"within {rounded_up(off):.0e} standard errors"
    return "" if proven is None or "tol_se" in now else gap.format(proven)


def _not_there(now: Figures) -> list[str]:
    """Return lines of text on members that are left out or refused, and on those that are waited for."""
    lines = []
    if now.get("without"):
        lines.append(f"               {without_text(now['members'], now['without'])}")
    for name, why in (now.get("refused") or {}).items():
        lines.append(f"  refused      {name}: {why}")
    waiting = now.get("waiting")
    if waiting:
        times = f"since {clock(waiting['since'])}"
        if waiting["until"] is not None:
            times += f", until {clock(waiting['until'])}"
        lines.append(f"  waiting for  {', '.join(waiting['names'])}, {times}; no proof can come before")
    return lines


def _of_totals(now: Figures) -> list[str]:
    """Return lines of text on what a site has contributed to totals, and which alpha was chosen.

    The list is empty with gossip.
    """
    lines = [f"  released     {released_text(now)}"] if "released" in now else []
    lines += [f"  not masked   {now['revealed']}"] if now.get("revealed") else []
    lines += [f"  rows         {now['rows']}"] if now.get("rows") else []
    return [*lines, f"  chosen       {now['chosen']}"] if now.get("chosen") else lines


def released_text(now: Figures | ReleaseFigures) -> str:
    """Return words on a site's contributions to totals: numbers of all fits, their share of the table, leverage."""
    leverage = now.get("leverage")
    said = f"{now['released']:,} numbers in all fits, {now['released_share']:.2f} times the entries of the table"
    return f"{said}; largest leverage of a row {'not computed' if leverage is None else f'{leverage:.2f}'}"


def left(now: Figures, began: tuple[float, float] | None) -> str:
    """Return words on the seconds left, if the gap goes on falling by equal factors in equal times.

    `began` is (seconds, gap) of the first certificate. The text is empty where there is nothing to extrapolate from: no
    certificate, no progress since the first, a gap below tol, a member that is waited for, or no gap to be proven.
    """
    gap, tol = now.get("certificate"), now.get("tol", 0.0)
    if "tol_se" in now or began is None or not gap or gap >= began[1] or gap <= tol or now.get("waiting"):
        return ""
    rate = math.log(began[1] / gap) / max(now["seconds"] - began[0], 1e-9)
    return f"about {math.log(gap / tol) / rate:.0f} s left"


class LiveScreen:
    """Live view of a node: draws its figures and last log lines to a terminal, in a thread, until closed."""

    def __init__(self, figures: Callable[[], Figures], log: logging.Logger, stream: TextIO) -> None:
        self._figures, self._stream, self._recent = figures, stream, RecentLines()
        log.addHandler(self._recent)
        self._began: tuple[float, float] | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="view", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Draw every _EVERY seconds until the view is closed."""
        while not self._end.wait(_EVERY):
            self._draw()

    def _draw(self) -> None:
        """Clear the terminal, and draw the present figures and the last log lines once."""
        now = self._figures()
        if self._began is None and (gap := now.get("certificate")):
            self._began = now["seconds"], gap
        columns = shutil.get_terminal_size().columns - 1
        text = screen(now, list(self._recent.lines), self._began, columns)
        clock = time.strftime("%H:%M:%S")
        self._stream.write(f"\x1b[H\x1b[2J{text}\n{clock}\n")
        self._stream.flush()

    def close(self) -> None:
        """End the thread, and draw the figures for the last time."""
        self._end.set()
        self._thread.join(2.0)
        self._draw()
