"""Pooled data for tests of separation: random cases, a linear program that judges, and a damped Newton's method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.special import expit

from glmesh.core.totals import Sums, Total, add_up
from glmesh.methods.totals.likelihood.cone import CLASSES, COUNTS, SHARES, Cone, cone_rows
from glmesh.methods.totals.likelihood.cone_sums import ConeQuery, contribute
from glmesh.methods.totals.likelihood.separation import Separation


@dataclass
class Case:
    targets: str
    X: np.ndarray  # (m, p)
    y: np.ndarray  # (m,)
    q: int = 1

    def cones(self, n_nodes: int = 1) -> list[Cone]:
        """The cone's rows of each of some unequal nodes."""
        ends = (len(self.y) * np.linspace(0.0, 1.0, n_nodes + 1) ** 2).astype(int)
        parts = [slice(a, b) for a, b in pairwise(ends)]
        return [cone_rows(self.targets, self.X[s], self.y[s], np.ones(len(self.y[s])), self.q) for s in parts]


def dense_rows(cone: Cone) -> tuple[np.ndarray, np.ndarray]:
    """(inequalities, equalities) of a cone as matrices of d columns."""
    parts = {False: [np.zeros((0, cone.d))], True: [np.zeros((0, cone.d))]}
    for group in cone.groups:
        parts[group.equal] += [
            products[:, n] for products in group.products(np.eye(cone.d)) for n in range(products.shape[1])
        ]
    return np.vstack(parts[False]), np.vstack(parts[True])


def separated(case: Case) -> bool:
    """Whether a linear program finds a direction: it maximises the sum of the products, each cut at 1."""
    A, E = dense_rows(case.cones()[0])
    size = np.abs(np.vstack([A, E])).max(axis=0)
    A, E = A / np.where(size > 0, size, 1.0), E / np.where(size > 0, size, 1.0)
    n, d = A.shape
    if not n:
        return False
    upper = sp.hstack([sp.csr_array(-A), sp.eye_array(n)])
    equal = sp.hstack([sp.csr_array(E), sp.csr_array((len(E), n))]) if len(E) else None
    bounds = [(None, None)] * d + [(0.0, 1.0)] * n
    cost = np.concatenate([np.zeros(d), -np.ones(n)])
    found = linprog(
        cost, A_ub=upper, b_ub=np.zeros(n), A_eq=equal, b_eq=None if equal is None else np.zeros(len(E)), bounds=bounds
    )
    assert found.status == 0, found.message
    largest = found.x[d:].max()  # 1 where there is a direction, which may be as long as one likes
    assert not 1e-2 < largest < 0.99, f"the linear program says {largest}"
    return bool(largest > 0.5)


