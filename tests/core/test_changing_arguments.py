"""The conversion of an argument may run code of the caller, which may change the layout of another argument."""

import os
import sys

from arrays import needs_mprotect
from processes import run_python

# Each call gets arrays at the end of a page before a protected page. An array that is converted, or an `out`, changes
# another array, and the call then raises an error or returns a result. It reads no memory beyond the arrays.
SCRIPT = r"""
import itertools
import sys

import numpy as np
import int8blas
from arrays import between_guards
from calls import CALLS, F32, IMAGE, S8, U8, lstm

half = {"src": 0.5}
S16 = S8.astype(np.int16)
SUMS = np.ones((5, 3), np.int32)
calls = CALLS | {
    "gemm of 16 bits": (
        lambda a, b, c, z: int8blas.gemm_s16s16s32(1, a, b, 1, c, ao=z), S16.T[:, :5], S16[:5], SUMS[:3], np.array(1)),
    "explain": (lambda a, b: int8blas.explain(a, b), U8, S8),
    "global_max_pool": (lambda x, s: int8blas.global_max_pool(x, scales={"src": s}), IMAGE, np.array(0.5)),
    "binary with scales": (lambda x, y, s: int8blas.binary("mul", x, y, scales={"src0": s}), U8, U8, np.array(0.5)),
    "concat with scales": (lambda x, y, s: int8blas.concat([x, y], 0, scales=[1, s]), U8, U8, np.array(0.5)),
    "gather with zero points": (lambda x, i, z: int8blas.gather(x, i, 0.5, z), U8, np.array([4, 0]), np.array(3)),
    "LSTM with states": (lambda x, h, n: lstm()(x, h, lengths=n)[0], np.tile(F32, (3, 1, 1)), F32, np.full(5, 2)),
    "nearest in shards": (lambda q, x, y: int8blas.nearest(q, [x, y], 2), U8, U8, U8[:2]),
}


class Changing:
    "An array whose conversion changes another array."

    def __init__(self, array, change):
        self.array, self.change = array, change

    def __array__(self, dtype=None, copy=None):
        self.change()
        return self.array


def reshape(array, shape):
    array.shape = shape


def retype(array, dtype):
    array.dtype = dtype


CHANGES = {
    "flat": lambda x: reshape(x, -1),
    "deep": lambda x: reshape(x, (1,) * 6 + (-1,)),
    "column": lambda x: reshape(x, (-1, *(1,) * (x.ndim - 1))),
    "row": lambda x: reshape(x, (*(1,) * (x.ndim - 1), -1)),
    "reversed": lambda x: reshape(x, x.shape[::-1]),
    "one record a row": lambda x: retype(x, f"V{x.itemsize * x.shape[-1]}"),
    "records": lambda x: retype(x, f"V{x.itemsize}"),
    "int64": lambda x: retype(x, np.int64),
    "float64": lambda x: retype(x, np.float64),
    "int8": lambda x: retype(x, np.int8),
}

for name, (call, *operands) in calls.items():
    right = np.asarray(call(*operands))
    takes_out = call.__code__.co_flags & 8
    for changed, hook in itertools.permutations(range(len(operands) + bool(takes_out)), 2):
        for change, act in CHANGES.items():
            arrays = [between_guards("end", np.ascontiguousarray(x)) for x in operands]
            out = between_guards("end", np.zeros_like(right)) if takes_out else None
            arrays += [out] * bool(takes_out)
            done = []

            def once():
                if not done:
                    done.append(True)
                    act(arrays[changed])

            given = [Changing(x, once) if i == hook else x for i, x in enumerate(arrays)]
            print(f"{name}: argument {hook} changes argument {changed}, {change}", file=sys.stderr, flush=True)
            try:
                call(*given[:len(operands)], **({"out": given[-1]} if takes_out else {}))
            except (TypeError, ValueError, AttributeError, IndexError) as error:
                assert str(error), "no text"
"""


@needs_mprotect
def test_no_call_reads_beyond_an_argument_that_changes():
    paths = os.pathsep.join(sys.path)
    process = run_python("-W", "ignore", "-c", SCRIPT, PYTHONPATH=paths, INT8BLAS_NUM_THREADS="1")
    assert process.returncode == 0, process.stderr[-2000:]
