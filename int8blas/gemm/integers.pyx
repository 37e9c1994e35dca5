"""Products of integers of every width. The values of both arrays decide which kernels multiply.

A pass over each operand finds the number of bits of its elements. If all elements fit bytes and the product is large
enough, the operands are converted to bytes for the kernels of 8 bits. Operands that are not converted to bytes are
packed for one kind of multiply-add (csrc/gemm/wide.h). Sums have 64 bits. If sums could exceed 64 bits, a second
product, in float64, finds the sums that exceed 64 bits. K and the numbers of bits give a bound for the error of the
float64 product. If the error could put a float64 sum on the wrong side of a limit, the sum is computed again, from
digits.
"""

from libc.math cimport ldexp
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport as_array, as_memory, dtype_argument, dtype_from, is_alike, output_of
from int8blas.core.kernels cimport (
    I8_INT_S16, I8_INT_U64, I8_WIDE_F64, I8_WIDE_S16, I8_WIDE_S16_FULL, I8_WIDE_S32, I8_WIDE_S64, current_kernels,
    i8_int_bits, i8_wide_kernels)
from int8blas.core.results cimport empty, empty_of
from int8blas.core.threads cimport KEEPS_GIL_WORK, forget_regions, max_threads, region_used
from int8blas.core.turns cimport end_turn, keeps_gil, take_turn
from int8blas.core.verbose cimport report, seconds, verbose
from int8blas.gemm.bits cimport Bits, bits_of, fit_bytes, integer_code, integer_type, levels
from int8blas.gemm.call cimport check_memory, is_usable
from int8blas.gemm.digits cimport multiply_digits, uses_digits
from int8blas.gemm.sixteen_bits cimport PackedB16
from int8blas.gemm.stack cimport broadcast_batch
from int8blas.gemm.wide cimport WideOperand, WideProduct, exact_element, is_direct, multiply_wide

from int8blas.core.words import dtype_error, dtype_name, shown, warn

cnp.import_array()

cdef enum:
    # The number of elements of a chunk. The search for bits may stop after each chunk. Chunks of 512, 4096 and 32,768
    # elements take the same time, within 3 % (64 x 4 x 4096 and 256 x 256 x 256 in s64). A chunk of 32 KiB fits the L1
    # cache.
    CHUNK = 4096
    # Pairs of s16 are faster than s32 if the sums of at least LEAST_SEGMENT groups of k fit s32. 256 x 256 x 256 takes
    # 156 us in s16 and 226 us in s32 with 7 to 19 groups, and 238 us in s16 and 228 us in s32 with fewer groups (Zen
    # 5).
    LEAST_SEGMENT = 7

# Functions compare arguments with the default SATURATED by identity, which is fast.
cdef object SATURATED = "saturate"
# The dtypes that errors suggest for arrays that are not integers.
cdef tuple WANTED = ("uint8", "int8")


# The names of multiply-adds in the lines of INT8BLAS_VERBOSE.
cdef tuple KINDS = ("s16", "s16_full", "s32", "s64", "f64")


cdef cnp.ndarray integer_operand(object x, str name):
    """Return an input array of any integer type or bool, in native byte order."""
    cdef cnp.ndarray array = as_array(x, name)
    if integer_type(array) < 0:
        if cnp.PyArray_SIZE(array) == 0 and isinstance(x, (list, tuple)):
            return array.astype(np.int64)
        raise dtype_error(array, name, WANTED, x)
    return array if cnp.PyArray_ISNOTSWAPPED(array) else array.astype(array.dtype.newbyteorder("="))


cdef cnp.ndarray integer_output(object out, object dtype, int default, int *typenum):
    """Return `out` as an array to write to, or None if `out` is None. Also return the type of the result: `dtype` if it
    is given, else the type of `out`, else the default."""
    cdef cnp.ndarray array = None
    typenum[0] = default
    if dtype is not None:
        found = dtype_from(dtype)
        if found is None or found.kind not in "iu" or not found.isnative:
            raise TypeError(f"dtype must be an integer dtype, got {dtype_argument(dtype)}")
        typenum[0] = (<cnp.dtype>found).type_num
    if out is None:
        return None
    array = as_memory(out, "out", typenum[0])
    if dtype is None:
        if array.dtype.kind not in "iu":
            raise TypeError(f"out must be of an integer dtype, got {dtype_name(array.dtype)}")
        typenum[0] = cnp.PyArray_TYPE(array)
    elif not is_alike(cnp.PyArray_TYPE(array), typenum[0]):
        raise TypeError(f"out must be {dtype_name(cnp.PyArray_DescrFromType(typenum[0]))}, as dtype says, got "
                        f"{dtype_name(array.dtype)}")
    return output_of(array, "out", typenum[0])


