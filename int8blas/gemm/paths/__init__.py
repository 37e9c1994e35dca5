"""The paths that compute a product without packing blocks, a module each. The table in ``gemm.plan`` lists them.

A module decides which problems its path accepts, plans them, runs them and describes the plan to ``explain``; its
``PATH`` has these functions.
"""
