"""One place that counts, for every method alike: communications, vectors and bytes per directed edge, seconds.

A communication is an exchange that a node waits for. Bytes are those that the simulator moved: eight for each number of
each row, over every directed link. Vectors are bytes over the length of the method's own message (p for methods of
consensus, which hold samples; for CoLA the samples, split by features, or p, split by samples). Seconds are those of
the rounds, of processor time, without looking; on the virtual clock if there is one. The objective is that of the
user's problem, at the mean of all copies where nodes have their own: in favour of the rivals, since no node has that
mean.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from glmesh.bench.reference import Reference
from glmesh.engine.run import Run
from glmesh.methods import Cola, Consensus
from glmesh.problem.problem import Problem
from glmesh.types import Vector

KEYS = (
    "round",
    "communications",
    "vectors",
    "bytes",
    "seconds",
    "objective",
    "suboptimality",
    "of_start",
    "h",
    "consensus",
)
_FINER = 50  # a look after every fiftieth of the rounds so far


@dataclass(frozen=True, eq=False)
class Trace:
    """What a run cost and reached, look by look; equally long arrays by the names of KEYS."""

    name: str
    history: dict[str, Vector]
    edges: int  # directed
    setting: str = ""

    def first(self, goal: float, key: str = "suboptimality") -> dict[str, float] | None:
        """The first look at which it was at or below a goal."""
        hit = np.flatnonzero(self.history[key] <= goal)
        return None if not len(hit) else {name: float(values[hit[0]]) for name, values in self.history.items()}

    @property
    def last(self) -> dict[str, float]:
        """The last look."""
        return {name: float(values[-1]) for name, values in self.history.items()}

    @property
    def bytes_per_edge(self) -> Vector:
        """Bytes over each directed link, on average."""
        return np.asarray(self.history["bytes"] / max(self.edges, 1))


def objective_of(run: Run) -> float:
    """The user's objective at what the nodes have."""
    problem = run.problem
    with np.errstate(over="ignore", invalid="ignore"):
        if run.nodes.replicates or problem.spec.split == "features":
            value = problem.objective(run.x)
        else:
            value = problem.objective(np.mean([problem.composite.f.gradient(row) for row in run.estimates], axis=0))
    return value if np.isfinite(value) else np.inf


def follow(
    problem: Problem,
    method: Cola | Consensus,
    best: Reference,
    *,
    name: str = "",
    goal: float = 0.0,
    goal_key: str = "suboptimality",
    max_communications: int = 5_000,
    max_seconds: float = np.inf,
    consensus: bool = False,
    every_round: bool = False,
    **options: Any,
) -> Trace:
    """Runs a method until it is below the goal, out of communications or out of seconds (of processor time).

    consensus: measure H and the violation too (else NaN), which takes longer. every_round: look after every round.
    """
    looks: list[tuple[float, ...]] = []
    with Run(problem, method=method, **options) as run:
        length = run.estimates.shape[1]
        edges, due, spent = run.mixing.edges, 0, 0.0

        def look() -> float:
            value = objective_of(run)
            per_edge = run.bytes / max(edges, 1)
            seen = run.measure() if consensus else None
            looks.append(
                (run.rounds, run.communications, per_edge / (8 * length), run.bytes,
                 spent if run.network is None else run.seconds, value,
                 best.suboptimality(value), best.of_start(value),
                 np.nan if seen is None else seen.h, np.nan if seen is None else seen.consensus)
            )  # fmt: skip
            return looks[-1][KEYS.index(goal_key)]

        error = look()
        while error > goal and run.communications < max_communications and spent < max_seconds:
            began = time.process_time()
            next(run)
            spent += time.process_time() - began
            out = run.communications >= max_communications or spent >= max_seconds
            if run.rounds < due and not out and not every_round:
                continue
            due = run.rounds + max(1, run.rounds // _FINER)
            error = look()
            if not np.isfinite(error):
                break
        setting = _setting(run)
    columns = np.array(looks, dtype=np.float64).T
    return Trace(name or type(method).__name__, dict(zip(KEYS, columns, strict=True)), edges, setting)


def _setting(run: Run) -> str:
    """What was chosen: the step of a rival, the acceleration of CoLA."""
    if not run.nodes.replicates:
        return ", ".join(way if not start else f"{way} from round {start:,}" for start, way, _ in run.story)
    words = [f"step {run.states[0].step:.3g}"]
    for key in ("gossip_steps", "local_passes"):
        count = getattr(run.method, key, None)
        words += [f"{count} {key.replace('_', ' ')}"] if count else []
    return ", ".join(words)
