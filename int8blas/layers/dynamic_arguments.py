"""Check the arguments of :class:`DynamicLSTM` and quantize float32 weights."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import by_tensor, in_float32
from int8blas.core.parameters import INT32_TERMS, scale_values, zero_point_values
from int8blas.core.words import dtype_error, shown
from int8blas.layers.rnn_arguments import by_panel
from int8blas.stage.weights_scales import weights_scales

GATES = 4
DTYPES = (np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.float32))
TENSORS = ("layer", "iter")
PHASES = (GATES,)


class Factor(NamedTuple):
    """One quantized weight matrix of a direction, with a scale and a zero point for each column."""

    weights: npt.NDArray[np.int8]  # (k, columns)
    scale: npt.NDArray[np.float32]  # (columns,)
    zero: npt.NDArray[np.int32] | None  # (columns,); None if all zero points are 0


def factors_of(x: npt.NDArray[Any], tensor: str, scale: Any, zero: Any) -> list[Factor]:
    """Return the quantized matrix of each direction, from weights (directions, k, gates, units)."""
    name, shape = f"weights_{tensor}", (x.shape[0], *x.shape[2:])
    if x.dtype == np.float32:
        if zero is not None:
            raise ValueError(f"zero_points[{tensor!r}] must not be given for weights of float32")
        x, scale = quantized(x, name, "per_channel" if scale is None else scale)
    elif scale is None or isinstance(scale, str):
        raise ValueError(f"scales[{tensor!r}] must be values for {name} of {x.dtype}, got {shown(scale)}")
    scales = broadcast(scale_values(scale, f"scales[{tensor!r}]"), f"scales[{tensor!r}]", shape)
    zeros = np.zeros(shape, np.int32)
    if zero is not None:
        zeros += broadcast(
            zero_point_values(zero, f"zero_points[{tensor!r}]", x.dtype), f"zero_points[{tensor!r}]", shape
        )
    if x.dtype == np.uint8:
        x, zeros = (x ^ np.uint8(128)).view(np.int8), zeros - 128
    by_direction = (by_panel(values, PHASES) for values in (x, scales, zeros))
    return [Factor(w, s, z if z.any() else None) for w, s, z in zip(*by_direction, strict=True)]


def quantized(x: npt.NDArray[Any], name: str, scale: Any) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Quantize float32 weights (directions, k, gates, units) to int8. Return the weights and their scales."""
    if not np.isfinite(x).all():
        raise ValueError(f"{name} must be finite in float32, got NaN or an infinity")
    if isinstance(scale, str):
        if scale not in ("per_channel", "per_tensor"):
            raise ValueError(f"scales of {name} must be 'per_channel', 'per_tensor' or values, got {scale!r}")
        columns = np.moveaxis(x, 1, -1)  # (directions, gates, units, k)
        masks = {"per_channel": 7, "per_tensor": 1}
        values = weights_scales(columns, masks[scale])
        scale = values.reshape(columns.shape[:3] if scale == "per_channel" else (-1, 1, 1))
    values = broadcast(scale_values(scale, f"scales of {name}"), f"scales of {name}", (x.shape[0], *x.shape[2:]))
    with np.errstate(over="ignore"):
        return np.clip(np.rint(x / values[:, np.newaxis]), -127, 127).astype(np.int8), values


def broadcast(values: Any, name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Broadcast values to one value for each direction, gate and unit."""
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(f"{name} must have a shape that broadcasts to {shape}, got {np.shape(values)}") from None


def matrices(x: Any, name: str, directions: int) -> npt.NDArray[Any]:
    """Check weights and return them as (directions, k, gates, units)."""
    array = in_float32(x, name)
    if array.dtype not in DTYPES:
        raise dtype_error(array, name, DTYPES)
    given = array.shape
    if array.ndim == 3 and directions == 1:
        array = array[np.newaxis]
    if array.ndim != 4 or array.shape[0] != directions or array.shape[2] != GATES or 0 in array.shape:
        wanted = f"(k, {GATES}, units) or (1, k, {GATES}, units)" if directions == 1 else f"(2, k, {GATES}, units)"
        raise ValueError(f"{name} must have shape {wanted}, without sizes of 0, got {given}")
    return array


def dynamic_cells(
    weights_layer: Any, weights_iter: Any, bias: Any, scales: Any, zero_points: Any, directions: int
) -> tuple[list[tuple[Factor, Factor, npt.NDArray[np.float32]]], int, bool]:
    """Return the two weight matrices and the bias of each direction, the number of units, and whether the given weights
    have a dimension of directions."""
    weights_layer = in_float32(weights_layer, "weights_layer")
    lead = weights_layer.ndim == 4
    of_source = matrices(weights_layer, "weights_layer", directions)
    of_state = matrices(weights_iter, "weights_iter", directions)
    units = of_source.shape[3]
    if of_state.shape[1:] != (units, GATES, units):
        raise ValueError(f"weights_iter must have shape {(units, GATES, units)} in each direction, got "
                         f"{of_state.shape[1:]}")  # fmt: skip
    if max(of_source.shape[1], units) > INT32_TERMS:
        raise ValueError(f"weights must have at most {INT32_TERMS} inputs and units, so that sums fit int32, got "
                         f"{of_source.shape[1]} and {units}")  # fmt: skip
    scales, zero_points = by_tensor(scales, "scales", TENSORS), by_tensor(zero_points, "zero_points", TENSORS)
    factors = [
        factors_of(x, tensor, scales.get(tensor), zero_points.get(tensor))
        for x, tensor in ((of_source, "layer"), (of_state, "iter"))
    ]
    shape = (directions, GATES, units)
    values = np.zeros(shape, np.float32) if bias is None else in_float32(bias, "bias")
    if values.dtype != np.float32:
        raise dtype_error(values, "bias", DTYPES[2:])
    if values.shape != shape and (directions > 1 or values.shape != shape[1:]):
        raise ValueError(f"bias must have shape {shape if directions > 1 else shape[1:]}, got {values.shape}")
    biases = by_panel(values.reshape(shape), PHASES)
    return list(zip(*factors, biases, strict=True)), units, lead
