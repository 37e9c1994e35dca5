"""Convolution and Deconvolution have the bits of the documented formula, whatever the geometry, channels and types."""

import pickle
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
import reference
import reference_convolution
import reference_quantized
from arrays import random_values
from convolutions import LAYOUTS, random_convolution
from layers import DST_DTYPES, SRC_DTYPES, assert_same_bits, name_of
from scipy import signal

import int8blas
from int8blas import Attributes, Binary, Eltwise, PReLU, ReLU, Sum

# (size, kernel, strides, padding, dilation)
PLANES = (
    ((5, 6), (1, 1), 1, 0, 1),
    ((5, 6), (1, 1), (2, 3), 0, 1),
    ((5, 6), (1, 1), 1, [(1, 2), (3, 0)], 1),
    ((7, 5), (3, 3), 1, 1, 1),
    ((8, 9), (3, 3), 2, 1, 1),
    ((8, 9), (3, 3), 2, [(0, 1), (0, 1)], 1),
    ((9, 8), (3, 3), 1, 2, 2),
    ((9, 11), (3, 2), (1, 3), [(1, 0), (0, 3)], (3, 1)),
    ((6, 20), (1, 7), 1, [(0, 0), (3, 3)], 1),
    ((20, 4), (7, 1), (3, 1), [(3, 2), (0, 0)], 1),
    ((6, 6), (6, 6), 1, 0, 1),
    ((6, 6), (7, 5), 1, 3, 1),
    ((12, 12), (5, 5), 2, 2, 2),
    ((1, 1), (3, 3), 1, 1, 1),
    ((2, 40), (2, 2), 1, [(1, 0), (0, 1)], 1),
    ((2, 2), (3, 3), 3, 3, 3),
)
VOLUMES = (
    ((3, 4, 5), (1, 1, 1), 1, 0, 1),
    ((3, 4, 5), (2, 3, 3), 1, 1, 1),
    ((5, 4, 6), (3, 2, 1), (2, 1, 3), [(1, 0), (0, 2), 0], 1),
    ((6, 7, 5), (2, 3, 2), (1, 2, 1), [(3, 1), (0, 1), (1, 0)], (2, 1, 3)),
)
# Strides that are larger than the kernel: in a deconvolution, some outputs then have no products at all.
SPREAD = (
    ((4,), (2,), 5, 0, 1),
    ((3, 4), (1, 1), (2, 3), 0, 1),
    ((3, 2), (2, 1), (5, 4), [(3, 0), (0, 2)], (2, 1)),
    ((3, 4), (3, 2), (2, 7), [0, (9, 0)], 1),
    ((2, 1), (2, 2), (40, 3), [(37, 2), 0], 3),
    ((2, 3, 2), (1, 2, 1), (3, 3, 2), 0, 1),
)
# A few geometries with channels of source and destination and groups, for tests of many combinations.
FEW = (
    (((4, 5), (3, 3), 1, 1, 1), 3, 20, 1),
    (((5, 3), (1, 1), 1, 0, 1), 33, 5, 1),
    (((6, 5), (3, 2), 2, [(1, 0), (0, 2)], (1, 2)), 20, 6, 2),
    (((5, 9), (3, 3), 1, 1, 1), 18, 18, 18),
    (((4, 5), (3, 3), 1, 1, 1), 32, 32, 4),
    (((7,), (3,), 2, [(2, 1)], 1), 4, 17, 1),
    (((2, 3, 4), (2, 1, 2), 1, [(0, 1), 0, 1], 1), 5, 7, 1),
)
CHANNELS = (*range(1, 71), 128, 130)

every_primitive = pytest.mark.parametrize("transposed", [False, True], ids=["convolution", "deconvolution"])
every_dst = pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
every_src = pytest.mark.parametrize("src_dtype", SRC_DTYPES, ids=name_of)


def problem_of(rng, geometry, *channels, transposed=False, **keywords):
    """A random problem of one of the geometries above."""
    size, kernel, strides, padding, dilation = geometry
    if transposed:
        # In a deconvolution, a kernel may be larger than the source.
        padding = [(min(b, 1), min(a, 1)) for b, a in reference_convolution.before_and_after(padding, len(size))]
        if min(reference_convolution.out_sizes(size, kernel, strides, padding, dilation, 0)) < 1:
            padding = 0
    return random_convolution(
        rng, size, kernel, *channels, strides=strides, padding=padding, dilation=dilation, transposed=transposed,
        **keywords,
    )  # fmt: skip


def few(rng, **keywords):
    """The problems of FEW."""
    for geometry, ic, oc, groups in FEW:
        yield problem_of(rng, geometry, ic, oc, groups=groups, **keywords)


# --- geometry --------------------------------------------------------------------------------------------------------


@every_primitive
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_every_kernel_and_padding(isa, stride, dilation, transposed, rng):
    size, count = 9, 0
    for k, before, after in product(range(1, 8), range(4), range(4)):
        extra = {"output_padding": (before + k) % stride} if transposed else {}
        geometry = {"strides": stride, "padding": [(before, after)], "dilation": dilation} | extra
        if reference_convolution.out_sizes((size,), (k,), **geometry)[0] > 0:
            count += 1
            random_convolution(rng, (size,), (k,), 3, 5, transposed=transposed, **geometry).check()
    assert count > 60


@every_primitive
@pytest.mark.parametrize("geometry", [*PLANES, *VOLUMES], ids=str)
def test_planes_and_volumes_in_every_layout(isa, geometry, transposed, rng):
    for layout, (ic, oc, groups) in product(LAYOUTS[len(geometry[0])], ((3, 5, 1), (16, 18, 1), (6, 4, 2))):
        for src_dtype, dst_dtype in ((np.uint8, np.int8), (np.int8, np.float32)):
            problem_of(
                rng, geometry, ic, oc, transposed=transposed, n=2, groups=groups, layout=layout, src_dtype=src_dtype,
                dst_dtype=dst_dtype,
            ).check()  # fmt: skip


@every_primitive
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_one_value_stands_for_all_dimensions(isa, spatial, transposed, rng):
    size, kernel = (6, 5, 4)[:spatial], (3, 2, 3)[:spatial]
    few = {"strides": 2, "padding": 1, "dilation": 1}
    every = {"strides": [2] * spatial, "padding": [1] * spatial, "dilation": [1] * spatial}
    pairs = {"strides": (2,) * spatial, "padding": ((1, 1),) * spatial, "dilation": (1,) * spatial}
    problem = random_convolution(rng, size, kernel, 3, 4, transposed=transposed, **few)
    expected = problem.expected()
    for values in (few, every, pairs):
        assert_same_bits(problem.but(geometry=problem.geometry | values).result(), expected)


def test_output_padding_adds_to_the_end(isa, rng):
    for extra, stride in product(range(3), (3, 4)):
        for output_padding in (extra, [extra, 0], (0, extra)):
            random_convolution(
                rng, (3, 4), (3, 2), 3, 5, strides=stride, padding=1, output_padding=output_padding, transposed=True
            ).check()


