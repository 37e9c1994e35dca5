# Questions about the size of a problem that several paths ask.
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t

from int8blas.core.kernels cimport I8_DOT2, I8_MAX_MR, I8_PANEL, I8_STACK_SIDE, I8_STACK_UNIT
from int8blas.core.split cimport round_up
from int8blas.gemm.problem cimport WHOLE, Problem, is_product, is_quantized, least_work

cdef enum:
    # small_k: the minimum number of rows of A, of columns of C, and of elements of C. The path shifts B once for all
    # rows, and loads a row of A once for all columns. Times on this path and on other paths, in us (AVX512-VNNI, Zen
    # 5):
    #   rows      16 x 4096 x 4: 2.6, 5.1;  48 x 2048 x 8: 4.8, 10.1
    #   columns   4096 x 32 x 4: 10.7, 6.0;  4096 x 64 x 4: 15.9, 15.4
    #   elements  128 x 128 x 4: 1.3, 0.85;  192 x 192 x 4: 1.7, 1.8;  256 x 256 x 4: 2.9, 3.8
    SMALL_K_ROWS = 16
    SMALL_K_COLUMNS = 64
    SMALL_K_ELEMENTS = 3 << 14
    # few_columns: the minimum K, if more than two vectors are packed. For 1000 x 4 x 32, dot products take 3.5 us and
    # tiles 2.6 us. For 1000 x 1 x 16, dot products take 1.0 us and tiles 1.9 us (AVX512-VNNI).
    MIN_DOT_K = 64
    # few_columns in a tiny problem: the maximum number of packed vectors, and the minimum number of bytes that are read
    # in place for each packed vector. For 16 vectors, tiles are as fast as `few_columns`. For fewer than TINY_DOT_BYTES
    # bytes the path `tiny` is faster than `few_columns`, because it needs no plan: 8 x 1 x 128 takes 0.28 us on both
    # paths (AVX512-VNNI). A vector of less than TINY_DOT_K bytes counts as TINY_DOT_K bytes.
    TINY_DOT_VECTORS = 8
    TINY_DOT_BYTES = 1 << 10
    TINY_DOT_K = 16
    # long_k: LONG_K_SIDE is the maximum number of rows and of columns of C, because the path keeps all sums of a part
    # of K while it reads both operands once. MIN_LONG_K is the minimum of K divided by the number of elements of C,
    # because each element costs an addition in s64: 8 x 8 x 512 takes 0.48 us on this path and 0.39 us on
    # `few_columns`; 8 x 8 x 2048 takes 0.76 us on this path and 1.09 us on `few_columns` (AVX512-VNNI, Zen 5).
    # COPIED_VECTORS is the maximum number of vectors that the path copies because they are not contiguous along k: 8,
    # the most vectors that i8_copy_vectors copies at a time.
    LONG_K_SIDE = 16
    MIN_LONG_K = 16
    COPIED_VECTORS = 8
    # register: REGISTER_ROWS is the minimum number of rows of A, because making the tables takes 0.3 us. 64 x 4 x 4
    # takes 0.32 us on this path and 0.19 us on the path `tiny`; 256 x 3 x 3 takes 0.42 us on this path and 0.47 us on
    # the path `tiny` (AVX512-VNNI, Zen 5). ROWS_IN_REGISTER is the minimum number of rows of A that share a register,
    # so that most lanes of the register have an element of C. The kernel of stacks also computes short dot products,
    # with one column, of at least SHORT_DOT_K k. For 9600 x 1 x 16 this kernel takes 7 us with AVX512-VNNI and with
    # AVX2; the path `few_columns` takes 6 us with AVX512-VNNI and 15 us with AVX2.
    REGISTER_ROWS = 192
    ROWS_IN_REGISTER = 3
    SHORT_DOT_K = 5
    STACK_STEP = 1 << 22        # vectors of a stack begin less than this many bytes apart
    # tiny: a tile of A, packed B and its start values fit on the stack, and one thread ends before another thread would
    # wake. If K exceeds TINY_K and B has enough columns, the path `few_rows` reads B in place.
    TINY_K = 256
    TINY_COLUMNS = 8 * I8_PANEL
    TINY_A_BYTES = 4096
    TINY_B_BYTES = TINY_K * TINY_COLUMNS
    # tiny: the maximum K and the maximum number of columns if A is int8 and has any number of rows. NARROW_K_OF_PAIRS
    # is the maximum K without VNNI. On Zen 5, 10,000 x 17 x 100 takes 76 us on the path `tiny` and 101 us on the path
    # `blocks` (AVX512-VNNI). With AVX2, 10,000 x 17 x 8 takes 41 us on the path `tiny` and 75 us on the path `blocks`,
    # and 10,000 x 17 x 32 takes 121 us on `tiny` and 105 us on `blocks`.
    NARROW_K = 128
    NARROW_K_OF_PAIRS = 16
    NARROW_COLUMNS = 3 * I8_PANEL
    # tiny: a triangle has at most TINY_TRIANGLE rows of C and TINY_TRIANGLE_WORK multiply-adds. Up to these limits,
    # computing all of C takes less time than the path `triangle` needs to prepare the operands.
    # If A has contiguous rows and the CPU has VNNI, the limit is TINY_ROWS_WORK multiply-adds, 64 x 64 x 64. Times on
    # the paths `tiny` and `triangle` (AVX512-VNNI, Zen 5): 1.42 us and 1.70 us for 64 x 64 x 64 with contiguous rows;
    # with contiguous columns, 0.77 us and 0.79 us for 32 x 32 x 16, 1.09 us and 0.77 us for 32 x 32 x 32.
    TINY_TRIANGLE = 64
    TINY_ROWS_WORK = 1 << 18
    TINY_TRIANGLE_WORK = 1 << 13
    # triangle: the minimum number of rows of C for which computing and mirroring a triangle can be faster than
    # computing all of C. For a C of at least WHOLE_ROWS rows, the K limits in triangle.pyx decide. A product of 64 x 64
    # x 128 takes 1.7 us in both ways, and 96 x 96 x 512 takes 8.6 us mirrored and 11.0 us whole (AVX512-VNNI, Zen 5).
    WHOLE_ROWS = 64


