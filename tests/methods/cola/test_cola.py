"""Options of CoLA: never altered by a run, per node, and refused with a reason."""

from dataclasses import replace

import numpy as np
import pytest

from glmesh import Cocoa, Cola, Run, solve
from glmesh.errors import InvalidInput
from glmesh.solvers import CoordinateDescent
from tests.scenes import PROBLEMS, advance


def test_a_method_is_never_altered():
    method = Cola(local_passes=2)
    solve(PROBLEMS["lasso"](), method=method, n_nodes=4, max_rounds=5)
    assert method == Cola(local_passes=2)
    with pytest.raises(AttributeError):
        method.gamma = 0.5
    assert Cola.printed() == Cola(
        gamma=1.0,
        sigma=None,
        local_passes=1,
        local_accuracy=None,
        gossip_steps=1,
        acceleration="none",
        curvature="scalar",
        solver=CoordinateDescent("cyclic"),
    )


def test_passes_and_theta_per_node():
    method = Cola(local_passes=[0, 1, 50], local_accuracy=[0.5, 0.5, 0.01])
    run = Run(PROBLEMS["lasso"](), method=method, n_nodes=3)
    start = run.x
    next(run)
    theta = run.theta
    assert theta[0] == 1.0  # stood still
    assert theta[2] <= 0.01
    assert 0.0 <= theta[1] <= 1.0
    assert np.array_equal(run.x[run.partition.columns_of(0)], start[run.partition.columns_of(0)])
    assert np.isnan(advance(Run(PROBLEMS["lasso"](), n_nodes=3), 1).theta).all()  # none was asked for


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.0}, r"gamma must be in \(0, 1\], got 0.0"),
        ({"gamma": 1.5}, r"gamma must be in \(0, 1\]"),
        ({"gamma": np.nan}, r"gamma must be in \(0, 1\]"),
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"sigma": np.inf}, "sigma must be positive and finite"),
        ({"local_passes": -1}, "local_passes must be whole numbers >= 0"),
        ({"local_passes": 0}, "not all 0"),
        ({"local_passes": 1.5}, "local_passes must be whole numbers"),
        ({"local_accuracy": 1.5}, r"local_accuracy \(Theta\) must be between 0 and 1"),
        ({"local_accuracy": [0.5, np.nan]}, r"local_accuracy \(Theta\) must be between 0 and 1"),
        ({"gossip_steps": 0}, "gossip_steps must be a whole number >= 1"),
    ],
)
def test_bad_methods_are_refused(options, message):
    for method in (Cola, Cocoa):
        with pytest.raises(InvalidInput, match=message):
            method(**options)
        with pytest.raises(InvalidInput, match=message):
            replace(method(), **options)