@pytest.mark.parametrize("oc", [*range(1, 17), 18, 24])
@pytest.mark.parametrize("stride", [2, 3])
def test_deconvolutions_to_few_channels(isa, stride, oc, rng):
    """With few channels, the outputs between two pixels of the source are computed together, whether or not the lines
    of the destination can be divided by the stride."""
    for number, (kernel, padding, extra) in enumerate(product((stride, stride + 1, 5), (0, 1), (0, 1))):
        for size in ((13,), (9, 13), (3, 4, 9)):
            random_convolution(
                rng, size, (kernel,) * len(size), 3 + number, oc, n=2, strides=stride, padding=padding,
                output_padding=extra, transposed=True, src_dtype=SRC_DTYPES[number % 2],
                dst_dtype=DST_DTYPES[(oc + number) % len(DST_DTYPES)], vectors=("weights", "dst"), ops=(ReLU(),),
            ).check()  # fmt: skip


@pytest.mark.parametrize("oc", [1, 2, 3, 5])
def test_windows_of_one_pixel_in_lines_with_gaps(isa, oc, rng):
    """Neighbouring outputs of a line are computed together, whether the lines are one line or have gaps."""
    for ic, width, dst_dtype in product((1, 3, 20, 70), (24, 25), (np.uint8, np.float32)):
        problem = random_convolution(rng, (12, width), (1, 1), ic, oc, n=2, dst_dtype=dst_dtype, vectors=("weights",))
        layer, expected = problem.layer(), problem.expected()
        src, out = (
            np.zeros((2, 12, width + 3, c), dtype)[:, :, 1:-2] for c, dtype in ((ic, np.uint8), (oc, dst_dtype))
        )
        src[...] = problem.src
        for given in (problem.src, src):
            assert_same_bits(layer(given), expected)
            out[...] = 0
            layer(given, out=out)
            assert_same_bits(np.ascontiguousarray(out), expected)


@pytest.mark.parametrize("depth", [2, 3])
def test_windows_of_several_planes_with_a_dilation_of_lines(isa, depth, rng):
    """The copy of the image has runs of lines of all planes side by side."""
    for number, (lines, dilation, stride, padding) in enumerate(product((2, 3), (2, 3), (1, 2, 3), (0, 3))):
        ic, oc, groups = ((3, 16, 1), (6, 5, 1), (33, 40, 1), (8, 40, 2))[number % 4]
        for columns in (1, 2):
            random_convolution(
                rng, (depth + 2, 11, 40), (depth, lines, 3), ic, oc, n=2, groups=groups, layout=LAYOUTS[3][number % 2],
                strides=(1, stride, 1 + number % 2), padding=padding, dilation=(1 + number % 2, dilation, columns),
                src_dtype=SRC_DTYPES[number % 2], dst_dtype=DST_DTYPES[number % len(DST_DTYPES)],
            ).check()  # fmt: skip
    random_convolution(rng, (depth, 150, 90), (depth, 3, 3), 40, 16, dilation=(1, 2, 2), padding=(0, 2, 2)).check()
    layer = random_convolution(rng, (depth, 20, 20), (depth, 2, 2), 3, 16, dilation=2 if depth == 1 else (1, 2, 2))
    assert int8blas.explain(layer.src, layer.layer()).path == "lines"


@pytest.mark.parametrize("geometry", SPREAD, ids=str)
def test_outputs_that_no_element_of_the_kernel_reaches(isa, geometry, rng):
    size, kernel, strides, padding, dilation = geometry
    for layout, (ic, oc, groups) in product(LAYOUTS[len(size)], ((3, 5, 1), (20, 18, 1), (18, 18, 18), (32, 32, 4))):
        for src_dtype, weights_dtype, dst_dtype in ((np.uint8, np.int8, np.int8), (np.int8, np.uint8, np.float32)):
            problem = random_convolution(
                rng, size, kernel, ic, oc, n=2, groups=groups, layout=layout, strides=strides, padding=padding,
                dilation=dilation, src_dtype=src_dtype, weights_dtype=weights_dtype, dst_dtype=dst_dtype,
                zero_points=("src", "weights", "dst"), transposed=True, ops=[Sum(0.5)],
            )  # fmt: skip
            problem.check()
            pixels = rng.normal(0, 9, problem.expected().shape).astype(np.float32)
            problem.but(ops=(Sum(0.25), Binary(pixels, "add"))).check()
            channels = pixels.reshape(-1)[: pixels.shape[layout.index("c")]].reshape(
                [-1 if c == "c" else 1 for c in layout]
            )
            problem.but(ops=(ReLU(), Binary(channels, "mul")), old=None).check()
            problem = problem.but(ops=(), old=None)
            layer, expected = problem.layer(), problem.expected()
            wide = np.zeros([2 * length for length in expected.shape], dst_dtype)
            for out in (wide[(slice(None, None, 2),) * wide.ndim], wide[(slice(None, None, -2),) * wide.ndim],
                        np.zeros(expected.shape[::-1], dst_dtype).T):  # fmt: skip
                layer(problem.src, out=out)
                assert_same_bits(np.ascontiguousarray(out), expected)


@pytest.mark.parametrize("oc", [6, 17, 64])
def test_neighbouring_outputs_with_equal_windows(isa, oc, rng):
    """One product computes them, however many channels they have; the last outputs of a line may be cropped."""
    for number, (stride, kernel, dilation, padding, extra) in enumerate(
        product((3, 5), (2, 3, 6), (1, 2), (0, (1, 3), (2, 0)), (0, 1))
    ):
        padding = [padding] * (1 + number % 2)
        random_convolution(
            rng, (3, 7)[-len(padding):], (kernel,) * len(padding), 4 + number % 5, oc, n=2, strides=stride,
            dilation=dilation, padding=padding, output_padding=extra, transposed=True,
            src_dtype=SRC_DTYPES[number % 2], dst_dtype=DST_DTYPES[number % len(DST_DTYPES)],
            zero_points=("src", "dst"), vectors=("weights", "dst"), ops=(ReLU(),),
        ).check()  # fmt: skip


@pytest.mark.parametrize("geometry", SPREAD, ids=str)
def test_packed_weights_of_a_file_may_have_a_matrix_for_each_remainder(geometry, rng):
    """Files of version 0.2 contain such weights where a stride is larger than the kernel."""
    size, kernel, strides, padding, dilation = geometry
    problem = random_convolution(
        rng, size, kernel, 3, 5, strides=strides, padding=padding, dilation=dilation, transposed=True
    )
    layer, expected = problem.layer(), problem.expected()
    make, (weights, bias) = layer.__reduce__()
    reached, nothing = list(weights.packed), weights.packed[0]
    taps = [[(k * d - before) % s for k in range(size)] for size, d, s, (before, _) in zip(
        kernel, layer.dilation, layer.strides, layer.padding, strict=True)]  # fmt: skip
    older = [
        reached.pop(0) if all(map(list.__contains__, taps, remainders)) else nothing
        for remainders in product(*map(range, layer.strides))
    ]
    assert not reached
    assert_same_bits(problem.run(make(replace(weights, packed=tuple(older)), bias)), expected)
    for count in (len(older) - 1, len(weights.packed) - 1):
        with pytest.raises(ValueError, match=r"weights .* packed"):
            make(replace(weights, packed=tuple(older[:count])), bias)


