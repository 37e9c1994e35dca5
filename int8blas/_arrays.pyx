"""Python objects become arrays and numbers of the right kind, or an error: the only place with error texts.

Every function takes the argument's name, and raises TypeError for a wrong type or dtype, ValueError for a wrong shape
or value, in the form "what must be wanted, got came". What callers pass nearly always is recognized in _arrays.pxd,
inline, and does not get here.
"""

from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t
cimport numpy as cnp
import numpy as np

import operator
from collections.abc import Mapping

cnp.import_array()

# Compared by identity first: what callers pass nearly always is this very object.
cdef str EXACT = "exact"

cdef dict NAMES = {cnp.NPY_UINT8: "uint8", cnp.NPY_INT8: "int8", cnp.NPY_INT32: "int32", cnp.NPY_FLOAT32: "float32",
                   cnp.NPY_FLOAT16: "float16"}


cdef cnp.ndarray as_array(object x, str name):
    """`x` as an ndarray, without a copy where NumPy needs none."""
    if cnp.PyArray_Check(x):
        return x
    if x is None:
        raise TypeError(f"{name} must be an array, got None")
    try:
        return np.asarray(x)
    except Exception as error:
        raise TypeError(f"{name} must be an array, got {type(x).__name__} ({error})") from error


cdef int raise_type(cnp.ndarray array, str name, int typenum) except -1:
    """The error of `check_type`."""
    raise TypeError(f"{name} must be {NAMES[typenum]}, got {array.dtype}")


cdef cnp.ndarray int8_operand(object x, str name):
    """An input array of uint8 or int8 and any number of dimensions."""
    cdef cnp.ndarray array = as_array(x, name)
    cdef int typenum = cnp.PyArray_TYPE(array)
    if typenum != cnp.NPY_UINT8 and typenum != cnp.NPY_INT8:
        raise TypeError(f"{name} must be uint8 or int8, got {array.dtype}")
    return array


cdef bint overlaps_itself(cnp.ndarray array):
    """Whether two elements of an array could share memory (true only if the strides do not nest)."""
    steps = sorted((abs(step), size) for size, step in zip((<object>array).shape, (<object>array).strides) if size > 1)
    extent = array.dtype.itemsize
    for step, size in steps:
        if step < extent:
            return True
        extent = step * (size - 1) + extent
    return False


cdef cnp.ndarray output_from(object x, str name, int typenum):
    """`output_of` any layout."""
    if not cnp.PyArray_Check(x):
        raise TypeError(f"{name} must be an ndarray of {NAMES[typenum]}, got {type(x).__name__}")
    cdef cnp.ndarray array = x
    if cnp.PyArray_TYPE(array) != typenum or not cnp.PyArray_ISNOTSWAPPED(array):
        raise TypeError(f"{name} must be {NAMES[typenum]}, got {array.dtype!r}")
    if not cnp.PyArray_ISWRITEABLE(array):
        raise ValueError(f"{name} must be writeable, got a read-only array")
    if not (cnp.PyArray_IS_C_CONTIGUOUS(array) or cnp.PyArray_IS_F_CONTIGUOUS(array)) and overlaps_itself(array):
        raise ValueError(f"{name} must have elements that do not overlap, got strides {(<object>array).strides} "
                         f"for shape {(<object>array).shape}")
    return array


cdef int transpose_from(object flag, str name) except -1:
    """`check_transpose` of what is not a bool."""
    try:
        value = int(flag) if isinstance(flag, np.bool_) else operator.index(flag)
    except TypeError:
        raise TypeError(f"{name} must be a bool or 0, 1, 2, got {type(flag).__name__}") from None
    if not 0 <= value <= 2:
        raise ValueError(f"{name} must be a bool or 0, 1, 2, got {value}")
    return value != 0


cdef double real_from(object x, str name) except? -1:
    """`real` of any type."""
    cdef double value
    if isinstance(x, (str, bytes)):
        raise TypeError(f"{name} must be a real number, got {type(x).__name__}")
    try:
        value = x
    except OverflowError:
        raise ValueError(f"{name} must be finite, got {x}") from None
    except TypeError:
        raise TypeError(f"{name} must be a real number, got {type(x).__name__}") from None
    if not isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    return value


