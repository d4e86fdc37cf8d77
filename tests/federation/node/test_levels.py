"""Levels of categories that sites agree on by masked counts: what is told, and what becomes of rare ones."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from glmesh.cli import main
from glmesh.contract import Column, Contract
from glmesh.core.moments import with_moments
from glmesh.errors import InvalidInput
from glmesh.federation.config import Federation, NetworkPart, ProblemPart
from glmesh.federation.node import levels as levels_module
from glmesh.federation.node.agreement import verdict_of
from glmesh.federation.node.levels import DesignAgreement, SiteFrame
from glmesh.federation.totals import Refusal, WantedTotal
from glmesh.federation.wire import DataOffer
from glmesh.files import model_files
from glmesh.formulas import OTHERS, Formula, Frame
from glmesh.inference import Inference
from glmesh.types import Unsigned
from tests.cases import cases
from tests.loopback import Loopback

NAMES = ("ann", "ben", "eve")


def frames(tables: list[dict[str, list[Any]]], formula: str, columns: list[Column], **options: Any) -> list[SiteFrame]:
    made = Formula.parse(formula)
    return [
        SiteFrame(
            formula=made,
            frame=Frame.of_data_frame(pd.DataFrame(table), made.variables, name, name),
            columns={one.name: one for one in columns},
            sites=NAMES,
            me=name,
            key="k",
            **{"rare_levels": "refuse"} | options,
        )
        for name, table in zip(NAMES, tables, strict=True)
    ]


def ask(head: dict[str, Any], content: Unsigned) -> Generator[WantedTotal, Unsigned, Unsigned]:
    answer = yield WantedTotal(json.dumps(head, sort_keys=True).encode(), content, 0, False)
    return answer


def together(sites: list[SiteFrame]) -> tuple[list[DesignAgreement], list[tuple[bytes, Unsigned]]]:
    """Let sites count in lock-step; return what they agree on, and all requests with their totals."""
    running = [one.agree((0, 1, 2), ask) for one in sites]
    told, asked = [], [next(one) for one in running]
    while True:
        assert len({one.request for one in asked}) == 1
        total = np.sum([one.content for one in asked], axis=0, dtype=np.uint64)
        told.append((asked[0].request, total))
        ends, following = [], []
        for one in running:
            try:
                following.append(one.send(total))
            except StopIteration as end:
                ends.append(end.value)
        if ends:
            return ends, told
        asked = following


def wards(*counts: dict[str, int]) -> list[dict[str, list[Any]]]:
    out = []
    for own in counts:
        ward = [level for level, times in own.items() for _ in range(times)]
        out.append({"ward": ward, "age": [float(k) for k in range(len(ward))]})
    return out


TEXT = [Column("age"), Column("ward", "category")]


def test_all_sites_come_to_one_design_whatever_levels_they_lack_and_the_order_of_their_rows() -> None:
    held = wards({"b": 6, "a": 4}, {"c": 9, "a": 3}, {"äé ß": 7, "b": 5})
    agreed, told = together(frames(held, "y ~ age + C(ward)", TEXT))
    assert len({one.design for one in agreed}) == 1
    assert agreed[0].design.names == ("C(ward)[T.b]", "C(ward)[T.c]", "C(ward)[T.äé ß]", "age")
    assert [len(one.frame.values("ward")) for one in agreed] == [10, 12, 12]
    assert len(told) == 2  # counts, then texts
    for one, table in zip(agreed, held, strict=True):
        X = one.design.matrix(one.frame)
        assert X[:, 1].tolist() == [float(ward == "c") for ward in table["ward"]]


def test_the_texts_of_rare_levels_are_in_no_total_and_counts_are_sums_of_all_sites() -> None:
    held = wards({"a": 10, "secret": 4}, {"a": 10, "b": 8}, {"a": 3, "b": 8})
    _, told = together(frames(held, "y ~ age + C(ward)", TEXT, rare_levels="drop"))
    (_, counts), (request, words) = told[:2]
    slots = json.loads(request)["slots"]
    assert sorted(counts[1:][counts[1:] > 0].tolist()) == [4, 16, 23]
    assert len(words) == 2 * levels_module.WORDS
    texts = words.reshape(2, -1) // counts[1:][slots][:, None]
    assert {levels_module.unpacked(row) for row in texts} == {"a", "b"}


def test_rare_levels_are_refused_merged_or_dropped_as_the_file_says() -> None:
    held = wards({"a": 10, "x": 2}, {"a": 10, "b": 8, "z": 3}, {"a": 3, "b": 8})
    with pytest.raises(
        Refusal, match="2 levels of ward with under 5 rows over all sites; of this site's levels x;"
    ) as caught:
        together(frames(held, "y ~ age + C(ward)", TEXT))
    assert "x" not in caught.value.public.split("of ward")[0]
    assert "site's" not in caught.value.public
    merged, _ = together(frames(held, "y ~ age + C(ward)", TEXT, rare_levels="merge"))
    assert merged[0].design.names == ("C(ward)[T.b]", f"C(ward)[T.{OTHERS}]", "age")
    assert merged[0].said == (f"ward: 2 levels with under 5 rows over all sites, 5 in all, merged into {OTHERS!r}",)
    assert merged[1].frame.values("ward")[-1] == OTHERS
    assert merged[2].kept.all()
    dropped, _ = together(frames(held, "y ~ age + C(ward)", TEXT, rare_levels="drop"))
    assert dropped[0].design.names == ("C(ward)[T.b]", "age")
    assert [int(one.kept.sum()) for one in dropped] == [10, 18, 11]
    assert dropped[0].n == 44
    few = wards({"a": 10, "x": 2}, {"a": 10, "b": 8}, {"a": 3, "b": 8})
    with pytest.raises(Refusal, match="2 rows together, too few to be merged; write rare_levels = 'drop'"):
        together(frames(few, "y ~ age + C(ward)", TEXT, rare_levels="merge"))


def test_rows_that_are_dropped_for_one_variable_are_not_counted_for_another() -> None:
    rows = [("a", "m")] * 8 + [("x", "f")] * 3 + [("b", "f")] * 2 + [("b", "m")] * 6
    tables = [
        {"ward": [a for a, _ in rows], "sex": [b for _, b in rows], "age": [1.0] * len(rows)},
        *[{"ward": ["a", "b"] * 5, "sex": ["m", "d"] * 5, "age": [1.0] * 10}] * 2,
    ]
    columns = [*TEXT, Column("sex", "category")]
    agreed, _ = together(frames(tables, "y ~ age + ward + sex", columns, rare_levels="drop"))
    assert agreed[0].design.names == ("ward[T.b]", "sex[T.m]", "age")  # 5 rows of f, but 2 without those of x
    assert int(agreed[0].kept.sum()) == 14
    assert [text.partition(":")[0] for text in agreed[0].said] == ["ward", "sex"]


def test_levels_of_the_contract_keep_their_order_and_reference_and_their_rare_ones_are_named() -> None:
    held = wards({"a": 10, "x": 2}, {"a": 10, "b": 8, "x": 4}, {"a": 3, "c": 3})
    column = Column("ward", "category", levels=("c", "b", "a", "x", "never"), reference="b")
    merged, told = together(frames(held, "y ~ age + ward", [TEXT[0], column], rare_levels="drop"))
    assert merged[0].design.names == ("ward[T.a]", "ward[T.x]", "age")
    assert merged[0].design.variable("ward").left_out == ("c",)
    assert merged[0].design.variable("ward").reference == "b"
    assert [len(total) for _, total in told] == [6, 6]
    with pytest.raises(Refusal, match=r"1 level of ward \(c\) with under 5 rows"):
        together(frames(held, "y ~ age + ward", [TEXT[0], column]))
    rare = Column("ward", "category", levels=("c", "b", "a", "x"), reference="c")
    with pytest.raises(Refusal, match="the reference 'c' of ward has fewer than 5 rows"):
        together(frames(held, "y ~ age + ward", [TEXT[0], rare], rare_levels="drop"))


def test_numbers_are_levels_where_the_formula_says_so() -> None:
    tables = [{"k": [1.0, 2.0] * 5, "age": [0.0] * 10}, {"k": [10.0, 2.0] * 5, "age": [0.0] * 10}]
    agreed, _ = together(frames([*tables, tables[0]], "y ~ age + C(k)", [Column("age"), Column("k")]))
    assert agreed[0].design.names == ("C(k)[T.2]", "C(k)[T.10]", "age")
    few = [{"k": [1.0, 2.0] * 5 + [7.0], "age": [0.0] * 11}] * 3
    few[0] = {"k": [1.0, 2.0] * 5 + [7.0, 8.0, 8.0], "age": [0.0] * 13}
    merged, _ = together(frames(few, "y ~ age + C(k)", [Column("age"), Column("k")], rare_levels="merge"))
    assert merged[0].design.names == ("C(k)[T.2]", f"C(k)[T.{OTHERS}]", "age")
    assert merged[0].design.matrix(merged[0].frame)[-1].tolist() == [0.0, 1.0, 0.0]


def test_a_level_that_tells_one_site_apart_is_refused_there_unless_the_file_allows_it() -> None:
    held = wards({"a": 10}, {"b": 10, "c": 8}, {"c": 9, "b": 9})
    with pytest.raises(Refusal, match="all rows of this site, and no others, have the level 'a' of ward") as caught:
        together(frames(held, "y ~ age + ward", TEXT))
    assert caught.value.public == "refused by ann"
    agreed, _ = together(frames(held, "y ~ age + ward", TEXT, reveal_sites=True))
    assert agreed[0].design.names == ("ward[T.b]", "ward[T.c]", "age")
    shared = wards({"a": 10}, {"b": 10, "a": 8}, {"a": 9, "b": 9})
    assert together(frames(shared, "y ~ age + ward", TEXT))[0][0].design.names == ("ward[T.b]", "age")


def test_the_site_itself_needs_no_counts() -> None:
    held = wards({"a": 10}, {"b": 10}, {"c": 9})
    with pytest.raises(StopIteration) as end:
        next(frames(held, "y ~ age + C(site)", TEXT, reveal_sites=True)[1].agree((0, 1, 2), ask))
    agreed: DesignAgreement = end.value.value
    assert agreed.design.names == ("C(site)[T.ben]", "C(site)[T.eve]", "age")
    assert agreed.design.matrix(agreed.frame)[0].tolist() == [1.0, 0.0, 0.0]


def test_levels_that_share_a_slot_are_told_apart_by_counting_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr(levels_module, "SLOTS", 16)
    again = 0
    for _ in range(cases(200)):
        names = [f"level {k}" for k in rng.choice(10_000, 6, replace=False)]
        held = wards(*({name: int(rng.integers(5, 9)) for name in rng.permutation(names)[:4]} for _ in range(3)))
        agreed, told = together(frames(held, "y ~ age + ward", TEXT))
        here = sorted({level for table in held for level in table["ward"]})
        assert agreed[0].design.variable("ward").levels == tuple(here)
        again += len(told) > 2
    assert again


def test_a_text_that_is_too_long_to_be_told_is_refused_at_its_site() -> None:
    held = wards({"a" * 130: 10}, {"b": 10}, {"c": 9})
    with pytest.raises(Refusal, match="longer than 127 bytes") as caught:
        together(frames(held, "y ~ age + ward", TEXT))
    assert "aaa" not in caught.value.public


# the federation file, and what sites offer


def part(**other: Any) -> ProblemPart:
    return ProblemPart(**{"formula": "y ~ age + ward", "fit_intercept": True} | other)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"method": "gossip", "fit_intercept": False}, "a formula needs method 'totals'"),
        ({"fit_intercept": False}, "the formula has an intercept: write fit_intercept = true"),
        ({"formula": "y ~ age - 1"}, "has none: write fit_intercept = false"),
        ({"formula": "y ~ age + C(site)"}, "sums over that site's rows, its means and its Hessian"),
        ({"rare_levels": "no"}, "rare_levels must be one of 'refuse', 'merge', 'drop'"),
        ({"missing": "no"}, "missing 'drop' or 'refuse'"),
        ({"formula": "", "reveal_sites": True}, "go with a formula"),
        ({"formula": "y ~ age + sex"}, r"\[data\] lacks the column sex of the formula"),
        ({"formula": "z ~ age + ward"}, r"\[data\] has the target 'y', and the formula 'z'"),
        ({"formula": "Surv(t, e) ~ age"}, "must be one column"),
        ({"formula": "y ~ open('f')"}, "not allowed"),
    ],
)
def test_a_federation_file_whose_formula_does_not_go_with_its_other_keys_is_refused(
    other: dict[str, Any], says: str
) -> None:
    data = Contract("y", (Column("age"), Column("ward", "category"), Column("unused")))
    with pytest.raises(InvalidInput, match=says):
        Federation("f", part(**other), NetworkPart(), (), data).check_settings()
    Federation("f", part(), NetworkPart(), (), data).check_settings()


def test_a_contract_with_levels_survives_its_file(tmp_path: Path) -> None:
    data = Contract("y", (Column("age"), Column("ward", "category", levels=("b", "a"), reference="a")))
    made = Federation("f", part(), NetworkPart(), (), data)
    made.write(tmp_path / "f.toml")
    again = Federation.read(tmp_path / "f.toml")
    assert again == made
    assert again.digest == made.digest
    with pytest.raises(InvalidInput, match="the reference 'z' is none of its levels"):
        Column("ward", "category", levels=("b", "a"), reference="z")


def test_a_column_that_stands_alone_must_be_text_at_all_sites_or_at_none() -> None:
    federation = Federation("f", part(), NetworkPart(), ())
    text, numbers = DataOffer("y", ["age", "ward"], 2, categories=[1]), DataOffer("y", ["age", "ward"], 2)
    assert verdict_of({"ann": text, "ben": text}, federation).contract is not None
    verdict = verdict_of({"ann": text, "ben": numbers, "eve": text}, federation)
    assert list(verdict.culprits) == ["ben"]
    assert "has numbers in the column ward; ann: has text" in verdict.culprits["ben"]
    within = Federation("f", part(formula="y ~ age + C(ward)"), NetworkPart(), ())
    agreed = verdict_of({"ann": text, "ben": numbers}, within).contract
    assert agreed is not None
    assert [one.kind for one in agreed.columns] == ["number", "category"]


# sites over links


def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    out = {}
    for name, sexes, held in zip(
        NAMES, (["m", "f"], ["f"], ["f", "m"]), (["c", "a"], ["b", "c"], ["a", "b", "d"]), strict=True
    ):
        n = 80
        data = pd.DataFrame({"age": rng.normal(50, 10, n).round(2), "bmi": rng.normal(25, 4, n).round(2)})
        data["sex"], data["ward"] = rng.choice(sexes, n), rng.choice(held, n)
        data["dose"] = (rng.normal(size=n) + 0.02 * data["age"] + 0.5 * (data["sex"] == "m")).round(3)
        data.loc[rng.choice(n, 4, replace=False), "sex"] = None
        data.loc[rng.choice(n, 3, replace=False), "bmi"] = np.nan
        out[name] = data
    out["ben"] = out["ben"][["ward", "dose", "sex", "bmi", "age"]]
    return out


FORMULA = "dose ~ age + C(sex) + bmi:C(ward)"
EXACT = {"loss": "squared", "alpha": 0.0, "method": "totals", "fit_intercept": True, "tol": 1e-13}


@pytest.mark.waits
def test_three_sites_with_other_levels_and_gaps_have_the_fit_and_the_names_of_statsmodels(tmp_path: Path) -> None:
    held, formula = tables(), "dose ~ standardize(age) + C(sex) + center(bmi):C(ward)"
    made = Loopback.make(tmp_path, {name: one.to_csv(index=False) for name, one in held.items()},
        problem=EXACT | {"formula": formula})  # fmt: skip
    made.run()
    assert made.errors == {}
    pooled = pd.concat(held.values())
    wanted = smf.ols(formula, pooled.dropna()).fit()  # patsy takes moments before it leaves rows out
    parts = [one.dropna() for one in held.values()]
    names = Formula.parse(formula).variables
    frames = [Frame.of_data_frame(one, names, "a site", name) for name, one in zip(NAMES, parts, strict=True)]
    lacking = len(pooled) - int(wanted.nobs)
    for name in NAMES:
        model = made.model(name)
        assert model.names == tuple(wanted.params.index[1:])
        assert model.design is not None
        simulated = with_moments(replace(model.design, moments=()), frames)
        assert model.design == simulated  # the same bits
        assert np.max(np.abs([model.intercept, *model.coef] - wanted.params) / wanted.bse) <= 1e-6
        assert model.rows == (240, lacking)
        assert f"Rows of all sites: 240, of which {lacking} were left out" in made.endings[name].why
    assert any("of which" in text for text in made.said("ann"))
    # a raw table is predicted with the model of any site
    new = pooled.dropna().head(4)[["ward", "sex", "bmi", "age"]]
    new.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "out.txt"
    assert (
        main(["predict", str(tmp_path / "ben.state" / "model.npz"), str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    )
    np.testing.assert_allclose(np.loadtxt(out), wanted.predict(new), rtol=1e-6)


@pytest.mark.waits
def test_a_level_that_the_contract_lacks_is_named_with_its_line_at_its_own_site_alone(tmp_path: Path) -> None:
    columns = (Column("age"), Column("sex", "category", levels=("m", "f")), Column("bmi"),
        Column("ward", "category", levels=("a", "b", "c"), reference="b"))  # fmt: skip
    made = Loopback.make(tmp_path, {name: one.to_csv(index=False) for name, one in tables().items()},
        problem=EXACT | {"formula": FORMULA}, data=Contract("dose", columns))  # fmt: skip
    made.run()
    assert set(made.errors) == set(NAMES)
    assert "holds 'd'" in made.errors["eve"]
    assert "line" in made.errors["eve"]
    assert "column ward has a level that is none of the contract's, a, b, c" in made.errors["ann"]
    assert "'d'" not in made.errors["ann"]


@pytest.mark.waits
def test_sites_may_be_revealed_and_that_is_said_wherever_masks_are(tmp_path: Path) -> None:
    held = tables()
    made = Loopback.make(tmp_path, {name: one.to_csv(index=False) for name, one in held.items()},
        problem=EXACT | {"formula": "dose ~ age + C(site)", "reveal_sites": True})  # fmt: skip
    assert "reveal_sites = true" in made.federation.disclosure
    made.run()
    assert made.errors == {}
    wanted = smf.ols("dose ~ age + C(site)", pd.concat([one.assign(site=name) for name, one in held.items()])).fit()
    model = made.model("eve")
    assert model.names == tuple(wanted.params.index[1:])
    np.testing.assert_allclose([model.intercept, *model.coef], wanted.params, rtol=1e-6)
    assert "reveal_sites = true" in made.endings["ann"].why
    assert "reveal_sites = true" in str(model.info["revealed"])


@pytest.mark.waits
def test_gaps_are_refused_where_the_file_says_so_and_dropped_without_a_formula_where_it_says_that(
    tmp_path: Path,
) -> None:
    held = {name: one.drop(columns=["sex", "ward"]) for name, one in tables().items()}
    files = {name: one[["age", "bmi", "dose"]].to_csv(index=False) for name, one in held.items()}
    refused = Loopback.make(tmp_path / "a", files, problem=EXACT | {"formula": "dose ~ age + bmi", "missing": "refuse"})
    refused.run()
    assert all("column bmi has missing values" in refused.errors[name] for name in NAMES)
    made = Loopback.make(tmp_path / "b", files, problem=EXACT | {"missing": "drop"})
    made.run()
    assert made.errors == {}
    wanted = smf.ols("dose ~ age + bmi", pd.concat(held.values())).fit()
    model = model_files.load(tmp_path / "b" / "ann.state" / "model.npz")
    np.testing.assert_allclose(model.coef, wanted.params.iloc[1:], rtol=1e-6)
    assert model.rows == (240, 9)


@pytest.mark.waits
def test_a_formula_goes_with_families_and_an_exposure_and_the_table_is_that_of_statsmodels(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    held = {
        name: one.assign(years=rng.uniform(1, 3, 80).round(3), visits=rng.poisson(np.exp(0.01 * one["age"])))
        for name, one in tables().items()
    }
    formula = "visits ~ age*sex + C(ward, Treatment('b'))"
    made = Loopback.make(tmp_path, {name: one.to_csv(index=False) for name, one in held.items()},
        problem={"family": "poisson", "method": "totals", "fit_intercept": True, "formula": formula,
                 "exposure": "years"})  # fmt: skip
    made.run()
    assert made.errors == {}
    pooled = pd.concat(held.values())
    wanted = smf.glm(formula, pooled, family=sm.families.Poisson(), exposure=pooled["years"]).fit(tol=1e-13)
    for name in NAMES:
        model = made.model(name)
        assert model.statistics is not None
        found = Inference(model.statistics, rows=model.rows).summary().to_frame()
        assert list(found.index) == list(wanted.params.index)
        assert np.max(np.abs(found["coef"] - wanted.params) / wanted.bse) <= 1e-6
        np.testing.assert_allclose(found["std err"], wanted.bse, rtol=1e-6)
    new = pooled.dropna().head(3)
    new.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "out.txt"
    assert (
        main(["predict", str(tmp_path / "eve.state" / "model.npz"), str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    )
    np.testing.assert_allclose(np.loadtxt(out), wanted.predict(new, exposure=new["years"]), rtol=1e-6)


@pytest.mark.waits
def test_a_formula_goes_with_cox_whose_times_and_events_it_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    held = {
        name: one.assign(days=rng.exponential(9, 80).round(2) + 0.1, died=(rng.random(80) < 0.7).astype(int))
        for name, one in tables().items()
    }
    made = Loopback.make(tmp_path, {name: one.to_csv(index=False) for name, one in held.items()},
        problem={"family": "cox", "method": "totals", "formula": "Surv(days, died) ~ age + sex", "time": "days",
                 "event": "died"})  # fmt: skip
    made.run()
    assert made.errors == {}
    whole = pd.concat([one.assign(home=name) for name, one in held.items()]).dropna(subset=["sex"])
    wanted = sm.PHReg.from_formula("days ~ age + sex", whole, status=whole["died"], strata=whole["home"],
        ties="efron").fit()  # fmt: skip
    model = made.model("ann")
    assert model.names == ("sex[T.m]", "age")
    assert np.max(np.abs(model.coef - wanted.params) / wanted.bse) <= 1e-6
    keys = {"family": "cox", "time": "days", "event": "died", "formula": "days ~ age", "fit_intercept": False}
    with pytest.raises(InvalidInput, match=r"needs Surv\(days, died\) on the left side"):
        Federation("f", part(**keys), NetworkPart(), ()).check_settings()
