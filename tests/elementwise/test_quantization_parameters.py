"""QuantizationParameters, and files of them."""

import dataclasses
import json
import math
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from int8blas.calibration import QuantizationParameters, load_parameters, save_parameters

# --- parameters ------------------------------------------------------------------------------------------------------


def test_parameters_are_values():
    one = QuantizationParameters([0.5, 0.25], [1, 2], np.uint8, 0)
    assert one == QuantizationParameters(np.array([0.5, 0.25]), np.array([1, 2], np.int8), "uint8", np.int64(0))
    assert hash(one) == hash(pickle.loads(pickle.dumps(one)))
    assert one == pickle.loads(pickle.dumps(one))
    for other in (
        QuantizationParameters([0.5, 0.125], [1, 2], np.uint8, 0),
        QuantizationParameters([0.5, 0.25], [1, 3], np.uint8, 0),
        QuantizationParameters([0.5, 0.25], [1, 2], np.int8, 0),
        QuantizationParameters([0.5, 0.25], [1, 2], np.uint8, 1),
        QuantizationParameters(0.5, 1, np.uint8),
    ):
        assert one != other
    assert one != 0.5
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.scale = 1
    with pytest.raises(ValueError, match="read-only"):
        one.scale[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        one.zero_point[0] = 1


def test_parameters_do_not_change_with_the_arrays_that_they_are_made_from():
    scale, zero_point = np.ones(2, np.float32), np.zeros(2, np.int32)
    parameters = QuantizationParameters(scale, zero_point, axis=0)
    scale[0], zero_point[0] = 5, 5
    assert parameters == QuantizationParameters([1, 1], [0, 0], axis=0)


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ((0,), ValueError, "scale must be finite"), ((-np.inf,), ValueError, "scale must be finite"),
    ((np.nan,), ValueError, "scale must be finite"), ((np.inf,), ValueError, "scale must be finite"),
    ((1e39,), ValueError, "scale must be finite"), ((1e-50,), ValueError, "scale must be finite"),
    (("1",), TypeError, "scale must be real"), ((True,), TypeError, "scale must be real"),
    (([1.0],), ValueError, "scale must be one number"), ((1.0, 0, np.int8, 0), ValueError, "scale must be of shape"),
    (([[1.0]], [[0]], np.int8, 0), ValueError, "scale must be of shape"),
    ((1, 128), ValueError, "zero_point must be between -128 and 127"), ((1, 2**70), ValueError, "zero_point must be"),
    ((1, -1, np.uint8), ValueError, "zero_point must be between 0 and 255"),
    ((1, 0.0), TypeError, "zero_point must be"),
    ((1, [0]), ValueError, "zero_point must have the shape"), ((1, 0, np.int32), TypeError, "dtype must be"),
    (([1.0, 1.0], [0], np.int8, 0), ValueError, "zero_point must have the shape"),
    (([1.0], [0], np.int8, 0.0), TypeError, "axis must be"),
])  # fmt: skip
def test_wrong_parameters(arguments, error, text):
    with pytest.raises(error, match=f"^{text}"):
        QuantizationParameters(*arguments)


# --- files -----------------------------------------------------------------------------------------------------------

EXAMPLE = {
    "layer.src": QuantizationParameters(15 / 255, 3, np.uint8),
    "Schicht \u00fc \"1\"\n": QuantizationParameters([0.1, 1e-30, 3e38], [0, -128, 127], np.int8, -1),
    "": QuantizationParameters([], [], np.int8, 0),
}  # fmt: skip

numbers = st.floats(2.0**-149, float(np.finfo(np.float32).max), width=32)
numbers = st.one_of(numbers, numbers.map(lambda x: -x))


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.lists(numbers, min_size=1, max_size=5), max_size=4))
def test_files_hold_exactly_what_was_saved(tmp_path_factory, scales):
    path = tmp_path_factory.mktemp("parameters") / "p.json"
    saved = {name: QuantizationParameters(s, [5] * len(s), np.uint8, 1) for name, s in scales.items()}
    saved |= {f"{name}/one": QuantizationParameters(s[0]) for name, s in scales.items()}
    save_parameters(path, saved)
    loaded = load_parameters(path)
    assert loaded == saved
    assert list(loaded) == list(saved)


def test_scales_whose_shortest_decimal_a_reader_takes_for_another(tmp_path, rng):
    bits = rng.integers(1, 0x7F800000, 20_000, np.int32)
    saved = {"all": QuantizationParameters(bits.view(np.float32), np.zeros(bits.size, int), axis=0)}
    save_parameters(tmp_path / "p", saved)
    assert load_parameters(tmp_path / "p") == saved


