"""What a run's file holds, and how its parts become plain data and back.

The file is an archive (`glmesh.files.archive`) of kind "checkpoint" with

| key        | holds                                                                       |
|------------|-----------------------------------------------------------------------------|
| `identity` | a digest of everything that a run is determined by, part by part            |
| `setup`    | what the run was made with, except the data                                 |
| `problem`  | the data, or nothing if the caller brings it along                          |
| `state`    | all that changes from round to round                                        |
"""

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import networkx as nx
import scipy.sparse as sp

from glmesh.core import AnyNodes
from glmesh.core import state as regroup
from glmesh.engine.agreement import digest as digest  # also for the checkpoints of sites
from glmesh.engine.driver import Driver
from glmesh.engine.setup import RunOptions
from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.files import archive
from glmesh.network import Mixing
from glmesh.problem import NodeData, Problem, ProblemSpec
from glmesh.types import Tree

KIND, VERSION, PACKAGE = "checkpoint", 6, "glmesh"  # a file may hold classes of this package only


def write(path: str | PathLike[str], tree: dict[str, object]) -> None:
    """Write a checkpoint, a dict with the keys identity, setup, problem and state, to a file.

    An error or a crash in between leaves an older file as it was.
    """
    archive.save(path, tree, kind=KIND, version=VERSION, package=PACKAGE)


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds of a run beside its nodes and transport: the run's identity, history and anchors.

    `save` writes them to the file; `restore` compares the identity with that of the file, and overwrites both lists
    with the file's. An anchor is the value near which a free (unpenalised) intercept is held while the rest is solved.
    """

    identity: dict[str, str]  # digests that `identity` returns
    history: list[Tree]  # records of `Observer`
    anchors: list[tuple[float, float]]  # (anchor, intercept reached) of each move of a free intercept's anchor


def save(driver: Driver, saved: Saved, options: RunOptions, path: str | PathLike[str], *, data: bool) -> None:
    """Write a run to the checkpoint file at `path`, with its data if `data` is true; return nothing.

    All processes that host the run call it together: the first one writes, and the others wait until the file is there.
    `options` are the arguments that `Run` was made with.
    """
    nodes = driver.nodes
    nodes.require_saving()
    problem, method, processes = nodes.problem, nodes.method, nodes.processes
    if data and not problem.holds_all:
        raise InvalidInput("no process holds all the data; save without it: run.save(path, data=False)")
    if own := own_classes(method, getattr(method, "solver", method)):
        raise InvalidInput(
            f"{own[0]} is a class of your own, which a file cannot hold; go without a checkpoint, or keep run.x "
            "and start from it again (warm_start=x)"
        )
    made_with = _made_with(nodes, options)
    elapsed = driver.seconds
    states = processes.gather(nodes.states)
    watchers = processes.gather(nodes.watching)
    transports = processes.gather([nodes.transport.state()])
    if states is None or watchers is None or transports is None:
        processes.broadcast(None)  # so that nobody goes on before the file is there
        return
    state = {
        "rounds": driver.made,
        "elapsed": elapsed,
        "history": saved.history,
        "events": driver.events,
        "nodes": regroup.merge(states),
        "watch": regroup.merge(watchers) if watchers else None,
        "transport": transports[0] | {"bytes": sum(transport["bytes"] for transport in transports)},
        "frozen": {} if driver.membership is None else driver.membership.frozen,
        "anchors": saved.anchors,
        "anchor": problem.spec.anchor,
        **nodes.saved(),
    }
    tree = problem_tree(problem) if data else None
    write(path, {"identity": saved.identity, "setup": made_with, "problem": tree, "state": state})
    processes.broadcast(None)


def _made_with(nodes: AnyNodes, options: RunOptions) -> dict[str, object]:
    """Return {name: value} of the arguments of `Run` that make the same run again, a checkpoint's entry `setup`."""
    setup, method, matrix = nodes.setup, nodes.method, nodes.setup.mixing.matrix
    exactly = getattr(method, "averages_exactly", False)
    metropolis = isinstance(options.mixing, str) and (options.mixing == "metropolis" or exactly)
    dealt = [nodes.partition.columns_of(k) for k in range(setup.n_nodes)] if nodes.problem.pooled else None
    return {
        "method": method,
        "mixing": None if metropolis else [matrix.indptr, matrix.indices, matrix.data],
        "links": list(setup.links),
        "n_nodes": setup.n_nodes,
        "partition": dealt,
        "seed": setup.seed,
        "network": setup.timing,
        "certify": setup.certify,
        "tol": setup.tol,
        "faults": nodes.plan.to_dict(),
        "n_blocks": len(nodes.blocks) if nodes.processes.simulates else 1,
    }


def settings(tree: Tree, path: str | PathLike[str], problem: Problem | None) -> tuple[Problem, Tree]:
    """Return (problem, keyword arguments of `Run`) with which the run of a checkpoint can be made again from the start.

    `tree` is the dict that `read` returned from the file at `path`. If the caller gives a `problem`, it is returned as
    it is; None takes the file's, and InvalidInput is raised if the file holds no data.
    """
    setup = dict(tree["setup"])
    if problem is None and tree["problem"] is None:
        raise InvalidInput(f"{path} was saved without its data; give the problem: Run.resume(path, problem)")
    held = setup["partition"]
    if problem is not None and held is not None and problem.n != sum(len(part) for part in held):
        raise _differs(path, "problem")
    graph = nx.empty_graph(setup["n_nodes"])
    graph.add_edges_from(setup.pop("links"))
    if setup["mixing"] is not None:
        indptr, indices, values = setup["mixing"]
        setup["mixing"] = Mixing(sp.csr_array((values, indices, indptr), shape=(len(graph), len(graph))))
    options = setup | {
        "topology": graph,
        "mixing": "metropolis" if setup["mixing"] is None else setup["mixing"],
        "partition": "shuffled" if held is None else held,
    }
    return problem_of(tree["problem"]) if problem is None else problem, options


