/* The measured numbers of an instruction set. Each isa/<set>.h defines these numbers as I8_TUNING, with the
 * measurements if the set could be measured. Block sizes are upper limits: gemm/block_plan.pyx reduces them to fit the
 * caches of the machine. Waking a thread takes some microseconds, in which one core computes 10^6 multiply-adds. Of 150
 * random problems of 1 to 4 x 10^6 multiply-adds, half are at least 1.4x as fast on two threads (AVX512-VNNI). */
#ifndef I8_TUNING_H
#define I8_TUNING_H

#include <stdint.h>

typedef struct {
    int64_t kc;             /* k of a block; a multiple of 4 */
    int64_t a_bytes;        /* bytes of a packed block of A, which shares the L2 cache with np panels of B */
    /* The number of panels of an N block if K has several blocks. The sums of the block, 64 bytes for each row and
     * panel, stay in the L2 cache. */
    int64_t nc;
    double thread_work;     /* minimum multiply-adds for which waking one more thread saves time */
    int64_t tiny_work;      /* maximum multiply-adds of problems that skip planning */
    int64_t few_rows_limit; /* maximum rows of A for which kernels read a plain B in place; 0 without such kernels */
} i8_tuning;

#endif
