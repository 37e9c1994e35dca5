"""``quantize_estimator``: predictions of scikit-learn's perceptrons by dynamic int8 layers."""

from __future__ import annotations

import copy
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.utils.validation import check_is_fitted, validate_data

from int8blas.layers.inner_product import InnerProduct
from int8blas.stage.attributes import Attributes, Eltwise

# The number of rows that pass through all layers at a time, so that the outputs of a layer stay in the L2 cache.
BLOCK = 256


class _Int8Predictions(BaseEstimator):
    """The methods that replace a perceptron's layers in predictions."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def fit(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise TypeError("a quantized estimator only predicts: fit the one that was given to quantize_estimator")

    partial_fit = fit

    def _forward_pass_fast(self, X: Any, check_input: bool = True) -> npt.NDArray[np.float32]:  # noqa: N803
        # scikit-learn's perceptrons call this method for all predictions.
        x = (validate_data(self, X, reset=False) if check_input else X).astype(np.float32, copy=False)
        result = np.empty((len(x), self.n_outputs_), np.float32)
        for start in range(0, len(x), BLOCK):
            rows = np.ascontiguousarray(x[start : start + BLOCK])
            for layer in self._layers:
                rows = layer(rows)
            result[start : start + BLOCK] = rows
        if self.out_activation_ == "softmax":
            return softmax(result, axis=1)
        return expit(result) if self.out_activation_ == "logistic" else result


class Int8MLPClassifier(_Int8Predictions, MLPClassifier):
    """An ``MLPClassifier`` that predicts in int8. :func:`quantize_estimator` creates it."""


class Int8MLPRegressor(_Int8Predictions, MLPRegressor):
    """An ``MLPRegressor`` that predicts in int8. :func:`quantize_estimator` creates it."""


def quantize_estimator(estimator: Any) -> Any:
    """Copy a perceptron. The copy predicts in int8.

    Parameters
    ----------
    estimator : MLPClassifier or MLPRegressor
        A fitted estimator, which is not changed.

    Returns
    -------
    MLPClassifier or MLPRegressor
        A copy for predictions, with all attributes. The weights of the copy have a scale for each unit. Each layer
        quantizes each sample with a separate scale (:meth:`int8blas.InnerProduct.dynamic`).

    Raises
    ------
    TypeError
        If `estimator` has another type.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neural_network import MLPClassifier
    >>> from int8blas.sklearn import quantize_estimator
    >>> x, y = load_digits(return_X_y=True)
    >>> mlp = MLPClassifier(100, max_iter=50, random_state=0, tol=0.01).fit(x, y)
    >>> bool((quantize_estimator(mlp).predict(x) == mlp.predict(x)).mean() > 0.99)
    True
    """
    kinds = {MLPClassifier: Int8MLPClassifier, MLPRegressor: Int8MLPRegressor}
    if type(estimator) not in kinds:
        raise TypeError(f"estimator must be MLPClassifier or MLPRegressor, got {type(estimator).__name__}")
    check_is_fitted(estimator)
    layers, last = [], len(estimator.coefs_) - 1
    for i, (weights, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        is_plain = i == last or estimator.activation == "identity"
        attributes = None if is_plain else Attributes(post_ops=[Eltwise(estimator.activation)])
        layers.append(InnerProduct.dynamic(weights.T, bias, attributes=attributes))
    quantized = copy.copy(estimator)
    quantized.__class__ = kinds[type(estimator)]
    quantized._layers = layers
    return quantized
