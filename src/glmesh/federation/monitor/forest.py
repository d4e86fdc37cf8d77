"""The table of a fit on a page: what is proven in plain words, a forest plot of the coefficients, and the table."""

import html
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from glmesh.errors import GlmeshError
from glmesh.federation.monitor.axes import ticks
from glmesh.files import model_files
from glmesh.files.model_files import Model
from glmesh.inference import Inference
from glmesh.inference.summary import Summary
from glmesh.types import Matrix, Vector

WIDTH, NAMES, FIGURES = 720, 200, 200  # [px] of a plot, of the names at its left, of the numbers at its right
ROW, TOP, BOTTOM = 24, 14, 46  # [px] of a term, above the first one, below the last one
LONGEST = 28  # [characters] of a name, because longer ones would reach into the plot
PARTS = 8  # of the axis at most
NARROWEST = 4.0  # [px] of an interval below which coefficients are drawn in their standard errors, to be seen at all


def coefficients(folders: Sequence[str]) -> str:
    """Return HTML on the coefficients of the first model in the state folders that has a table; "" if none has."""
    for folder in folders:
        path = Path(folder) / "model.npz"
        try:
            model = model_files.load(path) if path.is_file() else None
        except GlmeshError:  # the page is about what can be read
            continue
        if model is not None and model.statistics is not None:
            return section(model, Inference(model.statistics).summary())
    return ""


def section(model: Model, summary: Summary) -> str:
    """Return the HTML section on a model's coefficients: what is proven, a forest plot, and the table."""
    return (
        f"<h2>Coefficients</h2><p>{html.escape(_words(model, summary))}</p>{forest(summary)}"
        f"<div style='overflow-x: auto'>{summary._repr_html_()}</div>"
    )


def _words(model: Model, summary: Summary) -> str:
    """Return sentences for people on what is proven of the coefficients, and on whose rows they are about."""
    proof = f"{summary.proof[0].upper()}{summary.proof[1:]}."
    whose = f"{', '.join(model.sites[:-1])} and {model.sites[-1]}" if len(model.sites) > 1 else "this site"
    rows = f"{summary.statistics.n:,} rows of {whose} together"
    lacks = f", without {', '.join(model.without)}" if model.without else ""
    if np.isfinite(summary.accuracy.worst):
        exact = (
            f"The exact estimate is the maximum of the likelihood of the {rows}{lacks}: what pooling them would give"
        )
        return f"{proof} {exact}. That is proven, not measured; whether the model suits the data is another question."
    return f"{proof} The coefficients are about the {rows}{lacks}."


def forest(summary: Summary) -> str:
    """Return a forest plot as SVG text: a point and an interval for each term but the intercepts, and a line at 0.

    A filled point has an interval without 0, an open one has 0 in it. Coefficients whose intervals are of such unequal
    width that some would not be seen are drawn in their standard errors.
    """
    own = [
        k for k, term in enumerate(summary.terms) if not _is_intercept(term) and np.isfinite(summary.columns[k]).all()
    ]
    if not own:
        return "<p>No coefficient to draw.</p>"
    columns = summary.columns[own][:, [0, 4, 5]]
    errors = summary.columns[own, 1]
    places = _places(columns)
    unit = "coefficient"
    if (places[:, 2] - places[:, 1]).min() < NARROWEST and (errors > 0).all():
        columns, unit = columns / errors[:, None], "coefficient, in its standard errors"
        places = _places(columns)
    height = TOP + ROW * len(own) + BOTTOM
    percent = f"{100 * summary.level:g} % interval"
    out = [f"<svg viewBox='0 0 {WIDTH} {height}' role='img' aria-label='forest plot of the coefficients'>"]
    out += _axis(columns, TOP + ROW * len(own), f"{unit}, with its {percent}")
    for row, (k, (here, low, high)) in enumerate(zip(own, places.tolist(), strict=True)):
        out.append(_term(summary, k, TOP + ROW * (row + 0.5), (here, low, high)))
    return "".join(out) + "</svg>"


def _is_intercept(term: str) -> bool:
    """Return whether a term is an intercept, by the name that all have, behind the class of several."""
    return term.rpartition(": ")[2] == "Intercept"


def _span(columns: Matrix) -> tuple[float, float]:
    """Return (least, largest) number of the horizontal axis: all intervals and 0, and some margin."""
    low, high = min(0.0, float(columns.min())), max(0.0, float(columns.max()))
    margin = 0.03 * (high - low) or 1.0
    return low - margin, high + margin


def _places(columns: Matrix) -> Matrix:
    """Return the pixels from the left of numbers on the axis that shows all of them, in their shape."""
    low, high = _span(columns)
    return np.asarray(NAMES + (WIDTH - NAMES - FIGURES) * (columns - low) / (high - low))


def _at(columns: Matrix, values: Vector) -> Vector:
    """Return the pixels from the left of `values` on the axis that shows `columns`."""
    low, high = _span(columns)
    return np.asarray(NAMES + (WIDTH - NAMES - FIGURES) * (values - low) / (high - low))


def _axis(columns: Matrix, bottom: float, label: str) -> list[str]:
    """Return the SVG parts of the axis below the terms, the line at 0, and the label."""
    low, high = _span(columns)
    numbers = np.round(ticks(low, high, parts=PARTS), 12)
    out = []
    for x, number in zip(_at(columns, numbers).tolist(), numbers.tolist(), strict=True):
        dash = "" if number == 0 else " stroke-dasharray='2 4'"
        out.append(f"<path class='grid' d='M{x:.1f} {TOP}V{bottom:.1f}' stroke='#888'{dash}/>")
        out.append(f"<text x='{x:.1f}' y='{bottom + 16:.1f}' text-anchor='middle' font-size='12'>{number:g}</text>")
    middle = (NAMES + WIDTH - FIGURES) / 2
    out.append(f"<text x='{middle:.1f}' y='{bottom + 36:.1f}' text-anchor='middle' font-size='12'>{label}</text>")
    return out


def _term(summary: Summary, k: int, y: float, places: tuple[float, float, float]) -> str:
    """Return the SVG of term number k at the height y: its name, interval, point and numbers; `places` are pixels."""
    name, (here, low, high) = summary.terms[k], places
    shown = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    coef, ends = summary.columns[k, 0], summary.columns[k, 4:]
    fill = "#0072b2" if ends[0] * ends[1] > 0 else "none"
    numbers = f"{coef:.3g} [{ends[0]:.3g}, {ends[1]:.3g}]"
    return (
        f"<text x='{NAMES - 12}' y='{y + 4:.1f}' text-anchor='end' font-size='13'>{html.escape(shown)}</text>"
        f"<path d='M{low:.1f} {y:.1f}H{high:.1f}' stroke='#0072b2' stroke-width='2'/>"
        f"<circle cx='{here:.1f}' cy='{y:.1f}' r='4.5' fill='{fill}' stroke='#0072b2' stroke-width='2'/>"
        f"<text x='{WIDTH - 4}' y='{y + 4:.1f}' text-anchor='end' font-size='12'>{numbers}</text>"
    )
