"""B in the layout that the kernels read, packed once and used many times.

``data[n // 16, k // 4, n % 16, k % 4]`` is B'[k, n]: panels of 16 columns; in a panel, groups of 4 consecutive k; in a
group, column 0's 4 bytes, then column 1's, and so on: 64 bytes, which is one AVX-512 register, two AVX2 registers or
one row of an AMX tile. K is padded with zeros to a multiple of 4, N to a multiple of 16. B' is B where B is int8, and
B - 128 where it is uint8. One layout serves every instruction set.

The layout is Figure 4 of Intel's article "Accelerate Lower Numerical Precision Inference with Intel Deep Learning
Boost".
"""

import contextlib
import os
import pickle
import struct
import zlib

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int64_t, uint8_t
cimport numpy as cnp
import numpy as np

from int8blas._arrays cimport check_transpose, int8_operand
from int8blas._kernels cimport I8_DOT2, I8_GROUP, I8_OUTLIER_K, I8_PANEL, current_kernels, i8_kernels, i8_outliers
from int8blas._plan cimport Gemm
from int8blas._split cimport ceil_div
from int8blas._threads cimport max_threads, parallel_region_ran

cnp.import_array()

# The file: this header, then `data`. Little-endian; the second checksum is the header's own, over all before it.
HEADER = struct.Struct("<8sIIQQII")
HEADER_SIZE = 64
MAGIC = b"int8blas"
VERSION = 1
DTYPE_CODES = {"int8": 0, "uint8": 1}

# Bytes that pay for waking one more thread to pack or check them.
cdef int64_t THREAD_BYTES = 1 << 18
# Looking for outliers takes so many times as long.
cdef int64_t SPLIT_WORK = 32


# A panel is split if at most one in so many of its values is an outlier, which come in fours: where it would be widened
# else, and where it has a certificate.
cdef enum:
    WIDENED_PART = 10
    CERTIFIED_PART = 32


