"""Float operators of onnxruntime's optimizer: their formulas in float64, and onnxruntime's own results."""

import math
from importlib.util import find_spec

import numpy as np
import onnx
import pytest
from onnx import helper

import int8blas.onnx

RNG = np.random.default_rng(7)
MICROSOFT = "com.microsoft"


def f(*shape):
    return RNG.normal(0, 1, shape).astype(np.float32)


def ints(high, *shape):
    return RNG.integers(0, high, shape, np.int32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def normalized(x, gamma, beta=0, epsilon=1e-12):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon) * gamma + beta


def by_squares(x, gamma, epsilon=1e-12):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma


def inverse_of_squares(x, epsilon):
    return 1 / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)


def convolved(x, w, b, z, function):
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2, ::2]
    return function(np.einsum("nchwij,ocij->nohw", windows, w) + b[:, None, None] + (0 if z is None else z))


def split(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attended(q, k, v, added=0):
    y = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + added) @ v
    return y.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def self_attended(x, w, b, mask, past, added, visible=True):
    q, k, v = (split(part, 2) for part in np.split(x @ w + b, 3, -1))
    if past is not None:
        k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    hidden = np.where(mask > 0, 0.0, -10000.0)[:, None, None] if mask is not None else 0.0
    causal = np.where(visible, 0.0, -1e30)
    return attended(q, k, v, hidden + causal + (0 if added is None else added)), np.stack([k, v])


def relu(x):
    return np.maximum(x, 0)


def clip1(x):
    return np.clip(x, -1, 1)


