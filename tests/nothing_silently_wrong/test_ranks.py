"""Ranks of an MPI program that were told different things: all end with the line that names the first difference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from glmesh import Lasso, LinearSVC, LogisticRegression, Problem, solve
from glmesh.engine.agreement import of_fields, of_problem, require_same
from glmesh.errors import Mismatch
from glmesh.files import model_files
from glmesh.methods import Cola
from glmesh.network import topology
from glmesh.parallel import ProcessGroup

pytest.importorskip("mpi4py", reason="mpi4py is missing: pip install 'glmesh[mpi]'")
from tests.cases import LIMIT, SOAK
from tests.ranks import SIGNS, X, Y
from tests.shared import once
from tests.transports.mpi.test_process_group import ENV, MPIEXEC, ROOT, TRAIN, launch, ranks_of, start, write_data

# what rank 1 is told besides, or instead: (options, words of the line); the first ones are in `make test` too
KINDS = {
    "topology": (["--topology", "star"], "rank 1 has --topology star, rank 0 has ring; give all ranks the same"),
    "runtime": (["--runtime", "simulation"], "rank 1 has --runtime simulation, rank 0 has mpi; add --runtime mpi"),
    "an unknown option": (["--bad"], "rank 1 of 2: unrecognized arguments: --bad"),
    "seed": (["--seed", "7"], "rank 1 has --seed 7, rank 0 has 0"),
    "model": (["--model", "svm"], "rank 1 has --model svm, rank 0 has logistic"),
    "target": (["--target", "y"], "rank 1 has --target y, rank 0 has none"),
    "alpha": (["--alpha", "2.5"], "rank 1 has --alpha 2.5, rank 0 has 1"),
    "nodes": (["--nodes", "6"], "rank 1 has --nodes 6, rank 0 has 4"),
    "max-rounds": (["--max-rounds", "9"], "rank 1 has --max-rounds 9, rank 0 has 10000"),
    "split": (["--split", "features"], "rank 1 has --split features, rank 0 has auto"),
    "record-every": (["--record-every", "3"], "rank 1 has --record-every 3, rank 0 has 10"),
    "acceleration": (["--acceleration", "none"], "rank 1 has --acceleration none, rank 0 has auto"),
    "intercept": (["--intercept"], "rank 1 has --intercept yes, rank 0 has no"),
    "checkpoint": (["--checkpoint", "saved"], "rank 1 has --checkpoint saved, rank 0 has none"),
    "a wrong value": (["--alpha", "-1"], "rank 1 of 2: argument --alpha: expected a number >= 0"),
}


@pytest.mark.waits
@pytest.mark.parametrize("kind", list(KINDS)[: None if SOAK else 3])
def test_options_that_differ_are_named_and_all_ranks_end_with_2(tmp_path, kind):
    write_data(tmp_path / "data.svm")
    common = [sys.executable, *TRAIN, "data.svm", "--model", "logistic", "--nodes", "4", "--runtime", "mpi"]
    options, words = KINDS[kind]
    command = [MPIEXEC, "-n", "1", *common, ":", "-n", "1", *common, *options]
    ended = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert ended.returncode == 2, ended
    assert ended.stderr.startswith(f"glmesh: error: {words}"), ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "glmesh-model.npz").exists()


@pytest.mark.waits
@pytest.mark.skipif(not SOAK, reason="a start of mpiexec; the comparison itself is tested below")
def test_files_that_differ_under_one_name_are_named(tmp_path):
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        write_data(tmp_path / folder / "data.svm")
    with (tmp_path / "other" / "data.svm").open("a") as stream:
        stream.write("1 1:1\n")
    common = [sys.executable, *TRAIN, "data.svm", "--model", "logistic", "--nodes", "4", "--runtime", "mpi"]
    sides = (["-n", "1", "-wdir", str(tmp_path / folder), *common] for folder in ("one", "other"))
    one, other = sides
    ended = subprocess.run(
        [MPIEXEC, *one, ":", *other], env=ENV, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert ended.returncode == 2
    assert "rank 1 has the file data.svm of" in ended.stderr


def write_tables(folder, change=lambda names, table: (names, table)):
    """One table for each of two ranks; `change` is for that of rank 1. Return (samples, labels) of both together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)).round(3)
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.normal(size=80) > 0, 1.0, 0.0)
    for rank, rows in enumerate((slice(0, 40), slice(40, 80))):
        names, table = ["age", "bmi", "sbp", "ill"], np.column_stack([X, y])[rows]
        if rank:
            names, table = change(names, table)
        np.savetxt(folder / f"part-{rank}.csv", table, "%g", ",", header=",".join(names), comments="")
    return X, y


