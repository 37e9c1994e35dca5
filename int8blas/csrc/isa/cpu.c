/* The features of the CPU and the operating system. On x86-64, CPUID reports the features of the CPU, and XGETBV
 * reports the registers that the system saves. On AArch64 the system reports the features and the registers. */
#define _GNU_SOURCE
#include "core/compiler.h"
#include "isa/cpu.h"
#include <stdint.h>
#include <string.h>

#ifdef I8_X86_64
#if defined(_MSC_VER)
#include <immintrin.h>
#include <intrin.h>
static void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t r[4]) { __cpuidex((int *)r, (int)leaf, (int)subleaf); }
static uint64_t xgetbv(void) { return _xgetbv(0); }
#else
#include <cpuid.h>
static void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
    __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
}
static uint64_t xgetbv(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}
#endif

#ifdef I8_AMX
#include <sys/syscall.h>
#include <unistd.h>
/* Linux saves tile registers only after the process has requested them once. The request fails if the alternate signal
 * stack of a thread is too small for the tile registers. */
static int may_use_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#endif

enum { EAX, EBX, ECX, EDX };
#define BIT(word, n) (((word) >> (n)) & 1u)

static int detect(void)
{
    uint32_t leaf0[4], leaf1[4], leaf7[4], leaf7_1[4] = {0};
    cpuid(0, 0, leaf0);
    if (leaf0[EAX] < 7)
        return I8_CPU(ref);
    cpuid(1, 0, leaf1);
    if (!BIT(leaf1[ECX], 27) || !BIT(leaf1[ECX], 28)) /* OSXSAVE, AVX */
        return I8_CPU(ref);
    cpuid(7, 0, leaf7);
    if (leaf7[EAX] >= 1)
        cpuid(7, 1, leaf7_1);

    const uint64_t saved = xgetbv();
    const int ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6;
    /* AVX2, F16C, FMA */
    const int avx2 = ymm && BIT(leaf7[EBX], 5) && BIT(leaf1[ECX], 29) && BIT(leaf1[ECX], 12);
    /* the extensions F, DQ, BW and VL, which both AVX-512 instruction sets of int8blas need */
    const int avx512 = zmm && avx2 && BIT(leaf7[EBX], 16) && BIT(leaf7[EBX], 17) && BIT(leaf7[EBX], 30) &&
                       BIT(leaf7[EBX], 31);
    const int vnni = avx512 && BIT(leaf7[ECX], 11);
    int found = I8_CPU(ref);
    found |= avx2 ? I8_CPU(avx2) : 0;
    found |= avx2 && BIT(leaf7_1[EAX], 4) ? I8_CPU(avxvnni) : 0;
    found |= avx512 ? I8_CPU(avx512bw) : 0;
    found |= avx512 && BIT(leaf7[ECX], 1) ? I8_CPU(avx512vbmi) : 0;
    found |= avx512 && BIT(leaf7[ECX], 14) ? I8_CPU(avx512vpopcntdq) : 0;
    found |= vnni ? I8_CPU(avx512vnni) : 0;
#ifdef I8_AMX
    const int tiles = (saved & 0x60000) == 0x60000 && BIT(leaf7[EDX], 24) && BIT(leaf7[EDX], 25); /* TILE, INT8 */
    found |= vnni && tiles && may_use_tiles() ? I8_CPU(amx) : 0;
#endif
#ifdef I8_AVXVNNI_AS_EVEX
    found |= vnni ? I8_CPU(avxvnni) : 0;
#endif
    return found;
}

/* CPUID takes microseconds under a hypervisor, so each thread calls it once. */
int i8_cpu_features(void)
{
    static I8_THREAD_LOCAL int features = -1;
    if (features < 0)
        features = detect();
    return features;
}

/* Return the brand string, or "" if the CPU has no brand string. */
const char *i8_cpu_name(void)
{
    static char name[49];
    uint32_t r[4];
    cpuid(0x80000000u, 0, r);
    if (r[EAX] >= 0x80000004u)
        for (uint32_t i = 0; i < 3; ++i) {
            cpuid(0x80000002u + i, 0, r);
            memcpy(name + 16 * i, r, sizeof r);
        }
    return name;
}

/* Return the CPUID leaf that lists the caches. Intel's leaf and AMD's leaf have the same form. */
static uint32_t cache_leaf(void)
{
    uint32_t r[4];
    cpuid(0x80000000u, 0, r);
    if (r[EAX] >= 0x8000001du) {
        cpuid(0x80000001u, 0, r);
        if (BIT(r[ECX], 22)) /* topology extensions */
            return 0x8000001du;
    }
    cpuid(0, 0, r);
    return r[EAX] >= 4 && r[EBX] == 0x756e6547u ? 4 : 0; /* "Genu", the start of "GenuineIntel" */
}

