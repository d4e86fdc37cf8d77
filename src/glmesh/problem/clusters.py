"""Labels of clusters of rows, checked, as numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidData
from glmesh.problem.named import check_known
from glmesh.types import Array, Indices
from glmesh.validation import refuse_masks


def cluster_numbers(labels: ArrayLike, m: int, name: str) -> Indices:
    """Return a number from 0 for each of m labels, equal for equal labels, shape (m,).

    Raise InvalidData, which calls the labels `name`, for another shape, for missing ones, for what is neither text nor
    number, and for floats so large that they do not tell whole numbers apart.
    """
    refuse_masks(labels, name)
    given = _array(labels, name)
    if given.shape != (m,):
        raise InvalidData(f"{name} has shape {given.shape}, expected {(m,)}: a label for each row of X")
    if given.dtype.kind != "O":
        check_known(given, name)
        _refuse_rounded(given, name)
        return np.asarray(np.unique(given, return_inverse=True)[1])
    if any(isinstance(one, list | tuple | dict | set | np.ndarray) for one in given):
        raise InvalidData(f"{name} holds a list; a label is a text or a number, one for each row of X")
    check_known(given, name)
    _refuse_rounded(np.array([one for one in given if isinstance(one, float | np.floating)], dtype=np.float64), name)
    found = dict.fromkeys(given.tolist())
    try:
        order = sorted(found)
    except TypeError:  # texts and numbers
        order = list(found)
    places = {label: k for k, label in enumerate(order)}
    return np.array([places[one] for one in given.tolist()], dtype=np.int64)


def _array(labels: ArrayLike, name: str) -> Array:
    """Return labels as an array; those of a list stay as they are, so that 1 and "1" are two."""
    try:
        return np.array(labels, dtype=object) if isinstance(labels, list | tuple) else np.asarray(labels)
    except ValueError:
        raise InvalidData(f"{name} holds lists of several lengths; give one label for each row of X") from None


def _refuse_rounded(given: Array, name: str) -> None:
    """Raise InvalidData for floats of a size at which neighbouring whole numbers are the same float."""
    if given.dtype.kind == "f" and (np.spacing(np.abs(given)) > 1.0).any():
        raise InvalidData(
            f"{name} holds {given.dtype} so large that whole numbers beside each other are the same; give labels as "
            "integers or texts (a gap makes pandas turn integers into float64)"
        )
