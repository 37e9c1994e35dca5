"""Pooling equals its formula for every window, layout, stride and instruction set, and writes nothing else."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import numpy as np
import pytest
import reference_pooling as reference
from arrays import Canary, assert_same, between_guards, needs_mprotect, random_values
from hypothesis import given
from hypothesis import strategies as st
from others import assert_other_threads_run_during
from processes import run_python

import int8blas

LAYOUTS = {1: ("nwc", "ncw"), 2: ("nhwc", "nchw"), 3: ("ndhwc", "ncdhw")}
DTYPES = (np.uint8, np.int8)
every_type = pytest.mark.parametrize("dtype", DTYPES)
every_dimension = pytest.mark.parametrize("spatial", LAYOUTS)

# Around the sizes of vectors, 16 to 64 bytes, of four of them, and of a piece of a line.
CHANNELS = (1, 2, 3, 16, 31, 33, 63, 64, 65, 80, 127, 128, 130, 191, 255, 256, 257, 300)
# Name -> a function that returns the same values in another order in memory.
ORDERS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "channels moved": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1),
    "every other": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: np.ascontiguousarray(x[::-1, ::-1, ::-1])[::-1, ::-1, ::-1],
    "last reversed": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "padded": lambda x: np.pad(x, [(0, 1)] * x.ndim)[(slice(-1),) * x.ndim],
    "misaligned": lambda x: np.frombuffer(b"." + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
}


def image(rng, dtype, spatial, sizes, channels, layout, batch=2, kind="full"):
    shape = (batch, *sizes, channels) if layout.endswith("c") else (batch, channels, *sizes)
    return random_values(rng, dtype, shape, kind)


def check_windows(x, kernel, **options):
    """Check maxima and averages of all kinds against their oracles."""
    dilation = options.pop("dilation", 1)
    assert_same(int8blas.max_pool(x, kernel, dilation=dilation, **options),
                reference.max_pool(x, kernel, dilation=dilation, **options), kernel=kernel, **options)  # fmt: skip
    if dilation != 1:
        return
    for more in ({}, {"include_padding": True}, {"dst_dtype": np.float32}):
        assert_same(int8blas.avg_pool(x, kernel, **options, **more),
                    reference.avg_pool(x, kernel, **options, **more), kernel=kernel, **options, **more)  # fmt: skip


def check_global(x, layout):
    assert_same(int8blas.global_max_pool(x, layout=layout), reference.global_max_pool(x, layout=layout))
    for dtype in (None, np.float32):
        assert_same(int8blas.global_avg_pool(x, layout=layout, dst_dtype=dtype),
                    reference.global_avg_pool(x, layout=layout, dst_dtype=dtype), shape=x.shape)  # fmt: skip


# --- the formula -----------------------------------------------------------------------------------------------------

WINDOWS = (
    (1, {}), (2, {}), (3, {"strides": 1, "padding": 1}), (3, {"strides": 2, "padding": 1}), (2, {"strides": 3}),
    (3, {"strides": 2}), (5, {"strides": 1, "padding": 2}), (3, {"strides": 1, "padding": 2, "dilation": 2}),
    (3, {"strides": 1, "dilation": 2}),
)  # fmt: skip
SIZES = {1: (23,), 2: (7, 12), 3: (5, 6, 7)}


@every_dimension
@every_type
def test_windows(isa, spatial, dtype, rng):
    for layout, channels, (kernel, options) in product(LAYOUTS[spatial], (1, 3, 64, 70), WINDOWS):
        x = image(rng, dtype, spatial, SIZES[spatial], channels, layout)
        check_windows(x, kernel, layout=layout, **options)


CEILED = (
    (2, {}), (3, {"strides": 2}), (3, {"strides": 2, "padding": 1}), (2, {"strides": 3}), (4, {"padding": 1}),
    (3, {"strides": 4, "padding": [(1, 2)]}), (5, {"strides": 3, "padding": [(0, 4)]}),
    (3, {"dilation": 2, "strides": 3}), (9, {"strides": 5}),
)  # fmt: skip


@every_dimension
@every_type
def test_ceil_mode_has_the_windows_that_begin_in_the_image_or_before(isa, spatial, dtype, rng):
    for layout, channels, size in product(LAYOUTS[spatial], (1, 70), (5, 6, 8)):
        x = image(rng, dtype, spatial, (7, size, 5)[:spatial], channels, layout)
        for kernel, options in CEILED:
            padding = options.get("padding", 0)
            options = options | {"padding": padding * spatial if isinstance(padding, list) else padding}
            check_windows(x, kernel, layout=layout, ceil_mode=True, **options)


def test_the_windows_of_ceil_mode_are_those_of_torch():
    """Expected sizes and divisors come from torch.nn.functional.avg_pool1d of PyTorch 2.13."""
    for size, kernel, stride, padding, counts in (
        (5, 2, 2, 0, [2, 2, 1]),
        (6, 3, 2, 1, [3, 3, 3, 2]),
        (2, 3, 2, 0, [2]),
        (4, 2, 3, 1, [2, 2]),
        (3, 2, 3, 1, [2, 2]),
    ):
        x = np.full((1, size, 1), 60, np.uint8)
        arguments = {"strides": stride, "padding": padding, "ceil_mode": True}
        assert int8blas.max_pool(x, kernel, **arguments).shape[1] == len(counts)
        inside = [sum(0 <= i * stride - padding + j < size for j in range(kernel)) for i in range(len(counts))]
        mean = int8blas.avg_pool(x, kernel, include_padding=True, dst_dtype=np.float32, **arguments).ravel()
        np.testing.assert_array_equal(mean, np.float32(60) * np.float32(inside) / np.float32(counts))


@every_dimension
@every_type
@pytest.mark.parametrize("padding", ["same", "same_lower", "valid"])
def test_padding_by_name(isa, spatial, dtype, padding, rng):
    for layout, channels, size, (kernel, stride) in product(
        LAYOUTS[spatial], (1, 70), (5, 6, 7), ((1, 2), (2, 1), (3, 1), (3, 2), (4, 3), (5, 4))
    ):
        x = image(rng, dtype, spatial, (7, size, 5)[:spatial], channels, layout, 1)
        check_windows(x, kernel, strides=stride, padding=padding, layout=layout)
        expected = [-(-n // stride) for n in reference.spatial_shape(x, layout)]
        if padding != "valid":
            result = int8blas.max_pool(x, kernel, strides=stride, padding=padding.upper(), layout=layout.upper())
            assert list(reference.spatial_shape(result, layout)) == expected


@every_dimension
@every_type
def test_padding_that_counts_is_the_zero_point(isa, spatial, dtype, rng):
    info = np.iinfo(dtype)
    for layout, channels, zero_point in product(LAYOUTS[spatial], (1, 70), (info.min, 3, info.max)):
        x = image(rng, dtype, spatial, (5, 6, 4)[:spatial], channels, layout)
        for ceil_mode, more in product((0, 1), ({}, {"dst_dtype": np.float32})):
            for kernel, strides, padding in ((3, 2, 1), (2, 2, [(1, 0)] * spatial), (3, 1, 2)):
                options = {"strides": strides, "padding": padding, "layout": layout, "zero_point": zero_point, **more,
                           "include_padding": 1, "ceil_mode": ceil_mode}  # fmt: skip
                assert_same(
                    int8blas.avg_pool(x, kernel, **options), reference.avg_pool(x, kernel, **options), **options
                )
        constant = np.full_like(x, zero_point)
        result = int8blas.avg_pool(constant, 3, padding=1, include_padding=True, zero_point=zero_point, layout=layout)
        assert (result == zero_point).all()
        # Without include_padding, the mean does not depend on the zero point.
        assert_same(int8blas.avg_pool(x, 3, padding=1, zero_point=zero_point, layout=layout),
                    reference.avg_pool(x, 3, padding=1, layout=layout))  # fmt: skip


def test_flags_are_bools_or_0_and_1(rng):
    x = image(rng, np.uint8, 2, (5, 6), 3, "nhwc")
    for value in (True, np.True_, 1, np.int64(1), np.uint8(1)):
        assert_same(int8blas.avg_pool(x, 3, padding=1, include_padding=value, ceil_mode=value),
                    reference.avg_pool(x, 3, padding=1, include_padding=True, ceil_mode=True))  # fmt: skip
    for value in (False, np.False_, 0, np.int8(0)):
        assert_same(int8blas.avg_pool(x, 3, padding=1, include_padding=value, ceil_mode=value),
                    reference.avg_pool(x, 3, padding=1))  # fmt: skip


@every_type
@pytest.mark.parametrize("kind", ["full", "extreme"])
def test_any_number_of_channels(isa, dtype, kind, rng):
    for layout, channels in product(LAYOUTS[2], CHANNELS):
        x = image(rng, dtype, 2, (5, 9), channels, layout, 1, kind)
        check_windows(x, 3, strides=2, padding=1, layout=layout)
        check_windows(x, 3, strides=1, layout=layout)
        check_global(x, layout)


def test_different_windows_along_each_dimension(isa, rng):
    x = image(rng, np.int8, 3, (5, 6, 9), 66, "ndhwc", 1)
    check_windows(x, (1, 2, 3), strides=(2, 1, 3), padding=((0, 0), (1, 0), (0, 2)))
    check_windows(x, (5, 1, 9), strides=(1, 2, 1), padding=((4, 0), 0, (1, 8)))
    check_windows(x, (2, 3, 2), strides=1, padding=((1, 2), (4, 0), 0), dilation=(2, 2, 3))
    check_windows(np.ascontiguousarray(x.transpose(0, 4, 1, 2, 3)), [3, 2, 2], strides=[2, 2, 1], layout="ncdhw",
                  padding=[(1, 0), (0, 1), (1, 1)])  # fmt: skip


def test_every_width_of_a_line(isa, rng):
    for layout, width, channels in product(LAYOUTS[2], range(1, 40), (1, 17, 64)):
        x = image(rng, np.uint8, 2, (3, width), channels, layout, 1)
        check_windows(x, (3, 1), strides=(1, 2), layout=layout)
        if width > 2:
            check_windows(x, 3, strides=(1, 2), padding=1, layout=layout)


@every_type
def test_large_windows(isa, dtype, rng):
    """Windows with more elements than 16-bit sums can add, and than fit the buffer of a patch."""
    for layout, kernel in product(LAYOUTS[2], (15, 16, 17, 40)):
        for channels, kind in product((1, 3, 65), ("full", "extreme")):
            x = image(rng, dtype, 2, (42, 41), channels, layout, 1, kind)
            check_windows(x, kernel, strides=9, layout=layout)
        check_windows(np.full_like(x, np.iinfo(dtype).min), kernel, strides=20, layout=layout)
    for channels, layout in product((1, 5, 40, 70), LAYOUTS[1]):
        x = image(rng, dtype, 1, (9000,), channels, layout, 1)
        check_windows(x, 8500, strides=250, layout=layout)
        check_global(x, layout)
    for layout in LAYOUTS[2]:  # larger than the buffer only by both sides together
        check_windows(image(rng, dtype, 2, (93, 94), 1, layout, 1), (91, 92), strides=1, layout=layout)


@every_type
def test_maxima_of_contiguous_elements_of_every_size(isa, dtype, rng):
    for size in (*range(1, 70), 127, 128, 4095, 4096, 4097, 4160, 9000):
        x = image(rng, dtype, 1, (size,), 3, LAYOUTS[1][-1], 2)
        check_global(x, LAYOUTS[1][-1])
        check_global(np.full_like(x, np.iinfo(dtype).min), LAYOUTS[1][-1])


@pytest.mark.parametrize("layout", LAYOUTS[1])
def test_sums_beyond_32_bits(isa, layout):
    x = np.full((1, 2**23 + 2**21, 1), 255, np.uint8).reshape((1, -1, 1) if layout == "nwc" else (1, 1, -1))
    for src in (x, (x - 127).view(np.int8)):
        assert int8blas.global_avg_pool(src, layout=layout).item() == src.flat[0]
    if layout == "nwc":
        many = np.broadcast_to(x, (1, x.size, 64))
        assert (int8blas.global_avg_pool(many) == 255).all()


@every_type
def test_rounding_is_half_to_even_of_the_quotient(isa, dtype):
    """Counts for which the kernel divides in 16 bits, and counts for which it does not; sums are ties or next to
    ties."""
    for count in (*range(1, 50), *range(51, 255, 4), 128, 255, 256, 257):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        targets = (np.arange(low, high)[:, None] * count + count // 2 + np.arange(-1, 3)).ravel()
        base = targets // count
        x = np.broadcast_to(base[:, None], (targets.size, count)).copy()
        x[np.arange(count) < (targets - base * count)[:, None]] += 1
        x = x.astype(dtype)
        assert_same(int8blas.global_avg_pool(x[:, :, None]), reference.global_avg_pool(x[:, :, None]), count=count)
        columns = np.ascontiguousarray(x.T)[None]
        assert_same(int8blas.global_avg_pool(columns), reference.global_avg_pool(columns), count=count)


# --- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_any_strides_of_src(isa, order, rng):
    for layout, channels in product(LAYOUTS[2], (1, 5, 64, 100)):
        x = ORDERS[order](image(rng, np.int8, 2, (6, 11), channels, layout))
        check_windows(x, (3, 2), strides=(1, 2), padding=(1, (0, 1)), layout=layout)
        check_global(x, layout)


@pytest.mark.parametrize("order", ORDERS)
def test_any_strides_of_out_and_nothing_else_is_written(isa, order, rng):
    for layout, channels, dtype in product(LAYOUTS[2], (1, 5, 64, 100), (np.uint8, np.float32)):
        x = image(rng, np.uint8, 2, (6, 11), channels, layout)
        options = {"strides": (1, 2), "padding": 1, "layout": layout, "dst_dtype": dtype}
        expected = reference.avg_pool(x, (3, 2), **options)
        canary = Canary()
        like = ORDERS[order](np.zeros_like(expected))
        strides = like.strides if order != "misaligned" else expected.strides
        reaches = [(size - 1) * step for size, step in zip(expected.shape, strides, strict=True)]
        before = -sum(min(reach, 0) for reach in reaches) + (order == "misaligned")
        memory = canary(before + sum(max(reach, 0) for reach in reaches) + expected.itemsize)
        out = np.ndarray(expected.shape, dtype, memory, before, strides)
        assert int8blas.avg_pool(x, (3, 2), out=out, **options) is out
        assert_same(out, expected, layout=layout, channels=channels)
        canary.assert_only_elements_written(out)


def test_elements_that_share_memory(isa, rng):
    for shape, steps in (((2, 6, 7, 70), (0, 0, 0, 1)), ((2, 6, 7, 70), (5, 3, 0, 0)), ((1, 5, 9, 64), (0, 7, 1, 1))):
        x = np.lib.stride_tricks.as_strided(random_values(rng, np.int8, (700,)), shape, steps)
        for layout in LAYOUTS[2]:
            check_windows(x, 3, strides=1, padding=1, layout=layout)
            check_global(x, layout)


@needs_mprotect
@every_type
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_the_arrays_is_read_or_written(isa, dtype, side, rng):
    place = partial(between_guards, side)
    for layout, channels, width in product(LAYOUTS[2], (1, 3, 33, 64, 65, 191), (3, 8, 70)):
        x = place(image(rng, dtype, 2, (4, width), channels, layout, 1))
        for kernel, stride, padding in ((3, 1, 1), (2, 2, 0), (3, 2, 1)):
            options = {"strides": stride, "padding": padding, "layout": layout}
            expected = reference.max_pool(x, kernel, **options)
            out = place(np.zeros_like(expected))
            assert_same(int8blas.max_pool(x, kernel, out=out, **options), expected)
            expected = reference.avg_pool(x, kernel, dst_dtype=np.float32, **options)
            out = place(np.zeros_like(expected))
            assert_same(int8blas.avg_pool(x, kernel, dst_dtype=np.float32, out=out, **options), expected)
        check_global(x, layout)


def test_a_new_array_has_the_order_of_src(rng):
    x = image(rng, np.uint8, 2, (6, 8), 5, "nhwc")
    assert int8blas.max_pool(x, 2).flags.c_contiguous
    assert int8blas.max_pool(x.transpose(0, 3, 1, 2), 2, layout="nchw").transpose(0, 2, 3, 1).flags.c_contiguous
    assert int8blas.global_avg_pool(x.T.T, dst_dtype=np.float32).flags.c_contiguous


def test_out_may_overlap_src(isa, rng):
    values = random_values(rng, np.uint8, (1, 8, 8, 64))
    expected = reference.max_pool(values, 3, strides=1, padding=1)
    for target in (lambda x: x, lambda x: x[:, ::-1], lambda x: x[..., ::-1]):
        x = values.copy()
        int8blas.max_pool(x, 3, strides=1, padding=1, out=target(x))
        assert_same(target(x), expected)


def test_src_is_never_written_and_nothing_to_do_is_nothing(isa, rng):
    x = image(rng, np.int8, 2, (6, 8), 65, "nhwc")
    x.flags.writeable = False
    copy = x.copy()
    check_windows(x, 2)
    assert x.tobytes() == copy.tobytes()
    for shape in ((0, 4, 4, 3), (2, 4, 4, 0)):
        assert int8blas.max_pool(np.zeros(shape, np.uint8), 2).shape == (shape[0], 2, 2, shape[3])
        assert int8blas.global_avg_pool(np.zeros(shape, np.uint8)).shape == (shape[0], 1, 1, shape[3])


def test_a_list_and_a_subclass(rng):
    class Image(np.ndarray):
        pass

    x = image(rng, np.uint8, 1, (6,), 3, "nwc")
    result = int8blas.max_pool(x.view(Image), 2)
    assert type(result) is np.ndarray
    assert_same(result, reference.max_pool(x, 2))
    with pytest.raises(TypeError, match=r"^src must "):
        int8blas.max_pool(x.tolist(), 2)


# --- threads ---------------------------------------------------------------------------------------------------------


@every_type
def test_any_number_of_threads_gives_the_same_bits(isa, dtype, rng):
    for layout, sizes, channels in product(LAYOUTS[2], ((40, 60),), (16, 300)):
        x = image(rng, dtype, 2, sizes, channels, layout)
        expected = int8blas.max_pool(x, 3, strides=1, layout=layout), int8blas.global_avg_pool(x, layout=layout)
        for threads in (1, 2, 3, 4):
            with int8blas.num_threads(threads):
                assert_same(int8blas.max_pool(x, 3, strides=1, layout=layout), expected[0], threads=threads)
                assert_same(int8blas.global_avg_pool(x, layout=layout), expected[1], threads=threads)


def test_pieces_of_a_line_for_threads(isa, rng):
    for channels in (1023, 1024, 2047, 2048, 3001):
        x = image(rng, np.int8, 2, (20, 30), channels, "nhwc", 1)
        with int8blas.num_threads(4):
            check_global(x, "nhwc")


@every_type
def test_pieces_of_a_long_line(isa, dtype, rng):
    """A piece begins or ends with windows in the padding, partly in it, or inside the image."""
    for (kernel, options), channels, extra in product(WINDOWS, (300, 1030), range(3)):
        x = image(rng, dtype, 1, (60 + extra,), channels, "nwc", 1)
        with int8blas.num_threads(1 + extra):
            check_windows(x, kernel, layout="nwc", **options)
    x = image(rng, dtype, 2, (2, 40), 300, "nhwc", 1)
    check_windows(x, (2, 39), layout="nhwc", padding=[(0, 1), (19, 19)])


def test_concurrent_callers(rng):
    problems = [image(rng, DTYPES[i % 2], 2, (30 + i, 30), 16 * (1 + i % 7), "nhwc", 1) for i in range(24)]

    def solve(x):
        with int8blas.num_threads(1 + x.shape[1] % 3):
            return int8blas.max_pool(x, 3, strides=2, padding=1)

    with ThreadPoolExecutor(8) as pool:
        for x, result in zip(problems, pool.map(solve, problems), strict=True):
            assert_same(result, reference.max_pool(x, 3, strides=2, padding=1))


def test_other_python_threads_run_during_a_call(rng):
    x = image(rng, np.uint8, 2, (64, 64), 64, "nhwc", 1)
    out = int8blas.max_pool(x, 2)
    assert_other_threads_run_during(lambda: int8blas.max_pool(x, 2, out=out))


FORK = """
import os, sys, warnings
import numpy as np, int8blas

