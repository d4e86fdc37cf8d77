"""Rules of a site: each refuses before a byte of a contribution leaves, and honest data pass at every point."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from glmesh.core import NetworkInfo
from glmesh.federation.config.site import SiteRules
from glmesh.federation.node import totalling
from glmesh.federation.node.program import Answer, SiteProgram
from glmesh.federation.node.rules import RuleBook
from glmesh.federation.node.totalling import Totalling
from glmesh.federation.node.training import Ending
from glmesh.federation.totals import Beginning, Machine
from glmesh.federation.totals.messages import unpack
from glmesh.federation.wire import Kind, PeerLinks
from glmesh.federation.wire.links import PeerLink, Read
from glmesh.files.data_files import load
from glmesh.methods import ProximalNewton, Rows
from glmesh.network import mixing, topology
from glmesh.problem import ProblemSpec
from glmesh.types import Matrix, SampleMatrix, Vector
from tests.federation.node.test_totalling import cancer, cut, federate

# on the wire


class Recorder:
    """Numbers of the totals, from 1, to which each site has sent a contribution of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: dict[str, set[int]] = defaultdict(set)
        send = PeerLinks.send

        def recorded(links: PeerLinks, peer: int, kind: Kind, content: Any) -> None:
            if kind is Kind.TOTALS:
                own = [part.number for part in unpack(content, 8).parts if part.author == links.site.me]
                self.sent[links.site.file.name].update(own)
            send(links, peer, kind, content)

        monkeypatch.setattr(PeerLinks, "send", recorded)


BEFORE_ALL: set[int] = set()
AFTER_SURVEY = {1}  # the masked total of exponents and counts, which is about no point

# rules of alice's file, problem, network, numbers of rows, alice's words, what leaves her, whether she refuses alone
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], tuple[int, ...], str, set[int], bool]] = {
    "rows": ({"least_rows": 131}, {}, {}, (130, 190, 249), "130 rows, least_rows = 131", BEFORE_ALL, True),
    "class": ({"least_class": 60}, {}, {}, (130, 190, 249), "rows of a class, least_class = 60", BEFORE_ALL, True),
    "columns": (
        *({"most_columns": 0.2}, {}, {}, (130, 190, 249)),
        *("31 coefficients for 130 rows are 0.24 a row, at most 0.2", BEFORE_ALL, True),
    ),
    "seen alone": (
        *({}, {"loss": "squared"}, {"gone": "without"}, (200, 320, 49)),
        *("31 coefficients for 200 rows are 0.15 a row, at most 0.1", BEFORE_ALL, False),
    ),
    "at all sites": (
        *({}, {}, {}, (100, 100, 100)),
        *("31 coefficients for 300 rows at all sites are 0.10 a row", AFTER_SURVEY, False),
    ),
    "share": ({"largest_share": 0.001}, {}, {}, (130, 190, 249), "largest_share = 0.001", AFTER_SURVEY, True),
    "spread": ({"effective_rows": 131.0}, {}, {}, (130, 190, 249), "effective_rows = 131", AFTER_SURVEY, True),
    "kinks": ({}, {"loss": "hinge"}, {}, (130, 190, 249), "reveal_support = true", BEFORE_ALL, False),
}


