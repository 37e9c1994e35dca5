"""The product: from arrays to a problem, a plan, a path, and sums in C. It imports core alone.

blas, syrk, matmul      the public functions; packing, PackedB; saturation, where 16-bit sums would leave their range;
                        explain, which finds an explanation
problem         a product of arrays as the driver takes it; operand, one of its matrices, and all shifts by 128
driver          the one way through: long K in segments, the plan, threads, the path that the plan names
plan            how a problem is computed: the path, the threads; block_plan, the blocks of the general path
blocks          the general path: the loop nest. nest, its state; arena, its memory; pack_a and pack_b, its operands;
                tiles, from sums to C; spans, windows without padding; matrix, the inner loops for AMX;
                scale_groups, the inner loops for groups of K that have scales of their own
triangle        A @ A.T, of which one triangle is computed
tiny, long_k, few_rows, few_columns, small_k    the paths of problems that are not worth packing blocks for
small_values    which sums fit 16 bits without VNNI, by the values of both operands
squares         sums of squares of the columns of B, for distances
dynamic_source  an A of real numbers, quantized while it is packed
output          the way of sums to C
"""
