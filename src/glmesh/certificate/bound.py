"""Local certificates: proven bounds of the suboptimality that nodes compute from their neighbours' messages.

Every node condenses its state (x_k, v_k) of one round into a record of a few numbers (`BoundTerms`). Records ride along
with the vectors of the following rounds (`glmesh.collectives.flood`), every node soon holds their totals, and all
compute the same bound. The paper's Proposition 1 is not sound as printed; the bound used here follows from

    G_H = (1/K) sum_k <v_k - v, w_k - w>  +  sum_i FY_i(x_i, -a_i.w),     v = Ax, w = mean of w_k,

with FY_i(x, u) = g_i(x) + g_i*(u) - x u >= 0. Node k knows u_i = -a_i.w_k; the distance to -a_i.w is at most
|a_i| |w_k - w|, and  sum |w_k - w|^2 <= delta_w^2 = sum_k |w_k - sum_j W_kj w_j|^2 / (1 - lambda_2)^2, likewise for v.
Linearising FY_i at u_i (slope xhat_i - x_i) and bounding what remains by its worst case R_i over that distance:

    by features:  O_A(x) - O*  <=  delta_v delta_w / K + sum gap_k + (sum t_k^2)^(1/2) delta_w + sum R_k(delta_w)
    by samples:   P(w_k) - P*  <=  delta_v^2 / (2 tau) + sum gap_k + sqrt2 delta_w sum t_k + sum R_k(sqrt2 delta_w)
                  for every node's own model w_k (two nodes differ by at most sqrt2 delta_w)

where t_k = |A_k (xhat_k - x_k)|. Where g* is infinite somewhere (L1, groups), the dual point s w is used, with s so
small that it is feasible for every w within delta_w:

    O_A(x) - O* <= (1/K) sum [f(v_k) + f*(s w_k)] + g(x) + what finite sides of boxes add.

R_k and s need delta_w before it is known: nodes use a radius, `_SLACK` times the last delta_w they learned, and discard
a bound whose delta_w turns out larger than the radius. Where exact sums tell all nodes Ax, that is due to rounding
alone, and so is the radius.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from glmesh.certificate.measures import best_scale
from glmesh.collectives.totals import Gather, exchanges_per_sum, gather
from glmesh.core import Block, Certificate, Halo, PerColumn, PerNode, Rounds, Shared
from glmesh.functions import Separable
from glmesh.solvers import local_gap
from glmesh.solvers.screening import Screening
from glmesh.types import Matrix, Vector

_SLACK = 1.25  # radius of the next record over the last delta_w: delta_w may rise a little between two records
_ROUNDING = 1e-13  # allowance for rounding, relative to the size of what cancels in a bound
# [exchanges, part of those so far] between two records: a record costs about two passes over the data
_PERIOD, _PATIENCE = 10, 0.02


class BoundTerms(NamedTuple):
    """Numbers of one node k that, summed over nodes (`limit`: minimised), bound the duality gap of a round.

    x_k are its variables, v_k its estimate of Ax, w_k = grad f(v_k); u_i = -a_i.w_k for each column a_i of the node;
    xhat_i is a subgradient of the conjugate g_i* at u_i; s in [0, 1] scales the dual point; the radius bounds the
    distance of w_k from the certified dual point w. A is the data matrix, x are the variables of all nodes.
    """

    f: float  # f(v_k)
    g: float  # g_k(x_k)
    ray0: float  # coefficients of a bound of the conjugate: f*(s w_k) <= ray0 + ray1 s + ray2 s^2
    ray1: float
    ray2: float
    spread_v: float  # |v_k - sum_j W_kj v_j|^2
    spread_w: float  # |w_k - sum_j W_kj w_j|^2
    limit: float  # largest s at which g_k*(-s A_k^T w) is finite for all w within the radius; -1: none
    gap: float  # sum_i g_i(x_i) + g_i*(u_i) - x_i u_i
    tilt: float  # norm of A_k (xhat_k - x_k) split by samples, its square split by features
    remainder: float  # error of linearising g_k* at u, worst case within the radius
    cut_one: float  # sum of the finite parts of g_i* at s = 1, worst case
    cut_zero: float  # sum of the finite parts of g_i* at s = 0


class NodePoint(NamedTuple):
    """State of one node at one round: variables x, estimate v of Ax, gradient w = grad f(v), distances to neighbours.

    A is the data matrix, f the smooth part of the objective. `spread_v` and `spread_w` are the squared Euclidean
    distances of v and w from their weighted means over the node and its neighbours.
    """

    x: Vector  # (columns of the node,) x_k
    v: Vector  # (d,) v_k
    w: Vector  # (d,) w_k = grad f(v_k)
    spread_v: float  # |v_k - sum_j W_kj v_j|^2
    spread_w: float  # |w_k - sum_j W_kj w_j|^2


SMALLEST = [BoundTerms._fields.index("limit")]  # the bound needs the minimum of these fields, the sum of all others
_LOCAL_GAP = len(BoundTerms._fields)  # column of a record with the local gap of the node


def node_record(block: Block, k: int, at: NodePoint, radius: float, *, by_samples: bool) -> BoundTerms:
    """Return the BoundTerms of the k-th hosted node: its numbers in the bound of the duality gap.

    `at` is the node's variables, estimate and gradient w_k, and how far these spread over its neighbours. `radius`
    bounds the distance of w_k from the one dual point w that is certified for all nodes; if it is infinite, as in a
    first record, numbers that depend on it are infinite, and the next radius follows from the spreads. `by_samples`:
    nodes hold samples.
    """
    g, columns = block.terms[k], block.node_columns(k)
    common = (*block.f.conjugate_ray(at.w), at.spread_v, at.spread_w)
    f_value, g_value = block.f.value(at.v), g.value(at.x)
    if not np.isfinite(radius):
        return BoundTerms(f_value, g_value, *common, -1.0, np.inf, np.inf, np.inf, np.inf, np.inf)
    if columns.n == 0:
        return BoundTerms(f_value, 0.0, *common, np.inf, 0.0, 0.0, 0.0, 0.0, 0.0)
    u = -columns.transposed_dot(at.w)
    moves = block.unit_norms(k) * radius
    # a node that needs no scaling may have neighbours that do, so every record has the cost of a scaled point
    cut_one = float(g.cut_conjugates(u, moves).sum())
    cut_zero = float(g.cut_conjugates(np.zeros_like(u), np.zeros(())).sum())
    if g.needs_scaling:
        limit = g.ray_limit(u, moves)
        return BoundTerms(f_value, g_value, *common, limit, np.nan, np.nan, np.nan, cut_one, cut_zero)
    conjugates = g.conjugates(u)
    peak = g.conjugate_subgradient(u)
    gap = g_value + float(conjugates.sum()) - float((at.x * u).sum())
    tilt = float(np.linalg.norm(columns.dot(peak - at.x))) ** (1 if by_samples else 2)
    remainder = _remainder(g, u, moves, conjugates, peak)
    if g.strong_convexity > 0:
        remainder = min(remainder, block.node_norms[k] ** 2 * radius**2 / (2 * g.strong_convexity))
    return BoundTerms(f_value, g_value, *common, np.inf, max(gap, 0.0), tilt, remainder, cut_one, cut_zero)


def _remainder(g: Separable, u: Vector, moves: Vector, conjugates: Vector, peak: Vector) -> float:
    """Return the largest error of linearising g_i* at u_i over moves by at most moves_i, summed over the columns i.

    The error is the maximum over abs(h) <= moves_i of g_i*(u_i + h) - g_i*(u_i) - peak_i h, where `conjugates` are the
    g_i*(u_i) and `peak` the slopes; convex in h, so the maximum is at an end. All arrays have shape (columns of the
    node,).
    """
    up = g.conjugates(u + moves) - conjugates - peak * moves
    down = g.conjugates(u - moves) - conjugates + peak * moves
    return float(np.maximum(np.maximum(up, down), 0.0).sum())


class BoundSetting(NamedTuple):
    """Constants that `bound` needs beside sums of BoundTerms: number of members, spectral gap, tau, split.

    `consensus_gap` bounds 1 - lambda_2 of the mixing matrix from below; the gradient of f is 1/tau-Lipschitz.
    """

    n_nodes: int  # K, the number of members
    consensus_gap: float  # lower bound of 1 - lambda_2 of the mixing matrix
    tau: float  # f is 1/tau-smooth
    by_samples: bool  # whether nodes hold samples, and the bound is about every node's own model

    def rounding(self, f: float) -> float:
        """Return how far the nodes' gradients may be apart because of rounding alone.

        `f` is the sum over the nodes of f at their estimates v_k.
        """
        return float(_ROUNDING * np.sqrt(2 * abs(f) / self.tau) / self.consensus_gap)  # |w|^2 <= 2/tau (f(v) - min f)


def bound(totals: Vector, setting: BoundSetting, *, radius: float, round: int) -> tuple[Certificate, float]:
    """Return (Certificate, radius of the next record) from the sums over all nodes of the BoundTerms of one round.

    `totals` has 13 numbers, in the order of `BoundTerms`. `radius`, the assumed distance of any node's gradient from
    the mean of all, is the smallest that a record of the round was made with. The certificate's bound is absolute, and
    infinite if it would need a larger radius. `setting` has the number of members, the spectral gap, tau and the split.
    """
    r, (n_nodes, consensus_gap, tau, by_samples) = BoundTerms(*totals.tolist()), setting
    delta_w, delta_v = np.sqrt(r.spread_w) / consensus_gap, np.sqrt(r.spread_v) / consensus_gap
    away = np.sqrt(2.0) * delta_w if by_samples else delta_w
    h = r.f / n_nodes + r.g
    next_radius = radius  # in a cold start all w_k are equal, which tells nothing of delta_w
    if round > 0 or delta_w > 0 or n_nodes == 1:
        next_radius = _SLACK * max(float(away), setting.rounding(r.f))
    unknown = Certificate(round, np.inf, -np.inf, np.inf), next_radius
    if not away <= radius or np.isposinf(totals[-5:]).any():
        return unknown
    if np.isnan(r.gap):
        limit = min(1.0, r.limit)
        if limit < 0:
            return unknown
        ray = np.array([r.ray0, r.ray1, r.ray2]) / n_nodes
        s = best_scale(ray, limit)
        dual = float(ray[0] + ray[1] * s + ray[2] * s * s) + s * r.cut_one + (1 - s) * r.cut_zero
        total, scale = h + dual, abs(h) + abs(dual)
    else:
        spread, tilt = delta_v * delta_w / n_nodes, np.sqrt(r.tilt)
        if by_samples:
            spread, tilt = delta_v**2 / (2 * tau), r.tilt
        total = spread + r.gap + away * tilt + r.remainder
        scale = abs(h) + abs(r.g)
    total = float(max(total, 0.0) + _ROUNDING * scale)
    # By samples P(w_k) >= P* >= -O_A(x) >= -h. And P(w_k) <= -h + total: h exceeds O_A(x) by at most the mean of
    # |v_j - v|^2 / (2 tau), which the term delta_v^2 / (2 tau) covers beside |v_k - v|^2.
    low = -h if by_samples else h - total
    return Certificate(round, total, low, low + total), next_radius


@dataclass
class CertifierState:
    """State of a `Certifier`: records under way, and the newest certificate with the state that it is about.

    A certificate is a proven bound of the suboptimality; a record is what a node tells of the round that it is about. x
    are variables, v estimates of Ax (A the data matrix); `pending_x` and `pending_v` are those of the records under
    way; `radius` is the distance of any node's gradient from the mean of all that the next record assumes.
    """

    latest: Shared[Certificate | None] = None  # the newest complete certificate
    x: PerColumn[Vector | None] = None  # (columns,) variables that `latest` is about
    v: PerNode[Matrix | None] = None  # (n_hosted, d) estimates that `latest` is about
    radius: Shared[float] = np.inf  # bound of |w_k - w|, w the mean of all w_k, that the next record is made with
    gather: Gather | None = None  # totals of the records under way; None: none are
    heard: Shared[int] = 0  # exchanges of `gather` so far
    round: Shared[int] = 0  # round that the records in `gather` are about
    pending_x: PerColumn[Vector | None] = None  # (columns,) variables of that round
    pending_v: PerNode[Matrix | None] = None  # (n_hosted, d) estimates of that round


class CertifiedState(Protocol):
    """Protocol: what a method's state must have for a `Certifier` to certify it.

    That is the variables x, shape (columns,), the number of the round, which nodes skip their local solve
    (`screening`), and the properties below it.
    """

    x: Vector  # (columns,)
    round: int
    screening: Screening

    @property
    def v(self) -> Matrix:
        """Return the estimates v_k of Ax of the hosted nodes, shape (n_hosted, d).

        A is the data matrix, x are the variables of all nodes.
        """
        ...

    @property
    def sums_exactly(self) -> bool:
        """Return whether every exchange of the coming round belongs to an exact sum."""

    @property
    def knows_product(self) -> bool:
        """Return whether every node's estimate is Ax exactly, known by exact sums.

        A is the data matrix, x are the variables of all nodes.
        """


class Certifier:
    """Makes certificates, proven bounds of the suboptimality, for a block's nodes on a reliable network.

    Each node's record of 14 numbers is added to the messages of a method's rounds; no exchange is made for it.
    """

    def __init__(self, block: Block, *, by_samples: bool, tol: float | None = None) -> None:
        """Prepare to certify the nodes of `block`; `by_samples`: they hold samples instead of features.

        `tol` is the relative gap aimed at, so that nodes whose part is done may skip work; None: nobody skips.
        """
        self.block = block
        self.by_samples = by_samples
        self.tol = tol
        self.state = CertifierState()

    @property
    def latest(self) -> Certificate | None:
        """Return the newest certificate that was made from the records of all nodes; None before the first.

        A certificate is a proven upper bound of the suboptimality.
        """
        return self.state.latest

    def attend(self, rounds: Rounds, state: CertifiedState, curvature: Callable[[], Vector]) -> Rounds:
        """Make one round of a method, given as its generator, and add records to the messages of its first exchange.

        In a round of exact sums every exchange carries records. `curvature` returns the curvature q_k = sigma'/tau of
        each hosted node's subproblem, shape (n_hosted,). The wrapped generator is sent halos without the records. A
        generator: yields each Outbox to exchange, is sent the Halo that came back, and returns nothing. A subproblem is
        a node's local minimisation over its own variables.
        """
        sums, halo, first = state.sums_exactly, None, True
        while True:
            try:
                rows = next(rounds) if halo is None else rounds.send(halo)
            except StopIteration:
                return
            if not first and not sums:
                halo = yield rows
                continue
            width = 0 if rows.scalars is None else rows.scalars.shape[1]
            records = None if self.state.gather is None else self.state.gather.outgoing()
            if records is not None:
                rows.scalars = records if rows.scalars is None else np.hstack([rows.scalars, records])
            halo = yield rows
            self._advance(halo.of_scalars(slice(width, None)))
            if rows.vectors is not None:
                self._begin_if_due(halo, rows.vectors, state, curvature())
            elif state.knows_product:
                self._begin_if_due(halo, state.v, state, curvature())
            halo, first = halo.of_scalars(slice(width)), False

    def _advance(self, halo: Halo) -> None:
        """Take the neighbours' records from the halo; make the certificate once those of all nodes have come.

        A certificate is a proven upper bound of the suboptimality. A halo is all that a block's nodes received in one
        exchange.
        """
        if self.state.gather is not None:
            self.state.gather.incoming(self.block, halo)
            self.state.heard += 1
            self._conclude_if_complete()

    def _begin_if_due(self, halo: Halo, v: Matrix, state: CertifiedState, q: Vector) -> None:
        """Make a record of the present state per node and begin to gather them, if it is time for a new certificate.

        A certificate is a proven bound of the suboptimality. Does nothing while records are under way, or if the last
        ones are recent. `halo` is what the neighbours sent; `v`, shape (n_hosted, d), are the estimates of Ax that they
        were sent (A the data matrix); without vectors in the halo all estimates are equal. `q` are the curvatures of
        the nodes' subproblems, shape (n_hosted,). A subproblem is a node's local minimisation over its own variables.
        """
        per_round = exchanges_per_sum(self.block.info, self.block.d) if state.sums_exactly else 1
        since = per_round * (state.round - self.state.round)  # [exchanges]
        period = _PERIOD / 2 if state.sums_exactly else _PERIOD  # nodes agree at once, so records soon prove something
        due = self.latest is None or since >= max(period, _PATIENCE * per_round * state.round)
        if self.state.gather is None and due:
            if halo.vectors is None and np.isinf(self.state.radius):  # nodes hold the same v
                n = self.block.info.n_nodes
                self.state.radius = _SLACK * self._setting.rounding(n * self.block.f.value(v[0]))
            self.state.gather = gather(self.block, self._records(halo, v, state, q), SMALLEST)
            self.state.heard, self.state.round = 0, state.round
            self.state.pending_x, self.state.pending_v = state.x.copy(), v.copy()
            self._conclude_if_complete()

    def _records(self, halo: Halo, v: Matrix, state: CertifiedState, q: Vector) -> Matrix:
        """Return the record of each hosted node, shape (n_hosted, 14): its 13 `BoundTerms`, then its local gap.

        The local gap is an upper bound of the decrease that the node's own subproblem allows. `halo` is what the
        neighbours sent, `v` the estimates of Ax, shape (n_hosted, d), `q` the curvatures of the subproblems, shape
        (n_hosted,). Once there is a certificate, also sets the radius within which a node may skip its subproblem. A is
        the data matrix, x are the variables of all nodes.
        """
        block, vectors = self.block, halo.vectors
        gradients: dict[int, Vector] = {}
        if vectors is None:
            common, nowhere = block.f.gradient(v[0]), np.zeros(1)
        else:
            gradients = {int(j): block.f.gradient(vectors[j]) for j in np.unique(halo.neighbours)}
        records = []
        for k in range(block.size):
            if vectors is None:
                own, away_v, away_w = common, nowhere, nowhere
            else:
                own = gradients[int(halo.own[k])]
                away_v, away_w = v[k].copy(), own.copy()
                for j, weight in zip(*halo.around(k), strict=True):
                    away_v -= weight * vectors[j]
                    away_w -= weight * gradients[int(j)]
            x = state.x[block.of_node(k)]
            at = NodePoint(x, v[k], own, float(np.sum(away_v**2)), float(np.sum(away_w**2)))
            record = node_record(block, k, at, self.state.radius, by_samples=self.by_samples)
            gap = local_gap(block, k, x, own, float(q[k]))
            if self.latest is not None and self.tol is not None:
                radius2 = self.latest.screening_radius2(gap, float(q[k]), self.tol, block.info.n_nodes)
                state.screening.begin(k, own, radius2)
            records.append([*record, gap])
        return np.array(records)

    @property
    def _setting(self) -> BoundSetting:
        """Return what a bound depends on beside the nodes' records: number of nodes, consensus gap, tau and split."""
        info = self.block.info
        return BoundSetting(info.n_nodes, info.consensus_gap, self.block.f.tau, self.by_samples)

    def _conclude_if_complete(self) -> None:
        """Make the certificate and store it as `latest`, if the records of all nodes have come; else do nothing.

        A certificate is a proven upper bound of the suboptimality.
        """
        if self.state.gather is None or self.state.heard < self.state.gather.exchanges:
            return
        info, totals = self.block.info, self.state.gather.totals()[:-1]
        found, self.state.radius = bound(totals, self._setting, radius=self.state.radius, round=self.state.round)
        gaps = self.state.gather.column(_LOCAL_GAP)
        if gaps is not None:
            found = replace(found, members=tuple(range(info.n_nodes)), local_gaps=tuple(gaps.tolist()))
        self.state.latest = found
        self.state.x, self.state.v = self.state.pending_x, self.state.pending_v
        self.state.gather = self.state.pending_x = self.state.pending_v = None
