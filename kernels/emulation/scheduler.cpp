#include "kernels/emulation/scheduler.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>

#include "kernels/emulation/block.h"
#include "kernels/emulation/block_memory.h"
#include "kernels/emulation/in_flight.h"
#include "kernels/emulation/sanitizers.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace specdec::emulation {
namespace {

// The first blocks of kKernels kernels, because a kernel may begin before the previous one has
// ended, and so may the kernel after it. Then the other blocks of a cluster.
std::array<Block, kBlocks> blocks;
const std::span<Block> first_blocks(blocks.data(), kKernels);
Fiber host;
std::mutex one_at_a_time;

std::array<char, 1 << 16> tokens;
[[maybe_unused]] char end_of_grid;

}  // namespace

Block* now = &blocks[0];
Cluster cluster;

namespace {

// ---- whose turn it is

void take_turn(unsigned thread) {
  now->running = thread;
  threadIdx = self().index;
}
bool can_run(unsigned thread) { return now->threads[thread].state == State::kReady; }
bool has_ready(unsigned rank) {
  const Block& block = *cluster.blocks[rank];
  return std::any_of(block.threads.begin(), block.threads.begin() + block.thread_count,
                     [](const Thread& thread) { return thread.state == State::kReady; });
}
void enter(unsigned rank) {
  now = cluster.blocks[rank];
  blockIdx = now->index;
}

[[noreturn]] void report_deadlock() {
  while (now->live_count == 0) enter((now->rank + 1) % cluster.size);
  const auto waiting =
      std::find_if(now->threads.begin(), now->threads.end(),
                   [](const Thread& thread) { return thread.state != State::kEnded; });
  threadIdx = waiting->index;
  const char* const reason = why_threads_wait();
  fail(reason != nullptr ? reason : "deadlock: every thread of the block waits or has ended",
       waiting->site);
}

}  // namespace

// [snippet yield]
// The running thread passes its turn to the next one that can run. If it waits for its warp, the
// next one is of that warp if possible: so a warp may be far ahead of others, as on a GPU. If no
// thread of the block can run, another block of the cluster does. If all have ended, or none can
// continue until the previous kernel ends, control passes to the host.
void yield() {
  Thread& me = self();
  const bool ended = me.state == State::kEnded;
  if (cluster.live_count == 0) return me.fiber.switch_to(host, ended);
  unsigned next = now->running;
  if (me.state == State::kAtCollective) next = now->order.next_in_warp(now->running, can_run);
  if (next == now->running) next = now->order.next(now->running, can_run);
  if (next == now->running) {
    const unsigned rank = cluster.order.next(now->rank, has_ready);
    if (rank == now->rank && now->early) return me.fiber.switch_to(host, ended);
    if (rank == now->rank) report_deadlock();
    enter(rank);
    next = now->order.first(can_run);
  }
  take_turn(next);
  me.fiber.switch_to(self().fiber, ended);
}
// [end snippet yield]

