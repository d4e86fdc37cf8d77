"""What the docstrings of public objects say of parameters is what the signatures say."""

from __future__ import annotations

import ast
import inspect
import re

import pytest

import glmesh
from glmesh import functions

ESTIMATORS = [
    *(glmesh.Ridge, glmesh.Lasso, glmesh.ElasticNet, glmesh.LassoCV, glmesh.ElasticNetCV, glmesh.LinearSVR),
    *(glmesh.GLMRegressor, glmesh.LogisticRegression, glmesh.LinearSVC, glmesh.GLMClassifier),
]
PROBLEM = [glmesh.Problem, glmesh.Problem.glm, glmesh.Problem.from_nodes, glmesh.Problem.with_alpha]
FUNCTIONS = [getattr(functions, name) for name in functions.__all__ if name != "LOSSES"]
DOCUMENTED = [*ESTIMATORS, *PROBLEM, glmesh.lasso_path, glmesh.enet_path, glmesh.load_model, *FUNCTIONS]
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \w+)*) : (.+)\n((?:    .*\n|\n)*)", re.M)


def parameters(documented: object) -> dict[str, tuple[str, str]]:
    """Name -> (type and default, meaning) of the section Parameters."""
    section = re.search(
        r"^Parameters\n-+\n((?:.*\n)*?)(?:\n\w[\w ]*\n-+\n|\Z)", inspect.getdoc(documented) + "\n", re.M
    )
    entries = ENTRY.findall(section.group(1)) if section else []
    return {name.lstrip("*"): (kind, text) for names, kind, text in entries for name in names.split(", ")}


@pytest.mark.parametrize("documented", DOCUMENTED, ids=lambda one: one.__qualname__)
def test_every_parameter_is_documented_with_its_default(documented):
    told = parameters(documented)
    signature = {name: one for name, one in inspect.signature(documented).parameters.items() if name != "self"}
    assert sorted(told) == sorted(signature)
    for name, parameter in signature.items():
        kind, meaning = told[name]
        assert meaning.strip(), f"{name} has no meaning"
        default = re.search(r", default (.+)$", kind)
        if default:
            assert ast.literal_eval(default.group(1)) == parameter.default, name
        else:
            assert parameter.default in (inspect.Parameter.empty, None) or "optional" in kind, name


def test_parameters_that_all_estimators_share_are_described_alike():
    shared = set.intersection(*(set(parameters(kind)) for kind in ESTIMATORS)) - {"fit_intercept"}
    assert len(shared) >= 12
    for name in shared:
        assert len({parameters(kind)[name] for kind in ESTIMATORS}) == 1, name


@pytest.mark.parametrize("documented", DOCUMENTED, ids=lambda one: one.__qualname__)
def test_no_bar_is_read_as_a_substitution(documented):
    text = inspect.getdoc(documented)
    prose = re.sub(r"::\n\n(?:    .*\n|\n)+", "", text + "\n")  # literal blocks
    prose = re.sub(r"``[^`]*``", "", prose)
    assert not re.search(r"\|\S[^|\n]*\|", prose)
