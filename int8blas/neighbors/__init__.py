"""Distances between rows, the nearest rows, an index. The room imports core, gemm and elementwise.

Distances and nearest rows multiply rows by rows and sum the squares of each row::

    distances       sqeuclidean: |x|^2 + |y|^2 - 2 x.y, a product whose epilogue adds the squares
      -> in_place     few rows x; reads each row y once, for products and squares
    hamming         hamming: numbers of different bits of packed rows, by separate kernels
    nearest         nearest: arguments, shards, results, and steps between which the user can stop a search
      -> search       a step: each thread multiplies blocks of base rows and keeps scores above a threshold
        -> best         the best rows of a query so far, a heap of few or a list of many
    squares         sums of squares of the rows of arrays
    index           Index: ids, floats, filters; each search calls nearest
      -> shards immutable packed rows with ids; adding and removing make new shards
      -> index_files a folder of arrays, written so that an interrupted call leaves the old folder
"""
