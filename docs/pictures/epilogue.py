"""The epilogue of a quantized layer, with the numbers of one element."""

import numpy as np
from svg import FLOAT32, GREY, INT8, INT32, Drawing

import int8blas

SRC, WEIGHTS = [[130, 20, 90]], [[50, -100, 7]]
SCALES = {"src": 0.05, "weights": 0.01, "dst": 0.1}
ZERO_POINTS = {"src": 10, "dst": 3}


def draw():
    """Draw the steps from 8 bits through an exact sum and float32 to 8 bits."""
    src, weights = np.array(SRC, np.uint8), np.array(WEIGHTS, np.int8)
    bias = np.array([-0.5], np.float32)
    layer = int8blas.InnerProduct(
        weights, bias, src_dtype=np.uint8, dst_dtype=np.uint8, scales=SCALES, zero_points=ZERO_POINTS,
        attributes=int8blas.Attributes(post_ops=[int8blas.ReLU()]))  # fmt: skip
    total = int8blas.matmul(src, weights.T, ao=ZERO_POINTS["src"])
    scale = np.float32(SCALES["src"]) * np.float32(SCALES["weights"])
    scaled = total.astype(np.float32) * scale
    biased = scaled + bias
    activated = np.maximum(biased, 0)
    units = activated * (1 / np.float32(SCALES["dst"])) + np.float32(ZERO_POINTS["dst"])
    result = layer(src)
    assert result == np.rint(units)

    rows = [
        (INT8, "uint8, int8", "src, weights", f"{SRC[0]}, {WEIGHTS[0]}"),
        (INT32, "exact integer", "sum of (src - zp_src) * weights[oc]", f"{total.item()}"),
        (FLOAT32, "float32", "f32(sum) * (scale_src * scale_weights[oc])", f"{scaled.item():.4f}"),
        (FLOAT32, "float32", "+ bias[oc]", f"{biased.item():.4f}"),
        (FLOAT32, "float32", "post-ops, in their order: here ReLU", f"{activated.item():.4f}"),
        (FLOAT32, "float32", "* (1 / scale_dst) + zp_dst", f"{units.item():.4f}"),
        (INT8, "uint8", "round half to even, saturate: dst", f"{result.item()}"),
    ]
    drawing = Drawing(760, 42 + 52 * len(rows), "The epilogue of a quantized layer")
    drawing.text(20, 26, "type", "start", GREY, 12)
    drawing.text(150, 26, "step", "start", GREY, 12)
    drawing.text(548, 26, "one element", "start", GREY, 12)
    for i, (colour, dtype, step, value) in enumerate(rows):
        y = 40 + 52 * i
        drawing.box(140, y, 390, 34, colour)
        drawing.text(20, y + 22, dtype, "start")
        drawing.text(150, y + 22, step, "start", size=12, code=True)
        drawing.text(548, y + 22, value, "start", size=12, code=True)
        if i:
            drawing.line(335, y - 18, 335, y - 2, tip=True)
    return drawing
