"""The log of a node: events as lines for people and as JSON, with the keys that readers rely on."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

from glmesh.federation.monitor.history import read_lines
from glmesh.federation.monitor.log import RecentLines, line_handler, node_log


def test_an_event_is_a_line_for_people_and_a_line_of_json(tmp_path: Path) -> None:
    stream, recent = io.StringIO(), RecentLines()
    with node_log("alice", tmp_path / "log.jsonl") as log:
        log.addHandler(line_handler(stream))
        log.addHandler(recent)
        log.warning("silent", extra={"peer": "bob", "waited": 1.23456, "why": "two words"})
        log.info("joined again")
    first, second = read_lines(tmp_path / "log.jsonl")
    assert list(first) == ["time", "node", "event", "peer", "waited", "why"]
    assert (first["node"], first["event"], first["waited"]) == ("alice", "silent", 1.23456)
    assert list(second) == ["time", "node", "event"]
    lines = stream.getvalue().splitlines()
    assert re.fullmatch(r'\d\d:\d\d:\d\d alice silent peer=bob waited=1.235 why="two words"', lines[0])
    assert lines == list(recent.lines)


def test_a_log_is_continued_and_its_handlers_end_with_it(tmp_path: Path) -> None:
    for number in range(2):
        with node_log("alice", tmp_path / "log.jsonl") as log:
            log.info("up", extra={"path": tmp_path, "number": number})
        log.info("nobody hears this")
    entries = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [entry["number"] for entry in entries] == [0, 1]
    assert entries[0]["path"] == str(tmp_path)
