"""Compare PyTorch models after int8blas.torch with the float32 model and other ways to int8.

    python benchmarks/bench_torch.py                          # all models that the installed packages allow
    python benchmarks/bench_torch.py linear minilm --threads 2 --only quantize_,float32

Contestants: the model in float32, eager and compiled by inductor; `quantize_`, `Int8WeightOnly` and `calibrate` of
int8blas; torch's `quantize_dynamic`; torchao's dynamic int8, eager and compiled; and onnxruntime's float32 and int8 of
the model that torch.onnx exports: `quantize_static` for images, `quantize_dynamic` for all other models. A table has
the shortest of interleaved times and the error of the result relative to float32. A contestant that a model does not
support is left out, and a line says why.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import logging
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import int8blas
import int8blas.torch
import torch
from int8blas._bench import environment
from int8blas._bench.contest import SETTLE
from int8blas._bench.report import print_header
from int8blas._bench.timing import Plan, measure
from torch import Tensor, nn

from torch_models import CASES, Case, generate

Call = Callable[..., Any]


def calibrated(case: Case) -> nn.Module:
    if case.generates:
        raise ValueError("torch.export makes one graph, and the cache of the first call is empty")
    batches = [tuple(torch.randn_like(each) if each.is_floating_point() else each for each in case.args)] * 4
    return int8blas.torch.calibrate(case.model, [*((batch,) for batch in batches), (case.args,)])


def quantized_dynamic(case: Case) -> nn.Module:
    from torch.ao.quantization import quantize_dynamic

    return quantize_dynamic(copy.deepcopy(case.model), {nn.Linear, nn.LSTM}, torch.qint8)


def torchao_dynamic(case: Case) -> nn.Module:
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    model = copy.deepcopy(case.model)
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    return model


def onnxruntime_session(case: Case, int8: bool) -> Call:
    import onnxruntime
    from onnxruntime import quantization

    logging.disable(logging.WARNING)
    args = (*case.args, *(torch.zeros(1, 8, 3, 64) for _ in range(12))) if case.generates else case.args
    with tempfile.TemporaryDirectory() as folder:
        path, prepared, short = (Path(folder) / f"{name}.onnx" for name in ("float", "prepared", "int8"))
        length = {"ids": {1: torch.export.Dim.AUTO}, "past": tuple({2: torch.export.Dim.AUTO} for _ in args[1:])}
        dynamic = length if case.generates else None
        torch.onnx.export(case.model, args, path, dynamo=True, dynamic_shapes=dynamic, external_data=False,
                          verbose=False)  # fmt: skip
        quantization.shape_inference.quant_pre_process(path, prepared, skip_symbolic_shape=True)
        if int8 and case.images:
            name = onnxruntime.InferenceSession(path).get_inputs()[0].name

            class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
                def __init__(self) -> None:
                    self.batches = iter([{name: torch.randn_like(case.args[0]).numpy()}, {name: case.args[0].numpy()}])

                def get_next(self) -> Any:
                    return next(self.batches, None)

            # uint8 activations are onnxruntime's fastest on x86.
            types = {"activation_type": quantization.QuantType.QUInt8, "weight_type": quantization.QuantType.QInt8}
            quantization.quantize_static(prepared, short, Reader(), per_channel=True, **types)
        elif int8:
            quantization.quantize_dynamic(prepared, short, per_channel=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
        session = onnxruntime.InferenceSession(short if int8 else prepared, options)
    names = [each.name for each in session.get_inputs()]

    def run(*args: Tensor) -> Any:
        found = session.run(None, dict(zip(names, (each.numpy() for each in args), strict=True)))
        return [*map(torch.from_numpy, found)] if case.generates else torch.from_numpy(found[0])

    return run


CONTESTANTS: dict[str, Callable[[Case], Call]] = {
    "calibrate": calibrated,
    "quantize_": lambda case: int8blas.torch.quantize_(copy.deepcopy(case.model)),
    "Int8WeightOnly": lambda case: int8blas.torch.quantize_(copy.deepcopy(case.model), int8blas.torch.Int8WeightOnly()),
    "float32": lambda case: case.model,
    "float32 compiled": lambda case: torch.compile(case.model, dynamic=case.generates),
    "quantize_ compiled": lambda case: torch.compile(
        int8blas.torch.quantize_(copy.deepcopy(case.model)), dynamic=case.generates
    ),
    "quantize_dynamic": quantized_dynamic,
    "torchao": torchao_dynamic,
    "torchao compiled": lambda case: torch.compile(torchao_dynamic(case), dynamic=case.generates),
    "onnxruntime float32": partial(onnxruntime_session, int8=False),
    "onnxruntime int8": partial(onnxruntime_session, int8=True),
}


def call_of(make: Callable[[Case], Call], case: Case) -> Callable[[], Any]:
    """Return a call of a contestant with the arguments of the case."""
    made = make(case)
    call = partial(generate, made, *case.args) if case.generates else partial(made, *case.args)
    call()
    return call


def compare(name: str, case: Case, chosen: list[str], seconds: float) -> None:
    """Measure all contestants of a model, and print a table."""
    expected = call_of(CONTESTANTS["float32"], case)()
    calls, errors = {}, {}
    for each in chosen:
        try:
            calls[each] = call_of(CONTESTANTS[each], case)
        except Exception as error:  # each library has other errors
            print(f"{name}, without {each}: {type(error).__name__}: {str(error).strip().splitlines()[0][:100]}")
            continue
        errors[each] = ((calls[each]() - expected).norm() / expected.norm()).item()
    timings = measure(calls, Plan(rounds=60, budget=seconds, min_sample=0.005, settle=SETTLE))
    best = min(timing.best for timing in timings.values())
    print(f"\n{name:<24} {'ms':>9} {'median':>9} {'of best':>8} {'error':>7}")
    for each, timing in sorted(timings.items(), key=lambda item: item[1].best):
        milliseconds, middle = 1e3 * timing.best, 1e3 * timing.median
        print(f"  {each:<22} {milliseconds:9.4f} {middle:9.4f} {timing.best / best:8.2f} {errors[each]:7.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"beginnings of names of models: {', '.join(CASES)}")
    parser.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--only", default=",".join(CONTESTANTS), help="contestants (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10, help="seconds for each model (default: %(default)s)")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen).difference(CONTESTANTS):
        parser.error(f"--only must name some of {', '.join(CONTESTANTS)}, got {', '.join(sorted(unknown))}")
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")  # of deprecated functions, and of modules that stay float
    versions = {"int8blas": int8blas.__version__}
    for package in ("torch", "torchao", "transformers", "onnxruntime"):
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    print_header(environment.describe(), versions, {})
    with torch.inference_mode():
        for name, make in CASES.items():
            if not options.models or name.startswith(tuple(options.models)):
                torch.manual_seed(0)
                torch.compiler.reset()
                case = make()
                case.model.eval().requires_grad_(False)
                compare(name, case, chosen, options.seconds)


if __name__ == "__main__":
    main()
