"""Which acceleration a run takes: decided once, before the first exchange (docs/communications.md has the same table).

Of every acceleration that suits a problem the cost is estimated,

    rounds expected * seconds of the messages of one round,

and the least is taken. The estimate reads kinds, sizes and the network, and of the data only how much of it is zero, so
all nodes and all processes come to the same choice without a message. Computing is not counted: nodes wait for
messages much longer. Where no `network=` is given the messages are those of `Network()`, a millisecond and a gigabit.

| acceleration | nodes hold | numbers in a message | exchanges of a round | rounds expected |
|---|---|---|---|---|
| newton | rows, smooth loss | q (q + 1)/2 + 2 q | of a total | 10; squared loss 3, one with a Hessian |
| interior point | rows, loss with kinks | q (q + 1)/2 + 2 q | of a total | 20 |
| row space | few rows, L2 | once q (m + 4), then (m + 4)^2/2 | of a total | 1, then as with m + 4 coefficients |
| L-BFGS | rows, smooth loss, L2 | 2 q | of a total | 50 |
| sums | rows or features, no bounds | length of Ax | of a total | 1,000 |
| momentum | rows or features | length of Ax | 1 | (3 + 2 sqrt(c)) per sum; 1.25 times if quadratic; half if sparse |

m are the rows and q the coefficients with the intercept; of an L1 problem with over 500 the Hessian is that of 500.
A total or a sum takes as many exchanges as the diameter where it is flooded, else twice the depth of the spanning tree.
Flooded, every contribution of a total reaches a node once; those of a sum go over all links. c is the
condition number of the graph: the largest over the smallest positive eigenvalue of I - W.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glmesh.collectives.routes import NUMBER, Routes
from glmesh.collectives.totals import exchanges_per_sum, floods
from glmesh.core.block import NetworkInfo
from glmesh.functions import Separable
from glmesh.methods.columns.method import method_for_columns
from glmesh.methods.totals import row_space
from glmesh.methods.totals.choice import method_on_totals
from glmesh.methods.totals.nodes import OnTotals
from glmesh.methods.totals.traits import Traits, is_smooth
from glmesh.methods.totals.working_set import WIDE
from glmesh.network import Network
from glmesh.parallel import SINGLE_PROCESS, ProcessGroup
from glmesh.problem import Problem, ProblemSpec, Split

# [totals] of Newton's method to a certified 1e-6; source: benchmarks/reports/choice.md
NEWTON_TOTALS = 10
# [totals] of Newton's method on a squared loss, of which one carries a Hessian, because its Hessian is constant
SQUARED_TOTALS = 3
# [totals] of the interior-point method to a certified 1e-6; source: benchmarks/reports/choice.md
INTERIOR_TOTALS = 20
# [sums] to a gap of 1e-6 with columns as they come; source: benchmarks/reports/choice.md
SUMS = 1000
# [rounds of momentum per exact sum] on a graph of condition 0; source: benchmarks/reports/choice.md
ROUNDS_PER_SUM = 3.0
# [rounds of momentum per exact sum] more per square root of the graph's condition; source:
# benchmarks/reports/choice.md
ROUNDS_PER_ROOT = 2.0
# factor of these rounds where loss and penalty are quadratic, because exact sums are then conjugate gradients; source:
# benchmarks/reports/choice.md
QUADRATIC_FACTOR = 1.25
# factor of these rounds where the data is sparse, because columns of different nodes then hardly overlap; source:
# benchmarks/reports/choice.md
SPARSE_FACTOR = 0.5
# share of entries that are not zero up to which data is sparse, however it is stored; source:
# benchmarks/reports/choice.md
SPARSE = 0.2
# [totals] of L-BFGS to a certified 1e-6, a middle of 17 (Reuters) to 83 (RCV1, l2 = 0.01), as docs/communications.md
# says; because costs are not closer than a factor of two, a middle will do
LIMITED_MEMORY_TOTALS = 50

# [totals] over columns to a certified 1e-6 with an L2 penalty, a middle of 12 to 30 (breast cancer, diabetes, random
# columns; three and eight sites)
SPACE_TOTALS = 25
# [totals] over columns to a certified 1e-6 with an L1 part, a middle of 12 to 101 (breast cancer, diabetes)
PLANE_TOTALS = 50


@dataclass(frozen=True)
class Task:
    """Kinds and sizes of a problem on which the choice of an acceleration depends.

    All are known before any exchange.
    """

    split: Split  # what nodes hold, "samples" or "features"
    length: int  # length of Ax: coefficients split by samples, samples split by features
    n_rows: int  # samples of all nodes
    on_totals: OnTotals | None  # method on totals that suits nodes with rows; None: there is none
    smooth: bool  # whether the loss has no kinks
    quadratic: bool  # whether the loss is squared, so that its Hessian is summed once
    working_set: bool  # whether the Hessian is summed on a working set: every coefficient has an L1 penalty
    gossips: bool  # whether there is a form f(Ax) + g(x), which momentum and sums need
    bounded: bool  # whether a variable that can move has a bound, at which exact sums get stuck
    kinked: bool  # whether g has kinks
    sparse: bool  # whether at most SPARSE of the data is not zero

    @staticmethod
    def of(problem: Problem, processes: ProcessGroup = SINGLE_PROCESS) -> Task:
        """Return the Task of a problem, equal in all processes that hold a part of its data.

        It takes an all-gather where there are several processes.
        """
        own = [(np.count_nonzero(c.data), c.d * c.n, c.n) for c in (part.columns for part in problem.parts)]
        counts = own if problem.holds_all else processes.all_gather(own)
        nonzeros, entries, n = (sum(each) for each in zip(*counts, strict=True))
        width = problem.summary.width
        n_rows = n if problem.spec.split == "samples" else width
        return Task.on(problem.spec, width, n_rows, sparse=nonzeros <= SPARSE * entries)

    @staticmethod
    def on(spec: ProblemSpec, width: int, n_rows: int, *, sparse: bool = False) -> Task:
        """Return the Task of an objective on `n_rows` rows; `width` is the length of a column of A.

        The width is the number of features split by samples, and of samples split by features. `sparse`: at most SPARSE
        of the data is not zero.
        """
        by_samples = spec.split == "samples"
        penalties = spec.penalty if isinstance(spec.penalty, list) else [spec.penalty]
        likelihood = spec.loss.by_likelihood
        terms = penalties if not by_samples or likelihood else [spec.loss.dual(np.array([1.0, -1.0]), np.ones(2))]
        method = method_on_totals(spec.loss, spec.penalty_of(None), width, n_rows) if by_samples else None
        table = spec.penalty_of(None).as_table()
        smooth = likelihood or is_smooth(spec.loss)
        return Task(
            split=spec.split,
            length=spec.loss.n_outputs * (width + int(by_samples and spec.fit_intercept)),
            n_rows=n_rows,
            on_totals=method,
            smooth=smooth,
            quadratic=smooth and not likelihood and Traits.of(spec.loss).quadratic,
            working_set=not likelihood and width > WIDE and table is not None and bool((table.l1 > 0).all()),
            gossips=spec.has_form,
            bounded=any(_is_bounded(g) for g in terms),
            kinked=any(_is_kinked(g) for g in terms),
            sparse=sparse,
        )


def _is_bounded(g: Separable) -> bool:
    """Return whether some variable of g has a finite bound and is not fixed by equal bounds."""
    table = g.as_table()
    return table is not None and bool(((table.lo < table.hi) & (np.isfinite(table.lo) | np.isfinite(table.hi))).any())


def _is_kinked(g: Separable) -> bool:
    """Return whether g is not quadratic, because it has L1 penalties, groups, or the entropy of a logistic loss."""
    table = g.as_table()
    return table is None or bool((table.l1 > 0).any())


@dataclass(frozen=True)
class Messages:
    """Cost model of messages: how many exchanges and seconds they take on a network."""

    info: NetworkInfo  # the network, on which nothing fails
    network: Network  # latency and bandwidth of its links

    def exchange(self, numbers: int) -> float:
        """Return the seconds of one exchange in which every node sends `numbers` numbers to each neighbour."""
        return self.network.latency + self._seconds(self.degree * numbers)

    def total(self, numbers: int) -> tuple[int, float]:
        """Return (exchanges, seconds) of a total, a sum over all nodes, of `numbers` numbers per node.

        A short total is flooded along a tree from each author; a longer one is summed up along the spanning tree, and
        the total sent down.
        """
        length = NUMBER * numbers
        if not self.routes.floods(length):
            return self._along_tree(numbers)
        exchanges = self.routes.exchanges(length)
        sent = float(self.routes.bytes_of(length).max())
        return exchanges, exchanges * self.network.latency + sent / self.network.bandwidth

    def sum(self, numbers: int) -> tuple[int, float]:
        """Return (exchanges, seconds) of an exact sum over all nodes of `numbers` numbers per node.

        It is flooded or goes along the spanning tree. Flooding, a node passes all contributions on over all links, so
        that a link may fail.
        """
        info = self.info
        if not floods(info, numbers):
            return self._along_tree(numbers)
        exchanges = exchanges_per_sum(info, numbers)
        sent = self.degree if info.diameter <= 1 else 1 + info.n_nodes * (self.degree - 1)
        return exchanges, exchanges * self.network.latency + self._seconds(sent * numbers)

    def _along_tree(self, numbers: int) -> tuple[int, float]:
        """Return (exchanges, seconds) of a sum along the spanning tree, of `numbers` numbers per node.

        A node sends one sum up, and the total to its children.
        """
        info = self.info
        sent = info.depth * (1 + int(np.bincount(info.parents[info.parents >= 0], minlength=1).max()))
        return 2 * info.depth, 2 * info.depth * self.network.latency + self._seconds(sent * numbers)

    def _seconds(self, numbers: int) -> float:
        """Return the seconds in which `numbers` numbers leave a node: 8 bytes of each, over the bandwidth."""
        return NUMBER * numbers / self.network.bandwidth

    @cached_property
    def routes(self) -> Routes:
        """Return the routes of totals on the network: which links carry what in which exchange."""
        return Routes(self.info.mixing)

    @cached_property
    def degree(self) -> int:
        """Return the largest number of neighbours that a node has."""
        return int(np.diff(self.info.mixing.matrix.indptr).max()) - 1

    @property
    def condition(self) -> float:
        """Return the largest over the smallest positive eigenvalue of I - W, W the mixing matrix; 1 for one node."""
        mixing = self.info.mixing
        return mixing.top / (1.0 - mixing.lambda2) if mixing.top > 0 and mixing.lambda2 < 1 else 1.0


@dataclass(frozen=True)
class Estimate:
    """Expected cost of a run with one acceleration: rounds, exchanges per round, and seconds of all messages."""

    name: str  # name of the acceleration, in the table above
    rounds: int  # expected number of rounds
    exchanges: int  # exchanges of one round
    seconds: float  # seconds of the messages of all rounds

    def __str__(self) -> str:
        each = "an exchange" if self.exchanges == 1 else f"{self.exchanges} exchanges"
        return f"{self.rounds:,} rounds of {each}, {self.seconds:.2g} s"


def estimates(task: Task, info: NetworkInfo, network: Network | None = None) -> list[Estimate]:
    """Return an Estimate for every acceleration that suits a task, the cheapest first; the list may be empty.

    `info` is the network, on which nothing fails; `network` has latency and bandwidth, None: those of `Network()`. Of
    equal costs the earlier row of this module's table comes first.
    """
    messages = Messages(info, Network() if network is None else network)
    return sorted(_rows_of_table(task, messages), key=lambda one: one.seconds)


def least_seconds(
    spec: ProblemSpec, shape: tuple[int, int], info: NetworkInfo, network: Network | None = None
) -> float:
    """Return the seconds that the messages of a fit take with the cheapest acceleration; infinite if none suits.

    `shape` is (samples, features) of all nodes together, `info` says how nodes are linked, and `network` has latency
    and bandwidth of the links; None: those of `Network()`.
    """
    n_samples, n_features = shape
    task = Task.on(spec, n_features if spec.split == "samples" else n_samples, n_samples)
    return min((one.seconds for one in estimates(task, info, network)), default=float("inf"))


def _rows_of_table(task: Task, messages: Messages) -> Iterator[Estimate]:
    """Yield an Estimate for each acceleration that suits a task, in the order of this module's table."""
    if task.on_totals is not None:
        yield _of_totals(task, messages)
    if not task.gossips:
        return
    if not task.bounded:
        exchanges, seconds = messages.sum(task.length)
        yield Estimate("sums", SUMS, exchanges, SUMS * seconds)
    yield _momentum(task, messages)


