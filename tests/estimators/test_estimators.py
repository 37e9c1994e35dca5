"""The estimators: scikit-learn's own checks, and comparisons with its estimators."""

import pickle

import numpy as np
import pytest
from errors import refused

sklearn = pytest.importorskip("sklearn", minversion="1.6")

from sklearn import cluster, datasets, decomposition, linear_model, neighbors, neural_network  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

import int8blas  # noqa: E402
import int8blas.sklearn as estimators  # noqa: E402
from int8blas.sklearn import decomposition as decomposition_of_bytes  # noqa: E402

ALL = [getattr(estimators, name)() for name in estimators.__all__ if name[0].isupper()]


@parametrize_with_checks(ALL)
@pytest.mark.filterwarnings("default")
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    """Images with pixels from 0 to 16, and the digits that they show."""
    x, y = datasets.load_digits(return_X_y=True)
    return x.astype(np.uint8), y


def mean_of(kind, x):
    return x if kind is np.uint8 else (x.astype(np.int16) - 8).astype(np.int8) if kind is np.int8 else x / 7.3


@pytest.mark.parametrize("kind", [np.uint8, np.int8, float])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_neighbors_are_those_of_scikit_learn(digits, kind, metric):
    x = mean_of(kind, digits[0])
    ours = estimators.NearestNeighbors(n_neighbors=7, metric=metric).fit(x[:1500])
    theirs = neighbors.NearestNeighbors(n_neighbors=7, metric=metric).fit(x[:1500].astype(float))
    for queries in (x[1500:], None):
        distances, indices = ours.kneighbors(queries)
        expected, expected_indices = theirs.kneighbors(None if queries is None else queries.astype(float))
        assert np.allclose(distances, expected, rtol=1e-7, atol=1e-6)
        # Neighbors at equal distances may come in another order.
        gaps = np.diff(expected, axis=1) > 1e-6
        is_alone = np.concatenate([gaps, np.zeros((len(gaps), 1), bool)], axis=1)
        is_alone[:, 1:] &= gaps
        assert np.array_equal(indices[is_alone], expected_indices[is_alone])
        if queries is None:
            assert (indices != np.arange(1500)[:, np.newaxis]).all()


@pytest.mark.parametrize("kind", [np.uint8, np.int8, float])
@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_votes_and_means(digits, kind, weights):
    x, y = mean_of(kind, digits[0]), digits[1]
    for name, least in (("KNeighborsClassifier", 0.995), ("KNeighborsRegressor", 0.98)):
        ours = getattr(estimators, name)(3, weights=weights).fit(x[:1200], y[:1200])
        theirs = getattr(neighbors, name)(3, weights=weights).fit(x[:1200].astype(float), y[:1200])
        same = np.isclose(ours.predict(x[1200:]), theirs.predict(x[1200:].astype(float)))
        assert same.mean() >= least


def test_samples_that_are_equal_to_others():
    x = np.zeros((9, 3), np.uint8)
    distances, indices = estimators.NearestNeighbors(n_neighbors=2).fit(x).kneighbors()
    assert not distances.any()
    assert indices.tolist() == [[1, 2], [0, 2], *[[0, 1]] * 7]


def test_queries_beyond_the_range_of_samples(rng):
    x = rng.normal(size=(300, 5))
    for queries in (100 * rng.normal(size=(20, 5)), np.full((1, 5), 1e6)):
        ours = estimators.NearestNeighbors(n_neighbors=300).fit(x).kneighbors(queries)
        theirs = neighbors.NearestNeighbors(n_neighbors=300, algorithm="brute").fit(x).kneighbors(queries)
        assert np.allclose(ours[0], theirs[0])


