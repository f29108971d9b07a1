// The copy kernel of the GPU tier: copies the runs of a table, each between any two places that the device can reach.
// Compiled by scripts/build-kernel into PTX, which is a resource of io.kvtier.tiers.gpu; RunTable.java declares forms and entries too.
//
// One warp copies one piece of an entry at a time, so that few thread blocks keep many accesses to host memory in flight.  A piece is as
// many bytes whether the entry is one run or a grid of many short ones: the warp reads all of them before it writes the first.
// Accesses are as wide as addresses, strides and lengths allow, and bypass the caches that the engine's kernels live from.

using u32 = unsigned int;
using u64 = unsigned long long;

// A grid: runs of equal length in three dimensions, the inner one first.
struct Form {
  u64 source_strides[3];
  u64 target_strides[3];
  u32 run_bytes;
  u32 counts[2];
  u32 alignment;  // all strides and lengths, or-ed
};

struct Entry {
  u64 source;
  u64 target;
  u32 form;
  u32 from;  // the number of the first byte, counted run by run
  u32 bytes;
  u32 unused;
};

static_assert(sizeof(Form) == 64 && sizeof(Entry) == 32, "RunTable.java writes forms of 64 bytes and entries of 32");

constexpr u32 kPieceBytes = 4096;
constexpr u32 kFormsMax = 8;
constexpr u32 kOneRun = 0xffffffff;
constexpr u32 kWarp = 32;
constexpr u32 kWarps = 16;
constexpr u32 kAhead = 8;

// Walks over the bytes of an entry that is one run, or of a piece that lies in one run.
struct Straight {
  static constexpr u32 kInFlight = 8;
  const char* source;
  char* target;
  __device__ void advance(u32 bytes) { source += bytes; target += bytes; }
};

// Walks over the bytes of a grid.
struct Strided {
  static constexpr u32 kInFlight = 4;
  const Form& form;
  const char* source;
  char* target;
  u32 byte;
  u32 inner;
  u32 middle;

  __device__ Strided(const Form& form, const char* source, char* target, u32 from) : form(form) {
    u32 run = from / form.run_bytes;
    u32 row = run / form.counts[0];
    u32 outer = row / form.counts[1];
    byte = from - run * form.run_bytes;
    inner = run - row * form.counts[0];
    middle = row - outer * form.counts[1];
    this->source = source + byte + inner * form.source_strides[0] + middle * form.source_strides[1] + outer * form.source_strides[2];
    this->target = target + byte + inner * form.target_strides[0] + middle * form.target_strides[1] + outer * form.target_strides[2];
  }

  __device__ void advance(u32 bytes) {
    source += bytes;
    target += bytes;
    byte += bytes;
#pragma unroll 1
    while (byte >= form.run_bytes) {
      byte -= form.run_bytes;
      source += form.source_strides[0] - form.run_bytes;
      target += form.target_strides[0] - form.run_bytes;
      if (++inner < form.counts[0]) continue;
      inner = 0;
      source += form.source_strides[1] - form.counts[0] * form.source_strides[0];
      target += form.target_strides[1] - form.counts[0] * form.target_strides[0];
      if (++middle < form.counts[1]) continue;
      middle = 0;
      source += form.source_strides[2] - form.counts[1] * form.source_strides[1];
      target += form.target_strides[2] - form.counts[1] * form.target_strides[1];
    }
  }
};

// Copies the next bytes, which are a multiple of sizeof(T).
template <typename T, typename Walk>
__device__ void copy_units(Walk walk, u32 bytes, u32 lane) {
  constexpr u32 kInFlight = Walk::kInFlight;
  u32 count = bytes / sizeof(T);
  u32 i = lane;
#pragma unroll 1
  for (; i + (kInFlight - 1) * kWarp < count; i += kInFlight * kWarp) {
    T held[kInFlight];
    char* to[kInFlight];
#pragma unroll
    for (u32 j = 0; j < kInFlight; j++) {
      held[j] = __ldcs(reinterpret_cast<const T*>(walk.source));
      to[j] = walk.target;
      walk.advance(kWarp * sizeof(T));
    }
#pragma unroll
    for (u32 j = 0; j < kInFlight; j++) __stcs(reinterpret_cast<T*>(to[j]), held[j]);
  }
#pragma unroll 1
  for (; i < count; i += kWarp) {
    __stcs(reinterpret_cast<T*>(walk.target), __ldcs(reinterpret_cast<const T*>(walk.source)));
    walk.advance(kWarp * sizeof(T));
  }
}

