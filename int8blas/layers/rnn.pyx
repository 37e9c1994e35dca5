"""RNN, LSTM and GRU with uint8 states and int8 weights, as in oneDNN's RNN primitive.

Data are uint8 with a scale and a shift. Weights are int8 with a scale. Quantization multiplies by the scales::

    data_u8 = sat(rne(data * data_scale + data_shift))          weights_s8 = sat(rne(weights * weights_scale))

The sums of a gate are exact integers. The operations after the sums are float32, in the order of the formulas::

    gate = f32(sum) * (1 / (data_scale * weights_scale)) + bias
    sum = sum over i of (x_u8[i] - data_shift) * weights_layer_s8[i]
        + sum over k of (h_u8[k] - data_shift) * weights_iter_s8[k]
"""

from libc.float cimport FLT_MAX
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uintptr_t
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport (
    bounds, choice, divisor, elements, elements_output, integers, source_of_type, widened)
from int8blas.core.file import register
from int8blas.core.kernels cimport (
    I8_PANEL, I8_RNN_LOGISTIC, I8_RNN_RELU, I8_RNN_TANH, current_kernels, i8_kernels)
from int8blas.stage.layer_arguments import check_dtype
from int8blas.core.memory cimport close_arena, open_arena
from int8blas.core.parameters import real
from int8blas.core.results cimport Layout, check_layout, empty_of, lay_out
from int8blas.layers.recurrent cimport (
    GRU_CELL, GRU_LINEAR_CELL, LSTM_CELL, RNN_CELL, Direction, Kind, Layer, add_directions, layer_threads, run_layer,
    set_factor, set_weights)
from int8blas.core.signatures import Signature
from int8blas.core.words import check_created, check_once, shown
from int8blas.layers.rnn_arguments import DIRECTIONS, by_panel, cells_of, factors, in_order_of_length, spread_nan
from int8blas.core.split cimport round_up
from int8blas.core.threads cimport max_threads
from int8blas.core.turns cimport end_turn, take_turn
from int8blas.core.verbose cimport report, seconds, verbose
from int8blas.gemm.packing cimport PackedB, pack
from int8blas.stage.output_stage cimport element_type

cnp.import_array()

SRC_DTYPES = (np.dtype(np.uint8), np.dtype(np.float32), np.dtype(np.float16))
DST_DTYPES = (np.dtype(np.uint8), np.dtype(np.float32))
# Gates and biases of each phase of a step, by kind of cell (see recurrent.pyx).
PHASES = {LSTM_CELL: ((4,), (4,)), GRU_CELL: ((2, 1), (2, 1)), GRU_LINEAR_CELL: ((3,), (4,)),
          RNN_CELL: ((1,), (1,))}
ACTIVATIONS = {"relu": I8_RNN_RELU, "tanh": I8_RNN_TANH, "logistic": I8_RNN_LOGISTIC}
PEEPHOLES = (3,)


cdef class Cell:
    """The packed weights of one direction of a layer, and the scales and biases of their columns."""

    cdef PackedB of_source, of_state, projection
    cdef cnp.ndarray start, scale, bias, peephole, projection_start, projection_scale, projection_bias
    cdef int data_shift

    def __cinit__(self, PackedB of_source not None, PackedB of_state not None, int data_shift, scale, bias,
                  peephole=None, PackedB projection=None, projection_scale=None):
        vectors = {"scale": scale, "bias": bias}
        if peephole is not None:
            vectors["peephole"] = peephole
        if projection is not None:
            vectors["projection_scale"] = projection_scale
        for name, values in vectors.items():
            if not (isinstance(values, np.ndarray) and values.dtype == np.float32 and values.ndim == 1
                    and values.flags.c_contiguous):
                raise TypeError(f"{name} must be a contiguous vector of float32, got {values!r}")
        self.of_source, self.of_state, self.data_shift = of_source, of_state, data_shift
        self.scale, self.bias, self.peephole = scale, bias, peephole
        self.start = (-data_shift * of_state._sums).astype(np.int32)
        self.projection = projection
        if projection is not None:
            self.projection_scale, self.projection_bias = projection_scale, np.zeros_like(projection_scale)
            self.projection_start = (-data_shift * projection._sums).astype(np.int32)

    def __reduce__(self):
        more = () if self.peephole is None and self.projection is None else (
            self.peephole, self.projection, self.projection_scale)
        return Cell, (self.of_source, self.of_state, self.data_shift, self.scale, self.bias, *more)

    cdef bint fits(self, int64_t inputs, int64_t units, int64_t outputs, int64_t columns, int64_t biases,
                   int data_shift, bint has_peephole, bint projects) except -1:
        """Return whether the cell has the given sizes and shift."""
        if has_peephole != (self.peephole is not None) or projects != (self.projection is not None):
            return False
        if has_peephole and self.peephole.shape[0] != 3 * round_up(units, I8_PANEL):
            return False
        if projects and not (self.projection.dtype == np.int8
                             and self.projection.shape == (units, round_up(outputs, I8_PANEL))
                             and self.projection_scale.shape[0] == round_up(outputs, I8_PANEL)):
            return False
        return (
            self.of_source.dtype == np.int8 and self.of_state.dtype == np.int8 and self.data_shift == data_shift
            and self.of_source.shape == (inputs, columns) and self.of_state.shape == (outputs, columns)
            and self.scale.shape[0] == columns and self.bias.shape[0] == biases
        )

    cdef void fill(self, Direction *d) noexcept:
        set_weights(d, self.of_source, self.of_state)
        d.product.a.zero_point = self.data_shift
        d.state.start = <const int32_t *>cnp.PyArray_DATA(self.start)
        d.scale = <const float *>cnp.PyArray_DATA(self.scale)
        d.bias = <const float *>cnp.PyArray_DATA(self.bias)
        if self.peephole is not None:
            d.peephole = <const float *>cnp.PyArray_DATA(self.peephole)
        if self.projection is not None:
            set_factor(&d.projection, self.projection)
            d.projection.start = <const int32_t *>cnp.PyArray_DATA(self.projection_start)
            d.projection_scale = <const float *>cnp.PyArray_DATA(self.projection_scale)
            d.projection_bias = <const float *>cnp.PyArray_DATA(self.projection_bias)


