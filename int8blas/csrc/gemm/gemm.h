/* The product: its kernels, and the contract of a micro-kernel.
 *
 * The kernels compute one product, u8 x s8 -> s32. The driver converts all four pairs of signs to this product. To
 * convert an s8 A to u8, the driver adds 128 to A and to the zero point of A. To convert a u8 B to s8, the driver
 * subtracts 128 from B and from the zero point of B. Packing applies both shifts as an XOR with 0x80. Below, A' and B'
 * are the shifted matrices, and ao and bo are their zero points.
 *
 * Packed B consists of panels of 16 columns. A panel consists of groups of 4 consecutive k. A group has 16 x 4 bytes. A
 * packed A block has the form of packed B, with the rows of a tile in place of the 16 columns. Missing rows, columns
 * and k are 0.
 *
 * A micro-kernel computes tiles of `rows` x `panels * 16`, both constants of the function:
 *
 *     dst[i, j] = acc_in[i, j] + row_init[i] + col_init[j] + sum over g of dot(A'[i, g], B'[g, j])
 *
 * acc_in, row_init and col_init may be NULL (zero). g counts dwords: groups of 4 bytes, or pairs of s16 for I8_DOT2.
 *
 * Contract of a micro-kernel
 *   - A: the kernel reads dword g of row i at a.data + i * a.row + g * a.group, unaligned, for `groups` dwords. The
 *     kernel then reads `groups` dwords in each of more_segments segments, each a.segment bytes after the previous
 *     segment, and at last a.tail[i], if a.tail is not NULL. The kernel reads nothing outside the segments and
 *     a.tail, because A may be the user's matrix.
 *   - B: panel p starts at b.data + p * b.panel. The kernel reads 64 bytes for each dword of A, and skips b.segment
 *     bytes between two segments. B is fastest if aligned to 64 bytes.
 *   - acc_in: row i starts at acc_in + i * acc_row. The kernel reads all columns of acc_in. acc_in may be dst. row_init
 *     has `rows` values, and col_init has panels * 16 values.
 *   - dst: row i starts at dst + i * dst_row (in elements). The kernel writes only the first `cols` columns of dst.
 *     With an `output`, `cols` is panels * 16, and the kernel applies this epilogue and writes C instead of dst.
 *   - `tiles`, 1 or more, lie along M. The A of a tile begins a.tile bytes after the A of the previous tile. row_init,
 *     a.tail and the rows of acc_in, dst, fetch and output continue from tile to tile. Tiles of up to I8_SHORT_TILE(np)
 *     rows may lie along N instead (`along_n`). With `along_n`, B, col_init and the columns of C advance from tile to
 *     tile. Only the first tile prefetches from `ahead`.
 *   - Sums wrap modulo 2**32. The driver ensures that C gets no wrapped sum.
 *
 * This contract also holds for the tiles of a matrix unit (i8_matrix), except:
 *   - A: a step of 64 bytes of k takes the place of a dword. The kernel reads step s of row i at a.data + i * a.row + s
 *     * a.group. `groups`, a multiple of 16, is 16 times the number of steps. The kernel reads all rows of the unit's
 *     registers, not only `rows` rows. The kernel is fast if a.data and all strides are multiples of 64.
 *   - The kernel ignores `tiles` and `fetch`. For each step of each panel the kernel prefetches ahead_step bytes, a
 *     multiple of 64, from `ahead` on into the L2 cache. The panels are b.panel bytes apart.
 *   - b.tail: if not NULL, b.tail points to one more step of B, with 1024 bytes for each panel. With b.tail, there is
 *     only one segment, and A has zeros for the k that the tail lacks.
 */
#ifndef I8_GEMM_H
#define I8_GEMM_H

#include "stage/stage.h"

#define I8_MAX_MR 8 /* maximum rows and panels of a tile, over all instruction sets */
#define I8_MAX_NP 3
#define I8_MAX_SCALED_MR 4 /* maximum rows of a tile with scale groups, whose f32 sums are also in registers */
#define I8_MAX_SEQUENTIAL 2 /* maximum rows of a tile that can read its panels of B one after the other */
/* The maximum rows of a short tile of `np` panels. Prefetching does not help short tiles, so they ignore `ahead`. Short
 * tiles may lie side by side along N. */
