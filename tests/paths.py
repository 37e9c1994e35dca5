"""Shared by the tests of all paths: problems with every form of B, layout of A and C, and number of threads."""

import numpy as np
import reference
from arrays import B_FORMS, SIGN_PAIRS, assert_same, place

import int8blas

THREADS = (1, 3)
# Shapes for which an instruction set uses a path if it has kernels for it, and another path otherwise.
SHAPES = {
    "few_rows": (
        (1, 64, 130), (2, 65, 257), (1, 1000, 259), (2, 2100, 66),
        (3, 300, 258), (5, 1030, 67), (6, 64, 1030), (11, 130, 71), (12, 640, 66), (25, 500, 70), (48, 192, 65),
        # Rows of B that are a multiple of 64 bytes apart, so that blocks are aligned, and of 2048, so that blocks are
        # copied.
        (1, 1088, 66), (4, 1088, 35), (10, 1088, 67), (3, 2048, 18), (13, 2048, 67),
    ),
    "few_columns": (
        # Rows of A.
        (9, 1, 200), (300, 2, 65), (513, 3, 129), (100, 5, 1030), (129, 7, 64), (257, 8, 131), (75, 1, 1030),
        (70, 4, 516), (35, 6, 300), (79, 9, 67), (67, 11, 130), (71, 13, 259), (141, 16, 66),
        # Columns of B; more rows than a kernel takes, if it stores C itself.
        (1, 300, 67), (3, 130, 1000), (7, 97, 129), (16, 200, 259), (4, 77, 64), (10, 79, 130), (13, 35, 65),
        (17, 130, 67), (33, 77, 129), (64, 90, 200),
    ),
    # Rows of whole cache lines, which the path shifts to alignment, and other rows; one dword of A and more; tails.
    "small_k": (
        (130, 400, 3), (67, 740, 8), (129, 528, 1), (400, 130, 13), (760, 66, 27), (170, 304, 30), (200, 257, 16),
        (800, 64, 32), (180, 288, 6), (70, 1040, 23), (500, 100, 2), (64, 1600, 12),
    ),
    # The first line: threads share packed panels of B. The second line: each thread packs B for its own columns.
    "blocks": (
        (65, 49, 1030), (70, 1040, 517), (130, 200, 300), (300, 33, 700),
        (7, 300, 600), (16, 2100, 257), (53, 1100, 300), (64, 70, 1030),
    ),
    "long_k": ((1, 1, 300), (5, 8, 2600), (8, 3, 2000)),
}  # fmt: skip
ALL = tuple(shape for shapes in SHAPES.values() for shape in shapes)
TINY = ((3, 5, 7), (17, 128, 5), (40, 33, 48))
TALL = ((300, 9, 5), (200, 40, 3), (1500, 1, 2), (70, 17, 64))
# Layouts of A or C: the paths read rows in place, columns in place, or neither.
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "neither": lambda a: place(a, "every other column"),
}


def assert_every_way(gemm, b, expected, **problem):
    """Check `gemm(b)` for every form of B and number of threads."""
    for form, make in B_FORMS.items():
        packed = make(b)
        for threads in THREADS:
            with int8blas.num_threads(threads):
                assert_same(gemm(packed), expected, form=form, threads=threads, **problem)


def check_products(pair, shapes, a_layout, rng):
    """Check plain products, without parameters."""
    for m, n, k in shapes:
        a, b = pair.operands(rng, m, n, k)
        a = LAYOUTS[a_layout](a)
        assert_every_way(lambda b, a=a: pair.gemm(1, a, b), b, reference.gemm(1, a, b), m=m, n=n, k=k)


def check_options(pair, shapes, a_layout, rng):
    """Check zero points, offsets, alpha and beta, for some of the shapes with each layout."""
    for m, n, k in shapes[list(LAYOUTS).index(a_layout) :: len(LAYOUTS)]:
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


def check_layouts_of_c(shapes, form, rng):
    """Check that C may have any strides, and that nothing outside it is written."""
    for m, n, k in shapes[::3]:
        a, b = SIGN_PAIRS[1].operands(rng, m, n, k)
        memory = np.full((2 * m + 1, 3 * n + 1), -7, np.int32)
        for c in (memory[1::2, 1::3], memory.reshape(3 * n + 1, 2 * m + 1).T[1::2, 1::3]):
            expected = memory.copy()
            int8blas.gemm_s8s8s32(1, a, B_FORMS[form](b), c=c, overwrite_c=True)
            assert_same(c.copy(), reference.gemm(1, a, b), m=m, n=n, k=k)
            c[...] = -7
            assert_same(memory, expected)


def check_explained(path, isa, shapes, form, rng):
    """Check that `explain` names this path for products with a B in this form."""
    for m, n, k in shapes:
        a, b = SIGN_PAIRS[1].operands(rng, m, n, k)
        explanation = int8blas.explain(a, B_FORMS[form](b))
        assert (explanation.path, explanation.isa) == (path, isa), (m, n, k)
        assert path in str(explanation)
