"""Weights of other formats: against their definitions, bit for bit, and in layers."""

import numpy as np
import pytest
from arrays import assert_same
from errors import refused
from layers import assert_same_bits

from int8blas import InnerProduct, formats


def low_first(values):
    """Two values of 4 bits in a byte, along the last axis."""
    even = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, values.shape[-1] % 2)])
    return even[..., 0::2] | even[..., 1::2] << 4


def nbits(rng, n, k, bits, block, zeros):
    """Weights of MatMulNBits: their integers, scales and zero points, and the operator's inputs."""
    blocks = -(-k // block)
    values = rng.integers(0, 1 << bits, (n, blocks * block), np.uint8)
    scales = rng.uniform(0.01, 1, (n, blocks)).astype(np.float32)
    points = rng.integers(0, 1 << bits, (n, blocks), np.uint8)
    packed = (low_first(values) if bits == 4 else values).reshape(n, blocks, -1)
    zero_bytes = (low_first(points) if bits == 4 else points) if zeros else None
    points = points if zeros else np.full((n, blocks), 1 << bits - 1, np.uint8)
    return values[:, :k], scales, points, (packed, scales, zero_bytes)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32, 128, 256])
@pytest.mark.parametrize("zeros", [False, True])
def test_matmul_nbits(bits, block, zeros, rng):
    for n, k in ((1, 16), (5, 64), (7, 300), (3, 33)):
        values, scales, points, inputs = nbits(rng, n, k, bits, block, zeros)
        for given in (inputs, tuple(None if x is None else x.reshape(-1) for x in inputs)):
            w = formats.from_matmul_nbits(*given, n=n, k=k, bits=bits, block_size=block)
            assert_same(w.weights, values)
            assert (w.group, w.bits, w.order) == (block, bits, None)
            by_k = [np.repeat(x, block, 1)[:, :k].astype(np.float32) for x in (points, scales)]
            assert_same_bits(w.dequantized(), (values.astype(np.float32) - by_k[0]) * by_k[1])


def test_matmul_nbits_with_scattered_groups(rng):
    n, k, block = 4, 96, 32
    values, scales, points, inputs = nbits(rng, n, k, 4, block, True)
    g_idx = rng.permutation(np.repeat(np.arange(3), block)).astype(np.int32)
    w = formats.from_matmul_nbits(*inputs, g_idx, n=n, k=k, bits=4, block_size=block)
    expected = (values.astype(np.float32) - points[:, g_idx]) * scales[:, g_idx]
    assert_same_bits(w.dequantized(), expected)
    with refused(ValueError, "weights of a layer must have no order of k"):
        w.arguments()
    in_order = np.repeat(np.arange(3), block)
    same = formats.from_matmul_nbits(*inputs, in_order, n=n, k=k, bits=4, block_size=block)
    assert same.order is None
    shorter = formats.from_matmul_nbits(*inputs, in_order, n=n, k=k - 5, bits=4, block_size=block)
    assert_same(shorter.weights, same.weights[:, :-5])


def test_gguf(rng):
    for rows, blocks in ((1, 1), (3, 4), (0, 2)):
        d = rng.uniform(-1, 1, (rows, blocks, 1)).astype(np.float16)
        m = rng.uniform(-1, 1, (rows, blocks, 1)).astype(np.float16)
        q = rng.integers(0, 16, (rows, blocks, 32), np.uint8)
        packed = q[:, :, :16] | q[:, :, 16:] << 4
        bytes_ = [np.ascontiguousarray(x).view(np.uint8) for x in (d, m)]
        scale, low = d.astype(np.float32), m.astype(np.float32)
        for kind, parts, expected in (
            ("Q4_0", (bytes_[0], packed), (q.astype(np.float32) - 8) * scale),
            ("Q4_1", (*bytes_, packed), q.astype(np.float32) * scale + low),
            ("Q8_0", (bytes_[0], q - np.uint8(8)), (q.astype(np.float32) - 8) * scale),
        ):
            given = np.concatenate(parts, 2)
            w = formats.from_gguf(given.reshape(rows, blocks * given.shape[2]), kind)
            assert_same_bits(w.dequantized(), expected.reshape(rows, 32 * blocks), kind=kind)
            assert w.group == 32


def dwords(values, axis, order=range(8)):
    """Eight values along an axis in an int32."""
    parts = np.moveaxis(values, axis, -1).astype(np.uint32).reshape(*np.moveaxis(values, axis, -1).shape[:-1], -1, 8)
    packed = sum(parts[..., place] << np.uint32(4 * i) for i, place in enumerate(order))
    return np.moveaxis(np.asarray(packed, np.uint32).view(np.int32), -1, axis)