cdef object packed_cell(cell, tuple phases, tuple bias_phases, int shift, data_scale):
    """Pack a direction's weights, gate by gate for each 16 units."""
    peephole = projection = projection_scale = None
    if cell.peephole is not None:
        peephole = by_panel(cell.peephole, PEEPHOLES)
    if cell.projection is not None:
        projection = pack(by_panel(cell.projection[:, np.newaxis], (1,)), False)
        projection_scale = by_panel(factors(cell.projection_scale, data_scale, "projection_scale")[np.newaxis], (1,))
    return Cell(pack(by_panel(cell.weights_layer, phases), False), pack(by_panel(cell.weights_iter, phases), False),
                shift, by_panel(factors(cell.scale, data_scale), phases), by_panel(cell.bias, bias_phases),
                peephole, projection, projection_scale)


cdef class RecurrentLayer:
    """The base class of RNN, LSTM and GRU, which differ only in the names of their arguments."""

    cdef readonly int layers, directions
    cdef readonly Py_ssize_t input_size, units, outputs
    cdef readonly str direction
    cdef readonly object src_dtype, dst_dtype
    cdef readonly float data_scale
    cdef readonly int data_shift
    cdef int _kind, _gates, _lead, _activation
    cdef float _alpha
    cdef bint _projects
    cdef list _cells

    __signature__ = Signature()

    cdef int create(self, Kind kind, weights_layer, weights_iter, bias, data_scale, data_shift, weights_scale,
                    direction, src_dtype, dst_dtype, weights_peephole=None, weights_projection=None,
                    projection_scale=None, int activation=0, alpha=0.0) except -1:
        check_once(self, self._cells)
        phases, bias_phases = PHASES[kind]
        src_dtype, dst_dtype, scale, shift = checked(direction, src_dtype, dst_dtype, data_scale, data_shift)
        cells, lead = cells_of(weights_layer, weights_iter, bias, weights_scale, sum(phases), sum(bias_phases),
                               direction, weights_peephole, weights_projection, projection_scale)
        check_length(max([cell.weights_layer.shape[0] + cell.weights_iter.shape[0]
                          for cells_ in cells for cell in cells_]), shift)
        units = cells[0][0].bias.shape[1]
        if cells[0][0].projection is not None:
            check_length(units, shift, "weights_projection", "units")
        packed = [[packed_cell(cell, phases, bias_phases, shift, scale) for cell in cells_] for cells_ in cells]
        self.set_up(kind, packed, lead, units, direction, scale, shift, src_dtype, dst_dtype, activation, alpha)
        return 0

    cdef int set_up(self, int kind, list cells, int lead, Py_ssize_t units, str direction, data_scale, int data_shift,
                    src_dtype, dst_dtype, int activation, alpha) except -1:
        cdef Cell first = cells[0][0]
        self._kind, self._cells, self._lead = kind, cells, lead
        self._gates = sum(PHASES[kind][0])
        self.layers, self.directions = len(cells), len(cells[0])
        self.input_size, self.units, self.outputs = first.of_source._k, units, first.of_state._k
        self.direction, self.data_scale, self.data_shift = direction, data_scale, data_shift
        self.src_dtype, self.dst_dtype = src_dtype, dst_dtype
        self._projects = first.projection is not None
        self._activation, self._alpha = activation, alpha
        return 0

    def __reduce__(self):
        more = (self._activation, np.float32(self._alpha)) if self._kind == RNN_CELL else ()
        return _restore, (self._kind, self._cells, self._lead, self.units, self.direction, self.src_dtype,
                          self.dst_dtype, np.float32(self.data_scale), self.data_shift, *more)

    def __repr__(self):
        more = ", linear_before_reset=True" if self._kind == GRU_LINEAR_CELL else ""
        if self._kind == RNN_CELL:
            more = f", activation={self.activation!r}"
        if self._projects:
            more = f", outputs={self.outputs}"
        return (f"{type(self).__name__}({self.input_size}, {self.units}, layers={self.layers}, "
                f"direction={self.direction!r}{more})[{self.src_dtype} -> {self.dst_dtype}]")

    cdef cnp.ndarray first_state(self, x, str name, int64_t rows, int64_t units, tuple typenums):
        """Return a first state as a contiguous array (layers, directions, n, units), uint8 or float32, or None."""
        cdef cnp.ndarray array
        if x is None:
            return None
        shape = (self.layers, self.directions, rows, units)
        array = elements(x, name, typenums)
        if cnp.PyArray_TYPE(array) != cnp.NPY_UINT8:
            array = widened(array, name)
        given = (<object>array).shape
        lead = 4 - len(given)
        if not 0 <= lead <= 2 or given != shape[lead:] or shape[:lead] != (1,) * lead:
            raise ValueError(f"{name} must have shape {shape}, where leading dimensions of size 1 may be omitted, "
                             f"got {given}")
        return np.ascontiguousarray(array).reshape(shape)

    cdef cnp.ndarray quantized(self, cnp.ndarray x):
        """Return a first state quantized to uint8."""
        cdef const i8_kernels *kernels = current_kernels()
        cdef cnp.ndarray state
        if x is None or cnp.PyArray_TYPE(x) == cnp.NPY_UINT8:
            return x
        state = np.empty_like(x, dtype=np.uint8)
        kernels.stage.quantize_source(<uint8_t *>cnp.PyArray_DATA(state), cnp.PyArray_BYTES(x),
                                      element_type(cnp.NPY_FLOAT32), sizeof(float), cnp.PyArray_SIZE(x),
                                      self.data_scale, <float>self.data_shift)
        return state

    cdef tuple execute(self, src, h0, c0, lengths, out, attention=None):
        """Execute the layers. Return the destination, h_t and c_t."""
        check_created(self, self.src_dtype)
        cdef cnp.ndarray x = source_of_type(src, self.src_dtype.num), y, target, result, h, c, h_t, c_t = None
        cdef Layout layout
        cdef int i
        lay_out(&layout, x)
        if x.ndim != 3 or x.shape[2] != self.input_size:
            raise ValueError(f"src must have shape (t, n, {self.input_size}), got {(<object>x).shape}")
        t, n = x.shape[0], x.shape[1]
        channels = self.outputs * (2 if self.direction == "bidirectional_concat" else 1)
        sequences = None
        if lengths is not None:
            lengths = integers(lengths, "lengths", 0, t, n, "sequences of src")
            sequences = in_order_of_length(np.broadcast_to(lengths, n), t)
        h = self.first_state(h0, "h0", n, self.outputs, (cnp.NPY_UINT8, cnp.NPY_FLOAT32, cnp.NPY_FLOAT16))
        c = self.first_state(c0, "c0", n, self.units, (cnp.NPY_FLOAT32, cnp.NPY_FLOAT16))
        a = None if attention is None else self.attention_of(attention, t, n)
        check_layout(&layout, x, "src")
        lost = self.not_finite(x, h, c, a)
        kept = None if a is None else np.ascontiguousarray(1 - (a if sequences is None else a[:, sequences[1]]))
        h = self.quantized(h)
        if out is None:
            result = target = empty_of((t, n, channels), self.dst_dtype.num)
        else:
            result = target = elements_output(out, "out", self.dst_dtype.num, (t, n, channels))
            check_layout(&layout, x, "src")
            if not self.is_usable(target, x):
                target = empty_of((t, n, channels), self.dst_dtype.num)
        states = (self.layers, self.directions, n)
        h_t = empty_of((*states, self.outputs), self.dst_dtype.num)
        if self._kind == LSTM_CELL:
            c_t = empty_of((*states, self.units), cnp.NPY_FLOAT32)
        for i in range(self.layers):
            y = target if i == self.layers - 1 else empty_of((t, n, channels), cnp.NPY_UINT8)
            self.run(i, x, y, h, c, h_t, c_t, sequences, kept)
            x = y
        if lost is not None:
            spread_nan(*lost, self.direction, lengths, target, h_t, c_t)
        if target is not result:
            result[...] = target
        shape = states[2 - self._lead:]
        return (result if out is None else out, h_t.reshape((*shape, self.outputs)),
                None if c_t is None else c_t.reshape((*shape, self.units)))

    cdef cnp.ndarray attention_of(self, attention, int64_t t, int64_t n):
        """Return the attention of a GRU in float32, (t, n)."""
        cdef cnp.ndarray array = elements(attention, "attention", (cnp.NPY_UINT8, cnp.NPY_FLOAT32, cnp.NPY_FLOAT16))
        if (<object>array).shape not in ((t, n), (t, n, 1)):
            raise ValueError(f"attention must have shape {(t, n)} or {(t, n, 1)}, got {(<object>array).shape}")
        array = array.reshape(t, n)
        if cnp.PyArray_TYPE(array) == cnp.NPY_UINT8:
            reciprocal = np.float32(1) / np.float32(self.data_scale)
            return (array.astype(np.float32) - np.float32(self.data_shift)) * reciprocal
        return widened(array, "attention")

    cdef object not_finite(self, cnp.ndarray x, cnp.ndarray h, cnp.ndarray c, cnp.ndarray a):
        """Find the rows (time, n) of source and attention, and the first states (layers, directions, n), that have an
        infinity or NaN. Return None if all values are finite."""
        cdef const i8_kernels *kernels = current_kernels()
        cdef cnp.ndarray bad = rows_not_finite(x), state
        cdef float largest
        cdef list states = []
        if a is not None and not np.isfinite(a).all():
            bad = ~np.isfinite(a) | (False if bad is None else bad)
        for state in (h, c):
            if state is not None and cnp.PyArray_TYPE(state) == cnp.NPY_FLOAT32:
                kernels.stage.source_largest(&largest, cnp.PyArray_BYTES(state), 0, 1, element_type(cnp.NPY_FLOAT32),
                                             sizeof(float), cnp.PyArray_SIZE(state))
                if not largest <= FLT_MAX:
                    states.append(state)
        if bad is None and not states:
            return None
        begins = np.zeros((self.layers, self.directions, cnp.PyArray_DIM(x, 1)), bool)
        for state in states:
            begins |= ~np.isfinite(state).all(axis=3)
        return np.zeros((cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(x, 1)), bool) if bad is None else bad, begins

    cdef bint is_usable(self, cnp.ndarray target, cnp.ndarray src):
        """Return whether the driver can write to `target`: it has contiguous rows, and shares no memory with `src`."""
        cdef uintptr_t low, high, from_, to
        bounds(target, &low, &high)
        bounds(src, &from_, &to)
        return (cnp.PyArray_ISALIGNED(target) and (low >= to or from_ >= high)
                and (cnp.PyArray_STRIDE(target, 2) == cnp.PyArray_ITEMSIZE(target) or cnp.PyArray_DIM(target, 2) == 1))

    cdef int run(self, int index, cnp.ndarray x, cnp.ndarray y, cnp.ndarray h, cnp.ndarray c, cnp.ndarray h_t,
                 cnp.ndarray c_t, tuple sequences, cnp.ndarray kept) except -1:
        """Execute one layer."""
        cdef Layer layer
        cdef Direction *d
        cdef cnp.ndarray halves = None, place, lengths, order, begin
        cdef int i, status
        cdef int64_t place_of_h, place_of_c
        cdef double elapsed
        layer.kernels = current_kernels()
        layer.kind, layer.gates = <Kind>self._kind, self._gates
        layer.steps, layer.rows, layer.units = cnp.PyArray_DIM(x, 0), cnp.PyArray_DIM(x, 1), self.units
        layer.directions, layer.outputs, layer.projects = self.directions, self.outputs, self._projects
        layer.activation, layer.alpha = self._activation, self._alpha
        layer.kept = NULL if kept is None else <const float *>cnp.PyArray_DATA(kept)
        layer.data_scale, layer.data_shift = self.data_scale, self.data_shift
        layer.data_reciprocal = <float>1 / self.data_scale
        layer.inputs, layer.src_type = cnp.PyArray_DIM(x, 2), element_type(cnp.PyArray_TYPE(x))
        layer.src = cnp.PyArray_BYTES(x)
        layer.src_step, layer.src_row = cnp.PyArray_STRIDE(x, 0), cnp.PyArray_STRIDE(x, 1)
        layer.src_col = cnp.PyArray_STRIDE(x, 2)
        layer.lengths = layer.order = layer.begin = NULL
        if sequences is not None:
            lengths, order, begin = sequences
            layer.lengths = <const int64_t *>cnp.PyArray_DATA(lengths)
            layer.order = <const int64_t *>cnp.PyArray_DATA(order)
            layer.begin = <const int64_t *>cnp.PyArray_DATA(begin)
        layer.threads = max_threads()
        layer.real = cnp.PyArray_TYPE(y) == cnp.NPY_FLOAT32
        layer.real_state = cnp.PyArray_TYPE(h_t) == cnp.NPY_FLOAT32
        if self.direction == "bidirectional_sum":
            halves = np.empty((2, layer.steps, layer.rows, self.outputs), np.float32)
            layer.real = True
        for i in range(layer.directions):
            d = &layer.direction[i]
            (<Cell>(<list>self._cells[index])[i]).fill(d)
            d.product.threads = layer.threads
            d.backwards = i == 1 or self.direction == "right2left"
            place = y if halves is None else halves[i]
            d.dst = cnp.PyArray_BYTES(place)
            d.dst_step, d.dst_row = cnp.PyArray_STRIDE(place, 0), cnp.PyArray_STRIDE(place, 1)
            if halves is None:
                d.dst += i * layer.outputs * cnp.PyArray_ITEMSIZE(y)
            place_of_h = (index * layer.directions + i) * layer.rows
            place_of_c, place_of_h = place_of_h * layer.units, place_of_h * layer.outputs
            d.h0 = NULL if h is None else <uint8_t *>cnp.PyArray_DATA(h) + place_of_h
            d.c0 = NULL if c is None else <float *>cnp.PyArray_DATA(c) + place_of_c
            d.last_h = cnp.PyArray_BYTES(h_t) + place_of_h * cnp.PyArray_ITEMSIZE(h_t)
            d.last_c = NULL if c_t is None else <float *>cnp.PyArray_DATA(c_t) + place_of_c
        with nogil:
            end_turn()
            elapsed = seconds()
            open_arena()
            status = run_layer(&layer)
            close_arena()
            elapsed = seconds() - elapsed
            take_turn()
        if status:
            raise MemoryError(f"{type(self).__name__}: no memory for the workspace")
        if verbose:
            report(type(self).__name__.lower(), f"t={layer.steps},n={layer.rows},inputs={layer.inputs},"
                   f"units={layer.units}", self.direction, layer.kernels, layer_threads(&layer, layer.threads), elapsed)
        if halves is not None:
            with nogil:
                end_turn()
                add_directions(&layer, cnp.PyArray_BYTES(y), cnp.PyArray_STRIDE(y, 0), cnp.PyArray_STRIDE(y, 1),
                               cnp.PyArray_TYPE(y) == cnp.NPY_FLOAT32)
                take_turn()
        return 0


