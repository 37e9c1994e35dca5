"""Memory that fails: the n-th allocation of a call, for every n, is refused.

A library that is loaded before all others refuses allocations of int8blas. The calls are problems of the fuzzer. Each
must raise MemoryError, leave its `out` unchanged, free all its memory, and give the right result once memory is
available again.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import FAMILIES
from processes import needs_plain_memory, run_python

# A compiler for the system of this Python; the default compiler may be for another one (.ci/aarch64).
COMPILER = shlex.split(os.environ.get("CC", "")) or [name for name in ("cc", "gcc") if shutil.which(name)][:1]
TESTS = Path(__file__).parents[1]
HOSTILE = {"files", "onnx_bytes"}  # their calls belong to other families

pytestmark = pytest.mark.skipif(not (COMPILER and sys.platform == "linux"), reason="needs Linux and a C compiler")

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

void *__libc_malloc(size_t);
void __libc_free(void *);

static long left, seen;
static int counting, lasting, refused;

/* The blocks that int8blas has. It is not told from the place of a call to free(), which may be a jump. */
enum { PLACES = 1 << 14, WINDOW = 64 };
static void *held[PLACES];
static long live;

static int exchanged(void *memory, void *wanted, void *other)
{
    const size_t first = ((size_t)memory >> 4) * 0x9E3779B97F4A7C15u >> 50;
    for (size_t i = 0; i < WINDOW; ++i) {
        void **place = &held[(first + i) % PLACES], *old = wanted;
        if (__atomic_compare_exchange_n(place, &old, other, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return 1;
    }
    return 0;
}

long blocks(void) { return live; }

/* Counts the allocations of all threads from now on. Refuses the allocation of this number, or this one and all later
 * ones. */
void start(long number, int from_it_on)
{
    left = number;
    lasting = from_it_on;
    seen = refused = 0;
    counting = 1;
}

/* How many allocations there were since start(), and whether one was refused. */
long stop(int *was_refused)
{
    counting = 0;
    *was_refused = refused;
    return seen;
}

static int is_ours(void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) && strstr(info.dli_fname, "/int8blas/");
}

void *malloc(size_t size)
{
    if (is_ours(__builtin_return_address(0))) {
        if (counting)
            __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
        const long after = counting ? __atomic_add_fetch(&left, -1, __ATOMIC_SEQ_CST) : 1;
        if (after == 0 || (lasting && after < 0)) {
            refused = 1;
            errno = ENOMEM;
            return NULL;
        }
        void *memory = __libc_malloc(size);
        if (memory && exchanged(memory, NULL, memory))
            __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
        return memory;
    }
    return __libc_malloc(size);
}

void free(void *memory)
{
    if (memory && exchanged(memory, memory, NULL))
        __atomic_add_fetch(&live, -1, __ATOMIC_RELAXED);
    __libc_free(memory);
}
"""

