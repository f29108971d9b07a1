/* The encodings of KV blocks: bf16 in fewer bytes. `exact` is without loss, in about 0.76 of the bytes; `fp8` is with loss, in about 0.51.
 * ExactGranuleDescriptor.java and Fp8GranuleDescriptor.java have the layouts.
 *
 * Each has three implementations with equal bytes, chosen once at load: AVX-512, AVX2, and plain C. */
#ifndef KVTIER_ENCODING_H
#define KVTIER_ENCODING_H

#include <stddef.h>
#include <stdint.h>

/* EncodingKind.java has the numbers, too. */
typedef enum { ENCODING_NONE = 0, ENCODING_EXACT = 1, ENCODING_FP8 = 2 } EncodingKind;

/* The kind of a name, such as "exact"; ENCODING_NONE: there is no such kind. */
EncodingKind kvtier_encoding_kind(const char *name);

/* Chooses the implementation; call once, after kvtier_crc32c_initialise. Returns its name. */
const char *kvtier_encoding_initialise(void);

/* Chooses an implementation by name, for tests; returns 0 when this CPU lacks it. */
int kvtier_encoding_choose(const char *name);

/* The bytes of an encoded granule; 0: there is no such kind, or a granule can't have that many elements. */
size_t kvtier_granule_bytes(EncodingKind kind, size_t elements);

/* Encodes granules, and makes the CRC32C of the encoded bytes, following data whose checksum is `*crc`.
 *
 * to: granules * kvtier_granule_bytes(kind, elements) bytes
 * from: granules * elements * 2 bytes
 * Returns how many granules were encoded: fewer than `granules` where the next one does not fit. */
size_t kvtier_encode(EncodingKind kind, uint32_t *crc, void *to, const void *from, size_t granules, size_t elements);

/* Decodes granules, and checks each one's checksum. Never reads or writes elsewhere, whatever the bytes are, and also when they
 * change meanwhile.
 *
 * crc: NULL, or of the data before; then also makes the CRC32C of the encoded bytes that were decoded
 * Returns how many granules were decoded: fewer than `granules` where the next one is damaged. What `to` has from there on has
 * no meaning. */
size_t kvtier_decode(EncodingKind kind, uint32_t *crc, void *to, const void *from, size_t granules, size_t elements);

#endif
