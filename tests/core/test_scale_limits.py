"""Scales at the ends of float32: a destination's scale has a finite reciprocal, and products of scales are finite."""

import numpy as np
import pytest
from layers import assert_same_bits
from reference_quantized import inner_product

import int8blas
from int8blas import Attributes, Convolution, Deconvolution, InnerProduct

LEAST = np.nextafter(np.float32(2**-128), np.float32(1))
TOO_SMALL = [np.float32(2**-128), 2e-39, np.float32(1e-45), float(np.float32(2**-128))]
SRC = np.array([[1, 2, 100, 0]], np.uint8)
EYE = np.eye(4, dtype=np.int8)
TYPES = {"src_dtype": np.uint8, "dst_dtype": np.uint8}


def conv(kind, scale):
    return kind(EYE[..., None, None], scales={"src": scale, "dst": scale}, **TYPES)(SRC[:, None, None])


# Every function that divides by the scale of its destination: (the name in its error, a call with a scale).
DIVIDING = {
    "InnerProduct": ("scales['dst']", lambda s: InnerProduct(EYE, scales={"src": s, "dst": s}, **TYPES)(SRC)),
    "Convolution": ("scales['dst']", lambda s: conv(Convolution, s)),
    "Deconvolution": ("scales['dst']", lambda s: conv(Deconvolution, s)),
    "eltwise": ("scales['dst']", lambda s: int8blas.eltwise(SRC, int8blas.ReLU(), scales={"src": s, "dst": s})),
    "binary": ("scales['dst']", lambda s: int8blas.binary(
        "add", SRC, SRC * 0, scales={"src0": s, "src1": s, "dst": s}, dst_dtype=np.uint8)),
    "sum": ("dst_scale", lambda s: int8blas.sum([SRC, SRC * 0], scales=[s, s], dst_scale=s, dst_dtype=np.uint8)),
    "concat": ("dst_scale", lambda s: int8blas.concat(
        [SRC, SRC.astype(np.int32)], 0, scales=[s, s], dst_scale=s, dst_dtype=np.uint8)[:1]),
}  # fmt: skip


@pytest.mark.parametrize("name", DIVIDING)
def test_a_scale_without_a_finite_reciprocal_is_refused_by_name(isa, name):
    argument, compute = DIVIDING[name]
    wanted = rf"^{argument.replace('[', '.').replace(']', '.')} must be more than 2\*\*-128, whose reciprocal is not "
    for scale in TOO_SMALL:
        with pytest.raises(ValueError, match=wanted):
            compute(scale)
    assert np.array_equal(np.reshape(compute(LEAST), (1, 4)), SRC)


def test_normalization_refuses_it_too(isa):
    for function, scale in ((int8blas.softmax, TOO_SMALL[0]), (int8blas.layer_norm, 2e-39)):
        with pytest.raises(ValueError, match=r"^scales\['dst'\] must be more than 2\*\*-128"):
            function(SRC, scales={"dst": scale}, dst_dtype=np.uint8)
        assert not np.isnan(function(SRC, scales={"dst": LEAST}, dst_dtype=np.float32)).any()


def test_recurrent_layers_refuse_it_too():
    weights = (
        [np.ones((3, gates, 2), np.int8) for gates in (4, 3)],
        [np.ones((2, gates, 2), np.int8) for gates in (4, 3)],
    )
    for kind, source, state in zip((int8blas.LSTM, int8blas.GRU), *weights, strict=True):
        for scale in TOO_SMALL:
            with pytest.raises(ValueError, match=r"^data_scale must be more than 2\*\*-128"):
                kind(source, state, weights_scale=1, data_scale=scale)


def test_values_of_channels_and_of_executions_are_looked_at(isa):
    for scales in ([1, 1, 2e-39, 1], np.full(4, 2.0**-128)):
        with pytest.raises(ValueError, match=r"^scales\['dst'\] must be more than 2\*\*-128.*, got 2"):
            InnerProduct(EYE, scales={"dst": scales}, **TYPES)
        layer = InnerProduct(EYE, attributes=Attributes(scales={"dst": 2}), **TYPES)
        with pytest.raises(ValueError, match=r"^scales\['dst'\] must be more than 2\*\*-128"):
            layer(SRC, scales={"dst": scales})


def test_a_product_of_scales_beyond_float32_is_refused(isa):
    """Such a factor would turn sums of 0 into NaN and all other sums into infinities."""
    for kind in (InnerProduct, Convolution, Deconvolution):
        weights = EYE if kind is InnerProduct else EYE[..., None, None]
        src = SRC if kind is InnerProduct else SRC[:, None, None]
        for scale in (1e20, [1, 1e-3, 1e20, 1]):
            with pytest.raises(ValueError, match=r"^scales\['src'\] \* scales\['weights'\] must be finite in float32"):
                kind(weights, scales={"src": 1e20, "weights": scale, "dst": 1e38}, **TYPES)
            layer = kind(weights, attributes=Attributes(scales={"src": 0, "weights": np.ndim(scale)}), **TYPES)
            with pytest.raises(ValueError, match=r"^scales\['src'\] \* scales\['weights'\] must be finite in float32"):
                layer(src, scales={"src": 1e20, "weights": scale})
    rows = InnerProduct(EYE, attributes=Attributes(scales={"src": 1}), scales={"weights": 1e20}, **TYPES)
    with pytest.raises(ValueError, match=r"^scales\['src'\] \* scales\['weights'\] must be finite in float32"):
        rows(np.repeat(SRC, 2, axis=0), scales={"src": [1, 1e20]})


def test_a_product_of_scales_below_float32_is_rounded(isa):
    """The product is rounded to a multiple of 2**-149; the scale of the destination may make it large again."""
    src = np.random.default_rng(0).integers(0, 256, (20, 4), np.uint8)
    for one, other in ((1e-23, 1e-22), (1e-30, 1e-30), (1e-20, 1e-19)):
        scales = {"src": np.float32(one), "weights": np.float32(other), "dst": LEAST}
        expected = inner_product(src, EYE * np.int8(127), dst_dtype=np.uint8, scales=scales)
        assert_same_bits(InnerProduct(EYE * np.int8(127), scales=scales, **TYPES)(src), expected)
