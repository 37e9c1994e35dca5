"""Calls the path that the page "extend" describes, on a problem for that path; test_recipes.py builds it."""

cimport int8blas.core.cnumpy as cnp
from int8blas.gemm.call cimport set_a, set_ao, set_b, set_bo, set_c
from int8blas.gemm.path cimport Description, Path, Plan, from_capsule
from int8blas.gemm.plan cimport start_plan
from int8blas.gemm.problem cimport Problem, start

from outer import PATH

cnp.import_array()

cdef const Path *path = from_capsule(PATH)


def outer(cnp.ndarray a, cnp.ndarray b, cnp.ndarray c, ao, bo):
    """C = (A - ao) @ (B - bo), by the path."""
    cdef Problem g
    cdef Plan p
    cdef Description d
    start(&g, False)
    set_a(&g, a, False)
    set_b(&g, b, False)
    set_c(&g, c)
    rows, columns = set_ao(&g, ao, "M"), set_bo(&g, bo, "N")
    start_plan(&p)
    p.path = path
    assert path.takes(&g, &p)
    path.describe(&g, &p, &d)
    assert d.tile[0] > 0
    if path.run(&g, &p):
        raise MemoryError
    del rows, columns
