"""Markdown tables of the medians over several runs of bench_gemm.py: what docs/performance.md shows.

for i in 1 2 3; do python benchmarks/bench_gemm.py --threads 1,all --json run$i.json; done
python benchmarks/median.py run1.json run2.json run3.json --plot figure.svg
"""

from __future__ import annotations

import argparse
import json
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


def class_ratios(members: list[tuple[tuple, list[dict]]], kind: str) -> dict[str, dict[str, float]]:
    """The ratio to the best peer of each shape, by class."""
    ratios: dict[str, dict[str, float]] = {}
    for key, rows in members:
        values = [row["ratio"][f"{kind} / best peer"] for row in rows]
        if all(values):
            ratios.setdefault(key[2], {})["x".join(map(str, key[3:]))] = median(values)
    return ratios


def print_classes(members: list[tuple[tuple, list[dict]]]) -> None:
    """Geometric means and worst shapes of the ratio to the best peer, by class."""
    print("| class | plain | worst | packed | worst |\n|---|---|---|---|---|")
    ratios = {kind: class_ratios(members, kind) for kind in KINDS}
    for cls in dict.fromkeys(key[2] for key, _ in members):
        cells = []
        for kind in KINDS:
            shapes_of_class = ratios[kind].get(cls, {})
            if shapes_of_class:
                worst = min(shapes_of_class, key=lambda shape: shapes_of_class[shape])
                cells += [f"{geometric_mean(shapes_of_class.values()):.2f}", f"{shapes_of_class[worst]:.2f} at {worst}"]
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


def plot(groups: list[tuple[str, list[tuple[tuple, list[dict]]]]], path: str) -> None:
    """One axis per group: a dot for each shape, a bar for the geometric mean of its class."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(groups), 1, figsize=(9, 2.6 * len(groups)), squeeze=False, layout="constrained")
    for axis, (title, members) in zip(axes[:, 0], groups, strict=True):
        classes = list(dict.fromkeys(key[2] for key, _ in members))
        for offset, kind in ((-0.2, "plain"), (0.2, "packed")):
            ratios = class_ratios(members, kind)
            places = [place + offset for place, cls in enumerate(classes) if cls in ratios]
            chosen = [ratios[cls] for cls in classes if cls in ratios]
            bars = axis.bar(places, [geometric_mean(r.values()) for r in chosen], width=0.36, label=kind, alpha=0.6)
            for place, values, bar in zip(places, chosen, bars, strict=True):
                axis.plot([place] * len(values), list(values.values()), ".", color=bar.get_facecolor()[:3])
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set(yscale="log", ylabel="times the best other", title=title)
        axis.minorticks_off()
        axis.set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"], minor=False)
        axis.set_xticks(range(len(classes)), classes)
    axes[0, 0].legend()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="JSON files of bench_gemm.py")
    parser.add_argument("--plot", help="draw the ratios to this file")
    arguments = parser.parse_args()
    runs = [json.loads(Path(name).read_text()) for name in arguments.runs]
    print(", ".join(f"{name} {version}" for name, version in runs[0]["versions"].items()))
    groups = []
    for (threads, signs), group in groupby(shapes(runs), key=lambda member: member[0][:2]):
        members = list(group)
        groups.append((f"{signs}, {threads} thread{'s' * (threads > 1)}", members))
        print(f"\n{groups[-1][0]}; medians of {len(runs)} runs\n")
        print_classes(members)
        print()
        print_shapes(members)
    if arguments.plot:
        plot(groups, arguments.plot)


if __name__ == "__main__":
    main()
