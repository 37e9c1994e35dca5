"""Layers from __new__, and layers whose creation failed: errors, never a crash."""

import pickle

import numpy as np
import pytest

import int8blas

FLOATS = np.ones((8, 4, 3), np.float32)
DTYPES = {"src_dtype": np.uint8, "dst_dtype": np.float32}
CREATED = {
    int8blas.InnerProduct: ((np.ones((5, 6), np.int8),), DTYPES),
    int8blas.Convolution: ((np.ones((5, 6, 1, 1), np.int8),), DTYPES),
    int8blas.Deconvolution: ((np.ones((5, 6, 1, 1), np.int8),), DTYPES),
    int8blas.RealProduct: ((np.ones((6, 5), np.int8), 1), {}),
    int8blas.DynamicLSTM: ((FLOATS, FLOATS[:3]), {}),
    int8blas.LSTM: ((FLOATS, FLOATS[:3]), {"weights_scale": "per_tensor"}),
    int8blas.GRU: ((FLOATS[:, :3], FLOATS[:3, :3]), {"weights_scale": "per_tensor"}),
    int8blas.RNN: ((FLOATS[:, :1], FLOATS[:3, :1]), {"weights_scale": "per_tensor"}),
}
SOURCES = [np.zeros(shape, dtype) for shape in ((2, 0), (2, 3, 0), (2, 2, 2, 0), (0, 0), (4, 6))
           for dtype in (bool, np.uint8, np.float32)]  # fmt: skip


def assert_refused(layer):
    """Check that an object without weights raises errors."""
    for source in SOURCES:
        with pytest.raises((TypeError, ValueError)):
            layer(source)
    for name in ("scales", "zero_points", "bias", "scale"):
        if hasattr(type(layer), name) and not isinstance(layer, int8blas.RealProduct):
            with pytest.raises(TypeError, match="must be created with its weights"):
                getattr(layer, name)
    with pytest.raises((TypeError, ValueError, AttributeError)):
        pickle.loads(pickle.dumps(layer))
    with pytest.raises(TypeError):
        int8blas.explain(np.zeros((1, 2, 2, 6), np.uint8), layer)


@pytest.mark.parametrize("kind", CREATED, ids=lambda kind: kind.__name__)
def test_an_object_from_nowhere_is_refused(kind):
    assert_refused(kind.__new__(kind))


@pytest.mark.parametrize("kind", CREATED, ids=lambda kind: kind.__name__)
def test_a_layer_is_created_once(kind):
    arguments, options = CREATED[kind]
    layer = kind(*arguments, **options)
    with pytest.raises(TypeError, match=rf"^{kind.__name__} must not be initialized twice"):
        layer.__init__(*arguments, **options)


@pytest.mark.parametrize(("kind", "changes"), [
    (int8blas.InnerProduct, {"bias": np.ones(4, np.float32)}),
    (int8blas.Convolution, {"bias": np.ones(4, np.float32)}),
    (int8blas.Deconvolution, {"scales": {"weights": np.ones(9, np.float32)}}),
    (int8blas.RealProduct, {"scale": [1, 2]}),
])  # fmt: skip
def test_a_layer_whose_creation_failed_is_refused(kind, changes):
    arguments, options = CREATED[kind]
    layer = kind.__new__(kind)
    for _ in range(2):
        with pytest.raises((TypeError, ValueError)):
            layer.__init__(arguments[0], **options | changes)
    with pytest.raises(TypeError, match="must be created with its weights"):
        layer(np.zeros((2, 2, 2, 6) if "onvolution" in kind.__name__ else (2, 6), np.uint8).astype(
            np.float32 if kind is int8blas.RealProduct else np.uint8))  # fmt: skip