cdef bint check_numerics(object numerics) except -1:
    """Whether `numerics` asks for the saturating mode."""
    if numerics is EXACT:
        return False
    if isinstance(numerics, str):
        if numerics == "exact":
            return False
        if numerics == "saturating":
            return True
    raise ValueError(f"numerics must be 'exact' or 'saturating', got {numerics!r}")


cdef cnp.ndarray integers(object x, str name, int64_t low, int64_t high, Py_ssize_t length, str count):
    """One integer in [low, high] as an int64 array of 0 dimensions, or `length` of them as one of 1 dimension.

    `length` is -1 where only one value is allowed; `count` describes it for the error.
    """
    cdef cnp.ndarray array = as_array(x, name)
    if array.dtype.kind not in "iu" and not (array.ndim == 1 and array.size == 0 and isinstance(x, (list, tuple))):
        if array.dtype.kind == "O" and all(isinstance(value, int) for value in array.flat):
            raise ValueError(f"{name} must be between {low} and {high}, got {x}")
        raise TypeError(f"{name} must be an integer{'' if length < 0 else f' or {count} integers'}, "
                        f"got {array.dtype if isinstance(x, np.ndarray) else type(x).__name__}")
    if array.ndim > 1 or (array.ndim == 1 and array.shape[0] != length and array.shape[0] != 1) or (
        array.ndim == 1 and array.shape[0] == 1 and length == 0
    ):
        wanted = "one integer" if length < 0 else f"one integer or {length} ({count})"
        raise ValueError(f"{name} must be {wanted}, got an array of shape {(<object>array).shape}")
    if array.size:
        smallest, largest = int(array.min()), int(array.max())
        if smallest < low or largest > high:
            raise ValueError(f"{name} must be between {low} and {high}, got "
                             f"{smallest if smallest < low else largest}")
    if array.ndim == 1 and array.shape[0] == 1 and length != 1:
        array = array.reshape(())
    return np.ascontiguousarray(array, dtype=np.int64).reshape((<object>array).shape)


cdef cnp.ndarray elements(object x, str name, tuple typenums):
    """An input array of one of these types in native byte order, and any number of dimensions."""
    cdef cnp.ndarray array = as_array(x, name)
    if cnp.PyArray_TYPE(array) not in typenums or not cnp.PyArray_ISNOTSWAPPED(array):
        wanted = [NAMES[typenum] for typenum in typenums]
        wanted = f"{', '.join(wanted[:-1])} or {wanted[-1]}" if len(wanted) > 1 else wanted[0]
        raise TypeError(f"{name} must be {wanted}, got {array.dtype!r}")
    return array if type(array) is np.ndarray else np.asarray(array)


cdef cnp.ndarray elements_output(object x, str name, int typenum, tuple shape):
    """An array of that type and shape that results may be written to."""
    cdef cnp.ndarray array = output_from(x, name, typenum)
    if (<object>array).shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {(<object>array).shape}")
    return array if type(array) is np.ndarray else np.asarray(array)


cdef tuple axes_from(object x, str name, int ndim):
    """The axes that None, an integer or a tuple of integers selects, from 0 to ndim - 1, in the order given."""
    if x is None:
        return ()
    try:
        axes = [operator.index(axis) for axis in (x if isinstance(x, (tuple, list)) else (x,))]
    except TypeError:
        raise TypeError(f"{name} must be None, an integer or a tuple of integers, got {x!r}") from None
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise ValueError(f"{name} must be between {-ndim} and {ndim - 1} for {ndim} dimensions, got {axis}")
    axes = [axis % ndim for axis in axes]
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name} must not name a dimension twice, got {x}")
    return tuple(axes)


cdef int axis_from(object x, str name, int ndim) except -1:
    """The axis that an integer selects, from 0 to ndim - 1."""
    try:
        axis = operator.index(x)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {x!r}") from None
    if not -ndim <= axis < ndim:
        raise ValueError(f"{name} must be between {-ndim} and {ndim - 1} for {ndim} dimensions, got {axis}")
    return axis % ndim


