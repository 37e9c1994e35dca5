"""im2col gives the rows that a convolution multiplies by its weights."""

import re
from itertools import product

import numpy as np
import pytest
import reference_convolution
from arrays import Canary, assert_same, guarded, needs_mprotect, place, random_values
from convolutions import BROADCASTS, IMAGES, LAYOUTS, place_image, random_convolution
from errors import read_only, u8
from test_convolution import PLANES, VOLUMES

import int8blas

DTYPES = (np.uint8, np.int8)

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)


def check(src, kernel, **arguments):
    assert_same(
        int8blas.im2col(src, kernel, **arguments), reference_convolution.im2col(src, kernel, **arguments),
        src=src.shape, kernel=kernel, **arguments,
    )  # fmt: skip


@every_dtype
def test_every_geometry_of_a_line(isa, dtype, rng):
    src = random_values(rng, dtype, (2, 9, 3))
    for k, stride, dilation, before, after in product(range(1, 8), (1, 2, 3), (1, 2, 3), range(4), range(4)):
        if 9 + before + after > dilation * (k - 1):
            check(src, (k,), strides=stride, dilation=dilation, padding=[(before, after)], padding_value=77)


@every_dtype
@pytest.mark.parametrize("geometry", [*PLANES, *VOLUMES], ids=str)
def test_planes_and_volumes_in_every_layout(isa, geometry, dtype, rng):
    size, kernel, strides, padding, dilation = geometry
    for layout, channels in product(LAYOUTS[len(size)], (1, 3, 4, 17, 64)):
        shape = (2, channels, *size) if layout.startswith("nc") else (2, *size, channels)
        src = random_values(rng, dtype, shape)
        arguments = {"strides": strides, "padding": padding, "dilation": dilation}
        check(src, kernel, **arguments, layout=layout, padding_value=np.iinfo(dtype).min)


def test_channels_are_last_by_default(isa, rng):
    for size, kernel in (((5,), (3,)), ((5, 4), (3, 2)), ((5, 4, 3), (1, 2, 3))):
        check(random_values(rng, np.uint8, (2, *size, 3)), kernel)


def test_groups(isa, rng):
    for groups, channels, layout in product((2, 3, 6), (1, 2, 4, 17), LAYOUTS[2]):
        shape = (2, groups * channels, 4, 5) if layout == "nchw" else (2, 4, 5, groups * channels)
        src = random_values(rng, np.uint8, shape)
        check(src, (3, 2), groups=groups, layout=layout, padding=1, strides=(1, 2), padding_value=5)


@pytest.mark.parametrize("name", [*IMAGES, *BROADCASTS])
def test_sources_of_any_strides(isa, name, rng):
    for layout, groups, channels in product(LAYOUTS[2], (1, 2), (4, 34)):
        shape = (2, channels, 4, 5) if layout == "nchw" else (2, 4, 5, channels)
        src = place_image(random_values(rng, np.int8, shape), name)
        check(src, (3, 2), groups=groups, layout=layout, padding=1, padding_value=-5)


@pytest.mark.parametrize("layout", ["C", "F", "C, padded rows", "every other, both reversed"])
def test_only_the_elements_of_out_are_written(isa, layout, rng):
    src = random_values(rng, np.uint8, (2, 4, 5, 3))
    expected = reference_convolution.im2col(src, (3, 3), padding=1, padding_value=9)
    for misalign in (0, 1):
        canary = Canary()
        out = place(np.zeros_like(expected), layout, canary, misalign)
        assert int8blas.im2col(src, (3, 3), padding=1, padding_value=9, out=out) is out
        assert_same(out.copy(order="C"), expected)
        canary.assert_only_elements_written(out)


def test_out_of_groups(isa, rng):
    src = random_values(rng, np.uint8, (2, 4, 5, 6))
    expected = reference_convolution.im2col(src, (3, 2), groups=3)
    for out in (np.zeros_like(expected), np.asfortranarray(np.zeros_like(expected)), np.zeros_like(expected)[::-1]):
        assert int8blas.im2col(src, (3, 2), groups=3, out=out) is out
        assert_same(out.copy(order="C"), expected)


def test_out_may_overlap_src(isa, rng):
    for offset in (0, 1, 30, 100):
        memory = random_values(rng, np.uint8, 600)
        src, out = memory[offset : offset + 60].reshape(1, 4, 5, 3), memory[: 20 * 27].reshape(20, 27)
        expected = reference_convolution.im2col(src, (3, 3), padding=1)
        assert int8blas.im2col(src, (3, 3), padding=1, out=out) is out
        assert_same(out, expected, offset=offset)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("name", ["contiguous", "cropped", "all reversed", "every other channel"])
def test_nothing_outside_the_arrays_is_read_or_written(isa, side, name, rng):
    for layout, channels in product(LAYOUTS[2], (1, 3, 16, 33)):
        shape = (1, channels, 5, 6) if layout == "nchw" else (1, 5, 6, channels)
        src = place_image(random_values(rng, np.uint8, shape), name, guarded(side))
        for kernel, padding in product(((1, 1), (3, 3)), (0, 2)):
            arguments = {"layout": layout, "padding": padding, "padding_value": 3}
            expected = reference_convolution.im2col(src, kernel, **arguments)
            out = place(np.zeros_like(expected), "C", guarded(side))
            int8blas.im2col(src, kernel, **arguments, out=out)
            assert_same(out, expected, kernel=kernel, **arguments)


