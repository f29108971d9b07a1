// What the kernels of encoded blocks have in common: one encodes the granules of a table's runs, the other decodes them.  Each encoding has
// a source of its own, which includes this one, and says how a tile is encoded and decoded.
//
// One warp has one granule at a time, and takes it tile by tile: a lane has 16 neighbouring elements, as words of two, and reads those of
// the next tile before it works on this one's.
//
// The checksum of a decoded granule is made where its bytes are in registers anyway.  A CRC without its first and last inversion is
// linear: that of bytes with others behind them is a matrix times the CRC, where the matrix depends on how many bytes are behind.  So a
// lane makes the CRC of its own bytes of all tiles, and the lanes are joined at the end, in five steps.  A matrix is tables of 32 words,
// one for each five bits: 32 lanes that read one of them never meet in a bank of shared memory.

#include "run_table.cuh"

constexpr u32 kTileElements = 512;
constexpr u32 kElementsMax = 16384;
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

// A granule, from the number of its elements.  It begins with a header, whose first word is the checksum of the decoded bytes.
struct Granule {
  u32 whole_tiles;
  u32 tiles;
  u32 tail_lanes;  // the lanes that the last tile needs, when it is a part of one
  u32 raw_bytes;
  u32 header_bytes;

  __device__ explicit Granule(u32 elements) {
    whole_tiles = elements / kTileElements;
    tail_lanes = elements % kTileElements / kLaneElements;
    tiles = whole_tiles + (tail_lanes != 0);
    raw_bytes = 2 * elements;
    header_bytes = (elements / 64 + kHeaderMultiple - 1) / kHeaderMultiple * kHeaderMultiple;
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

// Each half of a word, whose highest bit is not used: 1 where it is at least `least`, or else 0.
__device__ __forceinline__ u32 at_least(u32 halves, u32 least) { return (halves + (0x8000 - least) * 0x00010001) >> 15 & 0x00010001; }

// Of the bytes 0 and 2 of two words, one.
__device__ __forceinline__ u32 narrow(u32 low, u32 high) { return __byte_perm(low, high, 0x6420); }

// Where a warp is, and what it works with.  `Shape`: a Granule, and what an encoding adds to it.
template <typename Shape>
struct Warp {
  const Matrices& matrices;
  unsigned char* header;  // kHeaderBytesMax bytes of shared memory
  const Shape& shape;
  u32 lane;

  // Where the raw bytes begin that this lane has of a tile, behind the granule's first.
  __device__ u32 raw_offset(u32 tile) const { return tile * kTileBytes + (lane - shape.idle_lanes(tile)) * kLaneBytes; }

  // Whether this lane has nothing of a tile.
  __device__ bool is_idle(u32 tile) const { return lane < shape.idle_lanes(tile); }

  // The number of this lane's part of a tile, among those of the granule.
  __device__ u32 part(u32 tile) const { return tile * kWarp + lane - shape.idle_lanes(tile); }
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

// The largest element of a tile, without its sign.
__device__ __forceinline__ u32 largest(const Elements& elements) {
  u32 most = 0;
#pragma unroll
  for (u32 i = 0; i < kLaneWords; i++) {
    u32 word = elements.words[i];
    most = max(most, max(word & 0x7fffffff, word << 16 & 0x7fffffff));
  }
  most >>= 16;
#pragma unroll
  for (u32 i = kWarp / 2; i > 0; i /= 2) most = max(most, __shfl_xor_sync(0xffffffff, most, i));
  return most;
}

// Encodes a granule to `target`; false when it does not fit: what was written has no meaning then.
// `Encoder`: encode(elements, tile) takes the tiles in turn, and leaves the elements as a decoder gives them; finish() fills in the rest of
// the header, and says whether all fit.
// `walk_at(offset)`: a walk that begins so many bytes behind the granule's first.
template <typename Encoder, typename WalkAt>
__device__ bool encode_granule(const Warp<typename Encoder::Shape>& warp, const WalkAt& walk_at, char* target) {
  const auto& shape = warp.shape;
  auto walk = walk_at(warp.raw_offset(0));
  Elements next = read(walk, false);
  for (u32 i = warp.lane * 4; i < shape.header_bytes; i += kWarp * 4) *reinterpret_cast<u32*>(warp.header + i) = 0;
  __syncwarp();
  Encoder encoder(warp, target);
  u32 crc = 0;
#pragma unroll 1
  for (u32 tile = 0; tile < shape.tiles; tile++) {
    Elements elements = next;
    if (tile + 1 < shape.whole_tiles) {
      walk.advance(kTileBytes);
      next = read(walk, false);
    } else if (tile + 1 < shape.tiles) {
      bool is_idle = warp.is_idle(tile + 1);
      next = read(walk_at(is_idle ? 0 : warp.raw_offset(tile + 1)), is_idle);
    }
    encoder.encode(elements, tile);
    if (tile == 0 && warp.lane == 0) elements.words[0] ^= 0xffffffff;
    add_to_crc(warp.matrices, crc, elements, shape.behind(tile));
  }
  crc = ~join_lanes(warp.matrices, crc);
  if (warp.lane == 0) *reinterpret_cast<u32*>(warp.header) = crc;
  bool fits = encoder.finish();
  __syncwarp();
  for (u32 i = warp.lane * 4; i < shape.header_bytes; i += kWarp * 4) {
    __stcs(reinterpret_cast<u32*>(target + i), *reinterpret_cast<u32*>(warp.header + i));
  }
  __syncwarp();
  return fits;
}

// Decodes a granule; false when it is damaged: what was written has no meaning then, and lies where the granule's elements do.
// `Decoder`: read(tile) reads what this lane has of an encoded tile, before the header is there, too, decode(encoded, tile) takes the
// tiles in turn, and is_sound() says whether all was as an encoder writes it.  An idle lane's elements are zeros.
template <typename Decoder, typename WalkAt>
__device__ bool decode_granule(const Warp<typename Decoder::Shape>& warp, const WalkAt& walk_at, const char* source) {
  const auto& shape = warp.shape;
  Decoder decoder(warp, source);
  auto next = decoder.read(0);
  // Others may write to the slot: what is checked is what is used.
  for (u32 i = warp.lane * 4; i < shape.header_bytes; i += kWarp * 4) {
    *reinterpret_cast<u32*>(warp.header + i) = __ldcs(reinterpret_cast<const u32*>(source + i));
  }
  __syncwarp();
  u32 checksum = *reinterpret_cast<const u32*>(warp.header);
  decoder.begin();
  auto walk = walk_at(warp.raw_offset(0));
  u32 crc = 0;
#pragma unroll 1
  for (u32 tile = 0; tile < shape.tiles; tile++) {
    auto encoded = next;
    if (tile + 1 < shape.tiles) next = decoder.read(tile + 1);
    bool is_idle = warp.is_idle(tile);
    if (tile >= shape.whole_tiles) walk = walk_at(is_idle ? 0 : warp.raw_offset(tile));
    Elements elements = decoder.decode(encoded, tile);
    if (!is_idle) {
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
  return decoder.is_sound() && __shfl_sync(0xffffffff, crc, 0) == checksum;
}

// What the kernels are given: a table, and what is common to its granules.
struct Launch {
  const char* table;
  u32 form_count;
  u32 count;     // of the entries
  u32 granules;  // of the longest entry
  u32 elements;  // of a granule
  unsigned char* flaws;  // a byte for each block, which becomes 1 when one of its granules is not sound
};

// Does something with each granule of a table: work(warp, walk_at, entry, number of the granule in its entry) says whether it is sound.
// An entry has whole granules: the raw ones are runs on the device, and the encoded ones lie side by side, from the entry's other
// address on.
template <typename Shape, typename Work>
__device__ void for_each_granule(const Launch& launch, Work work) {
  __shared__ Matrices matrices;
  alignas(4) __shared__ unsigned char headers[kWarps][kHeaderBytesMax];
  for (u32 i = threadIdx.x; i < sizeof(Matrices) / sizeof(uint4); i += kWarp * kWarps) word_of(&matrices, i) = word_of(&kAllMatrices, i);
  Shape shape(launch.elements);
  u32 lane = threadIdx.x % kWarp;
  Warp<Shape> warp{matrices, headers[threadIdx.x / kWarp], shape, lane};
  // It waits for all threads of the block before its first piece.
  for_each_piece(launch.table, launch.form_count, launch.count, launch.granules, [&](const Form* forms, const Entry& entry, u32 granule) {
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
    if (!is_sound && lane == 0) launch.flaws[entry.place] = 1;
  });
}

template <typename Encoder>
__device__ void encode_all(const Launch& launch) {
  using Shape = typename Encoder::Shape;
  for_each_granule<Shape>(launch, [](const Warp<Shape>& warp, const auto& walk_at, const Entry& entry, u32 granule) {
    return encode_granule<Encoder>(warp, walk_at, reinterpret_cast<char*>(entry.target) + u64{granule} * warp.shape.encoded_bytes);
  });
}

template <typename Decoder>
__device__ void decode_all(const Launch& launch) {
  using Shape = typename Decoder::Shape;
  for_each_granule<Shape>(launch, [](const Warp<Shape>& warp, const auto& walk_at, const Entry& entry, u32 granule) {
    return decode_granule<Decoder>(warp, walk_at, reinterpret_cast<const char*>(entry.source) + u64{granule} * warp.shape.encoded_bytes);
  });
}
