"""Communications, bytes and seconds of the default method beside printed CoLA, and what each part of it buys.

GLMESH_DATA=folder python benchmarks/communications.py

A communication is any exchange that a node waits for, whatever its size. All numbers of a table are from one run.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

import common
import numpy as np
import scipy.sparse as sp
from simulator import rivals
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import glmesh
from glmesh import Cola, Problem, Run
from glmesh.formatting import size
from glmesh.solvers import CoordinateDescent

LOOSE, TIGHT = 1e-3, 1e-6  # relative suboptimality
CLOSE = 1e-4  # of coefficients, in relative norm
CAP = 12_000  # communications
FAULTS = {"seed": 1, "random": [{"dropout": 0.2, "loss": 0.05}]}
PROVEN = 1e-10

PRINTED = Cola.printed()
DEFAULT = Cola()
MOMENTUM = Cola(acceleration="momentum")
SUMS = Cola(acceleration="sums")


@dataclass
class Reached:
    """When a run came below each goal: [communications, bytes, rounds], and how far it was at the end."""

    at: dict[float, tuple[int, int, int]] = field(default_factory=dict)
    ended: int = 0  # communications when it was given up
    error: float = np.inf
    way: str = ""

    def communications(self, goal: float) -> float:
        return self.at[goal][0] if goal in self.at else np.inf

    def told(self, goal: float) -> str:
        if goal in self.at:
            return f"{self.at[goal][0]:,}"
        return f"> {self.ended:,} (at {self.error:.0e})"

    def bytes(self, goal: float) -> str:
        return size(self.at[goal][1]) if goal in self.at else "–"

    def rounds(self, goal: float) -> float:
        return self.at[goal][2] if goal in self.at else np.inf

    def at_least(self, goal: float) -> float:
        """What it needs, or has used in vain."""
        return self.at[goal][0] if goal in self.at else self.ended


def reach(
    problem: Problem, method: Cola, error: Callable[[Run], float], goals: tuple[float, ...], cap: int = CAP, **options
) -> Reached:
    """Rounds until all goals are reached. Runs with acceleration are looked at in every round, others every 1 %."""
    result, look = Reached(), 1
    with Run(problem, method=method, **options) as run:
        while len(result.at) < len(goals) and run.communications < cap:
            next(run)
            if run.rounds < look and run.communications < cap:
                continue
            look = run.rounds + (max(1, run.rounds // 100) if method.acceleration == "none" else 1)
            result.error = error(run)
            for goal in goals:
                if result.error <= goal and goal not in result.at:
                    result.at[goal] = run.communications, run.bytes, run.rounds
        result.ended = run.communications
        result.way = ", ".join(f"{way} from round {start:,}" if start else way for start, way, _ in run.story)
    print(options, method.acceleration, result, flush=True)
    return result


# --- Lassos on text


@dataclass(frozen=True, eq=False)
class Text:
    """A Lasso at lambda_max/100, and its optimum."""

    name: str
    X: sp.csr_array
    y: np.ndarray
    problem: Problem
    best: float
    gap: float

    def suboptimality(self, x: np.ndarray) -> float:
        return (self.problem.objective(x) - self.best) / abs(self.best)


@cache
def text(name: str) -> Text:
    X, y = common.load(name)
    problem = Problem.glm(X, y, penalty="l1", alpha=float(np.abs(X.T @ y).max()) / 100)
    return Text(name, X, y, problem, *optimum(problem, X, y))


def optimum(problem: Problem, X, y) -> tuple[float, float]:
    """(best objective, relative duality gap that proves it): one node goes on from celer's answer."""
    import celer

    alpha = problem.spec.alpha / X.shape[0]
    start = celer.Lasso(alpha, fit_intercept=False, tol=1e-14, max_iter=1000).fit(sp.csc_matrix(X), y).coef_
    method = Cola(local_passes=10, solver=CoordinateDescent(order="shuffled"))
    result = glmesh.solve(
        problem, n_nodes=1, method=method, tol=PROVEN / 10, max_rounds=2_000, record_every=10, warm_start=start
    )
    if result.relative_gap > PROVEN:
        raise RuntimeError(f"the optimum is only known to {result.relative_gap:.0e}")
    return result.objective, result.relative_gap


def on_rcv1(
    method: Cola, topology: str, n_nodes: int = 16, mixing: str = "metropolis", faulty: bool = False
) -> Reached:
    return _on_rcv1(method, topology, n_nodes, mixing, faulty)  # so that a default and its name count as one


