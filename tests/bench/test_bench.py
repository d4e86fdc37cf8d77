"""Comparisons: data by name, proven optima, one way of counting, and the page that comes of it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression, Ridge

from glmesh import Cola, Network, Problem
from glmesh.bench import Reference, Trace, Watch, addition, data, follow, reference, report
from glmesh.bench.compare import Race, RacePlan, races
from glmesh.bench.contenders import CONTENDERS, Contender
from glmesh.bench.data import DataSet
from glmesh.bench.draw import Panel
from glmesh.bench.trace import KEYS
from glmesh.cli import main
from glmesh.cli.tables import text_table
from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.methods import Dapg, Diging, Nids


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(data.VARIABLE, raising=False)


def small(m: int = 60, p: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, p))
    return X, np.where(X @ rng.normal(size=p) + 0.3 * rng.normal(size=m) > 0, 1.0, -1.0)


@pytest.mark.parametrize("name", list(data.ENTRIES))
def test_stand_ins_have_unit_rows_and_two_classes(name: str) -> None:
    one = data.load(name)
    again = data.load(name, real=False)
    m, p, per_row = data.ENTRIES[name].stand_in
    assert one.X.shape == (m, p)
    assert not one.real
    assert one.density == pytest.approx(min(per_row / p, 1.0))
    squares = np.asarray((one.X * one.X).sum(axis=1)).ravel()
    np.testing.assert_allclose(squares, 1.0)
    assert set(one.y) == {-1.0, 1.0}
    assert 0.2 < (one.y > 0).mean() < 0.8
    assert np.array_equal(one.y, again.y)


def test_a_file_is_read_from_the_folder_or_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = small(20, 8)
    X[:, 3] = 0.0
    dump_svmlight_file(X, np.where(y > 0, 2, 1), str(tmp_path / "a9a"), zero_based=False)
    for one in (data.load("a9a", folder=tmp_path), None):
        if one is None:
            monkeypatch.setenv(data.VARIABLE, str(tmp_path))
            one = data.load("a9a", real=True)
        assert one.real
        assert one.source == "a9a"
        assert one.X.shape == (20, 7)  # what occurs in no sample is left out
        assert np.array_equal(one.y, y)
    assert not data.load("a9a", real=False).real


def test_the_message_about_a_missing_file_says_where_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"RCV1.*no file rcv1_subsets.*libsvmtools.*GLMESH_DATA"):
        data.load("rcv1", folder=tmp_path, real=True)
    with pytest.raises(InvalidInput, match=r"unknown data set 'mnist'; did you mean .*Known: rcv1"):
        data.load("mnist")


@pytest.mark.parametrize("split", ["features", "samples"])
def test_a_reference_is_proven_and_right(split: str) -> None:
    X, y = small()
    ridge = reference(Problem.glm(X, y, alpha=2.0, split=split))
    coef = Ridge(alpha=2.0, fit_intercept=False).fit(X, y).coef_
    true = 0.5 * np.sum((X @ coef - y) ** 2) + np.sum(coef**2)
    assert ridge.relative_gap <= 1e-9
    assert true - 1e-9 <= ridge.objective <= true * (1 + 1e-9)
    assert ridge.start == pytest.approx(0.5 * len(y))
    assert ridge.of_start(ridge.start) == pytest.approx(1.0)
    logistic = reference(Problem.glm(X, y, loss="logistic", alpha=1.0, split=split))
    model = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, solver="newton-cholesky").fit(X, y)
    w = model.coef_[0]
    assert logistic.objective == pytest.approx(np.sum(np.logaddexp(0, -y * (X @ w))) + 0.5 * w @ w, rel=1e-8)


def test_costs_of_all_methods_are_counted_in_one_way() -> None:
    """Exchanges times edges times the length of the message, for every kind of method."""
    X, y = small()
    problem = Problem.glm(X, y, alpha=2.0)
    best, edges = reference(problem), 2 * 4
    lengths = {"features": len(y), "samples": X.shape[1]}
    for method, split, exchanges, vectors in (
        (Cola.printed(), "features", 1, 1),
        (Cola.printed(), "samples", 1, 1),
        (Nids(), "features", 1, 1),
        (Nids(), "samples", 1, 1),
        (Diging(), "features", 1, 2),
        (Dapg(gossip_steps=2), "features", 4, 4),
    ):
        length = lengths[split] if isinstance(method, Cola) else X.shape[1]
        one = follow(
            Problem.glm(X, y, alpha=2.0, split=split),
            method,
            best,
            Watch(max_communications=12, every_round=True),
            n_nodes=4,
        )
        rounds = one.history["round"]
        np.testing.assert_array_equal(one.history["communications"], exchanges * rounds)
        np.testing.assert_allclose(one.history["vectors"], vectors * rounds)
        np.testing.assert_array_equal(one.history["bytes"], 8 * length * vectors * edges * rounds)
        np.testing.assert_allclose(one.bytes_per_edge, 8 * length * vectors * rounds)
        if not isinstance(method, Nids):  # which begins with a step that needs no exchange
            assert one.history["suboptimality"][0] == pytest.approx(best.suboptimality(best.start))


def test_a_trace_stops_at_its_goal_and_knows_the_cost() -> None:
    X, y = small()
    problem = Problem.glm(X, y, alpha=2.0)
    best = reference(problem)
    one = follow(problem, Nids(), best, Watch(1e-4, consensus=True), n_nodes=4, network=Network(latency=0.5))
    assert one.last["suboptimality"] <= 1e-4 < one.history["suboptimality"][-2]
    hit = one.first(1e-2)
    assert hit is not None
    assert hit["communications"] <= one.last["communications"]
    assert one.last["seconds"] >= 0.5 * one.last["communications"]
    assert one.first(1e-300) is None
    assert one.last["consensus"] > 0
    never = follow(problem, Nids(10.0), best, Watch(max_communications=3_000), n_nodes=4)
    assert not np.isfinite(never.last["suboptimality"])  # diverged, and ended there


def test_a_race_leaves_out_unsuitable_methods_and_says_why() -> None:
    X, y = small()
    ours = ["CoLA default, by features", "CoLA default, by samples", "CoLA sums, by samples"]
    names = [*ours, "DIGing", "NIDS", "PG-EXTRA"]
    plan = RacePlan(objectives=["lasso", "ridge"], topologies=["ring"], contenders=names, n_nodes=4, seeds=(0, 1))
    lasso, ridge = races(plan, DataSet("small", X, y, "here", True))
    assert set(lasso.traces) == {*ours[:2], "NIDS", "PG-EXTRA"}
    assert "needs a smooth objective" in lasso.left_out["DIGing"]
    assert "conjugate is not smooth" in lasso.left_out["CoLA sums, by samples"]
    assert ridge.left_out == {"PG-EXTRA": "is for objectives with a kink"}
    assert ridge.default == lasso.default == "CoLA default, by samples"  # the shorter message
    for race in (lasso, ridge):
        assert all(len(traces) == 2 for traces in race.traces.values())
        assert race.best.relative_gap <= 1e-9
        assert race.best_rival(1e-3, "bytes") in {"NIDS", "DIGing", "PG-EXTRA"}
        for name in race.traces:
            assert race.cost(name, 1e-3, "bytes") <= race.cost(name, 1e-6, "bytes")


def test_a_tuned_step_that_diverges_later_is_replaced_by_the_theorys() -> None:
    X, y = small()
    plan = RacePlan(
        objectives=["ridge"],
        topologies=["ring"],
        contenders=["CoLA default, by features", "wild"],
        known_contenders=CONTENDERS | {"wild": Contender(lambda: Nids(1.0), fallback=Nids)},
        n_nodes=4,
    )
    (race,) = races(plan, DataSet("small", X, y, "here", True))
    assert race.traces["wild"][0].last["suboptimality"] <= 1e-6


def test_names_are_checked_before_any_work() -> None:
    for wrong in ({"objectives": ["lasagne"]}, {"contenders": ["ADAM"]}, {"topologies": ["rink"]}):
        with pytest.raises(InvalidInput, match="unknown"):
            RacePlan(**wrong)


ADDED = """
import numpy as np
from glmesh import Problem
from glmesh.methods import Nids