SCRIPT = r"""
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from fuzz import campaign, draws, family
from fuzz.draws import Draws
import int8blas
from int8blas.core.memory import drop_kept

DRAWN, KEPT = 25, 4
library = ctypes.PyDLL(None)
setting = campaign.Setting(seed=1)
fresh, written = draws.Output.fresh, []

def remembered(output):
    memory, array = fresh(output)
    written.append((output, memory))
    return memory, array

draws.Output.fresh = remembered

def attempt(problem, number):
    "The results, None after a MemoryError; how many allocations there were, and whether one was refused."
    written.clear()
    drop_kept()
    was_refused, results = ctypes.c_int(), None
    library.start(number, 0)
    try:
        results = family(name).run(problem)
    except MemoryError:
        pass
    finally:
        count = library.stop(ctypes.byref(was_refused))
    return results, count, bool(was_refused)

def refused(problem, right, number):
    "Refuse one allocation of a call. Return whether it raised MemoryError and left everything unchanged."
    drop_kept()
    before = library.blocks()
    results, _, was_refused = attempt(problem, number)
    if results is not None:  # the call did without, or there was none to refuse
        campaign.same(results, right)
        return False
    assert was_refused, "MemoryError though nothing was refused"
    drop_kept()
    assert library.blocks() == before, "memory is lost"
    for output, memory in written:
        assert (memory == output.memory).all() or is_filled(problem), "out is written"
    return True

def is_filled(problem):
    "Whether out is filled before the call, for a Sum to add to."
    return getattr(problem.get("layer"), "old", None) is not None

def check(isa, threads, problem):
    "Refuse one allocation after the other, in repeated calls. Return how many calls raised MemoryError."
    with int8blas.use_isa(isa), int8blas.num_threads(threads):
        right, count, _ = attempt(problem, 0)
        raised = sum(refused(problem, right, number) for number in range(1, count + 2))
        campaign.same(attempt(problem, 0)[0], right)
    return raised

def allocations(number):
    isa, threads, problem = drawn(number)
    with int8blas.use_isa(isa), int8blas.num_threads(threads):
        return attempt(problem, 0)[1]

def drawn(number):
    return campaign.drawn(setting, name, Draws(setting.pools, setting.seed_of(name, number)))

with campaign.quiet():
    for name in sys.argv[2].split(","):
        module = family(name)
        if name not in ("packing", "quantization", "convolution") and hasattr(module, "WORK"):
            module.WORK = 16
        module.sizes = lambda draws: draws.sizes(3, 18)
        raised = sum(check(*drawn(number)) for number in sorted(range(DRAWN), key=allocations)[-KEPT:])
        print(name, raised, flush=True)
"""


# Products whose threads allocate memory: divided by rows, by columns, with few columns, a small K, a stack; and
# distances of rows in several blocks.
THREADED = r"""
import ctypes
import numpy as np
import int8blas
from int8blas.core.memory import drop_kept

library = ctypes.PyDLL(None)
rng = np.random.default_rng(0)
int8blas.num_threads(4)
for a_shape, b_shape in [
    ((512, 512), (512, 512)), ((128, 768), (768, 768)), ((20000, 256), (256, 4)), ((4000, 8), (8, 64)),
    ((16, 40, 700), (16, 700, 40)), ((14, 384), (1000, 384)),
]:
    a, b = rng.integers(0, 256, a_shape, np.uint8), rng.integers(-128, 128, b_shape, np.int8)
    call = int8blas.sqeuclidean if a_shape[-1] == b_shape[-1] == 384 else int8blas.matmul
    right, numbers, was_refused = call(a, b), 1, ctypes.c_int(1)
    while was_refused:
        out = np.full_like(right, 7)
        drop_kept()
        library.start(numbers, 0)
        try:
            call(a, b, out=out)
        except MemoryError:
            expected = 7
        else:
            expected = right
        library.stop(ctypes.byref(was_refused))
        assert (out == expected).all(), (a_shape, b_shape, numbers)
        numbers += 1
    print(numbers - 2)
"""


