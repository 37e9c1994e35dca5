"""A wrong argument of RNN, LSTM or GRU raises an error that names it, and nothing is written."""

import re

import numpy as np
import pytest
from errors import read_only

from int8blas import GRU, LSTM, RNN

C, U, T, N = 5, 6, 3, 2


def s8(*shape):
    return np.ones(shape, np.int8)


def u8(*shape):
    return np.ones(shape, np.uint8)


def f32(*shape):
    return np.ones(shape, np.float32)


def refused(error, text):
    """A context in which exactly this error must be raised."""
    return pytest.raises(error, match=f"^{re.escape(text)}")


# --- at creation -----------------------------------------------------------------------------------------------------

DEFAULTS = {"weights_layer": s8(C, 4, U), "weights_iter": s8(U, 4, U), "weights_scale": 100}
CREATION = [
    # weights
    ({"weights_layer": s8(C, 4)}, ValueError,
     "weights_layer must have shape (input, gates, units), (directions, input, gates, units) or (layers, directions, "
     "input, gates, units), got (5, 4)"),
    ({"weights_layer": s8(1, 1, 1, C, 4, U)}, ValueError, "weights_layer must have shape (input, gates, units), "),
    ({"weights_layer": None}, TypeError, "weights_layer must be an array, got None"),
    ({"weights_layer": [s8(C, 4)]}, ValueError,
     "weights_layer must have an array of shape (input, gates, units) or (directions, input, gates, units) for each "
     "layer, got shapes [(5, 4)]"),
    ({"weights_layer": []}, ValueError, "weights_layer must have an array of shape (input, gates, units) or "),
    ({"weights_layer": s8(C, 3, U)}, ValueError,
     "weights_layer must have shape (5, 4, 6) in each layer and direction, got (5, 3, 6)"),
    ({"weights_layer": s8(C, 4, U + 1)}, ValueError,
     "weights_layer must have shape (5, 4, 6) in each layer and direction, got (5, 4, 7)"),
    ({"weights_layer": [s8(C, 4, U), s8(C, 4, U)], "weights_iter": s8(2, 1, U, 4, U)}, ValueError,
     "weights_layer must have shape (6, 4, 6) in each layer and direction, got (5, 4, 6)"),
    ({"weights_layer": s8(2, C, 4, U)}, ValueError,
     "weights_layer must have 1 directions, as direction says, got 2"),
    ({"direction": "bidirectional_sum"}, ValueError,
     "weights_layer must have 2 directions, as direction says, got 1"),
    ({"weights_layer": u8(C, 4, U)}, TypeError,
     "weights_layer must be int8 or float32, got uint8: weights of a uint8 state are signed"),
    ({"weights_layer": s8(C, 4, U).astype(int)}, TypeError, "weights_layer must be int8 or float32, got int64: "),
    ({"weights_layer": [s8(C, 4, U), f32(U, 4, U)], "weights_iter": s8(2, 1, U, 4, U)}, TypeError,
     "weights_layer must have the same dtype in all layers, got int8 and float32"),
    ({"weights_layer": f32(C, 4, U) * np.nan, "weights_iter": f32(U, 4, U)}, ValueError,
     "weights_layer must be finite"),
    ({"weights_iter": s8(U, 4)}, ValueError,
     "weights_iter must have shape (units, gates, units), (directions, units, "),
    ({"weights_iter": s8(U + 1, 4, U)}, ValueError,
     "weights_layer must have shape (5, 4, 7) in each layer and direction, got (5, 4, 6)"),
    ({"weights_iter": s8(U, 4, U + 1)}, ValueError,
     "weights_iter must have shape (6, 4, 6) in each layer and direction, got (6, 4, 7)"),
    ({"weights_iter": s8(2, 1, U, 4, U)}, ValueError, "weights_iter must have 1 layers, as weights_layer has, got 2"),
    ({"weights_iter": s8(2, U, 4, U)}, ValueError, "weights_iter must have 1 directions, as direction says, got 2"),
    ({"weights_iter": f32(U, 4, U)}, TypeError, "weights_iter must be int8, got float32"),
    ({"weights_layer": s8(0, 4, U)}, ValueError,
     "weights_layer and weights_iter must have at least 1 input, unit, layer and direction, got [(0, 4, 6)] and "
     "[(6, 4, 6)]"),
    ({"weights_layer": s8(C, 4, 0), "weights_iter": s8(0, 4, 0)}, ValueError,
     "weights_layer and weights_iter must have at least 1 input, unit, layer and direction, got "),
    ({"weights_layer": s8(0, 1, C, 4, U), "weights_iter": s8(0, 1, U, 4, U)}, ValueError,
     "weights_layer and weights_iter must have at least 1 input, unit, layer and direction, got [] and []"),
    ({"weights_layer": s8(1, 0, C, 4, U)}, ValueError,
     "weights_layer and weights_iter must have at least 1 input, unit, layer and direction, got []"),
    ({"weights_layer": s8(131072, 4, 1), "weights_iter": s8(1, 4, 1)}, ValueError,
     "weights_layer and weights_iter must have at most 131071 inputs and units together, so that sums fit int32, got "
     "131073"),
    ({"weights_layer": s8(65793, 4, 1), "weights_iter": s8(1, 4, 1), "data_shift": 0}, ValueError,
     "weights_layer and weights_iter must have at most 65793 inputs and units together, so that sums fit int32, got "
     "65794"),
    # bias
    ({"bias": f32(U)}, ValueError, "bias must have shape (gates, units), (directions, gates, units) or (layers, "),
    ({"bias": f32(3, U)}, ValueError, "bias must have shape (4, 6) in each layer and direction, got (3, 6)"),
    ({"bias": f32(2, 4, U)}, ValueError, "bias must have 1 directions, as direction says, got 2"),
    ({"bias": [f32(4, U)] * 2}, ValueError, "bias must have 1 layers, as weights_layer has, got 2"),
    ({"bias": s8(4, U)}, TypeError, "bias must be float32, got int8"),
    ({"bias": f32(4, U) * np.inf}, ValueError, "bias must be finite"),
    # scales
    ({"weights_scale": None}, ValueError,
     "weights_scale must be values that broadcast to (1, 1, 4, 6) for weights of int8, got None"),
    ({"weights_scale": "per_tensor"}, TypeError,
     "weights_scale must be values that broadcast to (1, 1, 4, 6) for weights of int8, got 'per_tensor'"),
    ({"weights_layer": f32(C, 4, U), "weights_iter": f32(U, 4, U), "weights_scale": None}, ValueError,
     "weights_scale must be 'per_tensor', 'per_channel' or values for weights of float32, got None"),
    ({"weights_layer": f32(C, 4, U), "weights_iter": f32(U, 4, U), "weights_scale": "per_gate"}, ValueError,
     "weights_scale must be 'per_tensor', 'per_channel' or values, got 'per_gate'"),
    ({"weights_scale": 0}, ValueError, "weights_scale must be finite and not 0 in float32"),
    ({"weights_scale": 1e39}, ValueError, "weights_scale must be finite and not 0 in float32"),
    ({"weights_scale": np.nan}, ValueError, "weights_scale must be finite and not 0 in float32"),
    ({"weights_scale": 1j}, TypeError, "weights_scale must be values that broadcast to (1, 1, 4, 6), got complex128"),
    ({"weights_scale": f32(U, 4)}, ValueError,
     "weights_scale must have a shape that broadcasts to (1, 1, 4, 6), got (6, 4)"),
    ({"weights_scale": 1e38}, ValueError, "weights_scale times data_scale must have a reciprocal in float32, got "),
    ({"weights_scale": 1e-38, "data_scale": 1e-6}, ValueError,
     "weights_scale times data_scale must have a reciprocal in float32, got "),
    ({"data_scale": 0}, ValueError, "data_scale must be finite and not 0 in float32, got 0"),
    ({"data_scale": 1e-39}, ValueError, "data_scale must be more than 2**-128, whose reciprocal is not finite in "),
    ({"data_scale": "127"}, TypeError, "data_scale must be a real number, got str"),
    ({"data_scale": [1, 2]}, ValueError, "data_scale must be one value, got an array of shape (2,)"),
    ({"data_shift": -1}, ValueError, "data_shift must be between 0 and 255, got -1"),
    ({"data_shift": 256}, ValueError, "data_shift must be between 0 and 255, got 256"),
    ({"data_shift": 1.5}, TypeError, "data_shift must be an integer, got float"),
    ({"data_shift": [1, 2]}, ValueError, "data_shift must be one integer, got an array of shape (2,)"),
    # other arguments
    ({"direction": "forward"}, ValueError,
     "direction must be 'left2right', 'right2left', 'bidirectional_concat' or 'bidirectional_sum', got 'forward'"),
    ({"src_dtype": np.int8}, TypeError, "src_dtype must be uint8, float32, float16 or bfloat16, got int8"),
    ({"src_dtype": "what"}, TypeError, "src_dtype must be uint8, float32, float16 or bfloat16, got 'what'"),
    ({"dst_dtype": np.int8}, TypeError, "dst_dtype must be uint8 or float32, got int8"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "text"), CREATION)
