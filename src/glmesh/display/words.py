"""Proofs as sentences."""

import numpy as np

from glmesh.formatting import rounded_up

ROUNDING = 1e-12  # relative gap below which the bound is rounding of the objective rather than a distance


def bound_in_words(gap: float, objective: float) -> str:
    """Return the sentence that an absolute duality gap proves of an objective; "" if it proves nothing.

    The optimum lies in [objective - gap, objective], so the excess is at most gap / (objective - gap) of an optimum
    that is positive, and gap / abs(objective) of one that is negative.

    Examples
    --------
    >>> from glmesh.display import bound_in_words
    >>> bound_in_words(0.0039, 100.0)
    'The objective is at most 0.004 % above the best possible.'
    """
    if not (np.isfinite(gap) and np.isfinite(objective)) or gap < 0:
        return ""
    if gap <= ROUNDING * abs(objective):
        return "The objective is the best possible, up to rounding."
    least = objective - gap if objective > 0 else -objective
    if not least > 0 or gap > least:
        return f"The objective is at most {rounded_up(gap):g} above the best possible."
    percent = rounded_up(100.0 * gap / least)
    return f"The objective is at most {percent:g} % above the best possible."
