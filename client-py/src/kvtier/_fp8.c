/* The encoding `fp8`: Fp8GranuleDescriptor.java has the layout. */
#include <string.h>

#include "_crc32c.h"
#include "_granule.h"

enum {
  FP8_ERRORS_OFFSET = 4,
  FP8_ERROR_MAX = UINT16_MAX,
  FP8_BASE_MIN = 18,
  FP8_BASE_MAX = 254,
  FP8_MANTISSA_MAX = 0x68, /* the largest one of bf16 that is rounded to 1.75 or less */
  FP8_EXPONENT_MAX = 15,
};

_Static_assert(FP8_ERRORS_OFFSET + 3 * (ELEMENTS_MAX / TILE_ELEMENTS) <= HEADER_BYTES_MAX, "errors and bases fit");

/* Sums over a tile, in units of 1/128 of the smallest value with an exponent of 1. */
typedef struct {
  uint32_t magnitudes;
  uint32_t differences;
} Sums;

/* Encodes a tile. `given` gets the elements that a decoder makes of it. The source may change meanwhile. */
typedef Sums (*encode_function)(uint8_t *codes, uint16_t *given, unsigned base, const uint16_t *from, size_t elements);

/* Decodes a tile. */
typedef void (*decode_function)(uint16_t *to, const uint8_t *codes, unsigned base, size_t elements);

/* The largest magnitude of a tile's elements. */
typedef unsigned (*most_function)(const uint16_t *from, size_t elements);

static encode_function encode_tile;
static decode_function decode_tile;
static most_function most_of_tile;

/* ---- values are floats of which the upper 16 bits say everything ----
 *
 * The value of an element in the units of the sums is a float: its exponent is UNITS more than the one in e4m3. Truncated, it is what
 * the sums need. A sixteenth of it, rounded to the nearest integer, and to an even one between two, is the code if the exponent is
 * below 1. Elements that change after the base was found give codes without meaning. */

enum {
  UNITS = 127 + 7 - 1, /* an exponent of 1 stands for 128 units */
  CODE_NORMAL = 8,     /* the first code with an exponent of 1 */
};

/* ---- plain C, without branches, which the compiler makes vectors of ---- */

static inline float float_of(uint32_t upper) {
  uint32_t bits = upper << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t upper_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits >> 16;
}

static inline uint32_t either(int is_first, uint32_t first, uint32_t second) {
  uint32_t mask = -(uint32_t)is_first;
  return (first & mask) | (second & ~mask);
}

/* The bits of the value of a code. */
static inline uint32_t value_of(uint32_t code) {
  uint32_t small = upper_of((float)(int32_t)(code << 4));
  return either(code < CODE_NORMAL, small, (UNITS << 7) + (code << 4));
}

/* The bits of a decoded element without its sign, from the bits of its code's value. */
static inline uint32_t magnitude_of(uint32_t value, int32_t offset) {
  return either(value == 0, 0, value - (UNITS << 7) + (uint32_t)offset);
}

/* A number from 0 to 2^22, rounded to the nearest integer, and to an even one between two. */
static inline uint32_t rounded(float number) {
  const float whole = 8388608.0f; /* 2^23: floats have no fractions from here on */
  return (uint32_t)(int32_t)((number + whole) - whole);
}

static Sums encode_plain(
    uint8_t *restrict codes, uint16_t *restrict given, unsigned base, const uint16_t *restrict from, size_t elements) {
  const int32_t offset = (int32_t)(base - FP8_EXPONENT_MAX) << 7;
  const int32_t largest = FP8_EXPONENT_MAX << 7 | 0x7f;
  uint32_t magnitudes = 0;
  uint32_t differences = 0;
  for (size_t i = 0; i < elements; i++) {
    uint32_t element = from[i];
    int32_t scaled = (int32_t)(element & 0x7fff) - offset;
    scaled = scaled > largest ? largest : scaled;
    int is_zero = ((element & 0x7f80) == 0) | (scaled < -(UNITS << 7));
    float value = float_of(either(is_zero, 0, (uint32_t)(scaled + (UNITS << 7))));
    uint32_t normal = (uint32_t)(scaled + 7 + (scaled >> 4 & 1)) >> 4;
    uint32_t code = either(scaled < 1 << 7, rounded(value * (1.0f / 16)), normal) & 0x7f;
    uint32_t decoded = value_of(code);
    int32_t difference = (int32_t)value - (int32_t)float_of(decoded);
    magnitudes += (uint32_t)(int32_t)value;
    differences += (uint32_t)(difference < 0 ? -difference : difference);
    codes[i] = (uint8_t)((element >> 8 & 0x80) | code);
    given[i] = (uint16_t)((element & 0x8000) | magnitude_of(decoded, offset));
  }
  return (Sums){magnitudes, differences};
}

