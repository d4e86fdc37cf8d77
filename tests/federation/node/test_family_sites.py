"""Families between real nodes over TLS: the simulator's bits, the model file and its table, ends without a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from statsmodels import datasets

from glmesh.cli import main
from glmesh.cli.status import ended_text
from glmesh.contract import DataTable
from glmesh.federation.config import ProblemPart, Site
from glmesh.federation.monitor.doctor import examine
from glmesh.federation.monitor.history import History
from glmesh.federation.monitor.report import page
from glmesh.federation.monitor.screen import screen
from glmesh.federation.monitor.server import last_words
from glmesh.federation.monitor.status import figures
from glmesh.federation.node.training import TrainingOutcome
from tests.cases import SOAK
from tests.federation.node.families import programs, simulated, tables, together
from tests.federation.node.test_families import COLUMNS, case, cells, draw
from tests.federation.node.test_totalling import run_and_stop
from tests.loopback import Loopback

pytestmark = pytest.mark.waits

TEXTS = ("ill", "unsure", "well")


def file_of(table: DataTable, labels: tuple[str, ...] = ()) -> str:
    """A table as CSV in which every number is read back as it is."""
    names = [*table.columns, table.target]
    y = [labels[int(one)] if labels else repr(float(one)) for one in np.asarray(table.y)]
    rows = (",".join([*(repr(float(v)) for v in x), label]) for x, label in zip(np.asarray(table.X), y, strict=True))
    return "\n".join([",".join(map(str, names)), *rows]) + "\n"


def federate(folder: Path, parts: list[DataTable], part: ProblemPart, labels: tuple[str, ...] = ()) -> Loopback:
    """A federation of sites with these tables, which make totals of a family."""
    keys = {key: value for key, value in vars(part).items() if key != "loss"} | {"tol": 1e-6}
    files = {name: file_of(table, labels) for name, table in zip(("alice", "bob", "carol"), parts, strict=True)}
    return Loopback.make(folder, files, problem=keys, network={"topology": "ring"})


@pytest.mark.parametrize("name", ["exposure", "multinomial", "cox", "theta estimated"] if SOAK else ["exposure"])
def test_a_family_over_tls_has_the_simulators_bits_and_a_table(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts, part = case(name)
    made = federate(tmp_path, parts, part, TEXTS if name == "multinomial" else ())
    made.run()
    assert made.errors == {}
    expected = simulated(parts, part)
    for site in ("alice", "bob", "carol"):
        model = made.model(site)
        assert made.endings[site].outcome is TrainingOutcome.CERTIFIED
        np.testing.assert_array_equal(model.coef, expected.coef)
        np.testing.assert_array_equal(model.intercept, expected.intercept)
        assert model.statistics is not None
        assert expected.statistics is not None
        np.testing.assert_array_equal(model.statistics.hessian, expected.statistics.hessian)
        assert model.info["standard_errors_off"] < 1e-6
        assert model.sites == ("alice", "bob", "carol")
    assert "standard errors of the exact estimate" in made.endings["bob"].sentence()
    path = str(tmp_path / "alice.state" / "model.npz")
    assert main(["show", path]) == 0
    shown = capsys.readouterr().out
    assert ("well: a" if name == "multinomial" else "d" if name == "cox" else "c") in shown
    assert ("within" in shown, "300" in shown) == (True, True)
    assert main(["predict", path, str(tmp_path / "bob.csv")]) == 0
    predicted = capsys.readouterr().out.split()
    if name == "exposure":
        X = np.asarray(parts[1].X)
        means = X[:, 3] * np.exp(X[:, :3] @ expected.coef[:3] + expected.intercept)
        np.testing.assert_allclose(np.array(predicted, dtype=float), means, rtol=1e-9)
    elif name == "multinomial":
        assert set(predicted) <= set(TEXTS)
    seen = figures(made.nodes["carol"])
    assert seen["standard_errors"] == made.model("carol").info["standard_errors_off"]
    assert "proven distance" in screen(seen, [], None, 200)
    history = History(tmp_path / "alice.state" / "history.jsonl")
    history.add(figures(made.nodes["alice"]))
    history.close()
    assert "finished, within" in ended_text(last_words(Site.read(tmp_path / "alice.toml")))
    html = page([str(tmp_path / "alice.state")])
    assert html.count("class='interval'") == len(np.ravel(expected.coef)) - bool(part.held) - 4 * (
        name == "multinomial"
    )
    assert "The exact estimate is the maximum of the likelihood of the 300 rows of alice, bob and carol" in html


def test_separated_classes_leave_no_model_and_say_why(tmp_path: Path) -> None:
    X, y = cells(108)
    part = ProblemPart(family="binomial", fit_intercept=True)
    made = federate(tmp_path, tables(X, y, (100, 220), COLUMNS), part)
    made.run()
    assert made.errors == {}
    for name in ("alice", "bob", "carol"):
        assert made.endings[name].outcome is TrainingOutcome.NO_OPTIMUM
        assert "the column d separates the two classes" in made.endings[name].sentence()
        assert not (tmp_path / f"{name}.state" / "model.npz").exists()


def test_doctor_names_what_a_file_lacks_that_the_problem_names(tmp_path: Path) -> None:
    parts, part = case("exposure")
    federate(tmp_path, parts, part)
    text = (tmp_path / "alice.csv").read_text()
    first = text.splitlines()[1].split(",")
    negative = ",".join([*first[:3], f"-{first[3]}", first[4]])
    for changed, words in (
        (text.replace("a,b,c,d,y", "a,b,c,years,y"), "lacks the column 'd' (exposure)"),
        (text.replace(",".join(first), negative), "column 'd' (exposure) must be > 0"),
    ):
        (tmp_path / "alice.csv").write_text(changed)
        found = {one.what: one.seen for one in examine(tmp_path / "alice.toml") if one.level == "error"}
        assert words in found["data"]


def test_a_site_whose_file_lacks_such_a_column_is_named_to_all(tmp_path: Path) -> None:
    parts, part = case("exposure")
    made = federate(tmp_path, parts, part)
    text = (tmp_path / "alice.csv").read_text()
    (tmp_path / "alice.csv").write_text(text.replace("a,b,c,d,y", "a,b,c,years,y"))
    made.run()
    assert made.endings == {}
    assert all("alice" in error and "'d' (exposure)" in error for error in made.errors.values())


def test_doctor_foretells_the_messages_of_a_family(tmp_path: Path) -> None:
    parts, part = case("exposure")
    federate(tmp_path, parts, part)
    found = {one.what: one.seen for one in examine(tmp_path / "alice.toml")}
    assert "this site's own rules let it contribute" in found["rules"]
    foretold = int(found["messages"].split()[1])
    assert abs(foretold - len(together(programs(parts, part)).requests)) <= 4


@pytest.mark.skipif(not SOAK, reason="a site is given up after some seconds")
@pytest.mark.parametrize(("family", "link"), [("poisson", ""), ("gamma", "inverse")])
def test_sites_that_go_on_without_one_begin_at_a_drawn_start_and_come_to_the_maximum_of_their_rows(
    family: str, link: str, tmp_path: Path
) -> None:
    part = ProblemPart(family=family, link=link, fit_intercept=True)
    parts = tables(*draw(family, link), (80, 160, 230), COLUMNS)
    keys = {key: value for key, value in vars(part).items() if key != "loss"} | {"tol": 1e-6}
    files = {name: file_of(table) for name, table in zip(("alice", "bob", "carol", "dora"), parts, strict=True)}
    network = {"topology": "ring", "gone": "without", "gone_after": 5.0}
    made = Loopback.make(tmp_path, files, problem=keys, network=network)
    endings = run_and_stop(made, {"dora": 2}, lambda nodes: None)
    expected = simulated(parts[:3], part)
    errors = (
        np.sqrt(np.diag(np.linalg.inv(expected.statistics.hessian))).min()
        if expected.statistics is not None
        else np.nan
    )
    for name in ("alice", "bob", "carol"):
        assert endings[name].outcome is TrainingOutcome.CERTIFIED
        assert endings[name].without == ("dora",)
        assert abs(made.model(name).coef - expected.coef).max() < 1e-5 * max(errors, 1e-2)
        np.testing.assert_array_equal(made.model(name).coef, made.model("alice").coef)


def real(name: str) -> tuple[list[DataTable], ProblemPart, int]:
    """A data set of statsmodels, shuffled, at three unequal sites; the family that suits it, and its Newton totals."""
    data = getattr(datasets, name).load_pandas()
    y = np.asarray(data.endog, dtype=float).ravel()
    X = np.asarray(data.exog, dtype=float).reshape(len(y), -1)
    part, most, names = ProblemPart(family="poisson", fit_intercept=True), 6, [f"x{j}" for j in range(X.shape[1])]
    if name == "fair":
        part, most, y = replace(part, family="binomial"), 5, (y > 0).astype(float)
    elif name == "anes96":
        part, most = replace(part, family="multinomial"), 7
    elif name == "heart":
        part = ProblemPart(family="cox", time="y", event="died")
        X, y, names, most = np.asarray(data.data[["age", "censors"]], dtype=float), y + 0.5, ["age", "died"], 5
    order = np.random.default_rng(0).permutation(len(y))
    cuts = [int(share * len(y)) for share in (0.33, 0.66)]
    return tables(X[order], y[order], cuts, names), part, most


@pytest.mark.skipif(not SOAK, reason="thousands of rows")
@pytest.mark.parametrize("name", ["fair", "randhie", "anes96", "heart"])
def test_real_data_at_three_sites_takes_at_most_ten_totals_and_has_the_simulators_bits(
    name: str, tmp_path: Path
) -> None:
    parts, part, most = real(name)
    made = federate(tmp_path, parts, part)
    made.run()
    assert made.errors == {}
    expected = simulated(parts, part)
    for site in ("alice", "bob", "carol"):
        model = made.model(site)
        np.testing.assert_array_equal(model.coef, expected.coef)
        assert model.info["rounds"] <= most
        assert model.info["communications"] <= 2 * most + 10
        assert model.info["standard_errors_off"] <= 1e-6
