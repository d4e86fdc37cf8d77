"""The data contract: what every site's table must have, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from glmesh.contract.table import DataTable
from glmesh.errors import InvalidInput, Mismatch
from glmesh.types import Tree, Vector

# of a feature: any finite number; 0 and 1 (also false and true); a text, of which a formula makes columns
KINDS = ("number", "boolean", "category")
# cells that stand for a missing value: those of pandas, R and Excel
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "#NA", "-nan", "-NaN", ".")


@dataclass(frozen=True)
class Column:
    """A feature that the tables of all sites must have: name, kind, plausible range, unit of measure.

    `low` and `high` are the least and largest plausible value, None if not said; `unit` is a text such as "mmHg".
    `levels` and `reference` are for formulas.
    """

    name: str
    kind: str = "number"  # one of KINDS
    low: float | None = None  # least plausible value; None: not said
    high: float | None = None  # largest plausible value; None: not said
    unit: str = ""  # for people: "mmHg"
    levels: tuple[str | float, ...] = ()  # of a category, in the order of a formula's columns; empty: not said
    reference: str | float | None = None  # level with which a formula compares the others; None: the first

    def __post_init__(self) -> None:
        """Raise InvalidInput if the kind is unknown, or `low` is above `high`."""
        if self.kind not in KINDS:
            raise InvalidInput(f"column {self.name!r}: kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if twice := doubled([str(one) for one in self.levels]):
            raise InvalidInput(f"column {self.name!r}: has the level {twice[0]!r} twice; levels must be distinct")
        if self.reference is not None and self.levels and self.reference not in self.levels:
            raise InvalidInput(f"column {self.name!r}: the reference {self.reference!r} is none of its levels")
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise InvalidInput(f"column {self.name!r}: low must be <= high, got {self.low:g} and {self.high:g}")


@dataclass(frozen=True)
class Contract:
    """What the tables of all sites must have alike: target, features, class labels, split, row names.

    `columns` are the features by name and kind. `split` is "samples" if a site holds rows and "features" if it holds
    columns; in the second case `columns` is empty, and each site has features of its own. An empty text or tuple stands
    for what the tables do not have.
    """

    target: str  # name of the column with the labels; empty: columns have no names
    columns: tuple[Column, ...] = ()  # features, in the order of the coefficients
    labels: tuple[str | float, ...] = ()  # of a classification, ascending; empty: not said, or a regression
    split: str = "samples"  # what a site holds: "samples" (rows), or "features" (columns)
    ids: str = ""  # name of the column with the names of the rows; empty: none
    weight: str = ""  # name of the column with the sample weights; empty: none
    missing: tuple[str, ...] = MISSING  # cells that stand for a missing value
    header: bool = True  # columns go by name; False: by position, since no site's file names them
    index_base: int | None = None  # of svmlight files: index of column 0, 0 or 1; None: not said, or other files

    def __post_init__(self) -> None:
        """Raise InvalidInput for an unknown split, two features of one name, or an index_base not in (0, 1, None)."""
        if self.split not in ("samples", "features"):
            raise InvalidInput(f"split must be 'samples' or 'features', got {self.split!r}")
        twice = doubled(self.names)
        if twice:
            raise InvalidInput(f"the contract names the column {twice[0]!r} twice; names must be distinct")
        special = [name for name in (self.target, self.ids, self.weight) if name and name in self.names]
        if special:
            raise InvalidInput(f"the contract has {special[0]!r} as a feature and as target, ids or weight")
        if self.index_base not in (None, 0, 1):
            raise InvalidInput(f"index_base must be 0 or 1, got {self.index_base!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the features, in the order of the coefficients."""
        return tuple(column.name for column in self.columns)

    @staticmethod
    def like(
        table: DataTable, *, split: str = "samples", classifies: bool, ids: str = "", weight: str = ""
    ) -> Contract:
        """Return the contract that a table keeps: names and kinds of its columns, class labels if `classifies`.

        `split` is "samples" if a site holds rows and "features" if it holds columns; `ids` and `weight` are the names
        of the columns with row names and sample weights, "" for none. No value of a feature goes into the contract.
        Features of a sparse table have the kind "number", whatever they hold. Mismatch is raised if two columns have
        one name.
        """
        named = (table.target, ids, weight)
        if twice := doubled((*(table.names or ()), *(name for name in named if name and table.names is not None))):
            raise Mismatch(f"{table.where}: has the column {twice[0]!r} twice; keep one of them")
        dense = isinstance(table.X, np.ndarray)
        columns = () if split == "features" else enumerate(table.columns)
        return Contract(
            table.target or "",
            tuple(Column(name, kind_of(table.column(k)) if dense else "number") for k, name in columns),
            table.labels if classifies else (),
            split,
            ids,
            weight,
            header=table.names is not None,
            index_base=table.index_base,
        )

    def with_labels(self, labels: tuple[str | float, ...]) -> Contract:
        """Return a copy of this contract whose class labels are `labels`, in ascending order: numbers or texts."""
        return replace(self, labels=labels)

    def to_dict(self) -> Tree:
        """Return the contract as a dict of field names to plain data, for a TOML or JSON file.

        Fields that are None are left out.
        """
        tree = asdict(self)
        tree["columns"] = [
            {
                key: list(value) if key == "levels" else value
                for key, value in one.items()
                if value not in (None, "", ())
            }
            for one in tree["columns"]
        ]
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in tree.items()}
        return {key: value for key, value in plain.items() if value is not None}

    @staticmethod
    def of(tree: Mapping[str, Any], where: str = "the contract") -> Contract:
        """Return the Contract that a dict of plain data describes, as `to_dict` returns it or a TOML file holds it.

        InvalidInput says which entry is wrong; its message begins with the text `where`.
        """
        try:
            columns = tuple(
                Column(**{**one, "levels": tuple(_label(level) for level in one.get("levels", ()))})
                for one in tree.get("columns", ())
            )
            fields: Tree = {key: tuple(v) if isinstance(v, list) else v for key, v in tree.items() if key != "columns"}
            fields["labels"] = tuple(_label(one) for one in fields.get("labels", ()))
            return Contract(columns=columns, **fields)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{where}: {str(error).split('__init__() ')[-1]}") from None


def doubled(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, each of them once, in the order of their first occurrence."""
    return [name for name, times in Counter(names).items() if times > 1]


def kind_of(values: Vector) -> str:
    """Return "boolean" if both 0 and 1 and nothing else occur among the values of a feature, shape (m,), else "number".

    NaN stands for a missing value and does not count.
    """
    zeros, ones = values == 0, values == 1
    both = zeros.any() and ones.any() and (zeros | ones | np.isnan(values)).all()
    return "boolean" if both else "number"


def _label(value: object) -> str | float:
    """Return a class label as a Contract holds it, a text or a float; InvalidInput for values of other types."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"labels must be numbers or texts, got {value!r}")
    return float(value)
