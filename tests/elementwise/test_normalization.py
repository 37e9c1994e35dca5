"""Softmax and layer normalization have the bits of their oracles, and nothing but their result is written."""

from itertools import product

import numpy as np
import pytest
import reference_normalization as reference
from arrays import BROADCASTS, LAYOUTS, Canary, assert_same, guarded, needs_mprotect, place, with_strides
from elementwise import random_floats, random_integers
from layers import assert_same_bits, name_of

import int8blas
from int8blas.elementwise.normalization import layer_norm_of_sum, rms_norm

SRC_DTYPES = (np.uint8, np.int8, np.int32, np.float32, np.float16)
DST_DTYPES = (np.uint8, np.int8, np.float32, np.float16)
LENGTHS = (*range(1, 101), 127, 128, 129, 384, 511, 512, 513, 1000, 4097)
FEW_LENGTHS = (1, 15, 16, 17, 64, 100, 130)

every_function = pytest.mark.parametrize("name", ["softmax", "log softmax", "layer_norm"])
every_src = pytest.mark.parametrize("src_dtype", SRC_DTYPES, ids=name_of)
every_dst = pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)


def random_rows(rng, dtype, shape):
    """Rows of values that are close to each other; int32 values have all magnitudes."""
    if np.dtype(dtype).kind == "f":
        return (rng.standard_normal(shape) * 5).astype(dtype)
    return random_integers(rng, dtype, shape)


def call(name, rng, src_dtype, dst_dtype, n):
    """A function and its oracle, with parameters for rows of n elements."""
    integer = np.dtype(dst_dtype).kind in "iu"
    scales = {"src": {np.int32: 3e-9, np.uint8: 0.05, np.int8: 0.05}.get(src_dtype, 0.7)}
    options = {"scales": scales, "dst_dtype": dst_dtype}
    if integer:
        scales["dst"] = 0.03 if name != "softmax" else 1 / 255
        options["zero_points"] = {"dst": {"softmax": 0, "log softmax": 120, "layer_norm": 3}[name]}
    if name == "layer_norm":
        options["gamma"], options["beta"] = rng.standard_normal((2, n)).astype(np.float32)
        options["epsilon"] = 1e-3
    elif name == "log softmax":
        options["log"] = True
    function = name.split()[-1]
    return (
        lambda x, **more: getattr(int8blas, function)(x, **options, **more),
        lambda x, **more: getattr(reference, function)(x, **options, **more),
    )


@every_function
@every_dst
@every_src
def test_rows_of_every_length(isa, name, src_dtype, dst_dtype, rng):
    for n in LENGTHS:
        x = random_rows(rng, src_dtype, (3, n))
        ours, oracle = call(name, rng, src_dtype, dst_dtype, n)
        assert_same(ours(x), oracle(x), n=n)


@every_function
def test_a_very_long_row(isa, name, rng):
    x = random_rows(rng, np.float32, (1, 300_001))
    ours, oracle = call(name, rng, np.float32, np.float32, x.size)
    assert_same(ours(x), oracle(x))


@every_src
def test_equal_and_extreme_values(isa, src_dtype, rng):
    if np.dtype(src_dtype).kind == "f":
        values = [0, -0.0, 1, np.finfo(src_dtype).max, np.finfo(src_dtype).min, np.finfo(src_dtype).tiny]
    else:
        values = [0, 1, np.iinfo(src_dtype).min, np.iinfo(src_dtype).max]
    for n, name in product(FEW_LENGTHS, ("softmax", "log softmax", "layer_norm")):
        ours, oracle = call(name, rng, src_dtype, np.float32, n)
        equal = np.array(values, src_dtype)[:, None].repeat(n, 1)
        ends = rng.choice(equal[-2:, 0] if np.dtype(src_dtype).kind != "f" else equal[3:5, 0], (4, n))
        for x in (equal, ends):
            assert_same_bits(ours(x), oracle(x), n=n, name=name)


