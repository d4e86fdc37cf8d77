"""Real nodes that make masked totals over TLS: the simulator's bits, few messages, rules, and who is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression

from glmesh import Problem, solve
from glmesh.engine.result import Result
from glmesh.errors import GlmeshError
from glmesh.federation.config import Site
from glmesh.federation.monitor.log import node_log
from glmesh.federation.monitor.screen import screen
from glmesh.federation.monitor.status import figures
from glmesh.federation.node.process import Node
from glmesh.federation.node.training import TrainingOutcome
from glmesh.federation.totals.messages import unpack
from glmesh.federation.wire import Kind, PeerLinks
from glmesh.methods import InteriorPoint, ProximalNewton
from glmesh.types import Matrix, Vector
from tests.cases import LIMIT
from tests.loopback import Loopback

pytestmark = pytest.mark.waits

NAMES = ("alice", "bob", "carol", "dora", "emil", "fay", "gus", "hans")


def table(X: Matrix, y: Vector) -> str:
    """Rows as CSV in which every number is read back as it is."""
    head = ",".join([*(f"x{j}" for j in range(X.shape[1])), "y"])
    rows = (",".join([*(repr(float(v)) for v in row), repr(float(t))]) for row, t in zip(X, y, strict=True))
    return "\n".join([head, *rows]) + "\n"


def cut(X: Matrix, y: Vector, sizes: tuple[int, ...]) -> dict[str, tuple[Matrix, Vector]]:
    ends = np.cumsum(sizes)
    parts = zip(np.split(X[: ends[-1]], ends[:-1]), np.split(y[: ends[-1]], ends[:-1]), strict=True)
    return dict(zip(NAMES, parts, strict=False))


def federate(folder: Path, parts: Mapping[str, tuple[Matrix, Vector]], **options: Any) -> Loopback:
    """A federation of sites that make totals."""
    problem = {"loss": "logistic", "method": "totals", "fit_intercept": True, "tol": 1e-6} | options.pop("problem", {})
    files = {name: table(*part) for name, part in parts.items()}
    return Loopback.make(folder, files, problem=problem, **options)


def simulated(parts: Mapping[str, tuple[Matrix, Vector]], method: Any, tol: float, **objective: Any) -> Result:
    problem = Problem.from_nodes(list(parts.values()), split="samples", fit_intercept=True, **objective)
    return solve(problem, method=method, topology="complete", tol=tol, stop="certificate", max_rounds=100)


def cancer() -> tuple[Matrix, Vector]:
    X, y = load_breast_cancer(return_X_y=True)
    return X, y.astype(float)


@pytest.mark.parametrize(("tol", "most"), [(1e-6, 12), (1e-10, 15)])
def test_raw_breast_cancer_at_three_sites_takes_few_messages_and_has_the_simulators_bits(
    tol: float, most: int, tmp_path: Path
) -> None:
    parts = cut(*cancer(), (130, 190, 249))
    made = federate(tmp_path, parts, problem={"tol": tol, "alpha": 1.0}, network={"topology": "ring"})
    made.run()
    assert made.errors == {}
    expected = simulated(parts, ProximalNewton(), tol, loss="logistic", alpha=1.0)
    for name in parts:
        model = made.model(name)
        assert made.endings[name].outcome is TrainingOutcome.CERTIFIED
        np.testing.assert_array_equal(model.coef, expected.coef)
        assert model.intercept == expected.intercept
        assert model.info["communications"] <= most
        assert model.info["relative_gap"] <= tol
    if tol == 1e-10:
        reference = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(*cancer())
        assert abs(made.model("alice").coef - reference.coef_[0]).max() < 1e-6
        assert abs(made.model("alice").intercept - reference.intercept_[0]) < 1e-6


CASES = {
    "l1 logistic": ({"loss": "logistic", "penalty": "l1", "alpha": 1.0}, ProximalNewton(), 20, {}),
    "ridge": ({"loss": "squared", "penalty": "l2", "alpha": 1.0}, ProximalNewton(), 20, {}),
    "huber": ({"loss": "huber", "penalty": "l2", "alpha": 1.0}, ProximalNewton(), 20, {}),
    "unpenalised": ({"loss": "logistic", "penalty": "l2", "alpha": 0.0}, ProximalNewton(), 20, {}),
    "svm": ({"loss": "hinge", "penalty": "l2", "alpha": 1.0}, InteriorPoint(), 80, {"reveal_support": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_other_objectives_take_few_messages_and_have_the_simulators_bits(case: str, tmp_path: Path) -> None:
    objective, method, most, rules = CASES[case]
    X, y = cancer()
    if case in ("ridge", "huber"):
        X, y = load_diabetes(return_X_y=True)
        y = y / 80.0  # Huber's loss is for residuals near one
    elif case == "unpenalised":
        X = X[:, [0, 1, 4]]
    parts = cut(X, y, (120, 140, 160))
    made = federate(tmp_path, parts, problem=objective)
    for name in parts:
        made.write_node(name, made.federation)
        with (tmp_path / f"{name}.toml").open("a") as stream:
            stream.write("[rules]\n" + "".join(f"{key} = {str(value).lower()}\n" for key, value in rules.items()))
    made.run()
    assert made.errors == {}
    expected = simulated(parts, method, 1e-6, **objective)
    for name in parts:
        model = made.model(name)
        assert made.endings[name].outcome is TrainingOutcome.CERTIFIED
        np.testing.assert_array_equal(model.coef, expected.coef)
        assert model.intercept == expected.intercept
        assert model.info["communications"] <= most


def test_eight_sites_on_a_ring_send_at_most_seven_messages_a_total(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8 * 60, 5))
    y = (X @ np.ones(5) + rng.normal(size=len(X)) > 0).astype(float)
    parts = cut(X, y, (60,) * 8)
    made = federate(tmp_path, parts, network={"topology": "ring"})
    made.run()
    assert made.errors == {}
    expected = simulated(parts, ProximalNewton(), 1e-6, loss="logistic", alpha=1.0)
    for name in parts:
        model = made.model(name)
        np.testing.assert_array_equal(model.coef, expected.coef)
        questions = model.info["rounds"] + 3  # a survey, and two agreements on grains
        assert model.info["communications"] <= 7 * questions


# rules


class Recorder:
    """Which sites have sent a contribution of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: set[str] = set()
        send = PeerLinks.send

        def recorded(links: PeerLinks, peer: int, kind: Kind, content: Any) -> None:
            if kind is Kind.TOTALS:
                me = links.site.me
                if any(part.author == me for part in unpack(content, 8).parts):
                    self.sent.add(links.site.file.name)
            send(links, peer, kind, content)

        monkeypatch.setattr(PeerLinks, "send", recorded)


