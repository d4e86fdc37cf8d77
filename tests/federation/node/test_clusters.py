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
from glmesh.cli.train_beside import Beside
from glmesh.contract import DataTable
from glmesh.errors import GlmeshError, UnsuitablePair
from glmesh.federation.config import Federation, ProblemPart
from glmesh.federation.config.site import SiteRules
from glmesh.federation.monitor.doctor import examine
from glmesh.federation.node.answer import Answer
from glmesh.federation.node.discretion import SiteDiscretion, pairs
from glmesh.federation.node.program import SiteProgram
from glmesh.federation.node.rules import RuleBook
from glmesh.federation.node.site_table import texts_wanted, with_clusters
from glmesh.federation.node.totals_store import Kept, TotalsStore, cluster_digests, clusters_between
from glmesh.federation.node.training import TrainingOutcome
from glmesh.federation.totals.memory import FederationInfo, MemberMemory
from glmesh.files.data_files import read_table
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


def lenient(parts: list[DataTable], part: ProblemPart, **rules: Any) -> list[SiteProgram]:
    """Programs of sites that tell sums of which one cluster is most, so that 20 will do."""
    sites = programs(parts, part, rules=SiteRules(largest_share=0.9, effective_rows=1.0, **rules))
    for one in sites:
        one.rules = sites[0].rules
    return sites


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
    answer, expected = together(lenient(parts, part)).answer, simulated(parts, part)
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
    answer = together(lenient(parts, part)).answer
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
    found = together(
        programs(parts, part, rules=SiteRules(least_clusters=21, largest_share=0.9, effective_rows=1.0))
    )  # alice has 20
    assert found.answer.statistics is not None
    assert found.answer.statistics.clusters == HELD_BACK
    assert "cluster" not in found.answer.statistics.meats
    assert "HC0" in found.answer.statistics.meats
    assert not any(b'"cluster' in request for request in found.requests)
    assert "No standard errors by clusters" in found.answer.sentence
    assert "No standard errors by clusters" in str(Inference(found.answer.statistics).summary())
    with pytest.raises(UnsuitablePair, match="few clusters of some site would have shown"):
        Inference(found.answer.statistics).vcov("cluster")
    told = together(lenient(parts, part)).answer
    np.testing.assert_array_equal(told.coef, found.answer.coef)
    assert told.statistics is not None
    assert told.statistics.clusters == 20 + 25 + 30


