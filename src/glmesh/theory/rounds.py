"""Rates of Theorems 1 and 2, and the rounds until a target is reached."""

import math

import numpy as np

from glmesh.errors import UnsuitablePair
from glmesh.theory.constants import RateConstants, mean_accuracy


def linear_rate(c: RateConstants, theta: float = 0.0, *, p_max: float = 0.0, theta_max: float | None = None) -> float:
    """Return rho = 1/(1 + eta s_0) of Theorem 1: the expected suboptimality of H shrinks at least by rho a round.

    Parameters
    ----------
    c : RateConstants
        Constants of a run with mu > 0, gamma = 1 and sigma' = K.
    theta : float, default 0
        Theta, the accuracy of a node that works, in [0, 1).
    p_max : float, default 0
        The largest probability that a node does nothing in a round, in [0, 1).
    theta_max : float, optional
        The appendix's name of `theta`; give one of them.

    Returns
    -------
    float
        rho, in (0, 1).

    Raises
    ------
    UnsuitablePair
        The theorem is not about these constants.

    Examples
    --------
    >>> from glmesh.theory import RateConstants, linear_rate
    >>> c = RateConstants(tau=1.0, mu=1.0, support=1.0, sigma_max=1.0, sigma=4.0, beta=0.5, relaxation=4.0, gamma=1.0,
    ...                   n_nodes=4)
    >>> round(linear_rate(c), 5)
    0.99432
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
    """Return the rounds of Theorem 1 after which the suboptimality of H is at most `target`.

    Parameters
    ----------
    c : RateConstants
        Constants of a run with mu > 0, gamma = 1 and sigma' = K.
    initial : float
        The suboptimality of H at the start.
    target : float
        What it is to be at most.
    theta : float, default 0
        Theta, the accuracy of a node that works, in [0, 1).
    p_max : float, default 0
        The largest probability that a node does nothing in a round, in [0, 1).
    theta_max : float, optional
        The appendix's name of `theta`; give one of them.

    Returns
    -------
    int
        Rounds; 0 if `initial` is at most `target`.

    Raises
    ------
    UnsuitablePair
        The theorem is not about these constants.

    Examples
    --------
    >>> from glmesh.theory import RateConstants, rounds_strongly_convex
    >>> c = RateConstants(tau=1.0, mu=1.0, support=1.0, sigma_max=1.0, sigma=4.0, beta=0.5, relaxation=4.0, gamma=1.0,
    ...                   n_nodes=4)
    >>> rounds_strongly_convex(c, initial=1.0, target=1e-3)
    1216
    """
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
    """Return the rounds of Theorem 1 after which the duality gap at the mixed estimates is at most `target`.

    Parameters
    ----------
    c : RateConstants
        Constants of a run with mu > 0, gamma = 1 and sigma' = K.
    initial : float
        The suboptimality of H at the start.
    target : float
        What the gap is to be at most.
    theta : float, default 0
        Theta, the accuracy of a node that works, in [0, 1).
    p_max : float, default 0
        The largest probability that a node does nothing in a round, in [0, 1).
    theta_max : float, optional
        The appendix's name of `theta`; give one of them.

    Returns
    -------
    int
        Rounds.

    Raises
    ------
    UnsuitablePair
        The theorem is not about these constants.

    Examples
    --------
    >>> from glmesh.theory import RateConstants, rounds_strongly_convex_gap
    >>> c = RateConstants(tau=1.0, mu=1.0, support=1.0, sigma_max=1.0, sigma=4.0, beta=0.5, relaxation=4.0, gamma=1.0,
    ...                   n_nodes=4)
    >>> rounds_strongly_convex_gap(c, initial=1.0, target=1e-3)
    2125
    """
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
    """Return (T_0, T) of Theorem 2: iterates averaged over t = T_0 ... T - 1 have a gap of at most `target`.

    Parameters
    ----------
    c : RateConstants
        Constants of a run with a bounded support and sigma' >= gamma K.
    initial : float
        The suboptimality of H at the start.
    target : float
        What the duality gap of the averages is to be at most.
    theta : float, default 0
        Theta, the accuracy of a node that works, in [0, 1).
    p_max : float, default 0
        The largest probability that a node does nothing in a round, in [0, 1).
    theta_max : float, optional
        The appendix's name of `theta`; give one of them.

    Returns
    -------
    tuple of int
        (T_0, T).

    Raises
    ------
    UnsuitablePair
        The theorem is not about these constants.

    Examples
    --------
    >>> from glmesh.theory import RateConstants, rounds_convex
    >>> c = RateConstants(tau=1.0, mu=1.0, support=1.0, sigma_max=1.0, sigma=4.0, beta=0.5, relaxation=4.0, gamma=1.0,
    ...                   n_nodes=4)
    >>> rounds_convex(c, initial=1.0, target=1e-3)
    (9791949, 12191949)
    """
    if c.relaxation < c.gamma * c.n_nodes:
        raise UnsuitablePair("Theorem 2 is about a safe sigma' of at least gamma K")
    if not np.isfinite(c.support):
        raise UnsuitablePair("Theorem 2 needs a bounded support; give the columns a box or an L1 part")
    eta = c.progress(mean_accuracy(theta, p_max=p_max, theta_max=theta_max))
    size = c.support**2 * c.sigma * (1 + c.beta) * c.relaxation / c.tau
    t0 = max(0, math.ceil((1 + eta) / eta * math.log(2 * initial / (4 * size)))) if initial > 0 and size > 0 else 0
    T0 = t0 + math.ceil(max(0.0, (2 + eta) / eta * (8 * size / target - 1)))
    return T0, T0 + max(math.ceil(1 / eta), math.ceil(4 * size / (target * eta)))
