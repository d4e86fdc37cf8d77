"""`solve`: a run until it is good enough, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import networkx as nx
from numpy.typing import ArrayLike

from glmesh.core import AnyMethod
from glmesh.engine.agreement import require_same, versions
from glmesh.engine.observe import Observer
from glmesh.engine.result import Result
from glmesh.engine.run import Run
from glmesh.engine.setup import DEFAULT_NODES
from glmesh.engine.stopping import Loop, Wishes
from glmesh.errors import InvalidInput
from glmesh.network import Mixing, Network, Plan
from glmesh.parallel import SINGLE_PROCESS, ProcessGroup, one_blas_thread
from glmesh.problem import Problem
from glmesh.transports.mpi import ranks
from glmesh.types import Data
from glmesh.validation import whole_number

if TYPE_CHECKING:
    from glmesh.engine.live import RunPage

Runtime = Literal["simulation", "mpi"] | ProcessGroup
Live = bool | Callable[[str], object]


def process_group(runtime: Runtime) -> AbstractContextManager[ProcessGroup]:
    """Return a context manager whose value is the group of the processes that host the nodes.

    `runtime` "simulation" is this process alone, "mpi" all ranks of an MPI program; a ProcessGroup is used as it is.
    """
    if isinstance(runtime, ProcessGroup):
        return nullcontext(runtime)
    if runtime not in ("simulation", "mpi"):
        raise InvalidInput(f"runtime must be 'simulation', 'mpi' or the ranks themselves, got {runtime!r}")
    return ranks() if runtime == "mpi" else nullcontext(SINGLE_PROCESS)


def solve(
    problem: Problem,
    *,
    method: AnyMethod | None = None,
    topology: str | nx.Graph = "ring",
    n_nodes: int = DEFAULT_NODES,
    tol: float = 1e-4,
    max_rounds: int = 10_000,
    stop: Literal["gap", "certificate", "rounds"] = "gap",
    seed: int = 0,
    callback: Callable[[Run], object] | None = None,
    record_every: int = 1,
    warm_start: Result | ArrayLike | None = None,
    network: Network | None = None,
    mixing: str | Mixing | Data = "metropolis",
    partition: str | ArrayLike = "shuffled",
    faults: Plan | Mapping[str, object] | str | PathLike[str] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: int = 100,
    n_jobs: int | None = None,
    runtime: Runtime = "simulation",
    live: Live = False,
) -> Result:
    """Minimise f(Ax) + g(x) over a network of K nodes; return the solution with its duality gap.

    Parameters
    ----------
    problem : Problem
        Objective and data; pooled data is dealt out to the nodes.
    method : Method, default Cola()
        `Cola(...)`, `Cocoa()`, a consensus method such as `Nids()`, or any class with `prepare` and `round`.
    topology : str or networkx.Graph, default "ring"
        Connected communication graph; `glmesh topology list` prints the names.
    n_nodes : int, default 16
        K; it must agree with the graph or the data where they fix it.
    tol : float, default 1e-4
        Stop when gap <= tol * abs(objective), or when it is rounding beside the largest objective seen.
    max_rounds : int, default 10000
        Stop after this many rounds in any case.
    stop : {"gap", "certificate", "rounds"}, default "gap"
        "gap": the duality gap of all nodes together is measured at every record. "certificate": every node proves it
        from neighbours' messages alone. "rounds": make `max_rounds` rounds.
    seed : int, default 0
        Seed of the partition, of random graphs and of local shuffles.
    callback : callable, optional
        Called with the `Run` after every round; a true answer stops the run.
    record_every : int, default 1
        Rounds between records of the history, and between looks at the gap.
    warm_start : Result or array, optional
        Variables in the user's order to start from, or coefficients for a method on totals, an intercept last; a Result
        of either kind. None is zero.
    network : Network, optional
        A virtual clock: latency, bandwidth and speed of the nodes.
    mixing : {"metropolis", "best-constant", "optimal"}, Mixing or matrix, default "metropolis"
        Symmetric, doubly stochastic weights of the links.
    partition : {"shuffled", "contiguous", "balanced"} or sequence, default "shuffled"
        Who holds which columns; one's own is a node for each column, or a list of columns for each node.
    faults : Plan, dict or path, optional
        What fails and when (`glmesh.network.faults`), also as a TOML file.
    checkpoint : path, optional
        File that the run is written to along the way and at the end; if it is there already, the run goes on from it,
        to the last bit as if it had never stopped.
    checkpoint_every : int, default 100
        Rounds between checkpoints.
    n_jobs : int, optional
        Threads; None is as many as cores if a round is worth it. The result has the same bits for any number.
    runtime : {"simulation", "mpi"} or ProcessGroup, default "simulation"
        "mpi" hosts the nodes on all ranks of an MPI program, each of which makes this call with the same arguments and
        is given the same result; or the ranks themselves (`glmesh.transports.mpi.ranks`).
    live : bool or callable, default False
        Show the run in a browser on this machine, while it goes on and after its end, until the program ends: how
        things stand in words, gap and goal, who is there, coefficients, bytes, events. True writes the address, which
        is secret, to standard error; a callable such as `webbrowser.open` is given it. The runs of a program share one
        page, which shows the newest.

    Returns
    -------
    Result
        `status` says why the run stopped; Ctrl-C returns the last complete round.

    Raises
    ------
    UnsuitablePair
        The method cannot minimise this objective.
    InvalidInput
        An option, the network or the fault plan cannot be used; the message says what would do.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, solve
    >>> X = np.random.default_rng(0).normal(size=(50, 20))
    >>> result = solve(Problem.glm(X, X[:, 0], penalty="l1", alpha=1.0), topology="ring", n_nodes=4)
    >>> result.status.name, result.coef.shape
    ('CONVERGED', (20,))
    """
    with process_group(runtime) as processes:
        said = {"tol": tol, "max_rounds": max_rounds, "stop": stop, "record_every": record_every}
        written = {"checkpoint": checkpoint is not None, "checkpoint_every": checkpoint_every}
        require_same(processes, versions() | said | written)
        loop = Loop(tol, max_rounds, stop, record_every)
        checkpoint_every = whole_number(checkpoint_every, "checkpoint_every", 1)
        saved = checkpoint is not None and processes.broadcast(Path(checkpoint).exists())
        run = Run(
            problem,
            method=method,
            topology=topology,
            n_nodes=n_nodes,
            mixing=mixing,
            partition=partition,
            seed=seed,
            warm_start=warm_start,
            network=network,
            certify=loop.proven is not None,
            tol=loop.proven,
            faults=faults,
            n_jobs=n_jobs,
            processes=processes,
        )
        with run, _shown(run, loop.aim, live) as page:
            if checkpoint is not None and saved:
                run.restore(checkpoint)
            elif checkpoint is not None:
                run.save(checkpoint, data=False)  # what cannot be saved is refused before any work

            def look(run: Run) -> object:
                """Write a checkpoint and show the page if they are due; return what the caller's `callback` answers.

                Without a callback the answer is False.
                """
                if page is not None:
                    page.look(run)
                if checkpoint is not None and run.rounds % checkpoint_every == 0:
                    run.save(checkpoint, data=False)
                return callback is not None and callback(run)

            with one_blas_thread():
                result = advance(run, loop, look)
            if checkpoint is not None:
                run.save(checkpoint, data=False)
            if page is not None:
                page.end(run, result)
            return result


def _shown(run: Run, aim: float | None, live: Live) -> AbstractContextManager[RunPage | None]:
    """Return a context manager whose value is the live page of the run; None: none is asked for, or rank 0 shows it."""
    if not (isinstance(live, bool) or callable(live)):
        raise InvalidInput(f"live must be True, False or a function that is given the address, got {live!r}")
    if live is False or run.processes.rank:
        return nullcontext()
    from glmesh.engine.live import RunPage, to_stderr  # with a server, which other runs do not need

    return RunPage(run, aim, live if callable(live) else to_stderr)


def advance(run: Run, loop: Loop, callback: Callable[[Run], object] | None = None) -> Result:
    """Make rounds of a run that is under way until a stopping rule ends it; return the Result of the run.

    A true answer of `callback`, which is called with the run after every round, ends it as well.
    """
    observer, status = Observer(run, loop.record_every, loop.max_rounds), None
    *enough, limit = loop.rules()
    with Wishes(run, callback) as wishes:
        rules = [*enough, wishes, limit]
        while status is None:
            entry = observer.record()
            status = next((said for rule in rules if (said := rule.check(run, entry)) is not None), None)
            if status is None:
                if entry is not None:
                    run.move_anchor()
                next(run.driver)
                observer.record()
                status = wishes.ask(run)
    return observer.result(status, loop.aim)