X, G, B = f(2, 3, 8), f(8), f(8)
MASK, LENGTHS = np.array([[1, 1, 1], [1, 0, 1]], np.int32), np.array([3, 2], np.int32)
IMAGE, FILTERS, CHANNELS = f(2, 3, 9, 9), f(4, 3, 3, 3), f(4)
PAST = f(2, 2, 2, 2, 4)
# Operator, inputs, attributes, number of outputs, and the formula of the results.
CASES = {
    "FusedMatMul": ("FusedMatMul", [f(2, 5, 4), f(2, 6, 5)], dict(transA=1, transB=1, alpha=0.3), 1,
                    lambda a, b: 0.3 * a.swapaxes(1, 2) @ b.swapaxes(1, 2)),
    "FusedMatMul, batches": ("FusedMatMul", [f(4, 2, 5), f(6, 2, 5)], dict(transBatchA=1, transBatchB=1, transB=1), 1,
                             lambda a, b: np.einsum("mbk,nbk->bmn", a, b)),
    "FusedMatMul, vector": ("FusedMatMul", [f(5), f(6, 5)], dict(transA=1, transB=1), 1, lambda a, b: a @ b.T),
    "FusedGemm": ("FusedGemm", [f(3, 5), f(4, 5), f(4)], dict(transB=1, alpha=0.5, beta=2.0, activation="Relu"), 1,
                  lambda a, b, c: relu(0.5 * a @ b.T + 2 * c)),
    "FusedGemm, slope": ("FusedGemm", [f(3, 5), f(5, 4)], dict(activation="LeakyRelu", activation_alpha=0.2), 1,
                         lambda a, b: np.where(a @ b < 0, 0.2, 1) * (a @ b)),
    "FusedConv": ("FusedConv", [IMAGE, FILTERS, CHANNELS, f(2, 4, 5, 5)],
                  dict(activation="Relu", strides=[2, 2], pads=[1] * 4, kernel_shape=[3, 3]), 1,
                  lambda *given: convolved(*given, relu)),
    "FusedConv, Clip": ("FusedConv", [IMAGE, FILTERS, CHANNELS],
                        dict(activation="Clip", activation_params=[-1.0, 1.0], strides=[2, 2], pads=[1] * 4), 1,
                        lambda *given: convolved(*given, None, clip1)),
    "FusedConv, HardSigmoid": ("FusedConv", [IMAGE, FILTERS, CHANNELS],
                               dict(activation="HardSigmoid", activation_params=[0.1, 0.4], strides=[2, 2],
                                    pads=[1] * 4), 1,
                               lambda *given: convolved(*given, None, lambda y: np.clip(0.1 * y + 0.4, 0, 1))),
    "QuickGelu": ("QuickGelu", [X], {}, 1, lambda x: x / (1 + np.exp(-1.702 * x))),
    "SkipLayerNormalization": ("SkipLayerNormalization", [X, f(2, 3, 8), G, B, f(8)], dict(epsilon=1e-3), 4,
                               lambda x, y, g, b, c: (normalized(x + y + c, g, b, 1e-3), None, None, x + y + c)),
    "SkipLayerNormalization, one": ("SkipLayerNormalization", [X, f(3, 8), G], {}, 1,
                                    lambda x, y, g: normalized(x + y, g)),
    "SkipSimplifiedLayerNormalization": ("SkipSimplifiedLayerNormalization", [X, f(2, 3, 8), G, B],
                                         dict(epsilon=1e-3), 4,
                                         lambda x, y, g, b: (by_squares(x + y + b, g, 1e-3), None, None, x + y + b)),
    "EmbedLayerNormalization": ("EmbedLayerNormalization",
                                [ints(9, 2, 3), ints(2, 2, 3), f(9, 8), f(5, 8), f(2, 8), G, B, MASK],
                                dict(epsilon=1e-3), 2,
                                lambda i, s, w, p, t, g, b, m: (normalized(w[i] + p[:3] + t[s], g, b, 1e-3),
                                                                m.sum(1))),
    "EmbedLayerNormalization, places": ("EmbedLayerNormalization",
                                        [ints(9, 2, 3), None, f(9, 8), f(5, 8), None, G, B, None, ints(5, 2, 3)], {},
                                        2, lambda i, s, w, p, t, g, b, m, at: (normalized(w[i] + p[at], g, b),
                                                                               np.zeros(2))),
    "Attention": ("Attention", [X, f(8, 24), f(24), MASK], dict(num_heads=2), 1,
                  lambda *given: self_attended(*given, None, None)[0]),
    "Attention, lengths": ("Attention", [X, f(8, 24), f(24), LENGTHS], dict(num_heads=2), 1,
                           lambda x, w, b, n: self_attended(x, w, b, np.arange(3) < n[:, None], None, None)[0]),
    "Attention, past": ("Attention", [X, f(8, 24), f(24), None, PAST], dict(num_heads=2, unidirectional=1), 2,
                        lambda *given: self_attended(*given, None, np.tri(3, 5, 2, bool))),
    "Attention, bias": ("Attention", [X, f(8, 24), f(24), None, None, f(2, 2, 3, 3)], dict(num_heads=2), 1,
                        lambda *given: self_attended(*given)[0]),
    "MultiHeadAttention": ("MultiHeadAttention", [X, f(2, 5, 8), f(2, 5, 8), f(24)], dict(num_heads=2), 1,
                           lambda q, k, v, b: attended(*(split(x + c, 2) for x, c in
                                                         zip((q, k, v), np.split(b, 3), strict=True)))),
    "MultiHeadAttention, heads": ("MultiHeadAttention", [X, f(2, 2, 5, 4), f(2, 2, 5, 4)], dict(num_heads=2), 1,
                                  lambda q, k, v: attended(split(q, 2), k, v)),
    "MultiHeadAttention, past": ("MultiHeadAttention",
                                 [X, X, f(2, 3, 8), None, None, f(1, 2, 3, 5), f(2, 2, 2, 4), f(2, 2, 2, 4)],
                                 dict(num_heads=2), 3,
                                 lambda q, k, v, b, m, a, pk, pv: (
                                     attended(split(q, 2), np.concatenate([pk, split(k, 2)], 2),
                                              np.concatenate([pv, split(v, 2)], 2), a),
                                     np.concatenate([pk, split(k, 2)], 2), np.concatenate([pv, split(v, 2)], 2))),
    "SimplifiedLayerNormalization": ("SimplifiedLayerNormalization", [X, G], dict(epsilon=1e-3), 2,
                                     lambda x, g: (by_squares(x, g, 1e-3), inverse_of_squares(x, 1e-3))),
    "LayerNormalization": ("LayerNormalization", [X, G, B], dict(epsilon=1e-3), 1,
                           lambda x, g, b: normalized(x, g, b, 1e-3)),
}  # fmt: skip


