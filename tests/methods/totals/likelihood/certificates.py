"""Random problems for tests of the certificate in standard errors, and their exact optimum in 64 bits of mantissa."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from glmesh import Problem, solve
from glmesh.engine.result import Result
from glmesh.functions import Cox, NegativeBinomial, Softmax, Tweedie, family_of
from glmesh.functions.losses import Loss
from glmesh.inference import Accuracy
from glmesh.inference.covariance import covariance, standard_errors
from glmesh.methods import MaximumLikelihood
from glmesh.methods.totals.likelihood.models import likelihood_of

Long = np.longdouble
LOSSES: dict[str, Callable[[], Loss]] = {
    "gaussian": lambda: family_of("gaussian"),
    "binomial logit": lambda: family_of("binomial"),
    "binomial probit": lambda: family_of("binomial", "probit"),
    "binomial cloglog": lambda: family_of("binomial", "cloglog"),
    "poisson": lambda: family_of("poisson"),
    "gamma log": lambda: family_of("gamma"),
    "gamma inverse": lambda: family_of("gamma", "inverse"),
    "inverse_gaussian 1/mu^2": lambda: family_of("inverse_gaussian"),
    "tweedie 1.5": lambda: Tweedie(1.5),
    "negative_binomial 2": lambda: NegativeBinomial(2.0),
    "multinomial": lambda: Softmax(3),
    "cox efron": lambda: Cox("efron"),
}
SMALL = 1e-15  # [norm of the Hessian] up to which the exact optimum is known
STEPS = 12  # Newton steps to the exact optimum, because each takes five to ten digits


@dataclass
class Case:
    """Rows of nodes whose targets are drawn from the model that `loss` says, raw and nearly collinear."""

    loss: Loss
    X: np.ndarray  # (m, p)
    y: np.ndarray  # (m,)
    weight: np.ndarray  # (m,)
    offset: np.ndarray | None
    cuts: list[int]  # ends of the nodes' rows, the last is m
    parts: list[slice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = [slice(a, b) for a, b in zip([0, *self.cuts[:-1]], self.cuts, strict=True)]

    @property
    def columns(self) -> np.ndarray:
        """The columns of X and, behind them, the offset, if there is one."""
        return self.X if self.offset is None else np.column_stack([self.X, self.offset])

    def fit(self, tol: float) -> Result:
        """Fit the case on its nodes until coefficients are within `tol` standard errors."""
        rows = [(self.X[s], self.y[s], self.weight[s]) for s in self.parts]
        offsets = None if self.offset is None else [self.offset[s] for s in self.parts]
        problem = Problem.from_nodes(
            rows, loss=self.loss, alpha=0.0, offsets=offsets, fit_intercept=not isinstance(self.loss, Cox)
        )
        return solve(problem, method=MaximumLikelihood(tol_se=tol), topology="complete", max_rounds=60)


def draw(name: str, rng: np.random.Generator) -> Case:
    """A case of a loss in LOSSES: wild scales, often nearly collinear, with weights, offsets and rare events."""
    loss = LOSSES[name]()
    m, p = int(rng.integers(20, 200)), int(rng.integers(1, 6))
    X = rng.normal(size=(m, p))
    if rng.random() < 0.3:
        X[:, 0] = rng.random(m) < 0.3
    if p > 1 and rng.random() < 0.5:
        X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-5, -1) * X[:, -1]
    z = X @ rng.normal(size=p) * 0.5 + rng.uniform(-3, 1.5)
    weight = 10.0 ** rng.uniform(-1, 1, m) if rng.random() < 0.5 else rng.integers(1, 4, m).astype(float)
    offset = 0.5 * rng.normal(size=m) if rng.random() < 0.4 and name not in ("multinomial", "cox efron") else None
    if name.endswith(("inverse", "mu^2")):
        offset, z = None, 0.5 + np.abs(z)
    y = _targets(name, rng, z if offset is None else z + offset, weight)
    X = (X + np.where(rng.random(p) < 0.2, 10.0 ** rng.uniform(0, 3, p), 0.0)) * 10.0 ** rng.uniform(-5, 5, p)
    n_nodes = int(rng.integers(1, 4))
    return Case(loss, X, y, weight, offset, [*sorted(rng.integers(5, m - 5, n_nodes - 1).tolist()), m])


def _targets(name: str, rng: np.random.Generator, z: np.ndarray, weight: np.ndarray) -> np.ndarray:
    mu = np.exp(np.clip(z, -20, 4))
    m = len(z)
    if name.startswith("binomial"):
        trials = np.where(weight == np.rint(weight), weight, 1.0).astype(int)
        return rng.binomial(trials, 1 / (1 + np.exp(-z))) / trials
    if name == "multinomial":
        return (np.outer(z, [0.0, 0.6, -0.4]) + rng.gumbel(size=(m, 3))).argmax(axis=1).astype(float)
    if name == "cox efron":
        time = np.ceil(10.0 ** rng.uniform(0, 3) * rng.exponential(1 / np.clip(mu, 1e-3, None))) + 1.0
        return np.where(rng.random(m) < 0.7, time, -time)
    drawn: dict[str, Callable[[], np.ndarray]] = {
        "gaussian": lambda: z + 10.0 ** rng.uniform(-2, 1) * rng.normal(size=m),
        "poisson": lambda: rng.poisson(mu),
        "gamma log": lambda: rng.gamma(2.0, mu),
        "gamma inverse": lambda: rng.gamma(3.0, 1 / (3.0 * z)),
        "inverse_gaussian 1/mu^2": lambda: rng.wald(z**-0.5, 5.0),
        "tweedie 1.5": lambda: rng.gamma(2.0, mu) * (rng.random(m) < 0.7),
        "negative_binomial 2": lambda: rng.negative_binomial(2, 2 / (2 + mu)),
    }
    return np.maximum(drawn[name](), 1e-12 if name.startswith(("gamma", "inverse")) else -np.inf).astype(float)


# --- slopes and curvatures of rows in 64 bits of mantissa


def mills(z: np.ndarray) -> np.ndarray:
    """phi(z) / Phi(z), by the series of positive terms near 0 and by the continued fraction of the tail beyond 3."""
    z = z.astype(Long)
    density = np.exp(-z * z / 2) / np.sqrt(8 * np.arctan(Long(1)))
    near = np.clip(z, -3, 3)
    total = term = np.abs(near)
    for k in range(1, 70):
        term = term * near * near / (2 * k + 1)
        total = total + term
    t, tail = np.maximum(np.abs(z), 3), np.zeros_like(z)
    for k in range(200, 0, -1):
        tail = k / (t + tail)
    inner = density / (Long("0.5") + np.copysign(total * density, near))
    return np.where(z < -3, t + tail, np.where(z > 3, density / (1 - density / (t + tail)), inner))


def row_derivatives(loss: Loss, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivative of each row's half deviance by its linear predictor, as textbooks have them."""
    y = y.astype(Long)
    match (loss.name, getattr(loss, "link", "")):
        case ("gaussian", "identity"):
            return z - y, np.ones_like(z)
        case ("binomial", "logit"):
            up, down = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(z))
            return (1 - y) * up - y * down, up * down
        case ("binomial", "probit"):
            r, s = mills(z), mills(-z)
            return (1 - y) * s - y * r, y * r * (z + r) + (1 - y) * s * (s - z)
        case ("binomial", "cloglog"):
            t = np.exp(z)
            q = t / np.expm1(t)
            return (1 - y) * t - y * q, (1 - y) * t - y * (q - q * q * np.exp(t))
        case ("gamma", "inverse"):
            return y - 1 / z, 1 / (z * z)
        case ("inverse_gaussian", "1/mu^2"):
            return y / 2 - 1 / (2 * np.sqrt(z)), 1 / (4 * z * np.sqrt(z))
        case ("negative_binomial", "log"):
            mu, theta = np.exp(z), Long(getattr(loss, "theta", 1.0))
            return theta * (mu - y) / (theta + mu), theta * mu * (theta + y) / (theta + mu) ** 2
    powers = {"gaussian": 0.0, "poisson": 1.0, "gamma": 2.0, "inverse_gaussian": 3.0}
    power = powers[loss.name] if loss.name in powers else getattr(loss, "power", 1.0)
    a = Long(2.0 - power)
    up, down = np.exp(a * z), y * np.exp((a - 1) * z)
    return up - down, a * up + (1 - a) * down


