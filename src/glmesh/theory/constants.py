"""Constants of a run that the theorems depend on."""

from dataclasses import dataclass

import numpy as np

from glmesh.engine.run import Run
from glmesh.errors import UnsuitablePair


@dataclass(frozen=True)
class RateConstants:
    """Constants that the rates of both theorems depend on; `constants` computes them for a run.

    Parameters
    ----------
    tau : float
        f is 1/tau-smooth.
    mu : float
        Strong convexity of g, the smallest over all columns; 0 if there is none.
    support : float
        L, the bound of the support of g; infinite if there is none.
    sigma_max : float
        The largest ``|A_k|^2`` (spectral norm) over all nodes k.
    sigma : float
        sum_k ``|A_k|^2`` n_k, where node k has n_k columns.
    beta : float
        Second largest absolute eigenvalue of the mixing matrix: of its B-th power for B gossip steps, over a window for
        time-varying graphs.
    relaxation : float
        sigma', the relaxation of the subproblems.
    gamma : float
        Aggregation, in (0, 1].
    n_nodes : int
        K.

    Examples
    --------
    >>> from glmesh.theory import RateConstants
    >>> c = RateConstants(tau=1.0, mu=1.0, support=1.0, sigma_max=1.0, sigma=4.0, beta=0.0, relaxation=4.0, gamma=1.0,
    ...                   n_nodes=4)
    >>> c.progress(0.5)
    0.5
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
        """Return eta = gamma (1 - Theta)(1 - alpha), alpha = (1 + (1 - beta)^2 / (12 (1 + Theta) beta))^-1.

        Parameters
        ----------
        theta : float
            Theta, the local accuracy, in [0, 1).

        Returns
        -------
        float
            eta, in (0, 1].

        Raises
        ------
        UnsuitablePair
            Theta is out of range.
        """
        _check_accuracy(theta)
        if self.beta == 0:
            return self.gamma * (1 - theta)
        alpha = 1 / (1 + (1 - self.beta) ** 2 / (12 * (1 + theta) * self.beta))
        return self.gamma * (1 - theta) * (1 - alpha)


def mean_accuracy(theta: float = 0.0, *, p_max: float = 0.0, theta_max: float | None = None) -> float:
    """Return Theta-bar = p_max + (1 - p_max) Theta, the mean local accuracy of nodes that may be away.

    Parameters
    ----------
    theta : float, default 0
        Theta, the accuracy of a node that works, in [0, 1).
    p_max : float, default 0
        The largest probability that a node does nothing in a round, in [0, 1).
    theta_max : float, optional
        The appendix's name of `theta`; give one of them.

    Returns
    -------
    float
        Theta-bar, in [0, 1).

    Raises
    ------
    UnsuitablePair
        A number is out of range, or `theta` and `theta_max` are both given.

    Examples
    --------
    >>> from glmesh import theory
    >>> theory.mean_accuracy(0.5, p_max=0.25)
    0.625
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
    """Raise UnsuitablePair unless the local accuracy Theta is in [0, 1)."""
    if not 0 <= theta < 1:
        raise UnsuitablePair(f"Theta must be in [0, 1); {theta} promises nothing (a node that never works)")


def gossip_steps(run: Run) -> int:
    """Return the number of gossip steps that the run makes per round, the same in all rounds.

    Raise UnsuitablePair for Chebyshev gossip, or if the number varies.
    """
    steps = run.method.gossip_steps
    if isinstance(steps, str) or run.method.gossip == "chebyshev":
        raise UnsuitablePair("the theory is about plain gossip with a fixed number of steps")
    return int(steps)


def constants(run: Run, beta: float | None = None) -> RateConstants:
    """Return the constants of a run's problem, partition, network and method.

    Parameters
    ----------
    run : Run
        A run of Cola with plain gossip, a fixed number of gossip steps and a fixed sigma.
    beta : float, optional
        beta over a window, for time-varying graphs (`mixing.window_beta`, the window being the exchanges of a round);
        None is that of the run's own mixing and gossip steps.

    Returns
    -------
    RateConstants
        The constants.

    Raises
    ------
    UnsuitablePair
        The theorems are not about this method, or beta is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, Run, theory
    >>> X = np.eye(8)
    >>> c = theory.constants(Run(Problem.glm(X, X[0], alpha=2.0), topology="complete", n_nodes=4))
    >>> c.mu, c.relaxation, c.beta
    (2.0, 4.0, 0.0)
    """
    if beta is not None and not 0 <= beta < 1:
        raise UnsuitablePair(f"beta must be in [0, 1), got {beta}; over a longer window it is smaller")
    blocks, method = run.blocks, run.method
    if run.nodes.replicates:
        raise UnsuitablePair(f"these theorems are about Cola, not about {run.nodes.name}")
    steps, sigma = gossip_steps(run), method.sigma
    if isinstance(sigma, str):
        raise UnsuitablePair("the theory is about a fixed sigma; sigma='safe' is looked for while running")
    squares = np.concatenate([block.node_norms**2 for block in blocks])
    counts = np.concatenate([np.diff(block.starts.astype(np.int64)) for block in blocks])
    g = [term for block in blocks for k, term in enumerate(block.terms) if block.n_columns(k)]
    return RateConstants(
        tau=blocks[0].f.tau,
        mu=min(term.strong_convexity for term in g),
        support=support_bound(run),
        sigma_max=float(squares.max()),
        sigma=float(squares @ counts),
        beta=run.mixing.beta**steps if beta is None else beta,
        relaxation=method.gamma * run.n_nodes if sigma is None else sigma,
        gamma=method.gamma,
        n_nodes=run.n_nodes,
    )


def support_bound(run: Run) -> float:
    """Return L, a bound of abs(x_i) over all variables x_i that may be a solution; infinite if there is none.

    Where the separable term g is finite on an interval only, L is the interval's bound. For L1 penalties, split by
    features, it is f(0)/l1, since f >= 0 and g >= 0 = g(0).
    """
    form = run.problem.composite
    n = form.columns.n
    bounds = np.array(np.broadcast_to(form.g.support_bound, n))
    if np.isinf(bounds).any() and form.g.as_table() is not None and run.problem.spec.split == "features":
        l1, _, linear, lo, hi = form.g.kernel_rows(n).T
        if not linear.any() and (lo <= 0).all() and (hi >= 0).all():
            start = form.f.value(np.zeros(form.columns.d))
            bounds = np.minimum(bounds, np.divide(start, l1, out=np.full(n, np.inf), where=l1 > 0))
    return float(bounds.max())
