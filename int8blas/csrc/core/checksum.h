/* CRC-32 of many bytes. */
#ifndef I8_CHECKSUM_H
#define I8_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Reduce the whole blocks of 64 bytes of `data` to 16 bytes. The CRC-32 of `rest`, begun with state 0, equals the
 * CRC-32 of the whole blocks, begun with `state`. Return the size of the blocks in bytes, or 0 if this CPU has no
 * carry-less multiplication. */
size_t i8_fold_checksum(uint8_t rest[16], const uint8_t *data, size_t size, uint32_t state);

#endif
