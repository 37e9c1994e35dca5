"""Make the table at the top of README and its picture: one product, on one thread, with VNNI and without.

    python benchmarks/first_page.py                # prints the table, about a minute
    python benchmarks/first_page.py --update       # writes it to README.md and docs/pictures, and draws the picture

Needs scipy, torch, onnxruntime, onnx, numkong and onednn (but not onednn-cpu-gomp, whose files have the same names);
a missing library is omitted from the table. All contestants of a column take turns on one CPU, in a separate process,
and each result is compared with the exact one. Minimum and median of the samples are printed; the table has the minima.

"Without VNNI" means kernels of AVX2. On a CPU that supports more, int8blas (INT8BLAS_ISA), oneDNN (ONEDNN_MAX_CPU_ISA),
OpenBLAS (OPENBLAS_CORETYPE) and NumKong (disable_capability) can be restricted to AVX2. torch without mkldnn uses its
code for CPUs without VNNI. onnxruntime cannot be restricted to AVX2, so it is measured only on CPUs without VNNI.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "pictures" / "first_page_figures.py"
BEGIN, END = "<!-- benchmarks/first_page.py: begin -->", "<!-- end -->"
SHAPE = (512, 768, 768)
UINT8_A = {"ORT packed"}  # these peers take 70 times as long with an int8 A
COLUMNS = {"VNNI": "avx512vnni", "no VNNI": "avx2"}
SETTINGS = {"avx512vnni": {}, "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}}
# The rows of the table, in its order: the name of each by the name of its peer.
ROWS = {
    "int8blas packed": "int8blas, packed B",
    "int8blas": "int8blas",
    "SciPy sgemm": "SciPy `sgemm`, float32",
    "torch int_mm": "`torch._int_mm`",
    "ORT packed": "onnxruntime `MatMulInteger`, uint8 A",
    "oneDNN gemm": "oneDNN `dnnl_gemm_s8s8s32`",
    "NumKong packed": "NumKong `dots_packed`",
}


def newest_onednn():
    """Return the function dnnl_gemm of the package onednn, the newest oneDNN. The primitives of this package need a
    SYCL device; dnnl_gemm does not."""
    from int8blas._bench.peers import onednn_gemm
    from int8blas._bench.peers.base import find_library

    library = ctypes.CDLL(str(find_library("onednn", "libdnnl.so")))
    return onednn_gemm.Gemm(library, onednn_gemm.version_of(library))


def contestants(isa: str):
    """Return the installed peers of the table, and the reasons why others are missing."""
    from int8blas._bench import peers as installed
    from int8blas._bench.peers import ours
    from int8blas._bench.peers.base import UnavailableError

    found, missing = installed.load((*installed.INT8, *installed.FLOAT32), {"onednn_gemm"}, True)
    found = ours.contestants("reuse", None) + found
    try:
        found.append(newest_onednn())
    except (UnavailableError, OSError) as reason:
        missing["onednn"] = str(reason)
    missing.pop("onednn_gemm", None)
    found = [peer for peer in found if peer.name in ROWS]
    for peer in found:
        if hasattr(peer, "limit_isa"):
            peer.limit_isa(isa)
    if isa == "avx2" and "avx512bw" in ours.int8blas.available_isas():
        found = [peer for peer in found if peer.library != "onnxruntime"]
    return found, missing


def measure(isa: str, budget: float) -> dict[str, object]:
    """Return minimum and median milliseconds and the fault of each contestant, in this process."""
    from int8blas._bench import environment
    from int8blas._bench.peers import ours
    from int8blas._bench.shapes import Operands, Problem
    from int8blas._bench.timing import Plan
    from int8blas._bench.timing import measure as take_turns

    found, missing = contestants(isa)
    operands = {signs: Operands(Problem("bert", *SHAPE, signs)) for signs in ("s8s8", "u8s8")}
    with contextlib.ExitStack() as stack:
        if isa == "avx2" and any(peer.library == "torch" for peer in found):
            import torch

            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        ours.int8blas.use_isa(isa)
        prepared = {}
        for peer in found:
            peer.set_threads(1)
            prepared[peer.name] = peer.prepare(operands["u8s8" if peer.name in UINT8_A else "s8s8"], 1)
        for entry in prepared.values():
            entry.run()
        faults = {name: entry.check() for name, entry in prepared.items()}
        plan = Plan(rounds=60, budget=budget, min_sample=2e-3, settle=0)
        times = take_turns({name: entry.run for name, entry in prepared.items()}, plan)
    return {
        "cpu": environment.cpu_name(),
        "versions": {peer.library: peer.version for peer in found},
        "missing": missing,
        "rows": {
            name: {"best": 1e3 * timing.best, "median": 1e3 * timing.median, "fault": faults[name]}
            for name, timing in times.items()
        },
    }


def run_column(isa: str, budget: float) -> dict[str, object]:
    """Run `measure` in a process with the settings of the ISA."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, __file__, "--column", isa, "--budget", str(budget)]
    libraries = {"LD_LIBRARY_PATH": str(Path(sys.prefix) / "lib")}  # the libraries that the package onednn needs
    environment = os.environ | threads | libraries | SETTINGS[isa]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def ours_isas() -> tuple[str, ...]:
    """Return the instruction sets of this CPU."""
    import int8blas

    return tuple(int8blas.available_isas())


