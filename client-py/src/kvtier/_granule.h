/* The common parts of the coders of encoded granules. GranuleShape.java has the numbers, too. */
#ifndef KVTIER_GRANULE_H
#define KVTIER_GRANULE_H

#include <stddef.h>
#include <stdint.h>

enum {
  TILE_ELEMENTS = 512,
  ELEMENTS_MULTIPLE = 128,
  ELEMENTS_MIN = 512,
  ELEMENTS_MAX = 16384,
  HEADER_MULTIPLE = 16,
  HEADER_BYTES_MAX = ELEMENTS_MAX / 64,
  RAW_BYTES_MAX = 2 * ELEMENTS_MAX,
  CHECKSUM_OFFSET = 0, /* u32, the CRC32C of the bytes that a decoder gives */
  LINE_BYTES = 64,
};

/* A granule's layout. */
typedef struct {
  size_t elements;
  size_t tiles;
  size_t header_bytes;
  size_t bytes; /* encoded */
} GranuleShape;

/* Implementations, by the instructions that they need. */
typedef enum { LEVEL_PLAIN, LEVEL_AVX2, LEVEL_AVX512 } Level;

/* A kind of encoding. */
typedef struct {
  const char *name;

  /* Chooses an implementation that this CPU has. */
  void (*choose)(Level level);

  /* The bytes of the elements behind the header. */
  size_t (*body_bytes)(size_t elements);

  /* Encodes a granule, with its checksum. Returns 0 when it does not fit.
   *
   * next: the granule behind this one, or NULL */
  int (*encode)(uint8_t *to, const uint8_t *from, const uint8_t *next, const GranuleShape *shape);

  /* Decodes a granule. Returns 0 when the bytes are those of no granule. The source may change meanwhile.
   *
   * header: a copy of the granule's header, which is the coder's own
   * to: an alignment of LINE_BYTES */
  int (*decode)(uint8_t *to, uint8_t *header, const uint8_t *from, const uint8_t *next, const GranuleShape *shape);
} GranuleCoder;

extern const GranuleCoder kvtier_exact;
extern const GranuleCoder kvtier_fp8;

/* A granule's tile. */
typedef struct {
  size_t begin;
  size_t elements;
} Tile;

static inline Tile tile_of(const GranuleShape *shape, size_t index) {
  size_t begin = index * TILE_ELEMENTS;
  size_t left = shape->elements - begin;
  return (Tile){begin, left < TILE_ELEMENTS ? left : TILE_ELEMENTS};
}

/* Processors do not fetch ahead over the end of a page, where the next granule often begins: a part of it is fetched beside each
 * tile of the granule before. */
static inline void prefetch(const uint8_t *next, size_t bytes, const GranuleShape *shape, size_t tile) {
  for (size_t at = bytes * tile / shape->tiles; next != NULL && at < bytes * (tile + 1) / shape->tiles; at += LINE_BYTES) {
    __builtin_prefetch(next + at, 0, 3);
  }
}

/* ---- the largest magnitude of a tile: the bits of an element without its sign ---- */

static inline unsigned most_plain(const uint16_t *from, size_t elements) {
  uint16_t most = 0;
  for (size_t i = 0; i < elements; i++) {
    uint16_t magnitude = from[i] & 0x7fff;
    most = magnitude > most ? magnitude : most;
  }
  return most;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Elements of a step. */
enum { STEP = 32 };

#define AVX2_TARGET __attribute__((target("avx2")))
#define AVX512_TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))

AVX2_TARGET static inline unsigned most_of_8(__m128i some) {
  /* The instruction finds the least: of the complements, the largest. */
  unsigned least = (unsigned)_mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(some, _mm_set1_epi16(-1))), 0);
  return ~least & 0x7fff;
}

AVX2_TARGET static inline unsigned most_avx2(const uint16_t *from, size_t elements) {
  const __m256i magnitude = _mm256_set1_epi16(0x7fff);
  __m256i a = _mm256_setzero_si256();
  __m256i b = a;
  for (size_t i = 0; i < elements; i += STEP) {
    a = _mm256_max_epu16(a, _mm256_and_si256(magnitude, _mm256_loadu_si256((const __m256i *)(from + i))));
    b = _mm256_max_epu16(b, _mm256_and_si256(magnitude, _mm256_loadu_si256((const __m256i *)(from + i + 16))));
  }
  a = _mm256_max_epu16(a, b);
  return most_of_8(_mm_max_epu16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)));
}

AVX512_TARGET static inline unsigned most_avx512(const uint16_t *from, size_t elements) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  __m512i a = _mm512_setzero_si512();
  __m512i b = a;
  for (size_t i = 0; i < elements; i += 2 * STEP) {
    a = _mm512_max_epu16(a, _mm512_and_si512(magnitude, _mm512_loadu_si512(from + i)));
    b = _mm512_max_epu16(b, _mm512_and_si512(magnitude, _mm512_loadu_si512(from + i + STEP)));
  }
  a = _mm512_max_epu16(a, b);
  __m256i half = _mm256_max_epu16(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
  return most_of_8(_mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}

#endif

#endif
