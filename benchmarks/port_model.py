"""How close inner loops come to the peak rate of multiplication, by LLVM's models of CPUs, which need not be present.

    python benchmarks/port_model.py OBJECT... [--function REGEX] [--cpu NAME]...

Each object is disassembled; for each function that matches, llvm-mca counts the cycles per iteration of the innermost
loop with the most multiplications. The model assumes that all data is in the L1 cache and that branches cost nothing.
Its numbers serve to compare loops; they are not measurements. Columns:

    multiplies    integer multiplications of vectors in the loop, among how many instructions
    cycles        cycles of an iteration when many are run
    bound         cycles that the multiplications alone need, on the ports that can multiply
    ratio         bound / cycles: 1 is a loop that multiplies in every cycle that the CPU can
    products      of bytes, in a cycle, where each multiplication adds up products of bytes

For some CPUs LLVM uses the model of another: Cortex-A57 for cortex-a76, and Apple's first 64-bit CPU for later ones.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

CPUS = {
    "aarch64": ["neoverse-n1", "neoverse-v1", "neoverse-v2", "cortex-a76", "apple-m1", "ampere1"],
    "x86_64": ["znver4", "sapphirerapids", "skylake-avx512", "haswell"],
}
ITERATIONS = 200
VERSIONS = ("-22", "-21", "-20", "-19", "")
MULTIPLY = re.compile(
    r"((su|us|s|u)(dot|mmla)|[su]ml[as]l2?|[su]mull2?|vpdpbusds?|vpdpwssds?|vpmaddubsw|vpmaddwd)\s|(mul|ml[as])\s+v"
)
FUNCTION = re.compile(r"[0-9a-f]+ <(.+)>:")
INSTRUCTION = re.compile(r" *([0-9a-f]+):\s+(\S.*)")
BRANCH = re.compile(r"(?:b\.?\w\w|cbn?z|tbn?z|j[a-z]+)\s.*?(?:0x)?([0-9a-f]+) <")
# The number of products per multiplication, by its name and the type or register of its result.
PRODUCTS = {
    r"\w*dot\s+v\d+\.4s": 16,
    r"\w*dot\s+v\d+\.2s": 8,
    r"\w*mmla\s": 32,
    r"\w*m(ul|l[as])l?2?\s+v\d+\.8h": 8,
    r"\w*m(ul|l[as])l?2?\s+v\d+\.4s": 4,
    r"vpdpbusds?\s.*%zmm\d+$": 64,
    r"vpdpbusds?\s.*%ymm\d+$": 32,
}
COMMENT = re.compile(r"\s*(?:<.*>|//.*|# .*)$")


@dataclass(frozen=True)
class Instruction:
    """One line of a disassembly."""

    address: int
    text: str

    @property
    def multiplies(self) -> bool:
        return MULTIPLY.match(self.text) is not None

    @property
    def products(self) -> int:
        return next((number for pattern, number in PRODUCTS.items() if re.match(pattern, self.text)), 0)

    @property
    def target(self) -> int | None:
        """The target of a conditional branch."""
        found = BRANCH.match(self.text)
        return int(found[1], 16) if found else None


Loop = list[Instruction]


def functions(disassembly: str) -> list[tuple[str, list[Instruction]]]:
    """(name, instructions) of each function in the output of llvm-objdump."""
    found: list[tuple[str, list[Instruction]]] = []
    for line in disassembly.splitlines():
        if header := FUNCTION.fullmatch(line):
            found.append((header[1], []))
        elif found and (instruction := INSTRUCTION.fullmatch(line)):
            found[-1][1].append(Instruction(int(instruction[1], 16), instruction[2].strip()))
    return found


def innermost_loops(instructions: list[Instruction]) -> Iterator[Loop]:
    """The instructions between a backward branch and its target, without another backward branch inside."""
    places = {instruction.address: place for place, instruction in enumerate(instructions)}
    last = -1
    for place, instruction in enumerate(instructions):
        start = places.get(-1 if instruction.target is None else instruction.target)
        if start is not None and start <= place:
            if start > last:
                yield instructions[start : place + 1]
            last = place


def hottest_loop(instructions: list[Instruction]) -> Loop | None:
    """The innermost loop with most multiplications, None if none multiplies."""
    best = max(innermost_loops(instructions), key=multiplies, default=None)
    return best if best is not None and multiplies(best) else None


def multiplies(loop: Loop) -> int:
    return sum(instruction.multiplies for instruction in loop)


def products(loop: Loop) -> int:
    return sum(instruction.products for instruction in loop)


def assembly(loop: Loop) -> str:
    """The source text of the loop for an assembler."""
    return "".join(COMMENT.sub("", instruction.text) + "\n" for instruction in loop)


@dataclass(frozen=True)
class Estimate:
    """The model's result for a loop: cycles per iteration, and the cycles that the multiplications need."""

    cycles: float
    bound: float

    @property
    def ratio(self) -> float:
        return self.bound / self.cycles


