// The kernels of blocks in the encoding `fp8`.  Their bytes are those of the C core and of the codec in plain Java;
// Fp8GranuleDescriptor.java has the layout.
// Compiled by scripts/build-kernel into PTX, which is a resource of io.kvtier.tiers.gpu.
//
// Nothing is used that only new GPUs have: their conversions to e4m3 can't say what the error is.

#include "granules.cuh"

constexpr u32 kErrorsOffset = 4;
constexpr u32 kBaseMin = 18;
constexpr u32 kBaseMax = 254;
constexpr u32 kMantissaMax = 0x68;

struct Fp8Granule : Granule {
  u32 bases;  // where they begin
  u32 encoded_bytes;

  __device__ explicit Fp8Granule(u32 elements) : Granule(elements) {
    bases = kErrorsOffset + 2 * tiles;
    encoded_bytes = header_bytes + elements;
  }
};

// Sums over a tile's elements, in 1/128 of the smallest normal value of e4m3.
struct Sums {
  u32 values;
  u32 errors;
};

// The code of an element, without its sign.
__device__ __forceinline__ u32 code_of(u32 element, u32 base, Sums& sums) {
  u32 exponent = element >> 7 & 0xff;
  u32 below = base - exponent;
  u32 mantissa = exponent == 0 ? 0 : (element & 0x7f) | 0x80;
  // In fixed point, with 8 bits more than sums have.  What is shifted out is too little for any code but zero.
  u32 wide = mantissa << 22 >> min(below, 31);
  // How many binades it is above the smallest normal one.
  u32 above = max(14 - static_cast<int>(below), 0);
  u32 dropped = 12 + above;
  u32 kept = (wide + (1u << (dropped - 1)) - 1 + (wide >> dropped & 1)) >> dropped;
  u32 value = wide >> 8;
  sums.values += value;
  sums.errors = __usad(value, kept << (4 + above), sums.errors);
  // `kept` can be a bit longer, as the next binade begins.
  return 8 * above + kept;
}

// A code that stands where a float has its exponent and first mantissa bits is a float, and also where it is subnormal.  Times 8, it is a
// normal one, whose upper half is the element of a tile with the smallest base.
__device__ __forceinline__ u32 of_smallest_base(u32 code) { return __float_as_uint(__uint_as_float(code & 0x07f00000) * 8); }

// Two elements without their signs, from the codes in the low halves' low bytes.  `base`: a possible one.
__device__ __forceinline__ u32 elements_of(u32 codes, u32 base) {
  u32 elements = __byte_perm(of_smallest_base(codes << 20), of_smallest_base(codes << 4), 0x7632);
  return elements + at_least(elements, 1) * (base - kBaseMin << 7);
}

class Fp8Encoder {
 public:
  using Shape = Fp8Granule;

  __device__ Fp8Encoder(const Warp<Shape>& warp, char* target) : warp_(warp), target_(target) {}

  __device__ void encode(Elements& elements, u32 tile) {
    // The largest element's exponent, or the next one.
    u32 base = (largest(elements) + 0x7f - kMantissaMax) >> 7;
    fits_ = fits_ && base <= kBaseMax;
    base = max(base, kBaseMin);
    u32 codes[kLaneWords];
    Sums sums{};
#pragma unroll
    for (u32 i = 0; i < kLaneWords; i++) {
      u32 word = elements.words[i];
      u32 low = code_of(word & 0xffff, base, sums);
      u32 high = code_of(word >> 16, base, sums);
      u32 pair = low | high << 16;
      codes[i] = pair | (word >> 8 & 0x00800080);
      elements.words[i] = elements_of(pair, base) | (word & 0x80008000);
    }
    if (!warp_.is_idle(tile)) {
      uint4 packed;
      packed.x = narrow(codes[0], codes[1]);
      packed.y = narrow(codes[2], codes[3]);
      packed.z = narrow(codes[4], codes[5]);
      packed.w = narrow(codes[6], codes[7]);
      __stcs(reinterpret_cast<uint4*>(target_ + warp_.shape.header_bytes) + warp_.part(tile), packed);
    }
    if (warp_.lane == 0) warp_.header[warp_.shape.bases + tile] = base;
    sums = sum(sums);
    if (warp_.lane == tile) sums_ = sums;
  }

  // Each lane divides for one tile.
  __device__ bool finish() {
    if (warp_.lane < warp_.shape.tiles) {
      // Less than one: the largest element is never rounded to zero.
      u64 error = sums_.values == 0 ? 0 : (u64{sums_.errors} << 16) / sums_.values;
      reinterpret_cast<unsigned short*>(warp_.header + kErrorsOffset)[warp_.lane] = error;
    }
    return fits_;
  }

 private:
  // The sums of all lanes: each half of the warp adds up one of the two.
  __device__ __forceinline__ Sums sum(const Sums& own) const {
    bool is_upper = warp_.lane >= kWarp / 2;
    u32 mine = is_upper ? own.errors : own.values;
    mine += __shfl_xor_sync(0xffffffff, is_upper ? own.values : own.errors, kWarp / 2);
#pragma unroll
    for (u32 i = kWarp / 4; i > 0; i /= 2) mine += __shfl_xor_sync(0xffffffff, mine, i);
    u32 other = __shfl_xor_sync(0xffffffff, mine, kWarp / 2);
    return is_upper ? Sums{other, mine} : Sums{mine, other};
  }

  const Warp<Shape>& warp_;
  char* target_;
  bool fits_ = true;
  Sums sums_{};  // of the tile with this lane's number
};

class Fp8Decoder {
 public:
  using Shape = Fp8Granule;

  __device__ Fp8Decoder(const Warp<Shape>& warp, const char* source) : warp_(warp), source_(source) {}

  __device__ __forceinline__ uint4 read(u32 tile) const {
    if (warp_.is_idle(tile)) return uint4{};
    return __ldcs(reinterpret_cast<const uint4*>(source_ + warp_.shape.header_bytes) + warp_.part(tile));
  }

  __device__ void begin() {}

  __device__ __forceinline__ Elements decode(const uint4& encoded, u32 tile) {
    u32 base = warp_.header[warp_.shape.bases + tile];
    is_sound_ = is_sound_ && base >= kBaseMin && base <= kBaseMax;
    const u32 codes[4] = {encoded.x, encoded.y, encoded.z, encoded.w};
    Elements elements;
#pragma unroll
    for (u32 i = 0; i < kLaneWords; i++) {
      // Each code in both bytes of its element.
      u32 twice = __byte_perm(codes[i / 2], 0, i % 2 == 0 ? 0x1100 : 0x3322);
      elements.words[i] = elements_of(twice, base) | (twice & 0x80008000);
    }
    return elements;
  }

  __device__ bool is_sound() const { return is_sound_; }

 private:
  const Warp<Shape>& warp_;
  const char* source_;
  bool is_sound_ = true;
};

extern "C" __global__ void __launch_bounds__(kWarp * kWarps, 2)
    kvtier_encode_granules(const char* table, u32 form_count, u32 count, u32 granules, u32 elements, unsigned char* flaws) {
  encode_all<Fp8Encoder>({table, form_count, count, granules, elements, flaws});
}

extern "C" __global__ void __launch_bounds__(kWarp * kWarps, 2)
    kvtier_decode_granules(const char* table, u32 form_count, u32 count, u32 granules, u32 elements, unsigned char* flaws) {
  decode_all<Fp8Decoder>({table, form_count, count, granules, elements, flaws});
}