#define I8_SHORT_TILE(np) ((np) > 1 ? 4 : 2)
#define I8_MATRIX_ROWS 16 /* rows of a matrix unit's register, and bytes of k in each row */
#define I8_MATRIX_K 64
#define I8_MATRIX_TILE (I8_MATRIX_K * I8_PANEL) /* bytes of B in one register of a matrix unit */
#define I8_MAX_TILE (2 * I8_MATRIX_ROWS * 2 * I8_PANEL) /* maximum elements of a tile, also with a matrix unit */
/* Without VNNI, kernels split bytes into two halves of 4 bits, so that VPMADDUBSW is exact. The sum of I8_HALVES_STEPS
 * results of VPMADDUBSW fits s16. */
#define I8_HALVES_STEPS 8
#define I8_MAX_COLUMNS 64 /* maximum columns of a kernel's result: 48 for tiles, 64 for blocks of a row kernel */

/* The operands of a micro-kernel. Distances are in bytes. */
typedef struct {
    const uint8_t *data;
    ptrdiff_t tile, row, group, segment;
    const uint32_t *tail;
} i8_tile_a;

typedef struct {
    const int8_t *data;
    ptrdiff_t panel, segment;
    const int8_t *tail; /* for a matrix unit only */
} i8_tile_b;

/* The arguments of a micro-kernel. They are members of one struct, because the driver sets most of them once for many
 * calls. */
typedef struct {
    int64_t tiles, groups, more_segments;
    i8_tile_a a;
    i8_tile_b b;
    const int32_t *acc_in;
    ptrdiff_t acc_row;
    const int32_t *row_init, *col_init;
    int32_t *dst;
    ptrdiff_t dst_row;
    int cols;
    const char *fetch; /* address of the tile's result in C, which the kernel prefetches; or NULL */
    ptrdiff_t fetch_row;
    /* The address of B to prefetch for a later tile, or NULL. With one panel, the kernel prefetches ahead_step bytes
     * for each group. With several panels, the kernel prefetches the 64 bytes of a group for each panel, b.panel bytes
     * apart. Tiles of few rows (I8_SHORT_TILE), or of fewer panels than the kernel's np, ignore `ahead`. */
    const char *ahead;
    ptrdiff_t ahead_step;
    int along_n; /* 1 if `tiles` lie along N, 0 if they lie along M */
    int sequential; /* whether to read panels of B one after the other; at most I8_MAX_SEQUENTIAL rows */
    int64_t small_groups; /* for I8_DOT_SMALL: the number of groups whose products are added in s16, at least 1 */
    const i8_tile_output *output; /* the epilogue of whole tiles, or NULL */
    int rows; /* for a matrix unit only: rows of A */
    int unit_rows; /* for a matrix unit only: rows of a register, as passed to `enter` */
} i8_tile_args;

typedef void (*i8_tile_fn)(const i8_tile_args *);

/* The micro-kernels of one kind of multiply-add. of[rows - 1][panels - 1] computes tiles of `rows` rows and `panels`
 * panels. */
typedef struct {
    i8_tile_fn of[I8_MAX_MR][I8_MAX_NP];
} i8_tiles;

/* Run the instruction set's fastest loop of multiply-adds on registers. Return the number of multiply-adds. */
typedef int64_t (*i8_peak_fn)(int64_t iterations);

/* The limits of the machine, for benchmarks (limits_body.h). */
typedef struct {
    i8_peak_fn peak; /* NULL if the compiler would shorten the loop */
    /* Add up vectors of read_bytes bytes. Each of `count` steps reads the vectors at p, p + gap, p + 2 gap and p + 3
     * gap, then advances p by `step` bytes. `gap` and `step` determine whether the reads are one stream or four. */
    uint32_t (*read)(const uint8_t *p, ptrdiff_t gap, ptrdiff_t step, int64_t count);
    int read_bytes;
} i8_limits;

/* A matrix unit multiplies registers that are matrices of I8_MATRIX_ROWS rows of I8_MATRIX_K bytes. The unit computes
 * products that are large enough to pay for its set-up. Other kernels of the table compute smaller products. */
