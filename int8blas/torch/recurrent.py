"""int8 modules that replace torch's recurrent layers.

An LSTM without projections is an :class:`int8blas.DynamicLSTM`. GRU and RNN compute one dynamic product for the sources
of all steps, and then compiled steps, each with a dynamic product for the state. Only an LSTM with projections runs its
steps in a loop in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, from_numpy, nn
from torch.fx import Proxy
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from int8blas.layers.dynamic_lstm import DynamicLSTM
from int8blas.layers.inner_product import InnerProduct
from int8blas.layers.real_steps import gru_steps, rnn_steps
from int8blas.torch.modules import Int8Module, as_leaf, quantized_rows
from int8blas.torch.ops import (
    FLOAT32,
    FLOATS,
    REMEDY,
    array_of,
    described,
    layer_of,
    limited,
    refuse_gradient,
    refuse_vmap,
    runs_now,
    thread_limit,
    to_autocast_dtype,
    traces,
)

Array = np.ndarray[Any, Any]
Factor = tuple[Tensor, Tensor, Tensor | None]
# The gates of each mode in the order of the compiled steps.
ORDERS = {"GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}


def layer_for(factor: Factor, order: Sequence[int] = (0,)) -> InnerProduct:
    """Return the dynamic layer with the given weights, scales and bias. `order` has the gates in the layer's order."""

    def ordered(tensor: Tensor) -> Array:
        parts = np.split(tensor.numpy(), len(order))
        return np.concatenate([parts[k] for k in order])

    weight, scale, bias = factor
    return InnerProduct.dynamic(
        ordered(weight), None if bias is None else ordered(bias), scales={"weights": ordered(scale)}
    )


class Steps:
    """A GRU or an RNN of one direction.

    Parameters
    ----------
    mode : str
        The mode of ``nn.RNNBase``.
    factors : sequence of (Tensor of int8, Tensor of float32, Tensor or None)
        Weights, scales and bias of the source and of the state.
    """

    def __init__(self, mode: str, factors: Sequence[Factor]) -> None:
        self.mode = mode
        self.source, self.state = (layer_for(factor, ORDERS[mode]) for factor in factors)

    def __call__(self, x: Array, lengths: Array | None, h: Array, c: Array | None) -> tuple[Array, ...]:
        """Return the results and the last state, for x (steps, sequences, inputs)."""
        gates = self.source(x)
        if self.mode == "GRU":
            y, (h,) = gru_steps(gates, self.state, None, h, lengths, reset_after=True)
        else:
            y, (h,) = rnn_steps(gates, self.state, h, lengths, relu=self.mode == "RNN_RELU")
        return y, h


class ProjectedLSTM:
    """An LSTM with projections, of one direction.

    Parameters
    ----------
    factors : sequence of (Tensor of int8, Tensor of float32, Tensor or None)
        Weights, scales and bias of the source, the state and the projection.
    """

    def __init__(self, factors: Sequence[Factor]) -> None:
        self.source, self.state, self.projection = map(layer_for, factors)

    def __call__(self, x: Array, lengths: Array | None, h: Array, c: Array | None) -> tuple[Array, ...]:
        """Return the results and the last states, for x (steps, sequences, inputs)."""
        gates, h, memory = torch.from_numpy(self.source(x)), h.copy(), torch.from_numpy(np.array(c))
        y = np.zeros((*x.shape[:2], h.shape[1]), np.float32)
        for t in range(len(x)):
            i, f, n, o = gates[t].add_(torch.from_numpy(self.state(h))).chunk(4, 1)
            memory_after = memory * f.sigmoid_() + i.sigmoid_() * n.tanh_()
            after = self.projection((o.sigmoid_() * memory_after.tanh()).numpy())
            if lengths is None:
                y[t], h, memory = after, after, memory_after
                continue
            goes_on = t < lengths[:, None]
            y[t] = np.where(goes_on, after, 0)
            h, memory = np.where(goes_on, after, h), torch.where(torch.from_numpy(goes_on), memory_after, memory)
        return y, h, memory.numpy()


