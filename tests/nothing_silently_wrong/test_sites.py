"""Sites whose files do not fit: each case is right, or refused at every site with its culprit and its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glmesh.contract import Column, Contract
from glmesh.federation.monitor.history import read_lines
from tests.loopback import Loopback, MeetingClock, running

pytestmark = pytest.mark.waits

NAMES = ("age", "bmi", "sbp")
W = np.array([1.0, -2.0, 0.5])


@dataclass
class Table:
    """A site's table as text cells, which cases change."""

    names: list[str] | None
    rows: list[list[str]]

    def text(self) -> str:
        lines = self.rows if self.names is None else [self.names, *self.rows]
        return "".join(",".join(line) + "\n" for line in lines)

    def column(self, name: str) -> int:
        assert self.names is not None
        return self.names.index(name)

    def move(self, order: list[str]) -> None:
        places = [self.column(name) for name in order]
        self.names, self.rows = order, [[row[k] for k in places] for row in self.rows]

    def add(self, name: str, cells: list[str], at: int = 0) -> None:
        assert self.names is not None
        self.names.insert(at, name)
        for row, cell in zip(self.rows, cells, strict=True):
            row.insert(at, cell)

    def drop(self, name: str) -> None:
        k = self.column(name)
        assert self.names is not None
        self.names.pop(k)
        for row in self.rows:
            row.pop(k)

    def rename(self, old: str, new: str) -> None:
        assert self.names is not None
        self.names[self.column(old)] = new

    def map(self, name: str, change: Callable[[str], str]) -> None:
        k = self.column(name)
        for row in self.rows:
            row[k] = change(row[k])


def _arrays(site: int, m: int = 24) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(site)
    X = rng.normal(size=(m, 3)).round(3)
    return X, np.where(X @ W + 0.5 * rng.normal(size=m) > 0, 1.0, 0.0)


def _tables(names: tuple[str, ...] = ("alice", "bob", "carol")) -> dict[str, Table]:
    out = {}
    for k, name in enumerate(names):
        X, y = _arrays(k)
        rows = [[*(f"{value:g}" for value in row), f"{label:g}"] for row, label in zip(X, y, strict=True)]
        out[name] = Table([*NAMES, "ill"], rows)
    return out


CONTRACT = Contract("ill", tuple(Column(name) for name in NAMES), (0.0, 1.0))


@dataclass
class Case:
    """What is changed in the files, and what must be heard."""

    change: Callable[[dict[str, Table]], None]
    refused: tuple[str, ...] = ()  # culprits; empty: the answer must be right
    words: tuple[str, ...] = ()  # in every site's line (refused), or in bob's remarks
    contract: bool | None = None  # only with, only without a contract in the federation file; None: both
    node: dict[str, str] = field(default_factory=dict)
    never: tuple[str, ...] = ()  # words that no other site may read


def _no_header(tables: dict[str, Table], *names: str) -> None:
    for name in names or tuple(tables):
        tables[name].names = None


def _levels(tables: dict[str, Table]) -> None:
    """Dummies made per site: each has other levels."""
    for name, levels in {"alice": "AB", "bob": "AC", "carol": "AB"}.items():
        for level in levels:
            tables[name].add(f"blood_{level}", [str(k % 2) for k in range(24)])


def _labels(tables: dict[str, Table], mapping: dict[str, str], *names: str) -> None:
    for name in names or tuple(tables):
        tables[name].map("ill", lambda cell: mapping[cell])


