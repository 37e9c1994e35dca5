"""benchmarks/port_model.py: loops in a disassembly, and the model's results for them."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "port_model.py"

# A loop with two multiplications inside a loop without multiplications, then a loop with three multiplications, one of
# them skipped by a forward branch.
ARM = """
dot.o:	file format elf64-littleaarch64

Disassembly of section .text:

0000000000000000 <tile>:
       0:      	mov	x9, x1
       4:      	ldp	q0, q1, [x0], #0x20
       8:      	sdot	v16.4s, v0.16b, v1.4b[0]
       c:      	sdot	v17.4s, v0.16b, v1.4b[1]
      10:      	subs	x9, x9, #0x1
      14:      	b.ne	0x4 <tile+0x4>
      18:      	add	x2, x2, #0x10
      1c:      	cbnz	x2, 0x0 <tile>
      20:      	smull	v2.8h, v0.8b, v1.8b
      24:      	tbz	w3, #0x3, 0x2c <tile+0x2c>
      28:      	smull2	v3.8h, v0.16b, v1.16b
      2c:      	smlal	v2.8h, v4.8b, v5.8b
      30:      	b.hi	0x20 <tile+0x20>
      34:      	ret

0000000000000040 <copy>:
      40:      	ldr	q0, [x0], #0x10
      44:      	b.lo	0x40 <copy>
      48:      	b	0x0 <tile>
"""
X86 = """
Disassembly of section .text:

0000000000000000 <tile>:
       0: 	vpdpbusd	(%rax){1to16}, %zmm1, %zmm2
       7: 	vpdpbusd	0x40(%rip), %zmm1, %zmm3  # 0x50 <table>
       e: 	jne	0x0 <tile>
      10: 	jmp	0x0 <tile>
"""
# An output of llvm-mca 19 for 100 iterations of one load, two multiplications and a branch, reduced to the part that
# the script reads.
REPORT = {
    "CodeRegions": [
        {
            "Instructions": ["ldp\tq0, q1, [x0]", "sdot\tv16.4s, v0.16b", "sdot\tv17.4s, v0.16b", "b.ne\t#4"],
            "InstructionInfoView": {"InstructionList": [{"RThroughput": cost} for cost in (1, 0.5, 0.5, 1)]},
            "SummaryView": {"Iterations": 100, "TotalCycles": 125},
        }
    ]
}


@pytest.fixture(scope="module")
def model():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("port_model", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks here for its annotations
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_functions_and_their_instructions(model):
    (tile_name, tile), (copy_name, copy) = model.functions(ARM)
    assert (tile_name, copy_name) == ("tile", "copy")
    assert [instruction.address for instruction in tile] == list(range(0, 0x38, 4))
    assert copy[0] == model.Instruction(0x40, "ldr\tq0, [x0], #0x10")


def test_innermost_loops_have_no_other_loop_inside(model):
    (_, tile), (_, copy) = model.functions(ARM)
    ends = [(loop[0].address, loop[-1].address) for loop in model.innermost_loops(tile)]
    assert ends == [(0x04, 0x14), (0x20, 0x30)]
    assert [len(loop) for loop in model.innermost_loops(copy)] == [2]


def test_the_hottest_loop_has_most_multiplications(model):
    (_, tile), (_, copy) = model.functions(ARM)
    loop = model.hottest_loop(tile)
    assert (loop[0].address, model.multiplies(loop)) == (0x20, 3)
    assert model.hottest_loop(copy) is None
    assert model.hottest_loop([]) is None


def test_a_jump_without_condition_is_no_loop(model):
    ((_, tile),) = model.functions(X86)
    assert [len(loop) for loop in model.innermost_loops(tile)] == [3]


def test_the_assembler_gets_no_comments(model):
    ((_, tile),) = model.functions(X86)
    assert model.assembly(model.hottest_loop(tile)).splitlines() == [
        "vpdpbusd\t(%rax){1to16}, %zmm1, %zmm2",
        "vpdpbusd\t0x40(%rip), %zmm1, %zmm3",
        "jne\t0x0",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "mul",
        "mla",
        "sdot",
        "udot",
        "usdot",
        "sudot",
        "smmla",
        "ummla",
        "usmmla",
        "smull",
        "smull2",
        "umull",
        "umlal2",
        "smlsl",
    ],
)
def test_what_multiplies(model, name):
    assert model.Instruction(0, f"{name}\tv0.4s, v1.16b, v2.16b").multiplies


@pytest.mark.parametrize(
    "text", ["sadalp v0.4s, v1.8h", "fmul v0.4s, v1.4s, v2.4s", "mul x0, x1, x2", "vpaddd %ymm1, %ymm2"]
)
def test_what_does_not_multiply_vectors_of_integers(model, text):
    assert not model.Instruction(0, text).multiplies


@pytest.mark.parametrize(
    ("text", "products"),
    [
        ("sdot\tv16.4s, v0.16b, v1.4b[0]", 16),
        ("udot\tv16.2s, v0.8b, v1.8b", 8),
        ("usmmla\tv0.4s, v1.16b, v2.16b", 32),
        ("smull\tv2.8h, v0.8b, v1.8b", 8),
        ("smlal2\tv2.8h, v0.16b, v1.16b", 8),
        ("smlal\tv2.4s, v0.4h, v1.h[2]", 4),
        ("mla\tv2.8h, v0.8h, v1.8h", 8),
        ("vpdpbusd\t(%rax){1to16}, %zmm1, %zmm12", 64),
        ("vpdpbusd\t%ymm3, %ymm1, %ymm2", 32),
        ("vpmaddwd\t%ymm3, %ymm1, %ymm2", 0),
        ("sadalp\tv0.4s, v2.8h", 0),
    ],
)
def test_products_of_an_instruction(model, text, products):
    assert model.Instruction(0, text).products == products


def test_an_estimate_compares_all_cycles_with_those_of_the_multiplications(model):
    estimate = model.estimate(json.dumps(REPORT))
    assert (estimate.cycles, estimate.bound, estimate.ratio) == (1.25, 1.0, 0.8)
