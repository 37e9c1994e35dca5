# Pooling of arrays (see pool.pyx).
cimport int8blas.core.cnumpy as cnp
from libc.stdint cimport int64_t

# The operation: the maximum, the average over all elements of a window, or the average over the elements that are not
# padding.
cdef enum:
    MAXIMUM, AVERAGE, AVERAGE_WITH_PADDING


# One spatial dimension of a window.
cdef struct Axis:
    int64_t kernel, stride, dilation, before, after


cdef inline int64_t extent(const Axis *axis) noexcept nogil:
    """Return the extent of a window: the number of elements from its first to its last element."""
    return axis.dilation * (axis.kernel - 1) + 1


cdef bint padding_only(const Axis *axis, int64_t size, int64_t positions) noexcept
cdef int pool(cnp.ndarray src, cnp.ndarray out, tuple axes, int operation, const Axis *window) except -1
