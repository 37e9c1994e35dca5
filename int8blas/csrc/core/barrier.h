/* A barrier for threads of a parallel region that meet every few microseconds. Threads at a barrier of an OpenMP
 * runtime sleep after some milliseconds. If other processes compete for the cores, a sleeping thread wakes up only when
 * it gets a time slice. This barrier first spins for the time of a step, and then yields the CPU between two checks. */
#ifndef I8_BARRIER_H
#define I8_BARRIER_H

#include "core/compiler.h"

/* A barrier. The caller sets all members to 0 before the first use. */
typedef struct {
    int arrived, round;
} i8_barrier;

#if defined(_MSC_VER) && !defined(__clang__)
/* Wait until all `threads` threads of the region have arrived. */
static inline void i8_wait(i8_barrier *b, int threads)
{
    (void)b, (void)threads;
#ifdef _OPENMP
#pragma omp barrier
#endif
}
#else
#include <sched.h>

/* The number of checks before a thread yields. PAUSE takes 40 to 140 cycles, so all checks take about 50 to 200 us. */
enum { I8_SPINS = 1 << 12 };

/* Wait until all `threads` threads of the region have arrived. Every thread then sees all earlier writes of all
 * threads. */
static inline void i8_wait(i8_barrier *b, int threads)
{
    const int round = __atomic_load_n(&b->round, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == threads) {
        __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&b->round, round ^ 1, __ATOMIC_RELEASE);
        return;
    }
    for (int i = 0; __atomic_load_n(&b->round, __ATOMIC_ACQUIRE) == round; ++i) {
        if (i < I8_SPINS) {
#ifdef I8_X86_64
            __builtin_ia32_pause();
#endif
        } else {
            sched_yield();
        }
    }
}
#endif

#endif