@pytest.mark.parametrize("src_dtype", [np.float32, np.float16], ids=name_of)
@every_dst
@every_function
def test_nan_and_infinities(isa, name, src_dtype, dst_dtype, rng):
    for n, special in product(FEW_LENGTHS, (np.nan, np.inf, -np.inf)):
        x = random_rows(rng, src_dtype, (4, n))
        x[0, rng.integers(n)] = x[1, 0] = x[2, n - 1] = special
        x[3] = special
        ours, oracle = call(name, rng, src_dtype, dst_dtype, n)
        assert_same_bits(ours(x), oracle(x), n=n, special=special)


def test_floats_of_all_magnitudes(isa, rng):
    x = random_floats(rng, (50, 40))
    for name in ("softmax", "log softmax", "layer_norm"):
        ours, oracle = call(name, rng, np.float32, np.float32, 40)
        assert_same_bits(ours(x), oracle(x), name=name)


def test_masked_scores_are_zero(isa):
    x = np.array([[1, -np.inf, 2, -np.inf]], np.float32)
    assert_same(int8blas.softmax(x)[:, [1, 3]], np.zeros((1, 2), np.float32))
    result = int8blas.softmax(x * np.nan, scales={"dst": 1 / 255}, zero_points={"dst": 7}, dst_dtype=np.uint8)
    assert_same(result, np.full((1, 4), 7, np.uint8))


def test_near_the_exact_values(isa, rng):
    x = rng.standard_normal((20, 300)) * 4
    e = np.exp(x - x.max(axis=1, keepdims=True))
    exact = e / e.sum(axis=1, keepdims=True)
    x = x.astype(np.float32)
    np.testing.assert_allclose(int8blas.softmax(x), exact, rtol=2e-6)
    np.testing.assert_allclose(int8blas.softmax(x, log=True), np.log(exact), rtol=1e-6, atol=1e-6)
    centered = x - x.mean(axis=1, keepdims=True, dtype=np.float64)
    exact = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(int8blas.layer_norm(x), exact, rtol=1e-5, atol=1e-6)


def test_softmax_errors_are_within_the_bound(isa, rng):
    for size, n in product((0.1, 1, 10, 80), (2, 17, 100, 5000)):
        x = (rng.standard_normal((5, n)) * size).astype(np.float32)
        t = x.astype(np.float64) - x.max(axis=1, keepdims=True)
        total = np.exp(t).sum(axis=1, keepdims=True)
        exact, log = np.exp(t) / total, t - np.log(total)
        bound = (10 + 4 * np.abs(t).clip(0, 87.3).max(axis=1, keepdims=True) + n / 64) * 2.0**-24
        normal = exact >= 2.0**-126
        assert (np.abs(int8blas.softmax(x) - exact) <= bound * exact)[normal].all()
        assert (int8blas.softmax(x)[~normal] <= 2.0**-126).all()
        spacing = np.spacing(np.abs(log).astype(np.float32))
        assert (np.abs(int8blas.softmax(x, log=True) - log) <= bound + 2 * spacing).all()


def exact_layer_norm(x, scale=1.0, epsilon=0.0):
    """Layer normalization in float64, scaled so that nothing overflows."""
    wide = x.astype(np.longdouble) * scale
    d = wide - wide.mean(axis=1, keepdims=True)
    return (d / np.sqrt((d * d).mean(axis=1, keepdims=True) + epsilon)).astype(np.float64)


def assert_near(result, exact):
    """Check within 8 units in the last place of the largest result of a row; a mean may be off by half of 2**-149."""
    largest = np.abs(exact).max(axis=1, keepdims=True).astype(np.float32)
    assert (np.abs(result - exact) <= 8 * np.spacing(largest) + 2.0**-140).all()


