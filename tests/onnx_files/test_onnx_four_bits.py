"""DequantizeLinear of int4 and uint4 before MatMul, Gemm and Gather: weights that stay in 4 bits."""

from itertools import product

import numpy as np
import onnx
import pytest
from layers import assert_same_bits
from onnx_models import model_of

import int8blas

TYPES = {"int4": (onnx.TensorProto.INT4, -8, 7), "uint4": (onnx.TensorProto.UINT4, 0, 15)}
K, N = 96, 20
# Where scales differ: nowhere, by columns, or by blocks of this number of k; the last block may be shorter.
KINDS = ("tensor", "columns", 16, 32, 48, 64, 96)


def tensor(name, array, dtype):
    return onnx.helper.make_tensor(name, TYPES[dtype][0], array.shape, array.ravel().tolist())


def drawn(rng, dtype, kind, turned, zeros):
    """Constants q, s and z of a matrix (K, N), stored as (N, K) if turned; their attributes; and the float32 matrix."""
    shape, along = ((N, K), 1) if turned else ((K, N), 0)
    low, high = TYPES[dtype][1:]
    q = rng.integers(low, high + 1, shape)
    if kind == "tensor":
        at, text = (), "axis=1"
    elif kind == "columns":
        at, text = (N,), f"axis={1 - along}"
    else:
        at, text = tuple(-(-size // kind) if i == along else size for i, size in enumerate(shape)), ""
        text = f"axis={along}, block_size={kind}"
    s, z = rng.uniform(0.01, 1, at).astype(np.float32), rng.integers(low, high + 1, at) * zeros
    if kind == "columns":
        full = [x.reshape(shape[0] if turned else 1, -1) for x in (s, z)]
    else:
        full = [x if x.ndim == 0 else np.take(x, np.arange(K) // kind, along) for x in (s, z)]
    w = (q - full[1]).astype(np.float32) * full[0]
    constants = [tensor("q", q, dtype), onnx.numpy_helper.from_array(s, "s")]
    return [*constants, tensor("z", z, dtype)] if zeros else constants, text, w.T if turned else w


def made(text, constants, zeros, attributes):
    text = text.replace("DQ", f"DequantizeLinear<{attributes}>(q, s{', z' if zeros else ''})")
    model = model_of(text, 21)
    model.ir_version = 10
    model.graph.initializer.extend(constants)
    return model


def kinds(model):
    return [call.operator for call in model.explain()]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zeros", [0, 1])
def test_products_keep_four_bits(dtype, kind, zeros, rng):
    x, bias = rng.normal(0, 1, (3, K)).astype(np.float32), rng.normal(0, 1, N).astype(np.float32)
    for turned, formula in product((0, 1), ("MatMul(x, t)", "Gemm(x, t, c)", "Gemm<transB=1>(x, t, c)")):
        needed = "transB" in formula
        constants, attributes, w = drawn(rng, dtype, kind, turned, zeros)
        middle = "t = Transpose<perm=[1, 0]>(w)" if turned != needed else "t = Identity(w)"
        text = f"g (float[M, K] x) => (float[M, N] y) {{ w = DQ {middle} y = {formula} }}"
        given = [*constants, onnx.numpy_helper.from_array(bias, "c")] if "c)" in formula else constants
        model = made(text, given, zeros, attributes)
        expected = x.astype(np.float64) @ w + (bias if "c)" in formula else 0)
        for dynamic in (False, True):
            network = int8blas.onnx.load(model, dynamic=dynamic)
            assert kinds(network) == ["com.microsoft.MatMulNBits"], (turned, formula)
            (y,) = network.run(None, {"x": x})
            assert y.dtype == np.float32
            assert np.abs(y - expected).max() < (0.02 if dynamic else 1e-5) * np.abs(expected).max()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zeros", [0, 1])
def test_lookups_keep_four_bits(dtype, kind, zeros, rng):
    constants, attributes, w = drawn(rng, dtype, kind, True, zeros)
    text = "g (int64[A, B] i) => (float[A, B, K] y) { w = DQ y = Gather(w, i) }"
    network = int8blas.onnx.load(made(text, constants, zeros, attributes))
    assert kinds(network) == ["com.microsoft.GatherBlockQuantized"]
    indices = rng.integers(-N, N, (3, 2))
    assert_same_bits(network.run(None, {"i": indices})[0], w.T[indices])


def test_a_table_that_is_also_a_factor(rng):
    """The embedding of a language model whose last layer has the same weights."""
    constants, attributes, w = drawn(rng, "int4", 32, True, 1)
    text = """g (int64[A] i) => (float[A, N] y) { w = DQ x = Gather(w, i) t = Transpose<perm=[1, 0]>(w)
        y = MatMul(x, t) }"""
    network = int8blas.onnx.load(made(text, constants, 1, attributes))
    assert kinds(network) == ["com.microsoft.GatherBlockQuantized", "com.microsoft.MatMulNBits"]
    indices = rng.integers(0, N, 5)
    expected = w.T[indices].astype(np.float64) @ w
    assert np.abs(network.run(None, {"i": indices})[0] - expected).max() < 1e-5 * np.abs(expected).max()


def test_other_products_compute_the_same(rng):
    """Blocks of 24 k, which are no power of 2 from 16 on; blocks of columns; and scales by k."""
    x = rng.normal(0, 1, (3, K)).astype(np.float32)
    for kind, axis in ((24, 0), (8, 0), (5, 1), (0, 0)):
        q = rng.integers(-8, 8, (K, N))
        shape = (K,) if kind == 0 else (K // kind, N) if axis == 0 else (K, N // kind)
        s = rng.uniform(0.01, 1, shape).astype(np.float32)
        w = q.astype(np.float32) * (s[:, None] if kind == 0 else np.repeat(s, kind, axis))
        constants = [tensor("q", q, "int4"), onnx.numpy_helper.from_array(s, "s")]
        attributes = f"axis={axis}" + (f", block_size={kind}" if kind else "")
        text = "g (float[M, K] x) => (float[M, N] y) { w = DQ y = MatMul(x, w) }"
        network = int8blas.onnx.load(made(text, constants, 0, attributes))
        assert "com.microsoft.MatMulNBits" not in kinds(network)
        expected = x.astype(np.float64) @ w
        assert np.abs(network.run(None, {"x": x})[0] - expected).max() < 1e-5 * np.abs(expected).max()
