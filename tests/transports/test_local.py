"""Exchanges within one process: communications and bytes."""

import numpy as np
import pytest

from glmesh import Cola, Run
from tests.scenes import PROBLEMS, advance


@pytest.mark.parametrize(("network", "edges"), [("ring", 12), ("complete", 30), ("star", 10), ("path", 10)])
@pytest.mark.parametrize("steps", [1, 3])
def test_communications_and_bytes(network, edges, steps):
    run = Run(PROBLEMS["lasso"](), n_nodes=6, topology=network, method=Cola(gossip_steps=steps, acceleration="none"))
    assert (run.communications, run.bytes) == (0, 0)
    advance(run, 7)
    assert run.communications == 7 * steps
    assert run.bytes == 7 * steps * edges * 30 * 8


def test_certificates_ride_along():
    """Records cost bytes but no communication."""
    method = Cola(acceleration="momentum")
    runs = [advance(Run(PROBLEMS["lasso"](), n_nodes=6, method=method, certify=yes), 30) for yes in (False, True)]
    assert runs[0].communications == runs[1].communications == 30
    assert runs[0].bytes < runs[1].bytes < 2 * runs[0].bytes
    assert np.array_equal(runs[0].x, runs[1].x)
    alone = advance(Run(PROBLEMS["lasso"](), n_nodes=1, certify=True), 5)
    assert alone.bytes == 0
    assert alone.certificate is not None