cdef cnp.ndarray rows_not_finite(cnp.ndarray x):
    """Return for each row (i, j) whether it has an infinity or a NaN. Return None if all rows are finite."""
    cdef const i8_kernels *kernels = current_kernels()
    cdef int type = element_type(cnp.PyArray_TYPE(x))
    cdef int64_t steps = cnp.PyArray_DIM(x, 0), rows = cnp.PyArray_DIM(x, 1), i, j
    cdef cnp.ndarray found = None
    cdef const char *row
    cdef float largest
    if cnp.PyArray_TYPE(x) == cnp.NPY_UINT8:
        return None
    for i in range(steps):
        for j in range(rows):
            row = cnp.PyArray_BYTES(x) + i * cnp.PyArray_STRIDE(x, 0) + j * cnp.PyArray_STRIDE(x, 1)
            kernels.stage.source_largest(&largest, row, 0, 1, type, cnp.PyArray_STRIDE(x, 2), cnp.PyArray_DIM(x, 2))
            if not largest <= FLT_MAX:
                found = np.zeros((steps, rows), bool) if found is None else found
                found[i, j] = True
    return found


def checked(direction, src_dtype, dst_dtype, data_scale, data_shift):
    """Check the arguments that RNN, LSTM and GRU share, except weights and bias. Return dtypes, scale and shift."""
    choice(direction, "direction", DIRECTIONS)
    src_dtype = check_dtype(src_dtype, "src_dtype", SRC_DTYPES)
    dst_dtype = check_dtype(dst_dtype, "dst_dtype", DST_DTYPES)
    scale = np.float32(divisor(data_scale, "data_scale"))
    return src_dtype, dst_dtype, scale, int(integers(data_shift, "data_shift", 0, 255, -1, ""))


