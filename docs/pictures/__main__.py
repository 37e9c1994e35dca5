"""``python docs/pictures`` draws all pictures: each module here with a `draw` writes an SVG file of its name."""

import importlib
import pathlib

HERE = pathlib.Path(__file__).parent
NAMES = ("epilogue", "first_page", "fused_graph", "masks", "packed_layout", "pair_sums", "real_numbers",
         "scaling")  # fmt: skip


def drawings():
    """The path and the text of each picture."""
    for name in NAMES:
        yield HERE / f"{name}.svg", str(importlib.import_module(name).draw())


if __name__ == "__main__":
    for path, text in drawings():
        path.write_text(text, encoding="utf-8")
