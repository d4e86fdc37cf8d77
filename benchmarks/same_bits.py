"""Two commits are compared, result by result: does a change of the code leave every bit as it was?

    python benchmarks/same_bits.py BASE [NEW] [--only TEXT]

BASE and NEW are revisions, which are checked out into a temporary folder, or folders that hold a checkout; NEW is the
working tree unless it is given. About 300 small cases run on each of the two: losses, penalties and splits, methods and
accelerations, blocks and threads, faults, certificates, checkpoints, paths, estimators, the command line, two ranks of
MPI, and federations of real processes on loopback. The table lists every case whose results differ in any bit. The exit
code is 1 if a case differs by more than 1e-12, needs another number of rounds, communications or bytes, or fails.

Only what the documentation names is used here, so that the same file runs on commits whose modules have other places.
What is left out, because two runs of one commit differ in it: seconds of this machine, and the bytes and the last round
of a federation, where messages about who is done come when they come.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parent.parent
CLOSE = 1e-12  # relative to the largest entry of an array
RANKS = 2
PATIENCE = 600.0  # seconds that a part of the cases may take
ROLES = ("warm-up", "simulator", "ranks", "peers")
HISTORY = ("round", "communications", "bytes", "objective", "h", "gap", "consensus", "certificate", "theta")


# --- what is compared ----------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What a case left behind: arrays, of which every bit counts, and plain facts."""

    arrays: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


Case = Callable[[], Seen]


def of_result(result: Any, *, clock: bool = False) -> Seen:
    """All of a result but the time that it took; on a virtual clock the time counts too."""
    arrays = {name: getattr(result, name) for name in ("x", "coef", "intercept", "estimates", "thetas")}
    arrays["objective and gap"] = [result.objective, result.gap]
    arrays |= {f"history of {key}": result.history[key] for key in HISTORY}
    if result.certificate is not None:
        arrays["certificate"] = [result.certificate.bound, result.certificate.round]
    if clock:
        arrays["seconds"] = result.history["seconds"]
    facts = {name: getattr(result, name) for name in ("rounds", "communications", "bytes", "skipped")}
    facts["status"] = result.status.name
    facts["story"] = [[since, name] for since, name, _ in result.story]
    facts["events"] = [[event.round, event.kind, event.node] for event in result.events]
    return Seen(arrays, facts)


def of_run(run: Any) -> Seen:
    """The state of a run that was led round by round; the run is closed."""
    measures = run.measure()
    arrays = {"x": run.x, "estimates": run.estimates, "theta": run.theta}
    arrays["objective and gap"] = [measures.objective, measures.h, measures.gap]
    facts = {name: getattr(run, name) for name in ("rounds", "communications", "bytes")}
    facts["story"] = [[since, name] for since, name, _ in run.story]
    facts["events"] = [[event.round, event.kind, event.node] for event in run.events]
    certificate = getattr(run, "certificate", None)
    facts["status"] = "running" if certificate is None else "certified"
    if certificate is not None:
        arrays["certificate"] = [certificate.bound, certificate.round]
    run.close()
    return Seen(arrays, facts)


def of_path(path: Any) -> Seen:
    """The solutions along a path."""
    arrays = {"x": np.stack([result.x for result in path.results]), "coef": path.coefs, "intercept": path.intercepts}
    facts = {"communications": path.communications, "bytes": path.bytes}
    facts["rounds"] = [result.rounds for result in path.results]
    facts["status"] = [result.status.name for result in path.results]
    return Seen(arrays, facts)


def of_estimator(model: Any) -> Seen:
    """A fitted estimator; with several classes there is a result for each."""
    arrays: dict[str, Any] = {"coef": model.coef_, "intercept": model.intercept_}
    results = model.result_ if isinstance(model.result_, list) else [model.result_]
    arrays |= {f"x{number or ''}": result.x for number, result in enumerate(results)}
    facts = {name: [getattr(result, name) for result in results] for name in ("rounds", "communications", "bytes")}
    facts["status"] = [result.status.name for result in results]
    for name in ("alpha_", "l1_ratio_", "mse_path_", "dual_gap_"):
        if hasattr(model, name):
            arrays[name] = getattr(model, name)
    return Seen(arrays, facts)


def of_model_file(path: Path) -> Seen:
    """A model file, read as docs/files.md says: NumPy alone can."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in ("coef", "intercept")}
        meta = json.loads(file["meta"].tobytes())
    told = ("status", "split", "nodes", "rounds", "communications", "bytes", "certified_round")
    facts = {name: meta["info"][name] for name in told if name in meta["info"]}
    numbers = ("objective", "gap", "relative_gap", "objective_low", "objective_high")
    arrays["figures"] = [meta["info"][name] for name in numbers if name in meta["info"]]
    return Seen(arrays, facts | {name: meta[name] for name in ("loss", "penalty", "alpha", "l1_ratio", "classes")})


# --- data and problems ---------------------------------------------------------------------------------------

_rng = np.random.default_rng(0)
X = _rng.normal(size=(48, 24))
Y = X[:, :6] @ _rng.normal(size=6) + 0.3 * _rng.normal(size=48)
SIGNS = np.where(Y > 0, 1.0, -1.0)
SPARSE = sp.csr_array(X * (_rng.random(X.shape) < 0.3))
WEIGHT = 0.5 + _rng.random(48)
K = 6  # nodes
NODE_OF = _rng.integers(0, K, size=24)
ENDS = [4, 10, 11, 24, 36]  # where the rows of six nodes end, unequal
COLUMN_ENDS = [2, 5, 6, 12, 20]
SMOOTH = ("squared", "logistic", "huber", "squared_hinge")
CLASSIFYING = ("logistic", "hinge", "squared_hinge", "smoothed_hinge")
LOSSES = (*SMOOTH, "hinge", "smoothed_hinge", "epsilon_insensitive", "squared_epsilon_insensitive", "quantile")


def labels_for(loss: str) -> np.ndarray:
    """Labels that suit a loss."""
    return SIGNS if loss in CLASSIFYING else Y


def rows_apart() -> list[tuple[np.ndarray, np.ndarray]]:
    """The rows of six nodes."""
    return list(zip(np.split(X, ENDS), np.split(SIGNS, ENDS), strict=True))


def columns_apart(y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The columns of six nodes, each with all labels."""
    return [(part, y) for part in np.split(X, COLUMN_ENDS, axis=1)]


