"""Problems: every storage is the same problem, and bad data is refused with a reason."""

import numpy as np
import pytest
import scipy.sparse as sp

from glmesh import Cola, Problem, Run, solve
from glmesh.errors import GlmeshError, InvalidData, InvalidInput, InvalidNetwork, UnsuitablePair
from glmesh.functions import L1, L2, Box, ElasticNet, GroupLasso, HuberLoss, NonNegative, Table
from tests.scenes import LABELS, SPARSE, WEIGHT, X, Y, advance


def spoiled(value, where=(3, 4)):
    bad = X.copy()
    bad[where] = value
    return bad


def spoiled_vector(value):
    bad = Y.copy()
    bad[7] = value
    return bad


BAD_DATA = {
    "nan_in_x": ((spoiled(np.nan), Y), {}, "X holds NaN at row 3, column 4"),
    "inf_in_x": ((spoiled(np.inf), Y), {}, "X holds infinity at row 3, column 4"),
    "nan_in_x_by_samples": ((spoiled(np.nan), Y), {"split": "samples"}, "X holds NaN at row 3, column 4"),
    "nan_in_csr": ((sp.csr_array(spoiled(np.nan)), Y), {}, "X holds NaN at row 3, column 4"),
    "inf_in_csc_by_samples": ((sp.csc_array(spoiled(-np.inf)), Y), {"split": "samples"}, "infinity at row 3, column 4"),
    "nan_in_y": ((X, spoiled_vector(np.nan)), {}, "y holds NaN at position 7"),
    "inf_in_y": ((X, spoiled_vector(-np.inf)), {"split": "samples"}, "y holds infinity at position 7"),
    "nan_weight": ((X, Y), {"sample_weight": spoiled_vector(np.nan)}, "sample_weight holds NaN at position 7"),
    "inf_weight": ((X, Y), {"sample_weight": np.full(30, np.inf)}, "sample_weight holds infinity at position 0"),
    "negative_weight": ((X, Y), {"sample_weight": -np.ones(30)}, "sample_weight has a negative value at 0"),
    "short_y": ((X, Y[:29]), {}, "X has 30 rows but y has 29 values"),
    "short_weight": ((X, Y), {"sample_weight": np.ones(3)}, "30 rows but sample_weight has 3 values"),
    "wide_y": ((X, np.ones((30, 2))), {}, r"y has shape \(30, 2\)"),
    "vector_x": ((X[0], Y), {}, "X has 1 dimension"),
    "cube_x": ((X[None], Y), {}, "X has 3 dimension"),
    "ragged_x": (([[1.0, 2.0], [3.0]], [1.0, 2.0]), {}, "not a rectangular matrix"),
    "string_x": (([["a", "b"], ["c", "d"]], [1.0, 2.0]), {}, "real numbers are needed"),
    "object_x": ((np.array([[1.0, "b"], [2.0, "d"]], dtype=object), [1.0, 2.0]), {}, "not numbers"),
    "complex_x": ((X + 1j, Y), {}, "complex128; real numbers are needed"),
    "complex_sparse_x": ((sp.csr_array(X + 1j), Y), {}, "complex128; real numbers are needed"),
    "complex_y": ((X, Y + 1j), {}, "y holds complex128"),
    "string_labels": ((X, ["spam", "ham"] * 15), {"loss": "logistic"}, "y holds 'spam'; numbers are needed"),
    "object_labels": ((X, np.array(["a", "b"] * 15, dtype=object)), {"loss": "hinge", "split": "samples"}, "'a'"),
    "one_class": ((X, np.ones(30)), {"loss": "logistic"}, r"one class only \(1\); the logistic loss needs two"),
    "one_class_by_samples": ((X, np.ones(30)), {"loss": "hinge", "split": "samples"}, "one class only"),
    "three_classes": (
        (X, np.arange(30) % 3),
        {"loss": "squared_hinge"},
        "holds 1 besides 0 and 2.*one against the rest",
    ),
    "no_rows": ((X[:0], Y[:0]), {}, "X is empty: 0 rows, 20 columns"),
    "no_columns": ((X[:, :0], Y), {"split": "samples"}, "X is empty: 30 rows, 0 columns"),
    "no_sparse_rows": ((sp.csr_array(X[:0]), Y[:0]), {}, "X is empty"),
}


