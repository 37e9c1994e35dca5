"""The product: from arrays to a problem, a plan, a path, and sums in C. It imports only core.

blas, blas16, syrk, matmul      the public functions
packing, four_bits, sixteen_bits    the classes PackedB, PackedB4, PackedB16; packed has their base class
saturation      would_saturate, which finds 16-bit sums that saturate
explain         the function explain, which describes a plan; explanation has the classes of its results
integers, wide  products of integers wider than 8 bits: the choice of kernels by value, and the loops over blocks
digits          products of 16-bit integers from products of their bytes
bits            how many bits the elements of an array have
modular         products modulo p
contractions    dot, inner, vecdot, tensordot, einsum: contractions of any axes, by matmul
call            makes a Problem from arrays, and runs the driver
stack           a stack of products that differ only in the addresses of their matrices
driver          calls choose_form and plan_form, runs the chosen path, and divides a long K into parts
copies          copies of operands that have neither contiguous rows nor contiguous columns
plan            the table of paths, choose_form, plan_form, and resolve, which calls both
path            the definition of a path, and the members common to all plans
paths           the paths that do not use the loop nest, a module for each
blocks          the general path: the loop nest. block_plan, its plan; nest, its state; arena, its memory; pack_a and
                pack_b, its operands; tiles, from sums to C; spans, windows without padding; matrix, the inner loops
                for AMX; scale_groups, the inner loops for groups of K that have separate scales
problem         one product, and slices of a product; operand, one of its matrices, and all shifts by 128
small_values    without VNNI: which sums fit 16 bits, by the values of both operands
squares         sums of squares of the columns of B, for distances
dynamic_source  an A of real numbers, quantized while it is packed
output          from sums to C by the epilogue
"""
