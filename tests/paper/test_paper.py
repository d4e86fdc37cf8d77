"""`glmesh paper`: all experiments, quickly and offline; what theory guarantees is asserted, claims get a verdict."""

from __future__ import annotations

import csv
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glmesh import paper
from glmesh.bench import Trace
from glmesh.bench.data import VARIABLE, DataSet
from glmesh.cli import main
from glmesh.cli.paper import NAMES
from glmesh.methods.consensus import step_search
from glmesh.paper import Findings, Settings
from glmesh.paper.experiment import common_goal, falls, rises
from tests.cases import SOAK


class Brief(Settings):
    """A third of the samples, features and rounds of quick experiments."""

    def load(self, *names: str) -> DataSet:
        data = super().load(*names)
        m, p = data.X.shape
        return replace(data, X=data.X[: m // 3][:, : p // 3], y=data.y[: m // 3])

    def pick(self, quick: int, full: int) -> int:
        return super().pick(quick, full) // 3


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Findings], Path, float]:
    folder, began = tmp_path_factory.mktemp("paper"), time.process_time()
    with pytest.MonkeyPatch.context() as patch:
        if not SOAK:
            patch.setattr(step_search, "FIRST_TRIAL", 20)
        outcomes = paper.run(list(NAMES), Settings(quick=True) if SOAK else Brief(quick=True), folder)
    return {outcome.name: outcome for outcome in outcomes}, folder, time.process_time() - began


def test_every_experiment_leaves_its_files(
    done: tuple[dict[str, Findings], Path, float], record_property: pytest.RecordProperty
) -> None:
    outcomes, folder, seconds = done
    record_property("seconds of `paper all --quick`", round(seconds, 1))
    assert list(outcomes) == list(NAMES) == list(paper.EXPERIMENTS)
    page = (folder / "report.md").read_text()
    claims = [claim for outcome in outcomes.values() for claim in outcome.claims if not claim.ours]
    assert f"{sum(claim.seen for claim in claims)} of {len(claims)} claims of the paper were seen" in page
    for outcome in outcomes.values():
        assert outcome.claims
        assert outcome.panels or outcome.table
        for claim in outcome.claims:
            assert re.match(r"(Beside the paper, )?([Ss]een|[Nn]ot seen): ", str(claim))
            assert str(claim) in page
            assert re.search(r"\d", claim.figures)
        for panel in outcome.panels:
            assert f"{panel.name}.png" in page
            assert (folder / f"{panel.name}.png").stat().st_size > 5_000
            assert (folder / f"{panel.name}.svg").read_text().startswith("<?xml")
            rows = list(csv.DictReader((folder / f"{panel.name}.csv").read_text().splitlines()))
            assert {row["name"] for row in rows} == {trace.name for trace in panel.traces}


def test_h_never_rises_on_any_topology(done: tuple[dict[str, Findings], Path, float]) -> None:
    """sigma' = K and any doubly stochastic W: theory promises it."""
    (panel,) = done[0]["topologies"].panels
    assert len(panel.traces) == 5
    for trace in panel.traces:
        assert rises(trace, "h") == 0.0
        assert trace.last["of_start"] < 0.2


def test_the_violation_starts_at_zero(done: tuple[dict[str, Findings], Path, float]) -> None:
    (panel,) = done[0]["consensus"].panels
    for trace in panel.traces:
        assert trace.history["consensus"][0] == 0.0
        assert trace.history["consensus"].max() > 0.0


def test_both_lambdas_are_run_and_nobody_is_below_the_optimum(done: tuple[dict[str, Findings], Path, float]) -> None:
    for kind in ("ridge", "lasso"):
        panels = done[0][f"{kind}-baselines"].panels
        assert {panel.name for panel in panels} == {f"{kind}-baselines-0.0001", f"{kind}-baselines-1e-05"}
        for panel in panels:
            for trace in panel.traces:
                assert np.nanmin(trace.history["suboptimality"]) > -1e-6
                assert trace.last["of_start"] < 1.0


def test_dropouts(done: tuple[dict[str, Findings], Path, float]) -> None:
    for name in ("dropout", "dropout-reset"):
        (panel,) = done[0][name].panels
        assert [trace.name for trace in panel.traces] == ["p = 0.5", "p = 0.7", "p = 0.9", "p = 1"]
        steady = panel.traces[-1]
        assert rises(steady) == 0.0
        assert all(trace.last["of_start"] > steady.last["of_start"] for trace in panel.traces[:-1])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))  # a folder without data: stand-ins
    assert main(["paper", "datasets", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^  claim +seen +figures$", said, re.M)
    assert re.search(r"^\* the experiments were run on the .* no +0 of 4 from files", said, re.M)
    assert "claims of the paper were seen" not in said  # it has none
    page = (tmp_path / "out" / "report.md").read_text()
    assert "| URL reputation | 2M x 3M, 3.5e-5 |" in page
    assert main(["paper", "figures"]) == 2
    assert "invalid choice: 'figures'" in capsys.readouterr().err


def test_verdict_helpers() -> None:
    def trace(*values: float) -> Trace:
        return Trace("", {"of_start": np.array(values)}, 1)

    assert falls([3, 2, 1])
    assert not falls([3, 3, 1])
    assert rises(trace(1.0, 0.5, 0.6)) == pytest.approx(0.1)
    assert rises(trace(1.0, 0.5, 0.5)) == 0.0
    assert common_goal([trace(1.0, 0.013), trace(1.0, 0.031)]) == pytest.approx(0.05)
    assert common_goal([trace(1.0, 0.1)]) == pytest.approx(0.1)