static void decode_plain(uint16_t *restrict to, const uint8_t *restrict codes, unsigned base, size_t elements) {
  const int32_t offset = (int32_t)(base - FP8_EXPONENT_MAX) << 7;
  for (size_t i = 0; i < elements; i++) {
    uint32_t code = codes[i];
    to[i] = (uint16_t)((code & 0x80) << 8 | magnitude_of(value_of(code & 0x7f), offset));
  }
}

#if defined(__x86_64__)

/* The bits of the values of codes below CODE_NORMAL: 0, 16, 32, 48, 64, 80, 96 and 112 units. */
#define SMALL_VALUES \
  0, (UNITS - 2) << 7, (UNITS - 1) << 7, (UNITS - 1) << 7 | 0x40, UNITS << 7, UNITS << 7 | 0x20, UNITS << 7 | 0x40, \
      UNITS << 7 | 0x60

/* ---- AVX2 ---- */

/* The bits of the values of codes. */
AVX2_TARGET static inline __m256i values_avx2(__m256i code) {
  const __m128i small = _mm_setr_epi16(SMALL_VALUES);
  const __m256i table = _mm256_broadcastsi128_si256(small);
  /* Bytes 2c and 2c + 1 of the table. */
  __m256i at = _mm256_add_epi16(_mm256_mullo_epi16(code, _mm256_set1_epi16(0x0202)), _mm256_set1_epi16(0x0100));
  __m256i normal = _mm256_add_epi16(_mm256_slli_epi16(code, 4), _mm256_set1_epi16(UNITS << 7));
  return _mm256_blendv_epi8(
      normal, _mm256_shuffle_epi8(table, at), _mm256_cmpgt_epi16(_mm256_set1_epi16(CODE_NORMAL), code));
}

/* The bits of decoded elements without their signs, from the bits of their codes' values. */
AVX2_TARGET static inline __m256i magnitudes_avx2(__m256i values, unsigned base) {
  const __m256i offset = _mm256_set1_epi16((short)((int)(base - FP8_EXPONENT_MAX - UNITS) * 128));
  return _mm256_andnot_si256(
      _mm256_cmpeq_epi16(values, _mm256_setzero_si256()), _mm256_add_epi16(values, offset));
}

AVX2_TARGET static inline __m256i even_avx2(__m256i values) { return _mm256_slli_epi32(values, 16); }

AVX2_TARGET static inline __m256i odd_avx2(__m256i values) {
  return _mm256_and_si256(values, _mm256_set1_epi32((int)0xffff0000));
}

AVX2_TARGET static inline __m256i truncated_avx2(__m256i value) { return _mm256_cvttps_epi32(_mm256_castsi256_ps(value)); }

