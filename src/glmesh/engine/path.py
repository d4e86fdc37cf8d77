"""One problem for many weights of its penalty, all at once or each starting from where the one before it ended.

On totals many weights are solved together, least squares all at once from one total of Gram matrices. Else the run
goes on: variables, estimates and what the nodes agreed on stay, only the penalty's weight changes. So the nodes need
not come to agree anew, which is what a warm start from coefficients alone would cost. And every node goes ahead along
the line through its last two solutions: with L1 penalties and a squared loss that is where the next solution is, as
long as no coefficient becomes zero or stops being zero.
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
from glmesh.engine.stopping import Loop
from glmesh.engine.telling import how_of
from glmesh.engine.together import advance_together, group_size, require_same_problems
from glmesh.errors import InvalidInput
from glmesh.parallel import one_blas_thread
from glmesh.problem import Problem
from glmesh.types import Matrix, Vector


@dataclass(frozen=True)
class Path:
    """Solutions of one problem for a sequence of weights of its penalty, one Result per weight.

    Rounds, communications, bytes and seconds of a result are those of its own weight. Only for weights that were solved
    together, the last three are those of all of them.
    """

    alphas: Vector  # (n_alphas,) weights of the penalty, in the order in which they were given
    results: tuple[Result, ...]  # one per weight
    communications: int  # exchanges with their neighbours that nodes waited for along the whole path
    bytes: int  # sent over all links along the whole path

    @property
    def coefs(self) -> Matrix:
        """Return the coefficients of all solutions, shape (p, n_alphas)."""
        return np.stack([result.coef for result in self.results], axis=1)

    @property
    def intercepts(self) -> Vector:
        """Return the intercepts of all solutions, shape (n_alphas,)."""
        return np.array([result.intercept for result in self.results])


@dataclass(frozen=True)
class Paths:
    """Solutions of several problems on the same rows, each for many weights of its penalty.

    Communications (exchanges that nodes waited for) and bytes (over all links) are those of all problems and weights
    together.
    """

    solutions: list[PathSolutions]  # one per problem
    communications: int  # exchanges that nodes waited for
    bytes: int  # over all links


def solve_paths(
    problems: Sequence[Problem],
    alphas: Sequence[Vector],
    *,
    tol: float = 1e-4,
    max_rounds: int = 10_000,
    runtime: Runtime = "simulation",
    **options: Any,
) -> Paths:
    """Solve several problems on the same rows by a method on totals, problem k for the penalty weights alphas[k].

    All alphas[k] have the same length. Least squares with up to 500 coefficients are solved for all weights at once;
    otherwise some weights of all problems are solved together, and the next ones begin where these ended. `tol`,
    `max_rounds` (per weight) and `runtime` are those of `solve`, the other options those of `Run`.
    """
    with process_group(runtime) as processes:
        require_same(processes, versions() | {"tol": tol, "max_rounds": max_rounds, "alphas": list(alphas)})
        require_same_problems(processes, problems, [None] * len(problems))
        loop = Loop(tol, max_rounds, "gap")
        with one_blas_thread(), Run(problems[0], processes=processes, **options) as run:
            found = run.nodes.along([run.nodes.beside(one, None) for one in problems[1:]], alphas, tol, max_rounds)
            if found is None:
                found = [_solutions_of(results) for results in _in_groups(run, problems, alphas, loop)]
            return Paths(found, run.communications, run.bytes)


def _solutions_of(results: Sequence[Result]) -> PathSolutions:
    """Return several results as one PathSolutions: arrays of coefficients, intercepts, objectives, gaps and rounds.

    Row i of each array is of results[i].
    """
    return PathSolutions(
        np.stack([result.coef for result in results]),
        np.array([result.intercept for result in results]),
        np.array([result.objective for result in results]),
        np.array([result.gap for result in results]),
        np.array([result.rounds for result in results]),
    )


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
    """Solve a problem for each weight of its penalty; return a Path.

    Methods on totals solve many weights together, others go on from the solution before. `alphas` are best given from
    large to small. tol, max_rounds (per weight), stop, record_every and runtime are those of `solve`; the other options
    those of `Run`.
    """
    with process_group(runtime) as processes:
        said = {"tol": tol, "max_rounds": max_rounds, "stop": stop, "record_every": record_every}
        require_same(processes, versions() | said | {"alphas": np.asarray(alphas)})
        if stop not in ("gap", "certificate"):
            raise InvalidInput(f"stop must be 'gap' or 'certificate', got {stop!r}")
        weights = np.asarray(alphas, dtype=np.float64)
        if weights.ndim != 1 or not len(weights) or not (weights > 0).all():
            raise InvalidInput("alphas must be positive numbers, at least one")
        first, loop = problem.with_alpha(float(weights[0])), Loop(tol, max_rounds, stop, record_every)
        certify = loop.proven is not None
        with (
            Run(first, certify=certify, tol=loop.proven, processes=processes, **options) as run,
            one_blas_thread(),
        ):
            results = _path_of(run, weights, loop)
            return Path(weights, tuple(results), run.communications, run.bytes)


def _path_of(run: Run, weights: Vector, loop: Loop) -> list[Result]:
    """Return a list with one Result for each of the `weights` of the penalty of the run's problem.

    A method on totals solves many weights together, other methods start each from the solution before.
    """
    if not run.nodes.primal or run.nodes.transport.fails:
        return _along(run, weights, loop)
    began = time.perf_counter()
    made = run.nodes.along([], [weights], loop.tol, loop.max_rounds)
    if made is None:
        return _in_groups(run, [run.problem], [weights], loop)[0]
    return _results(run, weights, made[0], time.perf_counter() - began, loop)


def _in_groups(run: Run, problems: Sequence[Problem], alphas: Sequence[Vector], loop: Loop) -> list[list[Result]]:
    """Return, per problem k, a list with one Result for each weight in alphas[k], solved in groups of weights.

    A group has as many weights as fit into one total, and begins where the group before it ended. The problems have the
    rows of `run`, whose own problem is the first of them.
    """
    found: list[list[Result]] = [[] for _ in problems]
    size = max(1, group_size(run) // len(problems))
    for at in range(0, len(alphas[0]), size):
        starts = [results[-1] if results else None for results in found]
        runs = [
            run.beside(problem.with_alpha(float(alpha)), start)
            for problem, each, start in zip(problems, alphas, starts, strict=True)
            for alpha in each[at : at + size]
        ]
        cost = {name: getattr(run, name) for name in ("communications", "bytes")}
        made = iter(advance_together(runs, loop))
        for results, each in zip(found, alphas, strict=True):
            some = [next(made) for _ in each[at : at + size]]
            results += [replace(r, **{name: getattr(r, name) - spent for name, spent in cost.items()}) for r in some]
    return found


def _results(run: Run, weights: Vector, found: PathSolutions, seconds: float, loop: Loop) -> list[Result]:
    """Return one Result for each of the `weights` of the penalty, from the solutions `found` of all weights at once.

    `seconds` is the wall time that all of them took. Every Result has the communications, bytes and seconds of all of
    them together.
    """
    status, tol = Status.CONVERGED if loop.proven is None else Status.CERTIFIED, float(loop.tol)
    cost: dict[str, Any] = {"communications": run.communications, "bytes": run.bytes, "seconds": seconds}
    results = []
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
                names=run.problem.feature_names,
                how=how_of(run),
            )
        )
    return results


def _along(run: Run, weights: Vector, loop: Loop) -> list[Result]:
    """Return one Result for each of the `weights` of the penalty, each solved by `run` from the solution before.

    `loop.max_rounds` is per weight. The run's history begins anew with each weight, and
    the costs in a Result are those of its own weight alone.
    """
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
        result = advance(run, replace(loop, max_rounds=run.rounds + loop.max_rounds))
        results.append(replace(result, **{name: getattr(run, name) - spent for name, spent in cost.items()}))
        last = float(alpha)
    return results
