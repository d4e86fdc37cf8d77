"""Which contrasts the factors of each term need so that no column repeats others, and the order of the columns.

The rule is that of R and patsy, so names and order are those of statsmodels: terms without numbers come first, then
those of each set of numeric factors; within each, shorter terms first. A term has the columns that shorter terms of
its set do not span already.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

Term = tuple[str, ...]  # codes of the factors; () is the intercept
Coding = dict[str, bool]  # categorical factor -> whether all its levels have a column (True), or all but one


def ordered(terms: Sequence[Term], numeric: Collection[str]) -> list[list[Term]]:
    """Return the terms in groups, one per set of numeric factors, in the order of the columns.

    `numeric` are the codes of the factors that are numbers.
    """
    groups: dict[frozenset[str], list[Term]] = {}
    for term in terms:
        groups.setdefault(frozenset(one for one in term if one in numeric), []).append(term)
    keys = sorted(groups, key=lambda key: bool(key))  # stable: the group without numbers first
    return [sorted(groups[key], key=len) for key in keys]


def codings(group: Sequence[Term], numeric: Collection[str]) -> list[list[Coding]]:
    """Return, for each term of a group, the codings of its parts, each of which has columns of its own."""
    used: set[frozenset[tuple[str, bool]]] = set()
    out = []
    for term in group:
        factors = [one for one in term if one not in numeric]
        subsets = [one for size in range(len(factors) + 1) for one in combinations(factors, size)]
        parts = [frozenset((factor, False) for factor in subset) for subset in subsets]
        parts = [part for part in parts if part not in used]
        used.update(parts)
        while _absorb(parts):
            pass
        out.append([dict(part) for part in parts])
    return out


def _absorb(parts: list[frozenset[tuple[str, bool]]]) -> bool:
    """Merge the first part that lacks one factor of a later part into that; return whether there was one.

    The columns of both together are those of the later part with all levels of that factor.
    """
    for i, short in enumerate(parts):
        for j in range(i + 1, len(parts)):
            more = parts[j] - short
            if short < parts[j] and len(more) == 1:
                ((factor, whole),) = more
                if not whole:
                    parts[j] = short | {(factor, True)}
                    del parts[i]
                    return True
    return False
