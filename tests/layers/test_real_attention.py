"""real_attention: the bits of its steps one by one, for every shape, mask, instruction set and number of threads."""

import numpy as np
import pytest
from arrays import LAYOUTS, guarded, needs_mprotect, place
from layers import assert_same_bits

from int8blas import num_threads, softmax
from int8blas.layers.real_attention import real_attention
from int8blas.layers.real_product import real_matmul

F = np.float32
# Shape of the stack, m, d, n and e; rows in several blocks, columns in several panels, d and n in several blocks of k.
SHAPES = [
    ((), 1, 1, 1, 1), ((), 5, 3, 7, 4), ((1, 6), 9, 32, 81, 32), ((2, 3), 33, 7, 100, 50), ((3,), 70, 4, 1030, 17),
    ((2, 1), 3, 513, 16, 49), ((4,), 40, 16, 15, 16),
    # Up to four rows read the transposed k in place.
    ((3,), 1, 64, 49, 8), ((2,), 2, 7, 33, 5), ((), 3, 518, 100, 4), ((2, 2), 4, 30, 100, 20),
]  # fmt: skip
SCALES = (1, 1, 1), (0.4, 0.4, 1), (1, 1, 0.125), (0.3, -1, 1.7)


def problem(rng, stack, m, d, n, e):
    """q, k and v; k is a transposed view, as in networks."""
    q, k, v = (rng.normal(0, 1, (*stack, *shape)).astype(F) for shape in ((m, d), (n, d), (n, e)))
    return q, k.swapaxes(-1, -2), v


def masks(rng, stack, m, n):
    """No mask; a mask for all rows, for each row, for each matrix; one number for each row, and one number for
    everything."""
    for shape in ((n,), (m, n), (*stack, 1, n), (*stack, m, n), (*(1,) * len(stack), m, 1), ()):
        yield np.where(rng.random(shape) < 0.2, -np.inf, rng.normal(0, 1, shape)).astype(F)
    yield None


def step_by_step(q, k, v, mask=None, scales=(1, 1, 1)):
    scores = real_matmul(q * F(scales[0]), k * F(scales[1])) * F(scales[2])
    return real_matmul(softmax(scores if mask is None else scores + mask), v)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masks_and_scales(isa, shape, rng):
    q, k, v = problem(rng, *shape)
    for i, mask in enumerate(masks(rng, shape[0], shape[1], shape[3])):
        scales = SCALES[i % len(SCALES)]
        assert_same_bits(real_attention(q, k, v, mask, scales=scales), step_by_step(q, k, v, mask, scales))


def test_threads_divide_matrices_and_rows(isa, rng):
    for shape in (((2, 3), 40, 32, 60, 64), ((), 200, 64, 90, 64)):
        q, k, v = problem(rng, *shape)
        (mask, *_) = masks(rng, shape[0], shape[1], shape[3])
        wanted = step_by_step(q, k, v, mask)
        for threads in (1, 2, 3, 5):
            with num_threads(threads):
                assert_same_bits(real_attention(q, k, v, mask), wanted)


def test_layouts(isa, rng):
    q, k, v = problem(rng, (), 9, 20, 30, 25)
    mask = rng.normal(0, 1, (9, 30)).astype(F)
    wanted = step_by_step(q, k, v, mask)
    for layout in LAYOUTS:
        arrays = [place(x, layout) for x in (q, k, v, mask)]
        assert_same_bits(real_attention(*arrays), wanted)


def test_heads_lie_side_by_side(rng):
    q, k, v = problem(rng, (2, 3), 4, 5, 6, 7)
    y = real_attention(q, k, v)
    assert y.transpose(0, 2, 1, 3).flags.c_contiguous


def test_what_is_not_finite_stays_in_its_row(isa, rng):
    q, k, v = problem(rng, (), 5, 6, 20, 17)
    q[1, 2], q[3, 4] = np.nan, np.inf
    mask = np.zeros((5, 20), F)
    mask[4] = -np.inf
    y = real_attention(q, k, v, mask)
    assert np.isnan(y[[1, 3, 4]]).all()
    assert_same_bits(y[[0, 2]], step_by_step(q, k, v, mask)[[0, 2]])


@needs_mprotect
@pytest.mark.parametrize("side", ["start", "end"])
def test_matrices_beside_protected_memory(isa, side, rng):
    for m, d, n, e in ((9, 33, 50, 17), (3, 5, 7, 48)):
        q, k, v = problem(rng, (), m, d, n, e)
        for mask in masks(rng, (), m, n):
            given = [x if x is None or x.ndim < 2 else place(x, "C", guarded(side)) for x in (q, k, v, mask)]
            assert_same_bits(real_attention(*given), step_by_step(q, k, v, mask))


def test_errors():
    q, k, v = np.ones((2, 3, 4), F), np.ones((2, 4, 5), F), np.ones((2, 5, 6), F)
    for wrong in ((q[0], k, v), (q, k[:1], v), (q, v, k), (q, k, k), (q[:, :0], k, v)):
        with pytest.raises(ValueError, match=r"q, k and v must have shapes \(\.\.\., m, d\)"):
            real_attention(*wrong)
    for mask in (np.ones(4, F), np.ones((1, 2, 3, 5), F), np.ones((3, 3, 5), F)):
        with pytest.raises(ValueError, match=r"mask must broadcast to shape \(2, 3, 5\), got"):
            real_attention(q, k, v, mask)
    with pytest.raises(TypeError, match="k must be float32"):
        real_attention(q, k.astype(np.int8), v)
