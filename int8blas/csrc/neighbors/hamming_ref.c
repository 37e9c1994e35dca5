/* Hamming distances of packed bits in portable C. */
#include "isa/names.h"

#include <string.h>

static uint32_t count_bits(uint32_t x)
{
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

void i8_hamming_ref(const i8_hamming_args *t)
{
    for (int64_t j = 0; j < t->columns; j += I8_PANEL) {
        const int8_t *panel = t->panels + j * t->groups * I8_GROUP;
        const int64_t columns = t->columns - j < I8_PANEL ? t->columns - j : I8_PANEL;
        for (int64_t i = 0; i < t->rows; ++i) {
            uint32_t sums[I8_PANEL] = {0};
            for (int64_t g = 0; g < t->groups; ++g) {
                uint32_t x, y[I8_PANEL];
                memcpy(&x, t->x + i * t->x_row + g * I8_GROUP, sizeof x);
                memcpy(y, panel + g * I8_PANEL * I8_GROUP, sizeof y);
                for (int v = 0; v < I8_PANEL; ++v)
                    sums[v] += count_bits(x ^ y[v]);
            }
            for (int64_t v = 0; v < columns; ++v)
                t->dst[i * t->dst_row + j + v] = (int32_t)sums[v] ^ t->flip;
        }
    }
}
