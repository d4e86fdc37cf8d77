"""Nodes that hold rows and all hold the same coefficients, which they compute from exact totals."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np

from glmesh.collectives.agreement import agree_on_data
from glmesh.core import Certificate, Contents, Event, HostedNodes, Measures, Setup, drive
from glmesh.core.messages import AnyRounds
from glmesh.core.records import PathSolutions
from glmesh.core.transport import Unfinished
from glmesh.errors import InvalidInput
from glmesh.functions import Table
from glmesh.kernels.warm import warm_up_totals
from glmesh.methods.totals.contribution import HESSIAN_ROW_COST
from glmesh.methods.totals.dealing import clusters_of, deal, plain, refuse_features, rows_of, targets_of, unsuitable
from glmesh.methods.totals.likelihood.outputs import balanced_rows, coefficient_table, held
from glmesh.methods.totals.likelihood.statistics import FitStatistics
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.state import HoldsModel
from glmesh.problem import Partition, Problem
from glmesh.types import Flags, Indices, Matrix, Tree, Vector

Story = tuple[int, str, str]  # (round, acceleration from then on, why)
Curvature = Literal["coefficients", "rows", "nothing"]
Point = tuple[Vector, float, bool]  # (coefficients (p,), intercept, majorant), as `TotalMethod.trial` returns


StateT = TypeVar("StateT", bound=HoldsModel)


class TotalMethod(ABC, Generic[StateT]):
    """Base of methods on totals: `start` makes a state, and a round yields `Total` and changes the state alike at all.

    A round may be begun again from the state before it, where a member was away under a fault plan.
    """

    saves: ClassVar[bool] = True  # whether a run of the method can be saved
    curvature: ClassVar[Curvature] = "coefficients"  # what has a Hessian in its totals; "rows": combinations of rows
    stops_itself: ClassVar[bool] = False  # whether it ends without a penalty within a number of standard errors

    @property
    def averages_exactly(self) -> bool:
        """Return False: no method on totals needs the links of CoCoA's server, which joins all pairs of nodes."""
        return False

    def prepare(self, setup: Setup) -> TotalNodes[StateT]:
        """Return the nodes that this process hosts, ready for round 0."""
        return TotalNodes(self, setup)

    @abstractmethod
    def start(self, block: Rows, w: Vector | None, intercept: float) -> StateT:
        """Return the state of a block before round 0, at coefficients w, shape (p,) (None: zero), and an intercept."""

    @abstractmethod
    def round(self, block: Rows, state: StateT) -> AnyRounds:
        """Make one round of a block: yield each Total (or Largest) and be sent the Sums (or maxima) over all nodes."""

    def take(self, state: StateT, at: Vector) -> float:
        """Go to the trial point `at`, that of another node, instead of one's own; return their distance.

        It is relative to the point's norm, and infinite, as here, if the point cannot be taken. `at` is that of the
        `Total` at the other node, where this node has another `at` in its last bits.
        """
        return np.inf

    def trial(self, block: Rows, state: StateT) -> Point | None:
        """Return (coefficients, intercept, majorant) of the point at which the coming total is made.

        None if it is at none. Coefficients have shape (p,); `majorant` says that the total's Hessian has the curvatures
        of a quadratic upper bound.
        """
        return None

    def begin(self, block: Rows, drawn: Vector | None) -> StateT:
        """Return the state of a block before round 0 at a drawn start, shape (d,), or, None, at the usual one.

        Real sites draw a start when their members or data have changed, so that no two totals are made at one point.
        """
        if drawn is None:
            return self.start(block, None, 0.0)
        return self.start(block, drawn[:-1], float(drawn[-1]) if block.fit_intercept else 0.0)

    def stages(self, block: Rows, state: StateT) -> Iterator[Callable[[], AnyRounds]]:
        """Yield functions that return the parts of a round, one after another; here there is one, `round`.

        A part can be begun anew if its first total turns out to be at another point than that of another node.
        """
        yield lambda: self.round(block, state)

    def trials(self, block: Rows, state: StateT) -> list[tuple[Rows, Point]]:
        """Return a list of (rows, point), one for each problem that the coming total is about; here there is one.

        A point is (coefficients, intercept, majorant), as `trial` returns it.
        """
        point = self.trial(block, state)
        return [] if point is None else [(block, point)]

    def within(self, tol_se: float) -> Self:
        """Return the method with `tol_se` as the number of standard errors within which it ends; here itself."""
        return self

    def rescale(self, state: StateT, exponents: Indices) -> None:
        """Take in the exponents of the columns' norms, shape (d,), the largest of all nodes; here nothing is done."""

    def remark(self, block: Rows, state: StateT) -> str:
        """Return a sentence on the optimum for people, such as that there are several; "" if there is none."""
        return ""

    def distance(self, state: StateT) -> float:
        """Return a proven bound of sqrt(e^T H e), e the coefficients less the optimum, H the Hessian there.

        An intercept counts as a coefficient; H is that of the objective. The bound is infinite if none is known, as
        here.
        """
        return np.inf

    def standard_errors_off(self, block: Rows, state: StateT) -> float:
        """Return by how many standard errors a coefficient may be off at most; NaN, as here: there are none."""
        return float("nan")

    def statistics(self, state: StateT) -> FitStatistics | None:
        """Return what totals at the end of a fit say, a `FitStatistics`; None, as here: nothing."""
        return None

    def finished(self, block: Rows, state: StateT) -> bool | None:
        """Return whether a method that stops itself has found out all; None, as here: the gap decides."""
        return None

    def along(
        self,
        blocks: Sequence[Rows],
        penalties: Sequence[Table],
        alphas: Sequence[Vector],
        tol: float,
        max_rounds: int,
    ) -> AnyRounds | None:
        """Return a round that solves several problems on the same rows, for many weights of their penalties, at once.

        The problem of blocks[i] has penalties[i] with the weights alphas[i]. The round yields Totals and returns a list
        of `PathSolutions`. None, as here: the method goes from one weight to the next.
        """
        return None

    def retarget(self, block: Rows, state: StateT) -> None:
        """Begin anew from the present coefficients, because `block` has another penalty on the same rows."""
        fresh = self.start(block, state.w, state.intercept)
        for name, value in vars(fresh).items():
            setattr(state, name, value)