def slopes_of(case: Case, w: np.ndarray) -> np.ndarray:
    """Gradient of the loss by all d coefficients at w, those of columns, offset and intercept, in 64 bits."""
    y, s = case.y, case.weight.astype(Long)
    if isinstance(case.loss, Cox):
        parts = [_cox_slopes(case.X[k].astype(Long), y[k], s[k], w[:-1]) for k in case.parts]
        return np.append(np.sum(parts, axis=0), Long(0))
    rows = np.column_stack([case.columns, np.ones(len(y))]).astype(Long)
    if isinstance(case.loss, Softmax):
        z = rows @ w.reshape(-1, rows.shape[1]).T
        e = np.exp(z - z.max(axis=1, keepdims=True))
        share = e / e.sum(axis=1, keepdims=True)
        own = np.arange(share.shape[1]) == y[:, None]
        return np.asarray(((s[:, None] * (share - own)).T @ rows).ravel())
    return np.asarray(rows.T @ (s * row_derivatives(case.loss, y, rows @ w)[0]))


def _cox_slopes(X: np.ndarray, y: np.ndarray, s: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Gradient of minus Efron's log partial likelihood of one stratum, event time by event time."""
    if not len(y):
        return np.zeros(X.shape[1], dtype=Long)
    time, happened = np.abs(y), (y > 0) & (s > 0)
    z = X @ w
    risk = s * np.exp(z - z.max())
    out = np.zeros(X.shape[1], dtype=Long)
    for t in np.unique(time[happened]):
        at, tied = time >= t, (time == t) & happened
        n, mean = int(tied.sum()), s[tied].sum() / int(tied.sum())
        out -= s[tied] @ X[tied]
        for part in range(n):
            factor = risk * at - risk * tied * Long(part) / n
            out += mean * (factor @ X) / factor.sum()
    return out


# --- the truth, and what was claimed


@dataclass
class Verdict:
    """How a claim compares with the truth; a ratio is at most 1 if the claim holds, but for the check's rounding."""

    distance: float  # proven bound of the distance, in the norm of the Hessian
    true: float  # the distance
    ratios: dict[str, float]


def judge(case: Case, result: Result) -> Verdict:
    """Compare what a fit claims of itself with the exact optimum, found by Newton's method in 64 bits."""
    statistics = result.statistics
    assert statistics is not None
    likelihoods = [likelihood_of(case.loss, case.columns[s], case.y[s], case.weight[s]) for s in case.parts]
    free = statistics.fitted.free
    start = statistics.fitted.coef.astype(Long)
    w = start.copy()
    for _ in range(STEPS):
        hessian = np.sum([one.derivatives(w.astype(float)).hessian for one in likelihoods], axis=0)
        H = Scaled(hessian[np.ix_(free, free)])
        step = H.solve(slopes_of(case, w)[free])
        w[free] -= step
        left = H.norm(step)
        if left < SMALL:
            break
    known = SMALL + 2.0 * left
    assert known < 1e-2 * float(result.distance) + 1e-12, "the exact optimum is not known well enough"
    e = start - w
    excess = sum(
        0.5 * float(u) * float(slopes_of(case, w + Long(0.5 * (1.0 + t)) * e) @ e)
        for t, u in zip(*np.polynomial.legendre.leggauss(6), strict=True)
    )
    accuracy = Accuracy.of_statistics(statistics, covariance(statistics, "model"), "model")
    errors = standard_errors(covariance(statistics, "model"))
    true = Scaled(statistics.hessian).norm(e[free])
    ratios = {
        "distance": true / (float(result.distance) + known),
        "coefficients": float((np.abs(e[free]).astype(float) / errors / (accuracy.coefficients + known)).max()),
        "deviance": 2.0 * excess / (accuracy.deviance + known**2),
    }
    if np.isfinite(accuracy.standard_errors) and not statistics.is_least_squares:
        there = w.astype(float)
        information = np.sum([one.information(there) for one in likelihoods], axis=0)[np.ix_(free, free)]
        phi = statistics.dispersion
        if statistics.dispersion_is_estimated:
            phi = sum(float(one.spread(there)[0]) for one in likelihoods) / statistics.df_resid
        exact = np.sqrt(phi * np.diag(Scaled(information).inverse))
        ratios["standard errors"] = float(np.abs(np.log(errors / exact)).max() / np.log(accuracy.standard_errors))
    return Verdict(float(result.distance), true, ratios)


class Scaled:
    """A positive definite matrix, divided by the roots of its diagonal, with its inverse."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.root = np.sqrt(np.diag(matrix))
        inner = matrix / self.root / self.root[:, None]
        self.matrix = inner
        self.condition = float(np.linalg.cond(inner))
        self.inner = np.linalg.inv(inner)

    @property
    def inverse(self) -> np.ndarray:
        return self.inner / self.root / self.root[:, None]

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        return np.asarray((self.inner.astype(Long) @ (gradient / self.root)) / self.root)

    def norm(self, e: np.ndarray) -> float:
        u = (e * self.root).astype(float)
        return float(np.sqrt(max(u @ self.matrix @ u, 0.0)))
