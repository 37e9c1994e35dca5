"""benchmarks/compare_builds.py and record_bits.py: which cases are slower, which are measured again, which results
differ."""

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import run_python

import int8blas

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
BUILD = str(Path(int8blas.__file__).resolve().parents[1])


@pytest.fixture(scope="module")
def ratios():
    """The module build_ratios. Other modules in benchmarks/ have the same names as modules of the tests, so the folder
    is not on the path."""
    spec = importlib.util.spec_from_file_location("build_ratios", BENCHMARKS / "build_ratios.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks here for its annotations
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def results(ratios):
    """A function that creates results of classes from pairs of times, one pair per measurement."""

    def make(**classes):
        return [
            ratios.Result(SimpleNamespace(cls=cls), [{"old": old, "new": new} for old, new in pairs])
            for cls, shapes in classes.items()
            for pairs in shapes
        ]

    return make


def test_a_ratio_is_of_the_shortest_times_of_all_measurements(results):
    (result,) = results(a=[[(4.0, 5.0), (3.0, 2.0)]])
    assert result.ratios == [0.8, 1.5]
    assert result.ratio == 1.5


def test_classes_have_a_geometric_mean_and_their_worst_shape(ratios, results):
    found = ratios.class_ratios(results(a=[[(1.0, 2.0)], [(8.0, 1.0)]], b=[[(3.0, 1.0)]]))
    assert [(entry.cls, entry.mean, entry.worst.ratio, entry.shapes) for entry in found] == [
        ("a", pytest.approx(2.0), 0.5, 2),
        ("b", pytest.approx(3.0), 3.0, 1),
    ]


def test_shapes_without_times_are_in_no_class(ratios, results):
    assert ratios.class_ratios(results(a=[[]])) == []
    assert ratios.to_repeat(results(a=[[]]), 0.99, 0.96) == []


def test_slow_shapes_and_all_of_slow_classes_are_measured_again(ratios, results):
    found = results(fast=[[(1.0, 1.0)], [(1.0, 1.0)], [(1.2, 1.0)], [(0.95, 1.0)]], slow=[[(1.0, 1.0)], [(0.97, 1.0)]])
    assert [(r.case.cls, r.ratio) for r in ratios.to_repeat(found, 0.99, 0.96)] == [
        ("fast", 0.95),
        ("slow", 1.0),
        ("slow", 0.97),
    ]


def test_a_shape_is_slower_where_it_was_each_time(ratios, results):
    found = results(a=[[(9.0, 10.0)], [(9.0, 10.0), (9.7, 10.0)], [(9.0, 10.0), (9.5, 10.0)], [(20.0, 10.0)]])
    classes, shapes = ratios.slower(found, 0.99, 0.96)
    assert classes == []
    assert shapes == [found[2]]
    classes, _ = ratios.slower(found[:3], 0.99, 0.96)
    assert [entry.cls for entry in classes] == ["a"]


def compare(*options):
    return run_python(str(BENCHMARKS / "compare_builds.py"), BUILD, BUILD, *options)


def test_a_build_is_compared_with_itself():
    process = compare("--classes", "gather", "--seconds", "0.01", "--class-bound", "0", "--shape-bound", "0", "--all")
    assert (process.returncode, process.stderr) == (0, "")
    assert "gather: 384, scales of rows" in process.stdout
    assert "0 classes and 0 shapes are slower, 0 have faults" in process.stdout
    assert max(map(len, process.stdout.splitlines())) <= max(100, len(BUILD) + 40)


def test_bounds_set_the_exit_status():
    process = compare("--classes", "gather", "--seconds", "0.01", "--class-bound", "1000", "--shape-bound", "0")
    assert process.returncode == 1
    assert "class gather has a mean of" in process.stdout
    assert "4 were measured again" in process.stdout


def test_bits_are_recorded_and_compared(tmp_path):
    script, path = str(BENCHMARKS / "record_bits.py"), tmp_path / "bits.json"
    assert run_python(script, str(path), "--families", "packed,errors").returncode == 0
    bits = json.loads(path.read_text())
    assert len(bits) > 100
    assert run_python(script, str(path), "--check", "--families", "packed").returncode == 0
    name = next(iter(bits))
    path.write_text(json.dumps(bits | {name: "0"}))
    process = run_python(script, str(path), "--check", "--families", "packed")
    assert process.returncode == 1
    assert f"differs: {name}: 0, now " in process.stdout
