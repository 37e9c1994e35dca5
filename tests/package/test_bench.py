"""python -m int8blas bench with short runs, and the loops that measure the limits of the machine."""

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from processes import TIMEOUT_S, run_python

import int8blas
from int8blas._bench import command, load, loops, report
from int8blas._bench.peers.ours import PACKED, PLAIN
from int8blas._bench.progress import Progress
from int8blas._bench.results import ClassMeans, Entry, GemmRow, class_means
from int8blas._bench.shapes import CLASSES, MINUTE, Problem
from int8blas._bench.timing import WARM_CALLS, Plan, Timing, measure

SHORT = ("-m", "int8blas", "bench", "--seconds", "0.3", "--no-peers")
NUMBER = (int, float)


def assert_has(found, fields):
    """Check that a JSON object has exactly these fields, with these types."""
    assert set(found) == set(fields)
    for name, types in fields.items():
        assert isinstance(found[name], types), name


# --- the command -----------------------------------------------------------------------------------------------------


def test_no_command_and_config_print_the_configuration():
    plain, config = run_python("-m", "int8blas"), run_python("-m", "int8blas", "config")
    assert (plain.returncode, config.returncode) == (0, 0)
    assert "isas:" in plain.stdout
    assert plain.stdout == config.stdout


def test_help_lists_the_commands():
    text = run_python("-m", "int8blas", "--help").stdout
    assert "config" in text
    assert "bench" in text


def test_a_short_run_prints_classes_and_writes_json(tmp_path):
    path = tmp_path / "bench.json"
    process = run_python(*SHORT, "--json", str(path))
    assert (process.returncode, process.stderr) == (0, "")
    found = json.loads(path.read_text())
    assert_has(
        found,
        {
            "environment": dict,
            "versions": dict,
            "missing": dict,
            "isa": str,
            "threads": int,
            "seconds": float,
            "load": dict,
            "unmeasured": list,
            "rows": list,
            "classes": list,
        },
    )
    assert_has(found["load"], {"cpus": int, "others": float, "stolen": float})
    assert set(found["environment"]) == {"cpu", "cpus", "caches", "system", "python", "date"}
    assert found["versions"][f"int8blas ({found['isa']})"] == int8blas.__version__
    assert found["versions"]["NumPy"].startswith(f"{np.__version__} with ")
    assert found["isa"] == int8blas.available_isas()[0]
    assert found["threads"] == 1
    assert len(found["rows"]) + len(found["unmeasured"]) == len(MINUTE)
    row = found["rows"][0]
    sizes = dict.fromkeys("mnk", int)
    limits = {"peak_gops": (*NUMBER, type(None)), "read_gbs": NUMBER}
    assert_has(
        row,
        {"class": str, "signs": str, "threads": int, "best_peer": dict, "ratio": dict, "contestants": dict}
        | sizes
        | limits,
    )
    assert {PLAIN, PACKED, "NumPy f32"} <= set(row["contestants"])
    for contestant in row["contestants"].values():
        text, numbers = ("kind", "fault"), ("best_s", "median_s", "gops")
        counts = dict.fromkeys(("samples", "calls_per_sample"), int)
        assert_has(contestant, {"comparable": bool} | dict.fromkeys(text, str) | dict.fromkeys(numbers, float) | counts)
        assert contestant["fault"] == ""
        assert 0 < contestant["best_s"] <= contestant["median_s"]
    means = dict.fromkeys(("gops", "peak_share", "read_share", "speed_over"), dict)
    for line in found["classes"]:
        assert_has(line, {"cls": str, "shapes": list} | means)
        assert f"\n{line['cls']} " in process.stdout
    for version in found["versions"].values():
        assert version in process.stdout


def test_lines_are_no_longer_than_80_columns_without_a_terminal():
    process = run_python(*SHORT, COLUMNS="200")
    assert process.returncode == 0
    assert max(map(len, process.stdout.splitlines())) <= 80


