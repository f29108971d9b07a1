/* The encoding `exact`: ExactGranuleDescriptor.java has the layout. */
#include <string.h>

#include "_crc32c.h"
#include "_granule.h"

enum {
  EXACT_WINDOW = 14,    /* exponents below a tile's largest, that one included, that have a code of their own */
  EXACT_CODE_ZERO = 14, /* zero or subnormal */
  EXACT_CODE_ESCAPE = 15,
  EXACT_COUNT_OFFSET = 4,
  EXACT_BASES_OFFSET = 5,
};

_Static_assert(HEADER_BYTES_MAX - EXACT_BASES_OFFSET - ELEMENTS_MAX / TILE_ELEMENTS <= UINT8_MAX,
    "a byte counts the escapes");

/* Escapes of a granule: those that were read, or written, so far. */
typedef struct {
  uint8_t *exponents;
  size_t count;
  size_t max;
} Escapes;

/* Encodes a tile. Returns 0 when the escapes do not fit. The source may change meanwhile. */
typedef int (*encode_function)(
    uint8_t *codes, uint8_t *signs, uint8_t *base, Escapes *escapes, const uint16_t *from, size_t elements);

/* Decodes a tile. Returns 0 when it has more escapes than there are. */
typedef int (*decode_function)(
    uint16_t *to, Escapes *escapes, const uint8_t *codes, const uint8_t *signs, uint8_t base, size_t elements);

static encode_function encode_tile;
static decode_function decode_tile;

static size_t escapes_max(const GranuleShape *shape) {
  return shape->header_bytes - EXACT_BASES_OFFSET - shape->tiles;
}

/* ---- plain C, which the compiler makes vectors of where it can ---- */

static inline unsigned exponent_of(uint16_t element) { return element >> 7 & 0xff; }

static int encode_plain(
    uint8_t *codes, uint8_t *signs, uint8_t *base, Escapes *escapes, const uint16_t *from, size_t elements) {
  unsigned largest = most_plain(from, elements) >> 7;
  uint8_t wide[TILE_ELEMENTS];
  uint8_t exponents[TILE_ELEMENTS];
  unsigned escaped = 0;
  for (size_t i = 0; i < elements; i++) {
    uint16_t element = from[i];
    uint8_t exponent = (uint8_t)(element >> 7);
    uint8_t distance = (uint8_t)(largest - exponent);
    uint8_t code = distance >= EXACT_WINDOW ? EXACT_CODE_ESCAPE : distance;
    code = exponent == 0 ? EXACT_CODE_ZERO : code;
    signs[i] = (uint8_t)((element >> 8 & 0x80) | (element & 0x7f));
    exponents[i] = exponent;
    wide[i] = code;
    escaped += code == EXACT_CODE_ESCAPE;
  }
  for (size_t i = 0; i < elements / 2; i++) {
    codes[i] = (uint8_t)(wide[2 * i] | wide[2 * i + 1] << 4);
  }
  *base = (uint8_t)largest;
  if (escaped > escapes->max - escapes->count) {
    return 0;
  }
  for (size_t i = 0; escaped > 0; i++) {
    if (wide[i] == EXACT_CODE_ESCAPE) {
      escapes->exponents[escapes->count++] = exponents[i];
      escaped--;
    }
  }
  return 1;
}

static int decode_plain(
    uint16_t *to, Escapes *escapes, const uint8_t *codes, const uint8_t *signs, uint8_t base, size_t elements) {
  uint8_t wide[TILE_ELEMENTS];
  for (size_t i = 0; i < elements / 2; i++) {
    uint8_t pair = codes[i];
    wide[2 * i] = pair & 15;
    wide[2 * i + 1] = pair >> 4;
  }
  unsigned escaped = 0;
  for (size_t i = 0; i < elements; i++) {
    uint8_t code = wide[i];
    uint8_t sign = signs[i];
    uint8_t exponent = code >= EXACT_CODE_ZERO ? 0 : (uint8_t)(base - code);
    to[i] = (uint16_t)((sign & 0x80) << 8 | exponent << 7 | (sign & 0x7f));
    escaped += code == EXACT_CODE_ESCAPE;
  }
  if (escaped > escapes->max - escapes->count) {
    return 0;
  }
  for (size_t i = 0; escaped > 0; i++) {
    if (wide[i] == EXACT_CODE_ESCAPE) {
      to[i] = (uint16_t)(to[i] | escapes->exponents[escapes->count++] << 7);
      escaped--;
    }
  }
  return 1;
}

