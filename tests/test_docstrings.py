"""What the docstrings of public objects say of parameters is what the signatures say."""

from __future__ import annotations

import ast
import inspect
import re
from enum import Enum

import pytest

import glmesh

ESTIMATORS = [
    *(glmesh.Ridge, glmesh.Lasso, glmesh.ElasticNet, glmesh.LassoCV, glmesh.ElasticNetCV, glmesh.LinearSVR),
    *(glmesh.GLMRegressor, glmesh.LogisticRegression, glmesh.LinearSVC, glmesh.GLMClassifier),
]
MADE_BY_THE_ENGINE = {
    "Copies",
    "Samples",
    "LocalSolver",
    "Rows",
    "TotalState",
    "among",
    "check_support",
}  # nobody calls these by hand


def public_objects() -> dict[str, object]:
    """Name -> class or function of `glmesh.__all__`; those of a module that is named there, too."""
    found: dict[str, object] = {}
    for name in glmesh.__all__:
        value = getattr(glmesh, name)
        inside = [value]
        if inspect.ismodule(value):
            names = getattr(value, "__all__", [key for key in vars(value) if not key.startswith("_")])
            inside = [getattr(value, key) for key in names]
            inside = [one for one in inside if getattr(one, "__module__", "").startswith(value.__name__)]
        for one in inside:
            if inspect.isfunction(one) or (inspect.isclass(one) and not issubclass(one, Enum | Exception)):
                found[f"{one.__module__.rpartition('.')[2]}.{one.__name__}"] = one
    methods = [glmesh.Problem.glm, glmesh.Problem.from_nodes, glmesh.Problem.with_alpha, glmesh.Run.add_columns]
    found |= {one.__qualname__: one for one in methods}
    return {name: one for name, one in found.items() if name.rpartition(".")[2] not in MADE_BY_THE_ENGINE}


DOCUMENTED = public_objects()
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \w+)*) :(.*)\n((?:    .*\n|\n)*)", re.M)


def parameters(documented: object) -> dict[str, tuple[str, str]]:
    """Name -> (type and default, meaning) of the section Parameters."""
    section = re.search(
        r"^Parameters\n-+\n((?:.*\n)*?)(?:\n\w[\w ]*\n-+\n|\Z)", inspect.getdoc(documented) + "\n", re.M
    )
    entries = ENTRY.findall(section.group(1)) if section else []
    return {name.lstrip("*"): (kind, text) for names, kind, text in entries for name in names.split(", ")}


@pytest.mark.parametrize("documented", DOCUMENTED.values(), ids=DOCUMENTED)
def test_every_parameter_is_documented_with_its_default(documented):
    told = parameters(documented)
    signature = {name: one for name, one in inspect.signature(documented).parameters.items() if name != "self"}
    assert sorted(told) == sorted(signature)
    for name, parameter in signature.items():
        kind, meaning = told[name]
        assert meaning.strip(), f"{name} has no meaning"
        default = re.search(r", default (.+)$", kind)
        if "As of `" in meaning or repr(parameter.default) in ("<factory>", "()"):  # inherited; or empty
            continue
        if default:
            assert is_described(parameter.default, default.group(1)), name
        else:
            assert parameter.default in (inspect.Parameter.empty, None) or "optional" in kind, name


def is_described(default: object, text: str) -> bool:
    """Whether a text such as `1e-4`, `"ring"` or `Cola()` says a default; None may stand for an object that is made."""
    if text in ("inf", "nan"):
        return repr(default) == text
    try:
        return bool(ast.literal_eval(text) == default)
    except (ValueError, SyntaxError):
        return default is None or text in (f"{type(default).__name__}()", "one process")


def test_parameters_that_all_estimators_share_are_described_alike():
    shared = set.intersection(*(set(parameters(kind)) for kind in ESTIMATORS)) - {"fit_intercept"}
    assert len(shared) >= 12
    for name in shared:
        assert len({parameters(kind)[name] for kind in ESTIMATORS}) == 1, name


@pytest.mark.parametrize("documented", DOCUMENTED.values(), ids=DOCUMENTED)
def test_no_bar_is_read_as_a_substitution(documented):
    text = inspect.getdoc(documented)
    prose = re.sub(r"::\n\n(?:    .*\n|\n)+", "", text + "\n")  # literal blocks
    prose = re.sub(r"``[^`]*``", "", prose)
    assert not re.search(r"\|\S[^|\n]*\|", prose)
