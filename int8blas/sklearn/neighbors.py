"""scikit-learn's estimators of neighbors, with the search of :class:`int8blas.Index`.

scikit-learn's classes check arguments, store samples and labels, vote and average. Only the search is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn import neighbors
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from int8blas.neighbors.index import CANDIDATES, Index, ranked
from int8blas.sklearn.coding import Coding, is_bytes

METRICS = {"euclidean": "sqeuclidean", "cosine": "cosine"}


class _Search:
    """Find the nearest samples. For bytes, the search is exact. For floats, the search finds candidates in int8 and
    ranks them by the floats."""

    def __init__(self, x: npt.NDArray[Any], metric: str) -> None:
        self.metric = METRICS[metric]
        # Cosines use uncentered samples, each with its own step.
        self.coding = Coding(x, one_step=True) if metric == "euclidean" or is_bytes(x) else None
        self.floats = None if is_bytes(x) else x
        rows = self._rows(x)
        self.index = Index(x.shape[1], self.metric, rows.dtype if is_bytes(rows) else np.int8)  # type: ignore[arg-type]
        self.index.add(rows)

    def __call__(self, x: npt.NDArray[Any], k: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return distances and numbers of the k nearest samples."""
        rows = self._rows(x)
        if self.floats is None:
            scores, ids = self.index.search(rows, k)
        else:
            _, ids = self.index.search(rows, CANDIDATES * k)
            scores, ids = ranked(self.metric, x, ids, k, self.floats.__getitem__)
        return np.sqrt(scores) if self.metric == "sqeuclidean" else 1 - scores, ids

    def _rows(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return samples in the form that the index needs: bytes, or floats for cosines."""
        if self.coding is None:
            return x.astype(np.float64, copy=False)
        rows = self.coding(x)
        return x.astype(self.coding.dtype, copy=False) if self.metric == "cosine" else rows


class _Neighbors(BaseEstimator):
    """The methods that replace scikit-learn's search."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Store samples, and their labels or values.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Samples. The search is exact for uint8 and int8.
        y : array_like, optional
            The labels or values of the samples, for classifiers and regressors.

        Returns
        -------
        self
            The estimator.
        """
        if self.metric not in METRICS:
            raise ValueError(f"metric must be 'euclidean' or 'cosine', got {self.metric!r}")
        if hasattr(X, "tocsr"):
            raise TypeError(f"X must be dense, got a sparse {type(X).__name__}: give X.toarray()")
        super().fit(X, y)
        self._search = _Search(self._fit_X, self.metric)
        return self

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True  # noqa: N803
    ) -> Any:  # fmt: skip
        """Find the nearest samples, as scikit-learn's method does.

        Parameters
        ----------
        X : array_like, optional
            Queries. By default all samples are queries, and no sample is a neighbor of itself.
        n_neighbors : int, optional
            The number of neighbors; by default the estimator's.
        return_distance : bool, optional
            Whether to return distances too.

        Returns
        -------
        distances : ndarray of float64
            Nearest first, of shape (n_queries, n_neighbors), if `return_distance` is true.
        indices : ndarray of int64
            The numbers of the samples. If distances are equal, lower numbers come first.
        """
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, (int, np.integer)):
            raise TypeError(f"n_neighbors does not take {type(k)} value, enter integer value")
        if k <= 0:
            raise ValueError(f"Expected n_neighbors > 0. Got {k}")
        count = self.n_samples_fit_
        rows = self._fit_X if X is None else validate_data(self, X, reset=False, order="C")
        if k + (X is None) > count:
            raise ValueError(
                f"Expected n_neighbors {'<' if X is None else '<='} n_samples_fit, but n_neighbors = {k}, "
                f"n_samples_fit = {count}, n_samples = {len(rows)}"
            )
        distances, indices = self._search(rows, int(k) + (X is None))
        if X is None:
            other = indices != np.arange(count)[:, np.newaxis]
            other[other.all(axis=1), -1] = False  # k equal samples come before the sample itself
            distances, indices = (array[other].reshape(count, k) for array in (distances, indices))
        return (distances, indices) if return_distance else indices


class NearestNeighbors(_Neighbors, neighbors.NearestNeighbors):
    """scikit-learn's ``NearestNeighbors`` with a search of 8-bit vectors.

    Parameters
    ----------
    n_neighbors : int, optional
        The number of neighbors that `kneighbors` finds.
    radius : float, optional
        The radius for `radius_neighbors`, which scikit-learn computes.
    metric : {'euclidean', 'cosine'}, optional
        The distance, or 1 minus the cosine.

    Notes
    -----
    The search is exact for uint8 and int8 samples. For samples of other dtypes, the search finds four candidates in
    int8 for each neighbor, and ranks the candidates by the distances of their floats. The distances are exact for the
    floats, but a true neighbor may be missing.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.sklearn import NearestNeighbors
    >>> x = np.array([[0, 0], [3, 4], [255, 255]], np.uint8)
    >>> NearestNeighbors(n_neighbors=1).fit(x).kneighbors()
    (array([[  5.        ],
           [  5.        ],
           [355.67541383]]), array([[1],
           [0],
           [1]]))
    """

    def __init__(
        self, *, n_neighbors: int = 5, radius: float = 1.0, metric: Literal["euclidean", "cosine"] = "euclidean"
    ) -> None:
        super().__init__(n_neighbors=n_neighbors, radius=radius, algorithm="brute", metric=metric)


class KNeighborsTransformer(_Neighbors, neighbors.KNeighborsTransformer):
    """scikit-learn's ``KNeighborsTransformer`` with a search of 8-bit vectors.

    ``KNeighborsTransformer`` returns a sparse graph for other estimators of scikit-learn.

    Parameters
    ----------
    mode : {'distance', 'connectivity'}, optional
        The values of the graph: distances, or ones.
    n_neighbors : int, optional
        The number of neighbors of each sample.
    metric : {'euclidean', 'cosine'}, optional
        As for :class:`NearestNeighbors`.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.sklearn import KNeighborsTransformer
    >>> x = np.array([[0, 0], [3, 4], [255, 255]], np.uint8)
    >>> KNeighborsTransformer(n_neighbors=1).fit_transform(x).toarray()
    array([[  0.        ,   5.        ,   0.        ],
           [  5.        ,   0.        ,   0.        ],
           [  0.        , 355.67541383,   0.        ]])
    """

    def __init__(
        self,
        *,
        mode: Literal["distance", "connectivity"] = "distance",
        n_neighbors: int = 5,
        metric: Literal["euclidean", "cosine"] = "euclidean",
    ) -> None:
        super().__init__(mode=mode, n_neighbors=n_neighbors, algorithm="brute", metric=metric)


class _Voting(_Neighbors):
    """The methods of estimators with a value for each sample."""

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: str | Callable[[Any], Any] | None = "uniform",
        metric: Literal["euclidean", "cosine"] = "euclidean",
    ) -> None:
        super().__init__(n_neighbors=n_neighbors, weights=weights, algorithm="brute", metric=metric)

    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]  # noqa: N803
        return super().fit(X, y)


class KNeighborsClassifier(_Voting, neighbors.KNeighborsClassifier):
    """scikit-learn's ``KNeighborsClassifier`` with a search of 8-bit vectors.

    Parameters
    ----------
    n_neighbors : int, optional
        The number of neighbors that vote.
    weights : {'uniform', 'distance'} or callable, optional
        The weights of votes.
    metric : {'euclidean', 'cosine'}, optional
        As for :class:`NearestNeighbors`.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.sklearn import KNeighborsClassifier
    >>> x = np.array([[0, 0], [3, 4], [255, 255]], np.uint8)
    >>> KNeighborsClassifier(n_neighbors=1).fit(x, ["a", "a", "b"]).predict(x[1:])
    array(['a', 'b'], dtype='<U1')
    """

    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]  # noqa: N803
        super().fit(X, y)
        self._fit_method = "int8"  # with "brute" scikit-learn would count votes in its own search
        return self


class KNeighborsRegressor(_Voting, neighbors.KNeighborsRegressor):
    """scikit-learn's ``KNeighborsRegressor`` with a search of 8-bit vectors.

    Parameters
    ----------
    n_neighbors : int, optional
        The number of neighbors that are averaged.
    weights : {'uniform', 'distance'} or callable, optional
        The weights of the neighbors.
    metric : {'euclidean', 'cosine'}, optional
        As for :class:`NearestNeighbors`.

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.sklearn import KNeighborsRegressor
    >>> x = np.array([[0, 0], [3, 4], [255, 255]], np.uint8)
    >>> KNeighborsRegressor(n_neighbors=2).fit(x, [1.0, 2.0, 3.0]).predict(x)
    array([1.5, 1.5, 2.5])
    """
