"""``Index``: vectors with ids. The index converts float vectors to int8, and integer scores to floats."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from int8blas.core.arrays import as_array, in_float32
from int8blas.core.parameters import int8_dtype, integer, real
from int8blas.core.words import boolean, dtype_error, shown
from int8blas.elementwise.quantization import dequantize, quantize
from int8blas.gemm.packing import PackedB
from int8blas.neighbors import index_files
from int8blas.neighbors.nearest import nearest
from int8blas.neighbors.shards import Ids, Mask, Rows, Shard, Vectors, appended, removed

METRICS = ("cosine", "inner", "sqeuclidean", "hamming")
DISTANCES = ("sqeuclidean", "hamming")  # the metrics whose best scores are the smallest
# The number of vectors that are quantized, or converted to floats, at a time: 12 MiB if a vector has 384 elements.
BLOCK = 8192
# The number of candidates that rescoring ranks for each of the k wanted vectors.
CANDIDATES = 4
# The number of rows that a search by radius first finds for each query, and the factor by which the number grows.
RADIUS_ROWS, RADIUS_STEP = 256, 8
# The maximum number of rows that a search by radius finds at a time, for all queries together: 64 MiB.
MOST_FOUND = 1 << 22
# The smallest scale of a vector, whose inverse is finite.
TINY = float(np.finfo(np.float32).tiny)

Array: TypeAlias = npt.NDArray[Any]
# The float vectors of an index: an array whose row number is the id, or a function from ids to rows.
Floats: TypeAlias = Array | Callable[[Ids], npt.ArrayLike]
Filter: TypeAlias = range | Sequence[int] | Array | Callable[[Ids], npt.ArrayLike]
if TYPE_CHECKING:
    _Metric: TypeAlias = Literal["cosine", "inner", "sqeuclidean", "hamming"]


class Queries(NamedTuple):
    """Queries in the form that a search takes.

    `rows` has the integers. An integer score times the factor of its query is a score of the index. The floats of the
    queries are `given * unit`."""

    rows: Rows
    factors: npt.NDArray[np.float64] | float
    given: Array
    unit: float
    is_single: bool

    def only(self, which: npt.NDArray[np.intp]) -> Queries:
        factors = self.factors if isinstance(self.factors, float) else self.factors[which]
        return self._replace(rows=self.rows[which], factors=factors)


class Searched(NamedTuple):
    """Rows to search: a base for `nearest`, the ids of its rows, the excluded rows, and the number of remaining
    rows."""

    rows: PackedB | Rows
    ids: Ids
    excluded: Mask | None
    live: int


class Index:
    """An exact search index of int8 or uint8 vectors, each with an id.

    Parameters
    ----------
    dim : int
        The number of elements of a vector.
    metric : {'cosine', 'inner', 'sqeuclidean', 'hamming'}, optional
        The score of a vector, as in :func:`nearest`. The best vectors have the largest cosines, the largest inner
        products, the smallest squared distances, or the fewest different bits.
    dtype : dtype, optional
        The type in which vectors are stored: int8, for floats or int8 vectors, or uint8, for uint8 vectors. The default
        is int8, or uint8 for Hamming distances, whose vectors are packed bits.
    scale : float, optional
        The scale for inner products and distances of floats: an element x is stored as ``x / scale``, rounded, from
        -128 to 127. By default the first float vectors set the scale to their largest magnitude divided by 127. For
        cosines each vector has a separate scale, and `scale` must be None.

    Attributes
    ----------
    dim, metric, dtype
        As given to the constructor.
    scale : float or None
        The given scale, or the scale that the first floats have set. The scale is None for cosines, and while the index
        has only integers.

    See Also
    --------
    nearest : search packed rows or arrays once, by row numbers.

    Notes
    -----
    **Scores.** Scores are compared as exact integers. Returned scores are integer scores times scales, in float64, or
    cosines of integer vectors. In an index with a scale, integer vectors and queries are multiples of the scale.

    **Ties.** If scores are equal, the vector that was added first comes first. An updated vector counts as added last.
    The result does not depend on the CPU or the number of threads. With a given scale, the result does not depend on
    the division of vectors among calls of `add` either.

    **Threads.** All methods may be called from several threads at the same time. A search sees the vectors that the
    index has when the search begins. Searches release the GIL.

    **Memory.** A vector takes ``dim`` bytes (rounded up to a multiple of 4), 8 bytes for its id and 4 bytes for a
    scale. Removed vectors keep their memory until half of their shard is removed. A shard has up to 262,144 vectors.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> index = int8blas.Index(2)
    >>> index.add(np.array([[3, 0], [0, 0.5], [40, 30]], np.float32))
    array([0, 1, 2])
    >>> scores, ids = index.search(np.array([1, 0.1]), 2)
    >>> ids, scores.round(3)
    (array([0, 2]), array([0.995, 0.858]))
    >>> index.remove(0)
    >>> index.add([[-5.0, 1.0]], ids=[70])
    array([70])
    >>> index.search(np.array([[1, 0.1], [0, 1]]), 1)[1]
    array([[2],
           [1]])
    >>> index.search(np.array([1, 0.1]), 5, include=lambda ids: ids > 1)[1]
    array([ 2, 70])
    """

    def __init__(
        self,
        dim: SupportsIndex,
        metric: _Metric = "cosine",
        dtype: npt.DTypeLike | None = None,
        *,
        scale: float | None = None,
    ) -> None:
        self.dim = integer(dim, "dim")
        if self.dim < 1:
            raise ValueError(f"dim must be at least 1, got {shown(dim)}")
        if not isinstance(metric, str) or metric not in METRICS:
            raise ValueError(f"metric must be 'cosine', 'inner', 'sqeuclidean' or 'hamming', got {shown(metric)}")
        default = "uint8" if metric == "hamming" else "int8"
        self.metric, self.dtype = metric, int8_dtype(default if dtype is None else dtype, "dtype")
        if metric == "hamming" and self.dtype != np.uint8:
            raise ValueError(f"dtype must be uint8, packed bits, for metric 'hamming', got {self.dtype}")
        self.scale: float | None = None if scale is None else real(scale, "scale")
        if self.scale is not None:
            if metric == "cosine" or self.dtype == np.uint8:
                raise ValueError(f"scale must be None for {'cosines' if metric == 'cosine' else 'uint8'}, got {scale}")
            if not TINY <= self.scale <= float(np.finfo(np.float32).max):
                raise ValueError(f"scale must be positive and finite in float32, got {shown(scale)}")
            self.scale = float(np.float32(self.scale))
        self._shards: tuple[Shard, ...] = ()
        self._next_id = 0
        self._lock = threading.Lock()  # held by methods that change the index

    # Vectors

    def add(self, x: npt.ArrayLike, ids: npt.ArrayLike | None = None) -> Ids:
        """Add vectors.

        Parameters
        ----------
        x : array_like of float or of the dtype of the index
            Vectors of shape (N, dim), or one vector of shape (dim,). Floats become int8.
        ids : array_like of int, optional
            A unique id for each vector, from 0 to 2**63 - 2. By default ids continue after the largest id so far.

        Returns
        -------
        ndarray of int64
            The ids.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above. Nothing is added then.

        Warns
        -----
        RuntimeWarning
            If elements were out of the range of the scale, and saturated.
        """
        with self._lock:
            rows, scales, scale = self._quantized(x, "x", self.scale)
            if ids is None:
                if self._next_id + len(rows) >= np.iinfo(np.int64).max:
                    raise ValueError("ids must be given, because the index has the largest possible id")
                numbers = np.arange(self._next_id, self._next_id + len(rows))
            else:
                numbers = self._new_ids(ids, len(rows))
            result, shards = numbers.copy(), tuple(appended(self._shards, Vectors(rows, numbers, scales)))
            # Change the index after the last allocation. A search reads the shards before it reads the scale.
            self.scale = scale
            self._shards, self._next_id = shards, max(self._next_id, int(numbers.max(initial=-1)) + 1)
        return result

    def remove(self, ids: npt.ArrayLike) -> None:
        """Remove vectors.

        Parameters
        ----------
        ids : int or array_like of int
            The ids of the vectors to remove.

        Raises
        ------
        KeyError
            If an id is not in the index. Nothing is removed then.
        """
        with self._lock:
            self._shards = tuple(removed(self._shards, self._present(_ids_of(ids, "ids"))))

    def update(self, ids: npt.ArrayLike, x: npt.ArrayLike) -> None:
        """Replace vectors.

        Parameters
        ----------
        ids : int or array_like of int
            The ids of the vectors to replace, each once.
        x : array_like
            The new vectors, as for :meth:`add`.

        Raises
        ------
        KeyError
            If an id is not in the index. Nothing is replaced then.
        """
        with self._lock:
            rows, scales, _ = self._quantized(x, "x", self.scale)
            numbers = self._present(_ids_of(ids, "ids"))
            _check_count(numbers, len(rows))
            self._shards = tuple(appended(removed(self._shards, numbers), Vectors(rows, numbers, scales)))

    def reconstruct(self, ids: npt.ArrayLike) -> npt.NDArray[np.float32 | np.uint8]:
        """Return the stored vectors: integers times scales.

        Parameters
        ----------
        ids : int or array_like of int
            The ids of the vectors to return.

        Returns
        -------
        ndarray of float32
            The vectors, of shape (N, dim), or (dim,) for one id; packed bits in uint8 for Hamming distances.

        Raises
        ------
        KeyError
            If an id is not in the index.
        """
        shards, wanted = self._shards, _ids_of(ids, "ids")
        numbers, places = np.unique(wanted, return_inverse=True)
        dtype = np.uint8 if self.metric == "hamming" else np.float32
        result, found = np.empty((len(numbers), self.dim), dtype), np.zeros(len(numbers), bool)
        for shard in shards:
            which = shard.positions(numbers)
            target = np.searchsorted(numbers, shard.ids[which])
            found[target] = True
            scales = None if shard.scales is None else shard.scales[which]
            result[target] = self._floats(shard.take(which), scales)
        if not found.all():
            raise KeyError(f"ids must be of vectors in the index, got {numbers[~found][0]}")
        return result[places[0]] if np.ndim(ids) == 0 else result[places]

    def blocks(self) -> Iterator[tuple[Ids, npt.NDArray[np.float32 | np.uint8]]]:
        """Iterate over all vectors, some thousands at a time.

        Yields
        ------
        ids : ndarray of int64
            Ids, in the order in which the vectors were added.
        vectors : ndarray of float32 or uint8
            The vectors of these ids, as :meth:`reconstruct` returns them.
        """
        for shard in self._shards:
            live = np.arange(len(shard)) if shard.removed is None else np.flatnonzero(~shard.removed)
            for start in range(0, len(live), BLOCK):
                which = live[start : start + BLOCK]
                scales = None if shard.scales is None else shard.scales[which]
                yield shard.ids[which], self._floats(shard.take(which), scales)

    def __len__(self) -> int:
        return sum(shard.live for shard in self._shards)

    def __contains__(self, id: object) -> bool:
        number = integer(id, "id")
        shards = (shard for shard in self._shards if shard.lowest <= number <= shard.highest)
        return any(len(shard.positions(np.array([number]))) for shard in shards)

    def __repr__(self) -> str:
        return f"<Index of {len(self)} vectors: dim={self.dim}, metric={self.metric!r}, dtype={self.dtype}>"

    # Searches

    def search(
        self,
        q: npt.ArrayLike,
        k: SupportsIndex,
        *,
        include: Filter | None = None,
        exclude: Filter | None = None,
        rescore: Floats | None = None,
    ) -> tuple[npt.NDArray[np.float64], Ids]:
        """Find the k best vectors for each query.

        Parameters
        ----------
        q : array_like of float, int8 or uint8
            Queries of shape (M, dim), or one query of shape (dim,). Floats become int8.
        k : int
            The number of vectors to find, at least 1.
        include, exclude : range, array_like of int or bool, or callable, optional
            The search takes only the vectors in `include`, if it is given, and skips the vectors in `exclude`. Each
            argument is a range of ids, an array of ids, a mask of bool with an element for each id, or a function. The
            function takes the ids as an array of int64, and returns a mask. Ids that do not exist are ignored.
        rescore : array_like of float or callable, optional
            The float vectors: an array (which may be mapped from a file) whose row i has the vector with id i, or a
            function from ids to rows. The search finds the 4 k best vectors, and returns the k best of these vectors by
            the scores of their floats, in float64. The argument must be None for Hamming distances.

        Returns
        -------
        scores : ndarray of float64
            Scores, best first, of shape (M, k), or (k,) for one query. If fewer than k vectors are searched, there is a
            column for each searched vector.
        ids : ndarray of int64
            Ids, of the same shape. If scores are equal, the vector that was added first comes first.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above.

        Warns
        -----
        RuntimeWarning
            If elements of a query for distances were out of the range of the scale, and saturated.
        """
        count = integer(k, "k")
        if count < 1:
            raise ValueError(f"k must be at least 1, got {shown(k)}")
        if rescore is not None and self.metric == "hamming":
            raise ValueError("rescore must be None for metric 'hamming': packed bits have no floats")
        shards = self._shards  # read before the scale, which is set before the first shard
        queries = self._queries(q, shards)
        searched = _searched(shards, include, exclude)
        if rescore is None:
            scores, ids = self._find(queries, searched, count)
        else:
            ids = self._find(queries, searched, CANDIDATES * count)[1]
            floats = queries.given * np.float64(queries.unit)
            scores, ids = ranked(self.metric, floats, ids, count, self._vectors_at(rescore, ids))
        return (scores[0], ids[0]) if queries.is_single else (scores, ids)

    def range_search(
        self, q: npt.ArrayLike, radius: float, *, include: Filter | None = None, exclude: Filter | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], Ids]:
        """Find all vectors whose scores are at least `radius`, or whose distances are at most `radius`.

        Parameters
        ----------
        q : array_like
            Queries, as for :meth:`search`.
        radius : float
            The limit of the scores: no result has a worse score.
        include, exclude : range, array_like of int or bool, or callable, optional
            As for :meth:`search`.

        Returns
        -------
        limits : ndarray of int64
            Limits of shape (M + 1,). The results of query i are ``scores[limits[i]:limits[i + 1]]`` and
            ``ids[limits[i]:limits[i + 1]]``.
        scores : ndarray of float64
            Scores, best first for each query.
        ids : ndarray of int64
            Ids, in the order of the scores.

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described above.
        """
        worst = real(radius, "radius")
        if np.isnan(worst):
            raise ValueError("radius must be a number, got nan")
        shards = self._shards  # read before the scale, which is set before the first shard
        queries = self._queries(q, shards)
        searched = _searched(shards, include, exclude)
        found: list[tuple[Array, Array]] = [(np.empty(0), np.empty(0, np.int64))] * len(queries.rows)
        live, k, left = sum(part.live for part in searched), RADIUS_ROWS, np.arange(len(queries.rows))
        # Find more rows for queries whose last found row is within the radius.
        while len(left) and live:
            count, more = max(1, MOST_FOUND // k), []
            for some in np.split(left, range(count, len(left), count)):
                scores, ids = self._find(queries.only(some), searched, k)
                is_inside = scores <= worst if self.metric in DISTANCES else scores >= worst
                inside = np.count_nonzero(is_inside, axis=1)
                done = (inside < k) | (k >= live)
                for i in np.flatnonzero(done):
                    found[some[i]] = scores[i, : inside[i]].copy(), ids[i, : inside[i]].copy()
                more.append(some[~done])
            left, k = np.concatenate(more), RADIUS_STEP * k
        limits = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(ids) for _, ids in found], out=limits[1:])
        return (
            limits,
            np.concatenate([np.empty(0), *(scores for scores, _ in found)]),
            np.concatenate([np.empty(0, np.int64), *(ids for _, ids in found)]),
        )

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a folder. If the folder has an earlier state of the index, write only changes.

        Parameters
        ----------
        path : path-like
            The folder, which is created if it does not exist. One process at a time may save to the folder.

        Raises
        ------
        OSError
            If a file cannot be written.

        Notes
        -----
        The folder has arrays in files that :func:`numpy.load` reads, and `index.json`, which names the files with their
        checksums. A file of arrays is written once and never changed. `index.json` is replaced when all other files are
        on the disk. If a call is interrupted at any moment, the folder therefore still has the former index. Packed
        rows that the folder already has are not written again.
        """
        with self._lock:  # two calls would delete each other's files
            index_files.save(os.fspath(path), self._settings(), self._shards)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = True, verify: bool = False) -> Index:
        """Read an index from a folder of :meth:`save`.

        Parameters
        ----------
        path : path-like
            The folder.
        mmap : bool, optional
            Map vectors from their files instead of reading them. Processes share mapped memory. Saving to the folder
            does not change mapped files.
        verify : bool, optional
            Compare all bytes with their checksums now. By default the first search of a shard compares its bytes.

        Returns
        -------
        Index

        Raises
        ------
        OSError
            If a file cannot be read.
        ValueError
            If the folder has no index, or its index is corrupted, truncated, or of another version. The first search
            may raise a ValueError.
        """
        flags = boolean(mmap, "mmap"), boolean(verify, "verify")
        settings, shards = index_files.load(os.fspath(path), *flags)
        try:
            index = cls(settings["dim"], settings["metric"], settings["dtype"], scale=settings["scale"])
            index._next_id = max(0, integer(settings["next_id"], "next_id"), *(shard.highest + 1 for shard in shards))
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"{path} is corrupted, or of a later int8blas: {error}") from None
        index._shards = tuple(shards)
        return index

    def _settings(self) -> dict[str, Any]:
        return {
            "dim": self.dim, "metric": self.metric, "dtype": self.dtype.name, "scale": self.scale,
            "next_id": self._next_id,
        }  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    # Floats and integers

    def _array(self, x: Any, name: str) -> Array:
        """Return vectors as a 2-D array. Floats become float32."""
        array = in_float32(x, name)
        if array.dtype == np.bool_:
            array = array.view(np.uint8)
        if array.ndim not in (1, 2) or array.shape[-1] != self.dim:
            raise ValueError(f"{name} must have vectors of {self.dim} elements, got shape {array.shape}")
        return array.reshape(-1, self.dim)

    def _quantized(
        self, x: Any, name: str, scale: float | None
    ) -> tuple[Rows, npt.NDArray[np.float32] | None, float | None]:
        """Return vectors in the dtype of the index, the scale of each vector (or None), and the scale of the index."""
        array = self._array(x, name)
        has_scales = self.metric == "cosine" and self.dtype == np.int8
        if array.dtype == self.dtype:
            return array, np.ones(len(array), np.float32) if has_scales else None, scale
        if array.dtype != np.float32 or self.dtype == np.uint8:
            raise dtype_error(array, name, (self.dtype,) if self.dtype == np.uint8 else ("int8", "float32"), x)
        steps = _steps(array, name)
        if has_scales:
            return _rounded(array, steps), steps, scale
        if scale is None and len(array):
            if self._shards:
                raise ValueError(f"{name} must be int8, as the vectors before: they were added without a scale")
            if not array.any():
                raise ValueError(f"{name} must have elements other than 0, to set a scale: give Index a scale")
            scale = float(steps.max())
        if scale is None:
            return np.empty(array.shape, np.int8), None, None
        _warn_of_saturation(array, scale, name)
        return _rounded(array, np.full(len(array), scale, np.float32)), None, scale

    def _queries(self, q: Any, shards: tuple[Shard, ...]) -> Queries:
        given = as_array(q, "q")
        array, scale = self._array(given, "q"), 1.0 if self.scale is None else self.scale
        factor = 1.0 if self.metric == "cosine" else scale * scale
        is_single = given.ndim == 1
        if self.metric == "hamming" and array.dtype != np.uint8:
            raise dtype_error(array, "q", ("uint8",), q)
        if array.dtype in (np.int8, np.uint8):
            return Queries(array, factor, array, scale, is_single)
        if array.dtype != np.float32:
            raise dtype_error(array, "q", ("int8", "uint8", "float32"), q)
        steps = _steps(array, "q")
        if self.metric == "sqeuclidean":
            if shards and self.scale is None:
                raise TypeError("q must be int8 or uint8, got float32: the index has no scale, as it holds integers")
            if shards:
                _warn_of_saturation(array, scale, "q")
            return Queries(_rounded(array, np.full(len(array), scale, np.float32)), factor, array, 1.0, is_single)
        factors = steps * np.float64(scale) if self.metric == "inner" else 1.0
        return Queries(_rounded(array, steps), factors, array, 1.0, is_single)

    def _floats(self, rows: Rows, scales: npt.NDArray[np.float32] | None) -> npt.NDArray[np.float32 | np.uint8]:
        if self.metric == "hamming":
            return rows.view(np.uint8)
        if scales is not None:
            return dequantize(np.ascontiguousarray(rows), scales, axis=0)
        return dequantize(np.ascontiguousarray(rows), 1.0 if self.scale is None else self.scale)

    # Ids

    def _new_ids(self, ids: Any, count: int) -> Ids:
        numbers = _ids_of(ids, "ids")
        _check_count(numbers, count)
        taken = [shard.ids[which] for shard in self._shards if len(which := shard.positions(numbers))]
        if taken:
            raise ValueError(f"ids must be new, got {taken[0][0]}, which is in the index")
        return numbers

    def _present(self, numbers: Ids) -> Ids:
        """Return ids after checking that all are in the index."""
        found = [shard.ids[shard.positions(numbers)] for shard in self._shards]
        missing = np.setdiff1d(numbers, np.concatenate([np.empty(0, np.int64), *found]))
        if len(missing):
            raise KeyError(f"ids must be of vectors in the index, got {missing[0]}")
        return numbers

    # Searches

    def _vectors_at(self, rescore: Floats, ids: Ids) -> Callable[[Ids], Array]:
        if callable(rescore):
            source = rescore
        else:
            floats = as_array(rescore, "rescore")
            if floats.ndim != 2:
                raise ValueError(f"rescore must have 2 dimensions, got shape {floats.shape}")
            if len(floats) <= ids.max(initial=-1):
                raise ValueError(f"rescore must have a row at each id, got {len(floats)} rows and the id {ids.max()}")
            source = floats.__getitem__

        def vectors_at(some: Ids) -> Array:
            vectors = as_array(source(some), "rescore")
            if vectors.shape != (len(some), self.dim):
                raise ValueError(f"rescore must have vectors of {self.dim} elements, got shape {vectors.shape}")
            return vectors

        return vectors_at

    def _find(self, queries: Queries, searched: list[Searched], k: int) -> tuple[npt.NDArray[np.float64], Ids]:
        if not searched:
            return np.empty((len(queries.rows), 0)), np.empty((len(queries.rows), 0), np.int64)
        excluded = None
        if any([part.excluded is not None for part in searched]):
            excluded = np.concatenate(
                [np.zeros(len(part.ids), bool) if part.excluded is None else part.excluded for part in searched]
            )
        numbers, scores = nearest(
            queries.rows, [part.rows for part in searched], k, metric=self.metric, exclude=excluded
        )
        if len(searched) == 1:
            ids = searched[0].ids[numbers]
        else:
            ends = np.cumsum([len(part.ids) for part in searched])
            ids, owner = np.empty(numbers.shape, np.int64), np.searchsorted(ends, numbers, side="right")
            for i in np.unique(owner):
                mine = owner == i
                ids[mine] = searched[i].ids[numbers[mine] - (ends[i] - len(searched[i].ids))]
        factors = queries.factors if isinstance(queries.factors, float) else queries.factors.reshape(-1, 1)
        return np.multiply(scores, factors, dtype=np.float64), ids


