"""Successes and failures, two columns, as shares of successes with numbers of trials."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidData
from glmesh.functions.family import Family
from glmesh.types import Vector


def shares(
    family: Family | None, y: ArrayLike, sample_weight: ArrayLike | None, where: str = ""
) -> tuple[ArrayLike, ArrayLike | None]:
    """Return (targets, weights) of a family: of two columns (successes, failures) of the binomial family one of shares.

    Weights are then numbers of trials, times the weights given; a row without trials has share 0 and weight 0. Anything
    else is returned as given. Raise InvalidData, which begins with `where`, for counts below 0.
    """
    if family is None or family.name != "binomial":
        return y, sample_weight
    counts = np.asarray(y)
    if counts.ndim != 2 or counts.shape[1] != 2:
        return y, sample_weight
    try:
        counts = counts.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"{where}y has two columns, successes and failures, and some are no numbers") from None
    if not (np.isfinite(counts).all() and (counts >= 0).all()):
        at = int(np.argmin((np.isfinite(counts) & (counts >= 0)).all(axis=1)))
        raise InvalidData(
            f"{where}y has two columns, successes and failures, and row {at} is {counts[at].tolist()}; both must be "
            "finite and >= 0"
        )
    trials: Vector = counts.sum(axis=1)
    share = np.divide(counts[:, 0], trials, out=np.zeros(len(trials)), where=trials > 0)
    return share, trials if sample_weight is None else trials * np.asarray(sample_weight, dtype=np.float64)
