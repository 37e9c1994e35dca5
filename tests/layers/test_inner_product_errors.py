"""A wrong argument of InnerProduct raises an error that names it, and nothing is written."""

from dataclasses import replace

import numpy as np
import pytest
from errors import read_only, refused, s8, s32, u8
from layers import assert_same_bits

import int8blas
from int8blas import Attributes, Binary, InnerProduct, PReLU, Sum

N, OC, IC = 4, 6, 5


def f32(*shape):
    return np.ones(shape, np.float32)


# --- at creation -----------------------------------------------------------------------------------------------------

CREATION = [
    # weights
    ({"weights": s8(OC)}, ValueError, "weights must have at least 2 dimensions, got shape (6,)"),
    ({"weights": np.int8(1)}, ValueError, "weights must have at least 2 dimensions, got shape ()"),
    ({"weights": s8(OC, IC).astype(np.int32)}, TypeError, "weights must be int8, uint8 or float32, got int32"),
    ({"weights": f32(OC, IC).astype(complex)}, TypeError, "weights must be int8, uint8 or float32, got complex128"),
    ({"weights": f32(OC, IC).astype(">f4")}, TypeError, "weights must be int8, uint8 or float32, got float32 in the"),
    ({"weights": None}, TypeError, "weights must be an array, got None"),
    ({"weights": [["w"]]}, TypeError, "weights must be int8, uint8 or float32, got str"),
    ({"weights": f32(OC, IC)}, ValueError, "scales['weights'] must be given to quantize float32 weights"),
    ({"weights": f32(OC, IC) * np.nan, "scales": {"weights": 1}}, ValueError, "weights must be finite"),
    ({"weights": f32(OC, IC) * np.inf, "scales": {"weights": "per_channel"}}, ValueError, "weights must be finite"),
    ({"weights": f32(OC, IC), "scales": {"weights": "per_row"}}, ValueError,
     "scales['weights'] must be 'per_channel', 'per_tensor' or values, got 'per_row'"),
    ({"weights": f32(OC, IC), "scales": {"weights": [1.0] * 3}}, ValueError,
     "scales['weights'] must be one value or 6, got shape (3,)"),
    ({"weights": f32(OC, IC), "scales": {"weights": 0}}, ValueError, "scales['weights'] must be finite and not 0"),
    ({"weights": f32(OC, IC), "scales": {"weights": np.nan}}, ValueError, "scales['weights'] must be finite"),
    ({"scales": {"weights": "per_channel"}}, TypeError,
     "scales['weights'] must be values for weights of int8, got 'per_channel'"),
    # bias
    ({"bias": [1] * OC}, TypeError, "bias must be float32 or int32, got int64: give np.a"),
    ({"bias": [1, 2]}, TypeError, "bias must be float32 or int32, got int64"),
    ({"bias": "b"}, TypeError, "bias must be float32 or int32, got str"),
    ({"bias": f32(IC)}, ValueError, "bias must have shape (6,), a value for each output channel, got (5,)"),
    ({"bias": f32()}, ValueError, "bias must have shape (6,), a value for each output channel, got ()"),
    ({"bias": f32(1, OC)}, ValueError, "bias must have shape (6,), a value for each output channel, got (1, 6)"),
    ({"bias": f32(OC) * np.nan}, ValueError, "bias must be finite"),
    ({"bias": f32(OC) * -np.inf}, ValueError, "bias must be finite"),
    # types
    ({"src_dtype": np.float32}, TypeError, "src_dtype must be uint8 or int8, got float32"),
    ({"src_dtype": "x"}, TypeError, "src_dtype must be uint8, int8, uint16 or int16, got 'x'"),
    ({"dst_dtype": np.int16}, TypeError, "dst_dtype must be uint8, int8, int32, float32, float16 or bfloat16, got"),
    ({"dst_dtype": 1}, TypeError, "dst_dtype must be uint8, int8, int32, float32, float16 or bfloat16, got 1"),
    ({"attributes": {}}, TypeError, "attributes must be Attributes, got dict"),
    ({"numerics": "fast"}, ValueError, "numerics must be 'exact' or 'saturating', got 'fast'"),
    # dynamic quantization
    ({"dynamic": "row"}, ValueError, "dynamic must be 'per_row', 'per_tensor' or None, got 'row'"),
    ({"dynamic": True}, ValueError, "dynamic must be 'per_row', 'per_tensor' or None, got True"),
    ({"dynamic": "per_row"}, TypeError, "src_dtype must be float32, float16 or bfloat16, got uint8"),
    ({"dynamic": "per_row", "src_dtype": "f4", "dynamic_dtype": np.int16}, TypeError,
     "dynamic_dtype must be uint8 or int8, got int16"),
    *(({"dynamic": "per_row", "src_dtype": "f4", kind: {"src": 1}}, ValueError,
       f"{kind}['src'] must not be given for a source that is quantized dynamically")
      for kind in ("scales", "zero_points")),
    ({"dynamic": np.array([1, 2])}, ValueError, "dynamic must be 'per_row', 'per_tensor' or None, got array"),
    # scales
    *(({kind: value}, TypeError, f"{kind} must be a mapping, got {type(value).__name__}")
      for kind in ("scales", "zero_points") for value in (5, 0.5, [1], f32(4))),
    ({"scales": {"source": 1}}, ValueError, "scales must be for 'src', 'weights' or 'dst', got 'source'"),
    ({"zero_points": {"bias": 1}}, ValueError, "zero_points must be for 'src', 'weights' or 'dst', got 'bias'"),
    *(({"scales": {"dst": scale}}, ValueError, "scales['dst'] must be finite and not 0 in float32, got")
      for scale in (0, -0.0, np.nan, -np.inf, 1e39, 1e-50, [1, 1, 1, 0, 1, 1])),
    *(({"scales": {"dst": scale}}, TypeError, "scales['dst'] must be real numbers, got") for scale in ("1", 1j)),
    ({"scales": {"dst": None}}, TypeError, "scales['dst'] must be an array, got None"),
    ({"scales": {"weights": f32(2)}}, ValueError,
     "scales['weights'] must have 6 values, one for each output channel, got 2"),
    ({"scales": {"dst": f32(IC)}}, ValueError, "scales['dst'] must have 6 values, one for each output channel, got 5"),
    ({"scales": {"dst": f32(1, OC)}}, ValueError, "scales['dst'] must be one value or a vector, got shape (1, 6)"),
    # zero points
    ({"zero_points": {"src": 2**31}}, ValueError,
     "zero_points['src'] must be between -2147483648 and 2147483647, the range of int32, got 2147483648"),
    ({"zero_points": {"src": -(2**31) - 1}}, ValueError,
     "zero_points['src'] must be between -2147483648 and 2147483647, the range of int32, got -2147483649"),
    ({"zero_points": {"src": 2**31}, "src_dtype": "i1"}, ValueError,
     "zero_points['src'] must be between -2147483648 and 2147483647, the range of int32, got 2147483648"),
    ({"zero_points": {"weights": -(2**31) - 1}}, ValueError,
     "zero_points['weights'] must be between -2147483648 and 2147483647, the range of int32, got -2147483649"),
    ({"zero_points": {"weights": 2**31}}, ValueError,
     "zero_points['weights'] must be between -2147483648 and 2147483647, the range of int32, got 2147483648"),
    ({"zero_points": {"weights": -(2**31) - 1}, "weights": u8(OC, IC)}, ValueError,
     "zero_points['weights'] must be between -2147483648 and 2147483647, the range of int32, got -2147483649"),
    ({"zero_points": {"dst": 2**31}}, ValueError, "zero_points['dst'] must be between -2147483648 and 2147483647"),
    ({"zero_points": {"dst": 1.0}}, TypeError, "zero_points['dst'] must be integers, got 1.0"),
    ({"zero_points": {"dst": f32(OC)}}, TypeError, "zero_points['dst'] must be integers, got float32"),
    ({"zero_points": {"weights": [1, 2]}}, ValueError,
     "zero_points['weights'] must have 6 values, one for each output channel, got 2"),
    *(({"dst_dtype": "f4", **given}, ValueError, "zero_points['dst'] must be for an integer type, got float32")
      for given in ({"zero_points": {"dst": 0}}, {"attributes": Attributes(zero_points={"dst": 0})})),
    # masks
    *(({"attributes": Attributes(**{kind: {tensor: mask}})}, ValueError,
       f"{kind}['{tensor}'] must have the mask {wanted}, got {mask}")
      for kind in ("scales", "zero_points")
      for tensor, mask, wanted in (("src", 2, "0 or 1 << 0 (a value for each row)"),
                                   ("weights", 2, "0 or 1 << 0 (a value for each output channel)"),
                                   ("dst", 4, "of dimensions of the destination"))),
    ({"attributes": Attributes(scales={"dst": 0}), "scales": {"dst": f32(OC)}}, ValueError,
     "scales['dst'] must be one value, as its mask is 0, got shape (6,)"),
    ({"attributes": Attributes(scales={"dst": 2}), "scales": {"dst": 1}}, ValueError,
     "scales['dst'] must be a vector, as its mask is not 0, got one value"),
    # the older model
    *(({"attributes": Attributes(output_scales=(0, 1)), kind: {"dst": 1}}, ValueError,
       f"{kind} must not be given together with output_scales") for kind in ("scales", "zero_points")),
    ({"attributes": Attributes(output_scales=(2, [1, 2]))}, ValueError,
     "output_scales must have 6 values, one for each output channel, got 2"),
    # post-ops
    ({"attributes": Attributes(post_ops=[Sum(dtype=np.uint8)]), "dst_dtype": "f4"}, ValueError,
     "dtype of Sum must not be given for a destination of float32"),
    *(({"attributes": Attributes(post_ops=[kind([1, 2])])}, ValueError,
       "operands must broadcast to the destination's shape (6,), got (2,)") for kind in (Binary, PReLU)),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "text"), CREATION)
