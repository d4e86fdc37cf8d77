"""A program for mpiexec: what the tests of the cluster run on every rank. `python -m tests.ranks FOLDER WHAT...`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from mpi4py import MPI

import glmesh
from glmesh import Cola, GlmeshError, Network, Problem, Result, Run, methods, solve
from glmesh.engine.path import solve_path
from glmesh.engine.scatter import load, scatter
from glmesh.engine.solve import advance
from glmesh.engine.stopping import Loop
from glmesh.errors import InvalidInput, RankFailed
from glmesh.files import data_files
from glmesh.functions import Cox, NegativeBinomial
from glmesh.transports.mpi import ranks
from glmesh.transports.mpi.process_group import Ranks
from tests.cases import SOAK
from tests.strangers import gradient_descent, normal_equations

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 40))
Y = X[:, :6] @ rng.normal(size=6) + 0.1 * rng.normal(size=60)
SIGNS = np.where(Y > 0, 1.0, -1.0)
TALL = sp.random(9000, 32, density=0.01, random_state=1, format="csc")  # long vectors: exact sums go along a tree
TALL_Y = TALL @ rng.normal(size=32)
METHODS = {
    "default": Cola(),
    "printed": Cola.printed(),
    "sums": Cola(acceleration="sums"),
    "chebyshev": Cola(gossip="chebyshev", gossip_steps=2, sigma="safe"),
}
CONSENSUS = [methods.DAdmm, methods.Dapg, methods.Dgd, methods.Diging, methods.Extra, methods.Nids, methods.PgExtra]
ROUNDS = 200 if SOAK else 20
NETWORKS = [("ring", "gap"), ("erdos-renyi", "certificate")]
if SOAK:
    NETWORKS += [("torus", "gap"), ("complete", "gap"), ("ring", "certificate"), ("star", "certificate")]


def lasso() -> Problem:
    return Problem.glm(X, Y, penalty="l1", alpha=2.0)


def logistic() -> Problem:
    return Problem.glm(X, SIGNS, loss="logistic", alpha=1.0, split="samples")


def ridge() -> Problem:
    return Problem.glm(X, Y, alpha=3.0)


def apart() -> Problem:
    ends = np.sort(np.random.default_rng(5).integers(0, 60, 15))
    return Problem.from_nodes(list(zip(np.split(X, ends), np.split(SIGNS, ends), strict=True)), loss="hinge")


def cases() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Problems and options of `solve`: 16 nodes on 4 ranks."""
    both = {"features": lasso, "samples": logistic}
    found: dict[str, tuple[Any, dict[str, Any]]] = {}
    for split, problem in both.items():
        for name, method in METHODS.items():
            for topology, stop in NETWORKS:
                found[f"{split} {name} {topology} {stop}"] = problem, {
                    "method": method, "topology": topology, "stop": stop, "max_rounds": ROUNDS, "tol": 1e-3,
                    "record_every": 10, "seed": 3,
                }  # fmt: skip
    tree = {"method": METHODS["sums"], "max_rounds": 6, "record_every": 3, "stop": "rounds"}
    found["sums along a tree"] = lambda: Problem.glm(TALL, TALL_Y, penalty="l1", alpha=0.1), tree
    free = {"method": Cola(acceleration="newton"), "max_rounds": 12, "record_every": 3, "tol": 1e-12}
    found["newton, a free intercept"] = (
        lambda: Problem.glm(X, SIGNS, loss="logistic", alpha=1.0, split="samples", fit_intercept=True),
        free,
    )
    found["all are neighbours"] = lasso, {"topology": "complete", "max_rounds": 40, "record_every": 5}
    proven = {"topology": "complete", "stop": "certificate", "max_rounds": 60, "tol": 1e-2, "record_every": 10}
    found["proven"] = logistic, proven
    found["apart"] = (
        apart,
        {"n_nodes": 16, "max_rounds": 20, "topology": "torus", "stop": "certificate", "record_every": 5},
    )
    free = {"loss": "logistic", "split": "samples", "fit_intercept": True}
    found["free intercept"] = lambda: Problem.glm(X, SIGNS, **free), {"max_rounds": 40, "tol": 1e-2, "record_every": 5}
    momentum = {"method": Cola(acceleration="momentum"), "max_rounds": 15, "record_every": 5}
    found["warm start"] = logistic, {"warm_start": 0.1 * SIGNS} | momentum
    brief = {"max_rounds": 12, "record_every": 4, "stop": "rounds"}
    for kind in CONSENSUS:
        found[f"consensus {kind.__name__}"] = ridge, {"method": kind()} | brief
    found["consensus Nids, step searched"] = ridge, {"method": methods.Nids("auto"), "topology": "torus"} | brief
    found["method of a stranger"] = ridge, {"method": gradient_descent()(1e-3)} | brief
    found["method on totals of a stranger"] = ridge, {"method": normal_equations()()} | brief
    rows = {"loss": "logistic", "split": "samples", "fit_intercept": True}
    for topology in ("ring", "complete"):
        newton = {"method": methods.ProximalNewton(), "topology": topology, "tol": 1e-9, "stop": "certificate"}
        found[f"totals, {topology}"] = lambda: Problem.glm(X, SIGNS, penalty="l1", **rows), newton
    for kind in (methods.RowSpace, methods.LimitedMemory):
        wide = {"method": kind(), "tol": 1e-6, "stop": "certificate"}
        found[f"totals, {kind.__name__}"] = lambda: Problem.glm(X, SIGNS, **rows), wide
    found["totals along a tree"] = lambda: Problem.glm(TALL, TALL_Y, penalty="l1", alpha=0.1), {
        "method": methods.ProximalNewton(), "max_rounds": 3, "stop": "rounds",
    }  # fmt: skip
    found["totals, apart"] = apart, {"method": methods.InteriorPoint(), "max_rounds": 12}
    found["called off"] = lasso, {"callback": lambda run: run.rounds == 10, "record_every": 5, "tol": 1e-9}
    return {name: (problem, {"n_nodes": 16} | options) for name, (problem, options) in found.items()}


