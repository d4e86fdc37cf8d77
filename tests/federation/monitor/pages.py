"""State folders as runs leave them, and a reader of pages, for tests of the page."""

from __future__ import annotations

import html.parser
import json
from pathlib import Path
from typing import Any

START = 1_700_000_000.0  # [s since 1970]
VOID = {"meta", "br", "link", "img", "input"}


def entry(name: str, at: float, began: float, **other: Any) -> dict[str, Any]:
    """Figures of a site `at` some seconds after START, in a process that began at `began`."""
    return {
        "time": START + at,
        "node": name,
        "phase": "training",
        "seconds": at - began,
        "bytes_sent": int(1000 * (at - began)),
        "bytes_received": int(900 * (at - began)),
        "tol": 1e-6,
        "neighbours": {},
        "waiting": None,
        "refused": {},
        "round": int(10 * at),
        "certificate": 10.0 ** (-at / 5),
        "certificate_round": int(10 * at),
        "members": ["alice", "bob", "carol"],
        "without": [],
        "missed": 0,
        "done": [],
    } | other


def event(name: str, at: float, what: str, **fields: Any) -> dict[str, Any]:
    """An entry of a site's log."""
    return {"time": START + at, "node": name, "event": what} | fields


def about(name: str) -> dict[str, Any]:
    """What a site writes of its run."""
    return {
        "node": name,
        "federation": "clinics",
        "digest": "d" * 64,
        "members": ["alice", "bob", "carol"],
        "late": [],
        "links": [["alice", "bob"], ["bob", "carol"], ["alice", "carol"]],
        "masked": True,
        "disclosure": "Totals are masked.",
        "problem": {"loss": "logistic", "alpha": 1.0, "formula": "", "fit_intercept": True},
        "network": {"topology": "ring", "gone_after": 600.0},
        "rows": 40,
        "versions": {"glmesh": "0"},
    }


def write(folder: Path, entries: list[dict[str, Any]], events: list[dict[str, Any]], *, told: bool = True) -> str:
    """A state folder with this history and log; its path."""
    name = (entries or events)[0]["node"]
    state = folder / f"{name}.state"
    state.mkdir(exist_ok=True)
    for file, lines in (("history.jsonl", entries), ("log.jsonl", events)):
        (state / file).write_text("".join(json.dumps(one) + "\n" for one in lines))
    if told:
        (state / "about.json").write_text(json.dumps(about(name)))
    return str(state)


def restarted(folder: Path, name: str = "alice") -> str:
    """A site that was killed after 10 s, came back after 20 s, and stopped after 30 s."""
    entries = [entry(name, at, 0.0) for at in range(1, 11)] + [entry(name, at, 20.0) for at in range(21, 31)]
    events = [
        event(name, 1, "training", round=0, members=3),
        event(name, 20.5, "resumed", round=100),
        event(name, 30.2, "end", outcome="stopped", why="Stopped; started again it goes on.", sites=[], without=[]),
    ]
    return write(folder, entries, events)


class Page(html.parser.HTMLParser):
    """A page as a browser reads it: words, tags, styles, and whatever it would load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.outside: list[str] = []
        self.style, self.script, self.words = "", "", ""
        self.headings: list[str] = []
        self._inside: list[str] = []
        self.feed(text)
        assert not self._inside, f"{self._inside} are not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        names = ("src", "href", "srcset", "action", "data", "poster", "xlink:href")
        self.outside += [f"{key}={value}" for key, value in attrs if key in names or key.startswith("on")]
        if tag not in VOID:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._inside[-1] == tag, f"</{tag}> in {self._inside}"
        self._inside.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        inside = self._inside[-1] if self._inside else ""
        if inside == "style":
            self.style += data
        elif inside == "script":
            self.script += data
        else:
            self.words += f"{data} "
            if inside in ("h1", "h2"):
                self.headings.append(data)

    def count(self, tag: str, kind: str = "") -> int:
        """The elements with this tag, and this class if one is given."""
        return sum(one == tag and kind in (attrs.get("class") or "").split(" ") for one, attrs in self.tags)
