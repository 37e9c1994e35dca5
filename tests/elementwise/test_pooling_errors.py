"""Bad arguments of the pooling functions raise an error that names the argument, and nothing is written."""

import numpy as np
import pytest

import int8blas

X = np.zeros((1, 6, 7, 3), np.uint8)
WRONG = [
    *(("kernel", {"kernel": value}, TypeError) for value in (None, 1.5, "2", True, (1, 1.5), {2}, ((1,), 2))),
    *(("kernel", {"kernel": value}, ValueError) for value in (0, -1, (2,), (1, 2, 3), (0, 1), 2**31, 10**30)),
    *(("strides", {"strides": value}, TypeError) for value in (1.5, "2", True, (1, None))),
    *(("strides", {"strides": value}, ValueError) for value in (0, -1, (2,), (1, 0), 2**31)),
    *(("padding", {"padding": value}, TypeError) for value in (None, 0.5, "0", (0, "1"))),
    *(("padding", {"padding": value}, ValueError) for value in (-1, 2, (0, (0, 2)), (0,), ((0, 0),) * 3, (0, (-1, 0)))),
    *(("padding", {"padding": value}, ValueError) for value in ((0, (0,)), (0, (0, 0, 0)))),
    *(("layout", {"layout": value}, TypeError) for value in (4, b"nhwc", ("n", "h", "w", "c"))),
    *(("layout", {"layout": value}, ValueError) for value in ("", "nwc", "nhcw", "ncdhw", "hwio")),
    *(("ceil_mode", {"ceil_mode": value}, TypeError) for value in (None, 1.0, "yes")),
    *(("ceil_mode", {"ceil_mode": value}, ValueError) for value in (2, -1)),
    *(("padding", {"padding": value}, TypeError) for value in ("", "full", "same ")),
    ("src", {"kernel": 7}, ValueError),
    ("src", {"src": X[0, 0]}, ValueError),
    ("src", {"src": X[None, None]}, ValueError),
    ("src", {"src": X[:, :0]}, ValueError),
    *(("src", {"src": X.astype(dtype)}, TypeError) for dtype in (np.int16, np.float32, complex, object)),
    ("src", {"src": None}, TypeError),
    *(("out", {"out": out}, TypeError) for out in (np.zeros((1, 3, 3, 3), np.int8), [[1]], X.tolist())),
    *(("out", {"out": np.zeros(shape, np.uint8)}, ValueError) for shape in ((1, 3, 3, 2), (3, 3, 3), X.shape)),
    ("out", {"out": np.broadcast_to(np.uint8(0), (1, 3, 3, 3))}, ValueError),
    ("out", {"out": np.lib.stride_tricks.as_strided(np.zeros(27, np.uint8), (1, 3, 3, 3), (1, 1, 1, 1))}, ValueError),
]  # fmt: skip
WRONG_MAX = [
    *(("dilation", {"dilation": value}, TypeError) for value in (None, 1.5, "2", True)),
    *(("dilation", {"dilation": value}, ValueError) for value in (0, -1, (2,), (1, 0))),
    ("padding", {"src": X[:, :1, :1], "padding": 2, "dilation": 3}, ValueError),
    ("padding", {"padding": 3, "dilation": 2}, ValueError),
]
WRONG_AVERAGE = [
    *(("dst_dtype", {"dst_dtype": value}, TypeError) for value in (np.int8, "int32", np.float64, "x", 3, ">f4")),
    *(("include_padding", {"include_padding": value}, TypeError) for value in (None, 1.0, "yes")),
    *(("include_padding", {"include_padding": value}, ValueError) for value in (2, -1)),
    *(("zero_point", {"zero_point": value}, TypeError) for value in (None, 1.0, "1", True)),
    *(("zero_point", {"zero_point": value}, ValueError) for value in (256, -1, 10**30)),
    ("kernel", {"src": np.zeros((1, 1, 1, 1, 1), np.uint8), "kernel": 2**20, "padding": 2**20 - 1}, ValueError),
]


def check_refused(pool, changes, error, named):
    keywords = {"src": X, "kernel": 2, "out": np.full((1, 3, 3, 3), 77, np.uint8)} | changes
    before = np.array(keywords["out"])
    with pytest.raises(error, match=rf"^{named} must "):
        pool(keywords.pop("src"), keywords.pop("kernel"), **keywords)
    np.testing.assert_array_equal(keywords["out"], before)


@pytest.mark.parametrize(("named", "changes", "error"), WRONG)
def test_wrong_arguments(named, changes, error):
    check_refused(int8blas.max_pool, changes, error, named)
    check_refused(int8blas.avg_pool, changes, error, named)


@pytest.mark.parametrize(("named", "changes", "error"), WRONG_MAX)
def test_wrong_arguments_of_max_pool(named, changes, error):
    check_refused(int8blas.max_pool, changes, error, named)


@pytest.mark.parametrize(("named", "changes", "error"), WRONG_AVERAGE)
def test_wrong_arguments_of_avg_pool(named, changes, error):
    check_refused(int8blas.avg_pool, changes, error, named)


def test_an_image_without_channels_is_told_what_shape_is_wanted():
    for call in (lambda x: int8blas.max_pool(x, 2), lambda x: int8blas.im2col(x, 2), int8blas.global_avg_pool):
        with pytest.raises(
            ValueError, match=r"^src must have .*\(n, h, w, c\).* got 2: give src\[np\.newaxis, \.\.\., np"
        ):
            call(np.zeros((5, 6), np.uint8))
    image = np.arange(30, dtype=np.uint8).reshape(5, 6)
    assert int8blas.max_pool(image[np.newaxis, ..., np.newaxis], 5).item() == 28


def test_a_memory_format_is_no_layout():
    torch = pytest.importorskip("torch")
    for layout in (torch.channels_last, torch.contiguous_format):
        with pytest.raises(
            TypeError, match=r"^layout must be a string or None, got torch\..*'nchw', whatever its memory"
        ):
            int8blas.max_pool(X, 2, layout=layout)


def test_wrong_arguments_of_global_pooling():
    for pool in (int8blas.global_max_pool, int8blas.global_avg_pool):
        for src, error in ((X[0, 0], ValueError), (X[:, :0], ValueError), (X.astype(np.int16), TypeError)):
            with pytest.raises(error, match=r"^src must "):
                pool(src)
        with pytest.raises(ValueError, match=r"^layout must "):
            pool(X, layout="nwc")
        with pytest.raises(ValueError, match=r"^out must "):
            pool(X, out=np.zeros((1, 3), np.uint8))
    with pytest.raises(TypeError, match=r"^dst_dtype must "):
        int8blas.global_avg_pool(X, dst_dtype=np.int8)
