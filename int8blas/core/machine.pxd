# The machine that plans are made for (see machine.pyx).
from libc.stdint cimport int64_t

# Sizes of caches in bytes. `l1` and `l2` belong to one core, or are its share of a shared cache. `l3` is the whole
# cache, or 0 without one.
cdef struct Machine:
    int64_t l1, l2, l3
    int cores


# The machine to which problems point.
cdef Machine this_machine
