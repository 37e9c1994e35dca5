/* Memory for the length of a call. malloc() returns large blocks to the system and gets them anew page by page, which
 * takes longer than packing into them; so a few blocks are kept for the next calls. */
#ifndef I8_WORKSPACE_H
#define I8_WORKSPACE_H

#include <stddef.h>

/* `size` bytes, aligned to 64; NULL if there are none. From any thread. */
void *i8_acquire(size_t size);
/* Give back what i8_acquire returned, NULL included. From any thread. */
void i8_release(void *memory);

#endif
