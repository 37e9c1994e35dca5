"""Models in files of int8blas and in pickles, the output of explain, and the command line."""

import pickle
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from onnx_models import loaded, model_of
from processes import run_python

import int8blas
import int8blas.onnx
from int8blas.onnx.reader import read
from int8blas.onnx.stored import network_of, plain

TEXT = """g (float[n, 4] x, bool c) => (float y, float[m] z)
<int8[4, 2] w = {1, -2, 3, 4, 5, 6, -7, 8}, float s = {0.5}>
{
    q, a, zp = DynamicQuantizeLinear(x)
    sums = MatMulInteger(q, w, zp)
    real = Cast<to = 1>(sums)
    scale = Mul(a, s)
    y = Mul(real, scale)
    z = If(c) <
        then_branch = t () => (u) { u = LeakyRelu<alpha = 0.25>(y) }, else_branch = e () => (v) { v = Neg(y) }>
}"""
X = np.array([[1, -2, 3, 0.5], [2, 2, 0, -1]], np.float32)


def same(a, b):
    for condition in (True, False):
        feeds = {"x": X, "c": np.array(condition)}
        for p, q in zip(a.run(None, feeds), b.run(None, feeds), strict=True):
            np.testing.assert_array_equal(p, q)
    assert (a.get_inputs(), a.get_outputs()) == (b.get_inputs(), b.get_outputs())


def test_a_pickle_is_the_same_model():
    model = loaded(TEXT)
    same(pickle.loads(pickle.dumps(model)), model)


def test_a_file_is_the_same_model(tmp_path):
    model = loaded(TEXT)
    model.save(tmp_path / "model.i8")
    same(int8blas.load(tmp_path / "model.i8"), model)
    int8blas.save(tmp_path / "two.i8", {"models": [model, model]})
    same(int8blas.load(tmp_path / "two.i8")["models"][1], model)


def test_products_of_floats_have_the_same_bits(tmp_path):
    """Unpickled and mapped arrays have other dtype objects than NumPy's, for constants and for feeds."""
    rng = np.random.default_rng(0)
    x, w = (rng.normal(0, 1, (64, 64)).astype(np.float32) for _ in range(2))
    text = (
        "g (float[n, 64] x) => (float[n, 64] y) { s = MatMul(x, w) t = Sigmoid(s) m = Transpose(t) y = MatMul(t, m) }"
    )
    model = loaded(text, constants={"w": w})
    (wanted,) = model.run(None, {"x": x})
    model.save(tmp_path / "m.i8")
    for other in (pickle.loads(pickle.dumps(model)), int8blas.load(tmp_path / "m.i8"), model):
        for feed in (x, pickle.loads(pickle.dumps(x))):
            np.testing.assert_array_equal(other.run(None, {"x": feed})[0], wanted)


def test_a_file_runs_without_the_package_onnx(tmp_path):
    loaded(TEXT).save(tmp_path / "model.i8")
    code = f"""import sys; sys.modules['onnx'] = None
import numpy as np, int8blas
model = int8blas.load({str(tmp_path / "model.i8")!r})
print(model.run(["y"], {{"x": np.zeros((1, 4), np.float32), "c": np.array(True)}})[0].tolist())"""
    assert run_python("-c", code).stdout.strip() == "[[0.0, 0.0]]"


def test_values_that_are_no_network_are_refused():
    with pytest.raises(ValueError, match="network must be the stored values of a network, got others"):
        network_of({"opsets": {}})
    values = plain(read(model_of(TEXT)))
    values["graph"]["nodes"][0][0] = "Nothing"
    with pytest.raises(ValueError, match="operators must be in the table"):
        int8blas.onnx.model.restored(values)