SICK = {"0": "no", "1": "yes"}
ACCENTS = {"alice": "m\u00e2le", "bob": "ma\u0302le", "carol": "m\u00e2le"}
CASES = {
    "the same files": Case(lambda t: None),
    "two columns in another order": Case(
        lambda t: t["bob"].move(["bmi", "age", "sbp", "ill"]), words=("put in order by name",)
    ),
    "the first site in another order": Case(lambda t: t["alice"].move(["sbp", "bmi", "age", "ill"])),
    "target in front, named": Case(lambda t: t["bob"].move(["ill", "age", "bmi", "sbp"]), node={"target": "ill"}),
    "target in front, by the contract": Case(lambda t: t["bob"].move(["ill", "age", "bmi", "sbp"]), contract=True),
    "target in front, unsaid": Case(
        lambda t: t["bob"].move(["ill", "age", "bmi", "sbp"]),
        ("bob",),
        ("has the target 'sbp'", "alice: has the target 'ill'"),
        contract=False,
    ),
    "an extra column, with a contract": Case(
        lambda t: t["bob"].add("weight", ["70"] * 24, 1), words=("not used: weight",), contract=True
    ),
    "an extra column, without a contract": Case(
        lambda t: t["bob"].add("weight", ["70"] * 24, 1),
        ("bob",),
        ("has the columns age, weight, bmi, sbp; alice: has the columns age, bmi, sbp",),
        contract=False,
    ),
    "a missing column": Case(lambda t: t["bob"].drop("bmi"), ("bob",), ("age, sbp", "age, bmi, sbp")),
    "a renamed column": Case(lambda t: t["bob"].rename("bmi", "BMI"), ("bob",), ("age, BMI, sbp", "age, bmi, sbp")),
    "a renamed column, guessed": Case(
        lambda t: t["bob"].rename("bmi", "BMI"), ("bob",), ("is 'BMI' meant to be 'bmi'?",), contract=True
    ),
    "a missing target": Case(lambda t: t["bob"].rename("ill", "sick"), ("bob",), ("ill", "sick")),
    "a doubled column": Case(lambda t: t["bob"].add("bmi", ["1"] * 24), ("bob",), ("'bmi' twice",)),
    "no header at one site": Case(lambda t: _no_header(t, "bob"), ("bob",), ("no header",), contract=False),
    "no header at one site, with a contract": Case(
        lambda t: _no_header(t, "bob"), ("bob",), ("cannot take part",), contract=True
    ),
    "no header at any site": Case(_no_header, words=("matched by position",), contract=False),
    "dummies with other levels": Case(_levels, ("bob",), ("blood_C", "blood_B"), contract=False),
    "a column of text": Case(
        lambda t: t["bob"].map("bmi", lambda cell: "Smith"), ("bob",), ("column bmi", "text"), never=("Smith",)
    ),
    "missing values": Case(
        lambda t: t["bob"].rows[3].__setitem__(1, "NA"),
        ("bob",),
        ("column bmi has a missing value", "fill them in"),
        never=("line 5",),
    ),
    "a value that is not finite": Case(
        lambda t: t["bob"].rows[3].__setitem__(1, "inf"), ("bob",), ("cannot take part",)
    ),
    "other labels at one site": Case(
        lambda t: _labels(t, {"0": "1", "1": "2"}, "bob"), ("bob",), ("the labels 1, 2", "0, 1")
    ),
    "labels of text at one site": Case(lambda t: _labels(t, SICK, "bob"), ("bob",), ("no, yes", "0, 1")),
    "labels of text at all sites": Case(lambda t: _labels(t, SICK), contract=False),
    "labels true and false at one site": Case(lambda t: _labels(t, {"0": "FALSE", "1": "True"}, "bob")),
    "labels with a fraction of zero at one site": Case(lambda t: _labels(t, {"0": "0.0", "1": "1.0"}, "bob")),
    "a blank behind a name at one site": Case(lambda t: t["bob"].rename("bmi", "bmi ")),
    "a letter in two signs at one site": Case(
        lambda t: [t[site].rename("bmi", name) for site, name in ACCENTS.items()] and None, contract=False
    ),
    "a value whose square is infinite": Case(
        lambda t: t["bob"].rows[3].__setitem__(1, "1e200"),
        ("bob",),
        ("column bmi has a value that is not finite or whose square is not",),
        never=("line 5",),
    ),
    "three labels at one site": Case(
        lambda t: t["bob"].rows[0].__setitem__(-1, "2"), ("bob",), ("0, 1, 2", "0, 1"), contract=False
    ),
    "one class at one site": Case(lambda t: t["bob"].map("ill", lambda cell: "1")),
    "three labels at all sites": Case(
        lambda t: [table.rows[0].__setitem__(-1, "2") for table in t.values()] and None,
        ("alice", "bob", "carol"),
        ("0, 1, 2", "needs two"),
        contract=False,
    ),
    "no file": Case(lambda t: t.__setitem__("bob", Table(None, [])), ("bob",), ("cannot",), never=("bob.csv: no",)),
}


