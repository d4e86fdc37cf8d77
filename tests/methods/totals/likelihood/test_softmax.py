"""The multinomial likelihood of a node's rows: derivatives, the common shift of all classes, the certificate's R."""

import numpy as np
import pytest
import scipy.sparse as sp
import statsmodels.api as sm
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

from glmesh.errors import UnsuitablePair
from glmesh.functions import Table
from glmesh.functions.softmax import Softmax
from glmesh.methods.totals.likelihood.outputs import balanced_rows, gauge
from glmesh.methods.totals.likelihood.softmax import SoftmaxLikelihood
from tests.cases import cases

SEEDS = range(cases(60))


def _case(seed, *, sparse=False):
    """Return (likelihood, random, point) of some random rows, a few of weight 0, with columns of unequal sizes."""
    random = np.random.default_rng(seed)
    m, p, C = int(random.integers(5, 40)), int(random.integers(1, 6)), int(random.integers(2, 6))
    X = random.normal(size=(m, p)) * 10.0 ** random.uniform(-2, 2, size=p)
    if sparse:
        X[random.random(X.shape) < 0.5] = 0.0
    weight = random.uniform(0.1, 3.0, size=m) * (random.random(m) > 0.1)
    point = random.normal(size=(C, p + 1)) / np.append(np.abs(X).max(axis=0, initial=1e-2), 1.0)
    y = random.integers(C, size=m).astype(float)
    rows = sp.csr_array(X) if sparse else X
    return SoftmaxLikelihood(Softmax(C), rows, y, weight), random, point.ravel()


def _fit(likelihood, penalty):
    """Return the point, shape (d,), that minimises likelihood plus L2 with what `gauge` holds at 0: Newton's method."""
    free = np.flatnonzero(penalty.lo < penalty.hi)
    w = np.zeros(likelihood.d)
    w = np.where(penalty.lo < penalty.hi, likelihood.begin(w, likelihood.beginnings(w)), 0.0)

    def objective(at):
        return likelihood.values(at[None])[0] + 0.5 * (penalty.l2 * at**2).sum()

    for _ in range(60):
        made = likelihood.derivatives(w)
        slopes = (made.gradient + penalty.l2 * w)[free]
        step = np.zeros(likelihood.d)
        step[free] = -np.linalg.solve((made.hessian + np.diag(penalty.l2))[np.ix_(free, free)], slopes)
        slope = slopes @ step[free]
        while objective(w + step) > objective(w) + 1e-4 * slope + 1e-12 * abs(objective(w)):
            step, slope = 0.5 * step, 0.5 * slope
        w = w + step
        if -slope < 1e-24:
            return w
    raise AssertionError(f"Newton's method stopped at a squared decrement of {-slope}")


def _inverse(likelihood, penalty, w):
    """Return L^-1, shape (d, d), of H = LL^T, the Hessian with L2 where `gauge` holds nothing; zeros elsewhere."""
    free = np.flatnonzero(penalty.lo < penalty.hi)
    H = (likelihood.derivatives(w).hessian + np.diag(penalty.l2))[np.ix_(free, free)]
    out = np.zeros((likelihood.d, likelihood.d))
    out[np.ix_(free, free)] = np.linalg.inv(np.linalg.cholesky(H))
    return out, H


