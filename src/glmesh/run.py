"""A run: rounds of a method over a network, as an iterator, and `solve` around it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np

from glmesh import mixing as mixing_module
from glmesh import topology as topology_module
from glmesh.block import Block, Facts, Halo, Rounds
from glmesh.certificate import Certificate, Certifier
from glmesh.errors import InvalidInput
from glmesh.exchange import LocalExchange, Network
from glmesh.gather import flood_max
from glmesh.kernels.warm import warm_up
from glmesh.measures import Measures, observe
from glmesh.methods import Cola
from glmesh.mixing import Mixing
from glmesh.partition import partition as make_partition
from glmesh.problem import Form, Problem
from glmesh.result import Result, Status
from glmesh.types import AnyArray, Indices, Matrix, Vector

_WORTH_A_THREAD = 200_000  # numbers touched in a round, below which a second thread costs more than it brings
_DEFAULT_NODES = 16


class Run:
    """A run in progress: `next(run)` (or a for loop) does a round; all state is plain arrays.

    problem: what to solve. method: `Cola(...)`. topology: a name or a networkx graph. n_nodes: K, for a named topology.
    mixing: the weights; Metropolis unless a matrix of your own. partition: "shuffled", "contiguous", "balanced" or
    your own. seed: of the partition, random graphs and local shuffles. warm_start: variables in the user's order, or a
    Result. network: a virtual clock. certify: let the nodes exchange certificate records. n_jobs: threads (None: as
    many as cores if the problem is worth it); the result is the same bits for any number.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        method: Cola | None = None,
        topology: Any = "ring",
        n_nodes: int = _DEFAULT_NODES,
        mixing: Any = "metropolis",
        partition: str | AnyArray = "shuffled",
        seed: int = 0,
        warm_start: AnyArray = None,
        network: Network | None = None,
        certify: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.problem = problem
        self.method = Cola() if method is None else method
        if not isinstance(self.method, Cola):
            raise InvalidInput(f"method must be a method such as Cola(), got {method!r}")
        if network is not None and not isinstance(network, Network):
            raise InvalidInput(f"network must be a Network(...), got {network!r}")
        self.seed = _whole(seed, "seed", 0, 2**63)
        self.mixing, diameter = _network(problem, self.method, topology, n_nodes, mixing, self.seed)
        self.n_nodes = self.mixing.n_nodes
        self.partition = make_partition(problem, self.n_nodes, partition, self.seed)
        self.rounds = 0
        self._elapsed = 0.0
        self._measured: tuple[int, Measures] | None = None
        warm_up()  # so that no round is timed with a compilation in it
        n_blocks = self._n_blocks(n_jobs)
        ids = [part for part in np.array_split(np.arange(self.n_nodes), n_blocks) if len(part)]
        self.exchange = LocalExchange(self.mixing, ids, network)
        self._pool = ThreadPoolExecutor(len(ids)) if len(ids) > 1 else None
        parents, depth = topology_module.spanning_tree(self.mixing.matrix)
        consensus_gap = self.mixing.consensus_gap if certify else np.nan
        facts = Facts(self.n_nodes, diameter, parents, depth, consensus_gap, self.seed)
        forms = self._agree(ids, diameter)
        self.blocks = [self._block(b, part, facts, forms) for b, part in enumerate(ids)]
        xs = self._warm_start(warm_start)
        self.states = [self.method.init(block, x) for block, x in zip(self.blocks, xs, strict=True)]
        by_samples = problem.model.split == "samples"
        self.certifiers = [Certifier(block, by_samples=by_samples) for block in self.blocks] if certify else []

    def _n_blocks(self, n_jobs: int | None) -> int:
        if n_jobs is not None:
            return min(_whole(n_jobs, "n_jobs", 1), self.n_nodes)
        parts = self.problem.parts
        d = parts[0].columns.d
        work = sum(part.columns.nnz for part in parts) + (self.mixing.edges + self.n_nodes) * d
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        return min(cores, self.n_nodes) if work > _WORTH_A_THREAD else 1

    def _agree(self, ids: list[Indices], diameter: int) -> list[Form]:
        """Each node's form. Pooled data is dealt out; data that is apart is agreed on by neighbour messages."""
        if self.problem.pooled:
            form, parts = self.problem.form, self.partition
            return [
                Form(form.columns.take(parts.columns_of(k)), form.f, form.g.take(parts.columns_of(k)))
                for k in range(self.n_nodes)
            ]
        facts = np.stack([part.facts() for part in self.problem.parts])
        agreed = np.concatenate(self._drive([flood_max(facts[part], diameter) for part in ids]))
        forms = []
        for k, part in enumerate(self.problem.parts):
            form = part.settle(agreed[k], k)
            own = self.partition.columns_of(k)
            order = own - own.min(initial=self.problem.n)
            if not np.array_equal(order, np.arange(len(order))):
                form = Form(form.columns.take(order), form.f, form.g.take(order))
            forms.append(form)
        return forms

    def _block(self, number: int, ids: Indices, facts: Facts, forms: list[Form]) -> Block:
        own = [forms[k] for k in ids]
        return Block.of(ids, facts, own, lambda: self.exchange.allocate(number, own[0].columns.d))

    def _warm_start(self, start: AnyArray) -> list[Vector | None]:
        if start is None:
            return [None] * len(self.blocks)
        try:
            x = np.asarray(start.x if isinstance(start, Result) else start, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("warm_start is a Result, or variables in your order (Result.x)") from None
        if x.shape != (self.problem.n,) or not np.isfinite(x).all():
            raise InvalidInput(f"warm_start needs {self.problem.n} finite variables (Result.x), got shape {x.shape}")
        if not np.isfinite(self.problem.form.g.value(x)):
            raise InvalidInput("warm_start is outside the bounds of this problem")
        in_nodes = x[self.partition.order]
        ends = np.cumsum([block.columns.n for block in self.blocks])
        return list(np.split(in_nodes, ends[:-1]))

    def _drive(self, generators: list[Any]) -> list[Any]:
        """Steps one generator per block in lock-step, exchanging what they yield; returns what they return."""
        send: list[Halo | None] = [None] * len(generators)
        while True:
            if self._pool is None:
                steps = [_step(generators[0], send[0])]
            else:
                steps = list(self._pool.map(_step, generators, send))
            if all(done for done, _ in steps):
                return [value for _, value in steps]
            send = list(self.exchange.swap([rows for _, rows in steps]))

    def __iter__(self) -> Run:
        return self

    def __next__(self) -> int:
        """Does one round and returns the number of rounds done."""
        began = time.perf_counter()
        rounds: list[Rounds] = [self.method.round(b, s) for b, s in zip(self.blocks, self.states, strict=True)]
        if self.certifiers:
            rounds = [_certified(r, c, s) for r, c, s in zip(rounds, self.certifiers, self.states, strict=True)]
        self._drive(rounds)
        if self.exchange.clock is not None:
            self.exchange.clock.compute(np.concatenate([state.visited for state in self.states]))
        self.rounds += 1
        self._elapsed += time.perf_counter() - began
        return self.rounds

    @property
    def x(self) -> Vector:
        """The variables, in the user's order (a copy)."""
        return np.asarray(self.partition.to_user(np.concatenate([state.x for state in self.states])))

    @property
    def estimates(self) -> Matrix:
        """Every node's v_k, a row each (a copy)."""
        return np.concatenate([state.v for state in self.states])

    @property
    def theta(self) -> Vector:
        """The local accuracy Theta_k reached in the last round (NaN where none was asked for)."""
        return np.concatenate([state.theta for state in self.states])

    @property
    def communications(self) -> int:
        """Exchanges that a node waited for."""
        return self.exchange.traffic.communications

    @property
    def bytes(self) -> int:
        """Bytes sent over all directed edges."""
        return self.exchange.traffic.bytes

    @property
    def seconds(self) -> float:
        """Time of the rounds so far: on the virtual clock if there is a network, else on the wall."""
        return self.exchange.clock.seconds if self.exchange.clock is not None else self._elapsed

    def measure(self) -> Measures:
        """O_A, H, gap and consensus of the present state: a bird's eye view, not part of the algorithm."""
        if self._measured is not None and self._measured[0] == self.rounds:
            return self._measured[1]
        states = self.states
        by_samples = self.problem.model.split == "samples"
        measures = observe(self.blocks, [s.x for s in states], [s.v for s in states], by_samples=by_samples)
        self._measured = (self.rounds, measures)
        return measures

    @property
    def certificate(self) -> Certificate | None:
        """The newest certificate, as every node knows it."""
        return self.certifiers[0].latest if self.certifiers else None

    def certified_state(self) -> tuple[Vector, Matrix]:
        """(x in the user's order, every v_k) that the newest certificate is about."""
        xs, vs = [c.x for c in self.certifiers], [c.v for c in self.certifiers]
        if any(x is None for x in xs):
            raise InvalidInput("there is no certificate yet")
        return np.asarray(self.partition.to_user(np.concatenate(xs))), np.concatenate(vs)  # type: ignore[arg-type]

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the run's threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _step(generator: Any, halo: Halo | None) -> tuple[bool, Any]:
    try:
        return False, generator.send(halo)
    except StopIteration as end:
        return True, end.value


def _certified(rounds: Rounds, certifier: Certifier, state: Any) -> Rounds:
    """A round whose first exchange carries certificate records along."""
    rows = next(rounds)
    rows.scalars = certifier.outgoing()
    halo = yield rows
    certifier.incoming(halo, state.x, rows.vectors, state.round)  # type: ignore[arg-type]
    while True:
        try:
            rows = rounds.send(halo)
        except StopIteration:
            return
        halo = yield rows


def _network(
    problem: Problem, method: Cola, topology: Any, n_nodes: int, weights: Any, seed: int
) -> tuple[Mixing, int]:
    """(mixing, a bound of the diameter)."""
    n_nodes = _whole(n_nodes, "n_nodes", 1)
    if not problem.pooled:
        if n_nodes not in (_DEFAULT_NODES, len(problem.parts)):
            raise InvalidInput(f"the problem is on {len(problem.parts)} nodes, but n_nodes={n_nodes}")
        n_nodes = len(problem.parts)
    elif not isinstance(topology, str):
        topology = topology_module.build(topology, None, seed)
        given = len(topology)
        if n_nodes not in (_DEFAULT_NODES, given):
            raise InvalidInput(f"the graph has {given} nodes, but n_nodes={n_nodes}")
        n_nodes = given
    graph = topology_module.build(topology, n_nodes, seed)
    if method.averages_exactly:
        if not isinstance(weights, str):
            raise InvalidInput("Cocoa averages exactly; it takes no mixing matrix. Use Cola for one of your own.")
        return mixing_module.uniform(n_nodes), min(1, n_nodes - 1)
    if isinstance(weights, Mixing):
        chosen = weights
        if chosen.n_nodes == n_nodes:
            mixing_module.check_support(chosen, graph)
    elif isinstance(weights, str):
        if weights != "metropolis":
            raise InvalidInput(f"mixing must be 'metropolis', a Mixing or a matrix, got {weights!r}")
        chosen = mixing_module.metropolis(graph)
    else:
        chosen = mixing_module.from_matrix(weights, graph)
    if chosen.n_nodes != n_nodes:
        raise InvalidInput(f"the mixing matrix is for {chosen.n_nodes} nodes, the network has {n_nodes}")
    return chosen, topology_module.diameter(chosen.matrix)  # messages take the edges that carry a weight, no others


def _whole(value: Any, name: str, least: int, most: float = np.inf) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value < most:
        raise InvalidInput(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)


class _Interruptible:
    """Turns the first Ctrl-C into a flag that is looked at between rounds; a second one is an exception again."""

    def __enter__(self) -> _Interruptible:
        self.hit = False
        self._before = signal.getsignal(signal.SIGINT)
        # only the main thread may; and a program that ignores Ctrl-C (a job in the background) goes on ignoring it
        self._listens = threading.current_thread() is threading.main_thread() and self._before is not signal.SIG_IGN
        if self._listens:
            signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def _on_interrupt(self, *_: Any) -> None:
        self.hit = True
        signal.signal(signal.SIGINT, self._before)

    def __exit__(self, *_: object) -> None:
        if self._listens:
            signal.signal(signal.SIGINT, self._before)


def solve(
    problem: Problem,
    *,
    method: Cola | None = None,
    topology: Any = "ring",
    n_nodes: int = _DEFAULT_NODES,
    tol: float = 1e-4,
    max_rounds: int = 10_000,
    stop: Literal["gap", "certificate", "rounds"] = "gap",
    seed: int = 0,
    callback: Callable[[Run], Any] | None = None,
    record_every: int = 1,
    warm_start: AnyArray = None,
    network: Network | None = None,
    mixing: Any = "metropolis",
    partition: str | AnyArray = "shuffled",
    n_jobs: int | None = None,
) -> Result:
    """Solves a problem over a simulated network.

    tol: the gap divided by the absolute user-level primal objective at which to stop. stop: "gap" measures the global
    gap at every record; "certificate" lets the nodes decide by neighbour messages alone; "rounds" does max_rounds.
    callback: called with the Run after every round; a true answer stops. record_every: rounds between entries of the
    history (and looks at the gap). The other options are those of `Run`. Ctrl-C returns what there is.
    """
    if stop not in ("gap", "certificate", "rounds"):
        raise InvalidInput(f"stop must be 'gap', 'certificate' or 'rounds', got {stop!r}")
    if not isinstance(tol, int | float | np.number) or not tol >= 0:
        raise InvalidInput(f"tol must be a number >= 0, got {tol!r}")
    max_rounds, record_every = _whole(max_rounds, "max_rounds", 0), _whole(record_every, "record_every", 1)
    run = Run(
        problem,
        method=method,
        topology=topology,
        n_nodes=n_nodes,
        mixing=mixing,
        partition=partition,
        seed=seed,
        warm_start=warm_start,
        network=network,
        certify=stop == "certificate",
        n_jobs=n_jobs,
    )
    try:
        with _Interruptible() as interrupt:
            history, status = _loop(run, tol, max_rounds, stop, callback, record_every, interrupt)
        return _result(run, status, None if stop == "rounds" else tol, history)
    finally:
        run.close()


def _loop(
    run: Run,
    tol: float,
    max_rounds: int,
    stop: str,
    callback: Callable[[Run], Any] | None,
    record_every: int,
    interrupt: _Interruptible,
) -> tuple[list[dict[str, float]], Status]:
    history = [_entry(run)]
    status = None
    while status is None:
        last = history[-1]
        fresh = last["round"] == run.rounds
        if fresh and stop == "gap" and last["gap"] <= tol * abs(last["objective"]):
            status = Status.CONVERGED
        elif fresh and not np.isfinite(last["h"]):
            status = Status.DIVERGED
        elif stop == "certificate" and run.certificate is not None and run.certificate.relative <= tol:
            status = Status.CERTIFIED
        elif interrupt.hit:
            status = Status.INTERRUPTED
        elif run.rounds >= max_rounds:
            status = Status.ROUNDS_DONE if stop == "rounds" else Status.OUT_OF_ROUNDS
        else:
            next(run)
            if run.rounds % record_every == 0 or run.rounds == max_rounds:
                history.append(_entry(run, history[-1]))
            if callback is not None and callback(run):
                status = Status.STOPPED_BY_CALLBACK
    if history[-1]["round"] != run.rounds:
        history.append(_entry(run, history[-1]))
    return history, status


def _entry(run: Run, before: dict[str, float] | None = None) -> dict[str, float]:
    """The history's next entry; a certificate is noted once, when it becomes known."""
    m, certificate = run.measure(), run.certificate
    news = certificate is not None and (before is None or certificate.round != before["certificate_round"])
    return {
        "round": run.rounds,
        "communications": run.communications,
        "bytes": run.bytes,
        "seconds": run.seconds,
        "objective": m.objective,
        "h": m.h,
        "gap": m.gap,
        "consensus": m.consensus,
        "certificate": certificate.bound if news and certificate and np.isfinite(certificate.bound) else np.nan,
        "theta": float(run.theta.max(initial=-np.inf)) if run.rounds else np.nan,
        "certificate_round": -1 if certificate is None else certificate.round,
    }


def _result(run: Run, status: Status, tol: float | None, history: list[dict[str, float]]) -> Result:
    problem, last = run.problem, history[-1]
    x, estimates, gap, objective = run.x, run.estimates, last["gap"], last["objective"]
    if status is Status.CERTIFIED and run.certificate is not None:
        x, estimates = run.certified_state()
        gap = run.certificate.bound
    f = problem.form.f
    if problem.model.split == "samples":
        coef, intercept = np.mean([f.gradient(row) for row in estimates], axis=0), 0.0
    else:
        coef, intercept = problem.coefficients(x, problem.form.columns.dot(x))
    if status is Status.CERTIFIED:
        objective = problem.objective(coef, intercept)
    whole = {"round", "communications", "bytes"}
    keys = [key for key in last if key != "certificate_round"]
    return Result(
        x=x,
        coef=coef,
        intercept=intercept,
        rounds=run.rounds,
        communications=run.communications,
        bytes=run.bytes,
        seconds=run.seconds,
        gap=gap,
        objective=objective,
        status=status,
        tol=tol,
        history={key: np.array([entry[key] for entry in history], int if key in whole else float) for key in keys},
        certificate=run.certificate,
        estimates=estimates,
        problem=problem,
    )
