"""RunContext: NumPy ignores floating-point errors, large arrays reuse memory of earlier ones, and a handler that the
program has set remains."""

import threading

import numpy as np
from numpy._core.multiarray import get_handler_name
from processes import needs_plain_memory

from int8blas.core.results import RunContext

SIZE = 3 << 20


def address(array):
    return array.__array_interface__["data"][0]


@needs_plain_memory
def test_memory_is_used_again():
    with RunContext():
        first = np.ones(SIZE, np.uint8)
        place = address(first)
        del first
        second = np.full(SIZE - 100, 7, np.uint8)
        assert address(second) == place
        third = np.zeros(SIZE, np.uint8)  # while the second array has the memory
        assert address(third) != place
        assert not third.any()
        assert (second == 7).all()


def test_results_live_on():
    with RunContext():
        x = np.arange(SIZE)
    assert get_handler_name() == "default_allocator"
    with RunContext():
        others = [np.zeros(SIZE, np.int64) for _ in range(3)]
    np.testing.assert_array_equal(x, np.arange(SIZE))
    assert not any(other.any() for other in others)


def test_arrays_can_be_resized():
    with RunContext():
        x = np.arange(100)
        x.resize(SIZE, refcheck=False)
        y = np.arange(SIZE)
        y.resize(10, refcheck=False)
    assert x[:100].tolist() == list(range(100))
    assert not x[100:].any()
    assert y.tolist() == list(range(10))


def test_contexts_nest():
    with RunContext():
        with RunContext():
            assert get_handler_name() == "int8blas"
        assert get_handler_name() == "int8blas"
    assert get_handler_name() == "default_allocator"


def test_threads():
    def work(value, wrong):
        for size in range(SIZE, SIZE + 40):
            with RunContext():
                x = np.full(size, value, np.uint8)
                y = np.full(size // 2, value + 1, np.uint8)
                if not ((x == value).all() and (y == value + 1).all()):
                    wrong.append(value)

    wrong = []
    threads = [threading.Thread(target=work, args=(10 * i, wrong)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_errors_are_ignored():
    zero = np.zeros(1)
    with np.errstate(all="raise"):
        with RunContext():
            assert np.isnan((zero / zero)[0])
            assert np.geterr() == dict.fromkeys(("divide", "over", "under", "invalid"), "ignore")
        assert np.geterr()["divide"] == "raise"
