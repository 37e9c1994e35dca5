from int8blas.gemm.problem cimport Problem

# Explain a problem. `certified` is (certified panels, panels) of a packed B, or None. `has_values` says that A and B
# exist.
cdef object explain_problem(const Problem *g, numerics, certified, bint has_values=*)
