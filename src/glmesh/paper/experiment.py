"""What an experiment is: runs, a picture, and a verdict on each claim of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from os import PathLike
from pathlib import Path

import numpy as np

from glmesh.bench import data
from glmesh.bench.data import Data
from glmesh.bench.draw import curves
from glmesh.bench.report import write_csv
from glmesh.bench.trace import Trace
from glmesh.transports import Network

# What seconds mean in all experiments: a gigabit a second, a millisecond, a local solver as quick as scikit-learn's.
NETWORK = Network(latency=1e-3, bandwidth=125e6, nonzeros_per_second=1e8)
NODES = 16


@dataclass(frozen=True)
class Settings:
    """quick: stand-ins and few rounds, for a minute. folder: the user's data sets. seed: of everything random."""

    quick: bool = False
    folder: str | PathLike[str] | None = None
    seed: int = 0

    def load(self, *names: str) -> Data:
        """The first data set that there is a file of, else the first one's stand-in."""
        if not self.quick:
            for name in names:
                if data.find(data.ENTRIES[name], self.folder) is not None:
                    return data.load(name, folder=self.folder, real=True)
        return data.load(names[0], real=False)

    def pick(self, quick: int, full: int) -> int:
        """One of two numbers."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Claim:
    """A sentence, whether it was seen, and the figures. ours: the paper does not claim it, and it is not counted."""

    text: str
    seen: bool
    figures: str
    ours: bool = False

    def __str__(self) -> str:
        verdict = "Seen" if self.seen else "Not seen"
        return f"{f'Beside the paper, {verdict.lower()}' if self.ours else verdict}: {self.text} {self.figures}"


@dataclass(frozen=True, eq=False)
class Panel:
    """A picture: some traces, what is across and what is up."""

    name: str
    title: str
    traces: Sequence[Trace]
    x: Sequence[str] = ("communications", "seconds")
    y: str = "of_start"
    floor: float = 1e-12


@dataclass(frozen=True, eq=False)
class Outcome:
    """All that an experiment found. about: what was run. table: Markdown, where a picture says nothing."""

    name: str
    title: str
    about: str
    claims: Sequence[Claim] = ()
    panels: Sequence[Panel] = ()
    table: str = ""
    used: Sequence[Data] = field(default_factory=tuple)

    def publish(self, folder: Path, *, pictures: bool = True) -> None:
        """CSV, PNG and SVG, a set for each panel, and the verdicts as a text."""
        folder.mkdir(parents=True, exist_ok=True)
        for panel in self.panels:
            write_csv(folder / f"{panel.name}.csv", panel.traces)
            if pictures:
                paths = [folder / f"{panel.name}.png", folder / f"{panel.name}.svg"]
                curves(panel.traces, paths, x=panel.x, y=panel.y, title=panel.title, floor=panel.floor)
        (folder / f"{self.name}.md").write_text(self.page(pictures=pictures), encoding="utf-8")

    def page(self, *, pictures: bool = True) -> str:
        """As Markdown."""
        lines = [f"## {self.title}", "", self.about, ""]
        lines += [self.table, ""] if self.table else []
        lines += [f"- {claim}" for claim in self.claims]
        if pictures:
            lines += [line for panel in self.panels for line in ("", f"![{panel.title}]({panel.name}.png)")]
        return "\n".join(lines).rstrip() + "\n"


Experiment = Callable[[Settings], Outcome]


def falls(values: Sequence[float]) -> bool:
    """Whether each is less than the one before."""
    return all(later < earlier for earlier, later in pairwise(values))


def rises(trace: Trace, key: str = "of_start", slack: float = 1e-9) -> float:
    """The largest rise from one look to the next, above rounding; zero if it falls throughout."""
    values = trace.history[key]
    top = np.nanmax(np.abs(values))
    return float(max(np.diff(values).max(initial=0.0) - slack * top, 0.0))


def cost(trace: Trace, goal: float, key: str) -> float:
    """What it took to come down to a goal; infinite if it did not."""
    hit = trace.first(goal, "of_start")
    return np.inf if hit is None else hit[key]


def told(value: float) -> str:
    """A cost in words."""
    return "never" if not np.isfinite(value) else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def common_goal(traces: Sequence[Trace], least: float = 1e-8) -> float:
    """The lowest of 1, 2 and 5 times powers of ten that all of these reached."""
    reached = max(max(float(np.nanmin(trace.history["of_start"])) for trace in traces), least)
    power = 10.0 ** np.floor(np.log10(reached))
    return float(next(part * power for part in (1, 2, 5, 10) if part * power >= reached))
