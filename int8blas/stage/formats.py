"""Read weights of other formats exactly: integers with scales and zero points by groups of k.

Each function takes arrays from files of a format, and returns :class:`GroupedWeights`, from which ``InnerProduct``
layers are made. The functions round no weight, so ``dequantized()`` returns the numbers that the format defines. Only
``from_float`` rounds, because it quantizes float weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import as_array, in_float32
from int8blas.core.parameters import integer, scale_of_largest
from int8blas.core.words import dtype_error, is_option, shown
from int8blas.stage.weights_scales import FACTORS, check_group

__all__ = ["GroupedWeights", "from_awq", "from_float", "from_gguf", "from_gptq", "from_matmul_nbits"]

# The bytes of scale, minimum and values in a block of 32 weights of GGUF.
GGUF_BLOCKS = {"Q4_0": (2, 0, 16), "Q4_1": (2, 2, 16), "Q8_0": (2, 0, 32)}
GGUF_GROUP = 32
# The columns of the eight half bytes in a dword of AWQ.
AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass(frozen=True, eq=False)
class GroupedWeights:
    """Integer weights with a scale for each group of k and each output channel.

    The integers stand for ``w[n, k] = scales[g, n] * (weights[n, k] - zero_points[g, n]) + minimums[g, n]``, where k is
    in group g.

    Attributes
    ----------
    weights : numpy.ndarray
        uint8 or int8 of shape (oc, ic).
    scales : numpy.ndarray
        float32 of shape (ceil(ic / group), oc).
    zero_points : numpy.ndarray or None
        Integers with the shape of `scales`, or None for zeros.
    group : int
        The number of k in a group; the last group may be shorter.
    bits : int
        The bits of a weight, 4 or 8.
    minimums : numpy.ndarray or None
        float32 with the shape of `scales`, or None for zeros.
    order : numpy.ndarray or None
        If not None, column k of `weights` multiplies element ``order[k]`` of a source, because the format does not
        store the k of a group side by side.
    """

    weights: npt.NDArray[Any]
    scales: npt.NDArray[np.float32]
    zero_points: npt.NDArray[Any] | None
    group: int
    bits: int
    minimums: npt.NDArray[np.float32] | None = None
    order: npt.NDArray[np.int64] | None = None

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values (groups, oc) as (oc, ic)."""
        return np.repeat(values.T, self.group, axis=1)[:, : self.weights.shape[1]]

    def dequantized(self) -> npt.NDArray[np.float32]:
        """Return the weights as real numbers.

        Returns
        -------
        numpy.ndarray
            float32 of shape (oc, ic), with the k in the order of a source. Each operation of the formula is rounded
            once.
        """
        values = self.weights.astype(np.float32)
        if self.zero_points is not None:
            values -= self.spread(self.zero_points.astype(np.float32))
        values *= self.spread(self.scales)
        if self.minimums is not None:
            values += self.spread(self.minimums)
        if self.order is None:
            return values
        result = np.empty_like(values)
        result[:, self.order] = values
        return result

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of :class:`~int8blas.InnerProduct` for these weights, except types and bias.

        Returns
        -------
        dict
            ``weights``, ``scales``, ``zero_points``, ``group`` and ``bits``. A group whose scale is 0 gets the scale 1
            and weights that are its zero points. With 8 bits, the zero points are subtracted from the weights if all
            differences fit int8. With 4 bits, the zero points are subtracted if all of them are 8.

        Raises
        ------
        ValueError
            If the weights have minimums or an order, which layers do not support.
        """
        if self.minimums is not None or self.order is not None:
            what = "minimums" if self.minimums is not None else "order of k"
            raise ValueError(f"weights of a layer must have no {what}: give it the float32 weights of dequantized()")
        weights, scales, zeros, bits = self.weights, self.scales, self.zero_points, self.bits
        dead = scales == 0
        if dead.any():
            zero = 0 if zeros is None else self.spread(zeros)
            weights = np.where(self.spread(dead), zero, weights).astype(weights.dtype)
            scales = np.where(dead, np.float32(1), scales)
        if bits == 8 and zeros is not None:
            centered = weights.astype(np.int16) - self.spread(zeros).astype(np.int16)
            if not centered.size or (centered.min() >= -128 and centered.max() <= 127):
                weights, zeros = centered.astype(np.int8), None
        if bits == 4 and zeros is not None and weights.dtype == np.uint8 and (zeros == 8).all():
            weights, zeros = weights.view(np.int8) - np.int8(8), None
        points = {} if zeros is None else {"weights": zeros}
        return {
            "weights": weights,
            "scales": {"weights": scales},
            "zero_points": points,
            "group": self.group,
            "bits": bits,
        }


def _halves(x: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the two values of each byte, the low half first, along the last axis."""
    return np.stack([x & 15, x >> 4], -1).reshape(*x.shape[:-1], 2 * x.shape[-1])