typedef struct {
    int mr;             /* rows of a full tile */
    int np;             /* panels of a full tile */
    int64_t kc;         /* size of a K block, a multiple of I8_MATRIX_K, so that a tile's A fits L1 */
    int64_t a_bytes;    /* maximum bytes of an A block if there are several K blocks */
    int64_t b_bytes;    /* maximum bytes of a B block, which must stay in L2 */
    double thread_work;
    int64_t least_rows; /* minimum rows of A for which the unit is faster than vector kernels */
    int64_t least_k;    /* minimum K, above 0, for which the unit is faster than vector kernels */
    int dots_columns;   /* maximum columns for which dot kernels are faster than the unit */
    i8_tile_fn tile[2][2]; /* [registers of rows - 1][panels - 1] */
    /* Pack `rows` rows of A, XORed with flip, for a tile: dst[step][rows of whole registers][64], padded with zeros. */
    void (*pack)(uint8_t *dst, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride, ptrdiff_t k_stride,
                 uint8_t flip);
    /* A thread calls `enter` before its first tile and `leave` after its last tile. `unit_rows` is the number of rows
     * of a register, which is I8_MATRIX_ROWS, or less if A has fewer rows. Fewer rows are faster. */
    void (*enter)(int unit_rows);
    void (*leave)(void);
    i8_peak_fn peak;
} i8_matrix;

/* A dot kernel multiplies `rows` vectors x by packed vectors y, one for each column of the kernel. The kernel reads
 * vectors x in place, contiguous in k, and computes the first `count` columns of
 *
 *     dst(i, j) = start[j] + sum over k of x(i, k) * y(j, k).
 *
 * Element dst(i, j) is at dst + i * dst_row + j * dst_column, in bytes. Vector i has k bytes at x + i * x_row, which
 * the kernel XORs with x_flip. One operand is u8 and the other operand is s8 (see i8_dot_kernels.of). pack_panel and
 * i8_dot_kernels.order pack y. `start` may be NULL (zeros). `uncached` is 1 if no cache holds x.
 *
 * The kernel of I8_LANES columns computes distances if x_squares is not NULL: start[j] + x_squares[i] - 2 * sum. Other
 * kernels ignore x_squares. A kernel prefetches x into the L2 cache, at a distance of `ahead` bytes. If `ahead` is 0,
 * the kernel prefetches the next rows. */
typedef struct {
    int64_t k, rows;
    const uint8_t *x, *y;
    ptrdiff_t x_row, ahead;
    uint8_t x_flip;
    int uncached, count;
    const int32_t *start, *x_squares;
    void *dst;
    ptrdiff_t dst_row, dst_column;
} i8_dot_args;

typedef void (*i8_dot_fn)(const i8_dot_args *);

/* Columns of the dot kernels: 1, 2, 3, 4, 8, 16. */
enum { I8_DOTS_1, I8_DOTS_2, I8_DOTS_3, I8_DOTS_4, I8_DOTS_8, I8_DOTS_16, I8_DOT_WIDTHS };

/* A kernel of long K multiplies few vectors x by few vectors y, which may be u8 or s8. The vectors are contiguous in k,
 * and the kernel reads them in place:
 *
 *     dst[i * dst_row + j * dst_column] += sum over k of x(i, k) * y(j, k).
 *
 * Vector i of x is at x + i * x_row, vector j of y at y + j * y_row. Each vector has k bytes. The kernel reads no byte
 * outside the vectors. The result is exact for any k: sums of I8_LONG_K_SEGMENT k are s32, and are added in s64. A
 * kernel takes 1, 2 or 4 vectors of each operand, up to the maxima in i8_long_k_kernels. */
enum { I8_LONG_K_SEGMENT = 1 << 15 }; /* 33,025 products of u8 and u8 fit s32 */
typedef struct {
    int64_t k;
    const uint8_t *x, *y;
    ptrdiff_t x_row, y_row;
    int64_t *dst;
    ptrdiff_t dst_row, dst_column; /* in elements */
} i8_long_k_args;

typedef void (*i8_long_k_fn)(const i8_long_k_args *);

