#pragma once
#include "kernels/cuda/device_code.h"

// A thread's asynchronous copies from global into shared memory: the thread continues while they
// are in flight, and no register holds the data (cp.async of compute capability 8.0; PTX ISA, "Data
// Movement: asynchronous copy"). A thread may divide its copies into groups, and wait only for the
// older ones. Between the request and the wait, the destination holds neither old nor new data;
// emulation/copy_queue.h makes a kernel that reads it compute NaN. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

class AsyncCopies {
 public:
  // 16 bytes. REQUIRES: both addresses at multiples of 16.
  __device__ void copy16(void* to, const void* from) { copy16(to, from, 16); }
  // `count` bytes, up to 16, then zeros: 16 in all. If count is 0, nothing is read.
  __device__ void copy16(void* to, const void* from, int count) {
#ifdef SPECDEC_EMULATED
    queue_.add(to, from, count, 16);
#else
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(count)
                 : "memory");
#endif
  }
  // 4 bytes, or zeros. REQUIRES: both addresses at multiples of 4.
  __device__ void copy4(void* to, const void* from, bool reads = true) {
    copy_few<4>(to, from, reads);
  }
  // 4 or 8 bytes, or zeros. REQUIRES: both addresses at multiples of that.
  template <int kBytes>
  __device__ void copy_few(void* to, const void* from, bool reads) {
#ifdef SPECDEC_EMULATED
    queue_.add(to, from, reads ? kBytes : 0, kBytes);
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(reads ? kBytes : 0), "n"(kBytes)
                 : "memory");
#endif
  }

  // All copies since the last end_group(), if any, become a group.
  __device__ void end_group() {
#ifdef SPECDEC_EMULATED
    queue_.end_group();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }

  // Returns when all groups except the latest kLater have arrived, for this thread. The other
  // threads of the block see them after a barrier.
  template <int kLater>
  __device__ void wait_for_groups() {
#ifdef SPECDEC_EMULATED
    queue_.finish_groups(kLater);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
#endif
  }
  // Waits for all copies.
  __device__ void wait() {
#ifdef SPECDEC_EMULATED
    queue_.finish_all();
#else
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }

 private:
#ifdef SPECDEC_EMULATED
  emulation::CopyQueue queue_;
#else
  __device__ static unsigned shared_address(const void* address) {
    return __cvta_generic_to_shared(address);
  }
#endif
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
