#include "_crc32c.h"

#include <string.h>

#define POLYNOMIAL 0x1EDC6F41u
#define POLYNOMIAL_REFLECTED 0x82F63B78u

typedef uint32_t (*update_function)(uint32_t state, const uint8_t *data, size_t bytes);

static uint32_t table[8][256];
static update_function update;

/* Most processors fetch ahead of their loads up to the end of a page, and at each page begin anew: with several pages side by
 * side most of them are under way at any time. AMD's go on over pages, and are faster with one at a time (Zen 5: 23 instead
 * of 18 GB/s). */
static int has_pages_abreast;

static uint32_t update_tables(uint32_t state, const uint8_t *data, size_t bytes) {
  while (bytes >= 8) {
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) {
      word = word << 8 | data[i];
    }
    word ^= state;
    state = 0;
    for (int i = 0; i < 8; i++) {
      state ^= table[7 - i][word >> (8 * i) & 0xff];
    }
    data += 8;
    bytes -= 8;
  }
  while (bytes-- > 0) {
    state = table[0][(state ^ *data++) & 0xff] ^ state >> 8;
  }
  return state;
}

static void fill_tables(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; bit++) {
      value = value >> 1 ^ (value & 1 ? POLYNOMIAL_REFLECTED : 0);
    }
    table[0][i] = value;
  }
  for (uint32_t i = 0; i < 256; i++) {
    for (int row = 1; row < 8; row++) {
      table[row][i] = table[0][table[row - 1][i] & 0xff] ^ table[row - 1][i] >> 8;
    }
  }
}

enum { LINE_BYTES = 64 };

#if defined(__x86_64__)
#include <immintrin.h>

/* Long enough that joining the streams costs little, short enough that a small block gets past it. */
#define STREAM_BYTES 1360
#define FOLD_BYTES 256

/* What goes past the caches takes so many pages side by side, where that is faster. */
enum { PAGE_BYTES = 4096, ABREAST_BYTES = 4 * PAGE_BYTES };

/* What moves a 128-bit remainder over that many bytes. */
typedef struct {
  uint64_t low;
  uint64_t high;
} Distance;

static uint64_t shift_one_stream;
static uint64_t shift_two_streams;
static Distance over_fold;
static Distance over_line;
static Distance over_page;

/* x^n modulo the polynomial, bit-reflected. */
static uint32_t power_reflected(unsigned n) {
  uint32_t remainder = 1;
  while (n-- > 0) {
    remainder = remainder << 1 ^ (remainder >> 31 ? POLYNOMIAL : 0);
  }
  uint32_t reflected = 0;
  for (int bit = 0; bit < 32; bit++) {
    reflected |= (remainder >> bit & 1) << (31 - bit);
  }
  return reflected;
}

__attribute__((target("sse4.2"))) static uint32_t update_serial(uint32_t state, const uint8_t *data, size_t bytes) {
  uint64_t wide = state;
  while (bytes >= 8) {
    uint64_t word;
    memcpy(&word, data, 8);
    wide = _mm_crc32_u64(wide, word);
    data += 8;
    bytes -= 8;
  }
  state = (uint32_t)wide;
  while (bytes-- > 0) {
    state = _mm_crc32_u8(state, *data++);
  }
  return state;
}

/* The state after as many zero bytes as the constant stands for: the product is 33 powers of x too high already. */
__attribute__((target("sse4.2,pclmul"))) static inline uint32_t shift(uint32_t state, uint64_t constant) {
  __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)state), _mm_cvtsi64_si128((long long)constant), 0);
  return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t update_streams(
    uint32_t state, const uint8_t *data, size_t bytes) {
  while (bytes >= 3 * STREAM_BYTES) {
    uint64_t a = state;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < STREAM_BYTES; i += 8) {
      uint64_t word_a;
      uint64_t word_b;
      uint64_t word_c;
      memcpy(&word_a, data + i, 8);
      memcpy(&word_b, data + STREAM_BYTES + i, 8);
      memcpy(&word_c, data + 2 * STREAM_BYTES + i, 8);
      a = _mm_crc32_u64(a, word_a);
      b = _mm_crc32_u64(b, word_b);
      c = _mm_crc32_u64(c, word_c);
    }
    state = shift((uint32_t)a, shift_two_streams) ^ shift((uint32_t)b, shift_one_stream) ^ (uint32_t)c;
    data += 3 * STREAM_BYTES;
    bytes -= 3 * STREAM_BYTES;
  }
  return update_serial(state, data, bytes);
}

