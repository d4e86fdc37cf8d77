"""The picture of `glmesh demo`: odds ratios with intervals, of each hospital alone and of all three together."""

from __future__ import annotations

import numpy as np

from glmesh import plot
from glmesh.cli.demo_tables import Fits
from glmesh.inference import Summary
from glmesh.types import Vector

_LEAST, _MOST = 0.4, 11.0  # odds ratios at the ends of the axis
_TICKS = (0.5, 1.0, 2.0, 4.0, 8.0)
_APART, _FIRST = 0.17, 0.24  # [terms] between two hospitals' intervals, and from the interval of all to the first
TERMS = {  # term: (words on it, the step that its odds ratio is about)
    "age": ("age, 10 years", 10.0),
    "C(sex)[T.male]": ("male", 1.0),
    "bmi": ("bmi, 5 kg/m²", 5.0),
    "systolic": ("systolic, 20 mmHg", 20.0),
    "C(smoker)[T.past]": ("smoked once", 1.0),
    "C(smoker)[T.present]": ("smokes", 1.0),
    "stays": ("an earlier stay", 1.0),
}


def draw(fits: Fits, path: str) -> None:
    """Draw a forest plot to a file: thick intervals of all hospitals together, thin ones of each alone."""
    figure, axes = plot.subplots(height=5.8)
    blue, grey, ink = plot.COLOURS["blue"], plot.COLOURS["grey"], plot.COLOURS["ink"]
    for row, term in enumerate(TERMS):
        ratio, low, high = _ratios(fits.together, term)
        axes.plot([low, high], [row, row], color=blue, linewidth=3, solid_capstyle="butt")
        axes.plot([ratio], [row], color=blue, marker="D", markersize=8)
        axes.text(1.1 * _MOST, row, f"{ratio:.2f} ({low:.2f}, {high:.2f})", color=blue, va="center", fontsize=9)
        for k, (name, summary) in enumerate(fits.alone.items()):
            height = row + _FIRST + _APART * k
            if term in summary.terms:
                ratio, low, high = _ratios(summary, term)
                axes.plot([low, high], [height, height], color=grey, linewidth=1.2)
                axes.plot([ratio], [height], color=grey, marker="o", markersize=4)
            if row == 0:
                axes.text(1.06 * high, height, name, color=grey, va="center", fontsize=9)
    axes.text(1.1 * _MOST, -0.6, "together", color=blue, fontsize=9)
    axes.axvline(1, color=ink, linewidth=1)
    axes.set(xscale="log", xlim=(_LEAST, _MOST), ylim=(len(TERMS) - 0.3, -0.4))
    axes.set_yticks(range(len(TERMS)), [words for words, _ in TERMS.values()])
    axes.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.set_xlabel("odds ratio of coming back within a year")
    axes.minorticks_off()
    axes.grid(visible=False, axis="y")
    figure.savefig(path)


def _ratios(summary: Summary, term: str) -> Vector:
    """Return odds ratio, lower and upper end of its interval for the step of a term, shape (3,)."""
    return np.exp(TERMS[term][1] * summary.columns[summary.terms.index(term), [0, 4, 5]])
