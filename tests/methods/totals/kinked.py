"""Random problems with kinks, rounds of the interior-point method without an engine, and a conic solver to compare."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from glmesh.core import NetworkInfo
from glmesh.core.totals import add_up
from glmesh.functions import EpsilonInsensitiveLoss, HingeLoss, Loss, QuantileLoss, Table
from glmesh.methods.totals.interior import InteriorPoint
from glmesh.methods.totals.interior_state import InteriorState
from glmesh.methods.totals.rows import Rows
from glmesh.network import mixing, topology


@dataclass(frozen=True, eq=False)
class Kinked:
    """sum_i s_i loss(y_i, x_i.w + b) + penalty(w)."""

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray
    loss: Loss
    penalty: Table
    fit_intercept: bool = True

    def value(self, w: np.ndarray, b: float) -> float:
        """The objective, in extended precision: raw columns of 1e9 and errors of 1e-9 leave few digits."""
        z = self.X.astype(np.longdouble) @ w.astype(np.longdouble) + np.longdouble(b)
        error, s = z - self.y, self.s.astype(np.longdouble)
        if isinstance(self.loss, HingeLoss):
            losses = np.maximum(0, 1 - self.y * z)
        elif isinstance(self.loss, EpsilonInsensitiveLoss):
            losses = np.maximum(0, np.abs(error) - self.loss.epsilon)
        else:
            assert isinstance(self.loss, QuantileLoss)
            losses = np.maximum((1 - self.loss.quantile) * error, -self.loss.quantile * error)
        w = w.astype(np.longdouble)
        penalty = (
            np.broadcast_to(self.penalty.l1, len(w)) @ np.abs(w) + np.broadcast_to(self.penalty.l2, len(w)) @ w**2 / 2
        )
        return float(s @ losses + penalty)

    def blocks(self, n_nodes: int = 5, n_blocks: int = 1, *, sparse: bool = False) -> list[Rows]:
        """Deal the rows to nodes, and the nodes to blocks; the last node has no row if there are few."""
        parts = np.array_split(np.random.default_rng(0).permutation(len(self.y)), n_nodes)
        info = network(n_nodes)
        return [
            Rows(
                ids.astype(np.uint64),
                info,
                [sp.csr_array(self.X[parts[k]]) if sparse else np.ascontiguousarray(self.X[parts[k]]) for k in ids],
                [self.y[parts[k]] for k in ids],
                [self.s[parts[k]] for k in ids],
                self.loss,
                self.penalty,
                self.fit_intercept,
            )
            for ids in np.array_split(np.arange(n_nodes), n_blocks)
        ]


def network(n_nodes: int) -> NetworkInfo:
    return NetworkInfo.of(mixing.metropolis(topology.complete(n_nodes)), 1, 0)


def make_round(method: InteriorPoint, blocks: list[Rows], states: list[InteriorState]) -> None:
    rounds = [method.round(block, state) for block, state in zip(blocks, states, strict=True)]
    sums = add_up(
        [next(one) for one in rounds],
        blocks[0].info.n_nodes,
        lambda parts: np.vstack(parts).sum(axis=0, dtype=np.uint64),
        lambda parts: np.vstack(parts).max(axis=0),
    )
    for one in rounds:
        try:
            one.send(sums)
        except StopIteration:
            continue
        raise AssertionError("a round made more than one total")


def fit(blocks: list[Rows], tol: float, max_rounds: int = 120) -> tuple[InteriorState, list[tuple[float, float]]]:
    """Return the last state and (objective, gap) after every round, until gap <= tol * objective."""
    method = InteriorPoint(tol=tol)
    states = [method.start(block) for block in blocks]
    records = []
    for _ in range(max_rounds):
        make_round(method, blocks, states)
        records.append((states[0].objective, states[0].gap))
        if states[0].gap <= tol * states[0].objective:
            break
    return states[0], records


def optimum(problem: Kinked) -> float:
    """Return the objective that Clarabel reaches, on standardised columns."""
    centre = problem.X.mean(axis=0) if problem.fit_intercept else np.zeros(problem.X.shape[1])
    Z = problem.X - centre
    scale = np.sqrt((Z * Z).mean(axis=0))
    scale = np.where(scale > 1e-13 * np.abs(problem.X).max(axis=0, initial=0.0), scale, np.inf)
    Z = Z / scale
    table = problem.loss.dual(problem.y, problem.s)
    assert isinstance(table, Table)
    w, b = cp.Variable(Z.shape[1]), cp.Variable() if problem.fit_intercept else 0.0
    away = Z @ w + b + table.linear
    loss = cp.sum(cp.multiply(-table.lo, cp.pos(away - table.l1)) + cp.multiply(table.hi, cp.pos(-away - table.l1)))
    l1, l2 = np.broadcast_to(problem.penalty.l1, len(scale)), np.broadcast_to(problem.penalty.l2, len(scale))
    penalty = cp.norm1(cp.multiply(l1 / scale, w)) + 0.5 * cp.sum_squares(cp.multiply(np.sqrt(l2) / scale, w))
    size = float(problem.value(np.zeros(len(scale)), float(np.median(problem.y)))) or 1.0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a solution that may be inaccurate: its objective is computed anew
            cp.Problem(cp.Minimize((loss + penalty) / size)).solve(
                solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-11, max_iter=200
            )
    except cp.SolverError:
        return np.inf
    if w.value is None:
        return np.inf
    coefficients = w.value / scale
    intercept = float(b.value - centre @ coefficients) if problem.fit_intercept else 0.0
    return problem.value(coefficients, intercept)


def draw(seed: int) -> Kinked:
    """Return a random problem: n 50-400, p 1-30, scales 1e-6 to 1e9, constant and duplicate columns, weights."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(50, 401)), int(rng.integers(1, 31))
    if rng.random() < 0.1:
        n, p = int(rng.integers(10, 25)), int(rng.integers(25, 60))
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < rng.choice([1.0, 0.3]))
    X += rng.normal(size=p) * rng.choice([0.0, 1.0, 100.0])
    signal = X @ (rng.normal(size=p) * (rng.random(p) < 0.5)) / np.sqrt(p)
    signal -= signal.mean()
    if rng.random() < 0.4:
        X = X * 10.0 ** rng.uniform(-6, 9, size=p)
    if rng.random() < 0.3 and p > 3:
        X[:, 1] = X[:, 0]
        X[:, 2] = 3.0
    if rng.random() < 0.2 and p > 5:
        X[:, 4] = X[:, 3] * (1.0 + 1e-7 * rng.normal(size=n))
    s = rng.exponential(size=n) * (rng.random(n) < 0.9) if rng.random() < 0.4 else np.ones(n)
    kind = rng.integers(3)
    noise = rng.choice([0.1, 1.0, 10.0]) * (signal.std() + 0.1) * rng.standard_t(3, size=n)
    loss: Loss
    if kind == 0:
        y = np.where(signal + noise > np.quantile(signal + noise, rng.choice([0.5, 0.9])), 1.0, -1.0)
        loss = HingeLoss()
    else:
        y = (signal + noise) * 10.0 ** rng.uniform(-4, 4) + rng.choice([0.0, 1e3])
        loss = EpsilonInsensitiveLoss(float(rng.choice([0.0, 0.1, 1.0, 10.0]) * np.std(y)))
        if kind == 2:
            loss = QuantileLoss(float(rng.uniform(0.01, 0.99)))
    penalty = Table(l2=10.0 ** rng.uniform(-6, 4))
    which = rng.random()
    if which < 0.3:
        penalty = replace(penalty, l1=np.asarray(10.0 ** rng.uniform(-2, 1.5)))
        if which < 0.2:
            penalty = replace(penalty, l2=np.zeros(()))
    elif which < 0.4 and kind > 0 and n > 2 * p:
        penalty = Table()
    return Kinked(X, y, s, loss, penalty, bool(rng.random() < 0.8))
