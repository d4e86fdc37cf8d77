"""Averages of iterates, whose gap Theorem 2 bounds."""

import numpy as np

from glmesh.engine.run import Run
from glmesh.errors import UnsuitablePair
from glmesh.functions import Table
from glmesh.theory.constants import gossip_steps, support_bound
from glmesh.types import Vector


class AveragedIterates:
    """Averages over rounds of x, v'_k = sum_l W_kl v_l and w_k = grad f(v'_k); Theorem 2 bounds their duality gap.

    Parameters
    ----------
    run : Run
        A run of Cola; call `add` in each round t = T_0 ... T - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, Run, theory
    >>> X = np.random.default_rng(0).normal(size=(30, 8))
    >>> run = Run(Problem.glm(X, X[:, 0], penalty="l1", alpha=1.0), n_nodes=4)
    >>> averages = theory.AveragedIterates(run)
    >>> for _ in range(5):
    ...     averages.add()
    ...     _ = next(run)
    >>> averages.gap() >= 0
    True
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.count = 0
        self.x = np.zeros(run.problem.n)
        self.v = np.zeros((run.n_nodes, run.blocks[0].d))
        self.w = np.zeros_like(self.v)

    def add(self) -> None:
        """Update the averages with the variables, mixed estimates and gradients of the run's present round."""
        self.count += 1
        mixed = self.run.estimates
        for _ in range(gossip_steps(self.run)):
            mixed = self.run.mixing.matrix @ mixed
        f = self.run.problem.composite.f
        for mean, new in ((self.x, self.run.x), (self.v, mixed), (self.w, [f.gradient(row) for row in mixed])):
            mean += (np.asarray(new) - mean) / self.count

    def gap(self) -> float:
        """Return the absolute duality gap G_H at the averages of all rounds that were added, which Theorem 2 bounds.

        Under an L1 penalty each coefficient is restricted to an interval that contains the solution's, so that the gap
        is finite.
        """
        form, n_nodes = self.run.problem.composite, self.run.n_nodes
        pulls: Vector = -form.columns.transposed_dot(self.w.mean(axis=0))
        g = form.g
        if g.needs_scaling:
            if g.as_table() is None:
                raise UnsuitablePair("Theorem 2 needs a bounded support; a group norm has none")
            bound = support_bound(self.run)
            rows = g.kernel_rows(form.columns.n)
            lo, hi = np.maximum(rows[:, 3], -bound), np.minimum(rows[:, 4], bound)
            g = Table(rows[:, 0], rows[:, 1], rows[:, 2], lo, hi)
        pairs = sum(form.f.value(v) + form.f.conjugate(w) for v, w in zip(self.v, self.w, strict=True))
        return float(pairs / n_nodes + g.value(self.x) + g.conjugate(pulls))
