# Sums of groups of K with scales of their own (see scale_groups.pyx).
from int8blas.gemm.block cimport Area, Slab, Workspace
from int8blas.gemm.plan cimport Gemm, Plan


cdef void multiply_scale_groups(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s,
                                const Area *m) noexcept nogil
