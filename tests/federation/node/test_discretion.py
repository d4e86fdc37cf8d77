"""What a site holds back: each sum would show a row, which is computed here from it, and nobody is told it."""

from __future__ import annotations

import numpy as np
import pytest

from glmesh.federation.config.site import SiteRules
from glmesh.federation.node.discretion import SiteDiscretion
from glmesh.federation.node.rules import RuleBook
from glmesh.methods.totals.likelihood.cone import SHARES, Cone, cone_rows
from glmesh.methods.totals.likelihood.cone_sums import ConeFrame, ConeQuery, Search, contribute
from glmesh.methods.totals.model import from_triangle
from glmesh.types import Matrix

D = 5  # columns and the intercept


def rows(n_moving: int, n: int = 90) -> tuple[Matrix, Cone]:
    """Rows of a site, of which so many move along the last column, and their cone."""
    rng = np.random.default_rng(n_moving)
    X = np.column_stack([rng.normal(size=(n, D - 2)), np.zeros(n)])
    X[:n_moving, -1] = 1.0
    y = (rng.random(n) < 0.5).astype(float)
    y[:n_moving] = 1.0
    return X, cone_rows(SHARES, X, y, np.ones(n))


def question(cone: Cone, still: float = 1e-3) -> ConeQuery:
    """What the rows are that do not move along the last column."""
    whole = sum((group.gram() for group in cone.groups), np.zeros((D, D)))
    frame = ConeFrame.of(whole, np.ones(D, dtype=bool))
    k = len(frame.axes)
    flat = (frame.back @ np.eye(D)[D - 2])[None]
    search = Search(still, flat / np.linalg.norm(flat), np.eye(k), np.zeros(k), np.zeros(k), np.zeros(k))
    return ConeQuery(np.ones(D), np.zeros(D), False, frame, search)


def discretion(*, may_change: bool = False, **rules: float) -> SiteDiscretion:
    return SiteDiscretion(RuleBook(SiteRules(**rules), "alice", False, may_change))  # type: ignore[arg-type]


def hidden(cone: Cone, asked: ConeQuery) -> Matrix:
    """What all rows have more than those that an answer is about, in the units of the data."""
    assert asked.frame is not None
    overlap = from_triangle(contribute(cone, asked)["cone_overlap"], len(asked.frame.axes))
    return asked.frame.back.T @ (np.eye(len(overlap)) - overlap) @ asked.frame.back


def test_the_row_that_an_answer_leaves_out_could_be_computed_and_is_not_told() -> None:
    X, cone = rows(1)
    asked = question(cone)
    values, vectors = np.linalg.eigh(hidden(cone, asked))
    found = np.sqrt(values[-1]) * vectors[:, -1]
    found *= np.sign(found[-1])
    np.testing.assert_allclose(found, np.append(X[0], 1.0), rtol=1e-6, atol=1e-9)
    assert discretion().objects(cone, asked)


@pytest.mark.parametrize(("moving", "objects"), [(4, True), (15, True), (16, False), (74, False), (80, True)])
def test_answers_are_about_enough_rows_and_leave_out_enough(moving: int, objects: bool) -> None:
    _, cone = rows(moving)
    assert discretion().objects(cone, question(cone)) is objects


def test_where_members_may_change_ten_rows_a_coefficient_are_asked_for() -> None:
    _, cone = rows(40)
    assert not discretion().objects(cone, question(cone))
    assert discretion(may_change=True).objects(cone, question(cone))


def test_the_difference_of_two_answers_is_about_enough_rows_too() -> None:
    _, first = rows(30)
    site, asked = discretion(), question(first)
    assert not site.objects(first, asked)
    site.answered(first, asked)
    assert not site.objects(first, asked)
    groups = first.groups
    moved = groups[0].X.copy()
    moved[30, -1] = 1.0  # one more row moves now
    second = Cone(tuple(type(one)(moved, one.at, one.contrasts, one.equal) for one in groups), D)
    assert not discretion().objects(second, question(second))
    assert site.objects(second, question(second))


def test_a_row_that_dominates_an_answer_is_not_told() -> None:
    X, cone = rows(30)
    X[40, 0] = 1e4
    assert discretion().objects(cone, question(cone))


def test_the_row_of_a_large_residual_could_be_read_from_the_sandwich_and_is_not_told() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(200, 3)), np.ones(200)])
    residuals = rng.normal(size=200)
    residuals[7] = 1e3
    scores = X * residuals[:, None]
    found = np.linalg.eigh(scores.T @ scores)[1][:, -1]
    np.testing.assert_allclose(found / found[-1], X[7], atol=1e-3)
    assert not discretion().allowed_meats(scores, np.full(200, 0.98)).any()


def test_the_row_of_a_large_leverage_could_be_read_from_the_difference_of_two_sandwiches_and_is_not_told() -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(200, 3)), np.ones(200)])
    X[7, 0] = 25.0
    leverage = np.einsum("ij,ji->i", X, np.linalg.pinv(X))
    scores = X * rng.normal(size=200)[:, None]
    scores[7] = 0.02 * X[7]  # it stands out in neither sum, since its residual is small
    both = [(scores / (1.0 - leverage[:, None]) ** power).T @ scores for power in (0.0, 1.0)]
    sizes = (scores**2).sum(axis=1)
    assert sizes.max() / sizes.sum() < 0.1
    allowed = discretion(effective_rows=2.0, largest_share=0.1).allowed_meats(scores, 1.0 - leverage)
    assert np.linalg.norm(both[1] - both[0]) < np.linalg.norm(both[0])
    assert allowed.tolist()[1:] == [False, False]


def test_counts_tell_whether_there_are_any_rows_and_no_more() -> None:
    told = discretion().blurred({"cone_point": np.array([90.0, 3.0, 1.0, 0.0]), "cone_value": np.array([4.5])})
    assert told["cone_point"].tolist() == [90.0, 1.0, 1.0, 0.0]
    assert told["cone_value"].tolist() == [4.5]
