"""DequantizeLinear, an operator, QuantizeLinear of ONNX, fused or not: by int8blas.onnx, and step by step in NumPy.

Types, scales and zero points differ or not, and scales are of either sign. Scales are powers of two where an operator
of bytes multiplies them in another order than its nodes do: all steps are exact then.
"""

import numpy as np
from onnx_models import loaded
from reference_onnx import dequantized, max_pool, quantized

F = np.float32
NAMES = {np.uint8: "uint8", np.int8: "int8"}
DOMAINS = ("", "", "", "com.microsoft.")
POWERS = tuple(F(2.0**n) for n in (0, -1, 1, -3, 3))
OTHERS = (F(0.3), F(0.007), F(12.7))
UNUSUAL = (0.0, -0.0, np.nan, 3e38, -3e38)
CONSTANTS = {
    "flat": np.array([0, -1]), "zero": np.array([0]), "three": np.array([3]), "end": np.array([-1]),
    "before": np.array([-99]), "ends": np.array([0, -1]), "twice": np.array([1, 2, 1, 1]), "one": np.array([1]),
    "low": np.array(-1.5, F), "high": np.array(2.5, F), "zw": np.array(3, np.int8), "none": np.array(0, F),
}  # fmt: skip
# Of one tensor (n, c, h, w).
MOVES = {
    "Identity": ("Identity(f0)", lambda x: x),
    "Reshape": ("Reshape(f0, flat)", lambda x: x.reshape(len(x), -1)),
    "Transpose": ("Transpose<perm = [0, 2, 3, 1]>(f0)", lambda x: x.transpose(0, 2, 3, 1)),
    "Flatten": ("Flatten(f0)", lambda x: x.reshape(len(x), -1)),
    "Unsqueeze": ("Unsqueeze(f0, zero)", lambda x: x[None]),
    "Slice": ("Slice(f0, end, before, three, end)", lambda x: x[..., ::-1]),
    "Gather": ("Gather<axis = 3>(f0, ends)", lambda x: x[..., [0, -1]]),
    "Tile": ("Tile(f0, twice)", lambda x: np.tile(x, (1, 2, 1, 1))),
}
ORDERED = {
    "MaxPool": ("MaxPool<kernel_shape = [2, 2], auto_pad = \"SAME_UPPER\">(f0)",
                lambda x: max_pool(x, kernel_shape=[2, 2], auto_pad="SAME_UPPER")),
    "GlobalMaxPool": ("GlobalMaxPool(f0)", lambda x: x.max((2, 3), keepdims=True)),
    "ReduceMax": ("ReduceMax(f0)", lambda x: x.max(keepdims=True)),
    "ReduceMin": ("ReduceMin(f0)", lambda x: x.min(keepdims=True)),
    "TopK": ("TopK(f0, one)", lambda x: x.max(-1, keepdims=True)),
    "Clip": ("Clip(f0, low, high)", lambda x: np.minimum(np.maximum(x, F(-1.5)), F(2.5))),
    "Max with 0": ("Max(f0, none)", lambda x: np.maximum(x, F(0))),
    "Relu": ("Relu(f0)", lambda x: np.maximum(x, F(0))),
    "LeakyRelu": ("LeakyRelu<alpha = 0.5>(f0)", lambda x: np.where(x < 0, x * F(0.5), x)),
    "Abs": ("Abs(f0)", np.abs), "Neg": ("Neg(f0)", np.negative), "Sign": ("Sign(f0)", np.sign),
}  # fmt: skip
# Of two tensors, or of one taken twice.
PAIRS = {
    "Max": ("Max(f0, f1)", np.maximum), "Min": ("Min(f0, f1)", np.minimum),
    "Add": ("Add(f0, f1)", np.add), "Sub": ("Sub(f0, f1)", np.subtract), "Mul": ("Mul(f0, f1)", np.multiply),
}  # fmt: skip
CONCAT = "Concat<axis = 1>({})"
PRODUCT = "MatMul(f0, w)"
OPERATORS = (*MOVES, *ORDERED, *PAIRS, "Concat", "Concat", "Concat", "MatMul")
EXACT_BY_POWERS = ("Add", "Mul", "MatMul")
NO_VECTOR = ("MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "TopK", "MatMul", *MOVES)


def scale_of(draws, powers, unusual):
    if unusual and draws.once_in(24):
        return np.array(draws.among(UNUSUAL), F)
    scale = draws.among(POWERS if powers else POWERS + OTHERS)
    return np.array(-scale if draws.once_in(4) else scale, F)


def parameters(draws, name, powers, like=None, channels=0):
    """A dtype, a scale and a zero point, each of which may be that of another quantization."""
    dtype = draws.among((np.uint8, np.int8))
    limits = np.iinfo(dtype)
    zero = draws.among((0, limits.min, limits.max, draws.integer(0, 127)))
    scale = scale_of(draws, powers, not powers)
    if like is not None and draws.below(4) and like["scale"].shape in ((), (channels,)):
        scale = like["scale"]
        zero = int(like["zero"].flat[0]) if limits.min <= like["zero"].flat[0] <= limits.max else zero
    vector = channels and draws.once_in(6) and scale.ndim == 0
    if vector:
        scale = np.array([scale_of(draws, powers, False) for _ in range(channels)], F)
    zero = np.full(scale.shape, zero, dtype)
    given = {"name": name, "scale": scale, "zero": zero, "fixed": not draws.once_in(8), "domain": draws.among(DOMAINS)}
    return given | {"left_out": dtype is np.uint8 and not zero.any() and draws.once_in(4)}


def problem(draws):
    operator = draws.among(OPERATORS)
    powers = operator in EXACT_BY_POWERS
    n, c, h, w = draws.integer(1, 2), draws.integer(1, 4), draws.integer(1, 3), draws.integer(1, 5)
    count = draws.integer(1, 3) if operator == "Concat" else 2 if operator in PAIRS and draws.below(4) else 1
    sources = []
    for i in range(count):
        channels = draws.integer(1, 4) if i and operator == "Concat" else c
        given = parameters(draws, i, powers, sources[0] if i else None, channels)
        x = draws.array(given["zero"].dtype.type, (n, channels, h, w))
        sources.append(given | {"x": x})
    result = parameters(draws, "y", powers, sources[0], 0 if operator in NO_VECTOR or operator == "Concat" else c)
    weights = draws.array(np.int8, (w, 3)) if operator == "MatMul" else np.zeros((1, 1), np.int8)
    return {
        "operator": operator, "sources": sources, "result": result, "weights": weights,
        "weights_scale": np.array([draws.among(POWERS) * draws.among((1, 1, -1)) for _ in range(weights.shape[1])], F),
        "after": draws.among(("", "", "Relu", "Clip")), "kept": draws.among(("", "", "", "", "f0", "m")),
        "opset": draws.among((13, 18, 19, 21, 23)),
    }  # fmt: skip


def names_of(given):
    """The inputs behind the first one."""
    return f"s{given['name']}" + ("" if given["left_out"] else f", z{given['name']}")


def text_of(problem):
    operator, sources = problem["operator"], problem["sources"]
    ports, nodes = [], []
    for given in (*sources, problem["result"]):
        kind, name = NAMES[given["zero"].dtype.type], given["name"]
        if name != "y":
            ports.append(f"{kind}[n{name},c{name},h{name},w{name}] x{name}")
            nodes.append(f"f{name} = {given['domain']}DequantizeLinear<axis = 1>(x{name}, {names_of(given)})")
        if not given["fixed"]:
            size = f"[{given['scale'].size}]" if given["scale"].ndim else ""
            ports += [f"float{size} s{name}"] + ([] if given["left_out"] else [f"{kind}{size} z{name}"])
    if operator == "Concat":
        body = CONCAT.format(", ".join(f"f{given['name']}" for given in sources))
    elif operator == "MatMul":
        nodes.append("w = DequantizeLinear<axis = 1>(wq, ws, wz)")
        body = PRODUCT
    else:
        body = {**MOVES, **ORDERED, **PAIRS}[operator][0]
        body = body if len(sources) > 1 else body.replace("f1", "f0")
    nodes.append(("m, i = " if operator == "TopK" else "m = ") + body)
    if problem["after"]:
        nodes.append("r = Relu(m)" if problem["after"] == "Relu" else "r = Clip(m, low, high)")
    result = problem["result"]
    last = "r" if problem["after"] else "m"
    nodes.append(f"y = {result['domain']}QuantizeLinear<axis = 1>({last}, {names_of(result)})")
    kept = f", float {problem['kept']}" if problem["kept"] else ""
    return f"g ({', '.join(ports)}) => ({NAMES[result['zero'].dtype.type]} y{kept}) {{ {' '.join(nodes)} }}"


def run(problem):
    columns = problem["weights"].shape[1]
    constants = {**CONSTANTS, "wq": problem["weights"], "ws": problem["weights_scale"],
                 "wz": np.full(columns, 3, np.int8)}  # fmt: skip
    feeds = {f"x{given['name']}": given["x"] for given in problem["sources"]}
    for given in (*problem["sources"], problem["result"]):
        where = constants if given["fixed"] else feeds
        where[f"s{given['name']}"] = given["scale"]
        if not given["left_out"]:
            where[f"z{given['name']}"] = given["zero"]
    text = text_of(problem)
    used = {name: value for name, value in constants.items() if name in text}
    model = loaded(text, opset=problem["opset"], microsoft=True, constants=used)
    y, *kept = model.run(None, feeds)
    return y, *(value + F(0) for value in kept)


def oracle(problem):
    operator, result = problem["operator"], problem["result"]
    f = [dequantized(given["x"], given["scale"], given["zero"]) for given in problem["sources"]]
    if operator == "Concat":
        m = np.concatenate(f, 1)
    elif operator == "MatMul":
        m = f[0] @ dequantized(problem["weights"], problem["weights_scale"], np.array(3, np.int8))
    elif operator in PAIRS:
        m = PAIRS[operator][1](f[0], f[-1])
    else:
        m = {**MOVES, **ORDERED}[operator][1](f[0])
    r = m if not problem["after"] else np.maximum(m, F(0))
    if problem["after"] == "Clip":
        r = np.minimum(np.maximum(m, F(-1.5)), F(2.5))
    y = quantized(r, result["scale"], result["zero"])
    kept = {"": [], "f0": [f[0]], "m": [m]}[problem["kept"]]
    return y, *(value + F(0) for value in kept)
