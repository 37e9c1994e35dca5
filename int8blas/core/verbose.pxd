from libc.stdint cimport int64_t

from int8blas.core.kernels cimport i8_kernels

cdef enum:
    LINE_BYTES = 256

# `verbose` says whether each call writes a line.
cdef bint verbose

cdef double seconds() noexcept nogil
cdef void write_line(char *line, const char *name, const char *sizes, const char *how, const i8_kernels *kernels,
                     int threads, double elapsed) noexcept nogil
cdef void report_nogil(const char *name, int64_t m, int64_t n, int64_t k, const char *how, const i8_kernels *kernels,
                       int threads, double elapsed) noexcept nogil
cdef int report(str name, str sizes, str how, const i8_kernels *kernels, int threads, double elapsed) except -1
