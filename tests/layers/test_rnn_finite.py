"""A value of a source or first state that is not finite gives NaN from its step to the end of its sequence."""

from itertools import product

import numpy as np
import pytest

import int8blas

DIRECTIONS = ("left2right", "right2left", "bidirectional_concat", "bidirectional_sum")


def layer_of(rng, kind, direction, layers, dst_dtype=np.float32):
    gates, ways = {"LSTM": 4, "GRU": 3}[kind], 2 if direction.startswith("bi") else 1
    wide = 20 * (2 if direction == "bidirectional_concat" else 1)
    source = [rng.normal(0, 0.3, (ways, 9 if i == 0 else wide, gates, 20)).astype(np.float32) for i in range(layers)]
    state = [rng.normal(0, 0.3, (ways, 20, gates, 20)).astype(np.float32) for _ in range(layers)]
    return getattr(int8blas, kind)(
        source, state, weights_scale="per_tensor", direction=direction, src_dtype=np.float32, dst_dtype=dst_dtype
    )


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_results_are_lost_from_the_step_on(isa, kind, direction, bad, rng):
    x = rng.normal(0, 0.3, (6, 3, 9)).astype(np.float32)
    for layers, lengths in product((1, 2), (None, [6, 5, 2])):
        layer = layer_of(rng, kind, direction, layers)
        damaged = x.copy()
        damaged[3, 1, 7] = bad
        damaged[4, 2, 0] = bad  # after the end of a sequence of 2
        before, after = (layer(a, lengths=lengths) for a in (x, damaged))
        forward, back = np.zeros((6, 3, 1), bool), np.zeros((6, 3, 1), bool)
        forward[3:, 1], back[:4, 1] = True, True
        if lengths is None:
            forward[4:, 2], back[:5, 2] = True, True
        else:
            forward[5:, 1] = False
        if layers == 2 and direction.startswith("bi"):
            forward = back = forward | back
            inside = np.arange(6)[:, None, None] < np.reshape([6] * 3 if lengths is None else lengths, (1, 3, 1))
            lost = forward.any(axis=0, keepdims=True) & inside
            forward = back = np.broadcast_to(lost, (6, 3, 1))
        wide = np.broadcast_to
        expected = {
            "left2right": wide(forward, (6, 3, 20)), "right2left": wide(back, (6, 3, 20)),
            "bidirectional_sum": wide(forward | back, (6, 3, 20)),
            "bidirectional_concat": np.concatenate([wide(forward, (6, 3, 20)), wide(back, (6, 3, 20))], axis=2),
        }[direction]  # fmt: skip
        assert np.array_equal(np.isnan(after[0]), expected), (layers, lengths)
        assert np.array_equal(after[0][~expected], before[0][~expected])
        rows = [1] if lengths is not None else [1, 2]
        for state, old in zip(after[1:], before[1:], strict=True):
            assert np.isnan(state[..., rows, :]).all()
            assert np.array_equal(state[..., 0, :], old[..., 0, :])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_first_states(isa, direction, rng):
    x = rng.normal(0, 0.3, (4, 3, 9)).astype(np.float32)
    layer = layer_of(rng, "LSTM", direction, 1)
    for name in ("h0", "c0"):
        state = np.zeros((layer.layers, layer.directions, 3, 20), np.float32)
        state[0, 0, 2, 5] = np.nan
        dst, h_t, c_t = layer(x, **{name: state})
        assert np.isnan(dst[:, 2, :20]).all()
        assert not np.isnan(dst[:, :2]).any()
        for last in (h_t, c_t):
            assert np.isnan(last.reshape(-1, 3, 20)[0, 2]).all()
            assert not np.isnan(last[..., :2, :]).any()
