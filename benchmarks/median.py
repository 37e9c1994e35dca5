"""Print Markdown tables of the medians over several runs of a benchmark, for docs/performance_notes.md.

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

from int8blas._bench.peers.ours import PACKED, PLAIN
from int8blas._bench.results import geometric_mean

from peers.ours_linear import FUSED

# int8blas's contestants, by the kinds of a row's "best_peer"; and the tables' names for the ratios of a row.
OURS = {"plain": PLAIN, "packed": PACKED, "fused": FUSED}
RATIOS = {
    "plain / best peer": "plain",
    "packed / best peer": "packed",
    "fused / best peer": "over the best peer",
    "fused / s32 gemm": "over its own bare product",
    "fused / best f32": "over the best float32",
}


def row_key(row: dict) -> tuple[int, str, str, str]:
    """Return threads, kind of problem, class, shape."""
    kind = row["signs"] if "signs" in row else row["kind"] if "kind" in row else f"batch {row['batch']}"
    shape = row["shape"] if "shape" in row else f"{row['m']}x{row['n']}x{row['k']}"
    return row["threads"], kind, row["class"], shape


def shapes(runs: list[dict]) -> Iterator[tuple[tuple, list[dict]]]:
    """Return each problem with its rows, one from each run, in the order of the first run."""
    others = [{row_key(row): row for row in run["rows"]} for run in runs[1:]]
    for row in runs[0]["rows"]:
        rows = [row] + [other[row_key(row)] for other in others if row_key(row) in other]
        yield row_key(row), rows


def gops(rows: list[dict], name: str) -> float:
    return median(row["contestants"].get(name, {}).get("gops", float("nan")) for row in rows)


def ratio(rows: list[dict], name: str) -> float | None:
    values = [row["ratio"].get(name) for row in rows]
    return median(values) if all(values) else None


def class_ratios(members: list[tuple[tuple, list[dict]]], name: str) -> dict[str, dict[str, float]]:
    """Return a ratio of each shape, by class."""
    ratios: dict[str, dict[str, float]] = {}
    for key, rows in members:
        if (value := ratio(rows, name)) is not None:
            ratios.setdefault(key[2], {})[key[3]] = value
    return ratios


def bound(row: dict) -> float:
    """Return the GOPS that the machine's peaks allow for a product: by multiply-adds, and by reading A and B once."""
    m, n, k = (row[name] for name in "mnk")
    return min(row["peak_gops"], 2 * m * n * k * row["read_gbs"] / (m * k + k * n))


def print_bounds(members: list[tuple[tuple, list[dict]]]) -> None:
    """Return the machine's bounds, if they were measured, divided by the best peer, by class."""
    if not all(row.get("read_gbs") and row["peak_gops"] for _, rows in members for row in rows):
        return
    kinds = list(members[0][1][0]["best_peer"])
    ratios: dict[str, dict[str, list[float]]] = {}
    for key, rows in members:
        for kind in kinds:
            peers = [row["contestants"][row["best_peer"][kind]]["gops"] for row in rows if row["best_peer"][kind]]
            if peers:
                value = median(map(bound, rows)) / median(peers)
                ratios.setdefault(key[2], {}).setdefault(kind, []).append(value)
    body = [
        [cls, *(f"{geometric_mean(of_kind[kind]):.2f}" if kind in of_kind else "" for kind in kinds)]
        for cls, of_kind in ratios.items()
    ]
    print("\nThe machine's bounds over the best peer:\n")
    print_table(["class", *kinds], body)


def print_table(head: list[str], body: list[list[str]]) -> None:
    for cells in [head, ["---"] * len(head), *body]:
        print("| " + " | ".join(cells) + " |")


def print_classes(members: list[tuple[tuple, list[dict]]]) -> None:
    """Print geometric means and worst shapes of the ratios, by class."""
    names = [name for name in RATIOS if name in members[0][1][0]["ratio"]]
    ratios = {name: class_ratios(members, name) for name in names}
    body = []
    for cls in dict.fromkeys(key[2] for key, _ in members):
        cells = [cls]
        for name in names:
            shapes_of_class = ratios[name].get(cls, {})
            if shapes_of_class:
                worst = min(shapes_of_class, key=lambda shape: shapes_of_class[shape])
                cells += [f"{geometric_mean(shapes_of_class.values()):.2f}", f"{shapes_of_class[worst]:.2f} at {worst}"]
            else:
                cells += ["", ""]
        body.append(cells)
    print_table(["class", *(word for name in names for word in (RATIOS[name], "worst"))], body)


