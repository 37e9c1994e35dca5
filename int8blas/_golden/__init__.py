"""Golden bits: small problems of every primitive, and the digests of their results on every machine and in every
release.

draws      operands by integer arithmetic only, equal with every version of NumPy
cases      the table of problems: one function for each primitive, one case for each of its parameters
products, layers, functions, networks
           the problems, by room
digests    the file of names and digests (digests.txt): reading, comparing, adding
command    ``python -m int8blas check``
add        ``python -m int8blas._golden.add``, which adds digests of new problems and changes none
"""