AVX2_TARGET static inline __m256i rounded_avx2(__m256i value) {
  __m256 part = _mm256_mul_ps(_mm256_castsi256_ps(value), _mm256_set1_ps(1.0f / 16));
  return _mm256_cvttps_epi32(_mm256_round_ps(part, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

AVX2_TARGET static inline uint32_t total_avx2(__m256i sums) {
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1));
  return (uint32_t)_mm_cvtsi128_si32(half);
}

AVX2_TARGET static Sums encode_avx2(
    uint8_t *codes, uint16_t *given, unsigned base, const uint16_t *from, size_t elements) {
  const __m256i sign = _mm256_set1_epi16((short)0x8000);
  const __m256i exponents = _mm256_set1_epi16(0x7f80);
  const __m256i offset = _mm256_set1_epi16((short)((base - FP8_EXPONENT_MAX) << 7));
  const __m256i zero = _mm256_setzero_si256();
  __m256i magnitudes = zero;
  __m256i differences = zero;
  for (size_t i = 0; i < elements; i += STEP) {
    __m256i bytes[2];
    for (size_t half = 0; half < 2; half++) {
      size_t at = i + 16 * half;
      __m256i element = _mm256_loadu_si256((const __m256i *)(from + at));
      __m256i none = _mm256_cmpeq_epi16(_mm256_and_si256(element, exponents), zero);
      __m256i scaled = _mm256_sub_epi16(_mm256_andnot_si256(sign, element), offset);
      __m256i value = _mm256_max_epi16(_mm256_add_epi16(scaled, _mm256_set1_epi16(UNITS << 7)), zero);
      value = _mm256_andnot_si256(none, value);
      __m256i even = even_avx2(value);
      __m256i odd = odd_avx2(value);
      __m256i is_odd = _mm256_and_si256(_mm256_srli_epi16(scaled, 4), _mm256_set1_epi16(1));
      __m256i normal = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(scaled, _mm256_set1_epi16(7)), is_odd), 4);
      __m256i small = _mm256_blend_epi16(rounded_avx2(even), _mm256_slli_epi32(rounded_avx2(odd), 16), 0xaa);
      __m256i code = _mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi16(_mm256_set1_epi16(1 << 7), scaled));
      code = _mm256_and_si256(code, _mm256_set1_epi16(0x7f));
      __m256i decoded = values_avx2(code);
      even = truncated_avx2(even);
      odd = truncated_avx2(odd);
      magnitudes = _mm256_add_epi32(magnitudes, _mm256_add_epi32(even, odd));
      even = _mm256_abs_epi32(_mm256_sub_epi32(even, truncated_avx2(even_avx2(decoded))));
      odd = _mm256_abs_epi32(_mm256_sub_epi32(odd, truncated_avx2(odd_avx2(decoded))));
      differences = _mm256_add_epi32(differences, _mm256_add_epi32(even, odd));
      __m256i signs = _mm256_and_si256(element, sign);
      _mm256_storeu_si256((__m256i *)(given + at), _mm256_or_si256(signs, magnitudes_avx2(decoded, base)));
      bytes[half] = _mm256_or_si256(code, _mm256_srli_epi16(signs, 8));
    }
    /* The low bytes of both, in order. */
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(bytes[0], bytes[1]), 0xd8);
    _mm256_storeu_si256((__m256i *)(codes + i), packed);
  }
  return (Sums){total_avx2(magnitudes), total_avx2(differences)};
}

AVX2_TARGET static void decode_avx2(uint16_t *to, const uint8_t *codes, unsigned base, size_t elements) {
  const __m256i sign = _mm256_set1_epi16((short)0x8000);
  for (size_t i = 0; i < elements; i += 16) {
    __m256i code = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(codes + i)));
    __m256i value = values_avx2(_mm256_and_si256(code, _mm256_set1_epi16(0x7f)));
    __m256i signs = _mm256_and_si256(_mm256_slli_epi16(code, 8), sign);
    _mm256_storeu_si256((__m256i *)(to + i), _mm256_or_si256(signs, magnitudes_avx2(value, base)));
  }
}

/* ---- AVX-512 ---- */

AVX512_TARGET static inline __m512i small_values_avx512(void) {
  static const uint16_t small[CODE_NORMAL] = {SMALL_VALUES};
  return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)small));
}

/* The bits of the values of codes. */
AVX512_TARGET static inline __m512i values_avx512(__m512i code, __m512i small) {
  __m512i normal = _mm512_add_epi16(_mm512_slli_epi16(code, 4), _mm512_set1_epi16(UNITS << 7));
  __mmask32 is_small = _mm512_cmplt_epu16_mask(code, _mm512_set1_epi16(CODE_NORMAL));
  return _mm512_mask_permutexvar_epi16(normal, is_small, code, small);
}

