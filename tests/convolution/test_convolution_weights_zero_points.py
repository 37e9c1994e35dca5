"""uint8 weights of convolutions, and zero points of weights, have the bits of the documented formula on every path."""

import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import reference_convolution
from arrays import guarded, needs_mprotect
from convolutions import LAYOUTS, place_image, random_convolution
from layers import DST_DTYPES, SRC_DTYPES, WEIGHTS_DTYPES, assert_same_bits, name_of

import int8blas
from int8blas import Eltwise, ReLU, Sum

every_primitive = pytest.mark.parametrize("transposed", [False, True], ids=["convolution", "deconvolution"])
every_weights = pytest.mark.parametrize("weights_dtype", WEIGHTS_DTYPES, ids=name_of)
ALL = ("src", "weights", "dst")

# Size, kernel, channels of source and destination, groups, and the path of a convolution with zero points of weights.
PATHS = (
    ((6, 7), (3, 3), 3, 20, 1, "lines"),
    ((6, 7), (3, 3), 20, 12, 2, "lines"),
    ((6, 7), (3, 3), 64, 40, 1, "lines"),
    ((6, 7), (3, 3), 600, 20, 1, "blocks"),
    ((6, 7), (1, 1), 33, 5, 1, "blocks"),
    ((6, 9), (1, 1), 80, 60, 4, "blocks"),
    ((6, 7), (3, 3), 37, 37, 37, "depthwise"),
    ((6, 7), (3, 3), 64, 64, 64, "depthwise"),
    ((6, 7), (2, 3), 18, 36, 18, "depthwise"),
    ((6, 9), (3, 3), 32, 32, 8, "groups"),
    ((6, 9), (3, 3), 40, 40, 5, "groups"),
    ((30,), (5,), 3, 17, 1, None),
    ((3, 4, 5), (2, 3, 2), 6, 9, 3, None),
    ((3, 4, 5), (2, 3, 2), 6, 6, 6, None),
)  # fmt: skip


def problem_of(rng, size, kernel, ic, oc, groups, *, transposed=False, **more):
    more = {"zero_points": ALL, "padding": 1, "n": 2} | more
    return random_convolution(rng, size, kernel, ic, oc, groups=groups, transposed=transposed, **more)


