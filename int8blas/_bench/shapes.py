"""The problems of the benchmark: classes of shapes, and the operands of one problem.

One resource limits all shapes of a class, so a geometric mean over a class is meaningful.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

DTYPES = {"u8": np.uint8, "s8": np.int8}
SIGNS = ("u8s8", "s8s8", "s8u8", "u8u8")

# The shapes (M, N, K) of each class. The comment before a class names the limit of its speed, or describes its shapes.
CLASSES: dict[str, list[tuple[int, int, int]]] = {
    # The call itself is the limit.
    "tiny": [(4, 4, 4), (8, 8, 8), (16, 16, 16), (24, 24, 24), (32, 32, 32)],
    # Packing, tile edges and the overhead of the call are the limit.
    "small": [(48, 48, 48), (64, 64, 64), (96, 96, 96), (128, 128, 128)],
    # Multiply-adds are the limit.
    "square": [(256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048)],
    # Reading B from L2, L3 and memory is the limit.
    "gemv": [(1, 1024, 1024), (1, 4096, 4096), (1, 8192, 8192)],
    "small_m": [(2, 1024, 1024), (4, 1024, 1024), (8, 1024, 1024), (16, 1024, 1024), (4, 4096, 4096), (16, 4096, 4096)],
    # Reading A is the limit.
    "skinny_n": [(1024, 8, 1024), (512, 1, 512), (4096, 1, 1024), (4096, 4, 512), (1024, 16, 1024)],
    # Writing C is the limit.
    "tiny_k": [(2048, 2048, 3), (1024, 1024, 8), (1000, 64, 27), (512, 512, 16)],
    # The shapes of linear layers of encoders and decoders (sequence x features), and of attention heads.
    "bert": [(128, 768, 768), (128, 768, 3072), (128, 3072, 768), (384, 1024, 1024), (128, 128, 64), (128, 64, 128)],
    "llm": [(32, 4096, 4096), (128, 4096, 4096), (64, 11008, 4096)],
    # No dimension fits any tile.
    "odd": [(33, 65, 129), (127, 129, 131), (251, 257, 263), (509, 511, 513), (1001, 999, 997)],
}

QUICK: list[tuple[str, tuple[int, int, int]]] = [
    ("small", (64, 64, 64)),
    ("square", (512, 512, 512)),
    ("square", (1024, 1024, 1024)),
    ("gemv", (1, 1024, 1024)),
    ("small_m", (16, 1024, 1024)),
    ("skinny_n", (1024, 8, 1024)),
    ("bert", (128, 768, 3072)),
    ("odd", (251, 257, 263)),
]


@dataclass(frozen=True)
class Product:
    """The sizes of one product, C (M x N) = A (M x K) @ B (K x N), and its class of shapes."""

    sizes: ClassVar[str] = "M x N x K"
    formula: ClassVar[str] = "2 M N K"  # formula of the number of operations

    cls: str
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def operations(self) -> int:
        """The number of multiplications and additions. A multiply-add counts as two."""
        return 2 * self.m * self.n * self.k


@dataclass(frozen=True)
class Problem(Product):
    """One product of integers, with an int32 C."""

    signs: str

    @property
    def operand_bytes(self) -> int:
        """Return the bytes of A and B, both of which are read at least once."""
        return self.m * self.k + self.k * self.n

    @property
    def total_bytes(self) -> int:
        """Bytes of A, B and the int32 C."""
        return self.operand_bytes + 4 * self.m * self.n


@dataclass(frozen=True)
class Operands:
    """C-ordered A and B of a problem, with the result that every contestant must give.

    The values cover the whole range of their types. With `certified`, B stays in -64..64, where no sum of two products
    with a uint8 A exceeds int16.
    """

    problem: Problem
    certified: bool = False
    a: np.ndarray = field(init=False, repr=False)
    b: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        p = self.problem
        rng = np.random.default_rng(zlib.crc32(repr((p, self.certified)).encode()))
        a_type, b_type = (DTYPES[p.signs[:2]], DTYPES[p.signs[2:]])
        b_info = np.iinfo(b_type)
        low, high = (-64, 64) if self.certified else (b_info.min, b_info.max)
        a_info = np.iinfo(a_type)
        object.__setattr__(self, "a", rng.integers(a_info.min, a_info.max, (p.m, p.k), a_type, endpoint=True))
        object.__setattr__(self, "b", rng.integers(low, high, (p.k, p.n), b_type, endpoint=True))

    @cached_property
    def exact(self) -> np.ndarray:
        """Return the product in int64.

        float64 represents every partial sum exactly (|sum| <= 2**16 * K < 2**53), so its BLAS gives the exact result.
        B is converted in parts, because it may be large.
        """
        a, step = self.a.astype(np.float64), 1024
        parts = [a @ self.b[:, start : start + step].astype(np.float64) for start in range(0, self.problem.n, step)]
        exact: np.ndarray = np.hstack(parts).astype(np.int64)
        return exact

    def saturating(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the result of numerics="saturating" for some rows and columns: sums of two neighbouring products
        saturate to int16.

        A signed A is shifted by 128 first, and 128 times the column sums of B is subtracted at the end. B must be int8.
        """
        shift = 128 if self.a.dtype == np.int8 else 0
        a = self.a[rows].astype(np.int64) + shift
        b = self.b[:, columns].astype(np.int64)
        if a.shape[1] % 2:
            a, b = np.pad(a, ((0, 0), (0, 1))), np.pad(b, ((0, 1), (0, 0)))
        result: np.ndarray = -shift * b.sum(axis=0)[None, :].repeat(len(rows), axis=0)
        for k in range(0, a.shape[1], 2):
            result += np.clip(a[:, k : k + 2] @ b[k : k + 2], -(2**15), 2**15 - 1)
        return result


# Two shapes of most classes, for a run of a minute. The B of one shape fits the L1 and L2 caches, and the B of the
# other shape does not.
MINUTE: list[tuple[str, tuple[int, int, int]]] = [
    ("tiny", (16, 16, 16)),
    ("tiny", (32, 32, 32)),
    ("small", (64, 64, 64)),
    ("small", (128, 128, 128)),
    ("square", (512, 512, 512)),
    ("square", (1024, 1024, 1024)),
    ("gemv", (1, 1024, 1024)),
    ("gemv", (1, 4096, 4096)),
    ("gemv", (1, 8192, 8192)),
    ("small_m", (4, 1024, 1024)),
    ("small_m", (16, 4096, 4096)),
    ("skinny_n", (1024, 8, 1024)),
    ("skinny_n", (4096, 1, 1024)),
    ("tiny_k", (1024, 1024, 8)),
    ("bert", (128, 768, 768)),
    ("bert", (128, 64, 128)),
    ("llm", (32, 4096, 4096)),
    ("odd", (251, 257, 263)),
    ("odd", (1001, 999, 997)),
]


def select(class_names: list[str], quick: bool) -> list[tuple[str, tuple[int, int, int]]]:
    """Return (class, shape) of the chosen classes, or of all classes if none is named."""
    everything = QUICK if quick else [(name, shape) for name, members in CLASSES.items() for shape in members]
    return [(name, shape) for name, shape in everything if not class_names or name in class_names]
