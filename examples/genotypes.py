"""Relationship and kinship matrices of genotypes, from exact products of bytes, compared with NumPy in float32.

    pip install --no-deps fastlmm && python examples/genotypes.py     # simulated genotypes that fastlmm ships
    python examples/genotypes.py file.bed                             # others, beside file.fam
    python examples/genotypes.py --random 2000 100000                 # individuals and SNPs, drawn at random

A genotype is 0, 1 or 2, the number of copies of an allele; 3 stands for a missing one. VanRaden's relationship matrix
is Z Z' divided by the sum of 2 p (1 - p) over SNPs with allele frequencies p, where Z has genotypes minus 2 p, and 0
for missing ones. The standardized matrix, which GCTA computes, divides each SNP of Z by the square root of 2 p (1 - p),
and the product by the number of SNPs. One Gram matrix of integers is enough to compute either. KING's kinship consists
of four counts over the SNPs that are known in both individuals. The first individuals get simulated children, so that
some kinships are known: 1/4.

SNPs come in blocks, whose sums fit int32; the file is mapped, and only one block of it is unpacked at a time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import int8blas

MISSING = 3
BLOCK = 8192  # SNPs; 254 * 254 * 8192 fits int32
STEPS = 127  # the most steps per copy, for imputed means and for weights of SNPs: two copies are 254
SHIPPED = "feature_selection/examples/toydata.5chrom.bed"
CHILDREN = 50
# The content of each byte of a .bed file: four genotypes, the lowest two bits first, as copies of the first allele.
COPIES = np.array([2, MISSING, 1, 0], np.uint8)[(np.arange(256)[:, np.newaxis] >> [0, 2, 4, 6]) & 3]


# --- genotypes: blocks of (SNPs, individuals) ------------------------------------------------------------------------


def read_bed(path: Path) -> Iterator[np.ndarray]:
    """Read blocks of a PLINK 1 file that stores one SNP after another."""
    individuals = len(path.with_suffix(".fam").read_text().splitlines())
    data = np.memmap(path, np.uint8, "r")
    if data[:3].tolist() != [0x6C, 0x1B, 1]:
        raise ValueError(f"{path} is not a .bed file with one SNP after another")
    rows = data[3:].reshape(-1, -(-individuals // 4))
    for start in range(0, len(rows), BLOCK):
        yield COPIES[rows[start : start + BLOCK]].reshape(-1, 4 * rows.shape[1])[:, :individuals]


def with_children(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Append children: number i is the child of individuals 2 i and 2 i + 1. Each parent passes one of two alleles."""
    parents = x[:, : 2 * min(CHILDREN, x.shape[1] // 2)]
    passed = (parents + rng.integers(0, 2, parents.shape, np.uint8)) // 2
    return np.concatenate([x, passed[:, ::2] + passed[:, 1::2]], axis=1)


def means_of(x: np.ndarray) -> np.ndarray:
    """The mean of each SNP's known genotypes, twice the frequency of its allele. Products with ones are sums."""
    ones = np.ones(x.shape[1], np.uint8)
    missing = int8blas.matmul(x == MISSING, ones)
    return (int8blas.matmul(x, ones) - MISSING * missing) / np.maximum(x.shape[1] - missing, 1)


def deviations_of(means: np.ndarray) -> np.ndarray:
    """The standard deviation of each SNP's genotypes, the square root of 2 p (1 - p)."""
    return np.sqrt(means * (1 - means / 2))


# --- matrices --------------------------------------------------------------------------------------------------------


def relationship(blocks: list[np.ndarray], standardized: bool = False) -> np.ndarray:
    """VanRaden's or the standardized matrix, float64. Missing genotypes are the mean of their SNP.

    Means, and weights of SNPs, are rounded: the largest weight of a block is 127 steps. The matrix is divided by the
    sum of the SNPs' variances times their rounded weights; exact weights would make this their number."""
    gram, scale = np.zeros((blocks[0].shape[1],) * 2), 0.0
    for x in blocks:
        means, missing = means_of(x), x == MISSING
        deviations, has_missing = deviations_of(means), missing.any()
        if not standardized and not has_missing:
            scale += float(np.square(deviations).sum())
            gram += int8blas.matmul(x.T, x)
            continue
        weights = np.ones(len(x))
        if standardized:
            np.divide(1, deviations, out=weights, where=deviations > 0)
        unit = STEPS / weights.max()
        copy = np.rint(unit * weights)
        scale += float(np.square(copy / unit * deviations).sum())
        steps = x * copy.astype(np.uint8)[:, np.newaxis]
        if has_missing:
            steps = np.where(missing, np.rint(copy * means).astype(np.uint8)[:, np.newaxis], steps)
        gram += int8blas.matmul(steps.T, steps) / unit**2
    # Subtracting the mean from genotypes subtracts the means of rows and columns from the Gram matrix.
    rows = gram.mean(axis=1)
    return (gram - rows[:, np.newaxis] - rows + rows.mean()) / scale


def kinship(blocks: list[np.ndarray]) -> np.ndarray:
    """KING's robust kinship, float64, from the SNPs for which both genotypes are known."""
    both = opposite = first = 0
    for x in blocks:
        heterozygous = x == 1
        both += int8blas.matmul(heterozygous.T, heterozygous)
        opposite += int8blas.matmul((x == 0).T, x == 2)
        first += int8blas.matmul(heterozygous.T, x < MISSING)  # heterozygous in the first, known in the second
    return (both - 2 * (opposite + opposite.T)) / np.maximum(first + first.T, 1)


def float_relationship(blocks: list[np.ndarray], standardized: bool, dtype: type) -> np.ndarray:
    """The same matrix by NumPy, in float32 or float64; missing genotypes are replaced by means."""
    gram, scale = np.zeros((blocks[0].shape[1],) * 2, dtype), 0.0
    for x in blocks:
        means = means_of(x)
        deviations = deviations_of(means)
        scale += np.count_nonzero(deviations) if standardized else float(np.square(deviations).sum())
        z = x.astype(dtype) - means.astype(dtype)[:, np.newaxis]
        z[x == MISSING] = 0
        if standardized:
            z /= np.where(deviations > 0, deviations, 1).astype(dtype)[:, np.newaxis]
        gram += z.T @ z
    return gram / dtype(scale)


def timed(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return result, 1e3 * (time.perf_counter() - start)


def main() -> int:
    parser = argparse.ArgumentParser(description="Relationships and kinships of genotypes with int8blas.")
    parser.add_argument("file", nargs="?", type=Path, help="a .bed file")
    parser.add_argument("--random", nargs=2, type=int, metavar=("INDIVIDUALS", "SNPS"))
    parser.add_argument("--missing", type=float, default=0.01, help="a part of the genotypes that is made missing")
    parser.add_argument("--quick", action="store_true", help="200 individuals and 2000 SNPs, drawn at random")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    path = options.file
    if not path and not options.random and not options.quick and (package := find_spec("fastlmm")):
        path = Path(package.submodule_search_locations[0]) / SHIPPED
    individuals, snps = options.random or (200, 2000)
    sizes = [min(BLOCK, snps - start) for start in range(0, snps, BLOCK)]
    drawn = (rng.binomial(2, rng.uniform(0.05, 0.5, (size, 1)), (size, individuals)).astype(np.uint8) for size in sizes)
    complete = [with_children(x, rng) for x in (read_bed(path) if path else drawn)]
    holes = [np.where(rng.random(x.shape, np.float32) < options.missing, np.uint8(MISSING), x) for x in complete]
    for blocks in (complete, holes):
        count = blocks[0].shape[1]
        missing = sum(np.count_nonzero(x == MISSING) for x in blocks) / sum(x.size for x in blocks)
        print(f"{count:,} individuals, {sum(map(len, blocks)):,} SNPs, {missing:.1%} missing")
        for kind in ("VanRaden", "standardized"):
            is_standardized = kind == "standardized"
            exact = float_relationship(blocks, is_standardized, np.float64)
            ours, theirs = ("int8blas", relationship), ("NumPy float32", float_relationship, np.float32)
            for name, function, *more in (ours, theirs):
                timed(function, blocks[:1], is_standardized, *more)  # the first call starts threads
                found, milliseconds = timed(function, blocks, is_standardized, *more)
                error = np.abs(found - exact).max()
                print(f"  {kind} relationships, {name}: {milliseconds:.0f} ms, largest error {error:.1e}")
    found, milliseconds = timed(kinship, holes)
    children = min(CHILDREN, count // 3)
    adults = count - children
    first = np.arange(0, 2 * children, 2)
    related = np.concatenate([found[first, adults + first // 2], found[first + 1, adults + first // 2]])
    others = found[:adults, :adults][np.triu_indices(adults, 1)]
    print(f"  kinships: {milliseconds:.0f} ms; parents and children {related.mean():.3f} (1/4), ", end="")
    print(f"others {others.mean():.3f}")
    return 0 if abs(related.mean() - 0.25) < 0.03 else 1


if __name__ == "__main__":
    sys.exit(main())
