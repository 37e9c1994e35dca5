# A product of elements wider than 8 bits, to sums in 64 bits (see wide.pyx).
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport i8_wide_kernels

cdef enum:
    DIRECT_WORK = 64            # up to this many multiply-adds, packing takes longer than the product
    WIDE_DIMS = 64              # NPY_MAXDIMS
    WIDE_THREAD_WORK = 1 << 18  # multiply-adds from which one more thread saves time


# An operand in memory. Steps are in bytes.
cdef struct WideOperand:
    const char *data
    ptrdiff_t row, column
    int type                    # I8_INT_S8 ... I8_INT_U64


# The pairs of matrices in a stack.
cdef struct WideStack:
    int dims
    int64_t count               # number of pairs
    int64_t shape[WIDE_DIMS]
    # Bytes from one operand to the next along each dimension.
    ptrdiff_t a_steps[WIDE_DIMS]
    ptrdiff_t b_steps[WIDE_DIMS]


# C := A @ B for each pair of matrices in a stack. The stack of results is C-contiguous.
cdef struct WideProduct:
    const i8_wide_kernels *kernels
    int kind                    # I8_WIDE_S16 ... I8_WIDE_F64
    int64_t m, n, k
    WideOperand a, b            # the operands of the first pair
    const char *packed          # B as panels of pairs of s16, instead of `b`; or NULL
    ptrdiff_t panel             # bytes from a panel of `packed` to the next
    char *c                     # s64, or f64 for I8_WIDE_F64
    int64_t segment             # groups of k whose sums fit a tile's accumulators
    WideStack stack


cdef void operands_of(const WideProduct *w, int64_t index, const char **a, const char **b) noexcept nogil
cdef bint is_direct(const WideProduct *w) noexcept nogil
cdef int multiply_wide(const WideProduct *w, int threads) noexcept nogil
cdef int64_t exact_element(const WideProduct *w, int64_t index, int64_t row, int64_t column, bint to_u64,
                           bint *beyond) noexcept nogil
