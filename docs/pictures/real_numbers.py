"""The real numbers that a quantized tensor represents, by `quantize` and `dequantize`."""

import numpy as np
from svg import GREY, INK, INT8, LIGHT, RED, Drawing

import int8blas

SCALE, ZERO_POINT = 0.01, 100


def draw():
    """Draw both axes, the values that correspond, and the rounding of values between two steps."""
    drawing = Drawing(760, 420, "Quantization: steps of the scale from the zero point, saturated at both ends")
    integers = np.array([0, 50, 100, 150, 200, 255], np.uint8)
    reals = int8blas.dequantize(integers, SCALE, ZERO_POINT)
    low, high = reals[0], reals[-1]

    def place(x):
        return 380 + (x - (low + high) / 2) * 210

    drawing.text(20, 24, f"uint8 with scale {SCALE} and zero point {ZERO_POINT}", "start", bold=True)
    drawing.text(20, 68, "real", "start")
    drawing.text(20, 163, "uint8", "start")
    for end, edge in ((low, 70), (high, 740)):
        drawing.box(min(place(end), edge), 52, abs(place(end) - edge), 24, "#fbe4e1", "none")
    drawing.text((70 + place(low)) / 2, 46, "saturates", fill=RED, size=11)
    drawing.text((740 + place(high)) / 2, 46, "saturates", fill=RED, size=11)
    drawing.line(70, 64, 740, 64, tip=True)
    drawing.box(place(low), 148, place(high) - place(low), 22, INT8)
    for q, x in zip(integers, reals, strict=True):
        middle = q == ZERO_POINT
        drawing.line(place(x), 64, place(x), 148, INK if middle else GREY, 2 if middle else 1, "" if middle else "4 3")
        drawing.text(place(x) + 4, 92, f"{x:.2f}", "start", size=11, bold=bool(middle))
        drawing.text(place(x), 188, str(q), size=11, bold=bool(middle))
        drawing.dot(place(x), 64)
    drawing.text(place(0), 206, "zero point", size=11, bold=True)

    drawing.text(20, 244, "Scale 1, zero point 0: between two steps to the nearer one, from the middle to the even one",
                 "start", bold=True)  # fmt: skip
    x0, y0, step = 380, 330, 60

    def at(x, q):
        return x0 + x * step, y0 - q * step / 3

    for q in range(-3, 4):
        drawing.line(x0 - 4.6 * step, y0 - q * step / 3, x0 + 4.6 * step, y0 - q * step / 3, LIGHT)
        drawing.text(x0 - 4.8 * step, y0 - q * step / 3 + 4, str(q), "end", size=11)
        drawing.text(x0 + q * step, 408, str(q), size=11)
    drawing.text(x0 + 4.3 * step, 408, "x / scale", size=11)
    for q in range(-3, 4):
        (left, y), (right, _) = at(q - 0.5, q), at(q + 0.5, q)
        drawing.line(left, y, right, y, INK, 2)
        for edge in (q - 0.5, q + 0.5):
            taken = int8blas.quantize(np.float32(edge), 1.0) == q
            drawing.dot(at(edge, q)[0], y, INK if taken else "white")
    return drawing