def figures(result: Result) -> dict[str, Any]:
    """All of a result but the time that it took."""
    names = "x coef intercept estimates rounds communications bytes gap objective skipped thetas"
    seen = {name: np.asarray(getattr(result, name), float) for name in names.split()}  # x of None is NaN
    seen["certificate"] = np.asarray(np.nan if result.certificate is None else result.certificate.bound)
    seen["status"] = np.asarray(result.status.name)
    seen["story"] = np.asarray(repr(result.story))
    return seen | {f"history {key}": value for key, value in result.history.items() if key != "seconds"}


def flat(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {f"{case}: {name}": value for case, found in results.items() for name, value in found.items()}


def fits(runtime: str) -> dict[str, dict[str, Any]]:
    """A path by features and one by rows, and estimators: one problem, several classes, cross-validation."""
    found: dict[str, dict[str, Any]] = {}
    brief = {"n_nodes": 16, "max_rounds": 20, "tol": 1e-2, "runtime": runtime, "record_every": 5}
    by_rows = Problem.glm(X, Y, penalty="l1", split="samples", fit_intercept=True)
    paths = {"path": (lasso(), Cola()), "path on totals": (by_rows, methods.ProximalNewton())}
    for name, (problem, method) in paths.items():
        path = solve_path(problem, [8.0, 4.0, 2.0], method=method, **brief)
        found[name] = {"coefs": path.coefs, "bytes": np.asarray(path.bytes)}
    thirds = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))
    models = {
        "estimator": glmesh.Lasso(alpha=0.1, tol=1e-2, runtime=runtime).fit(X, Y),
        "several classes": glmesh.LogisticRegression(runtime=runtime).fit(X, thirds),
        "several classes, hinge": glmesh.LinearSVC(loss="hinge", tol=1e-2, runtime=runtime).fit(X, thirds),
        "cross-validation": glmesh.LassoCV(alphas=8, cv=3, runtime=runtime).fit(X, Y),
    }
    for name, model in models.items():
        found[name] = {"coef": model.coef_, "intercept": np.asarray(model.intercept_)}
    return found


