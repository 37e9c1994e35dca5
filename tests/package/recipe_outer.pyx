"""Calls the path that the page "extend" writes, on a problem that it is for: built by test_recipes.py."""

cimport int8blas.core.cnumpy as cnp
from int8blas.gemm.plan cimport Gemm, Plan, make_plan
from int8blas.gemm.problem cimport set_a, set_ao, set_b, set_bo, set_c, start
from outer cimport gemm_outer

cnp.import_array()


def outer(cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, ao, bo):
    """C = (A - ao) @ (B - bo), by the path."""
    cdef Gemm g
    cdef Plan p
    start(&g, False)
    set_a(&g, a, False)
    set_b(&g, b, False)
    set_c(&g, c)
    rows, columns = set_ao(&g, ao, "M"), set_bo(&g, bo, "N")
    make_plan(&g, &p)
    if gemm_outer(&g, &p):
        raise MemoryError
    del rows, columns
