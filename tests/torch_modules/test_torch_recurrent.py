"""int8blas.torch: LSTM, GRU and RNN."""

import copy
import io
import pickle
import warnings

import numpy as np
import pytest

import int8blas

torch = pytest.importorskip("torch", reason="needs torch, the extra int8blas[torch]")
with warnings.catch_warnings():  # torch itself warns at import
    warnings.simplefilter("ignore")
    import int8blas.torch as i8
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
OPTIONS = [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False, "dropout": 0.0}]
LAYERS = [(kind, options) for kind in (nn.LSTM, nn.GRU, nn.RNN) for options in OPTIONS]
LAYERS += [
    (nn.LSTM, {"proj_size": 12, "num_layers": 2, "bidirectional": True}),
    (nn.LSTM, {"proj_size": 12, "bias": False}),
    (nn.RNN, {"nonlinearity": "relu"}),
]


@pytest.fixture(autouse=True)
def _start():
    torch.manual_seed(0)
    torch._dynamo.reset()


def error(result, expected):
    return float((result.detach().float() - expected.float()).norm() / expected.float().norm())


def flat(output):
    y, states = output
    y = y.data if isinstance(y, nn.utils.rnn.PackedSequence) else y
    return [y, *(states if isinstance(states, tuple) else (states,))]


def assert_near(found, wanted):
    for x, y in zip(flat(found), flat(wanted), strict=True):
        assert x.shape == y.shape
        assert 0 < error(x, y.detach()) < 0.03


@pytest.mark.parametrize(("kind", "options"), LAYERS)
def test_layers_are_near_the_float_ones(kind, options):
    float_layer = kind(40, 64, **options).eval()
    layer = i8.quantize_(copy.deepcopy(float_layer))
    assert isinstance(layer, i8.Int8Recurrent)
    with torch.no_grad():
        x = torch.randn(7, 5, 40)
        assert_near(layer(x), float_layer(x))
        states = [torch.randn_like(each) for each in flat(float_layer(x))[1:]]
        hx = tuple(states) if kind is nn.LSTM else states[0]
        assert_near(layer(x, hx), float_layer(x, hx))
        assert_near(layer(x[0]), float_layer(x[0]))
        first = tuple(each[:, 0] for each in states)
        first = first if kind is nn.LSTM else first[0]
        assert_near(layer(x[0], first), float_layer(x[0], first))
        y, _ = layer(x.bfloat16())
        assert y.dtype == torch.bfloat16
        # Compare with a layer of the dequantized weights.
        assert_near(layer(x), i8.dequantize_(copy.deepcopy(layer))(x))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}, {"proj_size": 12}])
@pytest.mark.parametrize("lengths", [(7, 5, 3, 1), (3, 7, 1, 5)])
def test_packed_sequences(kind, options, lengths):
    if "proj_size" in options and kind is nn.GRU:
        pytest.skip("torch's GRU has no projections")
    float_layer = kind(40, 64, **options).eval()
    layer = i8.quantize_(copy.deepcopy(float_layer))
    ordered = list(lengths) == sorted(lengths, reverse=True)
    packed = nn.utils.rnn.pack_sequence([torch.randn(n, 40) for n in lengths], enforce_sorted=ordered)
    with torch.no_grad():
        wanted, found = float_layer(packed), layer(packed)
        assert_near(found, wanted)
        states = tuple(torch.randn_like(each) for each in flat(wanted)[1:])
        hx = states if kind is nn.LSTM else states[0]
        assert_near(layer(packed, hx), float_layer(packed, hx))
    for name in ("batch_sizes", "sorted_indices", "unsorted_indices"):
        ours, theirs = getattr(found[0], name), getattr(wanted[0], name)
        assert (ours is None and theirs is None) or torch.equal(ours, theirs)


def test_an_lstm_is_a_dynamic_lstm():
    float_layer, x = nn.LSTM(8, 5), torch.randn(6, 2, 8)
    layer = i8.quantize_(copy.deepcopy(float_layer))
    weights = [float_layer.weight_ih_l0, float_layer.weight_hh_l0]
    ours = int8blas.DynamicLSTM(
        *(w.detach().numpy().reshape(4, 5, -1).transpose(2, 0, 1) for w in weights),
        (float_layer.bias_ih_l0 + float_layer.bias_hh_l0).detach().numpy().reshape(4, 5),
    )
    assert np.array_equal(layer(x)[0].numpy(), ours(x.numpy())[0])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("count", [0, 1])
