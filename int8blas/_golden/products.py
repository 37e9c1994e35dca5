"""Problems of gemm and neighbors: products of matrices, and functions of products."""

from __future__ import annotations

from typing import Any

import numpy as np

import int8blas
from int8blas._golden.cases import Result, golden
from int8blas._golden.draws import Array, Draws

TYPES = {"u8": "uint8", "s8": "int8"}
SIGNS = ("u8s8", "s8s8", "s8u8", "u8u8")
# Shapes for every path (tiny, few rows, few columns, small K, blocks, long K), for edges of tiles, and for threads.
SHAPES = ((1, 1, 1), (7, 16, 5), (16, 16, 16), (29, 49, 33), (1, 70, 300), (4, 130, 65), (300, 3, 70), (130, 150, 8),
          (70, 70, 70), (33, 65, 1030), (90, 257, 130))  # fmt: skip
LARGE = (257, 272, 515)


def operands(draws: Draws, shape: tuple[int, int, int], signs: str) -> tuple[Array, Array]:
    m, n, k = shape
    return draws.integers((m, k), TYPES[signs[:2]]), draws.integers((k, n), TYPES[signs[2:]])


@golden(shape=SHAPES, signs=SIGNS)
def gemm(draws: Draws, shape: Any, signs: Any) -> Result:
    """Run a product with a plain B, and with a B that is packed from its transpose and an A in Fortran order."""
    a, b = operands(draws, shape, signs)
    function = getattr(int8blas, f"gemm_{signs}s32")
    packed = function(1, np.asfortranarray(a), int8blas.pack_b(np.ascontiguousarray(b.T), trans_b=True))
    return [function(1, a, b), packed]


@golden(shape=(LARGE,), signs=SIGNS)
def large_gemm(draws: Draws, shape: Any, signs: Any) -> Result:
    a, b = operands(draws, shape, signs)
    return getattr(int8blas, f"gemm_{signs}s32")(1, a, b)


@golden(shape=((29, 49, 33), (1, 70, 300)), signs=SIGNS, numbers=((1, 0), (1, 1), (0.37, -1.5)), offsetc="FCR")
def full_gemm(draws: Draws, shape: Any, signs: Any, numbers: Any, offsetc: Any) -> Result:
    """Run a product with alpha, beta, C, zero points and offsets."""
    (m, n, _), (a, b) = shape, operands(draws, shape, signs)
    alpha, beta = numbers
    c = draws.integers((m, n), "int32", -(1 << 22), 1 << 22)
    co = draws.integers({"F": 1, "C": m, "R": n}[offsetc], "int32", -(1 << 20), 1 << 20)
    ao, bo = draws.integers(m, a.dtype), draws.integers(n, b.dtype)
    function = getattr(int8blas, f"gemm_{signs}s32")
    return function(alpha, a, b, beta, c, offsetc=offsetc, ao=ao, bo=bo, co=co)


@golden(shape=((29, 49, 33), (4, 130, 65), (70, 70, 70)), signs=("u8s8", "s8s8"))
def saturating_gemm(draws: Draws, shape: Any, signs: Any) -> Result:
    a, b = operands(draws, shape, signs)
    return getattr(int8blas, f"gemm_{signs}s32")(1, a, b, numerics="saturating")


@golden(shape=((5, 9, 64), (70, 40, 130)), b_type=("int8", "uint8"))
def narrow_gemm(draws: Draws, shape: Any, b_type: Any) -> Result:
    """Run a product of small values, with a few large values in B."""
    m, n, k = shape
    b = draws.integers((k, n), b_type, 0, 9)
    b.reshape(-1)[::97] = 127
    return [int8blas.matmul(draws.integers((m, k), "uint8", 0, 3), b), int8blas.matmul(b.T, b)]


@golden(stack=("vectors", "one B", "broadcast", "many"), signs=SIGNS, dtype=("int32", "int64"))
def matmul(draws: Draws, stack: Any, signs: Any, dtype: Any) -> Result:
    shapes = {
        "vectors": ((65,), (65,)),
        "one B": ((3, 7, 33), (33, 20)),
        "broadcast": ((4, 1, 3, 17), (2, 17, 9)),
        "many": ((20, 9, 33), (20, 33, 17)),
    }
    a, b = (
        draws.integers(shape, TYPES[sign]) for shape, sign in zip(shapes[stack], (signs[:2], signs[2:]), strict=True)
    )
    return int8blas.matmul(a, b, dtype=np.dtype(dtype), ao=draws.integer(0, 100), bo=draws.integer(0, 100))


