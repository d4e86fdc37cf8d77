"""`solve(live=...)`: a run on the live page while it goes on and after its end, with the same bits as without it."""

from __future__ import annotations

import gc
import html
import logging
import re
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
import weakref
from contextlib import closing

import numpy as np
import pytest

from glmesh import Problem, Run, Status, solve
from glmesh.engine.live import ABSENT, DOWN, STRETCHES, UP, stretches
from glmesh.errors import InvalidInput
from glmesh.page import server
from glmesh.page.server import LivePage
from glmesh.page.words import AWAY, HERE
from tests.cases import LIMIT
from tests.scenes import PROBLEMS, X, Y

FAULTS = {"random": [{"dropout": 0.3}], "join": [{"node": 3, "round": 20}], "leave": [{"node": 1, "round": 25}]}


class Reader:
    """Keeps the address that a run tells, and reads the page as a browser does."""

    def __init__(self) -> None:
        self.address = ""

    def __call__(self, address: str) -> None:
        self.address = address

    def page(self) -> str:
        with urllib.request.urlopen(self.address, timeout=LIMIT) as answer:
            assert "script-src 'sha256-" in answer.headers["Content-Security-Policy"]
            return str(answer.read().decode())

    def words(self, until: str = "") -> str:
        """The page as text, once it has the words `until`; a drawing takes up to a second."""
        end = time.monotonic() + LIMIT
        while True:
            words = self._text()
            if until in words:
                return words
            assert time.monotonic() < end, words
            time.sleep(0.2)

    def _text(self) -> str:
        return html.unescape(re.sub(r"<style>.*?</style>|<script>.*?</script>|<[^>]*>", " ", self.page()))


def test_the_page_shows_a_run_while_it_goes_on_and_how_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glmesh.engine.live.EVERY", 0.0)  # [s] a snapshot of every round
    reader, seen = Reader(), []

    def look(run: Run) -> None:
        if run.rounds in (10, 30):
            seen.append(reader.words(f"Round {run.rounds}"))

    options = {"n_nodes": 4, "faults": FAULTS, "tol": 1e-3, "stop": "certificate"}
    result = solve(PROBLEMS["lasso"](), live=reader, callback=look, **options)
    assert result.status is Status.CERTIFIED
    assert reader.address.startswith("http://127.0.0.1:")
    assert "Asked for: a relative gap of 0.001." in seen[0]
    assert "node 3 is no member" in seen[0]
    assert "Node 3 joined." in seen[1]
    assert "Node 1 left" in seen[1]
    end = reader.words("Certified")
    for said in ("Every node knows", result.proof, "took part to the end", "Presence", "Traffic"):
        assert said in end
    for k in np.flatnonzero(result.coef):
        assert f"x{k}" in end
    without = solve(PROBLEMS["lasso"](), **options)
    assert result.x.tobytes() == without.x.tobytes()
    assert result.bytes == without.bytes


def test_a_family_ends_with_its_forest_plot_and_column_names_cannot_be_markup() -> None:
    reader = Reader()
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X[:, :3], columns=["age", "<b>bmi</b>", "x & y"])
    solve(Problem.glm(table, Y > 0, family="binomial", alpha=0.0, fit_intercept=True), n_nodes=3, live=reader)
    words, page = reader.words("standard errors of the exact estimate"), reader.page()
    assert "<b>bmi</b>" in words
    assert "<b>bmi" not in page
    assert "class='interval'" in page


def test_the_runs_of_a_program_share_a_page_that_shows_the_newest(capsys: pytest.CaptureFixture[str]) -> None:
    first = Reader()
    solve(Problem.glm(X, Y, alpha=1.0), n_nodes=4, live=first)
    assert first.words("4 nodes")
    solve(Problem.glm(X, Y, alpha=1.0), n_nodes=5, live=True)
    told = capsys.readouterr().err
    assert told == f"live page, for this machine only: {first.address}\n"
    assert first.words("5 nodes")


def test_a_run_that_ends_with_an_error_says_so() -> None:
    reader = Reader()

    def fail(run: Run) -> None:
        raise ValueError("my own <mistake>")

    with pytest.raises(ValueError, match="my own"):
        solve(Problem.glm(X, Y, alpha=1.0), n_nodes=4, live=reader, callback=fail)
    assert "ValueError: my own <mistake>" in reader.words("Ended with an error")


def test_a_guess_of_the_address_is_refused() -> None:
    reader = Reader()
    solve(Problem.glm(X, Y, alpha=1.0), n_nodes=4, live=reader)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(reader.address.rsplit("/", 2)[0] + "/guess/", timeout=LIMIT)


