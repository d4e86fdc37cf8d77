"""Races: every contender on one problem and network, followed in one way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from glmesh.bench.contenders import CONTENDERS, Contender, Make
from glmesh.bench.data import DataSet
from glmesh.bench.objectives import OBJECTIVES, Objective
from glmesh.bench.reference import Reference, reference
from glmesh.bench.trace import Trace, Watch, follow
from glmesh.errors import UnsuitablePair
from glmesh.network.topology import names as topologies
from glmesh.problem import SPLITS, Problem, Split
from glmesh.validation import unknown

GOALS = (1e-3, 1e-6)  # relative suboptimalities whose costs are reported

Say = Callable[[str], None]  # takes a line of progress


@dataclass(frozen=True)
class RacePlan:
    """Plan of a benchmark: objectives, topologies and contenders by name, seeds, and limits on the cost of a run."""

    objectives: Sequence[str] = ("lasso", "ridge", "logistic")
    topologies: Sequence[str] = ("ring", "torus")
    contenders: Sequence[str] = tuple(CONTENDERS)
    n_nodes: int = 16  # K, of every network
    seeds: Sequence[int] = (0,)  # of partitions and random graphs; a run for each
    repeats: int = 1  # runs of each contender and seed, of which the quickest counts; only seconds differ
    max_communications: int = 5_000  # exchanges of a run, at most
    max_seconds: float = 60.0  # [s] of processor time of a run
    known_objectives: Mapping[str, Objective] = field(default_factory=lambda: dict(OBJECTIVES))
    known_contenders: Mapping[str, Contender] = field(default_factory=lambda: dict(CONTENDERS))

    def __post_init__(self) -> None:
        families = [name for name in self.topologies if any(sign.isdigit() for sign in name)]  # checked when built
        for kind, given, known in (
            ("objective", self.objectives, self.known_objectives),
            ("method", self.contenders, self.known_contenders),
            ("topology", self.topologies, [*topologies(), *families]),
        ):
            for name in given:
                if name not in known:
                    raise unknown(kind, name, known)


@dataclass(frozen=True, eq=False)
class Race:
    """Traces of all contenders on one objective, data set and topology, and the proven optimum."""

    objective: str  # name of the objective
    data: DataSet
    topology: str  # name of the graph
    best: Reference  # proven optimum of the objective
    traces: dict[str, list[Trace]]  # one per seed, by name
    ours: tuple[str, ...]  # names of the library's own methods
    left_out: dict[str, str]  # name to the reason why there is no trace

    def cost(self, name: str, goal: float, key: str) -> float:
        """Return the median over seeds of what contender `name` had spent when it first reached `goal`.

        `key` says what: "communications", "bytes", "seconds" or another name of KEYS. `goal` is a relative
        suboptimality. The median is infinite if most runs did not reach the goal.
        """
        hits = [trace.first(goal) for trace in self.traces[name]]
        return float(np.median([np.inf if hit is None else hit[key] for hit in hits]))

    @property
    def rivals(self) -> list[str]:
        """Return the names of the contenders that are neither the library's own methods nor the published CoLA."""
        return [name for name in self.traces if name not in self.ours and not name.startswith("CoLA")]

    def best_rival(self, goal: float, key: str) -> str | None:
        """Return the name of the rival that reached `goal` at the lowest cost; None if no rival did.

        `key` names the cost, such as "bytes"; `goal` is a relative suboptimality. Rivals are the contenders that are
        neither the library's own methods nor the published CoLA.
        """
        reached = {name: self.cost(name, goal, key) for name in self.rivals}
        reached = {name: cost for name, cost in reached.items() if np.isfinite(cost)}
        return min(reached, key=lambda name: reached[name]) if reached else None

    @property
    def default(self) -> str | None:
        """Return the name of the contender that is the library's default method, split by features or by samples.

        It is the split whose messages are shorter on this data. None: neither took part.
        """
        names = [name for name in self.ours if "default" in name and name in self.traces]
        m, p = self.data.X.shape
        preferred = "samples" if p < m else "features"
        return next((name for name in names if name.endswith(preferred)), names[0] if names else None)


