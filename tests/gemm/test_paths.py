"""Every path of the driver, on shapes that only it computes, with everything that can go wrong on the way to C."""

import numpy as np
import pytest
import reference
from arrays import B_FORMS, SIGN_PAIRS, assert_same, place

import int8blas

# Where an instruction set has kernels for the path; elsewhere the same shapes take another one.
ROWS = ((1, 64, 130), (2, 65, 257), (1, 1000, 259), (2, 2100, 66))
MORE_ROWS = ((3, 300, 258), (5, 1030, 67), (6, 64, 1030), (11, 130, 71), (12, 640, 66), (25, 500, 70), (48, 192, 65))
# Rows of B that are a multiple of 64 bytes apart, so that blocks are aligned, and of 2048, so that they are copied.
ALIGNED_ROWS = ((1, 1088, 66), (4, 1088, 35), (10, 1088, 67), (3, 2048, 18), (13, 2048, 67))
DOTS = ((9, 1, 200), (300, 2, 65), (513, 3, 129), (100, 5, 1030), (129, 7, 64), (257, 8, 131), (75, 1, 1030))
MORE_DOTS = ((70, 4, 516), (35, 6, 300), (79, 9, 67), (67, 11, 130), (71, 13, 259), (141, 16, 66))
DOTS_OF_COLUMNS = ((1, 300, 67), (3, 130, 1000), (7, 97, 129), (16, 200, 259), (4, 77, 64), (10, 79, 130), (13, 35, 65))
# More rows than a kernel has columns, where it stores C itself.
MORE_DOTS_OF_COLUMNS = ((17, 130, 67), (33, 77, 129), (64, 90, 200))
# Rows of whole cache lines, which are shifted to them, and others; one dword of A and more; tails.
THIN = ((130, 400, 3), (67, 740, 8), (129, 528, 1), (400, 130, 13), (760, 66, 27), (170, 304, 30), (200, 257, 16))
MORE_THIN = ((800, 64, 32), (180, 288, 6), (70, 1040, 23), (500, 100, 2), (64, 1600, 12))
BLOCKS = ((65, 49, 1030), (70, 1040, 517), (130, 200, 300), (300, 33, 700))
INDEPENDENT = ((7, 300, 600), (16, 2100, 257), (53, 1100, 300), (64, 70, 1030))
# B beyond the L2 cache.
FAR_ROWS = ((1, 1100, 1030), (2, 1088, 1030), (5, 1088, 1030), (13, 1090, 1030))
MORE_FAR_ROWS = ((1, 1056, 1026), (2, 1057, 1026), (3, 1030, 1060), (8, 2100, 517), (21, 1030, 1027))
SLABS = ((66, 1200, 4200), (70, 70, 9000))
TINY = ((3, 5, 7), (17, 128, 5), (40, 33, 48))
TALL = ((300, 9, 5), (200, 40, 3), (1500, 1, 2), (70, 17, 64))
LARGE_ROWS = ((1, 2048, 1030), (2, 2100, 999))
LARGE_DOTS = ((1500, 2, 1030), (999, 8, 1030))
LARGE_DOTS_OF_COLUMNS = ((3, 999, 1030), (16, 300, 999))
LONG_K = ((1, 1, 300), (5, 8, 2600), (8, 3, 2000))
LARGE_THIN = ((1024, 1024, 8), (500, 100, 5))
STREAMED = ((2050, 2064, 3), (2400, 1800, 9))
LARGE_BLOCKS = ((65, 70, 1030), (70, 1040, 517), (53, 1100, 300))

ALL = (
    ROWS
    + MORE_ROWS
    + ALIGNED_ROWS
    + DOTS
    + MORE_DOTS
    + DOTS_OF_COLUMNS
    + MORE_DOTS_OF_COLUMNS
    + THIN
    + MORE_THIN
    + BLOCKS
    + INDEPENDENT
    + LONG_K
)
THREADS = (1, 3)
# How A, or C, may lie in memory: the paths read rows, columns or neither of them as they are.
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "neither": lambda a: place(a, "every other column"),
}
# Problems that are computed transposed: few columns and an A by columns, or a C by columns and a small K.
FEW_COLUMNS = ((64, 1, 130), (257, 2, 65), (1000, 3, 259), (40, 4, 17), (300, 4, 1030), (90, 1, 5))
SMALL_K_COLUMNS = ((400, 130, 3), (740, 67, 8), (528, 129, 1), (66, 760, 4), (2064, 1200, 3))
LARGE_C = 1 << 20  # elements, from which on some options are enough


