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
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(("window", "cap"), [(-1, 0), (3, 0), (-1, 0.7)])
def test_group_query_attention_goes_on_where_it_stopped(rotary, groups, window, cap, rng):
    """Compare attention over all positions in one call with the formula, then attention over these positions in two
    calls with a cache."""
    batch, length, heads, size = 2, 9, 4, 16
    angles, constants = tables(32, 8)
    q, k, v = (rng.normal(0, 1, (batch, length, n, size)).astype(np.float32) for n in (heads, groups, groups))
    turn = (lambda x: turned(x, angles[:length, None], 0)) if rotary else (lambda x: x)
    keys, values = (np.repeat(x, heads // groups, 2).transpose(0, 2, 1, 3) for x in (turn(k), v))
    scores = turn(q).transpose(0, 2, 1, 3) @ keys.swapaxes(-1, -2) / np.sqrt(size)
    scores = cap * np.tanh(scores / cap) if cap else scores
    apart = np.arange(length)[:, None] - np.arange(length)
    scores[:, :, (apart < 0) | ((apart >= window) & (window >= 0))] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = (weights / weights.sum(-1, keepdims=True) @ values).transpose(0, 2, 1, 3).reshape(batch, length, -1)
    text = f"""g (float[B, S, H] q, float[B, S, G] k, float[B, S, G] v, float[B, A, P, D] pk, float[B, A, P, D] pv,
        int32[B] last, int32 total) => (float[B, S, H] y, float[B, A, T, D] nk, float[B, A, T, D] nv) {{
        y, nk, nv = com.microsoft.GroupQueryAttention<num_heads={heads}, kv_num_heads={groups}, do_rotary={rotary},
        local_window_size={window}, softcap={float(cap)}>(q, k, v, pk, pv, last, total, cos, sin) }}"""
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


@pytest.mark.parametrize("kind", ["smooth", "sinks"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("window", [-1, 3])
def test_sinks_of_group_query_attention(isa, kind, biased, window, rng):
    """A further score, 0 or a number of each head, which only the sum of softmax has: the formula and onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    batch, heads, groups, size = 2, 4, 2, 16
    inputs, feeds = ", b" if biased else "", {}
    if kind == "sinks":
        inputs = f"{inputs or ', '}, sink"
        feeds["sink"] = rng.normal(0, 2, heads).astype(np.float32)
    sinks = feeds.get("sink", np.zeros(heads, np.float32))
    ports = ["float[B, S, 64] q, float[B, S, 32] k, float[B, S, 32] v, float[B, 2, P, 16] pk, float[B, 2, P, 16] pv",
             "int32[B] last, int32 total", *["float[1, 4, S, T] b"] * biased,
             *["float[4] sink"] * len(feeds)]  # fmt: skip
    smooth = ", smooth_softmax=1" if kind == "smooth" else ""
    text = f"""g ({", ".join(ports)}) => (float[B, S, 64] y, float[B, 2, T, 16] nk, float[B, 2, T, 16] nv) {{
        y, nk, nv = com.microsoft.GroupQueryAttention<num_heads={heads}, kv_num_heads={groups},
        local_window_size={window}{smooth}>(q, k, v, pk, pv, last, total, , , {inputs}) }}"""
    proto = model_of(text, microsoft=True)
    model = int8blas.onnx.load(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    past, done = [np.zeros((batch, groups, 0, size), np.float32)] * 2, 0
    for count in (20, 1, 1):
        done += count
        feeds |= {name: rng.normal(0, 1, (batch, count, n * size)).astype(np.float32)
                  for name, n in (("q", heads), ("k", groups), ("v", groups))}  # fmt: skip
        feeds |= {"pk": past[0], "pv": past[1], "last": np.full(batch, done - 1, np.int32)}
        feeds["total"] = np.array(done, np.int32)
        if biased:
            feeds["b"] = rng.normal(0, 1, (1, heads, count, done)).astype(np.float32)
        result = outputs(model, feeds)
        past = result["nk"], result["nv"]
        keys, values = (np.repeat(x, heads // groups, 1) for x in past)
        queries = feeds["q"].reshape(batch, count, heads, size).transpose(0, 2, 1, 3)
        scores = queries @ keys.swapaxes(-1, -2) / np.sqrt(size)
        apart = np.arange(done - count, done)[:, None] - np.arange(done)
        scores[:, :, (apart < 0) | ((apart >= window) & (window >= 0))] = -np.inf
        weights = np.exp(scores + feeds.get("b", 0))
        weights /= weights.sum(-1, keepdims=True) + np.exp(sinks)[:, None, None]
        expected = (weights @ values).transpose(0, 2, 1, 3).reshape(batch, count, -1)
        assert np.abs(result["y"] - expected).max() < 1e-5
        assert np.abs(result["y"] - session.run(["y"], feeds)[0]).max() < 1e-5


CACHED = """g (float[B, S, H] q, float[B, A, P, D] pk, float[B, A, P, D] pv, int32[B] last, int32 total)
    => (float[B, S, I] y, float[B, A, T, D] nk, float[B, A, T, D] nv) {
    y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2, do_rotary=1>(q, , , pk, pv, last, total,
    cos, sin) }"""


def cached(rng, batch=2, room=12, dtype=np.float32):
    """A model with a cache, rows of packed queries, keys and values, and an empty cache with room."""
    constants = {name: table.astype(dtype) for name, table in tables(32, 8)[1].items()}
    text = CACHED if dtype == np.float32 else CACHED.replace("float[", "float16[")
    model = loaded(text, microsoft=True, constants=constants)
    rows = rng.normal(0, 1, (batch, room, 8 * 16)).astype(dtype)
    return model, rows, np.zeros((2, batch, 2, room, 16), dtype)


def step(rows, done, count, keys, values):
    return {"q": rows[:, done : done + count], "pk": keys, "pv": values, "total": np.array(done + count, np.int32),
            "last": np.full(len(rows), done + count - 1, np.int32)}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("whole", [True, False])
def test_a_cache_stays_in_place(isa, whole, dtype, rng):
    """run_into writes new keys and values to the arrays of earlier ones, which may be parts of one array."""
    model, rows, caches = cached(rng, dtype=dtype)
    pk, pv = (caches[0], caches[1]) if whole else (x.copy() for x in caches)
    past, done = [x[:, :, :0] for x in caches.copy()], 0
    for count in (5, 1, 1, 3):
        wanted = outputs(model, step(rows, done, count, *past))
        y = np.empty((2, count, 64), dtype)
        model.run_into({"y": y, "nk": pk, "nv": pv}, step(rows, done, count, pk, pv))
        assert_same(y, wanted["y"], done=done)
        past, done = [wanted["nk"], wanted["nv"]], done + count
        for name, array in (("nk", pk), ("nv", pv)):
            assert_same(array[:, :, :done], wanted[name], done=done)
            assert not array[:, :, done:].any()
    plan = model._plan
    assert plan.updates == {1: 1, 2: 2}


def test_a_cache_that_cannot_stay_in_place_is_copied(rng):
    """One array for keys and values would be written twice; an array without room is too small for the result."""
    model, rows, (pk, _) = cached(rng)
    before, feeds = pk.copy(), step(rows, 0, 5, pk, pk)
    wanted = outputs(model, feeds)
    y = np.empty((2, 5, 64), np.float32)
    model.run_into({"y": y, "nk": pk}, feeds)
    assert_same(y, wanted["y"])
    assert_same(pk, wanted["nk"])
    assert (before != pk).any()
    full = np.ones((2, 2, 5, 16), np.float32)
    feeds = step(rows, 5, 1, full, full.copy())
    with pytest.raises(ValueError, match=r"outputs\['nk'\] must be float32 \(2, 2, 6, 16\), got float32"):
        model.run_into({"nk": full}, feeds)
    assert (full == 1).all()


@pytest.mark.parametrize(("change", "message"), [
    ({"last": np.array([3], np.int32)}, "seqlens_k must have 2 elements, got 1"),
    ({"last": np.array([3, 20], np.int32)}, "seqlens_k must be from 0 to 12 for 1 new positions and a past of 12"),
    ({"pk": np.zeros((2, 2, 12, 8), np.float32)}, "past_key must have shape"),
    ({"pv": np.zeros((2, 2, 9, 16), np.float32)}, "past_value must have 12 positions as past_key has, got 9"),
])  # fmt: skip
def test_a_wrong_cache_is_refused(change, message, rng):
    model, rows, (pk, pv) = cached(rng)
    with pytest.raises(ValueError, match=message):
        model.run(None, step(rows, 3, 1, pk, pv) | change)


@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize("symmetric", [True, False])
def test_products_of_one_source_are_one_product(isa, level, symmetric, rng):
    """The results are the bits of single products."""
    widths, k, block = (48, 7, 20), 72, 32
    constants, lines = {}, []
    for i, n in enumerate(widths):
        constants[f"b{i}"] = rng.integers(0, 256, (n, 3, 16), np.uint8)
        constants[f"s{i}"] = rng.uniform(0.01, 0.1, (n, 3)).astype(np.float32)
        if not symmetric:
            constants[f"z{i}"] = rng.integers(0, 256, (n, 2), np.uint8)
        zeros = "" if symmetric else f", z{i}"
        lines.append(f"y{i} = com.microsoft.MatMulNBits<K={k}, N={n}, bits=4, block_size={block}, "
                     f"accuracy_level={level}>(x, b{i}, s{i}{zeros})")  # fmt: skip
    x = rng.normal(0, 1, (2, 3, k)).astype(np.float32)
    ports = [f"float[A, B, {n}] y{i}" for i, n in enumerate(widths)]
    head = f"g (float[A, B, {k}] x) => "
    one = loaded(f"{head}({', '.join(ports)}) {{ {' '.join(lines)} }}", microsoft=True, constants=constants)
    assert [call.operator for call in one.explain()] == ["int8blas.ParallelMatMulNBits"]
    together = outputs(one, {"x": x})
    for i, (port, line) in enumerate(zip(ports, lines, strict=True)):
        own = {name: value for name, value in constants.items() if name.endswith(str(i))}
        single = loaded(f"{head}({port}) {{ {line} }}", microsoft=True, constants=own)
        assert_same(together[f"y{i}"], outputs(single, {"x": x})[f"y{i}"], i=i)


def test_what_is_not_computed():
    constants = {"b": np.zeros((1, 1, 8), np.uint8), "s": np.ones(1, np.float32)}
    with pytest.raises(ValueError, match="must have bits 4 or 8, got 2"):
        product(constants, "K=16, N=1, bits=2, block_size=16")
