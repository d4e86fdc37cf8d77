"""How much communications change when a tuned constant is halved or doubled, on problems of about a second each.

    python benchmarks/sensitivity.py    # some minutes on one core; writes benchmarks/reports/sensitivity.md

A constant is tuned if its comment names a report as its source; the comment also says its unit and effect. It is tried on the problems whose default run enters a function that reads it. Counts do not depend on the machine.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import common
import numpy as np
from threadpoolctl import threadpool_limits

import glmesh
from glmesh import Cola, Problem, solve
from glmesh.engine.result import Status
from glmesh.functions import HuberLoss
from glmesh.methods import DAdmm, Dapg, Nids

ROOT = Path(glmesh.__file__).parent
ROOMS = [*sorted((ROOT / "methods").rglob("*.py")), *sorted((ROOT / "gossip").rglob("*.py"))]
ROOMS += [ROOT / "core/block.py", ROOT / "collectives/totals.py"]
SOURCE = "benchmarks/reports/"
# factors >= 1
GROWTHS = ("EIGENVALUE_MARGIN", "CAP_GROWTH", "STRIDE_GROWTH", "MOMENTUM_DAMPING", "LONGER", "QUADRATIC_FACTOR")
PATIENCE = 4  # times the default's rounds: a run that is not there by then has not arrived
FAULTS = {"seed": 1, "random": [{"dropout": 0.2, "loss": 0.05}]}
ON_TOTALS: dict[str, Any] = {"n_nodes": 8, "tol": 1e-6}
OUTAGE = {"seed": 1, "random": [{"dropout": 0.5, "loss": 0.05, "until": 60}]}
READING = """Under faults (4, 5) any change also changes the course of a run, so some % there are chance. On these problems some values
are better than the default, which is left to a change of its own: `LEAST_CAP` doubled, `POWER_STEPS` and `LEAST_REDUCTION`
halved. The constants of the last line stay as safeguards that these problems do not reach: `STRETCH_CUT` and `LEAST_STRETCH`
where a direction wins nothing, `LARGEST_STRETCH` where bounds of curvature are far too large, `FARTHEST`, `SHORT_STEP`,
`SEARCH_TOLERANCE` and `REFRESH_EVERY` where rounding would decide; or because their order of magnitude matters:
`PRECONDITIONER_EPS` and `FIRST_TRIAL`. Others to which nothing was sensitive went: the limits of the Newton steps and halvings
of a plane search are written where they are used, the second trials of a step search are five first ones, the least stride of
momentum is that of depth 2, and two counts of rounds, as two sizes of Gram matrices, became one each.

The methods on totals take so few rounds that one more or less is 2 to 12 %. What moves them most is how freely coefficients
enter a working set (`NEAR`), and on problem 15, whose Hessian is almost singular, when damping grows (`SHORT_STEP`, `DAMPING`).
Some other values are better on the one problem that shows a change (17: `CUT`, `FEW_ROWS`, `SLOWEST_CUT`, `LARGEST_MU` doubled, `LONGER`
halved; 13: `NEAR` halved; 15: `SHORT_STEP` doubled); one small problem is no reason to change them, and `CUT` doubled is worse on 16.
Those to which no problem here is sensitive stay: `ENOUGH`, `SHORT` and `LEAST_CUT` were chosen on the 22 problems of `kinks.md`,
`MEMORY` and `INTERCEPT` on text with tens of thousands of coefficients, `DUAL_FROM`, `DUAL_FROM_NARROW`, `DUAL_AGAIN`,
`SHARE` and `WIDE` save numbers in messages, not messages, and `FAR` and `SHORTEST_STEP` are for data far from the curved part of a loss."""


@dataclass(frozen=True)
class Constant:
    """A number at module level, and what its comment says."""

    file: Path
    name: str
    comment: str

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(".".join(["glmesh", *self.file.relative_to(ROOT).with_suffix("").parts]))

    @property
    def value(self) -> Any:
        return getattr(self.module, self.name)

    @property
    def tuned(self) -> bool:
        """Whether the comment names a report."""
        return SOURCE in self.comment

    @property
    def cells(self) -> list[str]:
        """Name, module and value, as a row of the report begins."""
        return [f"`{self.name}`", str(self.file.relative_to(ROOT)), told(self.value)]

    @property
    def effect(self) -> str:
        return re.sub(f"; source: {SOURCE}\\S+", "", self.comment).replace("|", r"\|")

    def variants(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (halved, doubled): attributes of the module and their values. Of a growth it is the part above 1."""
        value, low = self.value, 0.0
        if isinstance(value, np.ndarray):
            return coarser_and_finer(self.module, self.name)
        if self.name in GROWTHS:
            low = 1.0
        halved, doubled = low + (value - low) / 2, low + 2 * (value - low)
        kind = type(value)
        return {self.name: kind(halved)}, {self.name: kind(doubled)}


