"""Whole models: inputs and outputs of run, order, folding, subgraphs, and wrong files."""

import pickle
import runpy
import threading
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import loaded, model_of
from processes import run_python

import int8blas
import int8blas.onnx
from int8blas.onnx.reader import without_weights

CHAIN = """
g (float[n, 2] x, float[2] unused) => (float[n, 2] y, float[n, 2] z) {
    y = Relu(x)
    z = Add(y, y)
}
"""
X = np.array([[-1, 2], [3, -4], [5, 6]], np.float32)
FEEDS = {"x": X, "unused": np.zeros(2, np.float32)}


def test_run_gives_outputs_in_the_order_that_is_asked_for():
    model = loaded(CHAIN)
    y, z = model.run(None, FEEDS)
    np.testing.assert_array_equal(y, np.maximum(X, 0))
    np.testing.assert_array_equal(z, 2 * y)
    a, b, c = model.run(["z", "y", "z"], FEEDS)
    np.testing.assert_array_equal(a, z)
    np.testing.assert_array_equal(b, y)
    np.testing.assert_array_equal(c, z)


def test_ports_are_told_as_onnxruntime_tells_them():
    model = loaded("g (float[n, 2] a, uint8 b, bool[?] c, string[1] d) => (float16[n, 2] y) { y = Cast<to = 10>(a) }")
    told = [(port.name, port.shape, port.type) for port in model.get_inputs() + model.get_outputs()]
    assert told == [
        ("a", ["n", 2], "tensor(float)"), ("b", [], "tensor(uint8)"), ("c", [None], "tensor(bool)"),
        ("d", [1], "tensor(string)"), ("y", ["n", 2], "tensor(float16)"),
    ]  # fmt: skip


def test_a_model_shows_its_inputs_and_outputs():
    model = loaded("g (float[n, 2] a, uint8 b, bool[?] c, float[0] d) => (float16[n, 2] y) { y = Cast<to = 10>(a) }")
    shown = "(float32[n, 2] a, uint8 b, bool[?] c, float32[0] d) => (float16[n, 2] y)"
    assert repr(model) == f"<int8blas.onnx.Model {shown}>"


@pytest.mark.parametrize(
    ("feeds", "error", "text"),
    [
        ([X], TypeError, "feeds must be a mapping of names to arrays, got list"),
        ({"x": X}, ValueError, r"feeds must have \['x', 'unused'\], got \['x'\]"),
        ({**FEEDS, "w": X}, ValueError, r"feeds must have \['x', 'unused'\], got"),
        ({"x": X}, ValueError, r"got \['x'\]: \['unused'\] missing$"),
        ({**FEEDS, "w": X}, ValueError, r"got \['unused', 'w', 'x'\]: \['w'\] unknown$"),
        ({"w": X, "x": X}, ValueError, r"got \['w', 'x'\]: \['unused'\] missing and \['w'\] unknown$"),
        ({**FEEDS, "x": X.astype(np.float64)}, TypeError, r"feeds\['x'\] must be float32, got float64"),
        ({**FEEDS, "x": X[0]}, ValueError, r"feeds\['x'\] must have shape \('n', 2\), got \(2,\)"),
        ({**FEEDS, "x": X.T}, ValueError, r"feeds\['x'\] must have shape \('n', 2\), got \(2, 3\)"),
    ],
)
def test_feeds_that_are_wrong_are_named(feeds, error, text):
    with pytest.raises(error, match=text):
        loaded(CHAIN).run(None, feeds)


def test_outputs_that_there_are_not_are_named():
    with pytest.raises(ValueError, match=r"output_names must be among \['y', 'z'\], got \['w'\]"):
        loaded(CHAIN).run(["w"], FEEDS)
    with pytest.raises(TypeError, match="output_names must be a sequence of names, got int"):
        loaded(CHAIN).run(1, FEEDS)
    (result,) = loaded(CHAIN).run(iter(["z"]), FEEDS)
    np.testing.assert_array_equal(result, loaded(CHAIN).run(["z"], FEEDS)[0])


@pytest.mark.parametrize("sizes", ["n, n", "?, ?", "-1, -1", ","], ids=str)
def test_sizes_that_are_not_numbers_can_be_any(sizes):
    proto = model_of("g (float[n, n] x) => (float y) { y = Neg(x) }")
    for size, text in zip(proto.graph.input[0].type.tensor_type.shape.dim, sizes.split(","), strict=True):
        size.Clear()
        if text.strip() == "-1":
            size.dim_value = -1
        elif text.strip():
            size.dim_param = text.strip()
    (y,) = int8blas.onnx.load(proto).run(None, {"x": np.ones((2, 3), np.float32)})
    assert y.shape == (2, 3)


def with_defaults(text, *names, ir_version=8):
    """Return a model that also declares these constants as inputs."""
    proto = model_of(text)
    for tensor in proto.graph.initializer:
        if tensor.name in names:
            proto.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    proto.ir_version = ir_version
    return int8blas.onnx.load(proto)


WITH_WEIGHTS = """g (uint8[n, 4] x) => (int32[n, 2] y, float[n, 2] r) <int8[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8},
    uint8 z = {3}, float s = {0.5}> { y = MatMulInteger(x, w, z) f = Cast<to = 1>(y) t = Mul(s, s) r = Mul(f, t) }"""