// The width in bytes of the accesses that an alignment allows.
__device__ u32 width(u64 alignment) { return alignment % 16 == 0 ? 16 : alignment % 4 == 0 ? 4 : 1; }

template <typename Walk>
__device__ void copy_piece(const Walk& walk, u32 bytes, u32 width, u32 lane) {
  if (width == 16) {
    copy_units<uint4>(walk, bytes, lane);
  } else if (width == 4) {
    copy_units<u32>(walk, bytes, lane);
  } else {
    copy_units<unsigned char>(walk, bytes, lane);
  }
}

__device__ void copy_entry(const Form* forms, const Entry& entry, u32 skipped, u32 lane) {
  if (skipped >= entry.bytes) return;
  u32 left = entry.bytes - skipped;
  u32 bytes = left < kPieceBytes ? left : kPieceBytes;
  u32 from = entry.from + skipped;
  const char* source = reinterpret_cast<const char*>(entry.source);
  char* target = reinterpret_cast<char*>(entry.target);
  u64 alignment = entry.source | entry.target | entry.from | entry.bytes;
  if (entry.form == kOneRun) {
    u32 unit = width(alignment);
    u32 first = from + lane * unit;
    copy_piece(Straight{source + first, target + first}, bytes, unit, lane);
    return;
  }
  const Form& form = forms[entry.form];
  u32 unit = width(alignment | form.alignment);
  Strided walk(form, source, target, from + lane * unit);
  if (from % form.run_bytes + bytes > form.run_bytes) {
    copy_piece(walk, bytes, unit, lane);
  } else {
    copy_piece(Straight{walk.source, walk.target}, bytes, unit, lane);
  }
}

__device__ void copy_words(void* target, const void* source, u32 word) {
  reinterpret_cast<uint4*>(target)[word] = reinterpret_cast<const uint4*>(source)[word];
}

// `table`: kFormsMax forms, and entries behind them.  `pieces`: into how many pieces the longest entry is cut; shorter ones have none
// behind their end.
//
// A warp reads the entries of its next pieces together: each access to the table takes as long as one to the bytes.
extern "C" __global__ void __launch_bounds__(kWarp * kWarps, 2) kvtier_copy_runs(const char* table, u32 count, u32 pieces) {
  __shared__ Form forms[kFormsMax];
  __shared__ Entry held[kWarps][kAhead];
  constexpr u32 kFormWords = sizeof(forms) / sizeof(uint4);
  constexpr u32 kEntryWords = sizeof(Entry) / sizeof(uint4);
  const Entry* entries = reinterpret_cast<const Entry*>(table + sizeof(forms));
  u32 lane = threadIdx.x % kWarp;
  u32 warp = threadIdx.x / kWarp;
  u32 warps = gridDim.x * kWarps;
  // CopyOptions.java: far fewer than 32 bits can count.
  u32 items = count * pieces;
  u32 first = blockIdx.x * kWarps + warp;
  if (threadIdx.x < kFormWords) copy_words(forms, table, threadIdx.x);
  u32 mine = first + lane / kEntryWords * warps;
  if (lane < kAhead * kEntryWords && mine < items) {
    copy_words(&held[warp][lane / kEntryWords], &entries[mine / pieces], lane % kEntryWords);
  }
  __syncthreads();
  while (first < items) {
#pragma unroll 1
    for (u32 i = 0; i < kAhead && first < items; i++, first += warps) {
      copy_entry(forms, held[warp][i], first % pieces * kPieceBytes, lane);
    }
    __syncwarp();
    mine = first + lane / kEntryWords * warps;
    if (lane < kAhead * kEntryWords && mine < items) {
      copy_words(&held[warp][lane / kEntryWords], &entries[mine / pieces], lane % kEntryWords);
    }
    __syncwarp();
  }
}