def check_length(longest, shift, names="weights_layer and weights_iter", what="inputs and units together"):
    """Raise an error if sums over `longest`, inputs plus units of a layer, could exceed int32."""
    most = INT32_MAX // (128 * max(shift, 255 - shift))
    if longest > most:
        raise ValueError(f"{names} must have at most {most} {what}, so that "
                         f"sums fit int32, got {longest}")


def _restore(kind, cells, lead, units, direction, src_dtype, dst_dtype, data_scale, data_shift,
             activation=0, alpha=0.0):
    """Restore a layer from the values of RecurrentLayer.__reduce__, after checking every value."""
    cdef RecurrentLayer layer
    cdef Cell cell
    if kind not in PHASES:
        raise ValueError(f"kind must be one of {sorted(PHASES)}, got {kind!r}")
    src_dtype, dst_dtype, scale, shift = checked(direction, src_dtype, dst_dtype, data_scale, data_shift)
    units = int(integers(units, "units", 1, INT32_MAX, -1, ""))
    directions = 2 if direction.startswith("bidirectional") else 1
    if not (isinstance(cells, list) and cells and all([isinstance(part, list) and len(part) == directions
                                                       for part in cells])):
        raise ValueError(f"cells must be a list of lists of {directions}, got {cells!r}")
    least = 2 if len(cells) > 1 else directions - 1
    lead = int(integers(lead, "lead", least, 2, -1, ""))
    first = cells[0][0]
    if not isinstance(first, Cell):
        raise TypeError(f"cells must be cells, got {first!r}")
    cell = first
    outputs, has_peephole, projects = cell.of_state._k, cell.peephole is not None, cell.projection is not None
    if (not projects and outputs != units) or (kind != LSTM_CELL and (projects or has_peephole)):
        raise ValueError(f"cells must have been packed for {units} units, got {cell.of_state}")
    if (activation in ACTIVATIONS.values()) != (kind == RNN_CELL):
        raise ValueError(f"activation must be one of {sorted(ACTIVATIONS.values())} of an RNN, got {activation!r}")
    alpha = checked_alpha(alpha)
    channels = outputs * (directions if direction == "bidirectional_concat" else 1)
    gates, biases = [sum(phases) * round_up(units, I8_PANEL) for phases in PHASES[kind]]
    inputs = None
    for part in cells:
        for item in part:
            if not isinstance(item, Cell):
                raise TypeError(f"cells must be cells, got {item!r}")
            cell = item
            if inputs is None:
                inputs = cell.of_source._k
            if inputs < 1 or not cell.fits(inputs, units, outputs, gates, biases, shift, has_peephole, projects):
                raise ValueError(f"cells must have been packed for {inputs} inputs and {units} units, got "
                                 f"{cell.of_source} and {cell.of_state}")
            check_length(inputs + outputs, shift)
            if projects:
                check_length(units, shift, "weights_projection", "units")
        inputs = channels
    cls = {LSTM_CELL: LSTM, RNN_CELL: RNN}.get(kind, GRU)
    layer = cls.__new__(cls)
    layer.set_up(kind, cells, lead, units, direction, scale, shift, src_dtype, dst_dtype, activation, alpha)
    return layer


