"""A packed B that is split, without VNNI, into a dense part with sums in 16 bits and outliers."""

import tracemalloc

import numpy as np
import pytest
import reference
from arrays import WITHOUT_VNNI, assert_first_products, assert_same

import int8blas

# K around multiples of 8, 16 and 1024, and in several blocks; complete and incomplete panels and tiles of rows.
SHAPES = (
    (24, 48, 1), (20, 50, 7), (64, 48, 64), (7, 24, 500), (12, 33, 513), (61, 130, 300), (97, 63, 511), (70, 65, 1024),
    (71, 49, 1027),
)  # fmt: skip
LONGER = ((33, 67, 2100), (21, 49, 66003))
# 255 * 128 and 255 * -128 are the largest products within 16 bits.
FOURS = (
    (32, 32, 32, 32), (32, 32, 32, 33), (-32, -32, -32, -32), (-33, -32, -32, -32), (127, 1, 0, 0), (127, 0, 2, 0),
    (-128, 0, 0, 0), (-128, 0, 0, -1), (127, 127, 127, 127), (-128, -128, -128, -128), (127, -128, 127, -128),
    (127, 127, -128, -128), (65, 64, -64, -65), (64, 64, 64, 64), (-128, -128, 1, 1),
)  # fmt: skip


def normal(rng, k, n):
    """Normally distributed weights with a scale for each column."""
    w = rng.standard_normal((k, n))
    return np.rint(w * (127 / np.abs(w).max(axis=0))).astype(np.int8)


def small(rng, k, n):
    """Values of 5 bits, and a few of all 8."""
    return np.where(rng.random((k, n)) < 0.01, rng.integers(-128, 128, (k, n)), rng.integers(-16, 16, (k, n))).astype(
        np.int8
    )


def no_outliers(rng, k, n):
    return rng.integers(-32, 33, (k, n), np.int8)


def mixed(rng, k, n):
    """Some panels that are split, and some that are not."""
    b = small(rng, k, n)
    b[:, 16:32] = rng.integers(-128, 128, b[:, 16:32].shape)
    return b


@pytest.mark.parametrize("weights", [normal, small, no_outliers, mixed])
def test_products_are_exact(isa, pair, weights, rng):
    for m, n, k in SHAPES:
        b = weights(rng, k, n)
        if pair.b_dtype == np.uint8:
            b = (b.astype(int) + 128).astype(np.uint8)
        low, high = np.iinfo(pair.a_dtype).min, np.iinfo(pair.a_dtype).max
        packed = int8blas.pack_b(b)
        for a in (rng.integers(low, high + 1, (m, k), pair.a_dtype), np.full((m, k), high, pair.a_dtype)):
            assert_same(pair.gemm(1, a, packed), reference.gemm(1, a, b), m=m, n=n, k=k)
        expected = reference.gemm(0.5, a, b, ao=3, bo=-1 if pair.b_dtype == np.int8 else 1, co=7)
        result = pair.gemm(0.5, a, packed, ao=3, bo=-1 if pair.b_dtype == np.int8 else 1, co=7)
        assert_same(result, expected, m=m, n=n, k=k)


