/* Copy vectors that are interleaved in memory to contiguous vectors, for the kernels of long K. The driver includes
 * this header, so the code uses only instructions that all CPUs have. Interleaving units of 128 bits (units.h) is as
 * fast as reading memory. */
#ifndef I8_COPY_VECTORS_H
#define I8_COPY_VECTORS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/dwords.h"
#include "isa/units.h"

#ifdef I8_UNITS

/* Load `width` bytes of each of 16 lines into `width` registers. */
I8_INLINE void i8_load_lines(i8_unit *v, const uint8_t *src, ptrdiff_t step, const int width)
{
    if (step == width)
        I8_FOR(i, width) v[i] = i8_load_unit(src + 16 * i);
    else if (width == 8)
        I8_FOR(i, 8)
            v[i] = i8_zip_low_64(i8_load_half_unit(src + 2 * i * step), i8_load_half_unit(src + (2 * i + 1) * step));
    else
        I8_FOR(i, 4)
            v[i] = i8_unit_of_dwords(i8_read32(src + 4 * i * step), i8_read32(src + (4 * i + 1) * step),
                                     i8_read32(src + (4 * i + 2) * step), i8_read32(src + (4 * i + 3) * step));
}

/* Separate 16 k of up to `width` vectors. Number the bytes of all registers: byte k * width + vector. Interleaving the
 * registers rotates the bits of each byte's number left by one. After four rotations, the lowest bits of a byte's
 * number are its k. */
I8_INLINE void i8_set_16_apart(uint8_t *dst, ptrdiff_t dst_vector, int count, const uint8_t *src, ptrdiff_t step,
                               const int width)
{
    i8_unit v[8], w[8];
    i8_load_lines(v, src, step, width);
    I8_FOR(turn, 2) {
        I8_FOR(i, width / 2) {
            w[2 * i] = i8_zip_low_8(v[i], v[i + width / 2]);
            w[2 * i + 1] = i8_zip_high_8(v[i], v[i + width / 2]);
        }
        I8_FOR(i, width / 2) {
            v[2 * i] = i8_zip_low_8(w[i], w[i + width / 2]);
            v[2 * i + 1] = i8_zip_high_8(w[i], w[i + width / 2]);
        }
    }
    I8_FOR(i, width)
        if (i < count)
            i8_store_unit(dst + i * dst_vector, v[i]);
}
#endif

/* Copy bytes in reverse order, dst[i] = src[-i], eight at a time. Return the number of copied bytes: the largest
 * multiple of 8 that is at most k. */
static inline int64_t i8_copy_reversed(uint8_t *dst, int64_t k, const uint8_t *src)
{
    int64_t done = 0;
    for (; done + 8 <= k; done += 8) {
        uint64_t bytes;
        memcpy(&bytes, src - done - 7, 8);
        bytes = __builtin_bswap64(bytes);
        memcpy(dst + done, &bytes, 8);
    }
    return done;
}

/* Set dst[vector * dst_vector + k] = src[k * step + vector] for `count` vectors, 1 to 8. The function may also read the
 * bytes between two k, and the bytes from the last k to `end`. */
static inline void i8_copy_vectors(uint8_t *dst, ptrdiff_t dst_vector, int count, int64_t k, const uint8_t *src,
                                ptrdiff_t step, const uint8_t *end)
{
    int64_t done = count == 1 && step == -1 ? i8_copy_reversed(dst, k, src) : 0;
    src += done * step;
#ifdef I8_UNITS
    const int width = count > 4 ? 8 : count > 2 || step != 2 ? 4 : 2;
#define I8_LINES(width)                                                                                                \
    for (; done + 16 <= k && end - (src + (step > 0 ? 15 : 0) * step) >= (width); done += 16, src += 16 * step)        \
        i8_set_16_apart(dst + done, dst_vector, count, src, step, width)
    switch (width) {
    case 2: I8_LINES(2); break;
    case 4: I8_LINES(4); break;
    default: I8_LINES(8);
    }
#undef I8_LINES
#else
    (void)end;
#endif
    for (; done < k; ++done, src += step)
        for (int i = 0; i < count; ++i)
            dst[i * dst_vector + done] = src[i];
}

#endif
