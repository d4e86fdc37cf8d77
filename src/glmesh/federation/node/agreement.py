"""What all sites conclude from the same offers and comparisons: the contract, or who does not fit and why.

Pure functions: every site calls them with the same arguments, and so comes to the same end without asking anybody.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import networkx as nx

from glmesh.contract import Column, Contract, ContractVerdict, agree
from glmesh.contract.agreement import outliers
from glmesh.contract.fitting import listed, spoken
from glmesh.federation.config import Federation
from glmesh.federation.config.formulas import formula_of
from glmesh.federation.wire import PRESUMED, DataOffer
from glmesh.functions import Loss

APART = 7  # [powers of two] between the scale of a column here and at another site from which on there is a warning
LARGE = 10  # [powers of two] scale of a column from which on gossip is slow: rounds grow in proportion to its values


def verdict_of(offers: Mapping[str, DataOffer], federation: Federation) -> ContractVerdict:
    """Return the verdict: the contract (target, columns, labels) of the sites that made these offers, or the culprits.

    Culprits are {site: why it does not fit}. `offers` are {site: what it tells of its table}, in the order of the
    members.
    """
    part = federation.problem
    loss = part.model().loss
    width = max((offer.width for offer in offers.values() if offer.open), default=0)
    contracts = {site: _contract(offer, federation, width) for site, offer in offers.items()}
    verdict = agree(contracts, classifies=loss.classifies)
    culprits = (
        verdict.culprits
        or _other_kinds(contracts, federation)
        or _other_bases(offers)
        or _shared(offers, federation)
        or _misaligned(offers, federation)
    )
    if not culprits and part.has_labels and verdict.contract is not None:
        why = _wrong_labels(verdict.contract, loss)
        culprits = dict.fromkeys(offers, why) if why else {}
    return ContractVerdict(None, culprits) if culprits else verdict


def _wrong_labels(contract: Contract, loss: Loss) -> str:
    """Return why the labels that all sites hold together do not go with the loss; "": they do."""
    n = len(contract.labels)
    if n == 2 or (n > 2 and not loss.classifies):
        return ""
    held, several = spoken(contract.labels) or "no labels", "" if loss.classifies else " or more"
    return f"all sites together hold the labels {held}; the {loss.name} loss needs two{several}"


def _contract(offer: DataOffer, federation: Federation, width: int) -> Contract:
    """Return the contract (target, columns, labels) that the table of an offer keeps.

    A table that may lack columns at its end is given `width` columns.
    """
    labels = tuple(one if isinstance(one, str) else float(one) for one in offer.labels)
    if (data := federation.contract) is not None:
        named = data.with_labels(data.labels or labels)
        return replace(named, weight=offer.weight if offer.weight not in named.names else "")
    split, header = federation.problem.split, offer.names is not None
    if split == "features":
        columns: tuple[Column, ...] = ()
    elif offer.names is None:
        columns = tuple(Column(f"column {k}") for k in range(width if offer.open else offer.width))
    else:
        kinds = dict.fromkeys(offer.booleans, "boolean") | dict.fromkeys(offer.categories, "category")
        columns = tuple(Column(name, kinds.get(k, "number")) for k, name in enumerate(offer.names))
    return Contract(offer.target, columns, labels, split, weight=offer.weight, header=header)


def _other_kinds(contracts: Mapping[str, Contract], federation: Federation) -> dict[str, str]:
    """Return {site: why} of sites at which a column of the formula holds text and at others numbers, or vice versa.

    Only columns that stand alone in a term count. The dict is empty where the contract says the kinds, and without a
    formula.
    """
    if federation.data is not None or not federation.problem.formula:
        return {}
    formula = formula_of(federation.problem.formula)
    culprits: dict[str, str] = {}
    for name in formula.candidates:
        if name in formula.categories or name not in next(iter(contracts.values())).names:
            continue
        held = {
            site: "text" if next(c.kind for c in one.columns if c.name == name) == "category" else "numbers"
            for site, one in contracts.items()
        }
        for site, other in outliers(held).items():
            culprits.setdefault(
                site,
                f"has {held[site]} in the column {name}; {other}: has {held[other]}; write numbers at all sites, or "
                f"C({name}) in the formula if it is a category",
            )
    return culprits


def _other_bases(offers: Mapping[str, DataOffer]) -> dict[str, str]:
    """Return {site: why} of sites whose svmlight text may count from another index than that of other sites.

    They are those that are presumed to count from 1 while another site counts from 0. The dict is empty if no site
    counts from 0, or if each site's base is certain.
    """
    zero = next((site for site, offer in offers.items() if offer.index_base == "0"), None)
    presumed = [site for site, offer in offers.items() if offer.index_base == PRESUMED]
    why = (
        "its svmlight file uses no index 0, so that its indices would count from 1; {}: count from 0; say which by "
        "index_base = 0 or 1 in the node file, or for all sites in [data] of the federation file"
    )
    return {} if zero is None else {site: why.format(zero) for site in presumed}


def _shared(offers: Mapping[str, DataOffer], federation: Federation) -> dict[str, str]:
    """Return {site: why} of sites, split by features, that have a column with a name that another site's column has."""
    if federation.problem.split != "features":
        return {}
    holders: dict[str, list[str]] = {}
    for site, offer in offers.items():
        for name in offer.names or ():
            holders.setdefault(name, []).append(site)
    culprits: dict[str, str] = {}
    for site, offer in offers.items():
        shared = [name for name in offer.names or () if len(holders[name]) > 1]
        if shared:
            other = next(one for one in holders[shared[0]] if one != site)
            both = [name for name in shared if other in holders[name]]
            culprits[site] = (
                f"has the column{'s' if len(both) > 1 else ''} {listed(both)}, and so has {other}; split by features "
                "every column is at one site: take it out of one file, or rename it if it is another measurement"
            )
    return culprits


