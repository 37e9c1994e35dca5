"""A wrong argument of Convolution or Deconvolution raises an error that names it, and nothing is written."""

import re

import numpy as np
import pytest
from errors import read_only, s8, s32, u8
from layers import assert_same_bits
from test_convolution import every_primitive

import int8blas
from int8blas import Attributes, Binary, PReLU, Sum

N, H, W, OC, IC = 2, 4, 5, 6, 3


def f32(*shape):
    return np.ones(shape, np.float32)


def refused(error, named):
    """A context in which an error must be raised; its text begins with the name of the argument."""
    return pytest.raises(error, match=rf"^{re.escape(named)}(?!\w).* must ")


def primitive_of(transposed):
    return int8blas.Deconvolution if transposed else int8blas.Convolution


# --- at creation -----------------------------------------------------------------------------------------------------

CREATION = [
    # weights
    *(({"weights": s8(*shape)}, ValueError, "weights") for shape in ((), (OC,), (OC, IC), (2, 3, 4, 3, 3, 3, 3))),
    *(({"weights": weights}, TypeError, "weights") for weights in
      (s32(OC, IC, 3, 3), f32(OC, IC, 3, 3).astype(complex), None, [[[["w"]]]])),
    *(({"weights": s8(*shape)}, ValueError, "weights") for shape in ((OC, IC, 0, 3), (OC, IC, 3, 0))),
    ({"weights": f32(OC, IC, 3, 3)}, ValueError, "scales['weights']"),
    ({"weights": f32(OC, IC, 3, 3) * np.nan, "scales": {"weights": 1}}, ValueError, "weights"),
    *(({"weights": f32(OC, IC, 3, 3), "scales": {"weights": scale}}, ValueError, "scales['weights']")
      for scale in ("per_row", [1.0] * 3, 0, np.nan)),
    ({"scales": {"weights": "per_channel"}}, TypeError, "scales['weights']"),
    # groups
    *(({"groups": groups}, TypeError, "groups") for groups in (1.0, None, "1")),
    *(({"groups": groups}, ValueError, "groups") for groups in (0, -1)),
    ({"groups": 4}, ValueError, "weights"),
    ({"weights": s8(2, 3, 2, 3, 3), "groups": 3, "layout": "nhwc"}, ValueError, "weights"),
    # 2-D with a dimension of groups, or 3-D
    ({"weights": s8(2, 3, 2, 3, 3), "groups": 2}, ValueError, "layout"),
    # bias
    *(({"bias": bias}, TypeError, "bias") for bias in (np.ones(OC, np.int64), [1, 2], "b")),
    *(({"bias": bias}, ValueError, "bias") for bias in
      (f32(IC), f32(), f32(1, OC), f32(OC) * np.nan, f32(OC) * -np.inf)),
    # geometry
    *(({name: value}, TypeError, name) for name in ("strides", "dilation") for value in (1.0, None, "1", (1, 2.0))),
    *(({name: value}, ValueError, name) for name in ("strides", "dilation")
      for value in (0, -1, (1, 0), (1,), (1, 1, 1), ())),
    *(({"padding": value}, TypeError, "padding") for value in (1.0, None, "1", (1, 0.5), ((1, 2), (1, "2")))),
    *(({"padding": value}, ValueError, "padding") for value in (-1, (0, -1), ((1, -1), 0), (1,), ((1, 2, 3), 0), ())),
    *(({"layout": value}, ValueError, "layout") for value in ("nhw", "hwcn", "oihw", "nchwd", "")),
    ({"layout": 1}, TypeError, "layout"),
    # types
    *(({"src_dtype": dtype}, TypeError, "src_dtype") for dtype in (np.float32, "x", np.int32)),
    *(({"dst_dtype": dtype}, TypeError, "dst_dtype") for dtype in (np.int16, 1, np.float64)),
    ({"attributes": {}}, TypeError, "attributes"),
    ({"numerics": "fast"}, ValueError, "numerics"),
    # scales
    ({"scales": {"source": 1}}, ValueError, "scales"),
    ({"zero_points": {"bias": 1}}, ValueError, "zero_points"),
    *(({"scales": {"dst": scale}}, ValueError, "scales['dst']")
      for scale in (0, -0.0, np.nan, np.inf, 1e39, [1, 1, 1, 0, 1, 1], f32(IC), f32(1, OC))),
    *(({"scales": {"dst": scale}}, TypeError, "scales['dst']") for scale in ("1", 1j, None)),
    ({"scales": {"weights": f32(2)}}, ValueError, "scales['weights']"),
    ({"scales": {"src": f32(N)}}, ValueError, "scales['src']"),
    # zero points
    *(({"zero_points": {"src": zero}}, ValueError, "zero_points['src']") for zero in (2**31, -(2**31) - 1, [1, 2])),
    ({"zero_points": {"src": 256}, "numerics": "saturating"}, ValueError, "zero_points"),
    *(({"zero_points": {"weights": zero}}, ValueError, "zero_points['weights']")
      for zero in (2**31, -(2**31) - 1, [0, 1])),
    *(({"zero_points": {"weights": zero}}, TypeError, "zero_points['weights']") for zero in (1.0, "1")),
    ({"weights": f32(OC, IC, 3, 3), "scales": {"weights": 1}, "zero_points": {"weights": 0}}, ValueError,
     "zero_points['weights']"),
    ({"numerics": "saturating", "zero_points": {"weights": 0}}, ValueError, "zero_points['weights']"),
    ({"numerics": "saturating", "weights": u8(OC, IC, 3, 3)}, TypeError, "weights"),
    ({"zero_points": {"dst": 2**31}}, ValueError, "zero_points['dst']"),
    ({"zero_points": {"dst": [1, 2]}}, ValueError, "zero_points['dst']"),
    *(({"zero_points": {"dst": zero}}, TypeError, "zero_points['dst']") for zero in (1.0, f32(OC))),
    ({"zero_points": {"dst": 0}, "dst_dtype": "f4"}, ValueError, "zero_points['dst']"),
    # masks
    *(({"attributes": Attributes(**{kind: {tensor: mask}})}, ValueError, f"{kind}['{tensor}']")
      for kind in ("scales", "zero_points") for tensor, mask in (("src", 2), ("weights", 2), ("dst", 32))),
    ({"attributes": Attributes(zero_points={"src": 1})}, ValueError, "zero_points['src']"),
    ({"attributes": Attributes(zero_points={"weights": 0})}, ValueError, "zero_points['weights']"),
    ({"attributes": Attributes(scales={"weights": 3})}, ValueError, "scales['weights']"),
    *(({kind: value}, TypeError, kind)
      for kind in ("scales", "zero_points") for value in (5, [1])),
    ({"attributes": Attributes(scales={"dst": 0}), "scales": {"dst": f32(OC)}}, ValueError, "scales['dst']"),
    ({"attributes": Attributes(scales={"dst": 2}), "scales": {"dst": 1}}, ValueError, "scales['dst']"),
    # the older model
    *(({"attributes": Attributes(output_scales=(0, 1)), kind: {"dst": 1}}, ValueError, kind)
      for kind in ("scales", "zero_points")),
    ({"attributes": Attributes(output_scales=(2, [1, 2]))}, ValueError, "output_scales"),
    # post-ops
    ({"attributes": Attributes(post_ops=[Sum(dtype=np.uint8)]), "dst_dtype": "f4"}, ValueError, "dtype of Sum"),
]  # fmt: skip