def test_clusters(digits):
    x = digits[0]
    first = x[:: len(x) // 10][:10].astype(float)
    theirs = cluster.KMeans(10, init=first, n_init=1).fit(x.astype(float))
    for kind in (np.uint8, np.int8, float):
        samples = mean_of(kind, x)
        ours = estimators.KMeans(10, init=mean_of(kind, first.astype(np.uint8)).astype(float)).fit(samples)
        factor = 7.3**2 if kind is float else 1
        assert ours.inertia_ * factor < 1.02 * theirs.inertia_
        assert np.array_equal(ours.predict(samples), ours.labels_)
        assert -ours.score(samples) == pytest.approx(ours.inertia_, rel=1e-9)
        distances = np.linalg.norm(samples[:, np.newaxis].astype(float) - ours.cluster_centers_, axis=2)
        assert np.allclose(ours.transform(samples), distances, rtol=0.02, atol=0.05 * distances.max())
        if kind is not float:
            for label in range(10):
                mean = samples[ours.labels_ == label].mean(axis=0)
                assert np.allclose(ours.cluster_centers_[label], mean, atol=0.2)
    drawn = [estimators.KMeans(10, n_init=3, random_state=0, init=init).fit(x) for init in ("k-means++", "random")]
    assert all(found.inertia_ < 1.05 * theirs.inertia_ for found in drawn)


def test_clusters_do_not_depend_on_threads_or_the_instruction_set(digits):
    found = []
    for isa in (int8blas.available_isas()[0], "ref"):
        for threads in (1, 2):
            with int8blas.use_isa(isa), int8blas.num_threads(threads):
                found.append(estimators.KMeans(10, random_state=0).fit(digits[0][:500]))
    assert all(np.array_equal(each.cluster_centers_, found[0].cluster_centers_) for each in found)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, float])
def test_clusters_by_batches(digits, kind):
    x = mean_of(kind, digits[0])
    theirs = cluster.MiniBatchKMeans(10, n_init=3, random_state=0).fit(x.astype(float))
    ours = estimators.MiniBatchKMeans(10, n_init=3, random_state=0, batch_size=256).fit(x)
    assert ours.inertia_ < 1.05 * theirs.inertia_
    assert np.array_equal(ours.predict(x), ours.labels_)
    assert 1 <= ours.n_iter_ <= ours.n_steps_
    same = estimators.MiniBatchKMeans(10, n_init=3, random_state=0, batch_size=256).fit(x)
    assert np.array_equal(same.cluster_centers_, ours.cluster_centers_)


def test_steps_with_some_samples(digits):
    x, first = digits[0], digits[0][:10].astype(float)
    found = estimators.MiniBatchKMeans(10, init=first)
    sums, counts, centers = np.zeros(first.shape), np.zeros(10), first.copy()
    for some in np.array_split(x, 5):
        distances = np.square(some[:, np.newaxis] - centers).sum(axis=2)
        found.partial_fit(some)
        assert (found.labels_ == distances.argmin(axis=1)).mean() > 0.99
        np.add.at(sums, found.labels_, some)
        counts += np.bincount(found.labels_, minlength=10)
        centers[counts > 0] = (sums / np.maximum(counts, 1)[:, np.newaxis])[counts > 0]
        assert np.allclose(found.cluster_centers_, centers)
    assert found.n_steps_ == 5
    rare = estimators.MiniBatchKMeans(3, init=[[0.0], [1], [200]], random_state=0, reassignment_ratio=0.5)
    for _ in range(10):
        rare.partial_fit(np.array([[0], [1], [0], [2]], np.uint8))
    assert rare.cluster_centers_.max() <= 2  # no sample is near 200


def test_a_cluster_without_samples_gets_the_farthest():
    x = np.array([[0, 0], [1, 0], [250, 250], [9, 9]], np.uint8)
    found = estimators.KMeans(3, init=[[0.0, 0], [0, 0], [0, 0]]).fit(x)
    assert sorted(np.bincount(found.labels_).tolist()) == [1, 1, 2]
    assert found.inertia_ == 0.5


