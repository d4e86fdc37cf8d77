"""Names, labels, splits and values that do not fit, given to `fit`, `fit_nodes`, `predict` and `Problem`.

A case either has the right answer (`RIGHT`) or is refused with words that say where, and what would do (`REFUSED`).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import glmesh
from glmesh import Problem, solve
from glmesh.engine.checkpoint import problem_of, problem_tree
from glmesh.errors import InvalidInput, Mismatch
from glmesh.files import model_files

RNG = np.random.default_rng(16)
NAMES = ["age", "bmi", "crp", "sex"]
ROWS = pd.DataFrame(RNG.normal(size=(60, 4)).round(3), columns=NAMES)
SCORE = ROWS.to_numpy() @ [2.0, -1.0, 0.5, 0.0] + RNG.normal(size=60)
ILL = pd.Series((SCORE > 0) * 1.0, name="ill")
COST = pd.Series(SCORE, name="cost")
TEXT = ILL.map({0.0: "no", 1.0: "yes"})
OTHER_ORDER = ["sex", "crp", "age", "bmi"]
LOGISTIC = {"tol": 1e-9, "topology": "complete"}


def counts():
    """An estimator that takes offsets and clusters."""
    return glmesh.GLMRegressor(family="poisson", n_nodes=2)


class Frame:
    """A data frame of neither pandas nor polars: columns, and a way to an array."""

    def __init__(self, frame):
        self.columns, self._values = list(frame.columns), frame.to_numpy()

    def to_numpy(self):
        return self._values


def parts(X=ROWS, y=ILL, ends=(20, 40)):
    """Three sites' rows."""
    return [(X[a:b], y[a:b]) for a, b in zip([0, *ends], [*ends, len(y)], strict=True)]


def changed(k, X=None, y=None):
    """The three sites' parts, with other data at site k: functions of X and y."""
    own = parts()
    own[k] = (X or (lambda x: x))(own[k][0]), (y or (lambda z: z))(own[k][1])
    return own


def with_texts(k, y):
    """The three sites' parts with texts as labels, other ones at site k."""
    own = parts(y=TEXT)
    own[k] = own[k][0], y(own[k][1])
    return own


def gap(X, row):
    """X with a missing age in the row of this label."""
    return X.assign(age=X["age"].where(X.index != row))


def logistic(data, **options):
    return glmesh.LogisticRegression(**LOGISTIC).fit_nodes(data, **options)


def ridge(data, **options):
    return glmesh.Ridge(**LOGISTIC | options).fit_nodes(data)


def problem(data, **options):
    return Problem.from_nodes(data, **{"loss": "logistic", "alpha": 1.0} | options)


REFERENCE = logistic(parts())
LAST_FIRST = changed(2, lambda X: X[OTHER_ORDER])