def test_a_recorder_sees_contributions_where_nobody_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    federate(tmp_path, cut(*cancer(), (130, 190, 249))).run()
    assert recorder.sent == {"alice", "bob", "carol"}


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "rows": ({"least_rows": 131}, {}, "130 rows, least_rows = 131"),
    "class": ({"least_class": 60}, {}, "rows of a class, least_class = 60"),
    "columns": ({"most_columns": 0.2}, {}, "31 coefficients for 130 rows are 0.24 a row"),
    "share": ({"largest_share": 0.001}, {}, "of the trace, largest_share = 0.001"),
    "spread": ({"effective_rows": 131.0}, {}, "effective_rows = 131"),
    "kinks": ({}, {"loss": "hinge"}, "reveal_support = true"),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_a_rule_of_a_site_refuses_before_a_byte_of_its_sums_leaves(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, problem, words = REFUSED[rule]
    recorder = Recorder(monkeypatch)
    made = federate(tmp_path, cut(*cancer(), (130, 190, 249)), problem=problem)
    with (tmp_path / "alice.toml").open("a") as stream:
        stream.write("[rules]\n" + "".join(f"{key} = {value}\n" for key, value in rules.items()))
    made.run()
    assert words in made.errors["alice"]
    if rule in ("share", "spread"):  # of which the survey, which is about no point, knows nothing
        assert "refused by alice" in made.errors["bob"]
    else:
        assert "alice" not in recorder.sent
    if rule != "kinks":  # which every site refuses by itself
        assert words not in made.errors["bob"]
        assert "refused by alice" in made.errors["carol"]
    assert not (tmp_path / "bob.state" / "model.npz").exists()


# who is waited for


def run_and_stop(made: Loopback, stopped: Mapping[str, int], then: Callable[[dict[str, Node]], None]) -> dict[str, Any]:
    """Run all sites; those that are named stop after so many rounds, and `then` is called when they have."""
    nodes: dict[str, Node] = {}
    endings: dict[str, Any] = {}
    gone = threading.Semaphore(0)

    def one(name: str) -> None:
        site = Site.read(made.folder / f"{name}.toml")
        site.state.mkdir(exist_ok=True)
        with node_log(name, site.state / "log.jsonl") as log:
            nodes[name] = node = Node(site, log)
            made_rounds = 0

            def seen(objective: float, gap: float) -> None:
                nonlocal made_rounds
                made_rounds += 1
                if made_rounds >= stopped.get(name, 1000):
                    node.neighbourhood.stop.set()

            node.seen = seen
            try:
                endings[name] = node.run()
            except GlmeshError as error:
                endings[name] = str(error)
            if name in stopped:
                gone.release()

    threads = [threading.Thread(target=one, args=(member.name,), daemon=True) for member in made.federation.members]
    for thread in threads:
        thread.start()
    for _ in stopped:
        assert gone.acquire(timeout=LIMIT)
    then(nodes)
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)
    return endings