def test_an_empty_batch(isa):
    assert int8blas.im2col(u8(0, 4, 5, 3), (3, 3)).shape == (0, 27)
    assert int8blas.im2col(u8(0, 4, 5, 4), (3, 3), groups=2).shape == (2, 0, 18)


def test_any_number_of_threads_gives_the_same_rows(isa, rng):
    src = random_values(rng, np.uint8, (3, 64, 65, 17))
    expected = reference_convolution.im2col(src, (3, 3), padding=1, padding_value=9)
    for threads in (1, 2, 3, 4):
        with int8blas.num_threads(threads):
            assert_same(int8blas.im2col(src, (3, 3), padding=1, padding_value=9), expected, threads=threads)


def test_rows_times_weights_are_the_convolution(isa, rng):
    for groups, channels in ((1, 5), (2, 6)):
        problem = random_convolution(
            rng, (5, 6), (3, 2), channels, 4, groups=groups, padding=1, strides=2, bias=None, scales=(),
            zero_points=("src",), dst_dtype=np.int32,
        )  # fmt: skip
        zero_point = int(problem.zero_points["src"])
        rows = int8blas.im2col(problem.src, (3, 2), groups=groups, padding=1, strides=2, padding_value=zero_point)
        matrices = np.moveaxis(problem.weights, 1, -1).reshape(groups, 4 // groups, -1)
        sums = [
            int8blas.gemm_u8s8s32(1, a, b, trans_b=True, ao=zero_point)
            for a, b in zip(rows.reshape(groups, -1, rows.shape[-1]), matrices, strict=True)
        ]
        result = problem.result()
        assert_same(np.concatenate(sums, axis=1).reshape(result.shape), result)


# --- errors ----------------------------------------------------------------------------------------------------------

WRONG = [
    *(({"src": src}, TypeError, "src") for src in (u8(1, 4, 5, 3).astype(np.int32), None, "src", [[1]], 1)),
    *(({"src": u8(*shape)}, ValueError, "src") for shape in ((), (4,), (4, 5), (1, 4, 5, 3, 1, 1))),
    # a kernel of other dimensions than the source
    *(({"src": u8(*shape)}, ValueError, "kernel") for shape in ((4, 5, 3), (1, 1, 4, 5, 3))),
    # a kernel that does not fit, and groups that do not divide the channels
    *(({"kernel": kernel}, ValueError, "src") for kernel in ((5, 3), (3, 6))),
    ({"groups": 2}, ValueError, "src"),
    # more windows than can be counted
    ({"src": np.broadcast_to(u8(1), (1, 2**30, 2**30, 1)), "kernel": (2**20, 2**20)}, ValueError, "src"),
    *(({"kernel": kernel}, TypeError, "kernel") for kernel in (None, "33", (3.0, 3), (3, None), True)),
    *(({"kernel": kernel}, ValueError, "kernel") for kernel in ((), (0, 3), (3, -1), (1, 1, 1))),
    *(({name: value}, TypeError, name) for name in ("strides", "dilation") for value in (1.0, None, "1", (1, 2.0))),
    *(({name: value}, ValueError, name) for name in ("strides", "dilation") for value in (0, -1, (1, 0), (1, 1, 1))),
    *(({"padding": value}, TypeError, "padding") for value in (1.0, None, "1", (1, 0.5), ((1, 2), (1, "2")))),
    *(({"padding": value}, ValueError, "padding") for value in (-1, (0, -1), ((1, -1), 0), (1,), ((1, 2, 3), 0))),
    *(({"groups": value}, TypeError, "groups") for value in (1.0, None, "1")),
    *(({"groups": value}, ValueError, "groups") for value in (0, -1)),
    *(({"layout": value}, ValueError, "layout") for value in ("nhw", "hwcn", "nwc", "ndhwc", "oihw", "")),
    ({"layout": 1}, TypeError, "layout"),
    *(({"padding_value": value}, TypeError, "padding_value") for value in (1.0, None, "1")),
    *(({"padding_value": value}, ValueError, "padding_value") for value in (-1, 256)),
    *(({"out": out}, TypeError, "out") for out in (u8(6, 27).astype(np.int8), "out", u8(6, 27).tolist())),
    *(({"out": u8(*shape)}, ValueError, "out") for shape in ((27, 6), (6, 26), (7, 27), (1, 6, 27), (162,))),
    ({"out": read_only(u8(6, 27))}, ValueError, "out"),
    ({"out": np.lib.stride_tricks.as_strided(u8(27), (6, 27), (0, 1))}, ValueError, "out"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "named"), WRONG)
def test_a_wrong_argument_is_named_and_nothing_is_written(changes, error, named):
    arguments = {"src": u8(1, 4, 5, 3), "kernel": (3, 3), "out": np.full((6, 27), 77, np.uint8)} | changes
    before = np.array(arguments["out"])
    with pytest.raises(error, match=rf"^{re.escape(named)}\b.* must "):
        int8blas.im2col(**arguments)
    np.testing.assert_array_equal(np.array(arguments["out"]), before)


def test_the_call_from_which_the_wrong_ones_differ():
    out = np.full((6, 27), 77, np.uint8)
    assert int8blas.im2col(u8(1, 4, 5, 3), (3, 3), out=out) is out
    assert (out == 1).all()
