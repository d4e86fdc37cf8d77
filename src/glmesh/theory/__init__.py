"""Rounds that theory promises: Theorems 1 and 2 of the CoLA paper, corrected.

Corrections (the printed proofs do not carry the printed constants):
- Theorem 1 needs sigma' = gamma K and v_k = Ax at the start, bounds h + (1 + beta)/2 * (the consensus term), and its 36
  may be 12. It divides by beta; at beta = 0 the limit is taken.
- Theorem 2 needs (2 + eta)/eta for 2/eta in T_0, and averages over t = T_0 ... T - 1.

Both are worst cases, and far above what a run takes.

The appendix adds two models. Faults: a node does nothing in a round with probability at most p_max, and otherwise
reaches Theta_max in expectation; both theorems then hold in expectation, with `mean_accuracy` in the place of Theta.
Time-varying graphs, with as many gossip steps a round as a window has exchanges: beta is `mixing.window_beta`.

Speaks of runs of Cola alone, and changes none.
"""

import warnings

from glmesh.theory.averages import AveragedIterates
from glmesh.theory.constants import RateConstants, constants, mean_accuracy
from glmesh.theory.rounds import linear_rate, rounds_convex, rounds_strongly_convex, rounds_strongly_convex_gap

__all__ = [
    "AveragedIterates",
    "RateConstants",
    "constants",
    "linear_rate",
    "mean_accuracy",
    "rounds_convex",
    "rounds_strongly_convex",
    "rounds_strongly_convex_gap",
]


def __getattr__(name: str) -> object:
    """Return the class RateConstants for its former name "Constants", with a DeprecationWarning.

    Raise AttributeError for any other name.
    """
    if name == "Constants":
        warnings.warn("theory.Constants is now theory.RateConstants", DeprecationWarning, 2)
        return RateConstants
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
