"""dot, inner, vecdot, tensordot and einsum give NumPy's shapes, with exact values."""

import itertools
import warnings

import numpy as np
import pytest
from arrays import random_values

import int8blas

RNG = np.random.default_rng(11)


def array(*shape, dtype=np.int64):
    return RNG.integers(0, 100, shape).astype(dtype)


def same(result, expected):
    assert type(result) is type(expected)
    np.testing.assert_array_equal(result, expected, strict=True)


SHAPES = [(), (4,), (3, 4), (4, 3), (2, 3, 4), (2, 4, 3), (1, 4, 4), (4, 0), (0, 4)]


def pairs(function):
    """The pairs of arrays that NumPy's function takes, with its results."""
    for first, second in itertools.product(SHAPES, repeat=2):
        a, b = array(*first), array(*second)
        try:
            yield a, b, function(a, b)
        except ValueError:
            yield a, b, None


@pytest.mark.parametrize("name", ["dot", "inner", "vecdot"])
def test_shapes_are_numpys(name):
    ours, numpys = getattr(int8blas, name), getattr(np, name)
    taken = 0
    for a, b, expected in pairs(numpys):
        if expected is None:
            with pytest.raises(ValueError, match=r"^(a|b|axis) must "):
                ours(a, b)
        else:
            same(ours(a, b), expected)
            taken += 1
    assert taken > 10


def test_vecdot_along_another_axis():
    a, b = array(5, 2, 3), array(5, 1, 3)
    same(int8blas.vecdot(a, b, axis=0), np.vecdot(a, b, axis=0))
    same(int8blas.vecdot(a, a, axis=-2), np.vecdot(a, a, axis=-2))
    with pytest.raises(ValueError, match=r"^axis must be an axis of a, which has 3 dimensions, got 3$"):
        int8blas.vecdot(a, b, axis=3)
    with pytest.raises(TypeError, match=r"^axis must be "):
        int8blas.vecdot(a, b, axis=0.0)
    with pytest.raises(ValueError, match=r"^b must have axes that broadcast with a's \(5, 2\), got \(5, 4\)$"):
        int8blas.vecdot(a, array(5, 4, 3))


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
@pytest.mark.parametrize(("first", "second"), [((2, 1, 3), (1, 5, 2)), ((3,), (2, 3)), ((1,), (4, 1)), ((2, 3), (3,))])
def test_leading_dimensions_are_broadcast(first, second, dtype):
    a, b = array(*first, 3, 4, dtype=dtype), array(*second, 4, 2, dtype=dtype)
    if first == (2, 1, 3):
        with pytest.raises(ValueError, match=r"^b must have leading dimensions that broadcast with a's \(2, 1, 3\)"):
            int8blas.matmul(a, b)
    else:
        np.testing.assert_array_equal(int8blas.matmul(a, b), a.astype(np.int64) @ b.astype(np.int64))


def test_the_same_labels_with_other_shapes():
    for shapes in (((3, 4), (4, 5)), ((4, 3), (3, 5)), ((3, 4), (5, 2)), ((1, 1), (1, 1)), ((3, 4), (4, 5))):
        a, b = array(*shapes[0]), array(*shapes[1])
        if a.shape[1] == b.shape[0]:
            same(int8blas.einsum("ij,jk->ki", a, b), np.einsum("ij,jk->ki", a, b))
        else:
            with pytest.raises(ValueError, match=r"^b must have 4 elements along 'j', as a has, got 5$"):
                int8blas.einsum("ij,jk->ki", a, b)


@pytest.mark.parametrize(
    "axes",
    [
        0,
        1,
        2,
        ([1], [1]),
        ([1, 2], [1, 2]),
        ([2, 1], [2, 1]),
        ((0, 2), (0, 2)),
        (-1, -1),
        ([], []),
        (range(1, 3), np.array([1, 2])),
        np.array(1),
    ],
)
def test_tensordot(axes):
    a, b = array(4, 3, 4), array(4, 3, 4)
    if axes == 1 or axes == 0 or not isinstance(axes, int):
        same(int8blas.tensordot(a, b, axes), np.tensordot(a, b, axes))
    else:
        same(int8blas.tensordot(a, b.transpose(1, 2, 0), axes), np.tensordot(a, b.transpose(1, 2, 0), axes))