namespace {

void release_barrier() {
  now->at_barrier_count = 0;
  now->barrier_token = new_token();
  make_ready(*now, State::kAtBarrier);
}

// All waiting threads wait at the same line, so checking the first one is enough.
void check_same_barrier(CallSite site) {
  const auto waiting =
      std::find_if(now->threads.begin(), now->threads.begin() + now->thread_count,
                   [](const Thread& thread) { return thread.state == State::kAtBarrier; });
  if (!(waiting->site == site)) fail("threads wait at different __syncthreads()", site);
}

void check_mask(unsigned mask, CallSite site) {
  const unsigned first = now->running - now->running % kLanes;
  const unsigned in_block = std::min(kLanes, now->thread_count - first);
  if ((mask >> lane() & 1u) == 0) fail("the calling lane is not in the mask", site);
  if (in_block < kLanes && mask >> in_block != 0) {
    fail("the mask names lanes that the block does not have", site);
  }
  if ((mask & now->warps[now->running / kLanes].ended) != 0)
    fail("the mask names a lane that has ended", site);
}

// The last lane of a mask has arrived: all its lanes get their answers and can continue.
void answer_lanes(Warp& warp, unsigned mask, CallSite site) {
  Thread* const lanes = &now->threads[now->running - now->running % kLanes];
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

// The body of every fiber.
void thread_main() {
  self().fiber.entered();
  if (cluster.size > 1) begin_in_cluster();
  now->launch->kernel();
  if (now->early) fail("a thread has ended without waiting for the kernel before this one", kEntry);
  if (cluster.size > 1) end_in_cluster();
  IF_TSAN(__tsan_release(&end_of_grid);)
  self().state = State::kEnded;
  now->warps[now->running / kLanes].ended |= 1u << lane();
  --now->live_count;
  --cluster.live_count;
  if (now->live_count > 0 && now->at_barrier_count == now->live_count) release_barrier();
  if (cluster.live_count > 0 && cluster.at_barrier_count == cluster.live_count) release_cluster();
  yield();  // for good
}

void start_threads() {
  now->order.start(now->thread_count);
  const unsigned first_stack = running_block() * kMaxThreads;
  map_stacks(first_stack, now->thread_count);
  now->live_count = now->thread_count;
  now->at_barrier_count = 0;
  now->barrier_token = new_token();
  now->begun = false;
  now->begin_token = new_token();
  now->end_token = new_token();
  forget_in_flight();
  for (Warp& warp : now->warps) warp = {{}, 0, 0, new_token()};
  for (unsigned i = 0; i < now->thread_count; ++i) {
    Thread& thread = now->threads[i];
    thread.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    thread.state = State::kReady;
    thread.lets_next_begin = false;
    thread.site = kEntry;
    thread.fiber.start(stack(first_stack + i), thread_main);
  }
}

// Runs until all threads of the cluster have ended, or wait for the previous kernel.
void run_threads() {
  cluster.order.start(cluster.size);
  cluster.live_count = 0;
  for (unsigned rank = 0; rank < cluster.size; ++rank) {
    cluster.live_count += cluster.blocks[rank]->live_count;
  }
  cluster.at_barrier_count = 0;
  cluster.barrier_token = new_token();
  enter(cluster.order.first(has_ready));
  take_turn(now->order.first(can_run));
  host.switch_to(self().fiber);
}

// Calls visit() in each block of the cluster.
template <typename Visit>
void in_each_block(const Visit& visit) {
  for (unsigned rank = 0; rank < cluster.size; ++rank) {
    enter(rank);
    visit();
  }
}

// Makes the blocks of the launch those that run: `first`, and the other blocks of a cluster.
void gather(Block& first, const Launch& launch) {
  cluster.size = launch.cluster;
  for (unsigned rank = 0; rank < cluster.size; ++rank) {
    Block& block = rank == 0 ? first : blocks[kKernels + rank - 1];
    block.rank = rank;
    block.launch = &launch;
    block.thread_count = launch.block.x * launch.block.y * launch.block.z;
    cluster.blocks[rank] = &block;
  }
  gridDim = launch.grid;
  blockDim = launch.block;
  host.adopt_host();
}

// The block that has begun early for this launch, or null.
Block* begun(const Launch& launch) {
  const auto found = std::ranges::find(first_blocks, &launch, &Block::launch);
  return found != first_blocks.end() ? &*found : nullptr;
}
// REQUIRES: there is one.
Block& free_block() { return *std::ranges::find(first_blocks, nullptr, &Block::launch); }

// CUDA refuses such a launch, or gives each block its own. Here it is known when a block has run.
void check_shared_bytes() {
  const std::size_t dynamic_bytes = now->launch->shared_bytes, most = now->launch->shared_limit;
  const bool in_cluster = cluster.size > 1;
  if (!in_cluster && dynamic_bytes + static_shared_bytes() <= most) return;  // of all kernels
  const std::size_t written = written_static_shared_bytes();
  if (in_cluster && written > 0) {
    fail("blocks of a cluster use static shared memory, which the emulation has only once", kEntry);
  }
  if (dynamic_bytes + written > most) {
    fail("static and dynamic shared memory together exceed the limit of a block", kEntry);
  }
}

void start_block() {
  start_shared_memory(now->launch->shared_bytes);
  if (!std::exchange(now->early, false)) return start_threads();
  IF_TSAN(__tsan_release(&end_of_grid);)   // the host has filled shared memory
  make_ready(*now, State::kAtGridBefore);  // the previous kernel has ended
}

void check_end_of_block() {
  if (cluster.size > 1 && !dynamic_memory_is_fresh(now->launch->shared_bytes)) {
    fail("another block has written into this one's memory after it ended", kEntry);
  }
  check_nothing_in_flight();
  check_shared_bytes();
}

}  // namespace

bool CallSite::operator==(const CallSite& other) const {
  return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
}

int lane() { return now->running % kLanes; }

bool runs_early() { return now->early; }

unsigned running_block() { return static_cast<unsigned>(now - blocks.data()); }

char* new_token() {
  static std::uint16_t next = 0;
  return &tokens[next++];
}

void wait_for(const void* object, CallSite site) {
  Thread& me = self();
  me.site = site;
  me.object = object;
  me.state = State::kAtObject;
  yield();
}
void wake(const void* object) {
  for (unsigned i = 0; i < now->thread_count; ++i) {
    Thread& thread = now->threads[i];
    if (thread.state == State::kAtObject && thread.object == object) thread.state = State::kReady;
  }
}

// [snippet sync-block]
void sync_block(CallSite site) {
  self().site = site;
  if (now->at_barrier_count > 0) check_same_barrier(site);
  IF_TSAN(char* const token = now->barrier_token; __tsan_release(token);)
  if (++now->at_barrier_count == now->live_count) {
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
  Warp& warp = now->warps[now->running / kLanes];
  me.site = site;
  check_mask(mask, site);
  me.mask = mask;
  me.answer = answer;
  me.number = number;
  warp.brought[now->running % kLanes] = value;
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

bool begin_early(const Launch& next, const Launch& coming) {
  const std::lock_guard lock(one_at_a_time);
  const auto free = std::ranges::count(first_blocks, nullptr, &Block::launch);
  const bool room = free > (begun(coming) == nullptr ? 1 : 0);  // `coming` needs a block, too
  if (begun(next) != nullptr || !room || next.cluster > 1) return false;
  gather(free_block(), next);
  cluster.blocks[0]->index = {0, 0, 0};
  enter(0);
  now->early = true;
  start_threads();
  run_threads();
  return true;
}

bool lets_next_begin(const Launch& launch) {
  const Block* const block = begun(launch);
  return block != nullptr &&
         std::all_of(block->threads.begin(), block->threads.begin() + block->thread_count,
                     [](const Thread& thread) { return thread.lets_next_begin; });
}

void let_next_begin() { self().lets_next_begin = true; }

void wait_for_grid_before(CallSite site) {
  if (!now->early) return;
  self().site = site;
  self().state = State::kAtGridBefore;
  yield();
  IF_TSAN(__tsan_acquire(&end_of_grid);)
}

void run_grid(const Launch& launch) {
  const std::lock_guard lock(one_at_a_time);
  Block* const early = begun(launch);
  gather(early != nullptr ? *early : free_block(), launch);
  for (unsigned z = 0; z < launch.grid.z; ++z) {
    for (unsigned y = 0; y < launch.grid.y; ++y) {
      for (unsigned x = 0; x < launch.grid.x; x += launch.cluster) {
        for (unsigned i = 0; i < launch.cluster; ++i) cluster.blocks[i]->index = {x + i, y, z};
        in_each_block(start_block);
        run_threads();
        in_each_block(check_end_of_block);
      }
    }
  }
  cluster.blocks[0]->launch = nullptr;
  IF_TSAN(__tsan_acquire(&end_of_grid);)  // the host sees all that the kernel did
}

void fail(const char* what, CallSite site) {
  std::fprintf(stderr,
               "%s:%d: CUDA emulation: %s\n"
               "  thread (%u,%u,%u) of block (%u,%u,%u); the threads of this block:\n",
               site.file, site.line, what, threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x,
               blockIdx.y, blockIdx.z);
  for (unsigned i = 0, next; i < now->thread_count; i = next) {
    const Thread& thread = now->threads[i];
    for (next = i + 1; next < now->thread_count; ++next) {
      if (now->threads[next].state != thread.state || !(now->threads[next].site == thread.site))
        break;
    }
    std::fprintf(stderr, "  %4u to %-4u %s %s", i, next - 1,
                 kStates[static_cast<int>(thread.state)], thread.site.file);
    std::fprintf(stderr, thread.site == kEntry ? "\n" : ":%d\n", thread.site.line);
  }
  std::abort();
}

}  // namespace specdec::emulation
