"""Families between sites: the simulator's bits, few totals, what ends a fit without a maximum, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from glmesh.contract import Contract, DataTable, fit
from glmesh.errors import GlmeshError, Mismatch, UnsuitablePair
from glmesh.federation.config import ProblemPart
from glmesh.federation.config.site import SiteRules
from glmesh.federation.node import program
from glmesh.federation.node.answer import Answer
from glmesh.federation.node.discretion import SiteDiscretion
from glmesh.federation.node.program import FAR
from glmesh.federation.node.roles import with_roles
from glmesh.federation.node.rules import RuleBook, class_counts, has_constant_curvature, n_coefficients, n_rows
from glmesh.federation.totals import Beginning, Refusal, Unequal
from glmesh.inference import Inference, heterogeneity_test
from glmesh.methods.totals.likelihood import method
from glmesh.methods.totals.likelihood.contribution import contribute
from glmesh.types import Matrix, Vector
from tests.federation.node.families import Fit, programs, simulated, tables, together

COLUMNS = ("a", "b", "c", "d")
CUTS = (80, 180)  # rows of alice, of alice and bob; the others are carol's


def design(seed: int = 1, n: int = 300) -> tuple[Matrix, Vector, np.random.Generator]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X @ [0.5, -0.3, 0.2, 0.0] + 0.3, rng


def draw(family: str, link: str = "") -> tuple[Matrix, Vector]:
    """Rows and targets of a family."""
    X, eta, rng = design()
    n = len(eta)
    if family == "multinomial":
        P = np.exp(np.column_stack([eta, -eta, 0.0 * eta]))
        P /= P.sum(axis=1)[:, None]
        return X, (rng.random(n)[:, None] > np.cumsum(P, axis=1)).sum(axis=1).astype(float)
    steep = 3.0 + 0.3 * eta
    return X, {
        "binomial": lambda: (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "gamma": lambda: rng.gamma(2.0, (1.0 / steep if link else np.exp(eta)) / 2.0),
        "inverse_gaussian": lambda: rng.wald(steep**-0.5 if not link else np.exp(eta), 20.0),
        "negative_binomial": lambda: rng.negative_binomial(2, 2.0 / (2.0 + np.exp(eta))).astype(float),
        "tweedie": lambda: rng.poisson(np.exp(eta)) * rng.gamma(1.0, 1.0, n),
        "gaussian": lambda: (np.exp(eta) if link else eta) + rng.normal(size=n),
    }[family]()


def survival() -> tuple[Matrix, Vector]:
    """Rows whose last column says whether the event happened, and times."""
    X, eta, rng = design()
    event, censored = rng.exponential(np.exp(-eta)), rng.exponential(2.0, len(eta))
    return np.column_stack([X, event <= censored]), np.minimum(event, censored)


CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "binomial": ({"family": "binomial"}, None),
    "probit": ({"family": "binomial", "link": "probit"}, None),
    "cloglog": ({"family": "binomial", "link": "cloglog"}, None),
    "poisson": ({"family": "poisson"}, None),
    "poisson with L1": ({"family": "poisson", "alpha": 1.0, "penalty": "l1"}, None),
    "poisson, elastic net": ({"family": "poisson", "alpha": 1.0, "penalty": "elasticnet"}, None),
    "offset": ({"family": "poisson", "offset": "d"}, None),
    "exposure": ({"family": "poisson", "exposure": "d"}, "exposure"),
    "gamma": ({"family": "gamma"}, None),
    "gamma, inverse": ({"family": "gamma", "link": "inverse"}, None),
    "inverse gaussian": ({"family": "inverse_gaussian"}, None),
    "negative binomial": ({"family": "negative_binomial", "theta": 2.0}, None),
    "theta estimated": ({"family": "negative_binomial", "estimate_theta": True}, None),
    "tweedie": ({"family": "tweedie", "power": 1.4}, None),
    "gaussian": ({"family": "gaussian"}, None),
    "multinomial": ({"family": "multinomial"}, None),
    "multinomial with L2": ({"family": "multinomial", "alpha": 1.0}, None),
    "cox": ({"family": "cox", "time": "y", "event": "e"}, "survival"),
}


def case(name: str) -> tuple[list[DataTable], ProblemPart]:
    keys, kind = CASES[name]
    part = ProblemPart(**keys, fit_intercept=name != "cox")
    if kind == "survival":
        return tables(*survival(), CUTS, (*COLUMNS, "e")), part
    X, y = draw(part.family, part.link)
    if kind == "exposure":
        X[:, 3] = np.exp(X[:, 3])
    return tables(X, y, CUTS, COLUMNS), part


@pytest.mark.parametrize("name", CASES)
def test_every_family_has_the_simulators_bits_a_proof_and_few_totals(name: str) -> None:
    parts, part = case(name)
    found = together(programs(parts, part))
    answer, expected = found.answer, simulated(parts, part)
    assert answer.certified
    assert answer.totals == expected.rounds <= (16 if part.estimate_theta else 8)
    np.testing.assert_array_equal(np.ravel(answer.coef), np.ravel(expected.coef))
    np.testing.assert_array_equal(answer.intercept, expected.intercept)
    assert Answer.of_bytes(answer.to_bytes()).to_bytes() == answer.to_bytes() == found.answers[0]
    if part.alpha:
        assert answer.statistics is expected.statistics is None
        assert answer.gap <= 1e-9 * answer.objective
        return
    assert answer.off < 1e-6
    assert answer.statistics is not None
    assert expected.statistics is not None
    for key in ("gradient", "hessian", "information", "loss", "null_loss", "pearson", "n", "family_log_likelihood"):
        np.testing.assert_array_equal(getattr(answer.statistics, key), getattr(expected.statistics, key))
    for key, meat in answer.statistics.meats.items():
        np.testing.assert_array_equal(meat, expected.statistics.meats[key])
    table = Inference(answer.statistics).summary().to_frame()
    named = table.index[-1].rpartition(": ")[2]
    assert named == ("c" if part.held else "d")
    assert answer.statistics.fitted.family == expected.statistics.fitted.family
    np.testing.assert_array_equal(answer.statistics.shape_error, expected.statistics.shape_error)
    assert np.isfinite(answer.statistics.shape_error) == part.estimate_theta


@pytest.mark.parametrize(("family", "link"), [("gaussian", "log"), ("inverse_gaussian", "log")])
def test_a_likelihood_that_is_not_concave_ends_at_a_stationary_point_and_says_so(family: str, link: str) -> None:
    part = ProblemPart(family=family, link=link, fit_intercept=True)
    parts = tables(*draw(family, link), CUTS, COLUMNS)
    answer, expected = together(programs(parts, part)).answer, simulated(parts, part)
    assert (answer.certified, answer.failure, expected.status.name) == (False, "stationary", "STATIONARY")
    np.testing.assert_array_equal(answer.coef, expected.coef)
    assert answer.statistics is not None
    assert "no proof that it is the maximum" in Inference(answer.statistics).summary().proof


def test_standard_errors_are_those_of_the_pooled_fit_in_statsmodels() -> None:
    X, y = draw("poisson")
    answer = together(programs(tables(X, y, CUTS, COLUMNS), ProblemPart(family="poisson", fit_intercept=True))).answer
    assert answer.statistics is not None
    theirs = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson()).fit(tol=1e-14)
    ours = Inference(answer.statistics).summary().to_frame()
    np.testing.assert_allclose(ours["coef"], theirs.params, rtol=1e-8)
    np.testing.assert_allclose(ours["std err"], theirs.bse, rtol=1e-8)


@pytest.mark.parametrize("name", ["poisson", "gamma, inverse", "multinomial", "cox"])
def test_a_drawn_start_is_usable_and_leads_to_the_same_maximum_by_other_points(name: str) -> None:
    parts, part = case(name)
    usual, drawn = (together(programs(parts, part), start) for start in ("", "abcdef"))
    points = [{one for one in found.requests if b'"hessian"' in one} for found in (usual, drawn)]
    assert not points[0] & points[1]
    assert drawn.answer.certified
    assert usual.answer.statistics is not None
    errors = np.sqrt(np.diag(np.linalg.inv(usual.answer.statistics.hessian))).min()
    assert abs(np.subtract(usual.answer.coef, drawn.answer.coef)).max() < 3e-6 * max(errors, 1.0)


def test_a_drawn_start_outside_of_the_domain_goes_nearer_to_the_null_model() -> None:
    parts, part = case("gamma, inverse")
    for table in parts:
        table.X[0] *= 40.0  # rows that only a short step from the null model keeps inside
    sites = programs(parts, part, rules=SiteRules(largest_share=1.0, effective_rows=1.0))
    for one in sites:
        one.rules = sites[0].rules
    found = together(sites, "abcdef")
    starts = [one for one in found.requests if b'"slopes"' in one and b'"values": [1,' in one]
    assert len(starts) > 2
    assert found.answer.certified


def test_a_fit_of_which_no_start_is_inside_of_the_domain_says_so() -> None:
    parts, part = case("gamma, inverse")
    for start in ("", "abcdef"):
        answer = together(programs(parts, replace(part, fit_intercept=False)), start).answer
        assert (answer.certified, answer.failure) == (False, "outside")


def asked_first(found: Fit, case_of: str, place: int, changed: slice | int, relative: float) -> tuple[bytes, Any]:
    """(request number `place` of another site, at a point that differs; carol's program just before that request)."""
    head, _, at = found.requests[place].partition(b"\n")
    numbers = np.frombuffer(at).copy()
    numbers[changed] *= 1.0 + relative
    other = head + b"\n" + numbers.tobytes()
    running = programs(*case(case_of))[2](Beginning((0, 1, 2), "", {place: other}))
    next(running)
    for total in found.totals[: place - 1]:
        running.send(total)
    return other, running


@pytest.mark.parametrize(("relative", "taken"), [(1e-12, True), (1e-5, False)])
@pytest.mark.parametrize("name", ["poisson", "multinomial", "theta estimated"])
def test_a_point_of_another_site_is_taken_within_rounding_alone(name: str, relative: float, taken: bool) -> None:
    sites = programs(*case(name))
    found, d = together(sites), sites[0].block.p + 1
    slopes, first = [k for k, one in enumerate(found.requests) if b'"slopes"' in one], 0
    changed: slice | int = slice(d, 2 * d)  # the step
    if name == "theta estimated":
        first, changed = next(k for k, one in enumerate(found.requests) if b'"shape"' in one), -1
    place = [k for k in slopes if k > first][0 if first else 2]
    other, running = asked_first(found, name, place, changed, relative)
    if taken:
        assert running.send(found.totals[place - 1]).request == other
    else:
        with pytest.raises(Unequal, match="more than rounding"):
            running.send(found.totals[place - 1])


def test_theta_is_not_estimated_where_few_rows_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, part = case("theta estimated")
    book = RuleBook(SiteRules(), "alice", False, False)
    book.check_shape(np.ones(30))
    book.check_shape(np.zeros(30))
    with pytest.raises(Refusal, match=r"one is 0\.91 of the sum, .* theta = 2") as caught:
        book.check_shape(np.append(np.ones(30), 300.0))
    assert caught.value.public == "refused by alice"
    asked = []

    def refuse(self: RuleBook, sizes: Vector) -> None:
        asked.append(len(sizes))
        assert (sizes >= 0).all()
        raise self._refuse("few")

    monkeypatch.setattr(RuleBook, "check_shape", refuse)
    with pytest.raises(Refusal, match="few"):
        together(programs(parts, part))
    assert asked == [80]  # alice, before she tells anything of theta


@pytest.mark.parametrize(
    "keys",
    [
        {"family": "poisson"},
        {"family": "negative_binomial", "alpha": 1.0},
        {"family": "negative_binomial", "theta": 2.0},
        {"loss": "squared"},
    ],
)
def test_theta_is_estimated_of_the_negative_binomial_without_a_penalty_alone(keys: dict[str, Any]) -> None:
    with pytest.raises(GlmeshError, match="estimate_theta"):
        ProblemPart(**keys, estimate_theta=True).model()


# no maximum, and columns without a coefficient


def cells(n_cell: int, n: int = 360, seed: int = 1) -> tuple[Matrix, Vector]:
    """Binary targets, all 1 where the last column is 1, in so many rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = 0.0
    X[rng.permutation(n)[:n_cell], 3] = 1.0
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(float)
    y[X[:, 3] == 1.0] = 1.0
    return X, y


def test_classes_that_are_separated_have_no_maximum_and_the_columns_are_named() -> None:
    X, y = cells(108)
    part = ProblemPart(family="binomial", fit_intercept=True)
    found = together(programs(tables(X, y, (100, 220), COLUMNS), part)).answer
    assert (found.certified, found.failure) == (False, "separated")
    assert "no maximum: the column d separates the two classes in part: some of 360 rows" in found.remark
    assert found.statistics is None


def test_counts_with_an_empty_cell_have_no_maximum() -> None:
    X, y = cells(108)
    y = np.where(X[:, 3] == 1.0, 0.0, np.random.default_rng(0).poisson(np.exp(0.3 * X[:, 0])).astype(float))
    found = together(programs(tables(X, y, (100, 220), COLUMNS), ProblemPart(family="poisson", fit_intercept=True)))
    assert found.answer.failure == "separated"
    assert "d separates targets of 0 from the others" in found.answer.remark


def test_a_question_to_which_a_site_objects_is_answered_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cells(108)
    X[:100, 3] = 0.0
    X[:6, 3], y[:6] = 1.0, 1.0  # alice has six rows of the cell
    said: list[tuple[str, bool, bool]] = []
    objects = SiteDiscretion.objects

    def recorded(discretion: SiteDiscretion, cone: Any, question: Any) -> bool:
        said.append((discretion.rules.name, question.search.flat is not None, objects(discretion, cone, question)))
        return said[-1][2]

    monkeypatch.setattr(SiteDiscretion, "objects", recorded)
    sites = programs(tables(X, y, (100, 220), COLUMNS), ProblemPart(family="binomial", fit_intercept=True))
    found = together(sites)
    questions = [said[k : k + 3] for k in range(0, len(said), 3)]
    assert said[0] == ("alice", True, True)
    assert ("bob", True, True) not in said
    answered = [one[0][1] for one in questions if not any(against for _, _, against in one)]
    assert answered.count(True) == sum(b"cone_overlap" in one for one in found.requests)
    assert answered.count(False) == sum(b"cone_hessian" in one for one in found.requests)
    assert not found.answer.certified
    assert found.answer.statistics is None


def test_a_column_that_others_give_has_no_coefficient_and_is_named() -> None:
    X, y = draw("poisson")
    X[:, 2] = X[:, 0] + X[:, 1]
    part = ProblemPart(family="poisson", fit_intercept=True)
    parts = tables(X, y, CUTS, COLUMNS)
    answer, expected = together(programs(parts, part)).answer, simulated(parts, part)
    assert answer.certified
    assert "The column c is a combination of others" in answer.remark
    np.testing.assert_array_equal(answer.coef, expected.coef)
    assert answer.statistics is not None
    assert np.isnan(Inference(answer.statistics).summary().to_frame()["coef"]["c"])


def test_a_rare_column_is_dropped_for_all_classes_and_for_none_if_it_is_the_offset() -> None:
    X, y = draw("multinomial")
    X[:, 2] = 0.0
    X[:3, 2] = 1.0
    part = ProblemPart(family="multinomial", fit_intercept=True)
    with pytest.raises(Refusal, match="c; leave the columns out"):
        together(programs(tables(X, y, CUTS, COLUMNS), part))
    answer = together(programs(tables(X, y, CUTS, COLUMNS), part, rare="drop")).answer
    assert answer.certified
    assert answer.dropped == (2,)
    assert answer.coef.shape == (3, 4)
    assert not answer.coef[:, 2].any()
    fewer = tables(X[:, [0, 1, 3]], y, CUTS, ("a", "b", "d"))
    np.testing.assert_array_equal(answer.coef[:, [0, 1, 3]], together(programs(fewer, part)).answer.coef)
    X, y = draw("poisson")
    X[:, 3] = 0.0
    X[:3, 3] = 1.0
    part = ProblemPart(family="poisson", fit_intercept=True, offset="d")
    with pytest.raises(Refusal, match="d; leave the columns out"):
        together(programs(tables(X, y, CUTS, COLUMNS), part, rare="drop"))


# rules of a site


def block_of(name: str) -> Any:
    return programs(*case(name))[0].block


def test_an_offset_is_no_coefficient_and_classes_count_once() -> None:
    assert [n_coefficients(block_of(name)) for name in ("poisson", "offset", "multinomial", "cox")] == [5, 4, 5, 4]


def test_rows_of_classes_are_events_successes_and_counts_above_zero() -> None:
    for name, whose in (("binomial", "class"), ("multinomial", "class"), ("poisson", "above 0"), ("cox", "events")):
        block = block_of(name)
        words, counts = class_counts(block)
        assert whose in words
        y = block.y[0]
        expected = {
            "binomial": [(y == 1).sum(), (y == 0).sum()],
            "multinomial": [(y == c).sum() for c in range(3)],
        }.get(name, [(y > 0).sum()])
        assert counts == [int(one) for one in expected]
    assert class_counts(block_of("gamma"))[1] == []
    cox = block_of("cox")
    first = np.sort(cox.y[0][cox.y[0] > 0])[0]
    assert n_rows(cox) == (np.abs(cox.y[0]) >= first).sum() < len(cox.y[0])


@pytest.mark.parametrize(
    ("name", "rules", "words"),
    [
        ("poisson", {"least_rows": 81}, "80 rows, least_rows = 81"),
        ("poisson", {"least_class": 79}, "rows with a target above 0, least_class = 79"),
        ("multinomial", {"least_class": 60}, "rows of a class, least_class = 60"),
        ("cox", {"least_class": 70}, "events, least_class = 70"),
        ("gamma", {"most_columns": 0.01}, "5 coefficients for 80 rows"),
        ("gamma", {"largest_share": 0.001}, "of the trace, largest_share = 0.001"),
        ("cox", {"effective_rows": 80.0}, "effective_rows = 80"),
        ("multinomial", {"effective_rows": 81.0}, "effective_rows = 81"),
    ],
)
def test_a_rule_of_a_site_refuses_a_family(name: str, rules: dict[str, Any], words: str) -> None:
    parts, part = case(name)
    with pytest.raises(Refusal, match=words) as caught:
        together(programs(parts, part, rules=SiteRules(**rules)))
    assert caught.value.public == "refused by alice"


def test_sums_that_are_the_same_everywhere_ask_for_more_rows_where_members_may_change() -> None:
    assert [has_constant_curvature(block_of(name)) for name in ("gaussian", "gamma", "poisson", "cox")] == [
        *(True, True, False, False)
    ]
    X, y = draw("gamma")
    part = ProblemPart(family="gamma", fit_intercept=True)
    parts = tables(X, y, (40, 180), COLUMNS)
    assert together(programs(parts, part)).answer.certified
    with pytest.raises(Refusal, match=r"at most 0\.1; with this loss"):
        together(programs(parts, part, may_change=True))


def test_a_site_whose_rows_are_few_keeps_the_sum_of_their_squares_back_where_members_may_change() -> None:
    X, y = cells(108)
    part = ProblemPart(family="binomial", fit_intercept=True)
    parts = tables(X, y, (40, 180), COLUMNS)
    together_asked, apart = (together(programs(parts, part, may_change=one)) for one in (False, True))
    assert [one for one in together_asked.requests if b"cone_gram" in one]
    assert not [one for one in apart.requests if b"cone_" in one]
    assert "undecided" in apart.answer.remark


def test_a_step_to_a_point_at_which_few_rows_show_is_too_long_and_only_a_start_there_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts, part = case("poisson")
    told: list[tuple[bool, bool]] = []  # whether a point was too far, and whether a site told derivatives there

    def recorded(*arguments: Any, far: bool) -> Any:
        fields = contribute(*arguments, far=far)
        told.append((far, bool(fields["hessian"].any() or fields["slopes"].any())))
        return fields

    monkeypatch.setattr(method, "contribute", recorded)
    sites = programs(parts, part)
    checked: list[bool] = []

    class Sometimes(RuleBook):
        def check_point(self, block: Any, scale: Vector, point: Any) -> None:
            checked.append(len(checked) == 1)
            if checked[-1]:
                raise Refusal("here few rows would show")

    sites[0].rules = Sometimes(SiteRules(), "alice", False, False)
    usual, found = together(programs(parts, part)).answer, together(sites).answer
    assert any(checked)
    assert found.certified
    assert {derivatives for far, derivatives in told if far} == {False}  # of the other sites neither
    assert sum(far for far, _ in told) % 3 == 0
    assert found.totals > usual.totals
    np.testing.assert_allclose(found.coef, usual.coef, rtol=1e-6)

    class Always(RuleBook):
        seen = 0

        def check_point(self, block: Any, scale: Vector, point: Any) -> None:
            type(self).seen += 1
            if self.seen > 1:
                raise Refusal("here few rows would show")

    sites = programs(parts, part)
    sites[0].rules = Always(SiteRules(), "alice", False, False)
    with pytest.raises(Refusal, match="few rows would show"):
        together(sites)
    assert Always.seen <= FAR + 2


@pytest.mark.parametrize("name", ["binomial", "poisson", "negative binomial", "multinomial", "cox"])
def test_a_point_far_away_to_which_a_member_steers_is_refused(name: str) -> None:
    (site, *_) = programs(*case(name))
    d = site.block.p + 1
    site.rules.check_point(site.block, np.ones(d), (np.zeros(d - 1), 0.0, False))
    shown = 0
    for seed in range(40):
        w = 300.0 * np.random.default_rng(seed).normal(size=d)
        try:
            site.rules.check_point(site.block, np.ones(d), (w[:-1], w[-1], False))
        except Refusal:
            continue
        with np.errstate(over="ignore"):
            loss = site.block.likelihoods[0].values(w[None])[0]
        if loss <= 1e300:  # beyond, a site tells no derivatives
            shown += bool(site.block.likelihoods[0].derivatives(w).hessian.any())
    assert shown == 0


def test_sums_of_scores_in_which_few_rows_show_are_told_by_nobody() -> None:
    discretion = SiteDiscretion(RuleBook(SiteRules(), "alice", False, False))
    rng = np.random.default_rng(0)
    scores, room = rng.normal(size=(200, 3)), 1.0 - rng.uniform(0.01, 0.02, 200)
    assert discretion.allowed_meats(scores, room).tolist() == [True, True, True]
    room[0] = 0.02  # a row of large leverage stands out where HC0 is subtracted
    assert discretion.allowed_meats(scores, room).tolist() == [True, False, False]
    scores[5] *= 100.0
    assert discretion.allowed_meats(scores, room).tolist() == [False, False, False]
    assert discretion.allowed_meats(scores[:8], room[10:18]).tolist() == [False, False, False]
    answer = together(programs(*case("gamma"))).answer
    assert answer.statistics is not None
    assert "HC3" not in answer.statistics.meats
    with pytest.raises(GlmeshError, match="HC3"):
        Inference(answer.statistics).vcov("HC3")


@pytest.mark.parametrize("name", ["binomial", "poisson", "cox"])
def test_whether_sites_differ_is_told_with_the_simulators_bits_and_by_nobody_if_one_objects(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, part = case(name)
    answer, simulator = together(programs(parts, part)).answer, simulated(parts, part)
    assert answer.statistics is not None
    assert simulator.statistics is not None
    assert heterogeneity_test(answer.statistics) == heterogeneity_test(simulator.statistics)

    class Silent(SiteDiscretion):
        def allows_misfit(self, pulls: Matrix) -> bool:
            assert pulls.shape[0] < sum(len(one.y) for one in parts if one.y is not None)
            return self.rules.name != "bob" and super().allows_misfit(pulls)

    monkeypatch.setattr(program, "SiteDiscretion", Silent)
    fit = together(programs(parts, part))
    assert fit.answer.statistics is not None
    assert np.isnan(fit.answer.statistics.between)
    assert not any(b"between" in request for request in fit.requests)
    with pytest.raises(UnsuitablePair, match="the rules of a site held its number back"):
        heterogeneity_test(fit.answer.statistics)
    np.testing.assert_array_equal(fit.answer.statistics.hessian, answer.statistics.hessian)


def test_a_row_whose_residual_makes_up_most_of_a_sites_number_is_not_told() -> None:
    discretion = SiteDiscretion(RuleBook(SiteRules(), "alice", False, False))
    pulls = np.random.default_rng(0).normal(size=(60, 3)) / np.sqrt(60)
    assert discretion.allows_misfit(pulls)
    assert not discretion.allows_misfit(pulls[:8])
    pulls[4] *= 30.0
    assert not discretion.allows_misfit(pulls)
    assert discretion.allows_misfit(np.zeros((60, 3)))  # nothing is told by rows that all fit exactly


# columns that are no features


def test_values_that_cannot_be_are_named_without_being_told_to_others() -> None:
    X, y = draw("poisson")
    (table, *_) = tables(X, y, CUTS, COLUMNS)
    part = ProblemPart(family="poisson", exposure="d")
    with pytest.raises(Mismatch, match=r"column 'd' \(exposure\) must be > 0") as caught:
        with_roles(fit(table, Contract.like(table, classifies=False)), part)
    assert "holds" in str(caught.value)
    assert "holds" not in caught.value.public
    rows, times = survival()
    (table, *_) = tables(rows, times, CUTS, (*COLUMNS, "e"))
    part = ProblemPart(family="cox", time="y", event="a")
    with pytest.raises(Mismatch, match=r"column 'a' \(event\) must hold 0 and 1 only"):
        with_roles(fit(table, Contract.like(table, classifies=False)), part)
    part = replace(part, event="e")
    found = with_roles(fit(table, Contract.like(table, classifies=False)), part).table
    assert found.names == COLUMNS
    np.testing.assert_array_equal(found.y, np.where(rows[: CUTS[0], 4] == 1, times[: CUTS[0]], -times[: CUTS[0]]))
    table = replace(table, y=np.where(np.arange(table.m) == 3, 0.0, table.y))
    with pytest.raises(Mismatch, match=r"'y' \(time\) must be > 0"):
        with_roles(fit(table, Contract.like(table, classifies=False)), part)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"family": "poisson", "loss": "logistic"}, "exclude each other"),
        ({"family": "poison"}, "did you mean 'poisson'"),
        ({"family": "poisson", "link": "probit"}, "link"),
        ({"family": "poisson", "offset": "a", "exposure": "b"}, "exclude each other"),
        ({"family": "cox"}, "time = ... and event"),
        ({"family": "cox", "time": "t", "event": "t"}, "two columns"),
        ({"family": "cox", "time": "t", "event": "e", "fit_intercept": True}, "intercept has no effect"),
        ({"family": "cox", "time": "t", "event": "e", "link": "log"}, "no link"),
        ({"family": "poisson", "time": "t"}, "go with family = 'cox'"),
        ({"family": "multinomial", "offset": "a"}, "changes no probability"),
        ({"family": "poisson", "method": "gossip"}, "fitted by totals"),
        ({"family": "poisson", "split": "features"}, "fitted by totals"),
        ({"family": "poisson", "cv": 5}, "with a family write cv = 0"),
        ({"family": "poisson", "tol_se": 0.0}, "tol_se must be > 0"),
        ({"offset": "a"}, "goes with a family"),
    ],
)
def test_keys_that_do_not_go_together_are_refused_by_name(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(GlmeshError, match=words):
        ProblemPart(**keys).model()


def test_alpha_is_1_for_a_loss_and_0_for_a_family_unless_it_is_given() -> None:
    parts = ProblemPart(), ProblemPart(family="gamma"), ProblemPart(family="gamma", alpha=2.0)
    assert [one.alpha for one in parts] == [1.0, 0.0, 2.0]
    assert [one.loss for one in parts] == ["squared", "", ""]
