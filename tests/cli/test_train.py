"""`glmesh train`: what it prints, what it writes, and its exit codes."""

import bz2
import gzip
import lzma
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge

from glmesh.cli import output, train
from glmesh.cli.models import MODELS
from glmesh.files import model_files
from glmesh.functions import LOSSES
from tests.cli.calls import FAST, run

pytestmark = pytest.mark.usefixtures("folder")

HISTORY = "round,communications,bytes,seconds,objective,h,gap,consensus,certificate,theta"


def test_train_prints_the_problem_and_the_result(data, capsys):
    X, y, _ = data
    code = run("train", "numbers.csv", "--model", "lasso", "--alpha", 2, "--tol", 1e-8, *FAST, "--history", "h.csv")
    shown = capsys.readouterr().out
    assert code == 0
    for piece in (
        "Reading numbers.csv",
        "40 samples, 5 features",
        "squared loss, l1 penalty, alpha 2",
        "split by samples over 4 nodes, topology complete",
        "split auto: by samples, whose messages are expected to take",
        "Converged: the duality gap is within the tolerance.",
        "asked for 1e-08",
        "of 5 are not zero",
        "on the training data",
        "glmesh-model.npz",
        "h.csv",
    ):
        assert piece in shown
    assert re.search(r"^round [\d,]+  gap \S+ \(goal 1e-08\)  .*B  .*s$", shown, re.M)
    expected = Lasso(alpha=2 / 40, fit_intercept=False, tol=1e-12).fit(X, y).coef_
    np.testing.assert_allclose(model_files.load("glmesh-model.npz").coef, expected, atol=1e-4)


