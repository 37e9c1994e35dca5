"""Observers against brute force on all values."""

import math
import pickle
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from int8blas.calibration import (
    EntropyObserver,
    LeastSquaresObserver,
    MinMaxObserver,
    MovingAverageObserver,
    PercentileObserver,
    QuantizationParameters,
)

OBSERVERS = (MinMaxObserver, MovingAverageObserver, PercentileObserver, EntropyObserver, LeastSquaresObserver)
HISTOGRAMS = (PercentileObserver, EntropyObserver, LeastSquaresObserver)
ORDERLESS = tuple(observer for observer in OBSERVERS if observer is not MovingAverageObserver)
KINDS = [(dtype, symmetric) for dtype in (np.int8, np.uint8) for symmetric in (True, False)]

float32s = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.floats(-4, 4, width=32)


def small(observer, **options):
    """An observer; if it searches bins, it has few of them, so that the test is fast."""
    return observer(**({"bins": 256} if observer in (EntropyObserver, LeastSquaresObserver) else {}), **options)


def expected_scale(low, high, dtype, symmetric):
    """(scale, zero point) of a range, from the definitions, in Python numbers; the scale as a float32."""
    qmin = np.iinfo(dtype).min
    if symmetric:
        wide = dtype == np.uint8 and low >= 0
        scale = max(abs(low), abs(high)) / (255 if wide else 127)
    else:
        low, high = min(low, 0.0), max(high, 0.0)
        scale = (high - low) / 255
    scale = np.float32(1) if scale == 0 else max(np.float32(scale), np.float32(2.0**-126))
    if symmetric:
        return scale, 128 if dtype == np.uint8 and not wide else 0
    return scale, min(max(round(qmin - low / float(scale)), qmin), qmin + 255)  # round is half to even


def assert_parameters(parameters, low, high, dtype, symmetric):
    assert (parameters.scale, parameters.zero_point) == expected_scale(low, high, dtype, symmetric)
    assert isinstance(parameters.scale, np.float32)
    assert isinstance(parameters.zero_point, int)
    assert parameters.dtype == dtype


def quantize(x, parameters):
    info = np.iinfo(parameters.dtype)
    return np.clip(np.rint(x / parameters.scale + parameters.zero_point), info.min, info.max)


def squared_error(x, scale, zero_point, dtype):
    """The sum of the squared quantization errors, one value after another, in Python numbers."""
    qmin, scale, total = np.iinfo(dtype).min, float(scale), 0.0
    for value in map(float, x):
        q = min(max(round(value / scale + zero_point), qmin), qmin + 255)
        total += (value - scale * (q - zero_point)) ** 2
    return total


# --- the parameters of a range ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("values", "dtype", "symmetric", "scale", "zero_point"), [
    ([0, 255], np.uint8, True, 1, 0), ([3, 127], np.int8, True, 1, 0), ([-127, 3], np.int8, True, 1, 0),
    ([-1, 127], np.uint8, True, 1, 128), ([-127, -2], np.uint8, True, 1, 128), ([-55, 200], np.uint8, False, 1, 55),
    ([-55, 200], np.int8, False, 1, -73), ([5, 255], np.uint8, False, 1, 0), ([5, 255], np.int8, False, 1, -128),
    ([-255, -5], np.uint8, False, 1, 255), ([-255, -5], np.int8, False, 1, 127),
    ([-0.5, 254.5], np.uint8, False, 1, 0), ([-1.5, 253.5], np.uint8, False, 1, 2),
])  # fmt: skip
def test_scale_and_zero_point_of_known_ranges(values, dtype, symmetric, scale, zero_point):
    parameters = MinMaxObserver(dtype=dtype, symmetric=symmetric).observe(np.float32(values)).parameters()
    assert parameters == QuantizationParameters(scale, zero_point, dtype)


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize(("dtype", "symmetric"), KINDS)
def test_zeros_alone_have_scale_one(observer, dtype, symmetric):
    parameters = observer(dtype=dtype, symmetric=symmetric).observe(np.zeros((3, 4), np.float32)).parameters()
    assert parameters == QuantizationParameters(1, 0 if symmetric else np.iinfo(dtype).min, dtype)


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize(("dtype", "symmetric"), KINDS)
@pytest.mark.parametrize("value", [2.0**-149, 2.0**-126, 3.4e38, -3.4e38])
def test_scales_of_extreme_values_are_finite_and_have_finite_reciprocals(observer, dtype, symmetric, value):
    parameters = small(observer, dtype=dtype, symmetric=symmetric).observe(np.float32([value, -value])).parameters()
    assert 0 < parameters.scale < np.inf
    assert np.isfinite(np.float32(1) / parameters.scale)


