"""Views: the same convolution, of images in another form and with weights that are packed for this form.

A few output channels fill only a small part of a panel, and gathering windows may take longer than multiplying them.
Folding therefore makes several neighbouring outputs of a line the channels of one output. Folded outputs share the
union of their windows. B becomes a banded matrix: for each folded output, B has the weights at the place of the
output's window in the union, and zeros elsewhere. Columns that a dilated window skips have zeros, so the taps of the
union are contiguous, and the strategy "lines" can take the union. If windows are single pixels, the union of
neighbouring windows is a segment of a line of the image, which the product reads in place. If all pixels are evenly
spaced, all images make one long line.

With many output channels, a dilated convolution is computed as several convolutions without gaps. Each convolution
without gaps takes the columns of the image whose numbers have the same remainder modulo the dilation.

For images one pixel wide, height and width are swapped, because windows then have fewer and longer lines. If each
single channel has several filters, one product computes several channels. The kernel for groups of 4 and 8 channels
takes pairs of groups of 2 channels, and several neighbouring outputs if the groups are few.
"""

from math import gcd

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.convolution.depthwise cimport DepthwiseFilters
from int8blas.convolution.filters cimport Filters, Images, is_empty, is_even, pixel_step
from int8blas.convolution.groups cimport GroupFilters, has_few_lines
from int8blas.convolution.lines cimport LineFilters, LinesJob, has_lines, overlap
from int8blas.core.kernels cimport (
    I8_CHUNK, I8_DOT2, I8_GROUP, I8_PANEL, current_kernels, i8_column_values, i8_image, i8_requantization)
from int8blas.core.split cimport ceil_div
from int8blas.gemm.paths.sizes cimport is_dot_k
from int8blas.stage.output_stage cimport Bound

cnp.import_array()

cdef enum:
    # FOLDED_COLUMNS and FOLDED_K are the maximum number of columns and of k of the packed weights of folded outputs,
    # so that these weights have at most about 192 KiB. FOLDED_OUTPUTS is the minimum number of outputs of a view. For
    # fewer than FOLDED_OUTPUTS outputs, packing the weights for a view at the first use takes longer than the view
    # saves.
    FOLDED_COLUMNS = 96
    FOLDED_K = 2048
    FOLDED_OUTPUTS = 64
    # The largest K of products with few columns that are folded, although the path few_columns could compute them. A
    # column of 4096 evenly spaced pixels takes 2.0 us (K = 3), 4.6 us (K = 16) and 7.2 us (K = 32) folded, and 7.2 us
    # by dot products (AVX512-VNNI, Zen 5).
    FOLDED_DOT_K = 16
    # The time of the epilogue of a panel for one output, in multiply-adds of a vector. If a product reads the image in
    # place and has incomplete panels, the time doubles, because the sums are stored before the epilogue.
    EPILOGUE_STEPS = 8
    # Copying this number of bytes of lines takes as long as a multiply-add of a vector.
    COPIED_BYTES = 16
    # Gathering a run of contiguous bytes of a window takes GATHER_STEPS steps, and one more step for every GATHER_BYTES
    # bytes. A step is the time of a multiply-add of a vector with VNNI. Without VNNI a multiply-add takes WIDENED
    # steps.
    GATHER_STEPS = 4
    GATHER_BYTES = 10
    WIDENED = 4


# The forms of images. TURNED swaps height and width. APART has one view for each remainder of the column number modulo
# the dilation. FOLDED folds neighbouring outputs of a line. FLAT folds neighbouring outputs whose windows are single
# pixels, read in place. MERGED and GROUPED leave the images unchanged: with MERGED some channels share a product, and
# with GROUPED the kernel for small groups reads the images.
cdef enum:
    TURNED, APART, FOLDED, FLAT, MERGED, GROUPED


@cython.final
@cython.freelist(8)
cdef class View:
    """A part of the destination, and the source, the filters and the values of the epilogue for this part."""

    def __repr__(self):
        return f"View({self.filters})"


cdef View view_of(Filters filters, Bound bound, const Images *src, const Images *dst):
    cdef View view = View.__new__(View)
    view.filters, view.bound, view.src, view.dst = filters, bound, src[0], dst[0]
    return view


