"""What the engine asks of any method: every method of the package does it, or refuses it by its own name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glmesh import Problem, Run, methods, solve
from glmesh.cli import main
from glmesh.engine.path import solve_path
from glmesh.errors import InvalidInput
from tests.strangers import GRADIENT_DESCENT, gradient_descent, normal_equations

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 8))
Y = X @ RNG.normal(size=8)
RIDGE = Problem.glm(X, Y, alpha=5.0)
CONSENSUS = [methods.DAdmm, methods.Dapg, methods.Dgd, methods.Diging, methods.Extra, methods.Nids, methods.PgExtra]
TOTALS = [methods.LimitedMemory, methods.MaximumLikelihood, methods.ProximalNewton, methods.RowSpace]
METHODS = {kind.__name__: kind for kind in [methods.Cola, methods.Cocoa, *CONSENSUS, *TOTALS]}
STRANGERS = {"GradientDescent": lambda: gradient_descent()(1e-3), "NormalEquations": lambda: normal_equations()()}
ALL = METHODS | STRANGERS
# bases, a method that is not for this problem, and one that is made of another
ELSEWHERE = {"Consensus", "TotalMethod", "InteriorPoint", "CrossValidation"}


def test_all_methods_of_the_package_are_tried_here():
    made = {name for name in methods.__all__ if hasattr(getattr(methods, name), "prepare")}
    assert made - ELSEWHERE == set(METHODS)


def problem_of(name: str, X: Any = X, y: Any = Y) -> Problem:
    """Ridge regression, for the method of families as a family."""
    return Problem.glm(X, y, alpha=5.0, **({"family": "gaussian"} if name == "MaximumLikelihood" else {}))


def run_of(name: str, **options: Any) -> Run:
    run = Run(problem_of(name), method=ALL[name](), n_nodes=4, **options)
    for _ in range(5):
        next(run)
    return run


@pytest.mark.parametrize("name", ALL)
def test_a_path_is_solved_weight_by_weight(name):
    alphas = [20.0, 10.0, 5.0]
    path = solve_path(
        problem_of(name), alphas, method=ALL[name](), n_nodes=4, tol=1e-2, max_rounds=3000, record_every=5
    )
    for alpha, result in zip(alphas, path.results, strict=True):
        best = solve(RIDGE.with_alpha(alpha), n_nodes=4, tol=1e-10)
        assert result.objective <= best.objective * (1 + 2e-2)
    counts = [result.communications for result in path.results]
    assert path.communications == (max(counts) if isinstance(ALL[name](), methods.TotalMethod) else sum(counts))


@pytest.mark.parametrize("name", ALL)
def test_a_product_is_computed_or_refused_by_name(name):
    run, x = run_of(name), RNG.normal(size=8)
    if name in ("Cola", "Cocoa"):
        np.testing.assert_allclose(run.product(x), X @ x, atol=1e-12)
    else:
        with pytest.raises(InvalidInput, match=f"product is for Cola; {name} "):
            run.product(x)


@pytest.mark.parametrize("name", ALL)
def test_an_identity_depends_on_the_data_and_not_on_the_rounds(name):
    run = run_of(name)
    before = run.identity()
    next(run)
    assert run.identity() == before
    scaled = Run(problem_of(name, 2 * X, np.zeros(60)), method=ALL[name](), n_nodes=4).identity()
    assert [key for key in before if before[key] != scaled[key]] == ["data"]


@pytest.mark.parametrize("name", ALL)
def test_a_run_that_begins_anew_keeps_its_variables_and_goes_on(name):
    run = run_of(name)
    x, measured = run.x, run.measure().objective
    run.begin_anew()
    if name != "Nids":  # which begins with a step that needs no exchange
        np.testing.assert_array_equal(run.x, x)
    for _ in range(40):
        next(run)
    assert run.measure().objective < measured or measured == pytest.approx(run.measure().objective, rel=1e-9)


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("Cola", "Cocoa")])
@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("add_columns", lambda run: run.add_columns(0, np.ones((60, 1)))),
        ("remove_columns", lambda run: run.remove_columns([0])),
        ("save", lambda run: run.save("run.ckpt")),
        ("certified_state", lambda run: run.certified_state()),
    ],
)
def test_what_only_cola_can_do_is_refused_with_a_reason(name, what, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if what == "save" and name in {kind.__name__ for kind in TOTALS}:
        return  # which it can
    if what.endswith("columns") and problem_of(name).spec.split == "samples":
        return  # where they are rows, which nodes on totals can add and remove
    with pytest.raises(InvalidInput, match=r"certificate" if what == "certified_state" else name):
        call(run_of(name))


# --- a method of somebody who knows the how-to and nothing else -------------------------------------------------


def test_the_method_of_the_how_to_descends_and_needs_no_base_class():
    made = gradient_descent()(1e-3)
    assert type(made).__mro__[1:] == (object,)
    result = solve(RIDGE, method=made, n_nodes=6, stop="rounds", max_rounds=300)
    assert result.objective < 0.2 * RIDGE.objective(np.zeros(8))


def test_the_method_on_totals_of_the_how_to_solves_its_problem_in_a_round():
    result = solve(RIDGE, method=normal_equations()(), n_nodes=6, tol=1e-12)
    assert (result.rounds, result.status.name, result.x) == (1, "CONVERGED", None)
    expected = np.linalg.solve(X.T @ X + 5.0 * np.eye(8), X.T @ RIDGE.parts[0].y)
    np.testing.assert_allclose(result.coef, expected, rtol=1e-12)
    assert result.objective == pytest.approx(RIDGE.objective(expected), rel=1e-12)


@pytest.mark.parametrize("n_blocks", [2, 4])
@pytest.mark.parametrize("name", STRANGERS)
def test_methods_of_the_how_to_have_the_same_bits_in_any_number_of_blocks(name, n_blocks):
    one, some = (run_of(name, n_blocks=number) for number in (1, n_blocks))
    assert one.estimates.tobytes() == some.estimates.tobytes()
    assert (one.communications, one.bytes) == (some.communications, some.bytes)


@pytest.mark.parametrize("rivals", [["CoLA default, by samples"], []])
def test_the_method_of_the_how_to_races_in_a_bench(
    rivals: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    mine = tmp_path / "mine.py"
    data = "DATASETS = {'mine': lambda: ((X := np.random.default_rng(0).normal(size=(60, 8))), X[:, 0])}\n"
    mine.write_text(f"{GRADIENT_DESCENT}\n{data}METHODS = {{'DGD': lambda: GradientDescent(1e-3)}}\n")
    options = ["--datasets", "mine", "--objectives", "ridge", "--topologies", "ring", "--nodes", "4"]
    options += ["--methods", *rivals, "DGD", "--max-communications", "200"]
    assert main(["bench", "--add", str(mine), *options, "--out", str(tmp_path / "out")]) == 0
    assert "DGD" in capsys.readouterr().out
    assert "DGD" in (tmp_path / "out" / "report.md").read_text()