def test_a_feed_replaces_a_constant_that_is_an_input():
    """The run must not use weights packed, or constants folded, from a default."""
    rng = np.random.default_rng(0)
    model = with_defaults(WITH_WEIGHTS, "w", "s")
    assert model.get_overridable_initializers() == [("w", [4, 2], "tensor(int8)"), ("s", [], "tensor(float)")]
    assert [port.name for port in model.get_inputs()] == ["x"]
    x = rng.integers(0, 256, (3, 4), np.uint8)
    own = {"w": np.arange(1, 9, dtype=np.int8).reshape(4, 2), "s": np.float32(0.5)}
    other = {"w": rng.integers(-128, 128, (4, 2), np.int8), "s": np.float32(3)}
    for each in (model, pickle.loads(pickle.dumps(model))):
        for names in ((), ("w",), ("s",), ("w", "s"), ("w",), ()):
            given = {name: other[name] for name in names}
            w, s = (own | given).values()
            y, r = each.run(None, {"x": x, **given})
            np.testing.assert_array_equal(y, (x.astype(int) - 3) @ w.astype(int))
            np.testing.assert_array_equal(r, y.astype(np.float32) * (s * s))
            assert each.explain({"x": x, **given})[0].seconds > 0


def test_a_model_keeps_few_plans_of_replaced_constants():
    constants = [f"c{i}" for i in range(6)]
    listed = ", ".join(f"float {name} = {{1}}" for name in constants)
    model = with_defaults(f"g (float x) => (float y) <{listed}> {{ y = Sum(x, {', '.join(constants)}) }}", *constants)
    for count in range(7):
        for start in range(7 - count):
            feeds = {name: np.float32(5) for name in constants[start : start + count]}
            assert model.run(None, {"x": np.float32(0), **feeds})[0] == 6 + 4 * count
            assert len(model._others) <= 4


@pytest.mark.parametrize(
    ("feeds", "error", "text"),
    [
        ({"w": np.zeros((4, 3), np.int8)}, ValueError, r"feeds\['w'\] must have shape \(4, 2\), got \(4, 3\)"),
        ({"w": np.zeros((4, 2), np.uint8)}, TypeError, r"feeds\['w'\] must be int8, got uint8"),
        ({"z": np.uint8(1)}, ValueError, r"feeds must have \['x'\], got \['x', 'z'\]: \['z'\] unknown"),
    ],
)
def test_a_feed_is_as_the_constant_that_it_replaces(feeds, error, text):
    with pytest.raises(error, match=text):
        with_defaults(WITH_WEIGHTS, "w").run(None, {"x": np.zeros((1, 4), np.uint8), **feeds})


def test_old_files_have_constants_among_their_inputs_that_stay():
    """Version 3 of the format requires every constant among the inputs; onnxruntime replaces none of these either."""
    model = with_defaults(WITH_WEIGHTS, "w", "z", "s", ir_version=3)
    assert model.get_overridable_initializers() == []
    with pytest.raises(ValueError, match=r"\['w'\] unknown"):
        model.run(None, {"x": np.zeros((1, 4), np.uint8), "w": np.zeros((4, 2), np.int8)})


def test_an_error_of_a_node_names_it():
    model = loaded("g (float[a] x, float[b] y) => (float[c] z) { z = Add(x, y) }")
    with pytest.raises(ValueError) as caught:
        model.run(None, {"x": np.zeros(3, np.float32), "y": np.zeros(2, np.float32)})
    assert caught.value.__notes__ == ["in node 'z' (Add)"]


def test_nodes_in_any_order_run_in_the_right_one():
    proto = model_of("g (float[n] x) => (float[n] z) { y = Neg(x) z = Exp(y) }")
    nodes = list(proto.graph.node)[::-1]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    (z,) = int8blas.onnx.load(proto).run(None, {"x": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(z, [1, 1])


def test_what_does_not_depend_on_inputs_is_computed_at_load():
    model = loaded("""g (float[n] x) => (float[n] y) <float[2] a = {1, 2}> {
        b = Add(a, a) c = Mul(b, a) unused = Exp(x) y = Add(x, c) }""")
    assert [step.node.operator for step in model._plan.steps] == ["Add"]
    np.testing.assert_array_equal(model.run(None, {"x": np.zeros(2, np.float32)})[0], [2, 8])


def test_results_that_are_too_large_to_keep_are_computed_in_the_run():
    model = loaded("""g (float x) => (int64[1] n, float m) <int64[2] shape = {10000, 10000}, int64[1] part = {3}> {
        ones = ConstantOfShape(shape) first = Slice(ones, part, part) s = ReduceMax<keepdims=0>(first)
        few = ConstantOfShape(part) n = Shape(few) m = Add(s, x) }""")
    assert "ConstantOfShape" in [step.node.operator for step in model._plan.steps]


def test_weights_that_grow_as_their_type_does_are_computed_at_load():
    weights = numpy_helper.from_array(np.ones((6000, 1000), np.int8), "w")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None]) for name in "xy"]
    nodes = [helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "f"], ["y"])]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [weights])
    model = int8blas.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert [step.node.operator for step in model._plan.steps] == ["Add"]


def test_tensors_are_let_go_after_their_last_use():
    model = loaded("g (float[n] x) => (float[n] y) { a = Neg(x) b = Neg(a) c = Neg(b) y = Neg(c) }")
    assert sum(len(step.freed) for step in model._plan.steps) == 4  # x's too
    assert len(model._plan.constants) <= 4


