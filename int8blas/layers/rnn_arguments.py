"""Check the arguments of RNN, LSTM and GRU, and divide weights, biases and scales by layer and direction."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import in_float32
from int8blas.core.words import dtype_error, dtype_name, either, shown

DIRECTIONS = ("left2right", "right2left", "bidirectional_concat", "bidirectional_sum")
WEIGHTS_DTYPES = (np.dtype(np.int8), np.dtype(np.float32))
# A lower bound of max|w|, so that the scale 63 / max|w| is finite if all weights are 0.
SMALLEST_WEIGHT = np.float32(2.0**-64)


class Cell(NamedTuple):
    """Weights, bias and scale of one direction of a layer."""

    weights_layer: npt.NDArray[np.int8]  # (input, gates, units)
    weights_iter: npt.NDArray[np.int8]  # (outputs, gates, units)
    bias: npt.NDArray[np.float32]  # (biases, units)
    scale: npt.NDArray[np.float32]  # (gates, units)
    peephole: npt.NDArray[np.float32] | None = None  # (3, units)
    projection: npt.NDArray[np.int8] | None = None  # (units, outputs)
    projection_scale: npt.NDArray[np.float32] | None = None  # (outputs,)


def by_layer(x: Any, name: str, dimensions: tuple[str, ...]) -> tuple[list[list[npt.NDArray[Any]]], int]:
    """Return the array of each layer and direction, and the number of leading dimensions of `x`."""
    ndim = len(dimensions)
    wanted = ", ".join(dimensions)
    if isinstance(x, (list, tuple)):
        layers = [in_float32(array, name) for array in x]
        if not layers or any(array.ndim not in (ndim, ndim + 1) for array in layers):
            raise ValueError(
                f"{name} must have an array of shape ({wanted}) or (directions, {wanted}) for each layer, got shapes "
                f"{[array.shape for array in layers]}"
            )
        return [[array] if array.ndim == ndim else list(array) for array in layers], 2
    array = in_float32(x, name)
    if not ndim <= array.ndim <= ndim + 2:
        raise ValueError(
            f"{name} must have shape ({wanted}), (directions, {wanted}) or (layers, directions, {wanted}), "
            f"got {array.shape}"
        )
    lead = array.ndim - ndim
    return [list(layer) for layer in array.reshape((1,) * (2 - lead) + array.shape)], lead


def check_arrays(
    layers: list[list[npt.NDArray[Any]]],
    name: str,
    shapes: list[tuple[int, ...]],
    directions: int,
    dtypes: tuple[np.dtype[Any], ...],
) -> None:
    """Check that each layer has an array for each direction, with the layer's shape and an allowed dtype."""
    if len(layers) != len(shapes):
        raise ValueError(f"{name} must have {len(shapes)} layers, as weights_layer has, got {len(layers)}")
    for arrays, shape in zip(layers, shapes, strict=True):
        if len(arrays) != directions:
            raise ValueError(f"{name} must have {directions} directions, as direction says, got {len(arrays)}")
        for array in arrays:
            if array.dtype not in dtypes:
                if array.dtype == np.uint8:
                    raise TypeError(f"{name} must be {either(dtypes)}, got uint8: weights of a uint8 state are signed")
                raise dtype_error(array, name, dtypes)
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape} in each layer and direction, got {array.shape}")
            if array.dtype == np.float32 and not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite in float32, got NaN or an infinity")