@pytest.mark.waits
@pytest.mark.skipif(not SOAK, reason="a start of mpiexec; files of sites go through the same agreement")
def test_tables_of_ranks_in_another_order_are_put_in_order_by_name(tmp_path):
    order = [2, 0, 3, 1]
    X, y = write_tables(tmp_path, lambda names, table: ([names[k] for k in order], table[:, order]))
    common = ["part-{rank}.csv", "--model", "logistic", "--nodes", "4", "--target", "ill", "--tol", "1e-8"]
    launch(2, [*TRAIN, *common, "--runtime", "mpi"], tmp_path)
    model = model_files.load(tmp_path / "glmesh-model.npz")
    assert model.names == ("age", "bmi", "sbp")
    best = solve(Problem.glm(X, y, loss="logistic", split="samples"), n_nodes=4, tol=1e-10).coef
    np.testing.assert_allclose(model.coef, best, atol=1e-3)


TABLES = {
    "a missing column": (lambda n, t: (["age", "bmi", "ill"], t[:, [0, 1, 3]]), "rank 1: has the columns age, bmi; "),
    "another name": (lambda n, t: (["age", "BMI", "sbp", "ill"], t), "has the columns age, BMI, sbp"),
    "other labels": (lambda n, t: (n, t + np.array([0, 0, 0, 1])), "has the labels 0, 1; rank 1: 1, 2; "),
    "a value that is not finite": (lambda n, t: (n, t * [1, np.inf, 1, 1]), "part-1.csv, line 2"),
}


@pytest.mark.waits
@pytest.mark.skipif(not SOAK, reason="a start of mpiexec; files of sites go through the same agreement")
@pytest.mark.parametrize("case", TABLES)
def test_tables_of_ranks_that_do_not_fit_end_all_ranks(tmp_path, case):
    change, words = TABLES[case]
    write_tables(tmp_path, change)
    common = ["part-{rank}.csv", "--model", "logistic", "--nodes", "4", "--target", "ill"]
    _, errors = launch(2, [*TRAIN, *common, "--runtime", "mpi"], tmp_path, code=2)
    assert words in errors
    assert errors.count("\n") == 1
    assert not (tmp_path / "glmesh-model.npz").exists()


