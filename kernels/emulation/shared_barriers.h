#pragma once
#include "kernels/emulation/scheduler.h"
#include "kernels/emulation/tensor_map.h"

// Barriers in shared memory, and the copies that they wait for (PTX ISA, "mbarrier" and
// "cp.async.bulk.tensor"; compute capability 9.0).
//
// A barrier counts arrivals and bytes, in one phase after the other. A phase ends when its count of
// threads has arrived, and copies have brought as many bytes as the threads expected. A copy lands
// as late as it may: when a thread waits for the phase. From the request until then, its
// destination is full of NaNs.
//
// Reports a barrier that is used before its init, too many arrivals, a phase that expects fewer
// bytes than come, or more; a source or destination that changes in flight; copies that are in
// flight when the block ends.
namespace specdec::emulation {

// A barrier for `count` arrivals per phase. barrier: its address, where nothing is written.
void init_barrier(const void* barrier, int count, SPECDEC_CALL_SITE);
// Arrives, and adds `bytes` to those that the phase expects.
void arrive_at_barrier(const void* barrier, int bytes, SPECDEC_CALL_SITE);
// Returns when the phase of this parity, 0 or 1, has ended, so at once if the present phase has the
// other parity.
void wait_at_barrier(const void* barrier, int parity, SPECDEC_CALL_SITE);

// Requests the box of the matrix that begins at this row and column. In shared memory, its rows
// follow each other without a gap; what is outside the matrix is zero. REQUIRES: `to` at a multiple
// of 128 bytes.
void copy_box(void* to, const CUtensorMap& from, int column, int row, const void* barrier,
              SPECDEC_CALL_SITE);

// For the scheduler: a block begins, or ends; why no thread of the block can run, otherwise null.
void forget_barriers();
void check_no_copies_in_flight();
const char* why_barriers_wait();

}  // namespace specdec::emulation
