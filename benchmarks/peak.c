/* The machine's own limits, for the percentages in the benchmark's tables.
 *
 * Compute: the shortest loop that multiplies and adds 8-bit integers, on registers only. Each instruction is a
 * one-line asm, so that the compiler neither moves nor spills the accumulators. 16 independent accumulators cover the
 * latency of the multiply-add (4 or 5 cycles) on two ports.
 *
 *   kind          per accumulator                          8-bit multiply-adds
 *   avx512vnni    VPDPBUSD zmm                              64
 *   avxvnni       VPDPBUSD ymm                              32
 *   avx512bw      VPMADDUBSW, VPMADDWD, VPADDD zmm          64
 *   avx2          VPMADDUBSW, VPMADDWD, VPADDD ymm          32
 *
 * Reading: the sum of 64-byte (AVX-512) or 32-byte (AVX2) loads over a buffer.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define X86 1
#include <immintrin.h>
#endif

/* X(0) .. X(11) and X(0) .. X(15) */
#define REPEAT_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define REPEAT_16(X) REPEAT_12(X) X(12) X(13) X(14) X(15)

#ifdef X86

/* r is the constraint of the registers: v for all 32, x for the 16 that VEX encodes. ASM_ADD also reads `acc`. */
#define ASM_SET(text, r, out, x, y) __asm__ volatile(text " %2, %1, %0" : "=" r(out) : r(x), r(y))
#define ASM_ADD(text, r, acc, x, y) __asm__ volatile(text " %2, %1, %0" : "+" r(acc) : r(x), r(y))

#define DECLARE_ZMM(i) __m512i acc##i = _mm512_set1_epi32(i);
#define DECLARE_YMM(i) __m256i acc##i = _mm256_set1_epi32(i);
#define DOT_ZMM(i) ASM_ADD("vpdpbusd", "v", acc##i, a, b);
#define DOT_YMM(i) ASM_ADD("%{vex%} vpdpbusd", "x", acc##i, a, b);
#define SEQUENCE_ZMM(i) \
    ASM_SET("vpmaddubsw", "v", product, a, b); \
    ASM_SET("vpmaddwd", "v", product, product, one); \
    ASM_ADD("vpaddd", "v", acc##i, acc##i, product);
#define SEQUENCE_YMM(i) \
    ASM_SET("vpmaddubsw", "x", product, a, b); \
    ASM_SET("vpmaddwd", "x", product, product, one); \
    ASM_ADD("vpaddd", "x", acc##i, acc##i, product);

__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) static void compute_avx512vnni(int64_t iterations)
{
    const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
    REPEAT_16(DECLARE_ZMM)
    for (int64_t i = 0; i < iterations; i++) {
        REPEAT_16(DOT_ZMM)
    }
}

__attribute__((target("avx2"))) static void compute_avxvnni(int64_t iterations)
{
    /* Two registers are needed beside the accumulators, and VEX has 16 in all: 12 accumulators here. */
    const __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5);
    REPEAT_12(DECLARE_YMM)
    for (int64_t i = 0; i < iterations; i++) {
        REPEAT_12(DOT_YMM)
    }
}

__attribute__((target("avx512f,avx512bw"))) static void compute_avx512bw(int64_t iterations)
{
    const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5), one = _mm512_set1_epi16(1);
    __m512i product;
    REPEAT_16(DECLARE_ZMM)
    for (int64_t i = 0; i < iterations; i++) {
        REPEAT_16(SEQUENCE_ZMM)
    }
}

__attribute__((target("avx2"))) static void compute_avx2(int64_t iterations)
{
    /* a, b, one and the product leave 12 of the 16 registers; the products are renamed, so one name is enough. */
    const __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5), one = _mm256_set1_epi16(1);
    __m256i product;
    REPEAT_12(DECLARE_YMM)
    for (int64_t i = 0; i < iterations; i++) {
        REPEAT_12(SEQUENCE_YMM)
    }
}

/* Both readers add up loads at p, p + gap, p + 2 gap and p + 3 gap, then advance p: gap = one vector reads one stream,
 * gap = a quarter of the buffer reads four. */
