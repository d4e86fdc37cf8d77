"""A method as a program between sites: unequal points, misfits, rare columns, and changed files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from glmesh.core import NetworkInfo
from glmesh.errors import UnreadableFile
from glmesh.federation.config.site import SiteRules
from glmesh.federation.node.program import Answer, SiteProgram
from glmesh.federation.node.rules import RuleBook, check_folds, largest_leverage, level_counts, rare_columns
from glmesh.federation.node.totals_store import TotalsStore, row_digests, rows_changed
from glmesh.federation.totals import Beginning, FederationInfo, Refusal, Unequal
from glmesh.federation.totals.memory import KeptTotal
from glmesh.federation.totals.statements import Held, Record, Vote
from glmesh.methods import CrossValidation, ProximalNewton, Rows
from glmesh.network import mixing, topology
from glmesh.problem import ProblemSpec
from glmesh.types import Matrix, Unsigned


def site(X: Matrix, **options: Any) -> SiteProgram:
    """The program of one of three sites, with targets that follow from the rows."""
    rng = np.random.default_rng(len(X))
    y = np.where(X[:, 0] - 0.2 * X[:, 3] + 2.0 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
    spec = ProblemSpec.of("logistic", "l2", 1.0, None, "samples", True)
    table = spec.penalty_of(None).as_table()
    assert table is not None
    info = NetworkInfo.of(mixing.metropolis(topology.build("complete", 3, 0)), 1, 0)
    block = Rows(np.zeros(1, np.uint64), info, [X], [y], [np.ones(len(X))], spec.loss, table, True)
    rules = RuleBook(SiteRules(), "alice", False, False)
    names = [f"x{j}" for j in range(X.shape[1])]
    method, cv = ProximalNewton(), options.get("cv", 0)
    chosen = CrossValidation(method, cv, alphas=(0.1, 10.0)) if cv else method
    return SiteProgram(chosen, block, 3, 1e-9, 50, rules, names, options.get("rare", "refuse"), n_folds=cv)


def matrices(seed: int = 0) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 4)) * [1.0, 100.0, 1e-3, 5.0] for n in (50, 60, 70)]


def together(programs: list[SiteProgram], start: str = "") -> tuple[list[bytes], list[Unsigned], list[bytes]]:
    """Run sites in lock-step; return the requests, the totals, and each site's answer."""
    running = [program(Beginning((0, 1, 2), start, {})) for program in programs]
    asked = [next(one) for one in running]
    requests, totals, answers = [], [], list[bytes]()
    while True:
        assert len({one.request for one in asked}) == 1
        total = np.sum([one.content for one in asked], axis=0, dtype=np.uint64)
        requests.append(asked[0].request)
        totals.append(total)
        try:
            asked = [one.send(total) for one in running]
        except StopIteration as end:
            answers.append(end.value)
            for one in running[1:]:
                with pytest.raises(StopIteration) as other:
                    one.send(total)
                answers.append(other.value.value)
            return requests, totals, answers


def test_all_sites_come_to_the_same_answer_and_it_survives_its_bytes() -> None:
    _, _, answers = together([site(X) for X in matrices()])
    assert len(set(answers)) == 1
    answer = Answer.of_bytes(answers[0])
    assert answer.certified
    assert answer.to_bytes() == answers[0]


def test_a_drawn_start_asks_at_other_points_and_comes_to_the_same_optimum() -> None:
    zero, drawn = (together([site(X) for X in matrices()], start) for start in ("", "abcdef"))
    assert not {one for one in zero[0] if b"fields" in one} & {one for one in drawn[0] if b"fields" in one}
    a, b = Answer.of_bytes(zero[2][0]), Answer.of_bytes(drawn[2][0])
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-3)
    assert b.certified


def test_folds_come_to_the_same_answer_at_all_sites_and_it_survives_its_bytes() -> None:
    for start in ("", "abcdef"):
        _, _, answers = together([site(X, cv=3) for X in matrices()], start)
        assert len(set(answers)) == 1
        answer = Answer.of_bytes(answers[0])
        assert answer.certified
        assert answer.curve is not None
        assert answer.curve.alpha in (0.1, 10.0)
        assert answer.curve.losses.shape == (3, 2)
        assert answer.to_bytes() == answers[0]


