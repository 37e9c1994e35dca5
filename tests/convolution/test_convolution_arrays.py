"""Sources and destinations of any strides, with nothing read or written outside them."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from arrays import Canary, guarded, needs_mprotect, place, random_values
from convolutions import BROADCASTS, IMAGES, LAYOUTS, place_image, random_convolution
from layers import DST_DTYPES, assert_same_bits, name_of, random_old
from test_convolution import FEW, every_primitive, few, problem_of

import int8blas
from int8blas import Binary, PReLU, ReLU, Sum

every_image = pytest.mark.parametrize("name", IMAGES)
every_side = pytest.mark.parametrize("side", ["start", "end"])


def in_both_layouts(rng, **keywords):
    """The problems of FEW with channels last and first."""
    for (geometry, ic, oc, groups), which in product(FEW, (0, 1)):
        layout = LAYOUTS[len(geometry[0])][which]
        yield problem_of(rng, geometry, ic, oc, groups=groups, layout=layout, n=2, **keywords)


# --- strides ---------------------------------------------------------------------------------------------------------


@every_primitive
@pytest.mark.parametrize("name", [*IMAGES, *BROADCASTS])
def test_sources_of_any_strides(isa, name, transposed, rng):
    for problem in in_both_layouts(rng, transposed=transposed):
        problem.but(src=place_image(problem.src, name)).check()


@every_primitive
@every_image
def test_weights_of_any_strides(isa, name, transposed, rng):
    for problem in in_both_layouts(rng, transposed=transposed):
        problem.but(weights=place_image(problem.weights, name)).check()


@every_primitive
@every_image
@pytest.mark.parametrize("dst_dtype", DST_DTYPES, ids=name_of)
def test_only_the_elements_of_out_are_written(isa, name, dst_dtype, transposed, rng):
    for ops, misalign in (((), 1), ((Sum(0.5), ReLU()), 0)):
        for problem in in_both_layouts(rng, dst_dtype=dst_dtype, ops=ops, transposed=transposed):
            expected = problem.expected()
            canary = Canary()
            old = random_old(rng, dst_dtype, expected.shape) if problem.old is None else problem.old
            out = place_image(old, name, canary, misalign)
            assert problem.result(out=out) is out
            assert_same_bits(out.copy(order="C"), expected)
            canary.assert_only_elements_written(out)


def test_lines_of_one_pixel(isa, rng):
    """Their pixels are as far apart as the lines, for any step from one pixel of a line to the next."""
    for name, groups, oc, dst_dtype in product(
        ("cropped", "every other pixel"), (1, 3), (1, 2, 5), (np.uint8, np.float32)
    ):
        problem = random_convolution(
            rng, (90, 1), (1, 1), 4 * groups, oc * groups, n=2, groups=groups, dst_dtype=dst_dtype
        )
        expected, canary = problem.expected(), Canary()
        for src, out_name in ((problem.src, name), (place_image(problem.src, name), "contiguous")):
            out = place_image(np.zeros_like(expected), out_name, canary)
            problem.but(src=src).result(out=out)
            assert_same_bits(out.copy(order="C"), expected)
            canary.assert_only_elements_written(out)


@every_primitive
def test_operands_are_never_written(isa, transposed, rng):
    for name in IMAGES:
        for problem in in_both_layouts(rng, ops=[Binary(), PReLU()], transposed=transposed):
            shape = problem.but(ops=()).expected().shape
            values = (problem.src, *rng.normal(0, 1, (2, *shape)).astype(np.float32))
            canaries = [Canary() for _ in values]
            arrays = [place_image(x, name, canary) for x, canary in zip(values, canaries, strict=True)]
            for array in arrays:
                array.flags.writeable = False
            problem.but(src=arrays[0], operands=tuple(arrays[1:])).check()
            for array, before, canary in zip(arrays, values, canaries, strict=True):
                assert_same_bits(array.copy(order="C"), before)
                canary.assert_only_elements_written(array)


@every_primitive
def test_views_of_a_larger_image(isa, transposed, rng):
    image = random_values(rng, np.uint8, (2, 20, 24, 40))
    for view in (
        image[:, 3:9, 5:12, 7:11],
        image[:1, ::-1, 4:8, 30:37][:, :5],
        image[1:, 2:20:3, 20:2:-4, ::8],
        image[:, :6, 1:2, ::-1][..., :3],
        np.moveaxis(image, 3, 1)[:, 3:9, :6, :4],
    ):
        for layout in LAYOUTS[2]:
            src = view if layout == "nhwc" else np.moveaxis(view, -1, 1)
            problem = random_convolution(
                rng, view.shape[1:3], (3, 3), view.shape[3], 5, n=len(view), layout=layout, padding=1,
                transposed=transposed,
            )  # fmt: skip
            problem.but(src=src).check(strides=src.strides)


@every_primitive
def test_layers_that_write_slices_of_one_array(isa, transposed, rng):
    """Such layers avoid a concatenation along the channels."""
    together = np.full((2, 4, 5, 40), 77, np.int8)
    expected = together.copy()
    for start, oc in ((0, 7), (7, 16), (25, 15)):
        problem = random_convolution(rng, (4, 5), (3, 3), 6, oc, n=2, padding=1, transposed=transposed)
        expected[..., start : start + oc] = problem.expected()
        problem.result(out=together[..., start : start + oc])
    assert_same_bits(together, expected)


# --- guard pages -----------------------------------------------------------------------------------------------------


@needs_mprotect
@every_primitive
@every_side
@pytest.mark.parametrize("name", ["contiguous", "channel slice, cropped", "Fortran order", "all reversed"])
def test_nothing_outside_the_arrays_is_read_or_written(isa, side, name, transposed, rng):
    def vector(values):
        return values if np.ndim(values) == 0 else place(np.reshape(values, (1, -1)), "C", guarded(side))[0]

    ops = [Binary(), Sum(0.5)]
    for dst_dtype in (np.int8, np.float32):
        for problem in in_both_layouts(
            rng, dst_dtype=dst_dtype, ops=ops, vectors=("weights", "dst"), transposed=transposed
        ):
            operand = rng.normal(0, 1, problem.old.shape).astype(np.float32)
            guarded_problem = problem.but(
                src=place_image(problem.src, name, guarded(side)),
                weights=place_image(problem.weights, name, guarded(side)),
                bias=vector(problem.bias),
                scales={tensor: vector(values) for tensor, values in problem.scales.items()},
                zero_points={tensor: vector(values) for tensor, values in problem.zero_points.items()},
                operands=(place_image(operand, name, guarded(side)),),
            )
            out = place_image(problem.old, name, guarded(side))
            guarded_problem.result(out=out)
            assert_same_bits(out.copy(order="C"), problem.but(operands=(operand,)).expected(), **problem.geometry)


@needs_mprotect
@every_primitive
@every_side
def test_nothing_outside_plain_images_is_read_or_written(isa, side, transposed, rng):
    for channels, (kernel, pad), groups in product((1, 3, 4, 16, 21, 64), (((1, 1), 0), ((3, 3), 1)), (1, "all")):
        for layout, size in product(LAYOUTS[2], ((1, 1), (3, 17), (33, 37))):
            problem = random_convolution(
                rng, size, kernel, channels, channels, groups=1 if groups == 1 else channels, padding=pad,
                layout=layout, transposed=transposed,
            )  # fmt: skip
            expected = problem.expected()
            problem = problem.but(src=place_image(problem.src, "contiguous", guarded(side)))
            out = place_image(np.zeros_like(expected), "contiguous", guarded(side))
            assert_same_bits(problem.result(out=out), expected, **problem.geometry)


# --- overlap ---------------------------------------------------------------------------------------------------------


@every_primitive
@pytest.mark.parametrize("ops", [(), (Sum(0.5, 3), ReLU())], ids=["", "sum"])
def test_out_may_overlap_src(isa, ops, transposed, rng):
    for (kernel, padding), groups, offset in product((((1, 1), 0), ((3, 3), 1)), (1, 8), (0, 1, 40)):
        problem = random_convolution(
            rng, (5, 6), kernel, 8, 8, padding=padding, groups=groups, dst_dtype=np.uint8, ops=ops,
            transposed=transposed,
        )  # fmt: skip
        memory = np.zeros(problem.src.size + offset, np.uint8)
        src, out = (memory[start : start + problem.src.size].reshape(1, 5, 6, 8) for start in (0, offset))
        src[:] = problem.src
        problem = problem.but(src=src.copy(), old=out.copy())
        expected = problem.expected()
        assert problem.but(src=src).result(out=out) is out
        assert_same_bits(out, expected, offset=offset)


@every_primitive
def test_out_may_be_an_operand(isa, transposed, rng):
    for problem in in_both_layouts(rng, dst_dtype=np.float32, ops=[Binary(algorithm="mul")], transposed=transposed):
        out = rng.normal(0, 1, problem.but(ops=()).expected().shape).astype(np.float32)
        expected = problem.but(operands=(out.copy(),)).expected()
        assert_same_bits(problem.but(operands=(out,)).result(out=out), expected)


@every_primitive
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_out_may_overlap_all_values(isa, dynamic, transposed, rng):
    """Phases and images are computed one after another, and each may need the values again."""
    primitive = int8blas.Deconvolution if transposed else int8blas.Convolution
    attributes = int8blas.Attributes(scales={"weights": 1}, post_ops=[Binary(), PReLU()])
    make, dtype = (primitive.dynamic, np.float32) if dynamic else (partial(primitive, src_dtype=np.uint8), np.uint8)
    layer = make(random_values(rng, np.int8, (3, 2, 3, 3)), strides=2, dst_dtype=np.float32, attributes=attributes)
    src = random_values(rng, np.uint8, (2, 5, 6, 2)).astype(dtype)
    shape = layer(src, scales={"weights": np.ones(3)}, operands=[0, 0]).shape
    for offset in (0, 7, 40):
        memory = rng.uniform(0.5, 2, np.prod(shape) + offset).astype(np.float32)
        out, operand = (memory[start:][: np.prod(shape)].reshape(shape) for start in (0, offset))
        scale, slopes = memory[offset:][:3], memory[offset + 1 :][:3]
        expected = layer(src, scales={"weights": scale.copy()}, operands=[operand.copy(), slopes.copy()])
        layer(src, scales={"weights": scale}, operands=iter([operand, slopes]), out=out)
        assert_same_bits(out, expected, offset=offset)


# --- shapes ----------------------------------------------------------------------------------------------------------


@every_primitive
def test_an_empty_batch(isa, transposed, rng):
    for problem in few(rng, n=0, transposed=transposed):
        problem.check()
        problem.check(at_creation=False)


@every_primitive
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize(("ic", "oc"), [(0, 4), (0, 64), (4, 0), (0, 0)])
def test_no_channels(isa, ic, oc, groups, transposed, rng):
    for size, kernel, strides in (((6,), (3,), 1), ((5, 6), (3, 3), 1), ((5, 6), (3, 2), 2), ((3, 5, 6), (2, 3, 3), 1)):
        problem = random_convolution(
            rng, size, kernel, ic, oc, groups=groups, strides=strides, padding=1, transposed=transposed
        )
        problem.check()
        problem.but(dst_dtype=np.int32, scales={}, zero_points={"src": 3}).check()


@every_primitive
def test_a_layout_is_that_of_the_rank_if_none_is_given(isa, transposed, rng):
    for geometry, ic, oc, _ in FEW:
        problem = problem_of(rng, geometry, ic, oc, transposed=transposed)
        geometry = {key: value for key, value in problem.geometry.items() if key != "layout"}
        assert_same_bits(problem.but(geometry=geometry).result(), problem.expected())
        assert_same_bits(problem.but(geometry=geometry | {"layout": None}).result(), problem.expected())


@every_primitive
def test_a_source_that_is_not_an_array(isa, transposed, rng):
    class Array:
        def __init__(self, values):
            self.values = values

        def __array__(self, dtype=None, copy=None):
            return self.values

    problem = next(few(rng, transposed=transposed))
    assert_same_bits(problem.layer()(Array(problem.src)), problem.expected())
    assert_same_bits(problem.but(weights=Array(problem.weights)).layer()(problem.src), problem.expected())


@every_primitive
@pytest.mark.parametrize("layout", LAYOUTS[2])
def test_the_result_is_new_memory_in_the_order_of_its_layout(isa, layout, transposed, rng):
    primitive = int8blas.Deconvolution if transposed else int8blas.Convolution
    layer = primitive(
        random_values(rng, np.int8, (7, 3, 3, 3)), src_dtype=np.uint8, dst_dtype=np.float32, layout=layout, padding=1
    )
    src = random_values(rng, np.uint8, (2, 4, 5, 3) if layout == "nhwc" else (2, 3, 4, 5))
    first = layer(src)
    kept = first.copy()
    second = layer(255 - src)
    assert first.flags.c_contiguous
    assert not np.shares_memory(first, second)
    assert_same_bits(first, kept)
