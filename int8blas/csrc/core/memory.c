#if defined(__linux__)
#define _DEFAULT_SOURCE /* madvise() */
#include <sys/mman.h>
#endif

#include "core/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#define EXCHANGE(slot, block) _InterlockedExchangePointer((void *volatile *)(slot), block)
#define COUNT(counter) ((unsigned)_InterlockedIncrement((volatile long *)(counter)))
#define THREAD_LOCAL __declspec(thread)
#else
#define EXCHANGE(slot, block) __atomic_exchange_n(slot, block, __ATOMIC_ACQ_REL)
#define COUNT(counter) __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED)
#define THREAD_LOCAL _Thread_local
#endif

/* ALIGNMENT is the size of a cache line. i8_release keeps up to SLOTS blocks of at most KEPT_BYTES for later calls. A
 * thread keeps up to HELD blocks in an arena scope. Blocks of HUGE_BYTES, NumPy's limit, or more request huge
 * pages. i8_keep keeps up to ARRAY_SLOTS blocks of ARRAY_BYTES or more for arrays, because malloc() keeps only smaller
 * blocks. */
enum {
    ALIGNMENT = 64,
    SLOTS = 4,
    KEPT_BYTES = 16 << 20,
    HELD = 4,
    HUGE_BYTES = 4 << 20,
    ARRAY_SLOTS = 16,
    ARRAY_BYTES = 1 << 17
};

/* The header of a block, in the last bytes before the caller's memory. */
typedef struct {
    void *memory; /* from malloc() */
    size_t size;
} block;

static block *slots[SLOTS], *array_slots[ARRAY_SLOTS];

/* The state of a thread: its number (0 until the thread first needs one), the number of its open arena scopes, and the
 * blocks that it released in these scopes, in order of release. */
static THREAD_LOCAL struct {
    unsigned number;
    int scopes, count;
    block *held[HELD];
} own;

static block *header(void *memory) { return (block *)memory - 1; }

/* Return slot i, counted from the slot of the thread. A thread searches its own slot first, because the block in this
 * slot is in the caches of the thread's core. */
static block **slot(int i)
{
    static unsigned threads;
    if (!own.number)
        own.number = COUNT(&threads);
    return &slots[(own.number - 1 + (unsigned)i) % SLOTS];
}

/* Request huge pages. The system may ignore the request. */
static void use_huge_pages(char *memory, size_t size)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t page = 4096;
    char *first = (char *)(((uintptr_t)memory + page - 1) & ~(page - 1));
    if (size >= HUGE_BYTES)
        madvise(first, (size_t)(memory + size - first), MADV_HUGEPAGE);
#else
    (void)memory, (void)size;
#endif
}

void *i8_allocate(size_t size)
{
    const size_t extra = 2 * ALIGNMENT;
    char *memory = size <= SIZE_MAX - extra ? malloc(size + extra) : NULL;
    if (!memory)
        return NULL;
    use_huge_pages(memory, size + extra);
    char *start = (char *)(((uintptr_t)memory + extra - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    *header(start) = (block){memory, size};
    return start;
}

void *i8_reallocate(void *memory, size_t size)
{
    char *moved = i8_allocate(size);
    if (moved && memory) {
        size_t before = header(memory)->size;
        memcpy(moved, memory, before < size ? before : size);
        i8_free(memory);
    }
    return moved;
}

void i8_free(void *memory)
{
    if (memory)
        free(header(memory)->memory);
}

/* Return the index of the smallest block in the arena scope with at least `size` bytes, or -1. */
static int held_place(size_t size)
{
    int best = -1;
    for (int i = 0; i < own.count; ++i)
        if (own.held[i]->size >= size && (best < 0 || own.held[i]->size < own.held[best]->size))
            best = i;
    return best;
}

static block *take_held(int place)
{
    block *found = own.held[place];
    for (--own.count; place < own.count; ++place)
        own.held[place] = own.held[place + 1];
    return found;
}

/* Keep a block in the arena scope, and return NULL. If the scope has no place left, return the smallest block instead
 * of keeping it. */
static block *put_held(block *released)
{
    block *rest = NULL;
    if (own.count == HELD) {
        const int least = held_place(0);
        if (released->size <= own.held[least]->size)
            return released;
        rest = take_held(least);
    }
    own.held[own.count++] = released;
    return rest;
}

void i8_open_arena(void) { ++own.scopes; }

void i8_close_arena(void)
{
    if (--own.scopes > 0)
        return;
    /* Release the blocks in the order in which the thread released them, so that the next call first finds the block
     * that was released last. */
    while (own.count)
        i8_release(take_held(0) + 1);
}

void *i8_acquire(size_t size)
{
    const int place = own.scopes ? held_place(size) : -1;
    if (place >= 0)
        return take_held(place) + 1;
    for (int i = 0; i < SLOTS; ++i) {
        block *kept = EXCHANGE(slot(i), NULL);
        if (!kept)
            continue;
        if (kept->size >= size)
            return kept + 1;
        i8_free(kept + 1);
        break;
    }
    return i8_allocate(size);
}

void i8_drop_kept(void)
{
    for (int i = 0; i < SLOTS + ARRAY_SLOTS; ++i) {
        block *kept = EXCHANGE(i < SLOTS ? &slots[i] : &array_slots[i - SLOTS], NULL);
        if (kept)
            i8_free(kept + 1);
    }
}

void i8_release(void *memory)
{
    if (!memory)
        return;
    block *rest = header(memory);
#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer finds more errors if every block comes from malloc */
    if (own.scopes)
        rest = put_held(rest);
    for (int i = 0; rest && rest->size <= KEPT_BYTES && i < SLOTS; ++i)
        rest = EXCHANGE(slot(i), rest);
#endif
    if (rest)
        i8_free(rest + 1);
}

void *i8_take(size_t size)
{
    for (int i = 0; size >= ARRAY_BYTES && i < ARRAY_SLOTS; ++i) {
        block *kept = EXCHANGE(&array_slots[i], NULL);
        if (kept && kept->size >= size && kept->size / 2 <= size)
            return kept + 1;
        kept = kept ? EXCHANGE(&array_slots[i], kept) : NULL;
        if (kept) /* another thread has just stored a block in this slot */
            i8_free(kept + 1);
    }
    return i8_allocate(size);
}

void i8_keep(void *memory)
{
    block *rest = memory ? header(memory) : NULL;
#ifndef __SANITIZE_ADDRESS__
    if (rest && rest->size >= ARRAY_BYTES && rest->size <= KEPT_BYTES)
        for (int i = 0; rest && i < ARRAY_SLOTS; ++i)
            rest = EXCHANGE(&array_slots[i], rest);
#endif
    if (rest)
        i8_free(rest + 1);
}
