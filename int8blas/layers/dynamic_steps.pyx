"""The driver of :class:`DynamicLSTM`: one layer, in one direction or both, over all time steps.

    execute             quantize the whole source by its range; then for each stretch of time:
      source_sums         multiply the source by its weights, one GEMM for each direction
      run_steps           in each thread: its units, step by step, with a barrier after each step
        run_step            quantize the state; for some panels of 16 units call the micro-kernel, then the cells

A state is a float32 matrix with a row for each sequence. Each thread quantizes the whole state, because quantizing is
faster than a barrier: a row of the state is smaller than the weights by the factor 4 * units. Rows of ended sequences
keep their last state, and the range of the whole state includes these rows.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from int8blas.core.kernels cimport I8_MAX_CELLS, I8_PANEL, I8_TYPE_F32, i8_dynamic_cell_args, i8_kernels
from int8blas.core.memory cimport ALIGNMENT, acquire, carve, release
from int8blas.core.split cimport ceil_div, share
from int8blas.core.threads cimport i8_barrier, i8_wait, run_team
from int8blas.gemm.driver cimport gemm
from int8blas.gemm.problem cimport Problem
from int8blas.layers.recurrent cimport Direction, Layer, multiply, set_sizes
from int8blas.stage.by_range cimport quantize_by_range, quantize_some, range_parameters, widen_range

cdef enum:
    GATES = 4


# One thread's part of the work: some units of one direction, or of both directions.
cdef struct Part:
    int first, end                  # range of directions
    int64_t panel, panel_end
    bint waits                      # whether other threads compute other units of these rows
    uint8_t *bytes                  # the thread's quantized state


cdef void lay_out(Execution *e, int threads, char *memory, char **end) noexcept nogil:
    """Set the pointers to the workspace, and `end` to its end."""
    cdef Layer *layer = &e.layer
    cdef size_t states = layer.rows * layer.state_row
    cdef int i
    for i in range(layer.directions):
        e.direction[i].states[0] = <float *>carve(&memory, 4 * states)
        e.direction[i].states[1] = <float *>carve(&memory, 4 * states)
        e.direction[i].reversed_ = <uint8_t *>carve(
            &memory, layer.stretch * layer.rows * layer.inputs if layer.direction[i].backwards else 0)
        layer.direction[i].memory = <float *>carve(&memory, 4 * states)
        layer.direction[i].sums = <int32_t *>carve(&memory, 4 * layer.stretch * layer.rows * layer.sums_row)
    e.quantized = <uint8_t *>carve(&memory, layer.steps * layer.rows * layer.inputs)
    e.bytes = <uint8_t *>carve(&memory, threads * states)
    end[0] = memory


cdef inline int64_t steps_of(const Execution *e, int64_t row) noexcept nogil:
    return e.layer.steps if e.lengths is NULL else e.lengths[row]


cdef inline int64_t time_of(const Execution *e, const Direction *d, int64_t row, int64_t step) noexcept nogil:
    """Return the time at which a direction computes a step of a row. If the row has fewer steps, return a time after
    the row's end."""
    return steps_of(e, row) - 1 - step if d.backwards and step < steps_of(e, row) else step


# The source

cdef const uint8_t *source_of(const Execution *e, int i) noexcept nogil:
    """Return the quantized source of the current stretch, step after step."""
    if e.layer.direction[i].backwards:
        return e.direction[i].reversed_
    return e.quantized + e.first * e.layer.rows * e.layer.inputs


cdef int source_sums(const Execution *e, int i) noexcept nogil:
    """Compute the sums of the source for the current stretch. Return 0, or -1 if there is no memory."""
    cdef const Layer *layer = &e.layer
    cdef const Direction *d = &layer.direction[i]
    cdef Problem g = d.product
    cdef int64_t step, row, inputs = layer.inputs
    if d.backwards:
        for step in range(e.steps):
            for row in range(layer.rows):
                memcpy(e.direction[i].reversed_ + (step * layer.rows + row) * inputs,
                       e.quantized + (time_of(e, d, row, e.first + step) * layer.rows + row) * inputs, inputs)
    g.m = e.steps * layer.rows
    g.a.data, g.a.row, g.a.column, g.a.zero_point = source_of(e, i), inputs, 1, e.src_zero
    g.c.data, g.c.row, g.c.column = <char *>d.sums, 4 * layer.sums_row, 4
    return gemm(&g)