@pytest.mark.parametrize("length", range(30, 45))
def test_items_and_what_separates_them_fit_in_a_line(capsys, length):
    report.print_items("start ", [length * "x"] * 9)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "".join(lines).count(length * "x") == 9


def test_isa_and_threads_hold(isa, tmp_path):
    path = tmp_path / "bench.json"
    process = run_python(*SHORT, "--isa", isa, "--threads", "all", "--json", str(path))
    assert (process.returncode, process.stderr) == (0, "")
    found = json.loads(path.read_text())
    cpus = found["environment"]["cpus"]
    assert (found["isa"], found["threads"]) == (isa, cpus)
    for row in found["rows"]:
        assert (row["peak_gops"] is None) == (isa == "ref")
        assert row["threads"] == cpus


def test_peers_that_are_not_installed_are_named(tmp_path):
    for name in ("torch", "onnxruntime"):
        (tmp_path / f"{name}.py").write_text("raise ImportError")
    path = tmp_path / "bench.json"
    python_path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    process = run_python(*SHORT[:-1], "--json", str(path), PYTHONPATH=python_path)
    assert process.returncode == 0, process.stderr
    missing = json.loads(path.read_text())["missing"]
    assert missing["torch_int_mm"] == "the package torch is not installed"
    assert missing["onnxruntime_matmul"] == "the package onnxruntime is not installed"
    assert "not measured: torch_int_mm: the package torch is not installed" in process.stdout


