"""Steps of LSTM, GRU and RNN in float32, with the same bits on every CPU and with any number of threads.

Each product, sum and function is rounded to float32, in the order of the formulas. LSTM, with the gates i, o, f, n::

    i, o, f, n = (h @ weights + gates) + bias
    c = logistic(f) * c + logistic(i) * tanh(n)
    h = logistic(o) * tanh(c)

GRU, with the gates z, r, n, the bias b of the gates, and the bias d of the state::

    z, r = logistic(((gates + b) + h @ weights) + d)
    n = tanh((gates + b) + logistic(r) * (h @ weights + d))             reset_after
    n = tanh((gates + b) + ((logistic(r) * h) @ weights + d))           otherwise
    h = (1 - z) * n + z * h

RNN::

    h = tanh((gates + h @ weights) + bias), or relu

For a GRU with reset_after and an RNN, h @ weights may also be a dynamic :class:`InnerProduct`, which quantizes each row
of h in each step.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.kernels cimport I8_CHUNK, i8_kernels, i8_post_op
from int8blas.core.results cimport empty_of
from int8blas.core.split cimport round_up
from int8blas.core.threads cimport max_threads, parallel_for
from int8blas.core.turns cimport end_turn, take_turn
from int8blas.gemm.driver cimport gemm
from int8blas.gemm.problem cimport DynamicSource, Problem
from int8blas.layers.inner_product cimport InnerProduct
from int8blas.layers.real_product cimport RealJob, divide, multiply_part, set_a, set_b, set_y
from int8blas.stage.output_stage cimport set_post_op
from int8blas.stage.attributes import Eltwise

cnp.import_array()

cdef i8_post_op LOGISTIC, TANH, RELU
set_post_op(&LOGISTIC, Eltwise("logistic"), cnp.NPY_FLOAT32)
set_post_op(&TANH, Eltwise("tanh"), cnp.NPY_FLOAT32)
set_post_op(&RELU, Eltwise("relu"), cnp.NPY_FLOAT32)


cdef struct Gates:
    # A step of all rows, gate by gate. A gate has `size` elements, for all rows, in memory of `room` elements.
    int64_t steps, rows, units, size, room
    int count
    const float *source                     # the products of the inputs: (steps, rows, count * units)
    const float *bias                       # (count * units), or NULL; a GRU also has the bias of the state after it
    const int64_t *lengths                  # the steps of each row, or NULL
    float *sums                             # the product with the state: (rows, count * units)
    float *values                           # (count, room)
    float *h
    float *other                            # c of an LSTM; reset * h of a GRU
    float *y
    i8_post_op logistic, tanh
    const i8_kernels *kernels
    RealJob all, last                       # the products with the state: all gates, and the last gate of a GRU
    int64_t threads, last_threads
    const Problem *product                  # the product with int8 weights, instead of `all`; or NULL


cdef inline void apply(const Gates *g, const i8_post_op *op, int first, int count) noexcept nogil:
    """Apply a function to a range of gates."""
    cdef float *y = g.values + first * g.room
    g.kernels.elementwise.apply(op, y, y, NULL, 0, count * g.room)


cdef int multiply_state(Gates *g) noexcept nogil:
    """Multiply the state by its weights. Return 0, or -1 if there is no memory."""
    cdef Problem product
    if g.product is NULL:
        return parallel_for(multiply_part, &g.all, g.threads, <int>g.threads)
    product = g.product[0]
    return gemm(&product)


cdef inline bint is_over(const Gates *g, int64_t step, int64_t row) noexcept nogil:
    """Return whether a row has ended before this step."""
    return g.lengths is not NULL and step >= g.lengths[row]


cdef void store(Gates *g, int64_t step, const float *h, const float *c) noexcept nogil:
    """Store the new states of the rows that have this step. Ended rows keep their states, and get the results 0."""
    cdef int64_t row, u, at
    cdef float *y = g.y + step * g.size
    if g.lengths is NULL:
        memcpy(y, h, 4 * g.size)
        memcpy(g.h, h, 4 * g.size)
        if c is not NULL:
            memcpy(g.other, c, 4 * g.size)
        return
    for row in range(g.rows):
        at = row * g.units
        if is_over(g, step, row):
            for u in range(at, at + g.units):
                y[u] = 0
            continue
        memcpy(y + at, h + at, 4 * g.units)
        memcpy(g.h + at, h + at, 4 * g.units)
        if c is not NULL:
            memcpy(g.other + at, c + at, 4 * g.units)


cdef int run_lstm(Gates *g) noexcept nogil:
    """Run all steps; return -1 if there is no memory."""
    cdef int64_t step, row, u, width = 4 * g.units
    cdef int k
    cdef float *i = g.values
    cdef float *o = i + g.room
    cdef float *f = o + g.room
    cdef float *n = f + g.room
    cdef float *to
    cdef const float *x
    cdef const float *sums
    cdef const float *bias
    for step in range(g.steps):
        if multiply_state(g):
            return -1
        for row in range(g.rows):
            for k in range(4):
                to, sums = g.values + k * g.room + row * g.units, g.sums + row * width + k * g.units
                x = g.source + (step * g.rows + row) * width + k * g.units
                if g.bias is NULL:
                    for u in range(g.units):
                        to[u] = sums[u] + x[u]
                else:
                    bias = g.bias + k * g.units
                    for u in range(g.units):
                        to[u] = sums[u] + x[u] + bias[u]
        apply(g, &g.logistic, 0, 3)
        apply(g, &g.tanh, 3, 1)
        for u in range(g.size):
            f[u] = f[u] * g.other[u] + i[u] * n[u]
            n[u] = f[u]
        apply(g, &g.tanh, 3, 1)
        for u in range(g.size):
            n[u] = o[u] * n[u]
        store(g, step, n, f)
    return 0


cdef int run_gru(Gates *g, bint reset_after) noexcept nogil:
    """Run all steps; return -1 if there is no memory."""
    cdef int64_t step, row, u, width = 3 * g.units
    cdef int k
    cdef float *z = g.values
    cdef float *r = z + g.room
    cdef float *n = r + g.room
    cdef float *to
    cdef const float *x
    cdef const float *sums
    cdef const float *b
    cdef const float *d
    for step in range(g.steps):
        if multiply_state(g):
            return -1
        for row in range(g.rows):
            for k in range(2):
                to, sums = g.values + k * g.room + row * g.units, g.sums + row * width + k * g.units
                x = g.source + (step * g.rows + row) * width + k * g.units
                b, d = g.bias + k * g.units, g.bias + width + k * g.units
                for u in range(g.units):
                    to[u] = x[u] + b[u] + sums[u] + d[u]
        apply(g, &g.logistic, 0, 2)
        if not reset_after:
            for u in range(g.size):
                g.other[u] = r[u] * g.h[u]
            if parallel_for(multiply_part, &g.last, g.last_threads, <int>g.last_threads):
                return -1
        for row in range(g.rows):
            to, sums = n + row * g.units, g.sums + row * width + 2 * g.units
            x = g.source + (step * g.rows + row) * width + 2 * g.units
            b, d = g.bias + 2 * g.units, g.bias + width + 2 * g.units
            if reset_after:
                for u in range(g.units):
                    to[u] = x[u] + b[u] + r[row * g.units + u] * (sums[u] + d[u])
            else:
                for u in range(g.units):
                    to[u] = x[u] + b[u] + (sums[u] + d[u])
        apply(g, &g.tanh, 2, 1)
        for u in range(g.size):
            n[u] = (<float>1 - z[u]) * n[u] + z[u] * g.h[u]
        store(g, step, n, NULL)
    return 0


cdef int run_rnn(Gates *g) noexcept nogil:
    """Run all steps; return -1 if there is no memory."""
    cdef int64_t step, u, row
    cdef const float *x
    for step in range(g.steps):
        if multiply_state(g):
            return -1
        x = g.source + step * g.size
        for u in range(g.size):
            g.values[u] = x[u] + g.sums[u]
        for row in range(0 if g.bias is NULL else g.rows):
            for u in range(g.units):
                g.values[row * g.units + u] += g.bias[u]
        apply(g, &g.tanh, 0, 1)
        store(g, step, g.values, NULL)
    return 0


cdef cnp.ndarray contiguous(object values):
    """Return a contiguous float32 array."""
    if isinstance(values, np.ndarray) and cnp.PyArray_TYPE(values) == cnp.NPY_FLOAT32:
        if cnp.PyArray_IS_C_CONTIGUOUS(values):
            return values
    return np.ascontiguousarray(values, np.float32)


cdef cnp.ndarray floats(object values, tuple shape, str name):
    """Return a contiguous float32 array, or raise an error if the shape is not the given shape."""
    cdef cnp.ndarray array = contiguous(values)
    if (<object>array).shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {(<object>array).shape}")
    return array


cdef object steps_of(int count, object gates, object weights, object bias, object h, object c, object lengths,
                     bint reset_after, bint relu=False):
    """Run the steps of a layer with `count` gates: an LSTM with memory c, a GRU, or an RNN."""
    cdef Gates g
    cdef Problem product
    cdef DynamicSource dynamic
    cdef cnp.ndarray source = contiguous(gates), matrix, sums, values, state, other, y
    cdef cnp.ndarray added = None, last = None, ends = None
    cdef int failed
    if source.ndim != 3 or source.shape[2] % count:
        raise ValueError(f"gates must have shape (steps, rows, {count} units), got {(<object>source).shape}")
    g.steps, g.rows, g.units, g.count = source.shape[0], source.shape[1], source.shape[2] // count, count
    g.size = g.rows * g.units
    g.room = round_up(g.size, I8_CHUNK)
    shape = (g.rows, g.units)
    matrix = None
    if isinstance(weights, InnerProduct):
        if not reset_after:
            raise TypeError("weights must be an array if reset_after is False, got InnerProduct")
        if weights.weights_shape != (count * g.units, g.units):
            raise ValueError(f"weights must have shape {(count * g.units, g.units)}, got {weights.weights_shape}")
    else:
        matrix = floats(weights, (g.units, count * g.units), "weights")
    state = floats(h, shape, "h").copy()
    other = np.zeros(shape, np.float32) if c is None else floats(c, shape, "c").copy()
    if bias is not None or count == 3:
        size = (6 if count == 3 else count) * g.units
        added = np.zeros(size, np.float32) if bias is None else floats(bias, (size,), "bias")
    if lengths is not None:
        ends = np.ascontiguousarray(lengths, np.int64)
        if (<object>ends).shape != (g.rows,):
            raise ValueError(f"lengths must have shape {(g.rows,)}, got {(<object>ends).shape}")
    y = empty_of((g.steps, g.rows, g.units), cnp.NPY_FLOAT32)
    if not g.size or not g.steps:
        return y, (state, other) if c is not None else (state,)
    sums, values = empty_of((g.rows, count * g.units), cnp.NPY_FLOAT32), empty_of((count, g.room), cnp.NPY_FLOAT32)
    memset(cnp.PyArray_DATA(values), 0, cnp.PyArray_NBYTES(values))
    g.source, g.sums = <float *>cnp.PyArray_DATA(source), <float *>cnp.PyArray_DATA(sums)
    g.values = <float *>cnp.PyArray_DATA(values)
    g.bias = NULL if added is None else <float *>cnp.PyArray_DATA(added)
    g.lengths = NULL if ends is None else <int64_t *>cnp.PyArray_DATA(ends)
    g.h, g.other = <float *>cnp.PyArray_DATA(state), <float *>cnp.PyArray_DATA(other)
    g.y = <float *>cnp.PyArray_DATA(y)
    g.logistic, g.tanh = LOGISTIC, RELU if relu else TANH
    g.product = NULL
    if matrix is None:
        (<InnerProduct>weights).set_rows(&product, &dynamic, g.h, g.rows, g.sums)
        product.threads = max_threads()
        g.product, g.kernels = &product, product.kernels
    else:
        set_product(&g.all, state, matrix[:, :2 * g.units] if c is None and not reset_after else matrix, sums)
        g.threads, g.kernels = divide(&g.all), g.all.kernels
    if c is None and not reset_after:
        last = matrix[:, 2 * g.units:]
        set_product(&g.last, other, last, sums[:, 2 * g.units:])
        g.last_threads = divide(&g.last)
    with nogil:
        end_turn()
        failed = run_lstm(&g) if c is not None else run_gru(&g, reset_after) if count == 3 else run_rnn(&g)
        take_turn()
    if failed:
        raise MemoryError("the steps of a recurrent layer: no memory for the workspace")
    return y, (state, other) if c is not None else (state,)


cdef void set_product(RealJob *job, cnp.ndarray a, cnp.ndarray b, cnp.ndarray y):
    """Set a job to one product of float32 matrices. The job reads and writes the given arrays in place."""
    job.dims, job.count = 0, 1
    set_a(job, a)
    set_b(job, b)
    set_y(job, y)


def lstm_steps(gates, weights, bias, h, c, lengths=None):
    """Return the outputs of an LSTM's steps, and its last states.

    Parameters
    ----------
    gates : ndarray of float32
        The inputs times their weights, (steps, rows, 4 units).
    weights : ndarray of float32
        The weights of the state, (units, 4 units).
    bias : ndarray of float32 or None
        The bias of the gates, (4 units).
    h, c : ndarray of float32
        The first states, (rows, units).
    lengths : ndarray of int, optional
        The number of steps of each row. After its last step, a row has outputs of 0 and keeps its states.
    """
    return steps_of(4, gates, weights, bias, h, c, lengths, False)


def gru_steps(gates, weights, bias, h, lengths=None, *, reset_after=False):
    """Return the outputs of a GRU's steps, and its last state, in a tuple.

    Parameters
    ----------
    gates, weights, h, lengths
        As for :func:`lstm_steps`, with 3 gates. With `reset_after`, `weights` may also be a dynamic InnerProduct (3
        units, units) of float32 that quantizes each row by its range.
    bias : ndarray of float32 or None
        The bias of the gates, then the bias of the state: (6 units).
    reset_after : bool, optional
        Whether the reset gate multiplies the product with the state, instead of the state.
    """
    return steps_of(3, gates, weights, bias, h, None, lengths, reset_after)


def rnn_steps(gates, weights, h, lengths=None, *, bias=None, relu=False):
    """Return the outputs of an RNN's steps, and its last state, in a tuple.

    Parameters
    ----------
    gates, weights, h, lengths
        As for :func:`gru_steps` with `reset_after`, with one gate.
    bias : ndarray of float32, optional
        (units).
    relu : bool, optional
        Whether the function is relu instead of tanh.
    """
    return steps_of(1, gates, weights, bias, h, None, lengths, True, relu)