def parts_of(n: int) -> dict[str, tuple[Matrix, Vector]]:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n * 60, 3))
    y = (X @ np.ones(3) + rng.normal(size=len(X)) > 0).astype(float)
    return cut(X, y, (60,) * n)


def test_four_sites_go_on_without_one_that_is_gone_and_begin_anew(tmp_path: Path) -> None:
    parts = parts_of(4)
    made = federate(tmp_path, parts, network={"gone": "without", "gone_after": 5.0})
    endings = run_and_stop(made, {"dora": 2}, lambda nodes: None)
    expected = simulated({name: parts[name] for name in NAMES[:3]}, ProximalNewton(), 1e-10, loss="logistic", alpha=1.0)
    for name in NAMES[:3]:
        assert endings[name].outcome is TrainingOutcome.CERTIFIED
        assert endings[name].without == ("dora",)
        np.testing.assert_allclose(made.model(name).coef, expected.coef, rtol=1e-3)
        np.testing.assert_array_equal(made.model(name).coef, made.model("alice").coef)


def test_three_sites_of_which_one_is_gone_are_too_few(tmp_path: Path) -> None:
    made = federate(tmp_path, parts_of(3), network={"gone": "without", "gone_after": 5.0})
    endings = run_and_stop(made, {"bob": 2}, lambda nodes: None)
    for name in ("alice", "carol"):
        assert endings[name].outcome is TrainingOutcome.TOO_FEW
        assert "bob is gone; two sites are too few" in endings[name].sentence()
        assert not (tmp_path / f"{name}.state" / "model.npz").exists()


def test_sites_that_wait_say_for_whom_and_go_on_with_the_same_bits_when_it_returns(tmp_path: Path) -> None:
    parts = parts_of(3)
    made = federate(tmp_path, parts)
    seen: list[Any] = []

    def restart(nodes: dict[str, Node]) -> None:
        ended = threading.Event()
        while not ended.wait(0.1):
            waiting = figures(nodes["alice"])["waiting"]
            if waiting:
                seen.append(waiting)
                ended.set()
        made.run("bob")

    endings = run_and_stop(made, {"bob": 2}, restart)
    assert seen[0]["names"] == ("bob",)
    assert seen[0]["until"] is None
    assert made.endings["bob"].outcome is TrainingOutcome.CERTIFIED
    assert endings["alice"].outcome is TrainingOutcome.CERTIFIED
    expected = simulated(parts, ProximalNewton(), 1e-6, loss="logistic", alpha=1.0)
    for name in parts:
        np.testing.assert_array_equal(made.model(name).coef, expected.coef)


def test_a_wait_ends_after_wait_at_most(tmp_path: Path) -> None:
    made = federate(tmp_path, parts_of(3), network={"wait_at_most": 8.0})
    endings = run_and_stop(made, {"bob": 2}, lambda nodes: None)
    assert endings["alice"].outcome is TrainingOutcome.WAITED
    assert "bob did not come within wait_at_most = 8 s" in endings["alice"].sentence()


def test_two_sites_are_refused_unless_the_file_reveals(tmp_path: Path) -> None:
    parts = parts_of(2)
    federate(tmp_path / "no", parts)
    with pytest.raises(GlmeshError, match="two sites are too few"):
        Site.read(tmp_path / "no" / "alice.toml")
    made = federate(tmp_path / "yes", parts, network={"reveal": True})
    made.run()
    assert made.endings["alice"].outcome is TrainingOutcome.CERTIFIED
    said = "each learns what the other contributes"
    assert any(said in one for one in made.said("alice", "reveals"))
    assert said in made.endings["bob"].sentence()
    assert said in str(made.model("bob").info["revealed"])
    assert said in screen(figures(made.nodes["alice"]), [], None, 200)