@pytest.mark.parametrize(("n_folds", "proposed"), [(15, "cv = 10"), (40, "cv = 10")])
def test_folds_of_too_few_rows_are_refused_and_fewer_proposed(n_folds: int, proposed: str) -> None:
    with pytest.raises(Refusal, match=f"{n_folds} folds hold out .* 15 are needed; write {proposed}") as caught:
        together([site(X, cv=n_folds) for X in matrices()])
    assert "15 are needed" in caught.value.public
    _, _, answers = together([site(X, cv=10) for X in matrices()])
    assert Answer.of_bytes(answers[0]).curve is not None
    with pytest.raises(Refusal, match="too few for any; write cv = 0"):
        check_folds(31, np.array([60.0, 60.0]), 3)


@pytest.mark.parametrize(("relative", "taken"), [(1e-12, True), (1e-5, False)])
def test_points_of_all_folds_within_rounding_are_taken_and_others_are_refused(relative: float, taken: bool) -> None:
    programs = [site(X, cv=3) for X in matrices()]
    requests, totals, _ = together(programs)
    place = [k for k, one in enumerate(requests) if b"fields" in one][3]
    head, _, at = requests[place].partition(b"\n")
    numbers = np.frombuffer(at).copy()
    assert len(numbers) == 6 * 15  # points, steps and columns of six problems
    numbers[35:40] *= 1.0 + relative  # the step of the third problem
    other = head + b"\n" + numbers.tobytes()
    running = programs[2](Beginning((0, 1, 2), "", {place: other}))
    next(running)
    for total in totals[: place - 1]:
        running.send(total)
    if taken:
        assert running.send(totals[place - 1]).request == other
    else:
        with pytest.raises(Unequal, match="more than rounding"):
            running.send(totals[place - 1])


def test_the_largest_leverage_is_that_of_the_hat_matrix_and_one_where_a_row_has_a_column_for_itself() -> None:
    for X in matrices():
        ones = np.column_stack([X, np.ones(len(X))])
        for rows in (X, csr_array(X), np.column_stack([X, X[:, 0]])):
            block = site(X).block
            block.X[0] = rows
            assert largest_leverage(block) == pytest.approx(np.diag(ones @ np.linalg.pinv(ones)).max(), rel=1e-6)
        X[:, 2] = 0.0
        X[4, 2] = 1e-3
        assert largest_leverage(site(X).block) == pytest.approx(1.0)


@pytest.mark.parametrize(("relative", "taken"), [(1e-12, True), (1e-5, False)])
def test_a_point_within_rounding_is_taken_and_another_is_refused(relative: float, taken: bool) -> None:
    programs = [site(X) for X in matrices()]
    requests, totals, _ = together(programs)
    place = [k for k, one in enumerate(requests) if b"fields" in one][3]
    head, _, at = requests[place].partition(b"\n")
    numbers = np.frombuffer(at).copy()
    numbers[5:10] *= 1.0 + relative  # the step
    other = head + b"\n" + numbers.tobytes()
    running = programs[2](Beginning((0, 1, 2), "", {place: other}))
    asked = next(running)
    for total in totals[: place - 1]:
        asked = running.send(total)
    if taken:
        assert running.send(totals[place - 1]).request == other
    else:
        with pytest.raises(Unequal, match="more than rounding"):
            running.send(totals[place - 1])
    assert asked.request == requests[place - 1]


def test_a_rare_value_ends_the_run_by_name_or_its_column_is_dropped() -> None:
    parts = matrices()
    for X in parts:
        X[:, 2] = 0.0
    parts[0][:3, 2] = 1.0
    with pytest.raises(Refusal, match="x2"):
        together([site(X) for X in parts])
    _, _, answers = together([site(X, rare="drop") for X in parts])
    answer = Answer.of_bytes(answers[1])
    assert answer.dropped == (2,)
    assert answer.coef[2] == 0.0
    assert answer.certified


