"""The weight alpha of a penalty chosen by cross-validation on totals, then the fit with it on all rows.

Row i of a node is held out by fold i mod F, so a file that is sorted by its target is dealt out evenly. The problems of
all folds and of many weights travel in the same totals; one more total has the losses of the rows held out, and from it
every node chooses the same weight. A fold that learns from a share of the rows has that share of the weight, as with
scikit-learn's objective, which is a mean over the rows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from glmesh.collectives.together import together
from glmesh.core import Shared
from glmesh.core.messages import AnyRounds
from glmesh.core.totals import Sums, Total
from glmesh.errors import InvalidInput
from glmesh.functions import Table
from glmesh.methods.totals.nodes import OnTotals, Point, TotalMethod
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.state import HoldsModel, TotalState
from glmesh.methods.totals.traits import Traits, is_smooth
from glmesh.types import Indices, Matrix, Vector

RULES = ("minimum", "one_standard_error")
N_WEIGHTS = 20  # weights that are tried if none are given, because messages are five times as long with LassoCV's 100
SMALLEST_WEIGHT = 1e-3  # [weight at which all coefficients are zero] least weight with L1, because it is LassoCV's
# largest and smallest weight without an L1 penalty, because these are LogisticRegressionCV's
RIDGE_WEIGHTS = (1e4, 1e-4)
# [numbers] of all problems' contributions to a total, because that is 8 MB; other weights wait until some are done
MOST_NUMBERS = 2**20
MOST_ROUNDS = 100  # [totals] that a problem of a fold gets, because the slowest real ones take 68
FAR = 1e150  # loss above which a sum of losses is cut, because it is far from every other
DIGITS = 4  # significant digits of a computed weight, so that rounding at some node cannot make another one of it


def rows_of_folds(n_rows: int, n_folds: int) -> list[Indices]:
    """Return, for each of `n_folds` folds, the numbers of the rows of one node that it holds out, an array each.

    Fold f of F holds out the rows f, f + F, f + 2 F, ...
    """
    return [np.arange(f, n_rows, n_folds) for f in range(n_folds)]


@dataclass(frozen=True, eq=False)
class FoldCurve:
    """What cross-validation has found: the mean loss of held-out rows for each weight of the penalty, and the choice.

    Parameters
    ----------
    weights : array of shape (n,)
        Weights alpha, descending.
    losses : array of shape (F, n)
        Mean loss, with sample weights, of the rows that a fold holds out; NaN where its problem was not solved.
    chosen : int
        Place of the weight that was chosen.
    """

    weights: Vector
    losses: Matrix
    chosen: int

    @staticmethod
    def of(weights: Vector, losses: Matrix, rule: str) -> FoldCurve:
        """Return the FoldCurve with the weight that `rule` chooses, "minimum" or "one_standard_error".

        `weights` has shape (n,), `losses` (F, n), a row per fold. Raise InvalidInput if no weight was solved in all
        folds.
        """
        mean = losses.mean(axis=0)
        if np.isnan(mean).all():
            raise InvalidInput("cross-validation: no weight of the penalty was solved in all folds; give other alphas")
        chosen = int(np.nanargmin(mean))
        if rule == "one_standard_error":
            error = losses[:, chosen].std(ddof=1) / np.sqrt(len(losses))
            chosen = int(np.flatnonzero(mean <= mean[chosen] + error)[0])
        return FoldCurve(weights, losses, chosen)

    @property
    def alpha(self) -> float:
        """Return the weight of the penalty that was chosen."""
        return float(self.weights[self.chosen])

    def text(self, rule: str) -> str:
        """Return words on the choice: "alpha = 10 was chosen of 3 weights by 5 folds (minimum of ...)".

        If no weight on one side of it was tried, they say so. `rule` is the one by which it was chosen.
        """
        n_folds, n = self.losses.shape
        how = "minimum of the held-out loss" if rule == "minimum" else "within one standard error of the least"
        said = f"alpha = {self.alpha:g} was chosen of {n} weights by {n_folds} folds ({how})"
        if n == 1 or 0 < self.chosen < n - 1:
            return said
        end = "largest" if self.chosen == 0 else "smallest"
        return f"{said}, the {end} of them: beyond it there may be better ones"

    @property
    def means(self) -> Vector:
        """Return the mean over the folds of the held-out loss for each weight, shape (n,).

        NaN where a fold was not solved.
        """
        return np.asarray(self.losses.mean(axis=0))

    @property
    def errors(self) -> Vector:
        """Return the standard error of the mean over the folds of the held-out loss, for each weight, shape (n,)."""
        return np.asarray(self.losses.std(axis=0, ddof=1) / np.sqrt(len(self.losses)))


@dataclass(eq=False)
class FoldProblem:
    """The problem of one fold and one weight of the penalty, while it is solved on the rows not held out."""

    fold: int
    number: int  # of the weight
    block: Rows  # rows of the fold have weight 0; its penalty has the weight in it
    state: HoldsModel  # of the method that solves it
    rounds: int = 0  # totals so far
    length: int = 0  # numbers of the point at which it asked last

    def is_done(self, tol: float) -> bool:
        """Return whether the problem's gap is at most tol times its objective, or more rounds are not worth it."""
        return self.is_solved(tol) or self.rounds >= MOST_ROUNDS or bool(self.state.failure)

    def is_solved(self, tol: float) -> bool:
        """Return whether the problem's gap is at most tol times its objective, or as small as rounding allows."""
        return bool(self.state.gap <= tol * abs(self.state.objective)) or self.state.failure == "rounding"

    def noted(self, method: OnTotals) -> AnyRounds:
        """Make one round of the problem by `method`, and note how many numbers its points have.

        It is a generator: it yields the round's totals and is sent their sums.
        """
        rounds = method.round(self.block, self.state)
        answer: Any = None
        while True:
            try:
                message = rounds.send(answer)
            except StopIteration:
                self.rounds += 1
                return
            if isinstance(message, Total):
                self.length = 0 if message.at is None else len(message.at)
            answer = yield message


