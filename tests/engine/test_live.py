"""`solve(live=...)`: a run on the live page while it goes on and after its end, with the same bits as without it."""

from __future__ import annotations

import html
import re
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from glmesh import Problem, Run, Status, solve
from glmesh.errors import InvalidInput
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
    words = reader.words(network)
    assert "Stopped at max_rounds" in words
    assert ("Who is there" in words) == (n_nodes > 1)
