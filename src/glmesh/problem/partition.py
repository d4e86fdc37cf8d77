"""Partition of the columns of A over the nodes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidInput
from glmesh.functions import Separable
from glmesh.problem.problem import Problem
from glmesh.types import Indices, Vector

HOW = ("shuffled", "contiguous", "balanced")


@dataclass(frozen=True, eq=False)
class Partition:
    """Which node holds which columns: node k has the user's columns order[starts[k]:starts[k + 1]].

    `order` holds the numbers of all n columns, node after node; `starts` has an entry per node and n at the end.
    """

    order: Indices  # (n,) the user's numbers of the columns, node after node
    starts: Indices  # (K + 1,) where each node's columns begin in `order`

    @property
    def n_nodes(self) -> int:
        """Number of nodes K."""
        return len(self.starts) - 1

    def columns_of(self, node: int) -> Indices:
        """Return the columns that a node holds, as indices into the user's matrix, in the order that the node has."""
        return self.order[self.starts[node] : self.starts[node + 1]]

    def to_user(self, values: Vector) -> Vector:
        """Return `values`, shape (n,), one per column and given node after node, in the order of the user's columns."""
        out = np.empty_like(values)
        out[self.order] = values
        return out

    @staticmethod
    def of_lists(lists: Sequence[Indices]) -> Partition:
        """Return the partition in which node k holds the columns lists[k], in that order."""
        sizes = [len(part) for part in lists]
        order = np.concatenate([np.asarray(part, dtype=np.int64) for part in lists]) if lists else np.zeros(0, np.int64)
        return Partition(order, np.cumsum([0, *sizes]))


def partition(problem: Problem, n_nodes: int, how: str | ArrayLike = "shuffled", seed: int = 0) -> Partition:
    """Return a partition of the columns of a problem over nodes, some of which may be empty.

    Parameters
    ----------
    problem : Problem
        Data that is apart stays where it is; only columns of a group are put next to each other.
    n_nodes : int
        K.
    how : {"shuffled", "contiguous", "balanced"} or array or list of lists, default "shuffled"
        "shuffled": a seeded random split, sizes differ by at most one, columns with most nonzeros first at each node.
        "contiguous": in the user's order. "balanced": equal numbers of nonzeros. An array holds the node of each
        column, a list of K lists the columns of each node. Columns of a group (`GroupLasso`) stay together.
    seed : int, default 0
        Of "shuffled".

    Returns
    -------
    Partition
        Columns of each node.

    Raises
    ------
    InvalidInput
        `how` is unknown, cuts a group, does not hold each column exactly once, or goes with data that is apart.
    """
    if not problem.pooled:
        if not isinstance(how, str) or how != "shuffled":
            raise InvalidInput("the problem's data is already apart, on its nodes; partition= goes with Problem.glm")
        ends = np.cumsum([part.columns.n for part in problem.parts])
        return Partition.of_lists(
            [
                part[_group_order(problem.spec.penalty_of(k), problem.spec.split, len(part), k)]
                for k, part in enumerate(np.split(np.arange(problem.n), ends[:-1]))
            ]
        )
    columns, labels = problem.composite.columns, problem.composite.g.group_labels
    if labels is None:
        return spread(columns.nonzeros, n_nodes, how, seed)
    if how is not None and not isinstance(how, str):
        return _check_groups(_given(how, columns.n, n_nodes), labels)
    # groups stay together
    group_of = np.unique(labels, return_inverse=True)[1]
    groups = spread(np.bincount(group_of, columns.nonzeros).astype(np.int64), n_nodes, how, seed)
    lists = [np.flatnonzero(np.isin(group_of, groups.columns_of(k))) for k in range(n_nodes)]
    return _check_groups(Partition.of_lists(lists), labels)


def spread(loads: Indices, n_nodes: int, how: str | ArrayLike, seed: int, what: str = "columns") -> Partition:
    """Return a Partition of len(loads) units (columns or samples) over nodes; unit i has loads[i] nonzeros.

    `how` ("shuffled", "contiguous", "balanced", node of each unit, or units of each node) and `seed` are those of
    `partition`; `what` names the units in error messages.
    """
    if how is None:
        raise InvalidInput(f"partition must be one of {', '.join(HOW)}, or your own; got None")
    if not isinstance(how, str):
        return _given(how, len(loads), n_nodes, what)
    if how == "contiguous":
        lists = np.array_split(np.arange(len(loads)), n_nodes)
    elif how == "shuffled":
        lists = np.array_split(np.random.default_rng(seed).permutation(len(loads)), n_nodes)
        # columns with nonzero coefficients are mostly long: adjacent they are read faster, first they decrease most
        lists = [part[np.argsort(-loads[part], kind="stable")] for part in lists]
    elif how == "balanced":
        lists = _balanced(loads, n_nodes)
    else:
        raise InvalidInput(f"unknown partition {how!r}; use one of {', '.join(HOW)}, or give your own")
    return Partition.of_lists(lists)


