"""The paths that do not use the loop nest of ``gemm.blocks``. The table in ``gemm.plan`` lists them.

Each module has one path. Its ``PATH`` has the functions that accept a problem, plan it, run the plan, and describe the
plan to ``explain``.
"""
