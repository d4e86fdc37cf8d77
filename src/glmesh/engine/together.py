"""Several problems on the same rows, solved at once: what all of them ask for travels in one total a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glmesh.engine.agreement import of_problem, require_same, versions
from glmesh.engine.observe import Observer
from glmesh.engine.result import Result, Status
from glmesh.engine.run import Run
from glmesh.engine.solve import Runtime, process_group
from glmesh.engine.stopping import Loop, StoppingRule, Wishes
from glmesh.errors import InvalidInput
from glmesh.parallel import ProcessGroup, one_blas_thread
from glmesh.problem import Problem

# [bytes] of the contributions of all nodes to one total, beyond which fewer problems are solved together
MOST_BYTES = 2**27
WORKING_SET = 500  # columns of a Hessian, about the most where a working set is enough

Start = Result | ArrayLike | None  # what a run begins with; None: zero


def solve_together(
    problems: Sequence[Problem],
    *,
    warm_starts: Sequence[Start] | None = None,
    tol: float = 1e-4,
    max_rounds: int = 10_000,
    stop: str = "gap",
    record_every: int = 1,
    callback: Callable[[Run], object] | None = None,
    runtime: Runtime = "simulation",
    **options: Any,
) -> list[Result]:
    """Solve several problems on the same rows at once by a method on totals; return a Result for each, in order.

    A round is one total with the fields of all problems that are not done, so all together take the communications of
    the slowest; where their totals would need more than 128 MB, some wait until others are done. Every problem passes
    through the same bits as alone.

    Parameters
    ----------
    problems : sequence of Problem
        Problems that differ in targets, sample weights or penalty (`Problem.with_targets`, `Problem.with_alpha`).
    warm_starts : sequence of (Result, array or None), optional
        What each begins with; None: zero.
    tol, max_rounds, stop, record_every, runtime
        Those of `solve`, for each problem.
    callback : callable, optional
        Called after every round with the `Run` of each problem that is not done; a true answer ends all of them.
    **options : dict
        The other options of `Run`: a method on totals, topology, n_nodes, seed and so on; no faults.

    Returns
    -------
    list of Result
        Communications, bytes and seconds are those of all problems together, up to when a problem ended.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem
    >>> from glmesh.engine.together import solve_together
    >>> from glmesh.methods import ProximalNewton
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> first = Problem.glm(X, X[:, 0], split="samples")
    >>> results = solve_together([first, first.with_targets([X[:, 1]], [np.ones(40)])], method=ProximalNewton())
    >>> [result.status.name for result in results], [int(np.argmax(result.coef)) for result in results]
    (['CONVERGED', 'CONVERGED'], [0, 1])
    """
    starts: list[Start] = [None] * len(problems) if warm_starts is None else list(warm_starts)
    if not problems or len(starts) != len(problems):
        raise InvalidInput(f"give at least one problem, and a start for each: {len(problems)}, {len(starts)} starts")
    if options.get("faults") is not None:
        raise InvalidInput("a fault plan is for one problem at a time; use solve")
    with process_group(runtime) as processes:
        said = {"tol": tol, "max_rounds": max_rounds, "stop": stop, "record_every": record_every}
        require_same(processes, versions() | said | {"problems": len(problems)})
        loop = Loop(tol, max_rounds, stop, record_every)
        require_same_problems(processes, problems, starts)
        options |= {"warm_start": starts[0], "processes": processes, "certify": loop.proven is not None}
        with Run(problems[0], tol=loop.proven, **options) as run:
            others = [run.beside(problem, start) for problem, start in zip(problems[1:], starts[1:], strict=True)]
            with one_blas_thread():
                return advance_together([run, *others], loop, callback)


def group_size(run: Run) -> int:
    """Return how many problems like the run's, at least 1, are solved together: totals of all have at most 128 MB."""
    d = min(run.blocks[0].p, WORKING_SET) + 1
    return int(max(1, MOST_BYTES // (8 * run.n_nodes * d * (d + 1) // 2)))


def require_same_problems(processes: ProcessGroup, problems: Sequence[Problem], starts: Sequence[Start]) -> None:
    """Raise Mismatch, at all processes alike, unless all have the same problems and the same points to start from.

    starts[i] is where problem i starts: a Result, an array or None for zero. The first problem is not compared, because
    `Run` compares it.
    """
    for number, (problem, start) in enumerate(zip(problems[1:], starts[1:], strict=True), start=2):
        said = {f"{name} of problem {number}": value for name, value in of_problem(problem).items()}
        model = start if not isinstance(start, Result) else np.append(start.coef, start.intercept)
        require_same(processes, said | {"warm_start": None if model is None else np.asarray(model)})


def advance_together(runs: Sequence[Run], loop: Loop, callback: Callable[[Run], object] | None = None) -> list[Result]:
    """Make rounds of runs that share a transport, all at once, until each has ended; return their Results in order.

    At most `group_size` runs are under way; the others wait until one of those has ended. `loop` is meant for each run;
    a true answer of `callback`, which is called with each run after every round, ends all of them.
    """
    observers = [Observer(run, loop.record_every, loop.max_rounds) for run in runs]
    rules, ended = [loop.rules() for _ in runs], dict[int, Result]()
    size, waiting = group_size(runs[0]), dict(enumerate(runs))
    with Wishes(runs[0], callback) as wishes:
        while waiting:
            wished, left = wishes.check(runs[0], {}), list[Run]()
            for number, run in list(waiting.items()):
                if len(left) == size and wished is None:
                    break
                status = _ends(run, observers[number], rules[number], wished)
                if status is not None:
                    ended[number] = observers[number].result(status, loop.aim)
                    del waiting[number]
                else:
                    left.append(run)
            if left:
                left[0].driver.next_of_all([run.driver for run in left[1:]])
                for run in left:
                    wishes.ask(run)
    return [ended[number] for number in range(len(runs))]


def _ends(run: Run, observer: Observer, rules: Sequence[StoppingRule], wished: Status | None) -> Status | None:
    """Make this round's record, if one is due; return the status with which the run ends now, or None if it goes on.

    `wished` is the status that a callback or a signal asked for, None if neither did; it counts before the limit of
    rounds.
    """
    entry = observer.record()
    *first, limit = [rule.check(run, entry) for rule in rules]
    return next((said for said in (*first, wished, limit) if said is not None), None)
