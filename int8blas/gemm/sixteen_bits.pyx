"""Packed matrices of 16 bits, in the layout that the kernels for pairs of int16 read (csrc/gemm/wide.h).

``data[n // 16, k // 2, n % 16, k % 2]`` is B[k, n]: panels of 16 columns; in a panel, groups of 2 consecutive k. A
group has 64 bytes, as in a :class:`PackedB`. K is padded with zeros to a multiple of 2, N to a multiple of 16.
"""

from libc.stdint cimport int64_t
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core import file
from int8blas.core.kernels cimport I8_INT_S16, I8_PANEL, I8_WIDE_S16, current_kernels, i8_int_bits, i8_wide_kernels
from int8blas.core.split cimport ceil_div
from int8blas.core.streams import aligned_bytes
from int8blas.core.threads cimport THREAD_PACKED_BYTES, parallel_for, threads_for
from int8blas.gemm.bits cimport count_bits
from int8blas.gemm.packed cimport Packed, can_keep, checked_bytes

cnp.import_array()

cdef enum:
    PAIR = 2                    # k of a group
    GROUP_BYTES = 64


@cython.final
cdef class PackedB16(Packed):
    """A matrix B of int16 packed for multiplication from the right; made by :func:`pack_b`.

    :func:`matmul` and :func:`gemm_s16s16s32` take a PackedB16 as B. Like a :class:`PackedB`, a PackedB16 is immutable,
    many threads may use it at once, and it can be pickled, saved to a file and mapped from the file. ``copy.copy`` and
    ``copy.deepcopy`` return the matrix itself.

    Attributes
    ----------
    shape : tuple of int
        (K, N), the shape of B.
    ndim : int
        2.
    dtype : numpy.dtype
        int16.
    data : numpy.ndarray
        The packed values, a read-only int16 view of shape (ceil(N / 16), ceil(K / 2), 16, 2) with
        ``data[n // 16, k // 2, n % 16, k % 2] == B[k, n]`` and zeros as padding.
    column_sums : numpy.ndarray
        The sum of each column of B, int64 of shape (N,).
    nbytes : int
        Size of `data`.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> b = np.array([[1000, -2000], [30000, 4], [5, 6]], np.int16)
    >>> packed = int8blas.pack_b(b)
    >>> packed
    PackedB16(shape=(3, 2), dtype=int16)
    >>> packed.data[0, 0, 1]  # column 1, the first two k
    array([-2000,     4], dtype=int16)
    >>> np.array([[100, 100, 1]]) @ packed
    array([[3100005, -199594]])
    """

    _what = "packed matrix of 16 bits"

    def __cinit__(self):
        # Begin with an empty matrix, so that an object from __new__ is safe to use.
        self._typenum = cnp.NPY_INT16
        self._data = np.empty((0, 0, I8_PANEL, PAIR), np.int16)

    cdef PackedB16 left(self, int64_t columns):
        """Return the first columns as a matrix that shares the memory, without column sums."""
        cdef PackedB16 part = PackedB16.__new__(PackedB16)
        part._k, part._n, part._typenum = self._k, columns, cnp.NPY_INT16
        part._data, part._bits = self._data, self._bits
        return part

    @property
    def column_sums(self):
        return self._sums[:self._n]

    def __repr__(self):
        return f"PackedB16(shape={self.shape}, dtype=int16)"

    def __reduce__(self):
        # Pickle the array itself, for the reasons in PackedB.__reduce__.
        return _restore, (self._k, self._n, "int16", self._data)

    def unpack(self):
        """Return the matrix B as a new C-ordered array.

        Returns
        -------
        numpy.ndarray
            B, int16 of shape (K, N).
        """
        panels, groups = self._data.shape[:2]
        b = self._data.transpose(1, 3, 0, 2).reshape(groups * PAIR, panels * I8_PANEL)[:self._k, :self._n]
        return np.array(b, order="C")


cdef object packed_bytes(object k, object n):
    """Return the number of bytes of a packed K x N matrix as a Python integer, which cannot overflow."""
    return -(-n // I8_PANEL) * -(-k // PAIR) * GROUP_BYTES


def _restore(k, n, dtype, buffer):
    """Make a PackedB16 from the values of PackedB16.__reduce__; `buffer` has the packed values."""
    cdef cnp.ndarray data = checked_bytes(k, n, dtype, buffer, packed_bytes(k, n), ("int16",), PackedB16._what)
    if not can_keep(buffer, data):
        copy = aligned_bytes(data.size).view(np.uint8)
        copy[...] = data
        data = copy
    return from_data(k, n, data)


file.register(PackedB16, _restore)


cdef PackedB16 from_data(int64_t k, int64_t n, cnp.ndarray data):
    """Make a PackedB16 that keeps `data`, the packed values. Compute the sums of columns and the bits of values."""
    cdef PackedB16 packed = PackedB16.__new__(PackedB16)
    cdef i8_int_bits found = i8_int_bits(0, 0)
    packed.set_data(k, n, cnp.NPY_INT16, data.view(np.int16), ceil_div(k, PAIR), PAIR)
    shape = ceil_div(n, I8_PANEL), ceil_div(k, PAIR), I8_PANEL * PAIR
    packed._sums = packed._data.reshape(shape).sum(1, np.int64).reshape(-1, PAIR).sum(1)
    packed._sums.flags.writeable = False
    if cnp.PyArray_SIZE(packed._data):
        current_kernels().wide.bits[I8_INT_S16](&found, cnp.PyArray_BYTES(packed._data), 2,
                                                cnp.PyArray_SIZE(packed._data))
    packed._bits = count_bits(&found)
    return packed


# A B to pack. Strides are in bytes.
cdef struct PackJob:
    const i8_wide_kernels *kernels
    char *data
    const char *b
    int64_t k, n
    ptrdiff_t k_stride, n_stride, panel


cdef int pack_panel(const void *job, int64_t panel, int64_t _panels) noexcept nogil:
    """Pack one panel, for pack_sixteen_bits."""
    cdef const PackJob *j = <const PackJob *>job
    cdef int64_t column = panel * I8_PANEL
    j.kernels.pack[I8_WIDE_S16][I8_INT_S16](
        j.data + panel * j.panel, <int>min(j.n - column, <int64_t>I8_PANEL), I8_PANEL, j.k, j.b + column * j.n_stride,
        j.n_stride, j.k_stride)
    return 0


cdef PackedB16 pack_sixteen_bits(cnp.ndarray b, bint transpose):
    """Pack op(b), a 2-D array of int16."""
    cdef PackJob job
    cdef cnp.ndarray data
    cdef int64_t panels
    job.kernels, job.b = current_kernels().wide, cnp.PyArray_BYTES(b)
    job.k, job.n = b.shape[transpose], b.shape[1 - transpose]
    job.k_stride, job.n_stride = b.strides[transpose], b.strides[1 - transpose]
    job.panel = ceil_div(job.k, PAIR) * GROUP_BYTES
    data = aligned_bytes(packed_bytes(job.k, job.n))
    job.data = cnp.PyArray_BYTES(data)
    panels = ceil_div(job.n, I8_PANEL) if job.k else 0
    with nogil:
        parallel_for(pack_panel, &job, panels, threads_for(
            <double>panels * job.panel, THREAD_PACKED_BYTES, <double>panels))
    return from_data(job.k, job.n, data)
