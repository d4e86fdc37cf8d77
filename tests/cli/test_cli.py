"""The command line, called in-process: what it prints, what it writes, and its exit codes."""

import bz2
import gzip
import io
import json
import lzma
import os
import re
import runpy
import signal
import sys
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge

from glmesh.cli import main, output
from glmesh.cli.models import MODELS
from glmesh.cli.progress import Progress
from glmesh.cli.topology import DESCRIPTIONS
from glmesh.engine import checkpoint
from glmesh.files import data_files, model_files
from glmesh.formatting import size
from glmesh.functions import LOSSES
from glmesh.network import topology
from glmesh.problem.partition import HOW

FAST = ["--nodes", "4", "--topology", "complete"]
HISTORY = "round,communications,bytes,seconds,objective,h,gap,consensus,certificate,theta"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data():
    """Files of 40 samples: numbers.csv (with a header), labels.svm (-1 and 1), and the arrays."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5)).round(3)
    y = (X @ [1.0, -2.0, 0.0, 0.5, 0.0] + 0.1 * rng.standard_normal(40) + 1).round(3)
    signs = np.where(y > 1, 1.0, -1.0)
    np.savetxt("numbers.csv", np.c_[X, y], delimiter=",", header="a,b,c,d,e,price", comments="", fmt="%.6g")
    dump_svmlight_file(X, signs, "labels.svm", zero_based=False)
    return X, y, signs


def run(*arguments):
    return main([str(argument) for argument in arguments])


def fails(capsys, *arguments):
    """The one line that a refused command prints."""
    assert run(*arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("glmesh: error: ")
    assert shown.count("\n") == 1
    return shown


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


# train


def test_train_prints_the_task_and_the_outcome(data, capsys):
    X, y, _ = data
    code = run("train", "numbers.csv", "--model", "lasso", "--alpha", 2, "--tol", 1e-8, *FAST, "--history", "h.csv")
    shown = capsys.readouterr().out
    assert code == 0
    for piece in (
        "Reading numbers.csv",
        "40 samples, 5 features",
        "squared loss, l1 penalty, alpha 2",
        "split by features over 4 nodes, topology complete",
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
    assert run("train", "numbers.csv", "--model", "ridge", *options, *FAST) == 0
    assert "10.0 s on the network clock" in capsys.readouterr().out
    assert np.genfromtxt("h.csv", delimiter=",", names=True)["seconds"][-1] == pytest.approx(10, rel=1e-3)


def test_out_of_rounds_is_3_and_still_saves(data, capsys):
    assert run("train", "numbers.csv", "--model", "ridge", "--tol", 1e-9, "--max-rounds", 2) == 3
    assert "before the tolerance was reached" in capsys.readouterr().out
    assert model_files.load("glmesh-model.npz").info["status"] == "out_of_rounds"


def test_the_result_depends_on_the_seed_only(data):
    for seed, threads in ((1, 1), (1, 3), (2, 1)):
        options = ["--seed", seed, "--threads", threads, "--max-rounds", 4, "--quiet", "--out", f"{seed}{threads}.npz"]
        run("train", "numbers.csv", "--model", "ridge", *options)
    a, b, c = (model_files.load(f"{name}.npz").coef for name in ("11", "13", "21"))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


@pytest.fixture
def interrupted(monkeypatch):
    """Runs a command and presses Ctrl-C after its first round."""
    shown = Progress.__call__

    def press(*arguments):
        running = threading.Event()

        def show(self, run):
            running.set()
            return shown(self, run)

        def interrupt():
            if running.wait(60):
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(Progress, "__call__", show)
        timer = threading.Thread(target=interrupt)
        timer.start()
        code = run(*arguments)
        timer.join()
        return code

    return press


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

    monkeypatch.setattr("glmesh.files.data_files.load", stop)
    assert run("train", "numbers.csv", "--model", "ridge") == 130
    assert capsys.readouterr().err == "\nglmesh: interrupted\n"
    assert not os.path.exists("glmesh-model.npz")


# train, when things fail

PLAN = """
seed = 3

