"""When the system refuses new threads, a call uses the threads that it can get, and the process continues."""

import contextlib
import functools
import os
import sys
from pathlib import Path

import pytest
from processes import SANITIZED, run_python

from int8blas.core import threads

resource = pytest.importorskip("resource")
OPENMP = threads.threading_info()["openmp"]
needs_openmp = pytest.mark.skipif(not OPENMP, reason="needs OpenMP")
# Only Linux limits the address space of a process and the threads of a user in this way.
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

TOO_MUCH = """
import mmap, resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
mmap.mmap(-1, 1 << 33)
"""

LIMITED = """
import mmap, os, resource, sys, threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import int8blas
kind, most, group = sys.argv[1], int(sys.argv[2]), sys.argv[3]
user = 20000 + os.getpid() % 40000  # a user who normally has no other threads
a, b = np.full((1024, 512), 3, np.uint8), np.full((512, 1024), -5, np.int8)
packed = int8blas.pack_b(b)
image = np.ones((8, 64, 64, 32), np.uint8)
out = np.empty((1024, 1024), np.int32)
weights = np.ones((32, 32, 3, 3), np.int8)
convolution = int8blas.Convolution(weights, src_dtype=np.uint8, dst_dtype=np.int32)
recurrent = int8blas.LSTM(*np.ones((2, 256, 4, 256), np.int8), weights_scale=1)

def limit():
    if kind == "address space":
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (most << 20),) * 2)
    elif kind == "cgroup":
        for name, value in ("pids.max", most), ("cgroup.procs", os.getpid()):
            with open(os.path.join(group, name), "w") as file:
                file.write(str(value))
    else:
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        if os.geteuid() == 0:
            os.setresuid(user, user, user)

def layers():
    assert (convolution(image) == 32 * 9).all()
    assert (int8blas.max_pool(image, 2) == 1).all()
    assert (int8blas.gather(image.reshape(-1, 32), np.zeros(50000, int)) == 1).all()
    assert (int8blas.im2col(image, (3, 3)) == 1).all()
    assert (int8blas.softmax(image) > 0).all()
    assert (int8blas.quantize(np.ones((1000, 1000), np.float32), 1) == 1).all()
    assert recurrent(np.ones((20, 16, 256), np.uint8))[0].shape == (20, 16, 256)
    assert int8blas.pack_b(b) == packed
"""

PRODUCT = """
limit()
int8blas.num_threads(64)
try:
    int8blas.matmul(a, b, out=out)
    print((out == -15 * 512).all(), int8blas.num_threads())
finally:
    sys.stdout.flush()
"""

LAYERS = """
limit()
int8blas.num_threads(64)
layers()
print(int8blas.num_threads())
"""

CALLERS = """
meet = threading.Barrier(4)

def call(_):
    int8blas.num_threads(8)
    meet.wait()
    right = all((int8blas.matmul(a, b) == -15 * 512).all() for _ in range(10))
    threads = int8blas.num_threads()
    meet.wait()
    return right, threads

with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda _: meet.wait(), range(4)))
    limit()
    results = list(pool.map(call, range(4)))
print(all(right for right, _ in results), sum(threads - 1 for _, threads in results))
"""

AGAIN = """
soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))
if os.geteuid() == 0:
    os.setresuid(user, user, user)
int8blas.num_threads(16)
int8blas.matmul(a, b, out=out)
few = int8blas.num_threads()
resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
int8blas.matmul(a, b, out=out)
still = int8blas.num_threads()
int8blas.num_threads(16)
int8blas.matmul(a, b, out=out)
print(few <= most, still == few, int8blas.num_threads())
"""

# Parallel regions of few and of many threads alternate, with less memory than when the threads were first created.
IN_TURN = """
few, steps = np.ones((200, 1000), np.float32), np.ones((20, 16, 256), np.uint8)
states, gram = recurrent(steps)[0], int8blas.syrk_u8s32(1, a[:200], trans=True)

def numbers_of_threads():
    return set(os.listdir("/proc/self/task"))

limit()
int8blas.num_threads(64)
int8blas.matmul(a, b, out=out)
before = numbers_of_threads()
if kind == "address space":
    taken = mmap.mmap(-1, 8 << 20)
for _ in range(5):
    assert (int8blas.quantize(few, 1) == 1).all()
    assert (recurrent(steps)[0] == states).all()
    assert (int8blas.syrk_u8s32(1, a[:200], trans=True) == gram).all()
    int8blas.matmul(a, b, out=out)
print((out == -15 * 512).all(), int8blas.num_threads(), numbers_of_threads() == before)
"""

