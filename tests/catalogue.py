"""The catalogue of functions as data: for every kind, a strategy that draws an instance and what is known of it.

Parameters (penalties, bounds, weights, targets) are multiples of 1/16, so kinks and ends of domains are exact in
floating point; points are such multiples, which do fall on kinks, or any float.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from hypothesis import note
from hypothesis import strategies as st

from glmesh.functions import (
    L1,
    L2,
    LOSSES,
    Box,
    ConjugateOf,
    ElasticNet,
    GroupLasso,
    Huber,
    HuberLoss,
    Logistic,
    LogisticDual,
    Loss,
    NonNegative,
    Profiled,
    Separable,
    SmoothedHingeLoss,
    Squared,
    SquaredHinge,
    Table,
)
from glmesh.types import Vector

Case = TypeVar("Case")

# --- numbers -------------------------------------------------------------------------------------------------

# An instance is drawn as one string of bytes, two per number: many times as fast as drawing lists of floats. A decoder
# makes numbers of pairs of bytes, the simplest of zeros.
Decoder = Callable[[np.ndarray], Vector]


def sixteenths(lo: float, hi: float) -> Decoder:
    """Multiples of 1/16 in [lo, hi]; zero, or the end next to it, is the simplest."""
    first, count = round(16 * lo), round(16 * (hi - lo)) + 1
    simplest = min(max(0, -first), count - 1)
    return lambda raw: (first + (raw + simplest) % count) / 16


def or_zero(decode: Decoder) -> Decoder:
    """One number in four is zero."""
    return lambda raw: np.where(raw % 4 == 0, 0.0, decode(raw // 4))


def points(raw: np.ndarray) -> Vector:
    """In [-9, 9]: on the grid of sixteenths, or off it by any fraction, or by very little; some are tiny."""
    grid, off = sixteenths(-8, 8)(raw % 257), raw // 257
    return np.select([off < 128, off < 240, off < 248], [grid, grid + off / 257, grid * (1 + 1e-9)], grid * 1e-200)


def labels(raw: np.ndarray) -> Vector:
    """1 or -1."""
    return np.where(raw % 2 == 0, 1.0, -1.0)


def fractions(raw: np.ndarray) -> Vector:
    """In [0, 1], either end included."""
    return np.select([raw % 4 == 0, raw % 8 == 1], [0.0, 1.0], raw / 65535)


targets = sixteenths(-4, 4)
steps = sixteenths(0.0625, 16)
penalties = sixteenths(0.0625, 4)
penalties_or_none = or_zero(penalties)
weights = penalties_or_none
lows, widths = sixteenths(-3, 2), sixteenths(0, 4)


class Numbers:
    """Numbers, read one after the other from a string of bytes."""

    def __init__(self, raw: bytes, *, aloud: bool = False) -> None:
        self._raw = np.frombuffer(raw, dtype="<u2").astype(np.int64)
        self._read = 0
        self._aloud = aloud

    def vector(self, n: int, decode: Decoder = points) -> Vector:
        """The next n numbers."""
        part = self._raw[self._read : self._read + n]
        assert len(part) == n, "an instance needs more bytes"
        self._read += n
        numbers = np.asarray(decode(part), dtype=np.float64)
        if self._aloud:
            note(numbers)
        return numbers

    def number(self, decode: Decoder = points) -> float:
        """The next number."""
        return float(self.vector(1, decode)[0])

    def below(self, n: int) -> int:
        """0, 1, ..., or n - 1."""
        return int(self.number(lambda raw: raw % n))

    def box(self, n: int | None = None, *, thin: bool = False) -> dict[str, Vector]:
        """lo < hi (lo <= hi if thin), one side in four infinite; a number each, or n of them."""
        size = 1 if n is None else n
        lo = self.vector(size, lows)
        hi = lo + self.vector(size, widths) + (0.0 if thin else 0.25)
        lo = np.where(self.vector(size, fractions) == 0, -np.inf, lo)
        hi = np.where(self.vector(size, fractions) == 0, np.inf, hi)
        return {"lo": lo, "hi": hi} if n is not None else {"lo": lo[0], "hi": hi[0]}


_PLENTY = 2 * 96  # bytes: the largest instance reads 1 + 7 * 8 numbers, the greediest test some 80


def drawn(build: Callable[[Numbers], Case]) -> st.SearchStrategy[Case]:
    """What `build` makes of random bytes."""
    return st.binary(min_size=_PLENTY, max_size=_PLENTY).map(lambda raw: build(Numbers(raw)))


numbers = st.binary(min_size=_PLENTY, max_size=_PLENTY).map(lambda raw: Numbers(raw, aloud=True))


# --- losses, from the textbook -------------------------------------------------------------------------------


def _huber(loss: HuberLoss, y: Vector, z: Vector) -> Vector:
    r = np.abs(z - y)
    return np.where(r <= loss.delta, r**2 / 2, loss.delta * r - loss.delta**2 / 2)


def _smoothed_hinge(loss: SmoothedHingeLoss, y: Vector, z: Vector) -> Vector:
    m, h = y * z, loss.width
    return np.where(m >= 1, 0.0, np.where(m <= 1 - h, 1 - m - h / 2, (1 - m) ** 2 / (2 * h)))


# loss(y, z) by name.
TEXTBOOK: dict[str, Callable[[Loss, Vector, Vector], Vector]] = {
    "squared": lambda loss, y, z: (z - y) ** 2 / 2,
    "logistic": lambda loss, y, z: np.log(1 + np.exp(-y * z)),
    "huber": _huber,
    "hinge": lambda loss, y, z: np.maximum(0, 1 - y * z),
    "squared_hinge": lambda loss, y, z: np.maximum(0, 1 - y * z) ** 2,
    "smoothed_hinge": _smoothed_hinge,
    "epsilon_insensitive": lambda loss, y, z: np.maximum(0, np.abs(z - y) - loss.epsilon),
    "squared_epsilon_insensitive": lambda loss, y, z: np.maximum(0, np.abs(z - y) - loss.epsilon) ** 2,
    "quantile": lambda loss, y, z: np.where(z < y, loss.quantile * (y - z), (1 - loss.quantile) * (z - y)),
}

_INF = np.inf
# (l1, l2, linear, lo, hi) of the dual of one sample with target y and weight c > 0, by name.
DUAL_ROWS: dict[str, Callable[[Loss, float, float], tuple[float, float, float, float, float]]] = {
    "hinge": lambda loss, y, c: (0, 0, -y, min(0, c * y), max(0, c * y)),
    "squared_hinge": lambda loss, y, c: (0, 1 / (2 * c), -y, 0 if y > 0 else -_INF, _INF if y > 0 else 0),
    "smoothed_hinge": lambda loss, y, c: (0, loss.width / c, -y, min(0, c * y), max(0, c * y)),
    "squared": lambda loss, y, c: (0, 1 / c, -y, -_INF, _INF),
    "huber": lambda loss, y, c: (0, 1 / c, -y, -c * loss.delta, c * loss.delta),
    "epsilon_insensitive": lambda loss, y, c: (loss.epsilon, 0, -y, -c, c),
    "squared_epsilon_insensitive": lambda loss, y, c: (loss.epsilon, 1 / (2 * c), -y, -_INF, _INF),
    "quantile": lambda loss, y, c: (0, 0, -y, -c * (1 - loss.quantile), c * loss.quantile),
}

_PARAMETERS: dict[str, Decoder] = {
    "huber": sixteenths(0.0625, 3),
    "smoothed_hinge": sixteenths(0.0625, 3),
    "epsilon_insensitive": sixteenths(0, 3),
    "squared_epsilon_insensitive": sixteenths(0, 3),
    "quantile": sixteenths(0.0625, 0.9375),
}


@dataclass(frozen=True)
class LossCase:
    """A loss, targets and weights for it."""

    loss: Loss
    y: Vector
    c: Vector

    def rows(self, z: Vector) -> Vector:
        """c loss(y, z), from the textbook."""
        return self.c * TEXTBOOK[self.loss.name](self.loss, self.y, z)


def _size(read: Numbers, n: int | None) -> int:
    return 1 + read.below(8) if n is None else n


def _loss_case(read: Numbers, name: str, n: int | None = None) -> LossCase:
    n = _size(read, n)
    parameters = [read.number(_PARAMETERS[name])] if name in _PARAMETERS else []
    loss = LOSSES[name](*parameters)
    return LossCase(loss, read.vector(n, labels if loss.classifies else targets), read.vector(n, weights))


LOSS_CASES: dict[str, st.SearchStrategy[LossCase]] = {
    name: drawn(lambda read, name=name: _loss_case(read, name)) for name in LOSSES
}


# --- smooth functions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class SmoothCase:
    """A smooth f of n numbers; f* is finite on [lo, hi] (given only if f is a sum over rows)."""

    f: Squared | Logistic | Huber | SquaredHinge | ConjugateOf | Profiled
    n: int
    steep: Vector | None = None  # a point where the curvature reaches 1/tau, if there is one
    rows: Callable[[Vector], Vector] | None = None  # f (or the f that is profiled) row by row, from the textbook
    lo: Vector | None = None
    hi: Vector | None = None

    def __repr__(self) -> str:
        return f"{type(self.f).__name__}({vars(getattr(self.f, 'f', self.f))}, {vars(self.f)})"


_ROW_LOSSES = {"squared": Squared, "logistic": Logistic, "huber": Huber, "squared_hinge": SquaredHinge}


def _row_loss(read: Numbers, name: str, weighted: bool, n: int | None = None) -> SmoothCase:
    case = _loss_case(read, name, n)
    if not weighted:
        case = LossCase(case.loss, case.y, np.ones_like(case.y))
    y, c, n = case.y, case.c, len(case.y)
    options = {"delta": case.loss.delta} if isinstance(case.loss, HuberLoss) else {}
    f = _ROW_LOSSES[name](y, c if weighted else None, **options)
    unbounded = np.where(c > 0, np.inf, 0.0)
    lo, hi, steep = {
        "squared": (-unbounded, unbounded, y),
        "logistic": (np.minimum(-c * y, 0.0), np.maximum(-c * y, 0.0), np.zeros(n)),
        "huber": (-c * options.get("delta", 0.0), c * options.get("delta", 0.0), y),
        "squared_hinge": (np.where(y > 0, -unbounded, 0.0), np.where(y > 0, 0.0, unbounded), -y),
    }[name]
    return SmoothCase(f, n, steep if c.any() else None, case.rows, lo, hi)


def _conjugate_of(read: Numbers, kind: str, n: int | None = None) -> SmoothCase:
    n = _size(read, n)
    l1, l2 = read.vector(2, penalties)
    penalty = {
        "l2": lambda: L2(l2),
        "elastic_net": lambda: ElasticNet(l1, l2),
        "elastic_net_box": lambda: ElasticNet(l1, l2, **read.box()),
        "non_negative": lambda: ElasticNet(read.number(penalties_or_none), l2, lo=0.0),
        "columns": lambda: Table(
            l1=read.vector(n, penalties_or_none),
            l2=read.vector(n, penalties),
            linear=read.vector(n, targets),
            **read.box(n),
        ),
    }[kind]()
    a1, a2, linear, lo, hi = penalty.kernel_rows(n).T

    def rows(v: Vector) -> Vector:
        """The largest of v w - r(w) over its stationary points on either side of zero and the ends of the box."""
        candidates = [(v - linear - a1) / a2, (v - linear + a1) / a2, np.zeros(n), lo, hi]
        candidates = [np.clip(np.clip(w, lo, hi), -1e6, 1e6) for w in candidates]
        return np.max([v * w - (a1 * np.abs(w) + a2 / 2 * w**2 + linear * w) for w in candidates], axis=0)

    near_lo, near_hi = np.maximum(lo, np.minimum(hi, 0) - 4), np.minimum(hi, np.maximum(lo, 0) + 4)
    w = near_lo + 0.75 * (near_hi - near_lo)
    w = np.where(w == 0, near_lo + 0.5 * (near_hi - near_lo), w)
    return SmoothCase(ConjugateOf(penalty), n, a2 * w + linear + a1 * np.sign(w), rows, lo, hi)


def _profiled(read: Numbers, name: str) -> SmoothCase:
    inner = _row_loss(read, name, weighted=read.below(2) == 0)
    direction = np.ones(inner.n) if read.below(2) == 0 else read.vector(inner.n, sixteenths(-2, 2))
    return SmoothCase(Profiled(inner.f, direction), inner.n, rows=inner.rows)


def _rowwise(n: int | None) -> dict[str, st.SearchStrategy[SmoothCase]]:
    losses = {
        name + suffix: drawn(lambda read, name=name, suffix=suffix: _row_loss(read, name, bool(suffix), n))
        for name in _ROW_LOSSES
        for suffix in ("", "_weighted")
    }
    conjugates = {
        f"conjugate_of_{kind}": drawn(lambda read, kind=kind: _conjugate_of(read, kind, n))
        for kind in ("l2", "elastic_net", "elastic_net_box", "non_negative", "columns")
    }
    return {**losses, **conjugates}


ROWWISE = _rowwise(None)
SINGLE_ROWS = _rowwise(1)
ROW_LOSSES = {kind: cases for kind, cases in ROWWISE.items() if not kind.startswith("conjugate")}
PROFILED: dict[str, st.SearchStrategy[SmoothCase]] = {
    f"profiled_{name}": drawn(lambda read, name=name: _profiled(read, name)) for name in _ROW_LOSSES
}
SMOOTH = {**ROWWISE, **PROFILED}


# --- separable functions -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeparableCase:
    """A separable g of n numbers, finite on [lo, hi]; g* is finite on [dual_lo, dual_hi] (a group's: on a ball)."""

    g: Separable
    n: int
    lo: Vector
    hi: Vector
    dual_lo: Vector
    dual_hi: Vector


def _table_case(g: Table, n: int) -> SeparableCase:
    l1, l2, linear, lo, hi = g.kernel_rows(n).T
    dual_lo = np.where((l2 == 0) & (lo == -np.inf), linear - l1, -np.inf)
    dual_hi = np.where((l2 == 0) & (hi == np.inf), linear + l1, np.inf)
    return SeparableCase(g, n, lo, hi, dual_lo, dual_hi)


_TABLES: dict[str, Callable[[Numbers, int], Table]] = {
    "zero": lambda read, n: Table(),
    "l1": lambda read, n: L1(read.number(penalties)),
    "l2": lambda read, n: L2(read.number(penalties)),
    "elastic_net": lambda read, n: ElasticNet(*read.vector(2, penalties)),
    "box": lambda read, n: Box(**read.box(thin=True)),
    "non_negative": lambda read, n: NonNegative(),
    "l1_box": lambda read, n: L1(read.number(penalties), **read.box(thin=True)),
    "l2_box": lambda read, n: L2(read.number(penalties), **read.box(thin=True)),
    "elastic_net_box": lambda read, n: ElasticNet(*read.vector(2, penalties), **read.box(thin=True)),
    "l1_non_negative": lambda read, n: L1(read.number(penalties), lo=0.0),
    "l2_non_negative": lambda read, n: L2(read.number(penalties), lo=0.0),
    "elastic_net_non_negative": lambda read, n: ElasticNet(*read.vector(2, penalties), lo=0.0),
    "l1_columns": lambda read, n: L1(read.vector(n, penalties_or_none)),
    "l2_columns": lambda read, n: L2(read.vector(n, penalties_or_none)),
    "box_columns": lambda read, n: Box(**read.box(n, thin=True)),
    "table_columns": lambda read, n: Table(
        l1=read.vector(n, penalties_or_none),
        l2=read.vector(n, penalties_or_none),
        linear=read.vector(n, or_zero(targets)),
        **read.box(n, thin=True),
    ),
    "table_mixed": lambda read, n: Table(
        l1=read.number(penalties_or_none),
        l2=read.vector(n, penalties_or_none),
        linear=read.number(targets),
        lo=read.box(n)["lo"],
    ),
}


def _table(read: Numbers, kind: str) -> SeparableCase:
    n = _size(read, None)
    return _table_case(_TABLES[kind](read, n), n)


def _logistic_case(g: LogisticDual) -> SeparableCase:
    n, end = len(g.y), g.y * g.c
    return SeparableCase(g, n, np.minimum(end, 0.0), np.maximum(end, 0.0), np.full(n, -np.inf), np.full(n, np.inf))


def _dual(read: Numbers, name: str) -> SeparableCase:
    case = _loss_case(read, name)
    g = case.loss.dual(case.y, case.c)
    return _logistic_case(g) if isinstance(g, LogisticDual) else _table_case(g, len(case.y))


def _group_lasso(read: Numbers) -> SeparableCase:
    n = _size(read, None)
    groups = read.vector(n, lambda raw: raw % 5 - 1).astype(np.int64)
    if read.below(2) == 0:
        weight = np.asarray(read.number(penalties_or_none))
    else:
        weight = read.vector(len(np.unique(groups)), penalties_or_none)
    inf = np.full(n, np.inf)
    g = GroupLasso(groups, weight)
    reach = g.weights[np.unique(groups, return_inverse=True)[1]]
    return SeparableCase(g, n, -inf, inf, -reach, reach)


TABLES: dict[str, st.SearchStrategy[SeparableCase]] = {
    kind: drawn(lambda read, kind=kind: _table(read, kind)) for kind in _TABLES
}
DUALS: dict[str, st.SearchStrategy[SeparableCase]] = {
    f"dual_{name}": drawn(lambda read, name=name: _dual(read, name)) for name in LOSSES
}
COLUMNWISE = {**TABLES, **DUALS}
GROUPS: dict[str, st.SearchStrategy[SeparableCase]] = {"group_lasso": drawn(_group_lasso)}
SEPARABLE = {**COLUMNWISE, **GROUPS}
