"""A problem as a program."""

import base64
import dataclasses
import zlib

import numpy as np

from .draws import Output, span

FEW = 64  # elements that are printed as a list
HEADER = '''"""Run in the root of a checkout: python this_file.py"""
import sys
sys.path[:0] = [".", "tests"]
from numpy import array, float16, float32, float64, int8, int16, int32, int64, uint8
from int8blas import Attributes, Binary, Eltwise, PReLU, ReLU, Sum
import arrays, convolutions, layers, recurrent
from tests.fuzz.campaign import check, quiet
from tests.fuzz.draws import Output
from tests.fuzz.snippet import memory, placed
'''


def memory(text):
    """Decode bytes that `literal` wrote."""
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), np.uint8)


def placed(flat, shape, strides, offset):
    """A view of another array's memory with these strides, in elements."""
    size = flat.itemsize
    return np.ndarray(shape, flat.dtype, flat.copy(), offset * size, [stride * size for stride in strides])


def literal_array(x):
    """An array as an expression, with its strides."""
    if x.size and all(stride % x.itemsize == 0 for stride in x.strides):
        strides = [stride // x.itemsize for stride in x.strides]
        before, length = span(x.shape, strides)
    if x.size == 0 or x.flags.c_contiguous or length > 1 << 16 or any(stride % x.itemsize for stride in x.strides):
        if x.size <= FEW and x.size:
            return f"array({x.tolist()}, {x.dtype})".replace("nan", "float('nan')").replace("inf", "float('inf')")
        return f"memory({packed(np.ascontiguousarray(x))!r}).view({x.dtype}).reshape({x.shape})"
    flat = np.zeros(length, x.dtype)
    placed_in = np.ndarray(x.shape, x.dtype, flat, before * x.itemsize, x.strides)
    placed_in[...] = x
    return f"placed({literal_array(flat)}, {x.shape}, {strides}, {before})"


def packed(x):
    """The bytes of an array, encoded as text."""
    return base64.b85encode(zlib.compress(x.tobytes(), 9)).decode()


def literal(x):
    """An expression for any value in a problem."""
    if isinstance(x, np.ndarray):
        return literal_array(x)
    if isinstance(x, np.generic):
        return f"array({x.item()!r}, {x.dtype})[()]"
    if isinstance(x, Output):
        return f"Output(memory({packed(x.memory)!r}), {np.dtype(x.dtype)}, {x.shape}, {x.strides}, {x.offset})"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(value)}" for key, value in x.items()) + "}"
    if isinstance(x, tuple):
        return "(" + "".join(f"{literal(value)}, " for value in x) + ")"
    if isinstance(x, list):
        return "[" + ", ".join(map(literal, x)) + "]"
    if type(x).__module__ in ("layers", "convolutions", "recurrent"):
        fields = (f"{one.name}={literal(getattr(x, one.name))}" for one in dataclasses.fields(x))
        return f"{type(x).__module__}.{type(x).__name__}({', '.join(fields)})"
    return x.__name__ if isinstance(x, type) else repr(x)


def snippet(name, isa, threads, problem):
    """A program that fails in the same way as the problem."""
    lines = [f"    {literal(key)}: {literal(value)}," for key, value in problem.items()]
    call = f"    check({name!r}, {isa!r}, {threads}, problem)"
    return "\n".join([HEADER, "problem = {", *lines, "}", "with quiet():", call])