# The threads of one caller have ended, and another caller uses their memory.
SHRUNK = """
few = np.ones((200, 1000), np.float32)

def call(threads):
    if threads:
        int8blas.num_threads(threads)
    int8blas.matmul(a, b, out=out)
    return (out == -15 * 512).all(), int8blas.num_threads()

with ThreadPoolExecutor(1) as pool:
    assert pool.submit(call, 8).result() == (True, 8)
    pool.submit(int8blas.quantize, few, 1).result()
    limit()
    right, first = call(64)
    again, second = pool.submit(call, 0).result()
print(right and again, first, second)
"""


@functools.cache
def address_space_is_limited():
    """Whether the system enforces such a limit; QEMU does not."""
    return run_python("-c", TOO_MUCH).returncode != 0


@contextlib.contextmanager
def new_cgroup():
    """The folder of a new cgroup that limits processes and threads; few users may create one."""
    root = Path("/sys/fs/cgroup")
    folder = (root / "pids" if (root / "pids").exists() else root) / f"int8blas-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    try:
        if not (folder / "pids.max").exists():
            pytest.skip("the cgroup does not count threads")
        yield folder
    finally:
        folder.rmdir()


def run_limited(code, kind, most, **environment):
    """The output of a process under a limit of the address space, of the user's threads, or of the cgroup's threads."""
    if kind == "address space" and (SANITIZED or not address_space_is_limited()):
        pytest.skip("the system does not limit the address space, or a sanitizer takes it up")
    # Before the limit, one thread does everything.
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | environment
    with new_cgroup() if kind == "cgroup" else contextlib.nullcontext() as group:
        process = run_python("-c", LIMITED + code, kind, str(most), str(group), **environment)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout.split()


@needs_openmp
@needs_linux
@pytest.mark.parametrize("megabytes", [20, 60, 120])
def test_a_limit_of_the_address_space(megabytes):
    right, threads = run_limited(PRODUCT, "address space", megabytes)
    assert right == "True"
    assert 1 <= int(threads) <= 1 + megabytes // 2


@needs_openmp
@needs_linux
@pytest.mark.parametrize("most", [1, 3, 9])
def test_a_limit_of_the_users_threads(most):
    right, threads = run_limited(PRODUCT, "threads", most)
    assert right == "True"
    assert 1 <= int(threads) <= most


@needs_openmp
@needs_linux
@pytest.mark.parametrize(("kind", "most"), [("threads", 4), ("address space", 200)])
def test_every_primitive_keeps_to_a_limit(kind, most):
    (threads,) = run_limited(LAYERS, kind, most)
    assert 1 <= int(threads) < 64


@needs_openmp
@needs_linux
@pytest.mark.parametrize(("kind", "most"), [("threads", 7), ("cgroup", 7), ("address space", 100)])
def test_regions_that_shrink_and_grow_keep_their_threads_at_a_limit(kind, most):
    right, used, same_threads = run_limited(IN_TURN, kind, most)
    assert right == "True"
    assert 2 < int(used) < 64
    assert same_threads == "True"


@needs_openmp
@needs_linux
@pytest.mark.parametrize("kind", ["threads", "cgroup"])
def test_a_team_that_shrank_before_another_took_the_room_uses_what_is_left(kind):
    right, first, second = run_limited(SHRUNK, kind, 12)
    assert right == "True"
    assert 2 < int(first) < 12
    assert int(second) < 8


@needs_openmp
@needs_linux
def test_callers_at_the_same_time_keep_to_a_limit_together():
    right, others = run_limited(CALLERS, "threads", 12)
    assert right == "True"
    assert int(others) <= 12 - 5


@needs_openmp
@needs_linux
def test_a_later_setting_tries_again():
    assert run_limited(AGAIN, "threads", 3) == ["True", "True", "16"]