def equal(folder: Path) -> None:
    """All cases; every rank writes what it was given."""
    results = {name: figures(solve(make(), runtime="mpi", **options)) for name, (make, options) in cases().items()}
    results |= fits("mpi")
    with ranks() as all_ranks:
        np.savez(folder / f"equal-{all_ranks.rank}.npz", **flat(results))


def refuse(folder: Path) -> None:
    """What cannot be had, and what goes wrong on one rank only: every rank writes what it was told."""
    required_theta: dict[str, dict[str, Any]] = {
        "clock": {"network": Network()},
        "faults": {"faults": {"random": [{"dropout": 0.1}]}},
        "ledger": {"method": Cola(gossip="flows")},
        "few nodes": {"n_nodes": 3, "topology": "complete"},
    }
    told = {}
    for name, options in required_theta.items():
        try:
            solve(logistic(), runtime="mpi", **{"n_nodes": 8} | options)
        except InvalidInput as error:
            told[name] = str(error)
    with ranks() as all_ranks:
        me = all_ranks.rank

    def trip(run: Run) -> None:
        if me == 1 and run.rounds == 7:
            raise ZeroDivisionError("a bug in a callback")

    try:
        solve(lasso(), runtime="mpi", n_nodes=8, max_rounds=50, callback=trip)
    except (RankFailed, ZeroDivisionError) as error:
        told["callback"] = f"{type(error).__name__}: {error}"
    try:
        solve(lasso(), runtime="mpi", n_nodes=8, warm_start=np.ones(39 if me == 2 else 40))
    except GlmeshError as error:
        told["one rank's options"] = f"{type(error).__name__}: {error}"
    strange = SIGNS.copy()
    strange[-1] = 0.5
    try:
        with ranks() as all_ranks:
            mine = np.array_split(np.arange(60), all_ranks.size)[me]
            spread = {"n_nodes": 8, "partition": "contiguous", "split": "samples"}
            shard = scatter(X[mine], strange[mine], all_ranks, loss="hinge", **spread)
            solve(shard, runtime=all_ranks, n_nodes=8)
    except GlmeshError as error:
        told["one rank's label"] = f"{type(error).__name__}: {error}"
    long = Problem.glm(sp.csc_array(np.ones((300_000, 8))), np.ones(300_000), penalty="l1")
    try:  # messages that are under way then are too long to be on their way already
        solve(long, runtime="mpi", n_nodes=8, max_rounds=9, stop="rounds", record_every=9, callback=trip)
    except (RankFailed, ZeroDivisionError) as error:
        told["long vectors"] = f"{type(error).__name__}: {error}"
    wait = {"max_rounds": 9, "stop": "rounds", "record_every": 9, "callback": trip}
    try:  # the others are inside a total then
        solve(logistic(), runtime="mpi", n_nodes=8, method=methods.ProximalNewton(), **wait)
    except (RankFailed, ZeroDivisionError) as error:
        told["totals"] = f"{type(error).__name__}: {error}"
    again = solve(lasso(), runtime="mpi", n_nodes=8, max_rounds=3)  # and after all this the ranks are fit for more
    told["again"] = str(again.rounds)
    (folder / f"refuse-{me}.txt").write_text("\n".join(f"{name}: {text}" for name, text in told.items()))