def test_the_sums_of_a_site_that_is_one_cluster_could_be_computed_and_are_not_told() -> None:
    rng = np.random.default_rng(0)
    scores, own = rng.normal(size=(60, 3)), np.zeros(60)
    total = scores.sum(axis=0)
    told = np.linalg.eigh(np.outer(total, total))
    np.testing.assert_allclose(np.sqrt(told[0][-1]) * np.abs(told[1][:, -1]), np.abs(total))
    assert not allowed(scores, own, largest_share=0.9, effective_rows=1.0)
    assert allowed(scores, np.arange(60) // 4, largest_share=0.9, effective_rows=1.0)
    assert not allowed(scores, np.arange(60) // 7, largest_share=0.9, effective_rows=1.0)  # nine clusters
    assert allowed(scores, np.arange(60) // 6, largest_share=0.9, effective_rows=1.0)  # ten
    assert not allowed(
        rng.normal(size=(60, 5)), np.arange(60) // 5, largest_share=0.9, effective_rows=1.0
    )  # 12 clusters for five coefficients


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


def kept_of(clusters: Array) -> Kept:
    none = np.zeros(0, dtype=np.uint64)
    return Kept(MemberMemory("", ()), b"", none, none, clusters=clusters)


def partition(*groups: int) -> Array:
    """Digests of clusters, behind the one number that says whether they are all the same."""
    return np.array([hash(groups) % 2**63, *sorted(groups)], dtype=np.uint64)


def test_what_was_told_once_counts_for_ever_and_what_was_held_back_does_not() -> None:
    kept = kept_of(partition(*range(40)))
    kept.tell_clusters()
    changed = []
    for month in range(1, 9):  # three new patients a month, and d = 3
        kept.clusters = partition(*range(40 + 3 * month))
        changed.append(kept.clusters_changed)
        if changed[-1] >= 10:
            kept.tell_clusters()
    assert changed == [3, 6, 9, 12, 3, 6, 9, 12]
    kept.clusters = partition(*range(40))
    assert kept.clusters_changed == 12  # less than it was, and nothing beside what was told
    kept.clusters = kept.clusters[:0]
    assert kept.clusters_changed == 0


def test_the_side_with_fewer_clusters_counts_and_other_columns_alone_count_as_few() -> None:
    kept = kept_of(partition(*range(40)))
    kept.tell_clusters()
    for now, changed in (
        (range(40), 0),
        ((*range(100, 106), *range(6, 40)), 6),  # three rows moved among six clusters
        ((*range(100, 110), *range(5, 40)), 5),  # five households split in two
        (range(30), 10),
    ):
        kept.clusters = partition(*now)
        assert kept.clusters_changed == changed
    kept.clusters = partition(*range(40))
    kept.clusters[0] += 1
    assert kept.clusters_changed == 1


def test_partitions_of_all_files_of_a_folder_are_known(tmp_path: Path) -> None:
    (site, *_) = programs(*clustered("poisson"))
    (first,) = site.block.clusters or ()
    second = np.array([f"b{k // 5}" for k in range(len(first))])
    moved = second.copy()
    moved[0] = moved[-1]

    def fit(digest: str, labels: Array, *, tells: bool, X: Any = None) -> int:
        class Somewhere:
            state = tmp_path

            class federation:
                pass

        Somewhere.federation.digest = digest * 16  # type: ignore[attr-defined]
        info = FederationInfo("f", ("a", "b", "c"), ((1, 2), (0, 2), (0, 1)), 0)
        store = TotalsStore(Somewhere(), info)  # type: ignore[arg-type]
        block = replace(site.block, clusters=[labels], X=site.block.X if X is None else [X])
        kept = store.load(block)
        if tells:
            kept.tell_clusters()
        store.save(kept)
        return kept.clusters_changed

    assert fit("1", first, tells=True) == 0
    fit("2", second, tells=True)
    fit("1", first, tells=False)  # a node of the first file is started once more
    for wider in (None, np.hstack([site.block.X[0], np.zeros((len(first), 1))])):
        for again in ("3", "4"):  # the third fit after a held-back one
            assert fit(again if wider is None else again * 2, moved, tells=False, X=wider) == 2
    assert fit("5", first, tells=False) == 16


def test_few_clusters_that_have_changed_since_the_last_fit_are_not_told() -> None:
    scores, labels = np.random.default_rng(1).normal(size=(60, 3)), np.arange(60) // 4
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
    assert clusters_between(before, cluster_digests(replace(site.block, clusters=[moved]), b"key")) == 2
    assert len(cluster_digests(replace(site.block, clusters=None), b"key")) == 0


def test_a_level_that_few_clusters_have_could_be_read_from_its_row_of_the_sum_and_is_not_told() -> None:
    rng = np.random.default_rng(0)
    labels, slopes = np.arange(160) // 4, rng.normal(size=160)

    def scores(level: Array) -> Matrix:
        return np.column_stack([rng.normal(size=160), level, np.ones(160)]) * slopes[:, None]

    rare = np.isin(labels, [0, 1])
    slopes[rare] -= slopes[rare].mean()  # as at the maximum
    told = scores(rare)
    sums = np.stack([told[labels == one].sum(axis=0) for one in range(40)])
    row = (sums.T @ sums)[1]
    np.testing.assert_allclose(np.abs(row / np.sqrt(row[1] / 2.0)), np.abs(sums[0] - sums[1]), atol=1e-12)
    for level in (rare, ~rare, np.isin(labels, range(4))):
        assert not allowed(scores(level), labels)
    assert allowed(scores(labels < 20), labels)


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
    assert tree.pop("clusters") == [26, 26]  # one number for all beside that of each cluster
    last = tree["sizes"].pop()
    assert last == 8 * 52
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


@pytest.mark.parametrize(
    "ids", [[str(2**53 + k) for k in range(4)], ["007", "7", "08", "8"], ["1e3", "1000", "1.0", "1"]]
)
def test_labels_are_cells_as_they_are_written(ids: list[str], tmp_path: Path) -> None:
    path, part = tmp_path / "t.csv", ProblemPart(family="binomial", cluster="id")
    path.write_text("x,id,y\n" + "".join(f"{k},{one},{k % 2}\n" for k, one in enumerate(ids)))
    found = with_clusters(read_table(path, target="y", texts=texts_wanted(part)), part)
    assert found.clusters is not None
    assert found.clusters.tolist() == ids
    whole = pytest.importorskip("pandas").DataFrame({"x": range(4), "id": [2**53 + k for k in range(4)], "y": 1.0})
    whole.to_parquet(tmp_path / "t.parquet")
    found = with_clusters(read_table(tmp_path / "t.parquet", target="y", texts=texts_wanted(part)), part)
    assert len(np.unique(found.clusters)) == 4
    numbers = Beside(cluster="id").numbers(read_table(path, target="y", texts=("id",)))[1]
    assert len(np.unique(numbers)) == 4


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