@pytest.mark.parametrize("kind", [np.uint8, np.int8, float])
def test_components(digits, kind):
    x = mean_of(kind, digits[0])
    ours, theirs = estimators.PCA(12).fit(x), decomposition.PCA(12).fit(x.astype(float))
    tolerance = 1e-9 if kind is not float else 0.02
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_"):
        assert np.allclose(getattr(ours, name), getattr(theirs, name), rtol=tolerance, atol=tolerance), name
    signs = np.sign(np.einsum("ij,ij->i", ours.components_, theirs.components_))
    assert np.allclose(
        ours.components_ * signs[:, np.newaxis], theirs.components_, atol=1e-8 if tolerance < 0.01 else 0.1
    )
    projected = (x - ours.mean_) @ ours.components_.T
    assert np.abs(ours.transform(x) - projected).max() < (2e-4 if kind is not float else 0.01) * np.abs(projected).max()
    assert np.allclose(ours.inverse_transform(projected), projected @ ours.components_ + ours.mean_)


def test_components_of_mapped_samples_in_parts(digits, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", digits[0])
    whole = estimators.PCA(5).fit(digits[0])
    monkeypatch.setattr(decomposition_of_bytes, "ADDED", 100)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    parts = estimators.PCA(5).fit(mapped)
    assert np.array_equal(parts.components_, whole.components_)
    assert np.array_equal(parts.transform(mapped), whole.transform(digits[0]))


@pytest.mark.parametrize("estimator", ALL, ids=lambda estimator: type(estimator).__name__)
def test_copies_and_pickles(estimator, digits):
    x, y = digits[0][:200], digits[1][:200]
    fitted = clone(estimator).fit(x, y)
    method = "predict" if hasattr(fitted, "predict") else "transform" if hasattr(fitted, "transform") else "kneighbors"
    results = [getattr(each, method)(x[:9]) for each in (fitted, pickle.loads(pickle.dumps(fitted)))]
    results = [each.toarray() if hasattr(each, "toarray") else each for each in results]
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_predictions_in_int8(digits, activation):
    x, y = digits[0] / 16, digits[1]
    kinds = {"MLPClassifier": (y, y % 2, np.eye(10, dtype=int)[y]), "MLPRegressor": (y, np.stack([y, y % 3], axis=1))}
    for name, targets in kinds.items():
        for target in targets:
            hidden = (40, 30) if target is y else 20
            given = getattr(neural_network, name)(
                hidden_layer_sizes=hidden, activation=activation, max_iter=60, random_state=0
            )
            given.fit(x[:1000], target[:1000])
            quantized = estimators.quantize_estimator(given)
            for form in (quantized, pickle.loads(pickle.dumps(quantized))):
                found, expected = form.predict(x[1000:]), given.predict(x[1000:])
                assert found.shape == expected.shape
                if name == "MLPRegressor":
                    assert np.abs(found - expected).max() < 0.3
                    continue
                assert (found == expected).mean() > 0.97
                assert np.abs(form.predict_proba(x[1000:]) - given.predict_proba(x[1000:])).max() < 0.1
            assert type(given).__name__ == name
            assert type(clone(given)) is type(given)
    with refused(TypeError, "a quantized estimator only predicts: fit the one that was given"):
        quantized.fit(x, y)
    with refused(TypeError, "estimator must be MLPClassifier or MLPRegressor, got Ridge"):
        estimators.quantize_estimator(linear_model.Ridge())


def test_errors(digits):
    x = digits[0]
    with refused(ValueError, "metric must be 'euclidean' or 'cosine', got 'manhattan'"):
        estimators.NearestNeighbors(metric="manhattan").fit(x)
    for estimator in (estimators.NearestNeighbors(), estimators.KMeans(), estimators.PCA(3)):
        fitted = estimator.fit(x)
        method = fitted.kneighbors if hasattr(fitted, "kneighbors") else fitted.transform
        for queries in (x + 0.5, x.astype(int) - 1, x.astype(int) + 255):
            with refused(ValueError, "X must have values of uint8, as it had in fit, got others of"):
                method(queries)
        method(x.astype(float))
    with refused(ValueError, "init must have shape (8, 64), got (3, 64)"):
        estimators.KMeans(init=np.zeros((3, 64))).fit(x)
    with refused(ValueError, "n_components must be between 1 and min(n_samples, n_features)=64, got 65"):
        estimators.PCA(65).fit(x)
