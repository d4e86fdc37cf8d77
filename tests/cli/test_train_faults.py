"""`glmesh train` when things fail: fault plans, checkpoints and Ctrl-C."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from glmesh.cli.progress import Progress
from glmesh.engine import checkpoint
from glmesh.files import model_files
from tests.cli.calls import FAST, fails, run

pytestmark = pytest.mark.usefixtures("folder")

RIDGE = ["train", "numbers.csv", "--model", "ridge", "--stop", "rounds", *FAST, "--quiet"]


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


def test_skipped_subproblems_are_told(data, capsys):
    Path("plan.toml").write_text("[[random]]\nloss = 0.01\nuntil = 10\n")
    options = ["--alpha", 20, "--stop", "certificate", "--tol", 1e-3, "--faults", "plan.toml", *FAST]
    assert run("train", "numbers.csv", "--model", "lasso", *options, "--acceleration", "none") == 0
    assert re.search(r"^  skipped +[\d,]+ subproblems? of nodes whose part was done$", capsys.readouterr().out, re.M)


def test_without_faults_nothing_is_told_of_faults(data, capsys):
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