def races(plan: RacePlan, data: DataSet, say: Say = lambda _: None) -> Iterator[Race]:
    """Run all contenders of a plan on one data set; yield a Race for every objective and topology.

    `say` is called with each line of progress, a text.
    """
    for objective in plan.objectives:
        problems: dict[Split, Problem] = {}
        refused: dict[Split, str] = {}
        for split in SPLITS:
            try:
                problems[split] = plan.known_objectives[objective](data.X, data.y, split)
            except UnsuitablePair as reason:
                refused[split] = str(reason)
        best = reference(problems["features" if "features" in problems else "samples"])
        say(f"{data.name}, {objective}: optimum {best.objective:.8g}, proven to {best.relative_gap:.0e}")
        for topology in plan.topologies:
            course = _Course(plan, problems, refused, best, topology)
            traces, left_out = course.run(say)
            ours = tuple(name for name in traces if plan.known_contenders[name].ours)
            yield Race(objective, data, topology, best, traces, ours, left_out)


@dataclass(frozen=True, eq=False)
class _Course:
    """One objective on one data set and one topology, over which `run` runs all contenders of a plan."""

    plan: RacePlan
    problems: Mapping[Split, Problem]  # by the split that a contender asks for
    refused: Mapping[Split, str]  # why there is no problem of a split
    best: Reference  # proven optimum of the objective
    topology: str  # name of the graph

    def run(self, say: Say) -> tuple[dict[str, list[Trace]], dict[str, str]]:
        """Run all contenders; return ({name: traces, one per seed}, {name: reason why it is left out}).

        `say` is called with each line of progress, a text.
        """
        traces: dict[str, list[Trace]] = {}
        left_out: dict[str, str] = {}
        for name in self.plan.contenders:
            contender = self.plan.known_contenders[name]
            try:
                self._check(contender)
                traces[name] = [replace(self._trace(contender, seed), name=name) for seed in self.plan.seeds]
            except UnsuitablePair as reason:
                left_out[name] = str(reason)
                continue
            last = traces[name][0].last
            say(
                f"  {self.topology}, {name}: {last['suboptimality']:.1e} after {last['communications']:,.0f} "
                f"communications, {last['seconds']:.1f} s ({traces[name][0].setting})"
            )
        return traces, left_out

    def _check(self, contender: Contender) -> None:
        """Raise UnsuitablePair for a contender that cannot, or need not, run on this objective.

        It cannot if there is no problem in its split; it need not if it is only for penalties with kinks, and this one
        is smooth.
        """
        if contender.split in self.refused:
            raise UnsuitablePair(self.refused[contender.split])
        if not contender.has_use_for(self.problems[contender.split]):
            raise UnsuitablePair("is for objectives with a kink")

    def _trace(self, contender: Contender, seed: int) -> Trace:
        """Return the Trace (costs and errors) of a contender with this seed.

        If the contender ends with an error above that of zero coefficients and has a fallback, the fallback's Trace is
        returned.
        """
        problem = self.problems[contender.split]
        trace = self._quickest(problem, contender.make, seed)
        if contender.fallback is not None and not trace.last["of_start"] <= 1.0:
            trace = self._quickest(problem, contender.fallback, seed)
        return trace

    def _quickest(self, problem: Problem, make: Make, seed: int) -> Trace:
        """Run a method `plan.repeats` times with one seed; return the Trace of the run with the fewest seconds.

        `make()` returns the method.
        """
        plan, watch = self.plan, Watch(min(GOALS), self.plan.max_communications, self.plan.max_seconds)
        runs = [
            follow(problem, make(), self.best, watch, topology=self.topology, n_nodes=plan.n_nodes, seed=seed, n_jobs=1)
            for _ in range(plan.repeats)
        ]
        return min(runs, key=lambda trace: trace.last["seconds"])
