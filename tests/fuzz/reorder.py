"""reorder between types and layouts, gather, and weights_scales."""

import numpy as np
import reference_quantization
import reference_reorder

import int8blas

from .draws import held, stored

DTYPES = (np.float32, np.int32, np.int8, np.uint8)
LETTERS = ("nc", "ncw", "nchw", "oi", "oihw", "goi", "goihw")


def problem(draws):
    if draws.below(2):
        return gathered(draws)
    letters = draws.among(LETTERS)
    shape = tuple(draws.sizes(len(letters), draws.among((9, 9, 9, 13)), empty=False))
    source, target = draws.among(DTYPES), draws.among(DTYPES)
    generator = draws.generator()
    mask = draws.below(1 << len(letters))
    selected = [size for axis, size in enumerate(shape) if mask & (1 << axis)]
    parameters = {}
    for name in draws.some(("scales", "zero_points", "src_scales", "src_zero_points")):
        dtype = source if name.startswith("src") else target
        if name.endswith("scales"):
            parameters[name] = np.exp(generator.normal(0, 3, selected)).astype(np.float32)
        elif dtype != np.float32:
            low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype != np.int32 else (-1000, 1000)
            low, high = (low, high) if draws.below(3) else (-(2**31), 2**31 - 1)
            parameters[name] = generator.integers(low, high, selected, np.int32, endpoint=True)
    order = "".join(sorted(letters, key=lambda _: draws.fraction()))
    return {"x": reference_reorder.values_of(generator, source, shape), "letters": letters, "order": order,
            "dtype": target, "mask": mask, "parameters": parameters}  # fmt: skip


def gathered(draws):
    """Rows of a table."""
    rows, columns = draws.sizes(2, 13, empty=False)
    table = draws.array(draws.among((np.uint8, np.int8)), (rows, columns))
    axis = draws.among((None, 0, 1))
    count = () if axis is None else table.shape[axis]
    generator = draws.generator()
    indices = generator.integers(0, rows, draws.sizes(draws.integer(1, 2), 6))
    return {
        "table": table,
        "indices": indices,
        "axis": axis,
        "scale": generator.uniform(0.01, 1, count).astype(np.float32),
        "zero_point": generator.integers(*draws.among(((0, 127), (-(2**31), 2**31))), count),
        "out": draws.output(np.float32, (*indices.shape, columns)) if draws.below(2) else None,
    }


# exact:  y = x - src_zero_point + zero_point                                                  in integers
# else:   y = f32(x - src_zero_point) * src_scale / scale + f32(zero_point), the zero point for NaN
def formula(x, dtype, mask, scales=None, zero_points=None, src_scales=None, src_zero_points=None):
    """Compute reference_reorder.expected_values for all elements at once."""
    shape = [size if mask & (1 << axis) else 1 for axis, size in enumerate(x.shape)]
    scale, zero, src_scale, src_zero = (None if each is None else np.reshape(each, shape) if np.ndim(each) else each
                                        for each in (scales, zero_points, src_scales, src_zero_points))  # fmt: skip
    real = dtype == np.float32
    if x.dtype != np.float32:
        x = x.astype(np.int64) - (0 if src_zero is None else src_zero)
    if x.dtype != np.float32 and not real and scale is None and src_scale is None:
        y = x + (0 if zero is None else zero)
    else:
        y = x.astype(np.float32)
        y = y if src_scale is None else y * src_scale
        y = y if scale is None else y / scale
        if real:
            return y
        zero = np.int64(0) if zero is None else zero
        y = np.where(np.isnan(y), zero.astype(np.float64), np.rint((y + zero.astype(np.float32)).astype(np.float64)))
    return np.clip(y, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


def run(problem):
    if "table" in problem:
        arguments = [problem[name] for name in ("table", "indices", "scale", "zero_point")]
        return (stored(problem["out"], int8blas.gather, *arguments, axis=problem["axis"]),)
    x = problem["x"].transpose([problem["letters"].index(letter) for letter in problem["order"]])
    return (
        int8blas.reorder(
            x, src_layout=problem["order"], dst_layout=problem["letters"], dtype=problem["dtype"], mask=problem["mask"],
            **problem["parameters"],
        ),
    )  # fmt: skip


def oracle(problem):
    if "table" in problem:
        parameters = (
            reference_quantization.along(problem[name], problem["axis"], 2) for name in ("scale", "zero_point")
        )
        expected = reference_quantization.dequantize(problem["table"], *parameters)[problem["indices"]]
        return (held(problem["out"], expected),)
    return (formula(problem["x"], problem["dtype"], problem["mask"], **problem["parameters"]),)
