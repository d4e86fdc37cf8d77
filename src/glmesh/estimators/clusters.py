"""Clusters of rows: their labels, and what a fit without a penalty must know of them for standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from glmesh.engine.result import Result
from glmesh.errors import InvalidData, InvalidInput
from glmesh.methods.totals.dealing import all_rows
from glmesh.methods.totals.likelihood.final_totals import cluster_sums
from glmesh.methods.totals.likelihood.models import likelihood_of
from glmesh.problem.clusters import cluster_numbers
from glmesh.problem.named import refuse_permuted
from glmesh.types import Data, Indices

SITE = "site"  # clusters="site": the rows of each part are one cluster


def of_rows(clusters: ArrayLike | None, y: ArrayLike, rows: str = "all") -> Indices | None:
    """Return the number of the cluster of each pooled row, shape (m,), given their labels; None: none are given.

    `y` has an entry for each row.

    Raise InvalidInput or InvalidData, which say what would do, for labels that do not fit; `rows` is that of `fit`.
    """
    if clusters is None:
        return None
    if rows == "own":
        raise InvalidInput("clusters are summed where all rows are; say rows='all', or fit without clusters")
    if isinstance(clusters, str):
        raise InvalidInput(f"clusters={clusters!r}: expected a label for each row; fit_nodes takes clusters='site'")
    return cluster_numbers(clusters, len(np.asarray(y)), "clusters")


def of_parts(clusters: Sequence[ArrayLike] | str | None, parts: Sequence[tuple[Data, ...]]) -> list[Indices] | None:
    """Return the numbers of the clusters of each part's rows, given "site" or labels; None: no clusters are given.

    A label is one of its part: equal labels of two parts are two clusters. The second entry of a part has a row each.
    """
    if clusters is None:
        return None
    sizes = [len(np.asarray(part[1])) for part in parts]
    if isinstance(clusters, str):
        if clusters != SITE:
            raise InvalidInput(f"clusters={clusters!r}: expected 'site', or labels for the rows of each part")
        return [np.full(m, k) for k, m in enumerate(sizes)]
    if len(clusters) != len(sizes):
        raise InvalidData(
            f"clusters has labels for {len(clusters)} parts, and there are {len(sizes)}; give one array per part"
        )
    for k, (labels, part) in enumerate(zip(clusters, parts, strict=True)):
        refuse_permuted(part[0], labels, f"clusters of part {k}", f"X of part {k}")
    each = enumerate(zip(clusters, sizes, strict=True))
    own = [cluster_numbers(labels, m, f"clusters of part {k}") for k, (labels, m) in each]
    starts = np.cumsum([0, *(len(one) for one in own)])
    return [one + start for one, start in zip(own, starts[:-1], strict=True)]


def clustered(result: Result, numbers: Sequence[Indices] | None) -> Result:
    """Return the result of a fit of pooled data, whose statistics have the meat of "cluster" sandwiches.

    Clusters may lie at several nodes here; those inside of nodes' own data are summed by the fit itself. `numbers` are
    those of the clusters, an array for each entry of `all_rows`. A fit without clusters or statistics is returned
    unchanged.
    """
    held = None if numbers is None or result.problem is None else all_rows(result.problem)
    if numbers is None or held is None or result.statistics is None:
        return result
    statistics = result.statistics
    loss = statistics.fitted.family or result.problem.spec.loss
    scores, used = [], []
    for X, y, weight in zip(*held, strict=True):
        scores.append(likelihood_of(loss, X, y, weight).scores(statistics.fitted.coef)[:, statistics.fitted.free])
        used.append(weight > 0)
    keep = np.concatenate(used)
    sums, n = cluster_sums(np.concatenate(scores)[keep], np.concatenate(list(numbers))[keep])
    return replace(
        result, statistics=replace(statistics, meats=statistics.meats | {"cluster": sums.T @ sums}, clusters=n)
    )
