/* Read and write dwords at any address, aligned or not. */
#ifndef I8_DWORDS_H
#define I8_DWORDS_H

#include <stdint.h>
#include <string.h>

#include "core/compiler.h"

I8_INLINE uint32_t i8_read32(const void *p)
{
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

I8_INLINE void i8_write32(void *p, uint32_t x) { memcpy(p, &x, 4); }

#endif
