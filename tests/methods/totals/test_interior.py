"""Losses with kinks on totals: bounds that hold, multipliers that stay what they are, and runs that end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from glmesh import GLMRegressor, Problem, Run, solve
from glmesh.functions import EpsilonInsensitiveLoss, HingeLoss, QuantileLoss, Table
from glmesh.kernels.interior import Losses, Move, Outcome, best_share, step_rows
from glmesh.methods import InteriorPoint
from glmesh.methods.totals.choice import method_on_totals
from glmesh.methods.totals.interior_rows import N_VECTORS, TRIALS, step_fields
from glmesh.methods.totals.pieces import Kinks, Multipliers
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.standardise import DensePass, SparsePass, Standardisation
from tests.cases import cases
from tests.methods.totals.kinked import Kinked, draw, fit, make_round, network, optimum
from tests.scenes import advance

LOSSES = {
    "hinge": HingeLoss(),
    "quantile": QuantileLoss(0.3),
    "absolute": EpsilonInsensitiveLoss(0.0),
    "tube": EpsilonInsensitiveLoss(0.4),
}
BATCHES = 25  # of random problems


def problem(loss: str, penalty: Table | None = None, seed: int = 0, m: int = 90) -> Kinked:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 5)) * [1e-3, 1.0, 10.0, 1e4, 1.0] + [0.0, 3.0, 0.0, 1e5, 0.0]
    y = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=5) + rng.normal(size=m)
    if loss == "hinge":
        y = np.where(y > 0, 1.0, -1.0)
    weight = rng.integers(0, 4, m).astype(float)
    return Kinked(X, y, weight, LOSSES[loss], Table(l2=np.asarray(0.5)) if penalty is None else penalty)


# bounds


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_bound_of_any_round_is_above_the_optimum(batch):
    """Clarabel and the fit itself say what can be reached; both are evaluated in extended precision."""
    many = cases(500) // BATCHES
    for seed in range(batch * many, (batch + 1) * many):
        drawn = draw(seed)
        state, records = fit(drawn.blocks(sparse=seed % 3 == 0), 1e-9)
        own = drawn.value(state.w, state.intercept)
        best = min(own, optimum(drawn))
        objectives, gaps = np.array(records).T
        bounds = np.where(np.isfinite(gaps), objectives - gaps, 0.0)
        assert bounds.max() <= best * (1 + 1e-12), seed
        assert own - state.objective <= state.gap + 1e-18, seed
        assert (np.diff(objectives[np.isfinite(objectives)]) <= 0).all(), seed


PENALTIES = {
    "l2": Table(l2=np.asarray(0.5)),
    "l1": Table(l1=np.asarray(0.7)),
    "elastic net": Table(l1=np.asarray(0.2), l2=np.asarray(0.3)),
    "none": Table(),
}


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_is_that_of_a_conic_solver(loss, penalty, intercept):
    if (loss, penalty) == ("hinge", "none"):
        pytest.skip("the hinge needs a penalty")
    given = replace(problem(loss, PENALTIES[penalty]), fit_intercept=intercept)
    state, _ = fit(given.blocks(), 1e-7)
    assert state.gap <= 1e-7 * state.objective
    assert given.value(state.w, state.intercept) == pytest.approx(state.objective, rel=1e-10)
    assert state.objective == pytest.approx(optimum(given), rel=2e-7)


def test_quantiles_need_no_penalty_and_the_hinge_does():
    assert isinstance(method_on_totals(LOSSES["quantile"], Table(), 5), InteriorPoint)
    assert isinstance(method_on_totals(LOSSES["tube"], Table(), 5), InteriorPoint)
    assert method_on_totals(LOSSES["hinge"], Table(), 5) is None
    given = problem("quantile", Table())
    model = GLMRegressor(LOSSES["quantile"], alpha=0.0, tol=1e-7).fit(given.X, given.y, sample_weight=given.s)
    assert model.result_.status.name in ("CONVERGED", "CERTIFIED")
    assert given.value(model.coef_, float(model.intercept_)) == pytest.approx(optimum(given), rel=1e-6)


# rows


def piecewise(given: Kinked) -> tuple[Kinks, Losses]:
    kinks, mean = Kinks.of(given.loss), given.s.sum() / np.count_nonzero(given.s)
    table = given.loss.dual(given.y, given.s).kernel_rows(len(given.y))
    return kinks, Losses(table, 0.0, kinks.idle, kinks.n_pieces * kinks.width, kinks.width * mean)


def stepped(given: Kinked, before: np.ndarray, predictions: np.ndarray, length: float, mu: float) -> Outcome:
    kinks, losses = piecewise(given)
    m, lengths = len(given.y), np.array([0.0, length, *TRIALS])
    out = Outcome(
        np.zeros((m, kinks.n_pieces, 4)), np.zeros((m, N_VECTORS)), np.zeros(2 + len(lengths)), np.zeros((3, 4)),
        np.zeros(3), np.zeros(1), np.zeros((2, len(lengths))),
    )  # fmt: skip
    step_rows(losses, Move(before, predictions, lengths, length, mu), out)
    return out


@pytest.mark.parametrize("loss", LOSSES)
def test_the_kernel_of_rows_says_what_arrays_say(loss):
    given, rng = problem(loss), np.random.default_rng(1)
    kinks, kept = Kinks.of(given.loss), given.s > 0
    pieces = kinks.pieces(given.loss, given.y[kept], given.s[kept], given.s[kept].mean())
    ways = rng.normal(size=(len(given.y), 4))
    first = stepped(given, np.zeros((len(given.y), kinks.n_pieces, 4)), ways, 0.0, 0.3)
    old = pieces.centre(ways[kept, 0] - pieces.k, 0.3)
    second = stepped(given, first.after, ways, 0.7, 0.1)
    before = ways[kept, 0] - pieces.k
    g = before + 0.7 * ways[kept, 1]
    new = pieces.move(old, 0.7 * old.curvature * (ways[kept, 1] + before - 0.1 * pieces.share * old.pull), g, 0.1)
    for found, expected in ((first, old), (second, new)):
        assert not found.after[~kept].any()
        for number, name in enumerate("zvpq"):
            np.testing.assert_allclose(found.after[kept, :, number].T, getattr(expected, name), rtol=1e-12)
    theta = pieces.slopes(new)
    vectors = second.vectors[kept].T
    np.testing.assert_allclose(vectors[0], new.curvature.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(vectors[1], (theta + new.curvature * g).sum(axis=0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        vectors[2], (new.curvature * pieces.share * new.pull).sum(axis=0), rtol=1e-10, atol=1e-12
    )
    clipped = {
        0: theta,
        1: np.clip(pieces.slopes(old) + old.curvature * ways[kept, 2], pieces.lo, pieces.hi),
        2: np.clip(pieces.slopes(old) + old.curvature * (ways[kept, 3] + before), pieces.lo, pieces.hi),
    }
    for number, one in clipped.items():
        room = np.minimum(pieces.hi - one, one - pieces.lo)
        parts = np.maximum(one, 0), np.minimum(one, 0), room
        for at, part in enumerate(parts):
            np.testing.assert_allclose(vectors[3 + 3 * number + at], part.sum(axis=0), rtol=1e-10, atol=1e-13)
        expected_k = [*((pieces.k * part).sum() for part in parts), np.abs(pieces.k * one).sum()]
        np.testing.assert_allclose(second.k[number], expected_k, rtol=1e-11, atol=1e-11)
        assert second.sizes[number] == pytest.approx(np.abs(one).sum(), rel=1e-12)
    values = [pieces.values(g).sum(), pieces.values(before + ways[kept, 3]).sum()]
    values += [pieces.smoothed(before + t * ways[kept, 1], 0.1).sum() for t in (0.0, 0.7, *TRIALS)]
    np.testing.assert_allclose(second.losses, values, rtol=1e-12)
    assert second.spread[0] == pytest.approx((new.curvature.sum(axis=0) / given.s[kept] ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize("penalty", ["l2", "elastic net"])
@pytest.mark.parametrize("loss", LOSSES)
def test_multipliers_stay_positive_and_belong_to_their_predictions_in_every_round(loss, penalty):
    given = problem(loss, PENALTIES[penalty])
    blocks, method = given.blocks(n_nodes=1), InteriorPoint()
    states = [method.start(block) for block in blocks]
    state, block = states[0], blocks[0]
    kept = block.weight[0] > 0
    for _ in range(25):
        make_round(method, blocks, states)
        if not state.rows:
            continue
        frame = state.frame
        pieces = frame.kinks.pieces(
            block.loss, (block.y[0] if loss == "hinge" else block.y[0] - frame.shift)[kept], block.weight[0][kept],
            frame.weight / frame.n_rows,
        )  # fmt: skip
        at = Multipliers(*(state.rows[0][kept, :, number].T for number in range(4)))
        g = frame.columns.standardised(block.X[0])[kept] @ state.point - pieces.k
        assert min(one.min() for one in (at.z, at.v, at.p, at.q)) > 0
        np.testing.assert_allclose(at.z + at.v, pieces.width, rtol=1e-12)
        np.testing.assert_allclose(at.p - at.q, g, atol=1e-9 * (1 + np.abs(g).max()))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sums_over_sparse_rows_are_those_over_dense_ones(fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2100, 7)) * (rng.random((2100, 7)) < 0.2) * 10.0 ** np.arange(-3, 4)
    mean = X.mean(axis=0) if fit_intercept else np.zeros(7)
    columns = Standardisation(mean, np.ldexp(1.0, -np.frexp(X.std(axis=0))[1]), fit_intercept)
    ways, vectors = rng.normal(size=(3, columns.d)), np.abs(rng.normal(size=(2100, 4)))
    found = []
    for own in (DensePass(columns, X, 4), SparsePass(columns, sp.csr_array(X), 4)):
        assert len(own.chunks) == 3
        predictions = []
        for rows in own.chunks:
            predictions.append(own.predictions(rows, ways))
            own.add(rows, vectors[rows])
        found.append((np.vstack(predictions), *own.sums()))
    Z = columns.standardised(X)
    exact = Z @ ways.T, (Z.T @ (vectors[:, :1] * Z))[np.triu_indices(columns.d)], Z.T @ vectors
    for ours in found:
        for one, other in zip(ours, exact, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "tube"])
def test_one_kernel_for_all_nodes_adds_up_what_passes_over_each_node_do(loss, fit_intercept, monkeypatch):
    """Of 2,500 rows at three nodes, one of them without a row; more than are taken at a time are at the first."""
    given = replace(problem(loss, m=2500), fit_intercept=fit_intercept)
    parts = [slice(0, 2000), slice(2000, 2000), slice(2000, 2500)]
    X, y, s = ([one[part] for part in parts] for one in (given.X, given.y, given.s))
    ids, info = np.arange(3, dtype=np.uint64), network(3)
    block = Rows(ids, info, X, y, s, given.loss, given.penalty, fit_intercept)
    assert block.stacked is given.X
    state, method = InteriorPoint().start(block), InteriorPoint()
    for _ in range(4):
        make_round(method, [block], [state])
    assert state.step is not None
    ours, after = step_fields(block, state, state.frame, np.inf)
    monkeypatch.setitem(vars(block), "stacked", None)
    alone, _ = step_fields(block, state, state.frame, np.inf)
    for name, one in ours.items():
        assert one.tobytes() == alone[name].tobytes(), name  # the same bits by a call for each node
    monkeypatch.setattr("glmesh.methods.totals.interior_rows.NARROW", 0)
    theirs, expected = step_fields(block, state, state.frame, np.inf)
    assert set(ours) == set(theirs)
    for name, one in ours.items():
        np.testing.assert_allclose(one, theirs[name], rtol=1e-9, atol=1e-9 * np.abs(theirs[name]).max(), err_msg=name)
    for one, other in zip(after, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def test_rows_of_all_nodes_are_one_array_without_a_copy_where_they_lie_in_one():
    X = np.arange(12.0).reshape(6, 2).copy()

    def rows(*parts: np.ndarray | sp.csr_array) -> Rows:
        lengths = [part.shape[0] for part in parts]
        y = [np.ones(length) for length in lengths]
        return Rows(np.arange(len(parts), dtype=np.uint64), network(4), list(parts), y, y, HingeLoss(), Table(), True)

    assert rows(X[:2], X[2:2], X[2:]).stacked is X
    assert rows(X).stacked is X
    by_columns = np.asfortranarray(X)
    for parts in ((X[2:], X[:2]), (X[:3].copy(), X[3:].copy()), (X[1:3], X[3:]), (by_columns[:3], by_columns[3:])):
        stacked = rows(*parts).stacked
        np.testing.assert_array_equal(stacked, np.concatenate(parts))
        assert stacked.flags.c_contiguous
    assert rows(X[:2], sp.csr_array(X[2:])).stacked is None


def test_the_best_share_maximises_the_dual_objective_on_a_line():
    rng = np.random.default_rng(0)
    for _ in range(20):
        slopes, l1, l2 = rng.normal(size=(2, 6)), rng.random(5), rng.random(5) + 0.1
        share = best_share(slopes, l1, l2, 50)
        t = np.linspace(0, 1, 1001)[:, None]
        line = slopes[0] + t * slopes[1]
        D = -line[:, -1] - (np.maximum(np.abs(line[:, :-1]) - l1, 0) ** 2 / (2 * l2)).sum(axis=1)
        assert share == pytest.approx(float(t[D.argmax(), 0]), abs=2e-3)


# runs


def as_problem(given: Kinked, **options: object) -> Problem:
    return Problem.glm(
        given.X, given.y, sample_weight=given.s, loss=given.loss, penalty=given.penalty, split="samples",
        fit_intercept=True, **options,
    )  # fmt: skip


@pytest.mark.parametrize("topology", ["path", "star", "complete"])
@pytest.mark.parametrize("loss", ["hinge", "tube"])
def test_the_same_bits_for_any_blocks_threads_and_network(loss, topology):
    given = as_problem(problem(loss))
    one = advance(Run(given, method=InteriorPoint(), n_nodes=12, topology="ring"), 12)
    for options in ({}, {"n_blocks": 5}, {"n_blocks": 12, "n_jobs": 2}):
        run = advance(Run(given, method=InteriorPoint(), n_nodes=12, topology=topology, **options), 12)
        assert run.estimates.tobytes() == one.estimates.tobytes()
        assert run.measure().gap == one.measure().gap


def nearly_twice() -> Problem:
    """Two columns that differ by 1e-7 of themselves, beside others of any size: their sums of squares are one."""
    drawn = draw(282)
    return Problem.glm(drawn.X, drawn.y, sample_weight=drawn.s, loss=drawn.loss, penalty=drawn.penalty,
                       split="samples", fit_intercept=True)  # fmt: skip


def test_a_run_that_stands_still_ends_and_says_what_to_do():
    result = solve(nearly_twice(), method=InteriorPoint(), n_nodes=4, tol=1e-9)
    assert result.status.name == "STALLED"
    assert result.rounds < 200
    assert "relax tol, raise the penalty" in result.message
    rounds = solve(nearly_twice(), method=InteriorPoint(), n_nodes=4, tol=1e-9, stop="rounds", max_rounds=150)
    assert rounds.rounds == 150


def test_an_optimum_of_zero_is_found():
    given = replace(problem("tube"), loss=EpsilonInsensitiveLoss(100.0))
    result = solve(as_problem(given), method=InteriorPoint(), n_nodes=4, tol=1e-9)
    assert result.status.name == "CONVERGED"
    assert result.objective == result.gap == 0.0


def test_another_penalty_is_gone_on_with():
    run = advance(Run(as_problem(problem("hinge"), alpha=1.0), method=InteriorPoint(), n_nodes=4), 12)
    run.set_alpha(7.0)
    assert run.states[0].quiet == 0
    advance(run, 25)
    given = problem("hinge", Table(l2=np.asarray(3.5)))
    assert run.measure().gap <= 1e-8 * run.measure().objective
    assert run.measure().objective == pytest.approx(optimum(given), rel=1e-7)
