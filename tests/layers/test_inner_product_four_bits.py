"""InnerProduct with weights of 4 bits: the formula in NumPy, each operation in float32 and in its order."""

import copy
import io
import pickle
from itertools import product

import numpy as np
import pytest
import reference_quantized
from arrays import assert_same, random_values
from errors import refused
from layers import assert_same_bits

import int8blas
from int8blas import Attributes, InnerProduct

RANGES = {np.int8: (-8, 7), np.uint8: (0, 15)}
TYPES = pytest.mark.parametrize("dtype", RANGES, ids=["int4", "uint4"])
# (M, N, K, k of a group): few rows and more, whole panels and not, a last group that is shorter.
SHAPES = (
    (1, 1, 8, 8), (1, 50, 64, 32), (2, 130, 1024, 128), (3, 64, 48, 16), (4, 33, 96, 32), (5, 48, 256, 128),
    (9, 65, 64, 64), (20, 17, 72, 8), (70, 100, 256, 32), (1, 20, 70, 32), (4, 16, 33, 16), (9, 30, 100, 64),
)  # fmt: skip


def values(rng, dtype, shape):
    return rng.integers(*RANGES[dtype], shape, dtype, endpoint=True)


def grouped(src, weights, group, scales, ao=0, zeros=0, row_scale=None):
    """The sums of the groups, scaled and added in float32 one after the other; integer `src`."""
    y = None
    for g in range(len(scales)):
        part = slice(g * group, (g + 1) * group)
        zero = zeros[g] if np.ndim(zeros) else zeros
        a = src[:, part].astype(np.int64) - np.reshape(ao, (-1, 1))
        sums = a @ (weights[:, part].astype(np.int64).T - zero)
        scale = scales[g][None] * (np.float32(1) if row_scale is None else np.reshape(row_scale, (-1, 1)))
        x = sums.astype(np.float32) * scale.astype(np.float32)
        y = x if y is None else y + x
    return y


def quantized(src):
    """Each row in int8, symmetric, and its scale."""
    largest = np.abs(src).max(axis=1).astype(np.float32)
    scale = np.maximum(largest / np.float32(127), np.finfo(np.float32).smallest_normal)
    return np.rint(src * (np.float32(1) / scale)[:, None]).astype(np.int8), scale