@dataclass
class CrossValidationState(TotalState):
    """What cross-validation carries from total to total; the model is that of the last fit, and zero before that.

    A total is a sum over all nodes; F is the number of folds, n that of the weights tried.
    """

    start: Shared[tuple[Vector, float]] = field(kw_only=True)  # (w (p,), intercept) at which every problem begins
    # (d,) exponents of the columns' norms; None: problems agree on them themselves
    exponents: Shared[Indices | None] = None
    shares: Shared[Any] = None  # (F,) part of the rows' weight that each fold learns from; None: not known yet
    weights: Shared[Any] = None  # (n,) weights, descending; None: not computed yet
    begun: Shared[int] = 0  # weights of which the problems are under way, or done
    trials: Shared[list[FoldProblem]] = field(default_factory=list)  # the problems that were begun last
    models: Shared[Any] = None  # (F, n, p + 1) coefficients that were found, the intercept last; NaN: none
    curve: Shared[FoldCurve | None] = None  # None: nothing is chosen yet
    final: Shared[FoldProblem | None] = None  # the fit on all rows with the weight that was chosen; None: not begun

    def scale_columns(self, exponents: Indices) -> None:
        """Store the binary exponents of the columns' norms, shape (d,), in `state`.

        The problems, one for each fold and weight of the penalty, that begin after this call divide their columns by
        these powers of two.
        """
        self.exponents = exponents

    def visit(self, visited: Vector) -> None:
        """Count the nonzeros of the data that each hosted node visits in this round, shape (n_hosted,)."""
        self.visited = visited

    def try_weights(self, weights: Vector) -> None:
        """Take the weights of the penalty that are to be tried, descending, shape (n,)."""
        self.weights = weights

    def share_rows(self, shares: Vector) -> None:
        """Take the part of the rows' weight that each of the F folds learns from, shape (F,)."""
        self.shares = shares

    def go_on(self, trials: list[FoldProblem], begun: int, p: int) -> None:
        """Put the problems `trials` under way, with which `begun` weights are begun; a model has p + 1 coefficients."""
        if self.models is None:
            self.models = np.full((len(self.shares), len(self.weights), p + 1), np.nan)
        self.trials, self.begun = trials, begun

    def keep_models(self, solved: list[FoldProblem]) -> None:
        """Keep the coefficients of the problems of folds that are solved."""
        for one in solved:
            self.models[one.fold, one.number] = np.append(one.state.w, one.state.intercept)

    def choose(self, curve: FoldCurve) -> None:
        """Take the held-out losses, and with them the weight that is chosen."""
        self.curve = curve

    def finish(self, final: FoldProblem) -> None:
        """Begin the fit on all rows with the weight that was chosen."""
        self.final = final

    def follow_final(self) -> None:
        """Take over the coefficients and the proven gap of the fit on all rows, if it is under way."""
        if self.final is not None:
            found = self.final.state
            self.w, self.intercept, self.objective = found.w, found.intercept, found.objective
            self.gap, self.failure = found.gap, found.failure


