/* What the CPU and the operating system have of what the kernels ask for. */
#ifndef I8_CPU_H
#define I8_CPU_H

#include <stdint.h>

enum {
    I8_CPU_AVX2 = 1, I8_CPU_AVXVNNI = 2, I8_CPU_AVX512BW = 4, I8_CPU_AVX512VNNI = 8, I8_CPU_AVX512VBMI = 16,
    I8_CPU_AMX = 32, I8_CPU_NEON = 64, I8_CPU_DOTPROD = 128, I8_CPU_I8MM = 256
};
int i8_cpu_features(void);
const char *i8_cpu_name(void);

/* Bytes of the L1 and L2 data caches, of the part of one core where cores share one, and of the L3 cache; 0 where the
 * CPU and the operating system do not say. */
void i8_cpu_caches(int64_t bytes[3]);

#endif
