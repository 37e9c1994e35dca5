"""The driver of recurrent layers: one layer, in one direction or both, over all time steps.

    run_layer           for each stretch of time:
      source_sums         multiply the source by its weights, one GEMM for each direction
      run_steps           in parallel: one thread's rows and units, step by step, with a barrier after each step
        run_phase           for some panels of 16 units, for each tile of rows: the micro-kernel, then the cells

The sums of a gate have two parts: source times weights, and previous state times weights. The cell turns them into the
new state while they are in the L1 cache, so the gates of 16 units are neighbouring panels. A GRU whose reset gate is
applied before the product has two phases in a step. The columns of each phase's gates are contiguous.

Sequences of different lengths are sorted by length, so the sequences that have a time step are its first rows, and the
source's sums contain only these rows. A row that a step leaves out keeps its state where it is: going forward its last
state, after its end; going backward its first state, until it begins.
"""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset
cimport int8blas.core.cnumpy as cnp

from int8blas.core.kernels cimport (
    I8_DOT4, I8_DOT4_SAT, I8_GROUP, I8_GRU_LINEAR, I8_GRU_OUTPUT, I8_GRU_RESET, I8_LSTM, I8_MAX_CELLS, I8_MAX_IN_TURN,
    I8_PANEL, I8_TYPE_F32, I8_TYPE_U8, i8_cell_args, i8_tile_args, tile_panels)
from int8blas.core.memory cimport ALIGNMENT, acquire, carve, release
from int8blas.core.split cimport ceil_div, round_up, share
from int8blas.core.threads cimport (
    THREAD_REALS, THREAD_STEP_WORK, i8_barrier, i8_wait, paid_threads, region_threads, run_parts, run_team)
from int8blas.gemm.driver cimport gemm
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.problem cimport Problem, start

cnp.import_array()


cdef enum:
    # Bytes of weights, about an L2 cache: tiles read larger weights panel after panel, which the hardware prefetches
    # better than several panels side by side.
    L2_BYTES = 1 << 20
    # Bytes of source sums that a stretch of time has for each thread, so that they stay in its L2 cache.
    STRETCH_BYTES = 1 << 20


# Consecutive time steps.
cdef struct Stretch:
    const Layer *layer
    int64_t first, steps


# One thread's part of a layer: rows and panels of one direction or of both.
cdef struct Part:
    int first, end              # range of directions
    int64_t row, row_end, panel, panel_end
    bint waits                  # other threads compute other units of these rows


# A part of a step: some of the gates.
cdef struct Phase:
    int cell                    # I8_LSTM and so on
    int first_gate, gates, biases


cdef void lay_out(Layer *layer, char *memory, char **end) noexcept nogil:
    """Set the pointers to the workspace, and `end` to its end."""
    cdef size_t states = layer.rows * layer.state_row
    cdef Direction *d
    cdef int i
    for i in range(layer.directions):
        d = &layer.direction[i]
        d.states[0] = <uint8_t *>carve(&memory, states)
        d.states[1] = <uint8_t *>carve(&memory, states)
        d.reset = <uint8_t *>carve(&memory, states if layer.kind == GRU_CELL else 0)
        d.memory = <float *>carve(&memory, 0 if layer.kind == GRU_LINEAR_CELL else 4 * states)
        d.output = <float *>carve(&memory, 4 * states if layer.real or layer.real_state else 0)
        d.sums = <int32_t *>carve(&memory, 4 * layer.stretch * layer.rows * layer.sums_row)
    layer.source = <uint8_t *>carve(
        &memory, 0 if is_in_place(layer) else layer.stretch * layer.rows * source_row(layer))
    end[0] = memory


cdef inline bint is_in_place(const Layer *layer) noexcept nogil:
    """Return whether the GEMM can read the source in place: uint8, with evenly spaced rows over all time steps."""
    return layer.src_type == I8_TYPE_U8 and layer.src_col == 1 and layer.lengths is NULL and (
        layer.rows == 1 or layer.steps == 1 or layer.src_step == layer.rows * layer.src_row)