# Calls that allocate memory in several places, or in threads: each participant must report a failure. A layer allocates
# for all its phases before any of them writes.
PLACES = r"""
import ctypes, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/package"]
import numpy as np
import int8blas
from int8blas._bench import loops
from int8blas.core.memory import drop_kept
from int8blas.layers.real_attention import real_attention
from int8blas.layers.real_product import RealProduct, real_matmul
from test_cython_blas import NO_MEMORY, find

library = ctypes.PyDLL(None)
rng = np.random.default_rng(0)
int8blas.num_threads(4)

def u8(*shape):
    return rng.integers(0, 256, shape, np.uint8)

def s8(*shape):
    return rng.integers(-128, 128, shape, np.int8)

def f32(*shape):
    return rng.normal(0, 1, shape).astype(np.float32)

def from_c(*arguments):
    status, *found = find(*arguments)
    if status == NO_MEMORY:
        raise MemoryError
    assert status == 0
    return found

types = {"src_dtype": np.uint8, "dst_dtype": np.int32}
x, y, long_a, long_b = u8(3000, 64), s8(500, 64), u8(40, 70_000), s8(70_000, 40)
tall_a, tall_b, vector = np.asfortranarray(u8(2, 1_000_000)), s8(1_000_000, 2), u8(2_000_000)
line, image, rows = u8(1, 400, 64), u8(2, 12, 12, 8), f32(200, 64)
transposed = int8blas.Deconvolution(s8(3, 64, 3), strides=2, **types)
spread = int8blas.Deconvolution(s8(40, 64, 1), strides=3, **types)
zeros = int8blas.Convolution(rng.choice(np.uint8([0, 255]), (8, 8, 3, 3)), zero_points={"weights": 1}, **types)
lstm = int8blas.DynamicLSTM(f32(64, 4, 40), f32(40, 4, 40))
steps, weights = f32(30, 5, 64), RealProduct(s8(64, 500), 0.5)
q, k, v = f32(6, 40, 32), f32(6, 32, 60), f32(6, 60, 32)
packed = int8blas.pack_b(y, trans_b=True)
s16, packed_16 = rng.integers(-9999, 9999, (70, 64), np.int16), int8blas.pack_b(np.int16(y.T) * np.int16(99))
full = rng.integers(-32768, 32768, (1100, 512)).astype(np.int16)  # more rows than a product of bytes takes at once
wide_types = {"src_dtype": np.int16, "dst_dtype": np.int32}
wide_layer = int8blas.InnerProduct(s8(500, 64), **wide_types)
wide_images = int8blas.Convolution(s8(9, 4, 3, 3), **wide_types)
calls = {
    "packed 16 bits": lambda **out: int8blas.matmul(s16, packed_16, **out),
    "digits": lambda **out: int8blas.matmul(full, full[:512], dtype=np.int64, **out),
    "limbs": lambda **out: int8blas.matmul(s16, packed, **out),
    "one triangle of 16 bits": lambda: int8blas.syrk_s16s64(1, s16),
    "source of 16 bits": lambda **out: wide_layer(s16, **out),
    "images of 16 bits": lambda **out: wide_images(s16.reshape(1, 28, 40, 4), **out),
    "distances": lambda **out: int8blas.sqeuclidean(x, y, **out),
    "segments of k": lambda **out: int8blas.matmul(long_a, long_b, dtype=np.int64, **out),
    "copies of operands": lambda **out: int8blas.matmul(x[:, ::2], y.T[::2, ::-1], **out),
    "long k": lambda **out: int8blas.matmul(tall_a, tall_b, dtype=np.int64, **out),
    "vectors": lambda: int8blas.matmul(vector, vector, dtype=np.int64),
    "deconvolution": lambda **out: transposed(line, **out),
    "outputs without taps": lambda **out: spread(line, **out),
    "zero points of weights": lambda **out: zeros(image, **out),
    "dynamic lstm": lambda: lstm(steps),
    "product with packed weights": lambda: weights(rows),
    "product": lambda: real_matmul(rows, rows.T),
    "attention": lambda: real_attention(q, k, v),
    "nearest": lambda: int8blas.nearest(x, y, 5),
    "nearest of long vectors": lambda: int8blas.nearest(long_a[:, :3000], long_b[:3000].T, 5),
    "nearest in c": lambda: from_c(x, y, packed.address, 5),
    "multiply-adds": lambda: np.int64(loops.multiply_add(3, 4)),
}

def arrays_of(result):
    return result if isinstance(result, (tuple, list)) else [result]

def raises(call, right, number, lasting):
    "Whether a call without an allocation, or without those from it on, raised MemoryError; None if it had them all."
    was_refused = ctypes.c_int()
    out = {"out": np.full_like(right[0], 7)} if call.__code__.co_flags & 8 else {}
    drop_kept()
    before, found = library.blocks(), None
    library.start(number, lasting)
    try:
        found = arrays_of(call(**out))
    except MemoryError:
        pass
    finally:
        library.stop(ctypes.byref(was_refused))
    if found is not None:
        assert all(np.array_equal(one, other) for one, other in zip(found, right, strict=True)), number
    elif out and not lasting:
        assert (out["out"] == 7).all(), number
    raised, found = found is None, None
    drop_kept()
    assert library.blocks() == before, "memory is lost"
    return raised if was_refused.value else None

for name, call in calls.items():
    right = arrays_of(call())
    for lasting in (0, 1):
        number, count = 1, 0
        while (raised := raises(call, right, number, lasting)) is not None:
            number, count = number + 1, count + raised
        print(f"{name}: {number - 1} {count}", flush=True)
"""