def test_strides_of_billions():
    bias, types = np.array([7], np.int32), {"src_dtype": "u1", "dst_dtype": "i4"}
    layer = int8blas.Deconvolution(np.full((1, 1, 3, 2), 2, np.int8), bias, strides=2**31 - 1, **types)
    assert (layer(np.full((1, 1, 1, 1), 3, np.uint8)) == 13).all()
    narrow = int8blas.Deconvolution(
        np.full((1, 1, 1), 2, np.int8), bias, strides=2**31 - 1, padding=[(2**31 - 3, 2)], output_padding=5, **types
    )
    assert narrow(np.full((1, 2, 1), 3, np.uint8)).ravel().tolist() == [7, 7, 13, 7, 7, 7]


@every_primitive
@pytest.mark.parametrize("name", ["same", "same_lower", "valid"])
def test_padding_by_name(isa, name, transposed, rng):
    """One layer for sources of several sizes, on every path; with strides, the padding by name depends on the size."""
    for strides, dilation, kernel, (ic, oc, groups) in product(
        (1, 2, (3, 1)), (1, 2), ((3, 3), (2, 5)), ((3, 20, 1), (80, 5, 1), (18, 18, 18), (32, 32, 4))
    ):
        geometry = {"strides": strides, "dilation": dilation} | ({"output_padding": 1} if transposed else {})
        first = None
        for size in ((10, 9), (9, 12), (11, 11)):
            padding = 0
            if name != "valid":
                padding = reference_convolution.named_padding(name, size, kernel, **geometry)
            problem = random_convolution(
                rng, size, kernel, ic, oc, n=2, groups=groups, padding=padding, transposed=transposed, **geometry
            )  # fmt: skip
            if first is None:
                first = problem
                layer = problem.but(geometry=problem.geometry | {"padding": name.upper(), "layout": "NHWC"}).layer()
            expected = first.but(src=problem.src, geometry=problem.geometry).expected()
            assert_same_bits(layer(problem.src), expected, size=size, **problem.geometry)
            if name != "valid":
                whole = np.multiply(size, strides) if transposed else -(-np.array(size) // np.array(strides))
                assert expected.shape[1:3] == tuple(whole)
        assert layer.layout == "nhwc"
        same = pickle.loads(pickle.dumps(layer))
        assert same.padding == layer.padding
        assert_same_bits(same(problem.src), expected)


def test_padding_that_depends_on_the_source_is_kept_by_its_name():
    def layer(**geometry):
        return int8blas.Convolution(np.ones((1, 1, 3, 3), np.int8), src_dtype="u1", dst_dtype="i4", **geometry)

    assert layer(padding="SAME_UPPER").padding == ((1, 1), (1, 1))
    assert layer(padding="valid", strides=2).padding == ((0, 0), (0, 0))
    assert layer(padding="same", strides=2).padding == "same"
    assert layer(padding="same_lower", strides=(1, 2)).padding == "same_lower"


def test_a_deconvolution_by_strides_larger_than_its_windows_needs_output_padding():
    weights, types = np.ones((1, 1, 2, 2), np.int8), {"src_dtype": "u1", "dst_dtype": "i4"}
    with pytest.raises(ValueError, match=r"^output_padding must be at least 1 more for padding 'same'"):
        int8blas.Deconvolution(weights, strides=3, padding="same", **types)
    layer = int8blas.Deconvolution(weights, strides=3, padding="same", output_padding=1, **types)
    assert layer.padding == ((0, 0), (0, 0))
    assert layer(np.ones((1, 4, 5, 1), np.uint8)).shape == (1, 12, 15, 1)


# --- channels --------------------------------------------------------------------------------------------------------


@every_primitive
@pytest.mark.parametrize("layout", LAYOUTS[2])
def test_every_number_of_channels(isa, layout, transposed, rng):
    for channels, kernel in product(CHANNELS, ((1, 1), (3, 3))):
        pad = kernel[0] // 2
        for ic, oc in ((channels, 5), (3, channels)):
            random_convolution(
                rng, (3, 4), kernel, ic, oc, padding=pad, layout=layout, transposed=transposed, src_dtype=np.int8
            ).check()


@every_primitive
@pytest.mark.parametrize("grouped", [False, True])
def test_groups(isa, grouped, transposed, rng):
    sizes = ((2, 1, 1), (2, 3, 5), (3, 4, 2), (4, 8, 16), (2, 17, 15), (5, 16, 1), (2, 1, 33), (8, 5, 4), (2, 64, 48))
    # In some of these, windows share cache lines of the image.
    sizes += ((8, 16, 16), (6, 20, 5), (4, 32, 20))
    for (groups, ic, oc), layout in product(sizes, LAYOUTS[2]):
        for geometry in (((4, 5), (3, 3), 1, 1, 1), ((4, 5), (1, 1), 1, 0, 1), ((6, 7), (2, 3), 2, [(0, 1), 1], 2)):
            problem_of(
                rng, geometry, groups * ic, groups * oc, groups=groups, grouped=grouped, layout=layout,
                transposed=transposed,
            ).check()  # fmt: skip


@pytest.mark.parametrize(("channels", "kernel", "width"), [(260, (1, 3), 20), (260, (2, 3), 9), (256, (1, 33), 36)])
def test_padding_of_many_channels_is_left_out_by_taps(isa, channels, kernel, width, rng):
    """Padding is at the first or last windows of a tile, also for windows with more taps than the kernel
    distinguishes."""
    for src_dtype, after in product(SRC_DTYPES, (1, 0)):
        padding = [(kernel[0] - 1, 0), (min(kernel[1] - 1, 5), after)]
        random_convolution(
            rng, (2, width), kernel, channels, 5, padding=padding, src_dtype=src_dtype, zero_points=()
        ).check()  # fmt: skip


def test_taps_of_weights_that_are_in_no_near_cache(isa, rng):
    """The next weights are prefetched while the kernel multiplies a tile in parts."""
    random_convolution(rng, (1, 20), (1, 3), 260, 2900, padding=[(0, 0), (1, 1)], zero_points=()).check()


# Images of one column, which products take as one line, and images that are nearly so.
COLUMNS = (
    ((40, 1), (5, 1), {"padding": ((2, 1), (0, 0))}),
    ((40, 1), (5, 1), {"strides": (3, 1)}),
    ((40, 1), (3, 1), {"dilation": (2, 1)}),
    ((40, 1), (3, 2), {"padding": ((0, 0), (1, 0))}),
    ((40, 2), (3, 1), {"strides": (1, 2)}),
    ((6, 20, 1), (1, 3, 1), {"padding": ((1, 0), (0, 2), (0, 0)), "strides": (2, 1, 1)}),
    ((6, 20, 1), (2, 3, 1), {"strides": (1, 2, 1), "dilation": (2, 1, 1)}),
    ((20, 1, 1), (4, 1, 1), {"padding": ((3, 2), (0, 0), (0, 0))}),
)


@every_primitive
@pytest.mark.parametrize("geometry", COLUMNS, ids=str)
def test_images_of_one_column(isa, geometry, transposed, rng):
    size, kernel, more = geometry
    for (channels, groups), layout in product(((3, 1), (64, 1), (24, 2)), LAYOUTS[len(size)]):
        for zero_points in (("src", "dst"), ("src", "weights", "dst")):
            random_convolution(
                rng, size, kernel, channels, 20, n=2, groups=groups, layout=layout, transposed=transposed,
                zero_points=zero_points, **more,
            ).check()  # fmt: skip


def test_windows_of_which_no_line_of_outputs_fits_a_block(isa, rng):
    """The path gathers such windows instead of reading them in lines."""
    problem = random_convolution(rng, (2003, 10), (2, 3), 64, 5, dilation=(2000, 1))
    assert int8blas.explain(problem.src, problem.layer()).path == "blocks"
    problem.check()


@every_primitive
@pytest.mark.parametrize("multiplier", [1, 2, 3])
@pytest.mark.parametrize("layout", LAYOUTS[2])
def test_depthwise(isa, layout, multiplier, transposed, rng):
    for channels, (src_dtype, dst_dtype) in product(
        CHANNELS if multiplier == 1 else CHANNELS[::5], ((np.uint8, np.int8), (np.int8, np.float32))
    ):
        random_convolution(
            rng, (4, 5), (3, 3), channels, channels * multiplier, groups=channels, padding=1, layout=layout,
            strides=1 + channels % 2, src_dtype=src_dtype, dst_dtype=dst_dtype, transposed=transposed,
        ).check()  # fmt: skip


@every_primitive
def test_depthwise_bytes_in_half_a_vector(isa, transposed, rng):
    """Without a zero point, negative sums become 0. 32 channels fill half a vector."""
    for channels, dst_dtype, (src_dtype, strides) in product(
        (16, 32, 48, 64, 96), (np.uint8, np.int8), ((np.uint8, 1), (np.uint8, 2), (np.int8, 2))
    ):
        random_convolution(
            rng, (9, 11), (3, 3), channels, channels, groups=channels, src_dtype=src_dtype, dst_dtype=dst_dtype,
            zero_points=(), strides=strides, transposed=transposed,
        ).check()  # fmt: skip


@every_primitive
@pytest.mark.parametrize("geometry", [*PLANES, *VOLUMES], ids=str)
def test_depthwise_geometries(isa, geometry, transposed, rng):
    for channels, grouped in ((5, True), (19, False), (64, True)):
        problem_of(
            rng, geometry, channels, channels, groups=channels, grouped=grouped, n=2, transposed=transposed
        ).check()


@every_primitive
@pytest.mark.parametrize("strides", [1, 2, 3, (3, 1)])
@pytest.mark.parametrize("kernel", [(2, 3), (3, 3), (4, 2), (5, 5)])
@pytest.mark.parametrize("layout", LAYOUTS[2])
def test_depthwise_planes_larger_than_a_block(isa, layout, kernel, strides, transposed, rng):
    """Output lines start at even and odd lines; windows are whole groups of lines, and nothing lies next to them."""
    for channels, src_dtype, dst_dtype in (
        (16, np.uint8, np.uint8), (80, np.int8, np.int8), (32, np.uint8, np.float32), (37, np.int8, np.uint8)
    ):  # fmt: skip
        random_convolution(
            rng, (37, 53), kernel, channels, channels, groups=channels, padding=kernel[0] // 2, strides=strides,
            layout=layout, src_dtype=src_dtype, dst_dtype=dst_dtype, ops=(ReLU(),), transposed=transposed,
        ).check()  # fmt: skip


@every_primitive
@every_dst
def test_depthwise_pixels_that_spill_into_the_next_pixel(isa, dst_dtype, transposed, rng):
    """The channels fill part of one vector or of two vectors, alone or behind full vectors."""
    for channels, width in [*product(range(1, 67), (2, 9)), *product((15, 17, 23, 31), (67,))]:
        for ops in ((ReLU(),), (Sum(0.5), Binary(rng.normal(size=channels).astype(np.float32)))):
            random_convolution(
                rng, (3, width), (3, 3), channels, channels, groups=channels, padding=1, n=2, dst_dtype=dst_dtype,
                src_dtype=SRC_DTYPES[channels % 2], ops=ops, transposed=transposed,
            ).check()  # fmt: skip


@every_primitive
@pytest.mark.parametrize("images", [3, 5, 7])
@pytest.mark.parametrize("strides", [1, 2])
def test_depthwise_images_whose_lines_are_computed_together(isa, strides, images, transposed, rng):
    """Lines that share prepared weights begin in the middle of an image, and at its last line."""
    for channels, height in product((64, 128), (5, 7, 13)):
        problem = random_convolution(
            rng, (height, 6), (3, 3), channels, channels, groups=channels, padding=1, strides=strides, n=images,
            transposed=transposed,
        )  # fmt: skip
        with int8blas.num_threads(1):
            problem.check()


@every_primitive
@pytest.mark.parametrize("channels", [*range(2, 17), 32])
def test_depthwise_pixels_that_share_vectors(isa, channels, transposed, rng):
    """Lines are longer than a stretch, columns are in several runs, the stride skips columns, and lines share
    weights."""
    for size, kernel, geometry in (
        ((5, 2003), (3, 3), {"padding": 1}),
        ((6, 301), (2, 5), {"padding": (0, 7), "strides": (1, 2), "dilation": (1, 3)}),
        ((9, 31), (1, 1), {}),
        ((9, 31), (1, 2), {"strides": 3}),
        ((23, 7), (7, 3), {"padding": 3, "strides": (2, 1)}),
        ((3, 9, 11), (2, 3, 3), {"padding": 1, "dilation": (2, 2, 1)}),
    ):
        random_convolution(
            rng, size, kernel, channels, channels, groups=channels, n=2, src_dtype=SRC_DTYPES[channels % 2],
            dst_dtype=DST_DTYPES[channels % len(DST_DTYPES)], ops=(Sum(0.5), Eltwise("abs")) if channels % 3 else (),
            transposed=transposed, **geometry,
        ).check()  # fmt: skip


# Channels of the source and of the destination.
POINTWISE = ((1, 1), (2, 1), (3, 2), (2, 12), (5, 8), (18, 1), (11, 2), (4, 4), (6, 3), (40, 1), (3, 17), (13, 24))


@every_primitive
@every_dst
@every_src
def test_pointwise_filters_of_few_channels(isa, src_dtype, dst_dtype, transposed, rng):
    """Some pixels share a row of the product, and the last pixels do not."""
    for ic, oc in POINTWISE:
        for vectors, ops in ((("weights", "dst"), (ReLU(),)), ((), (Sum(0.5), Eltwise("abs")))):
            random_convolution(
                rng, (41, 53), (1, 1), ic, oc, src_dtype=src_dtype, dst_dtype=dst_dtype, vectors=vectors, ops=ops,
                transposed=transposed,
            ).check()  # fmt: skip


# (size, kernel, strides, padding, dilation), and channels of the source and of the destination
VIEWS = (
    (((19, 41), (3, 3), 1, 1, 1), 8, 8),
    (((19, 41), (3, 3), 1, [(1, 1), (2, 0)], 1), 5, 3),
    (((19, 41), (3, 3), 2, 1, 1), 3, 5),
    (((19, 41), (1, 3), 2, [(0, 0), (1, 1)], 1), 2, 1),
    (((19, 41), (2, 2), 2, 0, 1), 8, 6),
    (((41, 23), (3, 1), (1, 2), [(1, 1), (0, 0)], 1), 7, 2),
    (((19, 41), (3, 3), 1, 2, 2), 4, 16),
    (((19, 41), (5, 5), 1, 4, 2), 2, 6),
    (((19, 41), (3, 3), (1, 2), [(2, 2), (3, 0)], (2, 3)), 18, 33),
    (((19, 41), (3, 3), (3, 2), 2, 2), 12, 40),
    (((9, 10, 11), (3, 3, 3), 1, 1, 1), 6, 20),
    (((9, 10, 11), (2, 3, 3), (2, 1, 1), 1, (2, 1, 1)), 3, 2),
    (((9, 6, 15), (3, 3, 3), 1, 2, 2), 5, 8),
    (((9, 10, 41), (2, 3, 2), 1, 0, 1), 1, 1),
    (((9, 10, 41), (2, 3, 2), (1, 2, 1), 1, (1, 1, 2)), 2, 3),
    (((403,), (5,), 1, 2, 1), 3, 7),
)


@every_primitive
@pytest.mark.parametrize(("geometry", "ic", "oc"), VIEWS, ids=str)
def test_windows_in_other_views_of_the_image(isa, geometry, ic, oc, transposed, rng):
    """Outputs share windows and others are left; columns are apart; windows have several planes."""
    for number, (src_dtype, ops) in enumerate(product(SRC_DTYPES[:2], ((ReLU(),), (Sum(0.5), Eltwise("abs"))))):
        problem_of(
            rng, geometry, ic, oc, n=2, src_dtype=src_dtype, dst_dtype=DST_DTYPES[(ic + number) % len(DST_DTYPES)],
            vectors=("weights", "dst"), ops=ops, transposed=transposed,
        ).check()  # fmt: skip


@every_primitive
@pytest.mark.parametrize("multiplier", [2, 3, 16])
def test_filters_of_single_channels_that_share_products(isa, multiplier, transposed, rng):
    images = (((13, 29), (3, 3)), ((7, 6, 9), (2, 3, 2)))
    for channels, strides, dilation, (size, kernel) in product((2, 5, 16), (1, 2), (1, 2), images):
        random_convolution(
            rng, size, kernel, channels, channels * multiplier, groups=channels, padding=1, strides=strides,
            dilation=dilation, n=2, ops=(ReLU(),), transposed=transposed,
        ).check()  # fmt: skip


def test_views_take_operands_of_pixels(isa, rng):
    """Views whose outputs have other numbers than the pixels of the destination do not take these operands."""
    for geometry, ic, oc in VIEWS:
        problem = problem_of(rng, geometry, ic, oc)
        operand = rng.normal(size=problem.expected().shape).astype(np.float32)
        problem.but(ops=(Binary(operand),)).check()


def test_pointwise_filters_requantized_in_integers(isa, rng):
    for ic, oc in POINTWISE:
        src = random_values(rng, np.uint8, (1, 41, 53, ic))
        weights, bias = random_values(rng, np.int8, (oc, ic, 1, 1)), rng.integers(-1000, 1000, oc, np.int32)
        for scheme in ("doubling", "single"):
            layer = int8blas.Convolution(
                weights, bias, src_dtype=np.uint8, dst_dtype=np.uint8, zero_points={"src": 3, "dst": 100},
                attributes=Attributes(scales={"weights": 1 << 0}, requantization=scheme),
                scales={"src": 0.1, "dst": 0.5, "weights": rng.uniform(0.001, 0.01, oc)},
            )  # fmt: skip
            whole = layer(src)
            parts = [layer(np.ascontiguousarray(src[:, i : i + 1])) for i in range(src.shape[1])]
            assert_same_bits(whole, np.concatenate(parts, 1), scheme=scheme, channels=(ic, oc))


@every_primitive
@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("layout", LAYOUTS[2])
def test_small_groups(isa, layout, size, transposed, rng):
    """Channels fill part of a vector, whole vectors, or more than the kernel takes at a time; some lines have few
    outputs."""
    for groups, (src_dtype, dst_dtype) in product((4, 5, 8, 16, 20), ((np.uint8, np.int8), (np.int8, np.float32))):
        for width, strides in ((1, 1), (3, 1), (6, 2), (9, 1)):
            random_convolution(
                rng, (4, width), (3, 3), size * groups, size * groups, groups=groups, padding=1, layout=layout,
                strides=strides, src_dtype=src_dtype, dst_dtype=dst_dtype, transposed=transposed,
            ).check()  # fmt: skip


@every_primitive
@pytest.mark.parametrize("geometry", [*PLANES, *VOLUMES], ids=str)
def test_geometries_of_small_groups(isa, geometry, transposed, rng):
    for size, groups, grouped in ((4, 5, True), (8, 8, False)):
        problem_of(
            rng, geometry, size * groups, size * groups, groups=groups, grouped=grouped, n=2, transposed=transposed
        ).check()


# The number of channels of a group, and of groups: a kernel call takes part of them, all, or one of several parts.
GROUPS = [*product((2,), (2, 7, 8, 10, 16, 32, 33, 64, 130)), *product((4,), (2, 4, 5, 8, 16, 34)), (8, 2), (8, 4)]


@every_primitive
@pytest.mark.parametrize(("size", "groups"), GROUPS)
def test_outputs_of_small_groups_that_share_vectors(isa, size, groups, transposed, rng):
    """Some neighbouring outputs share vectors, and the last outputs of a line do not."""
    channels = size * groups
    operand = rng.normal(size=channels).astype(np.float32)
    for number, (plane, kernel, geometry) in enumerate((
        ((9, 31), (3, 3), {"padding": 1}),
        ((9, 31), (3, 3), {"padding": 1, "strides": 2}),
        ((13, 33), (2, 3), {"padding": [(1, 0), (2, 1)], "dilation": (1, 3)}),
        ((277,), (5,), {"padding": 2}),
    )):  # fmt: skip
        for ops in ((ReLU(),), (Sum(0.5), Binary(operand))):
            random_convolution(
                rng, plane, kernel, channels, channels, groups=groups, n=2, src_dtype=SRC_DTYPES[number % 2],
                dst_dtype=DST_DTYPES[(groups + number) % len(DST_DTYPES)], vectors=("weights", "dst"), ops=ops,
                transposed=transposed, **geometry,
            ).check()  # fmt: skip


@every_primitive
def test_sums_of_small_groups_stay_in_32_bits(isa, transposed, rng):
    """With the largest bias the sums still fit; with the next one they do not."""
    largest = 2**31 - 1 - 255 * 128 * 4 * 9
    for value in (largest, largest + 1):
        problem = random_convolution(
            rng, (4, 5), (3, 3), 16, 16, groups=4, dst_dtype=np.int32, bias="s32", scales=(), zero_points=("src",),
            transposed=transposed,
        )  # fmt: skip
        problem.src[:], problem.zero_points["src"] = 255, 0
        problem.weights[:], problem.bias[:] = -128, -value
        problem.check()


@every_primitive
def test_shapes_larger_than_a_block(isa, transposed, rng):
    for size, kernel, ic, oc in (
        ((20, 21), (3, 3), 33, 65),
        ((4, 5), (3, 3), 300, 49),
        ((3, 3), (1, 1), 1100, 130),
        ((2, 50), (2, 2), 5, 300),
        ((40, 30), (3, 3), 3, 16),
        ((2, 1300), (2, 3), 60, 3),
    ):
        for layout in LAYOUTS[2]:
            random_convolution(rng, size, kernel, ic, oc, padding=1, layout=layout, transposed=transposed).check()
    for size, kernel, channels in (((60, 61), (3, 3), 32), ((3, 700), (2, 3), 32), ((30, 31), (5, 5), 96)):
        random_convolution(
            rng, size, kernel, channels, channels, groups=channels // 8, padding=1, transposed=transposed
        ).check()


@every_primitive
@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
def test_channels_first_of_every_type(isa, dst_dtype, transposed, rng):
    """Kernels transpose pixels of the destination, several tiles at a time: each path, with and without old values."""
    for size, kernel, ic, oc, groups in (
        ((20, 21), (3, 3), 33, 37, 1),
        ((19, 18), (1, 1), 70, 50, 1),
        ((21, 40), (3, 3), 3, 33, 1),
        ((9, 70), (3, 3), 32, 32, 4),
        ((9, 40), (3, 3), 48, 48, 48),
    ):
        for ops in ((), (Eltwise("abs"), Sum(0.5))):
            random_convolution(
                rng, size, kernel, ic, oc, n=2, groups=groups, padding=1, layout="nchw", dst_dtype=dst_dtype, ops=ops,
                transposed=transposed,
            ).check()  # fmt: skip


@every_primitive
def test_padding_that_adds_nothing(isa, transposed, rng):
    """Kernels may skip products with padding: zero point 0, and whole lines and windows outside the image."""
    sizes = (
        ((6, 9), (3, 3), 20, 17),
        ((5, 5), (7, 7), 3, 16),
        ((4, 4), (3, 3), 300, 20),
        ((20, 14), (3, 3), 256, 48),
        ((5, 14), (3, 3), 256, 40),
    )
    for size, kernel, ic, oc in sizes:
        for padding in (1, ((0, 2), (2, 0))) if transposed else (1, 3, ((0, 5), (5, 0))):
            random_convolution(
                rng, size, kernel, ic, oc, padding=padding, zero_points=("dst",), transposed=transposed
            ).check()
            random_convolution(
                rng, size, kernel, 32, 32, groups=4, padding=padding, zero_points=("dst",), transposed=transposed
            ).check()


# --- types, masks ----------------------------------------------------------------------------------------------------


@every_primitive
@every_dst
@every_src
@pytest.mark.parametrize("bias", [None, "f32", "s32"])
def test_types(isa, src_dtype, dst_dtype, bias, transposed, rng):
    for problem in few(rng, src_dtype=src_dtype, dst_dtype=dst_dtype, bias=bias, transposed=transposed):
        problem.check()


@every_primitive
@every_dst
@pytest.mark.parametrize("vectors", [v for n in range(3) for v in combinations(("weights", "dst"), n)], ids="+".join)
def test_masks_with_values_at_creation_and_at_execution(isa, vectors, dst_dtype, transposed, rng):
    scales = ("src", "weights", "dst")
    for problem in few(rng, dst_dtype=dst_dtype, scales=scales, vectors=vectors, transposed=transposed):
        problem.check(at_creation=True)
        problem.check(at_creation=False)


@every_primitive
@pytest.mark.parametrize("scales", [(), ("src",), ("weights",), ("dst",), ("src", "weights")], ids="+".join)
def test_scales_and_zero_points_that_are_left_out(isa, scales, transposed, rng):
    for zero_points in ((), ("src",), ("dst",)):
        for problem in few(rng, scales=scales, zero_points=zero_points, vectors=(), transposed=transposed):
            problem.check()


@every_primitive
def test_weights_with_a_dimension_of_groups_have_scales_of_both(isa, transposed, rng):
    for spatial, layout in ((spatial, layout) for spatial, names in LAYOUTS.items() for layout in names):
        problem = random_convolution(
            rng, (5, 4, 3)[:spatial], (2, 1, 3)[:spatial], 6, 9, groups=3, grouped=True, layout=layout,
            transposed=transposed,
        )  # fmt: skip
        assert problem.layer().attributes.scales["weights"] == 3
        problem.check(at_creation=True)
        problem.check(at_creation=False)


@every_primitive
def test_values_may_change_from_execution_to_execution(isa, transposed, rng):
    first, *others = [next(few(rng, scales=("src", "weights", "dst"), transposed=transposed)) for _ in range(4)]
    layer = first.layer(at_creation=False)
    for other in others:
        problem = other.but(weights=first.weights, bias=first.bias)
        assert_same_bits(problem.run(layer, at_creation=False), problem.expected())


@every_primitive
def test_sources_of_different_sizes(isa, transposed, rng):
    first = random_convolution(rng, (5, 5), (3, 3), 4, 6, padding=1, transposed=transposed)
    layer = first.layer()
    for n, *size in ((1, 5, 5), (3, 1, 1), (1, 9, 2), (2, 30, 1), (0, 4, 4), (1, 5, 5)):
        problem = first.but(src=random_values(rng, np.uint8, (n, *size, 4)))
        assert_same_bits(problem.run(layer), problem.expected())


# --- sums ------------------------------------------------------------------------------------------------------------


@every_primitive
@every_src
@pytest.mark.parametrize("kind", ["full", "extreme"])
def test_padding_is_the_zero_point(isa, src_dtype, kind, transposed, rng):
    info = np.iinfo(src_dtype)
    for zero_point, numerics in product((info.min, info.max, 0, 1), ("exact", "saturating")):
        for problem in few(rng, src_dtype=src_dtype, dst_dtype=np.int32, kind=kind, transposed=transposed, scales=()):
            problem.but(zero_points={"src": zero_point}, numerics=numerics).check(zero_point=zero_point)


@every_primitive
def test_a_source_of_zero_points_gives_the_bias(isa, transposed, rng):
    for problem in few(rng, dst_dtype=np.float32, zero_points=("src",), scales=("weights",), transposed=transposed):
        problem.src[:] = problem.zero_points["src"]
        result = problem.result()
        assert_same_bits(result, np.broadcast_to(problem.bias, result.shape))


@every_primitive
def test_sums_beyond_32_bits(isa, transposed, rng):
    for dst_dtype, bias in product((np.int32, np.float32), (None, "s32")):
        problem = random_convolution(
            rng, (7, 8), (7, 7), 1400, 3, dst_dtype=dst_dtype, bias=bias, scales=("weights",), zero_points=("src",),
            padding=[(0, 0), (0, 1)] if not transposed else 6, transposed=transposed,
        )  # fmt: skip
        problem.src[:], problem.zero_points["src"] = 255, 0
        problem.weights[0] = -128
        problem.check()
        assert problem.but(dst_dtype=np.float32, scales={}, bias=None).expected().min() < reference.INT32_MIN


@every_primitive
@every_dst
def test_results_far_beyond_the_destination(isa, dst_dtype, transposed, rng):
    for scale, dst_scale in product((1e-38, 1e-3, 1e5, 3e38), (3e-39, 1, 1e38)):
        for problem in few(rng, dst_dtype=dst_dtype, bias=None, kind="extreme", transposed=transposed):
            scales = {"src": np.float32(scale), "weights": problem.scales["weights"], "dst": np.float32(dst_scale)}
            problem.but(scales=scales).check(scale=scale, dst_scale=dst_scale)


@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8, np.int32], ids=name_of)
@pytest.mark.parametrize("zero_point", [2**31 - 1, 300, -300, -(2**31)])
def test_zero_points_far_beyond_the_destination(isa, dst_dtype, zero_point, rng):
    for problem in few(rng, dst_dtype=dst_dtype, zero_points=("dst",), ops=(ReLU(),)):
        problem.but(zero_points={"dst": zero_point}).check(zero_point=zero_point)
    image = np.full((1, 9, 10, 64), 10, np.uint8)
    layer = int8blas.Convolution(
        np.full((64, 1, 3, 3), -1, np.int8), groups=64, padding=1, src_dtype=np.uint8, dst_dtype=dst_dtype,
        scales={"dst": 1e-9}, zero_points={"dst": zero_point}, attributes=Attributes(post_ops=ReLU()),
    )  # fmt: skip
    info = np.iinfo(dst_dtype)
    assert (layer(image) == np.clip(zero_point, info.min, info.max)).all()


