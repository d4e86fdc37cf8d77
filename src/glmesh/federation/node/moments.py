"""How sites agree on the moments that `center(x)` and `standardize(x)` need: masked totals, after the site's rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glmesh.contract.fitting import listed
from glmesh.core.moments import Measured, moment_totals
from glmesh.core.totals import Sums
from glmesh.errors import Mismatch
from glmesh.federation.node.levels import DesignAgreement
from glmesh.federation.node.questions import Elsewhere, Questions, Steps
from glmesh.federation.node.rules import LEAST_LEVEL, RuleBook, rare_columns
from glmesh.federation.totals import Refusal, Unequal

OTHER_MEAN = "this site's mean of all rows differs from that of the first site; do both run the same version of glmesh?"


def with_moments(agreed: DesignAgreement, questions: Questions, rules: RuleBook) -> Steps:
    """Return the DesignAgreement whose design has the moments of all sites' rows; it yields requests for two totals.

    Refusal is raised at this site if few of its rows would show in the sums, or an expression is not finite there; at
    all sites if an expression is one of 0 and 1, and one of them is rare. InvalidInput is raised at all sites if
    an expression is constant over all rows.
    """
    if not agreed.design.standardised:
        return agreed
    try:
        _check_rows(agreed, rules)
        steps = moment_totals(agreed.design, [agreed.frame])
        sums: Sums | None = None
        while True:
            total = next(steps) if sums is None else steps.send(sums)
            sums = yield from questions.sum(total)
    except StopIteration as end:
        measured: Measured = end.value
    except Mismatch as error:
        raise Refusal(str(error), public=f"refused by {rules.name}") from None
    except Elsewhere:
        raise Unequal(OTHER_MEAN) from None
    _refuse_rare(measured)
    return replace(agreed, design=measured.design)


def _check_rows(agreed: DesignAgreement, rules: RuleBook) -> None:
    """Raise Refusal if one row, or few, would make up most of this site's sums of squares, as in a Hessian of the fit.

    A row's size is that of its standardised values, by the site's own moments, with a 1 behind them.
    """
    sizes = np.ones(agreed.frame.m)
    for factor in agreed.design.standardised.values():
        x = factor.numbers(agreed.frame)
        with np.errstate(over="ignore"):
            squares = (x - x.mean()) ** 2
        if squares.any() and np.isfinite(squares).all():
            sizes += squares / squares.mean()
    rules.check_sums(1 + len(agreed.design.standardised), sizes)


def _refuse_rare(measured: Measured) -> None:
    """Raise Refusal if a standardised expression is 0 or 1 in all rows, and one of both in few, as of any column."""
    named = list(measured.design.standardised)
    rare = [named[k] for k in rare_columns(np.concatenate([measured.ones, measured.others]), measured.n)]
    if rare:
        why = f"under {LEAST_LEVEL} rows of all sites have one of the two values of {listed(rare)}"
        raise Refusal(f"{why}; leave it out of the formula", public=why)
