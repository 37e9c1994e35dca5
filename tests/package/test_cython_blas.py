"""cython_blas: from a compiled extension, from ctypes and from Numba, with the documented results and errors."""

import ctypes
import itertools
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import reference
import reference_neighbors
from arrays import SIGN_PAIRS, assert_same, random_c, random_values
from processes import run_python
from shapes import BLOCKED, FEW

import int8blas
from int8blas import cython_blas

TESTS = Path(__file__).parents[1]
EXAMPLE = TESTS.parent / "examples" / "cython_extension"
PAGE = TESTS.parent / "docs" / "howto" / "cython.md"
NO_MEMORY = 1

SETUP = """
import sys
from pathlib import Path
import int8blas
from Cython.Build import cythonize
from setuptools import Extension, setup
openmp = ["-fopenmp"] if sys.platform == "linux" else []
extension = Extension("cython_caller", ["cython_caller.pyx"], extra_compile_args=openmp, extra_link_args=openmp)
setup(name="cython_caller", ext_modules=cythonize(extension, include_path=[str(Path(int8blas.__file__).parents[1])]))
"""


def build(folder):
    """Run the setup.py of a folder; Python's warnings are not errors there."""
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.fixture(scope="module")
def caller_folder(tmp_path_factory):
    """The folder in which cython_caller.pyx has been compiled against the installed package."""
    folder = tmp_path_factory.mktemp("cython")
    shutil.copy(TESTS / "cython_caller.pyx", folder)
    (folder / "setup.py").write_text(SETUP)
    build(folder)
    return folder


@pytest.fixture(scope="module")
def caller(caller_folder):
    """The compiled module."""
    sys.path.insert(0, str(caller_folder))
    try:
        import cython_caller
    finally:
        sys.path.remove(str(caller_folder))
    return cython_caller


