/* Hamming distances of packed bits, for an instruction set with vectors. */
#include "isa/set.h"

#ifdef I8_LANES
#include "isa/cpu.h"

#define I8_HAMMING_ROWS 4 /* rows of x for each load of a panel */
#define I8_HAMMING_BYTES (1 << 14) /* half of a usual L1 cache */

#define I8_HAMMING(name) i8_hamming_##name
#include "neighbors/hamming_body.h"

/* VPOPCNTDQ came after VNNI, with Ice Lake and Zen 4. */
#if I8_LANES == 16 && !I8_PAIRED
I8_TARGET_END
I8_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vpopcntdq")
#define I8_HAMMING(name) i8_hamming_counted_##name
#define I8_COUNT_DWORDS(acc, x) i8_add(acc, _mm512_popcnt_epi32(x))
#include "neighbors/hamming_body.h"
I8_TARGET_END
I8_TARGET_BEGIN(I8_TARGET)
#endif

void I8_PASTE(i8_hamming, I8_SET)(const i8_hamming_args *t)
{
#if I8_LANES == 16 && !I8_PAIRED
    if (i8_cpu_features() & I8_CPU(avx512vpopcntdq)) {
        i8_hamming_counted_distances(t);
        return;
    }
#endif
    i8_hamming_distances(t);
}
I8_TARGET_END
#endif
