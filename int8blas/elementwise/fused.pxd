# Fused element-wise operators (see fused.pyx).
from libc.stddef cimport ptrdiff_t
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_post_op
from int8blas.core.results cimport Layout


cdef class Step:
    cdef cnp.ndarray array          # the array that the step reads, in the shape of the result, or None
    cdef float scale, zero
    cdef i8_post_op op              # the post-op; undefined for the first step

cdef Step reading(cnp.ndarray array, float scale, float zero)
cdef object fuse(list steps, cnp.ndarray target, float dst_scale, float dst_zero, bint onnx=?)

cdef class Replay:
    cdef object fused               # the Fused with the operands and the order of the job
    cdef int count                  # sources, 1 or 2
    cdef Layout sources[2]
    cdef Layout target
    cdef bint in_order              # the target is in C order
    cdef ptrdiff_t offsets[3]       # bytes from an array's address to its first element in the job's order

    cdef cnp.ndarray run(self, cnp.ndarray first, cnp.ndarray second, cnp.ndarray spare=*)


cdef Replay replay(object fused, list arrays)


cdef class ReplayParts:
    cdef tuple fused                # a Fused for each part
    cdef object memory              # the memory of `sources`
    cdef Layout *sources
    cdef Layout target
    cdef bint in_order              # the target is in C order
    cdef double size                # bytes read and written

    cdef cnp.ndarray run(self, tuple parts)


cdef ReplayParts replay_parts(list fused, tuple parts, cnp.ndarray target)
cdef object copying(cnp.ndarray array, cnp.ndarray target)
cdef object looking_up(cnp.ndarray array, cnp.ndarray table, cnp.ndarray target)
cdef int run(list fused) except -1
