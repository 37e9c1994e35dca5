"""An LSTM from float32 to float32 with int8 products, as in ONNX's DynamicQuantizeLSTM and PyTorch's dynamic
quantization: each execution quantizes the source and the states by their ranges.

The source has one range for all steps. The state has a new range at each step, over all sequences. Ranges contain 0::

    scale = f32((high - low) / 255), or 1 if both are 0;    zero_point = sat(rne(-low / scale))
    x_u8 = sat(rne(x / scale) + zero_point)

The sums of a gate are exact integers. All later operations are float32, in the order of the formula::

    gate = (f32(state_sum) * (state_scale * iter_scale) + f32(source_sum) * (source_scale * layer_scale)) + bias
    source_sum = sum over i of (x_u8[i] - source_zero_point) * (weights_layer[i] - layer_zero_point)
    state_sum = sum over k of (h_u8[k] - state_zero_point) * (weights_iter[k] - iter_zero_point)
"""

from libc.stdint cimport int32_t, int64_t
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport choice, elements_output, float32s, integers
from int8blas.core.file import register
from int8blas.core.kernels cimport current_kernels
from int8blas.core.memory cimport close_arena, open_arena
from int8blas.core.parameters import INT32_TERMS
from int8blas.core.results cimport Layout, check_layout, empty_of, lay_out
from int8blas.core.signatures import Signature
from int8blas.core.threads cimport max_threads
from int8blas.core.turns cimport end_turn, take_turn
from int8blas.core.verbose cimport report, seconds, verbose
from int8blas.core.words import check_created, check_once
from int8blas.gemm.packing cimport PackedB, pack
from int8blas.layers.dynamic_arguments import GATES, dynamic_cells
from int8blas.layers.dynamic_steps cimport DynamicDirection, Execution, execute
from int8blas.layers.recurrent cimport LSTM_CELL, Direction, Layer, layer_threads, set_weights

cnp.import_array()

DIRECTIONS = ("left2right", "right2left", "bidirectional_concat")


cdef class DynamicCell:
    """The packed weights of one direction, and the scales and zero points of their columns."""

    cdef PackedB of_source, of_state
    cdef cnp.ndarray source_scale, state_scale, bias, state_sums
    cdef cnp.ndarray source_zero, state_zero    # int32, or None

    def __cinit__(self, PackedB of_source not None, PackedB of_state not None, source_scale, state_scale, bias,
                  source_zero=None, state_zero=None):
        columns = (of_state._n,)
        for name, values, dtype in (
            ("source_scale", source_scale, np.float32), ("state_scale", state_scale, np.float32),
            ("bias", bias, np.float32), ("source_zero", source_zero, np.int32), ("state_zero", state_zero, np.int32),
        ):
            if values is None and dtype is np.int32:
                continue
            if not (isinstance(values, np.ndarray) and values.dtype == dtype and values.shape == columns
                    and values.flags.c_contiguous):
                raise TypeError(f"{name} must be a contiguous vector of {columns[0]} {np.dtype(dtype)}, got "
                                f"{values!r}")
        if of_source.dtype != np.int8 or of_state.dtype != np.int8 or of_source._n != of_state._n:
            raise TypeError(f"weights must be int8 with equal numbers of columns, got {of_source} and {of_state}")
        self.of_source, self.of_state, self.bias = of_source, of_state, bias
        self.source_scale, self.state_scale = source_scale, state_scale
        self.source_zero, self.state_zero = source_zero, state_zero
        self.state_sums = of_state._sums.astype(np.int32)

    def __reduce__(self):
        return DynamicCell, (self.of_source, self.of_state, self.source_scale, self.state_scale, self.bias,
                             self.source_zero, self.state_zero)

    cdef void fill(self, Direction *d, DynamicDirection *v) noexcept:
        set_weights(d, self.of_source, self.of_state)
        d.bias = <const float *>cnp.PyArray_DATA(self.bias)
        v.source_scale = <const float *>cnp.PyArray_DATA(self.source_scale)
        v.state_scale = <const float *>cnp.PyArray_DATA(self.state_scale)
        v.state_sums = <const int32_t *>cnp.PyArray_DATA(self.state_sums)
        v.source_zero = NULL if self.source_zero is None else <const int32_t *>cnp.PyArray_DATA(self.source_zero)
        v.state_zero = NULL if self.state_zero is None else <const int32_t *>cnp.PyArray_DATA(self.state_zero)


