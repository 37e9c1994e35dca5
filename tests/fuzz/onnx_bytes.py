"""Hostile ONNX files: models with changed fields and bytes. A file must load or raise an error of the documented
types."""

from contextlib import suppress
from functools import cache

import numpy as np
import onnx
from onnx_models import model_of

import int8blas.onnx

from .files import limited_memory
from .onnx_graphs import MODELS

REFUSED = (ValueError, TypeError, NotImplementedError)
NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63))
TEXTS = ("", "x", "a", "y", "MatMulInteger", "Reshape", "Loop", "\0", "com.microsoft")
BYTES = (b"", b"\0", b"\xff" * 9, b"\1\2\3\4")
CHANGES = ("set", "set", "set", "clear", "double")
NETWORK = """g (float[n,3,8,8] x) => (float[n,6] y) <int64[2] s = {0, 6}, float[6,48] w> {
    p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
    r = Reshape(p, s) t = Softmax<axis = 1>(r) y = Slice(t, s, s)
}"""


@cache
def originals():
    """Models."""
    texts = [text.format(a="uint8", b="int8") for text in MODELS.values()]
    texts.append("g (float[2,3] x) => (float[6] y) <int64[1] s = {6}> { y = Reshape(x, s) }")
    texts.append("g (uint8[m,3] a) => (int32[m,2] y) <int8[3,2] b = {1, 2, 3, 4, 5, 6}> { y = MatMulInteger(a, b) }")
    texts.append(NETWORK.replace(", float[6,48] w", ""))
    return [model_of(text).SerializeToString() for text in texts]


def fields(message):
    """Every (message, field) that is set in a message and in the messages that it contains."""
    for field, value in message.ListFields():
        yield message, field
        if field.type == field.TYPE_MESSAGE:
            for inner in value if isinstance(value, list) or hasattr(value, "add") else [value]:
                yield from fields(inner)


def changed(draws, message, field):
    """One field, changed in place."""
    change, value = draws.among(CHANGES), getattr(message, field.name)
    if change == "clear":
        message.ClearField(field.name)
    elif hasattr(value, "append"):
        items = list(value)
        if change == "double":
            value.extend(items[draws.below(len(items)) :])
        elif field.type != field.TYPE_MESSAGE:
            value[draws.below(len(items))] = scalar(draws, field)
        else:
            del value[draws.below(len(items))]
    elif field.type != field.TYPE_MESSAGE:
        setattr(message, field.name, scalar(draws, field))


def scalar(draws, field):
    """Another value for a field of numbers, text or bytes."""
    if field.type == field.TYPE_STRING:
        return draws.among(TEXTS)
    if field.type == field.TYPE_BYTES:
        return draws.among(BYTES)
    if field.type == field.TYPE_ENUM:
        return draws.among(sorted(field.enum_type.values_by_number))
    number = draws.among(NUMBERS)
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return float(number)
    return number if field.type == field.TYPE_INT64 else number % 32


def problem(draws):
    model = onnx.ModelProto.FromString(draws.among(originals()))
    for _ in range(draws.integer(1, 4)):
        found = list(fields(model))
        if found:
            changed(draws, *draws.among(found))
    content = model.SerializeToString()
    if draws.once_in(8):
        place = draws.below(len(content))
        content = content[:place] + content[place + draws.size(4) :]
    return {"content": content}


def run(problem):
    with limited_memory(), suppress(*REFUSED):
        model = int8blas.onnx.load(problem["content"])
        feeds = {port.name: np.ones([1] * len(port.shape), np.uint8) for port in model.get_inputs()}
        with suppress(MemoryError):  # a valid graph may ask for a tensor of any size
            model.run(None, feeds)
    return ()


def oracle(problem):
    return ()
