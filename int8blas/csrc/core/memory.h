/* Memory that begins on a cache line. Any thread may call these functions. */
#ifndef I8_MEMORY_H
#define I8_MEMORY_H

#include <stddef.h>

/* Return `size` bytes, or NULL if there is no memory. */
void *i8_allocate(size_t size);
/* Resize a block of i8_allocate to `size` bytes, and return its new address. NULL stands for an empty block. If there
 * is no memory, return NULL and leave the old block valid. */
void *i8_reallocate(void *memory, size_t size);
/* Free a block of i8_allocate or i8_reallocate. `memory` may be NULL. */
void i8_free(void *memory);

/* Allocate and free memory for the length of a call. i8_release keeps a few blocks for later calls, because free()
 * would return large blocks to the system. Mapping large blocks again, page by page, takes longer than packing. */
void *i8_acquire(size_t size);
void i8_release(void *memory);
/* Open and close an arena scope. Scopes may be nested. Inside a scope a thread keeps its released blocks for its next
 * acquisitions. If several products write to one result in a scope, and the first product needs the most memory, only
 * the first product can fail for lack of memory. */
void i8_open_arena(void);
void i8_close_arena(void);
/* Allocate and free memory for arrays. Each run of a network makes large arrays, so i8_keep keeps the blocks that were
 * released last. A kept block serves requests of half its size or more. */
void *i8_take(size_t size);
void i8_keep(void *memory);

/* Free the kept blocks. */
void i8_drop_kept(void);

#endif
