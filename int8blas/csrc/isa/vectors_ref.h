/* The "width" of portable C: plain loops, which the compiler compiles for the oldest CPU of the target. */
#include <math.h>
#include <string.h>

#include "stage/eltwise_body.h"

/* Portable C is compiled for the target of the whole program. */
#undef I8_TARGET_END
#define I8_TARGET_END

#define I8_WIDTH_NAME ref
#define I8_LANES 1
#define I8_MR 4
#define I8_NP 1
#define I8_ROW_NP I8_NP

/* A chunk of 16 f32, with the functions i8_floats_* of vectors_avx512.h. */
typedef struct {
    float lane[I8_CHUNK];
} i8_floats;

#define I8_LANEWISE(expression)                                                                                        \
    i8_floats result;                                                                                                  \
    for (int v = 0; v < I8_CHUNK; ++v)                                                                                 \
        result.lane[v] = (expression);                                                                                 \
    return result
static inline i8_floats i8_floats_load(const float *p) /* p may be unaligned */
{
    i8_floats result;
    memcpy(&result, p, sizeof result);
    return result;
}
static inline i8_floats i8_floats_load_some(const float *p, int count)
{
    i8_floats result = {{0}};
    memcpy(&result, p, (size_t)count * sizeof(*p));
    return result;
}
static inline i8_floats i8_floats_from(const int32_t *p) /* p may be unaligned */
{
    int32_t words[I8_CHUNK];
    memcpy(words, p, sizeof words);
    I8_LANEWISE((float)words[v]);
}
static inline i8_floats i8_floats_minus(const int32_t *p, int32_t largest)
{
    int32_t words[I8_CHUNK];
    memcpy(words, p, sizeof words);
    /* A difference of 0 must be +0. GCC 12 would turn 0.0f - x into -x, which gives -0. */
    I8_LANEWISE(words[v] == largest ? 0.0f : -(float)((uint32_t)largest - (uint32_t)words[v]));
}
static inline i8_floats i8_floats_from_u8(const uint8_t *p) { I8_LANEWISE((float)p[v]); }
static inline i8_floats i8_floats_from_s8(const int8_t *p) { I8_LANEWISE((float)p[v]); }
static inline uint16_t i8_half_at(const char *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return half;
}
static inline i8_floats i8_floats_from_f16(const char *p) { I8_LANEWISE(i8_from_half(i8_half_at(p + 2 * v))); }
static inline i8_floats i8_floats_from_bf16(const char *p) { I8_LANEWISE(i8_from_bfloat(i8_half_at(p + 2 * v))); }
static inline i8_floats i8_floats_from_less(const int32_t *p, int32_t a, const int32_t *q)
{
    I8_LANEWISE((float)(int32_t)((uint32_t)p[v] - (uint32_t)a * (uint32_t)q[v]));
}
static inline i8_floats i8_floats_from_difference(const int32_t *p, const int32_t *q)
{
    I8_LANEWISE((float)(int32_t)((uint32_t)p[v] - (uint32_t)q[v]));
}
static inline i8_floats i8_floats_set(float x) { I8_LANEWISE(x); }
static inline i8_floats i8_floats_add(i8_floats x, i8_floats y) { I8_LANEWISE(x.lane[v] + y.lane[v]); }
static inline i8_floats i8_floats_sub(i8_floats x, i8_floats y) { I8_LANEWISE(x.lane[v] - y.lane[v]); }
static inline i8_floats i8_floats_mul(i8_floats x, i8_floats y) { I8_LANEWISE(x.lane[v] * y.lane[v]); }
static inline i8_floats i8_floats_min(i8_floats x, i8_floats y)
{
    I8_LANEWISE(x.lane[v] < y.lane[v] ? x.lane[v] : y.lane[v]);
}
static inline i8_floats i8_floats_max(i8_floats x, i8_floats y)
{
    I8_LANEWISE(x.lane[v] > y.lane[v] ? x.lane[v] : y.lane[v]);
}
static inline float i8_floats_sum(i8_floats x)
{
    for (int width = I8_CHUNK / 2; width > 0; width /= 2)
        for (int v = 0; v < width; ++v)
            x.lane[v] += x.lane[v + width];
    return x.lane[0];
}
static inline float i8_floats_top(i8_floats x)
{
    for (int v = 1; v < I8_CHUNK; ++v)
        x.lane[0] = x.lane[v] > x.lane[0] ? x.lane[v] : x.lane[0];
    return x.lane[0];
}
static inline i8_floats i8_floats_largest(i8_floats x, i8_floats y)
{
    I8_LANEWISE(fabsf(y.lane[v]) <= x.lane[v] || x.lane[v] != x.lane[v] ? x.lane[v] : fabsf(y.lane[v]));
}
static inline float i8_floats_top_magnitude(i8_floats x)
{
    for (int v = 1; v < I8_CHUNK; ++v)
        x.lane[0] = x.lane[v] <= x.lane[0] || x.lane[0] != x.lane[0] ? x.lane[0] : x.lane[v];
    return x.lane[0];
}
static inline i8_floats i8_floats_relu(i8_floats x) { I8_LANEWISE(x.lane[v] < 0 ? 0.0f : x.lane[v]); }
static inline i8_floats i8_floats_ordered(i8_floats x) { I8_LANEWISE(x.lane[v] == x.lane[v] ? x.lane[v] : 0.0f); }
static inline void i8_floats_store(float *p, i8_floats x) { memcpy(p, &x, sizeof(x)); }
static inline void i8_floats_store_rounded(uint8_t *p, i8_floats x, uint8_t flip)
{
    for (int v = 0; v < I8_CHUNK; ++v)
        p[v] = (uint8_t)(int32_t)rintf(x.lane[v]) ^ flip;
}
static inline void i8_floats_store_bytes(uint8_t *p, i8_floats x, float low, float high, int is_signed)
{
    (void)is_signed;
    for (int v = 0; v < I8_CHUNK; ++v) {
        const float y = x.lane[v] < high ? x.lane[v] : high;
        p[v] = (uint8_t)(int32_t)rintf(y > low ? y : low);
    }
}
static inline void i8_floats_store_f16(char *p, i8_floats x)
{
    uint16_t halves[I8_CHUNK];
    I8_EACH halves[v] = i8_to_half(x.lane[v]);
    memcpy(p, halves, sizeof halves);
}
static inline void i8_floats_store_bf16(char *p, i8_floats x)
{
    uint16_t halves[I8_CHUNK];
    I8_EACH halves[v] = i8_to_bfloat(x.lane[v]);
    memcpy(p, halves, sizeof halves);
}
static inline void i8_floats_store_s32(char *p, i8_floats x)
{
    int32_t words[I8_CHUNK];
    I8_EACH
    {
        const float y = x.lane[v] > -0x1p31f ? x.lane[v] : -0x1p31f;
        words[v] = y < 0x1p31f ? (int32_t)rintf(y) : INT32_MAX;
    }
    memcpy(p, words, sizeof words);
}
