"""Weights with scales by groups of k: the sums of the groups are scaled and added in float32 one after the other."""

import copy
import io
import pickle
from itertools import product

import numpy as np
import pytest
import reference_quantized
from arrays import BROADCASTS, LAYOUTS, guarded, needs_mprotect, place, random_values
from errors import refused
from layers import DST_DTYPES, GroupedProblem, assert_same_bits, name_of, random_problem, sign_pairs

import int8blas
from int8blas import Attributes, Binary, Convolution, Deconvolution, Eltwise, InnerProduct, PReLU, ReLU, Sum

# (M, N, K, k of a group): sizes at, below and above multiples of a tile, of several tiles along M, and of a panel.
SHAPES = (
    (1, 1, 4, 4), (1, 50, 64, 32), (1, 130, 1024, 1024), (2, 49, 24, 8), (3, 33, 60, 12), (4, 16, 96, 32),
    (5, 48, 128, 128), (7, 47, 256, 64), (8, 3, 64, 16), (9, 33, 128, 64), (14, 65, 40, 20), (20, 5, 96, 32),
    (31, 49, 512, 128), (63, 17, 64, 32), (65, 97, 128, 32), (130, 100, 192, 64), (300, 20, 8, 4),
)  # fmt: skip
FEW = ((1, 50, 64, 32), (9, 33, 128, 64), (20, 5, 96, 32), (70, 49, 64, 4))

RANGES = ("per_row", "per_tensor")


def random_scales(rng, groups, n):
    return rng.uniform(0.002, 0.02, (groups, n)).astype(np.float32)


