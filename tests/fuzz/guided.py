"""Hostile files whose changes are guided by coverage, with atheris: an input that reaches new lines is changed further.

    pip install atheris
    python -m tests.fuzz.guided load folder_of_findings -max_total_time=3600

Targets are `load`, `packed` (PackedB.load), `pickles` and `onnx`; the rest are arguments of libFuzzer. An input is
either the index and the data of a file (the header and the checksums are added), or a model. An input is changed as in
the families `files` and `onnx_bytes`, or in single bytes. A crash, a hang, or an error of an undocumented type ends the
run and leaves the input in the current folder; to repeat it, give that file instead of the folder.
"""

import io
import json
import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import atheris

with atheris.instrument_imports(include=["int8blas"]):
    import int8blas
    import int8blas.onnx

import numpy as np
import onnx

from int8blas.core import file

from . import files, onnx_bytes
from .draws import Draws

BEHIND_INDEX, BETWEEN = b"\n\0\n", b"\0\xff\0"


def joined(text, data):
    """An input of a value of the index and its data."""
    return text.encode() + BEHIND_INDEX + BETWEEN.join(map(bytes, data))


def divided(content):
    """Return the value and the data of an input; raise ValueError if it has no value."""
    text, _, data = content.partition(BEHIND_INDEX)
    return json.loads(text), data.split(BETWEEN) if data else []


def loaded(load):
    """A target that reads a file and uses its value."""

    def target(content):
        with suppress(RecursionError, *files.REFUSED):
            files.used(load(io.BytesIO(files.written(*divided(content)))))

    return target


def restored(content):
    """Call the functions that a pickle calls, with any arguments. They may raise any error."""
    with suppress(Exception):
        value, data = divided(content)
        files.used(file._value(value, [np.frombuffer(part, np.uint8) for part in data]))


def changed_file(content, draws):
    """A file with some parts changed, as by the family `files`."""
    value, data = divided(content)
    tree = {"value": value}
    for _ in range(draws.integer(1, 3)):
        files.changed(draws, tree, data)
    return joined(json.dumps(tree["value"]), data)


def changed_model(content, draws):
    """A model with a field changed, as by the family `onnx_bytes`."""
    model = onnx.ModelProto.FromString(content)
    found = list(onnx_bytes.fields(model))
    if found:
        onnx_bytes.changed(draws, *draws.among(found))
    return model.SerializeToString()


def run_model(content):
    onnx_bytes.run({"content": content})


TARGETS = {
    "load": (loaded(int8blas.load), changed_file),
    "packed": (loaded(int8blas.PackedB.load), changed_file),
    "pickles": (restored, changed_file),
    "onnx": (run_model, changed_model),
}


def mutator(change):
    """A mutator for libFuzzer: three of four changes keep the structure."""

    def mutated(content, largest, seed):
        if seed % 4:
            with suppress(Exception):
                return change(content, Draws({}, seed))[:largest]
        return atheris.Mutate(content, largest)

    return mutated


def seed_corpus(target, folder):
    """The unchanged files."""
    if target == "onnx":
        contents = onnx_bytes.originals()
    else:
        contents = [joined(text, data) for text, data in files.originals()]
        value, data = json.loads(files.originals()[0][0]), files.originals()[0][1]
        contents.append(joined(json.dumps(value["dict"]["packed"]), data))
    for i, content in enumerate(contents):
        (folder / f"original{i}").write_bytes(content)


def main():
    target, folder, *options = sys.argv[1:]
    if target not in TARGETS:
        sys.exit(f"the target must be one of {', '.join(TARGETS)}, got {target}")
    if not Path(folder).is_file():
        Path(folder).mkdir(parents=True, exist_ok=True)
        seed_corpus(target, Path(folder))
    run, change = TARGETS[target]
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    atheris.Setup([sys.argv[0], folder, *options], run, custom_mutator=mutator(change))
    with files.limited_memory():  # a result that needs more, say with billions of columns, raises MemoryError
        atheris.Fuzz()


if __name__ == "__main__":
    main()