#define FOLD_TARGET __attribute__((target("avx512f,avx512vl,avx512bw,vpclmulqdq,pclmul,sse4.2")))

FOLD_TARGET static inline __m512i constants_of(Distance distance) {
  return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)distance.high, (long long)distance.low));
}

FOLD_TARGET static inline __m512i fold(__m512i state, __m512i constants, __m512i line) {
  __m512i low = _mm512_clmulepi64_epi128(state, constants, 0x00);
  __m512i high = _mm512_clmulepi64_epi128(state, constants, 0x11);
  return _mm512_ternarylogic_epi64(low, high, line, 0x96);
}

/* A line that is folded and, when there is a target, stored there past the caches: the checksum is of what is stored,
 * though the source may change meanwhile. */
FOLD_TARGET static inline __m512i take(const uint8_t *data, uint8_t *to, size_t at) {
  __m512i line = _mm512_loadu_si512(data + at);
  if (to != NULL) {
    _mm512_stream_si512((__m512i *)(to + at), line);
  }
  return line;
}

/* The state behind at least one FOLD_BYTES; `start` is what came before, as it enters the first line. With a target, of
 * 64-byte alignment, also copies all whole FOLD_BYTES there. */
FOLD_TARGET static inline __attribute__((always_inline)) uint32_t fold_all(
    __m512i start, const uint8_t *data, size_t bytes, uint8_t *to) {
  __m512i constants = constants_of(over_fold);
  __m512i a = _mm512_xor_si512(take(data, to, 0), start);
  __m512i b = take(data, to, 64);
  __m512i c = take(data, to, 128);
  __m512i d = take(data, to, 192);
  size_t whole = bytes & ~(size_t)(FOLD_BYTES - 1);
  for (size_t at = FOLD_BYTES; at < whole; at += FOLD_BYTES) {
    a = fold(a, constants, take(data, to, at));
    b = fold(b, constants, take(data, to, at + 64));
    c = fold(c, constants, take(data, to, at + 128));
    d = fold(d, constants, take(data, to, at + 192));
  }
  /* What is left is a message of 256 bytes with the same remainder. */
  uint8_t rest[FOLD_BYTES];
  _mm512_storeu_si512(rest, a);
  _mm512_storeu_si512(rest + 64, b);
  _mm512_storeu_si512(rest + 128, c);
  _mm512_storeu_si512(rest + 192, d);
  return update_serial(update_serial(0, rest, FOLD_BYTES), data + whole, bytes - whole);
}

FOLD_TARGET static uint32_t update_folding(uint32_t state, const uint8_t *data, size_t bytes) {
  if (bytes < 2 * FOLD_BYTES) {
    return update_serial(state, data, bytes);
  }
  return fold_all(_mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)), data, bytes, NULL);
}

