"""``nearest``: arguments, the shards of the base, the steps of a search, and its results."""

import operator

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport as_array, choice, int8_operand
from int8blas.core.kernels cimport I8_COSINE, I8_HAMMING, I8_PANEL, current_kernels
from int8blas.core.results cimport Layout, check_layout, empty, lay_out
from int8blas.core.split cimport ceil_div
from int8blas.core.threads cimport max_threads
from int8blas.core.traced import traced
from int8blas.core.words import shown
from int8blas.gemm.call cimport set_a, set_b
from int8blas.gemm.packing cimport PackedB
from int8blas.gemm.problem cimport Problem, is_uncached_size, set_product_type, start
from int8blas.neighbors.best cimport Best
from int8blas.neighbors.hamming cimport packed_rows
from int8blas.neighbors.search cimport (
    MOST_QUERIES, Search, Shard, batch_size, begin, finish, needs_squares, parts_for, query_bytes, search_step,
    step_panels, store_found, takes_short_items, term_bound)
from int8blas.neighbors.squares cimport row_squares

cnp.import_array()

cdef uint64_t SIGN_BITS = 0x8080808080808080

cdef tuple METRICS = ("inner", "sqeuclidean", "cosine", "hamming")

cdef int64_t wanted_count(object k) except -1:
    try:
        count = operator.index(k)
    except TypeError:
        raise TypeError(f"k must be an integer, got {type(k).__name__}") from None
    if count < 1:
        raise ValueError(f"k must be at least 1, got {shown(count)}")
    return min(count, INT64_MAX)


cdef int check_bits(object x, str name) except -1:
    """Raise an error unless an operand has packed bits."""
    if x.dtype != np.uint8:
        raise TypeError(f"{name} must be uint8, packed bits, for metric 'hamming', got {x.dtype}")
    return 0


cdef object as_shard(object x, str name, int64_t k, int metric):
    """Check a shard; return it as a PackedB or an array of rows."""
    if not isinstance(x, PackedB):
        x = int8_operand(x, name)
        if x.ndim != 2:
            raise ValueError(f"{name} must have 2 dimensions, rows of vectors, got shape {x.shape}")
    elements = x.shape[0] if isinstance(x, PackedB) else x.shape[1]
    if elements != k:
        raise ValueError(f"{name} must have vectors of {k} elements, as queries have, got {elements}")
    if metric == I8_HAMMING:
        check_bits(x, name)
    return x


cdef list as_shards(object base, int64_t k, int metric):
    """Check the base; return its shards."""
    if not isinstance(base, (list, tuple)):
        return [as_shard(base, "base", k, metric)]
    if not base:
        raise ValueError("base must have at least one shard, got none")
    return [as_shard(x, f"base[{i}]", k, metric) for i, x in enumerate(base)]


cdef int set_shard(Search *s, Shard *shard, object x, cnp.ndarray queries) except -1:
    """Set up the product of all queries with a shard, and add the panels of the shard to the search."""
    cdef Problem *g = &shard.g
    cdef PackedB packed
    start(g, False)
    set_a(g, queries, False)
    if isinstance(x, PackedB):
        packed = <PackedB>x
        packed.fill(g)
        packed.fill_split(g, min(<int64_t>MOST_QUERIES, g.m))
        shard.matrix = &packed._matrix
        shard.squares = packed.squares() if needs_squares(s) else NULL
    else:
        # The conversion of a later shard may have run Python code that sets the layout of this shard.
        set_b(g, as_shard(x, "base", s.k, s.metric), True)
        shard.matrix, shard.squares = NULL, NULL
    shard.first_panel = s.panels
    s.panels += ceil_div(g.n, I8_PANEL)
    s.wide |= g.k > INT32_MAX // term_bound(
        s.metric, queries.dtype == x.dtype, cnp.PyArray_TYPE(queries) == cnp.NPY_INT8)
    return 0


cdef cnp.ndarray set_excluded(Search *s, object exclude, int64_t rows):
    """Set the excluded rows and the number of rows to find. Return the array of the mask, or None."""
    cdef cnp.ndarray mask = None
    cdef int64_t left = rows
    s.exclude_first = s.exclude_end = 0
    s.excluded = NULL
    if isinstance(exclude, slice):
        exclude = range(*exclude.indices(rows))
    if isinstance(exclude, range):
        if exclude.step != 1:
            raise ValueError(f"exclude must be a range of step 1, got {exclude.step}")
        if exclude:  # its length may exceed 64 bits
            if exclude.start < 0 or exclude.stop > rows:
                raise ValueError(f"exclude must be within the {rows} rows of base, got {exclude}")
            s.exclude_first, s.exclude_end = exclude.start, exclude.stop
        left = rows - (s.exclude_end - s.exclude_first)
    elif exclude is not None:
        mask = as_array(exclude, "exclude")
        if mask.dtype != np.bool_:
            raise TypeError(f"exclude must be a range, a slice or an array of bool, got {mask.dtype}")
        if mask.ndim != 1 or mask.shape[0] != rows:
            raise ValueError(f"exclude must have shape {(rows,)}, a value for each row of base, got "
                             f"{(<object>mask).shape}")
        mask = mask.copy()  # the callback or another thread may change the argument while the search counts its rows
        s.excluded = <const uint8_t *>cnp.PyArray_DATA(mask)
        left = rows - int(np.count_nonzero(mask))
    s.most = min(s.most, left)
    return mask