cdef inline ptrdiff_t source_row(const Layer *layer) noexcept nogil:
    """Return the bytes from one row of the copied source to the next."""
    return round_up(layer.inputs, ALIGNMENT) + ALIGNMENT


cdef inline int64_t rows_before(const Layer *layer, int64_t time) noexcept nogil:
    """Return the number of rows of all time steps before `time`."""
    return time * layer.rows if layer.begin is NULL else layer.begin[time]


cdef inline int64_t rows_of(const Layer *layer, int64_t time) noexcept nogil:
    """Return the number of rows that have a time step; they are the first ones."""
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
            memset(d.memory, 0, 4 * size)
        for k in range(layer.rows):
            place = place_of(layer, k)
            state = d.states[(layer.steps - steps_of(layer, k)) & 1 if d.backwards else 0]
            if d.h0 is not NULL:
                memcpy(state + k * layer.state_row, d.h0 + place * layer.units, layer.units)
            if d.c0 is not NULL:
                memcpy(d.memory + k * layer.state_row, d.c0 + place * layer.units, 4 * layer.units)


cdef void finish_states(const Layer *layer) noexcept nogil:
    """Copy the last states to the results."""
    cdef const Direction *d
    cdef const uint8_t *state
    cdef int64_t i, j, k, place, units = layer.units
    for i in range(layer.directions):
        d = &layer.direction[i]
        for k in range(layer.rows):
            place = place_of(layer, k)
            state = d.states[(layer.steps if d.backwards else steps_of(layer, k)) & 1] + k * layer.state_row
            if d.last_c is not NULL:
                memcpy(d.last_c + place * units, d.memory + k * layer.state_row, 4 * units)
            if not layer.real_state:
                memcpy(d.last_h + place * units, state, units)
            elif steps_of(layer, k) > 0:
                memcpy(d.last_h + 4 * place * units, d.output + k * layer.state_row, 4 * units)
            else:
                for j in range(units):
                    (<float *>d.last_h)[place * units + j] = (
                        (<float>state[j] - <float>layer.data_shift) * layer.data_reciprocal)


# --- the source ------------------------------------------------------------------------------------------------------

cdef int copy_row(const void *job, int64_t index, int64_t _rows) noexcept nogil:
    """Copy or quantize one row of a stretch that starts at its earliest time, unless the row has ended."""
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
    """Compute the source's sums of a stretch that starts at `time`. Return 0, or -1 without memory."""
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
        run_parts(copy_row, &stretch, steps * layer.rows,
                  paid_threads(<double>g.m * layer.inputs, THREAD_REALS, layer.threads))
    g.a.column = 1
    g.c, g.c_row, g.c_col = <char *>d.sums, 4 * layer.sums_row, 4
    return gemm(&g)


# --- a step ----------------------------------------------------------------------------------------------------------

cdef void multiply(const Layer *layer, const Direction *d, const uint8_t *a, int height, int64_t panel, int panels,
                   int32_t *sums) noexcept nogil:
    """Multiply some rows of the state by some panels of its weights."""
    cdef i8_tile_args t
    cdef int largest = tile_panels(layer.kernels, height)
    cdef int tiles = <int>ceil_div(panels, largest), i, j, p, width, dot
    t.tiles, t.groups = 1, ceil_div(layer.units, I8_GROUP)
    t.a, t.a_row, t.a_group, t.a_tail = a, layer.state_row, I8_GROUP, NULL
    t.more_segments = t.along_n = 0
    t.in_turn = layer.in_turn
    t.b_panel = d.panel_size
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
                if not d.certified[panel + p + j]:
                    dot = I8_DOT4
        t.b = d.weights + (panel + p) * d.panel_size
        t.col_init = NULL if d.start is NULL else d.start + (panel + p) * I8_PANEL
        t.dst, t.cols = sums + p * I8_PANEL, width * I8_PANEL
        layer.kernels.gemm.tiles[dot].of[height - 1][width - 1](&t)


