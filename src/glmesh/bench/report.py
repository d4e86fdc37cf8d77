"""A benchmark as a page: Markdown, with tables of costs and ratios, and pictures beside it."""

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from glmesh.bench.compare import GOALS, Race, RacePlan
from glmesh.bench.draw import Panel
from glmesh.bench.trace import KEYS, Trace
from glmesh.files.archive import write_text
from glmesh.formatting import size


def machine() -> str:
    """Return a line of text on the machine: processor, number of cores, versions of Python and numpy."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0] if names else cpu
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table with the cells of `header` in its first line and those of each row below."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def write(plan: RacePlan, races: list[Race], folder: Path, *, pictures: bool = True) -> Path:
    """Write report.md, a CSV file per race and, if `pictures`, a .png per race into `folder`.

    Return the path of report.md.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sets = {race.data.name: race.data for race in races}
    lines = [
        "# Who needs how much",
        "",
        f"{plan.n_nodes} nodes, seeds {', '.join(map(str, plan.seeds))} (medians), {plan.repeats} repeat(s), at most "
        f"{plan.max_communications:,} communications or {plan.max_seconds:.0f} s of processor time each. "
        "Rivals have the best step of a grid, found on the very problem and network by trial "
        "runs that are not counted (or theory's, should that diverge); CoLA has nothing to tune. Suboptimality is "
        "relative to an optimum that a duality gap proves, at the mean of all copies for rivals. "
        "A communication is an exchange that a node waits for; bytes are "
        "over all directed links; a dash means that it did not get there.",
        "",
        f"Machine: {machine()}; one thread.",
        "",
        table(
            ["data", "samples", "features", "density", "from"],
            [[d.name, f"{d.X.shape[0]:,}", f"{d.X.shape[1]:,}", f"{d.density:.2g}", d.source] for d in sets.values()],
        ),
        "",
        "## Ratios",
        "",
        ratios(races),
        "",
        *_reasons(races),
    ]
    for race in races:
        stem = f"{race.data.name}-{race.objective}-{race.topology}"
        lines += ["", f"## {race.objective}, {race.data.name}, {race.topology}", "", _costs(race), ""]
        left = "; ".join(f"{name}: {reason}" for name, reason in race.left_out.items())
        lines += [f"Optimum {race.best.objective:.8g}, proven to {race.best.relative_gap:.0e}.", ""]
        if left:
            lines += [f"Left out: {left}.", ""]
        every = [trace for traces in race.traces.values() for trace in traces]
        write_csv(folder / f"{stem}.csv", every)
        if pictures:
            title = f"{race.objective}, {race.data.name}, {race.topology} of {plan.n_nodes}"
            firsts, axes = [traces[0] for traces in race.traces.values()], ("communications", "bytes", "seconds")
            floor = max(race.best.relative_gap, 1e-9)
            drawn = Panel(stem, title, firsts, axes, "suboptimality", floor, log_x=True, ours=race.ours, goals=GOALS)
            drawn.draw(folder, ".png")
            lines += [f"![suboptimality against communications, bytes and seconds]({stem}.png)", ""]
    page = folder / "report.md"
    write_text(page, "\n".join(lines).rstrip() + "\n")
    return page


def write_csv(path: Path, traces: Sequence[Trace]) -> None:
    """Write traces to a CSV file: a line for each measurement with the trace's name and all KEYS, trace after trace."""
    lines = [",".join(["name", *KEYS])]
    for trace in traces:
        for look in zip(*(trace.history[key].tolist() for key in KEYS), strict=True):
            lines.append(",".join([f'"{trace.name}"', *(f"{value:.10g}" for value in look)]))
    write_text(path, "\n".join(lines) + "\n")


def _amount(cost: float, key: str) -> str:
    """Return a cost as text: bytes with their unit, seconds to two digits, all else as a whole number.

    `key` is the cost's name, such as "bytes"; an infinite cost becomes a dash.
    """
    if not np.isfinite(cost):
        return "–"
    return size(cost) if key == "bytes" else f"{cost:,.0f}" if key != "seconds" else f"{cost:.2g}"


def _costs(race: Race) -> str:
    """Return a Markdown table with a row per contender of a race: its costs to each goal, last error and setting.

    Costs are communications, bytes, vectors per edge and seconds; the error is the relative suboptimality at the end.
    """
    header = ["method"]
    for goal in GOALS:
        header += [f"communications to {goal:g}", f"bytes to {goal:g}", f"vectors per edge to {goal:g}"]
    header += [f"seconds to {min(GOALS):g}", "reached", "setting"]
    rows = []
    for name, traces in race.traces.items():
        row = [f"**{name}**" if name in race.ours else name]
        for goal in GOALS:
            row += [_amount(race.cost(name, goal, key), key) for key in ("communications", "bytes", "vectors")]
        row += [_amount(race.cost(name, min(GOALS), "seconds"), "seconds")]
        row += [f"{traces[0].last['suboptimality']:.0e}", traces[0].setting]
        rows.append(row)
    return table(header, rows)


