"""The driver of recurrent layers: one layer, in one direction or both, over all time steps.

    run_layer           for each stretch of time:
      source_sums         multiply the source by its weights, one GEMM for each direction
      run_steps           in each thread: its rows and units, phase by phase, with a barrier after each phase
        run_phase           for some panels of 16 units and each tile of rows, call the micro-kernel, then the cells

The sums of a gate have two parts: source times weights, and previous state times weights. The gates of 16 units are
neighbouring panels, so the cell computes the new state of these units while their sums are in the L1 cache. A step has
two phases if the reset gate of a GRU is applied before the product, or if the h of an LSTM is projected. All gates of a
phase have contiguous columns.

Sequences of different lengths are sorted by length. The sequences that have a certain time step are therefore the first
rows, and the sums of the source contain only these rows. The time step leaves the states of ended sequences unchanged.
In the forward direction a row keeps its last state after its end. In the backward direction a row keeps its first state
until its sequence begins.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport (
    I8_DOT4, I8_DOT4_SAT, I8_GROUP, I8_GRU_LINEAR, I8_GRU_OUTPUT, I8_GRU_RESET, I8_LSTM, I8_LSTM_PEEPHOLE, I8_MAX_CELLS,
    I8_MAX_SEQUENTIAL, I8_PANEL, I8_RNN, I8_RNN_LINEAR, I8_TYPE_F32, I8_TYPE_U8, i8_cell_args, i8_tile_args,
    tile_panels)
from int8blas.core.machine cimport this_machine
from int8blas.core.memory cimport ALIGNMENT, acquire, carve, release
from int8blas.core.split cimport ceil_div, round_up, share
from int8blas.core.threads cimport (
    THREAD_REALS, THREAD_STEP_WORK, i8_barrier, i8_wait, paid_threads, parallel_for, region_threads, run_team)
from int8blas.gemm.driver cimport gemm
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.problem cimport Problem, start

cnp.import_array()


cdef enum:
    # The maximum number of bytes of a thread's source sums in a stretch of time, which stay in its L2 cache.
    STRETCH_BYTES = 1 << 20


# Consecutive time steps.
cdef struct Stretch:
    const Layer *layer
    int64_t first, steps


# One thread's part of a layer: rows and panels of one direction, or of both directions.
cdef struct Part:
    int first, end              # range of directions
    int64_t row, row_end, panel, panel_end
    int64_t output, output_end  # panels of h
    bint waits                  # whether other threads compute other units of these rows


# A phase of a step: some of the gates, or the projection.
cdef struct Phase:
    int cell                    # I8_LSTM and so on
    int activation              # of an I8_RNN
    int first_gate, gates, biases
    const Factor *factor
    const float *scale
    const float *bias
    bint makes_state            # whether the phase computes the state; otherwise it computes `hidden`
    bint has_source             # whether the source's sums are added
    ptrdiff_t row               # row step of the phase's results


cdef void lay_out(Layer *layer, char *memory, char **end) noexcept nogil:
    """Set the pointers to the workspace, and `end` to its end."""
    cdef size_t states = layer.rows * layer.state_row, units = layer.rows * layer.unit_row
    cdef Direction *d
    cdef int i
    for i in range(layer.directions):
        d = &layer.direction[i]
        d.states[0] = <uint8_t *>carve(&memory, states)
        d.states[1] = <uint8_t *>carve(&memory, states)
        d.hidden = <uint8_t *>carve(&memory, units if phases_of(layer) == 2 else 0)
        d.memory = <float *>carve(&memory, 4 * units if layer.kind == LSTM_CELL or layer.kind == GRU_CELL else 0)
        d.output = <float *>carve(&memory, 4 * states if layer.real or layer.real_state else 0)
        d.sums = <int32_t *>carve(&memory, 4 * layer.stretch * layer.rows * layer.sums_row)
    layer.source = <uint8_t *>carve(
        &memory, 0 if is_in_place(layer) else layer.stretch * layer.rows * source_row(layer))
    end[0] = memory


cdef inline int phases_of(const Layer *layer) noexcept nogil:
    """Return the number of phases of a step."""
    return 2 if layer.kind == GRU_CELL or layer.projects else 1


cdef inline bint is_in_place(const Layer *layer) noexcept nogil:
    """Return whether the GEMM can read the source in place: uint8, with evenly spaced rows over all time steps."""
    return layer.src_type == I8_TYPE_U8 and layer.src_col == 1 and layer.lengths is NULL and (
        layer.rows == 1 or layer.steps == 1 or layer.src_step == layer.rows * layer.src_row)


cdef inline ptrdiff_t source_row(const Layer *layer) noexcept nogil:
    """Return the bytes from one row of the copied source to the next."""
    return round_up(layer.inputs, ALIGNMENT) + ALIGNMENT


cdef inline int64_t rows_before(const Layer *layer, int64_t time) noexcept nogil:
    """Return the total number of rows in the time steps before `time`."""
    return time * layer.rows if layer.begin is NULL else layer.begin[time]


cdef inline int64_t rows_of(const Layer *layer, int64_t time) noexcept nogil:
    """Return the number of rows that have a time step. These are the first rows."""
    return rows_before(layer, time + 1) - rows_before(layer, time)


cdef inline int64_t steps_of(const Layer *layer, int64_t row) noexcept nogil:
    return layer.steps if layer.lengths is NULL else layer.lengths[row]


cdef inline int64_t place_of(const Layer *layer, int64_t row) noexcept nogil:
    """Return the position of a row in the batch."""
    return row if layer.order is NULL else layer.order[row]


cdef void start_states(const Layer *layer) noexcept nogil:
    """Copy the first states to the workspace, with zeros after the last unit of a row."""
    cdef const Direction *d
    cdef int64_t i, k, place, size = layer.rows * layer.state_row
    cdef uint8_t *state
    if size == 0:  # the workspace is empty
        return
    for i in range(layer.directions):
        d = &layer.direction[i]
        memset(d.states[0], layer.data_shift, size)
        if layer.lengths is not NULL and d.backwards:
            memset(d.states[1], layer.data_shift, size)
        if d.memory is not NULL:
            memset(d.memory, 0, 4 * layer.rows * layer.unit_row)
        for k in range(layer.rows):
            place = place_of(layer, k)
            state = d.states[(layer.steps - steps_of(layer, k)) & 1 if d.backwards else 0]
            if d.h0 is not NULL:
                memcpy(state + k * layer.state_row, d.h0 + place * layer.outputs, layer.outputs)
            if d.c0 is not NULL:
                memcpy(d.memory + k * layer.unit_row, d.c0 + place * layer.units, 4 * layer.units)


cdef void finish_states(const Layer *layer) noexcept nogil:
    """Copy the last states to the results."""
    cdef const Direction *d
    cdef const uint8_t *state
    cdef int64_t i, j, k, place, units = layer.units, outputs = layer.outputs
    for i in range(layer.directions):
        d = &layer.direction[i]
        for k in range(layer.rows):
            place = place_of(layer, k)
            state = d.states[(layer.steps if d.backwards else steps_of(layer, k)) & 1] + k * layer.state_row
            if d.last_c is not NULL:
                memcpy(d.last_c + place * units, d.memory + k * layer.unit_row, 4 * units)
            if not layer.real_state:
                memcpy(d.last_h + place * outputs, state, outputs)
            elif steps_of(layer, k) > 0:
                memcpy(d.last_h + 4 * place * outputs, d.output + k * layer.state_row, 4 * outputs)
            else:
                for j in range(outputs):
                    (<float *>d.last_h)[place * outputs + j] = (
                        (<float>state[j] - <float>layer.data_shift) * layer.data_reciprocal)


# The source

cdef int copy_row(const void *job, int64_t index, int64_t _rows) noexcept nogil:
    """Copy or quantize one row of a stretch, from its earliest time on, unless the row has ended."""
    cdef const Layer *layer = (<const Stretch *>job).layer
    cdef int64_t first = (<const Stretch *>job).first
    cdef int64_t time = first + index // layer.rows, row = index % layer.rows
    cdef const char *src = layer.src + time * layer.src_step + place_of(layer, row) * layer.src_row
    cdef uint8_t *dst = layer.source + (rows_before(layer, time) - rows_before(layer, first) + row) * source_row(layer)
    if row >= rows_of(layer, time):
        return 0
    if layer.src_type == I8_TYPE_U8:
        layer.kernels.packing.pack_panel(dst, 1, 1, layer.inputs, <const uint8_t *>src, 0, layer.src_col, 0)
    else:
        layer.kernels.stage.quantize_source(dst, src, layer.src_type, layer.src_col, layer.inputs, layer.data_scale,
                                            <float>layer.data_shift)
    return 0


cdef int source_sums(const Layer *layer, const Direction *d, int64_t time, int64_t steps) noexcept nogil:
    """Compute the sums of the source for a stretch that starts at `time`. Return 0, or -1 if there is no memory."""
    cdef Problem g = d.product
    cdef Stretch stretch = Stretch(layer, time, steps)
    g.m = rows_before(layer, time + steps) - rows_before(layer, time)
    if g.m == 0:
        return 0
    if is_in_place(layer):
        g.a.data = <const uint8_t *>layer.src + time * layer.src_step
        g.a.row = layer.src_step if layer.rows == 1 else layer.src_row
    else:
        g.a.data, g.a.row = layer.source, source_row(layer)
        parallel_for(copy_row, &stretch, steps * layer.rows,
                     paid_threads(<double>g.m * layer.inputs, THREAD_REALS, layer.threads))
    g.a.column = 1
    g.c.data, g.c.row, g.c.column = <char *>d.sums, 4 * layer.sums_row, 4
    return gemm(&g)


# A step

cdef void multiply(const Layer *layer, const Factor *factor, const uint8_t *a, ptrdiff_t a_row, int height,
                   int64_t panel, int panels, int32_t *sums) noexcept nogil:
    """Multiply some rows of a state by some panels of its weights."""
    cdef i8_tile_args t
    cdef int largest = tile_panels(layer.kernels, height)
    cdef int tiles = <int>ceil_div(panels, largest), i, j, p, width, dot
    t.tiles, t.groups = 1, ceil_div(factor.k, I8_GROUP)
    t.a.data, t.a.row, t.a.group, t.a.tail = a, a_row, I8_GROUP, NULL
    t.more_segments = t.along_n = 0
    t.sequential = layer.in_turn
    t.b.panel = factor.panel_size
    t.acc_in = t.row_init = NULL
    t.fetch = t.ahead = NULL
    t.output = NULL
    t.dst_row = panels * I8_PANEL
    for i in range(tiles):
        p = <int>share(panels, i, tiles)
        width = <int>share(panels, i + 1, tiles) - p
        dot = I8_DOT4
        if layer.kernels.gemm.exact != I8_DOT4:
            dot = I8_DOT4_SAT
            for j in range(width):
                if not factor.certified[panel + p + j]:
                    dot = I8_DOT4
        t.b.data = factor.weights + (panel + p) * factor.panel_size
        t.col_init = NULL if factor.start is NULL else factor.start + (panel + p) * I8_PANEL
        t.dst, t.cols = sums + p * I8_PANEL, width * I8_PANEL
        layer.kernels.gemm.tiles[dot].of[height - 1][width - 1](&t)


cdef inline int64_t time_of(const Layer *layer, const Direction *d, int64_t step) noexcept nogil:
    return layer.steps - 1 - step if d.backwards else step


cdef inline int64_t first_time(const Layer *layer, const Direction *d, int64_t first, int64_t steps) noexcept nogil:
    """Return the earliest time of a stretch of `steps` steps that starts with step `first`."""
    return layer.steps - first - steps if d.backwards else first


cdef inline const int32_t *sums_of(const Layer *layer, const Direction *d, int64_t time, int64_t first,
                                   int64_t steps) noexcept nogil:
    """Return the sums of the source for one time step in a stretch of `steps` steps from step `first` on."""
    cdef int64_t rows = rows_before(layer, time) - rows_before(layer, first_time(layer, d, first, steps))
    return d.sums + rows * layer.sums_row


cdef Phase phase_of(const Layer *layer, const Direction *d, int index) noexcept nogil:
    """Return a phase of a step."""
    cdef Phase p
    p.cell = I8_LSTM if d.peephole is NULL else I8_LSTM_PEEPHOLE
    p.activation = layer.activation
    p.first_gate, p.gates, p.biases = 0, layer.gates, MAX_GATES
    p.factor, p.scale, p.bias = &d.state, d.scale, d.bias
    p.makes_state = index == phases_of(layer) - 1
    p.has_source = True
    if layer.kind == GRU_LINEAR_CELL:
        p.cell = I8_GRU_LINEAR
    elif layer.kind == RNN_CELL:
        p.cell, p.biases = I8_RNN, 1
    elif layer.kind == GRU_CELL:
        if p.makes_state:
            p.cell, p.first_gate, p.gates, p.biases = I8_GRU_OUTPUT, 2, 1, 1
        else:
            p.cell, p.first_gate, p.gates, p.biases = I8_GRU_RESET, 0, 2, 2
    elif layer.projects and p.makes_state:
        p.cell, p.activation, p.gates, p.biases, p.has_source = I8_RNN, I8_RNN_LINEAR, 1, 1, False
        p.factor, p.scale, p.bias = &d.projection, d.projection_scale, d.projection_bias
    p.row = layer.state_row if p.makes_state else layer.unit_row
    return p


cdef void run_phase(const Layer *layer, const Direction *d, int index, const Part *part, int64_t step, int64_t first,
                    int64_t steps) noexcept nogil:
    """Run a phase of a step, in a stretch of `steps` steps that starts with step `first`."""
    cdef Phase phase = phase_of(layer, d, index)
    cdef int32_t sums[I8_MAX_CELLS * MAX_GATES * I8_PANEL]
    cdef i8_cell_args c
    cdef int64_t time = time_of(layer, d, step), tiles, i, row, column
    cdef int64_t before_gates = phase.first_gate * layer.panels, panel = part.panel, panel_end = part.panel_end
    cdef int64_t rows = min(part.row_end, rows_of(layer, time)) - part.row, together
    cdef const int32_t *x = sums_of(layer, d, time, first, steps)
    cdef const uint8_t *before = d.states[step & 1]
    cdef uint8_t *after = d.states[~step & 1] if phase.makes_state else d.hidden
    cdef const uint8_t *a = before if index == 0 else d.hidden
    cdef ptrdiff_t a_row = layer.state_row if index == 0 else layer.unit_row
    if not phase.has_source:
        panel, panel_end = part.output, part.output_end
    if rows <= 0:
        return
    tiles = ceil_div(rows, layer.kernels.gemm.mr)
    together = I8_MAX_CELLS // ceil_div(rows, tiles)
    c.x_row = layer.sums_row
    c.state_row = c.memory_row = phase.row
    c.data_scale, c.data_reciprocal, c.data_shift = layer.data_scale, layer.data_reciprocal, <float>layer.data_shift
    c.activation, c.alpha = phase.activation, layer.alpha
    while panel < panel_end:
        c.panels = <int>min(together, panel_end - panel)
        c.h, c.h_row = sums, phase.gates * c.panels * I8_PANEL
        c.peephole = NULL if d.peephole is NULL else d.peephole + panel * 3 * I8_PANEL
        for i in range(tiles):
            row = part.row + share(rows, i, tiles)
            c.rows = <int>(part.row + share(rows, i + 1, tiles) - row)
            column = before_gates + panel * phase.gates
            multiply(layer, phase.factor, a + row * a_row, a_row, c.rows, column, phase.gates * c.panels, sums)
            c.x = x + row * layer.sums_row + column * I8_PANEL if phase.has_source else sums
            c.scale = phase.scale + column * I8_PANEL
            c.bias = phase.bias + (before_gates + panel * phase.biases) * I8_PANEL
            c.kept = NULL if layer.kept is NULL else layer.kept + time * layer.rows + row
            column = row * phase.row + panel * I8_PANEL
            c.before, c.after = before + column, after + column
            c.memory = d.memory + column if d.memory is not NULL else NULL
            c.output = d.output + column if d.output is not NULL and phase.makes_state else NULL
            layer.kernels.recurrent.cells[phase.cell](&c)
        panel += c.panels


cdef void store_step(const Layer *layer, const Direction *d, const Part *part, int64_t time,
                     const uint8_t *after) noexcept nogil:
    """Copy a part's results of one step to the destination. Store 0.0 for sequences that have ended."""
    cdef int64_t unit = part.output * I8_PANEL, units = min(part.output_end * I8_PANEL, layer.outputs) - unit, row
    cdef int64_t rows = rows_of(layer, time)
    cdef char *dst
    for row in range(part.row, part.row_end):
        dst = d.dst + time * d.dst_step + place_of(layer, row) * d.dst_row
        if row >= rows:
            if layer.real:
                memset(dst + 4 * unit, 0, 4 * units)
            else:
                memset(dst + unit, layer.data_shift, units)
        elif layer.real:
            memcpy(dst + 4 * unit, d.output + row * layer.state_row + unit, 4 * units)
        else:
            memcpy(dst + unit, after + row * layer.state_row + unit, units)


