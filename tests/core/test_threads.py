"""The result does not depend on the number of threads, on concurrent callers, or on a fork."""

import os
import select
import signal
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
import reference
from arrays import B_FORMS, SIGN_PAIRS, assert_same, random_c
from others import assert_other_threads_run_during
from processes import TIMEOUT_S, assert_a_forked_child_sends, forks_on_purpose, needs_fork, run_python
from shapes import BLOCKED, SMALL_GRID

import int8blas
from int8blas.core.machine import machine
from int8blas.core.threads import seconds_alone, threading_info

THREADED = (256, 256, 256)


@pytest.mark.parametrize("form", B_FORMS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_number_of_threads_gives_the_same_bits(isa, form, order, rng):
    for m, n, k in (*BLOCKED, THREADED):
        a, b = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-128, 128, (k, n), np.int8)
        c = random_c(rng, (m, n))
        expected = reference.gemm(0.5, a, b, 0.25, c, ao=7, bo=-3)
        for threads in (1, 2, 3, 4):
            with int8blas.num_threads(threads):
                out = c.copy(order=order)
                int8blas.gemm_u8s8s32(0.5, a, B_FORMS[form](b), 0.25, out, overwrite_c=True, ao=7, bo=-3)
            assert_same(out, expected, threads=threads, m=m, n=n, k=k)


def test_threads_of_a_batch_give_the_same_bits(isa, pair, rng):
    a, b = pair.operands(rng, 5 * 70, 64, 130)
    a = a.reshape(5, 70, 130)
    for threads in (1, 2, 3, 4):
        with int8blas.num_threads(threads):
            assert_same(int8blas.matmul(a, b), reference.matmul(a, b), threads=threads)


FEWER = """
import numpy as np, int8blas
a, b = np.arange(200 * 300, dtype=np.uint8).reshape(200, 300), np.arange(300 * 160, dtype=np.int8).reshape(300, 160)
image = np.arange(4 * 40 * 40 * 16, dtype=np.uint8).reshape(4, 40, 40, 16)
weights = np.arange(-72, 72, dtype=np.int8).repeat(16).reshape(16, 16, 3, 3)
layers = [int8blas.Convolution(weights, src_dtype=np.uint8, dst_dtype=np.int32),
          int8blas.LSTM(*np.ones((2, 256, 4, 64), np.int8)[:, :64], weights_scale=1)]

def results(threads):
    with int8blas.num_threads(threads):
        yield int8blas.gemm_u8s8s32(1, a, b)
        yield int8blas.matmul(a, int8blas.pack_b(b))
        yield layers[0](image)
        yield layers[1](np.ones((3, 64, 64), np.uint8))[0]
        yield int8blas.softmax(image.astype(np.float32))

print(all((one == many).all() for one, many in zip(results(1), results(8))))
"""


@pytest.mark.parametrize("fewer", [{"OMP_THREAD_LIMIT": "3"}, {"OMP_DYNAMIC": "true"}], ids=["limit", "dynamic"])
def test_a_runtime_that_gives_fewer_threads_than_were_asked_for(fewer):
    done = run_python("-c", FEWER, **fewer)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_more_threads_than_work(isa, pair, rng):
    with int8blas.num_threads(64):
        for m, n, k in SMALL_GRID:
            a, b = pair.operands(rng, m, n, k)
            assert_same(pair.gemm(1, a, b), reference.gemm(1, a, b), m=m, n=n, k=k)


# --- worker threads that start late ----------------------------------------------------------------------------------


def test_late_threads_are_not_waited_for_again_at_once():
    """The test runs in a new thread, so that its setting ends with the thread."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(late_waits).result() == "as wanted"


def late_waits():
    start = 1e6
    assert seconds_alone(0, 0, start) == 0
    assert seconds_alone(0.0009, 0, start) == 0, "too short to be a time slice"
    assert seconds_alone(0.1, 0.2, start) == 0, "the others did more than that"
    assert seconds_alone(0.01, 0.005, start) == pytest.approx(0.02)
    again = [seconds_alone(0.002, 0, start + 0.03 + step / 1000) for step in range(10)]
    assert again == pytest.approx([0.04, 0.08, 0.16, *[0.2] * 7])
    assert seconds_alone(0, 0, start + 0.139) == pytest.approx(0.1)
    assert seconds_alone(0.002, 0, start + 1) == pytest.approx(0.004), "not at once"
    return "as wanted"


BUSY = """
import os, subprocess, sys, time
import numpy as np
import int8blas
from int8blas.core.threads import seconds_alone
a, b = np.ones((256, 256), np.uint8), np.ones((256, 256), np.int8)
others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
end = time.monotonic() + 300
alone = 0
try:
    while not alone and time.monotonic() < end:
        int8blas.matmul(a, b)
        alone = seconds_alone()
    assert alone > 0
    assert (int8blas.matmul(a, b) == 256).all()
