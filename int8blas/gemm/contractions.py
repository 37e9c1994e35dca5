"""Contractions of two integer arrays over any axes, each by one call of ``matmul``."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.parameters import integer
from int8blas.core.words import shown
from int8blas.gemm.integers import operand, output_for
from int8blas.gemm.matmul import matmul

_Axes = Sequence[int]


def dot(a: Any, b: Any, out: Any = None, *, dtype: Any = None, overflow: Any = "saturate", mod: Any = None) -> Any:
    """Return the exact sum of products over the last axis of `a` and the second-to-last of `b`, as :func:`numpy.dot`.

    Parameters
    ----------
    a, b : array_like of integers or bool
        Arrays of any dimensions. The only axis of a vector is summed; a scalar multiplies the other operand.
    out : ndarray of integers, optional
        The array to store the result in, of the result's shape, with any strides.
    dtype, overflow, mod
        As for :func:`matmul`.

    Returns
    -------
    ndarray of integers
        ``out`` if it is given; a scalar if the result has no axis. The dtype is as for :func:`matmul`.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As from :func:`matmul`.

    Examples
    --------
    >>> import int8blas
    >>> int8blas.dot([[1, 2], [3, 4]], [10, 1])
    array([12, 34])
    """
    x, y = operand(a, "a"), operand(b, "b")
    if out is None and x.ndim and y.ndim in (1, 2) and x.shape[-1] == y.shape[0]:
        return matmul(x, y, dtype=dtype, overflow=overflow, mod=mod)
    axes = ((), ()) if x.ndim == 0 or y.ndim == 0 else ((x.ndim - 1,), (max(0, y.ndim - 2),))
    return _contract(x, y, (), (), *axes, out=out, dtype=dtype, overflow=overflow, mod=mod)


def inner(a: Any, b: Any, *, dtype: Any = None, overflow: Any = "saturate", mod: Any = None) -> Any:
    """Return the exact sum of products over the last axes of both operands, as :func:`numpy.inner`.

    Parameters
    ----------
    a, b : array_like of integers or bool
        Arrays of any dimensions. A scalar multiplies the other operand.
    dtype, overflow, mod
        As for :func:`matmul`.

    Returns
    -------
    ndarray of integers
        An array with the remaining axes of `a`, then the remaining axes of `b`; a scalar if none remain.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As from :func:`matmul`.

    Examples
    --------
    >>> import int8blas
    >>> int8blas.inner([[1, 2], [3, 4]], [[10, 1], [0, 1]])
    array([[12,  2],
           [34,  4]])
    """
    x, y = operand(a, "a"), operand(b, "b")
    if x.ndim and y.ndim in (1, 2) and x.shape[-1] == y.shape[-1]:
        return matmul(x, y.T, dtype=dtype, overflow=overflow, mod=mod)
    axes = ((), ()) if x.ndim == 0 or y.ndim == 0 else ((x.ndim - 1,), (y.ndim - 1,))
    return _contract(x, y, (), (), *axes, dtype=dtype, overflow=overflow, mod=mod)


def vecdot(a: Any, b: Any, *, axis: int = -1, dtype: Any = None, overflow: Any = "saturate", mod: Any = None) -> Any:
    """Return the exact dot products of the vectors along an axis, as :func:`numpy.vecdot`.

    Parameters
    ----------
    a, b : array_like of integers or bool
        Arrays of vectors. All other axes are broadcast.
    axis : int, optional
        The axis of the vectors in both arrays.
    dtype, overflow, mod
        As for :func:`matmul`.

    Returns
    -------
    ndarray of integers
        One number for each pair of vectors; a scalar if there is one pair.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As from :func:`matmul`.

    Examples
    --------
    >>> import int8blas
    >>> int8blas.vecdot([[1, 2], [3, 4]], [[10, 1], [0, 1]])
    array([12,  4])
    """
    arrays = []
    for x, name in ((operand(a, "a"), "a"), (operand(b, "b"), "b")):
        arrays.append(np.moveaxis(x, _axis(axis, "axis", x.ndim, name), -1))
    x, y = arrays
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"b must have {x.shape[-1]} elements along axis {axis}, as a has, got {y.shape[-1]}")
    product = matmul(x[..., None, :], y[..., :, None], dtype=dtype, overflow=overflow, mod=mod)
    return product.reshape(product.shape[:-2])[()]


def _listed(axes: Any) -> Any:
    """Return an array of axes as lists of Python's numbers, and anything else unchanged."""
    return axes.tolist() if isinstance(axes, np.ndarray) else axes