def test_creation(changes, error, text):
    with refused(error, text):
        LSTM(**DEFAULTS | changes)


def test_creation_of_a_gru():
    weights = {"weights_layer": s8(C, 3, U), "weights_iter": s8(U, 3, U), "weights_scale": 100}
    with refused(TypeError, "linear_before_reset must be a bool, got int"):
        GRU(**weights, linear_before_reset=1)
    with refused(ValueError, "bias must have shape (4, 6) in each layer and direction, got (3, 6)"):
        GRU(**weights, bias=f32(3, U), linear_before_reset=True)
    with refused(ValueError, "bias must have shape (3, 6) in each layer and direction, got (4, 6)"):
        GRU(**weights, bias=f32(4, U))
    with refused(ValueError, "weights_layer must have shape (5, 3, 6) in each layer and direction, got (5, 4, 6)"):
        GRU(**weights | {"weights_layer": s8(C, 4, U)})


def test_creation_of_a_layer_without_gates():
    weights = {"weights_layer": s8(C, 1, U), "weights_iter": s8(U, 1, U), "weights_scale": 100}
    with refused(ValueError, "activation must be 'relu', 'tanh' or 'logistic', got 'elu'"):
        RNN(**weights, activation="elu")
    with refused(ValueError, "alpha must not be given for activation 'tanh', got 0.5"):
        RNN(**weights, alpha=0.5)
    with refused(TypeError, "alpha must be a real number, got str"):
        RNN(**weights, activation="relu", alpha="0")
    for alpha in (np.nan, np.inf, 1e39):
        with refused(ValueError, "alpha must be finite in float32, got "):
            RNN(**weights, activation="relu", alpha=alpha)
    assert RNN(**weights, activation="relu", alpha=np.float16(0.5)).alpha == 0.5
    with refused(ValueError, "weights_layer must have shape (5, 1, 6) in each layer and direction, got (5, 4, 6)"):
        RNN(**weights | {"weights_layer": s8(C, 4, U)})


