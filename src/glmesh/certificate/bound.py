"""Local certificates: how nodes learn, from their neighbours only, how far from the optimum everybody is.

Every node sums up its state (x_k, v_k) of one round in a record of a few numbers; records travel along with the
vectors of the following rounds (`glmesh.gather`), and soon every node holds their totals and computes the same
bound. The paper's Proposition 1 is not sound as printed; the bound used here follows from

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

R_k and s need delta_w before it is known: nodes use 1.25 times the last one they learned, and a bound whose delta_w
turns out larger is discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from glmesh.certificate.measures import best_scale
from glmesh.collectives.totals import Gather, gather
from glmesh.core.block import Block
from glmesh.core.messages import Halo, Rounds
from glmesh.core.records import Certificate
from glmesh.core.state import PerColumn, PerNode, Shared
from glmesh.functions import Separable
from glmesh.solvers import local_gap
from glmesh.solvers.screening import Screening
from glmesh.types import Matrix, Vector

_SLACK = 1.25  # delta_w shrinks as a run converges; leave room for it to rise a little between two records
_ROUNDING = 1e-13  # allowance for rounding, relative to the size of what cancels in a bound
# Rounds between two records: a record costs about two passes over the data, and a long run can wait a little longer.
_PERIOD, _PATIENCE = 10, 0.02


class Record(NamedTuple):
    """What a node says of itself at one round."""

    f: float  # f(v_k)
    g: float  # g_k(x_k)
    ray0: float  # f*(s w_k) <= ray0 + ray1 s + ray2 s^2
    ray1: float
    ray2: float
    spread_v: float  # |v_k - sum_j W_kj v_j|^2
    spread_w: float  # |w_k - sum_j W_kj w_j|^2
    limit: float  # the largest feasible s
    gap: float  # sum_i FY_i(x_i, u_i)
    tilt: float  # t_k split by samples, t_k^2 split by features
    rest: float  # R_k
    cut_one: float  # sum of the finite parts of g_i* at s = 1, worst case
    cut_zero: float  # and at s = 0


SMALLEST = [Record._fields.index("limit")]  # of all other fields the sum is needed
_WIDTH = len(Record._fields) + 1  # and what the node could gain in its own subproblem


def node_record(
    block: Block,
    k: int,
    x: Vector,
    v: Vector,
    w: Vector,
    *,
    spread_v: float,
    spread_w: float,
    reach: float,
    by_samples: bool,
) -> Record:
    """The record of the block's k-th node; `reach` bounds |w_k - w| (of any model that is to be certified)."""
    g, columns = block.terms[k], block.node_columns(k)
    rays = block.f.conjugate_ray(w)
    f_value, g_value = block.f.value(v), g.value(x)
    if not np.isfinite(reach):  # the first record: it tells delta_w, so that the next one can tell more
        nothing = (np.inf,) * 5
        return Record(f_value, g_value, *rays, spread_v, spread_w, -1.0, *nothing)
    if columns.n == 0:
        return Record(f_value, 0.0, *rays, spread_v, spread_w, np.inf, 0.0, 0.0, 0.0, 0.0, 0.0)
    u = -columns.transposed_dot(w)
    radius = block.unit_norms(k) * reach
    # a node that needs no scaling may have neighbours that do, so everybody says what a scaled point would cost
    cut_one = float(g.cut_conjugates(u, radius).sum())
    cut_zero = float(g.cut_conjugates(np.zeros_like(u), np.zeros(())).sum())
    if g.needs_scaling:
        limit = g.ray_limit(u, radius)
        return Record(f_value, g_value, *rays, spread_v, spread_w, limit, np.nan, np.nan, np.nan, cut_one, cut_zero)
    conjugates = g.conjugates(u)
    peak = g.conjugate_subgradient(u)
    gap = g_value + float(conjugates.sum()) - float((x * u).sum())
    tilt = float(np.linalg.norm(columns.dot(peak - x))) ** (1 if by_samples else 2)
    rest = _remainder(g, u, radius, conjugates, peak)
    if g.strong_convexity > 0:
        rest = min(rest, block.node_norms[k] ** 2 * reach**2 / (2 * g.strong_convexity))
    return Record(f_value, g_value, *rays, spread_v, spread_w, np.inf, max(gap, 0.0), tilt, rest, cut_one, cut_zero)


