"""Describe operators, and find them by domain, name and version.

A row has the operator's name, a function, and the versions for which the function is right::

    Operator("Softmax", softmax_of_rows, 1, 12),
    Operator("Softmax", softmax, 13),

The function takes the inputs of a node in their order, with None for absent inputs, and the attributes by their ONNX
names and with ONNX's defaults. If older versions pass an input as an attribute, the input and the attribute have the
same name, and one parameter takes both. The function returns an array or a tuple of arrays.

`traits` tell the rewriting passes which fusions the operator allows.

`prepared` marks functions that do work once for a node: :func:`bind` calls them at load with a :class:`Site` and the
attributes, and they return the function of the inputs. :func:`by_layout` makes such functions from functions that do
work once for each layout of the inputs. `control` marks nodes with subgraphs, which become plans (see :mod:`control`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np

from int8blas.core.calls import ByLayout
from int8blas.onnx.graph import Array, Node
from int8blas.onnx.packed import Packed
from int8blas.onnx.types import cached, is_short, single, wide

# The domain of operators that replace several nodes. Files do not have operators of this domain.
DOMAIN = "int8blas"
# The domain of onnxruntime's operators.
MICROSOFT = "com.microsoft"
# The domain of trees and other methods of classic machine learning.
LEARNING = "ai.onnx.ml"
# The newest version of each domain's operators that the table supports.
NEWEST = {"": 28, MICROSOFT: 1, LEARNING: 5}
# The advice in error messages about files that were exported for training.
INFERENCE = "export the model for inference, from PyTorch after model.eval()"
# Reading a signature takes longer than all other work for a node.
signature_of = cached(inspect.signature)
# Functions that pass attributes to other functions.
PASSES: dict[Callable[..., Any], Callable[..., Any]] = {}
# Parameters that are no attributes. The planner passes them.
GIVEN = {"outputs"}
# The names that error messages give to the types of attributes.
NAMES = {int: "an integer", float: "a number", str: "a string"}

Call = Callable[..., Any]


class Cache(np.ndarray):
    """A feed whose array a node may update in place, because the caller also gives this array for the updated value."""


class Factors(NamedTuple):
    """The positions of the two factors of a product of 8-bit integers, and of the zero point of A. `pairs` is the kind
    of factors: "matrices", the "windows" of images, or the "steps" of a recurrent layer. If `dynamic` is true, the node
    quantizes A itself."""

    a: int
    b: int
    pairs: str = "matrices"
    zero: int | None = None
    dynamic: bool = False


@dataclass(frozen=True)
class Traits:
    """The properties of an operator that rewriting uses.

    Parameters
    ----------
    elementwise : bool
        Whether an element of the result depends only on the inputs' elements at its position.
    zero_points : mapping of int to int
        The positions of quantized inputs, and of their zero points.
    typed_by : int, optional
        The position of the input that determines the results' type.
    typed_results : int
        The number of results, from the first, that have this type.
    moves : bool
        Whether the result consists of elements of the first input.
    chooses : callable, optional
        A function of a node's attributes, which returns whether the results consist of elements of the first input,
        chosen by their positions or by their order.
    view : bool
        Whether the function returns a view without copies where NumPy's strides allow it.
    reshapes : bool
        Whether the function only changes the shape.
    filled_by : int, optional
        The position of the input that fills the rest of the result: all elements that do not come from the first input.
    of_shape : bool
        Whether the results depend on the shapes of the inputs alone.
    sized_by : sequence of int, optional
        The inputs whose values, with the shapes of all inputs, determine the results' shapes. None if they are unknown.
    post_op : callable, optional
        A function of a node's attributes that returns the node's post-ops.
    algorithm : str
        The name of the binary post-op of a node with two operands.
    factors : Factors, optional
        The factors of a product of 8-bit integers.
    heavy : bool
        Whether a node usually takes longer than the call of an onnxruntime session, 10 to 20 us.
    updates : mapping of int to int
        For each result that is an updated input, the positions of the result and of the input. The function may update
        an input in place if it is a :class:`Cache`.
    """

    elementwise: bool = False
    zero_points: Mapping[int, int] = field(default_factory=dict, hash=False)
    typed_by: int | None = None
    typed_results: int = 1 << 30
    moves: bool = False
    chooses: Callable[..., bool] | None = None
    view: bool = False
    reshapes: bool = False
    filled_by: int | None = None
    of_shape: bool = False
    sized_by: Sequence[int] | None = None
    post_op: Callable[..., list[Any]] | None = None
    algorithm: str = ""
    factors: Factors | None = None
    heavy: bool = False
    updates: Mapping[int, int] = field(default_factory=dict, hash=False)


UNKNOWN = Traits()
# The traits of an operator whose inputs' shapes determine the results' shapes.
SHAPED = Traits(sized_by=())
# The traits of an operator whose results have the type of the first input, and shapes known from the inputs' shapes.
SAME_TYPE = Traits(typed_by=0, sized_by=())
# The traits of an operator that multiplies matrices or draws samples.
HEAVY = replace(SAME_TYPE, heavy=True)
# The traits of an element-wise operator.
ELEMENTWISE = Traits(elementwise=True, typed_by=0, sized_by=())


class Operator(NamedTuple):
    """A row of the table."""

    name: str
    function: Callable[..., Any]
    since: int = 1
    until: int = 1 << 30
    domain: str = ""
    prepared: bool = False
    control: bool = False
    # Whether equal inputs give equal results, so that constants can be folded.
    pure: bool = True
    traits: Traits = UNKNOWN

    @property
    def kind(self) -> str:
        """The operator with its domain, as in Node.kind."""
        return f"{self.domain}.{self.name}" if self.domain else self.name


@dataclass(eq=False)
class Site:
    """The context of a prepared operator: its node, the node's constant inputs by position, and the shared packed
    weights. `later` has the functions to call at load if a plan has the node's call."""

    node: Node
    constants: Mapping[int, Array] = field(default_factory=dict)
    opset: int = NEWEST[""]
    packed: Packed = field(default_factory=Packed)
    later: list[Callable[[], None]] = field(default_factory=list)


