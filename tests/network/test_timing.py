"""The virtual clock of a network, and seconds without one."""

import numpy as np
import pytest

from glmesh import Cola, Network, Run
from glmesh.errors import InvalidInput
from tests.scenes import PROBLEMS, advance

FAR = 1e30  # faster than anything that matters


def clocked(network, rounds=10, **options):
    options = {"n_nodes": 6, "partition": "contiguous", "method": Cola.printed(), **options}
    return advance(Run(PROBLEMS["lasso"](), network=network, **options), rounds)


def test_the_virtual_clock():
    latency = clocked(Network(latency=0.5, bandwidth=FAR, nonzeros_per_second=FAR))
    assert latency.seconds == pytest.approx(10 * 0.5)
    gossip = clocked(Network(latency=0.5, bandwidth=FAR, nonzeros_per_second=FAR), method=Cola(gossip_steps=3))
    assert gossip.seconds == pytest.approx(30 * 0.5)
    # a message of 240 bytes to each of two neighbours, one after the other
    bandwidth = clocked(Network(latency=0.0, bandwidth=240.0, nonzeros_per_second=FAR))
    assert bandwidth.seconds == pytest.approx(10 * 2)
    # on a star the hub sends five, and everybody waits for it
    star = clocked(Network(latency=0.0, bandwidth=240.0, nonzeros_per_second=FAR), topology="star")
    assert star.seconds == pytest.approx(10 * 5)
    alone = clocked(Network(latency=9.0, bandwidth=1.0, nonzeros_per_second=FAR), n_nodes=1)
    assert alone.seconds == pytest.approx(0.0, abs=1e-9)


def test_a_slow_node_delays_its_neighbours_first():
    speeds = np.full(6, FAR)
    speeds[0] = 1.0  # a nonzero a second; it holds 4 columns of 30
    run = clocked(Network(latency=0.0, bandwidth=FAR, nonzeros_per_second=speeds), rounds=1)
    work = run.states[0].visited[0]
    assert 0 < work <= 120
    times = run.exchange.clock.times
    assert times[0] == run.seconds == pytest.approx(work)
    np.testing.assert_allclose(times[1:], 0.0, atol=1e-9)
    advance(run, 1)
    times = run.exchange.clock.times  # on a ring its neighbours have waited, nobody else has heard of it
    np.testing.assert_allclose(times[[1, 5]], work)
    np.testing.assert_allclose(times[2:5], 0.0, atol=1e-9)
    assert times[0] > work


def test_without_a_network_seconds_are_on_the_wall():
    run = Run(PROBLEMS["lasso"](), n_nodes=4)
    assert run.seconds == 0.0
    seen = [advance(run, 2).seconds for _ in range(5)]
    assert all(a < b for a, b in zip([0.0, *seen], seen, strict=False))
    assert seen[-1] < 5.0


@pytest.mark.parametrize(
    "options", [{"latency": -1.0}, {"latency": np.nan}, {"bandwidth": 0.0}, {"nonzeros_per_second": [1.0, 0.0]}]
)
def test_bad_networks_are_refused(options):
    with pytest.raises(InvalidInput, match="latency >= 0, bandwidth > 0 and nonzeros_per_second > 0"):
        Network(**options)
