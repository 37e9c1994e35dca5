"""For everything public, `inspect.signature`, the stubs and the docstrings agree."""

import ast
import inspect
import itertools
import pathlib
import pydoc
import re

import numpy as np
import pytest

import int8blas
from int8blas import calibration

PACKAGE = pathlib.Path(int8blas.__file__).parent
API = pathlib.Path(__file__).resolve().parents[2] / "docs" / "api"
LITERALS = (bool, int, float, str, tuple, type(None))


def is_method(member):
    """Whether an attribute of a class is a method: a function of Python or Cython, a static or a class method."""
    return inspect.isroutine(member) or isinstance(member, (staticmethod, classmethod))


def members_of(cls):
    """Names of a class's public attributes that this package defines."""
    own = [base for base in cls.__mro__ if base.__module__.startswith("int8blas.")]
    names = {name for base in own for name in vars(base) if not name.startswith("_")}
    return sorted(names | ({"__call__"} if any("__call__" in vars(base) for base in own) else set()))


def public_callables():
    """("name" or "Class.method", object) for everything callable."""
    for place in (int8blas, calibration):
        for name in place.__all__:
            value = getattr(place, name)
            if not callable(value):
                continue
            yield name, value
            if isinstance(value, type):
                for member in members_of(value):
                    if is_method(inspect.getattr_static(value, member)):
                        yield f"{name}.{member}", getattr(value, member)


CALLABLES = dict(public_callables())
CLASSES = {name: value for name, value in CALLABLES.items() if isinstance(value, type)}


def parameters_of(name):
    """The parameters for a caller, from `inspect`."""
    parameters = list(inspect.signature(CALLABLES[name]).parameters.values())
    owner, _, member = name.partition(".")
    if member and not isinstance(inspect.getattr_static(CLASSES[owner], member), (staticmethod, classmethod)):
        del parameters[0]
    return parameters


# ------------------------------------------------------------------------------------------------------- stubs -------


def stub_of(module):
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".pyi")


def definitions(module):
    """The statements of a module's stub, or of the module itself if it is written in Python."""
    stub = stub_of(module)
    return ast.parse((stub if stub.exists() else stub.with_suffix(".py")).read_text(encoding="utf-8")).body


def defined(statements, name):
    return [s for s in statements if isinstance(s, (ast.FunctionDef, ast.ClassDef)) and s.name == name]


def overloads_of(name):
    """The definitions of a function, a method or a class's constructor in a stub, without `self`."""
    owner, _, member = name.partition(".")
    value = CALLABLES[owner]
    found = defined(definitions(value.__module__), owner)
    bound = False
    if isinstance(value, type):
        for base in value.__mro__:
            (cls,) = defined(definitions(base.__module__), base.__name__)
            found = defined(cls.body, member or "__init__")
            if found:
                break
        bound = not any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in found[0].decorator_list)
    return [list(declared(function))[bound:] for function in found]


def declared(function):
    """(name, kind, default) for each parameter of a definition."""
    arguments = function.args
    plain = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    for argument, default in zip(plain, defaults, strict=True):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        yield argument.arg, inspect.Parameter.POSITIONAL_ONLY if argument in arguments.posonlyargs else kind, default
    if arguments.vararg:
        yield arguments.vararg.arg, inspect.Parameter.VAR_POSITIONAL, None
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield argument.arg, inspect.Parameter.KEYWORD_ONLY, default
    if arguments.kwarg:
        yield arguments.kwarg.arg, inspect.Parameter.VAR_KEYWORD, None


def is_default(node, value):
    """Whether a default in a stub is the function's; "..." stands for anything but a literal."""
    if isinstance(node, ast.Constant) and node.value is ...:
        return not isinstance(value, LITERALS)
    said = ast.literal_eval(node)
    return said == value and isinstance(said, bool) == isinstance(value, bool)


STUBBED = [
    name
    for name in CALLABLES
    if stub_of(CALLABLES[name.partition(".")[0]].__module__).exists()
    and not hasattr(CALLABLES[name], "__dataclass_fields__")
]