def checked_alpha(alpha):
    """Return the negative slope of relu in float32."""
    value = real(alpha, "alpha")
    if not abs(value) <= FLT_MAX:
        raise ValueError(f"alpha must be finite in float32, got {shown(alpha)}")
    return np.float32(value)


@cython.final
cdef class LSTM(RecurrentLayer):
    """Long short-term memory with uint8 states. The layer is created once and executed many times.

    ``c_t = logistic(f) * c_(t-1) + logistic(i) * tanh(c~)``, ``h_t = logistic(o) * tanh(c_t)``

    Each of the gates i, f, c~ and o has the value ``x_t W + h_(t-1) W' + bias``, computed from a uint8 source, a uint8
    state and int8 weights. c is float32. Quantization multiplies by the scales, as in oneDNN's RNN primitive: ``data_u8
    = sat(rne(data * data_scale + data_shift))`` and ``weights_s8 = sat(rne(weights * weights_scale))``.

    Parameters
    ----------
    weights_layer : array_like of int8 or float32, or sequence of them
        Weights of the source. The shape is (input, gates, units) with the gates i, f, c~, o; (directions, input, gates,
        units) for both directions; (layers, directions, input, gates, units) for several layers. If the layers have
        different inputs, the argument is a list with one array for each layer.
    weights_iter : array_like of the same dtype, or sequence of them
        Weights of the state, (units, gates, units), with the same leading dimensions.
    bias : array_like of float32, optional
        (gates, units), with the same leading dimensions; zeros by default.
    data_scale : float, optional
        The scale of source, state and destination. It may be negative.
    data_shift : int, optional
        The uint8 value that stands for 0.0.
    weights_scale : {'per_tensor', 'per_channel'} or array_like of float, optional
        For float32 weights, 'per_tensor' is 63 / max|w| over the weights of source and state together, for each layer
        and direction; 'per_channel' has a separate scale for each gate and unit. int8 weights need values, which may be
        negative: one value, (gates, units), or an array that broadcasts to (layers, directions, gates, units). These
        are the masks 0 and (1 << 3) | (1 << 4) of oneDNN.
    direction : {'left2right', 'right2left', 'bidirectional_concat', 'bidirectional_sum'}, optional
        The direction in time: forward, backward, or both. 'bidirectional_concat' stores the units of both directions
        side by side, and 'bidirectional_sum' adds them.
    src_dtype : dtype, optional
        uint8, or float32, float16 or bfloat16. Floats are quantized with `data_scale` and `data_shift`. float32 stands
        for float16 and bfloat16 too.
    dst_dtype : dtype, optional
        uint8, or float32 for the values of h before quantization.
    weights_peephole : array_like of float32, optional
        (3, units) for the gates i, f and o, with the same leading dimensions. The sums of i and f get ``peephole *
        c_(t-1)``, and the sum of o gets ``peephole * c_t``.
    weights_projection : array_like of int8 or float32, or sequence of them, optional
        (units, outputs), with the same leading dimensions. The layer quantizes ``logistic(o) * tanh(c_t)`` like a state
        and multiplies it by `weights_projection`. The product is h_t, with `outputs` columns. With a projection,
        `weights_iter` has the shape (outputs, gates, units).
    projection_scale : {'per_tensor', 'per_channel'} or array_like of float, optional
        The scale of `weights_projection`, with the choices of `weights_scale`. Values broadcast to (layers, directions,
        outputs).

    Attributes
    ----------
    layers, directions, input_size, units, outputs : int
        Sizes of the layer; `outputs` is `units`, or the columns of `weights_projection`.
    direction, data_scale, data_shift, src_dtype, dst_dtype
        As given to the constructor.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. The error names the argument. The inputs plus the units of a layer are
        at most 131071 with shift 128, and at most 65793 with shift 0 or 255, because larger sums could exceed int32.

    See Also
    --------
    GRU : gated recurrent units.
    RNN : a layer without gates.

    Notes
    -----
    Results have the same bits on every CPU and with any number of threads. A sequence may be divided among several
    calls: the next call gets h_t and c_t as h0 and c0. Each further layer reads the uint8 destination of the previous
    layer, for any `dst_dtype`.

    tanh and the logistic function are the functions of :class:`Eltwise`, except that the logistic function is 0 below
    -87.3.

    If a float source or a first state has an infinity or NaN, all float results of its sequence and direction are NaN
    from the step of this value on, and in further layers too. uint8 results have no NaN.

    As oneDNN's page "Nuances of int8 computations" recommends, the source is never int8. The defaults and
    ``weights_scale="per_tensor"`` follow the page "Nuances of int8 computations" too. Kernels without VNNI are fastest
    with weights of at most 63 in magnitude.

    Weights of ``torch.nn.LSTM``, which has the same order of gates::

        weights_layer = weight_ih_l0.reshape(4, units, input).transpose(2, 0, 1)
        weights_iter = weight_hh_l0.reshape(4, units, units).transpose(2, 0, 1)
        bias = (bias_ih_l0 + bias_hh_l0).reshape(4, units)

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> rng = np.random.default_rng(0)
    >>> weights_layer, weights_iter = rng.normal(0, 0.3, (8, 4, 3)), rng.normal(0, 0.3, (3, 4, 3))
    >>> layer = int8blas.LSTM(weights_layer.astype(np.float32), weights_iter.astype(np.float32),
    ...                       weights_scale="per_tensor", src_dtype=np.float32, dst_dtype=np.float32)
    >>> layer
    LSTM(8, 3, layers=1, direction='left2right')[float32 -> float32]
    >>> dst, h_t, c_t = layer(np.ones((5, 2, 8), np.float32))  # 5 time steps, batch of 2
    >>> dst.shape, h_t.shape, c_t.shape
    ((5, 2, 3), (2, 3), (2, 3))
    >>> bool((dst[-1] == h_t).all())
    True

    Sequences of 5 and of 2 time steps:

    >>> dst, h_t, c_t = layer(np.ones((5, 2, 8), np.float32), lengths=[5, 2])
    >>> bool((h_t == [dst[4, 0], dst[1, 1]]).all()), bool(dst[2:, 1].any())
    (True, False)
    """

    def __init__(self, weights_layer, weights_iter, bias=None, *, data_scale=127, data_shift=128, weights_scale=None,
                 direction="left2right", src_dtype="uint8", dst_dtype="uint8", weights_peephole=None,
                 weights_projection=None, projection_scale=None):
        """Create the layer; the docstring of the class has the parameters."""
        self.create(LSTM_CELL, weights_layer, weights_iter, bias, data_scale, data_shift, weights_scale, direction,
                    src_dtype, dst_dtype, weights_peephole, weights_projection, projection_scale)

    def __call__(self, src, h0=None, c0=None, *, lengths=None, out=None):
        """Execute the layers over sequences.

        Parameters
        ----------
        src : array_like of `src_dtype`
            (t, n, input): t time steps of n sequences, with any strides.
        h0 : array_like of uint8 or float32, optional
            The first states, (layers, directions, n, outputs); leading dimensions of size 1 may be omitted. float32
            states are quantized. By default the first states stand for 0.0.
        c0 : array_like of float32, optional
            The first c, (layers, directions, n, units).
        lengths : array_like of int, optional
            The number of time steps of each sequence, from 0 to t: (n,) or one number, by default t. Later steps of
            `src` are not read, and later steps of `dst` are 0.0 (`data_shift` if `dst` is uint8). The last states are
            the states after the last step of each sequence, or the first states for length 0. The backward direction
            starts at the last steps. Sequences may have any order. Steps after the end of a sequence cost no time.
        out : ndarray of `dst_dtype`, optional
            The array for dst, with any strides.

        Returns
        -------
        dst : ndarray of `dst_dtype`
            ``out`` if it is given. The shape is (t, n, outputs), or (t, n, 2 * outputs) for 'bidirectional_concat'.
        h_t : ndarray of `dst_dtype`
            The last states, (n, outputs), with the leading dimensions of the weights. For a list of weights, the
            leading dimensions are layers and directions.
        c_t : ndarray of float32
            The last c, (n, units), with the same leading dimensions.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above. Nothing is written then.
        """
        return self.execute(src, h0, c0, lengths, out)


