"""The texts of errors: values, dtypes and suggested remedies."""

import sys
import warnings
from collections.abc import Iterable
from numbers import Number
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

# Short names for dtypes whose own names are long.
KINDS = {"O": "object", "U": "str", "S": "bytes", "M": "datetime64", "m": "timedelta64"}
# The maximum number of elements of an object array that an error examines.
MOST_OBJECTS = 1 << 20
# KEEPS_VALUES says whether NumPy has a cast that raises an error if it would change a value.
KEEPS_VALUES = np.lib.NumpyVersion(np.__version__) >= "2.4.0"
# The maximum number of characters of a value in an error.
MOST_CHARACTERS = 80


def check_once(layer: object, value: object) -> None:
    """Refuse a second call of __init__, which could replace what another thread reads."""
    if value is not None:
        raise TypeError(f"{type(layer).__name__} must not be initialized twice")


def check_created(layer: object, value: object) -> None:
    """Refuse an object from __new__, and an object whose __init__ has failed."""
    if value is None:
        raise TypeError(f"{type(layer).__name__} must be created with its weights")


def is_option(value: object, options: tuple[object, ...]) -> bool:
    """Return whether a value is one of some numbers or strings. Check the type first, because `in` would compare the
    elements of an array."""
    return isinstance(value, (Number, str)) and value in options


def boolean(value: object, name: str) -> bool:
    """Return a flag that is a bool, or 0 or 1."""
    if not isinstance(value, (bool, np.bool_, int)) or value not in (0, 1):
        raise TypeError(f"{name} must be a bool, got {shown(value)}")
    return bool(value)


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype in an error."""
    if dtype.names:
        return f"a structured dtype with the fields {', '.join(dtype.names)}"
    name = KINDS.get(dtype.kind, dtype.name)
    return name if dtype.isnative else f"{name} in the other byte order"


def either(names: Iterable[object]) -> str:
    """Return names as part of a sentence: a, b or c."""
    items = list(map(str, names))
    return f"{', '.join(items[:-1])} or {items[-1]}" if len(items) > 1 else items[0]


def warn(text: str) -> None:
    """Give a RuntimeWarning that points to the nearest caller outside this package."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "int8blas":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, RuntimeWarning, stacklevel=level if frame is not None else 2)


def dtype_error(array: npt.NDArray[Any], name: str, wanted: Iterable[object], given: object = None) -> TypeError:
    """Return the TypeError for an input whose dtype is not among the `wanted` names, with a remedy.

    `array` was made from `given`. If `given` is a list or a table (of pandas or polars), the error names its type.
    """
    names = tuple(map(str, wanted))
    is_table = hasattr(given, "to_numpy") and hasattr(given, "columns")
    what = f"a {type(given).__name__} of " if is_table or isinstance(given, (list, tuple)) else ""
    text = remedy(array, name, names)
    if is_table and not text:
        text = ": give .to_numpy() of its columns of numbers"
    return TypeError(f"{name} must be {either(names)}, got {what}{dtype_name(array.dtype)}{text}")


def remedy(array: npt.NDArray[Any], name: str, wanted: tuple[str, ...]) -> str:
    """Return the end of an error: how to convert an array to one of these dtypes without changing its numbers."""
    dtype = array.dtype
    given = "x" if " " in name else name
    integers = [one for one in wanted if "int" in one]
    floats = [one for one in wanted if "float" in one]
    if dtype.names:
        return f": give one of them, such as {given}[{dtype.names[0]!r}]"
    if dtype.kind == "O":
        return remedy_of_objects(array, given, wanted)
    if dtype.name in wanted:  # in the other byte order
        return f": give {conversion(given, dtype.name)}"
    if dtype.kind not in "biuf" and dtype.name != "bfloat16":
        return ""
    # NumPy's cast with casting="same_value" does not check the values of arrays in another byte order (NumPy 2.4), and
    # does not know bfloat16.
    if not dtype.isnative or (integers and dtype.name == "bfloat16"):
        given = conversion(given, "float32" if dtype.name == "bfloat16" else dtype.name)
    if dtype.kind in "biu" and integers:
        return remedy_of_integers(array, given, integers)
    if floats:
        loses = dtype.kind in "iu" and not np.can_cast(dtype, np.float32)
        return f": give {conversion(given, floats[0])}" + (", which rounds integers beyond 2**24" if loses else "")
    whole = f", or give {checked(given, integers[0])} of whole numbers" if KEEPS_VALUES else ""
    return f": quantize it (int8blas.quantize){whole}"


def remedy_of_integers(array: npt.NDArray[Any], given: str, wanted: list[str]) -> str:
    """Return the remedy for integers: the first `wanted` type that can represent the integers, or their range if no
    type can."""
    # A broadcast array may have any number of elements. Examine each element in memory once.
    held = array[tuple(slice(None, None if step else 1) for step in array.strides)]
    low, high = (int(held.min()), int(held.max())) if held.size else (0, 0)
    for to in sorted(wanted, key="int32".__ne__):
        if np.iinfo(to).min <= low and high <= np.iinfo(to).max:
            return f": give {conversion(given, to) if np.can_cast(array.dtype, to) else checked(given, to)}"
    return f" of values from {low} to {high}"


def conversion(given: str, to: str) -> str:
    """Return the expression that converts `given` to the dtype `to`, which has equal or nearest numbers."""
    return f"np.asarray({given}, {numpy_name(to)})"


def checked(given: str, to: str) -> str:
    """Return a conversion of integers that raises an error if a number does not fit. With KEEPS_VALUES the conversion
    accepts floats that are whole numbers. `np.asarray` would wrap a number that does not fit, without an error."""
    if KEEPS_VALUES:
        return f"np.asarray({given}).astype({numpy_name(to)}, casting='same_value')"
    return f"np.array(np.asarray({given}).tolist(), {numpy_name(to)})"


def numpy_name(name: str) -> str:
    """Return the expression by which a program names a dtype."""
    return "ml_dtypes.bfloat16" if name == "bfloat16" else f"np.{name}"


def remedy_of_objects(array: npt.NDArray[Any], given: str, wanted: tuple[str, ...]) -> str:
    """Return the remedy for an array of objects. pandas makes such arrays from columns of pandas types, and from
    columns of different types."""
    missing = others = 0
    for value in array.flat[:MOST_OBJECTS]:
        # NA and NaT of pandas
        if value is None or type(value).__name__ in ("NAType", "NaTType") or (type(value) is float and value != value):
            missing += 1
        elif not isinstance(value, (int, float, np.number, np.bool_)):
            others += 1
    if others or not array.size:
        return ""
    if missing:
        return f" with {missing} missing values: fill them first, as .fillna(0) does in pandas"
    numbers = np.array(array.tolist())
    return "" if numbers.dtype.kind == "O" else remedy(numbers, f"np.asarray({given}).tolist()", wanted)


def shown(x: object) -> str:
    """Return the text for a value in an error: all of a short value, or the two ends of a long value."""
    try:
        text = " ".join((str(x) if isinstance(x, np.generic) else repr(x)).split())
    except ValueError:  # Python does not convert integers of thousands of digits to text
        return f"an integer of {x.bit_length()} bits" if isinstance(x, int) else type(x).__name__
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[: MOST_CHARACTERS // 2]}...{text[-MOST_CHARACTERS // 2 :]} ({len(text)} characters)"
