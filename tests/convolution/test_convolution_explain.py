"""explain says how a convolution is computed, and in how much memory."""

import numpy as np
import pytest

import int8blas

LIMIT = 1_000_000


def convolution(channels, outputs, kernel, groups=1, **parameters):
    weights = np.ones((outputs, channels // groups, kernel, kernel), np.int8)
    return int8blas.Convolution(
        weights, groups=groups, src_dtype=np.uint8, dst_dtype=np.uint8, **{"padding": kernel // 2, **parameters}
    )


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "groups"),
    [
        (3, 64, 7, 1),
        (64, 64, 3, 1),
        (512, 512, 3, 1),
        (2048, 512, 1, 1),
        (1024, 1024, 3, 1),
        (128, 128, 3, 32),
        (64, 64, 3, 64),
    ],
)
def test_the_workspace_of_a_thread_is_bounded(isa, channels, outputs, kernel, groups, layout):
    layer = convolution(channels, outputs, kernel, groups, layout=layout)
    for size in (7, 64):
        image = np.empty((1, size, size, channels) if layout == "nhwc" else (1, channels, size, size), np.uint8)
        assert int8blas.explain(image, layer).workspace < LIMIT


def test_the_workspace_does_not_grow_with_the_image(isa):
    for layer in (convolution(16, 16, 3), convolution(16, 16, 3, 16), convolution(16, 16, 3, 4)):
        sizes = [int8blas.explain(np.empty((1, size, size, 16), np.uint8), layer).workspace for size in (512, 2048)]
        assert 0 < sizes[1] < 1.1 * sizes[0]


def test_paths():
    image = np.zeros((1, 14, 14, 64), np.uint8)
    wide = np.zeros((1, 14, 14, 260), np.uint8)
    windows = int8blas.explain(wide, convolution(260, 96, 3))
    assert (windows.path, windows.shape, windows.a_in_place) == ("blocks", (196, 96, 2340), False)
    pixels = int8blas.explain(image, convolution(64, 96, 1))
    assert (pixels.path, pixels.shape, pixels.b_is_packed) == ("blocks", (196, 96, 64), True)
    depthwise = int8blas.explain(image, convolution(64, 64, 3, 64))
    assert (depthwise.path, depthwise.shape) == ("depthwise", (196, 64, 9))
    with int8blas.use_isa("ref"):
        lines = int8blas.explain(image, convolution(64, 96, 3))
    assert (lines.path, lines.shape) == ("lines", (196, 96, 576))
    groups = int8blas.explain(image, convolution(64, 64, 3, 16))
    assert (groups.path, groups.shape) == ("groups", (196, 64, 36))
    assert f"{groups.isa} groups {groups.tile[0]}x{groups.tile[1]}" in str(groups)
    for plan in (windows, depthwise, lines, groups):
        assert "workspace" in str(plan)


def test_a_window_with_few_channels_is_read_line_by_line():
    """This holds if the lines of a window are not whole groups of k too, and if windows have gaps."""
    with int8blas.use_isa("ref"):
        for layer, size, path in (
            (convolution(3, 16, 7, strides=2), 32, "lines"),
            (convolution(32, 64, 3, 8), 14, "lines"),
            (convolution(40, 40, 3, 2), 14, "lines"),
            (convolution(3, 16, 4, strides=4), 32, "lines"),
            (convolution(8, 16, 3, dilation=2), 14, "lines"),
            (convolution(200, 16, 1, strides=2), 14, "blocks"),
        ):
            image = np.zeros((1, size, size, layer.weights_shape[1] * layer.groups), np.uint8)
            assert int8blas.explain(image, layer).path == path


def test_small_groups_have_a_kernel_of_their_own():
    """The kernel takes groups of 2, 4 or 8 channels, at least 16 channels, with equal numbers of outputs and inputs, if
    windows overlap."""
    for layer, path in (
        (convolution(16, 16, 3, 4), "groups"),
        (convolution(16, 16, 3, 8), "groups"),
        (convolution(16, 16, 3, 2), "groups"),
        (convolution(8, 8, 3, 4), "lines"),
        (convolution(128, 128, 1, 16), "blocks"),
        (convolution(64, 64, 3, 4), "lines"),
        (convolution(64, 64, 3, 8, strides=2, dilation=2), "groups"),
        (convolution(12, 12, 3, 3), "lines"),
        (convolution(24, 24, 3, 4), "lines"),
        (convolution(64, 64, 1, 16, strides=2), "blocks"),
    ):
        with int8blas.use_isa("ref"):
            image = np.zeros((1, 14, 14, layer.weights_shape[1] * layer.groups), np.uint8)
            assert int8blas.explain(image, layer).path == path


def test_an_image_is_read_in_place():
    with int8blas.use_isa(int8blas.available_isas()[0]):
        plan = int8blas.explain(np.zeros((2, 14, 14, 64), np.uint8), convolution(64, 96, 1))
        assert plan.shape == (392, 96, 64)
        arranges = plan.isa in ("amx", "i8mm", "dotprod", "neon")
        assert plan.a_in_place or plan.may_widen or arranges or plan.isa == "ref"


def test_a_layer_without_all_of_its_values():
    layer = convolution(4, 4, 3, attributes=int8blas.Attributes(scales={"src": 0}))
    with pytest.raises(ValueError, match=r"^b must be a layer that was created with all"):
        int8blas.explain(np.zeros((1, 5, 5, 4), np.uint8), layer)


@pytest.mark.parametrize("wrong", [{"trans_a": True}, {"trans_b": True}, {"numerics": "saturating"}])
def test_what_a_layer_has_of_its_own(wrong):
    with pytest.raises(ValueError, match="for a layer"):
        int8blas.explain(np.zeros((1, 5, 5, 4), np.uint8), convolution(4, 4, 3), **wrong)
