"""What the pages in docs/ are made of: public names, signatures, pictures."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

import int8blas
from int8blas import calibration

DOCS = pathlib.Path(__file__).parents[1] / "docs"
STUBS = pathlib.Path(int8blas.__file__).parent
LAYERS = ("InnerProduct", "Convolution", "Deconvolution", "LSTM", "GRU")


def test_every_public_name_has_its_place_in_the_reference():
    pages = "".join(path.read_text() for path in (DOCS / "api").glob("*.rst"))
    names = re.findall(r"^\.\. auto(?:function|class):: (\w+)", pages, re.MULTILINE)
    public = {*int8blas.__all__, *calibration.__all__} - {"calibration", "__version__"}
    assert sorted(names) == sorted(public)


@pytest.mark.parametrize("name", LAYERS)
def test_the_signature_in_the_docstring_of_a_layer_is_that_of_its_constructor(name):
    layer = getattr(int8blas, name)
    written = ast.parse(f"def {layer.__doc__.splitlines()[0]}: ...").body[0]
    owner = layer if name != "Convolution" else layer.__base__
    stub = ast.parse((STUBS / f"{owner.__module__.rpartition('.')[2]}.pyi").read_text())
    (constructor,) = (
        method
        for definition in stub.body
        if isinstance(definition, ast.ClassDef) and definition.name == owner.__name__
        for method in definition.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    )
    del constructor.args.args[0]
    for kind in ("args", "kwonlyargs"):
        assert [a.arg for a in getattr(written.args, kind)] == [a.arg for a in getattr(constructor.args, kind)]
    for kind in ("defaults", "kw_defaults"):
        for said, declared in zip(getattr(written.args, kind), getattr(constructor.args, kind), strict=True):
            assert (said is None) == (declared is None)
            if said is not None and ast.unparse(declared) != "...":
                assert ast.unparse(said) == ast.unparse(declared)


def test_pictures_are_what_their_scripts_draw(tmp_path):
    pictures = DOCS / "pictures"
    for script in pictures.glob("*.py"):
        (tmp_path / script.name).write_bytes(script.read_bytes())
    subprocess.run([sys.executable, tmp_path], check=True)
    drawn = {path.name: path.read_text() for path in tmp_path.glob("*.svg")}
    assert drawn == {path.name: path.read_text() for path in pictures.glob("*.svg")}
