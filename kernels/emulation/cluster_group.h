#pragma once
#include "kernels/emulation/scheduler.h"

// The cluster of the running block, by the names of CUDA's cooperative groups. Reports threads that
// wait at different barriers, a rank that the cluster does not have, and an address that is not in
// the block's dynamic shared memory. What a block finds in the memory of one that has not begun or
// has ended is NaN; if it writes there, that is reported, too.
namespace cooperative_groups {

class cluster_group {
 public:
  // Returns when all threads of the cluster that have not ended have called it.
  static void sync(SPECDEC_CALL_SITE) { specdec::emulation::sync_cluster(site); }
  static unsigned block_rank() { return specdec::emulation::rank_in_cluster(); }
  static unsigned num_blocks() { return specdec::emulation::blocks_of_cluster(); }
  // What the block of this rank has where the running one has `address`.
  template <typename T>
  static T* map_shared_rank(T* address, int rank, SPECDEC_CALL_SITE) {
    return static_cast<T*>(specdec::emulation::in_block(rank, address, site));
  }
};

inline cluster_group this_cluster() { return {}; }

}  // namespace cooperative_groups
