/* Measure the machine's limits, for benchmarks: a loop of multiply-adds on registers, and a loop of loads. gemm.c
 * includes this file once, after I8_PEAK_STEP(acc, a, b), the fastest multiply-add of the instruction set.
 *
 * 16 independent accumulators cover the latency of a multiply-add, 4 or 5 cycles, on two ports. With 16 registers of
 * 256 bits, or with two registers for each accumulator, there are 12 accumulators. I8_OPAQUE takes no instruction, but
 * makes the compiler assume that `a` changes in each iteration, so that no instruction of a multiply-add moves out of
 * the loop. Compilers without I8_OPAQUE have no function for the peak. */
#if defined(__GNUC__)
#ifdef I8_AARCH64
#define I8_PEAK 12
#define I8_OPAQUE(x) __asm__ volatile("" : "+w"((x).low), "+w"((x).high))
#elif I8_LANES == 16
#define I8_PEAK 16
#define I8_OPAQUE(x) __asm__ volatile("" : "+v"(x))
#else
#define I8_PEAK 12
#define I8_OPAQUE(x) __asm__ volatile("" : "+x"(x))
#endif

static int64_t i8_peak(int64_t iterations)
{
    const uint32_t bytes_a = 0x03030303, bytes_b = 0xfbfbfbfb;
    i8_vec a = i8_broadcast(&bytes_a), b = i8_broadcast(&bytes_b), acc[I8_PEAK];
    I8_OPAQUE(b);
    I8_FOR(j, I8_PEAK) {
        acc[j] = i8_zero();
        I8_OPAQUE(acc[j]);
    }
    for (int64_t i = 0; i < iterations; ++i)
        I8_FOR(j, I8_PEAK) {
            I8_OPAQUE(a);
            I8_PEAK_STEP(acc[j], a, b);
        }
    I8_FOR(j, I8_PEAK) I8_OPAQUE(acc[j]);
    return iterations * I8_PEAK * I8_LANES * 4;
}
#undef I8_OPAQUE
#undef I8_PEAK
#else
#define i8_peak NULL
#endif

static uint32_t i8_read(const uint8_t *p, ptrdiff_t gap, ptrdiff_t step, int64_t count)
{
    i8_vec sum[4];
    uint32_t lanes[I8_LANES], total = 0;
    I8_FOR(j, 4) sum[j] = i8_zero();
    for (; count > 0; --count, p += step)
        I8_FOR(j, 4) sum[j] = i8_add(sum[j], i8_load(p + j * gap));
    i8_store(lanes, i8_add(i8_add(sum[0], sum[1]), i8_add(sum[2], sum[3])));
    I8_FOR(j, I8_LANES) total += lanes[j];
    return total;
}

#define I8_LIMITS {.peak = i8_peak, .read = i8_read, .read_bytes = sizeof(i8_vec)}
