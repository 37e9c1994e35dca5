/* CRC-32 by carry-less multiplication. The bytes are a polynomial over GF(2). Multiplying a part of the polynomial by
 * x**n, modulo the polynomial of CRC-32, moves the part n bits towards the end. Each iteration of the loop moves four
 * vectors by 64 bytes, and adds the next 64 bytes. Finally each vector is moved by 16 bytes and added to the next. */
#include "core/checksum.h"

#include <string.h>

#include "core/compiler.h"

#if defined(I8_X86_64) && defined(__GNUC__)
#include <immintrin.h>
I8_TARGET_BEGIN("sse2,pclmul")
/* To move a vector by n bits, multiply its first half by x**(n + 32), and its last half by x**(n - 32). A factor has 33
 * bits in the order of CRC-32, with the highest power first. */
#define I8_BY_64_BYTES _mm_set_epi64x(0x1c6e41596, 0x154442bd4)
#define I8_BY_16_BYTES _mm_set_epi64x(0x0ccaa009e, 0x1751997d0)

/* Move x by the bits that the factors stand for, and add y. Additions are XORs. */
I8_INLINE __m128i move(__m128i x, __m128i factors, __m128i y)
{
    const __m128i first = _mm_clmulepi64_si128(x, factors, 0x00), last = _mm_clmulepi64_si128(x, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(first, last), y);
}

I8_INLINE __m128i load(const uint8_t *data, int i) { return _mm_loadu_si128((const void *)(data + 16 * i)); }

size_t i8_fold_checksum(uint8_t rest[16], const uint8_t *data, size_t size, uint32_t state)
{
    const size_t folded = size / 64 * 64;
    if (!folded || !__builtin_cpu_supports("pclmul"))
        return 0;
    __m128i v[4];
    I8_FOR(i, 4) v[i] = load(data, i);
    v[0] = _mm_xor_si128(v[0], _mm_cvtsi32_si128((int)state));
    for (size_t done = 64; done < folded; done += 64)
        I8_FOR(i, 4) v[i] = move(v[i], I8_BY_64_BYTES, load(data + done, i));
    I8_FOR(i, 3) v[i + 1] = move(v[i], I8_BY_16_BYTES, v[i + 1]);
    _mm_storeu_si128((void *)rest, v[3]);
    return folded;
}
I8_TARGET_END
#else
size_t i8_fold_checksum(uint8_t rest[16], const uint8_t *data, size_t size, uint32_t state)
{
    (void)rest, (void)data, (void)size, (void)state;
    return 0;
}
#endif
