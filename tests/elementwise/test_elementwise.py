"""eltwise, binary and sum: every type, function and parameter, bit for bit, on every instruction set."""

from itertools import product

import numpy as np
import pytest
import reference_elementwise as reference
import reference_quantization
import reference_quantized
from elementwise import ends, random_floats, random_integers
from layers import DST_DTYPES, assert_same_bits, name_of
from post_ops import ELTWISES, SPECIAL

import int8blas
from int8blas import Binary, Eltwise, PReLU, ReLU, Sum

DTYPES = DST_DTYPES
BYTES = (np.uint8, np.int8)
every_src = pytest.mark.parametrize("src_dtype", DTYPES, ids=name_of)
every_dst = pytest.mark.parametrize("dst_dtype", DTYPES, ids=name_of)
TRIPLES = list(product(BYTES, BYTES, BYTES))
every_triple = pytest.mark.parametrize("types", TRIPLES, ids=lambda types: " ".join(map(name_of, types)))
every_operation = pytest.mark.parametrize("op", reference_quantized.BINARY)

# Sizes around chunks of 16, vectors of 32 and 64, blocks of 1024 and 4096, and the size from which a lookup table is
# used.
SIZES = (0, 1, 15, 16, 17, 63, 64, 65, 1000, 1023, 1024, 1025, 4097)
CURVES = [Eltwise(name, 1, 0.5) for name in ("tanh", "logistic", "elu", "gelu_erf", "gelu_tanh", "swish")]
ALL_BYTES = {np.uint8: np.arange(256, dtype=np.uint8), np.int8: np.arange(-128, 128, dtype=np.int8)}


def random_array(rng, dtype, shape):
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            return random_floats(rng, shape).astype(dtype)
    return random_integers(rng, dtype, shape)


def zero_point(rng, dtype):
    return 0 if np.dtype(dtype).kind == "f" else int(rng.choice([0, *ends(dtype), 3]))


def scale(rng):
    return float(10 ** rng.uniform(-2, 2))


# --- eltwise ---------------------------------------------------------------------------------------------------------


@every_src
@every_dst
def test_eltwise_of_every_type(isa, src_dtype, dst_dtype, rng):
    for size, ops in product(SIZES, ([], [ReLU()], [Eltwise("linear", -0.5, 3), Eltwise("clip", -9, 1e4)])):
        src = random_array(rng, src_dtype, size)
        options = {
            "scales": {"src": scale(rng), "dst": scale(rng)},
            "zero_points": {"src": zero_point(rng, src_dtype), "dst": zero_point(rng, dst_dtype)},
            "dst_dtype": dst_dtype,
        }
        result = int8blas.eltwise(src, ops, **options)
        assert_same_bits(result, reference.eltwise(src, ops, **options), size=size, ops=ops, **options)


@pytest.mark.parametrize("op", ELTWISES, ids=lambda op: f"{op.algorithm},{op.alpha:g},{op.scale:g}")
def test_every_function_of_special_values(isa, op, rng):
    floats = np.concatenate([SPECIAL, rng.normal(0, 3, 90).astype(np.float32)])
    for src in (floats, *ALL_BYTES.values(), np.tile(ALL_BYTES[np.int8], 9)):
        for dst_dtype in DTYPES:
            result = int8blas.eltwise(src, op, dst_dtype=dst_dtype, scales={"src": 0.3})
            expected = reference.eltwise(src, [op], dst_dtype=dst_dtype, scales={"src": 0.3})
            assert_same_bits(result, expected, src=src.dtype, dst=dst_dtype)


