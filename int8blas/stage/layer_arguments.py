"""Check the arguments that the quantized layers share: types, attributes and weights. Quantize float32 weights."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import dtype_argument, dtype_from, is_bfloat16, widened
from int8blas.core.file import register
from int8blas.core.parameters import integer, scale_values, zero_point_values
from int8blas.core.words import dtype_error, either, shown
from int8blas.gemm.four_bits import PackedB4
from int8blas.gemm.packing import PackedB
from int8blas.stage.attributes import INTEGER_SCHEMES, Attributes
from int8blas.stage.weights_scales import AUTOMATIC, MAX_GROUP, check_group, scales_of, scales_of_groups

INT8_DTYPES = (np.dtype(np.uint8), np.dtype(np.int8))
INT16_DTYPES = (np.dtype(np.uint16), np.dtype(np.int16))
FLOAT_DTYPES = (np.dtype(np.float32), np.dtype(np.float16))
ZEROS = (np.dtype(np.int8), np.dtype(np.int64))  # dtypes of zero points; int64 is for values beyond int8
DST_DTYPES = (*INT8_DTYPES, np.dtype(np.int32), *FLOAT_DTYPES)
DEFAULTS = Attributes()


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """The packed weights of a saved layer, in one or more PackedB or PackedB4, and the shape of the weights.

    Before packing, the weights of a convolution may have been uint8 with a zero point for each output channel (see
    :func:`centered_weights`).
    """

    shape: tuple[int, ...]
    packed: tuple[PackedB | PackedB4, ...]
    dtype: np.dtype[Any] = INT8_DTYPES[1]
    zeros: npt.NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple) or any(integer(size, "shape of weights") < 0 for size in self.shape):
            raise ValueError(f"shape of weights must be a tuple of sizes, got {shown(self.shape)}")
        if not isinstance(self.packed, tuple) or not all(isinstance(x, (PackedB, PackedB4)) for x in self.packed):
            raise TypeError(f"packed must be a tuple of PackedB, got {shown(self.packed)}")
        if self.dtype not in INT8_DTYPES:
            raise TypeError(f"dtype of weights must be uint8 or int8, got {shown(self.dtype)}")
        zeros = self.zeros
        if zeros is not None and not (isinstance(zeros, np.ndarray) and zeros.dtype in ZEROS and zeros.ndim == 1):
            raise TypeError(
                f"zero points of packed weights must be a vector of int8 or int64, or None, got {shown(zeros)}"
            )
        # Check the sizes first, because later work grows with the shape.
        if math.prod(self.shape) > sum(math.prod(packed.shape) for packed in self.packed):
            raise ValueError(f"weights of shape {self.shape} must be in packed, got {self.packed}")

    def of(self, count: int) -> tuple[PackedB | PackedB4, ...]:
        """Return the packed matrices if their number is `count`."""
        if len(self.packed) != count:
            raise ValueError(f"weights must have been packed in {count} matrices, got {len(self.packed)}")
        return self.packed

    def __reduce__(self) -> tuple[Any, ...]:
        more = (self.dtype, self.zeros) if self.zeros is not None or self.dtype != np.int8 else ()
        return PackedWeights, (self.shape, self.packed, *more)


register(PackedWeights)


def check_dtype(dtype: Any, name: str, allowed: tuple[np.dtype[Any], ...]) -> np.dtype[Any]:
    """Return the dtype that an argument stands for. The dtype must be one of the allowed names. If float16 is allowed,
    bfloat16 is also allowed."""
    found = dtype_from(dtype)
    if found is not None and found in allowed:
        return found
    names = list(map(str, allowed))
    if "float16" in names:
        if found is not None and is_bfloat16(found):
            return found
        names.append("bfloat16")
    stand_ins = {"float64": "float32", "bool": "uint8"}
    taken = stand_ins.get("" if found is None else found.name)
    more = f": a {found} array is taken as {taken}" if taken in names and name.startswith("src") else ""
    raise TypeError(f"{name} must be {either(names)}, got {dtype_argument(dtype)}{more}")


def check_given(src_dtype: Any, dst_dtype: Any, dynamic: Any) -> None:
    """Raise an error with a remedy if dtypes of an InnerProduct are missing, or need `InnerProduct.dynamic`."""
    found = dtype_from(src_dtype)
    if src_dtype is not None and dst_dtype is not None and (dynamic is not None or found in INT8_DTYPES):
        return
    shortcut = "InnerProduct.dynamic(weights, bias) has all that float32 in and out needs"
    quantized, real = either(list(map(str, INT8_DTYPES))), "float32, float16 or bfloat16"
    if src_dtype is None:
        wanted = f"{quantized}, or {real} with dynamic='per_row'" if dynamic is None else real
        raise TypeError(f"src_dtype must be given, {wanted}; {shortcut}")
    if dynamic is None and found is not None and (found.kind == "f" or is_bfloat16(found)):
        raise TypeError(
            f"src_dtype must be {quantized}, got {dtype_argument(src_dtype)}: give dynamic='per_row' to quantize a "
            f"float source in each execution; {shortcut}"
        )
    if dst_dtype is None:
        raise TypeError(f"dst_dtype must be given, uint8, int8, int32, {real}; {shortcut}")


def check_dynamic(dynamic: Any, choices: tuple[str, ...]) -> str | None:
    """Return the kind of range by which a source is quantized dynamically, or None."""
    if dynamic is not None and (not isinstance(dynamic, str) or dynamic not in choices):
        raise ValueError(f"dynamic must be {', '.join(map(repr, choices))} or None, got {shown(dynamic)}")
    return dynamic


def check_no_source(values: Any, name: str) -> None:
    """Refuse a scale or zero point of a source that is quantized dynamically."""
    if "src" in values:
        raise ValueError(f"{name}['src'] must not be given for a source that is quantized dynamically")


def dynamic_attributes(attributes: Attributes, scales: dict[str, Any], zero_points: dict[str, Any]) -> Attributes:
    """Return the attributes of a layer that quantizes its source dynamically."""
    for values, name in ((attributes.scales, "scales"), (scales, "scales"), (attributes.zero_points, "zero_points"),
                         (zero_points, "zero_points")):  # fmt: skip
        check_no_source(values, name)
    if attributes.output_scales is not None:
        raise ValueError(
            "attributes must not have output_scales for a convolution whose source is quantized dynamically"
        )
    if attributes.requantization in INTEGER_SCHEMES:
        raise ValueError(
            "requantization must be 'float' or 'onnx' for a source that is quantized dynamically, got "
            f"{attributes.requantization!r}"
        )
    return replace(attributes, scales={**attributes.scales, "src": 0}, zero_points={**attributes.zero_points, "src": 0})


def check_attributes(attributes: Any) -> Attributes:
    """Return the attributes, or the default attributes of a layer."""
    if attributes is None:
        return DEFAULTS
    if not isinstance(attributes, Attributes):
        raise TypeError(f"attributes must be Attributes, got {type(attributes).__name__}")
    return attributes


def group_size(scale: Any, group: Any, oc: int, ic: int, bits: int = 8) -> int:
    """Return the number of k that share a scale, or 0 without groups. `group`, or a matrix of scales, determines the
    number of k.

    With 4 bits, a given `group` need not divide ic.
    """
    rows = "ceil(ic / group)" if bits == 4 else "ic / group"
    if group is not None:
        group = check_group(group, ic, bits)
        wanted = f"scales['weights'] must have shape ({rows}, oc), {(-(-ic // group), oc)}, for group={group}"
        if scale is None:
            raise ValueError(f"{wanted}, or be 'per_channel' for float32 weights, got none")
    if scale is None or isinstance(scale, str) or (group is None and type(scale) is float):
        return group or 0
    shape = widened(scale, "scales['weights']").shape
    if group is not None:
        if shape != (-(-ic // group), oc):
            raise ValueError(f"{wanted}, got {shape}")
        return int(group)
    if len(shape) != 2:
        return 0
    size, step = ic // shape[0] if shape[0] else 0, 32 // bits
    if shape[1] != oc or size < step or size % step or size * shape[0] != ic or size > MAX_GROUP:
        rule = (
            f"8 and at most {MAX_GROUP}, and is given as group unless it divides ic, {ic};"
            if bits == 4
            else f"4, divides ic, {ic}, and is at most {MAX_GROUP},"
        )
        raise ValueError(
            f"scales['weights'] of 2 dimensions must have shape ({rows}, {oc}), with a group that is a multiple of "
            f"{rule} got {shape}"
        )
    return size


def quantize_weights(weights: npt.NDArray[np.float32], scale: Any, group: Any = 0) -> tuple[npt.NDArray[np.int8], Any]:
    """Return float32 weights (oc, ...) as int8 in [-127, 127], and their scales, which are given or computed by
    `weights_scales`.

    `group` is the result of `group_size`, 0 without groups.
    """
    flat = weights.reshape(weights.shape[0], np.prod(weights.shape[1:], dtype=np.intp))
    if not np.isfinite(flat).all():
        raise ValueError("weights must be finite in float32, got NaN or an infinity")
    if isinstance(scale, str):
        if scale not in AUTOMATIC:
            raise ValueError(f"scales['weights'] must be 'per_channel', 'per_tensor' or values, got {shown(scale)}")
        if group:
            if scale != "per_channel":
                raise ValueError(f"scales['weights'] must be 'per_channel' or values with group, got {scale!r}")
            scale = scales_of_groups(flat, "weights", check_group(group, flat.shape[1]))
        else:
            scale = scales_of(flat, "weights", 1 if scale == "per_channel" else 0)
    scale = scale_values(scale, "scales['weights']")
    size = 0 if group == 0 else group_size(scale, group, *flat.shape)
    if not size and scale.shape not in ((), (1,), (len(flat),)):
        more = ": only InnerProduct takes scales by groups of k" if scale.ndim == 2 and group == 0 else ""
        raise ValueError(f"scales['weights'] must be one value or {len(flat)}, got shape {scale.shape}{more}")
    with np.errstate(over="ignore"):
        by_column = np.repeat(scale.T, size, axis=1) if size else scale.reshape(-1, 1)
        quantized = np.clip(np.rint(flat / by_column), -127, 127)
    return quantized.astype(np.int8).reshape(weights.shape), scale


def int8_weights(
    weights: npt.NDArray[Any], scales: dict[str, Any], allowed: tuple[np.dtype[Any], ...], group: Any = 0
) -> Any:
    """Return weights (see `in_float32`) as integers. Quantize float32 weights, and store their scales in `scales`.
    `group` is an argument of `quantize_weights`."""
    if weights.dtype == np.bool_ and np.dtype(np.uint8) in allowed:
        weights = weights.view(np.uint8)
    if weights.dtype == np.float32:
        if "weights" not in scales:
            raise ValueError(
                "scales['weights'] must be given to quantize float32 weights: 'per_channel', 'per_tensor' or values"
            )
        weights, scales["weights"] = quantize_weights(weights, scales["weights"], group)
        return weights
    if weights.dtype not in allowed:
        raise dtype_error(weights, "weights", (*allowed, "float32"))
    if isinstance(scales.get("weights"), str):
        given = shown(scales["weights"])
        raise TypeError(f"scales['weights'] must be values for weights of {weights.dtype}, got {given}")
    return weights


def centered_weights(
    weights: npt.NDArray[Any], zero_points: Any
) -> tuple[npt.NDArray[np.int8], npt.NDArray[Any] | None]:
    """Subtract zero points (one, or one for each oc) from integer weights (oc, ...). Return the differences as int8,
    and None. If a difference does not fit int8, return the weights and the zero points, and subtract 128 from both if
    the weights are uint8. Zero points that do not fit int8 are int64."""
    zeros = zero_point_values(zero_points, "zero_points['weights']", np.dtype(np.int32)).astype(np.int64)
    if zeros.shape not in ((), (1,), (len(weights),)):
        raise ValueError(
            f"zero_points['weights'] must have {len(weights)} values, one for each output channel, or one, got shape "
            f"{zeros.shape}"
        )
    if weights.dtype == np.int8 and not zeros.any():
        return weights, None
    zeros = np.broadcast_to(zeros.reshape(-1), len(weights)) if zeros.size == 1 else zeros
    by_channel = zeros.reshape(-1, *(1,) * (weights.ndim - 1))
    centered = weights.astype(np.int16 if np.abs(zeros).max(initial=0) < 1 << 14 else np.int64)
    centered = centered - by_channel.astype(centered.dtype)
    if centered.size == 0 or (centered.min() >= -128 and centered.max() <= 127):
        return centered.astype(np.int8), None
    shift = 128 if weights.dtype == np.uint8 else 0
    zeros = zeros - shift
    fits = zeros.min() >= -128 and zeros.max() <= 127
    return (weights.astype(np.int16) - shift).astype(np.int8), zeros.astype(np.int8) if fits else zeros


def grouped_attributes(attributes: Attributes, grouped: bool) -> Attributes:
    """Return the attributes of a layer with grouped weights in the form of attributes for weights without groups."""
    if not grouped:
        return attributes
    changed = {"scales": attributes.scales, "zero_points": attributes.zero_points}
    for name, masks in list(changed.items()):
        mask = masks.get("weights", 0)
        if mask == 0:
            continue
        if mask != 3:
            raise ValueError(
                f"{name}['weights'] must have the mask 0 or (1 << 0) | (1 << 1) for weights with groups, got {mask}"
            )
        changed[name] = {**masks, "weights": 1}
    return replace(attributes, scales=changed["scales"], zero_points=changed["zero_points"])


def grouped_values(scales: dict[str, Any], grouped: bool, groups: int, name: str = "scales") -> dict[str, Any]:
    """Return scales or zero points. The values of the weights, of shape (groups, oc / groups), become a vector."""
    if not grouped or "weights" not in scales or isinstance(scales["weights"], str):
        return scales
    values = widened(scales["weights"], f"{name}['weights']")
    if values.ndim != 2 or values.shape[0] != groups:
        return scales
    return {**scales, "weights": values.reshape(-1)}


def grouped_shape(
    shape: tuple[int, ...], groups: int, spatial: int | None, layout: str | None
) -> tuple[tuple[int, ...], int]:
    """Return the shape of weights as (g, oc / g, ic / g, ...). Also return the number of spatial dimensions, or None
    without a layout."""
    if spatial is None:
        if len(shape) == 5 and groups > 1:
            raise ValueError(
                "layout must be given for weights of 5 dimensions and groups: they may have 3 spatial dimensions, "
                "or 2 and a dimension of groups"
            )
        spatial = 3 if len(shape) == 6 else len(shape) - 2
    forms = "(oc, ic / groups, ...) or (groups, oc / groups, ic / groups, ...)"
    if not 1 <= spatial <= 3 or len(shape) not in (spatial + 2, spatial + 3):
        dimensions = "1 to 3" if layout is None else f"the {spatial} of layout {layout!r} as"
        raise ValueError(f"weights must have shape {forms} with {dimensions} spatial dimensions, got {shape}")
    if 0 in shape[-spatial:]:
        raise ValueError(f"weights must have a kernel that is not empty, got shape {shape}")
    if len(shape) == spatial + 3:
        if shape[0] != groups:
            given = "" if layout is None else f" for layout {layout!r}, whose filters have {spatial} spatial dimensions"
            raise ValueError(f"weights must have {groups} groups in their first dimension{given}, got shape {shape}")
        return shape, spatial
    if shape[0] % groups:
        raise ValueError(f"weights must have output channels divisible by groups={groups}, got {shape[0]}")
    return (groups, shape[0] // groups, *shape[1:]), spatial