/* A kernel of distances computes the squared distances of few rows x from `count` rows y, which may be u8 or s8. The
 * rows are contiguous in k, and the kernel reads them in place. Without rows x, the kernel computes the sums of squares
 * of the rows y:
 *
 *     dst[i * dst_row + j] = sum over k of (x(i, k) - y(j, k))^2       or, without x, dst[j] = sum over k of y(j, k)^2.
 *
 * Row i of x is at x + i * x_row, row j of y at y + j * y_row. Each row has k bytes. The kernel reads no byte outside
 * the rows. x_sums[i] and x_squares[i] are the sum, and the sum of squares, of row i of x. y_squares[j] is the sum of
 * squares of row j of y, for kernels that read it. Sums wrap modulo 2**32. */
typedef struct {
    int64_t k, count;
    const uint8_t *x, *y;
    ptrdiff_t x_row, y_row;
    const int64_t *x_sums;
    const int32_t *x_squares, *y_squares;
    int32_t *dst;
    ptrdiff_t dst_row; /* in elements */
} i8_distance_args;

typedef void (*i8_distance_fn)(const i8_distance_args *);

/* The maximum K of all kernels of small K. */
#define I8_MAX_SMALL_K 32

/* A kernel of small K multiplies `rows` rows of A by panels of B, with K up to i8_small_k_kernels.limit:
 *
 *     dst[i, j] = row_init[i] + col_init[first + j] + sum over g of dot(A'[i, g], B'[g, first + j])
 *
 * for j < cols. If `distances` is 1, dst[i, j] = row_init[i] + col_init[first + j] - 2 * sum.
 *
 * The kernel reads dword g of row i at a.data + i * a.row + g * a.group, unaligned, and XORs each byte with a.flip. If
 * a.tail is not 0, there are two or more groups, a.group is 4, and the last group has a.tail bytes. The kernel reads
 * nothing after the last group. The panels of B are contiguous. row_init may be NULL (zeros). col_init has a value for
 * every column of the panels. If `stream` is 1, the kernel writes C past the caches, and dst + i * dst_row - first must
 * be aligned to 64 bytes. */
typedef struct {
    const uint8_t *data;
    ptrdiff_t row, group;
    int tail;
    uint8_t flip;
} i8_small_k_a;

typedef struct {
    int64_t rows, cols;
    int groups, first, stream, distances; /* first < I8_PANEL */
    i8_small_k_a a;
    const int8_t *b;
    const int32_t *row_init, *col_init;
    int32_t *dst;
    ptrdiff_t dst_row; /* in elements */
} i8_small_k_args;

/* A kernel of stacks multiplies `count` pairs of matrices, m x k by k x n, with zero points:
 *
 *     c[i] = (A[i] - zero of a) @ (B[i] - zero of b)           contiguous at c + i * c_step, in elements.
 *
 * The forms limit the sizes:
 *
 *     I8_STACK_RUNS    m and n are 1, and k is at most I8_STACK_RUN_DEPTH; fast if both steps are 0 or 1.
 *     I8_STACK_UNITS   a matrix spans at most I8_STACK_UNIT bytes; C has at most I8_STACK_UNIT elements, and k is at
 *                      most I8_STACK_UNIT.
 *     I8_STACK_LINES   m, n and k are at most I8_STACK_SIDE.
 *     I8_STACK_DOTS    m or n is 1; the other size is at most I8_STACK_DEPTH, and k is from 2 to I8_STACK_DEPTH.
 *
 * Matrix i of an operand has its lowest byte at data + i * step. `first` is the offset of the matrix's element (0, 0)
 * from its lowest byte. Except for I8_STACK_UNITS, a matrix of A may be some rows of a longer matrix, which `data`,
 * `span` and `step` then describe. The kernel XORs bytes with `flip`, so that all bytes are u8. The zero points of the
 * u8 operands are from -255 to 255. The kernel reads and writes nothing outside the stack. */
enum { I8_STACK_UNIT = 16, I8_STACK_SIDE = 32, I8_STACK_DEPTH = 64, I8_STACK_RUN_DEPTH = 1 << 14 };
typedef enum { I8_STACK_RUNS, I8_STACK_UNITS, I8_STACK_LINES, I8_STACK_DOTS } i8_stack_form;
typedef struct {
    const uint8_t *data;
    ptrdiff_t step;
    int span;   /* bytes that a matrix spans */
    int first;  /* offset of element (0, 0) from the lowest byte, in bytes */
    int row;    /* stride from row to row, in bytes */
    int column; /* stride from column to column, in bytes */
    int32_t zero;
    uint8_t flip;
} i8_stack_operand;

