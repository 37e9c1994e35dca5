"""The golden problems: on every instruction set and several numbers of threads, from a file whose lines never
change."""

import hashlib
import re

import numpy as np
import pytest
from processes import run_python

import int8blas
from int8blas._golden import add, cases, digests
from int8blas._golden.draws import Draws

# Number of lines -> the digest of the first lines of the file, which must never change. There is an entry for each time
# that problems were added.
RECORDED = {
    910: "1f97cc4f3a6fdda68734a29c860929ca665cb17e2baff5ea8d1ba476ee735ea0",
    914: "003ac5fedee60d4df72d01eebfbf416a77a622d2ceb01a1a0ad9982ad2d65c77",
    964: "48a2949f7326649f5fb4cf7d639036b73bf357c18cd167c32525ea628c6bf826",
    1246: "7b41bdcdeddbf1626ceb521075e593984bd97ef04dae477f37d836946d860815",
    1266: "572fd19da821a11210fc823e539dae035cb4ed5ae50ec1e01d52d113d5b3ae11",
    1269: "f6f3cc7c69068d143f91f1906765500dbf5a2c17fd80ce2b4508d1bab1e0cdd2",
    1273: "e50bb895728ea520cd5aecccfb3a20122cf3ec451984b0a74c2a648c78301c39",
    1293: "55f605bcf06b181e6fbcf71b40222196cf49bf2d48e687ba247cdd0be108fc8e",
    1303: "c92795f47625558811bb59b93f305f3806ec5f5f79b50560b296f9f0973c2f79",
}
# Public functions that have no golden bits.
NOT_GOLDEN = {
    "available_isas", "calibrate", "explain", "fuse_quantization", "get_include", "load", "move_strides", "num_threads",
    "onnx", "calibration", "register_later", "save", "show_config", "use_isa", "LayerQuantization", "Explanation",
    "Saturation", "PackedB", "PackedB4", "PackedB16", "WideExplanation", "__version__",
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_instruction_set_gives_the_golden_bits(isa, threads):
    assert list(digests.differences(digests.read(), isa, threads)) == []


def test_more_threads_than_cpus_give_the_golden_bits():
    process = run_python("-m", "int8blas", "check", "--threads", "3", "--threads", "7", INT8BLAS_OVERSUBSCRIBE="1")
    assert (process.returncode, process.stderr) == (0, "")
    assert "threads 3, 7" in process.stdout


def test_recorded_digests_have_not_changed():
    golden = list(digests.read().items())
    for count, recorded in RECORDED.items():
        assert digests.whole(dict(golden[:count])) == recorded
    assert max(RECORDED) == len(golden)


def test_every_public_function_and_layer_has_problems():
    sources = "".join(digests.Path(module.__file__).read_text() for module in digests.MODULES)
    named = set(re.findall(r"\w+", sources)) | {
        f"gemm_{a}{b}s32" for a in ("u8", "s8") for b in ("u8", "s8") if 'f"gemm_{signs}s32"' in sources
    }
    assert set(int8blas.__all__) - named - NOT_GOLDEN == set()


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_signs_one_line():
    process = run_python("-m", "int8blas", "check", "--isa", "ref", "--threads", "1")
    (line,) = process.stdout.splitlines()
    assert (process.returncode, process.stderr) == (0, "")
    golden = digests.read()
    cpu = int8blas.show_config("dicts")["cpu"]["name"]
    assert line == (
        f"int8blas {int8blas.__version__} on {cpu}: {len(golden)} problems have the golden bits (ref; threads 1): "
        f"sha256 {digests.whole(golden)}"
    )


def test_the_command_lists_the_digests():
    lines = run_python("-m", "int8blas", "check", "--list").stdout.splitlines()
    assert lines[:-1] == [f"{bits} {name}" for name, bits in digests.read().items()]
    assert lines[-1] == f"{digests.whole(digests.read())} all"


def test_a_wrong_bit_is_named_with_its_instruction_set():
    code = (
        "import sys; from int8blas._golden import digests; from int8blas.__main__ import main\n"
        "name = 'gemm shape=70x70x70 signs=u8s8'; right = digests.CASES[name]\n"
        "def wrong():\n"
        "    result = right(); result[0][3, 5] ^= 1; return result\n"
        "digests.CASES[name] = wrong\n"
        "sys.argv = ['int8blas', 'check', '--isa', 'ref', '--threads', '1']; sys.exit(main())"
    )
    process = run_python("-c", code)
    assert process.returncode == 1
    assert process.stderr.startswith("gemm shape=70x70x70 signs=u8s8: on ref with at most 1 threads ")
    assert "FAILED: 1 results of" in process.stdout


@pytest.mark.parametrize("threads", ["0", "two", "1025"])
def test_a_wrong_number_of_threads_is_refused(threads):
    process = run_python("-m", "int8blas", "check", "--threads", threads)
    assert process.returncode == 2
    assert process.stderr == (
        f"python -m int8blas check: error: argument --threads: must be an integer from 1 to 1024, got '{threads}'\n"
    )


# --- adding ----------------------------------------------------------------------------------------------------------


def problems_of(**values):
    return {name: lambda value=value: np.int64(value) for name, value in values.items()}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "digests.txt"
    path.write_text("# A comment.\n")
    assert add.add(path, problems_of(first=1, second=2)) == []
    return path


def test_new_digests_are_added_behind_the_old_ones(file):
    before = file.read_text()
    assert add.add(file, problems_of(zeroth=0, first=1, second=2, third=3)) == []
    assert file.read_text().startswith(before)
    assert list(digests.read(file)) == ["first", "second", "zeroth", "third"]


@pytest.mark.parametrize("changed", [{"first": 1, "second": 22}, {"first": 1}], ids=["differs", "is gone"])
def test_a_changed_digest_stops_the_addition(file, changed):
    before = file.read_text()
    wrong = add.add(file, problems_of(**changed, third=3))
    assert wrong
    assert all(line.startswith("second: ") for line in wrong)
    assert file.read_text() == before


def test_a_new_problem_must_be_the_same_everywhere(file):
    before, numbers = file.read_text(), iter(range(1000))
    problems = problems_of(first=1, second=2) | {"unsteady": lambda: np.int64(next(numbers))}
    wrong = add.add(file, problems)
    assert wrong
    assert all(line.startswith("unsteady: ") for line in wrong)
    assert file.read_text() == before


# --- names, draws, digests -------------------------------------------------------------------------------------------


def test_problems_have_names_of_their_own():
    with pytest.raises(ValueError, match="two problems 'gemm shape=1x1x1 signs=u8s8'"):
        cases.golden(shape=((1, 1, 1),), signs=("u8s8",))(digests.products.gemm)


def test_draws_are_splitmix64():
    """The first words equal the words of the reference implementation for the seed 1234567."""
    draws = Draws("")
    draws._counter = 1234567
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [*draws.words(1), *draws.words(3)] == expected


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_integers_have_the_whole_range(dtype):
    info = np.iinfo(dtype)
    found = Draws("range").integers(1 << 14, dtype).astype(np.float64)
    assert found.min() - info.min < 0.001 * 2**info.bits
    assert info.max - found.max() < 0.001 * 2**info.bits


def test_a_digest_has_type_and_shape_and_one_nan():
    x = np.array([[1, np.nan]], np.float32)
    assert digests.digest(x) == digests.digest(-x + np.float32([[2, 0]]))
    assert len({digests.digest(y) for y in (x, x.T, x.astype(np.float64), [x, x], np.float32([[2, np.nan]]))}) == 5
    assert digests.digest(np.uint8(7)) == hashlib.sha256(b"uint8 () \x07").hexdigest()
