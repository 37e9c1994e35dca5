"""Operands for the tests: the sign pairs, values, layouts in memory, guard pages, canaries, comparison."""

import ctypes
import mmap
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest
import reference
from reference import INT32_MAX, INT32_MIN

import int8blas
from int8blas.core.kernels import kernel_info


def widens(isa):
    """Return whether an instruction set lacks an exact multiply-add of bytes, so that it widens operands or splits a
    packed B."""
    with int8blas.use_isa(isa):
        return int8blas.explain(np.full((300, 300), 255, np.uint8), np.full((300, 300), 127, np.int8)).may_widen


def has_matrix_unit(isa):
    """Return whether the kernel table of an instruction set has a matrix unit."""
    with int8blas.use_isa(isa):
        return "matrix unit's tile" in kernel_info()


WITHOUT_VNNI = tuple(filter(widens, int8blas.available_isas()))
WITH_MATRIX_UNIT = tuple(filter(has_matrix_unit, int8blas.available_isas()))

# --- sign pairs and values -------------------------------------------------------------------------------------------


class SignPair(NamedTuple):
    """One of the four combinations of operand types, and its function."""

    name: str
    a_dtype: type
    b_dtype: type

    @property
    def gemm(self):
        return getattr(int8blas, f"gemm_{self.name}s32")

    def operands(self, rng, m, n, k, kind="full"):
        """A random A (M, K) and B (K, N)."""
        return random_values(rng, self.a_dtype, (m, k), kind), random_values(rng, self.b_dtype, (k, n), kind)


SIGN_PAIRS = (
    SignPair("u8s8", np.uint8, np.int8),
    SignPair("s8s8", np.int8, np.int8),
    SignPair("s8u8", np.int8, np.uint8),
    SignPair("u8u8", np.uint8, np.uint8),
)

# The forms in which a B can be given.
B_FORMS = {
    "C order": np.ascontiguousarray,
    "F order": np.asfortranarray,
    "packed": int8blas.pack_b,
}