def turned(x: Array, lengths: Array | None) -> Array:
    """Reverse the steps of each sequence up to its length."""
    if lengths is None:
        return x[::-1]
    step = np.arange(len(x))[:, None]
    return np.take_along_axis(x, np.where(step < lengths, lengths - 1 - step, step)[:, :, None], axis=0)


def make_lstm(factors: list[list[Factor]]) -> DynamicLSTM:
    """Return an LSTM without projections, of one direction or of both."""
    units = factors[0][0][0].shape[0] // 4

    def by_gate(values: Any) -> np.ndarray[Any, Any]:
        return values.numpy().reshape(4, units, *values.shape[1:])

    def stacked(k: int, part: int, *order: int) -> np.ndarray[Any, Any]:
        return np.stack([by_gate(direction[k][part]).transpose(*order) for direction in factors])

    biases = [
        sum((by_gate(bias) for _, _, bias in direction if bias is not None), np.zeros((4, units), np.float32))
        for direction in factors
    ]
    return DynamicLSTM(
        stacked(0, 0, 2, 0, 1), stacked(1, 0, 2, 0, 1), np.stack(biases),
        scales={"layer": stacked(0, 1, 0, 1), "iter": stacked(1, 1, 0, 1)},
        direction="bidirectional_concat" if len(factors) == 2 else "left2right",
    )  # fmt: skip


def make_recurrent(
    mode: str, directions: int, weights: Sequence[Tensor], scales: Sequence[Tensor], biases: Sequence[Tensor]
) -> DynamicLSTM | list[Any]:
    """Return one recurrent layer, with all its directions."""
    factors = [
        (weight.detach(), scale.detach(), bias.detach() if bias.numel() else None)
        for weight, scale, bias in zip(weights, scales, biases, strict=True)
    ]
    each = len(factors) // directions
    by_direction: Any = [factors[d * each : (d + 1) * each] for d in range(directions)]
    if mode == "LSTM" and each == 2:
        return make_lstm(by_direction)
    return [ProjectedLSTM(part) if mode == "LSTM" else Steps(mode, part) for part in by_direction]


def stacked(arrays: Sequence[Array]) -> Array:
    """Stack the arrays of the directions. The result shares the memory of a single array."""
    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)


