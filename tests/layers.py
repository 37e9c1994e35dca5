"""Random quantized layers for the tests: their arguments, their results, and the results of the oracle."""

from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import reference_quantized
from arrays import random_values

import int8blas
from int8blas import Attributes, Sum

SRC_DTYPES = (np.uint8, np.int8)
WEIGHTS_DTYPES = (np.int8, np.uint8)
DST_DTYPES = (np.uint8, np.int8, np.int32, np.float32, np.float16)

# (M, N, K) on, under and over the edges of tiles (14 x 48), of panels and chunks (16), and of groups (4) of K.
LAYER_SHAPES = (
    (1, 1, 1), (1, 16, 64), (1, 130, 130), (2, 49, 17), (3, 3, 3), (7, 48, 9), (8, 15, 65), (9, 17, 16), (15, 7, 130),
    (16, 47, 8), (17, 65, 49), (48, 1, 64), (65, 16, 15), (130, 8, 48),
)  # fmt: skip

# A few shapes for tests of many combinations; the last but one uses dot products.
FEW_LAYERS = ((1, 50, 7), (9, 33, 20), (20, 5, 70), (31, 49, 33))


def name_of(dtype):
    """The name of a dtype in test ids."""
    return np.dtype(dtype).name


@dataclass
class Problem:
    """An inner product with all its arguments; the classes of other layers derive from this one."""

    primitive = "InnerProduct"
    oracle = staticmethod(reference_quantized.inner_product)

    src: np.ndarray
    weights: np.ndarray
    bias: np.ndarray | None
    dst_dtype: type
    scales: dict = field(default_factory=dict)
    zero_points: dict = field(default_factory=dict)
    ops: tuple = ()
    output_scales: object = None
    operands: tuple = ()
    old: np.ndarray | None = None
    numerics: str = "exact"
    geometry: dict = field(default_factory=dict)

    def but(self, **changes):
        """Return the problem with some other values."""
        return replace(self, **changes)

    def masks(self, values):
        """The mask of each value: 0 for a single value, the mask of rows or channels for a vector."""
        return {tensor: (2 if tensor == "dst" else 1) if np.ndim(value) else 0 for tensor, value in values.items()}

    def layer(self, at_creation=True):
        """The layer, with values for scales and zero points, or only with their masks."""
        output_scales = self.output_scales
        if output_scales is not None:
            output_scales = (2 if np.ndim(output_scales) else 0, output_scales)
        masks = {"scales": self.masks(self.scales), "zero_points": self.masks(self.zero_points)}
        attributes = Attributes(**masks, post_ops=self.ops, output_scales=output_scales)
        values = {"scales": self.scales, "zero_points": self.zero_points} if at_creation else {}
        return getattr(int8blas, self.primitive)(
            self.weights,
            self.bias,
            src_dtype=self.src.dtype,
            dst_dtype=self.dst_dtype,
            attributes=attributes,
            numerics=self.numerics,
            **self.geometry,
            **values,
        )

    def result(self, at_creation=True, out=None):
        """The result of the layer, in a copy of the old destination if there is one."""
        return self.run(self.layer(at_creation), at_creation, out)

    def run(self, layer, at_creation=True, out=None):
        """The result of `layer`."""
        keywords = {} if at_creation else {"scales": self.scales, "zero_points": self.zero_points}
        if self.operands:
            keywords["operands"] = self.operands
        if out is None and self.old is not None:
            out = self.old.copy()
        return layer(self.src, out=out, **keywords)

    def dst_shape(self):
        """The shape of the result."""
        return len(self.src), len(self.weights)

    def expected(self):
        """The expected result."""
        return self.oracle(
            self.src,
            self.weights,
            self.bias,
            dst_dtype=self.dst_dtype,
            scales=self.scales,
            zero_points=self.zero_points,
            ops=self.ops,
            output_scales=self.output_scales,
            operands=self.operands,
            old=self.old,
            numerics=self.numerics,
            **self.geometry,
        )

    def check(self, at_creation=True, **facts):
        """Check that the result is the expected one, bit for bit."""
        facts = {"src": self.src.shape, "weights": self.weights.shape} | self.geometry | facts
        assert_same_bits(self.result(at_creation), self.expected(), **facts)


