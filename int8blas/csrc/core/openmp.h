/* The only file that calls OpenMP. A build without OpenMP has one thread. */
#ifndef I8_OPENMP_H
#define I8_OPENMP_H

#ifdef _OPENMP
#include <omp.h>
#define I8_HAVE_OPENMP 1
static inline int i8_omp_max_threads(void) { return omp_get_max_threads(); }
static inline int i8_omp_in_parallel(void) { return omp_in_parallel(); }
static inline int i8_omp_team_size(void) { return omp_get_num_threads(); }
/* Wait for all threads of the running region. */
static inline void i8_omp_barrier(void)
{
#pragma omp barrier
}
static inline double i8_omp_seconds(void) { return omp_get_wtime(); }
#else
#define I8_HAVE_OPENMP 0
static inline int i8_omp_max_threads(void) { return 1; }
static inline int i8_omp_in_parallel(void) { return 0; }
static inline int i8_omp_team_size(void) { return 1; }
static inline void i8_omp_barrier(void) { }
static inline double i8_omp_seconds(void) { return 0; }
#endif

#endif
