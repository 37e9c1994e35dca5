/* What an instruction set offers: the kernels of each family, and the sizes that were measured with it. */
#ifndef I8_KERNELS_H
#define I8_KERNELS_H

#include "convolution/convolution.h"
#include "elementwise/elementwise.h"
#include "gemm/gemm.h"
#include "gemm/packing.h"
#include "neighbors/neighbors.h"
#include "recurrent/recurrent.h"
#include "stage/stage.h"

/* `ref` fills every slot that a driver may call without asking. Blocking lives here and nowhere else. Families that
 * multiply belong to an instruction set; the others are shared by all of a vector width. */
typedef struct {
    const char *name;
    int (*supported)(void); /* by this CPU and operating system */

    int64_t kc;         /* k of a block, a multiple of 4 */
    int64_t a_bytes;    /* of a block of A, which lives in L2 together with np panels of B, np * 16 * kc bytes */
    int64_t nc;         /* panels that a thread finishes first if K is split: their sums are rows * nc * 64 bytes */
    double thread_work; /* multiply-adds that pay for waking one more thread */
    int64_t tiny_work;  /* multiply-adds up to which a problem is not worth planning */
    int64_t few_rows_limit; /* rows of A up to which B is read in place */

    const i8_gemm_kernels *gemm;
    const i8_matrix *matrix; /* or NULL */
    const i8_convolution_kernels *convolution;
    const i8_packing_kernels *packing;
    const i8_stage_kernels *stage;
    const i8_elementwise_kernels *elementwise;
    const i8_recurrent_kernels *recurrent;
    const i8_neighbors_kernels *neighbors;
} i8_kernels;

/* kernels.c: every table that was built, best first, ending in NULL. */
extern const i8_kernels *const i8_all_kernels[];

/* The table of the calling thread: what i8_select chose last in it, else the process's default. */
const i8_kernels *i8_current(void);
void i8_select(const i8_kernels *kernels); /* NULL: back to the default */
void i8_set_default(const i8_kernels *kernels);
const i8_kernels *i8_selected(void); /* NULL if this thread follows the default */

#endif
