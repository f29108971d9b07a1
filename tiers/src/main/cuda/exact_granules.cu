// The kernels of blocks in the encoding `exact`.  Their bytes are those of the C core and of the codec in plain Java;
// ExactGranuleDescriptor.java has the layout.
// Compiled by scripts/build-kernel into PTX, which is a resource of io.kvtier.tiers.gpu.

#include "granules.cuh"

constexpr u32 kCodeZero = 14;
constexpr u32 kCodeEscape = 15;
constexpr u32 kCountOffset = 4;
constexpr u32 kBasesOffset = 5;

struct ExactGranule : Granule {
  u32 signs;  // where the signs and mantissas begin
  u32 encoded_bytes;
  u32 escapes_max;

  __device__ explicit ExactGranule(u32 elements) : Granule(elements) {
    signs = header_bytes + elements / 2;
    encoded_bytes = signs + elements;
    escapes_max = header_bytes - kBasesOffset - tiles;
  }
};

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

class ExactEncoder {
 public:
  using Shape = ExactGranule;

  __device__ ExactEncoder(const Warp<Shape>& warp, char* target) : warp_(warp), target_(target) {}

  __device__ void encode(const Elements& elements, u32 tile) {
    u32 base = largest(elements) >> 7;
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
    if (!warp_.is_idle(tile)) {
      uint2 packed;
      packed.x = __byte_perm(__byte_perm(codes[0], codes[1], 0x0040), __byte_perm(codes[2], codes[3], 0x0040), 0x5410);
      packed.y = __byte_perm(__byte_perm(codes[4], codes[5], 0x0040), __byte_perm(codes[6], codes[7], 0x0040), 0x5410);
      uint4 rest;
      rest.x = narrow(signs[0], signs[1]);
      rest.y = narrow(signs[2], signs[3]);
      rest.z = narrow(signs[4], signs[5]);
      rest.w = narrow(signs[6], signs[7]);
      __stcs(reinterpret_cast<uint2*>(target_ + warp_.shape.header_bytes) + warp_.part(tile), packed);
      __stcs(reinterpret_cast<uint4*>(target_ + warp_.shape.signs) + warp_.part(tile), rest);
    }
    if (warp_.lane == 0) warp_.header[kBasesOffset + tile] = base;
    if (__any_sync(0xffffffff, escaped != 0)) put_escapes(elements, escaped);
  }

  __device__ bool finish() {
    if (warp_.lane == 0) warp_.header[kCountOffset] = count_;
    return count_ <= warp_.shape.escapes_max;
  }

 private:
  // Writes the exponents of a tile's escapes to the header, as many as it has space for.
  // `escaped`: of each word, the bit of its number for the lower element, and the bit 16 above for the upper one.
  __device__ void put_escapes(const Elements& elements, u32 escaped) {
    u32 total;
    u32 place = count_ + escapes_before(__popc(escaped), warp_.lane, &total);
#pragma unroll
    for (u32 i = 0; i < 2 * kLaneWords; i++) {
      if ((escaped >> (i / 2 + i % 2 * 16) & 1) != 0) {
        u32 exponent = elements.words[i / 2] >> (i % 2 * 16 + 7) & 0xff;
        if (place < warp_.shape.escapes_max) warp_.header[kBasesOffset + warp_.shape.tiles + place] = exponent;
        place++;
      }
    }
    count_ += total;
  }

  const Warp<Shape>& warp_;
  char* target_;
  u32 count_ = 0;
};

class ExactDecoder {
 public:
  using Shape = ExactGranule;

  // What a lane reads of an encoded tile.
  struct Encoded {
    uint2 codes;
    uint4 signs;
  };

  __device__ ExactDecoder(const Warp<Shape>& warp, const char* source) : warp_(warp), source_(source) {}

  __device__ __forceinline__ Encoded read(u32 tile) const {
    Encoded encoded{};
    if (!warp_.is_idle(tile)) {
      encoded.codes = __ldcs(reinterpret_cast<const uint2*>(source_ + warp_.shape.header_bytes) + warp_.part(tile));
      encoded.signs = __ldcs(reinterpret_cast<const uint4*>(source_ + warp_.shape.signs) + warp_.part(tile));
    }
    return encoded;
  }

  __device__ void begin() {
    count_max_ = warp_.header[kCountOffset];
    count_is_possible_ = count_max_ <= warp_.shape.escapes_max;
    count_max_ = count_is_possible_ ? count_max_ : 0;
  }

  __device__ __forceinline__ Elements decode(const Encoded& encoded, u32 tile) {
    const u32 signs[4] = {encoded.signs.x, encoded.signs.y, encoded.signs.z, encoded.signs.w};
    // Damaged codes can be larger than the base.
    u32 bases = (warp_.header[kBasesOffset + tile] + 0x100) * 0x00010001;
    Elements elements;
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
    if (warp_.is_idle(tile)) {
      // Zeros, whatever the base is.
      elements = Elements{};
      escaped = 0;
    }
    if (__any_sync(0xffffffff, escaped != 0)) take_escapes(elements, escaped);
    return elements;
  }

  __device__ bool is_sound() const { return count_is_possible_ && count_ == count_max_; }

 private:
  // Puts the exponents of a tile's escapes into their places, those that the header has.  `escaped`: as put_escapes has it.
  __device__ void take_escapes(Elements& elements, u32 escaped) {
    u32 total;
    u32 place = count_ + escapes_before(__popc(escaped), warp_.lane, &total);
#pragma unroll
    for (u32 i = 0; i < 2 * kLaneWords; i++) {
      if ((escaped >> (i / 2 + i % 2 * 16) & 1) != 0) {
        u32 exponent = place < count_max_ ? warp_.header[kBasesOffset + warp_.shape.tiles + place] : 0;
        elements.words[i / 2] |= exponent << (i % 2 * 16 + 7);
        place++;
      }
    }
    count_ += total;
  }

  const Warp<Shape>& warp_;
  const char* source_;
  u32 count_ = 0;
  u32 count_max_ = 0;
  bool count_is_possible_ = false;
};

extern "C" __global__ void __launch_bounds__(kWarp * kWarps, 2)
    kvtier_encode_granules(const char* table, u32 form_count, u32 count, u32 granules, u32 elements, unsigned char* flaws) {
  encode_all<ExactEncoder>({table, form_count, count, granules, elements, flaws});
}

extern "C" __global__ void __launch_bounds__(kWarp * kWarps, 2)
    kvtier_decode_granules(const char* table, u32 form_count, u32 count, u32 granules, u32 elements, unsigned char* flaws) {
  decode_all<ExactDecoder>({table, form_count, count, granules, elements, flaws});
}
