"""The levels of all tables, and what becomes of levels that few rows have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from glmesh.errors import InvalidInput, Mismatch
from glmesh.formulas.design import CATEGORY, NUMBER, Design, Variable
from glmesh.formulas.formula import Formula
from glmesh.formulas.frames import SITE, Frame, plain

OTHERS = "(rare levels)"  # level that rare ones are merged into
RARE = ("refuse", "merge", "drop")  # what a level with few rows over all sites does


@dataclass(frozen=True)
class Levels:
    """What one table holds, as a formula sees it: which variables are categories, and how many rows each level has."""

    categories: frozenset[str]  # variables that hold text, or stand in C(...)
    texts: frozenset[str]  # those that hold text
    counts: Mapping[str, Counter[str | float]]  # category -> level -> rows

    @staticmethod
    def of(frame: Frame, formula: Formula) -> Levels:
        """Return what a table holds; raise Mismatch for a column that is not there, or that mixes numbers and text."""
        frame.require(formula.variables)
        texts = frozenset(name for name in formula.candidates if frame.is_text(name))
        for name in texts - set(formula.categories):
            _refuse_mixed(frame, name)
        found = texts | set(formula.categories)
        counts = {
            name: Counter(one for one in frame.values(name) if one is not None)
            for name in formula.variables
            if name in found
        }
        return Levels(found, texts, counts)


def _refuse_mixed(frame: Frame, name: str) -> None:
    """Raise Mismatch if a column that stands alone in a formula holds numbers and texts, so that it may be either."""
    kinds: dict[bool, int] = {}
    for row, value in enumerate(frame.values(name)):
        if value is not None:
            kinds.setdefault(_is_number(str(value)), row)
    if len(kinds) == 2:
        row = kinds[False]
        raise Mismatch(
            f"{frame.where}: column {name} holds numbers and text; write C({name}) in the formula if it is a category, "
            "else mend the text, or write NA for a missing value",
            private=f"{frame.place(row)} holds {frame.values(name)[row]!r:.60}",
        )


def _is_number(text: str) -> bool:
    """Return whether a text reads as a number, with a point or a comma."""
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def design_of(
    formula: Formula,
    tables: Sequence[Levels],
    *,
    orders: Mapping[str, Sequence[str | float]] | None = None,
    sites: Sequence[str | float] = (),
) -> Design:
    """Return the design of a formula for tables with these levels.

    Parameters
    ----------
    formula : Formula
        Response and terms.
    tables : sequence of Levels
        What each site's table holds.
    orders : dict of str to sequence, optional
        Levels of a variable in an order of their own; others are sorted. Levels without rows are left out.
    sites : sequence of str, optional
        Names of the sites, the levels of the variable `site` where no table has a column of that name.

    Returns
    -------
    Design
        Response, terms and variables with their levels; it depends on which levels there are in all, and not on where.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.formulas import Formula, Frame, Levels, design_of
    >>> formula = Formula.parse("y ~ age + C(ward)")
    >>> wards = ["b", "a"], ["c", "b"]
    >>> frames = [
    ...     Frame("clinic", 2, {"age": np.array([40.0, 50.0]), "ward": np.array(ward, dtype=object)}) for ward in wards
    ... ]
    >>> design_of(formula, [Levels.of(frame, formula) for frame in frames]).names
    ('C(ward)[T.b]', 'C(ward)[T.c]', 'age')
    """
    texts = {name for one in tables for name in one.texts}
    variables = []
    for name in formula.variables:
        found = {level for one in tables for level in one.counts.get(name, ())}
        if not found and name not in texts:
            variables.append(Variable(name))
        elif name == SITE and sites:
            variables.append(Variable(name, CATEGORY if isinstance(sites[0], str) else NUMBER, tuple(sites)))
        else:
            variables.append(_with_levels(name, found, (orders or {}).get(name, ()), text=name in texts))
    made = Design(formula.text, formula.response, formula.terms, tuple(variables))
    _require_columns(made)
    return made


def _with_levels(name: str, found: Collection[str | float], order: Sequence[str | float], *, text: bool) -> Variable:
    """Return a variable with the levels that were `found`, in the given `order`, else sorted, texts last.

    `text`: the levels are texts; numbers among them become texts.
    """
    known = {plain(level) if text else level for level in found}
    given = [plain(one) if text else one for one in order]
    levels = [one for one in given if one in known] or sorted(known, key=lambda one: (isinstance(one, str), one))
    return Variable(name, CATEGORY if text else NUMBER, tuple(levels))


def _require_columns(design: Design) -> None:
    """Raise InvalidInput if a category has one level only, so that its term has no column, or there are none at all."""
    for one in design.variables:
        if len(one.levels) == 1 and design.has_intercept:
            raise InvalidInput(
                f"the formula has the category {one.name!r}, of which there is one level only, "
                f"{plain(one.levels[0])!r}; leave it out"
            )
    if not design.names:
        raise InvalidInput(f"the formula {design.formula!r:.80} makes no column beside the intercept")
