/* The list of kernels that were built, and which of them a thread uses. "Built" is this list, "supported" a table's own
 * answer, "selected" the state below. */
#include "core/compiler.h"
#include "isa/kernels.h"

extern const i8_kernels i8_kernels_amx, i8_kernels_avx512vnni, i8_kernels_avxvnni, i8_kernels_avx512bw, i8_kernels_avx2,
    i8_kernels_i8mm, i8_kernels_dotprod, i8_kernels_neon, i8_kernels_ref;

const i8_kernels *const i8_all_kernels[] = {
#ifdef I8_X86_64
#ifdef I8_AMX
    &i8_kernels_amx,
#endif
    &i8_kernels_avx512vnni,
    &i8_kernels_avxvnni,
    &i8_kernels_avx512bw,
    &i8_kernels_avx2,
#endif
#ifdef I8_AARCH64
    &i8_kernels_i8mm,
    &i8_kernels_dotprod,
    &i8_kernels_neon,
#endif
    &i8_kernels_ref,
    NULL,
};

/* Set once, while the package is imported. */
static const i8_kernels *process_default = &i8_kernels_ref;
static I8_THREAD_LOCAL const i8_kernels *thread_choice;

void i8_set_default(const i8_kernels *kernels) { process_default = kernels; }
void i8_select(const i8_kernels *kernels) { thread_choice = kernels; }
const i8_kernels *i8_selected(void) { return thread_choice; }
const i8_kernels *i8_current(void) { return thread_choice ? thread_choice : process_default; }
