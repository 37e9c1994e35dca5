#ifndef I8_COPY_PART_H
#define I8_COPY_PART_H

#include <string.h>

#include "core/compiler.h"

/* Of `bytes` bytes, copy the first `block` and the last `block` bytes. The two blocks may overlap. */
I8_INLINE void i8_copy_ends(char *to, const char *from, int bytes, const int block)
{
    memcpy(to, from, (size_t)block);
    memcpy(to + bytes - block, from + bytes - block, (size_t)block);
}

/* Copy a few bytes, at least 1, in blocks of constant size. A call of the function memcpy would spill registers. */
I8_INLINE void i8_copy_part(char *to, const char *from, int bytes)
{
    if (bytes >= 16) {
        for (int i = 16; i < bytes - 16; i += 16)
            memcpy(to + i, from + i, 16);
        i8_copy_ends(to, from, bytes, 16);
    } else if (bytes >= 8) {
        i8_copy_ends(to, from, bytes, 8);
    } else if (bytes >= 4) {
        i8_copy_ends(to, from, bytes, 4);
    } else {
        to[bytes / 2] = from[bytes / 2];
        i8_copy_ends(to, from, bytes, 1);
    }
}

#endif