@pytest.mark.parametrize("op", CURVES, ids=lambda op: op.algorithm)
def test_functions_made_of_exp_are_the_same_of_8_bits_and_of_floats_and_on_every_isa(isa, op):
    for src_dtype, dst_dtype, repeats in product(BYTES, DTYPES, (1, 7)):
        src = np.tile(ALL_BYTES[src_dtype], repeats)
        options = {"scales": {"src": 0.05, "dst": 0.01}, "dst_dtype": dst_dtype}
        result = int8blas.eltwise(src, op, **options)
        floats = int8blas.eltwise(reference.real(src, 0.05), op)
        assert_same_bits(result, reference.destination(floats, dst_dtype, 0.01))
        with int8blas.use_isa("ref"):
            assert_same_bits(int8blas.eltwise(src, op, **options), result)


@pytest.mark.parametrize("src_dtype", BYTES, ids=name_of)
@pytest.mark.parametrize("dst_dtype", BYTES, ids=name_of)
def test_functions_of_8_bits_at_every_size(isa, src_dtype, dst_dtype, rng):
    for size in (*range(1000, 1200, 7), *range(4090, 4230, 3), 20000):
        src = random_array(rng, src_dtype, size)
        options = {"scales": {"src": 0.3, "dst": 0.2}, "zero_points": {"src": 3, "dst": 5}, "dst_dtype": dst_dtype}
        assert_same_bits(int8blas.eltwise(src, ReLU(0.1), **options), reference.eltwise(src, [ReLU(0.1)], **options))


def test_a_function_of_8_bits_has_its_own_table(isa):
    """Calls that differ in one number only, one after another. 256 elements are computed without a table."""
    first = {
        "ops": Eltwise("linear", 0.5, 1, 2), "scales": {"src": 0.5, "dst": 0.25}, "zero_points": {"src": 1, "dst": 2},
    }  # fmt: skip
    changes = [
        {"ops": op} for op in (Eltwise("linear", 0.75, 1, 2), Eltwise("linear", 0.5, -1, 2), Eltwise("linear", 0.5, 1),
                               Eltwise("relu", 0.5, 1, 2), (), [Eltwise("linear", 0.5, 1, 2), ReLU()],
                               [Eltwise("linear", 0.5, 1, 2), Eltwise("abs")])
    ] + [
        {"scales": {"src": 0.3, "dst": 0.25}}, {"scales": {"src": 0.5, "dst": 0.3}},
        {"zero_points": {"src": 3, "dst": 2}}, {"zero_points": {"src": 1, "dst": 3}},
        {"dst_dtype": np.uint8}, {"dst_dtype": np.int8}, {"scheme": "onnx"},
    ]  # fmt: skip
    for src, change in product(ALL_BYTES.values(), changes):
        for options in (first, first | change, first, first | change):
            result = int8blas.eltwise(np.tile(src, 9), **options)
            assert_same_bits(result, np.tile(int8blas.eltwise(src, **options), 9), **options)


@every_dst
def test_post_ops_with_operands(isa, dst_dtype, rng):
    for shape in ((3, 50), (7, 300)):
        src = random_array(rng, np.int8, shape)
        vector, column = rng.normal(0, 2, shape[-1]), rng.normal(0, 2, (shape[0], 1))
        ops = [PReLU(vector), Binary(column, "mul"), Sum(0.5, 3), Binary(7, "max"), ReLU(0.5)]
        out = random_array(rng, dst_dtype, shape)
        expected = reference.eltwise(src, ops, dst_dtype=dst_dtype, old=out.copy(), scales={"dst": 0.1})
        int8blas.eltwise(src, ops, dst_dtype=dst_dtype, scales={"dst": 0.1}, out=out)
        assert_same_bits(out, expected, shape=shape)


def test_sum_reads_out_as_another_type(isa, rng):
    src, out = random_array(rng, np.int8, 300), random_array(rng, np.int8, 300)
    ops = [Sum(0.5, 3, np.uint8)]
    expected = reference.eltwise(src, ops, old=out.copy())
    assert_same_bits(int8blas.eltwise(src, ops, out=out), expected)


# --- binary ----------------------------------------------------------------------------------------------------------