def documented(module: str, name: str) -> Any:
    """A name that the documentation has users import from a module, wherever its code has gone."""
    return getattr(importlib.import_module(module), name)


def problems() -> dict[str, Callable[[], Any]]:
    """Problems that most cases are about, by name."""
    from glmesh import Problem

    glm = Problem.glm
    return {
        "lasso": lambda: glm(X, Y, penalty="l1", alpha=3.0),
        "ridge": lambda: glm(SPARSE, Y, sample_weight=WEIGHT, fit_intercept=True),
        "logistic": lambda: glm(X, SIGNS, loss="logistic", penalty="elasticnet", alpha=0.5),
        "logistic by samples": lambda: glm(X, SIGNS, loss="logistic", split="samples"),
        "svm": lambda: glm(SPARSE, SIGNS, loss="hinge", alpha=0.3, split="samples"),
        "net by samples": lambda: glm(X, Y, penalty="elasticnet", alpha=5.0, split="samples", sample_weight=WEIGHT),
    }


def solved(problem: Callable[[], Any], **options: Any) -> Seen:
    """The result of `solve`, with options that keep it short."""
    from glmesh import solve

    usual = {"n_nodes": K, "max_rounds": 60, "tol": 1e-6, "record_every": 10, "seed": 3}
    return of_result(solve(problem(), **usual | options), clock="network" in options)


def followed(problem: Callable[[], Any], alphas: list[float], **options: Any) -> Seen:
    """The results of `solve_path`."""
    solve_path = documented("glmesh.path", "solve_path")
    usual = {"n_nodes": K, "tol": 1e-3, "max_rounds": 60, "record_every": 5}
    return of_path(solve_path(problem(), alphas, **usual | options))


def led(problem: Callable[[], Any], rounds: int = 50, **options: Any) -> Seen:
    """The state of a run after some rounds."""
    from glmesh import Run

    run = Run(problem(), **{"n_nodes": K, "seed": 3} | options)
    for _ in range(rounds):
        next(run)
    return of_run(run)


# --- cases in the simulator ----------------------------------------------------------------------------------


