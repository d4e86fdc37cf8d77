"""Files as people and programs really write them, given to `train` and `describe`: read right, or refused by name.

A case either makes the model of the plain table (`RIGHT`) or is refused with words that say where and what would do.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from glmesh.files import model_files
from tests.cli.calls import FAST, fails, run

rng = np.random.default_rng(4)
X = np.column_stack([rng.normal(0.5, 1, 60).round(3), rng.normal(0, 1, 60).round(3), rng.integers(0, 2, 60)])
ILL = (X @ [1.0, -1.0, 0.5] + rng.normal(0, 0.5, 60) > 0.4).astype(int)
ROWS = [[*(f"{value:g}" for value in row), str(y)] for row, y in zip(X, ILL, strict=True)]
NAMES = ["age", "bmi", "male", "ill"]
COEF = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10).fit(X, ILL).coef_[0]
LOGISTIC = ["--model", "logistic"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table(rows=ROWS, names=NAMES, mark=",", end="\n") -> str:
    return "".join(mark.join(cells) + end for cells in ([names, *rows] if names else rows))


def cell(row, column, text):
    """The rows, with another text in one cell."""
    return [[text if (k, j) == (row, column) else old for j, old in enumerate(cells)] for k, cells in enumerate(ROWS)]


def column(j, change):
    """The rows, with column j changed: a function of row number and cell."""
    return [[change(k, old) if i == j else old for i, old in enumerate(cells)] for k, cells in enumerate(ROWS)]


def labels(no, yes):
    return table(column(3, lambda k, old: (no, yes)[int(old)]))


def in_front(name, cells):
    return table([[one, *row] for one, row in zip(cells, ROWS, strict=True)], [name, *NAMES])


def zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("ill.csv", table())
    return content.getvalue()


COMMAS = [[one.replace(".", ",") for one in row] for row in ROWS]
HEAD, *BODY = table().splitlines(keepends=True)

# content, names of the features in the model
RIGHT = {
    "a byte order mark": ("\ufeff" + table(), NAMES),
    "UTF-32": (table().encode("utf-32"), NAMES),
    "UTF-16 of another byte order": (("\ufeff" + table()).encode("utf-16-be"), NAMES),
    "blank lines in the middle": (HEAD + "".join(BODY[:9]) + "\n   \n" + "".join(BODY[9:]), NAMES),
    "line ends of old Macs": (table(end="\r"), NAMES),
    "two kinds of line ends": (HEAD.replace("\n", "\r\n") + "".join(BODY), NAMES),
    "a line end within a name": (table(names=["age", '"body\nmass"', "male", "ill"]), ["age", "body\nmass", "male"]),
    "a delimiter behind every row": (table([[*row, ""] for row in ROWS]), NAMES),
    "a delimiter behind one row": (table([*ROWS[:9], [*ROWS[9], ""], *ROWS[10:]]), NAMES),
    "blanks around cells": (table(mark=" , "), NAMES),
    "blanks around names": (table(names=["age ", " bmi", "male", "ill "]), NAMES),
    "bars between cells": (table(mark="|"), NAMES),
    "the separator line of Excel": ("sep=;\n" + table(mark=";"), NAMES),
    "decimal commas": (table(COMMAS, mark=";"), NAMES),
    "a plus sign": (table(column(0, lambda k, old: old if old[0] == "-" else f"+{old}")), NAMES),
    "labels TRUE and false": (labels("false", "TRUE"), NAMES),
    "labels 1 and 2": (labels("1", "2"), NAMES),
    "labels 0 and 0.0": (table(column(3, lambda k, old: old if k % 2 else f"{old}.0")), NAMES),
    "labels 0.3 and 0.7": (labels("0.3", "0.7"), NAMES),
    "labels with blanks": (labels("not ill", "very ill"), NAMES),
    "labels with a blank behind some": (table(column(3, lambda k, old: ("no", "yes ")[int(old)][: 3 + k % 2])), NAMES),
    "an accent in two signs": (table(names=["a\u0302ge", *NAMES[1:]]), ["\u00e2ge", "bmi", "male"]),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT)
def test_what_can_be_read_makes_the_model_of_the_plain_table(case):
    content, names = RIGHT[case]
    Path("ill.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert run("train", "ill.csv", *LOGISTIC, *FAST, "--tol", 1e-9, "--quiet") == 0
    model = model_files.load("glmesh-model.npz")
    assert model.names == tuple(names[:3])
    np.testing.assert_allclose(model.coef, COEF, atol=2e-4)
    assert run("describe", "ill.csv") == 0


MARKS = ["without thousands separators"]
FINITE = ["column age", "finite", "line 7 holds"]
TITLE = ["delete all lines above the names"]
LABELS = ["the target 'ill' has the labels", "needs two", "--target"]
WEIGHTED = ["--sample-weight", "w"]

# content, options, words of the refusal; all name the file
REFUSED = {
    "nothing": ("", [], ["no samples"]),
    "blank lines": ("\n\n", [], ["no samples"]),
    "names only": (HEAD, [], ["no samples"]),
    "one column": (table([row[:1] for row in ROWS], ["age"]), [], ["1 column", "no feature"]),
    "a cell too many": (table([*ROWS[:5], [*ROWS[5], "3"], *ROWS[6:]]), [], ["line 7", "5 cells, expected 4"]),
    "a cell too few": (table([*ROWS[:5], ROWS[5][:3], *ROWS[6:]]), [], ["line 7", "3 cells, expected 4"]),
    "a title above": ("Patients of 2024\n" + table(), [], ["line 1 looks like a title", *TITLE]),
    "a title in a row of cells": ("Patients,,,\n" + table(), [], ["the column after 'Patients'", *TITLE]),
    "a footer": (table() + "exported today\n", [], ["line 62", "1 cell, expected 4"]),
    "a row of totals": (table([*ROWS, ["Total", "", "", "60"]]), [], ["column age has text", "line 62 holds 'Total'"]),
    "units below the names": (table([["years", "kg", "", ""], *ROWS]), [], ["have text", "line 2 holds 'years'"]),
    "the names once more": (table([*ROWS[:30], NAMES, *ROWS[30:]]), [], ["have text", "line 32 holds 'age'"]),
    "a cell of 200,000 letters": (table(cell(5, 0, "x" * 200_000)), [], ["line 7", "field limit"]),
    "a comment in the middle": ("".join([HEAD, *BODY[:9], "# 1,2,3,0\n", *BODY[9:]]), [], ["line 11 holds '# 1'"]),
    "a currency sign": (table(cell(5, 0, "$12")), [], ["line 7 holds '$12'", *MARKS]),
    "a bound": (table(cell(5, 0, "<0.5")), [], ["line 7 holds '<0.5'"]),
    "a minus behind": (table(cell(5, 0, "3-")), [], ["line 7 holds '3-'"]),
    "times of day": (table(column(1, lambda k, old: f"12:{k:02d}")), [], ["column bmi has text", "12:00"]),
    "JSON lines": ('{"age":1,"ill":0}\n{"age":2,"ill":1}\n', [], ["JSON"]),
    "a quote that never ends": (table(cell(5, 0, '"12')), [], ["line 7", "quoted"]),
    "a line end within a number": (table(cell(5, 1, '"1\n2"')), [], ["column bmi has text", "line 7"]),
    "a name that is missing": (table(names=["age", "", "male", "ill"]), [], ["the column after 'age'", "line 1"]),
    "a target that occurs twice": (table(names=["age", "ill", "male", "ill"]), [], ["the column 'ill' twice"]),
    "names that look alike": (table(names=["\u00e9", "e\u0301", "male", "ill"]), [], ["the column '\u00e9' twice"]),
    "a comma for thousands": (table(cell(5, 0, '"1,234"')), [], ["line 7 holds '1,234'", *MARKS]),
    "a blank for thousands": (table(cell(5, 0, "1 234")), [], ["line 7 holds '1 234'", *MARKS]),
    "a point for thousands": (
        table([*COMMAS[:5], ["1.234,5", *COMMAS[5][1:]], *COMMAS[6:]], mark=";"), [],
        ["line 7 holds '1.234,5'", *MARKS],
    ),
    "both decimal marks": (table([*COMMAS[:20], *ROWS[20:]], mark=";"), [], ["line 2 holds '", *MARKS]),
    "a per cent sign": (table(cell(5, 0, "12%")), [], ["line 7 holds '12%'", *MARKS]),
    "a hexadecimal number": (table(cell(5, 0, "0x1F")), [], ["line 7 holds '0x1F'"]),
    "an underscore": (table(cell(5, 0, "1_000")), [], ["line 7 holds '1_000'"]),
    "digits of another script": (table(cell(5, 0, "\u0661\u0662")), [], ["column age has text", "line 7"]),
    "a typographic minus": (table(cell(5, 0, "\u22121")), [], ["column age has text", "line 7"]),
    "an error of Excel": (table(cell(5, 0, "#DIV/0!")), [], ["line 7 holds '#DIV/0!'"]),
    "a number beyond float64": (table(cell(5, 0, "1e400")), [], FINITE),
    "a number whose square is": (table(cell(5, 0, "1e200")), [], FINITE),
    "a target beyond float64": (
        table(cell(5, 3, "1e400")), ["--model", "ridge"], ["column ill", "finite", "line 7 holds inf"],
    ),
    "dates as labels": (table(column(3, lambda k, old: f"2020-01-{1 + k % 28:02d}")), [], [*LABELS, "2020-01-01"]),
    "labels that differ in case": (
        table(cell(5, 3, "Yes" if ILL[5] else "No")).replace(",1\n", ",yes\n").replace(",0\n", ",no\n"), [], LABELS,
    ),
    "true, false, 0 and 1": (
        table(column(3, lambda k, old: old if k % 2 else ("False", "True")[int(old)])), [],
        [*LABELS, "0, 1, False, True"],
    ),
    "three labels as texts": (table(cell(5, 3, "maybe")), [], [*LABELS, "0, 1, maybe", "line 7 holds maybe"]),
    "one label": (labels("ill", "ill"), [], ["one label only, ill", "needs two"]),
    "a column without values": (table(column(1, lambda k, old: "")), [], ["column bmi has missing values", "line 2"]),
    "a weight as text": (in_front("w", ["1", "1", "two", *["1"] * 57]), WEIGHTED, ["line 4", "(w)", "weight"]),
    "a missing weight": (in_front("w", ["1", "1", "NA", *["1"] * 57]), WEIGHTED, ["line 4", "(w)", "weight"]),
    "an infinite weight": (in_front("w", ["1", "1", "inf", *["1"] * 57]), WEIGHTED, ["line 4", "weight >= 0"]),
    "weights that are all 0": (in_front("w", ["0"] * 60), WEIGHTED, ["all sample weights are 0"]),
    "an id that two rows have": (in_front("id", [*map(str, range(59)), "7"]), ["--ids", "id"], ["'7'", "lines 9 and"]),
    "a zero byte": (table(cell(5, 0, "1\0")), [], ["zero bytes", "utf-16-le"]),
    "letters of latin-1": (table(names=["\u00e2ge", "bmi", "male", "ill"]).encode("latin-1"), [], ["line 1", "UTF-8"]),
    "an archive": (zipped(), [], ["zip archive", "unpack"]),
    "gzip data": (gzip.compress(table().encode()), [], ["gzip data", ".gz"]),
    "a web page": ("<!DOCTYPE html>\n<p>Please log in</p>\n", [], ["web page"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_file_the_place_and_what_would_do(capsys, case):
    content, options, words = REFUSED[case]
    Path("ill.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    model = [] if "--model" in options else LOGISTIC
    said = fails(capsys, "train", "ill.csv", *model, *options, *FAST)
    assert all(word in said for word in ["ill.csv", *words]), said
    assert not Path("glmesh-model.npz").exists()


def archive(**arrays) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


# name of the file, content, words of the refusal
OTHER_FILES = {
    "svmlight: NaN": ("a.svm", b"1 1:nan\n0 2:1\n", ["X holds NaN at row 0"]),
    "svmlight: a number whose square is infinite": ("a.svm", b"1 1:1e300\n0 2:1\n", ["X holds 1e+300 at row 0"]),
    "svmlight: three labels": ("a.svm", b"0 1:1\n0 2:1\n1 1:1\n1 1:2\n2 2:1\n", ["0, 1, 2", "row 4 holds 2"]),
    "svmlight: one label": ("a.svm", b"1 1:1\n1 2:1\n", ["one label only, 1"]),
    "svmlight: an index that comes twice": ("a.svm", b"1 1:1 1:2\n0 2:1\n", ["line 1", "ascend"]),
    "svmlight: an index beyond 2^31": ("a.svm", b"1 4000000000:1\n0 2:1\n", ["line 1"]),
    "svmlight: a table": ("a.svm", table().encode(), ["line 1", ".csv"]),
    "npz: NaN": (
        "a.npz",
        archive(X=np.where(np.equal(X, X[9, 0]), np.nan, X), y=ILL),
        ["X holds NaN at row 9, column 0"],
    ),
    "npz: labels as texts": ("a.npz", archive(X=X, y=np.where(ILL, "yes", "no")), ["key 'y'", "numbers"]),
    "npz: three labels": ("a.npz", archive(X=X, y=np.minimum(np.arange(60), 2)), ["0, 1, 2", "row 0 holds 0"]),
    "npz: cut off": ("a.npz", archive(X=X, y=ILL)[:300], ["not a whole npz"]),
    "parquet: a table of text": ("a.parquet", table().encode(), ["not a whole parquet file"]),
}


@pytest.mark.parametrize("case", OTHER_FILES)
def test_other_files_are_refused_with_the_file_and_the_place(capsys, case):
    name, content, words = OTHER_FILES[case]
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    Path(name).write_bytes(content)
    said = fails(capsys, "train", name, *LOGISTIC, *FAST)
    assert all(word in said for word in [name, *words]), said


def test_whole_numbers_that_lose_digits_are_named(capsys):
    Path("ill.csv").write_text(table(column(0, lambda k, old: str(2**53 + 1 + 2 * ((7 * k) % 60)))))
    assert run("describe", "ill.csv") == 0
    assert "whole numbers beyond 2^53: age" in capsys.readouterr().out


# arguments of the command, words of the refusal
TOOLS = {
    "init: an unknown topology": (["federation", "init", "f.toml", "--model", "ridge", "--topology", "rnig"], ["ring"]),
    "init: three labels": (
        ["federation", "init", "f.toml", *LOGISTIC, "--like", "three.csv"], ["three.csv", "0, 1, maybe", "needs two"],
    ),
    "keys: a name twice": (["keys", "keys", "alice", "alice"], ["alice is named twice"]),
    "up: a node file": (["up", "node.toml"], ["node.toml", "'federation'", "looks like a node file"]),
    "node: a federation file": (["node", "f0.toml"], ["f0.toml", "'problem'", "looks like a federation file"]),
}  # fmt: skip


@pytest.mark.parametrize("case", TOOLS)
def test_tools_refuse_what_they_were_not_given(capsys, case):
    arguments, words = TOOLS[case]
    Path("three.csv").write_text(table(cell(5, 3, "maybe")))
    Path("node.toml").write_text('name = "alice"\nfederation = "f0.toml"\n')
    Path("f0.toml").write_text('name = "f"\n[problem]\nloss = "squared"\n')
    said = fails(capsys, *arguments)
    assert all(word in said for word in words), said
    assert not Path("f.toml").exists()
    assert not Path("keys").exists()