def test_explain_tells_each_call_and_its_time():
    model = loaded(TEXT)
    calls = model.explain()
    assert [tuple(call) for call in calls] == [
        ("y", "int8blas.DynamicMatMul", "int8", None, ("q", "sums", "real", "scale", "y"), ""),
        ("z", "If", "other", None, ("z",), ""),
        ("u", "LeakyRelu", "other", None, ("u",), ""),
        ("v", "Neg", "other", None, ("v",), ""),
    ]  # fmt: skip
    timed = model.explain({"x": X, "c": np.array(True)})
    assert [call[:3] for call in timed] == [call[:3] for call in calls]
    assert all(call.seconds > 0 for call in timed[:3])
    assert timed[3].seconds == 0  # the branch that the run skips
    lines = str(timed).splitlines()
    assert len(lines) == len({call.operator for call in calls})
    assert abs(sum(float(line.rsplit(maxsplit=1)[1].rstrip("%")) for line in lines) - 100) < 0.5
    assert "%" not in str(calls)


@pytest.mark.parametrize(("body", "reason"), [
    ("y = MatMul(x, w)", "none of its inputs is dequantized"),
    ("q = QuantizeLinear(x, s) d = DequantizeLinear(q, s) y = MatMul(d, w)", "not all of its inputs are dequantized"),
    ("q = QuantizeLinear(x, s) d = DequantizeLinear(q, s) m = MatMul(d, w) r = QuantizeLinear(m, s) "
     "y = DequantizeLinear(r, s)", "not all of its inputs are dequantized"),
    ("q = Cast<to = 2>(x) u = Cast<to = 2>(w) m = MatMulInteger(q, u) y = Cast<to = 1>(m)", "its sums are not made"),
])  # fmt: skip
def test_explain_says_why_a_product_is_not_of_bytes(body, reason):
    model = loaded(f"g (float[n, 4] x, float[4, 2] w) => (float y) <float s = {{0.5}}> {{ {body} }}")
    calls = model.explain()
    (call,) = [call for call in calls if call.operator.startswith("MatMul")]
    assert call.reason.startswith(reason)
    assert f"not in bytes:\n    1  {call.operator}: {reason}" in str(calls)
    assert not any(other.reason for other in calls if other is not call)


def test_explain_names_the_nodes_of_a_table_and_of_a_chain():
    text = """g (uint8[4] q, float[4] x) => (uint8 y, float z) <float s = {0.5}, uint8 o = {3}> {
        a = DequantizeLinear(q, s, o) b = Relu(a) c = Neg(b) y = QuantizeLinear(c, s, o) d = Abs(x) z = Tanh(d) }"""
    calls = {call.operator: call.nodes for call in loaded(text).explain()}
    assert calls == {"int8blas.Table": ("a", "b", "c", "y"), "int8blas.Chain": ("d", "z")}


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "int8blas", "onnx", *arguments], capture_output=True, text=True)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "model.onnx").write_bytes(model_of(TEXT).SerializeToString())
    return str(tmp_path / "model.onnx")


def test_the_command_says_what_a_file_is(file):
    done = command(file, "--size", "n=3", "--bench", "0.05")
    assert done.returncode == 0, done.stderr
    for part in ("input   x  tensor(float)  ['n', 4]", "output  z", "DynamicMatMul  int8", "int8blas: "):
        assert part in done.stdout


def test_the_command_takes_inputs_of_a_file(file, tmp_path):
    np.savez(tmp_path / "inputs.npz", x=X, c=np.array(False))
    assert command(file, "--inputs", str(tmp_path / "inputs.npz")).returncode == 0
    np.savez(tmp_path / "inputs.npz", x=X)
    done = command(file, "--inputs", str(tmp_path / "inputs.npz"))
    assert (done.returncode, done.stderr.strip()) == (
        1,
        f"{file}: feeds must have ['x', 'c'], got ['x']: ['c'] missing",
    )


def test_the_command_says_what_is_wrong_in_one_line(tmp_path):
    done = command(str(tmp_path / "missing.onnx"))
    assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (1, 1, "")
    assert command(str(tmp_path / "missing.onnx"), "--size", "n").returncode == 2


@pytest.mark.skipif(not find_spec("onnxruntime"), reason="needs onnxruntime")
def test_the_command_compares_with_onnxruntime(file):
    done = command(file, "--compare", "--bench", "0.05")
    assert done.returncode == 0, done.stderr
    for part in ("output y: largest value", "    onnxruntime, exact: largest difference", "onnxruntime: "):
        assert part in done.stdout