def test_inputs_are_not_written_to():
    model = loaded("""g (float[n] x, int64[m] i, float[m] u) => (float[n] y, float[n] z) {
        y = ScatterElements(x, i, u) z = Identity(x) }""")
    x = np.zeros(3, np.float32)
    y, _ = model.run(None, {"x": x, "i": np.array([1]), "u": np.ones(1, np.float32)})
    np.testing.assert_array_equal(x, 0)
    np.testing.assert_array_equal(y, [0, 1, 0])


def test_branches_take_tensors_from_around_them():
    model = loaded("""g (bool c, float[n] x) => (float[n] y) { two = Constant<value_float = 2.0>()
        y = If(c) <then_branch = t () => (a) { a = Mul(x, two) }, else_branch = e () => (b) {
            h = Neg(x) b = Add(h, h) }> }""")
    x = np.array([1, 3], np.float32)
    np.testing.assert_array_equal(model.run(None, {"c": np.array(True), "x": x})[0], [2, 6])
    np.testing.assert_array_equal(model.run(None, {"c": np.array(False), "x": x})[0], [-2, -6])


def test_branches_know_the_constants_around_them():
    """A branch folds them, like the graph around the branch. A node of a branch that fails raises its error when the
    branch runs."""
    model = loaded("""g (bool c, float[2] x) => (float[n] y) <float[2] w = {2, 3}, int64[1] three = {3}>
        { y = If(c) <then_branch = t () => (a) { v = Neg(w) u = Exp(v) a = Mul(x, u) },
                     else_branch = e () => (b) { b = Reshape(w, three) }> }""")
    x = np.array([1, 3], np.float32)
    np.testing.assert_array_equal(model.run(None, {"c": np.array(True), "x": x})[0], x * np.exp(np.float32([-2, -3])))
    with pytest.raises(ValueError, match="cannot reshape") as raised:
        model.run(None, {"c": np.array(False), "x": x})
    assert any("Reshape" in note for note in raised.value.__notes__)
    assert [call.operator for call in model.explain()] == ["If", "Mul", "Reshape"]


def test_branches_take_a_dequantized_tensor_from_around_them():
    model = loaded("""g (bool c, uint8[4] q) => (float[4] y, float[2, 2] z) <float s = {0.5}, uint8 k = {3},
        int64[2] shape = {2, 2}> { f = DequantizeLinear(q, s, k) z = Reshape(f, shape)
        y = If(c) <then_branch = t () => (a) { a = Neg(f) }, else_branch = e () => (b) { b = Add(f, f) }> }""")
    q = np.arange(4, dtype=np.uint8)
    for condition, wanted in ((True, [1.5, 1, 0.5, 0]), (False, [-3, -2, -1, 0])):
        y, z = model.run(None, {"c": np.array(condition), "q": q})
        np.testing.assert_array_equal(y, wanted)
        np.testing.assert_array_equal(z, [[-1.5, -1], [-0.5, 0]])


def test_a_loop_stops_at_its_condition_and_stacks():
    model = loaded("""g (int64 n, float x) => (float last, float[k] all) { go = Constant<value = bool {1}>()
        last, all = Loop(n, go, x) <body = b (int64 i, bool c, float s) => (d, t, u) {
            t = Add(s, s) limit = Constant<value_float = 20.0>() d = Less(t, limit) u = Add(t, x) }> }""")
    last, every = model.run(None, {"n": np.int64(10), "x": np.float32(3)})
    assert last == 24
    np.testing.assert_array_equal(every, [9, 15, 27])
    last, every = model.run(None, {"n": np.int64(2), "x": np.float32(3)})
    np.testing.assert_array_equal(every, [9, 15])


LOOP_OF_PRODUCTS = """g (int64 n, uint8[k, 4] x) => (int32[k, 3] last) <int8[4, 3] w = {127, 1, 2, 127, 3, 4, 0, 0, 0,
    0, 0, 0}> { go = Constant<value = bool {1}>() start = MatMulInteger(x, w)
    last = Loop(n, go, start) <body = b (int64 i, bool c, int32[k, 3] s) => (c, t) {
        [inner] p = MatMulInteger(x, w) t = Add(s, p) }> }"""


def test_what_a_loop_calls_is_explained_and_counted():
    model = loaded(LOOP_OF_PRODUCTS)
    feeds = {"n": np.int64(5), "x": np.full((2, 4), 255, np.uint8)}
    (last,) = model.run(None, feeds)
    np.testing.assert_array_equal(last[0], 6 * 255 * np.array([254, 4, 6]))
    calls = model.explain(feeds)
    told = [(call.node, call.operator, call.arithmetic) for call in calls]
    assert told == [("start", "MatMulInteger", "int8"), ("last", "Loop", "other"), ("inner", "MatMulInteger", "int8"),
                    ("t", "Add", "other")]  # fmt: skip
    assert all(call.seconds > 0 for call in calls)
    assert [call.seconds for call in model.explain()] == [None] * 4
    assert model.saturations(feeds) == {"start": 2, "inner": 10}


