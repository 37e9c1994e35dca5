"""Contractions of two integer arrays over any axes, each by one call of ``matmul``.

The shapes and the axes determine how the operands and the result are transposed and reshaped. A cache keeps
arrangements of operands, because finding one takes several times as long as a small product.
"""

import functools
import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.parameters import integer
from int8blas.core.words import shown
from int8blas.gemm.integers import operand, output_for
from int8blas.gemm.matmul import matmul, stacked

_Axes = tuple[int, ...]
_Arrangement = tuple[_Axes | None, _Axes | None]  # the order of axes, then the shape; None: no change
# The arrangements of both operands; the shape and then the order of axes that the product gets; the shape of the
# contraction; and the argument `axes` of `stacked`, or None for `matmul`.
_Plan = tuple[_Arrangement, _Arrangement, tuple[_Axes | None, _Axes | None], _Axes, int | None]

# The maximum number of arrangements in the cache.
KEPT = 256
MOST_DIMENSIONS = 64  # of an array of NumPy


def dot(a: Any, b: Any, out: Any = None, *, dtype: Any = None, overflow: Any = "saturate", mod: Any = None) -> Any:
    """Return the exact sum of products over the last axis of `a` and the second-to-last of `b`, like :func:`numpy.dot`.

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
    axes: tuple[_Axes, _Axes] = ((), ()) if x.ndim == 0 or y.ndim == 0 else ((x.ndim - 1,), (max(0, y.ndim - 2),))
    plan = _plan(x.shape, y.shape, (), (), *axes)
    return _contract(x, y, plan, out=out, dtype=dtype, overflow=overflow, mod=mod)


def inner(a: Any, b: Any, *, dtype: Any = None, overflow: Any = "saturate", mod: Any = None) -> Any:
    """Return the exact sum of products over the last axes of both operands, like :func:`numpy.inner`.

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
    axes: tuple[_Axes, _Axes] = ((), ()) if x.ndim == 0 or y.ndim == 0 else ((x.ndim - 1,), (y.ndim - 1,))
    return _contract(x, y, _plan(x.shape, y.shape, (), (), *axes), dtype=dtype, overflow=overflow, mod=mod)


def vecdot(a: Any, b: Any, *, axis: int = -1, dtype: Any = None, overflow: Any = "saturate", mod: Any = None) -> Any:
    """Return the exact dot products of the vectors along an axis, like :func:`numpy.vecdot`.

    Parameters
    ----------
    a, b : array_like of integers or bool
        Arrays of vectors. The axes except `axis` are broadcast.
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
    x, y = operand(a, "a"), operand(b, "b")
    if x.ndim == y.ndim == 1 and x.shape == y.shape and axis == -1:
        return matmul(x, y, dtype=dtype, overflow=overflow, mod=mod)
    plan = _plan_of_vecdot(axis if type(axis) is int else integer(axis, "axis"), x.shape, y.shape)
    return _contract(x, y, plan, dtype=dtype, overflow=overflow, mod=mod)


def _listed(axes: Any) -> Any:
    """Return an array of axes as lists of Python numbers, and anything else unchanged."""
    return axes.tolist() if isinstance(axes, np.ndarray) else axes


def tensordot(a: Any, b: Any, axes: Any = 2, *, dtype: Any = None, overflow: Any = "saturate", mod: Any = None) -> Any:
    """Return the exact sum of products over pairs of axes, like :func:`numpy.tensordot`.

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
    plan = _plan(x.shape, y.shape, (), (), x_axes, y_axes)
    return _contract(x, y, plan, dtype=dtype, overflow=overflow, mod=mod)


