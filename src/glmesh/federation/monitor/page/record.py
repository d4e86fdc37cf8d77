"""What a state folder tells of a site: figures over time, events, settings and model; read once, or as they grow."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from glmesh.errors import GlmeshError
from glmesh.federation.monitor.history import Figures
from glmesh.federation.node.about import FILE, About
from glmesh.files import model_files
from glmesh.files.model_files import Model

MOST = 2000  # [entries] of a history that are kept; of more every second one goes, which no picture shows
SILENCE = 15.0  # [s] without an entry after which a process that said nothing of its end counts as killed
APART = 3600.0  # [s] between the end of a run and a start after which that is a new run, of which the page is about
GRACE = 15.0  # [s] between the last entry of a process and its event "end"

Event = dict[str, Any]


@dataclass(frozen=True)
class Session:
    """One process of a site, from its start to its last entry or event."""

    began: float  # [s since 1970]
    ended: float  # [s since 1970] of the last sign of it
    entries: tuple[Figures, ...]
    end: Event | None  # its event "end" or "error"; None: it has none, so it runs or was killed


@dataclass(frozen=True)
class SiteRecord:
    """What is known of one site at one time."""

    name: str
    entries: Sequence[Figures]  # oldest first
    events: Sequence[Event]  # oldest first
    about: About | None  # None: the folder is of an earlier version
    model: Model | None  # of the run that has ended; None: there is none
    now: float  # [s since 1970] when the files were read
    mute: bool = False  # whether the process was asked for figures and did not answer

    @property
    def last(self) -> Figures:
        """Return the newest figures; an empty dict if there are none."""
        return self.entries[-1] if self.entries else {}

    @cached_property
    def sessions(self) -> tuple[Session, ...]:
        """Return the processes of the site, oldest first: an entry's time less its seconds is when one began."""
        found: list[list[Figures]] = []
        for entry in self.entries:
            began = entry["time"] - entry.get("seconds", 0.0)
            if found and abs(began - (found[-1][-1]["time"] - found[-1][-1].get("seconds", 0.0))) < 1.0:
                found[-1].append(entry)
            else:
                found.append([entry])
        return tuple(self._session(entries, found[k + 1 : k + 2]) for k, entries in enumerate(found))

    def _session(self, entries: list[Figures], following: list[list[Figures]]) -> Session:
        """Return the Session with these entries; `following` has those of the next one, if there is one."""
        began = entries[0]["time"] - entries[0].get("seconds", 0.0)
        latest = entries[-1]["time"]
        until = following[0][0]["time"] - following[0][0].get("seconds", 0.0) if following else float("inf")
        ends = [
            event
            for event in self.events
            if event["event"] in ("end", "error") and latest - 1.0 <= event["time"] < min(until, latest + GRACE)
        ]
        return Session(began, ends[-1]["time"] if ends else latest, tuple(entries), ends[-1] if ends else None)

    @property
    def at_work(self) -> list[Session]:
        """Return the first process and all later ones that made rounds.

        A process that was started when the run had ended made none: it told the model to others, or again.
        """
        return [one for k, one in enumerate(self.sessions) if not k or any(each.get("round") for each in one.entries)]

    @property
    def end(self) -> Event | None:
        """Return the event with which the last process ended; None: it runs, was killed, or there was none."""
        ends = [event for event in self.events if event["event"] in ("end", "error")]
        if self.sessions:
            late = [one for one in ends if one["time"] > self.sessions[-1].ended]
            return late[-1] if late and not self.runs else self.sessions[-1].end
        return ends[-1] if ends else None

    @property
    def runs(self) -> bool:
        """Return whether the last process has not said that it ended, and gave a sign of life lately."""
        if not self.sessions:
            return False
        return self.sessions[-1].end is None and not self.mute and self.now - self.last["time"] < SILENCE

    @property
    def began(self) -> float:
        """Return when the first process began [s since 1970]; the present time if there was none."""
        if self.sessions:
            return self.sessions[0].began
        return float(self.events[0]["time"]) if self.events else self.now

    @property
    def latest(self) -> float:
        """Return the time of the last sign of the site [s since 1970]."""
        return self.sessions[-1].ended if self.sessions else self.now


