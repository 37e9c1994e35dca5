/* Armv8.6, or Armv8.2 to 8.5 with matrix multiplication, in Cortex-A510, A710, X2, Neoverse V1, N2 and V2, Graviton 3
 * and 4, Grace, AmpereOne, Apple A15, M2 and later.
 *
 *   USDOT .4s    16 products of u8 and s8.
 *   USMMLA .4s   32 products: 2 rows of 8 u8 by 2 columns of 8 s8.
 *   USDOT and USMMLA have latency 3, or 1 from accumulator to accumulator. V1, V2 and Apple CPUs start four in each
 *   cycle, N2 starts two.
 *
 * SUDOT by element multiplies s8 by the u8 in an element of a register, which has a dword of A.
 */
#ifdef I8_AARCH64
#ifdef __clang__
#define I8_TARGET "neon,dotprod,i8mm"
#else
#define I8_TARGET "arch=armv8.2-a+dotprod+i8mm"
#endif
#include "isa/vectors_neon.h"

#include "isa/dots_neon.h"
I8_DOT_FUNCTION(i8_dot_mixed, "usdot")
I8_BY_DWORD_FUNCTION(i8_dot_by_dword, "sudot")

/* Add the products of 2 rows of 8 u8 and 2 columns of 8 s8 to acc. */
I8_INLINE int32x4_t i8_matmul(int32x4_t acc, i8_unit a, i8_unit b)
{
    __asm__("usmmla %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(a), "w"(b));
    return acc;
}

#define I8_DOT(acc, a, b) (acc) = i8_dot_mixed(acc, a, b)
#define I8_DOT_BY_DWORD(acc, a, b) (acc) = i8_dot_by_dword(acc, a, b)
#define I8_PAIRED 0
#define I8_MIXED 1
#define I8_ALIKE 1
#define I8_INTERLEAVED_BODY "gemm/matmul_body.h"
#define I8_INTERLEAVED_FLIP 0
#define I8_TUNING                                                                                                      \
    {.kc = 1024, .a_bytes = 256 << 10, .nc = 60, .thread_work = 1e6, .tiny_work = 1 << 20, .few_rows_limit = 48}
#endif
