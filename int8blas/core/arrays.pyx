"""Convert Python objects to arrays and numbers, or raise an error. The module `words` has the texts of errors.

Every function takes the name of the argument. Functions raise TypeError for a wrong type or dtype, and ValueError for a
wrong shape or value. Errors have the form "NAME must be WANTED, got GIVEN". The inline functions of arrays.pxd handle
the common arguments.
"""

from libc.math cimport isfinite
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport llabs
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.words import dtype_error, dtype_name, shown

import operator
import sys
from collections.abc import Mapping

cnp.import_array()

# A default argument. Functions first compare arguments with EXACT by identity, which is fast.
cdef str EXACT = "exact"

cdef dict NAMES = {cnp.NPY_UINT8: "uint8", cnp.NPY_INT8: "int8", cnp.NPY_INT32: "int32", cnp.NPY_INT64: "int64",
                   cnp.NPY_INT16: "int16", cnp.NPY_UINT16: "uint16",
                   cnp.NPY_FLOAT32: "float32", cnp.NPY_FLOAT16: "float16"}

# The device types of DLPack whose memory the CPU can read, and the names of all other device types.
cdef tuple HOST_DEVICES = (1, 3, 11)
cdef dict DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 9: "VPI", 10: "ROCm", 13: "CUDA (managed)",
                     14: "oneAPI", 15: "WebGPU", 16: "Hexagon"}
# The methods by which sparse arrays of SciPy, of the package sparse and of torch become dense.
cdef tuple DENSE = ("toarray", "todense", "to_dense")
# The dtype objects of the NumPy types that nearly all callers give.
cdef dict DTYPES = {kind: np.dtype(kind) for kind in (np.uint8, np.int8, np.int32, np.int64, np.float32, np.float16)}
# The type number of bfloat16, which a package registers with NumPy. The number is -1 until the first bfloat16 array
# arrives.
cdef int bfloat16_type = -1


# Arrays of other libraries

cpdef cnp.ndarray as_array(object x, str name):
    """Return `x` as an ndarray (not a subclass), without a copy if NumPy needs none."""
    if cnp.PyArray_CheckExact(x):
        return x
    if x is None:
        raise TypeError(f"{name} must be an array, got None")
    if cnp.PyArray_Check(x):
        return without_subclass(x, name)
    check_exporter(x, name)
    try:
        if is_torch_bfloat16(x):
            return view_bfloat16(np.asarray(as_torch_int16(x)))
        # NumPy's own conversion does not try DLPack.
        if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
            return np.from_dlpack(x)
        return np.asarray(x)
    except MemoryError:
        raise
    except Exception as error:
        raise TypeError(f"{name} must be an array, got {type(x).__name__} ({error})") from error


cdef cnp.ndarray as_memory(object x, str name, int typenum):
    """Return `x` as an ndarray for results, which shares the memory of `x`."""
    if cnp.PyArray_CheckExact(x):
        return x
    if cnp.PyArray_Check(x):
        return without_subclass(x, name)
    check_exporter(x, name)
    try:
        if is_torch_bfloat16(x):
            return view_bfloat16(np.from_dlpack(as_torch_int16(x), copy=False))
        # Try DLPack first: torch's __array__ lacks the argument `copy`, so NumPy cannot forbid it to copy.
        if hasattr(x, "__dlpack__"):
            return np.from_dlpack(x, copy=False)
        return np.asarray(x, copy=False)
    except MemoryError:
        raise
    except Exception as error:
        raise TypeError(f"{name} must be an ndarray of {type_name(typenum)}, or share its memory with NumPy, got "
                        f"{type(x).__name__} ({str(error).partition(chr(10))[0]})") from error


