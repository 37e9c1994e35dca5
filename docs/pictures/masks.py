"""Masks: which elements of a tensor share a value."""

from svg import GREY, Drawing

SHADES = ("#f6c177", "#9cc3e6", "#a8d5a2", "#d7bde2", "#f5b7b1")
CELL = 26


def tensor(drawing, x, y, shape, mask, names, title, argument):
    """Draw a matrix whose elements have the colour of their value."""
    rows, columns = shape
    drawing.text(x, y - 44, title, "start", bold=True)
    drawing.text(x, y - 26, argument, "start", size=11, code=True)
    for i in range(rows):
        for j in range(columns):
            index = (i if mask & 1 else 0) + (j if mask & 2 else 0)
            drawing.box(x + j * CELL, y + i * CELL, CELL, CELL, SHADES[index], "white")
    drawing.text(x + columns * CELL / 2, y - 6, f"{names[1]}, bit 1", fill=GREY, size=11)
    drawing.text(x + columns * CELL + 6, y + rows * CELL / 2 + 4, f"{names[0]}, bit 0", "start", GREY, 11)


def draw():
    """Draw weights and data with the usual masks."""
    drawing = Drawing(760, 430, "Masks: bit i of a mask selects dimension i")
    drawing.text(20, 24, "Elements of one colour share a scale (or a zero point). Bit i of a mask selects dimension i.",
                 "start")  # fmt: skip
    weights, data = ("oc", "ic"), ("n", "c")
    tensor(drawing, 20, 112, (4, 5), 0, weights, "Weights, per tensor", '"weights": 0')
    tensor(drawing, 270, 112, (4, 5), 1, weights, "Weights, per channel", '"weights": 1 << 0')
    tensor(drawing, 530, 112, (4, 5), 2, weights, "Per input channel", "1 << 1, for reorder alone")
    tensor(drawing, 20, 302, (4, 5), 0, data, "Data, per tensor", '"src": 0 or "dst": 0')
    tensor(drawing, 270, 302, (4, 5), 1, data, "Source, per row", '"src": 1 << 0')
    tensor(drawing, 530, 302, (4, 5), 2, data, "Destination, per channel", '"dst": 1 << 1')
    return drawing