@every_primitive
@every_src
@pytest.mark.parametrize("layout", LAYOUTS[2])
def test_saturating_numerics(isa, layout, src_dtype, transposed, rng):
    for (ic, oc, groups), bias in product(((3, 5, 1), (17, 33, 1), (6, 4, 2), (20, 20, 20)), ("f32", "s32")):
        for kind, geometry in product(("full", "extreme"), PLANES[2:5]):
            problem_of(
                rng, geometry, ic, oc, groups=groups, layout=layout, src_dtype=src_dtype, dst_dtype=np.float32,
                bias=bias, kind=kind, numerics="saturating", transposed=transposed,
            ).check()  # fmt: skip


def test_saturating_numerics_halve_the_weights_of_a_signed_source_only(isa):
    weights = np.array([1, 3, 127, 127], np.int8).reshape(1, 4, 1)
    for dtype, expected in ((np.uint8, 1 + 3 + 254), (np.int8, 2 * (0 + 2 + 64 + 64))):
        layer = int8blas.Convolution(weights, src_dtype=dtype, dst_dtype=np.int32, numerics="saturating")
        assert layer(np.ones((1, 1, 4), dtype)).item() == expected
    layer = int8blas.Convolution(weights, src_dtype=np.uint8, dst_dtype=np.int32, numerics="saturating")
    assert layer(np.full((1, 1, 4), 255, np.uint8)).item() == 4 * 255 + 32767