def ranked(
    metric: str, queries: Array, ids: Ids, k: int, vectors_at: Callable[[Ids], Array]
) -> tuple[npt.NDArray[np.float64], Ids]:
    """Return the best k of some ids for each query, by the scores of their floats. `vectors_at` returns the floats, a
    row for each id. Ids with equal scores keep their order."""
    scores, dim = np.empty(ids.shape), queries.shape[1]
    step = max(1, BLOCK // max(1, ids.shape[1]))
    for start in range(0, len(ids), step):
        some = slice(start, start + step)
        x = vectors_at(ids[some].reshape(-1)).astype(np.float64).reshape(*ids[some].shape, dim)
        q = queries[some, :, np.newaxis].astype(np.float64)
        if metric == "sqeuclidean":
            x -= queries[some, np.newaxis]
            scores[some] = np.einsum("mkd,mkd->mk", x, x)
            continue
        scores[some] = np.matmul(x, q)[:, :, 0]
        if metric == "cosine":
            lengths = np.linalg.norm(x, axis=2) * np.linalg.norm(q, axis=1)
            np.divide(scores[some], lengths, out=scores[some], where=lengths > 0)
    order = np.argsort(scores if metric == "sqeuclidean" else -scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(ids, order, axis=1)


def _steps(x: npt.NDArray[np.float32], name: str) -> npt.NDArray[np.float32]:
    """Return the scale of each row: the elements divided by the scale have a magnitude of at most 127."""
    largest = np.maximum(x.max(axis=1, initial=0), -x.min(axis=1, initial=0))
    if not np.isfinite(largest).all():
        raise ValueError(f"{name} must be finite, got NaN or inf in vector {np.flatnonzero(~np.isfinite(largest))[0]}")
    steps: npt.NDArray[np.float32] = np.maximum(largest / np.float32(127), TINY)
    return steps


def _rounded(x: npt.NDArray[np.float32], steps: npt.NDArray[np.float32]) -> Rows:
    rows = np.empty(x.shape, np.int8)
    for start in range(0, len(x), BLOCK):
        some = slice(start, start + BLOCK)
        rows[some] = quantize(x[some], steps[some], axis=0)
    return rows


def _warn_of_saturation(x: npt.NDArray[np.float32], scale: float, name: str) -> None:
    above, below = x.max(axis=1, initial=0) > 127.5 * scale, x.min(axis=1, initial=0) < -128.5 * scale
    if beyond := int(np.count_nonzero(above | below)):
        warnings.warn(
            f"{name} has elements beyond the range of the scale {scale:.3g}, which were saturated, in {beyond} of "
            f"{len(x)} vectors: give Index a larger scale",
            RuntimeWarning,
            stacklevel=4,
        )


def _ids_of(ids: Any, name: str) -> Ids:
    array = as_array(ids, name)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype}")
    if array.ndim > 1:
        raise ValueError(f"{name} must have at most 1 dimension, got shape {array.shape}")
    if array.min() < 0 or array.max() >= np.iinfo(np.int64).max:
        raise ValueError(f"{name} must be from 0 to 2**63 - 2, got {array.min() if array.min() < 0 else array.max()}")
    return array.reshape(-1).astype(np.int64)


def _check_count(ids: Ids, count: int) -> None:
    if len(ids) != count:
        raise ValueError(f"ids must have one for each of {count} vectors, got {len(ids)}")
    if len(np.unique(ids)) != count:
        raise ValueError("ids must have each id once")


def _searched(shards: tuple[Shard, ...], include: Filter | None, exclude: Filter | None) -> list[Searched]:
    """Return the rows that remain after the filters."""
    wanted = None if include is None else _filter(include, "include")
    unwanted = None if exclude is None else _filter(exclude, "exclude")
    parts = []
    for shard in shards:
        if wanted is None and unwanted is None:
            parts.append(Searched(shard.rows, shard.ids, shard.removed, shard.live))
            continue
        left = np.ones(len(shard), bool) if wanted is None else wanted(shard)
        if unwanted is not None:
            left &= ~unwanted(shard)
        if shard.removed is not None:
            left &= ~shard.removed
        live = int(np.count_nonzero(left))
        if live:
            parts.append(Searched(shard.rows, shard.ids, None if live == len(shard) else ~left, live))
    return parts


def _filter(given: Any, name: str) -> Callable[[Shard], Mask]:
    """Return a function from a shard to a new mask of the rows that a filter selects."""
    if isinstance(given, range):
        if not given:
            return lambda shard: np.zeros(len(shard), bool)
        # A range may exceed 64 bits. Ids are less than 2**63 - 1, so id % step is id for any larger step.
        low, high = sorted((given[0], given[-1]))
        rest, step = low % abs(given.step), min(abs(given.step), 2**63 - 1)

        def in_range(shard: Shard) -> Mask:
            mask = (shard.ids >= low) & (shard.ids <= high)
            return mask if step == 1 else mask & (shard.ids % step == rest)

        return in_range
    if callable(given):
        return lambda shard: _asked(given, shard, name)
    array = as_array(given, name)
    if array.dtype == np.bool_ and array.ndim == 1:
        return lambda shard: (shard.ids >= 0) & (shard.ids < len(array)) & _at(array, shard.ids)
    numbers = _ids_of(array, name)

    def mask_of(shard: Shard) -> Mask:
        mask = np.zeros(len(shard), bool)
        mask[shard.positions(numbers)] = True
        return mask

    return mask_of


def _at(mask: Mask, ids: Ids) -> Mask:
    return mask[np.clip(ids, 0, len(mask) - 1)] if len(mask) else np.zeros(len(ids), bool)


def _asked(function: Callable[[Ids], npt.ArrayLike], shard: Shard, name: str) -> Mask:
    live = np.ones(len(shard), bool) if shard.removed is None else ~shard.removed
    answer = as_array(function(shard.ids[live]), name)
    if answer.dtype != np.bool_ or answer.shape != (shard.live,):
        raise ValueError(f"{name} must return a bool for each of {shard.live} ids, got {answer.dtype} {answer.shape}")
    mask = np.zeros(len(shard), bool)
    mask[live] = answer
    return mask
