# The epilogue of element-wise primitives (see epilogue.pyx).
cimport int8blas.core.cnumpy as cnp

from int8blas.elementwise.fused cimport Step

cdef class Epilogue:
    cdef float scale, zero, dst_scale, dst_zero
    cdef int typenum                # type number of the destination
    cdef tuple post_ops
    cdef bint given


cdef float scale_from(object value, str name) except? -1
cdef float zero_point_from(object value, str name, int typenum, bint in_range=?) except? -1
cdef int type_of(object dst_dtype, cnp.ndarray src) except -1
cdef cnp.ndarray destination(object out, int typenum, tuple shape, cnp.ndarray like)
cdef list post_ops_of(object ops, str name, cnp.ndarray old, tuple shape, int typenum)
cdef Step part_of(Step step, tuple inside)
cdef cnp.ndarray broadcast(cnp.ndarray array, tuple shape, str name)
cdef object compute(list steps, cnp.ndarray array, bint returns_out, object out, int typenum, float scale, float zero,
                    bint onnx=?)
cdef Epilogue epilogue_of(cnp.ndarray src, object scales, object zero_points, object post_ops, int typenum)
cdef object finished(cnp.ndarray result, Epilogue e, object out)
