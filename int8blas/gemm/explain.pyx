"""``explain``: describe the plan of a product."""

from dataclasses import replace

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uintptr_t
from libc.string cimport memset
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport as_array, check_numerics, check_transpose
from int8blas.core.kernels cimport (
    I8_DOT2, I8_DOT4_SAT, I8_DOT8, I8_DOT_SMALL, I8_GROUP, I8_MAX_PAIR_SUM, I8_PANEL, I8_WIDE_S16_FULL, current_kernels,
    i8_gemm_kernels, i8_kernels)
from int8blas.core.machine cimport Machine
from int8blas.core.memory cimport ALIGNMENT
from int8blas.core.split cimport Grid, ceil_div, equal_parts, pieces_of_parts, round_up
from int8blas.core.threads cimport max_threads, paid_threads
from int8blas.gemm.bits cimport Bits, bits_of, levels
from int8blas.gemm.block_plan cimport BlocksPlan
from int8blas.gemm.call cimport set_a_operand, set_b_operand
from int8blas.gemm.copies cimport copied_bytes, copies_operands, copy_operands
from int8blas.gemm.driver cimport set_segment
from int8blas.gemm.digits cimport uses_digits
from int8blas.gemm.integers cimport Shape, as_bytes, choose_kind, integer_operand, kind_name, set_sizes
from int8blas.gemm.matmul cimport limbs_of
from int8blas.gemm.nest cimport LoopState
from int8blas.gemm.operand cimport SHIFT, address
from int8blas.gemm.packed cimport Packed
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.path cimport Description, Plan, planned_threads
from int8blas.gemm.plan cimport Resolved, describe, resolve
from int8blas.gemm.problem cimport start, thread_work
from int8blas.gemm.pack_b cimport four_bits_pair
from int8blas.gemm.sixteen_bits cimport PackedB16
from int8blas.gemm.small_values cimport CERTIFIED_SUM, choose_dot, find_range, small_triangle_dot
from int8blas.gemm.wide cimport WIDE_THREAD_WORK, WideProduct, is_direct

from int8blas.core.kernels import table_address
from int8blas.core.words import shown
from int8blas.gemm.explanation import MULTIPLY_ADDS, Explanation, WideExplanation

cnp.import_array()


# A dictionary from classes of layers to functions. A function makes the Explanation of a layer and its source.
_layers = {}


def register(cls, function):
    """Let :func:`explain` take layers of this class: function(layer, src) makes the Explanation."""
    _layers[cls] = function


def explain(a, b, *, trans_a=False, trans_b=False, numerics="exact"):
    """Explain how ``op(A) @ op(B)`` would be computed on this machine with the current settings: kernel, blocks,
    threads, and the reason for the path. The explained product has no zero points and a new C.

    Parameters
    ----------
    a : array_like of integers
        A, as in :func:`gemm_u8s8s32`, or of any integer dtype, as in :func:`matmul`.
    b : array_like of integers, PackedB, PackedB4, PackedB16, Convolution or Deconvolution
        B, or a layer. With a layer, `a` is the source of the layer, and the explanation is for the product of one group
        of channels (in a deconvolution, for the first phase). The layer must have all scales and zero points.
    trans_a, trans_b : bool or int, optional
        Whether A and B are transposed.
    numerics : {'exact', 'saturating'}, optional
        As in :func:`gemm_u8s8s32`.

    Returns
    -------
    Explanation, or WideExplanation if the values of an operand do not fit 8 bits
        An object with the decisions as attributes, and with a text for ``str``.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> with int8blas.use_isa("ref"), int8blas.num_threads(1):
    ...     plan = int8blas.explain(np.zeros((64, 32), np.uint8), np.zeros((32, 48), np.int8))
    >>> plan.isa, plan.tile, plan.threads
    ('ref', (4, 16), 1)
    >>> with int8blas.use_isa("ref"), int8blas.num_threads(1):
    ...     print(int8blas.explain(np.full((64, 32), 1000), np.full((32, 48), -30000)))
    64 x 48 x 32: kernel ref s16 4x8: pairs of int16, with sums of 32 bits in a tile
      values of 10 and 15 bits without signs
      sums of 62 k have 32 bits, and are added in 64 bits
      B is packed during the call
      1 thread(s) of 1
    """
    cdef Problem g
    cdef cnp.ndarray array
    cdef int b_type
    if type(b) in _layers:
        if check_transpose(trans_a, "trans_a") or check_transpose(trans_b, "trans_b"):
            raise ValueError("trans_a and trans_b must be False for a layer")
        if numerics != "exact":
            raise ValueError(f"numerics must not be given for a layer, which has its own, got {shown(numerics)}")
        return _layers[type(b)](b, as_array(a, "a"))
    array = integer_operand(a, "a")
    if not isinstance(b, Packed):
        b = integer_operand(b, "b")
    array = integer_operand(array, "a")  # converting `b` may have run Python code that sets the dtype of an array
    small, b = narrowed(array, b)
    if small is None:
        transposed = check_transpose(trans_a, "trans_a"), check_transpose(trans_b, "trans_b")
        if numerics != "exact":
            raise ValueError(f"numerics must be 'exact' when an operand is wider than 8 bits, got {shown(numerics)}")
        array = integer_operand(array, "a")  # as above, for the flags
        b = b if isinstance(b, Packed) else integer_operand(b, "b")
        return explain_wide(array.T if transposed[0] else array,
                            b if isinstance(b, Packed) or not transposed[1] else b.T)
    array = small
    if isinstance(b, Packed):
        b_type = cnp.NPY_INT8  # any type, because nothing reads it
    else:
        b_type = cnp.PyArray_TYPE(b)
    start(&g, check_numerics(numerics))
    g.threads = max_threads()
    set_a_operand(&g, array, cnp.PyArray_TYPE(array), trans_a, "trans_a")
    set_b_operand(&g, b, b_type, check_transpose(trans_b, "trans_b"))
    g.c.row, g.c.column = g.n * sizeof(int32_t), sizeof(int32_t)
    certified = (int(np.count_nonzero(b.certified)), b.certified.size) if isinstance(b, PackedB) else None
    return explain_problem(&g, numerics, certified, True)