cdef void store(const Search *s, int64_t first, cnp.ndarray indices, cnp.ndarray scores) noexcept:
    """Store the results of the current queries, from query `first` on."""
    cdef int64_t at = first * s.most
    cdef int64_t *index = <int64_t *>cnp.PyArray_DATA(indices) + at
    cdef void *score = cnp.PyArray_DATA(scores)
    if s.metric == I8_COSINE:
        store_found(s, s.most, index, <double *>score + at)
    elif s.wide:
        store_found(s, s.most, index, <int64_t *>score + at)
    else:
        store_found(s, s.most, index, <int32_t *>score + at)


cdef inline cnp.ndarray memory_of(cnp.npy_intp size):
    return empty(1, &size, cnp.NPY_UINT8)


cdef uint8_t *flip_signs(uint8_t *dst, const uint8_t *src, int64_t n) noexcept:
    """Flip the sign bits of n bytes, eight at a time. Return `dst`."""
    cdef int64_t i = 0
    cdef uint64_t word
    while i + 8 <= n:
        memcpy(&word, src + i, 8)
        word ^= SIGN_BITS
        memcpy(dst + i, &word, 8)
        i += 8
    for i in range(i, n):
        dst[i] = src[i] ^ <uint8_t>SIGN_BITS
    return dst


cdef int search(Search *s, cnp.ndarray queries, const Layout *layout, cnp.ndarray squares, cnp.ndarray indices,
                cnp.ndarray scores, object callback) except -1:
    """Search for all queries, one batch at a time. Between steps Python checks for signals. The callback may set the
    layout of `queries`, so each batch checks for `layout`."""
    cdef int64_t count = queries.shape[0], first = 0, panels, rows, done = 0
    cdef int64_t total = s.shards[s.shard_count - 1].first + s.shards[s.shard_count - 1].g.n
    cdef int status
    cdef bint flips = cnp.PyArray_TYPE(queries) == cnp.NPY_INT8
    cdef cnp.ndarray best, items, packed, flipped = None
    s.queries = batch_size(s, count)
    s.parts = parts_for(s, max_threads())
    best = memory_of(s.parts * s.queries * sizeof(Best))
    items = memory_of(s.parts * s.queries * query_bytes(s))
    if flips:
        flipped = memory_of(s.queries * s.k)
    s.best = <Best *>cnp.PyArray_DATA(best)
    while first < count:
        check_layout(layout, queries, "queries")
        s.queries = batch_size(s, count - first)
        s.rows = s.unsigned_rows = <const uint8_t *>cnp.PyArray_DATA(queries) + first * s.k
        if s.metric == I8_HAMMING:
            packed = packed_rows(queries[first:first + s.queries])
            s.rows = s.unsigned_rows = <const uint8_t *>cnp.PyArray_DATA(packed)
        if flips:
            s.unsigned_rows = flip_signs(<uint8_t *>cnp.PyArray_DATA(flipped), s.rows, s.queries * s.k)
        s.query_squares = NULL if squares is None else <const int64_t *>cnp.PyArray_DATA(squares) + first
        begin(s, <char *>cnp.PyArray_DATA(items))
        while s.panel < s.panels:
            panels = step_panels(s)
            with nogil:
                status = search_step(s, panels)
            if status:
                raise MemoryError("nearest: no memory for the workspace")
            PyErr_CheckSignals()
            if callback is not None:
                rows = total if s.panel == s.panels else min(total, s.panel * I8_PANEL)
                done = first * total + s.queries * rows
                callback(done, count * total)
        with nogil:
            finish(s)
        store(s, first, indices, scores)
        first += s.queries
    return 0


