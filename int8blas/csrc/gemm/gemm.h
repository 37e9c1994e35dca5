/* The product: its kernels, and the contract of a micro-kernel.
 *
 * The one product that the kernels know is u8 x s8 -> s32. The driver maps all four sign pairs onto it: an s8 A is
 * shifted to u8 (a + 128, and its zero point with it), a u8 B to s8 (b - 128, likewise). Both shifts are an XOR with
 * 0x80, done while packing. Below, A' and B' are the matrices after the shift, ao and bo their zero points.
 *
 * Packed B: panels of 16 columns; in a panel, groups of 4 consecutive k; in a group, 16 x 4 bytes. A packed block of A
 * has the same form with as many rows as the tile has in place of the 16 columns. Missing rows, columns and k are 0.
 *
 * A micro-kernel computes tiles of `rows` x `panels * 16`, both constants of the function, one below the other:
 *
 *     dst[i, j] = acc_in[i, j] + row_init[i] + col_init[j] + sum over g of dot(A'[i, g], B'[g, j])
 *
 * where any of the first three may be NULL (zero), and g counts dwords: groups of 4 bytes, or pairs of s16 for I8_DOT2.
 *
 * Contract of a micro-kernel
 *   - A: dword g of row i is read at a + i * a_row + g * a_group, unaligned, for `groups` dwords; then as many in each
 *     of more_segments segments, a_segment bytes after the one before; then, if a_tail is not NULL, a_tail[i] besides.
 *     Nothing else is read: A may be the user's matrix itself.
 *   - B: panel p starts at b + p * b_panel; 64 bytes are read for each dword of A, and b_segment bytes are left out
 *     between two segments. 64-byte alignment is fastest.
 *   - acc_in: row i starts at acc_in + i * acc_row and is read whole; it may be dst. row_init: [rows];
 *     col_init: [panels * 16].
 *   - dst: row i starts at dst + i * dst_row (in elements); its first `cols` columns are written, nothing else. With an
 *     output it is not touched, and C gets what the output stage makes of the sums; `cols` is panels * 16 then.
 *   - `tiles`, 1 or more: A of the next tile is a_tile bytes behind that of the one before; row_init, a_tail and rows
 *     of acc_in, dst, fetch and the output are those that follow. What is fetched `ahead` is for the first tile. Where
 *     tiles lie `beside` each other, of up to I8_SHORT_TILE(np) rows, B, col_init and columns are those that follow.
 *   - Sums wrap modulo 2**32. The driver makes sure that what is stored for the user has not wrapped.
 *
 * The tiles of a matrix unit (i8_matrix) have the same contract but for this:
 *   - A: a dword is a step of 64 bytes of k: those of step s of row i are read at a + i * a_row + s * a_group, and
 *     `groups`, a multiple of 16, is 16 times the number of steps. As many rows are read as the unit's registers have,
 *     not only the `rows` rows that there are. It is fast if a and all strides are multiples of 64.
 *   - It is one tile: `tiles` is not looked at, and neither is fetch. ahead: ahead_step bytes, a multiple of 64, are
 *     fetched into the L2 cache for each step of each panel, the panels b_panel bytes apart.
 *   - b_tail: if not NULL, one more step's B, 1024 bytes for each panel, where there is one segment. A has zeros where
 *     B has nothing.
 */
#ifndef I8_GEMM_H
#define I8_GEMM_H

#include "stage/stage.h"

#define I8_MAX_MR 8
#define I8_MAX_NP 3
#define I8_MAX_SCALED_MR 4 /* of tiles that have sums in f32 too */
#define I8_MAX_IN_TURN 2 /* rows of a tile that can read its panels of B in turn */
/* Up to so many rows, tiles of up to `np` panels wait for memory however early it is asked: they do not look at what is
 * to be fetched ahead, and they can lie beside each other. */
#define I8_SHORT_TILE(np) ((np) > 1 ? 4 : 2)
#define I8_MATRIX_ROWS 16 /* of a register of a matrix unit, and its bytes of k */
#define I8_MATRIX_K 64
#define I8_MATRIX_TILE (I8_MATRIX_K * I8_PANEL) /* bytes of B for one of its registers */
#define I8_MAX_TILE (2 * I8_MATRIX_ROWS * 2 * I8_PANEL) /* elements of a tile, of a matrix unit too */
/* Without VNNI, bytes that are split into two halves are multiplied exactly by VPMADDUBSW: so many of its sums, of two
 * products of 4 and 8 bits each, fit s16. */
