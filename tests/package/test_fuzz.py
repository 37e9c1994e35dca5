"""The fuzzer of random problems: it finds faults, makes problems smaller, and prints programs that fail."""

import functools
import os
import signal

import fuzz
import numpy as np
import pytest
import reference
import reference_reorder
from fuzz import __main__, campaign, gemm, packing, reorder
from fuzz.draws import Draws
from fuzz.snippet import snippet
from layers import assert_same_bits
from processes import SANITIZED, forks_on_purpose, needs_fork

import int8blas

pytestmark = [needs_fork, forks_on_purpose]
PROBLEMS = 40


@functools.cache
def setting():
    return campaign.Setting(seed=20190528)


@pytest.mark.parametrize("name", fuzz.FAMILIES)
def test_a_few_problems_of_every_family(name):
    if SANITIZED and name == "onnx_bytes":
        pytest.skip("files are read within a limit of the address space, which a sanitizer takes up")
    report = campaign.ran(setting(), name, 0, PROBLEMS)
    assert report.count == PROBLEMS, report.error


def test_problems_of_gemm_take_every_path():
    paths = set()
    for number in range(600):
        problem = campaign.drawn(setting(), "gemm", Draws(setting().pools, setting().seed_of("gemm", number)))[2]
        arguments = problem["arguments"]
        names = ("a", "b", "trans_a", "trans_b")
        paths.add(int8blas.explain(**{name: arguments[name] for name in names}).path)
    assert len(paths) >= 5, paths


def test_the_oracle_in_float64_is_that_of_all_tests():
    for number in range(300):
        problem = campaign.drawn(setting(), "gemm", Draws(setting().pools, setting().seed_of("gemm", number)))[2]
        if "numerics" not in problem["arguments"]:
            np.testing.assert_array_equal(gemm.formula(**problem["arguments"]), reference.gemm(**problem["arguments"]))


def test_the_oracles_of_all_elements_at_once_are_those_of_all_tests():
    for number in range(200):
        x = campaign.drawn(setting(), "reorder", Draws(setting().pools, setting().seed_of("reorder", number)))[2]
        if "x" in x:
            arguments = x["x"], x["dtype"], x["mask"]
            assert_same_bits(reorder.formula(*arguments, **x["parameters"]),
                             reference_reorder.expected_values(*arguments, **x["parameters"]))  # fmt: skip
        x = campaign.drawn(setting(), "packing", Draws(setting().pools, setting().seed_of("packing", number)))[2]
        for name in ("packed_data", "certified"):
            of_b = x["b"], x["trans_b"]
            np.testing.assert_array_equal(getattr(packing, name)(*of_b), getattr(reference, name)(*of_b))


def wrong(results):
    """Results with an error of one in one element."""
    result = results[0].copy()
    result.flat[-1] += 1
    return (result, *results[1:])


def found(name, first=0):
    """The first problem that fails, made smaller."""
    report = campaign.ran(setting(), name, first, 3000)
    assert report.failed is not None
    decisions = campaign.shrunk(setting(), name, campaign.decisions_of(setting(), name, report.failed))
    return report, campaign.drawn(setting(), name, Draws(setting().pools, decisions=decisions))


def test_a_planted_fault_is_found_made_small_and_printed_as_a_program(monkeypatch, tmp_path):
    right = gemm.run

    def planted(problem):
        results = right(problem)
        return wrong(results) if min(problem["arguments"]["a"].shape) > 4 and results[0].size else results

    monkeypatch.setattr(gemm, "run", planted)
    report, (isa, threads, problem) = found("gemm")
    assert "elements differ" in report.error or "AssertionError" in report.error
    assert problem["arguments"]["a"].shape == (5, 5)
    assert problem["arguments"]["b"].size <= 5 * 5
    assert threads == 1
    assert problem["c"] is None
    text = snippet("gemm", isa, threads, problem)
    assert len(text) < 3000
    path = tmp_path / "failing.py"
    path.write_text(text)
    names = {"__name__": "failing"}
    with pytest.raises(AssertionError):
        exec(compile(text.replace("tests.fuzz", "fuzz"), str(path), "exec"), names)
    monkeypatch.undo()
    exec(compile(text.replace("tests.fuzz", "fuzz"), str(path), "exec"), names)


def test_a_crash_is_found_and_its_problem_named(monkeypatch, capsys):
    def crashing(problem):
        if problem["arguments"]["trans_a"]:
            os.kill(os.getpid(), signal.SIGILL)
        return gemm.oracle(problem)

    monkeypatch.setattr(gemm, "run", crashing)
    report, (_, _, problem) = found("gemm")
    assert report.error == "the process ended by SIGILL"
    assert problem["arguments"]["trans_a"] == 1
    assert problem["arguments"]["a"].size == 1
    assert __main__.main(["--family", "gemm", "--seed", "1", "--count", "100"]) == 1
    told = capsys.readouterr().out
    assert "again by\n  python -m tests.fuzz --family gemm --seed 1 --first" in told


def test_a_campaign_says_how_much_it_did(capsys):
    assert __main__.main(["--family", "syrk,packing", "--seed", "5", "--count", "20", "--isa", "ref"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "seed 5, instruction sets ref"
    assert [line.split()[:2] for line in told[1:]] == [["syrk", "20"], ["packing", "20"]]