# --- weights ---------------------------------------------------------------------------------------------------------


@every_primitive
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("scale", ["per_channel", "per_tensor", "vector", "value"])
def test_float_weights_are_quantized(isa, scale, grouped, transposed, rng):
    for groups, ic, oc in ((1, 3, 5), (2, 4, 6), (7, 7, 7)):
        problem = random_convolution(
            rng, (4, 5), (3, 2), ic, oc, groups=groups, grouped=grouped, dst_dtype=np.float32, zero_points=("src",),
            transposed=transposed,
        )  # fmt: skip
        shape = problem.weights.shape
        weights = rng.normal(0, 1, (oc, ic // groups * 6)).astype(np.float32) * rng.uniform(0.1, 10, (oc, 1))
        weights = weights.astype(np.float32)
        weights[0] = 0
        argument = {"vector": rng.uniform(0.001, 0.1, oc), "value": 0.05}.get(scale, scale)
        quantized, values = reference_quantized.quantize_weights(weights, argument)
        layer = getattr(int8blas, problem.primitive)(
            weights.reshape(shape), problem.bias, src_dtype=np.uint8, dst_dtype=np.float32,
            scales={"src": 0.5, "weights": argument}, zero_points=problem.zero_points, **problem.geometry,
        )  # fmt: skip
        expected = problem.but(weights=quantized.reshape(shape), scales={"src": 0.5, "weights": values}).expected()
        assert_same_bits(layer(problem.src), expected)


@every_primitive
@pytest.mark.parametrize("per_channel", [False, True])
def test_output_scales_multiply_the_sum_and_the_bias(isa, per_channel, transposed, rng):
    for bias in (None, "f32", "s32"):
        for problem in few(rng, bias=bias, scales=(), zero_points=(), transposed=transposed):
            oc = problem.layer().weights_shape[0]
            values = rng.uniform(-0.01, 0.01, oc if per_channel else ()).astype(np.float32)
            problem.but(output_scales=values).check()


# --- post-ops --------------------------------------------------------------------------------------------------------


def operand_shapes(shape):
    """Every shape that broadcasts to `shape`, with all dimensions or without leading dimensions of size 1."""
    for kept in product((False, True), repeat=len(shape)):
        yield tuple(size if keep else 1 for size, keep in zip(shape, kept, strict=True))
    yield from (shape[i:] for i in range(1, len(shape) + 1))


@every_primitive
@pytest.mark.parametrize("layout", [layout for layouts in LAYOUTS.values() for layout in layouts])
@pytest.mark.parametrize("groups", [1, 6])
def test_operands_of_every_shape_that_broadcasts(isa, layout, groups, transposed, rng):
    spatial = len(layout) - 2
    problem = random_convolution(
        rng, (4, 5, 3)[:spatial], (3, 2, 2)[:spatial], 6, 18, n=2, groups=groups, layout=layout, padding=1,
        dst_dtype=np.float32, ops=[Binary(algorithm="mul")], transposed=transposed,
    )  # fmt: skip
    layer = problem.layer()
    shape = problem.but(ops=()).expected().shape
    for operand_shape in operand_shapes(shape):
        problem = problem.but(operands=(rng.normal(0, 1, operand_shape).astype(np.float32),))
        assert_same_bits(problem.run(layer), problem.expected(), operand=operand_shape)


@every_primitive
@pytest.mark.parametrize("layout", LAYOUTS[2])
def test_operands_of_few_pixels(isa, layout, transposed, rng):
    for size, groups, n in product(((1, 1), (1, 2), (2, 1), (2, 2), (1, 5)), (1, 3), (1, 2)):
        problem = random_convolution(
            rng, size, (2, 3), 3, 6, n=n, groups=groups, layout=layout, strides=2, padding=0 if transposed else 2,
            dst_dtype=np.float32, ops=[Binary()], transposed=transposed,
        )  # fmt: skip
        layer = problem.layer()
        shape = problem.but(ops=()).expected().shape
        for operand_shape in operand_shapes(shape):
            problem = problem.but(operands=(rng.normal(0, 1, operand_shape).astype(np.float32),))
            assert_same_bits(problem.run(layer), problem.expected(), size=size, operand=operand_shape)


OPS = {
    "relu": [ReLU()],
    "leaky relu": [ReLU(0.1)],
    "clip": [Eltwise("clip", 0, 6)],
    "hardswish": [Eltwise("hardswish", 1 / 6, 0.5)],
    "sum": [Sum(0.5, 3)],
    "sum, relu": [Sum(), ReLU()],
    "relu, sum": [ReLU(), Sum(0.25)],
    "binary, prelu, sum": [Binary(), PReLU(), Sum(2)],
    "sum, binary, clip": [Sum(), Binary(algorithm="max"), Eltwise("clip", -5, 5), Binary(algorithm="div")],
}


@every_primitive
@pytest.mark.parametrize("name", OPS)
def test_post_ops_in_order(isa, name, transposed, rng):
    for dst_dtype, layouts in product(DST_DTYPES, (0, 1)):
        for geometry, ic, oc, groups in FEW:
            layout = LAYOUTS[len(geometry[0])][layouts]
            problem = problem_of(
                rng, geometry, ic, oc, groups=groups, layout=layout, dst_dtype=dst_dtype, ops=OPS[name],
                transposed=transposed,
            )  # fmt: skip
            channels = (oc,) if layouts == 0 else (oc, *(1 for _ in geometry[0]))
            wanted = sum(isinstance(op, (Binary, PReLU)) for op in problem.ops)
            problem.but(operands=tuple(rng.normal(0, 1, (wanted, *channels)).astype(np.float32))).check()


@every_primitive
def test_operands_that_are_given_at_creation(isa, transposed, rng):
    for layout, shape in (("nhwc", (7,)), ("nchw", (7, 1, 1)), ("nhwc", (1,)), ("nchw", ())):
        first, second = rng.normal(0, 1, (2, *shape)).astype(np.float32)
        random_convolution(
            rng, (4, 5), (3, 3), 3, 7, layout=layout, ops=[PReLU(first), Binary(second, "sub")], transposed=transposed
        ).check()


@every_primitive
@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8])
def test_a_sum_of_the_other_8_bit_type(isa, dst_dtype, transposed, rng):
    for dtype in (np.uint8, np.int8):
        for problem in few(rng, dst_dtype=dst_dtype, ops=[Sum(0.5, 3, dtype)], transposed=transposed):
            problem.check()