def _group_order(penalty: Separable, split: str, n: int, node: int) -> Indices | slice:
    """Return indices that sort the n columns of a node by group, as the kernels expect.

    Return slice(None), which keeps the order, if the penalty has no groups. `split` is "samples" or "features"; only
    features have groups. Raise InvalidInput unless there is a label for each column of this node.
    """
    labels = penalty.group_labels if split == "features" else None
    if labels is not None and len(labels) != n:
        raise InvalidInput(
            f"GroupLasso has {len(labels)} group labels for the {n} columns of node {node}; for data that is apart "
            "give a list, penalty=[GroupLasso(...), ...], one for each node"
        )
    return slice(None) if labels is None else np.argsort(labels, kind="stable")


def _balanced(loads: Indices, n_nodes: int) -> list[Indices]:
    """Return a list of n_nodes index arrays: the columns (or samples) of each node, balanced by their loads.

    `loads` has the nonzeros of each; the heaviest comes first, each goes to the node with the least load so far, and
    among equal loads to the one with the fewest columns.
    """
    heap = [(0, 0, k) for k in range(n_nodes)]
    lists: list[list[int]] = [[] for _ in range(n_nodes)]
    for unit in np.argsort(-loads, kind="stable"):
        load, count, node = heapq.heappop(heap)
        lists[node].append(int(unit))
        heapq.heappush(heap, (load + int(loads[unit]), count + 1, node))
    return [np.sort(np.array(part, dtype=np.int64)) for part in lists]


def _given(how: Any, n: int, n_nodes: int, what: str = "columns") -> Partition:
    """Return the Partition that the user gave: the node of each of n columns, or a list with the columns of each node.

    Raise InvalidInput unless each occurs exactly once; `what` is the word for them in messages ("columns" or
    "samples"). `how` is what the user gave.
    """
    by_node = len(how) == n_nodes and not np.isscalar(how[0]) and np.ndim(how[0]) == 1
    result = Partition.of_lists(_listed(how, what) if by_node else _labelled(how, n, n_nodes, what))
    order = result.order
    if order.min(initial=0) < 0 or order.max(initial=0) >= max(n, 1):
        wrong = int(order.min() if order.min() < 0 else order.max())
    elif (once := np.bincount(order, minlength=n) == 1).all():
        return result
    else:
        wrong = int(np.argmin(once))
    raise InvalidInput(f"the partition must hold each of {n} {what} exactly once; look at {what[:-1]} {wrong}")


def _listed(how: Any, what: str) -> list[Indices]:
    """Return a list of index arrays, one per node, from the user's lists `how` of each node's columns (or samples).

    Raise InvalidInput, which calls them `what`, unless all entries are whole numbers.
    """
    if any(len(part) and np.asarray(part).dtype.kind not in "iu" for part in how):
        raise InvalidInput(f"the {what} of a node must be whole numbers")
    return [np.asarray(part, dtype=np.int64) for part in how]


def _labelled(how: ArrayLike, n: int, n_nodes: int, what: str) -> list[Indices]:
    """Return a list of index arrays, the columns (or samples) of each node, from an array `how` with the node of each.

    There are n of them. Raise InvalidInput, which calls them `what`, for another length, or a node outside 0, ...,
    n_nodes - 1.
    """
    nodes = np.asarray(how)
    if nodes.shape != (n,) or nodes.dtype.kind not in "iu":
        raise InvalidInput(f"a partition is one node for each of {n} {what}, or {n_nodes} lists of {what}")
    if len(nodes) and (nodes.min() < 0 or nodes.max() >= n_nodes):
        wrong = nodes.min() if nodes.min() < 0 else nodes.max()
        raise InvalidInput(f"the partition names node {wrong}, but nodes are 0 to {n_nodes - 1}")
    return [np.flatnonzero(nodes == k) for k in range(n_nodes)]


def _check_groups(result: Partition, labels: Indices) -> Partition:
    """Return the partition with columns ordered by group at each node; raise InvalidInput if it cuts a group.

    `labels` has the label of each column's group, shape (n,).
    """
    lists = [result.columns_of(k) for k in range(result.n_nodes)]
    home: dict[int, int] = {}
    for node, part in enumerate(lists):
        for label in np.unique(labels[part]):
            if home.setdefault(int(label), node) != node:
                raise InvalidInput(f"the partition cuts group {label} between nodes {home[int(label)]} and {node}")
    return Partition.of_lists([part[np.argsort(labels[part], kind="stable")] for part in lists])