def run(
    layer: DynamicLSTM | list[Any], x: Tensor, lengths: Tensor | None, h: Tensor, c: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Execute one layer. Return the results and the last states of the layer, with the dtype of x."""
    if x.dtype not in FLOATS:
        raise TypeError(
            f"input must be float32, bfloat16 or float16, got {x.dtype}: convert it, or keep the module float "
            f"(filter= of int8blas.torch.quantize_)"
        )
    source, state, memory = (np.ascontiguousarray(array_of(each)) for each in (x, h, c))
    ends = None if lengths is None else lengths.numpy()
    with thread_limit():
        if isinstance(layer, DynamicLSTM):
            results: tuple[Array, ...] = layer(source, state, memory, lengths=ends)
        else:
            every = []
            for d, steps in enumerate(layer):
                given = turned(source, ends) if d else source
                found, *last = steps(given, ends, state[d], memory[d] if len(memory) else None)
                every.append((turned(found, ends) if d else found, *last))
            found, *last = zip(*every, strict=True)
            results = found[0] if len(found) == 1 else np.concatenate(found, axis=2), *map(stacked, last)
    made = [*map(torch.from_numpy, results)]
    if x.dtype is not FLOAT32:
        made = [each.to(x.dtype) for each in made]
    return made[0], made[1], made[2] if len(made) > 2 else c


def others_of(weights: Sequence[Tensor], scales: Sequence[Tensor], biases: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors of a layer, except the first weights, and except the empty tensors that stand for missing
    biases."""
    return [*weights[1:], *scales, *(bias for bias in biases if bias.numel())]


@torch.library.custom_op("int8blas::recurrent", mutates_args=(), device_types="cpu")
def recurrent(
    x: Tensor, lengths: Tensor | None, h: Tensor, c: Tensor, mode: str, weights: Sequence[Tensor],
    scales: Sequence[Tensor], biases: Sequence[Tensor], name: str = "",
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Execute one layer, and return all results and the last states.

    x has the shape (steps, sequences, inputs), and the states have the shape (directions, sequences, units). The
    lengths are sorted, with the longest first. c is empty unless the layer is an LSTM.
    """
    others = others_of(weights, scales, biases)
    layer = layer_of(weights[0], others, (), make_recurrent, mode, len(h), weights, scales, biases)
    y, h, last = run(layer, x, lengths, h, c)
    return y, h, c.clone() if last is c else last  # an operator must not return an argument


@recurrent.register_fake
def _(
    x: Tensor, lengths: Tensor | None, h: Tensor, c: Tensor, mode: str, weights: Sequence[Tensor],
    scales: Sequence[Tensor], biases: Sequence[Tensor], name: str = "",
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    y = x.new_empty(x.shape[0], x.shape[1], h.shape[0] * h.shape[2])
    return y, x.new_empty(h.shape), x.new_empty(c.shape)


def refuse(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
    """Return None for each input that has no gradient, and for the other inputs gradients that raise an error when they
    are used."""
    x, h, c = (refuse_gradient(gradients[0], shape, ctx.text) for shape in ctx.shapes)
    nothing = [None] * ctx.count
    return x, None, h, c, None, nothing, nothing, nothing, None


def set_shapes(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Store the shapes of source and states and the number of weights for the backward pass."""
    ctx.shapes, ctx.count = [inputs[k].shape for k in (0, 2, 3)], len(inputs[5])
    ctx.text = f"{described(f'Int8Recurrent of mode {inputs[4]!r}', inputs[-1])} has no gradient: {REMEDY}"


recurrent.register_autograd(refuse, setup_context=set_shapes)


recurrent.register_vmap(refuse_vmap("Int8Recurrent", "give it all sequences, (steps, sequences, inputs)"))


class Int8Recurrent(Int8Module):
    """An LSTM, a GRU or an RNN with int8 weights, which quantizes sources and states in each call.

    :func:`quantize_` creates this module from ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN``, with any number of layers, both
    directions, `batch_first`, packed sequences and projections. An LSTM without projections quantizes all sequences of
    a call by common ranges, like :class:`int8blas.DynamicLSTM`. Other recurrent layers quantize each row by its range.

    Parameters
    ----------
    module : nn.LSTM, nn.GRU or nn.RNN
        A layer of torch.

    Attributes
    ----------
    mode : str
        "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
    input_size, hidden_size, num_layers, batch_first, dropout, bidirectional, proj_size
        As in the module.

    Notes
    -----
    Buffers have the names of torch's parameters. For example, ``weight_ih_l0`` is int8, ``weight_ih_l0_scale`` has a
    float32 scale for each of its rows, and ``bias_ih_l0`` is float32.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> layer = int8blas.torch.quantize_(torch.nn.LSTM(40, 64, num_layers=2, batch_first=True))
    >>> layer
    Int8Recurrent('LSTM', 40, 64, num_layers=2, batch_first=True)
    >>> y, (h, c) = layer(torch.ones(8, 25, 40))
    >>> y.shape, h.shape, c.shape
    (torch.Size([8, 25, 64]), torch.Size([2, 8, 64]), torch.Size([2, 8, 64]))
    """

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.dtype = module.weight_ih_l0.dtype
        self.mode, self.input_size, self.hidden_size = module.mode, module.input_size, module.hidden_size
        self.num_layers, self.batch_first, self.dropout = module.num_layers, module.batch_first, module.dropout
        self.bidirectional, self.proj_size, self.bias = module.bidirectional, module.proj_size, module.bias
        self.directions = 2 if module.bidirectional else 1
        # Whether torch's layer returns the dtype of torch.autocast. Under autocast, torch's GRU, GRUCell and LSTMCell
        # return results in the dtype of their state.
        self.autocasts = self.mode != "GRU"
        for name in self._names():
            integers, scale = quantized_rows(getattr(module, name))
            self.register_buffer(name, torch.from_numpy(integers))
            self.register_buffer(f"{name}_scale", torch.from_numpy(scale))
            bias = getattr(module, name.replace("weight", "bias"), None)
            if bias is not None:
                self.register_buffer(name.replace("weight", "bias"), bias.detach().float().clone())
        self._renew()

    def _names(self, layer: int | None = None) -> list[str]:
        """Return the names of the weights of one layer or of all layers."""
        kinds = ("ih", "hh", "hr") if self.proj_size else ("ih", "hh")
        layers = range(self.num_layers) if layer is None else (layer,)
        return [
            f"weight_{kind}_l{k}{end}" for k in layers for end in ("", "_reverse")[: self.directions] for kind in kinds
        ]

    def _tensors(self, layer: int) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Return weights, scales and biases of a layer. A missing bias is an empty tensor."""
        names = self._names(layer)
        weights = [getattr(self, name) for name in names]
        scales = [getattr(self, f"{name}_scale") for name in names]
        none = torch.empty(0)
        return weights, scales, [getattr(self, name.replace("weight", "bias"), none) for name in names]

    def _restore(self) -> None:
        self._layer = []
        for k in range(self.num_layers):
            tensors = self._tensors(k)
            first, others = tensors[0][0], others_of(*tensors)
            self._layer.append(layer_of(first, others, (), make_recurrent, self.mode, self.directions, *tensors))

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Return the results and the last states, as torch's layer does.

        Parameters
        ----------
        input : Tensor or PackedSequence
            (steps, sequences, inputs), (sequences, steps, inputs) with `batch_first`, or (steps, inputs).
        hx : Tensor or tuple of Tensor, optional
            The first state. The first state of an LSTM is the tuple of h and c.

        Returns
        -------
        y : Tensor or PackedSequence
        states : Tensor or tuple of Tensor
        """
        x = input
        if isinstance(x, Proxy):
            return as_leaf(self, x, hx)
        if isinstance(x, PackedSequence):
            return self._packed(x, hx)
        if not traces() and (x.dim() not in (2, 3) or x.shape[-1] != self.input_size):
            raise ValueError(f"input must have 2 or 3 dimensions, the last of {self.input_size}, got shape "
                             f"{tuple(x.shape)} in {self.told()}")  # fmt: skip
        time_first = x.dim() == 2 or not self.batch_first
        source = x.unsqueeze(1) if x.dim() == 2 else x if time_first else x.transpose(0, 1)
        states = None
        if hx is not None:
            states = [each.unsqueeze(1) if x.dim() == 2 else each for each in (hx if self.mode == "LSTM" else (hx,))]
        y, last = self._layers(source, None, states)
        if x.dim() == 2:
            y, last = y.squeeze(1), [each.squeeze(1) for each in last]
        elif not time_first:
            y = y.transpose(0, 1)
        return y, tuple(last) if self.mode == "LSTM" else last[0]

    def _packed(self, x: PackedSequence, hx: Any) -> Any:
        """Execute the layers on packed sequences, which are sorted by length, longest first."""
        source, lengths = pad_packed_sequence(PackedSequence(x.data, x.batch_sizes))
        states = None
        if hx is not None:
            states = list(hx if self.mode == "LSTM" else (hx,))
            if x.sorted_indices is not None:
                states = [each.index_select(1, x.sorted_indices) for each in states]
        y, last = self._layers(source, lengths, states)
        packed = pack_padded_sequence(y, lengths)
        if x.unsorted_indices is not None:
            last = [each.index_select(1, x.unsorted_indices) for each in last]
        result = PackedSequence(packed.data, packed.batch_sizes, x.sorted_indices, x.unsorted_indices)
        return result, tuple(last) if self.mode == "LSTM" else last[0]

    def _layers(self, x: Tensor, lengths: Tensor | None, states: list[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        """Execute all layers on x (steps, sequences, inputs)."""
        count, n = self.num_layers * self.directions, x.shape[1]
        shapes = [(count, n, self.proj_size or self.hidden_size)]
        shapes += [(count, n, self.hidden_size)] if self.mode == "LSTM" else []
        if states is None:
            states = [x.new_zeros(shape) for shape in shapes]
        elif not traces() and [tuple(each.shape) for each in states] != shapes:
            raise ValueError(f"hx must have shape {', '.join(map(str, shapes))}, got "
                             f"{', '.join(str(tuple(each.shape)) for each in states)} in {self.told()}")  # fmt: skip
        now = not torch.compiler.is_compiling() and all(runs_now(each) for each in (x, *states))
        last: list[list[Tensor]] = [[] for _ in states]
        for k in range(self.num_layers):
            part = slice(k * self.directions, (k + 1) * self.directions)
            h, *rest = states if self.num_layers == 1 else [each[part] for each in states]
            c = rest[0] if rest else h.new_empty(0)
            if now:
                try:
                    x, h, c = run(self._current()[k], x, lengths, h, c)
                except (TypeError, ValueError) as error:
                    error.add_note(f"in {self.told()}")
                    raise
            else:
                x, h, c = recurrent(x, lengths, h, c, self.mode, *self._tensors(k), self.label)
            for found, state in zip(last, (h, c), strict=False):
                found.append(state)
            if k < self.num_layers - 1 and self.dropout:
                x = functional.dropout(x, self.dropout, self.training)
        last_states = [found[0] if len(found) == 1 else torch.cat(found) for found in last]
        return (to_autocast_dtype(x), [*map(to_autocast_dtype, last_states)]) if self.autocasts else (x, last_states)

    def flatten_parameters(self) -> None:
        """Do nothing. torch's layers need this method for GPUs."""

    def dequantized(self) -> nn.RNNBase:
        """Return a layer of torch with these weights, in their original dtype.

        Returns
        -------
        nn.RNNBase
        """
        kinds: dict[str, Any] = {"LSTM": nn.LSTM, "GRU": nn.GRU}
        options: dict[str, Any] = {"proj_size": self.proj_size} if self.mode == "LSTM" else {}
        if self.mode.startswith("RNN"):
            options = {"nonlinearity": self.mode.removeprefix("RNN_").lower()}
        module: nn.RNNBase = kinds.get(self.mode, nn.RNN)(
            self.input_size, self.hidden_size, self.num_layers, bias=self.bias, batch_first=self.batch_first,
            dropout=self.dropout, bidirectional=self.bidirectional, dtype=self.dtype, **options,
        )  # fmt: skip
        state = {name: getattr(self, name) * getattr(self, f"{name}_scale")[:, None] for name in self._names()}
        state |= {
            name: tensor for name, tensor in self._buffers.items() if name.startswith("bias") and tensor is not None
        }
        module.load_state_dict(state)
        return module

    def extra_repr(self) -> str:
        """Return the text of ``repr`` between the parentheses."""
        usual = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False,
                 "proj_size": 0}  # fmt: skip
        told = [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join([f"{self.mode!r}, {self.input_size}, {self.hidden_size}", *told])


CELLS: dict[Any, Any] = {nn.LSTMCell: nn.LSTM, nn.GRUCell: nn.GRU, nn.RNNCell: nn.RNN}


class Int8RecurrentCell(nn.Module):
    """One step of a recurrent layer with int8 weights, computed as in :class:`Int8Recurrent`.

    :func:`quantize_` creates this module from ``nn.LSTMCell``, ``nn.GRUCell`` and ``nn.RNNCell``.

    Parameters
    ----------
    cell : nn.LSTMCell, nn.GRUCell or nn.RNNCell
        A cell of torch.

    Examples
    --------
    >>> import torch, int8blas.torch
    >>> cell = int8blas.torch.quantize_(torch.nn.LSTMCell(40, 64))
    >>> h, c = cell(torch.ones(8, 40))
    >>> h.shape, c.shape
    (torch.Size([8, 64]), torch.Size([8, 64]))
    """

    def __init__(self, cell: Any) -> None:
        super().__init__()
        kind = next(kind for kind in CELLS if isinstance(cell, kind))
        options = {"nonlinearity": cell.nonlinearity} if kind is nn.RNNCell else {}
        layer = CELLS[kind](cell.input_size, cell.hidden_size, bias=cell.bias, dtype=cell.weight_ih.dtype, **options)
        with torch.no_grad():
            for name, parameter in layer.named_parameters():
                parameter.copy_(getattr(cell, name.removesuffix("_l0")))
        self.layer = Int8Recurrent(layer)
        self.layer.autocasts = kind is nn.RNNCell

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Return the next state, or the next h and c, for (sequences, inputs) or (inputs,), as torch's cell does."""
        if isinstance(input, Proxy):
            return as_leaf(self, input, hx)
        states = () if hx is None else tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        if not torch.compiler.is_compiling() and self._is_plain(input, states):
            return self._step(input, states)
        if hx is not None:
            hx = tuple(each.unsqueeze(0) for each in hx) if isinstance(hx, (tuple, list)) else hx.unsqueeze(0)
        _, last = self.layer(input.unsqueeze(0), hx)
        return tuple(each.squeeze(0) for each in last) if isinstance(last, tuple) else last.squeeze(0)

    def _is_plain(self, x: Tensor, states: tuple[Tensor, ...]) -> bool:
        """Return whether source and states are float32 matrices of the right sizes, which nothing traces."""
        layer, rows = self.layer, x.shape[0] if x.dim() == 2 else 0
        shapes = [(rows, layer.input_size), *[(rows, layer.hidden_size)] * len(states)]
        return len(states) in (0, 1 + (layer.mode == "LSTM")) and all(
            runs_now(each) and each.dtype is FLOAT32 and each.shape == shape
            for each, shape in zip((x, *states), shapes, strict=True)
        )

    def _step(self, x: Tensor, states: tuple[Tensor, ...]) -> Any:
        """Return the next states, as :class:`Int8Recurrent` does, without an operator of torch."""
        layer = self.layer
        (steps,), count = layer._current(), 1 + (layer.mode == "LSTM")
        none = np.zeros((len(x), layer.hidden_size), np.float32)
        source, *given = [np.ascontiguousarray(array_of(each)) for each in (x, *states)]
        given = given or [none] * count
        if count == 2:
            _, *last = limited(steps, source[None], given[0][None], given[1][None])
            return tuple(from_numpy(each[0]) for each in last)
        _, last = limited(steps[0], source[None], None, given[0], None)
        y = from_numpy(last)
        return to_autocast_dtype(y) if layer.autocasts else y

    def dequantized(self) -> nn.RNNCellBase:
        """Return a cell of torch with these weights, in their original dtype.

        Returns
        -------
        nn.RNNCellBase
        """
        layer = self.layer.dequantized()
        kind = next(kind for kind, each in CELLS.items() if isinstance(layer, each))
        options = {"nonlinearity": layer.nonlinearity} if kind is nn.RNNCell else {}
        cell: nn.RNNCellBase = kind(layer.input_size, layer.hidden_size, layer.bias, dtype=self.layer.dtype, **options)
        cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
        return cell