cdef cnp.ndarray without_subclass(cnp.ndarray array, str name):
    """Return an array of a subclass as a plain ndarray."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array, as its mask would be lost: give .filled(value) of it, or "
                        ".data for all elements")
    return np.asarray(array)


cdef int check_exporter(object x, str name) except -1:
    """Check that an array of another library is dense, in the CPU's memory, without nulls, and needs no gradient."""
    for method in DENSE:
        if hasattr(x, method) and (hasattr(x, "nnz") or str(getattr(x, "layout", "")).startswith("torch.sparse")):
            raise TypeError(f"{name} must be a dense array, got {type(x).__name__}: give .{method}() of it")
    device = "a CUDA device" if hasattr(x, "__cuda_array_interface__") else None
    if hasattr(x, "__dlpack_device__"):
        try:
            kind, number = x.__dlpack_device__()
        except Exception:
            kind, number = HOST_DEVICES[0], 0  # without a report assume the CPU; a wrong guess fails in the conversion
        device = None if kind in HOST_DEVICES else f"{DEVICES.get(int(kind), f'DLPack type {kind}')} device {number}"
    if device is not None:
        raise TypeError(f"{name} must be in the CPU's memory, got {type(x).__name__} on {device}: copy it, as x.cpu() "
                        "does in torch, x.get() in CuPy and jax.device_get(x) in JAX")
    nulls = getattr(x, "null_count", 0)
    nulls = nulls() if callable(nulls) else nulls  # pyarrow has an attribute, polars a method
    if hasattr(nulls, "__array__"):  # the counts of the columns of a polars DataFrame
        nulls = int(np.asarray(nulls).sum())
    if isinstance(nulls, int) and nulls > 0:
        raise TypeError(f"{name} must not have nulls, got {nulls} in {type(x).__name__}: fill them first, as "
                        ".fill_null(0) does")
    if getattr(x, "requires_grad", False) is True:
        raise TypeError(f"{name} must not require a gradient, as int8blas computes none, got {type(x).__name__}: give "
                        ".detach() of it")
    return 0


# Bfloat16

cpdef bint is_bfloat16(cnp.dtype dtype):
    """Return whether a dtype is bfloat16, of ml_dtypes or another package, in native byte order."""
    global bfloat16_type
    if not cnp.PyTypeNum_ISUSERDEF(dtype.type_num):
        return False
    if dtype.type_num != bfloat16_type and dtype.name == "bfloat16" and dtype.itemsize == 2:
        bfloat16_type = dtype.type_num
    return dtype.type_num == bfloat16_type and dtype.isnative


cpdef object bfloat16_dtype():
    """Import ml_dtypes, and return its dtype bfloat16."""
    try:
        from ml_dtypes import bfloat16
    except ImportError as error:
        raise ImportError("bfloat16 needs the package ml_dtypes, which gives NumPy this type") from error
    return np.dtype(bfloat16)


cdef bint is_torch_bfloat16(object x):
    """Return whether NumPy can convert `x` to integers only."""
    return type(x).__module__.partition(".")[0] == "torch" and str(getattr(x, "dtype", None)) == "torch.bfloat16"


cdef object as_torch_int16(object x):
    return x.view(sys.modules["torch"].int16)


cdef cnp.ndarray view_bfloat16(cnp.ndarray integers_):
    return integers_.view(bfloat16_dtype())


cpdef cnp.ndarray widened(object x, str name):
    """Return `x` as an ndarray. Convert float16 and bfloat16 to float32, exactly."""
    cdef cnp.ndarray array = as_array(x, name)
    if cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT16 or is_bfloat16(array.dtype):
        return array.astype(np.float32)
    return array


cpdef cnp.ndarray in_float32(object x, str name):
    """Return `x` as an ndarray, with all floats as float32, which rounds float64."""
    cdef cnp.ndarray array = widened(x, name)
    return rounded(array) if cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT64 else array


cdef cnp.ndarray float32s(object x, str name):
    """Return an array of float32, float64, float16 or bfloat16, as float32 in native byte order."""
    cdef cnp.ndarray array = elements(x, name, (cnp.NPY_FLOAT32, cnp.NPY_FLOAT16))
    return array if cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT32 else array.astype(np.float32)


# Conversions of dtypes

