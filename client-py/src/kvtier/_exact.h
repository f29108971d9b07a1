/* The encoding `exact` of KV blocks: bf16 without loss in about 0.76 of the bytes. ExactGranuleDescriptor.java has the layout.
 *
 * Three implementations with equal bytes, chosen once at load: AVX-512, AVX2, and plain C. */
#ifndef KVTIER_EXACT_H
#define KVTIER_EXACT_H

#include <stddef.h>
#include <stdint.h>

enum {
  EXACT_TILE_ELEMENTS = 512,
  EXACT_ELEMENTS_MULTIPLE = 128,
  EXACT_ELEMENTS_MIN = 512,
  EXACT_ELEMENTS_MAX = 16384,
  EXACT_WINDOW = 14,    /* exponents below a tile's largest, that one included, that have a code of their own */
  EXACT_CODE_ZERO = 14, /* zero or subnormal */
  EXACT_CODE_ESCAPE = 15,
  EXACT_HEADER_MULTIPLE = 16,
  EXACT_CHECKSUM_OFFSET = 0,
  EXACT_COUNT_OFFSET = 4,
  EXACT_BASES_OFFSET = 5,
};

/* Chooses the implementation; call once, after kvtier_crc32c_initialise. Returns its name. */
const char *kvtier_exact_initialise(void);

/* Chooses an implementation by name, for tests; returns 0 when this CPU lacks it. */
int kvtier_exact_choose(const char *name);

/* The bytes of an encoded granule; 0: a granule can't have that many elements. */
size_t kvtier_exact_granule_bytes(size_t elements);

/* Encodes granules, and makes the CRC32C of the encoded bytes, following data whose checksum is `*crc`.
 *
 * to: granules * kvtier_exact_granule_bytes(elements) bytes
 * from: granules * elements * 2 bytes
 * Returns how many granules were encoded: fewer than `granules` where the next one does not fit. */
size_t kvtier_exact_encode(uint32_t *crc, void *to, const void *from, size_t granules, size_t elements);

/* Decodes granules, and checks each one's checksum. Never reads or writes elsewhere, whatever the bytes are, and also when they
 * change meanwhile.
 *
 * crc: NULL, or of the data before; then also makes the CRC32C of the encoded bytes that were decoded
 * Returns how many granules were decoded: fewer than `granules` where the next one is damaged. What `to` has from there on has
 * no meaning. */
size_t kvtier_exact_decode(uint32_t *crc, void *to, const void *from, size_t granules, size_t elements);

#endif
