/* units.h for AArch64: Advanced SIMD, which is part of Armv8.0. units_x86.h describes the functions. */
#include <arm_neon.h>

typedef uint8x16_t i8_unit;

I8_INLINE i8_unit i8_load_unit(const void *p) { return vld1q_u8((const uint8_t *)p); }
I8_INLINE i8_unit i8_load_half_unit(const void *p) { return vcombine_u8(vld1_u8((const uint8_t *)p), vdup_n_u8(0)); }
I8_INLINE void i8_store_unit(void *p, i8_unit x) { vst1q_u8((uint8_t *)p, x); }
I8_INLINE void i8_store_half_unit(void *p, i8_unit x) { vst1_u8((uint8_t *)p, vget_low_u8(x)); }
I8_INLINE i8_unit i8_zero_unit(void) { return vdupq_n_u8(0); }
I8_INLINE i8_unit i8_set_unit(int byte) { return vdupq_n_u8((uint8_t)byte); }
I8_INLINE i8_unit i8_unit_of_qwords(uint64_t low, uint64_t high)
{
    return vcombine_u8(vcreate_u8(low), vcreate_u8(high));
}
I8_INLINE i8_unit i8_unit_of_dwords(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return i8_unit_of_qwords(x | (uint64_t)y << 32, z | (uint64_t)w << 32);
}
I8_INLINE i8_unit i8_xor_unit(i8_unit x, i8_unit y) { return veorq_u8(x, y); }
I8_INLINE i8_unit i8_and_unit(i8_unit x, i8_unit y) { return vandq_u8(x, y); }
#define I8_ZIP(name, zip, type)                                                                                        \
    I8_INLINE i8_unit name(i8_unit x, i8_unit y) { return (i8_unit)zip((type)x, (type)y); }
I8_ZIP(i8_zip_low_8, vzip1q_u8, uint8x16_t)
I8_ZIP(i8_zip_high_8, vzip2q_u8, uint8x16_t)
I8_ZIP(i8_zip_low_16, vzip1q_u16, uint16x8_t)
I8_ZIP(i8_zip_high_16, vzip2q_u16, uint16x8_t)
I8_ZIP(i8_zip_low_32, vzip1q_u32, uint32x4_t)
I8_ZIP(i8_zip_high_32, vzip2q_u32, uint32x4_t)
I8_ZIP(i8_zip_low_64, vzip1q_u64, uint64x2_t)
I8_ZIP(i8_zip_high_64, vzip2q_u64, uint64x2_t)
#undef I8_ZIP
I8_INLINE i8_unit i8_first_bytes(const int count)
{
    return vcltq_u8(i8_unit_of_qwords(0x0706050403020100u, 0x0f0e0d0c0b0a0908u), vdupq_n_u8((uint8_t)count));
}
I8_INLINE i8_unit i8_add_bytes(i8_unit sums, i8_unit x)
{
    return (i8_unit)vpadalq_u32((uint64x2_t)sums, vpaddlq_u16(vpaddlq_u8(x)));
}
I8_INLINE i8_unit i8_add_qwords(i8_unit x, i8_unit y) { return (i8_unit)vaddq_u64((uint64x2_t)x, (uint64x2_t)y); }
I8_INLINE i8_unit i8_smaller_bytes(i8_unit x, i8_unit y) { return vminq_u8(x, y); }
I8_INLINE i8_unit i8_larger_bytes(i8_unit x, i8_unit y) { return vmaxq_u8(x, y); }

#define i8_dword_of(x, n) vgetq_lane_u32((uint32x4_t)(x), n)
I8_INLINE int i8_smallest_byte(i8_unit x) { return vminvq_u8(x); }
I8_INLINE int i8_largest_byte(i8_unit x) { return vmaxvq_u8(x); }
I8_INLINE i8_unit i8_most_of_pairs(i8_unit most, i8_unit x)
{
    return (i8_unit)vmaxq_s16((int16x8_t)most, vpaddlq_s8(vmaxq_s8((int8x16_t)x, vdupq_n_s8(0))));
}
I8_INLINE i8_unit i8_least_of_pairs(i8_unit least, i8_unit x)
{
    return (i8_unit)vminq_s16((int16x8_t)least, vpaddlq_s8(vminq_s8((int8x16_t)x, vdupq_n_s8(0))));
}
I8_INLINE int i8_largest_of_pairs(i8_unit most, i8_unit least)
{
    return vmaxvq_s16(vmaxq_s16((int16x8_t)most, vnegq_s16((int16x8_t)least)));
}
