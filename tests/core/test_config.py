"""Selecting instruction sets and threads, environment variables, and the reports of the package (verbose,
show_config)."""

import contextlib
import platform
import re
import threading

import numpy as np
import pytest
import reference
import threadpoolctl
from arrays import B_FORMS, assert_same
from processes import run_python

import int8blas
from int8blas.core.caches import usable_cpus
from int8blas.core.threads import threading_info

ISAS = {
    "arm": ("i8mm", "dotprod", "neon", "ref"),
    "x86": ("amx", "avx512vnni", "avx512bw", "avxvnni", "avx2", "ref"),
}["arm" if platform.machine().lower() in ("aarch64", "arm64") else "x86"]
LARGE = np.ones((512, 512), np.uint8), np.ones((512, 512), np.int8)
EXPLAIN_LARGE = """
import int8blas
import numpy as np
explanation = int8blas.explain(np.ones((512, 512), np.uint8), np.ones((512, 512), np.int8))
print(explanation.isa, explanation.threads)
"""


def selected():
    """The instruction set that calls from this thread use."""
    return int8blas.explain(*LARGE).isa


def in_another_thread(function):
    """Call the function in a new thread and return its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


# --- instruction sets ------------------------------------------------------------------------------------------------


def test_available_isas_are_known_ordered_and_end_with_the_portable_one():
    names = int8blas.available_isas()
    assert isinstance(names, tuple)
    assert names[-1] == "ref"
    assert len(set(names)) == len(names)


def test_the_best_isa_is_selected_at_first():
    process = run_python("-c", "import int8blas; print(int8blas.available_isas()[0])")
    assert process.stdout.strip() == int8blas.available_isas()[0]
    assert selected() == int8blas.available_isas()[0]


def test_use_isa_selects(isa):
    assert selected() == isa
    for form in B_FORMS.values():
        explanation = int8blas.explain(LARGE[0], form(LARGE[1]))
        assert explanation.isa == isa
        assert isa in str(explanation)


def test_use_isa_nests_and_is_undone_after_an_error():
    before = selected()
    for outer in int8blas.available_isas():
        for inner in int8blas.available_isas():
            with int8blas.use_isa(outer):
                with contextlib.suppress(KeyError), int8blas.use_isa(inner):
                    assert selected() == inner
                    raise KeyError
                assert selected() == outer
            assert selected() == before


def test_use_isa_concerns_the_calling_thread_only():
    default = int8blas.available_isas()[0]
    for name in int8blas.available_isas():
        with int8blas.use_isa(name):
            assert in_another_thread(selected) == default
            assert selected() == name


@pytest.mark.parametrize("name", ["", "sse2", "AVX2", "avx2 ", "avx2\0", "avx", "\u221e", "x" * 100])
def test_an_unknown_isa(name):
    with pytest.raises(ValueError, match=r"^name must .*ref"), int8blas.use_isa(name):
        pass


@pytest.mark.parametrize("name", [None, 1, b"ref", ["ref"]])
def test_an_isa_that_is_not_a_string(name):
    with pytest.raises(TypeError, match=r"^name must "), int8blas.use_isa(name):
        pass


def test_an_isa_this_cpu_lacks():
    for name in set(ISAS) - set(int8blas.available_isas()):
        with pytest.raises(RuntimeError, match=name), int8blas.use_isa(name):
            pass
        process = run_python("-c", "import int8blas", INT8BLAS_ISA=name)
        assert process.returncode == 1
        assert re.search(rf"^RuntimeError: INT8BLAS_ISA .*{name}", process.stderr, re.MULTILINE)


def test_isa_from_the_environment():
    for name in int8blas.available_isas():
        process = run_python("-c", EXPLAIN_LARGE, INT8BLAS_ISA=name)
        assert process.stdout.split()[:1] == [name], process.stderr


def test_an_unknown_isa_in_the_environment():
    process = run_python("-c", "import int8blas", INT8BLAS_ISA="sse2")
    assert process.returncode == 1
    assert re.search(r"^ValueError: INT8BLAS_ISA .*sse2", process.stderr, re.MULTILINE)


# --- threads ---------------------------------------------------------------------------------------------------------


def threads_used():
    """The number of threads that a large problem of this thread would use."""
    return int8blas.explain(*LARGE).threads


@pytest.mark.parametrize("oversubscribes", ["0", "1"])
def test_a_call_uses_no_more_threads_than_there_are_cpus(oversubscribes):
    settings = {"INT8BLAS_NUM_THREADS": "64", "INT8BLAS_OVERSUBSCRIBE": oversubscribes}
    process = run_python("-c", EXPLAIN_LARGE + "print(int8blas.num_threads())", **settings)
    assert process.returncode == 0, process.stderr
    (_, used), (allowed,) = map(str.split, process.stdout.splitlines())
    assert allowed == "64"
    if threading_info()["openmp"]:
        most = 64 if oversubscribes == "1" else min(64, len(usable_cpus()))
        assert min(most, 16) <= int(used) <= most


def test_oversubscribing_is_on_or_off():
    process = run_python("-c", "import int8blas", INT8BLAS_OVERSUBSCRIBE="yes")
    assert "ValueError: INT8BLAS_OVERSUBSCRIBE must be 0 or 1, got 'yes'" in process.stderr


def test_num_threads_nests_and_is_undone_after_an_error():
    before = threads_used()
    with int8blas.num_threads(1):
        with contextlib.suppress(KeyError), int8blas.num_threads(2):
            assert threads_used() <= 2
            raise KeyError
        assert threads_used() == 1
    assert threads_used() == before


def test_num_threads_concerns_the_calling_thread_only():
    before = in_another_thread(threads_used)
    with int8blas.num_threads(1):
        assert in_another_thread(threads_used) == before


def test_threadpoolctl_limits_the_threads():
    before = threads_used()
    with threadpoolctl.threadpool_limits(1):
        assert threads_used() == 1
    assert threads_used() == before


def test_a_small_problem_runs_on_one_thread():
    with int8blas.num_threads(4):
        assert int8blas.explain(LARGE[0][:2, :2], LARGE[1][:2, :2]).threads == 1


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.5", "9" * 30])
def test_a_wrong_number_of_threads_in_the_environment(count):
    process = run_python("-c", "import int8blas", INT8BLAS_NUM_THREADS=count)
    assert process.returncode == 1
    assert re.search(r"^ValueError: INT8BLAS_NUM_THREADS ", process.stderr, re.MULTILINE)


@pytest.mark.parametrize("n", [0, -1, -(2**70)])
def test_num_threads_is_at_least_one(n):
    with pytest.raises(ValueError, match=r"^n must "), int8blas.num_threads(n):
        pass


@pytest.mark.parametrize("n", [None, "2", 1.0, [1]])
def test_num_threads_is_an_integer(n):
    with pytest.raises(TypeError, match=r"^n must "), int8blas.num_threads(n):
        pass


def test_threads_from_the_environment():
    for count in (1, 2, 3):
        with int8blas.num_threads(count):
            expected = str(threads_used())
        process = run_python("-c", EXPLAIN_LARGE, INT8BLAS_NUM_THREADS=str(count))
        assert process.stdout.split()[1:] == [expected], process.stderr


# --- reports of the package ------------------------------------------------------------------------------------------


def test_verbose_prints_a_line_a_call():
    code = """