# A step

cdef int32_t excess(const uint8_t *x, int64_t count, int zero) noexcept nogil:
    """Return the sum of (byte - zero point) over some bytes, modulo 2**32."""
    cdef int64_t i, sum = 0
    for i in range(count):
        sum += x[i]
    return <int32_t>(sum - count * zero)


cdef void quantize_state(const Execution *e, const float *state, uint8_t *bytes, float *scale,
                         int *zero) noexcept nogil:
    """Quantize all rows of a state by their common range."""
    cdef const Layer *layer = &e.layer
    cdef const i8_kernels *kernels = layer.kernels
    cdef float ends[2]
    cdef float whole[2]
    cdef int64_t row
    whole[0] = whole[1] = 0
    for row in range(layer.rows):
        kernels.stage.source_range(ends, <const char *>(state + row * layer.state_row), I8_TYPE_F32, sizeof(float),
                                   layer.units)
        widen_range(whole, ends)
    range_parameters(whole, scale, zero)
    for row in range(layer.rows):
        quantize_some(kernels, bytes + row * layer.state_row, state + row * layer.state_row, layer.units, scale[0],
                      zero[0])


cdef void run_cell(const Execution *e, int i, i8_dynamic_cell_args *c, int64_t panel, int64_t row,
                   int64_t step) noexcept nogil:
    """Compute the next state and the results of some panels of one row, from the sums in `c`."""
    cdef const Layer *layer = &e.layer
    cdef const Direction *d = &layer.direction[i]
    cdef const DynamicDirection *v = &e.direction[i]
    cdef int64_t column = panel * GATES * I8_PANEL, unit = panel * I8_PANEL, place = row * layer.state_row + unit
    cdef int64_t units = min(c.panels * I8_PANEL, layer.units - unit), at = (step - e.first) * layer.rows + row
    cdef float *after = v.states[~step & 1] + place
    cdef char *dst = d.dst + time_of(e, d, row, step) * d.dst_step + row * d.dst_row + 4 * unit
    if step >= steps_of(e, row):
        memcpy(after, v.states[step & 1] + place, 4 * units)
        memset(dst, 0, 4 * units)
        return
    c.x = d.sums + at * layer.sums_row + column
    c.x_scale, c.h_scale, c.bias = v.source_scale + column, v.state_scale + column, d.bias + column
    c.h_sums = v.state_sums + column
    c.x_zero = NULL if v.source_zero is NULL else v.source_zero + column
    c.h_zero = NULL if v.state_zero is NULL else v.state_zero + column
    c.x_excess = 0 if v.source_zero is NULL else excess(source_of(e, i) + at * layer.inputs, layer.inputs, e.src_zero)
    c.memory, c.output = d.memory + place, after
    layer.kernels.recurrent.dynamic_lstm(c)
    memcpy(dst, after, 4 * units)


cdef void run_step(const Execution *e, int i, const Part *part, int64_t step) noexcept nogil:
    cdef const Layer *layer = &e.layer
    cdef int32_t sums[I8_MAX_CELLS * GATES * I8_PANEL]
    cdef i8_dynamic_cell_args c
    cdef int64_t tiles = ceil_div(layer.rows, layer.kernels.gemm.mr), panel = part.panel, tile, row, end, k
    cdef int64_t together = I8_MAX_CELLS // ceil_div(layer.rows, tiles)
    cdef int zero
    quantize_state(e, e.direction[i].states[step & 1], part.bytes, &c.state_scale, &zero)
    c.source_scale, c.state_zero = e.src_scale, zero
    while panel < part.panel_end:
        c.panels = <int>min(together, part.panel_end - panel)
        for tile in range(tiles):
            row, end = share(layer.rows, tile, tiles), share(layer.rows, tile + 1, tiles)
            multiply(layer, &layer.direction[i].state, part.bytes + row * layer.state_row, layer.state_row,
                     <int>(end - row), panel * GATES, c.panels * GATES, sums)
            for k in range(row, end):
                c.h = sums + (k - row) * c.panels * GATES * I8_PANEL
                c.h_excess = 0
                if e.direction[i].state_zero is not NULL:
                    c.h_excess = excess(part.bytes + k * layer.state_row, layer.units, zero)
                run_cell(e, i, &c, panel, k, step)
        panel += c.panels


