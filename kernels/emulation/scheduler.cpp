#include "kernels/emulation/scheduler.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <string_view>

#include "kernels/emulation/block_memory.h"
#include "kernels/emulation/fibers.h"
#include "kernels/emulation/runtime_calls.h"
#include "kernels/emulation/sanitizers.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace specdec::emulation {
namespace {

enum class State { kReady, kAtBarrier, kAtCollective, kEnded };

constexpr CallSite kEntry{"the kernel's entry", 0};

struct Thread {
  Fiber fiber;
  uint3 index;
  State state;
  CallSite site = kEntry;  // the barrier or collective that it reached last
  // The collective that it is in.
  unsigned mask;
  Answer answer;
  int number;
  std::uint64_t result;
};

struct Warp {
  LaneValues brought;
  unsigned arrived, ended;  // lanes, as bits
  char* token;
};

// The block that runs. Everything is static, as is the blocks' shared memory: one at a time.
std::array<Thread, kMaxThreads> threads;
std::array<Warp, kMaxThreads / kLanes> warps;
std::array<unsigned, kMaxThreads> order;  // in which the threads have their turns
unsigned thread_count, live_count;        // of the block; those that have not ended
unsigned at_barrier_count;
unsigned turn, running;  // running == order[turn]: the thread that has its turn
char* barrier_token;
Fiber host;

struct Kernel {
  void (*call)(void*);
  void* argument;
} kernel;

// ThreadSanitizer takes one address for one instance of a barrier: all who pass it release what
// they wrote before, and acquire what the others have.
std::array<char, 1 << 16> tokens;
char* new_token() {
  static std::uint16_t next = 0;
  return &tokens[next++];
}
[[maybe_unused]] char end_of_grid;

// ---- whose turn it is

Thread& self() { return threads[running]; }

void take_turn(unsigned i) {
  turn = i;
  running = order[i];
  threadIdx = self().index;
}

[[noreturn]] void report_deadlock() {
  const auto waiting = std::find_if(threads.begin(), threads.end(), [](const Thread& thread) {
    return thread.state != State::kEnded;
  });
  threadIdx = waiting->index;
  fail("deadlock: every thread of the block waits or has ended", waiting->site);
}

// [snippet yield]
// The running thread gives its turn to the next one that can run; to the host when all have ended.
void yield() {
  Thread& me = self();
  const bool ended = me.state == State::kEnded;
  if (live_count == 0) return me.fiber.switch_to(host, ended);
  for (unsigned step = 1; step <= thread_count; ++step) {
    const unsigned next = (turn + step) % thread_count;
    if (threads[order[next]].state != State::kReady) continue;
    take_turn(next);
    return me.fiber.switch_to(self().fiber, ended);
  }
  report_deadlock();
}
// [end snippet yield]

// [snippet barrier]
void release_barrier() {
  at_barrier_count = 0;
  barrier_token = new_token();
  for (unsigned i = 0; i < thread_count; ++i) {
    if (threads[i].state == State::kAtBarrier) threads[i].state = State::kReady;
  }
}
// [end snippet barrier]

// All who wait do so at one line: looking at the first of them is enough.
void check_same_barrier(CallSite site) {
  const auto waiting =
      std::find_if(threads.begin(), threads.begin() + thread_count,
                   [](const Thread& thread) { return thread.state == State::kAtBarrier; });
  if (!(waiting->site == site)) fail("threads wait at different __syncthreads()", site);
}

void check_mask(unsigned mask, CallSite site) {
  const unsigned first = running - running % kLanes;
  const unsigned in_block = std::min(kLanes, thread_count - first);
  if ((mask >> lane() & 1u) == 0) fail("the calling lane is not in the mask", site);
  if (in_block < kLanes && mask >> in_block != 0) {
    fail("the mask names lanes that the block does not have", site);
  }
  if ((mask & warps[running / kLanes].ended) != 0)
    fail("the mask names a lane that has ended", site);
}

// The last lane of a mask has arrived: all of them get their answers and can go on.
void answer_lanes(Warp& warp, unsigned mask, CallSite site) {
  Thread* const lanes = &threads[running - running % kLanes];
  const auto for_mask = [&](const auto& visit) {
    for (unsigned l = 0; l < kLanes; ++l) {
      if ((mask >> l & 1u) != 0) visit(lanes[l]);
    }
  };
  for_mask([&](const Thread& thread) {
    if (thread.mask != mask) fail("lanes meet with different masks", site);
    if (!(thread.site == site)) fail("lanes meet at different warp collectives", site);
  });
  for_mask([&](Thread& thread) {
    thread.result = thread.answer(warp.brought, mask, thread.number);
    thread.state = State::kReady;
  });
  warp.arrived &= ~mask;
  warp.token = new_token();
}

// ---- running a grid

// What every fiber runs.
void thread_main() {
  self().fiber.entered();
  kernel.call(kernel.argument);
  IF_TSAN(__tsan_release(&end_of_grid);)
  self().state = State::kEnded;
  warps[running / kLanes].ended |= 1u << lane();
  --live_count;
  if (live_count > 0 && at_barrier_count == live_count) release_barrier();
  yield();  // for good
}

void shuffle_order(std::mt19937& numbers) {
  for (unsigned i = thread_count; i > 1; --i) std::swap(order[i - 1], order[numbers() % i]);
}

void set_order() {
  static std::mt19937 numbers(1);
  const char* variable = std::getenv("SPECDEC_THREAD_ORDER");
  const std::string_view name = variable == nullptr ? "forward" : variable;
  std::iota(order.begin(), order.begin() + thread_count, 0u);
  if (name == "reverse") {
    std::reverse(order.begin(), order.begin() + thread_count);
  } else if (name == "random") {
    shuffle_order(numbers);
  } else if (name != "forward") {
    std::fprintf(stderr, "SPECDEC_THREAD_ORDER is '%s'; it takes forward, reverse or random\n",
                 variable);
    std::exit(2);
  }
}

void run_block(std::size_t shared_bytes) {
  set_order();
  map_stacks(thread_count);
  start_shared_memory(shared_bytes);
  live_count = thread_count;
  at_barrier_count = 0;
  barrier_token = new_token();
  for (Warp& warp : warps) warp = {{}, 0, 0, new_token()};
  for (unsigned i = 0; i < thread_count; ++i) {
    Thread& thread = threads[i];
    thread.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    thread.state = State::kReady;
    thread.site = kEntry;
    thread.fiber.start(stack(i), thread_main);
  }
  take_turn(0);
  host.switch_to(self().fiber);
}

}  // namespace

