"""A node on one screen: progress towards the goal, who is there, who is waited for, bytes, and the last events."""

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
from glmesh.federation.node.process import COMPILING, COMPILING_TEXT
from glmesh.federation.node.training import without_text
from glmesh.formatting import joined, rounded_up, size

_EVERY = 0.5  # [s] between two drawings
_EVENTS = 8  # [lines] of the log below the figures
BAR = 24  # [characters] of the bar that shows progress
LEAST_FALL = 10.0  # factor by which a gap must have fallen before the time left is estimated from how fast it fell


def screen(
    now: Figures, recent: list[str], began: tuple[float, float] | None, columns: int, *, ascii: bool = False
) -> str:
    """Return the live view of a node as text, with at most `columns` characters a line.

    `now` are the node's figures, `recent` the last lines of its log. `began` is (seconds, gap or standard errors) of
    its first proof, from which progress is counted; None before there is one, and where it is not known. `ascii`: the
    terminal has no block characters.
    """
    what = "distance" if "tol_se" in now else "gap"
    progress = "" if began is None else f"{bar(now, began[1], BAR, ascii=ascii)}  {left(now, began)}".rstrip()
    lines = [
        f"{now['node']}  {phase_text(now)}  {went_text(now)}".rstrip(),
        "",
        f"  {f'proven {what}':<15} {proof_text(now, '{:.2e}') or 'none yet'}, {goal_text(now)}",
        *([f"  {'progress':<15} {progress}"] if progress else []),
        f"  {'members':<15} {', '.join(now.get('members', [])) or 'not known yet'}",
        *_not_there(now),
        f"  {'traffic':<15} {size(now['bytes_sent'])} sent, {size(now['bytes_received'])} received",
        *_of_totals(now),
        "",
    ]
    for name, neighbour in now["neighbours"].items():
        timing = (
            f"deadline {neighbour['deadline']:.1f} s, skipped {neighbour['skipped']}" if "deadline" in neighbour else ""
        )
        lines.append(f"  {name:<15} {neighbour['state']:<9} {neighbour.get('why', timing)}".rstrip())
    lines += ["", *recent[-_EVENTS:]]
    return "\n".join(line[:columns] for line in lines)


def phase_text(now: Figures) -> str:
    """Return words on what a node does: its phase, or what it compiles for, which is over once and for all."""
    return COMPILING_TEXT if now["phase"] == COMPILING else now["phase"].replace("_", " ")


def went_text(now: Figures) -> str:
    """Return words on how far a node has come: "round 1,234", or with totals "16 messages to each neighbour"."""
    if "released" not in now:
        return f"round {now['round']:,}" if "round" in now else ""
    n = now["communications"]
    return f"{n:,} message{'' if n == 1 else 's'} to each neighbour"


def goal_text(now: Figures) -> str:
    """Return words on what is to be proven: "goal 1e-06 standard errors", or the relative gap."""
    return f"goal {now['tol_se']:.0e} standard errors" if "tol_se" in now else f"goal {now.get('tol', 0):.0e}"


def proven(now: Figures) -> float | None:
    """Return the number that is proven and shall come down to the goal: standard errors, or a relative gap; None: none.

    The former is for a family without a penalty.
    """
    return now.get("standard_errors") if "tol_se" in now else now.get("certificate")


def bar(now: Figures, first: float | None, width: int, *, ascii: bool = False) -> str:
    """Return a bar of `width` characters that is full when the goal is proven, on a log scale from the `first` proof.

    `first` is the first number that was proven; None before there is one. `ascii`: of # and - instead of blocks.
    """
    reached, goal = proven(now), now.get("tol_se", now.get("tol", 0.0))
    share = 0.0
    if reached is not None and first is not None and goal > 0.0:
        begin = max(first, 10.0 * goal)
        share = 1.0 if reached <= goal else max(math.log(begin / reached) / math.log(begin / goal), 0.0)
    full = int(width * share)
    on, off = "#-" if ascii else "█░"
    return on * full + off * (width - full)


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
        lines.append(f"{'':<18}{without_text(now['members'], now['without'])}")
    for name, why in (now.get("refused") or {}).items():
        lines.append(f"  {'refused':<15} {name}: {why}")
    waiting = waiting_text(now)
    return [*lines, f"  {'waiting for':<15} {waiting}"] if waiting else lines


