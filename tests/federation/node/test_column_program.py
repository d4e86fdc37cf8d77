"""The program of a site that holds columns: bits, drawn starts, other sites' last bits, and the site's own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.federation.config import ProblemPart
from glmesh.federation.config.site import SiteRules
from glmesh.federation.node.answer import Answer
from glmesh.federation.node.column_program import ColumnProgram, ColumnRules
from glmesh.federation.totals import Beginning, Refusal, Unequal
from glmesh.functions.losses import LogisticLoss
from glmesh.functions.penalties import L2
from glmesh.methods import Rows
from glmesh.types import Matrix, Unsigned, Vector
from tests.columns import blocks_of, together
from tests.federation.node.test_columns import NAMES, federate

OBJECTIVE: dict[str, Any] = {"loss": "logistic", "alpha": 1.0, "fit_intercept": True}
RULES = ColumnRules(SiteRules(), "alice", constant=True, may_change=False)


def data() -> tuple[list[Matrix], Vector]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 12)) @ rng.normal(size=(12, 12))
    return [X[:, :4], X[:, 4:9], X[:, 9:]], np.where(X @ rng.normal(size=12) + 3 * rng.normal(size=120) > 0, 1.0, -1.0)


def programs(parts: Sequence[Matrix], y: Vector, rules: ColumnRules = RULES, **options: Any) -> list[ColumnProgram]:
    table = L2(1.0).as_table()
    assert table is not None
    made = []
    for block, X in zip(blocks_of(parts, y, **OBJECTIVE), parts, strict=True):
        rows = Rows(block.ids, block.info, [X], [y], [np.ones(len(y))], LogisticLoss(), table, True)
        names = [f"x{j}" for j in range(X.shape[1])]
        made.append(ColumnProgram(block, rows, len(parts), 1e-8, 100, rules, names, **options))
    return made


def requests_of(made: list[ColumnProgram], beginnings: list[Beginning]) -> tuple[list[bytes], list[list[bytes]]]:
    """Run the programs side by side; return their models, and each one's requests."""
    running = [one(beginning) for one, beginning in zip(made, beginnings, strict=True)]
    asked = [next(one) for one in running]
    requests: list[list[bytes]] = [[] for _ in made]
    while True:
        for mine, one in zip(requests, asked, strict=True):
            mine.append(one.request)
        total: Unsigned = sum((one.content for one in asked), np.uint64(0))
        models, following = [], []
        for one in running:
            try:
                following.append(one.send(total))
            except StopIteration as end:
                models.append(end.value)
        if models:
            assert len(models) == len(running)
            return models, requests
        asked = following


def begun(start: str = "", requests: dict[int, bytes] | None = None) -> Beginning:
    return Beginning((0, 1, 2), start, requests or {})


def test_programs_have_the_bits_of_nodes_in_one_process_and_each_its_own_coefficients() -> None:
    parts, y = data()
    made = programs(parts, y)
    models, requests = requests_of(made, [begun()] * 3)
    assert models[0] == models[1] == models[2]
    assert requests[0] == requests[1] == requests[2]
    expected = together(parts, y, tol=1e-8, **OBJECTIVE)
    for k in range(3):
        np.testing.assert_array_equal(made[k].own[models[0]], expected.states[k].x)
    answer = Answer.of_bytes(models[0])
    assert answer.certified
    assert (answer.objective, answer.intercept) == (expected.states[0].objective, expected.states[0].intercept)
    assert len(answer.coef) == 0


def test_a_drawn_start_is_another_for_each_site_and_leads_to_the_same_model() -> None:
    parts, y = data()
    made = programs(parts, y)
    (zero, *_), _ = requests_of(made, [begun()] * 3)
    (drawn, *_), requests = requests_of(made, [begun("ab" * 32)] * 3)
    assert Answer.of_bytes(drawn).objective == pytest.approx(Answer.of_bytes(zero).objective, rel=1e-7)
    assert b"prediction" in requests[0][1]  # nobody knows the sum of all sites' starts
    for one in made:
        np.testing.assert_allclose(one.own[drawn], one.own[zero], atol=1e-3)


