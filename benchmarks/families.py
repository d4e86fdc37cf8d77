"""Families on real data against statsmodels; certificates and separation on thousands of random problems.

    python benchmarks/families.py data            # data sets of statsmodels and scikit-learn: a minute
    python benchmarks/families.py certificates    # 2,000 problems of each loss: a quarter of an hour
    python benchmarks/families.py separation      # 500 cases of each kind of targets: some minutes
    python benchmarks/families.py sites           # 400 draws of each of four families: some minutes
    python benchmarks/families.py report          # benchmarks/reports/families.md from what these have kept

Each part keeps its figures beside the report, in `families.json`, so that one may be made again alone.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import statsmodels
import statsmodels.api as sm
from sklearn import datasets

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import REPORTS, machine, table, write
from tests.inference.test_heterogeneity import FAMILIES, fitted, sites
from tests.methods.totals.likelihood.certificates import Case, Scaled, row_derivatives, slopes_of
from tests.methods.totals.likelihood.soaks import LOSSES, Claims, claims, verdicts

import glmesh
from glmesh.functions import Family, NegativeBinomial, Tweedie, family_of
from glmesh.methods.totals.likelihood.models import likelihood_of
from glmesh.methods.totals.likelihood.statistics import factor_of_inverse

KEPT = REPORTS / "families.json"
PROBLEMS, BATCH, CASES, DRAWS = 2000, 100, 500, 400
APART = (0.0, 0.15, 0.3)  # by which a slope differs from one site to the next


def keep(part: str, rows: object) -> None:
    """Put the rows of one part into the file of figures."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    KEPT.write_text(json.dumps(kept | {part: rows}, indent=1) + "\n")


def certificates() -> None:
    """Judge PROBLEMS problems of every loss, BATCH of each in turn, so that an early end leaves all losses alike."""
    found = {name: Claims() for name in LOSSES}
    for start in range(0, PROBLEMS, BATCH):
        for name, so_far in found.items():
            claims(name, range(start, start + BATCH), so_far)
        keep("certificates", [_claimed(name, one) for name, one in found.items()])
        print(start + BATCH, sum(len(one.wrong) for one in found.values()), flush=True)
    for one in found.values():
        for wrong in one.wrong:
            print(wrong)


def _claimed(name: str, found: Claims) -> list[object]:
    tight = np.percentile(found.tightness, [50, 95, 100]) if found.tightness else [np.nan] * 3
    worst = [f"{found.worst[what]:.6f}" if what in found.worst else "" for what in WHAT]
    ends = ", ".join(f"{n} {status}" for status, n in found.ended.most_common())
    return [name, found.n, ends, found.checked, len(found.wrong), *worst, *(f"{one:.5g}" for one in tight)]


WHAT = ("distance", "coefficients", "deviance", "standard errors")


# --- data sets


