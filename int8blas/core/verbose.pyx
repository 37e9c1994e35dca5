"""INT8BLAS_VERBOSE: write a line about each call of a primitive to the standard error stream.

Products, convolutions and recurrent layers report their paths and sizes themselves; :mod:`int8blas.core.traced` reports
functions of arrays.
"""

import os
import sys

from libc.stdint cimport int64_t
from libc.stdio cimport fputs, snprintf, stderr

from int8blas.core.kernels cimport current_kernels, i8_kernels
from int8blas.core.threads cimport forget_regions, region_used

cdef extern from *:
    """
    #include <time.h>
    static double i8_seconds(void)
    {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    }
    """
    double i8_seconds() noexcept nogil

cdef bint verbose = os.environ.get("INT8BLAS_VERBOSE", "0") not in ("", "0")


cdef double seconds() noexcept nogil:
    """Return a start time. Without verbose lines return 0, so that calls do not spend time on reading the clock."""
    return i8_seconds() if verbose else 0


cdef void write_line(char *line, const char *name, const char *sizes, const char *how, const i8_kernels *kernels,
                     int threads, double elapsed) noexcept nogil:
    """Write the line about a finished call into a buffer of LINE_BYTES."""
    # Compute in integers, because the locale determines the decimal point of a double. The clock may have been set back
    # during the call, so limit the time to at least 0.
    cdef long long units = <long long>(1e7 * max(0.0, elapsed) + 0.5)
    snprintf(line, LINE_BYTES, b"int8blas,%s,%s,%s,%s,threads=%d,%lld.%04lld ms\n", name, sizes, how, kernels.name,
             threads, units // 10000, units % 10000)


cdef void report_nogil(const char *name, int64_t m, int64_t n, int64_t k, const char *how, const i8_kernels *kernels,
                       int threads, double elapsed) noexcept nogil:
    """Print the line about a problem of the given sizes. The thread need not hold the GIL."""
    cdef char sizes[LINE_BYTES]
    cdef char line[LINE_BYTES]
    snprintf(sizes, LINE_BYTES, b"m=%lld,n=%lld,k=%lld", <long long>m, <long long>n, <long long>k)
    write_line(line, name, sizes, how, kernels, threads, elapsed)
    fputs(line, stderr)


cdef int report(str name, str sizes, str how, const i8_kernels *kernels, int threads, double elapsed) except -1:
    """Print the line to Python's error stream, with the GIL."""
    cdef char line[LINE_BYTES]
    write_line(line, name.encode(), sizes.encode(), how.encode(), kernels, threads, elapsed)
    print(line.decode(), end="", file=sys.stderr, flush=True)
    return 0


def begin():
    """Return a start time, and begin to count threads for the line."""
    forget_regions()
    return seconds()


def seconds_since(double begun):
    return seconds() - begun


def end(str name, str sizes, str how, double elapsed):
    """Print the line about a function of arrays."""
    report(name, sizes, how, current_kernels(), region_used(), elapsed)


def is_verbose():
    """Return whether INT8BLAS_VERBOSE is set."""
    return bool(verbose)
