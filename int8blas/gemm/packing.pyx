"""B in the layout that the kernels read, packed once and used many times.

``data[n // 16, k // 4, n % 16, k % 4]`` is B'[k, n]. A panel has 16 columns, in groups of 4 consecutive k. A group has
the 4 bytes of column 0, then the 4 bytes of column 1, and so on. The 64 bytes of a group are one AVX-512 register, two
AVX2 registers or one row of an AMX tile. K is padded with zeros to a multiple of 4, N to a multiple of 16. B' is B if B
is int8, and B - 128 if B is uint8. One layout serves every instruction set.

Intel's article "Accelerate Lower Numerical Precision Inference with Intel Deep Learning Boost" has this layout in
Figure 4.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uintptr_t
from libc.string cimport memcpy, memset
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core import file
from int8blas.core.arrays cimport check_transpose, elements
from int8blas.core.kernels cimport (
    I8_DOT2, I8_GROUP, I8_MAX_PAIR_SUM, I8_OUTLIER_K, I8_PANEL, current_kernels, i8_kernels, i8_outliers)
from int8blas.gemm.four_bits cimport pack_four_bits
from int8blas.gemm.operand cimport SIGN_BIT
from int8blas.gemm.packed cimport Packed, can_keep, checked_bytes, make_constant
from int8blas.gemm.problem cimport PACK_PANELS, SPLIT_ROWS, Panels, Problem
from int8blas.gemm.sixteen_bits cimport pack_sixteen_bits
from int8blas.gemm.small_values cimport CERTIFIED_SUM
from int8blas.core.results cimport empty, empty_bytes
from int8blas.core.split cimport ceil_div, even_size, round_up
from int8blas.core.streams import aligned_bytes
from int8blas.core.threads cimport KEEPS_GIL_BYTES, THREAD_PACKED_BYTES, parallel_for, run_work, threads_for
from int8blas.core.traced import traced
from int8blas.core.words import is_option, shown

cnp.import_array()

# The empty arrays of an object that only __new__ has set up.
cdef cnp.ndarray NO_DATA = np.empty((0, 0, I8_PANEL, I8_GROUP), np.int8), NO_PROOFS = np.empty(0, np.bool_)

# The time of the search for outliers, divided by the time of packing.
cdef int64_t SPLIT_WORK = 32

# The maximum number of bytes of B, so that the size of the packed matrix fits int64.
cdef double MOST_BYTES = 1e15

cdef enum:
    # The number of rows of B that are unpacked together, the unit of work of threads. Unpacking 512 x 64 takes 0.78 us
    # with 16 rows of B at a time, and 0.71 us with 64, 256 or 1024 rows (Zen 5).
    UNPACKED_K = 64
    # The time of a split panel, counted in bytes: the bytes of an unsplit panel that the kernels multiply in that time.
    # Four outliers of a column take the time of 4 * WIDENED_PART bytes, or 4 * CERTIFIED_PART bytes if the panel has a
    # no-saturation proof, so that it needs no widening. The sums of a column in a K block take the time of SUMS_K
    # bytes. If 6 % of B are outliers, 256 x 256 x 512 takes 213 us with and without the split (AVX2, Zen 5).
    WIDENED_PART = 9
    CERTIFIED_PART = 32
    SUMS_K = 80


# Panels to make: their packed bytes, column sums and no-saturation proofs.
cdef struct PackJob:
    const i8_kernels *kernels
    const Source *source
    int8_t *data
    int64_t panel_size, k, n
    int64_t *sums
    uint8_t *certified


# The arguments of the function that unpacks B to C order. Unpacking XORs the bytes of B with `flip`.
cdef struct UnpackJob:
    const i8_kernels *kernels
    const PackedMatrix *matrix
    uint8_t *b
    uint8_t flip


# The arguments of the search for sums of squares.
cdef struct SquaresJob:
    const i8_kernels *kernels
    const PackedMatrix *matrix
    int64_t *squares


# Panels to divide into a dense part and outliers. The first pass counts the outliers of each panel. The second pass
# stores the outliers of panels with few outliers.
cdef struct SplitJob:
    const i8_kernels *kernels
    const int8_t *data
    int64_t groups, panel_size
    int64_t block, columns      # the number of k that a list of outliers covers; the number of lists of a panel
    uint16_t *pair_sums         # the largest pair sum of each panel
    int64_t *counts             # the number of outliers of each split panel
    int64_t *firsts             # the number of outliers in the panels before each panel
    int64_t *starts
    uint8_t *is_split
    int8_t *dense
    i8_outliers *outliers


cdef int pack_part(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """Make up to PACK_PANELS panels, for make_panels. The search for facts reads the bytes from the L2 cache."""
    cdef const PackJob *j = <const PackJob *>job
    cdef const Source *source = j.source
    cdef int64_t first = part * PACK_PANELS, column = first * I8_PANEL, panel
    cdef int64_t columns = min(<int64_t>(PACK_PANELS * I8_PANEL), j.n - column), panels = ceil_div(columns, I8_PANEL)
    cdef int8_t *data = j.data + first * j.panel_size
    if source is NULL or j.k == 0:
        pass
    elif source.packed is not NULL:
        memcpy(data, source.packed + first * j.panel_size, panels * j.panel_size)
    else:
        j.kernels.packing.pack_panels(<uint8_t *>data, j.panel_size, columns, j.k,
                                      source.b + column * source.n_stride, source.n_stride, source.k_stride,
                                      source.flip)
    for panel in range(first, first + panels):
        data = j.data + panel * j.panel_size
        j.kernels.packing.panel_sums(j.sums + panel * I8_PANEL, data, ceil_div(j.k, I8_GROUP))
        j.certified[panel] = j.kernels.packing.panel_pair_sum(
            data, ceil_div(j.k, I8_GROUP), CERTIFIED_SUM) <= CERTIFIED_SUM
    return 0


cdef void make_panels(int8_t *data, int64_t k, int64_t n, const Source *source, int64_t *sums,
                      uint8_t *certified) noexcept nogil:
    """Pack or copy B into `data`, unless `source` is NULL, and find the column sums and no-saturation proofs."""
    cdef PackJob job
    cdef int64_t panels = ceil_div(n, I8_PANEL), parts = ceil_div(panels, PACK_PANELS)
    job.kernels, job.source = current_kernels(), source
    job.data, job.panel_size, job.k, job.n = data, round_up(k, I8_GROUP) * I8_PANEL, k, n
    job.sums, job.certified = sums, certified
    parallel_for(pack_part, &job, parts, threads_for(
        <double>(panels * job.panel_size), THREAD_PACKED_BYTES, <double>parts))


cdef int unpack_part(const void *job, int64_t part, int64_t _parts) noexcept nogil:
    """Unpack up to UNPACKED_K rows of B."""
    cdef const UnpackJob *j = <const UnpackJob *>job
    cdef int64_t first = part * UNPACKED_K
    j.kernels.packing.unpack_panels(
        j.b + first * j.matrix.n, j.matrix.n, j.matrix.n, min(<int64_t>UNPACKED_K, j.matrix.k - first),
        <const uint8_t *>j.matrix.panels.data + first * I8_PANEL, j.matrix.panels.step, j.flip)
    return 0


cdef int square_panel(const void *job, int64_t panel, int64_t _panels) noexcept nogil:
    """Find the squares of one panel, for find_squares."""
    cdef const SquaresJob *j = <const SquaresJob *>job
    squares_of_panel(j.kernels, j.matrix, panel, j.squares + panel * I8_PANEL)
    return 0


cdef void squares_of_panel(const i8_kernels *kernels, const PackedMatrix *b, int64_t panel,
                           int64_t *squares) noexcept nogil:
    """Find the sums of squares of the 16 columns of a panel."""
    cdef const int64_t *sums = b.panels.col_sums + panel * I8_PANEL
    cdef int i
    kernels.packing.panel_squares(squares, b.panels.data + panel * b.panels.step, ceil_div(b.k, I8_GROUP))
    if b.unsigned:
        # (B' + 128)**2
        for i in range(I8_PANEL):
            squares[i] += 256 * sums[i] + 128 * 128 * b.k


cdef void find_squares(const PackedMatrix *matrix, int64_t *squares) noexcept:
    """Find the sum of squares of each column of B."""
    cdef SquaresJob job
    job.kernels, job.matrix, job.squares = current_kernels(), matrix, squares
    cdef int64_t panels = ceil_div(matrix.n, I8_PANEL)
    run_work(square_panel, &job, panels, <double>(panels * matrix.panels.step), THREAD_PACKED_BYTES, KEEPS_GIL_BYTES)


cdef int count_outliers(const void *job, int64_t panel, int64_t _panels) noexcept nogil:
    """Count the outliers of a panel, and find its largest pair sum."""
    cdef const SplitJob *j = <const SplitJob *>job
    j.counts[panel] = j.kernels.gemm.outliers.split_panel(
        NULL, NULL, 0, j.starts + panel * j.columns, j.data + panel * j.panel_size, j.groups, j.block // I8_GROUP)
    j.pair_sums[panel] = j.kernels.packing.panel_pair_sum(j.data + panel * j.panel_size, j.groups, I8_MAX_PAIR_SUM)
    return 0


cdef int store_outliers(const void *job, int64_t panel, int64_t _panels) noexcept nogil:
    """Store the dense part, the outliers and the starts of the lists of outliers of a split panel."""
    cdef const SplitJob *j = <const SplitJob *>job
    cdef int64_t first = j.firsts[panel], count = j.counts[panel], i
    cdef int64_t *starts = j.starts + panel * j.columns
    # If `data` is mapped from a file, it may have changed since the outliers were counted. If the number of outliers
    # has changed, store zeros as outliers, because zeros change no sum.
    if j.is_split[panel] and count != j.kernels.gemm.outliers.split_panel(
            j.dense + panel * j.panel_size, j.outliers + first, count, starts, j.data + panel * j.panel_size, j.groups,
            j.block // I8_GROUP):
        j.is_split[panel] = False
        memset(j.outliers + first, 0, count * sizeof(i8_outliers))
    for i in range(j.columns):
        starts[i] = first + (starts[i] if j.is_split[panel] else 0)
    return 0


cdef int64_t choose_split(SplitJob *j, const uint8_t *certified, int64_t panels) noexcept nogil:
    """Choose the panels to split by the number of their outliers. Set the start of each panel's outliers. Return the
    number of all outliers."""
    cdef int64_t i, part, total = 0
    for i in range(panels):
        part = CERTIFIED_PART if certified[i] else WIDENED_PART
        j.is_split[i] = 4 * j.counts[i] * part < j.panel_size - SUMS_K * j.columns
        j.counts[i] = j.counts[i] if j.is_split[i] else 0
        j.firsts[i] = total
        total += j.counts[i]
    return total


@cython.final
cdef class PackedB(Packed):
    """An 8-bit matrix B packed for multiplication from the right; made by :func:`pack_b`.

    Functions that take a B also take a PackedB. A PackedB is immutable, many threads may use it at once, and it can be
    pickled (see Notes), saved to a file and mapped from the file. ``copy.copy`` and ``copy.deepcopy`` return the matrix
    itself.

    Attributes
    ----------
    shape : tuple of int
        (K, N), the shape of B.
    ndim : int
        2.
    dtype : numpy.dtype
        int8 or uint8, of B.
    data : numpy.ndarray
        The packed bytes, a read-only int8 view of shape (ceil(N / 16), ceil(K / 4), 16, 4) with
        ``data[n // 16, k // 4, n % 16, k % 4] == B[k, n]`` (minus 128 if B is uint8) and zeros as padding.
    column_sums : numpy.ndarray
        The sum of each column of B, int64 of shape (N,).
    certified : numpy.ndarray
        Whether each panel of 16 columns has a no-saturation proof, so that VPMADDUBSW cannot saturate for any uint8 A.
        In every pair of stored bytes at k and k + 1, k even, positive bytes sum to at most 128 and negative bytes to at
        least -128.
    nbytes : int
        Size of `data`, without the second copy that products may make on a CPU without VNNI (:func:`pack_b`).
    address : int
        The address for functions of ``int8blas.cython_blas``, valid as long as this object exists.

    Notes
    -----
    A pickle contains only `data`. Loading a pickle computes the sums and no-saturation proofs, so a pickle does not
    depend on the instruction set. With protocol 5, `data` may be an out-of-band buffer. The matrix keeps the buffer if
    the buffer begins at a multiple of 64 bytes and no object can write to its memory. No object can write to bytes, to
    files mapped for reading, or to buffers of another PackedB. The matrix copies a buffer that it cannot keep, so later
    writes to the buffer have no effect.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> b = np.arange(10, dtype=np.int8).reshape(5, 2)
    >>> packed = int8blas.pack_b(b)
    >>> packed
    PackedB(shape=(5, 2), dtype=int8)
    >>> packed.data.shape
    (1, 2, 16, 4)
    >>> packed.data[0, 0, 1]  # column 1, the first four k
    array([1, 3, 5, 7], dtype=int8)
    >>> packed.column_sums
    array([20, 25])
    >>> bool((packed.unpack() == b).all())
    True
    """

    def __cinit__(self):
        # Begin with an empty matrix, so that an object from __new__ is safe to use.
        self._data, self._certified = NO_DATA, NO_PROOFS

    cdef void fill(self, Problem *g) noexcept:
        """Set B of `g` to this matrix."""
        set_packed(g, &self._matrix)

    cdef cnp.ndarray group_sums(self, int64_t size):
        """Return the column sums of B' in each group of `size` k, int32 [panels, groups, 16]."""
        cdef int64_t panels = self._data.shape[0], groups = self._k // size, part
        cdef cnp.ndarray array = np.empty((panels, groups, I8_PANEL), np.int32)
        cdef int32_t *sums = <int32_t *>cnp.PyArray_DATA(array)
        cdef const i8_kernels *kernels = current_kernels()
        cdef int64_t some[I8_PANEL]
        cdef int i
        with nogil:
            # Panels, and the groups of a panel, are contiguous in memory.
            for part in range(panels * groups):
                kernels.packing.panel_sums(some, self._matrix.panels.data + part * size * I8_PANEL, size // I8_GROUP)
                for i in range(I8_PANEL):
                    sums[part * I8_PANEL + i] = <int32_t>some[i]
        return array

    cdef cnp.ndarray squares_array(self):
        """Return the sums of squares of B's columns: int64 [panels * 16], then the sums modulo 2**32 as int32. The
        first call computes all sums. The values of padding columns are undefined."""
        cdef cnp.ndarray array
        cdef int64_t columns = self._data.shape[0] * I8_PANEL, i
        cdef int64_t *squares
        with cython.critical_section(self):
            if self._squares is not None:
                return self._squares
        array = np.empty(columns + columns // 2, np.int64)
        squares = <int64_t *>cnp.PyArray_DATA(array)
        find_squares(&self._matrix, squares)
        for i in range(columns):
            (<int32_t *>(squares + columns))[i] = <int32_t>squares[i]
        # Another thread may have stored an array in the meantime. Keep the stored array, because it may be in use.
        with cython.critical_section(self):
            if self._squares is None:
                self._squares = array
            return self._squares

    cdef const int64_t *squares(self) except? NULL:
        """Return the address of the squares, valid as long as the matrix exists."""
        return <const int64_t *>cnp.PyArray_DATA(self.squares_array())

    cdef int fill_split(self, Problem *g, int64_t rows) except -1:
        """Set the outliers and pair sums of `g` if they make a product of `rows` rows of A faster. The first product
        with enough rows finds the outliers."""
        if g.kernels.gemm.exact == I8_DOT2 and not g.saturating and rows >= SPLIT_ROWS and self._n > I8_PANEL:
            with cython.critical_section(self):
                if self._split is None:
                    self.split(g.kernels)
                self.fill_outliers(g)
            if self._typenum == cnp.NPY_UINT8:
                self.fill_s8(g, rows)
        return 0

    cdef void fill_outliers(self, Problem *g) noexcept:
        """Set the dense parts, outliers and pair sums of `g` to the results of `split`."""
        g.panels.pair_sums = <const uint16_t *>cnp.PyArray_DATA(self._pair_sums)
        if self._split.shape[0] == 0:
            return
        g.panels.split.panels = <const uint8_t *>cnp.PyArray_DATA(self._split)
        g.panels.split.dense = <const int8_t *>cnp.PyArray_DATA(self._dense)
        g.panels.split.outliers = <const i8_outliers *>cnp.PyArray_DATA(self._outliers)
        g.panels.split.starts = <const int64_t *>cnp.PyArray_DATA(self._starts)
        g.panels.split.k = self.split_k()

    cdef bint is_s8(self, const i8_kernels *kernels) noexcept:
        """Return whether no value of a u8 matrix is above 127, apart from padding."""
        cdef const PackedMatrix *m = &self._matrix
        cdef int64_t panel, columns, whole = m.k // I8_GROUP
        cdef const uint8_t *data = <const uint8_t *>m.panels.data
        cdef uint8_t found[2]
        found[0] = found[1] = 0
        for panel in range(ceil_div(m.n, I8_PANEL)):
            columns = min(m.n - panel * I8_PANEL, <int64_t>I8_PANEL)
            kernels.packing.value_range(found, whole, I8_GROUP * columns, data, I8_GROUP * I8_PANEL, 1, SIGN_BIT, 127)
            if m.k % I8_GROUP:
                kernels.packing.value_range(found, columns, m.k % I8_GROUP, data + whole * I8_GROUP * I8_PANEL,
                                            I8_GROUP, 1, SIGN_BIT, 127)
            if found[1] > 127:
                return False
            data += m.panels.step
        return True

    cdef int fill_s8(self, Problem *g, int64_t rows) except -1:
        """If the values of a u8 matrix fit s8, let `g` multiply an unshifted copy. The first product makes the copy."""
        cdef cnp.ndarray data
        cdef PackedB same
        cdef Problem own
        cdef Panels *form = &self._s8_form
        cdef bint is_known
        with cython.critical_section(self):
            is_known = self._as_s8 is not None
        if not is_known:
            same = None
            if self.is_s8(g.kernels):
                data = aligned_bytes(self._data.nbytes)
                values = data.reshape((<object>self._data).shape)
                np.bitwise_xor(self._data, np.int8(-SIGN_BIT), out=values)
                np.maximum(values, 0, out=values)  # sets padding to 0 again
                same = from_data(self._k, self._n, "int8", data)
                own = g[0]
                own.panels.split.panels = NULL
                same.fill(&own)
                same.fill_split(&own, rows)
            with cython.critical_section(self):
                # Another thread may have stored a matrix in the meantime. Keep the stored matrix, because it may be in
                # use.
                if self._as_s8 is None:
                    if same is not None:
                        form[0] = own.panels
                        form.as_s8 = NULL
                    self._as_s8 = same if same is not None else False
        if self._as_s8 is not False:
            g.panels.as_s8 = form
        return 0

    cdef inline int64_t split_k(self) noexcept:
        """Return the number of k that one list of outliers covers, a multiple of the 8 k of I8_DOT8."""
        return even_size(self._k, I8_OUTLIER_K, 2 * I8_GROUP)

    cdef int split(self, const i8_kernels *kernels) except -1:
        """Divide all panels into a dense part and outliers; see csrc/gemm/outliers_body.h."""
        cdef SplitJob job
        cdef int64_t panels = self._data.shape[0], total
        cdef const uint8_t *certified = <const uint8_t *>cnp.PyArray_DATA(self._certified)
        cdef cnp.ndarray counts = np.empty((2, panels), np.int64), split_array = np.empty(panels, np.bool_)
        cdef cnp.ndarray starts_array, outliers_array, dense_array, sums_array = np.empty(panels, np.uint16)
        cdef int threads
        job.kernels = kernels
        job.data, job.groups = <const int8_t *>cnp.PyArray_DATA(self._data), self._data.shape[1]
        job.panel_size = job.groups * I8_GROUP * I8_PANEL
        job.block = self.split_k()
        job.columns = ceil_div(self._k, job.block) * I8_PANEL
        starts_array = np.empty(panels * job.columns + 1, np.int64)
        job.counts, job.starts = <int64_t *>cnp.PyArray_DATA(counts), <int64_t *>cnp.PyArray_DATA(starts_array)
        job.firsts = job.counts + panels
        job.pair_sums = <uint16_t *>cnp.PyArray_DATA(sums_array)
        job.is_split = <uint8_t *>cnp.PyArray_DATA(split_array)
        with nogil:
            threads = threads_for(<double>(panels * job.panel_size * SPLIT_WORK), THREAD_PACKED_BYTES, <double>panels)
            parallel_for(count_outliers, &job, panels, threads)
            total = choose_split(&job, certified, panels)
        outliers_array = np.empty(total * sizeof(i8_outliers), np.uint8)
        job.outliers = <i8_outliers *>cnp.PyArray_DATA(outliers_array)
        # Panels that are not split take no memory: no thread touches their pages, so the system allocates none.
        dense_array = aligned_bytes(panels * job.panel_size if split_array.any() else 0)
        job.dense = <int8_t *>cnp.PyArray_DATA(dense_array)
        with nogil:
            parallel_for(store_outliers, &job, panels, threads)
        job.starts[panels * job.columns] = total
        split_array = split_array if split_array.any() else split_array[:0]
        # While the GIL was released, another thread may have taken the lock and set the arrays. Keep the stored arrays,
        # because they may be in use.
        if self._split is None:
            self._dense, self._outliers, self._starts = dense_array, outliers_array, starts_array
            self._pair_sums, self._split = sums_array, split_array
        return 0

    @property
    def column_sums(self):
        sums = self._sums[:self._n] + (128 * self._k if self._typenum == cnp.NPY_UINT8 else 0)
        sums.flags.writeable = False
        return sums

    @property
    def certified(self):
        return self._certified.view()

    @property
    def address(self):
        cdef Problem g
        cdef PackedMatrix *matrix = &self._matrix
        g.kernels, g.saturating = current_kernels(), False
        g.panels.pair_sums, g.panels.split.panels, g.panels.as_s8 = NULL, NULL, NULL
        self.fill_split(&g, SPLIT_ROWS)
        # Fill the struct only once, because threads read it later without a lock.
        with cython.critical_section(self):
            if matrix.here is NULL:
                matrix.panels.pair_sums, matrix.panels.split = g.panels.pair_sums, g.panels.split
                matrix.panels.as_s8 = g.panels.as_s8
                matrix.here = matrix
        return <uintptr_t>matrix

    def __repr__(self):
        return f"PackedB(shape={self.shape}, dtype={self.dtype})"

    def __reduce__(self):
        # Pickle the array itself, not a view or bytes. NumPy pickles the array out of band if the protocol allows it.
        # joblib recognizes arrays by identity, and writes a large array to shared memory once for all workers.
        return _restore, (self._k, self._n, self.dtype.name, self._data)

    def unpack(self):
        """Return the matrix B as a new C-ordered array.

        Returns
        -------
        numpy.ndarray
            B, of shape (K, N) and of the dtype of this object.
        """
        cdef UnpackJob job
        cdef cnp.npy_intp shape[2]
        cdef cnp.ndarray b
        shape[0], shape[1] = self._k, self._n
        b = empty(2, shape, self._typenum)
        job.kernels, job.matrix, job.b = current_kernels(), &self._matrix, <uint8_t *>cnp.PyArray_DATA(b)
        job.flip = SIGN_BIT if self._typenum == cnp.NPY_UINT8 else 0
        if cnp.PyArray_SIZE(b):
            run_work(unpack_part, &job, ceil_div(self._k, UNPACKED_K), <double>cnp.PyArray_SIZE(b),
                     THREAD_PACKED_BYTES, KEEPS_GIL_BYTES)
        return b


cdef object packed_bytes(object k, object n):
    """Return the number of bytes of a packed K x N matrix as a Python integer, which cannot overflow."""
    return -(-n // I8_PANEL) * I8_PANEL * (-(-k // I8_GROUP)) * I8_GROUP


def _restore(k, n, dtype, buffer):
    """Make a PackedB from the values of PackedB.__reduce__; `buffer` has the packed bytes."""
    cdef cnp.ndarray data
    cdef Source source
    source.packed = NULL
    size = packed_bytes(k, n)
    given = data = checked_bytes(k, n, dtype, buffer, size, ("int8", "uint8"), PackedB._what).view(np.int8)
    if not can_keep(buffer, data):
        source.packed = <const int8_t *>cnp.PyArray_DATA(data)
        data = aligned_bytes(data.size)
    return from_data(k, n, dtype, data, NULL if source.packed is NULL else &source)  # `given` keeps the source


# Other rooms use the public name `restore_packed`. Pickles contain the private name `_restore`.
restore_packed = _restore
file.register(PackedB, _restore)


cdef cnp.ndarray column_values(make, count, dtype):
    """Call `make` for an array of `count` column values. A `count` beyond the address space raises MemoryError."""
    try:
        return make(count, dtype)
    except ValueError:  # NumPy's error for a size beyond int64
        raise MemoryError(f"no memory for {count} values of columns") from None


cdef PackedB from_data(int64_t k, int64_t n, str dtype, cnp.ndarray data, const Source *source=NULL):
    """Make a PackedB that keeps `data`, the packed bytes. If `source` is not NULL, `make_panels` makes the bytes from
    `source`. Compute the sums and the no-saturation proofs."""
    cdef PackedB packed = PackedB.__new__(PackedB)
    cdef int64_t panels = ceil_div(n, I8_PANEL), groups = ceil_div(k, I8_GROUP)
    cdef cnp.npy_intp columns = panels * I8_PANEL, proofs = panels
    if k:
        packed._sums, packed._certified = empty(1, &columns, cnp.NPY_INT64), empty(1, &proofs, cnp.NPY_BOOL)
    else:  # all sums are 0; np.zeros takes no memory until it is written to
        packed._sums = column_values(np.zeros, columns, np.int64)
        packed._certified = column_values(np.ones, panels, np.bool_)
    packed.set_data(k, n, cnp.NPY_UINT8 if dtype == "uint8" else cnp.NPY_INT8, data, groups, I8_GROUP)
    cdef PackedMatrix *matrix = &packed._matrix
    cdef int8_t *bytes_ = <int8_t *>cnp.PyArray_DATA(data)
    cdef int64_t *sums = <int64_t *>cnp.PyArray_DATA(packed._sums)
    cdef uint8_t *certified = <uint8_t *>cnp.PyArray_DATA(packed._certified)
    matrix.k, matrix.n, matrix.unsigned = k, n, dtype == "uint8"
    matrix.panels.data, matrix.panels.step = bytes_, groups * I8_GROUP * I8_PANEL
    matrix.panels.col_sums, matrix.panels.certified = sums, certified
    if k:
        with nogil:
            make_panels(bytes_, k, n, source, sums, certified)
    make_constant(packed._sums)
    make_constant(packed._certified)
    return packed


cdef PackedB pack(cnp.ndarray b, bint transpose):
    """Pack op(b), a 2-D array of uint8 or int8."""
    cdef int64_t k = b.shape[1] if transpose else b.shape[0]
    cdef int64_t n = b.shape[0] if transpose else b.shape[1]
    cdef Source source
    cdef cnp.ndarray data
    source.b, source.packed = <const uint8_t *>cnp.PyArray_DATA(b), NULL
    source.k_stride = b.strides[1] if transpose else b.strides[0]
    source.n_stride = b.strides[0] if transpose else b.strides[1]
    source.flip = 0x80 if cnp.PyArray_TYPE(b) == cnp.NPY_UINT8 else 0
    if <double>k * n < MOST_BYTES:
        data = empty_bytes(ceil_div(n, I8_PANEL) * I8_PANEL * round_up(k, I8_GROUP))
    else:
        data = aligned_bytes(packed_bytes(k, n))  # raises NumPy's error
    return from_data(k, n, "uint8" if source.flip else "int8", data, &source)


@traced("b")
def pack_b(b, *, trans_b=False, bits=8):
    """Pack B once for many products.

    Parameters
    ----------
    b : array_like of int8, uint8 or int16
        B of shape (K, N), in any memory order.
    trans_b : bool, optional
        `b` is B transposed, of shape (N, K).
    bits : {8, 4}, optional
        With 4, each value takes half a byte: the values of an int8 B must be from -8 to 7, and the values of a uint8 B
        from 0 to 15.

    Returns
    -------
    PackedB, or PackedB4 with ``bits=4``, or PackedB16 for int16
        The packed matrix, of ceil(N / 16) * 16 * ceil(K / 4) * 4 bytes. On a CPU without VNNI the first product of 7
        rows or more about doubles the size of the packed matrix, if panels are split (see :func:`explain`) or B is
        uint8 without values above 127. On every CPU, a PackedB4 has ceil(N / 16) * 16 * ceil(K / 8) * 4 bytes, and a
        PackedB16 has ceil(N / 16) * 16 * ceil(K / 2) * 4 bytes.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> weights = int8blas.pack_b(np.full((100, 40), -3, np.int8))
    >>> int8blas.gemm_u8s8s32(1, np.ones((1, 100), np.uint8), weights)[0, :3]
    array([-300, -300, -300], dtype=int32)
    >>> int8blas.pack_b(np.full((100, 40), -3, np.int8), bits=4)
    PackedB4(shape=(100, 40), dtype=int4)
    >>> int8blas.pack_b(np.full((100, 40), 3000, np.int16))
    PackedB16(shape=(100, 40), dtype=int16)
    """
    if isinstance(b, PackedB):
        raise TypeError("b must be an array, got a PackedB")
    cdef bint transposed = check_transpose(trans_b, "trans_b")  # may run Python code, so before the array is checked
    cdef cnp.ndarray array = elements(b, "b", (cnp.NPY_UINT8, cnp.NPY_INT8, cnp.NPY_INT16))
    if array.ndim != 2:
        raise ValueError(f"b must have 2 dimensions, got shape {(<object>array).shape}")
    if cnp.PyArray_TYPE(array) == cnp.NPY_INT16:
        if not is_option(bits, (8,)):
            raise ValueError(f"bits must be 8, its default, for int16, got {shown(bits)}")
        return pack_sixteen_bits(array, transposed)
    if not is_option(bits, (8, 4)):
        raise ValueError(f"bits must be 8 or 4, got {shown(bits)}")
    if bits == 4:
        return pack_four_bits(array, transposed)
    return pack(array, transposed)