def test_counts_of_levels_find_rare_ones_alone() -> None:
    X = np.zeros((100, 5))
    X[:4, 0], X[:5, 1], X[:, 2], X[:97, 3] = 1.0, 1.0, np.arange(100), 1.0
    assert rare_columns(level_counts(X), 100.0) == [0, 3]
    np.testing.assert_array_equal(level_counts(csr_array(X)), level_counts(X))


def test_rows_that_changed_are_counted_whatever_their_order() -> None:
    X = matrices()[0]
    before = row_digests(site(X).block, b"key")
    program = site(X)
    shuffled = np.random.default_rng(1).permutation(len(X))
    program.block.X[0], program.block.y[0] = X[shuffled], program.block.y[0][shuffled]
    assert rows_changed(before, row_digests(program.block, b"key")) == 0
    changed = program.block.X[0].copy()
    changed[3, 1] += 1.0
    program.block.X[0] = changed
    assert rows_changed(before, row_digests(program.block, b"key")) == 2


def test_a_file_with_few_other_rows_is_refused_unless_the_site_allows_it() -> None:
    for rows, allowed, refused in ((0, False, False), (2, False, True), (2, True, False), (40, False, False)):
        book = RuleBook(SiteRules(small_changes=allowed), "alice", False, False, "", rows)
        program = site(matrices()[0])
        if refused:
            with pytest.raises(Refusal, match="2 rows of the data file"):
                book.check_data(program.block, changed=False)
        else:
            book.check_data(program.block, changed=False)


def test_with_a_loss_of_constant_curvature_more_rows_are_asked_for_where_members_may_change() -> None:
    block = site(matrices()[0][:40]).block
    RuleBook(SiteRules(), "alice", True, False).check_data(block, changed=False)
    RuleBook(SiteRules(), "alice", False, True).check_data(block, changed=True)
    for may_change, changed in ((True, False), (False, True)):
        with pytest.raises(Refusal, match=r"at most 0\.1"):
            RuleBook(SiteRules(), "alice", True, may_change).check_data(block, changed=changed)


def test_a_point_far_away_where_one_row_is_all_of_the_hessian_is_refused() -> None:
    program = site(matrices()[0])
    book, scale = program.rules, np.array([8.0, 1024.0, 2.0**-7, 64.0, 8.0])
    book.check_point(program.block, scale, (np.zeros(4), 0.0, False))
    refused = 0
    for seed in range(20):
        w = 1000.0 * np.random.default_rng(seed).normal(size=4) / scale[:4]
        try:
            book.check_point(program.block, scale, (w, 0.0, False))
        except Refusal:
            refused += 1
    assert refused == 20


def test_a_memory_survives_its_file_and_other_rows_get_another_name(tmp_path: Path) -> None:
    class Somewhere:
        state = tmp_path

        class federation:
            digest = "0123456789abcdef"

    info = FederationInfo("f", ("a", "b", "c"), ((1, 2), (0, 2), (0, 1)), 0)
    store, program = TotalsStore(Somewhere(), info), site(matrices()[0])  # type: ignore[arg-type]
    kept = store.load(program.block)
    kept.start, kept.contributed = 7, kept.digests
    kept.memory.begin(Held("fit", "set", "", 3, 0, ""))
    kept.memory.append(KeptTotal(b"request", np.arange(3, dtype=np.uint64)))
    kept.memory.record, kept.memory.vote, kept.memory.model = Record("set", ""), Vote(3, "v", "m"), b"model\n"
    store.save(kept)
    again = store.load(program.block)
    assert (again.memory.pin, again.start, again.changed) == (kept.memory.pin, 7, 0)
    for name in ("voters", "promised", "record", "held", "vote", "model"):
        assert getattr(again.memory, name) == getattr(kept.memory, name)
    np.testing.assert_array_equal(again.memory.entries[0].value, np.arange(3))
    changed = site(matrices(1)[0]).block
    assert (again.outdated, store.load(changed).outdated) == (False, True)
    kept.memory.model = b""
    store.save(kept)
    other = store.load(changed)
    assert other.memory.pin != kept.memory.pin
    assert (other.changed, other.outdated) == (100, False)
    store.path.write_bytes(store.path.read_bytes()[:-1])
    with pytest.raises(UnreadableFile, match="begins anew"):
        store.load(program.block)
