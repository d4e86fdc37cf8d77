"""One problem for many weights of its penalty, all at once or each starting from where the one before it ended.

Least squares by rows are solved for all weights at once, from one total of Gram matrices. Else the run goes on:
variables, estimates and what the nodes agreed on stay, only the penalty's weight changes. So the nodes need not come to
agree anew, which is what a warm start from coefficients alone would cost. And every node goes ahead along the line
through its last two solutions: with L1 penalties and a squared loss that is where the next solution is, as long as no
coefficient becomes zero or stops being zero.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from glmesh.core import Certificate
from glmesh.core.records import PathSolutions
from glmesh.engine.agreement import require_same, versions
from glmesh.engine.result import Result, Status
from glmesh.engine.run import Run
from glmesh.engine.solve import Runtime, advance, process_group
from glmesh.engine.together import require_same_problems
from glmesh.errors import InvalidInput
from glmesh.problem import Problem
from glmesh.types import Matrix, Vector


@dataclass(frozen=True)
class Path:
    """Solutions of one problem for a sequence of weights of its penalty, one Result per weight.

    Rounds, communications, bytes and seconds of a result are what its own weight took; if all weights were solved at
    once, what all of them took.
    """

    alphas: Vector  # (n_alphas,) weights of the penalty, in the order in which they were given
    results: tuple[Result, ...]  # one per weight
    at_once: bool = False  # whether all weights were solved at once

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
        return _cost([result.communications for result in self.results], self.at_once)

    @property
    def bytes(self) -> int:
        """Return the bytes sent over all links along the whole path."""
        return _cost([result.bytes for result in self.results], self.at_once)


def _cost(each: list[int], at_once: bool) -> int:
    """Return what a path took of which each result tells its own share, or all of it."""
    return max(each) if at_once else sum(each)


@dataclass(frozen=True)
class Paths:
    """Solutions of several problems on the same rows, each for many weights of its penalty, all solved at once."""

    solutions: list[PathSolutions]  # one per problem
    communications: int
    bytes: int
    seconds: float


def solve_paths(
    problems: Sequence[Problem],
    alphas: Sequence[Vector],
    *,
    tol: float = 1e-4,
    max_rounds: int = 10_000,
    runtime: Runtime = "simulation",
    **options: Any,
) -> Paths | None:
    """Solve several problems on the same rows, each for the weights of its penalty in alphas[k], all at once.

    None is returned if the method cannot: it is for least squares with `ProximalNewton`, up to 500 coefficients. The
    options are those of `solve_path`.
    """
    with process_group(runtime) as processes:
        require_same(processes, versions() | {"tol": tol, "max_rounds": max_rounds, "alphas": list(alphas)})
        require_same_problems(processes, problems, [None] * len(problems))
        with Run(problems[0], processes=processes, **options) as run:
            return _at_once(run, problems[1:], alphas, tol, max_rounds)


def _at_once(
    run: Run, others: Sequence[Problem], alphas: Sequence[Vector], tol: float, max_rounds: int
) -> Paths | None:
    """Return the solutions of a run's problem and others for their weights, if its method solves all at once."""
    began = time.perf_counter()
    found = run.nodes.along([run.nodes.beside(problem, None) for problem in others], alphas, tol, max_rounds)
    if found is None:
        return None
    return Paths(found, run.communications, run.bytes, time.perf_counter() - began)


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
            made = _at_once(run, [], [weights], tol, max_rounds)
            if made is not None:
                status = Status.CERTIFIED if certify else Status.CONVERGED
                return Path(weights, tuple(_results(run, weights, made, status, tol)), at_once=True)
            return Path(weights, tuple(_along(run, weights, tol, max_rounds, stop, record_every)))


def _results(run: Run, weights: Vector, made: Paths, status: Status, tol: float) -> list[Result]:
    """Return one Result per weight of solutions that were found at once; those within `tol` have this status."""
    found, results = made.solutions[0], []
    cost: dict[str, Any] = {"communications": made.communications, "bytes": made.bytes, "seconds": made.seconds}
    for k, alpha in enumerate(weights):
        coef, objective, gap = found.coefs[k], float(found.objective[k]), float(found.gap[k])
        rounds, proof = int(found.rounds[k]), None
        if status is Status.CERTIFIED and np.isfinite(gap):
            proof = Certificate(rounds, gap, objective - gap, objective)
        bound = np.nan if proof is None else gap
        record = {"round": rounds, **cost, "objective": objective, "h": np.nan, "gap": gap, "consensus": np.nan}
        record |= {"certificate": bound, "theta": np.nan}
        results.append(
            Result(
                x=None,
                coef=coef,
                intercept=float(found.intercepts[k]),
                rounds=rounds,
                **cost,
                gap=gap,
                objective=objective,
                status=status if gap <= tol * abs(objective) else Status.OUT_OF_ROUNDS,
                tol=tol,
                history={name: np.array([value]) for name, value in record.items()},
                certificate=proof,
                estimates=np.broadcast_to(coef, (run.n_nodes, len(coef))),
                problem=run.problem.with_alpha(float(alpha)),
                copies=True,
            )
        )
    return results


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