@pytest.mark.parametrize("name", STUBBED)
def test_a_stub_has_the_signature(name):
    parameters = {parameter.name: parameter for parameter in parameters_of(name)}
    optional = {p.name for p in parameters.values() if p.default is not p.empty}
    left_out = set()
    for overload in overloads_of(name):
        names = [parameter for parameter, _, _ in overload]
        assert names == [parameter for parameter in parameters if parameter in names]
        left_out |= parameters.keys() - names
        for parameter, kind, default in overload:
            assert kind == parameters[parameter].kind
            if default is not None:
                left_out.add(parameter)
                assert is_default(default, parameters[parameter].default), parameter
    assert left_out == optional


@pytest.mark.parametrize("name", CLASSES)
def test_a_stub_has_the_attributes(name):
    cls = CLASSES[name]
    own = [base for base in cls.__mro__ if base.__module__.startswith("int8blas.")]
    body = itertools.chain.from_iterable(defined(definitions(b.__module__), b.__name__)[0].body for b in own)
    stubbed = {s.target.id if isinstance(s, ast.AnnAssign) else getattr(s, "name", "_") for s in body}
    public = {n for n in stubbed if not n.startswith("_") or n == "__call__"}
    assert public == {*members_of(cls), *getattr(cls, "__dataclass_fields__", ())}


# -------------------------------------------------------------------------------------------------- docstrings -------