# --- other properties of a layer -------------------------------------------------------------------------------------


def test_a_kernel_of_one_pixel_is_an_inner_product(isa, rng):
    problem = random_convolution(rng, (5, 6), (1, 1), 20, 33, n=2)
    layer = int8blas.InnerProduct(
        problem.weights[:, :, 0, 0], problem.bias, src_dtype=np.uint8, dst_dtype=np.int8, scales=problem.scales,
        zero_points=problem.zero_points,
    )  # fmt: skip
    assert_same_bits(problem.result(), layer(problem.src))


def test_a_deconvolution_without_strides_is_a_convolution_with_the_mirrored_kernel(isa, rng):
    for dilation, pad in product((1, 2), (0, 1)):
        problem = random_convolution(rng, (5, 6), (3, 2), 4, 7, dilation=dilation, padding=pad, transposed=True)
        padding = [(dilation * (k - 1) - pad,) * 2 for k in (3, 2)]
        arguments = problem.geometry | {"padding": padding}
        del arguments["output_padding"]
        layer = int8blas.Convolution(
            problem.weights[:, :, ::-1, ::-1], problem.bias, src_dtype=np.uint8, dst_dtype=np.int8,
            scales=problem.scales, zero_points=problem.zero_points, **arguments,
        )  # fmt: skip
        assert_same_bits(problem.result(), layer(problem.src))