@every_primitive
@pytest.mark.parametrize("layout", ["nwc", "ncw", "ndhwc", "ncdhw"])
def test_a_layout_of_other_dimensions_than_the_weights(layout, transposed):
    with pytest.raises(ValueError, match=rf"^(weights|layout) must .*{layout}"):
        primitive_of(transposed)(s8(OC, IC, 3, 3), src_dtype=np.uint8, dst_dtype=np.int8, layout=layout)


@every_primitive
@pytest.mark.parametrize(("changes", "error", "named"), CREATION)
def test_creation(changes, error, named, transposed):
    good = {"weights": s8(OC, IC, 3, 3), "src_dtype": np.uint8, "dst_dtype": np.int8}
    with refused(error, named):
        primitive_of(transposed)(**good | changes)


OUTPUT_PADDING = [
    *((value, TypeError) for value in (1.0, None, "1", (1, 0.5))),
    *((value, ValueError) for value in (-1, (0, -1), (1,), (0, 0, 0), ())),
]


@pytest.mark.parametrize(("value", "error"), OUTPUT_PADDING)
def test_output_padding(value, error):
    with refused(error, "output_padding"):
        int8blas.Deconvolution(s8(OC, IC, 3, 3), src_dtype="u1", dst_dtype="i1", strides=2, output_padding=value)


def test_a_convolution_has_no_output_padding():
    with pytest.raises(TypeError, match="output_padding"):
        int8blas.Convolution(s8(OC, IC, 3, 3), src_dtype="u1", dst_dtype="i1", output_padding=0)


