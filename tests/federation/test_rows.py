"""Two sites compare the names of their rows, and only if both ask for it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh.cli import main
from glmesh.core import Violation
from glmesh.federation.config import Federation, Member, NetworkPart, ProblemPart
from glmesh.federation.monitor.doctor import Finding, compare
from glmesh.federation.rows import NameMatch, RowSearch
from glmesh.federation.wire import pack_json
from tests.cases import LIMIT, prop
from tests.loopback import Loopback

FEDERATION = Federation(
    "test",
    ProblemPart(split="features"),
    NetworkPart(salt="s"),
    (Member("ann", "127.0.0.1:1", "sha256:1"), Member("ben", "127.0.0.1:2", "sha256:2")),
)
NAMES = st.lists(st.sampled_from([f"p{k}" for k in range(12)]), min_size=1, max_size=12, unique=True)


def _talk(one: Any, other: Any, n_one: int, n_other: int) -> list[list[bytes]]:
    """Let two machines talk until nothing is left to be said; return what each has sent."""
    sides, said = (one, other), [[], []]  # type: ignore[var-annotated]
    queues = [deque(side.begin(n)) for side, n in zip(sides, (n_other, n_one), strict=True)]
    while any(queues):
        for k in (0, 1):
            if queues[k]:
                said[k].append(queues[k].popleft())
                queues[1 - k].extend(sides[1 - k].receive(said[k][-1]))
    assert one.done
    assert other.done
    return said


@prop(300)
@given(NAMES, NAMES, st.integers(0, 12))
def test_a_search_finds_the_rows_that_are_the_same_and_tells_few_digests(
    mine: list[str], yours: list[str], shared: int
) -> None:
    yours = list(dict.fromkeys([*mine[:shared], *yours]))
    one, other = RowSearch(mine, FEDERATION), RowSearch(yours, FEDERATION)
    said = _talk(one, other, len(mine), len(yours))
    same = next((k for k, (a, b) in enumerate(zip(mine, yours, strict=False)) if a != b), min(len(mine), len(yours)))
    assert one.same == other.same == same
    assert max(map(len, said)) <= min(len(mine), len(yours)).bit_length() + 1
    if same < min(len(mine), len(yours)):
        assert one.place() == (mine.index(yours[same]) if yours[same] in mine else None)


@prop(300)
@given(NAMES, NAMES)
def test_a_match_finds_the_names_that_both_have(mine: list[str], yours: list[str]) -> None:
    one, other = NameMatch(mine, FEDERATION), NameMatch(yours, FEDERATION)
    said = _talk(one, other, len(mine), len(yours))
    assert one.shared() == [k for k, name in enumerate(mine) if name in yours]
    assert other.shared() == [k for k, name in enumerate(yours) if name in mine]
    told = b"".join(said[0])
    digests = [told[k : k + 16] for k in range(0, len(told), 16)]
    assert digests == sorted(digests)  # the order of the rows is not told
    salted = NameMatch(mine, replace(FEDERATION, network=NetworkPart(salt="t")))
    assert not set(digests) & {salted.begin(1)[0][k : k + 16] for k in range(0, 16 * len(mine), 16)}


def test_a_message_that_cannot_be_is_a_violation() -> None:
    search, match = RowSearch(["a", "b"], FEDERATION), NameMatch(["a", "b"], FEDERATION)
    search.begin(2)
    match.begin(2)
    for wrong in ({"count": 1, "digest": "0" * 32}, {"count": 2, "digest": "0"}, {"count": "2"}, {}):
        with pytest.raises(Violation):
            search.receive(pack_json(wrong))
    for content in (b"", b"x" * 15, b"x" * 48):
        with pytest.raises(Violation):
            match.receive(content)


def _sites(folder: Path, names: dict[str, list[str]], split: str = "features", **other: Any) -> Loopback:
    files = {
        site: "".join(f"{line}\n" for line in [f"patient,x{k},y", *(f"{name},{k}.5,1" for name in ids)])
        for k, (site, ids) in enumerate(names.items())
    }
    problem = {"loss": "squared", "split": split}
    made = Loopback.make(folder, files, problem=problem, node={"ids": "patient"}, **other)
    for k, site in enumerate(files):
        if split == "samples":
            (folder / f"{site}.csv").write_text((folder / f"{site}.csv").read_text().replace(f"x{k}", "x"))
    return made


def _both(made: Loopback, purpose: str) -> dict[str, list[Finding]]:
    """What two sites find that compare rows with each other at the same time."""
    found: dict[str, list[Finding]] = {}

    def one(site: str, other: str) -> None:
        found[site] = list(compare(made.folder / f"{site}.toml", purpose, other))

    threads = [threading.Thread(target=one, args=pair) for pair in (("alice", "bob"), ("bob", "alice"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    return found


PEOPLE = [f"p{k}" for k in range(30)]
SWAPPED = [*PEOPLE[:3], PEOPLE[9], *PEOPLE[4:9], PEOPLE[3], *PEOPLE[10:]]
PLACES = {
    "the same": (PEOPLE, "ok", "all 30 rows have the same names", "all 30 rows have the same names"),
    "swapped": (
        SWAPPED,
        "error",
        "first 3 rows are the same at bob; then alice.csv has line 5 (p3), where bob has the row that is line 11 (p9)",
        "then bob.csv has line 5 (p9), where alice has the row that is line 11 (p3) here",
    ),
    "a stranger": (
        ["p00", *PEOPLE[1:]],
        "error",
        "already the first row is another at bob; then alice.csv has line 2 (p0), where bob has a row that is not in",
        "then bob.csv has line 2 (p00), where alice has a row that is not in bob.csv",
    ),
    "fewer": (
        PEOPLE[:28],
        "error",
        "the first 28 rows are the same at bob; alice.csv has 2 rows more, from line 30 (p28) on",
        "the first 28 rows are the same at alice, which has 2 rows more at its end",
    ),
}


@pytest.mark.waits
@pytest.mark.parametrize("case", PLACES)
def test_two_sites_find_where_their_rows_part(tmp_path: Path, case: str) -> None:
    ids, level, alices, bobs = PLACES[case]
    found = _both(_sites(tmp_path, {"alice": PEOPLE, "bob": ids}), "rows")
    for site, words in (("alice", alices), ("bob", bobs)):
        told, waiting, rows = found[site]
        assert told.what == "what is told"
        assert "Both learn how many rows at the beginning are the same" in told.seen
        assert "glmesh doctor" in waiting.seen
        assert rows.level == level
        assert words in rows.seen


@pytest.mark.waits
def test_two_sites_find_the_same_patients(tmp_path: Path) -> None:
    names = {"alice": PEOPLE[:20], "bob": ["p25", "p3", "p26", "p19"], "carol": ["z"]}
    network = {"topology": "links", "links": [["alice", "carol"], ["bob", "carol"]]}  # they need not be neighbours
    made = _sites(tmp_path, names, "samples", network=network)
    found = _both(made, "distinct")
    assert [one.level for one in found["alice"]] == ["ok", "ok", "warning"]
    assert "it can find out all that the other has" in found["alice"][0].seen
    assert "bob has rows of the same names as 2 rows of alice.csv (line 5, 21)" in found["alice"][-1].seen
    assert "alice has rows of the same names as 2 rows of bob.csv (line 3, 5)" in found["bob"][-1].seen


@pytest.mark.waits
def test_nothing_is_told_to_a_site_that_asks_alone_or_for_something_else(tmp_path: Path, capsys: Any) -> None:
    made = _sites(tmp_path, {"alice": PEOPLE, "bob": SWAPPED}, network={"meet_within": 0.5})
    assert main(["doctor", str(tmp_path / "alice.toml"), "--rows", "bob"]) == 2
    out = capsys.readouterr().out
    assert "bob did not take part within 0.5 s" in out
    assert "`glmesh doctor bob.toml --rows alice` at the same time" in out
    for options, words in (
        (["--rows", "alice"], "alice is this site; name the other one"),
        (["--rows", "eve"], "'eve' is no member"),
        (["--distinct", "bob"], "--rows finds where they part"),
    ):
        assert main(["doctor", str(tmp_path / "alice.toml"), *options]) == 2
        assert words in capsys.readouterr().out
    made.write_node("alice", made.federation)
    assert main(["doctor", str(tmp_path / "alice.toml"), "--rows", "bob"]) == 2
    assert "rows have no names to be compared" in capsys.readouterr().out


@pytest.mark.waits
def test_a_node_that_trains_tells_nothing(tmp_path: Path) -> None:
    made = _sites(tmp_path, {"alice": PEOPLE, "bob": SWAPPED}, network={"meet_within": 200.0})
    thread = threading.Thread(target=made.run, args=("alice",))
    thread.start()
    *_, last = compare(tmp_path / "bob.toml", "rows", "alice")
    thread.join(LIMIT)
    assert last.level == "error"
    assert "alice" in last.seen
    assert "trains" in last.seen or "does not train" in last.seen
    assert "compare rows" in made.errors["alice"] or "runs `doctor --rows`" in made.errors["alice"]


@pytest.mark.waits
def test_the_commands_of_two_sites_end_alike(tmp_path: Path) -> None:
    _sites(tmp_path, {"alice": PEOPLE, "bob": SWAPPED})
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "glmesh", "doctor", f"{site}.toml", "--rows", other],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for site, other in (("alice", "bob"), ("bob", "alice"))
    ]  # fmt: skip
    said = [run.communicate(timeout=LIMIT) for run in runs]
    for run, (out, errors), site in zip(runs, said, ("alice", "bob"), strict=True):
        assert run.returncode == 2
        assert not errors
        assert f"then {site}.csv has line 5" in out