def milliseconds(time: float) -> str:
    """Format with hundredths, and without them from 100 on."""
    return f"{time:.0f} ms" if time >= 100 else f"{time:.2f} ms"


def cell(row: dict[str, object] | None) -> str:
    """Format milliseconds, and whether the result is right."""
    if row is None:
        return "not measured"
    wrong = "; **saturates**" if "saturate" in row["fault"] else "; **wrong**" if row["fault"] else ""
    return f"{milliseconds(row['best'])}{wrong}"


def table(columns: dict[str, dict[str, object]]) -> str:
    """Return the lines between the marks in README.md."""
    any_column = next(iter(columns.values()))
    versions = {library: version for column in columns.values() for library, version in column["versions"].items()}
    names = [name for name in ROWS if any(name in column["rows"] for column in columns.values())]
    shape = " x ".join(map(str, SHAPE))
    lines = [
        f"| int8 {shape}, one thread | {' | '.join(columns)} |",
        f"|---|{'---|' * len(columns)}",
        *(
            f"| {ROWS[name]} | {' | '.join(cell(column['rows'].get(name)) for column in columns.values())} |"
            for name in names
        ),
    ]
    listed = ", ".join(f"{library} {version}" for library, version in versions.items())
    words = (
        f"The table is measured on one core of {any_column['cpu']}. The first column uses AVX512-VNNI, and the second"
        " uses AVX2 ([how](benchmarks/first_page.py)). Times are the fastest of interleaved runs. Every result was"
        f" compared with the exact one. The versions are {listed}."
    )
    return "\n".join([*lines, "", *wrap(words)])


def wrap(words: str) -> list[str]:
    """Lines of up to 120 characters."""
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + 1 + len(word) > 120:
            lines.append("")
        lines[-1] += " " * bool(lines[-1]) + word
    return lines


def update(columns: dict[str, dict[str, object]]) -> None:
    """Write the table to README.md and the figures next to the pictures, and draw the pictures."""
    readme = ROOT / "README.md"
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    text, count = pattern.subn(lambda _: f"{BEGIN}\n{table(columns)}\n{END}", readme.read_text())
    if count != 1:
        raise SystemExit(f"README.md must have one table between {BEGIN} and {END}, found {count}")
    readme.write_text(text)
    rows = [
        (
            ROWS[name].replace("`", ""),
            *(
                (round(row["best"], 3), bool(row["fault"])) if (row := column["rows"].get(name)) else None
                for column in columns.values()
            ),
        )
        for name in ROWS
        if any(name in column["rows"] for column in columns.values())
    ]
    content = [
        '"""Written by benchmarks/first_page.py: for each column of the table (ms, whether the result is wrong)."""',
        "",
        f'CPU = "{next(iter(columns.values()))["cpu"]}"',
        f"SHAPE = {SHAPE}",
        f"COLUMNS = {tuple(columns)}".replace("'", '"'),
        "ROWS = (",
        *(f"    {row},".replace("'", '"') for row in rows),
        ")",
        "",
    ]
    FIGURES.write_text("\n".join(content))
    subprocess.run([sys.executable, str(FIGURES.parent)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write README.md and the picture")
    parser.add_argument("--cpu", help="name of the CPU in README.md (default: the name that the system gives)")
    parser.add_argument("--budget", type=float, default=30, help="seconds for each column (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    parser.add_argument("--column", choices=SETTINGS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.column:
        print(json.dumps(measure(options.column, options.budget)))
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # TBB takes as many threads as there are CPUs
    isas = ours_isas()
    columns = {title: run_column(isa, options.budget) for title, isa in COLUMNS.items() if isa in isas}
    for column in columns.values():
        column["cpu"] = options.cpu or column["cpu"]
    for title, column in columns.items():
        for name, row in column["rows"].items():
            print(f"{title:8} {name:22} min {row['best']:8.3f} ms  median {row['median']:8.3f} ms  {row['fault']}")
        for name, reason in column["missing"].items():
            print(f"{title:8} {name}: {reason}")
    print("\n" + table(columns))
    if options.json:
        options.json.write_text(json.dumps(columns, indent=1) + "\n")
    if options.update:
        update(columns)
    if any(row["fault"] for column in columns.values() for name, row in column["rows"].items() if "int8blas" in name):
        raise SystemExit("int8blas gave a wrong result, see above")


if __name__ == "__main__":
    main()
