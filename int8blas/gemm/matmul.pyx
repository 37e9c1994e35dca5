"""``matmul``: the GEMM with the shapes of numpy.matmul."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport as_array, check_numerics, dtype_from, is_alike, product_output
from int8blas.core.kernels cimport I8_INT_U64, current_kernels
from int8blas.core.memory cimport close_arena, open_arena
from int8blas.core.results cimport MAX_DIMS, Layout, check_layout, empty, empty_like, empty_of, lay_out
from int8blas.core.split cimport ceil_div
from int8blas.core.threads cimport KEEPS_GIL_WORK, max_threads
from int8blas.core.turns cimport end_turn, keeps_gil, take_turn
from int8blas.core.verbose cimport verbose
from int8blas.gemm.bits cimport Bits, bits_of, integer_type, levels
from int8blas.gemm.call cimport (
    check_memory, is_usable, run_problem, set_a, set_ao, set_b, set_bo, warn_saturated)
from int8blas.gemm.four_bits cimport PackedB4
from int8blas.gemm.integers cimport (
    RAISE, SATURATE, WRAP, Overflow, as_bytes, integer_operand, integer_output, multiply_integers, overflow_mode, store,
    tell_overflow)
from int8blas.gemm.modular cimport reduce_to, residues_of, sums_of_residues
from int8blas.gemm.operand cimport set_as_s8, set_as_u8
from int8blas.gemm.packed cimport Packed, set_product
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.paths.long_k cimport Dot, dot
from int8blas.gemm.problem cimport Problem, set_product_type, start
from int8blas.gemm.sixteen_bits cimport PackedB16
from int8blas.gemm.wide cimport DIRECT_WORK
from int8blas.gemm.stack cimport Stack, run_stack, set_batch, set_results

from int8blas.core.parameters import integer
from int8blas.core.words import shown

cnp.import_array()

cdef enum:
    # The minimum number of multiply-adds for which wide arrays of small values are converted to bytes. With and without
    # the conversion, products of s64 take 1.18 us and 0.69 us (16 x 16 x 16), 1.28 us and 1.37 us (24 x 24 x 24), 1.41
    # us and 1.96 us (32 x 32 x 32), 3.6 us and 18.8 us (1 x 200 x 200) on Zen 5 (AVX512-VNNI).
    BYTES_WORK = 1 << 14

cdef extern from "numpy/arrayobject.h":
    object PyArray_Scalar(void *data, cnp.dtype descr, object base)

# The defaults of arguments. Functions compare arguments with the defaults by identity, which is fast.
cdef object ZERO = 0
cdef object EXACT = "exact"
cdef object SATURATED = "saturate"
cdef object INT64 = np.int64
cdef cnp.dtype INT32_TYPE = np.dtype(np.int32)
cdef cnp.dtype INT64_TYPE = np.dtype(np.int64)


cdef inline int check_dimensions(cnp.ndarray array, str name) except -1:
    """Raise an error for a scalar operand."""
    if cnp.PyArray_NDIM(array) == 0:
        raise ValueError(f"{name} must have at least 1 dimension, got a scalar")
    return 0


cdef inline void set_row(Problem *g, cnp.ndarray a, int axes) noexcept:
    """Set A to a matrix of one row: the vector along the last axis of `a`, or one element if `axes` is 0."""
    cdef ptrdiff_t step = cnp.PyArray_STRIDE(a, cnp.PyArray_NDIM(a) - 1) if axes else 1
    g.m, g.k = 1, cnp.PyArray_DIM(a, cnp.PyArray_NDIM(a) - 1) if axes else 1
    g.a.row, g.a.column = g.k * step, step
    g.a.data = <const uint8_t *>cnp.PyArray_DATA(a)
    if cnp.PyArray_TYPE(a) == cnp.NPY_INT8:
        set_as_u8(&g.a, True)


cdef inline int64_t set_column(Problem *g, cnp.ndarray b, int axes) noexcept:
    """Set B to one column: the vector along the last axis of `b`, or one element if `axes` is 0. Return the number of
    rows."""
    g.n = 1
    g.b.row, g.b.column = cnp.PyArray_STRIDE(b, cnp.PyArray_NDIM(b) - 1) if axes else 1, 1
    g.b.data = <const uint8_t *>cnp.PyArray_DATA(b)
    if cnp.PyArray_TYPE(b) != cnp.NPY_INT8:
        set_as_s8(&g.b, True)
    return cnp.PyArray_DIM(b, cnp.PyArray_NDIM(b) - 1) if axes else 1


cdef inline int64_t set_right(Problem *g, object b, cnp.ndarray y) except -1:
    """Set B to `y`, or to a packed `b` if `y` is None. Return the number of rows of B."""
    if y is None:
        if type(b) is PackedB:
            (<PackedB>b).fill(g)
        else:
            (<PackedB4>b).fill(g)
        return (<Packed>b)._k
    check_dimensions(y, "b")
    if cnp.PyArray_NDIM(y) == 1:
        return set_column(g, y, 1)
    set_b(g, y, False)
    return cnp.PyArray_DIM(y, cnp.PyArray_NDIM(y) - 2)


def matmul(a, b, *, out=None, dtype=None, ao=0, bo=0, numerics="exact", overflow="saturate", mod=None):
    """Return the exact product of integer arrays, with the shapes of :func:`numpy.matmul`.

    Parameters
    ----------
    a, b : array_like of integers or bool
        Matrices, stacks of matrices, or vectors, of any two integer dtypes and with any strides. Leading dimensions are
        broadcast. `b` may be a packed matrix, which :func:`pack_b` makes; the sums then have less than 63 bits.
    out : ndarray of integers, optional
        The array to store the result in, of the result's shape, with any strides.
    dtype : dtype, optional
        The dtype of the result, any integer dtype. The default is the dtype of `out`; without `out` it is int32 if both
        operands have 8 bits, uint64 if both are uint64, and otherwise int64.
    ao, bo : int, or array_like of int, optional
        Zero points, subtracted from `a` and `b` if both have 8 bits: one value, or one for each row of the matrices of
        `a` and for each column of the matrices of `b`.
    numerics : {'exact', 'saturating'}, optional
        As in :func:`gemm_u8s8s32`, if both operands have 8 bits.
    overflow : {'saturate', 'wrap', 'raise'}, optional
        What to do with elements out of the range of the result's dtype: saturate them, with a warning; wrap them
        around, as :func:`numpy.matmul` does; or raise an error.
    mod : int, optional
        Return the product modulo this number p, 2 <= p < 2**31, in [0, p). The default dtype is the dtype to which
        NumPy promotes both operands' dtypes (uint8 instead of bool, int64 instead of float64). The dtype must hold p -
        1. `ao`, `bo`, `numerics` and `overflow` must keep their defaults.

    Returns
    -------
    ndarray of integers
        ``out`` if it is given; a scalar if both operands are vectors.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.
    OverflowError
        If an element is beyond the result's dtype and `overflow` is 'raise', before anything is written.

    Warns
    -----
    RuntimeWarning
        If an element was beyond the result's dtype, and saturated.

    Notes
    -----
    Operands wider than 8 bits are multiplied by the kernels that their values need: int64 arrays of small numbers take
    little more time than int8 arrays (:doc:`/howto/integers`).

    A matrix times its transpose in the same memory, ``matmul(x.T, x)`` or ``matmul(x, x.T)``, with equal zero points,
    takes little more than half the time of other products: one triangle is computed, and mirrored. :func:`syrk_u8s32`
    computes only one triangle.

    Without zero points, int32 holds every result for K (the columns of `a`) up to 33,025 if both operands are uint8,
    65,793 if one operand is uint8, and 131,071 if both operands are int8.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a = np.full((5, 2, 3), 100, np.uint8)
    >>> int8blas.matmul(a, np.full(3, -100, np.int8)).shape
    (5, 2)
    >>> int8blas.matmul(a[0], np.full((3, 1), -100, np.int8), ao=99)
    array([[-300],
           [-300]], dtype=int32)
    >>> x = np.full((100_000, 2), 255, np.uint8)
    >>> int8blas.matmul(x.T, x, dtype=np.int64)
    array([[6502500000, 6502500000],
           [6502500000, 6502500000]])
    >>> int8blas.matmul([[2**40, 3]], [[2**22], [-1]])
    array([[4611686018427387901]])
    >>> int8blas.matmul(np.int16([[300, 300]]), np.int16([[300], [300]]), dtype=np.int16, overflow="wrap")
    array([[-16608]], dtype=int16)
    >>> int8blas.matmul([[2**62, 5]], [[2**61], [10]], mod=1_000_003)
    array([[812647]])
    """
    cdef Problem g
    if mod is not None:
        return multiply_modulo(a, b, out, dtype, ao, bo, numerics, overflow, mod)
    if (
        out is None and ao is ZERO and bo is ZERO and numerics is EXACT and overflow is SATURATED
        and (dtype is None or dtype is INT64) and type(a) is cnp.ndarray and type(b) is cnp.ndarray
        and are_vectors(<cnp.ndarray>a, <cnp.ndarray>b)
    ):
        return multiply_vectors(<cnp.ndarray>a, <cnp.ndarray>b, dtype is not None)
    if type(b) is PackedB16:
        return multiply_any(a, b, out, dtype, ao, bo, numerics, overflow)
    cdef cnp.ndarray x = as_array(a, "a"), y = None, given, _ao_array, _bo_array
    cdef int typenum = cnp.NPY_INT32
    cdef PackedB packed
    cdef Layout layouts[2]
    cdef bint a_is_vector, b_is_vector, is_stack
    cdef int64_t b_rows
    if type(b) is not PackedB and type(b) is not PackedB4:
        y = as_array(b, "b")
    if (
        not is_byte(x) or (y is not None and not is_byte(y)) or overflow is not SATURATED
        or ((out is not None or dtype is not None) and not is_s32_or_s64(out, dtype))
    ):
        return multiply_any(a, b, out, dtype, ao, bo, numerics, overflow)
    start(&g, check_numerics(numerics))
    given = None if out is None and dtype is None else product_output(out, dtype, &typenum)
    set_product_type(&g.epilogue, typenum == cnp.NPY_INT64)
    check_dimensions(x, "a")
    a_is_vector = cnp.PyArray_NDIM(x) == 1
    if a_is_vector:
        set_row(&g, x, 1)
    else:
        set_a(&g, x, False)
    b_rows = set_right(&g, b, y)
    b_is_vector = y is not None and cnp.PyArray_NDIM(y) == 1
    packed = <PackedB>b if type(b) is PackedB else None
    if b_rows != g.k:
        raise ValueError(f"b must have {g.k} rows, as a has {g.k} columns, got {b_rows}")
    is_stack = cnp.PyArray_NDIM(x) > 2 or (y is not None and cnp.PyArray_NDIM(y) > 2)
    if is_stack:
        lay_out(&layouts[0], x)
        lay_out(&layouts[1], x if y is None else y)
    _ao_array = set_ao(&g, ao, "a row of a each")
    _bo_array = set_bo(&g, bo, "a column of b each")
    if not is_stack:
        product = multiply_matrices(&g, x, y, packed, given, typenum, a_is_vector, b_is_vector)
    else:
        check_layout(&layouts[0], x, "a")
        check_layout(&layouts[1], x if y is None else y, "b")
        product = multiply_stacks(&g, x, y, packed, given, typenum, 2 - a_is_vector, 2 - b_is_vector)
    return product if out is None else out


def stacked(cnp.ndarray a not None, cnp.ndarray b not None, int axes, *, dtype, overflow, mod):
    """Return the dot products of the vectors along the last axes of two arrays of integers (`axes` is 1), or the
    products of their elements (`axes` is 0). Axes that are not summed are broadcast."""
    cdef Problem g
    cdef int typenum = cnp.NPY_INT32
    if not (mod is None and overflow is SATURATED and is_byte(a) and is_byte(b) and is_s32_or_s64(None, dtype)
            and max(cnp.PyArray_NDIM(a), cnp.PyArray_NDIM(b)) > axes):
        x, y = (a[..., None, :], b[..., None]) if axes else (a[..., None, None], b[..., None, None])
        return matmul(x, y, dtype=dtype, overflow=overflow, mod=mod)[..., 0, 0]
    start(&g, False)
    if dtype is not None:
        product_output(None, dtype, &typenum)
    set_product_type(&g.epilogue, typenum == cnp.NPY_INT64)
    set_row(&g, a, axes)
    set_column(&g, b, axes)
    return multiply_stacks(&g, a, b, None, None, typenum, axes, axes)


cdef inline bint is_byte(cnp.ndarray x) noexcept:
    """Return whether an array is uint8, int8, or bool, which counts as uint8."""
    cdef int typenum = cnp.PyArray_TYPE(x)
    return typenum == cnp.NPY_INT8 or typenum == cnp.NPY_UINT8 or typenum == cnp.NPY_BOOL


cdef bint is_s32_or_s64(object out, object dtype) except -1:
    """Return whether the dtype of the result is int32 or int64. Return True if `out` is not an array."""
    cdef int typenum
    if dtype is None and cnp.PyArray_CheckExact(out):
        typenum = cnp.PyArray_TYPE(<cnp.ndarray>out)
    else:
        found = dtype_from(dtype) if dtype is not None else getattr(out, "dtype", None)
        if not isinstance(found, cnp.dtype):
            return dtype is None
        typenum = (<cnp.dtype>found).type_num
    return is_alike(typenum, cnp.NPY_INT32) or is_alike(typenum, cnp.NPY_INT64)


cdef object multiply_any(object a, object b, object out, object dtype, object ao, object bo, object numerics,
                         object overflow):
    """Return the product of integers of any types, in any integer type."""
    cdef Overflow mode = overflow_mode(overflow)
    cdef cnp.ndarray x = integer_operand(a, "a"), y = None, given, target, sums
    cdef cnp.ndarray small_x = None, small_y = None
    cdef object packed = b if isinstance(b, Packed) else None
    cdef bint is_small
    cdef int typenum, limbs
    cdef int64_t rows, columns, k
    cdef double work
    if packed is None:
        y = integer_operand(b, "b")
    is_small = is_byte(x) and (type(b) is not PackedB16 if packed is not None else is_byte(y))
    given = integer_output(out, dtype, default_type(x, y, is_small), &typenum)
    # The conversion of `out` may have run Python code that sets the dtypes of arrays.
    x, y = integer_operand(x, "a"), None if packed is not None else integer_operand(y, "b")
    is_small = is_small and is_byte(x) and (packed is not None or is_byte(y))
    if packed is not None:
        small_x = None if type(b) is PackedB16 else as_bytes(x)
    elif is_small:
        small_x, small_y = as_bytes(x), as_bytes(y)
    else:
        # The operands of tiny products in stacks are read in place.
        columns = cnp.PyArray_DIM(y, cnp.PyArray_NDIM(y) - 1) if cnp.PyArray_NDIM(y) > 1 else 1
        rows = cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 2) if cnp.PyArray_NDIM(x) > 1 else 1
        k = cnp.PyArray_DIM(x, cnp.PyArray_NDIM(x) - 1) if cnp.PyArray_NDIM(x) > 0 else 1
        work = <double>rows * columns * k
        if work > DIRECT_WORK and <double>cnp.PyArray_SIZE(x) * columns >= BYTES_WORK:
            small_x = as_bytes(x)
            small_y = None if small_x is None else as_bytes(y)
    if not is_small and (packed is None or small_x is None) and not (
            ao is ZERO and bo is ZERO and numerics is EXACT):
        refuse(ao, "ao", 0)
        refuse(bo, "bo", 0)
        refuse(numerics, "numerics", "exact")
    if packed is None and (small_x is None or small_y is None):
        return multiply_integers(x, y, given, typenum, mode)
    if small_x is None:
        limbs = limbs_of(x, packed)
        if limbs == 1:
            return multiply_integers(x, packed, given, typenum, mode)
        product = sum_of_limbs(x, packed, limbs)
    else:
        right = small_y if packed is None else packed
        if is_alike(typenum, cnp.NPY_INT64) or (mode == SATURATE and is_alike(typenum, cnp.NPY_INT32)):
            product = matmul(small_x, right, out=given, dtype=cnp.PyArray_DescrFromType(typenum), ao=ao, bo=bo,
                             numerics=numerics)
            return product if out is None else out
        product = matmul(small_x, right, dtype=INT64, ao=ao, bo=bo, numerics=numerics)
    sums = np.asarray(product)
    if given is not None and (<object>given).shape != (<object>sums).shape:
        raise ValueError(f"out must have shape {(<object>sums).shape}, got {(<object>given).shape}")
    target = empty_of((<object>sums).shape, typenum) if given is None or mode == RAISE else given
    if store(target, <const int64_t *>cnp.PyArray_DATA(sums), mode != WRAP):
        tell_overflow(typenum, mode)
    if given is not None and target is not given:
        given[...] = target
    return out if out is not None else target if cnp.PyArray_NDIM(target) else target[()]


cdef int limbs_of(cnp.ndarray x, Packed packed) except -1:
    """Return the number of limbs of an array wider than 8 bits for a product with a packed matrix."""
    cdef Bits bits = bits_of(current_kernels().wide, x)
    cdef bint in_pairs = type(packed) is PackedB16
    cdef int width = 15 if in_pairs else 8, most = 62 - width - levels(packed._k)
    if bits.count > most:
        raise ValueError(f"a must have values of at most {most} bits without the sign, as b is a "
                         f"{type(packed).__name__} with {packed._k} rows, got {bits.count} bits: give b.unpack()")
    # The upper limb has the sign.
    return 1 + max(0, <int>ceil_div(bits.count - (width if in_pairs or not bits.negative else 7), width))


cdef cnp.ndarray sum_of_limbs(cnp.ndarray x, Packed packed, int limbs):
    """Return the exact product of an array and a packed matrix in int64. The product is the sum of the products of the
    array's limbs, each times a power of 2. Limbs have 15 bits for a PackedB16, and 8 bits for all other packed
    matrices."""
    cdef int width = 15 if type(packed) is PackedB16 else 8, limb
    cdef bint negative = bits_of(current_kernels().wide, x).negative
    low = np.int16 if width == 15 else np.uint8
    upper = np.int8 if negative and width == 8 else low
    sums = None
    for limb in range(limbs - 1, -1, -1):
        part = x >> (width * limb)
        part = part.astype(upper) if sums is None else (part & ((1 << width) - 1)).astype(low)
        product = matmul(part, packed, dtype=INT64)
        if sums is None:
            sums = product
        else:
            sums <<= width
            sums += product
    return sums


cdef int refuse(object value, str name, object default, str when="an operand is wider than 8 bits") except -1:
    """Raise an error if an argument that the product does not support differs from its default value."""
    if not isinstance(value, (int, np.integer, str)) or value != default:
        raise ValueError(f"{name} must be {default!r} when {when}, got {shown(value)}")
    return 0


cdef object multiply_modulo(object a, object b, object out, object dtype, object ao, object bo, object numerics,
                            object overflow, object mod):
    """Return the product of integers of any types modulo `mod`."""
    cdef cnp.ndarray x, y, given, target, sums
    cdef int64_t p
    cdef int typenum
    modulus = integer(mod, "mod")
    if not 2 <= modulus < 1 << 31:
        raise ValueError(f"mod must be at least 2 and less than 2**31, got {shown(mod)}")
    refuse(ao, "ao", 0, "mod is given")
    refuse(bo, "bo", 0, "mod is given")
    refuse(numerics, "numerics", "exact", "mod is given")
    refuse(overflow, "overflow", "saturate", "mod is given")
    if isinstance(b, Packed):
        raise TypeError(f"b must be an array when mod is given, got a {type(b).__name__}: give b.unpack()")
    x, y, p = integer_operand(a, "a"), integer_operand(b, "b"), modulus
    check_dimensions(x, "a")
    check_dimensions(y, "b")
    given = integer_output(out, dtype, promoted_type(x, y), &typenum)
    x, y = integer_operand(x, "a"), integer_operand(y, "b")  # as in `multiply_any`
    most = np.iinfo(cnp.PyArray_DescrFromType(typenum)).max
    if p - 1 > most:
        raise ValueError(f"mod must be at most {most + 1}, as the result is {cnp.PyArray_DescrFromType(typenum)}, got "
                         f"{p}: give a wider dtype")
    x, y = residues_of(x, p), residues_of(y, p)
    sums = np.asarray(matmul(x, y, dtype=INT64)) if is_byte(x) else sums_of_residues(x, y, p)
    if given is not None and (<object>given).shape != (<object>sums).shape:
        raise ValueError(f"out must have shape {(<object>sums).shape}, got {(<object>given).shape}")
    # `x` and `y` are copies, so `given` may overlap the caller's arrays.
    target = given
    if given is None or not cnp.PyArray_IS_C_CONTIGUOUS(given):
        target = empty_of((<object>sums).shape, typenum)
    reduce_to(target, sums, p, 0)
    if given is not None and target is not given:
        given[...] = target
    return out if out is not None else target if cnp.PyArray_NDIM(target) else target[()]


cdef int promoted_type(cnp.ndarray x, cnp.ndarray y) except -1:
    """Return the integer type to which NumPy promotes two arrays' types: uint8 instead of bool, and int64 instead of
    float64."""
    found = np.result_type(x, y)
    return (<cnp.dtype>np.dtype({"b": np.uint8, "f": np.int64}.get(found.kind, found))).type_num


cdef inline int default_type(cnp.ndarray x, cnp.ndarray y, bint is_small) noexcept:
    """Return the default type of a product: int32 for 8-bit operands, uint64 if both operands are uint64, else
    int64."""
    if is_small:
        return cnp.NPY_INT32
    if y is not None and integer_type(x) == I8_INT_U64 and integer_type(y) == I8_INT_U64:
        return cnp.PyArray_TYPE(x)
    return cnp.NPY_INT64


cdef inline bint are_vectors(cnp.ndarray x, cnp.ndarray y) noexcept:
    """Return whether two arrays are vectors whose product needs no Problem."""
    return (
        cnp.PyArray_NDIM(x) == 1 and cnp.PyArray_NDIM(y) == 1 and is_byte(x) and is_byte(y)
        and cnp.PyArray_DIM(x, 0) == cnp.PyArray_DIM(y, 0)
        and cnp.PyArray_STRIDE(x, 0) == 1 and cnp.PyArray_STRIDE(y, 0) == 1 and not verbose
    )


cdef object multiply_vectors(cnp.ndarray x, cnp.ndarray y, bint to_s64):
    """Return the product of two contiguous vectors as a scalar."""
    cdef Dot d
    cdef int64_t total
    cdef int32_t sum
    cdef int status
    d.kernels = current_kernels()
    d.k = cnp.PyArray_DIM(x, 0)
    d.x, d.y = <const uint8_t *>cnp.PyArray_DATA(x), <const uint8_t *>cnp.PyArray_DATA(y)
    d.x_signed, d.y_signed = cnp.PyArray_TYPE(x) == cnp.NPY_INT8, cnp.PyArray_TYPE(y) == cnp.NPY_INT8
    if keeps_gil(<double>d.k, KEEPS_GIL_WORK):
        dot(&d, 1, &total)
    else:
        with nogil:
            end_turn()
            status = dot(&d, max_threads(), &total)
            take_turn()
        check_memory(status, "matmul")
    if to_s64:
        return PyArray_Scalar(&total, INT64_TYPE, None)
    sum = <int32_t>max(<int64_t>INT32_MIN, min(<int64_t>INT32_MAX, total))
    result = PyArray_Scalar(&sum, INT32_TYPE, None)
    if sum != total:
        warn_saturated("matmul")
    return result


cdef bint has_shape(cnp.ndarray array, int dims, const cnp.npy_intp *shape) noexcept:
    cdef int axis
    if cnp.PyArray_NDIM(array) != dims:
        return False
    for axis in range(dims):
        if cnp.PyArray_DIM(array, axis) != shape[axis]:
            return False
    return True


cdef int check_shape(cnp.ndarray out, int dims, const cnp.npy_intp *shape) except -1:
    """Raise an error unless `out` has this shape or is None."""
    if out is not None and not has_shape(out, dims, shape):
        wanted = tuple([shape[axis] for axis in range(dims)])
        raise ValueError(f"out must have shape {wanted}, got {(<object>out).shape}")
    return 0


cdef object multiply_matrices(Problem *g, cnp.ndarray x, cnp.ndarray y, PackedB packed, cnp.ndarray given, int typenum,
                              bint a_is_vector, bint b_is_vector):
    """Return the product of two matrices or vectors. The function creates no object except the result."""
    cdef cnp.ndarray target
    cdef int saturated, dims = 0
    cdef cnp.npy_intp shape[2]
    if not a_is_vector:
        shape[dims] = g.m
        dims += 1
    if not b_is_vector:
        shape[dims] = g.n
        dims += 1
    check_shape(given, dims, shape)
    if given is not None and is_usable(given, x, y if packed is None else packed):
        target = given
    else:
        target = empty(dims, shape, typenum)
    if packed is not None:
        packed.fill_split(g, g.m)
    g.c.data = <char *>cnp.PyArray_DATA(target)
    g.c.column = cnp.PyArray_ITEMSIZE(target) if b_is_vector else cnp.PyArray_STRIDE(target, dims - 1)
    g.c.row = g.n * g.c.column if a_is_vector else cnp.PyArray_STRIDE(target, 0)
    saturated = run_problem(g, "matmul")
    if given is not None and target is not given:
        given[...] = target
    if saturated:
        warn_saturated("matmul")
    return target if dims else target[()]


cdef object multiply_stacks(Problem *g, cnp.ndarray x, cnp.ndarray y, PackedB packed, cnp.ndarray given, int typenum,
                            int a_axes, int b_axes):
    """Return the product of stacks of matrices (2 axes), vectors (1) or elements (0)."""
    cdef Stack s
    cdef cnp.ndarray target
    cdef cnp.npy_intp shape[MAX_DIMS]
    cdef int saturated, dims, axis
    set_batch(&s, x, a_axes, y, b_axes)
    dims = s.dims
    for axis in range(dims):
        shape[axis] = s.shape[axis]
    if a_axes == 2:
        shape[dims] = g.m
        dims += 1
    if b_axes == 2:
        shape[dims] = g.n
        dims += 1
    check_shape(given, dims, shape)
    if given is not None and is_usable(given, x, y if packed is None else packed):
        target = given
    elif a_axes == 0 and has_shape(x, dims, shape):
        target = empty_like(x, typenum)
    else:
        target = empty(dims, shape, typenum)
    if packed is not None:
        packed.fill_split(g, cnp.PyArray_SIZE(target) // max(1, g.n))
    g.c.data = <char *>cnp.PyArray_DATA(target)
    g.c.column = cnp.PyArray_STRIDE(target, dims - 1) if b_axes == 2 else cnp.PyArray_ITEMSIZE(target)
    g.c.row = cnp.PyArray_STRIDE(target, s.dims) if a_axes == 2 else g.n * g.c.column
    saturated = multiply_batch(g, &s, x, target, a_axes, b_axes)
    if given is not None and target is not given:
        given[...] = target
    if saturated:
        warn_saturated("matmul")
    return target


cdef int multiply_batch(Problem *g, Stack *s, cnp.ndarray x, cnp.ndarray target, int a_axes, int b_axes) except -1:
    """Compute one GEMM for each matrix of the broadcast stacks. A stack times one matrix is a single GEMM if the rows
    of the stack are evenly spaced.

    Return whether an element saturated.
    """
    cdef int64_t a_rows, c_rows
    cdef ptrdiff_t a_row, c_row
    cdef int axis
    cdef bint shares_b = a_axes > 0 and g.a.zero_points is NULL and cnp.PyArray_SIZE(target)
    for axis in range(s.dims):
        shares_b = shares_b and s.b[axis] == 0
    if shares_b:
        a_row, c_row = g.a.row, g.c.row
        if (merge_rows(x, cnp.PyArray_NDIM(x) - 2, &a_rows, &a_row)
                and merge_rows(target, cnp.PyArray_NDIM(target) - (1 if b_axes == 2 else 0) - 1, &c_rows, &c_row)
                and a_rows == c_rows):
            g.m, g.a.row, g.c.row = a_rows, a_row, c_row
            return run_problem(g, "matmul")
    set_results(s, target)
    open_arena()
    try:
        return run_stack(g, s, "matmul")
    finally:
        close_arena()


cdef bint merge_rows(cnp.ndarray array, int last, int64_t *rows, ptrdiff_t *step) noexcept:
    """Return whether all rows along the axes up to `last` are evenly spaced. Set `rows` to the number of rows, and
    `step` to the distance between rows if there are several."""
    cdef int axis
    rows[0] = 1
    for axis in range(last, -1, -1):
        if cnp.PyArray_DIM(array, axis) == 1:
            continue
        if rows[0] == 1:
            step[0] = cnp.PyArray_STRIDE(array, axis)
        elif cnp.PyArray_STRIDE(array, axis) != step[0] * rows[0]:
            return False
        rows[0] *= cnp.PyArray_DIM(array, axis)
    return True


set_product(matmul)