class GroupedProblem(Problem):
    """An inner product whose scales of weights are (groups, oc)."""

    def masks(self, values):
        masks = super().masks(values)
        return masks | {tensor: 3 for tensor in ("src", "weights") if np.ndim(values.get(tensor)) == 2}

    def expected(self):
        return reference_quantized.inner_product_by_groups(
            self.src, self.weights, self.bias, dst_dtype=self.dst_dtype, scales=self.scales,
            zero_points=self.zero_points, ops=self.ops, operands=self.operands, old=self.old, numerics=self.numerics,
        )  # fmt: skip


def random_bias(rng, kind, n):
    """A bias of type "f32" or "s32", or None."""
    if kind == "f32":
        return rng.normal(0, 10, n).astype(np.float32)
    return rng.integers(-(10**5), 10**5, n, np.int32) if kind == "s32" else None


def random_old(rng, dtype, shape):
    """The old values of a destination."""
    return random_values(rng, dtype, shape) if np.dtype(dtype).kind != "f" else rng.normal(0, 50, shape).astype(dtype)


def random_quantization(rng, lengths, dtypes, depth, scales, zero_points, vectors):
    """Scales and zero points with which a destination is neither all zeros nor all saturated.

    `scales` and `zero_points` name the tensors that have a scale or a zero point. `vectors` names the tensors among
    them with a value for each row or channel, and `lengths` has the numbers of these values. A sum has `depth`
    products.
    """

    def values(tensors, draw):
        return {tensor: draw(tensor, lengths[tensor] if tensor in vectors else ()) for tensor in tensors}

    def scale(tensor, shape):
        middle = {"src": 0.02, "weights": 0.01, "dst": 0.02 * np.sqrt(depth + 1)}[tensor]
        return (rng.uniform(0.5, 2, shape) * middle).astype(np.float32)

    def zero_point(tensor, shape):
        dtype = dtypes[tensor]
        low, high = (-1000, 1000) if dtype == np.int32 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return rng.integers(low, high, shape, endpoint=True)

    integers = [tensor for tensor in zero_points if np.dtype(dtypes[tensor]).kind != "f"]
    return values(scales, scale), values(integers, zero_point)


def random_problem(
    rng,
    m,
    n,
    k,
    src_dtype=np.uint8,
    weights_dtype=np.int8,
    dst_dtype=np.int8,
    bias="f32",
    scales=("weights", "dst"),
    zero_points=("src", "dst"),
    vectors=("weights",),
    kind="full",
    ops=(),
    **more,
):
    """An inner product; for `scales`, `zero_points` and `vectors` see :func:`random_quantization`."""
    src, weights = random_values(rng, src_dtype, (m, k), kind), random_values(rng, weights_dtype, (n, k), kind)
    lengths = {"src": m, "weights": n, "dst": n}
    dtypes = {"src": src_dtype, "weights": weights_dtype, "dst": dst_dtype}
    return Problem(
        src,
        weights,
        random_bias(rng, bias, n),
        dst_dtype,
        *random_quantization(rng, lengths, dtypes, k, scales, zero_points, vectors),
        ops=tuple(ops),
        old=random_old(rng, dst_dtype, (m, n)) if any(isinstance(op, Sum) for op in ops) else None,
        **more,
    )


def sign_pairs():
    """Every combination of types of source and weights."""
    return product(SRC_DTYPES, WEIGHTS_DTYPES)


def bits(x):
    """Floating-point numbers as their bits, with all NaN replaced by one NaN; integers unchanged."""
    x = np.asarray(x)
    if x.dtype.kind != "f":
        return x
    return np.where(np.isnan(x), x.dtype.type(np.nan), x).view({2: np.uint16, 4: np.uint32}[x.itemsize])


def assert_same_bits(result, expected, **problem):
    """Check that type, shape and all bits are equal; any NaN equals any other."""
    assert np.asarray(result).dtype == expected.dtype, f"{problem}: dtype {np.asarray(result).dtype}"
    assert np.shape(result) == np.shape(expected), f"{problem}: shape {np.shape(result)}, not {np.shape(expected)}"
    different = bits(result) != bits(expected)
    if different.any():
        first = tuple(int(i) for i in np.argwhere(different)[0])
        raise AssertionError(
            f"{problem}: {np.count_nonzero(different)} of {expected.size} elements differ, the first at {first}: "
            f"{np.asarray(result)[first]!r}, not {expected[first]!r}"
        )
