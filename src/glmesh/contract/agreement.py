"""The contract that sites reach when they meet without one: what most of them have, and who has something else."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from glmesh.contract.contract import Column, Contract
from glmesh.contract.fitting import listed, nearest, spoken


@dataclass(frozen=True)
class ContractVerdict:
    """Result of `agree`: the contract that all sites keep, or, if there is none, what is wrong at which site.

    `contract` is None if the sites cannot agree; `culprits` then maps the name of each site to blame to a sentence,
    which contains no values of its data. Without culprits the dict is empty.
    """

    contract: Contract | None  # what they agree on; None: they cannot
    culprits: dict[str, str]  # site -> what does not fit, for everybody's eyes


def agree(offers: Mapping[str, Contract], *, classifies: bool, advice: str = "") -> ContractVerdict:
    """Return the verdict on `offers`, which maps the name of each site to the Contract that its own table would keep.

    The order of columns is that of the first site of the mapping, so all callers give the sites in the same order.
    Columns are compared as sets: another order is no difference. The sites that differ from what more than half have
    are the culprits; where no more than half agree, all sites are. With `classifies`, the class labels of all sites are
    put together, since a site may lack samples of a class: with two classes in all, every site fits, and with more than
    two the sites are culprits whose labels are not among those that more than half of the sites hold. `advice` is the
    remedy at the end of every message; "" stands for one about data files.
    """
    sites = list(offers)
    culprits: dict[str, str] = {}
    for aspect, said, remedy in _ASPECTS:
        for site, other in outliers({site: aspect(offers[site]) for site in sites}).items():
            differs = _lacks(offers[site], offers[other], other) if aspect is _names else ""
            culprits.setdefault(
                site, f"{differs}{said(offers[site])}; {other}: {said(offers[other])}; {advice or remedy}"
            )
    labels = tuple(sorted({label for offer in offers.values() for label in offer.labels}, key=_order))
    if classifies and len(labels) > 2 and not culprits:
        culprits = _other_labels(offers, advice or "code the labels alike in all files")
    if culprits:
        return ContractVerdict(None, culprits)
    return ContractVerdict(replace(offers[sites[0]], columns=_columns(list(offers.values())), labels=labels), {})


def _columns(offers: Sequence[Contract]) -> tuple[Column, ...]:
    """Return the columns (name and kind) of the first of the contracts `offers`, one per site, as a tuple of Column.

    Where columns have names, a column that is not "boolean" in all offers gets the kind "number", or "category" if
    it is that in one.
    """
    first, *others = offers
    if not first.header:
        return first.columns
    kinds = [{column.name: column.kind for column in offer.columns} for offer in others]
    out = []
    for one in first.columns:
        held = {one.kind, *(kind.get(one.name, "number") for kind in kinds)}
        out.append(replace(one, kind="category" if "category" in held else one.kind if len(held) == 1 else "number"))
    return tuple(out)


def outliers(values: Mapping[str, Hashable]) -> dict[str, str]:
    """Return {site: another site} for the sites whose value is not the one that more than half of all sites have.

    `values` maps the name of each site to its value; the other site is the first one whose value differs from the
    outlier's, for messages. Where no value has a majority, all sites are returned; where all are equal, none.
    """
    ranked = Counter(values.values()).most_common(1)
    if not ranked or ranked[0][1] == len(values):
        return {}
    common = ranked[0][0] if 2 * ranked[0][1] > len(values) else object()
    return {
        site: next(other for other in values if values[other] != values[site])
        for site in values
        if values[site] != common
    }


def _order(label: str | float) -> tuple[bool, str | float]:
    """Return (whether the label is a text, the label), a key for `sorted` that puts numbers before texts."""
    return isinstance(label, str), label


def _other_labels(offers: Mapping[str, Contract], advice: str) -> dict[str, str]:
    """Return {site: sentence} for the sites with a class label that at most half of all sites have.

    `offers` maps the name of each site to its Contract. The sentence lists the labels of that site and those of every
    other site, and ends with the text `advice`. The dict is empty if every label is held by more than half of the
    sites.
    """
    times = Counter(label for offer in offers.values() for label in offer.labels)
    usual = {label for label, count in times.items() if 2 * count > len(offers)}
    out = {}
    for site, offer in sorted(offers.items()):
        if not set(offer.labels) <= usual:
            others = ", ".join(f"{name}: {spoken(one.labels)}" for name, one in sorted(offers.items()) if name != site)
            out[site] = f"has the labels {spoken(offer.labels)}; {others}; {advice}"
    return out


def _names(offer: Contract) -> tuple[str, ...]:
    """Return the sorted names of the features of the contract `offer`; "0", "1", ... if it has no names."""
    return tuple(sorted(offer.names)) if offer.header else tuple(str(k) for k in range(len(offer.columns)))


def _lacks(offer: Contract, other: Contract, site: str) -> str:
    """Return a clause for a message: which columns the contract `offer` lacks, or has in excess, compared with `other`.

    `site` is the name of the site that `other` is from. Return "" where the columns of either have no names.
    """
    if not (offer.header and other.header):
        return ""
    missing = [name for name in other.names if name not in offer.names]
    spare = [name for name in offer.names if name not in other.names]
    lacks = f"lacks {_column_list(missing)}, which {site} has{nearest(missing, spare)}; " if missing else ""
    return lacks or f"has {_column_list(spare)}, which {site} has not; "


def _column_list(names: list[str]) -> str:
    """Return column names as words of a message: "the column bmi", or "the columns bmi, age"."""
    return f"the column{'s' if len(names) > 1 else ''} {listed(names)}"


def _said_names(offer: Contract) -> str:
    """Return the features of a contract as words of a message: "has the columns age, bmi", or "has 2 columns".

    The second form is for a contract whose columns have no names.
    """
    names = [column.name for column in offer.columns]
    return f"has the columns {listed(names)}" if offer.header else f"has {len(names)} columns"


# what is compared, how it is told, and what would do; the order is that of the messages
_ASPECTS: tuple[tuple[Callable[[Contract], Hashable], Callable[[Contract], str], str], ...] = (
    (
        lambda offer: offer.header,
        lambda offer: "has a header" if offer.header else "has no header",
        "give all files a header with the same names, or none",
    ),
    (
        lambda offer: offer.target,
        lambda offer: f"has the target {offer.target!r}",
        "give the target the same name in all files, and say which column it is",
    ),
    (
        _names,
        _said_names,
        "give all files the same columns by name, or agree on a contract that names those to be used",
    ),
    (
        lambda offer: bool(offer.weight),
        lambda offer: f"has the sample weights {offer.weight!r}" if offer.weight else "has no sample weights",
        "use sample weights at all sites, or at none",
    ),
)
