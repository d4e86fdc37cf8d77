"""What a node adds to the totals of the interior-point method: sums over its own rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from glmesh.core.totals import Sums
from glmesh.kernels.interior import Losses, Move, Outcome, step_rows
from glmesh.kernels.narrow import NarrowRows, NarrowScratch, NarrowSums, step_narrow_rows
from glmesh.methods.totals.interior_state import InteriorState, ProblemScales
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.standardise import CHUNK, NARROW, column_sums
from glmesh.types import Matrix, SampleMatrix, Vector

# [step] lengths at which the smoothed objective is known, to 0.01 because shorter steps mean that mu is wrong
TRIALS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
PARTS = ("positive", "negative", "room")  # of theta: its signs, and min(hi - theta, theta - lo)
CANDIDATES = ("present", "restored", "affine")  # dual points: theta, and after a step to l2 w = -Z'theta or without mu
VALUES = ("loss", "loss affine", "start", "step", *TRIALS)  # of losses, and smoothed ones at step lengths
N_VECTORS = 3 + len(PARTS) * len(CANDIDATES)  # D, right and pull first
PASSES = 3  # over a node's nonzeros in a total, because it makes predictions, products Z'a and a Gram matrix

Fields = dict[str, Vector]


def visited(block: Rows) -> Vector:
    """Return how many nonzeros each hosted node visits in a total of a step, shape (n_hosted,): a measure of work."""
    return PASSES * block.nonzeros


def moments(block: Rows, k: int, state: InteriorState) -> Fields:
    """Return what the k-th hosted node adds to the first total, {name of a field: array of one number}.

    They are weighted sums and sums of squares of each column and of the target, about `state.centre`, sums of weights
    and rows, and the loss if the state begins at given coefficients. Every column has fields of its own, as columns may
    differ by any factor.
    """
    X, y, s = _kept(block, k)
    sums = column_sums(X, s, state.centre[:-1])
    away = y - state.centre[-1]
    fields = {"weight": _number(s.sum()), "rows": _number(len(s)), "positive": _number((y > 0).sum())}
    if state.given:
        fields["loss"] = _number(block.loss.total(y, X @ state.w + state.intercept, s))
    for j in range(block.p):
        fields[f"first {j}"], fields[f"second {j}"] = sums[0, j : j + 1], sums[1, j : j + 1]
    fields["first y"], fields["second y"] = _number(s @ away), _number(s @ away**2)
    return fields


def step_fields(
    block: Rows, state: InteriorState, frame: ProblemScales, cap: float
) -> tuple[dict[str, Matrix], list[Matrix]]:
    """Return (fields, multipliers) of the hosted nodes for a total that tries the state's step.

    The fields are {name: array of shape (n_hosted, size)}; the multipliers are those of each node's rows after the
    step, shape (m_k, J, 4), J per row. Without a step the multipliers are at their centres, and all candidates for a
    dual point are the same. Values of the objective beyond `cap` are cut to it, so that no step needs larger grains.
    """
    kinks, step, d = frame.kinks, state.step, frame.columns.d
    losses = Losses(
        block.kernel_rows,
        0.0 if block.loss.classifies else frame.shift,
        kinks.idle,
        kinks.n_pieces * kinks.width,
        kinks.width * frame.weight / frame.n_rows,
    )
    after = np.zeros((len(block.kernel_rows), kinks.n_pieces, 4))
    before, length, mu, ways = after, 0.0, state.mu, np.zeros((4, d))
    ways[0] = state.point
    if step is not None:
        before, length, mu = np.concatenate(state.rows), step.length, step.mu
        ways[1:] = step.direction, step.restoring, step.affine
    move = Move(before, np.zeros((0, 4)), np.array([0.0, length, *TRIALS]), length, mu)
    sums, columns = _no_sums(block.size, d), np.ascontiguousarray(ways.T)

    def fill(piece: tuple[slice, Matrix | None]) -> None:
        """Compute the sums and multipliers of some hosted nodes into the arrays above."""
        nodes, dense = piece
        rows, starts = block.rows_of(nodes)
        if dense is not None:
            part = NarrowRows(dense, starts, *frame.columns.centring, columns)
            own = losses._replace(table=losses.table[rows]), move._replace(before=before[rows])
            _step_narrow(part, own, after[rows], NarrowSums(*[one[nodes] for one in sums]))
            return
        for k in range(nodes.start, nodes.stop):
            rows, _ = block.rows_of(slice(k, k + 1))
            own = losses._replace(table=losses.table[rows]), move._replace(before=before[rows])
            _step(block.X[k], frame, ways, own, after[rows], NarrowSums(*[one[k] for one in sums]))

    list(block.threads.map(fill, block.pieces(narrow=d <= NARROW)))
    moments, flat = sums.moments, (block.size, -1)
    fields = {"values": np.minimum(sums.losses, cap), "k": sums.k.reshape(flat), "size": sums.sizes}
    fields |= {"spread": sums.spread, "gram": sums.triangle, "right": moments[:, 1], "pull": moments[:, 2]}
    fields |= {"theta": moments[:, SIGNS].reshape(flat), "room": moments[:, ROOMS].reshape(flat)}
    return fields, [after[a:b] for a, b in pairwise(block.starts.tolist())]


def _no_sums(n_nodes: int, d: int) -> NarrowSums:
    """Return the sums of nodes without a row, all zero, for d standardised columns."""
    return NarrowSums(
        np.zeros((n_nodes, len(VALUES))),
        np.zeros((n_nodes, len(CANDIDATES), len(PARTS) + 1)),
        np.zeros((n_nodes, len(CANDIDATES))),
        np.zeros((n_nodes, 1)),
        np.zeros((n_nodes, N_VECTORS, d)),
        np.zeros((n_nodes, d * (d + 1) // 2)),
    )


def _step_narrow(rows: NarrowRows, of_rows: tuple[Losses, Move], after: Matrix, sums: NarrowSums) -> None:
    """Make the step on the rows of some nodes by one kernel: write multipliers to `after`, and add to `sums`."""
    losses, move = of_rows
    n, d = min(CHUNK, int(np.diff(rows.starts).max(initial=1))), sums.moments.shape[2]
    scratch = NarrowScratch(
        np.empty((n, d)),
        np.empty((n, 4)),
        np.empty((n, N_VECTORS)),
        np.empty(n),
        np.empty(sums.triangle.shape[1]),
        np.ones(d),
        np.empty(len(VALUES)),
        np.zeros((2, len(move.lengths))),
    )
    step_narrow_rows(rows, losses, move, after, sums, scratch)


def _step(
    X: SampleMatrix, frame: ProblemScales, ways: Matrix, of_rows: tuple[Losses, Move], after: Matrix, sums: NarrowSums
) -> None:
    """Make the step on the rows X of one node: write multipliers to `after`, and the sums of the node to `sums`."""
    losses, move = of_rows
    own, scratch = frame.columns.pass_over(X, N_VECTORS), np.zeros((2, len(move.lengths)))
    for rows in own.chunks:
        predictions = own.predictions(rows, ways)
        vectors, part = np.zeros((len(predictions), N_VECTORS)), np.zeros(len(VALUES))
        step_rows(
            losses._replace(table=losses.table[rows]),
            move._replace(before=move.before[rows], predictions=predictions),
            Outcome(after[rows], vectors, part, sums.k, sums.sizes, sums.spread, scratch),
        )
        sums.losses[:] += part
        own.add(rows, vectors)
    sums.triangle[:], moments = own.sums()
    sums.moments[:] = moments.T


SIGNS = [3 + len(PARTS) * c + part for c in range(len(CANDIDATES)) for part in (0, 1)]  # vectors of the field "theta"
ROOMS = [5 + len(PARTS) * c for c in range(len(CANDIDATES))]  # vectors of the field "room"


def value_of(sums: Sums, name: str | float) -> float:
    """Return the loss named `name`, one of VALUES, from the sums of a total."""
    return float(sums["values"][VALUES.index(name)])


def candidate(sums: Sums, number: int) -> tuple[Matrix, Vector, float]:
    """Return what a total has of a candidate for the dual point theta: products with columns and kinks, and its size.

    `number` is the candidate's place in CANDIDATES. theta has an entry per row; its three PARTS are its positive part,
    its negative part and its room to its bounds. Returned are the parts' products with the d standardised columns,
    shape (3, d); their products with k, where the kinks are, and last the size of that of theta, shape (4,); and the
    size of theta.
    """
    d = len(sums["right"])
    products = np.empty((len(PARTS), d))
    products[:2] = sums["theta"].reshape(-1, d)[2 * number : 2 * number + 2]
    products[2] = sums["room"].reshape(-1, d)[number]
    return products, sums["k"].reshape(len(CANDIDATES), -1)[number], float(sums["size"][number])


def _kept(block: Rows, k: int) -> tuple[SampleMatrix, Vector, Vector]:
    """Return (X, y, weights) of the k-th hosted node without its rows of weight 0."""
    X, y, s = block.X[k], block.y[k], block.weight[k]
    kept = s > 0
    return (X, y, s) if kept.all() else (X[kept], y[kept], s[kept])


def _number(value: float) -> Vector:
    """Return an array of one number, which is the field of a total."""
    return np.array([float(value)])