/* The bits of decoded elements without their signs, from the bits of their codes' values. */
AVX512_TARGET static inline __m512i magnitudes_avx512(__m512i values, __m512i offset) {
  return _mm512_maskz_add_epi16(_mm512_test_epi16_mask(values, values), values, offset);
}

AVX512_TARGET static inline __m512i even_avx512(__m512i values) { return _mm512_slli_epi32(values, 16); }

AVX512_TARGET static inline __m512i odd_avx512(__m512i values) {
  return _mm512_and_si512(values, _mm512_set1_epi32((int)0xffff0000));
}

AVX512_TARGET static inline __m512i truncated_avx512(__m512i value) {
  return _mm512_cvttps_epi32(_mm512_castsi512_ps(value));
}

AVX512_TARGET static inline __m512i rounded_avx512(__m512i value) {
  __m512 part = _mm512_mul_ps(_mm512_castsi512_ps(value), _mm512_set1_ps(1.0f / 16));
  return _mm512_cvt_roundps_epi32(part, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

AVX512_TARGET static Sums encode_avx512(
    uint8_t *codes, uint16_t *given, unsigned base, const uint16_t *from, size_t elements) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  const __m512i exponents = _mm512_set1_epi16(0x7f80);
  const __m512i offset = _mm512_set1_epi16((short)((base - FP8_EXPONENT_MAX) << 7));
  const __m512i given_offset = _mm512_set1_epi16((short)((int)(base - FP8_EXPONENT_MAX - UNITS) * 128));
  const __m512i units = _mm512_set1_epi16(UNITS << 7);
  const __m512i zero = _mm512_setzero_si512();
  const __m512i small_values = small_values_avx512();
  __m512i magnitudes = zero;
  __m512i differences = zero;
  for (size_t i = 0; i < elements; i += STEP) {
    __m512i element = _mm512_loadu_si512(from + i);
    __m512i scaled = _mm512_sub_epi16(_mm512_and_si512(element, magnitude), offset);
    __mmask32 some = _mm512_test_epi16_mask(element, exponents);
    __m512i value = _mm512_maskz_max_epi16(some, _mm512_add_epi16(scaled, units), zero);
    __m512i even = even_avx512(value);
    __m512i odd = odd_avx512(value);
    __m512i is_odd = _mm512_and_si512(_mm512_srli_epi16(scaled, 4), _mm512_set1_epi16(1));
    __m512i code = _mm512_srli_epi16(_mm512_add_epi16(_mm512_add_epi16(scaled, _mm512_set1_epi16(7)), is_odd), 4);
    __m512i small = _mm512_mask_blend_epi16(0xaaaaaaaa, rounded_avx512(even), _mm512_slli_epi32(rounded_avx512(odd), 16));
    code = _mm512_mask_mov_epi16(code, _mm512_cmplt_epi16_mask(scaled, _mm512_set1_epi16(1 << 7)), small);
    code = _mm512_and_si512(code, _mm512_set1_epi16(0x7f));
    __m512i decoded = values_avx512(code, small_values);
    even = truncated_avx512(even);
    odd = truncated_avx512(odd);
    magnitudes = _mm512_add_epi32(magnitudes, _mm512_add_epi32(even, odd));
    even = _mm512_abs_epi32(_mm512_sub_epi32(even, truncated_avx512(even_avx512(decoded))));
    odd = _mm512_abs_epi32(_mm512_sub_epi32(odd, truncated_avx512(odd_avx512(decoded))));
    differences = _mm512_add_epi32(differences, _mm512_add_epi32(even, odd));
    __m512i signs = _mm512_andnot_si512(magnitude, element);
    _mm512_storeu_si512(given + i, _mm512_or_si512(signs, magnitudes_avx512(decoded, given_offset)));
    __m512i bytes = _mm512_or_si512(code, _mm512_srli_epi16(signs, 8));
    _mm256_storeu_si256((__m256i *)(codes + i), _mm512_cvtepi16_epi8(bytes));
  }
  return (Sums){(uint32_t)_mm512_reduce_add_epi32(magnitudes), (uint32_t)_mm512_reduce_add_epi32(differences)};
}

AVX512_TARGET static void decode_avx512(uint16_t *to, const uint8_t *codes, unsigned base, size_t elements) {
  const __m512i offset = _mm512_set1_epi16((short)((int)(base - FP8_EXPONENT_MAX - UNITS) * 128));
  const __m512i small_values = small_values_avx512();
  for (size_t i = 0; i < elements; i += STEP) {
    __m512i code = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(codes + i)));
    __m512i value = values_avx512(_mm512_and_si512(code, _mm512_set1_epi16(0x7f)), small_values);
    __m512i signs = _mm512_and_si512(_mm512_slli_epi16(code, 8), _mm512_set1_epi16((short)0x8000));
    _mm512_storeu_si512(to + i, _mm512_or_si512(signs, magnitudes_avx512(value, offset)));
  }
}