def cells_of(
    weights_layer: Any,
    weights_iter: Any,
    bias: Any,
    weights_scale: Any,
    gates: int,
    biases: int,
    direction: str,
    weights_peephole: Any = None,
    weights_projection: Any = None,
    projection_scale: Any = None,
) -> tuple[list[list[Cell]], int]:
    """Return the cell of each layer and direction, and the number of leading dimensions of the weights."""
    directions = 2 if direction.startswith("bidirectional") else 1
    of_source, lead = by_layer(weights_layer, "weights_layer", ("input", "gates", "units"))
    of_state, _ = by_layer(weights_iter, "weights_iter", ("units", "gates", "units"))
    inputs, outputs = (arrays[0][0].shape[0] if arrays and arrays[0] else 0 for arrays in (of_source, of_state))
    units = outputs
    if weights_projection is not None:
        of_units, _ = by_layer(weights_projection, "weights_projection", ("units", "outputs"))
        units, outputs = of_units[0][0].shape if of_units and of_units[0] else (0, 0)
        if units == 0 or outputs == 0:
            raise ValueError(
                "weights_projection must have at least 1 unit, output, layer and direction, got "
                f"{[array.shape for arrays in of_units for array in arrays]}"
            )
    elif projection_scale is not None:
        raise ValueError("projection_scale must not be given without weights_projection")
    if inputs == 0 or units == 0:
        raise ValueError(
            "weights_layer and weights_iter must have at least 1 input, unit, layer and direction, got "
            f"{[array.shape for arrays in of_source for array in arrays]} and "
            f"{[array.shape for arrays in of_state for array in arrays]}"
        )
    channels = 2 * outputs if direction == "bidirectional_concat" else outputs
    shapes: list[tuple[int, ...]] = [(channels, gates, units)] * len(of_source)
    shapes[0] = (inputs, gates, units)
    check_arrays(of_source, "weights_layer", shapes, directions, WEIGHTS_DTYPES)
    dtype = of_source[0][0].dtype
    if any(array.dtype != dtype for arrays in of_source for array in arrays):
        raise TypeError("weights_layer must have the same dtype in all layers, got int8 and float32")
    check_arrays(of_state, "weights_iter", [(outputs, gates, units)] * len(shapes), directions, (dtype,))
    if bias is None:
        biases_of = [[np.zeros((biases, units), np.float32)] * directions for _ in shapes]
    else:
        biases_of, _ = by_layer(bias, "bias", ("gates", "units"))
        check_arrays(biases_of, "bias", [(biases, units)] * len(shapes), directions, WEIGHTS_DTYPES[1:])
    lead_shape = (len(shapes), directions)
    pairs = [list(zip(*arrays, strict=True)) for arrays in zip(of_source, of_state, strict=True)]
    scales = scale_values(weights_scale, "weights_scale", (*lead_shape, gates, units), pairs)
    cells = [
        [Cell(quantized(x, scale), quantized(h, scale), b, scale) for (x, h), b, scale in zip(*arrays, strict=True)]
        for arrays in zip(pairs, biases_of, scales, strict=True)
    ]
    if weights_peephole is not None:
        peepholes, _ = by_layer(weights_peephole, "weights_peephole", ("gates", "units"))
        check_arrays(peepholes, "weights_peephole", [(3, units)] * len(shapes), directions, WEIGHTS_DTYPES[1:])
        cells = [
            [cell._replace(peephole=x) for cell, x in zip(*part, strict=True)]
            for part in zip(cells, peepholes, strict=True)
        ]
    if weights_projection is not None:
        dtypes = WEIGHTS_DTYPES if of_units[0][0].dtype not in WEIGHTS_DTYPES else (of_units[0][0].dtype,)
        check_arrays(of_units, "weights_projection", [(units, outputs)] * len(shapes), directions, dtypes)
        matrices = [[(x,) for x in arrays] for arrays in of_units]
        factors_ = scale_values(projection_scale, "projection_scale", (*lead_shape, outputs), matrices)
        cells = [
            [
                cell._replace(projection=quantized(x, scale), projection_scale=scale)
                for cell, x, scale in zip(*part, strict=True)
            ]
            for part in zip(cells, of_units, factors_, strict=True)
        ]
    return cells, lead


def scale_values(
    scale: Any, name: str, shape: tuple[int, ...], weights: Sequence[Sequence[tuple[npt.NDArray[Any], ...]]]
) -> npt.NDArray[np.float32]:
    """Return a scale for every column of the weights. The shape is (layers, directions, ...).

    For each layer and direction, `weights` has the matrices that share their scales.
    """
    dtype = weights[0][0][0].dtype
    is_int8 = dtype == np.int8
    wanted = f"values that broadcast to {shape}" if is_int8 else "'per_tensor', 'per_channel' or values"
    if scale is None or (is_int8 and isinstance(scale, str)):
        error = ValueError if scale is None else TypeError
        raise error(f"{name} must be {wanted} for weights of {dtype}, got {shown(scale)}")
    if isinstance(scale, str):
        if scale not in ("per_tensor", "per_channel"):
            raise ValueError(f"{name} must be {wanted}, got {shown(scale)}")
        axis = 0 if scale == "per_channel" else None
        largest = [[np.abs(np.concatenate(x)).max(axis=axis) for x in directions] for directions in weights]
        values = np.float32(63) / np.maximum(np.asarray(largest, np.float32), SMALLEST_WEIGHT)
        values = values.reshape(values.shape + (1,) * (len(shape) - values.ndim))
    else:
        values = in_float32(scale, name)
        if values.dtype.kind not in "fiu":
            raise TypeError(f"{name} must be {wanted}, got {dtype_name(values.dtype)}")
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
        if not (np.isfinite(values) & (values != 0)).all():
            raise ValueError(f"{name} must be finite and not 0 in float32, got 0, NaN or an infinity")
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(f"{name} must have a shape that broadcasts to {shape}, got {values.shape}") from None