def test_the_trial_is_switched_off_and_on():
    for text in ("0", "1", ""):
        process = run_python("-c", LIMITED + LAYERS.replace("limit()", ""), "none", "0", "", INT8BLAS_TRY_THREADS=text)
        assert (process.returncode, process.stderr) == (0, "")
    for text in ("2", "no", "-1"):
        process = run_python("-c", "import int8blas", INT8BLAS_TRY_THREADS=text)
        assert process.returncode == 1
        assert f"ValueError: INT8BLAS_TRY_THREADS must be 0 or 1, got '{text}'" in process.stderr


def cgroups(folder, listed, files):
    """Create a file like /proc/self/cgroup, and a folder like /sys/fs/cgroup with these {path: contents}."""
    (folder / "list").write_text(listed)
    for path, text in files.items():
        file = folder / "root" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return threads.cgroup_room(folder / "list", folder / "root")


@pytest.mark.skipif(sys.platform == "win32" or not OPENMP, reason="needs OpenMP, and cgroups' form of paths")
@pytest.mark.parametrize(
    ("listed", "files", "room"),
    [
        ("0::/\n", {"pids.max": "20\n", "pids.current": "7\n"}, 13),
        ("0::/\n", {"pids.max": "max\n", "pids.current": "7\n"}, None),
        ("0::/\n", {"pids.max": "5\n", "pids.current": "7\n"}, 0),
        ("0::/\n", {"pids.max": "5\n"}, None),
        ("0::/\n", {"pids.max": "many\n", "pids.current": "1\n"}, None),
        ("0::/\n", {"pids.max": "", "pids.current": "1\n"}, None),
        ("0::/\n", {"pids.max": "4611686018427387904\n", "pids.current": "7\n"}, None),
        ("0::/a/b\n", {"a/b/pids.max": "9\n", "a/b/pids.current": "2\n"}, 7),
        # The smallest limit among the group and all groups above it.
        (
            "0::/a/b\n",
            {"a/b/pids.max": "9\n", "a/b/pids.current": "2\n", "a/pids.max": "8", "a/pids.current": "4"},
            4,
        ),
        ("0::/a/b\n", {"a/b/pids.max": "max\n", "pids.max": "30\n", "pids.current": "10\n"}, 20),
        # Limits of other groups do not count.
        ("0::/a/b\n", {"a/b/c/pids.max": "9\n", "a/b/c/pids.current": "2\n", "x/pids.max": "1\n"}, None),
        ("8:pids:/docker/1\n", {"pids/docker/1/pids.max": "9\n", "pids/docker/1/pids.current": "2\n"}, 7),
        # A container that sees its own group as the root.
        ("8:pids:/docker/1\n", {"pids/pids.max": "9\n", "pids/pids.current": "2\n"}, 7),
        ("4:cpu,pids:/d\n3:memory:/d\n", {"pids/d/pids.max": "9\n", "pids/d/pids.current": "2\n"}, 7),
        ("4:cpu,cpuacct:/d\n", {"pids/d/pids.max": "9\n", "pids/d/pids.current": "2\n"}, None),
        # Both versions of cgroups at once.
        (
            "8:pids:/d\n0::/e\n",
            {
                "pids/d/pids.max": "9\n",
                "pids/d/pids.current": "2\n",
                "e/pids.max": "6\n",
                "e/pids.current": "1",
            },
            5,
        ),
        ("", {}, None),
        ("nonsense\n::\n0:\n", {"pids.max": "9\n"}, None),
    ],
)
def test_what_cgroups_allow(tmp_path, listed, files, room):
    assert cgroups(tmp_path, listed, files) == room


def test_no_cgroups(tmp_path):
    assert threads.cgroup_room(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 0), ("8", 8 << 10), ("8k", 8 << 10), ("4M", 4 << 20), (" 2 g ", 2 << 30), ("4096B", 4096), ("-1", 0),
        ("1.5M", 0), ("1T", 0), ("many", 0), ("9" * 30, 0),
    ],
)  # fmt: skip
def test_sizes_of_stacks(text, size):
    assert threads.stack_bytes(text) == size


@needs_openmp
@needs_linux
def test_threads_are_tried_with_the_stacks_that_they_will_have():
    # 60 threads with small stacks fit where a few with the default ones do.
    _, few = run_limited(PRODUCT, "address space", 120)
    _, many = run_limited(PRODUCT, "address space", 120, OMP_STACKSIZE="256k")
    assert int(few) < int(many) == 64
