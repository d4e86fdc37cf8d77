"""Data without a maximum of the likelihood is recognised from totals, and no other is taken for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glmesh.methods.totals.likelihood.cone_sums import ConeQuery
from glmesh.methods.totals.likelihood.no_maximum import no_maximum
from glmesh.methods.totals.likelihood.separation import Separation
from tests.cases import cases
from tests.methods.totals.likelihood.pooled import Case, dense_rows, draw, fit, separated

TARGETS = ["shares", "counts", "classes"]
M = 60


def binary(*columns: np.ndarray, y: np.ndarray) -> Case:
    return Case("shares", np.column_stack(columns).astype(float), y.astype(float))


def check(case: Case, known: Separation) -> None:
    """Fail unless the direction satisfies every condition but for rounding, and some of them strictly."""
    assert known.direction is not None
    A, E = (rows / known.scale for rows in dense_rows(case.cones()[0]))
    u = known.direction / np.abs(known.direction).max()
    sizes, held = (np.abs(rows).sum(axis=1) for rows in (A, E))
    tolerance = 1e-15 * len(u) if known.exact else 1e-8
    assert (A @ u >= -tolerance * sizes).all()
    assert (np.abs(E @ u) <= tolerance * held).all()
    assert (A @ u > 1e-6 * sizes).any()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(19)


@pytest.mark.parametrize("targets", TARGETS)
def test_what_a_linear_program_calls_separated_is_separated_and_nothing_else(targets: str) -> None:
    n, undecided = cases(500), 0
    for number in range(n):
        case = draw(np.random.default_rng([TARGETS.index(targets), number]), targets)
        known, _ = fit(case, n_nodes=1 + number % 3)
        undecided += known.verdict == "undecided"
        wanted = ("undecided", "separated" if separated(case) else "exists")
        assert known.verdict in wanted, f"case {number}: {known.verdict}"
        if known.direction is not None:
            check(case, known)
    assert 100 * undecided <= n


def test_columns_that_separate_completely_are_found_by_counting_at_the_point_itself(rng: np.random.Generator) -> None:
    x = rng.normal(size=M)
    known, totals = fit(binary(x, rng.normal(size=M), y=x > 0.3))
    assert known.verdict == "separated"
    assert known.complete
    assert known.strict == known.rows == M
    assert 0 in known.columns
    assert totals <= 15


def test_an_empty_cell_separates_in_part_and_only_its_column_and_the_intercept_take_part(
    rng: np.random.Generator,
) -> None:
    x, cell = rng.normal(size=M), np.arange(M) % 4 == 0
    y = np.where(cell, 1.0, rng.integers(0, 2, size=M))
    known, _ = fit(binary(x, cell, y=y), n_nodes=3)
    assert known.verdict == "separated"
    assert known.exact
    assert not known.complete
    assert known.strict == cell.sum()
    np.testing.assert_array_equal(known.columns, [1])


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
def test_cells_inside_of_cells_are_found_whatever_the_units(scale: float, rng: np.random.Generator) -> None:
    x, first, second = rng.normal(size=M), np.arange(M) % 4 == 0, np.arange(M) % 4 == 1
    y = np.where(first, 1.0, np.where(second, x > 0, rng.integers(0, 2, size=M)))
    known, _ = fit(binary(scale * x, first, second, y=y))
    assert known.verdict == "separated"
    assert 1 in known.columns
    assert 0 not in known.columns


@pytest.mark.parametrize("margin", [1e-1, 1e-2, 1e-3])
def test_classes_that_overlap_by_little_are_not_separated(margin: float, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.uniform(0, 1, M), -rng.uniform(0, 1, M), [-margin, margin]])
    y = np.concatenate([np.ones(M), np.zeros(M), [1.0, 0.0]])
    known, _ = fit(binary(x, rng.normal(size=len(x)), y=y))
    assert known.verdict == "exists"


def test_one_row_in_the_empty_cell_makes_the_maximum_exist(rng: np.random.Generator) -> None:
    x, cell = rng.normal(size=M), np.arange(M) % 4 == 0
    y = np.where(cell, 1.0, rng.integers(0, 2, size=M))
    y[0] = 0.0
    assert fit(binary(x, cell, y=y))[0].verdict == "exists"


def test_a_share_between_0_and_1_holds_the_cell(rng: np.random.Generator) -> None:
    x, cell = rng.normal(size=M), np.arange(M) % 4 == 0
    y = np.where(cell, 1.0, rng.integers(0, 2, size=M))
    y[0] = 0.75
    assert fit(binary(x, cell, y=y))[0].verdict == "exists"


def test_counts_that_are_all_zero_in_a_cell_have_no_maximum(rng: np.random.Generator) -> None:
    x, cell = rng.normal(size=M), np.arange(M) % 4 == 0
    y = np.where(cell, 0.0, rng.poisson(3.0, size=M))
    known, _ = fit(Case("counts", np.column_stack([x, cell.astype(float)]), y), n_nodes=2)
    assert known.verdict == "separated"
    assert known.strict == cell.sum()
    np.testing.assert_array_equal(known.columns, [1])


def test_counts_that_are_zero_everywhere_are_told_apart_by_the_intercept() -> None:
    known, _ = fit(Case("counts", np.arange(12.0)[:, None], np.zeros(12)))
    assert known.verdict == "separated"
    assert known.complete


def test_columns_that_depend_on_each_other_are_not_taken_for_separation(rng: np.random.Generator) -> None:
    levels = np.eye(3)[np.arange(M) % 3]
    assert fit(binary(*levels.T, y=rng.integers(0, 2, size=M)))[0].verdict == "exists"


def test_held_coordinates_take_no_part_in_a_direction(rng: np.random.Generator) -> None:
    x = rng.uniform(1.0, 2.0, size=M)  # separated at 1.5, which without an intercept is out of reach
    case = binary(x, y=x > 1.5)
    assert fit(case)[0].verdict == "separated"
    assert fit(case, free=np.array([True, False]))[0].verdict == "exists"
    offset = binary(rng.normal(size=M), x - 1.5, y=x > 1.5)  # so it is by a column whose coefficient is held
    known, _ = fit(offset, free=np.array([True, False, True]))
    assert known.verdict == "exists"


def test_rows_of_zeros_do_not_hide_a_separation() -> None:
    x = np.array([0.0, 0.0, 1.0, 2.0, -1.0, -3.0])
    case = binary(x, y=np.array([0, 1, 1, 1, 0, 0]))
    known, _ = fit(case, free=np.array([True, False]))
    assert known.verdict == "separated"
    assert not known.complete
    assert known.strict == 4
    zeros = Case("counts", np.array([[0.0], [1.0], [2.0]]), np.array([3.0, 0.0, 0.0]))
    assert fit(zeros, free=np.array([True, False]))[0].verdict == "separated"


def test_nodes_that_verify_different_directions_prove_nothing(rng: np.random.Generator) -> None:
    x, cell = rng.normal(size=M), np.arange(M) % 4 == 0
    case = binary(x, cell, y=np.where(cell, 1.0, rng.integers(0, 2, size=M)))

    def disagree(questions: list[ConeQuery]) -> list[ConeQuery]:
        direction = questions[0].direction
        if direction is None:
            return questions
        return [replace(questions[0], direction=np.nextafter(direction, 9.0)), *questions[1:]]

    assert fit(case, n_nodes=3)[0].verdict == "separated"
    assert fit(case, n_nodes=3, most=30, among=disagree)[0].verdict == "undecided"


def test_the_first_two_totals_and_those_after_a_decision_are_asked_nothing() -> None:
    known = Separation(np.ones(2), np.ones(2, dtype=bool))
    for _ in range(2):
        assert known.query(np.zeros(2), np.eye(2)) is None
        known = known.learn(None, {})
    assert known.query(np.zeros(2), np.eye(2)) is not None
    assert known.proven(0.6).verdict == "undecided"
    assert known.proven(0.5).verdict == "exists"
    assert known.proven(0.5).query(np.zeros(2), np.eye(2)) is None


def test_the_sentence_names_the_columns_and_what_would_do(rng: np.random.Generator) -> None:
    x, age, sex = rng.normal(size=M), np.arange(M) % 4 == 0, np.arange(M) % 3 == 0
    y = np.where(age & sex, 1.0, rng.integers(0, 2, size=M))
    known, _ = fit(binary(x, age & sex, y=y))
    said = no_maximum(known, ["bmi", "old:female"], "shares")
    assert said.startswith(
        "the likelihood has no maximum: the column old:female separates the two classes in part: 5 of 60 rows are told "
        "apart, and no row contradicts, so its coefficient would grow for ever; a penalty (alpha > 0)"
    )
    assert "bmi" not in said
    whole, _ = fit(binary(x, age + 0.5 * x, y=x + age > 0.4))
    assert "the columns" in no_maximum(whole, ["bmi", "age"], "shares")
    assert "completely: all 60 rows are told apart" in no_maximum(whole, ["bmi", "age"], "shares")


def test_the_sentence_counts_columns_beyond_six_and_speaks_of_classes(rng: np.random.Generator) -> None:
    X = rng.normal(size=(40, 9))
    y = np.argmax(X[:, :3], axis=1).astype(float)
    known, _ = fit(Case("classes", X, y, 3))
    said = no_maximum(known, [f"x{j}" for j in range(9)], "classes")
    assert "and 3 others separate the classes completely" in said
