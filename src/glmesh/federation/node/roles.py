"""Columns of a site's table that are no features: an offset or exposure, the event of a Cox model, classes as numbers.

They belong to the contract like any other column, so they are found by name; here they leave the features.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glmesh.contract import DataTable, Fitted
from glmesh.contract.events import refuse, with_events
from glmesh.federation.config import ProblemPart
from glmesh.problem import DataSummary, NodeData, ProblemSpec
from glmesh.problem.offsets import hold_offset, put_last


def with_roles(fitted: Fitted, part: ProblemPart) -> Fitted:
    """Return a site's table, in the order of the contract, without the columns that are no features.

    An offset, or the logarithm of an exposure, is the last column then; times of a Cox model are negative where the
    event did not happen; classes of the multinomial family are the numbers 0, 1, ... Raise Mismatch for values that
    cannot be.
    """
    table = fitted.table
    if part.event:
        table = with_events(table, part.event)
    if part.held:
        table = _with_offset(table, part)
    if part.has_labels and not part.model().loss.classifies and table.y is not None and table.y.dtype.kind == "f":
        numbers = [one for one in fitted.labels if not isinstance(one, str)]
        if len(numbers) == len(fitted.labels):  # texts are numbers already
            table = replace(table, y=np.searchsorted(np.array(numbers), table.y).astype(np.float64))
    return fitted if table is fitted.table else replace(fitted, table=table)


def spec_of(part: ProblemPart, fitted: Fitted) -> ProblemSpec:
    """Return the specification of the problem for a table of `with_roles`: number of classes and offset included."""
    spec = part.model(len(fitted.labels))
    return hold_offset(spec, int(fitted.table.X.shape[1])) if part.held else spec


def summary_of(data: NodeData, labels: tuple[str | float, ...]) -> DataSummary:
    """Return what a problem between sites must know of all sites' data, from this site's data and the labels.

    The contract gives the number of features (split by samples), the number of rows (by features) and the labels of a
    classification. The range of other targets and the weights are those of this site: split by features they are
    everybody's, split by samples only a free intercept would need them, which peers do not train by gossip. A contract
    says which target, columns and labels the tables of all sites or ranks have.
    """
    own, loss = data.summary(), data.spec.loss
    if loss.compares_rows:  # events may be at other sites alone
        return replace(own, y_min=-1.0, y_max=1.0)
    if loss.n_outputs > 1:
        return replace(own, y_min=0.0, y_max=len(labels) - 1.0)
    if not labels:
        return own
    numbers = [one for one in labels if not isinstance(one, str)]
    low, high = (min(numbers), max(numbers)) if len(numbers) == len(labels) else (0.0, len(labels) - 1.0)
    return replace(own, y_min=low, y_max=high)


def _with_offset(table: DataTable, part: ProblemPart) -> DataTable:
    """Return the table with its offset, or the logarithm of its exposure, as the last column."""
    names = table.columns
    X, order = put_last(table.X, names.index(part.held))
    if part.exposure:
        refuse(table, ~(X[:, -1] > 0), X[:, -1], f"column {part.held!r} (exposure) must be > 0 in every row")
        X[:, -1] = np.log(X[:, -1])
    return replace(table, X=np.ascontiguousarray(X), names=tuple(names[k] for k in order))