@cache
def _on_rcv1(method: Cola, topology: str, n_nodes: int, mixing: str, faulty: bool) -> Reached:
    data = text("rcv1")
    return reach(
        data.problem,
        method,
        lambda run: data.suboptimality(run.x),
        (LOOSE, TIGHT),
        topology=topology,
        n_nodes=n_nodes,
        mixing=mixing,
        faults=FAULTS if faulty else None,
    )


def met(yes: bool) -> str:
    return "yes" if yes else "**no**"


def rcv1() -> str:
    """Printed, default, momentum and sums on networks of 16 and 64."""
    rows = []
    for topology, most in (("ring", 280), ("grid", 170), ("torus", 170), ("complete", 60)):
        printed, default = on_rcv1(PRINTED, topology), on_rcv1(DEFAULT, topology)
        momentum, sums = on_rcv1(MOMENTUM, topology), on_rcv1(SUMS, topology)
        needed = default.communications(TIGHT)
        target, done = f"at most {most} communications", needed <= most
        if topology == "ring":
            target += ", a fourteenth of printed"
            done = done and 14 * needed <= printed.at_least(TIGHT)
        few, saves = "at most 50 sums", sums.rounds(TIGHT) <= 50
        if topology == "ring":
            few += ", a fifth of the default's bytes"
            saves = saves and TIGHT in default.at and 5 * sums.at[TIGHT][1] <= default.at[TIGHT][1]
        for label, one, aim, ok in (
            ("printed", printed, "", ""),
            ("default", default, target, met(done)),
            ("momentum", momentum, "", ""),
            ("sums", sums, few, met(saves)),
        ):
            rows.append(_row(f"{topology}, 16", label, one, printed, aim, ok))
    for topology in ("random-3-regular", "torus"):
        printed, default = on_rcv1(PRINTED, topology, 64), on_rcv1(DEFAULT, topology, 64)
        done = met(8 * default.communications(TIGHT) <= printed.at_least(TIGHT))
        rows.append(_row(f"{topology}, 64", "printed", printed, printed, "", ""))
        rows.append(_row(f"{topology}, 64", "default", default, printed, "an eighth of printed", done))
    header = [
        "network",
        "method",
        "comms to 1e-3",
        "comms to 1e-6",
        "rounds",
        "bytes",
        "printed / this",
        "target",
        "met",
    ]
    return common.table(header, rows)


def _row(network: str, label: str, one: Reached, printed: Reached, aim: str, ok: str) -> list[object]:
    less = ""
    if one is not printed and TIGHT in one.at:
        sign = "" if TIGHT in printed.at else "> "
        less = f"{sign}{printed.at_least(TIGHT) / one.at[TIGHT][0]:.1f}"
    label = label if label != "default" else f"default ({one.way})"
    rounds = f"{one.at[TIGHT][2]:,}" if TIGHT in one.at else "–"
    return [network, label, one.told(LOOSE), one.told(TIGHT), rounds, one.bytes(TIGHT), less, aim, ok]


# --- ill-conditioned