@dataclass(frozen=True)
class CrossValidation(TotalMethod[CrossValidationState]):
    """Choose the weight of the penalty by cross-validation, then fit with it on all rows, by a method on totals.

    Parameters
    ----------
    method : TotalMethod
        The method that solves each problem.
    n_folds : int, default 5
        F, the number of folds; each node puts its own rows into them, row i into fold i mod F.
    rule : {"minimum", "one_standard_error"}, default "minimum"
        The weight with the least mean loss of held-out rows; or the largest weight whose mean loss is within one
        standard error of that.
    alphas : tuple of float, default ()
        Weights to try, > 0, which multiply the penalty of the problem; (): 20 in geometric progression, with an L1
        penalty from about the smallest at which all coefficients are zero down to 1/1000 of it, else from 1e4 to 1e-4.
    tol : float, default 1e-6
        Relative gap of the problems of the folds.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, solve
    >>> from glmesh.methods import CrossValidation, ProximalNewton
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 40))
    >>> ridge = Problem.glm(X, 2.0 * X[:, 0] + rng.normal(size=60), penalty="l2", split="samples")
    >>> method = CrossValidation(ProximalNewton(), alphas=(0.1, 10.0, 10000.0))
    >>> solve(ridge, method=method, n_nodes=2, tol=1e-6).remark
    'alpha = 10 was chosen of 3 weights by 5 folds (minimum of the held-out loss).'
    """

    method: OnTotals
    n_folds: int = 5
    rule: str = "minimum"
    alphas: tuple[float, ...] = ()
    tol: float = 1e-6
    saves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        weights = np.asarray(self.alphas, dtype=np.float64)
        if self.n_folds < 2 or self.rule not in RULES:
            raise InvalidInput(
                f"folds are 2 or more and the rule is one of {', '.join(RULES)}; got {self.n_folds}, {self.rule!r}"
            )
        if not ((weights > 0) & np.isfinite(weights)).all():
            raise InvalidInput(f"alphas must be positive numbers, got {self.alphas}")

    def start(self, block: Rows, w: Vector | None, intercept: float) -> CrossValidationState:
        """Return the state before round 0; every problem begins at coefficients w, shape (p,), and an intercept.

        None: zero.
        """
        w = np.zeros(block.p) if w is None else np.array(w, dtype=np.float64)
        intercept = intercept if block.fit_intercept else 0.0
        state = CrossValidationState(w, intercept, np.zeros(block.size), start=(w, intercept))
        if self.alphas:
            state.weights = np.unique(self.alphas)[::-1].copy()
        elif not _l1(block).any():
            state.weights = _rounded(np.geomspace(*RIDGE_WEIGHTS, N_WEIGHTS))
        return state

    def rescale(self, state: CrossValidationState, exponents: Indices) -> None:
        """Keep the exponents of the columns' norms, shape (d,), for the problems that are begun from now on."""
        state.scale_columns(exponents)

    def trials(self, block: Rows, state: CrossValidationState) -> list[tuple[Rows, Point]]:
        """Return a list of (rows, point), one for each problem that the coming total is about.

        A point is (coefficients of shape (p,), intercept, majorant); `majorant` says that the total's Hessian has the
        curvatures of a quadratic upper bound.
        """
        if state.shares is None:
            return [(block, (*state.start, False))]
        self._prepare(block, state)
        return [pair for one in self._active(state) for pair in self.method.trials(one.block, one.state)]

    def take(self, state: CrossValidationState, at: Vector) -> float:
        """Go to the trial points `at` of all problems, those of another node, which differ in their last bits.

        Return the largest distance from one's own points, relative to their norms; infinite if they cannot be taken.
        """
        active = self._active(state)
        ends = np.cumsum([one.length for one in active])
        if not active or len(at) != ends[-1]:
            return np.inf
        pieces = zip(active, np.split(at, ends[:-1]), strict=True)
        return max(self.method.take(one.state, piece) for one, piece in pieces)

    def remark(self, block: Rows, state: CrossValidationState) -> str:
        """Return a sentence on the weight that was chosen; "" before it is."""
        if state.curve is None:
            return ""
        return f"{state.curve.text(self.rule)}."

    def round(self, block: Rows, state: CrossValidationState) -> AnyRounds:
        """Make one round: yield one total of all problems under way, be sent its sums, and change the state by them.

        The first total is for the weights to try; then come those of the problems of all folds, one of the losses of
        held-out rows, and those of the last fit.
        """
        if state.shares is None:
            yield from self._begin(block, state)
            return
        self._prepare(block, state)
        active = self._active(state)
        state.visit(np.sum([block.nonzeros] * max(len(active), 1), axis=0))
        if not active:
            yield from self._compare(block, state)
            return
        yield from together([one.noted(self.method) for one in active])
        if state.final is None:
            state.keep_models([one for one in active if one.is_solved(self.tol)])
        state.follow_final()

    # which problems are solved when

    def _active(self, state: CrossValidationState) -> list[FoldProblem]:
        """Return the problems that the coming total is about; an empty list if it is about the rows held out."""
        if state.final is not None:
            return [state.final]
        return [one for one in state.trials if not one.is_done(self.tol)]

    def _prepare(self, block: Rows, state: CrossValidationState) -> None:
        """Begin the problems of the next weights if those before are done, or the last fit if a weight is chosen."""
        if state.final is None and state.curve is not None:
            own = _weighted(block, block.penalty, state.curve.alpha)
            state.finish(FoldProblem(0, state.curve.chosen, own, self._begun(own, state)))
        elif state.curve is None and not self._active(state) and state.begun < len(state.weights):
            self._begin_weights(block, state)

    def _begin_weights(self, block: Rows, state: CrossValidationState) -> None:
        """Begin the problems of the next weights in all folds, at the common start or where the last weight ended."""
        before = {one.fold: one for one in state.trials}  # the last weight of each fold
        n = self._group_size(block, first=not before)
        chosen, trials = range(state.begun, min(state.begun + n, len(state.weights))), []
        for fold in range(self.n_folds):
            rows = before[fold].block if fold in before else self._training(block, fold)
            for number in chosen:
                alpha = float(state.weights[number] * state.shares[fold])
                own = _weighted(rows, block.penalty, alpha)
                inner = self._begun(own, state) if fold not in before else copy.copy(before[fold].state)
                if fold in before:
                    self.method.retarget(own, inner)
                trials.append(FoldProblem(fold, number, own, inner))
        state.go_on(trials, chosen.stop, block.p)

    def _group_size(self, block: Rows, *, first: bool) -> int:
        """Return how many weights of the penalty are tried at once, at least 1; `first`: none was tried yet.

        With a squared loss the first weight is alone: its totals have the Hessians, which the other weights share.
        """
        quadratic = is_smooth(block.loss) and Traits.of(block.loss).quadratic
        if quadratic and first:
            return 1
        d = block.p + 1
        numbers = 4 * d if quadratic else d * (d + 1) // 2 + 4 * d
        return int(max(1, MOST_NUMBERS // (self.n_folds * numbers)))

    def _begun(self, block: Rows, state: CrossValidationState) -> HoldsModel:
        """Return the method's state for a new problem on `block`, at the coefficients at which all problems begin."""
        inner: HoldsModel = self.method.start(block, *state.start)
        if state.exponents is not None:
            self.method.rescale(inner, state.exponents)
        return inner

    def _training(self, block: Rows, fold: int) -> Rows:
        """Return a copy of a block's rows in which those that fold `fold` holds out have sample weight 0."""
        made = copy.copy(block)
        made.weight = [own.copy() for own in block.weight]
        for own in made.weight:
            own[rows_of_folds(len(own), self.n_folds)[fold]] = 0.0
        for cached in ("dual", "curvatures", "kernel_rows"):
            vars(made).pop(cached, None)
        return made

    # weights and the choice

    def _begin(self, block: Rows, state: CrossValidationState) -> AnyRounds:
        """Compute the weights to try, and the part of the rows' weight that each fold learns from.

        It is a generator: it yields one total, with the losses' slopes theta and curvatures h at the start, and is sent
        its sums. With an L1 penalty all coefficients are about zero from max_j |X_j' (theta - s h)| / l1_j on, where s
        = sum theta / sum h centres the slopes, if there is an intercept.
        """
        w, intercept = state.start
        z = np.concatenate([np.asarray(X @ w) for X in block.X]) + intercept
        theta = -block.dual.conjugate_subgradient(-z)
        bend = block.dual.conjugate_curvature(-z) if is_smooth(block.loss) else np.zeros(len(z))
        fields = {"held out": np.stack([self._by_fold(own) for own in block.weight])}
        if state.weights is None:
            fields |= {name: _sums_by_node(block, one) for name, one in (("slopes", theta), ("bends", bend))}
        sums = yield Total(fields, at=np.append(w, intercept))
        state.share_rows(1.0 - sums["held out"] / sums["held out"].sum())
        if state.weights is None:
            state.try_weights(self._weights(block, sums))

    def _weights(self, block: Rows, sums: Sums) -> Vector:
        """Return the weights of the penalty to try, descending, from the sums of the losses' slopes and curvatures."""
        slopes, bends = sums["slopes"], sums["bends"]
        shift = slopes[-1] / bends[-1] if block.fit_intercept and bends[-1] > 0 else 0.0
        l1 = _l1(block)
        top = float(np.max(np.abs(slopes[:-1] - shift * bends[:-1])[l1 > 0] / l1[l1 > 0]))
        if not top > 0:
            raise InvalidInput("cross-validation: the target does not depend on any column, so no weight can be chosen")
        return _rounded(np.geomspace(top, SMALLEST_WEIGHT * top, N_WEIGHTS))

    def _compare(self, block: Rows, state: CrossValidationState) -> AnyRounds:
        """Choose the weight by the losses of the rows held out.

        It is a generator: it yields one total with these losses, by fold and weight, and is sent its sums.
        """
        z = self._held_out(block, state.models)
        spans = [slice(a, b) for a, b in zip(block.starts[:-1], block.starts[1:], strict=True)]
        fields = {"weights": np.stack([self._by_fold(own) for own in block.weight])}
        for number in range(len(state.weights)):
            with np.errstate(over="ignore", invalid="ignore"):
                each = block.dual.conjugates(-z[:, number])
            losses = np.stack([self._by_fold(each[span]) for span in spans])
            fields[f"losses {number}"] = np.where(losses <= FAR, losses, FAR)
        sums = yield Total(fields, at=np.zeros(0))
        with np.errstate(divide="ignore", invalid="ignore"):
            means = np.stack([sums[f"losses {k}"] / sums["weights"] for k in range(len(state.weights))], axis=1)
        means[~np.isfinite(state.models).all(axis=2)] = np.nan
        state.choose(FoldCurve.of(state.weights, means, self.rule))

    def _held_out(self, block: Rows, models: Matrix) -> Matrix:
        """Return predictions for each hosted row by the models of the fold that holds it out, shape (m, n).

        `models` has the coefficients of F folds and n weights, the intercept last, shape (F, n, p + 1); NaN counts as
        0.
        """
        known = np.nan_to_num(models)
        out = np.empty((int(block.starts[-1]), known.shape[1]))
        for X, first in zip(block.X, block.starts, strict=False):
            for fold, rows in enumerate(rows_of_folds(X.shape[0], self.n_folds)):
                out[first + rows] = np.asarray(X[rows] @ known[fold, :, :-1].T) + known[fold, :, -1]
        return out

    def _by_fold(self, values: Vector) -> Vector:
        """Return the sum of one node's values, shape (m_k,), over the rows that each fold holds out, shape (F,)."""
        return np.array([values[rows].sum() for rows in rows_of_folds(len(values), self.n_folds)])


def _weighted(block: Rows, penalty: Table, alpha: float) -> Rows:
    """Return a copy of a block's rows with `alpha` times the penalty; what is cached of the rows is shared."""
    made = copy.copy(block)
    made.penalty = Table(alpha * penalty.l1, alpha * penalty.l2, alpha * penalty.linear, penalty.lo, penalty.hi)
    made.reduced = None
    return made


def _l1(block: Rows) -> Vector:
    """Return the factor of abs(w_j) in the penalty of each coefficient w_j, shape (p,)."""
    return np.broadcast_to(block.penalty.l1, block.p)


def _sums_by_node(block: Rows, values: Vector) -> Matrix:
    """Return X_k' v_k and, last, the sum of v_k for each hosted node k, shape (n_hosted, d).

    `values` has v, an entry for each of the m hosted rows; v_k are those of node k, and X_k are its rows.
    """
    parts: Sequence[Vector] = np.split(values, block.starts[1:-1])
    return np.stack([np.append(X.T @ own, own.sum()) for X, own in zip(block.X, parts, strict=True)])


def _rounded(weights: Vector) -> Vector:
    """Return weights of the penalty rounded to DIGITS significant digits, without repetitions, descending."""
    return np.unique([float(f"{one:.{DIGITS - 1}e}") for one in weights])[::-1].copy()
