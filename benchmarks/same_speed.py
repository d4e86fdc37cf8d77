"""Two commits are timed against each other: rounds, the set-up of runs, and the import of the package.

    python benchmarks/same_speed.py BASE [NEW] [--only TEXT]

BASE and NEW are revisions or folders with a checkout, as in same_bits.py; NEW is the working tree unless it is given.
A process for each commit stays alive, both on the same core, and compiles a row before it is timed. The two take turns
every few rounds, so that whatever else the machine does hits both alike. Everything is done 7 times, in processor time
of one thread, and each round counts as long as in the best of the 7, because round t is the same work each time.
Imports are counted in the same way, module by module, in new processes. Rows beyond 1.10 times BASE, or below the
inverse of that, are measured anew by new processes, up to three times, and the best of all counts for both commits:
what is slower stays slower, and noise goes away. The exit code is 1 if a row stays above 1.10.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

REPEATS = 7
LIMIT = 1.10
AGAIN = 3  # times that rows above the limit are measured anew
MODULES, OWN, IMPORTED = "import glmesh", "import glmesh, its own modules", "ms of imports"
SCALES = {"µs a round": 1e6, "ms": 1e3, IMPORTED: 1e3}

Work = Callable[[], Iterator[list[float]]]  # it tells how many seconds each part of it took, a few at a time


# --- a child: what is timed ----------------------------------------------------------------------------------


def problems() -> dict[str, Any]:
    """Small ones, in which all but computing counts, and medium ones."""
    from glmesh import Problem

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 96))
    y = X[:, :8] @ rng.normal(size=8) + 0.5 * rng.normal(size=200)
    signs = np.where(y > 0, 1.0, -1.0)
    large = sp.random(2000, 4000, density=0.01, random_state=0, format="csr")
    target = large @ rng.normal(size=4000) + 0.1 * rng.normal(size=2000)
    return {
        "lasso": Problem.glm(X, y, penalty="l1", alpha=float(np.abs(X.T @ y).max()) / 10),
        "ridge": Problem.glm(X, y, alpha=1.0),
        "logistic": Problem.glm(X[:, :30], signs, loss="logistic", split="samples"),
        "medium lasso": Problem.glm(large, target, penalty="l1", alpha=0.5),
        "medium svm": Problem.glm(large, np.where(target > 0, 1.0, -1.0), loss="hinge", split="samples"),
        "arrays": (large, target),
    }


def rows() -> dict[str, tuple[str, Work]]:
    """(unit, work) of every row that a living process times."""
    from glmesh import Cola, Problem, Run
    from glmesh.methods import Nids

    found = problems()
    plan = {"seed": 1, "random": [{"dropout": 0.2, "loss": 0.05}]}

    def rounds(problem: str, count: int, turn: int, warm: int = 3, **options: Any) -> tuple[str, Work]:
        def work() -> Iterator[list[float]]:
            with Run(found[problem], n_jobs=1, **options) as run:
                for _ in range(warm):
                    next(run)
                gc.collect()
                for _ in range(count // turn):
                    yield timed(lambda: next(run), turn)

        return "µs a round", work

    def calls(what: Callable[[], Any]) -> tuple[str, Work]:
        def work() -> Iterator[list[float]]:
            for _ in range(3):
                gc.collect()
                yield timed(what, 1)

        return "ms", work

    def setup(problem: str, **options: Any) -> tuple[str, Work]:
        return calls(lambda: Run(found[problem], n_jobs=1, **options).close())

    medium = {"n_nodes": 64, "topology": "torus"}
    failing = {"topology": "torus", "faults": plan}
    newton = {"method": Cola(acceleration="newton"), "warm": 1}
    return {
        "round: default (momentum), lasso, 16 nodes": rounds("lasso", 50, 5),
        "round: printed, lasso, 16 nodes": rounds("lasso", 100, 20, method=Cola.printed()),
        "round: sums, ridge, 16 nodes": rounds("ridge", 20, 2, method=Cola(acceleration="sums")),
        "round: newton, logistic, 16 nodes": rounds("logistic", 5, 1, **newton),
        "round: ledger under faults, lasso, 16 nodes": rounds("lasso", 20, 2, **failing),
        "round: certificates under faults, logistic, 16 nodes": rounds("logistic", 20, 2, certify=True, **failing),
        "round: certificates, lasso, 16 nodes": rounds("lasso", 30, 2, certify=True),
        "round: Nids, lasso, 16 nodes": rounds("lasso", 100, 20, method=Nids()),
        "round: default, medium lasso, 64 nodes": rounds("medium lasso", 16, 2, **medium),
        "round: printed, medium svm, 64 nodes": rounds("medium svm", 20, 2, method=Cola.printed(), **medium),
        "set-up: lasso, 16 nodes": setup("lasso"),
        "set-up: faults and certificates, logistic, 16 nodes": setup("logistic", certify=True, **failing),
        "set-up: Nids, lasso, 16 nodes": setup("lasso", method=Nids()),
        "set-up: medium lasso, 64 nodes": setup("medium lasso", **medium),
        "set-up: Problem.glm, medium lasso": calls(lambda: Problem.glm(*found["arrays"], penalty="l1", alpha=0.5)),
    }


def timed(what: Callable[[], Any], count: int) -> list[float]:
    """Seconds of each of so many calls."""
    spent = []
    for _ in range(count):
        began = time.process_time()
        what()
        spent.append(time.process_time() - began)
    return spent


def child(checkout: Path) -> None:
    """Tells what rows there are, and waits: a name begins that row, once it is compiled, a null is its next turn."""
    import glmesh

    if not Path(glmesh.__file__).resolve().is_relative_to(checkout.resolve() / "src"):
        sys.exit(f"glmesh is imported from {glmesh.__file__}, not from {checkout}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    found, warm = rows(), set()
    print(json.dumps({name: unit for name, (unit, _) in found.items()}), flush=True)
    turns: Iterator[list[float]] = iter(())
    for line in sys.stdin:
        name = json.loads(line)
        if name is not None and name not in warm:
            warm.add(name)
            for _ in found[name][1]():
                pass
        if name is not None:
            turns = found[name][1]()
        print(json.dumps(next(turns, None) if name is None else 0), flush=True)


# --- the parent: who is to do what, and when -----------------------------------------------------------------


class Commit:
    """A checkout, and its process that waits for orders."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._env = env
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), str(folder), "--child"],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Commit:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def answer(self) -> Any:
        """The next line of the process."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit("a process has ended; its last words are above")
        return json.loads(line)

    def ask(self, order: str | None) -> Any:
        """The answer to an order: a row to begin, or None for its next turn."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def imported(self) -> dict[str, float]:
        """Seconds that each module took to be imported, without those that it imports itself."""
        command = [sys.executable, "-X", "importtime", "-c", "import glmesh"]
        told = subprocess.run(command, env=self._env, capture_output=True, text=True)
        if told.returncode:
            sys.exit(told.stderr[-2000:])
        lines = [line.removeprefix("import time:").split("|") for line in told.stderr.splitlines() if "|" in line]
        return {name.strip(): float(own) * 1e-6 for own, _, name in lines if own.strip().isdigit()}


