"""Oracle of the recurrent layers: the documented formulas in NumPy, with exact sums and everything else in float32, in
the order written.

Weights are int8, of shape (layers, directions, input, gates, units) and (layers, directions, units, gates, units),
biases (layers, directions, gates, units); layers may be a list.
"""

import numpy as np
from reference_functions import logistic, tanh
from reference_quantized import quiet, to_integer
from sharing import shared

ONE = np.float32(1)


# u8 = sat(rne(f32 * scale + shift)), the shift for NaN;  f32 = (u8 - shift) * (1 / scale)
@quiet
def to_uint8(x, scale, shift):
    """float32 in 8 bits."""
    y = x * np.float32(scale)
    return to_integer(np.where(np.isnan(y), np.float32(0), y) + np.float32(shift), np.uint8)


def to_real(x, scale, shift):
    """uint8 as float32."""
    return (x.astype(np.float32) - np.float32(shift)) * (ONE / np.float32(scale))


def by_gate(weights):
    """Weights (k, gates, units) as float64 (gates, k, units)."""
    return weights.transpose(1, 0, 2).astype(np.float64)


def sums(x, weights, shift):
    """Exact products with each gate's weights, float64 (gates, ..., n, units): all sums are below 2**53."""
    return (x.astype(np.float64) - shift) @ weights


# gate = f32(acc) * (1 / (data_scale * weights_scale)) + bias
@quiet
def real_gates(acc, factors, bias):
    """Gates (gates, n, units) in real units."""
    return acc.astype(np.float32) * factors[:, np.newaxis] + bias[:, np.newaxis]


# c = logistic(f) * c + logistic(i) * tanh(c~);  h = logistic(o) * tanh(c);  with a peephole i and f get p * c before,
# and o gets p * c after;  with a projection h = f32(u8(h) P) * (1 / (data_scale * projection_scale)) + 0
@quiet
def lstm_step(of_x, h, c, recurrent, factors, bias, scale, shift, peephole=None, projection=None, **_):
    """One step: h in float32, and c."""
    gates = real_gates(of_x + sums(h, recurrent, shift), factors, bias)
    if peephole is not None:
        gates[:2] = gates[:2] + peephole[:2, np.newaxis] * c
    i, f = logistic(gates[:2])
    c = f * c + i * tanh(gates[2])
    o = logistic(gates[3] if peephole is None else gates[3] + peephole[2] * c)
    y = o * tanh(c)
    if projection is not None:
        weights, factor = projection
        hidden = sums(to_uint8(y, scale, shift), weights.astype(np.float64), shift)
        y = real_gates(hidden[np.newaxis], factor[np.newaxis], np.zeros_like(factor)[np.newaxis])[0]
    return y, c


# u, r = logistic(...);  o = tanh(x W + u8(r * h) W' + b);  u = u * (1 - attention);  h = u * h + (1 - u) * o
@quiet
def gru_step(of_x, h, c, recurrent, factors, bias, scale, shift, kept=ONE, **_):
    """One step: h in float32."""
    before = to_real(h, scale, shift)
    u, r = logistic(real_gates(of_x[:2] + sums(h, recurrent[:2], shift), factors[:2], bias[:2]))
    u = u * kept
    reset = to_uint8(r * before, scale, shift)
    o = tanh(real_gates(of_x[2:] + sums(reset, recurrent[2:], shift), factors[2:], bias[2:])[0])
    return u * before + (ONE - u) * o, c


# o = tanh((x W + b) + r * (h W' + b'))
@quiet
def gru_linear_step(of_x, h, c, recurrent, factors, bias, scale, shift, kept=ONE, **_):
    """One step of a GRU with linear_before_reset: h in float32."""
    of_h, before = sums(h, recurrent, shift), to_real(h, scale, shift)
    u, r = logistic(real_gates(of_x[:2] + of_h[:2], factors[:2], bias[:2]))
    u = u * kept
    parts = real_gates(np.stack([of_x[2], of_h[2]]), factors[[2, 2]], bias[2:])
    return u * before + (ONE - u) * tanh(parts[0] + r * parts[1]), c


