"""How many rounds theory promises: Theorems 1 and 2 of the paper, corrected.

Corrections (the printed proofs do not carry the printed constants):
- Theorem 1 needs sigma' = gamma K and v_k = Ax at the start, bounds h + (1 + beta)/2 * (the consensus term), and its 36
  may be 12. It divides by beta; at beta = 0 the limit is taken.
- Theorem 2 needs (2 + eta)/eta for 2/eta in T_0, and averages over t = T_0 ... T - 1.

Both are worst cases, and far above what a run takes.

The appendix adds two models. Faults: a node does nothing in a round with probability at most p_max, and otherwise
reaches Theta_max in expectation; both theorems then hold in expectation, with `mean_accuracy` in the place of Theta.
Time-varying graphs, with as many gossip steps a round as a window has exchanges: beta is `mixing.window_beta`.
"""

import math
from dataclasses import dataclass

import numpy as np

from glmesh.engine.run import Run
from glmesh.errors import UnsuitablePair
from glmesh.functions import Table
from glmesh.types import Vector


@dataclass(frozen=True)
class RateConstants:
    """What the rates depend on.

    tau: f is 1/tau-smooth. mu: strong convexity of g. support: L, the bound of its support. sigma_max: the largest
    |A_k|^2. sigma: sum |A_k|^2 n_k. beta: second largest absolute eigenvalue of the mixing (of its B-th power, for B
    gossip steps; over a window, for time-varying graphs). relaxation: sigma'. gamma: aggregation.
    """

    tau: float
    mu: float
    support: float
    sigma_max: float
    sigma: float
    beta: float
    relaxation: float
    gamma: float
    n_nodes: int

    def progress(self, theta: float) -> float:
        """eta = gamma (1 - Theta)(1 - alpha), alpha = (1 + (1 - beta)^2 / (12 (1 + Theta) beta))^-1."""
        _check_accuracy(theta)
        if self.beta == 0:
            return self.gamma * (1 - theta)
        alpha = 1 / (1 + (1 - self.beta) ** 2 / (12 * (1 + theta) * self.beta))
        return self.gamma * (1 - theta) * (1 - alpha)


def mean_accuracy(theta: float = 0.0, *, p_max: float = 0.0, theta_max: float | None = None) -> float:
    """Theta-bar = p_max + (1 - p_max) Theta_max of nodes that may be away.

    theta: the accuracy of a node that works. p_max: the largest probability that a node does nothing in a round.
    theta_max: the appendix's name of `theta`; give one of them.
    """
    if theta_max is not None:
        if theta != 0:
            raise UnsuitablePair(
                f"theta = {theta} and theta_max = {theta_max} name the same accuracy; give one of them"
            )
        theta = theta_max
    _check_accuracy(theta)
    if not 0 <= p_max < 1:
        raise UnsuitablePair(
            f"p_max must be in [0, 1), got {p_max}; a node that is away for good makes the rate vacuous"
        )
    return p_max + (1 - p_max) * theta


def _check_accuracy(theta: float) -> None:
    if not 0 <= theta < 1:
        raise UnsuitablePair(f"Theta must be in [0, 1); {theta} promises nothing (a node that never works)")


def _steps(run: Run) -> int:
    steps = run.method.gossip_steps
    if isinstance(steps, str) or run.method.gossip == "chebyshev":
        raise UnsuitablePair("the theory is about plain gossip with a fixed number of steps")
    return int(steps)


def constants(run: Run, beta: float | None = None) -> RateConstants:
    """The constants of a run's problem, partition, network and method.

    beta: over a window, for time-varying graphs (`mixing.window_beta`, the window being the exchanges of a round);
    None is that of the run's own mixing and gossip steps.
    """
    if beta is not None and not 0 <= beta < 1:
        raise UnsuitablePair(f"beta must be in [0, 1), got {beta}; over a longer window it is smaller")
    blocks, method = run.blocks, run.method
    if run.nodes.replicates:
        raise UnsuitablePair(f"these theorems are about Cola, not about {method.name}")
    steps, sigma = _steps(run), method.sigma
    if isinstance(sigma, str):
        raise UnsuitablePair("the theory is about a fixed sigma; sigma='safe' is looked for while running")
    squares = np.concatenate([block.node_norms**2 for block in blocks])
    counts = np.concatenate([np.diff(block.starts.astype(np.int64)) for block in blocks])
    g = [term for block in blocks for k, term in enumerate(block.terms) if block.n_columns(k)]
    return RateConstants(
        tau=blocks[0].f.tau,
        mu=min(term.strong_convexity for term in g),
        support=_support(run),
        sigma_max=float(squares.max()),
        sigma=float(squares @ counts),
        beta=run.mixing.beta**steps if beta is None else beta,
        relaxation=method.gamma * run.n_nodes if sigma is None else sigma,
        gamma=method.gamma,
        n_nodes=run.n_nodes,
    )


def _support(run: Run) -> float:
    """max |x_i| where g is finite; split by features f(0)/l1 bounds the solution too, for f >= 0 and g >= 0 = g(0)."""
    form = run.problem.composite
    n = form.columns.n
    bounds = np.array(np.broadcast_to(form.g.support_bound, n))
    if np.isinf(bounds).any() and form.g.as_table() is not None and run.problem.spec.split == "features":
        l1, _, linear, lo, hi = form.g.kernel_rows(n).T
        if not linear.any() and (lo <= 0).all() and (hi >= 0).all():
            start = form.f.value(np.zeros(form.columns.d))
            bounds = np.minimum(bounds, np.divide(start, l1, out=np.full(n, np.inf), where=l1 > 0))
    return float(bounds.max())