typedef struct {
    int64_t count;
    i8_stack_form form;
    int m, n, k;
    i8_stack_operand a, b;
    int32_t *c;
    ptrdiff_t c_step;
} i8_stack_args;

/* A row kernel multiplies `rows` rows of A by a block of columns of a C-ordered B, which it reads in place. The order
 * of the sums depends on the kernel:
 *
 *     acc[i, position of column j] += sum over k of A(i, k) * B(k, j).
 *
 * B has 4 * groups + b_tail rows, at b + k * b_row. The kernel XORs B with b_flip, and computes `blocks` blocks of
 * columns side by side. If `first` is 1, the sums start from 0. A is packed in zero-padded groups of a_group bytes.
 * If i8_few_rows_kernels.halve_row exists, the caller splits a single row: with halve_centered if `centered` is 1, else
 * with halve_row. The sums of row i of block w are at acc + i * acc_row + w * acc_block. i8_few_rows_kernels.store_rows
 * restores the order of the columns, and writes dst[j] = sum + add for one row of a block. */
typedef struct {
    int64_t groups;
    const uint8_t *a;
    ptrdiff_t a_group;
    const uint8_t *b;
    ptrdiff_t b_row;
    uint32_t b_flip; /* four copies of the byte to XOR B with */
    int b_tail;      /* 0 to 3 */
    int first;
    int centered;
    ptrdiff_t ahead; /* prefetch distance along a row of B in bytes, to the L2 cache; 0: no prefetching */
    int64_t blocks;
    int32_t *acc;
    ptrdiff_t acc_row, acc_block;
} i8_few_rows_args;

typedef void (*i8_few_rows_fn)(const i8_few_rows_args *);

#define I8_MAX_FEW_ROWS 12 /* maximum rows of a row kernel, over all instruction sets */

/* The indices that say which operand of an in-place kernel is u8. */
enum { I8_A_UNSIGNED = 0, I8_B_UNSIGNED = 1, I8_X_UNSIGNED = 0, I8_Y_UNSIGNED = 1 };

/* Four outliers of one column of B' (outliers_body.h), and their k in a block of at most I8_OUTLIER_K. `rest` is 0 for
 * missing outliers. The magnitude of `rest` is at most I8_MAX_REST, so that no sum of two products saturates (2 * 255 *
 * 64 = 32640). A larger outlier is stored as several outliers. */
#define I8_OUTLIER_K 1024
#define I8_MAX_REST 64
typedef struct {
    uint16_t k[4];
    int8_t rest[4];
} i8_outliers;

/* Multiply the outliers of a panel, in one block of K, by A'. A' has `a_columns` columns, in the form that columns_of
 * writes:
 *
 *     dst[i, j] = (dst[i, j] if `add` is 1, else 0) + sum over outliers of column j of A'[i, k] * rest.
 *
 * The outliers of column j are outliers[starts[j]] to outliers[starts[j + 1]], exclusive. */
typedef struct {
    int64_t rows;
    const uint8_t *a;
    int64_t a_columns;
    const i8_outliers *outliers;
    const int64_t *starts;
    int add;
    int32_t *dst;
    ptrdiff_t dst_row; /* in elements */
} i8_outlier_args;

/* B of 4 bits: values q of 0 to 15, two in a byte. A panel has 64 bytes for each step of 8 k. The low halves of the
 * bytes are the group of the first 4 k, in the order of B'; the high halves are the group of the last 4 k. K is padded
 * to whole steps. A kernel multiplies up to I8_MAX_FOUR_BITS rows of A, s8 and padded with zeros:
 *
 *     dst[i, j] = row_init[i] + sum over k of A[i, k] * q[k, j]                      modulo 2**32, if scale is NULL
 *     y[i, j] = sum over the groups of f32(sum over k of the group of (A[i, k] - ao[i]) * (q[k, j] - zero)) *
 *               (row_scale[i] * scale[j])                    in f32, group by group, each operation rounded once
 *
 * for the columns j of `panels` panels, b_step bytes apart. A group has `steps` steps. Without scales, all of K is one
 * group. Row i of A is at a + i * a_row. row_terms[i * groups + group] is -zero times the sum of A over the group. If
 * `zeros` is not NULL, zeros[j] replaces `zero`, and row_terms has -1 times the sums of A. col_sum[j] is the sum of q -
 * zero; col_sum may be NULL only if all ao are 0. scale, zeros and col_sum have 16 values for each group of a panel. If
 * half_scale is not NULL, it has the scales in f16. Rows of dst and y are dst_row elements apart. The path sets most
 * members once for many panels. */