@every_primitive
def test_it_approximates_the_convolution_of_real_numbers(isa, transposed, rng):
    x, w = rng.normal(0.5, 1, (9, 8, 6)).astype(np.float32), rng.normal(0, 0.2, (5, 6, 3, 3)).astype(np.float32)
    scale, zero_point, dst_scale = np.float32(0.03), 100, np.float32(0.05)
    src = int8blas.quantize(x, scale, zero_point, np.uint8)
    scales = {"src": scale, "weights": "per_channel", "dst": dst_scale}
    primitive = int8blas.Deconvolution if transposed else int8blas.Convolution
    layer = primitive(
        w, src_dtype=np.uint8, dst_dtype=np.int8, scales=scales, zero_points={"src": zero_point}, padding=1
    )
    quantized, weights_scale = reference_quantized.quantize_weights(w.reshape(5, -1), "per_channel")
    dequantized = (quantized * weights_scale.astype(float)[:, np.newaxis]).reshape(w.shape)
    real = scale.astype(float) * (src.astype(float) - zero_point)
    function = signal.convolve if transposed else signal.correlate
    exact, original = (
        np.stack([sum(function(a[..., c], b[o, c], "same") for c in range(6)) for o in range(5)], axis=-1)
        for a, b in ((real, dequantized), (x.astype(float), w.astype(float)))
    )
    exact, original = (np.clip(y, -128 * dst_scale, 127 * dst_scale) for y in (exact, original))
    result = layer(src[np.newaxis])[0].astype(float) * dst_scale
    assert np.abs(result - exact).max() <= 0.5001 * dst_scale
    # Each of 54 products has an error from its source and one from its weight, each at most half a scale.
    clipped = np.abs(x - real).max()
    error = 54 * (clipped * np.abs(w).max() + (np.abs(real).max() + clipped) * weights_scale.max() / 2)
    assert np.abs(result - original).max() <= error + dst_scale