cdef tuple narrowed(cnp.ndarray x, object y):
    """Return both operands as bytes. If an operand does not fit bytes, or B is a PackedB16, return None and B."""
    if type(y) is PackedB16:
        return None, y
    bytes_ = as_bytes(x)
    right = y if bytes_ is None or isinstance(y, Packed) else as_bytes(y)
    return (None, y) if right is None else (bytes_, right)


cdef object explain_wide(cnp.ndarray x, object y):
    """Explain a product of values that do not fit 8 bits. `y` is an array or a packed matrix."""
    cdef WideProduct w
    cdef Shape shape
    cdef Bits a, b
    cdef int limbs = 1, both, threads = max_threads()
    cdef Packed packed = y if isinstance(y, Packed) else None
    cdef cnp.ndarray right = None if packed is not None else y
    if cnp.PyArray_NDIM(x) != 2 or y.ndim != 2:
        raise ValueError(f"a and b must have 2 dimensions, got shapes {(<object>x).shape} and {y.shape}")
    w.kernels = current_kernels().wide
    a = bits_of(w.kernels, x)
    if packed is None or type(packed) is PackedB16:
        set_sizes(&w, x, y, &shape)
        b = (<PackedB16>packed)._bits if packed is not None else bits_of(w.kernels, right)
        choose_kind(&w, &a, &b)
    else:
        w.m, w.n, w.k = cnp.PyArray_DIM(x, 0), packed._n, cnp.PyArray_DIM(x, 1)
        b = Bits(8, True)
    both = a.count + b.count + levels(w.k)
    kind = kind_name(w.kind) if packed is None or type(packed) is PackedB16 else "bytes"
    tile = (current_kernels().gemm.mr, current_kernels().gemm.np * I8_PANEL)
    if packed is not None:
        limbs = limbs_of(x, packed)
        if type(packed) is PackedB16:
            w.kind = I8_WIDE_S16_FULL if limbs > 1 else w.kind
            kind = kind_name(w.kind)
    elif is_direct(&w):
        kind = "direct"
    if (packed is None or type(packed) is PackedB16) and uses_digits(&w):
        kind = "digits"
    if kind not in ("bytes", "digits"):
        tile = (w.kernels.kinds[w.kind].rows, w.kernels.kinds[w.kind].columns)
    return WideExplanation(
        shape=(w.m, w.n, w.k), isa=current_kernels().name.decode(), multiply_add=kind, bits=(a.count, b.count),
        limbs=limbs, segment=2 * w.segment if kind == "s16" else None, tile=tile,
        threads=paid_threads(<double>w.m * w.n * w.k, WIDE_THREAD_WORK, threads), max_threads=threads,
        b_is_packed=packed is not None,
        searches_overflow=both > (62 if a.negative or b.negative else 63), exact_in_float64=both <= 53)