def grouped_problem(rng, m, n, k, group, scales=("src", "dst"), **arguments):
    """A random problem with groups of `group` k."""
    problem = random_problem(rng, m, n, k, scales=scales, **arguments)
    values = vars(problem) | {"scales": problem.scales | {"weights": random_scales(rng, k // group, n)}}
    return GroupedProblem(**values)


@pytest.mark.parametrize(("src_dtype", "weights_dtype"), list(sign_pairs()), ids=name_of)
@pytest.mark.parametrize("vectors", [(), ("src",)], ids=["one scale of src", "a scale of each row"])
def test_shapes_and_types(isa, src_dtype, weights_dtype, vectors, rng):
    for m, n, k, group in SHAPES:
        types = {"src_dtype": src_dtype, "weights_dtype": weights_dtype, "dst_dtype": np.float32}
        for zeros in ((), ("src",), ("weights",), ("src", "weights")):
            for of_rows in (vectors, (*vectors, *zeros)):
                problem = grouped_problem(
                    rng, m, n, k, group, ("src",), vectors=of_rows, zero_points=zeros, kind="full", **types
                )
                problem.check(group=group, zeros=zeros, vectors=of_rows)


@pytest.mark.parametrize(("src_dtype", "weights_dtype"), list(sign_pairs()), ids=name_of)
def test_zero_points_by_groups(isa, src_dtype, weights_dtype, rng):
    for m, n, k, group in SHAPES:
        types = {"src_dtype": src_dtype, "weights_dtype": weights_dtype, "dst_dtype": np.float32}
        for zeros, vectors in product(((), ("src",)), ((), ("src",))):
            problem = grouped_problem(
                rng, m, n, k, group, ("src",), vectors=vectors, zero_points=zeros, kind="full", **types
            )
            by_group = random_values(rng, weights_dtype, (k // group, n)).astype(np.int32)
            problem = problem.but(zero_points=problem.zero_points | {"weights": by_group})
            problem.check(group=group)
            masks = Attributes(zero_points=problem.masks(problem.zero_points))
            layer = InnerProduct(
                problem.weights, problem.bias, scales=problem.scales, attributes=masks, src_dtype=src_dtype,
                dst_dtype=np.float32,
            )  # fmt: skip
            assert_same_bits(layer(problem.src, zero_points=problem.zero_points), problem.expected(), group=group)


@pytest.mark.parametrize(("src_dtype", "weights_dtype"), list(sign_pairs()), ids=name_of)
def test_source_by_groups(isa, src_dtype, weights_dtype, rng):
    """Scales, zero points, or both, together with zero points of the weights of each kind."""
    for m, n, k, group in SHAPES:
        groups, types = k // group, {"src_dtype": src_dtype, "weights_dtype": weights_dtype, "dst_dtype": np.float32}
        scales, zeros = rng.uniform(-1, 1, (m, groups)).astype(np.float32), random_values(rng, src_dtype, (m, groups))
        of_weights = (None, 7, random_values(rng, weights_dtype, n), random_values(rng, weights_dtype, (groups, n)))
        both = {"scales": scales, "zero_points": zeros}
        for src, weights in product(({"scales": scales}, {"zero_points": zeros}, both), of_weights):
            problem = grouped_problem(rng, m, n, k, group, (), kind="full", **types)
            problem = problem.but(
                scales=problem.scales | {"src": src.get("scales", np.float32(0.5))},
                zero_points={"src": src["zero_points"].astype(np.int32)} if "zero_points" in src else {},
            )
            if weights is not None:
                problem = problem.but(zero_points=problem.zero_points | {"weights": np.int32(weights)})
            problem.check(group=group, given=tuple(src), zeros=np.shape(weights))


def test_source_by_groups_in_each_call(isa, rng):
    for (m, n, k, group), dst_dtype in product(FEW, DST_DTYPES):
        problem = grouped_problem(rng, m, n, k, group, ("src",), dst_dtype=dst_dtype)
        layer = InnerProduct(
            problem.weights, problem.bias, src_dtype=np.uint8, dst_dtype=dst_dtype,
            scales={"weights": problem.scales["weights"]},
            attributes=Attributes(scales={"src": 3}, zero_points={"src": 3}),
        )  # fmt: skip
        for rows in (m, m + 1, 1):
            src = random_values(rng, np.uint8, (rows, k))
            given = {
                "scales": {"src": rng.uniform(0.1, 1, (rows, k // group)).astype(np.float32)},
                "zero_points": {"src": rng.integers(-300, 300, (rows, k // group))},
            }
            values = given["scales"] | layer.scales
            expected = reference_quantized.inner_product_by_groups(
                src, problem.weights, problem.bias, dst_dtype=dst_dtype, scales=values, zero_points=given["zero_points"]
            )
            assert_same_bits(layer(src, **given), expected, group=group)


@pytest.mark.parametrize("far", [-200, 256, -(2**31), 2**31 - 1])
def test_zero_points_beyond_their_types(isa, far, rng):
    """Numbers, vectors and values by groups, of one operand or of both, in sums that exceed 32 bits."""
    for (m, n, k, group), (src_dtype, weights_dtype) in product(FEW, sign_pairs()):
        types = {"src_dtype": src_dtype, "weights_dtype": weights_dtype, "dst_dtype": np.float32}
        shapes = product(((), m, (m, k // group), None), ((), n, (k // group, n), None))
        for of_src, of_weights in shapes:
            zeros = {}
            if of_src is not None:
                zeros["src"] = np.full(of_src, far, np.int32)
            if of_weights is not None:
                zeros["weights"] = np.full(of_weights, far if of_src is None else 1000, np.int32)
                zeros["weights"][...] -= 3 if far > 0 else 0
            problem = grouped_problem(rng, m, n, k, group, ("src",), vectors=("src",), kind="full", **types)
            problem.but(zero_points=zeros).check(group=group, zeros=(of_src, of_weights))


@pytest.mark.parametrize("src_dtype", [np.uint8, np.int8], ids=name_of)
def test_zero_points_of_rows_whose_scale_is_one(isa, src_dtype, rng):
    for m, n, k, group in SHAPES:
        problem = grouped_problem(
            rng, m, n, k, group, ("src",), src_dtype=src_dtype, dst_dtype=np.float32, zero_points=("src",), kind="full"
        )
        rows = random_values(rng, src_dtype, m).astype(np.int32)
        problem.but(zero_points={"src": rows}).check(group=group)


@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
@pytest.mark.parametrize("bias", [None, "f32"])
def test_destinations_biases_and_post_ops(isa, dst_dtype, bias, rng):
    chains = ((), (ReLU(),), (ReLU(0.5), Sum(0.5, 3)), (Sum(), Eltwise("linear", -0.5, 1), ReLU()))
    for m, n, k, group in FEW:
        operands = (Binary(rng.normal(0, 1, n)), PReLU(rng.normal(0, 1, (m, n))))
        for ops, vectors in product((*chains, operands), ((), ("dst", "src"))):
            problem = grouped_problem(rng, m, n, k, group, dst_dtype=dst_dtype, bias=bias, ops=ops, vectors=vectors)
            problem.check(group=group, ops=ops)


def test_values_of_source_and_destination_at_execution(isa, rng):
    for m, n, k, group in FEW:
        problem = grouped_problem(rng, m, n, k, group, vectors=("src",))
        given = {tensor: problem.scales[tensor] for tensor in ("src", "dst")}
        layer = InnerProduct(
            problem.weights, problem.bias, src_dtype=np.uint8, dst_dtype=np.int8,
            scales={"weights": problem.scales["weights"]},
            attributes=Attributes(scales={"src": 1, "dst": 0}, zero_points=problem.masks(problem.zero_points)),
        )  # fmt: skip
        for _ in range(2):
            result = layer(problem.src, scales=given, zero_points=problem.zero_points)
            assert_same_bits(result, problem.expected(), group=group)


@pytest.mark.parametrize("kind", ["full", "largest", "smallest"])
def test_the_longest_groups_hold_the_largest_sums(isa, kind, rng):
    """Such sums exceed 2**24, and are rounded to float32 before they are scaled."""
    longest, n = 16384, 5
    for (src_dtype, weights_dtype), m, zero in product(sign_pairs(), (1, 9), (False, True)):
        src, weights = (
            random_values(rng, src_dtype, (m, 2 * longest)),
            random_values(rng, weights_dtype, (n, 2 * longest)),
        )
        info = np.iinfo(src_dtype), np.iinfo(weights_dtype)
        if kind != "full":
            src[:] = info[0].max if kind == "largest" else info[0].min
            weights[:] = info[1].min
        zeros = {"src": info[0].min if kind == "largest" else info[0].max, "weights": info[1].max} if zero else {}
        problem = GroupedProblem(src, weights, None, np.float32, {"weights": random_scales(rng, 2, n)}, zeros)
        problem.check(kind=kind)


def test_groups_are_added_in_their_order(isa):
    """The groups have a large sum, a small one, and the negative of the first: rounding loses the small sum."""
    weights = np.repeat(np.int8([[1, 1, -1], [1, -1, 1]]), 4, axis=1)
    scales = np.float32([[1e8, 1e8], [1, 1e8], [1e8, 1]])
    layer = InnerProduct(weights, src_dtype=np.uint8, dst_dtype=np.float32, scales={"weights": scales})
    for m in (1, 9):
        assert layer(np.ones((m, 12), np.uint8)).tolist() == [[0, 4]] * m


@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
def test_infinities_of_both_signs_are_nan(isa, dst_dtype, rng):
    """An integer destination stores its zero point for NaN."""
    weights = np.repeat(np.int8([[100, -100], [100, 100], [-100, -100]]), 4, axis=1)
    for m in (1, 9):
        src, scales = np.full((m, 8), 255, np.uint8), {"weights": np.full((2, 3), 3e38, np.float32)}
        zeros = {"dst": 7} if np.dtype(dst_dtype).kind != "f" else {}
        GroupedProblem(src, weights, None, dst_dtype, scales, zeros).check()


def test_saturating_numerics(isa, rng):
    for (m, n, k, group), (src_dtype, weights_dtype) in product(FEW, sign_pairs()):
        types = {"src_dtype": src_dtype, "weights_dtype": weights_dtype}
        problem = grouped_problem(rng, m, n, k, group, numerics="saturating", **types)
        problem.check(group=group)


@pytest.mark.parametrize("certified", [True, False])
def test_panels_with_and_without_a_no_saturation_proof(isa, certified, rng):
    """Without VNNI the two kinds of panels take different kernels."""
    for m, n, k, group in SHAPES:
        problem = grouped_problem(rng, m, n, k, group)
        weights = problem.weights // (1 if not certified else 4)
        weights[: n // 2] //= 4
        problem.but(weights=weights).check(group=group)


def test_any_number_of_threads_gives_the_same_bits(isa, rng):
    for m, n, k, group in ((1, 700, 2048, 32), (300, 200, 512, 64), (40, 600, 1024, 128)):
        problem = grouped_problem(rng, m, n, k, group, src_dtype=np.int8)
        for threads in (1, 2, 3, 4):
            with int8blas.num_threads(threads):
                problem.check(group=group, threads=threads)


def test_sources_and_results_of_any_strides(isa, rng):
    for src_dtype, dst_dtype in product((np.uint8, np.int8), (np.float32, np.int8)):
        for m, n, k, group in FEW:
            problem = grouped_problem(rng, m, n, k, group, src_dtype=src_dtype, dst_dtype=dst_dtype)
            for layout in (*LAYOUTS, *BROADCASTS):
                placed = problem.but(src=place(problem.src, layout))
                expected = placed.but(src=placed.src.copy()).expected()
                assert_same_bits(placed.result(), expected, layout=layout)
                if layout in LAYOUTS:
                    out = place(np.zeros((m, n), dst_dtype), layout)
                    assert_same_bits(problem.result(out=out), problem.expected(), layout=layout)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_source_and_result_is_touched(isa, side, rng):
    for src_dtype, (m, n, k, group) in product((np.uint8, np.int8), SHAPES):
        problem = grouped_problem(rng, m, n, k, group, src_dtype=src_dtype, dst_dtype=np.float32)
        for layout in ("C", "F", "C, padded rows", "every other column"):
            src, out = (place(x, layout, guarded(side)) for x in (problem.src, np.zeros((m, n), np.float32)))
            assert_same_bits(problem.but(src=src).result(out=out), problem.expected(), layout=layout)


# --- dynamic sources -------------------------------------------------------------------------------------------------


def normal(rng, m, k, dtype):
    return (rng.normal(0, 1, (m, k)) * rng.uniform(0.1, 10, (m, 1)) + rng.normal(0, 1, (m, 1))).astype(dtype)


def check_dynamic(rng, x, n, group, dynamic, dynamic_dtype, weights_dtype=np.int8, zeros=None, **more):
    """A layer on the float source x has the bits of the oracle."""
    weights, scales = random_values(rng, weights_dtype, (n, x.shape[1])), random_scales(rng, x.shape[1] // group, n)
    bias = rng.normal(0, 1, n).astype(np.float32)
    given = {} if zeros is None else {"weights": zeros}
    layer = InnerProduct.dynamic(
        weights, bias, dynamic=dynamic, dynamic_dtype=dynamic_dtype, src_dtype=x.dtype, scales={"weights": scales},
        zero_points=given, **more,
    )  # fmt: skip
    assert layer.group == group
    quantized, scale, zero = reference_quantized.quantize_dynamically(x.copy(), dynamic_dtype, dynamic == "per_row")
    expected = reference_quantized.inner_product_by_groups(
        quantized, weights, bias, dst_dtype=np.float32, scales={"src": scale, "weights": scales},
        zero_points={"src": zero} | given, **more,
    )  # fmt: skip
    assert_same_bits(layer(x), expected, shape=(*x.shape, n), group=group)


@pytest.mark.parametrize("src_dtype", [np.float32, np.float16], ids=name_of)
@pytest.mark.parametrize("dynamic", RANGES)
@pytest.mark.parametrize("dynamic_dtype", [np.int8, np.uint8], ids=name_of)
def test_dynamic_sources(isa, src_dtype, dynamic, dynamic_dtype, rng):
    for m, n, k, group in SHAPES:
        x = normal(rng, m, k, src_dtype)
        check_dynamic(rng, x, n, group, dynamic, dynamic_dtype)
        check_dynamic(rng, np.asfortranarray(x), n, group, dynamic, dynamic_dtype)
    for m, n, k, group in FEW:
        x = normal(rng, m, k, src_dtype)
        check_dynamic(rng, x, n, group, dynamic, dynamic_dtype, numerics="saturating")
        for zeros in (None, 3, rng.integers(0, 256, n)):
            check_dynamic(rng, x, n, group, dynamic, dynamic_dtype, np.uint8, zeros)


@pytest.mark.parametrize("dynamic", RANGES)
@pytest.mark.parametrize("dynamic_dtype", [np.int8, np.uint8], ids=name_of)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_finite_have_no_results(isa, dynamic, dynamic_dtype, bad, rng):
    for m, n, k, group in FEW:
        x = normal(rng, m, k, np.float32)
        x[m // 2, k - 1] = bad
        check_dynamic(rng, x, n, group, dynamic, dynamic_dtype)


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_a_dynamic_source_is_read(isa, side, rng):
    for (m, n, k, group), layout in product(SHAPES, ("C", "F", "C, padded rows")):
        x = place(normal(rng, m, k, np.float32), layout, guarded(side))
        check_dynamic(rng, x, n, group, "per_row", np.int8)


# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [4, 32, 64, 96])
def test_float_weights_are_quantized_group_by_group(group, rng):
    weights = (rng.normal(0, 1, (37, 192)) * rng.uniform(0.01, 10, (37, 192))).astype(np.float32)
    weights[3, :group] = 0
    quantized, scales = reference_quantized.quantize_weights_by_groups(weights, group)
    assert_same_bits(int8blas.weights_scales(weights, group=group), scales)
    layer = InnerProduct(
        weights, src_dtype=np.uint8, dst_dtype=np.float32, group=group, scales={"weights": "per_channel"}
    )
    assert layer.group == group
    assert np.array_equal(layer.weights.unpack().T, quantized)
    assert_same_bits(layer.scales["weights"], scales)
    # The caller's own scales, without the size of a group, which follows from them, and with it.
    own = scales * np.float32(1.5)
    for given in (None, group):
        layer = InnerProduct(
            weights, src_dtype=np.uint8, dst_dtype=np.float32, group=given, scales={"weights": own.tolist()}
        )
        assert np.array_equal(
            layer.weights.unpack().T, reference_quantized.quantize_weights_by_groups(weights, group, own)[0]
        )
        assert_same_bits(layer.scales["weights"], own)


def test_the_commonest_layer_is_one_call(isa, rng):
    """If magnitudes differ along k, the result is closer to the float product than with one scale for all k."""
    magnitudes = np.repeat(10.0 ** rng.uniform(-2, 0, 8), 64)
    w, b = rng.normal(0, 1, (40, 512)) * magnitudes, rng.normal(0, 1, 40)
    x = (rng.normal(0, 1, (20, 512)) / magnitudes).astype(np.float32)
    x /= np.abs(x).max(axis=1, keepdims=True)
    exact = x.astype(np.float64) @ w.T + b

    def error(layer):
        return np.linalg.norm(layer(x) - exact)

    layer = InnerProduct.dynamic(w, b, group=64)
    assert repr(layer) == "InnerProduct(40, 512)[float32 -> float32, dynamic='per_row', group=64]"
    assert layer.scales["weights"].shape == (8, 40)
    assert InnerProduct.dynamic(w, b).group is None
    assert error(layer) < error(InnerProduct.dynamic(w, b))


def test_weights_of_more_dimensions_and_packed_ones(isa, rng):
    weights, scales = random_values(rng, np.int8, (12, 4, 2, 4)), random_scales(rng, 4, 12)
    src = random_values(rng, np.uint8, (5, 4, 2, 4))
    arguments = {"src_dtype": np.uint8, "dst_dtype": np.float32, "scales": {"weights": scales}}
    expected = reference_quantized.inner_product_by_groups(
        src.reshape(5, 32), weights.reshape(12, 32), dst_dtype=np.float32, scales={"weights": scales}
    )
    assert_same_bits(InnerProduct(weights, **arguments)(src), expected)
    packed = int8blas.pack_b(weights.reshape(12, 32), trans_b=True)
    assert_same_bits(InnerProduct(packed, **arguments)(src.reshape(5, 32)), expected)
    images = rng.normal(0, 1, (12, 4, 2, 4)).astype(np.float32)
    assert_same_bits(int8blas.weights_scales(images, group=8), int8blas.weights_scales(images.reshape(12, 32), group=8))


def test_copies_pickles_and_files(isa, rng):
    problem = grouped_problem(rng, 9, 33, 128, 32)
    layer, file = problem.layer(), io.BytesIO()
    int8blas.save(file, layer)
    file.seek(0)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), int8blas.load(file)):
        assert other.group == 32
        assert_same_bits(other(problem.src), problem.expected())
    dynamic = InnerProduct.dynamic(rng.normal(0, 1, (33, 128)), group=64)
    x = normal(rng, 9, 128, np.float32)
    restored = pickle.loads(pickle.dumps(dynamic))
    assert repr(restored) == repr(dynamic)
    assert_same_bits(restored(x), dynamic(x))


def test_no_rows_and_no_columns(isa):
    scales = np.ones((2, 0), np.float32)
    layer = InnerProduct(np.ones((0, 8), np.int8), src_dtype=np.uint8, dst_dtype=np.float32, scales={"weights": scales})
    assert layer(np.ones((3, 8), np.uint8)).shape == (3, 0)
    layer = InnerProduct.dynamic(np.ones((5, 8)), group=4)
    assert layer(np.ones((0, 8), np.float32)).shape == (0, 5)


# --- errors ----------------------------------------------------------------------------------------------------------


def f32(*shape):
    return np.ones(shape, np.float32)


GROUP = "group must be a multiple of 4 that divides ic, 24, and at most 16384, got "
MATRIX = (
    "scales['weights'] of 2 dimensions must have shape (ic / group, 6), with a group that is a multiple of 4, divides "
    "ic, 24, and is at most 16384, got "
)
GIVEN = "scales['weights'] must have shape (ic / group, oc), (3, 6), for group=8"
by_group = {"weights": f32(3, 6)}

CREATION = [
    *(({"group": group}, ValueError, f"{GROUP}{group}") for group in (0, -8, 2, 6, 10, 16, 48, 2**20)),
    ({"group": 8.0}, TypeError, "group must be an integer, got float"),
    ({"group": True}, TypeError, "group must be an integer, got bool"),
    *(({"scales": {"weights": f32(*shape)}}, ValueError, f"{MATRIX}{shape}")
      for shape in ((6, 3), (3, 5), (5, 6), (12, 6), (0, 6), (24, 6), (8, 6), (6, 1))),
    ({"scales": {"weights": f32(1, 3, 6)}}, ValueError,
     "scales['weights'] must be one value or a vector, got shape (1, 3, 6)"),
    ({"group": 8}, ValueError, f"{GIVEN}, or be 'per_channel' for float32 weights, got none"),
    ({"group": 8, "scales": {"weights": 1}}, ValueError, f"{GIVEN}, got ()"),
    ({"group": 8, "scales": {"weights": f32(6)}}, ValueError, f"{GIVEN}, got (6,)"),
    ({"group": 8, "scales": {"weights": f32(6, 6)}}, ValueError, f"{GIVEN}, got (6, 6)"),
    ({"group": 8, "scales": {"weights": "per_channel"}}, TypeError,
     "scales['weights'] must be values for weights of int8, got 'per_channel'"),
    ({"weights": f32(6, 24), "group": 8}, ValueError, "scales['weights'] must be given to quantize float32 weights"),
    ({"weights": f32(6, 24), "group": 8, "scales": {"weights": "per_tensor"}}, ValueError,
     "scales['weights'] must be 'per_channel' or values with group, got 'per_tensor'"),
    ({"weights": f32(6, 24), "group": 7, "scales": {"weights": "per_channel"}}, ValueError, f"{GROUP}7"),
    ({"weights": f32(6, 24), "scales": {"weights": f32(6, 3)}}, ValueError, f"{MATRIX}(6, 3)"),
    ({"weights": f32(6, 24) * np.nan, "group": 8, "scales": {"weights": "per_channel"}}, ValueError,
     "weights must be finite"),
    ({"weights": f32(6, 0), "group": 8, "scales": {"weights": "per_channel"}}, ValueError,
     "group must be a multiple of 4 that divides ic, 0, and"),
    ({"scales": {"weights": np.inf * f32(3, 6)}}, ValueError, "scales['weights'] must be finite and not 0"),
    ({"scales": by_group | {"src": 3e38}}, None, None),
    ({"scales": {"weights": f32(3, 6) * 3, "src": 3e38}}, ValueError,
     "scales['src'] * scales['weights'] must be finite in float32"),
    ({"scales": by_group, "attributes": Attributes(scales={"weights": 1})}, ValueError,
     "scales['weights'] must have the mask (1 << 0) | (1 << 1) for values of shape (ic / group, oc), got 1"),
    ({"scales": by_group, "attributes": Attributes(scales={"weights": 2})}, ValueError,
     "scales['weights'] must have the mask 0 or 1 << 0 (a value for each output channel), got 2"),
    ({"attributes": Attributes(scales={"weights": 3})}, ValueError,
     "scales['weights'] must be given when the layer is created, of shape (ic / group, oc), as its mask is"),
    ({"scales": {"weights": f32(6)}, "attributes": Attributes(scales={"weights": 3})}, ValueError,
     "scales['weights'] must be given when the layer is created, of shape (ic / group, oc), as its mask is"),
    ({"zero_points": {"weights": 0}, "attributes": Attributes(zero_points={"weights": 3})}, ValueError,
     "zero_points['weights'] must have the mask 0 or 1 << 0 without scales by groups of k, got 3"),
    ({"zero_points": {"weights": 0}, "scales": by_group, "attributes": Attributes(zero_points={"weights": 3})},
     ValueError, "zero_points['weights'] must have shape (ic / group, oc), as its mask is (1 << 0) | (1 << 1), got "),
    ({"zero_points": {"weights": np.zeros((3, 6), np.int8)}}, ValueError,
     "zero_points['weights'] must be one value or a vector, got shape (3, 6)"),
    ({"zero_points": {"weights": np.zeros((6, 3), np.int8)}, "scales": by_group}, ValueError,
     "zero_points['weights'] must have shape (ic / group, oc), (3, 6), got (6, 3)"),
    ({"zero_points": {"weights": np.full((3, 6), 2**31)}, "scales": by_group}, ValueError,
     "zero_points['weights'] must be "),
    ({"scales": {"src": f32(5, 3)}}, ValueError, "scales['src'] must be one value or a vector, got shape (5, 3)"),
    ({"scales": by_group | {"src": f32(5, 6)}}, ValueError,
     "scales['src'] must have shape (n, ic / group), (n, 3), got (5, 6)"),
    ({"zero_points": {"src": np.zeros((5, 6), int)}, "scales": by_group}, ValueError,
     "zero_points['src'] must have shape (n, ic / group), (n, 3), got (5, 6)"),
    ({"scales": by_group | {"src": 1}, "attributes": Attributes(scales={"src": 3})}, ValueError,
     "scales['src'] must have shape (n, ic / group), as its mask is (1 << 0) | (1 << 1), got shape ()"),
    ({"attributes": Attributes(scales={"src": 3})}, ValueError,
     "scales['src'] must have the mask 0 or 1 << 0 without scales by groups of k, got 3"),
    ({"attributes": Attributes(zero_points={"src": 3})}, ValueError,
     "zero_points['src'] must have the mask 0 or 1 << 0 without scales by groups of k, got 3"),
    ({"scales": by_group, "bias": np.zeros(6, np.int32)}, TypeError,
     "bias must be float32 with scales by groups of k, because the sums have no common unit, got int32"),
    ({"scales": by_group, "attributes": Attributes(requantization="single"), "dst_dtype": np.int8}, ValueError,
     "requantization must be 'float' or 'onnx' with scales by groups of k, got 'single'"),
    ({"scales": by_group, "attributes": Attributes(output_scales=(0, 1))}, ValueError,
     "scales must not be given together with output_scales"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "text"), CREATION)
def test_creation(arguments, error, text):
    arguments = {"weights": np.ones((6, 24), np.int8), "src_dtype": np.uint8, "dst_dtype": np.float32} | arguments
    if error is None:
        assert InnerProduct(**arguments).group == 8
        return
    with refused(error, text):
        InnerProduct(**arguments)


def test_scales_by_groups_are_not_given_at_execution():
    src = np.ones((2, 24), np.uint8)
    layer = InnerProduct(np.ones((6, 24), np.int8), src_dtype=np.uint8, dst_dtype=np.float32, scales=by_group)
    with refused(ValueError, "scales['weights'] must not be given again"):
        layer(src, scales=by_group)
    declared = Attributes(scales={"weights": 1})
    layer = InnerProduct(np.ones((6, 24), np.int8), src_dtype=np.uint8, dst_dtype=np.float32, attributes=declared)
    with refused(
        ValueError, "scales['weights'] must be one value or a vector, got shape (3, 6): scales by groups of k"
    ):
        layer(src, scales=by_group)


@pytest.mark.parametrize("cls", [Convolution, Deconvolution])
def test_other_layers_have_no_groups_of_k(cls):
    for weights in (np.ones((6, 24, 3, 3), np.int8), f32(6, 24, 3, 3)):
        with pytest.raises(
            ValueError, match=r"^scales\['weights'\] must .*, got shape \(3, 6\): .*scales by groups of k"
        ):
            cls(weights, src_dtype=np.uint8, dst_dtype=np.float32, scales=by_group)
        with refused(ValueError, "scales['weights'] must have the mask 0 or 1 << 0"):
            cls(weights, src_dtype=np.uint8, dst_dtype=np.float32, scales={"weights": 1},
                attributes=Attributes(scales={"weights": 3}))  # fmt: skip


def test_wrong_arguments_of_weights_scales():
    for arguments, error, text in (
        ({"group": 5}, ValueError, f"{GROUP}5"),
        ({"group": "8"}, TypeError, "group must be an integer, got str"),
        ({"group": 8, "mask": 3}, ValueError, "mask must be 'per_channel' with group, got 3"),
        ({"group": 8, "layout": "oi"}, ValueError, "w must have shape (oc, ic, ...), without a layout, with group"),
    ):
        with refused(error, text):
            int8blas.weights_scales(f32(6, 24), **arguments)
    with refused(ValueError, "w must have shape (oc, ic, ...), without a layout, with group, got shape (24,)"):
        int8blas.weights_scales(f32(24), group=8)
    with refused(ValueError, "w must be finite to have scales"):
        int8blas.weights_scales(f32(6, 24) * np.inf, group=8)
