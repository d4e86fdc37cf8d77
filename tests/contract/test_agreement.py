"""What sites conclude from the same offers: majorities, culprits, and the order of columns."""

from __future__ import annotations

import pytest

from glmesh.contract import Column, Contract, agree
from glmesh.contract.agreement import outliers


def _offer(*names: str, target: str = "ill", labels: tuple[str | float, ...] = (0.0, 1.0), **other: object) -> Contract:
    return Contract(target, tuple(Column(name) for name in names), labels, **other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ({}, {}),
        ({"a": 1, "b": 1}, {}),
        ({"a": 1, "b": 2}, {"a": "b", "b": "a"}),
        ({"a": 1, "b": 1, "c": 2}, {"c": "a"}),
        ({"a": 1, "b": 2, "c": 3}, {"a": "b", "b": "a", "c": "a"}),
        ({"a": 1, "b": 1, "c": 2, "d": 2}, {"a": "c", "b": "c", "c": "a", "d": "a"}),
    ],
)
def test_outliers_are_those_without_the_majority(values: dict[str, int], odd: dict[str, str]) -> None:
    assert outliers(values) == odd


def test_the_order_of_columns_is_that_of_the_first_site() -> None:
    verdict = agree({"zoe": _offer("b", "a"), "ann": _offer("a", "b")}, classifies=True)
    assert verdict.contract is not None
    assert verdict.contract.names == ("b", "a")


def test_culprits_are_told_what_they_have_and_what_another_has() -> None:
    offers = {"ann": _offer("a", "b"), "ben": _offer("a", "c"), "eve": _offer("b", "a")}
    verdict = agree(offers, classifies=True)
    assert verdict.contract is None
    assert list(verdict.culprits) == ["ben"]
    assert verdict.culprits["ben"].startswith(
        "lacks the column b, which ann has; has the columns a, c; ann: has the columns a, b; give all files the same"
    )
    offers["ben"] = _offer("a", "b", weight="w")
    said = agree(offers, classifies=True).culprits["ben"]
    assert said.startswith("has the sample weights 'w'; ann: has no sample weights; use")


def test_labels_are_put_together_and_odd_ones_are_named() -> None:
    offers = {"ann": _offer("a", labels=(0.0,)), "ben": _offer("a", labels=(1.0,))}
    verdict = agree(offers, classifies=True)
    assert verdict.contract is not None
    assert verdict.contract.labels == (0.0, 1.0)
    offers |= {"ben": _offer("a"), "eve": _offer("a"), "ann": _offer("a", labels=(1.0, 2.0))}
    assert list(agree(offers, classifies=True).culprits) == ["ann"]
    mixed = {"ann": _offer("a", labels=("no", "yes")), "ben": _offer("a"), "eve": _offer("a")}
    assert list(agree(mixed, classifies=True).culprits) == ["ann"]