Best = dict[str, list[dict[str, float]]]  # of every row, for both commits, the least seconds of each part


def seconds(parts: dict[str, float], unit: str) -> float:
    """A row's figure: what its modules take together, or its rounds on average."""
    return sum(parts.values()) / (1 if unit == IMPORTED else max(len(parts), 1))


def ratio(both: list[dict[str, float]], unit: str) -> float:
    """NEW in terms of BASE."""
    base, new = (seconds(parts, unit) for parts in both)
    return new / base


def turns(commits: list[Commit], name: str) -> list[dict[str, float]]:
    """The seconds of each part of a row, of both commits, which take turns; the first in the list begins."""
    if name == MODULES:
        return [one.imported() for one in commits]
    for one in commits:
        one.ask(name)
    found: list[dict[str, float]] = [{} for _ in commits]
    news: list[Any] = [[]]
    while any(part is not None for part in news):
        news = [one.ask(None) for one in commits]
        for parts, part in zip(found, news, strict=True):
            parts |= {str(len(parts) + number): value for number, value in enumerate(part or [])}
    return found


def sweep(commits: list[Commit], names: list[str], best: Best) -> None:
    """All rows, time after time."""
    for number in range(REPEATS):
        step = 1 if number % 2 == 0 else -1
        for name in dict.fromkeys(MODULES if name == OWN else name for name in names):
            for which, found in zip((0, 1)[::step], turns(commits[::step], name), strict=True):
                kept = best[name][which]
                best[name][which] = {part: min(value, kept.get(part, value)) for part, value in found.items()}
        print(f"{number + 1} of {REPEATS}, {len(names)} rows", file=sys.stderr, flush=True)
    if OWN in names:
        best[OWN] = [{name: own for name, own in parts.items() if name.startswith("glmesh")} for parts in best[MODULES]]


def main() -> int:
    """Times both, or is a child."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="a revision, or a folder with a checkout")
    parser.add_argument("new", metavar="NEW", nargs="?", help="the same (default: the working tree)")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name holds TEXT")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(Path(options.base))
        return 0
    from same_bits import ROOT, checkout, environment, tidy

    tidy()
    best: Best = {}
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(checkout(what)) for what in (options.base, options.new or str(ROOT))]
        for number in range(1 + AGAIN):
            with contextlib.ExitStack() as living:
                commits = [living.enter_context(Commit(folder, environment(folder))) for folder in folders]
                units, _ = (commit.answer() | {MODULES: IMPORTED, OWN: IMPORTED} for commit in commits)
                if number == 0:
                    best = {name: [{}, {}] for name in units if options.only in (MODULES if name == OWN else name)}
                    doubtful = list(best)
                sweep(commits, doubtful, best)
            doubtful = [name for name in best if not 1 / LIMIT <= ratio(best[name], units[name]) <= LIMIT]
            if not doubtful:
                break
    print("| what | unit | base | new | new / base |\n|---|---|---|---|---|")
    for name, both in best.items():
        base, new = (f"{SCALES[units[name]] * seconds(parts, units[name]):.4g}" for parts in both)
        print(f"| {name} | {units[name]} | {base} | {new} | {ratio(both, units[name]):.2f} |")
    slower = [name for name, both in best.items() if ratio(both, units[name]) > LIMIT]
    print(f"\n{len(best)} rows: {len(best) - len(slower)} at most {LIMIT:.2f} times base, {len(slower)} slower")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
