# Sums of groups of K with scales of their own (see scale_groups.pyx).
from libc.stdint cimport int64_t

from int8blas.gemm.block cimport Slab, Workspace
from int8blas.gemm.plan cimport Gemm, Plan


cdef void multiply_scale_groups(const Gemm *g, const Plan *p, const Workspace *w, const Slab *s, int64_t row,
                                int64_t rows, int64_t panel, int64_t panels) noexcept nogil