def _remainder(g: Separable, u: Vector, radius: Vector, conjugates: Vector, peak: Vector) -> float:
    """sum_i max over |h| <= radius of g_i*(u + h) - g_i*(u) - xhat_i h; convex in h, so at an end."""
    up = g.conjugates(u + radius) - conjugates - peak * radius
    down = g.conjugates(u - radius) - conjugates + peak * radius
    return float(np.maximum(np.maximum(up, down), 0.0).sum())


def bound(
    totals: Vector, *, n_nodes: int, reach: float, consensus_gap: float, tau: float, by_samples: bool, round: int
) -> tuple[Certificate, float]:
    """(the certificate that the totals of K records of one and the same round give, the reach of the next record)."""
    r = Record(*totals.tolist())
    delta_w, delta_v = np.sqrt(r.spread_w) / consensus_gap, np.sqrt(r.spread_v) / consensus_gap
    away = np.sqrt(2.0) * delta_w if by_samples else delta_w
    h = r.f / n_nodes + r.g
    after = reach  # a cold start agrees, and tells nothing of delta_w
    if round > 0 or delta_w > 0 or n_nodes == 1:
        rounding = _ROUNDING * np.sqrt(2 * abs(r.f) / tau) / consensus_gap  # |w|^2 <= 2/tau (f(v) - min f) at each node
        after = _SLACK * max(float(away), float(rounding))
    unknown = Certificate(round, np.inf, -np.inf, np.inf), after
    if not away <= reach or np.isposinf(totals[-5:]).any():
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
        total = spread + r.gap + away * tilt + r.rest
        scale = abs(h) + abs(r.g)
    total = float(max(total, 0.0) + _ROUNDING * scale)
    # By samples P(w_k) >= P* >= -O_A(x) >= -h. And P(w_k) <= -h + total: h exceeds O_A(x) by at most the mean of
    # |v_j - v|^2 / (2 tau), which the term delta_v^2 / (2 tau) covers beside |v_k - v|^2.
    low = -h if by_samples else h - total
    return Certificate(round, total, low, low + total), after


@dataclass
class CertifierState:
    """What the certificates of a block's nodes remember from exchange to exchange."""

    latest: Shared[Certificate | None] = None  # the newest complete one
    x: PerColumn[Vector | None] = None  # the variables that `latest` is about
    v: PerNode[Matrix | None] = None  # and the estimates
    reach: Shared[float] = np.inf  # bound of |w_k - w| that the next record may rely on
    gather: Gather | None = None  # records on their way
    heard: Shared[int] = 0  # exchanges of `gather` so far
    round: Shared[int] = 0  # that `gather` is about
    pending_x: PerColumn[Vector | None] = None  # the variables of that round
    pending_v: PerNode[Matrix | None] = None