def rows(folder: Path) -> None:
    """Fits on rows that all ranks have and on rows of each rank's own; every rank writes coefficients and refusals."""
    with ranks() as all_ranks:
        me, size = all_ranks.rank, all_ranks.size
    mine = np.array_split(np.arange(60), size)[me]
    texts = np.where(Y > 0.5, "ill", np.where(Y < -0.5, "well", "maybe"))
    fitted = {
        "lasso": glmesh.Lasso(alpha=0.1, tol=1e-3, n_nodes=6, runtime="mpi").fit(X[mine], Y[mine], rows="own"),
        "classes": glmesh.LogisticRegression(tol=1e-3, n_nodes=6, class_weight="balanced", runtime="mpi").fit(
            X[mine], texts[mine], 1.0 + mine % 3, rows="own"
        ),
        "svm": glmesh.LinearSVC(tol=1e-3, n_nodes=6, runtime="mpi").fit(sp.csr_array(X[mine]), SIGNS[mine], rows="own"),
    }
    np.savez(folder / f"rows-{me}.npz", **{name: fit.coef_ for name, fit in fitted.items()})
    other = X.copy()
    other[3, 4] += me
    holed = X.copy()
    holed[0, 0] = np.nan if me == 1 else 0.0
    tried: dict[str, Any] = {
        "own rows as if all": lambda: glmesh.Lasso(runtime="mpi").fit(X[mine], Y[mine]),
        "one cell": lambda: glmesh.Lasso(runtime="mpi").fit(other, Y),
        "all rows as if own": lambda: glmesh.Lasso(runtime="mpi").fit(X, Y, rows="own"),
        "rows": lambda: glmesh.Lasso(runtime="mpi").fit(X, Y, rows="own" if me == 1 else "all"),
        "C": lambda: glmesh.LogisticRegression(C=1.0 + me, runtime="mpi").fit(X, SIGNS),
        "class": lambda: (glmesh.Lasso if me == 0 else glmesh.Ridge)(runtime="mpi").fit(X, Y),
        "width": lambda: glmesh.Lasso(runtime="mpi").fit(X[mine][:, : 40 - me], Y[mine], rows="own"),
        "missing at one": lambda: glmesh.Lasso(runtime="mpi").fit(holed, Y),
        "simulation": lambda: glmesh.Lasso().fit(X, Y, rows="own"),
        "folds": lambda: glmesh.LassoCV(runtime="mpi").fit(X, Y, rows="own"),
        "solve": lambda: solve(lasso(), n_nodes=6, runtime="mpi", record_every=1 + me),
        "method": lambda: solve(lasso(), n_nodes=6, runtime="mpi", method=Cola(acceleration=["auto", "none"][me > 0])),
        "alpha": lambda: solve(Problem.glm(X, Y, alpha=1.0 + me), n_nodes=6, runtime="mpi"),
        "data": lambda: solve(Problem.glm(other, Y), n_nodes=6, runtime="mpi"),
        "tol of one": lambda: solve(lasso(), n_nodes=6, runtime="mpi", tol=-1.0 if me == 1 else 1e-4),
        "path": lambda: solve_path(lasso(), [2.0, 1.0 + me], n_nodes=6, runtime="mpi"),
    }
    told = {}
    for name, call in tried.items():
        try:
            call()
            told[name] = "nothing was refused"
        except (GlmeshError, ValueError) as error:
            told[name] = " ".join(str(error).split())
    (folder / f"rows-{me}.json").write_text(json.dumps(told))


def hold(folder: Path) -> None:
    """Each rank brings a part of a file, and writes what it holds of it in the end."""
    with ranks() as all_ranks:
        rows, labels = load(folder / "data.svm", all_ranks)
        halves = sp.csr_array(  # each entry twice
            (np.repeat(0.5 * rows.data, 2), np.repeat(rows.indices, 2), 2 * rows.indptr), shape=rows.shape
        )
        for split in ("features", "samples"):
            for how, brought in (("balanced", rows), ("shuffled", halves)):
                spread = {"n_nodes": 8, "partition": how, "seed": 1}
                shard = scatter(brought, labels, all_ranks, split=split, loss="logistic", **spread)
                held = shard.parts[0].columns
                weight = np.asarray([rows.nnz, held.nnz, held.n])
                result = solve(shard, runtime=all_ranks, n_nodes=8, max_rounds=5, stop="rounds")
                np.savez(folder / f"hold-{split}-{how}-{all_ranks.rank}.npz", weight=weight, x=result.estimates)


