"""The problems of the convolution benchmark: shapes, and the operands of one layer with the expected result.

dst_u8 = requantize(ReLU(convolution(src_u8, weights_s8) * scales + bias)),   all scales known beforehand

A shape is written "56x56x64 3x3/2 128": height, width and channels of the source, kernel and stride, channels of the
result; "g32" after it means groups, "d2" dilation.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from weights import draw_weights

# The convolutions of ResNet-50 v1.5 (which strides in its 3x3 layers) at 224 x 224, and how often each occurs.
RESNET50: dict[str, dict[str, int]] = {
    "first": {"224x224x3 7x7/2 64": 1},
    # of the 56x56 stage: few multiply-adds for each byte of source and result
    "thin 1x1": {"56x56x64 1x1 64": 1, "56x56x64 1x1 256": 4, "56x56x256 1x1 64": 2, "56x56x256 1x1 128": 1},
    "1x1": {
        "56x56x256 1x1/2 512": 1,
        "28x28x128 1x1 512": 4,
        "28x28x512 1x1 128": 3,
        "28x28x512 1x1 256": 1,
        "28x28x512 1x1/2 1024": 1,
        "14x14x256 1x1 1024": 6,
        "14x14x1024 1x1 256": 5,
        "14x14x1024 1x1 512": 1,
        "14x14x1024 1x1/2 2048": 1,
        "7x7x512 1x1 2048": 3,
        "7x7x2048 1x1 512": 2,
    },
    "3x3": {
        "56x56x64 3x3 64": 3,
        "56x56x128 3x3/2 128": 1,
        "28x28x128 3x3 128": 3,
        "28x28x256 3x3/2 256": 1,
        "14x14x256 3x3 256": 5,
        "14x14x512 3x3/2 512": 1,
        "7x7x512 3x3 512": 2,
    },
}

CLASSES: dict[str, list[str]] = {
    **{cls: list(shapes) for cls, shapes in RESNET50.items()},
    # MobileNet-v1
    "pointwise": [
        "112x112x32 1x1 64",
        "56x56x64 1x1 128",
        "56x56x128 1x1 128",
        "28x28x128 1x1 256",
        "28x28x256 1x1 256",
        "14x14x256 1x1 512",
        "14x14x512 1x1 512",
        "7x7x512 1x1 1024",
        "7x7x1024 1x1 1024",
    ],
    "depthwise": [
        "112x112x32 3x3 32 g32",
        "112x112x64 3x3/2 64 g64",
        "56x56x128 3x3 128 g128",
        "56x56x128 3x3/2 128 g128",
        "28x28x256 3x3 256 g256",
        "28x28x256 3x3/2 256 g256",
        "14x14x512 3x3 512 g512",
        "14x14x512 3x3/2 512 g512",
        "7x7x1024 3x3 1024 g1024",
    ],
    # EfficientNet-B0
    "depthwise 5x5": [
        "56x56x144 5x5/2 144 g144",
        "28x28x240 5x5 240 g240",
        "14x14x480 5x5 480 g480",
        "14x14x672 5x5/2 672 g672",
        "7x7x1152 5x5 1152 g1152",
    ],
    # the last stages of ResNet-50 as the backbone of DeepLab
    "dilated": ["28x28x256 3x3 256 d2", "28x28x512 3x3 512 d2", "28x28x512 3x3 512 d4"],
    # no dimension fits any tile
    "awkward": [
        "31x31x3 5x5 17",
        "31x31x17 3x3 65",
        "31x31x65 1x1 129",
        "31x31x65 5x5/2 65",
        "17x17x129 1x7 129",
        "17x17x129 7x1 129",
        "15x15x129 3x3 65",
    ],
    # ResNeXt-50, 32 groups of 4 channels and more
    "grouped": [
        "56x56x128 3x3 128 g32",
        "56x56x256 3x3/2 256 g32",
        "28x28x256 3x3 256 g32",
        "28x28x512 3x3/2 512 g32",
        "14x14x512 3x3 512 g32",
        "14x14x1024 3x3/2 1024 g32",
        "7x7x1024 3x3 1024 g32",
    ],
}

QUICK = [
    "224x224x3 7x7/2 64",
    "56x56x64 1x1 256",
    "14x14x1024 1x1 256",
    "56x56x64 3x3 64",
    "14x14x256 3x3 256",
    "56x56x128 3x3 128 g128",
    "28x28x256 3x3 256 d2",
    "28x28x256 3x3 256 g32",
]

SRC_SCALE = np.float32(0.02)  # zero points are 0, as in every calibration of a ReLU's output to uint8


@dataclass(frozen=True)
class ConvolutionProblem:
    """A layer on `batch` images, padded by half of the kernel on every side.

    (h, w, ic) is a source image, (kh, kw) the kernel, (oh, ow, oc) a result; stride and dilation hold for both
    dimensions.
    """

    sizes: ClassVar[str] = "source kernel result"
    formula: ClassVar[str] = "2 batch OH OW OC K"  # of the operations

    cls: str
    batch: int
    h: int
    w: int
    ic: int
    kh: int
    kw: int
    oc: int
    stride: int
    groups: int
    dilation: int

    def __str__(self) -> str:
        stride = f"/{self.stride}" if self.stride > 1 else ""
        groups = f" g{self.groups}" if self.groups > 1 else ""
        dilation = f" d{self.dilation}" if self.dilation > 1 else ""
        return f"{self.h}x{self.w}x{self.ic} {self.kh}x{self.kw}{stride} {self.oc}{groups}{dilation}"

    @property
    def extent(self) -> tuple[int, int]:
        """Return height and width of the dilated kernel."""
        return self.dilation * (self.kh - 1) + 1, self.dilation * (self.kw - 1) + 1

    @property
    def padding(self) -> tuple[int, int]:
        """Return the padding above and below, and left and right."""
        return self.extent[0] // 2, self.extent[1] // 2

    @property
    def oh(self) -> int:
        return (self.h + 2 * self.padding[0] - self.extent[0]) // self.stride + 1

    @property
    def ow(self) -> int:
        return (self.w + 2 * self.padding[1] - self.extent[1]) // self.stride + 1

    @property
    def k(self) -> int:
        """Return the number of products in an element of the result."""
        return self.kh * self.kw * self.ic // self.groups

    @property
    def depthwise(self) -> bool:
        return self.groups == self.ic == self.oc

    @property
    def occurrences(self) -> int:
        """Return how often the layer occurs in ResNet-50."""
        return RESNET50.get(self.cls, {}).get(str(self), 0)

    @property
    def operations(self) -> int:
        """Return the multiplications and additions, counted as two operations, including products with padding."""
        return 2 * self.batch * self.oh * self.ow * self.oc * self.k


NOTATION = "'HxWxIC KHxKW[/stride] OC [gGROUPS] [dDILATION]'"
SHAPE = re.compile(r"(\d+)x(\d+)x(\d+) (\d+)x(\d+)(?:/(\d+))? (\d+)(?: g(\d+))?(?: d(\d+))?")


def parse(shape: str) -> ConvolutionProblem:
    """Return the problem of a shape on one image, in the first class that has the shape."""
    match = SHAPE.fullmatch(shape)
    if not match:
        raise ValueError(f"a shape is {NOTATION}, got {shape!r}")
    h, w, ic, kh, kw, stride, oc, groups, dilation = sizes = [int(digits or 1) for digits in match.groups()]
    if min(sizes) < 1 or ic % groups or oc % groups:
        raise ValueError(f"sizes are at least 1, and groups divide the channels, got {shape!r}")
    cls = next((cls for cls, shapes in CLASSES.items() if shape in shapes), "given")
    return ConvolutionProblem(cls, 1, h, w, ic, kh, kw, oc, stride, groups, dilation)


def problems(classes: list[str], quick: bool, given: list[ConvolutionProblem], batch: int) -> list[ConvolutionProblem]:
    """Return the given shapes, or the shapes of the chosen classes, by default all classes."""
    shapes = QUICK if quick else [shape for members in CLASSES.values() for shape in members]
    chosen = given or [p for p in map(parse, shapes) if not classes or p.cls in classes]
    return [replace(problem, batch=batch) for problem in chosen]


class ConvolutionOperands:
    """The operands: src (batch, h, w, ic) and weights (oc, ic / groups, kh, kw), C-ordered."""

    def __init__(self, problem: ConvolutionProblem, weights: str) -> None:
        self.problem = p = problem
        rng = np.random.default_rng(zlib.crc32(repr(p).encode()))
        self.src = rng.integers(0, 255, (p.batch, p.h, p.w, p.ic), np.uint8, endpoint=True)
        self.weights = draw_weights(rng, (p.oc, p.ic // p.groups, p.kh, p.kw), weights)
        self.weight_scales = rng.uniform(0.5e-3, 2e-3, p.oc).astype(np.float32)
        self.bias = (np.sqrt(p.k) * 0.05 * rng.standard_normal(p.oc)).astype(np.float32)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return the shape of the result, (batch, oh, ow, oc)."""
        p = self.problem
        return p.batch, p.oh, p.ow, p.oc

    @property
    def scales(self) -> np.ndarray:
        """Return the scale of the int32 sums."""
        return SRC_SCALE * self.weight_scales

    @property
    def bias_s32(self) -> np.ndarray:
        """Return the bias in the scale of the sums, for libraries with an integer bias."""
        return np.rint(self.bias / self.scales).astype(np.int32)

    @property
    def weights_f32(self) -> np.ndarray:
        return self.weights * self.weight_scales[:, None, None, None]

    @property
    def src_f32(self) -> np.ndarray:
        return self.src * SRC_SCALE

    @cached_property
    def _sums(self) -> np.ndarray:
        """Return the integer results, (batch, oh, ow, oc), tap by tap; float64 holds them exactly: 2**15 * K <
        2**53."""
        p = self.problem
        (top, left), last = p.padding, np.multiply(p.stride, (p.oh - 1, p.ow - 1))
        padded = np.pad(self.src, ((0, 0), (top, top), (left, left), (0, 0)))
        weights = self.weights.reshape(p.groups, -1, p.ic // p.groups, p.kh, p.kw).astype(np.float64)
        sums = np.zeros((p.groups, p.batch * p.oh * p.ow, p.oc // p.groups))
        for y, x in np.ndindex(p.kh, p.kw):
            first = np.multiply(p.dilation, (y, x))
            rows, columns = (slice(a, b + 1, p.stride) for a, b in zip(first, first + last, strict=True))
            pixels = padded[:, rows, columns].reshape(-1, p.groups, p.ic // p.groups)
            sums += pixels.transpose(1, 0, 2).astype(np.float64) @ weights[..., y, x].transpose(0, 2, 1)
        return sums.transpose(1, 0, 2).reshape(self.shape)

    @cached_property
    def _activated(self) -> np.ndarray:
        """Return the float32 result after ReLU, in the arithmetic of int8blas."""
        return np.maximum(self._sums.astype(np.float32) * self.scales + self.bias, np.float32(0))

    @cached_property
    def dst_scale(self) -> np.float32:
        """Return a scale a little too small for the largest results, which saturate."""
        return np.float32(0.9 * self._activated.max() / 255)

    @cached_property
    def expected(self) -> np.ndarray:
        """Return the result, with the bits of int8blas."""
        quotients = self._activated * (np.float32(1) / self.dst_scale)
        return np.clip(np.rint(quotients), 0, 255).astype(np.uint8)

    def check(self, result: np.ndarray, tolerance: int = 1) -> str:
        """Describe the error of a uint8 result (NHWC), or return "". A library that rounds an earlier value may differ
        by one step."""
        error = int(np.abs(result.astype(np.int16) - self.expected).max())
        return "" if error <= tolerance else f"an error of {error} steps of the output"

    def check_f32(self, result: np.ndarray) -> str:
        """Describe the error of a float32 result (NHWC) that is not requantized yet, or return ""."""
        error = float(np.linalg.norm(result - self._activated) / np.linalg.norm(self._activated))
        return "" if error <= 1e-4 else f"a relative error of {error:.1e}"
