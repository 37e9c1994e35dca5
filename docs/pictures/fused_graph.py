"""A graph as a quantizer wrote it, and the nodes that run."""

from svg import FLOAT32, GREY, INT8, INT32, LIGHT, Drawing

WIDTH, HEIGHT, STEP = 178, 30, 46


def column(drawing, x, y, nodes):
    """Draw nodes one below the other, each with its further inputs; return the end of the last one."""
    for i, (name, besides, fill) in enumerate(nodes):
        top = y + i * STEP
        drawing.box(x, top, WIDTH, HEIGHT, fill)
        drawing.text(x + WIDTH / 2, top + 20, name)
        if besides:
            drawing.text(x + WIDTH + 8, top + 20, besides, "start", GREY, 11)
        drawing.line(x + WIDTH / 2, top + HEIGHT, x + WIDTH / 2, top + STEP - 1, tip=True)
    return y + len(nodes) * STEP


def draw():
    """The end of a recurrent network with int8 weights."""
    drawing = Drawing(760, 420, "A fused graph: what a quantizer wrote, and what runs")
    for x, title in ((20, "In the file"), (420, "In the plan")):
        drawing.text(x, 26, title, "start", bold=True)
    file = [
        ("DynamicQuantizeLSTM", "weights, scales", FLOAT32), ("Transpose, Reshape", "", LIGHT),
        ("DynamicQuantizeLinear", "", INT8), ("MatMulInteger", "weights", INT32), ("Cast", "to float32", FLOAT32),
        ("Mul", "by Mul(x_scale, w_scale)", FLOAT32), ("Add", "bias", FLOAT32),
    ]  # fmt: skip
    plan = [
        ("DynamicLSTM", "a sequence is one call", FLOAT32), ("Transpose, Reshape", "views, nothing moves", LIGHT),
        ("DynamicMatMul", "quantizes its source, packed weights, bias", FLOAT32),
    ]  # fmt: skip
    column(drawing, 20, 44, file)
    column(drawing, 420, 44, plan)
    for x, fill, text in ((20, INT8, "uint8"), (110, INT32, "int32"), (200, FLOAT32, "float32"), (300, LIGHT, "moved")):
        drawing.box(x, 384, 16, 16, fill)
        drawing.text(x + 22, 397, text, "start", GREY, 12)
    return drawing