finally:
    for other in others:
        other.kill()
"""


@pytest.mark.skipif(machine()["cores"] < 2 or not threading_info()["openmp"], reason="needs two CPUs and OpenMP")
def test_a_process_whose_cpus_others_take_uses_one_thread():
    done = run_python("-c", BUSY, INT8BLAS_OVERSUBSCRIBE="0", INT8BLAS_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr


# --- concurrent callers ----------------------------------------------------------------------------------------------


def test_concurrent_callers_with_different_problems_isas_and_threads(rng):
    shapes = [(1 + 13 * i % 70, 1 + 29 * i % 140, 1 + 41 * i % 300) for i in range(40)]
    settings = product(int8blas.available_isas(), (1, 2, 3))
    problems = [
        (*setting, *SIGN_PAIRS[i % 4].operands(rng, *shape)) for setting in settings for i, shape in enumerate(shapes)
    ]

    def solve(problem):
        name, threads, a, b = problem
        with int8blas.use_isa(name), int8blas.num_threads(threads):
            return int8blas.matmul(a, b), int8blas.explain(a, b).isa

    with ThreadPoolExecutor(8) as pool:
        for (name, threads, a, b), (result, used) in zip(problems, pool.map(solve, problems), strict=True):
            assert used == name
            assert_same(result, reference.matmul(a, b), isa=name, threads=threads, a=a.shape, b=b.shape)


def test_concurrent_callers_share_operands_and_write_their_own_rows(isa, rng):
    m, n, k = 64, 100, 257
    a, b = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-128, 128, (k, n), np.int8)
    out = np.empty((m, n), np.int32)

    def multiply(row):
        with int8blas.use_isa(isa):
            int8blas.matmul(a[row : row + 1], b, out=out[row : row + 1])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(multiply, range(m)))
    assert_same(out, reference.matmul(a, b))


def test_other_python_threads_run_during_a_call(isa, rng):
    a, b = rng.integers(0, 256, (128, 128), np.uint8), rng.integers(-128, 128, (128, 128), np.int8)
    out = np.empty((128, 128), np.int32)
    assert_other_threads_run_during(lambda: int8blas.matmul(a, b, out=out))
    assert_same(out, reference.matmul(a, b))


# --- fork ------------------------------------------------------------------------------------------------------------


def threaded_product():
    """A product large enough for several threads, on four of them."""
    m, n, k = THREADED
    a = (np.arange(m * k) * 7 % 256).astype(np.uint8).reshape(m, k)
    b = (np.arange(k * n) * 5 % 256).astype(np.uint8).view(np.int8).reshape(k, n)
    with int8blas.num_threads(4):
        return int8blas.matmul(a, b)


@needs_fork
@forks_on_purpose
def test_a_forked_child_computes_after_threads_ran_in_the_parent(isa):
    expected = threaded_product().tobytes()
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writable, b"same" if threaded_product().tobytes() == expected else b"different")
        os._exit(0)
    os.close(writable)
    try:
        answered, _, _ = select.select([readable], [], [], TIMEOUT_S)
        assert answered, "the child hangs"
        assert os.read(readable, 16) == b"same"
    finally:
        os.close(readable)
        if not answered:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert threaded_product().tobytes() == expected


def send_product(isa, connection):
    """Compute in a child process and send the bytes to the parent."""
    with int8blas.use_isa(isa):
        connection.send_bytes(threaded_product().tobytes())


@needs_fork
@forks_on_purpose
def test_multiprocessing_forks_after_threads_ran_in_the_parent(isa):
    expected = threaded_product().tobytes()
    for _ in range(2):
        assert_a_forked_child_sends(expected, send_product, isa)


@needs_fork
@forks_on_purpose
def test_a_child_forks_again_and_threads_of_a_child_compute(isa):
    expected = threaded_product().tobytes()
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        threaded_product()
        grandchild = os.fork()
        if grandchild:
            os.waitpid(grandchild, 0)
        with ThreadPoolExecutor(2) as pool:
            results = [pool.submit(threaded_product).result().tobytes() for _ in range(2)]
        os.write(writable, b"s" if results == [expected] * 2 else b"d")
        os._exit(0)
    os.close(writable)
    try:
        answers = b""
        while len(answers) < 2 and (answered := select.select([readable], [], [], TIMEOUT_S)[0]):
            answers += os.read(readable, 2)
        assert answered, "a child hangs"
        assert answers == b"ss"
    finally:
        os.close(readable)
        if not answered:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
