"""A formula as text becomes response and terms, by the parser of formulaic, which is an extra."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from glmesh.errors import InvalidInput
from glmesh.formulas.coding import Term
from glmesh.formulas.expressions import LONGEST, Factor, parsed, quoted

_MANY = 500  # [terms] that a formula has at most
_LARGEST_POWER = 6  # of terms, as in (a + b + c) ** 2
_CALL = re.compile(r"[\w.]+\([^()]*\)")
_POWER = re.compile(r"(?:\*\*|\^)\s*(\d+)")


@dataclass(frozen=True)
class Formula:
    """A formula: its text, the left side, and the terms of the right side in the order in which they were written."""

    text: str
    response: str  # code of the left side; "" if there is none
    terms: tuple[Term, ...]  # codes of factors; () is the intercept

    @staticmethod
    def parse(text: str) -> Formula:
        """Return the formula that a text such as "y ~ age + C(sex)" says.

        Parameters
        ----------
        text : str
            Response, a tilde, and terms; operators are those of R, patsy and formulaic.

        Returns
        -------
        Formula
            Checked: every factor is one of those that are allowed.

        Raises
        ------
        InvalidInput
            formulaic is not installed, the text is no formula, or a factor is not allowed; the message says what would
            do.

        Examples
        --------
        >>> from glmesh.formulas import Formula
        >>> Formula.parse("ill ~ age * C(sex)").terms
        ((), ('age',), ('C(sex)',), ('age', 'C(sex)'))
        """
        if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
            raise InvalidInput(f"a formula is a text of at most {LONGEST} characters, such as 'y ~ age + C(sex)'")
        if any(power > _LARGEST_POWER for power in _powers(text)):
            raise InvalidInput(f"the formula {text!r:.80} has a power of terms above {_LARGEST_POWER}; write the terms")
        sides = _parse(text)
        if not set(sides) <= {"lhs", "rhs"} or "rhs" not in sides:
            raise InvalidInput(f"the formula {text!r:.80} needs a response, one ~ and terms: 'y ~ age + C(sex)'")
        response = _response(text, [_codes(term) for term in sides.get("lhs", ())])
        terms = tuple(dict.fromkeys(_codes(term) for term in sides["rhs"]))
        if _powers(text):  # formulaic has a:b before b; patsy, whose order users know, has it behind
            terms = tuple(sorted(terms, key=len))
        if len(terms) > _MANY:
            raise InvalidInput(f"the formula has {len(terms):,} terms, and may have {_MANY}")
        made = Formula(text.strip(), response, terms)
        _refuse_unusable(made, text)
        return made

    @cached_property
    def factors(self) -> dict[str, Factor]:
        """Return {code: factor} of the right side."""
        return {code: Factor.parse(code) for term in self.terms for code in term}

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of the columns on the right side, in the order of their first mention."""
        return tuple(dict.fromkeys(name for one in self.factors.values() for name in one.variables))

    @property
    def candidates(self) -> tuple[str, ...]:
        """Return the names of the columns that may be categories: those in C(...), and those that stand alone."""
        found = [one.variables[0] for one in self.factors.values() if one.role == "bare" or one.code.startswith("C(")]
        return tuple(dict.fromkeys(found))

    @property
    def categories(self) -> tuple[str, ...]:
        """Return the names of the columns in C(...), which are categories whatever they hold."""
        return tuple(dict.fromkeys(one.variables[0] for one in self.factors.values() if one.code.startswith("C(")))

    @property
    def targets(self) -> tuple[str, ...]:
        """Return the names of the columns on the left side: one, or time and event in Surv(time, event)."""
        pair = self.survival
        return pair or Factor.parse(self.response).variables

    @property
    def survival(self) -> tuple[str, ...]:
        """Return (time, event) if the left side is Surv(time, event), else ()."""
        return _survival(self.response)

    @property
    def target(self) -> str:
        """Return the name of the one column on the left side that is taken as it is; "" if there is a function."""
        return quoted(parsed(self.response))

    @property
    def has_intercept(self) -> bool:
        """Return whether the formula has an intercept."""
        return () in self.terms


def _response(text: str, left: Sequence[Sequence[str]]) -> str:
    """Return the factor left of the tilde, from the factors of the terms there; raise InvalidInput if it is not one."""
    if len(left) != 1 or len(left[0]) != 1:
        raise InvalidInput(
            f"the formula {text!r:.80} must have one response; of successes out of trials write "
            "I(successes / trials), and the trials as sample weights"
        )
    return left[0][0]


def _refuse_unusable(made: Formula, text: str) -> None:
    """Raise InvalidInput if no term names a column, the response is standardised, or a column is on both sides.

    `text` is the formula as messages have it.
    """
    if not any(made.terms):
        raise InvalidInput(f"the formula {text!r:.80} has no term beside the intercept; name a column")
    if not made.survival and Factor.parse(made.response).standardised:
        raise InvalidInput(
            f"the response {made.response!r:.80} is standardised; take numbers that all agree on: I((y - 50) / 10)"
        )
    if both := set(made.variables) & set(made.targets):
        raise InvalidInput(f"the formula {text!r:.80} has {min(both)!r} on both sides")


def _powers(text: str) -> list[int]:
    """Return the exponents of powers of terms in a formula, not those inside of functions."""
    left, before = text, ""
    while left != before:
        before, left = left, _CALL.sub("x", left)
    return [int(one[:9]) for one in _POWER.findall(left)]


def _survival(code: str) -> tuple[str, ...]:
    """Return the two columns of Surv(time, event); () for another text."""
    node = parsed(code)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Surv"):
        return ()
    names = tuple(quoted(one) for one in node.args)
    if len(names) != 2 or not all(names) or node.keywords or names[0] == names[1]:
        raise InvalidInput(f"the formula has {code!r}; write Surv(time, event), the names of two columns")
    return names


def _parse(text: str) -> dict[str, Any]:
    """Return {"lhs": terms, "rhs": terms} of a formula, in formulaic's types; raise InvalidInput if it is none."""
    if find_spec("formulaic") is None:
        raise InvalidInput("a formula needs formulaic and pandas: pip install 'glmesh[formulas]'")
    from formulaic.parser import DefaultFormulaParser

    try:
        found = DefaultFormulaParser(feature_flags={"twosided"}).get_terms(text)
        sides = dict(found._to_dict())
        return {name: list(terms) for name, terms in sides.items()}
    except Exception as error:  # formulaic raises what Python's own parser does, too
        said = str(error).partition("\n")[0]
        raise InvalidInput(f"the formula {text!r:.80} cannot be read: {said:.200}") from None


def _codes(term: Any) -> Term:
    """Return the codes of the factors of a term of formulaic's; () for the intercept."""
    factors = [(str(one.expr), one.eval_method.value) for one in term.factors]
    if factors == [("1", "literal")]:
        return ()
    for code, kind in factors:
        if kind == "literal":
            raise InvalidInput(f"the formula has the number {code!r} as a factor; there are 1 and 0 for the intercept")
    return tuple(dict.fromkeys(_code(code, kind) for code, kind in factors))


def _code(code: str, kind: str) -> str:
    """Return a factor's code as `Factor` has it; a column that was named in backquotes becomes Q('name')."""
    if kind == "lookup" and not code.isidentifier():
        return Factor.parse(f"Q({code!r})").code
    return Factor.parse(code).code if not code.startswith("Surv(") else code
