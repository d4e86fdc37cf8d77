"""The public names, and the code in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import glmesh

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_public_names() -> None:
    assert sorted(glmesh.__all__) == [
        "Cocoa",
        "Cola",
        "ElasticNet",
        "ElasticNetCV",
        "GLMClassifier",
        "GLMRegressor",
        "GlmeshError",
        "Lasso",
        "LassoCV",
        "LinearSVC",
        "LinearSVR",
        "LogisticRegression",
        "Network",
        "Problem",
        "Result",
        "Ridge",
        "Run",
        "Status",
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
        "Box",
        "ConjugateOf",
        "ElasticNet",
        "EpsilonInsensitiveLoss",
        "GroupLasso",
        "HingeLoss",
        "Huber",
        "HuberLoss",
        "L1",
        "L2",
        "LOSSES",
        "Logistic",
        "LogisticDual",
        "LogisticLoss",
        "Loss",
        "NonNegative",
        "Profiled",
        "QuantileLoss",
        "Separable",
        "Smooth",
        "SmoothedHingeLoss",
        "Squared",
        "SquaredEpsilonInsensitiveLoss",
        "SquaredHinge",
        "SquaredHingeLoss",
        "SquaredLoss",
        "Table",
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