/* Copies ABREAST_BYTES. `start` and what is returned are states as they enter the line that follows. */
FOLD_TARGET static inline __m512i fold_abreast(__m512i start, uint8_t *to, const uint8_t *from) {
  const __m512i zero = _mm512_setzero_si512();
  __m512i line = constants_of(over_line);
  __m512i page = constants_of(over_page);
  __m512i a = start;
  __m512i b = zero;
  __m512i c = zero;
  __m512i d = zero;
  for (size_t at = 0; at < PAGE_BYTES; at += 2 * LINE_BYTES, from += 2 * LINE_BYTES, to += 2 * LINE_BYTES) {
    /* All loads before the first store: a store makes loads of another page's same place wait. */
    __m512i a0 = _mm512_loadu_si512(from);
    __m512i a1 = _mm512_loadu_si512(from + LINE_BYTES);
    __m512i b0 = _mm512_loadu_si512(from + PAGE_BYTES);
    __m512i b1 = _mm512_loadu_si512(from + PAGE_BYTES + LINE_BYTES);
    __m512i c0 = _mm512_loadu_si512(from + 2 * PAGE_BYTES);
    __m512i c1 = _mm512_loadu_si512(from + 2 * PAGE_BYTES + LINE_BYTES);
    __m512i d0 = _mm512_loadu_si512(from + 3 * PAGE_BYTES);
    __m512i d1 = _mm512_loadu_si512(from + 3 * PAGE_BYTES + LINE_BYTES);
    _mm512_stream_si512((__m512i *)to, a0);
    _mm512_stream_si512((__m512i *)(to + LINE_BYTES), a1);
    _mm512_stream_si512((__m512i *)(to + PAGE_BYTES), b0);
    _mm512_stream_si512((__m512i *)(to + PAGE_BYTES + LINE_BYTES), b1);
    _mm512_stream_si512((__m512i *)(to + 2 * PAGE_BYTES), c0);
    _mm512_stream_si512((__m512i *)(to + 2 * PAGE_BYTES + LINE_BYTES), c1);
    _mm512_stream_si512((__m512i *)(to + 3 * PAGE_BYTES), d0);
    _mm512_stream_si512((__m512i *)(to + 3 * PAGE_BYTES + LINE_BYTES), d1);
    a = fold(fold(_mm512_xor_si512(a, a0), line, a1), line, zero);
    b = fold(fold(_mm512_xor_si512(b, b0), line, b1), line, zero);
    c = fold(fold(_mm512_xor_si512(c, c0), line, c1), line, zero);
    d = fold(fold(_mm512_xor_si512(d, d0), line, d1), line, zero);
  }
  return fold(fold(fold(a, page, b), page, c), page, d);
}

/* Copies whole FOLD_BYTES, one at least, with the state behind them. */
FOLD_TARGET static uint32_t stream_folding(uint32_t state, uint8_t *to, const uint8_t *from, size_t bytes) {
  __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state));
  size_t at = 0;
  for (; has_pages_abreast && bytes - at > ABREAST_BYTES; at += ABREAST_BYTES) {
    start = fold_abreast(start, to + at, from + at);
  }
  return fold_all(start, from + at, bytes - at, to + at);
}

static int has_streams(void) {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

static int has_folding(void) {
  return has_streams() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
      && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("vpclmulqdq");
}

static Distance distance_of(unsigned bytes) {
  return (Distance){(uint64_t)power_reflected(8 * bytes + 32) << 1, (uint64_t)power_reflected(8 * bytes - 32) << 1};
}

static void fill_constants(void) {
  __builtin_cpu_init();
  has_pages_abreast = !__builtin_cpu_is("amd");
  shift_one_stream = power_reflected(8 * STREAM_BYTES - 33);
  shift_two_streams = power_reflected(16 * STREAM_BYTES - 33);
  over_fold = distance_of(FOLD_BYTES);
  over_line = distance_of(LINE_BYTES);
  over_page = distance_of(PAGE_BYTES);
}

#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

/* The instructions are optional before Armv8.1, so compilers do not assume them: the kernel says whether they are there. */
static uint32_t update_streams(uint32_t state, const uint8_t *data, size_t bytes) {
  while (bytes >= 8) {
    uint64_t word;
    memcpy(&word, data, 8);
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(state) : "r"(word));
    data += 8;
    bytes -= 8;
  }
  while (bytes-- > 0) {
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(state) : "r"((uint32_t)*data++));
  }
  return state;
}

