"""Distances between rows, and the nearest rows of many. It imports core and gemm.

What it computes are products of rows with rows, and sums of squares of each::

    distances       sqeuclidean: |x|^2 + |y|^2 - 2 x.y, a product whose output stage adds the squares
      -> in_place     few rows x, and rows y that are read once, with their squares
    nearest         nearest: arguments, shards, the steps between which a search can be stopped, results
      -> search       a step: each thread's blocks of base rows, a product to a small buffer, what is above a threshold
        -> best         the best rows of a query so far, a heap
    squares         sums of squares of rows of arrays
"""