import numpy as np
import int8blas
a, b = np.ones((3, 5), np.uint8), np.ones((5, 7), np.int8)
int8blas.gemm_u8s8s32(1.0, a, b)
int8blas.gemm_u8s8s32(1.0, a, int8blas.pack_b(b), numerics="saturating")
int8blas.gemm_s8s8s32(1.0, a.view(np.int8), b)
columns = np.ones((64, 5), np.uint8, order="F")
assert int8blas.explain(columns, b[:, :1]).transposed
int8blas.gemm_u8s8s32(1.0, columns, b[:, :1])
"""
    lines = run_python("-c", code, INT8BLAS_VERBOSE="1").stderr.splitlines()
    lines = [line for line in lines if "gemm" in line]
    assert len(lines) == 4
    assert ["u8s8" in line for line in lines] == [True, True, False, True]
    assert "m=64,n=1,k=5" in lines.pop()
    for line in lines:
        for fact in ("m=3", "n=7", "k=5", int8blas.available_isas()[0], "threads=1", "ms"):
            assert fact in line
    for quiet in ({"INT8BLAS_VERBOSE": "0"}, {}):
        process = run_python("-c", code, **quiet)
        assert (process.returncode, process.stderr) == (0, "")


def test_verbose_prints_a_line_a_layer():
    code = """
