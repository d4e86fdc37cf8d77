"""Data frames as matrices with names, and parts of the data brought into one order by name.

A data frame is anything with `columns` and `to_numpy`, such as those of pandas and polars; neither is imported.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from glmesh.contract import Column, Contract, agree
from glmesh.contract.contract import doubled
from glmesh.contract.fitting import listed, spoken
from glmesh.errors import InvalidData, Mismatch
from glmesh.linalg.columns import check_indices
from glmesh.types import Array, Data, Matrix, SampleMatrix
from glmesh.validation import LARGEST, are_usable, is_missing, refuse_masks, unusable

Names = tuple[str, ...] | None  # of the columns of a matrix; None: they have none, and go by position
Offers = Mapping[str, Contract]


def named_matrix(X: Data, name: str) -> tuple[Data, Names]:
    """Return (X, names of its columns), names being a tuple of texts or None: X is no data frame, or has other names.

    A data frame becomes a float64 array, anything else is returned as it is. InvalidData names the column of a data
    frame that is doubled or holds text, a missing value or infinity; `name` is what messages call X.
    """
    if not hasattr(X, "columns") or not hasattr(X, "to_numpy"):
        refuse_masks(X, name)
        refuse_dates(X, name)
        if sp.issparse(X):
            check_indices(X, name)
        return X, None
    columns = list(X.columns)
    texts = [isinstance(column, str) for column in columns]
    if any(texts) and not all(texts):
        other = columns[texts.index(False)]
        raise InvalidData(f"{name} has the column {other!r} beside columns whose names are texts; name all by texts")
    names = tuple(columns) if all(texts) else None
    if twice := doubled(names or ()):
        raise InvalidData(f"{name} has the column {twice[0]!r} twice; keep one of them")
    values = np.asarray(X.to_numpy())
    if values.dtype.kind not in "biuf":
        values = _numbers(values, name, columns)
    matrix = np.asarray(values, dtype=np.float64)
    check_finite(matrix, name, names)
    return matrix, names


def _numbers(values: Array, name: str, columns: Iterable[object]) -> Matrix:
    """Return the values of a data frame as float64, shape (m, p), NaN where one is missing.

    Raise InvalidData, which names X (`name`), row and column, for a value that is no number.
    """
    out = np.empty(values.shape)
    for k, column in enumerate(columns):
        for row, value in enumerate(values[:, k].tolist()):
            try:
                out[row, k] = np.nan if is_missing(value) else float(value)
            except (TypeError, ValueError):
                raise InvalidData(
                    f"{name} holds {value!r:.40} at row {row}, column {column!r}; write numbers instead (one 0/1 "
                    "column per level, the same levels in all parts), or take the column out"
                ) from None
    return out


def check_finite(X: SampleMatrix, name: str, names: Sequence[str] | None) -> None:
    """Raise InvalidData with row and column of the first value of a matrix that is NaN, infinite or too large.

    Too large is a value whose square is not finite. `name` is what the message calls the matrix, `names` are the names
    of its columns, None if they have none.
    """
    if are_usable(X.data if sp.issparse(X) else X):
        return
    if sp.issparse(X):
        entries = X.tocoo()
        at = int(np.argmax(~(np.abs(entries.data) <= LARGEST)))
        row, column, value = int(entries.row[at]), int(entries.col[at]), float(entries.data[at])
    else:
        wrong = ~(np.abs(X) <= LARGEST)
        row, column = (int(place) for place in np.unravel_index(np.argmax(wrong), wrong.shape))
        value = float(X[row, column])
    place = column if names is None else repr(str(names[column]))
    raise InvalidData(unusable(value, f"{name} holds", f"at row {row}, column {place}"))


def check_known(values: object, name: str) -> None:
    """Raise InvalidData if targets, labels or weights have a missing or infinite value.

    The message gives `name` and row. Only values of shape (m,) or (m, 1) are checked.
    """
    refuse_masks(values, name)
    array = np.asarray(values)
    refuse_dates(array, name)
    if array.ndim not in (1, 2) or array.dtype.kind not in "fO":
        return
    flat = array.reshape(len(array), -1)[:, 0] if array.size else array.ravel()
    if array.dtype.kind == "O":
        wrong = np.array([is_missing(value) for value in flat.tolist()], dtype=bool)
    else:
        wrong = ~np.isfinite(flat)
    if wrong.any():
        row = int(np.argmax(wrong))
        what = "NaN" if is_missing(flat[row]) else "infinity"
        raise InvalidData(f"{name} holds {what} at row {row}; impute or drop the row first")


def refuse_dates(values: object, name: str) -> None:
    """Raise InvalidData, which calls the array `name`, if it holds dates or times: their numbers depend on the unit."""
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "kind", "") in ("m", "M"):
        raise InvalidData(f"{name} holds {dtype}; numbers are needed, say days since a date that all parts share")


def check_rows(parts: Sequence[tuple[object, ...]], split: str) -> None:
    """Raise InvalidData if row names that belong together are in different orders.

    parts[k] is (X_k, y_k), or these and the weights, of node k. Compared are X_k with y_k and the weights and, if
    `split` is "features", X_k with X_0. Row names are the index of a pandas object; objects without, or with other row
    names, go by position.
    """
    for k, (X, *others) in enumerate(parts):
        for name, one in zip(("y", "sample_weight"), others, strict=False):
            refuse_permuted(X, one, f"{name} of part {k}", f"X of part {k}")
        if split == "features":
            refuse_permuted(parts[0][0], X, f"part {k}", "part 0")


def refuse_permuted(first: object, second: object, what: str, whose: str) -> None:
    """Raise InvalidData if two pandas objects have equal indexes but for the order; messages say `whose` and `what`.

    `first` and `second` are the two objects.
    """
    here, there = _row_names(first), _row_names(second)
    if here and here != there and sorted(map(repr, here)) == sorted(map(repr, there)):
        row = next(k for k, (a, b) in enumerate(zip(here, there, strict=True)) if a != b)
        raise InvalidData(
            f"{what} has the rows of {whose} in another order (row {row} is {there[row]!r}, expected {here[row]!r}); "
            "sort both by their index first, or give arrays if they belong together as they stand"
        )


def _row_names(values: object) -> list[object]:
    """Return the index of a pandas object as a list; an empty list for any other object."""
    index = getattr(values, "index", None)
    return index.tolist() if index is not None and hasattr(index, "tolist") else []


def target_name(y: object) -> str:
    """Return the attribute `name` of y, as a column of a data frame has one, if that is a text; else ""."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) else ""