@pytest.mark.waits
@pytest.mark.skipif(not SOAK, reason="a start of mpiexec")
def test_ranks_that_forgot_the_runtime_do_not_each_train_alone(tmp_path):
    write_data(tmp_path / "data.svm")
    _, errors = launch(2, [*TRAIN, "data.svm", "--model", "logistic"], tmp_path, code=2)
    assert "mpiexec has started 2 ranks, and each would train alone" in errors
    assert errors.count("\n") == 1


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What two ranks left behind that fitted rows of all, and rows of their own."""
    return once(tmp_path_factory, "both", lambda folder: launch(2, ["-m", "tests.ranks", str(folder), "rows"], ROOT))


@pytest.mark.waits
def test_rows_of_each_ranks_own_make_the_fit_of_all_rows(both):
    texts = np.where(Y > 0.5, "ill", np.where(Y < -0.5, "well", "maybe"))
    weighted = LogisticRegression(tol=1e-3, n_nodes=6, class_weight="balanced")
    expected = {
        "lasso": Lasso(alpha=0.1, tol=1e-3, n_nodes=6).fit(X, Y),
        "classes": weighted.fit(X, texts, 1.0 + np.arange(60) % 3),
        "svm": LinearSVC(tol=1e-3, n_nodes=6).fit(X, SIGNS),
    }
    for rank in range(2):
        with np.load(both / f"rows-{rank}.npz") as seen:
            for name, fit in expected.items():
                np.testing.assert_allclose(seen[name], fit.coef_, rtol=1e-9, atol=1e-12, err_msg=name)


REFUSED = {
    "own rows as if all": ["rank 1 has data (digest ", "rows='own'"],
    "one cell": ["rank 1 has data (digest ", "pass the same X and y on all ranks"],
    "all rows as if own": ["rank 1 and rank 0 have the same rows", "rows='all'"],
    "rows": ["rank 1 has rows own, rank 0 has all"],
    "C": ["rank 1 has C 2, rank 0 has 1; give all ranks the same"],
    "class": ["rank 1 has estimator Ridge, rank 0 has Lasso"],
    "width": ["rank 1 has features 39, rank 0 has 40"],
    "missing at one": ["NaN"],
    "simulation": ["rows='own' is for the ranks of runtime='mpi'"],
    "folds": ["cross-validation needs rows='all'"],
    "solve": ["rank 1 has record_every 2, rank 0 has 1"],
    "method": ["rank 1 has method.acceleration none, rank 0 has auto"],
    "alpha": ["rank 1 has alpha 2, rank 0 has 1"],
    "data": ["rank 1 has data (digest "],
    "tol of one": ["rank 1 has tol -1, rank 0 has 0.0001"],
    "path": ["rank 1 has alphas (digest "],
}


@pytest.mark.waits
@pytest.mark.parametrize("case", REFUSED)
def test_calls_that_differ_between_ranks_are_refused_at_all_of_them(both, case):
    for rank in range(2):
        told = json.loads((both / f"rows-{rank}.json").read_text())
        assert all(words in told[case] for words in REFUSED[case]), told[case]


class Group(ProcessGroup):
    """Processes that are threads: an all-gather waits for all of them."""

    def __init__(self, rank: int, shared: list[object], barrier: threading.Barrier) -> None:
        self.rank, self.size, self._shared, self._barrier = rank, len(shared), shared, barrier

    def all_gather(self, parts):
        self._shared[self.rank] = list(parts)
        self._barrier.wait(LIMIT)
        return [one for some in self._shared for one in some]


def compared(*said):
    """What each of these processes was told when they compared what they say; None: nothing differs."""
    shared, barrier, told = [None] * len(said), threading.Barrier(len(said)), [None] * len(said)

    def one(rank):
        try:
            require_same(Group(rank, shared, barrier), said[rank])
        except Mismatch as error:
            told[rank] = str(error)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(len(said))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(told)) == 1  # all are told the same
    return told[0]


@pytest.mark.parametrize(
    ("mine", "yours", "words"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "rank 1 has b 3, rank 0 has 2; give all ranks the same"),
        ({"a": 1, "b": 2}, {"a": 2, "b": 3}, "rank 1 has a 2, rank 0 has 1"),
        ({"a": True}, {"a": False}, "rank 1 has a no, rank 0 has yes"),
        ({"a": None}, {"a": 0}, "rank 1 has a 0, rank 0 has none"),
        ({}, {"a": 0}, "rank 1 has a 0, rank 0 has none"),
        ({"a": 0.1}, {"a": np.float64(0.1)}, None),
        ({"a": 0.1}, {"a": np.nextafter(0.1, 1)}, "rank 1 has a 0.10000000000000002, rank 0 has 0.1"),
        ({"a": "x" * 80}, {"a": "x" * 79 + "y"}, "rank 1 has a xxx"),
        ({"a": X}, {"a": X.copy()}, None),
        ({"a": X}, {"a": X + 0.0 * X.T[0, 0] + np.eye(*X.shape) * 1e-12}, "rank 1 has a (digest "),
        ({"a": topology.build("ring", 6)}, {"a": topology.build("ring", 6)}, None),
        ({"a": topology.build("ring", 6)}, {"a": topology.build("star", 6)}, "rank 1 has a (digest "),
        (of_fields("m", Cola()), of_fields("m", Cola(gossip_steps=2)), "rank 1 has m.gossip_steps 2, rank 0 has 1"),
        (of_problem(Problem.glm(X, Y)), of_problem(Problem.glm(X, Y)), None),
        (of_problem(Problem.glm(X, Y)), of_problem(Problem.glm(X[:-1], Y[:-1])), "rank 1 has data of shape 59 x 40"),
        (of_problem(Problem.glm(X, Y)), of_problem(Problem.glm(X, -Y)), "rank 1 has data (digest "),
        (of_problem(Problem.glm(X, Y)), of_problem(Problem.glm(X, Y, loss="huber")), "rank 1 has loss"),
        (of_problem(Problem.glm(X, Y)), of_problem(Problem.glm(X, Y, split="samples")), "rank 1 has split samples"),
    ],
)  # fmt: skip
def test_the_first_difference_is_named(mine, yours, words):
    told = compared(mine, yours)
    assert (told is None) if words is None else told.startswith(words), told


@pytest.mark.waits
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the ranks are found in /proc")
@pytest.mark.skipif(not SOAK, reason="half a minute of waiting")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_ranks_that_wait_for_one_that_stands_still(tmp_path, number):
    """One rank is stopped, so that the others wait in a round; the signal is heard all the same."""
    write_data(tmp_path / "data.svm")
    common = ["data.svm", "--model", "logistic", "--nodes", "4", "--stop", "rounds", "--max-rounds", "100000000"]
    process = start(2, [*TRAIN, *common, "--runtime", "mpi"], tmp_path)
    try:
        assert process.stdout is not None
        while "round" not in process.stdout.readline():
            assert process.poll() is None
        still, waits = sorted(ranks_of(process), reverse=True)[:2]
        os.kill(still, signal.SIGSTOP)
        os.kill(waits, number)
        process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode not in (0, None)
