/* The features of the CPU and the operating system. */
#ifndef I8_CPU_H
#define I8_CPU_H

#include <stdint.h>

#include "isa/list.h"

/* Bits of i8_cpu_features(): one for each instruction set of list.h, and one for each optional extension. */
#define I8_NUMBER(set) I8_NUMBER_##set,
enum { I8_SETS(I8_NUMBER) I8_NUMBER_avx512vbmi, I8_NUMBER_avx512vpopcntdq };
#define I8_CPU(set) (1 << I8_NUMBER_##set)

int i8_cpu_features(void);
const char *i8_cpu_name(void);

/* Set the sizes in bytes of the L1, L2 and L3 data caches. For a shared L2 cache, the size is the share of one core. A
 * cache that neither the CPU nor the operating system reports counts as 0. */
void i8_cpu_caches(int64_t bytes[3]);

#endif