@golden(k=(66_000, 140_000), signs=SIGNS)
def long_k(draws: Draws, k: Any, signs: Any) -> Result:
    """Run products with sums beyond int32: exact in int64, saturated once in int32."""
    a, b = np.full((3, k), np.iinfo(TYPES[signs[:2]]).max, TYPES[signs[:2]]), draws.integers((k, 2), TYPES[signs[2:]])
    a[1:] = draws.integers((2, k), a.dtype)
    b[:, 0] = np.iinfo(b.dtype).max
    return [int8blas.matmul(a, b, dtype=np.dtype("int64")), int8blas.matmul(a, b)]


@golden(shape=((5, 9), (50, 64), (130, 33), (16, 515)), dtype=("uint8", "int8"), trans=(False, True))
def syrk(draws: Draws, shape: Any, dtype: Any, trans: Any) -> Result:
    x = draws.integers(shape, dtype)
    n = shape[trans]
    function = int8blas.syrk_u8s32 if dtype == "uint8" else int8blas.syrk_s8s32
    c = draws.integers((n, n), "int32", -(1 << 20), 1 << 20)
    plain = function(1, x, trans=trans)
    return [plain, function(0.3, x, 1.5, c, trans, True, ao=5), int8blas.matmul(*((x.T, x) if trans else (x, x.T)))]


@golden(shape=((1, 90, 384), (16, 33, 130), (70, 170, 9)), signs=SIGNS)
def distances(draws: Draws, shape: Any, signs: Any) -> Result:
    x, y = operands(draws, shape, signs)
    return int8blas.sqeuclidean(x, np.ascontiguousarray(y.T))


@golden(
    shape=((1, 90, 384), (16, 33, 130), (5, 700, 9)), signs=("u8u8", "s8s8"), metric=("inner", "sqeuclidean", "cosine")
)
def nearest(draws: Draws, shape: Any, signs: Any, metric: Any) -> Result:
    x, y = operands(draws, shape, signs)
    rows = np.ascontiguousarray(y.T)
    return list(int8blas.nearest(x, [int8blas.pack_b(rows, trans_b=True), rows[:7]], 5, metric=metric))


@golden(shape=((3, 17), (65, 49), (130, 70)), dtype=("uint8", "int8"))
def packed(draws: Draws, shape: Any, dtype: Any) -> Result:
    """Return bytes, sums and no-saturation proofs of a packed matrix."""
    made = int8blas.pack_b(draws.integers(shape, dtype))
    return [made.data, made.column_sums, made.certified, made.unpack()]


@golden(shape=((1, 70, 300), (4, 130, 65), (16, 33, 1030), (90, 257, 130)), signs=("u8s8", "s8u8"))
def four_bits(draws: Draws, shape: Any, signs: Any) -> Result:
    """Return bytes, sums and products of a 4-bit matrix, int4 or uint4."""
    (m, n, k), low = shape, -8 if signs.endswith("s8") else 0
    a = draws.integers((m, k), TYPES[signs[:2]])
    packed = int8blas.pack_b(draws.integers((k, n), TYPES[signs[2:]], low, low + 15), bits=4)
    function = int8blas.gemm_u8s4s32 if signs.startswith("u8") else int8blas.gemm_s8s4s32
    return [packed.data, packed.column_sums, int8blas.matmul(a, packed), function(0.3, a, packed, ao=5, bo=3)]


@golden(shape=((29, 49, 33), (5, 9, 200)))
def would_saturate(draws: Draws, shape: Any) -> Result:
    found = int8blas.would_saturate(*operands(draws, shape, "u8s8"))
    return [np.int64(found.count), found.where]


# Functions of 16-bit integers, and the types of A and B.
WIDE_GEMMS = {
    "gemm_s16s16s32": ("int16", "int16"), "gemm_s16s8s32": ("int16", "int8"), "gemm_u16s8s32": ("uint16", "int8"),
}  # fmt: skip