@TYPES
@pytest.mark.parametrize("src_dtype", [np.uint8, np.int8], ids=["u8", "s8"])
def test_groups_of_a_static_source(isa, dtype, src_dtype, rng):
    info = np.iinfo(src_dtype)
    for m, n, k, group in SHAPES:
        groups = -(-k // group)
        src, weights = random_values(rng, src_dtype, (m, k)), values(rng, dtype, (n, k))
        scales = rng.uniform(0.01, 0.1, (groups, n)).astype(np.float32)
        for ao, zeros in product(
            (0, 5, info.max), (None, RANGES[dtype][1], values(rng, dtype, n), values(rng, dtype, (groups, n)))
        ):
            zero_points = {"src": ao} | ({} if zeros is None else {"weights": zeros})
            layer = InnerProduct(weights, src_dtype=src_dtype, dst_dtype=np.float32, scales={"weights": scales},
                                 zero_points=zero_points, group=group, bits=4)  # fmt: skip
            full = 0 if zeros is None else np.broadcast_to(zeros, (groups, n))
            expected = grouped(src, weights, group, scales, ao, full)
            assert_same_bits(layer(src), expected, m=m, n=n, k=k, ao=ao)
        rows = random_values(rng, src_dtype, m).astype(np.int32)
        layer = InnerProduct(weights, src_dtype=src_dtype, dst_dtype=np.float32, scales={"weights": scales},
                             zero_points={"src": rows}, group=group, bits=4)  # fmt: skip
        assert_same_bits(layer(src), grouped(src, weights, group, scales, rows), m=m, n=n, k=k)


@TYPES
def test_groups_of_a_dynamic_source(isa, dtype, rng):
    for m, n, k, group in SHAPES:
        groups = -(-k // group)
        weights, zeros = values(rng, dtype, (n, k)), values(rng, dtype, (groups, n))
        src = rng.normal(0, 1, (m, k)).astype(np.float32)
        scales = rng.uniform(0.01, 0.1, (groups, n)).astype(np.float32)
        integers, row_scale = quantized(src)
        # Scales that are all float16 are read as float16.
        for given, factors in product((None, zeros), (scales, scales.astype(np.float16).astype(np.float32))):
            layer = InnerProduct.dynamic(weights, scales={"weights": factors}, group=group, bits=4,
                                         zero_points=None if given is None else {"weights": given})  # fmt: skip
            expected = grouped(integers, weights, group, factors, 0, 0 if given is None else given, row_scale)
            assert_same_bits(layer(src), expected, m=m, n=n, k=k)


def test_more_rows_than_a_block(isa, rng):
    """Rows are made and multiplied in blocks that fit the L2 cache, which has at most 4 MiB."""
    m, n, k, group = 300, 20, 16384, 4096
    weights, src = values(rng, np.int8, (n, k)), rng.normal(0, 1, (m, k)).astype(np.float32)
    scales = rng.uniform(0.01, 0.1, (k // group, n)).astype(np.float32)
    integers, row_scale = quantized(src)
    layer = InnerProduct.dynamic(weights, scales={"weights": scales}, group=group, bits=4)
    for threads in (1, 3):
        with int8blas.num_threads(threads):
            assert_same_bits(layer(src), grouped(integers, weights, group, scales, 0, 0, row_scale), threads=threads)


@TYPES
@pytest.mark.parametrize("src_dtype", [np.uint8, np.int8], ids=["u8", "s8"])
def test_values_of_the_source_by_rows_and_groups(isa, dtype, src_dtype, rng):
    """Scales and zero points of the source, in or far outside its type, with each kind of zero points of weights."""
    for m, n, k, group in ((1, 50, 64, 32), (3, 64, 48, 16), (9, 65, 64, 64), (20, 17, 72, 8), (1, 20, 70, 32),
                           (9, 30, 100, 64)):  # fmt: skip
        groups = -(-k // group)
        src, weights = random_values(rng, src_dtype, (m, k)), values(rng, dtype, (n, k))
        of_weights = rng.uniform(0.01, 0.1, (groups, n)).astype(np.float32)
        zeros_of_src = [random_values(rng, src_dtype, shape).astype(np.int32) for shape in ((), m, (m, groups))]
        for factors, ao, bo in product(
            (np.float32(0.5), *(rng.uniform(-1, 1, shape).astype(np.float32) for shape in (m, (m, groups)))),
            (np.int32(0), *zeros_of_src, np.int32(-(2**31)), np.full((m, groups), 300, np.int32)),
            (np.int32(0), *(values(rng, dtype, shape).astype(np.int32) for shape in ((), n, (groups, n)))),
        ):
            scales, zeros = {"src": factors, "weights": of_weights}, {"src": ao, "weights": bo}
            types = {"src_dtype": src_dtype, "dst_dtype": np.float32, "group": group, "bits": 4}
            expected = expected_by_groups(src, weights, group, scales, zeros)
            layer = InnerProduct(weights, **types, scales=scales, zero_points=zeros)
            assert_same_bits(layer(src), expected, m=m, n=n, k=k, zeros=zeros, scales=np.shape(factors))
            masks = Attributes(scales={"src": mask(factors)}, zero_points={"src": mask(ao)})
            layer = InnerProduct(weights, **types, attributes=masks, scales={"weights": of_weights},
                                 zero_points={"weights": bo})  # fmt: skip
            given = {"scales": {"src": factors}, "zero_points": {"src": ao}}
            assert_same_bits(layer(src, **given), expected, m=m, n=n, k=k, zeros=zeros, scales=np.shape(factors))


@TYPES
def test_zero_points_of_weights_at_execution(isa, dtype, rng):
    """They come with an execution of a layer with whole groups, and need not be values of 4 bits."""
    for m, n, k, group in ((1, 50, 64, 32), (3, 64, 48, 16), (20, 17, 72, 8)):
        src, weights = random_values(rng, np.uint8, (m, k)), values(rng, dtype, (n, k))
        of_weights = rng.uniform(0.01, 0.1, (k // group, n)).astype(np.float32)
        for ao, bo in product((0, random_values(rng, np.uint8, (m, k // group))), ((), n, (k // group, n))):
            zeros = {"src": np.int32(ao), "weights": rng.integers(-300, 300, bo)}
            masks = Attributes(zero_points={"src": mask(ao), "weights": mask(zeros["weights"])})
            layer = InnerProduct(weights, src_dtype=np.uint8, dst_dtype=np.float32, attributes=masks,
                                 scales={"weights": of_weights}, group=group, bits=4)  # fmt: skip
            expected = expected_by_groups(src, weights, group, {"weights": of_weights}, zeros)
            assert_same_bits(layer(src, zero_points=zeros), expected, m=m, n=n, k=k, zeros=zeros)


def test_a_shorter_last_group_needs_the_zero_points_of_weights_when_it_is_created(rng):
    weights, scales = rng.integers(-8, 8, (20, 70), np.int8), rng.uniform(0.01, 0.1, (3, 20)).astype(np.float32)
    for bo in (0, 1, 3):
        with pytest.raises(ValueError, match=r"zero_points\['weights'\] must be given when the layer is created"):
            InnerProduct(weights, src_dtype=np.uint8, dst_dtype=np.float32, group=32, bits=4,
                         attributes=Attributes(zero_points={"weights": bo}), scales={"weights": scales})  # fmt: skip


def expected_by_groups(src, weights, group, scales, zeros):
    """The reference's result; the last group is completed by weights that are its zero points."""
    groups, n = scales["weights"].shape
    missing = groups * group - src.shape[1]
    last = np.broadcast_to(zeros["weights"], (groups, n))[-1]
    return reference_quantized.inner_product_by_groups(
        np.pad(src, ((0, 0), (0, missing))),
        np.concatenate([weights, np.broadcast_to(last.astype(weights.dtype)[:, None], (n, missing))], 1),
        dst_dtype=np.float32, scales=scales, zero_points=zeros,
    )  # fmt: skip


def mask(given):
    """The mask of one value, of a value for each row or channel, or of values by groups."""
    return (0, 1, 3)[np.ndim(given)]


@pytest.mark.parametrize("dynamic", ["per_row", "per_tensor"])
@pytest.mark.parametrize("dynamic_dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("group", [None, 16])
def test_dynamic_sources_are_those_of_eight_bits(isa, dynamic, dynamic_dtype, group, rng):
    for m, n, k in ((1, 50, 64), (4, 33, 96), (9, 64, 48)):
        weights = values(rng, np.int8, (n, k))
        scales = rng.uniform(0.01, 0.1, n if group is None else (k // group, n)).astype(np.float32)
        src = rng.normal(0.3, 1, (m, k)).astype(np.float32)
        arguments = {"scales": {"weights": scales}, "dynamic": dynamic, "dynamic_dtype": dynamic_dtype, "group": group}
        four = InnerProduct.dynamic(weights, rng.normal(0, 1, n), **arguments, bits=4)
        eight = InnerProduct.dynamic(weights, four.bias, **arguments)
        assert_same_bits(four(src), eight(src), m=m, n=n, k=k)


@TYPES
@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8, np.int32, np.float32, np.float16])
def test_without_groups_results_are_those_of_eight_bits(isa, dtype, dst_dtype, rng):
    for m, n, k in ((1, 50, 64), (2, 16, 9), (4, 33, 100), (9, 64, 48), (50, 40, 65), (2, 20, 0)):
        weights, src = values(rng, dtype, (n, k)), random_values(rng, np.int8, (m, k))
        for zeros in ({}, {"src": 3, "weights": 2}, {"weights": rng.integers(-5, 20, n)}):
            arguments = {
                "src_dtype": np.int8, "dst_dtype": dst_dtype, "zero_points": zeros,
                "scales": {"src": 0.1, "weights": rng.uniform(0.01, 0.1, n)}, "bias": rng.normal(0, 1, n),
            }  # fmt: skip
            four = InnerProduct(weights, **arguments, bits=4)
            assert_same_bits(four(src), InnerProduct(weights, **arguments)(src), m=m, n=n, k=k, zeros=zeros)
        exact = {"src_dtype": np.int8, "dst_dtype": np.int32}
        assert_same(InnerProduct(weights, **exact, bits=4)(src), InnerProduct(weights, **exact)(src), m=m)


@pytest.mark.parametrize("group", [None, 32, 24])
def test_real_weights(isa, group, rng):
    w = rng.normal(0, 1, (20, 100)).astype(np.float32)
    layer = InnerProduct.dynamic(w, group=group, bits=4)
    scales = int8blas.weights_scales(w, group=group, bits=4)
    assert_same(layer.scales["weights"], scales)
    by_k = np.repeat(scales.T, group, axis=1)[:, :100] if group else scales[:, None]
    assert_same(layer.weights.unpack()[:100], np.clip(np.rint(w / by_k), -8, 7).astype(np.int8).T)
    largest = np.abs(np.pad(w, ((0, 0), (0, -100 % (group or 100))))).reshape(20, -1, group or 100).max(2).T
    assert_same(scales, np.float32(largest.astype(float) / 7).reshape(scales.shape))
    x = rng.normal(0, 1, (3, 100)).astype(np.float32)
    assert np.abs(layer(x) - x @ w.T).max() < 4


def test_files_pickles_and_copies(rng):
    src = rng.normal(0, 1, (3, 100)).astype(np.float32)
    for group, zeros in ((None, None), (20 * 2, None), (48, values(rng, np.int8, (3, 7)))):
        w = rng.normal(0, 1, (7, 100)).astype(np.float32)
        layer = InnerProduct.dynamic(values(rng, np.int8, (7, 100)) if zeros is not None else w, bits=4, group=group,
                                     zero_points=None if zeros is None else {"weights": zeros},
                                     scales={"weights": int8blas.weights_scales(w, group=group, bits=4)})  # fmt: skip
        buffer = io.BytesIO()
        int8blas.save(buffer, layer)
        buffer.seek(0)
        for same in (int8blas.load(buffer), pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
            assert_same_bits(same(src), layer(src), group=group)
            assert (same.bits, same.group, repr(same)) == (4, group, repr(layer))
            assert same.weights == layer.weights
            assert set(same.zero_points) == set(layer.zero_points)


def test_packed_weights(rng):
    weights, scales = values(rng, np.uint8, (7, 40)), rng.uniform(1, 2, (3, 7))
    packed = int8blas.pack_b(weights, trans_b=True, bits=4)
    arguments = {"src_dtype": np.uint8, "dst_dtype": np.float32, "scales": {"weights": scales}, "group": 16}
    src = random_values(rng, np.uint8, (2, 40))
    assert_same_bits(InnerProduct(packed, **arguments)(src), InnerProduct(weights, **arguments, bits=4)(src))
    whole = {"src_dtype": np.uint8, "dst_dtype": np.float32}
    layer = InnerProduct(packed, **whole)
    assert layer.weights is packed
    assert_same_bits(layer(src), InnerProduct(weights, **whole, bits=4)(src))


def test_wrong_arguments():
    w, types = np.zeros((3, 64), np.int8), {"src_dtype": np.uint8, "dst_dtype": np.float32}
    for group in (4, 12, 20000, 0):
        with refused(ValueError, f"group must be a multiple of 8 and at most 16384 with bits=4, got {group}"):
            InnerProduct(w, **types, scales={"weights": np.ones((2, 3))}, group=group, bits=4)
    text = "scales['weights'] must have shape (ceil(ic / group), oc), (2, 3), for group=32, got (3, 3)"
    with refused(ValueError, text):
        InnerProduct(w, **types, scales={"weights": np.ones((3, 3))}, group=32, bits=4)
    with refused(ValueError, "weights must be from -8 to 7 for bits=4 and int8, got 0 to 8"):
        InnerProduct(np.eye(3, 64, dtype=np.int8) * 8, **types, bits=4)
    with refused(ValueError, "zero_points['weights'] must be between -8 and 7, got 8"):
        InnerProduct(w, **types, scales={"weights": np.ones((2, 3))}, zero_points={"weights": 8}, bits=4)
    with refused(ValueError, "zero_points['weights'] must be one value, 3 values, or have shape (2, 3), got (3, 2)"):
        zeros = {"weights": np.ones((3, 2), int)}
        InnerProduct(w, **types, scales={"weights": np.ones((2, 3))}, zero_points=zeros, bits=4)
    with refused(ValueError, "bits must be 8 or 4, got 2"):
        InnerProduct(w, **types, bits=2)
    with refused(TypeError, "weights must be an array or a PackedB4 with bits=4, got a PackedB"):
        InnerProduct(int8blas.pack_b(w.T), **types, bits=4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", [None, 24, 32])
def test_searched_scales_have_the_least_error(bits, group, rng):
    """Of the scale of the largest magnitude and of 0.6 to 0.95 times this scale; the largest of equal ones."""
    low, high = (-8, 7) if bits == 4 else (-127, 127)
    w = rng.normal(0, 1, (5, 96)).astype(np.float32) ** 3
    w[1, :48] = 0
    scales = int8blas.weights_scales(w, group=group, bits=bits)
    found = int8blas.weights_scales(w, group=group, bits=bits, search=True)
    assert found.shape == scales.shape
    assert found.dtype == np.float32
    size = group or 96
    for at in np.ndindex(scales.shape):
        part = w[at[-1], at[0] * size : (at[0] + 1) * size] if group else w[at]
        tried = scales[at] * np.float32([1, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6])
        errors = [np.square(np.clip(np.rint(part / s), low, high) * np.float64(s) - part).sum() for s in tried]
        assert found[at] == tried[np.argmin(errors)], at
    assert bits == 8 or (found < scales).any()
    layer = InnerProduct.dynamic(w, bits=bits, group=group, scales={"weights": found})
    assert (layer.scales["weights"] == found).all()


def test_searched_scales_of_other_axes_and_small_weights(rng):
    w = rng.normal(0, 1, (3, 4, 5, 6)).astype(np.float32)
    rows = w.transpose(1, 2, 0, 3).reshape(20, 18)
    assert (
        int8blas.weights_scales(w, 6, bits=4, search=True) == int8blas.weights_scales(rows, bits=4, search=True)
    ).all()
    tiny = np.float32([[2**-140, 0, 2**-149]])
    assert (int8blas.weights_scales(tiny, bits=4, search=True) == np.float32(2**-126)).all()
    assert int8blas.weights_scales(np.zeros((2, 0), np.float32), bits=4, search=True).tolist() == [1, 1]
