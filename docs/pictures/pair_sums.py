"""Sums of four products, with VNNI and without."""

import numpy as np
from svg import FLOAT32, GREY, INT8, INT32, RED, Drawing

import int8blas

A, B = (255, 255, 0, 0), (127, 127, 0, 0)


def column(drawing, x, title, steps, end):
    """Draw a sequence of instructions, with the text of each instruction, the lanes after it and its colour."""
    drawing.text(x + 150, 30, title, bold=True)
    y = 50
    for words, lanes, colour in steps:
        width = 300 / len(lanes)
        drawing.text(x + 150, y + 12, words, fill=GREY, size=11)
        for i, lane in enumerate(lanes):
            drawing.box(x + i * width, y + 20, width, 30, colour)
            drawing.text(x + (i + 0.5) * width, y + 40, lane, size=12)
        y += 76
        if words != steps[-1][0]:
            drawing.line(x + 150, y - 24, x + 150, y - 6, tip=True)
    drawing.text(x + 150, y + 6, end[0], fill=end[1], bold=True)


def draw():
    """Draw the first example of "Nuances of int8 Computations"."""
    a, b = np.array([A], np.uint8), np.array([B], np.int8)
    exact = int8blas.gemm_u8s8s32(1, a, b, trans_b=True).item()
    saturating = int8blas.gemm_u8s8s32(1, a, b, trans_b=True, numerics="saturating").item()
    pairs = [A[i] * B[i] + A[i + 1] * B[i + 1] for i in (0, 2)]
    clipped = [min(pair, 32767) for pair in pairs]
    factors = [f"{x} * {y}" for x, y in zip(A, B, strict=True)]
    drawing = Drawing(760, 300, "Four products added with and without saturation to 16 bits")
    column(drawing, 40, "VNNI", [
        ("four products of uint8 and int8", factors, INT8),
        ("VPDPBUSD: their sum, added to int32", [str(sum(pairs))], INT32),
    ], (f"{exact}: exact", "#2e7d32"))  # fmt: skip
    column(drawing, 420, "No VNNI, saturating", [
        ("four products of uint8 and int8", factors, INT8),
        ("VPMADDUBSW: sums of two, saturated to int16",
         [f"{pair} -> {c}" if c != pair else str(c) for pair, c in zip(pairs, clipped, strict=True)], FLOAT32),
        ("VPMADDWD, VPADDD: their sum, added to int32", [str(sum(clipped))], INT32),
    ], (f"{saturating}: saturated", RED))  # fmt: skip
    return drawing
