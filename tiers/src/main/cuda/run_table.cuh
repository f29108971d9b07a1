// What the kernels of the GPU tier read: a table of runs, each between any two places that the device can reach.  RunTable.java
// declares forms and entries too.

using u32 = unsigned int;
using u64 = unsigned long long;

// Forms and entries are read in words of 16 bytes.

// A grid: runs of equal length in three dimensions, the inner one first.
struct alignas(16) Form {
  u64 source_strides[3];
  u64 target_strides[3];
  u32 run_bytes;
  u32 counts[2];
  u32 alignment;  // all strides and lengths, or-ed
};

struct alignas(16) Entry {
  u64 source;
  u64 target;
  u32 form;
  u32 from;  // the number of the first byte, counted run by run
  u32 bytes;
  u32 place;  // the number of the block, where a kernel says something of blocks
};

static_assert(sizeof(Form) == 64 && sizeof(Entry) == 32, "RunTable.java writes forms of 64 bytes and entries of 32");

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
  const Form* form;
  const char* source;
  char* target;
  u32 byte;
  u32 inner;
  u32 middle;

  __device__ Strided(const Form& of, const char* source, char* target, u32 from) : form(&of) {
    u32 run = from / form->run_bytes;
    u32 row = run / form->counts[0];
    u32 outer = row / form->counts[1];
    byte = from - run * form->run_bytes;
    inner = run - row * form->counts[0];
    middle = row - outer * form->counts[1];
    this->source = source + byte + inner * form->source_strides[0] + middle * form->source_strides[1] + outer * form->source_strides[2];
    this->target = target + byte + inner * form->target_strides[0] + middle * form->target_strides[1] + outer * form->target_strides[2];
  }

  __device__ void advance(u32 bytes) {
    source += bytes;
    target += bytes;
    byte += bytes;
#pragma unroll 1
    while (byte >= form->run_bytes) {
      byte -= form->run_bytes;
      source += form->source_strides[0] - form->run_bytes;
      target += form->target_strides[0] - form->run_bytes;
      if (++inner < form->counts[0]) continue;
      inner = 0;
      source += form->source_strides[1] - form->counts[0] * form->source_strides[0];
      target += form->target_strides[1] - form->counts[0] * form->target_strides[0];
      if (++middle < form->counts[1]) continue;
      middle = 0;
      source += form->source_strides[2] - form->counts[1] * form->source_strides[1];
      target += form->target_strides[2] - form->counts[1] * form->target_strides[1];
    }
  }
};

__device__ uint4& word_of(void* memory, u32 word) { return reinterpret_cast<uint4*>(memory)[word]; }
__device__ const uint4& word_of(const void* memory, u32 word) { return reinterpret_cast<const uint4*>(memory)[word]; }

// Hands each piece of each entry to one warp: work(forms, entry, number of the piece in its entry).
// `table`: space for kFormsMax forms, of which the first `form_count` are read, and entries behind it.  `pieces`: into how many pieces
// the longest entry is cut; shorter ones have none behind their end.
//
// The table lies in host memory, so reading it takes the link's time.  A warp reads the entries of its next pieces together, and begins
// all its first reads before the first one has ended.
template <typename Work>
__device__ void for_each_piece(const char* table, u32 form_count, u32 count, u32 pieces, Work work) {
  __shared__ Form forms[kFormsMax];
  __shared__ Entry held[kWarps][kAhead];
  constexpr u32 kFormWords = sizeof(Form) / sizeof(uint4);
  constexpr u32 kEntryWords = sizeof(Entry) / sizeof(uint4);
  const Entry* entries = reinterpret_cast<const Entry*>(table + sizeof(forms));
  u32 lane = threadIdx.x % kWarp;
  u32 warp = threadIdx.x / kWarp;
  u32 warps = gridDim.x * kWarps;
  // CopyOptions.java: far fewer than 32 bits can count.
  u32 items = count * pieces;
  u32 first = blockIdx.x * kWarps + warp;
  u32 mine = first + lane / kEntryWords * warps;
  bool takes_form = threadIdx.x < form_count * kFormWords;
  bool takes_entry = lane < kAhead * kEntryWords && mine < items;
  uint4 form;
  uint4 entry;
  if (takes_form) form = word_of(table, threadIdx.x);
  if (takes_entry) entry = word_of(&entries[mine / pieces], lane % kEntryWords);
  if (takes_form) word_of(forms, threadIdx.x) = form;
  if (takes_entry) word_of(&held[warp][lane / kEntryWords], lane % kEntryWords) = entry;
  __syncthreads();
  while (first < items) {
#pragma unroll 1
    for (u32 i = 0; i < kAhead && first < items; i++, first += warps) {
      work(forms, held[warp][i], first % pieces);
    }
    __syncwarp();
    mine = first + lane / kEntryWords * warps;
    if (lane < kAhead * kEntryWords && mine < items) {
      word_of(&held[warp][lane / kEntryWords], lane % kEntryWords) = word_of(&entries[mine / pieces], lane % kEntryWords);
    }
    __syncwarp();
  }
}