# h = activation(x W + h W' + b)
@quiet
def rnn_step(of_x, h, c, recurrent, factors, bias, scale, shift, activation="tanh", alpha=0.0, **_):
    """One step of a layer without gates: h in float32."""
    gate = real_gates(of_x + sums(h, recurrent, shift), factors, bias)[0]
    if activation == "relu":
        return np.where(gate > 0, gate, np.float32(alpha) * gate), c
    return (tanh if activation == "tanh" else logistic)(gate), c


def rnn_of_lengths(kind, src, *arguments, lengths, h0=None, c0=None, attention=None, **options):
    """`rnn` of sequences of different lengths: each length is computed separately, with 0.0 after the end."""
    zero = options["data_shift"] if options["dst_dtype"] == np.uint8 else 0
    order, results = [], []
    for length in np.unique(lengths):
        rows = np.flatnonzero(np.equal(lengths, length))
        states = {"h0": None if h0 is None else h0[:, :, rows], "c0": None if c0 is None else c0[:, :, rows]}
        states["attention"] = None if attention is None else attention[:length, rows]
        dst, h_t, c_t = rnn(kind, src[:length, rows], *arguments, **states, **options)
        rest = np.full((src.shape[0] - int(length), *dst.shape[1:]), zero, dst.dtype)
        results.append((np.concatenate([dst, rest]), h_t, c_t))
        order.extend(rows)
    dsts, h_ts, c_ts = zip(*results, strict=True)
    back = np.argsort(order)
    return np.concatenate(dsts, axis=1)[:, back], *(np.concatenate(x, axis=2)[:, :, back] for x in (h_ts, c_ts))


STEPS = {"lstm": lstm_step, "gru": gru_step, "gru_linear": gru_linear_step, "rnn": rnn_step}


@shared
def rnn(
    kind, src, weights_layer, weights_iter, bias, weights_scale, *, data_scale, data_shift, direction, dst_dtype,
    h0=None, c0=None, attention=None, peephole=None, projection=None, projection_scale=None, activation="tanh",
    alpha=0.0,
):  # fmt: skip
    """Return dst, h_t and c_t. h_t and c_t have shape (layers, directions, n, units)."""
    scale, shift = np.float32(data_scale), data_shift
    x = src if src.dtype == np.uint8 else to_uint8(src.astype(np.float32), scale, shift)
    steps, n = x.shape[:2]
    layers, directions, units = len(weights_layer), len(weights_layer[0]), weights_iter[0][0].shape[2]
    outputs = weights_iter[0][0].shape[0]
    h_t = np.empty((layers, directions, n, outputs), dst_dtype)
    c_t = np.zeros((layers, directions, n, units), np.float32)
    for layer in range(layers):
        real = np.empty((directions, steps, n, outputs), np.float32)
        for way in range(directions):
            h = np.full((n, outputs), shift, np.uint8) if h0 is None else h0[layer, way]
            h = h if h.dtype == np.uint8 else to_uint8(h, scale, shift)
            y, c = to_real(h, scale, shift), c_t[layer, way] if c0 is None else c0[layer, way]
            with np.errstate(all="ignore"):
                factors = ONE / (scale * weights_scale[layer][way])
            of_x = sums(x, by_gate(weights_layer[layer][way])[:, np.newaxis], shift)
            recurrent = by_gate(weights_iter[layer][way])
            more = {"activation": activation, "alpha": alpha}
            if peephole is not None:
                more["peephole"] = peephole[layer][way]
            if projection is not None:
                with np.errstate(all="ignore"):
                    more["projection"] = projection[layer][way], ONE / (scale * projection_scale[layer][way])
            backwards = way == 1 or direction == "right2left"
            for step in range(steps)[::-1] if backwards else range(steps):
                if attention is not None:
                    a = attention[step] if attention.dtype != np.uint8 else to_real(attention[step], scale, shift)
                    more["kept"] = (ONE - a.astype(np.float32))[:, np.newaxis]
                y, c = STEPS[kind](of_x[:, step], h, c, recurrent, factors, bias[layer][way], scale, shift, **more)
                h = to_uint8(y, scale, shift)
                real[way, step] = y
            h_t[layer, way] = h if dst_dtype == np.uint8 else y
            c_t[layer, way] = c
        with np.errstate(all="ignore"):
            dst = real[0] + real[1] if direction == "bidirectional_sum" else np.concatenate(real, axis=-1)
        x = to_uint8(dst, scale, shift)
    if layers == 0 or dst_dtype == np.float32:
        return dst, h_t, c_t
    return x, h_t, c_t