def test_arguments_are_copied(isa, rng):
    for transposed in (False, True):
        problem = next(few(rng, vectors=("weights", "dst"), ops=[Binary(np.ones(20))], transposed=transposed))
        layer, expected = problem.layer(), problem.expected()
        for array in (problem.weights, problem.bias, *problem.scales.values(), *problem.zero_points.values()):
            array[...] = 1
        problem.scales.clear()
        assert_same_bits(layer(problem.src), expected)


def test_what_a_layer_says_of_itself():
    for primitive in (int8blas.Convolution, int8blas.Deconvolution):
        attributes = Attributes(post_ops=[ReLU()])
        layer = primitive(
            np.ones((6, 2, 3, 3), np.int8), src_dtype="i1", dst_dtype="f2", groups=2, attributes=attributes
        )
        assert layer.weights_shape == (6, 2, 3, 3)
        assert layer.src_dtype == np.dtype(np.int8)
        assert layer.dst_dtype == np.dtype(np.float16)
        assert layer.attributes is attributes
        assert repr(layer).startswith(f"{primitive.__name__}(6, 2, 3, 3)")


def test_what_a_layer_says_of_its_windows():
    given = {"strides": (2, 1), "padding": ((1, 0), (2, 2)), "dilation": (1, 3), "groups": 2, "layout": "nchw"}
    weights, types = np.ones((6, 2, 3, 3), np.int8), {"src_dtype": "u1", "dst_dtype": "i4"}
    layer = int8blas.Convolution(weights, **given, **types)
    transposed = int8blas.Deconvolution(weights, output_padding=(1, 0), **given, **types)
    for name, value in given.items():
        assert getattr(layer, name) == getattr(transposed, name) == value
    assert transposed.output_padding == (1, 0)


@pytest.mark.parametrize("groups", [1, 2])
def test_integer_bias_at_the_end_of_its_range(isa, groups):
    """Sums that exceed 32 bits because of their bias saturate, in every group."""
    x, w = np.full((1, 9, 9, 32), 255, np.uint8), np.full((64, 32 // groups, 3, 3), 127, np.int8)
    bias = np.zeros(64, np.int32)
    bias[0], bias[-1] = -5, 2**31 - 1
    y = int8blas.Convolution(w, bias, groups=groups, src_dtype=np.uint8, dst_dtype=np.int32)(x)
    assert (y[..., 0] == 255 * 127 * 9 * 32 // groups - 5).all()
    assert (y[..., -1] == 2**31 - 1).all()


@pytest.mark.parametrize(("channels", "groups"), [(2, 8), (2, 16), (4, 4), (4, 8), (8, 2)])
def test_small_groups_with_a_bias_at_the_end_of_its_range(isa, channels, groups):
    count = channels * groups
    src, weights = np.full((1, 6, 6, count), 255, np.uint8), np.full((count, channels, 3, 3), 127, np.int8)
    bias = np.full(count, 2**31 - 1, np.int32)
    layer = int8blas.Convolution(weights, bias, groups=groups, src_dtype=np.uint8, dst_dtype=np.float32)
    np.testing.assert_array_equal(layer(src), np.float32(2**31 - 1 + 255 * 127 * 9 * channels))