OnTotals = TotalMethod[Any]


class TotalNodes(HostedNodes[Rows, StateT]):
    """The nodes of a method on totals in this process: blocks of rows, and one model that all nodes hold.

    Parameters
    ----------
    method : TotalMethod
        The method whose `round` these nodes make.
    setup : Setup
        What the engine gave to `prepare`.
    story : sequence of (int, str, str), default ()
        (round, acceleration from then on, why), where another method chose this one.
    """

    replicates = primal = True
    method: TotalMethod[StateT]

    def __init__(self, method: TotalMethod[StateT], setup: Setup, story: Sequence[Story] = ()) -> None:
        if refusal := unsuitable(setup):
            raise refusal
        name = type(method).__name__
        refuse_features(setup.problem, name)
        warm_up_totals()  # so that no round is timed with a compilation in it
        super().__init__(setup, method, setup.connect(), deal(setup))
        self.transport.carries.check(Contents(totals=True))
        self.summary = agree_on_data(setup, self.transport)
        self._story, self._made = list(story), 0  # rounds so far
        self._host()
        self.states += [method.start(block, *self._model_of(setup.warm_start)) for block in self.blocks]

    def _host(self) -> None:
        """Make the blocks of this process: give every hosted node its rows."""
        setup, spec = self.setup, self.problem.spec
        dealt = [rows_of(self.problem, self.partition, ids, self.summary) for ids in setup.node_ids]
        table = coefficient_table(self.problem.spec, dealt[0][0][0].shape[1])
        names = self.problem.feature_names
        self.blocks[:] = [
            Rows(
                ids.astype(np.uint64),
                setup.info,
                *parts,
                spec.loss,
                table,
                spec.fit_intercept,
                setup.threads,
                names,
                clusters_of(self.problem, ids),
            )
            for ids, parts in zip(setup.node_ids, dealt, strict=True)
        ]

    @property
    def _width(self) -> int:
        """Return the number of columns of the data."""
        return int(self.blocks[0].X[0].shape[1])

    def beside(self, problem: Problem, warm_start: object) -> Self:
        """Return nodes, before round 0, of another problem on the same rows, over this network and its transport.

        The problem has other targets, weights or another penalty; its rows are shared, not copied. `warm_start` is
        where it begins: a Result, an array, or None for zero.
        """
        new = copy.copy(self)
        new.problem, new.setup = problem, replace(self.setup, problem=problem, warm_start=warm_start)
        new._made, new.summary = 0, None if self.summary is None else problem.summary
        if refusal := unsuitable(new.setup):
            raise refusal
        spec, table = problem.spec, coefficient_table(problem.spec, self._width)
        new.blocks = [
            Rows(
                block.ids,
                block.info,
                block.X,
                *targets_of(problem, self.partition, ids, new.summary),
                spec.loss,
                table,
                spec.fit_intercept,
                block.threads,
                block.names,
                block.clusters,
            )
            for ids, block in zip(self.setup.node_ids, self.blocks, strict=True)
        ]
        new.states = [self.method.start(block, *new._model_of(warm_start)) for block in new.blocks]
        return new

    def _model_of(self, start: object) -> tuple[Vector | None, float]:
        """Return (coefficients, intercept) of a Result or an array to start from; (None, 0) for None, a cold start.

        Coefficients have shape (p,). An array has a number for each column of the data or, if there is an intercept,
        one more with the intercept last; where a row has several linear predictors, a row for each of these.
        """
        if start is None:
            return None, 0.0
        block, fits = self.blocks[0], self.problem.spec.fit_intercept
        outputs, width = block.loss.n_outputs, self._width
        shape = (width,) if outputs == 1 else (outputs, width)
        try:
            w = np.asarray(getattr(start, "coef", start), dtype=np.float64)
            intercept = np.asarray(getattr(start, "intercept", 0.0) if fits else 0.0, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("warm_start is a Result, or coefficients") from None
        if fits and w.shape == (*shape[:-1], width + 1):
            w, intercept = w[..., :-1], w[..., -1]
        fit = w.shape == shape and intercept.shape in ((), shape[:-1])
        if not fit or not np.isfinite(w).all() or not np.isfinite(intercept).all():
            wanted = " x ".join(map(str, shape))
            behind = f", or {' x '.join(map(str, (*shape[:-1], width + 1)))} with the intercept last" if fits else ""
            raise InvalidInput(
                f"warm_start needs {wanted} finite coefficients (Result.coef){behind}; got shape {w.shape}"
            )
        rows = np.column_stack([np.atleast_2d(w), np.broadcast_to(intercept, outputs)])
        flat = (rows if outputs == 1 else held(block.whole_penalty, rows)).ravel()
        return flat[:-1].copy(), float(flat[-1])

    def along(
        self, others: Sequence[Self], alphas: Sequence[Vector], tol: float, max_rounds: int
    ) -> list[PathSolutions] | None:
        """Solve this problem and others on the same rows, each for many weights of its penalty, all at once.

        `others` are the nodes of the other problems; alphas[0] are the weights of this one's penalty, alphas[i] those
        of others[i - 1]. Return the PathSolutions of each; None if the method goes from one weight to the next.
        """
        hosted = [self, *others]
        if self.transport.fails:
            return None
        each = zip(*(nodes.blocks for nodes in hosted), strict=True)
        tables = [coefficient_table(nodes.problem.with_alpha(1.0).spec, self._width) for nodes in hosted]
        rounds = [self.method.along(blocks, tables, alphas, tol, max_rounds) for blocks in each]
        if any(one is None for one in rounds):
            return None
        found: list[PathSolutions] = drive(self.transport, [one for one in rounds if one is not None])[0]
        if self.transport.clock is not None:  # a product to and fro for each weight, a Gram matrix for each problem
            work = 2.0 * sum(map(len, alphas)) + HESSIAN_ROW_COST * len(hosted) * self.blocks[0].p
            self.transport.clock.compute(work * np.concatenate([block.nonzeros for block in self.blocks]))
        return found

    # rounds

    def begin_round(self, number: int, events: list[Event]) -> None:
        """Begin round `number` under the fault plan, and append an Event to `events` for each join and leave.

        A change of members makes the method begin anew from the present coefficients. A node that has lost its memory
        is told them by a neighbour.
        """
        plan, n = self.plan, self.setup.n_nodes
        before, now = plan.members(max(number - 1, 0), n), plan.members(number, n)
        for kind, changed in (("leave", before & ~now), ("join", now & ~before)):
            events += [Event(number, kind, int(k), np.nan, np.nan, np.nan) for k in np.flatnonzero(changed)]
        if (before != now).any():
            self.restart()
        told = np.count_nonzero(plan.resets(number, n) | (now & ~before))
        self.transport.traffic.bytes += 8 * (self.blocks[0].p + 1) * int(told)
        super().begin_round(number, events)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Return the context of a round: where a total lacks a member that is away, the round changes nothing."""
        before = copy.deepcopy(self.states) if self.transport.fails else []
        try:
            yield
        except Unfinished:
            self.states[:] = before

    def finish_round(self, number: int) -> None:
        """Count round `number`, of which all exchanges are over."""
        self._made = number + 1

    # what can be seen

    @property
    def failure(self) -> str:
        """Return why no more rounds are worth it, as all nodes know from the last total; "": they are."""
        return self.states[0].failure

    @property
    def remark(self) -> str:
        """Return a sentence on the optimum for people, such as that there are several.

        "" if there is nothing to say.
        """
        return self.method.remark(self.blocks[0], self.states[0])

    @property
    def distance(self) -> float:
        """Return a proven bound of the distance of the coefficients from the optimum, in the norm of the Hessian there.

        It is infinite if none is proven.
        """
        return self.method.distance(self.states[0])

    @property
    def standard_errors_off(self) -> float:
        """Return by how many standard errors a coefficient may be off at most.

        NaN where there are no standard errors.
        """
        return self.method.standard_errors_off(self.blocks[0], self.states[0])

    @property
    def statistics(self) -> FitStatistics | None:
        """Return what totals at the end of a fit say, a `FitStatistics`; None: nothing."""
        return self.method.statistics(self.states[0])

    @property
    def finished(self) -> bool | None:
        """Return whether a method that stops itself knows all that it is to find out; None: the gap decides."""
        return self.method.finished(self.blocks[0], self.states[0])

    @property
    def x(self) -> None:
        """Return None: there are no variables but the coefficients."""
        return None

    @property
    def estimates(self) -> Matrix:
        """Return the coefficients that every node holds, shape (K, p): K times the same row, not to be written to.

        Where a row has several linear predictors, their coefficients stand one after the other.
        """
        w = self._model[0].ravel()
        return np.broadcast_to(w, (self.setup.n_nodes, len(w)))

    @property
    def visited(self) -> Vector:
        """Return how many nonzeros each node of this process visited in the last round, shape (n_hosted,)."""
        return np.concatenate([state.visited for state in self.states])

    @property
    def up(self) -> Flags:
        """Return a mask of shape (K,), true for each node that took part in the last round."""
        return self.plan.up(max(self._made - 1, 0), self.setup.n_nodes)

    @property
    def story(self) -> list[Story]:
        """Return a list of (round, acceleration from then on, why), one for each choice; empty if the user chose."""
        return list(self._story)

    def measure(self, rounds: int) -> Measures:
        """Return objective and proven gap as all nodes know them, at the present coefficients.

        What is measured of estimates that differ from node to node, h and consensus, is NaN.
        """
        state = self.states[0]
        return Measures(state.objective, state.objective, np.nan, state.gap, np.nan)

    def objective_at(self, x: Vector | None, estimates: Matrix, rounds: int) -> float:
        """Return the objective at the present coefficients; `x`, `estimates` and `rounds` are not needed."""
        return self.states[0].objective

    def coefficients(self, x: Vector | None, estimates: Matrix, members: Flags) -> tuple[Vector, float | Vector]:
        """Return (coefficients (p,), intercept) that all nodes hold; the arguments are not needed.

        Where a row has C linear predictors, shapes are (C, p) and (C,).
        """
        return self._model

    @property
    def _model(self) -> tuple[Vector, float | Vector]:
        """Return (coefficients, intercept) that all nodes hold, as `coefficients` returns them."""
        state, block = self.states[0], self.blocks[0]
        if block.loss.n_outputs == 1:
            return state.w.copy(), float(state.intercept)
        rows = np.append(state.w, state.intercept).reshape(block.loss.n_outputs, -1)
        rows = balanced_rows(block.whole_penalty, rows)
        return rows[:, :-1].copy(), rows[:, -1].copy()

    def data_of(self, k: int) -> list[object]:
        """Return [rows, targets, weights] of the k-th node of this process, as plain arrays."""
        for block in self.blocks:
            if k < block.size:
                return [plain(block.X[k]), block.y[k], block.weight[k]]
            k -= block.size
        raise IndexError(k)

    @property
    def certificate(self) -> Certificate | None:
        """Return the certificate of the present coefficients, which every node knows; None: nothing is proven yet."""
        state = self.states[0]
        if not self.setup.certify or not np.isfinite(state.gap):
            return None
        return Certificate(self._made, state.gap, state.objective - state.gap, state.objective)

    def certified_state(self) -> tuple[None, Matrix]:
        """Return (None, coefficients of all nodes, shape (K, p)) that the certificate is about."""
        if self.certificate is None:
            raise InvalidInput("there is no certificate yet")
        return None, self.estimates

    # changes in mid-run

    def restart(self) -> None:
        """Begin anew from the present coefficients: forget all that was learned from totals."""
        model = self.states[0].w, float(self.states[0].intercept)
        self.states[:] = [self.method.start(block, *model) for block in self.blocks]

    def retarget(self, problem: Problem) -> None:
        """Go on with `problem`, which has another weight of the penalty on the same rows."""
        table = coefficient_table(problem.spec, self._width)
        self.problem = problem
        for number, (block, state) in enumerate(zip(self.blocks, self.states, strict=True)):
            self.blocks[number] = block = copy.copy(block)  # another block may be kept by threads of an open round
            block.penalty = table
            self.method.retarget(block, state)

    def replace_data(self, problem: Problem, partition: Partition) -> None:
        """Go on with other rows: a new view, which begins anew from the present coefficients."""
        self.problem, self.partition = problem, partition
        if self.summary is not None:
            self.summary = problem.summary
        self._host()
        self.restart()

    # saving

    def require_saving(self) -> None:
        """Raise InvalidInput if a run of these nodes' method cannot be saved."""
        if not self.method.saves:
            raise InvalidInput(f"a run of {type(self.method).__name__} cannot be saved; go without a checkpoint")

    def saved(self) -> Tree:
        """Return what a checkpoint holds of these nodes beside their states, {"summary": ..., "story": ...}.

        They are what nodes agreed on of data that they hold apart, and how the method was chosen.
        """
        return {"summary": self.summary, "story": self._story}

    def restore(self, states: list[StateT], watching: list[Any], saved: Tree) -> None:
        """Set the states of all blocks, the number of rounds and the story to those of a checkpoint.

        `watching` is not needed.
        """
        self.states[:] = states
        self.summary, self._story, self._made = saved["summary"], saved["story"], saved["rounds"]
