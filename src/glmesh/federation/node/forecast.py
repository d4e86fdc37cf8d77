"""What a fit on totals will send, as far as a site can tell from its own file before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from glmesh.collectives.routes import NUMBER
from glmesh.federation.config import Federation
from glmesh.federation.node.program import site_method
from glmesh.federation.totals.masks import EDGES
from glmesh.methods.choice import (
    INTERIOR_TOTALS,
    LIMITED_MEMORY_TOTALS,
    NEWTON_TOTALS,
    PLANE_TOTALS,
    SPACE_TOTALS,
    SQUARED_TOTALS,
    Task,
)
from glmesh.methods.totals.cross_validation import MOST_NUMBERS, N_WEIGHTS
from glmesh.methods.totals.limited_memory import LimitedMemory
from glmesh.methods.totals.working_set import WIDE
from glmesh.network import Network, topology

FIELDS = 10  # fields of a total, whose units take a maximum each before the first one
COLUMN_FIELDS = 4  # fields of a total over columns
PLANE_NUMBERS = 64  # numbers beside those of the rows in a total over columns, where the penalty has kinks
FIRST = 2  # questions before the first total of a method: the survey, and the units of fields
SECONDS_A_BYTE = 1 / 12.5e6  # [s/byte] of an assumed link of 100 Mbit/s
LATENCY = 0.02  # [s] of an assumed link between sites
LINKS_BETWEEN_SITES = Network(latency=LATENCY, bandwidth=1.0 / SECONDS_A_BYTE)  # the same, for the cost model


@dataclass(frozen=True)
class Forecast:
    """Expected messages of a fit on totals, to each neighbour of a site, and how long they take."""

    totals: int  # questions that all sites answer, each by one contribution
    largest: int  # [bytes] of the longest contribution
    sent: float  # [bytes] to each neighbour in all, contributions that are passed on included
    seconds: float  # over links of 100 Mbit/s with a latency of 20 ms

    @staticmethod
    def of(federation: Federation, p: int, n_links: int) -> Forecast:
        """Return what is expected of a site whose table has p columns and which has `n_links` neighbours.

        Raise UnsuitablePair if no method on totals suits that many columns.
        """
        return Forecast.of_counts(federation, _numbers(federation, p), n_links)

    @staticmethod
    def of_columns(federation: Federation, n_rows: int, n_links: int) -> Forecast:
        """Return what is expected of a site that holds columns of `n_rows` rows and has `n_links` neighbours."""
        spec = federation.problem.model()
        kinked = Task.on(spec, n_rows, n_rows).kinked
        rounds = PLANE_TOTALS if kinked else SPACE_TOTALS
        more = PLANE_NUMBERS if kinked else rounds
        counts = [EDGES * COLUMN_FIELDS] * FIRST + [n_rows + more] * rounds + [n_rows, EDGES]
        return Forecast.of_counts(federation, counts, n_links)

    @staticmethod
    def of_counts(federation: Federation, counts: list[int], n_links: int) -> Forecast:
        """Return the Forecast of totals with so many numbers each, `counts`, at a site with `n_links` neighbours."""
        sites = len(federation.members)
        passed_on = max(1.0, (sites - 1) / n_links)  # contributions of a total that a link carries, at the least
        sent = NUMBER * sum(counts) * passed_on
        waits = LATENCY * topology.diameter(federation.mixing.matrix) * len(counts)
        return Forecast(len(counts), NUMBER * max(counts), sent, waits + sent * n_links * SECONDS_A_BYTE)


def _numbers(federation: Federation, p: int) -> list[int]:
    """Return how many numbers a site contributes to each total of a fit, in their order; p is the number of columns.

    Totals for the choice of alpha by folds are among them. A total is a sum over all sites.
    """
    part = federation.problem
    fit = _of_fit(federation, p)
    first = [EDGES * (p + 1) + 1 + part.cv + 2 * p, EDGES * FIELDS]
    if not part.cv:
        return first + fit
    n_weights = len(part.alphas) or N_WEIGHTS
    group = max(1, min(n_weights, MOST_NUMBERS // (part.cv * max(fit))))
    groups = -(-n_weights // group)
    paths = [part.cv * group * one for _ in range(groups) for one in fit]
    units = [EDGES * FIELDS * part.cv * group]
    held_out = [EDGES * (n_weights + 1), part.cv * (n_weights + 1)]
    return first + units + paths + held_out + [EDGES * FIELDS] + fit


def _of_fit(federation: Federation, p: int) -> list[int]:
    """Return how many numbers a site contributes to each total of one problem with p columns, in their order.

    A total is a sum over all sites.
    """
    part = federation.problem
    task, d = Task.on(part.model(), p, 0), p + 1
    if isinstance(site_method(part, p), LimitedMemory):
        return [3 * d] * LIMITED_MEMORY_TOTALS
    square = min(d, WIDE) if task.working_set else d
    whole = square * (square + 1) // 2 + 4 * d
    if not task.smooth:
        return [whole + 7 * d] * INTERIOR_TOTALS
    if task.quadratic and not task.working_set:
        return [whole] + [4 * d] * (SQUARED_TOTALS - 1)
    return [whole] * NEWTON_TOTALS
