"""Oracles of reorder: loops over single elements in the logical order of dimensions."""

from fractions import Fraction

import numpy as np
from sharing import shared


def values_of(rng, dtype, shape):
    """Random values; float32 has also NaN, infinities, multiples of a half and values out of every range."""
    if dtype != np.float32:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = rng.normal(0, 100, shape)
    special = [np.nan, np.inf, -np.inf, 0.5, 1.5, -0.5, -2.5, 127.5, -128.5, 255.5, 1e10, -1e10, 2.0**31, -(2.0**31)]
    return np.where(rng.random(shape) < 0.3, rng.choice(special, shape), x).astype(np.float32)


@shared
def moved(x, source, target):
    """Move the elements of x, whose axes are the letters `source`, one at a time to an array with axes `target`."""
    result = np.empty([x.shape[source.index(letter)] for letter in target], x.dtype)
    for place in np.ndindex(*x.shape):
        at = dict(zip(source, place, strict=True))
        result[tuple(at[letter] for letter in target)] = x[place]
    return result


def converted(value, dtype, scale, zero_point, src_scale, src_zero_point):
    """One element by the formula; scales are float32 or None, zero points Python integers or None."""
    exact = np.asarray(value).dtype != np.float32 and dtype != np.float32 and scale is None and src_scale is None
    if exact:
        y = int(value) - (src_zero_point or 0) + (zero_point or 0)
    else:
        with np.errstate(all="ignore"):
            y = np.float32(int(value) - src_zero_point if src_zero_point is not None else value)
            y = y if src_scale is None else y * src_scale
            y = y if scale is None else y / scale
            if dtype == np.float32:
                return y
            y = y + np.float32(zero_point or 0) if not np.isnan(y) else np.float64(zero_point or 0)
        if np.isinf(y):
            return np.iinfo(dtype).max if y > 0 else np.iinfo(dtype).min
        y = round(Fraction(float(y)))  # half to even
    return min(max(y, np.iinfo(dtype).min), np.iinfo(dtype).max)


@shared
def expected_values(x, dtype, mask=0, src_mask=None, **parameters):
    """All elements by the formula; parameters have one value, or one for each index that their mask selects."""
    result = np.empty(x.shape, dtype)
    for place in np.ndindex(*x.shape):
        numbers = {}
        for side, bits in (("src", mask if src_mask is None else src_mask), ("dst", mask)):
            numbers[side] = 0
            for axis in range(x.ndim):
                if bits & (1 << axis):
                    numbers[side] = numbers[side] * x.shape[axis] + place[axis]
        mine = {}
        for name in ("scale", "zero_point", "src_scale", "src_zero_point"):
            number = numbers["src" if name.startswith("src") else "dst"]
            given_values = parameters.get(f"{name}s")
            value = None if given_values is None else np.ravel(given_values)[number if np.ndim(given_values) else 0]
            mine[name] = value if value is None or name.endswith("scale") else int(value)
        result[place] = converted(x[place], dtype, **mine)
    return result