def test_plot_writes_a_figure(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "bench.png"
    process = run_python(*SHORT, "--plot", str(path))
    assert process.returncode == 0, process.stderr
    assert path.read_bytes().startswith(b"\x89PNG")


def test_plot_without_matplotlib_names_the_extra_before_measuring(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    python_path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    process = run_python(*SHORT, "--plot", str(tmp_path / "bench.png"), PYTHONPATH=python_path)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr == (
        "python -m int8blas bench: error: argument --plot: the package matplotlib is not installed; "
        "pip install 'int8blas[bench]'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "0"], "argument --threads: must be 'all' or an integer from 1 to "),
        (["--threads", "many"], "got 'many'"),
        (["--isa", "neon9"], "argument --isa: invalid choice: 'neon9'"),
        (["--seconds", "0"], "argument --seconds: must be a positive number, got '0'"),
        (["--seconds", "nan"], "argument --seconds: must be a positive number, got 'nan'"),
        (["--json", "no/such/directory/file"], "argument --json: must be a file in a directory that exists, got "),
        (["--json", "."], "argument --json: must be a file in a directory that exists, got '.'"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(arguments, message):
    process = run_python(*SHORT, *arguments)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("python -m int8blas")
    assert message in process.stderr
    assert process.stderr.count("\n") == 1


def test_an_unknown_command_is_one_line_and_status_2():
    process = run_python("-m", "int8blas", "benchmark")
    assert (process.returncode, process.stdout) == (2, "")
    assert "invalid choice: 'benchmark'" in process.stderr
    assert process.stderr.count("\n") == 1


def test_a_terminal_has_a_progress_bar():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, *SHORT], stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 4096):
                shown += data
        except OSError:  # Linux reports a closed reading end in this way
            pass
        os.close(ours)
        assert process.wait(TIMEOUT_S) == 0
    assert b"\r[" in shown
    assert b"tiny 16x16x16" in shown
    assert shown.endswith(b"\r")


def test_the_bar_is_drawn_and_taken_away(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    bar = Progress()
    bar.show(0.5, "text")
    bar.show(0.6, "too soon")
    bar.clear()
    line = "[" + "#" * 15 + "-" * 15 + "]  50 % text"
    assert capsys.readouterr().err == f"\r{line}\r{' ' * len(line)}\r"


# --- the load of the machine -----------------------------------------------------------------------------------------

STAT = """cpu  900 900 900 900 900 900 900 900 0 0
cpu0 100 20 30 7000 5 1 2 {stolen} 0 0
cpu1 {busy} 0 0 7000 0 0 0 0 0 0
cpu10 9000 0 0 0 0 0 0 9000 0 0
intr 1 2 3
"""


def test_times_are_those_of_the_cpus_that_the_process_may_use():
    assert load.times_of(STAT.format(stolen=4, busy=50), {0, 1}) == (203, 4)
    assert load.times_of(STAT.format(stolen=4, busy=50), {1}) == (50, 0)
    assert load.times_of("", {0}) == (0, 0)


def fake_times(monkeypatch, own):
    """Make a run of ten seconds. This process uses `own` seconds of CPU time in it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_CLK_TCK": 100}.get)
    monkeypatch.setattr(os, "times", iter([(0.0,) * 5, (own, 0.0, 0.0, 0.0, 10.0)]).__next__)
    monkeypatch.setattr(time, "perf_counter", iter([5.0, 15.0]).__next__)


@pytest.mark.parametrize(
    ("busy", "stolen", "warning"),
    [
        (10.0, 0.0, ""),
        (11.9, 0.19, ""),
        (15.0, 0.0, "warning: 0.5 of 2 CPUs went to other processes during the run; repeat it on an idle machine"),
        (9.0, 0.4, "warning: 0.04 of 2 CPUs went to the hypervisor during the run; repeat it on an idle machine"),
        (
            20.0, 2.0,
            "warning: 1 of 2 CPUs went to other processes and 0.2 of 2 CPUs went to the hypervisor during the run; "
            "repeat it on an idle machine",
        ),
    ],
)  # fmt: skip
def test_a_busy_machine_is_a_warning(busy, stolen, warning, monkeypatch, tmp_path):
    fake_times(monkeypatch, own=10.0)
    stat = tmp_path / "stat"
    stat.write_text(STAT.format(stolen=0, busy=0))
    watch = load.Watch(2, stat)
    stat.write_text(STAT.format(stolen=round(100 * stolen), busy=round(100 * busy)))
    assert watch.load().warning == warning


def test_the_average_of_a_minute_stands_in_for_times_that_the_system_does_not_count(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 0.0, 0.0), raising=False)
    assert load.Watch(2, tmp_path / "none").load() == load.Load(2, 1.5, 0.0)
    (tmp_path / "zeros").write_text("cpu0 0 0 0 0 0 0 0 0 0 0\n")
    assert load.Watch(2, tmp_path / "zeros").load() == load.Load(2, 1.5, 0.0)


@pytest.mark.parametrize("others", [0.0, 1.9])
def test_a_run_prints_the_warning_last(others, monkeypatch, capsys):
    monkeypatch.setattr(command.Watch, "load", lambda watch: load.Load(2, others, 0.0))
    monkeypatch.setattr(command.Run, "measure", lambda run: ([], []))
    options = argparse.Namespace(threads=1, isa=None, seconds=1.0, peers=False, json=None, plot=None)
    assert command.run(options, time.perf_counter()) == 0
    last = " ".join(capsys.readouterr().out.partition("1 thread,")[2].split("\n")[1:]).strip()
    assert last.startswith("warning: 1.9 of 2 CPUs went to other") if others else last == ""


# --- parts of the report ---------------------------------------------------------------------------------------------


def test_a_shape_of_each_class_is_measured_first():
    problems = [Problem(cls, *shape, "u8s8") for cls, shape in MINUTE]
    ordered = command.in_order(problems)
    classes = {problem.cls for problem in problems}
    firsts, others = ordered[: len(classes)], ordered[len(classes) :]
    assert {problem.cls for problem in firsts} == classes
    assert sorted(map(str, ordered)) == sorted(map(str, problems))
    for some in (firsts, others):
        assert some == sorted(some, key=lambda problem: problem.operations)
    for first in firsts:
        assert all(first.operations <= other.operations for other in others if other.cls == first.cls)


@pytest.mark.parametrize("width", [40, 60, 80, 300])
def test_tables_are_as_wide_as_the_terminal(width, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "24")
    names = [f"library {i}" for i in range(20)]
    mean = ClassMeans(
        cls="tiny", shapes=[f"{i}x{i}x{i}" for i in range(100, 140)], gops={PLAIN: 1.0, PACKED: 2.0}, peak_share={},
        read_share={}, speed_over={name: 1000.0 + i for i, name in enumerate(names)},
    )  # fmt: skip
    report.print_classes([mean], [])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    for expected in (*mean.shapes, *(f"{1000 + i}" for i in range(20))):
        assert words.count(expected) == 1
    # Each part of the table begins with the classes.
    parts = text[: text.index(mean.shapes[0])].split("\n\n")
    assert [part.split("\n")[-1][:4] for part in parts if part.strip()][:-1] == ["tiny"] * (len(parts) - 1)
    assert len(parts) == 2 if width == 300 else len(parts) > 2


def test_the_shapes_are_of_known_classes_and_all_different():
    assert len(set(MINUTE)) == len(MINUTE)
    assert {cls for cls, _ in MINUTE} == set(CLASSES)


def test_contestants_take_turns():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    watched = []
    timings = measure(calls, Plan(rounds=5, budget=10, min_sample=0, settle=0), lambda: watched.append(len(order)))
    assert [len(timing.seconds) for timing in timings.values()] == [5, 5]
    assert len(watched) == 10
    turn = WARM_CALLS + 1
    rounds = [order[start : start + 2 * turn] for start in range(watched[0], len(order), 2 * turn)]
    assert all(sorted(names) == ["a"] * turn + ["b"] * turn for names in rounds)


@pytest.mark.parametrize("slow", [1, 2, 3])
def test_a_slow_first_call_does_not_decide_how_many_a_sample_has(slow, monkeypatch):
    """Otherwise a sample would be a single call, which includes the start of its threads."""
    calls, now = [], [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def run():
        calls.append(None)
        now[0] += 2e-3 if len(calls) <= slow else 1e-5

    timing = measure({"a": run}, Plan(rounds=1, budget=1, min_sample=1e-3, settle=0))["a"]
    assert timing.inner > 1


def test_means_are_geometric_and_leave_wrong_results_out():
    def row(m, factor):
        entries = {
            PLAIN: Entry(PLAIN, "plain", True, True, Timing(1, [2.0])),
            PACKED: Entry(PACKED, "packed", True, True, Timing(1, [1.0])),
            "f32": Entry("f32", "f32", False, True, Timing(1, [2.0 * factor])),
            "their packed": Entry("their packed", "packed", False, True, Timing(1, [3.0])),
            "wrong": Entry("wrong", "plain", False, True, Timing(1, [0.1]), "1 of 1 elements are wrong"),
        }
        problem = Problem("tiny", m, 1, 1, "u8s8")
        return GemmRow(problem, 1, entries, problem.operations / 1e9, 1.0)

    (means,) = class_means([row(1, 2), row(2, 8)])
    assert means.shapes == ["1x1x1", "2x1x1"]
    assert means.speed_over == pytest.approx({"f32": 4, "their packed": 3})
    assert means.peak_share == pytest.approx({PLAIN: 0.5, PACKED: 1})
    assert means.read_share == {}


@pytest.mark.parametrize("threads", [1, 2])
def test_the_loop_of_multiply_adds_counts_them(isa, threads):
    one = loops.multiply_add(1, 1)
    assert (one == 0) == (isa == "ref")
    assert loops.multiply_add(7, threads) == 7 * threads * one


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("streams", [1, 4])
def test_reading_reads_whole_shares(isa, streams, threads):
    assert loops.read(np.ones(4096 + 100, np.uint8), 3, streams, threads) == 3 * 4096
    assert loops.read(np.ones(100, np.uint8), 3, streams, threads) == 0
