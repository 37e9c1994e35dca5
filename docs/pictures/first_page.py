"""The times of one product by several libraries, with VNNI and without: the table of README's first page."""

from math import log10

from first_page_figures import COLUMNS, ROWS, SHAPE
from svg import FLOAT32, GREY, INT8, INT32, LIGHT, RED, Drawing

LEFT, PANEL, GAP, TOP, STEP = 230, 250, 70, 62, 26
DECADES = 3  # powers of ten on the axis, from 1 ms


def colour(name):
    """Return the colour of a bar: int8blas and float32 have their own."""
    return INT8 if name.startswith("int8blas") else FLOAT32 if "float32" in name else INT32


def bar(drawing, x, y, name, figure):
    """Draw the bar of one time, on a logarithmic axis."""
    if figure is None:
        drawing.text(x + 4, y + 13, "not measured", "start", GREY, 11)
        return
    time, wrong = figure
    width = max(2, PANEL * log10(time) / DECADES)
    drawing.box(x, y, width, STEP - 8, "none" if wrong else colour(name), RED if wrong else "none")
    words = (f"{time:.0f} ms" if time >= 100 else f"{time:.2f} ms") + ", wrong: it saturates" * wrong
    drawing.text(x + width + 5, y + 13, words, "start", RED if wrong else "#1f2933", 11)


def draw():
    """Draw a panel for each column of the table."""
    height = TOP + STEP * len(ROWS) + 30
    drawing = Drawing(LEFT + len(COLUMNS) * (PANEL + GAP), height, "One product by several libraries")
    m, n, k = SHAPE
    drawing.text(12, 20, f"int8 {m} x {n} x {k}, one thread", "start", bold=True)
    for i, column in enumerate(COLUMNS):
        x = LEFT + i * (PANEL + GAP)
        drawing.text(x, 46, column, "start", bold=True)
        for decade in range(DECADES + 1):
            at = x + PANEL * decade / DECADES
            drawing.line(at, TOP - 6, at, TOP + STEP * len(ROWS), LIGHT)
            drawing.text(at, TOP + STEP * len(ROWS) + 16, f"{10**decade} ms", fill=GREY, size=11)
        for j, (name, *figures) in enumerate(ROWS):
            bar(drawing, x, TOP + j * STEP, name, figures[i])
    for j, (name, *_) in enumerate(ROWS):
        drawing.text(LEFT - 8, TOP + j * STEP + 13, name, "end", size=12, bold=name.startswith("int8blas"))
    return drawing
