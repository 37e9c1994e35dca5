"""Products in float32, with the same bits on every CPU and with any number of threads.

RealProduct multiplies by weights that are stored as int8. real_matmul multiplies two stacks of float32 matrices::

    sum = fma(a[i, k], b[k, j], sum)        for k = 0, 1, ... in turn
    y[i, j] = sum * scale[j]                only with integer weights

Integer weights are converted to float32 without their scale. Integer weights with a scale for each block of k and each
column are converted with their scale, and their sums have no scale.

A unit of work multiplies some panels of b. The unit converts int8 weights to float32 in a buffer that stays in cache,
so it reads a quarter of the memory of float32 weights. 4-bit weights are first unpacked to int8, and their zero points
are subtracted, one block at a time. The unit also copies float32 panels of b to the buffer, or reads these panels in
place if a has few rows.
"""

import functools

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int64_t, uint8_t
from libc.string cimport memcpy, memset
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport elements_output, float32s
from int8blas.core.arrays import in_float32
from int8blas.core.file import register
from int8blas.core.kernels cimport (
    I8_GROUP, I8_PANEL, I8_REAL_ROW_PANELS, I8_REAL_WIDE, I8_TYPE_F32, current_kernels, i8_real_row_args,
    i8_real_tile_args)
from int8blas.core.memory cimport acquire, release
from int8blas.core.parameters import scale_values
from int8blas.core.results cimport Layout, check_layout, empty_of, lay_out
from int8blas.core.signatures import Signature
from int8blas.core.split cimport ceil_div, round_up, share
from int8blas.core.words import check_created, check_once, either, is_option, shown
from int8blas.core.threads cimport KEEPS_GIL_WORK, max_threads, paid_threads, run_work
from int8blas.gemm.four_bits cimport PackedB4
from int8blas.gemm.packing cimport PackedB, pack
from int8blas.gemm.packing import pack_b
from int8blas.gemm.problem cimport STEP_BYTES, STEP_K
from int8blas.stage.four_bits import quantize_four_bits, zeros_of_groups
from int8blas.stage.weights_scales import weights_scales

cnp.import_array()

cdef enum:
    # The maximum number of rows of a for which a kernel converts weights in registers, once for each row. If a has more
    # than ROWS rows, the buffer has the converted weights. With weights of 768 x 3072, one row takes 52 us and two rows
    # take 101 us without the buffer; three rows take 177 us and four rows take 172 us with the buffer (one thread,
    # AVX-512, Zen 5).
    ROWS = 2
    # The maximum number of rows of a for which a kernel transposes contiguous columns of b in registers, once for every
    # four rows. If a has more than COLUMN_ROWS rows, the buffer has the transposed columns. Attention of 4 queries
    # and 1000 keys of 128 elements is 1.6 times as fast with 8 rows as without transposing in registers (AVX-512, Zen
    # 4).
    COLUMN_ROWS = 8
    ROWS_OF_BLOCKS = 8          # ROWS for scales of blocks; here each row takes 123 us, and the buffer takes 980 us


cdef void copy_elements(const RealWindows *w, const float *channel, float *y, int64_t z, int64_t row, int64_t column,
                        int64_t count) noexcept nogil:
    """Copy elements of a row of a channel, one stride apart. Elements outside of the image are 0."""
    cdef int64_t i = 0, stride = w.strides[2], end = count
    cdef ptrdiff_t step = stride * w.steps[2]
    if z < 0 or z >= w.sizes[0] or row < 0 or row >= w.sizes[1]:
        memset(y, 0, 4 * count)
        return
    if column < 0:
        i = min(count, ceil_div(-column, stride))
        memset(y, 0, 4 * i)
    if column + (count - 1) * stride >= w.sizes[2]:
        end = max(i, ceil_div(w.sizes[2] - column, stride)) if column < w.sizes[2] else i
        memset(y + end, 0, 4 * (count - end))
    channel += z * w.steps[0] + row * w.steps[1] + column * w.steps[2]
    if step == 1:
        memcpy(y + i, channel + i, 4 * (end - i))
        return
    if step == 2:  # a constant step, which compilers vectorize
        for i in range(i, end):
            y[i] = channel[2 * i]
        return
    for i in range(i, end):
        y[i] = channel[i * step]


