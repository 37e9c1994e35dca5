"""Deconvolution, the transposed convolution, on the GEMM::

    dst[n, oc, o] = post_ops(scale_src * scale_weights[oc] * sum + bias[oc]) / scale_dst + zp_dst
    sum = sum over ic and all i, k with i * stride + k * dilation - before = o
          of (src[n, ic, i] - zp_src) * (weights[oc, ic, k] - zp_weights[oc])

There are 1 to 3 spatial dimensions. All outputs o for which o + before has the same remainder modulo the stride use the
same elements k of the kernel. The outputs with one remainder form a phase, which is a convolution without strides.
Phases insert and multiply no zeros. If a stride is larger than the kernel, no phase computes the outputs between the
phases, whose sums are empty.

If neighbouring phases of a line have equal windows, one convolution computes these phases. The output channels of this
convolution are the channels of several neighbouring outputs. With few output channels, one convolution computes all
phases of a line, and its window is the union of the phases' windows. Taps outside of an output's own window have
weights of 0. If the last period of a line is incomplete, the layer computes whole periods in another array, and copies
the outputs that exist.

Outputs with empty sums are equal, unless a post-op reads a value for each output. The layer computes one pixel for the
outputs with empty sums, and copies this pixel.
"""

from itertools import product
from math import gcd, prod
from sys import maxsize

from libc.stdint cimport int64_t
from libc.string cimport memcpy
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.convolution.filters cimport Filling, Filters, Images, fill_lines, is_empty, set_images
from int8blas.convolution.layer cimport ConvolutionLayer, Phase, Values
from int8blas.convolution.views cimport takes_folded
from int8blas.core.file import register
from int8blas.core.kernels cimport I8_DOT2, I8_GROUP, I8_PANEL, current_kernels
from int8blas.core.memory cimport acquire, release
from int8blas.core.results cimport empty_of
from int8blas.core.spatial import halves, per_dimension
from int8blas.core.split cimport ceil_div
from int8blas.core.threads cimport KEEPS_GIL_BYTES, THREAD_BYTES, run_work
from int8blas.stage.output_stage cimport Bound

cnp.import_array()

cdef enum:
    # The maximum number of output channels of a convolution that computes all phases of a line, and the multiply-adds
    # of a vector that take as long as storing the pixels of one phase apart from each other, with VNNI and without it.
    # 132 x 132 pixels from 27 to 6 channels (kernel 3, stride 3, padding 1) take 2520 us phase by phase and 870 us
    # together (AVX512-VNNI, Intel), 3770 us and 2190 us (AVX2).
    FOLDED_CHANNELS = 48
    APART_STEPS = 48
    APART_STEPS_OF_PAIRS = 6
    # The bytes of the repeated pixel that are copied at once. The repeated pixel stays in the L1 cache.
    PATTERN_BYTES = 1024