cdef Filters variant_of(Filters f, int form, int64_t fold=1):
    """Return the filters for a form of the images. At the first use, pack the filters' weights."""
    cdef Filters variant = f.variants.get((form, fold))
    cdef i8_image *window = &f.window
    if variant is not None:
        return variant
    weights = f.unpacked()
    strides, dilation, before = list(window.stride), list(window.dilation), list(window.before)
    if form == TURNED:
        weights = weights.swapaxes(4, 5)
        for values in (strides, dilation, before):
            values[1:] = reversed(values[1:])
    elif form == APART:
        strides[2], dilation[2], before[2] = strides[2] // gcd(strides[2], dilation[2]), 1, 0
    elif form == GROUPED:
        weights = in_groups(weights, f.shape)
    elif form in (FOLDED, FLAT) and not isinstance(f, GroupFilters):
        groups, outputs, channels, depth, height, width = weights.shape
        span = (width - 1) * dilation[2] + 1
        banded = np.zeros((groups, fold, outputs, channels, depth, height, span + (fold - 1) * strides[2]), np.int8)
        for i in range(fold):
            banded[:, i, ..., i * strides[2]:i * strides[2] + span:dilation[2]] = weights
        weights = banded.reshape(groups, fold * outputs, *banded.shape[3:])
        strides[2], dilation[2] = strides[2] * fold, 1
    if skips_lines(window) and form in (APART, FOLDED):
        strides[1] = 1
    shape, strides, dilation, before = weights.shape, tuple(strides), tuple(dilation), tuple(before)
    # MERGED and GROUPED order the columns differently from the layer's compensation.
    partial = f.partial or form in (MERGED, GROUPED)
    if form == GROUPED or isinstance(f, GroupFilters):
        variant = GroupFilters(shape, strides, dilation, before, partial, fold)
    elif not f.saturating and (form in (APART, FOLDED) or overlap(shape, strides)) and has_lines(shape, dilation):
        variant = LineFilters(shape, strides, dilation, before, partial)
    else:
        variant = Filters(shape, strides, dilation, before, f.saturating, False, partial)
    variant.set_zeros(f.zeros)
    variant.pack_weights(weights)
    variant.doubled = f.doubled
    with cython.critical_section(f):
        # If another thread has stored filters in the meantime, keep the stored filters, which may be in use.
        return f.variants.setdefault((form, fold), variant)