# Calls that need blocks of several sizes: a repeated call reuses the blocks of the previous call.
REPEATED = r"""
import ctypes
import numpy as np
import int8blas

library = ctypes.PyDLL(None)
rng = np.random.default_rng(0)
int8blas.num_threads(1)

def random(*shape):
    return rng.integers(-128, 128, shape, np.int8)

lstm = int8blas.LSTM(*random(2, 1, 2, 512, 4, 512), weights_scale=1, direction="bidirectional_concat")
sources = random(50, 1, 512).astype(np.uint8)
steps = int8blas.Deconvolution(random(16, 8, 3, 3), strides=2, src_dtype=np.uint8, dst_dtype=np.int32)
groups = int8blas.Convolution(random(80, 40, 3, 3), groups=2, src_dtype=np.uint8, dst_dtype=np.int32)
image, wide = random(1, 12, 12, 8).astype(np.uint8), random(1, 12, 12, 80).astype(np.uint8)
a, b, packed = random(40, 300).astype(np.uint8), random(300, 40), int8blas.pack_b(random(512, 96))
for call in (
    lambda: lstm(sources), lambda: steps(image), lambda: groups(wide), lambda: int8blas.matmul(a, b),
    lambda: int8blas.matmul(np.stack([a, a]), np.stack([b, b])), lambda: int8blas.matmul(random(40, 512), packed),
):
    call()
    call()
    library.start(0, 0)
    call()
    print(library.stop(ctypes.byref(ctypes.c_int())), end=" ")
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """The path of the library."""
    folder = tmp_path_factory.mktemp("failing")
    source, path = folder / "failing.c", folder / "failing.so"
    source.write_text(LIBRARY)
    subprocess.run([*COMPILER, "-shared", "-fPIC", "-O1", "-o", path, source], check=True)
    return str(path)


@needs_plain_memory
def test_every_allocation_of_int8blas(failing):
    names = [name for name in FAMILIES if name not in HOSTILE]
    process = run_python("-c", SCRIPT, str(TESTS), ",".join(names), LD_PRELOAD=failing)
    assert process.returncode == 0, process.stdout + process.stderr
    raised = {name: int(count) for name, count in map(str.split, process.stdout.splitlines())}
    assert list(raised) == names
    assert {"gemm", "matmul", "syrk", "convolution", "recurrent"} <= {name for name in raised if raised[name]}


@needs_plain_memory
def test_every_allocation_of_threads(failing, isa):
    process = run_python("-c", THREADED, LD_PRELOAD=failing, INT8BLAS_ISA=isa)
    assert process.returncode == 0, process.stdout + process.stderr
    refused = list(map(int, process.stdout.split()))
    assert len(refused) == 6
    assert min(refused[:-1]) > 0  # these distances need no memory where the kernels for rows are not wide


@needs_plain_memory
def test_every_place_that_needs_memory(failing):
    process = run_python("-c", PLACES, str(TESTS), LD_PRELOAD=failing)
    assert process.returncode == 0, process.stdout + process.stderr
    facts = [line.split(": ") for line in process.stdout.splitlines()]
    assert len(facts) == 2 * 22
    for (name, once), (same, lasting) in zip(facts[::2], facts[1::2], strict=True):
        assert name == same
        # A thread without memory leaves its part to a thread that has memory, if there is such a thread.
        for counts, least in ((once, 0), (lasting, 1)):
            allocations, raised = map(int, counts.split())
            assert allocations > 0, name
            assert raised >= least, name


@needs_plain_memory
def test_calls_that_are_repeated_have_the_memory_of_before(failing):
    process = run_python("-c", REPEATED, LD_PRELOAD=failing)
    assert (process.returncode, process.stdout.split()) == (0, ["0"] * 6), process.stdout + process.stderr