def plan_of(m, n, k, isa, machine, packed=False, b_columns=False, tile=None):
    """Return the plan of a product whose A is u8 with contiguous rows, as a dict, for tests. The plan may be for any
    machine and for any kernels that were built. `tile`, (rows, panels), changes the size of tiles, and the number of
    columns of row kernels.

    There are no operands, because nothing is multiplied. `parts` in the result has the pieces of each thread, in units
    of C. A unit has unit[0] rows and unit[1] columns.
    """
    cdef Problem g
    cdef Resolved r
    cdef Description d
    cdef const Plan *p = &r.plan.common
    cdef const BlocksPlan *blocks = &r.plan.blocks
    cdef Machine other
    cdef i8_kernels kernels
    cdef i8_gemm_kernels tiles
    other.l1, other.l2, other.l3, other.cores = machine["l1"], machine["l2"], machine["l3"], machine["cores"]
    start(&g, False)
    g.kernels = <const i8_kernels *><uintptr_t>table_address(isa)
    if tile is not None:
        kernels, tiles = g.kernels[0], g.kernels.gemm[0]
        tiles.mr, tiles.np = tile
        tiles.row_np, tiles.few_rows.columns = tiles.np, tiles.np * I8_PANEL
        kernels.gemm, g.kernels = &tiles, &kernels
    g.machine = &other
    g.m, g.n, g.k, g.threads = m, n, k, machine["cores"]
    # The addresses of A and B only have to be aligned, because nothing reads from them.
    g.a.data = g.b.data = <const uint8_t *>ALIGNMENT
    g.a.row, g.a.column = k, 1
    g.b.row, g.b.column = (1, k) if b_columns else (n, 1)
    g.c.row, g.c.column = n * sizeof(int32_t), sizeof(int32_t)
    memset(&g.panels, 0, sizeof(g.panels))
    if packed:
        g.panels.data, g.panels.step = <const int8_t *>ALIGNMENT, round_up(k, I8_GROUP) * I8_PANEL
    resolve(&g, &r)
    describe(&r, &d)
    found = {
        "path": p.path.name.decode(), "threads": planned_threads(p), "k_parts": p.k_parts, "segments": p.segments,
        "unit": tuple(d.unit), "units": tuple(d.units), "parts": parts_of(p, &d), "thread_work": thread_work(&g),
    }
    # Details that only the general path has.
    details = {
        "mr": blocks.mr, "np": blocks.np, "mc": blocks.mc, "nc": blocks.nc, "kc": blocks.kc,
        "k_blocks": blocks.k_blocks, "packed_panels": blocks.packed_panels, "packed_k_blocks": blocks.packed_k_blocks,
        "panels": blocks.panels, "private_columns": p.private_columns, "private_rows": p.private_rows,
        "by_matrix": blocks.matrix is not NULL, "keeps_a": blocks.forms.keeps_a,
        "widens": blocks.forms.may_widen and blocks.forms.uncertified == I8_DOT2,
    }
    return found | (details if found["path"] == "blocks" else dict.fromkeys(details))


cdef list parts_of(const Plan *p, const Description *d):
    """Return the pieces of each thread, in the path's units of work."""
    cdef Grid grid = p.grid
    grid.rows, grid.columns = d.units[0], d.units[1]
    return pieces_of_parts(&grid)


cdef str name_of_dot(int dot):
    return {I8_DOT4_SAT: "pairs", I8_DOT8: "two groups", I8_DOT_SMALL: "many groups"}.get(dot, "widened")


