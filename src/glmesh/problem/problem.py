"""A generalised linear model as f(Ax) + g(x), and back.

Split by features: A = X, x the coefficients, f the loss, g the penalty.
Split by samples: the columns of A are samples, x the dual variables, f the conjugate of the penalty, g the duals of the
losses; the coefficients are w = grad f(Ax).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidData, InvalidInput
from glmesh.functions import Family, Loss, Separable, Softmax
from glmesh.problem.named import (
    Names,
    refuse_permuted,
)
from glmesh.problem.node_data import CompositeObjective, NodeData
from glmesh.problem.objectives import NodeObjectives
from glmesh.problem.offsets import OFFSET, hold_offset, with_offset
from glmesh.problem.parts import data_of_nodes
from glmesh.problem.spec import ProblemSpec, Split, loss_of
from glmesh.types import Data, Indices, Vector


class Problem(NodeObjectives):
    """Generalised linear model on given data, as an objective that is split over the nodes of a network.

    The objective, for coefficients w and an intercept b that is not penalised (0 without `fit_intercept`)::

        sum_i s_i loss(y_i, x_i.w + b) + alpha penalty(w)

    `Problem.glm` makes a problem of pooled data, which a run deals out to simulated nodes; `Problem.from_nodes` makes
    one of data that is already apart.

    Parameters
    ----------
    spec : ProblemSpec
        Loss, penalty and split.
    parts : list of NodeData
        The pooled data alone, or the data of each node.
    pooled : bool
        Whether `parts` is pooled data.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, solve
    >>> problem = Problem.glm(np.eye(3), np.array([3.0, -2.0, 0.5]), penalty="l1", alpha=1.0)
    >>> problem
    <Problem squared + l1, alpha=1, by features, pooled>
    >>> coef = solve(problem, n_nodes=2, tol=1e-9).coef
    >>> bool(np.allclose(coef, [2.0, -1.0, 0.0], atol=1e-4))
    True
    """

    def __init__(self, spec: ProblemSpec, parts: list[NodeData], pooled: bool) -> None:
        self.spec = spec
        self.parts = parts
        self.pooled = pooled
        self._composite: CompositeObjective | None = None

    @staticmethod
    def glm(
        X: Data,
        y: ArrayLike,
        *,
        loss: str | Loss | None = None,
        family: str | Family | Softmax | None = None,
        link: str | None = None,
        penalty: str | Separable = "l2",
        alpha: float = 1.0,
        l1_ratio: float | None = None,
        split: Split | None = None,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        fit_intercept: bool = False,
    ) -> Problem:
        """Return a problem on pooled data.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (m, p)
            One row per sample, one column per feature; finite numbers, converted to float64. `feature_names` keeps the
            names of a data frame's columns.
        y : array of shape (m,)
            Targets. Labels of a classification may be any two numbers; the larger is the positive class.
        loss : str or Loss, optional
            Name in `glmesh.functions.LOSSES`, by default "squared", or a `Loss` with a parameter of its own. "squared"
            is half the square, "squared_hinge" is max(0, 1 - y z)^2. Losses are summed over the samples, not averaged.
            It excludes `family`.
        family : str, Family or Softmax, optional
            Name in `glmesh.functions.FAMILIES`, or a `Family` with a parameter of its own: the loss is half a unit
            deviance then, and nodes hold rows. "multinomial": y holds the classes 0, 1, ..., C - 1, coefficients have a
            row for each; without a penalty the first class is the reference, with coefficients 0. `Softmax(C)` says how
            many classes there are, where not all have a row.
        link : str, optional
            Name of a link of the family, by default its usual one.
        penalty : {"l2", "l1", "elasticnet"} or Separable, default "l2"
            "l2" is half the squared norm, "elasticnet" is l1_ratio times "l1" plus (1 - l1_ratio) times "l2".
        alpha : float, default 1.0
            Factor of the penalty, >= 0.
        l1_ratio : float in [0, 1], optional
            Share of "l1" in "elasticnet", by default 0.5; refused with any other penalty.
        split : {"features", "samples"}, optional
            Whether a node is to hold columns of X or rows of X, by default "features", with a family "samples". Not
            every loss and penalty allows both; see docs/problems.md.
        sample_weight : array of shape (m,), optional
            Factors s_i >= 0 of the losses, by default 1; with a family prior weights (binomial: numbers of trials, of
            which y is the share of successes).
        offset : array of shape (m,), optional
            Numbers that are added to the linear predictor x_i.w + b of a family. It becomes the last column, whose
            coefficient is 1.
        fit_intercept : bool, default False
            Whether there is an intercept b, which is not penalised.

        Returns
        -------
        Problem
            A problem whose data `solve` deals out to the nodes.

        Raises
        ------
        InvalidInput
            An option is unknown or out of its range.
        InvalidData
            X, y or sample_weight are empty, not finite, or do not fit each other.
        UnsuitablePair
            Loss and penalty do not allow the split.

        Examples
        --------
        >>> import numpy as np
        >>> from glmesh import Problem
        >>> X, y = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]), np.array([0, 1, 1])
        >>> Problem.glm(X, y, loss="logistic", split="samples", alpha=0.1)
        <Problem logistic + l2, alpha=0.1, by samples, pooled>
        """
        if isinstance(penalty, list | tuple):
            raise InvalidInput("pooled data has one penalty; a list, one per node, goes with Problem.from_nodes")
        loss = loss_of(loss, family, link, [y])
        split = split or ("samples" if loss.by_likelihood else "features")
        spec = ProblemSpec.of(loss, penalty, alpha, l1_ratio, split, fit_intercept)
        for name, values in (("y", y), ("sample_weight", sample_weight)):
            refuse_permuted(X, values, name, "X")
        names: Names = None
        if offset is not None:
            X, names = with_offset(X, offset, "X")
            spec = hold_offset(spec, X.shape[1])
        data = NodeData(spec, X, y, sample_weight, names=names)
        if len(data.weight) and not np.any(data.weight):
            raise InvalidData("sample_weight is 0 for all rows, so that no row counts; expected one > 0")
        if data.m == 0 or data.p == 0:
            raise InvalidData(f"X is empty: {data.m} rows, {data.p} columns")
        problem = Problem(spec, [data], pooled=True)
        problem.check()
        return problem

    @staticmethod
    def from_nodes(
        parts: Sequence[tuple[Data, ...]],
        *,
        loss: str | Loss | None = None,
        family: str | Family | Softmax | None = None,
        link: str | None = None,
        penalty: str | Separable | Sequence[Separable] = "l2",
        alpha: float = 1.0,
        l1_ratio: float | None = None,
        split: Split = "samples",
        offsets: Sequence[ArrayLike] | None = None,
        fit_intercept: bool = False,
    ) -> Problem:
        """Return a problem on data that is already apart, one part per node.

        What the nodes must know of each other's data is agreed on by messages between neighbours when a run starts.

        Parameters
        ----------
        parts : sequence of (X_k, y_k) or (X_k, y_k, sample_weight_k)
            Data of node k. Split by samples, X_k holds rows and y_k their targets. Split by features, X_k holds
            columns and all nodes have the same y and weights; coefficients come back in the order of the nodes.
            Columns of data frames go by name: split by samples they are put in the order of the first part, split by
            features no two parts may have a name in common.
        loss : str or Loss, optional
            Name in `glmesh.functions.LOSSES`, by default "squared", or a `Loss` with a parameter of its own; summed
            over all samples. It excludes `family`.
        family : str, Family or Softmax, optional
            Name in `glmesh.functions.FAMILIES`, or a `Family` with a parameter of its own: the loss is half a unit
            deviance then. "multinomial": y holds the classes 0, 1, ..., C - 1, coefficients have a row for each.
        link : str, optional
            Name of a link of the family, by default its usual one.
        penalty : {"l2", "l1", "elasticnet"} or Separable or sequence of Separable, default "l2"
            Penalty of the coefficients; a sequence (split by features) has one of a kind for each node.
        alpha : float, default 1.0
            Factor of the penalty, >= 0.
        l1_ratio : float in [0, 1], optional
            Share of "l1" in "elasticnet", by default 0.5; refused with any other penalty.
        split : {"samples", "features"}, default "samples"
            Whether the nodes hold rows or columns.
        offsets : sequence of arrays of shape (m_k,), optional
            Numbers that are added to the linear predictors of each node's rows, with a family. They become the last
            column, whose coefficient is 1.
        fit_intercept : bool, default False
            Whether there is an intercept b, which is not penalised.

        Returns
        -------
        Problem
            A problem for a run with as many nodes as parts.

        Raises
        ------
        InvalidInput
            An option is unknown or out of its range.
        InvalidData
            A part is malformed or not finite, or all are empty.
        Mismatch
            Parts have other names of columns, other labels or other targets than most parts.
        UnsuitablePair
            Loss and penalty do not allow the split.

        Examples
        --------
        >>> import numpy as np
        >>> from glmesh import Problem
        >>> hospitals = [(np.eye(3), np.arange(3.0)), (np.ones((1, 3)), np.array([1.0]))]
        >>> Problem.from_nodes(hospitals, loss="huber")
        <Problem huber + l2, alpha=1, by samples, on 2 nodes>
        """
        targets = [part[1] for part in parts if isinstance(part, tuple | list) and len(part) in (2, 3)]
        spec = ProblemSpec.of(loss_of(loss, family, link, targets), penalty, alpha, l1_ratio, split, fit_intercept)
        return Problem(*data_of_nodes(parts, spec, offsets), pooled=False)

    def check(self) -> None:
        """Raise InvalidData or InvalidInput if the nodes' data and the penalty do not make one problem together."""
        if self.spec.split == "features":
            _ = self.composite
        else:
            summary = self.summary
            for k, part in enumerate(self.parts):
                part.check(summary, k)

    def grown(
        self,
        part: int,
        X: Data,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        penalty: Separable | None = None,
    ) -> Problem:
        """Return a new Problem with more columns at the end of the data of node `part` (0 for pooled data).

        Split by features X holds new features, split by samples new rows; y and sample_weight are those of new samples.
        `penalty` is that of new features, before it is multiplied by alpha; None: that of the old ones.
        """
        before = self.parts[part]
        after = before.grown(X, y, sample_weight)
        if self.spec.split == "samples":
            self._check_labels(after.y[before.m :])
        grown = self.spec.grown_penalty(part, penalty, before.columns.n, after.columns.n - before.columns.n)
        return self._with(part, after, grown)

    def _check_labels(self, labels: Vector) -> None:
        """Raise InvalidData if labels of new samples are not among the two classes of a classification."""
        classes = self.classes
        strange = [] if classes is None else [label for label in labels if label not in classes]
        if classes is not None and strange:
            raise InvalidData(f"new labels hold {strange[0]:g}; the classes are {classes[0]:g}, {classes[1]:g}")

    def shrunk(self, part: int, kept: Indices) -> Problem:
        """Return a new Problem in which node `part` (0 for pooled data) keeps only the columns with indices `kept`."""
        new = self._with(part, self.parts[part].shrunk(kept), self.spec.shrunk_penalty(part, kept))
        if new.n == 0:
            raise InvalidInput("no column would be left")
        return new

    def _with(self, part: int, data: NodeData, penalty: Separable) -> Problem:
        """Return a new Problem in which node `part` (0 for pooled data) has the NodeData `data` and another penalty."""
        spec = self.spec.with_penalty(part, penalty, None if self.pooled else len(self.parts))
        parts = [(data if k == part else other).with_spec(spec) for k, other in enumerate(self.parts)]
        new = Problem(spec, parts, self.pooled)
        new.check()  # before anything is changed
        return new

    def with_alpha(self, alpha: float) -> Problem:
        """Return the problem with another factor of the penalty; data and columns are shared.

        Parameters
        ----------
        alpha : float
            New factor, > 0.

        Returns
        -------
        Problem
            A problem on the same data.

        Raises
        ------
        InvalidInput
            The old or the new factor is not a finite number > 0.

        Examples
        --------
        >>> import numpy as np
        >>> from glmesh import Problem
        >>> Problem.glm(np.eye(3), np.ones(3)).with_alpha(0.25)
        <Problem squared + l2, alpha=0.25, by features, pooled>
        """
        return self._respecified(self.spec.with_alpha(alpha))

    def with_targets(self, targets: Sequence[ArrayLike], weights: Sequence[ArrayLike]) -> Problem:
        """Return the problem with other targets and sample weights on the same rows; data and columns are shared.

        Parameters
        ----------
        targets, weights : sequence of arrays of shape (m_k,)
            y and sample weights of the pooled data alone, or of each node.

        Returns
        -------
        Problem
            A problem with the loss and penalty of this one.

        Raises
        ------
        InvalidData
            An array has another length than there are rows, or holds what is no target or no weight.
        """
        both = zip(self.parts, targets, weights, strict=True)
        new = copy.copy(self)
        new.parts, new._composite = [part.with_targets(y, weight) for part, y, weight in both], None
        vars(new).pop("primal", None)
        new.check()
        return new

    def with_clusters(self, clusters: Sequence[ArrayLike]) -> Problem:
        """Return the problem with clusters of rows inside of each node's data, which is apart; columns are shared.

        A fit of a family without a penalty then sums what standard errors of kind "cluster" need, in its own totals.

        Parameters
        ----------
        clusters : sequence of array-likes of shape (m_k,)
            Labels of the rows of each node; equal labels at two nodes are two clusters.

        Returns
        -------
        Problem
            A problem on the same data.

        Raises
        ------
        InvalidInput
            The data is pooled, so that a cluster may come to lie at several nodes.
        InvalidData
            There is not a label, a text or a number, for each row.
        """
        if self.pooled or len(clusters) != len(self.parts):
            raise InvalidInput(
                f"clusters are inside of the data of nodes, and there are {0 if self.pooled else len(self.parts)} such "
                f"parts, got clusters of {len(clusters)}; take Problem.from_nodes, and give one array for each part"
            )
        new = copy.copy(self)
        new.parts = [part.with_clusters(own) for part, own in zip(self.parts, clusters, strict=True)]
        return new

    def named(self, names: Sequence[str] | None) -> Problem:
        """Return the problem with these names of its p features, in the order of the coefficients; None: as it is.

        An offset, the last column, has a name of its own. Split by features, nodes take the names of their own columns.
        """
        if names is None:
            return self
        own = (*names, OFFSET) if self.spec.offset else tuple(names)
        apart = self.spec.split == "features" and not self.pooled
        ends = np.cumsum([part.p for part in self.parts]) if apart else np.full(len(self.parts), len(own))
        for part, end in zip(self.parts, ends, strict=True):
            part.names = own[end - part.p : end] if apart else own
        return self

    def anchored(self, intercept: float) -> Problem:
        """Return a copy of the problem whose unpenalised intercept is held near `intercept` (split by samples)."""
        return self._respecified(replace(self.spec, anchor=float(intercept)))

    def _respecified(self, spec: ProblemSpec) -> Problem:
        """Return a copy of the problem with the matrix A that it has and the functions f and g of another `spec`."""
        new = Problem(spec, [part.with_spec(spec) for part in self.parts], self.pooled)
        if self._composite is None:
            return new
        summary = new.summary
        both = [part.functions(summary, k) for k, part in enumerate(new.parts)]
        g = both[0][1].join([g for _, g in both], [part.columns.n for part in new.parts])
        new._composite = CompositeObjective(self.composite.columns, both[0][0], g)
        return new

    def in_common(self) -> dict[str, object]:
        """Return {name: value} of what all processes of a run must hold alike: shapes, feature names, and the data.

        Processes compare it to refuse runs on different data.
        """
        shapes = [(part.columns.d, part.columns.n) for part in self.parts]
        return {
            "parts": len(shapes),
            "data of shape": shapes[0] if len(shapes) == 1 else shapes,
            "names of features": self.feature_names,
            "data": [(part.columns, part.y, part.weight, part.clusters) for part in self.parts],
        }

    @property
    def model(self) -> ProblemSpec:
        """Deprecated name of `spec`."""
        warnings.warn("Problem.model is now Problem.spec", DeprecationWarning, stacklevel=2)
        return self.spec

    @property
    def form(self) -> CompositeObjective:
        """Deprecated name of `composite`."""
        warnings.warn("Problem.form is now Problem.composite", DeprecationWarning, stacklevel=2)
        return self.composite

    def __repr__(self) -> str:
        where = "pooled" if self.pooled else f"on {len(self.parts)} nodes"
        spec = self.spec
        return f"<Problem {spec.loss.name} + {spec.penalty_name}, alpha={spec.alpha:g}, by {spec.split}, {where}>"
