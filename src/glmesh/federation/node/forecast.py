"""What a fit on totals will send, as far as a site can tell from its own file before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from glmesh.collectives.routes import NUMBER
from glmesh.core import NetworkInfo
from glmesh.errors import InvalidInput, InvalidNetwork, UnsuitablePair
from glmesh.federation.config import LINKS, Federation, ProblemPart
from glmesh.federation.config.formulas import formula_of
from glmesh.federation.node.levels import SLOTS, WORDS
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
    between_sites,
)
from glmesh.methods.totals.cross_validation import MOST_NUMBERS, N_WEIGHTS
from glmesh.methods.totals.limited_memory import LimitedMemory
from glmesh.methods.totals.working_set import WIDE
from glmesh.network import Network, topology

FIELDS = 10  # fields of a total, whose units take a maximum each before the first one
COLUMN_FIELDS = 4  # fields of a total over columns
PLANE_NUMBERS = 64  # numbers beside those of the rows in a total over columns, where the penalty has kinks
EXPECTED_SITES, EXPECTED_ROWS = 8, 10_000  # of a federation whose members are not known yet
FIRST = 2  # questions before the first total of a method: the survey, and the units of fields
FAMILY_TOTALS = (
    6  # of Newton's method from the null model to a proof in standard errors; 4 to 9 on statsmodels' data sets
)
THETA_STEPS = 6  # of the search for theta, each with a total of Newton's method; 4 to 8 from where it begins
PROOFS = 3  # of these before which sites agree on what the proof needs, by a maximum
NULL_TOTALS = 4  # that find the null model at the end of a fit with an offset
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
    def of(federation: Federation, p: int, n_links: int, n_outputs: int = 1) -> Forecast:
        """Return what is expected of a site whose table has p columns and which has `n_links` neighbours.

        `n_outputs` is the number of linear predictors of a row. Raise UnsuitablePair if no method on totals suits that
        many columns.
        """
        part = federation.problem
        counts = _of_family(part, p, n_outputs) if part.family else _numbers(federation, p)
        return Forecast.of_counts(federation, counts, n_links)

    @staticmethod
    def of_columns(federation: Federation, n_rows: int, n_links: int) -> Forecast:
        """Return what is expected of a site that holds columns of `n_rows` rows and has `n_links` neighbours."""
        kinked = Task.on(federation.problem.model(), n_rows, n_rows).kinked
        rounds = PLANE_TOTALS if kinked else SPACE_TOTALS
        more = PLANE_NUMBERS if kinked else rounds
        counts = [EDGES * COLUMN_FIELDS] * FIRST + [n_rows + more] * rounds + [n_rows, EDGES]
        return Forecast.of_counts(federation, counts, n_links)

    @staticmethod
    def of_counts(federation: Federation, counts: list[int], n_links: int) -> Forecast:
        """Return the Forecast of len(counts) totals, of which total k has counts[k] numbers, at a site with n_links."""
        sites = len(federation.members)
        passed_on = max(1.0, (sites - 1) / n_links)  # contributions of a total that a link carries, at the least
        sent = NUMBER * sum(counts) * passed_on
        waits = LATENCY * topology.diameter(federation.mixing.matrix) * len(counts)
        return Forecast(len(counts), NUMBER * max(counts), sent, waits + sent * n_links * SECONDS_A_BYTE)


TEXTS = 5  # [levels] of a category whose texts are told, as a guess


def _numbers(federation: Federation, p: int) -> list[int]:
    """Return how many numbers a site contributes to each total of a fit, in their order; p is the number of columns.

    Totals for the choice of alpha by folds are among them. A total is a sum over all sites.
    """
    part = federation.problem
    fit = _of_fit(federation, p)
    levels = [SLOTS + 1, TEXTS * WORDS] * (len(formula_of(part.formula).categories) if part.formula else 0)
    first = [*levels, *_of_moments(part), EDGES * (p + 1) + 1 + part.cv + 2 * p, EDGES * FIELDS]
    if not part.cv:
        return first + fit
    n_weights = len(part.alphas) or N_WEIGHTS
    group = max(1, min(n_weights, MOST_NUMBERS // (part.cv * max(fit))))
    groups = -(-n_weights // group)
    paths = [part.cv * group * one for _ in range(groups) for one in fit]
    units = [EDGES * FIELDS * part.cv * group]
    held_out = [EDGES * (n_weights + 1), part.cv * (n_weights + 1)]
    return first + units + paths + held_out + [EDGES * FIELDS] + fit


def _of_moments(part: ProblemPart) -> list[int]:
    """Return how many numbers a site contributes to each of the totals that moments of a formula take."""
    if not part.formula:
        return []
    factors = formula_of(part.formula).factors.values()
    named = {one.expression for factor in factors for one in factor.standardised}
    q = len(named)
    return [EDGES * (q + 1), 5 * q + 3, EDGES * 2 * q, 6 * q] if q else []


def _of_family(part: ProblemPart, p: int, n_outputs: int) -> list[int]:
    """Return how many numbers a site contributes to each total of a family's fit, in their order.

    p is the number of columns, the offset among them. A total is a sum over all sites, or a maximum.
    """
    d = n_outputs * (p + 1)
    k = max(n_outputs - 1, 1) * (p + part.fit_intercept - bool(part.held))
    triangle = k * (k + 1) // 2
    totals = [
        *_of_moments(part),
        EDGES * (p + 1) + 2 + 2 * p,
        EDGES,
        5,
        5 * EDGES,
        *[triangle + d + FIELDS] * FAMILY_TOTALS,
    ]
    totals += [EDGES] * PROOFS
    if part.estimate_theta:
        totals += [triangle + d + FIELDS, EDGES, d + 4] * THETA_STEPS
    if not part.is_unpenalised:
        return totals
    if part.held:
        totals += [EDGES, 5] + [4] * NULL_TOTALS
    return [*totals, FIELDS * EDGES, 2 * triangle + k + 2 * FIELDS, FIELDS * EDGES, 3 * triangle + 2 * FIELDS]


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


def method_for_columns(part: ProblemPart, graph: str, gone: str, refused: str) -> tuple[str, str]:
    """Return ("totals" or "gossip", why) for sites that hold columns: the cheaper one, if settings leave it open.

    The number of sites and rows is not known yet: the costs are those of EXPECTED_SITES on the topology named `graph`,
    with EXPECTED_ROWS. A `gone` in words of gossip, and leaving out a site that is `refused`, leave gossip only; the
    reason is empty then, and where no totals suit the objective.
    """
    none = "gossip", ""
    if gone in ("freeze", "reset") or refused == "without":
        return none
    try:
        info = NetworkInfo.of_graph(topology.build("ring" if graph == LINKS else graph, EXPECTED_SITES, 0), 0)
        found = between_sites(part.model(), EXPECTED_ROWS, info, LINKS_BETWEEN_SITES)
    except (InvalidInput, InvalidNetwork, UnsuitablePair):  # which `Federation.check` tells of
        return none
    best, others = found[0], found[1:]
    if best.name != "totals" or not others:
        return none
    why = f"masked totals are cheaper than gossip: about {best}, instead of {others[0]} ({EXPECTED_SITES} sites)"
    return best.name, why
