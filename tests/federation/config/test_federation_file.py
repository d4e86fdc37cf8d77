"""The federation file: what is written is read back, and what cannot run is refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from glmesh.errors import InvalidInput
from glmesh.federation.config import Federation, NetworkPart, ProblemPart, difference
from glmesh.federation.config.site import Site


def test_a_federation_is_read_back_as_written_and_refused_where_it_cannot_run(tmp_path: Path) -> None:
    tree = {
        "name": 'with "quotes"',
        "problem": {"loss": "logistic", "alpha": 2},
        "network": {"topology": "links", "links": [["a", "b"], ["b", "c"]]},
        "members": [{"name": n, "address": "127.0.0.1:1", "fingerprint": f"sha256:{n}"} for n in "abc"],
    }
    federation = Federation.of(tree)
    federation.check()
    federation.write(tmp_path / "f.toml")
    assert Federation.read(tmp_path / "f.toml") == federation
    assert federation.neighbours(1) == [0, 2]
    other = Federation.of(tree | {"problem": {"loss": "hinge", "alpha": 2}})
    assert difference(federation.entries(), federation.entries()) is None
    assert difference(federation.entries(), other.entries()) == "problem.loss is 'logistic' here and 'hinge' there"
    late = [member | {"late": member["name"] == "b"} for member in tree["members"]]
    wrong = {
        "unknown key 'los'": {"problem": {"los": "logistic"}},
        "alpha must be a float": {"problem": {"alpha": "1"}},
        "split='samples'|split by samples": {"problem": {"penalty": "l1", "method": "gossip"}},
        "two members have the name a": {"members": [tree["members"][0]] * 2},
        "is no name": {"members": [tree["members"][0], tree["members"][1] | {"name": "B B"}]},
        "two members or more": {"members": tree["members"][:1]},
        "is no member": {"network": {"topology": "links", "links": [["a", "x"]]}},
        "wire must be": {"network": {"wire": "float16"}},
        "not connected without": {"members": late},
    }
    for words, change in wrong.items():
        with pytest.raises(InvalidInput, match=words):
            Federation.of(tree | change).check()


@pytest.mark.parametrize("name", ['"quotes"', "carriage\rreturn", "\n", "tab\t \x7f\x01", "Zürich ☃ 𝛼", "back\\slash"])
def test_any_text_is_read_back_as_written(name: str, tmp_path: Path) -> None:
    links = NetworkPart(topology="links", links=[["a", name]])
    federation = Federation(name, ProblemPart(), links, ())
    federation.write(tmp_path / "f.toml")
    assert Federation.read(tmp_path / "f.toml") == federation


def test_tables_stand_in_the_order_that_members_know(tmp_path: Path) -> None:
    member = {"name": "alice", "address": "127.0.0.1:7001", "fingerprint": "sha256:" + "0" * 64}
    federation = Federation.of({"name": "clinics", "members": [member, member | {"name": "bob"}]})
    federation.write(tmp_path / "f.toml")
    lines = (tmp_path / "f.toml").read_text().splitlines()
    tables = [line for line in lines if line.startswith("[")]
    assert lines[0] == 'name = "clinics"'
    assert tables == ["[problem]", "[network]", "[[members]]", "[[members]]"]
    assert "tol = 1e-06" in lines
    replace(federation, members=()).write(tmp_path / "f.toml")
    assert "members" not in (tmp_path / "f.toml").read_text()


def test_neighbours_of_a_node_file_that_are_no_table_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "alice.toml"
    path.write_text('name = "alice"\nneighbours = "10.0.0.7:7001"\n')
    with pytest.raises(InvalidInput, match=r"alice\.toml: neighbours must be a table, \[neighbours\]"):
        Site.read(path)


def federation(names: list[str], problem: dict[str, object], **network: object) -> Federation:
    """The federation of a file with these members."""
    members = [{"name": name, "address": "127.0.0.1:1", "fingerprint": f"sha256:{name}"} for name in names]
    return Federation.of({"problem": problem, "network": network, "members": members})


def test_words_of_gossip_in_older_files_of_rows_are_read_as_wait_and_kept_for_features() -> None:
    names = ["a", "b", "c"]
    for gone in ("freeze", "reset"):
        rows = federation(names, {"loss": "logistic"}, gone=gone)
        rows.check()
        assert rows.gone == "wait"
        assert rows.remarks() == [f"gone = {gone!r} is for gossip; with totals it is read as 'wait'"]
        features = federation(names, {"loss": "squared", "split": "features"}, gone=gone)
        features.check()
        assert features.gone == gone
        assert features.remarks() == []
    assert federation(names, {}).gone == "wait"
    assert federation(names, {}, gone="without").gone == "without"


def test_more_sites_than_can_mask_in_pairs_are_refused() -> None:
    federation([f"n{k}" for k in range(64)], {}).check()
    with pytest.raises(InvalidInput, match=r"65 sites are too many for masked totals.*at most 64"):
        federation([f"n{k}" for k in range(65)], {}).check()
    federation([f"n{k}" for k in range(65)], {"method": "gossip"}).check()
