"""Packed matrices of 4 bits, int4 or uint4, in the layout that the kernels read.

``data[n // 16, k // 8, n % 16, k % 4]`` has two values, B[k, n] with k % 8 < 4 in its low half, and B[k, n] with k % 8
>= 4 in its high half. The low halves of 64 bytes are one group of the layout of a :class:`PackedB`, and the high halves
are the next group. An int4 value is stored plus 8, so that the halves are values of 0 to 15. K is padded to a multiple
of 8 and N to a multiple of 16 with zeros of B.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memset
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core import file
from int8blas.core.kernels cimport I8_GROUP, I8_PANEL, current_kernels, i8_kernels
from int8blas.core.memory cimport acquire, release
from int8blas.core.split cimport ceil_div
from int8blas.core.streams import aligned_bytes
from int8blas.core.threads cimport THREAD_PACKED_BYTES, parallel_for, threads_for
from int8blas.gemm.operand cimport set_as_s8
from int8blas.gemm.packed cimport Packed, can_keep, checked_bytes
from int8blas.gemm.problem cimport PACK_PANELS, STEP_BYTES, STEP_K

cnp.import_array()


@cython.final
cdef class PackedB4(Packed):
    """A matrix B of 4-bit integers packed for multiplication from the right; made by :func:`pack_b` with ``bits=4``.

    :func:`matmul`, :func:`gemm_u8s4s32` and :func:`gemm_s8s4s32` take a PackedB4 as B. A PackedB4 takes half of the
    bytes of a :class:`PackedB`. Like a PackedB, a PackedB4 is immutable, many threads may use it at once, and it can be
    pickled, saved to a file and mapped from the file. ``copy.copy`` and ``copy.deepcopy`` return the matrix itself.

    Attributes
    ----------
    shape : tuple of int
        (K, N), the shape of B.
    ndim : int
        2.
    bits : int
        4.
    dtype : numpy.dtype
        int8 if B has values from -8 to 7 (int4), uint8 if it has values from 0 to 15 (uint4).
    data : numpy.ndarray
        The packed bytes, a read-only uint8 view of shape (ceil(N / 16), ceil(K / 8), 16, 4). B[k, n] is in
        ``data[n // 16, k // 8, n % 16, k % 4]``: in the low half of the byte if k % 8 < 4, otherwise in the high half.
        int4 values are stored plus 8. In padding, B is 0.
    column_sums : numpy.ndarray
        The sum of each column of B, int64 of shape (N,).
    nbytes : int
        Size of `data`.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> b = np.arange(-8, 8, dtype=np.int8).reshape(8, 2)
    >>> packed = int8blas.pack_b(b, bits=4)
    >>> packed
    PackedB4(shape=(8, 2), dtype=int4)
    >>> packed.data[0, 0, 0] % 16, packed.data[0, 0, 0] // 16  # column 0, plus 8
    (array([0, 2, 4, 6], dtype=uint8), array([ 8, 10, 12, 14], dtype=uint8))
    >>> np.ones((1, 8), np.int8) @ packed
    array([[-8,  0]], dtype=int32)
    >>> bool((packed.unpack() == b).all())
    True
    """

    _what = "packed matrix of 4 bits"
    _call = "pack_b(b, bits=4)"

    def __cinit__(self):
        # Begin with an empty matrix, so that an object from __new__ is safe to use.
        self._data = np.empty((0, 0, I8_PANEL, I8_GROUP), np.uint8)

    cdef void fill(self, Problem *g) noexcept:
        """Let `g` multiply by this matrix, without a zero point."""
        g.n = self._n
        set_as_s8(&g.b, False)
        g.four_bits = self._matrix

    cdef cnp.ndarray group_sums(self, int64_t size, cnp.ndarray zeros):
        """Return the column sums of B in each group of `size` k, int32 [panels, groups, 16]. `zeros` has zero points to
        subtract from B first, uint8 of the shape of the result, or is None."""
        cdef int64_t panels = self._data.shape[0], groups = self._k // size, part
        cdef cnp.ndarray array = np.empty((panels, groups, I8_PANEL), np.int32), unpacked = np.empty(
            size * I8_PANEL, np.int8)
        cdef int32_t *sums = <int32_t *>cnp.PyArray_DATA(array)
        cdef int8_t *values = <int8_t *>cnp.PyArray_DATA(unpacked)
        cdef const uint8_t *zero = NULL if zeros is None else <const uint8_t *>cnp.PyArray_DATA(zeros)
        cdef const i8_kernels *kernels = current_kernels()
        cdef int64_t some[I8_PANEL]
        cdef int i
        with nogil:
            # Panels, and the groups of a panel, are contiguous in memory.
            for part in range(panels * groups):
                kernels.packing.unpack_four_bits(
                    values, self._matrix.data + part * (size // STEP_K * STEP_BYTES), size // I8_GROUP,
                    self._matrix.zero, NULL if zero is NULL else zero + part * I8_PANEL, size // I8_GROUP)
                kernels.packing.panel_sums(some, values, size // I8_GROUP)
                for i in range(I8_PANEL):
                    sums[part * I8_PANEL + i] = <int32_t>some[i]
        return array

    @property
    def bits(self):
        return 4

    @property
    def column_sums(self):
        return self._sums[:self._n]

    def __repr__(self):
        return f"PackedB4(shape={self.shape}, dtype={name_of_type(self._typenum)})"

    def __reduce__(self):
        # Pickle the array itself, for the reasons in PackedB.__reduce__.
        return _restore, (self._k, self._n, name_of_type(self._typenum), self._data)

    def unpack(self):
        """Return the matrix B as a new C-ordered array.

        Returns
        -------
        numpy.ndarray
            Of shape (K, N) and B's dtype, int8 or uint8.
        """
        panels, steps = self._data.shape[:2]
        halves = np.stack([self._data & 15, self._data >> 4], axis=2)  # [panel, step, half, column, k]
        b = halves.transpose(1, 2, 4, 0, 3).reshape(steps * STEP_K, panels * I8_PANEL)[:self._k, :self._n]
        if self._typenum == cnp.NPY_UINT8:
            return np.array(b, order="C")
        return np.subtract(b.view(np.int8), np.int8(8), order="C")


# A job that packs B into values of 4 bits. Strides are in bytes. The job adds `shift` to each value: 8 for int8, 0 for
# uint8.
cdef struct PackJob:
    const i8_kernels *kernels
    uint8_t *data
    int64_t k, n, steps
    const uint8_t *b
    ptrdiff_t k_stride, n_stride
    uint8_t shift


cdef str name_of_type(int typenum):
    return "uint4" if typenum == cnp.NPY_UINT8 else "int4"


cdef object packed_bytes(object k, object n):
    """Return the number of bytes of a packed K x N matrix as a Python integer, which cannot overflow."""
    return -(-n // I8_PANEL) * -(-k // STEP_K) * STEP_BYTES


def _restore(k, n, dtype, buffer):
    """Make a PackedB4 from the values of PackedB4.__reduce__; `buffer` has the packed bytes."""
    cdef cnp.ndarray data
    data = checked_bytes(k, n, dtype, buffer, packed_bytes(k, n), ("int4", "uint4"), PackedB4._what)
    if not can_keep(buffer, data):
        copy = aligned_bytes(data.size).view(np.uint8)
        copy[...] = data
        data = copy
    return from_data(k, n, dtype, data)


file.register(PackedB4, _restore)


cdef PackedB4 from_data(int64_t k, int64_t n, str dtype, cnp.ndarray data):
    """Make a PackedB4 that keeps packed bytes, and compute the column sums."""
    cdef PackedB4 packed = PackedB4.__new__(PackedB4)
    cdef int64_t panels = ceil_div(n, I8_PANEL), steps = ceil_div(k, STEP_K), panel
    cdef cnp.ndarray sums_array = np.zeros(panels * I8_PANEL, np.int64), unpacked
    cdef int64_t *sums = <int64_t *>cnp.PyArray_DATA(sums_array)
    cdef const uint8_t *bytes_ = <const uint8_t *>cnp.PyArray_DATA(data)
    cdef int8_t *values
    packed.set_data(k, n, cnp.NPY_UINT8 if dtype == "uint4" else cnp.NPY_INT8, data, steps, I8_GROUP)
    packed._matrix.data, packed._matrix.step = bytes_, steps * STEP_BYTES
    packed._matrix.zero = 0 if dtype == "uint4" else 8
    packed._matrix.zeros, packed._matrix.size = NULL, 0
    packed._matrix.col_sums = sums
    if k:
        unpacked = np.empty(2 * steps * STEP_BYTES, np.int8)
        values = <int8_t *>cnp.PyArray_DATA(unpacked)
        with nogil:
            for panel in range(panels):
                current_kernels().packing.unpack_four_bits(
                    values, bytes_ + panel * packed._matrix.step, 2 * steps, packed._matrix.zero, NULL, 0)
                current_kernels().packing.panel_sums(sums + panel * I8_PANEL, values, 2 * steps)
    packed._sums = sums_array
    packed._sums.flags.writeable = False
    return packed


cdef int pack_part(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """Pack at most PACK_PANELS panels. Return 0, or -1 if there is no memory."""
    cdef const PackJob *j = <const PackJob *>job
    cdef int64_t panel = part * PACK_PANELS, column = panel * I8_PANEL, i, byte
    cdef int64_t columns = min(j.n - column, <int64_t>(PACK_PANELS * I8_PANEL)), panels = ceil_div(columns, I8_PANEL)
    cdef int64_t size = 2 * j.steps * STEP_BYTES
    cdef uint8_t *values = <uint8_t *>acquire(panels * size)
    cdef uint8_t *low
    cdef uint8_t *dst
    if values is NULL:
        return -1
    memset(values, 0, panels * size)
    j.kernels.packing.pack_panels(values, size, columns, j.k, j.b + column * j.n_stride, j.n_stride, j.k_stride, 0)
    for i in range(panels * j.steps):
        low = values + 2 * i * STEP_BYTES
        dst = j.data + (panel * j.steps + i) * STEP_BYTES
        for byte in range(STEP_BYTES):
            dst[byte] = <uint8_t>((low[byte] + j.shift) | (low[STEP_BYTES + byte] + j.shift) << 4)
    release(values)
    return 0


cdef PackedB4 pack_four_bits(cnp.ndarray b, bint transpose):
    """Pack op(b), a 2-D array of uint8 or int8 whose values fit 4 bits."""
    cdef PackJob job
    cdef bint is_unsigned = cnp.PyArray_TYPE(b) != cnp.NPY_INT8
    cdef int status
    cdef cnp.ndarray data
    cdef int64_t parts
    low, high = (0, 15) if is_unsigned else (-8, 7)
    if b.size and (np.min(b) < low or np.max(b) > high):
        raise ValueError(f"b must have values from {low} to {high} for bits=4 and {b.dtype}, got {np.min(b)} to "
                         f"{np.max(b)}")
    job.k, job.n = b.shape[transpose], b.shape[1 - transpose]
    job.k_stride, job.n_stride = b.strides[transpose], b.strides[1 - transpose]
    job.b, job.steps, job.shift = <const uint8_t *>cnp.PyArray_DATA(b), ceil_div(job.k, STEP_K), 0 if is_unsigned else 8
    data = aligned_bytes(packed_bytes(job.k, job.n)).view(np.uint8)
    job.data, job.kernels = <uint8_t *>cnp.PyArray_DATA(data), current_kernels()
    parts = ceil_div(job.n, PACK_PANELS * I8_PANEL) if job.k else 0
    with nogil:
        status = parallel_for(pack_part, &job, parts, threads_for(
            <double>job.n * job.k, THREAD_PACKED_BYTES, <double>parts))
    if status:
        raise MemoryError("pack_b: no memory for the workspace")
    return from_data(job.k, job.n, "uint4" if is_unsigned else "int4", data)