import numpy as np
import int8blas
ones, x, types = np.ones, np.ones((2, 9, 9, 16), np.uint8), {"src_dtype": np.uint8, "dst_dtype": np.int32}
int8blas.InnerProduct(ones((24, 16), np.int8), **types)(x[:, 0, 0])
for groups, shape in (1, (24, 16, 1, 1)), (1, (24, 16, 3, 3)), (4, (16, 4, 3, 3)), (16, (16, 1, 3, 3)):
    int8blas.Convolution(ones(shape, np.int8), groups=groups, **types)(x)
int8blas.Deconvolution(ones((24, 16, 3, 3), np.int8), **types)(x)
for layer, gates in (int8blas.LSTM, 4), (int8blas.GRU, 3):
    layer(ones((8, gates, 16), np.int8), ones((16, gates, 16), np.int8), weights_scale=1)(ones((5, 2, 8), np.uint8))
w, r = ones((8, 4, 16), np.int8), ones((16, 4, 16), np.int8)
int8blas.DynamicLSTM(w, r, scales={"layer": 1, "iter": 1}, direction="right2left")(ones((5, 2, 8), np.float32))
"""
    process = run_python("-c", code, INT8BLAS_VERBOSE="1", INT8BLAS_NUM_THREADS="1")
    assert process.returncode == 0, process.stderr
    facts = [line.rsplit(",", 3) for line in process.stderr.splitlines()]
    assert {(isa, threads) for _, isa, threads, _ in facts} == {(int8blas.available_isas()[0], "threads=1")}
    assert all(float(time.removesuffix(" ms")) >= 0 for *_, time in facts)
    assert [fact[0] for fact in facts] == [
        "int8blas,inner_product,m=2,n=24,k=16,packed",
        "int8blas,convolution,m=81,n=48,k=32,packed",
        "int8blas,convolution,m=98,n=24,k=144,lines",
        "int8blas,convolution,m=98,n=16,k=36,groups",
        "int8blas,convolution,m=98,n=16,k=9,depthwise",
        "int8blas,deconvolution,m=242,n=24,k=144,lines",
        "int8blas,lstm,t=5,n=2,inputs=8,units=16,left2right",
        "int8blas,gru,t=5,n=2,inputs=8,units=16,left2right",
        "int8blas,dynamiclstm,t=5,n=2,inputs=8,units=16,right2left",
    ]


@pytest.mark.skipif(not int8blas.show_config("dicts")["threading"]["openmp"], reason="built without OpenMP")
def test_verbose_tells_the_threads_of_a_layer():
    """One product that several threads share, several products, and a product too small for a second thread."""
    code = """
