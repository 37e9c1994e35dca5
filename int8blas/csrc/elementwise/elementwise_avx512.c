#include "isa/cpu.h"
#include "isa/names.h"

#ifdef I8_X86_64
I8_TARGET_BEGIN(I8_AVX512)
#include "isa/vectors_avx512.h"

#include "elementwise/elementwise_table.h"
I8_TARGET_END

/* VBMI indexes 128 bytes at once: Ice Lake and later, Zen 4 and later. */
I8_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")
static void i8_lookup_vbmi(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *table)
{
    const __m512i part0 = _mm512_loadu_si512(table), part1 = _mm512_loadu_si512(table + 64);
    const __m512i part2 = _mm512_loadu_si512(table + 128), part3 = _mm512_loadu_si512(table + 192);
    for (int64_t i = 0; i < n; i += 64) {
        const __mmask64 rest = n - i < 64 ? ((__mmask64)1 << (n - i)) - 1 : ~(__mmask64)0;
        const __m512i bytes = _mm512_maskz_loadu_epi8(rest, x + i);
        const __m512i low = _mm512_permutex2var_epi8(part0, bytes, part1);
        const __m512i high = _mm512_permutex2var_epi8(part2, bytes, part3);
        _mm512_mask_storeu_epi8(out + i, rest, _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(bytes), high));
    }
}
I8_TARGET_END

static void i8_lookup_best(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *table)
{
    if (i8_cpu_features() & I8_CPU_AVX512VBMI)
        i8_lookup_vbmi(out, x, n, table);
    else
        i8_lookup(out, x, n, table);
}

/* For instruction sets that may come with VBMI. */
const i8_elementwise_kernels i8_elementwise_avx512vbmi = I8_ELEMENTWISE(i8_lookup_best);
#endif