@cython.final
cdef class GRU(RecurrentLayer):
    """Gated recurrent units with uint8 states. The layer is created once and executed many times.

    ``h_t = u * h_(t-1) + (1 - u) * o``

    with ``u = logistic(x_t W_u + h_(t-1) W'_u + b_u)``, an equal formula for r, and
    ``o = tanh(x_t W_o + (r * h_(t-1)) W'_o + b_o)``, where ``r * h_(t-1)`` is quantized like a state. With
    `linear_before_reset`, ``o = tanh((x_t W_o + b_o) + r * (h_(t-1) W'_o + b'_o))``. Source and state are uint8, and
    weights are int8, quantized as ``data_u8 = sat(rne(data * data_scale + data_shift))`` and ``weights_s8 =
    sat(rne(weights * weights_scale))``. Quantization multiplies by the scales, as in oneDNN's RNN primitive.

    Parameters
    ----------
    weights_layer : array_like of int8 or float32, or sequence of them
        Weights of the source, (input, gates, units) with the gates u, r, o. Other shapes are as for :class:`LSTM`.
    weights_iter : array_like of the same dtype, or sequence of them
        Weights of the state, (units, gates, units), with the same leading dimensions.
    bias : array_like of float32, optional
        (gates, units), with the same leading dimensions; zeros by default. With `linear_before_reset` the shape is
        (gates + 1, units), and the last row is b'_o.
    linear_before_reset : bool, optional
        Apply the reset gate after the product with the weights, like cuDNN and PyTorch.
    data_scale, data_shift, weights_scale, direction, src_dtype, dst_dtype
        As for :class:`LSTM`.

    Attributes
    ----------
    layers, directions, input_size, units, outputs : int
        Sizes of the layer; `outputs` is `units`.
    direction, linear_before_reset, data_scale, data_shift, src_dtype, dst_dtype
        As given to the constructor.

    Raises
    ------
    TypeError, ValueError
        As for :class:`LSTM`.

    See Also
    --------
    LSTM : the layer whose notes also apply to GRU.

    Notes
    -----
    Weights of ``torch.nn.GRU``, which has the gates r, z, n with z = u and n = o, and `linear_before_reset`::

        weights_layer = weight_ih_l0.reshape(3, units, input)[[1, 0, 2]].transpose(2, 0, 1)
        weights_iter = weight_hh_l0.reshape(3, units, units)[[1, 0, 2]].transpose(2, 0, 1)
        b, b_iter = bias_ih_l0.reshape(3, units), bias_hh_l0.reshape(3, units)
        bias = numpy.stack([b[1] + b_iter[1], b[0] + b_iter[0], b[2], b_iter[2]])

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> weights_layer, weights_iter = np.full((8, 3, 2), 5, np.int8), np.full((2, 3, 2), -9, np.int8)
    >>> layer = int8blas.GRU(weights_layer, weights_iter, weights_scale=63)
    >>> dst, h_t = layer(np.full((3, 1, 8), 200, np.uint8))  # 0.57 in 8 channels
    >>> dst[:, 0]
    array([[146, 146],
           [156, 156],
           [161, 161]], dtype=uint8)
    """

    def __init__(self, weights_layer, weights_iter, bias=None, *, linear_before_reset=False, data_scale=127,
                 data_shift=128, weights_scale=None, direction="left2right", src_dtype="uint8", dst_dtype="uint8"):
        """Create the layer; the docstring of the class has the parameters."""
        if not isinstance(linear_before_reset, (bool, np.bool_)):
            raise TypeError(f"linear_before_reset must be a bool, got {type(linear_before_reset).__name__}")
        self.create(GRU_LINEAR_CELL if linear_before_reset else GRU_CELL, weights_layer, weights_iter, bias, data_scale,
                    data_shift, weights_scale, direction, src_dtype, dst_dtype)

    @property
    def linear_before_reset(self):
        return self._kind == GRU_LINEAR_CELL

    def __call__(self, src, h0=None, *, lengths=None, out=None, attention=None):
        """Execute the layers over sequences.

        Parameters
        ----------
        src, h0, lengths, out
            As for :class:`LSTM`.
        attention : array_like of uint8 or float32, optional
            (t, n) or (t, n, 1): the gate u of every unit is multiplied by ``1 - attention``, as in oneDNN's AUGRU.
            uint8 has the scale and the shift of the data. All layers and directions have the same attention.

        Returns
        -------
        dst, h_t : ndarray of `dst_dtype`
            As for :class:`LSTM`.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above. Nothing is written then.
        """
        return self.execute(src, h0, None, lengths, out, attention)[:2]