def _misaligned(offers: Mapping[str, DataOffer], federation: Federation) -> dict[str, str]:
    """Return {site: why} of sites, split by features, whose rows are not those of most sites, by number or names.

    The text names a site with other rows. The dict is empty if all rows agree, and split by samples.
    """
    if federation.problem.split != "features":
        return {}
    counts = outliers({site: offer.rows for site, offer in offers.items()})
    if counts:
        return {
            site: f"has {offers[site].rows} rows; {other}: has {offers[other].rows}; split by features all sites hold "
            "the same rows"
            for site, other in counts.items()
        }
    if federation.problem.aligned and not all(offer.ids for offer in offers.values()):
        return {}
    return {
        site: f"its rows are not those of {other}, or stand in another order (by one digest of the whole column of row "
        f"names); bring the rows of all files into one order of their names. `glmesh doctor --rows`, run at {site} "
        f"and {other} at the same time, finds the place"
        for site, other in outliers({site: offer.ids for site, offer in offers.items()}).items()
    }


def same_targets(sites: Collection[int], compared: Mapping[int, Mapping[int, bool]]) -> nx.Graph:
    """Return a graph whose nodes are `sites`, with an edge between two that found their targets to be equal.

    `compared[k][l]` is whether site k found the targets of its neighbour l equal to its own; neighbours that k has not
    compared are missing. An end that found them to differ removes the edge, whatever the other end found.
    """
    graph = nx.empty_graph(sites)
    for k, results in compared.items():
        graph.add_edges_from((k, other) for other, same in results.items() if same and {k, other} <= set(sites))
    for k, results in compared.items():
        graph.remove_edges_from([(k, other) for other, same in results.items() if not same])
    return graph


def uncompared(sites: Collection[int], links: nx.Graph, compared: Mapping[int, Mapping[int, bool]]) -> nx.Graph:
    """Return a graph of the links between `sites` of which neither end has compared its targets with the other's.

    The graph is empty as soon as the comparisons that were made connect all sites, so that all hold the same targets.
    `compared[k][l]` is whether site k found the targets of its neighbour l equal to its own; l is missing before that.
    """
    if nx.is_connected(same_targets(sites, compared)):
        return nx.Graph()
    said = [(k, other) for k, results in compared.items() for other in results]
    left = nx.Graph(links.subgraph(sites).edges)
    left.remove_edges_from(said)
    return left


def other_targets(same: nx.Graph, names: Mapping[int, str]) -> dict[str, str]:
    """Return {site: a sentence} of the sites whose targets or sample weights are not those of most sites.

    `same` is the graph of `same_targets` after all neighbours were compared: sites connected in it hold the same
    targets and weights. `names` is {number of a site: its name}. Without a group of more than half, all sites are
    listed.
    """
    groups = {k: number for number, group in enumerate(nx.connected_components(same)) for k in group}
    values = {names[k]: groups[k] for k in sorted(groups)}
    return {
        site: f"its target or its sample weights are not those of {other}; split by features all sites hold the same"
        for site, other in outliers(values).items()
    }


def scale_warnings(own: str, offers: Mapping[str, DataOffer], contract: Contract) -> Iterator[str]:
    """Yield a sentence for each column whose largest value at site `own` is far from that of the other sites.

    Far is a factor of 2^APART or more, either way. Where the contract has a range of the column, the largest value is
    compared with that instead. `offers` is {site: what it tells of its table}, with the powers of two of these values.
    A contract says which target, columns and labels the tables of all sites or ranks have.
    """
    by_site = _scales(offers, contract)
    for column in contract.columns:
        here = by_site[own].get(column.name)
        if here is None:
            continue
        told = [scale for one in by_site.values() if (scale := one.get(column.name)) is not None]
        expected, whose = max(told), "at another site"
        ends = [abs(end) for end in (column.low, column.high) if end]
        if ends:
            expected, whose = math.frexp(max(ends))[1], "in the contract"
        if abs(expected - here) >= APART:
            yield (
                f"column {column.name!r}: the largest value is about 2^{abs(expected - here)} times "
                f"{'smaller' if here < expected else 'larger'} here than {whose}; are the units the same?"
            )


def gossip_warnings(offers: Mapping[str, DataOffer], contract: Contract) -> Iterator[str]:
    """Yield a sentence that names the columns whose largest value is 2^(LARGE - 1) or more; nothing if there is none.

    Gossip by rows makes rounds in proportion to the largest value; powers of two per column would not change that,
    since the penalty would change with them. Totals do not depend on it.
    """
    largest: dict[str, int] = {}
    for one in _scales(offers, contract).values():
        for name, scale in one.items():
            largest[name] = max(largest.get(name, 0), scale or 0)
    found = [f"{name} (about 2^{scale})" for name, scale in largest.items() if scale >= LARGE]
    if found:
        yield (
            f"large values: {listed(found)}. Gossip needs a number of rounds in proportion to them, so this may take "
            'very long; write these columns in larger units at all sites, or take method = "gossip" out of the '
            "federation file: totals do not depend on units"
        )


def _scales(offers: Mapping[str, DataOffer], contract: Contract) -> dict[str, dict[str, int | None]]:
    """Return site -> name of a column -> the power of two above its largest absolute value, None if all are 0."""
    return {
        site: dict(zip(offer.names or contract.names, offer.scales, strict=False)) for site, offer in offers.items()
    }