def _phases(kernel, stride, dilation, before):
    """Return a tuple for each phase of one dimension: the phase's first output, its taps in the order of the source,
    the distance between neighbouring taps in the source, and the padding before the source."""
    taps = {}
    for k in range(kernel)[::-1]:
        taps.setdefault((k * dilation - before) % stride, []).append(k)
    gap = dilation // gcd(stride, dilation)
    return [(first, taps[first], gap, -((first + before - taps[first][0] * dilation) // stride))
            for first in sorted(taps)]


cdef tuple union_of(list phases):
    """Return the padding before the union of the windows of some phases of a line, and the union's width."""
    left = max([before for *_, before in phases])
    return left, left + max([len(taps) - before for _, taps, _, before in phases])


cdef class Deconvolution(ConvolutionLayer):
    """A quantized deconvolution (transposed convolution), which is created once and executed many times.

    Parameters
    ----------
    weights : array_like of int8, uint8 or float32
        The shape is (oc, ic / groups, kh, kw) or (groups, oc / groups, ic / groups, kh, kw), with one, two or three
        spatial dimensions. float32 weights are quantized like the weights of :class:`Convolution`.
    bias
        As for :class:`Convolution`.
    strides : int or sequence of int, optional
        The step in the destination between the windows of neighbouring source elements, for all spatial dimensions or
        for each.
    padding : int, sequence or str, optional
        Elements of the destination that are cropped on both sides of all spatial dimensions, or for each dimension an
        integer or a pair (before, after). "same" and "same_lower" leave ``size * stride`` elements. As with ONNX's
        `auto_pad`, if the number of cropped elements is odd, "same" crops one more at the end, and "same_lower" at the
        start. "valid" crops no element.
    output_padding : int or sequence of int, optional
        Additional elements at the end of the destination, for all spatial dimensions or for each.
    dilation : int or sequence of int, optional
        The step in the destination from one element of the kernel to the next; 1 means no dilation.
    groups, layout, src_dtype, dst_dtype, attributes, scales, zero_points, dynamic, dynamic_dtype, numerics
        As for :class:`Convolution`.

    Attributes
    ----------
    strides, dilation, padding, output_padding : tuple
        One element for each spatial dimension; `padding` has pairs.
    weights_shape, layout, groups, src_dtype, dst_dtype, attributes, scales, zero_points, bias
        As for :class:`Convolution`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. The error names the argument.

    Notes
    -----
    In each spatial dimension the destination has (size - 1) * stride + dilation * (kernel - 1) + 1 - before - after +
    output_padding elements. Formula and weights follow oneDNN's deconvolution. Results are computed as in
    :class:`InnerProduct`.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> layer = int8blas.Deconvolution(np.ones((1, 1, 2, 2), np.int8), strides=2, src_dtype=np.uint8,
    ...                                dst_dtype=np.uint8)
    >>> layer(np.array([[1, 2]], np.uint8).reshape(1, 1, 2, 1))[0, :, :, 0]
    array([[1, 1, 2, 2],
           [1, 1, 2, 2]], dtype=uint8)
    """

    cdef readonly tuple output_padding
    cdef object _output_padding
    cdef list _dimensions       # phases of each dimension
    cdef double _more_steps     # see more_steps
    cdef Filters _nothing       # filters for outputs that no tap reaches, or None
    cdef dict _folded           # {outputs in the last, incomplete period of a line: phases with folded outputs}

    def __init__(self, weights, bias=None, *, strides=1, padding=0, output_padding=0, dilation=1, groups=1, layout=None,
                 src_dtype, dst_dtype, attributes=None, scales=None, zero_points=None, dynamic=None,
                 dynamic_dtype="int8", numerics="exact"):
        """Create the layer; the docstring of the class has the parameters."""
        self._output_padding, self._folded = output_padding, {}
        ConvolutionLayer.__init__(
            self, weights, bias, strides=strides, padding=padding, dilation=dilation, groups=groups, layout=layout,
            src_dtype=src_dtype, dst_dtype=dst_dtype, attributes=attributes, scales=scales, zero_points=zero_points,
            dynamic=dynamic, dynamic_dtype=dynamic_dtype, numerics=numerics)

    cdef object padding_from(self, padding):
        self.output_padding = per_dimension(self._output_padding, self._spatial, "output_padding", 0)
        if not isinstance(padding, str):
            return padding
        totals = [dilation * (kernel - 1) + 1 + extra - stride for dilation, kernel, extra, stride in zip(
            self.dilation, self._kernel, self.output_padding, self.strides)]
        if min(totals) < 0:
            raise ValueError(f"output_padding must be at least {-min(totals)} more for padding {padding!r}, where the "
                             f"strides {self.strides} are larger than the windows, got {self.output_padding}")
        return tuple([halves(total, padding) for total in totals])

    cdef tuple packed_of(self, weights):
        reached = [{first for first, *_ in phases} for phases in self.find_phases()]
        if len(weights.packed) != prod(self.strides):
            return weights.of(prod(map(len, reached)))
        # Files of version 0.2 have a matrix for each remainder, even if the remainder has no taps.
        return tuple([packed for remainders, packed in zip(product(*map(range, self.strides)), weights.packed)
                      if all(map(set.__contains__, reached, remainders))])

    cdef list find_phases(self):
        if self._dimensions is None:
            self._dimensions = [
                _phases(kernel, stride, dilation, before)
                for kernel, stride, dilation, (before, _) in zip(
                    self._kernel, self.strides, self.dilation, self.padding)
            ]
            self._more_steps = self.more_steps()
        return self._dimensions

    cdef list make_phases(self, tuple shape, bias):
        cdef list phases = []
        for phase in product(*self.find_phases()):
            first, taps, gaps, before = zip(*phase)
            filters = self.make_filters(shape[:3] + tuple(map(len, taps)), (1,) * self._spatial, gaps, before, bias,
                                        True)
            phases.append(self.phase_of(filters, taps, first, self.strides))
        if len(phases) < prod(self.strides):
            # For the outputs that no tap reaches, the filters have one tap and one channel. This tap adds 0, because
            # its weight is 0 or the zero point of the weights.
            self._nothing = Filters((1, shape[0] * shape[1]) + (1,) * 4, (1,) * 3, (1,) * 3, (0,) * 3, self._saturating,
                                    False, True)
            self._nothing.set_zeros(self._zeros)
            self._nothing.pack_weights(None)
        return phases

    cdef Phase phase_of(self, Filters filters, taps, tuple first, tuple steps):
        absent = 3 - self._spatial
        return Phase(filters, taps, (0,) * absent + first, (1,) * absent + steps, filters is not self._nothing)

    cdef bint is_one_period(self):
        """Return whether one convolution computes all phases of a line, if the line has only whole periods. The
        convolution multiplies zeros, but stores the pixels of a line side by side."""
        cdef int most = APART_STEPS_OF_PAIRS if current_kernels().gemm.exact == I8_DOT2 else APART_STEPS
        return (self._nothing is None and len(self._dimensions[-1]) * self._shape[1] <= FOLDED_CHANNELS
                and self.dilation[self._spatial - 1] == 1 and self._more_steps <= most)

    cdef double more_steps(self):
        """Estimate how many multiply-adds of a vector one convolution of all phases of a line needs in addition to the
        convolutions of single phases, for each output and phase."""
        cdef list inner = self._dimensions[-1]
        cdef int64_t count = len(inner), columns = self._shape[1], apart = 0, width
        cdef double steps = self._shape[2]
        cdef int d
        for _, taps, _, _ in inner:
            apart += len(taps)
        for d in range(self._spatial - 1):
            steps = steps * <int64_t>self._kernel[d] / <int64_t>self.strides[d]
        width = union_of(inner)[1]
        width = ceil_div(count * columns, I8_PANEL) * width - ceil_div(columns, I8_PANEL) * apart
        return steps * width / (count * I8_GROUP)

    cdef bint folds(self, const Images *whole, Bound bound):
        """Return whether one convolution may compute several phases of a line."""
        cdef Phase one = self._phases[0]
        return (len(self._dimensions[-1]) > 1 and self.groups == 1 and one.filters.window.channels > 0
                and whole.size[4] > 0 and self._zeros is None and not self._saturating
                and takes_folded(one.filters, bound, whole))

    cdef int execute(self, cnp.ndarray x, cnp.ndarray target, Bound bound, Values values, int64_t first,
                     int64_t count, bint keeps) except -1:
        cdef Images whole
        cdef int64_t stride = self.strides[self._spatial - 1], missing
        cdef object last, wider
        if not bound.far and not self._wide and not self._layer.has_sum and self.is_one_period():
            set_images(&whole, target, self._channels_last)
            missing = (stride - whole.size[3] % stride) % stride
            if missing > 0 and self.folds(&whole, bound):
                last = target if self._channels_last else np.moveaxis(target, 1, -1)
                wider = empty_of((count, *last.shape[1:-2], whole.size[3] + missing, whole.size[4]),
                                 cnp.PyArray_TYPE(target))
                x = x[first:first + count]
                ConvolutionLayer.execute(
                    self, x, wider if self._channels_last else np.moveaxis(wider, -1, 1), bound, values, 0, count, False
                )
                last[first:first + count] = wider[..., :whole.size[3], :]
                return 0
        return ConvolutionLayer.execute(self, x, target, bound, values, first, count, keeps)

    cdef list neighbours(self, int64_t rest):
        """Return the ranges of phases of a line that one convolution computes. A line of the destination has `rest`
        outputs in its last, incomplete period."""
        inner, ranges, previous = self._dimensions[-1], [], None
        if rest == 0 and self.is_one_period():
            return [(0, len(inner))]
        for r, (first, taps, gap, before) in enumerate(inner):
            # Phases from `rest` on have one output less than earlier phases.
            if previous == (first - 1, len(taps), gap, before) and first != rest:
                ranges[-1] = (ranges[-1][0], r + 1)
            else:
                ranges.append((r, r + 1))
            previous = first, len(taps), gap, before
        return ranges

    cdef list fold_phases(self, int64_t rest):
        """Merge phases that compute neighbouring outputs of a line, and return all phases."""
        cdef Phase phase
        cdef list folded = []
        *outer, inner = self._dimensions
        for (i, others), (start, end) in product(enumerate(product(*outer)), self.neighbours(rest)):
            phases = self._phases[i * len(inner) + start:i * len(inner) + end]
            phase, fold = phases[0], end - start
            if fold > 1:
                left, width = union_of(inner[start:end])
                banded = np.zeros((1, fold, *phase.filters.unpacked().shape[1:-1], width), np.int8)
                for r, (_, taps, _, before) in enumerate(inner[start:end]):
                    phase = phases[r]
                    banded[:, r, ..., left - before:left - before + len(taps)] = phase.filters.unpacked()
                first, taps, gaps, before = zip(*others, inner[start])
                shape = (1, fold * self._shape[1], self._shape[2], *map(len, taps[:-1]), width)
                filters = self.make_filters(shape, (1,) * self._spatial, gaps, (*before[:-1], left), None, True)
                filters.pack_weights(banded)
                phase = self.phase_of(filters, None, first, self.strides)
                phase.fold = fold
            folded.append(phase)
        return folded

    cdef bint fills(self, Bound bound) except -1:
        return self._nothing is not None and not self._layer.has_sum and not bound.reads_pixels()

    cdef int fill_rest(self, const Images *source, const Images *whole, Bound bound) except -1:
        cdef Filling j
        cdef Images pixel = whole[0], src
        cdef Phase phase = self.phase_of(self._nothing, None, (0,) * self._spatial, (1,) * self._spatial)
        cdef cnp.ndarray firsts
        cdef int64_t itemsize = self.dst_dtype.itemsize, block, i
        cdef bint joined = whole.steps[4] == itemsize
        cdef int d
        cdef list owners = []
        if is_empty(whole) or whole.size[4] == 0:
            return 0
        j.dst = whole[0]
        j.blocks, j.bytes = 1 if joined else whole.size[4], itemsize * (whole.size[4] if joined else 1)
        j.repeats = max(<int64_t>1, min(whole.size[3], PATTERN_BYTES // j.bytes))
        found = [[0]] * (3 - self._spatial) + [[first for first, *_ in phases] for phases in self._dimensions]
        for d in range(3):
            firsts = np.array(found[d], np.int64)
            owners.append(firsts)
            j.reached[d], j.firsts[d] = cnp.PyArray_DIM(firsts, 0), <const int64_t *>cnp.PyArray_DATA(firsts)
            j.strides[d] = 1 if d < 3 - self._spatial else self.strides[d - 3 + self._spatial]
        j.pattern = <char *>acquire(j.blocks * j.repeats * j.bytes)
        if j.pattern is NULL:
            raise MemoryError(f"{self._name}: no memory for the workspace")
        try:
            pixel.data = j.pattern
            for d in range(4):
                pixel.size[d], pixel.steps[d] = 1, whole.size[4] * itemsize
            pixel.steps[4] = itemsize if joined else j.repeats * itemsize
            src = phase.source_of(source, &pixel)
            self._nothing.run(bound, &src, &pixel, self._flip, False, self._name)
            for block in range(j.blocks):
                for i in range(1, j.repeats):
                    memcpy(j.pattern + (block * j.repeats + i) * j.bytes, j.pattern + block * j.repeats * j.bytes,
                           j.bytes)
            run_work(fill_lines, &j, whole.size[0] * whole.size[1] * whole.size[2],
                     <double>whole.size[0] * whole.size[1] * whole.size[2] * whole.size[3] * whole.size[4] * itemsize,
                     THREAD_BYTES, KEEPS_GIL_BYTES)
        finally:
            release(j.pattern)
        return 0

    cdef list phases_in(self, const Images *whole, Bound bound):
        """Return the phases with taps. If `fill_rest` does not compute the outputs that no tap reaches, phases for
        these outputs follow.

        A phase without taps belongs to a dimension d. Taps reach its outputs in all dimensions before d, but not in d.
        """
        cdef int64_t size, rest = whole.size[3] % <int64_t>self.strides[self._spatial - 1]
        cdef int d, behind
        cdef list phases = self._phases
        if self.folds(whole, bound):
            phases = self._folded.get(rest)
            if phases is None:
                phases = self._folded.setdefault(rest, self.fold_phases(rest))
        if self._nothing is None or self.fills(bound):
            return phases
        phases, reached = list(phases), [[first for first, *_ in found] for found in self._dimensions]
        for d in range(self._spatial):
            size, behind = whole.size[4 - self._spatial + d], self._spatial - d - 1
            others = sorted(set(range(min(size, <int64_t>self.strides[d]))).difference(reached[d]))
            steps = self.strides[:d + 1] + (1,) * behind
            phases.extend([self.phase_of(self._nothing, None, first + (0,) * behind, steps)
                           for first in product(*reached[:d], others)])
        return phases

    cdef int64_t output_size(self, int64_t size, int d) except -1:
        before, after = self.padding[d]
        whole = (size - 1) * self.strides[d] + self.dilation[d] * (self._kernel[d] - 1) + 1
        result = whole - before - after + self.output_padding[d]
        if size < 1 or result < 1:
            raise ValueError(f"src must have more elements in a spatial dimension, got {size}: the result would have "
                             f"{result}, with padding {before} + {after}")
        if result > maxsize:
            raise ValueError(f"src must have fewer elements in a spatial dimension, got {size}: the result would have "
                             f"{result}")
        return result

    cdef dict parameters(self):
        return {**ConvolutionLayer.parameters(self), "output_padding": self.output_padding}


register(Deconvolution)