def coarser_and_finer(plane: ModuleType, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a grid of the plane search with every other point (the ends, 0 and 1 stay), and one with midpoints too."""
    grid = getattr(plane, name)
    keep = np.isin(grid, [grid[0], 0.0, 1.0, grid[-1]]) | (np.arange(grid.size) % 2 == 1)
    both = []
    for points in (grid[keep], np.sort(np.concatenate([grid, (grid[1:] + grid[:-1]) / 2]))):
        grids = {"GRID_A": plane.GRID_A, "GRID_B": plane.GRID_B} | {name: points}
        a, b = grids["GRID_A"].tolist(), grids["GRID_B"].tolist()
        starts = [(a.index(1.0), b.index(0.0)), (0, b.index(0.0))]
        both.append(grids | {"_AS": a, "_BS": b, "_STARTS": starts, "WIDTH": plane.MODEL_NUMBERS + len(a) * len(b)})
    return both[0], both[1]


def constants() -> list[Constant]:
    """Return the numbers at module level with a reason in methods, gossip, and the two modules that they lean on."""
    found = []
    for path in ROOMS:
        text = path.read_text(encoding="utf-8")
        rows = text.splitlines()
        for node in ast.parse(text).body:
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                continue
            name, first = node.targets[0].id, node.lineno - 1
            comment = [rows[first].partition("#")[2]] if "#" in rows[first] else []
            while rows[first - 1].startswith("#"):
                first -= 1
                comment.insert(0, rows[first][1:])
            constant = Constant(path, name, " ".join(part.strip() for part in comment))
            if name.isupper() and name[0] != "_" and (constant.tuned or "because" in constant.comment):
                found.append(constant)
    return found


def holders(home: ModuleType, name: str) -> list[ModuleType]:
    """Return the modules of the package that have this global of the module `home`, by definition or by import."""
    loaded = [module for key, module in sys.modules.items() if key.partition(".")[0] == "glmesh"]
    return [module for module in loaded if vars(module).get(name) is getattr(home, name)]


@contextmanager
def patched(home: ModuleType, values: dict[str, Any]) -> Iterator[None]:
    before = [(module, name, getattr(home, name)) for name in values for module in holders(home, name)]
    for module, name, _ in before:
        setattr(module, name, values[name])
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


# Problems


def correlated(m: int, p: int, rho: float) -> np.ndarray:
    """Columns of which each is correlated with the one before by rho."""
    X = np.random.default_rng(0).normal(size=(m, p))
    for j in range(1, p):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho * rho) * X[:, j]
    return X


def regression(m: int, p: int, rho: float, **options: Any) -> Problem:
    X, rng = correlated(m, p, rho), np.random.default_rng(1)
    return Problem.glm(X, X[:, :20] @ rng.normal(size=20) + 0.1 * rng.normal(size=m), **options)


def classification(m: int, p: int, rho: float, **options: Any) -> Problem:
    X, rng = correlated(m, p, rho), np.random.default_rng(1)
    y = np.where(X[:, :10] @ rng.normal(size=10) + rng.normal(size=m) > 0, 1.0, -1.0)
    return Problem.glm(X, y, **{"loss": "logistic", **options})


def outliers(m: int, p: int, rho: float, **options: Any) -> Problem:
    X = correlated(m, p, rho)
    return Problem.glm(X, 10.0 * np.sign(X[:, 0] + 0.1), **{"loss": "huber", **options})


@dataclass(frozen=True)
class Case:
    """A problem, what it is called, and how it is solved."""

    name: str
    problem: Callable[[], Problem]
    options: dict[str, Any]

    def run(self, max_rounds: int) -> glmesh.Result:
        with np.errstate(all="ignore"):
            return solve(self.problem(), max_rounds=max_rounds, **self.options)


CASES = [
    Case(
        "Lasso with momentum, ring of 16, to 1e-6",
        lambda: regression(200, 96, 0.5, penalty="l1", alpha=20.0),
        {"method": Cola(acceleration="momentum"), "tol": 1e-6},
    ),
    Case(
        "L2 logistic, ill-conditioned, exact sums, ring of 16, to 1e-5",
        lambda: classification(200, 48, 0.95, penalty="l2", alpha=0.1),
        {"tol": 1e-5},
    ),
    Case(
        "elastic net logistic, exact sums with the Hessian, ring of 16, to 1e-6",
        lambda: classification(700, 48, 0.8, penalty="elasticnet", alpha=2.0, l1_ratio=0.5),
        {"method": Cola(acceleration="sums", curvature="hessian"), "tol": 1e-6},
    ),
    Case(
        "Lasso, dropout 0.2 and loss 0.05, flow gossip, ring of 8, to 1e-4",
        lambda: regression(200, 96, 0.0, penalty="l1", alpha=50.0),
        {"n_nodes": 8, "faults": FAULTS, "tol": 1e-4},
    ),
    Case(
        "Lasso, half of the nodes away until round 60, flow gossip, torus of 9, to 1e-5",
        lambda: regression(200, 96, 0.5, penalty="l1", alpha=20.0),
        {"topology": "torus", "n_nodes": 9, "faults": OUTAGE, "tol": 1e-5},
    ),
    Case(
        "ridge, Chebyshev gossip and safe sigma', torus of 16, to 1e-5",
        lambda: regression(120, 96, 0.3, penalty="l2", alpha=20.0),
        {"method": Cola(gossip="chebyshev", gossip_steps="auto", sigma="safe"), "topology": "torus", "tol": 1e-5},
    ),
    Case(
        "wide ridge, exact sums, ring of 16, to 1e-8",
        lambda: regression(100, 400, 0.5, penalty="l2", alpha=1.0),
        {"method": Cola(acceleration="sums"), "tol": 1e-8},
    ),
    Case(
        "Huber's loss, momentum with the Hessian, which misleads, star of 8, to 1e-4",
        lambda: outliers(100, 48, 0.5, penalty="l2", alpha=1.0),
        {"method": Cola(acceleration="momentum", curvature="hessian"), "topology": "star", "n_nodes": 8, "tol": 1e-4},
    ),
    Case(
        "ridge with NIDS, ring of 4, to 1e-4",
        lambda: regression(2200, 520, 0.0, penalty="l2", alpha=100.0),
        {"method": Nids(), "n_nodes": 4, "tol": 1e-4},
    ),
    Case(
        "Lasso with DAPG, ring of 8, to 1e-5",
        lambda: regression(160, 30, 0.5, penalty="l1", alpha=5.0),
        {"method": Dapg(), "n_nodes": 8, "tol": 1e-5},
    ),
    Case(
        "Lasso with D-ADMM, step searched, ring of 8, to 1e-4",
        lambda: regression(160, 30, 0.8, penalty="l1", alpha=5.0),
        {"method": DAdmm(step="auto"), "n_nodes": 8, "tol": 1e-4},
    ),
    Case(
        "L2 logistic by rows, Newton's method, ring of 8, to 1e-6",
        lambda: classification(400, 30, 0.8, penalty="l2", alpha=0.01, split="samples"),
        ON_TOTALS,
    ),
    Case(
        "L1 logistic by rows, Newton's method on a working set, ring of 8, to 1e-6",
        lambda: classification(300, 2000, 0.5, penalty="l1", alpha=0.2, split="samples"),
        ON_TOTALS,
    ),
    Case(
        "Huber's loss far from its curved piece by rows, Newton's method, ring of 8, to 1e-6",
        lambda: outliers(300, 30, 0.9, penalty="l2", alpha=0.01, split="samples", loss=HuberLoss(delta=0.01)),
        ON_TOTALS,
    ),
    Case(
        "L2 squared hinge by rows, ill-conditioned, Newton's method, ring of 8, to 1e-6",
        lambda: classification(60, 40, 0.99, penalty="l2", alpha=1e-4, split="samples", loss="squared_hinge"),
        ON_TOTALS,
    ),
    Case(
        "L2 hinge by rows, interior point, ring of 8, to 1e-6",
        lambda: classification(300, 20, 0.5, penalty="l2", alpha=1.0, split="samples", loss="hinge"),
        ON_TOTALS,
    ),
    Case(
        "L1 median regression by rows, interior point, ring of 8, to 1e-6",
        lambda: regression(3000, 20, 0.8, penalty="l1", alpha=1.0, split="samples", loss="quantile"),
        ON_TOTALS,
    ),
    Case(
        "L2 logistic by rows, L-BFGS, ring of 8, to 1e-6",
        lambda: classification(700, 1200, 0.5, penalty="l2", alpha=0.1, split="samples"),
        ON_TOTALS,
    ),
]


def names_read(run: Callable[[], Any]) -> set[tuple[str, str]]:
    """Return (file, global name) of all names that occur in the functions of the package that a call enters."""
    codes = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    mine = [code for code in codes if code.co_filename.startswith(str(ROOT))]
    return {(code.co_filename, name) for code in mine for name in code.co_names}


Changes = dict[
    tuple[Constant, int], tuple[float, float]
]  # (constant, case) -> % by halving and doubling; inf: not reached


def changes(tuned: list[Constant], number: int) -> tuple[glmesh.Result, Changes]:
    """Return (the default's result, % of communications by halving and doubling each constant that the case reads)."""
    case, found = CASES[number], {}
    default = case.run(100_000)
    read = names_read(lambda: case.run(default.rounds))
    for constant in tuned:
        if read.isdisjoint((module.__file__, constant.name) for module in holders(constant.module, constant.name)):
            continue
        both = []
        for values in constant.variants():
            with patched(constant.module, values):
                result = case.run(PATIENCE * default.rounds)
            arrived = result.status is Status.CONVERGED
            both.append(100 * (result.communications / default.communications - 1) if arrived else np.inf)
        found[constant, number] = both[0], both[1]
        print(number + 1, constant.name, *both, flush=True)
    return default, found


def told(value: Any) -> str:
    return " ".join(f"{one:g}" for one in value) if np.ndim(value) else f"{value:g}"


def percent(change: float) -> str:
    if not np.isfinite(change):
        return "never"
    return f"{round(change):+d}" if round(change) else "0"


def rows(tuned: list[Constant], found: Changes, numbers: range) -> str:
    """Return the table of the constants that the cases of these numbers read."""
    lines = []
    for constant in tuned:
        if not any((constant, number) in found for number in numbers):
            continue
        tried = [values[constant.name] for values in constant.variants()]
        tried = [told(one) if np.ndim(one) == 0 else f"{len(one)} points" for one in tried]
        cells = [
            " / ".join(map(percent, found[constant, number])) if (constant, number) in found else ""
            for number in numbers
        ]
        largest = max(abs(one) for key in found for one in found[key] if key[0] == constant)
        verdict = percent(largest).lstrip("+") if largest >= 0.5 else "not sensitive"
        lines.append([*constant.cells, " / ".join(tried), *cells, verdict, constant.effect])
    columns = [*(str(number + 1) for number in numbers), "largest", "unit and effect"]
    header = ["constant", "module", "value", "tried", *columns]
    return common.table(header, lines)


def names(tuned: list[Constant], found: Changes, least: float, most: float) -> str:
    """Return the names of the constants whose largest change is in (least, most], in %, the largest first."""
    largest = dict.fromkeys(tuned, 0.0)
    for (constant, _), both in found.items():
        largest[constant] = max(largest[constant], *map(abs, both))
    chosen = sorted((one for one in tuned if least < largest[one] <= most), key=lambda one: -largest[one])
    many = Counter(one.name for one in tuned)
    return ", ".join(f"`{one.file.stem}.{one.name}`" if many[one.name] > 1 else f"`{one.name}`" for one in chosen)


def main() -> None:
    every = constants()
    tuned = [constant for constant in every if constant.tuned]
    began, cases, found = time.process_time(), [], Changes()
    with threadpool_limits(1):
        for number, case in enumerate(CASES):
            default, more = changes(tuned, number)
            found |= more
            cases.append([number + 1, case.name, default.rounds, default.communications])
    consensus = next(
        number for number, case in enumerate(CASES) if not isinstance(case.options.get("method", Cola()), Cola)
    )
    totals = next(number for number, case in enumerate(CASES) if case.options is ON_TOTALS)
    unread = [constant.name for constant in tuned if all(constant != key[0] for key in found)]
    assert not unread, f"{unread}: no problem reads them"
    others = [[*constant.cells, constant.effect] for constant in every if not constant.tuned]
    common.write(
        "sensitivity",
        f"""# Sensitivity to the tuned constants

{common.machine()}; {time.process_time() - began:.0f} s of one core in all.

Every tuned constant is halved and doubled, alone, and the communications to the same relative duality gap are compared with
those of the default, in %: `-5 / +12` is 5 % fewer when halved and 12 % more when doubled, `never` that the gap was not
reached in {PATIENCE} times the rounds. An empty cell: the run does not enter the function that reads the constant. Of factors
that are at least 1 ({", ".join(f"`{name}`" for name in GROWTHS)}) the part above 1 is halved and doubled; of the grids of the
plane search, the number of points. `largest` is the largest change on any problem, of either sign. Constants of the choice
(`methods/choice.py`) change a run only where another acceleration becomes the cheapest; their own report is `choice.md`.

Largest change on any problem:

- above 20 %, or not reached: {names(tuned, found, 20, np.inf)}
- 5 to 20 %: {names(tuned, found, 5, 20)}
- below 5 %: {names(tuned, found, 0, 5)}
- none: {names(tuned, found, -1, 0)}

{READING}

## Problems

{common.table(["", "problem", "rounds", "communications"], cases)}

## CoLA and gossip

{rows(tuned, found, range(consensus))}

## Methods of consensus

{rows(tuned, found, range(consensus, totals))}

## Methods on totals

{rows(tuned, found, range(totals, len(CASES)))}

## Not tuned

Guards against rounding, limits of memory, and counts that follow from a definition; each says why.

{common.table(["constant", "module", "value", "why"], others)}
""",
    )


if __name__ == "__main__":
    main()
