"""Measures of all nodes at once: O_A, H, the consensus violation and the decentralised duality gap G_H.

They need the vectors of all nodes, so only a simulation (or a cluster between rounds) has them; nodes themselves use
`glmesh.certificate.bound`.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from glmesh.core import Block, Measures
from glmesh.functions import Smooth
from glmesh.kernels.columns import products
from glmesh.linalg.columns import ONE_ROW
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
    """Return Measures (objective, duality gap, consensus violation) at the variables xs and estimates vs of Ax.

    xs and vs have one array per block of this process; nodes of other processes are included. `constant`, shape (d,),
    is the part of Ax of nodes that left and stay counted; None: there is none. `conserved` False: a lost message may
    have moved the mean of all estimates away from Ax; the duality gap of H is then no bound, and f(Ax) takes the place
    of the mean of f(v_k). `by_samples`: nodes hold samples. Sums go over nodes in ascending order, so their bits do not
    depend on how nodes are grouped. A is the data matrix, x are the variables of all nodes.
    """
    f = blocks[0].f
    shared = product(blocks, xs, processes)
    if constant is not None:
        shared = shared + constant
    mean = _means(f, vs, shared, processes)
    us = [-b.columns.transposed_dot(mean.w) for b in blocks]
    offset = 0.0 if constant is None else float(constant @ mean.w)  # f(. + c) has the conjugate f* - <c, .>
    g = _sum_of_values(blocks, xs, processes)
    value, h = f.value(shared) + g, mean.f + g
    if processes.any(any(b.g.needs_scaling for b in blocks)):
        gap = (h if conserved else value) + _scaled_dual(blocks, vs, us, offset, processes)
    elif conserved:  # mean <v_k, w_k> + g + g*, without its large numbers, which cancel
        slacks = processes.all_gather_rows([b.g.slacks(x, u) for b, x, u in zip(blocks, xs, us, strict=True)])
        gap = mean.apart - float((mean.v - shared) @ mean.w) + float(slacks.sum())
    else:
        gap = value + (mean.vw - mean.f) - offset + _conjugate(blocks, us, processes)
    objective = f.conjugate(mean.w) - offset + _conjugate(blocks, us, processes) if by_samples else value
    away = processes.all_gather_rows([np.array([np.sum((row - shared) ** 2) for row in v]) for v in vs])
    gap = max(float(gap), 0.0)
    found = Measures(float(objective), float(value), float(h), gap, float(sum(away)), inner=gap)
    if (anchored := f.as_anchored()) is not None:
        xs = _balanced(xs, processes)  # where the problem without an anchor is finite
        dual = anchored.free.value(product(blocks, xs, processes)[:-1]) + _sum_of_values(blocks, xs, processes)
        pull = anchored.pull(mean.w)
        free = float(objective - pull)
        found = replace(found, objective=free, gap=max(float(free + dual), 0.0), pull=pull)
    return processes.broadcast(found)


class _Means(NamedTuple):
    """Means over all nodes k of their estimates v_k of Ax (v), gradients w_k = grad f(v_k) (w), and three numbers.

    `f` is the mean of f(v_k), the smooth part of the objective, `vw` that of <v_k, w_k>, `apart` that of <v_k - Ax,
    w_k>; A is the data matrix.
    """

    w: Vector  # (d,) mean of w_k
    v: Vector  # (d,) mean of v_k
    f: float  # mean of f(v_k)
    vw: float  # mean of <v_k, w_k>
    apart: float  # mean of <v_k - Ax, w_k>


def _means(f: Smooth, vs: list[Matrix], shared: Vector, processes: ProcessGroup) -> _Means:
    """Return the means over the nodes of all processes at their estimates; `vs` has those of each block here.

    `shared` is Ax, shape (d,); `f` is the smooth part of the objective. A is the data matrix, x are the variables of
    all nodes.
    """
    n_nodes, d = sum(processes.all_gather([len(v) for v in vs])), len(shared)
    carry = processes.fold_in(np.zeros(2 * d + 3))
    for row in (row for v in vs for row in v):
        w = f.gradient(row)
        carry[:d] += w / n_nodes
        carry[d : 2 * d] += row / n_nodes
        carry[2 * d :] += np.array([f.value(row), row @ w, (row - shared) @ w]) / n_nodes
    carry = processes.fold_out(carry)
    return _Means(carry[:d], carry[d : 2 * d], *carry[2 * d :].tolist())


def _sum_of_values(blocks: list[Block], xs: list[Vector], processes: ProcessGroup) -> float:
    """Return g(x), the separable part of the objective, of all blocks of all processes, a float.

    xs has the variables of each block of this process.
    """
    return float(processes.all_gather_rows([b.g.values(x) for b, x in zip(blocks, xs, strict=True)]).sum())


def _balanced(xs: list[Vector], processes: ProcessGroup) -> list[Vector]:
    """Return the variables of each block, shape (n_columns,), scaled so that those of all nodes sum up to zero.

    xs are the variables before. All positive entries are multiplied by one factor of at most 1, or all negative ones,
    whichever weigh more. The penalty stays finite, because its bounds include zero.
    """
    x = processes.all_gather_rows(xs)
    above, below = float(x[x > 0].sum()), float(-x[x < 0].sum())
    up, down = (below / above if above > below else 1.0), (above / below if below > above else 1.0)
    return [np.where(part > 0, up * part, down * part) for part in xs]


def _scaled_dual(
    blocks: list[Block], vs: list[Matrix], us: list[Vector], offset: float, processes: ProcessGroup
) -> float:
    """Return the negative dual objective (1/K) sum f*(s w_k) + g*(-s A^T w), a float, at the best s in [0, 1].

    w_k = grad f(v_k) for the estimates v_k of K nodes, w is their mean. Infinite if no s is feasible; if f* is not
    quadratic, at the largest feasible s. `vs` are the estimates and `us` = -A^T w of each block; `offset` is the inner
    product of w with the part of Ax of nodes that left. A is the data matrix, x are the variables of all nodes. f* is
    the conjugate of f.
    """
    f, zero = blocks[0].f, np.zeros(())
    limit = min(processes.all_gather([b.g.ray_limit(u, zero) for b, u in zip(blocks, us, strict=True)]))
    if limit < 0:
        return np.inf
    ws = (f.gradient(row) for v in vs for row in v)
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
    """Return g*(u), a float: the conjugate of the separable part of the objective over all blocks and processes.

    `us` has the u of each block, shape (n_columns,).
    """
    return float(processes.all_gather_rows([b.g.conjugates(u) for b, u in zip(blocks, us, strict=True)]).sum())


def product(blocks: list[Block], xs: list[Vector], processes: ProcessGroup = SINGLE_PROCESS) -> Vector:
    """Return Ax, shape (d,), from the variables xs of each block here and in other processes.

    Columns are added up one after the other in the order of nodes, so the bits do not depend on the grouping. A is the
    data matrix, x are the variables of all nodes.
    """
    total = processes.fold_in(np.zeros(blocks[0].d))
    for block, x in zip(blocks, xs, strict=True):
        columns, whole = block.columns, np.array([0, block.columns.n], dtype=np.uint64)
        products(whole, columns.arrays, x, ONE_ROW, total[None])
    return processes.fold_out(total)


def best_scale(ray: Vector, limit: float) -> float:
    """Return the s, a float, that minimises c0 + c1 s + c2 s^2 over 0 <= s <= limit, ray = (c0, c1, c2).

    Return `limit` if c2 is not positive.
    """
    _, c1, c2 = ray
    return float(np.clip(-c1 / (2 * c2), 0.0, limit)) if c2 > 0 else limit
