"""Random convolutions and deconvolutions for the tests, and layouts of images in memory."""

import math

import numpy as np
import reference_convolution
from arrays import heap, random_values, with_strides
from layers import Problem, random_bias, random_old, random_quantization

from int8blas import Sum

# Layouts by the number of spatial dimensions; the first is the default.
LAYOUTS = {1: ("nwc", "ncw"), 2: ("nhwc", "nchw"), 3: ("ndhwc", "ncdhw")}

# Layouts of an image in memory: by dimension, the step from one element to the next and a gap in elements after the
# last one. Dimension -1 is the innermost one, unless the order is Fortran's.
IMAGES = {
    "contiguous": {},
    "Fortran order": {},
    "channel slice": {"gap": {-1: 3}},
    "cropped": {"gap": {-2: 5, -3: 2}},
    "channel slice, cropped": {"gap": {-1: 1, -2: 5}},
    "every other channel": {"step": {-1: 2}},
    "every other pixel": {"step": {-2: 2, -3: 2}},
    "channels reversed": {"step": {-1: -1}},
    "mirrored": {"step": {-2: -1}},
    "all reversed": {"step": {-1: -1, -2: -1, -3: -1, -4: -1}},
    "every other, reversed": {"step": {-1: -2, -2: -3}},
}

# Layouts whose elements share memory: sources can have them, destinations cannot.
BROADCASTS = {
    "one channel": {"step": {-1: 0}},
    "one pixel": {"step": {-2: 0, -3: 0}},
    "one value": {"step": {-1: 0, -2: 0, -3: 0, -4: 0}},
}


def place_image(values, name, allocate=heap, misalign=0):
    """An array with these values and this layout in memory, in exactly the bytes it spans, as :func:`arrays.place`."""
    layout = {**IMAGES, **BROADCASTS}[name]
    steps, gaps = layout.get("step", {}), layout.get("gap", {})
    strides, unit = [0] * values.ndim, 1
    for axis in range(values.ndim) if name == "Fortran order" else reversed(range(values.ndim)):
        step = steps.get(axis - values.ndim, 1)
        strides[axis] = unit * step
        unit *= values.shape[axis] * max(abs(step), 1)
        unit += gaps.get(axis - values.ndim, 0)
    return with_strides(values, strides, allocate, misalign)


class Convolution(Problem):
    """A convolution with all its arguments."""

    primitive = "Convolution"
    oracle = staticmethod(reference_convolution.convolution)

    def dst_shape(self):
        geometry = {name: value for name, value in self.geometry.items() if name not in ("groups", "layout")}
        first, spatial = self.geometry["layout"].startswith("nc"), self.src.ndim - 2
        sizes = self.src.shape[2:] if first else self.src.shape[1:-1]
        out = reference_convolution.out_sizes(sizes, self.weights.shape[-spatial:], **geometry)
        channels = math.prod(self.weights.shape[: -1 - spatial])
        return (len(self.src), channels, *out) if first else (len(self.src), *out, channels)

    def masks(self, values):
        grouped = {"weights": 3} if np.ndim(self.weights) > np.ndim(self.src) else {}
        return {tensor: grouped.get(tensor, mask) if mask else 0 for tensor, mask in super().masks(values).items()}


class Deconvolution(Convolution):
    """A deconvolution with all its arguments."""

    primitive = "Deconvolution"


def random_convolution(
    rng,
    size,
    kernel,
    ic,
    oc,
    *,
    n=1,
    groups=1,
    grouped=False,
    layout=None,
    transposed=False,
    src_dtype=np.uint8,
    weights_dtype=np.int8,
    dst_dtype=np.int8,
    bias="f32",
    scales=("weights", "dst"),
    zero_points=("src", "dst"),
    vectors=("weights",),
    kind="full",
    ops=(),
    numerics="exact",
    **geometry,
):
    """A convolution, or, if `transposed`, a deconvolution.

    `ic` and `oc` count the channels of all groups, `grouped` weights have a dimension for groups, `geometry` is
    strides, padding, dilation and output_padding; for `scales`, `zero_points` and `vectors` see
    `layers.random_quantization`.
    """
    geometry = {"strides": 1, "padding": 0, "dilation": 1} | geometry
    if transposed:
        geometry = {"output_padding": 0} | geometry
    out = reference_convolution.out_sizes(size, kernel, **geometry)
    assert min(out) > 0, "the kernel must fit into the source"
    layout = layout or LAYOUTS[len(size)][0]
    first = layout.startswith("nc")
    src_shape, dst_shape = ((n, c, *sizes) if first else (n, *sizes, c) for c, sizes in ((ic, size), (oc, out)))
    weights_shape = (groups, oc // groups) if grouped else (oc,)
    return (Deconvolution if transposed else Convolution)(
        random_values(rng, src_dtype, src_shape, kind),
        random_values(rng, weights_dtype, (*weights_shape, ic // groups, *kernel), kind),
        random_bias(rng, bias, oc),
        dst_dtype,
        *random_quantization(
            rng,
            {"weights": oc, "dst": oc},
            {"src": src_dtype, "weights": weights_dtype, "dst": dst_dtype},
            ic // groups * math.prod(kernel),
            scales,
            zero_points,
            vectors,
        ),
        ops=tuple(ops),
        old=random_old(rng, dst_dtype, dst_shape) if any(isinstance(op, Sum) for op in ops) else None,
        numerics=numerics,
        geometry={**geometry, "groups": groups, "layout": layout},
    )
