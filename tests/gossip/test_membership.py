"""Views of the members: counters that only grow, and what they say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glmesh.gossip.membership import MembershipView
from tests.cases import prop

counts = st.lists(st.integers(0, 9), min_size=5, max_size=5).map(np.array)


def test_a_counter_says_who_is_a_member_and_who_has_left() -> None:
    view = MembershipView(np.array([1, 0, 2, 3]))
    assert view.members() == [0, 3]
    assert view.n_members == 2
    assert [view.is_member(k) for k in range(4)] == [True, False, False, True]
    assert [view.has_left(k) for k in range(4)] == [False, False, True, False]
    assert view.with_count(1, 1).members() == [0, 1, 3]
    assert view.members() == [0, 3]


@prop(200)
@given(counts, counts, counts)
def test_views_merge_to_one_in_any_order(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    one = MembershipView(a).merged(b).merged(c)
    other = MembershipView(c).merged(a).merged(b)
    assert np.array_equal(one.counts, np.maximum(np.maximum(a, b), c))
    assert one.digest == other.digest
    assert one.merged(a) is one
    assert (MembershipView(a).digest == MembershipView(b).digest) == np.array_equal(a, b)