def test_creation(changes, error, text):
    good = {"weights": s8(OC, IC), "src_dtype": np.uint8, "dst_dtype": np.int8}
    with refused(error, text):
        InnerProduct(**good | changes)


def test_options_are_given_by_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        InnerProduct(s8(OC, IC), None, np.uint8, np.int8)
    for name in ("src_dtype", "dst_dtype"):
        with pytest.raises(TypeError, match=name):
            InnerProduct(s8(OC, IC), **{other: np.int8 for other in ("src_dtype", "dst_dtype") if other != name})


DYNAMIC = "; InnerProduct.dynamic(weights, bias) has all that float32 in and out needs"
FLOATS = "float32, float16 or bfloat16"


def test_every_error_on_the_way_names_the_next_argument():
    w, b, given = f32(OC, IC) + 1, f32(OC), {}
    steps = [
        (None, f"src_dtype must be given, uint8 or int8, or {FLOATS} with dynamic='per_row'" + DYNAMIC),
        ({"src_dtype": np.float32}, "src_dtype must be uint8 or int8, got float32: give dynamic='per_row' to quantize "
         "a float source in each execution" + DYNAMIC),
        ({"dynamic": "per_row"}, f"dst_dtype must be given, uint8, int8, int32, {FLOATS}" + DYNAMIC),
        ({"dst_dtype": np.float32}, "scales['weights'] must be given to quantize float32 weights: 'per_channel', "),
    ]  # fmt: skip
    for more, text in steps:
        given |= more or {}
        with refused((TypeError, ValueError), text):
            InnerProduct(w, b, **given)
    given["scales"] = {"weights": "per_channel"}
    x = np.ones((2, IC), np.float32)
    assert np.array_equal(InnerProduct(w, b, **given)(x), InnerProduct.dynamic(w, b)(x))
    for dtype in (np.float16, np.float64):
        with refused(TypeError, f"src_dtype must be uint8 or int8, got {np.dtype(dtype)}: give dynamic='per_row' to"):
            InnerProduct(w, src_dtype=dtype, dst_dtype=dtype)
    with refused(TypeError, "src_dtype must be given, float32, float16 or bfloat16" + DYNAMIC):
        InnerProduct(w, dynamic="per_tensor")
    with refused(ValueError, "dynamic must be 'per_row' or 'per_tensor', got None"):
        InnerProduct.dynamic(w, dynamic=None)


