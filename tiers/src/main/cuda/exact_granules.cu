// The kernels of encoded blocks: one encodes the granules of a table's runs, the other decodes them.  Their bytes are those of the C core
// and of GranuleCodec.java; EncodedGranuleDescriptor.java has the layout.
// Compiled by scripts/build-kernel into PTX, which is a resource of io.kvtier.tiers.gpu.
//
// One warp has one granule at a time, and takes it tile by tile: a lane has 16 neighbouring elements, as words of two, and reads those of
// the next tile before it works on this one's.
//
// The checksum of a granule's raw bytes is made where they are in registers anyway.  A CRC without its first and last inversion is
// linear: that of bytes with others behind them is a matrix times the CRC, where the matrix depends on how many bytes are behind.  So a
// lane makes the CRC of its own bytes of all tiles, and the lanes are joined at the end, in five steps.  A matrix is tables of 32 words,
// one for each five bits: 32 lanes that read one of them never meet in a bank of shared memory.

#include "run_table.cuh"

constexpr u32 kTileElements = 512;
constexpr u32 kElementsMax = 16384;
constexpr u32 kCodeZero = 14;
constexpr u32 kCodeEscape = 15;
constexpr u32 kCountOffset = 4;
constexpr u32 kBasesOffset = 5;
constexpr u32 kHeaderMultiple = 16;
constexpr u32 kHeaderBytesMax = kElementsMax / 64;

constexpr u32 kLaneElements = kTileElements / kWarp;
constexpr u32 kLaneBytes = 2 * kLaneElements;
constexpr u32 kLaneWords = kLaneBytes / 4;
constexpr u32 kTileBytes = 2 * kTileElements;

// ---- checksums

constexpr u32 kPolynomial = 0x82f63b78;  // CRC32C, reflected
constexpr u32 kSliceBits = 5;
constexpr u32 kSlices = (32 + kSliceBits - 1) / kSliceBits;

// The product of a CRC with the matrix for that many bytes behind it.
struct alignas(16) Matrix {
  u32 products[kSlices][1 << kSliceBits];
};

enum { kBehind4, kBehind32, kBehind64, kBehind128, kBehind256, kBehind512, kBehind768, kBehind1024, kMatrices };

struct Matrices {
  Matrix of[kMatrices];
};

// A matrix as the products of single bits.
struct Columns {
  u32 of[32];
};

constexpr u32 product(const Columns& columns, u32 crc) {
  u32 result = 0;
  for (u32 bit = 0; crc != 0; bit++, crc >>= 1) result ^= (crc & 1) != 0 ? columns.of[bit] : 0;
  return result;
}

// The matrix for as many bytes as those of both.
constexpr Columns join(const Columns& one, const Columns& other) {
  Columns joined{};
  for (u32 bit = 0; bit < 32; bit++) joined.of[bit] = product(one, other.of[bit]);
  return joined;
}

constexpr Matrix matrix_of(const Columns& columns) {
  Matrix matrix{};
  for (u32 slice = 0; slice < kSlices; slice++) {
    for (u32 i = 0; i < 1 << kSliceBits; i++) matrix.products[slice][i] = product(columns, i << slice * kSliceBits);
  }
  return matrix;
}

