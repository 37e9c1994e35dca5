"""Make the plan of a product: all decisions about how to compute it, before anything is packed or written.

``choose_form`` transposes a problem if the transposed problem is faster. ``plan_form`` tries the paths in the order of
the table, and the first path that accepts the problem plans it. Without VNNI, the path's ``specialize`` may look for
large values of an operand. ``resolve`` calls both functions. These functions are inline, in plan.pxd.

The driver calls only ``choose_form`` for the smallest problems, which need no plan. The driver carries out the plan;
``explain`` and INT8BLAS_VERBOSE report the plan.
"""

from libc.stdlib cimport malloc

from int8blas.core.threads cimport region_threads
from int8blas.gemm.path cimport from_capsule, planned_threads
from int8blas.gemm.paths.sizes cimport is_register
from int8blas.gemm.problem cimport transpose_problem

from int8blas.gemm import blocks
from int8blas.gemm.paths import few_columns, few_rows, four_bits, long_k, register, small_k, tiny, triangle

# The table of paths, in the order in which `choose` tries them. Paths that decide by sizes alone are first. The last
# path takes every problem.
PATHS = (
    register,
    tiny,
    triangle,
    long_k,
    few_columns,
    few_rows,
    small_k,
    four_bits,
    blocks,
)


cdef const Path **table() except NULL:
    """Return the paths of the modules in PATHS."""
    cdef const Path **found = <const Path **>malloc(len(PATHS) * sizeof(const Path *))
    if found is NULL:
        raise MemoryError
    for i, module in enumerate(PATHS):
        found[i] = from_capsule(module.PATH)
    return found


first_path = table()


def paths():
    """Return (name, summary, names_kernel) of each path, in the order of the table."""
    return [
        (first_path[i].name.decode(), first_path[i].summary.decode(), bool(first_path[i].names_kernel))
        for i in range(len(PATHS))
    ]


cdef bint is_register_transposed(const Problem *g) noexcept nogil:
    """Return whether the path `register` takes the transpose of a problem with a plain B."""
    cdef Problem t
    transpose_problem(&t, g)
    return is_register(&t)


cdef void fit_threads(Resolved *r) noexcept nogil:
    """If the system cannot create the planned threads, make a new plan for fewer threads."""
    cdef int planned = planned_threads(&r.plan.common), threads = region_threads(planned)
    if threads == planned:
        return
    if r.problem != &r.other:
        r.other = r.problem[0]
        r.problem = &r.other
    r.other.threads = threads
    choose(r.problem, &r.plan)
    make_plan(r.problem, &r.plan.common)


cdef int threads_of(const Problem *given) noexcept nogil:
    """Return the number of threads that a product uses, without reading the operands: the plan omits the step
    `specialize` of `plan_form`, which reads operands."""
    cdef Resolved r
    choose_form(given, &r)
    choose(r.problem, &r.plan)
    make_plan(r.problem, &r.plan.common)
    return planned_threads(&r.plan.common)


cdef void describe(const Resolved *r, Description *d) noexcept nogil:
    """Fill in `d` with the path's description of the plan."""
    cdef const Plan *p = &r.plan.common
    d.tile[0] = d.tile[1] = d.block[0] = d.block[1] = d.block[2] = 0
    d.workspace = 0
    d.unit[0], d.unit[1] = r.problem.m, r.problem.n
    d.units[0], d.units[1] = p.grid.rows, p.grid.columns
    d.a_in_place = d.may_widen = d.splits = False
    p.path.describe(r.problem, p, d)