@pytest.mark.parametrize("m", [32, 63, 64, 150])
def test_a_with_any_strides(isa, pair, m, rng):
    b = small(rng, 200, 64)
    if pair.b_dtype == np.uint8:
        b = (b.astype(int) + 128).astype(np.uint8)
    packed = int8blas.pack_b(b)
    low, high = np.iinfo(pair.a_dtype).min, np.iinfo(pair.a_dtype).max
    wide = rng.integers(low, high + 1, (2 * m, 400), pair.a_dtype)
    rows = wide[:m, :200]
    for a in (rows, np.asfortranarray(rows), wide[::2, ::2], rows[::-1, ::-1], np.broadcast_to(rows[:1], rows.shape)):
        assert_same(pair.gemm(1, a, packed), reference.gemm(1, a, b), strides=a.strides)


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_of_k_and_wide_sums(isa, threads, rng):
    for m, n, k in LONGER:
        a, b = np.full((m, k), 255, np.uint8), small(rng, k, n)
        b[:, 0] = 127
        packed = int8blas.pack_b(b)
        with int8blas.num_threads(threads):
            assert_same(int8blas.matmul(a, packed), reference.gemm(1, a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("four", FOURS)
def test_around_the_boundary_of_16_bits(isa, four):
    k = np.array([0, 1, 4, 5])
    for first in (0, 2, 8, 10, 120):
        b = np.zeros((128, 50), np.int8)
        b[first + k, 3] = four
        b[first + k, 49] = four[::-1]
        a = np.full((24, 128), 255, np.uint8)
        a[0] = np.arange(128) % 2 * 255
        a[1] = 255 - a[0]
        assert_same(int8blas.matmul(a, int8blas.pack_b(b)), reference.gemm(1, a, b), first=first)


def test_layers(isa, rng):
    w = normal(rng, 500, 70).T
    x = rng.integers(0, 256, (40, 500), np.uint8)
    assert int8blas.explain(x, int8blas.pack_b(w, trans_b=True)).split_panels in (None, (5, 5))
    assert_same(int8blas.InnerProduct(w, src_dtype=np.uint8, dst_dtype=np.int32)(x), x.astype(np.int32) @ w.T)
    dynamic = int8blas.InnerProduct(
        w, src_dtype=np.float32, dst_dtype=np.float32, dynamic="per_row", scales={"weights": np.float32(0.01)}
    )
    source = rng.standard_normal((40, 500)).astype(np.float32)
    result = dynamic(source)
    with int8blas.use_isa("ref"):
        assert_same(result, dynamic(source))
    for groups in (1, 2):
        filters = normal(rng, 9 * 32 // groups, 96).T.reshape(96, 32 // groups, 3, 3)
        if groups > 1:
            filters = filters.reshape(groups, 96 // groups, 32 // groups, 3, 3)
        layer = int8blas.Convolution(
            filters, padding=1, groups=groups, layout="nhwc", src_dtype=np.uint8, dst_dtype=np.int32
        )
        image = rng.integers(0, 256, (1, 9, 11, 32), np.uint8)
        result = layer(image)
        with int8blas.use_isa("ref"):
            assert_same(result, layer(image), groups=groups)


def test_threads_may_use_a_matrix_for_the_first_time_together(isa, rng):
    assert_first_products(isa, rng.integers(0, 256, (64, 700), np.uint8), normal(rng, 700, 400))


@pytest.mark.parametrize("isa_without_vnni", WITHOUT_VNNI)
def test_explain_counts_the_panels(isa_without_vnni, rng):
    a = np.zeros((64, 600), np.uint8)
    with int8blas.use_isa(isa_without_vnni):
        plan = int8blas.explain(a, int8blas.pack_b(mixed(rng, 600, 80)))
        assert plan.split_panels == (4, 5)
        assert "4 of 5 panels are a dense part, with sums in 16 bits, and outliers" in str(plan)
        assert int8blas.explain(a, mixed(rng, 600, 80)).split_panels is None
        assert int8blas.explain(a, int8blas.pack_b(mixed(rng, 600, 80)), numerics="saturating").split_panels is None


@pytest.mark.parametrize("isa_without_vnni", WITHOUT_VNNI)
def test_few_rows_do_not_make_a_dense_part(isa_without_vnni, rng):
    b = small(rng, 2048, 2048)
    packed, layer = int8blas.pack_b(b), int8blas.InnerProduct(b.T, src_dtype=np.uint8, dst_dtype=np.int32)
    a = rng.integers(0, 256, (6, 2048), np.uint8)
    products = (
        lambda a: int8blas.matmul(a, packed), lambda a: int8blas.gemm_u8s8s32(1, a, packed), layer,
        lambda a: int8blas.matmul(a.reshape(-1, 1, 2048), packed),
    )  # fmt: skip
    tracemalloc.start()
    try:
        with int8blas.use_isa(isa_without_vnni):
            for product in products:
                product(a)
            few, _ = tracemalloc.get_traced_memory()
            for product in products:
                product(np.tile(a, (2, 1)))
            many, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert few < b.nbytes / 4
    assert many > 2 * b.nbytes
