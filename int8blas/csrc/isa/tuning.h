/* The numbers of an instruction set that were measured rather than derived. Each isa/<set>.h defines them as I8_TUNING,
 * with the measurements for the sets that could be measured. Block sizes are upper limits: gemm/block_plan.pyx lowers
 * them to the caches of the machine. Waking a thread takes some microseconds, in which one core does 10^6
 * multiply-adds: of 150 random problems of 1 to 4 x 10^6, half are 1.4x faster or more on two threads (AVX512-VNNI). */
#ifndef I8_TUNING_H
#define I8_TUNING_H

#include <stdint.h>

typedef struct {
    int64_t kc;             /* k of a block; a multiple of 4 */
    int64_t a_bytes;        /* bytes of a packed block of A, which shares the L2 cache with np panels of B */
    /* Panels that a thread finishes before the next panels if K has several blocks: their sums, 64 bytes for each row
     * and panel, stay in the L2 cache. */
    int64_t nc;
    double thread_work;     /* multiply-adds for which waking one more thread saves time */
    int64_t tiny_work;      /* problems with at most this number of multiply-adds skip planning */
    int64_t few_rows_limit; /* rows of A, at most, for which kernels read a plain B in place; 0 without such kernels */
} i8_tuning;

#endif
