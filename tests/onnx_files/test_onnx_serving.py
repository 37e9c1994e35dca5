"""Several threads run one network at the same time: equal results, a share of the CPUs, forks, ends of threads."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx_models import model_of
from processes import TIMEOUT_S, forks_on_purpose, needs_fork

import int8blas
import int8blas.onnx
from int8blas.core.calls import run_calls
from int8blas.core.machine import machine
from int8blas.core.threads import threading_info

# Convolutions and products of several sizes, some of which keep the GIL, with operators between them.
NETWORK = """
g (uint8[n, 8, h, h] x) => (float[n, 12] y, uint8[n, 8, h, h] z)
    <float s = {0.05}, uint8 u = {3}, int8 o = {0}>
{
    a = QLinearConv<pads = [1, 1, 1, 1]>(x, s, u, w, s, o, s, u)
    b = QLinearConv<pads = [1, 1, 1, 1], group = 8>(a, s, u, d, s, o, s, u)
    z = MaxPool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(b)
    r = DequantizeLinear(b, s, u)
    p = GlobalAveragePool(r)
    f = Flatten(p)
    q, qs, qz = DynamicQuantizeLinear(f)
    sums = MatMulInteger(q, m, qz)
    real = Cast<to = 1>(sums)
    scaled = Mul(real, qs)
    y = Softmax(scaled)
}"""


def network(**options):
    rng = np.random.default_rng(0)
    shapes = {"w": (8, 8, 3, 3), "d": (8, 1, 3, 3), "m": (8, 12)}
    constants = {name: rng.integers(-9, 10, shape, np.int8) for name, shape in shapes.items()}
    return int8blas.onnx.load(model_of(NETWORK, constants=constants), **options)


@pytest.mark.parametrize("threads", [None, 1])
def test_threads_get_the_results_of_one_thread(isa, rng, threads):
    model = network(num_threads=threads)
    feeds = [{"x": rng.integers(0, 256, (1 + i % 2, 8, size, size), np.uint8)} for i, size in enumerate((4, 9, 24, 60))]
    wanted = [model.run(None, feed) for feed in feeds]
    outputs = [{name: np.empty_like(value) for name, value in zip("yz", results, strict=True)} for results in wanted]

    def serve(i):
        with int8blas.use_isa(isa):
            for turn in range(20):
                if turn % 2:
                    results = model.run(None, feeds[i])
                else:
                    model.run_into(outputs[i], feeds[i])
                    results = list(outputs[i].values())
                for result, value in zip(results, wanted[i], strict=True):
                    np.testing.assert_array_equal(result, value)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(serve, range(4)))


def run_together(count, function):
    """Return the results of a function that this many threads call inside a run, all at the same time."""
    together, results = threading.Barrier(count), []

    def inside():
        together.wait(TIMEOUT_S)
        results.append(function())
        together.wait(TIMEOUT_S)
        return np.zeros(1)

    threads = [
        threading.Thread(target=run_calls, args=([(inside, (), (0,), (), None)], [None], None)) for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    return results


def test_runs_share_the_cpus():
    def threads():
        return threading_info()["threads"]

    allowed, cpus = int8blas.num_threads(), machine()["cores"]
    for count in (1, 2, 3, 2 * cpus, 1):
        share = min(allowed, max(1, cpus // count)) if os.environ.get("INT8BLAS_OVERSUBSCRIBE") != "1" else allowed
        assert run_together(count, threads) == [share] * count
    assert threads() == min(allowed, cpus)


def test_a_run_that_fails_ends():
    def fail():
        raise ValueError("on purpose")

    for _ in range(2):
        with pytest.raises(ValueError, match="on purpose"):
            run_calls([(fail, (), (0,), (), None)], [None], lambda error, _: error)
    before = threading_info()["threads"]
    assert run_together(1, lambda: threading_info()["threads"]) == [before]


def test_threads_that_have_ended_leave_their_turns(rng):
    model, feeds = network(num_threads=1), {"x": rng.integers(0, 256, (1, 8, 24, 24), np.uint8)}
    wanted = model.run(None, feeds)

    def serve():
        for result, value in zip(model.run(None, feeds), wanted, strict=True):
            np.testing.assert_array_equal(result, value)
        done.append(True)

    done = []
    for _ in range(10):
        threads = [threading.Thread(target=serve) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
    assert len(done) == 60


@needs_fork
@forks_on_purpose
def test_a_child_forgets_the_runs_of_its_parent():
    def child_share():
        child = os.fork()
        if child == 0:
            # The other run does not exist here: this one has all CPUs, or one thread after a region of the parent.
            os._exit(threading_info()["threads"])
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    alone = run_together(1, child_share)
    assert run_together(2, child_share) == alone * 2
