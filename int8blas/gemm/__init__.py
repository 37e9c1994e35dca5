"""The product: from arrays to a problem, a plan, a path, and sums in C. It imports core alone.

blas, syrk, matmul      the public functions, and blas16; packing, PackedB; saturation, where 16-bit sums would leave
                        their range; explain, which finds an explanation
integers, wide  products of integers wider than 8 bits: which kernels their values take, and the loops over blocks
call            a product of arrays as the driver takes it, and its execution
stack           a stack of products that differ only in where their matrices are
driver          the one way through: resolve, run; long K in parts
plan            the table of paths, and resolve: a problem as it is computed, and its plan
path            what a path is, and what all plans have in common
paths           the paths that pack no blocks: register, tiny, triangle, long_k, few_columns, few_rows, small_k
blocks          the general path: the loop nest. block_plan, its plan; nest, its state; arena, its memory; pack_a and
                pack_b, its operands; tiles, from sums to C; spans, windows without padding; matrix, the inner loops
                for AMX; scale_groups, the inner loops for groups of K that have scales of their own
problem         one product, and parts of it; operand, one of its matrices, and all shifts by 128
small_values    which sums fit 16 bits without VNNI, by the values of both operands
squares         sums of squares of the columns of B, for distances
dynamic_source  an A of real numbers, quantized while it is packed
output          the way of sums to C
"""
