/* Memory that begins on a cache line. Any thread may call these functions. */
#ifndef I8_MEMORY_H
#define I8_MEMORY_H

#include <stddef.h>

/* Return `size` bytes, or NULL without memory. */
void *i8_allocate(size_t size);
/* Resize a block of i8_allocate, or NULL, to `size` bytes; it may move. Return NULL if there is no memory; the old
 * block then stays valid. */
void *i8_reallocate(void *memory, size_t size);
/* Free a block of these functions, or NULL. */
void i8_free(void *memory);

/* Allocate and free memory for the length of a call. malloc() returns large blocks to the system and requests them
 * again page by page, which takes longer than packing into them; so a few blocks are kept for later calls. */
void *i8_acquire(size_t size);
void i8_release(void *memory);
/* Open and close an arena scope; scopes may be nested. Inside it a thread keeps the blocks that it releases for its
 * next acquisitions. If several products write to one result and the first needs the most memory, no later product
 * lacks memory. */
void i8_open_arena(void);
void i8_close_arena(void);
/* Allocate and free memory for arrays. A network makes large arrays again and again, so the blocks released last are
 * kept, and serve requests of half their size or more. */
void *i8_take(size_t size);
void i8_keep(void *memory);

/* Free the kept blocks. */
void i8_drop_kept(void);

#endif
