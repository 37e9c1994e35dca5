"""Weights of 4 bits with scales and zero points by groups of k: checked, quantized, and padded to whole groups.

A group is a multiple of 8 k. If the group size does not divide K, the last group is shorter. Rows of weights that equal
the zero points fill up the last group.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.parameters import scale_values, zero_point_values
from int8blas.core.words import dtype_error, shown
from int8blas.gemm.four_bits import PackedB4
from int8blas.gemm.packing import pack_b
from int8blas.stage.weights_scales import AUTOMATIC, scales_of, scales_of_groups

# The values of int4 and of uint4.
RANGES = {"int8": (-8, 7), "uint8": (0, 15)}


def quantize_four_bits(
    flat: npt.NDArray[np.float32], scale: Any, group: int
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return float32 weights (oc, ic) as integers from -8 to 7, and their scales, which are given or computed."""
    if not np.isfinite(flat).all():
        raise ValueError("weights must be finite in float32, got NaN or an infinity")
    if isinstance(scale, str):
        if scale not in AUTOMATIC:
            raise ValueError(f"scales['weights'] must be 'per_channel', 'per_tensor' or values, got {shown(scale)}")
        if group and scale != "per_channel":
            raise ValueError(f"scales['weights'] must be 'per_channel' or values with group, got {scale!r}")
        if group:
            scale = scales_of_groups(flat, "weights", group, 4)
        else:
            scale = scales_of(flat, "weights", 1 if scale == "per_channel" else 0, 4)
    scale = scale_values(scale, "scales['weights']")
    if not group and scale.shape not in ((), (1,), (len(flat),)):
        raise ValueError(f"scales['weights'] must be one value or {len(flat)}, got shape {scale.shape}")
    with np.errstate(over="ignore"):
        by_column = np.repeat(scale.T, group, axis=1)[:, : flat.shape[1]] if group else scale.reshape(-1, 1)
        return np.clip(np.rint(flat / by_column), -8, 7).astype(np.int8), scale


def zeros_of_groups(
    values: Any, groups: int, oc: int, dtype: np.dtype[Any], name: str = "zero_points['weights']"
) -> npt.NDArray[np.int32]:
    """Return zero points of the weights as a matrix (groups, oc) of values of 4 bits. The argument has one value, a
    value for each output channel, or a value for each group of each output channel."""
    zeros = zero_point_values(values, name, dtype)
    low, high = RANGES[dtype.name]
    wrong = zeros[(zeros < low) | (zeros > high)]
    if wrong.size:
        raise ValueError(f"{name} must be between {low} and {high}, got {shown(wrong.flat[0])}")
    if zeros.size != 1 and zeros.shape not in ((oc,), (groups, oc)):
        raise ValueError(f"{name} must be one value, {oc} values, or have shape {(groups, oc)}, got {zeros.shape}")
    return np.broadcast_to(zeros.reshape(()) if zeros.size == 1 else zeros, (groups, oc)).copy()


def packed_in_groups(weights: npt.NDArray[Any] | PackedB4, group: int, zeros: npt.NDArray[np.int32] | None) -> PackedB4:
    """Pack integer weights (oc, ic), or take packed weights (ic, oc), and pad the weights to whole groups."""
    columns = weights.unpack() if isinstance(weights, PackedB4) and group and weights.shape[0] % group else weights
    if isinstance(columns, PackedB4):
        return columns
    matrix = columns if columns is not weights else columns.T
    missing = -matrix.shape[0] % group if group else 0
    if not missing:
        return pack_b(matrix, bits=4)
    last = np.zeros(matrix.shape[1], matrix.dtype) if zeros is None else zeros[-1].astype(matrix.dtype)
    return pack_b(np.concatenate([matrix, np.broadcast_to(last, (missing, len(last)))]), bits=4)


def integer_weights(weights: npt.NDArray[Any], scales: dict[str, Any], group: int) -> npt.NDArray[Any]:
    """Return weights (oc, ic) as integers of 4 bits. Quantize float32 weights, and store their scales in `scales`."""
    if weights.dtype == np.float32:
        if "weights" not in scales:
            raise ValueError(
                "scales['weights'] must be given to quantize float32 weights: 'per_channel', 'per_tensor' or values"
            )
        weights, scales["weights"] = quantize_four_bits(weights, scales["weights"], group)
        return weights
    if weights.dtype.name not in RANGES:
        raise dtype_error(weights, "weights", (np.dtype(np.int8), np.dtype(np.uint8), "float32"))
    if isinstance(scales.get("weights"), str):
        given = shown(scales["weights"])
        raise TypeError(f"scales['weights'] must be values for weights of {weights.dtype}, got {given}")
    low, high = RANGES[weights.dtype.name]
    if weights.size and (weights.min() < low or weights.max() > high):
        raise ValueError(
            f"weights must be from {low} to {high} for bits=4 and {weights.dtype}, got {weights.min()} to "
            f"{weights.max()}"
        )
    return weights
