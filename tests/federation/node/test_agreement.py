"""The contract that all sites compute from the same offers, split by rows and by columns."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from glmesh.contract import Column, Contract
from glmesh.federation.config import Federation, Member, NetworkPart, ProblemPart
from glmesh.federation.node.agreement import (
    gossip_warnings,
    other_targets,
    same_targets,
    scale_warnings,
    uncompared,
    verdict_of,
)
from glmesh.federation.node.site_data import scales
from glmesh.federation.wire import DataOffer


def _federation(data: Contract | None = None, **problem: Any) -> Federation:
    members = tuple(Member(name, "127.0.0.1:1", f"sha256:{name}") for name in ("ann", "ben", "eve"))
    return Federation("test", ProblemPart(**problem), NetworkPart(), members, data)


def test_sparse_tables_may_lack_columns_at_their_end_and_dense_ones_may_not() -> None:
    federation = _federation(loss="squared")
    sparse = {"ann": DataOffer(width=5, open=True), "ben": DataOffer(width=7, open=True)}
    contract = verdict_of(sparse, federation).contract
    assert contract is not None
    assert len(contract.columns) == 7
    assert not contract.header
    dense = {"ann": DataOffer(width=5), "ben": DataOffer(width=7), "eve": DataOffer(width=7)}
    assert verdict_of(dense, federation).culprits["ann"].startswith("has 5 columns; ben: has 7 columns; ")
    assert list(verdict_of(dense, federation).culprits) == ["ann"]


def test_labels_that_the_federation_file_leaves_open_are_agreed() -> None:
    contract = Contract("ill", (Column("age"),))
    federation = _federation(contract, loss="logistic")
    offers = {"ann": DataOffer("ill", [], labels=[0.0]), "ben": DataOffer("ill", [], labels=[1.0])}
    verdict = verdict_of(offers, federation)
    assert verdict.contract == contract.with_labels((0.0, 1.0))
    one = {"ann": DataOffer("ill", [], labels=[1.0]), "ben": DataOffer("ill", [], labels=[1.0])}
    assert "hold the labels 1; the logistic loss needs two" in verdict_of(one, federation).culprits["ann"]


def test_rows_are_compared_by_number_and_by_one_digest() -> None:
    federation = _federation(loss="squared", split="features")
    offers = {name: DataOffer("y", [], rows=9, ids="00") for name in ("ann", "ben", "eve")}
    assert verdict_of(offers, federation).contract is not None
    other = offers | {"eve": DataOffer("y", [], rows=9, ids="11")}
    assert list(verdict_of(other, federation).culprits) == ["eve"]
    assert list(verdict_of(offers | {"ben": DataOffer("y", [], rows=8, ids="00")}, federation).culprits) == ["ben"]
    nameless = offers | {"eve": DataOffer("y", [], rows=9)}
    assert verdict_of(nameless, _federation(loss="squared", split="features", aligned=True)).contract is not None


NAMES = {0: "ann", 1: "ben", 2: "eve", 3: "kim"}


def test_sites_with_other_targets_than_most_are_named_from_comparisons_of_neighbours() -> None:
    ring = nx.cycle_graph(4)
    same = {0: {1: True, 3: True}, 2: {1: True}}
    assert not uncompared(NAMES, ring, same).edges  # 2 and 3 need not compare: both have the targets of others
    assert other_targets(same_targets(NAMES, same), NAMES) == {}
    ben = {0: {1: False, 3: True}, 2: {1: False}}
    assert [set(link) for link in uncompared(NAMES, ring, ben).edges] == [{2, 3}]
    ben[3] = {2: True}
    assert not uncompared(NAMES, ring, ben).edges
    (culprit,) = other_targets(same_targets(NAMES, ben), NAMES).items()
    assert culprit[0] == "ben"
    assert "are not those of ann" in culprit[1]


def test_one_end_that_found_other_targets_is_believed_and_no_majority_names_all() -> None:
    doubted = {0: {1: True}, 1: {0: False}}
    assert not same_targets([0, 1], doubted).edges
    assert list(other_targets(same_targets([0, 1], doubted), NAMES)) == ["ann", "ben"]
    strangers = {0: {1: True, 9: True}}  # 9 takes no part
    assert set(same_targets([0, 1], strangers)) == {0, 1}


def test_scales_are_powers_of_two_and_far_ones_are_named() -> None:
    X = np.array([[0.5, 0.0, -3.0], [0.25, 0.0, 2.0]])
    assert scales(X) == [0, None, 2]
    contract = Contract("y", (Column("dose"), Column("none"), Column("age")))
    offers = {
        "ann": DataOffer("y", ["dose", "none", "age"], 3, scales=[0, None, 6]),
        "ben": DataOffer("y", ["age", "dose", "none"], 3, scales=[6, 7, 1]),
    }
    (said,) = scale_warnings("ann", offers, contract)
    assert "column 'dose': the largest value is about 2^7 times smaller here than at another site" in said
    assert not list(scale_warnings("ben", offers, contract))
    ranged = Contract("y", (Column("dose"), Column("none"), Column("age", low=0.0, high=120000.0)))
    assert [said for said in scale_warnings("ben", offers, ranged) if "'age'" in said and "in the contract" in said]


def test_columns_that_make_gossip_slow_are_named_at_every_site() -> None:
    contract = Contract("y", (Column("age"), Column("dose"), Column("none")))
    offers = {
        "ann": DataOffer("y", ["dose", "none", "age"], 3, scales=[9, None, 7]),
        "ben": DataOffer("y", ["age", "dose", "none"], 3, scales=[6, 12, None]),
    }
    (said,) = gossip_warnings(offers, contract)
    assert said.startswith("large values: dose (about 2^12). Gossip needs")
    assert not list(gossip_warnings({"ann": offers["ann"]}, contract))


def test_a_federation_without_some_members_must_stay_connected() -> None:
    import pytest

    from glmesh.errors import InvalidInput

    federation = _federation(loss="squared")
    left = federation.without({1})
    assert [member.late for member in left.members] == [False, True, False]
    assert federation.entries() != left.entries()
    with pytest.raises(InvalidInput, match="ann would be left"):
        federation.without({1, 2})