import numpy as np
import int8blas
w, types = np.ones((256, 256, 1, 1), np.int8), {"src_dtype": np.uint8, "dst_dtype": np.int32}
int8blas.Convolution(w, **types)(np.ones((1, 64, 64, 256), np.uint8))
int8blas.Convolution(w[:, :64], groups=4, **types)(np.ones((1, 64, 64, 256), np.uint8))
int8blas.Convolution(w[:8, :8], **types)(np.ones((1, 2, 2, 8), np.uint8))
"""
    process = run_python("-c", code, INT8BLAS_VERBOSE="1", INT8BLAS_NUM_THREADS="2")
    facts = [line.split(",")[2:8:5] for line in process.stderr.splitlines()]
    assert facts == [["m=4096", "threads=2"], ["m=4096", "threads=2"], ["m=4", "threads=1"]]


def test_verbose_prints_a_line_a_function():
    code = """
import numpy as np
import int8blas
x, f, b = np.ones((2, 9, 9, 16), np.uint8), np.ones((3, 4), np.float32), np.ones((16, 7), np.int8)
int8blas.quantize(f, 1)
int8blas.dequantize(x=x, scale=1)
int8blas.requantize(x.astype(np.int32), 1, dtype=np.uint8)
int8blas.eltwise(f, int8blas.ReLU())
int8blas.binary("add", f, f[0])
int8blas.sum([f, f])
int8blas.concat([f] * 7, 0)
int8blas.max_pool(x, 3)
int8blas.avg_pool(x, 2)
int8blas.global_max_pool(x)
int8blas.global_avg_pool(x)
int8blas.softmax(f)
int8blas.layer_norm(f)
try:
    int8blas.layer_norm(b[0, 0])
except ValueError:
    pass
int8blas.gather(b, [[1, 2, 3]])
int8blas.im2col(x, 3)
packed = int8blas.pack_b(b)
int8blas.reorder(f, dst_layout="io", src_layout="oi", dtype=np.int8, scales=1)
int8blas.reorder((packed, packed), src_layout="packed", dst_layout="goi")
int8blas.would_saturate(x[0, 0], packed)
int8blas.nearest(x[0, 0], [x[0, 1], packed.unpack().T], 2)
int8blas.sqeuclidean(x[0, 0], x[0, 1])
int8blas.sqeuclidean(x[0, 0, 0], np.ones((500, 16), np.int8))
int8blas.syrk_u8s32(1, x[0, 0], lower=True)
int8blas.syrk_s8s32(1, b, trans=True)
int8blas.quantize([[1.0, 2.0]], 1)
int8blas.quantize(1.0, 1)
with int8blas.num_threads(2):
    int8blas.quantize(np.ones((1000, 1000), np.float32), 1)