@given(st.lists(float32s, min_size=1, max_size=20), st.sampled_from(KINDS))
def test_min_max_is_the_definition_and_keeps_zero_exact(values, kind):
    dtype, symmetric = kind
    x = np.array(values, np.float32)
    parameters = MinMaxObserver(dtype=dtype, symmetric=symmetric).observe(x).parameters()
    assert_parameters(parameters, min(map(float, x)), max(map(float, x)), dtype, symmetric)
    assert quantize(np.float32(0), parameters) == parameters.zero_point
    q = quantize(x.astype(np.float64), parameters)  # nothing is clipped by more than rounding
    error = np.abs(x.astype(np.float64) - float(parameters.scale) * (q - parameters.zero_point))
    assert error.max() <= float(parameters.scale) * (0.501 if symmetric else 1.001)


# --- batches, channels, refused values -------------------------------------------------------------------------------


@pytest.mark.parametrize("observer", ORDERLESS)
@pytest.mark.parametrize(("dtype", "symmetric"), KINDS)
def test_order_and_batches_do_not_matter(observer, dtype, symmetric, rng):
    x = (rng.standard_t(2, 4000) * 2.0 ** rng.integers(-30, 3, 4000)).astype(np.float32)
    whole = small(observer, dtype=dtype, symmetric=symmetric).observe(x).parameters()
    for order in (np.arange(x.size), np.argsort(np.abs(x)), np.argsort(-np.abs(x)), rng.permutation(x.size)):
        parts = small(observer, dtype=dtype, symmetric=symmetric)
        for batch in np.split(x[order], [1, 2, 10, 1000, 1000, 3999]):
            assert parts.observe(batch) is parts
        assert parts.parameters() == whole


