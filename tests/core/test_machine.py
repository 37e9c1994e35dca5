"""Cache sizes, which plans depend on: how they are found, and that results do not depend on them."""

from contextlib import contextmanager

import numpy as np
import pytest
import reference
from arrays import B_FORMS, SIGN_PAIRS, assert_same, guarded, needs_mprotect, place

import int8blas
from int8blas.core.caches import BOUNDS, DEFAULTS, believable, count_of, listed_caches, usable_cpus
from int8blas.core.kernels import cpu_caches
from int8blas.core.machine import machine, replace

KIB = 1 << 10
SMALL, LARGE = {"l1": 16 * KIB, "l2": 128 * KIB}, {"l1": 128 * KIB, "l2": 8192 * KIB}
SHAPES = ((3, 300, 258), (13, 2048, 67), (75, 1, 1030), (300, 5, 2000), (130, 200, 300), (70, 90, 9000),
          (66, 1200, 1030), (257, 700, 16), (100, 1500, 600))  # fmt: skip


def write_cache(folder, index, level, kind, size, cpus):
    entry = folder / f"index{index}"
    entry.mkdir()
    for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", cpus)):
        (entry / name).write_text(f"{text}\n")


@pytest.mark.parametrize(("text", "count"), [("0", 1), ("0-3", 4), ("0,64", 2), ("0-1,8-9,12\n", 5)])
def test_cpus_in_a_list(text, count):
    assert count_of(text) == count


def test_caches_as_linux_lists_them(tmp_path):
    write_cache(tmp_path, 0, 1, "Data", "48K", "0,16")
    write_cache(tmp_path, 1, 1, "Instruction", "64K", "0,16")
    write_cache(tmp_path, 2, 2, "Unified", "2048K", "0,16")
    write_cache(tmp_path, 3, 3, "Unified", "105M", "0-31")
    assert listed_caches(tmp_path) == (48 * KIB, 2048 * KIB, 105 << 20)


def test_a_core_has_its_part_of_an_l2_that_others_share(tmp_path):
    write_cache(tmp_path, 0, 1, "Data", "32K", "4")
    write_cache(tmp_path, 2, 2, "Unified", "2M", "4-7")
    assert listed_caches(tmp_path) == (32 * KIB, 512 * KIB, 0)


def test_caches_that_linux_does_not_list(tmp_path):
    write_cache(tmp_path, 0, 1, "Data", "", "0")
    write_cache(tmp_path, 1, 2, "Unified", "512K", "")
    (tmp_path / "index2").mkdir()
    assert listed_caches(tmp_path / "nowhere") == (0, 0, 0)
    assert listed_caches(tmp_path)[0] == listed_caches(tmp_path)[2] == 0


@pytest.mark.parametrize(
    ("listed", "told", "expected"),
    [
        ((48 * KIB, 2048 * KIB, 0), (32 * KIB, 512 * KIB, 7), (48 * KIB, 2048 * KIB, 7)),
        ((0, 0, 0), (32 * KIB, 512 * KIB, 9 << 20), (32 * KIB, 512 * KIB, 9 << 20)),
        ((0, 0, 0), (0, 0, 0), DEFAULTS),
        ((1, 1 << 40, 0), (0, 0, 0), DEFAULTS),
    ],
)
def test_what_is_listed_comes_before_what_the_cpu_tells_and_before_defaults(listed, told, expected):
    assert believable(listed, told) == expected


def test_this_machine():
    here = machine()
    for size, (low, high) in zip((here["l1"], here["l2"]), BOUNDS, strict=True):
        assert low <= size <= high
    assert here["cores"] == len(usable_cpus()) >= 1
    assert all(size >= 0 for size in cpu_caches())
    shown = int8blas.show_config("dicts")["cpu"]
    assert shown["L1 cache of a core"] == f"{here['l1'] // KIB} KiB"
    assert shown["L2 cache of a core"] == f"{here['l2'] // KIB} KiB"
    assert shown["cores"] == here["cores"]


@contextmanager
def replaced(**parts):
    """A context in which plans of the whole process are for another machine; nothing else may run at the same time."""
    before = machine()
    replace(**before | parts)
    try:
        assert machine() == before | parts
        yield
    finally:
        replace(**before)


@pytest.mark.parametrize("caches", [SMALL, LARGE], ids=["small", "large"])
def test_products_do_not_depend_on_caches(isa, caches, rng):
    for i, (m, n, k) in enumerate(SHAPES):
        pair = SIGN_PAIRS[i % len(SIGN_PAIRS)]
        a, b = pair.operands(rng, m, n, k)
        expected = reference.gemm(1, a, b, ao=3, bo=5)
        for form, make in B_FORMS.items():
            packed = make(b)
            with replaced(**caches), int8blas.num_threads(1 + i % 2):
                assert_same(pair.gemm(1, a, packed, ao=3, bo=5), expected, form=form, m=m, n=n, k=k)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_rows_that_no_cache_has_are_read_within_their_bounds(isa, pair, side, rng):
    for m, n, k in ((1, 77, 200), (2, 75, 259), (3, 21, 64), (77, 1, 64), (130, 2, 1030), (9, 4, 130)):
        a, b = pair.operands(rng, m, n, k)
        rows, columns = place(a, "C", guarded(side)), place(b.T, "C", guarded(side)).T
        with replaced(l2=1 << 10, l3=1 << 11):
            assert_same(pair.gemm(1, rows, columns), reference.gemm(1, a, b), m=m, n=n, k=k)


@pytest.mark.parametrize("caches", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    ("channels", "outputs", "size", "groups"), [(3, 24, 5, 1), (64, 40, 3, 1), (32, 32, 3, 32), (32, 32, 3, 8)]
)
def test_convolutions_do_not_depend_on_caches(isa, channels, outputs, size, groups, caches, rng):
    weights = rng.integers(-128, 128, (outputs, channels // groups, size, size), np.int8)
    src = rng.integers(0, 256, (2, 33, 31, channels), np.uint8)
    layer = int8blas.Convolution(weights, groups=groups, padding=1, src_dtype=np.uint8, dst_dtype=np.int32)
    expected = layer(src)
    with replaced(**caches):
        assert_same(layer(src), expected)