def test_the_branches_of_an_if_are_explained():
    model = loaded("""g (bool c, float[n] x) => (float[n] y) { y = If(c) <then_branch = t () => (a) {
        d = Sin(x) a = Cos(d) }, else_branch = e () => (b) { b = If(c) <then_branch = q () => (u) { u = Tan(x) },
        else_branch = r () => (v) { v = Exp(x) }> }> }""")
    calls = model.explain({"c": np.array(False), "x": np.ones(3, np.float32)})
    assert [call.operator for call in calls] == ["If", "Sin", "Cos", "If", "Tan", "Exp"]
    assert [call.operator for call in calls if call.seconds] == ["If", "If", "Exp"]


def test_functions_of_the_file_are_put_in_their_place():
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 18, "own": 1]>
        g (float[n] x) => (float[n] y) { y = own.twice(x) }
        <domain: "own", opset_import: ["": 18]> twice (a) => (b) { b = Add(a, a) }""")
    (y,) = int8blas.onnx.load(proto).run(None, {"x": np.ones(2, np.float32)})
    np.testing.assert_array_equal(y, [2, 2])


def test_threads_share_a_model():
    model = loaded("""g (uint8[n, 64] x, uint8 z) => (int32 y) { w = ConstantOfShape<value = int8 {3}>(s)
        y = MatMulInteger(x, w, z) }""".replace("{ w", "<int64[2] s = {64, 8}> { w", 1))  # fmt: skip
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.integers(0, 256, (50, 64), np.uint8), "z": np.uint8(i)} for i in range(8)]
    wanted = [model.run(None, feed)[0] for feed in feeds]
    found = [None] * 8

    def work(i):
        for _ in range(20):
            found[i] = model.run(None, feeds[i])[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_old_softmax_is_over_all_dimensions_from_an_axis_on():
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax<axis = 1>(x) }"
    x = np.random.default_rng(0).normal(0, 1, (2, 3, 4)).astype(np.float32)
    (old,), (new,) = (loaded(text, opset=opset).run(None, {"x": x}) for opset in (11, 13))
    np.testing.assert_allclose(old.sum((1, 2)), 1, 1e-6)
    np.testing.assert_allclose(new.sum(1), 1, 1e-6)


def test_batch_normalization_of_old_versions_has_the_mean_that_is_given():
    x = np.random.default_rng(0).normal(3, 1, (2, 3, 4)).astype(np.float32)
    text = "g (float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[2,3,4] y) {" \
           " y = BatchNormalization(x, s, b, m, v) }"  # fmt: skip
    values = {name: np.full(3, value, np.float32) for name, value in (("s", 2), ("b", 1), ("m", 5), ("v", 4))}
    (y,) = loaded(text, opset=9).run(None, {"x": x, **values})
    np.testing.assert_allclose(y, (x - 5) / np.sqrt(4 + 1e-5) * 2 + 1, 1e-5, 1e-5)


@pytest.mark.parametrize("window", ["", "w"])
@pytest.mark.parametrize("onesided", [0, 1])
def test_a_signal_of_real_numbers_may_have_no_dimension_of_components(window, onesided):
    text = """g (float[SHAPE] x) => (float[b, f, k, c] y) <int64 step = {4}, float[8] w = {1, 2, 3, 4, 4, 3, 2, 1},
        int64 length = {8}> { y = STFT<onesided = 0>(x, step, w, length) }""".replace(" w,", f" {window},")
    text = text.replace("onesided = 0", f"onesided = {onesided}")
    x = np.random.default_rng(0).normal(0, 1, (3, 20)).astype(np.float32)
    (wanted,) = loaded(text.replace("SHAPE", "3, 20, 1")).run(None, {"x": x[..., None]})
    (y,) = loaded(text.replace("SHAPE", "3, 20")).run(None, {"x": x})
    np.testing.assert_array_equal(y, wanted)
    frames = np.lib.stride_tricks.sliding_window_view(x, 8, 1)[:, ::4] * ([1, 2, 3, 4, 4, 3, 2, 1] if window else 1)
    transform = (np.fft.rfft if onesided else np.fft.fft)(frames)
    np.testing.assert_allclose(y, np.stack([transform.real, transform.imag], -1), 1e-5, 1e-5)


@pytest.mark.parametrize("shape", ["", "[1]"])
@pytest.mark.parametrize(
    ("given", "chosen"),
    [("m, i, s", [0, 2]), ("m, i", [0, 2, 3]), ("m", [0, 2, 3]), ("m, , s", [0, 2]), ("", []), ("neg, i, s", [])],
)
def test_limits_of_boxes_are_scalars_or_left_out(shape, given, chosen):
    model = loaded(f"""g (float[1, 4, 4] b, float[1, 1, 4] c) => (int64[n, 3] y) <int64{shape} m = {{3}},
        int64{shape} neg = {{-1}}, float{shape} i = {{0.5}}, float{shape} s = {{0.1}}> {{
        y = NonMaxSuppression(b, c{", " if given else ""}{given}) }}""")
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [0, 20, 1, 21]]], np.float32)
    (y,) = model.run(None, {"b": boxes, "c": np.array([[[0.9, 0.8, 0.7, 0.05]]], np.float32)})
    np.testing.assert_array_equal(y, [[0, 0, i] for i in chosen] or np.empty((0, 3)))


# ------------------------------------------------------------------------------------- files that are wrong ------


@pytest.mark.parametrize(
    ("nodes", "opset"),
    [
        ("t = Constant<value = bool {1}>() r = Constant<value_float = 0.5>() y = Dropout(x, r, t)", 18),
        ("y, mean, var, m, v = BatchNormalization(x, s, s, s, s)", 9),
        ("y, mean, var = BatchNormalization(x, s, s, s, s)", 15),
        ("c = Conv(x, w) y, mean, var, m, v = BatchNormalization(c, s, s, s, s)", 9),
    ],
)
def test_nodes_that_train_are_refused_with_the_remedy(nodes, opset):
    text = f"g (float[n, 2, k] x) => (float[n, 2, k] y) <float[2] s = {{1, 1}}, float[2, 2, 1] w = {{1, 2, 3, 4}}>" \
           f" {{ {nodes} }}"  # fmt: skip
    with pytest.raises(ValueError, match="export the model for inference, from PyTorch after"):
        loaded(text, opset=opset)


def test_missing_operators_are_one_error_with_all_nodes():
    text = """g (float[n] x) => (float[n] y) { [first] a = Nothing(x) [second] b = Nothing(a) c = other.Thing(b)
        y = If(t) <then_branch = q () => (d) { [inner] d = Unheard(c) }, else_branch = e () => (f) { f = Neg(c) }> }"""
    text = text.replace("{ [first]", "{ t = Constant<value = bool {1}>() [first]")
    with pytest.raises(NotImplementedError) as caught:
        loaded(text)
    for part in ("Nothing of version 18: 'first', 'second'", "other.Thing of version not given: 'c'",
                 "Unheard of version 18: 'inner'"):  # fmt: skip
        assert part in str(caught.value)


def test_versions_that_are_too_new_are_named():
    with pytest.raises(ValueError, match="operators of domain '' must be of a version up to 28, got 99"):
        loaded(CHAIN, opset=99)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("y = Add(x, nothing)", r"node 'y' \(Add\) must take existing tensors, got 'nothing'"),
        ("a = Add(x, b) b = Neg(a) y = Neg(b)", r"got a cycle among node 'a' \(Add\), node 'b' \(Neg\)"),
        (
            "y = Neg(x) y = Exp(x)",
            r"node 'y' \(Exp\) must create new tensors, got 'y', which node 'y' \(Neg\) creates",
        ),
        ("x = Neg(x) y = Neg(x)", r"node 'x' \(Neg\) must create new tensors, got 'x', which is an input"),
        ("z = Neg(x)", r"output 'y' of graph 'g' must be created by a node, got none"),
        ("y = Neg<alpha = 1.0, beta = 2>(x)", r"node 'y' \(Neg\) must have attributes that Neg has .* got alpha, beta"),
    ],
)
def test_graphs_that_are_wrong_are_named(body, text):
    with pytest.raises(ValueError, match=text):
        loaded(f"g (float[n] x) => (float[n] y) {{ {body} }}")


def serialized():
    return model_of(CHAIN.replace("(float[n, 2] y", "(float[n, 2] y")).SerializeToString()


@pytest.mark.parametrize("data", [b"", b"\xff\xff\xff", b"not a model"])
def test_bytes_that_are_no_model_are_an_error(data):
    with pytest.raises(ValueError, match="source must be an ONNX model, got"):
        int8blas.onnx.load(data)


def test_a_truncated_model_is_an_error_wherever_it_ends():
    data = serialized()
    for end in range(len(data)):
        with pytest.raises((ValueError, NotImplementedError)):
            int8blas.onnx.load(data[:end])


def test_bytes_that_are_turned_never_crash():
    data, rng = serialized(), np.random.default_rng(0)
    for _ in range(500):
        broken = bytearray(data)
        broken[rng.integers(len(data))] ^= 1 << rng.integers(8)
        try:
            int8blas.onnx.load(bytes(broken))
        except (ValueError, TypeError, NotImplementedError):
            continue


LARGE = {
    "float32": np.arange(8192, dtype=np.float32).reshape(64, 128), "int8": np.arange(32768).astype(np.int8),
    "bool": np.arange(32768) % 3 == 0, "bfloat16": np.arange(16384).astype("bfloat16"), "int64": np.arange(3),
}  # fmt: skip


def model_of_constants():
    """A model that returns large and small constants, all as raw bytes."""
    tensors = [numpy_helper.from_array(value, f"c{i}") for i, value in enumerate(LARGE.values())]
    nodes = [helper.make_node("Identity", [tensor.name], [f"y{i}"]) for i, tensor in enumerate(tensors)]
    outputs = [helper.make_tensor_value_info(f"y{i}", tensor.data_type, None) for i, tensor in enumerate(tensors)]
    graph = helper.make_graph(nodes, "constants", [], outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("source", ["path", "bytes", "model"])
def test_large_constants_keep_their_bytes(source, tmp_path):
    model = model_of_constants()
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    given = {"path": path, "bytes": path.read_bytes(), "model": model}[source]
    results = int8blas.onnx.load(given).run(None, {})
    for result, wanted in zip(results, LARGE.values(), strict=True):
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result, wanted)


def test_large_constants_are_no_part_of_what_protobuf_parses():
    data = model_of_constants().SerializeToString()
    small, apart = without_weights(data)
    assert [*apart] == [0, 1, 2, 3]
    assert len(small) < 1000
    for i, value in enumerate([*LARGE.values()][:4]):
        assert apart[i] == value.tobytes()


@pytest.mark.parametrize("data", [b"", b"\x08\x08"])
def test_files_without_a_graph_are_an_error(data, tmp_path):
    (tmp_path / "model.onnx").write_bytes(data)
    with pytest.raises(ValueError, match="source must be an ONNX model"):
        int8blas.onnx.load(tmp_path / "model.onnx")


def test_damage_of_a_large_model_is_an_error_wherever_it_is(tmp_path):
    data = model_of_constants().SerializeToString()
    for end in range(1, len(data), 3001):
        (tmp_path / "model.onnx").write_bytes(data[:end])
        with pytest.raises(ValueError, match="source must be an ONNX model"):
            int8blas.onnx.load(tmp_path / "model.onnx")


def test_other_sources_are_refused():
    with pytest.raises(TypeError, match=r"source must be a path, bytes or an onnx\.ModelProto, got int"):
        int8blas.onnx.load(3)


def with_constant(tensor):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.mark.parametrize("size", [3, 5, 1 << 40, -1])
def test_a_constant_has_as_many_bytes_as_its_shape_says(size):
    tensor = numpy_helper.from_array(np.ones(4, np.float32), "w")
    tensor.dims[0] = size
    with pytest.raises(ValueError, match="constant 'w' must have"):
        int8blas.onnx.load(with_constant(tensor))


@pytest.mark.parametrize("size", [3, 1 << 40])
def test_a_constant_in_fields_has_as_many_values_as_its_shape_says(size):
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [4], [1, 2, 3, 4])
    tensor.dims[0] = size
    with pytest.raises(ValueError, match="constant 'w' must have the values of shape"):
        int8blas.onnx.load(with_constant(tensor))


def test_an_unknown_type_is_named():
    tensor = numpy_helper.from_array(np.ones(4, np.float32), "w")
    tensor.data_type = 99
    with pytest.raises(ValueError, match="constant 'w' must have a type that onnx knows, got number 99"):
        int8blas.onnx.load(with_constant(tensor))


@pytest.mark.parametrize("shape", [[1 << 40], [1 << 20, 1 << 20, 1 << 20]])
def test_sizes_of_terabytes_are_refused_before_memory_is_taken(shape):
    sizes = ", ".join(map(str, shape))
    model = loaded(f"g (float x) => (float y) <int64[{len(shape)}] s = {{{sizes}}}> {{ y = ConstantOfShape(s) }}")
    with pytest.raises(ValueError, match="a tensor must have at most") as caught:
        model.run(None, {"x": np.float32(0)})
    assert caught.value.__notes__ == ["in node 'y' (ConstantOfShape)"]


# --------------------------------------------------------------------------------------------- external data ------


def external(location, offset=None, length=None):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return with_constant(tensor).SerializeToString()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "models" / "deep").mkdir(parents=True)
    for place in ("secret.bin", "models/weights.bin", "models/deep/weights.bin"):
        np.arange(8, dtype=np.float32).tofile(tmp_path / place)
    (tmp_path / "models" / "link.bin").symlink_to(tmp_path / "secret.bin")
    return tmp_path / "models"


@pytest.mark.parametrize(("location", "offset"), [("weights.bin", 0), ("weights.bin", 8), ("deep/weights.bin", None)])
def test_external_data_is_found_in_the_folder_of_the_model(folder, location, offset):
    (folder / "model.onnx").write_bytes(external(location, offset, 16))
    (y,) = int8blas.onnx.load(folder / "model.onnx").run(None, {"x": np.zeros(4, np.float32)})
    np.testing.assert_array_equal(y, np.arange(4) + (offset or 0) // 4)


@pytest.mark.parametrize("location", ["../secret.bin", "link.bin", "/etc/passwd", "", "missing.bin", "deep"])
def test_nothing_outside_the_folder_is_read(folder, location):
    (folder / "model.onnx").write_bytes(external(location))
    with pytest.raises(ValueError, match="constant 'w' must be in a file in the folder of the model, got"):
        int8blas.onnx.load(folder / "model.onnx")


@pytest.mark.parametrize(
    "location", ["deep/../weights.bin", "../models/weights.bin", "weights.bin/..", "a\0b", "x" * 999]
)
def test_names_that_go_up_or_are_no_names_are_refused(folder, location):
    (folder / "model.onnx").write_bytes(external(location))
    with pytest.raises(ValueError, match="constant 'w' must be in a file in the folder of the model, got"):
        int8blas.onnx.load(folder / "model.onnx")


@pytest.fixture
def cache(tmp_path):
    """Create a hub's cache: a model and its tensors are links to files in another folder."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "0123"
    for place in (blobs / "deep", snapshot / "onnx"):
        place.mkdir(parents=True)
    for place in (blobs / "bb", blobs / "deep" / "bb", tmp_path / "secret.bin", snapshot / "own.bin"):
        np.arange(4, dtype=np.float32).tofile(place)
    (blobs / "aa").write_bytes(external("model.onnx_data"))
    (snapshot / "model.onnx").symlink_to("../../blobs/aa")
    return snapshot


