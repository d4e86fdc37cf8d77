"""What `glmesh up` shows while sites run, and how it sums up what they ended with."""

from __future__ import annotations

import io
import re
import sys
import time
from typing import Any

import numpy as np
import pytest

from glmesh.cli import watch
from glmesh.cli.local_sites import proofs_text, tables_text
from glmesh.cli.up import cost_text
from glmesh.cli.watch import SitesDisplay
from glmesh.federation.monitor.screen import bar, left, waiting_text, went_text
from glmesh.files.model_files import Model

FITTED = {
    "phase": "training", "communications": 16, "released": 900, "tol": 1e-6, "tol_se": 1e-6,
    "standard_errors": 3e-4, "waiting": None, "neighbours": {},
}  # fmt: skip
WAITING = {"names": ["carol"], "since": 0.0, "until": None}


class Terminal(io.StringIO):
    """Text that is told to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Process:
    """A process that runs as long as its code is None."""

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code


class Sites:
    """What `SitesDisplay` asks of sites, from tables."""

    def __init__(self) -> None:
        self.sites = dict.fromkeys(("alice", "bob", "carol"))
        self.nodes = {name: Process() for name in self.sites}
        self.figures: dict[str, dict[str, Any]] = {}
        self.last: dict[str, dict[str, Any]] = {}
        self.said: dict[str, list[str]] = {}
        self.ended: dict[str, str] = {}
        self.began = time.time()

    def look(self, name: str) -> dict[str, Any] | None:
        if name in self.figures:
            self.last[name] = self.figures[name]
        return self.figures.get(name)

    def remarks(self) -> dict[str, list[str]]:
        return self.said

    def outcome(self, name: str) -> str:
        return self.ended.get(name, "")


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> Sites:
    monkeypatch.setattr(watch, "EVERY", 0.0)
    monkeypatch.setenv("COLUMNS", "80")
    return Sites()


def test_elsewhere_than_in_a_terminal_each_change_is_a_line_and_nothing_is_said_twice(
    sites: Sites, capsys: pytest.CaptureFixture[str]
) -> None:
    shows = SitesDisplay()
    for _ in range(3):
        shows(sites)
    sites.figures = dict.fromkeys(sites.sites, FITTED)
    sites.said = {"rows: 30": ["alice", "bob"]}
    for _ in range(3):
        shows(sites)
    del sites.figures["carol"]
    sites.nodes["carol"].code = -9
    for name in ("alice", "bob"):
        sites.figures[name] = FITTED | {"waiting": WAITING}
    for _ in range(3):
        shows(sites)
    sites.figures, sites.ended = {}, dict.fromkeys(sites.sites, "certified")
    sites.nodes["carol"].code = None
    for _ in range(3):
        shows(sites)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5, lines
    assert lines[0].endswith("alice, bob and carol starting")
    assert lines[1] == "alice and bob: rows: 30"
    assert lines[2].endswith(
        "alice, bob and carol training; 16 messages to each neighbour, within 3e-04 standard errors "
        "(goal 1e-06 standard errors)"
    )
    assert re.search(
        r"alice and bob training, carol ended by signal 9; waiting for carol, since .*: no proof while carol is away$",
        lines[3],
    )
    assert "alice, bob and carol certified" in lines[4]


def test_that_kernels_are_compiled_is_said_once(sites: Sites, capsys: pytest.CaptureFixture[str]) -> None:
    shows = SitesDisplay()
    sites.figures = {name: {"phase": "compiling", "neighbours": {}} for name in sites.sites}
    for _ in range(3):
        shows(sites)
    said = capsys.readouterr().out
    assert said.count("compiling for this machine (once, about a minute)") == 1


def test_in_a_terminal_one_block_is_drawn_over_the_one_before(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    shows = SitesDisplay()
    sites.figures = {name: FITTED | {"waiting": WAITING} for name in ("alice", "bob")}
    for _ in range(2):
        shows(sites)
    first, second = screen.getvalue().split("\x1b[7A\x1b[J")
    assert [line.split()[0] for line in first.splitlines()[2:5]] == ["alice", "bob", "carol"]
    assert "no proof while carol is away" in first
    assert max(map(len, first.splitlines())) < 80
    assert second.splitlines()[1:] == first.splitlines()[1:]
    shows.clear()
    shows.clear()
    assert screen.getvalue().count("\x1b[7A\x1b[J") == 2


def test_the_bar_is_full_at_the_goal_and_totals_are_no_rounds() -> None:
    assert [bar(FITTED | {"standard_errors": off}, 1e-2, 8, ascii=True) for off in (None, 1e-2, 1e-4, 1e-6)] == [
        "--------",
        "--------",
        "####----",
        "########",
    ]
    assert went_text(FITTED) == "16 messages to each neighbour"
    assert went_text({"round": 1234}) == "round 1,234"
    meeting = FITTED | {"phase": "meeting", "waiting": WAITING}
    assert waiting_text(meeting).endswith(": training begins when all have met")
    down = FITTED | {"members": ["alice", "bob"], "neighbours": {"bob": {"state": "down"}, "dora": {"state": "down"}}}
    assert waiting_text(down) == "bob: no proof while bob is away"
    assert waiting_text(down | {"phase": "certified"}) == waiting_text(FITTED) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"waiting": WAITING},
        {"neighbours": {"bob": {"state": "silent"}}},
        {"neighbours": {"bob": {"state": "down"}}},
        {"released": 3},
        {"certificate": 375.0},
        {"certificate": 5e-3},
        {"certificate": None},
    ],
)
def test_the_time_left_is_not_estimated_where_it_cannot_be(change: dict[str, Any]) -> None:
    """A gap of 375 fell to 93 in 47 s when 35 s were foretold; nothing is proven while a member is away."""
    began = 10.0, 1e-2
    now: Any = {"certificate": 1e-4, "tol": 1e-6, "seconds": 30.0, "neighbours": {"bob": {"state": "up"}}}
    assert left(now, began) == "about 20 s left"
    if "certificate" in change:
        began = 10.0, 4e-2 if change["certificate"] == 5e-3 else 1e5
    assert left(now | change, began) == ""


def _model(coef: float, **info: Any) -> Model:
    told = {"status": "certified", "rounds": 5, "communications": 22, "method": "totals", "split": "samples"} | info
    return Model(
        coef=np.array([coef]), intercept=0.0, loss="logistic", penalty="l2", alpha=1.0, l1_ratio=0.0,
        classes=(0.0, 1.0),
        info=told, sites=("alice", "bob"),
    )  # fmt: skip


def test_what_sites_ended_with_is_said_once() -> None:
    same = {name: _model(1.0, relative_gap=7.3e-7) for name in ("alice", "bob")}
    assert proofs_text(same) == [
        "alice and bob hold the same model, to the last bit: relative gap proven to be at most 7.3e-07."
    ]
    assert tables_text(same).count("1.00000") == 1
    assert cost_text(same["bob"]) == "2 sites, 5 totals, 22 messages to each neighbour"
    gossip = {"alice": _model(1.0, relative_gap=7e-7), "bob": _model(1.5, relative_gap=7e-7)}
    assert "each its own estimate" in proofs_text(gossip)[0]
    assert proofs_text({"alice": _model(1.0, standard_errors_off=1e-9)}) == [
        "alice holds a model."
    ]  # the table says it
