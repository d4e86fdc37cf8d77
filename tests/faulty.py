"""Problems and measures for runs in which nodes and links fail."""

from __future__ import annotations

import numpy as np

from glmesh import Problem, Run


def data(m: int = 40, p: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, p))
    return X, X[:, :4] @ rng.normal(size=4) + 0.1 * rng.normal(size=m)


def problem_of(penalty: str = "l1", split: str = "features", seed: int = 0) -> Problem:
    X, y = data(seed=seed)
    if split == "samples":
        return Problem.glm(X, np.sign(y), loss="logistic", penalty="l2", alpha=1.0, split="samples")
    return Problem.glm(X, y, penalty=penalty, alpha=5.0)


def violation(run: Run) -> float:
    """How far (1/K) sum v_k is from Ax (and what frozen leavers add), relative to the size of the v_k."""
    members = run.members
    v = run.estimates[members]
    shared = sum(run.nodes.by_id.share(int(k)) for k in np.flatnonzero(members))
    constant = run.nodes.by_id.constant() if run.membership and run.nodes.uses_flows else None
    if constant is not None:
        shared = shared + constant
    return float(np.abs(v.mean(axis=0) - shared).max() / max(np.abs(v).max(), 1e-300))


def advance(run: Run, rounds: int) -> Run:
    for _ in range(rounds):
        next(run)
    return run


def settle(run: Run, tol: float, most: int) -> Run:
    """Advance until the measured gap is within tol of the objective, but not further than so many rounds."""
    for _ in range(0, most, 20):
        advance(run, 20)
        if run.measure().gap <= tol * abs(run.measure().objective):
            break
    return run


def least_value(f, g, A: np.ndarray, constant: np.ndarray) -> float:
    """min f(Ax + c) + g(x) by accelerated proximal gradients from a feasible point, to machine precision."""
    x = g.prox(np.zeros(A.shape[1]), 1.0)
    z, t = x.copy(), 1.0
    step = f.tau / max(np.linalg.norm(A, 2) ** 2, 1e-300)
    low = f.value(A @ x + constant) + g.value(x)
    for i in range(6000):
        new = g.prox(z - step * (A.T @ f.gradient(A @ z + constant)), step)
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        if (z - new) @ (new - x) > 0:
            after = t = 1.0
        z, x, t = new + (t - 1) / after * (new - x), new, after
        if i % 50 == 49:
            value = f.value(A @ x + constant) + g.value(x)
            if low - value <= 1e-14 * max(abs(value), 1.0):
                break
            low = min(low, value)
    return min(low, f.value(A @ x + constant) + g.value(x))