BAD_OPTIONS = {
    "negative_alpha": ({"alpha": -1.0}, "alpha must be a finite number >= 0, got -1.0"),
    "nan_alpha": ({"alpha": np.nan}, "alpha must be a finite number"),
    "infinite_alpha": ({"alpha": np.inf}, "alpha must be a finite number"),
    "text_alpha": ({"alpha": "1"}, "alpha must be a finite number"),
    "unknown_loss": ({"loss": "sqared"}, "unknown loss 'sqared'.*[Dd]id you mean 'squared'"),
    "unknown_penalty": ({"penalty": "l3"}, "unknown penalty 'l3'; use 'l1', 'l2', 'elasticnet'"),
    "unknown_split": ({"split": "rows"}, "split must be 'features' or 'samples', got 'rows'"),
    "ratio": ({"penalty": "elasticnet", "l1_ratio": 1.5}, "l1_ratio must be between 0 and 1, got 1.5"),
    "ratio_of_l2": ({"penalty": "l2", "l1_ratio": 0.5}, "l1_ratio goes with penalty='elasticnet', not with 'l2'"),
    "ratio_of_a_table": ({"penalty": L1(1.0), "l1_ratio": 0.5}, "carries its own weights"),
    "penalty_size": ({"penalty": L1(np.ones(7))}, "l1 has 7 entries for 20 columns"),
    "penalty_size_by_samples": ({"penalty": L2(np.ones(7)), "split": "samples"}, "l2 has 7 entries for 20 columns"),
    "group_size": ({"penalty": GroupLasso(np.arange(7))}, "7 group labels for 20 columns"),
    "a_list_of_penalties": ({"penalty": [L1(1.0), L1(2.0)]}, "from_nodes"),
}