#endif

static void choose(Level level) {
  encode_tile = encode_plain;
  decode_tile = decode_plain;
  most_of_tile = most_plain;
#if defined(__x86_64__)
  if (level != LEVEL_PLAIN) {
    encode_tile = level == LEVEL_AVX512 ? encode_avx512 : encode_avx2;
    decode_tile = level == LEVEL_AVX512 ? decode_avx512 : decode_avx2;
    most_of_tile = level == LEVEL_AVX512 ? most_avx512 : most_avx2;
  }
#else
  (void)level;
#endif
}

/* ---- granules ---- */

static size_t body_bytes(size_t elements) { return elements; }

static size_t bases_offset(const GranuleShape *shape) { return FP8_ERRORS_OFFSET + sizeof(uint16_t) * shape->tiles; }

static uint16_t error_of(Sums sums) {
  uint64_t error = sums.magnitudes == 0 ? 0 : ((uint64_t)sums.differences << 16) / sums.magnitudes;
  return error > FP8_ERROR_MAX ? FP8_ERROR_MAX : (uint16_t)error;
}

static int encode(uint8_t *to, const uint8_t *from, const uint8_t *next, const GranuleShape *shape) {
  _Alignas(LINE_BYTES) uint16_t given[ELEMENTS_MAX];
  uint8_t *codes = to + shape->header_bytes;
  memset(to, 0, shape->header_bytes);
  for (size_t i = 0; i < shape->tiles; i++) {
    Tile tile = tile_of(shape, i);
    const uint16_t *elements = (const uint16_t *)(const void *)from + tile.begin;
    prefetch(next, 2 * shape->elements, shape, i);
    unsigned most = most_of_tile(elements, tile.elements);
    unsigned base = (most >> 7) + ((most & 0x7f) > FP8_MANTISSA_MAX);
    if (base > FP8_BASE_MAX) {
      return 0;
    }
    base = base < FP8_BASE_MIN ? FP8_BASE_MIN : base;
    uint16_t error = error_of(encode_tile(codes + tile.begin, given + tile.begin, base, elements, tile.elements));
    memcpy(to + FP8_ERRORS_OFFSET + i * sizeof error, &error, sizeof error);
    to[bases_offset(shape) + i] = (uint8_t)base;
  }
  uint32_t checksum = kvtier_crc32c(0, given, 2 * shape->elements);
  memcpy(to + CHECKSUM_OFFSET, &checksum, sizeof checksum);
  return 1;
}

static int decode(uint8_t *to, uint8_t *header, const uint8_t *from, const uint8_t *next, const GranuleShape *shape) {
  for (size_t i = 0; i < shape->tiles; i++) {
    Tile tile = tile_of(shape, i);
    unsigned base = header[bases_offset(shape) + i];
    prefetch(next, shape->bytes, shape, i);
    if (base < FP8_BASE_MIN || base > FP8_BASE_MAX) {
      return 0;
    }
    decode_tile((uint16_t *)(void *)to + tile.begin, from + shape->header_bytes + tile.begin, base, tile.elements);
  }
  return 1;
}

const GranuleCoder kvtier_fp8 = {"fp8", choose, body_bytes, encode, decode};
