"""How products would scale on machines with more cores than there are here: plans are real, times are a model's.

    python benchmarks/scaling_model.py [--isa avx512vnni] [--cores 4,8,16,32,64,128]
    python benchmarks/scaling_model.py --measure

With --measure products are timed too, with 1, 2, 4, ... threads up to the cores of this machine, which take turns.

Plans are pure functions of problem and machine (`int8blas.gemm.explain.plan_of`). The time of a plan is that of its
busiest thread:

    max(multiply-adds / rate of a core, bytes of A, B and C / bytes a second) + wakings * log2(threads)

Rows of tiles that are not there are multiplied like others. Bytes come at the rate of a core as long as operands fit
the shared L3 cache; beyond, all threads share the memory's channels, each with half of what one core gets alone. A
channel serves `CORES_PER_CHANNEL` cores, as servers have them. The rate of a core, of its bytes and of waking a thread
are measured here, with one thread. What the model leaves out: clocks that fall when all cores work, caches of other
sockets, and other programs.
"""

from __future__ import annotations

import argparse
import math
import os
import time

import int8blas
import numpy as np
from int8blas._bench.shapes import CLASSES
from int8blas.gemm.explain import plan_of

CORES_PER_CHANNEL = 8
L3_BYTES_PER_CORE = 4 << 20
PANEL = 16
IDLE = 0.75  # of the cores' time, below which a shape is named


def best(call, times=20):
    """The shortest time of some calls, in seconds."""
    shortest = math.inf
    for _ in range(times):
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def calibrated():
    """Multiply-adds and bytes that a core does in a second, and the seconds to wake a thread."""
    a, b = np.ones((512, 1024), np.uint8), int8blas.pack_b(np.ones((1024, 512), np.int8))
    out, large = np.empty((512, 512), np.int32), np.ones(64 << 20, np.uint8)
    with int8blas.num_threads(1):
        rate = 512 * 512 * 1024 / best(lambda: int8blas.matmul(a, b, out=out))
    target = np.empty_like(large)
    memory = 2 * large.size / best(lambda: np.copyto(target, large), 5)
    return rate, memory, 2e-6


def thread_time(pieces, plan, shape, speed, bytes_a_second):
    """Seconds that the thread with some pieces takes."""
    m, n, k = shape
    height, width = plan["unit"]
    columns = -(-n // PANEL) * PANEL
    work = size = 0
    for row, row_end, column, column_end in pieces:
        rows, wide = (row_end - row) * height, max(0, min(column_end * width, columns) - column * width)
        work += rows * wide * k
        size += min(rows, m) * k + wide * k + 4 * min(rows, m) * wide
    return max(work / speed, size / bytes_a_second)


def model(shape, cores, isa, machine):
    """Seconds, and the share of the threads' time that they work."""
    rate, memory, waking = machine
    m, n, k = shape
    l3 = L3_BYTES_PER_CORE * max(cores, 8)
    caches = {"l1": 32 << 10, "l2": 1 << 20, "l3": l3, "cores": cores}
    plan = plan_of(m, n, k, isa=isa, machine=caches, packed=True)
    threads = plan["threads"]
    shared = memory
    if m * k + n * k + 4 * m * n > l3:
        channels = max(1, cores // CORES_PER_CHANNEL)
        shared = min(memory, channels * memory / threads * CORES_PER_CHANNEL / 2)
    if plan["k_parts"] > 1:
        times = [max(m * n * k / rate, (m * k + n * k) / shared) / plan["k_parts"]]
    else:
        times = [thread_time(pieces, plan, shape, rate, shared) for pieces in plan["parts"]]
    return max(times) + waking * math.log2(threads), sum(times) / len(times) / max(times), threads


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


def measure(isa, machine, seconds):
    """Print how much faster products are with more threads, and what the model says."""
    cores = os.cpu_count() or 1
    counts = sorted({*(2**i for i in range(cores.bit_length())), cores})
    print(f"{'speed-up (model)':24}{'us alone':>10}" + "".join(f"{count:>14}" for count in counts[1:]))
    for name, shapes in CLASSES.items():
        logarithms = np.zeros((len(counts), 2))
        for shape in shapes:
            times = measured(shape, counts, seconds)
            alone = model(shape, 1, isa, machine)[0]
            pairs = [(times[1] / times[count], alone / model(shape, count, isa, machine)[0]) for count in counts]
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
        machine = calibrated()
    print(f"a core: {machine[0] / 1e9:.0f} G multiply-adds/s, {machine[1] / 1e9:.1f} GB/s")
    if options.measure:
        with int8blas.use_isa(options.isa):
            measure(options.isa, machine, options.seconds)
        return
    print(f"{'speed-up by cores':24}" + "".join(f"{count:8}" for count in cores))
    uneven = []
    for name, shapes in CLASSES.items():
        logarithms = np.zeros(len(cores))
        for shape in shapes:
            alone = model(shape, 1, options.isa, machine)[0]
            for i, count in enumerate(cores):
                seconds, busy, threads = model(shape, count, options.isa, machine)
                logarithms[i] += math.log(alone / seconds)
                if busy < IDLE:
                    uneven.append((busy, shape, count, threads))
        print(f"{name:24}" + "".join(f"{one:8.1f}" for one in np.exp(logarithms / len(shapes))))
    print(f"threads that work less than {IDLE:.0%} of the time:", len(uneven) or "none")
    for busy, shape, count, threads in sorted(uneven)[:20]:
        print(f"  {shape} on {count} cores: {threads} threads, {busy:.0%}")


if __name__ == "__main__":
    main()
