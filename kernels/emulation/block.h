#pragma once
#include <array>

#include "kernels/emulation/block_memory.h"
#include "kernels/emulation/fibers.h"
#include "kernels/emulation/scheduler.h"
#include "kernels/emulation/thread_order.h"

// What the scheduler knows of threads and blocks. Only scheduler.cpp, cluster.cpp
// and warpgroup.cpp include it.
namespace specdec::emulation {

enum class State {
  kReady,
  kAtBarrier,
  kAtCluster,
  kAtCollective,
  kAtGridBefore,
  kAtObject,
  kEnded
};
inline constexpr std::array kStates{"run; last at",  // in reports
                                    "wait for the block at",
                                    "wait for the cluster at",
                                    "wait for their warp at",
                                    "wait for the kernel before at",
                                    "wait for a barrier or their warpgroup at",
                                    "have ended; last at"};

inline constexpr CallSite kEntry{"the kernel's entry", 0};

struct Thread {
  Fiber fiber;
  uint3 index;
  State state;
  bool lets_next_begin;
  CallSite site = kEntry;  // the last barrier or collective reached
  // The collective that the thread is in.
  const void* object;  // that the thread waits for
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

// A block and its kernel.
struct Block {
  std::array<Thread, kMaxThreads> threads;
  std::array<Warp, kMaxThreads / kLanes> warps;
  ThreadOrder order;
  uint3 index;
  unsigned rank = 0;                  // in its cluster
  unsigned thread_count, live_count;  // live: not ended
  unsigned at_barrier_count;
  unsigned running;  // the thread that runs
  char* barrier_token;
  bool begun;                      // a thread has begun
  char *begin_token, *end_token;   // of the block in its cluster
  const Launch* launch = nullptr;  // null: unused
  bool early = false;              // the previous kernel has not ended
};

// The blocks that run together: those of a cluster, otherwise one.
struct Cluster {
  std::array<Block*, kMostOfCluster> blocks;  // by rank
  unsigned size;
  ThreadOrder order;  // of the ranks
  unsigned live_count;
  unsigned at_barrier_count;
  CallSite site = kEntry;  // of the barrier
  char* barrier_token;
};

extern Block* now;       // the one that runs
extern Cluster cluster;  // its cluster

inline Thread& self() { return now->threads[now->running]; }
inline void make_ready(Block& block, State waiting) {
  for (unsigned i = 0; i < block.thread_count; ++i) {
    if (block.threads[i].state == waiting) block.threads[i].state = State::kReady;
  }
}
void yield();

// A thread of a cluster begins, or ends. All of its live threads are at its barrier.
void begin_in_cluster();
void end_in_cluster();
void release_cluster();

}  // namespace specdec::emulation
