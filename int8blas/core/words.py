"""What errors say of values and of dtypes, and how to mend them."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

# Of dtypes whose own names say more than a reader wants to know.
KINDS = {"O": "object", "U": "str", "S": "bytes", "M": "datetime64", "m": "timedelta64"}
# Elements of an array of objects that an error looks at.
MOST_OBJECTS = 1 << 20
# Characters of a value in an error.
MOST_CHARACTERS = 80


def dtype_name(dtype: np.dtype[Any]) -> str:
    """A dtype in an error."""
    if dtype.names:
        return f"a structured dtype with the fields {', '.join(dtype.names)}"
    name = KINDS.get(dtype.kind, dtype.name)
    return name if dtype.isnative else f"{name} in the other byte order"


def either(names: Iterable[object]) -> str:
    """Names in a sentence: a, b or c."""
    items = list(map(str, names))
    return f"{', '.join(items[:-1])} or {items[-1]}" if len(items) > 1 else items[0]


def dtype_error(array: npt.NDArray[Any], name: str, wanted: Iterable[object]) -> TypeError:
    """The TypeError of an input of another dtype than those wanted, a sequence of their names, with a remedy."""
    names = tuple(map(str, wanted))
    return TypeError(f"{name} must be {either(names)}, got {dtype_name(array.dtype)}{remedy(array, name, names)}")


def remedy(array: npt.NDArray[Any], name: str, wanted: tuple[str, ...]) -> str:
    """What helps to give an array as one of these dtypes, as the end of an error."""
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
    """Where a program finds a dtype."""
    return "ml_dtypes.bfloat16" if name == "bfloat16" else f"np.{name}"


def remedy_of_objects(array: npt.NDArray[Any], given: str, wanted: tuple[str, ...]) -> str:
    """The same for an array of objects: what pandas makes of columns of its own types."""
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
    """A value in an error: all of a short one, the ends of a long one."""
    try:
        text = " ".join((str(x) if isinstance(x, np.generic) else repr(x)).split())
    except ValueError:  # Python writes no integer of thousands of digits
        return f"an integer of {x.bit_length()} bits" if isinstance(x, int) else type(x).__name__
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[: MOST_CHARACTERS // 2]}...{text[-MOST_CHARACTERS // 2 :]} ({len(text)} characters)"