def operand(x, name):
    """Return an input as an array of integers or bool, in native byte order."""
    return integer_operand(x, name)


def output_for(out, dtype, shape):
    """Return `out` as an array that a product of this shape can be stored in, and the dtype of the product."""
    cdef int typenum
    cdef cnp.ndarray array = integer_output(out, dtype, cnp.NPY_INT64, &typenum)
    if (<object>array).shape != shape:
        raise ValueError(f"out must have shape {shape}, got {(<object>array).shape}")
    return array, cnp.PyArray_DescrFromType(typenum)


cdef Overflow overflow_mode(object overflow) except *:
    if overflow is SATURATED:
        return SATURATE
    if isinstance(overflow, str):
        for mode, name in enumerate(("saturate", "wrap", "raise")):
            if overflow == name:
                return <Overflow>mode
    raise ValueError(f"overflow must be 'saturate', 'wrap' or 'raise', got {shown(overflow)}")


# The bits of elements

cdef cnp.ndarray as_bytes(cnp.ndarray x):
    """Return an array as int8 or uint8 if all elements fit, or None. The search stops soon after the first element that
    does not fit."""
    cdef const i8_wide_kernels *kernels = current_kernels().wide
    cdef i8_int_bits found = i8_int_bits(0, 0)
    cdef cnp.ndarray bytes_
    cdef int type = integer_type(x)
    cdef ptrdiff_t size = cnp.PyArray_ITEMSIZE(x)
    cdef cnp.npy_intp first = 0, end = cnp.PyArray_SIZE(x)
    if size == 1:
        return x.view(np.uint8) if cnp.PyArray_TYPE(x) == cnp.NPY_BOOL else x
    if not cnp.PyArray_IS_C_CONTIGUOUS(x):
        if cnp.PyArray_NDIM(x) > 1 and cnp.PyArray_IS_F_CONTIGUOUS(x):
            bytes_ = as_bytes(x.T)
            return None if bytes_ is None else bytes_.T
        if not fits_in_front(kernels, x[(0,) * (x.ndim - 1)], &found):
            return None
        x = np.ascontiguousarray(x)
    bytes_ = empty_of((<object>x).shape, cnp.NPY_UINT8)
    while first < end:
        kernels.narrow[type](<uint8_t *>cnp.PyArray_DATA(bytes_) + first, &found, cnp.PyArray_BYTES(x) + first * size,
                             size, min(end - first, <cnp.npy_intp>CHUNK))
        if not fit_bytes(&found):
            return None
        first += CHUNK
    return bytes_.view(np.int8) if found.magnitude <= 127 else bytes_


cdef bint fits_in_front(const i8_wide_kernels *kernels, cnp.ndarray x, i8_int_bits *found) noexcept:
    """Add the bits of a vector's elements to `found`. Return whether all elements so far fit bytes."""
    kernels.bits[integer_type(x)](found, cnp.PyArray_BYTES(x), cnp.PyArray_STRIDE(x, 0), cnp.PyArray_DIM(x, 0))
    return fit_bytes(found)


# The product

cdef void choose_kind(WideProduct *w, const Bits *a, const Bits *b) noexcept:
    """Choose the multiply-add for operands with these numbers of bits."""
    cdef int both = a.count + b.count
    w.segment = INT64_MAX
    if a.count <= 15 and b.count <= 15 and both < 30 and (1 << (30 - both)) - 1 >= LEAST_SEGMENT:
        w.kind, w.segment = I8_WIDE_S16, (1 << (30 - both)) - 1
    elif a.count <= 15 and b.count <= 15:
        w.kind = I8_WIDE_S16_FULL
    elif a.count <= 31 and b.count <= 31:
        w.kind = I8_WIDE_S32
    else:
        w.kind = I8_WIDE_S64


