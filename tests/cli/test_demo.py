"""Parts of `glmesh demo` in this process; `make demo` runs all of it, with real processes and a real kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glmesh import GLMRegressor
from glmesh.cli import demo_files, demo_hospitals, demo_kill
from glmesh.cli.demo_picture import TERMS, draw
from glmesh.cli.demo_tables import Fits, alone, alone_text, beside_text, pooled, tables
from glmesh.files.model_files import Model
from glmesh.inference import Summary
from tests.cli.calls import fails, run


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> Fits:
    folder = tmp_path_factory.mktemp("hospitals")
    demo_files.write(str(folder))
    model = GLMRegressor.from_formula(demo_files.FORMULA, list(tables(folder).values()), family="binomial")
    together = model.summary()
    assert isinstance(together, Summary)
    return Fits(together, alone(folder), pooled(folder))


def _models(*shifts: float) -> dict[str, Model]:
    """Models of hospitals whose first coefficient is off by so much."""
    whole = {"loss": "binomial", "penalty": "l2", "alpha": 0.0, "l1_ratio": 0.0, "classes": None}
    info = {"status": "certified", "rounds": 5, "communications": 22, "method": "totals"}
    return {
        f"site{k}": Model(coef=np.array([1.0 + shift, 2.0]), intercept=0.0, info=info, sites=("a", "b"), **whole)
        for k, shift in enumerate(shifts)
    }


def test_the_hospitals_together_have_the_pooled_table_and_alone_wider_intervals(fits: Fits) -> None:
    assert max(fits.differences()) < 1e-9
    for summary in fits.alone.values():
        for term in summary.terms:
            error = summary.columns[summary.terms.index(term), 1]
            assert error > 1.3 * fits.together.columns[fits.together.terms.index(term), 1]
    assert "C(smoker)[T.present]" not in fits.alone["bob"].terms
    text = alone_text(fits)
    assert text.count("–") == 1
    assert max(map(len, [*text.splitlines(), *beside_text(fits).splitlines()])) <= 80
    assert demo_hospitals.broken_promises(_models(0.0, 0.0), fits) == []


@pytest.mark.parametrize(
    ("column", "words"), [(0, "coefficients differ from the pooled"), (1, "standard errors differ")]
)
def test_a_table_that_is_not_the_pooled_one_is_not_as_promised(column: int, words: str, fits: Fits) -> None:
    columns = fits.together.columns.copy()
    columns[3, column] += 1e-5 * columns[3, 1]
    broken = demo_hospitals.broken_promises(
        _models(0.0), replace(fits, together=replace(fits.together, columns=columns))
    )
    assert any(words in why for why in broken)


def test_different_models_and_a_missing_proof_are_not_as_promised(fits: Fits) -> None:
    assert demo_hospitals.broken_promises(_models(0.0, 1e-16, 1e-15), fits) == ["the hospitals hold different models"]
    unproven = replace(fits.together, accuracy=replace(fits.together.accuracy, coefficients=np.full(8, 1e-3)))
    broken = demo_hospitals.broken_promises(_models(0.0), replace(fits, together=unproven))
    assert any("were asked for" in why for why in broken)


def test_the_picture_has_an_interval_of_each_term_together_and_of_each_hospital_that_knows_it(
    fits: Fits, tmp_path: Path
) -> None:
    assert set(TERMS) == set(fits.together.terms) - {"Intercept"}
    draw(fits, str(tmp_path / "forest.svg"))
    draw(fits, str(tmp_path / "forest.png"))
    assert (tmp_path / "forest.png").read_bytes()[:4] == b"\x89PNG"
    drawn = (tmp_path / "forest.svg").read_text()
    known = sum(term in summary.terms for summary in fits.alone.values() for term in TERMS)
    assert known == 3 * len(TERMS) - 1
    assert drawn.count('id="line2d_') > 2 * (known + len(TERMS))


def test_what_is_missing_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_hospitals, "find_spec", lambda name: None if name in ("grpc", "pandas") else name)
    said = fails(capsys, "demo")
    assert "needs grpcio and pandas: pip install 'glmesh[peers,formulas,plot]'" in said
    assert "--ring" in said


class _Fit:
    """Sites that are never started, and whether their fit is over before each kill."""

    def __init__(self, over: list[bool]) -> None:
        self.over, self.moments, self.ended = over, [], 0

    def start(self) -> None:
        """Nothing runs."""

    def end(self) -> None:
        self.ended += 1

    def killed(self, sites: object, watch: object, moment: Any) -> bool:
        self.moments.append(moment)
        return not self.over[len(self.moments) - 1]


@pytest.mark.parametrize(("over", "code"), [([True, True], 3), ([True, False], 0)])
def test_a_fit_that_is_over_before_the_kill_is_made_once_more_with_an_earlier_one(
    over: list[bool],
    code: int,
    folder: Path,
    fits: Fits,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fit = _Fit(over)
    monkeypatch.setattr(demo_kill, "set_up", lambda folder: fit)
    monkeypatch.setattr(demo_kill, "killed_meanwhile", fit.killed)
    monkeypatch.setattr(
        demo_kill,
        "ended",
        lambda sites, watch: dict(zip(demo_files.HOSPITALS, _models(0, 0, 0).values(), strict=True)),
    )
    monkeypatch.setattr(demo_hospitals, "table", lambda model: fits.together)
    monkeypatch.setattr(demo_hospitals, "alone", lambda folder: fits.alone)
    monkeypatch.setattr(demo_hospitals, "pooled", lambda folder: fits.pooled)
    assert run("demo", "--no-plot") == code
    shown = capsys.readouterr().out
    assert shown.count("was to be killed while the fit ran, but the fit was over before") == sum(over)
    assert shown.count("Once more, with an earlier kill") == 1
    assert (len(fit.moments), fit.ended) == (2, 2)
    first, second = fit.moments
    assert [first({"communications": 3}), first({"communications": 9, "objective": 7.0})] == [False, True]
    assert [second({"communications": 0}), second({"communications": 1})] == [False, True]
    assert ("Not as promised" in shown) == (code == 3)
    assert ("With files of your own" in shown) == (code == 0)
