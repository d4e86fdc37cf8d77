"""`solve`: a run until it is good enough, and what came of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from glmesh.engine.result import Result, Status
from glmesh.engine.run import Run
from glmesh.engine.setup import DEFAULT_NODES, whole
from glmesh.errors import InvalidInput
from glmesh.methods import Cola, Consensus
from glmesh.network.faults import Plan
from glmesh.parallel.processes import SINGLE_PROCESS, ProcessGroup
from glmesh.problem.problem import Problem
from glmesh.transports import Network
from glmesh.transports.mpi import ranks
from glmesh.types import AnyArray


class _Interruptible:
    """Turns the first Ctrl-C into a flag that is looked at between rounds; a second one is an exception again.

    On a cluster the same goes for SIGTERM, by which a scheduler ends a job.
    """

    def __init__(self, *, cluster: bool) -> None:
        self._signals = (signal.SIGINT, signal.SIGTERM) if cluster else (signal.SIGINT,)

    def __enter__(self) -> _Interruptible:
        self.hit = False
        before = {number: signal.getsignal(number) for number in self._signals}
        # only the main thread may; and a program that ignores Ctrl-C (a job in the background) goes on ignoring it
        listens = threading.current_thread() is threading.main_thread()
        self._before = {number: was for number, was in before.items() if listens and was is not signal.SIG_IGN}
        for number in self._before:
            signal.signal(number, self._on_interrupt)
        return self

    def _on_interrupt(self, *_: Any) -> None:
        self.hit = True
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


Runtime = Literal["simulation", "mpi"] | ProcessGroup


def process_group(runtime: Runtime) -> AbstractContextManager[ProcessGroup]:
    """The processes that host the nodes: this one alone, all ranks of an MPI program, or those that are given."""
    if isinstance(runtime, ProcessGroup):
        return nullcontext(runtime)
    if runtime not in ("simulation", "mpi"):
        raise InvalidInput(f"runtime must be 'simulation', 'mpi' or the ranks themselves, got {runtime!r}")
    return ranks() if runtime == "mpi" else nullcontext(SINGLE_PROCESS)


def solve(
    problem: Problem,
    *,
    method: Cola | Consensus | None = None,
    topology: Any = "ring",
    n_nodes: int = DEFAULT_NODES,
    tol: float = 1e-4,
    max_rounds: int = 10_000,
    stop: Literal["gap", "certificate", "rounds"] = "gap",
    seed: int = 0,
    callback: Callable[[Run], Any] | None = None,
    record_every: int = 1,
    warm_start: AnyArray = None,
    network: Network | None = None,
    mixing: Any = "metropolis",
    partition: str | AnyArray = "shuffled",
    faults: Plan | Mapping[str, Any] | str | PathLike[str] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_every: int = 100,
    n_jobs: int | None = None,
    runtime: Runtime = "simulation",
) -> Result:
    """Solves a problem over a network: a simulated one, or the ranks of a cluster.

    tol: the gap divided by the absolute user-level primal objective at which to stop. stop: "gap" measures the global
    gap at every record; "certificate" lets the nodes decide by neighbour messages alone; "rounds" does max_rounds.
    callback: called with the Run after every round; a true answer stops. record_every: rounds between entries of the
    history (and looks at the gap). checkpoint: a file that the run is written to every `checkpoint_every` rounds and at
    the end; if it is there already, the run goes on from it, to the last bit as if it had never stopped. The other
    options are those of `Run`. Ctrl-C returns what there is. runtime: "mpi" hosts the nodes on all ranks of an MPI
    program, each of which calls this with the same arguments and is given the same result (or, inside
    `with glmesh.cluster.ranks() as all_ranks`, say runtime=all_ranks).
    """
    if stop not in ("gap", "certificate", "rounds"):
        raise InvalidInput(f"stop must be 'gap', 'certificate' or 'rounds', got {stop!r}")
    if not isinstance(tol, int | float | np.number) or not tol >= 0:
        raise InvalidInput(f"tol must be a number >= 0, got {tol!r}")
    max_rounds, record_every = whole(max_rounds, "max_rounds", 0), whole(record_every, "record_every", 1)
    checkpoint_every = whole(checkpoint_every, "checkpoint_every", 1)
    with process_group(runtime) as processes:
        saved = checkpoint is not None and processes.first(Path(checkpoint).exists())
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
            certify=stop == "certificate",
            tol=tol if stop == "certificate" else None,
            faults=faults,
            n_jobs=n_jobs,
            processes=processes,
        )
        with run:
            if checkpoint is not None and saved:
                run.restore(checkpoint)
            elif checkpoint is not None:
                run.save(checkpoint, data=False)  # what cannot be saved is refused before any work

            def look(run: Run) -> Any:
                if checkpoint is not None and run.rounds % checkpoint_every == 0:
                    run.save(checkpoint, data=False)
                return callback is not None and callback(run)

            result = advance(run, tol=tol, max_rounds=max_rounds, stop=stop, record_every=record_every, callback=look)
            if checkpoint is not None:
                run.save(checkpoint, data=False)
            return result


def advance(
    run: Run,
    *,
    tol: float,
    max_rounds: int,
    stop: str,
    record_every: int = 1,
    callback: Callable[[Run], Any] | None = None,
) -> Result:
    """A run that is under way, on to its end; the options are those of `solve`."""
    with _Interruptible(cluster=run.processes.size > 1) as interrupt:
        status = _loop(run, tol, max_rounds, stop, callback, record_every, interrupt)
    return _result(run, status, None if stop == "rounds" else tol)


def _loop(
    run: Run,
    tol: float,
    max_rounds: int,
    stop: str,
    callback: Callable[[Run], Any] | None,
    record_every: int,
    interrupt: _Interruptible,
) -> Status:
    history = run.history
    while len(history) > 1 and history[-1]["round"] % record_every:  # where an earlier part of the run had stopped
        history.pop()
    if not history:
        history.append(_entry(run))
    status, stopped, alone = None, False, run.processes.size == 1
    while status is None:
        last = history[-1]
        fresh = last["round"] == run.rounds
        # all processes must stop in the same round: they ask each other when they measure anyway
        wishes = run.processes.each([(interrupt.hit, stopped)]) if alone or fresh else []
        if fresh and not np.isfinite(last["h"]):
            status = Status.DIVERGED
        elif fresh and stop == "gap" and last["gap"] <= tol * abs(last["objective"]):
            status = Status.CONVERGED
        elif stop == "certificate" and run.certificate is not None and run.certificate.relative <= tol:
            status = Status.CERTIFIED
        elif any(hit for hit, _ in wishes):
            status = Status.INTERRUPTED
        elif any(wish for _, wish in wishes):
            status = Status.STOPPED_BY_CALLBACK
        elif run.rounds >= max_rounds:
            status = Status.ROUNDS_DONE if stop == "rounds" else Status.OUT_OF_ROUNDS
        else:
            if fresh:
                run.move_anchor()
            next(run)
            if run.rounds % record_every == 0 or run.rounds == max_rounds:
                history.append(_entry(run, history[-1]))
            stopped = bool(callback is not None and callback(run)) or stopped
            if stopped and alone:
                status = Status.STOPPED_BY_CALLBACK
    if history[-1]["round"] != run.rounds:
        history.append(_entry(run, history[-1]))
    return status


def _entry(run: Run, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The history's next entry; a certificate is noted once, when it becomes known."""
    m, certificate = run.measure(), run.certificate
    theta = run.theta if run.rounds else np.full(run.n_nodes, np.nan)
    news = certificate is not None and (before is None or certificate.round != before["certificate_round"])
    return {
        "round": run.rounds,
        "communications": run.communications,
        "bytes": run.bytes,
        "seconds": run.seconds,
        "objective": m.objective,
        "h": m.h,
        "gap": m.gap,
        "consensus": m.consensus,
        "certificate": certificate.bound if news and certificate and np.isfinite(certificate.bound) else np.nan,
        "theta": float(theta.max(initial=-np.inf)) if run.rounds else np.nan,
        "certificate_round": -1 if certificate is None else certificate.round,
        "thetas": theta,
    }


