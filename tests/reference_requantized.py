"""Oracle of layers that requantize in integers: exact sums in int64, then the scheme in Python's integers.

    acc = sat_s32(sum + bias)
    y = sat_s32(requantized(acc, scale_src * scale_weights / scale_dst) + zp_dst)       the scale in float64
    dst = min(max(y, low), high)                                                        of the type, or of an activation
"""  # fmt: skip

import math

import numpy as np
from reference_quantization import RANGES, clamp, requantize
from sharing import shared


# zp + round(limit / scale), the quotient in float32, ties away from zero
def step_of(limit, scale, zero_point):
    """A limit of an activation as an integer of the destination."""
    with np.errstate(over="ignore"):
        quotient = float(np.clip(np.float32(limit) / np.float32(scale), -(2.0**40), 2.0**40))
    return zero_point + int(math.copysign(math.floor(abs(quotient) + 0.5), quotient))


def limits(op, scale, zero_point, dtype):
    """(low, high) of a channel; `op` is None, or a post-op ReLU or clip."""
    low, high = RANGES[dtype]
    if op is not None:
        low = clamp(step_of(0 if op.algorithm == "relu" else op.alpha, scale, zero_point), dtype)
        if op.algorithm == "clip":
            high = clamp(step_of(op.beta, scale, zero_point), dtype)
    return low, high


@shared
def requantized(sums, bias, scheme, scales, zero_point, dtype, op=None):
    """The destination of sums (..., oc)."""
    channels = sums.shape[-1]
    acc = np.clip(sums if bias is None else sums + bias.astype(np.int64), *RANGES[np.int32])

    def of(tensor):
        return np.broadcast_to(np.asarray(scales.get(tensor, 1), np.float32).astype(np.float64), channels)

    factor = of("src") * of("weights") / of("dst")
    zero_points = np.broadcast_to(zero_point, channels)
    result = np.empty(acc.shape, dtype)
    for j in range(channels):
        y = requantize(acc[..., j], factor[j], int(zero_points[j]), np.int32, scheme)
        result[..., j] = np.clip(y, *limits(op, of("dst")[j], int(zero_points[j]), dtype))
    return result