@pytest.mark.waits
@pytest.mark.parametrize("rule", REFUSED)
def test_a_rule_refuses_before_a_byte_of_a_contribution_leaves(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, problem, network, sizes, words, leaves, alone = REFUSED[rule]
    recorder = Recorder(monkeypatch)
    made = federate(tmp_path, cut(*cancer(), sizes), problem=problem, network=network)
    with (tmp_path / "alice.toml").open("a") as stream:
        stream.write("[rules]\n" + "".join(f"{key} = {value}\n" for key, value in rules.items()))
    made.run()
    assert words in made.errors["alice"]
    assert recorder.sent["alice"] == leaves
    if alone:
        assert words not in made.errors["bob"]
        assert "refused by alice" in made.errors["carol"]
    assert not (tmp_path / "bob.state" / "model.npz").exists()


@pytest.mark.waits
def test_two_refusals_that_are_heard_of_at_once_end_the_run_as_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, problem, network, sizes, *_ = REFUSED["seen alone"]
    ends_early = Totalling.ends_early

    def looks_late(node: Totalling, now: float) -> Ending | None:
        if node.machine.info.names[node.machine.info.me] == "bob" and len(node.machine.refusals) < 2:
            return None
        return ends_early(node, now)

    monkeypatch.setattr(Totalling, "ends_early", looks_late)
    made = federate(tmp_path, cut(*cancer(), sizes), problem=problem, network=network | {"wait_at_most": 200.0})
    made.run()
    assert made.endings == {}
    assert "alice cannot go on: refused by alice" in made.errors["bob"]
    assert "carol cannot go on: refused by carol" in made.errors["bob"]


@pytest.mark.waits
def test_a_site_that_refuses_stays_until_a_neighbour_has_heard_of_it_whose_links_were_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = threading.Event()
    reads.set()
    message, refuse = PeerLinks.message, Machine.refuse

    async def cut_off(links: PeerLinks, link: PeerLink, read: Read) -> tuple[Kind, bytearray]:
        found = await message(links, link, read)
        if links.site.file.name == "bob" and not reads.is_set():
            raise EOFError
        return found

    def refuses(machine: Machine, why: str) -> None:
        if why == "refused by alice":
            reads.clear()
            threading.Timer(totalling.TELL + 1.0, reads.set).start()
        refuse(machine, why)

    monkeypatch.setattr(PeerLinks, "message", cut_off)
    monkeypatch.setattr(Machine, "refuse", refuses)
    made = federate(tmp_path, cut(*cancer(), (130, 190, 249)), network={"wait_at_most": 200.0})
    with (tmp_path / "alice.toml").open("a") as stream:
        stream.write("[rules]\nleast_rows = 131\n")
    made.run()
    assert made.endings == {}
    assert made.errors["bob"] == made.errors["carol"] == "alice cannot go on: refused by alice"


@pytest.mark.waits
def test_a_value_that_few_rows_have_ends_the_run_after_the_masked_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = cancer()
    X[:, 2] = 0.0
    X[:4, 2] = 1.0
    recorder = Recorder(monkeypatch)
    made = federate(tmp_path, cut(X, y, (130, 190, 249)))
    made.run()
    assert all("few rows of all sites have one of the two values of x2" in made.errors[name] for name in made.errors)
    assert len(made.errors) == 3
    assert all(sent == AFTER_SURVEY for sent in recorder.sent.values())


@pytest.mark.waits
def test_a_file_with_one_other_row_is_refused_also_by_a_new_federation_file_and_at_every_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = federate(tmp_path, cut(*cancer(), (130, 190, 249)))
    made.run()
    assert not made.errors
    lines = (tmp_path / "alice.csv").read_text().splitlines()
    (tmp_path / "alice.csv").write_text("\n".join(lines[:-1]) + "\n")
    recorder = Recorder(monkeypatch)
    made.run()
    assert "one federation file makes one model" in made.errors["alice"]
    made.federation = replace(made.federation, problem=replace(made.federation.problem, alpha=2.0))
    for name in ("alice", "bob", "carol"):
        made.write_node(name, made.federation)
    for _ in range(2):
        made.errors.clear()
        made.run()
        assert "1 rows of the data file have changed since the last fit" in made.errors["alice"]
    assert recorder.sent["alice"] == BEFORE_ALL


@pytest.mark.waits
def test_a_new_federation_file_with_the_same_sites_and_rows_begins_where_the_last_fit_did(tmp_path: Path) -> None:
    made = federate(tmp_path, cut(*cancer(), (130, 190, 249)))
    made.run()
    made.federation = replace(made.federation, problem=replace(made.federation.problem, alpha=2.0))
    for name in ("alice", "bob", "carol"):
        made.write_node(name, made.federation)
    made.run()
    assert not made.errors
    assert starts(tmp_path) == {""}


@pytest.mark.waits
def test_a_new_federation_file_without_one_of_the_sites_begins_elsewhere(tmp_path: Path) -> None:
    parts = cut(*cancer(), (130, 130, 140, 160))
    made = federate(tmp_path, parts)
    made.run()
    left = tuple(member for member in made.federation.members if member.name != "dora")
    made.federation = replace(made.federation, members=left)
    for name in ("alice", "bob", "carol"):
        made.write_node(name, made.federation)
    made.run()
    assert not made.errors
    (start,) = starts(tmp_path)
    assert start


def starts(folder: Path) -> set[str]:
    """Seeds of the starts of the last fits of alice, bob and carol; empty for zero."""
    found = set()
    for name in ("alice", "bob", "carol"):
        newest = max((folder / f"{name}.state").glob("totals-*"), key=lambda path: path.stat().st_mtime)
        found.add(json.loads(newest.read_bytes().partition(b"\n")[0])["held"]["start"])
    return found


def test_the_recorder_sees_contributions_to_every_total_where_nobody_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(monkeypatch)
    federate(tmp_path, cut(*cancer(), (130, 190, 249))).run()
    assert set(recorder.sent) == {"alice", "bob", "carol"}
    assert all(len(sent) > 5 for sent in recorder.sent.values())


# honest data


class CountingRules(RuleBook):
    """Counts the points that were checked."""

    points = 0

    def check_point(self, block: Rows, scale: Vector, point: tuple[Vector, float, bool]) -> None:
        super().check_point(block, scale, point)
        type(self).points += 1


def programs(parts: Sequence[tuple[SampleMatrix, Vector]], loss: str, rare: str) -> list[SiteProgram]:
    """Sites with these rows and the default rules."""
    spec = ProblemSpec.of(loss, "l2", 1.0, None, "samples", True)
    table = spec.penalty_of(None).as_table()
    assert table is not None
    info = NetworkInfo.of(mixing.metropolis(topology.build("complete", len(parts), 0)), 1, 0)
    rules = CountingRules(SiteRules(), "alice", loss == "squared", False)
    d = parts[0][0].shape[1]
    blocks = [Rows(np.zeros(1, np.uint64), info, [X], [y], [np.ones(len(y))], spec.loss, table, True) for X, y in parts]
    names = [f"x{j}" for j in range(d)]
    return [SiteProgram(ProximalNewton(), one, len(parts), 1e-9, 50, rules, names, rare) for one in blocks]


def fit(parts: Sequence[tuple[SampleMatrix, Vector]], loss: str, rare: str = "refuse") -> Answer:
    """Run the programs of all sites in lock-step; a rule that refuses raises."""
    running = [one(Beginning(tuple(range(len(parts))), "", {})) for one in programs(parts, loss, rare)]
    asked = [next(one) for one in running]
    while True:
        total = np.sum([one.content for one in asked], axis=0, dtype=np.uint64)
        try:
            asked = [one.send(total) for one in running]
        except StopIteration as end:
            return Answer.of_bytes(end.value)


def split(X: Matrix, y: Vector, sizes: tuple[int, ...]) -> list[tuple[SampleMatrix, Vector]]:
    return list(cut(X, y, sizes).values())


def honest(name: str) -> tuple[list[tuple[SampleMatrix, Vector]], str]:
    """Sites of a real data set, shuffled, and its loss."""
    if name == "breast cancer":
        X, y = load_breast_cancer(return_X_y=True)
        return split(X, np.where(y > 0, 1.0, -1.0), (130, 190, 249)), "logistic"
    if name == "wine":
        X, y = load_wine(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        return split(X[order], np.where(y[order] == 1, 1.0, -1.0), (59, 59, 60)), "logistic"
    X, y = load_diabetes(return_X_y=True)
    return split(X, y, (147, 147, 148)), "squared"


@pytest.mark.parametrize("name", ["breast cancer", "wine", "diabetes"])
def test_honest_data_pass_all_rules_at_every_point(name: str) -> None:
    parts, loss = honest(name)
    CountingRules.points = 0
    answer = fit(parts, loss)
    assert answer.certified
    assert CountingRules.points >= 3 * answer.totals


@pytest.mark.skipif("GLMESH_DATA" not in os.environ, reason="GLMESH_DATA names the folder with a9a")
def test_a9a_at_eight_sites_passes_all_rules_once_rare_columns_are_dropped() -> None:
    X, y = load(Path(os.environ["GLMESH_DATA"]) / "a9a.svm.xz")
    parts = [(X[k::8].tocsr(), y[k::8]) for k in range(8)]
    CountingRules.points = 0
    answer = fit(parts, "logistic", "drop")
    assert answer.certified
    assert answer.dropped
    assert CountingRules.points >= 8 * answer.totals
