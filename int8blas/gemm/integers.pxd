# Arrays of integers of every width, and their products (see integers.pyx).
from libc.stdint cimport int64_t

cimport int8blas.core.cnumpy as cnp
from int8blas.core.kernels cimport i8_wide_kernels
from int8blas.gemm.wide cimport WIDE_DIMS, WideProduct


# What happens to elements beyond the type of the result.
cdef enum Overflow:
    SATURATE
    WRAP
    RAISE


# All elements are in [-2**count, 2**count), and in [0, 2**count) unless some are negative.
cdef struct Bits:
    int count
    bint negative


# The shape of a result.
cdef struct Shape:
    int ndim
    cnp.npy_intp sizes[WIDE_DIMS]


cdef int levels(int64_t k) noexcept
cdef Bits bits_of(const i8_wide_kernels *kernels, cnp.ndarray x) noexcept
cdef void choose_kind(WideProduct *w, const Bits *a, const Bits *b) noexcept
cdef int set_sizes(WideProduct *w, cnp.ndarray x, cnp.ndarray y, Shape *shape) except -1
cdef int run_wide(const WideProduct *w, str name) except -1
cdef cnp.ndarray real_sums(const WideProduct *w)
cdef int integer_type(cnp.ndarray array) noexcept
cdef cnp.ndarray integer_operand(object x, str name)
cdef cnp.ndarray integer_output(object out, object dtype, int default, int *typenum)
cdef Overflow overflow_mode(object overflow) except *
cdef cnp.ndarray as_bytes(cnp.ndarray x)
cdef object multiply_integers(cnp.ndarray x, cnp.ndarray y, cnp.ndarray given, int typenum, Overflow overflow)
cdef int multiply_to_sums(cnp.ndarray x, cnp.ndarray y, cnp.ndarray sums, str name) except -1
cdef bint store(cnp.ndarray target, const int64_t *sums, bint saturates) noexcept
cdef int tell_overflow(int typenum, Overflow overflow) except -1