#define I8_MAX_FOUR_BITS 8
typedef struct {
    int rows, panels;
    int64_t groups, steps;
    const int8_t *a;
    ptrdiff_t a_row, b_step;
    const uint8_t *b;
    const int32_t *row_init;
    int32_t *dst;
    const float *scale, *row_scale;
    const uint16_t *half_scale;
    const int32_t *ao, *col_sum, *row_terms;
    const uint8_t *zeros;
    float *y;
    ptrdiff_t dst_row;
} i8_four_bits_args;

/* The multiply-adds of tiles.
 *   I8_DOT4      the exact sum of four u8 * s8 products (VPDPBUSD; without VNNI, for few rows, widened in registers)
 *   I8_DOT4_SAT  two sums of two u8 * s8 products, each saturated to s16, added in s32 (VPMADDUBSW, VPMADDWD, VPADDD);
 *                exact if B' has a no-saturation proof
 *   I8_DOT2      the exact sum of two s16 * s16 products of widened operands (VPMADDWD, VPADDD)
 *   I8_DOT8      two groups at a time: two sums of four products in s16, added in s32 (VPMADDUBSW, VPADDW, VPMADDWD,
 *                VPADDD); exact for the dense part of a split B' (outliers_body.h), and for small values
 *   I8_DOT_SMALL i8_tile_args.small_groups groups at a time: two sums of all their products, which fit s16 (VPMADDUBSW
 *                and VPADDW for each group; then VPMADDWD and VPADDD once). A has one segment. Tiles have I8_MR rows or
 *                one row less, and I8_NP panels or one panel less. All other tiles use I8_DOT8.
 *   I8_DOT_INTERLEAVED  like I8_DOT4, with an interleaved A (i8_interleaved_kernels) in one segment of up to
 *                I8_INTERLEAVED_K k and one panel */
enum {
    I8_DOT4 = 0, I8_DOT4_SAT = 1, I8_DOT2 = 2, I8_DOT8 = 3, I8_DOT_SMALL = 4, I8_DOT_INTERLEAVED = 5, I8_DOT_KINDS = 6
};
enum { I8_INTERLEAVED_K = 1024 }; /* maximum K; an interleaved panel on the stack then has 16 KiB */

/* Compute all scale groups of a tile, and write y. The scale groups of A and B are contiguous, with t->groups dwords
 * each. In scale and col_sum, the 16 values of each group are contiguous. Of t, the function reads only `tiles`,
 * `groups`, `a` and `b`. Of s, the function ignores acc, rows, panels, bo and row_term. */
typedef void (*i8_scale_groups_fn)(const i8_tile_args *t, const i8_scale_group_args *s, int64_t count);

/* of[rows - 1][panels - 1] computes tiles with scale groups, of `rows` rows and `panels` panels. `rows` is at most
 * `mr`. */
typedef struct {
    int mr;
    i8_scale_groups_fn of[I8_MAX_SCALED_MR][I8_MAX_NP];
} i8_scaled_tiles;

/* The kernels of each path or form of A. If a pointer is NULL or a size is 0, the instruction set lacks this kernel. */
typedef struct {
    uint8_t flip; /* the byte to XOR A' with before interleaving */
    /* Interleave a packed micro-panel of `height` rows in place; or NULL. */
    void (*interleave)(uint8_t *a, int height, int64_t groups);
} i8_interleaved_kernels;

