"""Markdown tables of the medians over several runs of bench_gemm.py: what docs/performance.md shows.

for i in 1 2 3; do python benchmarks/bench_gemm.py --threads 1,all --json run$i.json; done
python benchmarks/median.py run1.json run2.json run3.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from statistics import median

from peers.ours import PACKED, PLAIN
from results import geometric_mean

KINDS = {"plain": PLAIN, "packed": PACKED}


def row_key(row: dict) -> tuple:
    return row["threads"], row["signs"], row["class"], row["m"], row["n"], row["k"]


def shapes(runs: list[dict]) -> Iterator[tuple[tuple, list[dict]]]:
    """Each problem with its rows, one of each run, in the order of the first run."""
    others = [{row_key(row): row for row in run["rows"]} for run in runs[1:]]
    for row in runs[0]["rows"]:
        rows = [row] + [other[row_key(row)] for other in others if row_key(row) in other]
        yield row_key(row), rows


def gops(rows: list[dict], name: str) -> float:
    return median(row["contestants"].get(name, {}).get("gops", float("nan")) for row in rows)


def print_classes(members: list[tuple[tuple, list[dict]]]) -> None:
    """Geometric means and worst shapes of the ratio to the best peer, by class."""
    print("| class | plain | worst | packed | worst |\n|---|---|---|---|---|")
    for cls, group in groupby(members, key=lambda member: member[0][2]):
        cells = []
        chosen = list(group)
        for kind in KINDS:
            ratios = {
                "x".join(map(str, key[3:])): median(row["ratio"][f"{kind} / best peer"] for row in rows)
                for key, rows in chosen
                if all(row["ratio"][f"{kind} / best peer"] for row in rows)
            }
            if ratios:
                worst = min(ratios, key=lambda shape: ratios[shape])
                cells += [f"{geometric_mean(ratios.values()):.2f}", f"{ratios[worst]:.2f} at {worst}"]
            else:
                cells += ["", ""]
        print(f"| {cls} | " + " | ".join(cells) + " |")


def print_shapes(members: list[tuple[tuple, list[dict]]]) -> None:
    """GOPS of each shape, with the best peer of the first run."""
    print("| M x N x K | plain | best plain peer | packed | best packed peer | of peak | of read |")
    print("|---|---|---|---|---|---|---|")
    for key, rows in members:
        m, n, k = key[3:]
        cells = [f"{m} x {n} x {k}"]
        for kind, ours in KINDS.items():
            peer = rows[0]["best_peer"][kind]
            cells.append(f"{gops(rows, ours):.3g}")
            cells.append(f"{gops(rows, peer):.3g} ({peer})" if peer else "")
        packed = gops(rows, PACKED)
        cells.append(f"{packed / median(row['peak_gops'] for row in rows):.0%}" if rows[0]["peak_gops"] else "")
        bytes_read = m * k + k * n
        read = median(row["read_gbs"] for row in rows) if rows[0]["read_gbs"] else 0
        cells.append(f"{packed * bytes_read / (2 * m * n * k) / read:.0%}" if read else "")
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    runs = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
    print(", ".join(f"{name} {version}" for name, version in runs[0]["versions"].items()))
    for (threads, signs), group in groupby(shapes(runs), key=lambda member: member[0][:2]):
        members = list(group)
        print(f"\n{signs}, {threads} thread{'s' * (threads > 1)}; medians of {len(runs)} runs\n")
        print_classes(members)
        print()
        print_shapes(members)


if __name__ == "__main__":
    main()