@cython.final
cdef class RNN(RecurrentLayer):
    """A recurrent layer without gates, with uint8 states. The layer is created once and executed many times.

    ``h_t = activation(x_t W + h_(t-1) W' + bias)``

    Source and state are uint8, and weights are int8, quantized as for :class:`LSTM`, as in oneDNN's vanilla RNN.

    Parameters
    ----------
    weights_layer : array_like of int8 or float32, or sequence of them
        Weights of the source, (input, 1, units). Other shapes are as for :class:`LSTM`.
    weights_iter : array_like of the same dtype, or sequence of them
        Weights of the state, (units, 1, units), with the same leading dimensions.
    bias : array_like of float32, optional
        (1, units), with the same leading dimensions; zeros by default.
    activation : {'tanh', 'relu', 'logistic'}, optional
        The function of the sums. 'relu' is x for positive x, and ``alpha * x`` otherwise.
    alpha : float, optional
        The slope of 'relu' below 0.
    data_scale, data_shift, weights_scale, direction, src_dtype, dst_dtype
        As for :class:`LSTM`.

    Attributes
    ----------
    layers, directions, input_size, units, outputs : int
        Sizes of the layer; `outputs` is `units`.
    direction, activation, alpha, data_scale, data_shift, src_dtype, dst_dtype
        As given to the constructor.

    Raises
    ------
    TypeError, ValueError
        As for :class:`LSTM`.

    See Also
    --------
    LSTM : the layer whose notes also apply to RNN.

    Notes
    -----
    Weights of ``torch.nn.RNN``::

        weights_layer = weight_ih_l0.T[:, numpy.newaxis]
        weights_iter = weight_hh_l0.T[:, numpy.newaxis]
        bias = (bias_ih_l0 + bias_hh_l0)[numpy.newaxis]

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> weights_layer, weights_iter = np.full((8, 1, 2), 5, np.int8), np.full((2, 1, 2), -9, np.int8)
    >>> layer = int8blas.RNN(weights_layer, weights_iter, weights_scale=63, dst_dtype=np.float32)
    >>> layer
    RNN(8, 2, layers=1, direction='left2right', activation='tanh')[uint8 -> float32]
    >>> dst, h_t = layer(np.full((3, 1, 8), 200, np.uint8))
    >>> dst[:, 0].round(2)
    array([[0.35, 0.35],
           [0.26, 0.26],
           [0.28, 0.28]], dtype=float32)
    """

    def __init__(self, weights_layer, weights_iter, bias=None, *, activation="tanh", alpha=0.0, data_scale=127,
                 data_shift=128, weights_scale=None, direction="left2right", src_dtype="uint8", dst_dtype="uint8"):
        """Create the layer; the docstring of the class has the parameters."""
        choice(activation, "activation", tuple(ACTIVATIONS))
        slope = checked_alpha(alpha)
        if activation != "relu" and slope != 0:
            raise ValueError(f"alpha must not be given for activation {activation!r}, got {shown(alpha)}")
        self.create(RNN_CELL, weights_layer, weights_iter, bias, data_scale, data_shift, weights_scale, direction,
                    src_dtype, dst_dtype, None, None, None, ACTIVATIONS[activation], slope)

    @property
    def activation(self):
        (name,) = [name for name, value in ACTIVATIONS.items() if value == self._activation]
        return name

    @property
    def alpha(self):
        return self._alpha

    def __call__(self, src, h0=None, *, lengths=None, out=None):
        """Execute the layers over sequences.

        Parameters
        ----------
        src, h0, lengths, out
            As for :class:`LSTM`.

        Returns
        -------
        dst, h_t : ndarray of `dst_dtype`
            As for :class:`LSTM`.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above. Nothing is written then.
        """
        return self.execute(src, h0, None, lengths, out)[:2]


register(Cell)
register(LSTM, _restore)
register(GRU, _restore)
register(RNN, _restore)
