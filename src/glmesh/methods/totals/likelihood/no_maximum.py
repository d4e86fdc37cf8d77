"""Sentences for a user: a likelihood has no maximum, because of which columns; columns that have no coefficient."""

from __future__ import annotations

from collections.abc import Sequence

from glmesh.methods.totals.likelihood.cone import CLASSES, COUNTS
from glmesh.methods.totals.likelihood.separation import Separation

NAMED = 6  # columns that are named at most, those with the largest parts first, because a direction may have all
REMEDY = (
    "a penalty (alpha > 0) gives finite ones; so does merging levels of a factor or dropping a column among them, if "
    "that removes the separation. Contrasts that the separating combination leaves at 0 can still be estimated"
)

UNDECIDED = (
    "Whether the likelihood has a maximum is undecided, because the rules of a site keep back sums over few rows; if "
    "columns separate the targets, there is none, and a penalty (alpha > 0) gives finite coefficients."
)


def no_maximum(separation: Separation, names: Sequence[str], targets: str, *, counted: bool = True) -> str:
    """Return the sentence for separated data, whose `verdict` is "separated".

    `names` are the p columns, in order, without the intercept; `targets` is "shares", "counts" or "classes", see
    `cone.kind`; `counted`: whether rows have been counted, which real sites do not do one by one.
    """
    whom = {COUNTS: "targets of 0 from the others", CLASSES: "the classes"}.get(targets, "the two classes")
    columns = _columns(separation, names)
    subject = f"the {'column' if len(columns) == 1 else 'columns'} {_listed(columns)}" if columns else "the intercept"
    verb = "separates" if len(columns) <= 1 else "separate"
    grow = "its coefficient" if len(columns) <= 1 else "their coefficients"
    if separation.complete:
        how = f"completely: all {separation.rows:,} rows are told apart"
    else:
        some = f"{separation.strict:,}" if counted else "some"
        how = f"in part: {some} of {separation.rows:,} rows are told apart, and no row contradicts"
    return f"the likelihood has no maximum: {subject} {verb} {whom} {how}, so {grow} would grow for ever; {REMEDY}"


def aliased_columns(names: list[str]) -> str:
    """Return the sentence that names the columns that a fit without a penalty has left out."""
    if len(names) == 1:
        said = f"The column {names[0]} is a combination of others and has no coefficient (NA): what they leave of it is"
    else:
        said = f"The columns {', '.join(names)} are combinations of others and have no coefficients (NA): what they "
        said += "leave of each is"
    return f"{said} less than 2e-7 of its length."


def _columns(separation: Separation, names: Sequence[str]) -> list[str]:
    """Return the names of the columns that take part in the direction, those with the largest part first."""
    direction, block = separation.direction, len(names) + 1
    assert direction is not None
    parts: dict[str, float] = {}
    for coordinate in separation.columns:
        if coordinate % block < len(names):
            name = names[coordinate % block]
            parts[name] = max(parts.get(name, 0.0), abs(float(direction[coordinate])))
    return sorted(parts, key=lambda name: -parts[name])


def _listed(names: list[str]) -> str:
    """Return names as text: "a", "a and b", "a, b and c", or the first NAMED and how many others."""
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} others"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
