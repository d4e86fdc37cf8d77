"""A maximum-likelihood fit of separated data ends by saying that there is no optimum, and other fits do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glmesh import Problem, Run, Status, solve
from glmesh.methods import MaximumLikelihood
from tests.cases import SOAK, cases
from tests.methods.totals.likelihood.pooled import CLASSES, COUNTS, SHARES
from tests.methods.totals.likelihood.soaks import verdicts


def status(X: np.ndarray, y: np.ndarray, family: str, n_nodes: int = 3, **options: object) -> Status:
    """Status of a fit without a penalty."""
    problem = Problem.glm(X, y, family=family, alpha=0.0, **{"fit_intercept": True} | options)  # type: ignore[arg-type]
    return solve(problem, n_nodes=n_nodes).status


@pytest.mark.parametrize("targets", [SHARES, COUNTS, CLASSES])
def test_fits_of_random_data_end_as_a_linear_program_says_and_name_columns_that_separate(targets, record_property):
    found = verdicts(targets, range(cases(500) if SOAK else 12))
    assert not found.wrong
    assert not found.misnamed
    assert 100 * found.undecided <= found.n
    record_property("cases, separated, undecided", f"{found.n}, {found.separated}, {found.undecided}")


@pytest.mark.parametrize("n_nodes", [1, 3, 16])
@pytest.mark.parametrize("family", ["binomial", "poisson", "negative_binomial"])
def test_an_empty_cell_has_no_optimum_at_any_number_of_nodes(family: str, n_nodes: int) -> None:
    rng = np.random.default_rng(3)
    x, cell = rng.normal(size=80), np.arange(80) % 5 == 0
    y = np.where(cell, 0.0, rng.integers(0, 2, size=80))
    X = np.column_stack([x, cell, ~cell]).astype(float)  # the last depends on the others
    assert status(X, y, family, n_nodes) is Status.NO_OPTIMUM
    y[0] = 1.0
    assert status(X, y, family, n_nodes) is Status.CONVERGED


def test_an_offset_that_separates_and_rows_of_weight_0_do_not_count() -> None:
    rng = np.random.default_rng(4)
    x, z = rng.normal(size=80), rng.normal(size=80)
    y = (z > 0).astype(float)
    assert status(x[:, None], y, "binomial", offset=5.0 * z) is Status.CONVERGED
    cell = (np.arange(80) % 5 == 0).astype(float)
    y = np.where(cell > 0, 0.0, rng.integers(0, 2, size=80))
    y[0] = 1.0
    X = np.column_stack([x, cell])
    assert status(X, y, "binomial") is Status.CONVERGED
    weight = np.ones(80)
    weight[0] = 0.0
    assert status(X, y, "binomial", sample_weight=weight) is Status.NO_OPTIMUM


def test_a_penalty_gives_separated_data_an_optimum() -> None:
    x = np.linspace(-1.0, 1.0, 40)
    y = (x > 0).astype(float)
    assert status(x[:, None], y, "binomial") is Status.NO_OPTIMUM
    problem = Problem.glm(x[:, None], y, family="binomial", penalty="l2", alpha=0.1, fit_intercept=True)
    assert solve(problem, n_nodes=2).status is Status.CONVERGED


def test_a_fit_that_is_saved_and_resumed_after_every_round_finds_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x, cell = rng.normal(size=80), np.arange(80) % 5 == 0
    y = np.where(cell, 0.0, rng.integers(0, 2, size=80))
    problem = Problem.glm(np.column_stack([x, cell]).astype(float), y, family="binomial", alpha=0.0, fit_intercept=True)
    straight, cut = (Run(problem, method=MaximumLikelihood(), n_nodes=3) for _ in range(2))
    while not straight.nodes.failure:
        assert not cut.nodes.failure
        next(straight)
        next(cut)
        cut.save(tmp_path / "run")
        cut.close()
        cut = Run.resume(tmp_path / "run")
    assert straight.nodes.failure == cut.nodes.failure == "separated"
    assert straight.rounds == cut.rounds > 5
    np.testing.assert_array_equal(straight.estimates, cut.estimates)