@cache
def small(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = {"breast cancer": load_breast_cancer, "wine": load_wine}[name]()
    return StandardScaler().fit_transform(data.data), np.where(data.target == 0, 1.0, -1.0)


def answer(loss: str, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Scikit-learn's coefficients."""
    if loss == "squared":
        return Ridge(alpha=1.0, fit_intercept=False, solver="cholesky").fit(X, y).coef_
    model = LogisticRegression(C=1.0, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=1_000)
    return np.ravel(model.fit(X, y).coef_)


@cache
def on_small(
    name: str, loss: str, split: str, method: Cola, cap: int, mixing: str = "metropolis", to_the_end: bool = False
) -> Reached:
    X, y = small(name)
    right = answer(loss, X, y)
    problem = Problem.glm(X, y, loss=loss, alpha=1.0, split=split)

    def error(run: Run) -> float:
        coef = run.nodes.coefficients(run.x, run.estimates, run.members)[0]
        return float(np.linalg.norm(coef - right) / np.linalg.norm(right))

    goals = (CLOSE, 0.0) if to_the_end else (CLOSE,)
    return reach(problem, method, error, goals, cap, topology="ring", n_nodes=16, mixing=mixing)


def ill_conditioned() -> str:
    """Ridge and logistic regression until the coefficients are scikit-learn's."""
    rows = []
    for split, most in (("features", 1_000), ("samples", 5_000)):
        for name in ("breast cancer", "wine"):
            for loss in ("squared", "logistic"):
                default = on_small(name, loss, split, DEFAULT, 2 * most)
                printed = on_small(name, loss, split, PRINTED, 5_000, to_the_end=True)
                model = "ridge" if loss == "squared" else "L2 logistic"
                done = met(default.communications(CLOSE) < most)
                after = f"{printed.error:.1e}"
                if CLOSE in printed.at:
                    after += f" (1e-4 after {printed.told(CLOSE)})"
                rows.append(
                    [f"{model}, {name}", split, default.told(CLOSE), default.way, f"under {most:,}", done, after]
                )
    header = ["problem", "split by", "comms to 1e-4", "acceleration", "target", "met", "printed's error after 5,000"]
    return common.table(header, rows)


# --- faults


def moderate() -> tuple[Problem, float]:
    """The Lasso of benchmarks/elastic.py, and its optimum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 256))
    y = X[:, :20] @ rng.normal(size=20) + 0.1 * rng.normal(size=400)
    problem = Problem.glm(X, y, penalty="l1", alpha=40.0)
    return problem, optimum(problem, X, y)[0]


def faults() -> str:
    """Communications to 1e-6 under dropout and loss."""
    rows = []
    problem, best = moderate()
    for topology in ("torus", "ring"):
        found = {}
        for method in (PRINTED, DEFAULT):
            for plan in (None, FAULTS):
                found[method, plan is not None] = reach(
                    problem,
                    method,
                    lambda run: (problem.objective(run.x) - best) / abs(best),
                    (TIGHT,),
                    topology=topology,
                    n_nodes=16,
                    faults=plan,
                )
        rows.append(_fault_row(f"Lasso 400 x 256, {topology} of 16", found))
    found = {(m, faulty): on_rcv1(m, "ring", faulty=faulty) for m in (PRINTED, DEFAULT) for faulty in (False, True)}
    rows.append(_fault_row("RCV1, ring of 16", found))
    header = ["problem", "printed, no faults", "default, no faults", "printed, faults", "default, faults", "printed / default",
              "default needs no more"]  # fmt: skip
    return common.table(header, rows)


def _fault_row(name: str, found: dict[tuple[Cola, bool], Reached]) -> list[object]:
    printed, default = found[PRINTED, True], found[DEFAULT, True]
    ratio = f"{printed.at_least(TIGHT) / default.at_least(TIGHT):.2f}"
    done = met(TIGHT in default.at and default.communications(TIGHT) <= printed.at_least(TIGHT))
    order = [found[PRINTED, False], found[DEFAULT, False], printed, default]
    return [name, *(one.told(TIGHT) for one in order), ratio, done]


# --- seconds


def tuned(make: Callable[[float], object], data: Text, X) -> tuple[float, float] | None:
    """(the loosest tolerance that reaches the goal, the suboptimality then)."""
    for tolerance in (10.0 ** (-k / 2) for k in range(2, 29)):
        found = data.suboptimality(np.ravel(make(tolerance).fit(X, data.y).coef_))
        if found <= TIGHT:
            return tolerance, found
    return None


def rounds_timed(data: Text, method: Cola, rounds: int, threads: int) -> tuple[float, float]:
    """(seconds of so many rounds on a ring, suboptimality then)."""
    with threadpool_limits(threads, "blas"), Run(data.problem, method=method, topology="ring", n_nodes=16) as run:
        for _ in range(rounds):
            next(run)
        return run.seconds, data.suboptimality(run.x)


def race(name: str) -> Iterator[list[object]]:
    data = text(name)
    ours: dict[str, tuple[Cola, int]] = {}
    for kind, method in (("default", DEFAULT), ("sums", SUMS)):
        found = reach(data.problem, method, lambda run: data.suboptimality(run.x), (TIGHT,), topology="ring")
        if TIGHT not in found.at:
            yield [name, f"{kind}, ring of 16", f"not in {found.ended:,} communications", "", "", ""]
            return
        communications, _, rounds = found.at[TIGHT]
        ours[f"{kind}, ring of 16, {communications:,} communications"] = method, rounds
    X = sp.csc_matrix(data.X)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    makers = {k: v for k, v in rivals("Lasso", data.problem, X.shape[0]).items() if k != "celer"}
    tolerances = {label: tuned(make, data, X) for label, make in makers.items()}
    times: dict[str, list[float]] = {}
    ends: dict[str, float] = {}
    for turn in range(3):
        for label, (method, rounds) in ours.items():
            for threads in (1, os.cpu_count() or 1) if turn == 0 else (1,):
                who = f"{label}, BLAS threads: {threads}"
                spent, ends[who] = rounds_timed(data, method, rounds, threads)
                times.setdefault(who, []).append(spent)
        for rival, tolerance in tolerances.items():
            if tolerance is None:
                continue
            who = f"{rival}, tol {tolerance[0]:.0e}"
            began = time.perf_counter()
            makers[rival](tolerance[0]).fit(X, data.y)
            times.setdefault(who, []).append(time.perf_counter() - began)
            ends[who] = tolerance[1]
    best = {who: min(spent) for who, spent in times.items()}
    sklearn = next((spent for who, spent in best.items() if who.startswith("scikit-learn")), np.nan)
    skglm = next((spent for who, spent in best.items() if who.startswith("skglm")), np.nan)
    for who, spent in best.items():
        yield [name, who, f"{spent:.2f}", f"{ends[who]:.1e}", f"{spent / sklearn:.2f}", f"{spent / skglm:.2f}"]


def seconds() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", UserWarning)
        rows = [row for name in ("rcv1", "news20") for row in race(name)]
    table = common.table(["data", "who", "seconds", "suboptimality then", "/ scikit-learn", "/ skglm"], rows)
    return f"{table}\n\nThe machine's load was {os.getloadavg()[0]:.1f} in the last minute of this; 2 would be this benchmark alone."


# --- parts


def parts() -> str:
    """What each part buys."""
    rows = []
    two = Cola(acceleration="none", local_passes=2)
    for label, method, mixing in (
        ("printed", PRINTED, "metropolis"),
        ("printed with two symmetric passes", two, "metropolis"),
        ("momentum, Metropolis weights", MOMENTUM, "metropolis"),
        ("momentum, optimal weights", MOMENTUM, "optimal"),
        ("sums", SUMS, "metropolis"),
        ("default", DEFAULT, "metropolis"),
    ):
        row: list[object] = [label]
        for topology in ("ring", "torus"):
            one = on_rcv1(method, topology, mixing=mixing)
            row += [one.told(TIGHT), one.bytes(TIGHT)]
        ridge = on_small("breast cancer", "squared", "features", method, CAP, mixing)
        rows.append([*row, ridge.told(CLOSE), ridge.bytes(CLOSE)])
    header = ["method", "RCV1, ring", "bytes", "RCV1, torus", "bytes", "breast cancer ridge, ring", "bytes"]
    return common.table(header, rows)


def main() -> None:
    """Writes the report, table by table."""
    began = time.perf_counter()
    with threadpool_limits(1, "blas"):
        gap = text("rcv1").gap
        report = [
            f"""# Communications: the default beside printed CoLA

{common.machine()}

A communication is any exchange that a node waits for, whatever its size.
Columns are shuffled (the default partition), weights are Metropolis weights (the default), and K = 16 where nothing else is said.
Runs without acceleration are looked at when their rounds have grown by 1 %, so their counts are up to 1 % too high. The others are looked at in every round.
A run is given up after {CAP:,} communications, or at twice the target. Then the table says how far it was.
Counts and bytes do not depend on the machine. Seconds do.
"""
        ]
        for title, note, make in (
            (
                "RCV1, Lasso at lambda_max/100",
                f"Communications to a relative suboptimality of 1e-3 and 1e-6; rounds and bytes to 1e-6. "
                f"The optimum is proven by a relative duality gap of {max(gap, 1e-16):.0e} or less. A round of sums is one sum.",
                rcv1,
            ),
            (
                "Ill-conditioned: ridge and L2 logistic, ring of 16",
                "alpha = 1, no intercept, standardised columns, class 0 against the rest. Communications until the "
                "coefficients are within 1e-4 (relative norm) of scikit-learn's, for the first time. Split by samples they are those of node 0.",
                ill_conditioned,
            ),
            (
                "Faults: 20 % dropout and 5 % loss one way",
                "Communications to a relative suboptimality of 1e-6.",
                faults,
            ),
            (
                "Seconds to 1e-6",
                "The 16 nodes of the ring are simulated on these cores; only rounds are timed. Scikit-learn and skglm see all data; "
                "their tolerance is the loosest power of sqrt(10) that reaches 1e-6. Best of three, interleaved, all warm. "
                "With as many BLAS threads as cores ours are timed once: their dot products then wait for cores that others use.",
                seconds,
            ),
            (
                "What each part buys",
                "Communications and bytes to a relative suboptimality of 1e-6 (RCV1), or until the coefficients are within 1e-4 "
                "(ridge split by features).",
                parts,
            ),
        ):
            report.append(f"## {title}\n\n{note}\n\n{make()}\n")
            report[1:] = [part for part in report[1:] if not part.startswith("This took")]
            common.write("communications", "\n".join([*report, f"This took {time.perf_counter() - began:.0f} s.\n"]))


if __name__ == "__main__":
    main()