# --- from Cython -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("threads", [1, 4])
def test_calls_from_a_prange(isa, pair, packed, threads, caller, rng):
    for m, n, k in (*FEW, (70, 130, 1030)):
        operands = [pair.operands(rng, m, n, k) for _ in range(6)]
        a, b = (np.stack(matrices) for matrices in zip(*operands, strict=True))
        c = np.empty((len(a), m, n), np.int32)
        assert caller.multiply_each(a, b, c, packed, threads) == 0
        assert_same(c, reference.matmul(a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("threads", [1, 4])
def test_triangles_from_a_prange(isa, dtype, threads, caller, rng):
    a = rng.integers(0, 128, (6, 70, 130)).astype(dtype)
    c = np.zeros((6, 70, 70), np.int32)
    assert caller.multiply_each_by_itself(a, c, threads) == 0
    assert_same(c, np.stack([reference.syrk(1, x, lower=True) for x in a]))


@pytest.mark.skipif(sys.platform != "linux", reason="the extension is built with OpenMP on Linux")
def test_a_call_in_a_parallel_region_uses_one_thread(caller_folder):
    code = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import cython_caller
a, b = np.ones((4, 512, 512), np.uint8), np.ones((4, 512, 512), np.int8)
c = np.empty((4, 512, 512), np.int32)
assert cython_caller.multiply_each(a, b, c, False, int(sys.argv[2])) == 0
"""
    for threads, inside in (("1", "threads=2"), ("2", "threads=1")):
        process = run_python("-c", code, str(caller_folder), threads, INT8BLAS_VERBOSE="1", INT8BLAS_NUM_THREADS="2")
        assert process.returncode == 0, process.stderr
        lines = process.stderr.splitlines()
        assert len(lines) == 4
        for line in lines:
            assert re.fullmatch(
                rf"int8blas,cython_blas\.gemm_u8s8s32,m=512,n=512,k=512,plain,\w+,{inside},\d+\.\d{{4}} ms", line
            )


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not here")
def test_the_example_builds_and_runs(tmp_path):
    folder = shutil.copytree(EXAMPLE, tmp_path / "example")
    build(folder)
    command = [sys.executable, "compare.py", "--quick"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "the same results" in process.stdout


# --- by address ------------------------------------------------------------------------------------------------------

TYPES = {"char": ctypes.c_char, "int": ctypes.c_int, "int64_t": ctypes.c_int64, "double": ctypes.c_double}


def capsule_function(name):
    """The ctypes function of a capsule; the name of a capsule is the signature."""
    capsule = cython_blas.__pyx_capi__[name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    result, arguments = re.fullmatch(r"(\w+) \((.*)\)", name_of(capsule).decode()).groups()
    types = [ctypes.c_void_p if "*" in text else TYPES[text] for text in arguments.split(", ")]
    return ctypes.CFUNCTYPE(TYPES[result], *types)(pointer_of(capsule, name_of(capsule)))


FUNCTIONS = {name: capsule_function(name) for name in cython_blas.__pyx_capi__}


def address(array):
    """The address of the first element of an array, or None."""
    return None if array is None else array.ctypes.data


def as_stored(matrix, transpose, padding, offset=0):
    """Return the matrix or its transpose in C order, with gaps before the matrix and between rows; and the leading
    dimension."""
    stored = matrix.T if transpose else matrix
    rows, columns = stored.shape
    memory = np.zeros(offset + rows * (columns + padding), matrix.dtype)
    view = memory[offset:].reshape(rows, columns + padding)[:, :columns]
    view[...] = stored
    return view, columns + padding


class Packed:
    """B packed into memory of the caller, which is less aligned than memory from malloc()."""

    def __init__(self, b, transpose=False, offset=0, padding=3):
        stored, ldb = as_stored(b, transpose, padding)
        size = FUNCTIONS["packed_b_size"](*b.shape)
        self.memory = np.full(offset + size + 1, 0x5A, np.uint8)
        self.address = self.memory.ctypes.data + offset
        pack = FUNCTIONS["pack_b_s8" if b.dtype == np.int8 else "pack_b_u8"]
        assert pack(b"T" if transpose else b"n", *b.shape, address(stored), max(1, ldb), self.address) == 0
        assert (self.memory[:offset] == 0x5A).all()
        assert self.memory[-1] == 0x5A


def plain_call(pair, m, n, k, a, b, c, /, **changes):
    """Call gemm on contiguous operands; `changes` are other values for some arguments."""
    arguments = {
        "transa": b"N", "transb": b"N", "offsetc": b"F", "m": m, "n": n, "k": k, "alpha": 1.0, "a": address(a),
        "lda": max(1, k), "ao": 0, "b": address(b), "ldb": max(1, n), "bo": 0, "beta": 0.0, "c": address(c),
        "ldc": max(1, n), "co": None,
    }  # fmt: skip
    assert changes.keys() <= arguments.keys()
    return FUNCTIONS[f"gemm_{pair.name}s32"](*(arguments | changes).values())


def packed_call(pair, m, n, k, a, b, c, /, **changes):
    """Call the GEMM that takes a packed B."""
    arguments = {
        "transa": b"N", "offsetc": b"F", "m": m, "n": n, "k": k, "alpha": 1.0, "a": address(a), "lda": max(1, k),
        "ao": 0, "b": b, "bo": 0, "beta": 0.0, "c": address(c), "ldc": max(1, n), "co": None,
    }  # fmt: skip
    assert changes.keys() <= arguments.keys()
    return FUNCTIONS[f"gemm_{pair.name}s32_packed"](*(arguments | changes).values())


def parameters(rng, pair, m, n):
    """Random values for every parameter of the formula."""
    for alpha, beta, offsetc in itertools.product((1.0, -0.3), (0.0, 1.0, 2.5), "FCr"):
        ao, bo = rng.integers(0, 128, 2)
        count = {"F": 1, "C": m, "r": n}[offsetc]
        co = (rng.integers(-(2**31), 2**31, count) >> rng.integers(0, 20)).astype(np.int32)
        yield alpha, beta, offsetc, int(ao) - 128 * (pair.a_dtype == np.int8), int(bo), co


def test_every_parameter(isa, pair, rng):
    for m, n, k in FEW:
        a, b = pair.operands(rng, m, n, k)
        weights = int8blas.pack_b(b)
        for alpha, beta, offsetc, ao, bo, co in parameters(rng, pair, m, n):
            trans_a, trans_b = rng.random(2) < 0.5
            (a_stored, lda), (b_stored, ldb) = as_stored(a, trans_a, 3, 1), as_stored(b, trans_b, 2, 3)
            start = random_c(rng, (m, n + 5))
            c_start = start[:, :n]
            expected = reference.gemm(alpha, a, b, beta, c_start, ao=ao, bo=bo, co=co, offsetc=offsetc)
            packed = Packed(b, bool(trans_b), offset=int(rng.integers(64)))
            transb = {"transb": b"c" if trans_b else b"n", "ldb": ldb}
            common = {
                "transa": b"T" if trans_a else b"N", "offsetc": offsetc.encode(), "alpha": alpha, "lda": lda,
                "ao": ao, "bo": bo, "beta": beta, "ldc": n + 5, "co": address(co),
            }  # fmt: skip
            for call, operand, more in (
                (plain_call, b_stored, transb),
                (packed_call, packed.address, {}),
                (packed_call, weights.address, {}),
            ):
                c = start.copy()
                assert call(pair, m, n, k, a_stored, operand, c, **common, **more) == 0
                assert_same(c[:, :n], expected, m=m, n=n, k=k)
                assert_same(c[:, n:], start[:, n:])


def test_large_products(isa, pair, rng):
    for m, n, k in BLOCKED:
        a, b = pair.operands(rng, m, n, k)
        expected = reference.gemm(1.0, a, b)
        packed, weights = Packed(b), int8blas.pack_b(b)
        for call, operand in ((plain_call, b), (packed_call, packed.address), (packed_call, weights.address)):
            c = np.empty((m, n), np.int32)
            assert call(pair, m, n, k, a, operand, c) == 0
            assert_same(c, expected, m=m, n=n, k=k)


def test_matrices_in_columns_are_transposed_ones(pair, rng):
    m, n, k = 5, 18, 7
    a, b = pair.operands(rng, m, n, k)
    bias = rng.integers(-9, 9, n).astype(np.int32)
    c = np.empty((m, n), np.int32, order="F")
    swapped = next(other for other in SIGN_PAIRS if (other.a_dtype, other.b_dtype) == (pair.b_dtype, pair.a_dtype))
    a, b = np.asfortranarray(a), np.asfortranarray(b)
    assert plain_call(swapped, n, m, k, b, a, c, offsetc=b"C", ao=3, bo=2, co=address(bias)) == 0
    assert_same(c, reference.gemm(1.0, a, b, ao=2, bo=3, co=bias, offsetc="R"))


def test_no_elements(isa, pair, rng):
    co = np.array([7], np.int32)
    for m, n, k in itertools.product((0, 3), repeat=3):
        a, b = pair.operands(rng, m, n, k)
        start = random_c(rng, (m, n))
        expected = reference.gemm(1.0, a, b, 1.0, start, co=7)
        packed = Packed(b, padding=0)
        for call, operand in ((plain_call, b if b.size else None), (packed_call, packed.address)):
            c = start.copy()
            status = call(
                pair, m, n, k, a if a.size else None, operand, c if c.size else None, beta=1.0, co=address(co)
            )
            assert status == 0
            assert_same(c, expected, m=m, n=n, k=k)


@pytest.mark.parametrize("threads", [1, 3])
def test_concurrent_callers(isa, pair, threads, rng):
    m, n, k = 65, 130, 300
    a, b = pair.operands(rng, m, n, k)
    expected = reference.gemm(1.0, a, b)
    packed, weights = Packed(b), int8blas.pack_b(b)
    results = [np.empty((m, n), np.int32) for _ in range(12)]
    statuses = []

    def work(c, call, operand):
        with int8blas.use_isa(isa), int8blas.num_threads(threads):
            statuses.extend(call(pair, m, n, k, a, operand, c) for _ in range(5))

    kinds = ((plain_call, b), (packed_call, packed.address), (packed_call, weights.address))
    workers = [threading.Thread(target=work, args=(c, *kinds[i % 3])) for i, c in enumerate(results)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert statuses == [0] * 60
    for c in results:
        assert_same(c, expected)


def test_the_selected_kernels_and_threads_are_used(rng):
    code = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/package"]
import numpy as np, int8blas
from arrays import SIGN_PAIRS
from test_cython_blas import plain_call
a, b, c = np.ones((512, 512), np.uint8), np.ones((512, 512), np.int8), np.empty((512, 512), np.int32)
with int8blas.use_isa("ref"), int8blas.num_threads(2):
    assert plain_call(SIGN_PAIRS[0], 512, 512, 512, a, b, c) == 0
"""
    process = run_python("-c", code, str(TESTS), INT8BLAS_VERBOSE="1")
    assert ",ref,threads=2," in process.stderr or not int8blas.show_config(mode="dicts")["threading"]["openmp"]
    assert ",ref," in process.stderr


# --- errors ----------------------------------------------------------------------------------------------------------

M, N, K = 3, 18, 5
NAMES = (  # the names of the arguments, in order
    "transa", "transb", "offsetc", "m", "n", "k", "alpha",
    "a", "lda", "ao", "b", "ldb", "bo", "beta", "c", "ldc", "co",
)  # fmt: skip
HUGE = 2**62
WRONG = {
    "transa": [b"X", b"\0", b" "],
    "transb": [b"X", b"R"],
    "offsetc": [b"N", b"\0", b"&"],
    "m": [-1, -HUGE],
    "n": [-1],
    "k": [-1],
    "alpha": [np.nan, np.inf],
    "a": [None],
    "lda": [K - 1, 0, -1, HUGE],
    "b": [None],
    "ldb": [N - 1, 0, -1, HUGE],
    "beta": [np.nan, -np.inf],
    "c": [None],
    "ldc": [N - 1, 0, -1, HUGE],
}


def wrong_values(pair):
    """(name, value) of invalid values for each argument."""
    yield from ((name, value) for name, values in WRONG.items() for value in values)
    for name, dtype in (("ao", pair.a_dtype), ("bo", pair.b_dtype)):
        yield from ((name, value) for value in (int(np.iinfo(dtype).min) - 1, int(np.iinfo(dtype).max) + 1, 2**31 - 1))


def test_the_number_of_a_wrong_argument(pair, rng):
    a, b = pair.operands(rng, M, N, K)
    start = random_c(rng, (M, N))
    packed = Packed(b)
    packed_names = [name for name in NAMES if name not in ("transb", "ldb")]
    for call, operand, names in ((plain_call, b, NAMES), (packed_call, packed.address, packed_names)):
        c = start.copy()
        for name, value in wrong_values(pair):
            if name in names:
                assert call(pair, M, N, K, a, operand, c, **{name: value}) == -1 - names.index(name), (name, value)
        assert_same(c, start)


def test_the_first_wrong_argument_is_named(pair):
    assert plain_call(pair, -1, -1, -1, None, None, None, ldc=0) == -4


def test_pointers_that_cannot_be(pair, rng):
    a, b = pair.operands(rng, M, N, K)
    packed = Packed(b)
    memory = np.zeros(4096, np.uint8)
    start = address(memory)
    for call, operand, c_number in ((plain_call, b, -15), (packed_call, packed.address, -13)):
        co_number = c_number - 2
        c_bytes = 4 * M * N
        assert call(pair, M, N, K, a, operand, None, c=start + 2) == c_number
        # C and A, C and B, C and co share a byte, or are adjacent.
        for name, size, number in (("a", M * K, c_number), ("b", K * N, c_number), ("co", 4, co_number)):
            if name == "b" and call is packed_call:
                assert call(pair, M, N, K, a, operand, None, c=(packed.address + 256) & ~3) == c_number
                continue
            for wrong in (start + 1024 - size + 4, start + 1024 + c_bytes - 4):
                assert call(pair, M, N, K, a, operand, None, c=start + 1024, **{name: wrong}) == number
            for right in (start + 1024 - size, start + 1024 + c_bytes):
                assert call(pair, M, N, K, a, operand, None, c=start + 1024, **{name: right}) == 0
        assert call(pair, M, N, K, a, operand, None, c=start, co=start + 2049) == co_number


def test_what_is_no_packed_matrix(pair, rng):
    a, b = pair.operands(rng, M, N, K)
    c = np.zeros((M, N), np.int32)
    packed, weights = Packed(b), int8blas.pack_b(b)
    copy = packed.memory.copy()
    other = Packed(b.view(np.uint8 if b.dtype == np.int8 else np.int8))
    for wrong in (copy.ctypes.data, np.zeros(512, np.uint8).ctypes.data, other.address, packed.address + 64):
        assert packed_call(pair, M, N, K, a, wrong, c) == -10
    for right in (packed.address, weights.address):
        assert packed_call(pair, M, N - 1, K, a, right, c) == -10
        assert packed_call(pair, M, N, K - 1, a, right, c) == -10
    assert not c.any()


def test_sizes_and_errors_of_packing(pair, rng):
    size = FUNCTIONS["packed_b_size"]
    _, b = pair.operands(rng, M, N, K)
    memory = np.full(size(K, N), 0x5A, np.uint8)
    pack = FUNCTIONS["pack_b_s8" if b.dtype == np.int8 else "pack_b_u8"]
    right = [b"N", K, N, address(b), N, address(memory)]
    wrong = [(0, b"F"), (1, -1), (2, -1), (2, HUGE), (3, None), (4, N - 1), (4, HUGE), (5, None), (5, address(b) - 9)]
    for index, value in wrong:
        arguments = right.copy()
        arguments[index] = value
        assert pack(*arguments) == -1 - index
    assert (memory == 0x5A).all()
    assert [size(-1, 1), size(1, -1), size(-1, -1), size(HUGE, 16), size(2**40, 2**40)] == [-1, -2, -1, -2, -2]
    assert 0 < size(0, 0) < 512
    assert size(2**20, 2**20) > 2**40


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space by /proc")
def test_no_memory():
    code = """
import resource, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/package"]
import numpy as np
from arrays import SIGN_PAIRS
from test_cython_blas import NO_MEMORY, plain_call
a, b, c = np.ones((500, 3000), np.uint8), np.ones((3000, 3000), np.int8), np.ones((500, 3000), np.int32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**20, -1))
assert plain_call(SIGN_PAIRS[0], 500, 3000, 3000, a, b, c) == NO_MEMORY
"""
    process = run_python("-c", code, str(TESTS), INT8BLAS_NUM_THREADS="1")
    assert (process.returncode, process.stderr) == (0, "")


# --- one triangle ----------------------------------------------------------------------------------------------------

SYRK_NAMES = ("uplo", "trans", "n", "k", "alpha", "a", "lda", "ao", "beta", "c", "ldc")


def syrk_call(dtype, n, k, a, c, /, **changes):
    """Call syrk on contiguous operands; `changes` are other values for some arguments."""
    values = (b"U", b"N", n, k, 1.0, address(a), max(1, k), 0, 0.0, address(c), max(1, n))
    arguments = dict(zip(SYRK_NAMES, values, strict=True))
    assert changes.keys() <= arguments.keys()
    return FUNCTIONS["syrk_u8s32" if dtype == np.uint8 else "syrk_s8s32"](*(arguments | changes).values())


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_one_triangle(isa, dtype, rng):
    for n, k in ((0, 3), (1, 1), (3, 0), (17, 5), (70, 1030)):
        a = rng.integers(0, 128, (n, k)).astype(dtype)
        start = random_c(rng, (n, n + 5))
        for uplo, trans, alpha, beta in ((b"L", b"n", 1.0, 0.0), (b"u", b"T", 1.0, 1.0), (b"l", b"c", -0.3, 2.5)):
            stored, lda = as_stored(a, trans != b"n", 3, 1)
            c = start.copy()
            options = {"uplo": uplo, "trans": trans, "alpha": alpha, "beta": beta, "lda": max(1, lda), "ldc": n + 5}
            a_or_null = stored if stored.size else None
            assert syrk_call(dtype, n, k, a_or_null, c if c.size else None, ao=9, **options) == 0
            expected = reference.syrk(alpha, a, beta, start[:, :n], lower=uplo in b"lL", ao=9)
            assert_same(c[:, :n], expected, n=n, k=k)
            assert_same(c[:, n:], start[:, n:])


def test_the_number_of_a_wrong_argument_of_a_triangle(rng):
    a, c = np.ones((N, K), np.uint8), random_c(rng, (N, N))
    before = c.copy()
    wrong = {
        "uplo": [b"F", b"\0"], "trans": [b"X"], "n": [-1], "k": [-1], "alpha": [np.nan], "a": [None],
        "lda": [K - 1, 0, -1, HUGE], "ao": [-1, 256], "beta": [np.inf], "c": [None, address(c) + 2, address(a) & ~3],
        "ldc": [N - 1, 0, HUGE],
    }  # fmt: skip
    assert list(wrong) == list(SYRK_NAMES)
    for number, (name, values) in enumerate(wrong.items(), 1):
        for value in values:
            assert syrk_call(np.uint8, N, K, a, c, **{name: value}) == -number, (name, value)
    assert syrk_call(np.int8, N, K, a, c, ao=128) == -8
    assert_same(c, before)


# --- dot products ----------------------------------------------------------------------------------------------------


def dot_call(pair, n, x, y, result, /, **changes):
    """Call dot on contiguous vectors; `changes` are other values for some arguments."""
    arguments = {
        "n": n, "x": address(x), "incx": 1, "y": address(y), "incy": 1, "result": address(result),
    }  # fmt: skip
    assert changes.keys() <= arguments.keys()
    return FUNCTIONS[f"dot_{pair.name}s64"](*(arguments | changes).values())


@pytest.mark.parametrize("threads", [1, 3])
def test_dot_products(isa, pair, threads, rng):
    with int8blas.num_threads(threads):
        for n in (0, 1, 3, 63, 64, 65, 1000, 66_000, 300_000):
            a, b = pair.operands(rng, 1, 1, n)
            result = np.zeros(1, np.int64)
            assert dot_call(pair, n, a, b, result) == 0
            assert result[0] == np.dot(a.ravel().astype(np.int64), b.ravel().astype(np.int64)), n


def test_dot_products_with_the_increments_of_blas(isa, pair, rng):
    n = 130
    for incx, incy in itertools.product((1, 2, 7, 0, -1, -3), (1, 5, 0, -2)):
        a, b = (x.ravel() for x in pair.operands(rng, 1, 1, 7 * n))
        result = np.zeros(1, np.int64)
        assert dot_call(pair, n, a, b, result, incx=incx, incy=incy) == 0
        x, y = (v[np.arange(n) * inc - min(0, (n - 1) * inc)].astype(np.int64) for v, inc in ((a, incx), (b, incy)))
        assert result[0] == x @ y, (incx, incy)


def test_the_number_of_a_wrong_argument_of_a_dot_product():
    pair = SIGN_PAIRS[0]
    a, b, result = np.ones(K, np.uint8), np.ones(K, np.int8), np.full(1, 5, np.int64)
    wrong = {
        "n": [-1], "x": [None], "incx": [HUGE, -HUGE, -(2**63)], "y": [None], "incy": [HUGE, -HUGE, -(2**63)],
        "result": [None, address(result) + 4, address(a) & ~7],
    }  # fmt: skip
    for number, (name, values) in enumerate(wrong.items(), 1):
        for value in values:
            assert dot_call(pair, K, a, b, result, **{name: value}) == -number, (name, value)
    assert result[0] == 5
    assert dot_call(pair, 0, None, None, result) == 0
    assert result[0] == 0


# --- a PackedB from Python -------------------------------------------------------------------------------------------


def test_the_address_stays(rng):
    weights = int8blas.pack_b(rng.integers(-128, 128, (300, 200), np.int8))
    addresses = set()
    for isa in int8blas.available_isas():
        with int8blas.use_isa(isa):
            addresses.add(weights.address)
    assert len(addresses) == 1
    assert addresses != {int8blas.pack_b(np.zeros((300, 200), np.int8)).address}


def test_outliers_of_a_packed_matrix(isa, rng):
    b = rng.integers(-8, 9, (1100, 130), np.int8)
    b[rng.random(b.shape) < 0.005] = 127
    a = rng.integers(0, 256, (70, 1100), np.uint8)
    weights = int8blas.pack_b(b)
    c = np.empty((70, 130), np.int32)
    assert packed_call(SIGN_PAIRS[0], 70, 130, 1100, a, weights.address, c) == 0
    assert_same(c, reference.gemm(1.0, a, b))


# --- the documentation -----------------------------------------------------------------------------------------------

needs_page = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")


def fences(language):
    """The code blocks in this language on the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@needs_page
def test_the_page_shows_the_example():
    assert fences("cython") == [(EXAMPLE / "grouped.pyx").read_text()]
    assert (EXAMPLE / "setup.py").read_text() in fences("python")


@needs_page
@pytest.mark.filterwarnings("ignore")
def test_the_page_calls_from_numba():
    pytest.importorskip("numba")
    (code,) = (code for code in fences("python") if "numba" in code)
    names = {}
    exec(code, names)
    assert_same(names["c"], reference.matmul(names["a"], names["b"]))


# --- nearest rows ----------------------------------------------------------------------------------------------------


def find(queries, base, packed, count, metric=b"I", ldq=None):
    """Call nearest_s8 or nearest_u8; return the status and the rows that it finds."""
    m, k = queries.shape
    indices, scores = np.full((m, count), 7, np.int64), np.full((m, count), 7.0)
    function = FUNCTIONS["nearest_s8" if queries.dtype == np.int8 else "nearest_u8"]
    result = function(metric, m, len(base), k, address(queries), ldq or max(1, k), packed, count, address(indices),
                      address(scores))  # fmt: skip
    return result, indices, scores


@pytest.mark.parametrize("metric", ["inner", "sqeuclidean", "cosine"])
def test_nearest_rows(isa, pair, metric, rng):
    for m, n, k in ((1, 300, 33), (20, 1000, 64), (300, 77, 10), (3, 0, 5), (0, 5, 5), (2, 20, 0), (2, 40, 140_000)):
        queries, base = random_values(rng, pair.a_dtype, (m, k)), random_values(rng, pair.b_dtype, (n, k))
        packed = int8blas.pack_b(base, trans_b=True)
        memory = np.zeros(FUNCTIONS["packed_b_size"](k, n) + 1, np.uint8)
        pack = FUNCTIONS["pack_b_s8" if base.dtype == np.int8 else "pack_b_u8"]
        assert pack(b"T", k, n, address(base), max(1, k), memory.ctypes.data + 1) == 0
        letter = {"inner": b"I", "sqeuclidean": b"e", "cosine": b"C"}[metric]
        for where, count in ((packed.address, 30), (memory.ctypes.data + 1, 30), (packed.address, 2000)):
            expected, expected_scores = reference_neighbors.nearest(queries, base, count, metric)
            result, indices, scores = find(queries, base, where, count, letter)
            assert result == 0
            assert_same(indices[:, :n], expected, m=m, n=n, k=k)
            assert np.array_equal(scores[:, :n], expected_scores)
            assert (indices[:, n:] == -1).all()
            assert not scores[:, n:].any()


def test_nearest_rows_of_queries_that_lie_apart(isa, rng):
    memory = rng.integers(-128, 128, (9, 50), np.int8)
    base = rng.integers(-128, 128, (70, 40), np.int8)
    packed = int8blas.pack_b(base, trans_b=True)
    expected, _ = reference_neighbors.nearest(memory[:, :40], base, 4)
    result, indices, _ = find(memory[:, :40], base, packed.address, 4, ldq=50)
    assert result == 0
    assert_same(indices, expected)


def test_nearest_rows_in_the_verbose_output():
    code = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/package"]
import numpy as np, int8blas
from test_cython_blas import find
base = np.ones((70, 40), np.int8)
packed = int8blas.pack_b(base, trans_b=True)
for queries in (base[:3], base[:2].view(np.uint8)):
    assert find(queries, base, packed.address, 4)[0] == 0
"""
    process = run_python("-c", code, str(TESTS), INT8BLAS_VERBOSE="1", INT8BLAS_NUM_THREADS="1")
    facts = [line.rsplit(",", 3) for line in process.stderr.splitlines() if ",cython_blas." in line]
    assert [fact[0].removeprefix("int8blas,cython_blas.") for fact in facts] == [
        "nearest_s8,m=3,n=70,k=40,packed", "nearest_u8,m=2,n=70,k=40,packed",
    ]  # fmt: skip
    assert {(isa, threads) for _, isa, threads, _ in facts} == {(int8blas.available_isas()[0], "threads=1")}
    assert all(float(time.removesuffix(" ms")) >= 0 for *_, time in facts)


def test_nearest_says_which_argument_is_wrong(rng):
    base = rng.integers(-128, 128, (70, 40), np.int8)
    queries, indices, scores = base[:3].copy(), np.full((3, 2), 7, np.int64), np.full((3, 2), 7.0)
    packed, across = int8blas.pack_b(base, trans_b=True), int8blas.pack_b(base)
    right = [b"I", 3, 70, 40, address(queries), 40, packed.address, 2, address(indices), address(scores)]
    wrong = {
        1: (b"X", b"N", b"\0"),
        2: (-1,),
        3: (-1,),
        4: (-1,),
        5: (None,),
        6: (0, 39),
        7: (None, across.address, address(indices)),
        8: (0, -1),
        9: (None, address(indices) + 4, address(queries) // 8 * 8, packed.data.ctypes.data),
        10: (None, address(scores) + 4, address(indices) + 8, packed.data.ctypes.data),
    }
    for argument, values in wrong.items():
        for value in values:
            arguments = list(right)
            arguments[argument - 1] = value
            assert FUNCTIONS["nearest_s8"](*arguments) == -argument, (argument, value)
    assert (indices == 7).all()
    assert (scores == 7).all()
    assert FUNCTIONS["nearest_s8"](*right) == 0
    assert indices[0, 0] == 0 or scores[0, 0] >= scores[0, 1]
