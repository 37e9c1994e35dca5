"""How errors show values and dtypes, and the remedies that they suggest."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

# Short names for dtypes whose own names are long.
KINDS = {"O": "object", "U": "str", "S": "bytes", "M": "datetime64", "m": "timedelta64"}
# The most elements of an array of objects that an error examines.
MOST_OBJECTS = 1 << 20
# The most characters of a value in an error.
MOST_CHARACTERS = 80


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


def dtype_error(array: npt.NDArray[Any], name: str, wanted: Iterable[object]) -> TypeError:
    """Return the TypeError for an input whose dtype is not among the `wanted` names, with a remedy."""
    names = tuple(map(str, wanted))
    return TypeError(f"{name} must be {either(names)}, got {dtype_name(array.dtype)}{remedy(array, name, names)}")


def remedy(array: npt.NDArray[Any], name: str, wanted: tuple[str, ...]) -> str:
    """Return the end of an error that says how to convert an array to one of these dtypes."""
    dtype = array.dtype
    given = "x" if " " in name else name
    conversion = f": give np.asarray({given}, %s)"
    integers = [one for one in wanted if "int" in one]
    floats = [one for one in wanted if "float" in one]
    if dtype.names:
        return f": give one of them, such as {given}[{dtype.names[0]!r}]"
    if dtype.kind == "O":
        return remedy_of_objects(array, given, wanted)
    if dtype.name in wanted:  # in the other byte order
        return conversion % numpy_name(dtype.name)
    if dtype.kind not in "biuf" and dtype.name != "bfloat16":
        return ""
    if dtype.kind in "biu":
        to = "int32" if "int32" in wanted else (integers or floats)[0]
        return (f"{conversion}, if its values fit" if integers else conversion) % numpy_name(to)
    if floats:
        return conversion % numpy_name(floats[0])
    return f": quantize it (int8blas.quantize), or{conversion[1:]} of whole numbers" % numpy_name(integers[0])


def numpy_name(name: str) -> str:
    """Return the expression by which a program names a dtype."""
    return "ml_dtypes.bfloat16" if name == "bfloat16" else f"np.{name}"


def remedy_of_objects(array: npt.NDArray[Any], given: str, wanted: tuple[str, ...]) -> str:
    """Return the remedy for an array of objects, which pandas makes of columns of its own types."""
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
    return f": give np.asarray({given}, {numpy_name(wanted[0])}), or .to_numpy({numpy_name(wanted[0])}) of a column"


def shown(x: object) -> str:
    """Return a value as an error shows it: a short value whole, a long value by its ends."""
    try:
        text = " ".join((str(x) if isinstance(x, np.generic) else repr(x)).split())
    except ValueError:  # Python writes no integer of thousands of digits
        return f"an integer of {x.bit_length()} bits" if isinstance(x, int) else type(x).__name__
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[: MOST_CHARACTERS // 2]}...{text[-MOST_CHARACTERS // 2 :]} ({len(text)} characters)"