def catalogue() -> Iterator[tuple[str, Case]]:
    """Every loss with every kind of penalty, split in every way that there is, with the default method."""
    from glmesh import Problem, functions

    penalties = {
        "l2": {"penalty": "l2"},
        "l1": {"penalty": "l1", "alpha": 2.0},
        "elasticnet": {"penalty": "elasticnet", "l1_ratio": 0.3, "alpha": 2.0},
        "groups": {"penalty": functions.GroupLasso(np.arange(24) // 3), "alpha": 2.0},
        "non-negative": {"penalty": functions.L2(1.0, lo=0.0)},
        "box": {"penalty": functions.ElasticNet(0.5, 0.5, lo=-0.3, hi=0.4), "alpha": 2.0},
        "columns": {"penalty": functions.Table(np.linspace(0, 2, 24), np.linspace(0.5, 1, 24), 0.1)},
    }
    for number, loss in enumerate(LOSSES):
        by_samples = ("l2", "elasticnet", ("box", "columns")[number % 2])
        for split in ("features", "samples"):
            names = by_samples if split == "samples" else penalties
            if split == "features" and loss not in SMOOTH:
                continue
            for name in names:
                options = penalties[name] | {"loss": loss, "split": split}

                def one(loss: str = loss, options: dict[str, Any] = options) -> Seen:
                    return solved(lambda: Problem.glm(X, labels_for(loss), **options))

                yield f"{loss}, {name}, by {split}", one
    for loss in SMOOTH:
        common = {"loss": loss, "sample_weight": WEIGHT, "fit_intercept": True}
        for name, more in {"l1, by features": {"penalty": "l1"}, "l2, by samples": {"split": "samples"}}.items():

            def free(loss: str = loss, options: dict[str, Any] = common | more) -> Seen:
                return solved(lambda: Problem.glm(SPARSE, labels_for(loss), **options))

            yield f"{loss}, {name}, sparse, weights, intercept", free
    anchored = {"loss": "hinge", "penalty": "elasticnet", "split": "samples", "fit_intercept": True}
    yield "an anchored intercept", lambda: solved(lambda: Problem.glm(X, SIGNS, **anchored), tol=1e-3, max_rounds=150)
    own = {"huber": functions.HuberLoss(0.5), "quantile": functions.QuantileLoss(0.9)}
    own |= {"smoothed_hinge": functions.SmoothedHingeLoss(0.3), "svr": functions.EpsilonInsensitiveLoss(0.4)}
    for name, loss in own.items():
        y = SIGNS if name == "smoothed_hinge" else Y
        yield (
            f"{name} with its own parameter",
            lambda loss=loss, y=y: solved(lambda: Problem.glm(X, y, loss=loss, split="samples")),
        )


def methods() -> Iterator[tuple[str, Case]]:
    """The options of Cola on a few problems."""
    from glmesh import Cocoa, Cola, Network
    from glmesh.solvers import CoordinateDescent, SklearnCoordinateDescent

    network = Network(latency=0.01, bandwidth=1e6, nonzeros_per_second=[1e6] * 5 + [2e4])
    found = problems()
    everywhere = {
        "printed": Cola.printed(),
        "cocoa": Cocoa(),
        "cocoa, averaging": Cocoa(gamma=1 / K, local_passes=3, acceleration="none"),
        "momentum": Cola(acceleration="momentum", local_passes=4),
        "no acceleration": Cola(acceleration="none"),
        "chebyshev, safe sigma": Cola(gossip="chebyshev", gossip_steps="auto", sigma="safe"),
        "chebyshev, two steps": Cola(gossip="chebyshev", gossip_steps=2),
        "three steps, gamma, sigma": Cola(gamma=0.5, sigma=4.0, gossip_steps=3),
        "shuffled": Cola(local_passes=3, solver=CoordinateDescent("shuffled")),
        "local accuracy": Cola(local_passes=[1, 9, 9, 0, 9, 9], local_accuracy=0.2),
        "ledger": Cola(gossip="ledger"),
        "ledger without acceleration": Cola(gossip="ledger", acceleration="none"),
    }
    for number, (how, method) in enumerate(everywhere.items()):  # on every second problem, in turn
        for name in list(found)[number % 2 :: 2]:
            yield f"{how}: {name}", lambda name=name, method=method: solved(found[name], method=method)
    bent = {curvature: Cola(curvature=curvature) for curvature in ("scalar", "majorant", "hessian")}
    for name in ("logistic", "logistic by samples"):
        for how, method in bent.items():
            yield f"curvature {how}: {name}", lambda name=name, method=method: solved(found[name], method=method)
    sums = {"method": Cola(acceleration="sums"), "max_rounds": 20, "record_every": 1}
    for name in ("lasso", "ridge", "logistic", "logistic by samples", "net by samples"):
        yield f"sums: {name}", lambda name=name: solved(found[name], **sums)
    for topology in ("ring", "complete", "path"):
        newton = {"method": Cola(acceleration="newton"), "topology": topology, "max_rounds": 12, "tol": 1e-12}
        yield f"newton: {topology}", lambda newton=newton: solved(found["logistic by samples"], **newton)
    tried = {"max_rounds": 600, "tol": 1e-12, "record_every": 100}
    for name in ("ridge", "logistic by samples"):
        yield f"auto for long: {name}", lambda name=name: solved(found[name], **tried)
    for name in ("lasso", "svm"):
        clocked = {"network": network, "method": Cola(time_budget=1e-3, local_passes=4)}
        yield f"time budget: {name}", lambda name=name, clocked=clocked: solved(found[name], **clocked)
        yield f"a clock: {name}", lambda name=name: solved(found[name], network=network)
    learn = Cola(solver=SklearnCoordinateDescent())
    yield "scikit-learn's solver: lasso", lambda: solved(found["lasso"], method=learn, max_rounds=15)


def rivals() -> Iterator[tuple[str, Case]]:
    """Methods of consensus."""
    from glmesh import Problem
    from glmesh.methods import Constants, DAdmm, Dapg, Dgd, Diging, Extra, Nids, PgExtra

    smooth = {
        "ridge": lambda: Problem.glm(SPARSE, Y, alpha=2.0, sample_weight=WEIGHT),
        "logistic": lambda: Problem.glm(X, SIGNS, loss="logistic", split="samples"),
    }
    composite = {"lasso": problems()["lasso"]}
    plain = {"dgd": Dgd(), "diging": Diging(), "extra": Extra()}
    able = {"nids": Nids(), "pg-extra": PgExtra(), "dapg": Dapg(), "d-admm": DAdmm()}
    able |= {"d-admm, exact": DAdmm(local_solve="exact")}
    for which, among in ((plain, smooth), (able, smooth | composite)):
        for name, method in which.items():
            for what, problem in among.items():
                brief = {"method": method, "max_rounds": 25, "topology": "grid"}
                yield f"{name}: {what}", lambda problem=problem, brief=brief: solved(problem, **brief)
    told = Nids(constants=Constants(smoothness=60.0))
    yield "nids, told constants", lambda: solved(composite["lasso"], method=told, max_rounds=25)
    yield "extra, a tuned step", lambda: solved(smooth["ridge"], method=Extra("auto"), n_nodes=3, max_rounds=10)


PLANS: dict[str, dict[str, Any]] = {
    "dropout": {"seed": 1, "random": [{"dropout": 0.3}]},
    "resets": {"seed": 2, "random": [{"dropout": 0.1, "model": "reset", "until": 30}]},
    "loss": {"seed": 3, "random": [{"loss": 0.1}]},
    "late and double": {"seed": 4, "random": [{"delay": 0.2, "duplicate": 0.1}]},
    "links": {"random": [{"links": 0.2}], "link": [{"between": [0, 1], "one_way": True, "from": 5, "until": 20}]},
    "freeze": {"down": [{"node": 2, "from": 10, "until": 25}, {"node": 4, "from": 15, "until": 20, "model": "reset"}]},
    "partition": {"partition": [{"groups": [[0, 1, 2]], "from": 10, "until": 20}]},
    "join and leave": {"join": [{"node": 3, "round": 12}], "leave": [{"node": 1, "round": 25}]},
    "leave by reset": {"leave": [{"node": 5, "round": 20, "model": "reset"}], "random": [{"loss": 0.05}]},
    "straggler": {"straggler": [{"node": 1, "theta": 0.5}, {"node": 2, "theta": 1.0, "from": 3, "until": 9}]},
    "graphs": {"graphs": [[[0, 1], [2, 3], [4, 5]], [[1, 2], [3, 4], [0, 5]]]},
    "all at once": {
        "seed": 7,
        "random": [{"dropout": 0.2, "loss": 0.05, "delay": 0.05, "until": 60}],
        "down": [{"node": 2, "from": 10, "until": 18}],
        "partition": [{"groups": [[0, 1, 2]], "from": 20, "until": 26}],
        "join": [{"node": 5, "round": 9}],
        "leave": [{"node": 1, "round": 40}],
    },
}


def failing() -> Iterator[tuple[str, Case]]:
    """Fault plans, stopped by gap and by certificate."""
    from glmesh import Cola, Network

    found = problems()
    for number, (plan, tables) in enumerate(PLANS.items()):
        for name, stop in ((("lasso", "svm")[number % 2], "gap"), ("logistic by samples", "certificate")):
            options = {"faults": tables, "stop": stop, "max_rounds": 80, "tol": 1e-3}
            yield f"{plan}: {name}, {stop}", lambda name=name, options=options: solved(found[name], **options)
    lost = {"faults": PLANS["loss"], "max_rounds": 40}
    ways = {
        "printed": Cola.printed(),
        "matrix": Cola(gossip="matrix"),
        "sums": Cola(acceleration="sums"),
        "two steps": Cola(gossip_steps=2),
    }
    for how, method in ways.items():
        yield f"loss, {how}: lasso", lambda method=method: solved(found["lasso"], method=method, **lost)
    slow = {"straggler": [{"node": 1, "delay": 0.5, "from": 5, "until": 9}], "random": [{"dropout": 0.1}]}
    yield "delays on a clock: lasso", lambda: solved(found["lasso"], faults=slow, network=Network(), max_rounds=30)
    proven = {"faults": PLANS["dropout"], "stop": "certificate", "tol": 1e-2, "max_rounds": 400}
    yield "proven under faults: lasso", lambda: solved(found["lasso"], **proven)


def certificates() -> Iterator[tuple[str, Case]]:
    """Certificates of networks that stand still."""
    from glmesh import Cola

    found = problems()
    for topology in ("ring", "torus", "complete"):
        for name in ("lasso", "logistic by samples", "svm"):
            options = {"topology": topology, "stop": "certificate", "tol": 1e-3, "max_rounds": 300}
            yield f"proven, {topology}: {name}", lambda name=name, options=options: solved(found[name], **options)
    ways = {
        "ledger": Cola(gossip="ledger"),
        "sums": Cola(acceleration="sums"),
        "newton": Cola(acceleration="newton"),
        "printed": Cola.printed(),
    }
    for how, method in ways.items():
        options = {"method": method, "stop": "certificate", "tol": 1e-2, "max_rounds": 150}
        yield f"proven, {how}", lambda options=options: solved(found["logistic by samples"], **options)


def networks() -> Iterator[tuple[str, Case]]:
    """Topologies, weights, partitions, and data that is apart."""
    import networkx as nx

    from glmesh import Problem, functions

    lasso = problems()["lasso"]
    names = ("grid", "star", "hypercube", "exponential", "2-cycle", "random-3-regular", "erdos-renyi")
    for topology in names:
        yield f"topology {topology}", lambda topology=topology: solved(lasso, topology=topology, n_nodes=8)
    yield "a graph of one's own", lambda: solved(lasso, topology=nx.barbell_graph(3, 1), n_nodes=7)
    yield "one node", lambda: solved(lasso, n_nodes=1)
    for mixing in ("best-constant", "optimal"):
        how = {"mixing": mixing, "topology": "grid"}
        yield f"weights {mixing}", lambda how=how: solved(lasso, **how)
    for partition in ("contiguous", "balanced", NODE_OF):
        name = partition if isinstance(partition, str) else "of one's own"
        yield f"partition {name}", lambda partition=partition: solved(lasso, partition=partition)
    whole = {"n_nodes": K, "topology": "ring"}
    weighted = [(part, y, np.linspace(0.5, 1, len(y))) for part, y in rows_apart()]
    each = [functions.L1(0.5 + k / K) for k in range(K)]
    apart = {
        "rows, hinge": lambda: Problem.from_nodes(rows_apart(), loss="hinge"),
        "rows, weights": lambda: Problem.from_nodes(weighted, loss="logistic", alpha=0.5),
        "rows, intercept": lambda: Problem.from_nodes(rows_apart(), loss="logistic", fit_intercept=True),
        "columns, l1": lambda: Problem.from_nodes(columns_apart(Y), penalty="l1", alpha=2.0, split="features"),
        "columns, a penalty each": lambda: Problem.from_nodes(columns_apart(Y), penalty=each, split="features"),
        "columns, intercept": lambda: Problem.from_nodes(
            columns_apart(SIGNS), loss="logistic", split="features", fit_intercept=True
        ),
    }
    for name, problem in apart.items():
        yield f"apart: {name}", lambda problem=problem: solved(problem, **whole)


def spreads() -> Iterator[tuple[str, Case]]:
    """One and three blocks, one and two threads."""
    from glmesh import Cola
    from glmesh.methods import Nids

    found = problems()
    subjects: dict[str, tuple[Any, dict[str, Any]]] = {
        "default": (found["lasso"], {}),
        "printed": (found["svm"], {"method": Cola.printed()}),
        "sums": (found["ridge"], {"method": Cola(acceleration="sums"), "rounds": 15}),
        "newton": (found["logistic by samples"], {"method": Cola(acceleration="newton"), "rounds": 8}),
        "chebyshev": (found["logistic"], {"method": Cola(gossip="chebyshev", gossip_steps=2, sigma="safe")}),
        "certify": (found["net by samples"], {"certify": True}),
        "faults, certify": (found["svm"], {"certify": True, "faults": PLANS["all at once"]}),
        "nids": (found["lasso"], {"method": Nids(), "rounds": 20}),
    }
    for name, (problem, options) in subjects.items():
        for blocks, threads in ((1, 2), (3, 1), (3, 2)):
            how = options | {"n_blocks": blocks, "n_jobs": threads}
            yield (
                f"{blocks} blocks, {threads} threads: {name}",
                lambda problem=problem, how=how: led(problem, **how),
            )


def goes_on() -> Iterator[tuple[str, Case]]:
    """Checkpoints, warm starts, data that changes, and paths."""
    from glmesh import Cola, Network, Run, solve

    found = problems()

    def resumed(name: str, options: dict[str, Any], data: bool) -> Seen:
        with tempfile.TemporaryDirectory() as folder:
            run = Run(found[name](), **{"n_nodes": K, "seed": 3} | options)
            for _ in range(12):
                next(run)
            run.save(Path(folder) / "run.ckpt", data=data)
            run.close()
            again = Run.resume(Path(folder) / "run.ckpt", None if data else found[name]())
            for _ in range(12):
                next(again)
            return of_run(again)

    saved: dict[str, tuple[str, dict[str, Any]]] = {
        "default": ("lasso", {}),
        "sums": ("ridge", {"method": Cola(acceleration="sums")}),
        "newton": ("logistic by samples", {"method": Cola(acceleration="newton")}),
        "safe sigma": ("logistic", {"method": Cola(gossip="chebyshev", gossip_steps=2, sigma="safe")}),
        "a clock, blocks": ("svm", {"network": Network(), "method": Cola.printed(), "n_blocks": 3}),
        "certify": ("net by samples", {"certify": True, "topology": "grid"}),
        "faults, certify": ("svm", {"certify": True, "faults": PLANS["all at once"]}),
    }
    for number, (how, (name, options)) in enumerate(saved.items()):
        data = number % 2 == 0
        yield f"resumed: {how}", lambda name=name, options=options, data=data: resumed(name, options, data)

    def twice(name: str, **options: Any) -> Seen:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "run.ckpt"
            usual = {"n_nodes": K, "tol": 1e-9, "record_every": 10, "checkpoint": file, "checkpoint_every": 7}
            solve(found[name](), max_rounds=20, **usual | options)
            return of_result(solve(found[name](), max_rounds=45, **usual | options))

    yield "solve with a checkpoint: lasso", lambda: twice("lasso")
    yield "solve with a checkpoint: faults", lambda: twice("svm", faults=PLANS["join and leave"])

    def warm(name: str, **options: Any) -> Seen:
        start = solve(found[name](), n_nodes=K, max_rounds=15, stop="rounds", record_every=15)
        return solved(found[name], warm_start=start, max_rounds=30, **options)

    yield "warm start: lasso", lambda: warm("lasso")
    yield "warm start: svm, certificate", lambda: warm("svm", stop="certificate")
    yield "warm start: sums", lambda: warm("ridge", method=Cola(acceleration="sums"))
    yield "warm start from numbers", lambda: solved(found["logistic by samples"], warm_start=0.1 * SIGNS)

    def changing(name: str, rows: bool, **options: Any) -> Seen:
        run = Run(found[name](), **{"n_nodes": K, "seed": 3, "certify": True} | options)
        for t in run:
            if t == 15 and rows:
                run.add_columns(2, X[:3] + 0.1, SIGNS[:3])
            elif t == 15:
                run.add_columns(2, X[:, :3] ** 2)
            if t == 25:
                run.remove_columns([0, 7])
            if t == 45:
                return of_run(run)
        raise AssertionError("a run does not end by itself")

    yield "data changes: lasso", lambda: changing("lasso", rows=False)
    yield "data changes: svm, faults", lambda: changing("svm", rows=True, faults=PLANS["loss"])

    paths: dict[str, tuple[str, dict[str, Any]]] = {
        "lasso": ("lasso", {}),
        "lasso, certificate": ("lasso", {"stop": "certificate", "max_rounds": 200}),
        "logistic by samples": ("logistic by samples", {}),
        "three blocks": ("net by samples", {"n_blocks": 3, "n_jobs": 2}),
        "ledger": ("lasso", {"method": Cola(gossip="ledger")}),
    }
    at = [9.0, 4.5, 2.0]
    for how, (name, options) in paths.items():
        yield f"path: {how}", lambda name=name, options=options: followed(found[name], at, **options)


def estimators() -> Iterator[tuple[str, Case]]:
    """scikit-learn's names."""
    import glmesh

    few: dict[str, Any] = {"n_nodes": K, "tol": 1e-4, "max_rounds": 120, "random_state": 0}
    three = np.array(["a", "b", "c"])[np.digitize(Y, np.quantile(Y, [0.33, 0.66]))]
    fits: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
        "Lasso": (lambda: glmesh.Lasso(alpha=0.1, **few), Y),
        "Lasso, certificate": (lambda: glmesh.Lasso(alpha=0.1, **few | {"tol": 1e-2}, stop="certificate"), Y),
        "Lasso, positive": (lambda: glmesh.Lasso(alpha=0.05, positive=True, topology="grid", **few), Y),
        "ElasticNet": (lambda: glmesh.ElasticNet(alpha=0.1, **few), Y),
        "ElasticNet by samples": (lambda: glmesh.ElasticNet(alpha=0.3, split="samples", **few), Y),
        "Ridge": (lambda: glmesh.Ridge(alpha=2.0, **few), Y),
        "LogisticRegression": (lambda: glmesh.LogisticRegression(**few), SIGNS),
        "LogisticRegression, three classes": (lambda: glmesh.LogisticRegression(**few), three),
        "LinearSVC": (lambda: glmesh.LinearSVC(**few), SIGNS),
        "LinearSVR": (lambda: glmesh.LinearSVR(**few), Y),
        "GLMRegressor": (lambda: glmesh.GLMRegressor(loss="huber", penalty="l1", alpha=2.0, **few), Y),
        "GLMClassifier": (lambda: glmesh.GLMClassifier(loss="smoothed_hinge", penalty="l2", alpha=2.0, **few), SIGNS),
        "LassoCV": (lambda: glmesh.LassoCV(alphas=4, eps=0.1, cv=3, **few | {"tol": 1e-3}), Y),
        "ElasticNetCV": (
            lambda: glmesh.ElasticNetCV(alphas=3, eps=0.1, cv=2, l1_ratio=[0.5, 0.9], **few | {"tol": 1e-2}),
            Y,
        ),
    }
    for name, (make, y) in fits.items():
        yield name, lambda make=make, y=y: of_estimator(make().fit(X, y))
    yield (
        "LogisticRegression, fit_nodes",
        lambda: of_estimator(glmesh.LogisticRegression(**few | {"topology": "ring"}).fit_nodes(rows_apart())),
    )

    def path(follow: Any, **options: Any) -> Seen:
        names = ("alphas", "coef", "gaps", "rounds")
        found = follow(X, Y, alphas=4, eps=0.1, return_n_iter=True, **few | options)
        return Seen(dict(zip(names, found, strict=True)))

    yield "lasso_path", lambda: path(glmesh.lasso_path)
    yield "enet_path", lambda: path(glmesh.enet_path, l1_ratio=0.7, fit_intercept=True)


def commands() -> Iterator[tuple[str, Case]]:
    """`glmesh train` and `glmesh predict`, by the files that they write."""

    def trained(*options: str, twice: tuple[str, ...] = (), predict: bool = False) -> Seen:
        with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
            np.savetxt("data.csv", np.column_stack([X, SIGNS]), delimiter=",")
            Path("plan.toml").write_text('seed = 1\n[[random]]\ndropout = 0.2\nloss = 0.05\nmodel = "freeze"\n')
            ways = ("--nodes", str(K), "--max-rounds", "80", "--quiet", "--out", "model.npz")
            codes = [glmesh_command("train", "data.csv", *ways, *options, "--history", "history.csv")]
            if twice:
                codes.append(glmesh_command("train", "data.csv", *ways, *options, *twice, "--history", "history.csv"))
            seen = of_model_file(Path("model.npz"))
            table = np.genfromtxt("history.csv", delimiter=",", names=True)
            seen.arrays |= {f"history of {key}": table[key] for key in HISTORY}
            if predict:
                codes.append(glmesh_command("predict", "model.npz", "data.csv", "--out", "predictions.csv"))
                seen.arrays["predictions"] = np.loadtxt("predictions.csv")
            seen.facts["exit codes"] = codes
            return seen

    yield "train and predict: logistic", lambda: trained("--model", "logistic", predict=True)
    yield (
        "train: lasso, certificate",
        lambda: trained("--model", "lasso", "--stop", "certificate", "--topology", "torus", "--tol", "1e-2"),
    )
    going = ("--model", "svm", "--faults", "plan.toml", "--checkpoint", "saved", "--checkpoint-every", "30")
    yield "train: svm, faults, a checkpoint", lambda: trained(*going, twice=("--max-rounds", "110"))
    yield (
        "train: huber, sums, weights",
        lambda: trained("--loss", "huber=0.7", "--acceleration", "sums", "--weights", "optimal", "--max-rounds", "15"),
    )


def theories() -> Iterator[tuple[str, Case]]:
    """What theory promises of a run."""
    from glmesh import Problem, Run, theory

    def constants() -> Seen:
        run = Run(Problem.glm(X, Y, alpha=30.0), topology="complete", n_nodes=4)
        c = theory.constants(run)
        rounds = theory.rounds_strongly_convex(c, initial=1000.0, target=1.0)
        seen = of_run(run)
        seen.arrays["promised"] = [rounds, theory.linear_rate(c, p_max=0.3, theta_max=0.5)]
        return seen

    yield "theory", constants


def simulator_cases() -> Iterator[tuple[str, Case]]:
    """All that one process does."""
    groups = (catalogue, methods, rivals, failing, certificates, networks, spreads, goes_on, estimators, commands)
    for group in (*groups, theories):
        yield from group()


# --- cases on the ranks of MPI -------------------------------------------------------------------------------


def ranks_cases() -> Iterator[tuple[str, Case]]:
    """What all ranks of an MPI program do together."""
    from glmesh import Cola, Lasso, solve

    found = problems()
    brief: dict[str, Any] = {"runtime": "mpi", "max_rounds": 30}
    ways = {
        "default": {},
        "printed": {"method": Cola.printed()},
        "sums": {"method": Cola(acceleration="sums"), "max_rounds": 12},
        "chebyshev": {"method": Cola(gossip="chebyshev", gossip_steps=2, sigma="safe")},
        "certificate": {"stop": "certificate", "topology": "grid", "tol": 1e-2, "max_rounds": 150},
    }
    for name in ("lasso", "logistic by samples"):
        for how, options in ways.items():
            every = brief | options
            yield f"mpi, {how}: {name}", lambda name=name, every=every: solved(found[name], **every)
    newton = {"method": Cola(acceleration="newton"), "max_rounds": 8, "tol": 1e-12}
    yield "mpi, newton", lambda: solved(found["logistic by samples"], **brief | newton)
    yield "mpi, an intercept: ridge", lambda: solved(found["ridge"], **brief)
    yield "mpi, warm start", lambda: solved(found["svm"], warm_start=0.1 * SIGNS, **brief)
    yield "mpi, path", lambda: followed(found["lasso"], [8.0, 4.0], max_rounds=20, tol=1e-2, runtime="mpi")
    yield (
        "mpi, Lasso",
        lambda: of_estimator(Lasso(alpha=0.1, tol=1e-2, n_nodes=K, runtime="mpi").fit(X, Y)),
    )

    def scattered(split: str, **options: Any) -> Seen:
        ranks, scatter = documented("glmesh.cluster", "ranks"), documented("glmesh.scatter", "scatter")
        with ranks() as everybody:
            mine = np.array_split(np.arange(len(Y)), everybody.size)[everybody.rank]
            problem = scatter(SPARSE[mine], SIGNS[mine], everybody, n_nodes=K, split=split, loss="logistic", **options)
            return of_result(solve(problem, n_nodes=K, runtime=everybody, max_rounds=20, record_every=5))

    yield "mpi, scattered by features", lambda: scattered("features", penalty="l1", partition="balanced")
    yield "mpi, scattered by samples", lambda: scattered("samples", seed=1)

    def resumed() -> Seen:
        from mpi4py import MPI

        folder = MPI.COMM_WORLD.bcast(tempfile.mkdtemp() if MPI.COMM_WORLD.Get_rank() == 0 else None)
        options = {"n_nodes": K, "checkpoint": Path(folder) / "run.ckpt", "checkpoint_every": 5, "record_every": 5}
        solve(found["lasso"](), runtime="mpi", max_rounds=10, tol=1e-9, **options)
        result = solve(found["lasso"](), runtime="mpi", max_rounds=25, tol=1e-9, **options)
        MPI.COMM_WORLD.Barrier()
        if MPI.COMM_WORLD.Get_rank() == 0:
            shutil.rmtree(folder)
        return of_result(result)

    yield "mpi, a checkpoint", resumed


# --- cases of federations ------------------------------------------------------------------------------------


def glmesh_command(*arguments: str) -> int:
    """The exit code of a command of glmesh, whose words go nowhere unless it fails."""
    from glmesh.cli import main

    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = main(list(arguments))
    if code not in (0, 3):  # 3: out of rounds, and the model is written
        raise RuntimeError(f"glmesh {' '.join(arguments)}: exit code {code}: {told.getvalue()[-500:]}")
    return code


def together(commands: list[list[str]], seconds: float = 120.0) -> list[str]:
    """The outputs of commands that run at the same time, each as a process; all must end by themselves."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "glmesh", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for command in commands
    ]
    try:
        outputs = [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, output in zip(processes, outputs, strict=True):
        if process.returncode not in (0, 3):
            raise RuntimeError(f"{process.args}: exit code {process.returncode}: {output[-500:]}")
    return outputs


def free_ports(n: int, first: int) -> int:
    """The first of n ports in a row, from `first` on, that nobody listens on."""
    while True:
        with contextlib.suppress(OSError), contextlib.ExitStack() as taken:
            for port in range(first, first + n):
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
        first += n


def peers_cases(first_port: int) -> Iterator[tuple[str, Case]]:
    """Federations in lock-step (`--patient`), so that nothing depends on time."""

    def federation(
        parts: list[tuple[Any, Any]], *options: str, rounds: int | None = 40, again: bool = False, predict: bool = False
    ) -> Seen:
        with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
            names = [f"n{k}" for k in range(len(parts))]
            for site, (rows, y) in zip(names, parts, strict=True):
                np.savez(f"{site}.npz", X=rows, y=y)
            glmesh_command("keys", "keys", *names)
            glmesh_command("federation", "init", "fed.toml", *options)
            port = str(free_ports(len(parts), first_port))
            glmesh_command("federation", "add", "fed.toml", *(f"{n}={n}.npz" for n in names), "--port", port)
            for until in (rounds, None if rounds is None else 2 * rounds)[: 2 if again else 1]:
                limit = () if until is None else ("--rounds", str(until))
                together([["node", f"{site}.toml", "--plain", "--patient", *limit] for site in names])
            seen = Seen()
            for site in names:
                one = of_model_file(Path(f"{site}.state/model.npz"))
                if rounds is None:  # they end when word has come that all are done, which takes as long as it takes
                    del one.facts["rounds"]
                seen.arrays |= {f"{key} of {site}": value for key, value in one.arrays.items()}
                seen.facts |= {f"{key} of {site}": value for key, value in one.facts.items()}
            if predict:
                files = [[f"{site}.state/model.npz", f"{site}.npz", "--node", f"{site}.toml"] for site in names]
                told = together([["predict", *file, "--out", f"{file[1]}.csv"] for file in files])
                assert len(told) == len(names)
                seen.arrays["predictions"] = [np.loadtxt(f"{file[1]}.csv") for file in files]
            return seen

    rows = [(X[:8], SIGNS[:8]), (X[8:20], SIGNS[8:20]), (X[20:], SIGNS[20:])]
    columns = [(X[:, :4], SIGNS), (X[:, 4:14], SIGNS), (X[:, 14:], SIGNS)]
    more = [*rows[:2], (X[20:30], SIGNS[20:30]), (X[30:], SIGNS[30:])]
    exact, apart = ("--tol", "1e-12"), ("--split", "features", "--aligned")
    gossip = ("--split", "samples", "--method", "gossip")  # totals of so few rows are refused
    yield "peers, rows, logistic", lambda: federation(more, "--model", "logistic", *gossip, *exact)
    yield (
        "peers, columns, lasso, predictions",
        lambda: federation(columns, "--model", "lasso", "--alpha", "3", *apart, *exact, predict=True),
    )
    yield (
        "peers, columns, intercept, float32",
        lambda: federation(columns, "--model", "logistic", *apart, "--intercept", "--wire", "float32", *exact),
    )
    yield (
        "peers, started again",
        lambda: federation(rows, "--model", "huber", *gossip, *exact, again=True),
    )
    yield (
        "peers, until it is proven",
        lambda: federation(rows, "--model", "svm", *gossip, "--topology", "path", "--tol", "1e-3", rounds=None),
    )


# --- a child: all cases of a role ----------------------------------------------------------------------------


def arrays_of(seen: Seen) -> dict[str, Any]:
    """The arrays that a case left behind; a method on totals has coefficients and no variables, and None is no array."""
    return {key: array for key, value in seen.arrays.items() if (array := np.asarray(value)).dtype != object}


def keep(folder: Path, number: int, name: str, seen: Seen) -> None:
    """Writes what a case left behind, with digests of its arrays."""
    arrays = arrays_of(seen)
    digests = {
        key: hashlib.sha256(f"{a.dtype} {a.shape}".encode() + a.tobytes()).hexdigest() for key, a in arrays.items()
    }
    record = {"case": name, "facts": seen.facts, "sha256": digests}
    text = json.dumps(record, default=np.generic.item).encode()
    np.savez(folder / f"{number:04}.npz", record=np.frombuffer(text, np.uint8), **arrays)


def attempt(case: Case) -> Seen:
    """What a case leaves behind, be it an error."""
    try:
        return case()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"
        return Seen(facts={"error": why})


def child(role: str, checkout: Path, folder: Path, only: str, first_port: int) -> None:
    """Runs all cases of a role on the commit that PYTHONPATH leads to."""
    import glmesh

    if not Path(glmesh.__file__).resolve().is_relative_to(checkout.resolve() / "src"):
        sys.exit(f"glmesh is imported from {glmesh.__file__}, not from {checkout}")
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.simplefilter("ignore", FutureWarning)
    warnings.filterwarnings("ignore", "Stopped at max_rounds")  # which is the status of many cases
    if role == "warm-up":  # compiles the kernels, or finds them compiled
        solved(problems()["lasso"], max_rounds=2)
        return
    rank, gather = 0, None
    if role == "ranks":
        from mpi4py import MPI

        rank, gather = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.gather
    cases = {"simulator": simulator_cases, "ranks": ranks_cases, "peers": lambda: peers_cases(first_port)}[role]()
    names = set()
    for number, (name, case) in enumerate(cases):
        if name in names:
            sys.exit(f"two cases have the name {name!r}")
        names.add(name)
        if only not in name:
            continue
        seen = attempt(case)
        if gather is not None:
            bits = b"".join(array.tobytes() for array in arrays_of(seen).values())
            told = gather((seen.facts.get("error"), hashlib.sha256(bits).hexdigest()))
            seen.facts["all ranks agree"] = told is None or len(set(told)) == 1
        if rank == 0:
            keep(folder, number, name, seen)


# --- the parent: both commits side by side -------------------------------------------------------------------


def tidy() -> None:
    """From now on SIGTERM ends this process as Ctrl-C does, so that no child and no worktree is left behind."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would cut the tidying short
        sys.exit(143)

    signal.signal(signal.SIGTERM, end)


@contextlib.contextmanager
def checkout(what: str) -> Iterator[Path]:
    """A folder with a commit: the one that is named, or a temporary worktree of a revision."""
    if Path(what).is_dir():
        yield Path(what).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="same-bits-") as name:
        folder = Path(name) / "checkout"
        git = ["git", "-C", str(ROOT), "worktree"]
        made = subprocess.run([*git, "add", "--detach", str(folder), what], capture_output=True, text=True)
        if made.returncode:
            sys.exit(f"{what} is neither a folder nor a revision: {made.stderr.strip()}")
        try:
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], capture_output=True)


