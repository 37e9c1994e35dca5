"""``hamming``: the number of bits in which rows differ.

A kernel compares rows x with panels of packed rows y, 16 rows y at a time (csrc/neighbors/hamming.c). A unit of work
has some rows x and some panels, so that its panels stay in the L2 cache and its rows of the result have few pages.
Plain rows y are packed unit by unit.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport INT32_MAX, int8_t, int32_t, int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport as_memory, int8_operand, output_of
from int8blas.core.kernels cimport I8_GROUP, I8_PANEL, current_kernels, i8_hamming_args, i8_kernels
from int8blas.core.memory cimport acquire, release
from int8blas.core.results cimport Layout, check_layout, lay_out
from int8blas.core.split cimport ceil_div
from int8blas.core.threads cimport KEEPS_GIL_BYTES, THREAD_BYTES, run_work
from int8blas.core.traced import traced
from int8blas.gemm.call cimport is_usable
from int8blas.gemm.operand cimport SIGN_BIT
from int8blas.gemm.packing cimport PackedB

cnp.import_array()

cdef enum:
    # The rows x of a kernel call. The result has a row for each row x; more than 64 rows would lie in more pages than
    # the CPU's TLB has entries. 512 rows x and 4096 rows of 128 bytes take 1032 us with 8 rows, 1004 us with 64 rows
    # and 1010 us with 512 rows (Zen 5).
    CALL_ROWS = 64
    # The maximum number of rows x, and of bytes of panels, in a unit. 2048 x 2048 rows of 32 bytes take 764 us with 128
    # rows, 666 us with 512 rows and 731 us with 2048 rows. Times with 16 KiB to 1 MiB of panels differ by 2 % (Zen 5).
    UNIT_ROWS = 512
    UNIT_BYTES = 1 << 17


cdef struct Job:
    const i8_kernels *kernels
    int64_t rows, columns, k
    int64_t panels              # panels of a unit
    const uint8_t *x            # packed rows
    const int8_t *packed        # packed rows y, or NULL if `y` has plain rows
    const uint8_t *y
    ptrdiff_t y_row, y_column
    int32_t *out
    ptrdiff_t out_row           # elements from one row of the result to the next


cdef cnp.ndarray packed_rows(cnp.ndarray x):
    """Return rows x in the form that i8_hamming_args describes: shifted, and in whole groups."""
    cdef const i8_kernels *kernels = current_kernels()
    cdef int64_t size = ceil_div(cnp.PyArray_DIM(x, 1), I8_GROUP) * I8_GROUP, i
    cdef cnp.ndarray rows = np.empty((cnp.PyArray_DIM(x, 0), size), np.uint8)
    for i in range(cnp.PyArray_DIM(x, 0)):
        kernels.packing.pack_panel(
            <uint8_t *>cnp.PyArray_DATA(rows) + i * size, 1, 1, cnp.PyArray_DIM(x, 1),
            <const uint8_t *>cnp.PyArray_DATA(x) + i * cnp.PyArray_STRIDE(x, 0), cnp.PyArray_STRIDE(x, 0),
            cnp.PyArray_STRIDE(x, 1), SIGN_BIT)
    return rows


cdef int run_unit(const void *job, int64_t unit, int64_t _units) noexcept nogil:
    """Compute the distances of one unit. Return 0, or -1 if there is no memory."""
    cdef const Job *j = <const Job *>job
    cdef int64_t width = j.panels * I8_PANEL, across = ceil_div(j.columns, width)
    cdef int64_t row = unit // across * UNIT_ROWS, end = min(row + UNIT_ROWS, j.rows), first = unit % across * width
    cdef int64_t groups = ceil_div(j.k, I8_GROUP)
    cdef ptrdiff_t panel = groups * I8_GROUP * I8_PANEL
    cdef i8_hamming_args t
    cdef uint8_t *memory = NULL
    t.columns, t.groups, t.flip = min(width, j.columns - first), groups, 0
    t.x_row, t.dst_row = groups * I8_GROUP, j.out_row
    if j.packed is not NULL:
        t.panels = j.packed + first // I8_PANEL * panel
    else:
        memory = <uint8_t *>acquire(ceil_div(t.columns, I8_PANEL) * panel + 1)
        if memory is NULL:
            return -1
        j.kernels.packing.pack_panels(memory, panel, t.columns, j.k, j.y + first * j.y_row, j.y_row, j.y_column,
                                      SIGN_BIT)
        t.panels = <int8_t *>memory
    while row < end:
        t.rows = min(<int64_t>CALL_ROWS, end - row)
        t.x, t.dst = j.x + row * t.x_row, j.out + row * j.out_row + first
        j.kernels.hamming(&t)
        row += t.rows
    if memory is not NULL:
        release(memory)
    return 0


cdef cnp.ndarray bits_of_rows(object x, str name):
    """Return an array of packed bits, or raise an error."""
    cdef cnp.ndarray array = int8_operand(x, name)
    if cnp.PyArray_TYPE(array) != cnp.NPY_UINT8:
        raise TypeError(f"{name} must be uint8, packed bits, got int8")
    if cnp.PyArray_NDIM(array) not in (1, 2):
        raise ValueError(f"{name} must have 1 or 2 dimensions, got shape {(<object>array).shape}")
    return array


@traced("x", "y")
def hamming(x, y, *, out=None):
    """Count the bits in which rows of packed bits differ, for all pairs of rows.

    Parameters
    ----------
    x : array_like of uint8
        Rows of 8 K bits, as :func:`numpy.packbits` returns them, of shape (M, K), or one row of shape (K,), with any
        strides.
    y : array_like of uint8, or PackedB
        Rows of shape (N, K), or one row, with any strides. A PackedB, ``pack_b(y, trans_b=True)``, saves packing y.
    out : ndarray of int32, optional
        The array for the result. The array must have the shape of the result, and may have any strides.

    Returns
    -------
    ndarray of int32
        ``out`` if it is given. The shape is (M, N); a one-dimensional x or y has no dimension in the result. Two single
        rows give a scalar.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    See Also
    --------
    nearest, Index : the smallest distances of each row of x, with ``metric="hamming"``.

    Notes
    -----
    The number of ones of a row, ``n``, is its distance from a row of zeros. The inner product of bits is ``p = (n(x) +
    n(y) - d) / 2`` for the distance d. The Jaccard (Tanimoto) similarity is ``p / (n(x) + n(y) - p)``.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.packbits([[1, 1, 1, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 0, 1]], axis=1)
    >>> y = np.packbits([[1, 1, 0, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1, 1, 1, 0]], axis=1)
    >>> distances = int8blas.hamming(x, y)
    >>> distances
    array([[1, 6],
           [2, 9]], dtype=int32)
    >>> zeros = np.zeros(2, np.uint8)
    >>> ones = int8blas.hamming(x, zeros)[:, np.newaxis] + int8blas.hamming(y, zeros)
    >>> common = (ones - distances) // 2
    >>> common / (ones - common)
    array([[0.75      , 0.33333333],
           [0.33333333, 0.        ]])
    """
    cdef cnp.ndarray a = bits_of_rows(x, "x"), b = None, given = None, target = None, rows
    cdef PackedB packed = None
    cdef Layout layouts[2]
    cdef Job job
    cdef bint a_is_vector = cnp.PyArray_NDIM(a) == 1, b_is_vector = False
    cdef int64_t y_k, units
    a = a.reshape(1, -1) if a_is_vector else a
    lay_out(&layouts[0], a)
    if type(y) is PackedB:
        packed = <PackedB>y
        if packed._typenum != cnp.NPY_UINT8:
            raise TypeError("y must be uint8, packed bits, got a PackedB of int8")
        y_k, job.columns = packed._k, packed._n
    else:
        b = bits_of_rows(y, "y")
        b_is_vector = cnp.PyArray_NDIM(b) == 1
        b = b.reshape(1, -1) if b_is_vector else b
        lay_out(&layouts[1], b)
        y_k, job.columns = cnp.PyArray_DIM(b, 1), cnp.PyArray_DIM(b, 0)
    job.rows, job.k = cnp.PyArray_DIM(a, 0), cnp.PyArray_DIM(a, 1)
    if y_k != job.k:
        raise ValueError(f"y must have rows of {job.k} bytes, as x has, got {y_k}")
    if job.k > INT32_MAX // 8:
        raise ValueError(f"x must have rows of at most {INT32_MAX // 8} bytes, got {job.k}")
    shape = (() if a_is_vector else (job.rows,)) + (() if b_is_vector else (job.columns,))
    if out is not None:
        given = output_of(as_memory(out, "out", cnp.NPY_INT32), "out", cnp.NPY_INT32)
        if (<object>given).shape != shape:
            raise ValueError(f"out must have shape {shape}, got {(<object>given).shape}")
    check_layout(&layouts[0], a, "x")
    if b is not None:
        check_layout(&layouts[1], b, "y")
    if out is not None:
        target = given.reshape(job.rows, job.columns)
        if not np.may_share_memory(target, given) or not (
            cnp.PyArray_STRIDE(target, 1) == sizeof(int32_t) and cnp.PyArray_STRIDE(target, 0) % sizeof(int32_t) == 0
            and is_usable(target, a, b if packed is None else packed)
        ):
            target = None
    if target is None:
        target = np.empty((job.rows, job.columns), np.int32)

    job.kernels = current_kernels()
    rows = packed_rows(a)
    job.x, job.packed, job.y = <const uint8_t *>cnp.PyArray_DATA(rows), NULL, NULL
    if packed is not None:
        job.packed = packed._matrix.panels.data
    else:
        job.y = <const uint8_t *>cnp.PyArray_DATA(b)
        job.y_row, job.y_column = cnp.PyArray_STRIDE(b, 0), cnp.PyArray_STRIDE(b, 1)
    job.out, job.out_row = <int32_t *>cnp.PyArray_DATA(target), cnp.PyArray_STRIDE(target, 0) // <int>sizeof(int32_t)
    job.panels = max(<int64_t>1, UNIT_BYTES // max(<int64_t>1, I8_PANEL * job.k))
    units = ceil_div(job.rows, UNIT_ROWS) * ceil_div(job.columns, job.panels * I8_PANEL)
    if run_work(run_unit, &job, units, <double>job.rows * job.columns * (job.k + 4), THREAD_BYTES, KEEPS_GIL_BYTES):
        raise MemoryError("hamming: no memory for the workspace")
    if out is not None:
        if not np.may_share_memory(target, given):
            given[...] = target.reshape(shape)
        return out
    return target.reshape(shape)[()]
