"""``PCA``: principal components from the exact covariance of bytes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from int8blas.gemm.matmul import matmul
from int8blas.sklearn.coding import Coding, Floats, Words, blocks

# The number of samples whose products are added in int32. int32 holds the sums of 131,071 products.
ADDED = 1 << 16


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components of bytes, with the attributes of scikit-learn's ``PCA``.

    Parameters
    ----------
    n_components : int, optional
        The number of components. The default is the number of samples or of features, whichever is smaller.

    Attributes
    ----------
    components_ : ndarray of float64
        The directions of the largest variance, of shape (n_components, n_features). In each direction the element with
        the largest magnitude is positive.
    explained_variance_, explained_variance_ratio_ : ndarray of float64
        The variance of each component, and its fraction of the total variance.
    singular_values_ : ndarray of float64
        The singular values of the centered samples.
    mean_ : ndarray of float64
        The mean of each feature.
    n_components_ : int
        The number of components.

    Notes
    -----
    The covariance is computed exactly from integers. uint8 and int8 samples are the integers themselves. Samples of
    other dtypes become int8, with a scale for each feature. Samples are projected on components in 16 bits, with exact
    products. The error of a projection is about 1e-4 of the largest element of the result. Samples of bytes may be
    mapped from a file, because the fit reads them once, block by block.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.sklearn import PCA
    >>> x = np.array([[0, 0], [10, 20], [20, 40], [40, 80]], np.uint8)
    >>> found = PCA(1).fit(x)
    >>> found.explained_variance_ratio_, found.transform(x).round(1)[:, 0]
    (array([1.]), array([-39.1, -16.8,   5.6,  50.3]))
    """

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: N803
        """Find components.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Samples, at least two.
        y : None
            Not used.

        Returns
        -------
        self
            The estimator.
        """
        x = validate_data(self, X, order="C", ensure_min_samples=2)
        count, most = len(x), min(x.shape)
        components = most if self.n_components is None else self.n_components
        if not 1 <= components <= most:
            raise ValueError(f"n_components must be between 1 and min(n_samples, n_features)={most}, got {components}")
        self._coding = Coding(x, one_step=False)
        sums, gram = np.zeros(x.shape[1], np.int64), np.zeros((x.shape[1],) * 2, np.int64)
        for start in range(0, count, ADDED):
            rows = self._coding(x[start : start + ADDED])
            sums += rows.sum(axis=0, dtype=np.int64)
            gram += matmul(rows.T, rows)
        covariance = (gram - np.outer(sums, sums / count)) / (count - 1)
        covariance *= np.outer(self._coding.step, self._coding.step)
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1].T
        vectors = vectors[:components] * np.sign(
            np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, np.newaxis], axis=1)[:components]
        )
        total = float(values.sum())
        self.components_, self.n_components_ = vectors, components
        self.mean_ = self._coding.floats(sums / count)
        self.explained_variance_ = values[:components]
        self.explained_variance_ratio_ = values[:components] / (total if total > 0 else 1.0)
        self.singular_values_ = np.sqrt(values[:components] * (count - 1))
        self._n_features_out = components
        self._words = Words(vectors * self._coding.step)
        self._offset = self._words.held @ (sums / count)
        return self

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Project samples on the components.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of float64
            Projections of shape (n_samples, n_components).
        """
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, order="C")
        result = np.empty((len(x), self.n_components_))
        for some in blocks(len(x)):
            np.subtract(self._words.products(self._coding(x[some])), self._offset, out=result[some])
        return result

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the samples that projections stand for.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_components)
            Projections.

        Returns
        -------
        ndarray of float64
            Samples of shape (n_samples, n_features).
        """
        check_is_fitted(self)
        samples: Floats = check_array(X) @ self.components_ + self.mean_
        return samples