int8blas.quantize(f, 1)
"""
    process = run_python("-c", code, INT8BLAS_VERBOSE="1")
    assert process.returncode == 0, process.stderr
    facts = [line.rsplit(",", 3) for line in process.stderr.splitlines()]
    assert {isa for _, isa, _, _ in facts} == {int8blas.available_isas()[0]}
    assert all(float(time.removesuffix(" ms")) >= 0 for *_, time in facts)
    several = f"threads={2 if int8blas.show_config('dicts')['threading']['openmp'] else 1}"
    assert [threads for _, _, threads, _ in facts] == ["threads=1"] * 26 + [several, "threads=1"]
    assert [fact[0].removeprefix("int8blas,") for fact in facts] == [
        "quantize,x=3x4,dst=3x4,float32 to int8",
        "dequantize,x=2x9x9x16,dst=2x9x9x16,uint8 to float32",
        "requantize,x=2x9x9x16,dst=2x9x9x16,int32 to uint8",
        "eltwise,src=3x4,dst=3x4,float32 to float32",
        "binary,src0=3x4,src1=4,dst=3x4,float32 to float32",
        "sum,srcs=3x4+3x4,dst=3x4,float32 to float32",
        "concat,srcs=3x4+3x4+3x4+3x4+3 more,dst=21x4,float32 to float32",
        "max_pool,src=2x9x9x16,dst=2x3x3x16,uint8 to uint8",
        "avg_pool,src=2x9x9x16,dst=2x4x4x16,uint8 to uint8",
        "global_max_pool,src=2x9x9x16,dst=2x1x1x16,uint8 to uint8",
        "global_avg_pool,src=2x9x9x16,dst=2x1x1x16,uint8 to uint8",
        "softmax,src=3x4,dst=3x4,float32 to float32",
        "layer_norm,src=3x4,dst=3x4,float32 to float32",
        "gather,table=16x7,indices=1x3,dst=1x3x7,int8 to float32",
        "im2col,src=2x9x9x16,dst=98x144,uint8 to uint8",
        "pack_b,b=16x7,dst=16x7,int8 to int8",
        "reorder,x=3x4,dst=4x3,float32 to int8",
        "reorder,x=16x7+16x7,dst=2x7x16,int8 to int8",
        "would_saturate,a=9x16,b=16x7,uint8",
        "nearest,queries=9x16,base=9x16+7x16,uint8",
        "sqeuclidean,m=9,n=9,k=16,plain",
        "sqeuclidean,m=1,n=500,k=16,plain",
        "syrk_u8s32,m=9,n=9,k=16,lower",
        "syrk_s8s32,m=7,n=7,k=16,upper",
        "quantize,x=1x2,dst=1x2,float64 to int8",
        "quantize,x=1,dst=1,float64 to int8",
        "quantize,x=1000x1000,dst=1000x1000,float32 to int8",
        "quantize,x=3x4,dst=3x4,float32 to int8",
    ]
    process = run_python("-c", code)
    assert (process.returncode, process.stderr) == (0, "")


def leaves(config):
    """Every value of a nested dict, as strings."""
    for value in config.values():
        yield from leaves(value) if isinstance(value, dict) else [str(value)]


def test_show_config_returns_a_nested_dict(capsys):
    config = int8blas.show_config(mode="dicts")
    assert any(isinstance(value, dict) for value in config.values())
    values = " ".join(leaves(config))
    for fact in (*int8blas.available_isas(), int8blas.__version__):
        assert fact in values
    assert capsys.readouterr().out == ""


def test_show_config_prints(capsys):
    assert int8blas.show_config() is None
    printed = capsys.readouterr().out
    for fact in (*int8blas.available_isas(), int8blas.__version__):
        assert fact in printed


def test_show_config_knows_two_modes():
    with pytest.raises(ValueError, match="mode"):
        int8blas.show_config(mode="json")


def test_the_module_runs_and_prints_the_configuration():
    process = run_python("-m", "int8blas")
    assert (process.returncode, process.stderr) == (0, "")
    for fact in (*int8blas.available_isas(), int8blas.__version__, "thread"):
        assert fact in process.stdout


@pytest.mark.parametrize("numerics", ["exact", "saturating"])
@pytest.mark.parametrize("form", B_FORMS)
def test_explain_names_the_kernel_and_computes_nothing(isa, pair, numerics, form, rng):
    a, b = pair.operands(rng, 9, 40, 33)
    form = B_FORMS[form](b)
    explanation = int8blas.explain(a, form, numerics=numerics)
    assert explanation.isa == isa
    assert explanation.threads == 1
    assert explanation.kernel in str(explanation)
    assert "thread" in str(explanation)
    assert_same(pair.gemm(1, a, form, numerics=numerics), reference.gemm(1, a, b, numerics=numerics))


def test_the_sums_of_a_tiny_product_are_never_wide(isa):
    """This also holds after a plan with wide sums in the same memory."""
    long, tiny = ((np.ones((m, k), np.uint8), np.ones((k, n), np.int8)) for m, n, k in ((64, 64, 140_000), (3, 7, 5)))
    assert int8blas.explain(*long).wide_sums
    assert not int8blas.explain(*tiny).wide_sums


def test_explain_takes_transposed_operands(isa):
    a, b = np.ones((5, 3), np.uint8), np.ones((7, 5), np.int8)
    assert str(int8blas.explain(a, b, trans_a=True, trans_b=True)) == str(int8blas.explain(a.T, b.T))
