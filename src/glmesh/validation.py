"""Checks of single values, each with one wording of its refusal: `name must be what is wanted, got value`.

Knows no class of glmesh but its errors. What two values mean together is checked where they meet.
"""

import difflib
import math
import operator
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from glmesh.errors import InvalidData, InvalidInput
from glmesh.types import Vector

T = TypeVar("T")
LARGEST = 1e150  # |value| of data up to which its square, and a sum of 10^8 of them, is a finite float64 (1.8e308)


def are_usable(values: Vector) -> bool:
    """Return True if all values of an array of any shape are finite and so are their squares, else False."""
    return values.size == 0 or bool(values.max() <= LARGEST and values.min() >= -LARGEST)  # False for NaN


def unusable(value: float, holds: str, place: str) -> str:
    """Return a sentence that refuses `value`, which is NaN, infinite or too large to be squared, with the remedy.

    `holds` are the words before the value ("X holds") and `place` those after it ("at row 3, column 2").
    """
    if math.isnan(value) or math.isinf(value):
        return f"{holds} {'NaN' if math.isnan(value) else 'infinity'} {place}; impute or drop it first"
    return f"{holds} {value:g} {place}, whose square is not finite; use another unit, or drop it first"


def is_missing(value: object) -> bool:
    """Return whether a value of a data frame stands for a missing one: None, NaN, or pandas' NA and NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def refuse_masks(values: object, name: str) -> None:
    """Raise InvalidData, whose message calls the values `name`, if `values` is a numpy masked array; else do nothing.

    Numpy would compute with the hidden numbers behind the mask.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidData(
            f"{name} is a masked array, and masks are not heeded; impute what is masked, or drop its rows"
        )


def whole_number(
    value: Any, name: str = "", least: int = 0, most: float = math.inf, *, wanted: str | None = None
) -> int:
    """Return the value as an int if it is a whole number with least <= value < most; True and False are refused.

    Parameters
    ----------
    value : object
        What was given: an int, or anything that can be an index.
    name : str, default ""
        First words of the message; "" if the caller puts them there.
    least : int, default 0
        The smallest value that is allowed.
    most : float, default inf
        The smallest value above that is not.
    wanted : str, optional
        What the message says was expected; default "a whole number >= least".

    Returns
    -------
    int
        The value.

    Raises
    ------
    InvalidInput
        The value is not whole, or out of range.

    Examples
    --------
    >>> from glmesh.validation import whole_number
    >>> whole_number(3, "n_nodes", 1)
    3
    >>> whole_number(2.5, "n_nodes", 1)
    Traceback (most recent call last):
        ...
    glmesh.errors.InvalidInput: n_nodes must be a whole number >= 1, got 2.5
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number < most:
        raise _refusal(name, wanted or f"a whole number >= {least}", value)
    return number


def number_in(value: object, name: str, wanted: str, allowed: Callable[[float], bool]) -> float:
    """Return the value as a float if it is a real number for which `allowed` is true; True and False are refused.

    Parameters
    ----------
    value : object
        What was given.
    name : str
        First words of the message; "" if the caller puts them there.
    wanted : str
        The allowed range in words, as "between 0 and 1".
    allowed : callable
        float to bool: whether the number is in range; false of NaN.

    Returns
    -------
    float
        The value.

    Raises
    ------
    InvalidInput
        The value is no number, or out of range.

    Examples
    --------
    >>> from glmesh.validation import number_in
    >>> number_in(1.5, "l1_ratio", "between 0 and 1", lambda ratio: 0 <= ratio <= 1)
    Traceback (most recent call last):
        ...
    glmesh.errors.InvalidInput: l1_ratio must be between 0 and 1, got 1.5
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not allowed(float(value)):
        raise _refusal(name, wanted, value)
    return float(value)


def one_of(value: T, name: str, known: Iterable[T]) -> T:
    """Return the value if it equals one of the known values and has the type of that value.

    Parameters
    ----------
    value : object
        What was given.
    name : str
        First words of the message; "" if the caller puts them there.
    known : iterable
        All that is allowed.

    Returns
    -------
    object
        The value.

    Raises
    ------
    InvalidInput
        The value is not known; the message names all that are, and the nearest to a misspelt word.

    Examples
    --------
    >>> from glmesh.validation import one_of
    >>> one_of("freez", "model", ["freeze", "reset"])
    Traceback (most recent call last):
        ...
    glmesh.errors.InvalidInput: model must be 'freeze' or 'reset', got 'freez'; did you mean 'freeze'?
    """
    names = list(known)
    if not any(type(value) is type(one) and value == one for one in names):
        *most, last = map(repr, names)
        near = difflib.get_close_matches(value, map(str, names), n=1) if isinstance(value, str) else []
        error = _refusal(name, f"{', '.join(most)} or {last}" if most else last, value)
        raise InvalidInput(f"{error}; did you mean {near[0]!r}?") if near else error
    return value


def unknown(kind: str, name: object, known: Iterable[str]) -> InvalidInput:
    """Return the error for a name that is not known; the message names the nearest that is, and all.

    Parameters
    ----------
    kind : str
        What the name is of, as "topology".
    name : object
        What was given.
    known : iterable of str
        The names that are known, at least one.

    Returns
    -------
    InvalidInput
        To be raised.

    Examples
    --------
    >>> from glmesh.validation import unknown
    >>> unknown("topology", "rign", ["ring", "torus"])
    InvalidInput("unknown topology 'rign'; did you mean 'ring'? Known: ring, torus")
    """
    names = list(known)
    closest = difflib.get_close_matches(str(name), names, n=1, cutoff=0.0)[0]
    return InvalidInput(f"unknown {kind} {name!r}; did you mean {closest!r}? Known: {', '.join(names)}")


def _refusal(name: str, wanted: str, value: object) -> InvalidInput:
    """Return the InvalidInput with the message "{name} must be {wanted}, got {value}"; an empty name is left out."""
    return InvalidInput(f"{name} must be {wanted}, got {value!r}".lstrip())
