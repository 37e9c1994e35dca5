"""Fold the operation before or after a float32 layer into the layer's weights and bias, before they are quantized.

Both functions compute in float64 and round to float32 once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import widened
from int8blas.core.parameters import real
from int8blas.core.words import dtype_name, shown

__all__ = ["fold_batch_norm", "shifted_bias"]

Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]


def fold_batch_norm(
    weights: npt.ArrayLike,
    bias: npt.ArrayLike | None,
    gamma: npt.ArrayLike,
    beta: npt.ArrayLike,
    mean: npt.ArrayLike,
    variance: npt.ArrayLike,
    epsilon: float = 1e-5,
) -> tuple[Float32s, Float32s]:
    """Fold a batch normalization into the weights and the bias of the layer before it.

    With y = W x + b, the folded layer computes gamma * (y - mean) / sqrt(variance + epsilon) + beta::

        W'[oc] = W[oc] * gamma[oc] / sqrt(variance[oc] + epsilon)
        b'[oc] = (b[oc] - mean[oc]) * gamma[oc] / sqrt(variance[oc] + epsilon) + beta[oc]

    Parameters
    ----------
    weights : array_like
        Weights of a linear layer or a convolution, (oc, ic, ...). All arguments are real and finite. Weights with
        groups have the shape (oc, ic / groups, ...).
    bias : array_like or None
        The bias, of shape (oc,). None stands for zeros.
    gamma, beta : array_like
        The factor and the addend of the normalized output, of shape (oc,).
    mean, variance : array_like
        Statistics of the layer's output in training, of shape (oc,).
    epsilon : float, optional
        The number that is added to the variance, at least 0.

    Returns
    -------
    weights : ndarray of float32
        The folded weights, with the shape of `weights`.
    bias : ndarray of float32
        The folded bias, of shape (oc,).

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above, variance + epsilon is not positive, or a result exceeds float32.

    Notes
    -----
    The method is described in "Batch Normalization" in Intel's article "Accelerate Lower Numerical Precision Inference
    with Intel Deep Learning Boost". Folding is valid for inference, where mean and variance are constants, if nothing
    lies between the layer and the normalization. Compute the scales of weights after folding.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> weights = np.array([[1, -2], [3, 4]], np.float32)
    >>> int8blas.fold_batch_norm(weights, None, gamma=[2, 1], beta=[0, 1], mean=[3, -1], variance=[4, 0.25], epsilon=0)
    (array([[ 1., -2.],
           [ 6.,  8.]], dtype=float32), array([-3.,  3.], dtype=float32))
    """
    w = _weights(weights)
    b = np.zeros(len(w)) if bias is None else _per_channel(bias, "bias", w)
    multiplier, addend = _per_channel(gamma, "gamma", w), _per_channel(beta, "beta", w)
    means, variances = _per_channel(mean, "mean", w), _per_channel(variance, "variance", w)
    small = real(epsilon, "epsilon")
    if not 0 <= small < math.inf:
        raise ValueError(f"epsilon must be finite and at least 0, got {shown(epsilon)}")
    if variances.min(initial=math.inf) < 0:
        raise ValueError(f"variance must not be negative, got {variances.min()}")
    if variances.min(initial=math.inf) + small == 0:
        raise ValueError("variance must be positive where epsilon is 0, got 0.0")
    with np.errstate(over="ignore", invalid="ignore"):  # _rounded raises the error
        factor = multiplier / np.sqrt(variances + small)
        folded = w * factor.reshape(-1, *(1,) * (w.ndim - 1))
        folded_bias = (b - means) * factor + addend
    return _rounded(folded, "weights", "once folded"), _rounded(folded_bias, "bias", "once folded")


def shifted_bias(bias: npt.ArrayLike | None, weights: npt.ArrayLike, shift: float) -> Float32s:
    """Return the bias with which a layer gives the result of x for the shifted source x + shift.

    ::

        b'[oc] = b[oc] - shift * (sum of all W[oc])        so that W (x + shift) + b' = W x + b

    Parameters
    ----------
    bias : array_like or None
        The bias, of shape (oc,), real and finite. None stands for zeros.
    weights : array_like
        Weights of a linear layer or a convolution, (oc, ic, ...), real and finite. Weights with groups have the shape
        (oc, ic / groups, ...).
    shift : float
        The number that is added to each element of the source, in the source's units. To convert an int8 source to
        uint8, pass 128 if the weights are int8, or 128 times the source's scale if the bias and the weights are in real
        units. If a layer was trained on pixels minus their mean and gets plain pixels, the shift is the mean.

    Returns
    -------
    ndarray of float32
        The shifted bias, of shape (oc,).

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above, or a result exceeds float32.

    Notes
    -----
    The method is described in "8-bit Quantization of Activations or Inputs with Negative Values" and Appendix A of
    Intel's article "Accelerate Lower Numerical Precision Inference with Intel Deep Learning Boost". The padding of a
    convolution must be shifted too. The layers of int8blas shift the bias and the padding themselves for an int8
    source, or for a source with a zero point. Other libraries and formats may need `shifted_bias`.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> weights = np.array([[1, -2, 3], [0, 1, 0]], np.int8)
    >>> x = np.array([-100, 0, 27])
    >>> bias = int8blas.shifted_bias([5, 6], weights, 128)
    >>> bias
    array([-251., -122.], dtype=float32)
    >>> weights @ (x + 128) + bias
    array([-14.,   6.])
    >>> weights @ x + [5, 6]
    array([-14,   6])
    """
    w = _weights(weights)
    b = np.zeros(len(w)) if bias is None else _per_channel(bias, "bias", w)
    amount = real(shift, "shift")
    if not math.isfinite(amount):
        raise ValueError(f"shift must be finite, got {shown(shift)}")
    with np.errstate(over="ignore", invalid="ignore"):  # _rounded raises the error
        shifted = b - amount * w.sum(axis=tuple(range(1, w.ndim)))
    return _rounded(shifted, "bias", "once shifted")


def _finite(values: Any, name: str) -> Float64s:
    """Check that real numbers of any shape are finite, and convert them to float64."""
    array = widened(values, name)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be real numbers, got {dtype_name(array.dtype)}")
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(numbers)][0]}")
    return numbers


def _weights(weights: Any) -> Float64s:
    """Check weights (oc, ic, ...), and convert them to float64."""
    numbers = _finite(weights, "weights")
    if numbers.ndim < 2:
        raise ValueError(f"weights must have shape (oc, ic, ...), got {numbers.shape}")
    return numbers


def _per_channel(values: Any, name: str, weights: Float64s) -> Float64s:
    """Check that there is a value for each output channel, and convert the values to float64."""
    numbers = _finite(values, name)
    if numbers.shape != weights.shape[:1]:
        raise ValueError(f"{name} must have shape {weights.shape[:1]}, as weights have shape {weights.shape}, "
                         f"got {numbers.shape}")  # fmt: skip
    return numbers


def _rounded(values: Float64s, name: str, when: str) -> Float32s:
    """Round a result to float32. Raise an error if the result is not finite."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(np.float32)
    if not np.isfinite(rounded).all():
        raise ValueError(f"{name} must be finite in float32 {when}, got {values[~np.isfinite(rounded)][0]}")
    return rounded
