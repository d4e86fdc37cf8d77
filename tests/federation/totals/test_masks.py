"""Masks cancel in the sum and hide everything else; maxima come out of sums of random words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from glmesh.core.totals import NOTHING
from glmesh.federation.totals.masks import EDGES, LOWEST, MaskKey, edges_below, largest_edges
from glmesh.federation.totals.names import TotalName, digest
from glmesh.types import Unsigned
from tests.cases import prop

NAME = digest("a total")


def keys(n: int, seed: int = 0) -> list[MaskKey]:
    rng = np.random.default_rng(seed)
    return [MaskKey(rng.bytes(32)) for _ in range(n)]


def publics(of: list[MaskKey]) -> dict[int, bytes]:
    return {member: key.public for member, key in enumerate(of)}


def masked(of: list[MaskKey], rows: Unsigned, name: bytes = NAME) -> Unsigned:
    """What each member sends, shape (K, N)."""
    all_keys = publics(of)
    return np.stack(
        [row + key.mask(k, all_keys, name, len(row)) for k, (key, row) in enumerate(zip(of, rows, strict=True))]
    )


@prop(100)
@given(st.integers(2, 8), st.integers(0, 40), st.integers(0, 2**32))
def test_the_sum_has_the_same_bits_with_and_without_masks(n: int, length: int, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 2**64, (n, length), dtype=np.uint64)
    np.testing.assert_array_equal(masked(keys(n, seed), rows).sum(axis=0), rows.sum(axis=0))


def held_by_colluders(rows: Unsigned, *, masks: bool) -> Unsigned:
    """What K - 2 members together know of one of the two others: what it sent, less their masks."""
    of = keys(len(rows))
    sent = masked(of, rows) if masks else rows
    victim = sent[0].copy()
    for colluder in range(2, len(rows)):
        pair = {0: of[0].public, colluder: of[colluder].public}
        if masks:
            victim += of[colluder].mask(colluder, pair, NAME, rows.shape[1])  # cancels the stream of this pair
    return victim


@pytest.mark.parametrize("masks", [True, False])
def test_what_all_but_two_members_hold_of_a_contribution_is_random(masks: bool) -> None:
    rows = np.random.default_rng(1).integers(0, 1 << 40, (5, 20_000), dtype=np.uint64)
    words = held_by_colluders(rows, masks=masks)
    octets = words.view(np.uint8)
    counts = np.bincount(octets, minlength=256)
    p_counts = stats.chisquare(counts).pvalue
    p_uniform = stats.kstest(words / 2.0**64, "uniform").pvalue
    p_pairs = stats.chisquare(np.bincount(octets[:-1] // 16 * 16 + octets[1:] // 16, minlength=256)).pvalue
    assert (min(p_counts, p_uniform, p_pairs) > 1e-4) == masks


def test_colluders_that_take_off_their_masks_leave_one_stream_of_the_two_others() -> None:
    rows = np.random.default_rng(1).integers(0, 1 << 40, (5, 10), dtype=np.uint64)
    of = keys(5)
    left = held_by_colluders(rows, masks=True) - rows[0]
    pair = {0: of[0].public, 1: of[1].public}
    np.testing.assert_array_equal(left, of[0].mask(0, pair, NAME, 10))


def test_another_name_has_another_stream_and_the_same_name_the_same() -> None:
    of = keys(3)
    one, same, other = (of[0].mask(0, publics(of), name, 8) for name in (NAME, NAME, digest("another")))
    np.testing.assert_array_equal(one, same)
    assert not np.isin(one, other).any()


def test_every_part_of_a_name_changes_it() -> None:
    name = TotalName("f", 1, 1, "v", "k", "r")
    others = [
        TotalName("g", 1, 1, "v", "k", "r"),
        TotalName("f", 2, 1, "v", "k", "r"),
        TotalName("f", 1, 2, "v", "k", "r"),
        TotalName("f", 1, 1, "w", "k", "r"),
        TotalName("f", 1, 1, "v", "l", "r"),
        TotalName("f", 1, 1, "v", "k", "s"),
        TotalName("f1", 1, 1, "v", "k", "r"),
        TotalName("f", 1, 1, "vk", "", "r"),
    ]
    assert len({one.digest for one in [name, *others]}) == len(others) + 1


exponents = st.lists(st.one_of(st.integers(LOWEST, LOWEST + EDGES - 1), st.just(NOTHING)), min_size=3, max_size=3)


@prop(100)
@given(st.lists(exponents, min_size=2, max_size=6), st.integers(0, 2**32))
def test_maxima_come_out_of_masked_sums_and_equal_those_of_the_numbers(numbers: list[list[int]], seed: int) -> None:
    of = keys(len(numbers), seed)
    rows = np.stack(
        [edges_below(np.array(one)) * key.words(NAME, 3 * EDGES) for key, one in zip(of, numbers, strict=True)]
    )
    total = masked(of, rows).sum(axis=0)
    np.testing.assert_array_equal(largest_edges(total), np.max(numbers, axis=0))


def test_exponents_beyond_the_edges_are_cut_to_the_last() -> None:
    marks = edges_below(np.array([LOWEST - 5, LOWEST + EDGES + 5]))
    np.testing.assert_array_equal(largest_edges(marks), [LOWEST, LOWEST + EDGES - 1])