class Table:
    """All operators."""

    def __init__(self, rows: Iterable[Operator]) -> None:
        self.rows: dict[tuple[str, str], list[Operator]] = {}
        self.traits: dict[str, Traits] = {}
        for row in rows:
            self.rows.setdefault((row.domain, row.name), []).append(row)
            self.traits[row.kind] = row.traits

    def traits_of(self, node: Node) -> Traits:
        """Return the traits of a node's operator."""
        return self.traits.get(node.kind, UNKNOWN)

    def find(self, node: Node, opsets: Mapping[str, int]) -> Operator | None:
        """Return the row for a node, or None."""
        version = opsets.get(node.domain, 0)
        for row in self.rows.get((node.domain, node.operator), ()):
            if row.since <= version <= row.until:
                return row
        return None


def passes_to(function: Callable[..., Any]) -> Callable[[Call], Call]:
    """Declare that a function passes the attributes that it does not name to another function."""

    def declare(passing: Call) -> Call:
        PASSES[passing] = function
        return passing

    return declare


def by_layout(count: int = 0, *, rounds: bool = True) -> Callable[[Callable[..., Call]], Callable[..., Call]]:
    """Declare that a function prepares an operator. The function takes the first input, `count` further inputs that
    seldom change, and the attributes. The declared function returns a function of all inputs, for the given layout of
    the first input and the given values of the further inputs. With `rounds`, the returned function computes 16-bit
    floats in float32."""

    def declare(prepare: Callable[..., Call]) -> Callable[..., Call]:
        @passes_to(prepare)
        def operator(site: Site, **attributes: Any) -> Call:
            given = {"outputs": len(site.node.outputs)} if "outputs" in attributes_of(prepare) else {}
            of_layout = functools.partial(prepare, **attributes, **given)

            def prepared(*inputs: Any) -> Call:
                return wide(of_layout(*map(single, inputs))) if rounds and is_short(inputs[0]) else of_layout(*inputs)

            return ByLayout(prepared, tuple(i in site.constants for i in range(1, count + 1)))

        return operator

    return declare


@cached
def attributes_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return a function's parameters by name, attributes included."""
    if isinstance(function, np.ufunc):  # its keywords are NumPy's
        return {}
    own = {name: each for name, each in signature_of(function).parameters.items() if each.kind != each.VAR_KEYWORD}
    return {**(attributes_of(PASSES[function]) if function in PASSES else {}), **own}


@cached
def choices_of(function: Callable[..., Any], name: str) -> tuple[Any, ...]:
    """Return the values of a parameter whose annotation is a Literal; none for other parameters."""
    while name not in signature_of(function).parameters:
        function = PASSES[function]
    annotation = signature_of(function).parameters[name].annotation
    while isinstance(function, functools.partial):
        function = function.func
    hint = eval(annotation, inspect.unwrap(function).__globals__)
    return get_args(hint) if get_origin(hint) is Literal else ()


@cached
def required_by(function: Callable[..., Any]) -> list[str]:
    """Return the attributes that a function needs."""
    known = attributes_of(function).items()
    needed = {name for name, each in known if each.kind == each.KEYWORD_ONLY and each.default is each.empty}
    return sorted(needed - GIVEN)


def check_attributes(operator: Operator, node: Node) -> None:
    """Check a node's attributes. :mod:`reader` has checked the attributes of ONNX's own operators by their schemas,
    which do not list the allowed strings."""
    known = attributes_of(operator.function)
    unknown = sorted(node.attributes.keys() - known.keys()) if operator.domain == MICROSOFT else []
    if unknown:
        raise ValueError(f"{node} must have attributes that {node.kind} has in this version, got {', '.join(unknown)}")
    for name in required_by(operator.function):
        if name not in node.attributes:
            raise ValueError(f"{node} must have attribute {name!r}, got none")
    for name, value in node.attributes.items():
        if name not in known:
            continue
        choices = choices_of(operator.function, name) if isinstance(value, str) else ()
        if choices and value not in choices:
            raise ValueError(f"attribute {name!r} of {node} must be one of {', '.join(choices)}, got {value!r}")
        kind = type(known[name].default)
        if kind in NAMES and not isinstance(value, (int, float) if kind is float else kind):
            raise ValueError(f"attribute {name!r} of {node} must be {NAMES[kind]}, got {value!r}")


def bind(operator: Operator, site: Site) -> Call:
    """Bind a node's attributes to its operator, and return the function of its inputs."""
    node, attributes = site.node, site.node.attributes
    if operator.prepared:
        call: Call = operator.function(site, **attributes)
        return call
    if operator.control:
        return functools.partial(operator.function, len(node.inputs), **attributes)
    if "outputs" in attributes_of(operator.function):
        attributes = {**attributes, "outputs": len(node.outputs)}
    return functools.partial(operator.function, **attributes) if attributes else operator.function
