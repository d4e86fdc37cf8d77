"""Real nodes that choose alpha by folds, and that have thousands of columns: the simulator's bits, and what is said."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import random_array

from glmesh import Problem, solve
from glmesh.cli import main
from glmesh.errors import GlmeshError
from glmesh.federation.config import Federation, Site
from glmesh.federation.monitor.doctor import examine
from glmesh.federation.node.forecast import Forecast
from glmesh.federation.node.totalling import site_method
from glmesh.federation.node.training import TrainingOutcome
from glmesh.methods import CrossValidation, LimitedMemory, ProximalNewton
from tests.federation.node.test_totalling import cancer, cut, federate, simulated
from tests.loopback import Loopback, MeetingClock, running

CHOICES = {
    "lasso": ({"loss": "squared", "penalty": "l1"}, {"cv": 5, "choose": "one_standard_error"}),
    "logistic": ({"loss": "logistic", "penalty": "l2"}, {"cv": 3, "alphas": [100.0, 1.0]}),
}


@pytest.mark.waits
@pytest.mark.parametrize("case", CHOICES)
def test_sites_choose_the_simulators_alpha_bit_by_bit(case: str, tmp_path: Path) -> None:
    objective, folds = CHOICES[case]
    parts = cut(*cancer(), (130, 190, 249))
    made = federate(tmp_path, parts, problem={**objective, **folds}, network={"topology": "ring"})
    made.run()
    assert made.errors == {}
    method = CrossValidation(
        ProximalNewton(), folds["cv"], str(folds.get("choose", "minimum")), tuple(folds.get("alphas", ()))
    )
    expected = simulated(parts, method, 1e-6, **objective)
    for name in parts:
        model = made.model(name)
        assert made.endings[name].outcome is TrainingOutcome.CERTIFIED
        np.testing.assert_array_equal(model.coef, expected.coef)
        assert model.intercept == expected.intercept
        assert expected.remark in made.endings[name].sentence()
        assert f"alpha = {model.alpha:g} was chosen" in expected.remark
        assert model.info["cv_folds"] == folds["cv"]
        weights, losses = (np.array(str(model.info[key]).split(), dtype=float) for key in ("cv_alphas", "cv_losses"))
        assert model.alpha in weights
        assert len(weights) == len(losses)
        if folds.get("choose") is None:
            assert model.alpha == weights[np.argmin(losses)]
    assert len({made.model(name).info["cv_losses"] for name in parts}) == 1


@pytest.mark.waits
def test_status_and_doctor_show_what_was_released_and_what_to_expect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = cut(*cancer(), (130, 190, 249))
    made = federate(tmp_path, parts, network={"topology": "ring"})
    made.run()
    assert made.errors == {}
    said = {one.what: one.seen for one in examine(tmp_path / "bob.toml")}
    released = int(said["released"].split(" numbers")[0].replace(",", ""))
    sent = made.model("bob").info["communications"]
    assert sent * 100 < released < sent * 2 * 256 * 31
    assert f"{released / (190 * 31):.2f} times" in said["released"]
    assert "largest leverage of a row 0." in said["released"]
    assert main(["doctor", str(tmp_path / "bob.toml")]) == 0
    assert "largest leverage" in capsys.readouterr().out
    expected = Forecast.of(made.federation, 30, 2)
    assert expected.totals / 1.5 <= sent <= 1.5 * expected.totals
    assert f"about {expected.totals} totals" in said["messages"]


@pytest.mark.parametrize("cv", [0, 5])
@pytest.mark.parametrize(("loss", "penalty"), [("squared", "l2"), ("logistic", "l1"), ("hinge", "l2")])
def test_what_is_expected_grows_with_folds_and_columns(loss: str, penalty: str, cv: int, tmp_path: Path) -> None:
    made = Loopback.make(
        tmp_path,
        dict.fromkeys(("alice", "bob", "carol"), ""),
        problem={"loss": loss, "penalty": penalty, "method": "totals", "cv": cv},
    )
    few, many = (Forecast.of(made.federation, p, 2) for p in (10, 100))
    assert few.largest < many.largest
    assert few.sent < many.sent
    assert few.seconds < many.seconds
    if cv:
        alone = Forecast.of(made.federation.of(made_without_folds(made.federation)), 10, 2)
        assert alone.totals < few.totals


def made_without_folds(federation: Federation) -> dict[str, object]:
    """The tables of the same federation without folds."""
    part = {"loss": federation.problem.loss, "penalty": federation.problem.penalty, "method": "totals"}
    members = [vars(member) for member in federation.members]
    return {"problem": part, "network": {"topology": "complete"}, "members": members}


def svmlight(X: object, y: object) -> str:
    """Sparse rows as svmlight text in which every number is read back as it is."""
    lines = []
    for row, target in zip(X, y, strict=True):  # type: ignore[call-overload]
        pairs = " ".join(f"{j + 1}:{float(v)!r}" for j, v in zip(row.indices, row.data, strict=True))
        lines.append(f"{int(target)} {pairs}")
    return "\n".join(lines) + "\n"


@pytest.mark.waits
def test_thousands_of_columns_with_an_l2_penalty_take_lbfgs_and_have_the_simulators_bits(tmp_path: Path) -> None:
    rng, p, sizes = np.random.default_rng(3), 1050, (3600, 3600, 3600)
    X = random_array((sum(sizes), p), density=0.01, rng=rng, format="csr")
    X.data[:] = np.round(X.data, 3)
    y = np.where(X @ rng.normal(size=p) + 0.3 * rng.normal(size=sum(sizes)) > 0, 1.0, -1.0)
    ends = [0, *np.cumsum(sizes)]
    parts = [(X[a:b], y[a:b]) for a, b in pairwise(ends)]
    files = dict(zip(("alice", "bob", "carol"), (svmlight(*part) for part in parts), strict=True))
    problem = {
        "loss": "logistic",
        "penalty": "l2",
        "alpha": 1.0,
        "method": "totals",
        "fit_intercept": True,
        "tol": 1e-6,
    }
    made = Loopback.make(tmp_path, files, problem=problem)
    for name in files:
        path = tmp_path / f"{name}.csv"
        path.rename(tmp_path / f"{name}.svm")
        node = tmp_path / f"{name}.toml"
        node.write_text(node.read_text().replace(f"{name}.csv", f"{name}.svm"))
    assert isinstance(site_method(made.federation.problem, p), LimitedMemory)
    made.run()
    assert made.errors == {}
    simulator = Problem.from_nodes(parts, split="samples", loss="logistic", alpha=1.0, fit_intercept=True)
    expected = solve(simulator, method=LimitedMemory(), topology="complete", tol=1e-6, stop="certificate")
    for name in files:
        np.testing.assert_array_equal(made.model(name).coef, expected.coef)
        assert made.model(name).intercept == expected.intercept
        assert made.model(name).info["relative_gap"] <= 1e-6


@pytest.mark.waits
def test_more_columns_than_rows_are_refused_with_what_would_do(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(120, 60))
    parts = cut(X, (X[:, 0] > 0).astype(float), (40, 40, 40))
    made = federate(tmp_path, parts)
    made.run()
    assert len(made.errors) == 3
    assert any("1.52 a row, at most 0.33" in why and "leave columns out" in why for why in made.errors.values())
    assert all("refused by" in why or "a row" in why for why in made.errors.values())


def test_the_command_writes_what_folds_need_and_refuses_what_does_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fed.toml"
    assert main(["federation", "init", str(path), "--model", "lasso", "--cv", "--choose", "one_standard_error"]) == 0
    part = Federation.read(path).problem
    assert (part.cv, part.choose, part.alpha, part.alphas) == (5, "one_standard_error", 1.0, [])
    assert "alpha is chosen by 5 folds inside each site (one_standard_error)" in capsys.readouterr().out
    other = str(tmp_path / "other.toml")
    assert main(["federation", "init", other, "--cv", "7", "--alphas", "0.1", "1", "10"]) == 0
    assert Federation.read(other).problem.alphas == [0.1, 1.0, 10.0]
    for number, (options, why) in enumerate(
        [
            (["--cv", "--alpha", "2"], "leave --alpha out"),
            (["--alphas", "1"], "write cv = 5"),
            (["--choose", "one_standard_error"], "write cv = 5"),
            (["--cv", "--method", "gossip"], "cv needs totals"),
        ]
    ):
        assert main(["federation", "init", str(tmp_path / f"{number}.toml"), *options]) == 2
        assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"cv": 1}, "folds >= 2"),
        ({"cv": 5, "alpha": 2.0}, "which must be 1"),
        ({"cv": 5, "choose": "best"}, "choose one of"),
        ({"cv": 5, "alphas": [1.0, -1.0]}, "positive numbers"),
        ({"cv": 5, "alphas": ["1"]}, "alphas numbers"),
        ({"alphas": [1.0]}, "write cv = 5"),
        ({"cv": 5, "split": "features", "method": "gossip"}, "cv needs totals"),
    ],
)
def test_a_file_whose_folds_are_odd_is_refused(entries: dict[str, object], why: str, tmp_path: Path) -> None:
    made = Loopback.make(tmp_path, dict.fromkeys(("alice", "bob", "carol"), ""), problem={"method": "totals"} | entries)
    with pytest.raises(GlmeshError, match=why):
        Site.read(tmp_path / "alice.toml")
    assert made.federation.problem.cv == entries.get("cv", 0)


@pytest.mark.waits
def test_a_site_of_another_version_is_told_which_must_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = cut(*cancer(), (130, 190, 249))
    made = federate(tmp_path, parts, network={"meet_within": 1000.0})
    from glmesh.federation.node import meeting

    hello = meeting.Hello

    def older(name: str, *args: object, **options: object) -> object:
        return hello(name, *args, **(options | ({"version": "0.0.9"} if name == "bob" else {})))  # type: ignore[arg-type]

    monkeypatch.setattr(meeting, "Hello", older)
    clock = MeetingClock()
    monkeypatch.setattr(meeting, "time", clock)
    with running(made) as thread:
        while not {"alice", "carol"} <= made.errors.keys():
            thread.join(0.05)
            assert thread.is_alive()
        clock.forward = 1000.0  # bob, whose own check finds nothing, waits for them until then
    assert set(made.errors) == set(parts)
    assert any("bob" in why and "upgrade glmesh at bob" in why for name, why in made.errors.items() if name != "bob")
