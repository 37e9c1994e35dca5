# Products of operands without contiguous rows or columns, such as A[:, ::2] (see copies.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t

from int8blas.core.kernels cimport I8_DISTANCES
from int8blas.gemm.operand cimport Operand
from int8blas.gemm.problem cimport WHOLE, Problem, is_generated, is_product, is_wide

cdef extern from "gemm/copy_vectors.h" nogil:
    void i8_copy_vectors(uint8_t *dst, ptrdiff_t dst_vector, int count, int64_t k, const uint8_t *src, ptrdiff_t step,
                         const uint8_t *end)

cdef enum:
    # The minimum bytes of a matrix, and of a vector, for a copy. Reading a smaller operand byte by byte takes less time
    # than copying it. With and without a copy of a strided A, products take 0.35 us and 0.26 us for an A of 8 x 16,
    # 0.46 us and 0.45 us for 16 x 32, 0.85 us and 1.09 us for 64 x 32. With and without a copy of a strided vector, dot
    # products take 0.33 us and 0.25 us for 32 bytes, 0.42 us and 0.53 us for 512 bytes (AVX512-VNNI, Zen 5).
    COPIED_OPERAND = 512
    COPIED_VECTOR = 64
    # If one operand is scattered and the other has few vectors, these vectors may be spread. SPREAD_WORK is the maximum
    # number of multiply-adds for each byte of the scattered operand: the distance between its bytes times the number of
    # spread vectors. SPREAD_VECTORS is the minimum number of scattered vectors for each spread vector. On Zen 5
    # (AVX512-VNNI), if A has every fourth column of a matrix of 1000 x 400, 8 columns of C (32 multiply-adds) take 7.9
    # us spread and 11.8 us copied; 32 columns (128 multiply-adds) take 26 us spread and 17 us copied. 64 rows and 16
    # columns (4 vectors) take 2.5 us spread and 1.7 us copied; 32 rows and 4 columns (8 vectors) take 0.87 us spread
    # and 0.74 us copied.
    SPREAD_WORK = 64
    SPREAD_VECTORS = 16
    # If each element of B has at most SKIPPED_WORK multiply-adds, the product also computes the columns that B skips in
    # memory. With every second column of a B of 256 x 1024, 4 rows of A (8 multiply-adds) take 5.0 us with the skipped
    # columns, and 8.4 us with a copy of B. 16 rows of A take 17.2 us with the skipped columns, and 13.3 us with a copy
    # of B (AVX512-VNNI, Zen 5).
    SKIPPED_WORK = 8


cdef size_t copied_bytes(const Problem *g) noexcept nogil
cdef void copy_operands(Problem *own, const Problem *g, uint8_t *memory) noexcept nogil
cdef void keep_columns(const Problem *g, const Problem *own) noexcept nogil


cdef inline bint is_scattered(const Operand *x, int64_t rows, int64_t columns) noexcept nogil:
    """Return whether an operand is large enough for a copy, and neither its rows nor its columns are contiguous."""
    if rows == 1 or columns == 1:
        return (x.row if columns == 1 else x.column) != 1 and rows * columns >= COPIED_VECTOR
    return x.row != 1 and x.column != 1 and rows * columns >= COPIED_OPERAND


cdef inline bint can_spread(const Problem *g) noexcept nogil:
    """Return whether a call may add values of k for which one operand equals its zero point."""
    return (
        g.panels.data is NULL and g.four_bits.data is NULL and not g.saturating and not is_generated(g)
        and g.c.half == WHOLE and g.epilogue.kind != I8_DISTANCES and not g.known.far_zeros
    )


cdef inline bint pays_to_spread(const Problem *g, ptrdiff_t step, ptrdiff_t other_step, int64_t many,
                                int64_t few) noexcept nogil:
    """Return whether spreading `few` vectors is faster than copying `many` vectors that begin `other_step` apart, and
    whose bytes are `step` apart."""
    step = max(step, -step)
    return (
        g.k > 1 and 0 < step <= max(other_step, -other_step) and step * few <= SPREAD_WORK
        and many >= SPREAD_VECTORS * few and ((g.k - 1) * step + 1) * few <= g.machine.l2 // 2
    )


cdef inline bint spreads_b(const Problem *g) noexcept nogil:
    """Return whether A is read with the bytes between its columns, and B is spread."""
    return (
        is_scattered(&g.a, g.m, g.k) and can_spread(g) and pays_to_spread(g, g.a.column, g.a.row, g.m, g.n)
    )


cdef inline bint spreads_a(const Problem *g) noexcept nogil:
    """Return whether B is read with the bytes between its rows, and A is spread."""
    return (
        is_scattered(&g.b, g.k, g.n) and can_spread(g) and pays_to_spread(g, g.b.row, g.b.column, g.n, g.m)
    )


cdef inline bint can_skip(const Problem *g) noexcept nogil:
    """Return whether the call may compute rows or columns that C does not have."""
    return g.k > 1 and can_spread(g) and is_product(g) and not is_wide(g)


cdef inline bint skips_columns(const Problem *g) noexcept nogil:
    """Return whether the product includes columns that B skips in memory. C skips the results of skipped columns."""
    cdef ptrdiff_t step = max(g.b.column, -g.b.column)
    return is_scattered(&g.b, g.k, g.n) and step * g.m <= SKIPPED_WORK and g.n > 1 and can_skip(g)


cdef inline bint skips_rows(const Problem *g) noexcept nogil:
    """Return whether the product includes rows that A skips in memory. C skips the results of skipped rows."""
    cdef ptrdiff_t step = max(g.a.row, -g.a.row)
    return is_scattered(&g.a, g.m, g.k) and step * g.n <= SKIPPED_WORK and g.m > 1 and can_skip(g)


cdef inline bint copies_a(const Problem *g) noexcept nogil:
    """Return whether A is copied or spread."""
    return is_scattered(&g.a, g.m, g.k) and not is_generated(g)


cdef inline bint copies_b(const Problem *g) noexcept nogil:
    """Return whether B is copied or spread."""
    return g.panels.data is NULL and g.four_bits.data is NULL and is_scattered(&g.b, g.k, g.n)


cdef inline bint copies_operands(const Problem *g) noexcept nogil:
    """Return whether A or B is copied or spread before the product is planned."""
    return copies_a(g) or copies_b(g)