/* Which elements of 32 are escapes: their exponents are appended, or put in their places. */
static inline int append_escapes(Escapes *escapes, uint32_t mask, const uint16_t *elements) {
  for (; mask != 0; mask &= mask - 1) {
    if (escapes->count == escapes->max) {
      return 0;
    }
    escapes->exponents[escapes->count++] = (uint8_t)exponent_of(elements[__builtin_ctz(mask)]);
  }
  return 1;
}

static inline int place_escapes(Escapes *escapes, uint32_t mask, uint16_t *elements) {
  for (; mask != 0; mask &= mask - 1) {
    if (escapes->count == escapes->max) {
      return 0;
    }
    elements[__builtin_ctz(mask)] |= (uint16_t)(escapes->exponents[escapes->count++] << 7);
  }
  return 1;
}

#if defined(__x86_64__)

/* ---- AVX2 ---- */

/* The low bytes of two vectors of 16 elements, in order. */
AVX2_TARGET static inline __m256i bytes_of(__m256i a, __m256i b) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
}

AVX2_TARGET static int encode_avx2(
    uint8_t *codes, uint8_t *signs, uint8_t *base, Escapes *escapes, const uint16_t *from, size_t elements) {
  *base = (uint8_t)(most_avx2(from, elements) >> 7);
  const __m256i low = _mm256_set1_epi16(0xff);
  const __m256i mantissa = _mm256_set1_epi16(0x7f);
  const __m256i sign = _mm256_set1_epi16(0x80);
  const __m256i window = _mm256_set1_epi8(EXACT_WINDOW);
  const __m256i largest = _mm256_set1_epi8((char)*base);
  const __m256i pairs = _mm256_set1_epi16(0x1001); /* 1 and 16 */
  for (size_t i = 0; i < elements; i += STEP) {
    _Alignas(32) uint16_t seen[STEP];
    __m256i a = _mm256_loadu_si256((const __m256i *)(from + i));
    __m256i b = _mm256_loadu_si256((const __m256i *)(from + i + 16));
    __m256i exponents =
        bytes_of(_mm256_and_si256(_mm256_srli_epi16(a, 7), low), _mm256_and_si256(_mm256_srli_epi16(b, 7), low));
    __m256i rest = bytes_of(
        _mm256_or_si256(_mm256_and_si256(a, mantissa), _mm256_and_si256(_mm256_srli_epi16(a, 8), sign)),
        _mm256_or_si256(_mm256_and_si256(b, mantissa), _mm256_and_si256(_mm256_srli_epi16(b, 8), sign)));
    __m256i distance = _mm256_sub_epi8(largest, exponents);
    __m256i far = _mm256_cmpeq_epi8(_mm256_max_epu8(distance, window), distance);
    __m256i zero = _mm256_cmpeq_epi8(exponents, _mm256_setzero_si256());
    __m256i code = _mm256_or_si256(distance, _mm256_and_si256(far, _mm256_set1_epi8(EXACT_CODE_ESCAPE)));
    code = _mm256_and_si256(code, _mm256_set1_epi8(15));
    code = _mm256_blendv_epi8(code, _mm256_set1_epi8(EXACT_CODE_ZERO), zero);
    _mm256_storeu_si256((__m256i *)(signs + i), rest);
    __m256i packed = _mm256_maddubs_epi16(code, pairs);
    packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(packed, packed), 0xd8);
    _mm_storeu_si128((__m128i *)(codes + i / 2), _mm256_castsi256_si128(packed));
    uint32_t escaped = (uint32_t)_mm256_movemask_epi8(_mm256_andnot_si256(zero, far));
    if (escaped != 0) {
      _mm256_store_si256((__m256i *)seen, a);
      _mm256_store_si256((__m256i *)(seen + 16), b);
      if (!append_escapes(escapes, escaped, seen)) {
        return 0;
      }
    }
  }
  return 1;
}

