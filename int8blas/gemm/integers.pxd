# Arrays of integers of every width, and their products (see integers.pyx).
from libc.stdint cimport int64_t

cimport int8blas.core.cnumpy as cnp
from int8blas.gemm.bits cimport Bits
from int8blas.gemm.wide cimport WIDE_DIMS, WideProduct


# The ways to store elements that are out of the range of the result's type.
cdef enum Overflow:
    SATURATE
    WRAP
    RAISE


# The shape of a result.
cdef struct Shape:
    int ndim
    cnp.npy_intp sizes[WIDE_DIMS]


cdef int set_sizes(WideProduct *w, cnp.ndarray x, object y, Shape *shape) except -1
cdef cnp.ndarray real_sums(const WideProduct *w)
cdef cnp.ndarray integer_operand(object x, str name)
cdef cnp.ndarray integer_output(object out, object dtype, int default, int *typenum)
cdef Overflow overflow_mode(object overflow) except *
cdef cnp.ndarray as_bytes(cnp.ndarray x)
cdef object multiply_integers(cnp.ndarray x, object y, cnp.ndarray given, int typenum, Overflow overflow)
cdef cnp.ndarray multiply_to_sums(WideProduct *w, cnp.ndarray x, object y, int *bits, str name)
cdef bint store(cnp.ndarray target, const int64_t *sums, bint saturates) noexcept
cdef int tell_overflow(int typenum, Overflow overflow) except -1
cdef void choose_kind(WideProduct *w, const Bits *a, const Bits *b) noexcept
cdef str kind_name(int kind)
