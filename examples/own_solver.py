"""Bring your own local solver: proximal gradient in a dozen lines, beside the compiled default.

    python examples/own_solver.py

Between two exchanges node k decreases  <w, A D> + q/2 |A D|^2 + g(x + D)  over D, the change of its own variables.
It is given w (the gradient of f at its estimate), q = sigma'/tau, its columns A and its g; it never sees f. So one
solver serves every loss, and a poor one only needs more rounds. To stop at an accuracy Theta instead of after so many
passes, look at task.accuracy and task.gap_and_decrease(z).
"""

from dataclasses import dataclass

import numpy as np

import glmesh
from glmesh.linalg.norms import spectral_norm
from glmesh.solvers import NodeTask, NodewiseSolver
from glmesh.types import Vector


@dataclass(frozen=True)
class ProximalGradient(NodewiseSolver):
    """z <- prox_{s g}(z - s A^T (w + q A (z - x))), s = 1/(q |A|^2): `passes` times."""

    def solve_node(self, task: NodeTask) -> Vector:
        """The node's new variables."""
        step = 1.0 / max(task.q * spectral_norm(task.columns) ** 2, 1e-12)  # a zero matrix leaves only g: a long step
        z = task.x
        for _ in range(task.passes):
            slope = task.columns.transposed_dot(task.w + task.q * task.columns.dot(z - task.x))
            z = task.g.prox(z - step * slope, step)
        return z


def main() -> None:
    """Solves one Lasso with both solvers."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 100)) / np.sqrt(200)
    y = X[:, :5].sum(axis=1) + 0.1 * rng.standard_normal(200)
    problem = glmesh.Problem.glm(X, y, penalty="l1", alpha=0.05 * np.abs(X.T @ y).max())
    for name, method in (
        ("coordinate descent (default)", glmesh.Cola(local_passes=5)),
        ("proximal gradient (ours)", glmesh.Cola(local_passes=5, solver=ProximalGradient())),
    ):
        result = glmesh.solve(problem, method=method, n_nodes=8, tol=1e-6, record_every=10)
        print(f"{name:30}{result.message}")


if __name__ == "__main__":
    main()
