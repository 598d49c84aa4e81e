#pragma once
#include <cstdlib>

#include "kernels/cuda/device_code.h"

// Copies of a thread from global into shared memory that are on their way while it goes on, without
// a register between (cp.async of compute capability 8.0; PTX ISA, "Data Movement: asynchronous
// copy"). The emulated one happens as late as it may, so that a missing wait() shows. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

class AsyncCopies {
 public:
  // Four floats. REQUIRES: both addresses at multiples of 16 bytes.
  __device__ void copy4(float* to, const float* from) {
#ifdef SPECDEC_EMULATED
    for (int i = 0; i < 4; ++i) copy(to + i, from + i);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
#endif
  }
  __device__ void copy(float* to, const float* from) {
#ifdef SPECDEC_EMULATED
    if (count_ == kMost) std::abort();
    to_[count_] = to;
    from_[count_++] = from;
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
#endif
  }

  // Returns when all of them are there, for this thread; for the others of the block after a
  // barrier.
  __device__ void wait() {
#ifdef SPECDEC_EMULATED
    for (int i = 0; i < count_; ++i) *to_[i] = *from_[i];
    count_ = 0;
#else
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }

 private:
#ifdef SPECDEC_EMULATED
  static constexpr int kMost = 64;
  float* to_[kMost];
  const float* from_[kMost];
  int count_ = 0;
#else
  __device__ static unsigned shared_address(const float* address) {
    return static_cast<unsigned>(__cvta_generic_to_shared(address));
  }
#endif
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
