# Fused element-wise operators (see fused.pyx).
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport i8_post_op


cdef class Step:
    cdef cnp.ndarray array          # the array that the step reads, in the shape of the result, or None
    cdef float scale, zero
    cdef i8_post_op op              # the post-op; undefined for the first step

cdef Step reading(cnp.ndarray array, float scale, float zero)
cdef object fuse(list steps, cnp.ndarray target, float dst_scale, float dst_zero, bint onnx=?)
cdef object copying(cnp.ndarray array, cnp.ndarray target)
cdef object looking_up(cnp.ndarray array, cnp.ndarray table, cnp.ndarray target)
cdef int run(list fused) except -1