def test_few_sequences(kind, count):
    layer = i8.quantize_(kind(8, 5))
    y, _ = layer(torch.randn(4, count, 8))
    assert y.shape == (4, count, 5)


def test_sequences_of_a_gru_do_not_depend_on_others():
    layer, x = i8.quantize_(nn.GRU(40, 64)), torch.randn(7, 5, 40)
    assert torch.equal(layer(x)[0][:, :1], layer(x[:, :1])[0])


@pytest.mark.parametrize("options", [{"bidirectional": True}, {"proj_size": 12}])
def test_compilers_take_layers(options):
    layer = i8.quantize_(nn.LSTM(40, 64, num_layers=2, **options)).eval()
    x = torch.randn(7, 5, 40)
    wanted = flat(layer(x))
    exported = torch.export.export(layer, (x,)).module()
    for other in (torch.compile(layer, fullgraph=True, backend="aot_eager"), exported, torch.jit.trace(layer, x)):
        assert all(torch.equal(a, b) for a, b in zip(flat(other(x)), wanted, strict=True))
    shape = (layer.directions, 5)
    states = torch.zeros(*shape, layer.proj_size or 64), torch.zeros(*shape, 64)
    torch.library.opcheck(torch.ops.int8blas.recurrent.default, (x, None, *states, layer.mode, *layer._tensors(0)))
    with pytest.raises(NotImplementedError, match="has no vmap"):
        torch.vmap(lambda x: layer(x)[0])(torch.randn(2, 7, 5, 40))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_gradients_are_refused(kind):
    layer = i8.quantize_(kind(8, 5))
    for x, h in ((torch.randn(3, 2, 8, requires_grad=True), None), (torch.randn(3, 2, 8), torch.zeros(1, 2, 5))):
        if h is not None:
            h.requires_grad_()
        y, _ = layer(x, (h, torch.zeros(1, 2, 5)) if h is not None and kind is nn.LSTM else h)
        with pytest.raises(RuntimeError, match="has no gradient"):
            y.sum().backward()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_files_and_copies(kind):
    layer, other, x = i8.quantize_(kind(8, 5, 2)), i8.quantize_(kind(8, 5, 2)), torch.randn(3, 2, 8)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for clone in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(clone(x)[0], layer(x)[0])


def test_wrong_sources_and_states():
    layer = i8.quantize_(nn.LSTM(8, 5))
    with pytest.raises(ValueError, match=r"input must have 2 or 3 dimensions, the last of 8, got shape \(3, 2, 7\)"):
        layer(torch.ones(3, 2, 7))
    with pytest.raises(ValueError, match=r"hx must have shape \(1, 2, 5\), \(1, 2, 5\), got \(1, 3, 5\), \(1, 2, 5\)"):
        layer(torch.ones(3, 2, 8), (torch.ones(1, 3, 5), torch.ones(1, 2, 5)))
    with pytest.raises(TypeError, match=r"input must be float32, bfloat16 or float16, got torch\.float64"):
        layer(torch.ones(3, 2, 8).double())


def test_dropout_between_layers_is_that_of_training():
    layer, x = i8.quantize_(nn.GRU(8, 5, 2, dropout=0.9)), torch.randn(3, 2, 8)
    assert torch.equal(layer.eval()(x)[0], layer(x)[0])
    assert not torch.equal(layer.train()(x)[0], layer.eval()(x)[0])