cdef void set_operand(WideOperand *operand, ptrdiff_t *steps, cnp.ndarray x, bint is_b, int dims) noexcept:
    """Set an operand of numpy.matmul, and its steps along the axes of the stack."""
    cdef int axis, own = cnp.PyArray_NDIM(x) - 2 - dims     # axis of `x` for axis 0 of the stack; negative: none
    operand.data, operand.type = cnp.PyArray_BYTES(x), integer_type(x)
    operand.row = operand.column = 0
    if cnp.PyArray_NDIM(x) == 1:
        if is_b:
            operand.row = cnp.PyArray_STRIDE(x, 0)
        else:
            operand.column = cnp.PyArray_STRIDE(x, 0)
    else:
        operand.row = cnp.PyArray_STRIDE(x, cnp.PyArray_NDIM(x) - 2)
        operand.column = cnp.PyArray_STRIDE(x, cnp.PyArray_NDIM(x) - 1)
    for axis in range(dims):
        steps[axis] = 0
        if axis + own >= 0 and cnp.PyArray_DIM(x, axis + own) != 1:
            steps[axis] = cnp.PyArray_STRIDE(x, axis + own)


cdef int set_batch(WideProduct *w, cnp.ndarray x, object y) except -1:
    """Broadcast the operands' stacks of matrices, and set the shape of the result's stack."""
    cdef tuple batch = broadcast_batch((<object>x).shape[:-2], y.shape[:-2])
    w.stack.dims = <int>len(batch)
    for axis in range(w.stack.dims):
        w.stack.shape[axis] = batch[axis]
        w.stack.count *= w.stack.shape[axis]
    return 0


cdef int set_packed(WideProduct *w, PackedB16 packed, int64_t *rows) except -1:
    """Set B to a packed matrix, and its number of rows."""
    cdef int axis
    w.packed, w.n, rows[0] = cnp.PyArray_BYTES(packed._data), packed._n, packed._k
    w.panel = cnp.PyArray_STRIDE(packed._data, 0)
    w.b.data, w.b.type = w.packed, I8_INT_S16
    for axis in range(w.stack.dims):
        w.stack.b_steps[axis] = 0
    return 0


cdef int set_sizes(WideProduct *w, cnp.ndarray x, object y, Shape *shape) except -1:
    """Set the sizes and operands of a product, and the shape of the result. `y` is an array or a PackedB16."""
    cdef int axis, x_dims = cnp.PyArray_NDIM(x), y_dims = y.ndim
    cdef int64_t b_rows
    cdef cnp.ndarray right = None if type(y) is PackedB16 else y
    if x_dims == 0 or y_dims == 0:
        raise ValueError(f"{'b' if x_dims else 'a'} must have at least 1 dimension, got a scalar")
    w.k = cnp.PyArray_DIM(x, x_dims - 1)
    w.m = cnp.PyArray_DIM(x, x_dims - 2) if x_dims > 1 else 1
    w.stack.count, w.stack.dims, w.packed = 1, 0, NULL
    if x_dims > 2 or y_dims > 2:
        set_batch(w, x, y)
    if right is None:
        set_packed(w, y, &b_rows)
    else:
        b_rows = cnp.PyArray_DIM(right, max(0, y_dims - 2))
        w.n = cnp.PyArray_DIM(right, y_dims - 1) if y_dims > 1 else 1
        set_operand(&w.b, w.stack.b_steps, right, True, w.stack.dims)
    if b_rows != w.k:
        raise ValueError(f"b must have {w.k} rows, as a has {w.k} columns, got {b_rows}")
    set_operand(&w.a, w.stack.a_steps, x, False, w.stack.dims)
    shape.ndim = w.stack.dims
    for axis in range(w.stack.dims):
        shape.sizes[axis] = w.stack.shape[axis]
    if x_dims > 1:
        shape.sizes[shape.ndim] = w.m
        shape.ndim += 1
    if y_dims > 1:
        shape.sizes[shape.ndim] = w.n
        shape.ndim += 1
    # A C-contiguous stack times one matrix is a single product. Set both strides of A, because NumPy may give a
    # dimension of one element any stride.
    if w.stack.dims and y_dims <= 2 and cnp.PyArray_IS_C_CONTIGUOUS(x):
        w.m, w.stack.count, w.stack.dims = w.m * w.stack.count, 1, 0
        w.a.column = cnp.PyArray_ITEMSIZE(x)
        w.a.row = w.k * w.a.column
    return 0


cdef int run_wide(const WideProduct *w, str name) except -1:
    """Compute a product. Release the GIL, unless releasing it takes longer than the product."""
    cdef int status, threads
    cdef double begun = 0
    if verbose:
        forget_regions()
        begun = seconds()
    if keeps_gil(<double>w.m * w.n * (w.k + 1) * w.stack.count, KEEPS_GIL_WORK):
        status = multiply_wide(w, 1)
    else:
        threads = max_threads()
        with nogil:
            end_turn()
            status = multiply_wide(w, threads)
            take_turn()
    check_memory(status, name)
    if verbose:
        report(name, f"m={w.m},n={w.n},k={w.k}", KINDS[w.kind], current_kernels(), region_used(), seconds() - begun)
    return 0


