"""The machine and the software of a measurement."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from int8blas.core.config import cpu_name


def caches() -> dict[str, str]:
    """Return the size of each data or unified cache of the first CPU, if the system reports it."""
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            found[f"L{level}"] = size
    return found


def usable_cpus() -> int:
    """Return the number of CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe() -> dict[str, object]:
    return {
        "cpu": cpu_name(),
        "cpus": usable_cpus(),
        "caches": caches(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