def restore(driver: Driver, own: Saved, tree: Tree | None, path: str | PathLike[str]) -> None:
    """Set a new run to the round and state of a checkpoint; raise InvalidInput if the file is another run's.

    All processes that host the run call it together: the first with the dict `tree` that `read` returned, the others
    with None. The history and the anchors in `own` are overwritten with those of the file at `path`.
    """
    nodes = driver.nodes
    nodes.require_saving()
    processes = nodes.processes
    identity = processes.broadcast(None if tree is None else tree["identity"])
    assert identity is not None
    for key, name in own.identity.items():
        if identity.get(key) != name:
            raise _differs(path, key)
    extents = processes.all_gather(nodes.extents)
    states: list[Any] | None = None
    watch: list[Any] | None = None
    if tree is not None:
        states = regroup.split(tree["state"].pop("nodes"), extents)
        watch = tree["state"].pop("watch")
        watch = [] if watch is None else regroup.split(watch, extents)
    own_states, own_watch = processes.scatter(states), processes.scatter(watch)
    state = processes.broadcast(None if tree is None else tree["state"])
    assert state is not None
    own.anchors[:], own.history[:], driver.events[:] = state["anchors"], state["history"], state["events"]
    driver.resume(state["rounds"], state["elapsed"])
    nodes.transport.restore(state["transport"] if processes.rank == 0 else state["transport"] | {"bytes": 0})
    nodes.restore(own_states, own_watch, state)
    if driver.membership is not None:
        driver.membership.frozen = state["frozen"]


def identity(nodes: AnyNodes) -> dict[str, str]:
    """Return {name: digest} of all that determines a run's rounds beside its state: problem, method, seed and so on.

    A digest is a text of 24 hexadecimal digits. Two runs with equal digests make equal rounds from equal states.
    """
    setup, matrix = nodes.setup, nodes.setup.mixing.matrix
    hosted = sum(block.size for block in nodes.blocks)
    names = [digest(nodes.data_of(k)) for k in range(hosted)]
    parts = {
        "problem": [_spec(nodes.problem), nodes.problem.pooled, nodes.problem.n],
        "seed": setup.seed,
        "network": [matrix.indptr, matrix.indices, matrix.data],
        "partition": [nodes.partition.order, nodes.partition.starts],
        "clock": setup.timing,
        "way to stop (certificate or not)": setup.certify,
        "fault plan": nodes.plan.to_dict(),
        "method": nodes.method,  # after all that it may have been chosen by
        # last, because another partition deals it out in another way
        "data": [name for part in nodes.processes.all_gather([names]) for name in part],
    }
    return {key: digest(part) for key, part in parts.items()}


def _differs(path: str | PathLike[str], what: str) -> InvalidInput:
    """Return (not raise) an InvalidInput: the checkpoint at `path` is another run's, because its `what` differs.

    `what` is a key of `identity`, such as "seed".
    """
    return InvalidInput(
        f"{path} is a checkpoint of another run: its {what} differs. Name another file, or go on with the "
        f"{what} that it was made with (Run.resume takes all settings from the file)"
    )


def read(path: str | PathLike[str]) -> Tree:
    """Return the dict that `write` wrote to the file at `path`, with the keys identity, setup, problem and state.

    Raise UnreadableFile for any other file.
    """
    tree = archive.load(path, kind=KIND, version=VERSION, package=PACKAGE)
    if not isinstance(tree, dict) or set(tree) != {"identity", "setup", "problem", "state"}:
        raise UnreadableFile(f"{path}: is no whole checkpoint; expected what Run.save writes")
    return tree


def own_classes(*parts: object) -> list[str]:
    """Return the names of those classes of `parts` that are not glmesh's: no checkpoint can hold their objects."""
    return [type(part).__name__ for part in parts if archive.name_of(type(part), PACKAGE) is None]


def _spec(problem: Problem) -> ProblemSpec:
    """Return the problem's specification with anchor 0.

    The anchor, where a free intercept is held, belongs to a run's state, not to its problem.
    """
    return replace(problem.spec, anchor=0.0)


def problem_tree(problem: Problem) -> dict[str, object]:
    """Return a problem with its data as a dict of plain data, {"spec", "pooled", "parts"}, for a checkpoint to hold.

    "spec" is the ProblemSpec, "pooled" whether one part holds all data, "parts" a list with a dict of arrays per part.
    `problem_of` is the inverse.
    """
    parts = [
        {
            "columns": part.columns,
            "y": part.y,
            "weight": part.weight,
            "where": part.where,
            "names": part.names,
            "clusters": part.clusters,
        }
        for part in problem.parts
    ]
    return {"spec": _spec(problem), "pooled": problem.pooled, "parts": parts}


def problem_of(tree: Tree) -> Problem:
    """Return the Problem that `problem_tree` made this dict of."""
    spec, parts = tree["spec"], [dict(part) for part in tree["parts"]]
    clusters = [part.pop("clusters", None) for part in parts]  # which files of earlier versions have not
    made = [NodeData.restored(spec, **part) for part in parts]
    made = [part.with_numbered(own) for part, own in zip(made, clusters, strict=True)]
    return Problem(spec, made, tree["pooled"])
