"""floats="onnxruntime": the parts that onnxruntime computes, and their results next to the results of this package."""

import pickle

import numpy as np
import onnx
import pytest
from onnx_models import loaded, model_of
from processes import run_python

import int8blas
import int8blas.onnx
from int8blas.onnx.graph import Graph, Node, Value
from int8blas.onnx.islands import grouped, with_islands
from int8blas.onnx.reader import read

RNG = np.random.default_rng(11)
# A float convolution, a product of bytes, and a float LSTM.
MIXED = """g (float[1, 4, 6] x) => (float[6, 1, 1, 3] y, float[1, 4, 6] z) {
    c = Conv<kernel_shape = [3], pads = [1, 1]>(x, kernel) r = Relu(c)
    q = QuantizeLinear(r, s, u) v = QuantizeLinear(w, s, i)
    qd = DequantizeLinear(q, s, u) wd = DequantizeLinear(v, s, i)
    p = MatMul(qd, wd) o = QuantizeLinear(p, t, u) z = DequantizeLinear(o, t, u)
    k = Transpose<perm = [2, 0, 1]>(z) l, h, e = LSTM<hidden_size = 3>(k, wl, rl)
    y = Transpose<perm = [0, 2, 1, 3]>(l)
}"""


def floats(*shape):
    return RNG.normal(0, 1, shape).astype(np.float32)


CONSTANTS = {"kernel": floats(4, 4, 3), "w": floats(6, 6), "s": np.float32(0.02), "t": np.float32(0.05),
             "u": np.uint8(100), "i": np.int8(0), "wl": floats(1, 12, 4), "rl": floats(1, 12, 3)}  # fmt: skip
FEEDS = {"x": floats(1, 4, 6)}


def mixed(**options):
    return int8blas.onnx.load(model_of(MIXED, constants=CONSTANTS), **options)


def operators(network):
    return [node.operator for node in network.graph.nodes]


def network_of(text, **constants):
    network = read(model_of(text, constants=constants))
    network.floats = "onnxruntime"
    return network


def test_products_of_bytes_stay_and_heavy_operators_go():
    nodes = with_islands(network_of(MIXED, **CONSTANTS)).graph.nodes
    islands = [node for node in nodes if node.operator == "Onnxruntime"]
    assert [island.parts for island in islands] == [("c", "r"), ("k", "l", "y")]
    assert [island.outputs for island in islands] == [("r",), ("y",)]
    assert [node.operator for node in nodes if node not in islands].count("MatMul") == 1


def test_a_network_without_products_of_bytes_is_one_island():
    text = "g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) { y = Relu(x) z = Sigmoid(x) }"
    assert operators(with_islands(network_of(text))) == ["Onnxruntime"]


def test_an_island_knows_the_shapes_of_the_networks_inputs():
    """Without the shapes onnxruntime chooses another order of elements in memory for convolutions."""
    nodes = with_islands(network_of(MIXED, **CONSTANTS)).graph.nodes
    shapes = [node.attributes["island"].graph.inputs[0].shape for node in nodes if node.operator == "Onnxruntime"]
    assert shapes == [(1, 4, 6), None]


def test_few_light_operators_stay():
    text = """g (float[2, 3] x) => (float[2, 3] y) { a = Exp(x) q, s, z = DynamicQuantizeLinear(a)
        i = MatMulInteger(q, w, z) f = Cast<to = 1>(i) y = Mul(f, s) }"""
    assert "Onnxruntime" not in operators(with_islands(network_of(text, w=np.eye(3, dtype=np.int8))))


@pytest.mark.parametrize("seed", range(20))
def test_no_path_leaves_an_island_and_comes_back(seed):
    rng = np.random.default_rng(seed)
    nodes = []
    for i in range(30):
        count = min(i, int(rng.integers(0, 3)))
        sources = [f"t{j}" for j in rng.choice(i, count, replace=False)] if count else ["x"]
        nodes.append(Node("Sum", "", tuple(sources), (f"t{i}",)))
    own = {f"t{i}" for i in rng.choice(30, 12, replace=False)}
    graph = Graph("g", nodes, (Value("x", None, None),), (Value("t29", None, None),), {})
    groups = grouped(graph, own, set())
    assert sorted(node.label for group in groups for node in group) == sorted({f"t{i}" for i in range(30)} - own)
    for group in groups:
        inside = {node.label for node in group}
        left = set()  # tensors that depend on the group and are outside
        for node in nodes:
            depends = any(name in inside or name in left for name in node.inputs)
            if node.label in inside:
                assert left.isdisjoint(node.inputs)
            elif depends:
                left.add(node.label)


def test_the_choice_is_checked():
    with pytest.raises(ValueError, match="floats must be 'own' or 'onnxruntime', got 'numpy'"):
        mixed(floats="numpy")


def test_without_onnxruntime_the_error_says_how_to_get_it():
    code = "import sys, onnx.parser, int8blas\nsys.modules['onnxruntime'] = None\n" \
           "text = '<ir_version: 8, opset_import: [\"\": 18]> g (float[2] x) => (float[2] y) { y = Relu(x) }'\n" \
           "model = onnx.parser.parse_model(text)\ntry: int8blas.onnx.load(model, floats='onnxruntime')\n" \
           "except ImportError as error: print(error)"  # fmt: skip
    assert "pip install onnxruntime 'int8blas[onnx]'" in run_python("-c", code).stdout


