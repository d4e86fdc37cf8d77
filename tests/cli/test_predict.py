"""`glmesh predict`: decisions, classes, probabilities and accuracy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from glmesh.files import data_files, model_files
from tests.cli.calls import FAST, run

pytestmark = pytest.mark.usefixtures("folder")


def test_predict_equals_the_decision(data, capsys):
    X, y, _ = data
    run("train", "numbers.csv", "--model", "ridge", "--intercept", *FAST, "--quiet")
    assert run("predict", "glmesh-model.npz", "numbers.csv") == 0
    out, err = capsys.readouterr()
    decision = model_files.load("glmesh-model.npz").decision(X)
    np.testing.assert_array_equal([float(line) for line in out.splitlines()], decision)
    r2 = 1 - np.sum((y - decision) ** 2) / np.sum((y - y.mean()) ** 2)
    assert err.splitlines()[-1].startswith(f"40 predictions; R2 {r2:.4f} (root mean squared error ")


def test_predict_writes_classes_and_reports_accuracy(data, capsys):
    X, _, signs = data
    run("train", "labels.svm", "--model", "svm", "--tol", 1e-3, *FAST, "--quiet")
    assert run("predict", "glmesh-model.npz", "labels.svm", "--out", "p.csv") == 0
    lines = Path("p.csv").read_text().splitlines()
    assert set(lines) == {"-1", "1"}
    predicted = np.array(lines, dtype=float)
    np.testing.assert_array_equal(predicted, model_files.load("glmesh-model.npz").predict(X))
    right = int(np.sum(predicted == signs))
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"40 predictions in p.csv; accuracy {2.5 * right:.2f} % ({right} of 40)\n")


def test_predict_probabilities(data, capsys):
    run("train", "labels.svm", "--model", "logistic", "--tol", 1e-3, *FAST, "--quiet")
    assert run("predict", "glmesh-model.npz", "labels.svm", "--probability") == 0
    shown = [float(line) for line in capsys.readouterr().out.splitlines()]
    X, _ = data_files.load("labels.svm")
    np.testing.assert_array_equal(shown, model_files.load("glmesh-model.npz").predict_probability(X))


def test_predict_without_targets(data, capsys):
    X, _, _ = data
    run("train", "numbers.csv", "--model", "ridge", *FAST, "--quiet")
    np.savetxt("new.csv", X, delimiter=",", fmt="%.6g")
    replace(model_files.load("glmesh-model.npz"), contract=None).save("glmesh-model.npz")
    assert run("predict", "glmesh-model.npz", "new.csv") == 0
    out, err = capsys.readouterr()
    decision = model_files.load("glmesh-model.npz").decision(X)
    np.testing.assert_array_equal([float(line) for line in out.splitlines()], decision)
    *said, last = err.splitlines()
    assert (len(said), last) == (1, "40 predictions")


def test_predict_with_foreign_labels(data, capsys):
    X, _, signs = data
    run("train", "labels.svm", "--model", "svm", "--tol", 1e-2, *FAST, "--quiet")
    dump_svmlight_file(X[:, :4], (signs + 1) / 2, "zeros.svm", zero_based=False)  # and no fifth feature
    assert run("predict", "glmesh-model.npz", "zeros.svm") == 0
    assert "other labels" in capsys.readouterr().err
