"""What all sites agree on before they train by a formula, and the columns that it makes of any table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from glmesh.contract.contract import doubled
from glmesh.contract.fitting import listed
from glmesh.errors import InvalidInput, Mismatch
from glmesh.formulas.coding import Coding, Term, codings, ordered
from glmesh.formulas.expressions import Factor
from glmesh.formulas.frames import Frame, plain
from glmesh.formulas.moments import Moments
from glmesh.types import Indices, Matrix, Tree
from glmesh.validation import LARGEST

INTERCEPT = "Intercept"
NUMBER, CATEGORY = "number", "category"
_TRUTH = {"False": 0.0, "True": 1.0}


@dataclass(frozen=True)
class Variable:
    """A column that a formula names: its kind and, where it is used as a category, its levels in order."""

    name: str
    kind: str = NUMBER  # or CATEGORY
    levels: tuple[str | float, ...] = ()  # in the order of the columns; empty: it is used as a number only
    reference: str | float | None = None  # level with which the others are compared; None: the first
    merged: tuple[str | float, ...] = ()  # levels whose rows count as the last level, since they were rare
    left_out: tuple[str | float, ...] = ()  # levels whose rows are left out, since they were rare

    def __post_init__(self) -> None:
        """Raise InvalidInput for an unknown kind, levels that are there twice, or a reference that is none of them."""
        if self.kind not in (NUMBER, CATEGORY):
            raise InvalidInput(f"variable {self.name!r}: kind must be 'number' or 'category', got {self.kind!r}")
        if twice := doubled([plain(one) for one in (*self.levels, *self.merged, *self.left_out)]):
            raise InvalidInput(f"variable {self.name!r} has the level {twice[0]!r} twice; levels must be distinct")
        if self.reference is not None and self.reference not in self.levels:
            raise InvalidInput(
                f"variable {self.name!r}: the reference {plain(self.reference)!r} is none of its levels, "
                f"{listed([plain(one) for one in self.levels])}"
            )

    @staticmethod
    def of(tree: Mapping[str, Any]) -> Variable:
        """Return the variable that a dict of plain data describes; TypeError is raised for keys that it has not."""
        fields: Tree = {key: tuple(value) if isinstance(value, list) else value for key, value in tree.items()}
        return Variable(**fields)

    def level(self, value: str | float | None) -> str | float | None:
        """Return the level that a value of a table stands for; None if it is missing or unknown."""
        if isinstance(value, float) and any(isinstance(one, str) for one in self.levels):
            value = {0.0: "False", 1.0: "True"}.get(value, plain(value)) if self._is_truth else plain(value)
        if value in self.merged:
            return self.levels[-1]
        return value if value in self.levels else None

    @property
    def _is_truth(self) -> bool:
        """Return whether the levels are "False" and "True", for which tables may have 0 and 1."""
        return set(self.levels) <= _TRUTH.keys()


@dataclass(frozen=True)
class _Block:
    """Columns of one factor: names as they stand in a column's name, and how they are computed from a table."""

    factor: Factor
    labels: tuple[str, ...]
    contrasts: Matrix | None = None  # (levels, columns) of a category; None: the factor is a number or a spline


