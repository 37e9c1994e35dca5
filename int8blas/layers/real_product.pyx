"""The product of real numbers with weights that are stored in 8 bits::

    sum = fma(x[n, k], f32(weights[k, oc]), sum)        for k = 0, 1, ... in turn
    y[n, oc] = sum * scale[oc]

in float32, the same bits on every CPU and with any number of threads. The weights become real numbers some panels at a
time, in a buffer that stays in the cache, and are multiplied there: what is read from memory is a fourth of float32.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int64_t
from libc.string cimport memcpy
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport float32s
from int8blas.core.file import register
from int8blas.core.kernels cimport I8_GROUP, I8_PANEL, current_kernels, i8_kernels, i8_real_tile_args
from int8blas.core.memory cimport acquire, release
from int8blas.core.parameters import scale_values
from int8blas.core.results cimport empty_of
from int8blas.core.split cimport ceil_div, round_up, share
from int8blas.core.threads cimport max_threads, paid_threads, run_parts
from int8blas.gemm.packing cimport PackedB, pack

cnp.import_array()

cdef enum:
    BLOCK_K = 512               # of weights in the buffer, a multiple of a group: 96 KiB for three panels
    THREAD_PRODUCTS = 1 << 20   # multiply-adds that pay for a thread


cdef struct Job:
    const i8_kernels *kernels
    int64_t rows, k, columns, panels
    const float *x
    float *y
    const int8_t *weights
    ptrdiff_t panel_size
    const float *scale          # of whole panels


cdef int multiply_panels(const Job *j, int64_t panel, int panels, float *buffer, float *columns) noexcept nogil:
    """Some panels, whose sums are made in `columns` where they are not all of y's."""
    cdef i8_real_tile_args t
    cdef int64_t width = panels * I8_PANEL, first = panel * I8_PANEL, k, tile, row, i
    cdef int64_t tiles = ceil_div(j.rows, j.kernels.stage.real_rows)
    cdef bint whole = first + width <= j.columns
    cdef float *c = j.y + first if whole else columns
    t.panels, t.a_row, t.b, t.b_row, t.c_row = panels, j.k, buffer, width, j.columns if whole else width
    k = 0
    while k < j.k:
        t.k = min(<int64_t>BLOCK_K, j.k - k)
        t.first, t.scale = k == 0, j.scale + first if k + t.k == j.k else NULL
        for i in range(panels):
            j.kernels.stage.real_panel(buffer + i * I8_PANEL, width, j.weights + (panel + i) * j.panel_size
                                       + k * I8_PANEL, ceil_div(t.k, I8_GROUP))
        for tile in range(tiles):
            row = share(j.rows, tile, tiles)
            t.rows = <int>(share(j.rows, tile + 1, tiles) - row)
            t.a, t.c = j.x + row * j.k + k, c + row * t.c_row
            j.kernels.stage.real_tile(&t)
        k += t.k
    for row in range(0 if whole else j.rows):
        memcpy(j.y + row * j.columns + first, columns + row * width, 4 * (j.columns - first))
    return 0


cdef int multiply_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """What one thread does: some of the columns."""
    cdef const Job *j = <const Job *>job
    cdef int64_t panel = share(j.panels, part, parts), end = share(j.panels, part + 1, parts)
    cdef int panels, most = j.kernels.stage.real_panels
    cdef int64_t width = most * I8_PANEL, depth = min(<int64_t>BLOCK_K, round_up(j.k, I8_GROUP))
    cdef float *buffer = <float *>acquire(4 * width * (depth + j.rows))
    if buffer is NULL:
        return -1
    while panel < end:
        panels = <int>min(<int64_t>most, end - panel)
        multiply_panels(j, panel, panels, buffer, buffer + width * depth)
        panel += panels
    release(buffer)
    return 0


cdef class RealProduct:
    """The product with weights of int8, packed once.

    Parameters
    ----------
    weights : array_like of int8, or PackedB
        (k, oc), with at least one k.
    scale : array_like of float
        Of all weights, or of each column.
    """

    cdef PackedB _packed
    cdef cnp.ndarray _scale

    def __init__(self, weights, scale):
        self._packed = weights if isinstance(weights, PackedB) else pack(np.asarray(weights, np.int8), False)
        k, columns = self._packed.shape
        values = scale_values(scale, "scale").reshape(-1)
        if values.size not in (1, columns) or k == 0 or self._packed.dtype != np.int8:
            raise ValueError(f"weights must be int8 with at least one k, and scale one value or {columns}, got "
                             f"{self._packed} and {values.size} values")
        self._scale = np.ones(round_up(columns, I8_PANEL), np.float32)
        self._scale[:columns] = values

    def __reduce__(self):
        return RealProduct, (self._packed, np.asarray(self._scale[:self._packed._n]))

    def __call__(self, x):
        """``x @ (weights * scale)``, of an array of float32 (..., k), float16 or bfloat16."""
        cdef cnp.ndarray source = np.ascontiguousarray(float32s(x, "x"))
        cdef cnp.ndarray y
        cdef Job job
        cdef int threads, status
        shape = (<object>source).shape
        if not shape or shape[-1] != self._packed._k:
            raise ValueError(f"x must have shape (..., {self._packed._k}), got {shape}")
        y = empty_of((*shape[:-1], self._packed._n), cnp.NPY_FLOAT32)
        job.kernels = current_kernels()
        job.k, job.columns = self._packed._k, self._packed._n
        job.rows, job.panels = cnp.PyArray_SIZE(source) // job.k, ceil_div(job.columns, I8_PANEL)
        job.x, job.y = <const float *>cnp.PyArray_DATA(source), <float *>cnp.PyArray_DATA(y)
        job.weights = <const int8_t *>cnp.PyArray_DATA(self._packed._data)
        job.panel_size = cnp.PyArray_STRIDES(self._packed._data)[0]
        job.scale = <const float *>cnp.PyArray_DATA(self._scale)
        with nogil:
            threads = paid_threads(<double>job.rows * job.k * job.columns, THREAD_PRODUCTS,
                                   <double>min(<int64_t>max_threads(), job.panels))
            status = run_parts(multiply_part, &job, threads, threads) if job.rows and job.panels else 0
        if status:
            raise MemoryError("RealProduct: no memory for the workspace")
        return y


register(RealProduct)
