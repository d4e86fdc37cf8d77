"""Figures of a node over time, a line of JSON per entry; `glmesh report` draws them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from glmesh.errors import UnreadableFile


class WaitingFigures(TypedDict):
    """Whom a node waits for, as JSON: what `Waiting` has."""

    names: Sequence[str]  # of the members
    since: float  # [s] since 1970
    until: float | None  # [s] since 1970; None: without limit


class NeighbourFigures(TypedDict, total=False):
    """Figures of one neighbour, as JSON; keys from `deadline` on are missing until the node trains."""

    state: str  # "up", "down", "silent" or "finished"
    dropped: int  # [messages] MAIL that gave way to newer MAIL
    why: str  # reason that the link is down; missing while it is up
    deadline: float  # [s] that the neighbour is waited for in an exchange
    skipped: int  # deadlines that it missed
    exchange: int  # of its newest message; -1: none since its link came up


class Figures(TypedDict, total=False):
    """Figures of a node at one time, as JSON; keys from `round` on are missing until the node trains."""

    time: float  # [s] since 1970
    node: str  # name of the node
    phase: str  # for people: a phase, or how the run ended
    seconds: float  # since the process began
    bytes_sent: int  # over all links
    bytes_received: int  # over all links
    tol: float  # relative gap to be proven
    tol_se: float  # [standard errors] that coefficients may be off; missing unless a family has no penalty
    neighbours: dict[str, NeighbourFigures]  # by name
    waiting: WaitingFigures | None  # None: nobody is waited for
    refused: dict[str, str]  # why members cannot take part, by name
    round: int  # rounds made, or totals
    members: list[str]  # names of the sites whose data is in the answer
    without: list[str]  # names of the sites whose data is not in the answer
    certificate: float | None  # relative gap that is proven; None: nothing is
    certificate_round: int | None  # the round that the proven gap is about
    standard_errors: float | None  # that coefficients of a family may be off, proven; None: nothing is, or no family
    objective: float | None  # the objective of all sites, as the node last heard of it
    missed: int  # [rounds] that the node was not there for
    communications: int  # exchanges so far
    done: list[str]  # members that hold a proof
    chosen: str  # which alpha was chosen, in words; empty: none is chosen, or not yet
    rows: str  # which rows of all sites are left out, and which levels are rare; empty: none, or not known yet
    revealed: str  # sentence that two sites learn what the other contributes; empty: masks hide it
    leverage: float | None  # largest leverage of one of the site's rows; None: not computed
    released: int  # numbers that the site has contributed to totals, of all fits
    released_share: float  # the same, divided by the entries of the site's table
    outcome: str  # how a run that has ended ended
    why: str  # that outcome in words
    sites: list[str]  # names of the sites whose data is in the answer of a run that has ended


class History:
    """Appends the figures of a node to a file, one line of JSON per entry."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("a", encoding="utf-8")

    def add(self, figures: Figures) -> None:
        """Append the figures of a node to the file, as one line of JSON."""
        self._stream.write(json.dumps(figures) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Close the history file."""
        self._stream.close()


def lines_since(path: Path, since: float = 0.0) -> list[Any]:
    """Return the entries of a history or log file since the time `since` [s since 1970], oldest first, as dicts.

    The list is empty if there is no file.
    """
    return [entry for entry in read_lines(path) if entry["time"] >= since] if path.is_file() else []


def read_lines(path: Path) -> list[Any]:
    """Return all entries of a history or log file, oldest first, as dicts.

    A last line that a crash cut off is left out.
    """
    if not path.is_file():
        raise UnreadableFile(f"{path}: no such file; a node writes it while it runs")
    entries = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            entries.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise UnreadableFile(f"{path}, line {number}: is no JSON; expected what a node wrote") from None
    return entries
