// The copy kernel of the GPU tier: copies the runs of a table, each between any two places that the device can reach.
// Compiled by scripts/build-kernel into PTX, which is a resource of io.kvtier.tiers.gpu; RunTable.java declares the entry too.
//
// One warp copies one piece of one run at a time, so that few thread blocks keep many accesses to host memory in flight.
// Accesses are as wide as the run's addresses and length allow, and bypass the caches that the engine's kernels live from.

struct Run {
  unsigned long long source;
  unsigned long long target;
  unsigned long long length;
};

static_assert(sizeof(Run) == 24, "RunTable.java writes entries of 24 bytes");

constexpr unsigned int kPieceBytes = 4096;
constexpr unsigned int kWarp = 32;

// Copies `bytes`, a multiple of sizeof(T).
template <typename T>
__device__ void copy_piece(const char* source, char* target, unsigned int bytes, unsigned int lane) {
  constexpr unsigned int kInFlight = 8;
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  unsigned int count = bytes / sizeof(T);
  unsigned int i = lane;
  for (; i + (kInFlight - 1) * kWarp < count; i += kInFlight * kWarp) {
    T held[kInFlight];
#pragma unroll
    for (unsigned int j = 0; j < kInFlight; j++) held[j] = __ldcs(from + i + j * kWarp);
#pragma unroll
    for (unsigned int j = 0; j < kInFlight; j++) __stcs(to + i + j * kWarp, held[j]);
  }
  for (; i < count; i += kWarp) __stcs(to + i, __ldcs(from + i));
}

// `pieces`: into how many pieces the longest run is cut; shorter ones have none behind their end.
extern "C" __global__ void __launch_bounds__(512)
kvtier_copy_runs(const Run* runs, unsigned int count, unsigned int pieces) {
  unsigned int lane = threadIdx.x % kWarp;
  unsigned int warps = gridDim.x * (blockDim.x / kWarp);
  unsigned long long items = static_cast<unsigned long long>(count) * pieces;
  for (unsigned long long item = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp; item < items; item += warps) {
    Run run = runs[item / pieces];
    unsigned long long offset = (item % pieces) * kPieceBytes;
    if (offset >= run.length) continue;
    unsigned long long left = run.length - offset;
    unsigned int bytes = left < kPieceBytes ? static_cast<unsigned int>(left) : kPieceBytes;
    const char* source = reinterpret_cast<const char*>(run.source + offset);
    char* target = reinterpret_cast<char*>(run.target + offset);
    unsigned long long alignment = run.source | run.target | run.length;
    if (alignment % 16 == 0) {
      copy_piece<uint4>(source, target, bytes, lane);
    } else if (alignment % 4 == 0) {
      copy_piece<unsigned int>(source, target, bytes, lane);
    } else {
      copy_piece<unsigned char>(source, target, bytes, lane);
    }
  }
}