def _result(run: Run, status: Status, tol: float | None) -> Result:
    problem, history = run.problem, run.history
    last = history[-1]
    x, estimates, gap, objective = run.x, run.estimates, last["gap"], last["objective"]
    if status is Status.CERTIFIED and run.certificate is not None:
        x, estimates = run.certified_state()
        gap = run.certificate.bound
    members = run.members
    f = problem.composite.f
    if run.consensual:
        coef, intercept = x, 0.0
    elif problem.spec.split == "samples":
        coef, intercept = problem.model_of(np.mean([f.gradient(row) for row in estimates[members]], axis=0))
    else:
        coef, intercept = problem.coefficients(x, run.product(x))
    if status is Status.CERTIFIED:
        objective = run.objective_at(x, estimates)
    whole_numbers = {"round", "communications", "bytes"}
    keys = [key for key in last if key not in ("certificate_round", "thetas")]
    return Result(
        x=x,
        coef=coef,
        intercept=intercept,
        rounds=run.rounds,
        communications=run.communications,
        bytes=run.bytes,
        seconds=run.seconds,
        gap=gap,
        objective=objective,
        status=status,
        tol=tol,
        history={
            key: np.array([entry[key] for entry in history], int if key in whole_numbers else float) for key in keys
        },
        certificate=run.certificate,
        estimates=estimates,
        problem=problem,
        faults=run.faults.to_dict(),
        events=tuple(run.events),
        skipped=run.skipped,
        spared=run.spared,
        thetas=np.array([entry["thetas"] for entry in history]),
        story=tuple(run.story),
        copies=run.consensual,
    )
