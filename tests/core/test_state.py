"""States declare themselves: cut into blocks and put together again, every state of the package is the same."""

from __future__ import annotations

import copy
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, get_type_hints

import numpy as np
import pytest

import glmesh
from glmesh import Cola, Problem, Run, methods, solvers
from glmesh.collectives.totals import LARGEST_FLOOD
from glmesh.core.state import Extent, Largest, PerColumn, PerNode, PerUnit, Shared, Summed, merge, split
from tests.strangers import normal_equations

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 21))
SIGNS = np.where(X[:, 0] + RNG.normal(size=30) > 0, 1.0, -1.0)
ROUNDS = 12
MANY = LARGEST_FLOOD + 10  # nodes, so many that totals go along a tree
LOSSY = {"seed": 1, "random": [{"loss": 0.2}]}


def lasso() -> Problem:
    return Problem.glm(X, X[:, 0], penalty="l1", alpha=2.0)


def logistic() -> Problem:
    return Problem.glm(X, SIGNS, loss="logistic", alpha=1.0, split="samples")


def hinge() -> Problem:
    return Problem.glm(X, SIGNS, loss="hinge", penalty="l1", split="samples")


RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "printed": (lasso, {"method": Cola.printed()}),
    "momentum": (lasso, {"method": Cola(acceleration="momentum")}),
    "momentum, flows": (logistic, {"method": Cola(acceleration="momentum", gossip="flows")}),
    "momentum, messages lost": (lasso, {"faults": LOSSY}),
    "sums": (lasso, {"method": Cola(acceleration="sums")}),
    "sums, messages lost": (lasso, {"method": Cola(acceleration="sums"), "faults": {"random": [{"links": 0.2}]}}),
    "newton": (logistic, {"method": Cola(acceleration="newton")}),
    "totals, newton": (logistic, {"method": methods.ProximalNewton()}),
    "totals, few rows": (
        lambda: Problem.glm(X[:9], SIGNS[:9], loss="logistic", split="samples"),
        {"method": methods.RowSpace()},
    ),
    "totals, likelihood": (
        lambda: Problem.glm(X[:, :3], SIGNS > 0, family="binomial", alpha=0.0, fit_intercept=True),
        {"method": methods.MaximumLikelihood()},
    ),
    "totals, L-BFGS": (logistic, {"method": methods.LimitedMemory()}),
    "totals, folds": (logistic, {"method": methods.CrossValidation(methods.ProximalNewton(), n_folds=2)}),
    "totals, kinks": (hinge, {"method": methods.InteriorPoint()}),
    "totals, a stranger": (lambda: Problem.glm(X, X[:, 0]), {"method": normal_equations()()}),
    "chebyshev": (lasso, {"method": Cola(gossip="chebyshev", gossip_steps=2)}),
    "relaxation": (logistic, {"method": Cola(sigma="safe")}),
    "hessian": (logistic, {"method": Cola(curvature="hessian")}),
    "certificates": (lasso, {"certify": True, "tol": 1e-3}),
    "certificates, momentum": (lasso, {"certify": True, "method": Cola(acceleration="momentum")}),
    "certificates of many nodes": (lasso, {"certify": True, "tol": 1e-3, "n_nodes": MANY, "topology": "star"}),
    "certificates, messages lost": (lasso, {"certify": True, "tol": 1e-3, "faults": LOSSY}),
    "accuracy": (lasso, {"method": Cola(local_accuracy=0.3, local_passes=9)}),
    "scikit-learn": (lasso, {"method": Cola(solver=solvers.SklearnCoordinateDescent())}),
}


@cache
def kinds(cls: type) -> dict[str, str]:
    """What each field of a state class has entries for; "" for another state."""
    hints = get_type_hints(cls, include_extras=True)
    marks = {one.name: getattr(hints[one.name], "__metadata__", ()) for one in fields(cls)}
    return {name: next((mark for mark in found if isinstance(mark, str)), "") for name, found in marks.items()}


def leaves(tree: Any, path: str = "", summed: bool = True) -> Iterator[tuple[str, Any]]:
    """(where, plain value) of everything in a tree of states, lists and arrays."""
    if isinstance(tree, np.ndarray):
        yield path, (tree.dtype.str, tree.shape, tree.tobytes())
    elif is_dataclass(tree):
        for one in fields(tree):
            if summed or kinds(type(tree))[one.name] != "summed":
                yield from leaves(getattr(tree, one.name), f"{path}.{one.name}", summed)
    elif isinstance(tree, dict | list | tuple):
        pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
        yield path, (type(tree).__name__, len(tree))
        for key, value in pairs:
            yield from leaves(value, f"{path}[{key}]", summed)
    elif hasattr(tree, "__dict__") and type(tree).__eq__ is object.__eq__:
        yield from leaves(vars(tree), path, summed)
    else:
        yield path, repr(tree)


