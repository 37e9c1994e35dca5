"""The plan of a product: all decisions that depend on its shape, made before any memory is touched.

``resolve`` transposes a problem if that is faster, and tries the paths in the order of the table. The first path that
accepts the problem plans it. The driver carries out the plan; ``explain`` and INT8BLAS_VERBOSE report it.
"""

from int8blas.gemm.block_plan cimport plan_blocks
from int8blas.gemm.blocks cimport describe_blocks, run_blocks, takes_blocks
from int8blas.gemm.path cimport planned_threads
from int8blas.gemm.paths.few_columns cimport describe_few_columns, plan_few_columns, run_few_columns, takes_few_columns
from int8blas.gemm.paths.four_bits cimport describe_four_bits, plan_four_bits, run_four_bits, takes_four_bits
from int8blas.gemm.paths.few_rows cimport describe_few_rows, plan_few_rows, run_few_rows, takes_few_rows
from int8blas.gemm.paths.long_k cimport describe_long_k, plan_long_k, run_long_k, takes_long_k
from int8blas.gemm.paths.register cimport describe_register, plan_register, run_register, takes_register
from int8blas.gemm.paths.small_k cimport describe_small_k, plan_small_k, run_small_k, takes_small_k
from int8blas.gemm.paths.tiny cimport describe_tiny, run_tiny, takes_tiny
from int8blas.gemm.paths.triangle cimport describe_triangle, plan_triangle, run_triangle, takes_triangle
from int8blas.gemm.small_values cimport lower_triangle, unshift

# The table of paths, in the order of asking. The last path takes every problem.
cdef enum:
    PATH_COUNT = 9
cdef Path[PATH_COUNT] PATHS
PATHS[0] = Path(
    b"register", b"few columns and a few k, so that several rows of A, and B, fit a register",
    True, False, takes_register, NULL, plan_register, run_register, describe_register)
PATHS[1] = Path(
    b"tiny", b"small enough to be computed on the stack",
    False, False, takes_tiny, NULL, NULL, run_tiny, describe_tiny)
PATHS[2] = Path(
    b"triangle", b"B is A.T, so one triangle of C is computed, from panels that serve both, and mirrored",
    False, False, takes_triangle, lower_triangle, plan_triangle, run_triangle, describe_triangle)
PATHS[3] = Path(
    b"long_k", b"few rows and columns and a long K, so both operands are read once, and sums are kept in int64",
    True, True, takes_long_k, NULL, plan_long_k, run_long_k, describe_long_k)
PATHS[4] = Path(
    b"few_columns", b"few rows or columns, so the other operand is read in place along k",
    True, False, takes_few_columns, NULL, plan_few_columns, run_few_columns, describe_few_columns)
PATHS[5] = Path(
    b"few_rows", b"few rows, so B is read in place along its rows, once",
    True, False, takes_few_rows, NULL, plan_few_rows, run_few_rows, describe_few_rows)
PATHS[6] = Path(
    b"small_k", b"small K, so C is written row by row from a packed B in the cache",
    True, False, takes_small_k, NULL, plan_small_k, run_small_k, describe_small_k)
PATHS[7] = Path(
    b"four_bits", b"few rows, so B of 4 bits is read once, as it is packed",
    True, False, takes_four_bits, NULL, plan_four_bits, run_four_bits, describe_four_bits)
PATHS[8] = Path(
    b"blocks", b"tiles of C from packed panels of B",
    False, False, takes_blocks, unshift, plan_blocks, run_blocks, describe_blocks)
first_path = PATHS


def paths():
    """Return (name, summary, names_kernel) of each path, in the order of the table."""
    return [(path.name.decode(), path.summary.decode(), bool(path.names_kernel)) for path in PATHS]


cdef void replan(Resolved *r, int threads) noexcept nogil:
    """Plan again for fewer threads, if the system cannot create more."""
    if r.problem != &r.other:
        r.other = r.problem[0]
        r.problem = &r.other
    r.other.threads = threads
    choose(r.problem, &r.plan)
    make_plan(r.problem, &r.plan.common)


cdef int threads_of(const Problem *given) noexcept nogil:
    """Return how many threads a product uses, without reading its operands."""
    cdef Resolved r
    choose_form(given, &r)
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