def section_of(docstring, title):
    """The entries of a section of a docstring, (names, type, text); None if there is no such section."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n--+$|\Z)", docstring, re.MULTILINE | re.DOTALL)
    if not found:
        return None
    entries = re.findall(r"^(\S.*)\n((?:(?:    .*)?\n?)*)", found[1], re.MULTILINE)
    heads = [(head.partition(" : "), " ".join(text.split())) for head, text in entries]
    return [(names.split(", "), kind, text) for (names, _, kind), text in heads]


def same_as(docstring):
    """The function to which a docstring without parameters refers for them."""
    (name,) = re.findall(r"Parameters.*? are\s+as\s+for\s+:func:`(\w+)`", docstring)
    return name


@pytest.mark.parametrize("name", CALLABLES)
def test_a_docstring_has_the_parameters(name):
    parameters = [p for p in parameters_of(name) if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    docstring = inspect.getdoc(CALLABLES[name])
    section = section_of(docstring, "Parameters")
    if section is None and hasattr(CALLABLES[name], "__dataclass_fields__"):  # functions return these classes
        section = section_of(docstring, "Attributes")
        assert {p.name for p in parameters} <= {n for names, _, _ in section for n in names}
    elif section is None and parameters:
        assert [p.replace(annotation=p.empty) for p in parameters] == parameters_of(same_as(docstring))
    else:
        assert [n for names, _, _ in section or [] for n in names] == [p.name for p in parameters]
        assert "Parameters\n" in docstring or not parameters


@pytest.mark.parametrize("name", [n for n in CALLABLES if section_of(inspect.getdoc(CALLABLES[n]), "Parameters")])
def test_a_docstring_has_the_defaults(name):
    parameters = {p.name: p for p in parameters_of(name)}
    for names, kind, text in section_of(inspect.getdoc(CALLABLES[name]), "Parameters"):
        for default in [parameters[n].default for n in names]:
            if kind:
                assert ("optional" in kind) == (default is not inspect.Parameter.empty), names
            if isinstance(default, LITERALS) and default is not None:
                stated = re.findall(r"(-?[\d.]+\d|True|False|'\w+'|\"\w+\") by default", text)
                assert [ast.literal_eval(said) for said in stated] in ([], [default]), names
                choices = re.findall(r"'[^']*'", kind) if kind.startswith("{") else []
                assert not choices or ast.literal_eval(choices[0]) == default, names


@pytest.mark.parametrize("name", CLASSES)
def test_attributes_are_documented(name):
    cls = CLASSES[name]
    sections = [section_of(inspect.getdoc(cls), title) or [] for title in ("Parameters", "Attributes")]
    listed = {n for section in sections for names, _, _ in section for n in names}
    for member in {*members_of(cls), *getattr(cls, "__dataclass_fields__", ())} - listed:
        assert inspect.getdoc(getattr(cls, member)), member


def test_signatures_written_in_the_reference_are_those_of_the_classes():
    pages = "".join(path.read_text(encoding="utf-8") for path in sorted(API.glob("*.rst")))
    written = re.findall(r"^\.\. auto(?:function|class):: (\w+)(\(.*\))$", pages, re.MULTILINE)
    for name, signature in written:
        function = eval(f"lambda {signature[1:-1]}: None", {"np": np})
        fields = getattr(CALLABLES[name], "__dataclass_fields__", {})
        for said, parameter in zip(inspect.signature(function).parameters.values(), parameters_of(name), strict=True):
            default = parameter.default
            if repr(default) == "<factory>":
                default = fields[parameter.name].default_factory()
            assert said == parameter.replace(default=default, annotation=parameter.empty)


def test_the_reference_has_all_methods():
    pages = "".join(path.read_text(encoding="utf-8") for path in sorted(API.glob("*.rst")))
    for name, cls in CLASSES.items():
        (options,) = re.findall(rf"^\.\. autoclass:: {name}\b.*\n((?:   :.*\n)*)", pages, re.MULTILINE)
        own = [n for n in members_of(cls) if n in vars(cls)]
        assert ("__call__" in options) == ("__call__" in members_of(cls)), name
        documented = [n for n in own if is_method(inspect.getattr_static(cls, n)) and n != "__call__"]
        assert not documented or ":members:" in options, name


# ---------------------------------------------------------------------------------------------- compiled classes -----


WEIGHTS = np.ones((2, 3), np.int8)
LAYER = int8blas.InnerProduct(WEIGHTS, src_dtype=np.uint8, dst_dtype=np.int32)


def test_a_layer_has_the_signature_of_its_call():
    assert str(inspect.signature(LAYER)) == "(src, *, scales=None, zero_points=None, operands=None, out=None)"
    assert str(inspect.signature(type(LAYER).__call__)).startswith("(self, /, src, *,")


def test_help_has_the_signatures():
    text = pydoc.render_doc(int8blas.GRU, renderer=pydoc.plaintext)
    assert "class GRU" in text
    # Python 3.13 prints one parameter per line if they do not all fit in one line.
    text = re.sub(r"[\s|]", "", text)
    assert "GRU(weights_layer,weights_iter,bias=None,*,linear_before_reset=False," in text
    assert "__call__(self,/,src,h0=None,*,lengths=None,out=None,attention=None)" in text


def test_a_subclass_has_the_signature_of_its_own_constructor():
    class Identity(int8blas.InnerProduct):
        def __init__(self, size, *, dtype="int32"):
            super().__init__(np.eye(size, dtype=np.int8), src_dtype=np.uint8, dst_dtype=dtype)

    class Renamed(int8blas.Convolution):
        pass

    assert str(inspect.signature(Identity)) == "(size, *, dtype='int32')"
    assert inspect.signature(Identity(2)) == inspect.signature(LAYER)
    assert inspect.signature(Renamed) == inspect.signature(int8blas.Convolution)


def test_a_packed_matrix_is_not_called():
    packed = int8blas.pack_b(WEIGHTS)
    assert not hasattr(packed, "__signature__")
    with pytest.raises(TypeError, match="not a callable"):
        inspect.signature(packed)
    for arguments in ((), (WEIGHTS,)):
        with pytest.raises(TypeError, match=r"PackedB is made by pack_b\(b\) or PackedB.load\(path\)"):
            int8blas.PackedB(*arguments)


@pytest.mark.parametrize("name", CALLABLES)
def test_a_signature_is_short(name):
    """Annotations are printed as written, without expanded aliases or private modules."""
    signature = inspect.signature(CALLABLES[name])
    assert "numpy._typing" not in str(signature)
    assert "int8blas._" not in str(signature)
    assert "collections.abc" not in str(signature)
    for parameter in signature.parameters.values():
        assert len(str(parameter)) < 60


@pytest.mark.parametrize("call", [LAYER, int8blas.InnerProduct, int8blas.Deconvolution, int8blas.LSTM, int8blas.matmul])
def test_an_unknown_argument_is_named(call):
    required = {p.name: WEIGHTS for p in inspect.signature(call).parameters.values() if p.default is p.empty}
    with pytest.raises(TypeError, match="destination"):
        call(**required, destination=None)