AVX2_TARGET static int decode_avx2(
    uint16_t *to, Escapes *escapes, const uint8_t *codes, const uint8_t *signs, uint8_t base, size_t elements) {
  /* By code, the upper seven bits of the exponent and, in the highest bit, the lowest one. */
  _Alignas(16) uint8_t upper[16];
  _Alignas(16) uint8_t lower[16];
  for (unsigned code = 0; code < 16; code++) {
    uint8_t exponent = code < EXACT_WINDOW ? (uint8_t)(base - code) : 0;
    upper[code] = exponent >> 1;
    lower[code] = (uint8_t)(exponent << 7);
  }
  const __m256i uppers = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)upper));
  const __m256i lowers = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)lower));
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i mantissa = _mm256_set1_epi8(0x7f);
  for (size_t i = 0; i < elements; i += STEP) {
    __m256i pair = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(codes + i / 2)));
    __m256i code = _mm256_and_si256(_mm256_or_si256(pair, _mm256_slli_epi16(pair, 4)), nibble);
    __m256i rest = _mm256_loadu_si256((const __m256i *)(signs + i));
    __m256i high = _mm256_or_si256(_mm256_shuffle_epi8(uppers, code), _mm256_andnot_si256(mantissa, rest));
    __m256i low = _mm256_or_si256(_mm256_shuffle_epi8(lowers, code), _mm256_and_si256(mantissa, rest));
    __m256i even = _mm256_unpacklo_epi8(low, high);
    __m256i odd = _mm256_unpackhi_epi8(low, high);
    _mm256_storeu_si256((__m256i *)(to + i), _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(to + i + 16), _mm256_permute2x128_si256(even, odd, 0x31));
    uint32_t escaped = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(code, nibble));
    if (escaped != 0 && !place_escapes(escapes, escaped, to + i)) {
      return 0;
    }
  }
  return 1;
}

/* ---- AVX-512 ---- */

AVX512_TARGET static int encode_avx512(
    uint8_t *codes, uint8_t *signs, uint8_t *base, Escapes *escapes, const uint16_t *from, size_t elements) {
  *base = (uint8_t)(most_avx512(from, elements) >> 7);
  const __m512i byte = _mm512_set1_epi16(0xff);
  const __m512i largest = _mm512_set1_epi16(*base);
  const __m512i window = _mm512_set1_epi16(EXACT_WINDOW);
  const __m512i escape = _mm512_set1_epi16(EXACT_CODE_ESCAPE);
  const __m512i zero = _mm512_set1_epi16(EXACT_CODE_ZERO);
  for (size_t i = 0; i < elements; i += STEP) {
    __m512i element = _mm512_loadu_si512(from + i);
    __m512i exponent = _mm512_and_si512(_mm512_srli_epi16(element, 7), byte);
    __m512i distance = _mm512_sub_epi16(largest, exponent);
    __mmask32 far = _mm512_cmpge_epu16_mask(distance, window);
    __mmask32 none = _mm512_testn_epi16_mask(exponent, exponent);
    __m512i code = _mm512_mask_mov_epi16(_mm512_mask_mov_epi16(distance, far, escape), none, zero);
    /* The sign beside the mantissa: (element & 0x7f) | (element >> 8 & 0x80). */
    __m512i rest = _mm512_ternarylogic_epi64(
        element, _mm512_srli_epi16(element, 8), _mm512_set1_epi16(0x7f), 0xe4 /* c ? a : b */);
    _mm256_storeu_si256((__m256i *)(signs + i), _mm512_cvtepi16_epi8(rest));
    __m512i pairs = _mm512_or_si512(code, _mm512_srli_epi32(code, 12));
    _mm_storeu_si128((__m128i *)(codes + i / 2), _mm512_cvtepi32_epi8(pairs));
    uint32_t escaped = far & ~none;
    if (escaped != 0) {
      _Alignas(64) uint16_t seen[STEP];
      _mm512_store_si512(seen, element);
      if (!append_escapes(escapes, escaped, seen)) {
        return 0;
      }
    }
  }
  return 1;
}