# --- at execution ----------------------------------------------------------------------------------------------------

DECLARED = Attributes(
    scales={"src": 1, "weights": 1, "dst": 0}, zero_points={"src": 0, "dst": 2}, post_ops=[Sum(), Binary(), PReLU()]
)


def good_execution():
    """Arguments that are right for DECLARED."""
    return {
        "src": u8(N, IC),
        "scales": {"src": f32(N), "weights": f32(OC), "dst": 1},
        "zero_points": {"src": 0, "dst": [0] * OC},
        "operands": [f32(OC), f32(N, 1)],
        "out": np.full((N, OC), 77, np.int8),
    }


EXECUTION = [
    *(({"src": src}, TypeError, "src must be uint8, got") for src in
      (s8(N, IC), f32(N, IC), u8(N, IC).astype(float), [[1] * IC], "a")),
    ({"src": None}, TypeError, "src must be an array, got None"),
    ({"src": u8(N, IC + 1)}, ValueError, "src must have shape (n, 5) or (..., 5), got (4, 6)"),
    ({"src": u8(IC, N)}, ValueError, "src must have shape (n, 5) or (..., 5), got (5, 4)"),
    ({"src": np.uint8(1)}, ValueError, "src must have shape (n, 5) or (..., 5), got ()"),
    ({"src": u8(0)}, ValueError, "src must have shape (n, 5) or (..., 5), got (0,)"),
    ({"src": u8(N, 2, 2)}, ValueError, "src must have shape (n, 5) or (..., 5), got (4, 2, 2)"),
    ({"scales": {"src": f32(N), "weights": f32(OC)}}, ValueError,
     "scales['dst'] must be given: only its mask was given when the primitive was created"),
    ({"scales": None}, ValueError, "scales['src'] must be given"),
    ({"zero_points": {"src": 0}}, ValueError, "zero_points['dst'] must be given"),
    ({"zero_points": {"src": 0, "dst": [0] * OC, "weights": 0}}, ValueError,
     "zero_points['weights'] must have a mask: it was not declared when the primitive was created"),
    ({"scales": {"src": f32(N + 1), "weights": f32(OC), "dst": 1}}, ValueError,
     "scales['src'] must have 4 values, one for each row, got 5"),
    ({"scales": {"src": 1, "weights": f32(OC), "dst": 1}}, ValueError,
     "scales['src'] must be a vector, as its mask is not 0, got one value"),
    ({"scales": {"src": f32(N), "weights": f32(N), "dst": 1}}, ValueError,
     "scales['weights'] must have 6 values, one for each output channel, got 4"),
    ({"scales": {"src": f32(N), "weights": f32(OC), "dst": f32(OC)}}, ValueError,
     "scales['dst'] must be one value, as its mask is 0, got shape (6,)"),
    ({"scales": {"src": f32(N), "weights": f32(OC), "dst": 0}}, ValueError,
     "scales['dst'] must be finite and not 0 in float32, got 0.0"),
    ({"scales": {"source": 1}}, ValueError, "scales must be for 'src', 'weights' or 'dst', got 'source'"),
    ({"zero_points": {"src": 2**31, "dst": [0] * OC}}, ValueError,
     "zero_points['src'] must be between -2147483648 and 2147483647, the range of int32, got 2147483648"),
    ({"zero_points": {"src": 0.5, "dst": [0] * OC}}, TypeError, "zero_points['src'] must be integers, got 0.5"),
    ({"zero_points": {"src": np.arange(2), "dst": [0] * OC}}, ValueError,
     "zero_points['src'] must be one value, as its mask is 0, got shape (2,)"),
    ({"zero_points": {"src": np.float32(1), "dst": [0] * OC}}, TypeError,
     "zero_points['src'] must be integers, got 1.0"),
    ({"operands": None}, ValueError, "operands must be 2, one for each post-op that was created without, got 0"),
    ({"operands": [f32(OC)]}, ValueError, "operands must be 2, one for each post-op that was created without, got 1"),
    ({"operands": [f32(OC)] * 3}, ValueError,
     "operands must be 2, one for each post-op that was created without, got 3"),
    ({"operands": [f32(OC), f32(N)]}, ValueError,
     "operands must broadcast to the destination's shape (4, 6), got (4,)"),
    ({"operands": [f32(OC), f32(1, N, OC)]}, ValueError,
     "operands must broadcast to the destination's shape (4, 6), got (1, 4, 6)"),
    ({"operands": [f32(OC), "abc"]}, TypeError, "operands must be real numbers, got str"),
    ({"out": None}, ValueError, "out must be given, as a Sum post-op adds to it"),
    *(({"out": out}, TypeError, "out must be") for out in (s32(N, OC), u8(N, OC), s8(N, OC).tolist(), "out", 7)),
    *(({"out": out}, ValueError, f"out must have shape (4, 6), got {out.shape}") for out in
      (s8(OC, N), s8(N, OC + 1), s8(N * OC), s8(1, N, OC), s8(0, OC), s8())),
    ({"out": read_only(s8(N, OC))}, ValueError, "out must be writeable, got a read-only array"),
    ({"out": np.lib.stride_tricks.as_strided(s8(OC), (N, OC), (0, 1))}, ValueError,
     "out must have elements that do not overlap"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "text"), EXECUTION)
