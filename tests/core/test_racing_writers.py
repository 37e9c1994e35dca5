"""Another thread, or another process through a mapped file, writes to memory that a call reads: the result comes from
the old or the new bytes, or is an error, and nothing outside the arrays is read or written."""

from collections.abc import Mapping

import numpy as np
from processes import run_python

import int8blas

# An access outside an array only ends the process if it hits unmapped memory, so each race is repeated many times.
GATHER = """
import sys, threading
import numpy as np
import int8blas
table = np.arange(64000, dtype=np.int64).astype(np.int8).reshape(1000, 64)
indices = np.ones(100000, np.int64)
going = True
def write():
    while going:
        indices[:] = 2**40
        indices[:] = 1
writer = threading.Thread(target=write, daemon=True)
writer.start()
calls = wrong = refused = 0
row = table[1].astype(np.float32)
with int8blas.use_isa(sys.argv[1]):
    # On a busy machine it may take many calls until they have read both values of the writer.
    while calls < 200 or (refused in (0, calls) and calls < 20000):
        calls += 1
        try:
            wrong += not (int8blas.gather(table, indices, 1.0) == row).all()
        except ValueError:
            refused += 1
going = False
writer.join()
print(wrong)
"""

LENGTHS = """
import sys, threading
import numpy as np
import int8blas
layer = int8blas.GRU(np.ones((2, 8, 3, 16), np.int8), np.ones((2, 16, 3, 16), np.int8), weights_scale=100,
                     direction="bidirectional_concat")
src = np.full((10, 64, 8), 200, np.uint8)
lengths = np.full(64, 7)
going = True
def write():
    while going:
        lengths[:] = 2**40
        lengths[:] = 7
writer = threading.Thread(target=write, daemon=True)
writer.start()
wrong = refused = 0
with int8blas.use_isa(sys.argv[1]):
    expected = layer(src, lengths=7)[0]
    for _ in range(40):
        try:
            wrong += not (layer(src, lengths=lengths)[0] == expected).all()
        except ValueError:
            refused += 1
going = False
writer.join()
print(wrong)
"""

OUTLIERS = """
import mmap, pickle, sys, tempfile, threading
import numpy as np
import int8blas
few, many = np.zeros((2, 4096, 512), np.int8)
few[::400, ::16] = 127
many[:] = 127
states = [np.frombuffer(int8blas.pack_b(b).data.tobytes(), np.int8) for b in (few, many)]
buffers = []
pickled = pickle.dumps(int8blas.pack_b(few), protocol=5, buffer_callback=buffers.append)
going = True
def write(target):
    while going:
        for state in states:
            target[:] = state
with tempfile.TemporaryFile() as file, int8blas.use_isa(sys.argv[1]), int8blas.num_threads(2):
    file.write(states[0].data)
    file.flush()
    shared = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    target = np.frombuffer(mmap.mmap(file.fileno(), 0), np.int8)
    writer = threading.Thread(target=write, args=(target,), daemon=True)
    writer.start()
    a = np.ones((64, 4096), np.uint8)
    for _ in range(25):
        packed = pickle.loads(pickled, buffers=[pickle.PickleBuffer(shared)])
        assert np.shares_memory(packed.data, np.frombuffer(shared, np.int8))
        int8blas.matmul(a, packed)
    going = False
    writer.join()
    target[:] = states[0]
    packed = pickle.loads(pickled, buffers=[pickle.PickleBuffer(shared)])
    print((int8blas.matmul(a, packed) == a.astype(np.int32) @ few.astype(np.int32)).all())
    del packed, target, shared
"""


def test_gather_of_indices_that_another_thread_writes(isa):
    process = run_python("-c", GATHER, isa)
    assert (process.returncode, process.stdout, process.stderr) == (0, "0\n", "")


def test_lengths_that_another_thread_writes(isa):
    process = run_python("-c", LENGTHS, isa)
    assert (process.returncode, process.stdout, process.stderr) == (0, "0\n", "")


def test_outliers_of_a_mapped_matrix_that_is_rewritten(isa):
    process = run_python("-c", OUTLIERS, isa)
    assert (process.returncode, process.stdout, process.stderr) == (0, "True\n", "")


class Shifty(Mapping):
    """A mapping that has a different key each time it is read, as if another thread changed it."""

    def __init__(self):
        self.looks = 0

    def __iter__(self):
        self.looks += 1
        return iter(("src",) if self.looks == 1 else ("other",))

    def __len__(self):
        return 1

    def __getitem__(self, name):
        return 1.0


def test_a_mapping_is_read_once():
    scales = Shifty()
    int8blas.InnerProduct(np.eye(2, dtype=np.int8), src_dtype=np.uint8, dst_dtype=np.float32, scales=scales)
    assert scales.looks == 1
