"""What a federation file says of a formula: whether its keys go together, and which columns the formula needs."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from glmesh.contract import Contract
from glmesh.contract.fitting import listed
from glmesh.errors import InvalidInput
from glmesh.federation.config.families import COX, named_columns
from glmesh.federation.config.problem import ProblemPart
from glmesh.formulas import RARE, Formula
from glmesh.formulas.frames import SITE

REVEALED_SITES = (
    "reveal_sites = true: a column of the formula may tell one site's rows from all others, so the sums over that "
    "site's rows, its means and its Hessian, reach all members, masks or not (docs/peers.md)."
)


@lru_cache(maxsize=64)
def formula_of(text: str) -> Formula:
    """Return the formula of a federation file; InvalidInput says what is wrong with it."""
    return Formula.parse(text)


def check_formula(part: ProblemPart, data: Contract | None) -> None:
    """Raise InvalidInput if formula, rare_levels, missing or reveal_sites in [problem] do not go with the others."""
    if part.rare_levels not in RARE or part.missing not in ("", "drop", "refuse"):
        raise InvalidInput(
            f"rare_levels must be one of {', '.join(map(repr, RARE))} and missing 'drop' or 'refuse', got "
            f"{part.rare_levels!r} and {part.missing!r}"
        )
    by_rows = part.by_totals and part.split == "samples"
    if part.missing == "drop" and not by_rows:
        raise InvalidInput(
            "missing = 'drop' is for sites that hold rows and make totals; else take rows with gaps out of the files"
        )
    if not part.formula:
        if part.rare_levels != "refuse" or part.reveal_sites:
            raise InvalidInput(
                "rare_levels and reveal_sites go with a formula; write formula = 'y ~ ...' into [problem]"
            )
        return
    if not by_rows:
        raise InvalidInput(
            "a formula needs method 'totals', so sites that hold rows; with gossip make the columns in the files"
        )
    formula = formula_of(part.formula)
    _check_response(part, formula)
    if both := set(named_columns(part).values()) & {*formula.variables, formula.targets[0]}:
        raise InvalidInput(f"{min(both)!r} is a column of the formula, and cannot be an offset, exposure or event, too")
    if part.cluster in formula.targets:
        raise InvalidInput(f"{part.cluster!r} is the response of the formula, and cannot be the cluster, too")
    _check_terms(part, formula)
    if data is not None:
        _check_columns(formula, data)


def _check_terms(part: ProblemPart, formula: Formula) -> None:
    """Raise InvalidInput if the formula's intercept, or a term of the sites, is not what other keys say."""
    if part.family != COX and formula.has_intercept != part.fit_intercept:
        says = (
            "has an intercept: write fit_intercept = true"
            if formula.has_intercept
            else "has none: write fit_intercept = false"
        )
        raise InvalidInput(f"the formula {says}, or change the formula ('- 1' takes the intercept out)")
    if SITE in formula.variables and not part.reveal_sites:
        raise InvalidInput(
            f"the formula has {SITE!r}, which tells one site's rows from all others: sums over that site's rows, its "
            "means and its Hessian, would reach all members, masks or not; leave it out, or write reveal_sites = true "
            "into [problem] if all sites agree to that"
        )


def _check_columns(formula: Formula, data: Contract) -> None:
    """Raise InvalidInput if [data] has another target than the formula, or lacks one of its columns."""
    if data.target and data.target != formula.targets[0]:
        raise InvalidInput(f"[data] has the target {data.target!r}, and the formula {formula.targets[0]!r}")
    lacking = [name for name in formula.variables if name not in data.names and name != SITE]
    if lacking:
        raise InvalidInput(f"[data] lacks the column{'s' if len(lacking) > 1 else ''} {listed(lacking)} of the formula")


def _check_response(part: ProblemPart, formula: Formula) -> None:
    """Raise InvalidInput if the left side of the formula is not what the loss or family needs."""
    if part.family == COX:
        if formula.survival != (part.time, part.event):
            raise InvalidInput(
                f"family = 'cox' needs Surv({part.time}, {part.event}) on the left side of the formula, as time and "
                f"event say, got {formula.response!r}"
            )
    elif len(formula.targets) > 1 or formula.survival:
        raise InvalidInput(f"the response {formula.response!r} of the formula must be one column, or a function of one")


def used(part: ProblemPart, data: Contract | None) -> Contract | None:
    """Return the contract `data` with only the columns that [problem] names; itself without a formula, or if None."""
    if data is None or not part.formula:
        return data
    formula = formula_of(part.formula)
    names = {*formula.variables, *named_columns(part).values()}
    columns = tuple(one for one in data.columns if one.name in names)
    return replace(data, target=formula.targets[0], columns=columns)
