"""One problem for many weights of its penalty, each starting from where the one before it ended.

The run goes on: variables, estimates and what the nodes agreed on stay, only the penalty's weight changes. So the nodes
need not come to agree anew, which is what a warm start from coefficients alone would cost. And every node goes ahead
along the line through its last two solutions: with L1 penalties and a squared loss that is where the next solution is,
as long as no coefficient becomes zero or stops being zero.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glmesh.engine.agreement import require_same, versions
from glmesh.engine.result import Result
from glmesh.engine.run import Run
from glmesh.engine.solve import Runtime, advance, process_group
from glmesh.errors import InvalidInput
from glmesh.problem import Problem
from glmesh.types import Matrix, Vector


@dataclass(frozen=True)
class Path:
    """Solutions of one problem for a sequence of weights of its penalty, one Result per weight.

    Rounds, communications, bytes and seconds of a result are what its own weight took.
    """

    alphas: Vector  # (n_alphas,) weights of the penalty, in the order in which they were solved
    results: tuple[Result, ...]  # one per weight

    @property
    def coefs(self) -> Matrix:
        """Return the coefficients of all solutions, shape (p, n_alphas)."""
        return np.stack([result.coef for result in self.results], axis=1)

    @property
    def intercepts(self) -> Vector:
        """Return the intercepts of all solutions, shape (n_alphas,)."""
        return np.array([result.intercept for result in self.results])

    @property
    def communications(self) -> int:
        """Return the number of exchanges with their neighbours that nodes waited for along the whole path."""
        return sum(result.communications for result in self.results)

    @property
    def bytes(self) -> int:
        """Return the bytes sent over all links along the whole path."""
        return sum(result.bytes for result in self.results)


def solve_path(
    problem: Problem,
    alphas: ArrayLike,
    *,
    tol: float = 1e-4,
    max_rounds: int = 10_000,
    stop: Literal["gap", "certificate"] = "gap",
    record_every: int = 1,
    runtime: Runtime = "simulation",
    **options: Any,
) -> Path:
    """Solve a problem for each weight of its penalty in turn, going on from the solution before; return a Path.

    `alphas` are best given from large to small. tol, max_rounds (per weight), stop, record_every and runtime are those
    of `solve`; the other options those of `Run`.
    """
    with process_group(runtime) as processes:
        loop = {"tol": tol, "max_rounds": max_rounds, "stop": stop, "record_every": record_every}
        require_same(processes, versions() | loop | {"alphas": np.asarray(alphas)})
        if stop not in ("gap", "certificate"):
            raise InvalidInput(f"stop must be 'gap' or 'certificate', got {stop!r}")
        weights = np.asarray(alphas, dtype=np.float64)
        if weights.ndim != 1 or not len(weights) or not (weights > 0).all():
            raise InvalidInput("alphas must be positive numbers, at least one")
        first = problem.with_alpha(float(weights[0]))
        certify = stop == "certificate"
        with Run(first, certify=certify, tol=tol if certify else None, processes=processes, **options) as run:
            return Path(weights, tuple(_along(run, weights, tol, max_rounds, stop, record_every)))


def _along(run: Run, weights: Vector, tol: float, max_rounds: int, stop: str, record_every: int) -> list[Result]:
    """Return one Result per weight, all from this one run; its history begins anew with each weight."""
    results: list[Result] = []
    before: tuple[float, Any] | None = None  # the weight before the last one, and its solution
    last = float(weights[0])
    for alpha in weights:
        if results:
            here = run.nodes.mark()
            run.set_alpha(float(alpha))
            if before is not None:
                run.nodes.go_ahead(before[1], (float(alpha) - last) / (last - before[0]))
            before = last, here
            run.history.clear()
        cost = {name: getattr(run, name) for name in ("rounds", "communications", "bytes", "seconds")}
        result = advance(run, tol=tol, max_rounds=run.rounds + max_rounds, stop=stop, record_every=record_every)
        results.append(replace(result, **{name: getattr(run, name) - spent for name, spent in cost.items()}))
        last = float(alpha)
    return results