@golden(function=tuple(WIDE_GEMMS), shape=((4, 5, 3), (29, 49, 33), (3, 20, 4000)))
def gemm_of_16_bits(draws: Draws, function: Any, shape: Any) -> Result:
    m, n, k = shape
    a, b = (draws.integers(size, dtype) for size, dtype in zip(((m, k), (k, n)), WIDE_GEMMS[function], strict=True))
    gemm, ao, bo = getattr(int8blas, function), draws.integers(m, a.dtype), draws.integers(n, b.dtype)
    return [gemm(1, a, b), gemm(2**-18, a, b, ao=ao, bo=bo)]


@golden(shape=((1, 70, 300), (29, 49, 33), (90, 257, 130)), bits=(11, 15))
def sixteen_bits(draws: Draws, shape: Any, bits: Any) -> Result:
    """Return the values, sums and products of a packed 16-bit matrix, and one triangle of a product."""
    (m, n, k), end = shape, 1 << bits
    a, b = (draws.integers(size, "int16", -end, end - 1) for size in ((m, k), (k, n)))
    made = int8blas.pack_b(b)
    return [made.data, made.column_sums, int8blas.matmul(a, made), int8blas.syrk_s16s64(3, a, ao=5)]


@golden(src_dtype=("int16", "uint16"), layer=("InnerProduct", "Convolution"))
def source_of_16_bits(draws: Draws, src_dtype: Any, layer: Any) -> Result:
    shape, kernel = ((33, 70), ()) if layer == "InnerProduct" else ((2, 7, 8, 70), (3, 3))
    weights = draws.integers((20, 70, *kernel), "int8")
    made = getattr(int8blas, layer)(weights, src_dtype=src_dtype, dst_dtype="int8", zero_points={"src": 99},
                                    scales={"src": 0.001, "weights": 0.01, "dst": 4.0})  # fmt: skip
    return made(draws.integers(shape, src_dtype))


@golden(dtype=("int16", "int32", "int64", "uint64"), bits=(7, 12, 20, 40), overflow=("wrap", "saturate"))
def integer_matmul(draws: Draws, dtype: Any, bits: Any, overflow: Any) -> Result:
    info = np.iinfo(np.dtype(dtype))
    low, high = max(info.min, -(1 << bits)), min(info.max, (1 << bits) - 1)
    a, b = draws.integers((17, 300), dtype, low, high), draws.integers((300, 20), dtype, low, high)
    return int8blas.matmul(a, b, overflow=overflow)


@golden(function=("dot", "inner", "tensordot", "vecdot", "einsum"), mod=(None, 11, 4093, 2**31 - 1))
def contraction(draws: Draws, function: Any, mod: Any) -> Result:
    a, b = (draws.integers(shape, "int64", -(10**5), 10**5) for shape in ((3, 7, 40), (3, 40, 5)))
    arguments = {
        "dot": (a[0], b[0]), "inner": (a, b[0].T), "tensordot": (a, b, ([0, 2], [0, 1])),
        "vecdot": (a[:, :5], b.transpose(0, 2, 1)), "einsum": ("bij,bjk->ikb", a, b),
    }[function]  # fmt: skip
    return getattr(int8blas, function)(*arguments, mod=mod)


@golden(metric=("inner", "sqeuclidean", "cosine"))
def index(draws: Draws, metric: Any) -> Result:
    found = int8blas.Index(40, metric)
    found.add(draws.reals((300, 40)))
    found.remove(range(10, 60))
    return list(found.search(draws.reals((7, 40)), 9))


@golden(group=(None, 20), rows=(1, 2, 33))
def real_product(draws: Draws, group: Any, rows: Any) -> Result:
    layer = int8blas.RealProduct(draws.reals((200, 33)), bias=draws.reals(33), group=group)
    return layer(draws.reals((rows, 200)))


@golden(shape=((1, 90, 48), (16, 33, 130), (5, 700, 9)))
def bits(draws: Draws, shape: Any) -> Result:
    """Return all Hamming distances, and the smallest Hamming distances."""
    m, n, k = shape
    x, y = draws.integers((m, k), "uint8"), draws.integers((n, k), "uint8")
    found = int8blas.nearest(x, [int8blas.pack_b(y, trans_b=True), y[:7]], 50, metric="hamming")
    return [int8blas.hamming(x, y), *found]


@golden(group=(None, 40), rows=(1, 33))
def real_product_four_bits(draws: Draws, group: Any, rows: Any) -> Result:
    layer = int8blas.RealProduct(draws.reals((200, 33)), bias=draws.reals(33), group=group, bits=4)
    return layer(draws.reals((rows, 200)))