def waiting_text(now: Figures) -> str:
    """Return words on the members that a node waits for: "carol, since 12:00:01: no proof while carol is away".

    The text is "" if it waits for nobody. While it trains, a neighbour that is not heard is one of them from the start.
    """
    waiting, members = now.get("waiting"), now.get("members", [])
    silent = [name for name, one in now["neighbours"].items() if one["state"] in ("down", "silent") and name in members]
    if not waiting and not (silent and now["phase"] == "training"):
        return ""
    names = list(waiting["names"]) if waiting else silent
    since = f", since {clock(waiting['since'])}" if waiting else ""
    until = f", until {clock(waiting['until'])}" if waiting and waiting["until"] is not None else ""
    verb = "is" if len(names) == 1 else "are"
    means = "training begins when all have met"
    if now["phase"] != "meeting":
        means = f"no proof while {joined(names)} {verb} away"
    return f"{joined(names)}{since}{until}: {means}"


def _of_totals(now: Figures) -> list[str]:
    """Return lines of text on what a site has contributed to totals, and which alpha was chosen.

    The list is empty with gossip.
    """
    lines = [f"  {'released':<15} {released_text(now)}"] if "released" in now else []
    lines += [f"  {'not masked':<15} {now['revealed']}"] if now.get("revealed") else []
    lines += [f"  {'rows':<15} {now['rows']}"] if now.get("rows") else []
    return [*lines, f"  {'chosen':<15} {now['chosen']}"] if now.get("chosen") else lines


def released_text(now: Figures | ReleaseFigures) -> str:
    """Return words on a site's contributions to totals: numbers of all fits, their share of the table, leverage."""
    leverage = now.get("leverage")
    said = f"{now['released']:,} numbers in all fits, {now['released_share']:.2f} times the entries of the table"
    return f"{said}; largest leverage of a row {'not computed' if leverage is None else f'{leverage:.2f}'}"


def left(now: Figures, began: tuple[float, float] | None) -> str:
    """Return words on the seconds left with gossip, if the gap goes on falling by equal factors in equal times.

    `began` is (seconds, gap) of the first certificate. The text is empty where there can be no estimate: with totals,
    whose last steps gain most; before the gap has fallen to a tenth, and below 1; below tol; and while a member is away
    or silent.
    """
    gap, tol = now.get("certificate"), now.get("tol", 0.0)
    away = now.get("waiting") or any(one["state"] not in ("up", "finished") for one in now["neighbours"].values())
    if began is None or not gap or "released" in now or away or gap <= tol:
        return ""
    if gap > min(began[1] / LEAST_FALL, 1.0):
        return ""
    rate = math.log(began[1] / gap) / max(now["seconds"] - began[0], 1e-9)
    return f"about {math.log(gap / tol) / rate:.0f} s left"


def lacks_blocks(stream: TextIO) -> bool:
    """Return whether the encoding of a text stream lacks the characters of a bar."""
    try:
        "█░".encode(stream.encoding or "ascii")
    except (UnicodeError, LookupError):
        return True
    return False


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
        if self._began is None and (first := proven(now)):
            self._began = now["seconds"], first
        columns = shutil.get_terminal_size().columns - 1
        text = screen(now, list(self._recent.lines), self._began, columns, ascii=lacks_blocks(self._stream))
        clock = time.strftime("%H:%M:%S")
        self._stream.write(f"\x1b[H\x1b[2J{text}\n{clock}\n")
        self._stream.flush()

    def close(self) -> None:
        """End the thread, and draw the figures for the last time."""
        self._end.set()
        self._thread.join(2.0)
        self._draw()
