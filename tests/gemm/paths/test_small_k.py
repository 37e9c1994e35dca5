"""Small K: C is written row by row, in whole cache lines, and with non-temporal stores if it is large."""

import numpy as np
import reference
from arrays import assert_same
from paths import check_explained

import int8blas

LARGE = ((1024, 1024, 8), (500, 100, 5), (16, 4096, 4))
STREAMED = ((2950, 2864, 3), (3400, 2600, 9), (2901, 2931, 3))


def test_large_c_at_any_place_in_a_cache_line(isa, pair, rng):
    for m, n, k in STREAMED:
        a, b = pair.operands(rng, m, n, k)
        expected = reference.gemm(1, a, b)
        for start, threads in ((0, 1), (13, 1), (0, 2)):
            memory = np.full(m * n + 48, -7, np.int32)
            first = -memory.ctypes.data // 4 % 16 + start
            c = memory[first : first + m * n].reshape(m, n)
            # The part of a second thread is too small for non-temporal stores.
            with int8blas.num_threads(threads):
                pair.gemm(1, a, b, c=c, overwrite_c=True)
            assert_same(c, expected, m=m, n=n, k=k, start=start, threads=threads)
            assert (memory[:first] == -7).all()
            assert (memory[first + m * n :] == -7).all()


def test_zero_points_of_rows_that_begin_anywhere_in_a_cache_line(isa, pair, rng):
    """A product of every 16th row has the zero points of these rows."""
    m, n, k = 2901, 2931, 3
    a, b = pair.operands(rng, m, n, k)
    for ao, bo in ((5, 3), (rng.integers(0, 100, m), 2), (7, rng.integers(0, 9, n))):
        expected = reference.gemm(1, a, b, ao=ao, bo=bo)
        with int8blas.num_threads(1):
            assert_same(int8blas.matmul(a, b, ao=ao, bo=bo), expected)


def test_explain_tells_the_path(isa, rng):
    check_explained("blocks" if isa == "ref" else "small_k", isa, LARGE, "packed", rng)
