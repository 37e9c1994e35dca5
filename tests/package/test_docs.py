"""The pages in docs/: public names, links, pictures, and names of files and functions."""

import pathlib
import re
import subprocess
import sys

import pytest

import int8blas
import int8blas.onnx
from int8blas import calibration, formats

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def public_names():
    """The names for the reference: public names of the package, and of its modules with the module's name before
    them."""
    yield from {*int8blas.__all__} - {"calibration", "onnx", "__version__"}
    yield from calibration.__all__
    yield from formats.__all__
    yield from (f"onnx.{name}" for name in int8blas.onnx.__all__)


def named_in(page, pattern):
    """The names in a page that match a pattern. Names under "currentmodule:: int8blas.onnx" get the prefix "onnx."."""
    for part in re.split(r"^\.\. currentmodule:: ", page, flags=re.MULTILINE):
        prefix = "onnx." if part.startswith("int8blas.onnx\n") else ""
        yield from (prefix + name for name in re.findall(pattern, part, re.MULTILINE))


def test_every_public_name_has_its_place_in_the_reference():
    pages = "\n".join(path.read_text() for path in (DOCS / "api").glob("*.rst"))
    names = named_in(pages, r"^\.\. auto(?:function|class):: (\w+)")
    assert sorted(names) == sorted(public_names())


def test_the_index_of_the_reference_has_a_line_for_every_public_name():
    page = (DOCS / "api" / "index.rst").read_text()
    lists = re.findall(r"currentmodule::[^\n]*\n|autosummary::\n.*?(?=\n\n\S|\Z)", page, re.DOTALL)
    names = named_in("\n".join(f".. {text}" for text in lists), r"^   ([\w.]+)$")
    assert sorted(names) == sorted(public_names())


def test_the_headings_of_a_page_are_hidden_in_no_window():
    rules = re.findall(r"([^{}]*){([^{}]*)}", (DOCS / "_static" / "pages.css").read_text())
    assert not [selector for selector, rule in rules if "sidebar" in selector and re.search("display|visibility", rule)]


def test_pictures_are_what_their_scripts_draw(tmp_path):
    pictures = DOCS / "pictures"
    for script in pictures.glob("*.py"):
        (tmp_path / script.name).write_bytes(script.read_bytes())
    subprocess.run([sys.executable, tmp_path], check=True)
    drawn = {path.name: path.read_text() for path in tmp_path.glob("*.svg")}
    assert drawn == {path.name: path.read_text() for path in pictures.glob("*.svg")}


def links(page):
    """The pages that a page links to."""
    return {(page.parent / target).resolve() for target in re.findall(r"\]\(([\w./]+\.(?:md|rst))", page.read_text())}


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_list_of_pages_has_every_page(page):
    pages = {path for path in DOCS.glob("*.md") if path.name != "index.md"}
    indexed = links(DOCS / "concepts" / "index.md") if page == "docs/index.md" else set()
    assert not pages - links(DOCS.parent / page) - indexed


def test_the_list_of_tasks_has_every_task():
    pages = {path for path in (DOCS / "howto").glob("*.md") if path.name != "index.md"}
    assert pages == links(DOCS / "howto" / "index.md")


# ------------------------------------------------------------------------------------- files, modules, functions ------

ROOT = DOCS.parent
ROOMS = "core|gemm|stage|convolution|layers|elementwise|network|onnx|neighbors"
FILE = r"(int8blas|csrc|tests|benchmarks|examples|docs)/[\w./<>*-]+"
# Files that a recipe adds.
ADDED = {"int8blas/gemm/paths/outer.pyx", "tests/gemm/paths/test_outer.py"}
PAGES = ["README.md", "CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in sorted(DOCS.rglob("*.md")))]


def text_of(page):
    return (ROOT / page).read_text()


def in_code(page):
    """The texts between backticks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE))


def is_there(path):
    """Whether a file or folder of the checkout has this path; <isa> and * stand for any name."""
    return any(ROOT.glob(re.sub(r"<\w+>", "*", path.removeprefix("../").rstrip("/"))))


def defines(pattern, name, indent=""):
    """Whether a module of the package defines a name: at its top level, or with an indent as a method."""
    files = [path for path in (ROOT / "int8blas").glob(f"{pattern}.p*") if path.suffix in {".py", ".pyx", ".pxd"}]
    definition = rf"^{indent}(?:cpdef|cdef|def|class)\b[^\n(=]*\b{name}\b"
    return any(re.search(definition, path.read_text(), re.MULTILINE) for path in files)


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page):
    named = {word for word in in_code(page) if re.fullmatch(FILE, word)} - ADDED
    paths = {
        re.sub("^csrc/", "int8blas/csrc/", word) for word in named if "<name>" not in word and "_build" not in word
    }
    assert not [path for path in paths if not is_there(path)]


def test_files_in_the_lists_of_the_architecture_are_there():
    named = re.findall(r"^    (?:  )?([\w./*-]+(?:\.(?:h|c|py|pyx)|/)) ", text_of("docs/architecture.md"), re.MULTILINE)
    assert len(named) > 15
    assert not [name for name in named if not is_there(name) and not is_there(f"int8blas/{name}")]


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/howto/extend.md", "CONTRIBUTING.md"])
def test_modules_and_functions_that_a_page_names_are_there(page):
    words = in_code(page)
    # gemm.paths is a folder, although it is written like part of a module's name.
    words = [re.sub(r"^gemm\.paths\.", "gemm.paths/", word) for word in words]
    named = [word.split(".") for word in words if re.fullmatch(rf"({ROOMS})(\.[\w/]+)+", word)]
    for room, module, *names in named:
        assert is_there(f"int8blas/{room}/{module}.p*"), (room, module)
        assert all(defines(f"{room}/{module}", name) for name in names), (room, module, names)
    for word in words:
        if re.fullmatch(r"[A-Z]+[a-z]\w*\.\w+", word):
            owner, method = word.split(".")
            assert defines("*/*", owner), word
            assert defines("*/*", method, indent="    "), word
        if re.fullmatch(r"i8_\w+", word):
            assert any(re.search(rf"\b{word}\b", path.read_text()) for path in ROOT.glob("int8blas/csrc/*/*.h")), word
    assert len(named) > 50 or page != "docs/architecture.md"
