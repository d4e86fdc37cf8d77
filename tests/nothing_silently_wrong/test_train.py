"""Files and options that do not fit `glmesh train`: right, or refused with where, what and what would do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from glmesh.cli import demo_files, main
from glmesh.files import model_files
from tests.cli.calls import FAST, fails, run

HEADER = "age,bmi,male,ill"
rng = np.random.default_rng(4)
X = np.column_stack([rng.normal(0.5, 1, 60).round(3), rng.normal(0, 1, 60).round(3), rng.integers(0, 2, 60)])
ILL = (X @ [1.0, -1.0, 0.5] + rng.normal(0, 0.5, 60) > 0.4).astype(int)
BY_SAMPLES, BY_FEATURES = ["--split", "samples"], ["--split", "features"]
BOTH = ["--split samples", "--split features"]
LINES = [",".join(f"{value:g}" for value in (*row, y)) for row, y in zip(X, ILL, strict=True)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(header: str = HEADER, lines: list[str] = LINES, name: str = "ill.csv") -> str:
    Path(name).write_text("\n".join([*([header] if header else []), *lines]) + "\n")
    return name


def with_cell(place: int, column: int, cell: str) -> list[str]:
    """The lines, with another cell in one of them."""
    rows = [line.split(",") for line in LINES]
    rows[place][column] = cell
    return [",".join(row) for row in rows]


# name of the case: (header, lines, options, words that the refusal has)
REFUSED = {
    "a missing value": (HEADER, with_cell(4, 1, "NA"), [], ["ill.csv", "line 6", "bmi", "missing"]),
    "a missing label": (HEADER, with_cell(4, 3, ""), [], ["ill.csv", "line 6", "missing"]),
    "text in a column": (HEADER, with_cell(4, 1, "high"), [], ["ill.csv", "bmi", "text"]),
    "infinity": (HEADER, with_cell(4, 1, "inf"), [], ["ill.csv", "line 6 holds inf", "bmi", "finite"]),
    "three labels": (HEADER, with_cell(4, 3, "2"), [], ["ill.csv", "the labels 0, 1, 2", "line 6 holds 2", "--target"]),
    "an unknown target": (HEADER, LINES, ["--target", "dead"], ["ill.csv", "dead", "age"]),
    "an unknown weight": (HEADER, LINES, ["--sample-weight", "w"], ["ill.csv", "'w'"]),
    "a negative weight": ("w,bmi,male,ill", LINES, ["--sample-weight", "w"], ["ill.csv, line ", "weight >= 0"]),
    "unknown ids": (HEADER, LINES, ["--ids", "patient"], ["ill.csv", "patient"]),
    "a doubled column": ("age,age,male,ill", LINES, [], ["ill.csv", "age"]),
    "text labels for a regression": (
        HEADER, [line[:-1] + "ny"[int(line[-1])] for line in LINES], ["--model", "ridge"], ["ill", "text"],
    ),
    "an svm split by features": (HEADER, LINES, ["--model", "svm", *BY_FEATURES], BOTH),
    "an intercept that is to be proven": (
        HEADER, LINES, ["--intercept", *BY_SAMPLES, "--stop", "certificate"], ["--intercept", "--split features"],
    ),
    "an svm's intercept that is to be proven": (
        HEADER, LINES, ["--model", "svm", "--intercept", "--stop", "certificate"], ["--intercept", "use --stop gap"],
    ),
    "an svm without penalty": (HEADER, LINES, ["--model", "svm", "--alpha", "0"], ["alpha > 0"]),
    "an unknown encoding": (HEADER, LINES, ["--encoding", "latin-9000"], ["latin-9000"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_where_and_what(capsys, case):
    header, lines, options, words = REFUSED[case]
    model = [] if "--model" in options else ["--model", "logistic"]
    said = fails(capsys, "train", write(header, lines), *model, *options, *FAST)
    assert all(word in said for word in words), said
    assert not Path("glmesh-model.npz").exists()


def test_text_labels_weights_and_ids_make_sklearns_model_with_names(capsys):
    weights = 1 + np.arange(60) % 3
    lines = [f"p{k},{weights[k]},{line[:-1]}{'ill' if line[-1] == '1' else 'well'}" for k, line in enumerate(LINES)]
    options = ["--sample-weight", "w", "--ids", "patient", "--tol", 1e-10, *FAST]
    assert run("train", write("patient,w,age,bmi,male,state", lines), "--model", "logistic", *options) == 0
    shown = capsys.readouterr().out
    assert "60 samples, 3 features; target state (ill, well), sample weights w" in shown
    model = model_files.load("glmesh-model.npz")
    assert model.names == ("age", "bmi", "male")
    assert model.classes == ("ill", "well")
    peer = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10).fit(X, np.where(ILL, "ill", "well"), weights)
    np.testing.assert_allclose(model.coef, peer.coef_[0], atol=1e-4)
    assert run("predict", "glmesh-model.npz", "ill.csv", "--out", "p.txt") == 0
    assert set(Path("p.txt").read_text().split()) <= {"ill", "well"}


def test_a_header_of_years_is_read_as_it_was_said():
    header = "2018,2019,2020,2021"
    assert run("train", write(header), "--header", "yes", "--model", "ridge", "--tol", 1e-9, *FAST, "--quiet") == 0
    model = model_files.load("glmesh-model.npz")
    assert model.names == ("2018", "2019", "2020")
    np.testing.assert_allclose(model.coef, Ridge(alpha=1.0, fit_intercept=False).fit(X, ILL).coef_, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "logistic"], "split auto: by samples, whose messages are expected to take"),
        (["--model", "lasso"], "split auto: by samples, whose messages are expected to take"),
        (["--model", "svm"], "split auto: by samples, the only one for"),
        (
            ["--model", "logistic", "--intercept", "--stop", "certificate", "--tol", 0.1],
            "split auto: by features, as an intercept with --stop certificate needs it",
        ),
    ],
)
def test_a_split_that_was_left_open_is_said_with_its_reason(capsys, options, words):
    assert run("train", write(), *options, *FAST) == 0
    assert words in capsys.readouterr().out


def test_an_l1_penalty_and_none_are_fitted_by_samples_too(tmp_path):
    found = []
    for options in (["--penalty", "l1", *BY_SAMPLES], ["--penalty", "l1", *BY_FEATURES], ["--alpha", "0", *BY_SAMPLES]):
        model = tmp_path / f"{len(found)}.npz"
        given = ["--model", "ridge", *options, "--tol", "1e-9", "--max-rounds", "5000", "--out", model, "--quiet"]
        assert run("train", write(), *given, "--nodes", 4, "--topology", "complete") == 0
        found.append(model_files.load(model).coef)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)
    np.testing.assert_allclose(found[2], np.linalg.lstsq(X, ILL, rcond=None)[0], rtol=1e-6)


def test_a_split_that_was_asked_for_is_taken(capsys):
    for split in ("samples", "features"):
        assert run("train", write(), "--model", "logistic", "--split", split, "--tol", 1e-2, *FAST) == 0
        shown = capsys.readouterr().out
        assert f"split by {split} over" in shown
        assert "split auto" not in shown


def test_the_summary_says_what_the_proof_covers(capsys):
    assert run("train", write(), "--model", "logistic", *FAST) == 0
    assert "about the optimiser on these rows; whether the data are right it cannot say" in capsys.readouterr().out


def test_a_column_that_looks_wrong_is_named_before_the_run(capsys):
    lines = [f"7,{line}" for line in LINES]
    assert run("train", write(f"ward,{HEADER}", lines), "--model", "logistic", *FAST) == 0
    shown = capsys.readouterr().out
    assert "ward" in shown.split("split by")[0]


def test_the_old_name_of_mixing_works_and_warns(capsys):
    assert run("train", write(), "--model", "logistic", "--weights", "optimal", *FAST, "--quiet") == 0
    assert "--weights is now --mixing" in capsys.readouterr().err
    assert run("train", write(), "--model", "logistic", "--mixing", "optimal", *FAST, "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_the_demos_files_are_those_of_the_readme(capsys):
    assert run("demo", "--files", "hospitals") == 0
    shown = capsys.readouterr().out
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    for command in shown.split("machine:\n")[1].splitlines()[1:]:
        assert command.strip() in readme
    for name, (n, _) in demo_files.HOSPITALS.items():
        lines = (Path("hospitals") / f"{name}.csv").read_text().splitlines()
        assert lines[0].split(",")[0] == "patient"
        assert (set(lines[0].split(",")[1:]), len(lines)) == (set(demo_files.COLUMNS), n + 1)
    assert ("smoker" in lines[0], any(",present," in line or line.endswith(",present") for line in lines)) == (
        True,
        True,
    )
    assert "present" not in Path("hospitals/bob.csv").read_text()
    assert any(",," in line for line in lines)  # gaps
    assert "is there already" in fails(capsys, "demo", "--files", "hospitals")
    assert "not allowed with" in fails(capsys, "demo", "--files", "others", "--ring")
    fit = ["--family", "binomial", "--formula", demo_files.FORMULA, "--nodes", 4]
    assert run("train", "hospitals/alice.csv", *fit, "--quiet") == 0
    assert model_files.load("glmesh-model.npz").names[0] == "C(sex)[T.male]"


def test_leftovers_of_a_killed_run_are_removed_at_the_next_start(tmp_path: Path) -> None:
    """Also if that one ends before it writes anything."""
    (tmp_path / "saved").mkdir()
    left = [tmp_path / ".m.npz.0123abcd.part", tmp_path / "saved" / ".run.ckpt.0123abcd.part"]
    other = tmp_path / ".other.npz.0123abcd.part"
    for path in [*left, other]:
        path.write_bytes(b"half")
    options = ["--out", str(tmp_path / "m.npz"), "--checkpoint", str(tmp_path / "saved")]
    assert main(["train", "missing.csv", "--model", "ridge", *options]) == 2
    assert not any(path.exists() for path in left)
    assert other.exists()