def assert_every_way(gemm, b, expected, **problem):
    """`gemm(b)` is right for every form of B and number of threads."""
    for form, make in B_FORMS.items():
        packed = make(b)
        for threads in THREADS:
            with int8blas.num_threads(threads):
                assert_same(gemm(packed), expected, form=form, threads=threads, **problem)


@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_products(isa, pair, a_layout, rng):
    for m, n, k in ALL:
        a, b = pair.operands(rng, m, n, k)
        a = LAYOUTS[a_layout](a)
        assert_every_way(lambda b, a=a: pair.gemm(1, a, b), b, reference.gemm(1, a, b), m=m, n=n, k=k)


def test_products_that_are_transposed(isa, pair, rng):
    """Every layout of C too, and all that goes with the operands."""
    for m, n, k in FEW_COLUMNS + SMALL_K_COLUMNS:
        a, b = pair.operands(rng, m, n, k)
        a = np.asfortranarray(a)
        c = np.asfortranarray(rng.integers(-1000, 1000, (m, n), np.int32))
        row, column = rng.integers(-1000, 1000, m), rng.integers(-1000, 1000, n)
        for options in (
            {},
            {"ao": 9, "bo": 7, "co": 11},
            {"offsetc": "R", "co": column, "ao": 5},
            {"offsetc": "C", "co": row, "bo": 1},
            {"ao": row % 100, "bo": column % 100},
            {"beta": 1},
            {"alpha": -0.37, "beta": 2.5, "co": 17},
            {"numerics": "saturating"},
        ):
            if m * n > LARGE_C and options not in ({}, {"beta": 1}):
                continue
            arguments = {"alpha": 1, "beta": 0, **options}
            expected = reference.gemm(a=a, b=b, c=c, **arguments)
            for layout, laid_out in LAYOUTS.items():
                assert_every_way(
                    lambda b, a=a, c=c, laid_out=laid_out, x=arguments: pair.gemm(
                        a=a, b=b, c=laid_out(c.copy("K")), overwrite_c=True, **x),
                    b, expected, m=m, n=n, k=k, options=list(options), layout=layout,
                )  # fmt: skip


def test_explain_tells_what_is_transposed(isa, rng):
    for m, n, k in FEW_COLUMNS:
        a, b = SIGN_PAIRS[1].operands(rng, m, n, k)
        by_columns = int8blas.explain(np.asfortranarray(a), b)
        assert by_columns.shape == (m, n, k)
        assert by_columns.transposed == (m >= (16 if isa == "ref" else 4) * n)
        assert ("C.T = B.T @ A.T" in str(by_columns)) == by_columns.transposed
        for other in (int8blas.explain(a, b), int8blas.explain(np.asfortranarray(a), int8blas.pack_b(b))):
            assert not other.transposed


@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_zero_points_offsets_and_accumulation(isa, pair, a_layout, rng):
    for m, n, k in ALL[list(LAYOUTS).index(a_layout) :: 5] + TINY + TALL:
        a, b = pair.operands(rng, m, n, k)
        a = LAYOUTS[a_layout](a)
        c = rng.integers(-1000, 1000, (m, n), np.int32)
        large_c = rng.integers(-(2**31), 2**31, (m, n), np.int32)
        row, column = rng.integers(-1000, 1000, m), rng.integers(-1000, 1000, n)
        large_row, large_column = np.tile([2**31 - 9, -(2**31), 0], m)[:m], np.tile([-(2**31) + 9, 2**31 - 1], n)[:n]
        for options in (
            {"bo": 3},
            {"ao": 9, "bo": 7, "co": 11},
            {"offsetc": "R", "co": column},
            {"offsetc": "C", "co": row, "bo": 1},
            {"offsetc": "R", "co": large_column, "ao": row % 100},
            {"offsetc": "C", "co": large_row, "bo": column % 100},
            {"ao": row % 100, "bo": column % 100},
            {"beta": 1, "c": c, "ao": 5},
            {"beta": 1, "c": large_c, "bo": column % 100},
            {"beta": 1, "c": large_c, "offsetc": "R", "co": large_column},
            {"alpha": 0.5, "ao": 5, "bo": 1},
            {"alpha": -0.37, "beta": 2.5, "c": c, "co": 17},
            {"alpha": 1e6, "beta": -1, "c": large_c, "ao": row % 100, "offsetc": "C", "co": row},
        ):
            arguments = {"alpha": 1} | options
            expected = reference.gemm(a=a, b=b, **arguments)
            assert_every_way(
                lambda b, a=a, x=arguments: pair.gemm(a=a, b=b, **x), b, expected, m=m, n=n, k=k, options=list(options)
            )


