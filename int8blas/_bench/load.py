"""The share of the CPUs that other processes and the hypervisor take during a run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

# The shares of the CPUs' time, taken by other processes or by the hypervisor, from which on a run should be repeated. A
# process that uses a tenth of the CPUs slows a contestant down by more than most differences between contestants. Time
# that the hypervisor takes is lost completely, so the limit for the hypervisor is lower.
OTHERS, STOLEN = 0.1, 0.01


@dataclass(frozen=True)
class Times:
    """Cumulative seconds until now: wall-clock time, and CPU times of the CPUs that this process may use."""

    clock: float
    busy: float  # CPU time of all processes
    stolen: float  # CPU time that the hypervisor gave to other machines
    own: float  # CPU time of this process and its children


@dataclass(frozen=True)
class Load:
    """The number of CPUs that were taken from a run, averaged over its time."""

    cpus: int
    others: float  # taken by other processes
    stolen: float  # taken by the hypervisor

    @property
    def warning(self) -> str:
        """Return a warning about a load that distorts the figures, or an empty text."""
        taken = [
            f"{share:.2g} of {self.cpus} CPUs went to {taker}"
            for share, least, taker in (
                (self.others, OTHERS, "other processes"),
                (self.stolen, STOLEN, "the hypervisor"),
            )
            if share >= least * self.cpus
        ]
        return f"warning: {' and '.join(taken)} during the run; repeat it on an idle machine" if taken else ""


def times_of(stat: str, cpus: Collection[int]) -> tuple[float, float]:
    """Return the busy ticks and the stolen ticks of CPUs in a text like /proc/stat."""
    busy = stolen = 0
    for line in stat.splitlines():
        name, *fields = line.split() or [""]
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _, _, irq, soft_irq, steal, *_ = map(int, fields)
            busy, stolen = busy + user + nice + system + irq + soft_irq, stolen + steal
    return busy, stolen


def times(stat: Path) -> Times | None:
    """Return the times until now, or None if the system does not count them."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        busy, stolen = times_of(stat.read_text(), os.sched_getaffinity(0))
        if busy:
            ticks = os.sysconf("SC_CLK_TCK")
            return Times(time.perf_counter(), busy / ticks, stolen / ticks, sum(os.times()[:4]))
    return None


class Watch:
    """The load since this object was created. If the system counts no times, the load is the average over the last
    minute."""

    def __init__(self, cpus: int, stat: Path = Path("/proc/stat")) -> None:
        self._cpus, self._stat, self._before = cpus, stat, times(stat)
        self._average = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0

    def load(self) -> Load:
        """Return the load until now."""
        before, after = self._before, times(self._stat)
        if before is None or after is None or after.clock <= before.clock:
            return Load(self._cpus, self._average, 0.0)
        seconds, own = after.clock - before.clock, after.own - before.own
        others = max(after.busy - before.busy - own, 0.0)
        return Load(self._cpus, others / seconds, (after.stolen - before.stolen) / seconds)
