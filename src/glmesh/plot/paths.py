"""Figures of paths of penalties: the error on held-out samples, and the coefficients by name."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.plot.figures import BLUE, GREY, INK, ORANGE, TINT, Path, finish, head, new_figure, plain_axes
from glmesh.types import Matrix, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_NAMED = 12  # [lines] names of more than this do not find room beside the axes


def selection(
    alphas: Vector,
    mse_path: Matrix,
    alpha: float,
    *,
    coefs: Matrix | None = None,
    names: Sequence[str] | None = None,
    path: Path | None = None,
    title: str | None = None,
) -> "Figure":
    """Draw the error on held-out samples along a path of penalties, and the coefficients, if given.

    Parameters
    ----------
    alphas : array of shape (n_alphas,)
        Weights of the penalty.
    mse_path : array of shape (n_alphas, n_folds)
        Mean squared error on the samples that each fold held out.
    alpha : float
        The weight that was chosen, marked in the figure.
    coefs : array of shape (p, n_alphas), optional
        Coefficients along the path; None draws the error alone.
    names : sequence of p str, optional
        Names of the columns, such as `feature_names_in_`, which stand at the ends of the largest coefficients; default:
        none.
    path : str or path, optional
        File to write, whole or not at all: .png, .pdf, .svg or what else matplotlib knows; default: none.
    title : str, optional
        Heading of the figure; default: none.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which can be changed further.

    Raises
    ------
    ImportError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import plot
    >>> alphas = np.geomspace(1.0, 0.01, 5)
    >>> figure = plot.selection(alphas, np.ones((5, 3)), alpha=0.1, coefs=np.zeros((2, 5)))
    >>> len(figure.axes)
    2
    """
    drawn = new_figure(9.6 if coefs is not None else 5.4, 4.0)
    left = drawn.add_subplot(1, 1 if coefs is None else 2, 1)
    mean, spread = mse_path.mean(axis=1), mse_path.std(axis=1) / np.sqrt(max(mse_path.shape[1] - 1, 1))
    left.semilogx(alphas, mse_path, color=GREY, linewidth=0.7, alpha=0.7)
    left.fill_between(alphas, mean - spread, mean + spread, color=TINT, linewidth=0)
    left.semilogx(alphas, mean, color=BLUE, linewidth=1.8)
    head(left, "mean squared error on held-out samples")
    right = [] if coefs is None else [drawn.add_subplot(1, 2, 2)]
    for axes in right:
        assert coefs is not None
        lines = axes.semilogx(alphas, coefs.T, linewidth=1.2)
        head(axes, "coefficients")
        if names is not None:
            _name_ends(axes, alphas, coefs, [str(name) for name in names], lines)
    for axes in (left, *right):
        axes.axvline(alpha, color=ORANGE, linewidth=1.4, linestyle="--")
        axes.set_xlabel("alpha", color=INK)
        axes.invert_xaxis()
        plain_axes(axes)
    left.annotate(f"{alpha:.3g}", (alpha, left.get_ylim()[1]), color=ORANGE, ha="center", va="bottom")
    return finish(drawn, path, title)


def _name_ends(axes: "Axes", alphas: Vector, coefs: Matrix, names: Sequence[str], lines: "Sequence[Line2D]") -> None:
    """Write the names of the largest coefficients at the ends of their lines, where alpha is smallest.

    Names that would cover each other are moved apart, by a twentieth of the axis.
    """
    if len(names) != len(coefs):
        raise InvalidInput(f"{len(names)} names for {len(coefs)} coefficients; give one per row of coefs")
    at = int(np.argmin(alphas))
    ends = coefs[:, at]
    chosen = [k for k in np.argsort(-np.abs(ends), kind="stable")[:_NAMED] if ends[k] != 0]
    low, high = axes.get_ylim()
    place = -np.inf
    for k in sorted(chosen, key=lambda k: float(ends[k])):
        place = max(float(ends[k]), place + (high - low) / 20.0)
        axes.annotate(
            names[k], (alphas[at], ends[k]), xytext=(1.02, place), textcoords=("axes fraction", "data"),
            color=lines[k].get_color(), fontsize=9, va="center", annotation_clip=False,
        )  # fmt: skip
