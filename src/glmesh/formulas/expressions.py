"""One factor of a term, such as `age`, `log(age)`, `C(sex)` or `bs(age, knots=[40], ...)`: parsed, checked, computed.

The text of a factor is parsed into a tree, and every node of the tree must be in the list of what is allowed; nothing
is executed. `center` and `standardize` take the moments of all sites' rows, which are agreed on before columns are
made; what else would have to be computed from all rows, as a quantile, is refused with what would do.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidInput, Mismatch
from glmesh.formulas.frames import Frame, plain
from glmesh.formulas.moments import Moments
from glmesh.formulas.splines import Spline
from glmesh.types import Matrix, Vector
from glmesh.validation import LARGEST

LONGEST = 4000  # [characters] of a formula or a factor
NO_MOMENTS: Mapping[str, Moments] = {}
FUNCTIONS: dict[str, Callable[[Vector], Vector]] = {
    name: getattr(np, name) for name in ("log", "log10", "log2", "log1p", "exp", "expm1", "sqrt", "abs", "floor")
}
_OPERATORS: dict[type[ast.operator], Callable[[Vector, Vector], Vector]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Vector, Vector], Vector]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
CENTER, STANDARDIZE = "center", "standardize"
_ARGUMENTS = {CENTER: ("",), STANDARDIZE: ("", "center", "rescale", "ddof")}  # in their order, as patsy has them
STATEFUL = {  # function: why it is refused, and what would do
    "demean": "write center(x)",
    "scale": "write standardize(x), which divides by the root of the mean square as patsy's scale does, or "
    "standardize(x, ddof=1), which is R's",
    "poly": "it needs all sites' rows; write the powers: x + I(x ** 2), or a spline with given knots",
    "te": "it needs all sites' rows; write bs(...) with given knots",
    "cc": "it needs all sites' rows; write bs(...) with given knots",
    "lag": "the order of rows means nothing across sites; make the column in the files",
    "hashed": "its columns have no names; write C(x)",
    "strata": "say strata='x' to CoxRegressor.from_formula; between sites each site is a stratum",
    "Surv": "it stands on the left of ~, in a formula of Cox's model",
    "offset": "say offset='x' beside the formula",
}


@dataclass(frozen=True)
class Contrast:
    """How levels become columns: "treatment" compares with a reference level, "sum" with the mean of all levels."""

    kind: str = "treatment"
    reference: str | float | None = None  # of "treatment"; None: that of the variable


@dataclass(frozen=True)
class Standardising:
    """What center(x) or standardize(x, center=True, rescale=True, ddof=0) says of an expression x."""

    node: ast.expr  # x
    centers: bool
    rescales: bool
    ddof: int  # standard deviations are the root of the sum of squares divided by n - ddof

    @property
    def expression(self) -> str:
        """Return the text of x, by which its `Moments` are found."""
        return ast.unparse(self.node)

    def apply(self, values: Vector, moments: Mapping[str, Moments]) -> Vector:
        """Return the values of x, shape (m,), shifted and divided; raise InvalidInput without its moments."""
        found = moments.get(self.expression)
        if found is None:
            raise InvalidInput(f"mean and standard deviation of {self.expression} are not known")
        shifted = values - found.mean if self.centers else values
        return shifted / found.deviation(self.ddof) if self.rescales else shifted


@dataclass(frozen=True)
class Factor:
    """A factor of a term: its text as in the names of columns, the variables that it reads, and what it is.

    `role` is "bare" for the name of a variable, which is a category if the variable holds text; "category" for C(...)
    and for comparisons; "number" or "spline".
    """

    code: str
    variables: tuple[str, ...]
    role: str
    node: ast.expr  # checked: what is computed
    contrast: Contrast = Contrast()
    levels: tuple[str | float, ...] = ()  # that C(..., levels=[...]) or a comparison says; empty: those of all sites
    spline: Spline | None = None

    @staticmethod
    def parse(text: str) -> Factor:
        """Return the factor that a text such as "C(sex)" says; raise InvalidInput for what is not allowed."""
        node = parsed(text)
        code = ast.unparse(node)
        name = quoted(node)
        if name:
            return Factor(code, (name,), "bare", node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "C":
                return _category(code, node)
            if node.func.id in ("bs", "cr"):
                return _spline(code, node)
        inner = _inside(node)
        variables = tuple(dict.fromkeys(_checked(inner, code)))
        if not variables:
            raise InvalidInput(f"the formula has {code!r}, which names no column; write a name, or a function of one")
        if isinstance(inner, ast.Compare):
            return Factor(code, variables, "category", inner, levels=("False", "True"))
        return Factor(code, variables, "number", inner)

    @property
    def standardised(self) -> list[Standardising]:
        """Return what the factor's calls of center and standardize say, in their order."""
        if self.role == "bare" or (self.role == "category" and not isinstance(self.node, ast.Compare)):
            return []
        calls = [_standardising(one, self.code) for one in ast.walk(self.node)]
        return [one for one in calls if one is not None]

    def check(self, frame: Frame) -> None:
        """Raise Mismatch as `columns` does, but without moments: of what is standardised only what is inside counts."""
        for one in self.standardised:
            Factor.parse(one.expression).numbers(frame)
        if not self.standardised:
            self.columns(frame)

    def numbers(self, frame: Frame, moments: Mapping[str, Moments] = NO_MOMENTS) -> Vector:
        """Return the factor's values, shape (m,); raise Mismatch if one is not finite though its variables are.

        `moments` are those of all rows, by expression.
        """
        with np.errstate(all="ignore"):
            values = np.broadcast_to(np.asarray(_value(self.node, frame, moments), dtype=np.float64), (frame.m,))
        wrong = ~np.isfinite(values)
        if wrong.any():
            row, n = int(np.argmax(wrong)), int(wrong.sum())
            held = ", ".join(f"{name} = {plain(float(frame.numbers(name)[row]))}" for name in self.variables)
            raise Mismatch(
                f"{frame.where}: {self.code} is no finite number in {n:,} row{'s' if n > 1 else ''}; "
                "mend or leave out these rows, or write another function",
                private=f"the first is {frame.place(row)}, {held}",
            )
        return values

    def columns(self, frame: Frame, moments: Mapping[str, Moments] = NO_MOMENTS) -> Matrix:
        """Return the columns of a number, shape (m, 1), or of a spline; raise Mismatch for a value outside its ends."""
        values = self.numbers(frame, moments)
        if self.spline is None:
            return values[:, None]
        wrong = ~self.spline.holds(values)
        if wrong.any():
            raise Mismatch(
                f"{frame.where}: {self.code} is defined from {self.spline.low:g} to {self.spline.high:g} only, "
                "and a row is outside; give wider bounds, or write cr, which goes on as a line",
                private=f"{frame.place(int(np.argmax(wrong)))} has {values[np.argmax(wrong)]:g}",
            )
        return self.spline.basis(values)

    def values(self, frame: Frame, moments: Mapping[str, Moments] = NO_MOMENTS) -> list[str | float | None]:
        """Return the level of each row of a category: texts or numbers, None where it is missing."""
        if isinstance(self.node, ast.Compare):
            return [str(bool(one)) for one in np.asarray(_value(self.node, frame, moments))]
        return frame.values(self.variables[0])