@cython.final
cdef class DynamicLSTM:
    """Long short-term memory in float32 with quantized weights. Each execution quantizes the source and the states.

    ``c_t = logistic(f) * c_(t-1) + logistic(i) * tanh(c~)``, ``h_t = logistic(o) * tanh(c_t)``

    Each of the gates i, f, c~ and o has the value ``x_t W + h_(t-1) W' + bias``, from exact integer sums. The source is
    quantized to uint8 by its range over all steps. In each step h is quantized by its range over all sequences.

    Parameters
    ----------
    weights_layer : array_like of int8, uint8 or float32
        Weights of the source, (input, gates, units) with the gates i, f, c~, o, or (2, input, gates, units).
        float32 weights are quantized to int8 in [-127, 127].
    weights_iter : array_like of int8, uint8 or float32
        Weights of the state, (units, gates, units) or (2, units, gates, units).
    bias : array_like of float32, optional
        (gates, units) or (2, gates, units); zeros by default.
    scales : mapping of str to {'per_channel', 'per_tensor'} or array_like of float, optional
        Scales of the weights, "layer" and "iter": ``w_f32 = scale * (w - zero_point)``. Quantized weights need values
        that broadcast to (directions, gates, units). float32 weights have 'per_channel' by default: max|w| / 127 for
        each gate and unit.
    zero_points : mapping of str to array_like of int, optional
        Zero points of quantized weights, "layer" and "iter", in the range of their dtype, with shapes as for scales.
    direction : {'left2right', 'right2left', 'bidirectional_concat'}, optional
        The direction in time: forward, backward, or both. 'bidirectional_concat' stores the units of both directions
        side by side.

    Attributes
    ----------
    input_size, units, directions : int
        Sizes of the source and of the layer.
    direction : str
        As given to the constructor.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. The error names the argument. A layer has at most 33025 inputs and
        33025 units, because larger sums could exceed int32.

    See Also
    --------
    LSTM : a layer whose source and states are uint8 with one fixed scale.

    Notes
    -----
    Results have the same bits on every CPU and with any number of threads. tanh and the logistic function are the
    functions of :class:`LSTM`. All sequences of a call share the ranges of their states, so the results of a sequence
    depend on all other sequences. A sequence that has ended keeps its last state, and the range of the states includes
    this state. A source or a state with an infinity or NaN has no range, and all results that depend on it are NaN.

    Weights of ``torch.nn.LSTM``, which has the same order of gates::

        weights_layer = weight_ih_l0.reshape(4, units, input).transpose(2, 0, 1)
        weights_iter = weight_hh_l0.reshape(4, units, units).transpose(2, 0, 1)
        bias = (bias_ih_l0 + bias_hh_l0).reshape(4, units)

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> rng = np.random.default_rng(0)
    >>> weights_layer, weights_iter = rng.normal(0, 1, (8, 4, 2)), rng.normal(0, 1, (2, 4, 2))
    >>> layer = int8blas.DynamicLSTM(weights_layer, weights_iter)
    >>> layer
    DynamicLSTM(8, 2, direction='left2right')
    >>> dst, h_t, c_t = layer(np.ones((3, 1, 8), np.float32))
    >>> dst[:, 0].round(2)
    array([[-0.42,  0.52],
           [-0.61,  0.74],
           [-0.68,  0.75]], dtype=float32)
    """

    cdef readonly Py_ssize_t input_size, units
    cdef readonly int directions
    cdef readonly str direction
    cdef list _cells
    cdef bint _lead

    __signature__ = Signature()

    def __init__(self, weights_layer, weights_iter, bias=None, *, scales=None, zero_points=None,
                 direction="left2right"):
        """Create the layer; the docstring of the class has the parameters."""
        check_once(self, self._cells)
        choice(direction, "direction", DIRECTIONS)
        directions = 2 if direction == "bidirectional_concat" else 1
        cells, units, lead = dynamic_cells(weights_layer, weights_iter, bias, scales, zero_points, directions)
        packed = [DynamicCell(pack(source.weights, False), pack(state.weights, False), source.scale, state.scale,
                              bias, source.zero, state.zero) for source, state, bias in cells]
        self.set_up(packed, units, lead, direction)

    cdef int set_up(self, list cells, Py_ssize_t units, bint lead, str direction) except -1:
        self._cells, self._lead, self.direction, self.directions = cells, lead, direction, len(cells)
        self.input_size, self.units = (<DynamicCell>cells[0]).of_source._k, units
        return 0

    def __reduce__(self):
        return _restore, (self._cells, self.units, self._lead, self.direction)

    def __repr__(self):
        return f"DynamicLSTM({self.input_size}, {self.units}, direction={self.direction!r})"

    def __call__(self, src, h0=None, c0=None, *, lengths=None, out=None):
        """Execute the layer over sequences.

        Parameters
        ----------
        src : array_like of float32
            (t, n, input): t time steps of n sequences. float16 and bfloat16 are converted to float32.
        h0, c0 : array_like of float32, optional
            The first states, (n, units); (directions, n, units) if the weights have a dimension of directions. Zeros
            by default.
        lengths : array_like of int, optional
            The number of steps of each sequence, (n,); t by default. Later results are 0. The last states are the
            states after the last step of each sequence, at which the backward direction starts.
        out : ndarray of float32, optional
            The array for dst, with any strides.

        Returns
        -------
        dst : ndarray of float32
            ``out`` if it is given. The shape is (t, n, units), or (t, n, 2 * units) for both directions.
        h_t, c_t : ndarray of float32
            The last states, with the shape of the first states.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above. Nothing is written then.
        """
        cdef cnp.ndarray x = real_numbers(src, "src"), h, c, result, h_t, c_t
        cdef Layout layout
        lay_out(&layout, x)
        check_created(self, self._cells)
        if x.ndim != 3 or x.shape[2] != self.input_size:
            raise ValueError(f"src must have shape (t, n, {self.input_size}), got {(<object>x).shape}")
        shape = (x.shape[0], x.shape[1], self.directions * self.units)
        states = (self.directions, x.shape[1], self.units)
        if lengths is not None:
            lengths = integers(lengths, "lengths", 0, x.shape[0], x.shape[1], "sequences of src")
            lengths = np.ascontiguousarray(np.broadcast_to(lengths, x.shape[1]), np.int64)
        h, c = self.first_state(h0, "h0", states), self.first_state(c0, "c0", states)
        target = None if out is None else elements_output(out, "out", cnp.NPY_FLOAT32, shape)
        check_layout(&layout, x, "src")
        result, h_t, c_t = [empty_of(size, cnp.NPY_FLOAT32) for size in (shape, states, states)]
        self.run(x, h, c, lengths, result, h_t, c_t)
        if target is not None:
            target[...] = result
        if not self._lead:
            h_t, c_t = h_t[0], c_t[0]
        return result if out is None else out, h_t, c_t

    cdef cnp.ndarray first_state(self, x, str name, tuple shape):
        """Return a first state as a contiguous array, or None."""
        if x is None:
            return None
        array = <object>real_numbers(x, name)
        wanted = shape if self._lead else shape[1:]
        if array.shape != wanted:
            raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
        return array

    cdef int run(self, cnp.ndarray x, cnp.ndarray h, cnp.ndarray c, cnp.ndarray lengths, cnp.ndarray y,
                 cnp.ndarray h_t, cnp.ndarray c_t) except -1:
        """Execute the layer on contiguous arrays."""
        cdef Execution e
        cdef Layer *layer = &e.layer
        cdef Direction *d
        cdef int i, status
        cdef int64_t offset
        cdef double elapsed
        layer.kernels, layer.kind, layer.gates = current_kernels(), LSTM_CELL, GATES
        layer.steps, layer.rows, layer.units = cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(x, 1), self.units
        layer.outputs, layer.projects = self.units, False
        layer.activation, layer.alpha, layer.kept = 0, 0, NULL
        layer.directions, layer.inputs, layer.threads = self.directions, self.input_size, max_threads()
        e.src = <const float *>cnp.PyArray_DATA(x)
        e.lengths = NULL if lengths is None else <const int64_t *>cnp.PyArray_DATA(lengths)
        for i in range(layer.directions):
            d = &layer.direction[i]
            (<DynamicCell>self._cells[i]).fill(d, &e.direction[i])
            d.product.threads = layer.threads
            d.backwards = i == 1 or self.direction == "right2left"
            d.dst = cnp.PyArray_BYTES(y) + 4 * i * layer.units
            d.dst_step, d.dst_row = cnp.PyArray_STRIDE(y, 0), cnp.PyArray_STRIDE(y, 1)
            offset = i * layer.rows * layer.units
            e.direction[i].h0 = NULL if h is None else <const float *>cnp.PyArray_DATA(h) + offset
            d.c0 = NULL if c is None else <const float *>cnp.PyArray_DATA(c) + offset
            d.last_h = cnp.PyArray_BYTES(h_t) + 4 * offset
            d.last_c = <float *>cnp.PyArray_DATA(c_t) + offset
        with nogil:
            end_turn()
            elapsed = seconds()
            open_arena()
            status = execute(&e)
            close_arena()
            elapsed = seconds() - elapsed
            take_turn()
        if status:
            raise MemoryError("DynamicLSTM: no memory for the workspace")
        if verbose:
            report("dynamiclstm", f"t={layer.steps},n={layer.rows},inputs={layer.inputs},units={layer.units}",
                   self.direction, layer.kernels, layer_threads(layer, layer.threads), elapsed)
        return 0


