"""The set of GEMM shapes (M, N, K) that the tests and the benchmarks share.

Register tiles have at most 14 rows and 48 columns, B panels have 16 columns, and a group has 4 k. The sizes below are
multiples of these numbers, and one less and one more than multiples.
"""

from itertools import product

M_EDGES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 27, 28, 29, 42, 43, 70)
N_EDGES = (0, 1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 70)
K_EDGES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70)

_EDGES = set(product(M_EDGES, N_EDGES, K_EDGES))
_SWEEPS = {
    shape
    for size in range(71)
    for first, second in product((1, 17, 49), (3, 33))
    for shape in ((size, first, second), (first, size, second), (first, second, size))
}

# Every combination of edges, and every size 0..70 along each axis.
GRID = tuple(sorted(_EDGES | _SWEEPS))

# A coarse grid, for tests that vary something other than the shape.
SMALL_GRID = tuple(product((0, 1, 2, 6, 8, 15, 29), (0, 1, 15, 17, 48, 65), (0, 1, 3, 4, 18, 65)))

# A few shapes for tests of many combinations.
FEW = ((1, 1, 1), (1, 50, 7), (3, 1, 64), (5, 16, 4), (8, 48, 32), (15, 49, 33), (31, 70, 66))

# Larger than a block of any kernel in at least one dimension, and not multiples of a tile.
BLOCKED = (
    (1, 1030, 1100),
    (2, 1230, 900),
    (4, 1030, 300),
    (3, 17, 8200),
    (5, 65, 4100),
    (33, 1025, 130),
    (130, 49, 1030),
    (257, 130, 515),
    (300, 1, 700),
    (1030, 33, 65),
    (257, 272, 3),
    (170, 301, 31),
)

# Shape classes of real use, by name.
CLASSES = {
    "square": tuple((n, n, n) for n in (16, 32, 64, 128, 256, 512, 1024, 2048)),
    "gemv": ((1, 512, 512), (1, 1024, 1024), (1, 4096, 4096), (4, 1024, 1024), (4, 4096, 4096)),
    "tall": ((4096, 64, 64), (16384, 64, 256), (3136, 64, 576)),
    "wide": ((16, 4096, 256), (64, 3072, 768)),
    "deep": ((32, 32, 16384), (64, 64, 4096)),
    "odd": ((97, 101, 103), (255, 257, 259), (511, 513, 509)),
}
