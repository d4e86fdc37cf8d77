"""A run: rounds of a method over a network, as an iterator; its data may change, and it can be saved."""

from __future__ import annotations

from os import PathLike
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from glmesh.certificate.bound import Certifier
from glmesh.collectives.flood import flood_max
from glmesh.core import state as regroup
from glmesh.core.state import Extent
from glmesh.engine import checkpoint
from glmesh.engine.driver import Simulation
from glmesh.engine.events import Event
from glmesh.engine.setup import whole
from glmesh.errors import InvalidInput
from glmesh.functions import Anchored
from glmesh.gossip.flows import FlowGossip
from glmesh.methods.cola.newton import Newton
from glmesh.methods.cola.relaxation import Relaxation
from glmesh.network.mixing import Mixing
from glmesh.problem.partition import partition as make_partition
from glmesh.problem.problem import Problem
from glmesh.problem.shard import Shard
from glmesh.types import AnyArray, Indices

_STEADIEST = 0.95  # of a move that the next one repeats: more would be a guess


class Run(Simulation):
    """A run in progress: `next(run)` (or a for loop) does a round; all state is plain arrays.

    problem: what to solve. method: `Cola(...)`, or a method of consensus such as `Nids()`, for which nodes hold samples
    whatever the split (`partition` then deals out samples). topology: a name or a networkx graph. n_nodes: K, for a
    named topology. mixing: "metropolis", "best-constant", "optimal", or a matrix of your own. partition: "shuffled",
    "contiguous", "balanced" or your own. seed: of the partition, random graphs and local shuffles. warm_start:
    variables in the user's order, or a Result. network: a virtual clock. certify: let the nodes exchange certificate
    records. tol: the relative gap aimed at, so that nodes whose part is done may rest. faults: what fails and when
    (`glmesh.faults`), as a dict or a TOML file. n_jobs: threads (None: as many as cores if the problem is worth it).
    n_blocks: the nodes are hosted side by side, or in several blocks. together: all processes that host nodes, such as
    the ranks of a cluster. The result is the same bits for any of these.
    """

    def add_columns(
        self, node: int, X: AnyArray, y: AnyArray = None, *, sample_weight: AnyArray = None, penalty: Any = None
    ) -> Indices:
        """A node gets new data in mid-run; what was learned of the rest is kept. Returns the new columns' numbers.

        Split by features X has a row per sample and the new features as columns; split by samples it has the new
        samples as rows, and y their labels. `penalty` is that of new features, if the problem's has an entry per
        column. On pooled data new columns are numbered after all others, on data that is apart after the node's own.
        """
        self._check_alone("add_columns")
        node = whole(node, "node", 0, self.n_nodes)
        self._check_not_left([node])
        part = 0 if self.problem.pooled else node
        problem = self.problem.grown(part, X, y, sample_weight, penalty)
        more = problem.n - self.problem.n
        at = self.problem.n if self.problem.pooled else int(self.partition.starts[node + 1])
        origin = np.insert(np.arange(self.problem.n), at, np.full(more, -1))
        new = np.arange(at, at + more)
        self._change(problem, origin, new, [node], "add_columns")
        return new

    def remove_columns(self, columns: AnyArray) -> None:
        """Columns (features, or samples) go, by their numbers; those that stay are numbered anew, in the same order."""
        self._check_alone("remove_columns")
        gone = np.unique(np.asarray(columns))
        if gone.ndim != 1 or gone.dtype.kind not in "iu" or not len(gone):
            raise InvalidInput(f"columns must be whole numbers, at least one; got {columns!r}")
        if gone[0] < 0 or gone[-1] >= self.problem.n:
            raise InvalidInput(
                f"there is no column {gone[0] if gone[0] < 0 else gone[-1]}; they are 0 to {self.problem.n - 1}"
            )
        nodes = [k for k in range(self.n_nodes) if np.isin(self.partition.columns_of(k), gone).any()]
        self._check_not_left(nodes)
        kept = np.setdiff1d(np.arange(self.problem.n), gone)
        problem = self.problem
        if problem.pooled:
            problem = problem.shrunk(0, kept)
        else:
            for k in nodes:
                own = np.sort(self.partition.columns_of(k))
                problem = problem.shrunk(k, np.flatnonzero(~np.isin(own, gone)))
        self._change(problem, kept, np.zeros(0, np.int64), nodes, "remove_columns")

    def set_alpha(self, alpha: float) -> None:
        """From now on the penalty has another weight; variables and estimates go on from where they are."""
        self._check_cola("set_alpha")
        self._retarget(self.problem.with_alpha(alpha))

    def move_anchor(self) -> bool:
        """Split by samples with a free intercept: its anchor moves as soon as the problem with it is solved well.

        The smallest node tells the others where its intercept is, hop by hop. The anchor goes there, or further by as
        much as the last two moves promise. Returns whether it moved.
        """
        if self.consensual or not isinstance(f := self.blocks[0].f, Anchored):
            return False
        if isinstance(self.states[0].sums, Newton):
            return False
        m = self.measure()
        if m.inner > 0.5 * m.pull:
            return False
        rows = [np.full((block.size, 1), -np.inf) for block in self.blocks]
        if self.blocks[0].ids[0] == 0:
            _, rows[0][0, 0] = f.split(f.gradient(self.states[0].v[0]))
        reached = float(self._drive([flood_max(part, self._info.diameter) for part in rows])[0][0, 0])
        move = reached - f.anchor
        if self.anchors:
            before, there = self.anchors[-1]
            if f.anchor != before:
                rate = min(max((reached - there) / (f.anchor - before), 0.0), _STEADIEST)
                move /= 1.0 - rate
        self.anchors.append((f.anchor, reached))
        self._retarget(self.problem.anchored(f.anchor + move))
        return True

    def _retarget(self, problem: Problem) -> None:
        """From now on other functions of the same kind on the same columns."""
        self.problem = problem
        for number, (block, state) in enumerate(zip(self.blocks, self.states, strict=True)):
            own = [problem.node_functions(int(k), self.partition.columns_of(int(k)), self._agreed) for k in block.ids]
            self.hosted.blocks[number] = block = block.with_functions(own[0][0], [g for _, g in own])
            self._prepare(number)
            if state.sums is not None:
                state.sums.begin_anew()
            if state.trial is not None:
                state.trial.hasten(state.round)
            for k in range(block.size):
                state.screening.invalidate(k)
                if self.hosted.async_certifiers:
                    self.hosted.async_certifiers[number].disturb(k, self.rounds)
            if self.hosted.async_certifiers:
                self.hosted.async_certifiers[number].block = block
        self._forget_measures()

    def begin_anew(self) -> None:
        """Variables and estimates were changed from outside, and agree with each other."""
        for number, state in enumerate(self.states):
            self._prepare(number)
            if state.sums is not None:
                state.sums.forget()
        self._forget_measures()

    def _prepare(self, number: int) -> None:
        """What a block has computed of its columns and functions is computed anew, and its momentum is lost."""
        block, state = self.blocks[number], self.states[number]
        state.memory = self.method.solver.prepare(block)
        if state.momentum is not None:
            state.momentum.forget(state)
        if state.relaxation is not None:
            state.relaxation = Relaxation.of(block, self.method.gamma)

    def _forget_measures(self) -> None:
        """The problem or its state is another: what was measured and certified of it is void."""
        by_samples = self.problem.model.split == "samples"
        watch = [Certifier(block, by_samples=by_samples, tol=self.tol) for block in self.blocks]
        self.certifiers = watch if self.certifiers else []
        self._whole = self._measured = self._proof = self._identity = None

    def _check_cola(self, what: str) -> None:
        if self.consensual:
            raise InvalidInput(f"{what} is for Cola; {self.method.name} starts anew (warm_start=result.coef)")

    def _check_alone(self, what: str) -> None:
        self._check_cola(what)
        if self.processes.size > 1:
            raise InvalidInput(f"{what} is for simulations; on a cluster start anew (warm_start=result.x)")

    def _check_not_left(self, nodes: list[int]) -> None:
        left = {entry.node: entry.round for entry in self.faults.leave if entry.round < max(self.rounds, 1)}
        for node in nodes:
            if node in left:
                raise InvalidInput(f"node {node} left in round {left[node]}: nobody can change its data any more")

    def _change(self, problem: Problem, origin: Indices, new: Indices, nodes: list[int], kind: str) -> None:
        """From now on this is the problem; its column i was column origin[i] (-1: there was none)."""
        hosted, held = self.hosted, self.members
        before = [(hosted.gap(k), hosted.share(k)) for k in nodes]
        place = np.full(self.problem.n, -1)
        place[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
        lists = [place[self.partition.columns_of(k)] for k in range(self.n_nodes)]
        lists = [part[part >= 0] for part in lists]
        x = np.append(self.x, 0.0)[origin]
        if len(new):
            lists[nodes[0]] = np.append(lists[nodes[0]], new)
        self.partition = make_partition(problem, self.n_nodes, lists if problem.pooled else "shuffled", self.seed)
        self.problem = problem
        self.hosted.blocks = [self._block(b, block.ids.astype(np.int64)) for b, block in enumerate(hosted.blocks)]
        xs = self._by_block(x)
        for number, (block, state) in enumerate(zip(self.blocks, self.states, strict=True)):
            state.x = block.inside(xs[number])
            self._prepare(number)
            if hosted.async_certifiers:
                hosted.async_certifiers[number].block = block
        self._forget_measures()
        for node, (gap, share) in zip(nodes, before, strict=True):
            number, k = hosted.find(node)
            gossip = self.states[number].gossip
            change = hosted.share(node) - share
            if isinstance(gossip, FlowGossip):
                if held[node]:
                    gossip.announce_change(self.blocks[number], k)
            else:
                gossip.v[k] += self.n_nodes * change
            hosted.disturbed(node, self.rounds)
            self.events.append(Event(self.rounds, kind, node, gap, hosted.gap(node), float(np.linalg.norm(change))))

    def save(self, path: str | PathLike[str], *, data: bool = True) -> None:
        """Writes the run to a file, whole or not at all, from which `Run.resume` goes on to the last bit alike.

        Without `data` the file is small, and the problem must be brought along when the run is resumed.
        """
        self._check_cola("a checkpoint")
        if data and isinstance(self.problem, Shard):
            raise InvalidInput("no process holds all the data; save without it: run.save(path, data=False)")
        mixing = self.mixing.matrix
        own = checkpoint.own_classes(self.method, self.method.solver)
        if own:
            raise InvalidInput(
                f"{own[0]} is a class of your own, which a file cannot hold; go without a checkpoint, or keep run.x "
                "and start from it again (warm_start=x)"
            )
        setup = {
            "method": self.method,
            "mixing": None if self._metropolis else [mixing.indptr, mixing.indices, mixing.data],
            "links": self._links,
            "n_nodes": self.n_nodes,
            "partition": [self.partition.columns_of(k) for k in range(self.n_nodes)] if self.problem.pooled else None,
            "seed": self.seed,
            "network": self.network,
            "certify": self.certify,
            "tol": self.tol,
            "faults": self.faults.to_dict(),
            "n_blocks": self.n_blocks,
        }
        identity, elapsed, processes = self.identity(), self.seconds, self.processes
        states = processes.gather(self.states)
        watchers = processes.gather([watcher.state for watcher in self._watchers])
        transports = processes.gather([self.exchange.state()])
        if states is None or watchers is None or transports is None:
            processes.broadcast(None)  # so that nobody goes on before the file is there
            return
        state = {
            "rounds": self.rounds,
            "elapsed": elapsed,
            "history": self.history,
            "events": self.events,
            "certified": self._proof,
            "nodes": regroup.merge(states),
            "watch": regroup.merge(watchers) if watchers else None,
            "exchange": transports[0] | {"bytes": sum(transport["bytes"] for transport in transports)},
            "frozen": {} if self.elastic is None else self.elastic.frozen,
            "agreed": self._agreed,
            "anchors": self.anchors,
            "anchor": self.problem.model.anchor,
        }
        tree = checkpoint.problem_tree(self.problem) if data else None
        checkpoint.write(path, {"identity": identity, "setup": setup, "problem": tree, "state": state})
        processes.broadcast(None)

    @staticmethod
    def resume(path: str | PathLike[str], problem: Problem | None = None, *, n_jobs: int | None = None) -> Run:
        """The run that `save` wrote, as it was; `problem` if the file does not hold the data."""
        tree = checkpoint.read(path)
        setup = tree["setup"]
        if problem is None and tree["problem"] is None:
            raise InvalidInput(f"{path} was saved without its data; give the problem: Run.resume(path, problem)")
        held = setup["partition"]
        if problem is not None and held is not None and problem.n != sum(len(part) for part in held):
            raise _differs(path, "problem")
        graph = nx.empty_graph(setup["n_nodes"])
        graph.add_edges_from(setup["links"])
        mixing = setup["mixing"]
        if mixing is not None:
            indptr, indices, values = mixing
            mixing = Mixing(sp.csr_array((values, indices, indptr), shape=(len(graph), len(graph))))
        run = Run(
            checkpoint.problem_of(tree["problem"]) if problem is None else problem,
            method=setup["method"],
            topology=graph,
            n_nodes=setup["n_nodes"],
            mixing="metropolis" if mixing is None else mixing,
            partition="shuffled" if setup["partition"] is None else setup["partition"],
            seed=setup["seed"],
            network=setup["network"],
            certify=setup["certify"],
            tol=setup["tol"],
            faults=setup["faults"],
            n_jobs=n_jobs,
            n_blocks=setup["n_blocks"],
        )
        run._restore(tree, path)
        return run

    def restore(self, path: str | PathLike[str]) -> None:
        """Goes on from a file that another run with the same data and settings wrote."""
        self._check_cola("a checkpoint")
        self._restore(checkpoint.read(path) if self.processes.rank == 0 else None, path)

    def _restore(self, tree: dict[str, Any] | None, path: str | PathLike[str]) -> None:
        """From what the first process has read."""
        processes = self.processes
        identity = processes.broadcast(None if tree is None else tree["identity"])
        assert identity is not None
        _check_same(self.identity(), identity, path)
        nodes: list[Any] | None = None
        watch: list[Any] | None = None
        extents = processes.all_gather(
            [Extent(block.size, block.columns.n, len(block.units[2])) for block in self.blocks]
        )
        if tree is not None:
            nodes = regroup.split(tree["state"].pop("nodes"), extents)
            watch = tree["state"].pop("watch")
            watch = [] if watch is None else regroup.split(watch, extents)
        states, watchers = processes.scatter(nodes), processes.scatter(watch)
        state = processes.broadcast(None if tree is None else tree["state"])
        assert state is not None
        if state["anchor"] != self.problem.model.anchor:
            self._retarget(self.problem.anchored(state["anchor"]))
        self.anchors[:] = state["anchors"]
        self._measured = None
        self.rounds, self._elapsed = state["rounds"], state["elapsed"]
        self.history[:], self.events[:] = state["history"], state["events"]
        self._proof, self._agreed = state["certified"], state["agreed"]
        self.exchange.restore(state["exchange"] if processes.rank == 0 else state["exchange"] | {"bytes": 0})
        for watcher, saved in zip(self._watchers, watchers, strict=True):
            watcher.state = saved
        for number, saved in enumerate(states):
            own = self.states[number].gossip
            if not isinstance(own, FlowGossip):  # its arrays are shared with the exchange
                own.v[:], own.spare[:], own.before[:] = saved.gossip.v, saved.gossip.spare, saved.gossip.before
                saved.gossip = own
            self.states[number] = saved
        if self.elastic is not None:
            self.elastic.frozen = state["frozen"]

    def identity(self) -> dict[str, str]:
        """Digests of all that the rounds to come depend on beside the state."""
        if self._identity is None:
            self._identity = self._digests()
        return self._identity

    def _digests(self) -> dict[str, str]:
        mixing, columns = self.mixing.matrix, self.partition.columns_of
        hosted = [k for block in self.blocks for k in block.ids.tolist()]
        names = [checkpoint.node_digest(self.problem, k, columns(k)) for k in hosted]
        nodes = [name for part in self.processes.all_gather([names]) for name in part]
        parts = {
            "problem": checkpoint.outline(self.problem),
            "method": self.method,
            "seed": self.seed,
            "network": [mixing.indptr, mixing.indices, mixing.data],
            "partition": [self.partition.order, self.partition.starts],
            "clock": self.network,
            "way to stop (certificate or not)": self.certify,
            "fault plan": self.faults.to_dict(),
            "data": nodes,  # last, because another partition deals it out in another way
        }
        return {key: checkpoint.digest(part) for key, part in parts.items()}

    @property
    def _watchers(self) -> list[Any]:
        return [*self.certifiers, *self.hosted.async_certifiers]


def _check_same(ours: dict[str, str], theirs: dict[str, str], path: str | PathLike[str]) -> None:
    """Refuses the file of another run, and names what differs."""
    for key, name in ours.items():
        if theirs.get(key) != name:
            raise _differs(path, key)


def _differs(path: str | PathLike[str], what: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is a checkpoint of another run: its {what} differs. Name another file, or go on with the "
        f"{what} that it was made with (Run.resume takes all settings from the file)"
    )