def _ratio(race: Race, goal: float, name: str) -> tuple[float, bool]:
    """Return (ratio, bound): the bytes that our method `name` needs to reach `goal` over those of the best rival.

    `goal` is a relative suboptimality. `bound` is true where no rival reached the goal: the ratio is then only an upper
    bound, because each rival needs more bytes than it spent. The ratio is infinite where our method did not reach the
    goal.
    """
    rival, ours = race.best_rival(goal, "bytes"), race.cost(name, goal, "bytes")
    if rival is not None:
        return ours / race.cost(rival, goal, "bytes"), False
    spent = [race.traces[other][0].last["bytes"] for other in race.rivals]
    return (ours / min(spent) if spent else np.inf), True


def ratios(races: list[Race]) -> str:
    """Return a Markdown table with a row per race: our bytes over the best rival's, for our default and our best.

    A race without our default has no row.
    """
    header = ["problem", "our default"]
    for goal in GOALS:
        header += [f"best rival to {goal:g}", "default / rival, bytes", "best of ours / rival, bytes"]
    rows = []
    for race in races:
        default = race.default
        if default is None:
            continue
        row = [f"{race.objective}, {race.data.name}, {race.topology}", default]
        for goal in GOALS:
            best = min(_ratio(race, goal, name) for name in race.ours)
            row += [race.best_rival(goal, "bytes") or "nobody", _told(*_ratio(race, goal, default)), _told(*best)]
        rows.append(row)
    return table(header, rows)


def _told(ratio: float, bound: bool) -> str:
    """Return a ratio of bytes, ours over the best rival's, as text: "below ..." if it is only an upper `bound`.

    If the ratio is infinite, the text says who reached the goal: "neither" or "only the rival".
    """
    if not np.isfinite(ratio):
        return "neither" if bound else "only the rival"
    return f"below {ratio:.3g}" if bound else f"{ratio:.3g}"


def standing(race: Race) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return (header, rows, whether each row is ours) of a race: costs to the lowest goal, the fewest bytes first.

    Rows of methods that did not get there come last, by the error that they reached.
    """
    goal = min(GOALS)
    header = ["method", "communications", "bytes", "seconds", "reached"]
    last = {name: traces[0].last["suboptimality"] for name, traces in race.traces.items()}
    order = sorted(race.traces, key=lambda name: (race.cost(name, goal, "bytes"), last[name]))
    costs = [[_amount(race.cost(name, goal, key), key) for key in header[1:4]] for name in order]
    rows = [[name, *cost, f"{last[name]:.0e}"] for name, cost in zip(order, costs, strict=True)]
    return header, rows, [name in race.ours for name in order]


def claims(races: list[Race]) -> list[tuple[str, str, str]]:
    """Return (claim, "yes", "no" or "not known", figures) of each race with our default: it needs fewer bytes.

    It is not known where no rival reached the lowest goal, and our default has sent more bytes than some of them had.
    """
    found, goal = [], min(GOALS)
    for race in races:
        default = race.default
        if default is None or not race.rivals:
            continue
        ratio, bound = _ratio(race, goal, default)
        rival, ours = race.best_rival(goal, "bytes"), _amount(race.cost(default, goal, "bytes"), "bytes")
        claim = f"{race.objective}, {race.data.name}, {race.topology}: {default} needs fewer bytes than the best rival"
        against = f"{rival} {_amount(race.cost(rival, goal, 'bytes'), 'bytes')}" if rival else "no rival got there"
        seen = "yes" if ratio < 1.0 else "not known" if bound else "no"
        found.append((claim, seen, f"{ours} against {against}: {_told(ratio, bound)}"))
    return found


def _reasons(races: list[Race]) -> list[str]:
    """Return lines of Markdown about races where our default needs, or may need, more bytes than the best rival.

    The list is empty if there is no such race.
    """
    lines, goal = [], min(GOALS)
    for race in races:
        default = race.default
        if default is None or _ratio(race, goal, default)[0] < 1.0:
            continue
        m, p = race.data.X.shape
        length = f"{m if default.endswith('features') else p:,} numbers"
        if "newton" in race.traces[default][0].setting:
            length += f" ({p * (p + 1) // 2:,} more in a total with a Hessian)"
        rival, ours = race.best_rival(goal, "bytes"), race.cost(default, goal, "communications")
        theirs = (
            "no rival got there"
            if rival is None
            else (f"{rival} needs {_amount(race.cost(rival, goal, 'communications'), '')} communications")
        )
        mine = f"needs {_amount(ours, '')}" if np.isfinite(ours) else "did not get there"
        cheapest = min(race.ours, key=lambda name: race.cost(name, goal, "bytes"))
        lines.append(
            f"- {race.objective}, {race.data.name}, {race.topology}: {theirs}, our default {mine}; our message has "
            f"{length}, the rivals' {p:,}. Of ours, {cheapest} needs the fewest bytes "
            f"({_told(*_ratio(race, goal, cheapest))})."
        )
    return (
        ["Where our default needs more bytes than the best rival, or is not known to need fewer:", "", *lines]
        if lines
        else []
    )