@pytest.mark.parametrize("target", ["../../blobs/bb", "../../blobs/deep/bb", "own.bin", "again"])
def test_links_beside_a_link_lead_to_its_folder_or_stay_in_their_own(cache, target):
    (cache / "model.onnx_data").symlink_to(target)
    (cache / "again").symlink_to("../../blobs/bb")
    (y,) = int8blas.onnx.load(cache / "model.onnx").run(None, {"x": np.zeros(4, np.float32)})
    np.testing.assert_array_equal(y, np.arange(4))


@pytest.mark.parametrize(
    "target",
    ["../../secret.bin", "/etc/passwd", "../../blobs/away", "../../blobs/up/secret.bin", "model.onnx_data", "missing",
     "../../blobs", "/dev/zero"],
)  # fmt: skip
def test_links_beside_a_link_lead_nowhere_else(cache, target):
    blobs = cache.parents[1] / "blobs"
    (blobs / "away").symlink_to("../secret.bin")
    (blobs / "up").symlink_to("..")
    (cache / "model.onnx_data").symlink_to(target)
    with pytest.raises(ValueError, match="constant 'w' must be in a file in the folder of the model, got"):
        int8blas.onnx.load(cache / "model.onnx")


@pytest.mark.parametrize("location", ["../../blobs/bb", "bb", "deep/bb"])
def test_the_folder_of_a_link_s_target_is_reached_by_links_alone(cache, location):
    """Names are resolved in the folder of the link. Without a link, no name reaches a file in the target's folder."""
    (cache.parents[1] / "blobs" / "aa").write_bytes(external(location))
    with pytest.raises(ValueError, match="constant 'w' must be in a file in the folder of the model, got"):
        int8blas.onnx.load(cache / "model.onnx")