def environment(folder: Path) -> dict[str, str]:
    """What makes a child import glmesh from a checkout, and compute with one thread unless it asks for more."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = {"PYTHONPATH": str(folder / "src"), "PYTHONSAFEPATH": "1", "PYTHONHASHSEED": "0"}
    path["PYTHONDONTWRITEBYTECODE"] = ""  # a checkout that is new is compiled once, and not by every child
    return os.environ | threads | path


class Lane:
    """One commit: its children run one after the other, in a thread beside that of the other commit."""

    def __init__(self, name: str, checkout: Path, out: Path, only: str, first_port: int) -> None:
        self.name, self.checkout, self.out = name, checkout, out
        self.troubles: list[str] = []
        self._only, self._port = only, first_port
        self._thread = threading.Thread(target=self._run)
        self._process: subprocess.Popen[str] | None = None
        self._over = False
        self._thread.start()

    def _run(self) -> None:
        for role in ROLES:
            began = time.perf_counter()
            if not self._over:
                self._child(role)
                print(f"{self.name}: {role}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)

    def _child(self, role: str) -> None:
        folder = self.out / role
        folder.mkdir(parents=True)
        command = [sys.executable, str(Path(__file__).resolve()), str(self.checkout), "--role", role]
        command += ["--out", str(folder), "--only", self._only, "--first-port", str(self._port)]
        if role == "ranks":
            around = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
            mpiexec = shutil.which("mpiexec", path=around)
            if mpiexec is None:
                self.troubles.append("ranks: there is no mpiexec, so nothing was run with MPI")
                return
            command = [mpiexec, "-n", str(RANKS), *command]
        with open(self.out / f"{role}.txt", "w+") as told:
            self._process = subprocess.Popen(
                command, cwd=self.out, env=environment(self.checkout), stdout=told, stderr=told, start_new_session=True
            )
            try:
                code: int | str = self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                code = f"none after {PATIENCE:.0f} s"
            self.end()
            if code != 0:
                told.seek(0)
                self.troubles.append(f"{role}: exit code {code}: {told.read()[-1500:].strip()}")

    def end(self) -> None:
        """Ends the child, and all that it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def call_off(self) -> None:
        """Ends everything."""
        self._over = True
        self.end()

    def join(self) -> None:
        """Waits until all children have ended."""
        self._thread.join()

    def records(self) -> dict[str, tuple[dict[str, Any], dict[str, np.ndarray]]]:
        """What each case left behind, by its name."""
        found = {}
        for path in sorted(self.out.glob("*/*.npz"), key=lambda path: (ROLES.index(path.parent.name), path.name)):
            with np.load(path) as file:
                record = json.loads(file["record"].tobytes())
                found[record["case"]] = record, {key: file[key] for key in file.files if key != "record"}
        return found


