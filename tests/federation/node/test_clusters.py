"""Standard errors by clusters between sites: the simulator's bits, statsmodels' numbers, and what a site holds back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from glmesh.cli import main
from glmesh.contract import DataTable
from glmesh.errors import GlmeshError, UnsuitablePair
from glmesh.federation.config import Federation, ProblemPart
from glmesh.federation.config.site import SiteRules
from glmesh.federation.monitor.doctor import examine
from glmesh.federation.node.answer import Answer
from glmesh.federation.node.discretion import SiteDiscretion, pairs
from glmesh.federation.node.rules import RuleBook
from glmesh.federation.node.totals_store import Kept, cluster_digests, rows_changed
from glmesh.federation.node.training import TrainingOutcome
from glmesh.federation.totals.memory import MemberMemory
from glmesh.inference import Inference
from glmesh.methods.totals.likelihood.statistics import HELD_BACK
from glmesh.types import Array, Matrix
from tests.cases import SOAK
from tests.federation.node.families import programs, simulated, together
from tests.federation.node.test_families import CASES, case
from tests.loopback import Loopback

OF = 4  # rows of a cluster


def clustered(name: str, of: int = OF) -> tuple[list[DataTable], ProblemPart]:
    """A case of the families whose rows are in clusters of so many, with the same labels at all sites."""
    parts, part = case(name)
    labels = [np.array([f"house {k // of}" for k in range(one.m)]) for one in parts]
    return [replace(one, clusters=own) for one, own in zip(parts, labels, strict=True)], part


def allowed(scores: Matrix, labels: Array, **rules: Any) -> bool:
    changed = rules.pop("changed", 0)
    book = RuleBook(SiteRules(**rules), "alice", False, False, clusters_changed=changed)
    return SiteDiscretion(book).allows_clusters(scores, labels)


@pytest.mark.parametrize(
    "name", CASES if SOAK else ["exposure", "gamma, inverse", "theta estimated", "multinomial", "cox"]
)
def test_every_family_has_the_simulators_bits(name: str) -> None:
    of = 2 if name == "multinomial" else OF  # of ten coefficients, which take 30 clusters at each site
    parts, part = clustered(name, of)
    if part.alpha:
        return
    sites = programs(parts, part, rules=SiteRules(largest_share=0.9, effective_rows=1.0))
    for one in sites:
        one.rules = sites[0].rules
    answer, expected = together(sites).answer, simulated(parts, part)
    assert answer.statistics is not None
    assert expected.statistics is not None
    assert answer.statistics.clusters == expected.statistics.clusters == sum(-(-one.m // of) for one in parts)
    meats = answer.statistics.meats["cluster"], expected.statistics.meats["cluster"]
    np.testing.assert_array_equal(*meats)
    assert Answer.of_bytes(answer.to_bytes()).to_bytes() == answer.to_bytes()
    plain = together(programs([replace(one, clusters=None) for one in parts], part)).answer
    np.testing.assert_array_equal(np.ravel(plain.coef), np.ravel(answer.coef))


@pytest.mark.parametrize(("name", "family"), [("poisson", sm.families.Poisson()), ("binomial", sm.families.Binomial())])
def test_standard_errors_are_those_of_the_pooled_rows_in_statsmodels(name: str, family: Any) -> None:
    parts, part = clustered(name)
    answer = together(programs(parts, part)).answer
    assert answer.statistics is not None
    X, y = np.vstack([one.X for one in parts]), np.concatenate([one.y for one in parts if one.y is not None])
    labels = np.concatenate([1000 * k + np.arange(one.m) // OF for k, one in enumerate(parts)])
    theirs = sm.GLM(y, sm.add_constant(X), family=family).fit(
        tol=1e-14, cov_type="cluster", cov_kwds={"groups": labels}
    )
    ours = Inference(answer.statistics).summary(vcov="cluster", use_t=False)
    np.testing.assert_allclose(ours.to_frame()["std err"], theirs.bse, rtol=1e-8)
    assert f"{len(np.unique(labels))} clusters." in str(ours)
    assert "clusters; their standard errors: vcov='cluster'" in str(Inference(answer.statistics).summary())


# what a site holds back


def test_a_site_with_few_clusters_gives_none_to_all_and_the_rest_of_the_table_is_as_before() -> None:
    parts, part = clustered("poisson")
    found = together(programs(parts, part, rules=SiteRules(least_clusters=21)))  # alice has 20
    assert found.answer.statistics is not None
    assert found.answer.statistics.clusters == HELD_BACK
    assert "cluster" not in found.answer.statistics.meats
    assert "HC0" in found.answer.statistics.meats
    assert not any(b'"cluster' in request for request in found.requests)
    assert "No standard errors by clusters" in found.answer.sentence
    assert "No standard errors by clusters" in str(Inference(found.answer.statistics).summary())
    with pytest.raises(UnsuitablePair, match="few clusters of some site would have shown"):
        Inference(found.answer.statistics).vcov("cluster")
    told = together(programs(parts, part)).answer
    np.testing.assert_array_equal(told.coef, found.answer.coef)
    assert told.statistics is not None
    assert told.statistics.clusters == 20 + 25 + 30


def test_the_sums_of_a_site_that_is_one_cluster_could_be_computed_and_are_not_told() -> None:
    rng = np.random.default_rng(0)
    scores, own = rng.normal(size=(60, 3)), np.zeros(60)
    total = scores.sum(axis=0)
    told = np.linalg.eigh(np.outer(total, total))
    np.testing.assert_allclose(np.sqrt(told[0][-1]) * np.abs(told[1][:, -1]), np.abs(total))
    assert not allowed(scores, own)
    assert allowed(scores, np.arange(60) // 4)
    assert not allowed(scores, np.arange(60) // 7)  # nine clusters
    assert allowed(scores, np.arange(60) // 6)  # ten
    assert not allowed(rng.normal(size=(60, 5)), np.arange(60) // 5)  # 12 clusters for five coefficients


def test_a_cluster_of_many_rows_that_makes_up_most_of_the_sum_is_not_told() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(90, 2))
    labels = np.arange(90) // 3
    assert allowed(scores, labels)
    scores[:3] += 30.0
    assert not allowed(scores, labels)


def test_the_only_cluster_of_two_rows_could_be_read_from_the_difference_from_hc0_and_is_not_told() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(90, 2)), np.arange(90)
    assert allowed(scores, labels)  # as HC0, to which the sum is equal
    labels[1] = 0
    sums = np.vstack([scores[:2].sum(axis=0), scores[2:]])
    difference = sums.T @ sums - scores.T @ scores
    np.testing.assert_allclose(difference, np.outer(scores[0], scores[1]) + np.outer(scores[1], scores[0]), atol=1e-12)
    found = pairs(scores, labels)
    np.testing.assert_allclose([found[0], found[1:].max()], [np.linalg.norm(difference), 0.0], atol=1e-12)
    assert not allowed(scores, labels)


def test_the_naive_twin_of_pairs() -> None:
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=(40, 3)), rng.integers(0, 12, 40)
    for found, one in zip(pairs(scores, labels), np.unique(labels), strict=True):
        own = scores[labels == one]
        np.testing.assert_allclose(found, np.linalg.norm(np.outer(own.sum(0), own.sum(0)) - own.T @ own), atol=1e-12)
    assert pairs(np.zeros((0, 3)), np.zeros(0)).shape == (0,)


def test_what_was_contributed_once_counts_for_ever() -> None:
    first, few, many = (np.arange(n, n + 40, dtype=np.uint64) for n in (0, 2, 30))
    kept = Kept(MemberMemory("", ()), b"", first, first, clusters=first)
    assert kept.clusters_changed == 0
    for now, changed in ((first, 0), (few, 4), (few, 4), (many, 56), (first, 4)):
        kept.clusters = now
        assert kept.clusters_changed == changed
        kept.contribute(())
    assert len(kept.partitions) == 3
    kept.clusters = first[:0]
    assert kept.clusters_changed == 0


def test_few_clusters_that_have_changed_since_the_last_fit_are_not_told() -> None:
    scores, labels = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) // 4
    assert [allowed(scores, labels, changed=n) for n in (0, 4, 9, 10)] == [True, False, False, True]
    assert allowed(scores, labels, changed=4, small_changes=True)


def test_clusters_are_the_same_whatever_their_labels_and_differ_where_a_row_moves() -> None:
    (site, *_) = programs(*clustered("poisson"))
    (labels,) = site.block.clusters or ()
    before = cluster_digests(site.block, b"key")
    again = cluster_digests(replace(site.block, clusters=[np.unique(labels, return_inverse=True)[1] * -2.0]), b"key")
    np.testing.assert_array_equal(before, again)
    moved = labels.copy()
    moved[0] = labels[-1]
    assert rows_changed(before, cluster_digests(replace(site.block, clusters=[moved]), b"key")) == 4
    assert len(cluster_digests(replace(site.block, clusters=None), b"key")) == 0


# real sites


def federate(folder: Path, parts: list[DataTable], part: ProblemPart) -> Loopback:
    """A federation of sites with these tables, whose clusters are in the column that the problem names."""
    files = {}
    for name, one in zip(("alice", "bob", "carol"), parts, strict=True):
        rows = zip(np.asarray(one.X).tolist(), np.asarray(one.clusters), np.asarray(one.y).tolist(), strict=True)
        lines = [",".join([*map(repr, x), str(label), repr(y)]) for x, label, y in rows]
        files[name] = "\n".join([",".join([*one.columns, part.cluster, "y"]), *lines]) + "\n"
    keys = {key: value for key, value in vars(part).items() if key != "loss"} | {"tol": 1e-6}
    return Loopback.make(folder, files, problem=keys, network={"topology": "ring"})


@pytest.mark.waits
@pytest.mark.parametrize("formula", ["", "y ~ a + b + c"])
def test_sites_over_tls_have_the_simulators_bits(
    formula: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts, part = clustered("binomial")
    part = replace(part, cluster="house", formula=formula)
    made = federate(tmp_path, parts, part)
    made.run()
    assert made.errors == {}
    if formula:
        parts = [one.take(np.arange(3), one.columns[:3]) for one in parts]
    expected = simulated(parts, replace(part, formula="", cluster=""))
    for site in ("alice", "bob", "carol"):
        model = made.model(site)
        assert made.endings[site].outcome is TrainingOutcome.CERTIFIED
        assert model.statistics is not None
        assert expected.statistics is not None
        assert model.statistics.clusters == 75
        np.testing.assert_array_equal(model.coef, expected.coef)
        np.testing.assert_array_equal(model.statistics.meats["cluster"], expected.statistics.meats["cluster"])
    path = str(tmp_path / "alice.state" / "model.npz")
    assert main(["show", path, "--errors", "cluster"]) == 0
    shown = capsys.readouterr().out
    assert ("75 clusters." in shown, "house" in shown) == (True, False)
    assert main(["predict", path, str(tmp_path / "bob.csv")]) == 0
    assert "columns that are not used: " in capsys.readouterr().err
    for folder in tmp_path.glob("*.state"):
        assert not any(b"house 3" in one.read_bytes() for one in folder.iterdir() if one.is_file())


@pytest.mark.waits
def test_who_moves_a_row_to_another_cluster_holds_the_next_sum_back(tmp_path: Path) -> None:
    parts, part = clustered("binomial")
    made = federate(tmp_path, parts, replace(part, cluster="house"))
    made.run()
    table = (tmp_path / "alice.csv").read_text()
    rows = table.splitlines()
    rows[1] = rows[1].replace("house 0", "house 19")
    (tmp_path / "alice.csv").write_text("\n".join(rows) + "\n")
    made.run()
    assert "one federation file makes one model" in made.errors["alice"]
    made.errors.clear()
    made.federation = replace(made.federation, problem=replace(made.federation.problem, tol_se=2e-6))
    for name in ("alice", "bob", "carol"):
        made.federation.write(tmp_path / f"{name}.fed.toml")
    made.run()
    statistics = made.model("alice").statistics
    assert statistics is not None
    assert statistics.clusters == HELD_BACK
    assert made.endings["bob"].sentence().count("No standard errors by clusters") == 1
    file = max((tmp_path / "bob.state").glob("totals-*"), key=lambda path: path.stat().st_mtime)
    before = {one.what: one.seen for one in examine(tmp_path / "bob.toml")}["released"]
    # as earlier versions wrote it
    head, _, body = file.read_bytes().partition(b"\n")
    tree = json.loads(head)
    assert tree.pop("clusters") == [25, 25]
    last = tree["sizes"].pop()
    assert last == 8 * 50
    file.write_bytes(json.dumps(tree).encode() + b"\n" + body[:-last])
    assert {one.what: one.seen for one in examine(tmp_path / "bob.toml")}["released"] == before


@pytest.mark.waits
def test_a_site_whose_file_lacks_the_column_is_named_to_all(tmp_path: Path) -> None:
    parts, part = clustered("poisson")
    made = federate(tmp_path, parts, replace(part, cluster="house"))
    text = (tmp_path / "bob.csv").read_text()
    (tmp_path / "bob.csv").write_text(text.replace("house,y", "family,y"))
    made.run()
    assert made.endings == {}
    assert all("bob" in error and "lacks the column 'house' (cluster)" in error for error in made.errors.values())


def test_doctor_says_what_is_wrong_with_a_column_of_clusters_and_with_few_of_them(tmp_path: Path) -> None:
    parts, part = clustered("poisson")
    made = federate(tmp_path, parts, replace(part, cluster="house"))
    path, node = tmp_path / "alice.csv", tmp_path / "alice.toml"
    text = path.read_text()
    assert made.errors == {}
    for changed, words in (
        (text.replace("house,y", "home,y"), "lacks the column 'house' (cluster)"),
        (text.replace("house 7", ""), "'house' (cluster) has missing values"),
        (text.replace("d,house,y", "house,house,y"), "has twice the column 'house'"),
        ("\n".join([text.splitlines()[0], *(f"{k},2,3,4,x,1" for k in range(30))]), "has one value in all rows"),
    ):
        path.write_text(changed)
        found = {one.what: one.seen for one in examine(node) if one.level == "error"}
        assert words in found["data"]
    path.write_text(text)
    assert not [one for one in examine(node) if "clusters" in one.seen or "house" in one.seen]
    node.write_text(node.read_text() + "\n[rules]\nleast_clusters = 21\n")
    said = [one for one in examine(node) if "20 clusters, least_clusters = 21" in one.seen]
    assert [one.level for one in said] == ["warning"]


# the federation file


def test_a_new_file_says_what_a_cluster_is_and_leaves_the_column_out_of_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, file = tmp_path / "alice.csv", tmp_path / "fed.toml"
    data.write_text("age,house,ill\n" + "".join(f"{k % 7},h{k // 4},{k % 2}\n" for k in range(20)))
    like = ["federation", "init", str(file), "--like", str(data), "--cluster", "house", "--family", "binomial"]
    assert main(like) == 0
    assert "the same label at two sites means two clusters" in capsys.readouterr().out
    federation = Federation.read(file)
    assert federation.data is not None
    assert (federation.problem.cluster, federation.data.names) == ("house", ("age",))
    column = replace(federation.data.columns[0], name="house")
    listed = replace(federation.data, columns=(*federation.data.columns, column))
    with pytest.raises(GlmeshError, match="whose labels stay at their sites"):
        replace(federation, data=listed).check_settings()
    file.unlink()
    assert main([*like[:5], "--cluster", "house", "--model", "logistic"]) == 2
    assert "--cluster goes with --family" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"cluster": "house"}, "goes with a family"),
        ({"family": "poisson", "alpha": 1.0, "cluster": "house"}, "which a fit with a penalty has not"),
        ({"family": "poisson", "offset": "a", "cluster": "a"}, "cluster and offset are two columns"),
        ({"family": "cox", "time": "t", "event": "e", "cluster": "t"}, "cluster and time are two columns"),
    ],
)
def test_keys_that_do_not_go_together_are_refused_by_name(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(GlmeshError, match=words):
        ProblemPart(**keys).model()