def test_a_link_beside_a_model_that_is_no_link_stays_in_its_folder(cache):
    """A link between the model's path and its file does not widen the readable folders either."""
    (cache / "plain.onnx").write_bytes(external("model.onnx_data"))
    (cache / "model.onnx_data").symlink_to("../../blobs/bb")
    (cache.parents[1] / "blobs" / "first.onnx").symlink_to(cache / "plain.onnx")
    (cache / "second.onnx").symlink_to("../../blobs/first.onnx")
    for name in ("plain.onnx", "second.onnx"):
        with pytest.raises(ValueError, match="constant 'w' must be in a file in the folder of the model, got"):
            int8blas.onnx.load(cache / name)


@pytest.mark.parametrize(("offset", "length"), [(20, 16), (-4, 16), (0, 12), (1 << 60, None), (0, 1 << 60)])
def test_external_data_lies_in_its_file(folder, offset, length):
    (folder / "model.onnx").write_bytes(external("weights.bin", offset, length))
    with pytest.raises(ValueError, match="constant 'w' must have 16 bytes"):
        int8blas.onnx.load(folder / "model.onnx")


def test_external_data_needs_a_path():
    with pytest.raises(ValueError, match="constant 'w' must be in the model, as that was not read from a path"):
        int8blas.onnx.load(external("weights.bin"))