def in_order(parts: Sequence[tuple[Data, Names]], targets: Sequence[str], split: str) -> list[tuple[Data, Names]]:
    """Return a list of (X_k, names of its columns), a pair per node, with columns in the order of the first node's.

    `parts` holds such pairs as the nodes have them; names are None where columns have none. If `split` is "features"
    each node has columns of its own, whose names must be distinct over the nodes. Mismatch names the nodes whose
    columns do not fit, and lists the names of both sides; `targets` are the names of the nodes' targets, "" without.
    Matrices none of which has names are returned as they are.
    """
    if not any(names for _, names in parts):
        return list(parts)
    offers = _offers([names for _, names in parts], targets, split)
    if split == "features":
        refuse(offers, "give all parts names, or none, and one target")
        _refuse_shared([names or () for _, names in parts])
        return list(parts)
    refuse(offers, "give all parts the same columns; where each part has columns of its own, say split='features'")
    return [(arranged(X, names, parts[0][1]), parts[0][1]) for X, names in parts]


def _offers(columns: Sequence[Names], targets: Sequence[str], split: str) -> dict[str, Contract]:
    """Return {"part k": Contract that the data of node k would keep by itself}.

    columns[k] are the names of the columns of node k's data, None without; targets[k] is the name of its targets, ""
    without. A target that is computed from a column keeps that column's name, which says nothing of the target; where
    one does, or has no name, no contract names its target. `split` is "samples" or "features": what a node holds.
    """
    features = {name for names in columns for name in names or ()}
    known = all(name and name not in features for name in targets)
    return {
        f"part {k}": Contract(
            target if known else "",
            tuple(Column(one) for one in (names or ()) if split == "samples"),
            header=names is not None,
        )
        for k, (target, names) in enumerate(zip(targets, columns, strict=True))
    }


def _refuse_shared(columns: Sequence[tuple[str, ...]]) -> None:
    """Raise Mismatch if a column name occurs at two nodes; columns[k] are the names of the columns of node k."""
    homes: dict[str, int] = {}
    for k, names in enumerate(columns):
        for name in names:
            if homes.setdefault(name, k) != k:
                raise Mismatch(
                    f"part {k} has the column {name!r}, and so has part {homes[name]}; split by features each column "
                    "is in one part only"
                )


def arranged(X: Data, names: Names, wanted: Names) -> Data:
    """Return X with its columns, called `names`, in the order of `wanted`, which holds the same names.

    X itself is returned if the orders agree, or either is None.
    """
    if names == wanted or names is None or wanted is None:
        return X
    places = {name: k for k, name in enumerate(names)}
    return np.asarray(X)[:, [places[name] for name in wanted]]


def check_labels(labels: Sequence[Sequence[object] | Array], advice: str) -> None:
    """Raise Mismatch if the nodes' class labels do not fit each other; labels[k] are the distinct labels of node k.

    A node may lack a class. Of more than two labels in all, each must be held by more than half of the nodes that have
    samples; the message names the nodes with other labels, and ends with the remedy `advice`.
    """
    held = {
        f"part {k}": tuple(float(one) if isinstance(one, int | float) else str(one) for one in np.asarray(own).tolist())
        for k, own in enumerate(labels)
        if len(own)
    }
    kinds = {part: isinstance(own[0], str) for part, own in held.items()}
    if len(set(kinds.values())) > 1:
        texts = next(part for part, text in kinds.items() if text)
        numbers = next(part for part, text in kinds.items() if not text)
        raise Mismatch(
            f"{texts} has texts as labels ({spoken(held[texts])}), {numbers} numbers ({spoken(held[numbers])}); "
            "code the labels alike in all parts"
        )
    refuse({part: Contract("", labels=own) for part, own in held.items()}, advice, classifies=True)


def refuse(offers: Offers, advice: str, *, classifies: bool = False) -> None:
    """Raise Mismatch if the contracts `offers`, {part of the data: Contract it would keep}, do not agree.

    The message names the odd parts and ends with the remedy `advice`; with `classifies` the class labels are compared
    too.
    """
    culprits = agree(offers, classifies=classifies, advice=advice).culprits if offers else {}
    if culprits:
        first, words = next(iter(culprits.items()))
        verb = "does" if len(culprits) == 1 else "do"
        raise Mismatch(f"{listed(list(culprits))} {verb} not fit: {first} {words}")
