"""Golden bits: small problems of every primitive, and the digests of their results. Every machine and every release
must give these results.

draws      operands, computed with integers only, so that they are equal with every version of NumPy
cases      the table of problems, with one function for each primitive, and one case for each of its parameters
products, layers, functions, networks
           the problems, by part of the package
digests    the file of names and digests (digests.txt): reading, comparing, adding
command    ``python -m int8blas check``
add        ``python -m int8blas._golden.add``, which adds the digests of new problems, and changes no digest
"""