__attribute__((target("avx512f"))) static uint64_t read_avx512(const char *p, size_t gap, size_t advance, size_t count)
{
    __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
    for (size_t i = 0; i < count; i++, p += advance) {
        s0 = _mm512_add_epi64(s0, _mm512_loadu_si512(p));
        s1 = _mm512_add_epi64(s1, _mm512_loadu_si512(p + gap));
        s2 = _mm512_add_epi64(s2, _mm512_loadu_si512(p + 2 * gap));
        s3 = _mm512_add_epi64(s3, _mm512_loadu_si512(p + 3 * gap));
    }
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(_mm512_add_epi64(s0, s1), _mm512_add_epi64(s2, s3)));
}

__attribute__((target("avx2"))) static uint64_t read_avx2(const char *p, size_t gap, size_t advance, size_t count)
{
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    for (size_t i = 0; i < count; i++, p += advance) {
        s0 = _mm256_add_epi64(s0, _mm256_loadu_si256((const __m256i *)p));
        s1 = _mm256_add_epi64(s1, _mm256_loadu_si256((const __m256i *)(p + gap)));
        s2 = _mm256_add_epi64(s2, _mm256_loadu_si256((const __m256i *)(p + 2 * gap)));
        s3 = _mm256_add_epi64(s3, _mm256_loadu_si256((const __m256i *)(p + 3 * gap)));
    }
    const __m256i sum = _mm256_add_epi64(_mm256_add_epi64(s0, s1), _mm256_add_epi64(s2, s3));
    uint64_t lanes[4];
    memcpy(lanes, &sum, sizeof lanes);
    return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

#endif /* X86 */

static uint64_t read_words(const char *p, size_t gap, size_t advance, size_t count)
{
    uint64_t sum = 0, words[4];
    for (size_t i = 0; i < count; i++, p += advance) {
        for (size_t j = 0; j < 4; j++)
            memcpy(&words[j], p + j * gap, sizeof words[j]);
        sum += words[0] + words[1] + words[2] + words[3];
    }
    return sum;
}

/* Multiply-adds per iteration of a kind's loop; 0 if the kind is unknown or this CPU lacks it. */
int peak_multiply_adds(const char *kind)
{
#ifdef X86
    __builtin_cpu_init();
    if (!strcmp(kind, "avx512vnni") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"))
        return 64 * 16;
#if defined(__clang__) || __GNUC__ >= 12
    if (!strcmp(kind, "avxvnni") && __builtin_cpu_supports("avxvnni"))
        return 32 * 12;
#endif
    if (!strcmp(kind, "avx512bw") && __builtin_cpu_supports("avx512bw"))
        return 64 * 16;
    if (!strcmp(kind, "avx2") && __builtin_cpu_supports("avx2"))
        return 32 * 12;
#endif
    (void)kind;
    return 0;
}

/* Run `iterations` of a kind's loop on each of `threads` threads. */
void peak_compute(const char *kind, int64_t iterations, int threads)
{
#ifdef X86
    void (*loop)(int64_t) = !strcmp(kind, "avx512vnni") ? compute_avx512vnni
                            : !strcmp(kind, "avxvnni")  ? compute_avxvnni
                            : !strcmp(kind, "avx512bw") ? compute_avx512bw
                                                        : compute_avx2;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int thread = 0; thread < threads; thread++)
        loop(iterations);
#endif
    (void)kind, (void)iterations, (void)threads;
}

/* Read each thread's share of `buffer` `passes` times, as `streams` (1 or 4) streams. The shares are multiples of 256
 * bytes; what is left over is not read, so `bytes` should be at least 256 * threads. Returns the sum of all loads. */
uint64_t peak_read(const char *buffer, size_t bytes, int passes, int streams, int threads)
{
    uint64_t (*reader)(const char *, size_t, size_t, size_t) = read_words;
    size_t vector = 8;
#ifdef X86
    if (__builtin_cpu_supports("avx512f")) {
        reader = read_avx512;
        vector = 64;
    } else if (__builtin_cpu_supports("avx2")) {
        reader = read_avx2;
        vector = 32;
    }
#endif
    const size_t share = bytes / (size_t)threads / 256 * 256;
    const size_t gap = streams == 1 ? vector : share / 4;
    const size_t advance = streams == 1 ? 4 * vector : vector;
    uint64_t total = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : total)
    for (int thread = 0; thread < threads; thread++) {
        for (int pass = 0; pass < passes; pass++)
            total += reader(buffer + (size_t)thread * share, gap, advance, share / (4 * vector));
    }
    return total;
}
