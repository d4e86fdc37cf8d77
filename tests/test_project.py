"""The public names, and the code in the documentation."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import glmesh

ROOT = Path(__file__).parent.parent
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *HOW_TO]
MODULES = [module.name for module in pkgutil.walk_packages(glmesh.__path__, "glmesh.") if "__main__" not in module.name]


def test_public_names() -> None:
    assert sorted(glmesh.__all__) == [
        "Cocoa",
        "Cola",
        "CoxRegressor",
        "ElasticNet",
        "ElasticNetCV",
        "GLMClassifier",
        "GLMRegressor",
        "GammaRegressor",
        "GlmeshError",
        "Lasso",
        "LassoCV",
        "LinearSVC",
        "LinearSVR",
        "LogisticRegression",
        "Network",
        "PoissonRegressor",
        "Problem",
        "Result",
        "Ridge",
        "Run",
        "Status",
        "TweedieRegressor",
        "enet_path",
        "functions",
        "lasso_path",
        "load_model",
        "methods",
        "mixing",
        "solve",
        "solvers",
        "theory",
        "topology",
    ]
    assert all(hasattr(glmesh, name) for name in glmesh.__all__)
    assert sorted(glmesh.functions.__all__) == [
        "Anchored",
        "Binomial",
        "Box",
        "ConjugateOf",
        "Cox",
        "ElasticNet",
        "EpsilonInsensitiveLoss",
        "FAMILIES",
        "Family",
        "Gamma",
        "Gaussian",
        "GroupLasso",
        "HingeLoss",
        "Huber",
        "HuberLoss",
        "InverseGaussian",
        "L1",
        "L2",
        "LOSSES",
        "Logistic",
        "LogisticDual",
        "LogisticLoss",
        "Loss",
        "NegativeBinomial",
        "NonNegative",
        "Poisson",
        "Profiled",
        "QuantileLoss",
        "Separable",
        "Smooth",
        "SmoothedHingeLoss",
        "Softmax",
        "Squared",
        "SquaredEpsilonInsensitiveLoss",
        "SquaredHinge",
        "SquaredHingeLoss",
        "SquaredLoss",
        "Table",
        "Tweedie",
        "family_of",
        "tweedie",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_in_the_documentation_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ```python blocks of a page, in order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.M | re.S)
    assert blocks or page.name in ("files.md", "glossary.md")
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in blocks:
        exec(compile(block, page.name, "exec"), namespace)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_the_examples_run(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example.read_text(), example.name, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    places = [ROOT, ROOT / "src" / "glmesh", page.parent]
    for name in re.findall(r"`((?:[\w.-]+/)+[\w.-]*\.py)`", page.read_text()):
        assert any((place / name).exists() for place in places), f"{page.name} names {name}"


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.name)
def test_a_how_to_is_shorter_than_40_lines(page: Path) -> None:
    assert len(page.read_text().splitlines()) < 40


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_docstrings_hold_examples() -> None:
    """Else the test above would run nothing."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) > 50


def test_every_package_says_what_it_is_for_and_what_may_not_enter() -> None:
    for name in ["glmesh", *MODULES]:
        module = importlib.import_module(name)
        if hasattr(module, "__path__"):
            assert len(re.findall(r"[.!?](?=\s|$)", module.__doc__ or "")) > 1, name