cdef void run_phase(const Layer *layer, const Direction *d, const Phase *phase, const Part *part, int64_t rows,
                    const int32_t *x, const uint8_t *before, const uint8_t *a, uint8_t *after) noexcept nogil:
    """Compute some gates of a step of `rows` rows, from the source's sums `x` and the factor `a` of the weights."""
    cdef int32_t sums[I8_MAX_CELLS * MAX_GATES * I8_PANEL]
    cdef i8_cell_args c
    cdef int64_t tiles, i, row, column
    cdef int64_t panel = part.panel, first = phase.first_gate * layer.panels, together
    rows = min(part.row_end, rows) - part.row
    if rows <= 0:
        return
    tiles = ceil_div(rows, layer.kernels.gemm.mr)
    together = I8_MAX_CELLS // ceil_div(rows, tiles)
    c.x_row = layer.sums_row
    c.state_row = c.memory_row = layer.state_row
    c.data_scale, c.data_reciprocal, c.data_shift = layer.data_scale, layer.data_reciprocal, <float>layer.data_shift
    while panel < part.panel_end:
        c.panels = <int>min(together, part.panel_end - panel)
        c.h, c.h_row = sums, phase.gates * c.panels * I8_PANEL
        for i in range(tiles):
            row = part.row + share(rows, i, tiles)
            c.rows = <int>(part.row + share(rows, i + 1, tiles) - row)
            column = first + panel * phase.gates
            multiply(layer, d, a + row * layer.state_row, c.rows, column, phase.gates * c.panels, sums)
            c.x = x + row * layer.sums_row + column * I8_PANEL
            c.scale = d.scale + column * I8_PANEL
            c.bias = d.bias + (first + panel * phase.biases) * I8_PANEL
            column = row * layer.state_row + panel * I8_PANEL
            c.before, c.after = before + column, after + column
            c.memory = d.memory + column if d.memory is not NULL else NULL
            c.output = d.output + column if d.output is not NULL and phase.cell != I8_GRU_RESET else NULL
            layer.kernels.recurrent.cells[phase.cell](&c)
        panel += c.panels


cdef inline int64_t time_of(const Layer *layer, const Direction *d, int64_t step) noexcept nogil:
    return layer.steps - 1 - step if d.backwards else step


cdef inline int64_t first_time(const Layer *layer, const Direction *d, int64_t first, int64_t steps) noexcept nogil:
    """Return the earliest time of a stretch of `steps` steps that starts with step `first`."""
    return layer.steps - first - steps if d.backwards else first


cdef inline const int32_t *sums_of(const Layer *layer, const Direction *d, int64_t time, int64_t first,
                                   int64_t steps) noexcept nogil:
    """Return the source's sums of one time step of such a stretch."""
    cdef int64_t rows = rows_before(layer, time) - rows_before(layer, first_time(layer, d, first, steps))
    return d.sums + rows * layer.sums_row


cdef void run_step(const Layer *layer, const Direction *d, const Part *part, int64_t step, int64_t first,
                   int64_t steps) noexcept nogil:
    """Run the last phase of a step, in a stretch of `steps` steps that starts with step `first`."""
    cdef Phase phase
    cdef const uint8_t *before = d.states[step & 1]
    cdef uint8_t *after = d.states[~step & 1]
    cdef int64_t time = time_of(layer, d, step), rows = rows_of(layer, time)
    cdef const int32_t *x = sums_of(layer, d, time, first, steps)
    if layer.kind == GRU_CELL:
        phase.cell, phase.first_gate, phase.gates, phase.biases = I8_GRU_OUTPUT, 2, 1, 1
        run_phase(layer, d, &phase, part, rows, x, before, d.reset, after)
    else:
        phase.cell = I8_LSTM if layer.kind == LSTM_CELL else I8_GRU_LINEAR
        phase.first_gate, phase.gates, phase.biases = 0, layer.gates, MAX_GATES
        run_phase(layer, d, &phase, part, rows, x, before, before, after)
    store_step(layer, d, part, time, after)


cdef void store_step(const Layer *layer, const Direction *d, const Part *part, int64_t time,
                     const uint8_t *after) noexcept nogil:
    """Copy a part's results of one step to the destination; sequences that have ended get 0.0."""
    cdef int64_t unit = part.panel * I8_PANEL, units = min(part.panel_end * I8_PANEL, layer.units) - unit, row
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


