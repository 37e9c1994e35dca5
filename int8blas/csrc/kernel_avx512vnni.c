/* AVX-512 with VNNI: Cascade Lake and later, Zen 4 and later.
 *
 *   VPDPBUSD zmm    latency 5 (Intel), 4 (Zen); ports 0 and 5 (Intel servers), one a cycle (Zen 4), two (Zen 5)
 *
 * 24 accumulators hide 24 / 2 = 12 cycles of latency at two a cycle. A group costs 24 VPDPBUSD, 3 loads of B and 8
 * broadcasts of A: 11 loads in 12 or 24 cycles. GCC 12 spills around _mm512_dpbusd_epi32 in such a loop, so the
 * instruction is written as assembly where the compiler takes it.
 */
#include "kernel_table.h"

#ifdef I8_X86_64
I8_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#include "vectors_avx512.h"

#if defined(__GNUC__)
#define I8_DOT(acc, a, b) __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b))
#define I8_KEEPS_B 1 /* GCC loads an operand of assembly that cannot be memory again for every use */
#else
#define I8_DOT(acc, a, b) (acc) = _mm512_dpbusd_epi32(acc, a, b)
#endif
#define I8_ISA avx512vnni
#define I8_PAIRED 0
#include "isa_body.h"

static int supported(void) { return (i8_cpu_features() & I8_CPU_AVX512VNNI) != 0; }
I8_TARGET_END

/* VBMI indexes 128 bytes at once: Ice Lake and later, Zen 4 and later. */
I8_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")
static void lookup_vbmi(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *table)
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

static void lookup(uint8_t *out, const uint8_t *x, int64_t n, const uint8_t *table)
{
    if (i8_cpu_features() & I8_CPU_AVX512VBMI)
        lookup_vbmi(out, x, n, table);
    else
        i8_lookup(out, x, n, table);
}

#define I8_VNNI_SLOTS \
    .a_bytes = 512 << 10, .kc = 4096, .nc = 60, .thread_work = 1e6, .thin_k = 4 * I8_THIN_GROUPS, \
    I8_ISA_SLOTS(lookup)

const i8_kernels i8_kernels_avx512vnni = {
    .name = "avx512vnni",
    .supported = supported,
    .tiny_work = 1 << 21,
    .rows_limit = 48,
    I8_VNNI_SLOTS,
};

#ifdef I8_AMX
#include "matrix_amx.h"

static int amx_supported(void) { return (i8_cpu_features() & I8_CPU_AMX) != 0; }

/* The same kernels, and the matrix unit: Sapphire Rapids and later. */
const i8_kernels i8_kernels_amx = {
    .name = "amx",
    .supported = amx_supported,
    .tiny_work = 3 << 16,
    .rows_limit = 12,
    .matrix = &i8_amx,
    I8_VNNI_SLOTS,
};
#endif
#endif