cdef cnp.ndarray rounded(cnp.ndarray array):
    """Return float64 as float32 like `astype`: values out of the range of float32 become infinite, without a
    warning."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return array.astype(np.float32)


cdef bint is_torch_dtype(object x):
    return type(x).__name__ == "dtype" and type(x).__module__ == "torch"


cpdef object dtype_from(object x):
    """Return the NumPy dtype that `x`, such as a dtype of torch, stands for, or None."""
    if isinstance(x, cnp.dtype):
        return x
    if type(x) is type and x in DTYPES:
        return DTYPES[x]
    name = str(x).partition(".")[2] if is_torch_dtype(x) else x
    if isinstance(name, str) and name == "bfloat16":
        return bfloat16_dtype()
    try:
        return None if x is None else np.dtype(name)
    except (TypeError, ValueError, SyntaxError):  # SyntaxError for a text with commas or brackets, such as ",int8"
        return None


cpdef str dtype_argument(object x):
    """Return the text that an error shows for an argument that should be a dtype."""
    found = dtype_from(x)
    return shown(x) if found is None else dtype_name(found)


cdef str found_in(object x, cnp.ndarray array):
    """Return the text that an error shows for the type of an argument: its dtype, or the type of a single value."""
    return dtype_name(array.dtype) if cnp.PyArray_NDIM(array) or x is array else type(x).__name__


cdef str type_name(int typenum):
    return NAMES[typenum] if typenum in NAMES else dtype_name(cnp.PyArray_DescrFromType(typenum))


# Checks

cdef int check_other_type(cnp.ndarray array, str name, int typenum) except -1:
    """Check an array whose type number is not `typenum`. Accept types with the memory format of `typenum`."""
    if typenum == cnp.NPY_UINT8 and cnp.PyArray_TYPE(array) == cnp.NPY_BOOL:
        return 0
    if is_alike(cnp.PyArray_TYPE(array), typenum):
        return 0
    raise dtype_error(array, name, (NAMES[typenum],))


cdef cnp.ndarray input_of_type(cnp.ndarray array, str name, int typenum, object given=None):
    """Return an input as an array of type `typenum` in native byte order. View bool as uint8, and round float64 to
    float32."""
    if cnp.PyArray_ISNOTSWAPPED(array):
        if cnp.PyArray_TYPE(array) == typenum:
            return array
        # For C's int and long NumPy has two types, even if their sizes are equal.
        if is_alike(cnp.PyArray_TYPE(array), typenum) or (
            typenum == cnp.NPY_UINT8 and cnp.PyArray_TYPE(array) == cnp.NPY_BOOL
        ):
            return array.view(cnp.PyArray_DescrFromType(typenum))
    if typenum == cnp.NPY_FLOAT32 and cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT64:
        return rounded(array)
    raise dtype_error(array, name, (type_name(typenum),), given)


cdef cnp.ndarray source_of_type(object x, int typenum):
    """Return the source of a layer, like `input_of_type`. If float32 is wanted, float16 and bfloat16 arrays are not
    converted, because the kernels read these types too."""
    cdef cnp.ndarray array = as_array(x, "src")
    cdef cnp.dtype dtype = array.dtype
    cdef bint is_16_bit = dtype.isnative and (dtype.num == cnp.NPY_FLOAT16 or is_bfloat16(dtype))
    if is_16_bit and typenum == cnp.NPY_FLOAT32:
        return array
    cdef bint wants_real = not cnp.PyTypeNum_ISINTEGER(typenum)
    if wants_real and typenum != dtype.num and cnp.PyArray_DescrFromType(typenum).itemsize == 2:
        raise TypeError(f"src must be {type_name(typenum)}, got {dtype_name(dtype)}: create the layer with "
                        "src_dtype='float32', which takes all floats")
    return input_of_type(array, "src", typenum, x)


cdef cnp.ndarray int8_operand(object x, str name):
    """Return an input array of uint8 or int8, with any number of dimensions; bool becomes uint8."""
    cdef cnp.ndarray array = as_array(x, name)
    cdef int typenum = cnp.PyArray_TYPE(array)
    if typenum == cnp.NPY_UINT8 or typenum == cnp.NPY_INT8:
        return array
    if typenum == cnp.NPY_BOOL:
        return array.view(np.uint8)
    raise dtype_error(array, name, ("uint8", "int8"), x)


cdef bint overlaps_itself(cnp.ndarray array) noexcept:
    """Return whether two elements of an array could share memory. Elements can share memory only if the strides do not
    nest."""
    cdef ptrdiff_t steps[cnp.NPY_MAXDIMS]
    cdef int64_t sizes[cnp.NPY_MAXDIMS]
    cdef ptrdiff_t step, extent = cnp.PyArray_ITEMSIZE(array)
    cdef int axis, i, count = 0
    for axis in range(cnp.PyArray_NDIM(array)):
        if cnp.PyArray_DIM(array, axis) <= 1:
            continue
        step = llabs(cnp.PyArray_STRIDE(array, axis))
        i = count
        while i > 0 and steps[i - 1] > step:
            steps[i], sizes[i] = steps[i - 1], sizes[i - 1]
            i -= 1
        steps[i], sizes[i] = step, cnp.PyArray_DIM(array, axis)
        count += 1
    for i in range(count):
        if steps[i] < extent:
            return True
        extent = steps[i] * (sizes[i] - 1) + extent
    return False


cdef cnp.ndarray of_type(cnp.ndarray array, str name, int typenum):
    """Return an output as an array of type `typenum` in native byte order. If C's int and long have equal sizes, view
    an array of one type as the other type."""
    if cnp.PyArray_ISNOTSWAPPED(array):
        if cnp.PyArray_TYPE(array) == typenum:
            return array
        if is_alike(cnp.PyArray_TYPE(array), typenum):
            return array.view(cnp.PyArray_DescrFromType(typenum))
    same = f": give {name}.view(np.uint8)" if typenum == cnp.NPY_UINT8 and array.dtype.kind == "b" else ""
    raise TypeError(f"{name} must be {type_name(typenum)}, got {dtype_name(array.dtype)}{same}")


cdef cnp.ndarray output_from(object x, str name, int typenum):
    """Compute `output_of` for arrays of any layout."""
    cdef cnp.ndarray array
    if cnp.PyArray_CheckExact(x) and cnp.PyArray_TYPE(<cnp.ndarray>x) == typenum:
        if cnp.PyArray_ISBEHAVED(<cnp.ndarray>x) and not overlaps_itself(<cnp.ndarray>x):
            return <cnp.ndarray>x
    array = of_type(as_memory(x, name, typenum), name, typenum)
    if not cnp.PyArray_ISWRITEABLE(array):
        raise ValueError(f"{name} must be writeable, got a read-only array")
    if not (cnp.PyArray_IS_C_CONTIGUOUS(array) or cnp.PyArray_IS_F_CONTIGUOUS(array)) and overlaps_itself(array):
        raise ValueError(f"{name} must have elements that do not overlap, got strides {(<object>array).strides} "
                         f"for shape {(<object>array).shape}")
    return array


cdef int product_type(object dtype) except -1:
    """Return the type number of int32 or int64."""
    found = dtype_from(dtype)
    if found is not None and found.isnative:
        if is_alike((<cnp.dtype?>found).type_num, cnp.NPY_INT32):
            return cnp.NPY_INT32
        if is_alike((<cnp.dtype>found).type_num, cnp.NPY_INT64):
            return cnp.NPY_INT64
    raise TypeError(f"dtype must be int32 or int64, got {dtype_argument(dtype)}")


cdef cnp.ndarray product_output(object out, object dtype, int *typenum):
    """Return `out` as an array for results, or None if `out` is None. Set `typenum` to `dtype` if it is given, else to
    the type of `out`, else to int32."""
    cdef cnp.ndarray array = None
    typenum[0] = cnp.NPY_INT32
    if dtype is not None:
        typenum[0] = product_type(dtype)
    if out is None:
        return None
    array = as_memory(out, "out", typenum[0])
    if dtype is None:
        if not is_alike(cnp.PyArray_TYPE(array), cnp.NPY_INT32):
            if not is_alike(cnp.PyArray_TYPE(array), cnp.NPY_INT64):
                raise TypeError(f"out must be int32 or int64, got {dtype_name(array.dtype)}")
            typenum[0] = cnp.NPY_INT64
    elif not is_alike(cnp.PyArray_TYPE(array), typenum[0]):
        raise TypeError(f"out must be {type_name(typenum[0])}, as dtype says, got {dtype_name(array.dtype)}")
    return output_of(array, "out", typenum[0])


cdef int transpose_from(object flag, str name) except -1:
    """Check a transpose flag that is not a bool."""
    try:
        value = int(flag) if isinstance(flag, np.bool_) else operator.index(flag)
    except TypeError:
        raise TypeError(f"{name} must be a bool or 0, 1, 2, got {type(flag).__name__}") from None
    if not 0 <= value <= 2:
        raise ValueError(f"{name} must be a bool or 0, 1, 2, got {shown(value)}")
    return value != 0


cdef bint flag(object x, str name) except -1:
    """Return a flag that is a bool, or 0 or 1 of any integer type."""
    if type(x) is bool:
        return x
    try:
        value = int(x) if isinstance(x, np.bool_) else operator.index(x)
    except TypeError:
        raise TypeError(f"{name} must be a bool, 0 or 1, got {type(x).__name__}") from None
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be a bool, 0 or 1, got {shown(value)}")
    return value


cpdef double real_from(object x, str name) except? -1:
    """Compute `real` for arguments of any type."""
    cdef double value
    # Refuse texts and complex numbers, which NumPy would convert.
    if type(x) is not float and type(x) is not int and (isinstance(x, (str, bytes)) or (
        isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind not in "biuf" and not is_bfloat16(x.dtype)
    )):
        raise TypeError(f"{name} must be a real number, got {type(x).__name__}")
    try:
        value = x
    except OverflowError:
        raise ValueError(f"{name} must be finite, got {shown(x)}") from None
    except TypeError:
        raise TypeError(f"{name} must be a real number, got {type(x).__name__}") from None
    if not isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    return value


def float32_from(object x, str name):
    """Return a finite number, rounded to float32."""
    cdef double value = real_from(x, name)
    if not isfinite(<float>value):
        raise ValueError(f"{name} must be finite in float32, got {shown(x)}")
    return <float>value


cdef bint check_numerics(object numerics) except -1:
    """Return whether `numerics` is 'saturating'."""
    if numerics is EXACT:
        return False
    if isinstance(numerics, str):
        if numerics == "exact":
            return False
        if numerics == "saturating":
            return True
    raise ValueError(f"numerics must be 'exact' or 'saturating', got {shown(numerics)}")


cdef cnp.ndarray integers(object x, str name, int64_t low, int64_t high, Py_ssize_t length, str count):
    """Return integers in [low, high] as a new int64 array: one integer as an array of 0 dimensions, or `length`
    integers as an array of 1 dimension.

    If only one value is allowed, `length` is -1. `count` describes `length` in the error.
    """
    cdef cnp.ndarray array = as_array(x, name)
    cdef int ndim = cnp.PyArray_NDIM(array)
    cdef cnp.npy_intp size = cnp.PyArray_SIZE(array)
    if not cnp.PyTypeNum_ISINTEGER(cnp.PyArray_TYPE(array)) and not (
        ndim == 1 and size == 0 and isinstance(x, (list, tuple))
    ):
        if array.dtype.kind == "O" and all([isinstance(value, int) for value in array.flat]):
            raise ValueError(f"{name} must be between {low} and {high}, got {shown(x)}")
        raise TypeError(f"{name} must be an integer{'' if length < 0 else ' or a vector of integers'}, "
                        f"got {found_in(x, array)}")
    if ndim > 1 or (ndim == 1 and size != length and size != 1):
        wanted = "one integer" if length < 0 else f"one integer or {length} ({count})"
        raise ValueError(f"{name} must be {wanted}, got an array of shape {(<object>array).shape}")
    if ndim == 1 and size == 1 and length != 1:
        array = array.reshape(())
    return in_range(array, name, low, high)


ctypedef fused Integer:
    uint8_t
    int8_t
    int32_t
    int64_t


cdef void widen(int64_t *dst, const Integer *src, cnp.npy_intp count) noexcept:
    cdef cnp.npy_intp i
    for i in range(count):
        dst[i] = src[i]


cdef cnp.ndarray widened_integers(cnp.ndarray array):
    """Return the integers of an array as a new int64 array. uint64 values beyond int64 wrap."""
    cdef int typenum = cnp.PyArray_TYPE(array)
    cdef cnp.npy_intp count = cnp.PyArray_SIZE(array)
    cdef const void *src = cnp.PyArray_DATA(array)
    cdef cnp.ndarray converted
    cdef int64_t *dst
    if not cnp.PyArray_ISCARRAY_RO(array):
        typenum = -1
    if typenum not in (cnp.NPY_UINT8, cnp.NPY_INT8, cnp.NPY_INT32, cnp.NPY_INT64):
        return cnp.PyArray_FROM_OTF(
            array, cnp.NPY_INT64, cnp.NPY_ARRAY_CARRAY | cnp.NPY_ARRAY_FORCECAST | cnp.NPY_ARRAY_ENSURECOPY)
    # NumPy's usual conversion searches for a conversion function, which takes longer than a small product.
    converted = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), cnp.NPY_INT64, 0)
    dst = <int64_t *>cnp.PyArray_DATA(converted)
    if typenum == cnp.NPY_UINT8:
        widen(dst, <const uint8_t *>src, count)
    elif typenum == cnp.NPY_INT8:
        widen(dst, <const int8_t *>src, count)
    elif typenum == cnp.NPY_INT32:
        widen(dst, <const int32_t *>src, count)
    else:
        widen(dst, <const int64_t *>src, count)
    return converted


cdef cnp.ndarray in_range(cnp.ndarray array, str name, int64_t low, int64_t high):
    """Return the integers of an array, all in [low, high], as a new int64 array."""
    cdef cnp.ndarray converted = widened_integers(array)
    cdef const int64_t *values = <const int64_t *>cnp.PyArray_DATA(converted)
    cdef int64_t smallest = low, largest = high
    cdef cnp.npy_intp i
    for i in range(cnp.PyArray_SIZE(converted)):
        smallest, largest = min(smallest, values[i]), max(largest, values[i])
    # Values of uint64 beyond int64 have wrapped.
    if smallest >= low and largest <= high and (
        cnp.PyArray_TYPE(array) not in (cnp.NPY_ULONG, cnp.NPY_ULONGLONG) or array.max(initial=0) <= high
    ):
        return converted
    found = int(array.min())
    raise ValueError(f"{name} must be between {low} and {high}, got {found if found < low else int(array.max())}")


cdef cnp.ndarray elements(object x, str name, tuple typenums):
    """Return an input array of one of the types `typenums` in native byte order, with any number of dimensions.

    If float16 is allowed, bfloat16 is also allowed. View bool as uint8, and round float64 to float32.
    """
    cdef cnp.ndarray array = as_array(x, name)
    cdef int typenum = cnp.PyArray_TYPE(array)
    if cnp.PyArray_ISNOTSWAPPED(array) and typenum in typenums:
        return array
    if cnp.NPY_FLOAT16 in typenums and is_bfloat16(array.dtype):
        return array
    if typenum == cnp.NPY_BOOL and cnp.NPY_UINT8 in typenums:
        return input_of_type(array, name, cnp.NPY_UINT8)
    if typenum == cnp.NPY_FLOAT64 and cnp.NPY_FLOAT32 in typenums:
        return rounded(array)
    if cnp.NPY_INT32 in typenums and is_alike(typenum, cnp.NPY_INT32) and array.dtype.isnative:
        return input_of_type(array, name, cnp.NPY_INT32)
    wanted = [NAMES[typenum] for typenum in typenums]
    raise dtype_error(array, name, (*wanted, "bfloat16") if cnp.NPY_FLOAT16 in typenums else wanted, x)


cpdef cnp.ndarray elements_output(object x, str name, int typenum, tuple shape):
    """Return `x` as an array of the given type and shape for results."""
    cdef cnp.ndarray array = output_from(x, name, typenum)
    if (<object>array).shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {(<object>array).shape}")
    return array


cdef cnp.ndarray elements_output_like(object x, str name, int typenum, cnp.ndarray like):
    """Return an output array with the shape of another array."""
    cdef cnp.ndarray array = output_from(x, name, typenum)
    return array if cnp.PyArray_SAMESHAPE(array, like) else elements_output(array, name, typenum, (<object>like).shape)


cdef tuple axes_from(object x, str name, int ndim):
    """Return the axes that None, an integer or a tuple of integers selects. The axes are from 0 to ndim - 1, in the
    given order."""
    if x is None:
        return ()
    if type(x) is int and -ndim <= x < ndim:
        return (x % ndim if x < 0 else x,)
    try:
        axes = [operator.index(axis) for axis in (x if isinstance(x, (tuple, list)) else (x,))]
    except TypeError:
        raise TypeError(f"{name} must be None, an integer or a tuple of integers, got {shown(x)}") from None
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise ValueError(f"{name} must be between {-ndim} and {ndim - 1} for {ndim} dimensions, got {shown(axis)}")
    axes = [axis % ndim for axis in axes]
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name} must not name a dimension twice, got {shown(x)}")
    return tuple(axes)


cdef int axis_from(object x, str name, int ndim) except -1:
    """Return the axis that an integer selects, from 0 to ndim - 1."""
    cdef int64_t value
    if is_within(x, -ndim, ndim - 1, &value):
        return <int>(value + ndim if value < 0 else value)
    try:
        axis = operator.index(x)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {shown(x)}") from None
    if not -ndim <= axis < ndim:
        raise ValueError(f"{name} must be between {-ndim} and {ndim - 1} for {ndim} dimensions, got {shown(axis)}")
    return axis % ndim


cdef cnp.ndarray one_or_shaped(object x, str name, str kinds, str wanted, tuple shape):
    """Return `x` as an array of 0 dimensions, or of the given shape, with a dtype of one of the given kinds."""
    cdef cnp.ndarray array = widened(x, name) if "f" in kinds else as_array(x, name)
    if array.dtype.kind not in kinds and not (array.size == 0 and isinstance(x, (list, tuple))):
        if array.dtype.kind != "O" or not all([isinstance(value, int) for value in array.flat]):
            raise TypeError(f"{name} must be {wanted}{' or an array of them' if shape else ''}, "
                            f"got {found_in(x, array)}")
        # Integers beyond 64 bits have the dtype object, and are out of every range.
    if array.ndim == 0 or (<object>array).shape == (1,):
        return array.reshape(())
    if (<object>array).shape != shape:
        raise ValueError(f"{name} must be one value{f' or have shape {shape}' if shape else ''}, got an array of shape "
                         f"{(<object>array).shape}")
    return array


cdef cnp.ndarray copy_of(object x, int typenum, tuple shape):
    """Return a copy of an array that has exactly this type and shape. Return None for an argument of another type,
    which needs more checks. If the shape is (1,), the copy has 0 dimensions."""
    cdef cnp.ndarray array
    if type(x) is not np.ndarray:
        return None
    array = x
    if (cnp.PyArray_TYPE(array) != typenum or not cnp.PyArray_ISCARRAY_RO(array)
            or (<object>array).shape != shape):
        return None
    array = cnp.PyArray_NewCopy(array, cnp.NPY_CORDER)
    return array.reshape(()) if shape == (1,) else array


cdef cnp.ndarray scale_numbers(object x, str name, int typenum, tuple shape):
    """Return a number, or an array of numbers of the given shape, as a new array. float32 numbers must be finite and
    not 0. float64 numbers, from which multipliers are computed, must be finite and above 0."""
    cdef cnp.ndarray array, converted
    cdef const float *values
    cdef cnp.npy_intp count, i = 0
    cdef double value
    cdef str wanted = "finite and not 0 in float32" if typenum == cnp.NPY_FLOAT32 else "positive and finite"
    if type(x) is float or isinstance(x, np.floating):
        value = x
        converted = cnp.PyArray_EMPTY(0, NULL, typenum, 0)
        if typenum == cnp.NPY_FLOAT32:
            value = (<float *>cnp.PyArray_DATA(converted))[0] = <float>value
        else:
            (<double *>cnp.PyArray_DATA(converted))[0] = value
        if isfinite(value) and (value > 0 or (value < 0 and typenum == cnp.NPY_FLOAT32)):
            return converted
    converted = copy_of(x, cnp.NPY_FLOAT32, shape) if typenum == cnp.NPY_FLOAT32 else None
    if converted is not None:
        values, count = <const float *>cnp.PyArray_DATA(converted), cnp.PyArray_SIZE(converted)
        while i < count and values[i] != 0 and isfinite(values[i]):
            i += 1
        if i == count:
            return converted
    array = one_or_shaped(x, name, "fiu", "a real number", shape)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        try:
            converted = array.astype(np.float32 if typenum == cnp.NPY_FLOAT32 else np.float64, order="C")
        except OverflowError:
            raise ValueError(f"{name} must be {wanted}, got {shown(x)}") from None
        wrong = ~((converted != 0 if typenum == cnp.NPY_FLOAT32 else converted > 0) & np.isfinite(converted))
    if wrong.any():
        raise ValueError(f"{name} must be {wanted}, got {array[wrong][0]}")
    return converted


cdef float scale_from(object x, str name) except? -1:
    """Return a finite number that is not 0."""
    cdef cnp.ndarray array
    cdef float scale
    if type(x) is int and x == 1:
        return 1
    if type(x) is float:
        scale = <float><double>x
        if scale != 0 and isfinite(scale):
            return scale
    array = scale_numbers(x, name, cnp.NPY_FLOAT32, ())
    return (<float *>cnp.PyArray_DATA(array))[0]


cdef float divisor(object x, str name) except? -1:
    """Return a number that is not 0 and has a finite reciprocal. The destination is multiplied by the reciprocal."""
    cdef float value = scale_from(x, name)
    if not isfinite(<float>1 / value):
        raise ValueError(f"{name} must be more than 2**-128, whose reciprocal is not finite in float32, "
                         f"got {shown(x)}")
    return value


cdef cnp.ndarray integers_in_range(object x, str name, int64_t low, int64_t high, tuple shape):
    """Return an integer, or an array of integers of the given shape, as a new int32 array. All integers must be in
    [low, high]."""
    cdef cnp.ndarray array
    cdef const int32_t *values
    cdef cnp.npy_intp count, i = 0
    cdef int64_t value
    cdef int overflow = 0
    if type(x) is int:
        value = PyLong_AsLongLongAndOverflow(x, &overflow)
        if not overflow and low <= value <= high:
            array = cnp.PyArray_EMPTY(0, NULL, cnp.NPY_INT32, 0)
            (<int32_t *>cnp.PyArray_DATA(array))[0] = <int32_t>value
            return array
    array = copy_of(x, cnp.NPY_INT32, shape)
    if array is not None:
        values, count = <const int32_t *>cnp.PyArray_DATA(array), cnp.PyArray_SIZE(array)
        while i < count and low <= values[i] <= high:
            i += 1
        if i == count:
            return array
    array = narrowed(copy_of(x, cnp.NPY_INT64, shape), low, high)
    if array is not None:
        return array
    # Copy the argument, because another thread may write to it between the check and the conversion.
    array = one_or_shaped(x, name, "iu", "an integer", shape).copy()
    if array.size:
        smallest, largest = int(array.min()), int(array.max())
        if smallest < low or largest > high:
            found = shown(smallest if smallest < low else largest)
            raise ValueError(f"{name} must be between {low} and {high}, got {found}")
    return array.astype(np.int32, order="C")


cdef cnp.ndarray narrowed(cnp.ndarray wide, int64_t low, int64_t high):
    """Return contiguous int64 as int32. Return None if `wide` is None, or if a value is not in [low, high]."""
    cdef cnp.ndarray array
    cdef cnp.npy_intp i
    cdef int64_t value
    if wide is None:
        return None
    array = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(wide), cnp.PyArray_DIMS(wide), cnp.NPY_INT32, 0)
    for i in range(cnp.PyArray_SIZE(wide)):
        value = (<const int64_t *>cnp.PyArray_DATA(wide))[i]
        if not low <= value <= high:
            return None
        (<int32_t *>cnp.PyArray_DATA(array))[i] = <int32_t>value
    return array


cpdef dict by_tensor(object x, str name, tuple tensors):
    """Return a mapping from names of tensors to values as a dict, or an empty dict for None."""
    if x is None:
        return {}
    if type(x) is not dict and not isinstance(x, Mapping):
        raise TypeError(f"{name} must be a mapping, got {type(x).__name__}")
    values = dict(x)
    for tensor in values:
        if tensor not in tensors:
            wanted = f"{', '.join(map(repr, tensors[:-1]))} or {tensors[-1]!r}"
            raise ValueError(f"{name} must be for {wanted}, got {shown(tensor)}")
    return values


cpdef list items_of(object x, str name):
    """Return the items of a sequence or another iterable. Refuse strings and mappings."""
    # The check for a Mapping takes longer than all other work for a small result.
    if type(x) is not list and type(x) is not tuple and (
        isinstance(x, (str, bytes, Mapping)) or not hasattr(x, "__iter__") or getattr(x, "ndim", 1) == 0
    ):
        raise TypeError(f"{name} must be a sequence, got {type(x).__name__}")
    return list(x)


cdef int choice(object x, str name, tuple choices) except -1:
    """Return the index of a string among the allowed strings."""
    cdef int index
    for index in range(len(choices)):  # compare by identity first, which is fast
        if x is choices[index]:
            return index
    if not isinstance(x, str) or x not in choices:
        raise ValueError(f"{name} must be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}, got {shown(x)}")
    return choices.index(x)


cdef int quantized_type(object dtype, str name) except -1:
    """Return the type number of uint8, int8 or int32."""
    found = dtype_from(dtype)
    for typenum in (cnp.NPY_UINT8, cnp.NPY_INT8, cnp.NPY_INT32):
        descr = cnp.PyArray_DescrFromType(typenum)
        if found is descr or (found is not None and found == descr):
            return typenum
    raise TypeError(f"{name} must be uint8, int8 or int32, got {dtype_argument(dtype)}")


cdef cnp.ndarray finite_numbers(object x, str name):
    """Return real numbers, at least one and all finite, as a new C-contiguous array of float64."""
    cdef cnp.ndarray array = widened(x, name)
    cdef const double *values
    cdef cnp.npy_intp i
    cdef bint wrong = False
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be an array of real numbers, got {dtype_name(array.dtype)}")
    array = cnp.PyArray_FROM_OTF(
        array, cnp.NPY_FLOAT64, cnp.NPY_ARRAY_CARRAY | cnp.NPY_ARRAY_FORCECAST | cnp.NPY_ARRAY_ENSURECOPY)
    if cnp.PyArray_SIZE(array) == 0:
        raise ValueError(f"{name} must not be empty, got shape {(<object>array).shape}")
    values = <const double *>cnp.PyArray_DATA(array)
    for i in range(cnp.PyArray_SIZE(array)):
        wrong |= not isfinite(values[i])
    if wrong:
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array