cdef void run_reset(const Layer *layer, const Direction *d, const Part *part, int64_t step, int64_t first,
                    int64_t steps) noexcept nogil:
    """Run the first phase of a GRU step whose reset gate is applied before the product."""
    cdef Phase phase
    cdef const uint8_t *before = d.states[step & 1]
    cdef int64_t time = time_of(layer, d, step)
    phase.cell, phase.first_gate, phase.gates, phase.biases = I8_GRU_RESET, 0, 2, 2
    run_phase(layer, d, &phase, part, rows_of(layer, time), sums_of(layer, d, time, first, steps), before, before,
              d.reset)


# --- threads ---------------------------------------------------------------------------------------------------------

cdef int layer_threads(const Layer *layer, int threads) noexcept nogil:
    """Return the number of threads for which a step has enough work, at most `threads`."""
    cdef int64_t work = layer.rows * layer.units * layer.panels * I8_PANEL * layer.gates * layer.directions
    cdef int64_t parts = max(layer.panels, layer.rows // layer.kernels.gemm.mr) * layer.directions
    return paid_threads(<double>work, THREAD_STEP_WORK, <double>min(<int64_t>threads, parts))


cdef int64_t share_of_rows(const Layer *layer, int64_t time, int64_t steps, int part, int parts) noexcept nogil:
    """Return the first row of a part, so that all parts have the same number of row steps from `time` on."""
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

    Each thread takes one direction if there are enough threads. Parts of a direction are rows if each thread gets a
    tile of them, otherwise units.
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
    p.row, p.row_end, p.panel, p.panel_end = 0, layer.rows, 0, layer.panels
    p.waits = False
    if layer.rows >= largest * layer.kernels.gemm.mr:
        time = first_time(layer, &layer.direction[p.first], first, steps)
        p.row = share_of_rows(layer, time, steps, member, members)
        p.row_end = share_of_rows(layer, time, steps, member + 1, members)
    else:
        p.panel, p.panel_end = share(layer.panels, member, members), share(layer.panels, member + 1, members)
        p.waits = largest > 1
    return p


cdef void run_steps(const void *job, int thread, int threads) noexcept nogil:
    """Run one thread's part of a stretch of time."""
    cdef const Layer *layer = (<const Stretch *>job).layer
    cdef int64_t first = (<const Stretch *>job).first, steps = (<const Stretch *>job).steps
    cdef Part part = part_of(layer, thread, threads, first, steps)
    cdef int64_t step
    cdef int i
    for step in range(first, first + steps):
        if layer.kind == GRU_CELL:
            for i in range(part.first, part.end):
                run_reset(layer, &layer.direction[i], &part, step, first, steps)
            if part.waits:
                i8_wait(layer.barrier, threads)
        for i in range(part.first, part.end):
            run_step(layer, &layer.direction[i], &part, step, first, steps)
        if part.waits:
            i8_wait(layer.barrier, threads)


cdef int set_sizes(Layer *layer, int threads) noexcept nogil:
    """Set the sizes of the workspace, start at most `threads` threads, and return their number."""
    layer.panels = ceil_div(layer.units, I8_PANEL)
    # One more cache line, so that rows do not map to the same cache sets.
    layer.state_row = round_up(layer.units, ALIGNMENT) + ALIGNMENT
    layer.sums_row = (layer.panels * layer.gates + 1) * I8_PANEL
    layer.in_turn = (layer.kernels.gemm.np > 1 and layer.rows <= I8_MAX_IN_TURN
                     and layer.panels * layer.gates * layer.direction[0].panel_size > L2_BYTES)
    # Start the threads now: the length of a stretch depends on how many there are.
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
    d.weights = <const int8_t *>cnp.PyArray_DATA(of_state._data)
    d.panel_size = cnp.PyArray_STRIDES(of_state._data)[0]
    d.certified = <const uint8_t *>cnp.PyArray_DATA(of_state._certified)


cdef int run_layer(Layer *layer) noexcept nogil:
    """Execute all time steps. Return 0, or -1 without memory."""
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
    """Add both directions, contiguous f32, into the first, and store the sum as f32 or u8."""
    cdef int64_t time, row, i, units = layer.units
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