#define I8_HALVES_STEPS 8
#define I8_MAX_COLUMNS 64 /* of any kernel's result: tiles have up to 48, blocks of a row kernel up to 64 */

typedef struct {
    int64_t tiles, groups;
    const uint8_t *a;
    ptrdiff_t a_tile, a_row, a_group;
    int64_t more_segments;
    ptrdiff_t a_segment;
    const uint32_t *a_tail;
    const int8_t *b;
    ptrdiff_t b_panel, b_segment;
    const int32_t *acc_in;
    ptrdiff_t acc_row;
    const int32_t *row_init, *col_init;
    int32_t *dst;
    ptrdiff_t dst_row;
    int cols;
    const char *fetch; /* where the tile's result will go, fetched ahead with fetch_row bytes between rows; or NULL */
    ptrdiff_t fetch_row;
    /* B for a later tile, or NULL: ahead_step bytes are fetched for each group; of several panels the 64 bytes of a
     * group of each, b_panel bytes apart. Tiles of few rows (I8_SHORT_TILE) do not look at it, nor do those of fewer
     * panels than the kernel's np. */
    const char *ahead;
    ptrdiff_t ahead_step;
    int beside;  /* whether `tiles` lie beside each other, not below */
    int in_turn; /* B is read one panel after the other, not all side by side; up to I8_MAX_IN_TURN rows look at it */
    int64_t small_groups; /* I8_DOT_SMALL: groups whose products are added in s16, at least 1 */
    const i8_tile_output *output; /* takes the place of dst for whole tiles, if not NULL */
    /* For a matrix unit only: rows of A, and those of a register, as it was entered with. */
    int rows, unit_rows;
    const int8_t *b_tail;
} i8_tile_args;

typedef void (*i8_tile_fn)(const i8_tile_args *);

/* The functions of one multiply-add: of[rows - 1][panels - 1]. */
typedef struct {
    i8_tile_fn of[I8_MAX_MR][I8_MAX_NP];
} i8_tiles;

/* A loop of multiply-adds on registers, the fastest that an instruction set has; how many it did is returned. */
typedef int64_t (*i8_peak_fn)(int64_t iterations);

/* The limits of the machine, for benchmarks (limits_body.h). */
typedef struct {
    i8_peak_fn peak; /* NULL where the compiler cannot be kept from shortening the loop */
    /* The sum of the vectors, of read_bytes bytes, at p, p + gap, p + 2 gap and p + 3 gap, then of those `step` bytes
     * further, and so on, `count` times: as one stream, or as four. */
    uint32_t (*read)(const uint8_t *p, ptrdiff_t gap, ptrdiff_t step, int64_t count);
    int read_bytes;
} i8_limits;

/* A matrix unit multiplies registers that are matrices themselves, of I8_MATRIX_ROWS rows of I8_MATRIX_K bytes. It
 * is for products that are worth its set-up; for all others there are the kernels of its table. */
typedef struct {
    int mr, np;         /* as in i8_gemm_kernels */
    int64_t kc;         /* a multiple of I8_MATRIX_K; the A of a tile is in L1 then */
    int64_t a_bytes;    /* of a block of A, as far as its sums are kept from one block of K to the next */
    int64_t b_bytes;    /* of a block of B, which lives in L2 */
    double thread_work;
    int64_t least_rows; /* of A for which the unit pays, */
    int64_t least_k;    /* and K, more than 0 */
    int dots_columns;   /* up to which dot kernels are faster */
    i8_tile_fn tile[2][2]; /* [registers of rows - 1][panels - 1] */
    /* Pack `rows` rows of A, XORed with flip, for a tile: dst[step][rows of whole registers][64], zeros behind k. */
    void (*pack)(uint8_t *dst, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride, ptrdiff_t k_stride,
                 uint8_t flip);
    /* A thread calls these before its first tile and after its last one. A problem of fewer rows than registers have
     * is faster with registers of so many; for all others `unit_rows` is I8_MATRIX_ROWS. */
    void (*enter)(int unit_rows);
    void (*leave)(void);
    i8_peak_fn peak;
} i8_matrix;