def test_execution(changes, error, text):
    layer = InnerProduct(s8(OC, IC), f32(OC), src_dtype=np.uint8, dst_dtype=np.int8, attributes=DECLARED)
    arguments = good_execution() | changes
    out = arguments["out"]
    before = np.array(out)
    with refused(error, text):
        layer(**arguments)
    np.testing.assert_array_equal(np.array(out), before)


def test_the_execution_from_which_the_wrong_ones_differ(isa):
    layer = InnerProduct(s8(OC, IC), f32(OC), src_dtype=np.uint8, dst_dtype=np.int8, attributes=DECLARED)
    arguments = good_execution()
    assert layer(**arguments) is arguments["out"]
    assert_same_bits(arguments["out"], np.full((N, OC), 5 + 1 + 77 + 1, np.int8))


@pytest.mark.parametrize("kind", ["scales", "zero_points"])
def test_values_are_not_given_twice(kind):
    layer = InnerProduct(s8(OC, IC), src_dtype=np.uint8, dst_dtype=np.int8, **{kind: {"dst": 1}})
    with refused(ValueError, f"{kind}['dst'] must not be given again: the primitive was created with it"):
        layer(u8(N, IC), **{kind: {"dst": 1}})


def test_values_without_a_mask_are_refused():
    layer = InnerProduct(s8(OC, IC), src_dtype=np.uint8, dst_dtype=np.int8)
    for kind in ("scales", "zero_points"):
        with refused(ValueError, f"{kind}['dst'] must have a mask: it was not declared"):
            layer(u8(N, IC), **{kind: {"dst": 1}})
    with refused(ValueError, "operands must be 0, one for each post-op that was created without, got 1"):
        layer(u8(N, IC), operands=[f32(OC)])