def _run(tmp_path: Path, case: Case, data: Contract | None, **network: Any) -> tuple[Loopback, dict[str, Table]]:
    tables = _tables()
    case.change(tables)
    files = {name: table.text() for name, table in tables.items()}
    made = Loopback.make(tmp_path, files, problem={"loss": "logistic"}, network=network, node=case.node, data=data)
    made.run()
    return made, tables


def _best(sites: tuple[int, ...] = (0, 1, 2), labels: Callable[[np.ndarray, int], np.ndarray] = lambda y, k: y) -> Any:
    """Coefficients of the pooled rows of these sites, in the order of NAMES."""
    from sklearn.linear_model import LogisticRegression

    parts = [_arrays(k) for k in sites]
    X = np.concatenate([X for X, _ in parts])
    y = np.concatenate([labels(y, k) for k, (_, y) in zip(sites, parts, strict=True)])
    return LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, solver="newton-cholesky").fit(X, y).coef_[0]


TABLE = [(name, held) for name, case in CASES.items() for held in (False, True) if case.contract in (None, held)]


@pytest.mark.parametrize(
    ("name", "with_contract"), TABLE, ids=[f"{n}-{'contract' if c else 'agreed'}" for n, c in TABLE]
)
def test_files_that_do_not_fit_are_put_right_or_refused_at_every_site(
    name: str, with_contract: bool, tmp_path: Path
) -> None:
    case = CASES[name]
    made, tables = _run(tmp_path, case, CONTRACT if with_contract else None)
    if case.refused:
        assert not made.endings
        assert set(made.errors) == {"alice", "bob", "carol"}
        for site, line in made.errors.items():
            for culprit in case.refused:
                assert f"{culprit} cannot take part: " in line
            assert {other for other in made.errors if f"{other} cannot" in line} == set(case.refused), line
            for word in case.words:
                assert word in line, (site, line)
            if site not in case.refused:
                assert not any(word in line for word in case.never), (site, line)
        return
    assert not made.errors
    assert {ending.sentence().split(".")[0] for ending in made.endings.values()} == {
        "All 3 sites hold a model that is proven to be within tol of the best for these rows"
    }
    best = _best(labels=lambda y, k: y * 0 + 1 if name.startswith("one class") and k == 1 else y)
    for site in tables:
        model = made.model(site)
        named = [{"bmi": ACCENTS["alice"]}.get(one, one) if "in two signs" in name else one for one in NAMES]
        order = [model.names.index(one) for one in named] if model.names else [0, 1, 2]
        np.testing.assert_allclose(model.coef[order], best, atol=2e-3)
        assert model.sites == ("alice", "bob", "carol")
        assert model.classes == (("no", "yes") if "of text" in name else (0.0, 1.0))
    for word in case.words:
        assert word in " ".join(made.said("bob"))


def test_two_sites_that_differ_are_both_named(tmp_path: Path) -> None:
    tables = _tables(("alice", "bob"))
    tables["bob"].rename("bmi", "weight")
    made = Loopback.make(tmp_path, {name: table.text() for name, table in tables.items()}, problem={"loss": "logistic"})
    made.run()
    for line in made.errors.values():
        assert "alice cannot take part: lacks the column weight, which bob has; has the columns age, bmi, sbp" in line
        assert "bob cannot take part: lacks the column bmi, which alice has; has the columns age, weight, sbp" in line


def test_others_go_on_without_a_refused_site_if_the_federation_says_so(tmp_path: Path) -> None:
    made, _ = _run(tmp_path, CASES["a missing column"], None, refused="without")
    assert "bob cannot take part" in made.errors["bob"]
    assert set(made.endings) == {"alice", "carol"}
    for name, ending in made.endings.items():
        assert ending.without == ("bob",)
        assert "without bob (2 of 3 sites)" in ending.sentence()
        assert "All" not in ending.sentence()
        model = made.model(name)
        assert (model.sites, model.without) == (("alice", "carol"), ("bob",))
        np.testing.assert_allclose(model.coef, _best((0, 2)), atol=2e-3)


