/* Decodes and encodes granules of random and of damaged bytes, under the sanitizers: encoding_fuzz ROUNDS. All memory has exactly the
 * length that it needs. Ends with 1 where a damaged granule is taken for another one than it was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_crc32c.h"
#include "_encoding.h"

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static size_t below(size_t bound) { return (size_t)(next() >> 11) % bound; }

static void *take(size_t bytes) {
  void *memory = malloc(bytes);
  if (memory == NULL) {
    abort();
  }
  return memory;
}

/* A granule whose exponents lie near one another, with some that do not. */
static void fill(uint16_t *raw, size_t elements) {
  unsigned largest = (unsigned)below(256);
  size_t rare = below(40) + 1;
  for (size_t i = 0; i < elements; i++) {
    unsigned exponent = largest - (unsigned)below(12);
    if (below(elements / rare) == 0) {
      exponent = (unsigned)below(256);
    }
    raw[i] = (uint16_t)((next() & 0x807f) | (exponent & 0xff) << 7);
  }
}

static void damage(uint8_t *encoded, size_t bytes) {
  size_t header = bytes / 48;
  for (size_t count = below(4) + 1; count > 0; count--) {
    size_t place = below(2) == 0 ? below(header) : below(bytes);
    encoded[place] = (uint8_t)(below(3) == 0 ? 0xff : next());
  }
}

/* Decodes a whole granule; 0: it is refused, or `exact` gives another one than was encoded. */
static int decodes(EncodingKind kind, const uint16_t *raw, const uint8_t *encoded, uint16_t *back, size_t elements) {
  return kvtier_decode(kind, NULL, back, encoded, 1, elements) == 1
      && (kind != ENCODING_EXACT || memcmp(raw, back, 2 * elements) == 0);
}

static int round_of(EncodingKind kind, size_t elements) {
  size_t bytes = kvtier_granule_bytes(kind, elements);
  uint16_t *raw = take(2 * elements);
  uint16_t *given = take(2 * elements);
  uint16_t *back = take(2 * elements);
  uint8_t *encoded = take(bytes);
  uint32_t crc = 0;
  int is_good = 1;
  fill(raw, elements);
  if (kvtier_encode(kind, &crc, encoded, raw, 1, elements) == 1) {
    is_good = decodes(kind, raw, encoded, given, elements);
    damage(encoded, bytes);
    if (kvtier_decode(kind, &crc, back, encoded, 1, elements) == 1) {
      is_good &= memcmp(given, back, 2 * elements) == 0;
    }
  }
  for (size_t i = 0; i < bytes; i++) {
    encoded[i] = (uint8_t)next();
  }
  if (kvtier_decode(kind, NULL, back, encoded, 1, elements) == 1) {
    is_good = 0;
  }
  free(encoded);
  free(back);
  free(given);
  free(raw);
  return is_good;
}

int main(int count, char **words) {
  static const char *const names[] = {"plain", "avx2", "avx512"};
  static const size_t shapes[] = {512, 640, 1152, 2048, 16384};
  size_t rounds = count > 1 ? strtoul(words[1], NULL, 10) : 1000;
  kvtier_crc32c_initialise();
  kvtier_encoding_initialise();
  for (size_t i = 0; i < rounds; i++) {
    const char *name = names[i % 3];
    EncodingKind kind = i % 2 == 0 ? ENCODING_EXACT : ENCODING_FP8;
    size_t elements = i % 100 < 2 ? shapes[4] : shapes[below(4)];
    if (kvtier_encoding_choose(name) && !round_of(kind, elements)) {
      printf("round %zu with %s, kind %d, %zu elements: another granule\n", i, name, (int)kind, elements);
      return 1;
    }
  }
  return 0;
}
