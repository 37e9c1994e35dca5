/* CRC-32 of many bytes. */
#ifndef I8_CHECKSUM_H
#define I8_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Reduce the first bytes of `data` to 16 bytes: the CRC-32 of `rest` from state 0 on equals the CRC-32 of the first
 * bytes from `state` on. Return the number of the first bytes: all whole blocks of 64 bytes, or 0 if this CPU has no
 * carry-less multiplication. */
size_t i8_fold_checksum(uint8_t rest[16], const uint8_t *data, size_t size, uint32_t state);

#endif