GATES = {"GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def steps_in_numpy(layer, x, h, reverse=False):
    """Return results and last state of one direction of a GRU or an RNN, of the layer's integers, in float64."""
    end = "_reverse" if reverse else ""

    def product(a, name):
        weight, scale = (getattr(layer, f"weight_{name}_l0{end}{each}").numpy() for each in ("", "_scale"))
        step = np.abs(a).max(-1, keepdims=True) / np.float32(127)
        step = np.where(step > 0, step, 1).astype(np.float32)
        integers = np.rint(a.astype(np.float32) * (np.float32(1) / step)).clip(-127, 127)
        return integers @ weight.T.astype(np.float64) * scale * step + getattr(layer, f"bias_{name}_l0{end}").numpy()

    y = np.zeros((*x.shape[:2], layer.hidden_size))
    gates = np.split(product(x, "ih"), GATES[layer.mode], -1)
    for t in range(len(x))[::-1] if reverse else range(len(x)):
        state = np.split(product(h, "hh"), GATES[layer.mode], -1)
        if layer.mode == "GRU":
            r, z = (1 / (1 + np.exp(-gates[k][t] - state[k])) for k in (0, 1))
            n = np.tanh(gates[2][t] + r * state[2])
            h = (1 - z) * n + z * h
        else:
            h = gates[0][t] + state[0]
            h = np.maximum(h, 0) if layer.mode == "RNN_RELU" else np.tanh(h)
        y[t] = h
    return y, h


@pytest.mark.parametrize(("kind", "options"), [(nn.GRU, {}), (nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu"})])
@pytest.mark.parametrize("count", [1, 3])
def test_steps_of_layers_are_those_of_their_integers(kind, options, count):
    layer = i8.quantize_(kind(24, 40, bidirectional=True, **options))
    x, h = torch.randn(6, count, 24), torch.rand(2, count, 40)
    y, last = layer(x, h)
    for d in range(2):
        wanted, state = steps_in_numpy(layer, x.numpy(), h[d].numpy(), d == 1)
        # A state about halfway between two integers may be rounded to either: a difference of 1 / 127 of the largest
        # element.
        assert np.abs(y[:, :, 40 * d : 40 * (d + 1)].numpy() - wanted).max() < 0.01
        assert np.abs(last[d].numpy() - state).max() < 0.01


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_sequences_in_a_batch_end_where_they_end_alone(kind):
    layer = i8.quantize_(kind(24, 40, num_layers=2, bidirectional=True))
    sequences = [torch.randn(n, 24) for n in (7, 5, 3, 1)]
    y, last = layer(nn.utils.rnn.pack_sequence(sequences))
    y, _ = nn.utils.rnn.pad_packed_sequence(y)
    for k, each in enumerate(sequences):
        alone, state = layer(each)
        assert torch.equal(y[: len(each), k], alone)
        assert torch.equal(last[:, k], state)


def test_compiled_steps_refuse_other_layers():
    gates, h = np.zeros((2, 1, 12), np.float32), np.zeros((1, 4), np.float32)
    weights = np.ones((12, 4), np.float32)
    steps = i8.recurrent.gru_steps
    for layer, text in (
        (int8blas.InnerProduct.dynamic(weights, dynamic="per_tensor"), "a range for each row"),
        (int8blas.InnerProduct.dynamic(weights, dst_dtype="float16"), "from float32 to float32"),
        (int8blas.InnerProduct.dynamic(weights[:8]), r"weights must have shape \(12, 4\), got \(8, 4\)"),
    ):
        with pytest.raises(ValueError, match=text):
            steps(gates, layer, None, h, reset_after=True)
    with pytest.raises(TypeError, match="weights must be an array if reset_after is False, got InnerProduct"):
        steps(gates, int8blas.InnerProduct.dynamic(weights), None, h)


@pytest.mark.parametrize(
    ("kind", "options"), [(nn.LSTMCell, {}), (nn.GRUCell, {"bias": False}), (nn.RNNCell, {"nonlinearity": "relu"})]
)
def test_cells_are_steps_of_layers(kind, options):
    cell = kind(24, 40, **options)
    model = nn.Sequential(cell)
    layer = i8.quantize_(copy.deepcopy(model))[0]
    assert isinstance(layer, i8.Int8RecurrentCell)
    back = i8.dequantize_(copy.deepcopy(layer))
    assert type(back) is kind
    h = torch.rand(3, 40)
    hx = (h, torch.rand(3, 40)) if kind is nn.LSTMCell else h
    one = tuple(each[0] for each in hx) if kind is nn.LSTMCell else h[0]
    x = torch.randn(3, 24)
    for given in ((x,), (x, hx), (x[0],), (x[0], one)):
        found, wanted = layer(*given), cell(*given)
        for near, each in zip(*((y if isinstance(y, tuple) else (y,)) for y in (found, wanted)), strict=True):
            assert near.shape == each.shape
            assert 0 < error(near, each.detach()) < 0.03
    other = i8.quantize_(kind(24, 40, **options))
    other.load_state_dict(layer.state_dict())
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for each in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), compiled):
        assert all(torch.equal(a, b) for a, b in zip(each(x, hx), layer(x, hx), strict=True))
    assert layer.bfloat16()(x.bfloat16())[0].dtype == torch.bfloat16