def test_last_bits_of_another_site_are_taken_over_and_more_is_refused() -> None:
    parts, y = data()
    (model, *_), requests = requests_of(programs(parts, y), [begun()] * 3)
    place = next(k for k, one in enumerate(requests[0]) if b"product" in one and k > 4)
    head, _, at = requests[0][place].partition(b"\n")
    for change, is_taken in ((1e-13, True), (1e-6, False)):
        other = head + b"\n" + (np.frombuffer(at, dtype="<f8") * (1.0 + change)).tobytes()
        made = programs(parts, y)
        if not is_taken:
            with pytest.raises(Unequal):
                requests_of(made, [begun(requests={place: other})] * 3)
            continue
        (again, *_), theirs = requests_of(made, [begun(requests={place: other})] * 3)
        assert theirs[0][place] == other
        assert Answer.of_bytes(again).objective == pytest.approx(Answer.of_bytes(model).objective, rel=1e-9)


def refused(rules: ColumnRules, words: str, parts: list[Matrix], y: Vector) -> None:
    with pytest.raises(Refusal, match=words) as caught:
        requests_of(programs(parts, y, rules), [begun()] * 3)
    assert caught.value.public == "refused by alice"


def test_a_site_refuses_other_members_another_file_rare_values_and_too_many_totals() -> None:
    parts, y = data()
    refused(replace(RULES, members_changed=True), "members are not those", parts, y)
    refused(replace(RULES, rows_changed=1), "rows of the data file are not those", parts, y)
    refused(replace(RULES, rules=SiteRules(most_vectors=3)), "3 totals with a number per row", parts, y)
    refused(replace(RULES, rules=SiteRules(least_rows=500)), "least_rows = 500", parts, y)
    allowed = replace(RULES, rules=SiteRules(small_changes=True), members_changed=True, rows_changed=1)
    assert requests_of(programs(parts, y, allowed), [begun()] * 3)
    rare = [parts[0].copy(), *parts[1:]]
    rare[0][:, 2] = np.arange(len(y)) < 3
    refused(RULES, "one of the two values of x2", rare, y)
    made = programs(rare, y, replace(RULES, rare="drop"))
    (model, *_), _ = requests_of(made, [begun()] * 3)
    assert made[0].own[model][2] == 0.0
    assert made[0].dropped == (2,)
    without = [np.delete(rare[0], 2, axis=1), *parts[1:]]
    np.testing.assert_allclose(
        np.delete(made[0].own[model], 2), together(without, y, tol=1e-8, **OBJECTIVE).states[0].x, atol=1e-3
    )


@pytest.mark.parametrize(
    ("problem", "network", "late", "words"),
    [
        ({}, {"gone": "without"}, (), "gone = 'without' would leave a site out"),
        ({}, {"refused": "without"}, (), "refused = 'without' would leave a site out"),
        ({}, {}, ("carol",), "carol is late"),
        ({"cv": 5}, {}, (), "cv needs totals"),
    ],
)
def test_who_takes_part_is_fixed(
    problem: dict[str, Any], network: dict[str, Any], late: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    parts, y = data()
    made = federate(tmp_path, np.hstack(parts), y, (4, 4, 4), problem=problem, network=network, late=late)
    with pytest.raises(InvalidInput, match=words):
        made.federation.check()


def test_what_totals_over_columns_cannot_fit_is_named_with_what_would_do() -> None:
    part = ProblemPart(loss="logistic", alpha=0.0, split="features", method="totals")
    with pytest.raises(UnsuitablePair, match="method = 'gossip'"):
        part.model()
    assert not ProblemPart(loss="logistic", split="features").by_totals  # a file that names no method, as before


@pytest.mark.waits
def test_another_file_at_a_site_is_refused_before_a_byte_of_it_leaves(tmp_path: Path) -> None:
    parts, y = data()
    made = federate(tmp_path, np.hstack(parts), y, (4, 4, 4), problem={"loss": "logistic"})
    made.run()
    assert made.errors == {}
    assert len(made.endings) == 3
    path = tmp_path / "bob.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], lines[-1].replace(lines[-1].split(",")[1], "0.5", 1)]) + "\n")
    later = replace(made.federation, name="later")
    for name in NAMES[:3]:
        made.write_node(name, replace(later, network=replace(later.network, salt="t")), ids="id")
    made.run()
    assert "refused by bob" in str(made.errors)
    assert set(made.errors) == {"alice", "bob", "carol"}
    phase = made.nodes["bob"].totals
    assert phase is not None
    assert sum(phase.contributions.values()) == 0