static int has_streams(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
static int has_folding(void) { return 0; }
static update_function const update_folding = NULL;
static uint32_t stream_folding(uint32_t state, uint8_t *to, const uint8_t *from, size_t bytes) {
  memcpy(to, from, bytes);
  return update(state, to, bytes);
}
static void fill_constants(void) {}

#else

static int has_streams(void) { return 0; }
static int has_folding(void) { return 0; }
static update_function const update_streams = NULL;
static update_function const update_folding = NULL;
static uint32_t stream_folding(uint32_t state, uint8_t *to, const uint8_t *from, size_t bytes) {
  memcpy(to, from, bytes);
  return update(state, to, bytes);
}
static void fill_constants(void) {}

#endif

int kvtier_crc32c_choose(const char *name) {
  int is_abreast = strcmp(name, "folding abreast") == 0;
  if ((is_abreast || strcmp(name, "folding") == 0) && has_folding()) {
    update = update_folding;
    has_pages_abreast = is_abreast;
  } else if (strcmp(name, "streams") == 0 && has_streams()) {
    update = update_streams;
  } else if (strcmp(name, "tables") == 0) {
    update = update_tables;
  } else {
    return 0;
  }
  return 1;
}

const char *kvtier_crc32c_initialise(void) {
  fill_tables();
  fill_constants();
  const char *const names[] = {has_pages_abreast ? "folding abreast" : "folding", "streams", "tables"};
  int i = 0;
  while (!kvtier_crc32c_choose(names[i])) {
    i++;
  }
  return names[i];
}

uint32_t kvtier_crc32c(uint32_t crc, const void *data, size_t bytes) {
  return ~update(~crc, data, bytes);
}

/* ---- copying ---- */

/* From here up a copy goes past the caches: storing a line otherwise reads it first, a third of all the traffic. */
enum { STREAM_BYTES_MIN = 128 * 1024 };
enum { STEP_BYTES = 256 };

#if defined(__x86_64__)

static int streams_stores(void) { return __builtin_cpu_supports("avx2"); }

__attribute__((target("avx2"))) static void stream_half_lines(uint8_t *to, const uint8_t *from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 128) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(from + at));
    __m256i b = _mm256_loadu_si256((const __m256i *)(from + at + 32));
    __m256i c = _mm256_loadu_si256((const __m256i *)(from + at + 64));
    __m256i d = _mm256_loadu_si256((const __m256i *)(from + at + 96));
    _mm256_stream_si256((__m256i *)(to + at), a);
    _mm256_stream_si256((__m256i *)(to + at + 32), b);
    _mm256_stream_si256((__m256i *)(to + at + 64), c);
    _mm256_stream_si256((__m256i *)(to + at + 96), d);
  }
}

/* As fold_abreast, without a checksum. */
__attribute__((target("avx512f"))) static void stream_abreast(uint8_t *to, const uint8_t *from) {
  for (size_t at = 0; at < PAGE_BYTES; at += 2 * LINE_BYTES, from += 2 * LINE_BYTES, to += 2 * LINE_BYTES) {
    __m512i a0 = _mm512_loadu_si512(from);
    __m512i a1 = _mm512_loadu_si512(from + LINE_BYTES);
    __m512i b0 = _mm512_loadu_si512(from + PAGE_BYTES);
    __m512i b1 = _mm512_loadu_si512(from + PAGE_BYTES + LINE_BYTES);
    __m512i c0 = _mm512_loadu_si512(from + 2 * PAGE_BYTES);
    __m512i c1 = _mm512_loadu_si512(from + 2 * PAGE_BYTES + LINE_BYTES);
    __m512i d0 = _mm512_loadu_si512(from + 3 * PAGE_BYTES);
    __m512i d1 = _mm512_loadu_si512(from + 3 * PAGE_BYTES + LINE_BYTES);
    _mm512_stream_si512((__m512i *)to, a0);
    _mm512_stream_si512((__m512i *)(to + LINE_BYTES), a1);
    _mm512_stream_si512((__m512i *)(to + PAGE_BYTES), b0);
    _mm512_stream_si512((__m512i *)(to + PAGE_BYTES + LINE_BYTES), b1);
    _mm512_stream_si512((__m512i *)(to + 2 * PAGE_BYTES), c0);
    _mm512_stream_si512((__m512i *)(to + 2 * PAGE_BYTES + LINE_BYTES), c1);
    _mm512_stream_si512((__m512i *)(to + 3 * PAGE_BYTES), d0);
    _mm512_stream_si512((__m512i *)(to + 3 * PAGE_BYTES + LINE_BYTES), d1);
  }
}

