"""One place that counts, for every method alike: communications, vectors and bytes per directed edge, seconds.

A communication is an exchange that a node waits for. Bytes are those that the simulator moved: eight for each number of
each row, over every directed link. Vectors are bytes over the length of the method's own message (p for consensus
methods, which hold samples; for CoLA the samples, split by features, or p, split by samples). Seconds are processor
time of the rounds, without measuring; on the virtual clock if there is one. The objective is that of the user's
problem, at the mean of all copies where nodes have their own: in favour of the rivals, since no node has that mean.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from glmesh.bench.reference import Reference
from glmesh.core import AnyMethod
from glmesh.engine.run import Run
from glmesh.problem import Problem
from glmesh.types import Vector

# columns of a trace: the cost so far, and what it reached; "of_start" is suboptimality relative to that at zero
KEYS = (
    *("round", "communications", "vectors", "bytes", "seconds"),
    *("objective", "suboptimality", "of_start", "h", "consensus"),
)
_FINER = 50  # a look after every fiftieth of the rounds so far


@dataclass(frozen=True, eq=False)
class Trace:
    """Costs and errors of a run, by the names of KEYS, at each of the moments ("looks") at which it was measured."""

    name: str  # of the method, for people
    history: dict[str, Vector]  # arrays of shape (n_looks,) by the names of KEYS
    edges: int  # number of directed links
    setting: str = ""  # what the method chose by itself, in words

    def first(self, goal: float, key: str = "suboptimality") -> dict[str, float] | None:
        """Return {name: number} of all costs and errors at the first measurement at which `key` is at most `goal`.

        `key` is one of the names, such as "suboptimality". None: there is no such measurement.
        """
        hit = np.flatnonzero(self.history[key] <= goal)
        return None if not len(hit) else {name: float(values[hit[0]]) for name, values in self.history.items()}

    @property
    def last(self) -> dict[str, float]:
        """Return {name: number} of all costs and errors at the last measurement of the run."""
        return {name: float(values[-1]) for name, values in self.history.items()}

    @property
    def bytes_per_edge(self) -> Vector:
        """Return the bytes sent so far over a directed link, on average, at each measurement; shape (n_looks,)."""
        return np.asarray(self.history["bytes"] / max(self.edges, 1))


@dataclass(frozen=True)
class Watch:
    """When a run is measured, and when it ends: at its goal, or when communications or seconds are used up."""

    goal: float = 0.0  # the run ends when `goal_key` is at or below
    max_communications: int = 5_000  # the run ends after so many exchanges
    max_seconds: float = np.inf  # [s] of processor time
    goal_key: str = "suboptimality"  # the name in KEYS that the goal is about
    consensus: bool = False  # measure H and the consensus violation too (else NaN), which takes longer
    every_round: bool = False  # look after every round, not at a few dozen of them

    def goes_on(self, look: dict[str, float], spent: float) -> bool:
        """Return whether a run goes on: its error is above the goal, and neither communications nor time are used up.

        `look` has the measurements of now by name, `spent` is the processor time so far in seconds. A run whose error
        is not finite ends.
        """
        error = look[self.goal_key]
        return bool(np.isfinite(error) and error > self.goal) and not self.out(look["communications"], spent)

    def out(self, communications: float, spent: float) -> bool:
        """Return whether the communications or the processor time are used up; `spent` is that time in seconds."""
        return communications >= self.max_communications or spent >= self.max_seconds


def objective_of(run: Run) -> float:
    """Return the objective that the user minimises, at the nodes' model; infinite if it is not finite.

    Where nodes have models of their own, it is taken at their mean.
    """
    problem, x = run.problem, run.x
    with np.errstate(over="ignore", invalid="ignore"):
        if x is None:
            value = problem.objective(*run.nodes.coefficients(x, run.estimates, run.members))
        elif run.nodes.replicates or problem.spec.split == "features":
            value = problem.objective(x)
        else:
            value = problem.objective(np.mean([problem.composite.f.gradient(row) for row in run.estimates], axis=0))
    return value if np.isfinite(value) else np.inf


def follow(
    problem: Problem,
    method: AnyMethod,
    best: Reference,
    watch: Watch = Watch(),
    *,
    name: str = "",
    **options: Any,
) -> Trace:
    """Run a method until `watch` ends it; return its costs and errors as a Trace.

    `best` is the optimum; `name` of the trace is by default that of the method's class; `options` are those of `Run`:
    topology, n_nodes, seed, network, faults ...
    """
    looks: list[dict[str, float]] = []
    with Run(problem, method=method, **options) as run:
        spent, due = 0.0, 0
        looks.append(_look(run, best, watch, spent))
        while watch.goes_on(looks[-1], spent):
            while True:
                began = time.process_time()
                next(run)
                spent += time.process_time() - began
                if run.rounds >= due or watch.every_round or watch.out(run.communications, spent):
                    break
            due = run.rounds + max(1, run.rounds // _FINER)
            looks.append(_look(run, best, watch, spent))
        edges, length, setting = run.mixing.edges, run.estimates.shape[1], _setting(run)
    history = {key: np.array([look[key] for look in looks], dtype=np.float64) for key in KEYS}
    history["vectors"] = history["bytes"] / (8 * length * max(edges, 1))
    return Trace(name or type(method).__name__, history, edges, setting)


def _look(run: Run, best: Reference, watch: Watch, spent: float) -> dict[str, float]:
    """Return {name: number} of a run's costs and errors now; NaN where something is not measured.

    `best` is the proven optimum, `watch` says what to measure, `spent` is the processor time so far in seconds.
    """
    value = objective_of(run)
    measures = run.measure() if watch.consensus else None
    return {
        "round": run.rounds,
        "communications": run.communications,
        "vectors": np.nan,  # counted at the end, from the bytes
        "bytes": run.bytes,
        "seconds": spent if run.network is None else run.seconds,
        "objective": value,
        "suboptimality": best.suboptimality(value),
        "of_start": best.of_start(value),
        "h": np.nan if measures is None else measures.h,
        "consensus": np.nan if measures is None else measures.consensus,
    }


def _setting(run: Run) -> str:
    """Return what the method chose by itself, as text: CoLA's accelerations, or step and passes of a rival.

    The text is empty if there was nothing to choose.
    """
    words = [way if not start else f"{way} from round {start:,}" for start, way, _ in run.story]
    if run.nodes.replicates and not run.nodes.primal:
        step = getattr(run.states[0], "step", np.nan)
        words += [f"step {step:.3g}"] if np.isfinite(step) else []
        counts = {key: getattr(run.method, key, None) for key in ("gossip_steps", "local_passes")}
        words += [f"{count} {key.replace('_', ' ')}" for key, count in counts.items() if count]
    return ", ".join(words)
