"""A fit at a glance: verdict in words, largest coefficients by name, cost, and how it was computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from glmesh.display.curve import Curve, svg
from glmesh.errors import InvalidData, UnsuitablePair
from glmesh.inference import Inference, Summary
from glmesh.inference.summary import frame_of
from glmesh.types import Flags, Vector

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 8  # coefficients that are shown in HTML and in a line
LISTED = 40  # coefficients that are shown as text
INTERCEPTS = 3  # intercepts that are shown in HTML; more say little of their own
BAR = 20  # [characters] of the largest coefficient's bar
STYLE = """
.glmesh-fit{font:14px/1.45 system-ui,sans-serif;max-width:46rem;
border:1px solid rgba(128,128,128,.45);border-radius:6px;padding:.7em 1em;margin:.4em 0;overflow-x:auto}
.glmesh-fit p{margin:.2em 0}
.glmesh-fit .parts{display:flex;flex-wrap:wrap;gap:.4em 2em;align-items:flex-start;margin:.5em 0}
.glmesh-fit table{border-collapse:collapse;border:0;margin:0;font-size:13px;background:none}
.glmesh-fit tr,.glmesh-fit tr:nth-child(odd),.glmesh-fit td,.glmesh-fit th{background:none!important;border:0;
color:inherit;padding:.08em .9em .08em 0;text-align:left;font-weight:normal;vertical-align:middle;white-space:nowrap}
.glmesh-fit .how td{white-space:normal}
.glmesh-fit caption{text-align:left;font-weight:bold;padding:.4em 0 .2em}
.glmesh-fit details table+table{margin:.5em 0}
.glmesh-fit details table+table tr>*+*{text-align:right}
.glmesh-fit td.number{text-align:right;font-variant-numeric:tabular-nums;padding-right:0}
.glmesh-fit .quiet{opacity:.75;font-size:13px}
.glmesh-fit summary{cursor:pointer}
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Overview:
    """A fit at a glance, for fits without a table of inference; its text is `str(overview)`.

    Parameters
    ----------
    title : str
        What was fitted, such as "Ridge".
    verdict : str
        How the fit ended and what is proven, in sentences.
    good : bool or None
        Whether the fit ended as was asked for; None: that is not known.
    terms : tuple of n_terms str
        Names of the coefficients.
    coef : array of shape (n_terms,)
        Coefficients.
    intercepts : tuple of (str, float), default ()
        Names and values of the intercepts; empty if none was fitted.
    cost : str, default ""
        What the fit took; "" if that is not known.
    how : tuple of (str, str), default ()
        Method, network and more, by name.
    curves : sequence of Curve, default ()
        Relative gaps by communications, one curve for each fit.
    goal : float, optional
        Relative gap that was aimed at; None: there was none.
    remark : str, default ""
        A last sentence, such as why there are no standard errors.
    table : Summary, optional
        Table of inference, which the HTML has as a fold-out; None: there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.display import Overview
    >>> fit = Overview(title="Ridge", verdict="Converged.", good=True, terms=("age", "bmi"), coef=np.array([0.5, -1.0]))
    >>> print(fit)
    Ridge: Converged.
    <BLANKLINE>
      bmi  -1.00000  --------------------
      age   0.50000  ++++++++++
    """

    title: str
    verdict: str
    good: bool | None
    terms: tuple[str, ...]
    coef: Vector
    intercepts: tuple[tuple[str, float], ...] = ()
    cost: str = ""
    how: tuple[tuple[str, str], ...] = ()
    curves: Sequence[Curve] = ()
    goal: float | None = None
    remark: str = ""
    table: Summary | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return the coefficients as a data frame of pandas, indexed by term, the intercepts first.

        Returns
        -------
        pandas.DataFrame
            One column, "coef".

        Raises
        ------
        InvalidInput
            pandas is not installed.
        """
        names = [*(name for name, _ in self.intercepts), *self.terms]
        values = np.concatenate([[value for _, value in self.intercepts], self.coef])
        return frame_of(values[:, None], names, ["coef"])

    def largest(self, most: int) -> list[tuple[str, float]]:
        """Return (name, value) of at most `most` coefficients that are not 0, the largest first by absolute value."""
        order = np.argsort(-np.abs(self.coef), kind="stable")[:most]  # NaN comes last
        return [(self.terms[k], float(self.coef[k])) for k in order if self.coef[k] != 0]

    @property
    def line(self) -> str:
        """Return the largest coefficients by name as one line; "" if all are 0."""
        return ", ".join(f"{name} {value:.4g}" for name, value in self.largest(LARGEST))

    def rows(self, most: int = LISTED) -> list[str]:
        """Return lines of text: the intercepts, and the `most` largest coefficients with bars of + and -."""
        shown = self.largest(most)
        wide = max((len(name) for name, _ in [*shown, *self.intercepts]), default=0)
        lines = [f"  {name:<{wide}}  {_cell(value)}" for name, value in self.intercepts]
        for name, value in shown:
            bar = ("-" if value < 0 else "+") * math.ceil(BAR * abs(self._share(value)))
            lines.append(f"  {name:<{wide}}  {_cell(value)}  {bar}".rstrip())
        return lines + [f"  {said}" for said in self._left_out(len(shown))]

    def __str__(self) -> str:
        lines = [f"{self.title}: {self.verdict}", "", *self.rows()]
        lines += ["", f"  cost  {self.cost}"] if self.cost else []
        lines += [f"  {name}  {value}" for name, value in self.how]
        lines += ["", self.remark] if self.remark else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the fit as HTML without script or resource from outside, for notebooks, light or dark."""
        shown = self.largest(LARGEST)
        few = self.intercepts if len(self.intercepts) <= INTERCEPTS else ()
        rows = "".join(_row(name, value, "") for name, value in few)
        rows += "".join(_row(name, value, _bar(self._share(value))) for name, value in shown)
        left_out = self._left_out(len(shown))
        left_out += [f"{len(self.intercepts):,} intercepts"] if len(few) < len(self.intercepts) else []
        said = "".join(f"<p class='quiet'>{escape(one)}</p>" for one in left_out)
        how = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.how)
        inference = "" if self.table is None else self.table._repr_html_()
        table = f"<details><summary>Table with standard errors</summary>{inference}</details>" if inference else ""
        fold = f"<details><summary>How it was computed</summary><table class='how'>{how}</table></details>"
        mark = {
            True: "<b style='color:#2f9e5b'>✓</b> ",
            False: "<b style='color:#d9822b'>!</b> ",
            None: "",
        }[self.good]
        return (
            f"<div class='glmesh-fit'><style>{STYLE}</style>"
            f"<p><b>{escape(self.title)}</b></p>"
            f"<p>{mark}{escape(self.verdict)}</p>"
            f"<div class='parts'><div><table>{rows}</table>{said}</div>{svg(self.curves, self.goal)}</div>"
            + (f"<p>{escape(self.cost)}</p>" if self.cost else "")
            + table
            + (fold if how else "")
            + (f"<p class='quiet'>{escape(self.remark)}</p>" if self.remark else "")
            + "</div>"
        )

    def _share(self, value: float) -> float:
        """Return a coefficient divided by the largest absolute value of all, in [-1, 1]; 0 unless both are finite."""
        top = float(np.max(np.abs(self.coef), initial=0.0))
        return value / top if np.isfinite(top) and top > 0 else 0.0

    def _left_out(self, shown: int) -> list[str]:
        """Return a sentence on the coefficients that are not among the `shown` ones; empty if all are."""
        zeros: Flags = self.coef == 0
        said, nonzero = [], int((~zeros).sum())
        if shown < nonzero:
            said.append(f"the {shown} largest of {nonzero:,} coefficients that are not 0")
        if zeros.any():
            said.append(f"{int(zeros.sum()):,} of {len(zeros):,} coefficients are 0")
        return said


