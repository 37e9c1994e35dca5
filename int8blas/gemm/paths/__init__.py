"""The paths that compute a product without packing blocks.

A path is a file here and a row of the table in ``plan``, which ends in the general path, ``blocks``. The file of a path
decides which problems the path accepts, plans them, runs them and describes the plan to ``explain``.

register        several rows of A, and B, in a register
tiny            everything on the stack, one thread
triangle        A @ A.T: one triangle is computed
long_k          few rows and columns of C and a long K: both operands are read once
few_columns     few columns or rows of C: dot products, one operand read in place along k
few_rows        few rows of C: a plain B read in place along its rows
four_bits       few rows of C: a packed B of 4 bits, read once as it is packed
small_k         small K: C is written row by row
"""
