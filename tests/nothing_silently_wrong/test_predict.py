"""Tables that do not fit the model, given to `glmesh predict`.

A case is (the model, the file's text, more options) and either what must be printed (`RIGHT`: lines on stdout, words on
stderr) or the words of the refusal (`REFUSED`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from glmesh.contract import Column, Contract
from glmesh.files.model_files import Model
from tests.cli.calls import fails, run

COLUMNS = (Column("age"), Column("bmi"), Column("sex", "boolean"))
# 1 if age > 50 or so; bmi counts a little
NUMBERS = Model(
    np.array([1.0, 0.125, 0.0]),
    -50.0,
    "logistic",
    "l2",
    1.0,
    0.0,
    (0.0, 1.0),
    contract=Contract("ill", COLUMNS, (0.0, 1.0), ids="patient"),
)
TEXTS = replace(NUMBERS, classes=("no", "yes"), contract=replace(NUMBERS.contract, labels=("no", "yes")))
THREE = replace(
    NUMBERS,
    coef=np.array([[-1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]),
    intercept=np.array([30.0, 0.0, -60.0]),
    classes=("old", "middle", "young")[::-1],
    contract=replace(NUMBERS.contract, labels=("middle", "old", "young")),
)
COST = replace(NUMBERS, classes=None, loss="squared", contract=Contract("cost", COLUMNS))
PLAIN = replace(NUMBERS, contract=None)
PLAIN_COST = replace(COST, contract=None)
OLD = replace(PLAIN, version=2)
SHARE = replace(NUMBERS, contract=replace(NUMBERS.contract, split="features"), info={"node": "alice"})
PARTLY = replace(NUMBERS, federation="f", sites=("alice", "bob", "carol"), without=("dora",))

TABLE = "age,bmi,sex,ill\n30,20,0,0\n60,24,1,1\n47,25,1,1\n"
NO_Y = "age,bmi,sex\n30,20,0\n60,24,1\n47,25,1\n"
ANSWERS = ["0", "1", "1"]

RIGHT = {
    "the table it was trained on": (NUMBERS, TABLE, [], ANSWERS, "3 predictions; accuracy 100.00 % (3 of 3)"),
    "another order": (
        NUMBERS,
        "ill,sex,bmi,age\n0,0,20,30\n1,1,24,60\n1,1,25,47\n",
        [],
        ANSWERS,
        "the columns stand in another order; they were put in order by name",
    ),
    "no target": (NUMBERS, NO_Y, [], ANSWERS, "3 predictions\n"),
    "an id in front": (
        NUMBERS,
        "patient,age,bmi,sex,ill\n9001,30,20,0,0\n9002,60,24,1,0\n9003,47,25,1,1\n",
        [],
        ANSWERS,
        "columns that are not used: patient\n3 predictions; accuracy 66.67 % (2 of 3)",
    ),
    "a text in front": (
        NUMBERS,
        "patient,age,bmi,sex\nann,30,20,0\nben,60,24,1\ncat,47,25,1\n",
        [],
        ANSWERS,
        "columns that are not used: patient",
    ),
    "the target in front, by another name": (
        NUMBERS,
        "sick,age,bmi,sex\n0,30,20,0\n1,60,24,1\n0,47,25,1\n",
        ["--target", "sick"],
        ANSWERS,
        "accuracy 66.67 % (2 of 3)",
    ),
    "a missing value, left empty": (
        NUMBERS,
        "age,bmi,sex,ill\n30,,0,0\n60,24,1,1\n47,25,1,0\n",
        ["--missing", "empty"],
        ["", "1", "1"],
        "2 predictions; 1 row with a missing value has an empty answer; accuracy 50.00 % (1 of 2)",
    ),
    "infinity, left empty": (
        NUMBERS,
        "age,bmi,sex\n30,20,0\n60,inf,1\nNA,25,1\n",
        ["--missing", "empty"],
        ["0", "", ""],
        "1 prediction; 2 rows with a missing value have an empty answer",
    ),
    "a missing label": (NUMBERS, TABLE.replace("0,0\n", "0,\n"), [], ANSWERS, "accuracy 100.00 % (2 of 2)"),
    "all labels missing": (NUMBERS, "age,bmi,sex,ill\n30,20,0,\n60,24,1,\n", [], ["0", "1"], "2 predictions\n"),
    "other labels": (
        NUMBERS,
        "age,bmi,sex,ill\n30,20,0,1\n60,24,1,2\n",
        [],
        ["0", "1"],
        "y holds other labels (1, 2) than the model's, so there is no accuracy",
    ),
    "text labels": (
        TEXTS,
        "age,bmi,sex,ill\n30,20,0,no\n60,24,1,no\n47,25,1,yes\n",
        [],
        ["no", "yes", "yes"],
        "accuracy 66.67 % (2 of 3)",
    ),
    "text labels, and numbers in the file": (TEXTS, TABLE, [], ["no", "yes", "yes"], "y holds other labels (0, 1)"),
    "three classes": (
        THREE,
        "age,bmi,sex,ill\n20,1,0,young\n45,1,0,middle\n70,1,1,young\n",
        [],
        ["young", "middle", "old"],
        "accuracy 66.67 % (2 of 3)",
    ),
    "a regression": (COST, NO_Y, [], ["-17.5", "13.0", "0.125"], "3 predictions\n"),
    "a regression whose target is text": (
        COST,
        "age,bmi,sex,cost\n60,24,1,much\n",
        [],
        ["13.0"],
        "y holds other labels (much)",
    ),
    "decimal commas": (NUMBERS, "age;bmi;sex\n30,5;20,5;0\n60,0;24,0;1\n", [], ["0", "1"], "2 predictions\n"),
    "without a site": (PARTLY, NO_Y, [], ANSWERS, "3 predictions; the model is without dora (3 of 4 sites)"),
    "no names: by position, said aloud": (
        PLAIN,
        NO_Y,
        [],
        ANSWERS,
        "has no names of features, since it was trained on data without names; columns go by position\n3 pred",
    ),
    "no names, and y behind": (
        PLAIN,
        TABLE,
        [],
        ANSWERS,
        "columns go by position; the last one, 'ill', is taken for y\n3 predictions; accuracy 100.00 % (3 of 3)",
    ),
    "no names, no header": (PLAIN, "30,20,0,0\n60,24,1,0\n", [], ["0", "1"], "the last one is taken for y"),
    "no names, the target said by name": (
        PLAIN,
        "ill,age,bmi,sex\n0,30,20,0\n0,60,24,1\n",
        ["--target", "ill"],
        ["0", "1"],
        "2 predictions; accuracy 50.00 % (1 of 2)",
    ),
    "no names, the target known from training": (
        replace(PLAIN, contract=Contract("ill", tuple(Column(f"column {k}") for k in range(3)), header=False)),
        "ill,age,bmi,sex\n0,30,20,0\n0,60,24,1\n",
        [],
        ["0", "1"],
        "2 predictions; accuracy 50.00 % (1 of 2)",
    ),
    "integers above: said to be data": (
        PLAIN,
        "30,20,0\n60.5,24.5,1\n",
        ["--header", "no"],
        ["0", "1"],
        "columns go by position",
    ),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(model, text):
    model.save("model.npz")
    Path("new.csv").write_text(text)
    return "model.npz", "new.csv"


@pytest.mark.parametrize("case", RIGHT)
def test_what_fits_or_can_be_put_right_is_answered(case, capsys):
    model, text, options, answers, words = RIGHT[case]
    assert run("predict", *written(model, text), *options) == 0
    out, err = capsys.readouterr()
    assert [line if not line or model.classes else repr(float(line)) for line in out.splitlines()] == answers
    assert words in err


REFUSED = {
    "a missing feature": (
        NUMBERS,
        "age,sex,ill\n30,0,0\n",
        [],
        "new.csv: lacks the column bmi; expected age, bmi, sex; the file has age, sex",
    ),
    "a feature by nearly its name": (
        NUMBERS,
        "age,BMI,sex\n30,20,0\n",
        [],
        r"lacks the column bmi \(is 'BMI' meant to be 'bmi'\? rename it\)",
    ),
    "a doubled feature": (NUMBERS, "age,bmi,age,sex\n30,20,30,0\n", [], "has the column 'age' twice"),
    "no header": (NUMBERS, "30,20,0\n60,24,1\n", [], "has no header, so its columns cannot be found by name"),
    "text in a feature": (NUMBERS, "age,bmi,sex\n30,20,0\nold,24,1\n", [], "age has text; write numbers"),
    "text where 0 and 1 are expected": (NUMBERS, "age,bmi,sex\n30,20,m\n60,24,f\n", [], "sex has text"),
    "1/2 where 0 and 1 are expected": (
        NUMBERS,
        "age,bmi,sex\n30,20,1\n60,24,2\n",
        [],
        "column 'sex' must hold 0 and 1 only, and does not: line 3 holds 2",
    ),
    "a missing value": (
        NUMBERS,
        "age,bmi,sex,ill\n30,20,0,0\n60,,1,1\n",
        [],
        "new.csv, line 3, column 'bmi': holds a missing value; fill it in, or .* --missing empty",
    ),
    "infinity": (NUMBERS, "age,bmi,sex\ninf,20,0\n", [], "new.csv, line 2, column 'age': holds infinity"),
    "a target that is not there": (NUMBERS, NO_Y, ["--target", "sick"], "target='sick' names 0 columns"),
    "a feature as the target": (NUMBERS, NO_Y, ["--target", "age"], "lacks the column age"),
    "one site's share": (
        SHARE,
        NO_Y,
        [],
        "holds the coefficients of alice's columns only, since the federation is split by features.* --node NODE.toml",
    ),
    "one site's share, version 2": (
        replace(PLAIN, info={"node": "alice", "split": "features"}),
        NO_Y,
        [],
        "coefficients of alice's columns only",
    ),
    "empty answers with other sites": (
        SHARE,
        NO_Y,
        ["--missing", "empty", "--node", "alice.toml"],
        "--missing empty: does not go with --node",
    ),
    "no names: too many columns": (
        PLAIN,
        "a,b,c,d,e\n1,2,3,4,5\n",
        [],
        r"new.csv: has 5 columns, and model.npz takes 3 features by position \(it has no names of features",
    ),
    "no names: too few columns": (PLAIN, "a,b\n1,2\n", [], "has 2 columns, and model.npz takes 3 features"),
    "no names, the target said: too few columns": (
        PLAIN,
        "a,b,c\n1,2,3\n",
        ["--target", "c"],
        "has 2 columns and the target 'c', and model.npz takes 3",
    ),
    "no names: an id in front and no y": (
        PLAIN,
        "id,age,bmi,sex\n9001,30,20,2\n9002,60,24,3\n",
        [],
        r"the last column, which would be y, holds other values than the model's labels \(0, 1\); give 3 columns",
    ),
    "no names: text": (PLAIN, "age,bmi,sex\n30,20,m\n", [], "sex hold text; the model takes 3 columns of numbers"),
    "no names: a missing value": (PLAIN, "30,20,0\n60,NA,1\n", [], "line 2, column 1: holds a missing value"),
    "no probabilities": (COST, NO_Y, ["--probability"], "the squared loss has none"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_the_place_and_what_would_do(case, capsys):
    model, text, options, words = REFUSED[case]
    shown = fails(capsys, "predict", *written(model, text), *options)
    assert re.search(words, shown), shown
    assert capsys.readouterr().out == ""


def test_files_of_version_2_say_what_they_lack(capsys, monkeypatch):
    monkeypatch.setattr("glmesh.files.model_files.load", lambda path: OLD)
    assert run("predict", *written(OLD, NO_Y)) == 0
    assert "model.npz: is a model file of version 2, which has no names of features, target and sites; columns go by " \
        "position" in capsys.readouterr().err  # fmt: skip


def test_probabilities_of_three_classes_are_columns(capsys):
    assert run("predict", *written(THREE, NO_Y), "--probability") == 0
    shown = np.array([[float(cell) for cell in line.split(",")] for line in capsys.readouterr().out.splitlines()])
    np.testing.assert_array_equal(shown, THREE.predict_probability(np.array([[30.0, 0, 0], [60, 0, 0], [47, 0, 0]])))
    np.testing.assert_allclose(shown.sum(axis=1), 1.0)


def test_svmlight_has_no_names_so_a_model_with_names_refuses_it(capsys):
    dump_svmlight_file(np.ones((2, 3)), [0, 1], "new.svm", zero_based=False)
    NUMBERS.save("model.npz")
    assert "cannot be found by name" in fails(capsys, "predict", "model.npz", "new.svm")
    PLAIN.save("model.npz")
    assert run("predict", "model.npz", "new.svm") == 0
    assert capsys.readouterr().err == "2 predictions; accuracy 50.00 % (1 of 2)\n"
    dump_svmlight_file(np.ones((2, 5)), [0, 1], "wide.svm", zero_based=False)
    assert "5" in fails(capsys, "predict", "model.npz", "wide.svm")


def test_other_encodings_are_read_when_said(capsys):
    NUMBERS.save("model.npz")
    Path("new.csv").write_bytes("größe,age,bmi,sex\n1,30,20,0\n".encode("latin-1"))
    assert run("predict", "model.npz", "new.csv", "--encoding", "latin-1") == 0
    assert "columns that are not used: größe" in capsys.readouterr().err