def test_what_is_no_answer_to_whether_it_is_live_is_refused() -> None:
    with pytest.raises(InvalidInput, match="live must be True, False or a function"):
        solve(Problem.glm(X, Y, alpha=1.0), n_nodes=4, live="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(("n_nodes", "network"), [(1, "one node alone"), (100, "100 nodes with")])
def test_one_node_and_many_have_a_page_too(n_nodes: int, network: str) -> None:
    reader = Reader()
    many = np.random.default_rng(0).normal(size=(20, 120))
    solve(Problem.glm(many, many[:, 0], alpha=1.0), n_nodes=n_nodes, max_rounds=3, live=reader)
    reader.words(network)  # the page of the run before, and then one from before the end, may come first
    words = reader.words("Stopped at max_rounds")
    assert network in words
    assert ("Who is there" in words) == (n_nodes > 1)


def test_the_page_of_many_rounds_with_random_dropout_stays_small() -> None:
    reader, size = Reader(), []
    options = {"n_nodes": 3, "stop": "rounds", "record_every": 100, "faults": {"random": [{"dropout": 0.3}]}}
    for rounds in (STRETCHES, 5 * STRETCHES):
        solve(Problem.glm(X, Y, alpha=1.0), max_rounds=rounds, live=reader, **options)
        assert "too many to be drawn" in reader.words(f"round {rounds:,}") or rounds == STRETCHES
        size.append(len(reader.page()))
    assert size[1] < size[0]
    away = 3 * 5 * STRETCHES * 0.3
    counts = [int(one.replace(",", "")) for one in re.findall(r"away in ([\d,]+) rounds<", reader.page())]
    assert len(counts) == 3
    assert 0.8 * away < sum(counts) < 1.2 * away


def test_few_rounds_are_drawn_one_by_one() -> None:
    lane = np.array([ABSENT, ABSENT, UP, UP, UP, DOWN, UP, DOWN, DOWN], dtype=np.uint8)
    found = [(one.begin, one.end, one.kind) for one in stretches(lane)]
    assert found == [(2, 5, HERE), (5, 6, AWAY), (6, 7, HERE), (7, 9, AWAY)]
    assert [one.words for one in stretches(lane)][-1] == "was away from round 7 to 9"


@pytest.mark.parametrize("rounds", [1, STRETCHES, STRETCHES + 1, 3 * STRETCHES + 7, 10_000])
def test_stretches_are_few_and_count_each_round_once(rounds: int) -> None:
    rng = np.random.default_rng(rounds)
    lane = rng.choice([DOWN, UP], p=[0.4, 0.6], size=rounds).astype(np.uint8)
    found = stretches(lane)
    assert len(found) <= STRETCHES or rounds <= STRETCHES
    assert [0, *(one.end for one in found)] == [*(one.begin for one in found), rounds]
    for one in found:
        part = lane[one.begin : one.end]
        assert (one.here, one.away) == ((part == UP).sum(), (part == DOWN).sum())
        assert (one.kind == HERE) == (one.here > one.away)
        mixed = f"was here in {one.here:,} rounds and away in {one.away:,} from"
        assert one.words.startswith(mixed) == (min(one.here, one.away) > 0)


def test_a_child_that_is_forked_ends_although_it_has_none_of_the_threads() -> None:
    program = f"""
        import os, signal, sys
        import numpy as np
        from glmesh import Problem, solve
        X = np.random.default_rng(0).normal(size=(20, 3))
        solve(Problem.glm(X, X[:, 0], alpha=1.0), n_nodes=3, live=print)
        if not (child := os.fork()):
            signal.alarm({round(LIMIT / 2)})  # else a child that hangs would outlive the test
            sys.exit()
        sys.exit(os.waitpid(child, 0)[1])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=LIMIT, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("max_rounds", [1, 30])
def test_a_fault_of_the_page_does_not_cost_the_result(
    max_rounds: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no such terms")

    monkeypatch.setattr("glmesh.engine.live.EVERY", 0.0)  # [s] a snapshot of every round
    monkeypatch.setattr("glmesh.engine.live.terms_of", fail)
    options = {"n_nodes": 4, "max_rounds": max_rounds, "stop": "rounds"}
    result = solve(Problem.glm(X, Y, alpha=1.0), live=Reader(), **options)
    assert result.x.tobytes() == solve(Problem.glm(X, Y, alpha=1.0), **options).x.tobytes()
    assert [one.message for one in caplog.records if "no such terms" in one.message] == [
        "the live page does not keep up with the run: ValueError: no such terms"
    ]


def test_a_page_that_cannot_be_drawn_stays_as_it_was_and_is_drawn_once_it_can_be(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "EVERY", 0.05)  # [s] between two drawings
    broken, content, reader, tries = [False], "drawing", Reader(), [0]

    def draw() -> tuple[str, str]:
        tries[0] += 1
        if broken[0]:
            raise KeyError("column")
        return "page", f"<p>{content}</p>"

    with closing(LivePage(draw)) as page, caplog.at_level(logging.WARNING):
        reader.address = page.address
        reader.words("drawing")
        broken[0], before, end = True, tries[0], time.monotonic() + LIMIT
        while tries[0] < before + 5:
            assert "drawing" in reader.words()
            assert time.monotonic() < end
            time.sleep(0.2)
        content = "drawing again"
        broken[0] = False
        assert reader.words("drawing again")
    assert [one.message for one in caplog.records if "KeyError" in one.message] == [
        "the live page cannot be drawn, and stays as it is: KeyError: 'column'"
    ]


def test_nobody_watches_so_nothing_is_drawn_at_the_end() -> None:
    drawn: list[int] = []

    def draw() -> tuple[str, str]:
        drawn.append(1)
        return "page", "<p></p>"

    LivePage(draw).close()
    assert len(drawn) == 1  # the page that is there before anybody asks


def test_the_page_does_not_keep_the_data_of_a_run_that_has_ended() -> None:
    reader, data = Reader(), X.copy()
    problem = Problem.glm(data, Y, alpha=1.0)
    held = weakref.ref(problem)
    solve(problem, n_nodes=4, live=reader)
    reader.words("4 nodes")
    del problem
    gc.collect()
    assert held() is None
    assert reader.words("Converged")
