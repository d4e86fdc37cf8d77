"""What a bird's eye sees: O_A, H, the consensus violation and the decentralised duality gap G_H.

These need everybody's vectors at once, so only a simulation (or a test) has them; nodes use `glmesh.certificate`.
"""

import numpy as np

from glmesh.core import Block, Measures
from glmesh.functions import Anchored
from glmesh.parallel import SINGLE_PROCESS, ProcessGroup
from glmesh.types import Matrix, Vector


def observe(
    blocks: list[Block],
    xs: list[Vector],
    vs: list[Matrix],
    *,
    by_samples: bool,
    constant: Vector | None = None,
    conserved: bool = True,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> Measures:
    """Measures the variables xs and estimates vs of all blocks, those of other processes included.

    constant: what others add to Ax for good. conserved: whether the mean of all v_k is sure to be Ax; if a lost message
    may have moved it, G_H is no bound any more, and the gap has f(Ax) in the place of the mean of f(v_k).
    Sums go over nodes in ascending order, so they have the same bits however nodes are grouped into blocks.
    """
    f, d = blocks[0].f, blocks[0].d
    rows = [row for v in vs for row in v]
    n_nodes = sum(processes.all_gather([len(v) for v in vs]))
    shared = product(blocks, xs, processes)
    if constant is not None:
        shared = shared + constant

    def add(carry: Vector) -> Vector:
        """What this process adds to the means of w, v, f(v), <v, w> and <v - Ax, w>."""
        mean_w, mean_v = carry[:d], carry[d : 2 * d]
        mean_f, mean_vw, apart = carry[2 * d :].tolist()
        for row in rows:
            w = f.gradient(row)
            mean_w += w / n_nodes
            mean_v += row / n_nodes
            mean_f += f.value(row) / n_nodes
            mean_vw += float(row @ w) / n_nodes
            apart += float((row - shared) @ w) / n_nodes
        carry[2 * d :] = mean_f, mean_vw, apart
        return carry

    carry = processes.fold(np.zeros(2 * d + 3), add)
    mean_w, mean_v = carry[:d], carry[d : 2 * d]
    mean_f, mean_vw, apart = carry[2 * d :].tolist()
    us = [-b.columns.transposed_dot(mean_w) for b in blocks]
    offset = 0.0 if constant is None else float(constant @ mean_w)  # f(. + c) has the conjugate f* - <c, .>
    g = _sum_of_values(blocks, xs, processes)
    value = f.value(shared) + g
    primal = mean_f + g if conserved else value
    if processes.any(any(b.g.needs_scaling for b in blocks)):
        gap = primal + _scaled_dual(blocks, rows, us, offset, processes)
    elif conserved:  # mean <v_k, w_k> + g + g*, without its large numbers, which cancel
        slacks = processes.all_gather_rows([b.g.slacks(x, u) for b, x, u in zip(blocks, xs, us, strict=True)])
        gap = apart - float((mean_v - shared) @ mean_w) + float(slacks.sum())
    else:
        gap = primal + (mean_vw - mean_f) - offset + _conjugate(blocks, us, processes)
    if by_samples:
        objective = f.conjugate(mean_w) - offset + _conjugate(blocks, us, processes)
    else:
        objective = value
    away = processes.all_gather_rows([np.array([np.sum((row - shared) ** 2) for row in v]) for v in vs])
    consensus = float(sum(away))
    gap, pull = max(float(gap), 0.0), 0.0
    inner = gap
    if isinstance(f, Anchored):
        pull = f.pull(mean_w)
        objective -= pull
        gap = max(float(objective + _balanced_dual(f, blocks, xs, processes)), 0.0)
    return processes.broadcast(Measures(float(objective), float(value), float(mean_f + g), gap, consensus, inner, pull))


def _sum_of_values(blocks: list[Block], xs: list[Vector], processes: ProcessGroup) -> float:
    return float(processes.all_gather_rows([b.g.values(x) for b, x in zip(blocks, xs, strict=True)]).sum())


def _balanced_dual(f: Anchored, blocks: list[Block], xs: list[Vector], processes: ProcessGroup) -> float:
    """f + g without an anchor, at x made to sum up to zero: positive or negative entries shrink, whichever weigh more.

    Every g_i is finite between zero and where it is finite.
    """
    x = processes.all_gather_rows(xs)
    above, below = float(x[x > 0].sum()), float(-x[x < 0].sum())
    up, down = (below / above if above > below else 1.0), (above / below if below > above else 1.0)
    xs = [np.where(part > 0, up * part, down * part) for part in xs]
    return f.free.value(product(blocks, xs, processes)[:-1]) + _sum_of_values(blocks, xs, processes)


def _scaled_dual(
    blocks: list[Block], rows: list[Vector], us: list[Vector], offset: float, processes: ProcessGroup
) -> float:
    """(1/K) sum f*(s w_k) + g*(-s A^T mean w) at the best s that is dual feasible; infinite if there is none."""
    f, zero = blocks[0].f, np.zeros(())
    limit = min(processes.all_gather([b.g.ray_limit(u, zero) for b, u in zip(blocks, us, strict=True)]))
    if limit < 0:
        return np.inf
    ws = (f.gradient(row) for row in rows)
    s = min(1.0, limit)
    if f.has_quadratic_conjugate:  # the ray is exact
        ray = np.mean(processes.all_gather_rows([np.array([f.conjugate_ray(w) for w in ws])]), axis=0)
        ray[1] -= offset
        s = best_scale(ray, s)
        dual = float(ray[0] + ray[1] * s + ray[2] * s * s)
    else:
        dual = float(np.mean(processes.all_gather_rows([np.array([f.conjugate(s * w) for w in ws])]))) - s * offset
    cuts = [b.g.cut_conjugates(s * u, zero) for b, u in zip(blocks, us, strict=True)]
    return dual + float(processes.all_gather_rows(cuts).sum())


def _conjugate(blocks: list[Block], us: list[Vector], processes: ProcessGroup) -> float:
    return float(processes.all_gather_rows([b.g.conjugates(u) for b, u in zip(blocks, us, strict=True)]).sum())


def product(blocks: list[Block], xs: list[Vector], processes: ProcessGroup = SINGLE_PROCESS) -> Vector:
    """Ax, column after column."""

    def add(carry: Vector) -> Vector:
        for block, x in zip(blocks, xs, strict=True):
            block.columns.add_product(x, carry[None])
        return carry

    return processes.fold(np.zeros(blocks[0].d), add)


def best_scale(ray: Vector, limit: float) -> float:
    """argmin of c0 + c1 s + c2 s^2 over 0 <= s <= limit; the limit itself where nothing is gained below it."""
    _, c1, c2 = ray
    return float(np.clip(-c1 / (2 * c2), 0.0, limit)) if c2 > 0 else limit
