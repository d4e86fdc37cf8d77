"""Sites as processes that make masked totals, are killed, lose their disks, stop and come back: the right answer."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import numpy as np
import pytest

from glmesh import Problem, solve
from glmesh.cli.federation import needs_peers
from glmesh.engine.result import Result
from glmesh.methods import ProximalNewton
from glmesh.types import Matrix, Vector
from tests.cases import cases
from tests.peers import Proxies, Sites, sites

needs_peers()

pytestmark = pytest.mark.waits

# [bytes] of a node's file: before its first total (the digests of its rows alone), after the survey, and every total
POINTS = [12_500, *range(97_000, 187_000, 10_000)]
PROBLEM = {"loss": "logistic", "method": "totals", "fit_intercept": True, "tol": 1e-8}


def rows(n: int) -> list[tuple[Matrix, Vector]]:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n * 1500, 40)) * np.exp(rng.normal(size=40))
    y = (X @ (rng.normal(size=40) / np.exp(rng.normal(size=40))) + rng.normal(size=len(X)) > 0).astype(float)
    return [(X[k::n], y[k::n]) for k in range(n)]


def expected(parts: list[tuple[Matrix, Vector]]) -> Result:
    problem = Problem.from_nodes(parts, loss="logistic", split="samples", fit_intercept=True)
    return solve(problem, method=ProximalNewton(), topology="complete", tol=1e-8, stop="certificate")


def kept(made: Sites, k: int) -> int:
    """Bytes of what a node has written of its totals: they grow with every total."""
    return sum(path.stat().st_size for path in (made.folder / f"n{k}.state").glob("totals-*"))


def kill_when(made: Sites, k: int, size: int) -> None:
    """Kill a node once it has written so many bytes, or is done."""
    end = time.monotonic() + 60
    while kept(made, k) < size and not made.ended(k):
        assert time.monotonic() < end, made.output()
        time.sleep(0.001)
    if not made.ended(k):
        made.kill(k)


@pytest.mark.parametrize("point", range(cases(30)))
def test_a_site_that_is_killed_anywhere_and_started_again_has_the_simulators_bits(point: int, tmp_path: Path) -> None:
    parts = rows(3)
    answer = expected(parts)
    victim, size = point % 3, POINTS[point * 7 % 10]
    with sites(tmp_path, parts, problem=PROBLEM) as made:
        made.start()
        kill_when(made, victim, size)
        made.start(victim)
        assert made.wait() == [0, 0, 0], made.output()
        for k in range(3):
            np.testing.assert_array_equal(made.model(k).coef, answer.coef)
            assert made.model(k).intercept == answer.intercept


def test_a_site_that_lost_its_disk_begins_anew_with_the_others_at_a_drawn_start(tmp_path: Path) -> None:
    parts = rows(3)
    answer = expected(parts)
    with sites(tmp_path, parts, problem=PROBLEM) as made:
        made.start()
        kill_when(made, 1, 107_000)
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
        made.until(lambda: kept(made, 2) > 0)
        made.kill(2, signal.SIGSTOP)
        made.until(lambda: made.ended(0) or bool(made.history(0) and made.history(0)[-1].get("waiting")))
        made.kill(2, signal.SIGCONT)
        assert made.wait() == [0, 0, 0], made.output()
        np.testing.assert_array_equal(made.model(2).coef, expected(parts).coef)


def test_a_late_site_takes_part_from_when_it_comes(tmp_path: Path) -> None:
    parts = rows(4)
    with sites(tmp_path, parts, problem=PROBLEM, late=[3]) as made:
        made.start(3)
        made.until(lambda: bool(made.events(3, "waiting")) or made.ended(3) or (made.folder / "n3.state").exists())
        made.start(0, 1, 2)
        codes = made.wait()
        assert set(codes) <= {0, 4}, made.output()
        models = [made.model(k) for k in range(4)]
        for model in models:
            np.testing.assert_array_equal(model.coef, models[0].coef)
            assert set(model.sites) >= {"n0", "n1", "n2"}


@pytest.mark.parametrize("gone", ["wait", "without"])
def test_a_network_that_falls_apart_gives_one_answer(gone: str, tmp_path: Path) -> None:
    parts = rows(5)
    answer = expected(parts)
    network = {"topology": "complete", "gone": gone, "gone_after": 3.0}
    with (
        sites(tmp_path, parts, problem=PROBLEM, network=network) as made,
        Proxies(made.ports[:3]) as proxies,
    ):
        for k in (3, 4):  # the larger number dials
            made.write_node(k, neighbours={f"n{j}": f"127.0.0.1:{proxies.ports[j]}" for j in range(3)})
        made.start()
        made.until(lambda: kept(made, 0) > POINTS[1])
        proxies.cut()
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
