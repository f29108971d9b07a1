#include "_encoding.h"

#include <string.h>

#include "_crc32c.h"
#include "_granule.h"

enum { ENCODED_BYTES_MAX = HEADER_BYTES_MAX + ELEMENTS_MAX / 2 + ELEMENTS_MAX };

/* Results of at least this size go past the caches. */
enum { STREAM_BYTES_MIN = 128 * 1024 };

static const GranuleCoder *coder_of(EncodingKind kind) {
  switch (kind) {
  case ENCODING_EXACT:
    return &kvtier_exact;
  case ENCODING_FP8:
    return &kvtier_fp8;
  default:
    return NULL;
  }
}

EncodingKind kvtier_encoding_kind(const char *name) {
  for (EncodingKind kind = ENCODING_EXACT; kind <= ENCODING_FP8; kind++) {
    if (strcmp(coder_of(kind)->name, name) == 0) {
      return kind;
    }
  }
  return ENCODING_NONE;
}

static int has_level(Level level) {
#if defined(__x86_64__)
  switch (level) {
  case LEVEL_AVX512:
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  case LEVEL_AVX2:
    return __builtin_cpu_supports("avx2");
  default:
    return 1;
  }
#else
  return level == LEVEL_PLAIN;
#endif
}

static const char *const level_names[] = {[LEVEL_PLAIN] = "plain", [LEVEL_AVX2] = "avx2", [LEVEL_AVX512] = "avx512"};

int kvtier_encoding_choose(const char *name) {
  for (int level = LEVEL_AVX512; level >= LEVEL_PLAIN; level--) {
    if (strcmp(level_names[level], name) == 0 && has_level((Level)level)) {
      kvtier_exact.choose((Level)level);
      kvtier_fp8.choose((Level)level);
      return 1;
    }
  }
  return 0;
}

const char *kvtier_encoding_initialise(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  int level = LEVEL_AVX512;
  while (!kvtier_encoding_choose(level_names[level])) {
    level--;
  }
  return level_names[level];
}

/* The coder of a kind, and the layout of its granules; NULL: there is no such kind, or no granule has that many elements. */
static const GranuleCoder *shape_of(EncodingKind kind, size_t elements, GranuleShape *shape) {
  const GranuleCoder *coder = coder_of(kind);
  if (coder == NULL || elements < ELEMENTS_MIN || elements > ELEMENTS_MAX || elements % ELEMENTS_MULTIPLE != 0) {
    return NULL;
  }
  shape->elements = elements;
  shape->tiles = (elements + TILE_ELEMENTS - 1) / TILE_ELEMENTS;
  shape->header_bytes = (elements / 64 + HEADER_MULTIPLE - 1) / HEADER_MULTIPLE * HEADER_MULTIPLE;
  shape->bytes = shape->header_bytes + coder->body_bytes(elements);
  return coder;
}

size_t kvtier_granule_bytes(EncodingKind kind, size_t elements) {
  GranuleShape shape;
  return shape_of(kind, elements, &shape) == NULL ? 0 : shape.bytes;
}

/* Stores past the caches; `to` has an alignment of 16, `bytes` are a multiple of it. */
static void stream(uint8_t *to, const uint8_t *from, size_t bytes) {
#if defined(__x86_64__)
  for (size_t at = 0; at < bytes; at += 16) {
    _mm_stream_si128((__m128i *)(to + at), _mm_loadu_si128((const __m128i *)(from + at)));
  }
#else
  memcpy(to, from, bytes);
#endif
}

size_t kvtier_encode(EncodingKind kind, uint32_t *crc, void *to, const void *from, size_t granules, size_t elements) {
  GranuleShape shape;
  const GranuleCoder *coder = shape_of(kind, elements, &shape);
  if (coder == NULL) {
    return 0;
  }
  /* The checksum is of what is stored. */
  _Alignas(LINE_BYTES) uint8_t bounce[ENCODED_BYTES_MAX];
  size_t raw_bytes = 2 * elements;
  int streamed = granules * shape.bytes >= STREAM_BYTES_MIN && (uintptr_t)to % 16 == 0;
  size_t encoded = 0;
  for (; encoded < granules; encoded++) {
    const uint8_t *granule = (const uint8_t *)from + encoded * raw_bytes;
    uint8_t *target = (uint8_t *)to + encoded * shape.bytes;
    if (!coder->encode(bounce, granule, encoded + 1 < granules ? granule + raw_bytes : NULL, &shape)) {
      break;
    }
    *crc = kvtier_crc32c(*crc, bounce, shape.bytes);
    if (streamed) {
      stream(target, bounce, shape.bytes);
    } else {
      memcpy(target, bounce, shape.bytes);
    }
  }
  kvtier_stream_end();
  return encoded;
}

size_t kvtier_decode(EncodingKind kind, uint32_t *crc, void *to, const void *from, size_t granules, size_t elements) {
  GranuleShape shape;
  const GranuleCoder *coder = shape_of(kind, elements, &shape);
  if (coder == NULL) {
    return 0;
  }
  _Alignas(LINE_BYTES) uint8_t copy[ENCODED_BYTES_MAX];
  _Alignas(LINE_BYTES) uint8_t bounce[RAW_BYTES_MAX];
  size_t raw_bytes = 2 * elements;
  int streamed = granules * raw_bytes >= STREAM_BYTES_MIN && (uintptr_t)to % LINE_BYTES == 0;
  size_t decoded = 0;
  for (; decoded < granules; decoded++) {
    const uint8_t *granule = (const uint8_t *)from + decoded * shape.bytes;
    const uint8_t *next = decoded + 1 < granules ? granule + shape.bytes : NULL;
    uint8_t *target = (uint8_t *)to + decoded * raw_bytes;
    if (crc != NULL) {
      memcpy(copy, granule, shape.bytes);
      *crc = kvtier_crc32c(*crc, copy, shape.bytes);
      granule = copy;
    }
    /* Others may write to the slot: what is checked is what is used. */
    uint8_t header[HEADER_BYTES_MAX];
    uint32_t checksum;
    memcpy(header, granule, shape.header_bytes);
    memcpy(&checksum, header + CHECKSUM_OFFSET, sizeof checksum);
    if (!coder->decode(bounce, header, granule, next, &shape)) {
      break;
    }
    if (!streamed) {
      memcpy(target, bounce, raw_bytes);
    }
    if ((streamed ? kvtier_stream_crc32c(0, target, bounce, raw_bytes) : kvtier_crc32c(0, bounce, raw_bytes)) != checksum) {
      break;
    }
  }
  kvtier_stream_end();
  return decoded;
}