PEEPHOLES_AND_PROJECTIONS = [
    ({"weights_peephole": f32(4, U)}, ValueError,
     "weights_peephole must have shape (3, 6) in each layer and direction, got (4, 6)"),
    ({"weights_peephole": s8(3, U)}, TypeError, "weights_peephole must be float32, got int8"),
    ({"weights_peephole": f32(3, U) * np.nan}, ValueError, "weights_peephole must be finite in float32"),
    ({"projection_scale": 1}, ValueError, "projection_scale must not be given without weights_projection"),
    ({"weights_projection": s8(U, 2), "projection_scale": 1}, ValueError,
     "weights_iter must have shape (2, 4, 6) in each layer and direction, got (6, 4, 6)"),
    ({"weights_projection": s8(U, U)}, ValueError,
     "projection_scale must be values that broadcast to (1, 1, 6) for weights of int8, got None"),
    ({"weights_projection": s8(U, U), "projection_scale": 0}, ValueError,
     "projection_scale must be finite and not 0 in float32"),
    ({"weights_projection": s8(U, U), "projection_scale": 1e38}, ValueError,
     "projection_scale times data_scale must have a reciprocal in float32, got "),
    ({"weights_projection": u8(U, U), "projection_scale": 1}, TypeError,
     "weights_projection must be int8 or float32, got uint8: weights of a uint8 state are signed"),
    ({"weights_projection": s8(U, 0), "projection_scale": 1}, ValueError,
     "weights_projection must have at least 1 unit, output, layer and direction, got [(6, 0)]"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "text"), PEEPHOLES_AND_PROJECTIONS)
def test_peepholes_and_projections(changes, error, text):
    with refused(error, text):
        LSTM(**DEFAULTS | changes)


ATTENTION = [
    (u8(T, N, 2), ValueError, "attention must have shape (3, 2) or (3, 2, 1), got (3, 2, 2)"),
    (u8(T), ValueError, "attention must have shape (3, 2) or (3, 2, 1), got (3,)"),
    (s8(T, N), TypeError, "attention must be uint8, float32, float16 or bfloat16, got int8"),
]


