/* Transpose a tile: store results that were computed row by row to a C whose rows are not contiguous, as in Fortran
 * order or with channels before pixels. If the elements of a column are contiguous, the code transposes units
 * (units.h). */
#include <string.h>

#include "core/copy_part.h"

#ifdef I8_UNITS
/* Transpose the matrix of 4 x 4 dwords whose rows are 4 vectors. */
I8_INLINE void i8_transpose_unit(i8_unit *v)
{
    I8_ZIP_4(i8_unit, v, i8_zip_low_32, i8_zip_high_32, i8_zip_low_64, i8_zip_high_64);
}

/* Store 4 rows of 4 dwords as 4 columns. */
I8_INLINE void i8_transpose_dwords(char *c, ptrdiff_t c_col, const char *tile, ptrdiff_t tile_row)
{
    i8_unit v[4];
    I8_FOR(i, 4) v[i] = i8_load_unit(tile + i * tile_row);
    i8_transpose_unit(v);
    I8_FOR(i, 4) i8_store_unit(c + i * c_col, v[i]);
}

/* Interleave 4 rows of 16 bytes: each dword gets one byte of each row. */
I8_INLINE void i8_interleave_unit(i8_unit *v)
{
    I8_ZIP_4(i8_unit, v, i8_zip_low_8, i8_zip_high_8, i8_zip_low_16, i8_zip_high_16);
}

/* Store 4 rows of 16 bytes as 16 columns. */
I8_INLINE void i8_transpose_lines(char *c, ptrdiff_t c_col, const char *tile, ptrdiff_t tile_row)
{
    i8_unit v[4];
    uint32_t columns[16];
    I8_FOR(i, 4) v[i] = i8_load_unit(tile + i * tile_row);
    i8_interleave_unit(v);
    memcpy(columns, v, sizeof columns);
    I8_FOR(j, 16) memcpy(c + j * c_col, &columns[j], 4);
}

/* Store 16 rows of 16 bytes as 16 columns. */
I8_INLINE void i8_transpose_bytes(char *c, ptrdiff_t c_col, const char *tile, ptrdiff_t tile_row)
{
    i8_unit v[4][4];
    I8_FOR(q, 4) {
        i8_unit r[4];
        I8_FOR(i, 4) r[i] = i8_load_unit(tile + (4 * q + i) * tile_row);
        i8_interleave_unit(r);
        I8_FOR(i, 4) v[i][q] = r[i];
    }
    I8_FOR(q, 4) {
        i8_transpose_unit(v[q]);
        I8_FOR(i, 4) i8_store_unit(c + (4 * q + i) * c_col, v[q][i]);
    }
}
#endif

/* Copy `count` runs of n elements of `size` bytes, with any steps. */
I8_INLINE void i8_copy_sized(char *dst, ptrdiff_t dst_outer, ptrdiff_t dst_inner, const char *src, ptrdiff_t src_outer,
                             ptrdiff_t src_inner, int count, int n, const int size)
{
    for (; count > 0; --count, dst += dst_outer, src += src_outer)
        for (int i = 0; i < n; ++i)
            memcpy(dst + i * dst_inner, src + i * src_inner, (size_t)size);
}

/* Set dst[i, j] = src[i, j], for elements of `size` bytes and any steps in bytes. The inner loop takes the shorter
 * steps. */
static void i8_copy_elements(char *dst, ptrdiff_t dst_row, ptrdiff_t dst_col, const char *src, ptrdiff_t src_row,
                             ptrdiff_t src_col, int rows, int cols, int size)
{
    const ptrdiff_t along_row = (dst_col < 0 ? -dst_col : dst_col) + (src_col < 0 ? -src_col : src_col);
    const ptrdiff_t along_col = (dst_row < 0 ? -dst_row : dst_row) + (src_row < 0 ? -src_row : src_row);
    if (along_col < along_row) {
        i8_copy_elements(dst, dst_col, dst_row, src, src_col, src_row, cols, rows, size);
        return;
    }
    if (size == 8)
        i8_copy_sized(dst, dst_row, dst_col, src, src_row, src_col, rows, cols, 8);
    else if (size == 4)
        i8_copy_sized(dst, dst_row, dst_col, src, src_row, src_col, rows, cols, 4);
    else if (size == 2)
        i8_copy_sized(dst, dst_row, dst_col, src, src_row, src_col, rows, cols, 2);
    else
        i8_copy_sized(dst, dst_row, dst_col, src, src_row, src_col, rows, cols, 1);
}

/* Set C[i, j] = tile[i, j] for a tile with contiguous rows. Tile and C do not overlap. */
static void i8_transpose_store(char *c, ptrdiff_t c_row, ptrdiff_t c_col, const char *tile, ptrdiff_t tile_row,
                               int rows, int cols,
                    int size)
{
    if (c_col == size) {
        const int bytes = cols * size;
        for (int i = 0; i < rows; ++i)
            if (bytes <= 64)
                i8_copy_part(c + i * c_row, tile + i * tile_row, bytes);
            else
                memcpy(c + i * c_row, tile + i * tile_row, (size_t)bytes);
        return;
    }
#ifdef I8_UNITS
    const int width = size == 4 ? 4 : 16, height = size == 1 && rows >= 16 ? 16 : 4;
    if (c_row == size && (size == 1 || size == 4) && rows >= height && cols >= width) {
        /* The last block in each direction overlaps the previous block. */
        for (int x = 0; x < cols; x += width)
            for (int y = 0; y < rows; y += height) {
                const int j = x < cols - width ? x : cols - width, i = y < rows - height ? y : rows - height;
                char *d = c + i * size + j * c_col;
                const char *s = tile + i * tile_row + j * size;
                if (size == 4)
                    i8_transpose_dwords(d, c_col, s, tile_row);
                else if (height == 16)
                    i8_transpose_bytes(d, c_col, s, tile_row);
                else
                    i8_transpose_lines(d, c_col, s, tile_row);
            }
        return;
    }
#endif
    i8_copy_elements(c, c_row, c_col, tile, tile_row, size, rows, cols, size);
}