/* A dot kernel multiplies `rows` vectors x, contiguous in k and read in place, by its columns, vectors y, packed:
 *
 *     dst(i, j) = start[j] + sum over k of x(i, k) * y(j, k)     at dst + i * dst_row + j * dst_column, in bytes
 *
 * for the first `count` columns. Vector i is at x + i * x_row, k bytes, XORed with x_flip. One operand is u8 and the
 * other s8: see i8_gemm_kernels.dots. y is packed by pack_panel and order_dots. `start` may be NULL (zeros). `far` says
 * that x comes from memory rather than a cache. The widest kernel of vectors of bytes makes distances, where x_squares
 * is not NULL: start[j] + x_squares[i] less twice the sum; and fetches what lies `ahead` bytes behind its rows into the
 * L2 cache, or, if that is 0, the next ones. */
typedef struct {
    int64_t k, rows;
    const uint8_t *x, *y;
    ptrdiff_t x_row, ahead;
    uint8_t x_flip;
    int far, count;
    const int32_t *start, *x_squares;
    void *dst;
    ptrdiff_t dst_row, dst_column;
} i8_dot_args;

typedef void (*i8_dot_fn)(const i8_dot_args *);

/* Columns of the dot kernels: 1, 2, 3, 4, 8, 16. */
enum { I8_DOTS_1, I8_DOTS_2, I8_DOTS_3, I8_DOTS_4, I8_DOTS_8, I8_DOTS_16, I8_DOT_WIDTHS };

/* A kernel of long K multiplies few vectors x by few vectors y, contiguous in k and read in place, of any signs:
 *
 *     dst[i * dst_row + j * dst_column] += sum over k of x(i, k) * y(j, k)
 *
 * Vector i of x is at x + i * x_row, vector j of y at y + j * y_row, k bytes each, nothing else of which is read. Any
 * k is exact: sums of I8_LONG_K_SEGMENT k are s32, and are added in s64. There are kernels for 1, 2 and 4 vectors of
 * each, as far as the table says. */
enum { I8_LONG_K_SEGMENT = 1 << 15 }; /* products of u8 and u8 stay in s32 for 33,025 k */
typedef struct {
    int64_t k;
    const uint8_t *x, *y;
    ptrdiff_t x_row, y_row;
    int64_t *dst;
    ptrdiff_t dst_row, dst_column; /* in elements */
} i8_long_k_args;

typedef void (*i8_long_k_fn)(const i8_long_k_args *);

/* A kernel of distances has those of few rows x, of which there may be none, from `count` rows y, contiguous in k and
 * read in place, of any signs:
 *
 *     dst[i * dst_row + j] = sum over k of (x(i, k) - y(j, k))^2       or, without x, dst[j] = sum over k of y(j, k)^2
 *
 * Row i of x is at x + i * x_row, row j of y at y + j * y_row, k bytes each, nothing else of which is read. x_sums and
 * x_squares have the sums of the rows x and of their squares, and y_squares, for the kernels that want them, those of
 * the squares of the rows y. Sums wrap modulo 2**32. */
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

/* A kernel of small K multiplies `rows` rows of A by panels of B, for at most small_k_limit of K:
 *
 *     dst[i, j] = row_init[i] + col_init[first + j] + sum over g of dot(A'[i, g], B'[g, first + j])
 *
 * for j < cols; or, if `distances` is 1, which is 0 else, row_init[i] + col_init[first + j] less twice the sum over g.
 * Dword g of row i is read at a + i * a_row + g * a_group, unaligned, and XORed with a_flip in every byte. a_tail, if
 * not 0, is the number of bytes in the last of two or more groups, where a_group is 4; nothing behind them is read. The
 * panels of B lie one behind the other. row_init may be NULL (zero); col_init has a value for every column of the
 * panels. `stream` writes C past the caches, and wants dst + i * dst_row - first to be aligned to 64 bytes. */
typedef struct {
    int64_t rows, cols;
    int groups, first, stream, distances; /* first < I8_PANEL */
    int a_tail;
    uint8_t a_flip;
    const uint8_t *a;
    ptrdiff_t a_row, a_group;
    const int8_t *b;
    const int32_t *row_init, *col_init;
    int32_t *dst;
    ptrdiff_t dst_row; /* in elements */
} i8_small_k_args;

