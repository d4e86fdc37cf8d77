"""Penalties by name, each a `Table` with some of its terms."""

import numpy as np
from numpy.typing import ArrayLike

from glmesh.functions.separable import Table


def L1(l1: ArrayLike = 1.0, *, lo: ArrayLike = -np.inf, hi: ArrayLike = np.inf) -> Table:
    """Return the penalty sum_i l1_i abs(x_i), on [lo, hi].

    Parameters
    ----------
    l1 : float or array of shape (n,), default 1.0
        Factors >= 0.
    lo : float or array of shape (n,), optional
        Lower bounds, by default -inf.
    hi : float or array of shape (n,), optional
        Upper bounds, by default inf.

    Returns
    -------
    Table
        The penalty, to be multiplied by alpha.
    """
    return Table(l1=np.asarray(l1), lo=np.asarray(lo), hi=np.asarray(hi))


def L2(l2: ArrayLike = 1.0, *, lo: ArrayLike = -np.inf, hi: ArrayLike = np.inf) -> Table:
    """Return the penalty sum_i l2_i/2 x_i^2, on [lo, hi].

    Parameters
    ----------
    l2 : float or array of shape (n,), default 1.0
        Factors >= 0.
    lo : float or array of shape (n,), optional
        Lower bounds, by default -inf.
    hi : float or array of shape (n,), optional
        Upper bounds, by default inf.

    Returns
    -------
    Table
        The penalty, to be multiplied by alpha.
    """
    return Table(l2=np.asarray(l2), lo=np.asarray(lo), hi=np.asarray(hi))


def ElasticNet(l1: ArrayLike = 0.5, l2: ArrayLike = 0.5, *, lo: ArrayLike = -np.inf, hi: ArrayLike = np.inf) -> Table:
    """Return the penalty sum_i l1_i abs(x_i) + l2_i/2 x_i^2, on [lo, hi].

    Parameters
    ----------
    l1 : float or array of shape (n,), default 0.5
        Factors >= 0 of the absolute values.
    l2 : float or array of shape (n,), default 0.5
        Factors >= 0 of half the squares.
    lo : float or array of shape (n,), optional
        Lower bounds, by default -inf.
    hi : float or array of shape (n,), optional
        Upper bounds, by default inf.

    Returns
    -------
    Table
        The penalty, to be multiplied by alpha.
    """
    return Table(l1=np.asarray(l1), l2=np.asarray(l2), lo=np.asarray(lo), hi=np.asarray(hi))


def Box(lo: ArrayLike, hi: ArrayLike) -> Table:
    """Return the penalty that is 0 on lo <= x <= hi, and infinite elsewhere.

    Parameters
    ----------
    lo : float or array of shape (n,)
        Lower bounds.
    hi : float or array of shape (n,)
        Upper bounds.

    Returns
    -------
    Table
        The penalty; alpha > 0 does not change it.
    """
    return Table(lo=np.asarray(lo), hi=np.asarray(hi))


def NonNegative() -> Table:
    """Return the penalty that is 0 on x >= 0, and infinite elsewhere.

    Returns
    -------
    Table
        The penalty; alpha > 0 does not change it.
    """
    return Table(lo=np.zeros(()))
