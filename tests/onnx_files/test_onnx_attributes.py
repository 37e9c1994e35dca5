"""Attributes that an operator lacks, or of another type or value than it takes, are refused when a file is loaded."""

import inspect
import subprocess
import sys

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx_models import loaded, model_of

import int8blas.onnx
from int8blas.onnx.operators import TABLE
from int8blas.onnx.schemas import declared_attributes
from int8blas.onnx.table import MICROSOFT, NAMES, attributes_of

# Attributes of onnxruntime's operators that their specification says nothing uses, or that only other devices use.
UNUSED = {"do_rotary", "past_present_share_buffer", "rotary_embedding_dim"}
# Attributes of newer versions of operators that one function computes in both domains, or that no file has.
OURS = {"float_steps", "outputs", "matrix", "saturate", "precision", "block_size", "output_dtype", "batch_dims",
        "transBatchA", "transBatchB", "storage_order"}  # fmt: skip


def node(text, **options):
    return loaded(f"g (float[1,2,6,6] x, float[2,2,3,3] w) => (y) {{ {text} }}", **options)


@pytest.mark.parametrize(("text", "options", "message"), [
    ("y = Softmax<axes = [1]>(x)", {}, r"node 'y' \(Softmax\) must have .* in version 18, axis, got axes"),
    ("y = Relu<alpha = 1.0>(x)", {}, r"node 'y' \(Relu\) must have .* in version 18, none, got alpha"),
    ("y = Clip<min = 0.0>(x)", {}, r"\(Clip\) must have .* in version 18, none, got min"),
    ("y = Shape<start = 1>(x)", {"opset": 13}, r"\(Shape\) must have .* in version 13, none, got start"),
    ("y = ReduceSum<axes = [1]>(x)", {"opset": 13}, r"must have .*keepdims.*, got axes"),
    ("y = Concat(x, x)", {}, r"node 'y' \(Concat\) must have attribute 'axis', got none"),
    ("y = Concat<axis = 1.5>(x, x)", {}, r"attribute 'axis' of node 'y' \(Concat\) must be an integer, got a number"),
    ("y = LeakyRelu<alpha = 1>(x)", {}, r"attribute 'alpha' of .*LeakyRelu.* must be a number, got an integer"),
    ('y = Conv<group = "two">(x, w)', {}, r"attribute 'group' of .* must be an integer, got a string"),
    ("y = Conv<pads = [0.5]>(x, w)", {}, r"attribute 'pads' of .* must be integers, got numbers"),
    ('y = Conv<auto_pad = "SAME">(x, w)', {}, r"'auto_pad' of .*Conv.* must be one of NOTSET, .*, got 'SAME'"),
    ('y = AveragePool<kernel_shape = [2, 2], auto_pad = "FULL">(x)', {}, r"'auto_pad' of .* one of .*, got 'FULL'"),
    ('y = Gelu<approximate = "erf">(x)', {"opset": 20}, r"'approximate' of .* must be one of none, tanh, got 'erf'"),
    ('y = DepthToSpace<blocksize = 1, mode = "DRC">(x)', {}, r"'mode' of .* must be one of DCR, CRD, got 'DRC'"),
    ('y = Resize<mode = "area">(x, , s)', {}, r"'mode' of .*Resize.* one of nearest, linear, cubic, got 'area'"),
    ('y = Resize<keep_aspect_ratio_policy = "larger">(x, , s)', {}, r"one of stretch, .*, got 'larger'"),
    ('y = NegativeLogLikelihoodLoss<reduction = "max">(x, w)', {}, r"'reduction' of .* of none, sum, mean, got 'max'"),
    ('y = com.microsoft.FusedMatMul<alpha = "x">(x, x)', {}, r"'alpha' of .* must be a number, got 'x'"),
    ("y = com.microsoft.FusedConv<groups = 2>(x, w)", {}, r"FusedConv.* must have attributes .*, got groups"),
    ('y = com.microsoft.FusedConv<auto_pad = "FULL">(x, w)', {}, r"'auto_pad' of .* one of NOTSET, .*, got 'FULL'"),
    ("y = com.microsoft.MultiHeadAttention(x, x, x)", {}, r"must have attribute 'num_heads', got none"),
])  # fmt: skip
def test_wrong_attributes_are_refused(text, options, message):
    text = f"s = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>() {text}" if "Resize" in text else text
    with pytest.raises(ValueError, match=message):
        node(text, microsoft="com.microsoft" in text, **options)


