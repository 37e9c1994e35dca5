"""How an operator is described, and how it is found: by domain, name and version.

A row has the operator's name, a function, and the versions of its domain's operators that the function is right for::

    Operator("Softmax", softmax_of_rows, 1, 12),
    Operator("Softmax", softmax, 13),

The function takes the inputs of a node in their order, None for those that are left out, and its attributes by their
names in ONNX; its defaults are those of ONNX. An input that older versions have as an attribute is one parameter, as it
has the same name. The function returns an array, or a tuple of them.

`traits` say what rewriting may do with the operator: a node takes part in every fusion that its row's traits allow.

`prepared` is for functions that have work to do once for a node: they are called at load with a :class:`Site` and the
attributes, and return the function of the inputs. `control` is for nodes with subgraphs, which are plans then, see
:mod:`control`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from int8blas.onnx.graph import Array, Node
from int8blas.onnx.packed import Packed

# Of operators that take the place of several nodes, and that no file has.
DOMAIN = "int8blas"
# The newest version of each domain's operators that the table is for.
NEWEST = {"": 28, "com.microsoft": 1}
# The remedy for a file whose nodes train.
INFERENCE = "export the model for inference, from PyTorch after model.eval()"
# Reading a signature takes longer than all else that is done for a node.
signature_of = functools.cache(inspect.signature)

Call = Callable[..., Any]


@dataclass(frozen=True)
class Traits:
    """What rewriting needs to know of an operator.

    Parameters
    ----------
    elementwise : bool
        Whether an element of the result depends on the inputs' elements at its place alone.
    zero_points : mapping of int to int
        Where quantized inputs are, and where the inputs are that are their zero points.
    typed_by : int, optional
        The input whose type the results have.
    typed_results : int
        How many results have that type: the first ones.
    moves : bool
        Whether the result has elements of the first input, and no other ones.
    view : bool
        Whether the function of the row moves no element in memory, as far as NumPy's strides allow it.
    of_shape : bool
        Whether the results depend on the shapes of the inputs alone.
    sized_by : sequence of int, optional
        The inputs whose values determine the shapes of the results, beside the shapes of all inputs. None if other
        values do.
    post_op : callable, optional
        Makes the post-ops of a node from its attributes.
    algorithm : str
        The binary post-op of a node of two operands.
    """

    elementwise: bool = False
    zero_points: Mapping[int, int] = field(default_factory=dict, hash=False)
    typed_by: int | None = None
    typed_results: int = 1 << 30
    moves: bool = False
    view: bool = False
    of_shape: bool = False
    sized_by: Sequence[int] | None = None
    post_op: Callable[..., list[Any]] | None = None
    algorithm: str = ""


# Of an operator of which nothing is known; whose results' shapes follow from its inputs' shapes; and have the type of
# the first input besides; and are made element by element.
UNKNOWN = Traits()
SHAPED = Traits(sized_by=())
SAME_TYPE = Traits(typed_by=0, sized_by=())
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
    # Whether the result is the same for the same inputs, so that it can be computed at load.
    pure: bool = True
    traits: Traits = UNKNOWN

    @property
    def kind(self) -> str:
        """The operator with its domain, as nodes have it."""
        return f"{self.domain}.{self.name}" if self.domain else self.name


@dataclass(frozen=True)
class Site:
    """Where a prepared operator is: its node, the node's constant inputs by place, and the weights that nodes share."""

    node: Node
    constants: Mapping[int, Array] = field(default_factory=dict)
    opset: int = NEWEST[""]
    packed: Packed = field(default_factory=Packed)


class Table:
    """All operators."""

    def __init__(self, *families: Iterable[Operator]) -> None:
        self.rows: dict[tuple[str, str], list[Operator]] = {}
        for family in families:
            for row in family:
                self.rows.setdefault((row.domain, row.name), []).append(row)

        self.traits = {row.kind: row.traits for rows in self.rows.values() for row in rows}

    def traits_of(self, node: Node) -> Traits:
        """Return the traits of a node's operator."""
        return self.traits.get(node.kind, UNKNOWN)

    def find(self, node: Node, opsets: Mapping[str, int]) -> Operator | None:
        """The row for a node, or None."""
        version = opsets.get(node.domain, 0)
        for row in self.rows.get((node.domain, node.operator), ()):
            if row.since <= version <= row.until:
                return row
        return None


def attributes_of(function: Callable[..., Any]) -> frozenset[str]:
    """The names of a function's parameters, which are those of attributes among them."""
    try:
        return frozenset(signature_of(function).parameters)
    except ValueError:  # a ufunc
        return frozenset()


def bind(operator: Operator, site: Site) -> Call:
    """The function of a node's inputs.

    Raises
    ------
    ValueError
        If the node has an attribute that the operator does not have.
    """
    node, known = site.node, attributes_of(operator.function)
    attributes = {name: value for name, value in node.attributes.items() if name not in IGNORED}
    unknown = sorted(attributes.keys() - known) if "attributes" not in known else []
    if unknown:
        raise ValueError(f"{node} must have attributes that {node.kind} has in this version, got {', '.join(unknown)}")
    if operator.prepared:
        call: Call = operator.function(site, **attributes)
        return call
    if operator.control:
        return functools.partial(operator.function, len(node.inputs), **attributes)
    if "outputs" in known:
        attributes["outputs"] = len(node.outputs)
    return functools.partial(operator.function, **attributes) if attributes else operator.function


# Attributes of old versions that say nothing about the result.
IGNORED = {"consumed_inputs"}
