"""ONNX's operators of windows with every padding: pads, auto_pad, ceil_mode and count_include_pad, in old versions and
new ones, on floats, on bytes and between quantizations. Floats are integers and scales powers of two, so that all sums
are exact."""

import numpy as np
from onnx_models import loaded, run_again
from reference_onnx import average_pool, convolution_sums, dequantized, max_pool, quantized, windows

F = np.float32
NAMES = {np.uint8: "uint8", np.int8: "int8", F: "float"}
QUANTIZE = "y = QuantizeLinear(m, t, u)"
# The nodes of each form: the inputs are x, w, scales s and t, zero points z and u; {} stands for attributes.
FORMS = {
    "average": "y = AveragePool<{}>(x)",
    "maximum": "y = MaxPool<{}>(x)",
    "maximum and place": "y, i = MaxPool<{}>(x)",
    "convolution": "y = Conv<{}>(x, w)",
    "integer convolution": "y = ConvInteger<{}>(x, w, z)",
    "average of bytes": "y = com.microsoft.QLinearAveragePool<{}>(x, s, z, t, u)",
    "average, quantized": f"f = DequantizeLinear(x, s, z) m = AveragePool<{{}}>(f) {QUANTIZE}",
    "maximum, quantized": f"f = DequantizeLinear(x, s, z) m = MaxPool<{{}}>(f) {QUANTIZE}",
    "convolution of bytes": "y = QLinearConv<{}>(x, s, z, w, v, k, t, u)",
}
OF_FLOATS = ("average", "maximum", "maximum and place", "convolution")
PADDINGS = ("NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
SCALES = tuple(F(scale) for scale in (1, 0.5, -1, -0.25))


def attributes(draws, form, spatial, opset):
    """Attributes of a node, and the smallest image in which every window has an element."""
    kernel = [draws.integer(1, 4) for _ in range(spatial)]
    given = {"kernel_shape": kernel, "auto_pad": draws.among(PADDINGS)}
    average = form.startswith("average")
    dilated = not average or (opset >= 19 and "bytes" not in form)
    if draws.below(4):
        given["strides"] = [draws.integer(1, 3) for _ in range(spatial)]
    if dilated and draws.once_in(3):
        given["dilations"] = [draws.integer(1, 2) for _ in range(spatial)]
    if given["auto_pad"] == "NOTSET" or draws.once_in(8):
        given["pads"] = [draws.integer(0, size - 1) for size in kernel * 2]
    if average and draws.below(3):
        given["count_include_pad"] = 1
    if "convolution" not in form and draws.once_in(3):
        given["ceil_mode"] = 1
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, given.get("dilations", [1] * spatial), strict=True)]
    same = given["auto_pad"].startswith("SAME")
    padded = given["auto_pad"] == "NOTSET" and given.get("pads")
    room = [sum(given["pads"][d::spatial]) if padded else 0 for d in range(spatial)]
    if "place" in form:
        return given, spans
    return given, [1 if same else max(span - more, 1) for span, more in zip(spans, room, strict=True)]


def problem(draws):
    form, spatial = draws.among(tuple(FORMS)), draws.integer(1, 3)
    opset = draws.among((12, 18, 19, 22) if form != "average" else (10, 11, 19, 22))
    given, least = attributes(draws, form, spatial, opset)
    size = [low + draws.integer(0, 5) for low in least]
    group, each = draws.integer(1, 3), draws.integer(1, 3)
    x = draws.array(draws.among((np.int8, np.uint8)), (draws.integer(1, 2), group * each, *size))
    dtypes = draws.among((np.int8, np.uint8)), draws.among((np.int8, np.uint8))
    return {
        "form": form, "opset": opset, "attributes": given, "group": group,
        "x": x.astype(F) if form in OF_FLOATS and (not form.startswith("maximum") or draws.below(2)) else x,
        "w": draws.array(dtypes[0], (group * draws.integer(1, 3), each, *given["kernel_shape"])),
        "z": draws.array(x.dtype.type, ()), "u": draws.array(dtypes[1], ()), "k": np.zeros((), dtypes[0]),
        "s": np.array(draws.among(SCALES), F), "t": np.array(draws.among(SCALES), F),
        "v": np.array(draws.among(SCALES), F), "fixed": draws.below(4) > 0,
    }  # fmt: skip


def attributes_of(problem):
    given = problem["attributes"]
    return {**given, "group": problem["group"]} if "convolution" in problem["form"] else given


def result_of(problem):
    """The type of y."""
    form = problem["form"]
    if form == "integer convolution":
        return "int32"
    return NAMES[problem["x" if form in OF_FLOATS else "u"].dtype.type]


def run(problem):
    form, x = problem["form"], problem["x"]
    written = ", ".join(
        f'{name} = "{v}"' if isinstance(v, str) else f"{name} = {v}" for name, v in attributes_of(problem).items()
    )
    values = {name: problem[name] for name in "wzukstv"}
    if form == "convolution":
        values["w"] = values["w"].astype(F)
    if form == "average of bytes":
        values["u"] = values["u"].astype(x.dtype)
    body = FORMS[form].format(written)
    needed = {name: v for name, v in values.items() if f" {name}," in body or f" {name})" in body}
    ports = [f"{NAMES[x.dtype.type]}[{','.join(f'd{i}' for i in range(x.ndim))}] x"]
    if not problem["fixed"]:
        dims = ",".join(f"e{i}" for i in range(x.ndim))
        ports += [f"{NAMES[v.dtype.type]}{f'[{dims}]' if name == 'w' else ''} {name}" for name, v in needed.items()]
    outputs = f"{result_of(problem)} y" + (", int64 i" if form == "maximum and place" else "")
    text = f"g ({', '.join(ports)}) => ({outputs}) {{ {body} }}"
    constants, feeds = (needed, {}) if problem["fixed"] else ({}, needed)
    model = loaded(text, opset=problem["opset"], microsoft=True, constants=constants)
    return run_again(model, {"x": x, **feeds})


def places(x, attributes):
    """The position in the flat image of the first largest element of each window."""
    elements, inside, _ = windows(x.astype(np.float64), **attributes)
    index, _, _ = windows(np.arange(x.size).reshape(x.shape), **attributes)
    flat = (*elements.shape[: x.ndim], -1)
    first = np.where(inside, elements, -np.inf).reshape(flat).argmax(-1)
    return np.take_along_axis(index.reshape(flat), first[..., None], -1)[..., 0]


def oracle(problem):
    form, x, attributes = problem["form"], problem["x"], problem["attributes"]
    s, z, t, u = (problem[name] for name in "sztu")
    if form == "average":
        return (average_pool(x, **attributes),)
    if form.startswith("maximum") and "quantized" not in form:
        y = max_pool(x, **attributes)
        return (y, places(x, attributes)) if "place" in form else (y,)
    if "convolution" in form:
        given = {name: value for name, value in attributes.items() if name != "kernel_shape"}
        zero = 0 if form == "convolution" else int(z)
        sums = convolution_sums(x.astype(np.int64) - zero, problem["w"], problem["group"], **given)
        if "bytes" in form:
            return (quantized(sums.astype(F) * (s * problem["v"]), t, u),)
        return (sums.astype(np.int32 if "integer" in form else F),)
    pool = average_pool if form.startswith("average") else max_pool
    u = u.astype(x.dtype) if "bytes" in form else u
    return (quantized(pool(dequantized(x, s, z), **attributes), t, u),)
