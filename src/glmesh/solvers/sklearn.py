"""Coordinate descent of scikit-learn as a local solver."""

import threading
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from glmesh.errors import UnsuitablePair
from glmesh.functions import Separable
from glmesh.solvers.base import NodeTask, NodewiseSolver
from glmesh.types import Vector

_FILTERS = threading.Lock()  # filters of warnings are those of the whole process, not of a thread


@dataclass(frozen=True)
class SklearnCoordinateDescent(NodewiseSolver):
    """`sklearn.linear_model.ElasticNet` as the local solver, as in the paper.

    The subproblem in z = x + D is q/2 ``|A z - (A x - w/q)|^2`` + l1 ``|z|_1`` + l2/2 ``|z|^2``. All columns of a node
    have one (l1, l2), and no bounds but z >= 0.

    Parameters
    ----------
    selection : {"cyclic", "random"}, default "cyclic"
        Order of the columns; "random" draws with replacement, from (seed, node, round).

    Notes
    -----
    A target Theta becomes scikit-learn's tolerance Theta/10, and `Run.theta` has the accuracy that was reached.

    Examples
    --------
    >>> import numpy as np
    >>> import glmesh
    >>> from glmesh.solvers import SklearnCoordinateDescent
    >>> problem = glmesh.Problem.glm(np.eye(4), np.array([3.0, 2.0, 1.0, 0.0]), penalty="l1", alpha=0.5)
    >>> result = glmesh.solve(problem, method=glmesh.Cola(solver=SklearnCoordinateDescent()), n_nodes=2, tol=1e-6)
    >>> [round(float(value), 4) for value in result.coef]
    [2.5, 1.5, 0.5, 0.0]
    """

    selection: Literal["cyclic", "random"] = "cyclic"

    def check(self, g: Separable) -> None:
        """Raise UnsuitablePair for all penalties but L1, L2 and elastic net, each with or without x >= 0."""
        table = g.as_table()
        plain = (
            table is not None
            and not table.linear.any()
            and bool(np.isposinf(table.hi).all())
            and len(np.unique(table.l1)) <= 1
            and len(np.unique(table.l2)) <= 1
            and bool(np.isneginf(table.lo).all() or (table.lo == 0).all())
        )
        if not plain:
            raise UnsuitablePair(
                "scikit-learn's coordinate descent solves L1, L2 and elastic-net subproblems, the same for all "
                "columns, at most with x >= 0. Use solver=CoordinateDescent() for the rest of the catalogue."
            )

    def solve_node(self, task: NodeTask) -> Vector:
        """Return the node's variables, shape (n,), after at most `passes` iterations of scikit-learn from task.x."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import ElasticNet

        if task.rows is not None:
            raise UnsuitablePair(
                "scikit-learn's coordinate descent knows one curvature for all rows of the data. "
                "Use solver=CoordinateDescent(), which takes a weight per row."
            )
        table = task.g.as_table()
        assert table is not None  # `check` refuses others
        l1, l2 = float(table.l1.flat[0]), float(table.l2.flat[0])
        target = task.columns.dot(task.x) - task.w / task.q
        scale = task.q * task.columns.d  # scikit-learn divides the square by the number of rows
        total = (l1 + l2) / scale
        model = ElasticNet(
            alpha=total,
            l1_ratio=l1 / (l1 + l2) if l1 + l2 > 0 else 1.0,
            fit_intercept=False,
            max_iter=task.passes,
            tol=0.0 if task.accuracy is None else 0.1 * task.accuracy,
            positive=bool(np.all(table.lo == 0)),
            warm_start=True,
            selection=self.selection,
            random_state=int(np.random.SeedSequence(task.key).generate_state(1)[0]),
        )
        model.coef_ = task.x.copy()
        matrix = task.columns.to_scipy()
        if not task.columns.dense:  # scikit-learn takes 32-bit indices only
            matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the passes are the budget, not a failure
            warnings.filterwarnings(
                "ignore", message=".*alpha=0.*|.*l1_reg=0.*|.*no regularization.*", category=UserWarning
            )
            model.fit(matrix, target)
        new = np.array(model.coef_, dtype=np.float64)
        new[task.columns.norms == 0] = 0.0  # scikit-learn leaves empty columns as they were; here 0 minimises g
        return new