Record = tuple[dict[str, Any], dict[str, np.ndarray]]


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest entry of the first; infinite if there is none."""
    if a.shape != b.shape or a.dtype.kind not in "biuf" or b.dtype.kind not in "biuf":
        return np.inf
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not (np.isfinite(a) & np.isfinite(b) | same).all():
        return np.inf
    if same.all():
        return 0.0
    size = np.abs(a[np.isfinite(a)]).max(initial=0.0)
    return float(np.abs(a[~same] - b[~same]).max() / max(size, np.finfo(np.float64).tiny))


def differences(base: Record | None, new: Record | None) -> list[tuple[str, str, str, float]]:
    """(what differs, in BASE, in NEW, by how much) of a case; an error differs from everything, even from itself."""
    if base is None or new is None:
        return [("case", "missing" if base is None else "there", "missing" if new is None else "there", np.inf)]
    found = []
    facts, others = base[0]["facts"], new[0]["facts"]
    if "error" in facts or "error" in others:
        return [("error", str(facts.get("error")), str(others.get("error")), np.inf)]
    for key in dict.fromkeys([*facts, *others]):
        if facts.get(key) != others.get(key) or (key == "all ranks agree" and not facts[key]):
            found.append((key, str(facts.get(key)), str(others.get(key)), np.inf))
    digests, theirs = base[0]["sha256"], new[0]["sha256"]
    for key in dict.fromkeys([*digests, *theirs]):
        if key not in digests or key not in theirs:
            found.append((key, str(key in digests), str(key in theirs), np.inf))
        elif digests[key] != theirs[key]:
            a, b = base[1][key], new[1][key]
            size = float(np.abs(a).max(initial=0.0)) if a.dtype.kind in "biuf" else np.nan
            found.append((key, f"max {size:.6g}, {digests[key][:8]}", theirs[key][:8], distance(a, b)))
    return found


def report(base: dict[str, Record], new: dict[str, Record]) -> bool:
    """Prints what differs and the summary; the answer is whether all is well."""
    equal = close = differ = 0
    rows = []
    for name in dict.fromkeys([*base, *new]):
        found = differences(base.get(name), new.get(name))
        if not found:
            equal += 1
        elif max(much for *_, much in found) <= CLOSE:
            close += 1
        else:
            differ += 1
        for what, here, there, much in found:
            by = "" if np.isinf(much) else f"{much:.1e}"
            rows.append([name, what, *(text.replace("|", "/").replace("\n", " ")[:160] for text in (here, there)), by])
    if rows:
        print("| case | what differs | base | new | relative |\n|---|---|---|---|---|")
        print("\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n")
    total = equal + close + differ
    print(f"{total} cases: {equal} equal bits, {close} equal to {CLOSE:.0e}, {differ} differ")
    return differ == 0 and total > 0


def main() -> int:
    """Compares, or is a child that runs cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="a revision, or a folder with a checkout")
    parser.add_argument("new", metavar="NEW", nargs="?", default=str(ROOT), help="the same (default: the working tree)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds TEXT")
    for option in ("--role", "--out", "--first-port"):  # of a child
        parser.add_argument(option, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        child(options.role, Path(options.base), Path(options.out), options.only, int(options.first_port))
        return 0
    tidy()
    with contextlib.ExitStack() as stack:
        out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="same-bits-")))
        folders = [stack.enter_context(checkout(what)) for what in (options.base, options.new)]
        first = random.randrange(20_000, 24_000)  # ports of federations; those of the two commits are far apart
        lanes = [
            Lane(name, folder, out / name, options.only, first + 4_000 * number)
            for number, (name, folder) in enumerate(zip(("base", "new"), folders, strict=True))
        ]
        try:
            for lane in lanes:
                lane.join()
        finally:
            for lane in lanes:
                lane.call_off()
            for lane in lanes:
                lane.join()
        well = report(*(lane.records() for lane in lanes))
        for lane in lanes:
            for trouble in lane.troubles:
                print(f"\n{lane.name}: {trouble}")
    return 0 if well and not any(lane.troubles for lane in lanes) else 1


if __name__ == "__main__":
    sys.exit(main())