class Certifier:
    """The certificates of a block's nodes: rides along with a method's exchanges and adds no vector of its own."""

    def __init__(self, block: Block, *, by_samples: bool, tol: float | None = None) -> None:
        self.block = block
        self.by_samples = by_samples
        self.tol = tol
        self.state = CertifierState()

    @property
    def latest(self) -> Certificate | None:
        """The newest complete certificate; None before the first."""
        return self.state.latest

    def attend(self, rounds: Rounds, state: Any, curvature: Callable[[], Vector]) -> Rounds:
        """Make a round whose exchanges carry certificate records: the first, or each where a sum takes several."""
        sums, halo, first = state.sums_exactly, None, True
        while True:
            try:
                outbox = next(rounds) if halo is None else rounds.send(halo)
            except StopIteration:
                return
            if not first and not sums:
                halo = yield outbox
                continue
            width = 0 if outbox.scalars is None else outbox.scalars.shape[1]
            records = self.outgoing()
            if records is not None:
                outbox.scalars = records if outbox.scalars is None else np.hstack([outbox.scalars, records])
            halo = yield outbox
            theirs = halo.of_scalars(slice(width, None))
            begin = outbox.vectors is not None or state.knows_product
            v = state.v if outbox.vectors is None else outbox.vectors
            self.incoming(theirs, state.x, v, state.round, curvature(), state.screening, begin=begin)
            halo, first = halo.of_scalars(slice(width)), False

    def outgoing(self) -> Matrix | None:
        """What rides along with the next exchange."""
        return None if self.state.gather is None else self.state.gather.outgoing()

    def incoming(
        self, halo: Halo, x: Vector, v: Matrix, round: int, q: Vector, rest: Screening, *, begin: bool = True
    ) -> None:
        """Takes the neighbours' records, and their vectors v_j of the round that the block's (x, v) is from.

        Without vectors all v_k are one and the same. begin: whether a new record may be made of this state.

        q: sigma'/tau of each node's subproblem. rest: nodes that have nothing to gain are sent to rest.
        """
        if self.state.gather is not None:
            self.state.gather.incoming(self.block, halo)
            self.state.heard += 1
            self._conclude_if_complete()
        due = begin and self.state.gather is None
        if due and (self.latest is None or round >= self.state.round + max(_PERIOD, _PATIENCE * round)):
            self.state.gather, self.state.heard, self.state.round = (
                gather(self.block, self._records(halo, x, v, q, rest), SMALLEST),
                0,
                round,
            )
            self.state.pending_x, self.state.pending_v = x.copy(), v.copy()
            self._conclude_if_complete()

    def _records(self, halo: Halo, x: Vector, v: Matrix, q: Vector, rest: Screening) -> Matrix:
        block, vectors = self.block, halo.vectors
        gradients: dict[int, Vector] = {}
        if vectors is None:
            agreed, nowhere = block.f.gradient(v[0]), np.zeros(1)
        else:
            gradients = {int(j): block.f.gradient(vectors[j]) for j in np.unique(halo.neighbours)}
        records = []
        for k in range(block.size):
            if vectors is None:
                own, away_v, away_w = agreed, nowhere, nowhere
            else:
                own = gradients[int(halo.own[k])]
                away_v, away_w = v[k].copy(), own.copy()
                for j, weight in zip(*halo.around(k), strict=True):
                    away_v -= weight * vectors[j]
                    away_w -= weight * gradients[int(j)]
            record = node_record(
                block,
                k,
                x[block.of_node(k)],
                v[k],
                own,
                spread_v=float(np.sum(away_v**2)),
                spread_w=float(np.sum(away_w**2)),
                reach=self.state.reach,
                by_samples=self.by_samples,
            )
            gap = local_gap(block, k, x[block.of_node(k)], own, float(q[k]))
            if self.latest is not None and self.tol is not None:
                rest.begin(k, own, self.latest.room(gap, float(q[k]), self.tol, block.info.n_nodes))
            records.append([*record, gap])
        return np.array(records)

    def _conclude_if_complete(self) -> None:
        if self.state.gather is None or self.state.heard < self.state.gather.exchanges:
            return
        info = self.block.info
        found, self.state.reach = bound(
            self.state.gather.totals()[:-1],
            n_nodes=info.n_nodes,
            reach=self.state.reach,
            consensus_gap=info.consensus_gap,
            tau=self.block.f.tau,
            by_samples=self.by_samples,
            round=self.state.round,
        )
        gaps = self.state.gather.column(_WIDTH - 1)
        self.state.latest = found if gaps is None else replace(
            found, members=tuple(range(info.n_nodes)), local_gaps=tuple(gaps.tolist())
        )  # fmt: skip
        self.state.x, self.state.v = self.state.pending_x, self.state.pending_v
        self.state.gather = self.state.pending_x = self.state.pending_v = None