cdef cnp.ndarray one_or_shaped(object x, str name, str kinds, str wanted, tuple shape):
    """`x` as an array of 0 dimensions, or of that shape, with a dtype of one of these kinds."""
    cdef cnp.ndarray array = as_array(x, name)
    if array.dtype.kind not in kinds and not (array.size == 0 and isinstance(x, (list, tuple))):
        if array.dtype.kind != "O" or not all([isinstance(value, int) for value in array.flat]):
            raise TypeError(f"{name} must be {wanted}{' or an array of them' if shape else ''}, "
                            f"got {array.dtype if isinstance(x, np.ndarray) else type(x).__name__}")
        # Integers beyond 64 bits, which are out of every range.
    if array.ndim == 0 or (<object>array).shape == (1,):
        return array.reshape(())
    if (<object>array).shape != shape:
        raise ValueError(f"{name} must be one value{f' or have shape {shape}' if shape else ''}, got an array of shape "
                         f"{(<object>array).shape}")
    return array


cdef cnp.ndarray positive_numbers(object x, str name, int typenum, tuple shape):
    """A number, or an array of numbers of that shape, finite and above 0 as float32 or float64: a new array."""
    cdef cnp.ndarray array, converted
    cdef double value
    if type(x) is float or isinstance(x, np.floating):
        value = x
        converted = cnp.PyArray_EMPTY(0, NULL, typenum, 0)
        if typenum == cnp.NPY_FLOAT32:
            value = (<float *>cnp.PyArray_DATA(converted))[0] = <float>value
        else:
            (<double *>cnp.PyArray_DATA(converted))[0] = value
        if value > 0 and isfinite(value):
            return converted
    array = one_or_shaped(x, name, "fiu", "a real number", shape)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        try:
            converted = array.astype(np.float32 if typenum == cnp.NPY_FLOAT32 else np.float64, order="C")
        except OverflowError:
            raise ValueError(f"{name} must be positive and finite, got {x}") from None
        wrong = ~((converted > 0) & np.isfinite(converted))
    if wrong.any():
        raise ValueError(f"{name} must be positive and finite{' in float32' if typenum == cnp.NPY_FLOAT32 else ''}, "
                         f"got {array[wrong][0]}")
    return converted


cdef cnp.ndarray integers_in_range(object x, str name, int64_t low, int64_t high, tuple shape):
    """An integer, or an array of integers of that shape, in [low, high]: a new int32 array."""
    cdef cnp.ndarray array
    if type(x) is int and low <= x <= high:
        array = cnp.PyArray_EMPTY(0, NULL, cnp.NPY_INT32, 0)
        (<int32_t *>cnp.PyArray_DATA(array))[0] = x
        return array
    array = one_or_shaped(x, name, "iu", "an integer", shape)
    if array.size:
        smallest, largest = int(array.min()), int(array.max())
        if smallest < low or largest > high:
            raise ValueError(f"{name} must be between {low} and {high}, got {smallest if smallest < low else largest}")
    return array.astype(np.int32, order="C")


cdef dict by_tensor(object x, str name, tuple tensors):
    """A mapping from some of these tensors' names, or None for an empty one."""
    if x is None:
        return {}
    if not isinstance(x, Mapping):
        raise TypeError(f"{name} must be a mapping, got {type(x).__name__}")
    for tensor in x:
        if tensor not in tensors:
            wanted = f"{', '.join(map(repr, tensors[:-1]))} or {tensors[-1]!r}"
            raise ValueError(f"{name} must be for {wanted}, got {tensor!r}")
    return dict(x)


cdef int choice(object x, str name, tuple choices) except -1:
    """The index of a string among those allowed."""
    if not isinstance(x, str) or x not in choices:
        raise ValueError(f"{name} must be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}, got {x!r}")
    return choices.index(x)


cdef int quantized_type(object dtype, str name) except -1:
    """The type number of uint8, int8 or int32."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if dtype is None or found is None or not found.isnative or found.num not in (
        cnp.NPY_UINT8, cnp.NPY_INT8, cnp.NPY_INT32
    ):
        raise TypeError(f"{name} must be uint8, int8 or int32, got {dtype!r}")
    return found.num


cdef cnp.ndarray finite_numbers(object x, str name):
    """At least one real number, all finite, as float64."""
    cdef cnp.ndarray array = as_array(x, name)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be an array of real numbers, got {array.dtype}")
    array = np.asarray(array, np.float64)
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {(<object>array).shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array