cdef object count_choices(const Problem *g, const BlocksPlan *p):
    """Return the number of panels of B that each multiply-add takes in the loop nest, summed over the M blocks."""
    cdef LoopState x
    cdef int64_t panel, columns, i, n_tiles = ceil_div(p.panels, p.np)
    cdef cnp.ndarray sums = np.full(p.panels, I8_MAX_PAIR_SUM, np.uint16)
    cdef cnp.ndarray memory = np.empty(round_up(g.k, I8_GROUP) * I8_PANEL, np.int8)
    cdef uint16_t *pair_sums = <uint16_t *>cnp.PyArray_DATA(sums)
    cdef uint8_t *data = <uint8_t *>cnp.PyArray_DATA(memory)
    cdef int width, dot
    memset(&x, 0, sizeof(x))
    x.g, x.p = g, p
    x.at.panels, x.b.panels, x.b.k = p.panels, p.panels, g.k
    x.b.pair_sums, x.b.certified = <uint16_t *>g.panels.pair_sums, g.panels.certified
    # The loop nest computes column sums of a plain B if the product needs column sums.
    x.b.col_sums = <int64_t *>g.panels.col_sums if g.panels.data is not NULL else <int64_t *>ALIGNMENT
    if g.four_bits.data is not NULL:
        for panel in range(p.panels):
            pair_sums[panel] = four_bits_pair(&g.four_bits)
        x.b.pair_sums = pair_sums
    elif g.panels.data is NULL:
        for panel in range(p.panels):
            columns = min(g.n - panel * I8_PANEL, <int64_t>I8_PANEL)
            g.kernels.packing.pack_panels(data, memory.size, columns, g.k, address(&g.b, 0, panel * I8_PANEL),
                                          g.b.column, g.b.row, g.b.sign_flip)
            pair_sums[panel] = g.kernels.packing.panel_pair_sum(<int8_t *>data, ceil_div(g.k, I8_GROUP), CERTIFIED_SUM)
        x.b.pair_sums = pair_sums
    counts = {}
    while x.at.row < g.m:
        x.at.rows = min(p.mc, g.m - x.at.row)
        find_range(&x)
        for i in range(n_tiles):
            equal_parts(p.panels, i, n_tiles, &panel, &width)
            dot = choose_dot(&x, panel, width, &x.is_split)
            name = "outliers" if x.is_split else name_of_dot(dot)
            counts[name] = counts.get(name, 0) + width
        x.at.row += x.at.rows
    return {name: counts[name] for name in MULTIPLY_ADDS if name in counts}


cdef object explain_problem(const Problem *g, numerics, certified, bint has_values=False):
    cdef Problem own
    cdef cnp.ndarray memory
    if not has_values or not copies_operands(g):
        return explain_plan(g, numerics, certified, has_values)
    memory = np.empty(copied_bytes(g), np.uint8)
    copy_operands(&own, g, <uint8_t *>cnp.PyArray_DATA(memory))
    return replace(explain_plan(&own, numerics, certified, has_values), shape=(g.m, g.n, g.k), copied=copied_bytes(g))


cdef object explain_plan(const Problem *g, numerics, certified, bint has_values):
    cdef Resolved whole, segment
    cdef Problem part
    cdef Description d
    cdef const Resolved *r = &whole
    cdef const Plan *p = &whole.plan.common
    cdef const BlocksPlan *blocks
    cdef int64_t panels, i
    shape, most = (g.m, g.n, g.k), g.threads
    resolve(g, &whole)
    threads, parts, segments, wide = planned_threads(p), p.k_parts, p.segments, p.wide
    if segments > 1 and not p.path.sums_any_k:
        set_segment(&part, whole.problem, p, 0, NULL)
        resolve(&part, &segment)
        r, p = &segment, &segment.plan.common
        threads = max(threads, planned_threads(p))
    describe(r, &d)
    g, blocks = r.problem, &r.plan.blocks
    path = p.path.name.decode()
    panels = ceil_div(g.n, I8_PANEL)
    multiply_adds = None
    if g.known.spread != 0:
        multiply_adds = {name_of_dot(small_triangle_dot(g, &i)): panels * (panels + 1) // 2}
    elif has_values and path == "blocks" and d.may_widen and g.k:
        multiply_adds = count_choices(g, blocks)
    block = tuple(d.block) if d.block[0] else None
    grid = None if p.grid.stretches or parts > 1 else (p.grid.row_parts, p.grid.column_parts)
    b_shifted = g.known.spread == 0 and (g.b.sign_flip != 0 or g.b.zero_point == -SHIFT)
    split = (sum([g.panels.split.panels[i] for i in range(panels)]), panels) if d.splits else None
    return Explanation(
        shape=shape, path=path, isa=g.kernels.name.decode(), numerics=numerics, tile=tuple(d.tile), block=block,
        threads=threads, thread_grid=grid, k_parts=parts, segments=segments, max_threads=most, workspace=d.workspace,
        b_is_packed=g.panels.data is not NULL or g.four_bits.data is not NULL, a_in_place=bool(d.a_in_place),
        a_shifted=g.a.sign_flip != 0, b_shifted=b_shifted, wide_sums=bool(wide), may_widen=bool(d.may_widen),
        transposed=bool(whole.transposed), certified_panels=certified if d.may_widen else None, split_panels=split,
        a_quantized=False, multiply_adds=multiply_adds)
