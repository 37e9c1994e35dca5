"""What the pages in docs/ are made of: public names, pictures."""

import pathlib
import re
import subprocess
import sys

import int8blas
from int8blas import calibration

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def test_every_public_name_has_its_place_in_the_reference():
    pages = "".join(path.read_text() for path in (DOCS / "api").glob("*.rst"))
    names = re.findall(r"^\.\. auto(?:function|class):: (\w+)", pages, re.MULTILINE)
    public = {*int8blas.__all__, *calibration.__all__} - {"calibration", "__version__"}
    assert sorted(names) == sorted(public)


def test_the_index_of_the_reference_has_a_line_for_every_public_name():
    page = (DOCS / "api" / "index.rst").read_text()
    names = re.findall(
        r"^   ([\w.]+)$", "\n".join(re.findall(r"autosummary::\n.*?(?=\n\n\S|\Z)", page, re.DOTALL)), re.M
    )
    public = {*int8blas.__all__, *calibration.__all__} - {"calibration", "__version__"}
    assert sorted(names) == sorted(public)


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