AVX512_TARGET static int decode_avx512(
    uint16_t *to, Escapes *escapes, const uint8_t *codes, const uint8_t *signs, uint8_t base, size_t elements) {
  _Alignas(64) uint16_t exponents[STEP];
  for (unsigned code = 0; code < STEP; code++) {
    exponents[code] = code < EXACT_WINDOW ? (uint16_t)((uint8_t)(base - code) << 7) : 0;
  }
  const __m512i table = _mm512_load_si512(exponents);
  const __m512i nibbles = _mm512_set1_epi32(0x000f000f);
  const __m512i kept = _mm512_set1_epi16((short)0x807f);
  const __m512i escape = _mm512_set1_epi16(EXACT_CODE_ESCAPE);
  for (size_t i = 0; i < elements; i += STEP) {
    __m512i pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(codes + i / 2)));
    __m512i code = _mm512_ternarylogic_epi32(pairs, _mm512_slli_epi32(pairs, 12), nibbles, 0xa8 /* (a | b) & c */);
    __m512i rest = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(signs + i)));
    rest = _mm512_or_si512(rest, _mm512_slli_epi16(rest, 8));
    __m512i element = _mm512_ternarylogic_epi32(
        rest, kept, _mm512_permutexvar_epi16(code, table), 0xea /* (a & b) | c */);
    _mm512_storeu_si512(to + i, element);
    uint32_t escaped = _mm512_cmpeq_epi16_mask(code, escape);
    if (escaped != 0 && !place_escapes(escapes, escaped, to + i)) {
      return 0;
    }
  }
  return 1;
}

#endif

static void choose(Level level) {
  encode_tile = encode_plain;
  decode_tile = decode_plain;
#if defined(__x86_64__)
  if (level != LEVEL_PLAIN) {
    encode_tile = level == LEVEL_AVX512 ? encode_avx512 : encode_avx2;
    decode_tile = level == LEVEL_AVX512 ? decode_avx512 : decode_avx2;
  }
#else
  (void)level;
#endif
}

/* ---- granules ---- */

static size_t body_bytes(size_t elements) { return elements / 2 + elements; }

static int encode(uint8_t *to, const uint8_t *from, const uint8_t *next, const GranuleShape *shape) {
  uint8_t *codes = to + shape->header_bytes;
  uint8_t *signs = codes + shape->elements / 2;
  memset(to, 0, shape->header_bytes);
  Escapes escapes = {to + EXACT_BASES_OFFSET + shape->tiles, 0, escapes_max(shape)};
  for (size_t i = 0; i < shape->tiles; i++) {
    Tile tile = tile_of(shape, i);
    prefetch(next, 2 * shape->elements, shape, i);
    if (!encode_tile(codes + tile.begin / 2, signs + tile.begin, to + EXACT_BASES_OFFSET + i, &escapes,
            (const uint16_t *)(const void *)(from + 2 * tile.begin), tile.elements)) {
      return 0;
    }
  }
  uint32_t checksum = kvtier_crc32c(0, from, 2 * shape->elements);
  memcpy(to + CHECKSUM_OFFSET, &checksum, sizeof checksum);
  to[EXACT_COUNT_OFFSET] = (uint8_t)escapes.count;
  return 1;
}

static int decode(uint8_t *to, uint8_t *header, const uint8_t *from, const uint8_t *next, const GranuleShape *shape) {
  const uint8_t *codes = from + shape->header_bytes;
  const uint8_t *signs = codes + shape->elements / 2;
  Escapes escapes = {header + EXACT_BASES_OFFSET + shape->tiles, 0, header[EXACT_COUNT_OFFSET]};
  if (escapes.max > escapes_max(shape)) {
    return 0;
  }
  for (size_t i = 0; i < shape->tiles; i++) {
    Tile tile = tile_of(shape, i);
    prefetch(next, shape->bytes, shape, i);
    if (!decode_tile((uint16_t *)(void *)(to + 2 * tile.begin), &escapes, codes + tile.begin / 2, signs + tile.begin,
            header[EXACT_BASES_OFFSET + i], tile.elements)) {
      return 0;
    }
  }
  return escapes.count == escapes.max;
}

const GranuleCoder kvtier_exact = {"exact", choose, body_bytes, encode, decode};
