"""Scales and zero points: checks, computation from a range of values, and a file of parameters."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import as_array, dtype_argument, dtype_from, widened
from int8blas.core.file import register
from int8blas.core.streams import Origin, Target, name_of, read_to_end, written
from int8blas.core.words import dtype_name, shown

FORMAT = "int8blas quantization parameters"
VERSION = 1
FIELDS = ("dtype", "axis", "scale", "zero_point")

# The smallest scale that this module computes. The reciprocal of a smaller, subnormal scale could overflow.
SMALLEST_SCALE = np.finfo(np.float32).smallest_normal
# The maximum number of terms of a sum that fits int32. A term is a product of two differences of 8-bit numbers, and
# each difference is at most 255.
INT32_TERMS = (2**31 - 1) // 255**2


# NumPy computes the limits of a type anew for each iinfo, which takes 2 us (Emerald Rapids).
_limits = functools.cache(np.iinfo)


def int8_dtype(dtype: Any, name: str) -> np.dtype[Any]:
    """Return the dtype int8 or uint8."""
    found = dtype_from(dtype)
    if found is None or found not in (np.int8, np.uint8):
        raise TypeError(f"{name} must be uint8 or int8, got {dtype_argument(dtype)}")
    return found


def integer(value: Any, name: str) -> int:
    """Return a Python integer. Refuse a bool."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None


def real(value: Any, name: str) -> float:
    """Return a real number as a Python float. Refuse a bool."""
    # timedelta64 is an np.integer, but is no number without its unit.
    refused = isinstance(value, (bool, np.bool_, np.timedelta64))
    if refused or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be finite, got {shown(value)}") from None


def _found(values: Any, array: npt.NDArray[Any]) -> Any:
    """Return the text that an error shows for an argument: one value, or the type of several values."""
    return dtype_name(array.dtype) if array.ndim else shown(values)


def _float32_values(values: Any, name: str) -> npt.NDArray[np.float32]:
    array = widened(values, name)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be real numbers, got {_found(values, array)}")
    if array.dtype == np.float32:
        return array.copy("K")
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(np.float32)


def _is_ordinary(value: Any) -> bool:
    """Return whether a value is a Python float that is normal in float32, and whose reciprocal is finite. Checking its
    array takes 4 us (Emerald Rapids)."""
    return type(value) is float and 1e-37 < abs(value) < 1e37


def scale_values(values: Any, name: str) -> npt.NDArray[np.float32]:
    """Return finite float32 values of any shape. No value may be 0."""
    if _is_ordinary(values):
        return np.array(values, np.float32)
    array = _float32_values(values, name)
    wrong = array[(array == 0) | ~np.isfinite(array)]
    if wrong.size:
        raise ValueError(f"{name} must be finite and not 0 in float32, got {shown(wrong.flat[0])}")
    return array


def divisor_values(values: Any, name: str) -> npt.NDArray[np.float32]:
    """Return float32 values of any shape whose reciprocals are finite. The reciprocals are factors of a destination."""
    array = scale_values(values, name)
    if _is_ordinary(values):
        return array
    with np.errstate(over="ignore"):
        wrong = array[np.isinf(1 / array)]
    if wrong.size:
        raise ValueError(
            f"{name} must be more than 2**-128, whose reciprocal is not finite in float32, got {shown(wrong.flat[0])}"
        )
    return array


def zero_point_values(values: Any, name: str, dtype: np.dtype[Any]) -> npt.NDArray[np.int32]:
    """Return int32 values of any shape within the range of `dtype`."""
    info = _limits(dtype)
    if type(values) is int and info.min <= values <= info.max:
        return np.array(values, np.int32)
    # Copy the argument, because another thread may write to it between the check and the conversion.
    array = as_array(values, name).copy()
    # astype(object) would turn dates into integers.
    objects = array if array.dtype.kind in "mM" else array.astype(object)
    if array.dtype.kind not in "iu" and not all(type(value) is int for value in objects.flat):
        raise TypeError(f"{name} must be integers, got {_found(values, array)}")
    wrong = array[(array < info.min) | (array > info.max)]
    if wrong.size:
        allowed = f"between {info.min} and {info.max}, the range of {dtype}"
        raise ValueError(f"{name} must be {allowed}, got {shown(wrong.flat[0])}")
    return array.astype(np.int32)


