"""
Bring your own local solver
===========================

Between two exchanges a node improves its own coefficients, by any solver that you like. Here are a dozen lines of
proximal gradient beside the compiled coordinate descent. Both end at the same Lasso; a poorer solver needs more
rounds, and more passes in each round make up for it.
"""

# %%
# Node k decreases ``<w, A D> + q/2 |A D|^2 + g(x + D)`` over D, the change of its own variables. It is given w (the
# gradient of f at its estimate), q, its columns A and its g; it never sees f, so one solver serves every loss.
from dataclasses import dataclass

import numpy as np

import glmesh
from glmesh import plot
from glmesh.linalg.norms import spectral_norm
from glmesh.solvers import NodeTask, NodewiseSolver
from glmesh.types import Vector


@dataclass(frozen=True)
class ProximalGradient(NodewiseSolver):
    """z <- prox_{s g}(z - s A^T (w + q A (z - x))), s = 1/(q |A|^2): `passes` times."""

    def solve_node(self, task: NodeTask) -> Vector:
        """Return the node's new variables."""
        step = 1.0 / max(task.q * spectral_norm(task.columns) ** 2, 1e-12)  # a zero matrix leaves only g: a long step
        z = task.x
        for _ in range(task.passes):
            slope = task.columns.transposed_dot(task.w + task.q * task.columns.dot(z - task.x))
            z = task.g.prox(z - step * slope, step)
        return z


# %%
# To stop at an accuracy instead of after so many passes, look at ``task.accuracy`` and ``task.gap_and_decrease(z)``.
rng = np.random.default_rng(0)
X = (rng.standard_normal((200, 100)) + rng.standard_normal((200, 1))) / np.sqrt(
    200
)  # features that resemble each other
y = X[:, :5].sum(axis=1) + 0.1 * rng.standard_normal(200)
problem = glmesh.Problem.glm(X, y, penalty="l1", alpha=0.05 * np.abs(X.T @ y).max())
ours = glmesh.solvers.CoordinateDescent()
runs = [("coordinate descent", ours, 1), *(("proximal gradient", ProximalGradient(), passes) for passes in (16, 4, 1))]
options = {"topology": "complete", "n_nodes": 4, "tol": 1e-5, "record_every": 5}
results = []
for name, solver, passes in runs:
    method = glmesh.Cola(local_passes=passes, solver=solver, acceleration="none")
    results.append(glmesh.solve(problem, method=method, **options))
    print(f"{name}, passes in a round: {passes}. {results[-1].message}")

# %%
# One pass of coordinate descent against 16, 4 and 1 of proximal gradient.
figure, axes = plot.subplots(height=4.8)
for (name, _, passes), result in zip(runs, results, strict=True):
    colour = plot.COLOURS["blue" if passes == 1 and name.startswith("coordinate") else "orange"]
    at, gap = result.history["round"][1:], (result.history["gap"] / result.history["objective"])[1:]
    axes.plot(at, gap, color=colour, linewidth=2)
    axes.annotate(
        f"{passes}", (at[-1], gap[-1]), (0, -5), textcoords="offset points", color=colour, ha="center", va="top"
    )
axes.text(90, 1e-4, "coordinate descent,\n1 pass a round", color=plot.COLOURS["blue"], ha="right")
axes.text(330, 0.2, "proximal gradient,\n16, 4 or 1 passes", color=plot.COLOURS["orange"])
axes.set(xscale="log", yscale="log", xlabel="rounds", xlim=(5, 4000), ylim=(2e-6, 2))
axes.set_xticks([10, 100, 1000], ["10", "100", "1000"])
axes.set_title("duality gap, relative", loc="left")
axes.minorticks_off()