def _momentum(task: Task, messages: Messages) -> Estimate:
    """Return the Estimate of a run with momentum."""
    factor = (QUADRATIC_FACTOR if task.quadratic and not task.kinked else 1.0) * (SPARSE_FACTOR if task.sparse else 1.0)
    per_sum = ROUNDS_PER_SUM + ROUNDS_PER_ROOT * float(np.sqrt(messages.condition))
    rounds = round(SUMS * factor * per_sum)
    return Estimate("momentum", rounds, 1, rounds * messages.exchange(task.length))


def between_sites(spec: ProblemSpec, n_rows: int, info: NetworkInfo, network: Network) -> list[Estimate]:
    """Return the Estimates of "totals" and "momentum" between sites that hold columns, the cheapest first.

    "totals" is not in the list if no method on totals suits the objective. `n_rows` is the number of rows, `info` says
    how sites are linked, `network` has latency and bandwidth of the links.
    """
    task, messages = Task.on(spec, n_rows, n_rows), Messages(info, network)
    found = [_momentum(task, messages)]
    if method_for_columns(spec.loss, spec.penalty_of(None)) is not None:
        rounds = PLANE_TOTALS if task.kinked else SPACE_TOTALS
        exchanges, seconds = messages.total(task.length)
        found.append(Estimate("totals", rounds, exchanges, rounds * seconds))
    return sorted(found, key=lambda one: one.seconds)


