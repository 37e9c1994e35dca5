"""Tensors that depend on the inputs' shapes alone are computed once for each combination of shapes."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx_models import loaded

from int8blas.onnx import sizes

TEXT = """g (float[n, m] x) => (float y, int64[1] size) {
    s = Shape(x) first = Constant <value: tensor = int64[1] {0}> () n = Gather(s, first)
    rest = Constant <value: tensor = int64[1] {-1}> () target = Concat<axis = 0>(rest, n)
    y = Reshape(x, target) size = Mul(n, n)
}"""


def image(n, m):
    return np.arange(n * m, dtype=np.float32).reshape(n, m)


def calls_of(model, x):
    """Return the calls of a run."""
    return [call.operator for call in model.explain({"x": x}) if call.seconds]


def test_results_are_right_for_shapes_that_take_turns():
    model = loaded(TEXT)
    for _ in range(3):
        for n, m in ((2, 6), (3, 4), (1, 5)):
            y, size = model.run(None, {"x": image(n, m)})
            np.testing.assert_array_equal(y, image(n, m).reshape(-1, n))
            assert size.tolist() == [n * n]


def test_slices_at_places_that_depend_on_shapes_follow_the_shape_and_the_memory():
    model = loaded("""g (float[n, m] x) => (float[n, h] a, float[n, r] b)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}> {
        s = Shape(x) m = Gather(s, one) half = Div(m, two) left = Slice(x, zero, half, one)
        right = Slice(x, half, m, one) a = Neg(left) b = Neg(right) }""")
    for _ in range(3):
        for x in (image(2, 6), image(3, 4), image(4, 3).T, image(1, 5), image(3, 8)[:, ::2]):
            a, b = model.run(None, {"x": x})
            np.testing.assert_array_equal(a, -x[:, : x.shape[1] // 2])
            np.testing.assert_array_equal(b, -x[:, x.shape[1] // 2 :])


def test_the_second_run_has_only_what_depends_on_values():
    model = loaded(TEXT)
    model.run(None, {"x": image(2, 6)})
    # The caller owns an output, so each run creates it.
    assert calls_of(model, image(2, 6)) == ["Reshape", "Mul"]
    assert len(calls_of(model, image(3, 4))) == 5


def test_what_a_caller_does_with_outputs_changes_nothing():
    model = loaded(TEXT)
    for _ in range(2):
        y, size = model.run(None, {"x": image(2, 6)})
        assert size.tolist() == [4]
        size[:] = 9
        y[:] = 9


@pytest.mark.parametrize("text", [
    "g (float[n] x) => (int64[1] y) { z = NonZero(x) y = Shape(z) }",
    "g (float[n] x) => (int64[k] z) { i = Cast<to = 7>(x) y = Shape(i) m = ReduceMax<keepdims = 0>(i) "
    "o = Constant <value: tensor = int64 {0}> () d = Constant <value: tensor = int64 {1}> () r = Range(o, m, d) "
    "z = Shape(r) }",
    "g (float[n] x) => (int64[k] z) { s = Shape(x) y = ConstantOfShape(s) r = RandomUniformLike(y) z = NonZero(r) }",
])  # fmt: skip
def test_what_depends_on_values_or_chance_is_computed_in_each_run(text):
    model = loaded(text)
    results = {model.run(None, {"x": np.array(x, np.float32)})[0].tolist().__repr__() for x in ([1, 0, 3], [0, 0, 7])}
    if "Random" not in text:
        assert len(results) == 2


def test_only_a_few_small_tensors_are_remembered():
    model = loaded("g (float[n] x) => (float y) { s = Shape(x) z = ConstantOfShape(s) y = Add(x, z) }")
    memory = model._plan.memory
    for n in range(1, 3 * sizes.COMBINATIONS):
        model.run(None, {"x": np.ones(n, np.float32)})
        assert len(memory.known) == min(n, sizes.COMBINATIONS)
    count = sizes.MOST_BYTES // 4 + 1
    before = len(memory.known)
    assert model.run(None, {"x": np.ones(count, np.float32)})[0].sum() == count
    assert len(memory.known) == before


def test_threads_with_different_shapes():
    model = loaded(TEXT)

    def turns(n):
        for _ in range(200):
            y, size = model.run(None, {"x": image(n, 12)})
            assert (y.shape, size.tolist()) == ((12, n), [n * n])
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(turns, range(1, 13)))


def test_sequences_have_no_shape():
    text = """g (float[n] x) => (float y) { q = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 0>(q) }"""
    assert loaded(text).run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [1, 1, 1, 1]