@pytest.mark.parametrize(("attention", "error", "text"), ATTENTION)
def test_attention(attention, error, text):
    layer = GRU(s8(C, 3, U), s8(U, 3, U), weights_scale=100)
    out = np.full((T, N, U), 7, np.uint8)
    with refused(error, text):
        layer(u8(T, N, C), attention=attention, out=out)
    assert (out == 7).all()


def test_the_largest_sums_that_fit():
    LSTM(s8(131070, 4, 1), s8(1, 4, 1), weights_scale=1)
    LSTM(s8(65792, 4, 1), s8(1, 4, 1), weights_scale=1, data_shift=255)


# --- at execution ----------------------------------------------------------------------------------------------------

EXECUTION = [
    ({"src": u8(T, C)}, ValueError, "src must have shape (t, n, 5), got (3, 5)"),
    ({"src": u8(T, N, C + 1)}, ValueError, "src must have shape (t, n, 5), got (3, 2, 6)"),
    ({"src": s8(T, N, C)}, TypeError, "src must be uint8, got int8"),
    ({"src": f32(T, N, C)}, TypeError, "src must be uint8, got float32"),
    ({"src": None}, TypeError, "src must be an array, got None"),
    ({"h0": u8(N, U)}, ValueError,
     "h0 must have shape (2, 1, 2, 6), where leading dimensions of size 1 may be omitted, got (2, 6)"),
    ({"h0": u8(2, 2, 1, U)}, ValueError, "h0 must have shape (2, 1, 2, 6), where leading dimensions of size 1"),
    ({"h0": s8(2, 1, N, U)}, TypeError, "h0 must be uint8, float32, float16 or bfloat16, got int8"),
    ({"h0": 0}, TypeError, "h0 must be uint8, float32, float16 or bfloat16, got int64"),
    ({"c0": u8(2, 1, N, U)}, TypeError, "c0 must be float32, float16 or bfloat16, got uint8"),
    ({"c0": f32(2, 1, N, U + 1)}, ValueError, "c0 must have shape (2, 1, 2, 6), where leading dimensions of size 1"),
    ({"lengths": [3, 3, 3]}, ValueError,
     "lengths must be one integer or 2 (sequences of src), got an array of shape (3,)"),
    ({"lengths": [[3, 3]]}, ValueError,
     "lengths must be one integer or 2 (sequences of src), got an array of shape (1, 2)"),
    ({"lengths": [3, 4]}, ValueError, "lengths must be between 0 and 3, got 4"),
    ({"lengths": [-1, 3]}, ValueError, "lengths must be between 0 and 3, got -1"),
    ({"lengths": np.uint64([3, 2**64 - 1])}, ValueError, "lengths must be between 0 and 3, got 18446744073709551615"),
    ({"lengths": [3.0, 2.0]}, TypeError, "lengths must be an integer or a vector of integers, got float64"),
    ({"lengths": [True, True]}, TypeError, "lengths must be an integer or a vector of integers, got bool"),
    ({"out": np.empty((T, N, U + 1), np.uint8)}, ValueError, "out must have shape (3, 2, 6), got (3, 2, 7)"),
    ({"out": f32(T, N, U)}, TypeError, "out must be uint8, got float32"),
    ({"out": read_only(u8(T, N, U))}, ValueError, "out must be writeable, got a read-only array"),
    ({"out": [[[0]]]}, TypeError, "out must be an ndarray of uint8, or share its memory with NumPy, got list"),
    ({"out": np.lib.stride_tricks.as_strided(u8(U), (T, N, U), (0, 0, 1))}, ValueError,
     "out must have elements that do not overlap, got strides (0, 0, 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "text"), EXECUTION)
def test_execution(changes, error, text):
    layer = LSTM([s8(C, 4, U), s8(U, 4, U)], s8(2, 1, U, 4, U), weights_scale=100)
    out = np.full((T, N, U), 7, np.uint8)
    with refused(error, text):
        layer(**{"src": u8(T, N, C), "out": out} | changes)
    assert (out == 7).all()


def test_arguments_by_name_only_or_not_at_all():
    with pytest.raises(TypeError):
        LSTM(s8(C, 4, U), s8(U, 4, U), None, 127)
    with pytest.raises(TypeError):
        GRU(s8(C, 3, U), s8(U, 3, U), weights_scale=1)(u8(T, N, C), c0=f32(N, U))


@pytest.mark.parametrize("name", ["layers", "units", "direction", "data_scale", "data_shift", "src_dtype", "other"])
def test_a_layer_has_no_attribute_that_can_be_assigned(name):
    layer = LSTM(**DEFAULTS)
    with pytest.raises(AttributeError):
        setattr(layer, name, None)