UNSUITABLE = {
    **{
        f"{loss}_by_features": (
            {"loss": loss},
            f"the {loss} loss has no form split by features.*split='samples'.*squared, logistic",
        )
        for loss in (
            "hinge",
            "smoothed_hinge",
            "epsilon_insensitive",
            "squared_epsilon_insensitive",
            "quantile",
        )
    },
    "l1": ({"penalty": "l1", "split": "samples"}, "a plain L1 penalty.*split='features'.*elasticnet"),
    "pure_l1_net": (
        {"penalty": "elasticnet", "l1_ratio": 1.0, "split": "samples"},
        "an elastic net without L2 part.*l1_ratio < 1",
    ),
    "no_penalty": ({"alpha": 0.0, "split": "samples"}, r"without L2 part \(or with alpha=0\).*alpha > 0"),
    "nonneg": ({"penalty": NonNegative(), "split": "samples"}, "a penalty without L2 part"),
    "group": ({"penalty": GroupLasso(np.arange(20)), "split": "samples"}, "GroupLasso.*Use split='features'"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_is_refused(case):
    data, options, message = BAD_DATA[case]
    with pytest.raises(InvalidData, match=message):
        Problem.glm(*data, **options)


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_are_refused(case):
    options, message = BAD_OPTIONS[case]
    with pytest.raises(InvalidInput, match=message):
        Problem.glm(X, Y, **options)


@pytest.mark.parametrize("case", UNSUITABLE)
def test_unsuitable_pairs_are_refused_by_name(case):
    options, message = UNSUITABLE[case]
    with pytest.raises(UnsuitablePair, match=f"(?s){message}"):
        _ = Problem.glm(X, LABELS, **options).composite


@pytest.mark.parametrize("case", ["l1", "pure_l1_net", "no_penalty", "nonneg"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_by_samples_a_problem_without_a_form_has_an_objective(case, fit_intercept):
    """The same number as split by features, where there is a form; methods that need the form refuse by name."""
    options = {"loss": "logistic", "fit_intercept": fit_intercept} | UNSUITABLE[case][0]
    weight = np.arange(len(LABELS)) % 3.0
    rows = Problem.glm(X, LABELS, sample_weight=weight, **options)
    features = Problem.glm(X, LABELS, sample_weight=weight, **options | {"split": "features"})
    coef = np.abs(np.random.default_rng(0).normal(size=X.shape[1]))
    np.testing.assert_allclose(rows.objective(coef, 0.3), features.objective(coef, 0.3), rtol=1e-12)
    with pytest.raises(UnsuitablePair, match="cannot be split by samples"):
        solve(rows, n_nodes=2, method=Cola(acceleration="momentum"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L1(-1.0), "the penalty l1 must be finite and >= 0, got -1.0"),
        (lambda: L2([1.0, -2.0]), "the penalty l2 must be finite and >= 0, got -2.0"),
        (lambda: ElasticNet(0.5, np.nan), "l2 holds NaN"),
        (lambda: Box(1.0, 0.0), "every lower bound must be at most its upper bound"),
        (lambda: Table(l1=np.ones(3), l2=np.ones(4)), "l2 has 4 entries but l1 has 3"),
        (lambda: GroupLasso([0, 1], -1.0), "group weights must be finite and >= 0"),
        (lambda: HuberLoss(0.0), "delta > 0"),
    ],
)
def test_bad_penalties_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_errors_are_of_one_family():
    assert issubclass(InvalidInput, ValueError)
    for kind in (InvalidInput, InvalidData, InvalidNetwork, UnsuitablePair):
        assert issubclass(kind, GlmeshError)


@pytest.mark.parametrize("split", ["features", "samples"])
def test_every_storage_is_the_same_problem(split):
    """Dense, float32, integers, CSR, CSC, COO, 64-bit indices, unsorted with duplicates: the same run."""
    whole = np.round(4 * SPARSE.toarray())
    csr = sp.csr_array(whole)
    wide = csr.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    coo = sp.coo_array(whole)
    doubled = sp.coo_array(
        (np.tile(coo.data / 2, 2)[::-1], (np.tile(coo.row, 2)[::-1], np.tile(coo.col, 2)[::-1])), shape=whole.shape
    )
    storages = [
        whole,
        whole.astype(np.float32),
        whole.astype(np.int8),
        np.asfortranarray(whole),
        whole.tolist(),
        csr,
        sp.csc_array(whole),
        sp.csr_matrix(whole),
        coo,
        wide,
        doubled,
        csr.astype(np.float32),
    ]
    runs = [advance(Run(Problem.glm(data, Y, split=split), n_nodes=4), 5) for data in storages]
    for run in runs[1:]:
        np.testing.assert_allclose(run.estimates, runs[0].estimates, rtol=1e-10, atol=1e-12)
        assert run.story == runs[0].story
        if split == "samples":  # on totals, whose nodes hold plain rows
            continue
        np.testing.assert_allclose(run.x, runs[0].x, rtol=1e-10, atol=1e-12)
        block = run.blocks[0].columns
        assert (block.indptr.dtype, block.indices.dtype, block.data.dtype) == (np.uint64, np.uint32, np.float64)


def test_labels_may_be_any_two_numbers():
    results = [
        solve(Problem.glm(X, y, loss="logistic"), n_nodes=3, stop="rounds", max_rounds=5)
        for y in (LABELS, LABELS > 0, np.where(LABELS > 0, 7, 3), LABELS[:, None])
    ]
    for result in results[1:]:
        assert np.array_equal(result.coef, results[0].coef)


def test_data_is_not_altered():
    for split, data in (("features", X), ("samples", X), ("features", SPARSE), ("samples", SPARSE)):
        before, y, weight = data.copy(), Y.copy(), WEIGHT.copy()
        solve(Problem.glm(data, Y, split=split, sample_weight=WEIGHT), n_nodes=3, max_rounds=5)
        assert (abs(before - data)).max() == 0
        assert np.array_equal(y, Y)
        assert np.array_equal(weight, WEIGHT)


@pytest.mark.parametrize("split", ["features", "samples"])
def test_an_integer_weight_is_a_repeated_sample(split):
    count = np.random.default_rng(2).integers(0, 4, 30)
    options = {"loss": "huber", "penalty": "elasticnet", "alpha": 2.0, "split": split}
    weighted = Problem.glm(X, Y, sample_weight=count, **options)
    repeated = Problem.glm(np.repeat(X, count, axis=0), np.repeat(Y, count), **options)
    method = Cola(local_passes=5)
    coefs = [
        solve(problem, n_nodes=2, method=method, tol=1e-10, max_rounds=20_000, record_every=20).coef
        for problem in (weighted, repeated)
    ]
    np.testing.assert_allclose(coefs[0], coefs[1], atol=1e-4)