@every_primitive
def test_options_are_given_by_keyword_only(transposed):
    primitive = primitive_of(transposed)
    with pytest.raises(TypeError, match="positional"):
        primitive(s8(OC, IC, 3, 3), None, 1)
    for name in ("src_dtype", "dst_dtype"):
        with pytest.raises(TypeError, match=name):
            primitive(s8(OC, IC, 3, 3), **{other: np.int8 for other in ("src_dtype", "dst_dtype") if other != name})


# --- at execution ----------------------------------------------------------------------------------------------------

DECLARED = Attributes(
    scales={"src": 0, "weights": 1, "dst": 0}, zero_points={"src": 0, "dst": 2}, post_ops=[Sum(), Binary(), PReLU()]
)
DST = (N, H, W, OC)
ZEROS = [0] * OC


def layer_of(transposed, **changes):
    """A layer whose destination has the same spatial size as its source."""
    arguments = {"src_dtype": np.uint8, "dst_dtype": np.int8, "attributes": DECLARED, "padding": 1} | changes
    return primitive_of(transposed)(s8(OC, IC, 3, 3), f32(OC), **arguments)


def good_execution():
    """Arguments that are right for DECLARED."""
    return {
        "src": u8(N, H, W, IC),
        "scales": {"src": 1, "weights": f32(OC), "dst": 1},
        "zero_points": {"src": 1, "dst": ZEROS},
        "operands": [f32(OC), f32(H, 1, 1)],
        "out": np.full(DST, 77, np.int8),
    }


EXECUTION = [
    *(({"src": src}, TypeError, "src") for src in
      (s8(N, H, W, IC), f32(N, H, W, IC), u8(N, H, W, IC).astype(float), [[1] * IC], "a", None)),
    *(({"src": u8(*shape)}, ValueError, "src") for shape in
      ((N, H, W, IC + 1), (N, IC, H, W), (H, W, IC), (N, 1, H, W, IC), (), (0,))),
    ({"scales": {"src": 1, "weights": f32(OC)}}, ValueError, "scales['dst']"),
    ({"scales": None}, ValueError, "scales['src']"),
    ({"zero_points": {"src": 0}}, ValueError, "zero_points['dst']"),
    ({"zero_points": {"src": 0, "dst": ZEROS, "weights": 0}}, ValueError, "zero_points['weights']"),
    ({"scales": {"src": f32(N), "weights": f32(OC), "dst": 1}}, ValueError, "scales['src']"),
    ({"scales": {"src": 1, "weights": f32(N), "dst": 1}}, ValueError, "scales['weights']"),
    ({"scales": {"src": 1, "weights": 1, "dst": 1}}, ValueError, "scales['weights']"),
    ({"scales": {"src": 1, "weights": f32(OC), "dst": f32(OC)}}, ValueError, "scales['dst']"),
    ({"scales": {"src": 1, "weights": f32(OC), "dst": 0}}, ValueError, "scales['dst']"),
    ({"scales": {"source": 1}}, ValueError, "scales"),
    ({"zero_points": {"src": 2**31, "dst": ZEROS}}, ValueError, "zero_points['src']"),
    ({"zero_points": {"src": 0.5, "dst": ZEROS}}, TypeError, "zero_points['src']"),
    *(({"operands": operands}, ValueError, "operands") for operands in
      (None, [f32(OC)], [f32(OC)] * 3, [f32(OC), f32(H)], [f32(OC), f32(1, *DST)], [f32(OC), f32(IC)])),
    ({"operands": [f32(OC), "abc"]}, TypeError, "operands"),
    ({"out": None}, ValueError, "out"),
    *(({"out": out}, TypeError, "out") for out in (s32(*DST), u8(*DST), s8(*DST).tolist(), "out", 7)),
    *(({"out": s8(*shape)}, ValueError, "out") for shape in
      ((N, OC, H, W), (N, H, W, OC + 1), (N, W, H, OC), (N * H * W, OC), (1, *DST), (0, H, W, OC), ())),
    ({"out": read_only(s8(*DST))}, ValueError, "out"),
    ({"out": np.lib.stride_tricks.as_strided(s8(OC), DST, (0, 0, 0, 1))}, ValueError, "out"),
]  # fmt: skip


@every_primitive
@pytest.mark.parametrize(("changes", "error", "named"), EXECUTION)
def test_execution(changes, error, named, transposed):
    layer = layer_of(transposed)
    arguments = good_execution() | changes
    out = arguments["out"]
    before = np.array(out)
    with refused(error, named):
        layer(**arguments)
    np.testing.assert_array_equal(np.array(out), before)