def _of_type(values: Any, name: str, dtype: type[np.generic]) -> npt.NDArray[Any]:
    array = as_array(values, name)
    if array.dtype != dtype:
        raise dtype_error(array, name, (np.dtype(dtype),))
    return array


def _scales(values: Any, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return finite float32 scales of the given shape. The argument may also be flat."""
    array = as_array(values, name)
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        raise dtype_error(array, name, ("float32", "float16", "bfloat16"))
    if array.shape != shape and array.shape != (int(np.prod(shape)),):
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    scales: npt.NDArray[np.float32] = array.astype(np.float32).reshape(shape)
    if not np.isfinite(scales).all():
        raise ValueError(f"{name} must be finite, got {shown(scales[~np.isfinite(scales)].flat[0])}")
    return scales


def _in_order(
    weights: npt.NDArray[Any], groups: Any, group: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64] | None]:
    """Return contiguous weights with the k of each group side by side, and the order of the k. `groups` has the group
    of each k. The order is None if the k of each group are side by side already, or if `groups` is None."""
    ic = weights.shape[1]
    if groups is None:
        return np.ascontiguousarray(weights), None
    array = as_array(groups, "g_idx")
    if array.dtype.kind not in "iu" or array.shape != (ic,):
        raise ValueError(f"g_idx must be {ic} integers, one for each k, got {array.dtype} of shape {array.shape}")
    order = np.argsort(array, kind="stable")
    if (array[order] != np.arange(ic) // group).any():
        raise ValueError(f"g_idx must have each group {group} times, the last one perhaps fewer times")
    if (order == np.arange(ic)).all():
        return np.ascontiguousarray(weights), None
    return np.ascontiguousarray(weights[:, order]), order


def from_float(
    w: npt.ArrayLike, *, group: int, bits: int = 4, search: bool = False, importance: npt.ArrayLike | None = None
) -> GroupedWeights:
    """Quantize float weights, with a scale and a zero point for each group of k.

    The range of a group, from its minimum (at most 0) to its maximum (at least 0), becomes 0 to 15, or 0 to 255 with 8
    bits. For weights without zero points use :func:`~int8blas.weights_scales`.

    Parameters
    ----------
    w : array_like of float32, float16 or bfloat16
        Finite weights of shape (oc, ic).
    group : int
        The number of consecutive k with one scale and one zero point, a multiple of 8. The number need not divide ic.
    bits : {4, 8}, optional
        The bits of a quantized weight.
    search : bool, optional
        Also try 0.6 to 0.95 of the range, which saturates the largest weights. Each group takes the range with the
        smallest sum of squared errors.
    importance : array_like of float32 or float64, optional
        Factors of the squared errors of each k in the search, of shape (ic,), not negative. With the mean square of
        each element of typical sources, the search minimizes the error of products instead of the error of weights.

    Returns
    -------
    GroupedWeights
        The weights are uint8. All zero points are between 0 and the largest quantized weight.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Examples
    --------
    >>> import numpy as np, int8blas.formats
    >>> w = int8blas.formats.from_float(np.float32([[-1, 2, 14, 7, 0, 0, 3, 5]]), group=8)
    >>> w.weights, w.zero_points, w.scales
    (array([[ 0,  3, 15,  8,  1,  1,  4,  6]], dtype=uint8), array([[1]], dtype=uint8), array([[1.]], dtype=float32))
    """
    if not is_option(bits, (4, 8)):
        raise ValueError(f"bits must be 4 or 8, got {shown(bits)}")
    array = in_float32(w, "w")
    if array.dtype.name != "float32":
        raise dtype_error(array, "w", ("float32", "float16", "bfloat16"))
    if array.ndim != 2 or not np.isfinite(array).all():
        came = f"shape {array.shape}" if array.ndim != 2 else "NaN or infinite values"
        raise ValueError(f"w must be finite, of shape (oc, ic), got {came}")
    oc, ic = array.shape
    size = check_group(group, ic, 4)
    factors = np.ones(ic) if importance is None else as_array(importance, "importance")
    if factors.dtype not in (np.float32, np.float64):
        raise dtype_error(factors, "importance", ("float32", "float64"), importance)
    if factors.shape != (ic,) or not (np.isfinite(factors).all() and (factors >= 0).all()):
        raise ValueError(f"importance must be {ic} finite values from 0 on, got {shown(importance)}")
    rest = (0, -ic % size)
    parts = np.pad(array, ((0, 0), rest)).reshape(oc, -(-ic // size), size).transpose(1, 0, 2).astype(np.float64)
    factors = np.pad(factors.astype(np.float64), rest).reshape(-1, 1, size)
    low, high = (function(parts, axis=2, initial=0) for function in (np.min, np.max))
    top = (1 << bits) - 1
    least = np.full(low.shape, np.inf)
    scales, zeros, values = np.ones(low.shape, np.float32), np.zeros(low.shape), np.zeros(parts.shape)
    for factor in (1, *FACTORS) if search else (1,):
        scale = scale_of_largest((high - low) * factor, top)
        zero = np.clip(np.rint(-low * factor / scale), 0, top)
        rounded = np.clip(np.rint(parts / scale[..., None]) + zero[..., None], 0, top)
        error = (factors * np.square((rounded - zero[..., None]) * scale[..., None] - parts)).sum(-1)
        better = error < least
        scales, zeros = np.where(better, scale, scales), np.where(better, zero, zeros)
        values, least = np.where(better[..., None], rounded, values), np.where(better, error, least)
    weights = values.transpose(1, 0, 2).reshape(oc, len(parts) * size)[:, :ic].astype(np.uint8)
    return GroupedWeights(np.ascontiguousarray(weights), scales, zeros.astype(np.uint8), size, bits)


def from_matmul_nbits(
    b: npt.ArrayLike, scales: npt.ArrayLike, zero_points: npt.ArrayLike | None = None,
    g_idx: npt.ArrayLike | None = None, *, n: int, k: int, bits: int, block_size: int,
) -> GroupedWeights:  # fmt: skip
    """Read the weights of ``MatMulNBits``, an operator of onnxruntime.

    Parameters
    ----------
    b : array_like of uint8
        Shape (n, ceil(k / block_size), block_size * bits / 8). With 4 bits, the low half of a byte comes first.
    scales : array_like of float32, float16 or bfloat16
        Shape (n, ceil(k / block_size)), or flat.
    zero_points : array_like of uint8, optional
        A zero point for each block, packed like the weights: n rows of ceil(blocks * bits / 8) bytes, or flat. The
        default is 8 for 4 bits, and 128 for 8 bits.
    g_idx : array_like of int, optional
        The group of each k. The groups of the padding up to a whole block may follow.
    n, k, bits, block_size : int
        The attributes of the operator. `bits` is 4 or 8. A `block_size` of at least `k` may be any multiple of 16.

    Returns
    -------
    GroupedWeights

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Examples
    --------
    >>> import numpy as np, int8blas.formats
    >>> b = np.arange(16, dtype=np.uint8).reshape(1, 2, 8)
    >>> w = int8blas.formats.from_matmul_nbits(b, np.float32([0.5, 2]), n=1, k=32, bits=4, block_size=16)
    >>> w.dequantized()[0, :4]
    array([-4. , -4. , -3.5, -4. ], dtype=float32)
    """
    n, k, bits = (integer(x, name) for x, name in ((n, "n"), (k, "k"), (bits, "bits")))
    block = integer(block_size, "block_size")
    if bits not in (4, 8):
        raise ValueError(f"bits must be 4 or 8, got {bits}")
    if block < 16 or (block & (block - 1) and (block < k or block % 16)):
        raise ValueError(f"block_size must be a power of 2 from 16 on, got {block}")
    if n < 1 or k < 1:
        raise ValueError(f"n and k must be at least 1, got {n} and {k}")
    blocks = -(-k // block)
    packed = _of_type(b, "b", np.uint8)
    if packed.size != n * blocks * block * bits // 8:
        raise ValueError(f"b must have shape {(n, blocks, block * bits // 8)}, got {packed.shape}")
    packed = packed.reshape(n, blocks * block * bits // 8)
    weights = (_halves(packed) if bits == 4 else packed)[:, :k]
    if zero_points is None:
        zeros = np.full((blocks, n), 1 << (bits - 1), np.uint8)
    else:
        given = _of_type(zero_points, "zero_points", np.uint8)
        row = -(-blocks * bits // 8)
        if given.size != n * row:
            raise ValueError(f"zero_points must have shape {(n, row)}, got {given.shape}")
        given = given.reshape(n, row)
        zeros = (_halves(given) if bits == 4 else given)[:, :blocks].T
    by_group = _scales(scales, "scales", (n, blocks)).T
    if g_idx is not None and np.shape(g_idx) == (blocks * block,):
        g_idx = np.asarray(g_idx)[:k]
    weights, order = _in_order(weights, g_idx, block)
    return GroupedWeights(weights, by_group, zeros, block, bits, order=order)


def from_gguf(blocks: npt.ArrayLike, kind: str) -> GroupedWeights:
    """Read the rows of a matrix in blocks of GGUF, the format of llama.cpp.

    Parameters
    ----------
    blocks : array_like of uint8
        Shape (oc, bytes of a row), as the package gguf gives the data of a tensor.
    kind : {'Q4_0', 'Q4_1', 'Q8_0'}
        The type of the tensor. Q4_1 has minimums.

    Returns
    -------
    GroupedWeights
        The weights, with groups of 32.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Examples
    --------
    >>> import numpy as np, int8blas.formats
    >>> block = np.concatenate([np.float16([0.5]).view(np.uint8), np.full(16, 0x19, np.uint8)])
    >>> int8blas.formats.from_gguf(block[None], "Q4_0").dequantized()[0, [0, 16]]
    array([ 0.5, -3.5], dtype=float32)
    """
    if kind not in GGUF_BLOCKS:
        raise ValueError(f"kind must be 'Q4_0', 'Q4_1' or 'Q8_0', got {shown(kind)}")
    given = _of_type(blocks, "blocks", np.uint8)
    scale, minimum, values = GGUF_BLOCKS[kind]
    size = scale + minimum + values
    if given.ndim != 2 or given.shape[1] % size:
        raise ValueError(f"blocks must have shape (oc, a multiple of {size}) for {kind}, got {given.shape}")
    rows = np.ascontiguousarray(given).reshape(len(given), given.shape[1] // size, size)
    numbers = np.ascontiguousarray(rows[:, :, : scale + minimum]).view(np.float16)
    scales = _scales(numbers[:, :, 0].T, "scales of blocks", (rows.shape[1], rows.shape[0]))
    minimums = _scales(numbers[:, :, 1].T, "minimums of blocks", scales.shape) if minimum else None
    bytes_, ic = np.ascontiguousarray(rows[:, :, scale + minimum :]), GGUF_GROUP * rows.shape[1]
    if kind == "Q8_0":
        return GroupedWeights(bytes_.view(np.int8).reshape(len(rows), ic), scales, None, GGUF_GROUP, 8)
    # The low halves of all bytes come first.
    weights = np.concatenate([bytes_ & 15, bytes_ >> 4], axis=2).reshape(len(rows), ic)
    zeros = np.full(scales.shape, 8, np.uint8) if kind == "Q4_0" else None
    return GroupedWeights(weights, scales, zeros, GGUF_GROUP, 4, minimums)


def _dwords(values: Any, name: str) -> npt.NDArray[np.uint8]:
    """Return the 8 values of each dword along a new last axis, the lowest bits first."""
    array = _of_type(values, name, np.int32)
    if array.ndim != 2:
        raise ValueError(f"{name} must have 2 dimensions, got shape {array.shape}")
    return np.stack([array >> 4 * i & 15 for i in range(8)], -1).astype(np.uint8)


def _groups_of(ic: int, zeros: npt.NDArray[Any], oc: int, name: str) -> int:
    """Return the number of k in a group, from the zero points (groups, oc)."""
    groups = len(zeros)
    if zeros.shape[1] != oc or groups == 0 or ic % groups:
        raise ValueError(f"{name} must have shape (groups, {oc // 8}), with groups that divide {ic}, got "
                         f"{(groups, zeros.shape[1] // 8)}")  # fmt: skip
    return ic // groups


def from_gptq(
    qweight: npt.ArrayLike, qzeros: npt.ArrayLike, scales: npt.ArrayLike, g_idx: npt.ArrayLike | None = None, *,
    zero_offset: int = 1,
) -> GroupedWeights:  # fmt: skip
    """Read weights of 4 bits that GPTQ has packed into int32.

    Parameters
    ----------
    qweight : array_like of int32
        Shape (ic / 8, oc): eight k of a column in a dword.
    qzeros : array_like of int32
        Shape (groups, oc / 8): eight zero points of a group in a dword.
    scales : array_like of float32, float16 or bfloat16
        Shape (groups, oc).
    g_idx : array_like of int, optional
        The group of each k, for a file that was quantized with ``desc_act=True``.
    zero_offset : {1, 0}, optional
        The number that is added to the stored zero points: 1 for files of AutoGPTQ, 0 for files of the format
        "gptq_v2".

    Returns
    -------
    GroupedWeights

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Examples
    --------
    >>> import numpy as np, int8blas.formats
    >>> q = np.full((2, 8), 0x76543210, np.int32)
    >>> w = int8blas.formats.from_gptq(q, np.full((1, 1), 0x11111111, np.int32), np.full((1, 8), 0.5, np.float16))
    >>> w.dequantized()[0, :4]
    array([-1. , -0.5,  0. ,  0.5], dtype=float32)
    """
    if zero_offset not in (0, 1):
        raise ValueError(f"zero_offset must be 0 or 1, got {shown(zero_offset)}")
    packed = _dwords(qweight, "qweight")
    ic, oc = 8 * packed.shape[0], packed.shape[1]
    weights = packed.transpose(1, 0, 2).reshape(oc, ic)
    zeros = _dwords(qzeros, "qzeros").reshape(len(np.asarray(qzeros)), -1) + np.uint8(zero_offset)
    group = _groups_of(ic, zeros, oc, "qzeros")
    if (zeros > 15).any():
        raise ValueError("qzeros must be at most 14 for zero_offset=1, got 15: files of gptq_v2 have zero_offset=0")
    weights, order = _in_order(weights, g_idx, group)
    return GroupedWeights(weights, _scales(scales, "scales", zeros.shape), zeros, group, 4, order=order)


def from_awq(qweight: npt.ArrayLike, qzeros: npt.ArrayLike, scales: npt.ArrayLike) -> GroupedWeights:
    """Read weights of 4 bits that AWQ has packed into int32 for its version "gemm".

    Parameters
    ----------
    qweight : array_like of int32
        Shape (ic, oc / 8): eight columns of a k in a dword, in the order 0, 2, 4, 6, 1, 3, 5, 7.
    qzeros : array_like of int32
        Shape (groups, oc / 8), packed like `qweight`.
    scales : array_like of float32, float16 or bfloat16
        Shape (groups, oc).

    Returns
    -------
    GroupedWeights

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above.

    Examples
    --------
    >>> import numpy as np, int8blas.formats
    >>> q = np.full((16, 1), 0x76543210, np.int32)
    >>> w = int8blas.formats.from_awq(q, np.zeros((1, 1), np.int32), np.ones((1, 8), np.float16))
    >>> w.weights[:, 0]
    array([0, 4, 1, 5, 2, 6, 3, 7], dtype=uint8)
    """
    places = np.argsort(AWQ_COLUMNS)
    packed, zeros = (
        _dwords(values, name)[:, :, places].reshape(len(np.asarray(values)), -1)
        for values, name in ((qweight, "qweight"), (qzeros, "qzeros"))
    )
    ic, oc = packed.shape
    group = _groups_of(ic, zeros, oc, "qzeros")
    by_group = _scales(scales, "scales", zeros.shape)
    return GroupedWeights(np.ascontiguousarray(packed.T), by_group, zeros, group, 4)
