"""ONNX patterns that become one node, with operands of every shape that broadcasts, against NumPy.

The sums of a product or a convolution are converted to float32 and pass through a list of functions. Several of these
have an operand, constant or not, whose shape may have fewer dimensions than the result, any sizes of 1, or make the
result larger. Sizes may be 0.
"""

import numpy as np
from arrays import SIGN_PAIRS
from onnx import numpy_helper
from onnx_models import model_of, run_again

from int8blas.onnx.model import load

F = np.float32
TYPES = {"float32": "float", "uint8": "uint8", "int8": "int8"}
BINARY = {"Mul": np.multiply, "Add": np.add, "Sub": np.subtract, "Max": np.maximum, "Min": np.minimum}
UNARY = {"Relu": lambda x: np.maximum(x, F(0)), "Abs": np.abs, "Identity": np.copy}
FACTORS = (0.5, 0.031, 1.75, 12.5, 3.0)
SIZES = (2, 1, 3, 5, 1, 4, 0)


def shape_for(draws, shape):
    """A shape that broadcasts with another one."""
    kept = list(shape[draws.below(len(shape) + 1) :])
    for i, size in enumerate(kept):
        if draws.once_in(3):
            kept[i] = 1
        elif size == 1 and draws.once_in(3):
            kept[i] = draws.among(SIZES)
    if len(kept) == len(shape) and draws.once_in(4):
        kept = [*(draws.among((1, 1, 2, 0)) for _ in range(draws.integer(1, 2))), *kept]
    return kept


def operand(draws, shape):
    """Factors of float32, most of them positive."""
    values = np.asarray([draws.among(FACTORS) for _ in range(min(np.prod(shape, dtype=int), 7))] or [1.0], F)
    return np.resize(values, shape) * F(draws.among((1, 1, 1, -1)))


class Text:
    """The text of a graph, written node by node, with its constants and its feeds."""

    def __init__(self, draws):
        self.draws, self.constants, self.feeds, self.nodes = draws, {}, {}, []

    def tensor(self, name, value, constant=None):
        """The name of a tensor, which is constant or fed."""
        constant = self.draws.below(4) < 3 if constant is None else constant
        (self.constants if constant else self.feeds)[name] = np.asarray(value)
        return name

    def node(self, result, call):
        self.nodes.append(f"{result} = {call}")
        return result.split(",")[0]

    def problem(self, output, kind="float", **more):
        sizes = {name: [*x.shape] if x.ndim else "" for name, x in self.feeds.items()}
        ports = ", ".join(f"{TYPES[x.dtype.name]}{sizes[name]} {name}" for name, x in self.feeds.items())
        text = f"g ({ports}) => ({kind} {output}) {{ {' '.join(self.nodes)} }}"
        return {"text": text, "constants": self.constants, "feeds": self.feeds, **more}


def functions(draws, text, name, shape, scale):
    """Functions after a tensor, with their operands; the first one multiplies, also by the tensor named `scale`."""
    found = []
    for i in range(draws.integer(2, 4)):
        if not i or draws.below(3):
            function = "Mul" if not i else draws.among(tuple(BINARY))
            value = operand(draws, shape_for(draws, shape))
            other, left = text.tensor(f"c{i}", value), bool(draws.below(2))
            if not i and scale:
                other = text.node("scale", f"Mul({scale}, {other})")
            name = text.node(f"f{i}", f"{function}({other}, {name})" if left else f"{function}({name}, {other})")
            shape = np.broadcast_shapes(shape, value.shape)
            found.append((function, value, left))
        else:
            function = draws.among(tuple(UNARY))
            name = text.node(f"f{i}", f"{function}({name})")
            found.append((function, None, False))
    return name, tuple(found)


def quantized_by_range(draws, text, a):
    """The names of a tensor of bytes, its scale and its zero point, which are 1 and 0."""
    x = np.array(a, F, order="C")
    x.reshape(-1)[:2] = (255, 0)[: x.size]
    text.node("q, s, z", f"DynamicQuantizeLinear({text.tensor('x', x, False)})")
    if draws.once_in(4):
        text.node("other", "Identity(q)")
    return x


def of_matrices(draws):
    """Sums of a product."""
    text, pair = Text(draws), draws.among(SIGN_PAIRS)
    lead = [draws.among(SIZES) for _ in range(draws.below(3))]
    m, k, n = (draws.among(SIZES) for _ in range(3))
    a_shape = (k,) if draws.once_in(6) else (*lead, m, k)
    b_shape = (*lead[draws.below(len(lead) + 1) :], k, n) if draws.once_in(4) else (k, n)
    dynamic = draws.below(2)
    a, b = draws.array(np.uint8 if dynamic else pair.a_dtype, a_shape), draws.array(pair.b_dtype, b_shape)
    if dynamic:
        a = quantized_by_range(draws, text, a)
        inputs, scale = "q, w, z", "s"
    else:
        inputs, scale = f"{text.tensor('x', a, False)}, w", ""
    text.tensor("w", b)
    sums = np.matmul(a.astype(np.int64), b.astype(np.int64))
    name = text.node("sums", f"MatMulInteger({inputs})")
    return text, text.node("real", f"Cast<to = 1>({name})"), sums.astype(F), scale