@pytest.mark.parametrize("form", B_FORMS)
def test_any_layout_of_c(isa, form, rng):
    for m, n, k in ALL[::3]:
        a, b = SIGN_PAIRS[1].operands(rng, m, n, k)
        memory = np.full((2 * m + 1, 3 * n + 1), -7, np.int32)
        for c in (memory[1::2, 1::3], memory.reshape(3 * n + 1, 2 * m + 1).T[1::2, 1::3]):
            expected = memory.copy()
            int8blas.gemm_s8s8s32(1, a, B_FORMS[form](b), c=c, overwrite_c=True)
            assert_same(c.copy(), reference.gemm(1, a, b), m=m, n=n, k=k)
            c[...] = -7
            assert_same(memory, expected)


def test_rows_of_a_large_b(isa, rng):
    for i, (m, n, k) in enumerate(FAR_ROWS + MORE_FAR_ROWS):
        pair = SIGN_PAIRS[i % len(SIGN_PAIRS)]
        a, b = pair.operands(rng, m, n, k)
        assert_every_way(lambda b, a=a, pair=pair: pair.gemm(1, a, b), b, reference.gemm(1, a, b), m=m, n=n, k=k)


def test_more_than_one_slab_of_packed_b(isa, rng):
    for (m, n, k), pair in zip(SLABS, SIGN_PAIRS[1:3], strict=True):
        a, b = pair.operands(rng, m, n, k)
        assert_every_way(lambda b, a=a, pair=pair: pair.gemm(1, a, b), b, reference.gemm(1, a, b), m=m, n=n, k=k)


def test_large_c_at_any_place_in_a_cache_line(isa, pair, rng):
    for m, n, k in STREAMED:
        a, b = pair.operands(rng, m, n, k)
        expected = reference.gemm(1, a, b)
        for start, threads in ((0, 1), (13, 1), (0, 2)):
            memory = np.full(m * n + 48, -7, np.int32)
            first = -memory.ctypes.data // 4 % 16 + start
            c = memory[first : first + m * n].reshape(m, n)
            # The part of a second thread is not as large as what is written past the caches.
            with int8blas.num_threads(threads):
                pair.gemm(1, a, b, c=c, overwrite_c=True)
            assert_same(c, expected, m=m, n=n, k=k, start=start, threads=threads)
            assert (memory[:first] == -7).all()
            assert (memory[first + m * n :] == -7).all()


@pytest.mark.parametrize(
    ("path", "shapes", "form"),
    [
        ("tiny", TINY, "C order"),
        ("long", LONG_K, "F order"),
        ("rows", LARGE_ROWS, "C order"),
        ("dots", LARGE_DOTS, "packed"),
        ("dots", LARGE_DOTS_OF_COLUMNS, "F order"),
        ("thin", LARGE_THIN, "packed"),
        ("blocks", LARGE_BLOCKS, "C order"),
    ],
)
def test_explain_tells_the_path(isa, path, shapes, form, rng):
    if isa == "ref":  # has no kernels for operands in place
        path = {"rows": "blocks", "dots": "blocks", "thin": "blocks"}.get(path, path)
    if isa == "amx" and (path == "long" or (form == "packed" and path == "dots")):  # more are for the matrix unit
        shapes = [shape for shape in shapes if shape[1] <= 4]
    for m, n, k in shapes:
        a, b = SIGN_PAIRS[1].operands(rng, m, n, k)
        explanation = int8blas.explain(a, B_FORMS[form](b))
        assert (explanation.path, explanation.isa) == (path, isa), (m, n, k)
        assert path in str(explanation)


def test_explain_tells_whether_more_rows_pack_b(isa, rng):
    """They read columns in place with VNNI of 512 bits, whose kernels have 16 of them."""
    a, b = SIGN_PAIRS[1].operands(rng, 64, 300, 999)
    b = np.asfortranarray(b)
    in_place = isa == "avx512vnni"
    assert int8blas.explain(a, b).path == ("dots" if in_place else "blocks")
    assert int8blas.explain(a, int8blas.pack_b(b)).path == "blocks"


def test_explain_tells_the_tile_of_one_row(isa):
    a, packed = np.ones((1, 5000), np.uint8), int8blas.pack_b(np.ones((5000, 400), np.int8))
    assert int8blas.explain(a, packed).tile == (1, 16 if isa == "ref" else 48)
    assert int8blas.explain(a[:, :50], int8blas.pack_b(np.ones((50, 400), np.int8))).tile[0] == 1
