# Packed matrices, for the modules that multiply by them.
from libc.stdint cimport int8_t, int64_t, uint8_t, uint16_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_kernels
from int8blas.gemm.operand cimport set_as_s8
from int8blas.gemm.packed cimport Packed
from int8blas.gemm.problem cimport Panels, Problem


# A packed B without Python objects: PackedB.address points to this struct, and cython_blas packs such a struct into a
# caller's memory.
cdef struct PackedMatrix:
    const PackedMatrix *here        # the struct's own address; in a copy of the struct, the address of the original
    int64_t k, n
    bint unsigned
    # The first read of `PackedB.address` fills `pair_sums`, `split` and `as_s8`. Later reads change nothing.
    Panels panels


# The bytes to pack. `packed` has them in packed form; if it is NULL, `b` has them with strides in bytes, and packing
# XORs them with `flip`.
cdef struct Source:
    const int8_t *packed
    const uint8_t *b
    ptrdiff_t k_stride, n_stride
    uint8_t flip


cdef class PackedB(Packed):
    cdef cnp.ndarray _certified     # bool [panels]
    cdef cnp.ndarray _squares       # int64 [panels * 16], sums of squares of B's columns; None until they are needed
    # The arrays to which Panels points, None until a product needs them.
    cdef cnp.ndarray _split         # whether each panel is split: bool [panels], or [0] if no panel is split
    cdef cnp.ndarray _dense         # like _data
    cdef cnp.ndarray _outliers      # bytes
    cdef cnp.ndarray _starts        # int64
    cdef cnp.ndarray _pair_sums     # uint16 [panels]
    cdef object _as_s8              # the values as a PackedB of s8; False if a value does not fit; None until needed
    cdef Panels _s8_form            # the panels of _as_s8
    cdef PackedMatrix _matrix

    cdef void fill(self, Problem *g) noexcept
    cdef cnp.ndarray group_sums(self, int64_t size)
    cdef cnp.ndarray squares_array(self)
    cdef const int64_t *squares(self) except? NULL
    cdef int fill_split(self, Problem *g, int64_t rows) except -1
    cdef bint is_s8(self, const i8_kernels *kernels) noexcept
    cdef int fill_s8(self, Problem *g, int64_t rows) except -1
    cdef int64_t split_k(self) noexcept
    cdef int split(self, const i8_kernels *kernels) except -1
    cdef void fill_outliers(self, Problem *g) noexcept


cdef PackedB pack(cnp.ndarray b, bint transpose)
cdef void make_panels(int8_t *data, int64_t k, int64_t n, const Source *source, int64_t *sums,
                      uint8_t *certified) noexcept nogil


cdef void squares_of_panel(const i8_kernels *kernels, const PackedMatrix *b, int64_t panel,
                           int64_t *squares) noexcept nogil


cdef inline void set_packed(Problem *g, const PackedMatrix *matrix) noexcept nogil:
    """Set B of `g` to this matrix, without a zero point."""
    g.n = matrix.n
    set_as_s8(&g.b, matrix.unsigned)
    g.panels = matrix.panels
    g.panels.split.panels = NULL