def of_windows(draws):
    """Sums of a convolution."""
    text, pair = Text(draws), draws.among(SIGN_PAIRS)
    n, c, o = draws.among((2, 1, 0)), draws.integer(1, 4), draws.integer(1, 4)
    kernel = [draws.integer(1, 2) for _ in range(2)]
    spatial = [size + draws.below(3) for size in kernel]
    dynamic = draws.below(2)
    x = draws.array(np.uint8 if dynamic else pair.a_dtype, (n, c, *spatial))
    w = draws.array(pair.b_dtype, (o, c, *kernel))
    if dynamic:
        x = quantized_by_range(draws, text, x)
        inputs, scale = "q, w, z", "s"
    else:
        inputs, scale = f"{text.tensor('x', x, False)}, w", ""
    text.tensor("w", w)
    views = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), kernel, (2, 3))
    sums = np.einsum("nchwij,ocij->nohw", views, w.astype(np.int64))
    name = text.node("sums", f"ConvInteger({inputs})")
    return text, text.node("real", f"Cast<to = 1>({name})"), sums.astype(F), scale


def of_elements(draws):
    """A chain of functions that begins with an input, without a product."""
    text = Text(draws)
    x = operand(draws, [draws.among(SIZES) for _ in range(draws.below(4))])
    return text, text.tensor("x", x, False), x, ""


def of_bytes(draws):
    """A product that ends in bytes, with parameters of rows and columns."""
    text, pair = Text(draws), draws.among(SIGN_PAIRS)
    lead = [draws.among(SIZES) for _ in range(draws.below(3))]
    m, k, n = (draws.among(SIZES) for _ in range(3))
    b_lead = lead if draws.once_in(3) else []
    a, b = draws.array(pair.a_dtype, (*lead, m, k)), draws.array(pair.b_dtype, (*b_lead, k, n))

    def places(size, stack, rows):
        """One value, a vector, or a value for each row or column, per matrix or for all."""
        whole = [size, 1] if rows else [1, size]
        return draws.among(((), (1,), (size,), (*[1] * len(stack), *whole), (*stack, *whole)))

    shapes = {"a": places(m, lead, True), "b": places(n, b_lead, False)}
    shapes["y"] = draws.among(((), (1,), (*[1] * len(lead), m, 1), (n,)))
    values = {"a": a}
    for name, dtype in (("a", pair.a_dtype), ("b", pair.b_dtype), ("y", pair.a_dtype)):
        values |= {"b": b} if name == "b" else {}
        values[f"s{name}"] = np.abs(operand(draws, shapes[name])) * F(200 if name == "y" else 1)
        values[f"z{name}"] = draws.array(dtype, shapes[name])
    for name, value in values.items():
        text.tensor(name, value, False if name == "a" else None)
    text.node("y", f"QLinearMatMul({', '.join(values)})")
    return text.problem("y", TYPES[np.dtype(pair.a_dtype).name], values=values)


SOURCES = {"matrices": of_matrices, "windows": of_windows, "elements": of_elements}


def problem(draws):
    kind = draws.among((*SOURCES, "matrices", "bytes"))
    if kind == "bytes":
        return of_bytes(draws)
    text, name, source, scale = SOURCES[kind](draws)
    name, found = functions(draws, text, name, source.shape, scale)
    return text.problem(name, source=source, functions=found)


def run(problem):
    model = model_of(problem["text"], 21)
    model.graph.initializer.extend(numpy_helper.from_array(x, name) for name, x in problem["constants"].items())
    return tuple(np.asarray(without_signs(y)) for y in run_again(load(model), problem["feeds"]))


def without_signs(y):
    """Make all zeros positive, because NumPy's maximum does not order -0.0 and 0.0."""
    return y + F(0) if y.dtype == F else y


def oracle(problem):
    if "values" in problem:
        return (rounded(**problem["values"]),)
    y = problem["source"]
    for function, value, left in problem["functions"]:
        operands = (value, y) if left else (y, value)
        y = UNARY[function](y) if value is None else BINARY[function](*operands)
    return (np.asarray(without_signs(y)),)


def rounded(a, sa, za, b, sb, zb, sy, zy):
    """QLinearMatMul: a vector of A is for its rows, a vector of B or of the result is for columns."""
    sa, za = (x.reshape(-1, 1) if x.ndim == 1 else x for x in (sa, za))
    sums = np.matmul(a.astype(np.int64) - za, b.astype(np.int64) - zb)
    limits = np.iinfo(zy.dtype)
    y = np.rint(sums.astype(F) * (sa * sb / sy)).astype(np.float64) + zy
    return np.clip(y, limits.min, limits.max).astype(zy.dtype)
