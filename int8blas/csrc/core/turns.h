/* Turns of threads that run networks at the same time. Between two kernels a thread needs Python's lock (the GIL) for a
 * few microseconds. A thread that sleeps until the lock is free wakes up 5 to 50 us later. Two threads that sleep after
 * each kernel would be slower than one thread. A thread therefore spins until it has the turn, and then takes the
 * lock. */
#ifndef I8_TURNS_H
#define I8_TURNS_H

#include <stddef.h>

#include "core/compiler.h"

#if defined(_MSC_VER) && !defined(__clang__)
static inline int i8_shares(void) { return 0; }
static inline int i8_shared_cpus(int cpus) { return cpus; }
static inline void i8_enter_run(void) { }
static inline void i8_leave_run(void) { }
static inline void i8_forget_runs(void) { }
static inline void i8_end_turn(void) { }
static inline void i8_take_turn(void) { }
#else

/* The number of checks before a waiting thread takes the turn. All checks together take about 150 us, more than Python
 * needs between two kernels. */
enum { I8_TURN_SPINS = 1 << 13 };

static int i8_runs;                    /* number of threads that have a run */
static I8_THREAD_LOCAL int i8_in_runs; /* number of nested runs of this thread */
static const int *i8_turn;             /* &i8_in_runs of the thread that has the turn, or NULL if no thread has it */

/* Return whether this thread and another thread each have a run. Functions read the thread-local variable last, because
 * reading it takes several times as long as reading a shared variable. */
static inline int i8_shares(void) { return __atomic_load_n(&i8_runs, __ATOMIC_RELAXED) > 1 && i8_in_runs; }

/* Return this thread's share of the CPUs: all CPUs if the thread has no run. */
static inline int i8_shared_cpus(int cpus)
{
    const int runs = __atomic_load_n(&i8_runs, __ATOMIC_RELAXED);
    if (runs <= 1 || !i8_in_runs)
        return cpus;
    return cpus > runs ? cpus / runs : 1;
}

/* Take the turn if nobody has it. */
static inline int i8_try_turn(void)
{
    const int *nobody = NULL;
    return __atomic_compare_exchange_n(&i8_turn, &nobody, &i8_in_runs, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Begin a run of a thread that holds the lock. */
static inline void i8_enter_run(void)
{
    if (i8_in_runs++ == 0 && __atomic_fetch_add(&i8_runs, 1, __ATOMIC_RELAXED) > 0)
        i8_try_turn();
}

/* End a run. The turn lasts until the thread has released the lock in its next run. */
static inline void i8_leave_run(void)
{
    if (--i8_in_runs == 0)
        __atomic_fetch_sub(&i8_runs, 1, __ATOMIC_RELAXED);
}

/* Forget the runs of other threads. */
static inline void i8_forget_runs(void)
{
    i8_runs = i8_in_runs > 0;
    i8_turn = NULL;
}

/* End the turn of a thread that has released the lock. */
static inline void i8_end_turn(void)
{
    const int *turn = __atomic_load_n(&i8_turn, __ATOMIC_RELAXED);
    if (turn && turn == &i8_in_runs)
        __atomic_store_n(&i8_turn, NULL, __ATOMIC_RELAXED);
}

/* Wait for the turn before the thread takes the lock. After a long wait take the turn from the other thread, which may
 * have stopped running networks. The turn does not order the memory accesses of the threads. The lock does. */
static inline void i8_take_turn(void)
{
    if (!i8_shares())
        return;
    for (int i = 0; i < I8_TURN_SPINS; ++i) {
        if (!__atomic_load_n(&i8_turn, __ATOMIC_RELAXED) && i8_try_turn())
            return;
#ifdef I8_X86_64
        __builtin_ia32_pause();
#endif
    }
    __atomic_store_n(&i8_turn, &i8_in_runs, __ATOMIC_RELAXED);
}
#endif

#endif