cdef int multiply_modulo_64(const WideProduct *w, cnp.ndarray x, object y, str name) except -1:
    """Store the product of an array and an array or PackedB16 in C, modulo 2**64."""
    if uses_digits(w):
        return multiply_digits(w, x, y, name)
    return run_wide(w, name)


cdef bint saturate_sums(const WideProduct *w, const double *reals, double error, bint to_u64) noexcept nogil:
    """Replace sums modulo 2**64 by the true sums, saturated to s64 or u64. Return whether a sum was out of range.

    `reals` has the true sums in float64, with an error of at most `error`.
    """
    cdef int64_t *sums = <int64_t *>w.c
    cdef double low = 0 if to_u64 else -ldexp(1, 63), high = ldexp(1, 64 if to_u64 else 63)
    cdef int64_t i, size = w.m * w.n
    cdef bint beyond = False
    for i in range(w.stack.count * size):
        if low + error <= reals[i] <= high - error:
            continue
        if reals[i] < low - error:
            sums[i], beyond = 0 if to_u64 else INT64_MIN, True
        elif reals[i] > high + error:
            sums[i], beyond = -1 if to_u64 else INT64_MAX, True
        else:
            sums[i] = exact_element(w, i // size, i % size // w.n, i % w.n, to_u64, &beyond)
    return beyond


cdef cnp.ndarray real_sums(const WideProduct *w):
    """Return the sums of a product in float64. If the operands have `bits` bits together, the error of a sum is at most
    (2 * k + 8) * k * 2**(bits - 53)."""
    cdef WideProduct reals = w[0]
    cdef cnp.ndarray sums = empty_of((w.stack.count * w.m * w.n,), cnp.NPY_FLOAT64)
    reals.kind, reals.c = I8_WIDE_F64, cnp.PyArray_BYTES(sums)
    run_wide(&reals, "matmul")
    return sums


cdef bint find_overflow(const WideProduct *w, int bits, bint to_u64) except -1:
    """Saturate sums that are known modulo 2**64. Return whether a sum was out of the range of s64, or u64."""
    cdef cnp.ndarray reals = real_sums(w)
    cdef double error = (2.0 * w.k + 8) * w.k * ldexp(1, bits - 53)
    cdef bint beyond
    with nogil:
        end_turn()
        beyond = saturate_sums(w, <const double *>cnp.PyArray_DATA(reals), error, to_u64)
        take_turn()
    return beyond


cdef bint store_axes(const i8_wide_kernels *kernels, int type, char *data, int axis, cnp.ndarray target,
                     const int64_t **sums, bint saturates) noexcept:
    """Store the next of the `sums` in the elements along the axes from `axis` on."""
    cdef int last = cnp.PyArray_NDIM(target) - 1
    cdef cnp.npy_intp i, n = 1 if axis > last else cnp.PyArray_DIM(target, axis)
    cdef ptrdiff_t step = 0 if axis > last else cnp.PyArray_STRIDE(target, axis)
    cdef bint beyond = False
    if axis < last:
        for i in range(n):
            beyond |= store_axes(kernels, type, data + i * step, axis + 1, target, sums, saturates)
        return beyond
    if saturates:
        beyond = kernels.saturate[type](data, step, sums[0], n)
    else:
        kernels.wrap[type](data, step, sums[0], n)
    sums[0] += n
    return beyond


cdef bint store(cnp.ndarray target, const int64_t *sums, bint saturates) noexcept:
    """Store sums in an array of any integer type and any strides. Return whether a sum was saturated."""
    cdef const i8_wide_kernels *kernels = current_kernels().wide
    cdef int type = integer_type(target)
    if cnp.PyArray_IS_C_CONTIGUOUS(target):
        if saturates:
            return kernels.saturate[type](cnp.PyArray_BYTES(target), cnp.PyArray_ITEMSIZE(target), sums,
                                          cnp.PyArray_SIZE(target))
        kernels.wrap[type](cnp.PyArray_BYTES(target), cnp.PyArray_ITEMSIZE(target), sums, cnp.PyArray_SIZE(target))
        return False
    return store_axes(kernels, type, cnp.PyArray_BYTES(target), 0, target, &sums, saturates)


cdef int tell_overflow(int typenum, Overflow overflow) except -1:
    """Raise an error, or warn, that elements are out of the range of the result's type."""
    name = dtype_name(cnp.PyArray_DescrFromType(typenum))
    if overflow == RAISE:
        raise OverflowError(f"matmul: elements of the result are beyond {name}, and overflow is 'raise'")
    wider = "overflow='wrap' has them modulo 2**64" if cnp.PyArray_DescrFromType(typenum).itemsize == 8 else (
        "int8blas.matmul with dtype=np.int64 has them all")
    warn(f"matmul: elements of the result beyond {name} were saturated; {wider}")
    return 0


cdef str kind_name(int kind):
    """Return the name of a kind of multiply-add."""
    return KINDS[kind]


cdef inline Bits bits_of_b(const i8_wide_kernels *kernels, object y):
    """Return the bits of B, an array or a PackedB16."""
    return (<PackedB16>y)._bits if type(y) is PackedB16 else bits_of(kernels, y)


cdef object multiply_integers(cnp.ndarray x, object y, cnp.ndarray given, int typenum, Overflow overflow):
    """Multiply an array of integers by an array or a PackedB16, and store the product in `given` or in a new array."""
    cdef WideProduct w
    cdef Shape shape
    cdef Bits a, b
    cdef cnp.ndarray target, sums
    cdef int bits, i
    cdef bint to_u64, positive, searches, saturates, beyond = False
    w.kernels = current_kernels().wide
    set_sizes(&w, x, y, &shape)
    if given is not None and (cnp.PyArray_NDIM(given) != shape.ndim or not cnp.PyArray_CompareLists(
            cnp.PyArray_DIMS(given), shape.sizes, shape.ndim)):
        raise ValueError(f"out must have shape {tuple([shape.sizes[i] for i in range(shape.ndim)])}, got "
                         f"{(<object>given).shape}")
    w.kind, a, b = I8_WIDE_S64, Bits(64, True), Bits(64, True)
    if overflow != WRAP or not is_direct(&w):
        a, b = bits_of(w.kernels, x), bits_of_b(w.kernels, y)
        choose_kind(&w, &a, &b)
    bits, positive = a.count + b.count + levels(w.k), not (a.negative or b.negative)
    to_u64 = integer_code(typenum, <int>cnp.PyArray_DescrFromType(typenum).itemsize) == I8_INT_U64
    searches = overflow != WRAP and bits > (62 if not positive else 64 if to_u64 else 63)
    # A failed call must not change `given`. The search for overflow allocates memory after the sums are stored, and
    # products of digits allocate memory after some rows are stored. An allocation may fail, so a call that allocates
    # memory after it has stored elements uses a new array.
    target = given
    if given is None or overflow == RAISE or searches or uses_digits(&w) or not is_usable(given, x, y):
        target = empty(shape.ndim, shape.sizes, typenum)
    sums = target
    if cnp.PyArray_ITEMSIZE(target) < 8 or not cnp.PyArray_IS_C_CONTIGUOUS(target):
        sums = empty(shape.ndim, shape.sizes, cnp.NPY_INT64)
    w.c = cnp.PyArray_BYTES(sums)
    multiply_modulo_64(&w, x, y, "matmul")
    saturates = overflow != WRAP and not (to_u64 and positive)
    if searches:
        beyond, saturates = find_overflow(&w, a.count + b.count, to_u64), not to_u64
    if sums is not target or (to_u64 and saturates):
        beyond |= store(target, <const int64_t *>w.c, saturates)
    if beyond and overflow == RAISE:
        tell_overflow(typenum, overflow)
    if given is not None and target is not given:
        given[...] = target
    if beyond:
        tell_overflow(typenum, overflow)
    return given if given is not None else target if cnp.PyArray_NDIM(target) else target[()]


cdef cnp.ndarray multiply_to_sums(WideProduct *w, cnp.ndarray x, object y, int *bits, str name):
    """Return a product modulo 2**64 as a new array of int64. Set `w` to the product, and `bits` to the maximum number
    of bits of its sums. If `bits` is at most 62, the result is exact."""
    cdef Shape shape
    cdef Bits a, b
    cdef cnp.ndarray sums
    w.kernels = current_kernels().wide
    set_sizes(w, x, y, &shape)
    a, b = bits_of(w.kernels, x), bits_of_b(w.kernels, y)
    choose_kind(w, &a, &b)
    bits[0] = a.count + b.count + levels(w.k)
    sums = empty(shape.ndim, shape.sizes, cnp.NPY_INT64)
    w.c = cnp.PyArray_BYTES(sums)
    multiply_modulo_64(w, x, y, name)
    return sums
