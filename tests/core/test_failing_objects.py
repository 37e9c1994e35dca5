"""Python's memory that fails: the n-th allocation of an object in a call, for every n, is refused."""

import pytest
from processes import run_python

pytest.importorskip("_testcapi")  # not every build of CPython has it

SCRIPT = r"""
import _testcapi
import numpy as np
import int8blas

x, out = np.arange(12, dtype=np.float32).reshape(3, 4), np.empty((3, 4), np.int8)
sums, bytes_ = x.astype(np.int32), x.astype(np.int8)
gaps = np.empty((3, 400), np.float32)[:, ::100]
scales, zeros = np.array([0.5, 1, 2, 3], np.float32), np.array([1, 2, 3, 4])
calls = {
    "quantize": lambda: int8blas.quantize(x, scales, zeros, axis=1),
    "quantize to out": lambda: int8blas.quantize(x, scales, zeros, axis=1, out=out),
    "dequantize": lambda: int8blas.dequantize(bytes_, scales, zeros * 100_000, axis=1),
    "requantize": lambda: int8blas.requantize(sums, scales, zeros, axis=1),
    "matmul": lambda: int8blas.matmul(bytes_, bytes_.T),
    "pack_b": lambda: int8blas.pack_b(bytes_).unpack(),
    "max_pool": lambda: int8blas.max_pool(bytes_.reshape(1, 3, 4, 1), 2),
    "im2col": lambda: int8blas.im2col(bytes_.reshape(1, 3, 4, 1), (2, 2)),
    "softmax": lambda: int8blas.softmax(x),
    "gather": lambda: int8blas.gather(bytes_, [2, 0]),
    "eltwise to gaps": lambda: int8blas.eltwise(x, int8blas.ReLU(), out=gaps),
    "eltwise": lambda: int8blas.eltwise(x, int8blas.ReLU()),
}

def raises(call, number):
    "Whether a call without one allocation raises MemoryError. A block that is released twice may need repetitions."
    _testcapi.set_nomemory(number, number + 1)
    try:
        call()
    except MemoryError:
        return True
    finally:
        _testcapi.remove_mem_hooks()
    return False

for name, call in calls.items():
    right = call()
    raised = [sum([raises(call, number) for _ in range(100)]) for number in range(1, 30)]
    assert (call() == right).all()
    print(f"{name}: {sum(raised)}", flush=True)
"""


def test_every_object_of_a_call():
    process = run_python("-c", SCRIPT)
    assert (process.returncode, process.stderr) == (0, ""), process.stdout
    assert all(int(line.split(": ")[1]) for line in process.stdout.splitlines())