def parsed(text: str) -> ast.expr:
    """Return the tree of an expression; raise InvalidInput for a text that is none, or too long."""
    if len(text) > LONGEST:
        raise InvalidInput(f"a formula has at most {LONGEST} characters, got {len(text):,}")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidInput(f"the formula has {text!r:.80}, which cannot be read; see docs/estimators.md") from None


def quoted(node: ast.expr) -> str:
    """Return the name of the column that a node stands for, `age` or Q("age at entry"); "" if it is another."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q" and not node.keywords:
        name = node.args[0].value if len(node.args) == 1 and isinstance(node.args[0], ast.Constant) else None
        if isinstance(name, str) and name:
            return name
    return ""


def _inside(node: ast.expr) -> ast.expr:
    """Return what stands in I(...), or the node itself."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "I":
        return node
    return node.args[0] if len(node.args) == 1 and not node.keywords else node


def _checked(node: ast.expr, code: str) -> Iterator[str]:
    """Yield the names of the variables in an arithmetic expression; raise InvalidInput for what is not allowed."""
    if name := quoted(node):
        yield name
    elif isinstance(node, ast.Constant):
        _number(node, code)
    elif isinstance(node, ast.Call):
        yield from _checked(_argument(node, code), code)
    else:
        for one in _operands(node, code):
            yield from _checked(one, code)