[[random]]
dropout = 0.3
loss = 0.1
until = 30

[[join]]
node = 3
round = 5

[[leave]]
node = 1
round = 20
"""
RIDGE = ["train", "numbers.csv", "--model", "ridge", "--stop", "rounds", *FAST, "--quiet"]


@pytest.fixture
def plan():
    Path("plan.toml").write_text(PLAN)
    return tomllib.loads(PLAN)


def test_faults_are_told(data, plan, capsys):
    options = ["--stop", "rounds", "--max-rounds", 40, "--faults", "plan.toml", "--plot", "p.svg", *FAST]
    assert run("train", "numbers.csv", "--model", "ridge", *options) == 0
    shown = capsys.readouterr().out
    assert "  members          3 of 4 nodes at the end\n" in shown
    away = float(re.search(r"^  away +([\d.]+) % of the members' rounds$", shown, re.M)[1])
    assert 10 < away < 35  # 0.3, in 30 of 40 rounds
    assert re.search(
        r"^  events +round 5: node 3 joined\n +round 20: node 1 left; its variables stay frozen\n", shown, re.M
    )
    assert "Going on" not in shown
    assert "who was there" in Path("p.svg").read_text()
    assert json.loads(model_files.load("glmesh-model.npz").info["faults"]) == plan


def test_many_events_are_not_all_told(data, capsys):
    entries = (f"[[leave]]\nnode = {node}\nround = {node}\nmodel = 'reset'\n" for node in range(1, 15))
    Path("plan.toml").write_text("".join(entries))
    options = ["--stop", "rounds", "--max-rounds", 20, "--faults", "plan.toml", "--topology", "complete"]
    assert run("train", "numbers.csv", "--model", "ridge", *options) == 0
    shown = capsys.readouterr().out
    assert "round 11: node 11 left, and its variables with it\n                   and 3 more\n" in shown
    assert "away" not in shown


def test_nodes_that_rest_are_told(data, capsys):
    Path("plan.toml").write_text("[[random]]\nloss = 0.01\nuntil = 10\n")
    options = ["--alpha", 20, "--stop", "certificate", "--tol", 1e-3, "--faults", "plan.toml", *FAST]
    assert run("train", "numbers.csv", "--model", "lasso", *options, "--acceleration", "none") == 0
    assert re.search(r"^  skipped +[\d,]+ subproblems? of nodes whose part was done$", capsys.readouterr().out, re.M)


def test_faults_are_not_mentioned_where_there_are_none(data, capsys):
    run("train", "numbers.csv", "--model", "ridge", "--max-rounds", 3, *FAST)
    shown = capsys.readouterr().out
    assert not any(word in shown for word in ("members", "away", "events", "skipped", "checkpoint"))
    assert "faults" not in model_files.load("glmesh-model.npz").info


@pytest.mark.parametrize("faults", [[], ["--faults", "plan.toml"]])
def test_a_run_in_two_parts_is_the_same_run(data, plan, capsys, faults):
    same = [*RIDGE[:-1], *faults]
    assert run(*same, "--max-rounds", 80, "--history", "whole.csv", "--out", "whole.npz") == 0
    assert run(*same, "--max-rounds", 40, "--checkpoint", "saved", "--out", "half.npz") == 0
    assert os.listdir("saved") == ["run.ckpt"]
    assert "Going on" not in capsys.readouterr().out
    assert run(*same, "--max-rounds", 80, "--checkpoint", "saved", "--history", "parts.csv", "--out", "parts.npz") == 0
    shown = capsys.readouterr().out
    assert "\nGoing on from round 40\n" in shown
    assert "  checkpoint       saved\n" in shown
    assert Path("parts.npz").read_bytes() == Path("whole.npz").read_bytes() != Path("half.npz").read_bytes()
    tables = [np.genfromtxt(name, delimiter=",", names=True) for name in ("whole.csv", "parts.csv")]
    for name in set(tables[0].dtype.names) - {"seconds"}:
        np.testing.assert_array_equal(tables[0][name], tables[1][name])


def test_a_finished_run_is_told_again_at_once(data, monkeypatch):
    options = [*RIDGE, "--max-rounds", 12, "--checkpoint", "saved", "--out"]
    run(*options, "1.npz")
    monkeypatch.setattr("glmesh.engine.run.Run.__next__", None)  # another round would fail
    assert run(*options, "2.npz") == 0
    assert Path("1.npz").read_bytes() == Path("2.npz").read_bytes()


def test_checkpoints_are_written_along_the_way(data, monkeypatch):
    def stop(self, run):
        if run.rounds == 11:
            raise KeyboardInterrupt  # as a second Ctrl-C does

    monkeypatch.setattr(Progress, "__call__", stop)
    assert run(*RIDGE, "--max-rounds", 20, "--checkpoint", "saved", "--checkpoint-every", 4) == 130
    assert checkpoint.read("saved/run.ckpt")["state"]["rounds"] == 8
    assert not os.path.exists("glmesh-model.npz")


def test_interrupt_leaves_a_checkpoint_to_go_on_from(data, plan, capsys, interrupted):
    same = [*RIDGE[:-1], "--faults", "plan.toml"]
    assert interrupted(*same, "--max-rounds", 10**9, "--checkpoint", "saved", "--checkpoint-every", 10**9) == 130
    done = model_files.load("glmesh-model.npz").info["rounds"]
    assert run(*same, "--max-rounds", done + 15, "--checkpoint", "saved", "--out", "parts.npz") == 0
    assert f"\nGoing on from round {done:,}\n" in capsys.readouterr().out
    assert run(*same, "--max-rounds", done + 15, "--out", "whole.npz") == 0
    assert Path("parts.npz").read_bytes() == Path("whole.npz").read_bytes()


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (["--alpha", 2], "problem"),
        (["--topology", "ring"], "network"),
        (["--seed", 1], "seed"),
        (["--faults", "plan.toml"], "fault plan"),
        (["--local-passes", 2], "method"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(data, plan, capsys, other, differs):
    run(*RIDGE, "--max-rounds", 10, "--checkpoint", "saved")
    before = {path: Path(path).read_bytes() for path in ("saved/run.ckpt", "glmesh-model.npz")}
    message = fails(capsys, *RIDGE, "--max-rounds", 20, "--checkpoint", "saved", *other)
    assert f"saved/run.ckpt is a checkpoint of another run: its {differs} differs" in message
    assert {path: Path(path).read_bytes() for path in before} == before


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:-99] + b"x" * 99, lambda b: b""])
def test_a_damaged_checkpoint_is_refused_at_once_and_left_alone(data, capsys, monkeypatch, damage):
    run(*RIDGE, "--max-rounds", 10, "--checkpoint", "saved", "--out", "old.npz")
    spoilt = damage(Path("saved/run.ckpt").read_bytes())
    Path("saved/run.ckpt").write_bytes(spoilt)
    monkeypatch.setattr("glmesh.files.data_files.load", None)  # reading the data would fail
    assert "saved/run.ckpt" in fails(capsys, *RIDGE, "--max-rounds", 20, "--checkpoint", "saved")
    assert Path("saved/run.ckpt").read_bytes() == spoilt
    assert not os.path.exists("glmesh-model.npz")


# predict


def test_predict_equals_the_decision(data, capsys):
    X, y, _ = data
    run("train", "numbers.csv", "--model", "ridge", "--intercept", *FAST, "--quiet")
    assert run("predict", "glmesh-model.npz", "numbers.csv") == 0
    out, err = capsys.readouterr()
    decision = model_files.load("glmesh-model.npz").decision(X)
    np.testing.assert_array_equal([float(line) for line in out.splitlines()], decision)
    r2 = 1 - np.sum((y - decision) ** 2) / np.sum((y - y.mean()) ** 2)
    assert err.startswith(f"40 predictions; R2 {r2:.4f} (root mean squared error ")


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
    assert run("predict", "glmesh-model.npz", "new.csv") == 0
    out, err = capsys.readouterr()
    decision = model_files.load("glmesh-model.npz").decision(X)
    np.testing.assert_array_equal([float(line) for line in out.splitlines()], decision)
    assert err == "40 predictions\n"


def test_predict_with_foreign_labels(data, capsys):
    X, _, signs = data
    run("train", "labels.svm", "--model", "svm", "--tol", 1e-2, *FAST, "--quiet")
    dump_svmlight_file(X[:, :4], (signs + 1) / 2, "zeros.svm", zero_based=False)  # and no fifth feature
    assert run("predict", "glmesh-model.npz", "zeros.svm") == 0
    assert "other labels" in capsys.readouterr().err


# topology


def test_topology_draws_and_measures(capsys):
    assert run("topology", "torus", "--nodes", 16, "--plot", "t.svg") == 0
    shown = capsys.readouterr().out
    figures = dict(re.findall(r"^  (\w[\w ]*?) {3,}(\S+)", shown, re.M))
    assert {"links": "32", "diameter": "4", "beta": "0.6", "neighbours": "4"}.items() <= figures.items()
    assert figures["messages a round"] == "64"
    assert figures["spectral gap"] == "0.4"
    assert re.search("[⠁-⣿]", shown)
    assert "<svg" in Path("t.svg").read_text()


@pytest.mark.parametrize(("name", "nodes"), [("ring", 1), ("path", 2), ("torus", 2000), ("star", 9)])
def test_topology_of_any_size(name, nodes, capsys):
    assert run("topology", name, "--nodes", nodes) == 0
    shown = capsys.readouterr().out
    assert f"{name}, {nodes:,} node" in shown
    assert ("at most" in shown) == (nodes == 2000)


def test_topology_list_has_all_names(capsys):
    assert run("topology", "list", "--nodes", 12) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown[1:]] == list(topology.names()) == list(DESCRIPTIONS)
    assert max(map(len, shown)) <= 80
    assert re.search(r"hypercube +- +- +-", "\n".join(shown))  # 12 is no power of two


# demo


def test_demo(capsys):
    assert run("demo") == 0
    shown = capsys.readouterr().out
    assert "16 nodes stand in a ring" in shown
    assert "Every node knows, from messages of its neighbours alone" in shown
    nodes, pooled = (float(value) for value in re.findall(r"^  .*data .* ([\d.]+) +\d+$", shown, re.M))
    promised = float(re.search(r"promised at most ([\d.e+-]+)", shown)[1])
    assert -1e-3 <= nodes - pooled <= promised <= 1.01e-4 * pooled
    assert "duality gap, relative to the objective" in shown
    assert Path("glmesh-demo.png").read_bytes()[:4] == b"\x89PNG"


def test_demo_without_matplotlib(capsys, monkeypatch):
    monkeypatch.setattr("glmesh.cli.demo.can_plot", lambda: False)
    monkeypatch.setattr("glmesh.cli.demo._ROUNDS", 3)
    assert run("demo") == 3
    monkeypatch.setattr("glmesh.cli.demo._ROUNDS", 20_000)
    monkeypatch.setattr("glmesh.cli.demo._TOL", 0.5)
    assert run("demo") == 0
    assert "pip install 'glmesh[plot]'" in capsys.readouterr().out
    assert not os.path.exists("glmesh-demo.png")


# progress


def test_progress_in_a_terminal_is_one_line(data, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "100")
    options = ["--stop", "rounds", "--max-rounds", 50]
    assert run("train", "numbers.csv", "--model", "ridge", *options, *FAST) == 0
    pictures = next(line for line in screen.getvalue().split("\n") if "\r" in line).split("\r")[1:]
    assert pictures[0].startswith("starting")
    assert pictures[-1].startswith("█" * 24 + "  round 50  gap ")
    assert all(picture.endswith("\x1b[K") and len(picture) < 103 for picture in pictures)


def test_plain_characters_where_the_stream_has_no_others(monkeypatch):
    class Ascii(Terminal):
        encoding = "ascii"

    screen = Ascii()
    monkeypatch.setattr(sys, "stdout", screen)
    assert run("topology", "ring", "--nodes", 8) == 0
    progress = Progress(stop="gap", tol=1e-4, max_rounds=10)
    line = progress.line(10, 1e-5, 2048)
    assert "###  round 10  gap 1.0e-05 (goal 1e-04)  2.05 kB" in line
    assert (screen.getvalue() + line).isascii()


# help and errors


@pytest.mark.parametrize("command", ["", "demo", "train", "predict", "topology"])
def test_help_teaches(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*command.split(), "--help") == 0
    shown = capsys.readouterr().out
    assert f"examples:\n  glmesh {command}" in shown
    assert max(map(len, shown.splitlines())) <= 82


def test_train_help_states_the_objective_and_the_exit_codes(capsys):
    run("train", "--help")
    shown = capsys.readouterr().out
    assert "sum_i loss(y_i, x_i.w + b)" in shown
    assert "nothing is divided by the number of samples" in shown
    assert "  130  Ctrl-C" in shown
    assert all(name in shown for name in (*MODELS, *HOW))


def test_train_help_speaks_of_failures(capsys):
    run("train", "--help")
    shown = capsys.readouterr().out
    assert "when things fail:\n  --faults FILE" in shown
    assert "--faults plan.toml --checkpoint saved" in shown.partition("examples:")[2]


def test_version_by_python_m(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["glmesh", "--version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("glmesh", run_name="__main__")
    assert end.value.code == 0
    assert re.fullmatch(r"glmesh \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_a_reader_that_leaves_is_no_error(data, capsys, monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    assert run("topology", "list") == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "required: COMMAND"),
        ("trian", "invalid choice: 'trian'"),
        ("train", "required: DATA"),
        ("train numbers.csv", "say what to fit: --model NAME"),
        ("train numbers.csv --model ridge --loss huber", "exclude each other"),
        ("train numbers.csv --model lass", "invalid choice: 'lass'"),
        ("train numbers.csv --model ridge --alpha", "--alpha: expected one argument"),
        ("train numbers.csv --model ridge --alpha -1", "--alpha: expected a number >= 0, got '-1'"),
        ("train numbers.csv --model ridge --alpha inf", "--alpha: expected a number >= 0, got 'inf'"),
        ("train numbers.csv --model ridge --tol nan", "--tol: expected a number >= 0"),
        ("train numbers.csv --model ridge --nodes 0", "--nodes: expected a whole number >= 1, got '0'"),
        ("train numbers.csv --model ridge --nodes 2.5", "--nodes: expected a whole number >= 1, got '2.5'"),
        ("train numbers.csv --model ridge --bandwidth 0", "--bandwidth: expected a number > 0"),
        ("train numbers.csv --model ridge --bogus", "unrecognized arguments: --bogus"),
        ("train numbers.csv --model ridge --l1-ratio 0.5", "l1_ratio goes with penalty='elasticnet'"),
        ("train numbers.csv --model elastic-net --l1-ratio 2", "expected a number between 0 and 1"),
        ("train numbers.csv --model ridge --topology rng", "did you mean 'ring'?"),
        ("train numbers.csv --model ridge --topology hypercube --nodes 12", "the nearest are 8 and 16"),
        ("train numbers.csv --model lasso --split samples", "a plain L1 penalty cannot be split by samples"),
        ("train labels.svm --model svm --split features", "the hinge loss has no form split by features"),
        ("train labels.svm --model svm --intercept --stop certificate", "a free intercept goes with a network"),
        ("train labels.svm --model svm --penalty l1", "needs an L2 part in the penalty"),
        ("train numbers.csv --loss hubert", "choose from squared, logistic, huber"),
        ("train numbers.csv --loss huber=x", "delta must be a number, got 'x'"),
        ("train numbers.csv --loss huber=-1", "finite delta > 0"),
        ("train numbers.csv --loss squared=1", "has no parameter"),
        ("train numbers.csv --model ridge --out no/m.npz", "--out no/m.npz: cannot write there"),
        ("train numbers.csv --model ridge --out .", "--out .: is not a regular file"),
        ("train numbers.csv --model ridge --out numbers.csv", "would overwrite the input"),
        ("train numbers.csv --model ridge --out m --history ./m", "--history ./m: would overwrite --out"),
        ("train numbers.csv --model ridge --plot p.gif", "a picture's name ends in .png"),
        ("train absent.svm --model svm", "absent.svm: no such file"),
        # the plan and the checkpoint are looked at before the data
        (
            "train absent.svm --model svm --faults typo.toml",
            "typo.toml: fault plan, random[0]: unknown key 'droput'; did you mean 'dropout'?",
        ),
        (
            "train absent.svm --model svm --faults down.toml --nodes 9",
            "down.toml: fault plan, down[0]: there is no node 9; the nodes are 0 to 8",
        ),
        (
            "train absent.svm --model svm --faults link.toml",
            "link.toml: fault plan, link[0]: nodes 0 and 2 are not linked; 0 is linked to 1, 15",
        ),
        ("train absent.svm --model svm --faults slow.toml", "give --latency or --bandwidth"),
        ("train absent.svm --model svm --faults absent.toml", "absent.toml: no such file"),
        ("train absent.svm --model svm --faults words.csv", "words.csv: not a TOML file"),
        ("train absent.svm --model svm --faults typo.toml --checkpoint saved", "unknown key"),
        ("train absent.svm --model svm --checkpoint saved", "absent.svm: no such file"),
        ("train absent.svm --model svm --checkpoint no/saved", "--checkpoint no/saved: cannot write there (No such"),
        ("train absent.svm --model svm --checkpoint words.csv", "--checkpoint words.csv: is not a folder"),
        ("train absent.svm --model svm --checkpoint m --out m", "--checkpoint m: would overwrite --out"),
        ("train absent.svm --model svm --checkpoint . --out run.ckpt", "--checkpoint run.ckpt: would overwrite --out"),
        ("train absent.svm --model svm --checkpoint-every 5", "--checkpoint-every goes with --checkpoint DIR"),
        ("train absent.svm --model svm --checkpoint saved --checkpoint-every 0", "expected a whole number >= 1"),
        ("train numbers.csv --model ridge --faults plan.toml --out plan.toml", "would overwrite the input"),
        ("train short.svm.xz --model svm", "short.svm.xz: cannot be read to its end"),
        ("train words.csv --model ridge", "words.csv, line 2, column 0 (a): expected a number, got 'x'"),
        ("train nan.csv --model ridge", "X holds NaN at row 0, column 1"),
        ("train numbers.csv --model svm", "the hinge loss needs two classes"),
        ("train numbers.csv --model ridge --target cost", "target='cost' names 0 columns"),
        ("train labels.svm --model svm --target 1", "picks a column of a .csv"),
        ("predict model.npz", "required: DATA"),
        ("predict absent.npz labels.svm", "absent.npz: no such file"),
        ("predict numbers.csv labels.svm", "not a whole npz archive"),
        ("predict model.npz absent.svm", "absent.svm: no such file"),
        ("predict model.npz wide.csv", "wide.csv: has 7 features and y, the model was trained on 5"),
        ("predict model.npz wide.svm", "expected at most n_features=5"),
        ("predict model.npz labels.svm --probability", "--probability: the hinge loss has none"),
        ("predict model.npz labels.svm --out no/p.csv", "--out no/p.csv: cannot write there"),
        ("predict model.npz labels.svm --out model.npz", "would overwrite the input"),
        ("demo --out no/demo.png", "--out no/demo.png: cannot write there"),
        ("demo --out demo.txt", "a picture's name ends in .png"),
        ("topology", "required: NAME"),
        ("topology rign", "did you mean 'ring'?"),
        ("topology ring --plot no/x.png", "--plot no/x.png: cannot write there"),
    ],
)
def test_errors_are_one_line(data, capsys, arguments, message):
    model_files.Model(np.ones(5), 0.0, "hinge", "l2", 1.0, 0.0, (-1.0, 1.0)).save("model.npz")
    np.savetxt("wide.csv", np.ones((2, 8)), delimiter=",")
    Path("wide.svm").write_text("1 1:1 7:1\n")
    Path("words.csv").write_text("a,b\nx,1\n")
    Path("typo.toml").write_text("[[random]]\ndroput = 0.1\n")
    Path("down.toml").write_text("[[down]]\nnode = 9\n")
    Path("link.toml").write_text("[[link]]\nbetween = [0, 2]\n")
    Path("slow.toml").write_text("[[straggler]]\nnode = 1\ndelay = 0.5\n")
    Path("nan.csv").write_text("1,nan,2\n2,3,4\n")
    Path("short.svm.xz").write_bytes(lzma.compress(Path("labels.svm").read_bytes())[:-40])
    files = sorted(os.listdir())
    assert message in fails(capsys, *arguments.split())
    assert sorted(os.listdir()) == files


def test_a_plot_without_matplotlib_is_refused_at_once(data, capsys, monkeypatch):
    monkeypatch.setattr("glmesh.cli.output.can_plot", lambda: False)
    message = fails(capsys, "train", "numbers.csv", "--model", "ridge", "--plot", "p.png")
    assert "pip install 'glmesh[plot]'" in message


def test_a_disk_that_fills_up_is_one_line(data, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "glmesh-model.npz")

    monkeypatch.setattr(model_files.Model, "save", full)
    message = fails(capsys, "train", "numbers.csv", "--model", "ridge", "--max-rounds", 1, *FAST)
    assert message == "glmesh: error: glmesh-model.npz: No space left on device\n"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0123, "12.3 ms"), (3.21, "3.2 s"), (59.96, "1 min 0 s"), (75.0, "1 min 15 s")]
)
def test_durations(seconds, text):
    assert output.duration(seconds) == text


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 B"), (999, "999 B"), (999.6, "1 kB"), (2.5e6, "2.5 MB"), (3e12, "3 TB")]
)
def test_sizes(n, text):
    assert size(n) == text


def test_a_run_that_ends_before_its_plan_says_so():
    from glmesh import Problem, solve
    from glmesh.cli.failures import told

    problem = Problem.glm(np.eye(6), np.arange(6.0), alpha=1.0)
    plan = {"join": [{"node": 2, "round": 5000}], "leave": [{"node": 1, "round": 7000}]}
    result = solve(problem, n_nodes=4, topology="complete", faults=plan)
    assert dict(told(result))["not seen"] == "node 2 was to join in round 5,000; --stop rounds goes on to the end"
    assert "not seen" not in dict(told(solve(problem, n_nodes=4, faults={"random": [{"dropout": 0.1}]})))


def test_acceleration_and_weights(data, capsys):
    options = ["--model", "lasso", "--nodes", 6, "--seed", 3]
    assert run("train", "numbers.csv", *options, "--acceleration", "sums", "--weights", "optimal") == 0
    assert re.search(r"^  acceleration +sums \(as asked for\)$", capsys.readouterr().out, re.MULTILINE)
    assert run("train", "numbers.csv", *options, "--local-passes", 3) == 0
    assert "none (acceleration needs an even number of local_passes" in capsys.readouterr().out
    assert run("train", "numbers.csv", *options, "--acceleration", "momentum", "--local-passes", 3) == 2
    assert "even number of local_passes" in capsys.readouterr().err