def estimate(report: str) -> Estimate:
    """The estimate in the JSON output of llvm-mca for one loop."""
    (region,) = json.loads(report)["CodeRegions"]
    costs = [instruction["RThroughput"] for instruction in region["InstructionInfoView"]["InstructionList"]]
    summary = region["SummaryView"]
    return Estimate(
        cycles=summary["TotalCycles"] / summary["Iterations"],
        bound=sum(cost for cost, text in zip(costs, region["Instructions"], strict=True) if MULTIPLY.match(text)),
    )


def llvm(name: str) -> str:
    """The name of an LLVM program; on Debian it includes the version."""
    for version in VERSIONS:
        if found := shutil.which(name + version):
            return found
    sys.exit(f"port_model.py needs {name}, of LLVM 19 or later (Debian's package llvm-19)")


def run_model(loop: Loop, architecture: str, cpu: str) -> Estimate | str:
    """The model's estimate, or the reason why the model has none."""
    command = [llvm("llvm-mca"), f"-mtriple={architecture}", f"-mcpu={cpu}", f"-iterations={ITERATIONS}", "-json"]
    done = subprocess.run(command, input=assembly(loop), capture_output=True, text=True, check=False)
    if done.returncode:
        reason = re.search(r"error: ([^,\n]*)", done.stderr)
        return reason[1] if reason else done.stderr.strip()
    return estimate(done.stdout)


def disassemble(path: str) -> tuple[str, str]:
    """(architecture, disassembly) of an object file."""
    command = [llvm("llvm-objdump"), "-d", "--no-show-raw-insn", path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return "x86_64" if "x86-64" in text[: text.find("Disassembly")] else "aarch64", text


def print_loop(name: str, loop: Loop, architecture: str, cpus: list[str]) -> None:
    kinds = sorted({instruction.text.split()[0] for instruction in loop if instruction.multiplies})
    print(f"\n{name}: {multiplies(loop)} multiplies ({', '.join(kinds)}) in {len(loop)} instructions")
    for cpu in cpus:
        result = run_model(loop, architecture, cpu)
        if isinstance(result, str):
            print(f"  {cpu:16} {result}")
        else:
            made = f"  products {products(loop) / result.cycles:6.2f}" if products(loop) else ""
            print(f"  {cpu:16} cycles {result.cycles:7.2f}  bound {result.bound:7.2f}  ratio {result.ratio:5.2f}{made}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="+", metavar="OBJECT", help="an object file with the names of its functions")
    parser.add_argument("--function", default="", metavar="REGEX", help="in the function's name (default: all)")
    parser.add_argument("--least", type=int, default=4, help="multiplies of a loop to be shown (default: %(default)s)")
    parser.add_argument("--cpu", action="append", help="one of LLVM's (default: some of the object's architecture)")
    parser.add_argument("--assembly", action="store_true", help="print the loops too")
    options = parser.parse_args()
    for path in options.objects:
        architecture, text = disassemble(path)
        for name, instructions in functions(text):
            loop = hottest_loop(instructions) if re.search(options.function, name) else None
            if loop is not None and multiplies(loop) >= options.least:
                print_loop(name, loop, architecture, options.cpu or CPUS[architecture])
                if options.assembly:
                    print(assembly(loop))


if __name__ == "__main__":
    main()