/* A row kernel adds `rows` rows of A times a block of columns of a C-ordered B, in place, to sums of its own:
 *
 *     acc[i, position of column j] += sum over k of A(i, k) * B(k, j)
 *
 * for 4 * groups + b_tail rows of B, at b + k * b_row, XORed with b_flip, and `blocks` blocks of columns side by side;
 * `first` starts from 0. A is packed in groups of a_group bytes, with zeros behind the last k, and a single row is
 * halved then, where there is i8_gemm_kernels.halve_row, or `centered`. The sums of row i of block w are at acc + i *
 * acc_row + w * acc_block. The order of the columns is that of i8_gemm_kernels.finish_rows, which writes for one
 * row of a block dst[j] = sum + add. */
typedef struct {
    int64_t groups;
    const uint8_t *a;
    ptrdiff_t a_group;
    const uint8_t *b;
    ptrdiff_t b_row;
    uint32_t b_flip; /* the byte, four times */
    int b_tail;      /* 0 to 3 */
    int first;
    int centered;
    ptrdiff_t ahead; /* bytes ahead in its row that B is fetched into the L2 cache; 0 where it is there */
    int64_t blocks;
    int32_t *acc;
    ptrdiff_t acc_row, acc_block;
} i8_few_rows_args;

typedef void (*i8_few_rows_fn)(const i8_few_rows_args *);

#define I8_MAX_FEW_ROWS 12

/* Which operand of a kernel that reads both in place is the u8 one. */
enum { I8_A_UNSIGNED = 0, I8_B_UNSIGNED = 1, I8_X_UNSIGNED = 0, I8_Y_UNSIGNED = 1 };

/* Values of one column of B' that are taken out of it (outliers_body.h), and their k in a block of I8_OUTLIER_K at
 * most. `rest` is 0 where there are fewer than four, and at most I8_MAX_REST in magnitude, so that any two have a
 * certificate; a larger one comes in parts. */
#define I8_OUTLIER_K 1024
#define I8_MAX_REST 64
typedef struct {
    uint16_t k[4];
    int8_t rest[4];
} i8_outliers;

/* The outliers of a panel, in one block of K, times A' by columns as columns_of makes them, `a_columns` in all:
 *
 *     dst[i, j] = (dst[i, j] if add) + sum over outliers of column j of A'[i, k] * rest
 *
 * The outliers of column j are those from starts[j] to starts[j + 1]. */
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

/* The multiply-adds.
 *   I8_DOT4      the exact sum of four u8 * s8 products (VPDPBUSD; without it, widened in registers, for few rows)
 *   I8_DOT4_SAT  two sums of two u8 * s8 products, each saturated to s16, added in s32 (VPMADDUBSW, VPMADDWD, VPADDD);
 *                exact where B' has a certificate
 *   I8_DOT2      the exact sum of two s16 * s16 products of widened operands (VPMADDWD, VPADDD)
 *   I8_DOT8      two groups at a time, two sums of four products in s16, added in s32 (VPMADDUBSW, VPADDW, VPMADDWD,
 *                VPADDD); exact for the dense part of a B' that is split (outliers_body.h), and for small values
 *   I8_DOT_SMALL i8_tile_args.small_groups groups at a time, as many as two sums of all their products fit s16
 *                (VPMADDUBSW, VPADDW; VPMADDWD and VPADDD once for all); for one segment of A, and nearly full tiles
 *                alone, of I8_MR rows or one less, I8_NP panels or one less: I8_DOT8 takes the others
 *   I8_DOT_ARRANGED  I8_DOT4 of a packed A in an arrangement of its own (i8_gemm_kernels.arrange_a), for one segment
 *                of up to I8_ARRANGED_K k, of one panel */
enum {
    I8_DOT4 = 0, I8_DOT4_SAT = 1, I8_DOT2 = 2, I8_DOT8 = 3, I8_DOT_SMALL = 4, I8_DOT_ARRANGED = 5, I8_DOT_KINDS = 6
};
enum { I8_ARRANGED_K = 1024 };

/* All scale groups of a tile, whose y is written: those of A and B lie one behind the other, t->groups dwords each, and
 * so do the 16 values of a panel in scale and col_sum. Of t the tiles, A and B are looked at; acc, rows, panels, bo and
 * row_term are not. */
typedef void (*i8_scale_groups_fn)(const i8_tile_args *t, const i8_scale_group_args *s, int64_t count);

/* The functions for tiles with scale groups: of[rows - 1][panels - 1], of up to `mr` rows. */
typedef struct {
    int mr;
    i8_scale_groups_fn of[I8_MAX_SCALED_MR][I8_MAX_NP];
} i8_scaled_tiles;