@every_operation
@every_dst
def test_binary_of_every_type(isa, op, dst_dtype, rng):
    for types, size in product(product(DTYPES, DTYPES), (17, 100)):
        sources = [random_array(rng, dtype, size) for dtype in types]
        names = ("src0", "src1", "dst")
        options = {
            "scales": {name: scale(rng) for name in names},
            "zero_points": {
                name: zero_point(rng, dtype) for name, dtype in zip(names, (*types, dst_dtype), strict=True)
            },
            "dst_dtype": dst_dtype,
        }
        result = int8blas.binary(op, *sources, **options)
        assert_same_bits(result, reference.binary(op, *sources, **options), types=types, **options)


@every_operation
def test_binary_of_special_values(isa, op):
    first, second = np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))
    for dst_dtype in DTYPES:
        result = int8blas.binary(op, first, second, dst_dtype=dst_dtype)
        assert_same_bits(result, reference.binary(op, first, second, dst_dtype=dst_dtype), dst=dst_dtype)


# For all pairs of bytes: ordinary scales, and scales that give ties, saturate, underflow, or exceed the fast path.
SCALES = (
    (1, 1, 1), (0.5, 0.5, 1), (0.0371, 0.0529, 0.041), (1e3, 1e3, 1e-3), (1e-30, 1e-30, 1e-30), (1e-45, 1, 1),
    (1e30, 1e30, 1e36), (3e38, 1, 1), (3e38, 3e38, 3e38), (1, 1, 3e-39), (1e15, 1e15, 1),
)  # fmt: skip


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_every_pair_of_bytes(isa, op, scales, rng):
    names = ("src0", "src1", "dst")
    for types in product(BYTES, BYTES, BYTES):
        first = np.repeat(ALL_BYTES[types[0]], 256)
        second = np.tile(ALL_BYTES[types[1]], 256)
        for post_ops in ([], [ReLU()], [ReLU(0.1)]):
            options = {
                "scales": dict(zip(names, scales, strict=True)),
                "zero_points": {name: zero_point(rng, dtype) for name, dtype in zip(names, types, strict=True)},
                "dst_dtype": types[2],
                "post_ops": post_ops,
            }
            result = int8blas.binary(op, first, second, **options)
            assert_same_bits(result, reference.binary(op, first, second, **options), types=types, **options)


# A scale of both sources, and the zero points of sources and destination. Most of them allow sums, differences or
# maxima of bytes without conversion. The others have a scale or zero points beyond the limits of this way, or change
# bytes.
PLAIN = (
    (1, (0, 0, 0)), (0.3, (0, 0, 0)), (0.3, (7, 7, 7)), (0.3, (7, 3, 10)), (0.3, (7, 3, 4)), (0.3, (7, 7, 0)),
    (0.3, (7, 7, 8)), (1, (255, -255, 0)), (1, (256, 256, 256)), (2.0**-30, (127, 127, 127)), (2.0**30, (1, 126, 127)),
    (2.0**-31, (0, 0, 0)), (1e30, (9, 9, 9)), (-0.3, (5, 5, 5)),
)  # fmt: skip


@every_operation
@pytest.mark.parametrize("dtype", BYTES, ids=name_of)
def test_every_pair_of_bytes_of_one_scale(isa, op, dtype):
    first, second = np.repeat(ALL_BYTES[dtype], 256), np.tile(ALL_BYTES[dtype], 256)
    for scale, zeros in PLAIN:
        scales, zero_points = {"src0": scale, "src1": scale}, dict(zip(("src0", "src1", "dst"), zeros, strict=True))
        sources = {name: zero_points[name] for name in scales}
        y = reference.binary(op, first, second, scales=scales, zero_points=sources, dst_dtype=np.float32)
        for dst_dtype, scheme, dst_scale in product(BYTES, ("float", "onnx"), (scale, 1, scale * (1 + 2.0**-23))):
            low, high = ends(dst_dtype)
            options = {
                "scales": {**scales, "dst": dst_scale},
                "zero_points": zero_points,
                "dst_dtype": dst_dtype,
                "scheme": scheme,
            }
            if scheme == "float":
                expected = reference.destination(y, dst_dtype, dst_scale, zeros[2])
            elif low <= zeros[2] <= high:
                expected = reference_quantization.quantize(y, dst_scale, zeros[2], dst_dtype, "onnx")
            else:
                continue
            assert_same_bits(int8blas.binary(op, first, second, **options), expected, **options)


