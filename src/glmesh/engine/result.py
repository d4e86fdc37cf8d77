"""What a run returns."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from glmesh.core import Certificate, Event
from glmesh.display import Curve, Overview, bound_in_words, table_of
from glmesh.errors import UnsuitablePair
from glmesh.formatting import rounded_up, size
from glmesh.inference import Curves, Inference, Summary
from glmesh.inference.hypotheses import penalised
from glmesh.methods.totals.dealing import all_rows
from glmesh.methods.totals.likelihood.models import curves_of
from glmesh.methods.totals.likelihood.statistics import FitStatistics, term_names
from glmesh.network import Plan
from glmesh.plot import figures
from glmesh.problem import Problem
from glmesh.problem.offsets import OFFSET
from glmesh.types import Matrix, Vector

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def starting_point(start: Result | ArrayLike | None) -> Vector | None:
    """Return the variables that a run begins with, as an array; None: at zero.

    Of a Result they are its x, shape (n,), or, where it has none, its coefficients and then the intercept.
    """
    if isinstance(start, Result):
        start = np.append(start.coef, start.intercept) if start.x is None else start.x
    return None if start is None else np.asarray(start)


class Status(enum.Enum):
    """Reasons why a run stopped; the value of each member is a sentence for people."""

    CONVERGED = "Converged: the duality gap is within the tolerance."
    CERTIFIED = "Certified: every node knows, from its neighbours alone, that the gap is within the tolerance."
    ROUNDS_DONE = "Finished the rounds asked for."
    OUT_OF_ROUNDS = "Stopped at max_rounds before the tolerance was reached; raise max_rounds or relax tol."
    NO_OPTIMUM = "There is no optimum: without a penalty coefficients grow for ever; add a penalty (alpha > 0)."
    COLLINEAR = (
        "Stopped without a proof: columns almost depend on each other, so that rounding decides without a penalty; "
        "add one (alpha > 0), or leave columns out."
    )
    STALLED = (
        "Stopped before the tolerance was reached, because rounding hides any further progress; relax tol, raise the "
        "penalty, or scale the columns and drop those that nearly repeat others."
    )
    STATIONARY = (
        "Converged to a stationary point; no proof that it is the maximum, because the likelihood is not convex."
    )
    NO_START = (
        "Stopped before the first step: no coefficients are known at which every row has a mean; fit an intercept, or "
        "take a log link."
    )
    INTERRUPTED = "Interrupted; the result is what there was after the last complete round."
    STOPPED_BY_CALLBACK = "Stopped by the callback."
    DIVERGED = "Diverged: the objective is no longer finite; raise sigma, or lower the step (None is safe)."

    def __str__(self) -> str:
        return self.value


NO_ESTIMATES = "The coefficients are those of the round in which the fit ended; they estimate nothing."


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of a run; every field is an attribute.

    Parameters
    ----------
    x : array of shape (n,) or None
        Variables in the user's order: coefficients split by features, dual variables split by samples. None after a
        method on totals, which has coefficients alone.
    coef : array of shape (p,) or (C, p)
        Coefficients of the model; of the multinomial family a row for each of C classes.
    intercept : float, or array of shape (C,)
        Intercept of the model; 0 if none is fitted.
    rounds : int
        Rounds made.
    communications : int
        Exchanges that a node waited for.
    bytes : int
        Bytes sent over all directed links.
    seconds : float
        Seconds of the rounds: on the virtual clock if there is a network, else on the wall.
    gap : float
        Duality gap; the certified bound if the run was certified.
    objective : float
        User-level primal objective.
    status : Status
        Why the run stopped.
    tol : float or None
        Relative gap aimed at; None if none was.
    history : dict of arrays
        Equally long arrays `round, communications, bytes, seconds, objective, h, gap, consensus, certificate, theta`;
        after a method on totals h and consensus are NaN, and the objective is NaN before the first total.
    certificate : Certificate or None
        The newest certificate that all nodes know.
    estimates : array of shape (K, d)
        Every node's v_k that the result speaks of; after a consensus method, its copy of the coefficients.
    problem : Problem
        The problem as it was at the end.
    faults : dict, optional
        The run's fault plan.
    events : tuple of Event, default ()
        Who joined and left, and whose data changed.
    skipped : int, default 0
        Subproblems that were not solved because they had nothing to gain.
    work_saved : float, default 0.0
        Nonzeros that the skipped subproblems would have visited.
    thetas : array of shape (records, K), optional
        Local accuracy of each node at every record; 1: the node did nothing, NaN: none was asked for.
    story : tuple of (int, str, str), default ()
        (round, acceleration from then on, why), as the method chose.
    copies : bool, default False
        Whether x and coef are the mean of all copies, as after a consensus method.
    remark : str, default ""
        A sentence on the optimum, such as that it is not unique.
    distance : float, default inf
        Proven bound of the distance sqrt(e'He) of coefficients and intercept from the optimum, e their difference and H
        the Hessian of the objective at `coef`; infinite if none is proven. Newton's method on totals proves it
        for the logistic loss without a penalty, and for the squared loss where no penalty has a kink or a bound.
    standard_errors_off : float, default nan
        By how many standard errors each coefficient, and each linear combination of them, is off the exact estimate at
        most: `distance`, for a logistic regression without a penalty. Infinite if none is proven; NaN where a penalty
        or a dispersion that would have to be estimated leaves no standard errors to count in.
    statistics : FitStatistics, optional
        What totals at the end of a fit of a family without a penalty say, for `glmesh.inference`; None: there were
        none.
    names : tuple of p str, optional
        Names of the columns in the order of the coefficients, as a data frame or a header had them; None: they have
        none.
    how : tuple of (str, str), default ()
        Model, method and network, by name, in words.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, solve
    >>> X = np.random.default_rng(0).normal(size=(40, 10))
    >>> result = solve(Problem.glm(X, X[:, 0], alpha=1.0), n_nodes=4, tol=1e-3)
    >>> result.status.name, result.relative_gap <= 1e-3, len(result.history["gap"]) == result.rounds + 1
    ('CONVERGED', True, True)
    """

    x: Vector | None
    coef: Vector
    intercept: float | Vector
    rounds: int
    communications: int
    bytes: int
    seconds: float
    gap: float
    objective: float
    status: Status
    tol: float | None
    history: dict[str, Vector]
    certificate: Certificate | None
    estimates: Matrix = field(repr=False)
    problem: Problem = field(repr=False)
    faults: dict[str, object] = field(default_factory=dict, repr=False)
    events: tuple[Event, ...] = ()
    skipped: int = 0
    work_saved: float = 0.0
    thetas: Matrix = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    story: tuple[tuple[int, str, str], ...] = ()
    copies: bool = False
    remark: str = ""
    distance: float = np.inf
    standard_errors_off: float = np.nan
    statistics: FitStatistics | None = field(default=None, repr=False)
    names: tuple[str, ...] | None = None
    how: tuple[tuple[str, str], ...] = ()

    @property
    def spared(self) -> float:
        """Deprecated name of `work_saved`, the nonzeros that skipped subproblems would have visited."""
        warnings.warn("Result.spared is now Result.work_saved", DeprecationWarning, stacklevel=2)
        return self.work_saved

    @cached_property
    def presence(self) -> Matrix:
        """Return an array of shape (rounds, n_nodes): 1 where a node took part, 0.5 where it was a member and away.

        It is 0 where the node was no member.
        """
        return Plan.of(self.faults).presence(self.rounds, len(self.estimates))

    @property
    def relative_gap(self) -> float:
        """Return the duality gap divided by abs(objective); if the objective is 0, then 0 or infinity."""
        return self.gap / abs(self.objective) if self.objective else (0.0 if self.gap == 0 else np.inf)

    def coef_of(self, node: int) -> Vector:
        """Return the coefficients of one node's model, in the shape of `coef`.

        Split by samples, and after a consensus method, every node has a model of its own; split by features all have
        `coef`.
        """
        if self.copies:
            return np.asarray(self.estimates[node]).reshape(self.coef.shape)
        if self.problem.spec.split == "samples":
            return self.problem.model_of(self.problem.composite.f.gradient(self.estimates[node]))[0]
        return self.coef

    def without_data(self) -> Result:
        """Return a copy whose `problem` is None, so that it holds no data; its `coef_of` may fail."""
        return replace(self, problem=None)  # type: ignore[arg-type]

    @property
    def curves(self) -> Curves | None:
        """Return loss, gradient and Hessian over all rows at several points, as a function; None: rows are not at hand.

        Profile intervals need it.
        """
        held = None if self.problem is None else all_rows(self.problem)
        if held is None:
            return None
        family = None if self.statistics is None else self.statistics.fitted.family  # with what was estimated of it
        return curves_of(family or self.problem.spec.loss, held)

    @property
    def inference(self) -> Inference:
        """Return the inference of a fit of a family without a penalty: its table, tests and intervals.

        Raise UnsuitablePair, which says why, where there is none.
        """
        if self.statistics is None:
            spec = None if self.problem is None else self.problem.spec
            if spec is not None and not spec.loss.by_likelihood:
                raise UnsuitablePair(
                    f"standard errors are those of families, and this is the {spec.loss.name} loss; take family=..., "
                    "alpha=0.0"
                )
            if spec is not None and spec.alpha:
                raise penalised(f"{spec.penalty_name}, alpha={spec.alpha:g}")
            raise UnsuitablePair(f"the fit has not ended where standard errors are known: {self.message}")
        names = None if self.problem is None else self.problem.feature_names
        fitted = self.statistics.fitted
        if names is None or len(fitted.names) != fitted.outputs * (len(names) + 1):
            return Inference(self.statistics, self.curves)
        named = replace(fitted, names=term_names(names, range(fitted.outputs) if fitted.outputs > 1 else ()))
        return Inference(replace(self.statistics, fitted=named), self.curves)

    @property
    def message(self) -> str:
        """Return one line of text: status, rounds, communications, bytes, objective, relative gap and remarks.

        It also says within how many standard errors the coefficients are, where that is proven.
        """
        cost = f"{self.rounds} rounds, {self.communications} communications, {size(self.bytes)}"
        remark = f" {self.remark}" if self.remark else ""
        remark += f" {self.proof}" if np.isfinite(self.standard_errors_off) else ""
        return f"{self.status} ({cost}; objective {self.objective:.6g}, relative gap {self.relative_gap:.2g}){remark}"

    @property
    def reached(self) -> bool:
        """Return whether the run ended as was asked for: with a proof, at a stationary point, or after its rounds."""
        return self.status in (Status.CONVERGED, Status.CERTIFIED, Status.STATIONARY, Status.ROUNDS_DONE)

    @property
    def estimates_anything(self) -> bool:
        """Return whether the coefficients come near something: not where there is no optimum, or no step was made."""
        return self.status not in (Status.NO_OPTIMUM, Status.COLLINEAR, Status.NO_START, Status.DIVERGED)

    @property
    def proof(self) -> str:
        """Return the sentence on what is proven: of the coefficients in standard errors, else of the objective.

        It is "" if nothing is proven.
        """
        if np.isfinite(self.standard_errors_off):
            off = rounded_up(self.standard_errors_off)
            return f"Each coefficient is within {off:.0e} standard errors of the exact estimate."
        return bound_in_words(self.gap, self.objective)

    @property
    def cost(self) -> str:
        """Return rounds, communications and bytes as text."""
        counted = ((self.rounds, "round"), (self.communications, "communication"))
        return ", ".join(
            [*(f"{n:,} {what}{'s' * (n != 1)}" for n, what in counted), f"{size(self.bytes)} over all links"]
        )

    def summary(
        self, level: float = 0.95, *, vcov: str = "model", use_t: bool | None = None, exponentiate: bool = False
    ) -> Summary | Overview:
        """Return the table of coefficients; without standard errors verdict, coefficients, cost and proof.

        Parameters
        ----------
        level : float, default 0.95
            Level of the intervals.
        vcov : {"model", "HC0", "HC1", "HC2", "HC3"}, default "model"
            Kind of the covariance.
        use_t : bool or None, default None
            Whether Student's t takes the place of the normal distribution; None: where the dispersion is estimated.
        exponentiate : bool, default False
            Whether to show exp(coefficient), a ratio of odds, means or hazards.

        Returns
        -------
        Summary or Overview
            After a fit of a family without a penalty the table with standard errors, tests and intervals; else an
            overview. The text of either is `str(summary)`, and `to_frame()` gives it to pandas.

        Raises
        ------
        UnsuitablePair
            An option of the table is given, but the fit has no standard errors.
        """
        if self.statistics is not None:
            return self.inference.summary(level, vcov=vcov, use_t=use_t, exponentiate=exponentiate)
        if (level, vcov, use_t, exponentiate) != (0.95, "model", None, False):
            raise UnsuitablePair(
                "this fit has no standard errors, which level, vcov, use_t and exponentiate are about; fit a family "
                "without a penalty: Problem.glm(X, y, family=..., alpha=0)"
            )
        return self._overview

    def plot(self, path: str | PathLike[str] | None = None, *, title: str | None = None) -> Figure:
        """Draw relative gap and consensus violation against communications and bytes, with the goal and who was there.

        Parameters
        ----------
        path : path-like or None, default None
            File to write the figure to (.png, .pdf or .svg); None: no file.
        title : str, optional
            Heading of the figure; default: none.

        Returns
        -------
        matplotlib.figure.Figure
            The figure of `glmesh.plot.convergence`.
        """
        return figures.convergence(self.history, path=path, title=title, presence=self.presence, tol=self.tol)

    @cached_property
    def _overview(self) -> Overview:
        """Return the fit at a glance."""
        terms, intercepts = terms_of(self.coef, self.intercept, self.names)
        coef = np.ravel(self.coef)
        shown = np.array([name.rpartition(": ")[2] != OFFSET for name in terms], dtype=bool)
        return Overview(
            title="Result",
            verdict=" ".join(filter(None, (str(self.status), self.proof, self.remark))),
            good=self.reached,
            terms=tuple(name for name, own in zip(terms, shown, strict=True) if own),
            coef=coef[shown],
            intercepts=intercepts,
            cost=self.cost,
            how=self.how,
            curves=[self.curve],
            goal=self.tol,
            remark="" if self.estimates_anything else NO_ESTIMATES,
        )

    @property
    def curve(self) -> Curve:
        """Return the relative gap by communications, for a picture; of a certified run what the nodes proved."""
        proven = np.asarray(self.history["certificate"])
        certified = self.status is Status.CERTIFIED and np.isfinite(proven).sum() > 1
        with np.errstate(all="ignore"):
            gaps = (proven if certified else np.asarray(self.history["gap"])) / np.abs(self.history["objective"])
        return Curve(np.asarray(self.history["communications"]), gaps)

    def __repr__(self) -> str:
        line = self._overview.line if self.estimates_anything else ""
        return f"<Result {self.message}{f' Largest coefficients: {line}.' if line else ''}>"

    def _repr_html_(self) -> str:
        """Return the fit at a glance as HTML, for notebooks, with the table of inference if there is one."""
        table = None if self.statistics is None else table_of(self.inference)
        return replace(self._overview, table=table)._repr_html_()


def terms_of(
    coef: Vector, intercept: float | Vector, names: Sequence[str] | None, classes: Sequence[object] = ()
) -> tuple[tuple[str, ...], tuple[tuple[str, float], ...]]:
    """Return (names of all coefficients, (name, value) of each intercept that is not 0).

    `coef` has shape (p,), or (C, p) with a row per class; then names begin with the class, by default its number.
    `names` are those of the columns; None, or too few: x0, x1, ...
    """
    p, rows = np.shape(coef)[-1], len(coef) if np.ndim(coef) == 2 else 1
    own = list(map(str, names)) if names is not None and len(names) == p else [f"x{j}" for j in range(p)]
    labels = (classes if len(classes) == rows else range(rows)) if rows > 1 else ()
    every, width = term_names(own, labels), p + 1
    values = np.atleast_1d(intercept)
    found = tuple((every[k * width + p], float(value)) for k, value in enumerate(values) if value != 0)
    return tuple(name for k, name in enumerate(every) if k % width != p), found