@pytest.mark.parametrize("offset", [0, 1])
def test_gptq(offset, rng):
    for ic, oc, group in ((64, 16, 32), (128, 8, 128), (48, 24, 16)):
        groups = ic // group
        q, zeros = rng.integers(0, 16, (ic, oc)), rng.integers(offset, 16, (groups, oc))
        scales = rng.uniform(0.1, 1, (groups, oc)).astype(np.float16)
        for g_idx in (None, rng.permutation(np.arange(ic) // group)):
            of_k = np.arange(ic) // group if g_idx is None else g_idx
            w = formats.from_gptq(dwords(q, 0), dwords(zeros - offset, 1), scales, g_idx, zero_offset=offset)
            expected = scales.astype(np.float32)[of_k] * (q - zeros[of_k]).astype(np.float32)
            assert_same_bits(w.dequantized(), np.ascontiguousarray(expected.T))


def test_awq(rng):
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    for ic, oc, group in ((64, 16, 32), (128, 8, 128)):
        q, zeros = rng.integers(0, 16, (ic, oc)), rng.integers(0, 16, (ic // group, oc))
        scales = rng.uniform(0.1, 1, (ic // group, oc)).astype(np.float16)
        w = formats.from_awq(dwords(q, 1, order), dwords(zeros, 1, order), scales)
        of_k = np.arange(ic) // group
        expected = scales.astype(np.float32)[of_k] * (q - zeros[of_k]).astype(np.float32)
        assert_same_bits(w.dequantized(), np.ascontiguousarray(expected.T))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_layers(isa, bits, zeros, rng):
    """A layer multiplies by the numbers of dequantized(): with a source and scales of a few bits nothing is rounded."""
    n, k, block = 20, 80, 32
    _, _, _, (packed, _, points) = nbits(rng, n, k, bits, block, zeros)
    scales = rng.choice(np.float32([0, 0.5, 1, 2]), (n, 3))
    w = formats.from_matmul_nbits(packed, scales, points, n=n, k=k, bits=bits, block_size=block)
    arguments = w.arguments()
    if bits == 8:
        arguments = {**arguments, "weights": np.pad(arguments["weights"], ((0, 0), (0, 16)))}
    for m in (1, 3, 20):
        src = rng.integers(-8, 8, (m, k), np.int8)
        layer = InnerProduct(**arguments, src_dtype=np.int8, dst_dtype=np.float32)
        given = np.pad(src, ((0, 0), (0, 16))) if bits == 8 else src
        assert_same(layer(given), src.astype(np.float32) @ w.dequantized().T + np.float32(0), m=m)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("search", [False, True])
def test_float_weights(bits, search, rng):
    """Each weight is the nearest multiple of its scale, the zero point is in range, and the search finds less error."""
    top = (1 << bits) - 1
    for shape, group in (((5, 64), 32), ((3, 70), 32), ((1, 8), 8), ((2, 5), 16), ((0, 16), 8), ((4, 0), 8)):
        w = rng.normal(0.3, 1, shape).astype(np.float32)
        w[:, : shape[1] // 3] = 0
        made = formats.from_float(w, group=group, bits=bits, search=search)
        groups = -(-shape[1] // group)
        assert made.scales.shape == made.zero_points.shape == (groups, shape[0])
        assert (made.weights.dtype, made.group, made.bits) == (np.uint8, group, bits)
        scales, zeros = (made.spread(x).astype(np.float64) for x in (made.scales, made.zero_points))
        assert_same(made.weights, np.clip(np.rint(w / scales) + zeros, 0, top).astype(np.uint8))
        assert max(made.weights.max(initial=0), made.zero_points.max(initial=0)) <= top
        assert not made.dequantized()[w == 0].any()
        error, plain = (np.square(formats.from_float(w, group=group, bits=bits, search=each).dequantized() - w).sum()
                        for each in (search, False))  # fmt: skip
        assert error <= plain
        if not search and w.size:
            assert (np.abs(made.dequantized() - w) <= scales * 1.001).all()


def test_float_weights_with_importance(rng):
    """The search minimizes the error of the products with sources whose mean squares are given."""
    w, spread = rng.normal(0, 1, (40, 128)).astype(np.float32), rng.choice([0.01, 10], 128)
    x = (rng.normal(0, 1, (500, 128)) * spread).astype(np.float32)
    plain, aware = (formats.from_float(w, group=32, search=True, importance=given).dequantized()
                    for given in (None, np.square(x).mean(0)))  # fmt: skip
    errors = [np.square(x @ (each - w).T).sum() for each in (plain, aware)]
    assert errors[1] < errors[0]
    assert_same(formats.from_float(w, group=32, search=True, importance=np.ones(128)).dequantized(), plain)


def test_float_weights_in_layers(isa, rng):
    w = formats.from_float(rng.normal(0.3, 1, (20, 80)).astype(np.float32), group=32)
    src = rng.integers(-8, 8, (3, 80), np.int8)
    layer = InnerProduct(**w.arguments(), src_dtype=np.int8, dst_dtype=np.float32)
    expected = src.astype(np.float64) @ w.dequantized().T.astype(np.float64)
    assert np.abs(layer(src) - expected).max() < 1e-4 * np.abs(expected).max()


def test_extreme_float_weights():
    largest = np.finfo(np.float32).max
    w = formats.from_float(np.float32([[-largest, largest, 0, 1, 0, 0, 0, 0]]), group=8)
    assert np.isfinite(w.scales).all()
    assert_same(w.weights[0, 2:], np.full(6, w.zero_points[0, 0], np.uint8))
    tiny = formats.from_float(np.full((1, 8), 1e-45, np.float32), group=8, search=True)
    assert (tiny.scales >= np.finfo(np.float32).smallest_normal).all()


def test_wrong_float_weights():
    w = np.ones((2, 16), np.float32)
    for change, text in (
        ({"bits": 3}, "bits must be 4 or 8, got 3"),
        ({"group": 12}, "group must be a multiple of 8"),
        ({"importance": np.ones(15)}, "importance must be 16 finite values from 0 on"),
        ({"importance": -np.ones(16)}, "importance must be 16 finite values from 0 on"),
        ({"importance": np.full(16, np.nan)}, "importance must be 16 finite values from 0 on"),
    ):
        with refused(ValueError, text):
            formats.from_float(w, **{"group": 8} | change)
    with refused(ValueError, "w must be finite, of shape (oc, ic), got shape (16,)"):
        formats.from_float(w[0], group=8)
    with refused(ValueError, "w must be finite, of shape (oc, ic), got NaN or infinite values"):
        formats.from_float(w * np.inf, group=8)
    with refused(TypeError, "w must be float32, float16 or bfloat16, got int8"):
        formats.from_float(w.astype(np.int8), group=8)
    with refused(TypeError, "importance must be float32 or float64, got a list of str"):
        formats.from_float(w, group=8, importance=["x"] * 16)


def test_wrong_arguments(rng):
    _, _, _, (packed, scales, _) = nbits(rng, 2, 32, 4, 16, False)
    sizes = {"n": 2, "k": 32, "bits": 4, "block_size": 16}
    for change, text in (
        ({"bits": 3}, "bits must be 4 or 8, got 3"),
        ({"block_size": 24}, "block_size must be a power of 2 from 16 on, got 24"),
        ({"k": 64}, "b must have shape (2, 4, 8), got (2, 2, 8)"),
        ({"k": 0}, "n and k must be at least 1, got 2 and 0"),
    ):
        with refused(ValueError, text):
            formats.from_matmul_nbits(packed, scales, **sizes | change)
    with refused(ValueError, "scales must have shape (2, 2), got (2, 1)"):
        formats.from_matmul_nbits(packed, scales[:, :1], **sizes)
    with refused(ValueError, "scales must be finite, got nan"):
        formats.from_matmul_nbits(packed, scales * np.nan, **sizes)
    with refused(TypeError, "b must be uint8, got int8"):
        formats.from_matmul_nbits(packed.view(np.int8), scales, **sizes)
    with refused(ValueError, "zero_points must have shape (2, 1), got (2, 2)"):
        formats.from_matmul_nbits(packed, scales, np.zeros((2, 2), np.uint8), **sizes)
    with refused(ValueError, "g_idx must have each group 16 times"):
        formats.from_matmul_nbits(packed, scales, None, np.zeros(32, int), **sizes)
    with refused(ValueError, "kind must be 'Q4_0', 'Q4_1' or 'Q8_0', got 'Q4_K'"):
        formats.from_gguf(np.zeros((1, 18), np.uint8), "Q4_K")
    with refused(ValueError, "blocks must have shape (oc, a multiple of 18) for Q4_0, got (1, 19)"):
        formats.from_gguf(np.zeros((1, 19), np.uint8), "Q4_0")
    with refused(ValueError, "qzeros must be at most 14 for zero_offset=1, got 15"):
        formats.from_gptq(np.zeros((4, 8), np.int32), np.full((1, 1), -1, np.int32), np.ones((1, 8), np.float16))
    with refused(ValueError, "qzeros must have shape (groups, 1), with groups that divide 32"):
        formats.from_gptq(np.zeros((4, 8), np.int32), np.zeros((3, 1), np.int32), np.ones((3, 8), np.float16))
