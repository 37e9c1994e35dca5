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


# c = logistic(f) * c + logistic(i) * tanh(c~);  h = logistic(o) * tanh(c)
@quiet
def lstm_step(of_x, h, c, recurrent, factors, bias, scale, shift):
    """One step: h in float32, and c."""
    gates = real_gates(of_x + sums(h, recurrent, shift), factors, bias)
    i, f, o = logistic(gates[[0, 1, 3]])
    c = f * c + i * tanh(gates[2])
    return o * tanh(c), c


# u, r = logistic(...);  o = tanh(x W + u8(r * h) W' + b);  h = u * h + (1 - u) * o
@quiet
def gru_step(of_x, h, c, recurrent, factors, bias, scale, shift):
    """One step: h in float32."""
    before = to_real(h, scale, shift)
    u, r = logistic(real_gates(of_x[:2] + sums(h, recurrent[:2], shift), factors[:2], bias[:2]))
    reset = to_uint8(r * before, scale, shift)
    o = tanh(real_gates(of_x[2:] + sums(reset, recurrent[2:], shift), factors[2:], bias[2:])[0])
    return u * before + (ONE - u) * o, c


# o = tanh((x W + b) + r * (h W' + b'))
@quiet
def gru_linear_step(of_x, h, c, recurrent, factors, bias, scale, shift):
    """One step of a GRU with linear_before_reset: h in float32."""
    of_h, before = sums(h, recurrent, shift), to_real(h, scale, shift)
    u, r = logistic(real_gates(of_x[:2] + of_h[:2], factors[:2], bias[:2]))
    parts = real_gates(np.stack([of_x[2], of_h[2]]), factors[[2, 2]], bias[2:])
    return u * before + (ONE - u) * tanh(parts[0] + r * parts[1]), c


def rnn_of_lengths(kind, src, *arguments, lengths, h0=None, c0=None, **options):
    """`rnn` of sequences of different lengths: each length is computed separately, with 0.0 after the end."""
    zero = options["data_shift"] if options["dst_dtype"] == np.uint8 else 0
    order, results = [], []
    for length in np.unique(lengths):
        rows = np.flatnonzero(np.equal(lengths, length))
        states = {"h0": None if h0 is None else h0[:, :, rows], "c0": None if c0 is None else c0[:, :, rows]}
        dst, h_t, c_t = rnn(kind, src[:length, rows], *arguments, **states, **options)
        rest = np.full((src.shape[0] - int(length), *dst.shape[1:]), zero, dst.dtype)
        results.append((np.concatenate([dst, rest]), h_t, c_t))
        order.extend(rows)
    dsts, h_ts, c_ts = zip(*results, strict=True)
    back = np.argsort(order)
    return np.concatenate(dsts, axis=1)[:, back], *(np.concatenate(x, axis=2)[:, :, back] for x in (h_ts, c_ts))


STEPS = {"lstm": lstm_step, "gru": gru_step, "gru_linear": gru_linear_step}


@shared
def rnn(
    kind, src, weights_layer, weights_iter, bias, weights_scale, *, data_scale, data_shift, direction, dst_dtype,
    h0=None, c0=None,
):  # fmt: skip
    """dst, h_t and c_t, these of shape (layers, directions, n, units)."""
    scale, shift = np.float32(data_scale), data_shift
    x = src if src.dtype == np.uint8 else to_uint8(src.astype(np.float32), scale, shift)
    steps, n = x.shape[:2]
    layers, directions, units = len(weights_layer), len(weights_layer[0]), weights_iter[0][0].shape[0]
    h_t = np.empty((layers, directions, n, units), dst_dtype)
    c_t = np.zeros((layers, directions, n, units), np.float32)
    for layer in range(layers):
        real = np.empty((directions, steps, n, units), np.float32)
        for way in range(directions):
            h = np.full((n, units), shift, np.uint8) if h0 is None else h0[layer, way]
            h = h if h.dtype == np.uint8 else to_uint8(h, scale, shift)
            y, c = to_real(h, scale, shift), c_t[layer, way] if c0 is None else c0[layer, way]
            with np.errstate(all="ignore"):
                factors = ONE / (scale * weights_scale[layer][way])
            of_x = sums(x, by_gate(weights_layer[layer][way])[:, np.newaxis], shift)
            recurrent = by_gate(weights_iter[layer][way])
            backwards = way == 1 or direction == "right2left"
            for step in range(steps)[::-1] if backwards else range(steps):
                y, c = STEPS[kind](of_x[:, step], h, c, recurrent, factors, bias[layer][way], scale, shift)
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
