"""A benchmark: objectives x data sets x topologies x contenders x seeds, all followed the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from glmesh.bench.contenders import CONTENDERS, Contender
from glmesh.bench.data import Data
from glmesh.bench.objectives import OBJECTIVES, Objective
from glmesh.bench.reference import Reference, reference
from glmesh.bench.trace import Trace, follow
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.methods import Consensus
from glmesh.network.topology import names as topologies
from glmesh.problem.problem import Problem

GOALS = (1e-3, 1e-6)


@dataclass(frozen=True)
class Plan:
    """What is compared. repeats: of each run, of which the quickest counts (its seconds; all else is the same)."""

    objectives: Sequence[str] = ("lasso", "ridge", "logistic")
    topologies: Sequence[str] = ("ring", "torus")
    contenders: Sequence[str] = tuple(CONTENDERS)
    n_nodes: int = 16
    seeds: Sequence[int] = (0,)
    repeats: int = 1
    max_communications: int = 5_000
    max_seconds: float = 60.0
    known_objectives: dict[str, Objective] = field(default_factory=lambda: dict(OBJECTIVES))
    known_contenders: dict[str, Contender] = field(default_factory=lambda: dict(CONTENDERS))

    def __post_init__(self) -> None:
        for kind, required_theta, known in (
            ("objective", self.objectives, self.known_objectives),
            ("method", self.contenders, self.known_contenders),
            ("topology", self.topologies, topologies()),
        ):
            for name in required_theta:
                if name not in known and not (kind == "topology" and any(c.isdigit() for c in name)):
                    raise InvalidInput(f"unknown {kind} {name!r}; there are {', '.join(known)}")


@dataclass(frozen=True, eq=False)
class Race:
    """All contenders on one problem and network: a list of traces, one per seed, by name."""

    objective: str
    data: Data
    topology: str
    best: Reference
    traces: dict[str, list[Trace]]
    ours: tuple[str, ...]
    left_out: dict[str, str]

    def cost(self, name: str, goal: float, key: str) -> float:
        """The median over seeds of what it cost to reach a goal; infinite where most did not."""
        hits = [trace.first(goal) for trace in self.traces[name]]
        return float(np.median([np.inf if hit is None else hit[key] for hit in hits]))

    @property
    def rivals(self) -> list[str]:
        """Neither ours nor the printed CoLA."""
        return [name for name in self.traces if name not in self.ours and not name.startswith("CoLA")]

    def best_rival(self, goal: float, key: str) -> str | None:
        """The rival with the lowest cost; None if nobody got there."""
        reached = {name: self.cost(name, goal, key) for name in self.rivals}
        reached = {name: cost for name, cost in reached.items() if np.isfinite(cost)}
        return min(reached, key=lambda name: reached[name]) if reached else None

    @property
    def default(self) -> str:
        """Our default with the split whose message is the shorter."""
        names = [name for name in self.ours if "default" in name and name in self.traces]
        m, p = self.data.X.shape
        preferred = "samples" if p < m else "features"
        return next((name for name in names if name.endswith(preferred)), names[0])


def races(plan: Plan, data: Data, say: Callable[[str], None] = lambda _: None) -> Iterator[Race]:
    """Every objective and topology of a plan on one data set."""
    for objective in plan.objectives:
        problems: dict[str, Problem | str] = {}
        for split in ("features", "samples"):
            try:
                problems[split] = plan.known_objectives[objective](data.X, data.y, split)
            except UnsuitablePair as reason:
                problems[split] = str(reason)
        first = next(problem for problem in problems.values() if isinstance(problem, Problem))
        best = reference(first)
        say(f"{data.name}, {objective}: optimum {best.objective:.8g}, proven to {best.relative_gap:.0e}")
        for topology in plan.topologies:
            yield _race(plan, data, objective, topology, problems, best, say)


def _race(
    plan: Plan,
    data: Data,
    objective: str,
    topology: str,
    problems: dict[str, Problem | str],
    best: Reference,
    say: Callable[[str], None],
) -> Race:
    traces: dict[str, list[Trace]] = {}
    left_out: dict[str, str] = {}
    names = [name for name in plan.contenders if name in plan.known_contenders]
    for name in names:
        contender = plan.known_contenders[name]
        problem = problems[contender.split]
        if isinstance(problem, str):
            left_out[name] = problem
            continue
        if not contender.suits(problem):
            left_out[name] = "is for objectives with a kink" if contender.kinks_only else "needs a smooth objective"
            continue
        traces[name] = [_fastest(plan, problem, contender, best, name, topology, seed) for seed in plan.seeds]
        last = traces[name][0].last
        say(
            f"  {topology}, {name}: {last['suboptimality']:.1e} after {last['communications']:,.0f} communications, "
            f"{last['seconds']:.1f} s ({traces[name][0].setting})"
        )
    ours = tuple(name for name in traces if plan.known_contenders[name].ours)
    return Race(objective, data, topology, best, traces, ours, left_out)


def _fastest(
    plan: Plan, problem: Problem, contender: Contender, best: Reference, name: str, topology: str, seed: int
) -> Trace:
    options: dict[str, Any] = {
        "name": name,
        "goal": min(GOALS),
        "max_communications": plan.max_communications,
        "max_seconds": plan.max_seconds,
        "topology": topology,
        "n_nodes": plan.n_nodes,
        "seed": seed,
        "n_jobs": 1,
    }
    method = contender.make()
    runs = [follow(problem, method, best, **options) for _ in range(plan.repeats)]
    if isinstance(method, Consensus) and not runs[0].last["of_start"] <= 1.0:  # what was best in trials diverged later
        runs = [follow(problem, replace(method, step=None), best, **options) for _ in range(plan.repeats)]
    quickest = min(runs, key=lambda trace: trace.last["seconds"])
    return replace(quickest, name=name)