@dataclass(frozen=True)
class Design:
    """Design of a formula: response, terms, and the variables with their levels; it applies to the table of any site.

    Two designs that are equal make columns of the same names and numbers, whatever levels a table lacks.
    """

    formula: str  # as it was written
    response: str  # code of the left side; "" without
    terms: tuple[Term, ...]  # codes of factors; () is the intercept
    variables: tuple[Variable, ...]  # of the right side
    moments: tuple[Moments, ...] = ()  # of all rows, of what center and standardize are about; empty: not known yet

    @staticmethod
    def of(tree: Mapping[str, Any], where: str = "the design") -> Design:
        """Return the Design that a dict of plain data describes, as `to_dict` returns it.

        InvalidInput says what is wrong with any other dict; its message begins with `where`.
        """
        try:
            variables = tuple(Variable.of(one) for one in tree["variables"])
            terms = tuple(tuple(str(factor) for factor in term) for term in tree["terms"])
            moments = tuple(Moments.of(one) for one in tree.get("moments", ()))
            made = Design(str(tree["formula"]), str(tree["response"]), terms, variables, moments)
            wanted = [str(one) for one in tree["columns"]]
        except InvalidInput:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidInput(f"{where}: not a design of a formula ({error!r:.200})") from None
        if list(made.names) != wanted:
            raise InvalidInput(f"{where}: its columns are not those of its terms; write it again")
        if [one.expression for one in made.moments] != list(made.standardised):
            raise InvalidInput(f"{where}: its moments are not those that its terms need; write it again")
        made.check_moments()
        return made

    def to_dict(self) -> Tree:
        """Return the design as plain data, with the names of its columns; entries that are empty are left out."""
        variables = [
            {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(one).items() if v not in ((), None)}
            for one in self.variables
        ]
        tree: Tree = {
            "formula": self.formula,
            "response": self.response,
            "terms": [list(term) for term in self.terms],
            "variables": variables,
            "columns": list(self.names),
        }
        return tree | ({"moments": [asdict(one) for one in self.moments]} if self.moments else {})

    @property
    def has_intercept(self) -> bool:
        """Return whether the terms have an intercept, which is no column of the matrix."""
        return () in self.terms

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, without the intercept."""
        return tuple(name for name, _ in self._columns if name != INTERCEPT)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Return the names of the columns that a table must have, without the response."""
        return tuple(one.name for one in self.variables)

    def variable(self, name: str) -> Variable:
        """Return the variable of this name."""
        return next(one for one in self.variables if one.name == name)

    @cached_property
    def standardised(self) -> dict[str, Factor]:
        """Return {expression: factor} of what stands in center(...) and standardize(...), whose moments are needed."""
        found = [one.expression for factor in self._factors.values() for one in factor.standardised]
        return {expression: Factor.parse(expression) for expression in found}

    def with_moments(self, moments: Sequence[Moments]) -> Design:
        """Return the design with these moments, in the order of `standardised`.

        Raise InvalidInput if a deviation that it divides by is zero.
        """
        made = replace(self, moments=tuple(moments))
        made.check_moments()
        return made

    def check_moments(self) -> None:
        """Raise InvalidInput if an expression that is divided by its standard deviation has the same value in all rows.

        Nothing is checked before moments are known.
        """
        known = self._moments
        for factor in self._factors.values():
            for one in factor.standardised:
                if one.rescales and one.expression in known:
                    known[one.expression].deviation(one.ddof)

    @property
    def _moments(self) -> dict[str, Moments]:
        """Return {expression: moments}: mean and deviation, over all rows, of each expression that is standardised."""
        return {one.expression: one for one in self.moments}

    def remarks(self) -> list[str]:
        """Return sentences for people on levels that were merged or left out."""
        said = []
        for one in self.variables:
            if one.merged:
                said.append(
                    f"{one.name}: the levels {_spoken(one.merged)} have few rows over all sites; they are merged into "
                    f"{plain(one.levels[-1])!r}"
                )
            if one.left_out:
                said.append(f"{one.name}: rows with the levels {_spoken(one.left_out)}, which are few, are left out")
        return said

    def known(self, frame: Frame) -> dict[str, list[str | float | None]]:
        """Return {variable: level of each row} of the categories; None where a level is missing or unknown."""
        found = {}
        for one in self.variables:
            if one.levels:
                distinct = {value: one.level(value) for value in set(frame.values(one.name))}
                found[one.name] = [distinct[value] for value in frame.values(one.name)]
        return found

    def matrix(self, frame: Frame) -> Matrix:
        """Return the columns, shape (m, p), of a table without missing values in the variables.

        Raise Mismatch for a column that is not there, a level that the design does not know (for the table's own user
        with its place), and values that are not finite.
        """
        frame.require(self.wanted)
        for name in self.wanted:
            whole = frame.complete((name,))
            if not whole.all():
                raise Mismatch(
                    f"{frame.where}: column {name} has a missing value; fill it in, or take the row out",
                    private=frame.place(int(np.argmin(whole))),
                )
        computed: dict[str, Matrix] = {}
        codes: dict[str, Indices] = {}
        out = np.empty((frame.m, len(self.names)))
        at = 0
        for blocks in self._parts:
            if not blocks:
                continue  # the intercept
            columns = np.ones((frame.m, 1))
            for block in blocks:
                code = block.factor.code
                if block.contrasts is None:
                    if code not in computed:
                        computed[code] = block.factor.columns(frame, self._moments)
                    values = computed[code]
                else:
                    if code not in codes:
                        codes[code] = self._codes(block.factor, frame)
                    values = block.contrasts[codes[code]]
                columns = (columns[:, None, :] * values[:, :, None]).reshape(frame.m, -1)
            out[:, at : at + columns.shape[1]] = columns
            at += columns.shape[1]
        wrong = ~(np.abs(out) <= LARGEST)
        if wrong.any():
            row, k = (int(place) for place in np.unravel_index(np.argmax(wrong), wrong.shape))
            raise Mismatch(
                f"{frame.where}: {self.names[k]} has a value that is not finite or whose square is not",
                private=f"{frame.place(row)} has {out[row, k]:g}",
            )
        return out

    # --- columns

    @cached_property
    def _factors(self) -> dict[str, Factor]:
        """Return {code: factor} of all terms; raise InvalidInput for a factor that is not allowed."""
        return {code: Factor.parse(code) for term in self.terms for code in term}

    def _levels(self, factor: Factor) -> tuple[str | float, ...]:
        """Return the levels of a factor in order; empty if it is a number."""
        if factor.role in ("number", "spline"):
            return ()
        if factor.levels and factor.role == "category" and not self._is_column(factor):
            return factor.levels
        variable = self.variable(factor.variables[0])
        if factor.role == "bare" and variable.kind == NUMBER:
            return ()
        if not variable.levels:
            raise InvalidInput(f"the levels of {variable.name!r} are not known")
        if not factor.levels:
            return variable.levels
        other = set(map(plain, variable.levels)) ^ set(map(plain, factor.levels))
        if other:
            raise InvalidInput(
                f"the formula has {factor.code!r}, and the data have the levels {_spoken(variable.levels)}; name all "
                "of them, and no others"
            )
        order = [plain(one) for one in factor.levels]
        return tuple(sorted(variable.levels, key=lambda one: order.index(plain(one))))

    @staticmethod
    def _is_column(factor: Factor) -> bool:
        """Return whether a category is a column of the table, not a comparison of numbers."""
        return factor.code.startswith("C(")

    @cached_property
    def _parts(self) -> list[tuple[_Block, ...]]:
        """Return the blocks of factors that are multiplied, per part of a term, in the order of the columns.

        The intercept is a part without blocks.
        """
        numeric = {code for code, factor in self._factors.items() if not self._levels(factor)}
        parts = []
        for group in ordered(self.terms, numeric):
            for term, found in zip(group, codings(group, numeric), strict=True):
                for coding in found:
                    used = [code for code in term if code in numeric or code in coding]
                    parts.append(tuple(self._block(self._factors[code], coding) for code in used))
        return parts

    @cached_property
    def _columns(self) -> list[tuple[str, int]]:
        """Return (name, number of the part) of each column, the intercept too; raise InvalidInput if two agree."""
        out = []
        for k, blocks in enumerate(self._parts):
            names = [block.labels for block in reversed(blocks)]  # the first factor's levels run fastest
            for labels in product(*names):
                out.append((":".join(reversed(labels)) or INTERCEPT, k))
        if twice := doubled([name for name, _ in out]):
            raise InvalidInput(f"the formula makes two columns {twice[0]!r}; leave one of the terms out")
        return out

    def _block(self, factor: Factor, coding: Coding) -> _Block:
        """Return the columns of a factor with a coding, {code of a category: whether all levels have a column}."""
        levels = self._levels(factor)
        if factor.spline is not None:
            return _Block(factor, tuple(f"{factor.code}[{k}]" for k in range(factor.spline.n_columns)))
        if not levels:
            return _Block(factor, (factor.code,))
        return _Block(factor, *self._contrasts(factor, levels, whole=coding[factor.code]))

    def _contrasts(
        self, factor: Factor, levels: tuple[str | float, ...], *, whole: bool
    ) -> tuple[tuple[str, ...], Matrix]:
        """Return (labels, contrasts of shape (levels, columns)) of a category; `whole`: they span all levels."""
        names, n = [plain(one) for one in levels], len(levels)
        if factor.contrast.kind == "sum":
            contrasts = np.vstack([np.eye(n - 1), -np.ones((1, n - 1))])
            labels = [f"[S.{name}]" for name in names[:-1]]
            if whole:
                contrasts, labels = np.column_stack([np.ones(n), contrasts]), ["[mean]", *labels]
        elif whole:
            contrasts, labels = np.eye(n), [f"[{name}]" for name in names]
        else:
            at = names.index(self._reference(factor, names))
            kept = [k for k in range(n) if k != at]
            contrasts, labels = np.eye(n)[:, kept], [f"[T.{names[k]}]" for k in kept]
        return tuple(factor.code + label for label in labels), contrasts

    def _reference(self, factor: Factor, names: list[str]) -> str:
        """Return the name of the level with which the others of a category are compared."""
        said = factor.contrast.reference
        if said is None and self._is_known(factor):
            said = self.variable(factor.variables[0]).reference
        if said is not None and plain(said) not in names:
            raise InvalidInput(
                f"the formula has {factor.code!r}, and the reference is none of the levels, {listed(names)}; rare "
                "levels are merged or left out"
            )
        return names[0] if said is None else plain(said)

    def _is_known(self, factor: Factor) -> bool:
        """Return whether a category is a variable of the design with levels."""
        return factor.role == "bare" or self._is_column(factor)

    # --- values

    def _codes(self, factor: Factor, frame: Frame) -> Indices:
        """Return the number of each row's level among the levels of a category, shape (m,)."""
        levels = {plain(one): k for k, one in enumerate(self._levels(factor))}
        if not self._is_known(factor):
            return np.array(
                [levels[plain(one)] for one in factor.values(frame, self._moments) if one is not None], dtype=np.int64
            )
        variable = self.variable(factor.variables[0])
        given = frame.values(variable.name)
        found = {value: variable.level(value) for value in set(given)}
        if None in found.values():
            row = next(k for k, value in enumerate(given) if found[value] is None)
            raise self._unknown(variable, frame, row, plain(given[row] or 0.0))
        numbers = {value: levels[plain(level)] for value, level in found.items() if level is not None}
        return np.array([numbers[value] for value in given if value is not None], dtype=np.int64)

    def _unknown(self, variable: Variable, frame: Frame, row: int, value: str) -> Mismatch:
        """Return (not raise) the error for a row whose level the design does not know."""
        rare = value in map(plain, variable.left_out)
        return Mismatch(
            f"{frame.where}: column {variable.name} has a level that "
            f"{'was left out of the model, since few rows have it' if rare else 'the model does not know'}; it knows "
            f"{_spoken(variable.levels)}. Correct the text, or take the row out",
            private=f"{frame.place(row)} holds {value!r:.60}",
        )


def _spoken(levels: Sequence[str | float]) -> str:
    """Return levels joined by commas, the first of them where there are many."""
    return listed([plain(one) for one in levels])