@cache
def states_of(name: str) -> tuple[list[list[Any]], list[Extent]]:
    """(The states of three blocks, those of their certifiers if there are any; the blocks' extents)."""
    make, options = RUNS[name]
    with Run(make(), **{"n_nodes": 7, "n_blocks": 3} | options) as run:
        for _ in range(ROUNDS):
            next(run)
        return [states for states in (run.states, run.nodes.watching) if states], run.nodes.extents


@pytest.mark.parametrize("name", [name for name in RUNS if name != "totals, folds"])  # a run with folds is not saved
def test_cutting_inverts_putting_together(name):
    groups, extents = states_of(name)
    for states in groups:
        before = copy.deepcopy(states)
        whole = merge(states)
        parts = split(whole, extents)
        assert dict(leaves(parts, summed=False)) == dict(leaves(before, summed=False))
        assert dict(leaves(merge(parts))) == dict(leaves(whole))
        wider = [extents[0], Extent(*(a + b for a, b in zip(extents[1], extents[2], strict=True)))]
        assert dict(leaves(merge(split(whole, wider)))) == dict(leaves(whole))


def reached(state: Any) -> Iterator[type]:
    """The classes of a state and of all states in it; a field without an annotation must hold a state, or None."""
    yield type(state)
    for name, kind in kinds(type(state)).items():
        value = getattr(state, name)
        if not kind and value is not None:
            assert is_dataclass(value), f"{type(state).__name__}.{name} says not what it has entries for"
            yield from reached(value)


def test_the_runs_reach_every_state_class_of_the_package():
    declared = set()
    for module in pkgutil.walk_packages(glmesh.__path__, "glmesh."):
        if module.name.startswith("glmesh.methods.columns"):
            continue  # of real sites, each of which is a process of its own: their state is never cut
        if module.name.split(".")[1] in ("collectives", "gossip", "solvers", "certificate", "methods"):
            found = vars(importlib.import_module(module.name)).values()
            own = [one for one in found if isinstance(one, type) and one.__module__ == module.name]
            declared |= {one for one in own if is_dataclass(one) and any(kinds(one).values())}
    seen = {cls for name in RUNS for states in states_of(name)[0] for state in states for cls in reached(state)}
    abstract = {cls for cls in declared if any(issubclass(one, cls) and one is not cls for one in seen)}
    assert declared - abstract - seen == set()


@dataclass
class Inner:
    per_unit: PerUnit[np.ndarray]


@dataclass
class Toy:
    rows: PerNode[np.ndarray]
    names: PerNode[list[str]]
    column: PerColumn[np.ndarray | None]
    round: Shared[int]
    skipped: Summed[int]
    slowest: Largest[float]
    inner: Inner | None


def toy(nodes: list[int], **more: Any) -> Toy:
    names = [f"n{k}" for k in nodes]
    inner = Inner(np.arange(2.0 * len(nodes)))
    given = {"column": np.ones(3), "skipped": 2, "slowest": float(nodes[-1]), "inner": inner}
    return Toy(rows=np.array(nodes, float), names=names, round=5, **(given | more))


def test_fields_are_put_together_as_annotated():
    whole = merge([toy([0, 1]), toy([2])])
    assert whole.rows.tolist() == [0, 1, 2]
    assert whole.names == ["n0", "n1", "n2"]
    assert whole.column.shape == (6,)
    assert (whole.round, whole.skipped, whole.slowest) == (5, 4, 2.0)
    assert whole.inner.per_unit.shape == (6,)
    first, second = split(whole, [Extent(1, 2, 2), Extent(2, 4, 4)])
    assert (first.names, second.names) == (["n0"], ["n1", "n2"])
    assert (first.skipped, second.skipped) == (4, 0)
    assert first.slowest == second.slowest == 2.0


def test_a_part_that_one_block_lacks_is_lacking_afterwards():
    assert merge([toy([0]), toy([1], inner=None)]).inner is None
    assert merge([toy([0], column=None), toy([1], column=None)]).column is None


def test_pieces_share_no_memory_with_the_whole():
    whole = toy([0, 1])
    first, _ = split(whole, [Extent(1, 1, 2), Extent(1, 2, 2)])
    first.rows[0] = 7.0
    assert whole.rows[0] == 0.0
