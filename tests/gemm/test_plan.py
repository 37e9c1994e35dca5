"""Plans for machines other than this one: blocks fit the caches of those machines, and every thread has enough work for
its start to save time.

A plan is a pure function of problem, machine and instruction set, so these tests need no operands.
"""

import itertools
import math

import pytest

from int8blas.core.kernels import built_isas
from int8blas.gemm.explain import plan_of

KIB = 1 << 10
L2_SIZES = (256 * KIB, 512 * KIB, 1024 * KIB, 1280 * KIB, 2048 * KIB)
CORES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 31, 32, 48, 64, 96, 128)
SHAPES = (*itertools.product((1, 2, 7, 8, 33, 64, 65, 100, 256, 500, 1024, 3000), (16, 48, 100, 256, 1000, 4096),
                             (16, 64, 256, 1000, 4096, 12000)), (20000, 48, 256), (100, 20000, 512))  # fmt: skip
FORMS = {"plain": {}, "columns": {"b_columns": True}, "packed": {"packed": True}}
# Kernel tables that do not exist: registers of 128 and of 1024 bits, with tiles of other shapes. All other fields are
# taken from existing kernels for this architecture.
OTHER_TILES = {
    "128 bits": {"isa": "ref", "tile": (6, 1)},
    "128 bits, lanes": {"isa": "avxvnni", "tile": (8, 1)},
    "1024 bits": {"isa": "avx512vnni", "tile": (12, 4)},
    "1024 bits, pairs": {"isa": "avx512bw", "tile": (6, 8)},
    "1024 bits, products of matrices": {"isa": "i8mm", "tile": (12, 4)},
}
TABLES = {isa: {"isa": isa} for isa in built_isas()} | {
    name: table for name, table in OTHER_TILES.items() if table["isa"] in built_isas()
}
# CPUs with 64-bit Arm: bytes of L1, of a core's part of L2, and of L3, and the number of cores. ARM_TABLES has the
# kernel tables of such CPUs that are in this build, or a table with tiles of equal size.
ARM_CPUS = {
    "Cortex-A53": (32 * KIB, 128 * KIB, 0, 4),
    "Cortex-A72": (32 * KIB, 256 * KIB, 0, 4),
    "Cortex-A76": (64 * KIB, 512 * KIB, 2048 * KIB, 4),
    "Neoverse N1": (64 * KIB, 1024 * KIB, 32768 * KIB, 64),
    "Neoverse V1": (64 * KIB, 1024 * KIB, 32768 * KIB, 64),
    "Apple M1": (128 * KIB, 3072 * KIB, 8192 * KIB, 8),
}
ARM_TABLES = {name: table for name, table in TABLES.items() if name in ("neon", "dotprod", "i8mm", "128 bits")}
PANEL = 16
MARGIN = 1.15
THREAD_BYTES = 1 << 19  # loading this many bytes takes as long as the multiply-adds for which a thread is started


def machine(l2=1024 * KIB, cores=1, l1=32 * KIB):
    return {"l1": l1, "l2": l2, "l3": 32 << 20, "cores": cores}


def units(pieces):
    return sum((row_end - row) * (column_end - column) for row, row_end, column, column_end in pieces)


