#include "workspace.h"

#include <stdint.h>
#include <stdlib.h>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#define EXCHANGE(slot, block) _InterlockedExchangePointer((void *volatile *)(slot), block)
#else
#define EXCHANGE(slot, block) __atomic_exchange_n(slot, block, __ATOMIC_ACQ_REL)
#endif

/* Concurrent calls that find a block each, and how large a block may be to be kept. */
enum { SLOTS = 4, KEPT_BYTES = 16 << 20, ALIGNMENT = 64 };

/* The last bytes of the ALIGNMENT bytes before what the caller gets. */
typedef struct {
    void *memory; /* from malloc() */
    size_t size;
} block;

static block *slots[SLOTS];

static block *header(void *memory) { return (block *)memory - 1; }

void *i8_acquire(size_t size)
{
    for (int i = 0; i < SLOTS; ++i) {
        block *kept = EXCHANGE(&slots[i], NULL);
        if (kept && kept->size >= size)
            return kept + 1;
        if (kept)
            free(kept->memory);
    }
    char *memory = malloc(size + 2 * ALIGNMENT);
    if (!memory)
        return NULL;
    char *start = (char *)(((uintptr_t)memory + 2 * ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    *header(start) = (block){memory, size};
    return start;
}

void i8_release(void *memory)
{
    if (!memory)
        return;
    block *rest = header(memory);
#ifndef __SANITIZE_ADDRESS__ /* which finds more if every block is malloc's own */
    for (int i = 0; rest && rest->size <= KEPT_BYTES && i < SLOTS; ++i)
        rest = EXCHANGE(&slots[i], rest);
#endif
    if (rest)
        free(rest->memory);
}
