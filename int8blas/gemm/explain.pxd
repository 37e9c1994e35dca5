from int8blas.gemm.problem cimport Problem

# Explain a problem. `certified` is None, or has the number of panels of a packed B with a no-saturation proof, and the
# number of all panels. `has_values` says whether A and B have values, which the explanation may read.
cdef object explain_problem(const Problem *g, numerics, certified, bint has_values=*)
