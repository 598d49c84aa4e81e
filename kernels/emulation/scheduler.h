#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#ifndef __clang__
#include <source_location>
#endif

#include "kernels/emulation/vector_types.h"

// The indices of the thread that runs now.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

// Runs grids on the CPU: one block after the other, or one cluster of blocks, and one thread of it
// at a time. A thread runs until it waits for other threads in a barrier or a collective; then the
// next one that can run takes its turn. SPECDEC_THREAD_ORDER sets the order: forward (the default),
// reverse, or random.
//
// If a kernel reaches a state in which no GPU could continue, the program ends. Its report on
// stderr names the source line and shows where each thread of the block is.
namespace specdec::emulation {

constexpr unsigned kMaxThreads = 1024;  // per block
constexpr unsigned kLanes = 32;         // per warp

// Where a kernel calls a barrier or a collective.
struct CallSite {
  const char* file;
  int line;
  constexpr CallSite(const char* file_, int line_) : file(file_), line(line_) {}
#ifndef __clang__
  CallSite(std::source_location place)  // NOLINT: made from the default argument below
      : file(place.file_name()), line(place.line()) {}
#endif
  bool operator==(const CallSite& other) const;
};
// A parameter `site` that callers omit. clang has no std::source_location before version 15; in
// g++ 12, __builtin_LINE() gives a wrong line inside templates.
#ifdef __clang__
#define SPECDEC_CALL_SITE ::specdec::emulation::CallSite site = {__builtin_FILE(), __builtin_LINE()}
#else
#define SPECDEC_CALL_SITE ::specdec::emulation::CallSite site = std::source_location::current()
#endif

// A kernel's launch. REQUIRES: can_launch().
struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;  // dynamic
  std::function<void()> kernel;  // the body of each thread
  bool programmatic = false;     // may begin before the previous kernel has ended
  std::size_t shared_limit = 0;  // of static and dynamic shared memory together
  unsigned cluster = 1;          // blocks, neighbours along x, that run at the same time
};

void run_grid(const Launch& launch);

// Runs the part of a programmatic launch that a GPU may run before the kernels in front of it have
// written anything: its first block, up to the point where it waits. Until then, the block uses no
// shared memory. run_grid(next) continues with that block. Returns false if it has begun already,
// is in clusters, or if there is no room for it. REQUIRES: run_grid(coming) comes next.
bool begin_early(const Launch& next, const Launch& coming);
// Whether a launch that has begun early lets the next one begin, too: all threads of its block have
// called let_next_begin() before they waited.
bool lets_next_begin(const Launch& launch);

// cudaTriggerProgrammaticLaunchCompletion().
void let_next_begin();
// cudaGridDependencySynchronize(): returns when the previous kernel has ended.
void wait_for_grid_before(CallSite site);

// The dynamic shared memory of the running block, aligned to 1024 bytes.
void* dynamic_shared_memory();
// Where the cluster's block of this rank has what the running one has at `address`.
void* in_block(unsigned rank, const void* address, CallSite site);

// Returns when all threads of the block that have not ended have called it, from the same line.
void sync_block(CallSite site);
// The same for all blocks of the cluster.
void sync_cluster(CallSite site);
// Orders all accesses before it, in any thread of the grid, before all accesses after a later
// fence.
void thread_fence();

// [snippet collective]
// The lanes' values in a collective of a warp; only those in its mask are set.
using LaneValues = std::array<std::uint64_t, kLanes>;
// Computes the result of one lane. number: the lane's own argument.
using Answer = std::uint64_t (*)(const LaneValues& brought, unsigned mask, int number);

// The primitive under shuffles, votes, reductions and __syncwarp. The lanes of `mask` meet here,
// all from the same line. Each brings a value and returns with its answer. orders_memory: whether a
// lane's earlier writes are visible to the others afterwards.
std::uint64_t warp_collective(unsigned mask, std::uint64_t value, Answer answer, int number,
                              bool orders_memory, CallSite site);
// [end snippet collective]

// The running thread's number within its warp.
int lane();

// The running block's number among the kBlocks that may exist at a time.
unsigned running_block();
unsigned rank_in_cluster();  // of the running block
unsigned blocks_of_cluster();

// Each instance of a barrier has its own address for ThreadSanitizer. Every thread that passes it
// releases its earlier writes, and acquires those of the others.
char* new_token();

// The running thread waits until another thread of its block wakes those that wait for the object.
void wait_for(const void* object, CallSite site);
void wake(const void* object);

// Whether the running block still waits for the previous kernel, and so has no shared memory.
bool runs_early();

// Ends the program with a report.
[[noreturn]] void fail(const char* what, CallSite site);

// For accesses of `bytes` bytes at once, whose addresses must be multiples of their size.
inline void check_aligned(const void* address, unsigned bytes, SPECDEC_CALL_SITE) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes == 0) return;
  fail("an access at an address that is not a multiple of its size", site);
}

}  // namespace specdec::emulation
