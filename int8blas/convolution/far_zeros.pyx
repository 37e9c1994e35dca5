"""Convolution with zero points out of the range of their types. Padding and packed weights cannot represent them::

    sum over the taps in the image of (x - zx) * (w - zw)
        = sum of (x - p) * w  -  (zx - p) * sum of w  -  zw * (sum of (x - p) - (zx - p) * number of taps)

p is the value of x's type that is nearest to zx. Each sum is the result of a layer with the zero point p. For the sum
of w the layer gets an image of ones. For the sum of (x - p) it has weights of ones. For the number of taps it has both.
All sums fit int32, and the terms are int64.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport I8_MAX_COLUMNS, i8_output_args
from int8blas.core.turns cimport end_turn, take_turn
from int8blas.gemm.output cimport set_target
from int8blas.gemm.problem cimport Problem, start
from int8blas.stage.output_stage cimport Bound

cnp.import_array()


class FarSums:
    """The sums of a layer with any zero points.

    `plain` is the layer without scales, and with int32 results. Each call passes the zero point of its source. `ones`
    is such a layer with weights of ones and one output channel for each group. It is needed only if there are `zeros`,
    the zero points of the weights.
    """

    def __init__(self, plain, ones, zeros):
        self.plain, self.ones, self.zeros = plain, ones, zeros
        self.axis = -1 if plain.layout.endswith("c") else 1

    def __call__(self, x, zero):
        """Return the int64 sums of images x, with the channels last."""
        info = np.iinfo(x.dtype)
        near = min(max(zero, info.min), info.max)
        unit = np.ones((1, *x.shape[1:]), x.dtype)

        def of(layer, x, zero):
            return np.moveaxis(layer(x, zero_points={"src": zero}), self.axis, -1).astype(np.int64)

        sums = of(self.plain, x, near) - (zero - near) * of(self.plain, unit, 0)
        if self.zeros is not None:
            windows = of(self.ones, x, near) - (zero - near) * of(self.ones, unit, 0)
            sums -= self.zeros * np.repeat(windows, len(self.zeros) // windows.shape[-1], axis=-1)
        return sums


cdef int store_sums(Bound bound, cnp.ndarray sums, cnp.ndarray out) except -1:
    """Apply the epilogue to int64 sums with the channels last. Store the results in a contiguous array of this
    shape."""
    cdef Problem g
    cdef i8_output_args o
    cdef int64_t columns = sums.shape[sums.ndim - 1], row, column
    cdef cnp.ndarray own
    cdef const int64_t *data
    if sums.size == 0:
        return 0
    # The epilogue may read a whole chunk after a row.
    own = np.zeros(sums.size + I8_MAX_COLUMNS, np.int64)
    own[:sums.size] = sums.reshape(-1)
    data = <const int64_t *>cnp.PyArray_DATA(own)
    start(&g, False)
    bound.fill(&g)
    g.m, g.n = sums.size // columns, columns
    g.c.data, g.c.column = cnp.PyArray_BYTES(out), cnp.PyArray_ITEMSIZE(out)
    g.c.row = g.c.column * columns
    memset(&o, 0, sizeof(o))
    set_target(&g, &o)
    o.rows = 1
    with nogil:
        end_turn()
        for row in range(g.m):
            column = 0
            while column < columns:
                o.cols = <int>min(<int64_t>I8_MAX_COLUMNS, columns - column)
                o.row, o.column = row, column
                o.acc64 = data + row * columns + column
                o.c = g.c.data + row * g.c.row + column * g.c.column
                g.kernels.stage.output(&o)
                column += o.cols
        take_turn()
    return 0
