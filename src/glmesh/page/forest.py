"""Coefficients as a picture on a page: a forest plot with intervals and ratios, or bars where there are none."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.inference.summary import RATIO_LINKS, Summary
from glmesh.page.axes import ticks
from glmesh.types import Matrix

ROW = 26  # [px] height of a term
PARTS = 5  # of the axis at most
NARROWEST = 1.5  # [% of the width] of an interval below which coefficients are drawn in their standard errors
MOST = 60  # terms that are drawn; of more the largest
FEW = 20  # terms that are seen at once where there are no intervals; the others fold out
# what exp(coefficient) is, by model or family and its link; of other links in RATIO_LINKS "ratio of means"
RATIOS = {"cox": "hazard ratio", "multinomial": "relative risk ratio", "binomial logit": "odds ratio"}
RATIOS |= {"poisson log": "rate ratio", "negative_binomial log": "rate ratio", "binomial log": "risk ratio"}
RATIOS |= {"binomial cloglog": "hazard ratio"}


@dataclass(frozen=True)
class _Term:
    """A term of the plot: its name, coefficient, interval and the words at its right."""

    name: str
    coef: float
    low: float  # equals `high` where there is no interval
    high: float
    figure: str  # numbers, as HTML

    @property
    def clear(self) -> bool:
        """Return whether 0 is not in the interval."""
        return self.low * self.high > 0


def of_summary(summary: Summary, words: str) -> str:
    """Return HTML on coefficients with intervals: `words` on what is proven, the forest plot, and the table."""
    inference = f"<div class='scroll inference'>{summary._repr_html_()}</div>"
    table = f"<details open><summary>Table</summary>{inference}</details>"
    return f"<p>{html.escape(words)}</p>{forest(summary)}{table}"


def bars(terms: Sequence[tuple[str, float]], why: str = "") -> str:
    """Return (name, coefficient) pairs as bars, the largest first; `why` says why they have no intervals."""
    own = [_Term(name, value, value, value, f"{value:.4g}") for name, value in terms if value]
    own.sort(key=lambda term: -abs(term.coef))
    drawn = _drawn(own[:FEW], "coefficient")
    if own[FEW:]:
        more = _drawn(own[FEW:], "coefficient")
        drawn += f"<details><summary>{len(own) - FEW:,} smaller ones</summary>{more}</details>"
    zeros = len(terms) - len(own)
    said = f"{zeros:,} of {len(terms):,} coefficients are 0." if zeros else ""
    return f"{drawn}<p class='quiet'>{html.escape(f'{said} {why}'.strip())}</p>"


def ratio_name(summary: Summary) -> str:
    """Return what exp(coefficient) is called, such as "odds ratio"; "" where it is no ratio."""
    fitted = summary.statistics.fitted
    link = "" if fitted.family is None else fitted.family.link
    found = RATIOS.get(fitted.model) or RATIOS.get(f"{fitted.model} {link}")
    return found or ("ratio of means" if link in RATIO_LINKS else "")


def forest(summary: Summary) -> str:
    """Return a forest plot as HTML: a point and an interval for each term but the intercepts, and a line at 0.

    A filled point has an interval without 0, an open one has 0 in it. Coefficients whose intervals are of such unequal
    width that some would not be seen are drawn in their standard errors. Where exp(coefficient) is a ratio, it stands
    beside the coefficient.
    """
    own = [
        k for k, term in enumerate(summary.terms) if not _is_intercept(term) and np.isfinite(summary.columns[k]).all()
    ]
    if not own:
        return "<p>No coefficient to draw.</p>"
    columns, errors = summary.columns[own][:, [0, 4, 5]], summary.columns[own, 1]
    ratio, unit, drawn = ratio_name(summary), "coefficient", columns
    low, high = _span(columns)
    if 100.0 * (columns[:, 2] - columns[:, 1]).min() / (high - low) < NARROWEST and (errors > 0).all():
        drawn, unit = columns / errors[:, None], "coefficient in standard errors"
    terms = [
        _Term(summary.terms[k], here, begin, end, _figure(numbers, ratio))
        for k, (here, begin, end), numbers in zip(own, drawn.tolist(), columns, strict=True)
    ]
    percent = f"{100 * summary.level:g} % interval"
    beside = f"<br><span class='ratio'>{ratio}</span>" if ratio else ""
    return _drawn(terms, f"{unit}, {percent}", f"coefficient [{percent}]{beside}")


def _figure(numbers: Matrix, ratio: str) -> str:
    """Return (coefficient, low, high) as HTML, with exp of them below if that is a `ratio`."""
    coef, low, high = numbers
    told = f"{coef:.3g} [{low:.3g}, {high:.3g}]"
    if not ratio:
        return told
    with np.errstate(over="ignore"):
        coef, low, high = np.exp(numbers)
    return f"{told}<br><span class='ratio'>{coef:.3g} [{low:.3g}, {high:.3g}]</span>"


def _is_intercept(term: str) -> bool:
    """Return whether a term is an intercept, by the name that all have, behind the class of several."""
    return term.rpartition(": ")[2] == "Intercept"


def _span(columns: Matrix) -> tuple[float, float]:
    """Return (least, largest) number of the horizontal axis: all intervals and 0, and some margin."""
    low, high = min(0.0, float(columns.min())), max(0.0, float(columns.max()))
    margin = 0.03 * (high - low) or 1.0
    return low - margin, high + margin


def _drawn(terms: Sequence[_Term], label: str, heading: str = "") -> str:
    """Return the plot of the terms as HTML, with an axis below; `label` names the axis, `heading` the numbers.

    Places are percents of the width, so that text has the same size on every screen. Of more than MOST terms the
    largest are drawn.
    """
    if not terms:
        return ""
    note = ""
    if len(terms) > MOST:
        note = f"<p class='quiet'>The {MOST} largest of {len(terms):,} coefficients that are not 0.</p>"
        terms = sorted(terms, key=lambda term: -abs(term.coef))[:MOST]
    low, high = _span(np.array([[term.coef, term.low, term.high] for term in terms]))
    marks = [(100 * (one - low) / (high - low), f"{one:g}") for one in np.round(ticks(low, high, parts=PARTS), 12)]
    grid = "".join(
        f"<line class='{'zero' if mark == '0' else 'grid'}' x1='{x:.2f}%' x2='{x:.2f}%' y1='0' y2='{ROW}'/>"
        for x, mark in marks
    )
    head = f"<div class='row quiet'><span class='figure'>{heading}</span></div>"
    rows = "".join(_row(term, grid, low, high) for term in terms)
    numbers = "".join(f"<text x='{x:.2f}%' y='14' text-anchor='middle'>{mark}</text>" for x, mark in marks)
    numbers += f"<text class='quiet' x='50%' y='33' text-anchor='middle'>{html.escape(label)}</text>"
    axis = f"<div class='row'><div class='strip'><svg width='100%' height='38' aria-hidden='true'>{numbers}</svg>"
    axis += "</div></div>"
    return f"<div class='forest'>{head if heading else ''}{rows}{axis}</div>{note}"


def _row(term: _Term, grid: str, low: float, high: float) -> str:
    """Return the HTML of one term: its name, its interval (or bar) over the lines of the grid, and its numbers."""
    here, begin, end, zero = (100 * (one - low) / (high - low) for one in (term.coef, term.low, term.high, 0.0))
    y = ROW / 2
    if term.low == term.high:
        drawn = f"<line class='bar' x1='{zero:.2f}%' x2='{here:.2f}%' y1='{y}' y2='{y}'/>"
    else:
        kind = " class='clear'" if term.clear else ""
        drawn = f"<line class='interval' x1='{begin:.2f}%' x2='{end:.2f}%' y1='{y}' y2='{y}'/>"
        drawn += f"<circle{kind} cx='{here:.2f}%' cy='{y}' r='4.5'/>"
    name = html.escape(term.name)
    return (
        f"<div class='row'><span class='term'>{name}</span><div class='strip'>"
        f"<svg width='100%' height='{ROW}' role='img' aria-label='{name}'>{grid}{drawn}</svg></div>"
        f"<span class='figure'>{term.figure}</span></div>"
    )
