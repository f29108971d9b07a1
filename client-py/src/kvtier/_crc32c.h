/* CRC32C (Castagnoli, reflected polynomial 0x82F63B78, initial value and final XOR 0xFFFFFFFF; RFC 3720, B.4).
 *
 * Three implementations, chosen once at load: folding with 512-bit carry-less multiplication (Gopal et al., "Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009), three interleaved streams of the
 * SSE4.2 instruction, and tables. Folding constants are computed from the polynomial, not copied. */
#ifndef KVTIER_CRC32C_H
#define KVTIER_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Chooses the implementation; call once before kvtier_crc32c. Returns its name. */
const char *kvtier_crc32c_initialise(void);

/* Chooses an implementation by name, for tests; returns 0 when this CPU lacks it. */
int kvtier_crc32c_choose(const char *name);

/* The checksum of `bytes` bytes that follow data whose checksum is `crc` (0: none before). */
uint32_t kvtier_crc32c(uint32_t crc, const void *data, size_t bytes);

/* Copies; large blocks past the caches. */
void kvtier_copy(void *destination, const void *source, size_t bytes);

/* Copies past the caches, whatever the length, and returns the checksum of the source, which must not change. Others may read the
 * copy after kvtier_stream_end.
 *
 * to: an alignment of 64
 * bytes: 256 or more, a multiple of that */
uint32_t kvtier_stream_crc32c(uint32_t crc, void *to, const void *from, size_t bytes);

void kvtier_stream_end(void);

/* Copies, and returns the checksum of what arrived at the destination, following data whose checksum is `crc`. */
uint32_t kvtier_copy_crc32c(uint32_t crc, void *destination, const void *source, size_t bytes);

#endif
