from int8blas.gemm.problem cimport Problem

# The plan of a problem; `certified` is (certified panels, panels) of a packed B, or None; whether A and B are there.
cdef object explain_problem(const Problem *g, numerics, certified, bint has_values=*)
