"""onnx's own tests of every operator in the table."""

import numpy as np
import onnx
import pytest
from onnx_models import as_value, check, loaded, node_modules, node_tests

import int8blas.onnx
from int8blas.core.arrays import bfloat16_dtype
from int8blas.onnx.operators import TABLE

# Operators without a test of one node in onnx, or only with types that NumPy lacks.
WITHOUT = {
    "Constant", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "SequenceConstruct",
    "SequenceEmpty", "SequenceErase", "SequenceAt", "SequenceLength", "ConcatFromSequence", "OptionalGetElement",
    "Bernoulli",
}  # fmt: skip
SKIPPED = {
    # training, which load does not do
    "test_training_dropout_default", "test_training_dropout_default_mask", "test_training_dropout",
    "test_training_dropout_mask", "test_training_dropout_zero_ratio", "test_training_dropout_zero_ratio_mask",
    # random numbers
    "test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed",
    # NumPy has no einsum of bfloat16
    "test_einsum_sum_bfloat16",
    # types among its constants that NumPy does not have
    "test_if_opt",
}  # fmt: skip


@pytest.mark.parametrize("operator", sorted(name for domain, name in TABLE.rows if not domain))
def test_an_operator_passes_the_tests_of_onnx(operator):
    cases = [case for case in node_tests(operator) if case.name not in SKIPPED]
    if not cases:
        assert operator in WITHOUT or operator.lower() not in node_modules()
    for case in cases:
        try:
            check(case)
        except BaseException as error:
            error.add_note(case.name)
            raise


# QuantizeLinear divides in its scale's type; onnx's tests of Attention round 16-bit floats between steps.
ROUNDED_BETWEEN = {"QuantizeLinear", "Attention"}
FLOAT = onnx.TensorProto.FLOAT


def in_short_floats(case, number):
    """Return the model of a node test with 16-bit floats instead of float32; None if the operator does not support
    them.
    """
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for port in (*model.graph.input, *model.graph.output):
        if port.type.HasField("tensor_type") and port.type.tensor_type.elem_type == FLOAT:
            port.type.tensor_type.elem_type = number
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return model


def check_short(case, short):
    """Check that results of 16-bit floats equal float32 results, rounded to the output's type."""
    given = [as_value(data) for data in case.data_sets[0][0]]
    given = [np.asarray(x) if isinstance(x, np.generic) else x for x in given]
    floats = [isinstance(x, np.ndarray) and x.dtype == np.float32 for x in given]
    model = in_short_floats(case, onnx.helper.np_dtype_to_tensor_dtype(short)) if any(floats) else None
    if model is None:
        return
    given = [x.astype(short) if is_float else x for x, is_float in zip(given, floats, strict=True)]
    same = [x.astype(np.float32) if is_float else x for x, is_float in zip(given, floats, strict=True)]
    names = [port.name for port in model.graph.input]
    results = int8blas.onnx.load(model).run(None, dict(zip(names, given, strict=True)))
    wanted = int8blas.onnx.load(case.model).run(None, dict(zip(names, same, strict=True)))
    for result, want, port in zip(results, wanted, model.graph.output, strict=True):
        if isinstance(want, np.ndarray):
            dtype = onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
            assert result.dtype == dtype
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(result.astype(np.float64), want.astype(dtype).astype(np.float64))


@pytest.mark.parametrize(
    "operator", sorted(name for domain, name in TABLE.rows if not domain and name not in ROUNDED_BETWEEN)
)
def test_an_operator_computes_in_float32_and_rounds_16_bit_floats_once(operator):
    """Sums then neither lose digits nor overflow."""
    for case in node_tests(operator):
        for short in (np.dtype(np.float16), np.dtype(bfloat16_dtype())):
            try:
                if case.name not in SKIPPED:
                    check_short(case, short)
            except BaseException as error:
                error.add_note(f"{case.name} in {short}")
                raise


@pytest.mark.parametrize(("text", "inputs", "results"), [
    *((f"y = {name}<noop_with_empty_axes = 1, keepdims = {keep}>(x)", [[[-3.0, 4]]], [[[result, 4]]])
      for name, result in (("ReduceMax", -3), ("ReduceMean", -3), ("ReduceL1", 3)) for keep in (0, 1)),
    ("y = ReduceMean<noop_with_empty_axes = 1>(x)", [4.0], [4]),
    ("y = ReduceMean<keepdims = 0>(x, i)", [[-3.0, 4], np.zeros(1, np.int64)], [0.5]),
    ("y = Erf(x)", [0.0], [0]),
    ("y, a = MaxPool<kernel_shape = [3], dilations = [2], strides = [2]>(x)", [np.zeros((1, 1, 4))],
     [np.zeros((1, 1, 0))] * 2),
    ("y = Clip(x, o, o)", [[-1.0, 3, np.nan]], [[1, 1, np.nan]]),
    ("y = CumSum<exclusive = 1>(x, i)", [np.ones((2, 0)), np.int64(1)], [np.ones((2, 0))]),
    ("y = NonZero(x)", [7.0], [np.empty((0, 1))]),
    ("y = NonZero(x)", [0.0], [np.empty((0, 0))]),
    ("y, a, b, c = Unique<sorted = 0>(x)", [[[5.0, 5, 2], [7, 2, 5]]],
     [[5, 2, 7], [0, 2, 3], [0, 0, 1, 2, 1, 0], [3, 2, 1]]),
    ("y, a, b, c = Unique<sorted = 0, axis = 1>(x)", [[[5.0, 2, 5], [1, 3, 1]]],
     [[[5, 2], [1, 3]], [0, 1], [0, 1, 0], [2, 1]]),
    ("y, a, b, c = Unique<axis = -1>(x)", [[[5.0, 2, 5], [1, 3, 1]]], [[[2, 5], [3, 1]], [1, 0], [1, 0, 1], [1, 2]]),
])  # fmt: skip
def test_cases_that_onnx_does_not_test(text, inputs, results):
    names = ["y", "a", "b", "c"][: len(results)]
    given = {"x": np.asarray(inputs[0], np.float32), "i": inputs[-1]}
    ports = "float x, int64 i" if "i)" in text else "float x"
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18]> g ({ports}) => ({", ".join(f"float {name}" for name in names)})'
        f"{{ {text} }}"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1, np.float32), "o"))
    for port in model.graph.input:
        port.type.tensor_type.ClearField("shape")
    found = int8blas.onnx.load(model).run(None, {port.name: given[port.name] for port in model.graph.input})
    for result, wanted in zip(found, results, strict=True):
        np.testing.assert_array_equal(result, wanted, strict=False)


@pytest.mark.parametrize("text", ["y = Resize<axes = [3]>(x, , f)", "y = ReduceMean(x, i)"])
def test_axes_that_do_not_exist_are_refused(text):
    model = loaded(f"g (float[a,b,c] x, float[k] f, int64[k] i) => (float y) {{ {text} }}")
    with pytest.raises(ValueError, match=r"IndexError|AxisError"):
        model.run(None, {"x": np.ones((2, 3, 4), np.float32), "f": np.ones(1, np.float32), "i": np.array([5])})
