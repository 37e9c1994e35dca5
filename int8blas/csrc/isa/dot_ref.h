/* The exact multiply-add in portable C. */
#ifndef I8_DOT_REF_H
#define I8_DOT_REF_H

#include <stdint.h>

static int32_t i8_dot4(const uint8_t *a, const int8_t *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
}

#endif