# ---------------------------------------------------------------------------------------- documentation, imports ------


def test_products_that_saturate_elsewhere_are_found():
    model = loaded("""g (uint8[n, 4] x) => (int32[n, 3] y, int32[n, 3] z) <
        int8[4, 3] w = {127, 1, 2, 127, 3, 4, 0, 0, 0, 0, 0, 0}, int8[4, 3] v = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}> {
        y = MatMulInteger(x, w) z = MatMulInteger(x, v) }""")
    feeds = {"x": np.array([[255] * 4, [1] * 4], np.uint8)}
    assert model.saturations(feeds) == {"y": 1, "z": 0}


def test_the_page_has_the_table_of_operators():
    docs = Path(__file__).parents[2] / "docs"
    written = runpy.run_path(str(docs / "operators.py"))["table"]()
    assert written in (docs / "howto" / "onnx.md").read_text(), "run python docs/operators.py"


def test_names_are_listed_before_they_are_used():
    code = "import int8blas; print({'load', 'new_ops'} <= set(dir(int8blas.onnx)), hasattr(int8blas.onnx, 'x'))"
    assert run_python("-c", code).stdout.split() == ["True", "False"]


def test_names_of_int8blas_are_looked_up_without_a_hook():
    """A __getattr__ would make each lookup two and a half times slower."""
    assert "__getattr__" not in vars(int8blas)


def test_the_package_is_imported_when_it_is_used():
    code = "import sys, int8blas; assert 'int8blas.onnx.model' not in sys.modules; int8blas.onnx.load; " \
           "assert 'onnx' not in sys.modules; print('int8blas.onnx.model' in sys.modules)"  # fmt: skip
    assert run_python("-c", code).stdout.strip() == "True"


def test_without_onnx_the_error_says_how_to_get_it():
    code = "import sys; sys.modules['onnx'] = None; import int8blas\n" \
           "try: int8blas.onnx.load('x.onnx')\nexcept ImportError as error: print(error)"  # fmt: skip
    assert "pip install 'int8blas[onnx]'" in run_python("-c", code).stdout


@pytest.mark.parametrize(
    ("inputs", "outputs"), [(["x", "s", "z"], []), (["x"], ["y"]), (["x", "", "z"], ["y"]), ([], ["y"])], ids=str
)
def test_nodes_without_their_inputs_or_outputs_are_value_errors(inputs, outputs):
    model = model_of("g (uint8[n] x, float s, uint8 z) => (float[n] y) { y = DequantizeLinear(x, s, z) }")
    node = model.graph.node[0]
    node.ClearField("input")
    node.ClearField("output")
    node.input.extend(inputs)
    node.output.extend(outputs)
    feeds = {"x": np.ones(3, np.uint8), "s": np.float32(1), "z": np.uint8(1)}
    with pytest.raises((ValueError, TypeError)):
        int8blas.onnx.load(model.SerializeToString()).run(None, feeds)


