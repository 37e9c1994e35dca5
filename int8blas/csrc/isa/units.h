/* Functions of units of 128 bits, for packing and transposing with any width of i8_vec. Every x86-64 and AArch64 CPU
 * has vectors of 128 bits, so code for all CPUs, such as the drivers, can use these functions too. */
#ifndef I8_UNITS_H
#define I8_UNITS_H

#include <stdint.h>
#include <string.h>

#include "core/compiler.h"

#if defined(I8_X86_64)
#define I8_UNITS 1
#include "isa/units_x86.h"
#elif defined(I8_AARCH64)
#define I8_UNITS 1
#include "isa/units_neon.h"
#endif

/* Interleave 4 vectors within units. `low` and `high` interleave elements, low_of_pairs and high_of_pairs interleave
 * pairs. Each group of four elements of a result has one element of each vector. */
#define I8_ZIP_4(type, v, low, high, low_of_pairs, high_of_pairs)                                                      \
    do {                                                                                                               \
        const type lo01 = low((v)[0], (v)[1]), hi01 = high((v)[0], (v)[1]);                                            \
        const type lo23 = low((v)[2], (v)[3]), hi23 = high((v)[2], (v)[3]);                                            \
        (v)[0] = low_of_pairs(lo01, lo23);                                                                             \
        (v)[1] = high_of_pairs(lo01, lo23);                                                                            \
        (v)[2] = low_of_pairs(hi01, hi23);                                                                             \
        (v)[3] = high_of_pairs(hi01, hi23);                                                                            \
    } while (0)

#ifdef I8_UNITS
/* Load `count` bytes, 1 to 16, and set the other bytes of the unit to 0. Read only `count` bytes. */
I8_INLINE i8_unit i8_load_first_bytes(const uint8_t *p, const int count)
{
    uint64_t low = p[0], high = 0;
    if (count == 16)
        return i8_load_unit(p);
    if (count >= 8) {
        memcpy(&low, p, 8);
        memcpy(&high, p + count - 8, 8);
        high = count > 8 ? high >> (8 * (16 - count)) : 0;
    } else if (count >= 4) {
        uint32_t first, last;
        memcpy(&first, p, 4);
        memcpy(&last, p + count - 4, 4);
        low = first | (uint64_t)last << (8 * (count - 4));
    } else if (count > 1)
        low |= (uint64_t)p[count / 2] << (8 * (count / 2)) | (uint64_t)p[count - 1] << (8 * (count - 1));
    return i8_unit_of_qwords(low, high);
}
#endif

#endif
