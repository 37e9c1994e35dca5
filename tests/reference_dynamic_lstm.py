"""Oracle of DynamicLSTM: the documented formulas in NumPy, with exact sums and everything else in float32, in the order
written.

Weights have shapes (directions, k, gates, units), their scales and zero points (directions, gates, units).
"""

import numpy as np
from reference_functions import logistic, tanh
from reference_quantized import quiet
from sharing import shared


# scale = (high - low) / 255, zero_point = sat(rne(-low / scale)), for a range that includes 0
@quiet
def parameters(x):
    """The scale and the zero point of a matrix; NaN and 0 unless all elements are finite."""
    if not np.isfinite(x).all():
        return np.float32(np.nan), 0
    low, high = np.float32(x.min(initial=0)), np.float32(x.max(initial=0))
    if low == high:
        return np.float32(1), 0
    scale = (high - low) / np.float32(255)
    return scale, int(np.clip(np.nan_to_num(np.rint(-low / scale)), 0, 255))


# x_u8 = sat(rne(x / scale) + zero_point)
@quiet
def quantized(x, scale, zero):
    y = np.rint(x / scale)
    return np.clip(np.where(np.isnan(y), 0, y) + zero, 0, 255).astype(np.int64)


# f32(sum) * (scale * weights_scale)
@quiet
def scaled_sums(x, scale, zero, weights, weights_scale, weights_zero):
    """(n, k) bytes times (k, gates, units): (gates, n, units) in float32."""
    differences = weights.astype(np.int64) - weights_zero
    acc = np.stack([(x - zero) @ differences[:, gate] for gate in range(weights.shape[1])])
    return acc.astype(np.float32) * (scale * weights_scale)[:, np.newaxis]


@shared
@quiet
def dynamic_lstm(src, weights, bias, scales, zeros, direction, h0=None, c0=None, lengths=None):
    """dst (t, n, directions * units), h_t and c_t (directions, n, units); weights, scales and zeros are pairs (of the
    source, of the state)."""
    t, n, _ = src.shape
    lengths = np.full(n, t) if lengths is None else np.asarray(lengths)
    scale, zero = parameters(src)
    source = quantized(src, scale, zero)
    directions, units = weights[0].shape[0], weights[0].shape[3]
    dst, states = np.zeros((t, n, directions, units), np.float32), []
    for d in range(directions):
        backwards = d == 1 or direction == "right2left"
        h, c = (np.zeros((n, units), np.float32) if x is None else x[d].copy() for x in (h0, c0))
        for step in range(t):
            going = np.flatnonzero(step < lengths)
            times = lengths[going] - 1 - step if backwards else np.full(going.size, step)
            parameters_h = parameters(h)
            of_state = scaled_sums(
                quantized(h, *parameters_h)[going], *parameters_h, *(x[1][d] for x in (weights, scales, zeros))
            )
            of_source = scaled_sums(source[times, going], scale, zero, *(x[0][d] for x in (weights, scales, zeros)))
            i, f, g, o = (of_state + of_source) + bias[d][:, np.newaxis]
            c[going] = logistic(f) * c[going] + logistic(i) * tanh(g)
            h[going] = logistic(o) * tanh(c[going])
            dst[times, going, d] = h[going]
        states.append((h, c))
    return dst.reshape(t, n, directions * units), *(np.stack(x) for x in zip(*states, strict=True))