typedef struct {
    int mr;                                /* rows of the largest row kernel */
    int columns;                           /* columns of a block */
    i8_few_rows_fn of[2][I8_MAX_FEW_ROWS]; /* [I8_A_UNSIGNED or I8_B_UNSIGNED][rows - 1] */
    /* Copy `rows` rows of `bytes` bytes (whole vectors) without gaps. */
    void (*copy_rows)(uint8_t *dst, int64_t bytes, int64_t rows, const uint8_t *src, ptrdiff_t row_stride);
    void (*store_rows)(int32_t *dst, const int32_t *acc, int32_t add);
    /* Split each dword of a packed single row of A into two dwords of halves, for the row kernels; or NULL. src may be
     * the last half of dst. */
    void (*halve_row)(uint8_t *dst, const uint8_t *src, int64_t dwords, int a_unsigned);
    /* Split x - zero for each of the k elements x of a row. The differences must be from -255 to 255. B must be u8. */
    void (*halve_centered)(uint8_t *dst, const uint8_t *src, int64_t k, int a_unsigned, int32_t zero);
} i8_few_rows_kernels;

typedef struct {
    int rows;                       /* vectors x of the largest dot kernel */
    int columns;                    /* packed vectors y of the largest dot kernel */
    i8_dot_fn of[2][I8_DOT_WIDTHS]; /* [I8_X_UNSIGNED or I8_Y_UNSIGNED][I8_DOTS_1 and so on] */
    /* `size` returns the size in bytes of `columns` packed vectors of k bytes. `order` converts u8 or s8 vectors from
     * the form of pack_panel. src is padded with zeros to the number of bytes that `size` returns. */
    int64_t (*size)(int columns, int64_t k);
    void (*order)(uint8_t *dst, const uint8_t *restrict src, int columns, int64_t k, int y_unsigned);
} i8_dot_kernels;

typedef struct {
    int rows;    /* maximum number of vectors x: 1, 2 or 4 */
    int columns; /* maximum number of vectors y: 1, 2 or 4 */
    /* [x is s8][y is s8][log2 of the number of vectors x][log2 of the number of vectors y] */
    i8_long_k_fn of[2][2][3][3];
} i8_long_k_kernels;

typedef struct {
    int rows; /* maximum number of rows of x in a call: 1, 2 or 4 */
    /* [x is s8][y is s8][0 without x, 1 for 1 row x, 2 for 2, 3 for 4, 4 for 4 with y_squares] */
    i8_distance_fn of[2][2][5];
    /* Sum the squares of the columns of a packed panel of B', modulo 2**32. `sums` has the sums of the columns. */
    void (*column_squares)(int32_t *squares, const int8_t *panel, int64_t groups, const int64_t *sums);
} i8_distance_kernels;

typedef struct {
    int rows;  /* maximum number of rows */
    int limit; /* maximum K */
    void (*run)(const i8_small_k_args *);
} i8_small_k_kernels;

/* Kernels for outliers (outliers_body.h), for instruction sets without VNNI. */
typedef struct {
    /* Return the number of i8_outliers of a panel of B'. Set `starts` to the index of the first i8_outliers of each
     * column of each block. A block has `block` groups, an even number. Store at most `room` i8_outliers, and the dense
     * part of the panel unless `dense` is NULL. */
    int64_t (*split_panel)(int8_t *restrict dense, i8_outliers *dst, int64_t room, int64_t *starts,
                           const int8_t *restrict panel, int64_t groups, int64_t block);
    void (*multiply)(const i8_outlier_args *); /* one block */
    /* Copy `columns` columns of A', a multiple of 16, column by column, XORed with flip. */
    void (*columns_of)(uint8_t *dst, int64_t columns, const uint8_t *a, ptrdiff_t a_row, ptrdiff_t a_col, int64_t rows,
                       int64_t k, uint8_t flip);
} i8_outlier_kernels;

/* An instruction set's kernels for products, a member for each kernel. */
typedef struct {
    int mr;     /* rows of a full tile */
    int np;     /* panels of a full tile */
    int row_np; /* panels of a tile of one row */
    int exact;  /* I8_DOT4 or I8_DOT2, whichever is faster for many rows */
    const i8_tiles *tiles[I8_DOT_KINDS];
    int tile_output; /* whether the tiles take i8_tile_args.output */
    i8_interleaved_kernels interleaved;
    i8_few_rows_kernels few_rows;
    void (*four_bits)(const i8_four_bits_args *);
    i8_dot_kernels dots;
    i8_long_k_kernels long_k;
    i8_distance_kernels distances;
    i8_small_k_kernels small_k;
    void (*stack)(const i8_stack_args *);
    i8_outlier_kernels outliers;
    const i8_scaled_tiles *scaled_tiles;
    i8_limits limits;
} i8_gemm_kernels;

#endif
