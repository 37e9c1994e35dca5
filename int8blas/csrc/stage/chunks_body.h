/* Chunks of 16 contiguous elements of any type, as f32. */
#include "core/copy_part.h"
#include "stage/eltwise_body.h"

/* Store a chunk. For integers store sat(rne(x)); x is not NaN. */
I8_INLINE void i8_store_chunk(i8_floats x, int type, char *c, int count)
{
    char buffer[4 * I8_CHUNK], *to = count == I8_CHUNK ? c : buffer;
    switch (type) {
    case I8_TYPE_U8: i8_floats_store_bytes((uint8_t *)to, x, 0.0f, 255.0f, 0); break;
    case I8_TYPE_S8: i8_floats_store_bytes((uint8_t *)to, x, -128.0f, 127.0f, 1); break;
    case I8_TYPE_S32: i8_floats_store_s32(to, x); break;
    case I8_TYPE_F16: i8_floats_store_f16(to, x); break;
    case I8_TYPE_BF16: i8_floats_store_bf16(to, x); break;
    default: i8_floats_store((float *)(void *)to, x);
    }
    if (to == buffer)
        i8_copy_part(c, buffer, count * (int)i8_size(type));
}

/* Load a chunk of contiguous elements, which may be unaligned, as f32. */
I8_INLINE i8_floats i8_chunk_of(const char *x, const int type)
{
    switch (type) {
    case I8_TYPE_U8: return i8_floats_from_u8((const uint8_t *)x);
    case I8_TYPE_S8: return i8_floats_from_s8((const int8_t *)x);
    case I8_TYPE_S32: return i8_floats_from((const int32_t *)(const void *)x);
    case I8_TYPE_F16: return i8_floats_from_f16(x);
    case I8_TYPE_BF16: return i8_floats_from_bf16(x);
    default: return i8_floats_load((const float *)(const void *)x);
    }
}
