"""Changes of a run's problem in mid-run: columns that come and go, and the anchor of a free intercept."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from glmesh.collectives.flood import flood_max
from glmesh.core import AnyNodes, Event, Measures, drive
from glmesh.engine.driver import Driver, cola_nodes
from glmesh.errors import InvalidInput
from glmesh.functions import Separable
from glmesh.methods.cola.nodes import as_cola
from glmesh.problem import Partition, Problem
from glmesh.problem.partition import partition as make_partition
from glmesh.types import Data, Indices
from glmesh.validation import whole_number

# largest ratio of two successive moves of the anchor that is believed; extrapolation is then at most 20-fold
STEADIEST = 0.95


def add_columns(
    driver: Driver,
    node: int,
    X: Data,
    y: ArrayLike | None,
    sample_weight: ArrayLike | None,
    penalty: Separable | None,
) -> Indices:
    """Give node `node` new columns (features or samples) in mid-run; return their column numbers, shape (n_new,).

    X, y, sample_weight and penalty are as in `Run.add_columns`. An Event is appended to `driver.events`.
    """
    nodes = _of_simulation(driver, "add_columns")
    node = whole_number(node, "node", 0, nodes.setup.n_nodes)
    _check_not_left(driver, [node])
    old = nodes.problem
    problem = old.grown(0 if old.pooled else node, X, y, sample_weight, penalty)
    more = problem.n - old.n
    at = old.n if old.pooled else int(nodes.partition.starts[node + 1])
    origin = np.insert(np.arange(old.n), at, np.full(more, -1))
    new = np.arange(at, at + more)
    _change(driver, problem, origin, new, [node], "add_columns")
    return new


def remove_columns(driver: Driver, columns: ArrayLike) -> None:
    """Remove the columns with these numbers in mid-run; the others are numbered anew, in the same order.

    An Event is appended to `driver.events` for each node that held one of them.
    """
    nodes = _of_simulation(driver, "remove_columns")
    problem, partition = nodes.problem, nodes.partition
    gone = np.unique(np.asarray(columns))
    if gone.ndim != 1 or gone.dtype.kind not in "iu" or not len(gone):
        raise InvalidInput(f"columns must be whole numbers, at least one; got {columns!r}")
    if gone[0] < 0 or gone[-1] >= problem.n:
        raise InvalidInput(f"there is no column {gone[0] if gone[0] < 0 else gone[-1]}; they are 0 to {problem.n - 1}")
    touched = [k for k in range(partition.n_nodes) if np.isin(partition.columns_of(k), gone).any()]
    _check_not_left(driver, touched)
    kept = np.setdiff1d(np.arange(problem.n), gone)
    if problem.pooled:
        problem = problem.shrunk(0, kept)
    else:
        for k in touched:
            own = np.sort(partition.columns_of(k))
            problem = problem.shrunk(k, np.flatnonzero(~np.isin(own, gone)))
    _change(driver, problem, kept, np.zeros(0, np.int64), touched, "remove_columns")


def _of_simulation(driver: Driver, what: str) -> AnyNodes:
    """Return the run's nodes if their data can change; else raise InvalidInput, which names the operation `what`.

    Data can change in a single process, with CoLA or with a method on totals of which nodes hold rows.
    """
    nodes = driver.nodes
    if not nodes.primal:
        cola_nodes(nodes, what)
    elif nodes.problem.spec.split == "features":
        raise InvalidInput(
            f"{what} would change the coefficients that {nodes.name} is about; start anew, or make the problem with "
            "split='samples', where columns are samples"
        )
    if nodes.processes.size > 1:
        raise InvalidInput(f"{what} is for simulations; on a cluster start anew (warm_start=result.x)")
    return nodes


def _check_not_left(driver: Driver, nodes: list[int]) -> None:
    """Raise InvalidInput if one of the nodes with ids `nodes` has left for good: its data can no longer change."""
    left = {entry.node: entry.round for entry in driver.nodes.plan.leave if entry.round < max(driver.made, 1)}
    for node in nodes:
        if node in left:
            raise InvalidInput(f"node {node} left in round {left[node]}: nobody can change its data any more")


def _change(driver: Driver, problem: Problem, origin: Indices, new: Indices, touched: list[int], kind: str) -> None:
    """Replace the run's problem by `problem`, whose column i was column origin[i] of the old one; -1 means i is new.

    `new` are the numbers of the new columns, which go to the node touched[0]; `touched` are the ids of all nodes whose
    data changed. The problem is about A x, A the data matrix by columns: each of these nodes' estimates of A x is
    corrected by the change of the node's own part, the sum over its columns, and an Event of this `kind` ("add_columns"
    or "remove_columns") is appended to `driver.events` for each.
    """
    nodes = driver.nodes
    place = np.full(nodes.problem.n, -1)
    place[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
    lists = [place[nodes.partition.columns_of(k)] for k in range(nodes.setup.n_nodes)]
    lists = [part[part >= 0] for part in lists]
    if len(new):
        lists[touched[0]] = np.append(lists[touched[0]], new)
    if nodes.primal:
        nodes.replace_data(problem, Partition.of_lists(lists))
        driver.events.extend(Event(driver.made, kind, node, np.nan, np.nan, np.nan) for node in touched)
        return
    how = lists if problem.pooled else "shuffled"
    partition = make_partition(problem, nodes.setup.n_nodes, how, nodes.setup.seed)
    _rehost(driver, problem, partition, origin, touched, kind)


def _rehost(
    driver: Driver, problem: Problem, partition: Partition, origin: Indices, touched: list[int], kind: str
) -> None:
    """Make CoLA's nodes go on with another problem and partition, keeping the variables of the columns that stay.

    origin[i] is the number that column i of `problem` had before, or -1 if it is new. The problem is about A x, A the
    data matrix by columns: the estimates of A x at the nodes with ids `touched` are corrected by the change of the
    node's own part, the sum over its columns, and an Event of this `kind` ("add_columns" or "remove_columns") is
    appended to `driver.events` for each.
    """
    nodes = cola_nodes(driver.nodes, kind)
    by_id, held = nodes.by_id, nodes.members(driver.made)
    before = [(by_id.gap(k), by_id.share(k)) for k in touched]
    nodes.rehost(problem, partition, np.append(nodes.x, 0.0)[origin])
    for node, (gap, share) in zip(touched, before, strict=True):
        number, k = by_id.find(node)
        gossip = nodes.states[number].gossip
        change = by_id.share(node) - share
        gossip.replace_part(nodes.blocks[number], k, change, member=bool(held[node]))
        by_id.invalidate(node, driver.made)
        driver.events.append(by_id.event(driver.made, kind, node, gap, by_id.gap(node), change))


def move_anchor(driver: Driver, anchors: list[tuple[float, float]], measure: Callable[[], Measures]) -> bool:
    """Move the anchor, the value near which a free intercept is held, split by samples; return whether it moved.

    `measure()` returns what is measured of the present state, such as the gap. Nothing moves until the duality gap with
    the present anchor is at most half of what the anchor adds to the objective. Then node 0 tells all nodes the
    intercept that it has reached by flooding, and the anchor goes there, or further by geometric extrapolation of the
    last two moves. (anchor before the move, intercept reached) is appended to `anchors`.
    """
    nodes = as_cola(driver.nodes)
    if nodes is None or (f := nodes.blocks[0].f.as_anchored()) is None:
        return False
    m = measure()
    if m.inner > 0.5 * m.pull:
        return False
    rows = [np.full((block.size, 1), -np.inf) for block in nodes.blocks]
    if nodes.blocks[0].ids[0] == 0:
        _, rows[0][0, 0] = f.split(f.gradient(nodes.states[0].v[0]))
    floods = [flood_max(part, nodes.setup.diameter) for part in rows]
    reached = float(drive(nodes.transport, floods)[0][0, 0])
    move = reached - f.anchor
    if anchors:
        before, there = anchors[-1]
        if f.anchor != before:
            rate = min(max((reached - there) / (f.anchor - before), 0.0), STEADIEST)
            move /= 1.0 - rate
    anchors.append((f.anchor, reached))
    nodes.retarget(nodes.problem.anchored(f.anchor + move))
    return True
