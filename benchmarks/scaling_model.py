"""How products would scale on machines with more cores than this one: plans are real, times come from a model.

    python benchmarks/scaling_model.py [--isa avx512vnni] [--cores 4,8,16,32,64,128]
    python benchmarks/scaling_model.py --measure

--measure also times products with 1, 2, 4, ... threads up to the cores of this machine; the numbers of threads take
turns.

Plans are pure functions of problem and machine (`int8blas.gemm.explain.plan_of`). The time of a plan is the time of its
busiest thread:

    max(multiply-adds / rate of a core, bytes of A, B and C / bytes a second) + wakings * log2(threads)

Rows of a tile beyond the edge of C take as long as rows inside C. Bytes arrive at the rate of the L2 cache if the
thread's part fits it, at the rate of L3 if the whole problem fits the shared L3, and otherwise at the rate of memory.
All threads share the channels of memory. A channel serves `CORES_PER_CHANNEL` cores, as in servers, each at half the
rate of a single active core. The rates of a core are measured on this machine, with one thread. The model ignores lower
clocks when all cores work, hyperthreads, caches of other sockets, and other programs.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from dataclasses import dataclass

import int8blas
import numpy as np
from int8blas._bench.shapes import CLASSES
from int8blas.gemm.explain import plan_of

CORES_PER_CHANNEL = 8
L3_BYTES_PER_CORE = 4 << 20
L2_BYTES = 1 << 20
WAKING_S = 2e-6
PANEL = 16
IDLE = 0.75  # the script names shapes with a smaller share of the cores' time


def best(call, times=20):
    """The shortest time of some calls, in seconds."""
    shortest = math.inf
    for _ in range(times):
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


@dataclass
class Core:
    """The rates of one core, per second: multiply-adds, and bytes from L2, L3 and memory."""

    work: float
    l2: float
    l3: float
    memory: float

    def bytes(self, part, whole, l3_bytes):
        """Bytes per second for a thread's part of a problem. The rate of memory is the rate for one active core."""
        return self.l2 if part <= L2_BYTES else self.l3 if whole <= l3_bytes else self.memory


def calibrated():
    """Measure a core of this machine."""

    def bytes_a_second(n, k):
        """Bytes per second of B in a product with one row."""
        a, b, out = np.ones((1, k), np.uint8), int8blas.pack_b(np.ones((k, n), np.int8)), np.empty((1, n), np.int32)
        return n * k / best(lambda: int8blas.matmul(a, b, out=out), 50)

    a, b = np.ones((512, 1024), np.uint8), int8blas.pack_b(np.ones((1024, 512), np.int8))
    out, large = np.empty((512, 512), np.int32), np.ones(64 << 20, np.uint8)
    target = np.empty_like(large)
    with int8blas.num_threads(1):
        work = 512 * 512 * 1024 / best(lambda: int8blas.matmul(a, b, out=out))
        l2, l3 = bytes_a_second(512, 1024), bytes_a_second(2048, 2048)
    return Core(work, l2, l3, 2 * large.size / best(lambda: np.copyto(target, large), 5))


