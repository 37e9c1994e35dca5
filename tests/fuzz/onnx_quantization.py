"""ONNX's DequantizeLinear, an operator and QuantizeLinear, fused or not: int8blas.onnx against single steps in NumPy.

Types, scales and zero points are equal or different, and scales have either sign. If an operator on bytes multiplies
scales in another order than its nodes, they are powers of two, so that all steps are exact.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from onnx_models import loaded, run_again
from reference_onnx import dequantized, max_pool, over, quantized, windows

F = np.float32
BYTES, WORDS = (np.uint8, np.int8), (np.uint16, np.int16)  # words from version 21 on
DOMAINS = ("", "", "", "com.microsoft.")
POWERS = tuple(F(2.0**n) for n in (0, -1, 1, -3, 3))
OTHERS = (F(0.3), F(0.007), F(12.7))
UNUSUAL = (0.0, -0.0, np.nan, 3e38, -3e38)
LOW, HIGH = F(-1.5), F(2.5)
CONSTANTS = {
    "flat": np.array([0, -1]), "zero": np.array([0]), "three": np.array([3]), "end": np.array([-1]),
    "before": np.array([-99]), "ends": np.array([0, -1]), "twice": np.array([1, 2, 1, 1]), "one": np.array([1]),
    "low": np.array(LOW), "high": np.array(HIGH), "none": np.array(0, F),
}  # fmt: skip
ENDS = {"": lambda m: m, "Relu": lambda m: np.maximum(m, F(0)), "Clip": lambda m: np.clip(m, LOW, HIGH)}


class Row(NamedTuple):
    """An operator of dequantized tensors f0 and f1, (n, c, h, w).

    Parameters
    ----------
    text : str
        The node's operator and inputs.
    function : Callable
        The same in NumPy.
    powers : bool
        Whether all scales are powers of two.
    vector : bool
        Whether the result may have scales along its second dimension, which has the size of the input's second
        dimension.
    """

    text: str
    function: Callable
    powers: bool = False
    vector: bool = False


def convolution(x, w):
    """A correlation with SAME_UPPER."""
    elements, inside, _ = windows(x, kernel_shape=w.shape[2:], auto_pad="SAME_UPPER")
    return np.einsum("nchwij,ocij->nohw", np.where(inside, elements, F(0)), w)


OPERATORS = {
    "Identity": Row("Identity(f0)", lambda x: x, vector=True),
    "Reshape": Row("Reshape(f0, flat)", lambda x: x.reshape(len(x), math.prod(x.shape[1:]))),
    "Transpose": Row("Transpose<perm = [0, 2, 3, 1]>(f0)", lambda x: x.transpose(0, 2, 3, 1)),
    "Flatten": Row("Flatten(f0)", lambda x: x.reshape(len(x), math.prod(x.shape[1:]))),
    "Unsqueeze": Row("Unsqueeze(f0, zero)", lambda x: x[None]),
    "Slice": Row("Slice(f0, end, before, three, end)", lambda x: x[..., ::-1], vector=True),
    "Gather": Row("Gather<axis = 3>(f0, ends)", lambda x: x[..., [0, -1]], vector=True),
    "Tile": Row("Tile(f0, twice)", lambda x: np.tile(x, (1, 2, 1, 1))),
    "MaxPool": Row('MaxPool<kernel_shape = [2, 2], auto_pad = "SAME_UPPER">(f0)',
                   lambda x: max_pool(x, kernel_shape=[2, 2], auto_pad="SAME_UPPER"), vector=True),
    "GlobalMaxPool": Row("GlobalMaxPool(f0)", lambda x: x.max((2, 3), keepdims=True), vector=True),
    "ReduceMax": Row("ReduceMax(f0)", lambda x: x.max(keepdims=True)),
    "ReduceMin": Row("ReduceMin(f0)", lambda x: x.min(keepdims=True)),
    "TopK": Row("TopK(f0, one)", lambda x: x.max(-1, keepdims=True), vector=True),
    "Clip": Row("Clip(f0, low, high)", ENDS["Clip"], vector=True),
    "Relu": Row("Relu(f0)", ENDS["Relu"], vector=True),
    "Max of a number": Row("Max(f0, none)", ENDS["Relu"], vector=True),
    "LeakyRelu": Row("LeakyRelu<alpha = 0.5>(f0)", lambda x: np.where(x < 0, x * F(0.5), x), vector=True),
    "Abs": Row("Abs(f0)", np.abs, vector=True),
    "Neg": Row("Neg(f0)", np.negative, vector=True),
    "Sign": Row("Sign(f0)", np.sign, vector=True),
    # Operators of two tensors, or of the same one twice.
    "Max": Row("Max(f0, f1)", np.maximum),
    "Min": Row("Min(f0, f1)", np.minimum),
    "Sub": Row("Sub(f0, f1)", np.subtract),
    "Add": Row("Add(f0, f1)", np.add, powers=True),
    "Mul": Row("Mul(f0, f1)", np.multiply, powers=True),
    # Operators of any number of tensors.
    "Concat": Row("Concat<axis = 1>({})", lambda *parts: np.concatenate(parts, 1)),
    # Operators with weights and perhaps a bias.
    "MatMul": Row("MatMul(f0, w)", np.matmul, powers=True),
    "Gemm": Row("Gemm<alpha = 0.5>(f0, w{})", lambda x, w: F(0.5) * (x @ w), powers=True),
    "Gemm, transposed": Row("Gemm<transB = 1>(f0, w{})", lambda x, w: x @ w.T, powers=True),
    "Conv": Row('Conv<auto_pad = "SAME_UPPER">(f0, w{})', convolution, powers=True),
}  # fmt: skip
# Each operator is drawn in proportion to its occurrences here.
NAMES = (*OPERATORS, "Concat", "Concat", "MaxPool", "Add")
# The axis of the weights' scales.
WEIGHTS = {"MatMul": 1, "Gemm": 1, "Gemm, transposed": 0, "Conv": 0}


def scale_of(draws, powers, unusual):
    if unusual and draws.once_in(24):
        return np.array(draws.among(UNUSUAL), F)
    scale = draws.among(POWERS if powers else POWERS + OTHERS)
    return np.array(-scale if draws.once_in(4) else scale, F)


def parameters(draws, name, powers, words=False, like=None, channels=0):
    """A type, a scale and a zero point; each may be taken from another quantization."""
    dtype = draws.among(WORDS if words and draws.once_in(4) else BYTES)
    limits = np.iinfo(dtype)
    zero = draws.among((0, limits.min, limits.max, draws.integer(0, 127)))
    scale = scale_of(draws, powers, not powers)
    if like is not None and draws.below(4) and like["scale"].shape in ((), (channels,)):
        scale = like["scale"]
        zero = int(like["zero"].flat[0]) if limits.min <= like["zero"].flat[0] <= limits.max else zero
    if channels and draws.once_in(6) and scale.ndim == 0:
        scale = np.array([scale_of(draws, powers, False) for _ in range(channels)], F)
    zero = np.full(scale.shape, zero, dtype)
    given = {"name": name, "scale": scale, "zero": zero, "fixed": not draws.once_in(8), "domain": draws.among(DOMAINS)}
    return given | {"left_out": dtype is np.uint8 and not zero.any() and draws.once_in(4)}


def elements(draws, dtype, shape):
    """An array of 8 or 16 bits."""
    if np.dtype(dtype).itemsize == 1:
        return draws.array(dtype, shape)
    return np.ascontiguousarray(draws.array(np.uint8, (*shape[:-1], 2 * shape[-1]))).view(dtype)


def weights_of(draws, operator, shape, source):
    """Weights and their parameters, and perhaps a bias with the scale of the sums or another one; {} if the operator
    has no weights."""
    if operator not in WEIGHTS:
        return {}
    count = draws.integer(1, 3)
    if operator == "Conv":
        size = (count, shape[1], draws.integer(1, 2), draws.integer(1, 2))
    else:
        size = (count, shape[-1]) if WEIGHTS[operator] == 0 else (shape[-1], count)
    scale = np.array([draws.among(POWERS) * draws.among((1, 1, -1)) for _ in range(count)], F)
    given = {"w": draws.array(draws.among(BYTES[::-1]), size), "scale": scale, "zero": draws.among((0, 3))}
    if operator != "MatMul" and draws.below(2):
        factor = draws.among((1, 1, 1, 2)) * (0.5 if operator == "Gemm" else 1)
        given |= {"bias": draws.int32s(count) >> 16, "bias_scale": (source["scale"] * scale * factor).astype(F)}
    return given


def problem(draws):
    operator, opset = draws.among(NAMES), draws.among((13, 18, 19, 21, 23))
    row = OPERATORS[operator]
    shape = draws.integer(1, 2), draws.integer(1, 4), draws.integer(1, 3), draws.integer(1, 5)
    if operator.startswith("Gemm"):
        shape = shape[:2]
    elif draws.once_in(16) and operator not in ("ReduceMax", "ReduceMin", "Reshape"):  # no result without elements
        shape = 0, *shape[1:]
    pair = "f1" in row.text
    sources = []
    for i in range(draws.integer(1, 3) if operator == "Concat" else 2 if pair and draws.below(4) else 1):
        size = shape
        if i and operator == "Concat":
            size = (shape[0], draws.integer(1, 4), *shape[2:])
        elif i:
            size = tuple(one if draws.below(3) else 1 for one in shape)
        given = parameters(draws, i, row.powers, opset >= 21 and not row.powers, sources[0] if i else None,
                           0 if operator.startswith(("Gemm", "Conv")) else size[1])  # fmt: skip
        sources.append(given | {"x": elements(draws, given["zero"].dtype.type, size)})
    words = opset >= 21 and not row.powers
    return {
        "operator": operator, "opset": opset, "sources": sources,
        "result": parameters(draws, "y", row.powers, words, sources[0], shape[1] if row.vector else 0),
        "weights": weights_of(draws, operator, shape, sources[0]),
        "after": draws.among(("", "", "Relu", "Clip")), "kept": draws.among(("", "", "", "", "f0", "m")),
    }  # fmt: skip


def names_of(given):
    """The inputs after the first one."""
    return f"s{given['name']}" + ("" if given["left_out"] else f", z{given['name']}")


def text_of(problem):
    operator, sources, result, weights = (problem[key] for key in ("operator", "sources", "result", "weights"))
    ports, nodes = [], []
    for given in (*sources, result):
        kind, name = given["zero"].dtype.name, given["name"]
        if name != "y":
            ports.append(f"{kind}[{','.join(f'd{name}{i}' for i in range(given['x'].ndim))}] x{name}")
            nodes.append(f"f{name} = {given['domain']}DequantizeLinear<axis = 1>(x{name}, {names_of(given)})")
        if not given["fixed"]:
            size = f"[{given['scale'].size}]" if given["scale"].ndim else ""
            ports += [f"float{size} s{name}"] + ([] if given["left_out"] else [f"{kind}{size} z{name}"])
    if weights:
        nodes.append(f"w = DequantizeLinear<axis = {WEIGHTS[operator]}>(wq, ws, wz)")
    if "bias" in weights:
        nodes.append("b = DequantizeLinear<axis = 0>(bq, bs)")
    behind = ", ".join(f"f{given['name']}" for given in sources)
    body = OPERATORS[operator].text.format(", b" if "bias" in weights else "" if weights else behind)
    nodes.append(
        ("m, i = " if operator == "TopK" else "m = ") + (body if len(sources) > 1 else body.replace("f1", "f0"))
    )
    if problem["after"]:
        nodes.append("r = Relu(m)" if problem["after"] == "Relu" else "r = Clip(m, low, high)")
    last = "r" if problem["after"] else "m"
    nodes.append(f"y = {result['domain']}QuantizeLinear<axis = 1>({last}, {names_of(result)})")
    kept = f", float {problem['kept']}" if problem["kept"] else ""
    return f"g ({', '.join(ports)}) => ({result['zero'].dtype.name} y{kept}) {{ {' '.join(nodes)} }}"


def run(problem):
    weights, constants = problem["weights"], dict(CONSTANTS)
    if weights:
        zero = np.full(weights["scale"].shape, weights["zero"], weights["w"].dtype)
        constants |= {"wq": weights["w"], "ws": weights["scale"], "wz": zero}
    if "bias" in weights:
        constants |= {"bq": weights["bias"], "bs": weights["bias_scale"]}
    feeds = {f"x{given['name']}": given["x"] for given in problem["sources"]}
    for given in (*problem["sources"], problem["result"]):
        where = constants if given["fixed"] else feeds
        where[f"s{given['name']}"] = given["scale"]
        if not given["left_out"]:
            where[f"z{given['name']}"] = given["zero"]
    text = text_of(problem)
    used = {name: value for name, value in constants.items() if name in text}
    y, *kept = run_again(loaded(text, opset=problem["opset"], microsoft=True, constants=used), feeds)
    return y, *(value + F(0) for value in kept)


def oracle(problem):
    operator, result, weights = problem["operator"], problem["result"], problem["weights"]
    f = [dequantized(given["x"], given["scale"], given["zero"]) for given in problem["sources"]]
    factors = f if "f1" not in OPERATORS[operator].text else [f[0], f[-1]]
    if weights:
        zero = np.array(weights["zero"], weights["w"].dtype)
        factors = [f[0], dequantized(weights["w"], weights["scale"], zero, WEIGHTS[operator])]
    m = OPERATORS[operator].function(*factors)
    if "bias" in weights:
        m = m + over(weights["bias"].astype(F) * weights["bias_scale"], m.ndim, 1)
    y = quantized(ENDS[problem["after"]](m), result["scale"], result["zero"])
    kept = {"": [], "f0": [f[0]], "m": [m]}[problem["kept"]]
    return y, *(value + F(0) for value in kept)