def tensordot(a: Any, b: Any, axes: Any = 2, *, dtype: Any = None, overflow: Any = "saturate", mod: Any = None) -> Any:
    """Return the exact sum of products over pairs of axes, as :func:`numpy.tensordot`.

    Parameters
    ----------
    a, b : array_like of integers or bool
        Arrays of any dimensions.
    axes : int, or a pair of axes or of sequences of axes, optional
        The summed axes. An integer n sums over the last n axes of `a` and the first n axes of `b`. A pair lists the
        axes of `a` and the axes of `b`.
    dtype, overflow, mod
        As for :func:`matmul`.

    Returns
    -------
    ndarray of integers
        An array with the remaining axes of `a`, then the remaining axes of `b`; a scalar if none remain.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As from :func:`matmul`.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    >>> int8blas.tensordot(x, x, ([1, 2], [1, 2]))
    array([[ 506, 1298],
           [1298, 3818]], dtype=int32)
    """
    x, y = operand(a, "a"), operand(b, "b")
    axes = _listed(axes)
    if isinstance(axes, (tuple, list, range)):
        if len(axes) != 2:
            raise ValueError(f"axes must be an integer or a pair, got {len(axes)} elements")
        pair = [tuple(one) if isinstance(one, (tuple, list, range)) else (one,) for one in map(_listed, axes)]
    else:
        count = integer(axes, "axes")
        if not 0 <= count <= min(x.ndim, y.ndim):
            raise ValueError(f"axes must be from 0 to {min(x.ndim, y.ndim)}, the dimensions of both, got {count}")
        pair = [tuple(range(x.ndim - count, x.ndim)), tuple(range(count))]
    x_axes, y_axes = (
        tuple(_axis(one, "axes", array.ndim, name) for one in some)
        for some, array, name in zip(pair, (x, y), "ab", strict=True)
    )
    if len(x_axes) != len(y_axes):
        raise ValueError(f"axes must list equal numbers of axes of a and b, got {len(x_axes)} and {len(y_axes)}")
    for name, some in (("a", x_axes), ("b", y_axes)):
        if len(set(some)) != len(some):
            raise ValueError(f"axes must name an axis of {name} once, got {list(some)}")
    return _contract(x, y, (), (), x_axes, y_axes, dtype=dtype, overflow=overflow, mod=mod)


def einsum(
    subscripts: str, a: Any, b: Any, *, out: Any = None, dtype: Any = None, overflow: Any = "saturate", mod: Any = None
) -> Any:
    """Return the exact sum of products that Einstein's notation gives, as :func:`numpy.einsum` of two operands.

    Parameters
    ----------
    subscripts : str
        A letter for each axis of both operands, such as ``"bij,jk->bik"``. Without ``->`` the result has the letters
        that occur once, in alphabetical order. A letter has one size; ``...`` stands for broadcast axes. A letter that
        occurs twice in one operand takes its diagonal. A letter that the result lacks must occur in both operands.
    a, b : array_like of integers or bool
        Arrays of any dimensions.
    out, dtype, overflow, mod
        As for :func:`dot`.

    Returns
    -------
    ndarray of integers
        As from :func:`dot`.

    Raises
    ------
    TypeError, ValueError, OverflowError
        As for :func:`dot`, and if `subscripts` are not as described above.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.arange(6, dtype=np.int8).reshape(3, 2)
    >>> int8blas.einsum("ki,kj->ij", x, x)
    array([[20, 26],
           [26, 35]], dtype=int32)
    """
    x, y = operand(a, "a"), operand(b, "b")
    first, second, result = _terms(subscripts, x.ndim, y.ndim)
    x, first = _diagonal(x, first, "a")
    y, second = _diagonal(y, second, "b")
    shared = [one for one in first if one in second]
    for one in shared:
        sizes = x.shape[first.index(one)], y.shape[second.index(one)]
        if sizes[0] != sizes[1] and (1 not in sizes or one not in result or one.isalpha()):
            label = one if one.isalpha() else "..."
            raise ValueError(f"b must have {sizes[0]} elements along {label!r}, as a has, got {sizes[1]}")
    for one in {*first, *second} - {*shared, *result}:
        raise ValueError(f"subscripts must have {one!r} in both operands or in the result, got {subscripts!r}: "
                         f"sum this axis of {'a' if one in first else 'b'} first")  # fmt: skip
    batch, summed = [one for one in shared if one in result], [one for one in shared if one not in result]
    order = [*batch, *(one for one in first if one not in shared), *(one for one in second if one not in shared)]
    places = [[term.index(one) for one in some] for some in (batch, summed) for term in (first, second)]
    return _contract(x, y, *places, out=out, order=[order.index(one) for one in result], dtype=dtype,
                     overflow=overflow, mod=mod)  # fmt: skip


