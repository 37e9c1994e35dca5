# The A block (see pack_a.pyx).
from libc.stdint cimport int64_t, uint8_t

from int8blas.gemm.nest cimport LoopState

cdef enum:
    # The kernel for outliers reads a copy of A by columns. The copy is padded to multiples of COLUMN_ROWS rows and
    # COLUMN_K k, which fill the widest vectors.
    COLUMN_ROWS = 128
    COLUMN_K = 16


cdef void start_rows(LoopState *loop) noexcept nogil
cdef void copy_tail(const LoopState *loop) noexcept nogil
cdef void generate_rows(const LoopState *loop, uint8_t *dst, int64_t row, int64_t rows) noexcept nogil
cdef void add_row_terms(const LoopState *loop, const uint8_t *a, int64_t row, int64_t rows) noexcept nogil
cdef void pack_rows(LoopState *loop) noexcept nogil
cdef void load_a(LoopState *loop) noexcept nogil
cdef void load_columns(LoopState *loop) noexcept nogil
cdef void point_to_a(LoopState *loop) noexcept nogil
