"""Interleaved measuring. All contestants take turns, so a slow moment of the machine affects all contestants
equally."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from statistics import median
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Plan:
    """The length and the number of samples."""

    rounds: int  # samples per contestant, at most
    budget: float  # seconds for all contestants, shared evenly
    min_sample: float  # seconds; shorter calls are repeated within a sample until it takes this long
    settle: float  # seconds of sleep before a sample: meanwhile idle workers of the previous contestant stop spinning
    clock: Callable[[], float] = time.perf_counter


@dataclass
class Timing:
    """The seconds per call of one contestant, with one entry for each sample of `inner` calls."""

    inner: int
    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return median(self.seconds)


MIN_SAMPLES = 3
# The maximum number of calls, and of seconds, before a sample. If operands take half of a shared L3 cache, four passes
# load them into the cache again.
WARM_CALLS, WARM_SECONDS = 4, 2e-3
SLOW_SAMPLE = 0.05  # seconds; a longer sample is not slow by chance
LATEST = 2  # multiple of the budget after which rounds end, if the machine has become much slower


def _sample(run: Callable[[], object], inner: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in repeat(None, inner):
        run()
    return (clock() - start) / inner


def _calibrate(run: Callable[[], object], plan: Plan) -> tuple[int, float]:
    """Return the number of calls that take at least `plan.min_sample` seconds, and the measured seconds per call.

    A short sample is repeated three times, and the shortest time counts. A single call can take as long as hundreds of
    calls if its thread must wake up, or waits for a core on which another contestant's thread still spins.
    """
    time.sleep(plan.settle)
    run()
    inner = 1
    while True:
        seconds = _sample(run, inner, plan.clock)
        if plan.min_sample <= seconds * inner < SLOW_SAMPLE:
            seconds = min(seconds, _sample(run, inner, plan.clock), _sample(run, inner, plan.clock))
        if seconds * inner >= plan.min_sample:
            return inner, seconds
        # The estimate of a short sample is coarse, so increase the number of calls by at most a factor of ten at a
        # time.
        inner = max(inner + 1, min(10 * inner, int(1.1 * plan.min_sample / max(seconds, 1e-9)) + 1))


def measure(
    contestants: Mapping[Name, Callable[[], object]], plan: Plan, watch: Callable[[], object] | None = None
) -> dict[Name, Timing]:
    """Time all contestants, one after the other, round after round, in a new order each round.

    Calls that are not timed precede each sample: they load the contestant's operands into the caches, and wake its
    threads. A contestant that is too slow for all rounds within its share of the budget takes part in some evenly
    spread rounds, at least three. `watch` is called before each sample, outside the timed region.
    """
    timings: dict[Name, Timing] = {}
    samples: dict[Name, int] = {}
    warm: dict[Name, int] = {}
    share = plan.budget / max(len(contestants), 1)
    for name, run in contestants.items():
        inner, seconds = _calibrate(run, plan)
        timings[name] = Timing(inner)
        warm[name] = max(1, min(WARM_CALLS, int(WARM_SECONDS / seconds)))
        cost = (inner + warm[name]) * seconds + plan.settle
        samples[name] = max(min(int(share / cost), plan.rounds), min(MIN_SAMPLES, plan.rounds))

    start = time.perf_counter()
    rng = random.Random(0)
    order = list(contestants)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for index in range(plan.rounds):
            rng.shuffle(order)
            for name in order:
                if (index + 1) * samples[name] // plan.rounds == index * samples[name] // plan.rounds:
                    continue
                if watch is not None:
                    watch()
                if plan.settle:
                    time.sleep(plan.settle)
                for _ in range(warm[name]):
                    contestants[name]()
                timings[name].seconds.append(_sample(contestants[name], timings[name].inner, plan.clock))
            late = time.perf_counter() - start > LATEST * plan.budget
            if late and all(len(timing.seconds) >= MIN_SAMPLES for timing in timings.values()):
                break
    finally:
        if collecting:
            gc.enable()
    return timings
