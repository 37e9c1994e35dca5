# Copies of operands without contiguous rows or columns, such as A[:, ::2] (see copies.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t

from int8blas.gemm.operand cimport Operand
from int8blas.gemm.paths.sizes cimport COPIED_COLUMNS
from int8blas.gemm.problem cimport Problem, is_generated

cdef extern from "gemm/copy_vectors.h" nogil:
    void i8_copy_vectors(uint8_t *dst, ptrdiff_t dst_vector, int count, int64_t k, const uint8_t *src, ptrdiff_t step,
                         const uint8_t *end)

cdef enum:
    # The minimum number of bytes of a copied operand. Reading a smaller operand byte by byte takes less time than a
    # copy.
    COPIED_OPERAND = 512


cdef size_t copied_bytes(const Problem *g) noexcept nogil
cdef void copy_operands(Problem *own, const Problem *g, uint8_t *memory) noexcept nogil


cdef inline bint is_scattered(const Operand *x, int64_t rows, int64_t columns) noexcept nogil:
    """Return whether an operand is large enough for a copy, and neither its rows nor its columns are contiguous."""
    return x.row != 1 and x.column != 1 and rows > 1 and columns > 1 and rows * columns >= COPIED_OPERAND


cdef inline bint copies_a(const Problem *g) noexcept nogil:
    """Return whether A is copied. If A is uncached and C has few columns, the path few_columns copies some rows at a
    time instead."""
    return is_scattered(&g.a, g.m, g.k) and not is_generated(g) and not (
        g.n <= COPIED_COLUMNS and g.m >= g.n and g.m * g.k > g.machine.l2)


cdef inline bint copies_b(const Problem *g) noexcept nogil:
    """Return whether B is copied."""
    return g.panels.data is NULL and g.four_bits.data is NULL and is_scattered(&g.b, g.k, g.n)


cdef inline bint copies_operands(const Problem *g) noexcept nogil:
    """Return whether A or B is copied before the product is planned."""
    return copies_a(g) or copies_b(g)