constexpr Matrices make_matrices() {
  Columns four{};
  for (u32 bit = 0; bit < 32; bit++) {
    u32 crc = 1u << bit;
    for (u32 i = 0; i < 32; i++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    four.of[bit] = crc;
  }
  Columns eight = join(four, four);
  Columns sixteen = join(eight, eight);
  Columns behind = join(sixteen, sixteen);
  Columns behind256{};
  Columns behind512{};
  Matrices matrices{};
  matrices.of[kBehind4] = matrix_of(four);
  for (u32 i = kBehind32; i <= kBehind512; i++) {
    matrices.of[i] = matrix_of(behind);
    if (i == kBehind256) behind256 = behind;
    if (i == kBehind512) behind512 = behind;
    behind = join(behind, behind);
  }
  matrices.of[kBehind768] = matrix_of(join(behind256, behind512));
  matrices.of[kBehind1024] = matrix_of(behind);
  return matrices;
}

__device__ const Matrices kAllMatrices = make_matrices();

__device__ __forceinline__ u32 times(const Matrix& matrix, u32 crc) {
  u32 result = 0;
#pragma unroll
  for (u32 slice = 0; slice < kSlices; slice++) {
    result ^= matrix.products[slice][crc >> slice * kSliceBits & ((1 << kSliceBits) - 1)];
  }
  return result;
}

// Joins the CRCs of the lanes, whose bytes lie one behind the other.  The first lane has the result.
__device__ __forceinline__ u32 join_lanes(const Matrices& matrices, u32 crc) {
#pragma unroll
  for (u32 i = 0; i < 5; i++) {
    crc = times(matrices.of[kBehind32 + i], crc) ^ __shfl_down_sync(0xffffffff, crc, 1 << i);
  }
  return crc;
}

// ---- granules

// A granule, from the number of its elements.
struct Shape {
  u32 whole_tiles;
  u32 tiles;
  u32 tail_lanes;  // the lanes that the last tile needs, when it is a part of one
  u32 raw_bytes;
  u32 codes;  // where the codes begin
  u32 signs;  // where the signs and mantissas begin
  u32 encoded_bytes;
  u32 escapes_max;

  __device__ explicit Shape(u32 elements) {
    whole_tiles = elements / kTileElements;
    tail_lanes = elements % kTileElements / kLaneElements;
    tiles = whole_tiles + (tail_lanes != 0);
    raw_bytes = 2 * elements;
    codes = (elements / 64 + kHeaderMultiple - 1) / kHeaderMultiple * kHeaderMultiple;
    signs = codes + elements / 2;
    encoded_bytes = signs + elements;
    escapes_max = codes - kBasesOffset - tiles;
  }

  // The lanes of a tile are its last ones: zeros before the first byte don't change a CRC.
  __device__ u32 idle_lanes(u32 tile) const { return tile < whole_tiles ? 0 : kWarp - tail_lanes; }

  // The bytes that a tile puts behind the CRC of those before it.
  __device__ u32 behind(u32 tile) const { return tile < whole_tiles ? kBehind1024 : kBehind256 + tail_lanes / 8 - 1; }
};

// A lane's elements of a tile.
struct Elements {
  u32 words[kLaneWords];
};

__device__ __forceinline__ void add_to_crc(const Matrices& matrices, u32& crc, const Elements& elements, u32 behind) {
  u32 own = 0;
#pragma unroll
  for (u32 i = 0; i < kLaneWords; i++) own = times(matrices.of[kBehind4], own ^ elements.words[i]);
  crc = times(matrices.of[behind], crc) ^ own;
}

// How many escapes the lanes before have; `total`: those of all.
__device__ __forceinline__ u32 escapes_before(u32 own, u32 lane, u32* total) {
  u32 sum = own;
#pragma unroll
  for (u32 i = 1; i < kWarp; i *= 2) {
    u32 before = __shfl_up_sync(0xffffffff, sum, i);
    sum += lane >= i ? before : 0;
  }
  *total = __shfl_sync(0xffffffff, sum, kWarp - 1);
  return sum - own;
}

// Each half of a word, whose highest bit is not used: 1 where it is at least `least`, or else 0.
__device__ __forceinline__ u32 at_least(u32 halves, u32 least) { return (halves + (0x8000 - least) * 0x00010001) >> 15 & 0x00010001; }

// Of the bytes 0 and 2 of two words, one.
__device__ __forceinline__ u32 narrow(u32 low, u32 high) { return __byte_perm(low, high, 0x6420); }

// What encoding and decoding have in common: where a warp is, and what it works with.
struct Warp {
  const Matrices& matrices;
  unsigned char* header;  // kHeaderBytesMax bytes of shared memory
  const Shape& shape;
  u32 lane;

  // Where the raw bytes begin that this lane has of a tile, behind the granule's first.
  __device__ u32 raw_offset(u32 tile) const { return tile * kTileBytes + (lane - shape.idle_lanes(tile)) * kLaneBytes; }
};

// Reads what this lane has of a tile, whose first bytes `walk` is at; zeros where the lane has nothing.
template <typename Walk>
__device__ __forceinline__ Elements read(const Walk& walk, bool is_idle) {
  Elements elements{};
  if (!is_idle) {
    const uint4* from = reinterpret_cast<const uint4*>(walk.source);
    uint4 low = __ldcs(from);
    uint4 high = __ldcs(from + 1);
    elements = Elements{{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
  return elements;
}

// The largest exponent of a tile.
__device__ __forceinline__ u32 base_of(const Elements& elements) {
  u32 most = 0;
#pragma unroll
  for (u32 i = 0; i < kLaneWords; i++) {
    u32 word = elements.words[i];
    most = max(most, max(word & 0x7fffffff, word << 16 & 0x7fffffff));
  }
  most >>= 23;
#pragma unroll
  for (u32 i = kWarp / 2; i > 0; i /= 2) most = max(most, __shfl_xor_sync(0xffffffff, most, i));
  return most;
}

// Writes the exponents of a tile's escapes to the header, as many as it has space for; returns how many escapes there are.
// `escaped`: of each word, the bit of its number for the lower element, and the bit 16 above for the upper one.
__device__ u32 put_escapes(const Warp& warp, const Elements& elements, u32 escaped, u32 count) {
  u32 total;
  u32 place = count + escapes_before(__popc(escaped), warp.lane, &total);
#pragma unroll
  for (u32 i = 0; i < 2 * kLaneWords; i++) {
    if ((escaped >> (i / 2 + i % 2 * 16) & 1) != 0) {
      u32 exponent = elements.words[i / 2] >> (i % 2 * 16 + 7) & 0xff;
      if (place < warp.shape.escapes_max) warp.header[kBasesOffset + warp.shape.tiles + place] = exponent;
      place++;
    }
  }
  return total;
}

// Encodes a tile to `target`, the granule's place; returns how many escapes it has.
__device__ u32 encode_tile(const Warp& warp, const Elements& elements, char* target, u32 tile, u32 count) {
  u32 base = base_of(elements);
  u32 bases = base * 0x00010001;
  u32 codes[kLaneWords];
  u32 signs[kLaneWords];
  u32 escaped = 0;
#pragma unroll
  for (u32 i = 0; i < kLaneWords; i++) {
    u32 word = elements.words[i];
    u32 exponents = word >> 7 & 0x00ff00ff;
    u32 distances = bases - exponents;
    u32 far = at_least(distances, kCodeZero);
    u32 has_exponent = at_least(exponents, 1);
    u32 pair = (distances | far * kCodeEscape) & 0x000f000f;
    u32 kept = has_exponent * 15;
    pair = (pair & kept) | (kCodeZero * 0x00010001 & ~kept);
    codes[i] = pair | pair >> 12;
    signs[i] = (word & 0x007f007f) | (word >> 8 & ~0x007f007fu);
    escaped |= (far & has_exponent) << i;
  }
  const Shape& shape = warp.shape;
  u32 idle = shape.idle_lanes(tile);
  if (warp.lane >= idle) {
    u32 at = tile * kWarp + warp.lane - idle;
    uint2 packed;
    packed.x = __byte_perm(__byte_perm(codes[0], codes[1], 0x0040), __byte_perm(codes[2], codes[3], 0x0040), 0x5410);
    packed.y = __byte_perm(__byte_perm(codes[4], codes[5], 0x0040), __byte_perm(codes[6], codes[7], 0x0040), 0x5410);
    uint4 rest;
    rest.x = narrow(signs[0], signs[1]);
    rest.y = narrow(signs[2], signs[3]);
    rest.z = narrow(signs[4], signs[5]);
    rest.w = narrow(signs[6], signs[7]);
    __stcs(reinterpret_cast<uint2*>(target + shape.codes) + at, packed);
    __stcs(reinterpret_cast<uint4*>(target + shape.signs) + at, rest);
  }
  if (warp.lane == 0) warp.header[kBasesOffset + tile] = base;
  return __any_sync(0xffffffff, escaped != 0) ? put_escapes(warp, elements, escaped, count) : 0;
}

// Encodes a granule; false when it has too many escapes: what was written has no meaning then.
// `walk_at(offset)`: a walk that begins so many bytes behind the granule's first.
template <typename WalkAt>
__device__ bool encode_granule(const Warp& warp, const WalkAt& walk_at, char* target) {
  const Shape& shape = warp.shape;
  auto walk = walk_at(warp.raw_offset(0));
  Elements next = read(walk, false);
  for (u32 i = warp.lane * 4; i < shape.codes; i += kWarp * 4) *reinterpret_cast<u32*>(warp.header + i) = 0;
  __syncwarp();
  u32 count = 0;
  u32 crc = 0;
#pragma unroll 1
  for (u32 tile = 0; tile < shape.tiles; tile++) {
    Elements elements = next;
    if (tile + 1 < shape.whole_tiles) {
      walk.advance(kTileBytes);
      next = read(walk, false);
    } else if (tile + 1 < shape.tiles) {
      bool is_idle = warp.lane < shape.idle_lanes(tile + 1);
      next = read(walk_at(is_idle ? 0 : warp.raw_offset(tile + 1)), is_idle);
    }
    count += encode_tile(warp, elements, target, tile, count);
    if (tile == 0 && warp.lane == 0) elements.words[0] ^= 0xffffffff;
    add_to_crc(warp.matrices, crc, elements, shape.behind(tile));
  }
  crc = ~join_lanes(warp.matrices, crc);
  if (warp.lane == 0) {
    *reinterpret_cast<u32*>(warp.header) = crc;
    warp.header[kCountOffset] = count;
  }
  __syncwarp();
  for (u32 i = warp.lane * 4; i < shape.codes; i += kWarp * 4) {
    __stcs(reinterpret_cast<u32*>(target + i), *reinterpret_cast<u32*>(warp.header + i));
  }
  __syncwarp();
  return count <= shape.escapes_max;
}

// What a lane reads of an encoded tile.
struct Encoded {
  uint2 codes;
  uint4 signs;
};

__device__ __forceinline__ Encoded read_encoded(const Warp& warp, const char* source, u32 tile) {
  Encoded encoded{};
  u32 idle = warp.shape.idle_lanes(tile);
  if (warp.lane >= idle) {
    u32 at = tile * kWarp + warp.lane - idle;
    encoded.codes = __ldcs(reinterpret_cast<const uint2*>(source + warp.shape.codes) + at);
    encoded.signs = __ldcs(reinterpret_cast<const uint4*>(source + warp.shape.signs) + at);
  }
  return encoded;
}

// Puts the exponents of a tile's escapes into their places, those that the header has; returns how many escapes there are.
__device__ u32 take_escapes(const Warp& warp, Elements& elements, u32 escaped, u32 count, u32 count_max) {
  u32 total;
  u32 place = count + escapes_before(__popc(escaped), warp.lane, &total);
#pragma unroll
  for (u32 i = 0; i < 2 * kLaneWords; i++) {
    if ((escaped >> (i / 2 + i % 2 * 16) & 1) != 0) {
      u32 exponent = place < count_max ? warp.header[kBasesOffset + warp.shape.tiles + place] : 0;
      elements.words[i / 2] |= exponent << (i % 2 * 16 + 7);
      place++;
    }
  }
  return total;
}

// Decodes what a lane has of a tile, without the escapes' exponents; returns which elements are escapes, as put_escapes has them.
__device__ __forceinline__ u32 decode_tile(const Encoded& encoded, u32 base, Elements& elements) {
  const u32 signs[4] = {encoded.signs.x, encoded.signs.y, encoded.signs.z, encoded.signs.w};
  // Damaged codes can be larger than the base.
  u32 bases = (base + 0x100) * 0x00010001;
  u32 escaped = 0;
#pragma unroll
  for (u32 i = 0; i < kLaneWords; i++) {
    u32 pairs = (i < 4 ? encoded.codes.x : encoded.codes.y) >> i % 4 * 8;
    u32 codes = (pairs & 0xf) | (pairs << 12 & 0xf0000);
    u32 none = at_least(codes, kCodeZero);
    u32 exponents = (bases - codes) & 0x00ff00ff & ~(none * 0xff);
    // The byte with sign and mantissa, twice.
    u32 twice = __byte_perm(signs[i / 2], 0, i % 2 == 0 ? 0x1100 : 0x3322);
    elements.words[i] = (twice & 0x807f807f) | exponents << 7;
    escaped |= at_least(codes, kCodeEscape) << i;
  }
  return escaped;
}

// Decodes a granule; false when it is damaged: what was written has no meaning then, and lies where the granule's elements do.
template <typename WalkAt>
__device__ bool decode_granule(const Warp& warp, const WalkAt& walk_at, const char* source) {
  const Shape& shape = warp.shape;
  Encoded next = read_encoded(warp, source, 0);
  // Others may write to the slot: what is checked is what is used.
  for (u32 i = warp.lane * 4; i < shape.codes; i += kWarp * 4) {
    *reinterpret_cast<u32*>(warp.header + i) = __ldcs(reinterpret_cast<const u32*>(source + i));
  }
  __syncwarp();
  u32 checksum = *reinterpret_cast<const u32*>(warp.header);
  u32 count_max = warp.header[kCountOffset];
  bool is_sound = count_max <= shape.escapes_max;
  count_max = is_sound ? count_max : 0;
  auto walk = walk_at(warp.raw_offset(0));
  u32 count = 0;
  u32 crc = 0;
#pragma unroll 1
  for (u32 tile = 0; tile < shape.tiles; tile++) {
    Encoded encoded = next;
    if (tile + 1 < shape.tiles) next = read_encoded(warp, source, tile + 1);
    Elements elements;
    u32 escaped = decode_tile(encoded, warp.header[kBasesOffset + tile], elements);
    u32 idle = shape.idle_lanes(tile);
    if (idle != 0) {
      // A part of a tile: the idle lanes have zeros, whatever the base is.
      if (warp.lane < idle) {
        elements = Elements{};
        escaped = 0;
      }
      walk = walk_at(warp.lane < idle ? 0 : warp.raw_offset(tile));
    }
    if (__any_sync(0xffffffff, escaped != 0)) count += take_escapes(warp, elements, escaped, count, count_max);
    if (warp.lane >= idle) {
      const u32* words = elements.words;
      uint4* to = reinterpret_cast<uint4*>(walk.target);
      __stcs(to, make_uint4(words[0], words[1], words[2], words[3]));
      __stcs(to + 1, make_uint4(words[4], words[5], words[6], words[7]));
    }
    if (tile + 1 < shape.whole_tiles) walk.advance(kTileBytes);
    if (tile == 0 && warp.lane == 0) elements.words[0] ^= 0xffffffff;
    add_to_crc(warp.matrices, crc, elements, shape.behind(tile));
  }
  crc = ~join_lanes(warp.matrices, crc);
  __syncwarp();
  return is_sound && count == count_max && __shfl_sync(0xffffffff, crc, 0) == checksum;
}

// Does something with each granule of a table: work(warp, walk_at, entry, number of the granule in its entry) says whether it is sound.
// An entry has whole granules: the raw ones are runs on the device, and the encoded ones lie side by side, from the entry's other
// address on.  `flaws`: a byte for each block, which becomes 1 when one of its granules is not sound.
template <typename Work>
__device__ void for_each_granule(const char* table, u32 form_count, u32 count, u32 granules, u32 elements, unsigned char* flaws, Work work) {
  __shared__ Matrices matrices;
  alignas(4) __shared__ unsigned char headers[kWarps][kHeaderBytesMax];
  for (u32 i = threadIdx.x; i < sizeof(Matrices) / sizeof(uint4); i += kWarp * kWarps) word_of(&matrices, i) = word_of(&kAllMatrices, i);
  Shape shape(elements);
  u32 lane = threadIdx.x % kWarp;
  Warp warp{matrices, headers[threadIdx.x / kWarp], shape, lane};
  // It waits for all threads of the block before its first piece.
  for_each_piece(table, form_count, count, granules, [&](const Form* forms, const Entry& entry, u32 granule) {
    u32 skipped = granule * shape.raw_bytes;
    if (skipped >= entry.bytes) return;
    u32 from = entry.from + skipped;
    const char* source = reinterpret_cast<const char*>(entry.source);
    char* target = reinterpret_cast<char*>(entry.target);
    bool is_sound;
    if (entry.form == kOneRun || from % forms[entry.form].run_bytes + shape.raw_bytes <= forms[entry.form].run_bytes) {
      Straight first{source + from, target + from};
      if (entry.form != kOneRun) {
        Strided walk(forms[entry.form], source, target, from);
        first = Straight{walk.source, walk.target};
      }
      is_sound = work(warp, [&](u32 offset) { return Straight{first.source + offset, first.target + offset}; }, entry, granule);
    } else {
      const Form& form = forms[entry.form];
      is_sound = work(warp, [&](u32 offset) { return Strided(form, source, target, from + offset); }, entry, granule);
    }
    if (!is_sound && lane == 0) flaws[entry.place] = 1;
  });
}

extern "C" __global__ void __launch_bounds__(kWarp * kWarps, 2)
    kvtier_encode_granules(const char* table, u32 form_count, u32 count, u32 granules, u32 elements, unsigned char* flaws) {
  for_each_granule(table, form_count, count, granules, elements, flaws, [](const Warp& warp, const auto& walk_at, const Entry& entry, u32 granule) {
    return encode_granule(warp, walk_at, reinterpret_cast<char*>(entry.target) + u64{granule} * warp.shape.encoded_bytes);
  });
}

extern "C" __global__ void __launch_bounds__(kWarp * kWarps, 2)
    kvtier_decode_granules(const char* table, u32 form_count, u32 count, u32 granules, u32 elements, unsigned char* flaws) {
  for_each_granule(table, form_count, count, granules, elements, flaws, [](const Warp& warp, const auto& walk_at, const Entry& entry, u32 granule) {
    return decode_granule(warp, walk_at, reinterpret_cast<const char*>(entry.source) + u64{granule} * warp.shape.encoded_bytes);
  });
}
