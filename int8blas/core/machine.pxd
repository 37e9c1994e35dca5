# The machine that plans are made for (see machine.pyx).
from libc.stdint cimport int64_t

# Caches in bytes: `l1` and `l2` of one core, or its share of a shared cache; `l3` as a whole, 0 without one.
cdef struct Machine:
    int64_t l1, l2, l3
    int cores


# The machine that problems point to.
cdef Machine this_machine
