"""What a node adds to the totals of the interior-point method: sums over its own rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from glmesh.methods.totals.interior_state import Frame, InteriorState, Step
from glmesh.methods.totals.pieces import Kinks, Multipliers, Pieces
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.standardise import column_sums
from glmesh.types import Matrix, SampleMatrix, Vector

TRIALS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # step lengths at which the smoothed objective is known
PARTS = ("positive", "negative", "room")  # of theta: its signs, and min(hi - theta, theta - lo)
CANDIDATES = ("present", "restored", "affine")  # dual points: theta, and after a step to l2 w = -Z'theta or without mu
PASSES = 3  # over a node's nonzeros in a total: predictions, products Z'a, Gram matrix

Fields = dict[str, Vector]


def visited(block: Rows) -> Vector:
    """Return the nonzeros that the totals of a step visit at each node, shape (n_hosted,)."""
    return np.array([PASSES * float(X.nnz if sp.issparse(X) else X.size) for X in block.X])


def moments(block: Rows, k: int, state: InteriorState) -> Fields:
    """Return the fields of the first total of node k: sums and squares of each column and of the target, by weight.

    Every column has fields of its own, as columns may differ by any factor. The loss is that at a given w.
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


def step_fields(block: Rows, k: int, state: InteriorState, frame: Frame, cap: float) -> tuple[Fields, Multipliers]:
    """Return the fields of node k of a total that tries a step, and the multipliers of its rows there.

    Values of the objective beyond `cap` are cut to it, so that no step needs larger units.
    """
    X, y, s = _kept(block, k)
    kinks = Kinks.of(block.loss)
    pieces = kinks.pieces(block.loss, y if block.loss.classifies else y - frame.shift, s, frame.weight / frame.n_rows)
    slopes, fields = {}, {}
    if state.step is None:
        g = frame.columns.products(X, state.point[None]) - pieces.k
        new = pieces.centre(g, state.mu)
    else:
        step, old = state.step, state.rows[k]
        ways = np.stack([state.point, step.direction, step.restoring, step.affine])
        at, along, restoring, affine = frame.columns.products(X, ways)
        before, theta = at - pieces.k, pieces.slopes(old)
        move = step.length * old.curvature * (along + before - step.mu * pieces.share * old.pull)
        g = before + step.length * along
        new = pieces.move(old, move, g, step.mu)
        slopes["restored"] = np.clip(theta + old.curvature * restoring, pieces.lo, pieces.hi)
        slopes["affine"] = np.clip(theta + old.curvature * (affine + before), pieces.lo, pieces.hi)
        fields["loss affine"] = _number(min(pieces.values(before + affine).sum(), cap))
        fields |= _smoothed(pieces, before, along, step, cap)
    slopes["present"] = pieces.slopes(new)
    fields["loss"] = _number(min(pieces.values(g).sum(), cap))
    vectors = _products(pieces, new, g, slopes)
    for name, theta in slopes.items():
        parts = _parts(pieces, theta)
        vectors |= {f"{name} {part}": one.sum(axis=0) for part, one in parts.items()}
        sums = [(pieces.k * one).sum() for one in parts.values()]
        fields[f"k {name}"] = np.array([*sums, np.abs(pieces.k * theta).sum()])
        fields[f"size {name}"] = _number(np.abs(theta).sum())
    D = new.curvature.sum(axis=0)
    fields["spread"] = _number((D / s**2).sum())
    fields["gram"], products = frame.columns.sums(X, D, np.stack(list(vectors.values())))
    return fields | dict(zip(vectors, products, strict=True)), new


def _kept(block: Rows, k: int) -> tuple[SampleMatrix, Vector, Vector]:
    """Return (X, y, weights) of node k without the rows of weight 0."""
    X, y, s = block.X[k], block.y[k], block.weight[k]
    kept = s > 0
    return (X, y, s) if kept.all() else (X[kept], y[kept], s[kept])


def _smoothed(pieces: Pieces, before: Matrix, along: Vector, step: Step, cap: float) -> Fields:
    """Return the sums of smoothed pieces at no step, the step itself and the trials, by the name of the field."""
    lengths = {"F start": 0.0, "F step": step.length} | {f"F {t}": t for t in TRIALS}
    return {name: _number(min(pieces.smoothed(before + t * along, step.mu).sum(), cap)) for name, t in lengths.items()}


def _products(pieces: Pieces, at: Multipliers, g: Matrix, slopes: dict[str, Matrix]) -> dict[str, Vector]:
    """Return the right sides theta + D g and D (m/mu)(1/z - 1/v) of Newton's equations, each of shape (m,), by name."""
    return {
        "right": (slopes["present"] + at.curvature * g).sum(axis=0),
        "pull": (at.curvature * pieces.share * at.pull).sum(axis=0),
    }


def _parts(pieces: Pieces, theta: Matrix) -> dict[str, Matrix]:
    """Return the `PARTS` of theta, each of shape (J, m)."""
    room = np.minimum(pieces.hi - theta, theta - pieces.lo)
    return dict(zip(PARTS, (np.maximum(theta, 0.0), np.minimum(theta, 0.0), room), strict=True))


def _number(value: float) -> Vector:
    """Return a field of one number."""
    return np.array([float(value)])
