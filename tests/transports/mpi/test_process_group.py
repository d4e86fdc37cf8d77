"""Runs on the ranks of a real mpiexec: the simulator's bits, parts of files, errors, and ranks that die."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from glmesh import Problem, solve
from glmesh.cli import main
from glmesh.engine import checkpoint
from glmesh.engine.scatter import load
from glmesh.errors import InvalidInput
from glmesh.files import data_files
from glmesh.parallel.processes import SINGLE_PROCESS

pytest.importorskip("mpi4py", reason="mpi4py is missing: pip install 'glmesh[mpi]'")
from tests.cases import LIMIT
from tests.ranks import cases, family_figures, family_problems, figures, fits, flat
from tests.shared import once

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
if MPIEXEC is None:
    pytest.skip("there is no mpiexec: pip install 'glmesh[mpi]'", allow_module_level=True)
ROOT = Path(__file__).parents[3]
TRAIN = ["-m", "glmesh", "train"]
ENV = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def start(n_ranks: int, arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    command = [MPIEXEC, "-n", str(n_ranks), sys.executable, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=ENV, **pipes)


def launch(n_ranks: int, arguments: list[str], folder: Path, code: int = 0) -> tuple[str, str]:
    """(what it printed, its errors); it must end with this exit code."""
    process = start(n_ranks, arguments, folder)
    try:
        out, errors = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode == code, (out, errors)
    return out, errors


def write_data(path: Path) -> Path:
    """A small svmlight file that counts from 1."""
    rng = np.random.default_rng(0)
    X = sp.random(120, 50, density=0.2, random_state=0, format="csr")
    dump_svmlight_file(X, np.where(X @ rng.normal(size=50) > 0, 1, -1), str(path), zero_based=False)
    return path


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data.svm")


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """What four ranks left behind; starting them is what takes time, so they do it all in one go."""

    def make(folder):
        write_data(folder / "data.svm")
        launch(4, ["-m", "tests.ranks", str(folder), "equal", "refuse", "hold", "families"], ROOT)

    return once(tmp_path_factory, "four", make)


@pytest.mark.waits
def test_four_ranks_have_the_simulators_bits(four):
    """Default, printed, exact sums, Chebyshev, consensus methods, one of a stranger; figures, history and bytes."""
    expected = {name: figures(solve(make(), **options)) for name, (make, options) in cases().items()}
    expected |= fits("simulation")
    whole = flat(expected)
    assert {str(found["status"]) for found in expected.values() if "status" in found} == {
        "CONVERGED", "CERTIFIED", "ROUNDS_DONE", "OUT_OF_ROUNDS", "STOPPED_BY_CALLBACK"
    }  # fmt: skip
    for rank in range(4):
        with np.load(four / f"equal-{rank}.npz") as seen:
            differ = [key for key in whole if seen[key].tobytes() != np.asarray(whole[key]).tobytes()]
            assert sorted(seen) == sorted(whole)
            assert not differ, (rank, differ)


@pytest.mark.waits
def test_families_have_the_simulators_bits_on_one_two_and_four_ranks(four):
    """Coefficients, proofs, sandwiches, likelihoods and the sentence on separated data."""
    found = {name: family_figures(solve(one, n_nodes=16)) for name, one in family_problems().items()}
    assert {str(one["status"]) for one in found.values()} == {"CONVERGED", "STATIONARY", "NO_OPTIMUM"}
    whole = flat(found)
    for n_ranks in (1, 2, 4):
        for rank in range(n_ranks):
            with np.load(four / f"families-{n_ranks}-{rank}.npz") as seen:
                assert sorted(seen) == sorted(whole)
                differ = [key for key in whole if seen[key].tobytes() != np.asarray(whole[key]).tobytes()]
                assert not differ, (n_ranks, rank, differ)


@pytest.mark.waits
def test_impossible_options_are_refused_by_all_ranks(four):
    for rank in range(4):
        told = dict(line.split(": ", 1) for line in (four / f"refuse-{rank}.txt").read_text().splitlines())
        assert "clock for simulations" in told["clock"]
        assert "fault plans are for simulations" in told["faults"]
        assert "gossip='auto'" in told["ledger"]
        assert told["few nodes"].startswith("3 nodes on 4 ranks")
        own = "ZeroDivisionError: a bug in a callback"
        assert told["callback"] == (own if rank == 1 else f"RankFailed: rank 1 of 4: {own}")
        assert told["long vectors"] == told["totals"] == told["callback"]
        label = "y of rank 3 holds 0.5 besides -1 and 1"
        assert told["one rank's label"].startswith(
            f"InvalidData: {label}" if rank == 3 else f"RankFailed: rank 3 of 4: {label}"
        )
        assert "rank 2 has warm_start (digest " in told["one rank's options"]
        assert told["again"] == "3"


@pytest.mark.waits
def test_no_rank_holds_the_whole_matrix(four):
    X, y = data_files.load(four / "data.svm")
    for split, how in itertools.product(("features", "samples"), ("balanced", "shuffled")):
        pooled = Problem.glm(X, y, loss="logistic", split=split)
        options = {"n_nodes": 8, "partition": how, "seed": 1, "max_rounds": 5, "stop": "rounds"}
        expected = solve(pooled, **options).estimates
        parts = [np.load(four / f"hold-{split}-{how}-{rank}.npz") for rank in range(4)]
        read, held, columns = np.sum([part["weight"] for part in parts], axis=0)
        assert read == held == X.nnz
        assert columns == pooled.n
        assert max(part["weight"][:2].max() for part in parts) < 0.35 * X.nnz
        assert all(np.array_equal(part["x"], expected) for part in parts)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("end", ["\n", ""])
def test_parts_of_a_file_are_the_file(data, n_parts, end):
    """However the bytes are cut, each line is in one part."""
    data.write_text(data.read_text()[:-1] + end)
    X, y = data_files.load(data)
    parts = [data_files.load_part(data, part, n_parts) for part in range(n_parts)]
    assert np.array_equal(np.concatenate([labels for _, labels, _ in parts]), y)
    for part, _, raw in parts:
        part.resize(part.shape[0], X.shape[1] + 1)
        assert raw
    assert (sp.vstack([part for part, _, _ in parts])[:, 1:] != X).nnz == 0
    assert (load(data, SINGLE_PROCESS)[0] != X).nnz == 0


def test_files_that_cannot_be_cut_are_refused(tmp_path):
    for name in ("data.svm.xz", "data.csv", "data.npz"):
        with pytest.raises(InvalidInput, match=r"with \{rank\} in its name"):
            data_files.load_part(tmp_path / name, 0, 2)


@pytest.mark.waits
def test_the_command_writes_the_simulators_model(data, monkeypatch, capsys):
    monkeypatch.chdir(data.parent)
    common = ["data.svm", "--model", "logistic", "--nodes", "8", "--tol", "1e-3", "--split", "samples", "--intercept"]
    assert main(["train", *common, "--out", "one.npz"]) == 0
    alone = capsys.readouterr().out
    out, errors = launch(3, [*TRAIN, *common, "--out", "three.npz", "--runtime", "mpi"], data.parent)
    assert Path("three.npz").read_bytes() == Path("one.npz").read_bytes()
    assert errors == ""
    introduction, summary = alone.split("\nround")[0], alone.split("\n\n")[-1].splitlines()
    assert introduction in out
    own = ("communications", "accuracy", "one.npz")  # time, what no rank can know, and another name
    assert all(line in out for line in summary if not any(word in line for word in own))


@pytest.mark.waits
def test_one_file_per_rank(data):
    """Tables, one below the other; by features, where all must be traded."""
    X, y = data_files.load(data)
    table = np.column_stack([X.toarray(), y])
    folder = data.parent
    for rank, rows in enumerate(np.split(table, [30])):
        np.savetxt(folder / f"part-{rank}.csv", rows, delimiter=",")
    np.savetxt(folder / "all.csv", table, delimiter=",")
    common = ["--model", "logistic", "--nodes", "6", "--tol", "1e-3", "--quiet", "--split", "features"]
    common += ["--partition", "balanced", "--stop", "certificate", "--acceleration", "sums"]
    assert main(["train", str(folder / "all.csv"), *common, "--out", str(folder / "one.npz")]) == 0
    launch(2, [*TRAIN, "part-{rank}.csv", *common, "--out", "two.npz", "--runtime", "mpi"], folder)
    assert (folder / "two.npz").read_bytes() == (folder / "one.npz").read_bytes()


@pytest.mark.waits
def test_a_bad_line_is_named_once(data):
    lines = data.read_text().splitlines()
    lines[100] = "1 7:3 2:1"
    data.write_text("\n".join(lines))
    _, errors = launch(2, [*TRAIN, "data.svm", "--model", "logistic", "--runtime", "mpi"], data.parent, code=2)
    (line,) = errors.splitlines()
    assert line.startswith("glmesh: error: rank 1 of 2: data.svm, line ")
    assert "got '1 7:3 2:1'" in line


def ranks_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes that mpiexec has started, in no order."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(entry.parent.name)] = int(fields[1])
    proxies = [pid for pid, parent in parents.items() if parent == process.pid]
    return [pid for pid, parent in parents.items() if parent in proxies]


def rounds_at(path: Path, least: int, process: subprocess.Popen[str]) -> int:
    """Waits for a checkpoint of so many rounds."""
    while process.poll() is None:
        if path.exists() and (rounds := checkpoint.read(path)["state"]["rounds"]) >= least:
            return int(rounds)
        time.sleep(0.02)
    raise AssertionError(process.communicate())


def train_for(rounds: int) -> list[str]:
    common = ["data.svm", "--model", "logistic", "--split", "samples", "--nodes", "8", "--stop", "rounds"]
    return ["train", *common, "--max-rounds", str(rounds), "--checkpoint", "saved", "--checkpoint-every", "10",
            "--record-every", "10"]  # fmt: skip


@pytest.mark.waits
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the ranks are found in /proc")
def test_a_rank_is_killed_and_the_run_goes_on_with_any_number_of_ranks(data, monkeypatch):
    folder = data.parent
    monkeypatch.chdir(folder)
    process = start(4, ["-m", "glmesh", *train_for(10**6), "--runtime", "mpi"], folder)
    try:
        rounds_at(folder / "saved" / "run.ckpt", 30, process)
        os.kill(max(ranks_of(process)), signal.SIGKILL)
        out, _ = process.communicate(timeout=LIMIT)  # a killed rank's last word may be lost: mpiexec closes its pipes
    finally:
        process.kill()
    assert process.returncode != 0
    assert "saved in saved/run.ckpt; if it is cut off, the same command goes on there, with any number of ranks" in out
    shutil.copy("saved/run.ckpt", "run.ckpt")
    reached = checkpoint.read("run.ckpt")["state"]["rounds"]
    Path("last").write_text(str(reached + 30))
    launch(3, ["-m", "tests.ranks", str(folder), "resume"], ROOT)
    problem = Problem.glm(*data_files.load(data), loss="logistic", split="samples")
    options = {"n_nodes": 8, "stop": "rounds", "max_rounds": reached + 30, "record_every": 10}
    straight = figures(solve(problem, **options))
    again = figures(solve(problem, checkpoint="run.ckpt", **options))
    for n_ranks in (3, 2, 1):
        for rank in range(n_ranks):
            with np.load(f"resume-{n_ranks}-{rank}.npz") as seen:
                assert [key for key in straight if seen[key].tobytes() != straight[key].tobytes()] == []
    assert [key for key in straight if again[key].tobytes() != straight[key].tobytes()] == []


@pytest.mark.waits
def test_a_signal_ends_a_run_with_its_checkpoint(data):
    """SIGTERM, as a scheduler sends it; mpiexec passes it on."""
    path = data.parent / "saved" / "run.ckpt"
    process = start(2, ["-m", "glmesh", *train_for(10**6), "--runtime", "mpi"], data.parent)
    try:
        rounds_at(path, 10, process)
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode == 130, (out, errors)
    assert "Interrupted" in out
    done = checkpoint.read(path)["state"]["rounds"]
    assert f"  rounds           {done:,}\n" in out
