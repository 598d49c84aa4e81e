#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kernels/emulation/scheduler.h"

namespace specdec::emulation {

// What a thread has asked to be copied, and has not waited for. A GPU may write the data at any
// time between the request and the wait. So the request fills the destination with NaNs, and the
// wait brings the data: a kernel computes wrong values if it reads too early, or if it refills a
// buffer that other threads still read. All accesses are inlined into the kernel, so the sanitizers
// see them. Reports a wrong alignment, and a source or a destination that changes in flight.
class CopyQueue {
 public:
  // [snippet copy-request]
  // Requests `size` bytes, 4, 8 or 16: `reads` bytes from `from`, then zeros.
  void add(void* to, const void* from, int reads, int size) {
    if (count_ == kMost) std::abort();
    check_aligned(to, size);
    check_aligned(from, size);
    // Before it waits, an early kernel has no shared memory; what it gets then is full of NaNs.
    const bool spoils = !runs_early();
    at(count_++) = {to, from, reads, size, spoils, read(from, reads)};
    if (spoils) write(to, kNan, size);
  }
  // [end snippet copy-request]

  // Everything requested since the last call, if anything, becomes a group.
  void end_group() {
    if (groups_ == kMostGroups) std::abort();
    ends_[groups_++] = count_;
  }
  // Finishes all groups except the latest `later`.
  void finish_groups(int later) {
    const int done = groups_ - later;
    if (done <= 0) return;
    const int finished = finish(ends_[done - 1]);
    for (int i = done; i < groups_; ++i) ends_[i - done] = ends_[i] - finished;
    groups_ = later;
  }
  void finish_all() {
    finish(count_);
    groups_ = 0;
  }

 private:
  struct Bytes {
    std::uint64_t half[2];
    bool operator==(const Bytes&) const = default;
  };
  static constexpr Bytes kNan = {{~std::uint64_t{0}, ~std::uint64_t{0}}};
  struct Copy {
    void* to;
    const void* from;
    int reads, size;
    bool spoiled;  // the destination, by the request
    Bytes early;   // the source when the copy was requested
  };

  // `count` bytes, then zeros.
  static Bytes read(const void* from, int count) {
    Bytes bytes = {};
    count == 16 ? std::memcpy(&bytes, from, 16) : std::memcpy(&bytes, from, count);
    return bytes;
  }
  static void write(void* to, const Bytes& bytes, int size) {
    size == 16 ? std::memcpy(to, &bytes, 16) : std::memcpy(to, &bytes, size);
  }
  // Finishes the first `count` copies; returns count.
  int finish(int count) {
    for (int i = 0; i < count; ++i) {
      const auto& [to, from, reads, size, spoiled, early] = at(i);
      if (read(from, reads) != early) {
        fail("what an asynchronous copy reads was changed in flight", {__FILE__, __LINE__});
      }
      if (spoiled && read(to, size) != read(&kNan, size)) {
        fail("what an asynchronous copy writes was changed in flight", {__FILE__, __LINE__});
      }
      write(to, early, size);
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
};

}  // namespace specdec::emulation
