"""Everything in code font in docs/specification.md exists: a name, a parameter, a test or a file."""

import ast
import functools
import inspect
import re
from pathlib import Path

import pytest

import int8blas

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "specification.md").read_text(encoding="utf-8")

ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| statement |")]
SPANS = sorted({span for line in PAGE.splitlines() if line[:4].strip() for span in re.findall(r"`([^`]+)`", line)})
TESTS = [span for span in SPANS if "::" in span]
FILES = [span for span in SPANS if "/" in span and "::" not in span]
LINKS = sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE)))
NAMES = [span for span in SPANS if span not in {*TESTS, *FILES}]


@functools.cache
def functions_of(name):
    tree = ast.parse((ROOT / "tests" / name).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def resolve(node):
    """The object for a name or an attribute of the package."""
    if isinstance(node, ast.Name):
        places = (int8blas, int8blas.calibration)
        return next(getattr(place, node.id) for place in places if hasattr(place, node.id))
    return getattr(resolve(node.value), node.attr)


def check_call(node):
    """Check that the keywords of a call are parameters."""
    names = {keyword.arg for keyword in node.keywords}
    known = set(inspect.signature(resolve(node.func)).parameters)
    assert names <= known, f"{ast.unparse(node)}: {sorted(names - known)}"


@pytest.mark.parametrize("span", TESTS)
def test_tests_exist(span):
    name, function = span.split("::")
    assert function in functions_of(name)


@pytest.mark.parametrize("name", [*FILES, *(f"docs/{page}" for page in LINKS)])
def test_files_exist(name):
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("span", NAMES)
def test_names_and_parameters_exist(span):
    for node in ast.walk(ast.parse(span, mode="eval")):
        if isinstance(node, ast.Call):
            check_call(node)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            resolve(node)


def test_a_name_that_does_not_exist_is_found():
    for span in ("gem_u8s8s32", "PackedB.date", "quantize(scales=1)", "InnerProduct(bia=0)", "LSTM.__call__(h=0)"):
        with pytest.raises((StopIteration, AttributeError, AssertionError)):
            test_names_and_parameters_exist(span)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:30])
def test_every_statement_has_a_place_and_a_test_or_says_why_not(row):
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == 4
    statement, where, tests, note = cells
    assert statement
    assert "`" in where or where == "-"
    assert "::" in tests or (tests == "-" and note)
