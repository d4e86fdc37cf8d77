"""A run: rounds of a method over a network, as an iterator; its data may change, and it can be saved."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, Self

import networkx as nx
from numpy.typing import ArrayLike

from glmesh.core import AnyMethod, AnyNodes, Certificate, Event, Measures, Transport
from glmesh.engine import checkpoint, data_changes
from glmesh.engine.driver import Driver
from glmesh.engine.membership import PlannedChanges
from glmesh.engine.result import Result
from glmesh.engine.setup import DEFAULT_NODES, RunOptions, start
from glmesh.functions import Separable
from glmesh.network import Mixing, Network, Plan
from glmesh.parallel import SINGLE_PROCESS, ProcessGroup
from glmesh.problem import Partition, Problem
from glmesh.types import Data, Flags, Indices, Matrix, Tree, Vector


class Run(Iterator[int]):
    """A run in progress: `next(run)`, or a for loop, makes a round.

    Parameters
    ----------
    problem : Problem
        Objective and data; pooled data is dealt out to the nodes.
    method : Method, default Cola()
        `Cola(...)`, `Cocoa()`, a consensus method such as `Nids()`, or any class with `prepare` and `round`. Where
        nodes hold samples `Cola()` takes a method on totals if that is cheaper. For a consensus method nodes hold
        samples whatever the split, and `partition` deals out samples.
    topology : str or networkx.Graph, default "ring"
        Connected communication graph; `glmesh topology list` prints the names.
    n_nodes : int, default 16
        K, for a named topology; it must agree with the graph or the data where they fix it.
    mixing : {"metropolis", "best-constant", "optimal"}, Mixing or matrix, default "metropolis"
        Symmetric, doubly stochastic weights of the links.
    partition : {"shuffled", "contiguous", "balanced"} or sequence, default "shuffled"
        Who holds which columns: seeded at random, in order, equal numbers of nonzeros, or one's own (a node for each
        column, or a list of columns for each node).
    seed : int, default 0
        Seed of the partition, of random graphs and of local shuffles.
    warm_start : Result or array, optional
        Variables in the user's order to start from, or coefficients for a method on totals, an intercept last; a Result
        of either kind. None is zero.
    network : Network, optional
        A virtual clock: latency, bandwidth and speed of the nodes.
    certify : bool, default False
        Let the nodes exchange certificate records, so that each proves how good the model is.
    tol : float, optional
        The relative gap aimed at, so that nodes whose part is done may skip work.
    faults : Plan, dict or path, optional
        What fails and when (`glmesh.network.faults`), also as a TOML file.
    n_jobs : int, optional
        Threads; None is as many as cores if a round is worth it.
    n_blocks : int, default 1
        Blocks that host the nodes side by side.
    processes : ProcessGroup, default one process
        All processes that host nodes, such as the ranks of `glmesh.transports.mpi.ranks()`.
    together : ProcessGroup, optional
        Deprecated name of `processes`.

    Notes
    -----
    The result has the same bits for any `n_jobs`, `n_blocks` and number of processes.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, Run
    >>> X = np.random.default_rng(0).normal(size=(30, 8))
    >>> run = Run(Problem.glm(X, X[:, 0], alpha=1.0), n_nodes=4)
    >>> next(run), next(run)
    (1, 2)
    >>> run.x.shape, run.estimates.shape
    ((8,), (4, 30))
    """

    def __init__(
        self,
        problem: Problem,
        *,
        method: AnyMethod | None = None,
        topology: str | nx.Graph = "ring",
        n_nodes: int = DEFAULT_NODES,
        mixing: str | Mixing | Data = "metropolis",
        partition: str | ArrayLike = "shuffled",
        seed: int = 0,
        warm_start: Result | ArrayLike | None = None,
        network: Network | None = None,
        certify: bool = False,
        tol: float | None = None,
        faults: Plan | Mapping[str, object] | str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        n_blocks: int = 1,
        processes: ProcessGroup = SINGLE_PROCESS,
        together: ProcessGroup | None = None,
    ) -> None:
        if together is not None:
            warnings.warn("Run(together=...) is now Run(processes=...)", DeprecationWarning, stacklevel=2)
            processes = together
        self.options = RunOptions(
            method, topology, n_nodes, mixing, partition, seed, warm_start, network, certify, tol, faults, n_jobs,
            n_blocks, processes,
        )  # fmt: skip
        self.driver = start(problem, self.options)
        self.history: list[Tree] = []  # records of `solve`, a dict each
        self.anchors: list[tuple[float, float]] = []  # (anchor, intercept reached) of each move
        self._measured: tuple[int, Measures] | None = None  # (round, measures of its state)
        self._identity: dict[str, str] | None = None  # None: to be computed

    def __next__(self) -> int:
        return next(self.driver)

    # what a run is made of

    @property
    def nodes(self) -> AnyNodes:
        """Return the nodes that this process hosts, with their data, states and transport."""
        return self.driver.nodes

    @property
    def problem(self) -> Problem:
        """Return the problem as it is now; changes of data, penalty or anchor replace it."""
        return self.nodes.problem

    @property
    def method(self) -> Any:
        """Return the method; if its step was searched (step="auto"), a copy of it with the step found."""
        return self.nodes.method

    @property
    def mixing(self) -> Mixing:
        """Return the mixing: the matrix W of the weights of the links, shape (n_nodes, n_nodes), with its spectrum."""
        return self.nodes.setup.mixing

    @property
    def n_nodes(self) -> int:
        """Return K, the number of nodes of the whole network."""
        return self.nodes.setup.n_nodes

    @property
    def n_blocks(self) -> int:
        """Return the number of blocks of this process: groups of nodes that it computes side by side."""
        return len(self.nodes.blocks)

    @property
    def seed(self) -> int:
        """Return the seed of the partition, of random graphs and of local shuffles."""
        return self.nodes.setup.seed

    @property
    def partition(self) -> Partition:
        """Return the partition: which node holds which columns, or with a consensus method which samples."""
        return self.nodes.partition

    @property
    def network(self) -> Network | None:
        """Return the model of the network behind the virtual clock; None: seconds are wall time."""
        return self.nodes.setup.timing

    @property
    def blocks(self) -> list[Any]:
        """Return a list of the blocks of this process; a block has the data of one or more nodes side by side."""
        return self.nodes.blocks

    @property
    def states(self) -> list[Any]:
        """Return the state of each block of nodes, in the order of `blocks`: dataclasses of plain arrays."""
        return self.nodes.states

    @property
    def exchange(self) -> Transport:
        """Return the transport, which moves messages between the nodes."""
        return self.nodes.transport

    @property
    def membership(self) -> PlannedChanges | None:
        """Return the object that applies the fault plan at the start of every round; None where nothing fails."""
        return self.driver.membership

    @property
    def processes(self) -> ProcessGroup:
        """Return the group of all processes that host nodes of this run."""
        return self.nodes.processes

    # what can be seen of it

    @property
    def rounds(self) -> int:
        """Return the number of rounds made so far."""
        return self.driver.made

    @property
    def events(self) -> list[Event]:
        """Return a list with an Event for each node that joined, left or had its data changed so far."""
        return self.driver.events

    @property
    def x(self) -> Vector | None:
        """Return a copy of the variables in the user's order, shape (n,); None with a method on totals.

        With a consensus method it is the mean of all nodes' copies of the coefficients, shape (p,).
        """
        return self.nodes.x

    @property
    def estimates(self) -> Matrix:
        """Return a copy of every node's estimate of A x, shape (n_nodes, d); A, (d, n), is the data matrix by columns.

        With a consensus method, or a method on totals, it has the nodes' own coefficients instead, shape (n_nodes, p).
        """
        return self.nodes.estimates

    @property
    def story(self) -> list[tuple[int, str, str]]:
        """Return a list of (round, acceleration from then on, why), one for each choice of an acceleration so far.

        The first entry is that of round 0. With a consensus method, which has no choice, the list is empty.
        """
        return self.nodes.story

    @property
    def theta(self) -> Vector:
        """Return each node's local accuracy in the last round, shape (n_nodes,); NaN where none was asked for.

        It is the part of the possible decrease of the node's subproblem that the local solver left, in [0, 1].
        """
        return self.nodes.theta

    @property
    def communications(self) -> int:
        """Return the number of exchanges so far in which nodes waited for messages of their neighbours."""
        return self.nodes.transport.traffic.communications

    @property
    def bytes(self) -> int:
        """Return the bytes sent so far over all links, in both directions."""
        return sum(self.processes.all_gather([self.nodes.transport.traffic.bytes]))

    @property
    def seconds(self) -> float:
        """Return the seconds of the rounds so far: on the virtual clock if there is a network, else wall time."""
        return self.driver.seconds

    @property
    def faults(self) -> Plan:
        """Return the fault plan: what fails in the simulated network, and when."""
        return self.nodes.plan

    @property
    def members(self) -> Flags:
        """Return a mask of shape (n_nodes,), true for each node that was a member in the last round.

        Before the first round it is the mask of that round.
        """
        return self.nodes.members(self.rounds)

    @property
    def up(self) -> Flags:
        """Return a mask of shape (n_nodes,), true for each node that was a member and not away in the last round."""
        return self.nodes.up

    @property
    def skipped(self) -> int:
        """Return the number of subproblems so far that were not solved because they had nothing to gain."""
        return self.nodes.skipped[0]

    @property
    def work_saved(self) -> float:
        """Return the number of nonzeros that the skipped subproblems would have visited, so far."""
        return self.nodes.skipped[1]

    @property
    def spared(self) -> float:
        """Deprecated name of `work_saved`, the nonzeros that skipped subproblems would have visited."""
        warnings.warn("Run.spared is now Run.work_saved", DeprecationWarning, stacklevel=2)
        return self.work_saved

    @property
    def certificate(self) -> Certificate | None:
        """Return the newest certificate that every node knows; None: there is none of the present members and data."""
        return self.nodes.certificate

    def certified_state(self) -> tuple[Vector | None, Matrix]:
        """Return (variables, estimates) that the newest certificate is about, of shapes (n,) and (n_nodes, d).

        The variables are in the user's order, None with a method on totals; estimates are those of A x at every node, A
        the data matrix by columns, or the coefficients that every node holds.
        """
        return self.nodes.certified_state()

    def measure(self) -> Measures:
        """Return the Measures of the present state: objective, absolute duality gap, consensus error and H.

        H = (1/K) sum_k f(v_k) + g(x) is the objective at the K nodes' own estimates v_k. Measuring looks at all nodes
        at once, so it is no part of the algorithm and not counted as communication.
        """
        if self._measured is None or self._measured[0] != self.rounds:
            self._measured = self.rounds, self.nodes.measure(self.rounds)
        return self._measured[1]

    def product(self, x: Vector) -> Vector:
        """Return A x, shape (d,), for variables x in the user's order, shape (n,); A is the data matrix by columns."""
        return self.nodes.product(x)

    def beside(self, problem: Problem, warm_start: Result | ArrayLike | None = None) -> Run:
        """Return a run, before round 0, of another problem on the same rows; both can make their rounds together.

        The new run shares network, transport and threads with this one, which closes them; communications and bytes of
        either are those of both.
        """
        other = copy.copy(self)
        other.driver = Driver(self.nodes.beside(problem, warm_start))
        other.history, other.anchors = [], []
        other.forget()
        return other

    # what changes it in mid-run

    def add_columns(
        self,
        node: int,
        X: Data,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        penalty: Separable | None = None,
    ) -> Indices:
        """Give a node new columns (features or samples) in mid-run; variables of all other columns are kept.

        Parameters
        ----------
        node : int
            The node that gets the data.
        X : array or sparse matrix
            Split by features: a row per sample, the new features as columns. Split by samples: the new samples as rows.
        y : array, optional
            Labels of new samples.
        sample_weight : array, optional
            Weights of new samples; None is one each.
        penalty : Separable, optional
            Penalty of new features, if the problem's has an entry per column.

        Returns
        -------
        array of int
            Numbers of the new columns: on pooled data after all others, on data that is apart after the node's own.
        """
        new = data_changes.add_columns(self.driver, node, X, y, sample_weight, penalty)
        self.forget()
        return new

    def remove_columns(self, columns: ArrayLike) -> None:
        """Remove columns (features, or samples) by their numbers in mid-run.

        The columns that stay are numbered anew, in their old order.
        """
        data_changes.remove_columns(self.driver, columns)
        self.forget()

    def set_alpha(self, alpha: float) -> None:
        """Set the weight of the penalty for the rounds to come; variables and estimates stay as they are."""
        self.nodes.retarget(self.problem.with_alpha(alpha))
        self.forget()

    def move_anchor(self) -> bool:
        """Move the anchor near which a free intercept is held, split by samples, if the gap with it is small enough.

        Returns
        -------
        bool
            Whether the anchor moved.
        """
        moved = data_changes.move_anchor(self.driver, self.anchors, self.measure)
        if moved:
            self.forget()
        return moved

    def begin_anew(self) -> None:
        """Restart the method from the present x and estimates, after the caller changed them.

        The mean of the estimates must be A x, as always, where A is the data matrix by columns.
        """
        self.nodes.restart()
        self.forget()

    def forget(self) -> None:
        """Drop cached measures and digests, because the problem or the state was changed."""
        self._measured = self._identity = None

    # saving

    def save(self, path: str | PathLike[str], *, data: bool = True) -> None:
        """Write the run to a file, whole or not at all; a run that `Run.resume` makes of it has the same bits.

        Parameters
        ----------
        path : str or path
            The file.
        data : bool, default True
            Without it the file is small, and the problem must be brought along when the run is resumed.
        """
        checkpoint.save(self.driver, self._saved(), self.options, path, data=data)

    def _saved(self) -> checkpoint.Saved:
        """Return identity, history and anchors of this run: the content of a checkpoint beside the nodes."""
        return checkpoint.Saved(self.identity(), self.history, self.anchors)

    @staticmethod
    def resume(path: str | PathLike[str], problem: Problem | None = None, *, n_jobs: int | None = None) -> Run:
        """Return a Run in the round and state in which `save` wrote one to a file.

        Parameters
        ----------
        path : str or path
            The file.
        problem : Problem, optional
            Needed if the file does not hold the data.
        n_jobs : int, optional
            Threads, as for `Run`.
        """
        tree = checkpoint.read(path)
        problem, options = checkpoint.settings(tree, path, problem)
        run = Run(problem, **options, n_jobs=n_jobs)
        run._restore(tree, path)
        return run

    def restore(self, path: str | PathLike[str]) -> None:
        """Set this run to the state in a checkpoint file, which a run with the same data and settings wrote."""
        self.nodes.require_saving()
        self._restore(checkpoint.read(path) if self.processes.rank == 0 else None, path)

    def _restore(self, tree: Tree | None, path: str | PathLike[str]) -> None:
        """Set this run to the state of the checkpoint `tree` that rank 0 has read; None at the other ranks."""
        checkpoint.restore(self.driver, self._saved(), tree, path)
        self._measured = None

    def identity(self) -> dict[str, str]:
        """Return {name: digest} of all that determines the rounds beside the state: problem, method, data, ..."""
        if self._identity is None:
            self._identity = checkpoint.identity(self.nodes)
        return self._identity

    # its end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the run's threads and close its transport, once no more rounds are to be made."""
        self.nodes.setup.threads.close()
        self.nodes.transport.close()