cdef inline bint is_small_k(const Problem *g) noexcept nogil:
    """Return whether the sizes of a problem suit the path `small_k`."""
    return (
        0 < g.k <= g.kernels.gemm.small_k.limit and g.m >= SMALL_K_ROWS and g.n >= SMALL_K_COLUMNS
        and g.m * g.n >= SMALL_K_ELEMENTS
        and not g.saturating
    )


cdef inline bint is_short_dot(const Problem *g) noexcept nogil:
    """Return whether C has one column, and short rows of A are contiguous."""
    return (
        g.n == 1 and SHORT_DOT_K <= g.k <= I8_STACK_SIDE and g.a.column == 1 and 1 < g.a.row < STACK_STEP
        and -STACK_STEP < g.b.row < STACK_STEP
    )


cdef inline int64_t rows_in_register(const Problem *g) noexcept nogil:
    """Return the number of rows of A that the kernel of stacks computes in one step: rows that fit a register, or
    several short dot products."""
    cdef ptrdiff_t column = max(g.a.column, -g.a.column) * (g.k - 1)
    if is_short_dot(g):
        return I8_STACK_SIDE
    if column >= I8_STACK_UNIT or g.a.row < 1:
        return 0
    return min(
        min(1 + (I8_STACK_UNIT - 1 - column) // g.a.row, I8_STACK_UNIT // g.a.row), <ptrdiff_t>I8_STACK_UNIT // g.n)


cdef inline bint fits_register(const Problem *g) noexcept nogil:
    """Return whether several rows of A, all of B and their rows of C fit a register."""
    return (
        0 < g.k <= I8_STACK_UNIT // ROWS_IN_REGISTER
        and 0 < g.n <= I8_STACK_UNIT // ROWS_IN_REGISTER and rows_in_register(g) >= ROWS_IN_REGISTER
        and max(g.b.row, -g.b.row) * (g.k - 1) + max(g.b.column, -g.b.column) * (g.n - 1) < I8_STACK_UNIT
    )


cdef inline bint is_register(const Problem *g) noexcept nogil:
    """Return whether a problem has many rows, and the kernel of stacks computes several rows in one step."""
    return (
        g.m >= REGISTER_ROWS and (fits_register(g) or is_short_dot(g))
        and g.kernels.gemm.stack is not NULL and g.panels.data is NULL and g.four_bits.data is NULL
        and g.c.half == WHOLE and is_product(g)
        and not g.saturating and (g.c.column == sizeof(int) or g.n == 1)
        and g.c.row == g.n * <ptrdiff_t>sizeof(int)
    )


cdef inline bint is_stack_of_dots(const Problem *g) noexcept nogil:
    """Return whether dot products compute C faster than the kernel of stacks: C has one row or one column, and the
    operand with more vectors is not contiguous across k."""
    return g.k > 1 and (g.n == 1 and g.m > 1 and g.a.row != 1 or g.m == 1 and g.n > 1 and g.b.column != 1)


cdef inline bint is_dot_k(int64_t k, int64_t vectors) noexcept nogil:
    """Return whether K is long enough for dot products with `vectors` packed vectors."""
    return k >= MIN_DOT_K or vectors <= 2


cdef inline bint reads_few_columns(const Problem *g) noexcept nogil:
    """Return whether dot products are faster than the path `tiny`: one operand is large and contiguous along k, and the
    other operand has few vectors."""
    cdef int64_t most = TINY_DOT_VECTORS
    # Compare sizes first, because they alone decide for the smallest problems.
    if not is_dot_k(g.k, min(g.m, g.n)) or g.saturating or g.kernels.matrix is not NULL:
        return False
    if g.kernels.gemm.dots.columns < most:
        return False
    if g.a.column == 1 and g.n <= most and g.m >= g.n:
        return g.m * max(g.k, <int64_t>TINY_DOT_K) >= TINY_DOT_BYTES * g.n
    return (
        g.panels.data is NULL and g.b.row == 1 and g.m <= most and is_dot_k(g.k, g.m)
        and g.n * max(g.k, <int64_t>TINY_DOT_K) >= TINY_DOT_BYTES * g.m
    )


cdef inline bint is_long_k(const Problem *g) noexcept nogil:
    """Return whether C has few rows and columns, and K is long."""
    return (
        g.m <= LONG_K_SIDE and g.n <= LONG_K_SIDE and g.k >= MIN_LONG_K * g.m * g.n
        and (g.a.column == 1 or g.m <= COPIED_VECTORS) and (g.b.row == 1 or g.n <= COPIED_VECTORS)
        and g.panels.data is NULL and g.four_bits.data is NULL
    )


cdef inline bint fits_stack(const Problem *g) noexcept nogil:
    """Return whether the path `tiny` has room for the operands."""
    return g.n <= TINY_COLUMNS and (
        g.k <= TINY_K or (
            g.n < g.kernels.gemm.few_rows.columns and g.k * min(g.m, <int64_t>I8_MAX_MR) <= TINY_A_BYTES
            and g.k * round_up(g.n, I8_PANEL) <= TINY_B_BYTES and not is_long_k(g)
        )
    )


cdef inline bint is_narrow(const Problem *g) noexcept nogil:
    """Return whether A has contiguous short rows of int8, and C is a bare product with few columns. The path `tiny`
    shifts several short rows in one step. With several threads or AMX, the path `blocks` is faster than the path
    `tiny`."""
    return (
        g.threads <= 1 and g.kernels.matrix is NULL and g.n <= NARROW_COLUMNS
        and g.k <= (NARROW_K_OF_PAIRS if g.kernels.gemm.exact == I8_DOT2 else NARROW_K)
        and g.a.column == 1 and g.a.row == g.k and g.a.sign_flip != 0 and is_product(g)
    )


cdef inline bint is_tiny(const Problem *g) noexcept nogil:
    """Return whether a problem without a triangle is small or narrow, and has no epilogue of a primitive."""
    return (
        fits_stack(g) and g.m <= g.kernels.tuning.tiny_work
        and (g.m * g.n * g.k <= g.kernels.tuning.tiny_work or is_narrow(g))
        and (g.threads <= 1 or g.kernels.matrix is not NULL or g.m * g.n * g.k < least_work(g))
        and not is_quantized(g) and g.c.half == WHOLE and not is_small_k(g) and not reads_few_columns(g)
        and not is_register(g) and g.four_bits.data is NULL
    )


cdef inline bint is_tiny_triangle(const Problem *g) noexcept nogil:
    """Return whether it is faster to compute all of C on the path `tiny` and store only a triangle of C."""
    cdef bint is_fast = g.a.column == 1 and g.kernels.gemm.exact != I8_DOT2
    return (
        g.c.half != WHOLE and g.n <= TINY_TRIANGLE and g.k <= TINY_K
        and g.n * g.n * g.k <= (TINY_ROWS_WORK if is_fast else TINY_TRIANGLE_WORK) and g.epilogue.beta == 0
        and not is_quantized(g) and not g.saturating
    )
