"""The paths that do not use the loop nest of ``gemm.blocks``. The table in ``gemm.plan`` lists all paths.

Each module has one path. The ``PATH`` of a module has the functions that accept a problem, plan it, run the plan, and
describe the plan to ``explain``.
"""
