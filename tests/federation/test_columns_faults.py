"""Sites with columns as processes that make masked totals, are killed, lose their disks and come back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glmesh.cli.federation import needs_peers
from glmesh.types import Matrix, Vector
from tests.cases import cases
from tests.columns import together
from tests.federation.test_totals_faults import POINTS, finish, kill_when, totals
from tests.peers import sites

needs_peers()

pytestmark = pytest.mark.waits

PROBLEM = {
    "loss": "logistic", "split": "features", "method": "totals", "fit_intercept": True, "aligned": True, "tol": 1e-8
}  # fmt: skip
NETWORK = {"topology": "complete"}


def columns() -> tuple[list[Matrix], Vector]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 18)) @ rng.normal(size=(18, 18)) * np.exp(rng.normal(size=18))
    y = (X @ (rng.normal(size=18) / X.std(axis=0)) + 3.0 * rng.normal(size=300) > 0).astype(float)
    return [X[:, k::3] for k in range(3)], y


@pytest.mark.parametrize("case", range(cases(10)))
def test_a_site_that_is_killed_at_any_point_has_its_own_coefficients_again_with_the_same_bits(
    case: int, tmp_path: Path
) -> None:
    parts, y = columns()
    answer = together(parts, np.where(y > 0, 1.0, -1.0), tol=1e-8, loss="logistic", fit_intercept=True)
    point, victim = list(POINTS.values())[(case + 7) % 10], case % 3
    with sites(tmp_path, [(X, y) for X in parts], problem=PROBLEM, network=NETWORK) as made:
        made.start()
        kill_when(made, victim, lambda: point(made, victim))
        made.start(victim)
        assert finish(made, victim) == [0, 0, 0], made.output()
        for k in range(3):
            np.testing.assert_array_equal(made.model(k).coef, answer.states[k].x)
            assert made.model(k).intercept == answer.states[0].intercept
            assert made.model(k).info["relative_gap"] <= 1e-8


@pytest.mark.skipif(cases(10) < 10, reason="one of these in `make test` is enough; both in `make soak`")
def test_a_site_that_lost_its_disk_begins_anew_with_the_others(tmp_path: Path) -> None:
    parts, y = columns()
    answer = together(parts, np.where(y > 0, 1.0, -1.0), tol=1e-8, loss="logistic", fit_intercept=True)
    with sites(tmp_path, [(X, y) for X in parts], problem=PROBLEM, network=NETWORK) as made:
        made.start()
        kill_when(made, 1, lambda: totals(made, 1) >= 5)
        made.lose_disk(1)
        made.start(1)
        assert made.wait() == [0, 0, 0], made.output()
        for k in range(3):
            np.testing.assert_allclose(made.model(k).coef, answer.states[k].x, rtol=1e-3, atol=1e-4)
            assert made.model(k).intercept == made.model(0).intercept
