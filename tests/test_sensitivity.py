"""Tuned constants have a reason, and a row in the report of sensitivity."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def test_every_tuned_constant_has_a_row_with_its_value_in_the_report_of_sensitivity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    constants = importlib.import_module("sensitivity").constants()
    report = (BENCHMARKS / "reports" / "sensitivity.md").read_text()
    missing = [constant.name for constant in constants if f"| {' | '.join(constant.cells)} |" not in report]
    assert not missing, f"{missing}: run benchmarks/sensitivity.py"
    assert sum(constant.tuned for constant in constants) > 25


def test_halving_and_doubling_a_constant_reaches_all_modules_that_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    sensitivity = importlib.import_module("sensitivity")
    from glmesh.core import block
    from glmesh.gossip import flows

    before = block.REFRESH_EVERY
    with sensitivity.patched(block, {"REFRESH_EVERY": 7}):
        assert (block.REFRESH_EVERY, flows.REFRESH_EVERY) == (7, 7)
    assert (before, before) == (block.REFRESH_EVERY, flows.REFRESH_EVERY)