@dataclass
class Sample:
    """Raw rows of a data set with a model for them, ours and that of statsmodels."""

    name: str
    family: Family
    theirs: Any  # family of statsmodels
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None
    offset: np.ndarray | None = None
    shape_unknown: bool = False

    def parts(self, K: int) -> list[slice]:
        """Rows of K nodes, the last of which has 2 K - 1 times as many as the first."""
        ends = np.rint(len(self.y) * np.linspace(0.0, 1.0, K + 1) ** 2).astype(int)
        return [slice(a, b) for a, b in pairwise(ends.tolist())]

    def fit(self, K: int) -> Any:
        """The estimator, fitted at K nodes with clusters of four rows in each."""
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        offset = () if self.offset is None else (self.offset,)
        rows = [tuple(one[s] for one in (self.X, self.y, weight, *offset)) for s in self.parts(K)]
        family = NegativeBinomial(None) if self.shape_unknown else self.family
        model = glmesh.GLMRegressor(family=family, topology="complete")
        return model.fit_nodes(rows, clusters=[np.arange(s.stop - s.start) // 4 for s in self.parts(K)])


def load(name: str) -> Any:
    return getattr(sm.datasets, name).load_pandas()


def samples() -> list[Sample]:
    """All data sets with the families and links that suit them."""
    F, L = sm.families, sm.families.links
    fair, anes, hie, scot = load("fair").data, load("anes96"), load("randhie"), load("scotland")
    star, punish, stack, spector = load("star98"), load("cpunish"), load("stackloss"), load("spector")
    X, affairs = fair.drop(columns="affairs").to_numpy(float), (fair["affairs"] > 0).to_numpy(float)
    out = []
    for link, theirs in (("logit", L.Logit()), ("probit", L.Probit()), ("cloglog", L.CLogLog())):
        out.append(Sample("fair", family_of("binomial", link), F.Binomial(theirs), X, affairs))
        votes = anes.exog[["logpopul", "selfLR", "age", "educ"]].to_numpy(float)
        out.append(
            Sample("anes96", family_of("binomial", link), F.Binomial(theirs), votes, (anes.endog > 3).to_numpy(float))
        )
        trials = star.endog.sum(axis=1).to_numpy(float)
        share = star.endog.to_numpy(float)[:, 0] / trials
        out.append(
            Sample(
                "star98, trials",
                family_of("binomial", link),
                F.Binomial(theirs),
                star.exog.to_numpy(float)[:, :8],
                share,
                trials,
            )
        )
    out.append(
        Sample(
            "spector", family_of("binomial"), F.Binomial(), spector.exog.to_numpy(float), spector.endog.to_numpy(float)
        )
    )
    X, y = hie.exog.to_numpy(float)[:, :6], hie.endog.to_numpy(float)
    offset = 0.1 * np.log1p(np.arange(len(y)) % 7)
    few, executions = punish.exog.to_numpy(float)[:, [1, 2, 5]], punish.endog.to_numpy(float)
    for name, rows, counts, shift in (("randhie, offset", X, y, offset), ("cpunish", few, executions, None)):
        out.append(Sample(name, family_of("poisson"), F.Poisson(), rows, counts, offset=shift))
        out.append(Sample(name, NegativeBinomial(2.0), F.NegativeBinomial(alpha=0.5), rows, counts, offset=shift))
        out.append(
            Sample(
                name,
                NegativeBinomial(2.0),
                F.NegativeBinomial(alpha=0.5),
                rows,
                counts,
                offset=shift,
                shape_unknown=True,
            )
        )
        out.append(Sample(name, Tweedie(1.5), F.Tweedie(L.Log(), 1.5), rows, counts, offset=shift))
    sugar, spread = datasets.load_diabetes(return_X_y=True, scaled=False)
    weight, shift = 0.5 + np.arange(len(spread)) % 4, 0.2 * np.cos(np.arange(len(spread)))
    scotX, scotY = scot.exog.to_numpy(float), scot.endog.to_numpy(float)
    positive: list[tuple[Family, Any, bool]] = [
        (family_of("gaussian"), F.Gaussian(), True),
        (family_of("gaussian", "log"), F.Gaussian(L.Log()), True),
        (family_of("gamma"), F.Gamma(L.Log()), True),
        (family_of("gamma", "inverse"), F.Gamma(), False),
        (family_of("inverse_gaussian"), F.InverseGaussian(), False),
        (family_of("inverse_gaussian", "log"), F.InverseGaussian(L.Log()), True),
        (Tweedie(1.5), F.Tweedie(L.Log(), 1.5), True),
    ]
    for family, theirs, shifts in positive:
        out.append(Sample("scotland", family, theirs, scotX, scotY))
        out.append(
            Sample(
                "diabetes, weights" + ", offset" * shifts,
                family,
                theirs,
                sugar,
                spread,
                weight,
                shift if shifts else None,
            )
        )
    out.append(
        Sample(
            "stackloss", family_of("gaussian"), F.Gaussian(), stack.exog.to_numpy(float), stack.endog.to_numpy(float)
        )
    )
    cancer, ill = datasets.load_breast_cancer(return_X_y=True)
    out.append(
        Sample("breast cancer, 5 columns", family_of("binomial"), F.Binomial(), cancer[:, :5], ill.astype(float))
    )
    iris, flower = datasets.load_iris(return_X_y=True)
    out.append(Sample("iris, two kinds", family_of("binomial"), F.Binomial(), iris[50:], flower[50:] - 1.0))
    return out


def reference(sample: Sample, start: np.ndarray, family: Family) -> tuple[Any, np.ndarray]:
    """Statsmodels' results at coefficients that Newton steps in 64 bits of mantissa make exact; intercept last."""
    m = len(sample.y)
    case = Case(family, sample.X, sample.y, np.ones(m) if sample.weight is None else sample.weight, sample.offset, [m])
    likelihood = likelihood_of(family, case.columns, case.y, case.weight)
    held = np.zeros(likelihood.d, dtype=bool)
    held[-2] = sample.offset is not None
    w = np.ones(likelihood.d, dtype=np.longdouble)
    w[~held] = start
    for _ in range(12):
        hessian = likelihood.derivatives(w.astype(float)).hessian[np.ix_(~held, ~held)]
        w[~held] -= Scaled(hessian).solve(slopes_of(case, w)[~held])
    theirs = sample.theirs
    if sample.shape_unknown:
        theirs = sm.families.NegativeBinomial(alpha=1.0 / family.theta)  # type: ignore[attr-defined]
    exog = np.column_stack([sample.X, np.ones(m)])
    model = sm.GLM(sample.y, exog, family=theirs, offset=sample.offset, var_weights=sample.weight)
    if family.name == "binomial" and sample.weight is not None:
        counts = np.column_stack([sample.y * sample.weight, (1.0 - sample.y) * sample.weight])
        model = sm.GLM(np.rint(counts), exog, family=theirs, offset=sample.offset)
    return model, w[~held].astype(float)


def compared(sample: Sample) -> list[object]:
    """The worst differences from statsmodels over K = 1, 3 and 16 nodes, and totals."""
    worst = dict.fromkeys(("coef", "se", "deviance", "llf", "aic", "HC0", "cluster"), 0.0)
    totals, condition, claim = [], 0.0, 0.0
    for K in (1, 3, 16):
        ours = sample.fit(K)
        statistics = ours.result_.statistics
        if statistics is None:
            return [sample.name, described(sample), len(sample.y), ours.result_.message[:60], *[""] * 10]
        model, exact = reference(sample, np.append(ours.coef_, ours.intercept_), statistics.fitted.family)
        quick = {"start_params": exact, "maxiter": 1, "tol": 1e-3}
        theirs = model.fit(**quick)
        labels = np.concatenate([10**6 * k + np.arange(s.stop - s.start) // 4 for k, s in enumerate(sample.parts(K))])
        condition = Scaled(statistics.information).condition
        totals.append(ours.result_.rounds + (steps_of_theta(sample, K) if sample.shape_unknown else 0))
        claim = max(claim, float(ours.result_.standard_errors_off))
        off = (np.append(ours.coef_, ours.intercept_) - exact) / theirs.bse
        table = ours.summary(use_t=False).to_frame()
        found = {
            "coef": np.abs(off).max(),
            "se": _relative(np.roll(table["std err"], -1), theirs.bse),
            "deviance": _relative(statistics.deviance, theirs.deviance),
            "llf": _relative(statistics.log_likelihood, theirs.llf),
            "aic": 0.0 if sample.shape_unknown else _relative(statistics.aic, theirs.aic),
        }
        for kind in ("HC0", "cluster"):
            wanted = sandwich(sample, exact, statistics.fitted.family, labels if kind == "cluster" else None)
            found[kind] = _relative(np.roll(np.sqrt(np.diag(ours.vcov(kind))), -1), wanted)
        worst = {what: max(worst[what], float(found[what])) for what in worst}
    each = ", ".join(map(str, sorted(set(totals))))
    return [sample.name, described(sample), len(sample.y), condition, each, claim, *worst.values()]


def sandwich(sample: Sample, exact: np.ndarray, family: Family, labels: np.ndarray | None) -> np.ndarray:
    """Robust standard errors, as statsmodels defines them, in 64 bits of mantissa at exact coefficients.

    `labels` are those of clusters, None: HC0. Statsmodels' own are off by 1e-5 on nearly separated data.
    """
    m = len(sample.y)
    weight = np.ones(m) if sample.weight is None else sample.weight
    X = np.column_stack([sample.X, np.ones(m)]).astype(np.longdouble)
    z = X @ exact.astype(np.longdouble) + (0 if sample.offset is None else sample.offset.astype(np.longdouble))
    slopes, curvatures = (weight * one for one in row_derivatives(family, sample.y, z))
    H = X.T @ (curvatures[:, None] * X)
    C = factor_of_inverse(H.astype(float)).astype(np.longdouble)
    bread = C @ np.linalg.inv((C.T @ H @ C).astype(float)).astype(np.longdouble)
    scores, factor = (X * slopes[:, None]) @ C, 1.0
    if labels is not None:
        names, which = np.unique(labels, return_inverse=True)
        sums = np.zeros((len(names), scores.shape[1]), dtype=np.longdouble)
        np.add.at(sums, which, scores)
        k, G = scores.shape[1], len(names)
        scores, factor = sums, G / (G - 1) * (m - 1) / (m - k)
    return np.asarray(np.sqrt(factor * np.diag(bread @ (scores.T @ scores) @ bread.T)), dtype=float)


def steps_of_theta(sample: Sample, K: int) -> int:
    """How many totals a fit spends on theta, beside those of its rounds."""
    steps = [0]

    def count(run: Any) -> None:
        steps[0] = run.nodes.states[0].shape_steps

    problem = glmesh.Problem.glm(
        sample.X, sample.y, family=NegativeBinomial(None), alpha=0.0, fit_intercept=True, offset=sample.offset
    )
    glmesh.solve(problem, n_nodes=K, callback=count)
    return steps[0]


def described(sample: Sample) -> str:
    """The family and its link, in words."""
    return f"{sample.family.name} {sample.family.link}" + (", theta estimated" if sample.shape_unknown else "")


def _relative(ours: Any, theirs: Any) -> float:
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    return float((np.abs(ours - theirs) / np.abs(theirs)).max())


def data() -> None:
    """Compare fits of all data sets with statsmodels."""
    rows = []
    for sample in samples():
        rows.append(compared(sample))
        print(*rows[-1], sep=" | ", flush=True)
    keep("data", rows)


def separation() -> None:
    """Compare the ends of fits with a linear program."""
    rows = []
    for targets, model in (("shares", "logistic"), ("counts", "Poisson"), ("classes", "softmax")):
        found = verdicts(targets, range(CASES))
        least, most = np.percentile(found.totals, [50, 100]).astype(int).tolist()
        rows.append(
            [model, found.n, found.separated, len(found.wrong), found.undecided, len(found.misnamed), least, most]
        )
        keep("separation", rows)
        print(rows[-1], *found.wrong, *found.misnamed, sep="\n", flush=True)


def differing() -> None:
    """Count how often the test of sites rejects, where they are equal and where a slope differs."""
    rows = []
    for name in FAMILIES:
        row: list[object] = [name, DRAWS]
        for apart in APART:
            draws = (sites(name, np.random.default_rng([7, seed]), apart) for seed in range(DRAWS))
            p = np.array([fitted(name, parts).heterogeneity_test().p_value for parts in draws])
            row += [f"{(p < 0.05).mean():.3f}", f"{(p < 0.01).mean():.3f}"]
        rows.append(row)
        print(*row, flush=True)
    keep("sites", rows)


def report() -> None:
    """Write benchmarks/reports/families.md from the figures that the parts have kept."""
    kept = json.loads(KEPT.read_text())
    sets = ["data", "family, link", "rows", "condition", "totals", "proven off (se)", "coef (se)"]
    sets += ["se", "deviance", "log-likelihood", "AIC", "HC0", "cluster"]
    claimed = ["loss", "problems", "ended", "checked", "wrong", *WHAT, "median", "95 %", "largest"]
    told = ["model", "cases", "separated", "wrong", "undecided", "misnamed", "median totals", "most"]
    found = kept["certificates"]
    problems, checked, wrong = (sum(int(row[k]) for row in found) for k in (1, 3, 4))
    text = f"""# Families: statsmodels, certificates, separation

`python benchmarks/families.py data`, `... certificates`, `... separation`, `... sites`, then `... report`. {machine()}, statsmodels {statsmodels.__version__}.

## Data sets

Raw columns, no penalty; the worst over K = 1, 3 and 16 nodes, the last of which holds 2K - 1 times as many rows as the first. The reference
is statsmodels' model at coefficients that Newton steps in 64 bits of mantissa make exact. "totals" are those from the null model on, the
certificate included; beside them are one for the null model, two at the end (with an offset four or five more, of two numbers, for the null deviance) and one of exponents.
Where theta is estimated, its totals are counted, too.
"condition" is that of the information, scaled to a diagonal of ones. "proven off" is what the fit claims, "coef" what is true, both in standard errors; inf: the loss is not convex. All other
columns are relative differences. Robust ones are statsmodels' definitions in 64 bits: its own, in double precision, are off by 1e-5 on breast cancer, where the classes are nearly separated.

{table(sets, [[_short(cell) for cell in row] for row in kept["data"]])}

## Certificates

Random problems, half of them nearly collinear (to 1e-5), columns of sizes 1e-5 to 1e5 and up to a thousand times as far from 0 as wide, weights, offsets, rare events, 1 to 3 unequal
nodes; fits stop at 0.1, 1e-3 or 1e-6 standard errors, one of them at random, and make their last free step. The exact optimum is found by Newton's method in 64 bits of mantissa. {problems:,} problems, {checked:,} certificates, **{wrong} wrong**.
Columns "distance" to "standard errors": the largest ratio of truth to claim (at most 1 but for 1e-6 of the check). "median" to "largest": claimed / true distance, where the true one is above 1e-10; large
ratios are fits at a distance that rounding decides. STALLED: rounding hides 1e-6 standard errors; of 1,800 of these problems 100 ended so, all with conditions above 4e8.

{table(claimed, found)}

## Separation

Fits of indicators, whole numbers and continuous columns, separated completely, in part, in nested cells, nearly or not, against a linear program. "misnamed": cases in which the
columns that the sentence names do not separate by themselves (another linear program).

{table(told, kept["separation"])}
"""
    if "sites" in kept:
        each = [f"{apart:g} apart, {level}" for apart in APART for level in ("5 %", "1 %")]
        text += SITES + table(["family", "draws", *each], kept["sites"]) + "\n"
    write("families", text)


SITES = """
## Sites that differ

Share of draws in which `heterogeneity_test` rejects at the levels 0.05 and 0.01: three sites of 120, 80 and 200 rows, two columns; the slope of
one differs by 0, 0.15 or 0.3 from one site to the next.

"""


def _short(cell: Any) -> Any:
    return f"{cell:.0e}" if isinstance(cell, float) else cell


PARTS = {"report": report, "sites": differing, "data": data, "certificates": certificates, "separation": separation}

if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PARTS[sys.argv[1]]()
