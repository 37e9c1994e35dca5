# The machine that plans are made for (see machine.pyx).
from libc.stdint cimport int64_t

# Caches in bytes: `l1` and `l2` are those of one core, or its part where cores share one; `l3` is all of it, 0 without
# any.
cdef struct Machine:
    int64_t l1, l2, l3
    int cores


# This machine, which problems point to.
cdef Machine this_machine