def extreme(problem, zero_point):
    """Weights at both ends of their type with this zero point: some differences do not fit int8."""
    info = np.iinfo(problem.weights.dtype)
    weights = np.where(problem.weights > (info.min + info.max) // 2, info.max, info.min).astype(problem.weights.dtype)
    return problem.but(weights=weights, zero_points=problem.zero_points | {"weights": zero_point})


@every_primitive
@every_weights
@pytest.mark.parametrize("src_dtype", SRC_DTYPES, ids=name_of)
def test_every_path(isa, src_dtype, weights_dtype, transposed, rng):
    info = np.iinfo(weights_dtype)
    for *case, path in PATHS:
        for strides, layout in product((1, 2), LAYOUTS[len(case[0])]):
            problem = problem_of(
                rng, *case, transposed=transposed, src_dtype=src_dtype, weights_dtype=weights_dtype, strides=strides,
                layout=layout,
            )  # fmt: skip
            problem.check()
            for zero_point in (info.min, info.max, (info.min + info.max) // 2 + 1):
                extreme(problem, zero_point).check(zero_point=zero_point)
            if path and not transposed and strides == 1 and layout == "nhwc":
                plan = int8blas.explain(problem.src, problem.layer())
                # Without a matrix unit, an instruction set may have no path for lines of many channels.
                assert plan.path in (path, "blocks"), f"{case}: {plan}"
                assert path in ("lines", "blocks") or plan.path == path


@every_primitive
@every_weights
def test_every_destination_bias_and_post_op(isa, weights_dtype, transposed, rng):
    for dst_dtype, bias, ops in product(DST_DTYPES, (None, "f32", "s32"), ((), (ReLU(),), (Eltwise("abs"), Sum(0.5)))):
        for *case, _ in (PATHS[0], PATHS[3], PATHS[4], PATHS[6], PATHS[9]):
            problem_of(
                rng, *case, transposed=transposed, weights_dtype=weights_dtype, dst_dtype=dst_dtype, bias=bias, ops=ops
            ).check()


@every_primitive
def test_zero_points_that_leave_room_cost_nothing(isa, transposed, rng):
    """uint8 weights with zero point 128 equal int8 weights: the packed bytes and the path are the same."""
    for *case, _ in PATHS:
        signed = problem_of(rng, *case, transposed=transposed, zero_points=("src", "dst"))
        unsigned = signed.but(
            weights=(signed.weights.astype(np.int16) + 128).astype(np.uint8),
            zero_points=signed.zero_points | {"weights": 128},
        )
        assert_same_bits(unsigned.result(), signed.result())
        # Compare the plans of a call, not the sizes of the layers.
        plans = [int8blas.explain(signed.src, problem.layer()) for problem in (signed, unsigned)]
        assert plans[0] == plans[1]


def test_a_shared_zero_point_has_the_plan_of_none(isa, rng):
    """Sums start with the term of the zero point, so that the micro-kernel applies the epilogue as it does without zero
    points."""
    for *case, path in (*PATHS[:5], ((40, 40), (1, 1), 64, 48, 1, "blocks")):
        signed = problem_of(rng, *case, zero_points=("src", "dst"), dst_dtype=np.uint8, ops=())
        unsigned = extreme(signed.but(weights=(signed.weights.astype(np.int16) + 128).astype(np.uint8)), 113)
        unsigned.check()
        plans = [int8blas.explain(signed.src, problem.layer()) for problem in (signed, unsigned)]
        assert plans[0].tile == plans[1].tile, path


@every_primitive
@every_weights
def test_one_value_and_one_for_each_channel(isa, weights_dtype, transposed, rng):
    for (*case, _), grouped in product(PATHS[1:9:2], (False, True)):
        problem = problem_of(rng, *case, transposed=transposed, weights_dtype=weights_dtype, grouped=grouped)
        assert np.ndim(problem.zero_points["weights"]) == 1
        problem.check()
        value = int(problem.zero_points["weights"][0])
        same = problem.but(zero_points=problem.zero_points | {"weights": value})
        same.check()
        every = same.but(zero_points=problem.zero_points | {"weights": np.full(case[3], value)})
        assert_same_bits(every.result(), same.result())


def test_zero_points_with_a_dimension_of_groups(isa, rng):
    problem = problem_of(rng, (5, 6), (3, 3), 6, 8, 2, grouped=True, weights_dtype=np.uint8)
    values = problem.zero_points["weights"].reshape(2, 4)
    layer = int8blas.Convolution(
        problem.weights, problem.bias, src_dtype=np.uint8, dst_dtype=np.int8, padding=1, groups=2, layout="nhwc",
        scales=problem.scales, zero_points=problem.zero_points | {"weights": values},
    )  # fmt: skip
    assert_same_bits(layer(problem.src), problem.expected())


@every_primitive
def test_sums_beyond_32_bits(isa, transposed, rng):
    problem = problem_of(
        rng, (3, 3), (1, 1), 40000, 3, 1, transposed=transposed, weights_dtype=np.uint8, dst_dtype=np.float32,
        padding=0, zero_points=("src", "weights"),
    )  # fmt: skip
    problem = extreme(problem, 255)
    problem.src[:], problem.weights[:] = 255, 0
    problem.zero_points["src"] = 0
    problem.check()
    wide = problem_of(rng, (4, 4), (3, 3), 4000, 3, 1, transposed=transposed, weights_dtype=np.uint8, scales=("dst",))
    wide = extreme(wide, 0)
    wide.src[:], wide.weights[:] = 255, 255
    wide.check()


@every_primitive
@pytest.mark.parametrize("case", [PATHS[0], PATHS[3], PATHS[7], PATHS[9]], ids=str)
def test_any_number_of_threads_gives_the_same_bits(isa, case, transposed, rng):
    problem = problem_of(rng, (20, 21), *case[1:-1], transposed=transposed, weights_dtype=np.uint8, n=3)
    layer, expected = problem.layer(), problem.expected()
    for threads in (1, 2, 3, 4):
        with int8blas.num_threads(threads):
            assert_same_bits(problem.run(layer), expected, threads=threads)


@every_primitive
@every_weights
def test_pickles_and_files(isa, weights_dtype, transposed, tmp_path, rng):
    for *case, _ in (PATHS[0], PATHS[7], PATHS[9], PATHS[12]):
        problem = extreme(problem_of(rng, *case, transposed=transposed, weights_dtype=weights_dtype), 1)
        layer = problem.layer()
        int8blas.save(tmp_path / "layer.i8", layer)
        for same in (pickle.loads(pickle.dumps(layer)), int8blas.load(tmp_path / "layer.i8")):
            assert_same_bits(same(problem.src), problem.expected())
            assert same.zero_points["weights"] == 1


@every_primitive
def test_packed_weights_with_zero_points_of_other_channels(transposed, rng):
    """A forged pickle can contain such weights."""
    *case, _ = PATHS[0]
    problem = extreme(problem_of(rng, *case, transposed=transposed, weights_dtype=np.uint8), 1)
    make, (weights, bias) = problem.layer().__reduce__()
    assert_same_bits(make(weights, bias)(problem.src), problem.expected())
    for zeros in (weights.zeros[:-1], np.zeros(21, np.int8)):
        with pytest.raises(
            ValueError, match=rf"^weights must have been packed with 20 zero points, got \({len(zeros)},"
        ):
            make(replace(weights, zeros=zeros), bias)


@every_primitive
def test_padding_by_name_and_strides(isa, transposed, rng):
    geometry = {"strides": 2, "dilation": 1} | ({"output_padding": 1} if transposed else {})
    for *case, _ in PATHS[:11]:
        padding = reference_convolution.named_padding("same", *case[:2], **geometry)
        problem = problem_of(rng, *case, transposed=transposed, weights_dtype=np.uint8, padding=padding, **geometry)
        layer = problem.but(geometry=problem.geometry | {"padding": "same"}).layer()
        assert_same_bits(layer(problem.src), problem.expected())


@needs_mprotect
@every_primitive
@pytest.mark.parametrize("side", ["start", "end"])
def test_nothing_outside_the_operands_is_read(isa, side, transposed, rng):
    for (*case, _), name in product(PATHS[:11], ("contiguous", "cropped", "every other channel")):
        problem = problem_of(rng, *case, transposed=transposed, weights_dtype=np.uint8)
        weights = place_image(problem.weights, "contiguous", guarded(side))
        placed = problem.but(src=place_image(problem.src, name, guarded(side)), weights=weights)
        assert_same_bits(placed.result(), problem.expected())


@every_primitive
def test_empty_images(isa, transposed):
    for case in ((0, 4, 4, 3), (2, 4, 4, 0)):
        n, h, w, ic = case
        weights = np.full((5, ic, 3, 3), 200, np.uint8)
        primitive = int8blas.Deconvolution if transposed else int8blas.Convolution
        layer = primitive(weights, padding=1, src_dtype="u1", dst_dtype="i4", zero_points={"weights": 3})
        result = layer(np.zeros((n, h, w, ic), np.uint8))
        assert result.shape == (n, h, w, 5)
        assert not result.any()


def test_a_declared_zero_point_must_be_there_when_the_layer_is_created():
    attributes = int8blas.Attributes(zero_points={"weights": 0})
    with pytest.raises(ValueError, match=r"^zero_points\['weights'\] must be given when a convolution is created"):
        int8blas.Convolution(
            np.ones((2, 3, 3, 3), np.uint8), src_dtype="u1", dst_dtype="i4", attributes=attributes
        )  # fmt: skip