@every_primitive
def test_the_execution_from_which_the_wrong_ones_differ(isa, transposed):
    arguments = good_execution()
    assert layer_of(transposed)(**arguments) is arguments["out"]
    # The source is its zero point: bias + old + operand.
    assert_same_bits(arguments["out"], np.full(DST, 1 + 77 + 1, np.int8))


def test_a_source_that_the_kernel_does_not_fit_into():
    layer = int8blas.Convolution(s8(OC, IC, 3, 3), src_dtype=np.uint8, dst_dtype=np.int8, dilation=2)
    assert layer(u8(N, 5, 5, IC)).shape == (N, 1, 1, OC)
    for size in ((4, 5), (5, 4), (0, 5), (0, 0)):
        out = np.full((N, 1, 1, OC), 77, np.int8)
        with refused(ValueError, "src"):
            layer(u8(N, *size, IC), out=out)
        assert (out == 77).all()


def test_a_source_of_which_the_padding_leaves_nothing():
    layer = int8blas.Deconvolution(s8(OC, IC, 3, 3), src_dtype=np.uint8, dst_dtype=np.int8, padding=3)
    assert layer(u8(N, 5, 5, IC)).shape == (N, 1, 1, OC)
    for size in ((4, 5), (5, 4), (1, 5), (0, 5)):
        with refused(ValueError, "src"):
            layer(u8(N, *size, IC))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_first_execution_without_memory_writes_nothing(isa, dynamic, monkeypatch):
    """The first execution packs the weights again for folded outputs, in each phase: with arrays of zeros."""
    zeros, counts = np.zeros, []

    def fail(*arguments, **keywords):
        counts[-1] += 1
        if counts[-1] == len(counts):
            raise MemoryError
        return zeros(*arguments, **keywords)

    weights = s8(5, 3, 4, 1)
    while not counts or counts[-1] == len(counts):  # refuse one array more in each round, until none is refused
        if dynamic:
            layer = int8blas.Deconvolution.dynamic(weights, strides=(2, 1), scales={"weights": 1})
        else:
            layer = int8blas.Deconvolution(weights, strides=(2, 1), src_dtype=np.uint8, dst_dtype=np.float32)
        counts.append(0)
        out = np.full((2, 82, 40, 5), 77, np.float32)
        with monkeypatch.context() as patch:
            patch.setattr(np, "zeros", fail)
            try:
                layer(np.ones((2, 40, 40, 3), layer.src_dtype), out=out)
            except MemoryError:
                assert (out == 77).all()
    assert len(counts) > 1


def test_a_source_whose_result_has_more_than_64_bits():
    layer = int8blas.Deconvolution(s8(1, 1, 1), src_dtype=np.uint8, dst_dtype=np.int8, strides=2**31 - 1)
    with refused(ValueError, "src"):
        layer(np.broadcast_to(np.uint8(1), (1, 2**40, 1)))


@every_primitive
@pytest.mark.parametrize("kind", ["scales", "zero_points"])
def test_values_are_not_given_twice(kind, transposed):
    layer = layer_of(transposed, attributes=None, **{kind: {"dst": 1}})
    with refused(ValueError, f"{kind}['dst']"):
        layer(u8(N, H, W, IC), **{kind: {"dst": 1}})


@every_primitive
def test_values_without_a_mask_are_refused(transposed):
    layer = layer_of(transposed, attributes=None)
    for kind in ("scales", "zero_points"):
        with refused(ValueError, f"{kind}['dst']"):
            layer(u8(N, H, W, IC), **{kind: {"dst": 1}})
    with refused(ValueError, "operands"):
        layer(u8(N, H, W, IC), operands=[f32(OC)])


@every_primitive
def test_an_operand_of_creation_that_fits_no_destination(transposed):
    operand = f32(H, W, OC + 1)
    layer_arguments = {"attributes": Attributes(post_ops=[Binary(operand)])}
    with refused(ValueError, "operands"):
        layer_of(transposed, **layer_arguments)(u8(N, H, W, IC))


@every_primitive
def test_channels_first(transposed):
    layer = layer_of(transposed, attributes=None, layout="nchw")
    assert layer(u8(N, IC, H, W)).shape == (N, OC, H, W)
    with refused(ValueError, "src"):
        layer(u8(N, H, W, IC))
    out = np.full(DST, 77, np.int8)
    with refused(ValueError, "out"):
        layer(u8(N, IC, H, W), out=out)
    assert (out == 77).all()
