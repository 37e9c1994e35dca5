"""The base of packed matrices: shape, dtype, packed bytes, comparison, copies, pickles and files."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uintptr_t
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core import file
from int8blas.core.file import is_constant, packed_bytes_of
from int8blas.core.kernels cimport I8_PANEL
from int8blas.core.results cimport view_of
from int8blas.core.signatures import Signature
from int8blas.core.split cimport ceil_div
from int8blas.core.streams import ALIGNMENT, name_of
from int8blas.core.words import shown

cnp.import_array()

# The empty arrays of an object that only __new__ has set up.
cdef cnp.ndarray NO_DATA = np.empty((0, 0, I8_PANEL, 1), np.int8), NO_SUMS = np.empty(0, np.int64)

# The function matmul, which the module matmul sets, because an import of matmul here would be circular.
cdef object _product = None


cdef void set_product(object function):
    """Let ``a @ packed`` call this function."""
    global _product
    _product = function


cdef void make_constant(cnp.ndarray array):
    """Make an array read-only as :func:`int8blas.core.file.freeze` does, in a tenth of the time."""
    cdef cnp.ndarray root = array
    cdef PyObject *base
    while True:
        cnp.PyArray_CLEARFLAGS(root, cnp.NPY_ARRAY_WRITEABLE)
        base = cnp.PyArray_BASE(root)
        if base is NULL or not cnp.PyArray_Check(<object>base):
            return
        root = <object>base


cdef class Packed:
    """A matrix B packed for multiplication from the right: the base of :class:`PackedB`, :class:`PackedB4` and
    :class:`PackedB16`."""

    __signature__ = Signature()
    # The name that error messages give to the class.
    _what = "packed matrix"
    # A call that creates a packed matrix, as errors print it.
    _call = "pack_b(b)"

    def __cinit__(self):
        # Begin with an empty matrix, so that an object from __new__ is safe to use.
        self._typenum = cnp.NPY_INT8
        self._data, self._sums = NO_DATA, NO_SUMS

    def __init__(self, *args, **kwargs):
        """Raise TypeError: :func:`pack_b` and :meth:`load` make packed matrices."""
        name = type(self).__name__
        raise TypeError(f"{name} is made by {self._call} or {name}.load(path)")

    cdef int set_data(self, int64_t k, int64_t n, int typenum, cnp.ndarray data, int64_t groups, int width) except -1:
        """Keep contiguous packed values, and make them read-only. A group has `width` values of each column."""
        cdef cnp.npy_intp shape[4]
        cdef cnp.npy_intp strides[4]
        cdef cnp.npy_intp step = cnp.PyArray_ITEMSIZE(data)
        cdef int d
        shape[0], shape[1], shape[2], shape[3] = ceil_div(n, I8_PANEL), groups, I8_PANEL, width
        for d in range(3, -1, -1):
            strides[d] = step
            step *= shape[d]
        self._k, self._n, self._typenum = k, n, typenum
        make_constant(data)
        self._data = view_of(data, 4, shape, strides, cnp.PyArray_BYTES(data), 0)
        return 0

    @property
    def shape(self):
        return (self._k, self._n)

    @property
    def ndim(self):
        return 2

    @property
    def dtype(self):
        return cnp.PyArray_DescrFromType(self._typenum)

    @property
    def data(self):
        return self._data.view()

    @property
    def nbytes(self):
        return self._data.nbytes

    def __eq__(self, other):
        if type(other) is not type(self):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype and np.array_equal(self.data, other.data)

    def __hash__(self):
        return hash((self.shape, self.dtype, self._data.tobytes()))

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    # With __array_ufunc__ = None, NumPy leaves `a @ packed` to this class.
    __array_ufunc__ = None

    def __rmatmul__(self, a):
        """Return ``matmul(a, self)``."""
        return _product(a, self)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(f"a {type(self).__name__} is not an array: give .unpack() of it, or use it as the right "
                        "operand")

    def save(self, path):
        """Write the matrix to a file that :meth:`load` maps.

        Parameters
        ----------
        path : path-like or file object
            The file to create or replace, in the format of :func:`save`, or a file object as for :func:`save`.
        """
        file.save(path, self)

    @classmethod
    @cython.binding(True)  # inspect finds no signature in a built-in class method
    def load(cls, path, mmap=None):
        """Load a matrix from a file that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like or file object
            The file, or a file object as for :func:`load`.
        mmap : bool, optional
            Map the file into memory instead of reading it. All processes that map the file share the memory. By default
            a path is mapped, and a file object is read. A mapped file must not change while it is in use.

        Returns
        -------
        PackedB, PackedB4
            A matrix of this class.

        Raises
        ------
        TypeError, OSError
            If `path` is neither a path nor a file object, or the file cannot be read.
        ValueError
            If `save` did not write the file, or the file is truncated or corrupted.

        Examples
        --------
        >>> import os, tempfile, numpy as np, int8blas
        >>> packed = int8blas.pack_b(np.eye(20, dtype=np.int8))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     packed.save(os.path.join(folder, "b.i8"))
        ...     int8blas.PackedB.load(os.path.join(folder, "b.i8"), mmap=False) == packed
        True
        """
        packed = file.load(path, mmap)
        if type(packed) is not cls:
            raise ValueError(f"{name_of(path)} is not a {cls._what}: it holds a {type(packed).__name__}")
        return packed


cdef cnp.ndarray checked_bytes(object k, object n, object dtype, object buffer, object size, tuple names, str what):
    """Check the values of `__reduce__`, and return the `size` packed bytes in a buffer as uint8."""
    if dtype not in names:
        raise ValueError(f"dtype of a {what} must be {' or '.join(names)}, got {shown(dtype)}")
    if k < 0 or n < 0:
        raise ValueError(f"a packed matrix must have a shape, got {k} x {n}")
    return packed_bytes_of(buffer, size, f"a {what.replace('packed', f'packed {k} x {n}')}")


cdef bint can_keep(object buffer, cnp.ndarray data):
    """Return whether a matrix may keep a buffer instead of a copy: its bytes are aligned, and nothing can change them.
    """
    return is_constant(buffer) and <uintptr_t>cnp.PyArray_DATA(data) % ALIGNMENT == 0