def test_a_moving_average_follows_the_batches():
    observer = MovingAverageObserver(0.75, dtype=np.uint8, symmetric=False)
    low = high = None
    for batch in ([-1.0, 3.0], [5.0, 2.0, 7.0], [-4.0], [100.0, -100.0]):
        observer.observe(batch)
        low = min(batch) if low is None else 0.75 * low + 0.25 * min(batch)
        high = max(batch) if high is None else 0.75 * high + 0.25 * max(batch)
        assert_parameters(observer.parameters(), low, high, np.uint8, False)
    reverse = MovingAverageObserver(0.75).observe([100.0, -100.0]).observe([1.0])
    assert reverse.parameters() != MovingAverageObserver(0.75).observe([1.0]).observe([100.0, -100.0]).parameters()


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize(("dtype", "symmetric"), KINDS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_channels_are_tensors_of_their_own(observer, dtype, symmetric, axis, rng):
    batches = [rng.normal(size=(3, 4, 5)) * [1, 10, 100, 0, 1e-3] for _ in range(2)]
    options = {"dtype": dtype, "symmetric": symmetric}
    together = small(observer, axis=axis, **options)
    for batch in batches:
        together.observe(batch)
    parameters = together.parameters()
    assert parameters.axis == axis
    assert parameters.scale.dtype == np.float32
    assert parameters.zero_point.dtype == np.int32
    assert parameters.scale.shape == parameters.zero_point.shape == (batches[0].shape[axis],)
    for channel in range(batches[0].shape[axis]):
        alone = small(observer, **options)
        for batch in batches:
            alone.observe(np.take(batch, channel, axis))
        found = QuantizationParameters(parameters.scale[channel], parameters.zero_point[channel], dtype)
        assert found == alone.parameters()


@pytest.mark.parametrize("observer", OBSERVERS)
def test_types_of_input_are_rounded_to_float32(observer, rng):
    x = rng.normal(size=1000)
    for same in ((x, x.astype(np.float32)), (x.astype(np.float16), x.astype(np.float16).astype(np.float32))):
        one, other = (small(observer).observe(values).parameters() for values in same)
        assert one == other


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize(("wrong", "error", "text"), [
    ([[1.0, np.nan], [np.inf, -np.inf]], ValueError, "^x must be finite .* got 1 NaN and 2 infinite of 4 values"),
    ([[1e300, 1.0]], ValueError, "^x must be finite"), ([1, 2], TypeError, "^x must be float32, .* got int64"),
    (np.zeros((2, 3), np.int8), TypeError, "^x must be .* got int8"), (None, TypeError, "^x must be"),
    ("1", TypeError, "^x must be"), (np.ones((2, 3, 4)), ValueError, "^x must have 2 channels along axis 1"),
    (np.ones(3), ValueError, "^x must have the dimension 1"), ([[1j, 1]], TypeError, "^x must be .* got complex128"),
])  # fmt: skip
def test_refused_batches_change_nothing(observer, wrong, error, text):
    observer = small(observer, axis=1).observe([[-3.0, 8.0]])
    before = observer.parameters()
    with pytest.raises(error, match=text):
        observer.observe(wrong)
    assert observer.parameters() == before


@pytest.mark.parametrize("observer", OBSERVERS)
def test_empty_batches_change_nothing(observer):
    observer = observer(axis=1)
    for shape in ((0, 2), (5, 0), (0, 7)):
        observer.observe(np.empty(shape))
    with pytest.raises(ValueError, match=r"^observe must have been called with at least one value"):
        observer.parameters()
    observer.observe([[1.0, -2.0]])
    before = observer.parameters()
    assert observer.observe(np.empty((0, 2))).parameters() == before


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize(("options", "error"), [
    ({"dtype": np.int16}, TypeError), ({"dtype": None}, TypeError), ({"dtype": "x"}, TypeError),
    ({"symmetric": 1}, TypeError), ({"axis": 1.0}, TypeError), ({"axis": True}, TypeError),
])  # fmt: skip
def test_wrong_options(observer, options, error):
    with pytest.raises(error, match=rf"^{next(iter(options))} must be "):
        observer(**options)


@pytest.mark.parametrize(("observer", "option", "value", "error"), [
    (MovingAverageObserver, "momentum", 1.0, ValueError), (MovingAverageObserver, "momentum", -0.1, ValueError),
    (MovingAverageObserver, "momentum", np.nan, ValueError), (MovingAverageObserver, "momentum", "0", TypeError),
    (PercentileObserver, "percentile", 0, ValueError), (PercentileObserver, "percentile", 100.1, ValueError),
    (PercentileObserver, "percentile", np.nan, ValueError), (PercentileObserver, "percentile", None, TypeError),
    *((kind, "bins", bins, ValueError) for kind in HISTOGRAMS for bins in (0, 1, 3, 1000, -2048)),
    *((kind, "bins", 2048.0, TypeError) for kind in HISTOGRAMS),
])  # fmt: skip
def test_wrong_options_of_one_observer(observer, option, value, error):
    with pytest.raises(error, match=rf"^{option} must be "):
        observer(**{option: value})


@pytest.mark.parametrize("observer", HISTOGRAMS)
def test_memory_does_not_grow(observer, rng):
    observer = observer()
    sizes = set()
    for exponent in range(0, 120, 10):
        sizes.add(len(pickle.dumps(observer.observe(rng.normal(size=1000) * 2.0**exponent))) // 1000)
    assert max(sizes) <= 16 * 2048 / 1000 + 2


# --- percentiles -----------------------------------------------------------------------------------------------------


def bin_width(x, bins):
    """The width of a bin: the smallest power of two above every |x|, divided by the number of bins."""
    return 2.0 ** math.frexp(float(np.abs(x).max()))[1] / bins


@pytest.mark.parametrize("percentile", [0.1, 25, 50, 90, 99, 99.9, 99.99, 100])
@pytest.mark.parametrize("shift", [0, 3, -3])
@pytest.mark.parametrize("size", [1, 10, 1003, 10_007])
def test_percentiles_are_those_of_numpy_to_within_a_bin(percentile, shift, size, rng):
    x = (rng.normal(size=size) + shift).astype(np.float32).astype(np.float64)
    width = bin_width(x, 2048)
    parameters = PercentileObserver(percentile).observe(x).parameters()
    exact = np.percentile(np.abs(x), percentile, method="inverted_cdf")
    assert exact * (1 - 1e-6) <= float(parameters.scale) * 127 <= exact * (1 + 1e-6) + width
    tail = (100 - percentile) / 2
    low = -np.percentile(-x, 100 - tail, method="inverted_cdf")
    high = np.percentile(x, 100 - tail, method="inverted_cdf")
    span = max(high, 0) - min(low, 0)
    scale = PercentileObserver(percentile, symmetric=False).observe(x).parameters().scale
    assert span * (1 - 1e-6) <= float(scale) * 255 <= span * (1 + 1e-6) + 2 * width


@pytest.mark.parametrize(("dtype", "symmetric"), KINDS)
def test_the_hundredth_percentile_is_the_range(dtype, symmetric, rng):
    x = rng.normal(size=100)
    found, expected = (
        kind(dtype=dtype, symmetric=symmetric).observe(x).parameters()
        for kind in (lambda **options: PercentileObserver(100, **options), MinMaxObserver)
    )
    assert found == expected


def test_values_keep_their_bins_when_the_range_grows_at_once():
    tiny = np.linspace(-1e-6, 1e-6, 1000)
    for order in ([tiny, [1.0]], [[1.0], tiny], [tiny * 1e-30, tiny, [1.0]]):
        observer = PercentileObserver(50)
        for batch in order:
            observer.observe(batch)
        assert_parameters(observer.parameters(), -2 / 2048, 2 / 2048, np.int8, True)


def test_percentiles_of_values_on_the_edges_of_bins():
    x = np.arange(1, 1001) / 1024.0  # with 1024 bins, value k is the lower edge of bin k
    ranks = {0.05: 1, 0.1: 1, 10.01: 101, 50: 500, 90.2: 902, 90.9: 909, 99.9: 999, 99.99: 1000, 100: 1000}
    for percentile, rank in ranks.items():
        high = min(rank + 1, 1000) / 1024
        parameters = PercentileObserver(percentile, bins=1024, dtype=np.uint8).observe(x).parameters()
        assert_parameters(parameters, 0, high, np.uint8, True)
    parameters = PercentileObserver(50, bins=1024, symmetric=False).observe(x - 0.5).parameters()  # 2048 bins per unit
    assert_parameters(parameters, 251 / 1024 - 0.5, 750.5 / 1024 - 0.5, np.int8, False)


# --- least squares and entropy, against searches written out ---------------------------------------------------------


def middles(rng, size, bins, spread, shift=0.0):
    """Values in the middle of the bins that an observer with `bins` bins uses for them."""
    values = rng.normal(shift, spread, size).clip(-0.99, 0.99)
    values[0] = 0.99
    return (np.floor(values * bins) + 0.5) / bins


def thresholds(x, bins, symmetric):
    """(low, high) of each candidate, from the smallest to the whole range."""
    width = bin_width(x, bins)
    largest = float(np.abs(x).max())
    for i in range(1, math.ceil(largest / width) + 1):
        t = min(i * width, largest)
        if symmetric:
            yield -t if x.min() < 0 else 0.0, t
        else:
            yield max(-t, min(float(x.min()), 0.0)), min(t, max(float(x.max()), 0.0))


@pytest.mark.parametrize(("dtype", "symmetric"), KINDS)
@pytest.mark.parametrize(("spread", "shift"), [(0.1, 0.0), (0.05, 0.2), (0.3, -0.2), (1, 0.0)])
def test_least_squares_is_the_best_threshold(dtype, symmetric, spread, shift, rng):
    x = middles(rng, 150, 256, spread, shift)
    if dtype == np.uint8 and shift > 0:
        x = np.abs(x)
    ranges = list(thresholds(x, 256, symmetric))
    errors = [squared_error(x, *expected_scale(*ends, dtype, symmetric), dtype) for ends in ranges]
    parameters = LeastSquaresObserver(bins=256, dtype=dtype, symmetric=symmetric).observe(x).parameters()
    assert squared_error(x, parameters.scale, parameters.zero_point, dtype) <= min(errors) * (1 + 1e-9)
    best = max(i for i, error in enumerate(errors) if error <= min(errors) * (1 + 1e-9))
    assert_parameters(parameters, *ranges[best], dtype, symmetric)


def test_least_squares_is_nearly_the_best_of_all_scales(rng):
    for x in (rng.normal(size=20_000), rng.laplace(size=20_000), np.maximum(rng.normal(size=20_000), 0)):
        parameters = LeastSquaresObserver().observe(x).parameters()
        errors = []
        for scale in np.linspace(0.2, 1.05, 200) * np.abs(x).max() / 127:
            errors.append(np.mean((x - scale * np.clip(np.rint(x / scale), -128, 127)) ** 2))
        found = np.mean((x - parameters.scale * quantize(x, parameters)) ** 2)
        assert found <= 1.01 * min(errors)
        assert found < errors[-1]


@pytest.mark.parametrize("observer", [EntropyObserver, LeastSquaresObserver])
@pytest.mark.parametrize(("dtype", "symmetric"), KINDS)
def test_zeros_change_nothing_as_they_are_exact(observer, dtype, symmetric, rng):
    x = np.abs(rng.normal(size=500)) + 0.001
    for bins in (32, 512):
        without = observer(bins=bins, dtype=dtype, symmetric=symmetric).observe(x)
        zeros = observer(bins=bins, dtype=dtype, symmetric=symmetric).observe(np.zeros(50_000)).observe(x)
        assert zeros.parameters() == without.parameters()


def divergence(counts, start, stop, levels):
    """sum p log(p / q) of bins start..stop, as EntropyObserver defines it, bin by bin."""
    p = [float(n) for n in counts[start:stop]]
    p[0] += sum(counts[:start])
    p[-1] += sum(counts[stop:])
    q = [0.0] * len(p)
    for _, stretch in groupby(range(len(p)), lambda j: j * levels // len(p)):
        members = [j for j in stretch if p[j] > 0]
        mass = sum(counts[start + j] for j in members)
        for j in members:
            q[j] = mass / len(members) or p[j] / 10000
    return sum(a / sum(p) * math.log((a / sum(p)) / (b / sum(q))) for a, b in zip(p, q, strict=True) if a > 0)


@pytest.mark.parametrize(("dtype", "symmetric"), KINDS)
@pytest.mark.parametrize("case", ["outlier", "two modes", "non-negative", "shifted"])
def test_entropy_is_the_smallest_divergence(dtype, symmetric, case, rng):
    bins = 512
    x = rng.normal(size=3000) / 8
    if case == "outlier":
        x[0] = 2.0
    if case == "two modes":
        x[:300] -= 1.6
    if case == "non-negative":
        x = np.maximum(x, 0)
    if case == "shifted":
        x = x + 0.2
    x = x.astype(np.float32).astype(np.float64)
    width = bin_width(x, bins)
    index = np.floor(x[x != 0] / width).astype(int)
    if symmetric:
        index, left = np.where(index < 0, -1 - index, index), 0
        counts = [int(np.sum(index == j)) for j in range(bins)]
        levels = 256 if dtype == np.uint8 and x.min() >= 0 else 128
    else:
        counts, left, levels = [int(np.sum(index == j)) for j in range(-bins, bins)], bins, 256
    ranges = list(thresholds(x, bins, symmetric))
    found = []
    for low, high in ranges:
        start = left + (math.floor(low / width) if not symmetric else 0)
        stop = left + math.ceil(high / width)
        wide_enough = stop - start >= levels or (low, high) == ranges[-1]
        found.append(divergence(counts, start, stop, levels) if wide_enough else math.inf)
    best = max(i for i, value in enumerate(found) if value <= min(found) * (1 + 1e-9))
    parameters = EntropyObserver(bins=bins, dtype=dtype, symmetric=symmetric).observe(x).parameters()
    assert_parameters(parameters, *ranges[best], dtype, symmetric)


@pytest.mark.parametrize(("dtype", "symmetric"), KINDS)
@pytest.mark.parametrize("sign", [1, -1])
def test_entropy_clips_an_outlier_and_keeps_a_uniform_range(dtype, symmetric, sign, rng):
    x = np.maximum(rng.normal(size=50_000), 0 if sign > 0 else -9)
    x[7] = 50.0 * sign
    with_outlier, without = (EntropyObserver(dtype=dtype, symmetric=symmetric).observe(y) for y in (x, x[8:]))
    assert without.parameters().scale <= with_outlier.parameters().scale < 4 * without.parameters().scale
    uniform = rng.uniform(-1, 1, 50_000)
    whole = MinMaxObserver(dtype=dtype, symmetric=symmetric).observe(uniform).parameters()
    assert EntropyObserver(dtype=dtype, symmetric=symmetric).observe(uniform).parameters() == whole
