"""Parts of an experiment: settings, runs, pictures, and a verdict on each claim of the paper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from glmesh.bench import data
from glmesh.bench.data import DataSet
from glmesh.bench.draw import Panel
from glmesh.bench.reference import Reference
from glmesh.bench.report import write_csv
from glmesh.bench.trace import Trace, Watch, follow
from glmesh.core import AnyMethod
from glmesh.files.archive import write_text
from glmesh.problem import Problem
from glmesh.transports import Network

# What seconds mean in all experiments: a gigabit a second, a millisecond, a local solver as quick as scikit-learn's.
NETWORK = Network(latency=1e-3, bandwidth=125e6, nonzeros_per_second=1e8)
NODES = 16


@dataclass(frozen=True)
class Settings:
    """Settings of all experiments: quick or full, the folder of data sets, and the seed."""

    quick: bool = False  # stand-ins and few rounds, for a minute
    folder: str | PathLike[str] | None = None  # of the user's data sets
    seed: int = 0  # of all that is random

    def load(self, *names: str) -> DataSet:
        """Return the first of the named data sets of which the settings' `folder` has a file.

        If there is none, or if the settings are `quick`, a small random stand-in for the first name is returned.
        """
        if not self.quick:
            for name in names:
                if data.find(data.ENTRIES[name], self.folder) is not None:
                    return data.load(name, folder=self.folder, real=True)
        return data.load(names[0], real=False)

    def pick(self, quick: int, full: int) -> int:
        """Return `quick` if these are the settings of quick experiments, else `full`."""
        return quick if self.quick else full

    def follow(
        self, problem: Problem, method: AnyMethod, best: Reference, watch: Watch, name: str, **options: Any
    ) -> Trace:
        """Run a method on NODES nodes, by default a ring, with the virtual clock of NETWORK; return the run's Trace.

        `best` is the proven optimum, `watch` says when to measure and when to end, `name` is the trace's, and `options`
        are those of `Run`. A Trace has costs and errors at each measurement.
        """
        where = {"topology": "ring", "n_nodes": NODES, "seed": self.seed, "network": NETWORK}
        return follow(problem, method, best, watch, name=name, **where | options)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: its sentence, whether an experiment showed it, and the figures that say so."""

    text: str  # the claim, as a sentence
    seen: bool  # whether the experiment showed it
    figures: str  # sentence with the numbers
    ours: bool = False  # the claim is ours, not the paper's, and is not counted

    def __str__(self) -> str:
        verdict = "Seen" if self.seen else "Not seen"
        return f"{f'Beside the paper, {verdict.lower()}' if self.ours else verdict}: {self.text} {self.figures}"


@dataclass(frozen=True, eq=False)
class Findings:
    """Results of an experiment: verdicts on claims, pictures and a table, which `publish` writes to files."""

    name: str  # of its files, without the ending
    title: str  # heading of the page
    about: str  # what was run
    claims: Sequence[Claim] = ()  # verdicts
    panels: Sequence[Panel] = ()  # pictures
    table: str = ""  # in Markdown, where a picture says nothing

    def publish(self, folder: Path, *, pictures: bool = True) -> None:
        """Write the verdicts as Markdown, and for each panel a CSV file (and pictures, PNG and SVG) into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for panel in self.panels:
            write_csv(folder / f"{panel.name}.csv", panel.traces)
            if pictures:
                panel.draw(folder, ".png", ".svg")
        write_text(folder / f"{self.name}.md", self.page(pictures=pictures))

    def page(self, *, pictures: bool = True) -> str:
        """Return the experiment as Markdown: title, what was run, table, verdicts and links to pictures."""
        lines = [f"## {self.title}", "", self.about, ""]
        lines += [self.table, ""] if self.table else []
        lines += [f"- {claim}" for claim in self.claims]
        if pictures:
            lines += [line for panel in self.panels for line in ("", f"![{panel.title}]({panel.name}.png)")]
        return "\n".join(lines).rstrip() + "\n"


Experiment = Callable[[Settings], Findings]


def falls(values: Sequence[float]) -> bool:
    """Return whether each value is less than the one before it."""
    return all(later < earlier for earlier, later in pairwise(values))


def rises(trace: Trace, key: str = "of_start", slack: float = 1e-9) -> float:
    """Return the largest rise of a measure between two successive measurements of a run; 0 if it never rises.

    `key` is the measure's name in the trace; "of_start" is the suboptimality relative to that at zero. Rises of up to
    `slack` times the largest absolute value do not count.
    """
    values = trace.history[key]
    top = np.nanmax(np.abs(values))
    return float(max(np.diff(values).max(initial=0.0) - slack * top, 0.0))


def cost(trace: Trace, goal: float, key: str) -> float:
    """Return the cost named `key`, such as "bytes" or "round", at which a run had first come down to `goal`.

    `goal` is a suboptimality relative to that at zero, "of_start" in the trace. The cost is infinite if the run did not
    reach it.
    """
    hit = trace.first(goal, "of_start")
    return np.inf if hit is None else hit[key]


def told(value: float) -> str:
    """Return a cost as text: "never" if it is infinite, else with three digits, or as a whole number from 100 on."""
    return "never" if not np.isfinite(value) else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def common_goal(traces: Sequence[Trace], least: float = 1e-8) -> float:
    """Return the lowest goal that all traces reached: 1, 2 or 5 times a power of ten, and at least `least`.

    A goal is a value of "of_start", the suboptimality relative to that at zero.
    """
    reached = max(max(float(np.nanmin(trace.history["of_start"])) for trace in traces), least)
    power = 10.0 ** np.floor(np.log10(reached))
    return float(next(part * power for part in (1, 2, 5, 10) if part * power >= reached))
