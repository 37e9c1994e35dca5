"""Random decisions, each an integer, and arrays that are views of memory with random values.

0 is always the simplest decision, so smaller numbers make a list of decisions simpler.
"""

from random import Random

import numpy as np
from arrays import guarded

POOL_BYTES = 1 << 24
START_BYTES = 1 << 16  # most arrays begin in this part, which stays in a cache
FRACTION = 1 << 16
# Kinds of values, the simplest first; each is drawn in proportion to its occurrences here.
KINDS = ("ones", "small", "small", "full", "full", "full", "extreme", "outliers")
STEPS = (1, 1, 1, 1, 2, -1, -2, 3)
GAPS = (0, 0, 0, 1, 3, 64)


def make_pools(seed):
    """By kind, bytes between two pages that must not be touched."""
    rng = np.random.default_rng(seed)

    def filled(values):
        memory = guarded("end")(POOL_BYTES)
        memory[:] = values
        memory.flags.writeable = False
        return memory

    full = rng.integers(0, 256, POOL_BYTES, np.uint8)
    ends = np.array([0, 127, 128, 255], np.uint8)
    rare = rng.random(POOL_BYTES) < 1 / 50
    return {
        "ones": filled(np.uint8(1)),
        "small": filled(full & 63),
        "full": filled(full),
        "extreme": filled(ends[full & 3]),
        "outliers": filled(np.where(rare, ends[full & 3], full & 63)),
    }


class Output:
    """Memory that a call writes to: new for each call, with an array of drawn strides inside."""

    def __init__(self, memory, dtype, shape, strides, offset):
        self.memory, self.dtype, self.shape, self.strides, self.offset = memory, dtype, shape, strides, offset

    def fresh(self):
        """A copy of the memory, and the array inside this copy."""
        memory = self.memory.copy()
        return memory, np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)

    def holding(self, values):
        """The memory as it would be if a call wrote these values and nothing else."""
        memory, array = self.fresh()
        assert (array.shape, array.dtype) == (values.shape, values.dtype)
        array[...] = values
        return memory


class Draws:
    """Random decisions, or the decisions of a list, with 0 after its end. `made` records the decisions."""

    def __init__(self, pools, seed=None, decisions=None):
        self.pools, self.made = pools, []
        append, random, given = self.made.append, Random(seed).random, iter(decisions or ())

        def drawn(count):
            """An integer in [0, count)."""
            number = int(random() * count)
            append(number)
            return number

        def repeated(count):
            """The next decision, or the largest integer below `count`."""
            number = min(next(given, 0), count - 1)
            append(number)
            return number

        self.below = drawn if decisions is None else repeated

    def integer(self, low, high):
        """Return an integer in [low, high]. The simplest choice is `low`."""
        return low + self.below(high - low + 1)

    def among(self, options):
        """Return one of the options. The simplest choice is the first option."""
        return options[self.below(len(options))]

    def once_in(self, count):
        """True once in `count`."""
        return self.below(count) == count - 1

    def fraction(self):
        """A number in [0, 1)."""
        return self.below(FRACTION) / FRACTION

    def size(self, bits):
        """An integer in [1, 2**bits), log-uniform."""
        return int(2 ** (self.fraction() * bits))

    def sizes(self, count, bits, empty=True):
        """Sizes whose product is log-uniform below 2**bits; now and then a size is 0."""
        work = self.fraction() * bits
        shares = [self.fraction() for _ in range(count)]
        total = sum(shares) or 1
        sizes = [int(2 ** (work * share / total)) for share in shares]
        if empty and (which := self.below(40 * count)) >= 39 * count:
            sizes[which - 39 * count] = 0
        return sizes

    def some(self, options):
        """A random subset of the options, in their order."""
        return tuple(option for option in options if self.below(2))

    def generator(self):
        """A generator of NumPy, for helpers of the tests that take one."""
        return np.random.default_rng(self.below(1 << 32))

    def strides(self, shape, shared=False):
        """Strides in elements: C order, Fortran order, or another one; if `shared`, elements may share memory."""
        style = self.below(10)
        if style < 5:
            return dense(shape)
        if style < 7:
            return dense(shape[::-1])[::-1]
        axes, result, unit = list(range(len(shape))), [0] * len(shape), 1
        for i in range(len(axes) - 1, 0, -1):
            j = i - self.below(i + 1)
            axes[i], axes[j] = axes[j], axes[i]
        for axis in axes:
            step = self.among(STEPS)
            if shared and style == 9:
                step *= self.below(2)
            result[axis] = unit * step
            unit = unit * max(shape[axis], 1) * max(abs(step), 1) + self.among(GAPS)
        return result

    def array(self, dtype, shape, shared=True):
        """A read-only array of integers with any strides; sometimes it ends or begins at a guard page."""
        pool, size = self.pools[self.among(KINDS)], np.dtype(dtype).itemsize
        if 0 in shape:
            return np.zeros(shape, dtype)
        strides = self.strides(shape, shared)
        before, length = span(shape, strides)
        if length * size > POOL_BYTES:
            strides = dense(shape)
            before, length = span(shape, strides)
        before, length, strides = before * size, length * size, [stride * size for stride in strides]
        place = self.below(START_BYTES)
        if place >= START_BYTES * 7 // 8:
            place = POOL_BYTES - length if place & 1 else 0
        return np.ndarray(shape, dtype, pool, min(place, POOL_BYTES - length) + before, strides)

    def output(self, dtype, shape):
        """An array for a result, with margins that must stay unchanged."""
        size = np.dtype(dtype).itemsize
        strides = self.strides(shape)
        before, length = span(shape, strides) if 0 not in shape else (0, 0)
        margin = 64 + self.below(4) * (size if np.dtype(dtype).kind == "f" else 1)
        total = 2 * margin + length * size
        memory = self.pools["full"][:total] if total <= POOL_BYTES else np.full(total, 0xA5, np.uint8)
        return Output(memory, dtype, tuple(shape), [stride * size for stride in strides], margin + before * size)

    def int32s(self, count):
        """int32 numbers; their magnitude is drawn from four."""
        start = 4 * self.below(START_BYTES)
        return self.pools["full"][start : start + 4 * count].view(np.int32) >> 8 * (3 - self.below(4))

    def float32s(self, shape, spread=10.0):
        """float32 around 0."""
        return (self.generator().standard_normal(shape) * spread).astype(np.float32)


def stored(output, function, *arguments, **options):
    """The result of a function, or, if there is an output, the memory that contains `out`."""
    if output is None:
        return function(*arguments, **options)
    memory, out = output.fresh()
    assert function(*arguments, **options, out=out) is out
    return memory


def held(output, values):
    """The expected value of `stored`."""
    return values if output is None else output.holding(values)


def dense(shape):
    """Strides of C order, in elements."""
    strides, unit = [], 1
    for size in reversed(shape):
        strides.append(unit)
        unit *= size
    return strides[::-1]


def span(shape, strides):
    """The number of elements before the first one, and in all, for an array with these strides."""
    before = after = 0
    for size, stride in zip(shape, strides, strict=True):
        if stride < 0:
            before -= (size - 1) * stride
        else:
            after += (size - 1) * stride
    return before, before + after + 1