@pytest.mark.parametrize(
    "subscripts",
    [
        "ij,jk->ik", "ij,jk", "ij,kj->ik", "ij,ij->", "ij,ij->i", "ij,ij->ij", "i,j->ij", "i,j->ji", "bij,bjk->bik",
        "bij,bjk->kbi", "bij,jk->bik", "ij,bjk->bik", "abij,baj->aib", "...ij,...jk->...ik", "...ij,jk->...ik",
        "i...,i...->...", "i...,...i", "ii,ij->j", "iij,jk->ik", "ii,jj->ij", "ba,cb", ",ij->ij", "ij,->ji", "..., ...",
        "b...i,i->...b",
    ],
)  # fmt: skip
def test_einsum(subscripts):
    sizes = dict(zip("abcijk", (2, 3, 5, 4, 4, 6), strict=True))
    for hidden in ((), (2,), (1, 3)) if "..." in subscripts else ((),):
        shapes = []
        for term, dims in zip(subscripts.split("->")[0].replace(" ", "").split(","), (hidden, hidden[1:]), strict=True):
            before, dots, after = term.partition("...")
            shape = [sizes[one] for one in before] + [*dims] * bool(dots) + [sizes[one] for one in after]
            shapes.append(shape)
        a, b = array(*shapes[0]), array(*shapes[1])
        expected = np.einsum(subscripts, a, b)
        same(int8blas.einsum(subscripts, a, b), expected)
        if expected.ndim:
            out = np.zeros((*expected.shape, 2), np.int64)[..., 1]
            assert int8blas.einsum(subscripts, a, b, out=out) is out
            np.testing.assert_array_equal(out, expected)


def layouts(x):
    """Views of an array with its elements in other orders in memory."""
    yield x
    yield np.array(x, order="F")
    yield x[..., ::-1].copy()[..., ::-1] if x.ndim else x
    yield np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x


@pytest.mark.parametrize(
    "subscripts",
    ["ij,ij->ij", "ij,ij->ji", "ij,j->ij", "ij,i->ij", ",ij->ij", "bij,bj->jib", "ij,ij->j", "ij,ij->i", "bi,bj->bij",
     "...,...->..."],
)  # fmt: skip
def test_products_of_elements_and_vectors(isa, pair, subscripts):
    sizes = dict(zip("bij", (3, 5, 87), strict=True))
    first, second = subscripts.split("->")[0].split(",")
    shapes = ((5, 1), (2, 5, 87)) if "." in subscripts else [tuple(sizes[one] for one in x) for x in (first, second)]
    a, b = (
        np.asarray(random_values(RNG, dtype, shape))
        for dtype, shape in zip((pair.a_dtype, pair.b_dtype), shapes, strict=True)
    )
    expected = np.einsum(subscripts, a.astype(np.int32), b.astype(np.int32))
    for x, y in itertools.product(layouts(a), layouts(b)):
        same(int8blas.einsum(subscripts, x, y), expected)
    for dtype in (np.int64, np.int16):
        wide = np.clip(expected, np.iinfo(dtype).min, np.iinfo(dtype).max)
        with warnings.catch_warnings(action="ignore"):
            same(int8blas.einsum(subscripts, a, b, dtype=dtype), wide.astype(dtype))
    out = np.zeros(expected.shape, np.int32, order="F")
    assert int8blas.einsum(subscripts, a, b, out=out) is out
    np.testing.assert_array_equal(out, expected)
    same(int8blas.einsum(subscripts, a, b, mod=7), np.mod(expected, 7).astype(np.result_type(a, b)))


def test_dot_products_of_empty_and_broadcast_stacks(isa):
    a, b = array(4, 3, 6, dtype=np.uint8), array(3, 6, dtype=np.int8)
    same(int8blas.vecdot(a, b), np.vecdot(a.astype(np.int32), b.astype(np.int32)))
    same(int8blas.vecdot(a, b[:1]), np.vecdot(a.astype(np.int32), b[:1].astype(np.int32)))
    same(int8blas.vecdot(a, b[0]), np.vecdot(a.astype(np.int32), b[0].astype(np.int32)))
    same(int8blas.vecdot(a[:0], b), np.zeros((0, 3), np.int32))
    same(int8blas.vecdot(a[..., :0], b[..., :0]), np.zeros((4, 3), np.int32))
    same(int8blas.einsum("ij,ij->ij", b[:0], b[:0]), np.zeros((0, 6), np.int32))


def test_axes_of_one_element_are_broadcast():
    a, b = array(1, 3, 4), array(5, 4, 2)
    same(int8blas.einsum("...ij,...jk->...ik", a, b), np.einsum("...ij,...jk->...ik", a, b))


def test_as_many_dimensions_as_an_array_has():
    one = (1,) * 30
    a, b = array(2, *one, *one, 3), array(*one, *one, 1, 3)
    same(int8blas.vecdot(a, b), (a * b).sum(axis=-1))
    assert int8blas.tensordot(a, array(3, 2), 1).shape == (2, *one, *one, 2)
    for product in (lambda: int8blas.tensordot(a, b, 0), lambda: int8blas.inner(a, b)):
        with pytest.raises(ValueError, match=r"^a and b must give a result of at most 64 dimensions, got 12"):
            product()


