"""What totals over columns give away: nothing of one site on the wire, and of all sites what docs/peers.md says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_breast_cancer

from glmesh.federation.totals.masks import EDGES, MaskKey
from glmesh.federation.totals.messages import unpack
from glmesh.federation.wire import Kind, links
from glmesh.types import Matrix, Unsigned
from tests.columns import together
from tests.federation.node.test_columns import NAMES, federate

N = 150  # rows
OWN = 6  # columns of a site


def data() -> tuple[Matrix, Matrix]:
    X, y = load_breast_cancer(return_X_y=True)
    chosen = X[:N, : 3 * OWN]
    return (chosen - chosen.mean(axis=0)) / chosen.std(axis=0), y[:N].astype(float)


def outside(space: Matrix, columns: Matrix) -> float:
    """The largest part of a column that is not in the span of the rows of `space`."""
    basis, _ = np.linalg.qr((space / np.linalg.norm(space, axis=1)[:, None]).T)
    left = columns - basis @ (basis.T @ columns)
    return float((np.linalg.norm(left, axis=0) / np.linalg.norm(columns, axis=0)).max())


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The contents of all messages with totals that nodes of this process send."""
    found: list[bytes] = []
    genuine = links.frames

    def frames(kind: Kind, number: int, content: Any) -> Iterator[bytes]:
        if kind is Kind.TOTALS:
            found.append(content if isinstance(content, bytes) else b"".join(content))
        return genuine(kind, number, content)

    monkeypatch.setattr(links, "frames", frames)
    return found


def contributions(sent: list[bytes], author: int) -> Matrix:
    """What all can read of a site's contributions that have a number per row, as numbers, a row per total."""
    parts = {}
    for content in sent:
        for part in unpack(content, len(NAMES)).parts:
            if part.author == author and N <= len(part.body) // 8 < EDGES:  # a maximum has so many numbers or more
                parts[part.request] = np.frombuffer(part.body, dtype="<i8")[:N].astype(float)
    return np.array(list(parts.values()))


@pytest.mark.waits
@pytest.mark.parametrize("masked", [True, False])
def test_the_space_of_a_sites_columns_cannot_be_read_from_its_contributions(
    masked: bool, sent: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control leaves the masks away: then as many contributions as a site has columns give their space."""
    if not masked:

        def nothing(self: MaskKey, me: int, publics: Any, name: bytes, length: int) -> Unsigned:
            return np.zeros(length, dtype=np.uint64)

        monkeypatch.setattr(MaskKey, "mask", nothing)
    X, y = data()
    made = federate(tmp_path, X, y, (OWN, OWN, OWN), problem={"loss": "logistic", "alpha": 1.0})
    made.run()
    assert made.errors == {}
    for k in range(3):
        read, own = contributions(sent, k), X[:, OWN * k : OWN * (k + 1)]
        assert len(read) >= OWN
        if masked:
            assert outside(read, own) > 0.5
        else:
            assert outside(read[: OWN + 1], own) < 1e-6


def test_totals_give_the_space_of_the_others_columns_once_they_are_as_many_and_not_before() -> None:
    X, y = data()
    parts = [X[:, OWN * k : OWN * (k + 1)] for k in range(3)]
    made = together(parts, np.where(y > 0, 1.0, -1.0), tol=1e-10, loss="logistic", alpha=0.1)
    sums, others = made.products(1) + made.products(2), np.hstack(parts[1:])  # the first site knows its own part
    hidden = 2 * OWN
    assert len(sums) > hidden
    assert outside(sums[: hidden - 1], others) > 1e-4
    assert outside(sums[:hidden], others) < 1e-8
    known = hidden + 2  # rows of which the attacker knows all values
    for n_totals, found in ((hidden - 1, False), (hidden, True)):
        basis = np.linalg.svd(sums[:n_totals] / np.linalg.norm(sums[:n_totals], axis=1)[:, None])[2][:n_totals].T
        guessed = basis @ np.linalg.lstsq(basis[:known], others[:known], rcond=None)[0]
        assert (abs(guessed - others).max() < 1e-6) == found


def test_columns_of_0_and_1_can_be_read_off_that_space() -> None:
    """So such a column with few rows of one value is refused at the site, as among rows."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(N, 4)) for _ in range(3)]
    parts[1][:, 0] = rng.random(N) < 0.3
    y = np.where(sum(X @ rng.normal(size=4) for X in parts) + rng.normal(size=N) > 0, 1.0, -1.0)
    made = together(parts, y, tol=1e-10, loss="logistic", alpha=0.1, fit_intercept=True)
    sums = made.products(1) + made.products(2)
    basis = np.linalg.svd(sums / np.linalg.norm(sums, axis=1)[:, None])[2][:8].T
    rows = scipy.linalg.qr(basis.T, pivoting=True)[2][:8]
    inverse = np.linalg.inv(basis[rows])
    guesses = (basis @ inverse @ np.array(bits) for bits in itertools.product((0.0, 1.0), repeat=8) if any(bits))
    found = [one for one in guesses if np.minimum(abs(one), abs(one - 1.0)).max() < 1e-5]
    assert len(found) == 1
    np.testing.assert_allclose(found[0], parts[1][:, 0], atol=1e-5)
