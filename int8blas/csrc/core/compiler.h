/* Macros that hide differences between compilers: forced inlining, unrolling, thread-local storage, and code for an
 * instruction set that the rest of the program does not require. */
#ifndef I8_COMPILER_H
#define I8_COMPILER_H

#if defined(__x86_64__) || defined(_M_X64)
#define I8_X86_64 1
#endif

/* The kernels for AArch64 need a little-endian CPU, and Arm's language extensions, which Visual C does not have. */
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__AARCH64EB__)
#define I8_AARCH64 1
#endif

/* A process must request AMX from its operating system. cpu.c requests it on Linux. */
#if defined(I8_X86_64) && defined(__GNUC__) && defined(__linux__)
#define I8_AMX 1
#endif

#ifdef I8_X86_64
#include <xmmintrin.h>
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#pragma fp_contract(off) /* setup.py passes -ffp-contract=off to GCC and Clang */
#define I8_INLINE static __forceinline
#define I8_NOINLINE static __declspec(noinline)
#define I8_THREAD_LOCAL __declspec(thread)
#define I8_PRAGMA(x) __pragma(x)
#define I8_UNROLL
#ifdef I8_X86_64
#define I8_PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define I8_PREFETCH_L2(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)
#else
#define I8_PREFETCH(p) (void)(p)
#define I8_PREFETCH_L2(p) (void)(p)
#endif
#define I8_PREFETCH_WRITE(p) I8_PREFETCH(p)
#else
#define I8_INLINE static inline __attribute__((always_inline))
#define I8_NOINLINE static __attribute__((noinline))
#define I8_THREAD_LOCAL __thread
#define I8_PRAGMA(x) _Pragma(#x)
#define I8_PREFETCH(p) __builtin_prefetch(p)
#define I8_PREFETCH_L2(p) __builtin_prefetch(p, 0, 2)
#define I8_PREFETCH_WRITE(p) __builtin_prefetch(p, 1)
#if defined(__clang__)
#define I8_UNROLL I8_PRAGMA(clang loop unroll(full))
#else
#define I8_UNROLL I8_PRAGMA(GCC unroll 16)
#endif
#endif

/* Keep a vector in a register. Without I8_PIN, GCC would copy the register between accumulations. */
#if defined(__GNUC__) && defined(I8_X86_64)
#define I8_PIN(x) __asm__("" : "+v"(x))
#elif defined(I8_AARCH64)
#define I8_PIN(x) __asm__("" : "+w"((x).low), "+w"((x).high))
#else
#define I8_PIN(x) (void)(x)
#endif

/* Make the value of a pointer unknown to the compiler, without an instruction. */
#if defined(__GNUC__)
#define I8_HIDE(pointer) __asm__("" : "+r"(pointer))
#else
#define I8_HIDE(pointer) (void)(pointer)
#endif

/* Put an array into memory, without an instruction. Without I8_IN_MEMORY, GCC would keep the array in registers that
 * other values need more. */
#if defined(__GNUC__)
#define I8_IN_MEMORY(x) __asm__ volatile("" : : "r"(x) : "memory")
#else
#define I8_IN_MEMORY(x) (void)(x)
#endif

/* Set a flag that other threads may set at the same time. */
#if defined(__GNUC__)
#define I8_SET_FLAG(p) __atomic_store_n(p, 1, __ATOMIC_RELAXED)
#else
#define I8_SET_FLAG(p) (void)(*(volatile int *)(p) = 1)
#endif

/* Make streaming stores visible to other threads. */
static inline void i8_finish_streams(void)
{
#ifdef I8_X86_64
    _mm_sfence();
#endif
}

/* Unroll a loop completely. The bound of the loop is constant, and at most 16. */
#define I8_FOR(i, n) I8_UNROLL for (int i = 0; i < (n); ++i)

/* I8_TARGET_BEGIN("avx2") ... I8_TARGET_END encloses every function of a kernel file. Inline functions need the target
 * of the caller, because an always_inline function can only be inlined into a function with the same target. */
#if defined(__clang__)
#define I8_TARGET_BEGIN(isa) I8_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define I8_TARGET_END I8_PRAGMA(clang attribute pop)
#elif defined(__GNUC__)
#define I8_TARGET_BEGIN(isa) I8_PRAGMA(GCC push_options) I8_PRAGMA(GCC target(isa))
#define I8_TARGET_END I8_PRAGMA(GCC pop_options)
#else
#define I8_TARGET_BEGIN(isa)
#define I8_TARGET_END
#endif

#endif
