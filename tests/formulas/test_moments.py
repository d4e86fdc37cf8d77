"""`center` and `standardize` take the moments of all nodes' rows: as pooled, and kept with the design."""

from __future__ import annotations

from math import fsum

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from glmesh import GLMRegressor
from glmesh.core.moments import moment_totals, with_moments
from glmesh.core.totals import Sums
from glmesh.errors import InvalidInput, Mismatch
from glmesh.formulas import Design, Formula, Frame, Levels, Moments, design_of
from tests.cases import cases


def design_and_frames(text: str, tables: list[pd.DataFrame]) -> tuple[Design, list[Frame]]:
    formula = Formula.parse(text)
    frames = [Frame.of_data_frame(one, formula.variables, f"part {k}") for k, one in enumerate(tables)]
    return design_of(formula, [Levels.of(one, formula) for one in frames]), frames


def test_moments_are_those_of_pooled_rows_whatever_their_size_and_however_they_are_dealt_out() -> None:
    for seed in range(cases(200)):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 200))
        spread = 10.0 ** rng.uniform(-20, 20)
        far = spread * 10.0 ** rng.uniform(-3, 7) * rng.choice([0.0, 1.0, -1.0])
        x = far + spread * rng.standard_t(3, n)
        cuts = np.sort(rng.integers(0, n + 1, int(rng.integers(0, 6))))
        design, frames = design_and_frames(
            "y ~ standardize(x)", [pd.DataFrame({"x": one}) for one in np.split(x, cuts)]
        )
        found = with_moments(design, frames).moments[0]
        mean = fsum(x) / n  # rounded twice
        deviation = np.sqrt(fsum((x - mean) ** 2) / n)
        assert found.n == n
        assert abs(found.mean - mean) <= 4 * np.spacing(abs(mean)) + 1e-14 * deviation
        assert abs(found.deviation(0) / deviation - 1) <= 1e-12


def test_timestamps_whose_seconds_differ_keep_their_digits() -> None:
    t = 1.7e9 + np.random.default_rng(0).integers(0, 60, 90)
    design, frames = design_and_frames("y ~ standardize(t)", [pd.DataFrame({"t": one}) for one in np.split(t, 3)])
    made = with_moments(design, frames)
    exact = (t - 1.7e9 - (t - 1.7e9).mean()) / (t - 1.7e9).std()
    np.testing.assert_allclose(made.matrix(frames[1])[:, 0], exact[30:60], atol=np.spacing(1.7e9) / exact.std() / 8)


def test_a_total_says_nothing_but_sums_over_all_nodes() -> None:
    rng = np.random.default_rng(1)
    tables = [pd.DataFrame({"x": rng.normal(3.0 * k, 1, 20)}) for k in range(3)]
    design, frames = design_and_frames("y ~ standardize(x) + center(x):I(x > 0)", tables)
    steps = moment_totals(design, frames)
    total = next(steps)
    assert {name: rows.shape for name, rows in total.fields.items()} == {"rows": (3, 3), "sum 0": (3, 1)}
    second = steps.send(Sums({name: rows.sum(axis=0) for name, rows in total.fields.items()}, {}))
    assert {name: rows.shape for name, rows in second.fields.items()} == {"less 0": (3, 1), "squares 0": (3, 1)}


@pytest.mark.parametrize(
    ("values", "formula", "says"),
    [
        ([0.1] * 9, "y ~ standardize(x)", "x has the same value in all rows"),
        ([1e200, 1.0, 2.0], "y ~ standardize(x)", "too large to be summed"),
        ([1.0, -1.0, 2.0], "y ~ center(log(x))", r"log\(x\) is no finite number"),
        ([3.0], "y ~ standardize(x, ddof=1)", "1 rows have no standard deviation with ddof=1"),
    ],
)
def test_what_has_no_moments_is_refused(values: list[float], formula: str, says: str) -> None:
    design, frames = design_and_frames(formula, [pd.DataFrame({"x": values})])
    with pytest.raises((InvalidInput, Mismatch), match=says):
        with_moments(design, frames)


def test_a_design_keeps_its_moments_and_refuses_others() -> None:
    tables = [pd.DataFrame({"x": [1.0, 2.0, 6.0], "z": [1.0, 0.0, 2.0]})]
    design, frames = design_and_frames("y ~ standardize(x) + center(z)", tables)
    with pytest.raises(InvalidInput, match="mean and standard deviation of x are not known"):
        design.matrix(frames[0])
    made = with_moments(design, frames)
    again = Design.of(made.to_dict())
    assert again == made
    assert (again.matrix(frames[0]) == made.matrix(frames[0])).all()
    tree = made.to_dict()
    with pytest.raises(InvalidInput, match="its moments are not those"):
        Design.of(tree | {"moments": tree["moments"][:1]})
    with pytest.raises(InvalidInput, match="moments of 'x' must be finite"):
        Design.of(tree | {"moments": [tree["moments"][0] | {"squares": float("nan")}, tree["moments"][1]]})
    with pytest.raises(InvalidInput, match="not a design"):
        Design.of(tree | {"moments": [{"expression": "x"}]})
    with pytest.raises(InvalidInput, match="the same value in all rows"):
        design.with_moments([Moments("x", 3, 3.0, 0.0), Moments("z", 3, 1.0, 2.0)])


@pytest.mark.parametrize("dealt", [True, False])
def test_a_fit_has_the_table_of_statsmodels_and_predicts_with_the_moments_of_its_own_rows(*, dealt: bool) -> None:
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"age": rng.normal(50, 10, 90), "sex": rng.choice(["f", "m"], 90)})
    data["when"] = 1.7e9 + rng.integers(0, 10**7, 90)
    data["y"] = rng.normal(size=90) + 0.1 * data["age"]
    data.loc[:3, "age"] = np.nan
    formula = "y ~ standardize(age) * sex + center(when)"
    model = GLMRegressor.from_formula(
        formula, data if dealt else [data[60:], data[:20], data[20:60]], family="gaussian", tol_se=1e-8
    )
    wanted = smf.ols(formula, data.dropna()).fit()
    assert list(model.feature_names_in_) == list(wanted.params.index[1:])
    assert np.abs((model.coef_ - wanted.params[1:]) / wanted.bse[1:]).max() <= 1e-7
    new = data.dropna().iloc[:5]
    np.testing.assert_allclose(model.predict(new), wanted.predict(new), rtol=1e-8)
