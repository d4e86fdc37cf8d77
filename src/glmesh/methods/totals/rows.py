"""Rows of the hosted nodes, as methods on totals read them."""

from __future__ import annotations

from dataclasses import dataclass

from glmesh.core.block import NetworkInfo
from glmesh.functions import Loss, Table
from glmesh.parallel import SERIAL, ThreadPool
from glmesh.types import SampleMatrix, Unsigned, Vector


@dataclass(eq=False)
class Rows:
    """Rows of the nodes that one process hosts, and the objective that all nodes share.

    The objective is sum_i s_i loss(y_i, x_i.w + b) + penalty(w), over the rows of all nodes; the intercept b is 0
    unless `fit_intercept`.
    """

    ids: Unsigned  # (n_hosted,) ids of the hosted nodes, ascending
    info: NetworkInfo
    X: list[SampleMatrix]  # (m_k, p) rows of each hosted node, contiguous or CSR
    y: list[Vector]  # (m_k,) targets of each; -1 or 1 of a classification
    weight: list[Vector]  # (m_k,) sample weights of each
    loss: Loss
    penalty: Table  # alpha included
    fit_intercept: bool
    threads: ThreadPool = SERIAL  # that share the work of the hosted nodes

    @property
    def size(self) -> int:
        """Number of hosted nodes."""
        return len(self.X)

    @property
    def p(self) -> int:
        """Number of coefficients, the intercept not counted."""
        return int(self.X[0].shape[1])
