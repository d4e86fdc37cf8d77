"""Exact sums of vectors, by flooding and along the spanning tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh.collectives.flood import flood_sum
from glmesh.collectives.tree import tree_sum
from glmesh.core.messages import Halo, Rounds
from glmesh.transports import LocalTransport
from tests.cases import prop
from tests.collectives.test_flood import TOPOLOGIES, run_on


def drive(sums: list[Rounds], transport: LocalTransport) -> list[Any]:
    """What the generators of all blocks return."""
    halos: list[Halo | None] = [None] * len(sums)
    while True:
        outboxes, returned = [], []
        for one, halo in zip(sums, halos, strict=True):
            try:
                outboxes.append(one.send(halo))  # type: ignore[arg-type]
            except StopIteration as end:
                returned.append(end.value)
        if returned:
            return returned
        halos = list(transport.exchange(outboxes))


@pytest.mark.parametrize("way", [flood_sum, tree_sum])
@prop(60)
@given(st.sampled_from(TOPOLOGIES), st.integers(1, 20), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_all_blocks_get_the_sum_with_the_same_bits(
    way: Callable[..., Rounds], name: str, n_nodes: int, jobs: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors, numbers = rng.normal(size=(n_nodes, 7)), rng.normal(size=(n_nodes, 2))
    found = []
    for n_blocks in {1, min(jobs, n_nodes)}:
        run = run_on(name, n_nodes, n_blocks)
        own = [block.ids.astype(int) for block in run.blocks]
        sums = [way(b, 3, vectors[ids].copy(), numbers[ids].copy()) for b, ids in zip(run.blocks, own, strict=True)]
        found += drive(sums, run.exchange)
        info = run.blocks[0].info
        assert run.communications == (max(info.diameter, 1) if way is flood_sum else 2 * info.depth)
        run.close()
    for vector, number in found:
        np.testing.assert_allclose(vector, vectors.sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(number, numbers.sum(axis=0), atol=1e-12)
        assert np.array_equal(vector, found[0][0])