def _operands(node: ast.expr, code: str) -> tuple[ast.expr, ...]:
    """Return what an operator stands between, or before; raise InvalidInput for one that is not allowed."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return (node.operand,)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return node.left, node.right
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        return node.left, node.comparators[0]
    raise _refused(ast.unparse(node), code)


def _argument(node: ast.Call, code: str) -> ast.expr:
    """Return the expression inside of a call of center, standardize or a function; raise InvalidInput for others."""
    if (call := _standardising(node, code)) is not None:
        if any(_standardising(one, code) for one in ast.walk(call.node)):
            raise InvalidInput(f"the formula has {code!r:.80}: inside of center and standardize there can be no other")
        return call.node
    if _function(node, code) and len(node.args) == 1 and not node.keywords:
        return node.args[0]
    raise _refused(ast.unparse(node), code)


def _standardising(node: ast.AST, code: str) -> Standardising | None:
    """Return what a call of center or standardize says; None for another node; InvalidInput for other arguments."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _ARGUMENTS:
        return None
    given = _arguments(code, node, _ARGUMENTS[node.func.id])
    if "" not in given:
        raise InvalidInput(f"the formula has {code!r:.80}: {node.func.id} needs an expression, {node.func.id}(x)")
    rescales = _truth(given.get("rescale"), code, node.func.id == STANDARDIZE)
    ddof = _number(given["ddof"], code) if "ddof" in given else 0.0
    if ddof not in (0.0, 1.0):
        raise InvalidInput(f"the formula has {code!r:.80}: ddof must be 0 or 1, got {ddof:g}")
    return Standardising(_inside(given[""]), _truth(given.get("center"), code, True), rescales, int(ddof))


def _truth(node: ast.expr | None, code: str, usual: bool) -> bool:
    """Return True or False as an argument says it, `usual` if it is not given; raise InvalidInput for another node."""
    if node is None:
        return usual
    if not isinstance(node, ast.Constant) or not isinstance(node.value, bool):
        raise InvalidInput(f"the formula has {code!r:.80}: expected True or False, got {ast.unparse(node)!r:.60}")
    return node.value


def _function(node: ast.Call, code: str) -> str:
    """Return the name of an allowed function of one argument, log or np.log; raise InvalidInput for any other."""
    func = node.func
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id in ("np", "numpy"):
        name = func.attr
    else:
        name = func.id if isinstance(func, ast.Name) else ""
    if name == "I":
        return name
    if name in STATEFUL and isinstance(func, ast.Name):
        raise InvalidInput(f"the formula has {name}(...): {STATEFUL[name]}")
    if name not in FUNCTIONS:
        raise _refused(ast.unparse(func), code)
    return name


def _refused(what: str, code: str) -> InvalidInput:
    """Return (not raise) the error for a part of a factor that is not allowed."""
    return InvalidInput(
        f"the formula has {what!r:.60} (in {code!r:.80}), which is not allowed; there are the names of columns, "
        "arithmetic in I(...), C(...), Q('name'), center, standardize, bs and cr with given knots, and "
        f"{', '.join(FUNCTIONS)}"
    )


def _value(node: ast.expr, frame: Frame, moments: Mapping[str, Moments]) -> Vector:
    """Return the value of a checked expression in each row, shape (m,), or of a constant, shape ()."""
    if name := quoted(node):
        return frame.numbers(name)
    if isinstance(node, ast.Constant):
        return np.asarray(_number(node, ""))
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, frame, moments)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, frame, moments), _value(node.right, frame, moments))
    if isinstance(node, ast.Compare):
        left, right = _value(node.left, frame, moments), _value(node.comparators[0], frame, moments)
        return _COMPARED[type(node.ops[0])](left, right)
    assert isinstance(node, ast.Call)
    if (call := _standardising(node, "")) is not None:
        return call.apply(_value(call.node, frame, moments), moments)
    name = _function(node, "")
    inner = _value(node.args[0], frame, moments)
    return inner if name == "I" else FUNCTIONS[name](inner)


def _category(code: str, node: ast.Call) -> Factor:
    """Return the factor C(x), C(x, Treatment("a")), C(x, Sum) or C(x, levels=[...])."""
    given = _arguments(code, node, ("", "contrast", "levels"))
    name = quoted(given[""]) if "" in given else ""
    if not name:
        raise InvalidInput(f"the formula has {code!r}: C(...) takes the name of a column; make others in the files")
    levels: tuple[str | float, ...] = ()
    if "levels" in given:
        levels = _constants(given["levels"], code)
        if len(set(levels)) < max(len(levels), 1):
            raise InvalidInput(f"the formula has {code!r}: levels must be distinct, and there must be some")
    return Factor(code, (name,), "category", node, _contrast(given.get("contrast"), code), levels)


