"""The command line, called in-process: help, errors, progress and the demo."""

import io
import lzma
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glmesh.cli.models import MODELS
from glmesh.cli.progress import Progress
from glmesh.cli.topology import DESCRIPTIONS
from glmesh.files import model_files
from glmesh.formatting import duration, size
from glmesh.network import topology
from glmesh.problem.partition import HOW
from tests.cases import LIMIT
from tests.cli.calls import FAST, fails, run

pytestmark = pytest.mark.usefixtures("folder")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


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


def test_topology_list_names_every_topology(capsys):
    assert run("topology", "list", "--nodes", 12) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown[1:]] == list(topology.names()) == list(DESCRIPTIONS)
    assert max(map(len, shown)) <= 80
    assert re.search(r"hypercube +- +- +-", "\n".join(shown))  # 12 is no power of two


def test_the_ring_of_the_demo(capsys):
    assert run("demo", "--ring") == 0
    shown = capsys.readouterr().out
    assert "16 nodes stand in a ring" in shown
    assert "Every node knows, from messages of its neighbours alone" in shown
    nodes, pooled = (float(value) for value in re.findall(r"^  .*data .* ([\d.]+) +\d+$", shown, re.M))
    promised = float(re.search(r"promised at most ([\d.e+-]+)", shown)[1])
    assert -1e-3 <= nodes - pooled <= promised <= 1.01e-4 * pooled
    assert "duality gap, relative to the objective" in shown
    assert Path("glmesh-demo.png").read_bytes()[:4] == b"\x89PNG"


def test_the_ring_of_the_demo_without_matplotlib(capsys, monkeypatch):
    monkeypatch.setattr("glmesh.cli.demo_ring.can_plot", lambda: False)
    monkeypatch.setattr("glmesh.cli.demo_ring.ROUNDS", 3)
    assert run("demo", "--ring") == 3
    monkeypatch.setattr("glmesh.cli.demo_ring.ROUNDS", 20_000)
    monkeypatch.setattr("glmesh.cli.demo_ring.TOL", 0.5)
    assert run("demo", "--ring") == 0
    assert "pip install 'glmesh[plot]'" in capsys.readouterr().out
    assert not os.path.exists("glmesh-demo.png")


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
        (
            "train numbers.csv --model lasso --split samples --acceleration sums",
            "a plain L1 penalty cannot be split by samples",
        ),
        ("train labels.svm --model svm --split features", "the hinge loss has no form split by features"),
        (
            "train labels.svm --model svm --intercept --stop certificate",
            "--intercept does not go with --stop certificate",
        ),
        ("train labels.svm --model svm --penalty l1 --acceleration momentum", "needs an L2 part in the penalty"),
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
        ("train words.csv --model ridge", "write numbers instead"),
        ("train nan.csv --model ridge", "the first is in line 1"),
        ("train numbers.csv --model svm", "a classification needs two"),
        ("train numbers.csv --model ridge --target cost", "target='cost' names 0 columns"),
        ("train labels.svm --model svm --target 1", "picks a column of a .csv, .tsv, .parquet or .feather"),
        ("predict model.npz", "required: DATA"),
        ("predict absent.npz labels.svm", "absent.npz: no such file"),
        ("predict numbers.csv labels.svm", "not a whole npz archive"),
        ("predict model.npz absent.svm", "absent.svm: no such file"),
        ("predict model.npz wide.csv", "takes 5 features by position"),
        ("predict model.npz wide.svm", "expected at most n_features=5"),
        ("predict model.npz labels.svm --probability", "--probability: the hinge loss has none"),
        ("predict model.npz labels.svm --out no/p.csv", "--out no/p.csv: cannot write there"),
        ("predict model.npz labels.svm --out model.npz", "would overwrite the input"),
        ("demo --ring --out no/demo.png", "--out no/demo.png: cannot write there"),
        ("demo --ring --out demo.txt", "a picture's name ends in .png"),
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
    ("seconds", "text"),
    [
        (0.0123, "12.3 ms"),
        (3.21, "3.2 s"),
        (59.96, "1 min 0 s"),
        (75.0, "1 min 15 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (7199.8, "2 h 0 min"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 B"), (999, "999 B"), (999.6, "1 kB"), (2.5e6, "2.5 MB"), (3e12, "3 TB")]
)
def test_sizes(n, text):
    assert size(n) == text


def test_a_run_shorter_than_its_plan_names_the_events_to_come():
    from glmesh import Problem, solve
    from glmesh.cli.failures import told

    problem = Problem.glm(np.eye(6), np.arange(6.0), alpha=1.0)
    plan = {"join": [{"node": 2, "round": 5000}], "leave": [{"node": 1, "round": 7000}]}
    result = solve(problem, n_nodes=4, topology="complete", faults=plan)
    assert dict(told(result))["not seen"] == "node 2 was to join in round 5,000; --stop rounds goes on to the end"
    assert "not seen" not in dict(told(solve(problem, n_nodes=4, faults={"random": [{"dropout": 0.1}]})))


def test_acceleration_and_weights(data, capsys):
    options = ["--model", "lasso", "--nodes", 6, "--seed", 3]
    assert run("train", "numbers.csv", *options, "--acceleration", "sums", "--mixing", "optimal") == 0
    assert re.search(r"^  acceleration +sums \(as asked for\)$", capsys.readouterr().out, re.MULTILINE)
    assert run("train", "numbers.csv", *options, "--local-passes", 3) == 0
    assert "none (acceleration needs an even number of local_passes" in capsys.readouterr().out
    assert run("train", "numbers.csv", *options, "--acceleration", "momentum", "--local-passes", 3) == 2
    assert "even number of local_passes" in capsys.readouterr().err


def test_the_command_starts_without_any_extra():
    """Without grpc, cryptography, mpi4py and matplotlib everything that does not need them works."""
    extras = ["grpc", "cryptography", "tomli_w", "mpi4py", "matplotlib", "pandas"]
    script = f"import sys; sys.modules.update(dict.fromkeys({extras}))\n"
    script += "from glmesh.cli import main; main(['topology', 'ring'])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT, check=True)
    assert "ring, 16 nodes" in shown.stdout