# derivatives


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_and_hessian_are_those_of_finite_differences(seed, sparse):
    likelihood, _, point = _case(seed, sparse=sparse)
    made = likelihood.derivatives(point)
    rows = likelihood.X.toarray() if sparse else likelihood.X
    sizes = np.tile(1.0 / np.append(np.abs(rows).max(axis=0, initial=1e-2), 1.0), likelihood.loss.n_classes)
    steps = np.diag(1e-4 * sizes)
    losses = likelihood.values(np.concatenate([point + steps, point - steps]))
    gradient = (losses[: likelihood.d] - losses[likelihood.d :]) / 2e-4
    total = likelihood.weight.sum()
    np.testing.assert_allclose(made.gradient * sizes, gradient, atol=1e-7 * total, rtol=0)
    slopes = [likelihood.derivatives(point + e).gradient - likelihood.derivatives(point - e).gradient for e in steps]
    np.testing.assert_allclose(
        made.hessian * sizes * sizes[:, None], np.array(slopes) * sizes / 2e-4, atol=1e-7 * total, rtol=0
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_sparse_and_dense_rows_give_one_likelihood(seed):
    sparse, _, point = _case(seed, sparse=True)
    dense = SoftmaxLikelihood(sparse.loss, sparse.X.toarray(), sparse.y, sparse.weight)
    (a, b), inverse = (one.derivatives(point) for one in (sparse, dense)), np.tril(np.ones((dense.d, dense.d)))
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-11, atol=1e-12 * np.abs(b.gradient).max())
    np.testing.assert_allclose(a.hessian, b.hessian, rtol=1e-11, atol=1e-12 * np.abs(b.hessian).max())
    for found, wanted in (
        (sparse.values(point[None]), dense.values(point[None])),
        (sparse.scores(point), dense.scores(point)),
        (sparse.concordances(point, inverse, 1.0), dense.concordances(point, inverse, 1.0)),
        (sparse.noise(point, np.ones(dense.d)), dense.noise(point, np.ones(dense.d))),
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_what_nodes_compute_alike_of_the_inverse_gives_the_same_concordances(seed):
    likelihood, random, point = _case(seed)
    C, n = likelihood.loss.n_classes, likelihood.d // likelihood.loss.n_classes
    inverse = np.tril(random.standard_normal((likelihood.d, likelihood.d)))
    inverse[random.random(likelihood.d) < 0.3] = 0.0  # coordinates that are not on the face
    found = likelihood.concordances(point, likelihood.reduced(inverse), 1.0)
    np.testing.assert_array_equal(found, likelihood.concordances(point, inverse, 1.0))
    rows = likelihood.X.toarray() if sp.issparse(likelihood.X) else likelihood.X
    t = np.einsum("kcj,ij->ick", inverse.reshape(-1, C, n), np.column_stack([rows, np.ones(len(rows))]))
    lengths = np.sort(np.linalg.norm(t - t.mean(axis=1, keepdims=True), axis=2), axis=1)
    wanted = np.where(likelihood.weight > 0, lengths[:, -2:].sum(axis=1), 0.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12 * wanted.max(initial=1.0))


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_sum_to_the_gradient_and_several_points_are_as_one_by_one(seed):
    likelihood, random, point = _case(seed)
    scores = likelihood.scores(point)
    assert scores.shape == (len(likelihood.y), likelihood.d)
    gradient = likelihood.derivatives(point).gradient
    np.testing.assert_allclose(scores.sum(axis=0), gradient, rtol=1e-9, atol=1e-11 * np.abs(scores).max())
    points = np.stack([point, 0.5 * point, random.normal(size=likelihood.d)])
    alone = [likelihood.values(one[None])[0] for one in points]
    np.testing.assert_allclose(likelihood.values(points), alone, rtol=1e-13)


def test_two_classes_are_the_logistic_loss_of_the_difference():
    random = np.random.default_rng(0)
    X, y, weight = random.normal(size=(30, 3)), random.integers(2, size=30).astype(float), random.uniform(size=30)
    point = random.normal(size=8)
    z = np.column_stack([X, np.ones(30)]) @ (point[4:] - point[:4])
    loss = SoftmaxLikelihood(Softmax(2), X, y, weight).values(point[None])[0]
    assert np.isclose(loss, (weight * np.logaddexp(0.0, -(2 * y - 1) * z)).sum(), rtol=1e-14)


def test_many_rows_are_summed_piece_by_piece_to_the_same():
    random = np.random.default_rng(1)
    X, y = random.normal(size=(20_000, 8)), random.integers(12, size=20_000).astype(float)
    whole = SoftmaxLikelihood(Softmax(12), X, y, np.ones(len(y)))
    parts = [SoftmaxLikelihood(Softmax(12), X[a::2], y[a::2], np.ones(10_000)) for a in (0, 1)]
    point = 0.3 * random.normal(size=whole.d)
    made, others = whole.derivatives(point), [part.derivatives(point) for part in parts]
    np.testing.assert_allclose(made.gradient, sum(one.gradient for one in others), rtol=1e-9)
    np.testing.assert_allclose(made.hessian, sum(one.hessian for one in others), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(whole.values(point[None]), sum(one.values(point[None]) for one in parts), rtol=1e-12)


def test_curvatures_of_rows_whose_class_is_almost_certain_keep_their_digits():
    """Beside a probability 1 - 1e-20 the curvature is 1e-20, not the rounding of 1 - 1."""
    X, y = np.array([[1.0], [2.0]]), np.array([0.0, 0.0])
    likelihood = SoftmaxLikelihood(Softmax(3), X, y, np.ones(2))
    point = np.array([0.0, 46.0, 0.0, 0.0, 0.0, 0.0])  # exp(-46) = 1e-20
    P = np.exp(-46.0)
    block = P * np.array([[5.0, 3.0], [3.0, 2.0]])
    np.testing.assert_allclose(likelihood.information(point)[:2, :2], 2 * block, rtol=1e-13)
    np.testing.assert_allclose(likelihood.information(point)[:2, 2:4], -block, rtol=1e-13)
    sparse = SoftmaxLikelihood(Softmax(3), sp.csr_array(X), y, np.ones(2))
    np.testing.assert_allclose(sparse.information(point), likelihood.information(point), rtol=1e-13, atol=1e-35)


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_covers_what_rounding_does_to_a_gradient(seed):
    likelihood, _, point = _case(seed)
    C, m = likelihood.loss.n_classes, len(likelihood.y)
    X = np.column_stack([likelihood.X, np.ones(m)]).astype(np.longdouble)
    z = X @ point.reshape(C, -1).T.astype(np.longdouble)
    P = np.exp(z - z.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    P[np.arange(m), likelihood.y.astype(int)] -= 1
    exact = ((likelihood.weight[:, None] * P).T @ X).ravel()
    scale = np.tile(np.asarray(np.sqrt((X**2).sum(axis=0)), dtype=float), C)
    off = np.abs(likelihood.derivatives(point).gradient - exact) / scale
    assert off.max() <= 2.0 * likelihood.noise(point, scale)


# the common shift of all classes


@pytest.mark.parametrize("seed", SEEDS)
def test_the_loss_is_flat_along_common_shifts_and_nowhere_else_that_nothing_holds(seed):
    random = np.random.default_rng(seed)
    p, C = int(random.integers(1, 5)), int(random.integers(2, 6))
    X, y = random.normal(size=(60, p)), random.integers(C, size=60).astype(float)
    likelihood, point = SoftmaxLikelihood(Softmax(C), X, y, np.ones(60)), random.normal(size=C * (p + 1))
    shift = np.tile(random.normal(size=p + 1), C)
    assert np.isclose(*likelihood.values(np.stack([point, point + shift])), rtol=1e-12)
    H = likelihood.derivatives(point).hessian
    assert np.linalg.matrix_rank(H, tol=1e-9) == likelihood.d - (p + 1)
    for l2 in (0.0, random.choice([0.0, 1.0], size=p), np.ones(p)):  # no column, some, and all have a penalty
        penalty = gauge(Table(l2=np.broadcast_to(l2, p)), p, C, fit_intercept=True)
        free = penalty.lo < penalty.hi
        left = (H + np.diag(penalty.l2))[np.ix_(free, free)]
        assert np.linalg.eigvalsh(left)[0] > 1e-6
        assert (~free).sum() == p + 1 - np.count_nonzero(l2)
        assert not free.reshape(C, p + 1)[0][np.append(np.broadcast_to(l2, p) == 0, True)].any()


def test_without_an_intercept_all_intercepts_are_held():
    penalty = gauge(Table(l2=np.ones(2)), 2, 3, fit_intercept=False)
    held = (penalty.lo == penalty.hi).reshape(3, 3)
    assert held[:, -1].all()
    assert not held[:, :-1].any()


@pytest.mark.parametrize(
    "penalty", [Table(lo=np.zeros(2)), Table(hi=np.array([np.inf, 1.0])), Table(linear=np.ones(2))]
)
def test_bounds_and_linear_terms_alone_are_refused(penalty):
    with pytest.raises(UnsuitablePair, match="add an L1 or L2 penalty"):
        gauge(penalty, 2, 3, fit_intercept=True)


def test_an_offset_is_refused_because_it_changes_no_probability():
    with pytest.raises(UnsuitablePair, match="offset"):
        gauge(Table(lo=np.array([-np.inf, 1.0]), hi=np.array([np.inf, 1.0])), 2, 3, fit_intercept=True)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["l1", "l2", "none"])
def test_settling_changes_no_probability_and_raises_no_penalty(seed, kind):
    likelihood, _, point = _case(seed)
    C, p = likelihood.loss.n_classes, likelihood.X.shape[1]
    columns = Table() if kind == "none" else Table(**{kind: np.ones(p)})
    penalty = gauge(columns, p, C, fit_intercept=True)
    point = np.where(penalty.lo < penalty.hi, point, 0.0)
    new = balanced_rows(penalty, point.reshape(C, -1)).ravel()
    np.testing.assert_allclose(likelihood.values(new[None]), likelihood.values(point[None]), rtol=1e-12)
    rest = Table(l1=penalty.l1, l2=penalty.l2)
    assert rest.value(new) <= rest.value(point) * (1 + 1e-14)
    rows = new.reshape(C, -1)
    if kind == "none":
        assert (new == point).all()  # the first class is the reference
    else:
        assert np.isclose(rows[:, -1].sum(), 0.0, atol=1e-13)
    if kind == "l1":
        assert (np.sort(rows[:, :-1], axis=0)[[(C - 1) // 2, C // 2]] == 0.0).any(axis=0).all()


# against others


def test_without_a_penalty_estimates_are_those_of_statsmodels():
    data = sm.datasets.anes96.load_pandas()
    X, y = np.column_stack([data.exog[name] for name in ("logpopul", "selfLR", "age", "educ", "income")]), data.endog
    other = sm.MNLogit(y, sm.add_constant(X)).fit(method="newton", tol=1e-14, maxiter=50, disp=0)
    p, C = X.shape[1], 7
    likelihood = SoftmaxLikelihood(Softmax(C), X, np.asarray(y, dtype=float), np.ones(len(y)))
    penalty = gauge(Table(), p, C, fit_intercept=True)
    w = _fit(likelihood, penalty)
    ours = w.reshape(C, p + 1)
    theirs = np.asarray(other.params).T  # (C - 1, p + 1), the constant first
    assert (ours[0] == 0.0).all()
    np.testing.assert_allclose(ours[1:], np.roll(theirs, -1, axis=1), rtol=1e-9, atol=1e-11)
    assert np.isclose(likelihood.values(w[None])[0], -other.llf, rtol=1e-13)
    inverse, _ = _inverse(likelihood, penalty, w)
    errors = np.sqrt((inverse**2).sum(axis=0)).reshape(C, p + 1)[1:]
    np.testing.assert_allclose(errors, np.roll(np.asarray(other.bse).T, -1, axis=1), rtol=1e-8)


@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_with_l2_estimates_are_those_of_scikit_learn(load):
    X, y = load(return_X_y=True)
    X = scale(X)
    C = len(np.unique(y))
    likelihood = SoftmaxLikelihood(Softmax(C), X, y.astype(float), np.ones(len(y)))
    penalty = gauge(Table(l2=np.full(X.shape[1], 10.0)), X.shape[1], C, fit_intercept=True)
    ours = balanced_rows(penalty, _fit(likelihood, penalty).reshape(C, -1))
    theirs = LogisticRegression(C=0.1, tol=1e-12, max_iter=200, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(ours[:, :-1], theirs.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours[:, -1], theirs.intercept_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(ours.sum(axis=0), 0.0, atol=1e-9)


def test_a_fit_begins_at_the_null_model():
    random = np.random.default_rng(2)
    y, weight = np.repeat([0.0, 1.0, 3.0], [3, 5, 4]), random.uniform(0.5, 2.0, size=12)
    likelihood = SoftmaxLikelihood(Softmax(4), random.normal(size=(12, 2)), y, weight)
    start = likelihood.begin(np.zeros(12), likelihood.beginnings(np.zeros(12)))
    shares = likelihood.loss.mean(start.reshape(4, 3)[None, :, -1])[0]
    wanted = np.array([weight[y == c].sum() for c in range(4)]) / weight.sum()
    np.testing.assert_allclose(shares, wanted, rtol=1e-12, atol=1e-12)  # nobody has the third class
    assert start[2] == 0.0
    assert np.isfinite(start).all()


# the certificate


def _speeds(likelihood, direction):
    """Return how fast the C predictors of all rows move along a direction, shape (m, C)."""
    columns = direction.reshape(likelihood.loss.n_classes, -1).T
    return likelihood.X @ columns[:-1] + columns[-1]


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("seed", SEEDS)
def test_third_derivatives_are_at_most_the_concordance_times_the_second(seed, l2):
    random = np.random.default_rng(seed)
    p, C, m = int(random.integers(1, 5)), int(random.integers(2, 6)), 50
    X, y = random.normal(size=(m, p)), random.integers(C, size=m).astype(float)
    weight = random.uniform(0.1, 3.0, size=m) * (random.random(m) > 0.1)
    likelihood, w = SoftmaxLikelihood(Softmax(C), X, y, weight), random.normal(size=C * (p + 1))
    penalty = gauge(Table(l2=np.full(p, l2)), p, C, fit_intercept=True)
    free = np.flatnonzero(penalty.lo < penalty.hi)
    w = np.where(penalty.lo < penalty.hi, w, 0.0)
    inverse, H = _inverse(likelihood, penalty, w)
    R = likelihood.concordances(w, inverse, 1.0)
    assert (R[weight == 0] == 0).all()
    largest = np.zeros(m)
    for i in range(m):  # the direction along which two predictors of this row part fastest
        row = np.append(X[i], 1.0)
        for a in range(C):
            for b in range(a):
                gap = np.kron(np.eye(C)[a] - np.eye(C)[b], row)[free]
                length = np.sqrt(gap @ np.linalg.solve(H, gap))
                largest[i] = max(largest[i], length)
    used = weight > 0
    assert (R[used] >= largest[used] * (1 - 1e-9)).all()
    assert (R[used] <= 2 * (C - 1) / C * largest[used] * (1 + 1e-9)).all()
    for _ in range(20):
        direction = np.zeros(likelihood.d)
        direction[free] = random.normal(size=len(free))
        direction[free] /= np.sqrt(direction[free] @ H @ direction[free])
        u = _speeds(likelihood, direction)
        for t in (-1.0, 0.0, 0.7, 20.0):
            P = likelihood.loss.mean(likelihood.predictors(w + t * direction))
            mean = (P * u).sum(axis=1, keepdims=True)
            second, third = (P * (u - mean) ** 2).sum(axis=1), (P * (u - mean) ** 3).sum(axis=1)
            assert (np.abs(third) <= R * second * (1 + 1e-9) + 1e-12)[used].all()
