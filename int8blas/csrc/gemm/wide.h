/* Products of elements wider than 8 bits, to sums in 64 bits.
 *
 * There are five kinds of multiply-add. An operand of any type and strides is packed to the elements of a kind:
 *
 *   I8_WIDE_S16  pairs of s16 along k; sums s32 in a tile, which are added to C in s64
 *   I8_WIDE_S16_FULL  the same for all values; a tile sums the lower and the upper halves of pairs
 *   I8_WIDE_S32  s32, which lie in s64; sums s64
 *   I8_WIDE_S64  64 bits of any sign; sums modulo 2**64
 *   I8_WIDE_F64  f64, rounded; sums f64
 *
 * A group of k is two k of s16, else one. Packed B: panels of I8_PANEL columns for pairs of s16, and of `columns`
 * columns for the other kinds; in a panel, groups; in a group, the elements of each column, side by side. Packed A has
 * the rows of a tile in place of columns. Missing rows, columns and k are 0. */
#ifndef I8_WIDE_H
#define I8_WIDE_H

#include "core/types.h"

enum { I8_WIDE_S16, I8_WIDE_S16_FULL, I8_WIDE_S32, I8_WIDE_S64, I8_WIDE_F64, I8_WIDE_KINDS };

/* Types of integers in memory: twice the logarithm of their size, plus 1 if unsigned. */
enum { I8_INT_S8, I8_INT_U8, I8_INT_S16, I8_INT_U16, I8_INT_S32, I8_INT_U32, I8_INT_S64, I8_INT_U64, I8_WIDE_TYPES };

enum {
    I8_WIDE_MAX_ROWS = 8,
    I8_WIDE_MAX_COLUMNS = 48,
    I8_WIDE_MAX_TILE = I8_WIDE_MAX_ROWS * I8_WIDE_MAX_COLUMNS
};

/* One tile: C[i, j] = sum over `groups` of a * b, or C[i, j] plus the sum if `add`, for i < rows and j < cols. C has
 * f64 elements for I8_WIDE_F64, else s64; c_row counts elements. `b` is the tile's first column, and `panel` the bytes
 * from a panel of pairs to the next. */
typedef struct {
    int64_t groups;
    const char *a, *b;
    ptrdiff_t panel;
    void *c;
    ptrdiff_t c_row;
    int rows, cols, add;
} i8_wide_tile_args;

/* The bits of elements x: the bitwise OR of all x ^ (x >> 63), whose length bounds all magnitudes, and the OR of all x,
 * which is negative if an element is. For u64, `magnitude` is the OR of the elements themselves. */
typedef struct {
    uint64_t magnitude, sign;
} i8_int_bits;

typedef struct {
    int rows, columns; /* size of a tile */
    void (*tile)(const i8_wide_tile_args *);
} i8_wide_kind;

/* Pack `lines` rows of A or columns of B, at most the rows or columns of a tile: element k of line i is at src + i *
 * line + k * step. */
typedef void (*i8_wide_pack_fn)(char *dst, int lines, int width, int64_t k, const char *src, ptrdiff_t line,
                                ptrdiff_t step);

/* Replace n values x by x + add modulo p, in [low, low + p). low is in [-p, 0], add in (-p, p), and p in [2, 2**31). If
 * `near` is NULL, the values are the elements, as s64. Otherwise the elements are the low 64 bits of values of up to
 * p * 2**60, and `near` has f64 approximations of the values, with an error of at most 2**60. p is then at least
 * 2**16. */
typedef void (*i8_residues_fn)(int64_t *x, const double *near, int64_t n, int64_t p, int64_t low, int64_t add);

typedef struct {
    i8_wide_kind kinds[I8_WIDE_KINDS];
    i8_wide_pack_fn pack[I8_WIDE_KINDS][I8_WIDE_TYPES];
    /* Add the bits of n elements, `step` bytes apart. */
    void (*bits[I8_WIDE_TYPES])(i8_int_bits *bits, const char *src, ptrdiff_t step, int64_t n);
    /* Add the bits, and store the low 8 bits of each element. */
    void (*narrow[I8_WIDE_TYPES])(uint8_t *dst, i8_int_bits *bits, const char *src, ptrdiff_t step, int64_t n);
    /* Store n sums, s64, as elements of a type, `step` bytes apart: modulo their width, or saturated. `saturate`
     * returns whether an element was out of range. */
    void (*wrap[I8_WIDE_TYPES])(char *dst, ptrdiff_t step, const int64_t *sums, int64_t n);
    int (*saturate[I8_WIDE_TYPES])(char *dst, ptrdiff_t step, const int64_t *sums, int64_t n);
    i8_residues_fn residues;
} i8_wide_kernels;

#endif