def quantized(weights: npt.NDArray[Any], scale: npt.NDArray[np.float32]) -> npt.NDArray[np.int8]:
    """Return sat(rne(weights * scale)) of float32 weights, and int8 weights unchanged."""
    if weights.dtype == np.int8:
        return weights
    with np.errstate(over="ignore"):
        return np.clip(np.rint(weights * scale), -128, 127).astype(np.int8)


def factors(
    scale: npt.NDArray[np.float32], data_scale: np.float32, name: str = "weights_scale"
) -> npt.NDArray[np.float32]:
    """Return 1 / (data_scale * scale), the factors that turn sums into real numbers."""
    with np.errstate(all="ignore"):
        values = np.float32(1) / (data_scale * scale)
    if not (np.isfinite(values) & (values != 0)).all():
        raise ValueError(
            f"{name} times data_scale must have a reciprocal in float32, got "
            f"{scale.min()} to {scale.max()} times {data_scale}"
        )
    return values


def in_order_of_length(
    lengths: npt.NDArray[np.int64], steps: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Sort sequences by length, longest first. Return None if every sequence has all steps.

    Return the sorted lengths, the position of each sorted sequence in the batch, and the number of rows of all steps
    before each time step, with the total at the end.
    """
    if (lengths == steps).all():
        return None
    order = np.argsort(-lengths, kind="stable")
    ended = np.bincount(lengths, minlength=steps + 1)[:steps].cumsum()
    begin = np.concatenate([[0], (lengths.size - ended).cumsum()])
    return lengths[order], order.astype(np.int64), begin.astype(np.int64)


def by_panel(values: npt.NDArray[Any], phases: tuple[int, ...]) -> npt.NDArray[Any]:
    """Order (..., gates, units) as columns, phase by phase. In a phase, each block of 16 units has its gates one after
    another. Zeros pad the last block."""
    *lead, _, units = values.shape
    panels = -(-units // 16)
    columns, first = [], 0
    for gates in phases:
        padded = np.zeros((*lead, gates, panels * 16), values.dtype)
        padded[..., :units] = values[..., first : first + gates, :]
        padded = np.moveaxis(padded.reshape(*lead, gates, panels, 16), -2, -3)
        columns.append(padded.reshape(*lead, panels * gates * 16))
        first += gates
    return np.concatenate(columns, axis=-1)


def spread_nan(
    not_finite: npt.NDArray[np.bool_],
    first_states: npt.NDArray[np.bool_],
    direction: str,
    lengths: Any,
    dst: npt.NDArray[Any],
    h_t: npt.NDArray[Any],
    c_t: npt.NDArray[Any] | None,
) -> None:
    """Store NaN in the float results of sequences with a step that is not finite: in the results of this step, and of
    all later steps in the order of the direction.

    `not_finite` is true for each step (t, n) of the source that is not finite, and `first_states` for each first state
    (layers, directions, n) that is not finite.
    """
    inside = np.arange(len(not_finite))[:, np.newaxis] < (len(not_finite) if lengths is None else lengths)
    layers, directions = first_states.shape[:2]
    units = h_t.shape[-1]
    for layer in range(layers):
        not_finite = not_finite & inside
        seen = np.zeros_like(not_finite)
        for way in range(directions):
            order = slice(None, None, -1 if way or direction == "right2left" else 1)
            lost = (np.logical_or.accumulate(not_finite[order], axis=0) | first_states[layer, way])[order] & inside
            last = not_finite.any(axis=0) | first_states[layer, way]
            for state in (h_t, c_t):
                if state is not None and state.dtype.kind == "f":
                    state[layer, way][last] = np.nan
            if layer == layers - 1 and dst.dtype.kind == "f":
                columns = slice(way * units, (way + 1) * units) if dst.shape[2] > units else slice(None)
                dst[:, :, columns][lost] = np.nan
            seen |= lost
        not_finite = seen