# Threads

cdef int layer_threads(const Layer *layer, int threads) noexcept nogil:
    """Return the number of threads for which a step has enough work, at most `threads`."""
    cdef int64_t work = layer.rows * layer.outputs * layer.panels * I8_PANEL * (layer.gates + layer.projects)
    cdef int64_t parts = max(layer.panels, layer.rows // layer.kernels.gemm.mr) * layer.directions
    return paid_threads(<double>work * layer.directions, THREAD_STEP_WORK, <double>min(<int64_t>threads, parts))


cdef int64_t share_of_rows(const Layer *layer, int64_t time, int64_t steps, int part, int parts) noexcept nogil:
    """Return the first row of a part. From `time` on, the rows of each part have nearly equal totals of steps."""
    cdef int64_t row = 0, before = 0, wanted
    if layer.lengths is NULL or part == parts:
        return share(layer.rows, part, parts)
    wanted = share(rows_before(layer, time + steps) - rows_before(layer, time), part, parts)
    while before < wanted:
        before += min(layer.lengths[row] - time, steps)
        row += 1
    return row


cdef Part part_of(const Layer *layer, int part, int parts, int64_t first, int64_t steps) noexcept nogil:
    """Return one part of a stretch of `steps` steps that starts with step `first`.

    Each thread takes one direction if there are enough threads. The parts of a direction are ranges of rows if each
    thread gets at least a tile of rows, else ranges of units.
    """
    cdef int64_t time
    cdef Part p
    cdef int members = parts, member = part, largest
    p.first, p.end = 0, layer.directions
    if layer.directions == 2 and parts > 1:
        p.first = part % 2
        p.end = p.first + 1
        member, members = part // 2, (parts + 1 - p.first) // 2
    largest = parts if p.end - p.first == layer.directions else (parts + 1) // 2
    p.row, p.row_end, p.panel, p.panel_end, p.output, p.output_end = (
        0, layer.rows, 0, layer.panels, 0, layer.output_panels)
    p.waits = False
    if layer.rows >= largest * layer.kernels.gemm.mr:
        time = first_time(layer, &layer.direction[p.first], first, steps)
        p.row = share_of_rows(layer, time, steps, member, members)
        p.row_end = share_of_rows(layer, time, steps, member + 1, members)
    else:
        p.panel, p.panel_end = share(layer.panels, member, members), share(layer.panels, member + 1, members)
        p.output = share(layer.output_panels, member, members)
        p.output_end = share(layer.output_panels, member + 1, members)
        p.waits = largest > 1
    return p


cdef void run_steps(const void *job, int thread, int threads) noexcept nogil:
    """Run one thread's part of a stretch of time."""
    cdef const Layer *layer = (<const Stretch *>job).layer
    cdef int64_t first = (<const Stretch *>job).first, steps = (<const Stretch *>job).steps
    cdef Part part = part_of(layer, thread, threads, first, steps)
    cdef const Direction *d
    cdef int64_t step
    cdef int i, index, phases = phases_of(layer)
    for step in range(first, first + steps):
        for index in range(phases):
            for i in range(part.first, part.end):
                d = &layer.direction[i]
                run_phase(layer, d, index, &part, step, first, steps)
                if index == phases - 1:
                    store_step(layer, d, &part, time_of(layer, d, step), d.states[~step & 1])
            if part.waits:
                i8_wait(layer.barrier, threads)


cdef int set_sizes(Layer *layer, int threads) noexcept nogil:
    """Set the sizes of the workspace, start at most `threads` threads, and return their number."""
    layer.panels = ceil_div(layer.units, I8_PANEL)
    # Add a cache line to each row, so that successive rows use different cache sets.
    layer.output_panels = ceil_div(layer.outputs, I8_PANEL)
    layer.unit_row = round_up(layer.units, ALIGNMENT) + ALIGNMENT
    layer.state_row = round_up(layer.outputs, ALIGNMENT) + ALIGNMENT
    layer.sums_row = (layer.panels * layer.gates + 1) * I8_PANEL
    # If the weights do not fit the L2 cache, tiles read one panel after another, because the hardware prefetches one
    # panel better than several panels side by side.
    layer.in_turn = (layer.kernels.gemm.np > 1 and layer.rows <= I8_MAX_SEQUENTIAL
                     and layer.panels * layer.gates * layer.direction[0].state.panel_size > this_machine.l2)
    # Start the threads now, because the length of a stretch depends on their number.
    threads = region_threads(layer_threads(layer, threads))
    layer.stretch = <int64_t>threads * STRETCH_BYTES // (4 * layer.sums_row * max(<int64_t>1, layer.rows))
    layer.stretch = max(<int64_t>1, min(layer.stretch, layer.steps))
    return threads


cdef void set_weights(Direction *d, PackedB of_source, PackedB of_state) noexcept:
    """Set the product of the source and its weights, and the weights of the state."""
    cdef Problem *g = &d.product
    start(g, False)
    g.k, g.n = of_source._k, of_source._n
    of_source.fill(g)
    set_factor(&d.state, of_state)
    d.peephole = NULL


cdef void set_factor(Factor *factor, PackedB packed) noexcept:
    """Set the packed weights of a factor, without start values of the sums."""
    factor.k = packed._k
    factor.weights = <const int8_t *>cnp.PyArray_DATA(packed._data)
    factor.panel_size = cnp.PyArray_STRIDES(packed._data)[0]
    factor.certified = <const uint8_t *>cnp.PyArray_DATA(packed._certified)
    factor.start = NULL


cdef int run_layer(Layer *layer) noexcept nogil:
    """Execute all time steps. Return 0, or -1 if there is no memory."""
    cdef char *memory
    cdef char *end
    cdef const Direction *d
    cdef Stretch stretch = Stretch(layer, 0, 0)
    cdef i8_barrier barrier = i8_barrier(0, 0)
    cdef int i, threads = set_sizes(layer, layer.threads)
    layer.barrier = &barrier
    lay_out(layer, <char *>ALIGNMENT, &end)
    memory = <char *>acquire(end - <char *>ALIGNMENT)
    if memory is NULL:
        return -1
    lay_out(layer, memory, &end)
    start_states(layer)
    while stretch.first < layer.steps and layer.rows > 0:
        stretch.steps = min(layer.stretch, layer.steps - stretch.first)
        for i in range(layer.directions):
            d = &layer.direction[i]
            if source_sums(layer, d, first_time(layer, d, stretch.first, stretch.steps), stretch.steps):
                release(memory)
                return -1
        run_team(run_steps, &stretch, threads)
        stretch.first += stretch.steps
    finish_states(layer)
    release(memory)
    return 0


cdef void add_directions(const Layer *layer, char *dst, ptrdiff_t dst_step, ptrdiff_t dst_row,
                         bint real) noexcept nogil:
    """Add the contiguous f32 results of both directions, and store the sums as f32 or u8."""
    cdef int64_t time, row, i, units = layer.outputs
    cdef float *x = <float *>layer.direction[0].dst
    cdef const float *y = <const float *>layer.direction[1].dst
    cdef char *to
    for time in range(layer.steps):
        for row in range(layer.rows):
            for i in range(units):
                x[i] += y[i]
            to = dst + time * dst_step + row * dst_row
            if real:
                memcpy(to, x, 4 * units)
            else:
                layer.kernels.stage.quantize_source(<uint8_t *>to, <const char *>x, I8_TYPE_F32, sizeof(float), units,
                                                    layer.data_scale, <float>layer.data_shift)
            x += units
            y += units
