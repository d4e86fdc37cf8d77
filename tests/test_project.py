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
SOURCE = ROOT / "src" / "glmesh"
DOCS = ROOT / "docs"
HOW_TO_ADD = sorted((DOCS / "how-to").glob("add-a*.md"))
MADE = ("generated", "reports", "_build")  # folders whose pages are made by programs
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if not set(MADE) & set(page.parts))]
WITHOUT_CODE = {"index", "faq", "citing", "files", "glossary", "install", "run-a-site"}
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_in_the_documentation_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ```python blocks of a page, in order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.M | re.S)
    assert blocks or page.stem in WITHOUT_CODE or page.parent.name in ("explanation", "reference")
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in blocks:
        exec(compile(block, page.name, "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    places = [ROOT, ROOT / "src" / "glmesh", page.parent]
    for name in re.findall(r"`((?:[\w.-]+/)+[\w.-]*\.py)`", page.read_text()):
        assert any((place / name).exists() for place in places), f"{page.name} names {name}"


def rows_of_the_map() -> list[str]:
    """Return the rows of the tables under "Where is it?" in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where is it?")[2].partition("\n## ")[0]
    return [line for line in text.splitlines() if line.startswith("|") and set(line) - set("|-")]


def files_in(row: str) -> list[str]:
    """Return the files that a row of the map names; one without a folder is in the folder of the row's first."""
    names = re.findall(r"`([\w./*-]+\.py)`", row)
    folder = names[0].rpartition("/")[0] if names else ""
    return [name if "/" in name or not folder else f"{folder}/{name}" for name in names]


def text_of(row: str) -> str:
    """Return the text of all files that a row of the map names, by themselves or as "its file in `folder/`"."""
    folders = re.findall(r"its file in `([\w/]+/)`", row)
    return "".join(file.read_text() for one in files_in(row) + [f"{one}*.py" for one in folders] for file in found(one))


def found(name: str) -> list[Path]:
    """Return the files with a name that the map gives, from src/glmesh on or from the root of the repository."""
    return [file for place in (SOURCE, ROOT) for file in place.glob(name)]


def test_a_row_of_the_map_writes_folders_where_its_files_are_in_several() -> None:
    for row in rows_of_the_map():
        names = re.findall(r"`([\w./*-]+\.py)`", row)
        folders = {name.rpartition("/")[0] for name in names if "/" in name or name == names[0]}
        bare = [name for name in names if "/" not in name]
        assert not bare or len(folders) < 2, f"write the folders of {bare} in {row}"


def test_files_that_the_map_names_are_there() -> None:
    assert [(row, name) for row in rows_of_the_map() for name in files_in(row) if not found(name)] == []


def test_names_that_the_map_says_a_file_has_are_there() -> None:
    rows = [row for row in rows_of_the_map() if files_in(row)]
    named = [(row, name) for row in rows for name in re.findall(r"`([A-Za-z_]\w+)`", row.split("|")[2])]
    assert len(named) > 100
    assert [(row, name) for row, name in named if not re.search(rf"\b{name}\b", text_of(row))] == []


def test_every_module_is_on_the_map() -> None:
    rows = rows_of_the_map()
    named = {file for row in rows for name in files_in(row) for file in found(name)}
    whole = {SOURCE / folder for row in rows for folder in re.findall(r"its file in `([\w/]+)/`", row)}
    modules = [file for file in SOURCE.rglob("*.py") if file.name not in ("__init__.py", "__main__.py")]
    assert [str(file) for file in modules if file not in named and file.parent not in whole] == []


@pytest.mark.parametrize("page", HOW_TO_ADD, ids=lambda page: page.name)
def test_a_how_to_on_additions_is_shorter_than_40_lines(page: Path) -> None:
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