def test_layer_norm_of_rows_whose_squares_overflow(isa):
    x = np.float32([[1e20, -1e20, 0, 1e19]])
    np.testing.assert_allclose(int8blas.layer_norm(x), [[1.3761, -1.4467, -0.0353, 0.1058]], atol=5e-4)
    x = np.float32([[3e38, 3e38, -3e38, 1e38], [3.4e38, 3.3e38, 3.4e38, 3.4e38]])  # the sum overflows as well
    assert_near(int8blas.layer_norm(x), exact_layer_norm(x))


@pytest.mark.parametrize("size", [1e-44, 1e-40, 1e-30, 1e-20, 1e-10, 1, 1e10, 1e18, 1e20, 1e30, 1e38])
def test_layer_norm_of_every_magnitude(isa, size, rng):
    for n in FEW_LENGTHS[1:]:
        x = (rng.standard_normal((5, n)) * size).clip(-3e38, 3e38).astype(np.float32)
        x = x[(x != x[:, :1]).any(axis=1)]
        assert_near(int8blas.layer_norm(x, epsilon=0), exact_layer_norm(x))
        assert_same_bits(int8blas.layer_norm(x, epsilon=0), reference.layer_norm(x, epsilon=0))
        epsilon = np.float32(1e-5)
        assert_near(int8blas.layer_norm(x, epsilon=epsilon), exact_layer_norm(x, epsilon=float(epsilon)))


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-20, 1e-10, 1, 1e10, 1e20, 1e38])
def test_layer_norm_with_scales_of_every_magnitude(isa, scale, rng):
    x = random_integers(rng, np.int8, (5, 100))
    for epsilon in (0, 1e-5, 1e-40):
        options = {"scales": {"src": scale}, "epsilon": epsilon}
        exact = exact_layer_norm(x, np.longdouble(np.float32(scale)), float(np.float32(epsilon)))
        assert_near(int8blas.layer_norm(x, **options), exact)
        assert_same_bits(int8blas.layer_norm(x, **options), reference.layer_norm(x, **options))


@pytest.mark.parametrize("mean", [100, 1e4, -1e6, 1e7])
def test_layer_norm_of_rows_with_a_large_mean(isa, mean, rng):
    for n in FEW_LENGTHS[2:]:
        x = (rng.standard_normal((5, n)) + mean).astype(np.float32)
        assert_near(int8blas.layer_norm(x), exact_layer_norm(x, epsilon=1e-5))
        assert_same_bits(int8blas.layer_norm(x), reference.layer_norm(x))


def test_layer_norm_of_constant_rows_is_beta(isa):
    for n, value in product((2, 3, 7, 100, 1000), (0, 0.1, 1e20 / 3, -3e38, 333333.34, 1e-45)):
        x = np.full((2, n), value, np.float32)
        assert_same(int8blas.layer_norm(x, beta=np.full(n, 0.5)), np.full((2, n), 0.5, np.float32), value=value, n=n)


def test_layer_norm_of_a_sum(isa, rng):
    """The fused call has the bits of both steps: for few and many rows, for lengths with and without a remainder, for
    rows that are computed twice, and for arrays of other shapes or types."""
    for shape in ((1, 16), (3, 17), (2, 5, 192), (9, 100), (700, 33), (5, 1040), (4, 7), (2, 0), (0, 20)):
        gamma, beta = rng.standard_normal((2, shape[-1])).astype(np.float32)
        x, y = random_rows(rng, np.float32, (2, *shape))
        x[..., :1, :] *= np.float32(1e25)
        wanted = int8blas.layer_norm(x + y, gamma, beta, epsilon=1e-3)
        assert_same_bits(layer_norm_of_sum(x, y, gamma, beta, epsilon=1e-3), wanted)
        assert_same_bits(layer_norm_of_sum(x, y[..., :1, :], gamma), int8blas.layer_norm(x + y[..., :1, :], gamma))
        assert_same_bits(layer_norm_of_sum(x, np.asfortranarray(y)), int8blas.layer_norm(x + y))
    x, y = random_rows(rng, np.float16, (2, 3, 40))
    assert_same_bits(layer_norm_of_sum(x, y), int8blas.layer_norm(x + y))


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_summands_beside_protected_memory(isa, side, rng):
    for shape in ((5, 16), (6, 41)):
        x, y = (place(random_rows(rng, np.float32, shape), "C", guarded(side)) for _ in range(2))
        assert_same_bits(layer_norm_of_sum(x, y), int8blas.layer_norm(x + y))


