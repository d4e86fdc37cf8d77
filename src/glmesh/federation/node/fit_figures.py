"""Figures of a fit on totals that people and programs are shown."""

from __future__ import annotations

from typing import TypedDict

from glmesh.methods import Rows


class ReleaseFigures(TypedDict):
    """Figures that are shown and not enforced: what a site has contributed, and how far a single row stands out."""

    leverage: float | None  # largest leverage of one of the site's rows; None: not computed
    released: int  # numbers that the site has contributed to totals, of all fits; masks hide each of them
    released_share: float  # the same, divided by the entries of the site's table, the intercept's ones included


class FitFigures(ReleaseFigures):
    """Figures of a fit on totals, as JSON; `monitor.history.Figures` explains each key."""

    round: int
    members: list[str]
    without: list[str]
    certificate: float | None
    certificate_round: int | None
    standard_errors: float | None
    objective: float | None
    missed: int
    communications: int
    done: list[str]
    chosen: str
    revealed: str
    rows: str


def released_figures(block: Rows, released: int, leverage: float | None) -> ReleaseFigures:
    """Return the ReleaseFigures of a site with these rows: `released` numbers contributed, largest leverage of a row.

    `leverage` None: it was not computed.
    """
    share = released / (len(block.y[0]) * (int(block.X[0].shape[1]) + 1))
    return {"leverage": leverage, "released": released, "released_share": share}
