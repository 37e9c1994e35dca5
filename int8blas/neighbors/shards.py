"""The vectors of an :class:`Index`: shards of packed rows. The last shard is packed when it has enough rows.

A shard never changes. Adding, removing and merging create a new list of shards, so a running search keeps its list. A
removed row stays in memory, with the id -1, until half of the shard's rows are removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from int8blas.gemm.packing import PackedB, pack_b

# Limits for the rows of a shard. A shard with fewer rows than LEAST is a plain array, and the array is copied when a
# row is added. No shard has more rows than MOST.
LEAST, MOST = 1024, 1 << 18
REMOVED = -1
SIGN_BIT = np.uint8(0x80)

Rows = npt.NDArray[np.int8 | np.uint8]
Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Stored(Protocol):
    """Packed rows in a file."""

    def packed(self) -> PackedB: ...


class Vectors(NamedTuple):
    """Rows with their ids, and a scale for each row. If `scales` is None, the scale of all rows is 1 or the scale of
    the index."""

    rows: Rows
    ids: Ids
    scales: npt.NDArray[np.float32] | None

    def only(self, which: slice | Mask) -> Vectors:
        return Vectors(self.rows[which], self.ids[which], None if self.scales is None else self.scales[which])


def joined(parts: Iterable[Vectors]) -> Vectors:
    rows, ids, scales = zip(*parts, strict=True)
    return Vectors(np.concatenate(rows), np.concatenate(ids), None if scales[0] is None else np.concatenate(scales))


class Shard:
    """Rows with ids and scales, as in :class:`Vectors`."""

    def __init__(self, rows: PackedB | Rows | Stored, ids: Ids, scales: npt.NDArray[np.float32] | None) -> None:
        self.source, self.ids, self.scales = rows, ids, scales
        removed = ids == REMOVED
        self.live = len(ids) - int(np.count_nonzero(removed))
        # A mask of the removed rows, or None if no row is removed.
        self.removed = removed if self.live < len(ids) else None
        held = ids if self.removed is None else ids[~removed]
        self.lowest, self.highest = (int(held.min()), int(held.max())) if self.live else (0, -1)

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, (self.rows, self.ids, self.scales)

    @cached_property
    def rows(self) -> PackedB | Rows:
        """Return the rows, a base for `nearest`. The first call verifies rows that are in a file."""
        return self.source if isinstance(self.source, (PackedB, np.ndarray)) else self.source.packed()

    def positions(self, ids: Ids) -> npt.NDArray[np.intp]:
        """Return the positions of the rows with these ids."""
        some = ids[(ids >= self.lowest) & (ids <= self.highest)]
        return np.flatnonzero(np.isin(self.ids, some)) if len(some) else np.empty(0, np.intp)

    def take(self, which: npt.NDArray[np.intp]) -> Rows:
        """Return the rows at these positions, in an array."""
        if not isinstance(self.rows, PackedB):
            return self.rows[which]
        groups = _groups(self.rows)
        return _as_rows(self.rows, groups[which // groups.shape[2], :, which % groups.shape[2]])

    def vectors(self) -> Vectors:
        """Return all rows that are not removed."""
        rows = self.rows
        if isinstance(rows, PackedB):
            groups = _groups(rows).transpose(0, 2, 1)
            rows = _as_rows(rows, groups.reshape(-1, groups.shape[2])[: len(self)])
        every = Vectors(rows, self.ids, self.scales)
        return every if self.removed is None else every.only(~self.removed)

    def without(self, which: npt.NDArray[np.intp]) -> list[Shard]:
        """Return the shard without some rows. If no row is left, return no shard. If at least half of the rows are
        removed, return a new shard."""
        ids = self.ids.copy()
        ids[which] = REMOVED
        shard = Shard(self.source, ids, self.scales)
        if not shard.live:
            return []
        return [shard] if 2 * shard.live > len(shard) else [made(shard.vectors())]


def _groups(packed: PackedB) -> npt.NDArray[np.int32]:
    """Return the groups of four elements as numbers, which NumPy can copy: [panels, groups, rows of a panel]."""
    return packed.data.view(np.int32)[..., 0]


def _as_rows(packed: PackedB, groups: npt.NDArray[np.int32]) -> Rows:
    rows = np.ascontiguousarray(groups).view(np.int8)[:, : packed.shape[0]]
    return rows.view(np.uint8) ^ SIGN_BIT if packed.dtype == np.uint8 else rows


def made(vectors: Vectors) -> Shard:
    if len(vectors.ids) < LEAST:
        return Shard(np.array(vectors.rows, order="C"), vectors.ids, vectors.scales)
    return Shard(pack_b(vectors.rows, trans_b=True), vectors.ids, vectors.scales)


def appended(shards: Iterable[Shard], vectors: Vectors) -> list[Shard]:
    """Return the shards with vectors appended. Merge two neighbours if the first shard is not larger than the second
    shard. Merges keep the number of shards small, and pack no row many times."""
    result = list(shards)
    if result and len(result[-1]) < LEAST:
        vectors = joined([result.pop().vectors(), vectors])
    for start in range(0, len(vectors.ids), MOST):
        shard = made(vectors.only(slice(start, start + MOST)))
        while result and LEAST <= len(result[-1]) <= len(shard) <= MOST - len(result[-1]):
            shard = made(joined([result.pop().vectors(), shard.vectors()]))
        result.append(shard)
    return result


def removed(shards: Iterable[Shard], ids: Ids) -> list[Shard]:
    """Return the shards without the rows that have these ids."""
    result: list[Shard] = []
    for shard in shards:
        which = shard.positions(ids)
        result += shard.without(which) if len(which) else [shard]
    return result