def test_bytes_options_and_out():
    a, b = array(6, 7, dtype=np.uint8), array(7, 5, dtype=np.int8)
    exact = a.astype(np.int64) @ b
    for product in (
        int8blas.dot(a, b), int8blas.inner(a, b.T), int8blas.tensordot(a, b, 1), int8blas.einsum("ij,jk", a, b)
    ):  # fmt: skip
        same(product, exact.astype(np.int32))
    for function in (int8blas.dot, int8blas.tensordot):
        axes = (1,) if function is int8blas.tensordot else ()
        same(function(a, b, *axes, mod=11, dtype=np.uint8), (exact % 11).astype(np.uint8))
        same(function(a, b, *axes, dtype=np.int16, overflow="wrap"), exact.astype(np.int16))
        with pytest.raises(OverflowError):
            function(a, b, *axes, dtype=np.int8, overflow="raise")
    out = np.zeros((6, 5), np.int64)
    assert int8blas.dot(a, b, out) is out
    np.testing.assert_array_equal(out, exact)
    x = array(5, 5)
    expected = x @ x
    assert int8blas.dot(x, x, out=x) is x
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize(
    ("subscripts", "text"),
    [
        ("ij,jk,kl->il", "^subscripts must have two operands, got 3 in 'ij,jk,kl->il'$"),
        ("ij->ji", "^subscripts must have two operands, got 1 in 'ij->ji'$"),
        ("ij,j1->i1", "^subscripts must be letters, "),
        ("ij,jk->ikk", "^subscripts must have 'k' in an operand and once in the result, "),
        ("ij,jk->iz", "^subscripts must have 'z' in an operand and once in the result, "),
        ("ij,jk->i", "^subscripts must have 'k' in both operands or in the result, got 'ij,jk->i': sum "),
        ("i,jk->ijk", "^a must have the axes 'i' of subscripts, got 2 dimensions$"),
        ("ij,kl->ij...", "^subscripts must"),
        ("i...,jk->ijk", r"^subscripts must have '\.\.\.' in the result, "),
        ("ij,ik->jk", "^b must have 3 elements along 'i', as a has, got 4$"),
    ],
)
def test_errors_of_subscripts(subscripts, text):
    with pytest.raises(ValueError, match=text):
        int8blas.einsum(subscripts, array(3, 4), array(4, 5))


def test_errors():
    x = array(3, 4)
    with pytest.raises(TypeError, match=r"^subscripts must be a string, got list$"):
        int8blas.einsum([0, 1], x, x)
    with pytest.raises(ValueError, match=r"^a must have axes 'i' of one size, got shape \(3, 4\)$"):
        int8blas.einsum("ii,ij->j", x, x)
    with pytest.raises(ValueError, match=r"^axes must be from 0 to 2, the dimensions of both, got 3$"):
        int8blas.tensordot(x, x, 3)
    with pytest.raises(TypeError, match=r"^axes must be an integer, got float$"):
        int8blas.tensordot(x, x, np.array(1.5))
    with pytest.raises(ValueError, match=r"^axes must name an axis of a once, got \[0, 0\]$"):
        int8blas.tensordot(x, x, ([0, 0], [0, 1]))
    with pytest.raises(ValueError, match=r"^axes must list equal numbers of axes of a and b, got 1 and 2$"):
        int8blas.tensordot(x, x, ([0], [0, 1]))
    with pytest.raises(ValueError, match=r"^b must have 4 elements along axis 0, as a has along axis 1, got 3$"):
        int8blas.tensordot(x, x, 1)
    with pytest.raises(ValueError, match=r"^out must have shape \(3, 3\), got \(3, 4\)$"):
        int8blas.dot(x, x.T, x)
    with pytest.raises(TypeError, match=r"^out must be of an integer dtype, got float64$"):
        int8blas.dot(x, x.T, np.zeros((3, 3)))
    with pytest.raises(TypeError, match=r"^out must be int64, as dtype says, got int32$"):
        int8blas.einsum("ij,kj", x, x, out=np.zeros((3, 3), np.int32), dtype=np.int64)
    with pytest.raises(ValueError, match=r"^out must have elements that do not overlap"):
        int8blas.dot(x, x.T, np.lib.stride_tricks.as_strided(np.zeros(9, np.int64), (3, 3), (8, 8)))
    with pytest.raises(TypeError, match=r"^a must be uint8 or int8, got a list of float64"):
        int8blas.inner([0.5], [1])
    with pytest.raises(ValueError, match=r"^a must have at least 1 dimension, got a scalar$"):
        int8blas.vecdot(3, 4)


def test_empty_lists_are_vectors_of_no_integers():
    for product in (int8blas.dot([], []), int8blas.inner([], []), int8blas.vecdot([], []),
                    int8blas.tensordot([], [], 1), int8blas.einsum("i,i", [], [])):  # fmt: skip
        assert product == 0