__attribute__((target("avx512f"))) static void stream_whole_lines(uint8_t *to, const uint8_t *from, size_t bytes) {
  size_t at = 0;
  for (; has_pages_abreast && bytes - at >= ABREAST_BYTES; at += ABREAST_BYTES) {
    stream_abreast(to + at, from + at);
  }
  for (; at < bytes; at += STEP_BYTES) {
    __m512i a = _mm512_loadu_si512(from + at);
    __m512i b = _mm512_loadu_si512(from + at + LINE_BYTES);
    __m512i c = _mm512_loadu_si512(from + at + 2 * LINE_BYTES);
    __m512i d = _mm512_loadu_si512(from + at + 3 * LINE_BYTES);
    _mm512_stream_si512((__m512i *)(to + at), a);
    _mm512_stream_si512((__m512i *)(to + at + LINE_BYTES), b);
    _mm512_stream_si512((__m512i *)(to + at + 2 * LINE_BYTES), c);
    _mm512_stream_si512((__m512i *)(to + at + 3 * LINE_BYTES), d);
  }
}

/* Stores past the caches. The target is aligned to a line, the length a multiple of STEP_BYTES. */
static void stream_lines(uint8_t *to, const uint8_t *from, size_t bytes) {
  if (__builtin_cpu_supports("avx512f")) {
    stream_whole_lines(to, from, bytes);
  } else {
    stream_half_lines(to, from, bytes);
  }
}

static void stream_end(void) { _mm_sfence(); }

#else

static int streams_stores(void) { return 0; }
static void stream_lines(uint8_t *to, const uint8_t *from, size_t bytes) { memcpy(to, from, bytes); }
static void stream_end(void) {}

#endif

void kvtier_copy(void *destination, const void *source, size_t bytes) {
  if (bytes < STREAM_BYTES_MIN || !streams_stores()) {
    memcpy(destination, source, bytes);
    return;
  }
  uint8_t *to = destination;
  const uint8_t *from = source;
  size_t head = (size_t)(-(uintptr_t)to & (LINE_BYTES - 1));
  memcpy(to, from, head);
  size_t lines = (bytes - head) & ~(size_t)(STEP_BYTES - 1);
  stream_lines(to + head, from + head, lines);
  stream_end();
  memcpy(to + head + lines, from + head + lines, bytes - head - lines);
}

/* Chunk by chunk by way of a buffer in the first-level cache: the checksum is of what is stored, though the source may
 * change meanwhile. */
static uint32_t copy_chunks(uint32_t crc, uint8_t *to, const uint8_t *from, size_t bytes, int streaming) {
  enum { CHUNK_BYTES = 16 * 1024 };
  _Alignas(64) uint8_t bounce[CHUNK_BYTES];
  while (bytes > 0) {
    size_t chunk = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
    /* The next chunk comes from memory while this one is worked on. */
    for (size_t at = chunk; at < 2 * chunk && at < bytes; at += LINE_BYTES) {
      __builtin_prefetch(from + at, 0, 2);
    }
    memcpy(bounce, from, chunk);
    crc = kvtier_crc32c(crc, bounce, chunk);
    if (streaming && chunk == CHUNK_BYTES) {
      stream_lines(to, bounce, chunk);
    } else {
      memcpy(to, bounce, chunk);
    }
    to += chunk;
    from += chunk;
    bytes -= chunk;
  }
  return crc;
}

uint32_t kvtier_stream_crc32c(uint32_t crc, void *to, const void *from, size_t bytes) {
  if (update == update_folding) {
    return ~stream_folding(~crc, to, from, bytes);
  }
  if (streams_stores()) {
    stream_lines(to, from, bytes);
  } else {
    memcpy(to, from, bytes);
  }
  return kvtier_crc32c(crc, from, bytes);
}

void kvtier_stream_end(void) { stream_end(); }

uint32_t kvtier_copy_crc32c(uint32_t crc, void *destination, const void *source, size_t bytes) {
  uint8_t *to = destination;
  const uint8_t *from = source;
  if (bytes < STREAM_BYTES_MIN || !streams_stores()) {
    return copy_chunks(crc, to, from, bytes, 0);
  }
  size_t head = (size_t)(-(uintptr_t)to & (LINE_BYTES - 1));
  crc = copy_chunks(crc, to, from, head, 0);
  size_t lines = (bytes - head) & ~(size_t)(STEP_BYTES - 1);
  crc = update == update_folding ? ~stream_folding(~crc, to + head, from + head, lines)
                                 : copy_chunks(crc, to + head, from + head, lines, 1);
  stream_end();
  return copy_chunks(crc, to + head + lines, from + head + lines, bytes - head - lines, 0);
}
