"""Products on a matrix unit: sizes around its rows, panels, K steps and blocks, and where the path begins.

These sizes go through all instruction sets; instruction sets without a matrix unit take other paths.
"""

import sys

import numpy as np
import pytest
import reference
from arrays import B_FORMS, SIGN_PAIRS, assert_same, guarded, place, with_strides
from convolutions import random_convolution
from layers import random_problem
from processes import run_python

import int8blas
from int8blas import Eltwise, ReLU

ROWS = (2, 3, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 97)
COLUMNS = (16, 31, 32, 33, 48, 65, 100)
# K around steps of 64, blocks of 512, and the larger sizes up to which one block takes the whole K.
DEPTHS = (64, 65, 127, 128, 191, 513, 767, 769, 1024, 1027, 1540)
LAYOUTS = ("rows", "columns", "every other column", "rows")
# Code that runs before the import: a signal stack as small as POSIX allows.
SMALL_SIGNAL_STACK = """
import ctypes, faulthandler
faulthandler.disable()
class Stack(ctypes.Structure):
    _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(2048)
stack = Stack(ctypes.addressof(memory), 0, 2048)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
"""
MULTIPLY = """
import numpy as np, int8blas
a, b = np.full((100, 700), 255, np.uint8), np.full((700, 100), -128, np.int8)
c = int8blas.gemm_u8s8s32(1, a, b)
print(int8blas.available_isas()[0], (c == -255 * 128 * 700).all())
"""


@pytest.mark.parametrize("form", B_FORMS)
def test_sizes(isa, pair, form, rng):
    for i, m in enumerate(ROWS):
        n, k = COLUMNS[i % len(COLUMNS)], DEPTHS[i % len(DEPTHS)]
        for size in ((m, n, k), (m, COLUMNS[(i + 3) % len(COLUMNS)], DEPTHS[(i + 5) % len(DEPTHS)])):
            a, b = pair.operands(rng, *size)
            assert_same(pair.gemm(1, a, B_FORMS[form](b)), reference.gemm(1, a, b), size=size)


@pytest.mark.parametrize("k", DEPTHS)
def test_depths_of_extreme_operands(isa, k):
    """All products at their largest: one step too many or too few would change the result."""
    for m, n in ((40, 70), (16, 48)):
        a, b = np.full((m, k), 255, np.uint8), np.full((k, n), -128, np.int8)
        for make in B_FORMS.values():
            assert_same(int8blas.gemm_u8s8s32(1, a, make(b)), np.full((m, n), -255 * 128 * k, np.int32), k=k)


@pytest.mark.parametrize("k", [192, 1027])
@pytest.mark.parametrize(("pair", "layout"), list(zip(SIGN_PAIRS, LAYOUTS, strict=True)))
def test_what_sums_start_from(isa, pair, layout, k, rng):
    """Zero points, offsets, alpha and beta, with whole and incomplete registers of rows."""
    for m, n in ((32, 64), (35, 50), (9, 100), (130, 70)):
        a, b = pair.operands(rng, m, n, k)
        a = np.asfortranarray(a) if layout == "columns" else place(a, layout) if layout != "rows" else a
        c = rng.integers(-1000, 1000, (m, n), np.int32)
        row, column = rng.integers(-1000, 1000, m), rng.integers(-1000, 1000, n)
        for options in (
            {"ao": 7},
            {"bo": 5},
            {"ao": 100, "bo": 3, "co": 11},
            {"ao": rng.integers(0, 128, m), "bo": rng.integers(0, 128, n)},
            {"co": row, "offsetc": "C"},
            {"co": column, "offsetc": "R"},
            {"alpha": 0.5, "beta": 1, "c": c},
            {"beta": 1, "c": c, "ao": 100},
        ):
            options = dict(options)
            alpha = options.pop("alpha", 1)
            expected = reference.gemm(alpha, a, b, **options)
            for make in B_FORMS.values():
                assert_same(pair.gemm(alpha, a, make(b), **options), expected, m=m, n=n, options=sorted(options))


@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize(("gap", "direction"), [(0, 1), (1, 1), (64, -1)])
def test_a_that_is_loaded_once(isa, gap, direction, side, rng):
    """The unit may load A in place, only in whole registers, and must not read outside it."""
    for m in (2, 5, 16, 32, 37, 64):
        for k in (64, 100, 128, 576):
            a = with_strides(rng.integers(0, 256, (m, k), np.uint8), (direction * (k + gap), 1), guarded(side))
            for n in (8, 16, 24, 32):
                b = rng.integers(-128, 128, (k, n), np.int8)
                for make in B_FORMS.values():
                    assert_same(int8blas.gemm_u8s8s32(1, a, make(b)), reference.gemm(1, a, b), size=(m, n, k))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("m", [20, 65, 256, 300])
def test_b_beyond_a_cache(isa, threads, m, rng):
    """Blocks are prefetched, and a plain B is packed piece by piece."""
    n, k = 1100, 1030
    a, b = SIGN_PAIRS[0].operands(rng, m, n, k)
    expected = reference.gemm(1, a, b)
    with int8blas.num_threads(threads):
        for make in B_FORMS.values():
            assert_same(int8blas.gemm_u8s8s32(1, a, make(b)), expected)