class Loss:
    """Loss, gradient, Hessian and the largest length of a row (R) of a case in scaled columns with an intercept."""

    def __init__(self, case: Case, scale: np.ndarray) -> None:
        self.case = case
        self.X = np.hstack([case.X, np.ones((len(case.y), 1))]) / scale[: case.X.shape[1] + 1]
        self.classes = np.eye(case.q)[case.y.astype(int)] if case.targets == CLASSES else None

    def predictors(self, w: np.ndarray) -> np.ndarray:
        return self.X @ w.reshape(self.case.q, -1).T

    def value(self, w: np.ndarray) -> float:
        z, y = self.predictors(w), self.case.y
        if self.classes is not None:
            return float((_normaliser(z) - (z * self.classes).sum(axis=1)).sum())
        z = z[:, 0]
        if self.case.targets == COUNTS:
            with np.errstate(over="ignore"):
                return float((np.exp(z) - y * z).sum())
        return float((np.logaddexp(0.0, z) - y * z).sum())

    def derivatives(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z, y, X = self.predictors(w), self.case.y, self.X
        if self.classes is not None:
            p = np.exp(z - _normaliser(z)[:, None])
            blocks = [
                [(X * (p[:, a] * ((a == b) - p[:, b]))[:, None]).T @ X for b in range(self.case.q)]
                for a in range(self.case.q)
            ]
            return ((p - self.classes).T @ X).ravel(), np.block(blocks)
        z = z[:, 0]
        if self.case.targets == COUNTS:
            mu = h = np.exp(z)
        else:
            mu = expit(z)
            h = mu * expit(-z)
        return X.T @ (mu - y), (X * h[:, None]).T @ X

    def longest(self, inverse: np.ndarray) -> float:
        """max_i |row_i| in the norm of H^-1; for classes, of every difference of two of them."""
        if self.classes is None:
            return float(np.sqrt(np.einsum("ij,jk,ik->i", self.X, inverse, self.X).max()))
        q, p = self.case.q, self.X.shape[1]
        largest = 0.0
        for a in range(q):
            for b in range(a):
                c = np.zeros(q)
                c[a], c[b] = 1.0, -1.0
                T = np.kron(c[:, None], np.eye(p))
                largest = max(largest, np.einsum("ij,jk,ik->i", self.X, T.T @ inverse @ T, self.X).max())
        return float(np.sqrt(largest))


def _normaliser(z: np.ndarray) -> np.ndarray:
    top = z.max(axis=1)
    return np.asarray(top + np.log(np.exp(z - top[:, None]).sum(axis=1)))


def scales(case: Case) -> np.ndarray:
    """Powers of two near the columns' norms, for every linear predictor."""
    norms = np.sqrt((np.hstack([case.X, np.ones((len(case.y), 1))]) ** 2).sum(axis=0))
    return np.tile(2.0 ** np.ceil(np.log2(np.where(norms > 0, norms, 1.0))), case.q)


Among = Callable[[list[ConeQuery]], list[ConeQuery]]


def total(cones: list[Cone], questions: list[ConeQuery]) -> Sums:
    """The total over all nodes, each in a block of its own, of what each contributes to its question."""
    each = [
        {name: field[None] for name, field in contribute(cone, question).items()}
        for cone, question in zip(cones, questions, strict=True)
    ]
    return add_up(
        [Total(fields) for fields in each],
        len(cones),
        lambda rows: sum(one.sum(axis=0) for one in rows),  # type: ignore[arg-type, return-value]
        lambda exponents: np.vstack(exponents).max(axis=0),  # type: ignore[arg-type]
    )


def fit(
    case: Case, n_nodes: int = 1, most: int = 80, free: np.ndarray | None = None, among: Among = list
) -> tuple[Separation, int]:
    """Damped Newton's method from 0 on pooled data, which feeds a Separation; returns it and the number of totals.

    Coordinates that are not `free` stay at 1, the intercept at 0. `among` changes what nodes are asked.
    """
    cones, scale = case.cones(n_nodes), scales(case)
    free = np.ones(len(scale), dtype=bool) if free is None else free
    loss, known = Loss(case, scale), Separation(scale, free)
    range_of = _range(case, free)
    w = np.where(free, 0.0, scale)
    w[-1] = 0.0
    if case.targets == COUNTS and case.y.any():
        w[-1] = scale[-1] * np.log(case.y.mean())
    for rounds in range(1, most + 1):
        gradient, hessian = loss.derivatives(w)
        inner = range_of.T @ hessian @ range_of
        values, vectors = np.linalg.eigh(inner)
        pulls = vectors.T @ (range_of.T @ gradient)
        floor = max(1e-15 * values[-1], 1e-300)
        step = -range_of @ (vectors @ (pulls / np.maximum(values, floor)))
        if values[0] > 1e-14 * values[-1]:
            inverse = (range_of @ vectors / values) @ (range_of @ vectors).T
            x = loss.longest(inverse) * float(np.sqrt((pulls**2 / values).sum()))
            known = known.proven(x)
        question = known.query(w, hessian)
        known = known.learn(question, {} if question is None else total(cones, among([question] * n_nodes)))
        if known.verdict != "undecided":
            return known, rounds
        length, value = 1.0, loss.value(w)
        while length > 1e-12 and not loss.value(w + length * step) <= value + 1e-4 * length * float(gradient @ step):
            length *= 0.5
        if length > 1e-12:
            w = w + length * step
    return known, most


def _range(case: Case, free: np.ndarray) -> np.ndarray:
    """Free directions, orthonormal in the metric of equal weights, that some row's loss depends on."""
    gram = sum(group.gram() for group in case.cones()[0].groups) / np.outer(*(2 * [scales(case)]))
    values, vectors = np.linalg.eigh(gram * np.outer(free, free))
    kept = values > 1e-12 * values[-1]
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


# cases


def draw(rng: np.random.Generator, targets: str, most: tuple[int, int] = (120, 5)) -> Case:
    """A random case with at most so many (rows, columns): indicators, whole numbers and continuous columns.

    It is separated, completely or in part, or not, or all but separated.
    """
    m, p = int(rng.integers(12, most[0])), int(rng.integers(1, most[1] + 1))
    q = int(rng.integers(3, 5)) if targets == CLASSES else 1
    X = np.column_stack([_column(rng, m) for _ in range(p)])
    if targets == CLASSES:
        y = (X @ rng.normal(size=(p, q)) + 2.0 * rng.gumbel(size=(m, q))).argmax(axis=1).astype(float)
    elif targets == COUNTS:
        y = rng.poisson(np.exp(np.clip(0.3 * _unit(X) @ rng.normal(size=p) + rng.normal(0.0, 0.7), -5, 3))).astype(
            float
        )
    else:
        y = (_unit(X) @ rng.normal(size=p) + rng.logistic(size=m) > rng.normal()).astype(float)
    kinds = ("plain", "plain", "complete", "quasi", "cell", "nested", "near", "near")
    X, y = _shaped(rng, str(rng.choice(kinds)), Case(targets, X, y, q))
    return Case(targets, X * 10.0 ** rng.integers(-5, 6, size=X.shape[1]) if rng.random() < 0.4 else X, y, q)


def _unit(X: np.ndarray) -> np.ndarray:
    size = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(size > 0, size, 1.0)


def _column(rng: np.random.Generator, m: int) -> np.ndarray:
    made = rng.integers(4)
    if made == 0:
        return (rng.random(m) < rng.uniform(0.1, 0.6)).astype(float)
    if made == 1:
        return rng.integers(0, 5, size=m).astype(float)
    return rng.normal(size=m) if made == 2 else rng.lognormal(size=m)


def _shaped(rng: np.random.Generator, shape: str, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Columns and targets of a case with the shape that is asked for; a linear program says what it has become."""
    X, y, m = case.X, case.y, len(case.y)
    score = _unit(X) @ rng.normal(size=X.shape[1])
    above = score > np.quantile(score, rng.uniform(0.3, 0.7))
    if shape in ("complete", "near"):
        y = _told(rng, case, above, np.ones(m, dtype=bool))
    if shape == "near" and 0 < above.sum() < m:  # a row on either side goes over by 1e-3 to 0.3 standard deviations
        top, bottom = np.flatnonzero(above), np.flatnonzero(~above)
        i, j = top[np.argmin(score[top])], bottom[np.argmax(score[bottom])]
        across = (X[i] - X[j]) / np.linalg.norm(_unit(X)[i] - _unit(X)[j])
        across *= 10.0 ** -rng.uniform(0.5, 3.0)
        X = np.vstack([X, X[i] + across, X[j] - across])
        y = np.concatenate([y, [y[j], y[i]]])
    if shape in ("quasi", "nested", "cell"):
        cell = rng.random(m) < rng.uniform(0.15, 0.5)
        y = _told(rng, case, np.ones(m, dtype=bool), cell)
        X = np.column_stack([X, cell.astype(float)])
        if shape == "nested":
            other = (rng.random(m) < 0.4) & ~cell
            y = np.where(cell, y, _told(rng, Case(case.targets, X, y, case.q), np.zeros(m, dtype=bool), other))
            X = np.column_stack([X, other.astype(float)])
        if shape == "cell" and rng.random() < 0.5:  # a row that fills the cell
            i = rng.choice(np.flatnonzero(cell)) if cell.any() else 0
            X, y = np.vstack([X, X[i]]), np.append(y, 1.0 if case.targets == COUNTS else (y[i] + 1) % max(case.q, 2))
        if rng.random() < 0.3:  # levels of a factor, of which one depends on the others and the intercept
            X = np.column_stack([X, 1.0 - X[:, case.X.shape[1] :].sum(axis=1)])
    return X, y


def _told(rng: np.random.Generator, case: Case, above: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Targets that the sign `above` tells apart in the rows `where`: class 0 and others, 1 and 0, 0 and any count."""
    if case.targets == SHARES:
        told = above.astype(float)
    elif case.targets == COUNTS:
        told = np.where(above, 0.0, case.y)
    else:
        told = np.where(above, 0.0, rng.integers(1, case.q, size=len(above)).astype(float))
    return np.where(where, told, case.y)