@traced("queries", "base")
def nearest(queries, base, k, *, metric="inner", exclude=None, callback=None):
    """Find the k nearest of many rows to each query, by an exact search through all rows.

    Parameters
    ----------
    queries : array_like of uint8 or int8
        Vectors q of shape (M, K), or one vector of shape (K,). For Hamming distances, the vectors of `queries` and
        `base` are uint8, with 8 K packed bits each.
    base : PackedB, array_like of uint8 or int8, or list of these
        The vectors x: an array of shape (N, K), or ``pack_b(array, trans_b=True)``, which saves packing. A list has the
        shards of one base: arrays and packed arrays of any sizes, whose rows are numbered from shard to shard.
    k : int
        The number of rows to find for each query, at least 1.
    metric : {'inner', 'sqeuclidean', 'cosine', 'hamming'}, optional
        The score of a row: ``q @ x``, largest first; ``sum((q - x)**2)``, smallest first;
        ``q @ x / sqrt((q @ q) * (x @ x))``, largest first; or the number of bits in which q and x differ, smallest
        first.
    exclude : range, slice or array_like of bool, optional
        Rows that the search skips: a range or slice of consecutive numbers, or a mask of shape (N,) that is true for
        these rows.
    callback : callable, optional
        A function that is called as ``callback(done, total)`` from time to time and at the end. `done` counts pairs of
        a query and a row, and `total` is M * N. An exception in the callback ends the search.

    Returns
    -------
    indices : ndarray of int64
        The numbers of the nearest rows, best first, of shape (M, k), or (k,) for a single query. Rows with equal scores
        are sorted by number. If fewer than k rows are searched, there is a column for each searched row.
    scores : ndarray of int32, int64 or float64
        The scores of the rows in `indices`, in the shape of `indices`: float64 for cosines, otherwise int32, or int64
        if K allows scores beyond int32.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above, before anything is computed.

    See Also
    --------
    sqeuclidean, hamming : all distances.

    Notes
    -----
    Inner products and distances are exact, and are compared as integers. Inner products are int64 from K = 33,026 on if
    both operands are uint8, from 65,794 if one operand is uint8, and from 131,072 if both are int8. Distances are int64
    from K = 33,026 on for equal dtypes, and from 14,640 for different dtypes.

    A cosine is computed in double precision from exact integers: the product of the two sums of squares, its square
    root, and the quotient, each rounded once. Rows are sorted by their cosines. A cosine is 0.0 if q or x is 0.

    The result does not depend on the CPU, the number of threads, packing or shards. The search compares scores with the
    worst of a query's best rows while the scores are in cache. Each thread stores the scores of only one block. The
    first search that needs the sums of squares of a packed base computes and keeps them. The search releases the GIL,
    and KeyboardInterrupt ends the search.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> vectors = np.array([[3, 0], [0, 5], [4, 4], [-1, 0]], np.int8)
    >>> base = int8blas.pack_b(vectors, trans_b=True)
    >>> indices, scores = int8blas.nearest(np.array([[2, 1]], np.int8), base, 3)
    >>> indices, scores
    (array([[2, 0, 1]]), array([[12,  6,  5]], dtype=int32))
    >>> int8blas.nearest(vectors[0], base, 3, metric="sqeuclidean", exclude=range(0, 1))
    (array([3, 2, 1]), array([16, 17, 34], dtype=int32))
    >>> int8blas.nearest(vectors[0], [vectors, base], 2, metric="cosine")
    (array([0, 4]), array([1., 1.]))
    """
    cdef Search s
    cdef Layout layout
    cdef cnp.ndarray x = int8_operand(queries, "queries"), shards, squares = None, _mask
    cdef bint is_single
    cdef int64_t rows = 0, i
    cdef cnp.npy_intp shape[2]
    s.most = wanted_count(k)
    s.metric = choice(metric, "metric", METRICS)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, got {type(callback).__name__}")
    x = int8_operand(x, "queries")  # `k` may have run Python code that sets the dtype of an array
    is_single = cnp.PyArray_NDIM(x) == 1
    if cnp.PyArray_NDIM(x) not in (1, 2):
        raise ValueError(f"queries must have 1 or 2 dimensions, got shape {(<object>x).shape}")
    x = x.reshape(1, -1) if is_single else x
    if not cnp.PyArray_IS_C_CONTIGUOUS(x):
        x = np.ascontiguousarray(x)
    lay_out(&layout, x)
    s.k = x.shape[1]
    if s.metric == I8_HAMMING:
        check_bits(x, "queries")
        if s.k > INT32_MAX // 8:
            raise ValueError(f"queries must have rows of at most {INT32_MAX // 8} bytes, got {s.k}")
    matrices = as_shards(base, s.k, s.metric)
    check_layout(&layout, x, "queries")
    s.kernels = current_kernels()
    s.wide, s.panels, s.shard_count = False, 0, len(matrices)
    shards = memory_of(s.shard_count * sizeof(Shard))
    s.shards = <Shard *>cnp.PyArray_DATA(shards)
    for i in range(s.shard_count):
        set_shard(&s, &s.shards[i], matrices[i], x)
        s.shards[i].first = rows
        rows += s.shards[i].g.n
    for i in range(s.shard_count):
        set_product_type(&s.shards[i].g.epilogue, s.wide)
        s.shards[i].g.known.uncached = is_uncached_size(s.shards[i].g.machine, <double>rows * s.k)
    s.short_items = takes_short_items(&s, rows)
    _mask = set_excluded(&s, exclude, rows)
    check_layout(&layout, x, "queries")
    if needs_squares(&s):
        squares = row_squares(x, 1)
    shape[0], shape[1] = x.shape[0], s.most
    indices = empty(2, shape, cnp.NPY_INT64)
    scores = empty(2, shape, cnp.NPY_FLOAT64 if s.metric == I8_COSINE else cnp.NPY_INT64 if s.wide else cnp.NPY_INT32)
    if s.most:
        search(&s, x, &layout, squares, indices, scores, callback)
    return (indices[0], scores[0]) if is_single else (indices, scores)