bool CallSite::operator==(const CallSite& other) const {
  return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
}

int lane() { return static_cast<int>(running % kLanes); }

// [snippet sync-block]
void sync_block(CallSite site) {
  self().site = site;
  if (at_barrier_count > 0) check_same_barrier(site);
  IF_TSAN(char* const token = barrier_token; __tsan_release(token);)
  if (++at_barrier_count == live_count) {
    release_barrier();
  } else {
    self().state = State::kAtBarrier;
    yield();
  }
  IF_TSAN(__tsan_acquire(token);)
}
// [end snippet sync-block]

void thread_fence() {
  IF_TSAN(static char all_fences; __tsan_acquire(&all_fences); __tsan_release(&all_fences);)
}

// [snippet warp-collective]
std::uint64_t warp_collective(unsigned mask, std::uint64_t value, Answer answer, int number,
                              [[maybe_unused]] bool orders_memory, CallSite site) {
  Thread& me = self();
  Warp& warp = warps[running / kLanes];
  me.site = site;
  check_mask(mask, site);
  me.mask = mask;
  me.answer = answer;
  me.number = number;
  warp.brought[running % kLanes] = value;
  IF_TSAN(char* const token = warp.token; if (orders_memory) __tsan_release(token);)
  warp.arrived |= 1u << lane();
  if ((warp.arrived & mask) == mask) {
    answer_lanes(warp, mask, site);
  } else {
    me.state = State::kAtCollective;
    yield();
  }
  IF_TSAN(if (orders_memory) __tsan_acquire(token);)
  return me.result;
}
// [end snippet warp-collective]

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, void (*kernel_call)(void*),
              void* argument) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  thread_count = block.x * block.y * block.z;
  kernel = {kernel_call, argument};
  gridDim = grid;
  blockDim = block;
  host.adopt_host();
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block(shared_bytes);
      }
    }
  }
  IF_TSAN(__tsan_acquire(&end_of_grid);)  // the host sees all that the kernel did
}

void fail(const char* what, CallSite site) {
  std::fprintf(stderr,
               "%s:%d: CUDA emulation: %s\n"
               "  thread (%u,%u,%u) of block (%u,%u,%u); the threads of this block:\n",
               site.file, site.line, what, threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x,
               blockIdx.y, blockIdx.z);
  constexpr std::array kStates{"run; last at", "wait for the block at", "wait for their warp at",
                               "have ended; last at"};
  for (unsigned i = 0, next; i < thread_count; i = next) {
    const Thread& thread = threads[i];
    for (next = i + 1; next < thread_count; ++next) {
      if (threads[next].state != thread.state || !(threads[next].site == thread.site)) break;
    }
    std::fprintf(stderr, "  %4u to %-4u %s %s", i, next - 1,
                 kStates[static_cast<std::size_t>(thread.state)], thread.site.file);
    std::fprintf(stderr, thread.site == kEntry ? "\n" : ":%d\n", thread.site.line);
  }
  std::abort();
}

}  // namespace specdec::emulation
