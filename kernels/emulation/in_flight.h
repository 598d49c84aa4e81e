#pragma once
#include "kernels/emulation/shared_barriers.h"
#include "kernels/emulation/warpgroup.h"

// What the running block has requested and not awaited: copies of boxes, and products of
// warpgroups. Only scheduler.cpp includes it.
namespace specdec::emulation {

inline void forget_in_flight() {  // a block begins
  forget_barriers();
  forget_products();
}
inline void check_nothing_in_flight() {  // a block has ended
  check_no_copies_in_flight();
  check_no_products_in_flight();
}
// Why no thread of the block can run, otherwise null.
inline const char* why_threads_wait() {
  const char* const reason = why_barriers_wait();
  return reason != nullptr ? reason : why_warpgroups_wait();
}

}  // namespace specdec::emulation