def einsum(
    subscripts: str, a: Any, b: Any, *, out: Any = None, dtype: Any = None, overflow: Any = "saturate", mod: Any = None
) -> Any:
    """Return the exact sum of products that Einstein's notation gives, like :func:`numpy.einsum` of two operands.

    Parameters
    ----------
    subscripts : str
        A letter for each axis of both operands, such as ``"bij,jk->bik"``. Without ``->`` the result has the letters
        that occur once, in alphabetical order. A letter has one size; ``...`` stands for broadcast axes. A letter that
        occurs twice in one operand selects the operand's diagonal. A letter that the result lacks must occur in both
        operands.
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
    if not isinstance(subscripts, str):
        raise TypeError(f"subscripts must be a string, got {type(subscripts).__name__}")
    x_labels, y_labels, plan = _plan_of_einsum(subscripts, x.shape, y.shape)
    if x_labels is not None:
        x = np.einsum(x, x_labels, range(max(x_labels) + 1))
    if y_labels is not None:
        y = np.einsum(y, y_labels, range(max(y_labels) + 1))
    return _contract(x, y, plan, out=out, dtype=dtype, overflow=overflow, mod=mod)


def _axis(axis: Any, argument: str, ndim: int, name: str) -> int:
    """Return the non-negative number of an axis."""
    found = integer(axis, argument)
    if ndim == 0:
        raise ValueError(f"{name} must have at least 1 dimension, got a scalar")
    if not -ndim <= found < ndim:
        raise ValueError(f"{argument} must be an axis of {name}, which has {ndim} dimensions, got {found}")
    return found % ndim


def _find_plan_of_einsum(subscripts: str, x_shape: _Axes, y_shape: _Axes) -> tuple[_Axes | None, _Axes | None, _Plan]:
    """Return the axis numbers of both operands, as `_diagonal` returns them, and the plan."""
    first, second, result = _terms(subscripts, len(x_shape), len(y_shape))
    (x_labels, x_sizes), (y_labels, y_sizes) = _diagonal(x_shape, first, "a"), _diagonal(y_shape, second, "b")
    first, second = list(x_sizes), list(y_sizes)
    shared = [one for one in first if one in second]
    for one in shared:
        sizes = x_sizes[one], y_sizes[one]
        if sizes[0] != sizes[1] and (1 not in sizes or one not in result or one.isalpha()):
            label = one if one.isalpha() else "..."
            raise ValueError(f"b must have {sizes[0]} elements along {label!r}, as a has, got {sizes[1]}")
    for one in {*first, *second} - {*shared, *result}:
        raise ValueError(f"subscripts must have {one!r} in both operands or in the result, got {subscripts!r}: "
                         f"sum this axis of {'a' if one in first else 'b'} first")  # fmt: skip
    batch, summed = [one for one in shared if one in result], [one for one in shared if one not in result]
    order = [*batch, *(one for one in first if one not in shared), *(one for one in second if one not in shared)]
    x_batch, y_batch, x_summed, y_summed = (
        tuple(term.index(one) for one in some) for some in (batch, summed) for term in (first, second)
    )
    shapes = tuple(x_sizes.values()), tuple(y_sizes.values())
    plan = _find_plan(*shapes, x_batch, y_batch, x_summed, y_summed, tuple(order.index(one) for one in result))
    return x_labels, y_labels, plan


_plan_of_einsum = functools.lru_cache(KEPT)(_find_plan_of_einsum)


def _find_plan_of_vecdot(axis: int, x_shape: _Axes, y_shape: _Axes) -> _Plan:
    i, j = _axis(axis, "axis", len(x_shape), "a"), _axis(axis, "axis", len(y_shape), "b")
    x_batch, y_batch = (
        tuple(one for one in range(len(shape)) if one != own) for shape, own in ((x_shape, i), (y_shape, j))
    )
    return _find_plan(x_shape, y_shape, x_batch, y_batch, (i,), (j,))


_plan_of_vecdot = functools.lru_cache(KEPT)(_find_plan_of_vecdot)


def _terms(subscripts: str, *dims: int) -> list[list[str]]:
    """Return the labels of the axes of both operands and of the result: letters, or numbers for the axes of ``...``."""
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
    """Return the labels of a term: its letters, and the numbers from `hidden` down to 1 for ``...``."""
    before, _, after = text.partition("...")
    return [*before, *(str(i) for i in range(hidden, 0, -1)), *after]


def _diagonal(shape: _Axes, labels: list[str], name: str) -> tuple[_Axes | None, dict[str, int]]:
    """Return a number for each axis, and the size of each label. Axes with equal labels have equal numbers. If no label
    is repeated, return None instead of the numbers."""
    sizes = dict(zip(labels, shape, strict=True))
    if len(sizes) == len(labels):
        return None, sizes
    for size, one in zip(shape, labels, strict=True):
        if size != sizes[one]:
            raise ValueError(f"{name} must have axes {one!r} of one size, got shape {shape}")
    return tuple(list(sizes).index(one) for one in labels), sizes


def _contract(
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    plan: _Plan,
    *,
    out: npt.NDArray[Any] | None = None,
    dtype: Any,
    overflow: Any,
    mod: Any,
) -> Any:
    """Carry out a plan, and return the contraction."""
    left, right, (shape, axes), whole, stack = plan
    if out is not None:
        target, dtype = output_for(out, dtype, whole)
    x, y = _arranged(x, left), _arranged(y, right)
    if stack is None:
        product = matmul(x, y, dtype=dtype, overflow=overflow, mod=mod)
    else:
        product = stacked(x, y, stack, dtype=dtype, overflow=overflow, mod=mod)
    if shape is not None:
        product = product.reshape(shape)
    if axes is not None:
        product = product.transpose(axes)
    if out is None:
        return product
    target[...] = product
    return out


def _arranged(x: npt.NDArray[Any], arrangement: _Arrangement) -> npt.NDArray[Any]:
    """Transpose an array to the order, then reshape it to the shape, of an arrangement."""
    order, shape = arrangement
    if order is not None:
        x = x.transpose(order)
    return x if shape is None else x.reshape(shape)


def _find_plan(
    x_shape: _Axes,
    y_shape: _Axes,
    x_batch: _Axes,
    y_batch: _Axes,
    x_summed: _Axes,
    y_summed: _Axes,
    order: _Axes | None = None,
) -> _Plan:
    """Return the plan of the product over the summed axes. The axes of the result are the axes of the batch, then the
    remaining axes of x and of y, permuted by `order`."""
    for i, j in zip(x_summed, y_summed, strict=True):
        if x_shape[i] != y_shape[j]:
            raise ValueError(f"b must have {x_shape[i]} elements along axis {j}, as a has along axis {i}, got "
                             f"{y_shape[j]}")  # fmt: skip
    x_rest = tuple(axis for axis in range(len(x_shape)) if axis not in x_batch and axis not in x_summed)
    y_rest = tuple(axis for axis in range(len(y_shape)) if axis not in y_batch and axis not in y_summed)
    if (x_batch and y_batch and not x_rest and not y_rest) or (
        not x_summed and (x_shape or y_shape) and not (x_rest and y_rest)
    ):
        axes = (*x_batch, *x_rest), (*y_batch, *y_rest)
        return _find_stack((x_shape, y_shape), axes, (x_summed, y_summed), order)
    if not y_batch:  # y is one matrix, so the rows of all matrices of x form one matrix.
        x_batch, x_rest = (), (*x_batch, *x_rest)
    elif not x_batch and not x_rest:
        y_batch, y_rest = (), (*y_batch, *y_rest)
    k = math.prod(x_shape[axis] for axis in x_summed)
    batches, rests = (
        [tuple(shape[axis] for axis in axes) for shape, axes in ((x_shape, x_axes), (y_shape, y_axes))]
        for x_axes, y_axes in ((x_batch, y_batch), (x_rest, y_rest))
    )
    batch = _broadcast(*batches)
    # An operand that has only summed axes is a vector.
    rows, columns = ((math.prod(rest),) if rest or own else () for rest, own in zip(rests, batches, strict=True))
    shape = (*batch, *rests[0], *rests[1])
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"a and b must give a result of at most {MOST_DIMENSIONS} dimensions, got {len(shape)}")
    left = _change(x_shape, (*x_batch, *x_rest, *x_summed), (*batches[0], *rows, k))
    right = _change(y_shape, (*y_batch, *y_summed, *y_rest), (*batches[1], k, *columns))
    last = None if order is None or order == tuple(range(len(shape))) else order
    whole = shape if last is None else tuple(shape[axis] for axis in last)
    return left, right, (None if shape == (*batch, *rows, *columns) else shape, last), whole, None


def _find_stack(
    shapes: tuple[_Axes, _Axes], axes: tuple[_Axes, _Axes], summed: tuple[_Axes, _Axes], order: _Axes | None
) -> _Plan:
    """Return the plan of a stack of products of vectors or elements. If `order` is given,
    axis i of the first operand's `axes` and axis i of the second operand's `axes` are the same axis of the result, and
    one operand may lack the last axes. If `order` is None, the axes of the operands broadcast."""
    changes, sizes = [], []
    for shape, own, k in zip(shapes, axes, summed, strict=True):
        places = range(len(own)) if order is None else order
        sizes.append(tuple(shape[own[i]] if i < len(own) else 1 for i in places))
        vector = (math.prod(shape[axis] for axis in k),) if k else ()
        changes.append(_change(shape, (*(own[i] for i in places if i < len(own)), *k), (*sizes[-1], *vector)))
    return changes[0], changes[1], (None, None), _broadcast(*sizes), 1 if summed[0] else 0


_plan = functools.lru_cache(KEPT)(_find_plan)


def _broadcast(x_sizes: _Axes, y_sizes: _Axes) -> _Axes:
    # np.broadcast_shapes takes at most 32 dimensions.
    pairs = list(itertools.zip_longest(x_sizes[::-1], y_sizes[::-1], fillvalue=1))[::-1]
    if any(i != j and 1 not in (i, j) for i, j in pairs):
        raise ValueError(f"b must have axes that broadcast with a's {x_sizes}, got {y_sizes}")
    return tuple(j if i == 1 else i for i, j in pairs)


def _change(shape: _Axes, order: _Axes, new: _Axes) -> _Arrangement:
    """Return an arrangement, with None for each step that changes nothing."""
    return (
        None if order == tuple(range(len(shape))) else order,
        None if new == tuple(shape[axis] for axis in order) else new,
    )