def table_of(inference: Inference) -> Summary | None:
    """Return the table of inference; None where there is none, as with as many coefficients as rows.

    What shows itself must not fail; who asks for the table by `summary` is told why there is none.
    """
    try:
        return inference.summary()
    except (InvalidData, UnsuitablePair):
        return None


def _cell(value: float) -> str:
    """Return a coefficient as text of nine characters or more."""
    return f"{value: .5f}" if 1e-3 <= abs(value) < 1e4 else f"{value: .2e}"


def _row(name: str, value: float, bar: str) -> str:
    """Return a row of the table of coefficients: name, bar (HTML) and value."""
    return f"<tr><th>{escape(name)}</th><td>{bar}</td><td class='number'>{escape(f'{value:.4g}')}</td></tr>"


def _bar(share: float) -> str:
    """Return a bar as SVG, from the middle to the right for a share in (0, 1], to the left for one in [-1, 0).

    There is no bar for a share of 0.
    """
    width = max(40.0 * abs(share), 1.0) if share else 0.0
    left, colour = (40.0, "#3b82c4") if share > 0 else (40.0 - width, "#d9822b")
    return (
        f"<svg width='80' height='10' role='presentation'><rect x='{left:.1f}' y='1' width='{width:.1f}' height='8' "
        f"fill='{colour}'/><path d='M40 0V10' stroke='currentColor' stroke-opacity='.4'/></svg>"
    )