LONG = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["": 18]>
    two (float[n, 64] x) => (float[n, 64] y, float[n, 64] z) { y = Relu(x) z = Neg(x) }""")


def test_outputs_are_written_to_the_callers_arrays():
    model = int8blas.onnx.load(LONG)
    x = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32)
    z = np.full((64, 3), 7, np.float32).T
    model.run_into({"z": z}, {"x": x})
    np.testing.assert_array_equal(z, -x)
    y = np.zeros_like(x)
    with pytest.raises(ValueError, match=r"outputs\['z'\] must be float32 \(3, 64\), got float32 \(2, 64\)"):
        model.run_into({"y": y, "z": np.zeros((2, 64), np.float32)}, {"x": x})
    with pytest.raises(ValueError, match=r"outputs\['z'\] must be float32 \(3, 64\), got float64 \(3, 64\)"):
        model.run_into({"y": y, "z": np.zeros((3, 64))}, {"x": x})
    z.flags.writeable = False
    with pytest.raises(TypeError, match=r"outputs\['z'\] must be a writable ndarray, got a read-only array"):
        model.run_into({"y": y, "z": z}, {"x": x})
    with pytest.raises(TypeError, match=r"outputs\['z'\] must be a writable ndarray, got list"):
        model.run_into({"y": y, "z": [1]}, {"x": x})
    with pytest.raises(ValueError, match="output_names must be among"):
        model.run_into({"w": y}, {"x": x})
    with pytest.raises(TypeError, match="outputs must be a mapping of names to arrays, got list"):
        model.run_into([y], {"x": x})
    assert not y.any()


def test_the_number_of_threads_of_a_model(tmp_path, monkeypatch):
    found = []
    for threads in (None, 1):
        model = int8blas.onnx.load(LONG, num_threads=threads)
        model.save(tmp_path / "model")
        for each in (model, pickle.loads(pickle.dumps(model)), int8blas.load(tmp_path / "model")):
            step = each._plan.steps[0]
            each._plan.steps[0] = step._replace(call=lambda x: (found.append(int8blas.num_threads()), x)[1])
            each._plan.__post_init__()
            with int8blas.num_threads(2):
                each.warm_up({"x": np.ones((1, 64), np.float32)})
                assert int8blas.num_threads() == 2
    assert found == [2] * 6 + [1] * 6
    with pytest.raises(ValueError, match="num_threads must be at least 1, got 0"):
        int8blas.onnx.load(LONG, num_threads=0)
    with pytest.raises(TypeError, match="num_threads must be an integer, got float"):
        int8blas.onnx.load(LONG, num_threads=1.5)


@pytest.mark.parametrize("text", [
    "g (float[n, 2] x) => (float[n, 2] y) { y = Identity(x) }",
    "g (float[n, 2] x) => (float[k] y) { s = Constant<value: tensor = int64[1] {-1}>() y = Reshape(x, s) }",
    "g (float[n, 2] x) => (float[3, n, 2] y) { s = Constant<value: tensor = int64[3] {3, 1, 1}>() y = Expand(x, s) }",
    "g (float[n, 2] x) => (float[2] c) <float[2] c = {1, 2}> { y = Identity(x) }",
    "g (float[n, 2] x) => (float[2] y) <float[2] c = {1, 2}> { y = Add(c, c) }",
    "g (float[n, 2] x) => (float[2, 1] y) <float[2] c = {1, 2}, int64[1] a = {1}> { y = Unsqueeze(c, a) }",
    "g (float[n, 2] x) => (int64[1, 2] y) <int64[1] a = {0}> { s = Shape(x) y = Unsqueeze(s, a) }",
    "g (float[n, 2] x) => (float[2] y) <float[2] c = {1, 2}> { b = Constant<value: tensor = bool {1}>() "
    "y = If(b) <then_branch = t () => (float[2] u) { u = Identity(c) }, "
    "else_branch = e () => (float[2] v) { v = Neg(c) }> }",
    "g (float[n, 2] x) => (float[n, 2] y, float[n, 2] z) { y = Relu(x) z = Identity(y) }",
    "g (float[n, 2] x) => (float[n, 2] y, float[k] z) <int64[1] s = {-1}> { y = Relu(x) z = Reshape(y, s) }",
    "g (float[n, 2] x) => (seq(float[n, 2]) y) { r = Relu(x) y = SequenceConstruct(x, r, r) }",
])  # fmt: skip
def test_results_are_the_callers_to_write_to(text):
    model, x = loaded(text), X.copy()

    def arrays():
        results = model.run(None, {"x": x})
        return [array for result in results for array in (result if isinstance(result, list) else [result])]

    expected = [array.copy() for array in arrays()]
    for _ in range(3):  # the first run remembers results that depend on shapes alone
        got = arrays()
        for array, wanted in zip(got, expected, strict=True):
            np.testing.assert_array_equal(array, wanted)
            array[...] = 99
            np.testing.assert_array_equal(x, X)


def test_a_file_cannot_use_the_operators_of_a_loaded_model():
    text = '<ir_version: 8, opset_import: ["": 18, "int8blas": 1]> g (float[n] x) => (float[n] y) { y = Relu(x) }'
    with pytest.raises(NotImplementedError, match="imports domain 'int8blas'"):
        int8blas.onnx.load(onnx.parser.parse_model(text))
