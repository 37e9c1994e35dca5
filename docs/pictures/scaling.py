"""Speed-up by threads: measured on 16 cores, and predicted by benchmarks/scaling_model.py for up to 128."""

from itertools import pairwise
from math import log2

from svg import FLOAT32, GREY, INK, INT8, LIGHT, Drawing

# Class of shapes, measured speed-up with 2, 4, 8 and 16 threads, speed-up by the model with 2, 4, ... 128.
ROWS = (
    ("square", (1.94, 3.8, 6.78, 8.97), (1.96, 3.69, 6.55, 10.77, 16.47, 23.74, 31.92)),
    ("llm", (1.91, 3.85, 7.54, 10.07), (2.0, 3.98, 7.89, 15.42, 29.26, 52.45, 85.51)),
    ("bert", (1.57, 2.45, 3.67, 4.87), (1.51, 2.37, 3.63, 5.28, 7.25, 9.0, 10.13)),
    ("odd", (1.57, 2.41, 3.36, 3.56), (1.57, 2.29, 3.17, 4.13, 5.05, 5.89, 6.54)),
    ("gemv", (1.76, 2.87, 5.09, 8.32), (1.9, 3.19, 4.91, 7.26, 10.05, 13.17, 14.73)),
    ("small_m", (1.66, 2.62, 3.88, 4.56), (1.83, 2.89, 3.84, 4.72, 5.47, 6.02, 6.21)),
    ("skinny_n", (1.72, 2.81, 3.37, 3.47), (1.85, 3.08, 3.59, 3.67, 3.67, 3.67, 3.67)),
    ("tiny_k", (1.81, 3.14, 4.33, 5.26), (1.6, 2.74, 3.38, 4.55, 4.74, 4.74, 4.74)),
)
SIDE, GAP, LEFT, TOP, COLUMNS, OCTAVES = 140, 42, 40, 62, 4, 7


def panel(drawing, x, y, name, measured, modelled):
    """Draw one class: speed-up against threads, both logarithmic."""

    def place(i, speed_up):
        return x + SIDE * i / OCTAVES, y + SIDE * (1 - log2(speed_up) / OCTAVES)

    for octave in range(OCTAVES + 1):
        at = SIDE * octave / OCTAVES
        drawing.line(x + at, y, x + at, y + SIDE, LIGHT)
        drawing.line(x, y + at, x + SIDE, y + at, LIGHT)
        if octave % 2 == 0:
            drawing.text(x + at, y + SIDE + 14, str(2**octave), fill=GREY, size=10)
            drawing.text(x - 5, y + SIDE - at + 4, str(2**octave), "end", GREY, 10)
    drawing.line(x, y + SIDE, x + SIDE, y, LIGHT, 2)
    points = [place(i, speed_up) for i, speed_up in enumerate((1, *modelled))]
    for start, end in pairwise(points):
        drawing.line(*start, *end, FLOAT32, 2)
    for i, speed_up in enumerate((1, *measured)):
        drawing.dot(*place(i, speed_up), INT8, INK)
    drawing.text(x + 4, y - 7, name, "start", bold=True)


def draw():
    """Draw a panel for each class of shapes."""
    width = LEFT + COLUMNS * (SIDE + GAP)
    drawing = Drawing(width, TOP + 2 * (SIDE + GAP), "Speed-up by threads, measured and modelled")
    drawing.text(LEFT - 28, 20, "Speed-up by threads, both in powers of two", "start", bold=True)
    drawing.dot(LEFT + 320, 16, INT8, INK)
    drawing.text(LEFT + 332, 20, "measured on 16 cores", "start")
    drawing.line(LEFT + 490, 16, LEFT + 520, 16, FLOAT32, 2)
    drawing.text(LEFT + 528, 20, "model", "start")
    for i, row in enumerate(ROWS):
        panel(drawing, LEFT + i % COLUMNS * (SIDE + GAP), TOP + i // COLUMNS * (SIDE + GAP), *row)
    return drawing