cdef cnp.ndarray real_numbers(x, str name):
    """Convert to a contiguous float32 array."""
    return np.ascontiguousarray(float32s(x, name))


def _restore(cells, units, lead, direction):
    """Restore a layer from the values of DynamicLSTM.__reduce__, after checking every value."""
    cdef DynamicLSTM layer = DynamicLSTM.__new__(DynamicLSTM)
    cdef DynamicCell cell
    choice(direction, "direction", DIRECTIONS)
    directions = 2 if direction == "bidirectional_concat" else 1
    if not (isinstance(cells, list) and len(cells) == directions and all([isinstance(x, DynamicCell) for x in cells])):
        raise ValueError(f"cells must be a list of {directions}, got {cells!r}")
    units = int(integers(units, "units", 1, INT32_TERMS, -1, ""))
    inputs = (<DynamicCell>cells[0]).of_source._k
    columns = GATES * 16 * ((units + 15) // 16)
    shapes = (inputs, columns), (units, columns)
    for cell in cells:
        if not 1 <= inputs <= INT32_TERMS or (cell.of_source.shape, cell.of_state.shape) != shapes:
            raise ValueError(f"cells must have been packed for {inputs} inputs and {units} units, got "
                             f"{cell.of_source} and {cell.of_state}")
    if not isinstance(lead, (bool, np.bool_)) or (directions == 2 and not lead):
        raise ValueError(f"lead must be a bool, True for two directions, got {lead!r}")
    layer.set_up(cells, units, lead, direction)
    return layer


register(DynamicCell)
register(DynamicLSTM, _restore)