def tiles(plan, pieces, n):
    """Elements of C in the tiles of some pieces, including rows beyond the edge of C."""
    height, width = plan["unit"]
    columns = -(-n // PANEL) * PANEL
    return sum(
        (row_end - row) * height * max(0, min(column_end * width, columns) - column * width)
        for row, row_end, column, column_end in pieces
    )


def time_of(plan, m, n, k, packed):
    """A simple model of the time, in multiply-adds.

    The thread with the most work determines the time: it multiplies its part, where rows beyond the edge take as long
    as rows inside, or waits for its part of the largest matrix to arrive from memory. It packs its part of B, or all of
    B; a packed byte takes as long as 8 multiply-adds. Each doubling of the number of threads adds half of
    `thread_work`, the minimum work for which one more thread saves time.
    """
    work = plan["thread_work"]
    if plan["k_parts"] > 1:
        part = 1 / plan["k_parts"]
    else:
        part = max(tiles(plan, pieces, n) for pieces in plan["parts"]) / (m * min(n, packed_columns(plan)))
    memory = max(n * k, m * k, 4 * m * n) / THREAD_BYTES * work
    packing = 0
    if plan["path"] == "blocks" and not packed:
        packing = 8 * n * k * (1 if plan["private_rows"] else part if plan["private_columns"] else 1 / plan["threads"])
    return max(m * n * k, memory) * part + packing + work / 2 * math.log2(plan["threads"])


def packed_columns(plan):
    """The number of columns of C that the threads divide at a time."""
    return plan["units"][1] * plan["unit"][1]


def block_bytes(plan, m):
    """Bytes that stay in the L2 cache: a block of A and the panels of B of a tile, or, for a matrix unit, a block of B
    and the rows of A of one row of tiles."""
    words = 2 if plan["widens"] else 1
    if m <= plan["mr"]:  # B is read only once, so that it need not stay in a cache
        return m * plan["kc"], 0
    if plan["by_matrix"]:
        return min(plan["mr"], m) * plan["kc"], plan["nc"] * PANEL * plan["kc"]
    return min(plan["mc"], m) * plan["kc"] * words, plan["np"] * PANEL * plan["kc"] * words


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("l2", L2_SIZES)
def test_blocks_fit_the_l2_cache(table, l2):
    seen = 0
    for (m, n, k), form, cores in itertools.product(SHAPES, FORMS.values(), (1, 4)):
        plan = plan_of(m, n, k, machine=machine(l2, cores), **TABLES[table], **form)
        if plan["path"] == "blocks":
            seen += 1
            assert sum(block_bytes(plan, m)) <= l2, (m, n, k, form, plan)
    assert seen > 100


@pytest.mark.parametrize("table", ARM_TABLES)
@pytest.mark.parametrize("cpu", ARM_CPUS)
def test_blocks_fit_the_caches_of_arm(cpu, table):
    """A panel of B, which every tile reads again, fits the L1 cache together with the tile's rows of A, and threads
    have equally even parts as on other machines."""
    l1, l2, l3, cores = ARM_CPUS[cpu]
    seen = 0
    for (m, n, k), form, threads in itertools.product(SHAPES, FORMS.values(), {1, cores}):
        plan = plan_of(m, n, k, machine=dict(l1=l1, l2=l2, l3=l3, cores=threads), **ARM_TABLES[table], **form)
        counts = [units(pieces) for pieces in plan["parts"]]
        assert len(counts) <= threads
        assert max(counts) < sum(counts) / len(counts) + 1, (m, n, k, form, plan)
        if plan["path"] == "blocks":
            seen += 1
            a, b = block_bytes(plan, m)
            assert a + b <= l2, (m, n, k, form, plan)
            assert b == 0 or b + plan["mr"] * plan["kc"] <= l1, (m, n, k, form, plan)
    assert seen > 100


@pytest.mark.parametrize("table", TABLES)
def test_blocks_are_the_same_in_a_cache_that_is_larger_than_they_need(table):
    least = (2048 if table == "amx" else 1024) * KIB  # the sizes at which the tables were tuned
    for (m, n, k), form in itertools.product(SHAPES, FORMS.values()):
        if n * k > 1024 * KIB:  # B fits one cache and not the other
            continue
        plans = [plan_of(m, n, k, machine=machine(l2), **TABLES[table], **form) for l2 in (least, 2 * least)]
        for fact in ("path", "unit", "parts", "mc", "kc", "np", "packed_panels"):
            assert plans[0][fact] == plans[1][fact], (m, n, k, form, fact)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("cores", CORES)
def test_no_thread_has_more_than_a_unit_above_the_mean(table, cores):
    """A unit is a tile, or a row of tiles where threads would otherwise write to the same cache lines of C."""
    for (m, n, k), form in itertools.product(SHAPES, FORMS.values()):
        plan = plan_of(m, n, k, machine=machine(cores=cores), **TABLES[table], **form)
        assert plan["threads"] <= cores
        counts = [units(pieces) for pieces in plan["parts"]]
        assert sum(counts) == plan["units"][0] * plan["units"][1], (m, n, k, form, plan)
        assert max(counts) < sum(counts) / len(counts) + 1, (m, n, k, form, plan)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("form", FORMS)
def test_time_does_not_grow_with_cores(table, form):
    """A small increase is allowed: threads are started if the average part has enough work, and parts of whole tiles
    may be smaller."""
    for m, n, k in SHAPES:
        before, plan_before = math.inf, None
        for cores in CORES:
            plan = plan_of(m, n, k, machine=machine(cores=cores), **TABLES[table], **FORMS[form])
            time = time_of(plan, m, n, k, form == "packed")
            assert time <= MARGIN * before, (m, n, k, cores, plan_before, plan)
            before, plan_before = min(time, before), plan


def test_a_plan_needs_kernels_that_were_built():
    with pytest.raises(ValueError, match=r"name must be one of .*, got 'mmx'"):
        plan_of(8, 8, 8, "mmx", machine())
