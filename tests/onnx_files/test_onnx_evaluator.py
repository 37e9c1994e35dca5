"""new_ops: onnx's evaluator gives the same results as a model."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import loaded, model_of

import int8blas.onnx

BODIES = {
    "QuantizeLinear": "y = QuantizeLinear(x, s, z)",
    "DynamicQuantizeLinear": "q, t, u = DynamicQuantizeLinear(x) y = DequantizeLinear(q, t, u)",
    "MatMulInteger": "q = QuantizeLinear(x, s, z) y = MatMulInteger(q, w, z)",
    "QLinearMatMul": "q = QuantizeLinear(x, s, z) y = QLinearMatMul(q, s, z, w, s, v, s, z)",
    "ConvInteger": "q = QuantizeLinear(x, s, z) r = Reshape(q, shape) c = Reshape(w, kernel) y = ConvInteger(r, c, z)",
    "DynamicQuantizeMatMul": "y = com.microsoft.DynamicQuantizeMatMul(x, w, s)",
    "QLinearSigmoid": "q = QuantizeLinear(x, s, z) y = com.microsoft.QLinearSigmoid(q, s, z, s, z)",
}


@pytest.mark.parametrize("name", BODIES)
def test_the_evaluator_of_onnx_gives_the_bits_of_a_model(name):
    text = f"""g (float[4, 6] x) => (y) <float s = {{0.03}}, uint8 z = {{119}}, int8 v = {{0}}, int8[6, 3] w =
        {{{", ".join(str(7 * i % 255 - 127) for i in range(18))}}}, int64[4] shape = {{1, 1, 4, 6}},
        int64[4] kernel = {{2, 1, 3, 3}}> {{ {BODIES[name]} }}"""
    x = np.random.default_rng(0).normal(0, 1, (4, 6)).astype(np.float32)
    (wanted,) = loaded(text, microsoft=True).run(None, {"x": x})
    (y,) = ReferenceEvaluator(model_of(text, microsoft=True), new_ops=int8blas.onnx.new_ops()).run(None, {"x": x})
    assert y.dtype == wanted.dtype
    np.testing.assert_array_equal(y, wanted)
