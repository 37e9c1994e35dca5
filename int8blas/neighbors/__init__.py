"""Distances between rows, the nearest rows, and an index. The package imports core, gemm and elementwise.

Indented modules are called by the module above them::

    distances       sqeuclidean: |x|^2 + |y|^2 - 2 x.y, a product whose epilogue adds the squares
      in_place        the case of few rows x, which reads each row y once, for products and squares
    hamming         hamming: the number of different bits of packed rows, by separate kernels
    nearest         nearest: arguments, shards, results, and steps between which the user can stop a search
      search          a step, in which each thread multiplies blocks of base rows and keeps scores above a threshold
        best            the best rows of a query so far: a heap of a few rows, or a list of many rows
    squares         sums of squares of the rows of arrays
    index           Index: ids, floats and filters; each search calls nearest
      shards          immutable packed rows with ids; adding and removing rows create new shards
      index_files     a folder of arrays; if a call that writes the folder is interrupted, the old index remains
"""
