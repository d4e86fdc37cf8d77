"""A formula's terms and columns are those of statsmodels (patsy), and what is not allowed is refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from glmesh.core.moments import with_moments
from glmesh.errors import GlmeshError, InvalidInput, Mismatch
from glmesh.formulas import Design, Formula, Frame, Levels, design_of
from tests.cases import cases

patsy = pytest.importorskip("patsy")  # which statsmodels' formulas need

LIKE_STATSMODELS = [
    "age + C(sex) + bmi:C(ward)",
    "C(sex) * C(ward) - 1",
    "C(ward):age",
    "age * bmi + sex:ward",
    "bs(age, knots=(0, 0.5), lower_bound=-4, upper_bound=4)",
    "bs(age, knots=[0], degree=1, lower_bound=-4, upper_bound=4, include_intercept=True) - 1",
    "bs(age, knots=[0.0, 1.0], degree=2, lower_bound=-4, upper_bound=4):sex",
    "cr(age, knots=(0, 0.5), lower_bound=-4, upper_bound=4) - 1",
    "cr(age, knots=(0, 0.5), lower_bound=-1, upper_bound=1)",
    "C(k) + flag",
    "np.log(age ** 2) + I(age ** 2)",
    "C(ward, Treatment('b'))",
    "C(ward, Treatment(reference='b')) + C(sex, Sum)",
    "0 + age + sex",
    "bmi:sex + ward:sex + bmi",
    "sex:C(k) * age",
    "Q('age')",
    "sex / ward",
    "C(ward, levels=['c', 'b', 'a'])",
    "sex * flag * age",
    "(age + bmi) ** 2",
    "(sex + ward + age) ** 3",
    "I(age > 0.3) * sex",
    "age + np.exp(bmi) - 1",
    "ward:sex:flag",
    "C(ward, Sum):sex",
    "C(ward, Sum) - 1",
    "I((age - 1) / -2.5)",
    "np.log10(np.abs(age))",
    "-1 + sex:age + ward",
    "ward:flag + ward:age + flag:age",
    "center(age) + standardize(bmi)",
    "standardize(age) * sex - 1",
    "standardize(age):center(bmi) + C(ward):standardize(age, ddof=1)",
    "standardize(age, center=False) + standardize(bmi, True, False)",
    "I(center(age) ** 2) + np.exp(standardize(age - 2 * bmi))",
    "bs(standardize(np.exp(age)), knots=[0], lower_bound=-9, upper_bound=9)",
    "C(ward) * I(center(age) > 0.25)",
]


def table(seed: int = 0, n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "y": rng.normal(size=n),
            "age": rng.normal(size=n),
            "bmi": rng.normal(size=n),
            "sex": rng.choice(["m", "f"], n),
            "ward": rng.choice(["a", "b", "c"], n),
            "k": rng.integers(1, 4, n),
            "flag": rng.random(n) > 0.5,
        }
    )


def designed(text: str, data: pd.DataFrame) -> tuple[Design, Frame]:
    formula = Formula.parse(text)
    frame = Frame.of_data_frame(data, formula.variables, "data")
    return with_moments(design_of(formula, [Levels.of(frame, formula)]), [frame]), frame


@pytest.mark.parametrize("right", LIKE_STATSMODELS)
def test_columns_have_the_names_the_order_and_the_values_of_statsmodels(right: str) -> None:
    data = table()
    theirs = patsy.dmatrix(right, data)
    names = theirs.design_info.column_names
    kept = [k for k, name in enumerate(names) if name != "Intercept"]
    made, frame = designed(f"y ~ {right}", data)
    assert list(made.names) == [names[k] for k in kept]
    assert made.has_intercept == ("Intercept" in names)
    np.testing.assert_allclose(made.matrix(frame), np.asarray(theirs)[:, kept], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("right", LIKE_STATSMODELS)
def test_a_design_survives_plain_data_and_applies_to_tables_that_lack_levels(right: str) -> None:
    import json

    made, frame = designed(f"y ~ {right}", table())
    again = Design.of(json.loads(json.dumps(made.to_dict())))
    assert again == made
    few = table().iloc[:1]
    one = Frame.of_data_frame(few, made.wanted, "one row")
    np.testing.assert_array_equal(again.matrix(one), made.matrix(frame)[:1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("y ~ demean(age)", "write center"),
        ("y ~ scale(age)", r"standardize\(x, ddof=1\), which is R's"),
        ("y ~ center()", r"needs an expression, center\(x\)"),
        ("y ~ center(age, ddof=1)", "argument 'ddof' is unknown"),
        ("y ~ standardize(age, True, True, 0, 1)", "too many arguments"),
        ("y ~ standardize(age, rescale=1)", "expected True or False"),
        ("y ~ standardize(age, ddof=2)", "ddof must be 0 or 1"),
        ("y ~ standardize(center(age))", "there can be no other"),
        ("y ~ standardize(eval('1'))", "not allowed"),
        ("y ~ C(center(age))", "takes the name of a column"),
        ("standardize(y) ~ age", r"the response 'standardize\(y\)' is standardised; take numbers"),
        ("y ~ poly(age, 2)", "write the powers"),
        ("y ~ bs(age, df=4)", r"give them as numbers: bs\(x, knots="),
        ("y ~ bs(age, knots=[1])", "without lower_bound, upper_bound its columns would depend on all sites' rows"),
        ("y ~ cr(age, df=4, lower_bound=0, upper_bound=1)", "without knots"),
        ("y ~ bs(age, knots=[3, 2], lower_bound=0, upper_bound=9)", "knots must ascend"),
        ("y ~ bs(age, knots=age, lower_bound=0, upper_bound=9)", "expected a list such as"),
        ("y ~ __import__('os').system('true')", "cannot be read|not allowed"),
        ("y ~ open('f')", "'open' .* which is not allowed"),
        ("y ~ eval('1')", "not allowed"),
        ("y ~ np.linalg.inv(age)", "not allowed"),
        ("y ~ np.load('f')", "not allowed"),
        ("y ~ I(age.real)", "not allowed"),
        ("y ~ I(lambda: 1)", "not allowed"),
        ("y ~ {[x for x in age]}", "not allowed"),
        ("y ~ I(age if 1 else bmi)", "not allowed"),
        ("y ~ I(age := 1)", "not allowed|cannot be read"),
        ("y ~ I('age')", "expected a number"),
        ("y ~ I(age * True)", "expected a number"),
        ("y ~ log(age, 2)", "not allowed"),
        ("y ~ I(1 + 1)", "names no column"),
        ("y ~ C(age + 1)", "takes the name of a column"),
        ("y ~ C(sex, Poly)", "contrasts are Treatment"),
        ("y ~ C(sex, levels=['m', 'm'])", "levels must be distinct"),
        ("y ~ C(sex, of='m')", "unknown or there twice"),
        ("y ~ strata(sex)", "strata="),
        ("y ~ offset(age)", "offset='x'"),
        ("open('f') ~ age", "not allowed"),
        ("y ~ age + y", "'y' on both sides"),
        ("y ~ 1", "no term beside the intercept"),
        ("~ age", "needs a response"),
        ("y + bmi ~ age", "one response"),
        ("y ~ age | bmi", "cannot be read"),
        ("y ~ (age + bmi) ** 9", "power of terms above 6"),
        ("", "a text of at most"),
        ("y ~ age " + "+ age" * 1000, "a text of at most"),
    ],
)
def test_what_a_formula_may_not_hold_is_refused_by_name_with_what_would_do(text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Formula.parse(text)


def test_a_design_from_elsewhere_is_checked_as_a_formula_is() -> None:
    made, _ = designed("y ~ age + C(sex)", table())
    tree = made.to_dict()
    for change in (
        {"terms": [[], ["__import__('os').system('true')"]]},
        {"terms": [[], ["open('f')"]]},
        {"columns": ["age"]},
        {"variables": [{"name": "age", "kind": "code"}]},
        {"variables": [{"name": "sex", "kind": "category", "levels": ["f", "f"]}]},
        {"variables": "x"},
    ):
        with pytest.raises(GlmeshError):
            Design.of(tree | change)


def test_a_level_gap_or_value_that_does_not_fit_is_named_with_its_place_for_the_user_alone() -> None:
    made, _ = designed("y ~ np.log(bmi) + bs(age, knots=[0], lower_bound=-9, upper_bound=9) + C(sex)",
        table().assign(bmi=1.0))  # fmt: skip
    fine = {"age": [0.0, 1.0], "bmi": [1.0, 1.0], "sex": ["m", "f"]}
    for change, public, private in (
        ({"sex": ["m", "x"]}, "column sex has a level that the model does not know; it knows f, m", "row 1 holds 'x'"),
        ({"sex": [None, "m"]}, "column sex has a missing value", "row 0"),
        ({"age": [0.0, 10.0]}, "is defined from -9 to 9 only", "row 1 has 10"),
        ({"bmi": [1.0, -1.0]}, r"np.log\(bmi\) is no finite number in 1 row", "row 1, bmi = -1"),
        ({"bmi": ["a", "b"]}, "column bmi holds text", "row 0 holds 'a'"),
    ):
        data = pd.DataFrame(fine | change)
        with pytest.raises(Mismatch, match=public) as caught:
            made.matrix(Frame.of_data_frame(data, made.wanted, "new"))
        assert private in str(caught.value)
        assert private.split(" holds ")[-1] not in caught.value.public
    with pytest.raises(Mismatch, match=r"lacks the column sex .is 'Sex' meant to be 'sex'"):
        made.matrix(
            Frame.of_data_frame(pd.DataFrame(fine).rename(columns={"sex": "Sex"}), ["age", "bmi", "Sex"], "new")
        )


def test_levels_are_those_of_all_tables_in_an_order_that_no_table_decides() -> None:
    formula = Formula.parse("y ~ ward + C(k)")
    wards, ks = (["c", "a"], ["b", "a"]), ([3, 1], [2, 10])
    frames = [
        Frame.of_data_frame(pd.DataFrame({"ward": ward, "k": k}), formula.variables, "t")
        for ward, k in zip(wards, ks, strict=True)
    ]
    tables = [Levels.of(frame, formula) for frame in frames]
    for order in (tables, tables[::-1]):
        assert design_of(formula, order).names == ("ward[T.b]", "ward[T.c]", "C(k)[T.2]", "C(k)[T.3]", "C(k)[T.10]")
    mixed = Frame.of_data_frame(pd.DataFrame({"ward": ["1", "x", "2"], "k": [1, 2, 3]}), formula.variables, "t")
    with pytest.raises(Mismatch, match=r"column ward holds numbers and text; write C\(ward\)"):
        Levels.of(mixed, formula)


def test_random_terms_make_the_columns_of_statsmodels() -> None:
    rng = np.random.default_rng(5)
    data = table(n=40)
    factors = ["age", "bmi", "sex", "C(ward)", "C(k)", "flag", "C(ward, Sum)", "np.exp(age)", "I(bmi > 0)"]
    for _ in range(cases(300)):
        terms = [rng.choice(factors, rng.integers(1, 4), replace=False) for _ in range(rng.integers(1, 5))]
        right = " + ".join(str(rng.choice([":", "*"])).join(term) for term in terms)
        right += " - 1" if rng.random() < 0.3 else ""
        theirs = patsy.dmatrix(right, data)
        names = theirs.design_info.column_names
        kept = [k for k, name in enumerate(names) if name != "Intercept"]
        made, frame = designed(f"y ~ {right}", data)
        assert list(made.names) == [names[k] for k in kept], right
        np.testing.assert_allclose(made.matrix(frame), np.asarray(theirs)[:, kept], rtol=1e-12, err_msg=right)