def _of_totals(task: Task, messages: Messages) -> Estimate:
    """Return the Estimate of a run with the method on totals (sums over all nodes) that suits the task.

    There must be one: `task.on_totals` is not None.
    """
    assert task.on_totals is not None
    q, m, curvature = task.length, task.n_rows + row_space.SPARE, task.on_totals.curvature
    if curvature == "nothing":
        exchanges, seconds = messages.total(2 * q)
        return Estimate("L-BFGS", LIMITED_MEMORY_TOTALS, exchanges, LIMITED_MEMORY_TOTALS * seconds)
    if curvature == "rows":
        rounds = NEWTON_TOTALS if task.smooth else INTERIOR_TOTALS
        exchanges, first = messages.total(q * m)
        return Estimate("row space", 1 + rounds, exchanges, first + rounds * messages.total(m * (m + 1) // 2)[1])
    square = min(q, WIDE) if task.working_set else q
    exchanges, seconds = messages.total(square * (square + 1) // 2 + 2 * q)
    if not task.smooth:
        return Estimate("interior point", INTERIOR_TOTALS, exchanges, INTERIOR_TOTALS * seconds)
    if task.quadratic and not task.working_set:
        seconds += (SQUARED_TOTALS - 1) * messages.total(2 * q)[1]
        return Estimate("newton", SQUARED_TOTALS, exchanges, seconds)
    return Estimate("newton", NEWTON_TOTALS, exchanges, NEWTON_TOTALS * seconds)
