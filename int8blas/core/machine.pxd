# The machine for which plans are made (see machine.pyx).
from libc.stdint cimport int64_t

# Sizes of caches in bytes. `l1` and `l2` are the caches of one core, or the core's share of a shared cache. `l3` is the
# whole L3 cache, or 0 without an L3 cache.
cdef struct Machine:
    int64_t l1, l2, l3
    int cores


# The machine that problems are planned for.
cdef Machine this_machine
