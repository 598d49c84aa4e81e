#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#ifndef __clang__
#include <source_location>
#endif

#include "kernels/emulation/vector_types.h"

// Of the thread that runs now.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

// Runs grids on the CPU: one block after the other, and of a block one thread at a time. A thread
// runs until it waits in a barrier or a collective for other threads; then the next one that can
// run has its turn. SPECDEC_THREAD_ORDER says in which order: forward (the default), reverse, or
// random.
//
// What no GPU could go on with ends the program, with a report on stderr that names the source line
// and says where each thread of the block is.
namespace specdec::emulation {

constexpr unsigned kMaxThreads = 1024;  // of a block
constexpr unsigned kLanes = 32;         // of a warp

// Where a kernel calls a barrier or a collective.
struct CallSite {
  const char* file;
  int line;
  constexpr CallSite(const char* file_, int line_) : file(file_), line(line_) {}
#ifndef __clang__
  CallSite(std::source_location place)  // NOLINT: made from the default argument below
      : file(place.file_name()), line(static_cast<int>(place.line())) {}
#endif
  bool operator==(const CallSite& other) const;
};
// A parameter `site` that the caller leaves out. clang has no std::source_location before version
// 15; in g++ 12, __builtin_LINE() gives a wrong line inside templates.
#ifdef __clang__
#define SPECDEC_CALL_SITE ::specdec::emulation::CallSite site = {__builtin_FILE(), __builtin_LINE()}
#else
#define SPECDEC_CALL_SITE ::specdec::emulation::CallSite site = std::source_location::current()
#endif

// A kernel's launch. REQUIRES: can_launch().
struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;  // dynamic
  std::function<void()> kernel;  // what a thread does
  bool programmatic = false;     // it may begin before the kernel in front of it has ended
};

void run_grid(const Launch& launch);

// Of a programmatic launch, what a GPU may do before the kernel in front of it has written
// anything: here its first block, up to where it waits. run_grid(next) goes on with that block. Up
// to there it uses no shared memory. Returns whether there was room for it.
// REQUIRES: run_grid(before) comes next.
bool begin_early(const Launch& next, const Launch& before);

// cudaGridDependencySynchronize(): returns when the kernel before has ended.
void wait_for_grid_before(CallSite site);

// The running block's, aligned to 1024 bytes.
void* dynamic_shared_memory();

// Returns when all threads of the block that have not ended have called it, from the same line.
void sync_block(CallSite site);
// What comes before it, in any thread of the grid, is ordered before what comes after a later
// fence.
void thread_fence();

// [snippet collective]
// What the lanes of a warp bring to a collective; only those of its mask are set.
using LaneValues = std::array<std::uint64_t, kLanes>;
// What one lane takes away from it, given a number of its own.
using Answer = std::uint64_t (*)(const LaneValues& brought, unsigned mask, int number);

// The one primitive behind shuffles, votes, reductions and __syncwarp. The lanes of `mask` meet
// here, all from the same line; each brings a value and takes away its answer. orders_memory:
// whether what a lane wrote before is visible to the others afterwards.
std::uint64_t warp_collective(unsigned mask, std::uint64_t value, Answer answer, int number,
                              bool orders_memory, CallSite site);
// [end snippet collective]

// The running thread's number within its warp.
int lane();

// Ends the program with a report.
[[noreturn]] void fail(const char* what, CallSite site);

}  // namespace specdec::emulation