def peak_shares(rows: list[dict]) -> dict[str, str]:
    """Print how close int8blas, with packed B, comes to the peaks, if they were measured."""
    first, cells = rows[0], {}
    speed = gops(rows, PACKED if "packed" in first["best_peer"] else FUSED)
    if "peak_gops" in first:
        known = all(row["peak_gops"] for row in rows)
        cells["of peak"] = f"{speed / median(row['peak_gops'] for row in rows):.0%}" if known else ""
    if "read_gbs" in first:
        m, n, k = (first[name] for name in "mnk")
        known = all(row["read_gbs"] for row in rows)
        bandwidth = (m * k + k * n) * speed / (2 * m * n * k)
        cells["of read"] = f"{bandwidth / median(row['read_gbs'] for row in rows):.0%}" if known else ""
    return cells


def print_shapes(members: list[tuple[tuple, list[dict]]]) -> None:
    """Print GOPS of each shape and of the best peer of the first run, the ratios to contestants that are no peers, and
    the shares of the peaks."""
    body = []
    for key, rows in members:
        product = "shape" not in rows[0]
        cells = {"M x N x K": key[3].replace("x", " x ")} if product else {"layer": key[3]}
        for kind, peer in rows[0]["best_peer"].items():
            cells[kind] = f"{gops(rows, OURS[kind]):.3g}"
            cells[f"best {kind} peer"] = f"{gops(rows, peer):.3g} ({peer})" if peer else ""
        for name in rows[0]["ratio"]:
            if name in RATIOS and not name.endswith("best peer"):
                value = ratio(rows, name)
                cells[RATIOS[name]] = "" if value is None else f"{value:.2f}"
        cells |= peak_shares(rows)
        body.append(list(cells.values()))
    print_table(list(cells), body)


def print_network(runs: list[dict], title: str) -> None:
    """Print the times of all convolutions of ResNet-50, fastest first."""
    networks = [run["network_s"][title] for run in runs if run.get("network_s", {}).get(title)]
    names = [name for name in networks[0] if all(name in network for network in networks)] if networks else []
    seconds = {name: median(network[name] for network in networks) for name in names}
    if seconds:
        print()
        body = [[name, f"{1e3 * seconds[name]:.1f}"] for name in sorted(names, key=lambda name: seconds[name])]
        print_table(["convolutions of ResNet-50", "ms"], body)


def plot(groups: list[tuple[str, list[tuple[tuple, list[dict]]]]], path: str) -> None:
    """Draw one axis per group: a dot for each shape, a bar for the geometric mean of its class."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(groups), 1, figsize=(9, 2.6 * len(groups)), squeeze=False, layout="constrained")
    for axis, (title, members) in zip(axes[:, 0], groups, strict=True):
        classes = list(dict.fromkeys(key[2] for key, _ in members))
        kinds = list(members[0][1][0]["best_peer"])
        for index, kind in enumerate(kinds):
            ratios = class_ratios(members, f"{kind} / best peer")
            offset = 0.4 * (index - (len(kinds) - 1) / 2)
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
    parser.add_argument("runs", nargs="+", help="JSON files of one benchmark")
    parser.add_argument("--plot", help="draw the ratios to this file")
    arguments = parser.parse_args()
    runs = [json.loads(Path(name).read_text()) for name in arguments.runs]
    print(", ".join(f"{name} {version}" for name, version in runs[0]["versions"].items()))
    groups = []
    for (threads, kind), group in groupby(shapes(runs), key=lambda member: member[0][:2]):
        members = list(group)
        title = f"{kind}, {threads} thread{'s' * (threads > 1)}"
        groups.append((title, members))
        print(f"\n{title}; medians of {len(runs)} runs\n")
        print_classes(members)
        print_bounds(members)
        print()
        print_shapes(members)
        print_network(runs, title)
    if arguments.plot:
        plot(groups, arguments.plot)


if __name__ == "__main__":
    main()
