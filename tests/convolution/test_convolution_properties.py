"""Properties of random convolutions: cases that the other tests do not list."""

import numpy as np
import reference_convolution
from arrays import Canary, assert_same
from convolutions import BROADCASTS, IMAGES, LAYOUTS, place_image, random_convolution
from hypothesis import assume, given
from hypothesis import strategies as st
from layers import DST_DTYPES, assert_same_bits, random_old
from properties import on_every_isa, seeds

import int8blas
from int8blas import Binary, Eltwise, PReLU, ReLU, Sum

src_dtypes = st.sampled_from((np.uint8, np.int8))
kinds = st.sampled_from(("full", "extreme", "small"))
channels = st.integers(1, 70) | st.sampled_from((1, 3, 4, 15, 16, 17, 64, 128, 130))
post_ops = st.lists(
    st.sampled_from((ReLU(), ReLU(0.1), Eltwise("clip", -3, 60), Sum(0.5, 3), Binary(), Binary(None, "mul"), PReLU())),
    max_size=3,
)


@st.composite
def geometries(draw, transposed):
    """Size of the source, kernel, and the rest, of 1 to 3 dimensions and at most about 500 pixels."""
    spatial = draw(st.sampled_from((1, 2, 2, 2, 3)))
    largest = {1: 30, 2: 12, 3: 6}[spatial]

    def each(values):
        return tuple(draw(st.lists(values, min_size=spatial, max_size=spatial)))

    size, kernel = each(st.integers(1, largest)), each(st.integers(1, {1: 7, 2: 5, 3: 3}[spatial]))
    pads = st.integers(0, 3)
    geometry = {"strides": each(st.integers(1, 3)), "dilation": each(st.integers(1, 3))}
    geometry["padding"] = each(st.tuples(pads, pads))
    if transposed:
        geometry["output_padding"] = each(st.integers(0, min(geometry["strides"]) - 1))
    assume(min(reference_convolution.out_sizes(size, kernel, **geometry)) > 0)
    return size, kernel, geometry


@st.composite
def problems(draw):
    """A convolution or a deconvolution, with its operands."""
    transposed = draw(st.booleans())
    size, kernel, geometry = draw(geometries(transposed))
    groups = draw(st.sampled_from((1, 1, 2, 3, "depthwise", "small")))
    if groups == "depthwise":
        groups = ic = draw(channels)
        oc = ic * draw(st.integers(1, 3))
    elif groups == "small":
        groups = draw(st.integers(4, 9))
        ic = oc = groups * draw(st.sampled_from((4, 8)))
    else:
        ic, oc = groups * draw(channels), groups * draw(channels)
    assume(np.prod(size) * np.prod(kernel) * ic * oc // groups < 10**6)
    layout = draw(st.sampled_from(LAYOUTS[len(size)]))
    rng = np.random.default_rng(draw(seeds))
    tensors = st.sets(st.sampled_from(("src", "weights", "dst")))
    problem = random_convolution(
        rng,
        size,
        kernel,
        ic,
        oc,
        n=draw(st.integers(0, 3)),
        groups=groups,
        grouped=draw(st.booleans()),
        layout=layout,
        transposed=transposed,
        src_dtype=draw(src_dtypes),
        dst_dtype=draw(st.sampled_from(DST_DTYPES)),
        bias=draw(st.sampled_from((None, "f32", "s32"))),
        scales=sorted(draw(tensors)),
        zero_points=sorted(draw(tensors) - {"weights"}),
        vectors=sorted(draw(tensors) - {"src"}),
        kind=draw(kinds),
        ops=draw(post_ops),
        numerics=draw(st.sampled_from(("exact", "exact", "saturating"))),
        **geometry,
    )
    wanted = [op for op in problem.ops if isinstance(op, (Binary, PReLU))]
    shape = problem.but(ops=()).expected().shape
    kept = st.lists(st.booleans(), min_size=len(shape), max_size=len(shape))
    shapes = [tuple(size if keep else 1 for size, keep in zip(shape, draw(kept), strict=True)) for _ in wanted]
    operands = tuple(rng.normal(0, 1, one).astype(np.float32) for one in shapes)
    src = place_image(problem.src, draw(st.sampled_from([*IMAGES, *BROADCASTS])))
    return problem.but(src=src, operands=operands)


@given(problems(), st.integers(1, 4), st.booleans())
def test_a_layer_is_the_formula(problem, threads, at_creation):
    expected = problem.expected()
    for name in on_every_isa():
        with int8blas.num_threads(threads):
            assert_same_bits(problem.result(at_creation), expected, isa=name, **problem.geometry)


@given(problems(), st.sampled_from(list(IMAGES)), st.integers(0, 3))
def test_a_layer_writes_out_and_nothing_else(problem, image, misalign):
    expected = problem.expected()
    old = random_old(np.random.default_rng(0), problem.dst_dtype, expected.shape)
    for name in on_every_isa():
        canary = Canary()
        out = place_image(old if problem.old is None else problem.old, image, canary, misalign)
        assert problem.result(out=out) is out
        assert_same_bits(out.copy(order="C"), expected, isa=name, **problem.geometry)
        canary.assert_only_elements_written(out)


@given(geometries(False), channels, st.sampled_from((1, 2, 3)), src_dtypes, st.data())
def test_im2col_is_the_formula(geometry, c, groups, dtype, data):
    size, kernel, arguments = geometry
    rng = np.random.default_rng(data.draw(seeds))
    layout = data.draw(st.sampled_from(LAYOUTS[len(size)]))
    n, c = data.draw(st.integers(0, 3)), c * groups
    assume(n * np.prod(size) * np.prod(kernel) * c < 10**6)
    info = np.iinfo(dtype)
    src = rng.integers(info.min, info.max, (n, c, *size) if layout[1] == "c" else (n, *size, c), dtype, endpoint=True)
    src = place_image(src, data.draw(st.sampled_from([*IMAGES, *BROADCASTS])))
    arguments |= {"layout": layout, "groups": groups}
    arguments["padding_value"] = data.draw(st.integers(int(info.min), int(info.max)))
    expected = reference_convolution.im2col(src, kernel, **arguments)
    for name in on_every_isa():
        assert_same(int8blas.im2col(src, kernel, **arguments), expected, isa=name, kernel=kernel, **arguments)