def test_types_of_other_byte_order_are_refused():
    arguments = {"dynamic": "per_row", "src_dtype": np.float32, "dst_dtype": np.float32}
    layer = InnerProduct(s8(OC, IC), **arguments)
    swapped = np.dtype(np.float32).newbyteorder()
    with refused(TypeError, "src must be float32, got"):
        layer(f32(N, IC).astype(swapped))
    with refused(TypeError, "out must be float32, got"):
        layer(f32(N, IC), out=f32(N, OC).astype(swapped))


def test_shapes_of_weights_with_more_dimensions():
    layer = InnerProduct(s8(OC, 3, 2, 2), src_dtype=np.uint8, dst_dtype=np.int8)
    assert layer(u8(N, 3, 2, 2)).shape == (N, OC)
    for shape in ((N, 2, 3, 2), (N, 3, 4), (N, 3, 2, 3), (3, 2, 2)):
        with refused(ValueError, f"src must have shape (n, 3, 2, 2) or (..., 12), got {shape}"):
            layer(u8(*shape))


def test_out_of_leading_dimensions():
    layer = InnerProduct(s8(OC, IC), src_dtype=np.uint8, dst_dtype=np.int8)
    for shape in ((6, OC), (3, 2, OC), (2, 3, OC, 1), (2, 3)):
        out = np.full(shape, 77, np.int8)
        with refused(ValueError, f"out must have shape (2, 3, 6), got {shape}"):
            layer(u8(2, 3, IC), out=out)
        assert (out == 77).all()


def test_a_packed_b_knows_the_number_of_columns():
    layer = InnerProduct(int8blas.pack_b(s8(IC, OC)), src_dtype=np.uint8, dst_dtype=np.int8)
    with refused(ValueError, "src must have shape (n, 5) or (..., 5), got (4, 6)"):
        layer(u8(N, OC))


def test_a_scale_of_the_source_that_takes_the_product_out_of_float32():
    layer = InnerProduct(s8(OC, IC), src_dtype=np.uint8, dst_dtype=np.float32, scales={"weights": 1e30},
                         attributes=Attributes(scales={"src": 0}))  # fmt: skip
    assert np.array_equal(layer(u8(N, IC), scales={"src": 1}), np.full((N, OC), np.float32(1e30) * np.float32(IC)))
    with refused(ValueError, "scales['src'] * scales['weights'] must be finite in float32, got "):
        layer(u8(N, IC), scales={"src": 1e30})


def test_packed_weights_that_are_not_those_of_the_shape():
    """A forged pickle can contain such weights; the product of their sizes is right."""
    make, (weights, bias) = InnerProduct(s8(OC, IC), src_dtype=np.uint8, dst_dtype=np.int32).__reduce__()
    assert (make(weights, bias)(u8(N, IC)) == IC).all()
    with refused(ValueError, "weights must have been packed in their shape (5, 6), got PackedB(shape=(5, 6), dtype"):
        make(replace(weights, shape=(IC, OC)), bias)
