/* Products of elements wider than 8 bits, to sums in 64 bits.
 *
 * There are five kinds of multiply-add. An operand of any type and strides is packed to the elements of a kind:
 *
 *   I8_WIDE_S16  pairs of s16 along k; a tile has s32 sums, which are added to C in s64
 *   I8_WIDE_S16_FULL  pairs of s16 of any values; a tile sums the lower and the upper halves of pairs separately
 *   I8_WIDE_S32  s32, stored as s64; s64 sums
 *   I8_WIDE_S64  s64 or u64; sums modulo 2**64
 *   I8_WIDE_F64  elements rounded to f64; f64 sums
 *
 * A group of k has two k for pairs of s16, and one k for the other kinds. Packed B consists of panels of I8_PANEL
 * columns for pairs of s16, and of `columns` columns for the other kinds. A panel consists of groups. A group has the
 * elements of all columns, column by column. Packed A has the format of packed B, but the rows of a tile take the place
 * of the columns of a panel. Missing rows, columns and k are 0. */
#ifndef I8_WIDE_H
#define I8_WIDE_H

#include "core/types.h"

enum { I8_WIDE_S16, I8_WIDE_S16_FULL, I8_WIDE_S32, I8_WIDE_S64, I8_WIDE_F64, I8_WIDE_KINDS };

/* Types of integers in memory: twice the binary logarithm of the size in bytes, plus 1 if unsigned. */
enum { I8_INT_S8, I8_INT_U8, I8_INT_S16, I8_INT_U16, I8_INT_S32, I8_INT_U32, I8_INT_S64, I8_INT_U64, I8_WIDE_TYPES };

enum {
    I8_WIDE_MAX_ROWS = 8,
    I8_WIDE_MAX_COLUMNS = 48,
    I8_WIDE_MAX_TILE = I8_WIDE_MAX_ROWS * I8_WIDE_MAX_COLUMNS
};

/* Set C[i, j] to the sum over `groups` of a * b, or add the sum if `add` is 1, for i < rows and j < cols. C is
 * f64 for I8_WIDE_F64, otherwise s64. c_row is in elements. `b` points to the first column of the tile, and `panel` is
 * the number of bytes from one panel of pairs to the next. */
typedef struct {
    int64_t groups;
    const char *a, *b;
    ptrdiff_t panel;
    void *c;
    ptrdiff_t c_row;
    int rows, cols, add;
} i8_wide_tile_args;

/* The bits of elements x. `magnitude` is the bitwise OR of all x ^ (x >> 63); its number of bits bounds the magnitudes.
 * `sign` is the OR of all x, which is negative if an element is negative. For u64, `magnitude` is the OR of all x. */
typedef struct {
    uint64_t magnitude, sign;
} i8_int_bits;

typedef struct {
    int rows;    /* rows of a tile */
    int columns; /* columns of a tile */
    void (*tile)(const i8_wide_tile_args *);
} i8_wide_kind;

/* Pack `lines` rows of A or columns of B, at most the rows or columns of a tile: element k of line i is at src + i *
 * line + k * step. */
typedef void (*i8_wide_pack_fn)(char *dst, int lines, int width, int64_t k, const char *src, ptrdiff_t line,
                                ptrdiff_t step);

/* Replace n values by value + add modulo p, in [low, low + p). low is in [-p, 0], add in (-p, p), and p in [2, 2**31).
 * If `near` is NULL, the values are the elements of x. If `near` is not NULL, x has the low 64 bits of values of up to
 * p * 2**60, and `near` has f64 approximations of the values, with an error of at most 2**60. p is then at least
 * 2**16. */
typedef void (*i8_residues_fn)(int64_t *x, const double *near, int64_t n, int64_t p, int64_t low, int64_t add);

typedef struct {
    i8_wide_kind kinds[I8_WIDE_KINDS];
    i8_wide_pack_fn pack[I8_WIDE_KINDS][I8_WIDE_TYPES];
    /* OR the bits of n elements, `step` bytes apart, into `bits`. */
    void (*bits[I8_WIDE_TYPES])(i8_int_bits *bits, const char *src, ptrdiff_t step, int64_t n);
    /* OR the bits of n elements into `bits`, and store the low 8 bits of each element. */
    void (*narrow[I8_WIDE_TYPES])(uint8_t *dst, i8_int_bits *bits, const char *src, ptrdiff_t step, int64_t n);
    /* Store n s64 sums as elements of a type, `step` bytes apart. `wrap` wraps sums to the width of the type.
     * `saturate` saturates sums, and returns whether a sum was out of range. */
    void (*wrap[I8_WIDE_TYPES])(char *dst, ptrdiff_t step, const int64_t *sums, int64_t n);
    int (*saturate[I8_WIDE_TYPES])(char *dst, ptrdiff_t step, const int64_t *sums, int64_t n);
    i8_residues_fn residues;
} i8_wide_kernels;

#endif
