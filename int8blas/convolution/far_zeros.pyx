"""Convolution of sources of 16 bits, and with zero points out of the range of their types.

Padding and packed weights cannot represent such zero points::

    sum over the taps in the image of (x - zx) * (w - zw)
        = sum of (x - p) * w  -  (zx - p) * sum of w  -  zw * (sum of (x - p) - (zx - p) * number of taps)

p is the value of x's type that is nearest to zx. Each sum is the result of a layer with the zero point p. For the sum
of w, the image is all ones. For the sum of (x - p), the weights are all ones. For the number of taps, image and weights
are all ones. A 16-bit source is 256 * h + l with 8-bit limbs h and l. p also has two limbs. Each limb has a layer. All
sums of a layer fit int32, and the terms are int64.
"""

from libc.stdint cimport int64_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport I8_MAX_COLUMNS
from int8blas.core.turns cimport end_turn, take_turn
from int8blas.gemm.output cimport WideSums, store_sums
from int8blas.gemm.problem cimport Problem, start
from int8blas.stage.output_stage cimport Bound

cnp.import_array()


def limbs_of(x, zero):
    """Return the limbs of a source and of its zero point, from the upper to the lower limb."""
    if x.dtype.itemsize == 1:
        return [(x, zero)]
    return [((x >> 8).astype(np.int8 if x.dtype.kind == "i" else np.uint8), zero >> 8),
            ((x & 255).astype(np.uint8), zero & 255)]


class FarSums:
    """The sums of a layer with any zero points.

    `plain` has a layer without scales and with int32 results for each limb of a source. Each call passes the zero point
    of its source. `ones` has layers like `plain`, with weights of ones and one output channel for each group. `ones` is
    needed only if the weights have zero points, `zeros`.
    """

    def __init__(self, plain, ones, zeros):
        self.plain, self.ones, self.zeros = plain, ones, zeros
        self.axis = -1 if plain[0].layout.endswith("c") else 1

    def __call__(self, x, zero):
        """Return the int64 sums of images x, with the channels last."""
        info = np.iinfo(x.dtype)
        near = min(max(zero, info.min), info.max)
        unit = np.ones((1, *x.shape[1:]), x.dtype)

        def of(layers, x, near):
            total = 0
            for layer, (limb, zero) in zip(layers, limbs_of(x, near), strict=True):
                sums = np.moveaxis(layer(limb, zero_points={"src": zero}), self.axis, -1)
                total = (total << 8) + sums.astype(np.int64)
            return total

        def sums_of(layers):
            return of(layers, x, near) - ((zero - near) * of(layers, unit, 0) if zero != near else 0)

        sums = sums_of(self.plain)
        if self.zeros is not None:
            windows = sums_of(self.ones)
            sums -= self.zeros * np.repeat(windows, len(self.zeros) // windows.shape[-1], axis=-1)
        return sums


cdef int store_images(Bound bound, cnp.ndarray sums, cnp.ndarray out) except -1:
    """Apply the epilogue to int64 sums with the channels last. Store the results in `dst`, a contiguous array of the
    same shape."""
    cdef Problem g
    cdef WideSums s = WideSums(NULL, NULL, NULL, NULL, NULL)
    cdef cnp.ndarray own
    if sums.size == 0:
        return 0
    # The epilogue may read a whole chunk after a row.
    own = np.zeros(sums.size + I8_MAX_COLUMNS, np.int64)
    own[:sums.size] = sums.reshape(-1)
    s.sums = <const int64_t *>cnp.PyArray_DATA(own)
    start(&g, False)
    bound.fill(&g)
    g.n = sums.shape[sums.ndim - 1]
    g.m = sums.size // g.n
    g.c.data, g.c.column = cnp.PyArray_BYTES(out), cnp.PyArray_ITEMSIZE(out)
    g.c.row = g.c.column * g.n
    with nogil:
        end_turn()
        store_sums(&g, &s)
        take_turn()
    return 0