def test_columns_keep_the_names_of_the_header_in_messages_model_and_coefficients(folder, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    rows = [",".join(f"{value:.6f}" for value in (*x, 2 * x[0] - x[2])) for x in X]
    Path("named.csv").write_text("\n".join(["age,bmi,hdl,y", *rows]))
    problems = []
    solved = train.solve
    monkeypatch.setattr(
        train, "solve", lambda problem, **options: problems.append(problem) or solved(problem, **options)
    )
    for split in ("samples", "features"):
        assert run("train", "named.csv", "--model", "ridge", "--intercept", "--split", split, *FAST) == 0
        told = capsys.readouterr().out
        model = model_files.load("glmesh-model.npz")
        assert model.names == problems[-1].feature_names == ("age", "bmi", "hdl")
        assert re.search(rf"^  age +{model.coef[0]:.5f}  \+{{20}}$", told, re.M)
        assert re.search(rf"^  Intercept +{model.intercept:.5f}$", told, re.M)
        assert "above the best possible" in told or "up to rounding" in told


@pytest.mark.parametrize(
    ("options", "peer"),
    [
        (["--model", "ridge", "--intercept"], Ridge(alpha=1.0)),
        (["--model", "ridge", "--split", "samples"], Ridge(alpha=1.0, fit_intercept=False)),
        (["--loss", "squared", "--penalty", "l1", "--alpha", 4], Lasso(alpha=0.1, fit_intercept=False)),
        (
            ["--model", "elastic-net", "--alpha", 4, "--l1-ratio", 0.25],
            ElasticNet(alpha=0.1, l1_ratio=0.25, fit_intercept=False),
        ),
    ],
)
def test_regressions_are_those_of_sklearn(data, options, peer):
    X, y, _ = data
    assert run("train", "numbers.csv", *options, "--tol", 1e-9, *FAST, "--quiet") == 0
    model = model_files.load("glmesh-model.npz")
    peer.fit(X, y)
    np.testing.assert_allclose(model.coef, peer.coef_, atol=1e-4)
    assert model.intercept == pytest.approx(peer.intercept_, abs=1e-4)


def test_a_classifier_is_that_of_sklearn(data):
    X, _, signs = data
    assert run("train", "labels.svm", "--model", "logistic", "--alpha", 0.5, "--tol", 1e-9, *FAST, "--quiet") == 0
    model = model_files.load("glmesh-model.npz")
    assert (model.loss, model.classes, model.info["split"]) == ("logistic", (-1.0, 1.0), "samples")
    peer = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-8).fit(X, signs)
    np.testing.assert_allclose(model.coef, peer.coef_[0], atol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_trains(data, name):
    source = "labels.svm" if LOSSES[MODELS[name][0]].classifies else "numbers.csv"
    assert run("train", source, "--model", name, "--tol", 1e-2, *FAST, "--quiet") == 0
    model = model_files.load("glmesh-model.npz")
    assert (model.loss, model.penalty) == MODELS[name]


def test_a_loss_takes_a_parameter(data, capsys):
    assert run("train", "numbers.csv", "--loss", "quantile=0.9", "--max-rounds", 5, *FAST) == 3
    assert model_files.load("glmesh-model.npz").info["quantile"] == 0.9
    assert "quantile (quantile 0.9) loss" in capsys.readouterr().out


def test_formats(data, capsys):
    X, _, signs = data
    text = Path("labels.svm").read_bytes()
    for suffix, module in ((".gz", gzip), (".bz2", bz2), (".xz", lzma)):
        Path(f"labels.svm{suffix}").write_bytes(module.compress(text))
    np.savez("dense.npz", X=X, y=signs)
    S = sp.csr_array(X)
    np.savez("sparse.npz", data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape, y=signs)
    coefs = []
    for name in ("labels.svm", "labels.svm.gz", "labels.svm.bz2", "labels.svm.xz", "dense.npz", "sparse.npz"):
        assert run("train", name, "--model", "svm", "--max-rounds", 3, *FAST, "--quiet") == 3
        coefs.append(model_files.load("glmesh-model.npz").coef)
    for coef in coefs[1:]:
        np.testing.assert_allclose(coef, coefs[0], rtol=1e-12)
    assert capsys.readouterr() == ("", "")


def test_target_picks_a_column(data):
    X, y, _ = data
    np.savetxt("first.csv", np.c_[y, X], delimiter=",", header="price,a,b,c,d,e", comments="", fmt="%.6g")
    train = ["--model", "ridge", "--max-rounds", 3, *FAST, "--quiet", "--out"]
    run("train", "numbers.csv", *train, "1.npz")
    run("train", "first.csv", "--target", "price", *train, "2.npz")
    run("train", "first.csv", "--target", 0, *train, "3.npz")
    coefs = [model_files.load(f"{i}.npz").coef for i in (1, 2, 3)]
    np.testing.assert_array_equal(coefs[0], coefs[1])
    np.testing.assert_array_equal(coefs[0], coefs[2])


def test_history_is_read_back_to_the_last_bit(data, monkeypatch):
    kept = []
    monkeypatch.setattr("glmesh.cli.train.write_history", lambda path, history: kept.append(history))
    same = ["train", "numbers.csv", "--model", "lasso", "--max-rounds", 7, "--record-every", 2, *FAST, "--quiet"]
    run(*same, "--history", "h.csv", "--stop", "rounds")
    output.write_history("h.csv", kept[0])
    assert Path("h.csv").read_text().splitlines()[0] == HISTORY
    table = np.genfromtxt("h.csv", delimiter=",", names=True)
    assert table["round"].tolist() == [0, 2, 4, 6, 7]
    for key, values in kept[0].items():
        np.testing.assert_array_equal(table[key], values)


def test_certificate_stops_and_is_in_the_history(data, capsys):
    options = ["--stop", "certificate", "--tol", 1e-3, "--history", "h.csv", "--plot", "p.png", "--threads", 2]
    assert run("train", "labels.svm", "--model", "svm", *options, *FAST) == 0
    assert "Certified: every node knows, from its neighbours alone" in capsys.readouterr().out
    assert np.isfinite(np.genfromtxt("h.csv", delimiter=",", names=True)["certificate"][-1])
    assert Path("p.png").read_bytes()[:4] == b"\x89PNG"


def test_what_nodes_could_not_prove_is_not_called_certified(data, capsys):
    options = ["--stop", "certificate", "--tol", 1e-3, "--max-rounds", 3]
    assert run("train", "labels.svm", "--model", "svm", *options, *FAST) == 3
    shown = capsys.readouterr().out
    assert "round 3  certified - (goal 1e-03)" in shown
    assert re.search(r"certified gap +inf \(asked for 0.001\)\n  relative gap +\S+\n", shown)


def test_seconds_are_those_of_the_network_clock(data, capsys):
    options = ["--stop", "rounds", "--max-rounds", 20, "--latency", 0.5, "--history", "h.csv"]
    options += ["--acceleration", "momentum"]
    assert run("train", "numbers.csv", "--model", "ridge", *options, *FAST) == 0
    assert "10.0 s on the network clock" in capsys.readouterr().out
    assert np.genfromtxt("h.csv", delimiter=",", names=True)["seconds"][-1] == pytest.approx(10, rel=1e-3)


def test_out_of_rounds_is_3_and_still_saves(data, capsys):
    assert run("train", "numbers.csv", "--model", "ridge", "--tol", 1e-9, "--max-rounds", 1) == 3
    assert "before the tolerance was reached" in capsys.readouterr().out
    assert model_files.load("glmesh-model.npz").info["status"] == "out_of_rounds"


def test_the_result_depends_on_the_seed_only(data):
    for seed, threads in ((1, 1), (1, 3), (2, 1)):
        options = ["--seed", seed, "--threads", threads, "--max-rounds", 4, "--quiet", "--out", f"{seed}{threads}.npz"]
        run("train", "numbers.csv", "--model", "ridge", *options)
    a, b, c = (model_files.load(f"{name}.npz").coef for name in ("11", "13", "21"))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


def test_interrupt_saves_what_there_is(data, capsys, interrupted):
    before = signal.getsignal(signal.SIGINT)
    options = ["--tol", 0, "--max-rounds", 10**9, "--history", "h.csv", *FAST]
    code = interrupted("train", "labels.svm", "--model", "logistic", *options)
    assert code == 130
    assert "Interrupted" in capsys.readouterr().out
    model = model_files.load("glmesh-model.npz")
    assert model.info["status"] == "interrupted"
    assert np.genfromtxt("h.csv", delimiter=",", names=True)["round"][-1] == model.info["rounds"] >= 1
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupt_before_the_run_leaves_nothing(data, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("glmesh.cli.train_data.read_table", stop)
    assert run("train", "numbers.csv", "--model", "ridge") == 130
    assert capsys.readouterr().err == "\nglmesh: interrupted\n"
    assert not os.path.exists("glmesh-model.npz")