class Tail:
    """The lines of JSON that a process appends to a file, read as they come."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def read(self) -> list[Any]:
        """Return what was added since the last call, dicts with a "time"; half a line waits for the rest."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._at)
                text = stream.read()
        except OSError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        found = []
        for line in whole.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:  # cut off by a crash
                continue
            if isinstance(entry, dict) and "time" in entry:
                found.append(entry)
        return found


@dataclass
class Folder:
    """A state folder that may still grow; `look` returns what is known of its site."""

    path: Path
    newest: Callable[[], Figures | None] | None = None  # figures of the running node, None: it does not run
    _entries: list[Figures] = field(default_factory=list)
    _events: list[Event] = field(default_factory=list)
    _model: tuple[float, Model | None] = (0.0, None)  # (time of the file's last change, what is in it)

    def __post_init__(self) -> None:
        """Make the readers of history and log."""
        self._history, self._log = Tail(self.path / "history.jsonl"), Tail(self.path / "log.jsonl")

    def look(self) -> SiteRecord:
        """Read what has been written since the last call, and return the site's SiteRecord."""
        self._entries += self._history.read()
        self._events += self._log.read()
        while len(self._entries) > MOST:
            self._entries = thinned(self._entries)
        entries = list(self._entries)
        newest = None if self.newest is None else self.newest()
        if newest is not None and not self._has_ended(newest["time"] - newest["seconds"]):
            entries.append(newest)
        begin = _last_run(entries, self._events)
        entries = [one for one in entries if one["time"] >= begin]
        events = [one for one in self._events if one["time"] >= begin]
        about = self._about()
        name = entries[-1]["node"] if entries else about["node"] if about else self.path.name.removesuffix(".state")
        mute = self.newest is not None and newest is None
        record = SiteRecord(name, entries, events, about, None, time.time(), mute)
        return replace(record, model=self._model_of(record))

    def _has_ended(self, began: float) -> bool:
        """Return whether the log has the end of the process that began at this time [s since 1970]."""
        return any(one["event"] in ("end", "error") and one["time"] > began for one in self._events)

    def _about(self) -> About | None:
        """Return the settings that the site wrote; None: there are none, or they cannot be read."""
        try:
            about: About = json.loads((self.path / FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return about

    def _model_of(self, record: SiteRecord) -> Model | None:
        """Return the model in the folder; None while the site computes another one, or if there is none."""
        path = self.path / "model.npz"
        try:
            changed = path.stat().st_mtime
        except OSError:
            return None
        if record.runs and record.sessions and changed < record.sessions[-1].began:
            return None
        if changed != self._model[0]:
            try:
                self._model = changed, model_files.load(path)
            except GlmeshError:  # the page is about what can be read
                self._model = changed, None
        return self._model[1]


def _last_run(entries: Sequence[Figures], events: Sequence[Event]) -> float:
    """Return the time [s since 1970] at which the last run began; 0 if there was one only.

    A new run is one that was started APART seconds or more after the end of another; a stop is no end.
    """
    begin = 0.0
    ends = [one["time"] for one in events if one["event"] == "end" and one.get("outcome") != "stopped"]
    for one in entries:
        began = one["time"] - one.get("seconds", 0.0)
        if began > begin + 1.0 and any(end + APART < began for end in ends):
            begin = began
    return begin - 1.0 if begin else 0.0


def thinned(entries: list[Figures]) -> list[Figures]:
    """Return every second of the entries, and those at which a process begins or ends."""
    begins = [round(one["time"] - one.get("seconds", 0.0)) for one in entries]
    kept = [
        one
        for k, one in enumerate(entries)
        if k % 2 == 0
        or k + 1 == len(entries)
        or abs(begins[k] - begins[k + 1]) > 1
        or abs(begins[k] - begins[k - 1]) > 1
    ]
    return kept if len(kept) < len(entries) else entries[len(entries) // 2 :]