def test_files_are_for_people(tmp_path):
    save_parameters(str(tmp_path / "p"), {"a": EXAMPLE["layer.src"]})
    assert (tmp_path / "p").read_text().splitlines()[1:5] == [
        '  "format": "int8blas quantization parameters",',
        '  "version": 1,',
        '  "parameters": {',
        '    "a": {"dtype": "uint8", "axis": null, "scale": 0.05882353, "zero_point": 3}',
    ]
    save_parameters(tmp_path / "p", {})
    assert load_parameters(str(tmp_path / "p")) == {}


def test_files_replace_whole_files_or_nothing(tmp_path, monkeypatch):
    save_parameters(tmp_path / "p", EXAMPLE)
    for wrong in ({"a": 1}, {1: EXAMPLE["layer.src"]}, [("a", 1)], None):
        with pytest.raises(TypeError, match=r"^parameters"):
            save_parameters(tmp_path / "p", wrong)
    with pytest.raises(OSError, match="directory"):
        save_parameters(tmp_path, EXAMPLE)

    def interrupted(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_parameters(tmp_path / "p", {})
    assert load_parameters(tmp_path / "p") == EXAMPLE
    assert os.listdir(tmp_path) == ["p"]


def test_a_file_cut_off_anywhere(tmp_path):
    save_parameters(tmp_path / "p", EXAMPLE)
    content = (tmp_path / "p").read_bytes()
    for length in range(len(content.rstrip())):
        (tmp_path / "p").write_bytes(content[:length])
        with pytest.raises(ValueError, match="p' is damaged or not a file of int8blas quantization parameters: "):
            load_parameters(tmp_path / "p")


@pytest.mark.parametrize(("path", "value", "text"), [
    (("format",), "other", "is not a file of int8blas quantization parameters"),
    (("format",), None, "is not a file of"), (("version",), 2, "has version 2 of the format, .* reads version 1"),
    (("version",), True, "has version True"), (("version",), "1", "has version '1'"),
    (("parameters",), [], "is damaged: it must have"), (("more",), 1, "is damaged: it must have"),
    (("parameters", "a"), 1, "is damaged: 'a' must have dtype, axis, scale, zero_point"),
    (("parameters", "a", "more"), 1, "'a' must have dtype"), (("parameters", "a", "scale"), 0.0, "'a': scale must be"),
    (("parameters", "a", "scale"), "1", "'a' must have numbers as scale"),
    (("parameters", "a", "scale"), True, "'a' must have numbers as scale"),
    (("parameters", "a", "scale"), None, "'a' must have numbers as scale"),
    (("parameters", "a", "scale"), math.nan, "'a': scale must be"), (("parameters", "a", "scale"), [1], "'a': scale"),
    (("parameters", "a", "scale"), 10**400, "'a': scale must be"),
    (("parameters", "a", "zero_point"), 0.0, "'a' must have numbers as zero_point"),
    (("parameters", "a", "zero_point"), [0], "'a' must have numbers as zero_point"),
    (("parameters", "a", "zero_point"), 256, "'a': zero_point must be between 0 and 255"),
    (("parameters", "a", "dtype"), "int16", "'a': dtype must"), (("parameters", "a", "dtype"), [], "'a': dtype must"),
    (("parameters", "a", "axis"), 0, "'a': scale must be of"), (("parameters", "a", "axis"), "x", "'a': axis must be"),
])  # fmt: skip
def test_files_with_something_wrong(tmp_path, path, value, text):
    save_parameters(tmp_path / "p", {"a": EXAMPLE["layer.src"]})
    tree = json.loads((tmp_path / "p").read_text())
    place = tree
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (tmp_path / "p").write_text(json.dumps(tree))
    with pytest.raises(ValueError, match=text):
        load_parameters(tmp_path / "p")


@pytest.mark.parametrize("content", [
    b"", b"[]", b"1", b"null", b"\xff\xfe", b"\0" * 100, b"{" * 100_000, b"[" * 100_000, b"1" * 10_000,
    b'{"format": "int8blas quantization parameters", "version": 1, "parameters": {"a": 1, "a": 1}}',
])  # fmt: skip
def test_foreign_files(tmp_path, content):
    (tmp_path / "p").write_bytes(content)
    with pytest.raises(ValueError, match="not a file of int8blas quantization parameters"):
        load_parameters(tmp_path / "p")


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_parameters(tmp_path / "absent")
