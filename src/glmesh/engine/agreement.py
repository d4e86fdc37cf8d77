"""What the processes of a run must have in common, compared before any work; and digests of plain data and arrays."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from os import PathLike
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from glmesh.errors import Mismatch
from glmesh.parallel import ProcessGroup
from glmesh.problem import Problem

ALIKE = "give all ranks the same"  # what would do, where ranks differ
_LONGEST = 60  # [characters] of a value in a message


def require_same(
    processes: ProcessGroup, said: Mapping[str, object], remedies: Mapping[str, str] | None = None
) -> None:
    """Raise Mismatch, at all processes alike, unless `said` is equal at all of them; takes one all-gather.

    `said` is {name: value}, in the order in which differences are to be named; a value is plain data, an array, a
    sparse matrix, a graph or a dataclass. `remedies` is {name: advice at the end of the message}; other names have
    ALIKE.
    """
    if processes.size == 1:
        return
    told = processes.all_gather([{name: _spoken(value) for name, value in said.items()}])
    for name in dict.fromkeys(name for one in told for name in one):
        expected = told[0].get(name, "none")
        for rank, one in enumerate(told):
            if one.get(name, "none") != expected:
                remedy = (remedies or {}).get(name, ALIKE)
                raise Mismatch(f"rank {rank} has {name} {one.get(name, 'none')}, rank 0 has {expected}; {remedy}")


def versions() -> dict[str, object]:
    """Return {package: version} of the packages that decide the bits of a result: glmesh and numpy."""
    return {"glmesh": getattr(sys.modules["glmesh"], "__version__", None), "numpy": np.__version__}


def of_problem(problem: Problem) -> dict[str, object]:
    """Return {name: value} of what all processes must have alike in a problem: loss, penalty, split, shapes and data.

    The names are those that a message uses, such as "loss" or "alpha"; a value is plain data or an array. For a Shard,
    the problem of a process that holds only a part of the data, it has the number of variables and who holds which
    columns in place of the data.
    """
    spec = problem.spec
    said: dict[str, object] = {
        "split": spec.split,
        "loss": spec.loss,
        "penalty": spec.penalty_name,
        "alpha": spec.alpha,
        "l1_ratio": spec.l1_ratio,
        "fit_intercept": spec.fit_intercept,
        "penalties": spec.penalty if spec.penalty_name == "custom" else None,
    }
    return said | problem.in_common()


def of_fields(name: str, value: object) -> dict[str, object]:
    """Return a dict of values to compare, under names that begin with `name`.

    For a dataclass it has its class name under `name` and each field under "name.field", such as "method.gamma"; for
    any other `value` it is {name: value}.
    """
    if not is_dataclass(value) or isinstance(value, type):
        return {name: value}
    return {name: type(value).__name__} | {f"{name}.{one.name}": getattr(value, one.name) for one in fields(value)}


def digest(tree: object) -> str:
    """Return a digest of nested plain data, arrays and dataclasses: 24 hexadecimal digits, equal for equal data."""
    hasher = blake2b(digest_size=12)
    _feed(hasher, tree)
    return hasher.hexdigest()


def _spoken(value: object) -> str:
    """Return a value as text for an error message.

    Text and numbers are written out, in at most _LONGEST characters; shapes as "3 x 4"; any other value, such as an
    array, becomes "(digest ...)" with 8 hexadecimal digits.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int | float | np.number | PathLike):
        text = str(value).removesuffix(".0")  # enough digits to tell floats apart
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}... (digest {digest(text)[:8]})"
    if isinstance(value, tuple) and all(isinstance(one, int) for one in value):
        return " x ".join(map(str, value))
    return f"(digest {digest(_plain(value))[:8]})"


def _plain(value: Any) -> object:
    """Return a graph or a sparse matrix as a list of arrays, of which a digest can be taken; other values unchanged."""
    if isinstance(value, nx.Graph):
        return [list(value), sorted(map(sorted, value.edges()))]
    if sp.issparse(value):
        one = sp.csr_array(value)
        return [one.shape, one.indptr, one.indices, one.data]
    return value


def _feed(hasher: hashlib.blake2b, tree: object) -> None:
    """Update `hasher` with the types and values in `tree`, recursively: dicts, sequences, arrays, dataclasses, plain
    values.
    """
    if isinstance(tree, np.generic):
        tree = tree.item()  # as it is after reading a file
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
    elif type(tree).__repr__ is object.__repr__:  # a method of a user; its repr is an address
        _feed(hasher, (type(tree).__name__, vars(tree)))
    else:
        hasher.update(f"{type(tree).__name__} {tree!r};".encode())
