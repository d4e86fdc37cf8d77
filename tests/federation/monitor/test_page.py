"""The page about sites: verdicts, states, presence, traffic, charts that can be read, and nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from glmesh.errors import UnreadableFile
from glmesh.federation.monitor.page import presence
from glmesh.federation.monitor.page.record import MOST, Folder, SiteRecord
from glmesh.federation.monitor.page.sections import lanes, proof, table, traffic
from glmesh.federation.monitor.page.words import event_text, state, verdict
from glmesh.federation.monitor.report import page
from glmesh.files.model_files import Model
from glmesh.page.charts import COLOURS, HEIGHT, Line, Upright, chart
from glmesh.page.document import STYLE
from glmesh.page.words import number
from tests.federation.monitor.pages import START, Page, entry, event, restarted, write


def look(path: str) -> SiteRecord:
    return Folder(Path(path)).look()


def running(name: str, **other: object) -> SiteRecord:
    """A site whose last entry is as old as the reading of its files."""
    entries = [entry(name, at, 0.0, **other) for at in (1, 2, 3)]
    return SiteRecord(name, entries, [], None, None, START + 3.5)


def test_the_report_has_no_script_loads_nothing_and_allows_only_its_own_style(tmp_path: Path) -> None:
    read = Page(page([restarted(tmp_path)]))
    assert read.outside == []
    assert read.count("script") == 0
    assert not any("style" in attrs for _, attrs in read.tags), "a strict policy ignores attributes of style"
    assert not re.search(r"url\(|@import|@font-face", read.style)
    policy = next(attrs["content"] for tag, attrs in read.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(read.style.encode()).digest()).decode()
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"style-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "script-src" not in policy


def test_names_from_files_are_text_and_no_tags(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    entries = [entry("alice", at, 0.0, members=[evil], without=[evil]) for at in (1, 2)]
    events = [event("alice", 1, "down", peer=evil, why=evil), event("alice", 2, evil, why=evil)]
    read = Page(page([write(tmp_path, entries, events)]))
    assert read.count("script") == 0
    assert evil in read.words


def test_a_site_that_was_stopped_reads_stopped_and_a_killed_one_does_not_train(tmp_path: Path) -> None:
    stopped = look(restarted(tmp_path))
    assert state(stopped) == "stopped"
    assert verdict([stopped]).head == "Stopped"
    killed = look(write(tmp_path, [entry("bob", at, 0.0) for at in (1, 2)], []))
    assert state(killed) == "gone without a word"
    assert "killed" in verdict([killed]).text


def test_bytes_of_processes_add_up_so_traffic_does_not_fall_after_a_restart(tmp_path: Path) -> None:
    site = look(restarted(tmp_path))
    assert len(site.sessions) == 2
    drawn = traffic([site])
    pieces = re.findall(r"<polyline class='c0' points='([^']+)'", drawn)
    assert len(pieces) == 2, "nothing is drawn for the time in which the site was away"
    heights = [float(place.split(",")[1]) for piece in pieces for place in piece.split()]
    assert all(after <= before for before, after in pairwise(heights))
    assert "20 kB" in drawn


def test_lanes_show_when_a_site_was_away_and_that_it_was_started_again(tmp_path: Path) -> None:
    site = look(restarted(tmp_path))
    found, restarts = presence.spans("alice", [site], site.latest)
    assert [kind for _, _, kind in found] == ["here", "away", "here"]
    assert restarts == [START + 20]
    assert presence.away("alice", [site], site.latest) == pytest.approx(10, abs=0.5)
    assert "away for 10.0 s, started again once" in lanes([site])


def test_the_lane_of_a_member_that_wrote_nothing_is_what_its_neighbour_saw() -> None:
    seen = ["up", "up", "silent", "down", "up"]
    entries = [
        entry("alice", at, 0.0, neighbours={"bob": {"state": one, "dropped": 0}}) for at, one in enumerate(seen, 1)
    ]
    site = SiteRecord("alice", entries, [], None, None, START + 6)
    kinds = [kind for _, _, kind in presence.spans("bob", [site], START + 6)[0]]
    assert kinds == ["here", "away", "here"]


def test_a_gossiping_site_does_not_claim_to_see_members_that_are_no_neighbours() -> None:
    neighbours = {"bob": {"state": "up", "dropped": 0, "deadline": 1.0}}
    site = running("alice", neighbours=neighbours)
    assert presence.presence([site]) == {"alice": "here", "bob": "here", "carol": "unknown"}
    assert presence.words("carol", [site]) == "not seen from here"
    totals = running("alice", neighbours={"bob": {"state": "up", "dropped": 0}})
    assert presence.presence([totals])["carol"] == "here", "members of totals have signed that they are there"


def test_the_lane_of_a_neighbour_is_that_of_its_link_and_begins_with_its_absence() -> None:
    """The history begins when all have met; the log knows when a neighbour came, went and was silent."""
    entries = [entry("alice", at, 0.0, neighbours={"bob": {"state": "up", "dropped": 0}}) for at in range(20, 41)]
    about = [(5, "up"), (22, "silent"), (25, "heard"), (30, "down"), (34, "up")]
    events = [event("alice", at, what, peer="bob", why="") for at, what in about]
    site = SiteRecord("alice", entries, events, None, None, START + 41)
    found, _ = presence.spans("bob", [site], START + 41)
    assert [(begin - START, end - START, kind) for begin, end, kind in found] == [
        (0, 5, "away"), (5, 22, "here"), (22, 25, "away"), (25, 30, "here"), (30, 34, "away"), (34, 40, "here"),
    ]  # fmt: skip
    assert presence.away("bob", [site], START + 41) == 12


def test_a_neighbour_that_has_finished_is_not_away_when_its_link_ends() -> None:
    entries = [entry("alice", at, 0.0, neighbours={"bob": {"state": "up", "dropped": 0}}) for at in range(1, 11)]
    events = [event("alice", 0, "up", peer="bob"), event("alice", 10, "down", peer="bob", why="its stream ended")]
    end = event("alice", 10.5, "end", outcome="certified", why="Done.", sites=[], without=[])
    site = SiteRecord("alice", entries, [*events, end], None, None, START + 11)
    assert [kind for _, _, kind in presence.spans("bob", [site], START + 11)[0]] == ["here"]


def test_while_a_member_is_away_there_is_no_estimate_and_the_page_says_that_no_proof_can_come() -> None:
    waiting = {"names": ["carol"], "since": START, "until": None}
    said = verdict([running("alice", waiting=waiting), running("bob", waiting=waiting)])
    assert said.head.startswith("Waiting for carol since ")
    assert "No proof can come while carol is away" in said.text
    assert not re.search(r"\d s\b|left", said.text)
    silent = {"carol": {"state": "silent", "dropped": 0, "deadline": 1.0}}
    assert "without a sign of carol" in verdict([running("alice", neighbours=silent)]).head


def test_a_proof_that_has_grown_old_is_called_so() -> None:
    said = verdict([running("alice", round=5000, certificate_round=900)])
    assert "That is about round 900; no proof has come since" in said.text
    assert "no proof has come" not in verdict([running("alice", round=1000, certificate_round=980)]).text


def test_verdicts_of_ends(tmp_path: Path) -> None:
    entries = [entry("alice", at, 0.0, certificate=8.4e-8) for at in (1, 2)]
    end = event("alice", 2.1, "end", outcome="certified", why="All 3 sites hold a model.", sites=[], without=[])
    said = verdict([look(write(tmp_path, entries, [end]))])
    assert (said.head, said.good) == ("Finished, with a proof: relative gap at most 9·10⁻⁸", True)
    assert said.text == "All 3 sites hold a model."
    error = event("alice", 2.1, "error", why="bob.csv lacks the column age")
    said = verdict([look(write(tmp_path, entries, [error]))])
    assert (said.head, said.good) == ("Ended without a model", False)
    assert "bob.csv lacks the column age" in said.text
    without = [entry("alice", at, 0.0, members=["alice", "bob"], without=["carol"]) for at in (1, 2)]
    said = verdict([look(write(tmp_path, without, [end]))])
    assert said.head.endswith("without carol (2 of 3 sites)")
    assert said.good is False


def test_a_start_long_after_the_end_of_a_run_is_a_new_run(tmp_path: Path) -> None:
    end = event("alice", 2.1, "end", outcome="certified", why="Done.", sites=[], without=[])
    later = [entry("alice", at, 9000.0) for at in (9001, 9002)]
    site = look(write(tmp_path, [entry("alice", 1, 0.0), *later], [end, event("alice", 9001, "up", peer="bob")]))
    assert (len(site.sessions), [one["event"] for one in site.events]) == (1, ["up"])
    soon = [entry("alice", at, 10.0) for at in (11, 12)]
    assert len(look(write(tmp_path, [entry("alice", 1, 0.0), *soon], [end])).sessions) == 2


def test_a_long_history_is_thinned_and_keeps_where_processes_begin_and_end(tmp_path: Path) -> None:
    entries = [entry("alice", at, 0.0) for at in range(1, MOST)]
    entries += [entry("alice", at, float(MOST + 50)) for at in range(MOST + 51, 2 * MOST)]
    site = look(write(tmp_path, entries, []))
    assert len(site.entries) <= MOST
    assert [len(site.sessions), site.sessions[0].ended, site.entries[-1]] == [2, entries[MOST - 2]["time"], entries[-1]]


def test_lines_that_are_still_being_written_are_read_later(tmp_path: Path) -> None:
    folder = Folder(Path(write(tmp_path, [entry("alice", 1, 0.0)], [])))
    assert len(folder.look().entries) == 1
    with (tmp_path / "alice.state" / "history.jsonl").open("a") as stream:
        stream.write('{"time": 1700000002.0, "node": "al')
        stream.flush()
        assert len(folder.look().entries) == 1
        stream.write('ice", "seconds": 2.0, "neighbours": {}}\nnot json\n')
    assert [one["time"] for one in folder.look().entries] == [START + 1, START + 2]


def test_a_folder_without_history_is_no_state_folder(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="a node writes it while it runs"):
        page([str(tmp_path)])


def test_a_run_that_ended_before_anything_was_computed_has_a_page(tmp_path: Path) -> None:
    folder = write(tmp_path, [], [event("alice", 1, "error", why="alice.csv: no such file")], told=False)
    read = Page(page([folder]))
    assert read.headings[0] == "Ended without a model"
    assert "alice.csv: no such file" in read.words


def test_events_are_sentences() -> None:
    known = ["up", "down", "silent", "heard", "unreachable", "refused", "violation", "cannot take part", "waiting"]
    known += [
        "compiling",
        "training",
        "resumed",
        "joined again",
        "gone",
        "certified",
        "ended",
        "end",
        "error",
        "reveals",
        "data",
    ]
    for what in known:
        said = event_text(event("alice", 1, what, peer="bob", why="its stream ended", waited=2.0, away=700.0))
        assert said[0].isupper(), what
        assert said.endswith("."), what
        assert "=" not in said, what
    assert event_text(event("alice", 1, "gone", peer="bob", away=700.0, model="reset")) == (
        "Gave bob up after 11 min 40 s without a sign. Its data does not count any more."
    )
    assert event_text(event("alice", 1, "new", peer="bob")) == "New: peer bob."


@pytest.mark.parametrize("told", [(0.0, "0"), (1.0, "1"), (3e-7, "3·10⁻⁷"), (1.25e-12, "1.2·10⁻¹²"), (0.5, "0.5")])
def test_numbers_are_written_as_people_do(told: tuple[float, str]) -> None:
    assert number(told[0]) == told[1]


# charts


def ends_of(drawn: str) -> list[float]:
    """The heights of the names at the ends of lines."""
    return [float(y) for y in re.findall(r"class='c\d name'[^>]* y='([\d.]+)'", drawn)]


def test_a_gap_of_0_is_at_the_floor_the_goal_is_drawn_and_ends_are_marked() -> None:
    lines = [
        Line("alice", (((0.0, 1.0), (1.0, 1e-3), (2.0, 0.0)),), 0),
        Line("bob", (((0.0, 0.5), (2.0, 1e-5)),), 1),
    ]
    drawn = chart(lines, "seconds", "proof", Upright(logarithmic=True, goal=1e-4))
    ends = [float(y) for y in re.findall(r"class='c\d end' cx='[\d.]+%' cy='([\d.]+)'", drawn)]
    assert max(ends) == HEIGHT
    assert f"y='{HEIGHT + 4:.1f}' text-anchor='end'>0</text>" in drawn
    goal = float(re.search(r"class='goal' x1='0' x2='100%' y1='([\d.]+)'", drawn).group(1))  # type: ignore[union-attr]
    assert goal < min(ends)
    assert "goal 1·10⁻⁴" in drawn


def test_names_at_the_ends_of_lines_do_not_cover_each_other() -> None:
    lines = [Line(f"s{k}", (((0.0, 1.0), (1.0, 100.0 + 3.0 * k), (2.0, 50.0 + k)),), k) for k in range(5)]
    places = sorted(ends_of(chart(lines, "seconds", "bytes")))
    assert len(places) == 5
    assert min(np.diff(places)) >= 15


def test_lines_that_lie_on_each_other_are_one_line_with_all_names() -> None:
    alike = [Line(name, (((0.0, 1.0), (9.0, 1e-3 * (1 + k / 1000))),), k) for k, name in enumerate(("alice", "bob"))]
    drawn = chart([*alike, Line("carol", (((0.0, 1.0), (9.0, 0.1)),), 2)], "rounds", "proof", Upright(logarithmic=True))
    assert drawn.count("<polyline") == 2
    assert "alice, bob" in drawn


def test_one_point_and_none() -> None:
    assert (
        chart([Line("a", (((1.0, 1e-9),),))], "rounds", "proof", Upright(logarithmic=True, goal=1e-6)).count("circle")
        == 2
    )
    assert chart([Line("a", ())], "rounds", "proof", Upright(goal=1e-4)) == ""
    assert ">0</text>" in chart([Line("a", (((0.0, 0.0), (1.0, 0.0)),))], "rounds", "proof", Upright(logarithmic=True))


def test_text_has_11_pixels_or_more_on_every_screen(tmp_path: Path) -> None:
    sizes = [float(one) for one in re.findall(r"font-size: ([\d.]+)px", STYLE)]
    rems = [16 * float(one) for one in re.findall(r"font-size: ([\d.]+)rem", STYLE)]
    assert min(sizes + rems) >= 11
    read = Page(page([restarted(tmp_path)]))
    boxes = [attrs["viewbox"] for tag, attrs in read.tags if tag == "svg" and attrs.get("viewbox")]
    scaled = [box.split() for box in boxes if box and attrs_scale(box)]
    assert all(float(box[2]) <= 340 for box in scaled), "a picture that a phone makes smaller"
    assert not any("font-size" in attrs for _, attrs in read.tags)


def attrs_scale(box: str) -> bool:
    """Whether a view box holds text; that of curves, 100 wide, is stretched and holds none."""
    return not box.startswith("0 0 100 ")


def luminance(colour: str) -> float:
    """Relative luminance of #rgb or #rrggbb, as WCAG 2 defines it."""
    digits = colour.lstrip("#")
    digits = "".join(2 * one for one in digits) if len(digits) == 3 else digits
    parts = np.array([int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_of_text_can_be_read_in_light_and_dark_and_no_two_lines_have_the_same(scheme: str) -> None:
    blocks = re.findall(r":root \{([^}]*)\}", STYLE)
    values = dict(re.findall(r"--([\w]+): (#\w+);", blocks[0]))
    if scheme == "dark":
        values |= dict(re.findall(r"--([\w]+): (#\w+);", blocks[1]))
    card = luminance(values["card"])
    names = ["ink", "quiet", "good", "bad", "goal", *(f"c{k}" for k in range(COLOURS))]
    for name in names:
        bright, dim = sorted([card, luminance(values[name])], reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, name
    assert len({values[f"c{k}"] for k in range(COLOURS)}) == COLOURS
    for k in range(COLOURS):  # a rule that is stronger than that for all text
        assert f"svg .c{k} {{ fill: var(--c{k}); }}" in STYLE


# coefficients


def test_a_penalised_model_is_drawn_as_bars_by_name_and_says_why_there_are_no_intervals(tmp_path: Path) -> None:
    folder = restarted(tmp_path)
    Model(np.array([1.5, 0.0, -0.25]), 0.5, "logistic", "l1", alpha=1.0, l1_ratio=1.0).save(Path(folder) / "model.npz")
    read = Page(page([folder]))
    assert read.count("line", "bar") == 2
    assert "1 of 3 coefficients are 0" in read.words
    assert "fits without a penalty" in read.words


def test_shares_of_several_sites_are_one_list_with_the_names_of_the_sites(tmp_path: Path) -> None:
    folders = [restarted(tmp_path, name) for name in ("alice", "bob")]
    for k, folder in enumerate(folders):
        info: dict[str, str | float | int] = {"node": Path(folder).stem, "split": "features"}
        coef = np.array([1.0 + k, 0.0, -3.0 + k])
        Model(coef, 0.5, "squared", "l1", alpha=1.0, l1_ratio=1.0, info=info).save(Path(folder) / "model.npz")
    shown = page(folders)
    order = re.findall(r"class='term'>(\w+: \w+)<", shown)
    assert order == ["alice: x2", "bob: x0", "bob: x2", "alice: x0"]
    assert "2 of 6 coefficients are 0" in shown


def test_the_model_of_an_earlier_run_is_not_shown_while_another_one_is_computed(tmp_path: Path) -> None:
    folder = Path(write(tmp_path, [entry("alice", 1, 0.0)], []))
    Model(np.ones(2), 0.5, "logistic", "l1", alpha=1.0, l1_ratio=1.0).save(folder / "model.npz")
    assert Folder(folder).look().model is not None
    later = entry("alice", 2, 1.0) | {"time": time.time() + 3600, "seconds": 1.0}
    assert Folder(folder, lambda: later).look().model is None


def _polylines(html: str) -> int:
    return html.count("<polyline")


def test_the_line_of_proofs_is_broken_where_somebody_was_away_and_does_not_begin_anew_after_the_end(
    tmp_path: Path,
) -> None:
    away = {"waiting": {"names": ["bob"], "since": START + 10, "until": None}, "certificate": 1e-2}
    before = [entry("alice", at, 0.0) for at in range(1, 11)]
    waited = [entry("alice", at, 0.0, certificate_round=100, **away) for at in range(11, 14)]
    after = [entry("alice", at, 0.0) for at in range(14, 20)]
    whole = Folder(Path(write(tmp_path, [*before, *after], []))).look()
    assert _polylines(proof([whole])) == 1
    once = Folder(Path(write(tmp_path, [*before, *waited, *after], []))).look()
    assert _polylines(proof([once])) == 2
    assert "<td data-head='rounds'>190</td>" in table([once])
    again = entry("alice", 130, 129.5, round=0, certificate_round=0, certificate=1e-9)
    end = event("alice", 19.2, "end", outcome="certified", why="Proven.", sites=[], without=[])
    twice = Folder(Path(write(tmp_path, [*before, *waited, *after, again], [end]))).look()
    assert proof([twice]) == proof([once])
    assert "<td data-head='rounds'>190</td>" in table([twice])


def test_a_site_that_was_away_itself_has_a_broken_line_of_proofs(tmp_path: Path) -> None:
    entries = [entry("alice", at, 0.0) for at in range(1, 11)] + [entry("alice", at, 60.0) for at in range(61, 70)]
    assert _polylines(proof([Folder(Path(write(tmp_path, entries, []))).look()])) == 2