def family_problems() -> dict[str, Problem]:
    """Fits of families without a penalty, with weights and offsets, of data without a maximum, and penalised ones."""
    rows, few = X[:, :4] * [1.0, 100.0, 1e-3, 1.0], {"alpha": 0.0, "fit_intercept": True}
    counts, weight, offset = np.round(np.abs(Y)), 1.0 + np.arange(60) % 3, 0.1 * X[:, 5]
    parts = [(rows[k::16], np.where(counts[k::16] > 0, 1.0, -1.0) * (1.0 + np.arange(60)[k::16])) for k in range(16)]
    return {
        "probit": Problem.glm(rows, counts > 1, family="binomial", link="probit", sample_weight=weight, **few),
        "poisson": Problem.glm(rows, counts, family="poisson", offset=offset, **few),
        "inverse": Problem.glm(rows, counts + 1.0, family="gamma", link="inverse", **few),
        "not convex": Problem.glm(rows, counts + 1.0, family="inverse_gaussian", link="log", **few),
        "theta": Problem.glm(rows[:, :2], counts**2, family=NegativeBinomial(None), **few),
        "classes": Problem.glm(rows, np.minimum(counts, 2), family="multinomial", **few),
        "separated": Problem.glm(rows, rows[:, 0] > 0, family="binomial", **few),
        "l1": Problem.glm(rows, counts, family="poisson", penalty="l1", alpha=2.0, fit_intercept=True),
        "cox": Problem.from_nodes(parts, loss=Cox(), alpha=0.0),
    }


def family_figures(result: Result) -> dict[str, Any]:
    """All of a result, and what its totals at the end say."""
    seen = figures(result) | {"remark": np.asarray(result.remark), "distance": np.asarray(result.distance)}
    if (statistics := result.statistics) is not None:
        seen |= {f"meat {name}": meat for name, meat in statistics.meats.items()}
        seen |= {"information": statistics.information, "likelihood": np.asarray(statistics.log_likelihood)}
        seen |= {"between": np.asarray(statistics.between), "family": np.asarray(repr(statistics.fitted.family))}
    return seen


def families(folder: Path) -> None:
    """Families on four ranks, on two of them, and on one; every rank writes what it was given."""
    world = MPI.COMM_WORLD
    for n_ranks in (4, 2, 1):
        inside = world.Get_rank() < n_ranks
        some = world.Split(0 if inside else 1)
        if inside:
            with Ranks(some) as processes:
                found = {
                    name: family_figures(solve(one, n_nodes=16, runtime=processes))
                    for name, one in family_problems().items()
                }
                np.savez(folder / f"families-{n_ranks}-{processes.rank}.npz", **flat(found))
        world.Barrier()


def resume(folder: Path) -> None:
    """From one checkpoint on three ranks, on two of them, and on one."""
    world, (X, y) = MPI.COMM_WORLD, data_files.load(folder / "data.svm")
    problem = Problem.glm(X, y, loss="logistic", split="samples")
    for n_ranks in (3, 2, 1):
        inside = world.Get_rank() < n_ranks
        some = world.Split(0 if inside else 1)
        if inside:
            with Ranks(some) as processes, Run(problem, n_nodes=8, processes=processes) as run:
                run.restore(folder / "run.ckpt")
                last = int((folder / "last").read_text())
                result = advance(run, Loop(0.0, last, "rounds", record_every=10))
                np.savez(folder / f"resume-{n_ranks}-{processes.rank}.npz", **figures(result))
        world.Barrier()


if __name__ == "__main__":
    for name in sys.argv[2:]:
        all_of_them = {"equal": equal, "refuse": refuse, "hold": hold, "rows": rows, "resume": resume}
        (all_of_them | {"families": families})[name](Path(sys.argv[1]))
