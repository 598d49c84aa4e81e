#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/device_code.h"

// A thread's asynchronous copies from global into shared memory: the thread continues while they
// are in flight, and no register holds the data (cp.async of compute capability 8.0; PTX ISA, "Data
// Movement: asynchronous copy"). A thread may divide its copies into groups, and wait only for the
// older ones. The emulated copies write as late as possible, so that a test fails if a wait is
// missing, and report if their source changes in flight. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

class AsyncCopies {
 public:
  // 16 bytes. REQUIRES: both addresses at multiples of 16.
  __device__ void copy16(void* to, const void* from) { copy16(to, from, 16); }
  // `count` bytes, up to 16, then zeros: 16 in all. If count is 0, nothing is read.
  __device__ void copy16(void* to, const void* from, int count) {
#ifdef SPECDEC_EMULATED
    add(to, from, count, 16);
#else
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(count)
                 : "memory");
#endif
  }
  // 4 bytes, or zeros.
  __device__ void copy4(void* to, const void* from, bool reads = true) {
    copy_few<4>(to, from, reads);
  }
  // 8 bytes, or zeros. REQUIRES: both addresses at multiples of 8.
  __device__ void copy8(void* to, const void* from, bool reads) { copy_few<8>(to, from, reads); }

  // All copies since the last end_group(), if any, become a group.
  __device__ void end_group() {
#ifdef SPECDEC_EMULATED
    if (groups_ == kMostGroups) std::abort();
    ends_[groups_++] = count_;
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }

  // Returns when all groups except the latest kLater have arrived, for this thread. The other
  // threads of the block see them after a barrier.
  template <int kLater>
  __device__ void wait_for_groups() {
#ifdef SPECDEC_EMULATED
    const int done = groups_ - kLater;
    if (done <= 0) return;
    const int finished = finish(ends_[done - 1]);
    for (int i = done; i < groups_; ++i) ends_[i - done] = ends_[i] - finished;
    groups_ = kLater;
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
#endif
  }
  // Waits for all copies.
  __device__ void wait() {
#ifdef SPECDEC_EMULATED
    finish(count_);
    groups_ = 0;
#else
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }

 private:
  template <int kBytes>
  __device__ void copy_few(void* to, const void* from, bool reads) {
#ifdef SPECDEC_EMULATED
    add(to, from, reads ? kBytes : 0, kBytes);
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(reads ? kBytes : 0), "n"(kBytes)
                 : "memory");
#endif
  }

#ifdef SPECDEC_EMULATED
  struct Bytes {
    std::uint64_t half[2];
    bool operator==(const Bytes&) const = default;
  };
  struct Copy {
    void* to;
    const void* from;
    int reads, size;
    Bytes early;  // the source when the copy was requested
  };
  // `count` bytes, then zeros.
  static Bytes read(const void* from, int count) {
    Bytes bytes = {};
    count == 16 ? std::memcpy(&bytes, from, 16) : std::memcpy(&bytes, from, count);
    return bytes;
  }
  void add(void* to, const void* from, int reads, int size) {
    if (count_ == kMost) std::abort();
    at(count_++) = {to, from, reads, size, read(from, reads)};
  }
  // Finishes the first `count` copies; returns count.
  int finish(int count) {
    for (int i = 0; i < count; ++i) {
      const auto& [to, from, reads, size, early] = at(i);
      if (read(from, reads) != early) {
        emulation::fail("what an asynchronous copy reads was changed in flight",
                        {__FILE__, __LINE__});
      }
      size == 16 ? std::memcpy(to, &early, 16) : std::memcpy(to, &early, size);
    }
    first_ = (first_ + count) % kMost;
    count_ -= count;
    return count;
  }
  Copy& at(int i) { return copies_[(first_ + i) % kMost]; }

  static constexpr unsigned kMost = 160;
  static constexpr int kMostGroups = 8;
  Copy copies_[kMost];  // a ring
  unsigned first_ = 0, count_ = 0;
  int ends_[kMostGroups];
  int groups_ = 0;
#else
  __device__ static unsigned shared_address(const void* address) {
    return __cvta_generic_to_shared(address);
  }
#endif
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
