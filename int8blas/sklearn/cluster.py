"""``KMeans`` and ``MiniBatchKMeans``, Lloyd's algorithm on bytes with all samples, or a few, in each step."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from int8blas.core.parameters import integer, real
from int8blas.gemm.matmul import matmul
from int8blas.gemm.packing import pack_b
from int8blas.neighbors.distances import sqeuclidean
from int8blas.sklearn.coding import Coding, Floats, Int8, Words, blocks

Labels = npt.NDArray[np.int32]
# The maximum number of samples that one product moves from the sums of their old clusters to the sums of their new
# clusters.
COUNTED = 1 << 16


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means clustering of bytes, with the attributes of scikit-learn's ``KMeans``.

    Parameters
    ----------
    n_clusters : int, optional
        The number of clusters.
    init : {'k-means++', 'random'} or array_like of shape (n_clusters, n_features), optional
        The first centers: spread by greedy k-means++, drawn from the samples, or given.
    n_init : int, optional
        The number of starts. The result is the start with the least inertia.
    max_iter : int, optional
        The maximum number of iterations of one start.
    tol : float, optional
        A start ends when the centers move by less than `tol`, relative to the mean variance of features.
    random_state : int, RandomState or None, optional
        The generator that draws the first centers.

    Attributes
    ----------
    cluster_centers_ : ndarray of float64
        The means of the clusters' samples, of shape (n_clusters, n_features).
    labels_ : ndarray of int32
        The cluster of each sample.
    inertia_ : float
        The sum of squared distances of samples, as bytes, to their centers.
    n_iter_ : int
        The number of iterations of the best start.

    Notes
    -----
    uint8 and int8 samples stay unchanged. Samples of other dtypes become int8, with one scale and with the middle of
    each feature's range as 0. At first, centers are rounded to bytes, and their distances from samples are exact. Once
    the assignment of samples no longer changes, centers have 16 bits. Means are computed from exact sums. Results do
    not depend on the CPU or the number of threads. A cluster that loses all samples gets the sample that is farthest
    from its center.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.sklearn import KMeans
    >>> x = np.array([[0, 0], [3, 4], [250, 255], [255, 255]], np.uint8)
    >>> found = KMeans(2, random_state=0).fit(x)
    >>> found.labels_ == found.labels_[0], found.inertia_
    (array([ True,  True, False, False]), 25.0)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_clusters, self.init, self.n_init = n_clusters, init, n_init
        self.max_iter, self.tol, self.random_state = max_iter, tol, random_state

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: N803
        """Find clusters.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Samples.
        y : None
            Not used.

        Returns
        -------
        self
            The estimator.
        """
        rows, random = self._first_rows(X, "n_clusters", "n_init", "max_iter"), check_random_state(self.random_state)
        best = None
        for _ in range(self.n_init if isinstance(self.init, str) else 1):
            found = _lloyd(rows, self._first_centers(rows, random), self.max_iter, self.tol)
            if best is None or found[2] < best[2]:
                best = found
        assert best is not None
        return self._keep(*best)

    def predict(self, X: Any) -> Labels:  # noqa: N803
        """Return the cluster of each sample.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of int32
            Numbers of clusters.
        """
        check_is_fitted(self)
        rows = self._coding(validate_data(self, X, reset=False, order="C"))
        return _assigned(rows, self._centers, _squares(rows))[0]

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the distance of each sample to each center.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of float64
            Distances of shape (n_samples, n_clusters).
        """
        check_is_fitted(self)
        rows = self._coding(validate_data(self, X, reset=False, order="C"))
        words, distances = _words(self._centers), np.empty((len(rows), len(self._centers)))
        for some in blocks(len(rows)):
            distances[some] = _squares(rows[some])[:, np.newaxis] + _terms(words, rows[some])
        return np.sqrt(np.maximum(distances, 0)) * float(self._coding.step[0])

    def score(self, X: Any, y: None = None) -> float:  # noqa: N803
        """Return the negative inertia of samples.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Samples.
        y : None
            Not used.

        Returns
        -------
        float
            The negated sum of squared distances to the nearest centers.
        """
        return -float(np.square(self.transform(X).min(axis=1)).sum())

    def _first_rows(self, X: Any, *positive: str) -> Int8:  # noqa: N803
        """Check samples and the named parameters, set the coding, and return the samples as bytes."""
        x = validate_data(self, X, order="C")
        for name in positive:
            if integer(getattr(self, name), name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if len(x) < self.n_clusters:
            raise ValueError(f"n_samples={len(x)} should be >= n_clusters={self.n_clusters}")
        self._coding = Coding(x, one_step=True)
        return self._coding(x)

    def _keep(self, centers: Floats, labels: Labels, inertia: float, iterations: int) -> Self:
        """Set the attributes of a fitted estimator, and return the estimator."""
        self._centers, self.labels_, self.n_iter_ = centers, labels, iterations
        self.inertia_ = inertia * float(self._coding.step[0]) ** 2
        self.cluster_centers_ = self._coding.floats(centers)
        self._n_features_out = self.n_clusters
        return self

    def _first_centers(self, rows: Int8, random: np.random.RandomState) -> Floats:
        if isinstance(self.init, str):
            if self.init == "random":
                return rows[random.choice(len(rows), self.n_clusters, replace=False)].astype(np.float64)
            if self.init == "k-means++":
                return rows[_spread(rows, self.n_clusters, random)].astype(np.float64)
            raise ValueError(f"init must be 'k-means++', 'random' or an array, got {self.init!r}")
        centers = np.asarray(self.init, np.float64)
        if centers.shape != (self.n_clusters, rows.shape[1]):
            raise ValueError(f"init must have shape {(self.n_clusters, rows.shape[1])}, got {centers.shape}")
        if not np.isfinite(centers).all():
            raise ValueError("init must be finite, got infinities or NaN")
        return np.clip((centers - self._coding.middle) / self._coding.step, -128, 127)


class MiniBatchKMeans(KMeans):
    """k-means clustering of bytes, with a few samples in each step, and with the attributes of scikit-learn's
    ``MiniBatchKMeans``.

    Parameters
    ----------
    n_clusters : int, optional
        The number of clusters.
    init : {'k-means++', 'random'} or array_like of shape (n_clusters, n_features), optional
        The first centers, as for :class:`KMeans`. The centers are drawn from three batches.
    n_init : int, optional
        The number of draws of first centers. The fit uses the draw for which three batches have the least inertia.
    max_iter : int, optional
        The maximum number of passes. The number of steps of a pass is the number of samples divided by `batch_size`.
    batch_size : int, optional
        The samples of a step, drawn at random.
    max_no_improvement : int or None, optional
        The fit ends after this number of successive steps in which the smoothed inertia of a batch has not decreased.
    reassignment_ratio : float, optional
        If a cluster has fewer samples than this fraction of the largest cluster's samples, its center moves to a sample
        of the batch.
    random_state : int, RandomState or None, optional
        The generator that draws first centers and batches.

    Attributes
    ----------
    cluster_centers_ : ndarray of float64
        The means of all samples that steps have assigned to each cluster, of shape (n_clusters, n_features).
    labels_ : ndarray of int32
        The cluster of each sample. After `partial_fit`, the clusters of the last samples.
    inertia_ : float
        The sum of squared distances of these samples, as bytes, to their centers.
    n_iter_, n_steps_ : int
        The number of passes that were begun, and the number of steps.

    See Also
    --------
    KMeans : uses all samples in each iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.sklearn import MiniBatchKMeans
    >>> x = np.array([[0, 0], [3, 4], [250, 255], [255, 255]] * 50, np.uint8)
    >>> found = MiniBatchKMeans(2, random_state=0).fit(x)
    >>> found.labels_[:4] == found.labels_[0]
    array([ True,  True, False, False])
    >>> found = MiniBatchKMeans(2, random_state=0)
    >>> for some in np.split(x, 4):
    ...     found = found.partial_fit(some)
    >>> found.n_steps_
    4
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
        batch_size: int = 1024,
        max_no_improvement: int | None = 10,
        reassignment_ratio: float = 0.01,
        random_state: Any = None,
    ) -> None:
        super().__init__(n_clusters, init=init, n_init=n_init, max_iter=max_iter, random_state=random_state)
        self.batch_size, self.max_no_improvement = batch_size, max_no_improvement
        self.reassignment_ratio = reassignment_ratio

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: N803
        """Find clusters.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Samples.
        y : None
            Not used.

        Returns
        -------
        self
            The estimator.
        """
        rows = self._first_rows(X, "n_clusters", "n_init", "max_iter", "batch_size")
        self._begin(rows)
        size, least, without = min(self.batch_size, len(rows)), np.inf, 0
        batches = max(1, len(rows) // size)
        smooth, weight = np.inf, min(1.0, 2 * size / (len(rows) + 1))
        for _ in range(self.max_iter * batches):
            batch = rows[self._random.randint(0, len(rows), size)]
            inertia = float(self._step(batch)[1].mean())
            smooth = inertia if smooth == np.inf else smooth * (1 - weight) + inertia * weight
            without = 0 if smooth < least else without + 1
            least = min(least, smooth)
            if self.max_no_improvement is not None and without >= self.max_no_improvement:
                break
        labels, distances = _assigned(rows, self._centers, _squares(rows))
        return self._keep(self._centers, labels, float(distances.sum()), -(-self.n_steps_ // batches))

    def partial_fit(self, X: Any, y: None = None) -> Self:  # noqa: N803
        """Update the centers with some samples. The first call chooses the quantization step of floats.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Samples.
        y : None
            Not used.

        Returns
        -------
        self
            The estimator.
        """
        if hasattr(self, "_centers"):
            if self.n_clusters != len(self._counts):
                raise ValueError(
                    f"n_clusters must be {len(self._counts)} as in the first call of partial_fit, got {self.n_clusters}"
                )
            rows = self._coding(validate_data(self, X, reset=False, order="C"))
        else:
            rows = self._first_rows(X, "n_clusters", "n_init", "batch_size")
            self._begin(rows)
        labels, distances = self._step(rows)
        return self._keep(self._centers, labels, float(distances.sum()), 1)

    def _begin(self, rows: Int8) -> None:
        """Choose the first centers, and reset the sums and counts of all clusters."""
        if not 0 <= real(self.reassignment_ratio, "reassignment_ratio") <= 1:
            raise ValueError(f"reassignment_ratio must be from 0 to 1, got {self.reassignment_ratio}")
        self._random, self.n_steps_ = check_random_state(self.random_state), 0
        some = rows[self._random.permutation(len(rows))[: max(3 * self.batch_size, self.n_clusters)]]
        starts = [
            self._first_centers(some, self._random) for _ in range(self.n_init if isinstance(self.init, str) else 1)
        ]
        self._centers = min(starts, key=lambda centers: _assigned(some, centers, _squares(some))[1].sum())
        self._sums, self._counts = np.zeros(self._centers.shape, np.int64), np.zeros(self.n_clusters, np.int64)

    def _step(self, rows: Int8) -> tuple[Labels, Floats]:
        """Assign rows to clusters, and move each center to the mean of all rows assigned so far. Return labels and
        distances."""
        labels, distances = _assigned(rows, self._centers, _squares(rows))
        _move(self._sums, rows, np.full(len(rows), -1, np.int32), labels)
        self._counts += np.bincount(labels, minlength=self.n_clusters)
        self.n_steps_ += 1
        if self.n_steps_ % (10 + int(self._counts.min())) == 0:
            few = np.flatnonzero(self._counts < self.reassignment_ratio * self._counts.max())[: len(rows) // 2]
            count = np.delete(self._counts, few).min()
            self._counts[few] = count
            self._sums[few] = rows[self._random.choice(len(rows), len(few), replace=False)].astype(np.int64) * count
        known = self._counts > 0
        self._centers[known] = self._sums[known] / self._counts[known, np.newaxis]
        return labels, distances


def _spread(rows: Int8, count: int, random: np.random.RandomState) -> list[int]:
    """Return numbers of rows, chosen by greedy k-means++. For each number, draw several rows, weighted by their squared
    distances to the chosen rows, and choose the row that gives the smallest sum of distances."""
    packed, trials = pack_b(rows, trans_b=True), 2 + int(np.log(count))
    chosen = [int(random.randint(len(rows)))]
    left = sqeuclidean(rows[chosen[0]], packed, dtype=np.int64)
    while len(chosen) < count:
        sums = np.cumsum(left)
        drawn = np.searchsorted(sums, random.uniform(size=trials) * sums[-1], side="right")
        drawn = np.minimum(drawn, len(rows) - 1)
        after = np.minimum(sqeuclidean(rows[drawn], packed, dtype=np.int64), left)
        best = int(np.argmin(after.sum(axis=1)))
        left = after[best]
        chosen.append(int(drawn[best]))
    return chosen


def _lloyd(rows: Int8, centers: Floats, most: int, tolerance: float) -> tuple[Floats, Labels, float, int]:
    """Return centers, labels, inertia and the number of iterations. Centers are rounded to bytes as long as iterations
    with rounded centers reduce the inertia."""
    squares = _squares(rows)
    variance = squares.mean() - np.square(rows.mean(axis=0)).sum()
    enough = tolerance * float(variance) / rows.shape[1]
    is_rounded, least, iterations = True, np.inf, 0
    labels, sums = np.full(len(rows), -1, np.int32), np.zeros(centers.shape, np.int64)
    while iterations < most:
        iterations += 1
        before = labels
        labels, distances = _assigned_to_bytes(rows, centers) if is_rounded else _assigned(rows, centers, squares)
        inertia = float(distances.sum())
        _move(sums, rows, before, labels)
        new = _means(sums, rows, labels, distances)
        moved = float(np.square(new - centers).sum())
        is_over = np.array_equal(labels, before) or moved <= enough or (is_rounded and inertia >= least)
        centers, least = new, min(least, inertia)
        if is_over and not is_rounded:
            if moved == 0:  # labels and distances already belong to the centers
                return centers, labels, inertia, iterations
            break
        is_rounded = is_rounded and not is_over
    labels, distances = _assigned(rows, centers, squares)
    return centers, labels, float(distances.sum()), iterations


def _assigned_to_bytes(rows: Int8, centers: Floats) -> tuple[Labels, Floats]:
    """Return the nearest center of each row, with centers rounded to bytes, and the squared distances."""
    packed = pack_b(np.rint(centers).astype(np.int8), trans_b=True)
    labels, distances = np.empty(len(rows), np.int32), np.empty(len(rows))
    for some in blocks(len(rows)):
        every = sqeuclidean(rows[some], packed)
        labels[some] = every.argmin(axis=1)
        distances[some] = _chosen(every, labels[some])
    return labels, distances


def _assigned(rows: Int8, centers: Floats, squares: Floats) -> tuple[Labels, Floats]:
    """Return the nearest center of each row, and the squared distances. The centers have 16 bits."""
    words, labels, distances = _words(centers), np.empty(len(rows), np.int32), np.empty(len(rows))
    for some in blocks(len(rows)):
        terms = _terms(words, rows[some])
        labels[some] = terms.argmin(axis=1)
        distances[some] = squares[some] + _chosen(terms, labels[some])
    return labels, np.maximum(distances, 0)


def _chosen(every: npt.NDArray[Any], labels: Labels) -> npt.NDArray[Any]:
    return np.take_along_axis(every, labels[:, np.newaxis], axis=1)[:, 0]


def _words(centers: Floats) -> Words:
    return Words(centers, np.full(len(centers), 1 / 256))


def _terms(words: Words, rows: Int8) -> Floats:
    """Return the squared distances of rows to centers, minus the sums of squares of the rows."""
    terms = words.products(rows)
    terms *= -2
    terms += np.einsum("kd,kd->k", words.held, words.held)
    return terms


def _squares(rows: Int8) -> Floats:
    return sqeuclidean(rows, np.zeros(rows.shape[1], np.int8)).astype(np.float64)


def _move(sums: npt.NDArray[np.int64], rows: Int8, before: Labels, labels: Labels) -> None:
    """Update the exact sums of clusters for the rows that have changed their cluster. The update multiplies the changed
    rows by a matrix of -1, 0 and 1. Before the first assignment all labels are -1 and all sums are 0."""
    clusters, changed = np.arange(len(sums)), np.flatnonzero(labels != before)
    for start in range(0, len(changed), COUNTED):
        some = changed[start : start + COUNTED]
        signs = (labels[some] == clusters[:, np.newaxis]).view(np.int8) - (before[some] == clusters[:, np.newaxis])
        sums += matmul(signs, rows[some], dtype=np.int64)


def _means(sums: npt.NDArray[np.int64], rows: Int8, labels: Labels, distances: Floats) -> Floats:
    sizes = np.bincount(labels, minlength=len(sums))
    means = sums / np.maximum(sizes, 1)[:, np.newaxis]
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        means[empty] = rows[np.argsort(-distances, kind="stable")[: len(empty)]]
    return means
