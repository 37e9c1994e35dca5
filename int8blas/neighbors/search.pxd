# A search for the nearest rows (see search.pyx).
from libc.stdint cimport int64_t, uint8_t

from int8blas.core.kernels cimport i8_kernels
from int8blas.gemm.plan cimport Gemm
from int8blas.neighbors.best cimport Best, Entry


# Rows of the base that lie in one matrix, packed or not: the product with all of them, but for A and C.
cdef struct Shard:
    Gemm g
    int64_t first               # running index of its first row
    int64_t first_panel         # of 16 rows, in all shards
    const int64_t *squares      # of its rows, or NULL: they are computed when they are needed


# Queries, the base, and what has been found so far. All panels before `panel` have been searched.
cdef struct Search:
    const i8_kernels *kernels
    int metric                  # I8_INNER, I8_SQEUCLIDEAN or I8_COSINE
    bint wide                   # sums are s64
    int64_t most                # rows that are wanted of each query
    # A range or a mask, or neither: rows that are left out, by their running indices.
    int64_t exclude_first, exclude_end
    const uint8_t *excluded
    int64_t shard_count, panels
    Shard *shards
    # Queries, contiguous: as they are, and for packed shards in u8.
    int64_t queries, k
    const uint8_t *rows
    const uint8_t *unsigned_rows
    const int64_t *query_squares
    int64_t panel
    int parts                   # threads that search, each for itself
    Best *best                  # [parts][queries]


cdef int64_t step_panels(const Search *s) noexcept nogil
cdef void begin(Search *s, Entry *entries) noexcept nogil
cdef int search_step(Search *s, int64_t panels) noexcept nogil
cdef void finish(Search *s) noexcept nogil
cdef int parts_for(const Search *s, int threads) noexcept nogil
