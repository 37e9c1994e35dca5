"""The machine: the sizes of its caches and how many cores it has, read once, when the package is imported.

Linux tells the caches in /sys; elsewhere the CPU does, by CPUID, or macOS. Where nobody does, they are taken for
`DEFAULTS`. A size that no cache has counts as not told. Caches decide how large blocks are, never what comes out.
"""

import os
import re
from contextlib import contextmanager
from pathlib import Path

from int8blas.core.kernels import cpu_caches

# Bytes of L1, L2 and L3 where they are not told.
DEFAULTS = (32 << 10, 1 << 20, 0)
# What L1 and L2 are at least and at most.
BOUNDS = ((8 << 10, 1 << 20), (64 << 10, 64 << 20))


def count_of(text):
    """How many CPUs are in a list such as '0-3,8'."""
    ranges = [part.split("-") for part in text.strip().split(",")]
    return sum(int(part[-1]) - int(part[0]) + 1 for part in ranges)


def listed_caches(folder):
    """Bytes of (L1, L2, L3) as a folder like /sys/devices/system/cpu/cpu0/cache tells them, 0 where it does not: of
    data, and of an L2 that cores share the part of one."""
    sizes, sharing = [0, 0, 0], [1, 1, 1]
    for index in sorted(Path(folder).glob("index*")):
        try:
            level, kind, size, cpus = (
                (index / name).read_text().strip() for name in ("level", "type", "size", "shared_cpu_list"))
            number = re.fullmatch(r"(\d+)([KMG]?)", size)
            if kind != "Instruction" and number and level in ("1", "2", "3"):
                sizes[int(level) - 1] = int(number[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[number[2]]
                sharing[int(level) - 1] = count_of(cpus)
        except (OSError, ValueError):
            continue
    # Threads of one core share its L1.
    return sizes[0], sizes[1] // max(1, sharing[1] // sharing[0]), sizes[2]


def usable_cpus():
    """The CPUs that this process may run on, at least one."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def believable(listed, told):
    """Of (L1, L2, L3) as they are listed, or else told, what caches can be, or else the default."""
    caches = []
    for sizes, (low, high), default in zip(zip(listed, told), (*BOUNDS, (1, 1 << 40)), DEFAULTS):
        caches.append(next((size for size in sizes if low <= size <= high), default))
    return tuple(caches)


def machine():
    """The machine that plans are made for, as a dict: bytes of its caches, and its cores."""
    return {"l1": this_machine.l1, "l2": this_machine.l2, "l3": this_machine.l3, "cores": this_machine.cores}


def _put(l1, l2, l3, cores):
    this_machine.l1, this_machine.l2, this_machine.l3, this_machine.cores = l1, l2, l3, cores


@contextmanager
def replaced(**parts):
    """Let plans be for another machine in a ``with`` block, for tests: the whole process's, while nothing else runs."""
    before = machine()
    _put(**before | parts)
    try:
        yield
    finally:
        _put(**before)


def _read():
    cpus = usable_cpus()
    listed = listed_caches(f"/sys/devices/system/cpu/cpu{cpus[0]}/cache")
    _put(*believable(listed, cpu_caches()), len(cpus))


_read()