def random_values(rng, dtype, shape, kind="full"):
    """Values over the whole range ("full"), only its two ends ("extreme"), or too small to saturate ("small")."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if kind == "extreme":
        return rng.choice(np.array([low, high], dtype), shape)
    if kind == "small":
        middle = 0 if dtype == np.int8 else 128
        return rng.integers(middle - 64, middle + 64, shape, dtype)
    return rng.integers(low, high, shape, dtype, endpoint=True)


def random_c(rng, shape):
    """int32 values, some of them at the ends of the range."""
    c = rng.integers(INT32_MIN, INT32_MAX, shape, np.int32, endpoint=True)
    c[rng.random(shape) < 0.1] = INT32_MAX
    c[rng.random(shape) < 0.1] = INT32_MIN
    c[rng.random(shape) < 0.5] >>= 16
    return c


# --- layouts ---------------------------------------------------------------------------------------------------------

# Name of a layout -> (row stride, column stride) of an m x n array, in elements.
LAYOUTS = {
    "C": lambda m, n: (n, 1),
    "F": lambda m, n: (1, m),
    "C, padded rows": lambda m, n: (n + 3, 1),
    "F, padded columns": lambda m, n: (1, m + 5),
    "every other column": lambda m, n: (2 * n, 2),
    "every third row of F": lambda m, n: (3, 3 * m + 1),
    "rows reversed": lambda m, n: (-n, 1),
    "columns reversed": lambda m, n: (n, -1),
    "F, both reversed": lambda m, n: (-1, -(m + 1)),
    "every other, both reversed": lambda m, n: (-2 * (2 * n + 1), -2),
    "page rows": lambda m, n: (4096, 1),
}

# Layouts whose elements share memory: operands can have them, results cannot.
BROADCASTS = {
    "one row": lambda m, n: (0, 1),
    "one column": lambda m, n: (1, 0),
    "one column, reversed": lambda m, n: (-1, 0),
    "one value": lambda m, n: (0, 0),
    "sliding window": lambda m, n: (1, 1),
}


def heap(nbytes):
    """Ordinary memory."""
    return np.zeros(nbytes, np.uint8)


def place(values, layout, allocate=heap, misalign=0):
    """A matrix with these values and this layout, in exactly the bytes it spans, `misalign` bytes off the start.

    The elements of a broadcast share memory, so compare with the array itself, not with `values`.
    """
    values = np.asarray(values)
    return with_strides(values, {**LAYOUTS, **BROADCASTS}[layout](*values.shape), allocate, misalign)


def with_strides(values, strides, allocate=heap, misalign=0):
    """An array with any number of dimensions and the given strides, which are in elements."""
    values = np.asarray(values)
    strides = tuple(stride * values.itemsize for stride in strides)
    if values.size == 0:
        return np.ndarray(values.shape, values.dtype, buffer=allocate(0), strides=strides)
    reaches = [(size - 1) * stride for size, stride in zip(values.shape, strides, strict=True)]
    before = -sum(reach for reach in reaches if reach < 0)
    after = sum(reach for reach in reaches if reach > 0)
    memory = allocate(misalign + before + after + values.itemsize)
    array = np.ndarray(values.shape, values.dtype, buffer=memory, offset=misalign + before, strides=strides)
    array[...] = values
    return array


# --- guard pages -----------------------------------------------------------------------------------------------------

needs_mprotect = pytest.mark.skipif(not hasattr(mmap, "PROT_READ"), reason="needs POSIX mprotect")


def guarded(side):
    """Return an allocator of memory between two protected pages. The memory touches the page at its "start" or its
    "end"."""

    def allocate(nbytes):
        page = mmap.PAGESIZE
        inner = max(1, -(-nbytes // page)) * page
        memory = np.frombuffer(mmap.mmap(-1, inner + 2 * page), np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        for guard in (memory.ctypes.data, memory.ctypes.data + page + inner):
            prot_none = 0
            if libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), prot_none):
                raise OSError(ctypes.get_errno(), "mprotect failed")
        start = page if side == "start" else page + inner - nbytes
        return memory[start : start + nbytes]

    return allocate


def between_guards(side, values):
    """Return a contiguous copy of an array in memory of :func:`guarded`."""
    copy = guarded(side)(values.nbytes).view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


# --- canaries --------------------------------------------------------------------------------------------------------


class Canary:
    """An allocator that remembers its memory, with a margin on both sides, so that a test can see the bytes that a call
    wrote."""

    MARGIN, PATTERN = 256, 0xA5

    def __call__(self, nbytes):
        self.memory = np.full(nbytes + 2 * self.MARGIN, self.PATTERN, np.uint8)
        return self.memory[self.MARGIN : self.MARGIN + nbytes]

    def assert_only_elements_written(self, array):
        """Every byte that belongs to no element of `array` still holds the pattern."""
        foreign = np.ones(self.memory.size, bool)
        if array.size:
            np.ndarray(
                (*array.shape, array.itemsize),
                bool,
                buffer=foreign,
                offset=array.ctypes.data - self.memory.ctypes.data,
                strides=(*array.strides, 1),
            )[...] = False
        written = np.flatnonzero(foreign & (self.memory != self.PATTERN)) - self.MARGIN
        assert written.size == 0, f"bytes outside the elements written, at offsets {written[:8]}"


# --- comparison ------------------------------------------------------------------------------------------------------


def assert_first_products(isa, a, b):
    """Threads that multiply by a packed matrix for the first time, together, all compute the product."""
    expected = reference.gemm(1, a, b)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            packed = int8blas.pack_b(b)

            def product(packed=packed):
                with int8blas.use_isa(isa):
                    return int8blas.matmul(a, packed)

            for future in [pool.submit(product) for _ in range(4)]:
                assert_same(future.result(), expected)


def assert_same(result, expected, **problem):
    """Equal in type, shape and every element, otherwise raise an error that gives the problem and the first
    difference."""
    assert np.asarray(result).dtype == expected.dtype, f"{problem}: dtype {np.asarray(result).dtype}"
    assert np.shape(result) == np.shape(expected), f"{problem}: shape {np.shape(result)}, not {np.shape(expected)}"
    if not np.array_equal(result, expected):
        wrong = np.argwhere(np.asarray(result) != expected)
        first = tuple(int(i) for i in wrong[0])
        raise AssertionError(
            f"{problem}: {len(wrong)} of {expected.size} elements differ, the first at {first}: "
            f"{np.asarray(result)[first]}, not {expected[first]}"
        )