cdef void fill_windows(const RealWindows *w, const float *image, float *buffer, int64_t width, int64_t first,
                       int64_t columns, int64_t k, int64_t depth) noexcept nogil:
    """Store rows of the matrix of windows. A row has one element of each of some windows: the element of one tap and
    one channel."""
    cdef int64_t i, x, y, z, begin, count, place, kx, ky, kz
    cdef int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2]
    for i in range(depth):
        place = (k + i) % taps
        kx, ky, kz = place % w.kernel[2], place // w.kernel[2] % w.kernel[1], place // w.kernel[2] // w.kernel[1]
        x, y = first % w.outputs[2], first // w.outputs[2]
        y, z = y % w.outputs[1], y // w.outputs[1]
        begin = 0
        while begin < columns:
            count = min(columns - begin, w.outputs[2] - x)
            copy_elements(w, image + (k + i) // taps * w.channel, buffer + i * width + begin,
                          z * w.strides[0] + kz * w.dilations[0] - w.before[0],
                          y * w.strides[1] + ky * w.dilations[1] - w.before[1],
                          x * w.strides[2] + kx * w.dilations[2] - w.before[2], count)
            begin, x, y = begin + count, 0, y + 1
            if y == w.outputs[1]:
                y, z = 0, z + 1


cdef const int8_t *packed_groups(const RealJob *j, int64_t panel, int64_t k, int64_t depth,
                                 int8_t *unpacked) noexcept nogil:
    """Return `depth` rows of a packed panel in int8, from row `k` on. `k` is the first row of a group, or of a step of
    4-bit weights. 4-bit weights are unpacked to `unpacked`."""
    cdef int64_t i = 0, end, block
    cdef const uint8_t *zeros = NULL
    if not j.four_bits:
        return j.weights + panel * j.panel_size + k * I8_PANEL
    while i < depth:
        end = depth
        if j.zeros is not NULL:
            block = 0
            zeros = j.zeros + panel * I8_PANEL
            if j.block:
                block = (k + i) // j.block
                end = min(depth, (block + 1) * j.block - k)
                zeros = j.zeros + (panel * (j.k // j.block) + block) * I8_PANEL
        j.kernels.packing.unpack_four_bits(
            unpacked + i * I8_PANEL, <const uint8_t *>j.weights + panel * j.panel_size + (k + i) // STEP_K * STEP_BYTES,
            2 * ceil_div(end - i, STEP_K), j.zero, zeros, round_up(j.k, STEP_K))
        i = end
    return unpacked


cdef void fill(const RealJob *j, const RealArea *area, float *buffer, int64_t k, int64_t depth) noexcept nogil:
    """Store `depth` rows of some panels in the buffer, side by side, with zeros after the last column."""
    cdef int64_t width = area.panels * I8_PANEL, first = area.panel * I8_PANEL, columns, i, c, end
    cdef const float *b
    cdef const float *scales
    cdef int8_t unpacked[BLOCK_K * I8_PANEL]
    if j.weights is not NULL:
        for i in range(area.panels):
            j.kernels.stage.real_panel(buffer + i * I8_PANEL, width,
                                       packed_groups(j, area.panel + i, k, depth, unpacked), ceil_div(depth, I8_GROUP))
        if j.block_scales is not NULL:
            i = 0
            while i < depth:
                scales, end = j.block_scales + (k + i) // j.block * j.scales_row + first, (k + i) // j.block + 1
                for i in range(i, min(depth, end * j.block - k)):
                    for c in range(width):
                        buffer[i * width + c] *= scales[c]
                i += 1
        return
    columns = min(width, j.columns - first)
    b = area.b + k * j.b_row + first * j.b_column
    if columns < width:
        memset(buffer, 0, 4 * width * depth)
    if j.windows is not NULL:
        fill_windows(j.windows, area.b, buffer, width, first, columns, k, depth)
    elif j.b_column == 1:
        for i in range(depth):
            memcpy(buffer + i * width, b + i * j.b_row, 4 * columns)
    elif j.b_row == 1:
        j.kernels.stage.transpose_store(<char *>buffer, 4, 4 * width, <const char *>b, 4 * j.b_column, <int>columns,
                                        <int>depth, 4)
    else:
        for i in range(depth):
            for c in range(columns):
                buffer[i * width + c] = b[i * j.b_row + c * j.b_column]
    if j.b_factor != 1:
        j.kernels.elementwise.load[I8_TYPE_F32](buffer, buffer, width * depth, j.b_factor, 0)


cdef inline int64_t buffer_depth(const RealJob *j) noexcept nogil:
    """Return the number of rows of b in the buffer."""
    return min(<int64_t>BLOCK_K, round_up(j.k, I8_GROUP))


cdef void multiply_row(const RealJob *j, const RealArea *area, const float *a, float *c,
                       int8_t *unpacked) noexcept nogil:
    """Multiply one row of a by packed weights. If blocks of k have scales, multiply block by block."""
    cdef i8_real_row_args t
    cdef int64_t first = area.panel * I8_PANEL, k = 0, i
    t.panels, t.panel_size, t.c, t.factor = area.panels, j.panel_size, c, NULL
    if j.four_bits:
        t.panel_size = min(<int64_t>BLOCK_K, round_up(j.k, STEP_K)) * I8_PANEL
    while k < j.k:
        t.k = j.k - k if j.block_scales is NULL else j.block - k % j.block
        if j.four_bits:
            t.k = min(<int64_t>BLOCK_K, t.k)
        for i in range(area.panels if j.four_bits else 0):
            packed_groups(j, area.panel + i, k, t.k, unpacked + i * t.panel_size)
        t.first, t.a = k == 0, a + k
        t.weights = unpacked if j.four_bits else j.weights + area.panel * j.panel_size + k * I8_PANEL
        t.scale = j.scale + first if j.scale is not NULL and k + t.k == j.k else NULL
        if j.block_scales is not NULL:
            t.factor = j.block_scales + k // j.block * j.scales_row + first
        j.kernels.stage.real_row(&t)
        k += t.k


cdef inline bint by_row(const RealJob *j) noexcept nogil:
    """Return whether weights are converted in registers, once for each row of a. Blocks of k must be multiples of 4."""
    if j.block_scales is NULL:
        return j.rows <= ROWS
    return j.rows <= ROWS_OF_BLOCKS and j.block % I8_GROUP == 0


cdef bint multiply_columns(const RealJob *j, const RealArea *area) noexcept nogil:
    """Multiply one area without a copy of b, if the columns of b are contiguous, like keys of attention. Return False
    without a result if the area has too many rows, or a size that the kernel does not take."""
    cdef i8_real_tile_args t
    cdef int64_t first = area.panel * I8_PANEL, end = min(first + area.panels * I8_PANEL, j.columns), at
    if (j.weights is not NULL or j.windows is not NULL or j.b_row != 1 or j.b_factor != 1 or j.k % 4 or not j.k
            or area.rows > COLUMN_ROWS or end - first < I8_PANEL):
        return False
    t.rows, t.k, t.a, t.a_row, t.b_row, t.c_row = <int>area.rows, j.k, area.a, area.a_row, j.b_column, area.y_row
    t.panels = <int>((end - first) // I8_PANEL)
    at = first
    while at < end:
        t.b, t.c = area.b + at * j.b_column, area.y + at
        j.kernels.stage.real_columns(&t)
        at += t.panels * I8_PANEL
        if at < end:  # the last panel overlaps the previous one
            at, t.panels = end - I8_PANEL, 1
    return True


cdef void multiply_area(const RealJob *j, const RealArea *area, float *buffer) noexcept nogil:
    """Multiply one area. Store the sums of padded columns, which y does not have, in memory after the buffer."""
    cdef i8_real_tile_args t
    cdef int64_t width = area.panels * I8_PANEL, first = area.panel * I8_PANEL, k = 0, tile, row
    cdef int64_t tiles = ceil_div(area.rows, j.kernels.stage.real_rows)
    cdef bint whole = first + width <= j.room
    cdef float *columns = buffer + j.per * I8_PANEL * buffer_depth(j)
    cdef bint in_place = (first + width <= j.columns and j.weights is NULL and j.b_column == 1
                          and area.rows <= FEW_ROWS and j.b_factor == 1)
    cdef float *c = area.y + first if whole else columns
    if multiply_columns(j, area):
        return
    if j.weights is not NULL and by_row(j):
        for row in range(area.rows):
            multiply_row(j, area, area.a + row * area.a_row, c + row * area.y_row if whole else c, <int8_t *>buffer)
            if not whole:
                memcpy(area.y + row * area.y_row + first, columns, 4 * (j.columns - first))
        return
    t.panels, t.a_row, t.b, t.b_row, t.c_row = area.panels, area.a_row, buffer, width, area.y_row if whole else width
    t.steps = NULL
    while k < j.k:
        t.k = min(<int64_t>BLOCK_K, j.k - k)
        t.first, t.scale = k == 0, j.scale + first if j.scale is not NULL and k + t.k == j.k else NULL
        if in_place:
            t.b, t.b_row = area.b + k * j.b_row + first, j.b_row
        else:
            fill(j, area, buffer, k, t.k)
        for tile in range(tiles):
            row = share(area.rows, tile, tiles)
            t.rows = <int>(share(area.rows, tile + 1, tiles) - row)
            t.a, t.c = area.a + row * area.a_row + k, c + row * t.c_row
            j.kernels.stage.real_tile(&t)
        k += t.k
    for row in range(0 if whole else area.rows):
        memcpy(area.y + row * area.y_row + first, columns + row * width, 4 * (j.columns - first))


cdef void find_area(const RealJob *j, int64_t unit, RealArea *area) noexcept nogil:
    """Set the area of a unit of work. Units are numbered by groups of panels first, then by blocks of rows, then by
    products."""
    cdef int64_t group = unit % j.groups, block = unit // j.groups % j.blocks, product = unit // j.groups // j.blocks
    cdef int64_t row = share(j.rows, block, j.blocks), left = product
    cdef const char *a = j.a
    cdef const char *b = j.b
    cdef char *y = j.y
    cdef int d
    for d in range(j.dims - 1, -1, -1):
        a += left % j.shape[d] * j.a_steps[d]
        b += left % j.shape[d] * j.b_steps[d]
        y += left % j.shape[d] * j.y_steps[d]
        left = left // j.shape[d]
    area.rows = share(j.rows, block + 1, j.blocks) - row
    area.panel = group * j.per
    area.panels = <int>min(<int64_t>j.per, j.panels - area.panel)
    area.a, area.a_row, area.b = <const float *>a + row * j.a_row, j.a_row, <const float *>b
    area.y, area.y_row = <float *>y + row * j.y_row, j.y_row


cdef int64_t area_floats(const RealJob *j) noexcept nogil:
    """Return the number of floats of a thread's buffer, including the memory for padded columns after it."""
    return j.per * I8_PANEL * (buffer_depth(j) + ceil_div(j.rows, j.blocks))


cdef inline int64_t merged(const RealJob *j, RealArea *area, int64_t units) noexcept nogil:
    """Extend an area of one row that is read in place to the panels of the next units, if these panels fill a wide
    tile. Return the number of units in the area, at most `units`."""
    cdef int64_t panels = I8_REAL_WIDE * j.kernels.stage.real_panels
    if (area.rows > 1 or units < I8_REAL_WIDE or panels != I8_REAL_WIDE * j.per or j.weights is not NULL
            or j.b_column != 1 or j.b_factor != 1 or (area.panel + panels) * I8_PANEL > j.columns):
        return 1
    area.panels = <int>panels
    return I8_REAL_WIDE


cdef int multiply_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Compute one thread's share of the units."""
    cdef const RealJob *j = <const RealJob *>job
    cdef RealArea area
    cdef int64_t units = j.count * j.blocks * j.groups, unit = share(units, part, parts)
    cdef int64_t end = share(units, part + 1, parts)
    cdef float *buffer = <float *>acquire(4 * area_floats(j))
    if buffer is NULL:
        return -1
    while unit < end:
        find_area(j, unit, &area)
        unit += merged(j, &area, end - unit)
        multiply_area(j, &area, buffer)
    release(buffer)
    return 0


cdef int64_t divide(RealJob *job) noexcept:
    """Divide the products into units of work, for the kernels in use, and return the number of threads that have enough
    work. k is at least 1."""
    cdef double work = <double>job.count * job.rows * job.k * job.columns
    cdef int64_t threads, most
    job.kernels = current_kernels()
    job.panels, job.blocks = ceil_div(job.columns, I8_PANEL), ceil_div(job.rows, BLOCK_ROWS)
    threads = paid_threads(work, THREAD_PRODUCTS, max_threads())
    most = I8_REAL_ROW_PANELS if job.weights is not NULL and by_row(job) else job.kernels.stage.real_panels
    job.per = <int>max(<int64_t>1, min(most, job.count * job.blocks * job.panels // threads))
    job.groups = ceil_div(job.panels, job.per)
    return min(threads, job.count * job.blocks * job.groups)


cdef int multiply(RealJob *job) except -1:
    """Compute all products. k is at least 1."""
    cdef double work = <double>job.count * job.rows * job.k * job.columns
    if work and run_work(multiply_part, job, divide(job), work, THREAD_PRODUCTS, KEEPS_GIL_WORK):
        raise MemoryError("a product of real numbers: no memory for the workspace")
    return 0


@cython.final
cdef class RealProduct:
    """A product of float32 matrices and integer weights, which are packed once. Only the weights are rounded.

    ``y = x @ (weights * scale) + bias``

    Parameters
    ----------
    weights : array_like of int8, uint8 or float32, or PackedB or PackedB4
        Weights of shape (k, n), where k is at least 1. float32, float16 and bfloat16 are quantized to int8 in
        [-127, 127], or with ``bits=4`` to int4 in [-8, 7]. uint8 weights need ``bits=4``.
    scale : array_like of float, optional
        The scale of integer weights: one value, one for each column, or an array (k / group, n) with one for each block
        of k and each column. float32 weights get a scale for each column, or for each block: max|w| / 127, or
        max|w| / 7 with ``bits=4``.
    bias : array_like of float32, optional
        (n,).
    group : int, optional
        The number of consecutive weights of a column that share a scale, for float32 weights. `group` is a multiple of
        4 that divides k, and at most 16384. With ``bits=4``, `group` is a multiple of 8.
    bits : {8, 4}, optional
        The bits of a weight. The weights of a PackedB4 have 4 bits.
    zero_points : array_like of int, optional
        The zero points of 4-bit integer weights, in the range of these weights: one value, one for each column, or an
        array (k / group, n). The zero points are subtracted from the weights.

    Attributes
    ----------
    weights : PackedB or PackedB4
        The packed integers.
    scale : ndarray of float32
        The scales, of shape (n,) or (k / group, n).
    bias : ndarray of float32 or None
        As given to the constructor.
    group : int or None
        The number of weights of a column that share a scale. `group` is None if the whole column shares one scale.
    zero_points : ndarray of int32 or None
        The zero points, of shape (1, n) or (k / group, n).

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. The error names the argument.

    See Also
    --------
    InnerProduct.dynamic : a layer that quantizes x too, which is faster for more than about 8 rows.

    Notes
    -----
    Sums are float32. A fused multiply-add adds the product of each k in turn. So results have the same bits on every
    CPU and with any number of threads::

        sum = fma(x[i, k], weights[k, j], sum)                  y = sum * scale[j] + bias[j]
        sum = fma(x[i, k], weights[k, j] * scale[b, j], sum)    y = sum + bias[j]       with scales of blocks b of k

    The product reads a quarter of the memory of float32 weights, or an eighth with 4-bit weights. For one row of x,
    reading the weights takes most of the time.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> w = np.float32([[1, -2], [0.5, 127], [-3, 0]])
    >>> layer = int8blas.RealProduct(w)
    >>> layer
    RealProduct(3, 2)
    >>> layer.weights.unpack().tolist()
    [[42, -2], [21, 127], [-127, 0]]
    >>> layer(np.float32([[1, 1, 0.25]])).round(2)
    array([[  0.74, 125.  ]], dtype=float32)
    """

    cdef PackedB _eight
    cdef PackedB4 _four             # either `_eight` or `_four` is None
    cdef int64_t _k, _n
    cdef readonly object bias
    cdef readonly object zero_points
    cdef cnp.ndarray _zeros         # stored zero points, [panels, blocks, 16], or None
    cdef cnp.ndarray _scale         # one row of scales for all blocks, or a row for each block
    cdef cnp.ndarray _bias
    cdef int64_t _block             # rows of the weights in a block; 0 if there are no blocks

    __signature__ = Signature()

    def __init__(self, weights, scale=None, bias=None, *, group=None, bits=8, zero_points=None):
        """Create the layer; the docstring of the class has the parameters."""
        check_once(self, self.weights)
        if not is_option(bits, (8, 4)):
            raise ValueError(f"bits must be 8 or 4, got {shown(bits)}")
        if isinstance(weights, PackedB) and bits == 4:
            raise TypeError("weights must be an array or a PackedB4 with bits=4, got a PackedB")
        if not isinstance(weights, (PackedB, PackedB4)):
            array = in_float32(weights, "weights")
            allowed = ("int8", "float32") if bits == 8 else ("int8", "uint8", "float32")
            if array.dtype.name not in allowed or array.ndim != 2:
                raise TypeError(f"weights must be a matrix of {either(allowed)}, got {array.dtype} of shape "
                                f"{array.shape}")
            if array.dtype == np.float32:
                for value, name in ((scale, "scale"), (zero_points, "zero_points")):
                    if value is not None:
                        raise ValueError(f"{name} must not be given for weights of float32")
                scale = weights_scales(array.T, group=group, bits=bits)
                if bits == 4:
                    array = quantize_four_bits(array.T, scale, group or 0)[0].T
                else:
                    rows = scale if group is None else np.repeat(scale, group, axis=0)
                    array = np.clip(np.rint(array / rows), -127, 127).astype(np.int8)
                group = None
            weights = pack(array, False) if bits == 8 else pack_b(array, bits=4)
        if group is not None:
            raise ValueError(f"group must not be given with a scale, whose shape gives the group, got {group}")
        if scale is None:
            raise ValueError("scale must be given for weights of int8")
        self._k, self._n = k, columns = weights.shape
        if isinstance(weights, PackedB4):
            self._four = weights
        else:
            self._eight = weights
        values = scale_values(scale, "scale")
        by_block = values.ndim == 2 and len(values) > 1 and k % len(values) == 0 and values.shape[1] == columns
        if not by_block:
            values = values.reshape(1, -1)
        is_unsigned = self._eight is not None and weights.dtype != np.int8
        if values.shape[1] not in (1, columns) or k == 0 or is_unsigned:
            raise ValueError("weights must be int8 or of 4 bits with at least one k, and scale one value or "
                             f"{columns}, or {columns} for each block of k, got {weights} and shape {np.shape(scale)}")
        self._block = k // len(values) if by_block else 0
        if self._four is not None and self._block % STEP_K:
            raise ValueError(f"scale must have blocks of a multiple of 8 k for weights of 4 bits, got {self._block}")
        self.set_zeros(zero_points, len(values))
        self._scale = np.ones((len(values), round_up(columns, I8_PANEL)), np.float32)
        self._scale[:, :columns] = values
        self._bias = None
        if bias is not None:
            own = np.array(float32s(bias, "bias"))
            if own.shape != (columns,):
                raise ValueError(f"bias must have shape ({columns},), got {own.shape}")
            own.flags.writeable = False
            self._bias = own
        self.bias = self._bias

    cdef object set_zeros(self, values, int64_t blocks):
        """Set the zero points of the weights."""
        cdef int64_t panels = ceil_div(self._n, I8_PANEL)
        self.zero_points = self._zeros = None
        if values is None:
            return
        if self._four is None:
            raise ValueError("zero_points must not be given for weights of 8 bits: subtract them from the weights")
        self.zero_points = zeros_of_groups(values, blocks, self._n, self._four.dtype, "zero_points")
        self.zero_points.flags.writeable = False
        by_column = np.zeros((blocks, panels * I8_PANEL), np.uint8)
        by_column[:, :self._n] = self.zero_points + self._four._matrix.zero
        self._zeros = np.ascontiguousarray(by_column.reshape(blocks, panels, I8_PANEL).transpose(1, 0, 2))

    @property
    def weights(self):
        return self._eight if self._four is None else self._four

    @property
    def scale(self):
        values = self._scale[:, :self._n] if self._block else self._scale[0, :self._n]
        values.flags.writeable = False
        return values

    @property
    def group(self):
        return self._block or None

    def __reduce__(self):
        bias = () if self.bias is None else (self.bias,)
        layer = RealProduct if self._zeros is None else functools.partial(RealProduct, zero_points=self.zero_points)
        return layer, (self.weights, np.ascontiguousarray(self.scale), *bias)

    def __repr__(self):
        more = (f", group={self._block}" if self._block else "") + ("" if self._four is None else ", bits=4")
        return f"RealProduct({self._k}, {self._n}{more})"

    def __call__(self, x, *, out=None):
        """Execute the layer.

        Parameters
        ----------
        x : array_like of float32
            (..., k). float16 and bfloat16 are converted to float32.
        out : ndarray of float32, optional
            The array for the result, with any strides.

        Returns
        -------
        ndarray of float32, shape (..., n)
            ``out`` if it is given.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above. Nothing is written then.
        """
        cdef cnp.ndarray source = np.ascontiguousarray(float32s(x, "x"))
        cdef cnp.ndarray y
        cdef RealJob job
        cdef Layout layout
        lay_out(&layout, source)
        check_created(self, self._scale)
        shape = (<object>source).shape
        if not shape or shape[-1] != self._k:
            raise ValueError(f"x must have shape (..., {self._k}), got {shape}")
        shape = (*shape[:-1], self._n)
        target = None if out is None else elements_output(out, "out", cnp.NPY_FLOAT32, shape)
        check_layout(&layout, source, "x")
        y = empty_of(shape, cnp.NPY_FLOAT32)
        job.k, job.columns, job.room, job.dims, job.count = self._k, self._n, self._n, 0, 1
        job.rows = cnp.PyArray_SIZE(source) // job.k
        job.a, job.a_row, job.b, job.b_factor = cnp.PyArray_BYTES(source), job.k, NULL, 1
        job.windows = NULL
        job.y, job.y_row = cnp.PyArray_BYTES(y), job.columns
        job.four_bits = self._four is not None
        if job.four_bits:
            job.weights, job.panel_size = <const int8_t *>self._four._matrix.data, self._four._matrix.step
            job.zero = self._four._matrix.zero
            job.zeros = NULL if self._zeros is None else <const uint8_t *>cnp.PyArray_DATA(self._zeros)
        else:
            job.weights = <const int8_t *>cnp.PyArray_DATA(self._eight._data)
            job.panel_size = cnp.PyArray_STRIDES(self._eight._data)[0]
        job.block, job.scales_row = self._block, cnp.PyArray_DIM(self._scale, 1)
        job.scale = job.block_scales = <const float *>cnp.PyArray_DATA(self._scale)
        if self._block:
            job.scale = NULL
        else:
            job.block_scales = NULL
        multiply(&job)
        if self._bias is not None:
            np.add(y, self._bias, out=y)
        if target is None:
            return y
        target[...] = y
        return out


register(RealProduct)


cdef void take_step(cnp.ndarray array, int axis, int64_t *size, ptrdiff_t *step) noexcept:
    """Set the size and the step of a stack's dimension. If the stack lacks the dimension, set 1 and 0."""
    size[0] = array.shape[axis] if axis >= 0 else 1
    step[0] = array.strides[axis] if size[0] != 1 else 0


cdef list stack_shape(RealJob *job, cnp.ndarray a, cnp.ndarray b):
    """Set the steps of both operands along the stacks' common dimensions, and return the broadcast shape."""
    cdef int d
    cdef int64_t left, right
    job.dims, job.count = max(a.ndim, b.ndim) - 2, 1
    for d in range(job.dims):
        take_step(a, a.ndim - 2 - job.dims + d, &left, &job.a_steps[d])
        take_step(b, b.ndim - 2 - job.dims + d, &right, &job.b_steps[d])
        if left != right and left != 1 and right != 1:
            raise ValueError(f"a and b must have stacks that broadcast, got shapes {(<object>a).shape} and "
                             f"{(<object>b).shape}")
        job.shape[d] = right if left == 1 else left
        job.count *= job.shape[d]
    return [job.shape[d] for d in range(job.dims)]


cdef cnp.ndarray set_a(RealJob *job, cnp.ndarray a):
    """Set the pointer and the steps of `a` in the job. Return its array, which may be a copy."""
    if a.strides[a.ndim - 1] != 4 or a.strides[a.ndim - 2] % 4:
        a = np.ascontiguousarray(a)
    job.a, job.rows, job.k = cnp.PyArray_BYTES(a), a.shape[a.ndim - 2], a.shape[a.ndim - 1]
    # NumPy allows any row step in an array of one row. The caller may merge the single rows of a stack into one matrix.
    job.a_row = job.k if cnp.PyArray_IS_C_CONTIGUOUS(a) else a.strides[a.ndim - 2] // 4
    return a


cdef cnp.ndarray set_b(RealJob *job, cnp.ndarray b):
    """Set the pointer and the steps of `b` in the job, with factor 1. Return its array, which may be a copy."""
    if b.strides[b.ndim - 1] % 4 or b.strides[b.ndim - 2] % 4:
        b = np.ascontiguousarray(b)
    job.b, job.b_row = cnp.PyArray_BYTES(b), b.strides[b.ndim - 2] // 4
    job.columns, job.room, job.b_column = b.shape[b.ndim - 1], b.shape[b.ndim - 1], b.strides[b.ndim - 1] // 4
    job.weights, job.scale, job.block_scales, job.b_factor, job.windows = NULL, NULL, NULL, 1, NULL
    return b


cdef void set_y(RealJob *job, cnp.ndarray y) noexcept:
    """Set the pointer and the steps of y, which has the dimensions of the stack and two more."""
    cdef int d
    job.y, job.y_row = cnp.PyArray_BYTES(y), y.strides[job.dims] // 4
    for d in range(job.dims):
        job.y_steps[d] = y.strides[d]


def real_matmul(a, b):
    """Return ``numpy.matmul(a, b)`` in float32, for at least two dimensions. float16 and bfloat16 are converted."""
    cdef cnp.ndarray left = float32s(a, "a"), right = float32s(b, "b"), y
    cdef RealJob job
    if left.ndim < 2 or right.ndim < 2 or left.shape[left.ndim - 1] != right.shape[right.ndim - 2]:
        raise ValueError(f"a and b must have shapes (..., m, k) and (..., k, n), got {(<object>left).shape} and "
                         f"{(<object>right).shape}")
    left, right = set_a(&job, left), set_b(&job, right)
    y = empty_of((*stack_shape(&job, left, right), job.rows, job.columns), cnp.NPY_FLOAT32)
    set_y(&job, y)
    if right.ndim == 2 and cnp.PyArray_IS_C_CONTIGUOUS(left):
        # Compute the stack as one product of the rows of all matrices.
        job.rows, job.dims, job.count = job.rows * job.count, 0, 1
    if job.k == 0:
        y.fill(0)
        return y
    multiply(&job)
    return y
