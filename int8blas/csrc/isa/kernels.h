/* The table of an instruction set: its name, its tuning, and the kernels of each family. */
#ifndef I8_KERNELS_H
#define I8_KERNELS_H

#include "convolution/convolution.h"
#include "elementwise/elementwise.h"
#include "gemm/gemm.h"
#include "gemm/packing.h"
#include "gemm/wide.h"
#include "isa/tuning.h"
#include "neighbors/neighbors.h"
#include "recurrent/recurrent.h"
#include "stage/stage.h"

/* `ref` has every kernel that a driver calls without a check. Families that multiply belong to an instruction set. All
 * instruction sets of a vector width share the families that do not multiply. isa/table.c defines the table. */
typedef struct {
    const char *name;
    int (*supported)(void); /* returns whether this CPU and the operating system support the set */

    i8_tuning tuning;

    const i8_gemm_kernels *gemm;
    const i8_matrix *matrix; /* or NULL */
    const i8_wide_kernels *wide;
    i8_hamming_fn hamming;
    const i8_convolution_kernels *convolution;
    const i8_packing_kernels *packing;
    const i8_stage_kernels *stage;
    const i8_elementwise_kernels *elementwise;
    const i8_recurrent_kernels *recurrent;
    const i8_neighbors_kernels *neighbors;
} i8_kernels;

/* All tables that were built, best first, and NULL at the end (kernels.c). */
extern const i8_kernels *const i8_all_kernels[];

/* Return the table of the calling thread: the last choice of i8_select in the thread, or the default of the process. */
const i8_kernels *i8_current(void);
void i8_select(const i8_kernels *kernels); /* NULL selects the default again */
void i8_set_default(const i8_kernels *kernels);
const i8_kernels *i8_selected(void); /* NULL if this thread follows the default */

#endif
