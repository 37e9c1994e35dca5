"""The packed layout, read from a PackedB."""

import numpy as np
from svg import GREY, INK, LIGHT, Drawing

import int8blas

K, N, CELL = 10, 35, 14
SHADES = (("#f6c177", "#fbe3bf"), ("#9cc3e6", "#d3e5f5"), ("#a8d5a2", "#d9edd6"))  # of panels, groups in turn


def draw():
    """Draw B in panels and groups, the memory, and the bytes of one group."""
    packed = int8blas.pack_b(np.ones((K, N), np.int8))
    panels, groups, columns, depth = packed.data.shape
    drawing = Drawing(760, 460, "The packed layout of B: panels of 16 columns, groups of 4 k")
    left, top = 60, 58
    drawing.text(left, 20, f"B, {K} x {N}", "start", bold=True)
    for p in range(panels):
        drawing.text(left + (p + 0.5) * columns * CELL, 48, f"panel {p}: n = {p * columns} ... {(p + 1) * columns - 1}")
        for g in range(groups):
            # The packed matrix has ones, and zeros in its padding.
            width, height = (packed.data[p, g].any(axis=i).sum() * CELL for i in (1, 0))
            drawing.box(left + p * columns * CELL, top + g * depth * CELL, width, height, SHADES[p][g % 2], "none")
    for n in range(panels * columns):
        drawing.line(left + n * CELL, top, left + n * CELL, top + groups * depth * CELL, LIGHT)
    for k in range(groups * depth):
        drawing.line(left, top + k * CELL, left + panels * columns * CELL, top + k * CELL, LIGHT)
    for p in range(panels):
        for g in range(groups):
            drawing.box(left + p * columns * CELL, top + g * depth * CELL, columns * CELL, depth * CELL, line=1.5)
    for g in range(groups):
        drawing.text(left - 8, top + (g + 0.5) * depth * CELL + 4, f"k = {g * depth}-{g * depth + 3}", "end", size=10)
    bottom = top + groups * depth * CELL
    drawing.text(left + panels * columns * CELL, bottom + 16, "white: padding with zeros", "end", GREY, 11)

    y = bottom + 66
    drawing.text(left, y - 28, "Memory", "start", bold=True)
    width = panels * columns * CELL / (panels * groups)
    for p in range(panels):
        for g in range(groups):
            x = left + (p * groups + g) * width
            drawing.box(x, y, width, 26, SHADES[p][g % 2])
            drawing.text(x + width / 2, y + 17, f"group {g}", size=11)
        drawing.text(left + (p + 0.5) * groups * width, y - 7, f"panel {p}", size=11)

    first = left + groups * width  # panel 1, group 0
    y, cell = y + 76, panels * columns * CELL / 20
    drawing.line(first, y - 50, left, y, GREY, dash="4 3")
    drawing.line(first + width, y - 50, left + 20 * cell, y, GREY, dash="4 3")
    for n, x in ((0, 0), (1, 4), (2, 8), (columns - 1, 16)):
        for k in range(depth):
            drawing.box(left + (x + k) * cell, y, cell, 26, SHADES[1][0], GREY)
            drawing.text(left + (x + k + 0.5) * cell, y + 17, f"k = {k}", size=10)
        drawing.box(left + x * cell, y, depth * cell, 26, line=1.5)
        drawing.text(left + (x + 2) * cell, y + 42, f"n = {columns + n}", size=11)
        drawing.text(left + x * cell, y + 56, f"byte {depth * n}", "start", GREY, 10)
    drawing.text(left + 14 * cell, y + 17, "...", fill=INK)
    drawing.text(left, y + 82, "One group: 64 bytes, one AVX-512 register, two AVX2 registers, or a row of an AMX tile",
                 "start", size=11)  # fmt: skip
    return drawing
