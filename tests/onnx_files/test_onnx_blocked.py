"""MatMulNBits and GatherBlockQuantized against the weights that they stand for, and attention with a cache."""

import numpy as np
import pytest
from arrays import assert_same
from layers import assert_same_bits
from onnx_models import loaded, model_of

import int8blas
from int8blas import InnerProduct, formats

X = "float[M, S, K] x"


def outputs(model, feeds):
    return dict(zip([port.name for port in model.get_outputs()], model.run(None, feeds), strict=True))


def product(constants, attributes, inputs="x, b, s"):
    text = f"g ({X}) => (float[M, S, N] y) {{ y = com.microsoft.MatMulNBits<{attributes}>({inputs}) }}"
    return loaded(text, microsoft=True, constants=constants)


def weights_of(rng, n, k, bits, block, zeros=True):
    blocks = -(-k // block)
    constants = {
        "b": rng.integers(0, 256, (n, blocks, block * bits // 8), np.uint8),
        "s": rng.uniform(0.01, 0.1, n * blocks).astype(np.float32),
    }
    if zeros:
        constants["z"] = rng.integers(0, 256, n * -(-blocks * bits // 8), np.uint8)
    return constants


def expected_of(constants, x, n, k, bits, block, g_idx=None):
    w = formats.from_matmul_nbits(constants["b"], constants["s"], constants.get("z"), g_idx, n=n, k=k, bits=bits,
                                  block_size=block)  # fmt: skip
    return x.astype(np.float64) @ w.dequantized().astype(np.float64).T, w


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("level", [0, 1, 4])
def test_matmul_nbits(bits, block, zeros, level, rng):
    for n, k, m in ((8, 64, 1), (20, 256, 3), (17, 300, 5)):
        constants = weights_of(rng, n, k, bits, block, zeros)
        x = rng.normal(0, 1, (2, m, k)).astype(np.float32)
        attributes = f"K={k}, N={n}, bits={bits}, block_size={block}, accuracy_level={level}"
        model = product(constants, attributes, "x, b, s, z" if zeros else "x, b, s")
        y = outputs(model, {"x": x})["y"]
        expected, _ = expected_of(constants, x, n, k, bits, block)
        largest = np.abs(expected).max()
        assert y.dtype == np.float32
        assert np.abs(y - expected).max() < (0.02 if level == 4 else 1e-5) * largest


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("level", [0, 4])
def test_onnxruntime_has_the_same_numbers(bits, block, zeros, level, rng):
    """Where no operation rounds: sources are integers from -127 to 127, and scales powers of 2."""
    onnxruntime = pytest.importorskip("onnxruntime")
    for n, k, m in ((16, 64, 1), (33, 256, 3), (16, 512, 20)):
        constants = weights_of(rng, n, k, bits, block, zeros)
        constants["s"] = rng.choice(np.float32([0.5, 1, 2]), constants["s"].size)
        attributes = f"K={k}, N={n}, bits={bits}, block_size={block}, accuracy_level={level}"
        inputs = "x, b, s, z" if zeros else "x, b, s"
        text = f"g ({X}) => (float[M, S, N] y) {{ y = com.microsoft.MatMulNBits<{attributes}>({inputs}) }}"
        model = model_of(text, microsoft=True, constants=constants)
        theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        x = rng.integers(-127, 128, (1, m, k)).astype(np.float32)
        x.reshape(m, k // min(block, k), -1)[:, :, 0] = 127
        expected = theirs.run(None, {"x": x})[0]
        assert_same(outputs(int8blas.onnx.load(model), {"x": x})["y"], expected, n=n, k=k, m=m)


def test_accuracy_level_4_has_the_bits_of_a_layer(rng):
    n, k = 20, 128
    constants = weights_of(rng, n, k, 4, 32)
    x = rng.normal(0, 1, (1, 3, k)).astype(np.float32)
    model = product(constants, f"K={k}, N={n}, bits=4, block_size=32, accuracy_level=4", "x, b, s, z")
    y = outputs(model, {"x": x})["y"]
    _, w = expected_of(constants, x, n, k, 4, 32)
    given = w.arguments()
    assert_same_bits(y, InnerProduct.dynamic(given.pop("weights"), **given)(x))


@pytest.mark.parametrize("level", [0, 4])
def test_scattered_groups_and_bias(level, rng):
    n, k, block = 6, 64, 16
    constants = weights_of(rng, n, k, 4, block)
    constants["g"] = rng.permutation(np.repeat(np.arange(4), block)).astype(np.int32)
    constants["c"] = rng.normal(0, 1, n).astype(np.float32)
    x = rng.normal(0, 1, (1, 2, k)).astype(np.float32)
    attributes = f"K={k}, N={n}, bits=4, block_size={block}, accuracy_level={level}"
    y = outputs(product(constants, attributes, "x, b, s, z, g, c"), {"x": x})["y"]
    expected, _ = expected_of(constants, x, n, k, 4, block, constants["g"])
    assert np.abs(y - expected - constants["c"]).max() < (0.02 if level == 4 else 1e-5) * np.abs(expected).max()


def test_weights_that_come_with_the_call(rng):
    n, k = 5, 32
    text = """g (float[M, K] x, uint8[N, B, C] b, float[D] s) => (float[M, N] y) {
        y = com.microsoft.MatMulNBits<K=32, N=5, bits=4, block_size=16>(x, b, s) }"""
    constants = weights_of(rng, n, k, 4, 16, False)
    x = rng.normal(0, 1, (3, k)).astype(np.float32)
    y = outputs(loaded(text, microsoft=True), {"x": x} | constants)["y"]
    assert np.abs(y - expected_of(constants, x, n, k, 4, 16)[0]).max() < 1e-4


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_gather_block_quantized(bits, zeros, rng):
    rows, columns, block = 20, 64, 16
    constants = {
        "d": rng.integers(0, 256, (rows, columns * bits // 8), np.uint8),
        "s": rng.uniform(0.01, 1, (rows, columns // block)).astype(np.float32),
    }
    if zeros:
        constants["z"] = rng.integers(0, 256, (rows, columns // block * bits // 8), np.uint8)
    text = f"""g (int64[A, B] i) => (float[A, B, C] y) {{ y = com.microsoft.GatherBlockQuantized<gather_axis=0,
        quantize_axis=1, block_size={block}, bits={bits}>(d, i, s{", z" if zeros else ""}) }}"""
    indices = rng.integers(-rows, rows, (3, 2))
    y = outputs(loaded(text, microsoft=True, constants=constants), {"i": indices})["y"]
    w = formats.from_matmul_nbits(constants["d"].reshape(rows, columns // block, -1), constants["s"],
                                  constants.get("z"), n=rows, k=columns, bits=bits, block_size=block)  # fmt: skip
    assert_same_bits(y, w.dequantized()[indices])


# --- attention -------------------------------------------------------------------------------------------------------


def turned(x, angles, interleaved):
    """Pairs of heads (..., size) as complex numbers, times e^(i angle)."""
    half = x.shape[-1] // 2
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    z = (first + 1j * second) * np.exp(1j * angles)
    y = np.empty(x.shape)
    if interleaved:
        y[..., 0::2], y[..., 1::2] = z.real, z.imag
    else:
        y[..., :half], y[..., half:] = z.real, z.imag
    return y


def tables(positions, pairs):
    angles = np.arange(positions)[:, None] * 0.7 ** np.arange(pairs)
    return angles, {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved, rng):
    angles, constants = tables(32, 8)
    for positions in (np.array([3]), rng.integers(0, 20, (2, 5))):
        at = positions + np.arange(5) if positions.size == 1 else positions
        text = f"""g (float[B, S, H] x, int64[{", ".join("PQ"[: positions.ndim])}] p) => (float[B, S, H] y) {{
            y = com.microsoft.RotaryEmbedding<interleaved={interleaved}, num_heads=4>(x, p, cos, sin) }}"""
        x = rng.normal(0, 1, (2, 5, 64)).astype(np.float32)
        y = outputs(loaded(text, microsoft=True, constants=constants), {"x": x, "p": positions})["y"]
        expected = turned(x.reshape(2, 5, 4, 16), np.broadcast_to(angles[at], (2, 5, 8))[:, :, None], interleaved)
        assert np.abs(y - expected.reshape(x.shape)).max() < 1e-5


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("window", [-1, 3])
def test_group_query_attention_goes_on_where_it_stopped(rotary, window, rng):
    """Compare attention over all positions in one call with the formula, then attention over these positions in two
    calls with a cache."""
    batch, length, heads, groups, size = 2, 9, 4, 2, 16
    angles, constants = tables(32, 8)
    q, k, v = (rng.normal(0, 1, (batch, length, n, size)).astype(np.float32) for n in (heads, groups, groups))
    turn = (lambda x: turned(x, angles[:length, None], 0)) if rotary else (lambda x: x)
    keys, values = (np.repeat(x, heads // groups, 2).transpose(0, 2, 1, 3) for x in (turn(k), v))
    scores = turn(q).transpose(0, 2, 1, 3) @ keys.swapaxes(-1, -2) / np.sqrt(size)
    apart = np.arange(length)[:, None] - np.arange(length)
    scores[:, :, (apart < 0) | ((apart >= window) & (window >= 0))] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = (weights / weights.sum(-1, keepdims=True) @ values).transpose(0, 2, 1, 3).reshape(batch, length, -1)
    text = f"""g (float[B, S, H] q, float[B, S, G] k, float[B, S, G] v, float[B, A, P, D] pk, float[B, A, P, D] pv,
        int32[B] last, int32 total) => (float[B, S, H] y, float[B, A, T, D] nk, float[B, A, T, D] nv) {{
        y, nk, nv = com.microsoft.GroupQueryAttention<num_heads={heads}, kv_num_heads={groups}, do_rotary={rotary},
        local_window_size={window}>(q, k, v, pk, pv, last, total, cos, sin) }}"""
    model = loaded(text, microsoft=True, constants=constants)
    past, done = [np.zeros((batch, groups, 0, size), np.float32)] * 2, 0
    parts = []
    for count in (5, 1, 3):
        part = slice(done, done + count)
        done += count
        feeds = {name: x[:, part].reshape(batch, count, -1) for name, x in (("q", q), ("k", k), ("v", v))}
        last = np.full(batch, done - 1, np.int32)
        result = outputs(model, feeds | {"pk": past[0], "pv": past[1], "last": last, "total": np.array(done, np.int32)})
        parts.append(result["y"])
        past = [result["nk"], result["nv"]]
        assert_same(past[1], v[:, :done].transpose(0, 2, 1, 3), done=done)
    assert np.abs(np.concatenate(parts, 1) - expected).max() < 1e-5


def test_what_is_not_computed():
    constants = {"b": np.zeros((1, 1, 8), np.uint8), "s": np.ones(1, np.float32)}
    with pytest.raises(ValueError, match="must have bits 4 or 8, got 2"):
        product(constants, "K=16, N=1, bits=2, block_size=16")