def _waits_for_bob_alone(log: Path) -> bool:
    said = [entry["for"] for entry in read_lines(log) if entry["event"] == "waiting"] if log.exists() else []
    return bool(said) and said[-1].startswith("bob")


@pytest.mark.parametrize("refused", ["end", "without"])
def test_a_site_that_never_comes_is_waited_for_no_longer_than_said(
    refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is put forward once the other two have met, however long that takes."""
    clock = MeetingClock()
    monkeypatch.setattr("glmesh.federation.node.meeting.time", clock)
    monkeypatch.setattr("glmesh.federation.node.neighbourhood.SAY_EVERY", 0.3)
    files = {name: table.text() for name, table in _tables().items()}
    network = {"meet_within": 1000.0, "refused": refused}
    made = Loopback.make(tmp_path, files, problem={"loss": "logistic"}, network=network)
    with running(made, "alice", "carol") as thread:
        while not all(_waits_for_bob_alone(tmp_path / f"{name}.state" / "log.jsonl") for name in ("alice", "carol")):
            thread.join(0.05)
            assert thread.is_alive()
        clock.forward = 1000.0
    last = [e for e in read_lines(tmp_path / "alice.state" / "log.jsonl") if e["event"] == "waiting"][-1]
    assert last["since"]
    assert last["until"]
    if refused == "end":
        for line in made.errors.values():
            assert "bob cannot take part: it did not come within 1000 s" in line
        assert set(made.errors) == {"alice", "carol"}
    else:
        assert {ending.without for ending in made.endings.values()} == {("bob",)}
        assert set(made.endings) == {"alice", "carol"}


def test_sites_with_other_federation_files_are_told_the_key(tmp_path: Path) -> None:
    made = Loopback.make(tmp_path, {n: t.text() for n, t in _tables().items()}, problem={"loss": "logistic"})
    made.change("bob", alpha=2.0)
    made.run()
    assert "problem.alpha is '2.0' here and '1.0' there" in made.errors["bob"]
    for name in ("alice", "carol"):
        assert (
            "bob cannot take part: has another configuration: problem.alpha is '1.0' here and '2.0' there"
            in (made.errors[name])
        )


def test_a_late_site_that_does_not_fit_ends_alone(tmp_path: Path) -> None:
    tables = _tables(("alice", "bob", "carol", "dora"))
    tables["dora"].drop("bmi")
    made = Loopback.make(
        tmp_path, {n: t.text() for n, t in tables.items()}, problem={"loss": "logistic"}, late=("dora",)
    )
    made.run()
    assert "dora cannot take part" in made.errors["dora"]
    assert {name: ending.without for name, ending in made.endings.items()} == dict.fromkeys(
        ("alice", "bob", "carol"), ("dora",)
    )


def test_sample_weights_count_and_must_be_at_all_sites(tmp_path: Path) -> None:
    tables = _tables()
    for k, table in enumerate(tables.values()):
        table.rename("bmi", "weight")  # of the body: no sample weight
        table.add("w", [str(1 + (k + row) % 3) for row in range(24)])
    files = {name: table.text() for name, table in tables.items()}
    (tmp_path / "all").mkdir()
    made = Loopback.make(tmp_path / "all", files, problem={"loss": "squared"}, node={"sample_weight": "w"})
    made.run()
    X, y = (np.concatenate(part) for part in zip(*(_arrays(k) for k in range(3)), strict=True))
    w = np.concatenate([[1 + (k + row) % 3 for row in range(24)] for k in range(3)])
    best = np.linalg.solve(X.T @ (w[:, None] * X) + np.eye(3), X.T @ (w * y))
    np.testing.assert_allclose(made.model("bob").coef, best, atol=1e-4)
    tables["bob"].drop("w")
    files["bob"] = tables["bob"].text()
    (tmp_path / "one").mkdir()
    made = Loopback.make(tmp_path / "one", files, problem={"loss": "squared"}, node={"sample_weight": "w"})
    made.write_node("bob", made.federation)
    made.run()
    assert all("bob cannot take part: has no sample weights" in line for line in made.errors.values())
    assert len(made.errors) == 3


def test_a_column_in_other_units_is_a_warning_where_it_is_small(tmp_path: Path) -> None:
    case = Case(lambda t: t["bob"].map("bmi", lambda cell: f"{1000 * float(cell):g}"))
    tables = _tables()
    case.change(tables)
    files = {name: table.text() for name, table in tables.items()}
    made = Loopback.make(tmp_path, files, problem={"loss": "logistic", "max_rounds": 3})
    made.run()
    assert any("column 'bmi'" in said and "are the units the same?" in said for said in made.said("alice"))
    assert not any("'age'" in said for said in made.said("alice"))
    assert not any("are the units the same?" in said for said in made.said("bob"))


# split by features: the same rows at all sites


def _by_features(ids: bool = True) -> dict[str, Table]:
    X, y = _arrays(0, 30)
    out = {}
    for k, name in enumerate(("alice", "bob", "carol")):
        rows = [[f"p{i}"] * ids + [f"{X[i, k]:g}", f"{y[i]:g}"] for i in range(30)]
        out[name] = Table(["patient"] * ids + [NAMES[k], "ill"], rows)
    return out


def _swap(table: Table) -> None:
    table.rows[3], table.rows[9] = table.rows[9], table.rows[3]


FEATURES = {
    "the same order": Case(lambda t: None),
    "another order": Case(lambda t: _swap(t["bob"]), ("bob",), ("its rows are not those of alice",), never=("p3",)),
    "fewer rows": Case(lambda t: t["bob"].rows.pop() and None, ("bob",), ("has 29 rows; alice: has 30",)),
    "another target": Case(lambda t: t["bob"].map("ill", lambda c: f"{float(c) + 1:g}"), ("bob",), ("cannot",)),
    "one other label, within the same range": Case(
        lambda t: t["bob"].rows[3].__setitem__(-1, f"{1 - float(t['bob'].rows[3][-1]):g}"),
        ("bob",),
        ("its target or its sample weights are not those of alice",),
    ),
    "one column at two sites": Case(
        lambda t: t["bob"].rename("bmi", "age"),
        ("alice", "bob"),
        ("has the column age, and so has bob", "has the column age, and so has alice", "every column is at one site"),
    ),
    "a twin of a row": Case(lambda t: t["bob"].rows[3].__setitem__(0, "p9"), ("bob",), ("cannot",), never=("p9",)),
}


@pytest.mark.parametrize("name", FEATURES)
def test_rows_that_are_not_the_same_are_refused_split_by_features(name: str, tmp_path: Path) -> None:
    case, tables = FEATURES[name], _by_features()
    case.change(tables)
    problem = {"loss": "squared", "penalty": "l1", "alpha": 0.5, "split": "features", "fit_intercept": True}
    files = {site: table.text() for site, table in tables.items()}
    made = Loopback.make(tmp_path, files, problem=problem, node={"ids": "patient"})
    made.run()
    if not case.refused:
        assert len(made.endings) == 3
        assert made.model("bob").names == ("bmi",)
        return
    assert len(made.errors) == 3
    for site, line in made.errors.items():
        assert {other for other in made.errors if f"{other} cannot" in line} == set(case.refused), line
        assert "sort both files alike" not in line
        assert all(word in line for word in case.words), line
        assert site == "bob" or not any(word in line for word in case.never), line


LATE = {
    "the same rows": ((lambda table: None), ""),
    "another order": (_swap, "its rows are not those of alice"),
    "one other label": (
        lambda table: table.rows[3].__setitem__(-1, f"{1 - float(table.rows[3][-1]):g}"),
        "its target or its sample weights are not those of",
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_a_late_site_with_other_rows_or_targets_ends_alone_split_by_features(name: str, tmp_path: Path) -> None:
    change, words = LATE[name]
    tables = _by_features()
    change(tables["carol"])
    problem = {"loss": "squared", "penalty": "l1", "alpha": 0.5, "split": "features", "tol": 1e-9}
    files = {site: table.text() for site, table in tables.items()}
    made = Loopback.make(tmp_path, files, problem=problem, node={"ids": "patient"}, late=("carol",))
    made.run()
    assert {"alice", "bob"} <= set(made.endings)
    if words:
        assert words in made.errors["carol"]
        assert all(made.endings[site].without == ("carol",) for site in ("alice", "bob"))
    else:
        assert "carol" not in made.errors


def test_a_late_site_is_not_refused_because_another_late_site_has_other_targets(tmp_path: Path) -> None:
    X, y = _arrays(0, 30)
    files = {}
    for k, name in enumerate(("alice", "bob", "carol", "dora")):
        labels = [1 - y[i] if name == "dora" and i == 3 else y[i] for i in range(30)]
        rows = [[f"p{i}", f"{X[i, k % 3] * (1 + k):g}", f"{labels[i]:g}"] for i in range(30)]
        files[name] = Table(["patient", f"x{k}", "ill"], rows).text()
    problem = {"loss": "squared", "penalty": "l1", "alpha": 0.5, "split": "features", "tol": 1e-9}
    made = Loopback.make(tmp_path, files, problem=problem, node={"ids": "patient"}, late=("carol", "dora"))
    made.run()
    assert "its target or its sample weights are not those of" in made.errors.pop("dora")
    assert not made.errors
    assert set(made.endings) == {"alice", "bob", "carol"}


@pytest.mark.parametrize("aligned", [False, True])
def test_rows_without_names_must_be_said_to_be_aligned(aligned: bool, tmp_path: Path) -> None:
    problem = {"loss": "squared", "penalty": "l1", "alpha": 0.5, "split": "features", "aligned": aligned}
    files = {site: table.text() for site, table in _by_features(ids=False).items()}
    made = Loopback.make(tmp_path, files, problem=problem)
    made.run()
    if aligned:
        assert len(made.endings) == 3
        assert any("was not checked" in said for said in made.said("bob"))
    else:
        assert len(made.errors) == 3
        assert all("aligned = true" in line and "`ids`" in line for line in made.errors.values())


def test_nothing_that_a_site_sends_lets_a_row_be_guessed(tmp_path: Path) -> None:
    """Digests are keyed and of whole columns; targets are in none."""
    from glmesh.federation.config import Site
    from glmesh.federation.node.site_data import SiteData

    files = {site: table.text() for site, table in _by_features().items()}
    problem = {"loss": "squared", "penalty": "l1", "split": "features"}
    made = Loopback.make(tmp_path, files, problem=problem, node={"ids": "patient"})
    own = SiteData.read(Site.read(tmp_path / "alice.toml"))
    assert len(own.offer.ids) == 32
    assert own.offer.scales == []
    (tmp_path / "salted").mkdir()
    other = Loopback.make(tmp_path / "salted", files, problem=problem, network={"salt": "t"}, node={"ids": "patient"})
    assert made.federation.entries()["network.salt"] != other.federation.entries()["network.salt"]
    assert SiteData.read(Site.read(tmp_path / "salted" / "alice.toml")).offer.ids != own.offer.ids


def test_a_state_folder_of_other_data_is_refused_at_every_site(tmp_path: Path) -> None:
    made, tables = _run(tmp_path, CASES["the same files"], None)
    assert len(made.endings) == 3
    made.endings.clear()
    tables["bob"].map("bmi", lambda cell: f"{float(cell) + 1:g}")
    (tmp_path / "bob.csv").write_text(tables["bob"].text())
    leftover = tmp_path / "alice.state" / ".model.npz.abcd.part"
    leftover.write_bytes(b"half")
    made.run()
    assert "is a checkpoint with another data; remove the folder to begin anew" in made.errors["bob"]
    for name in ("alice", "carol"):
        assert name in made.errors or name in made.endings  # they had their model, and may have said good-bye
    assert not leftover.exists()