@dataclass(frozen=True, eq=False)
class QuantizationParameters:
    """The scale and the zero point of a quantized tensor, ``x_f32 = scale * (x_int8 - zero_point)``.

    Parameters
    ----------
    scale : float or array_like
        One number, or with `axis` one number for each channel, of shape (C,). In float32, scales must be finite and not
        0. Scales may be negative.
    zero_point : int or array_like of int, optional
        Integers with the shape of `scale`, in the range of `dtype`.
    dtype : int8 or uint8, optional
        The type of the quantized values. The attribute is a numpy.dtype.
    axis : int, optional
        The dimension of the channels, or None for one scale per tensor.

    Attributes
    ----------
    scale : numpy.float32 or numpy.ndarray
        One float32, or a read-only array of float32.
    zero_point : int or numpy.ndarray
        One integer, or a read-only array of int32.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Notes
    -----
    The objects are immutable. Two objects are equal if all four attributes are equal. The relation is the quantization
    model of oneDNN's specification, chapter "Int8".

    Examples
    --------
    >>> import numpy as np
    >>> from int8blas.calibration import QuantizationParameters
    >>> QuantizationParameters(0.5, 128, np.uint8)
    QuantizationParameters(scale=np.float32(0.5), zero_point=128, dtype=dtype('uint8'), axis=None)
    >>> QuantizationParameters([0.5, 0.25], [0, 0], axis=0).scale
    array([0.5 , 0.25], dtype=float32)
    """

    scale: Any
    zero_point: Any = 0
    dtype: Any = np.int8
    axis: Any = None

    def __post_init__(self) -> None:
        dtype = int8_dtype(self.dtype, "dtype")
        axis = None if self.axis is None else integer(self.axis, "axis")
        scale = scale_values(self.scale, "scale")
        zero_point = zero_point_values(self.zero_point, "zero_point", dtype)
        wanted = 0 if axis is None else 1
        if scale.ndim != wanted:
            channels = "one number if axis is None" if axis is None else "of shape (C,) if axis is given"
            raise ValueError(f"scale must be {channels}, got shape {scale.shape}")
        if zero_point.shape != scale.shape:
            raise ValueError(f"zero_point must have the shape of scale, {scale.shape}, got {zero_point.shape}")
        for name, array in (("scale", scale), ("zero_point", zero_point)):
            array.flags.writeable = False
            object.__setattr__(self, name, array if wanted else array[()])
        if not wanted:
            object.__setattr__(self, "zero_point", int(zero_point))
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "axis", axis)

    def _key(self) -> tuple[Any, ...]:
        values = np.asarray(self.scale).tolist(), np.asarray(self.zero_point).tolist()
        return (self.dtype, self.axis, *(tuple(v) if isinstance(v, list) else v for v in values))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantizationParameters):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return QuantizationParameters, (self.scale, self.zero_point, self.dtype, self.axis)


register(QuantizationParameters)


