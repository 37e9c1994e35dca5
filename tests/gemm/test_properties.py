"""Properties of random problems: shapes, layouts, values and parameters that the other tests do not have."""

import numpy as np
import reference
from arrays import BROADCASTS, LAYOUTS, SIGN_PAIRS, Canary, assert_same, place, random_c, random_values
from hypothesis import given
from hypothesis import strategies as st
from properties import on_every_isa, seeds
from reference import INT32_MAX, INT32_MIN

import int8blas

sizes = st.integers(0, 40) | st.sampled_from((0, 1, 14, 15, 16, 17, 47, 48, 49, 64, 65))
layouts = st.sampled_from([*LAYOUTS, *BROADCASTS])
kinds = st.sampled_from(("full", "extreme", "small"))
modes = st.sampled_from(("exact", "saturating"))
scalars = (
    st.sampled_from((0.0, 1.0, -1.0, 0.5)) | st.floats(-1e6, 1e6) | st.floats(allow_nan=False, allow_infinity=False)
)
int32s = st.integers(INT32_MIN, INT32_MAX) | st.integers(-100, 100)


@st.composite
def zero_points(draw, dtype, count):
    """One value, or one for each row or column, or none."""
    info = np.iinfo(dtype)
    values = st.integers(int(info.min), int(info.max))
    return draw(st.just(0) | values | st.lists(values, min_size=count, max_size=count))


@st.composite
def problems(draw):
    """A sign pair, and the arguments of a call to its function."""
    pair = draw(st.sampled_from(SIGN_PAIRS))
    m, n, k = draw(sizes), draw(sizes), draw(sizes)
    rng, kind = np.random.default_rng(draw(seeds)), draw(kinds)
    trans_a, trans_b = draw(st.booleans()), draw(st.booleans())
    a = place(random_values(rng, pair.a_dtype, (k, m) if trans_a else (m, k), kind), draw(layouts))
    b = place(random_values(rng, pair.b_dtype, (n, k) if trans_b else (k, n), kind), draw(layouts))
    offsetc = draw(st.sampled_from("FCRfcr"))
    count = {"F": 1, "C": m, "R": n}[offsetc.upper()]
    alpha, beta = draw(scalars), draw(scalars)
    if np.isinf(alpha * 2.0**40) or np.isinf(beta * 2.0**40):  # inf - inf has no value
        alpha, beta = 1.0, 1.0
    return pair, {
        "alpha": alpha,
        "a": a,
        "b": b,
        "beta": beta,
        "c": draw(st.none() | st.just(random_c(rng, (m, n)))),
        "trans_a": trans_a,
        "trans_b": trans_b,
        "offsetc": offsetc,
        "co": draw(int32s) if offsetc in "Ff" else draw(st.lists(int32s, min_size=count, max_size=count)),
        "ao": draw(zero_points(pair.a_dtype, m)),
        "bo": draw(zero_points(pair.b_dtype, n)),
        "numerics": draw(modes),
    }


@given(problems(), st.integers(1, 4))
def test_gemm_is_the_formula(problem, threads):
    pair, arguments = problem
    expected = reference.gemm(**arguments)
    packed = int8blas.pack_b(arguments["b"], trans_b=arguments["trans_b"])
    for name in on_every_isa():
        with int8blas.num_threads(threads):
            assert_same(pair.gemm(**arguments), expected, isa=name)
            assert_same(pair.gemm(**arguments | {"b": packed, "trans_b": False}), expected, isa=name)


@given(problems(), st.sampled_from(list(LAYOUTS)), st.integers(0, 3))
def test_gemm_writes_c_and_nothing_else(problem, layout, misalign):
    pair, arguments = problem
    expected = reference.gemm(**arguments)
    values = np.zeros(expected.shape, np.int32) if arguments["c"] is None else arguments["c"]
    for name in on_every_isa():
        canary = Canary()
        c = place(values, layout, canary, misalign)
        assert pair.gemm(**arguments | {"c": c, "overwrite_c": True}) is c
        assert_same(c, expected, isa=name)
        canary.assert_only_elements_written(c)


@given(st.sampled_from(SIGN_PAIRS), st.lists(st.integers(0, 3), max_size=3), st.data())
def test_matmul_broadcasts_like_numpy(pair, batch, data):
    m, n, k = (data.draw(sizes) for _ in "mnk")
    rng = np.random.default_rng(data.draw(seeds))
    shapes = []
    for matrix in ((m, k), (k, n)):
        kept = batch[data.draw(st.integers(0, len(batch))) :]
        shapes.append((*(size if data.draw(st.booleans()) else 1 for size in kept), *matrix))
    a, b = random_values(rng, pair.a_dtype, shapes[0]), random_values(rng, pair.b_dtype, shapes[1])
    ao, bo = int(random_values(rng, pair.a_dtype, ())), int(random_values(rng, pair.b_dtype, ()))
    expected = reference.matmul(a, b, ao, bo)
    for name in on_every_isa():
        assert_same(int8blas.matmul(a, b, ao=ao, bo=bo), expected, isa=name, a=a.shape, b=b.shape)
        out = np.empty_like(expected, order="F")
        assert int8blas.matmul(a, b, ao=ao, bo=bo, out=out) is out
        assert_same(out, expected, isa=name, a=a.shape, b=b.shape)


@given(problems())
def test_packing_is_the_layout_and_unpacks(problem):
    _, arguments = problem
    b, trans_b = arguments["b"], arguments["trans_b"]
    for _ in on_every_isa():
        packed = int8blas.pack_b(b, trans_b=trans_b)
        assert_same(packed.data, reference.packed_data(b, trans_b))
        assert_same(packed.column_sums, reference.column_sums(b, trans_b))
        assert_same(packed.certified, reference.certified(b, trans_b))
        assert_same(packed.unpack(), (b.T if trans_b else b).copy())


@given(problems(), st.integers(0, 2000))
def test_would_saturate_is_where_pairs_saturate(problem, limit):
    _, arguments = problem
    operands = {name: arguments[name] for name in ("a", "b", "trans_a", "trans_b")}
    expected = reference.saturated_pairs(**operands)
    report = int8blas.would_saturate(**operands, limit=limit)
    assert report.count == len(expected)
    assert_same(report.where, expected[:limit])


@given(problems())
def test_the_modes_agree_where_nothing_saturates(problem):
    pair, arguments = problem
    operands = {name: arguments[name] for name in ("a", "b", "trans_a", "trans_b")}
    certified = int8blas.pack_b(arguments["b"], trans_b=arguments["trans_b"]).certified.all()
    saturates = bool(int8blas.would_saturate(**operands))
    assert not (certified and saturates)
    if not saturates:
        for name in on_every_isa():
            exact, saturating = (pair.gemm(**arguments | {"numerics": mode}) for mode in ("exact", "saturating"))
            assert_same(saturating, exact, isa=name)