def _axis(axis: Any, argument: str, ndim: int, name: str) -> int:
    """Return the non-negative number of an axis."""
    found = integer(axis, argument)
    if ndim == 0:
        raise ValueError(f"{name} must have at least 1 dimension, got a scalar")
    if not -ndim <= found < ndim:
        raise ValueError(f"{argument} must be an axis of {name}, which has {ndim} dimensions, got {found}")
    return found % ndim


def _terms(subscripts: str, *dims: int) -> list[list[str]]:
    """Return the labels of the axes of both operands and of the result: letters, or numbers for the axes of ``...``."""
    if not isinstance(subscripts, str):
        raise TypeError(f"subscripts must be a string, got {type(subscripts).__name__}")
    left, arrow, result = subscripts.replace(" ", "").partition("->")
    texts = left.split(",")
    for text in (*texts, result):
        letters = text.replace("...", "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise ValueError(f"subscripts must be letters, '...', ',' and '->', got {shown(subscripts)}")
    if len(texts) != 2:
        raise ValueError(f"subscripts must have two operands, got {len(texts)} in {shown(subscripts)}")
    terms = []
    for text, ndim, name in zip(texts, dims, "ab", strict=True):
        hidden = ndim - len(text.replace("...", ""))
        if hidden < 0 or (hidden > 0 and "..." not in text):
            raise ValueError(f"{name} must have the axes {text!r} of subscripts, got {ndim} dimensions")
        terms.append(_labels(text, hidden))
    hidden = max(0, *(len([one for one in term if not one.isalpha()]) for term in terms))
    if arrow:
        terms.append(_labels(result, hidden if "..." in result else 0))
        if hidden and "..." not in result:
            raise ValueError(f"subscripts must have '...' in the result, got {shown(subscripts)}")
    else:
        both = [*terms[0], *terms[1]]
        terms.append(_labels("...", hidden) + sorted(one for one in both if one.isalpha() and both.count(one) == 1))
    for one in terms[2]:
        if terms[2].count(one) > 1 or (one not in terms[0] and one not in terms[1]):
            raise ValueError(f"subscripts must have {one!r} in an operand and once in the result, got {subscripts!r}")
    return terms


def _labels(text: str, hidden: int) -> list[str]:
    """Return the labels of a term whose ``...`` stands for `hidden` axes, numbered from the right, beginning at 1."""
    before, _, after = text.partition("...")
    return [*before, *(str(i) for i in range(hidden, 0, -1)), *after]


def _diagonal(x: npt.NDArray[Any], labels: list[str], name: str) -> tuple[npt.NDArray[Any], list[str]]:
    """Merge repeated labels into a diagonal view."""
    once = list(dict.fromkeys(labels))
    if len(once) == len(labels):
        return x, labels
    for one in once:
        sizes = {size for size, label in zip(x.shape, labels, strict=True) if label == one}
        if len(sizes) > 1:
            raise ValueError(f"{name} must have axes {one!r} of one size, got shape {x.shape}")
    numbers = [once.index(one) for one in labels]
    return np.einsum(x, numbers, list(range(len(once)))), once


def _contract(
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    x_batch: _Axes,
    y_batch: _Axes,
    x_summed: _Axes,
    y_summed: _Axes,
    *,
    out: npt.NDArray[Any] | None = None,
    order: _Axes | None = None,
    dtype: Any,
    overflow: Any,
    mod: Any,
) -> Any:
    """Return the product over the summed axes. The axes of the result are the axes of the batch, then the remaining
    axes of x and of y, permuted by `order`."""
    for i, j in zip(x_summed, y_summed, strict=True):
        if x.shape[i] != y.shape[j]:
            raise ValueError(f"b must have {x.shape[i]} elements along axis {j}, as a has along axis {i}, got "
                             f"{y.shape[j]}")  # fmt: skip
    x_rest = [axis for axis in range(x.ndim) if axis not in x_batch and axis not in x_summed]
    y_rest = [axis for axis in range(y.ndim) if axis not in y_batch and axis not in y_summed]
    k = math.prod(x.shape[axis] for axis in x_summed)
    rows, columns = ([array.shape[axis] for axis in rest] for array, rest in ((x, x_rest), (y, y_rest)))
    left = x.transpose([*x_batch, *x_rest, *x_summed]).reshape([*(x.shape[i] for i in x_batch), math.prod(rows), k])
    right = y.transpose([*y_batch, *y_summed, *y_rest]).reshape([*(y.shape[i] for i in y_batch), k, math.prod(columns)])
    shape = (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), *rows, *columns)
    order = range(len(shape)) if order is None else order
    if out is not None:
        target, dtype = output_for(out, dtype, tuple(shape[axis] for axis in order))
    product = matmul(left, right, dtype=dtype, overflow=overflow, mod=mod).reshape(shape).transpose(order)
    if out is None:
        return product[()]
    target[...] = product
    return out
