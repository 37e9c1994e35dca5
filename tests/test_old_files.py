"""Files of each format load for ever: tests/files has what versions wrote, and here is what it was made from."""

from pathlib import Path

import numpy as np
import pytest
from arrays import assert_same

import int8blas
from int8blas import _file

FILES = Path(__file__).parent / "files"


def values():
    """What is in the files: a layer of each kind, and the plain values that hold them."""
    rng = np.random.default_rng(0)

    def weights(*shape):
        return rng.integers(-127, 128, shape, np.int8)

    scales = {"src": 0.02, "weights": 0.01, "dst": 0.5}
    post_ops = int8blas.Attributes(post_ops=[int8blas.ReLU(0.25), int8blas.Eltwise("tanh")])
    states = {"src_dtype": np.uint8, "dst_dtype": np.float32, "weights_scale": 1 / 256}
    return {
        "packed": int8blas.pack_b(weights(9, 20)),
        "layers": [
            int8blas.InnerProduct(
                weights(5, 12), np.float32([1, -2, 0, 3, 0.5]), src_dtype=np.uint8, dst_dtype=np.int8, scales=scales,
                zero_points={"src": 131, "dst": -3}, attributes=post_ops,
            ),
            int8blas.Convolution(
                weights(4, 2, 3, 3), strides=2, padding=1, groups=2, src_dtype=np.uint8, dst_dtype=np.uint8,
                scales=scales,
            ),
            int8blas.Deconvolution(weights(3, 4, 2, 2), src_dtype=np.int8, dst_dtype=np.float32, scales={"src": 0.1}),
            int8blas.LSTM(weights(3, 4, 5), weights(5, 4, 5), **states),
            int8blas.GRU(weights(3, 3, 5), weights(5, 3, 5), **states),
        ],
        "plain": (None, True, -7, 0.1, "text", np.arange(6.0).reshape(2, 3), np.uint8(9), np.dtype("u1")),
    }  # fmt: skip


def results(value):
    """What packed weights and layers compute."""
    rng = np.random.default_rng(1)
    product, convolution, deconvolution, lstm, gru = value["layers"]
    yield int8blas.matmul(rng.integers(0, 256, (3, 9), np.uint8), value["packed"])
    yield product(rng.integers(0, 256, (3, 12), np.uint8))
    yield convolution(rng.integers(0, 256, (1, 5, 6, 4), np.uint8))
    yield deconvolution(rng.integers(-128, 128, (1, 3, 2, 4), np.int8))
    for layer in (lstm, gru):
        yield layer(rng.integers(0, 256, (2, 3, 3), np.uint8))[0]


@pytest.mark.parametrize("path", sorted(FILES.glob("*.i8")), ids=lambda path: path.name)
def test_a_file_of_an_earlier_version_loads(path, isa):
    loaded, made = int8blas.load(path), values()
    for old, new in zip(results(loaded), results(made), strict=True):
        assert_same(old, new)
    for old, new in zip(loaded["plain"], made["plain"], strict=True):
        assert type(old) is type(new)
        assert np.array_equal(old, new)


def test_there_is_a_file_of_each_format():
    assert {int.from_bytes(path.read_bytes()[8:12], "little") for path in FILES.glob("*.i8")} == {
        *range(1, _file.VERSION + 1)
    }
