// The copy kernel of the GPU tier: copies the runs of a table, each between any two places that the device can reach.
// Compiled by scripts/build-kernel into PTX, which is a resource of io.kvtier.tiers.gpu.
//
// One warp copies one piece of an entry at a time, so that few thread blocks keep many accesses to host memory in flight.  A piece is as
// many bytes whether the entry is one run or a grid of many short ones: the warp reads all of them before it writes the first.
// Accesses are as wide as addresses, strides and lengths allow, and bypass the caches that the engine's kernels live from.

#include "run_table.cuh"

constexpr u32 kPieceBytes = 4096;

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

extern "C" __global__ void __launch_bounds__(kWarp * kWarps, 2)
    kvtier_copy_runs(const char* table, u32 form_count, u32 count, u32 pieces) {
  u32 lane = threadIdx.x % kWarp;
  for_each_piece(table, form_count, count, pieces, [lane](const Form* forms, const Entry& entry, u32 piece) {
    copy_entry(forms, entry, piece * kPieceBytes, lane);
  });
}