@pytest.mark.parametrize(("graph", "message"), [
    ("(float[4] x) => (a, b) { a, b = Split<num_outputs = 3>(x) }", "num_outputs must be 2, .*, got 3"),
    ("(float[4] x) => (a, b, c) { a, b, c = Split<num_outputs = 2>(x) }", "num_outputs must be 3, .*, got 2"),
    ("(float[4] x) => (y) <int64[4] t = {0, 1, 0, 1}> { y = NegativeLogLikelihoodLoss(x, t) }", "invalid for its oper"),
])  # fmt: skip
def test_attributes_and_inputs_that_a_run_finds_wrong(graph, message):
    model = loaded("g " + graph)
    with pytest.raises(ValueError, match=message) as caught:
        model.run(None, {"x": np.ones(4, np.float32)})
    assert caught.value.__notes__


def test_stored_schemas_are_onnxs():
    """The attributes that the package stores are the attributes of onnx.defs, in each version that the table has."""
    checked = 0
    for schema in onnx.defs.get_all_schemas_with_history():
        rows = TABLE.rows.get((schema.domain, schema.name), ()) if schema.domain == "" and not schema.deprecated else ()
        if any(row.since <= schema.since_version <= row.until for row in rows):
            wanted = {name: (int(each.type), each.required) for name, each in schema.attributes.items()}
            assert declared_attributes(schema.name, schema.since_version) == wanted, (schema.name, schema.since_version)
            checked += 1
    assert checked > 300


@pytest.mark.parametrize("body", ["y = Relu(x)", "y = LayerNormalization(x, x)"])
def test_files_do_not_register_onnxs_schemas(body):
    """onnxruntime writes LayerNormalization in versions before ONNX's."""
    text = f"g (float[n] x) => (y) {{ {body} }}"
    code = f"""
import onnx, int8blas.onnx
onnx.defs.get_schema = None
int8blas.onnx.load(bytes.fromhex({model_of(text, opset=13).SerializeToString().hex()!r}))
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_attributes_in_branches_are_checked():
    text = """g (float[n] x) => (y) { t = Constant<value = bool {1}>() y = If(t)
        <then_branch = a () => (c) { c = Neg<alpha = 1.0>(x) }, else_branch = b () => (d) { d = Exp(x) }> }"""
    with pytest.raises(ValueError, match=r"node 'c' \(Neg\) must have attributes .*, none, got alpha"):
        int8blas.onnx.load(model_of(text))


def test_onnxruntime_operators_take_the_attributes_of_their_schemas():
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    schemas = {each.name: each for each in state.get_all_operator_schema() if each.domain == MICROSOFT}
    kinds = {"INT": int, "FLOAT": float, "STRING": str}
    rows = {row.name: row for rows in TABLE.rows.values() for row in rows if row.domain == MICROSOFT}
    compared = 0
    for name, row in rows.items():
        known, schema = attributes_of(row.function), schemas[name]
        declared = schema.attributes
        if name != "GroupQueryAttention":  # an error lists the attributes that its row lacks
            assert set(declared) - known.keys() <= UNUSED, name
        keywords = {each for each, parameter in known.items() if parameter.kind == parameter.KEYWORD_ONLY}
        assert keywords - set(declared) <= OURS, name
        for each in keywords & set(declared):
            default, kind = known[each].default, str(declared[each].type).rpartition(".")[2]
            if type(default) in NAMES:
                assert kinds.get(kind) is type(default), (name, each, kind)
            required = default is inspect.Parameter.empty
            # Without these attributes QLinearReduceMean has ReduceMean's defaults.
            assert required or not declared[each].required or name == "QLinearReduceMean", (name, each)
            compared += 1
    assert compared > 100


def test_attributes_that_a_row_takes_are_strings_of_the_declared_values():
    """Each default of ONNX's schemas is a value that the row's annotation allows."""
    compared = 0
    for schema in onnx.defs.get_all_schemas():
        for row in TABLE.rows.get(("", schema.name), ()) if schema.domain == "" else ():
            for name, attribute in schema.attributes.items():
                default = attribute.default_value.s.decode()
                if name in attributes_of(row.function) and default and row.until >= schema.since_version:
                    assert attributes_of(row.function)[name].default == default, (schema.name, name)
                    compared += 1
    assert compared > 10


def test_skips_longer_than_the_input_cost_no_time():
    """onnx's implementation would loop over all skips."""
    results = []
    for count in (3, 2**40):
        model = loaded(f"""g (int32[4] x) => (float[2] y) {{
            y = TfIdfVectorizer<mode = "TF", min_gram_length = 2, max_gram_length = 2, max_skip_count = {count},
                                ngram_counts = [0, 0], ngram_indexes = [0, 1], pool_int64s = [5, 6, 5, 7]>(x) }}""")
        results.append(model.run(None, {"x": np.array([5, 6, 5, 7], np.int32)})[0].tolist())
    assert results == [[1, 2]] * 2
