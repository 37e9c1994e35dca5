/* Memory that begins on a cache line. From any thread. */
#ifndef I8_MEMORY_H
#define I8_MEMORY_H

#include <stddef.h>

/* `size` bytes; NULL if there are none. */
void *i8_allocate(size_t size);
/* What i8_allocate returned, or NULL, with `size` bytes, perhaps elsewhere; NULL if there are none, and then the old
 * ones stay. */
void *i8_reallocate(void *memory, size_t size);
/* Gives back what these returned, NULL included. */
void i8_free(void *memory);

/* The same for the length of a call. malloc() returns large blocks to the system and gets them anew page by page, which
 * takes longer than packing into them; so a few blocks are kept for the next calls. */
void *i8_acquire(size_t size);
void i8_release(void *memory);
/* Between these two calls, which may be nested, a thread keeps the blocks that it releases for what it acquires. Where
 * several products write to one result, none lacks memory after the first one, if that needs the most. */
void i8_hold(void);
void i8_let_go(void);
/* The same for arrays, of which a network makes large ones again and again: blocks of up to twice the size that is
 * asked for are kept, those that came last. */
void *i8_take(size_t size);
void i8_keep(void *memory);

/* Gives back the blocks that are kept. */
void i8_drop_kept(void);

#endif