@every_triple
def test_sums_of_bytes_at_every_size(isa, types, rng):
    scaled = {"scales": {"src0": 0.3, "src1": 0.4, "dst": 0.5}, "zero_points": {"src1": 3}}
    for size, given in product((*range(1, 140), *range(4090, 4100), 9000, 40_000), (scaled, {})):
        sources = [random_array(rng, dtype, size) for dtype in types[:2]]
        options = {"dst_dtype": types[2], **given}
        assert_same_bits(int8blas.binary("add", *sources, **options), reference.binary("add", *sources, **options))


@every_dst
def test_post_ops_of_binary(isa, dst_dtype, rng):
    for size in (50, 3000):
        sources = [random_array(rng, np.uint8, size) for _ in range(2)]
        for post_ops in ([ReLU()], [ReLU(0, 2)], [ReLU(), ReLU()], [Binary(5, "sub"), ReLU()], [Sum(2), ReLU(0.5)]):
            out = random_array(rng, dst_dtype, size)
            options = {"post_ops": post_ops, "dst_dtype": dst_dtype, "zero_points": {"src0": 128}}
            expected = reference.binary("add", *sources, old=out.copy(), **options)
            assert_same_bits(int8blas.binary("add", *sources, out=out, **options), expected, post_ops=post_ops)


def test_one_post_op_need_not_be_in_a_sequence(rng):
    x = random_array(rng, np.int8, 50)
    assert_same_bits(int8blas.eltwise(x, ReLU()), int8blas.eltwise(x, [ReLU()]))
    assert_same_bits(int8blas.binary("add", x, x, post_ops=ReLU()), int8blas.binary("add", x, x, post_ops=[ReLU()]))


# --- sum -------------------------------------------------------------------------------------------------------------


@every_dst
def test_sum_of_any_number_of_sources_of_any_types(isa, dst_dtype, rng):
    for count, size in product((1, 2, 3, 4, 9, 40), (1, 100, 1500)):
        types = [DTYPES[i] for i in rng.integers(0, len(DTYPES), count)]
        sources = [random_array(rng, dtype, size) for dtype in types]
        options = {
            "scales": [scale(rng) * sign for sign in rng.choice([1, -1, 0], count, p=[0.8, 0.15, 0.05])],
            "zero_points": [zero_point(rng, dtype) for dtype in types],
            "dst_scale": scale(rng),
            "dst_zero_point": zero_point(rng, dst_dtype),
            "dst_dtype": dst_dtype,
        }
        result = int8blas.sum(sources, **options)
        assert_same_bits(result, reference.sum(sources, **options), types=types, **options)


@every_triple
def test_sum_of_two_with_factors_of_either_sign(isa, types, rng):
    sources = [random_array(rng, dtype, 500) for dtype in types[:2]]
    for scales in product((1, 0, -0.3), (1, 0, -0.7)):
        for dst_scale in (0.4, 1):
            options = {"scales": scales, "zero_points": [7, 3], "dst_scale": dst_scale, "dst_dtype": types[2]}
            options["dst_zero_point"] = 10
            assert_same_bits(int8blas.sum(sources, **options), reference.sum(sources, **options), **options)


def test_sum_takes_any_iterable_and_defaults(rng):
    sources = [random_array(rng, np.uint8, (3, 20)) for _ in range(3)]
    assert_same_bits(int8blas.sum(iter(sources)), reference.sum(sources))
    assert_same_bits(int8blas.sum(np.array(sources)), reference.sum(sources))
