"""Moments that sites agree on for `center` and `standardize`: what is told, and what a site's rules refuse."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from glmesh.core.moments import with_moments as simulated
from glmesh.errors import InvalidInput
from glmesh.federation.config import Federation, Member, NetworkPart, ProblemPart
from glmesh.federation.config.site import SiteRules
from glmesh.federation.node.forecast import Forecast
from glmesh.federation.node.levels import DesignAgreement
from glmesh.federation.node.moments import with_moments
from glmesh.federation.node.questions import Questions
from glmesh.federation.node.rules import RuleBook
from glmesh.federation.totals import Beginning, Refusal, Unequal
from glmesh.formulas import Design, Formula, Frame, Levels, design_of
from glmesh.types import Unsigned, Vector

NAMES = ("ann", "ben", "eve")
DEFAULTS = SiteRules()


def sites(formula: str, values: list[Vector]) -> list[DesignAgreement]:
    made = Formula.parse(formula)
    frames = [
        Frame.of_data_frame(pd.DataFrame({"x": one}), made.variables, name)
        for name, one in zip(NAMES, values, strict=True)
    ]
    design = design_of(made, [Levels.of(one, made) for one in frames])
    return [DesignAgreement(design, np.ones(one.m, dtype=bool), one, (), None) for one in frames]


def together(held: list[DesignAgreement], rules: SiteRules = DEFAULTS) -> tuple[list[Design], list[bytes]]:
    """Let sites sum in lock-step; return the designs that they come to, and their requests."""
    running, requests = [], []
    for name, one in zip(NAMES, held, strict=True):
        book = RuleBook(rules, name, constant=False, may_change=False)
        running.append(with_moments(one, Questions(Beginning((0, 1, 2), "", {}), 3), book))
    asked = [next(one) for one in running]
    while True:
        assert len({one.request for one in asked}) == 1
        requests.append(asked[0].request)
        total: Unsigned = np.sum([one.content for one in asked], axis=0, dtype=np.uint64)
        after, ends = [], []
        for one in running:
            try:
                after.append(one.send(total))
            except StopIteration as end:
                ends.append(end.value.design)
        if ends:
            assert not after
            return ends, requests
        asked = after


def test_four_totals_bring_the_moments_of_all_expressions_with_the_simulators_bits() -> None:
    rng = np.random.default_rng(0)
    held = sites(
        "y ~ standardize(x) + center(log(x)) + I(standardize(x, ddof=1) ** 2)",
        [rng.uniform(1, 9, n) for n in (30, 11, 90)],
    )
    designs, requests = together(held)
    assert len(set(designs)) == 1
    assert designs[0] == simulated(held[0].design, [one.frame for one in held])
    assert [one.expression for one in designs[0].moments] == ["x", "log(x)"]
    assert len(requests) == 4
    assert [sorted(json.loads(one.partition(b"\n")[0])) for one in requests] == [["largest"], ["fields"]] * 2


def test_a_formula_without_them_asks_for_nothing() -> None:
    with pytest.raises(StopIteration):
        next(
            with_moments(
                sites("y ~ log(x)", [np.ones(2)] * 3)[0],
                Questions(Beginning((0, 1, 2), "", {}), 3),
                RuleBook(SiteRules(), "ann", constant=False, may_change=False),
            )
        )


def one_row() -> list[Vector]:
    return [np.append(np.zeros(11), 1e6), np.arange(20.0), np.arange(20.0)]


@pytest.mark.parametrize(
    ("values", "says", "public"),
    [
        (one_row(), "few of this site's 12 rows make up most", "refused by ann"),
        ([np.arange(9.0), *one_row()[1:]], "9 rows, least_rows = 10", "refused by ann"),
        ([-np.arange(20.0), *one_row()[1:]], "too large|no finite", "refused by ann"),
        ([(np.arange(20) == 3) * 1.0] * 3, r"under 5 rows of all sites have one of the two values of x; leave", ""),
    ],
)
def test_rules_of_a_site_and_of_all_hold_for_moments(values: list[Vector], says: str, public: str) -> None:
    formula = "y ~ standardize(sqrt(x))" if values[0].min() < 0 else "y ~ standardize(x)"
    with pytest.raises(Refusal, match=says) as caught:
        together(sites(formula, values), SiteRules(largest_share=0.4) if len(values[0]) == 12 else SiteRules())
    assert (caught.value.public == public) if public else ("x" in caught.value.public)


def test_a_number_that_all_rows_share_is_refused_at_all_sites_by_name() -> None:
    with pytest.raises(InvalidInput, match="x has the same value in all rows"):
        together(sites("y ~ standardize(x)", [np.full(20, 0.1)] * 3))


def test_a_site_with_another_mean_is_told_apart() -> None:
    held = sites("y ~ standardize(x)", [np.arange(20.0)] * 3)
    book = RuleBook(SiteRules(), "ann", constant=False, may_change=False)
    running = with_moments(held[0], Questions(Beginning((0, 1, 2), "", {}), 3), book)
    asked = [next(running)]
    for _ in range(3):
        asked.append(running.send(asked[-1].content))
    head, _, at = asked[3].request.partition(b"\n")
    other = head + b"\n" + (np.frombuffer(at) + 1.0).tobytes()
    running = with_moments(held[0], Questions(Beginning((0, 1, 2), "", {3: other}), 3), book)
    sent = next(running)
    for _ in range(2):
        sent = running.send(sent.content)
    with pytest.raises(Unequal, match="mean of all rows differs"):
        running.send(sent.content)


@pytest.mark.parametrize(
    ("network", "late", "says"),
    [
        ({"gone": "without"}, False, "gone = 'without' would leave a site out"),
        ({"refused": "without"}, False, "refused = 'without' would leave a site out"),
        ({}, True, "eve is late"),
    ],
)
def test_moments_are_refused_where_members_may_change_unless_sites_may_be_revealed(
    network: dict[str, Any], *, late: bool, says: str
) -> None:
    members = tuple(Member(name, "127.0.0.1:1", f"{k:064x}", late and k == 2) for k, name in enumerate(NAMES))

    def federation(formula: str, **more: Any) -> Federation:
        part = ProblemPart(formula=formula, fit_intercept=True, **more)
        return Federation("f", part, NetworkPart(topology="complete", salt="0" * 32, **network), members)

    with pytest.raises(InvalidInput, match=f"{says}, and the formula has standardize\\(age\\): the means of two sets"):
        federation("y ~ standardize(age)").check()
    federation("y ~ age").check()
    federation("y ~ standardize(age)", reveal_sites=True).check()


def test_a_forecast_counts_the_totals_of_moments() -> None:
    members = tuple(Member(name, "127.0.0.1:1", f"{k:064x}") for k, name in enumerate(NAMES))
    for family in ("", "poisson"):
        counts = [
            Forecast.of(Federation("f", ProblemPart(formula=text, family=family, fit_intercept=True),
                NetworkPart(topology="complete", salt="0" * 32), members), 2, 2).totals
            for text in ("y ~ a + b", "y ~ standardize(a) + center(a) + b")
        ]  # fmt: skip
        assert counts[1] - counts[0] == 4