cdef object in_groups(weights, tuple shape):
    """Return merged weights as groups of at least 4 channels, where `shape` has groups of 2, 4 or 8 channels."""
    cdef int i
    size = shape[1]
    pairs = max(1, I8_GROUP // size)
    merged = np.arange(weights.shape[1] // size)
    blocks = weights.reshape(-1, len(merged), size, len(merged), size, *shape[3:])
    blocks = blocks[:, merged, :, merged].swapaxes(0, 1).reshape(-1, pairs, size, size, *shape[3:])
    result = np.zeros((len(blocks), pairs, size, pairs, *blocks.shape[3:]), np.int8)
    for i in range(pairs):
        result[:, i, :, i] = blocks[:, i]
    return result.reshape(len(blocks), pairs * size, pairs * size, *shape[3:])


cdef bint is_grouped(Filters f) except -1:
    """Return whether the kernel for small groups is faster than products of merged groups. The kernel is slower for
    fewer than 16 channels, unless the width of the image is a multiple of the folded outputs."""
    if f.merged == 1 or not f.fits:
        return False
    groups, outputs, channels = f.shape[:3]
    return (outputs == channels and (channels in (4, 8) or channels == 2 and groups % 2 == 0)
            and groups * channels >= I8_PANEL
            and has_few_lines(f.shape, tuple(f.window.stride), tuple(f.window.dilation)))


cdef inline bint skips_lines(const i8_image *window) noexcept:
    """Return whether a view leaves out the lines of the image that no window reads."""
    return window.kernel[1] == 1 and window.before[1] == 0


cdef cnp.ndarray repeated(const void *values, int64_t count, int64_t times, list arrays):
    """Repeat the values of `count` columns, and append the array of int32 or float32 to `arrays`. Kernels read a chunk
    after the last column."""
    cdef cnp.npy_intp size = times * count + 2 * I8_CHUNK
    cdef cnp.ndarray array = cnp.PyArray_ZEROS(1, &size, cnp.NPY_INT32, 0)
    cdef int32_t *data = <int32_t *>cnp.PyArray_DATA(array)
    cdef int64_t i
    for i in range(times):
        memcpy(data + i * count, values, count * sizeof(int32_t))
    arrays.append(array)
    return array


cdef int repeat(const void **values, int64_t count, int64_t times, list arrays) except -1:
    """Replace a pointer to values by a pointer to repeated values, unless it is NULL."""
    if values[0] is not NULL:
        values[0] = cnp.PyArray_DATA(repeated(values[0], count, times, arrays))
    return 0


cdef Bound repeated_bound(Bound bound, int64_t count, int64_t times):
    """Return the values of an epilogue for `times` outputs of `count` channels."""
    cdef Bound result = Bound.__new__(Bound)
    cdef i8_column_values *columns[4]
    cdef i8_requantization *r = &result.stage.requantization
    cdef list arrays = [bound]
    cdef int i
    result.stage, result.type, result.src_shift = bound.stage, bound.type, bound.src_shift
    result.ao, result.bo, result.far, result._arrays = bound.ao, bound.bo, bound.far, arrays
    columns[:] = [&result.stage.scale, &result.stage.bias, &result.stage.dst_scale, &result.stage.dst_zero]
    for i in range(4):
        if columns[i].step:
            repeat(<const void **>&columns[i].values, count, times, arrays)
    repeat(<const void **>&result.stage.offset, count, times, arrays)
    result.stage.col_sums = NULL
    if r.scheme:
        repeat(<const void **>&r.multiplier, count, times, arrays)
        repeat(<const void **>&r.exponent, count, times, arrays)
        repeat(<const void **>&r.zero_point, count, times, arrays)
        repeat(<const void **>&r.low, count, times, arrays)
        repeat(<const void **>&r.high, count, times, arrays)
    if bound._co_cols is not None:
        result._co_cols = repeated(cnp.PyArray_DATA(bound._co_cols), count, times, arrays)
    if bound._col_init is not None:
        result._col_init = repeated(cnp.PyArray_DATA(bound._col_init), count, times, arrays)
    return result


cdef bint takes_folded(Filters f, Bound bound, const Images *dst) noexcept:
    """Return whether neighbouring outputs can be folded into the channels of one output."""
    cdef int i
    for i in range(bound.stage.op_count):
        if bound.stage.ops[i].operand is not NULL:
            return False
    return not f.doubled and dst.steps[3] == dst.size[4] * dst.steps[4]


cdef bint is_pixel(const i8_image *window) noexcept:
    """Return whether windows are single pixels without strides."""
    cdef int d
    for d in range(3):
        if window.kernel[d] != 1 or window.stride[d] != 1:
            return False
    return True


cdef bint flatten(const i8_image *window, Images *src, Images *dst) noexcept:
    """Make one line of all images if all pixels of source and destination are evenly spaced. Return whether windows of
    one pixel need no padding, and all pixels make one line or each line of the source has no gaps between pixels."""
    cdef int64_t line, pixels = 1
    cdef ptrdiff_t line_step
    cdef int d
    for d in range(3):
        if window.before[d] != 0 or src.size[d + 1] != dst.size[d + 1]:
            return False
    for d in range(4):
        pixels *= dst.size[d]
    if src.steps[4] != 1 or src.size[4] != window.channels:
        return False
    if (is_even(src.size, src.steps, 0, &line, &line_step) and line == 0
            and is_even(dst.size, dst.steps, 0, &line, &line_step) and line == 0):
        for d in range(3):
            src.size[d] = dst.size[d] = 1
        src.size[3] = dst.size[3] = pixels
        return True
    return src.steps[3] == src.size[4]


cdef inline double steps_of(const i8_image *m, int64_t outputs, int64_t fold, int64_t columns, bint flat) noexcept:
    """Estimate the time of an output, in multiply-adds of a vector, if `fold` outputs share a window of `columns`
    columns. If `flat` is true, the product reads the image in place."""
    cdef int64_t k = m.kernel[0] * m.kernel[1] * ceil_div(columns * m.channels, I8_GROUP)
    k += EPILOGUE_STEPS * (2 if flat and outputs * fold % I8_PANEL else 1)
    return <double>ceil_div(outputs * fold, I8_PANEL) * k / fold


cdef int64_t fold_of(Filters f, const Images *dst, bint flat, bint folds) noexcept:
    """Choose the fastest views. Return the number of neighbouring outputs to fold, 0 for the whole view, or -1 for a
    view of each remainder of the columns."""
    cdef const i8_image *m = &f.window
    cdef int64_t span = (m.kernel[2] - 1) * m.dilation[2] + 1, width = dst.size[3], best = 0, fold = 2, columns
    cdef int64_t pixels = width * dst.size[0] * dst.size[1] * dst.size[2], lines = m.kernel[0] * m.kernel[1]
    cdef int64_t tile = current_kernels().gemm.np * I8_PANEL
    cdef double plain = steps_of(m, f.outputs, 1, m.kernel[2], flat), least = 0.9 * plain, steps, gathering
    cdef bint copies
    if not (is_pixel(m) or isinstance(f, LineFilters)):
        fold, steps = 1, plain
        columns = m.kernel[2] if m.dilation[2] == 1 else 1  # columns of a run
        gathering = lines * (m.kernel[2] // columns) * (GATHER_STEPS + columns * m.channels // GATHER_BYTES)
        plain += gathering / WIDENED if current_kernels().gemm.exact == I8_DOT2 else gathering
        least = 0.95 * plain
        if m.dilation[2] > 1 and pixels >= FOLDED_OUTPUTS * m.dilation[2] and steps < least:
            best, least = -1, steps
    elif flat and f.outputs % I8_PANEL and (tile == I8_PANEL or f.outputs <= tile):
        # Copied lines let vectors spill. With several tiles along N, the product in place is faster: 93 x 156 pixels
        # from 20 to 60 channels take 186 us, and 277 us from copied lines (AVX512-VNNI, Intel).
        fold = 1
    while fold == 1 or folds and fold <= I8_PANEL and f.outputs * fold <= FOLDED_COLUMNS:
        columns = span + (fold - 1) * m.stride[2]
        if (pixels < FOLDED_OUTPUTS * fold or width < 2 * fold
                or lines * columns * m.channels > FOLDED_K and fold > 1):
            break
        copies = not flat or fold == 1
        steps = steps_of(m, f.outputs, fold, columns, not copies)
        steps += width % fold * 2 * plain / width
        if copies:
            steps += m.kernel[0] * (1 if skips_lines(m) else m.stride[1]) * m.stride[2] * m.channels // COPIED_BYTES
        if steps < least:
            best, least = fold, steps
        fold += 1
    return best


cdef int64_t grouped_fold(GroupFilters f, const Images *dst) noexcept:
    """Return the number of neighbouring outputs whose channels fill the vectors of the kernel for small groups, or 0
    if the view should not be folded."""
    cdef int64_t whole = current_kernels().convolution.grouped_channels, fold = whole // f.channels
    cdef int64_t pixels = dst.size[0] * dst.size[1] * dst.size[2] * dst.size[3]
    if (f.window.stride[2] > 1 or fold < 2 or fold * f.channels != whole or dst.size[3] < 2 * fold
            or pixels < FOLDED_OUTPUTS * fold):
        return 0
    return fold


cdef bint fits(View view, uint8_t flip) except -1:
    """Return whether the strategy of the view's filters can compute the view."""
    cdef LinesJob j
    return isinstance(view.filters, GroupFilters) or isinstance(view.filters, LineFilters) and (
        (<LineFilters>view.filters).prepare_lines(&j, view.bound, &view.src, &view.dst, flip))


cdef list folded(View whole, int64_t fold, bint flat, uint8_t flip):
    """Return a view with folded outputs, and a view of the remaining outputs of each line, if any. If no kernel takes
    folded outputs, return the whole view."""
    cdef bint in_place = flat and fold > 1
    cdef Filters filters = variant_of(whole.filters, FLAT if in_place else FOLDED, fold)
    cdef View view = view_of(filters, whole.bound, &whole.src, &whole.dst)
    cdef View rest = view_of(whole.filters, whole.bound, &whole.src, &whole.dst)
    cdef int64_t outputs = whole.dst.size[3] // fold * fold
    view.dst.size[3] //= fold
    view.dst.steps[3] *= fold
    view.dst.size[4] *= fold
    if fold > 1:
        view.bound = repeated_bound(view.bound, whole.dst.size[4], fold)
    if in_place:
        view.src.size[3] = outputs
        rest.src.data += outputs * rest.src.steps[3]
        rest.src.size[3] -= outputs
    else:
        skip_lines(view, &whole.filters.window)
        rest.src.shift += outputs * rest.filters.window.stride[2]
        if not fits(view, flip):
            return [whole]
    rest.dst.data += outputs * rest.dst.steps[3]
    rest.dst.size[3] -= outputs
    return [view, rest] if rest.dst.size[3] else [view]


cdef int skip_lines(View view, const i8_image *window) except -1:
    """Leave out lines of the image that no window reads."""
    cdef int64_t stride = window.stride[1]
    if skips_lines(window):
        view.src.size[2] = ceil_div(view.src.size[2], stride)
        view.src.steps[2] *= stride
    return 0


cdef list apart(View whole, uint8_t flip):
    """Return a view for each remainder of columns modulo the dilation. If no kernel takes the views of remainders,
    return the whole view."""
    cdef const i8_image *window = &whole.filters.window
    cdef int64_t dilation = window.dilation[2], stride = window.stride[2], first, x, at, gap
    cdef Filters filters = variant_of(whole.filters, APART)
    cdef View view
    cdef list views = []
    gap = filters.window.stride[2] * dilation // stride  # from one output of a view to its next
    for first in range(min(gap, whole.dst.size[3])):
        view = view_of(filters, whole.bound, &whole.src, &whole.dst)
        x = first * stride - window.before[2] + whole.src.shift
        at = x % dilation if x >= 0 else (dilation - -x % dilation) % dilation
        view.src.data += at * view.src.steps[3]
        view.src.size[3] = max(<int64_t>0, ceil_div(view.src.size[3] - at, dilation))
        view.src.steps[3] *= dilation
        view.src.shift = (x - at) // dilation
        view.dst.data += first * view.dst.steps[3]
        view.dst.size[3] = ceil_div(view.dst.size[3] - first, gap)
        view.dst.steps[3] *= gap
        skip_lines(view, window)
        if not fits(view, flip):
            return [whole]
        views.append(view)
    return views


cdef bint pays_to_merge(DepthwiseFilters f) noexcept:
    """Return whether products of merged groups are faster than the depthwise kernel, which needs a copy of the image
    with a byte for each filter. The unit of time is half a multiply-add of a vector. Copying a byte takes 3 units, and
    a multiply-add of a short product takes 4 units."""
    cdef i8_image window = f.window
    cdef int64_t merged = I8_PANEL // f.multiplier, lines
    while merged > 1 and f.groups % merged:
        merged -= 1
    lines = ceil_div(window.kernel[1] + (f.together - 1) * window.stride[1], f.together)
    window.channels = max(<int64_t>1, merged)
    return (4 * steps_of(&window, f.multiplier * window.channels, 1, window.kernel[2], False)
            * (f.groups // window.channels) < 3 * f.channels * (window.kernel[0] * lines * window.stride[2] + 1))


cdef list views_of(Filters filters, Bound bound, const Images *src, const Images *dst, uint8_t flip):
    """Return the views that together compute a destination from a source, or None if the filters themselves compute
    the destination."""
    cdef Filters given = filters
    cdef i8_image *window = &filters.window
    cdef Images source = src[0], part = dst[0]
    cdef int64_t fold = 0
    cdef bint flat = False, folds
    if window.channels == 0 or dst.size[4] == 0 or is_empty(dst):
        return None
    if isinstance(filters, GroupFilters):
        pass
    elif isinstance(filters, DepthwiseFilters):
        if filters.outputs == 1 or filters.zeros is not None or not pays_to_merge(filters):
            return None
        filters = variant_of(filters, MERGED)
    elif src.size[3] == 1 and dst.size[3] == 1 and window.kernel[1] > 1 and window.kernel[2] == 1 and not (
            window.before[2]):
        filters = variant_of(filters, TURNED)
        swap_sizes(&source)
        swap_sizes(&part)
    elif not filters.saturating and filters.zeros is None and is_grouped(filters):
        filters = variant_of(filters, GROUPED)
    window = &filters.window
    if isinstance(filters, GroupFilters):
        fold = grouped_fold(filters, &part) if filters.zeros is None and takes_folded(filters, bound, &part) else 0
    elif not filters.saturating and filters.zeros is None:
        # Images that are one pixel wide may have any steps along w.
        source.steps[3] = pixel_step(source.size, source.steps)
        part.steps[3] = pixel_step(part.size, part.steps)
        folds = filters.groups == 1 and takes_folded(filters, bound, &part)
        if folds and is_pixel(window):
            folds = flat = flatten(window, &source, &part) and not (
                part.size[0] == part.size[1] == part.size[2] == 1
                and filters.packed._k > FOLDED_DOT_K and is_dot_k(filters.packed._k, filters.outputs))
        fold = fold_of(filters, &part, flat, folds)
    if fold > 0:
        return folded(view_of(filters, bound, &source, &part), fold, flat, flip)
    if fold < 0 and not bound.reads_pixels():
        return apart(view_of(filters, bound, &source, &part), flip)
    return None if filters is given else [view_of(filters, bound, &source, &part)]


cdef void swap_sizes(Images *images) noexcept:
    """Swap height and width of images."""
    images.size[2], images.size[3] = images.size[3], images.size[2]
    images.steps[2], images.steps[3] = images.steps[3], images.steps[2]


cdef int add_views(list views, Filters filters, Bound bound, const Images *src, const Images *dst,
                   uint8_t flip) except -1:
    """Append the views of `views_of` to `views`, or one view of the whole destination."""
    cdef list found = views_of(filters, bound, src, dst, flip)
    if found is None:
        views.append(view_of(filters, bound, src, dst))
    else:
        views.extend(found)
    return 0