warnings.simplefilter("ignore", DeprecationWarning)
x = np.arange(200 * 200 * 64, dtype=np.uint32).astype(np.uint8).reshape(1, 200, 200, 64)
with int8blas.num_threads(4):
    expected = int8blas.max_pool(x, 3)
    child = os.fork()
    if child == 0:
        os._exit(0 if (int8blas.max_pool(x, 3) == expected).all() else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_a_fork():
    process = run_python("-c", FORK)
    assert process.stdout == "0\n", process.stderr


def test_numpy_integers_and_arrays_are_sizes(rng):
    x = image(rng, np.uint8, 2, (7, 9), 3, "nhwc")
    expected = reference.max_pool(x, (2, 3), strides=2, padding=(1, (0, 2)))
    padding = (np.int64(1), np.array([0, 2]))
    assert_same(int8blas.max_pool(x, np.array([2, 3]), strides=np.int32(2), padding=padding), expected)
    assert_same(int8blas.max_pool(x, [2, 3], strides=[2, 2], padding=np.array([[1, 1], [0, 2]])), expected)


# --- gaps between elements -------------------------------------------------------------------------------------------


@st.composite
def problems(draw):
    spatial = draw(st.integers(1, 3))
    layout = draw(st.sampled_from(LAYOUTS[spatial]))
    kernel = draw(st.tuples(*[st.integers(1, 5)] * spatial))
    strides = draw(st.tuples(*[st.integers(1, 4)] * spatial))
    padding = tuple(draw(st.tuples(*[st.integers(0, k - 1)] * 2)) for k in kernel)
    sizes = [draw(st.integers(max(1, k - sum(p)), k + 9)) for k, p in zip(kernel, padding, strict=True)]
    channels = draw(st.sampled_from(CHANNELS[:12]))
    return layout, sizes, channels, kernel, {"strides": strides, "padding": padding}


@given(
    problem=problems(),
    dtype=st.sampled_from(DTYPES),
    order=st.sampled_from(sorted(ORDERS)),
    isa=st.sampled_from(int8blas.available_isas()),
    seed=st.integers(0, 99),
)
def test_any_windows_of_any_image(problem, dtype, order, isa, seed):
    layout, sizes, channels, kernel, options = problem
    x = ORDERS[order](image(np.random.default_rng(seed), dtype, len(sizes), sizes, channels, layout, 1))
    with int8blas.use_isa(isa):
        check_windows(x, kernel, layout=layout, **options)
        check_global(x, layout)