# Threads

cdef Part part_of(const Execution *e, int part, int parts) noexcept nogil:
    """Divide the work: each thread takes one direction if there are enough threads, and a share of the units."""
    cdef const Layer *layer = &e.layer
    cdef Part p
    cdef int member = part, members = parts
    p.first, p.end = 0, layer.directions
    if layer.directions == 2 and parts > 1:
        p.first = part % 2
        p.end = p.first + 1
        member, members = part // 2, (parts + 1 - p.first) // 2
    p.panel, p.panel_end = share(layer.panels, member, members), share(layer.panels, member + 1, members)
    p.waits = parts > layer.directions or (layer.directions == 1 and parts > 1)
    p.bytes = e.bytes + part * layer.rows * layer.state_row
    return p


cdef void run_steps(const void *job, int thread, int threads) noexcept nogil:
    """Run one thread's part of a stretch, one direction after the other, so that the weights of each direction stay in
    cache."""
    cdef const Execution *e = <const Execution *>job
    cdef Part part = part_of(e, thread, threads)
    cdef int64_t step
    cdef int i
    for i in range(part.first, part.end):
        for step in range(e.first, e.first + e.steps):
            run_step(e, i, &part, step)
            if part.waits:
                i8_wait(e.layer.barrier, threads)


cdef void start_states(const Execution *e) noexcept nogil:
    """Copy the first states to the workspace, with zeros after the last unit of a row."""
    cdef const Layer *layer = &e.layer
    cdef const Direction *d
    cdef int64_t row, size = 4 * layer.rows * layer.state_row
    cdef int i
    for i in range(layer.directions):
        d = &layer.direction[i]
        memset(e.direction[i].states[0], 0, size)
        memset(e.direction[i].states[1], 0, size)
        memset(d.memory, 0, size)
        for row in range(layer.rows):
            if e.direction[i].h0 is not NULL:
                memcpy(e.direction[i].states[0] + row * layer.state_row, e.direction[i].h0 + row * layer.units,
                       4 * layer.units)
            if d.c0 is not NULL:
                memcpy(d.memory + row * layer.state_row, d.c0 + row * layer.units, 4 * layer.units)


cdef void finish_states(const Execution *e) noexcept nogil:
    """Copy the last states to the results."""
    cdef const Layer *layer = &e.layer
    cdef const Direction *d
    cdef int64_t row, size = 4 * layer.units
    cdef int i
    for i in range(layer.directions):
        d = &layer.direction[i]
        for row in range(layer.rows):
            memcpy(d.last_h + row * size, e.direction[i].states[layer.steps & 1] + row * layer.state_row, size)
            memcpy(d.last_c + row * layer.units, d.memory + row * layer.state_row, size)


cdef int execute(Execution *e) noexcept nogil:
    """Execute all time steps. The caller has set all members of `e` except the workspace. Return 0, or -1 if there is
    no memory."""
    cdef Layer *layer = &e.layer
    cdef char *memory
    cdef char *end
    cdef i8_barrier barrier = i8_barrier(0, 0)
    cdef int64_t parts = ceil_div(layer.units, I8_PANEL) * layer.directions
    cdef int i, threads = set_sizes(layer, <int>min(<int64_t>layer.threads, parts))
    layer.barrier = &barrier
    lay_out(e, threads, <char *>ALIGNMENT, &end)
    memory = <char *>acquire(end - <char *>ALIGNMENT)
    if memory is NULL:
        return -1
    lay_out(e, threads, memory, &end)
    if layer.rows > 0:  # without rows the workspace is empty
        start_states(e)
    quantize_by_range(layer.kernels, e.quantized, e.src, layer.steps * layer.rows * layer.inputs, &e.src_scale,
                      &e.src_zero, layer.threads)
    e.first = 0
    while e.first < layer.steps and layer.rows > 0:
        e.steps = min(layer.stretch, layer.steps - e.first)
        for i in range(layer.directions):
            if source_sums(e, i):
                release(memory)
                return -1
        run_team(run_steps, e, threads)
        e.first += e.steps
    finish_states(e)
    release(memory)
    return 0
