"""INT8BLAS_VERBOSE: a line on the standard error stream about each call of a primitive.

Products, convolutions and recurrent layers report what they have computed themselves, by path and sizes. The functions
of arrays are decorated by `spoken`, which leaves them as they are where no lines are asked for.
"""

import functools
import inspect
import os
import sys
import threading

from libc.stdint cimport int64_t
from libc.stdio cimport fputs, snprintf, stderr
import numpy as np

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

# Shapes of sources that a line has at most.
cdef int MOST_SHAPES = 4
cdef bint verbose = os.environ.get("INT8BLAS_VERBOSE", "0") not in ("", "0")


cdef double seconds() noexcept nogil:
    """A time, to be subtracted from a later one; 0 where no line is written, so that calls do not pay for the clock."""
    return i8_seconds() if verbose else 0


cdef void write_line(char *line, const char *name, const char *sizes, const char *how, const i8_kernels *kernels,
                     int threads, double elapsed) noexcept nogil:
    """The line about what has just ended, in LINE_BYTES."""
    # In integers, because the decimal point of a double is the locale's. The clock may have been set meanwhile.
    cdef long long units = <long long>(1e7 * max(0.0, elapsed) + 0.5)
    snprintf(line, LINE_BYTES, b"int8blas,%s,%s,%s,%s,threads=%d,%lld.%04lld ms\n", name, sizes, how, kernels.name,
             threads, units // 10000, units % 10000)


cdef void report_nogil(const char *name, int64_t m, int64_t n, int64_t k, const char *how, const i8_kernels *kernels,
                       int threads, double elapsed) noexcept nogil:
    """Print the line about a problem of these sizes, from a thread that may not be Python's."""
    cdef char sizes[LINE_BYTES]
    cdef char line[LINE_BYTES]
    snprintf(sizes, LINE_BYTES, b"m=%lld,n=%lld,k=%lld", <long long>m, <long long>n, <long long>k)
    write_line(line, name, sizes, how, kernels, threads, elapsed)
    fputs(line, stderr)


cdef int report(str name, str sizes, str how, const i8_kernels *kernels, int threads, double elapsed) except -1:
    """Print it, with the GIL, where Python's error stream goes."""
    cdef char line[LINE_BYTES]
    write_line(line, name.encode(), sizes.encode(), how.encode(), kernels, threads, elapsed)
    print(line.decode(), end="", file=sys.stderr, flush=True)
    return 0


# Whether the calling thread is in a function that will write the line: those that it calls are parts of it.
inside = threading.local()


def size_of(value):
    """The shape of an array, or those of a sequence of arrays: 2x3, or 2x3+4x3."""
    arrays = value if are_arrays(value) else [value]
    texts = ["x".join(map(str, np.shape(array))) or "1" for array in arrays[:MOST_SHAPES]]
    return "+".join(texts) + (f"+{len(arrays) - MOST_SHAPES} more" if len(arrays) > MOST_SHAPES else "")


def type_of(value):
    """The dtype of an array, or of the first of a sequence of arrays."""
    array = value[0] if are_arrays(value) else value
    return str(array.dtype if hasattr(array, "dtype") else np.asarray(array).dtype).removeprefix("torch.")


def are_arrays(value):
    return isinstance(value, (list, tuple)) and bool(value) and all([hasattr(array, "shape") for array in value])


def spoken(*sources):
    """A decorator of a function of arrays, by the names of the arguments that are its sources."""

    def decorate(function):
        if not verbose:
            return function
        bind = inspect.signature(function).bind

        @functools.wraps(function)
        def speaking(*args, **kwargs):
            if getattr(inside, "speaking", False):
                return function(*args, **kwargs)
            inside.speaking = True
            forget_regions()
            elapsed = seconds()
            try:
                result = function(*args, **kwargs)
            finally:
                inside.speaking = False
            elapsed = seconds() - elapsed
            given = bind(*args, **kwargs).arguments
            sizes = "".join([f"{name}={size_of(given[name])}," for name in sources])
            how = type_of(given[sources[0]])
            if hasattr(result, "dtype"):
                sizes, how = f"{sizes}dst={size_of(result)},", f"{how} to {type_of(result)}"
            report(function.__name__, sizes[:-1], how, current_kernels(), region_used(), elapsed)
            return result

        return speaking

    return decorate