def test_the_zero_point_of_the_source_cancels(isa, rng):
    x = random_integers(rng, np.uint8, (5, 70))
    for function in (int8blas.softmax, int8blas.layer_norm):
        options = {"scales": {"src": 0.05}}
        assert_same(function(x, zero_points={"src": 77}, **options), function(x, **options))


def test_defaults(isa, rng):
    x = random_rows(rng, np.float32, (6, 50))
    assert_same(int8blas.softmax(x), reference.softmax(x))
    assert_same(int8blas.layer_norm(x), reference.layer_norm(x))
    gamma, beta = random_rows(rng, np.float32, (2, 50))
    assert_same(int8blas.layer_norm(x, gamma), reference.layer_norm(x, gamma))
    assert_same(int8blas.layer_norm(x, None, beta), reference.layer_norm(x, None, beta))
    assert_same(int8blas.layer_norm(x, gamma[::-1], beta), reference.layer_norm(x, gamma[::-1], beta))
    assert_same(int8blas.layer_norm(x, epsilon=0), reference.layer_norm(x, epsilon=0))


# --- arrays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 21, 9, 11), (3, 40, 1, 20), (100, 2), (7,), (5, 1)])
def test_axis(isa, shape, rng):
    for dtype, axis in product((np.int32, np.int8), range(-len(shape), len(shape))):
        x = random_rows(rng, dtype, shape)
        options = {"scales": {"src": 3e-9 if dtype == np.int32 else 0.1, "dst": 1 / 256}, "dst_dtype": np.uint8}
        for array in (x, np.asfortranarray(x), x[..., ::-1], x.transpose(np.roll(range(x.ndim), 1))):
            result = int8blas.softmax(array, axis, **options)
            assert_same(result, reference.softmax(array, axis, **options), axis=axis, dtype=dtype)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