cdef int threads_for(int64_t size) noexcept nogil:
    cdef int threads = <int>min(<int64_t>max_threads(), 1 + size // THREAD_BYTES)
    if threads > 1:
        parallel_region_ran()
    return threads


def aligned_bytes(size):
    """Uninitialised int8 memory that begins at a multiple of 64 bytes."""
    memory = np.empty(size + 64, np.int8)
    start = -memory.ctypes.data % 64
    return memory[start:start + size]


cdef class PackedB:
    """An 8-bit matrix B packed for multiplication from the right; made by :func:`pack_b`.

    A PackedB is accepted wherever a B is. It is immutable, may be used by many threads at once, pickles (with protocol
    5 its data travels out of band), and is saved to and mapped from a file.

    Attributes
    ----------
    shape : tuple of int
        (K, N), the shape of B.
    dtype : numpy.dtype
        int8 or uint8, of B.
    data : numpy.ndarray
        The packed bytes, a read-only int8 view of shape (ceil(N / 16), ceil(K / 4), 16, 4) with
        ``data[n // 16, k // 4, n % 16, k % 4] == B[k, n]`` (minus 128 if B is uint8) and zeros as padding.
    column_sums : numpy.ndarray
        The sum of each column of B, int64 of shape (N,).
    certified : numpy.ndarray
        For each panel of 16 columns, whether no uint8 A can make VPMADDUBSW saturate on it: in every pair (k, k + 1),
        k even, of the stored bytes the positive parts sum to at most 128 and the negative ones to at least -128.
    nbytes : int
        Size of `data`.

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

    def __init__(self):
        raise TypeError("PackedB is made by pack_b(b) or PackedB.load(path)")

    cdef void fill(self, Gemm *g) noexcept:
        """Let `g` multiply by this matrix."""
        g.packed = <const int8_t *>cnp.PyArray_DATA(self._data)
        g.panel_size = cnp.PyArray_STRIDES(self._data)[0]
        g.col_sums = <const int64_t *>cnp.PyArray_DATA(self._sums)
        g.certified = <const uint8_t *>cnp.PyArray_DATA(self._certified)

    cdef int fill_split(self, Gemm *g) except -1:
        """Let it use outliers, where that helps; they are found when they are needed for the first time."""
        if g.kernels.exact == I8_DOT2 and not g.saturating:
            if self._split is None:
                self.split(g.kernels)
            g.split = <const uint8_t *>cnp.PyArray_DATA(self._split)
            g.outliers = <const i8_outliers *>cnp.PyArray_DATA(self._outliers)
            g.outlier_starts = <const int64_t *>cnp.PyArray_DATA(self._starts)
            g.outlier_parts = ceil_div(self._k, I8_OUTLIER_K)
        return 0

    cdef int split(self, const i8_kernels *kernels) except -1:
        """Find the outliers of all panels; see csrc/outliers_body.h."""
        cdef int64_t panels = self._data.shape[0], groups = self._data.shape[1], i, j, first, total = 0
        cdef int64_t parts = ceil_div(self._k, I8_OUTLIER_K), columns = parts * I8_PANEL
        cdef int64_t panel_size = groups * I8_GROUP * I8_PANEL
        cdef const int8_t *data = <const int8_t *>cnp.PyArray_DATA(self._data)
        cdef cnp.ndarray count_array = np.empty(panels, np.int64), split_array = np.empty(panels, np.bool_)
        cdef cnp.ndarray starts_array = np.empty(panels * columns + 1, np.int64), outliers_array
        cdef int64_t *counts = <int64_t *>cnp.PyArray_DATA(count_array)
        cdef int64_t *starts = <int64_t *>cnp.PyArray_DATA(starts_array)
        cdef uint8_t *is_split = <uint8_t *>cnp.PyArray_DATA(split_array)
        cdef i8_outliers *outliers
        cdef int threads = threads_for(panels * panel_size * SPLIT_WORK)
        for i in prange(panels, nogil=True, num_threads=threads, use_threads_if=threads > 1, schedule="static"):
            counts[i] = kernels.split_panel(NULL, starts + i * columns, data + i * panel_size, groups)
        for i in range(panels):
            is_split[i] = 4 * counts[i] * (CERTIFIED_PART if self._certified[i] else WIDENED_PART) <= panel_size
            first = total
            total += counts[i] if is_split[i] else 0
            counts[i] = first
        outliers_array = np.empty(total * sizeof(i8_outliers), np.uint8)
        outliers = <i8_outliers *>cnp.PyArray_DATA(outliers_array)
        for i in prange(panels, nogil=True, num_threads=threads, use_threads_if=threads > 1, schedule="static"):
            if is_split[i]:
                kernels.split_panel(outliers + counts[i], starts + i * columns, data + i * panel_size, groups)
            for j in range(columns):
                starts[i * columns + j] = counts[i] + (starts[i * columns + j] if is_split[i] else 0)
        starts[panels * columns] = total
        # Another thread may have come first; its arrays may be in use already.
        if self._split is None:
            self._outliers, self._starts = outliers_array, starts_array
            self._split = split_array
        return 0

    @property
    def shape(self):
        return (self._k, self._n)

    @property
    def ndim(self):
        return 2

    @property
    def dtype(self):
        return np.dtype(np.uint8 if self._typenum == cnp.NPY_UINT8 else np.int8)

    @property
    def data(self):
        return self._data.view()

    @property
    def column_sums(self):
        sums = self._sums[:self._n] + (128 * self._k if self._typenum == cnp.NPY_UINT8 else 0)
        sums.flags.writeable = False
        return sums

    @property
    def certified(self):
        return self._certified.view()

    @property
    def nbytes(self):
        return self._data.nbytes

    def __repr__(self):
        return f"PackedB(shape={self.shape}, dtype={self.dtype})"

    def __eq__(self, other):
        if not isinstance(other, PackedB):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype and np.array_equal(self.data, other.data)

    def __hash__(self):
        return hash((self.shape, self.dtype, self._data.tobytes()))

    def __reduce_ex__(self, protocol):
        data = pickle.PickleBuffer(self._data) if protocol >= 5 else self._data.tobytes()
        return _restore, (self._k, self._n, self.dtype.name, data)

    def unpack(self):
        """The matrix B, as a new C-ordered array.

        Returns
        -------
        numpy.ndarray
            Of shape (K, N) and B's dtype.
        """
        panels, groups = self._data.shape[:2]
        b = self._data.transpose(1, 3, 0, 2).reshape(groups * I8_GROUP, panels * I8_PANEL)[:self._k, :self._n]
        if self._typenum == cnp.NPY_UINT8:
            return np.ascontiguousarray(b).view(np.uint8) ^ np.uint8(0x80)
        return np.array(b, order="C")

    def save(self, path):
        """Write the matrix to a file that :meth:`load` maps.

        Parameters
        ----------
        path : path-like
            The file, which is created or replaced: matrices mapped from the old file stay as they are.
        """
        data = memoryview(self._data).cast("B") if self._data.size else b""
        header = HEADER.pack(MAGIC, VERSION, DTYPE_CODES[self.dtype.name], self._k, self._n, zlib.crc32(data), 0)[:-4]
        header += struct.pack("<I", zlib.crc32(header))
        path = os.fsdecode(path)
        unfinished = f"{path}.{os.getpid()}.{id(self):x}"
        try:
            with open(unfinished, "xb") as file:
                file.write(header.ljust(HEADER_SIZE, b"\0"))
                file.write(data)
            os.replace(unfinished, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise

    @staticmethod
    def load(path, mmap=True):
        """A matrix from a file that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like
            The file.
        mmap : bool, optional
            Map the file into memory, shared with all processes that do (the default), rather than read it. A mapped
            file must not change while it is in use.

        Returns
        -------
        PackedB

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If the file is not one that `save` wrote, or is truncated or corrupted; the text says which.

        Examples
        --------
        >>> import os, tempfile, numpy as np, int8blas
        >>> packed = int8blas.pack_b(np.eye(20, dtype=np.int8))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     packed.save(os.path.join(folder, "b.i8"))
        ...     int8blas.PackedB.load(os.path.join(folder, "b.i8"), mmap=False) == packed
        True
        """
        with open(path, "rb") as file:
            header = file.read(HEADER_SIZE)
            size = os.fstat(file.fileno()).st_size
            k, n, dtype, checksum = _read_header(header, size, path)
            nbytes = size - HEADER_SIZE
            if mmap and nbytes:
                data = np.memmap(file, np.int8, "r", HEADER_SIZE, (nbytes,)).view(np.ndarray)
            else:
                data = aligned_bytes(nbytes)
                if file.readinto(memoryview(data).cast("B")) != nbytes:
                    raise ValueError(f"{os.fspath(path)!r} is truncated: it ended while it was read")
        if zlib.crc32(data) != checksum:
            raise ValueError(f"{os.fspath(path)!r} is corrupted: its data does not match its checksum")
        return from_data(k, n, dtype, data)


def _read_header(header, size, path):
    """(K, N, dtype name, checksum of the data), or ValueError."""
    name = repr(os.fspath(path))
    if header[:8] != MAGIC[:len(header)] or not header:
        raise ValueError(f"{name} is not a packed matrix of int8blas: it begins with {header[:8]!r}")
    if len(header) < HEADER_SIZE:
        raise ValueError(f"{name} is truncated: its header has {len(header)} of {HEADER_SIZE} bytes")
    _, version, code, k, n, checksum, own = HEADER.unpack_from(header)
    if version != VERSION:
        raise ValueError(f"{name} has version {version} of the format, this int8blas reads version {VERSION}")
    if own != zlib.crc32(header[:HEADER.size - 4]) or any(header[HEADER.size:]):
        raise ValueError(f"{name} is corrupted: its header does not match its checksum")
    names = {code: dtype for dtype, code in DTYPE_CODES.items()}
    if code not in names:
        raise ValueError(f"{name} is corrupted: there is no dtype with code {code}")
    wanted = -(-n // I8_PANEL) * I8_PANEL * (-(-k // I8_GROUP)) * I8_GROUP
    if size - HEADER_SIZE != wanted:
        problem = "truncated" if size - HEADER_SIZE < wanted else "corrupted"
        raise ValueError(f"{name} is {problem}: it has {size - HEADER_SIZE} bytes of data, a {k} x {n} matrix has "
                         f"{wanted}")
    return k, n, names[code], checksum


def _restore(k, n, dtype, buffer):
    """The inverse of PackedB.__reduce_ex__."""
    data = np.frombuffer(buffer, np.int8)
    if data.ctypes.data % 64:
        aligned = aligned_bytes(data.size)
        aligned[:] = data
        data = aligned
    return from_data(k, n, dtype, data)


cdef PackedB from_data(int64_t k, int64_t n, str dtype, cnp.ndarray data):
    """A PackedB on packed bytes, which it keeps; computes the sums and certificates."""
    cdef PackedB packed = PackedB.__new__(PackedB)
    cdef int64_t panels = ceil_div(n, I8_PANEL), groups = ceil_div(k, I8_GROUP), i
    cdef const i8_kernels *kernels = current_kernels()
    packed._k, packed._n = k, n
    packed._typenum = cnp.NPY_UINT8 if dtype == "uint8" else cnp.NPY_INT8
    root = data
    while isinstance(root, np.ndarray):
        root.flags.writeable = False
        root = root.base
    packed._data = data.reshape(panels, groups, I8_PANEL, I8_GROUP)
    packed._data.flags.writeable = False
    packed._sums = np.empty(panels * I8_PANEL, np.int64)
    packed._certified = np.empty(panels, np.bool_)
    cdef const int8_t *bytes_ = <const int8_t *>cnp.PyArray_DATA(data)
    cdef int64_t *sums = <int64_t *>cnp.PyArray_DATA(packed._sums)
    cdef uint8_t *certified = <uint8_t *>cnp.PyArray_DATA(packed._certified)
    cdef int64_t panel_size = groups * I8_GROUP * I8_PANEL
    cdef int threads = threads_for(panels * panel_size)
    for i in prange(panels, nogil=True, num_threads=threads, use_threads_if=threads > 1, schedule="static"):
        kernels.panel_sums(sums + i * I8_PANEL, bytes_ + i * panel_size, groups)
        certified[i] = kernels.panel_certified(bytes_ + i * panel_size, groups)
    packed._sums.flags.writeable = False
    packed._certified.flags.writeable = False
    return packed


cdef PackedB pack(cnp.ndarray b, bint transpose):
    """Pack op(b), a 2-D array of uint8 or int8."""
    cdef int64_t k = b.shape[1] if transpose else b.shape[0]
    cdef int64_t n = b.shape[0] if transpose else b.shape[1]
    cdef ptrdiff_t k_stride = b.strides[1] if transpose else b.strides[0]
    cdef ptrdiff_t n_stride = b.strides[0] if transpose else b.strides[1]
    cdef int64_t panels = ceil_div(n, I8_PANEL), panel_size = ceil_div(k, I8_GROUP) * I8_GROUP * I8_PANEL, i
    cdef uint8_t flip = 0x80 if cnp.PyArray_TYPE(b) == cnp.NPY_UINT8 else 0
    cdef cnp.ndarray data = aligned_bytes(int(panels) * int(panel_size))
    cdef uint8_t *target = <uint8_t *>cnp.PyArray_DATA(data)
    cdef const uint8_t *source = <const uint8_t *>cnp.PyArray_DATA(b)
    cdef const i8_kernels *kernels = current_kernels()
    cdef int threads = threads_for(panels * panel_size)
    cdef int64_t step = 4, steps = ceil_div(panels, step)
    for i in prange(steps, nogil=True, num_threads=threads, use_threads_if=threads > 1, schedule="static"):
        kernels.pack_panels(target + i * step * panel_size, panel_size, min(step * I8_PANEL, n - i * step * I8_PANEL),
                            k, source + i * step * I8_PANEL * n_stride, n_stride, k_stride, flip)
    return from_data(k, n, "uint8" if flip else "int8", data)


def pack_b(b, *, trans_b=False):
    """Pack B for repeated multiplication from the right.

    Parameters
    ----------
    b : array_like of int8 or uint8
        B of shape (K, N), in any memory order.
    trans_b : bool, optional
        `b` is B transposed, of shape (N, K).

    Returns
    -------
    PackedB
        Takes ceil(N / 16) * 16 * ceil(K / 4) * 4 bytes.

    Raises
    ------
    TypeError, ValueError
        If `b` is not such an array.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> weights = int8blas.pack_b(np.full((100, 40), -3, np.int8))
    >>> int8blas.gemm_u8s8s32(1, np.ones((1, 100), np.uint8), weights)[0, :3]
    array([-300, -300, -300], dtype=int32)
    """
    if isinstance(b, PackedB):
        raise TypeError("b must be an array, got a PackedB")
    cdef cnp.ndarray array = int8_operand(b, "b")
    if array.ndim != 2:
        raise ValueError(f"b must have 2 dimensions, got shape {(<object>array).shape}")
    return pack(array, check_transpose(trans_b, "trans_b"))