def _contrast(node: ast.expr | None, code: str) -> Contrast:
    """Return the contrast that a node such as Treatment("a"), contr.treatment or Sum stands for."""
    if node is None:
        return Contrast()
    call = node if isinstance(node, ast.Call) else None
    name = ast.unparse(node if call is None else call.func)
    if name in ("Sum", "contr.sum") and (call is None or not (call.args or call.keywords)):
        return Contrast("sum")
    if name not in ("Treatment", "contr.treatment"):
        raise InvalidInput(
            f"the formula has {code!r}: contrasts are Treatment, Treatment('level') and Sum, got {name!r}"
        )
    if call is None:
        return Contrast()
    label = "reference" if name == "Treatment" else "base"
    given = _arguments(code, call, (label,))
    return Contrast("treatment", _constant(given[label], code) if label in given else None)


def _check_arguments(code: str, kind: str, given: Mapping[str, ast.expr]) -> None:
    """Raise InvalidInput unless the arguments of bs or cr, the `kind`, say the whole spline, and are those it takes."""
    lacking = [name for name in ("knots", "lower_bound", "upper_bound") if name not in given]
    if lacking or "df" in given or "constraints" in given or "" not in given:
        raise InvalidInput(
            f"the formula has {code!r}: without {', '.join(lacking) or 'df and constraints'} its columns would depend "
            f"on all sites' rows; give them as numbers: {kind}(x, knots=[40, 60], lower_bound=18, upper_bound=99)"
        )
    if kind == "cr" and ("degree" in given or "include_intercept" in given):
        raise InvalidInput(f"the formula has {code!r}: cr takes knots, lower_bound and upper_bound only")


def _spline(code: str, node: ast.Call) -> Factor:
    """Return the factor bs(x, knots=..., lower_bound=..., upper_bound=...), or cr(...)."""
    kind = ast.unparse(node.func)
    known = ("", "df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound", "constraints")
    given = _arguments(code, node, known)
    _check_arguments(code, kind, given)
    inner = _inside(given[""])
    variables = tuple(dict.fromkeys(_checked(inner, code)))
    low, high = (_number(given[name], code) for name in ("lower_bound", "upper_bound"))
    knots = tuple(_number(one, code) for one in _items(given["knots"], code))
    degree = _number(given["degree"], code) if "degree" in given else 3.0
    if degree != int(degree):
        raise InvalidInput(f"the formula has {code!r}: degree must be a whole number")
    keep = _truth(given.get("include_intercept"), code, False)
    spline = Spline(kind, knots, low, high, int(degree), keep)
    return Factor(code, variables, "spline", inner, spline=spline)


def _arguments(code: str, node: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr]:
    """Return {name: node} of a call's arguments, which are called `names` in their order, the first perhaps "".

    Raise InvalidInput for others.
    """
    given = dict(zip(names, node.args, strict=False))
    for one in node.keywords:
        if one.arg is None or one.arg not in names or one.arg in given:
            raise InvalidInput(f"the formula has {code!r}, whose argument {one.arg!r} is unknown or there twice")
        given[one.arg] = one.value
    if len(node.args) > len(names):
        raise InvalidInput(f"the formula has {code!r}, which has too many arguments")
    return given


def _items(node: ast.expr, code: str) -> list[ast.expr]:
    """Return the nodes in a list or tuple; raise InvalidInput for another node."""
    if not isinstance(node, ast.List | ast.Tuple):
        raise InvalidInput(f"the formula has {code!r}: expected a list such as [40, 60], got {ast.unparse(node)!r:.60}")
    return node.elts


def _constants(node: ast.expr, code: str) -> tuple[str | float, ...]:
    """Return the texts and numbers in a list."""
    return tuple(_constant(one, code) for one in _items(node, code))


def _constant(node: ast.expr, code: str) -> str | float:
    """Return a text, or a number as a float; raise InvalidInput for another node."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return _number(node, code)


def _number(node: ast.expr, code: str) -> float:
    """Return a number, perhaps with a sign; raise InvalidInput for another node."""
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1.0
    value = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
        raise InvalidInput(f"the formula has {code!r}: expected a number, got {ast.unparse(node)!r:.60}")
    return sign * float(value)
