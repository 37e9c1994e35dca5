/* What the CPU and the operating system offer. */
#ifndef I8_CPU_H
#define I8_CPU_H

#include <stdint.h>

#include "isa/list.h"

/* Bits of i8_cpu_features(): one for each instruction set of the list, and one for an extension that some CPUs have. */
#define I8_NUMBER(set) I8_NUMBER_##set,
enum { I8_SETS(I8_NUMBER) I8_NUMBER_avx512vbmi };
#define I8_CPU(set) (1 << I8_NUMBER_##set)

int i8_cpu_features(void);
const char *i8_cpu_name(void);

/* Bytes of the L1 and L2 data caches, of the part of one core where cores share one, and of the L3 cache; 0 where the
 * CPU and the operating system do not say. */
void i8_cpu_caches(int64_t bytes[3]);

#endif
