"""The history of a run, and the result that it ends with."""

import numpy as np
import pytest

from glmesh import Cola, Status, solve
from tests.scenes import PROBLEMS

KEYS = {"round", "communications", "bytes", "seconds", "objective", "h", "gap", "consensus"}


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("stop", ["rounds", "gap", "certificate"])
def test_history(every, stop):
    options = {"tol": 0.0, "max_rounds": 24, "stop": stop, "record_every": every}
    result = solve(PROBLEMS["lasso"](), n_nodes=5, method=Cola(acceleration="momentum"), **options)
    history = result.history
    assert set(history) >= KEYS
    assert len({len(column) for column in history.values()}) == 1
    expected = sorted({*range(0, 25, every), 24})
    assert history["round"].tolist() == expected
    for key in ("round", "communications", "bytes", "seconds"):
        assert (np.diff(history[key]) > 0).all()
    assert all(history[key].dtype.kind == "i" for key in ("round", "communications", "bytes"))
    assert history["communications"][-1] == result.communications == 24
    assert history["bytes"][-1] == result.bytes
    assert history["objective"][-1] == result.objective
    assert history["gap"][-1] == result.gap
    assert np.isfinite(history["gap"]).all()
    assert result.rounds == 24
    assert result.status is (Status.ROUNDS_DONE if stop == "rounds" else Status.OUT_OF_ROUNDS)


def test_the_result_speaks_of_the_last_round():
    for name in PROBLEMS:
        problem = PROBLEMS[name]()
        seen = []
        result = solve(
            problem, n_nodes=4, stop="rounds", max_rounds=6, callback=lambda run, seen=seen: seen.append(run.x)
        )
        assert np.array_equal(result.x, seen[-1])
        assert result.objective == pytest.approx(problem.objective(result.coef, result.intercept), rel=1e-10)
        assert result.coef.shape == (20,)
        assert result.estimates.shape == (4, problem.composite.columns.d)
        models = [result.coef_of(k) for k in range(4)]
        np.testing.assert_allclose(np.mean(models, axis=0), result.coef, atol=1e-12)


def test_a_certified_result_is_what_the_certificate_is_about():
    problem = PROBLEMS["weighted_ridge_intercept"]()
    result = solve(problem, n_nodes=3, stop="certificate", tol=1e-4, method=Cola(local_passes=5))
    assert result.status is Status.CERTIFIED
    assert result.certificate.round <= result.rounds
    assert result.gap == result.certificate.bound <= 1e-4 * result.objective * (1 + 1e-9)
    assert result.objective == pytest.approx(problem.objective(result.coef, result.intercept), rel=1e-12)


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_the_history_is_the_same_bits_on_any_number_of_threads(name):
    histories = [
        solve(PROBLEMS[name](), n_nodes=6, n_jobs=jobs, stop="rounds", max_rounds=15).history for jobs in (1, 2, 6)
    ]
    for other in histories[1:]:
        for key in set(other) - {"seconds"}:
            np.testing.assert_array_equal(other[key], histories[0][key], err_msg=key)


def test_theta_is_in_the_history():
    result = solve(
        PROBLEMS["lasso"](), n_nodes=4, method=Cola(local_passes=50, local_accuracy=0.2), stop="rounds", max_rounds=5
    )
    assert np.isnan(result.history["theta"][0])
    assert (result.history["theta"][1:] <= 0.2).all()
    plain = solve(PROBLEMS["lasso"](), n_nodes=4, stop="rounds", max_rounds=2)
    assert np.isnan(plain.history["theta"]).all()