def thread_time(pieces, plan, shape, core, l3_bytes, channels_share):
    """Seconds that a thread takes for its pieces."""
    m, n, k = shape
    height, width = plan["unit"]
    columns = -(-n // PANEL) * PANEL
    work = size = 0
    for row, row_end, column, column_end in pieces:
        rows, wide = (row_end - row) * height, max(0, min(column_end * width, columns) - column * width)
        work += rows * wide * k
        size += min(rows, m) * k + wide * k + 4 * min(rows, m) * wide
    return seconds_of(work, size, shape, core, l3_bytes, channels_share)


def seconds_of(work, size, shape, core, l3_bytes, channels_share):
    """Seconds for some multiply-adds and bytes of a problem."""
    m, n, k = shape
    whole = m * k + n * k + 4 * m * n
    rate = core.bytes(size, whole, l3_bytes)
    return max(work / core.work, size / (min(rate, channels_share) if whole > l3_bytes else rate))


def model(shape, cores, isa, core):
    """Seconds, the share of the threads' time with work, and the number of threads."""
    m, n, k = shape
    l3 = L3_BYTES_PER_CORE * max(cores, 8)
    plan = plan_of(m, n, k, isa=isa, machine={"l1": 32 << 10, "l2": L2_BYTES, "l3": l3, "cores": cores}, packed=True)
    threads = plan["threads"]
    share = max(1, cores // CORES_PER_CHANNEL) * core.memory / threads * CORES_PER_CHANNEL / 2
    if plan["k_parts"] > 1:
        part = (m * n * k / plan["k_parts"], (m * k + n * k) / plan["k_parts"])
        times = [seconds_of(*part, shape, core, l3, share)]
    else:
        times = [thread_time(pieces, plan, shape, core, l3, share) for pieces in plan["parts"]]
    return max(times) + WAKING_S * math.log2(threads), sum(times) / len(times) / max(times), threads


def measured(shape, counts, seconds):
    """For each number of threads the shortest time of a product, in seconds; they take turns."""
    m, n, k = shape
    a, b = np.ones((m, k), np.uint8), int8blas.pack_b(np.ones((k, n), np.int8))
    out, end = np.empty((m, n), np.int32), time.perf_counter() + seconds
    times = dict.fromkeys(counts, math.inf)
    while time.perf_counter() < end:
        for count in counts:
            with int8blas.num_threads(count):
                times[count] = min(times[count], best(lambda: int8blas.matmul(a, b, out=out), 3))
    return times


def measure(isa, core, seconds):
    """Print the speedup of products with more threads, measured and by the model."""
    cores = os.cpu_count() or 1
    counts = sorted({*(2**i for i in range(cores.bit_length())), cores})
    print(f"{'speed-up (model)':24}{'us alone':>10}" + "".join(f"{count:>14}" for count in counts[1:]))
    for name, shapes in CLASSES.items():
        logarithms = np.zeros((len(counts), 2))
        for shape in shapes:
            times = measured(shape, counts, seconds)
            alone = model(shape, 1, isa, core)[0]
            pairs = [(times[1] / times[count], alone / model(shape, count, isa, core)[0]) for count in counts]
            logarithms += np.log(pairs)
            words = "".join(f"{ours:7.2f} ({told:4.1f})" for ours, told in pairs[1:])
            print(f"  {'x'.join(map(str, shape)):22}{times[1] * 1e6:10.1f}{words}", flush=True)
        means = np.exp(logarithms / len(shapes))
        print(f"{name:34}" + "".join(f"{ours:7.2f} ({told:4.1f})" for ours, told in means[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", default="avx512vnni")
    parser.add_argument("--cores", default="4,8,16,32,64,128")
    parser.add_argument("--measure", action="store_true", help="time products on this machine too")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each product (1)")
    options = parser.parse_args()
    cores = [int(one) for one in options.cores.split(",")]
    with int8blas.use_isa(options.isa):
        core = calibrated()
    rates = f"L2 {core.l2 / 1e9:.0f}, L3 {core.l3 / 1e9:.0f}, memory {core.memory / 1e9:.0f}"
    print(f"a core: {core.work / 1e9:.0f} G multiply-adds/s; GB/s from {rates}")
    if options.measure:
        with int8blas.use_isa(options.isa):
            measure(options.isa, core, options.seconds)
        return
    print(f"{'speed-up by cores':24}" + "".join(f"{count:8}" for count in cores))
    uneven = []
    for name, shapes in CLASSES.items():
        logarithms = np.zeros(len(cores))
        for shape in shapes:
            alone = model(shape, 1, options.isa, core)[0]
            for i, count in enumerate(cores):
                seconds, busy, threads = model(shape, count, options.isa, core)
                logarithms[i] += math.log(alone / seconds)
                if busy < IDLE:
                    uneven.append((busy, shape, count, threads))
        print(f"{name:24}" + "".join(f"{one:8.1f}" for one in np.exp(logarithms / len(shapes))))
    print(f"threads that work less than {IDLE:.0%} of the time:", len(uneven) or "none")
    for busy, shape, count, threads in sorted(uneven)[:20]:
        print(f"  {shape} on {count} cores: {threads} threads, {busy:.0%}")


if __name__ == "__main__":
    main()