def linear_rate(c: RateConstants, theta: float = 0.0, *, p_max: float = 0.0, theta_max: float | None = None) -> float:
    """rho of Theorem 1: the expected suboptimality of H shrinks at least by rho = 1/(1 + eta s_0) a round.

    theta, p_max and theta_max, here and below: see `mean_accuracy`.
    """
    if not c.mu > 0:
        raise UnsuitablePair("Theorem 1 needs a strongly convex g (an L2 part in every column); use rounds_convex")
    if c.gamma != 1.0 or c.relaxation != c.n_nodes:
        raise UnsuitablePair("Theorem 1 is about gamma = 1 and sigma' = K")
    s0 = c.tau * c.mu / (c.tau * c.mu + c.sigma_max * (1 + c.beta) * c.relaxation)
    return 1 / (1 + c.progress(mean_accuracy(theta, p_max=p_max, theta_max=theta_max)) * s0)


def rounds_strongly_convex(
    c: RateConstants,
    initial: float,
    target: float,
    *,
    theta: float = 0.0,
    p_max: float = 0.0,
    theta_max: float | None = None,
) -> int:
    """Theorem 1: rounds after which the suboptimality of H, `initial` at the start, is at most `target`."""
    step = 1 / linear_rate(c, theta, p_max=p_max, theta_max=theta_max) - 1  # eta s_0
    return max(0, math.ceil((1 + step) / step * math.log(initial / target))) if initial > target else 0


def rounds_strongly_convex_gap(
    c: RateConstants,
    initial: float,
    target: float,
    *,
    theta: float = 0.0,
    p_max: float = 0.0,
    theta_max: float | None = None,
) -> int:
    """Theorem 1: rounds after which the duality gap at the mixed estimates is at most `target`."""
    theta = mean_accuracy(theta, p_max=p_max, theta_max=theta_max)
    step = 1 / linear_rate(c, theta) - 1
    return rounds_strongly_convex(c, initial / step, target, theta=theta)


def rounds_convex(
    c: RateConstants,
    initial: float,
    target: float,
    *,
    theta: float = 0.0,
    p_max: float = 0.0,
    theta_max: float | None = None,
) -> tuple[int, int]:
    """Theorem 2: (T_0, T) such that iterates averaged over t = T_0 ... T - 1 have a duality gap of at most `target`."""
    if c.relaxation < c.gamma * c.n_nodes:
        raise UnsuitablePair("Theorem 2 is about a safe sigma' of at least gamma K")
    if not np.isfinite(c.support):
        raise UnsuitablePair("Theorem 2 needs a bounded support; give the columns a box or an L1 part")
    eta = c.progress(mean_accuracy(theta, p_max=p_max, theta_max=theta_max))
    size = c.support**2 * c.sigma * (1 + c.beta) * c.relaxation / c.tau
    t0 = max(0, math.ceil((1 + eta) / eta * math.log(2 * initial / (4 * size)))) if initial > 0 and size > 0 else 0
    T0 = t0 + math.ceil(max(0.0, (2 + eta) / eta * (8 * size / target - 1)))
    return T0, T0 + max(math.ceil(1 / eta), math.ceil(4 * size / (target * eta)))


class AveragedIterates:
    """Theorem 2's averages of x, v'_k = sum_l W_kl v_l and w_k = grad f(v'_k): `add` each t = T_0 ... T - 1."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.count = 0
        self.x = np.zeros(run.problem.n)
        self.v = np.zeros((run.n_nodes, run.blocks[0].d))
        self.w = np.zeros_like(self.v)

    def add(self) -> None:
        """Counts the run's present state in."""
        self.count += 1
        mixed = self.run.estimates
        for _ in range(_steps(self.run)):
            mixed = self.run.mixing.matrix @ mixed
        f = self.run.problem.composite.f
        for mean, new in ((self.x, self.run.x), (self.v, mixed), (self.w, [f.gradient(row) for row in mixed])):
            mean += (np.asarray(new) - mean) / self.count

    def gap(self) -> float:
        """G_H at the averages, with L1 columns restricted to the support that bounds the solution."""
        form, n_nodes = self.run.problem.composite, self.run.n_nodes
        pulls: Vector = -form.columns.transposed_dot(self.w.mean(axis=0))
        g = form.g
        if g.needs_scaling:
            if g.as_table() is None:
                raise UnsuitablePair("Theorem 2 needs a bounded support; a group norm has none")
            bound = _support(self.run)
            rows = g.kernel_rows(form.columns.n)
            lo, hi = np.maximum(rows[:, 3], -bound), np.minimum(rows[:, 4], bound)
            g = Table(rows[:, 0], rows[:, 1], rows[:, 2], lo, hi)
        pairs = sum(form.f.value(v) + form.f.conjugate(w) for v, w in zip(self.v, self.w, strict=True))
        return float(pairs / n_nodes + g.value(self.x) + g.conjugate(pulls))
