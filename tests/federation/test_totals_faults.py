"""Sites as processes that make masked totals, are killed, lose their disks, stop and come back: the right answer."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glmesh import Problem, solve
from glmesh.cli.federation import needs_peers
from glmesh.engine.result import Result
from glmesh.methods import ProximalNewton
from glmesh.types import Matrix, Vector
from tests.cases import SOAK, cases
from tests.peers import Proxies, Sites, sites

needs_peers()

pytestmark = pytest.mark.waits

PROBLEM = {"loss": "logistic", "method": "totals", "fit_intercept": True, "tol": 1e-8}


def rows(n: int) -> list[tuple[Matrix, Vector]]:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n * 1500, 40)) * np.exp(rng.normal(size=40))
    y = (X @ (rng.normal(size=40) / np.exp(rng.normal(size=40))) + rng.normal(size=len(X)) > 0).astype(float)
    return [(X[k::n], y[k::n]) for k in range(n)]


def expected(parts: list[tuple[Matrix, Vector]]) -> Result:
    problem = Problem.from_nodes(parts, loss="logistic", split="samples", fit_intercept=True)
    return solve(problem, method=ProximalNewton(), topology="complete", tol=1e-8, stop="certificate")


def written(made: Sites, k: int) -> dict[str, Any]:
    """What a node has written of its views and totals; nothing before the first time."""
    for path in (made.folder / f"n{k}.state").glob("totals-*"):
        head: dict[str, Any] = json.loads(path.read_bytes().partition(b"\n")[0])
        return head
    return {}


def totals(made: Sites, k: int) -> int:
    """How many totals of its present fit a node has written; -1 before it is in a fit."""
    held = written(made, k).get("held")
    return -1 if held is None else int(held["count"])


# Where a node is killed: as soon as what it has written or logged, which comes before what it sends, says so
POINTS: dict[str, Callable[[Sites, int], bool]] = {
    "a link is up": lambda made, k: bool(made.events(k, "up")),
    "its data have a name on disk": lambda made, k: bool(written(made, k)),
    "it has said yes to a view": lambda made, k: written(made, k).get("promised", 0) > 0,
    "it is in the view": lambda made, k: totals(made, k) >= 0,
    "its contribution is made": lambda made, k: written(made, k).get("record") is not None,
    "the first total is complete": lambda made, k: totals(made, k) >= 1,
    "the point has moved": lambda made, k: totals(made, k) >= 4,
    "the point has moved far": lambda made, k: totals(made, k) >= 7,
    "its vote is written": lambda made, k: written(made, k).get("vote") is not None,
    "the model is final": lambda made, k: bool(made.events(k, "certified")),
}


def kill_when(made: Sites, k: int, there: Callable[[], bool]) -> None:
    """Kill a node once a condition holds, or it is done."""
    made.until(lambda: there() or made.ended(k), pause=0.001)
    if not made.ended(k):
        made.kill(k)


def finish(made: Sites, victim: int) -> list[int | None]:
    """Exit codes at the end; others that have ended before the killed one are started again, since it asks them."""
    others = [k for k in range(len(made.names)) if k != victim]
    made.until(
        lambda: (
            made.ended(victim)
            or (
                all(made.ended(k) for k in others)
                and bool(made.events(victim, "waiting") or made.history(victim)[-1].get("waiting"))
            )
        )
    )
    if not made.ended(victim):
        made.start(*others)
    return made.wait()


@pytest.mark.parametrize("case", range(cases(30)))
def test_a_site_that_is_killed_at_any_point_and_started_again_has_the_simulators_bits(
    case: int, tmp_path: Path
) -> None:
    parts = rows(3)
    answer = expected(parts)
    point, victim = list(POINTS.values())[case * 7 % 10], (case + case // 10) % 3  # each point at each site
    with sites(tmp_path, parts, problem=PROBLEM) as made:
        made.start()
        kill_when(made, victim, lambda: point(made, victim))
        made.start(victim)
        assert finish(made, victim) == [0, 0, 0], made.output()
        for k in range(3):
            np.testing.assert_array_equal(made.model(k).coef, answer.coef)
            assert made.model(k).intercept == answer.intercept


def test_a_site_that_lost_its_disk_begins_anew_with_the_others_at_a_drawn_start(tmp_path: Path) -> None:
    parts = rows(3)
    answer = expected(parts)
    with sites(tmp_path, parts, problem=PROBLEM) as made:
        made.start()
        kill_when(made, 1, lambda: totals(made, 1) >= 2)
        made.lose_disk(1)
        made.start(1)
        assert made.wait() == [0, 0, 0], made.output()
        models = [made.model(k) for k in range(3)]
        np.testing.assert_array_equal(models[0].coef, models[2].coef)
        np.testing.assert_allclose(models[0].coef, answer.coef, rtol=1e-3, atol=1e-4)
        assert not models[0].without


def test_a_site_that_stands_still_is_waited_for(tmp_path: Path) -> None:
    parts = rows(3)
    with sites(tmp_path, parts, problem=PROBLEM) as made:
        made.start()
        made.until(lambda: totals(made, 2) >= 1)
        made.kill(2, signal.SIGSTOP)
        made.until(lambda: made.ended(0) or bool(made.history(0) and made.history(0)[-1].get("waiting")))
        if SOAK:
            time.sleep(20)
            assert made.ended(0) or made.history(0)[-1]["waiting"]["names"] == ["n2"]
        made.kill(2, signal.SIGCONT)
        assert made.wait() == [0, 0, 0], made.output()
        np.testing.assert_array_equal(made.model(2).coef, expected(parts).coef)


def test_a_late_site_takes_part_from_when_it_comes(tmp_path: Path) -> None:
    parts = rows(4)
    with sites(tmp_path, parts, problem=PROBLEM, late=[3]) as made:
        made.start(0, 1, 2)
        made.until(lambda: totals(made, 1) >= 1)
        made.kill(1, signal.SIGSTOP)  # without it the others make no total and no view
        early = totals(made, 1) <= 5 and not made.ended(1)
        made.start(3)
        made.until(lambda: (bool(made.history(3)) and made.history(3)[-1]["phase"] != "meeting") or made.ended(0))
        made.kill(1, signal.SIGCONT)
        codes = finish(made, 3)
        assert codes == [0] * 4 or (not early and set(codes) == {4}), made.output()
        models = [made.model(k) for k in range(4)]
        for model in models:
            np.testing.assert_array_equal(model.coef, models[0].coef)
            assert set(model.sites) == {f"n{k}" for k in range(3 + (codes[0] == 0))}
        np.testing.assert_allclose(models[0].coef, expected(parts[: len(models[0].sites)]).coef, rtol=1e-3, atol=1e-4)


def test_a_late_site_that_comes_after_the_end_says_for_whom_it_waits_and_is_given_the_model(tmp_path: Path) -> None:
    parts = rows(4)
    with sites(tmp_path, parts, problem=PROBLEM, late=[3]) as made:
        made.start(0, 1, 2)
        assert made.wait() == [4, 4, 4], made.output()  # the model is without the late site
        made.start(3)
        made.until(lambda: bool(made.events(3, "waiting" if SOAK else "unreachable")))
        assert "they must be started again" in made.events(3, "late")[0]["why"]
        for line in made.events(3, "waiting"):
            assert all(f"n{k}" in line["for"] for k in range(3))
        made.start(0, 1, 2)
        assert made.wait() == [4] * 4, made.output()
        for k in range(4):
            np.testing.assert_array_equal(made.model(k).coef, expected(parts[:3]).coef)
            assert made.model(k).without == ("n3",)


def test_sites_that_have_the_model_stay_for_one_that_is_linked_and_does_not_know_it(tmp_path: Path) -> None:
    parts = rows(4)
    with sites(tmp_path, parts, problem=PROBLEM, late=[3]) as made:

        def around() -> list[int]:
            return [k for k in (0, 2) if any(event["peer"] == "n3" for event in made.events(k, "up"))]

        def waits(k: int) -> bool:
            entries = made.history(k)
            return bool(entries and entries[-1].get("waiting") and entries[-1]["waiting"]["names"] == ["n3"])

        made.start()
        made.until(lambda: bool(around()))
        made.kill(3, signal.SIGSTOP)
        linked = around()
        made.until(lambda: all(made.events(k, "certified") or made.ended(k) or waits(k) for k in range(3)))
        made.kill(3, signal.SIGCONT)
        assert set(made.wait([0, 1, 2])) <= {0, 4}, made.output()
        stayed = [made.events(k, "end")[0]["time"] - made.events(k, "certified")[0]["time"] for k in linked]
        # a site stays for ten seconds at most; one that leaves before has told its neighbour
        codes = made.wait() if min(stayed) < 9.0 else finish(made, 3)
        assert set(codes) <= {0, 4}, made.output()
        for k in range(4):
            np.testing.assert_array_equal(made.model(k).coef, made.model(0).coef)


@pytest.mark.parametrize("gone", ["wait", "without"])
def test_a_network_that_falls_apart_gives_one_answer(gone: str, tmp_path: Path) -> None:
    parts = rows(5)
    answer = expected(parts)
    network = {"topology": "complete", "gone": gone, "gone_after": 6.0}
    with (
        sites(tmp_path, parts, problem=PROBLEM, network=network) as made,
        Proxies(made.ports[:3]) as proxies,
    ):
        for k in (3, 4):  # the larger number dials
            made.write_node(k, neighbours={f"n{j}": f"127.0.0.1:{proxies.ports[j]}" for j in range(3)})
        made.start()
        made.until(lambda: totals(made, 0) >= 1)
        proxies.cut()
        if SOAK:
            time.sleep(30)
        if gone == "without":
            made.until(lambda: made.ended(0) or len(made.history(0)[-1]["members"]) == 3)
            assert made.wait([0, 1, 2]) in ([4, 4, 4], [0, 0, 0]), made.output()
            models = [made.model(k) for k in range(3)]
            if models[0].without:
                assert set(models[0].without) == {"n3", "n4"}
                assert not made.ended(3)  # two of five wait
                made.until(lambda: bool(made.history(3)[-1].get("waiting")))
                assert made.history(3)[-1]["waiting"]["names"] == ["n0", "n1", "n2"]
                np.testing.assert_allclose(models[0].coef, expected(parts[:3]).coef, rtol=1e-2, atol=1e-3)
            np.testing.assert_array_equal(models[0].coef, models[2].coef)
            return
        made.until(lambda: made.ended(0) or bool(made.history(0)[-1].get("waiting")))
        proxies.heal()
        assert made.wait() == [0] * 5, made.output()
        for k in range(5):
            np.testing.assert_array_equal(made.model(k).coef, answer.coef)


@pytest.mark.parametrize("gone", ["wait", "without"])
def test_one_of_four_that_never_returns_is_waited_for_or_left_out(gone: str, tmp_path: Path) -> None:
    parts = rows(4)
    limits = {"wait_at_most": 8.0} if gone == "wait" else {"gone_after": 6.0}
    with sites(tmp_path, parts, problem=PROBLEM, network={"topology": "complete", "gone": gone, **limits}) as made:
        made.start()
        kill_when(made, 3, lambda: totals(made, 3) >= 1)
        assert made.wait([0, 1, 2]) == [4, 4, 4], made.output()
        for k in range(3):
            if gone == "wait":
                assert "n3 did not come within wait_at_most = 8 s" in made.output()
                assert not (made.folder / f"n{k}.state" / "model.npz").exists()
            else:
                model = made.model(k)
                assert (model.sites, model.without) == (("n0", "n1", "n2"), ("n3",))
                np.testing.assert_array_equal(model.coef, made.model(0).coef)
                excess = objective(parts[:3], model) - objective(parts[:3], expected(parts[:3]))
                assert excess <= model.info["gap"]


def objective(parts: list[tuple[Matrix, Vector]], model: Any) -> float:
    """Sum of the logistic losses of all rows, and the penalty of a model with alpha = 1."""
    X, y = np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    z = X @ model.coef + model.intercept
    return float(np.logaddexp(0.0, np.where(y > 0, -z, z)).sum() + 0.5 * model.coef @ model.coef)
