/* The list of built kernel tables, and the table that each thread uses. A table is "supported" if its function
 * `supported` returns 1, and "selected" if a thread uses it. */
#include "isa/names.h"

#define I8_ADDRESS(set) &i8_kernels_##set,
const i8_kernels *const i8_all_kernels[] = {I8_SETS(I8_ADDRESS) NULL};

/* The default table of all threads. The package sets the default once, during its import. */
static const i8_kernels *process_default = &i8_kernels_ref;
static I8_THREAD_LOCAL const i8_kernels *thread_choice;

void i8_set_default(const i8_kernels *kernels) { process_default = kernels; }
void i8_select(const i8_kernels *kernels) { thread_choice = kernels; }
const i8_kernels *i8_selected(void) { return thread_choice; }
const i8_kernels *i8_current(void) { return thread_choice ? thread_choice : process_default; }
