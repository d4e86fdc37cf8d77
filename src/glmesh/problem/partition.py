"""Who holds which columns."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.functions import GroupLasso
from glmesh.problem.problem import Problem
from glmesh.types import AnyArray, Indices

HOW = ("shuffled", "contiguous", "balanced")


@dataclass(frozen=True, eq=False)
class Partition:
    """`order` lists the user's columns node by node; node k holds order[starts[k]:starts[k + 1]]."""

    order: Indices
    starts: Indices

    @property
    def n_nodes(self) -> int:
        """K."""
        return len(self.starts) - 1

    def columns_of(self, node: int) -> Indices:
        """The user's columns that a node holds."""
        return self.order[self.starts[node] : self.starts[node + 1]]

    def to_user(self, values: AnyArray) -> AnyArray:
        """Values per column, from node order to the user's."""
        out = np.empty_like(values)
        out[self.order] = values
        return out

    @staticmethod
    def of_lists(lists: Sequence[Indices]) -> Partition:
        """From the columns of each node."""
        sizes = [len(part) for part in lists]
        order = np.concatenate([np.asarray(part, dtype=np.int64) for part in lists]) if lists else np.zeros(0, np.int64)
        return Partition(order, np.cumsum([0, *sizes]))


def partition(problem: Problem, n_nodes: int, how: str | AnyArray = "shuffled", seed: int = 0) -> Partition:
    """Spreads the columns of a pooled problem over nodes.

    `how` is "shuffled" (a seeded random split, sizes differ by at most one; on a node, columns with most nonzeros come
    first), "contiguous", "balanced" (equal numbers of nonzeros), or the user's own: an array with the node of each
    column, or one list of columns per node. The columns of a group (group Lasso) stay together, and are ordered by
    group. Nodes may be empty.
    """
    if not problem.pooled:
        if not isinstance(how, str) or how != "shuffled":
            raise InvalidInput("the problem's data is already apart, on its nodes; partition= goes with Problem.glm")
        ends = np.cumsum([part.columns.n for part in problem.parts])
        return Partition.of_lists(
            [
                part[_group_order(problem.model.penalty_of(k), problem.model.split)]
                for k, part in enumerate(np.split(np.arange(problem.n), ends[:-1]))
            ]
        )
    columns, g = problem.form.columns, problem.form.g
    if not isinstance(g, GroupLasso):
        return spread(columns.nonzeros, n_nodes, how, seed)
    if how is not None and not isinstance(how, str):
        return _check_groups(_given(how, columns.n, n_nodes), g)
    # groups stay together
    loads = np.bincount(g.piece_of, columns.nonzeros, minlength=len(g.weights)).astype(np.int64)
    groups = spread(loads, n_nodes, how, seed)
    lists = [np.flatnonzero(np.isin(g.piece_of, groups.columns_of(k))) for k in range(n_nodes)]
    return _check_groups(Partition.of_lists(lists), g)


def spread(loads: Indices, n_nodes: int, how: str | AnyArray, seed: int, what: str = "columns") -> Partition:
    """Units with so many nonzeros each, over nodes."""
    if how is None:
        raise InvalidInput(f"partition must be one of {', '.join(HOW)}, or your own; got None")
    if not isinstance(how, str):
        return _given(how, len(loads), n_nodes, what)
    if how == "contiguous":
        lists = np.array_split(np.arange(len(loads)), n_nodes)
    elif how == "shuffled":
        lists = np.array_split(np.random.default_rng(seed).permutation(len(loads)), n_nodes)
        # those that will not be zero are mostly long: next to each other they are read faster, and bring more at first
        lists = [part[np.argsort(-loads[part], kind="stable")] for part in lists]
    elif how == "balanced":
        lists = _balanced(loads, n_nodes)
    else:
        raise InvalidInput(f"unknown partition {how!r}; use one of {', '.join(HOW)}, or give your own")
    return Partition.of_lists(lists)


def _group_order(penalty: object, split: str) -> Indices | slice:
    """Columns by group, as the kernels expect; else as they are."""
    if isinstance(penalty, GroupLasso) and split == "features":
        return np.argsort(penalty.groups, kind="stable")
    return slice(None)


def _balanced(loads: Indices, n_nodes: int) -> list[Indices]:
    """Heaviest first, each to the node with the least so far (and, among equals, the fewest columns)."""
    heap = [(0, 0, k) for k in range(n_nodes)]
    lists: list[list[int]] = [[] for _ in range(n_nodes)]
    for unit in np.argsort(-loads, kind="stable"):
        load, count, node = heapq.heappop(heap)
        lists[node].append(int(unit))
        heapq.heappush(heap, (load + int(loads[unit]), count + 1, node))
    return [np.sort(np.array(part, dtype=np.int64)) for part in lists]


def _given(how: AnyArray, n: int, n_nodes: int, what: str = "columns") -> Partition:
    if len(how) == n_nodes and not np.isscalar(how[0]) and np.ndim(how[0]) == 1:
        if any(len(part) and np.asarray(part).dtype.kind not in "iu" for part in how):
            raise InvalidInput(f"the {what} of a node must be whole numbers")
        lists = [np.asarray(part, dtype=np.int64) for part in how]
    else:
        nodes = np.asarray(how)
        if nodes.shape != (n,) or nodes.dtype.kind not in "iu":
            raise InvalidInput(f"a partition is one node for each of {n} {what}, or {n_nodes} lists of {what}")
        if len(nodes) and (nodes.min() < 0 or nodes.max() >= n_nodes):
            wrong = nodes.min() if nodes.min() < 0 else nodes.max()
            raise InvalidInput(f"the partition names node {wrong}, but nodes are 0 to {n_nodes - 1}")
        lists = [np.flatnonzero(nodes == k) for k in range(n_nodes)]
    result = Partition.of_lists(lists)
    seen = np.bincount(result.order, minlength=n) if len(result.order) and result.order.min() >= 0 else np.zeros(n)
    if len(seen) != n or (seen != 1).any():
        wrong = (
            int(result.order.min())
            if len(result.order) and result.order.min() < 0
            else int(result.order.max(initial=0))
        )
        if len(seen) == n and wrong >= 0:
            wrong = int(np.argmax(seen != 1))
        raise InvalidInput(f"the partition must hold each of {n} {what} exactly once; look at {what[:-1]} {wrong}")
    return result


def _check_groups(result: Partition, g: object) -> Partition:
    """Groups whole on one node, and ordered by label within it, as the kernels expect."""
    if not isinstance(g, GroupLasso):
        return result
    lists = [result.columns_of(k) for k in range(result.n_nodes)]
    home: dict[int, int] = {}
    for node, part in enumerate(lists):
        for label in np.unique(g.groups[part]):
            if home.setdefault(int(label), node) != node:
                raise InvalidInput(f"the partition cuts group {label} between nodes {home[int(label)]} and {node}")
    return Partition.of_lists([part[np.argsort(g.groups[part], kind="stable")] for part in lists])
