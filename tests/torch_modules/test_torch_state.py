"""An int8 module, and its operator, computes with the buffers that it has at the time of the call."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import int8blas.torch as it  # noqa: E402

X = {
    nn.Linear: torch.linspace(-1, 1, 48).view(3, 16),
    nn.Conv2d: torch.linspace(-1, 1, 4 * 8 * 8).view(1, 4, 8, 8),
    nn.GRU: torch.linspace(-1, 1, 5 * 2 * 16).view(5, 2, 16),
}
MODULES = {
    nn.Linear: lambda: nn.Linear(16, 8), nn.Conv2d: lambda: nn.Conv2d(4, 8, 3), nn.GRU: lambda: nn.GRU(16, 8),
}  # fmt: skip


def made(kind):
    torch.manual_seed(0)
    return it.quantize_(MODULES[kind]())


def result(y):
    return y[0] if isinstance(y, tuple) else y


def in_place(module, name):
    getattr(module, name).mul_(2)


def replaced(module, name):
    setattr(module, name, getattr(module, name) * 2)


@pytest.mark.parametrize("change", [in_place, replaced])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("kind", "names"),
    [(nn.Linear, ("scale", "bias")), (nn.Conv2d, ("scale", "bias")), (nn.GRU, ("weight_ih_l0_scale", "bias_hh_l0"))],
)
def test_a_changed_buffer_changes_the_result(kind, names, compiled, change):
    for name in names:
        module = made(kind)
        call = torch.compile(module, backend="aot_eager") if compiled else module
        before = result(call(X[kind])).clone()
        change(module, name)
        after = result(call(X[kind]))
        fresh = made(kind)
        fresh.load_state_dict(module.state_dict())
        assert not torch.equal(after, before)
        assert torch.equal(after, result(fresh(X[kind])))


@pytest.mark.parametrize("kind", [nn.Linear, nn.Conv2d])
def test_functional_call_takes_another_state(kind):
    module = made(kind)
    before = module(X[kind])
    state = {**module.state_dict(), "scale": module.scale * 2, "bias": module.bias * 2}
    assert torch.equal(torch.func.functional_call(module, state, (X[kind],)), before * 2)
    assert torch.equal(module(X[kind]), before)


def test_one_tensor_of_weights_serves_convolutions_of_several_parameters():
    module = made(nn.Conv2d)
    buffers = module.quantized, module.scale, module.bias
    for stride, pad, dilation in ((1, 0, 1), (2, 0, 1), (1, 1, 1), (1, 0, 2)):
        y = torch.ops.int8blas.convolution(X[nn.Conv2d], *buffers, [stride] * 2, [pad] * 4, [dilation] * 2, 1, [])
        assert y.shape[2] == (8 + 2 * pad - 2 * dilation - 1) // stride + 1


def test_another_scale_or_bias_is_another_layer():
    module, x = made(nn.Linear), X[nn.Linear]
    linear = torch.ops.int8blas.linear
    y = linear(x, module.packed, module.scale, None, 16, False)
    assert torch.equal(linear(x, module.packed, module.scale * 2, None, 16, False), y * 2)
    assert not torch.equal(linear(x, module.packed, module.scale, torch.ones(8), 16, False), y)