def test_few_long_rows(isa, rng):
    for m in (2, 16, 31):
        a, b = SIGN_PAIRS[0].operands(rng, m, 50, 17000)
        assert_same(int8blas.gemm_u8s8s32(1, a, int8blas.pack_b(b)), reference.gemm(1, a, b))


def test_writes_nothing_beside_c(isa, rng):
    for m, n in ((33, 40), (48, 64), (5, 33)):
        a, b = SIGN_PAIRS[0].operands(rng, m, n, 300)
        around = np.full((m + 2, n + 2), 7, np.int32)
        c = around[1:-1, 1:-1]
        assert int8blas.gemm_u8s8s32(1, a, int8blas.pack_b(b), c=c, overwrite_c=True) is c
        assert_same(c, reference.gemm(1, a, b))
        around[1:-1, 1:-1] = 7
        assert (around == 7).all()


@pytest.mark.parametrize("dst_dtype", [np.uint8, np.int8, np.int32, np.float32, np.float16])
def test_epilogues(isa, dst_dtype, rng):
    for shape in ((37, 70, 200), (64, 64, 1100), (16, 33, 64)):
        for ops in ((), (ReLU(),), (Eltwise("square"),)):
            random_problem(rng, *shape, dst_dtype=dst_dtype, ops=ops).check()


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("strides", [1, 2, (2, 1)])
@pytest.mark.parametrize(
    ("ic", "kernel"),
    [(64, (3, 3)), (128, (1, 3)), (64, (3, 2)), (256, (3, 3)), (96, (3, 3)), (3, (7, 7)), (8, (3, 3)), (40, (2, 5))],
)
def test_windows_in_lines(isa, ic, kernel, strides, layout, rng):
    """Windows of whole K steps, which are read in place, and other windows; lines that fill registers, nearly fill
    them, or do not."""
    for size in ((7, 16), (5, 30), (6, 33), (7, 9)):
        for src_dtype in (np.uint8, np.int8):
            random_convolution(rng, size, kernel, ic, 40, n=2, strides=strides, padding=1, src_dtype=src_dtype,
                               layout=layout).check()  # fmt: skip


@pytest.mark.parametrize(("groups", "ic", "oc"), [(2, 64, 96), (3, 24, 120)])
def test_windows_of_groups_in_lines(isa, groups, ic, oc, rng):
    """Lines of weights are padded for each group separately, for pairs of panels and a single last panel."""
    random_convolution(rng, (20, 32), (3, 3), ic, oc, n=2, groups=groups, padding=1).check()


@pytest.mark.parametrize(("size", "ic", "kernel"), [((224, 224), 3, (7, 7)), ((100, 100), 40, (3, 3))])
def test_images_of_several_blocks(isa, size, ic, kernel, rng):
    for threads in (1, 3):
        with int8blas.num_threads(threads):
            random_convolution(rng, size, kernel, ic, 33, strides=2, padding=3).check()


def test_windows_for_many_channels(isa, rng):
    """A matrix of windows that is gathered once for several blocks of columns."""
    with int8blas.num_threads(1):  # several threads would divide the columns
        random_convolution(rng, (9, 10), (3, 3), 100, 1100, padding=1).check()


@pytest.mark.parametrize("kernel", [(3, 3), (1, 1)])
def test_windows_with_dilation_of_lines(isa, kernel, rng):
    random_convolution(rng, (9, 16), kernel, 64, 33, padding=2, dilation=(2, 1)).check()


@pytest.mark.skipif(sys.platform != "linux" or "amx" not in int8blas.available_isas(), reason="needs AMX")
def test_a_process_that_may_not_have_tiles_does_without():
    """Linux refuses tile registers if the signal stack is too small to save them."""
    assert run_python("-c", MULTIPLY).stdout.split() == ["amx", "True"]
    assert run_python("-c", SMALL_SIGNAL_STACK + MULTIPLY).stdout.split() == ["avx512vnni", "True"]


@pytest.mark.skipif("amx" not in int8blas.available_isas(), reason="needs AMX")
def test_explain_tells_the_tile():
    with int8blas.use_isa("amx"):
        a, b = np.zeros((100, 700), np.uint8), np.zeros((700, 100), np.int8)
        assert int8blas.explain(a, b).tile == (32, 32)
        assert int8blas.explain(a[:20], int8blas.pack_b(b)).tile == (32, 32)
        assert int8blas.explain(a[:16], int8blas.pack_b(b)).tile == (16, 32)
        assert int8blas.explain(a[:1], int8blas.pack_b(b)).tile == (1, 48)
        narrow = b[:640, :20]
        assert int8blas.explain(a[:, :640], narrow).a_in_place
        assert not int8blas.explain(a[:, :640].view(np.int8), narrow).a_in_place
        layer = int8blas.Convolution(
            np.zeros((32, 64, 3, 3), np.int8), src_dtype=np.uint8, dst_dtype=np.uint8, padding=1, layout="nhwc"
        )
        wide, small = int8blas.explain(np.zeros((1, 16, 16, 64), np.uint8), layer), np.zeros((1, 7, 7, 64), np.uint8)
        assert (wide.path, wide.tile) == ("lines", (32, 32))
        assert int8blas.explain(small, layer).path == "blocks"
