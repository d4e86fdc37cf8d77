"""A run: rounds of a method over a network, as an iterator; its data may change, and it can be saved."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, Self

import networkx as nx
from numpy.typing import ArrayLike

from glmesh.core import Certificate, Event, HostedNodes, Measures, Method, Transport
from glmesh.engine import checkpoint, data_changes
from glmesh.engine.driver import cola_nodes
from glmesh.engine.membership import PlannedChanges
from glmesh.engine.result import Result
from glmesh.engine.setup import DEFAULT_NODES, RunOptions, start
from glmesh.functions import Separable
from glmesh.network import Mixing, Network, Plan
from glmesh.parallel import SINGLE_PROCESS, ProcessGroup
from glmesh.problem import Partition, Problem
from glmesh.types import Data, Flags, Indices, Matrix, Vector


class Run(Iterator[int]):
    """A run in progress: `next(run)`, or a for loop, makes a round.

    Parameters
    ----------
    problem : Problem
        Objective and data; pooled data is dealt out to the nodes.
    method : Method, default Cola()
        `Cola(...)`, `Cocoa()`, a consensus method such as `Nids()`, or any class with `prepare` and `round`. For a
        consensus method nodes hold samples whatever the split, and `partition` deals out samples.
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
        Variables in the user's order to start from; None is zero.
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
        method: Method[Any, Any] | None = None,
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
        self.history: list[dict[str, Any]] = []  # what `solve` noted along the way
        self.anchors: list[tuple[float, float]] = []  # of a free intercept: where it was held, and went
        self._measured: tuple[int, Measures] | None = None
        self._identity: dict[str, str] | None = None  # until the data changes

    def __next__(self) -> int:
        return next(self.driver)

    # what a run is made of

    @property
    def nodes(self) -> HostedNodes[Any, Any]:
        """The nodes that this process hosts, as the method prepared them."""
        return self.driver.nodes

    @property
    def problem(self) -> Problem:
        """The problem as it is now."""
        return self.nodes.problem

    @property
    def method(self) -> Any:
        """The method, with the step that it found if it was asked to search one."""
        return self.nodes.method

    @property
    def mixing(self) -> Mixing:
        """The mixing matrix W."""
        return self.nodes.setup.mixing

    @property
    def n_nodes(self) -> int:
        """K, the number of nodes."""
        return self.nodes.setup.n_nodes

    @property
    def n_blocks(self) -> int:
        """Number of blocks that host the nodes of this process."""
        return len(self.nodes.blocks)

    @property
    def seed(self) -> int:
        """Seed of the partition, of random graphs and of local shuffles."""
        return self.nodes.setup.seed

    @property
    def partition(self) -> Partition:
        """Who holds which columns; with a consensus method, which samples."""
        return self.nodes.partition

    @property
    def network(self) -> Network | None:
        """The network of the virtual clock; None: time is the wall's."""
        return self.nodes.setup.timing

    @property
    def blocks(self) -> list[Any]:
        """The hosted nodes, side by side in one block, or in several (`n_blocks`)."""
        return self.nodes.blocks

    @property
    def states(self) -> list[Any]:
        """The state of each block: plain arrays."""
        return self.nodes.states

    @property
    def exchange(self) -> Transport:
        """The transport between the nodes."""
        return self.nodes.transport

    @property
    def membership(self) -> PlannedChanges | None:
        """What carries the fault plan out; None where nothing fails."""
        return self.driver.membership

    @property
    def processes(self) -> ProcessGroup:
        """All processes that host nodes."""
        return self.nodes.processes

    # what can be seen of it

    @property
    def rounds(self) -> int:
        """Rounds made so far."""
        return self.driver.made

    @property
    def events(self) -> list[Event]:
        """Who joined and left, and whose data changed."""
        return self.driver.events

    @property
    def x(self) -> Vector:
        """The variables, in the user's order (a copy); with a consensus method, the mean of all copies."""
        return self.nodes.x

    @property
    def estimates(self) -> Matrix:
        """(K, d) every node's v_k, or its copy of the coefficients (a copy)."""
        return self.nodes.estimates

    @property
    def story(self) -> list[tuple[int, str, str]]:
        """(round, acceleration from then on, why), as `Cola(acceleration=...)` chose."""
        return self.nodes.story

    @property
    def theta(self) -> Vector:
        """(K,) local accuracy Theta_k of the last round, NaN where none was asked for."""
        return self.nodes.theta

    @property
    def communications(self) -> int:
        """Exchanges that a node waited for."""
        return self.nodes.transport.traffic.communications

    @property
    def bytes(self) -> int:
        """Bytes sent over all directed edges."""
        return sum(self.processes.all_gather([self.nodes.transport.traffic.bytes]))

    @property
    def seconds(self) -> float:
        """Seconds of the rounds so far: on the virtual clock if there is a network, else on the wall."""
        return self.driver.seconds

    @property
    def faults(self) -> Plan:
        """What fails and when."""
        return self.nodes.plan

    @property
    def members(self) -> Flags:
        """(K,) who took part in the last round (or will in the first)."""
        return self.nodes.members(self.rounds)

    @property
    def up(self) -> Flags:
        """(K,) who was there in the last round."""
        return self.nodes.up

    @property
    def skipped(self) -> int:
        """Subproblems that were not solved because they had nothing to gain."""
        return self.nodes.skipped[0]

    @property
    def work_saved(self) -> float:
        """Nonzeros that the skipped subproblems would have visited."""
        return self.nodes.skipped[1]

    @property
    def spared(self) -> float:
        """Deprecated name of `work_saved`."""
        warnings.warn("Run.spared is now Run.work_saved", DeprecationWarning, stacklevel=2)
        return self.work_saved

    @property
    def certificate(self) -> Certificate | None:
        """The newest certificate that every node knows, about the present members and data."""
        return self.nodes.certificate

    def certified_state(self) -> tuple[Vector, Matrix]:
        """Return (x in the user's order, every v_k) that the newest certificate is about."""
        return self.nodes.certified_state()

    def measure(self) -> Measures:
        """Return objective, H, gap and consensus of the present state: a bird's eye view, no part of the algorithm."""
        if self._measured is None or self._measured[0] != self.rounds:
            self._measured = self.rounds, self.nodes.measure(self.rounds)
        return self._measured[1]

    def product(self, x: Vector) -> Vector:
        """Return A x of variables in the user's order, shape (d,)."""
        return self.nodes.product(x)

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
        """Give a node new data in mid-run; what was learned of the rest is kept.

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
        """Remove columns (features, or samples) by their numbers; the rest is numbered anew, in the same order."""
        data_changes.remove_columns(self.driver, columns)
        self.forget()

    def set_alpha(self, alpha: float) -> None:
        """Give the penalty another weight; variables and estimates go on from where they are."""
        self.nodes.retarget(self.problem.with_alpha(alpha))
        self.forget()

    def move_anchor(self) -> bool:
        """Move the anchor of a free intercept, split by samples, once the problem with it is solved well.

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
        """Begin anew from variables and estimates that were changed from outside, and agree with each other."""
        self.nodes.restart()
        self.forget()

    def forget(self) -> None:
        """Drop what was measured of another problem or another state."""
        self._measured = self._identity = None

    # saving

    def save(self, path: str | PathLike[str], *, data: bool = True) -> None:
        """Write the run to a file, whole or not at all, from which `Run.resume` goes on to the last bit alike.

        Parameters
        ----------
        path : str or path
            The file.
        data : bool, default True
            Without it the file is small, and the problem must be brought along when the run is resumed.
        """
        checkpoint.save(self.driver, self._saved(), self.options, path, data=data)

    def _saved(self) -> checkpoint.Saved:
        return checkpoint.Saved(self.identity(), self.history, self.anchors)

    @staticmethod
    def resume(path: str | PathLike[str], problem: Problem | None = None, *, n_jobs: int | None = None) -> Run:
        """Return the run that `save` wrote, as it was.

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
        """Go on from a file that another run with the same data and settings wrote."""
        cola_nodes(self.nodes, "a checkpoint")
        self._restore(checkpoint.read(path) if self.processes.rank == 0 else None, path)

    def _restore(self, tree: dict[str, Any] | None, path: str | PathLike[str]) -> None:
        checkpoint.restore(self.driver, self._saved(), tree, path)
        self._measured = None

    def identity(self) -> dict[str, str]:
        """Return digests of all that the rounds to come depend on beside the state, by what they are about."""
        if self._identity is None:
            self._identity = checkpoint.identity(self.nodes)
        return self._identity

    # its end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the run's threads, and what its transport holds."""
        self.nodes.setup.threads.close()
        self.nodes.transport.close()