/* Products of an instruction set. Those of a way of multiplying that it has not are NULL, and their sizes 0. */
typedef struct {
    int mr, np; /* the full tile: rows, panels */
    int row_np; /* panels of a tile of one row */
    int exact;  /* the I8_DOT4 or I8_DOT2 that is faster for many rows */
    const i8_tiles *tiles[I8_DOT_KINDS];
    int tile_output; /* whether they take i8_tile_args.output */
    /* For I8_DOT_ARRANGED, if there are such tiles: what the bytes of A' are XORed with; and NULL, or what arranges a
     * packed micro-panel of `height` rows in place. */
    uint8_t arranged_flip;
    void (*arrange_a)(uint8_t *a, int height, int64_t groups);

    int few_rows_mr, few_rows_columns;       /* the largest row kernel, and the columns of a block */
    i8_few_rows_fn few_rows[2][I8_MAX_FEW_ROWS]; /* [I8_A_UNSIGNED or I8_B_UNSIGNED][rows - 1] */
    /* Copy `rows` rows of `bytes` bytes, whole vectors, to lie one behind the other. */
    void (*copy_rows)(uint8_t *dst, int64_t bytes, int64_t rows, const uint8_t *src, ptrdiff_t row_stride);
    void (*finish_rows)(int32_t *dst, const int32_t *acc, int32_t add);
    /* NULL, or what makes two dwords, of halves, of each dword of the only row of a packed A for `rows`. src may end
     * where dst does. */
    void (*halve_row)(uint8_t *dst, const uint8_t *src, int64_t dwords, int a_unsigned);
    /* The same of x - zero, which must be from -255 to 255, for the k elements x of the row: B has to be u8. */
    void (*halve_centered)(uint8_t *dst, const uint8_t *src, int64_t k, int a_unsigned, int32_t zero);

    int dots_rows, dots_columns;      /* of the largest dot kernel */
    i8_dot_fn dots[2][I8_DOT_WIDTHS]; /* [I8_X_UNSIGNED or I8_Y_UNSIGNED][I8_DOTS_1 and so on] */
    /* Bytes of `columns` packed vectors of k bytes for `dots`, and their form: dst has them as pack_panel leaves them
     * (padded with zeros to that size) in src; they are u8 or s8. */
    int64_t (*dots_size)(int columns, int64_t k);
    void (*order_dots)(uint8_t *dst, const uint8_t *restrict src, int columns, int64_t k, int y_unsigned);

    int long_k_rows, long_k_columns; /* of the largest kernel of long K: 1, 2 or 4 */
    /* [x is s8][y is s8][0 for 1 vector x, 1 for 2, 2 for 4][the same for y] */
    i8_long_k_fn long_k[2][2][3][3];

    int distance_rows; /* of the largest kernel of distances: 1, 2 or 4 */
    /* [x is s8][y is s8][0 without x, 1 for 1 row x, 2 for 2, 3 for 4, 4 for 4 with y_squares] */
    i8_distance_fn distances[2][2][5];
    /* Sums over k of the squares of the columns of a packed panel of B', whose own sums are given, modulo 2**32. */
    void (*column_squares)(int32_t *squares, const int8_t *panel, int64_t groups, const int64_t *sums);

    int small_k_rows;  /* of the largest kernel of small K */
    int small_k_limit; /* K up to which there are such kernels; 0 without any */
    void (*small_k)(const i8_small_k_args *);

    /* Without VNNI (outliers_body.h): the number of i8_outliers of a panel of B', and their starts, for each block of
     * so many groups of K, an even number, for each column; the outliers, as far as there is room for so many, and the
     * rest of the panel are stored too, unless room is 0 and dense is NULL. Their products in one block; and A', XORed
     * with flip, by columns for them, `columns` of them, a multiple of 16. */
    int64_t (*split_panel)(int8_t *restrict dense, i8_outliers *dst, int64_t room, int64_t *starts,
                           const int8_t *restrict panel, int64_t groups, int64_t block);
    void (*multiply_outliers)(const i8_outlier_args *);
    void (*columns_of)(uint8_t *dst, int64_t columns, const uint8_t *a, ptrdiff_t a_row, ptrdiff_t a_col, int64_t rows,
                       int64_t k, uint8_t flip);

    const i8_scaled_tiles *scaled_tiles;
    i8_limits limits;
} i8_gemm_kernels;

#endif
