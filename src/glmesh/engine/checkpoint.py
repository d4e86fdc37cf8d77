"""What a run's file holds, and how its parts become plain data and back.

The file is an archive (`glmesh.archive`) of kind "checkpoint" with

| key        | holds                                                                       |
|------------|-----------------------------------------------------------------------------|
| `identity` | a digest of everything that a run is determined by, part by part            |
| `setup`    | what the run was made with, except the data                                 |
| `problem`  | the data, or nothing if the caller brings it along                          |
| `state`    | all that changes from round to round                                        |
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from hashlib import blake2b
from os import PathLike
from typing import Any

import numpy as np

from glmesh.errors import UnreadableFile
from glmesh.files import archive
from glmesh.problem.node_data import NodeData
from glmesh.problem.problem import Problem
from glmesh.problem.spec import ProblemSpec
from glmesh.types import Indices

KIND, VERSION, PACKAGE = "checkpoint", 5, "glmesh"  # of the classes that a file may hold


def write(path: str | PathLike[str], tree: dict[str, Any]) -> None:
    """Whole or not at all."""
    archive.save(path, tree, kind=KIND, version=VERSION, package=PACKAGE)


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """What `write` wrote."""
    tree = archive.load(path, kind=KIND, version=VERSION, package=PACKAGE)
    if not isinstance(tree, dict) or set(tree) != {"identity", "setup", "problem", "state"}:
        raise UnreadableFile(f"{path}: is no whole checkpoint; expected what Run.save writes")
    return tree


def own_classes(*parts: Any) -> list[str]:
    """Return the names of the parts' classes that no file can hold, because they are not of this package."""
    return [type(part).__name__ for part in parts if archive.name_of(type(part), PACKAGE) is None]


def digest(tree: Any) -> str:
    """A short name of plain data: equal data has equal names, whatever machine it is on."""
    hasher = blake2b(digest_size=12)
    _feed(hasher, tree)
    return hasher.hexdigest()


def _feed(hasher: Any, tree: Any) -> None:
    if isinstance(tree, np.generic):
        tree = tree.item()  # as a file gives it back
    if isinstance(tree, np.ndarray):
        hasher.update(f"array {tree.shape} {tree.dtype.str}".encode())
        hasher.update(np.ascontiguousarray(tree).data)
    elif is_dataclass(tree) and not isinstance(tree, type):
        hasher.update(type(tree).__name__.encode())
        for one in fields(tree):
            _feed(hasher, (one.name, getattr(tree, one.name)))
    elif isinstance(tree, dict):
        _feed(hasher, list(tree.items()))
    elif isinstance(tree, list | tuple):
        hasher.update(f"list {len(tree)}".encode())
        for part in tree:
            _feed(hasher, part)
    else:
        hasher.update(f"{type(tree).__name__} {tree!r};".encode())


def _spec(problem: Problem) -> ProblemSpec:
    """Return the specification without the anchor of an intercept, which belongs to the solution's state."""
    return replace(problem.spec, anchor=0.0)


def problem_tree(problem: Problem) -> dict[str, Any]:
    """A problem and its data."""
    parts = [
        {"columns": part.columns, "y": part.y, "weight": part.weight, "where": part.where} for part in problem.parts
    ]
    return {"spec": _spec(problem), "pooled": problem.pooled, "parts": parts}


def node_digest(problem: Problem, node: int, own: Indices) -> str:
    """A name of the data that a node holds."""
    data = problem.node_data(node, own)
    return digest([data.columns, data.y, data.weight])


def outline(problem: Problem) -> list[Any]:
    """What there is to say of a problem without looking at its data."""
    return [_spec(problem), problem.pooled, problem.n]


def problem_of(tree: dict[str, Any]) -> Problem:
    """Rebuild the Problem that `problem_tree` flattened."""
    spec = tree["spec"]
    return Problem(spec, [NodeData.restored(spec, **part) for part in tree["parts"]], tree["pooled"])
