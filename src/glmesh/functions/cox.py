"""Cox's proportional hazards: the negative logarithm of the partial likelihood, as a loss of all rows of a node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidData, UnsuitablePair
from glmesh.functions.losses import Loss
from glmesh.functions.risk_sets import RiskSets, Ties
from glmesh.functions.separable import Columnwise
from glmesh.types import Vector
from glmesh.validation import one_of


@dataclass(frozen=True)
class Cox(Loss):
    """Cox's proportional hazards, stratified by node: the negative logarithm of the partial likelihood of its rows.

    A row with the log hazard ratio z = x.w has the hazard h_k(t) exp(z) at time t, where the baseline h_k of node k is
    any function. Targets are +time where the event happened at that time and -time where the row was censored then,
    time > 0, as XGBoost's "survival:cox" has them. Who is censored at the time of an event is at risk there; times are
    tied where they are equal to the last bit. An intercept has no effect, and there is none.

    Sample weights are case weights as R's `coxph` has them. With the weights c and r_j = c_j exp(z_j), a time whose
    deaths are D, d in number with the mean weight u, and whose risk set is R adds ::

        breslow:  d u log(sum_R r_j / u) - sum_D c_i z_i
        efron:    sum_{k < d} u log((sum_R r_j - k/d sum_D r_j) / u) - sum_D c_i z_i

    so that a row of weight 2 moves coefficients as two rows do, after Efron only where no deaths are tied. R's
    log-likelihood lacks the divisor u, which makes a constant, 0 where all weights are 1: with it the loss is >= 0, and
    twice as large for weights that are twice as large. Rows of weight 0 are as good as absent.

    Parameters
    ----------
    ties : {"efron", "breslow"}, default "efron"
        What is done where several rows have the event at the same time; "efron" is R's default, too.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import Cox
    >>> y = np.array([2.0, -3.0, 5.0])  # events at 2 and 5, censored at 3
    >>> round(Cox().total(y, np.zeros(3), np.ones(3)), 6)  # log(3) + log(1)
    1.098612
    """

    ties: Ties = "efron"
    name = "cox"
    by_likelihood = True
    compares_rows = True

    def __post_init__(self) -> None:
        one_of(self.ties, "ties", ("efron", "breslow"))

    def dual(self, y: Vector, c: Vector) -> Columnwise:
        """Raise UnsuitablePair: rows of a risk set belong together, so that the loss is no sum over rows."""
        raise UnsuitablePair(
            "the cox loss is fitted by sums over nodes (method MaximumLikelihood, split='samples'), not by this method"
        )

    def total(self, y: Vector, z: Vector, c: Vector) -> float:
        """Return the loss of rows that are one stratum, >= 0; it is infinite where a z is not finite.

        Targets y, log hazard ratios z and weights c >= 0 have shape (m,).
        """
        return RiskSets.of(y, c, self.ties).at(z).value if np.isfinite(z).all() else np.inf

    def check_range(self, low: float, high: float) -> None:
        """Raise InvalidData if the largest target of all nodes, `high`, is negative: nobody had the event then."""
        if high < 0:
            raise InvalidData(
                "y is negative in all rows of all nodes, so that the event happened nowhere; the cox loss needs one "
                "event at least, which is +time"
            )

    def check(self, y: Vector, where: str = "") -> None:
        """Raise InvalidData if a target is no time with a sign; the message names the value, its row and `where`.

        y has shape (m,).
        """
        wrong = ~np.isfinite(y) | (y == 0)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InvalidData(
                f"y{where} holds {y[at]:g} at row {at}; the cox loss needs +time where the event happened and -time "
                "where the row was censored, each time finite and > 0 (let times begin before the first event)"
            )
