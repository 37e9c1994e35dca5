# The epilogue of element-wise primitives (see epilogue.pyx).
cimport int8blas.core.cnumpy as cnp

from int8blas.elementwise.fused cimport Step

cdef class Epilogue:
    cdef float scale, zero, dst_scale, dst_zero
    cdef int typenum                # type number of the destination
    cdef tuple post_ops
    cdef str name                   # name of the argument with the post-ops
    cdef bint given
    cdef bint onnx                  # whether integers are rounded as in ONNX (see `fuse`)


cdef float zero_point_from(object value, str name, int typenum, bint in_range=?) except? -1
cdef int type_of(object dst_dtype, cnp.ndarray src) except -1
cdef cnp.ndarray destination(object out, int typenum, cnp.ndarray like, tuple shape=?)
cdef tuple checked_ops(object ops, str name)
cdef list post_ops_of(tuple ops, str name, cnp.ndarray target, bint is_old)
cdef Step part_of(Step step, tuple inside)
cdef cnp.ndarray broadcast(cnp.ndarray array, tuple shape, str name)
cdef object compute(list steps, cnp.ndarray array, object out, float scale, float zero, bint onnx=?)
cdef Epilogue epilogue_of(cnp.ndarray src, object scales, object zero_points, object post_ops, int typenum,
                          str name=?, bint onnx=?)
cdef object finished(cnp.ndarray result, Epilogue e, object out)
