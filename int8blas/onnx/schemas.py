"""The attributes in ONNX's schemas of the operators. onnx.defs also has these attributes, but its first use registers
all schemas, which takes longer than loading a small file.
"""

from __future__ import annotations

from pathlib import Path

from int8blas.onnx.types import cached

# The letters of ONNX's types of attributes. "!" marks a required attribute.
LETTERS = {"f": 1, "i": 2, "s": 3, "t": 4, "g": 5, "F": 6, "I": 7, "S": 8, "p": 11, "y": 13}
# An entry of the file has the names of operators with equal attributes, then the versions that change the attributes.
# The attributes of a version, with their types, follow the version: all of them, or only new ones if it ends with "+".
FILE = Path(__file__).with_name("schemas.txt")
# The attributes of a schema: their types, and whether they are required.
Attributes = dict[str, tuple[int, bool]]


@cached
def entries() -> dict[str, list[str]]:
    """Return the words after each operator's name."""
    return {
        name: words[1:] for words in map(str.split, FILE.read_text("ascii").split(";")) for name in words[0].split(",")
    }


@cached
def declared_attributes(operator: str, version: int) -> Attributes | None:
    """Return the attributes of an operator in a version of ONNX, or None if the file lacks the version."""
    found: Attributes | None = None
    for word in entries().get(operator, ()):
        name, _, kind = word.partition(":")
        if kind and found is not None:
            found[name] = LETTERS[kind[0]], kind[1:] == "!"
        elif int(word.rstrip("+")) > version:
            break
        elif found is None or not word.endswith("+"):
            found = {}
    return found
