/* Vectors that lie side by side in memory, set apart for the kernels of long K. For a driver: it is compiled for every
 * CPU of the target, as 128-bit interleaving, which each x86-64 has, is as fast as memory. */
#ifndef I8_SET_APART_H
#define I8_SET_APART_H

#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

#ifdef I8_X86_64
#include <emmintrin.h>

#include "core/dwords.h"

/* `width` bytes of each of 16 lines, side by side in `width` registers. */
I8_INLINE void i8_load_lines(__m128i *v, const uint8_t *src, ptrdiff_t step, const int width)
{
    if (width == 16)
        I8_FOR(i, 16) v[i] = _mm_loadu_si128((const __m128i *)(const void *)(src + i * step));
    else if (step == width)
        I8_FOR(i, width) v[i] = _mm_loadu_si128((const __m128i *)(const void *)(src + 16 * i));
    else if (width == 8)
        I8_FOR(i, 8)
            v[i] = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)(src + 2 * i * step)),
                                      _mm_loadl_epi64((const __m128i *)(const void *)(src + (2 * i + 1) * step)));
    else
        I8_FOR(i, 4)
            v[i] = _mm_setr_epi32((int)i8_read32(src + 4 * i * step), (int)i8_read32(src + (4 * i + 1) * step),
                                  (int)i8_read32(src + (4 * i + 2) * step), (int)i8_read32(src + (4 * i + 3) * step));
}

/* 16 k of up to `width` vectors. With the number of a register before that of a byte in it, a byte has the number
 * k * width + vector. Interleaving rotates its bits to the left by one; four times, and k comes last. */
I8_INLINE void i8_set_16_apart(uint8_t *dst, ptrdiff_t dst_vector, int count, const uint8_t *src, ptrdiff_t step,
                               const int width)
{
    __m128i v[16], w[16];
    i8_load_lines(v, src, step, width);
    I8_FOR(turn, 2) {
        I8_FOR(i, width / 2) {
            w[2 * i] = _mm_unpacklo_epi8(v[i], v[i + width / 2]);
            w[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + width / 2]);
        }
        I8_FOR(i, width / 2) {
            v[2 * i] = _mm_unpacklo_epi8(w[i], w[i + width / 2]);
            v[2 * i + 1] = _mm_unpackhi_epi8(w[i], w[i + width / 2]);
        }
    }
    I8_FOR(i, width)
        if (i < count)
            _mm_storeu_si128((__m128i *)(void *)(dst + i * dst_vector), v[i]);
}
#endif

/* dst[vector * dst_vector + k] = src[k * step + vector] for `count` vectors, 1 to 16. Of the memory before `end`, which
 * is behind the last line, more may be read than the lines have. */
static inline void i8_set_apart(uint8_t *dst, ptrdiff_t dst_vector, int count, int64_t k, const uint8_t *src,
                                ptrdiff_t step, const uint8_t *end)
{
    int64_t done = 0;
#ifdef I8_X86_64
    const int width = count > 8 ? 16 : count > 4 ? 8 : count > 2 || step != 2 ? 4 : 2;
#define I8_LINES(width)                                                                                                \
    for (; done + 16 <= k && end - (src + (step > 0 ? 15 : 0) * step) >= (width); done += 16, src += 16 * step)        \
        i8_set_16_apart(dst + done, dst_vector, count, src, step, width)
    switch (width) {
    case 2: I8_LINES(2); break;
    case 4: I8_LINES(4); break;
    case 8: I8_LINES(8); break;
    default: I8_LINES(16);
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
