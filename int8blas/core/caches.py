"""The caches and the cores of this machine. :mod:`int8blas.core.machine` reads both once, when it is imported.

Linux lists the caches in /sys. On other systems CPUID or macOS reports the caches. `DEFAULTS` replaces sizes that are
missing or implausible.
"""

import os
import re
from pathlib import Path

from int8blas.core.kernels import cpu_caches

# Bytes of L1, L2 and L3 if the system does not report them.
DEFAULTS = (32 << 10, 1 << 20, 0)
# Bounds of plausible sizes of L1 and L2, in bytes.
BOUNDS = ((8 << 10, 1 << 20), (64 << 10, 64 << 20))


def count_of(text: str) -> int:
    """Return the number of CPUs in a list such as '0-3,8'."""
    ranges = [part.split("-") for part in text.strip().split(",")]
    return sum(int(part[-1]) - int(part[0]) + 1 for part in ranges)


def listed_caches(folder: str | Path) -> tuple[int, int, int]:
    """Return the bytes of the data caches (L1, L2, L3) that are listed in a folder like
    /sys/devices/system/cpu/cpu0/cache. An unlisted cache has 0 bytes. For a shared L2 cache, the size is the share of
    one core."""
    sizes, sharing = [0, 0, 0], [1, 1, 1]
    for index in sorted(Path(folder).glob("index*")):
        try:
            level, kind, size, cpus = (
                (index / name).read_text().strip() for name in ("level", "type", "size", "shared_cpu_list")
            )
            number = re.fullmatch(r"(\d+)([KMG]?)", size)
            if kind != "Instruction" and number and level in ("1", "2", "3"):
                sizes[int(level) - 1] = int(number[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[number[2]]
                sharing[int(level) - 1] = count_of(cpus)
        except (OSError, ValueError):
            continue
    # The threads of one core share its L1 cache.
    return sizes[0], sizes[1] // max(1, sharing[1] // sharing[0]), sizes[2]


def usable_cpus() -> list[int]:
    """Return the number of CPUs that this process may run on, at least one."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def believable(listed: tuple[int, int, int], told: tuple[int, int, int]) -> tuple[int, ...]:
    """Return (L1, L2, L3) in bytes. For each cache take the first plausible size: the listed size, the reported size,
    or the default."""
    bounds = (*BOUNDS, (1, 1 << 40))
    cases = zip(listed, told, bounds, DEFAULTS, strict=True)
    return tuple([next((size for size in sizes if low <= size <= high), end) for *sizes, (low, high), end in cases])


def found() -> tuple[int, ...]:
    """Return the bytes of L1, L2 and L3, and the number of cores."""
    cpus = usable_cpus()
    listed = listed_caches(f"/sys/devices/system/cpu/cpu{cpus[0]}/cache")
    return *believable(listed, cpu_caches()), len(cpus)