def scale_of_range(
    low: npt.NDArray[Any], high: npt.NDArray[Any], dtype: np.dtype[Any], symmetric: bool
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
    """Return (scale, zero point) of each range from `low` to `high`, as the module `calibration` defines them.

    Scale and zero point are computed in double precision. The scale is rounded to float32 once, and the zero point
    follows from the rounded scale.
    """
    low, high = low.astype(np.float64), high.astype(np.float64)
    info = np.iinfo(dtype)
    if symmetric:
        largest = np.maximum(np.abs(low), np.abs(high))
        non_negative = (low >= 0) & (dtype == np.uint8)
        scale = largest / np.where(non_negative, 255, 127)
    else:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        scale = (high - low) / 255
    with np.errstate(under="ignore"):
        rounded = np.where(scale == 0, 1, np.maximum(scale.astype(np.float32), SMALLEST_SCALE)).astype(np.float32)
    if symmetric:
        zero_point = np.where(non_negative | (dtype == np.int8), 0, 128)
    else:
        zero_point = np.clip(np.rint(info.min - low / rounded.astype(np.float64)), info.min, info.max)
    return rounded, zero_point.astype(np.int32)


def scale_of_largest(largest: npt.NDArray[Any], limit: int = 127) -> npt.NDArray[np.float32]:
    """Return the scales of :func:`scale_of_range` for the symmetric range from -`largest` to `largest` and integers
    from -`limit` to `limit`."""
    scale = largest.astype(np.float64) / limit
    with np.errstate(under="ignore"):
        rounded: npt.NDArray[np.float32] = np.maximum(scale.astype(np.float32), SMALLEST_SCALE)
    rounded[scale == 0] = 1
    return rounded


def _decimal(scale: np.float32) -> float:
    """Return the shortest decimal number that becomes `scale` when it is read as float64 and rounded to float32."""
    short = float(str(scale))
    return short if np.float32(short) == scale else float(scale)


def save_parameters(path: Target, parameters: Mapping[str, QuantizationParameters]) -> None:
    """Write scales and zero points to a file. :func:`load_parameters` reads equal values back.

    Parameters
    ----------
    path : path-like or file object
        A path is created or replaced. If the call is interrupted, the old file does not change. A file object needs a
        method `write` for bytes, and stays open.
    parameters : mapping of str to QuantizationParameters
        The parameters by the name of the tensor. The file keeps the order of the parameters.

    Raises
    ------
    TypeError
        If `parameters` is not a mapping from str to QuantizationParameters.
    OSError
        If the file cannot be written.

    Notes
    -----
    The file is JSON (UTF-8) for people to read, compare and edit, with a line for each tensor. The file has no
    checksum, so that people can edit it::

        {
          "format": "int8blas quantization parameters",
          "version": 1,
          "parameters": {
            "layer.src": {"dtype": "uint8", "axis": null, "scale": 0.05882353, "zero_point": 0}
          }
        }

    Examples
    --------
    >>> import os, tempfile
    >>> from int8blas.calibration import QuantizationParameters, load_parameters, save_parameters
    >>> parameters = {"layer.src": QuantizationParameters(15 / 255, 0, "uint8")}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_parameters(os.path.join(folder, "model.json"), parameters)
    ...     load_parameters(os.path.join(folder, "model.json")) == parameters
    True
    """
    if not isinstance(parameters, Mapping):
        raise TypeError(f"parameters must be a mapping of names, got {type(parameters).__name__}")
    lines = []
    for name, value in parameters.items():
        if not isinstance(name, str):
            raise TypeError(f"parameters must have names that are str, got {shown(name)}")
        if not isinstance(value, QuantizationParameters):
            raise TypeError(f"parameters[{name!r}] must be QuantizationParameters, got {type(value).__name__}")
        scales = [_decimal(scale) for scale in np.atleast_1d(value.scale)]
        entry = {
            "dtype": value.dtype.name,
            "axis": value.axis,
            "scale": scales[0] if value.axis is None else scales,
            "zero_point": np.asarray(value.zero_point).tolist(),
        }
        lines.append(f"\n    {json.dumps(name)}: {json.dumps(entry)}")
    head = f'{{\n  "format": {json.dumps(FORMAT)},\n  "version": {VERSION},\n  "parameters": {{'
    text = head + ",".join(lines) + "\n  }\n}\n"
    with written(path) as write:
        write(text.encode())


def load_parameters(path: Origin) -> dict[str, QuantizationParameters]:
    """Load scales and zero points from a file of :func:`save_parameters`.

    Parameters
    ----------
    path : path-like or file object
        A path, or a file object with a method `readinto` or `read` for bytes, which is read to its end.

    Returns
    -------
    dict of str to QuantizationParameters
        The saved parameters, in the same order.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If `save_parameters` did not write the file, or the file has another version, is not JSON, or has a wrong value.
        The error says where. A changed digit of a number is not detected.

    Examples
    --------
    See :func:`save_parameters`.
    """
    name, content = name_of(path), read_to_end(path)
    try:
        tree = json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is damaged or not a file of {FORMAT}: {error}") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise ValueError(f"{name} is not a file of {FORMAT}: it has no such format")
    version = tree.get("version")
    if type(version) is not int or version != VERSION:
        raise ValueError(f"{name} has version {version!r} of the format, this int8blas reads version {VERSION}")
    entries = tree.get("parameters")
    if set(tree) != {"format", "version", "parameters"} or not isinstance(entries, dict):
        raise ValueError(f"{name} is damaged: it must have format, version and parameters, got {', '.join(tree)}")
    return {tensor: _read_entry(entry, f"{name} is damaged: {tensor!r}") for tensor, entry in entries.items()}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict. Raise an error if a name occurs twice, because the json module would keep only
    the last value."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name!r} occurs twice")
        found[name] = value
    return found


def _read_entry(entry: Any, where: str) -> QuantizationParameters:
    """Return one tensor's parameters, or raise a ValueError that begins with `where`."""
    if not isinstance(entry, dict) or set(entry) != set(FIELDS):
        raise ValueError(f"{where} must have {', '.join(FIELDS)}, got {shown(entry)}")
    many = isinstance(entry["scale"], list)
    for field, types in (("scale", (int, float)), ("zero_point", (int,))):
        values = entry[field] if many and isinstance(entry[field], list) else [entry[field]]
        if not all(type(value) in types for value in values):
            raise ValueError(f"{where} must have numbers as {field}, got {shown(entry[field])}")
    try:
        if entry["dtype"] not in ("int8", "uint8"):
            raise ValueError(f"dtype must be int8 or uint8, got {shown(entry['dtype'])}")
        return QuantizationParameters(entry["scale"], entry["zero_point"], entry["dtype"], entry["axis"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None
