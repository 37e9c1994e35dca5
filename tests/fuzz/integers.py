"""matmul of integers of every width: any two dtypes, results of any dtype, each `overflow`, `mod`, and a packed B."""

import numpy as np

import int8blas

from .draws import held

WORK = 14
DTYPES = (np.int64, np.int32, np.int16, np.uint8, np.int8, np.uint16, np.uint32, np.uint64, np.bool_)
PACKED = ("int16", "int8", "uint8")
RESULTS = (np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32, np.uint64)


def operand(draws, shape):
    """An array whose values use some of the bits of its dtype."""
    dtype = np.dtype(draws.among(DTYPES))
    if dtype.kind == "b":
        return draws.array(np.uint8, shape) % 2 == 1
    array = draws.array(dtype, shape)
    if not draws.below(2):
        return array
    return array >> dtype.type(draws.below(8 * dtype.itemsize))


def problem(draws):
    m, n, k = draws.sizes(3, WORK)
    batch = [draws.integer(1, 3) for _ in range(draws.below(3))]
    shapes = [
        (*(1 if draws.below(2) else size for size in batch[draws.below(len(batch) + 1) :]), *matrix)
        for matrix in ((m, k), (k, n))
    ]
    for side in range(2):
        if draws.once_in(16):
            shapes[side] = (k,)
    problem = {"a": operand(draws, shapes[0]), "b": operand(draws, shapes[1])}
    problem["dtype"] = draws.among(RESULTS)
    problem["overflow"] = draws.among(("saturate", "wrap", "raise"))
    problem["mod"] = None
    if draws.once_in(4):
        bits = draws.integer(2, min(31, np.iinfo(problem["dtype"]).bits - 1))
        problem["mod"], problem["overflow"] = draws.integer(1 << (bits - 1), (1 << bits) - 1), "saturate"
    b = problem["b"]
    problem["packed"] = problem["mod"] is None and b.ndim == 2 and b.dtype.name in PACKED and bool(draws.below(2))
    shape = np.shape(product(problem))
    problem["out"] = draws.output(problem["dtype"], shape) if draws.below(2) and shape else None
    return problem


def product(problem):
    """The exact product, of Python's integers."""
    a, b = (np.asarray(problem[name]) for name in "ab")
    return np.asarray((a * 1).astype(object) @ (b * 1).astype(object), object)


def right(problem):
    """B, packed if the problem says so and the sums surely fit int64."""
    a, b = np.asarray(problem["a"]), problem["b"]
    largest = max(abs(int(a.min())), abs(int(a.max()))) if a.size else 0
    return int8blas.pack_b(b) if problem["packed"] and largest < 1 << (62 - 8 * b.itemsize - WORK) else b


def run(problem):
    out, keywords = problem["out"], {name: problem[name] for name in ("dtype", "overflow", "mod")}
    memory, target = (None, None) if out is None else out.fresh()
    try:
        result = int8blas.matmul(problem["a"], right(problem), out=target, **keywords)
    except OverflowError:
        return (memory if out is not None else np.array("beyond"),)
    return (np.asarray(result) if out is None else memory,)


def oracle(problem):
    exact, info = product(problem), np.iinfo(problem["dtype"])
    low, high = int(info.min), int(info.max)
    if problem["mod"] is not None:
        exact = np.asarray(exact % problem["mod"])
    elif problem["overflow"] == "wrap":
        exact = np.asarray((exact - low) % (high - low + 1) + low)
    elif problem["overflow"] == "raise" and exact.size and not low <= exact.min() <= exact.max() <= high:
        return (np.array("beyond") if problem["out"] is None else problem["out"].fresh()[0],)
    elif exact.size:
        exact = np.asarray(np.clip(exact, low, high))
    return (held(problem["out"], exact.astype(problem["dtype"])),)
