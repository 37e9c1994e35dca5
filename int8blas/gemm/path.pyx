"""Find the facts about a problem that every path needs, and choose the parts of K."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport INT32_MAX, int64_t

from int8blas.core.kernels cimport I8_BLAS, I8_GROUP, i8_epilogue
from int8blas.core.split cimport ceil_div, round_up
from int8blas.core.threads cimport THREAD_BYTES, threads_for_bytes
from int8blas.gemm.problem cimport (
    applies_from_registers, has_scale_groups, is_doubled, is_generated, is_identity, is_wide, offset_bound,
    product_bound, stores_transposed, thread_work)


cdef object as_capsule(const Path *path, size_t plan_bytes):
    """Put the path of a module into an object, for the table in plan.pyx. Plans of the path have `plan_bytes` bytes."""
    if plan_bytes > PLAN_BYTES:
        raise ImportError(f"the plan of path {path.name.decode()} has {plan_bytes} bytes, more than PLAN_BYTES")
    return PyCapsule_New(<void *>path, "path", NULL)


cdef const Path *from_capsule(object capsule) except NULL:
    """Return the path in an object of `as_capsule`."""
    return <const Path *>PyCapsule_GetPointer(capsule, "path")


cdef void find_facts(const Problem *g, Plan *p) noexcept nogil:
    """Fill in the members of the plan that do not depend on the path: how sums become C."""
    cdef const i8_epilogue *e = &g.epilogue
    p.wide = not has_scale_groups(g) and is_wide(g)
    p.to_output = not p.wide and applies_from_registers(g)
    if e.kind != I8_BLAS:
        p.identity = p.from_registers = False
        return
    p.identity = is_identity(e)
    p.from_registers = (
        not p.wide and e.alpha == 1 and e.beta == 0 and not stores_transposed(g)
        and g.a.zero_points is NULL and g.b.zero_points is NULL
        and (p.identity or g.k * product_bound(g) + offset_bound(g) <= INT32_MAX)
    )


cdef bint needs_blocks(const Problem *g, const Plan *p) noexcept nogil:
    """Return whether only the general path can compute a problem."""
    return (
        g.saturating or p.wide or g.k == 0 or is_generated(g) or g.c.line != 0 or is_doubled(g) or has_scale_groups(g)
        or g.four_bits.data is not NULL
    )


cdef void divide_k(const Problem *g, Plan *p, bint has_totals, double max_units_per_thread) noexcept nogil:
    """Choose the parts of K. Threads divide K if C has at most `max_units_per_thread` units of work for each
    thread. If the path `has_totals` of C in s64, K is also divided into segments whose sums fit s32."""
    cdef double work = <double>g.m * <double>g.n * <double>g.k, elements = <double>g.m * <double>g.n
    # The zero points of a packed B do not enter the bound: the driver subtracts their terms from the s64 totals.
    cdef int64_t bound = 255 * 128 if g.panels.data is not NULL and not g.saturating else product_bound(g)
    cdef int64_t longest = INT32_MAX // bound - I8_GROUP
    cdef int64_t threads = threads_for_bytes(work, thread_work(g), <double>max(g.m, g.n) * g.k, THREAD_BYTES, g.threads)
    cdef bint is_long = g.k > longest and has_totals
    if bound > INT32_MAX or is_generated(g) or g.c.line != 0 or is_doubled(g) or has_scale_groups(g):
        return
    threads = min(threads, g.k // MIN_PART_K)
    if threads >= 2 and (
        p.grid.rows * p.grid.columns <= max_units_per_thread * threads
        or (is_long and elements * threads <= SEGMENT_ELEMENTS)
    ):
        p.k_parts = threads
    if is_long or p.k_parts > 1:
        p.segments = round_up(ceil_div(g.k, longest), p.k_parts)
