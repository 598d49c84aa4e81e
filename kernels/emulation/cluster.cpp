#include <utility>

#include "kernels/emulation/block.h"
#include "kernels/emulation/sanitizers.h"

namespace specdec::emulation {

unsigned rank_in_cluster() { return now->rank; }
unsigned blocks_of_cluster() { return cluster.size; }

void release_cluster() {
  cluster.at_barrier_count = 0;
  cluster.barrier_token = new_token();
  for (unsigned rank = 0; rank < cluster.size; ++rank) {
    make_ready(*cluster.blocks[rank], State::kAtCluster);
  }
}

void sync_cluster(CallSite site) {
  self().site = site;
  if (cluster.at_barrier_count > 0 && !(cluster.site == site)) {
    fail("threads wait at different barriers of the cluster", site);
  }
  cluster.site = site;
  IF_TSAN(char* const token = cluster.barrier_token; __tsan_release(token);)
  if (++cluster.at_barrier_count == cluster.live_count) {
    release_cluster();
  } else {
    self().state = State::kAtCluster;
    yield();
  }
  IF_TSAN(__tsan_acquire(token);)
}

// A cluster's blocks begin and end at different times. The first thread of a block is the one that
// fills its memory, and the last one fills it again. So a block that uses another one's memory too
// early or too late reads NaN, has a race to ThreadSanitizer, and if it writes there is a report.
void begin_in_cluster() {
  if (std::exchange(now->begun, true)) {
    IF_TSAN(__tsan_acquire(now->begin_token);)
    return;
  }
  if (!dynamic_memory_is_fresh(now->launch->shared_bytes)) {
    fail("another block has written into this one's memory before it began", kEntry);
  }
  refresh_dynamic_memory(now->launch->shared_bytes);
  IF_TSAN(__tsan_release(now->begin_token);)
}
void end_in_cluster() {
  IF_TSAN(__tsan_release(now->end_token);)
  if (now->live_count > 1) return;
  IF_TSAN(__tsan_acquire(now->end_token);)
  refresh_dynamic_memory(now->launch->shared_bytes);
}

}  // namespace specdec::emulation