@every_src
def test_softmax_of_rows_side_by_side(isa, src_dtype, side, rng):
    for n, columns, log in product((1, 2, 63, 64, 65, 200), (16, 17, 40), (False, True)):
        dst_dtype = DST_DTYPES[n % len(DST_DTYPES)]
        options = {"scales": {"src": 0.1, "dst": 1 / 32}, "dst_dtype": dst_dtype, "log": log}
        x = random_rows(rng, src_dtype, (n, columns))
        if np.dtype(src_dtype).kind == "f":
            x[0, 3], x[n // 2, 5] = -np.inf, np.nan
        source = with_strides(x, (columns, 1), guarded(side))
        out = with_strides(np.zeros(x.shape, dst_dtype), (columns, 1), guarded(side))
        expected = reference.softmax(x, 0, **options)
        assert_same_bits(int8blas.softmax(source, 0, out=out, **options), expected, n=n, columns=columns, log=log)
        assert_same_bits(int8blas.softmax(np.stack([x, x]), 1, **options)[1], expected, n=n, columns=columns, log=log)
        if dst_dtype == src_dtype:
            assert_same_bits(int8blas.softmax(x, 0, out=x, **options), expected, n=n, columns=columns, log=log)


@every_function
@pytest.mark.parametrize("layout", [*LAYOUTS, *BROADCASTS])
def test_any_strides_of_src(isa, name, layout, rng):
    for dtype, shape in product((np.int8, np.float16, np.int32), ((1, 1), (3, 17), (33, 70), (700, 20))):
        x = place(random_rows(rng, dtype, shape), layout, misalign=1)
        ours, oracle = call(name, rng, dtype, np.int8, shape[1])
        assert_same(ours(x), oracle(np.array(x)), shape=shape, dtype=dtype)


@every_function
@pytest.mark.parametrize("misalign", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides_of_out_and_nothing_else_is_written(isa, name, layout, misalign, rng):
    for dtype, shape in product(DST_DTYPES, ((1, 1), (3, 17), (33, 70), (5, 16))):
        x = random_rows(rng, np.float32, shape)
        ours, oracle = call(name, rng, np.float32, dtype, shape[1])
        canary = Canary()
        out = place(np.zeros(shape, dtype), layout, canary, misalign)
        assert ours(x, out=out) is out
        assert_same(out, oracle(x), shape=shape, dtype=dtype)
        canary.assert_only_elements_written(out)


@needs_mprotect
@every_function
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_is_read_or_written(isa, name, side, rng):
    for dtypes, n in product(((np.uint8, np.int8), (np.int32, np.float32), (np.float32, np.uint8)), FEW_LENGTHS):
        x = with_strides(random_rows(rng, dtypes[0], (2, n)), (n, 1), guarded(side))
        ours, oracle = call(name, rng, *dtypes, n)
        out = with_strides(np.zeros((2, n), dtypes[1]), (n, 1), guarded(side))
        ours(x, out=out)
        assert_same(out, oracle(x), n=n)
    gamma, beta = (with_strides(random_rows(rng, np.float32, 37), (1,), guarded(side)) for _ in range(2))
    x = random_rows(rng, np.float32, (2, 37))
    assert_same(int8blas.layer_norm(x, gamma, beta), reference.layer_norm(x, gamma, beta))


@pytest.mark.parametrize("offset", [0, 1, 4, 64, 100, -64])
def test_out_may_overlap_src(isa, offset, rng):
    for shape, dtype in product(((5, 40), (40, 5)), (np.float32, np.uint8)):
        values = random_rows(rng, np.float32, shape)
        ours, oracle = call("softmax", rng, np.float32, dtype, shape[1])
        memory = np.zeros(3000, np.uint8)
        x = memory[800:1600].view(np.float32).reshape(shape)
        x[:] = values
        size = np.dtype(dtype).itemsize
        start = 800 + offset // size * size
        out = memory[start : start + 200 * size].view(dtype).reshape(shape)
        ours(x, out=out)
        assert_same(out, oracle(values), shape=shape)


@pytest.mark.parametrize("n", [5, 16, 100])
def test_out_may_overlap_gamma_and_beta(isa, n, rng):
    for offset in (0, 3, n, 2 * n):
        memory = rng.standard_normal(5 * n).astype(np.float32)
        x, out = random_rows(rng, np.float32, (3, n)), memory[: 3 * n].reshape(3, n)
        gamma, beta = memory[offset : offset + n], memory[offset + n : offset + 2 * n]
        expected = reference.layer_norm(x, gamma.copy(), beta.copy())
        assert_same(int8blas.layer_norm(x, gamma, beta, out=out), expected, offset=offset)


@every_function
def test_out_may_be_src_itself(isa, name, rng):
    for shape in ((30, 41), (41, 7)):
        ours, oracle = call(name, rng, np.float32, np.float32, shape[1])
        x = random_rows(rng, np.float32, shape)
        for view in (lambda a: a, lambda a: a[::-1], lambda a: a[:, ::-1]):
            out = x.copy()
            ours(view(out), out=view(out))
            assert_same(view(out), oracle(view(x)), shape=shape)
            out = x.copy()
            ours(out, out=view(out))
            assert_same(view(out), oracle(x), shape=shape)
    q = random_rows(rng, np.int8, (30, 41))
    ours, oracle = call(name, rng, np.int8, np.uint8, 41)
    expected = oracle(q)
    ours(q, out=q.view(np.uint8))
    assert_same(q.view(np.uint8), expected)


def test_empty_arrays():
    for shape in ((0,), (0, 5), (5, 0), (2, 0, 3)):
        x = np.zeros(shape, np.float32)
        for function in (int8blas.softmax, int8blas.layer_norm):
            assert_same(function(x), x)
            out = x.astype(np.uint8)
            assert function(x, dst_dtype=np.uint8, out=out) is out
        assert_same(int8blas.softmax(x, 0), x)


def test_a_new_array_has_the_order_of_src(rng):
    x = random_rows(rng, np.float32, (3, 4, 5))
    assert int8blas.softmax(x).flags.c_contiguous
    assert int8blas.softmax(x.T, 1).flags.f_contiguous


def test_arguments_are_never_written(rng):
    x, gamma, beta = (random_rows(rng, np.float32, shape) for shape in ((5, 70), 70, 70))
    for array in (x, gamma, beta):
        array.flags.writeable = False
    assert_same(int8blas.layer_norm(x, gamma, beta), reference.layer_norm(x, gamma, beta))
    assert_same(int8blas.softmax(x), reference.softmax(x))


@every_function
def test_any_number_of_threads_gives_the_same_bits(isa, name, rng):
    for shape in ((1000, 100), (3, 40_000), (10_000, 9)):
        x = random_rows(rng, np.int32, shape)
        ours, oracle = call(name, rng, np.int32, np.uint8, shape[1])
        expected = oracle(x)
        for threads in (1, 2, 3, 4):
            with int8blas.num_threads(threads):
                assert_same(ours(x), expected, threads=threads)
                assert_same(ours(np.asfortranarray(x)), expected, threads=threads)


def test_the_oracles_exponential_is_that_of_the_kernels(isa):
    x = np.linspace(-110, 0, 10_001, dtype=np.float32)[:, None] * np.array([0, 1], np.float32)
    assert_same_bits(int8blas.softmax(x), reference.softmax(x))


def test_int32_beyond_the_integers_of_float32(isa, rng):
    """A large common part of all elements of a row cancels before they are rounded to float32."""
    near = np.array([[0, 2, 4, 6], [-6, 1, 1, 9]], np.int64)
    for base in (2**24 + 1, -(2**24) - 1, 2**31 - 10, -(2**31) + 6):
        src = (near + base).astype(np.int32)
        actual = int8blas.layer_norm(src, scales={"src": 0.5})
        assert_same_bits(actual, int8blas.layer_norm((near - near[:, :1]).astype(np.int32), scales={"src": 0.5}))
        assert_same_bits(int8blas.layer_norm(src.T.copy().T, scales={"src": 0.5}), actual)
    np.testing.assert_allclose(int8blas.layer_norm(np.int32([[2**24 + 1, 2**24 + 3, 2**24 + 5, 2**24 + 7]])),
                               [[-1.3416, -0.4472, 0.4472, 1.3416]], atol=1e-4)  # fmt: skip
    wide = rng.integers(-(2**31), 2**31, (5, 100), np.int32)
    exact = wide.astype(np.float64)
    expected = (exact - exact.mean(axis=1, keepdims=True)) / exact.std(axis=1, keepdims=True)
    np.testing.assert_allclose(int8blas.layer_norm(wide), expected, rtol=0, atol=1e-6)


def test_rows_of_small_int32_do_not_change_beside_large_ones(isa, rng):
    src = rng.integers(-(2**24), 2**24, (6, 77), np.int32, endpoint=True)
    small = int8blas.layer_norm(src)
    src[3] += 2**30
    assert_same_bits(np.delete(int8blas.layer_norm(src), 3, axis=0), np.delete(small, 3, axis=0))


def test_rms_norm(isa, rng):
    for n in (1, 15, 63, 64, 65, 127, 256, 1000):
        x, gamma = rng.normal(0, 3, (4, 3, n)).astype(np.float32), rng.normal(0, 1, n).astype(np.float32)
        for array in (x, x[::2], x[:, 0]):
            assert_same_bits(rms_norm(array, gamma, epsilon=1e-6), reference.rms_norm(array, gamma, 1e-6))
    with pytest.raises(ValueError, match="gamma must have shape"):
        rms_norm(x, gamma[1:])