# ------------------------------------------------------------------------------------------- with onnxruntime ------


@pytest.fixture
def onnxruntime():
    return pytest.importorskip("onnxruntime")


@pytest.mark.usefixtures("onnxruntime")
def test_the_results_are_those_of_the_own_operators():
    own, other = mixed().run(None, FEEDS), mixed(floats="onnxruntime").run(None, FEEDS)
    np.testing.assert_allclose(other[0], own[0], 1e-5, 1e-5)
    np.testing.assert_array_equal(other[1], own[1])


@pytest.mark.usefixtures("onnxruntime")
@pytest.mark.parametrize("place", [np.s_[::-1], np.s_[:, ::2], np.s_[:, [0, 0]]])
def test_islands_take_any_strides(place):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)[place]
    model = int8blas.onnx.load(model_of("g (float[n,m] x) => (float y) { y = Neg(x) }"), floats="onnxruntime")
    for feed in (x, x.T, np.broadcast_to(x[:1], x.shape)):
        (y,) = model.run(None, {"x": feed})
        np.testing.assert_array_equal(y, -feed)
        y += 1  # results are writable


@pytest.mark.usefixtures("onnxruntime")
def test_explain_names_the_nodes_that_depend_on_the_cpu():
    calls = mixed(floats="onnxruntime").explain()
    assert [call.nodes for call in calls if call.arithmetic == "onnxruntime"] == [("c", "r"), ("k", "l", "y")]
    assert "Onnxruntime" in str(calls)


@pytest.mark.usefixtures("onnxruntime")
def test_files_and_pickles_keep_the_choice(tmp_path):
    model = mixed(floats="onnxruntime")
    model.save(tmp_path / "model")
    wanted = model.run(None, FEEDS)
    for other in (int8blas.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert str(other.explain()) == str(model.explain())
        for a, b in zip(other.run(None, FEEDS), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("onnxruntime")
def test_an_operator_that_this_package_lacks_runs_there():
    text = "g (float[2, 3] x, float[3, 3] w) => (float[3, 3] y) { y = com.microsoft.Inverse(w) }"
    with pytest.raises(NotImplementedError, match="Inverse"):
        loaded(text, microsoft=True)
    w = floats(3, 3)
    model = int8blas.onnx.load(model_of(text, microsoft=True), floats="onnxruntime")
    np.testing.assert_allclose(model.run(None, {"x": floats(2, 3), "w": w})[0], np.linalg.inv(w), 1e-3, 1e-3)


@pytest.mark.usefixtures("onnxruntime")
def test_an_operator_that_nobody_knows_is_refused_with_onnxruntimes_words():
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.node[0].op_type = "Unheard"
    with pytest.raises(ValueError, match=r"onnxruntime must support the operators \['Unheard'\], got its error"):
        int8blas.onnx.load(model, floats="onnxruntime")


@pytest.mark.usefixtures("onnxruntime")
def test_subgraphs_take_tensors_from_around():
    text = """g (float[2, 3] x, bool b) => (float[2, 3] y) { a = Exp(x) y = If(b) <
        then_branch = t () => (float[2, 3] c) { c = Add(a, large) },
        else_branch = e () => (float[2, 3] d) { d = Neg(a) }> }"""
    x = floats(2, 3)
    model = int8blas.onnx.load(model_of(text, constants={"large": x}), floats="onnxruntime")
    assert [call.arithmetic for call in model.explain()] == ["onnxruntime"]
    for condition, wanted in ((True, np.exp(x) + x), (False, -np.exp(x))):
        np.testing.assert_allclose(model.run(None, {"x": x, "b": np.array(condition)})[0], wanted, 1e-6)


@pytest.mark.usefixtures("onnxruntime")
def test_large_constants_are_those_of_the_network():
    weights = floats(64, 64)
    model = int8blas.onnx.load(
        model_of("g (float[2, 64] x) => (float[2, 64] y) { a = Relu(x) y = MatMul(a, w) }", constants={"w": weights}),
        floats="onnxruntime",
    )
    x = floats(2, 64)
    np.testing.assert_allclose(model.run(None, {"x": x})[0], np.maximum(x, 0) @ weights, 1e-4, 1e-4)


@pytest.mark.usefixtures("onnxruntime")
def test_constants_that_a_feed_replaces_reach_the_islands():
    model = model_of("g (float[2, 3] x) => (float[2, 3] y) { y = Add(x, k) }", constants={"k": np.ones(3, np.float32)})
    model.graph.input.append(onnx.helper.make_tensor_value_info("k", 1, [3]))
    model = int8blas.onnx.load(model, floats="onnxruntime")
    x = floats(2, 3)
    np.testing.assert_array_equal(model.run(None, {"x": x})[0], x + 1)
    np.testing.assert_array_equal(model.run(None, {"x": x, "k": np.full(3, 2, np.float32)})[0], x + 2)


@pytest.mark.usefixtures("onnxruntime")
def test_islands_take_float16_as_it_is():
    weights, x = floats(8, 8).astype(np.float16), floats(2, 8).astype(np.float16)
    text = "g (float16[2, 8] x) => (float16[2, 8] y) { a = Relu(x) y = MatMul(a, w) }"
    (y,) = int8blas.onnx.load(model_of(text, constants={"w": weights}), floats="onnxruntime").run(None, {"x": x})
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, np.maximum(x, 0).astype(np.float32) @ weights.astype(np.float32), 1e-2, 1e-2)