def load():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12))
    return X, X @ rng.normal(size=12) > 0

DATASETS = {"mine": load}
OBJECTIVES = {"weak ridge": lambda X, y, split: Problem.glm(X, y, alpha=0.5, split=split)}
METHODS = {"NIDS as given": lambda: Nids(0.02)}
"""

STRANGER = """
import numpy as np
from glmesh.core.messages import Outbox
from glmesh.methods.consensus.replicas import Replicas

class PlainGradientDescent:
    def prepare(self, setup):
        return Replicas(self, setup)

    def round(self, block, state):
        gradient = block.gradients(state.w)
        halo = yield Outbox(state.w)
        state.advance(block, halo.mix(np.empty_like(state.w)) - 1e-3 * gradient)

METHODS = {"of a stranger": PlainGradientDescent}
"""


def test_the_command_takes_data_and_methods_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(ADDED)
    out = tmp_path / "out"
    code = main(
        ["bench", "--add", str(mine), "--datasets", "mine", "--objectives", "weak ridge", "--topologies", "ring",
         "2-cycle", "--methods", "CoLA default, by samples", "NIDS as given", "--nodes", "6", "--out", str(out)]
    )  # fmt: skip
    assert code == 0
    assert "NIDS as given" in capsys.readouterr().out
    page = (out / "report.md").read_text()
    for part in ("## Ratios", "weak ridge, mine, 2-cycle", "NIDS as given", "proven to", "Machine:", "step 0.02"):
        assert part in page
    for topology in ("ring", "2-cycle"):
        stem = f"mine-weak ridge-{topology}"
        assert (out / f"{stem}.png").stat().st_size > 5_000
        lines = (out / f"{stem}.csv").read_text().splitlines()
        assert lines[0].startswith("name,round,communications,vectors,bytes,seconds")
        assert len(lines) > 10


def test_a_method_that_inherits_nothing_competes(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(STRANGER)
    X, y = small()
    method = addition.read(str(mine)).methods["of a stranger"]
    names = ["CoLA default, by samples", "of a stranger"]
    plan = RacePlan(
        ["ridge"], ["ring"], names, 4, max_communications=400, known_contenders=CONTENDERS | {names[1]: method}
    )
    (race,) = races(plan, DataSet("small", X, y, "here", True))
    assert race.left_out == {}
    trace = race.traces["of a stranger"][0]
    assert trace.last["of_start"] < 0.5
    assert trace.last["vectors"] == trace.last["communications"] == trace.last["round"]


def test_a_file_that_adds_nothing_or_nonsense_is_refused(tmp_path: Path) -> None:
    empty, wrong = tmp_path / "empty.py", tmp_path / "wrong.py"
    empty.write_text("x = 1\n")
    wrong.write_text("METHODS = {'a': 3}\n")
    (tmp_path / "none.py").write_text("METHODS = {'a': dict}\n")
    with pytest.raises(InvalidInput, match="defines none of"):
        addition.read(str(empty))
    with pytest.raises(InvalidInput, match="METHODS must be a dict"):
        addition.read(str(wrong))
    with pytest.raises(InvalidInput, match=r"METHODS\['a'\] makes a dict, expected a method: an object with prepare"):
        addition.read(str(tmp_path / "none.py"))


def test_a_goal_that_no_rival_reached_gives_a_bound_and_no_victory() -> None:
    """A rival that ran out of budget needs more than it spent, and nobody knows how much."""

    def trace(name: str, sent: list[float], error: list[float]) -> Trace:
        history = {key: np.array(sent) for key in KEYS} | {"suboptimality": np.array(error)}
        return Trace(name, history, 2)

    def verdict(ours: list[float], theirs: list[float], error: float) -> tuple[str, str]:
        traces = {
            "CoLA default, by features": [trace("", ours, [1.0, 1e-7])],
            "NIDS": [trace("", theirs, [1.0, error])],
        }
        X, y = small()
        best = Reference(1.0, 0.0, 2.0)
        race = Race("ridge", DataSet("small", X, y, "", True), "ring", best, traces, ("CoLA default, by features",), {})
        ((_, seen, figures),) = report.claims([race])
        return f"{report.ratios([race]).splitlines()[-1]} {seen}", figures

    row, figures = verdict([0, 50], [0, 100], 1e-2)
    assert row.endswith("| below 0.5 | below 0.5 | yes")
    assert figures == "50 B against no rival got there: below 0.5"
    assert verdict([0, 150], [0, 100], 1e-2)[0].endswith("| below 1.5 | below 1.5 | not known")
    assert verdict([0, 50], [0, 100], 1e-7)[0].endswith("| NIDS | 0.5 | 0.5 | yes")
    row, figures = verdict([0, 150], [0, 100], 1e-7)
    assert row.endswith("| NIDS | 1.5 | 1.5 | no")
    assert figures == "150 B against NIDS 100 B: 1.5"


def test_a_race_is_told_by_bytes_ours_emphasised_and_without_a_target(tmp_path, capsys, monkeypatch):
    """In a terminal rows of ours are bold, elsewhere they begin with a star."""
    command = ["bench", "--objectives", "ridge", "--topologies", "ring", "--methods", "CoLA default, by samples", "DGD"]
    command += ["--max-communications", "100", "--nodes", "4", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert re.search(r"^\* CoLA default, by samples +\S+ +\S+ \w?B +\S+ +\S+$", said, re.M)
    assert re.search(r"^  DGD +– +– +– +\S+$", said, re.M)
    assert re.search(r"^  claim +seen +figures$", said, re.M)
    assert "0.25" not in said
    assert "0.25" not in (tmp_path / "out" / "report.md").read_text()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert text_table(["a", "b"], [["ours", "1"], ["other", "2"]], [True, False]).splitlines()[2:] == [
        "  \x1b[1mours   1\x1b[0m",
        "  other  2",
    ]


def test_tables_fit_the_terminal_and_lose_no_word(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = "a claim that is much longer than any line of a terminal could hold, and that is said in many words"
    table = text_table(["claim", "seen", "figures"], [[words, "yes", words]], left=(0, 1, 2))
    assert max(map(len, table.splitlines())) < 60
    assert Counter(re.findall(r"\w+", table)) == Counter(re.findall(r"\w+", f"claim seen figures yes {words} {words}"))


def test_the_picture_of_a_race_draws_goals_ends_and_ours_thick(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("glmesh.bench.draw.save", lambda figure, path, **_: drawn.append(figure))
    history = {key: np.array([1.0, 2.0, 3.0]) for key in KEYS} | {"suboptimality": np.array([1.0, 1e-3, 0.0])}
    traces = [Trace(name, history, 2) for name in ("rival", "mine")]
    panel = Panel("p", "t", traces, ("bytes",), "suboptimality", 0.0, ours=("mine",), goals=(1e-3, 1e-6))
    panel.draw(tmp_path, ".png")
    (axes,) = drawn[0].axes
    lines = {line.get_label(): line for line in axes.lines}
    assert lines["mine"].get_linewidth() > 2 * lines["rival"].get_linewidth()
    assert np.asarray(lines["mine"].get_ydata())[-1] == axes.get_ylim()[0]  # the floor, where zeros are
    assert axes.yaxis.get_major_formatter()(axes.get_ylim()[0], 0) == "0"
    assert len(axes.collections) == 2  # ends
    assert [text.get_text() for text in axes.texts] == ["goal 0.001", "goal 1e-06"]
    assert drawn[0].legends[0].get_texts()[0].get_text() == "mine"