RIGHT = {
    "fit_nodes: a part with another order of columns": lambda: logistic(LAST_FIRST),
    "fit_nodes: frames of another library": lambda: logistic([(Frame(X), y) for X, y in LAST_FIRST]),
    "fit_nodes: nullable integers and booleans are numbers": lambda: logistic(changed(1, lambda X: X.astype(object))),
    "fit_nodes: labels as texts": lambda: logistic(parts(y=TEXT)),
    "fit_nodes: a part without rows": lambda: logistic([*parts(), (ROWS[:0], ILL[:0])]),
    "fit_nodes: arrays go by position": lambda: logistic([(X.to_numpy(), y.to_numpy()) for X, y in parts()]),
    "fit_nodes: y without a name at one site": lambda: logistic(changed(1, y=lambda y: y.to_numpy())),
    "fit_nodes: y that has the name of a feature": lambda: logistic([(X, y.rename("age")) for X, y in parts()]),
    "fit_nodes: columns that are named by numbers have no names": lambda: logistic(
        [(X.set_axis(range(4), axis=1), y) for X, y in parts()]
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_what_can_be_put_right_is(case):
    np.testing.assert_allclose(RIGHT[case]().coef_, REFERENCE.coef_, atol=1e-3)


REFUSED = {
    # columns
    "fit_nodes: a missing column": (
        lambda: logistic(changed(1, lambda X: X.drop(columns="crp"))),
        r"^part 1 does not fit: part 1 lacks the column crp, which part 0 has; has the columns age, bmi, sex; "
        r"part 0: has the columns age, bmi, crp, sex; give all parts the same columns",
    ),
    "fit_nodes: an extra column": (
        lambda: logistic(changed(2, lambda X: X.assign(icu=1.0))),
        "part 2 does not fit: part 2 has the column icu, which part 0 has not; has the columns age, bmi, crp, sex, icu",
    ),
    "fit_nodes: another name": (
        lambda: logistic(changed(0, lambda X: X.rename(columns={"bmi": "BMI"}))),
        r"part 0 lacks the column bmi, which part 1 has \(is 'BMI' meant to be 'bmi'\? rename it\); has",
    ),
    "fit_nodes: another name, two parts": (
        lambda: logistic(changed(0, lambda X: X.rename(columns={"bmi": "BMI"}))[:2]),
        "part 0, part 1 do not fit: part 0 lacks the column bmi",
    ),
    "fit_nodes: a doubled column": (
        lambda: logistic(changed(1, lambda X: X.set_axis(["age", "bmi", "age", "sex"], axis=1))),
        "part 1: X has the column 'age' twice; keep one",
    ),
    "fit_nodes: one part without names": (
        lambda: logistic(changed(1, lambda X: X.to_numpy())),
        "part 1 does not fit: part 1 has no header; part 0: has a header",
    ),
    "fit_nodes: a sparse part among frames": (
        lambda: logistic(changed(1, lambda X: sp.csr_array(X.to_numpy()))),
        "part 1 does not fit: part 1 has no header",
    ),
    "fit_nodes: names that are texts and numbers": (
        lambda: logistic(changed(1, lambda X: X.rename(columns={"crp": 7}))),
        "part 1: X has the column 7 beside columns whose names are texts",
    ),
    "fit_nodes: another target": (
        lambda: logistic(changed(1, y=lambda y: y.rename("dead"))),
        "part 1 does not fit: part 1 has the target 'dead'; part 0: has the target 'ill'",
    ),
    "fit_nodes: a blank behind a name": (
        lambda: logistic(changed(1, lambda X: X.rename(columns={"age": "age "}))),
        r"part 1 lacks the column age, which part 0 has \(is 'age ' meant to be 'age'\? .*has the columns 'age ', bmi",
    ),
    "fit_nodes: a name with an accent in two signs": (
        lambda: logistic(
            [(X.rename(columns={"age": "a\u0302ge" if k else "\u00e2ge"}), y) for k, (X, y) in enumerate(parts())]
        ),
        r"part 0 lacks the column 'a\\u0302ge', which part 1 has",
    ),
    "fit_nodes: a blank behind labels": (
        lambda: logistic(with_texts(1, lambda y: y + " ")),
        "part 1 has the labels 'no ', 'yes '; part 0: no, yes",
    ),
    "fit_nodes: a value whose square is infinite": (
        lambda: logistic(changed(1, lambda X: X.assign(crp=1e200))),
        "part 1: X holds 1e[+]200 at row 0, column 'crp', whose square is not finite; use another unit",
    ),
    "fit: a masked array": (
        lambda: glmesh.Ridge().fit(np.ma.masked_less(ROWS.to_numpy(), -1.0), COST),
        "X is a masked array, and masks are not heeded; impute",
    ),
    "fit: a masked target": (
        lambda: glmesh.Ridge().fit(ROWS, np.ma.masked_less(COST.to_numpy(), -1.0)),
        "y is a masked array",
    ),
    "fit: a sparse index outside the shape": (
        lambda: glmesh.Ridge().fit(sp.csr_array((np.ones(60), np.full(60, 7), np.arange(61)), shape=(60, 4)), COST),
        "X is no whole csr matrix: .*build it anew",
    ),
    "Problem.glm: a sparse index outside the shape": (
        lambda: Problem.glm(
            sp.csr_array((np.ones(60), np.full(60, 7), np.arange(61)), shape=(60, 4)), COST, loss="squared", alpha=1.0
        ),
        "no whole csr matrix",
    ),
    "Problem.glm: a target whose square is infinite": (
        lambda: Problem.glm(ROWS, COST.where(COST.index != 7, 1e200), loss="squared", alpha=1.0),
        "y holds 1e[+]200 at position 7, whose square is not finite",
    ),
    "Problem.from_nodes: targets in another order than their rows": (
        lambda: problem(changed(1, y=lambda y: y[::-1])),
        r"y of part 1 has the rows of X of part 1 in another order \(row 0 is 39, expected 20\); sort both",
    ),
    "Problem.from_nodes: rows in another order, split by features": (
        lambda: problem([(ROWS[["age"]], ILL), (ROWS[["bmi"]][::-1], ILL[::-1])], split="features"),
        r"part 1 has the rows of part 0 in another order \(row 0 is 59, expected 0\)",
    ),
    "fit_nodes: targets in another order than their rows": (
        lambda: logistic(changed(1, y=lambda y: y[::-1])),
        r"y of part 1 has the rows of X of part 1 in another order \(row 0 is 39, expected 20\); sort both",
    ),
    "fit_nodes: text in a column": (
        lambda: logistic(changed(1, lambda X: X.assign(sex="male"))),
        "part 1: X holds 'male' at row 0, column 'sex'; write numbers instead",
    ),
    "fit_nodes: dates in a column": (
        lambda: logistic(changed(1, lambda X: X.assign(age=pd.Timestamp("2020-01-01")))),
        "part 1: X holds Timestamp.* at row 0, column 'age'",
    ),
    # labels
    "fit_nodes: labels 1/2 at one of three": (
        lambda: logistic(changed(1, y=lambda y: y + 1)),
        r"part 1 does not fit: part 1 has the labels 1, 2; part 0: 0, 1, part 2: 0, 1; code the labels alike in all "
        r"parts, or say which there are: fit_nodes\(parts, classes=\[...\]\)",
    ),
    "fit_nodes: labels 1/2 at one of two": (
        lambda: logistic(changed(1, y=lambda y: y + 1)[:2]),
        "part 0, part 1 do not fit: part 0 has the labels 0, 1; part 1: 1, 2",
    ),
    "fit_nodes: texts and numbers as labels": (
        lambda: logistic(changed(2, y=lambda y: y.map({0.0: "no", 1.0: "yes"}))),
        r"part 2 has texts as labels \(no, yes\), part 0 numbers \(0, 1\)",
    ),
    "fit_nodes: Yes and yes": (
        lambda: logistic(with_texts(2, lambda y: y.str.title())),
        "part 2 does not fit: part 2 has the labels No, Yes; part 0: no, yes",
    ),
    "fit_nodes: a label that classes lacks": (
        lambda: logistic(changed(1, y=lambda y: y + 1), classes=[0, 1]),
        "part 1 has the label 2.0; classes are",
    ),
    "fit_nodes: a class that nobody has": (
        lambda: logistic(parts(), classes=[0, 1, 2]),
        "no part has the label 2, which classes has",
    ),
    "fit_nodes: a missing label": (
        lambda: logistic(changed(1, y=lambda y: y.where(y.index != 23))),
        "part 1: y holds NaN at row 3; impute or drop the row",
    ),
    "fit_nodes: a missing label among texts": (
        lambda: logistic(with_texts(1, lambda y: [None, *y[1:]])),
        "part 1: y holds NaN at row 0",
    ),
    # values
    "fit_nodes: NaN": (
        lambda: logistic(changed(2, lambda X: gap(X, 45))),
        "part 2: X holds NaN at row 5, column 'age'; impute or drop it first",
    ),
    "fit_nodes: infinity": (
        lambda: logistic(changed(2, lambda X: X.assign(crp=np.inf))),
        "part 2: X holds infinity at row 0, column 'crp'",
    ),
    "fit_nodes: NA of pandas": (
        lambda: logistic(changed(2, lambda X: X.assign(sex=pd.array([pd.NA] * 20, dtype="Int64")))),
        "part 2: X holds NaN at row 0, column 'sex'",
    ),
    "fit_nodes: NaN in a sparse part": (
        lambda: ridge([(sp.csr_array([[0.0, 1.0], [0.0, np.nan]]), [1.0, 2.0])]),
        "part 0: X holds NaN at row 1, column 1",
    ),
    "fit_nodes: a weight that is NaN": (
        lambda: ridge([(ROWS, COST, np.where(np.arange(60) == 7, np.nan, 1.0))]),
        "part 0: sample_weight holds NaN at row 7",
    ),
    "fit_nodes: a negative weight": (
        lambda: ridge([(ROWS, COST, np.where(np.arange(60) == 7, -1.0, 1.0))]),
        "part 0: sample_weight is negative at row 7",
    ),
    "fit_nodes: weights of another length": (
        lambda: ridge([(ROWS, COST, np.ones(9))]),
        r"part 0: X has 60 rows, sample_weight has shape \(9,\)",
    ),
    "fit_nodes: no rows at all": (lambda: logistic([(ROWS[:0], ILL[:0])] * 2), "none of the 2 parts has a row"),
    # splits
    "fit_nodes: widths that differ": (
        lambda: ridge([(ROWS.to_numpy()[:, :3], COST), (ROWS.to_numpy()[:, 3:], COST)]),
        "the parts have 3, 1 columns; split by samples all have the same features. .*say split='features' if",
    ),
    "fit_nodes: hinge without a penalty": (
        lambda: glmesh.GLMClassifier("hinge", alpha=0.0).fit_nodes(parts()),
        "cannot be split by samples.* fit_nodes takes parts as rows unless told otherwise: say split='features'",
    ),
    "fit_nodes: features with a name in two parts": (
        lambda: ridge([(ROWS[["age", "bmi"]], COST), (ROWS[["crp", "age"]], COST)], split="features"),
        "part 1 has the column 'age', and so has part 0; split by features each column is in one part only",
    ),
    "fit_nodes: features, one part without names": (
        lambda: ridge([(ROWS[["age"]], COST), (ROWS[["crp"]].to_numpy(), COST)], split="features"),
        "part 0, part 1 do not fit: part 0 has a header; part 1: has no header; give all parts names, or none",
    ),
    "fit_nodes: features with other targets": (
        lambda: ridge([(ROWS[["age"]], COST), (ROWS[["crp"]], COST + 1)], split="features"),
        "every node holds the same y and sample_weight; they differ",
    ),
    # pooled
    "fit: targets in another order than their rows": (
        lambda: glmesh.Ridge().fit(ROWS, COST.iloc[::-1]),
        "y has the rows of X in another order",
    ),
    "fit: weights in another order than their rows": (
        lambda: glmesh.Ridge().fit(ROWS, COST, (COST * 0 + 1).iloc[::-1]),
        "sample_weight has the rows of X in another order",
    ),
    "fit_nodes: weights in another order than their rows": (
        lambda: glmesh.Ridge().fit_nodes([(ROWS, COST, (COST * 0 + 1).iloc[::-1])]),
        "sample_weight of part 0 has the rows of X of part 0 in another order",
    ),
    "fit_nodes: a generator": (lambda: glmesh.Ridge().fit_nodes(iter([(ROWS, COST)])), "not a list: give one"),
    "fit_nodes: None": (lambda: glmesh.Ridge().fit_nodes(None), "parts is None, not a list"),
    "fit: dates": (
        lambda: glmesh.Ridge().fit(np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")[:, None], [1.0, 2.0]),
        "X holds datetime64.*; numbers are needed",
    ),
    "fit: dates as targets": (
        lambda: glmesh.Ridge().fit([[1.0], [2.0]], np.array(["2020-01-01", "2020-01-02"], "datetime64[D]")),
        "y holds datetime64.*; numbers are needed",
    ),
    "fit: lengths of time": (
        lambda: glmesh.Ridge().fit(np.array([[1], [2]], "timedelta64[D]"), [1.0, 2.0]),
        "X holds timedelta64.*; numbers are needed",
    ),
    "fit: an offset in another order than its rows": (
        lambda: counts().fit(ROWS, ILL, offset=COST[::-1]),
        "offset has the rows of X in another order",
    ),
    "fit: an offset with a gap": (
        lambda: counts().fit(ROWS, ILL, offset=COST.where(COST.index != 3)),
        "offset holds NaN at row 3",
    ),
    "fit: an offset that overflows": (
        lambda: counts().fit(ROWS, ILL, offset=COST.where(COST.index != 3, 1e300)),
        r"offset holds 1e\+300 at row 3",
    ),
    "fit: an offset of text": (
        lambda: counts().fit(ROWS, ILL, offset=TEXT),
        "offset holds values that are no numbers; give a number per row",
    ),
    "fit: clusters in another order than their rows": (
        lambda: counts().fit(ROWS, ILL, clusters=TEXT[::-1]),
        "clusters has the rows of X in another order",
    ),
    "fit_nodes: an offset in another order than its rows": (
        lambda: counts().fit_nodes([(ROWS, ILL, None, COST), (ROWS, ILL, None, COST[::-1])]),
        "offset of part 1 has the rows of X of part 1 in another order",
    ),
    "fit_nodes: clusters in another order than their rows": (
        lambda: counts().fit_nodes([(ROWS, ILL), (ROWS, ILL)], clusters=[TEXT, TEXT[::-1]]),
        "clusters of part 1 has the rows of X of part 1 in another order",
    ),
    "predict: an offset in another order than its rows": (
        lambda: counts().fit(ROWS, ILL, offset=COST).predict(ROWS, offset=COST[::-1]),
        "offset has the rows of X in another order",
    ),
    "predict: an offset as a column": (
        lambda: counts().fit(ROWS, ILL, offset=COST).predict(ROWS, offset=COST.to_frame()),
        r"offset has shape \(60, 1\); X has 60 rows, and each needs one",
    ),
    "predict_interval: an offset in another order than its rows": (
        lambda: counts().fit(ROWS, ILL, offset=COST).predict_interval(ROWS, offset=COST[::-1]),
        "offset has the rows of X in another order",
    ),
    "Problem.glm: an offset in another order than its rows": (
        lambda: Problem.glm(ROWS, ILL, family="poisson", offset=COST[::-1]),
        "offset of X has the rows of X in another order",
    ),
    "Problem.from_nodes: an offset in another order than its rows": (
        lambda: Problem.from_nodes([(ROWS, ILL), (ROWS, ILL)], family="poisson", offsets=[COST, COST[::-1]]),
        "offset of part 1 has the rows of X of part 1 in another order",
    ),
    "Problem.glm: targets in another order than their rows": (
        lambda: glmesh.Problem.glm(ROWS, COST.iloc[::-1]),
        "y has the rows of X in another order",
    ),
    "Problem.glm: weights that are all 0": (
        lambda: glmesh.Problem.glm(ROWS, COST, sample_weight=np.zeros(len(COST))),
        "sample_weight is 0 for all rows",
    ),
    "fit: NaN by name": (
        lambda: glmesh.Ridge().fit(gap(ROWS, 4), COST),
        "X holds NaN at row 4, column 'age'",
    ),
    "fit: infinity by position": (
        lambda: glmesh.Ridge().fit(np.where(np.eye(60, 4, -9) > 0, np.inf, ROWS), COST),
        "X holds infinity at row 9, column 0",
    ),
    "fit: NaN in y": (lambda: glmesh.Ridge().fit(ROWS, COST.where(COST.index != 8)), "y holds NaN at row 8"),
    "fit: a missing label": (
        lambda: glmesh.LogisticRegression().fit(ROWS, [None, *TEXT[1:]]),
        "y holds NaN at row 0",
    ),
    "fit: NaN in weights": (
        lambda: glmesh.Ridge().fit(ROWS, COST, np.where(np.arange(60) == 7, np.nan, 1.0)),
        "sample_weight holds NaN at row 7",
    ),
    "fit: text": (
        lambda: glmesh.Ridge().fit(ROWS.assign(sex="m"), COST),
        "X holds 'm' at row 0, column 'sex'; write numbers",
    ),
    "fit: doubled": (
        lambda: glmesh.Ridge().fit(ROWS.set_axis(["a", "b", "a", "c"], axis=1), COST),
        "X has the column 'a' twice",
    ),
    "lasso_path: NaN": (lambda: glmesh.lasso_path(gap(ROWS, 4), COST), "X holds NaN at row 4, column 'age'"),
    "predict: NaN": (
        lambda: REFERENCE.predict(gap(ROWS, 4)),
        "X holds NaN at row 4, column 'age'",
    ),
    "predict: another order": (lambda: REFERENCE.predict(ROWS[OTHER_ORDER]), "feature names"),
    "predict: a missing column": (lambda: REFERENCE.predict(ROWS[["age", "bmi", "crp"]]), "missing:\n- sex"),
    # Problem
    "Problem.from_nodes: a missing column": (
        lambda: problem(changed(1, lambda X: X.drop(columns="crp"))),
        "part 1 lacks the column crp, which part 0 has; has the columns age, bmi, sex; part 0: has",
    ),
    "Problem.from_nodes: one part without names": (
        lambda: problem(changed(1, lambda X: X.to_numpy())),
        "part 1 does not fit: part 1 has no header",
    ),
    "Problem.from_nodes: a doubled column": (
        lambda: problem(changed(1, lambda X: X.set_axis(["age", "bmi", "age", "sex"], axis=1))),
        "X of node 1 has the column 'age' twice",
    ),
    "Problem.from_nodes: labels 1/2": (
        lambda: problem(changed(1, y=lambda y: y + 1)),
        "part 1 does not fit: part 1 has the labels 1, 2; part 0: 0, 1",
    ),
    "Problem.from_nodes: another target": (
        lambda: problem(changed(1, y=lambda y: y.rename("dead"))),
        "part 1 has the target 'dead'",
    ),
    "Problem.from_nodes: NaN": (
        lambda: problem(changed(2, lambda X: gap(X, 45))),
        "X of node 2 holds NaN at row 5, column 'age'",
    ),
    "Problem.from_nodes: texts as labels": (lambda: problem(parts(y=TEXT)), "y of node 0 holds '(no|yes)'"),
    "Problem.from_nodes: features with a name in two parts": (
        lambda: problem([(ROWS[["age", "bmi"]], ILL), (ROWS[["crp", "age"]], ILL)], split="features"),
        "part 1 has the column 'age', and so has part 0",
    ),
    "Problem.glm: text": (
        lambda: Problem.glm(ROWS.assign(sex="m"), COST),
        "X holds 'm' at row 0, column 'sex'; write numbers",
    ),
    "Problem.glm: a missing value": (
        lambda: Problem.glm(gap(ROWS, 3), COST),
        "X holds NaN at row 3, column 'age'",
    ),
    "Problem.glm: a missing target": (
        lambda: Problem.glm(ROWS, COST.where(COST.index != 8)),
        "y holds NaN at position 8",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_the_place_and_what_would_do(case):
    act, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        act()


def test_parts_of_frames_keep_their_names_and_files_do(tmp_path):
    model = logistic(LAST_FIRST)
    assert model.feature_names_in_.tolist() == NAMES
    model.save(tmp_path / "model.npz")
    stored = model_files.load(tmp_path / "model.npz")
    assert stored.names == tuple(NAMES)
    assert (stored.contract.target, stored.contract.labels, stored.is_share) == ("ill", (0.0, 1.0), False)
    again = glmesh.load_model(tmp_path / "model.npz")
    assert again.feature_names_in_.tolist() == NAMES
    with pytest.raises(ValueError, match="feature names"):
        again.predict(ROWS[OTHER_ORDER])
    again.save(tmp_path / "again.npz")
    assert model_files.load(tmp_path / "again.npz").contract == stored.contract
    logistic([(X.to_numpy(), y.to_numpy()) for X, y in parts()]).save(tmp_path / "plain.npz")
    assert model_files.load(tmp_path / "plain.npz").contract is None


def test_features_apart_have_the_names_of_all_parts():
    apart = [(ROWS[["sex", "age"]], COST), (ROWS[["bmi", "crp"]], COST)]
    model = ridge(apart, split="features")
    assert model.feature_names_in_.tolist() == ["sex", "age", "bmi", "crp"]
    np.testing.assert_allclose(model.coef_, ridge(parts(y=COST)).coef_[[3, 0, 1, 2]], atol=1e-3)
    assert problem(apart, loss="squared", split="features").feature_names == ("sex", "age", "bmi", "crp")


def test_a_later_fit_without_names_forgets_the_names():
    model = glmesh.Ridge(n_nodes=2, tol=1e-3).fit_nodes(parts(y=COST))
    model.fit_nodes([(ROWS.to_numpy(), COST)])
    assert not hasattr(model, "feature_names_in_")


def test_three_classes_that_parts_hold_unequally_are_right_when_they_are_said():
    y = np.digitize(SCORE, [-0.7, 0.7])
    order = np.argsort(y, kind="stable")
    apart = [(ROWS.iloc[rows], y[rows]) for rows in np.array_split(order, 3)]
    with pytest.raises(Mismatch, match=r"part 1 does not fit.*fit_nodes\(parts, classes="):
        logistic(apart)
    model = logistic(apart, classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    pooled = glmesh.LogisticRegression(n_nodes=3, **LOGISTIC).fit(ROWS, y)
    np.testing.assert_allclose(model.coef_, pooled.coef_, atol=1e-3)


def test_problems_keep_names_through_everything():
    options = {"stop": "rounds", "max_rounds": 40}
    apart, same = problem(LAST_FIRST), problem(parts())
    assert apart.feature_names == tuple(NAMES)
    np.testing.assert_array_equal(solve(apart, **options).coef, solve(same, **options).coef)
    pooled = Problem.glm(ROWS, COST)
    assert pooled.feature_names == tuple(NAMES)
    assert Problem.glm(ROWS.to_numpy(), COST).feature_names is None
    assert pooled.with_alpha(2.0).feature_names == tuple(NAMES)
    assert pooled.shrunk(0, np.array([3, 1])).feature_names == ("sex", "bmi")
    assert problem_of(problem_tree(pooled)).feature_names == tuple(NAMES)


def test_new_rows_of_a_frame_go_by_name():
    before = problem(parts(ends=(20, 40)))
    grown = [before.grown(0, new, ILL[:5]) for new in (ROWS[:5], ROWS[:5][OTHER_ORDER])]
    np.testing.assert_array_equal(*(one.parts[0].columns.data for one in grown))
    with pytest.raises(InvalidInput, match=r"X of node 0 \(new\): lacks the column sex; expected age, bmi, crp, sex"):
        before.grown(0, ROWS[:5].drop(columns="sex"), ILL[:5])


def test_one_sites_share_is_no_estimator(tmp_path):
    share = model_files.Model(np.ones(2), 0.0, "squared", "l2", 1.0, 0.0, info={"node": "alice", "split": "features"})
    share.save(tmp_path / "model.npz")
    with pytest.raises(InvalidInput, match=r"one site's columns only.*glmesh predict MODEL DATA --node"):
        glmesh.load_model(tmp_path / "model.npz")
