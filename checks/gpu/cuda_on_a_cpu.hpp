// What the kernels of encoded blocks need of CUDA, for a C++ compiler: the threads of one thread block take turns on one thread of the CPU.
// A thread goes on until it meets others: in a shuffle, or where all wait for each other.  The macro KERNELS is the source's name.

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kThreads = 512;
constexpr size_t kStackBytes = 1 << 16;

struct Index {
  unsigned x;
};
Index threadIdx;
Index blockIdx;
Index gridDim;

struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ---- threads

struct Thread {
  ucontext_t context;
  char* stack;
  bool is_over;
  unsigned shuffles;
};
Thread threads[kThreads];
ucontext_t scheduler;

// Where threads meet: the last one that comes lets all go on.
struct Meeting {
  unsigned arrived;
  unsigned count;
};
Meeting of_warp[kThreads / kLanes];
Meeting of_block;

void give_way() { swapcontext(&threads[threadIdx.x].context, &scheduler); }

void meet(Meeting& meeting, unsigned threads_of_it) {
  unsigned before = meeting.count;
  if (++meeting.arrived == threads_of_it) {
    meeting.arrived = 0;
    meeting.count++;
  }
  while (meeting.count == before) give_way();
}

void __syncwarp() { meet(of_warp[threadIdx.x / kLanes], kLanes); }
void __syncthreads() { meet(of_block, kThreads); }

// What each thread shows its warp.  A thread can be in the next shuffle while others still read the last one's values.
unsigned shown[2][kThreads];

const unsigned* show(unsigned value) {
  unsigned* values = shown[threads[threadIdx.x].shuffles++ % 2];
  values[threadIdx.x] = value;
  __syncwarp();
  return values + threadIdx.x / kLanes * kLanes;
}

unsigned lane() { return threadIdx.x % kLanes; }
unsigned __shfl_sync(unsigned, unsigned value, unsigned from) { return show(value)[from]; }
unsigned __shfl_xor_sync(unsigned, unsigned value, unsigned mask) { return show(value)[lane() ^ mask]; }
unsigned __shfl_up_sync(unsigned, unsigned value, unsigned by) { return show(value)[lane() < by ? lane() : lane() - by]; }
unsigned __shfl_down_sync(unsigned, unsigned value, unsigned by) { return show(value)[lane() + by < kLanes ? lane() + by : lane()]; }
bool __any_sync(unsigned, bool holds) {
  const unsigned* all = show(holds);
  return std::any_of(all, all + kLanes, [](unsigned one) { return one != 0; });
}

// ---- instructions

template <typename T, typename U>
auto min(T one, U other) { return std::min<std::common_type_t<T, U>>(one, other); }
template <typename T, typename U>
auto max(T one, U other) { return std::max<std::common_type_t<T, U>>(one, other); }

// Memory that need not be aligned here.
template <typename T>
T __ldcs(const T* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T>
void __stcs(T* to, T value) { std::memcpy(to, &value, sizeof value); }

unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  uint64_t bytes = uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; i++) result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}
unsigned __popc(unsigned bits) { return __builtin_popcount(bits); }
unsigned __usad(unsigned one, unsigned other, unsigned sum) { return (one > other ? one - other : other - one) + sum; }
unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

#include KERNELS

namespace {

using Kernel = void(const char* table, unsigned forms, unsigned entries, unsigned granules, unsigned elements, unsigned char* flaws);

struct {
  Kernel* kernel;
  const char* table;
  unsigned counts[4];
  unsigned char* flaws;
} launched;

void run_thread() {
  launched.kernel(
      launched.table, launched.counts[0], launched.counts[1], launched.counts[2], launched.counts[3], launched.flaws);
  threads[threadIdx.x].is_over = true;
  for (;;) give_way();
}

void run_block() {
  std::memset(of_warp, 0, sizeof of_warp);
  of_block = {};
  for (Thread& thread : threads) {
    if (thread.stack == nullptr) thread.stack = static_cast<char*>(std::malloc(kStackBytes));
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack;
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.is_over = false;
    thread.shuffles = 0;
    makecontext(&thread.context, run_thread, 0);
  }
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (threadIdx.x = 0; threadIdx.x < kThreads; threadIdx.x++) {
      if (threads[threadIdx.x].is_over) continue;
      swapcontext(&scheduler, &threads[threadIdx.x].context);
      goes_on |= !threads[threadIdx.x].is_over;
    }
  }
}

void run(Kernel* kernel, unsigned blocks, const char* table, const unsigned* counts, unsigned char* flaws) {
  launched = {kernel, table, {counts[0], counts[1], counts[2], counts[3]}, flaws};
  gridDim.x = blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) run_block();
}

}  // namespace

extern "C" void encode(unsigned blocks, const char* table, const unsigned* counts, unsigned char* flaws) {
  run(kvtier_encode_granules, blocks, table, counts, flaws);
}

extern "C" void decode(unsigned blocks, const char* table, const unsigned* counts, unsigned char* flaws) {
  run(kvtier_decode_granules, blocks, table, counts, flaws);
}