def model_of(operator, inputs, attributes, outputs, kinds, domain):
    """Return a model of one node of opset 14; None among `inputs` is an absent input, among `kinds` no result."""
    names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    made = [f"o{k}" if kinds[k] else "" for k in range(outputs)]
    ports = [helper.make_tensor_value_info(f"i{k}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for k, x in enumerate(inputs) if x is not None]  # fmt: skip
    results = [onnx.ValueInfoProto(name=name) for name in made if name]
    graph = helper.make_graph([helper.make_node(operator, names, made, domain=domain, **attributes)], "g", ports,
                              results)  # fmt: skip
    opsets = [helper.make_opsetid("", 14), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.fixture(params=CASES)
def case(request):
    """Return the bytes of a model, its feeds, and its wanted results."""
    operator, inputs, attributes, outputs, formula = CASES[request.param]
    real = [x if x is None or x.dtype.kind == "i" else x.astype(np.float64) for x in inputs]
    wanted = formula(*real)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    kinds = [result is not None for result in wanted]
    domain = "" if operator in ("LayerNormalization", "SimplifiedLayerNormalization") else MICROSOFT
    model = model_of(operator, inputs, attributes, outputs, kinds, domain)
    feeds = {f"i{k}": x for k, x in enumerate(inputs) if x is not None}
    return model.SerializeToString(), feeds, [result for result in wanted if result is not None]


def check(results, wanted):
    for result, right in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, right, 2e-5, 2e-5)


def test_the_formula(case):
    model, feeds, wanted = case
    results = int8blas.onnx.load(model).run(None, feeds)
    assert all(result.dtype == (np.int32 if right.dtype.kind == "i" or not right.any() else np.float32)
               for result, right in zip(results, wanted, strict=True))  # fmt: skip
    check(results, wanted)


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="compares with onnxruntime")
def test_onnxruntime_agrees(case):
    import onnxruntime

    model, feeds, wanted = case
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    check(session.run(None, feeds), wanted)


def test_attention_of_many_queries_has_the_bits_of_few(isa):
    q, k, v = f(1, 400, 24), f(1, 50, 24), f(1, 50, 24)

    def attention(q):
        model = model_of("MultiHeadAttention", [q, k, v], dict(num_heads=3), 1, [True], MICROSOFT)
        return int8blas.onnx.load(model).run(None, {"i0": q, "i1": k, "i2": v})[0]

    few = [attention(q[:, :300]), attention(q[:, 300:])]
    np.testing.assert_array_equal(attention(q), np.concatenate(few, 1))


def test_unknown_activations_are_refused():
    inputs = [f(3, 5), f(5, 4)]
    model = model_of("FusedGemm", inputs, {"activation": "Mish"}, 1, [True], MICROSOFT).SerializeToString()
    with pytest.raises(ValueError, match=r"'activation' of .*FusedGemm.* must be one of .*, got 'Mish'"):
        int8blas.onnx.load(model).run(None, {"i0": inputs[0], "i1": inputs[1]})


@pytest.mark.parametrize(("x_scale", "y_scale"), [(0.5, 0.25), (0.1, 0.1), (0.3, 0.7)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_qlinear_where_rounds_the_real_values_once(dtype, x_scale, y_scale):
    x = np.arange(256, dtype=np.uint8).view(dtype)
    y, chosen = x[::-1].copy(), np.arange(256) % 3 == 0
    numbers = [np.float32(x_scale), dtype(3), np.float32(y_scale), dtype(5), np.float32(0.1), dtype(9)]
    inputs = [chosen, x, *map(np.array, numbers[:2]), y, *map(np.array, numbers[2:])]
    model = model_of("QLinearWhere", inputs, {}, 1, [True], MICROSOFT).SerializeToString()
    (result,) = int8blas.onnx.load(model).run(None, {f"i{k}": value for k, value in enumerate(inputs)})
    reals = [(part.astype(int) - int(zero)) * (float(scale) / float(numbers[4]))
             for part, scale, zero in ((x, numbers[0], numbers[1]), (y, numbers[2], numbers[3]))]  # fmt: skip
    limits = np.iinfo(dtype)
    np.testing.assert_array_equal(result, np.clip(np.rint(np.where(chosen, *reals)) + 9, limits.min, limits.max))
    assert result.dtype == dtype
