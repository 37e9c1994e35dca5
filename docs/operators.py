"""Write the table of operators in howto/onnx.md from the rows of int8blas.onnx: ``python docs/operators.py``."""

import re
from pathlib import Path

from int8blas.onnx import operators
from int8blas.onnx.table import DOMAIN, LEARNING, MICROSOFT

PAGE = Path(__file__).parent / "howto" / "onnx.md"
HEAD = "| family | operators |\n|---|---|\n"
# The oldest version of ONNX that int8blas supports: the table has no number for operators of this version.
OLDEST = 7
# The names of the families, by their modules.
FAMILIES = {
    "integer": "8-bit integers", "elementwise": "of elements", "shape": "moving and choosing",
    "reduction": "reductions", "linear": "products of floats", "windows": "windows",
    "vision": "samples of images, boxes", "normalization": "normalization", "resize": "resizing",
    "recurrent": "recurrent", "generators": "constants", "control": "control", "sequences": "sequences",
    "reference": "computed by onnx's reference implementation, which needs onnx at run time too",
}  # fmt: skip


def listed(rows):
    """Return the names of some rows in order, each with its first version if that is later than OLDEST."""
    since = {}
    for row in rows:
        since[row.name] = min(row.since, since.get(row.name, row.since))
    return ", ".join(f"{name} ({first})" if first > OLDEST else name for name, first in sorted(since.items()))


def table():
    """Return the table in Markdown."""
    of_modules = {family.__name__.rpartition(".")[2]: family.OPERATORS for family in operators.FAMILIES}
    families = {FAMILIES.get(name, name): [row for row in rows if not row.domain] for name, rows in of_modules.items()}
    every = [row for rows in operators.TABLE.rows.values() for row in rows]
    learned = [row for row in every if row.domain == LEARNING]
    families[LEARNING] = [row for row in learned if row not in operators.reference.OPERATORS]
    families[f"{LEARNING}, computed by onnx's reference implementation"] = [
        row._replace(since=1) for row in learned if row in operators.reference.OPERATORS
    ]
    families[MICROSOFT] = [row for row in every if row.domain == MICROSOFT]
    families["of int8blas, for patterns"] = [row for row in every if row.domain == DOMAIN]
    return HEAD + "".join(f"| {family} | {listed(rows)} |\n" for family, rows in families.items() if rows)


if __name__ == "__main__":
    PAGE.write_text(re.sub(rf"{re.escape(HEAD)}(\|.*\n)*", lambda _: table(), PAGE.read_text()))
