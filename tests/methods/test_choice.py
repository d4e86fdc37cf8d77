"""The cost model: which acceleration is taken, decided alike by all before the first exchange, as the docs say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from glmesh import Cocoa, Cola, Network, Problem, Run, solve
from glmesh.core.block import NetworkInfo
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import L1, L2, LOSSES, Box, GroupLasso, Loss, Table
from glmesh.methods import InteriorPoint, ProximalNewton, choice
from glmesh.methods.choice import Task, estimates
from glmesh.methods.totals.row_space import SPARE
from glmesh.network import topology
from glmesh.problem import Shard
from tests.scenes import PROBLEMS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 8))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
SIGNS = np.where(Y > 0, 1.0, -1.0)
PAGE = Path(__file__).parents[2] / "docs" / "communications.md"


def glm(loss: str = "logistic", data: Any = X, **options: Any) -> Problem:
    return Problem.glm(data, np.resize(SIGNS, data.shape[0]), loss=loss, **{"split": "samples"} | options)


def long(m: int, p: int, density: float = 1.0) -> Any:
    """Rows of which so much is not zero."""
    found = RNG.normal(size=(m, p))
    return found if density == 1.0 else sp.csr_array(np.where(RNG.random((m, p)) < density, found, 0.0))


def many(m: int, p: int) -> Any:
    """Rows, too many for the method of few rows."""
    return np.broadcast_to(RNG.normal(size=p), (m, p))


def info(name: str = "ring", n_nodes: int = 16) -> NetworkInfo:
    return NetworkInfo.of_graph(topology.build(name, n_nodes, 0), 0)


def cheapest(problem: Problem, graph: str = "ring", n_nodes: int = 16, network: Network | None = None) -> str:
    return estimates(Task.of(problem), info(graph, n_nodes), network)[0].name


def chosen(problem: Problem, **options: Any) -> str:
    with Run(problem, **{"n_nodes": 8} | options) as run:
        return run.story[0][1]


# every row of the table

SLOW_LINKS = Network(latency=1e-6, bandwidth=1e5)
REACHED = {
    "newton": [
        (lambda: glm(), {}),
        (lambda: glm("squared", penalty="l1"), {}),
        (lambda: glm("huber", penalty="elasticnet", fit_intercept=True), {"topology": "star"}),
        (lambda: glm(alpha=0.0, fit_intercept=True), {"topology": "complete"}),
        (lambda: glm("squared_hinge", penalty=L2(1.0, lo=0.0)), {"faults": {"random": [{"loss": 0.1}]}}),
    ],
    "interior point": [
        (lambda: glm("hinge"), {}),
        (lambda: glm("quantile", penalty="elasticnet", fit_intercept=True), {"topology": "star"}),
    ],
    "row space": [(lambda: glm(data=long(20, 700)), {}), (lambda: glm("hinge", data=long(20, 700)), {})],
    "L-BFGS": [(lambda: glm(data=many(700, 1200)), {"topology": "complete"})],
    "sums": [
        (lambda: glm(split="features"), {}),
        (lambda: glm(split="features", penalty=GroupLasso(np.arange(8) // 2)), {"topology": "torus"}),
        (lambda: glm(penalty="l1", split="features"), {"topology": "complete"}),
        (lambda: glm(data=many(400, 700)), {"network": SLOW_LINKS, "topology": "complete"}),
    ],
    "momentum": [
        (lambda: glm("squared", split="features", penalty="l1", data=long(60, 8, 0.1)), {"topology": "path"}),
        (lambda: glm("squared", split="features", penalty=Box(-1.0, 1.0)), {}),
        (lambda: glm(split="features"), {"faults": {"random": [{"loss": 0.1}]}}),
        (lambda: glm(split="features"), {"faults": {"straggler": [{"node": 0, "theta": 0.5}]}}),
        (lambda: glm(), {"faults": {"leave": [{"node": 0, "round": 3}]}}),
        (lambda: glm("hinge", data=many(800, 1500)), {"network": SLOW_LINKS}),
    ],
}


@pytest.mark.parametrize(("name", "number"), [(name, k) for name, rows in REACHED.items() for k in range(len(rows))])
def test_every_row_of_the_table_is_reached(name, number):
    problem, options = REACHED[name][number]
    assert chosen(problem(), **options) == name


def test_the_page_has_the_table_of_the_module_and_both_have_the_constants():
    assert choice.__doc__ is not None
    rows = re.findall(r"^\| .*\|$", choice.__doc__, flags=re.M)
    page = PAGE.read_text()
    assert len(rows) == 7
    assert all(row in page for row in rows)
    counts = {row.split("|")[1].strip(): row.split("|")[-2].strip() for row in rows[1:]}
    per_sum = f"({choice.ROUNDS_PER_SUM:g} + {choice.ROUNDS_PER_ROOT:g} sqrt(c)) per sum"
    assert counts == {
        "newton": f"{choice.NEWTON_TOTALS}; squared loss {choice.SQUARED_TOTALS}, one with a Hessian",
        "interior point": f"{choice.INTERIOR_TOTALS}",
        "row space": f"1, then as with m + {SPARE} coefficients",
        "L-BFGS": f"{choice.LIMITED_MEMORY_TOTALS}",
        "sums": f"{choice.SUMS:,}",
        "momentum": f"{per_sum}; {choice.QUADRATIC_FACTOR:g} times if quadratic; half if sparse",
    }
    assert choice.SPARSE_FACTOR == 0.5
    assert set(counts) == set(REACHED)
    for number in (f"{choice.SPARSE:.0%}".replace("%", " %"), "500"):
        assert number in page


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", ["l2", "elasticnet"])
def test_rows_take_totals_whatever_the_loss(loss, penalty):
    kind = type(choice.Task.of(glm(loss, penalty=penalty)).on_totals)
    assert kind in (ProximalNewton, InteriorPoint)
    found = solve(glm(loss, penalty=penalty), n_nodes=4, tol=1e-6)
    assert found.status.name == "CONVERGED"
    assert found.story[0][1] == ("newton" if kind is ProximalNewton else "interior point")
    assert len(found.story) == 1


# laws


def test_nothing_is_exchanged_before_the_choice(monkeypatch):
    """It is made without a transport, and all blocks and threads come to the same."""
    setups = []
    monkeypatch.setattr(Cola, "prepare", lambda self, setup: setups.append((self, setup)) or 1 / 0)
    for name in PROBLEMS:
        for options in ({}, {"n_blocks": 3}, {"n_jobs": 2}):
            with pytest.raises(ZeroDivisionError):
                Run(PROBLEMS[name](), n_nodes=6, **options)
    monkeypatch.undo()
    stories = []
    for method, setup in setups:
        stories.append(method.decide(replace(setup, transports=None), flows=False))
    for first in range(0, len(stories), 3):
        assert stories[first] == stories[first + 1] == stories[first + 2]
        assert stories[first].name in REACHED


def test_processes_that_hold_a_part_each_decide_as_one_that_holds_all():
    whole = Problem.glm(long(40, 6, 0.15), RNG.normal(size=40), penalty="l1")

    class Two:
        """What `all_gather` returns in either of two processes."""

        def __init__(self, counts):
            self.counts = counts

        def all_gather(self, own):
            return self.counts

    part = whole.parts[0]
    shard = Shard(part, whole.summary, Run(whole, n_nodes=4).partition, 0)
    counts = [(np.count_nonzero(part.columns.data), 240, part.columns.n), (0, 0, 0)]
    assert Task.of(shard, Two(counts)) == Task.of(whole)
    assert not Task.of(shard, Two([(9, 10, 1), (0, 5, 1)])).sparse


def test_storage_is_of_no_account():
    for density in (0.05, 0.5):
        stored = long(50, 20, density)
        assert Task.of(glm(data=stored)) == Task.of(glm(data=stored.toarray()))


def test_the_data_itself_is_of_no_account():
    assert Task.of(glm(data=1e6 * X)) == Task.of(glm())


@pytest.mark.parametrize("graph", ["ring", "torus", "star", "complete", "path"])
def test_estimates_are_ordered_positive_and_grow_with_latency(graph):
    for problem in PROBLEMS.values():
        task = Task.of(problem())
        lan, wan = (estimates(task, info(graph), Network(latency=latency, bandwidth=1e9)) for latency in (1e-3, 1e-1))
        assert [one.seconds for one in lan] == sorted(one.seconds for one in lan)
        slower = {one.name: one.seconds for one in wan}
        assert all(slower[one.name] > one.seconds > 0 for one in lan)
        for one in wan:  # where latency is all, exchanges are what counts
            assert one.seconds == pytest.approx(0.1 * one.rounds * one.exchanges, rel=0.2)


def test_latency_and_bandwidth_decide_for_long_messages():
    problem = glm(data=many(500, 900))
    assert cheapest(problem, network=Network(latency=0.1, bandwidth=1e9)) == "newton"
    assert cheapest(problem, network=Network(latency=1e-5, bandwidth=1e6)) in ("sums", "momentum")


def test_a_working_set_makes_wide_l1_cheap():
    wide, dense = (glm(penalty=one, data=many(500, 900)) for one in (L1(1.0), L2(1.0)))
    newton = [
        next(one for one in estimates(Task.of(problem), info()) if one.name == "newton") for problem in (wide, dense)
    ]
    assert newton[0].seconds < newton[1].seconds / 2


# what options and faults allow


def test_options_of_a_round_keep_cola():
    for options in ({"local_passes": 2}, {"gossip": "matrix"}, {"curvature": "majorant"}):
        assert chosen(glm(), method=Cola(**options)) in ("sums", "momentum")
        with pytest.raises(InvalidInput, match="makes totals instead of rounds of CoLA"):
            Cola(acceleration="newton", **options)
    assert chosen(glm(), method=Cola(gamma=0.5)) == "none"
    assert chosen(glm(), method=Cocoa()) == "sums"
    with pytest.raises(InvalidInput, match="not Cocoa's"):
        Cocoa(acceleration="newton")


def test_newton_means_the_method_on_totals_of_rows():
    for loss, name in (("logistic", "newton"), ("hinge", "interior point")):
        with Run(glm(loss), n_nodes=4, method=Cola(acceleration="newton")) as run:
            assert run.story == [(0, name, "as asked for")]
    refused = [
        glm(split="features"),
        glm(data=many(700, 1200), alpha=0.0),
        Problem.glm(X, Y, penalty=GroupLasso(np.arange(8) // 2)),
    ]
    for problem in refused:
        with pytest.raises(UnsuitablePair, match=r"acceleration='newton' needs nodes that hold rows.*'auto' finds"):
            Run(problem, n_nodes=4, method=Cola(acceleration="newton"))
    with pytest.raises(InvalidInput, match="frozen"):
        Run(glm(), n_nodes=4, method=Cola(acceleration="newton"), faults={"leave": [{"node": 0, "round": 3}]})


def test_a_free_intercept_by_rows_under_faults_or_with_certificates_needs_totals():
    problem = glm(fit_intercept=True)
    assert chosen(problem, certify=True) == "newton"
    with pytest.raises(InvalidInput, match="free intercept"):  # CoLA says what is missing
        Run(problem, n_nodes=4, certify=True, faults={"leave": [{"node": 0, "round": 3}]})


def test_a_loss_of_ones_own_that_totals_do_not_know_goes_with_momentum():
    class Lopsided(Loss):
        """Flat within 0.1 of the target, and steeper on one side."""

        name = "lopsided"
        is_curved = False

        def dual(self, y, c):
            return Table(l1=0.1 * c, linear=-y, lo=-c, hi=2 * c)

    problem = Problem.glm(X, Y, loss=Lopsided(), split="samples")
    found = solve(problem, n_nodes=3, tol=1e-3)
    assert found.status.name == "CONVERGED"
    assert found.story[0][1] == "momentum"