void i8_cpu_caches(int64_t bytes[3])
{
    enum { INSTRUCTIONS = 2, MOST = 16 };
    const uint32_t leaf = cache_leaf();
    uint32_t r[4], sharing[3] = {0};
    bytes[0] = bytes[1] = bytes[2] = 0;
    for (uint32_t i = 0; leaf && i < MOST; ++i) {
        cpuid(leaf, i, r);
        const uint32_t type = r[EAX] & 31, level = r[EAX] >> 5 & 7;
        if (type == 0)
            return;
        if (type == INSTRUCTIONS || level < 1 || level > 3)
            continue;
        sharing[level - 1] = (r[EAX] >> 14 & 0xfff) + 1;
        bytes[level - 1] = ((int64_t)(r[EBX] >> 22) + 1) * ((r[EBX] >> 12 & 0x3ff) + 1) * ((r[EBX] & 0xfff) + 1) *
                           ((int64_t)r[ECX] + 1);
        /* Threads of one core share its L1 cache. */
        if (level == 2 && sharing[0] > 0 && sharing[1] > sharing[0])
            bytes[1] /= sharing[1] / sharing[0];
    }
}

#else

#ifdef __APPLE__
#include <stddef.h>
#include <sys/sysctl.h>

static int64_t control(const char *name)
{
    unsigned char raw[8] = {0};
    size_t size = sizeof raw;
    int64_t wide;
    int32_t narrow;
    if (sysctlbyname(name, raw, &size, NULL, 0) != 0)
        return 0;
    memcpy(&wide, raw, sizeof wide);
    memcpy(&narrow, raw, sizeof narrow);
    return size == sizeof narrow ? narrow : wide;
}

#ifdef I8_AARCH64
static int has_dotprod(void) { return control("hw.optional.arm.FEAT_DotProd") != 0; }
static int has_i8mm(void) { return control("hw.optional.arm.FEAT_I8MM") != 0; }
#endif

const char *i8_cpu_name(void)
{
    static char name[65];
    size_t size = sizeof name - 1;
    return sysctlbyname("machdep.cpu.brand_string", name, &size, NULL, 0) == 0 ? name : "";
}

/* If the CPU has fast and slow cores, take the caches of the fast cores. */
void i8_cpu_caches(int64_t bytes[3])
{
    const int64_t sharing = control("hw.perflevel0.cpusperl2");
    bytes[0] = control("hw.perflevel0.l1dcachesize");
    bytes[1] = control("hw.perflevel0.l2cachesize");
    bytes[2] = control("hw.l3cachesize");
    if (bytes[0] == 0)
        bytes[0] = control("hw.l1dcachesize");
    if (bytes[1] == 0)
        bytes[1] = control("hw.l2cachesize");
    else if (sharing > 1)
        bytes[1] /= sharing;
}
#else
const char *i8_cpu_name(void) { return ""; }
void i8_cpu_caches(int64_t bytes[3]) { bytes[0] = bytes[1] = bytes[2] = 0; }

#if defined(I8_AARCH64) && defined(__linux__)
#include <sys/auxv.h>
/* Bits of AT_HWCAP. <asm/hwcap.h> of older systems has no names for these bits. */
static int has_dotprod(void) { return getauxval(AT_HWCAP) >> 20 & 1; }
static int has_i8mm(void) { return getauxval(AT_HWCAP2) >> 13 & 1; }
#elif defined(I8_AARCH64) && defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
/* Feature 43 is dot products, and feature 66 is matrix products of 8-bit integers. <winnt.h> of older kits has no names
 * for these features. */
static int has_dotprod(void) { return IsProcessorFeaturePresent(43); }
static int has_i8mm(void) { return IsProcessorFeaturePresent(66); }
#elif defined(I8_AARCH64)
#ifdef __ARM_FEATURE_DOTPROD
static int has_dotprod(void) { return 1; }
#else
static int has_dotprod(void) { return 0; }
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
static int has_i8mm(void) { return 1; }
#else
static int has_i8mm(void) { return 0; }
#endif
#endif
#endif

#ifdef I8_AARCH64
int i8_cpu_features(void)
{
    const int dotprod = has_dotprod();
    return I8_CPU(ref) | I8_CPU(neon) | (dotprod ? I8_CPU(dotprod) : 0) | (dotprod && has_i8mm() ? I8_CPU(i8mm) : 0);
}
#else
int i8_cpu_features(void) { return I8_CPU(ref); }
#endif

#endif
